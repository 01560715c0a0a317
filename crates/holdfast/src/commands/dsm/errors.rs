//! Errors of parts that know no commands, turned into errors of a command, and their numbers.

use dsm::client::RangeError;
use dsm::configuration::DomainError;

use crate::error::{CommandError, NOT_DONE};
use crate::output;

/// Returns the message of an error with TSM's number. A message without one of its own has the
/// number of a command that was ended.
pub(super) fn numbered(error: &CommandError) -> String {
    let CommandError { message, is_loss, .. } = error;
    match (is_loss, message.starts_with("ANS")) {
        (true, _) => format!("ANS1017E {message}"),
        (false, true) => message.clone(),
        (false, false) => format!("ANS1999E {message}"),
    }
}

/// Writes the error of a command, and returns the exit code.
pub(super) fn ended(done: Result<u8, CommandError>) -> u8 {
    done.unwrap_or_else(|error| {
        output::say(&numbered(&error));
        if let Some(hint) = error.hint {
            output::say(&hint);
        }
        NOT_DONE
    })
}

impl From<RangeError> for CommandError {
    fn from(error: RangeError) -> Self {
        Self::new(format!("ANS1107E {error}"))
    }
}

impl From<DomainError> for CommandError {
    fn from(error: DomainError) -> Self {
        Self::new(format!("ANS1149E {error}"))
    }
}
