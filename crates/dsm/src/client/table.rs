//! The table of all commands of `dsmc`.

use crate::options::Fate;

/// Command of `dsmc` that is carried out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Action {
    Incremental,
    Selective,
    Archive,
    Restore,
    Retrieve,
    Expire,
    DeleteAccess,
    DeleteArchive,
    DeleteBackup,
    DeleteFilespace,
    QueryAccess,
    QueryArchive,
    QueryBackup,
    QueryFilespace,
    QueryImage,
    QueryInclexcl,
    QueryMgmtclass,
    QueryNode,
    QueryOptions,
    QueryRestore,
    QuerySchedule,
    QuerySession,
    QuerySysteminfo,
    Preview,
    PreviewArchive,
    SetAccess,
    SetEvent,
    SetPassword,
    Schedule,
    Help,
    Macro,
    Loop,
    Quit,
    BackupImage,
    RestoreImage,
    /// A command whose fate says all.
    None,
}

impl Action {
    /// Maximum number of names after the words of the command.
    pub fn operands_max(self) -> usize {
        match self {
            Self::QueryAccess
            | Self::QueryInclexcl
            | Self::QueryMgmtclass
            | Self::QueryNode
            | Self::QueryRestore
            | Self::QuerySchedule
            | Self::QuerySession
            | Self::Schedule
            | Self::Loop
            | Self::Quit => 0,
            Self::DeleteFilespace
            | Self::QueryFilespace
            | Self::QueryImage
            | Self::QueryOptions
            | Self::Macro => 1,
            Self::Restore | Self::RestoreImage | Self::Retrieve => 2,
            // The old password, the new one, and the new one again.
            Self::SetPassword => 3,
            // The kind, the files, the node, and a user, which is refused with a reason.
            Self::SetAccess => 4,
            _ => usize::MAX,
        }
    }

    /// Maximum number of names beside a list of files; `None` if the command takes no list.
    pub fn operands_beside_list(self) -> Option<usize> {
        match self {
            Self::Incremental
            | Self::Selective
            | Self::Archive
            | Self::DeleteArchive
            | Self::DeleteBackup
            | Self::Expire
            | Self::QueryArchive
            | Self::QueryBackup => Some(0),
            // The destination.
            Self::Restore | Self::Retrieve => Some(1),
            _ => None,
        }
    }
}

/// A command of `dsmc`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CommandDefinition {
    /// Words, each with its shortest abbreviation in capital letters.
    pub spelling: &'static str,
    pub action: Action,
    pub fate: Fate,
}

const fn done(spelling: &'static str, action: Action, by: &'static str) -> CommandDefinition {
    CommandDefinition { spelling, action, fate: Fate::Done(by) }
}

const fn needless(spelling: &'static str, because: &'static str) -> CommandDefinition {
    CommandDefinition { spelling, action: Action::None, fate: Fate::Needless(because) }
}

const fn refused(
    spelling: &'static str,
    because: &'static str,
    instead: &'static str,
) -> CommandDefinition {
    CommandDefinition { spelling, action: Action::None, fate: Fate::Refused { because, instead } }
}

const GROUPS: &str = "a group is a set of paths";
const GROUPS_INSTEAD: &str = "give all its paths to one 'incremental' or 'archive'";
const SETS: &str = "there are no backup sets";
const SETS_INSTEAD: &str = "restore from the server itself, or from a copy pool";
const NAS: &str = "file servers are not backed up by NDMP";
const NAS_INSTEAD: &str = "mount the file system, and back up its files";
const MACHINES: &str = "machines are not reached through their hypervisor's interface";
const MACHINES_INSTEAD: &str = "use 'holdfast image backup' for their disks";

