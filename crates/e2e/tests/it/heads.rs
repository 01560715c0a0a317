//! HEAD: what GET would answer, without the bytes, and without what reading them does.

use std::fs;

use e2e::harness::api::{Answer, Caller};

use crate::api::{Provider, fields};
use crate::at_work::enrol;

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

#[test]
fn the_head_of_a_download_downloads_nothing() {
    let service = Provider::new();
    let tree = service.scratch.folder("tree");
    fs::write(tree.join("a"), b"12345").unwrap();
    let node = enrol(&service, "web-1");
    node.backup(&tree, &[]).expect(&[0]);
    let spaces = service.root.get("/v1/nodes/web-1/filespaces").expect(200).json();
    let space = spaces["items"][0]["name"].as_str().unwrap().to_owned();
    let query = |path: &str| format!("?filespace={space}&path={path}");
    let folder = tree.to_str().unwrap().strip_prefix(space.trim_end_matches('/')).unwrap();
    let file = format!("/v1/nodes/web-1/content{}", query(&format!("{folder}/a")));
    let of_file = head(&service.root, &file).expect(200);
    assert_eq!(of_file.header("content-length"), Some("5"));
    for form in ["tree", "zip"] {
        let path = format!("/v1/nodes/web-1/{form}{}", query(folder));
        let of_tree = head(&service.root, &path).expect(200);
        assert_eq!(of_tree.header("content-length"), None, "{form}");
        assert!(of_tree.header("content-disposition").is_some(), "{form}");
    }
    let downloads = || {
        let log = service.root.get("/v1/log?kind=downloaded").expect(200).json();
        fields(&log, "what")
    };
    assert_eq!(downloads(), [""; 0]);
    assert_eq!(service.root.get(&file).expect(200).body, b"12345");
    assert_eq!(downloads(), ["file downloaded"]);
}
