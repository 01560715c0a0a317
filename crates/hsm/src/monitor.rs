//! The monitor: migrates where a file system is too full, and keeps some of it premigrated.

use std::collections::BTreeSet;

use client::SpaceRules;
use model::{DirPath, Name};
use policy::{Eligibility, FileFacts};
use sys::space::Room;

use crate::migrate::{Candidate, Migrated, Migrator};
use crate::recall::{Mount, Recaller};
use crate::record::{FileState, state_of};
use crate::tree;

/// Candidates of one look at a file system at most; the next look finds more.
const CANDIDATES_MAX: usize = 100_000;
/// Migrated between two looks at how full it is.
const STEP_FILES: usize = 512;

/// Per cent of the file system that is in use.
pub(crate) fn used_percent(room: &Room) -> u8 {
    let used = room.bytes.saturating_sub(room.free_bytes);
    let percent = (u128::from(used) * 100).div_ceil(u128::from(room.bytes.max(1)));
    u8::try_from(percent).unwrap_or(100)
}

/// Where a candidate lies, and its bytes; in order of what goes first last.
type Ranked = (u64, DirPath, Name, u64);

/// Why a file system is relieved, and how far.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Until {
    /// If it is above its high threshold: to the low one, and premigrated as policy says.
    PolicyIfFull,
    /// The same, however full it is.
    Policy,
    /// To the low threshold: somebody waits for room.
    Low,
}

/// Migrates, and premigrates. Tells `report` of each file; stops once `goes_on` says no.
pub(crate) fn relieve(
    recaller: &Recaller,
    mount: &Mount,
    until: Until,
    report: &mut dyn FnMut(&[u8], Migrated),
    goes_on: &dyn Fn() -> bool,
) -> std::io::Result<()> {
    let settings = &mount.settings;
    let used = || sys::space::room(&*mount.root).map(|room| used_percent(&room));
    if until == Until::PolicyIfFull && used()? <= settings.high_percent {
        return Ok(());
    }
    let rules = recaller.rules().map_err(std::io::Error::other)?;
    let (mut ranked, premigrated_bytes) = candidates(mount, &rules)?;
    // As many of the best as give so many bytes.
    let step = |ranked: &mut BTreeSet<Ranked>, wanted: u64| {
        let (mut step, mut bytes) = (Vec::new(), 0);
        while step.len() < STEP_FILES && bytes < wanted {
            let Some(one) = ranked.pop_last() else { break };
            bytes += one.3;
            step.push(one);
        }
        step
    };
    let mut perform = |step: Vec<Ranked>, only_copies: bool| {
        let candidates: Vec<Candidate> =
            step.iter().filter_map(|ranked| candidate(mount, ranked)).collect();
        let paths: Vec<Vec<u8>> = candidates.iter().map(|one| one.path.join(&one.name)).collect();
        let migrator = Migrator { recaller, mount, only_copies, rules: &rules };
        let mut bytes = 0;
        migrator.migrate(
            &candidates,
            &mut |index, outcome| {
                bytes += outcome.as_ref().map_or(0, |(_, bytes)| *bytes);
                report(&paths[index], outcome);
            },
            goes_on,
        );
        bytes
    };
    while goes_on() && used()? > settings.low_percent {
        let room = sys::space::room(&*mount.root)?;
        let used = room.bytes.saturating_sub(room.free_bytes);
        let low = room.bytes / 100 * u64::from(settings.low_percent);
        let step = step(&mut ranked, used.saturating_sub(low).max(1));
        if step.is_empty() {
            return Ok(());
        }
        perform(step, false);
    }
    if until == Until::Low {
        return Ok(());
    }
    let room = sys::space::room(&*mount.root)?;
    let wanted = room.bytes / 100 * u64::from(settings.premigrated_percent);
    let mut premigrated = premigrated_bytes;
    while goes_on() && premigrated < wanted {
        let step = step(&mut ranked, wanted - premigrated);
        if step.is_empty() {
            return Ok(());
        }
        premigrated += perform(step, true);
    }
    Ok(())
}

fn candidate(mount: &Mount, (_, path, name, _): &Ranked) -> Option<Candidate> {
    let directory = mount.directory(path).ok()?;
    Some(Candidate { directory, path: path.clone(), name: name.clone() })
}

/// The best candidates, and the bytes of files that are premigrated.
fn candidates(mount: &Mount, rules: &SpaceRules) -> std::io::Result<(BTreeSet<Ranked>, u64)> {
    let settings = &mount.settings;
    let rule = Eligibility {
        file_bytes_min: settings.file_bytes_min,
        unused_days_min: settings.unused_days_min,
    };
    let now = sys::clock::now();
    let mut ranked: BTreeSet<Ranked> = BTreeSet::new();
    let mut premigrated_bytes = 0;
    let mut visit = |visited: tree::Visited<'_>| {
        let stat = &visited.found.stat;
        let state = state_of(stat, visited.stub.as_ref());
        let is_premigrated = state == FileState::Premigrated;
        if is_premigrated {
            premigrated_bytes += stat.size;
        }
        let name = visited.name;
        let path = || mount.absolute(&visited.path.join(name));
        if state == FileState::Migrated || rules.excludes(&path()).is_some() {
            return true;
        }
        let accessed = sys::space::accessed(visited.directory, name.as_bytes());
        let accessed = accessed.unwrap_or(stat.mtime);
        let facts = FileFacts { bytes: stat.size, modified: stat.mtime, accessed, is_premigrated };
        if let Some(score) = facts.score(&rule, now) {
            ranked.insert((score, visited.path.clone(), name.clone(), stat.size));
            if ranked.len() > CANDIDATES_MAX {
                ranked.pop_first();
            }
        }
        true
    };
    let mut fail = |path: &[u8], error: &std::io::Error| {
        tracing::warn!(path = model::escaped(path), %error, "cannot look for candidates");
    };
    tree::walk(&settings.mount_point, b"/", &mut visit, &mut fail)?;
    Ok((ranked, premigrated_bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_root_alone_may_use_counts_as_used() {
        let room = Room { bytes: 1000, free_bytes: 100, files: 1, free_files: 1 };
        assert_eq!(used_percent(&room), 90);
        assert_eq!(used_percent(&Room { free_bytes: 99, ..room }), 91);
        assert_eq!(used_percent(&Room { bytes: 0, ..room }), 0);
    }
}
