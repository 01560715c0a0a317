//! Members of merge patches, as RFC 7396 has them: one that is absent leaves its value as it is,
//! and `null` removes the value.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Deserializer};

use crate::call::Answer;
use crate::problem::Problem;

/// A member of a merge patch. Its struct needs a default for members that are absent.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) enum Patch<T> {
    #[default]
    Absent,
    Null,
    Value(T),
}

impl<T> Patch<T> {
    pub(crate) fn is_absent(&self) -> bool {
        matches!(self, Self::Absent)
    }

    pub(crate) fn as_ref(&self) -> Patch<&T> {
        match self {
            Self::Absent => Patch::Absent,
            Self::Null => Patch::Null,
            Self::Value(value) => Patch::Value(value),
        }
    }

    /// Returns the change of a value that may be missing: `Some(None)` removes it.
    pub(crate) fn change(self) -> Option<Option<T>> {
        match self {
            Self::Absent => None,
            Self::Null => Some(None),
            Self::Value(value) => Some(Some(value)),
        }
    }

    /// Returns the change of a value that is always there. Fails for `null`, which would remove it.
    pub(crate) fn required(self, field: &str) -> Answer<Option<T>> {
        match self {
            Self::Absent => Ok(None),
            Self::Null => {
                let text = format!(
                    "'{field}' cannot be removed, and null would: give a value, or leave the field \
                     out"
                );
                Err(Problem::invalid(text))
            }
            Self::Value(value) => Ok(Some(value)),
        }
    }
}

impl<T: Default> Patch<T> {
    /// Returns the change of a value that may be empty: `null` makes it so.
    pub(crate) fn emptied(self) -> Option<T> {
        self.change().map(Option::unwrap_or_default)
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Patch<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Option::<T>::deserialize(deserializer)?;
        Ok(value.map_or(Self::Null, Self::Value))
    }
}

impl<T: JsonSchema> JsonSchema for Patch<T> {
    fn inline_schema() -> bool {
        Option::<T>::inline_schema()
    }

    fn schema_name() -> Cow<'static, str> {
        Option::<T>::schema_name()
    }

    fn schema_id() -> Cow<'static, str> {
        Option::<T>::schema_id()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        Option::<T>::json_schema(generator)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(PartialEq, Eq, Default, Debug, Deserialize)]
    #[serde(default)]
    struct Body {
        text: Patch<String>,
    }

    fn text(json: &str) -> Patch<String> {
        serde_json::from_str::<Body>(json).expect("a body").text
    }

    #[test]
    fn null_is_not_the_same_as_nothing() {
        let (absent, null, value) = (text("{}"), text(r#"{"text":null}"#), text(r#"{"text":"a"}"#));
        assert!(absent.is_absent() && !null.is_absent() && !value.is_absent());
        assert_eq!(
            [&absent, &null, &value].map(|one| one.clone().change()),
            [None, Some(None), Some(Some("a".to_owned()))]
        );
        assert_eq!([&absent, &null].map(|one| one.clone().emptied()), [None, Some(String::new())]);
        assert_eq!(absent.required("text"), Ok(None));
        assert_eq!(value.required("text"), Ok(Some("a".to_owned())));
        let refused = null.required("text").expect_err("would remove it");
        assert!(refused.detail.starts_with("'text' cannot be removed"), "{refused:?}");
    }
}
