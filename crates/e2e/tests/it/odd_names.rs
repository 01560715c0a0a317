//! Names of files that are not UTF-8, in requests.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;

use serde_json::json;

use crate::api::Provider;
use crate::at_work::enrol;
use crate::risks::wait_for;
use crate::scene::names;

/// A filespace has the name of a mount point, which may be any bytes.
#[test]
fn a_filespace_is_removed_by_its_name_in_base64() {
    let service = Provider::new();
    let tree = service.scratch.folder("tree");
    fs::write(tree.join("file"), "content").unwrap();
    let node = enrol(&service, "web-1");
    let name_in_base64 = || {
        let listed = service.server.admin(&["filespace", "list", "web-1"]);
        let name = listed["name"].as_str().unwrap();
        format!("base64:{}", data_encoding::BASE64.encode(name.as_bytes()))
    };
    let odd = "base64:L21udC9jYWbp";
    for remove in ["request", "command"] {
        node.backup(&tree, &[]).expect(&[0]);
        let name = name_in_base64();
        if remove == "request" {
            let path = |name: &str| {
                let name = name.replace('+', "%2B");
                format!("/v1/nodes/web-1/filespaces?filespace={name}")
            };
            let absent = service.root.delete(&path(odd)).expect(404).json();
            assert!(absent["detail"].as_str().unwrap().contains(odd), "{absent}");
            service.root.delete(&path("base64:*")).expect(400);
            service.root.delete(&path(&name)).expect(204);
        } else {
            let server = &service.server;
            let absent = server.try_admin(&["filespace", "remove", "web-1", odd, "--confirm"]);
            absent.expect(&[12]).says(odd);
            let removed = server.admin(&["filespace", "remove", "web-1", &name, "--confirm"]);
            assert!(removed["filespace"].is_string(), "{removed}");
        }
        assert_eq!(service.server.admin(&["filespace", "list", "web-1"]), json!([]));
    }
}

/// A path in an address is text, and these names are none.
#[test]
fn names_of_any_bytes_are_listed_compared_downloaded_and_restored() {
    let service = Provider::new();
    let tree = service.scratch.folder("tree");
    let (folder, file) = (OsStr::from_bytes(b"caf\xe9"), OsStr::from_bytes(b"na\xefve"));
    fs::create_dir(tree.join(folder)).unwrap();
    fs::write(tree.join(folder).join(file), "content").unwrap();
    let node = enrol(&service, "web-1");
    let before = jiff::Timestamp::now();
    node.backup(&tree, &[]).expect(&[0]);
    let described = service.root.get("/v1/nodes/web-1").expect(200).json();
    let space = described["filespaces"][0]["name"].as_str().unwrap();
    let inside = tree.to_str().unwrap().strip_prefix(space.trim_end_matches('/')).unwrap();
    let base64 = |path: &[u8]| data_encoding::BASE64.encode(&[inside.as_bytes(), path].concat());
    let parameter = |path: &[u8]| format!("base64:{}", base64(path).replace('+', "%2B"));
    let get = |operation: &str, more: &str| {
        let path = format!("/v1/nodes/web-1/{operation}?filespace={space}&{more}");
        service.root.get(&path).expect(200)
    };
    let listed = get("versions", &format!("path={}", parameter(b""))).json();
    let encoded = |path: &[u8]| json!({ "bytes": base64(path) });
    assert_eq!(listed["items"][0]["path"], encoded(b"/caf\xe9"));
    let listed = get("versions", &format!("path={}", parameter(b"/caf\xe9"))).json();
    let path = encoded(b"/caf\xe9/na\xefve");
    assert_eq!(listed["items"][0]["path"], path);
    let query = format!("path={}&from={before}", parameter(b"/caf\xe9"));
    let differences = get("differences", &query).json();
    assert_eq!(differences["items"][0]["path"], path);
    let query = format!("path={}", parameter(b"/caf\xe9/na\xefve"));
    assert_eq!(get("content", &query).body, b"content");
    let query = format!("path={}", parameter(b"/caf\xe9"));
    for operation in ["tree", "zip"] {
        let archive = get(operation, &query).body;
        let has_name = archive.windows(5).any(|window| window == b"na\xefve");
        assert!(has_name, "{operation}: the name is in the archive as it is");
    }
    let log = service.root.get("/v1/log?node=web-1").expect(200).json();
    assert!(log.to_string().contains(r"caf\\xe9/na\\xefve"), "{log}");
    for (wrong, status) in [("base64:*", 400), ("base64:/w==", 400), ("base64:L/8=", 404)] {
        let path = format!("/v1/nodes/web-1/content?filespace={space}&path={wrong}");
        service.root.get(&path).expect(status);
    }
    let _agent = node.spawn_agent();
    let to = service.scratch.join("restored");
    let order = json!({ "node": "web-1", "filespace": space, "paths": [path], "to": to });
    let ordered = service.root.post("/v1/restores", &order).expect(201).json();
    let event = format!("/v1/events/{}", ordered["event"]["number"]);
    wait_for(&service.root, &event, |event| event["state"] == "completed");
    assert_eq!(names(&to), [b"na\xefve".to_vec()]);
    assert_eq!(fs::read(to.join(file)).unwrap(), b"content");
}
