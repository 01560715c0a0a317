//! Messages with TSM's numbers and return codes, in words of our own.

use std::fmt;

/// Return code of a command, by which scripts decide: TSM's.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum ReturnCode {
    Done = 0,
    UnknownCommand = 2,
    Syntax = 3,
    Failure = 4,
    NoSpace = 8,
    NoAuthority = 9,
    Exists = 10,
    NoMatch = 11,
    InUse = 12,
    Referenced = 13,
    Unavailable = 14,
    InputOutput = 15,
}

impl ReturnCode {
    pub fn number(self) -> u8 {
        self as u8
    }
}

/// A message: a number of TSM, and a text.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Message {
    /// Number with its letter, as in `ANR2034E`.
    pub number: &'static str,
    pub text: String,
    pub code: ReturnCode,
}

impl fmt::Display for Message {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} {}", self.number, self.text)
    }
}

impl Message {
    /// Makes a message about something that was done.
    pub fn done(number: &'static str, text: impl Into<String>) -> Self {
        Self { number, text: text.into(), code: ReturnCode::Done }
    }

    /// Makes a message about a command that was not done.
    pub fn refusal(number: &'static str, code: ReturnCode, text: impl Into<String>) -> Self {
        Self { number, text: text.into(), code }
    }

    pub fn unknown_command(word: &str) -> Self {
        let text = format!(
            "Unknown command - {}. 'help' lists the commands.",
            shortened(&word.to_uppercase())
        );
        Self::refusal("ANR2000E", ReturnCode::UnknownCommand, text)
    }

    /// Makes the message for a word that stands for several commands.
    pub fn ambiguous(word: &str, meant: &[String]) -> Self {
        let text =
            format!("The word {} is not clear: it begins {}.", shortened(word), meant.join(", "));
        Self::refusal("ANR2000E", ReturnCode::UnknownCommand, text)
    }

    pub fn no_match(command: &str) -> Self {
        // Monitoring programs look for these words.
        let text = format!("{command}: No match found using this criteria.");
        Self::refusal("ANR2034E", ReturnCode::NoMatch, text)
    }

    /// Makes the message for a word that names no parameter.
    pub fn invalid_parameter(command: &str, word: &str) -> Self {
        let text = format!("{command}: Invalid parameter - {}.", shortened(word));
        Self::refusal("ANR2020E", ReturnCode::Syntax, text)
    }

    /// Makes the message for a parameter that has a counterpart nowhere.
    pub fn refused_parameter(command: &str, name: &str, reason: &str) -> Self {
        let text = format!("{command}: The parameter {name} is not supported: {reason}.");
        Self::refusal("ANR2020E", ReturnCode::Syntax, text)
    }

    pub fn missing_parameter(command: &str, name: &str) -> Self {
        let text = format!("{command}: A parameter is missing: {name}.");
        Self::refusal("ANR2022E", ReturnCode::Syntax, text)
    }

    pub fn extra_parameter(command: &str, word: &str) -> Self {
        let text = format!("{command}: There is a parameter too many: {}.", shortened(word));
        Self::refusal("ANR2023E", ReturnCode::Syntax, text)
    }

    /// Makes the message for a value that the parameter `name` does not take.
    pub fn invalid_value(command: &str, name: &str, value: &str, expected: &str) -> Self {
        let value = shortened(value);
        let text = format!("{command}: {value} is no value of {name}; give {expected}.");
        Self::refusal("ANR2021E", ReturnCode::Syntax, text)
    }

    /// Makes the message for a command of TSM that this program does not have.
    pub fn unsupported(command: &str, reason: &str) -> Self {
        let text = format!("{command}: This command is not supported: {reason}.");
        Self::refusal("ANR2032E", ReturnCode::Failure, text)
    }
}

/// Maximum number of characters of a word that a message repeats.
const SHOWN_MAX: usize = 60;

/// Returns the beginning of a long text, on one line.
fn shortened(text: &str) -> String {
    let shown: String = text.chars().take(SHOWN_MAX).collect();
    let more = if shown.len() < text.len() { "..." } else { "" };
    format!("{}{more}", model::printable(&shown))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_has_one_short_line() {
        let message = Message::invalid_parameter("QUERY NODE", &format!("a\nb{}", "x".repeat(999)));
        let text = message.to_string();
        assert!(text.starts_with("ANR2020E QUERY NODE: Invalid parameter - a\\x0abxx"), "{text}");
        assert!(text.len() < 120 && !text.contains('\n'), "{text}");
        assert_eq!(message.code.number(), 3);
    }

    #[test]
    fn the_words_that_programs_look_for_stay() {
        let text = Message::no_match("SELECT").to_string();
        assert_eq!(text, "ANR2034E SELECT: No match found using this criteria.");
    }
}
