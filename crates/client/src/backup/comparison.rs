//! Comparison of a walk with the journal: changes that the walk finds where the journal has none.

use model::{DirPath, Name, Stat};
use sys::lock::Mutex;

use super::aim::Aim;
use super::clock_step::NO_CHANGE_TIME;

/// Maximum number of candidates that are kept. Further candidates are counted as differences.
const CANDIDATES_MAX: usize = 10_000;

/// Kind of a change that the journal has not named.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum ChangeKind {
    New,
    Changed,
    Gone,
    /// Only the change time differs. The kernel reports no change of flags (`chattr`).
    Silent,
}

impl ChangeKind {
    fn words(self) -> &'static str {
        match self {
            Self::New => "new",
            Self::Changed => "changed",
            Self::Gone => "gone",
            Self::Silent => "its change time",
        }
    }
}

/// Object that has changed outside the directories that the journal names.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Candidate {
    directory: DirPath,
    name: Name,
    kind: ChangeKind,
}

/// Comparison of one walk.
#[derive(Debug)]
pub(super) struct Comparison {
    aim: Aim,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    candidates: Vec<Candidate>,
    /// Number of candidates that were not kept.
    beyond: u64,
}

/// Result of a comparison.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Differences {
    /// Number of objects whose change the journal has missed.
    pub(super) missed: u64,
    /// Paths of the first of them in the filespace, with the kind of change in words.
    pub(super) first: Vec<(Vec<u8>, &'static str)>,
    /// Number of objects of which only the change time differs.
    pub(super) silent: u64,
}

/// Number of differences that a report names.
const NAMED_MAX: usize = 10;

impl Comparison {
    /// Makes a comparison with the directories that the journal names.
    pub(super) fn with(aim: Aim) -> Self {
        Self { aim, state: Mutex::default() }
    }

    /// Notes a new or a vanished object.
    pub(super) fn note(&self, directory: &DirPath, name: &Name, kind: ChangeKind) {
        if self.aim.covers(directory) {
            return;
        }
        let mut state = self.state.lock();
        if state.candidates.len() < CANDIDATES_MAX {
            state.candidates.push(Candidate {
                directory: directory.clone(),
                name: name.clone(),
                kind,
            });
        } else {
            state.beyond += 1;
        }
    }

    /// Notes an object that has the status `now` and had the status `before`.
    pub(super) fn note_change(&self, directory: &DirPath, name: &Name, before: &Stat, now: &Stat) {
        if let Some(kind) = judge(before, now) {
            self.note(directory, name, kind);
        }
    }

    /// Returns the differences. `meanwhile` are the directories that have changed during the walk:
    /// the journal will name these next time.
    pub(super) fn differences(&self, meanwhile: &Aim) -> Differences {
        let State { candidates, beyond } = std::mem::take(&mut *self.state.lock());
        let mut found = Differences { missed: beyond, ..Differences::default() };
        for Candidate { directory, name, kind } in candidates {
            match kind {
                _ if meanwhile.covers(&directory) => {}
                ChangeKind::Silent => found.silent += 1,
                kind => {
                    found.missed += 1;
                    if found.first.len() < NAMED_MAX {
                        found.first.push((directory.join(&name), kind.words()));
                    }
                }
            }
        }
        found
    }
}

/// Returns the kind of the difference between two statuses of an object; `None` if the difference
/// is no change of the object.
fn judge(before: &Stat, now: &Stat) -> Option<ChangeKind> {
    let but_for_time = Stat { ctime: now.ctime, ..*before };
    let but_for_names = Stat { linked: now.linked, ..but_for_time };
    match () {
        () if before == now => None,
        // The last backup has stored no change time, so that this backup looks again.
        () if before.ctime == NO_CHANGE_TIME && but_for_time == *now => None,
        // The object got another name, or lost one. A backup by journal counts names.
        () if before.linked != now.linked && but_for_names == *now => None,
        () if but_for_time == *now => Some(ChangeKind::Silent),
        () => Some(ChangeKind::Changed),
    }
}

#[cfg(test)]
mod tests {
    use super::super::fixtures::stat;
    use super::*;

    fn directory(path: &str) -> DirPath {
        DirPath::new(path.as_bytes()).expect("a directory")
    }

    fn name(name: &str) -> Name {
        Name::new(name.as_bytes()).expect("a name")
    }

    #[test]
    fn a_change_of_the_change_time_alone_is_silent() {
        let before = stat();
        let mut later = before;
        later.ctime.secs += 1;
        let unknown = Stat { ctime: NO_CHANGE_TIME, ..before };
        let larger = Stat { size: before.size + 1, ..later };
        for (before, now, expected) in [
            (before, before, None),
            (before, later, Some(ChangeKind::Silent)),
            (unknown, later, None),
            (before, larger, Some(ChangeKind::Changed)),
            (unknown, larger, Some(ChangeKind::Changed)),
            (before, Stat { linked: !before.linked, ..later }, None),
            (before, Stat { linked: !before.linked, ..larger }, Some(ChangeKind::Changed)),
        ] {
            assert_eq!(judge(&before, &now), expected);
        }
    }

    #[test]
    fn only_changes_outside_the_named_directories_are_differences() {
        let mut aim = Aim::default();
        aim.add(&directory("/named/"));
        let comparison = Comparison::with(aim);
        comparison.note(&directory("/named/"), &name("a"), ChangeKind::New);
        comparison.note(&directory("/meanwhile/"), &name("b"), ChangeKind::Gone);
        comparison.note(&directory("/missed/"), &name("c"), ChangeKind::Changed);
        comparison.note(&directory("/missed/"), &name("d"), ChangeKind::Silent);
        let mut meanwhile = Aim::default();
        meanwhile.add(&directory("/meanwhile/"));
        let expected =
            Differences { missed: 1, first: vec![(b"/missed/c".to_vec(), "changed")], silent: 1 };
        assert_eq!(comparison.differences(&meanwhile), expected);
        assert_eq!(comparison.differences(&meanwhile), Differences::default(), "they are taken");
    }

    #[test]
    fn candidates_beyond_the_bound_are_counted() {
        let comparison = Comparison::with(Aim::default());
        for _ in 0..CANDIDATES_MAX + 3 {
            comparison.note(&directory("/a/"), &name("a"), ChangeKind::New);
        }
        let found = comparison.differences(&Aim::default());
        assert_eq!((found.missed, found.first.len()), (CANDIDATES_MAX as u64 + 3, NAMED_MAX));
    }
}
