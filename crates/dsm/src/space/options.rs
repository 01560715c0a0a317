//! Options of the commands of space management.
//!
//! 1. An option may be abbreviated to one letter: the first one of the command's own options that
//!    begins with it is meant.
//! 2. An option that only other commands have is refused, and so is one of TSM's that nothing here
//!    carries out. None is left out without a word.
//! 3. An option that option files may have is taken by each command.

use super::SpaceCommand;
use crate::client::options_of;
use crate::options::{Definition, Entry, Kind, find, find_exactly};

/// Maximum number of letters of an unknown option that a message shows.
const SHOWN_MAX: usize = 40;
/// Options of every command.
const COMMON: [&str; 3] = ["optfile", "servername", "json"];

/// Reason why a migrated file has no way of recall of its own.
const WAY_OF_RECALL: &str = "the way of a recall belongs to the file system, and not to a file; \
                             run 'holdfast hsm add FS --whole SIZE'";

/// Options of TSM's commands that nothing here carries out, each with what does it.
const ABSENT: [(SpaceCommand, &str, &str); 9] = [
    (
        SpaceCommand::Migrate,
        "stubmigrated",
        "name the premigrated files alone: they are freed, and not sent again",
    ),
    (
        SpaceCommand::Migquery,
        "candidatelist",
        "no list is kept: 'dsmautomig' looks for the files when it migrates",
    ),
    (
        SpaceCommand::Migquery,
        "premigratedlist",
        "'dsmls -recursive' shows the premigrated files of a file system",
    ),
    (
        SpaceCommand::Migquery,
        "sortedall",
        "'dsmls -recursive' shows the migrated files of a file system",
    ),
    (
        SpaceCommand::Migquery,
        "mgmtclass",
        "'dsmc query mgmtclass' shows the classes, and 'dsmmigquery' the rules of migration",
    ),
    (SpaceCommand::Migquery, "options", "'dsmc query options' shows the options"),
    (
        SpaceCommand::Reconcile,
        "filelist",
        "a whole file system is compared, because its copies are compared with all of its files",
    ),
    (
        SpaceCommand::Reconcile,
        "candidatelist",
        "no list is kept: 'dsmautomig' looks for the files when it migrates",
    ),
    (SpaceCommand::Migfs, "failover", "one machine manages each file system"),
];

/// Returns the options of a command, in the order in which an abbreviation is tried.
fn own(command: SpaceCommand) -> &'static [&'static str] {
    match command {
        SpaceCommand::Migrate => &["recursive", "detail", "premigrate", "filelist"],
        SpaceCommand::Recall => &["recursive", "detail", "preview", "filelist", "resident"],
        SpaceCommand::Ls => &["recursive", "noheader", "filelist"],
        SpaceCommand::Migfs => &[
            "detail",
            "hthreshold",
            "lthreshold",
            "pmpercentage",
            "minmigfilesize",
            "minpartialrecallsize",
            "minstreamfilesize",
            "agefactor",
            "sizefactor",
            "stubsize",
            "previewsize",
            "quota",
            "maxfiles",
            "maxcandidates",
            "readstartsrecall",
        ],
        SpaceCommand::Reconcile => &["detail", "fileinfo", "orphancheck"],
        SpaceCommand::Du => &["allfiles", "summary"],
        SpaceCommand::Automig
        | SpaceCommand::Df
        | SpaceCommand::Migquery
        | SpaceCommand::Migundelete
        | SpaceCommand::Queue => &["detail"],
        SpaceCommand::Attr | SpaceCommand::Mighelp | SpaceCommand::Remove => &[],
    }
}

/// Returns the name of the program, and what does the same.
fn program(command: SpaceCommand) -> (&'static str, &'static str) {
    super::COMMANDS
        .into_iter()
        .find(|(_, known, _)| *known == command)
        .map(|(name, _, does)| (name, does))
        .expect("each command has a name")
}

/// Returns the name of the option in small letters, unless the word is none.
fn name_in(word: &[u8]) -> Option<String> {
    let option = word.strip_prefix(b"-")?;
    let name = option.split(|&byte| byte == b'=').next().unwrap_or(option);
    let is_name = name.first().is_some_and(u8::is_ascii_alphabetic);
    is_name.then(|| String::from_utf8_lossy(name).to_ascii_lowercase())
}

