//! Options that choose objects, each with the commands that heed it.
//!
//! A command that ignored such an option could do more than it was asked for: delete or expire what
//! the option leaves out. So it refuses the option.

use super::table::Action;

/// Queries and commands that take the versions of one point in time.
const OF_A_MOMENT: &[Action] =
    &[Action::QueryBackup, Action::QueryImage, Action::Restore, Action::RestoreImage];

/// Commands that take the versions or archives of a range of times.
const OF_A_RANGE: &[Action] = &[
    Action::QueryBackup,
    Action::QueryArchive,
    Action::QueryImage,
    Action::Restore,
    Action::Retrieve,
    Action::DeleteArchive,
    Action::DeleteBackup,
    Action::SetEvent,
];

const OF_KINDS: &[Action] =
    &[Action::QueryBackup, Action::QueryArchive, Action::Restore, Action::Retrieve];

/// Names of the options, each with the commands that heed it.
const CHOICES: [(&str, &[Action]); 17] = [
    ("PICK", &[Action::Restore, Action::Retrieve, Action::DeleteArchive]),
    ("PITDATE", OF_A_MOMENT),
    ("PITTIME", OF_A_MOMENT),
    ("FROMDATE", OF_A_RANGE),
    ("FROMTIME", OF_A_RANGE),
    ("TODATE", OF_A_RANGE),
    ("TOTIME", OF_A_RANGE),
    ("DIRSONLY", OF_KINDS),
    (
        "FILESONLY",
        &[
            Action::QueryBackup,
            Action::QueryArchive,
            Action::Restore,
            Action::Retrieve,
            Action::DeleteArchive,
            Action::DeleteBackup,
            // Directories come along, so that the files have their places.
            Action::Incremental,
            Action::Selective,
            Action::Archive,
        ],
    ),
    ("INACTIVE", &[Action::QueryBackup, Action::QueryImage, Action::Restore]),
    ("LATEST", &[Action::QueryBackup, Action::Restore]),
    (
        "FILELIST",
        &[
            Action::Incremental,
            Action::Selective,
            Action::Archive,
            Action::Expire,
            Action::Restore,
            Action::Retrieve,
            Action::DeleteArchive,
            Action::DeleteBackup,
            Action::QueryArchive,
            Action::QueryBackup,
        ],
    ),
    ("DELTYPE", &[Action::DeleteBackup]),
    ("DELETEFILES", &[Action::Archive]),
    (
        "DESCRIPTION",
        &[
            Action::Archive,
            Action::Retrieve,
            Action::QueryArchive,
            Action::DeleteArchive,
            Action::SetEvent,
        ],
    ),
    ("IFNEWER", &[Action::Restore, Action::Retrieve]),
    ("ARCHMC", &[Action::Archive, Action::PreviewArchive]),
];

/// Returns false for an option that chooses objects and that the command would ignore.
pub(super) fn is_heeded(action: Action, option: &str) -> bool {
    let mut choices = CHOICES.iter().filter(|(name, _)| *name == option);
    choices.all(|(_, actions)| actions.contains(&action))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_choice_is_an_option() {
        for (name, actions) in CHOICES {
            assert!(crate::options::find_exactly(name).is_some(), "{name}");
            assert!(!actions.is_empty(), "{name}");
        }
    }
}
