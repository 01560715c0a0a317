//! Examples of requests, which the document of operations shows.
//!
//! They tell of one service: the customer LAB, its administrator anna, its node web-1, the pool
//! TAPE on the volumes of the library TL. A parameter has the same value in all examples, so that
//! they fit together; the tables here have these values, and an operation may give another one. The
//! bodies are beside their operations.
//!
//! A test makes this service and runs every example against it.

use serde_json::{Value, json};

/// An example of a request with a body.
#[derive(Clone, Debug)]
pub(crate) struct Example {
    /// Name of the example, which the operation gives once.
    pub(crate) name: &'static str,
    pub(crate) body: Value,
}

/// Values of parameters that are text.
const TEXTS: [(&str, &str); 30] = [
    ("application", "web server"),
    ("at", "2026-11-20T18:00:00Z"),
    ("domain", "LAB"),
    ("enrolment_key", "rollout"),
    ("filespace", "/"),
    ("format", "csv"),
    ("from", "2026-11-20T18:00:00Z"),
    ("hostname", "web-1.lab.example"),
    ("key", "hf-3k7q2m9x4w8t5r6a"),
    ("kind", "node"),
    ("label", "web"),
    ("library", "TL"),
    ("month", "2026-01"),
    ("name", "hostname"),
    ("node", "web-1"),
    ("option_set", "linux"),
    ("owner", "anna"),
    ("path", "/etc"),
    ("pattern", "/etc/host*"),
    ("person", "anna"),
    ("place", "node"),
    ("platform", "Linux"),
    ("pool", "TAPE"),
    ("schedule", "nightly"),
    ("search", "web"),
    ("sort", "last-backup"),
    ("text", "anna"),
    ("to", "2026-11-21T18:00:00Z"),
    ("user", "anna"),
    ("volume", "A00001"),
];
/// Values of parameters that are numbers.
const NUMBERS: [(&str, u64); 11] = [
    ("alert", 3),
    ("approval", 1),
    ("backup_hours", 26),
    ("baseline", 1),
    ("days", 30),
    ("event", 17),
    ("limit", 50),
    ("seconds", 5),
    ("task", 12),
    ("token_secs", 3_600),
    ("wait", 5),
];
/// Parameters that are true.
const SWITCHES: [&str; 5] = ["all", "deep", "descending", "reports", "with_data"];

/// Returns the value of a parameter in all examples whose operations give no other one.
pub(crate) fn of_parameter(name: &str) -> Option<Value> {
    let text = TEXTS.iter().find(|(known, _)| *known == name).map(|(_, text)| json!(text));
    let number = NUMBERS.iter().find(|(known, _)| *known == name);
    let number = number.map(|(_, number)| json!(number));
    text.or(number).or_else(|| SWITCHES.contains(&name).then_some(json!(true)))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::openapi;

    /// Parameters whose values only their operations give.
    const OTHERS: [&str; 3] = ["state", "work", "zone"];
    /// Parameters whose values only the server makes.
    const OF_SERVER: [&str; 2] = ["archive", "cursor"];

    /// Returns the operations of the document.
    fn operations() -> Vec<Value> {
        let document = openapi::value();
        let paths = document["paths"].as_object().expect("paths").values();
        let methods = paths.flat_map(|methods| methods.as_object().expect("methods").values());
        methods.cloned().collect()
    }

    fn parameters(operation: &Value) -> Vec<Value> {
        let all = operation["parameters"].as_array().cloned().unwrap_or_default();
        all.into_iter().filter(|one| one["in"] != "header").collect()
    }

    #[test]
    fn each_body_and_each_parameter_has_an_example() {
        for operation in operations() {
            let id = operation["operationId"].as_str().expect("an id");
            for parameter in parameters(&operation) {
                let is_of_server = OF_SERVER.iter().any(|name| parameter["name"] == *name);
                assert_eq!(parameter.get("example").is_some(), !is_of_server, "{id}: {parameter}");
            }
            if let Some(body) = operation.get("requestBody") {
                let content = body["content"].as_object().expect("a body has a media type");
                for media in content.values() {
                    let examples = media["examples"].as_object();
                    assert!(examples.is_some_and(|all| !all.is_empty()), "{id} needs an example");
                }
            }
        }
    }

    #[test]
    fn the_tables_name_parameters_of_operations() {
        let all = operations();
        let used: BTreeSet<String> = all
            .iter()
            .flat_map(parameters)
            .map(|one| one["name"].as_str().expect("a name").to_owned())
            .collect();
        let texts = TEXTS.map(|(name, _)| name);
        let numbers = NUMBERS.map(|(name, _)| name);
        let known = [&texts[..], &numbers, &SWITCHES, &OTHERS, &OF_SERVER].concat();
        let known: BTreeSet<String> = known.into_iter().map(str::to_owned).collect();
        assert_eq!(known, used);
    }
}
