//! Secrets that a person gives on the command line, or on standard input.

use std::io::Read as _;

use crate::error::CommandError;

/// Word that stands for standard input.
const STDIN: &str = "-";
/// Maximum number of bytes of a secret that are read.
const SECRET_BYTES_MAX: u64 = 4096;

/// Returns the secret that `word` is, or that standard input has if it is a dash. `what` names it.
pub(crate) fn given(word: &str, what: &str) -> Result<String, CommandError> {
    if word != STDIN {
        return Ok(word.trim().to_owned());
    }
    let mut secret = String::new();
    let read = std::io::stdin().lock().take(SECRET_BYTES_MAX).read_to_string(&mut secret);
    read.map_err(|error| {
        CommandError::new(format!("cannot read the {what} from standard input: {error}"))
    })?;
    Ok(secret.trim().to_owned())
}
