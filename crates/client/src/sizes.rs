//! Sizes in `client.toml`: numbers in the unit of their key, or texts such as `64M`.

use policy::settings::{Kind, Value, find};
use serde::de::Deserializer;

/// Reads the size of the setting `name`. A text with a unit means what it means in an option set.
/// One without a unit counts like a number: in the unit of the key.
pub(crate) fn of_setting<'de, D: Deserializer<'de>>(
    name: &'static str,
    from: D,
) -> Result<u64, D::Error> {
    policy::sizes::read(from, |text| {
        let kind = match find(name).expect("a setting").kind {
            // Numbers without a unit are bytes here, and not KiB as on the command line.
            Kind::Size { min, max, most, .. } => Kind::Size { unit: 1, min, max, most },
            kind => kind,
        };
        match kind.parse(text).map_err(|error| error.to_string())? {
            Value::Number(number) => Ok(number),
            other => unreachable!("{name} is a size, not {other:?}"),
        }
    })
}
