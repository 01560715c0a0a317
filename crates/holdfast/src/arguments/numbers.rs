//! Numbers on the command line that are refused: the rules for them, in plain words. The module is
//! pure.

use std::error::Error;
use std::num::{IntErrorKind, ParseFloatError, ParseIntError};

/// Largest numbers of the types of numbers: they bound a number, and are no rule.
const LARGEST: [i128; 3] = [u32::MAX as i128, i64::MAX as i128, u64::MAX as i128];

/// Returns in plain words why a number is refused; `None` if `source` is about something else.
pub(super) fn plain_reason(source: &(dyn Error + 'static)) -> Option<String> {
    if let Some(error) = source.downcast_ref::<ParseIntError>() {
        return Some(match error.kind() {
            IntErrorKind::PosOverflow => "the number is too large".to_owned(),
            _ => "the value must be a whole number, such as 20".to_owned(),
        });
    }
    if source.is::<ParseFloatError>() {
        return Some("the value must be a number, such as 2.5".to_owned());
    }
    rule(&source.to_string())
}

/// Returns the rule that a number breaks, from a text such as `0 is not in 1..=100`.
fn rule(text: &str) -> Option<String> {
    let (number, bounds) = text.split_once(" is not in ")?;
    let (first, last) = bounds.split_once("..")?;
    let (last, beyond) = last.strip_prefix('=').map_or((last, 1), |last| (last, 0));
    let [number, low, high] = [number, first, last].map(|part| part.parse::<i128>().ok());
    let (number, low, high) = (number?, low?, high?);
    Some(match LARGEST.contains(&high) {
        false => format!("the number must be from {low} to {}", high - beyond),
        true if number < low => format!("the number must be at least {low}"),
        true => format!("the number must be at most {high}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_are_told_as_rules() {
        for (text, expected) in [
            ("0 is not in 1..=100", Some("the number must be from 1 to 100")),
            ("0 is not in 1..100", Some("the number must be from 1 to 99")),
            ("0 is not in 1..=4294967295", Some("the number must be at least 1")),
            ("0 is not in 1..18446744073709551615", Some("the number must be at least 1")),
            ("4294967296 is not in 0..=4294967295", Some("the number must be at most 4294967295")),
            ("'x' is not a state of an event", None),
            ("Mars is not in 1..=8", None),
        ] {
            assert_eq!(rule(text).as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn what_a_parser_of_numbers_says_is_told_in_plain_words() {
        let whole = |text: &str| plain_reason(&text.parse::<u32>().expect_err("is refused"));
        for text in ["many", "", "-1", "1.5"] {
            let reason = whole(text).expect("a reason");
            assert!(reason.contains("a whole number"), "{text}: {reason}");
        }
        assert_eq!(whole("99999999999").as_deref(), Some("the number is too large"));
        let decimal = plain_reason(&"many".parse::<f64>().expect_err("is refused"));
        assert!(decimal.is_some_and(|reason| reason.contains("2.5")));
        assert_eq!(plain_reason(&std::io::Error::other("full")), None);
    }
}
