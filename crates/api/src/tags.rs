//! Tags of documents (ETag), by which a caller changes only what it has seen.

use axum::http::{HeaderMap, HeaderValue, header};
use data_encoding::HEXLOWER;
use serde_json::{Map, Value};

use crate::problem::{Kind, Problem};

/// Length of a tag in bytes: enough that no two states of an object have one tag.
const TAG_BYTES: usize = 16;

/// Returns the tag of a document. Values of the fields in `volatile` change by themselves: they
/// count when a caller asks whether its copy is current, and not when it changes the object.
///
/// ```text
///   "DIGEST"            of a document without volatile fields
///   "STABLE-DIGEST"     of others
/// ```
pub(crate) fn tag(document: &[u8], volatile: &[&str]) -> HeaderValue {
    let whole = digest(document);
    let text = match stable(document, volatile) {
        Some(stable) => format!("\"{}-{whole}\"", digest(&stable)),
        None => format!("\"{whole}\""),
    };
    HeaderValue::from_str(&text).expect("digits are text")
}

fn digest(bytes: &[u8]) -> String {
    HEXLOWER.encode(&blake3::hash(bytes).as_bytes()[..TAG_BYTES])
}

/// Returns the document without its volatile fields; `None` if it has none.
fn stable(document: &[u8], volatile: &[&str]) -> Option<Vec<u8>> {
    if volatile.is_empty() {
        return None;
    }
    let mut fields: Map<String, Value> = serde_json::from_slice(document).ok()?;
    fields.retain(|name, _| !volatile.contains(&name.as_str()));
    serde_json::to_vec(&fields).ok()
}

/// Returns true if the caller has the document with this tag already.
pub(crate) fn is_known(headers: &HeaderMap, tag: &HeaderValue) -> bool {
    names(headers, header::IF_NONE_MATCH, |one| one == text(tag))
}

/// Fails if the caller wants to change a document with another tag.
pub(crate) fn check(headers: &HeaderMap, tag: &HeaderValue) -> Result<(), Problem> {
    let is_same = |one: &str| of_change(one) == of_change(text(tag));
    if !headers.contains_key(header::IF_MATCH) || names(headers, header::IF_MATCH, is_same) {
        return Ok(());
    }
    let text = "somebody has changed the object since you read it; read it again";
    Err(Problem::new(Kind::Changed, text))
}

/// Returns the part of a tag that counts for changes.
fn of_change(tag: &str) -> &str {
    let tag = tag.trim_matches('"');
    tag.split_once('-').map_or(tag, |(stable, _)| stable)
}

fn text(tag: &HeaderValue) -> &str {
    tag.to_str().expect("a tag is text")
}

fn names(headers: &HeaderMap, header: header::HeaderName, is: impl Fn(&str) -> bool) -> bool {
    let lists = headers.get_all(header).iter().filter_map(|value| value.to_str().ok());
    lists
        .flat_map(|list| list.split(','))
        .map(str::trim)
        .any(|one| one == "*" || is(one.strip_prefix("W/").unwrap_or(one)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_needs_the_tag_of_what_it_changes() {
        let own = tag(b"document", &[]);
        let with = |value: &str| {
            let value = HeaderValue::from_str(value).expect("is text");
            HeaderMap::from_iter([(header::IF_MATCH, value)])
        };
        let text = own.to_str().expect("is text");
        assert_eq!(check(&HeaderMap::new(), &own), Ok(()));
        assert_eq!(check(&with(text), &own), Ok(()));
        assert_eq!(check(&with("*"), &own), Ok(()));
        assert_eq!(check(&with(&format!("\"x\", {text}")), &own), Ok(()));
        assert_eq!(check(&with("\"x\""), &own).map_err(|problem| problem.kind), Err(Kind::Changed));
    }

    #[test]
    fn what_changes_by_itself_is_no_change_by_somebody() {
        let tag = |document: &str| tag(document.as_bytes(), &["seen"]);
        let read = tag(r#"{"name":"a","seen":1}"#);
        let later = tag(r#"{"name":"a","seen":2}"#);
        let changed = tag(r#"{"name":"b","seen":1}"#);
        let with = |header: header::HeaderName| HeaderMap::from_iter([(header, read.clone())]);
        let careful = with(header::IF_MATCH);
        assert_eq!([check(&careful, &read), check(&careful, &later)], [Ok(()), Ok(())]);
        assert!(check(&careful, &changed).is_err());
        let known = with(header::IF_NONE_MATCH);
        assert!(is_known(&known, &read) && !is_known(&known, &later));
    }
}
