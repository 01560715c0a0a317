//! Values on the command line that several commands take.

use std::ops::RangeInclusive;

use ::tape::address::{Address, AddressError};
use format::volume::{VolumeName, VolumeNameError};
use model::{LengthError, SizeError, parse_bytes, parse_length};

/// Reason why a value is refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub(crate) enum ValueError {
    #[error(transparent)]
    Size(#[from] SizeError),
    #[error(transparent)]
    Length(#[from] LengthError),
    #[error("the length of time must be from {0} to {1} seconds")]
    Seconds(u32, u32),
    /// The value breaks this rule.
    #[error("{0}")]
    Rule(&'static str),
}

/// Parses a size in bytes, as in `500G`.
pub(crate) fn size(text: &str) -> Result<u64, ValueError> {
    Ok(parse_bytes(text, 1)?)
}

/// Returns a parser of lengths of time, as in `90s` or `10m`, which allows `seconds`.
pub(crate) fn seconds(
    seconds: RangeInclusive<u32>,
) -> impl Fn(&str) -> Result<u32, ValueError> + Clone {
    move |text| {
        let secs = match parse_length(text) {
            Ok(length) => u32::try_from(length.as_secs()).unwrap_or(u32::MAX),
            Err(LengthError::TooLong) => u32::MAX,
            Err(error @ LengthError::Form) => return Err(error.into()),
        };
        let refusal = ValueError::Seconds(*seconds.start(), *seconds.end());
        if seconds.contains(&secs) { Ok(secs) } else { Err(refusal) }
    }
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

/// Takes a condition. An empty one would choose everything.
pub(crate) fn not_empty(text: &str) -> Result<String, ValueError> {
    if text.is_empty() {
        return Err(ValueError::Rule("the value must not be empty"));
    }
    Ok(text.to_owned())
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
    fn lengths_have_units_and_bounds() {
        let parse = seconds(1..=600);
        assert_eq!((parse("90s"), parse("10m")), (Ok(90), Ok(600)));
        assert_eq!(parse("20").unwrap_err(), ValueError::Length(LengthError::Form));
        for text in ["0", "601s", "9999999999w"] {
            assert_eq!(parse(text).unwrap_err(), ValueError::Seconds(1, 600), "{text}");
        }
    }

    #[test]
    fn switches_are_read_in_any_case() {
        assert_eq!((yes_or_no("Yes"), yes_or_no("no")), (Ok(true), Ok(false)));
        assert!(yes_or_no("on").is_err() && yes_or_no("").is_err());
    }
}
