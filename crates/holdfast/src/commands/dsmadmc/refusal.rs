//! Errors of Holdfast as messages of TSM.

use client::ErrorKind;
use dsm::admin::message::{Message, ReturnCode};

use crate::error::CommandError;

/// An end of a command that is no success.
pub(super) type Refusal = Message;

/// Returns the message of an error with its hint, as a sentence on one line. A question keeps its
/// mark.
pub(super) fn sentence(error: &CommandError) -> String {
    let text = match &error.hint {
        Some(hint) => format!("{}; {hint}", error.message),
        None => error.message.clone(),
    };
    let text = model::on_one_line(&text);
    let text = text.trim_end_matches('.');
    if text.ends_with('?') { text.to_owned() } else { format!("{text}.") }
}

pub(super) fn refusal_code(kind: Option<ErrorKind>) -> ReturnCode {
    match kind {
        Some(ErrorKind::Retry) | None => ReturnCode::Unavailable,
        Some(kind) => code_of(kind),
    }
}

fn code_of(kind: ErrorKind) -> ReturnCode {
    match kind {
        ErrorKind::Retry => ReturnCode::Unavailable,
        ErrorKind::Busy => ReturnCode::InUse,
        ErrorKind::Refused => ReturnCode::NoAuthority,
        ErrorKind::NotFound => ReturnCode::NoMatch,
        ErrorKind::NoSpace => ReturnCode::NoSpace,
        ErrorKind::Damaged => ReturnCode::InputOutput,
        ErrorKind::Usage | ErrorKind::Bug | ErrorKind::Interrupted => ReturnCode::Failure,
    }
}

/// Returns the message for an error of a command.
pub(super) fn refusal(command: &str, error: &CommandError) -> Message {
    let code = error.kind.map_or(ReturnCode::Failure, code_of);
    let text = sentence(error);
    if code == ReturnCode::NoMatch {
        let text = format!("{command}: No match found using this criteria: {text}");
        return Message::refusal("ANR2034E", code, text);
    }
    Message::refusal("ANR2032E", code, format!("{command}: The command failed: {text}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_gets_no_full_stop() {
        let error = CommandError::new("cannot reach the server");
        assert_eq!(sentence(&error), "cannot reach the server.");
        let error = error.with_hint("is the server running?");
        assert_eq!(sentence(&error), "cannot reach the server; is the server running?");
        assert_eq!(sentence(&CommandError::new("no such node.")), "no such node.");
    }
}
