//! Questions to a person: whether something is done, and which versions are meant.

use std::io::{BufRead as _, IsTerminal as _};

use client::Client;
use dsm::client::Spec;
use dsm::lines::{backup_heading, backup_line};

use super::session::Session;
use super::stored::{self, Filter, StoredObject};
use crate::error::CommandError;

/// Maximum number of versions to pick from.
const PICKED_MAX: usize = 100_000;

/// Asks a person, unless the command has -noprompt. Fails if nobody is there to answer. A command
/// that a person does not agree to is not done.
pub(super) fn is_agreed(session: &mut Session<'_>, question: &str) -> Result<bool, CommandError> {
    if session.command.has("NOPROMPT") {
        return Ok(true);
    }
    let answer = ask(session, &format!("{question} (Yes (Y)/No (N))"))?;
    let is_yes = is_yes(&answer);
    if !is_yes && !has_terminal() {
        let message = "ANS1107E nobody has said yes, and nothing is changed";
        return Err(CommandError::new(message).with_hint("-noprompt asks nothing"));
    }
    if !is_yes {
        session.remark("Nothing is changed; -noprompt asks nothing.");
    }
    Ok(is_yes)
}

/// Asks a person at a terminal. Without one, nothing is agreed.
pub(super) fn is_agreed_if_asked(
    session: &mut Session<'_>,
    question: &str,
) -> Result<bool, CommandError> {
    if !has_terminal() {
        return Ok(false);
    }
    is_agreed(session, question)
}

/// Asks a person at a terminal, whatever -noprompt says. Without a terminal the answer is no.
pub(super) fn is_confirmed(
    session: &mut Session<'_>,
    question: &str,
) -> Result<bool, CommandError> {
    if !has_terminal() {
        return Ok(false);
    }
    let answer = ask(session, &format!("{question} (Yes (Y)/No (N))"))?;
    Ok(is_yes(&answer))
}

fn is_yes(answer: &str) -> bool {
    matches!(answer.to_ascii_lowercase().as_str(), "y" | "yes")
}

/// Returns true if a person can answer.
pub(super) fn has_terminal() -> bool {
    std::io::stdin().is_terminal()
}

pub(super) fn ask(session: &mut Session<'_>, question: &str) -> Result<String, CommandError> {
    question.lines().for_each(|line| session.show(line));
    session.context.output.flush();
    let mut line = String::new();
    std::io::stdin()
        .lock()
        .read_line(&mut line)
        .map_err(|error| CommandError::new(format!("cannot read the answer: {error}")))?;
    Ok(line.trim().to_owned())
}

/// Shows the versions that the operand names, and returns those that a person picks.
pub(super) fn pick(
    session: &mut Session<'_>,
    client: &Client,
    spec: &Spec,
    filter: &Filter,
) -> Result<Vec<StoredObject>, CommandError> {
    let mut all = Vec::new();
    let descends = session.descends();
    stored::select(client, spec, descends, filter, &mut |object| {
        if !object.is_directory() {
            all.push(object);
        }
        all.len() < PICKED_MAX
    })?;
    if all.is_empty() {
        return Ok(all);
    }
    let line = |object: &StoredObject| {
        let path = model::escaped(&object.path);
        backup_line(&object.shown(&path), session.forms)
    };
    let lines: Vec<String> = all.iter().map(line).collect();
    let picked = choose(session, &backup_heading(), &lines)?;
    Ok(picked.into_iter().map(|index| all[index].clone()).collect())
}

/// Shows lines with numbers, and returns the indices of those that a person picks: at least one.
pub(super) fn choose(
    session: &mut Session<'_>,
    heading: &[String],
    lines: &[String],
) -> Result<Vec<usize>, CommandError> {
    heading.iter().for_each(|line| session.show(&format!("{:>6} {line}", "")));
    for (number, line) in (1..).zip(lines) {
        session.show(&format!("{number:>6} {line}"));
    }
    let answer = ask(session, "Numbers of the versions, as in 1 3 5-7; A for all; Q for none:")?;
    let picked = picked(&answer, lines.len())?;
    match picked.is_empty() {
        true => Err(CommandError::new("ANS1107E no version is picked, and nothing is done")),
        false => Ok(picked),
    }
}

/// Returns the indices of an answer, from 0.
pub(super) fn picked(answer: &str, count: usize) -> Result<Vec<usize>, CommandError> {
    let wrong =
        |word: &str| CommandError::new(format!("ANS1107E '{word}' is no number of the list"));
    let index = |word: &str| {
        let number = word.parse::<usize>().ok().filter(|number| (1..=count).contains(number));
        number.map(|number| number - 1).ok_or_else(|| wrong(word))
    };
    match answer.to_ascii_lowercase().as_str() {
        "a" => return Ok((0..count).collect()),
        "q" | "" => return Ok(Vec::new()),
        _ => {}
    }
    let mut indices = Vec::new();
    for word in answer.split([' ', ',']).filter(|word| !word.is_empty()) {
        match word.split_once('-') {
            Some((first, last)) => indices.extend(index(first)?..=index(last)?),
            None => indices.push(index(word)?),
        }
    }
    indices.sort_unstable();
    indices.dedup();
    Ok(indices)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_picks_numbers() {
        let read = |answer| picked(answer, 5).ok();
        assert_eq!(read("1 3"), Some(vec![0, 2]));
        assert_eq!(read("5-5,2-3 2"), Some(vec![1, 2, 4]));
        assert_eq!(read("A"), Some(vec![0, 1, 2, 3, 4]));
        assert_eq!(read("q"), Some(vec![]));
        assert_eq!(read(""), Some(vec![]));
        for wrong in ["0", "6", "x", "1-9", "-2"] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
    }
}
