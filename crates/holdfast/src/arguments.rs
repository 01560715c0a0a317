//! The command line: parsed into [`Arguments`], or refused with a hint.

mod numbers;
mod words;

use std::error::Error as _;
use std::ffi::OsString;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory as _, Parser as _};

use self::words::NAME;
use crate::commands::Command;
use crate::error::CommandError;
use crate::options::Global;
use crate::output::Format;
use crate::spelling;

/// Command whose words are those of another program, with options of its own form.
const FOREIGN: &str = "dsmadmc";
/// Group of the commands of administrators.
const ADMINISTRATION: &str = "holdfast admin";
/// Command that takes the command for nodes after `--`.
const AT_NODES: &str = "holdfast admin run";
/// Maximum number of commands that a hint names for a word that is a command elsewhere.
const ELSEWHERE_MAX: usize = 4;
/// Minimum length of the beginning of a command elsewhere.
const BEGINNING_BYTES_MIN: usize = 3;
/// Minimum length of a word that is similar to a command elsewhere.
const SIMILAR_BYTES_MIN: usize = 4;
/// Words by which people ask for the list of a group, such as `holdfast archives`.
const LIST_WORDS: [&str; 3] = ["list", "ls", "show"];

/// Backs up file trees to a server, always incrementally, and restores them.
#[derive(clap::Parser, Debug)]
#[command(name = NAME, version, max_term_width = 100)]
#[command(after_help = "\
Examples:
  holdfast enroll backup.example.org:1500 --token TOKEN
  holdfast backup /home
  holdfast restore /home/ann/letters --at 'yesterday 18:00' --to /tmp/letters

Exit codes: 0 all done; 4 some objects failed or were skipped; 8 done with warnings; 12 not done.")]
pub(crate) struct Arguments {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Command,
    /// Name of the command, as in `holdfast image backup`.
    #[arg(skip)]
    pub(crate) name: String,
    /// Names of the options on the command line, without their dashes.
    #[arg(skip)]
    pub(crate) flags: Vec<String>,
}

/// Reasons why a command line gives no command to run.
#[derive(Debug)]
pub(crate) enum Stop {
    /// The command line asks for help or the version.
    Help(clap::Error),
    Usage(CommandError),
}

/// Returns the form of the results that a command line asks for, even if it cannot be parsed.
pub(crate) fn format(words: &[OsString]) -> Format {
    let mut options = words.iter().take_while(|word| *word != "--");
    if options.any(|word| word == "--json") { Format::Json } else { Format::Text }
}

/// Parses a command line, which begins with the name of the program.
pub(crate) fn parse(mut words: Vec<OsString>) -> Result<Arguments, Stop> {
    if words.get(1).is_some_and(|word| word == FOREIGN) {
        // Nothing after the name is an option of this program.
        words.insert(2, OsString::from("--"));
    }
    let parsed = Arguments::try_parse_from(&words).map_err(|error| match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => Stop::Help(error),
        _ => Stop::Usage(usage_error(&error, &words)),
    })?;
    let (name, _) = command_named(&Arguments::command(), &words);
    let flags = flags(&words);
    Ok(Arguments { name, flags, ..parsed })
}

/// Returns the names of the options in `words`.
fn flags(words: &[OsString]) -> Vec<String> {
    let options = words.iter().take_while(|word| *word != "--");
    let name = |word: &OsString| {
        let word = word.to_str()?.strip_prefix("--")?;
        Some(word.split_once('=').map_or(word, |(name, _)| name).to_owned())
    };
    options.filter_map(name).collect()
}

