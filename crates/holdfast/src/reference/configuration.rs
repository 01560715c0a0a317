//! The reference of the configuration files, made from their types.

use std::fmt::Write as _;

use schemars::Schema;
use serde_json::{Map, Value};

const HEAD: &str = "\
# Configuration files

Every key of the two files, with its unit, its default and its effect. A key that a file does not
know is refused by name. This page is made from the code, and
`HOLDFAST_WRITE_REFERENCE=1 cargo test -p holdfast reference` writes it anew.
";

/// Suffixes of keys, and the units that they stand for.
const UNITS: [(&str, &str); 8] = [
    ("_days", "days"),
    ("_hours", "hours"),
    ("_minutes", "minutes"),
    ("_percent", "per cent"),
    ("_bytes", "bytes"),
    ("_megabytes", "megabytes"),
    ("_objects", "objects"),
    ("_kept", "number"),
];

/// Returns the unit of the key `name`, from its definition or from the end of the name.
fn unit<'a>(name: &str, property: &'a Value) -> &'a str {
    let found = UNITS.iter().rev().find(|(end, _)| name.ends_with(end));
    let named = property.get("x-unit").and_then(Value::as_str);
    named.or(found.map(|(_, unit)| *unit)).unwrap_or_default()
}

/// The default of a key that a file may leave out.
fn default(name: &str, property: &Value) -> String {
    match (property.get("x-default"), property.get("default")) {
        (Some(Value::String(text)), _) => text.clone(),
        (_, Some(Value::String(text))) => format!("`{text}`"),
        (_, Some(value @ (Value::Bool(_) | Value::Number(_)))) => format!("`{value}`"),
        _ => panic!("{name} is optional and has no default"),
    }
}

/// Returns the definition of a property, which may stand elsewhere in the schema.
fn resolved<'a>(root: &'a Map<String, Value>, property: &'a Value) -> &'a Value {
    let reference = property.get("$ref").and_then(Value::as_str);
    let name = reference.and_then(|reference| reference.strip_prefix("#/$defs/"));
    name.and_then(|name| root.get("$defs")?.get(name)).unwrap_or(property)
}

/// Adds a row for each key of `section`, or a table of its own for a key that is a section.
fn rows(root: &Map<String, Value>, prefix: &str, section: &Value, text: &mut String) {
    let required: Vec<&str> = section
        .get("required")
        .and_then(Value::as_array)
        .map(|keys| keys.iter().filter_map(Value::as_str).collect())
        .unwrap_or_default();
    let properties = section.get("properties").and_then(Value::as_object);
    for (key, property) in properties.into_iter().flatten() {
        let definition = resolved(root, property);
        if definition.get("properties").is_some() {
            rows(root, &format!("{prefix}{key}."), definition, text);
            continue;
        }
        if let Some(items) = property.get("items") {
            let prefix = format!("{prefix}{key}.");
            rows(root, &prefix, resolved(root, items), text);
        }
        let description =
            |of: &Value| of.get("description").and_then(Value::as_str).map(str::to_owned);
        let effect = description(property).or_else(|| description(definition)).unwrap_or_default();
        assert!(!effect.is_empty(), "{prefix}{key} has no description");
        let default = if required.contains(&key.as_str()) {
            "required".to_owned()
        } else {
            default(key, property)
        };
        let effect = effect.replace('\n', " ").replace('|', "\\|");
        writeln!(text, "| `{prefix}{key}` | {} | {default} | {effect} |", unit(key, property))
            .expect("writing to a string cannot fail");
    }
}

fn table(title: &str, schema: &Schema, text: &mut String) {
    let root = schema.as_object().expect("a configuration file has keys");
    write!(text, "\n## {title}\n\n| key | unit | default | effect |\n|---|---|---|---|\n")
        .expect("writing to a string cannot fail");
    rows(root, "", schema.as_value(), text);
}

#[test]
fn the_reference_of_configuration_files_is_that_of_the_code() {
    let mut text = HEAD.to_owned();
    let server = schemars::schema_for!(store::folder::Config);
    table("`server.toml`, in the server's folder", &server, &mut text);
    table("`client.toml`, in the node's folder", &client::client_toml(), &mut text);
    super::compare("configuration.md", &text);
}
