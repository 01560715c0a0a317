//! Failures to deliver, and the secrets of the ways.

use std::io;
use std::path::Path;

/// Failure to deliver a notice.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Failure {
    /// This notice alone: the others of its way may succeed.
    Notice(String),
    /// The way to all recipients.
    Way(String),
}

impl Failure {
    pub(crate) fn notice(error: &(dyn std::error::Error + 'static)) -> Self {
        Self::Notice(model::chain(error))
    }

    pub(crate) fn way(error: &(dyn std::error::Error + 'static)) -> Self {
        Self::Way(model::chain(error))
    }

    pub(crate) fn text(&self) -> &str {
        match self {
            Self::Notice(text) | Self::Way(text) => text,
        }
    }
}

/// Returns the secret in a file: its first line. An empty secret is refused, because anybody can
/// sign with it.
pub(crate) fn read_secret(folder: &Path, file: &Path) -> io::Result<String> {
    let text = std::fs::read_to_string(folder.join(file))?;
    match text.lines().next() {
        None | Some("") => {
            Err(io::Error::new(io::ErrorKind::InvalidData, "its first line is empty"))
        }
        Some(secret) => Ok(secret.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_the_first_line_and_not_empty() {
        let folder = tempfile::tempdir().expect("a folder");
        let read = |text: &str| {
            std::fs::write(folder.path().join("secret"), text).expect("is written");
            read_secret(folder.path(), Path::new("secret"))
        };
        assert_eq!(read("a b\nc\n").expect("a secret"), "a b");
        for empty in ["", "\n", "\na\n", "\r\n"] {
            let error = read(empty).expect_err("is refused");
            assert_eq!(error.to_string(), "its first line is empty");
        }
    }
}