fn usage_error(error: &clap::Error, words: &[OsString]) -> CommandError {
    let whole = Arguments::command();
    let (before, after) = around_unknown(error, words);
    let (command, definition) = command_named(&whole, before);
    let message = match error.kind() {
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand | ErrorKind::MissingSubcommand => {
            format!("'{command}' needs a command after it")
        }
        _ => refusal_of(error, words),
    };
    let help = format!("try '{command} --help'");
    let suggested = match unknown_command(error) {
        Some(word) => command_meant(word, &whole, (&command, definition), after),
        None => similar_value(error).or_else(|| missing_dashes(error, &command, words)),
    };
    let hint = match suggested {
        Some(suggestion) if suggestion.ends_with('?') => suggestion,
        Some(suggestion) => format!("{suggestion}; {help}"),
        None => help,
    };
    CommandError::new(message).with_hint(hint)
}

/// Returns the hint for a command for nodes that does not come after `--`.
fn missing_dashes(error: &clap::Error, command: &str, words: &[OsString]) -> Option<String> {
    let is_missing =
        matches!(error.kind(), ErrorKind::MissingRequiredArgument | ErrorKind::UnknownArgument);
    let hint = "put -- before the command, as in 'holdfast admin run web-01 -- backup /etc'";
    let applies = is_missing && command == AT_NODES && !words.iter().any(|word| word == "--");
    applies.then(|| hint.to_owned())
}

/// Divides `words` at the unknown name of a command that the error is about. Words after it can
/// name no command.
fn around_unknown<'a>(
    error: &clap::Error,
    words: &'a [OsString],
) -> (&'a [OsString], &'a [OsString]) {
    let Some(unknown) = unknown_command(error) else { return (words, &[]) };
    let at = words.iter().skip(1).position(|word| word == unknown);
    at.map_or((words, &[]), |at| (&words[..=at], &words[at + 2..]))
}

fn unknown_command(error: &clap::Error) -> Option<&str> {
    match error.get(ContextKind::InvalidSubcommand) {
        Some(ContextValue::String(word)) if error.kind() == ErrorKind::InvalidSubcommand => {
            Some(word)
        }
        _ => None,
    }
}

/// Words that mean the same: one command has one of them, and another command another.
const SAME_ACTS: [&[&str]; 5] = [
    &["delete", "remove", "rm", "del"],
    &["add", "define", "create", "new", "register"],
    &["list", "show", "ls", "query", "q"],
    &["set", "update", "modify", "change", "edit"],
    &["cancel", "stop", "abort"],
];

/// Returns the name of the command below `command` that does what `word` means elsewhere.
fn same_act<'a>(word: &str, command: &'a clap::Command) -> Option<&'a str> {
    let words = SAME_ACTS.into_iter().find(|words| words.contains(&word))?;
    let shown = command.get_subcommands().filter(|inner| !inner.is_hide_set());
    let mut names = shown.map(clap::Command::get_name);
    names.find(|name| words.contains(name))
}

/// Returns the command that is meant if `word` is an act before its object, the first of the words
/// `after`, as in TSM's `delete node`. The object is in the group with this name and definition. If
/// that is the program, administrators' objects are meant, too.
fn act_before_object(
    word: &str,
    whole: &clap::Command,
    (named, group): (&str, &clap::Command),
    after: &[OsString],
) -> Option<String> {
    let object = after.first()?.to_str()?;
    let within = |named: &str, group: &clap::Command| {
        let inner = group.find_subcommand(object);
        let inner = inner.or_else(|| group.find_subcommand(singular_of(object)))?;
        let act = inner.find_subcommand(word).map(clap::Command::get_name);
        let act = act.or_else(|| same_act(word, inner))?;
        Some(format!("{named} {} {act}", inner.get_name()))
    };
    let found = within(named, group);
    if found.is_some() || named != NAME {
        return found;
    }
    within(ADMINISTRATION, whole.find_subcommand("admin")?)
}

/// Returns clap's message on one line, with the rule for a number that it refuses.
fn refusal_of(error: &clap::Error, words: &[OsString]) -> String {
    if let Some(number) = negative_number(error, words) {
        return format!("no negative number is taken here: '{number}'");
    }
    let message = first_paragraph(&error.to_string());
    let reworded = error.source().and_then(|source| {
        let before = message.strip_suffix(&source.to_string())?;
        Some(format!("{before}{}", numbers::plain_reason(source)?))
    });
    reworded.unwrap_or(message)
}

