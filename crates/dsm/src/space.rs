//! Commands of space management: `dsmmigrate`, `dsmrecall`, `dsmls` and the others.
//!
//! Each command becomes one command line of `holdfast hsm`.

mod options;

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;

pub use self::options::{asks_for_help, help, parse};
use crate::options::{Entry, Options};

/// A command of space management.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SpaceCommand {
    Attr,
    Automig,
    Df,
    Du,
    Ls,
    Migfs,
    Mighelp,
    Migquery,
    Migrate,
    Migundelete,
    Queue,
    Recall,
    Reconcile,
    Remove,
}

/// Names of the commands, each with what does the same, or why it is refused.
pub const COMMANDS: [(&str, SpaceCommand, &str); 14] = [
    (
        "dsmattr",
        SpaceCommand::Attr,
        "refused: 'holdfast hsm add FS --whole SIZE' chooses the way of recalls for a whole file \
         system",
    ),
    ("dsmautomig", SpaceCommand::Automig, "holdfast hsm relieve"),
    ("dsmdf", SpaceCommand::Df, "holdfast hsm df"),
    ("dsmdu", SpaceCommand::Du, "holdfast hsm du"),
    ("dsmls", SpaceCommand::Ls, "holdfast hsm ls"),
    ("dsmmigfs", SpaceCommand::Migfs, "holdfast hsm add, list and remove"),
    ("dsmmighelp", SpaceCommand::Mighelp, "the list of these commands"),
    ("dsmmigquery", SpaceCommand::Migquery, "holdfast hsm list"),
    ("dsmmigrate", SpaceCommand::Migrate, "holdfast hsm migrate and premigrate"),
    ("dsmmigundelete", SpaceCommand::Migundelete, "holdfast hsm undelete"),
    ("dsmq", SpaceCommand::Queue, "holdfast hsm status"),
    ("dsmrecall", SpaceCommand::Recall, "holdfast hsm recall"),
    ("dsmreconcile", SpaceCommand::Reconcile, "holdfast hsm reconcile"),
    ("dsmrm", SpaceCommand::Remove, "holdfast hsm cancel"),
];

/// Finds a command by the name of its program.
pub fn find(name: &str) -> Option<SpaceCommand> {
    COMMANDS
        .iter()
        .find(|(known, _, _)| *known == name)
        .map(|(_, command, _)| *command)
}

/// Objects whose sizes are shown.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Extent {
    /// The named files and directories.
    Named,
    /// All directories at and below the named ones.
    Directories,
    /// All directories and files at and below the named ones.
    Files,
}

/// Form of the output.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SpaceForm {
    /// A line for each file if `details` is true, and totals.
    Files {
        details: bool,
    },
    List {
        heading: bool,
        recursive: bool,
    },
    Filesystems,
    /// The settings of file systems.
    Settings {
        details: bool,
    },
    Sizes(Extent),
    /// Recalls that wait for files at and below the paths, or all.
    Queue,
    /// The output of the command itself.
    Plain,
    /// The list of the commands.
    Help,
}

/// The work of a command.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SpacePlan {
    /// Command line of `holdfast`, without the paths; empty for [`SpaceForm::Help`].
    pub line: Vec<OsString>,
    pub paths: Vec<Vec<u8>>,
    /// File with paths, which takes the place of `paths`.
    pub filelist: Option<Vec<u8>>,
    /// True if a directory stands for the files directly in it.
    pub is_flat: bool,
    pub form: SpaceForm,
}

/// Parsed words of a command.
struct ParsedWords {
    given: Vec<Entry>,
    operands: Vec<Vec<u8>>,
}

impl ParsedWords {
    fn get(&self, name: &str) -> Option<&Entry> {
        self.given
            .iter()
            .rev()
            .find(|entry| entry.definition.spelling.eq_ignore_ascii_case(name))
    }

