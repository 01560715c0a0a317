//! Words of other programs: which commands are meant by them. The module is pure.

/// Name of the program.
pub(super) const NAME: &str = "holdfast";

/// A word at the place of a command.
struct ForeignWord {
    /// Command before the word, as in `holdfast server`.
    after: &'static str,
    word: &'static str,
    /// Command lines that are meant.
    meant: &'static [&'static str],
}

const fn foreign(
    after: &'static str,
    word: &'static str,
    meant: &'static [&'static str],
) -> ForeignWord {
    ForeignWord { after, word, meant }
}

/// Words of TSM, and of other programs for backups.
const FOREIGN_WORDS: &[ForeignWord] = &[
    foreign(NAME, "check", &["holdfast verify"]),
    foreign(NAME, "config", &["holdfast explain --option"]),
    foreign(NAME, "create", &["holdfast backup"]),
    foreign(NAME, "forget", &["holdfast admin expire", "holdfast delete"]),
    foreign(NAME, "incr", &["holdfast backup"]),
    foreign(NAME, "incremental", &["holdfast backup"]),
    foreign(NAME, "login", &["holdfast enroll"]),
    foreign(NAME, "ls", &["holdfast list"]),
    foreign(NAME, "prune", &["holdfast admin expire", "holdfast delete"]),
    foreign(NAME, "q", &["holdfast list"]),
    foreign(NAME, "query", &["holdfast list"]),
    foreign(NAME, "register", &["holdfast admin node add", "holdfast enroll"]),
    foreign(NAME, "run", &["holdfast server run", "holdfast agent run", "holdfast admin run"]),
    foreign(NAME, "search", &["holdfast find"]),
    foreign(NAME, "sel", &["holdfast backup --selective"]),
    foreign(NAME, "selective", &["holdfast backup --selective"]),
    foreign(NAME, "settings", &["holdfast explain --option"]),
    foreign(NAME, "snapshots", &["holdfast list"]),
    foreign(NAME, "start", &["holdfast server run", "holdfast agent run"]),
    foreign(NAME, "unarchive", &["holdfast retrieve"]),
    foreign(NAME, "version", &["holdfast --version"]),
    foreign("holdfast admin", "accept", &["holdfast admin expire --confirm"]),
    foreign("holdfast admin", "actlog", &["holdfast admin log"]),
    foreign(
        "holdfast admin",
        "label",
        &["holdfast admin node set --label", "holdfast admin volume label"],
    ),
    foreign("holdfast admin", "labels", &["holdfast admin node set --label"]),
    foreign(
        "holdfast admin",
        "reclamation",
        &["holdfast admin reclaim", "holdfast admin volume reclaim"],
    ),
    foreign("holdfast admin", "server", &["holdfast admin servers"]),
    foreign("holdfast admin node", "label", &["holdfast admin node set --label"]),
    foreign("holdfast admin node", "token", &["holdfast admin node add --again"]),
    foreign(
        "holdfast admin schedule",
        "resume",
        &["holdfast admin schedule update --suspended no"],
    ),
    foreign(
        "holdfast admin schedule",
        "suspend",
        &["holdfast admin schedule update --suspended yes"],
    ),
    foreign("holdfast agent", "start", &["holdfast agent run"]),
    foreign("holdfast hsm", "start", &["holdfast hsm run"]),
    foreign("holdfast hsm", "unmigrate", &["holdfast hsm recall"]),
    foreign("holdfast journal", "start", &["holdfast journal run"]),
    foreign("holdfast server", "list", &["holdfast admin servers"]),
    foreign("holdfast server", "start", &["holdfast server run"]),
    foreign("holdfast server", "status", &["holdfast admin servers"]),
];

/// Objects of TSM's administrators, with the commands of administrators that have them here.
const FOREIGN_OBJECTS: &[(&str, &str)] = &[
    ("actlog", "log"),
    ("cloptset", "optionset"),
    ("process", "tasks"),
    ("request", "queue"),
    ("stgpool", "pool"),
];

/// How a server is stopped.
const SERVER_END: &str =
    "stop a server by its service manager ('systemctl stop holdfast-server') or by SIGTERM";

/// Returns the command that has the object of another program of which `word` is the beginning.
pub(super) fn object_meant(word: &str) -> Option<&'static str> {
    let mut meant = FOREIGN_OBJECTS.iter().filter(|(object, _)| object.starts_with(word));
    match (meant.next(), meant.next()) {
        (Some((_, only)), None) => Some(*only),
        _ => None,
    }
}

/// Returns the command lines that `word` means after the command `after`.
pub(super) fn meant_by(after: &str, word: &str) -> Option<&'static [&'static str]> {
    let of = |known: &&ForeignWord| known.after == after && known.word == word;
    FOREIGN_WORDS.iter().find(of).map(|known| known.meant)
}

/// Returns what to do if `word`, after the command `after`, asks for what no command does.
pub(super) fn advice(after: &str, word: &str) -> Option<&'static str> {
    match after {
        "holdfast agent" if word == "stop" => Some(
            "stop an agent by its service manager ('systemctl stop holdfast-agent') or by SIGTERM",
        ),
        "holdfast server" if ["halt", "shutdown", "stop"].contains(&word) => Some(SERVER_END),
        "holdfast admin" if ["halt", "shutdown"].contains(&word) => Some(SERVER_END),
        _ => None,
    }
}

/// Returns the words of other programs that [`meant_by`] knows after the command `after`.
pub(super) fn known_after(after: &str) -> Vec<&'static str> {
    let known = FOREIGN_WORDS.iter().filter(|known| known.after == after);
    known.map(|known| known.word).collect()
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use clap::CommandFactory as _;

    use super::*;
    use crate::arguments::{Arguments, command_named};

    #[test]
    fn words_of_other_programs_mean_commands_and_are_none() {
        let whole = Arguments::command();
        let split = |line: &str| line.split(' ').map(OsString::from).collect::<Vec<_>>();
        for ForeignWord { after, word, meant } in FOREIGN_WORDS {
            let (named, group) = command_named(&whole, &split(after));
            assert_eq!(named, *after);
            assert!(group.find_subcommand(word).is_none(), "{after} {word} is a command");
            for line in *meant {
                let (named, _) = command_named(&whole, &split(line));
                let options = line.strip_prefix(named.as_str()).expect("begins with the command");
                assert!(options.is_empty() || options.starts_with(" --"), "{line}");
            }
        }
    }
}
