//! Forms of values in documents: times, names of any bytes, and pages of lists.

use std::borrow::Cow;
use std::fmt;

use data_encoding::BASE64;
use jiff::Timestamp;
use model::ServerTime;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// A time in the form of RFC 3339.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Time(pub(crate) ServerTime);

impl Serialize for Time {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let time = Timestamp::from_microsecond(self.0.0).unwrap_or(Timestamp::UNIX_EPOCH);
        serializer.collect_str(&time)
    }
}

impl<'de> Deserialize<'de> for Time {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Cow::<str>::deserialize(deserializer)?;
        let time: Timestamp = text.parse().map_err(|_| {
            de::Error::custom("a time has the form of RFC 3339, as in 2026-11-20T18:00:00Z")
        })?;
        Ok(Self(ServerTime(time.as_microsecond())))
    }
}

impl JsonSchema for Time {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Time".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "format": "date-time" })
    }
}

/// A name or path of any bytes: text, or an object with the bytes in Base64 if it is not UTF-8.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Bytes(pub(crate) Vec<u8>);

/// The forms of [`Bytes`].
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
enum BytesForm {
    Text(String),
    Bytes {
        /// The bytes in Base64.
        bytes: String,
    },
}

impl Serialize for Bytes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let form = match std::str::from_utf8(&self.0) {
            Ok(text) => BytesForm::Text(text.to_owned()),
            Err(_) => BytesForm::Bytes { bytes: BASE64.encode(&self.0) },
        };
        form.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Bytes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match BytesForm::deserialize(deserializer)? {
            BytesForm::Text(text) => Ok(Self(text.into_bytes())),
            BytesForm::Bytes { bytes } => {
                let decoded = BASE64.decode(bytes.as_bytes());
                decoded.map(Self).map_err(|_| de::Error::custom("the bytes are not Base64"))
            }
        }
    }
}

impl JsonSchema for Bytes {
    fn schema_name() -> Cow<'static, str> {
        "Bytes".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let mut schema = BytesForm::json_schema(generator);
        let text = "Text, or an object with the bytes in Base64 if they are not UTF-8.";
        schema.insert("description".to_owned(), text.into());
        schema
    }
}

/// Beginning of a [`NameText`] that is not UTF-8.
const BASE64_MARK: &str = "base64:";

/// A name or path of any bytes as a parameter: text, or `base64:` with the bytes in Base64.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct NameText(pub(crate) Vec<u8>);

impl<'de> Deserialize<'de> for NameText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Cow::<str>::deserialize(deserializer)?;
        let Some(bytes) = text.strip_prefix(BASE64_MARK) else {
            return Ok(Self(text.into_owned().into_bytes()));
        };
        let wrong = |_| de::Error::custom("after 'base64:' come bytes in Base64");
        BASE64.decode(bytes.as_bytes()).map(Self).map_err(wrong)
    }
}

impl fmt::Display for NameText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match std::str::from_utf8(&self.0) {
            Ok(text) if !text.starts_with(BASE64_MARK) => f.write_str(text),
            _ => write!(f, "{BASE64_MARK}{}", BASE64.encode(&self.0)),
        }
    }
}

impl JsonSchema for NameText {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "NameText".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string" })
    }
}

/// A page of a list.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Page_of_{T}")]
pub(crate) struct Page<T> {
    pub(crate) items: Vec<T>,
    /// Cursor of the next page; absent at the end of the list.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) next: Option<String>,
}

/// A request or an answer without a body, or a path without parameters.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Empty {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_any_bytes_survive_as_json() {
        for (bytes, json) in [(&b"/etc"[..], r#""/etc""#), (b"\xff\0", r#"{"bytes":"/wA="}"#)] {
            let name = Bytes(bytes.to_vec());
            assert_eq!(serde_json::to_string(&name).expect("is text"), json);
            assert_eq!(serde_json::from_str::<Bytes>(json).expect("is read"), name);
        }
        assert!(serde_json::from_str::<Bytes>(r#"{"bytes":"*"}"#).is_err());
    }

    #[test]
    fn names_of_any_bytes_are_parameters() {
        let read = |text: &str| serde_json::from_value::<NameText>(text.into());
        for (text, bytes) in [("/etc", &b"/etc"[..]), ("base64:/wA=", b"\xff\0"), ("base64:", b"")]
        {
            assert_eq!(read(text).expect("is read"), NameText(bytes.to_vec()));
        }
        for text in ["/etc", "base64:/wA=", "base64:YmFzZTY0Og=="] {
            assert_eq!(read(text).expect("is read").to_string(), text);
        }
        for wrong in ["base64:*", "base64:/w", "base64:/wA= "] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn times_have_the_form_of_rfc_3339() {
        let time = Time(ServerTime(1_700_000_000_000_000));
        let json = r#""2023-11-14T22:13:20Z""#;
        assert_eq!(serde_json::to_string(&time).expect("is text"), json);
        assert_eq!(serde_json::from_str::<Time>(json).expect("is read"), time);
        assert!(serde_json::from_str::<Time>(r#""yesterday""#).is_err());
    }
}
