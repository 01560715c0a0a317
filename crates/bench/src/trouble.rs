//! The error that ends a bench, in one line that names its object.

use std::fmt;

/// An error that ends a bench. All errors have the same effect, so the type has no variants.
#[derive(PartialEq, Eq, Debug)]
pub(crate) struct Trouble(String);

impl Trouble {
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self(message.into())
    }
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Addition of the failed action to an error.
pub(crate) trait Context<T> {
    /// Turns an error into "cannot `what`: error".
    fn while_doing(self, what: impl FnOnce() -> String) -> Result<T, Trouble>;
}

impl<T, E: fmt::Display> Context<T> for Result<T, E> {
    fn while_doing(self, what: impl FnOnce() -> String) -> Result<T, Trouble> {
        self.map_err(|error| Trouble(format!("cannot {}: {error}", what())))
    }
}