/// Returns the first of the names that begins with `name`.
fn begun_by(name: &str, names: &[&'static str]) -> Option<&'static str> {
    names.iter().copied().find(|known| known.starts_with(name))
}

/// Returns the word with the full name of its option.
fn in_full(command: SpaceCommand, word: &[u8]) -> Result<Vec<u8>, String> {
    let Some(name) = name_in(word) else { return Ok(word.to_vec()) };
    // With a value, -opt= and -s= are the option file and the server.
    let is_common = word.contains(&b'=') && begun_by(&name, &COMMON).is_some();
    let absent = ABSENT
        .iter()
        .find(|(its, absent, _)| !is_common && *its == command && absent.starts_with(&name));
    let known = match (begun_by(&name, own(command)), absent) {
        (Some(known), _) => Some(known),
        (None, Some((_, absent, reason))) => return Err(format!("-{absent}: {reason}")),
        (None, None) => begun_by(&name, &COMMON),
    };
    if let Some(known) = known {
        // A name that begins a known one has the length of its bytes.
        return Ok([b"-", known.as_bytes(), &word[1 + name.len()..]].concat());
    }
    // Of the other options, those of the option files are taken.
    let is_of_files = |definition: &Definition| definition.homes.system || definition.homes.user;
    if find(&name).is_some_and(is_of_files) {
        return Ok(word.to_vec());
    }
    let shown: String = name.chars().take(SHOWN_MAX).collect();
    let (shown, (program, _)) = (model::printable(&shown), program(command));
    Err(format!("{program} has no option -{shown}; '{program} -help' shows its options"))
}

/// Parses the words of a command into its options and its operands.
pub fn parse(
    command: SpaceCommand,
    words: &[Vec<u8>],
) -> Result<(Vec<Entry>, Vec<Vec<u8>>), String> {
    if command == SpaceCommand::Attr {
        return Err(WAY_OF_RECALL.to_owned());
    }
    let words: Result<Vec<_>, _> = words.iter().map(|word| in_full(command, word)).collect();
    options_of(&words?).map_err(|error| error.to_string())
}

/// Returns true if the words ask for help about the command.
pub fn asks_for_help(command: SpaceCommand, words: &[Vec<u8>]) -> bool {
    words.iter().any(|word| {
        let name = name_in(word).unwrap_or_default();
        let is_help = !name.is_empty() && "help".starts_with(&name);
        word == b"-?" || word == b"--help" || (is_help && begun_by(&name, own(command)).is_none())
    })
}

/// Returns the lines of help about a command: its options, and what does the same.
pub fn help(command: SpaceCommand) -> [String; 2] {
    let shown = |name: &&'static str| {
        let definition = find_exactly(name).expect("each option of a command is in the table");
        let value = if definition.kind == Kind::Flag { "" } else { "=..." };
        format!("[-{}{value}]", definition.spelling)
    };
    let options: Vec<String> = own(command).iter().chain(&COMMON).map(shown).collect();
    let (name, does) = program(command);
    [format!("{name} {}", options.join(" ")), format!("In Holdfast: {does}")]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(command: SpaceCommand, words: &[&str], expected: Result<&str, &str>) {
        let words: Vec<Vec<u8>> = words.iter().map(|word| word.as_bytes().to_vec()).collect();
        let shown = parse(command, &words).map(|(given, operands)| {
            let given = given.iter().map(|entry| match entry.text().as_str() {
                "" => entry.definition.name(),
                value => format!("{}={value}", entry.definition.name()),
            });
            let operands = operands.iter().map(|operand| model::escaped(operand));
            given.chain(operands).collect::<Vec<_>>().join(" ")
        });
        assert_eq!(shown.as_deref().map_err(String::as_str), expected, "{command:?}");
    }

    #[test]
    fn an_option_is_that_of_its_command() {
        use SpaceCommand::{Df, Ls, Migfs, Migrate, Recall};
        check(Migrate, &["-p", "/a"], Ok("PREMIGRATE /a"));
        check(Recall, &["-p", "/a"], Ok("PREVIEW /a"));
        check(Migfs, &["q", "-p=5"], Ok("PMPERCENTAGE=5 q"));
        check(Migfs, &["add", "-pr=0", "/a"], Ok("PREVIEWSIZE=0 add /a"));
        check(Df, &["-D"], Ok("DETAIL"));
        check(Ls, &["-errorlogname=/x", "-opt=/y", "-"], Ok("ERRORLOGNAME=/x OPTFILE=/y -"));
        let of = |program: &str, option: &str| {
            format!("{program} has no option -{option}; '{program} -help' shows its options")
        };
        check(SpaceCommand::Migquery, &["-opt=/y"], Ok("OPTFILE=/y"));
        check(Migrate, &["-preview", "/a"], Err(&of("dsmmigrate", "preview")));
        check(Recall, &["-premigrate", "/a"], Err(&of("dsmrecall", "premigrate")));
        check(Ls, &["-inactive"], Err(&of("dsmls", "inactive")));
        check(Df, &["-x\u{7}"], Err(&of("dsmdf", "x\\x07")));
    }

    #[test]
    fn options_that_nothing_carries_out_say_what_does_it() {
        for (command, word, part) in [
            (SpaceCommand::Migrate, "-stubm", "premigrated files alone"),
            (SpaceCommand::Migquery, "-c", "dsmautomig"),
            (SpaceCommand::Reconcile, "-filelist=/l", "a whole file system"),
            (SpaceCommand::Attr, "-recallmode=n", "holdfast hsm add FS --whole"),
        ] {
            let reason = parse(command, &[word.into()]).expect_err(word);
            assert!(reason.contains(part), "{word}: {reason}");
        }
    }

    #[test]
    fn each_command_helps() {
        let asks = |command, word: &str| asks_for_help(command, &[word.into()]);
        assert!(asks(SpaceCommand::Ls, "-h") && asks(SpaceCommand::Migfs, "-help"));
        assert!(asks(SpaceCommand::Ls, "-?") && !asks(SpaceCommand::Migfs, "-h=80"));
        assert!(!asks(SpaceCommand::Ls, "help") && !asks(SpaceCommand::Ls, "-"));
        assert_eq!(
            help(SpaceCommand::Ls),
            [
                "dsmls [-Recursive] [-NOHEADer] [-FILEList=...] [-OPTFILE=...] [-SErvername=...] \
                 [-JSON]",
                "In Holdfast: holdfast hsm ls"
            ]
        );
        for (_, command, _) in super::super::COMMANDS {
            assert!(help(command)[0].contains("-JSON"));
        }
    }
}
