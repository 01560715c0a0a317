//! Lengths of time as people write them, such as `90s`, `30m` or `1h30m`. The module is pure.

use std::time::Duration;

/// Seconds of each unit.
const UNITS: [(char, u64); 5] =
    [('s', 1), ('m', 60), ('h', 3600), ('d', 86_400), ('w', 7 * 86_400)];

/// Longest length of time: ten years of 365 days. A longer one is a mistake, and a time so far away
/// has no date.
pub const LENGTH_MAX: Duration = Duration::from_secs(3650 * 86_400);

/// Error for a text that is no length of time.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum LengthError {
    #[error("a length of time must be 0, or numbers with s, m, h, d or w, as in 90s, 60m or 1h30m")]
    Form,
    #[error("a length of time must be at most 3650d, which are ten years")]
    TooLong,
}

/// Parses a length of time of at most [`LENGTH_MAX`]. A day has 24 hours.
pub fn parse_length(text: &str) -> Result<Duration, LengthError> {
    use LengthError::{Form, TooLong};

    if text == "0" {
        return Ok(Duration::ZERO);
    }
    let (mut secs, mut number) = (0_u64, None::<u64>);
    for letter in text.chars() {
        if let Some(digit) = letter.to_digit(10) {
            let before = number.unwrap_or(0).saturating_mul(10);
            number = Some(before.saturating_add(digit.into()));
            continue;
        }
        let unit = UNITS.iter().find(|(name, _)| *name == letter).ok_or(Form)?.1;
        let part = number.take().ok_or(Form)?.saturating_mul(unit);
        secs = secs.saturating_add(part);
    }
    if number.is_some() || text.is_empty() {
        return Err(Form);
    }
    let length = Duration::from_secs(secs);
    if length <= LENGTH_MAX { Ok(length) } else { Err(TooLong) }
}

/// Writes a length of time as [`parse_length`] reads it, without the part below a second.
pub fn show_length(length: Duration) -> String {
    let secs = length.as_secs();
    let exact = UNITS[..4].iter().rev().find(|(_, unit)| secs.is_multiple_of(*unit));
    match (secs, exact) {
        (0, _) | (_, None) => "0".to_owned(),
        (_, Some((name, unit))) => format!("{}{name}", secs / unit),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn units_add_up() {
        for (text, secs) in
            [("0", 0), ("0s", 0), ("90s", 90), ("60m", 3600), ("1h30m", 5400), ("2d", 172_800)]
        {
            assert_eq!(parse_length(text), Ok(Duration::from_secs(secs)), "{text}");
        }
        assert_eq!(parse_length("1w"), Ok(Duration::from_secs(604_800)));
    }

    #[test]
    fn other_texts_are_refused() {
        for text in ["", "5", "m", "1y", "-1m", "1 h", "1.5h", "1h30"] {
            assert_eq!(parse_length(text), Err(LengthError::Form), "{text}");
        }
    }

    #[test]
    fn ten_years_are_the_longest() {
        assert_eq!(parse_length("3650d"), Ok(LENGTH_MAX));
        let most = format!("{}w", u64::MAX);
        for text in ["3650d1s", "99999999999h", "99999999999999999999s", &most] {
            assert_eq!(parse_length(text), Err(LengthError::TooLong), "{text}");
        }
    }

    proptest! {
        #[test]
        fn a_length_that_is_shown_can_be_read(secs in 0..=LENGTH_MAX.as_secs()) {
            let length = Duration::from_secs(secs);
            prop_assert_eq!(parse_length(&show_length(length)), Ok(length));
        }

        #[test]
        fn any_text_is_a_length_or_refused(text in ".{0,30}") {
            if let Ok(length) = parse_length(&text) {
                prop_assert_eq!(parse_length(&show_length(length)), Ok(length));
            }
        }
    }
}
