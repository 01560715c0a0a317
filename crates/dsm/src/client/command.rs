//! Words of a command, parsed into its definition, its operands and its options.

use super::choice::is_heeded;
use super::table::{Action, COMMANDS, CommandDefinition};
use crate::options::{Entry, Fate, Kind, Options, Place, find, unquoted};

/// A parsed command.
#[derive(Clone, PartialEq, Debug)]
pub struct Command {
    pub definition: &'static CommandDefinition,
    pub operands: Vec<Vec<u8>>,
    pub options: Vec<Entry>,
}

/// Reason why words are no command.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum CommandError {
    /// The words name no command.
    #[error("'{0}' is no command; 'help' lists all commands")]
    Unknown(String),
    #[error("'{0}' needs a word after it: {1}")]
    Incomplete(String, String),
    /// The command is known and refused.
    #[error("'{name}' is refused: {reason}")]
    Refused { name: String, reason: String },
    #[error("{0}")]
    Option(String),
    /// More names than the command takes.
    #[error(
        "'{word}' is one name too many for '{command}'; quote names with wildcards, so that the \
         shell leaves them alone"
    )]
    Superfluous { word: String, command: String },
    #[error("'{word}' stands beside -filelist, which names everything for '{command}'")]
    BesideList { word: String, command: String },
    /// An option that chooses objects, and that the command would ignore.
    #[error("-{option} is no option of '{command}', which would ignore it")]
    Unheeded { option: String, command: String },
}

impl CommandError {
    /// TSM's number of the message.
    pub fn number(&self) -> &'static str {
        match self {
            Self::Superfluous { .. } | Self::BesideList { .. } => "ANS1102E",
            Self::Unheeded { .. } => "ANS1108E",
            _ => "ANS1107E",
        }
    }
}

/// Maximum number of bytes that a message shows of a word.
const SHOWN_MAX: usize = 60;

fn shown(word: &[u8]) -> String {
    model::escaped(&word[..word.len().min(SHOWN_MAX)])
}

/// Divides `words` into options and the other words.
pub fn options_of(words: &[Vec<u8>]) -> Result<(Vec<Entry>, Vec<Vec<u8>>), CommandError> {
    let (mut options, mut others) = (Vec::new(), Vec::new());
    for word in words {
        match word.strip_prefix(b"-") {
            // Holdfast's own commands write options with two dashes.
            Some(b"-json" | b"-JSON") => options.push(option_of(b"json")?),
            Some([b'-', letter, ..]) if letter.is_ascii_alphabetic() => {
                let message = format!("'{}' has one dash too many for an option", shown(word));
                return Err(CommandError::Option(message));
            }
            // A file system that is left out of an operand, and a lone dash, are no options.
            Some(option) if option.first().is_some_and(u8::is_ascii_alphabetic) => {
                options.push(option_of(option)?);
            }
            _ => others.push(word.clone()),
        }
    }
    Ok((options, others))
}

fn option_of(word: &[u8]) -> Result<Entry, CommandError> {
    let at = word.iter().position(|&byte| byte == b'=');
    let (name, value) = match at {
        Some(at) => (&word[..at], Some(&word[at + 1..])),
        None => (word, None),
    };
    let name = shown(name);
    let failed = |reason: String| CommandError::Option(reason);
    let definition = find(&name)
        .ok_or_else(|| failed(format!("'-{name}' is no option; 'dsmc help' lists the commands")))?;
    if definition.kind == Kind::Statement {
        let reason = format!("'-{name}': a statement stands in an option file or a list");
        return Err(failed(reason));
    }
    let value = match (value, definition.kind) {
        // An option that is yes or no may stand alone, and means yes.
        (None, Kind::YesNo) => b"yes".as_slice(),
        (value, _) => value.unwrap_or_default(),
    };
    // Scripts that quote twice leave the inner quotes around a value.
    let value = unquoted(value, definition.kind);
    // A flag may have the value yes.
    let value = if definition.kind == Kind::Flag && value.eq_ignore_ascii_case(b"yes") {
        b""
    } else {
        value
    };
    let usual = definition.kind.usual(value);
    let value = usual.map_err(|fault| failed(format!("-{}: {fault}", definition.name())))?;
    Ok(Entry { place: Place::CommandLine, definition, value })
}

