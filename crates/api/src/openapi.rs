//! The document of all operations, in the form of OpenAPI 3.1. It is made from the routes, so that
//! it cannot differ from them.

use axum::http::Method;
use schemars::generate::SchemaSettings;
use schemars::transform::{RecursiveTransform, ReplaceBoolSchemas};
use schemars::{Schema, SchemaGenerator};
use serde_json::{Map, Value, json};

use crate::examples::Example;
use crate::operation::Operation;
use crate::problem::{self, Kind};
use crate::resources;
use crate::roles::Area;
use crate::routes::{AnswerType, Types};
use crate::{answers, authentication};

/// Returns the document of all operations, as JSON for people.
pub fn document() -> String {
    let mut text = serde_json::to_string_pretty(&value()).expect("the document is text");
    text.push('\n');
    text
}

/// Returns the document of all operations.
pub(crate) fn value() -> Value {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.definitions_path = "/components/schemas".into();
        settings.meta_schema = None;
        // Not all generators of clients know schemas that are true or false.
        let mut objects = ReplaceBoolSchemas::default();
        objects.skip_additional_properties = true;
        settings.transforms.push(Box::new(objects));
        settings
            .transforms
            .push(Box::new(RecursiveTransform(list_words as fn(&mut Schema))));
    });
    let mut generator = settings.into_generator();
    let routes = resources::routes();
    let mut paths: Map<String, Value> = Map::new();
    for (operation, types) in &routes.operations {
        let described = describe(operation, types, &mut generator);
        let methods = paths.entry(operation.path).or_insert_with(|| json!({}));
        methods[operation.method.as_str().to_lowercase()] = described;
    }
    let problem = generator.subschema_for::<problem::Document>();
    let schemas = generator.take_definitions(true);
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Holdfast",
            "version": "1",
            "summary": "Backup as a service",
            "license": { "name": "Apache-2.0", "identifier": "Apache-2.0" },
        },
        "servers": [{ "url": "/" }],
        "security": [{ "key": [] }, { "password": [] }, { "sign-in": [] }],
        "paths": paths,
        "components": {
            "schemas": schemas,
            "responses": { "problem": problem_response(&problem) },
            "securitySchemes": security(),
        },
    })
}

/// Makes a list of the words of a type that is one of several words. If words are described, their
/// schema is a choice of constants, of which generators of clients accept only the first.
fn list_words(schema: &mut Schema) {
    let choices = schema.get("oneOf").and_then(Value::as_array);
    let Some(listed) = choices.and_then(|choices| listed_words(choices)) else { return };
    let (words, described): (Vec<Value>, Vec<String>) = listed.into_iter().unzip();
    let about = schema.get("description").and_then(Value::as_str);
    let lines = about.into_iter().map(str::to_owned).chain(described);
    let lines: Vec<String> = lines.filter(|line| !line.is_empty()).collect();
    schema.remove("oneOf");
    schema.insert("type".to_owned(), "string".into());
    schema.insert("enum".to_owned(), words.into());
    schema.insert("description".to_owned(), lines.join("\n").into());
}

/// Returns the words of a choice, each with a line about it, which is empty if the word is not
/// described; `None` if something else than words is among them.
fn listed_words(choices: &[Value]) -> Option<Vec<(Value, String)>> {
    let mut listed = Vec::new();
    for choice in choices {
        let words = match (&choice["const"], &choice["enum"]) {
            (word @ Value::String(_), _) => std::slice::from_ref(word),
            (_, Value::Array(words)) => words,
            _ => return None,
        };
        for word in words {
            let name = word.as_str()?;
            let line = choice["description"].as_str().map(|about| format!("- `{name}`: {about}"));
            listed.push((word.clone(), line.unwrap_or_default()));
        }
    }
    Some(listed)
}

fn problem_response(schema: &Schema) -> Value {
    let codes = Kind::ALL.map(Kind::code).join(", ");
    json!({
        "description": format!("A problem, with one of the codes: {codes}."),
        "content": { "application/problem+json": { "schema": schema } },
    })
}