/// Returns the negative number in `words` that clap takes for options, of which it names the first.
fn negative_number<'a>(error: &clap::Error, words: &'a [OsString]) -> Option<&'a str> {
    let Some(ContextValue::String(first)) = error.get(ContextKind::InvalidArg) else { return None };
    let is_digit = first.as_bytes().get(1).is_some_and(u8::is_ascii_digit);
    let is_unknown = error.kind() == ErrorKind::UnknownArgument && is_digit;
    // -0 is short for --null.
    let is_meant = |word: &&str| {
        word.starts_with(first.as_str()) && word.parse::<f64>().is_ok_and(|number| number < 0.0)
    };
    words
        .iter()
        .filter_map(|word| word.to_str())
        .find(is_meant)
        .filter(|_| is_unknown)
}

/// Returns clap's message without its advice, on one line.
fn first_paragraph(text: &str) -> String {
    let text = text.strip_prefix("error: ").unwrap_or(text);
    let lines = text.lines().map(str::trim);
    let paragraph: Vec<_> = lines.take_while(|line| !line.is_empty()).collect();
    paragraph.join(" ")
}

/// Returns the hint for `word`, which is no command in the group with this name and definition:
/// what the word of another program means, the command of an object that stands after its act, the
/// command of the group that another word for the same act names, the group itself if it lists, the
/// command of the group that has the word as its plural, otherwise commands of this name elsewhere,
/// the commands that the word abbreviates, or the one to which it, or its singular, is similar. The
/// last are commands elsewhere of which the word is the plural or the beginning, or to which it is
/// similar. `after` has the words after the unknown one.
fn command_meant(
    word: &str,
    whole: &clap::Command,
    (named, group): (&str, &clap::Command),
    after: &[OsString],
) -> Option<String> {
    let question = |names: &[String]| format!("did you mean {}?", quoted(names, " or "));
    let lines = |meant: &[&str]| meant.iter().map(|&line| line.to_owned()).collect::<Vec<_>>();
    if let Some(meant) = words::meant_by(named, word) {
        return Some(question(&lines(meant)));
    }
    if let Some(meant) = act_before_object(word, whole, (named, group), after) {
        return Some(question(&[meant]));
    }
    if let Some(meant) = same_act(word, group) {
        return Some(question(&[format!("{named} {meant}")]));
    }
    if LIST_WORDS.contains(&word) && !group.is_subcommand_required_set() {
        return Some(question(&[named.to_owned()]));
    }
    if let Some(found) = plural_in(named, group, word, after) {
        return Some(question(&[found]));
    }
    let exact = elsewhere(whole, &|name| name == word, after);
    if !exact.is_empty() {
        if let Some(list) = list_in(group, word, after) {
            return Some(question(&[format!("{named} {list}")]));
        }
        let all = [lists_elsewhere(whole, word, after), exact.clone()].concat();
        if let Some(found) = few(all).or_else(|| few(exact)) {
            return Some(question(&found));
        }
    }
    let path_in = |name: &str| {
        let inner = group.find_subcommand(name)?;
        Some(meant_from(format!("{named} {name}"), inner, after).0)
    };
    let beginning = beginning_with(word, group);
    if let Some(found) = few(beginning.iter().filter_map(|name| path_in(name)).collect()) {
        return Some(question(&found));
    }
    if !beginning.is_empty() {
        return Some(format!("{} begin so", quoted(&beginning, ", ")));
    }
    let own = names_in(group);
    let mut known = own.clone();
    known.extend(words::known_after(named));
    if let Some(similar) = spelling::similar(word, &known) {
        return match words::meant_by(named, similar) {
            Some(meant) => Some(question(&lines(meant))),
            None => path_in(similar).map(|found| question(&[found])),
        };
    }
    spelling::similar(&singular_of(word), &own)
        .and_then(|similar| plural_in(named, group, &format!("{similar}s"), after))
        .map(|found| vec![found])
        .or_else(|| loosely_elsewhere(whole, word, after))
        .or_else(|| similar_elsewhere(whole, word, after))
        .map(|found| question(&found))
}