/// Parses the words of a command.
pub fn parse(words: &[Vec<u8>]) -> Result<Command, CommandError> {
    let (options, others) = options_of(words)?;
    let found = COMMANDS.iter().filter_map(|one| Some((one.words_of(&others)?, one)));
    // Of the commands that the words name, the one with most words is meant.
    let longest = found.fold(None, |best: Option<(usize, _)>, one| match best {
        Some(best) if best.0 >= one.0 => Some(best),
        _ => Some(one),
    });
    let Some((length, definition)) = longest else { return Err(unknown(&others)) };
    if let Fate::Refused { .. } = definition.fate {
        let reason = definition.fate.to_string();
        return Err(CommandError::Refused { name: definition.name(), reason });
    }
    if options.iter().any(|option| option.definition.name() == "PREVIEW") {
        return Err(CommandError::Option(
            "-PREVIEW: only dsmrecall has it; 'dsmc preview backup' and 'holdfast backup \
             --dry-run' show what would be done"
                .to_owned(),
        ));
    }
    let is_of_space = |option: &&Entry| {
        let name = option.definition.name();
        ["ALLFILES", "SUMMARY", "ORPHANCHECK", "FILEINFO"].contains(&name.as_str())
    };
    if let Some(option) = options.iter().find(is_of_space) {
        let name = option.definition.name();
        return Err(CommandError::Option(format!("-{name}: only space management has it")));
    }
    let is_refused = |option: &&Entry| is_refused(definition.action, option);
    if let Some(refused) = options.iter().find(is_refused) {
        return Err(CommandError::Option(format!(
            "-{}: {}",
            refused.definition.name(),
            refused.fate()
        )));
    }
    let is_unheeded = |option: &&Entry| !is_heeded(definition.action, &option.definition.name());
    if let Some(unheeded) = options.iter().find(is_unheeded) {
        let option = unheeded.definition.name();
        return Err(CommandError::Unheeded { option, command: definition.name() });
    }
    let operands = others[length..].iter().map(|word| unquoted_operand(word).to_vec()).collect();
    let command = Command { definition, operands, options };
    command.check_operands()?;
    Ok(command)
}

/// Returns an operand without the quotes around an absolute path. Scripts that quote twice leave
/// them, and a name of a file has them at both ends only if it is relative.
fn unquoted_operand(word: &[u8]) -> &[u8] {
    match word {
        [b'"', within @ .., b'"'] | [b'\'', within @ .., b'\'']
            if within.starts_with(b"/") || within.starts_with(b"{/") =>
        {
            within
        }
        word => word,
    }
}

/// Returns true if an option is refused for the command. A restore walks through no tree of this
/// machine, so that it follows no link of one.
fn is_refused(action: Action, option: &Entry) -> bool {
    let walks = !matches!(action, Action::Restore | Action::Retrieve);
    option.fate().is_refused() && (walks || option.definition.name() != "FOLLOWSYMBOLIC")
}

/// Returns true for an option of the cache of known chunks, which changes nothing that is stored.
pub fn is_about_cache(option: &Entry) -> bool {
    let name = option.definition.name();
    matches!(name.as_str(), "DEDUPCACHEPATH" | "DEDUPCACHESIZE" | "ENABLEDEDUPCACHE")
}

fn unknown(words: &[Vec<u8>]) -> CommandError {
    let Some(first) = words.first() else { return CommandError::Unknown(String::new()) };
    let one = std::slice::from_ref(first);
    let seconds: Vec<String> = COMMANDS
        .iter()
        .filter_map(|command| {
            let (verb, rest) = command.spelling.split_once(' ')?;
            let alone = CommandDefinition { spelling: verb, ..*command };
            alone.words_of(one).map(|_| rest.to_ascii_lowercase())
        })
        .collect();
    match (seconds.is_empty(), words.get(1)) {
        (true, _) => CommandError::Unknown(shown(first)),
        (false, None) => CommandError::Incomplete(shown(first), seconds.join(", ")),
        (false, Some(second)) => {
            CommandError::Unknown(format!("{} {}", shown(first), shown(second)))
        }
    }
}

impl Command {
    pub fn action(&self) -> Action {
        self.definition.action
    }

    /// Refuses names that the command would ignore.
    fn check_operands(&self) -> Result<(), CommandError> {
        let shown = |word: &Vec<u8>| (shown(word), self.definition.name());
        if let Some(most) = self.action().operands_beside_list()
            && self.has("FILELIST")
            && let Some((word, command)) = self.operands.get(most).map(shown)
        {
            return Err(CommandError::BesideList { word, command });
        }
        match self.operands.get(self.action().operands_max()).map(shown) {
            Some((word, command)) => Err(CommandError::Superfluous { word, command }),
            None => Ok(()),
        }
    }

