//! Values on the command line that several commands take.

use ::tape::address::{Address, AddressError};
use format::volume::{VolumeName, VolumeNameError};
use model::{SizeError, parse_bytes};

/// Reason why a value is refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub(crate) enum ValueError {
    #[error(transparent)]
    Size(#[from] SizeError),
    /// The value breaks this rule.
    #[error("{0}")]
    Rule(&'static str),
}

/// Parses a size in bytes, as in `500G`.
pub(crate) fn size(text: &str) -> Result<u64, ValueError> {
    Ok(parse_bytes(text, 1)?)
}

/// Parses `yes` or `no`.
pub(crate) fn yes_or_no(text: &str) -> Result<bool, ValueError> {
    let is_yes = text.eq_ignore_ascii_case("yes");
    if is_yes || text.eq_ignore_ascii_case("no") {
        Ok(is_yes)
    } else {
        Err(ValueError::Rule("the value must be yes or no"))
    }
}

pub(crate) fn address(text: &str) -> Result<Address, AddressError> {
    text.parse()
}

pub(crate) fn volume_name(text: &str) -> Result<VolumeName, VolumeNameError> {
    VolumeName::new(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn switches_are_read_in_any_case() {
        assert_eq!((yes_or_no("Yes"), yes_or_no("no")), (Ok(true), Ok(false)));
        assert!(yes_or_no("on").is_err() && yes_or_no("").is_err());
    }
}
