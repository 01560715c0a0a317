//! Settings of a node: standing options of the client, which the server and the node's own file
//! give.
//!
//! ```text
//!  command of a schedule > option set, forced > command line > client.toml > option set > default
//! ```
//!
//! 1. An option that a schedule of the server names on its command comes first, as in TSM.
//! 2. A value of an option set that is forced comes before everything that the node says. A value
//!    that is not forced holds only if the node says nothing.
//! 3. Options about the rights of the server at the node are never loosened from outside: an option
//!    set can only take a right away (`Sway::Tightening`). Commands of an option set run only if
//!    the node lets the server ask for commands (`Sway::Around`).
//! 4. Options whose value decides whom the node trusts, what it runs as code, or which of its files
//!    is read for rules and keys, are the node's alone (`Sway::Node`).
//!
//! Options of a single call, such as its dry run, its time or its target, are no settings.

mod decision;
mod rollout;
mod table;
mod value;

pub use decision::{Offers, Rank};
pub use rollout::{Share, ShareError, chosen_first};
pub use table::{BOTH_RATES, RATES, SETTINGS, Setting, Sway, all_of_flag, find, of_flag};
pub use value::{
    DirectoryWordError, Kind, PathWords, PathWordsError, RATE_BYTES_MIN, VALUE_BYTES_MAX, Value,
    ValueError, directory_words, is_plain_directory, parse_escaped, path_words, split_words,
};

use serde::{Deserialize, Serialize};

/// An option of an option set.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct SetOption {
    /// Name of the setting.
    pub name: String,
    /// Value, as a person writes it.
    pub value: String,
    /// True if the value comes before the node's own.
    pub is_forced: bool,
}

impl SetOption {
    /// Returns true if the value is a command that runs at the node.
    pub fn is_command(&self) -> bool {
        find(&self.name).is_some_and(|setting| setting.sway == Sway::Around)
    }
}

/// Maximum number of options in an option set.
pub const SET_OPTIONS_MAX: usize = 200;

/// Reason why an option cannot be in an option set.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum SetOptionError {
    #[error("there is no option '{0}'; the page docs/reference/settings.md lists all options")]
    Unknown(String),
    #[error("the option {name} is the node's own, and no server sets it: {reason}")]
    NodeOnly { name: &'static str, reason: &'static str },
    #[error(
        "the option {name} can only take a right of the server away: an option set can only set \
         {strict}"
    )]
    Unheard { name: &'static str, strict: &'static str },
    #[error("the option {name}: {error}")]
    Value { name: &'static str, error: ValueError },
}

impl SetOption {
    /// Checks an option that an administrator gives. Its value is kept as it was written.
    pub fn parse(name: &str, value: &str, is_forced: bool) -> Result<Self, SetOptionError> {
        let setting = find(name).ok_or_else(|| SetOptionError::Unknown(name.to_owned()))?;
        if let Sway::Node(reason) = setting.sway {
            return Err(SetOptionError::NodeOnly { name: setting.name, reason });
        }
        let failed = |error| SetOptionError::Value { name: setting.name, error };
        setting.kind.parse(value).map_err(failed)?;
        let is_list = setting.kind == Kind::Commands && !matches!(value, "all" | "none");
        if is_list || value.len() > VALUE_BYTES_MAX {
            return Err(failed(ValueError::expecting("all or none in an option set")));
        }
        Ok(Self { name: setting.name.to_owned(), value: value.to_owned(), is_forced })
    }

    /// Fails if no node would heed the option, because it would give the server a right. Option
    /// sets of older servers may have such options.
    pub fn check_heeded(&self) -> Result<(), SetOptionError> {
        let Some(setting) = find(&self.name) else { return Ok(()) };
        let Some(strict) = setting.strict_value() else { return Ok(()) };
        let means = |text: &str| setting.kind.parse(text).ok();
        match means(&self.value) == means(strict) {
            true => Ok(()),
            false => Err(SetOptionError::Unheard { name: setting.name, strict }),
        }
    }
}
