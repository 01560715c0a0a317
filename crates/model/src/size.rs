//! Sizes as people write them.

/// Reason why a text is not a size.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum SizeError {
    #[error("the unit of a size must be K, M, G or T")]
    Unit,
    #[error("a size must be a number, such as 64M")]
    Number,
    #[error("the size is too large")]
    TooLarge,
}

/// Parses a number with K, M, G or T after it, in powers of 1024; `iB` or `B` may follow the
/// letter, as in `2GiB`. A number without a letter counts units of `unit` bytes. One decimal is
/// allowed before a letter, as in `2.5G`.
pub fn parse_bytes(text: &str, unit: u64) -> Result<u64, SizeError> {
    let text = without_byte(text);
    let (digits, unit) = match text.char_indices().next_back() {
        Some((at, letter)) if letter.is_ascii_alphabetic() => {
            let digits = &text[..at];
            let has_number = digits.ends_with(|last: char| last.is_ascii_digit());
            let wrong = if has_number { SizeError::Unit } else { SizeError::Number };
            let power = "KMGT".find(letter.to_ascii_uppercase()).ok_or(wrong)?;
            (digits, 1 << (10 * (power + 1)))
        }
        _ => (text, unit),
    };
    let number = |digits: &str| digits.parse::<u64>().map_err(|_| SizeError::Number);
    let Some((whole, tenths)) = digits.split_once('.') else {
        return number(digits)?.checked_mul(unit).ok_or(SizeError::TooLarge);
    };
    let tenths = Some(number(tenths)?).filter(|tenths| unit > 1 && *tenths < 10);
    let tenths = tenths.ok_or(SizeError::Number)?;
    let tenths = number(whole)?.checked_mul(10).and_then(|whole| whole.checked_add(tenths));
    let bytes = tenths.and_then(|tenths| tenths.checked_mul(unit)).ok_or(SizeError::TooLarge)?;
    Ok(bytes / 10)
}

/// Returns a size without `iB` or `B` after the letter of its unit.
fn without_byte(text: &str) -> &str {
    let is_unit = |short: &&str| short.ends_with(|last: char| last.is_ascii_alphabetic());
    let short = text.strip_suffix(['B', 'b']);
    let short = short.map(|short| short.strip_suffix(['i', 'I']).unwrap_or(short));
    short.filter(is_unit).unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_are_powers_of_1024() {
        for (text, unit, bytes) in [
            ("12", 1, 12),
            ("12", 1024, 12 << 10),
            ("3K", 1, 3 << 10),
            ("3k", 1024, 3 << 10),
            ("8G", 1, 8 << 30),
            ("2.5G", 1, 5 << 29),
            ("1T", 1, 1 << 40),
            ("2GiB", 1, 2 << 30),
            ("10MB", 1024, 10 << 20),
            ("1.5kib", 1, 1536),
        ] {
            assert_eq!(parse_bytes(text, unit), Ok(bytes), "{text}");
        }
    }

    #[test]
    fn other_texts_are_refused() {
        for (text, error) in [
            ("", SizeError::Number),
            ("G", SizeError::Number),
            ("-1K", SizeError::Number),
            ("2.5", SizeError::Number),
            ("2.55G", SizeError::Number),
            ("1\u{e9}", SizeError::Number),
            ("8X", SizeError::Unit),
            ("64XB", SizeError::Unit),
            ("64i", SizeError::Unit),
            ("B", SizeError::Number),
            ("x", SizeError::Number),
            ("large", SizeError::Number),
            ("99999999999T", SizeError::TooLarge),
            ("99999999999.5T", SizeError::TooLarge),
        ] {
            assert_eq!(parse_bytes(text, 1), Err(error), "{text}");
        }
    }
}
