//! HEAD: what GET would answer, without the bytes, and without what reading them does.

use e2e::harness::api::{Answer, Caller};

use crate::api::Provider;

/// Sends a request for the head of an answer.
#[track_caller]
fn head(caller: &Caller, path: &str) -> Answer {
    caller.with_options(&["--head"]).send("HEAD", path, None)
}

#[test]
fn the_head_of_a_document_has_its_tag() {
    let service = Provider::new();
    let path = "/v1/domains/STANDARD";
    let read = service.root.get(path).expect(200);
    let tag = read.header("etag").unwrap();
    assert_eq!(head(&service.root, path).expect(200).header("etag"), Some(tag));
    let known = service.root.with_headers(&[&format!("If-None-Match: {tag}")]);
    head(&known, path).expect(304);
}