    fn has(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    fn first(&self) -> Option<&Vec<u8>> {
        self.operands.first()
    }
}

/// Plans a command. `options` are those of the option files.
pub fn plan(
    command: SpaceCommand,
    words: &[Vec<u8>],
    options: &Options,
) -> Result<SpacePlan, String> {
    let (given, operands) = parse(command, words)?;
    if let Some(refused) = given.iter().find(|entry| entry.fate().is_refused()) {
        return Err(format!("-{}: {}", refused.definition.name(), refused.fate()));
    }
    let parsed = ParsedWords { given, operands };
    match command {
        SpaceCommand::Migrate => {
            let verb = if parsed.has("PREMIGRATE") { "premigrate" } else { "migrate" };
            files(&parsed, &["hsm", verb], "name the files to migrate")
        }
        SpaceCommand::Recall => recall(&parsed),
        SpaceCommand::Automig => {
            let form = SpaceForm::Files { details: parsed.has("DETAIL") };
            with_operand(simple(&["hsm", "relieve"], form), &parsed, "name the mount point")
        }
        SpaceCommand::Ls => {
            let heading = !parsed.has("NOHEADER");
            let form = SpaceForm::List { heading, recursive: parsed.has("RECURSIVE") };
            let filelist = parsed.get("FILELIST").map(|entry| entry.value.clone());
            if filelist.is_some() && !parsed.operands.is_empty() {
                return Err("give files, or a list with -filelist=, and not both".to_owned());
            }
            let paths = if filelist.is_some() { Vec::new() } else { or_here(parsed.operands) };
            Ok(SpacePlan { paths, filelist, ..simple(&["hsm", "ls"], form) })
        }
        SpaceCommand::Df => Ok(SpacePlan {
            paths: parsed.operands,
            ..simple(&["hsm", "df"], SpaceForm::Filesystems)
        }),
        SpaceCommand::Du => {
            let extent = match (parsed.has("SUMMARY"), parsed.has("ALLFILES")) {
                (true, _) => Extent::Named,
                (false, true) => Extent::Files,
                (false, false) => Extent::Directories,
            };
            let plan = simple(&["hsm", "du"], SpaceForm::Sizes(extent));
            Ok(SpacePlan { paths: or_here(parsed.operands), ..plan })
        }
        SpaceCommand::Queue => {
            Ok(SpacePlan { paths: parsed.operands, ..simple(&["hsm", "status"], SpaceForm::Queue) })
        }
        SpaceCommand::Remove => {
            let plan = simple(&["hsm", "cancel"], SpaceForm::Plain);
            with_operand(plan, &parsed, "name the number of the recall, which dsmq shows")
        }
        SpaceCommand::Reconcile => {
            let mut plan = simple(&["hsm", "reconcile"], SpaceForm::Plain);
            if parsed.has("ORPHANCHECK") {
                plan.line.push("--dry-run".into());
            }
            with_operand(plan, &parsed, "name the mount point")
        }
        SpaceCommand::Migundelete => {
            let plan = simple(&["hsm", "undelete"], SpaceForm::Files { details: true });
            with_operand(plan, &parsed, "name the mount point")
        }
        SpaceCommand::Migfs => filesystem(&parsed, options),
        SpaceCommand::Migquery => {
            let plan = simple(&["hsm", "list"], SpaceForm::Plain);
            Ok(SpacePlan { paths: parsed.operands, ..plan })
        }
        SpaceCommand::Mighelp => Ok(SpacePlan { line: Vec::new(), ..simple(&[], SpaceForm::Help) }),
        SpaceCommand::Attr => unreachable!("its words are refused"),
    }
}

fn simple(words: &[&str], form: SpaceForm) -> SpacePlan {
    let line = words.iter().map(OsString::from).collect();
    SpacePlan { line, paths: Vec::new(), filelist: None, is_flat: false, form }
}

/// Stands for the working directory if no path is given.
fn or_here(operands: Vec<Vec<u8>>) -> Vec<Vec<u8>> {
    if operands.is_empty() { vec![b".".to_vec()] } else { operands }
}

fn with_operand(
    mut plan: SpacePlan,
    parsed: &ParsedWords,
    wanted: &str,
) -> Result<SpacePlan, String> {
    if parsed.operands.is_empty() {
        return Err(wanted.to_owned());
    }
    plan.paths.clone_from(&parsed.operands);
    Ok(plan)
}

fn files(parsed: &ParsedWords, words: &[&str], wanted: &str) -> Result<SpacePlan, String> {
    let filelist = parsed.get("FILELIST").map(|entry| entry.value.clone());
    if filelist.is_none() && parsed.operands.is_empty() {
        return Err(format!("{wanted}, or a list with -filelist="));
    }
    // With a list, an operand names only the file system.
    let paths = if filelist.is_some() { Vec::new() } else { parsed.operands.clone() };
    Ok(SpacePlan {
        paths,
        filelist,
        is_flat: !parsed.has("RECURSIVE"),
        ..simple(words, SpaceForm::Files { details: parsed.has("DETAIL") })
    })
}

fn recall(parsed: &ParsedWords) -> Result<SpacePlan, String> {
    let mut plan = files(parsed, &["hsm", "recall"], "name the files to recall")?;
    if parsed.has("RESIDENT") {
        plan.line.push("--resident".into());
    }
    if parsed.has("PREVIEW") {
        plan.line.push("--dry-run".into());
        plan.form = SpaceForm::Plain;
    }
    Ok(plan)
}

/// Plans `dsmmigfs`, whose first word is its command.
fn filesystem(parsed: &ParsedWords, options: &Options) -> Result<SpacePlan, String> {
    let word = parsed.first().map(|word| String::from_utf8_lossy(word).to_ascii_lowercase());
    let word = word.unwrap_or_default();
    let rest = || parsed.operands[1..].to_vec();
    let needs_one = |plan: SpacePlan| match parsed.operands.len() {
        0 | 1 => Err(format!("name the mount point after '{word}'")),
        _ => Ok(SpacePlan { paths: rest(), ..plan }),
    };
    let is = |name: &str| !word.is_empty() && name.starts_with(&word);
    let settings = SpaceForm::Settings { details: parsed.has("DETAIL") };
    if is("query") {
        let plan = simple(&["hsm", "list"], settings);
        return Ok(SpacePlan { paths: rest(), ..plan });
    }
    if is("add") || is("update") {
        let mut plan = simple(&["hsm", "add"], settings);
        plan.line.extend(filesystem_flags(parsed, options));
        return needs_one(plan);
    }
    if word.len() > 2 && is("remove") {
        return needs_one(simple(&["hsm", "remove"], SpaceForm::Plain));
    }
    if is("start") || is("stop") || is("restart") {
        return Err("the processes of space management are a service; use 'systemctl start \
                    holdfast-hsm' or 'systemctl stop holdfast-hsm'"
            .to_owned());
    }
    if is("deactivate") || is("reactivate") {
        return Err(
            "a file system is managed or not; 'dsmmigfs update FS -HThreshold=100' ends the \
                    automatic migration, and 'dsmmigfs remove FS' the management"
                .to_owned(),
        );
    }
    Err("dsmmigfs takes add, update, query or remove; one machine manages each file system"
        .to_owned())
}

fn filesystem_flags(parsed: &ParsedWords, options: &Options) -> Vec<OsString> {
    let mut flags = Vec::new();
    let mut add = |flag: &str, value: Option<String>| {
        if let Some(value) = value {
            flags.extend([OsString::from(flag), value.into()]);
        }
    };
    let given = |name| parsed.get(name).map(Entry::text);
    let never = options.yes("HSMDISABLEAUTOMIGDAEMONS").unwrap_or(false);
    add("--high", given("HTHRESHOLD").or_else(|| never.then(|| "100".to_owned())));
    add("--low", given("LTHRESHOLD"));
    add("--premigrated", given("PMPERCENTAGE"));
    add("--min-size", given("MINMIGFILESIZE").or_else(|| options.text("MINMIGFILESIZE")));
    add("--whole", options.text("MINPARTIALRECALLSIZE"));
    let only = options.yes("HSMOPTIMIZEDRECALLONLY");
    add("--requests-only", only.map(|is_on| if is_on { "yes" } else { "no" }.to_owned()));
    flags
}

/// Commands of `holdfast hsm` that take one path.
const OF_ONE_PATH: [&str; 5] = ["add", "cancel", "reconcile", "relieve", "remove"];

impl SpacePlan {
    /// Returns plans of which each is one command line of `holdfast`.
    pub fn parts(self) -> Vec<Self> {
        let takes_one =
            self.line.get(1).is_some_and(|verb| OF_ONE_PATH.iter().any(|one| verb == one));
        if !takes_one || self.paths.len() < 2 {
            return vec![self];
        }
        let part = |path: &Vec<u8>| Self { paths: vec![path.clone()], ..self.clone() };
        self.paths.iter().map(part).collect()
    }

