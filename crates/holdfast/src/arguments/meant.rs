//! Options, values and words after a command that are not known: which are meant. The module is
//! pure.

use std::error::Error as _;
use std::ffi::OsString;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use model::spelling;

use super::acts::{BEGINNING_BYTES_MIN, LIST, act_before_object, asks_for_list};
use super::words::NAME;

/// Options of other programs, and the option of the same meaning that some commands have.
const FOREIGN_OPTIONS: &[(&str, &str)] = &[
    ("assume-yes", "confirm"),
    ("begindate", "from"),
    ("dayofmonth", "monthdays"),
    ("dayofweek", "days"),
    ("dest", "to"),
    ("destination", "to"),
    ("duration", "window"),
    ("enddate", "to"),
    ("expiration", "until"),
    ("force", "confirm"),
    ("maxretries", "retries"),
    ("noprompt", "confirm"),
    ("output", "to"),
    ("period", "every"),
    ("perunits", "every"),
    ("pitdate", "at"),
    ("preview", "dry-run"),
    ("set", "option"),
    ("simulate", "dry-run"),
    ("since", "from"),
    ("startdate", "start"),
    ("starttime", "time"),
    ("weekofmonth", "weeks"),
    ("yes", "confirm"),
];

/// Command that the words of a refused command line name.
pub(super) struct NamedCommand<'a> {
    /// Name of the command, as in `holdfast admin node`.
    pub(super) name: &'a str,
    pub(super) definition: &'a clap::Command,
    /// Definition of the whole command line.
    pub(super) whole: &'a clap::Command,
}

/// Returns the hint for the option, the value or the word that the error is about.
pub(super) fn hint(
    error: &clap::Error,
    command: &NamedCommand<'_>,
    words: &[OsString],
) -> Option<String> {
    match error.kind() {
        ErrorKind::UnknownArgument => {
            let given = text_of(error, ContextKind::InvalidArg)?;
            match (given.strip_prefix("--"), given.strip_prefix('-')) {
                (Some(name), _) => option_meant(name, error, command),
                (None, Some(letter)) => {
                    let name = name_after_one_dash(letter, words)?;
                    option_meant(name, error, command)
                }
                (None, None) => word_meant(given, command, words),
            }
        }
        ErrorKind::InvalidValue | ErrorKind::ValueValidation => value_meant(error),
        _ => None,
    }
}

fn text_of(error: &clap::Error, kind: ContextKind) -> Option<&str> {
    match error.get(kind)? {
        ContextValue::String(text) => Some(text),
        _ => None,
    }
}

/// Returns the names of the options that `command` takes.
fn options_of<'a>(command: &NamedCommand<'a>) -> Vec<&'a str> {
    let longs = |definition: &'a clap::Command, is_own: bool| {
        let shown = definition.get_arguments().filter(|argument| !argument.is_hide_set());
        shown
            .filter(move |argument| is_own || argument.is_global_set())
            .filter_map(clap::Arg::get_long)
    };
    let mut names: Vec<&str> = longs(command.definition, true).collect();
    let mut above = command.whole;
    for word in command.name.split(' ').skip(1) {
        names.extend(longs(above, false));
        let Some(inner) = above.find_subcommand(word) else { break };
        above = inner;
    }
    names.push("help");
    if command.name == NAME {
        names.push("version");
    }
    names.sort_unstable();
    names.dedup();
    names
}

/// Returns the hint for an unknown option of `command`.
fn option_meant(name: &str, error: &clap::Error, command: &NamedCommand<'_>) -> Option<String> {
    let name = name.split('=').next().unwrap_or_default();
    let known = options_of(command);
    let meant = spelling::meant(name, &known);
    if !name.is_empty() && !meant.is_empty() {
        return Some(similar(&meant, "--"));
    }
    let foreign = FOREIGN_OPTIONS.iter().find(|(foreign, _)| *foreign == name);
    if let Some((_, own)) = foreign.filter(|(_, own)| known.contains(own)) {
        return Some(format!("did you mean '--{own}'?"));
    }
    if let Some(advice) = advice(command.name, name) {
        return Some(advice.to_owned());
    }
    // An option of a command that the other words name.
    let suggested = text_of(error, ContextKind::SuggestedArg)?.trim_start_matches('-');
    let is_similar = spelling::similar(name, &[suggested]).is_some();
    is_similar.then(|| similar(&[suggested], "--"))
}

/// Returns the command that does what the option `name` of `command` asks for.
fn advice(command: &str, name: &str) -> Option<&'static str> {
    let defines =
        ["holdfast admin schedule define", "holdfast admin schedule update"].contains(&command);
    let is_follower = ["node", "label"].contains(&name);
    (defines && is_follower)
        .then_some("'holdfast admin schedule associate' says which nodes follow a schedule")
}

