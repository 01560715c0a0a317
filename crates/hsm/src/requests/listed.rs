//! Requests to recall the files of a list, in the order in which the server reads them best.

use std::io;
use std::time::Duration;

use sys::space::SpaceFile;

use super::entry::Entry;
use super::files::{FILES_AT_ONCE, Location};
use super::plan::plan;
use crate::control::{PathText, Reply};
use crate::desk::{Desk, RequestError};
use crate::outcome::{FileError, FinalState, Outcome, PathRefusal};
use crate::recall::{ListEntry, RecallError};
use crate::record::FileState;
use crate::{record, tree};

/// Interval at which the worker checks whether the user still listens.
const LISTENS: Duration = Duration::from_millis(500);

/// The way in which a request recalls files.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Manner {
    /// Reports the volumes and the time that the recall needs, and moves nothing.
    Preview,
    /// The files become premigrated.
    Premigrated,
    /// The files become resident, and their records are removed.
    Resident,
}

impl Manner {
    /// Returns the manner for the options of a request. A preview does not depend on `resident`.
    pub(super) fn of(resident: bool, preview: bool) -> Self {
        match (preview, resident) {
            (true, _) => Self::Preview,
            (false, true) => Self::Resident,
            (false, false) => Self::Premigrated,
        }
    }
}

/// Recalls the files at and below `paths`.
pub(super) fn recall(
    desk: &Desk<'_>,
    paths: &[PathText],
    manner: Manner,
) -> Result<(), RequestError> {
    let entries = entries(desk, paths, manner);
    let bytes = entries.iter().map(|entry| entry.bytes).sum();
    desk.caller.send(&Reply::Expect { files: entries.len() as u64, bytes });
    recall_planned(desk, entries, manner)
}

/// Recalls the files in the order in which the server reads them best.
pub(super) fn recall_planned(
    desk: &Desk<'_>,
    entries: Vec<Entry<'_>>,
    manner: Manner,
) -> Result<(), RequestError> {
    // The server reads volumes for this recall while the plan lives.
    let plan = plan(desk, entries, manner == Manner::Preview)?;
    if manner == Manner::Preview {
        desk.caller.send(&Reply::Plan(plan.state));
        return Ok(());
    }
    for entries in plan.entries.chunks(FILES_AT_ONCE) {
        if !desk.caller.listens() {
            break;
        }
        recall_entries(desk, entries, manner);
    }
    Ok(())
}

/// The files at and below the paths that are to be recalled, and that the caller may recall. The
/// caller gets the outcome of the other files at once.
fn entries<'a>(desk: &Desk<'a>, paths: &[PathText], manner: Manner) -> Vec<Entry<'a>> {
    let mut entries = Vec::new();
    for PathText(path) in paths {
        match Location::of(desk.mounts, path) {
            Ok(location) => collect(desk, path, &location, manner, &mut entries),
            Err(error) if desk.caller.requester.is_root() => {
                desk.caller.send_file(path, Err(error));
            }
            Err(_) => desk.caller.send_file(path, Err(PathRefusal::NothingOwn.into())),
        }
    }
    entries
}

fn collect<'a>(
    desk: &Desk<'a>,
    path: &[u8],
    location: &Location<'a>,
    manner: Manner,
    entries: &mut Vec<Entry<'a>>,
) {
    let (caller, mount) = (desk.caller, location.mount);
    let requester = &caller.requester;
    let mut has_own = false;
    let mut visit = |visited: tree::VisitedFile<'_>| {
        if !requester.is_root() && requester.uid != visited.found.stat.uid {
            // Users do not learn which files of other users exist.
            return caller.listens();
        }
        has_own = true;
        let state = visited.state();
        let becomes_resident = manner == Manner::Resident && visited.stub.is_some();
        if state != FileState::Migrated && !becomes_resident {
            let path = mount.absolute(&visited.file_path());
            caller.send_file(&path, Ok(FinalState::unmoved(state)));
            return caller.listens();
        }
        entries.push(Entry {
            mount,
            directory: visited.path.clone(),
            name: visited.name.clone(),
            copy: visited.stub.map(|stub| stub.copy),
            bytes: visited.found.stat.size,
        });
        caller.listens()
    };
    let mut fail = |failed: &[u8], error: &io::Error| {
        if requester.is_root() {
            let error = io::Error::other(error.to_string());
            caller.send_file(&mount.absolute(failed), Err(error.into()));
        }
    };
    let walked = tree::walk(mount.mount_point(), &location.within, &mut visit, &mut fail);
    if !requester.is_root() && !has_own {
        caller.send_file(path, Err(PathRefusal::NothingOwn.into()));
    } else if let Err(error) = walked {
        caller.send_file(path, Err(error.into()));
    }
}

/// Starts the recall of all files of a list. Returns when each has an outcome, or when the
/// caller has disconnected.
fn recall_entries(desk: &Desk<'_>, entries: &[Entry<'_>], manner: Manner) {
    let Desk { recaller, caller, .. } = *desk;
    let (list, completions) = crossbeam_channel::unbounded();
    let mut left = 0;
    for (index, entry) in entries.iter().enumerate() {
        match entry.open().and_then(|file| Ok((file.stat()?, file))) {
            Ok((found, file)) => {
                let in_list = ListEntry { index, list: list.clone() };
                recaller.request(file, &found, caller.requester.clone(), in_list);
                left += 1;
            }
            Err(error) => caller.send_file(&entry.path(), Err(error.into())),
        }
    }
    while left > 0 {
        let completed = completions.recv_timeout(LISTENS);
        if !caller.listens() {
            return recaller.withdraw(&list);
        }
        let Ok(completion) = completed else { continue };
        left -= 1;
        let entry = &entries[completion.index];
        caller.send_file(&entry.path(), outcome(desk, entry, completion.result, manner));
    }
}

fn outcome(
    desk: &Desk<'_>,
    entry: &Entry<'_>,
    recalled: Result<u64, RecallError>,
    manner: Manner,
) -> Outcome {
    let bytes = recalled.map_err(|error| FileError::Server(error.to_string()))?;
    if manner != Manner::Resident {
        return Ok(FinalState { state: FileState::Premigrated, bytes });
    }
    forget(desk, entry)?;
    Ok(FinalState { state: FileState::Resident, bytes })
}

/// Removes the record of a file with all of its content, if it is still the file that was recalled.
fn forget(desk: &Desk<'_>, entry: &Entry<'_>) -> Result<(), FileError> {
    desk.recaller.catch_up();
    let _alone = entry.mount.lock_migration()?;
    let file = entry.open()?;
    let forgotten = desk.recaller.alone(&file, || forget_alone(&file, entry))?;
    forgotten.unwrap_or(Err(FileError::Changed("it is recalled, but somebody has it open")))
}

fn forget_alone(file: &SpaceFile, entry: &Entry<'_>) -> Result<(), FileError> {
    match record::read(file)? {
        Some(stub) if stub.is_resident() && Some(stub.copy) == entry.copy => {
            file.sync()?;
            Ok(file.remove_attribute(format::stub::STUB_ATTRIBUTE)?)
        }
        Some(_) => Err(FileError::Changed("it was migrated again meanwhile")),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_preview_moves_nothing_whatever_else_is_asked_for() {
        assert_eq!(Manner::of(false, false), Manner::Premigrated);
        assert_eq!(Manner::of(true, false), Manner::Resident);
        assert_eq!(Manner::of(false, true), Manner::Preview);
        assert_eq!(Manner::of(true, true), Manner::Preview);
    }
}