    /// Returns true if the command cannot be carried out with this option of a file or of its line.
    pub fn refuses(&self, option: &Entry) -> bool {
        is_refused(self.action(), option)
    }

    /// Returns the options of the command line that have no effect there, because the command takes
    /// them from the settings of the node only.
    pub fn ignored(&self) -> impl Iterator<Item = &Entry> {
        let action = self.action();
        self.options.iter().filter(move |entry| match entry.definition.name().as_str() {
            "PRESNAPSHOTCMD" | "POSTSNAPSHOTCMD" => {
                !matches!(action, Action::Schedule | Action::BackupImage)
            }
            "DIRMC" | "VIRTUALMOUNTPOINT" => action != Action::Schedule,
            _ => is_about_cache(entry) && action != Action::Schedule,
        })
    }

    /// Returns true if the command line has the option.
    pub fn has(&self, name: &str) -> bool {
        self.given(name).is_some()
    }

    /// Returns the option of the command line.
    pub fn given(&self, name: &str) -> Option<&Entry> {
        let is_called = |entry: &&Entry| entry.definition.spelling.eq_ignore_ascii_case(name);
        self.options.iter().rev().find(is_called)
    }

    /// Returns true if the command descends into directories, by its own options and those of the
    /// files. A list of files names everything itself.
    pub fn descends(&self, options: &Options) -> bool {
        !self.has("FILELIST") && options.yes("SUBDIR").unwrap_or(false)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::options::Definition;
    use crate::words::words;

    #[track_caller]
    fn check(line: &str, expected: &str) {
        let words = words(line.as_bytes()).expect("words");
        let shown = match parse(&words) {
            Ok(command) => {
                let operands = command.operands.iter().map(|word| model::escaped(word));
                let options = command
                    .options
                    .iter()
                    .map(|one| format!("-{}={}", one.definition.name(), one.text()));
                let all = std::iter::once(command.definition.name()).chain(operands).chain(options);
                all.collect::<Vec<_>>().join(" ")
            }
            Err(error) => format!("! {error}"),
        };
        assert_eq!(shown, expected, "{line}");
    }

    #[test]
    fn commands_are_abbreviated_as_scripts_do() {
        check("i", "incremental");
        check("incr /home -su=yes", "incremental /home -SUBDIR=yes");
        check("inc -quiet", "incremental -QUIET=");
        check("s /a", "selective /a");
        check("sel /a -subdir=y", "selective /a -SUBDIR=yes");
        check("ar /a", "archive /a");
        check("arch /a -desc='x y' -delete", "archive /a -DESCRIPTION=x y -DELETEFILES=");
        check("res /a /b", "restore /a /b");
        check("rest /a -latest", "restore /a -LATEST=");
        check("restore image /dev/sda", "restore image /dev/sda");
        check("rest im /dev/sda /x -imagetof", "restore image /dev/sda /x -IMAGETOFILE=");
        check("ret /a", "retrieve /a");
        check("q b /a -ina", "query backup /a -INACTIVE=");
        check("q ba /a", "query backup /a");
        check("q fi", "query filespace");
        check("q f", "query filespace");
        check("q incl", "query inclexcl");
        check("q inclexcl", "query inclexcl");
        check("q sched", "query schedule");
        check("q se", "query session");
        check("q sys", "query systeminfo");
        check("q ar /a", "query archive /a");
        check("q m -det", "query mgmtclass -DETAIL=");
        check("query options", "query options");
        check("q n", "query node");
        check("exp /a", "expire /a");
        check("del ar /a", "delete archive /a");
        check("delete backup /a -deltype=inactive", "delete backup /a -DELTYPE=inactive");
        check("del f /home", "delete filespace /home");
        check("set pass", "set password");
        check("sched", "schedule");
        check("h", "help");
        check("help incremental", "help incremental");
        check("ma file", "macro file");
        check("b image /dev/sda", "backup image /dev/sda");
        check("backup -quiet /a/b", "backup /a/b -QUIET=");
        check("ret -followsymbolic=yes /a", "retrieve /a -FOLLOWSYMBOLIC=yes");
        check("quit", "quit");
        check("pre b /home", "preview backup /home");
        check("restart restore", "restart restore");
        check("RESTORE /A", "restore /A");
    }

    #[test]
    fn options_stand_anywhere() {
        check(
            "-se=two q ba -subdir=yes /a -pitd=11/03/2026 -pitt=18:00",
            "query backup /a -SERVERNAME=two -SUBDIR=yes -PITDATE=11/03/2026 -PITTIME=18:00",
        );
        check("rest -repl=all -ifn /a", "restore /a -REPLACE=all -IFNEWER=");
        check("i -domain='/home -/srv'", "incremental -DOMAIN=/home -/srv");
        check("i -deduplication", "incremental -DEDUPLICATION=yes");
        check("i -optfile=/etc/my.opt -absolute", "incremental -OPTFILE=/etc/my.opt -ABSOLUTE=");
        check("sel -filelist=/tmp/list", "selective -FILELIST=/tmp/list");
        check("q ba - /a", "query backup - /a");
        check("i '-errorlogname=\"/var/log/e\"'", "incremental -ERRORLOGNAME=/var/log/e");
    }

    #[test]
    fn a_list_of_files_is_no_descent() {
        for (line, expected) in [
            ("del ar /a", true),
            ("del ar /a -subdir=no", false),
            ("del ar -filelist=list", false),
            ("del ar -filelist=list -subdir=yes", false),
        ] {
            let command = parse(&words(line.as_bytes()).expect("words")).expect("a command");
            let (user, _) = crate::options::parse("dsm.opt", b"SUBDIR yes");
            let system = crate::options::System::default();
            let options = Options::new(&system, None, &user, &command.options);
            assert_eq!(command.descends(&options), expected, "{line}");
        }
    }

    #[test]
    fn wrong_words_are_told() {
        check("frobnicate", "! 'frobnicate' is no command; 'help' lists all commands");
        check("q zz", "! 'q zz' is no command; 'help' lists all commands");
        check("set", "! 'set' needs a word after it: access, event, password, netappsvm, vmtags");
        check("i -nosuch=1", "! '-nosuch' is no option; 'dsmc help' lists the commands");
        check("i -subdir=maybe", "! -SUBDIR: 'maybe' is not yes or no");
        check("q ba /a -pitdate", "! -PITDATE: it needs a value: a text");
        check("i -inactive=7", "! -INACTIVE: it takes no value");
        check("i --nosuch /a", "! '--nosuch' has one dash too many for an option");
        check(
            "i /a -preview",
            "! -PREVIEW: only dsmrecall has it; 'dsmc preview backup' and 'holdfast backup \
             --dry-run' show what would be done",
        );
        check("q fi --json", "query filespace -JSON=");
        check("q ba -- /a", "query backup -- /a");
        check(
            "backup vm x",
            "! 'backup vm' is refused: machines are not reached through their hypervisor's \
             interface; use 'holdfast image backup' for their disks",
        );
        check(
            "q ba /a -fromowner=bert",
            "! -FROMOWNER: the server keeps no owners apart from those \
             in the files' attributes; run the command without it",
        );
        check("", "! '' is no command; 'help' lists all commands");
    }

    #[test]
    fn a_choice_that_would_be_ignored_is_refused() {
        for (line, option, name) in [
            ("del ba /a -pick", "PICK", "delete backup"),
            ("del ba /a -pitdate=11/03/2026", "PITDATE", "delete backup"),
            ("del ba /a -inactive", "INACTIVE", "delete backup"),
            ("del ar /a -dirsonly", "DIRSONLY", "delete archive"),
            ("del f /home -deltype=inactive", "DELTYPE", "delete filespace"),
            ("expire /a -todate=11/03/2026", "TODATE", "expire"),
            ("ar /a -dirsonly -deletefiles", "DIRSONLY", "archive"),
            ("sel /a -deletefiles", "DELETEFILES", "selective"),
            ("set event /a -type=hold -filelist=list", "FILELIST", "set event"),
        ] {
            let message = format!("! -{option} is no option of '{name}', which would ignore it");
            check(line, &message);
            let error = parse(&words(line.as_bytes()).expect("words")).expect_err("is refused");
            assert_eq!(error.number(), "ANS1108E", "{line}");
        }
        check("del ba /a -filesonly -deltype=all", "delete backup /a -FILESONLY= -DELTYPE=all");
        check("ar /a -filesonly -deletefiles", "archive /a -FILESONLY= -DELETEFILES=");
        check("rest /a -pick -ina", "restore /a -PICK= -INACTIVE=");
        check("q im /a -pitd=2026-11-03", "query image /a -PITDATE=2026-11-03");
        check("q im /a -fromd=2026-11-03", "query image /a -FROMDATE=2026-11-03");
        check("ret /a -pick", "retrieve /a -PICK=");
        check("del ar /a -pick", "delete archive /a -PICK=");
    }

    #[test]
    fn quotes_around_an_absolute_path_are_no_part_of_it() {
        for (word, expected) in [
            (&b"\"/a b\""[..], &b"/a b"[..]),
            (b"'{/a}/b*'", b"{/a}/b*"),
            (b"\"a b\"", b"\"a b\""),
            (b"\"/a b", b"\"/a b"),
            (b"\"", b"\""),
        ] {
            let command = parse(&[b"sel".to_vec(), word.to_vec()]).expect("a command");
            assert_eq!(command.operands, [expected.to_vec()]);
        }
    }

    #[test]
    fn names_that_would_be_ignored_are_refused() {
        let many = |word: &str, command: &str| {
            format!(
                "! '{word}' is one name too many for '{command}'; quote names with wildcards, so \
                 that the shell leaves them alone"
            )
        };
        check("q sess bogus", &many("bogus", "query session"));
        check("q fi / bogus", &many("bogus", "query filespace"));
        check("rest /a /b /c", &many("/c", "restore"));
        check(
            "ar -filelist=list /a",
            "! '/a' stands beside -filelist, which names everything for 'archive'",
        );
        check(
            "expire -filelist=list /a",
            "! '/a' stands beside -filelist, which names everything for 'expire'",
        );
        check(
            "q ba -filelist=list /a",
            "! '/a' stands beside -filelist, which names everything for 'query backup'",
        );
        check("rest -filelist=list /to", "restore /to -FILELIST=list");
        check("del ac 1 2 3", "delete access 1 2 3");
    }

    #[test]
    fn a_statement_has_no_place_on_a_line() {
        use crate::options::definitions;
        let is_statement = |one: &&Definition| one.kind == Kind::Statement;
        for statement in definitions().filter(is_statement) {
            let word = format!("-{}=/x", statement.spelling).into_bytes();
            let error = options_of(&[word]).expect_err("a statement");
            assert!(error.to_string().contains("stands in an option file"), "{error}");
            assert!(!statement.homes.line, "{}", statement.spelling);
        }
    }

    /// Options that only the settings of the node carry, and that are not about schedules and
    /// images, have no effect on the line of a command.
    #[test]
    fn each_option_that_a_line_cannot_carry_is_found() {
        use crate::configuration::{is_kept_only, keys};
        use crate::options::{System, definitions};
        let ignored = |line: &str, option: Entry| {
            let words = words(line.as_bytes()).expect("words");
            let command = parse(&words).expect("a command");
            Command { options: vec![option], ..command }.ignored().count() == 1
        };
        let mut count = 0;
        for definition in definitions() {
            for value in ["no", "0", "7", "/x"] {
                let Ok(value) = definition.kind.usual(value.as_bytes()) else { continue };
                let option = Entry { place: Place::CommandLine, definition, value };
                let one = std::slice::from_ref(&option);
                let keys = keys(&Options::new(&System::default(), None, &[], one));
                let is_about_files = |name: &str| {
                    !name.starts_with("agent.")
                        && !["pre_command", "post_command", "image_snapshot", "all_blocks"]
                            .contains(&name)
                };
                let mut keys = keys.iter().filter(|key| is_kept_only(key.name));
                if keys.any(|key| is_about_files(key.name)) {
                    count += 1;
                    let name = definition.spelling;
                    assert!(ignored("incremental", option.clone()), "{name}");
                    assert!(!ignored("schedule", option), "{name}");
                }
            }
        }
        assert!(count >= 7, "{count} options");
    }

    proptest! {
        #[test]
        fn any_words_are_a_command_or_an_error(
            words in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..30), 0..6),
        ) {
            if let Err(error) = parse(&words) {
                prop_assert_eq!(error.to_string().lines().count(), 1);
            }
        }

        #[test]
        fn any_line_is_a_command_or_an_error(line in "[a-z]{1,4} [a-z]{0,5} -[a-z=/]{0,12}") {
            drop(parse(&words(line.as_bytes()).expect("no quotes")));
        }
    }
}