/// Returns the names of the commands in `group` that help shows.
fn names_in(group: &clap::Command) -> Vec<&str> {
    let inner = group.get_subcommands().filter(|inner| !inner.is_hide_set());
    inner.map(clap::Command::get_name).collect()
}

/// Returns `commands` if there are some, and few enough to be named.
fn few(commands: Vec<String>) -> Option<Vec<String>> {
    (1..=ELSEWHERE_MAX).contains(&commands.len()).then_some(commands)
}

/// Returns the word of which `word` is the plural; empty if it is none.
fn singular_of(word: &str) -> String {
    match word.strip_suffix("ies") {
        Some(stem) => format!("{stem}y"),
        None => word.strip_suffix('s').unwrap_or_default().to_owned(),
    }
}

/// Returns the command of `group` that a plural of its name asks for: what the words `after` name,
/// or its list.
fn plural_in(named: &str, group: &clap::Command, word: &str, after: &[OsString]) -> Option<String> {
    let is_meant = |inner: &&clap::Command| inner.get_name() == singular_of(word);
    let inner = group.get_subcommands().filter(|inner| !inner.is_hide_set()).find(is_meant)?;
    let (path, command) = meant_from(format!("{named} {}", inner.get_name()), inner, after);
    match command.find_subcommand("list") {
        Some(_) => Some(format!("{path} list")),
        None => Some(path),
    }
}

/// Returns the command of `group` that lists what `word` is called, as in `agent schedules`. Words
/// `after` it ask for something else.
fn list_in<'a>(group: &'a clap::Command, word: &str, after: &[OsString]) -> Option<&'a str> {
    let is_last = after.first().is_none_or(|next| next.as_encoded_bytes().starts_with(b"-"));
    let is_list = |name: &&str| name.strip_suffix('s') == Some(word);
    names_in(group).into_iter().find(is_list).filter(|_| is_last)
}

/// Returns the commands anywhere of which `word` is the plural, which asks for their lists.
fn lists_elsewhere(whole: &clap::Command, word: &str, after: &[OsString]) -> Vec<String> {
    let singular = singular_of(word);
    let listed = |path: String| {
        if path.rsplit(' ').next() != Some(singular.as_str()) {
            return Some(path);
        }
        let names: Vec<OsString> = path.split(' ').map(OsString::from).collect();
        let (_, command) = command_named(whole, &names);
        command.find_subcommand("list").map(|_| format!("{path} list"))
    };
    let groups = elsewhere(whole, &|name| name == singular, after);
    groups.into_iter().filter_map(listed).collect()
}

/// Returns the commands anywhere of which `word` is the plural or the beginning.
fn loosely_elsewhere(whole: &clap::Command, word: &str, after: &[OsString]) -> Option<Vec<String>> {
    few(lists_elsewhere(whole, word, after)).or_else(|| {
        let begins = |name: &str| word.len() >= BEGINNING_BYTES_MIN && name.starts_with(word);
        few(elsewhere(whole, &begins, after))
    })
}

/// Returns the commands anywhere to which `word` is similar, or their lists if a plural of their
/// names is.
fn similar_elsewhere(whole: &clap::Command, word: &str, after: &[OsString]) -> Option<Vec<String>> {
    fn visit<'a>(command: &'a clap::Command, names: &mut Vec<&'a str>) {
        for inner in command.get_subcommands().filter(|inner| !inner.is_hide_set()) {
            names.push(inner.get_name());
            visit(inner, names);
        }
    }
    if word.len() < SIMILAR_BYTES_MIN {
        return None;
    }
    let mut names = Vec::new();
    visit(whole, &mut names);
    match spelling::similar(word, &names) {
        Some(name) => few(elsewhere(whole, &|inner| inner == name, after)),
        None => {
            let name = spelling::similar(&singular_of(word), &names)?;
            loosely_elsewhere(whole, &format!("{name}s"), after)
        }
    }
}

