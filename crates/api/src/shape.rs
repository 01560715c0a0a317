//! Shapes of bodies: a list is no object.
//!
//! A list would be taken for the fields of an object in their order, at any depth. The OpenAPI
//! document does not allow that, and the next new field of the object would break it.

use schemars::{JsonSchema, SchemaGenerator};
use serde_json::Value;

/// Returns the name of a field of the document that has a list where `B` has an object.
pub(crate) fn list_for_object<B: JsonSchema>(document: &Value) -> Option<&str> {
    let root = SchemaGenerator::default().into_root_schema_for::<B>();
    misplaced(root.as_value(), root.as_value(), ("", document))
}

/// Looks for a list in the place of an object in the named value, which has this schema.
fn misplaced<'v>(
    root: &Value,
    schema: &Value,
    (name, value): (&'v str, &'v Value),
) -> Option<&'v str> {
    let forms = forms(root, schema);
    match value {
        Value::Array(items) => {
            let mut lists = forms.iter().filter(|form| is_of(form, "array")).peekable();
            if lists.peek().is_none() {
                return forms.iter().any(|form| is_of(form, "object")).then_some(name);
            }
            let of_items: Vec<&Value> = lists.filter_map(|form| form.get("items")).collect();
            items.iter().find_map(|item| by_all(root, &of_items, (name, item)))
        }
        Value::Object(fields) => fields.iter().find_map(|(name, field)| {
            let of_field = forms.iter().filter_map(|form| form.get("properties")?.get(name));
            by_all(root, &of_field.collect::<Vec<_>>(), (name.as_str(), field))
        }),
        _ => None,
    }
}

/// Looks for a list that is misplaced by all of the schemas that a value may have.
fn by_all<'v>(root: &Value, schemas: &[&Value], value: (&'v str, &'v Value)) -> Option<&'v str> {
    let found = schemas.iter().map(|schema| misplaced(root, schema, value));
    let all: Vec<&str> = found.collect::<Option<_>>()?;
    all.first().copied()
}

/// Returns the forms that a value of this schema may have.
fn forms<'s>(root: &'s Value, schema: &'s Value) -> Vec<&'s Value> {
    if let Some(place) = schema.get("$ref").and_then(Value::as_str) {
        let target = place.strip_prefix('#').and_then(|place| root.pointer(place));
        return target.map_or_else(Vec::new, |target| forms(root, target));
    }
    let choices = ["anyOf", "oneOf", "allOf"].into_iter();
    let choices = choices.filter_map(|key| schema.get(key)?.as_array()).flatten();
    let mut all: Vec<&Value> = choices.flat_map(|choice| forms(root, choice)).collect();
    all.push(schema);
    all
}

/// Returns true if the schema names this type.
fn is_of(schema: &Value, kind: &str) -> bool {
    match schema.get("type") {
        Some(Value::String(one)) => one == kind,
        Some(Value::Array(several)) => several.iter().any(|one| one.as_str() == Some(kind)),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_list_in_the_place_of_an_object_is_found_at_any_depth() {
        let schema = json!({
            "$defs": {
                "Limits": { "type": "object", "properties": { "nodes": { "type": "integer" } } },
                "Name": { "anyOf": [{ "type": "string" }, { "type": "object" }] },
            },
            "type": "object",
            "properties": {
                "tag": { "type": ["string", "null"] },
                "limits": { "anyOf": [{ "$ref": "#/$defs/Limits" }, { "type": "null" }] },
                "all": { "type": "array", "items": { "$ref": "#/$defs/Limits" } },
                "paths": { "type": ["array", "null"], "items": { "$ref": "#/$defs/Name" } },
                "rest": true,
            },
        });
        for (document, expected) in [
            (json!({ "limits": [7] }), Some("limits")),
            (json!({ "all": [{ "nodes": 7 }, [7]] }), Some("all")),
            (json!({ "paths": ["a", ["b"]] }), Some("paths")),
            (json!({ "limits": { "nodes": 7 }, "all": [{ "nodes": 7 }] }), None),
            (json!({ "limits": null, "paths": ["a", {}], "rest": [[7]], "unknown": [7] }), None),
            // Another error is better told by those who read the field.
            (json!({ "tag": ["a"], "limits": 7 }), None),
        ] {
            let found = misplaced(&schema, &schema, ("", &document));
            assert_eq!(found, expected, "{document}");
        }
    }
}