    /// Returns the words of the command line, with the paths.
    pub fn words(&self, paths: &[Vec<u8>]) -> Vec<OsString> {
        let paths = paths.iter().map(|path| OsString::from_vec(path.clone()));
        self.line.iter().cloned().chain(paths).collect()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::options::{System, parse as parse_file};
    use crate::words::words;

    #[track_caller]
    fn check(line: &str, expected: &str) {
        check_with(line, "", expected);
    }

    #[track_caller]
    fn check_with(line: &str, file: &str, expected: &str) {
        let all = words(line.as_bytes()).expect("words");
        let name = String::from_utf8(all[0].clone()).expect("text");
        let (user, faults) = parse_file("dsm.sys", file.as_bytes());
        assert_eq!(faults, []);
        let options = Options::new(&System::default(), None, &user, &[]);
        let shown = match plan(find(&name).expect("a command"), &all[1..], &options) {
            Ok(plan) => {
                let words = plan.words(&plan.paths);
                let line: Vec<_> = words.iter().map(|word| word.to_string_lossy()).collect();
                let list = plan.filelist.as_ref().map(|list| format!(" <{}", model::escaped(list)));
                let flat = if plan.is_flat { " flat" } else { "" };
                format!("{}{}{flat} {:?}", line.join(" "), list.unwrap_or_default(), plan.form)
            }
            Err(reason) => format!("! {reason}"),
        };
        assert_eq!(shown, expected, "{line}");
    }

    #[test]
    fn migrations_and_recalls_name_files_or_a_list() {
        check("dsmmigrate /d/a /d/b", "hsm migrate /d/a /d/b flat Files { details: false }");
        check("dsmmigrate -R -d /d", "hsm migrate /d Files { details: true }");
        check("dsmmigrate -premigrate /d/a", "hsm premigrate /d/a flat Files { details: false }");
        check("dsmmigrate -p /d/a", "hsm premigrate /d/a flat Files { details: false }");
        check("dsmmigrate -filelist=/l", "hsm migrate </l flat Files { details: false }");
        check("dsmrecall -d -filelist=/l /fs", "hsm recall </l flat Files { details: true }");
        check("dsmrecall -r /d", "hsm recall /d Files { details: false }");
        check(
            "dsmrecall -resident /d/a",
            "hsm recall --resident /d/a flat Files { details: false }",
        );
        check("dsmrecall -preview -filelist=/l /fs", "hsm recall --dry-run </l flat Plain");
        check("dsmautomig /fs", "hsm relieve /fs Files { details: false }");
        check("dsmautomig", "! name the mount point");
        check("dsmrecall", "! name the files to recall, or a list with -filelist=");
    }

    #[test]
    fn lists_stand_for_the_working_directory() {
        check("dsmls", "hsm ls . List { heading: true, recursive: false }");
        check("dsmls -R -N /d", "hsm ls /d List { heading: false, recursive: true }");
        check("dsmls -FILElist=/l", "hsm ls </l List { heading: true, recursive: false }");
        check("dsmls -f=/l /d", "! give files, or a list with -filelist=, and not both");
        check("dsmdf", "hsm df Filesystems");
        check("dsmdf /fs", "hsm df /fs Filesystems");
        check("dsmdu /d", "hsm du /d Sizes(Directories)");
        check("dsmdu -a /d", "hsm du /d Sizes(Files)");
        check("dsmdu -Summary", "hsm du . Sizes(Named)");
        check("dsmq", "hsm status Queue");
        check("dsmq -d", "hsm status Queue");
        check("dsmq /fs", "hsm status /fs Queue");
        check("dsmrm 17", "hsm cancel 17 Plain");
        check("dsmrm", "! name the number of the recall, which dsmq shows");
        check("dsmreconcile /fs", "hsm reconcile /fs Plain");
        check("dsmreconcile -orphancheck /fs", "hsm reconcile --dry-run /fs Plain");
        check("dsmreconcile -fileinfo /fs", "hsm reconcile /fs Plain");
        check("dsmmigundelete /fs", "hsm undelete /fs Files { details: true }");
        check("dsmmighelp", " Help");
        check("dsmmigquery /fs", "hsm list /fs Plain");
    }

    #[test]
    fn several_file_systems_have_a_command_line_each() {
        let lines = |line: &str| -> Vec<Vec<OsString>> {
            let all = words(line.as_bytes()).expect("words");
            let name = String::from_utf8_lossy(&all[0]).into_owned();
            let plan = plan(find(&name).expect("a command"), &all[1..], &Options::default());
            let parts = plan.expect("a plan").parts();
            parts.iter().map(|part| part.words(&part.paths)).collect()
        };
        assert_eq!(lines("dsmrm 1 2"), [["hsm", "cancel", "1"], ["hsm", "cancel", "2"]]);
        assert_eq!(lines("dsmautomig /a /b").len(), 2);
        assert_eq!(lines("dsmmigfs query /a /b"), [["hsm", "list", "/a", "/b"]]);
        assert_eq!(lines("dsmmigfs query"), [["hsm", "list"]]);
    }

    #[test]
    fn file_systems_are_managed() {
        check(
            "dsmmigfs add -HT=85 -lt=75 -pm=10 /fs",
            "hsm add --high 85 --low 75 --premigrated 10 /fs Settings { details: false }",
        );
        check("dsmmigfs update /fs -ht=100", "hsm add --high 100 /fs Settings { details: false }");
        check("dsmmigfs query", "hsm list Settings { details: false }");
        check("dsmmigfs q -detail", "hsm list Settings { details: true }");
        check("dsmmigfs query /fs /other", "hsm list /fs /other Settings { details: false }");
        check("dsmmigfs remove /fs", "hsm remove /fs Plain");
        check("dsmmigfs add", "! name the mount point after 'add'");
        check_with(
            "dsmmigfs add /fs",
            "minmigfilesize 1M\nhsmoptimizedrecallonly yes\nhsmdisableautomigdaemons yes",
            "hsm add --high 100 --min-size 1M --requests-only yes /fs Settings { details: false }",
        );
        for line in
            ["dsmmigfs stop", "dsmmigfs deactivate /fs", "dsmmigfs takeover x", "dsmattr /a"]
        {
            let all = words(line.as_bytes()).expect("words");
            let name = String::from_utf8_lossy(&all[0]).into_owned();
            let plan = plan(find(&name).expect("a command"), &all[1..], &Options::default());
            assert!(plan.is_err(), "{line}");
        }
    }

    proptest! {
        #[test]
        fn any_words_are_a_plan_or_an_error(
            index in 0..14_usize,
            words in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..20), 0..5),
        ) {
            let (_, command, _) = COMMANDS[index];
            if let Err(reason) = plan(command, &words, &Options::default()) {
                prop_assert_eq!(reason.lines().count(), 1);
            }
        }
    }
}