fn security() -> Value {
    json!({
        "key": {
            "type": "apiKey", "in": "header", "name": "Authorization",
            "description": "The key of a program: 'Token ID:SECRET'.",
        },
        "password": {
            "type": "http", "scheme": "basic",
            "description": "Login and password of a person without a second factor, for reading.",
        },
        "sign-in": {
            "type": "apiKey", "in": "cookie", "name": authentication::COOKIE,
            "description": format!(
                "The sign-in of a browser. A change also needs the header {}.",
                authentication::GUARD
            ),
        },
    })
}

fn describe(operation: &Operation, types: &Types, generator: &mut SchemaGenerator) -> Value {
    let mut parameters = Vec::new();
    parameters.extend(parameters_of((types.path)(generator), "path"));
    parameters.extend(parameters_of((types.query)(generator), "query"));
    for parameter in &mut parameters {
        let name = parameter["name"].as_str().unwrap_or_default();
        if let Some(example) = operation.value_of(name) {
            parameter["example"] = example;
        }
    }
    let (status, mut answer) = answer(types.answer, generator);
    if let (Some(example), AnswerType::Document { .. }) = (&operation.answer, types.answer) {
        answer["content"]["application/json"]["example"] = example.clone();
    }
    if status == "201" {
        parameters.push(json!({
            "name": answers::HEADER, "in": "header", "required": false,
            "description": "Name of the request: sent again with it, it makes nothing twice.",
            "schema": { "type": "string", "minLength": 1, "maxLength": 255,
                        "pattern": "^[!-~]+$" },
        }));
    }
    if types.takes_tag {
        parameters.push(json!({
            "name": "If-Match", "in": "header", "required": false,
            "description": "ETag of the object: if somebody has changed it since, nothing happens.",
            "schema": { "type": "string", "minLength": 1, "maxLength": 255,
                        "pattern": "^[ -~]+$" },
        }));
    }
    let tag = operation.id.split('.').next().unwrap_or_default();
    let mut described = json!({
        "operationId": operation.id,
        "summary": operation.summary,
        "tags": [tag],
        "x-area": operation.area.title(),
        "x-right": operation.right.name(),
        "responses": {
            status: answer,
            "default": { "$ref": "#/components/responses/problem" },
        },
    });
    if !parameters.is_empty() {
        described["parameters"] = Value::Array(parameters);
    }
    if let Some(body) = types.body {
        let media = match operation.method {
            Method::PATCH => "application/merge-patch+json",
            _ => "application/json",
        };
        described["requestBody"] = json!({
            "required": true,
            "content": { media: { "schema": body(generator), "examples": examples(operation) } },
        });
    }
    if operation.area == Area::Open {
        described["security"] = json!([]);
    }
    described
}

/// Returns the examples of an operation's body, by name.
fn examples(operation: &Operation) -> Value {
    let examples = operation.examples.iter();
    let mut named = Map::new();
    for Example { name, body } in examples {
        let known = named.insert((*name).to_owned(), json!({ "value": body }));
        assert!(known.is_none(), "{} has two examples {name}", operation.id);
    }
    Value::Object(named)
}

fn answer(answer: AnswerType, generator: &mut SchemaGenerator) -> (String, Value) {
    match answer {
        AnswerType::Empty => ("204".to_owned(), json!({ "description": "Done." })),
        AnswerType::Document { status, schema } => {
            let schema = without_bool(schema(generator).to_value());
            let content = json!({ "application/json": { "schema": schema } });
            (status.as_u16().to_string(), json!({ "description": "Done.", "content": content }))
        }
        AnswerType::Stream(media) => {
            let content = json!({ media: { "schema": { "type": "string" } } });
            ("200".to_owned(), json!({ "description": "The bytes.", "content": content }))
        }
    }
}

