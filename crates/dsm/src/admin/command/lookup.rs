//! Finding the command of a statement, and reading its parameters.

use jiff::civil::DateTime;

use super::definition::Request;
use super::definition::{Action, Command};
use super::parameter::{Effect, Parameter, ValueKind};
use super::table::all;
use crate::admin::abbreviation::{self, AbbreviationError};
use crate::admin::grammar::{self, Statement, Word};
use crate::admin::invocation::yes_or_no;
use crate::admin::message::Message;

/// Largest number that a parameter takes.
const NUMBER_MAX: u64 = 999_999_999;

/// Finds the command that the first words of `statement` name. Returns it with the words after its
/// name.
pub fn find(statement: &Statement) -> Result<(&'static Command, &[Word]), Message> {
    let text = |index: usize| {
        let word = statement.words.get(index).filter(|word| word.name.is_none());
        word.map_or("", |word| word.value.as_str())
    };
    let verbs = all().map(|command| command.verb);
    let verb = named(text(0), text(0), verbs.clone())?;
    let with_verb = all().filter(move |command| command.verb == verb);
    if let Some(command) = with_verb.clone().find(|command| command.noun.is_empty()) {
        return Ok((command, &statement.words[1..]));
    }
    let both = format!("{} {}", abbreviation::full(verb), text(1));
    if text(1).is_empty() {
        let nouns: Vec<String> =
            with_verb.map(|command| abbreviation::full(command.noun)).collect();
        let meant = format!("after it comes one of {}", nouns.join(", "));
        return Err(Message::unknown_command(&format!("{}: {meant}", abbreviation::full(verb))));
    }
    let noun = named(text(1), both.trim(), with_verb.clone().map(|command| command.noun))?;
    let mut found = with_verb.filter(|command| command.noun == noun);
    let command = found.next().expect("the noun is that of a command");
    Ok((command, &statement.words[2..]))
}

/// Returns the name that `word` stands for. `shown` is what a message shows.
fn named<'a>(
    word: &str,
    shown: &str,
    mut names: impl Iterator<Item = &'a str> + Clone,
) -> Result<&'a str, Message> {
    match abbreviation::resolve(word, names.clone()) {
        Ok(index) => Ok(names.nth(index).expect("the index is that of a name")),
        Err(AbbreviationError::Unknown) => Err(Message::unknown_command(shown)),
        Err(AbbreviationError::Ambiguous(meant)) => Err(Message::ambiguous(shown, &meant)),
    }
}

/// Reads the parameters of a command. `now` is the present time.
pub fn read(command: &'static Command, words: &[Word], now: DateTime) -> Result<Request, Message> {
    let mut request = Request::new(command, now);
    if matches!(command.action, Action::Unsupported) {
        return Ok(request);
    }
    let mut by_place = command.parameters.iter().filter(|parameter| parameter.is_by_place());
    let name = command.name();
    for word in words {
        let parameter = match &word.name {
            Some(given) => {
                by_name(command, given).ok_or_else(|| Message::invalid_parameter(&name, given))?
            }
            None => by_place.next().ok_or_else(|| Message::extra_parameter(&name, &word.value))?,
        };
        take(&mut request, parameter, &word.value)?;
    }
    let missing = command
        .parameters
        .iter()
        .find(|parameter| parameter.is_required && !request.has(parameter.name));
    match missing {
        Some(parameter) => Err(Message::missing_parameter(&name, &parameter.name.to_uppercase())),
        None => Ok(request),
    }
}

fn by_name(command: &'static Command, given: &str) -> Option<&'static Parameter> {
    let named = || command.parameters.iter().filter(|parameter| !parameter.is_by_place());
    let index = abbreviation::resolve(given, named().map(|parameter| parameter.name)).ok()?;
    named().nth(index)
}

fn take(request: &mut Request, parameter: &Parameter, value: &str) -> Result<(), Message> {
    let (command, name) = (request.command.name(), parameter.name.to_uppercase());
    match parameter.effect {
        Effect::Refused(reason) => {
            return Err(Message::refused_parameter(&command, &name, reason));
        }
        Effect::Accepted(reason) => {
            request.note(format!("{name} changes nothing here: {reason}"));
            return Ok(());
        }
        Effect::CarriedOut
        | Effect::Filter(_)
        | Effect::Contains(_)
        | Effect::AnyWord(_)
        | Effect::Choice(..) => {}
    }
    let wrong = |expected: &str| Message::invalid_value(&command, &name, value, expected);
    let values = match parameter.takes {
        ValueKind::Text | ValueKind::One(_) | ValueKind::New(_) => vec![value.to_owned()],
        ValueKind::List | ValueKind::Several(_) => grammar::list(value),
        ValueKind::Number => {
            let number = value.parse().ok().filter(|number: &u64| *number <= NUMBER_MAX);
            vec![number.ok_or_else(|| wrong("a whole number"))?.to_string()]
        }
        ValueKind::YesNo => {
            let switch = yes_or_no(value).ok_or_else(|| wrong("yes or no"))?;
            vec![if switch { "yes" } else { "no" }.to_owned()]
        }
        ValueKind::Word(words) => {
            let index = abbreviation::resolve(value, words.iter().copied())
                .map_err(|_| wrong(&words.join(", ").to_uppercase()))?;
            vec![words[index].to_uppercase()]
        }
    };
    request.set(parameter.name, values);
    Ok(())
}
