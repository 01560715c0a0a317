//! A check of JSON against the schemas of a document of OpenAPI: the part of JSON Schema that the
//! documents of Holdfast use. An object must have no field that its schema does not name.

use serde_json::Value;

/// Words that say nothing about which values are right.
const REMARKS: [&str; 5] = ["default", "description", "format", "pattern", "title"];
const PREFIX: &str = "#/components/schemas/";

/// The schemas of a document.
#[derive(Clone, Copy, Debug)]
pub struct Schemas<'a> {
    document: &'a Value,
}

impl<'a> Schemas<'a> {
    pub fn new(document: &'a Value) -> Self {
        Self { document }
    }

    /// Fails with the place of the first difference if `value` is not as `schema` says.
    ///
    /// # Panics
    ///
    /// Panics if the schema has a word that this check does not know.
    pub fn check(self, schema: &Value, value: &Value) -> Result<(), String> {
        let words = schema.as_object().expect("a schema is an object");
        for (word, wanted) in words {
            if !self.agrees(schema, (word.as_str(), wanted), value)? {
                return Err(format!("{value} is not {word}: {wanted}"));
            }
        }
        let is_closed = words.contains_key("properties")
            && !words.contains_key("additionalProperties")
            && value.is_object();
        if is_closed {
            let mut fields = value.as_object().expect("is an object").keys();
            if let Some(unknown) = fields.find(|name| schema["properties"].get(name).is_none()) {
                return Err(format!("{value} has the unknown field {unknown}"));
            }
        }
        Ok(())
    }

    /// Returns true if the value agrees with one word of a schema.
    fn agrees(
        self,
        schema: &Value,
        (word, wanted): (&str, &Value),
        value: &Value,
    ) -> Result<bool, String> {
        let choices = || wanted.as_array().expect("a list").iter();
        let number = |value: &Value| value.as_f64().expect("a number");
        let length = || value.as_str().map(|text| text.chars().count() as u64);
        Ok(match word {
            "$ref" => {
                let name = wanted.as_str().and_then(|path| path.strip_prefix(PREFIX));
                let target = &self.document["components"]["schemas"][name.expect("a schema")];
                self.check(target, value).map(|()| true)?
            }
            "anyOf" => choices().any(|one| self.check(one, value).is_ok()),
            "oneOf" => choices().filter(|one| self.check(one, value).is_ok()).count() == 1,
            "const" => wanted == value,
            "enum" => choices().any(|one| one == value),
            "type" => match wanted {
                Value::String(name) => is_of_type(value, name),
                _ => choices().any(|name| is_of_type(value, name.as_str().expect("a name"))),
            },
            "minimum" => value.as_f64().is_none_or(|is| is >= number(wanted)),
            "maximum" => value.as_f64().is_none_or(|is| is <= number(wanted)),
            "minLength" => length().is_none_or(|is| Some(is) >= wanted.as_u64()),
            "maxLength" => length().is_none_or(|is| Some(is) <= wanted.as_u64()),
            "items" => {
                let mut items = value.as_array().into_iter().flatten();
                items.try_for_each(|item| self.check(wanted, item)).map(|()| true)?
            }
            "required" => !value.is_object() || choices().all(|name| has(value, name)),
            "properties" => {
                let fields = wanted.as_object().expect("properties have names").iter();
                let mut given =
                    fields.filter_map(|(name, schema)| Some((schema, value.get(name)?)));
                given.try_for_each(|(schema, field)| self.check(schema, field)).map(|()| true)?
            }
            "additionalProperties" => self.check_more(schema, wanted, value).map(|()| true)?,
            remark if REMARKS.contains(&remark) => true,
            unknown => panic!("this check does not know the word {unknown} of {schema}"),
        })
    }

    /// Checks the fields of an object that its schema does not name.
    fn check_more(self, schema: &Value, wanted: &Value, value: &Value) -> Result<(), String> {
        let is_named = |name: &str| schema["properties"].get(name).is_some();
        let fields = value.as_object().into_iter().flatten();
        for (name, field) in fields.filter(|(name, _)| !is_named(name)) {
            match wanted {
                Value::Bool(true) => {}
                Value::Bool(false) => return Err(format!("{value} has the unknown field {name}")),
                schema => self.check(schema, field)?,
            }
        }
        Ok(())
    }
}

fn has(value: &Value, name: &Value) -> bool {
    value.get(name.as_str().expect("a name")).is_some()
}

fn is_of_type(value: &Value, name: &str) -> bool {
    match name {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "string" => value.is_string(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        unknown => panic!("there is no type {unknown}"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(schema: &Value, right: &[Value], wrong: &[Value]) {
        let document = json!({ "components": { "schemas": {
            "Name": { "type": "string", "minLength": 1, "maxLength": 3 },
        } } });
        let schemas = Schemas::new(&document);
        for value in right {
            assert_eq!(schemas.check(schema, value), Ok(()), "{value}");
        }
        for value in wrong {
            assert!(schemas.check(schema, value).is_err(), "{value}");
        }
    }

    #[test]
    fn objects_have_the_fields_of_their_schema_only() {
        let schema = json!({
            "type": "object",
            "properties": {
                "name": { "$ref": "#/components/schemas/Name" },
                "ages": { "type": "array", "items": { "type": "integer", "minimum": 0 } },
            },
            "required": ["name"],
        });
        let right = [json!({ "name": "a" }), json!({ "name": "abc", "ages": [0, 7] })];
        let wrong = [
            json!({}),
            json!([]),
            json!({ "name": "" }),
            json!({ "name": "abcd" }),
            json!({ "name": "a", "ages": [-1] }),
            json!({ "name": "a", "more": 1 }),
        ];
        check(&schema, &right, &wrong);
        let open = json!({ "type": "object", "additionalProperties": { "type": "integer" } });
        check(&open, &[json!({ "a": 1 })], &[json!({ "a": "x" })]);
    }

    #[test]
    fn choices_are_told_apart() {
        let any = json!({ "anyOf": [{ "type": "string" }, { "type": "null" }] });
        check(&any, &[json!("a"), json!(null)], &[json!(1)]);
        let one = json!({ "oneOf": [{ "const": "a" }, { "enum": ["b", "c"] }] });
        check(&one, &[json!("a"), json!("c")], &[json!("d")]);
        let types = json!({ "type": ["integer", "null"], "maximum": 9 });
        check(&types, &[json!(9), json!(null)], &[json!(10), json!("a")]);
        check(&json!({}), &[json!({ "anything": [1] })], &[]);
    }
}