/// All commands. Of two that a word begins, the first is meant.
pub(super) const COMMANDS: [CommandDefinition; 59] = [
    done("Incremental", Action::Incremental, "holdfast backup"),
    done("Selective", Action::Selective, "holdfast backup --selective"),
    done("Archive", Action::Archive, "holdfast archive"),
    done("REStore Image", Action::RestoreImage, "holdfast image restore"),
    refused("REStore BACKUPSET", SETS, SETS_INSTEAD),
    refused("REStore GRoup", GROUPS, "restore its paths"),
    refused("REStore NAS", NAS, NAS_INSTEAD),
    refused("REStore VM", MACHINES, "use 'holdfast image restore' for their disks"),
    done("REStore", Action::Restore, "holdfast restore"),
    done("RETrieve", Action::Retrieve, "holdfast retrieve"),
    done("EXPire", Action::Expire, "holdfast expire"),
    done("DELete ARchive", Action::DeleteArchive, "holdfast delete --archive"),
    done("DELete Backup", Action::DeleteBackup, "holdfast delete"),
    done("DELete Filespace", Action::DeleteFilespace, "holdfast delete"),
    done("DELete ACcess", Action::DeleteAccess, "holdfast access forbid"),
    refused("DELete Group", GROUPS, "delete its paths"),
    done("Query ACcess", Action::QueryAccess, "holdfast access"),
    done("Query ARchive", Action::QueryArchive, "holdfast list --archive"),
    refused("Query BACKUPSET", SETS, SETS_INSTEAD),
    done("Query Backup", Action::QueryBackup, "holdfast list"),
    done("Query Filespace", Action::QueryFilespace, "holdfast list"),
    refused("Query GRoup", GROUPS, "query its paths"),
    done("Query IMage", Action::QueryImage, "holdfast image list"),
    done(
        "Query INCLexcl",
        Action::QueryInclexcl,
        "the statements of the option files and of the server",
    ),
    done("Query Mgmtclass", Action::QueryMgmtclass, "the classes that the server has sent"),
    refused("Query NAS", NAS, NAS_INSTEAD),
    done("Query Node", Action::QueryNode, "holdfast status"),
    done("Query Options", Action::QueryOptions, "the option files"),
    done("Query Restore", Action::QueryRestore, "the answer that a restore goes on by itself"),
    done("Query SChedule", Action::QuerySchedule, "holdfast agent schedules"),
    done("Query SEssion", Action::QuerySession, "holdfast status"),
    done("Query SYSteminfo", Action::QuerySysteminfo, "holdfast status"),
    refused("Query SYSTEMState", "the system state is of Windows", "query the files themselves"),
    refused("Query VM", MACHINES, "use 'holdfast image list'"),
    done("PREview Backup", Action::Preview, "holdfast preview"),
    done("PREview Archive", Action::PreviewArchive, "holdfast preview --archive"),
    done("SET Access", Action::SetAccess, "holdfast access allow"),
    done("SET Event", Action::SetEvent, "holdfast archives event, hold and release"),
    done("SET Password", Action::SetPassword, "holdfast enroll"),
    refused("SET NETAPPSVM", NAS, NAS_INSTEAD),
    refused("SET VMTags", MACHINES, MACHINES_INSTEAD),
    done("SCHedule", Action::Schedule, "holdfast agent run"),
    done("Help", Action::Help, "the list of these commands"),
    done("MAcro", Action::Macro, "the commands in a file"),
    done("LOOP", Action::Loop, "commands that are typed at a prompt"),
    done("QUIt", Action::Quit, "the end of the prompt"),
    // The drivers of clouds back a file up by this word alone.
    done("Backup", Action::Selective, "holdfast backup --selective"),
    done("Backup Image", Action::BackupImage, "holdfast image backup"),
    refused("Backup FASTBACK", "FastBack has no counterpart", "back up the files themselves"),
    refused("Backup GRoup", GROUPS, GROUPS_INSTEAD),
    refused("Backup NAS", NAS, NAS_INSTEAD),
    refused("Backup VAPP", MACHINES, MACHINES_INSTEAD),
    refused("Backup VM", MACHINES, MACHINES_INSTEAD),
    needless("CAncel Process", "a signal ends a command in an orderly way"),
    needless("CAncel Restore", "a restore holds no lock at the server"),
    needless("RESTArt Restore", "a restore that is run again goes on where it ended"),
    refused("MOnitor Process", NAS, "look at 'holdfast status'"),
    refused("ARCHIVE FASTBACK", "FastBack has no counterpart", "archive the files themselves"),
    needless("AUTHorize", "the permissions of the node's folder decide who can use the node"),
];

/// Returns all commands.
pub fn commands() -> impl Iterator<Item = &'static CommandDefinition> {
    COMMANDS.iter()
}

impl CommandDefinition {
    /// Returns the number of words with which `words` name the command.
    pub fn words_of(&self, words: &[Vec<u8>]) -> Option<usize> {
        let spelt: Vec<&str> = self.spelling.split(' ').collect();
        let named = words.get(..spelt.len())?;
        let is_named = spelt.iter().zip(named).all(|(spelt, word)| abbreviates(word, spelt));
        is_named.then_some(spelt.len())
    }

    /// Name in lower case.
    pub fn name(&self) -> String {
        self.spelling.to_ascii_lowercase()
    }
}

fn abbreviates(word: &[u8], spelling: &str) -> bool {
    let least = spelling
        .find(|letter: char| letter.is_ascii_lowercase())
        .unwrap_or(spelling.len());
    (least..=spelling.len()).contains(&word.len())
        && spelling.as_bytes()[..word.len()].eq_ignore_ascii_case(word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_command_is_found_by_its_name() {
        for command in commands() {
            let words: Vec<_> =
                command.name().split(' ').map(|word| word.as_bytes().to_vec()).collect();
            let found = commands().filter_map(|one| Some((one.words_of(&words)?, one)));
            let found = found.max_by_key(|(length, _)| *length).expect("found").1;
            assert_eq!(found.spelling, command.spelling);
        }
    }

    #[test]
    fn a_command_without_an_action_says_why() {
        for command in commands() {
            let is_done = matches!(command.fate, Fate::Done(_));
            assert_eq!(command.action != Action::None, is_done, "{}", command.spelling);
        }
    }
}
