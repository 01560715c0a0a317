//! Sizes in `client.toml`: numbers in the unit of their key, or texts such as `64M`.

use std::fmt;

use policy::settings::{Kind, Value, find};
use serde::de::{Deserializer, Error, Unexpected, Visitor};

/// Reads the size of the setting `name`. A text with a unit means what it means in an option set.
/// One without a unit counts like a number: in the unit of the key.
pub(crate) fn of_setting<'de, D: Deserializer<'de>>(
    name: &'static str,
    from: D,
) -> Result<u64, D::Error> {
    from.deserialize_any(SizeVisitor { name })
}

struct SizeVisitor {
    name: &'static str,
}

impl Visitor<'_> for SizeVisitor {
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
        if let Ok(number) = text.parse() {
            return Ok(number);
        }
        let kind = match find(self.name).expect("a setting").kind {
            // Numbers without a unit are bytes here, and not KiB as on the command line.
            Kind::Size { min, max, most, .. } => Kind::Size { unit: 1, min, max, most },
            kind => kind,
        };
        match kind.parse(text).map_err(E::custom)? {
            Value::Number(number) => Ok(number),
            other => unreachable!("{} is a size, not {other:?}", self.name),
        }
    }
}