/// Returns a schema that allows everything as an object.
fn without_bool(schema: Value) -> Value {
    if schema == Value::Bool(true) { json!({}) } else { schema }
}

/// Returns the parameters that the properties of a schema stand for.
fn parameters_of(schema: Schema, place: &str) -> Vec<Value> {
    let schema = schema.to_value();
    let required: Vec<&str> = schema["required"]
        .as_array()
        .map(|names| names.iter().filter_map(Value::as_str).collect())
        .unwrap_or_default();
    let Some(properties) = schema["properties"].as_object() else { return Vec::new() };
    let parameter = |(name, property): (&String, &Value)| {
        let mut property = property.clone();
        let description = property.as_object_mut().and_then(|one| one.remove("description"));
        let mut parameter = json!({
            "name": name, "in": place, "required": required.contains(&name.as_str()),
            "schema": without_null(property),
        });
        if let Some(description) = description {
            parameter["description"] = description;
        }
        parameter
    };
    properties.iter().map(parameter).collect()
}

/// Returns the schema of a parameter that may be absent, which is never null.
fn without_null(mut schema: Value) -> Value {
    if let Some(types) = schema.get_mut("type").and_then(Value::as_array_mut) {
        types.retain(|one| one != "null");
        if let [only] = &types[..] {
            schema["type"] = only.clone();
        }
    }
    if let Some(choices) = schema.get_mut("anyOf").and_then(Value::as_array_mut) {
        choices.retain(|one| one["type"] != "null");
        if let [only] = &choices[..] {
            return only.clone();
        }
    }
    schema
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_operation_is_in_the_document_once() {
        let document = value();
        let mut ids: Vec<&str> = document["paths"]
            .as_object()
            .expect("paths")
            .values()
            .flat_map(|methods| methods.as_object().expect("methods").values())
            .map(|operation| operation["operationId"].as_str().expect("an id"))
            .collect();
        let count = ids.len();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), count, "an id occurs twice");
        assert_eq!(count, resources::routes().operations.len(), "a route hides another");
    }

    #[test]
    fn words_are_lists_and_no_choices() {
        let document = value();
        let state = &document["components"]["schemas"]["HourState"];
        assert!(state["oneOf"].is_null(), "{state}");
        assert!(state["enum"].as_array().is_some_and(|words| words.contains(&"good".into())));
        let about = state["description"].as_str().expect("described");
        assert!(about.contains("- `failed`: "), "{about}");
    }

    #[test]
    fn each_parameter_of_a_path_is_described() {
        let document = value();
        for (path, methods) in document["paths"].as_object().expect("paths") {
            let named = path.split('{').skip(1).map(|rest| rest.split('}').next().expect("a name"));
            let named: Vec<&str> = named.collect();
            for operation in methods.as_object().expect("methods").values() {
                let parameters = operation["parameters"].as_array().cloned().unwrap_or_default();
                let described: Vec<&str> = parameters
                    .iter()
                    .filter(|one| one["in"] == "path")
                    .map(|one| one["name"].as_str().expect("a name"))
                    .collect();
                let mut named = named.clone();
                let mut described = described.clone();
                named.sort_unstable();
                described.sort_unstable();
                assert_eq!(described, named, "{path}");
            }
        }
    }

    #[test]
    fn schemas_are_objects() {
        fn check(value: &Value, path: &str) {
            let Some(fields) = value.as_object() else {
                let items = value.as_array().into_iter().flatten();
                return items.for_each(|item| check(item, path));
            };
            for (name, field) in fields {
                let path = format!("{path}/{name}");
                assert!(name != "schema" || field.is_object(), "{path}");
                let is_schemas = name == "properties" || name == "schemas";
                let all = field.as_object().into_iter().flatten();
                all.filter(|_| is_schemas)
                    .for_each(|(name, one)| assert!(one.is_object(), "{path}/{name}"));
                check(field, &path);
            }
        }
        check(&value(), "");
    }
}
