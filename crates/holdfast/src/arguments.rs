//! The command line: parsed into [`Arguments`], or refused with a hint.

mod acts;
mod meant;
mod numbers;
mod words;

use std::error::Error as _;
use std::ffi::OsString;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory as _, Parser as _};
use model::spelling;

use self::acts::{
    BEGINNING_BYTES_MIN, LIST, SIMILAR_BYTES_MIN, act_before_object, asks_for_list, beginning_with,
    object_missing, same_act, similar_act, singular_of,
};
use self::meant::NamedCommand;
use self::words::NAME;
use crate::commands::Command;
use crate::error::CommandError;
use crate::flag::Flag;
use crate::options::Global;
use crate::output::Format;

/// Command whose words are those of another program, with options of its own form.
const FOREIGN: &str = "dsmadmc";
/// Group of the commands for the policy of a domain.
const POLICY: &str = "holdfast admin policy";
/// Command that takes the command for nodes after `--`.
const AT_NODES: &str = "holdfast admin run";
/// Maximum number of commands that a hint names for a word that is a command elsewhere.
const ELSEWHERE_MAX: usize = 4;
/// Words by which people ask for the list of a group, such as `holdfast archives`.
const LIST_WORDS: [&str; 3] = [LIST, "ls", "show"];

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
    /// Options on the command line.
    #[arg(skip)]
    pub(crate) flags: Vec<Flag>,
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

/// Returns the options in `words`.
fn flags(words: &[OsString]) -> Vec<Flag> {
    let flag = |(at, word): (usize, &OsString)| {
        let word = word.to_str()?.strip_prefix("--")?;
        let next = || words.get(at + 1).and_then(|next| next.to_str());
        let (name, value) = match word.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (word, next()),
        };
        Some(Flag { name: name.to_owned(), value: value.map(str::to_owned) })
    };
    let options = words.iter().take_while(|word| *word != "--");
    options.enumerate().filter_map(flag).collect()
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
        None => {
            let named = NamedCommand { name: &command, definition, whole: &whole };
            meant::hint(error, &named, words)
                .or_else(|| missing_dashes(error, &command, words))
                .or_else(|| domain_by_option(error, &command, definition))
        }
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

/// Returns the hint for a name after a command for the whole policy of a domain, which takes none.
fn domain_by_option(
    error: &clap::Error,
    command: &str,
    definition: &clap::Command,
) -> Option<String> {
    let Some(ContextValue::String(word)) = error.get(ContextKind::InvalidArg) else { return None };
    let is_name = error.kind() == ErrorKind::UnknownArgument && !word.starts_with('-');
    let is_of_whole = command.starts_with(POLICY) && definition.get_positionals().next().is_none();
    (is_name && is_of_whole).then(|| {
        format!(
            "the name of the domain follows --domain, as in '{command} --domain STANDARD'; \
             'holdfast admin domain list' lists the domains"
        )
    })
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
/// what to do if no command does it, the list that another program queries so, the command of an
/// object that stands after its act, what the word of another program means, the command of the
/// group that another word for the same act names, the group itself if it lists, the command of the
/// group that has the word as its plural, otherwise commands of this name elsewhere, the commands
/// that the word abbreviates, or the one to which it, its act or its singular is similar. Then come
/// commands elsewhere of which the word is the plural or the beginning, or to which it is similar,
/// and last the advice that an object comes before its act. `after` has the words after the unknown
/// one.
fn command_meant(
    word: &str,
    whole: &clap::Command,
    (named, group): (&str, &clap::Command),
    after: &[OsString],
) -> Option<String> {
    let question = |names: &[String]| format!("did you mean {}?", quoted(names, " or "));
    let lines = |meant: &[&str]| meant.iter().map(|&line| line.to_owned()).collect::<Vec<_>>();
    if let Some(advice) = words::advice(named, word) {
        return Some(advice.to_owned());
    }
    if let Some(meant) = query_meant(word, named, after) {
        return Some(question(&[meant.to_owned()]));
    }
    if let Some(meant) = act_before_object(word, whole, (named, group), after) {
        return Some(question(&[meant]));
    }
    if let Some(meant) = words::meant_by(named, word) {
        return Some(question(&lines(meant)));
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
    if let Some(meant) = similar_act(word, group) {
        return Some(question(&[format!("{named} {meant}")]));
    }
    spelling::similar(&singular_of(word), &own)
        .and_then(|similar| plural_in(named, group, &format!("{similar}s"), after))
        .map(|found| vec![found])
        .or_else(|| loosely_elsewhere(whole, word, after))
        .or_else(|| similar_elsewhere(whole, word, after))
        .map(|found| question(&found))
        .or_else(|| object_missing(word, whole, (named, group)))
}

/// Returns the command line that lists the object after `word` in the group `named`, if the word
/// asks for a list, as in TSM's `query session`.
fn query_meant(word: &str, named: &str, after: &[OsString]) -> Option<&'static str> {
    let object = after.first()?.to_str()?;
    words::query_meant(named, object).filter(|_| asks_for_list(word))
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
mod tests;
