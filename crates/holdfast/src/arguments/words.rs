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
    foreign("holdfast admin", "sessions", &["holdfast admin api GET /v1/sessions"]),
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
    foreign("holdfast server", "create", &["holdfast server init"]),
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

/// Command lines for what other programs query.
struct Queries {
    /// Command before the word for a query.
    after: &'static str,
    /// Objects in alphabetical order, each with the command line that lists it.
    objects: &'static [(&'static str, &'static str)],
}

/// Objects of TSM's queries that have no command of this name after the same command.
const QUERIES: [Queries; 2] = [
    Queries {
        after: NAME,
        objects: &[
            ("access", "holdfast access"),
            ("archive", "holdfast archives"),
            ("backup", "holdfast list"),
            ("filespace", "holdfast stats"),
            ("image", "holdfast image list"),
            ("inclexcl", "holdfast preview"),
            ("mgmtclass", "holdfast explain"),
            ("options", "holdfast explain --option"),
            ("schedule", "holdfast agent schedules"),
            ("session", "holdfast status"),
            ("systeminfo", "holdfast status"),
        ],
    },
    Queries {
        after: "holdfast admin",
        objects: &[
            ("admin", "holdfast admin user list"),
            ("association", "holdfast admin schedule show"),
            ("copygroup", "holdfast admin policy show"),
            ("drive", "holdfast admin library show"),
            ("mgmtclass", "holdfast admin policy show"),
            ("occupancy", "holdfast admin stats"),
            ("session", "holdfast admin api GET /v1/sessions"),
            ("status", "holdfast admin servers"),
        ],
    },
];
/// Minimum length of the beginning of an object.
const OBJECT_BYTES_MIN: usize = 2;

/// How a server is stopped.
const SERVER_END: &str =
    "stop a server by its service manager ('systemctl stop holdfast-server') or by SIGTERM";

/// Returns the command that has the object of another program of which `word` is the beginning.
pub(super) fn object_meant(word: &str) -> Option<&'static str> {
    beside_only(FOREIGN_OBJECTS, word)
}

/// Returns the command line for a query after the command `after` that asks for the object of which
/// `word` is the beginning.
pub(super) fn query_meant(after: &str, word: &str) -> Option<&'static str> {
    let queries = QUERIES.iter().find(|queries| queries.after == after)?;
    if word.len() < OBJECT_BYTES_MIN {
        return None;
    }
    beside_only(queries.objects, word)
}

/// Returns the command line beside the only one of `objects` that begins with `word`.
fn beside_only(objects: &[(&'static str, &'static str)], word: &str) -> Option<&'static str> {
    let mut meant = objects.iter().filter(|(object, _)| object.starts_with(word));
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

    /// Fails unless `line` is a command line: a command, and perhaps an option or a request.
    #[track_caller]
    fn assert_command_line(whole: &clap::Command, line: &str) {
        let (named, _) = command_named(whole, &split(line));
        let rest = line.strip_prefix(named.as_str()).expect("begins with the command");
        let is_known = rest.is_empty() || rest.starts_with(" --") || rest.starts_with(" GET /");
        assert!(is_known, "{line}");
    }

    fn split(line: &str) -> Vec<OsString> {
        line.split(' ').map(OsString::from).collect()
    }

    #[test]
    fn words_of_other_programs_mean_commands_and_are_none() {
        let whole = Arguments::command();
        for ForeignWord { after, word, meant } in FOREIGN_WORDS {
            let (named, group) = command_named(&whole, &split(after));
            assert_eq!(named, *after);
            assert!(group.find_subcommand(word).is_none(), "{after} {word} is a command");
            meant.iter().for_each(|line| assert_command_line(&whole, line));
        }
    }

    #[test]
    fn queries_of_other_programs_mean_commands() {
        let whole = Arguments::command();
        for Queries { objects, .. } in &QUERIES {
            objects.iter().for_each(|(_, line)| assert_command_line(&whole, line));
            assert!(objects.is_sorted(), "{objects:?}");
        }
        for (object, expected) in [
            ("fi", Some("holdfast stats")),
            ("s", None),
            ("s\u{e9}", None),
            ("sess", Some("holdfast status")),
            ("node", None),
        ] {
            assert_eq!(query_meant(NAME, object), expected, "{object}");
        }
    }
}
