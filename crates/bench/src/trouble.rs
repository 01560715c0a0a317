//! Why the bench cannot go on, in one line that names the thing.

use std::fmt;

/// A reason to end. There is one reaction to all of them, so there is one kind.
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

/// Says what was being done when something failed.
pub(crate) trait While<T> {
    fn while_doing(self, what: impl FnOnce() -> String) -> Result<T, Trouble>;
}

impl<T, E: fmt::Display> While<T> for Result<T, E> {
    fn while_doing(self, what: impl FnOnce() -> String) -> Result<T, Trouble> {
        self.map_err(|error| Trouble(format!("cannot {}: {error}", what())))
    }
}