/// Returns the hint for an option or a value that is not known: the one that clap finds similar.
fn similar_value(error: &clap::Error) -> Option<String> {
    let kinds =
        [ContextKind::SuggestedArg, ContextKind::SuggestedSubcommand, ContextKind::SuggestedValue];
    let suggested = kinds.into_iter().find_map(|kind| match error.get(kind)? {
        ContextValue::String(one) => Some(one.clone()),
        // The last is the most similar.
        ContextValue::Strings(all) => all.last().cloned(),
        _ => None,
    });
    suggested.map(|meant| format!("'{meant}' is similar"))
}

fn quoted(names: &[String], between: &str) -> String {
    let names: Vec<String> = names.iter().map(|name| format!("'{name}'")).collect();
    names.join(between)
}

/// Returns the full names of the commands whose names are meant, at any depth, followed by the
/// commands that the words `after` name. If the next word is a command of some of them, only they
/// are meant.
fn elsewhere(
    whole: &clap::Command,
    is_meant: &dyn Fn(&str) -> bool,
    after: &[OsString],
) -> Vec<String> {
    fn visit<'a>(
        command: &'a clap::Command,
        path: &str,
        is_meant: &dyn Fn(&str) -> bool,
        found: &mut Vec<(String, &'a clap::Command)>,
    ) {
        for inner in command.get_subcommands().filter(|inner| !inner.is_hide_set()) {
            let path = format!("{path} {}", inner.get_name());
            if is_meant(inner.get_name()) {
                found.push((path.clone(), inner));
            }
            visit(inner, &path, is_meant, found);
        }
    }
    let mut found = Vec::new();
    visit(whole, NAME, is_meant, &mut found);
    let next = after.first();
    let goes_on =
        |command: &clap::Command| next.is_some_and(|next| command.find_subcommand(next).is_some());
    if found.iter().any(|(_, command)| goes_on(command)) {
        found.retain(|(_, command)| goes_on(command));
    }
    let named = found.into_iter().map(|(path, command)| meant_from(path, command, after).0);
    named.collect()
}

/// Returns the names of the commands in `command` that begin with `word`.
fn beginning_with(word: &str, command: &clap::Command) -> Vec<String> {
    let names = command.get_subcommands().filter(|inner| !inner.is_hide_set());
    let names = names.map(|inner| inner.get_name().to_owned());
    names.filter(|name| name.starts_with(word)).collect()
}

/// Returns the longest command that `words` name, as in `holdfast admin node`, and its definition.
fn command_named<'a>(whole: &'a clap::Command, words: &[OsString]) -> (String, &'a clap::Command) {
    named_from(NAME.to_owned(), whole, words.get(1..).unwrap_or_default())
}

/// Returns the longest command that `words` name within `command`, which is called `named`.
fn named_from<'a>(
    mut named: String,
    mut command: &'a clap::Command,
    words: &[OsString],
) -> (String, &'a clap::Command) {
    for word in words {
        if let Some(found) = command.find_subcommand(word) {
            named = format!("{named} {}", found.get_name());
            command = found;
        }
    }
    (named, command)
}

/// Returns the longest command that `words` name within `command`, as [`named_from`] does. If it is
/// a group, one of the other words may name one of its commands inexactly: as an abbreviation, with
/// a typing error, or by another word for the same act.
fn meant_from<'a>(
    named: String,
    command: &'a clap::Command,
    words: &[OsString],
) -> (String, &'a clap::Command) {
    let (named, command) = named_from(named, command, words);
    let is_left = |word: &&str| {
        !word.is_empty() && !word.starts_with('-') && !named.split(' ').any(|name| name == *word)
    };
    let mut left = words.iter().filter_map(|word| word.to_str()).filter(is_left);
    match left.find_map(|word| command.find_subcommand(nearest(word, command)?)) {
        Some(found) => (format!("{named} {}", found.get_name()), found),
        None => (named, command),
    }
}

