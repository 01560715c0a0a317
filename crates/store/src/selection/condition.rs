//! Conditions on selected versions, beyond the place and the time of the selection.

use std::collections::BTreeSet;
use std::sync::Arc;

use model::{DirPath, Name, Object, PackNumber, Payload, ServerTime, Version, mount_point};
use policy::Pattern;

use super::VersionBatch;

/// Conditions on the versions of one filespace. All of them must hold.
#[derive(Clone, Debug, Default)]
pub struct VersionCondition {
    /// Pattern that the path of the object on the node matches.
    pub pattern: Option<Pattern>,
    /// Time at which the version was not active.
    pub absent_at: Option<ServerTime>,
    /// Packs of which the version has at least one chunk.
    pub packs: Option<Arc<BTreeSet<PackNumber>>>,
}

impl VersionCondition {
    /// Removes the versions that do not meet the conditions from a batch of `filespace`.
    pub fn apply(&self, filespace: &[u8], batch: &mut VersionBatch) {
        let VersionBatch { directory, versions } = batch;
        versions.retain(|version| self.holds(filespace, directory, version));
    }

    fn holds(&self, filespace: &[u8], directory: &DirPath, version: &Version) -> bool {
        let is_absent = self.absent_at.is_none_or(|time| !version.stood_at(time));
        is_absent
            && self.packs.as_ref().is_none_or(|packs| has_chunk_in(&version.object, packs))
            && self.pattern.as_ref().is_none_or(|pattern| {
                pattern.matches(&path_on_node(filespace, directory, &version.object.name))
            })
    }
}

/// Returns true if a chunk of the object is in one of the packs.
fn has_chunk_in(object: &Object, packs: &BTreeSet<PackNumber>) -> bool {
    let Payload::Extents(extents) = &object.payload else { return false };
    // The chunks of an extent are all in one pack.
    let mut ranges = extents.iter().filter_map(|extent| extent.chunks());
    ranges.any(|range| packs.contains(&range.first.pack()))
}

/// Returns the path of an object on its node.
fn path_on_node(filespace: &[u8], directory: &DirPath, name: &Name) -> Vec<u8> {
    let path = directory.join(name);
    match (mount_point(filespace), &path[..]) {
        (b"/", _) => path,
        (mount_point, b"/") => mount_point.to_vec(),
        (mount_point, _) => [mount_point, &path].concat(),
    }
}

#[cfg(test)]
mod tests {
    use model::ClassId;

    use super::*;
    use crate::samples::file;

    #[test]
    fn a_path_begins_at_the_mount_point() {
        let directory = DirPath::new(b"/a/").expect("a directory");
        let name = Name::new(b"b").expect("a name");
        assert_eq!(path_on_node(b"/", &directory, &name), b"/a/b");
        assert_eq!(path_on_node(b"/data", &directory, &name), b"/data/a/b");
        let root = DirPath::above_root();
        assert_eq!(path_on_node(b"/data", &root, &Name::root()), b"/data");
        assert_eq!(path_on_node(b"/", &root, &Name::root()), b"/");
    }

    #[test]
    fn versions_that_do_not_meet_the_conditions_go() {
        let check = |pattern: Option<&[u8]>, absent_at: Option<i64>, expected: &[&str]| {
            let version = |name: &str, from, to: Option<i64>| {
                let name = Name::new(name.as_bytes()).expect("a name");
                let mut object = file(name, ClassId(1), 0, Vec::new());
                object.inserted = ServerTime(from);
                Version { object, deactivated: to.map(ServerTime) }
            };
            let versions = vec![version("a.o", 5, Some(10)), version("b.o", 5, None)];
            let directory = DirPath::new(b"/d/").expect("a directory");
            let mut batch = VersionBatch { directory, versions };
            let pattern = pattern.map(|text| Pattern::parse(text).expect("a pattern"));
            let absent_at = absent_at.map(ServerTime);
            VersionCondition { pattern, absent_at, packs: None }.apply(b"/data", &mut batch);
            let left = batch.versions.iter().map(|version| version.object.name.as_bytes());
            let left: Vec<String> = left.map(model::escaped).collect();
            assert_eq!(left, expected);
        };
        check(None, None, &["a.o", "b.o"]);
        check(Some(b"*.o"), None, &["a.o", "b.o"]);
        check(Some(b"/data/d/a*"), None, &["a.o"]);
        check(Some(b"/d/a*"), None, &[]);
        check(None, Some(4), &["a.o", "b.o"]);
        check(None, Some(7), &[]);
        check(None, Some(10), &["a.o"]);
    }
}