/// Returns the name of the option that is written with one dash in `words`, as other programs do.
/// Then its letters are read as options of their own, and `letter` is the first that is none.
fn name_after_one_dash<'a>(letter: &str, words: &'a [OsString]) -> Option<&'a str> {
    let is_meant = |name: &&str| {
        let is_short = name.chars().count() == 1;
        !is_short && !name.starts_with('-') && name.contains(letter)
    };
    let dashed = words.iter().take_while(|word| *word != "--");
    dashed.filter_map(|word| word.to_str()?.strip_prefix('-')).find(is_meant)
}

/// Returns the hint for a word that `command` does not take: the command of an object that stands
/// after its act, as in TSM's `delete filespace`, the option of this name, the option that takes
/// such words, or the command itself if it lists by itself.
fn word_meant(given: &str, command: &NamedCommand<'_>, words: &[OsString]) -> Option<String> {
    let NamedCommand { name, definition, whole } = *command;
    let question = |line: String| format!("did you mean '{line}'?");
    let act = name.rsplit(' ').next().unwrap_or_default();
    let at = words.iter().position(|word| word == act)?;
    let after = &words[at + 1..];
    if name.split(' ').count() == 2 {
        let object = act_before_object(act, whole, (NAME, whole), after);
        if let Some(line) = object {
            return Some(question(line));
        }
    }
    let known = options_of(command);
    let first = after.first().and_then(|word| word.to_str());
    let exact = known.iter().find(|option| first == Some(**option));
    let meant = match given.len() {
        0..BEGINNING_BYTES_MIN => Vec::new(),
        _ => spelling::meant(given, &known),
    };
    if let Some(option) = exact.or(meant.first()) {
        return Some(question(format!("{name} --{option}")));
    }
    if given.contains('=') && known.contains(&"option") {
        return Some(question(format!("--option {given}")));
    }
    let asks = asks_for_list(given) || spelling::similar(given, &[LIST]).is_some();
    let is_alone = definition.get_positionals().next().is_none();
    (asks && is_alone).then(|| question(name.to_owned()))
}

/// Returns the hint for a value: those of the possible ones that it abbreviates, or the one to
/// which it is similar.
fn value_meant(error: &clap::Error) -> Option<String> {
    let value = text_of(error, ContextKind::InvalidValue)?.to_lowercase();
    let reason = error.source().map(ToString::to_string).unwrap_or_default();
    let possible: Vec<&str> = match error.get(ContextKind::ValidValue) {
        Some(ContextValue::Strings(all)) => all.iter().map(String::as_str).collect(),
        _ => offered(&reason),
    };
    // Upper and lower case are the same.
    let lower: Vec<String> = possible.iter().map(|name| name.to_lowercase()).collect();
    let known: Vec<&str> = lower.iter().map(String::as_str).collect();
    let found = spelling::meant(&value, &known);
    let both = possible.into_iter().zip(&known);
    let meant: Vec<&str> =
        both.filter(|(_, lower)| found.contains(lower)).map(|(name, _)| name).collect();
    if !value.is_empty() && !meant.is_empty() {
        return Some(similar(&meant, ""));
    }
    match error.get(ContextKind::SuggestedValue)? {
        ContextValue::String(one) => Some(similar(&[one.as_str()], "")),
        // The last is the most similar.
        ContextValue::Strings(all) => all.last().map(|one| similar(&[one.as_str()], "")),
        _ => None,
    }
}

/// Returns the words that the reason of a refusal offers, as in `give one of low, high`.
fn offered(reason: &str) -> Vec<&str> {
    let begins = ["one of ", "give ", "must be "];
    let list = begins.iter().find_map(|begin| Some(reason.split_once(*begin)?.1));
    let items = list.unwrap_or_default().split(", ").flat_map(|item| item.split(" or "));
    let is_word =
        |item: &&str| item.bytes().all(|letter| letter.is_ascii_lowercase() || letter == b'-');
    items.filter(|item| !item.is_empty()).filter(is_word).collect()
}

/// Returns the hint that `names`, which all begin with `dashes`, are similar.
fn similar(names: &[&str], dashes: &str) -> String {
    let quoted: Vec<String> = names.iter().map(|name| format!("'{dashes}{name}'")).collect();
    let verb = if names.len() == 1 { "is" } else { "are" };
    format!("{} {verb} similar", quoted.join(" and "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn single_words_of_a_reason_are_offered() {
        let cases: [(&str, &[&str]); 7] = [
            ("give one of backup, full, copy-pools", &["backup", "full", "copy-pools"]),
            ("'x' is not a state of an event: give future, missed", &["future", "missed"]),
            ("the value must be yes or no", &["yes", "no"]),
            ("the value must be auto, none, or a level from -7 to 19", &["auto", "none"]),
            ("the value must be a whole number, such as 20", &[]),
            ("a time must be 2026-11-20, RFC 3339 or now", &["now"]),
            ("the number is too large", &[]),
        ];
        for (reason, expected) in cases {
            assert_eq!(offered(reason), expected, "{reason}");
        }
    }
}
