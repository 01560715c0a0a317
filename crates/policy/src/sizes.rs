//! Sizes in configuration files: numbers in the unit of their key, or texts such as `64M`.

use std::fmt;

use model::SizeError;
use serde::de::{Deserializer, Error, Unexpected, Visitor};

/// Reads a size whose key is in bytes.
pub fn bytes<'de, D: Deserializer<'de>>(from: D) -> Result<u64, D::Error> {
    let bytes = read(from, |text| model::parse_bytes(text, 1).map_err(|error| error.to_string()))?;
    match i64::try_from(bytes) {
        Ok(_) => Ok(bytes),
        // The file could not be written again: TOML has no larger numbers.
        Err(_) => Err(D::Error::custom(SizeError::TooLarge)),
    }
}

/// Reads a size. A text without a unit counts like a number: in the unit of the key. `of_text`
/// parses the other texts, and fails with the reason.
pub fn read<'de, D: Deserializer<'de>>(
    from: D,
    of_text: impl FnOnce(&str) -> Result<u64, String>,
) -> Result<u64, D::Error> {
    from.deserialize_any(SizeVisitor { of_text })
}

struct SizeVisitor<F> {
    of_text: F,
}

impl<F: FnOnce(&str) -> Result<u64, String>> Visitor<'_> for SizeVisitor<F> {
    type Value = u64;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number from 0, or a size such as \"64M\"")
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<u64, E> {
        Ok(number)
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<u64, E> {
        u64::try_from(number).map_err(|_| E::invalid_value(Unexpected::Signed(number), &self))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<u64, E> {
        match text.parse() {
            Ok(number) => Ok(number),
            Err(_) => (self.of_text)(text).map_err(E::custom),
        }
    }
}
