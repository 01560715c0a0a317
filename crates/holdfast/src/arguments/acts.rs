//! Acts of commands, such as `list` or `remove`, and the words that mean the same. The module is
//! pure.

use std::ffi::OsString;

use model::spelling;

use super::words::{self, NAME};

/// Group of the commands of administrators.
const ADMINISTRATION: &str = "holdfast admin";
/// Minimum length of the beginning of an act, of an option, or of a command elsewhere.
pub(super) const BEGINNING_BYTES_MIN: usize = 3;
/// Minimum length of a word that is similar to an act, or to a command elsewhere.
pub(super) const SIMILAR_BYTES_MIN: usize = 4;
/// Name of the commands that list the objects of their group.
pub(super) const LIST: &str = "list";
/// Commands of administrators that list without a further word.
const LISTING: [&str; 5] = ["log", "queue", "servers", "stats", "tasks"];
/// Words that mean the same: one command has one of them, and another command another.
const SAME_ACTS: [&[&str]; 7] = [
    &["delete", "remove", "rm", "del"],
    &["add", "define", "create", "new", "register", "make", "generate"],
    &["list", "show", "ls", "query", "q"],
    &["set", "update", "modify", "change", "edit"],
    &["cancel", "stop", "abort"],
    &["approve", "accept"],
    &["refuse", "reject", "deny"],
];
/// Act that ends what cannot be deleted, such as a request.
const CANCEL: &str = "cancel";
/// Act whose words ask for [`CANCEL`] where nothing is deleted.
const DELETE: &str = "delete";

/// Returns the words for the act that `word` names or abbreviates.
fn words_of_act(word: &str) -> Option<&'static [&'static str]> {
    let begins = |known: &&str| word.len() >= BEGINNING_BYTES_MIN && known.starts_with(word);
    let named = SAME_ACTS.into_iter().find(|words| words.contains(&word));
    named.or_else(|| SAME_ACTS.into_iter().find(|words| words.iter().any(begins)))
}

/// Returns true if `word` asks for a list.
pub(super) fn asks_for_list(word: &str) -> bool {
    words_of_act(word).is_some_and(|words| words.contains(&LIST))
}

/// Returns the name of the command below `command` that does what `word` means elsewhere.
pub(super) fn same_act<'a>(word: &str, command: &'a clap::Command) -> Option<&'a str> {
    let words = words_of_act(word)?;
    let shown = command.get_subcommands().filter(|inner| !inner.is_hide_set());
    let names: Vec<&str> =
        shown.map(clap::Command::get_name).filter(|name| words.contains(name)).collect();
    // An abbreviation means the command that it begins, if there is one.
    let named = names.iter().find(|name| name.starts_with(word)).or(names.first()).copied();
    named.or_else(|| {
        let cancel = command.find_subcommand(CANCEL).map(clap::Command::get_name);
        cancel.filter(|_| words.contains(&DELETE))
    })
}

/// Returns the name of the command below `command` for the act to whose words `word` is similar.
pub(super) fn similar_act<'a>(word: &str, command: &'a clap::Command) -> Option<&'a str> {
    if word.len() < SIMILAR_BYTES_MIN {
        return None;
    }
    same_act(spelling::similar(word, &SAME_ACTS.concat())?, command)
}

/// Returns the advice for an act without its object in the group with this name and definition, or
/// in that of the administrators' objects.
pub(super) fn object_missing(
    word: &str,
    whole: &clap::Command,
    (named, group): (&str, &clap::Command),
) -> Option<String> {
    let group = match named {
        NAME => whole.find_subcommand("admin")?,
        ADMINISTRATION => group,
        _ => return None,
    };
    let line = |inner: &clap::Command| {
        Some(format!("{ADMINISTRATION} {} {}", inner.get_name(), same_act(word, inner)?))
    };
    let example = group.get_subcommands().find_map(line)?;
    Some(format!("the object comes before the act, as in '{example}'"))
}

/// Returns the command that is meant if `word` is an act before its object, the first of the words
/// `after`, as in TSM's `delete node`. The object is in the group with this name and definition. If
/// that is the program, administrators' objects are meant, too.
pub(super) fn act_before_object(
    word: &str,
    whole: &clap::Command,
    (named, group): (&str, &clap::Command),
    after: &[OsString],
) -> Option<String> {
    let object = after.first()?.to_str()?;
    let is_list = asks_for_list(word);
    let within = |named: &str, group: &clap::Command| {
        let inner = object_in(object, group)?;
        if is_list && named == ADMINISTRATION && LISTING.contains(&inner.get_name()) {
            return Some(format!("{named} {}", inner.get_name()));
        }
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

/// Returns the command of `group` that `object` names: as it is, in the plural, by its beginning,
/// or as another program calls it.
fn object_in<'a>(object: &str, group: &'a clap::Command) -> Option<&'a clap::Command> {
    let named = group.find_subcommand(object);
    let named = named.or_else(|| group.find_subcommand(singular_of(object)));
    named.or_else(|| match &beginning_with(object, group)[..] {
        [only] => group.find_subcommand(only),
        _ => group.find_subcommand(words::object_meant(object)?),
    })
}

/// Returns the word of which `word` is the plural; empty if it is none.
pub(super) fn singular_of(word: &str) -> String {
    match word.strip_suffix("ies") {
        Some(stem) => format!("{stem}y"),
        None => word.strip_suffix('s').unwrap_or_default().to_owned(),
    }
}

/// Returns the names of the commands in `command` that begin with `word`.
pub(super) fn beginning_with(word: &str, command: &clap::Command) -> Vec<String> {
    let names = command.get_subcommands().filter(|inner| !inner.is_hide_set());
    let names = names.map(|inner| inner.get_name().to_owned());
    names.filter(|name| name.starts_with(word)).collect()
}
