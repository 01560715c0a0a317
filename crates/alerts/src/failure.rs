//! Failures to deliver, and the secrets of the ways.

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

/// Returns the secret in a file: its first line.
pub(crate) fn read_secret(folder: &Path, file: &Path) -> std::io::Result<String> {
    let text = std::fs::read_to_string(folder.join(file))?;
    Ok(text.lines().next().unwrap_or_default().to_owned())
}
