//! The monitor: migrates files off a file system that is too full, and keeps a part of it
//! premigrated.

use std::collections::BTreeSet;

use client::SpaceRules;
use model::{DirPath, Name};
use policy::{Eligibility, FileFacts};
use sys::space::Room;

use crate::connection::Connection;
use crate::migrate::{Candidate, Migrator, Target};
use crate::mount::Mount;
use crate::outcome::{FileError, Outcome};
use crate::recall::Recaller;
use crate::record::FileState;
use crate::server_wait::ServerWait;
use crate::{FilesystemSettings, tree};

/// Maximum number of candidates that one search of a file system finds; the next search finds more.
const CANDIDATES_MAX: usize = 100_000;
/// Maximum number of files that are migrated between two measurements of the room.
const STEP_FILES_MAX: usize = 512;

/// Extent to which a file system is relieved.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Goal {
    /// The same as [`Self::Policy`], if more than the high threshold is in use; otherwise nothing.
    PolicyIfFull,
    /// Relief down to the low threshold, and premigration of as many bytes as the settings say.
    Policy,
    /// Relief down to the low threshold, because a recall waits for room.
    Room,
}

/// Per cent of the file system that is in use, rounded up.
fn used_percent(room: &Room) -> u8 {
    let used = room.bytes.saturating_sub(room.free_bytes);
    let percent = (u128::from(used) * 100).div_ceil(u128::from(room.bytes.max(1)));
    u8::try_from(percent).unwrap_or(100)
}

/// Number of bytes to free until the low threshold is reached: at least 1 above it, otherwise 0.
fn excess_bytes(room: &Room, settings: &FilesystemSettings) -> u64 {
    if used_percent(room) <= settings.low_percent {
        return 0;
    }
    let used = room.bytes.saturating_sub(room.free_bytes);
    let low = room.bytes / 100 * u64::from(settings.low_percent);
    used.saturating_sub(low).max(1)
}

/// A file that may migrate. The file with the greatest score migrates first.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct RankedFile {
    score: u64,
    directory: DirPath,
    name: Name,
    bytes: u64,
}

/// Candidates of one file system, and the amount that is premigrated already.
#[derive(Default)]
struct Ranking {
    ranked: BTreeSet<RankedFile>,
    premigrated_bytes: u64,
}

impl Ranking {
    fn insert(&mut self, ranked: RankedFile) {
        self.ranked.insert(ranked);
        if self.ranked.len() > CANDIDATES_MAX {
            self.ranked.pop_first();
        }
    }

    /// Takes the best candidates until they have `bytes` together, but at most [`STEP_FILES_MAX`].
    fn take_step(&mut self, bytes: u64) -> Vec<RankedFile> {
        let (mut step, mut taken) = (Vec::new(), 0);
        while step.len() < STEP_FILES_MAX && taken < bytes {
            let Some(best) = self.ranked.pop_last() else { break };
            taken += best.bytes;
            step.push(best);
        }
        step
    }
}

/// The monitor of one file system.
pub(crate) struct Monitor<'a> {
    pub(crate) recaller: &'a Recaller,
    pub(crate) connection: &'a Connection,
    pub(crate) mount: &'a Mount,
}

