//! Parameters of paths and queries with wrong values: which one it is, and what it should be.

use axum::extract::path::ErrorKind;
use axum::extract::rejection::{PathRejection, QueryRejection};
use schemars::{JsonSchema, SchemaGenerator};
use serde_json::Value;

use crate::problem::Problem;

/// Returns the problem of a query that is not as `Q` has it.
pub(crate) fn wrong_query<Q: JsonSchema>(rejection: &QueryRejection) -> Problem {
    let text = rejection.body_text();
    // The framework says where the error is, then the name of the parameter if there is one, and
    // then what is wrong.
    let text = text.split_once(": ").map_or(text.as_str(), |(_, rest)| rest);
    let named = text.split_once(": ");
    if let Some((name, error)) = named
        && let Some(schema) = schema::<Q>(name)
    {
        return wrong(name, &schema, error);
    }
    let text = match named {
        Some((_, error)) if error.starts_with("unknown field") => error,
        _ => text,
    };
    let text = text
        .replace("unknown field", "unknown parameter")
        .replace("missing field", "missing parameter")
        .replace("duplicate field", "the same parameter twice:");
    Problem::invalid(format!("the query is wrong: {text}"))
}

/// Returns the problem of a path whose parameters are not as `P` has them.
pub(crate) fn wrong_path<P: JsonSchema>(rejection: &PathRejection) -> Problem {
    let kind = match rejection {
        PathRejection::FailedToDeserializePathParams(failure) => Some(failure.kind()),
        _ => None,
    };
    let (name, error) = match kind {
        Some(ErrorKind::ParseErrorAtKey { key, .. }) => (key, "it cannot be read"),
        Some(ErrorKind::InvalidUtf8InPathParam { key }) => (key, "it is not UTF-8"),
        Some(ErrorKind::DeserializeError { key, message, .. }) => (key, message.as_str()),
        _ => return Problem::invalid("the path is wrong: its parts cannot be read"),
    };
    wrong(name, &schema::<P>(name).unwrap_or_default(), error)
}

/// Returns the schema of a parameter, if there is such a parameter.
fn schema<T: JsonSchema>(name: &str) -> Option<Value> {
    let schema = SchemaGenerator::default().into_root_schema_for::<T>();
    schema.as_value()["properties"].get(name).cloned()
}

fn wrong(name: &str, schema: &Value, error: &str) -> Problem {
    let expected = expected(schema);
    let text = match &expected {
        Some(expected) => format!("the parameter '{name}' must be {expected}"),
        None => format!("the parameter '{name}' is wrong: {error}"),
    };
    let meaning = schema["description"].as_str().unwrap_or_default();
    Problem::invalid(match meaning {
        "" => text,
        meaning => format!("{text} ({})", meaning.trim_end_matches('.')),
    })
}

/// Returns what a number or a truth value should be; `None` for others, whose errors say it.
fn expected(schema: &Value) -> Option<String> {
    let is_of = |kind: &str| match &schema["type"] {
        Value::String(one) => one == kind,
        Value::Array(all) => all.iter().any(|one| one == kind),
        _ => false,
    };
    if is_of("boolean") {
        return Some("true or false".to_owned());
    }
    let max = match schema["format"].as_str().unwrap_or_default() {
        "uint8" => u64::from(u8::MAX),
        "uint16" => u64::from(u16::MAX),
        "uint32" => u64::from(u32::MAX),
        "uint64" => u64::MAX,
        _ => return is_of("integer").then(|| "a whole number".to_owned()),
    };
    Some(format!("a whole number from 0 to {max}"))
}

#[cfg(test)]
mod tests {
    use axum::extract::Query;
    use axum::http::Uri;
    use serde::Deserialize;

    use super::*;
    use crate::fields::Time;

    #[derive(Debug, Deserialize, JsonSchema)]
    #[serde(deny_unknown_fields)]
    #[expect(dead_code, reason = "only the errors are looked at")]
    struct AskedQuery {
        /// Maximum number of items: 1 to 1000.
        limit: Option<u32>,
        deep: Option<bool>,
        from: Option<Time>,
        path: String,
    }

    #[track_caller]
    fn check(query: &str, expected: &str) {
        let uri: Uri = format!("/?{query}").parse().expect("is an address");
        let rejection = Query::<AskedQuery>::try_from_uri(&uri).expect_err("is wrong");
        assert_eq!(wrong_query::<AskedQuery>(&rejection).detail, expected);
    }

    #[test]
    fn a_problem_names_the_parameter_and_what_it_should_be() {
        let limit = "the parameter 'limit' must be a whole number from 0 to 4294967295 (Maximum \
                     number of items: 1 to 1000)";
        for query in ["path=/&limit=many", "path=/&limit=-1", "path=/&limit="] {
            check(query, limit);
        }
        check("path=/&deep=yes", "the parameter 'deep' must be true or false");
        check(
            "path=/&from=yesterday",
            "the parameter 'from' is wrong: a time has the form of RFC 3339, as in \
             2026-11-20T18:00:00Z",
        );
        check("", "the query is wrong: missing parameter `path`");
        let unknown = "the query is wrong: unknown parameter `colour`, expected one of `limit`, \
                       `deep`, `from`, `path`";
        check("path=/&colour=red", unknown);
    }
}
