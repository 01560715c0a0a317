//! Bytes as text of a document.

use data_encoding::HEXLOWER;
use model::{percent_decoded, percent_encoded};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Path, which may hold any bytes. Bytes that are not UTF-8, and `%`, are written as `%` and two
/// digits.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct PathText(pub Vec<u8>);

impl Serialize for PathText {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&percent_encoded(&self.0))
    }
}

impl<'de> Deserialize<'de> for PathText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        percent_decoded(&text)
            .map(Self)
            .ok_or_else(|| D::Error::custom("not the text of a path"))
    }
}

/// Form of 16 bytes in a document: 32 digits.
pub(crate) struct HexText;

impl HexText {
    pub(crate) fn serialize<S: Serializer>(
        bytes: &[u8; 16],
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&HEXLOWER.encode(bytes))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<[u8; 16], D::Error> {
        let text = String::deserialize(deserializer)?;
        let bytes = HEXLOWER.decode(text.as_bytes()).map_err(D::Error::custom)?;
        bytes.try_into().map_err(|_| D::Error::custom("not 16 bytes"))
    }
}
