//! Errors of parts that know no commands, turned into errors of a command.

use dsm::client::RangeError;
use dsm::configuration::DomainError;

use crate::error::CommandError;

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