/// Returns the name of the command in `group` that `word` means.
fn nearest<'a>(word: &str, group: &'a clap::Command) -> Option<&'a str> {
    let names = names_in(group);
    let beginning: Vec<&str> =
        names.iter().copied().filter(|name| name.starts_with(word)).collect();
    match beginning[..] {
        [only] => Some(only),
        _ => same_act(word, group).or_else(|| spelling::similar(word, &names)),
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    fn words(line: &str) -> Vec<OsString> {
        std::iter::once(NAME)
            .chain(line.split_whitespace())
            .map(OsString::from)
            .collect()
    }

    #[track_caller]
    fn refusal(line: &str) -> String {
        match parse(words(line)) {
            Err(Stop::Usage(error)) => {
                let text = format!("{}\n    {}", error.message, error.hint.expect("a hint"));
                assert_eq!(text.lines().count(), 2, "two lines: {text}");
                text
            }
            other => panic!("{line} should be refused: {other:?}"),
        }
    }

    #[test]
    fn the_definition_is_consistent() {
        Arguments::command().debug_assert();
    }

    /// Command lines that are refused.
    const REFUSED: &[&str] = &[
        "",
        "server",
        "admin node",
        "no-such-command",
        "backup --no-such-option",
        "bakcup /home",
        "res /home",
        "arch",
        "admin nod list",
        "admin nodes list",
        "admin events",
        "admin eventt",
        "admin eventt lst",
        "admin evnts",
        "eventt",
        "evnts",
        "schedule defin",
        "agent schedule",
        "agent schedule define",
        "admin event shw 3",
        "admin --server /srv schedules lst",
        "schedule list",
        "node list --json",
        "admin restore /home",
        "status list",
        "archives list",
        "query filespace",
        "q",
        "version",
        "selective /home",
        "incremental",
        "login",
        "config",
        "run",
        "server strt",
        "verson",
        "define nightly",
        "admin optionset delete LINUX",
        "admin schedule remove nightly",
        "admin volume labl",
        "admin node ls",
        "admin pool show",
        "archives ls",
        "admin schedule set",
        "admin node update",
        "admin node del",
        "admin node register",
        "admin event stop",
        "admin event show cmd1",
        "events",
        "schedules",
        "libraries",
        "sched",
        "admin run n1 backup /etc",
        "admin run n1 backup --full /etc",
        "admin run n1 --",
        "hsm recal /data",
        "backup /home --compresion 3",
        "backup /home --compression 20",
        "backup /home --resourceutilization many",
        "find x --limit 0",
        "find x --limit -50",
        "backup --filelist /tmp/list /home",
        "restore",
        "restore /x --at the-day-before",
        "restore /x --replace perhaps",
        "list --recursive",
        "enroll localhost",
        "admin --server /srv node add bert --expires soon",
        "backup /home --quiet --verbose",
    ];

    #[test]
    fn a_refusal_names_the_thing_and_the_next_step() {
        let refusals = REFUSED.iter().map(|line| refusal(line)).collect::<Vec<_>>().join("\n");
        insta::assert_snapshot!(refusals);
    }

    /// Administrators who come from TSM name the act first. Some hints named the opposite act.
    #[test]
    fn an_act_before_its_object_is_understood() {
        for (line, meant) in [
            ("admin delete node bert", "holdfast admin node remove"),
            ("admin query node", "holdfast admin node list"),
            ("admin list nodes", "holdfast admin node list"),
            ("admin register node bert", "holdfast admin node add"),
            ("admin lock node bert", "holdfast admin node lock"),
            ("admin update schedule nightly", "holdfast admin schedule update"),
            ("add node bert", "holdfast admin node add"),
            ("admin server list", "holdfast admin servers"),
            ("admin actlog", "holdfast admin log"),
            ("admin node token bert", "holdfast admin node add --again"),
            ("hsm unmigrate /data/a", "holdfast hsm recall"),
            ("unarchive /data/a", "holdfast retrieve"),
            ("search letter", "holdfast find"),
        ] {
            let refused = refusal(line);
            let expected = format!("did you mean '{meant}'?");
            assert!(refused.contains(&expected), "{line}: {refused}");
        }
    }

    #[test]
    fn the_form_of_an_error_is_known_before_the_options_are() {
        for (line, format) in [
            ("bakcup --json", Format::Json),
            ("--json list", Format::Json),
            ("backup /x", Format::Text),
            ("backup -- --json", Format::Text),
        ] {
            assert_eq!(super::format(&words(line)), format, "{line}");
        }
    }

    #[test]
    fn global_options_stand_anywhere() {
        for line in [
            "--home /h --json backup --progress /x",
            "backup /x --progress --json --home /h",
            "backup --home /h /x --json --progress",
        ] {
            let global = parse(words(line)).expect("parses").global;
            assert!(global.json && global.progress && !global.quiet);
            assert_eq!(global.home, Some(PathBuf::from("/h")));
        }
    }

    /// Calls `work` with each command below `command`, and with its full name.
    fn each_command(
        command: &clap::Command,
        path: &str,
        work: &mut impl FnMut(&clap::Command, &str),
    ) {
        work(command, path);
        for inner in command.get_subcommands() {
            each_command(inner, &format!("{path} {}", inner.get_name()), work);
        }
    }

    #[test]
    fn each_command_refuses_an_unknown_option_in_the_form_that_is_asked_for() {
        let mut wrong = Vec::new();
        each_command(&Arguments::command(), NAME, &mut |command, path| {
            let takes_all = command.get_arguments().any(clap::Arg::is_trailing_var_arg_set);
            if command.has_subcommands() || takes_all || path.ends_with(FOREIGN) {
                return;
            }
            let name = path.strip_prefix(NAME).expect("a command of the program");
            let given = words(&format!("{name} --no-such-option --json"));
            let form = format(&given);
            let is_refused = match parse(given) {
                Err(Stop::Usage(error)) => {
                    error.message.contains("'--no-such-option'") && error.hint.is_some()
                }
                _ => false,
            };
            if !is_refused || form != Format::Json {
                wrong.push(path.to_owned());
            }
        });
        assert_eq!(wrong, [""; 0]);
    }

    /// One option had the value NODE in one command and NAME in another, and a rate was a SIZE.
    #[test]
    fn a_value_has_one_name_in_all_commands() {
        let expected = [("node", "NODE"), ("limit-rate", "RATE"), ("limit-rate-send", "RATE")];
        let mut wrong = Vec::new();
        let mut whole = Arguments::command();
        whole.build();
        each_command(&whole, NAME, &mut |command, path| {
            for argument in command.get_arguments() {
                let (Some(long), Some([value])) = (argument.get_long(), argument.get_value_names())
                else {
                    continue;
                };
                let is_wrong = match long {
                    "rate" => value != "RATE" && value != "VERSIONS",
                    _ => expected.iter().any(|(name, known)| long == *name && value != *known),
                };
                if is_wrong {
                    wrong.push(format!("{path} --{long} {value}"));
                }
            }
        });
        assert_eq!(wrong, [""; 0]);
    }

    #[test]
    fn options_of_the_connection_have_a_heading_of_their_own() {
        let help = |line: &str| match parse(words(line)) {
            Err(Stop::Help(help)) => help.to_string(),
            other => panic!("{line} should show help: {other:?}"),
        };
        for line in ["backup --help", "admin --help", "admin node list --help"] {
            let text = help(line);
            let (_, connection) = text.split_once("\nConnection:\n").expect("a heading");
            assert!(connection.contains("--wait <LENGTH>"), "{line}: {text}");
        }
    }

    /// Lists that end with NUL, switches and confirmations had other names in other commands.
    #[test]
    fn an_option_has_one_form_in_all_commands() {
        let names = ["print0", "zero", "nul", "yes", "assume-yes", "really", "preview", "simulate"];
        let values = ["BYTES", "KB", "MB", "MIB", "GB", "BOOL", "ON|OFF", "YES|NO"];
        let mut wrong = Vec::new();
        let mut whole = Arguments::command();
        whole.build();
        each_command(&whole, NAME, &mut |command, path| {
            let named = |long: &str| {
                command.get_arguments().find(|argument| argument.get_long() == Some(long))
            };
            if named("filelist").is_some() {
                let null = named("null").map(|null| null.get_short());
                if null != Some(Some('0')) {
                    wrong.push(format!("{path}: a list of files needs --null, -0 for short"));
                }
            }
            for argument in command.get_arguments() {
                let long = argument.get_long().unwrap_or_default();
                if names.contains(&long) {
                    wrong.push(format!("{path} --{long}"));
                }
                for value in argument.get_value_names().unwrap_or_default() {
                    let upper = value.to_uppercase();
                    let is_switch = upper.split('|').any(|word| word == "YES");
                    if (is_switch && value != "YES|NO") || (!is_switch && values.contains(&&*upper))
                    {
                        wrong.push(format!("{path} --{long} {value}"));
                    }
                }
            }
        });
        assert_eq!(wrong, [""; 0]);
    }

    #[test]
    fn sizes_switches_and_names_are_taken_in_their_one_form() {
        for line in [
            "backup /x --txnbytelimit 10G",
            "backup /x --txnbytelimit 32GiB",
            "restore /x --stubs-from 1.5GiB",
            "hsm add /data --min-size 10M",
            "admin library set LIB --writers 2 --retain 10m",
            "admin audit --data --rate 50M",
            "backup /x --deduplication NO",
            "admin node set bert --backdelete yes",
            "admin node remove bert --confirm",
            "admin catalog backup --confirm",
            "admin volume set V00001 --access destroyed --confirm",
            "admin volume reclaim TAPES",
            "archives hold 3",
            "archives release 3",
            "admin queue cancel 3",
            "restore --filelist list --null --to /x",
            "hsm recall --filelist list -0",
            "backup --filelist list -0",
        ] {
            if let Err(Stop::Usage(error)) = parse(words(line)) {
                panic!("{line}: {} {:?}", error.message, error.hint);
            }
        }
        let refused = refusal("backup /x --txnbytelimit 33G");
        assert!(refused.contains("txnbytelimit"), "{refused}");
        // Somebody who means 50M would wait for years.
        for line in ["backup /x --limit-rate 50", "admin audit --rate 50"] {
            let refused = refusal(line);
            assert!(refused.contains("at least 128K bytes a second"), "{refused}");
        }
    }

    #[test]
    fn compression_levels_may_be_negative() {
        parse(words("backup /x --compression -7")).expect("parses");
        parse(words("backup /x --compression=-7")).expect("parses");
    }

    #[test]
    fn every_command_shows_an_example() {
        fn visit(command: &mut clap::Command, path: &str, missing: &mut Vec<String>) {
            let help = command.render_long_help().to_string();
            if !help.contains("Example") {
                missing.push(path.to_owned());
            }
            let own = command
                .get_subcommands_mut()
                .filter(|inner| inner.get_name() != "help" && !inner.is_hide_set());
            for inner in own {
                let path = format!("{path} {}", inner.get_name());
                visit(inner, &path, missing);
            }
        }
        let mut missing = Vec::new();
        visit(&mut Arguments::command(), NAME, &mut missing);
        assert_eq!(missing, [""; 0]);
    }
}