impl Monitor<'_> {
    /// Migrates and premigrates. Calls `report` with the path and the outcome of each file; stops
    /// once `goes_on` returns false.
    pub(crate) fn relieve(
        &self,
        goal: Goal,
        report: &mut dyn FnMut(&[u8], Outcome),
        goes_on: &dyn Fn() -> bool,
    ) -> std::io::Result<()> {
        // The settings are read at each step, because they may change meanwhile.
        let settings = || self.mount.settings();
        if goal == Goal::PolicyIfFull && !self.exceeds_threshold()? {
            return Ok(());
        }
        let rules = self.connection.rules().map_err(std::io::Error::other)?;
        let mut ranking = self.ranking(&rules)?;
        let mut run =
            |step: &[RankedFile], target| self.run_step(step, target, &rules, report, goes_on);
        while goes_on() {
            let excess = excess_bytes(&self.room()?, &settings());
            if excess == 0 {
                break;
            }
            let step = ranking.take_step(excess);
            if step.is_empty() {
                return Ok(());
            }
            run(&step, Target::Migrated);
        }
        if goal == Goal::Room {
            return Ok(());
        }
        let wanted = self.room()?.bytes / 100 * u64::from(settings().premigrated_percent);
        let mut premigrated = ranking.premigrated_bytes;
        while goes_on() && premigrated < wanted {
            let step = ranking.take_step(wanted - premigrated);
            if step.is_empty() {
                return Ok(());
            }
            premigrated += run(&step, Target::Premigrated);
        }
        Ok(())
    }

    /// True if more than the high threshold is in use.
    pub(crate) fn is_too_full(&self) -> bool {
        self.exceeds_threshold().unwrap_or(false)
    }

    fn exceeds_threshold(&self) -> std::io::Result<bool> {
        Ok(used_percent(&self.room()?) > self.mount.settings().high_percent)
    }

    /// Makes room for a recall. Returns true if there is more room than before.
    pub(crate) fn make_room(&self) -> bool {
        let free = || self.room().map_or(0, |room| room.free_bytes);
        let before = free();
        let mut in_vain_until = self.mount.lock_relief();
        if free() > before {
            // Another thread has made room while this thread waited for its turn.
            return true;
        }
        let settings = self.mount.settings();
        if self.room().is_ok_and(|room| excess_bytes(&room, &settings) == 0) {
            // The quota of a user is exhausted, and not the file system.
            return false;
        }
        let began = sys::clock::monotonic();
        if in_vain_until.is_some_and(|until| began < until) {
            return false;
        }
        let mount_point = model::escaped(self.mount.mount_point());
        tracing::warn!(mount_point, "no room for a recall; migrating files to make room");
        let mut is_in_vain = true;
        let mut report = |_: &[u8], outcome: Outcome| match outcome {
            Ok(settled) => is_in_vain &= settled.bytes == 0,
            // The server may be back soon.
            Err(error) => is_in_vain &= !matches!(error, FileError::Server(_)),
        };
        let relieved = self.relieve(Goal::Room, &mut report, &|| true);
        if let Err(error) = &relieved {
            tracing::error!(mount_point, %error, "cannot make room");
        }
        let has_room = free() > before;
        is_in_vain &= relieved.is_ok() && !has_room;
        let now = sys::clock::monotonic();
        // Programs that wait for room get their error at once, and not after one search each.
        *in_vain_until = is_in_vain.then(|| now + (now - began));
        has_room
    }

    fn room(&self) -> std::io::Result<Room> {
        sys::space::room(&*self.mount.root()?)
    }

    /// Migrates the files of one step; returns the bytes that were freed or copied.
    fn run_step(
        &self,
        step: &[RankedFile],
        target: Target,
        rules: &SpaceRules,
        report: &mut dyn FnMut(&[u8], Outcome),
        goes_on: &dyn Fn() -> bool,
    ) -> u64 {
        let candidate = |ranked: &RankedFile| {
            // Candidates of a removed directory are skipped.
            let directory = self.mount.directory(&ranked.directory).ok()?;
            Some(Candidate { directory, path: ranked.directory.clone(), name: ranked.name.clone() })
        };
        let candidates: Vec<Candidate> = step.iter().filter_map(candidate).collect();
        let Self { recaller, connection, mount } = *self;
        let is_of_any_size = &|_: &Candidate| false;
        // The space is looked at again soon.
        let server_wait = &ServerWait::none();
        let migrator =
            Migrator { recaller, connection, mount, target, rules, is_of_any_size, server_wait };
        let mut bytes = 0;
        let mut add_up = |index: usize, outcome: Outcome| {
            bytes += outcome.as_ref().map_or(0, |settled| settled.bytes);
            report(&candidates[index].file_path(), outcome);
        };
        migrator.migrate(&candidates, &mut add_up, goes_on);
        bytes
    }

    /// Searches the file system for candidates.
    fn ranking(&self, rules: &SpaceRules) -> std::io::Result<Ranking> {
        let settings = self.mount.settings();
        let rule = Eligibility {
            file_bytes_min: settings.file_bytes_min,
            unused_days_min: settings.unused_days_min,
        };
        let now = sys::clock::now();
        let mut ranking = Ranking::default();
        let mut visit = |visited: tree::VisitedFile<'_>| {
            let stat = &visited.found.stat;
            let state = visited.state();
            let is_premigrated = state == FileState::Premigrated;
            if is_premigrated {
                ranking.premigrated_bytes += stat.size;
            }
            let path = || self.mount.absolute(&visited.file_path());
            if state == FileState::Migrated || rules.excludes(&path()).is_some() {
                return true;
            }
            let accessed = sys::space::accessed(visited.directory, visited.name.as_bytes());
            let accessed = accessed.unwrap_or(stat.mtime);
            let facts =
                FileFacts { bytes: stat.size, modified: stat.mtime, accessed, is_premigrated };
            if let Some(score) = facts.score(&rule, now) {
                let (directory, name) = (visited.path.clone(), visited.name.clone());
                ranking.insert(RankedFile { score, directory, name, bytes: stat.size });
            }
            true
        };
        let mut fail = |path: &[u8], error: &std::io::Error| {
            tracing::warn!(path = model::escaped(path), %error, "cannot search for candidates");
        };
        tree::walk(self.mount.mount_point(), b"/", &mut visit, &mut fail)?;
        Ok(ranking)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStrExt as _;

    use super::*;

    const ROOM: Room = Room { bytes: 1000, free_bytes: 100, inodes: None };

    #[test]
    fn what_root_alone_may_use_counts_as_used() {
        assert_eq!(used_percent(&ROOM), 90);
        assert_eq!(used_percent(&Room { free_bytes: 99, ..ROOM }), 91);
        assert_eq!(used_percent(&Room { bytes: 0, ..ROOM }), 0);
        assert_eq!(used_percent(&Room { free_bytes: 0, ..ROOM }), 100);
    }

    #[test]
    fn relief_ends_at_the_low_threshold() {
        let mut settings = FilesystemSettings::new(b"/data".to_vec());
        settings.low_percent = 80;
        let check = |free_bytes, expected| {
            let room = Room { bytes: 10_000, free_bytes, ..ROOM };
            assert_eq!(excess_bytes(&room, &settings), expected, "{free_bytes} bytes are free");
        };
        check(0, 2000);
        check(1990, 10);
        check(1999, 1);
        check(2000, 0);
        check(5000, 0);
    }

    #[test]
    fn a_tiny_file_system_above_its_threshold_still_has_an_excess() {
        let mut settings = FilesystemSettings::new(b"/data".to_vec());
        settings.low_percent = 100;
        assert_eq!(excess_bytes(&Room { free_bytes: 0, ..ROOM }, &settings), 0);
        settings.low_percent = 99;
        let room = Room { bytes: 150, free_bytes: 0, ..ROOM };
        assert_eq!(excess_bytes(&room, &settings), 51);
    }

    fn ranked(score: u64, name: &str, bytes: u64) -> RankedFile {
        let name = Name::new(name.as_bytes()).expect("a name");
        RankedFile { score, directory: DirPath::root(), name, bytes }
    }

    #[test]
    fn a_step_takes_the_best_until_their_bytes_suffice() {
        let mut ranking = Ranking::default();
        for (score, name, bytes) in [(1, "least", 50), (9, "best", 10), (5, "middle", 20)] {
            ranking.insert(ranked(score, name, bytes));
        }
        let mut names = |bytes| {
            let step = ranking.take_step(bytes);
            let names = step.iter().map(|one| model::escaped(one.name.as_bytes()));
            names.collect::<Vec<_>>().join(" ")
        };
        assert_eq!(names(11), "best middle");
        assert_eq!(names(0), "");
        assert_eq!(names(u64::MAX), "least");
        assert_eq!(names(u64::MAX), "");
    }

    #[test]
    fn a_step_and_a_ranking_have_their_limits() {
        let mut ranking = Ranking::default();
        for at in 0..=CANDIDATES_MAX as u64 {
            ranking.insert(ranked(at, &format!("{at}"), 1));
        }
        assert_eq!(ranking.ranked.len(), CANDIDATES_MAX);
        assert!(ranking.ranked.first().is_some_and(|worst| worst.score == 1), "the best stay");
        assert_eq!(ranking.take_step(u64::MAX).len(), STEP_FILES_MAX);
    }

    #[test]
    fn a_search_for_room_in_vain_is_not_repeated_at_once() {
        let folder = tempfile::tempdir().expect("a folder");
        let mount_point = folder.path().as_os_str().as_bytes().to_vec();
        let mut settings = FilesystemSettings::new(mount_point);
        settings.low_percent = 0;
        let mount = Mount::open(settings).expect("opened");
        let recaller = crate::recall::tests::recaller_of_nothing();
        let connection = Connection::new(folder.path());
        let monitor = Monitor { recaller: &recaller, connection: &connection, mount: &mount };
        let later = sys::clock::monotonic() + std::time::Duration::from_secs(3600);
        *mount.lock_relief() = Some(later);
        monitor.make_room();
        assert_eq!(*mount.lock_relief(), Some(later), "a search would set another time");
    }

    #[test]
    fn a_look_ranks_eligible_files_and_adds_up_premigrated_bytes() {
        if !sys::process::is_root() {
            return;
        }
        let folder = tempfile::tempdir().expect("a folder");
        let write = |name: &str, bytes: usize| {
            std::fs::write(folder.path().join(name), vec![1; bytes]).expect("written");
        };
        write("large", 300);
        write("small", 99);
        write("premigrated", 100);
        write("migrated", 200);
        let mut settings = FilesystemSettings::new(folder.path().as_os_str().as_bytes().to_vec());
        (settings.file_bytes_min, settings.unused_days_min) = (100, 0);
        let mount = Mount::open(settings).expect("opened");
        for name in [&b"premigrated"[..], b"migrated"] {
            let root = mount.root().expect("opened");
            let file = sys::space::SpaceFile::open(&root, name).expect("opened");
            let found = file.stat().expect("stat").stat;
            let stub = format::stub::Stub {
                state: format::stub::State::Premigrated,
                was_recalled: false,
                copy: model::CopyId { batch: model::BatchId(1), index: 0 },
                size: found.size,
                mtime: found.mtime,
                content: [0; 16],
                bearer: None,
                unsynced: None,
            };
            let stub = if name == b"migrated" { crate::record::emptied(stub) } else { stub };
            crate::record::write(&file, &stub).expect("written");
        }
        let recaller = crate::recall::tests::recaller_of_nothing();
        let connection = Connection::new(folder.path());
        let monitor = Monitor { recaller: &recaller, connection: &connection, mount: &mount };
        let ranking = monitor.ranking(&SpaceRules::default()).expect("looked");
        assert_eq!(ranking.premigrated_bytes, 100);
        let names: Vec<_> = ranking
            .ranked
            .iter()
            .rev()
            .map(|one| model::escaped(one.name.as_bytes()))
            .collect();
        assert_eq!(names.len(), 2, "{names:?}");
        assert!(names.contains(&"large".to_owned()) && names.contains(&"premigrated".to_owned()));
    }
}
