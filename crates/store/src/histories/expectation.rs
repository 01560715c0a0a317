//! The files that a server must have, as far as its answers tell. Pure.
//!
//! An operation that a server has acknowledged has happened. An operation that failed, or that a
//! power cut has interrupted, has happened or not: then the model has both states.

use std::collections::{BTreeMap, BTreeSet};

/// Content of a file, as the numbers of its chunks.
pub(super) type Content = Vec<u64>;

/// A file: the index of its directory, and the index of its name.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct FileId {
    pub(super) directory: usize,
    pub(super) name: usize,
}

/// All versions that a server has.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Versions {
    pub(super) active: BTreeMap<FileId, Content>,
    pub(super) ended: BTreeMap<FileId, Vec<Content>>,
}

/// The versions that a server may have.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Model {
    /// Possible active versions of each file. A file that is missing here has none.
    active: BTreeMap<FileId, BTreeSet<Option<Content>>>,
    ended: BTreeMap<FileId, Vec<EndedVersion>>,
}

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct EndedVersion {
    content: Content,
    /// True if the version must be there.
    is_certain: bool,
}

impl Model {
    /// Returns the model of a server that has `holding` and nothing else.
    pub(super) fn of(holding: Versions) -> Self {
        let certain = |content| EndedVersion { content, is_certain: true };
        let active = holding.active.into_iter();
        let ended = holding.ended.into_iter();
        Self {
            active: active.map(|(file, content)| (file, BTreeSet::from([Some(content)]))).collect(),
            ended: ended
                .map(|(file, contents)| (file, contents.into_iter().map(certain).collect()))
                .collect(),
        }
    }

    fn possible(&self, file: FileId) -> BTreeSet<Option<Content>> {
        self.active.get(&file).cloned().unwrap_or_else(|| BTreeSet::from([None]))
    }

    /// Gives a file a new version, or none.
    pub(super) fn replace(&mut self, file: FileId, content: Option<Content>) {
        let before = self.possible(file);
        let is_certain = before.len() == 1;
        let ended = self.ended.entry(file).or_default();
        for content in before.into_iter().flatten() {
            ended.push(EndedVersion { content, is_certain });
        }
        self.active.insert(file, BTreeSet::from([content]));
    }

    /// Lets a server drop versions that have ended.
    pub(super) fn expire(&mut self) {
        self.ended.values_mut().flatten().for_each(|version| version.is_certain = false);
    }

    /// Returns the model of a server that is in a state of `self` or of `other`.
    pub(super) fn or(&self, other: &Self) -> Self {
        let mut both = Self::default();
        let files: BTreeSet<&FileId> = self.active.keys().chain(other.active.keys()).collect();
        for file in files {
            let contents = self.possible(*file).into_iter().chain(other.possible(*file));
            both.active.insert(*file, contents.collect());
        }
        let files: BTreeSet<&FileId> = self.ended.keys().chain(other.ended.keys()).collect();
        for file in files {
            let of = |model: &Self| model.ended.get(file).cloned().unwrap_or_default();
            both.ended.insert(*file, either(of(self), of(other)));
        }
        both
    }

    /// Returns the reason why no server of the model has `holding`.
    pub(super) fn objection(&self, holding: &Versions) -> Option<String> {
        let files: BTreeSet<&FileId> = self.active.keys().chain(holding.active.keys()).collect();
        for file in files {
            let (found, possible) = (holding.active.get(file), self.possible(*file));
            if !possible.contains(&found.cloned()) {
                return Some(format!("{file:?} is {found:?} and should be one of {possible:?}"));
            }
        }
        let files: BTreeSet<&FileId> = self.ended.keys().chain(holding.ended.keys()).collect();
        for file in files {
            let mut found = holding.ended.get(file).cloned().unwrap_or_default();
            let mut versions = self.ended.get(file).cloned().unwrap_or_default();
            versions.sort_by_key(|version| !version.is_certain);
            for EndedVersion { content, is_certain } in versions {
                match found.iter().position(|found| *found == content) {
                    Some(at) => drop(found.swap_remove(at)),
                    None if is_certain => {
                        return Some(format!("the version {content:?} of {file:?} is lost"));
                    }
                    None => {}
                }
            }
            if !found.is_empty() {
                return Some(format!("{file:?} has the versions {found:?} too many"));
            }
        }
        None
    }
}

/// Returns the versions of a file that has one of two lists of versions.
fn either(mut first: Vec<EndedVersion>, second: Vec<EndedVersion>) -> Vec<EndedVersion> {
    let mut both = Vec::new();
    for mut version in second {
        match first.iter().position(|other| other.content == version.content) {
            Some(at) => version.is_certain &= first.swap_remove(at).is_certain,
            None => version.is_certain = false,
        }
        both.push(version);
    }
    first.iter_mut().for_each(|version| version.is_certain = false);
    both.append(&mut first);
    both
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: FileId = FileId { directory: 0, name: 0 };

    fn holding(active: Option<u64>, ended: &[u64]) -> Versions {
        let content = |number: u64| vec![number];
        let ended: Vec<Content> = ended.iter().copied().map(content).collect();
        Versions {
            active: active.map(|number| (FILE, content(number))).into_iter().collect(),
            ended: BTreeMap::from([(FILE, ended)]),
        }
    }

    #[track_caller]
    fn check(model: &Model, active: Option<u64>, ended: &[u64], fits: bool) {
        let objection = model.objection(&holding(active, ended));
        assert_eq!(objection.is_none(), fits, "{active:?} {ended:?}: {objection:?}");
    }

    #[test]
    fn an_acknowledged_version_must_be_there() {
        let mut model = Model::default();
        model.replace(FILE, Some(vec![1]));
        check(&model, Some(1), &[], true);
        check(&model, None, &[], false);
        check(&model, Some(1), &[1], false);
        model.replace(FILE, Some(vec![2]));
        check(&model, Some(2), &[1], true);
        check(&model, Some(2), &[], false);
        check(&model, Some(1), &[], false);
        model.replace(FILE, None);
        check(&model, None, &[2, 1], true);
        model.expire();
        check(&model, None, &[2], true);
        check(&model, Some(2), &[], false);
    }

    #[test]
    fn an_operation_that_failed_has_happened_or_not() {
        let before = Model::of(holding(Some(1), &[0]));
        let mut after = before.clone();
        after.replace(FILE, Some(vec![2]));
        let either = before.or(&after);
        check(&either, Some(1), &[0], true);
        check(&either, Some(2), &[0, 1], true);
        check(&either, None, &[0], false);
        check(&either, Some(1), &[], false);
        let mut later = either;
        later.replace(FILE, Some(vec![3]));
        check(&later, Some(3), &[0, 1], true);
        check(&later, Some(3), &[0, 1, 2], true);
        check(&later, Some(2), &[0], false);
    }
}
