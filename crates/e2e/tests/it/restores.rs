//! The REST API on restores: at the node by its agent, and as archives to download.

use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use crate::api::{Provider, fields};
use crate::at_work::{enrol, follow, until};
use crate::scene::{manifest, plant_files};

/// Returns the name of the node's filespace, and the path of `tree` in it.
#[track_caller]
fn place(service: &Provider, tree: &Path) -> (String, String) {
    let spaces = service.root.get("/v1/nodes/web-1/filespaces").expect(200).json();
    let space = spaces["items"][0]["name"].as_str().unwrap().to_owned();
    let path = tree.to_str().unwrap();
    let inside = match space.as_str() {
        "/" => path.to_owned(),
        space => path.strip_prefix(space).unwrap().to_owned(),
    };
    (space, inside)
}

/// The page read the versions of a whole directory to show those of one file, and gave up in a
/// large one.
#[test]
fn the_versions_of_one_object_are_listed_by_its_name() {
    let service = Provider::new();
    let node = enrol(&service, "web-1");
    let tree = service.scratch.folder("tree");
    for content in ["first", "the second"] {
        for name in ["a", "b"] {
            fs::write(tree.join(name), content).unwrap();
        }
        node.backup(&tree, &[]).expect(&[0]);
    }
    let (space, inside) = place(&service, &tree);
    let address =
        |more: &str| format!("/v1/nodes/web-1/versions?filespace={space}&path={inside}{more}");
    let list = |more: &str| fields(&service.root.get(&address(more)).expect(200).json(), "path");
    let path = |name: &str| format!("{inside}/{name}");
    assert_eq!(list("&name=b&all=true"), [path("b"), path("b")]);
    assert_eq!(list("&name=b"), [path("b")]);
    assert_eq!(list("&name=base64:Yg=="), [path("b")]);
    assert_eq!(list("&all=true").len(), 4);
    assert_eq!(list("&name=c"), [""; 0]);
    for wrong in ["a/b", "..", "", "base64:*"] {
        service.root.get(&address(&format!("&name={wrong}"))).expect(400);
    }
}

#[test]
fn files_are_restored_at_their_node_by_a_request() {
    let service = Provider::new();
    let node = enrol(&service, "web-1");
    let tree = service.scratch.folder("tree");
    plant_files(&tree, 20, 5_000, 7);
    node.backup(&tree, &[]).expect(&[0]);
    let between = jiff::Timestamp::from_microsecond(sys::clock::now().0).unwrap();
    let before = manifest(&tree);
    fs::remove_dir_all(tree.join("folder-00")).unwrap();
    node.backup(&tree, &["--confirm"]).expect(&[0]);
    let agent = node.spawn_agent();
    let (space, inside) = place(&service, &tree);
    let order = json!({ "node": "web-1", "filespace": space, "paths": [inside], "at": between });
    let made = service.root.post("/v1/restores", &order).expect(201).json();
    assert_eq!(made["paths"], json!([tree.to_str().unwrap()]));
    assert_eq!(made["event"]["work"], "restore");
    let number = made["event"]["number"].as_u64().unwrap();
    let last = follow(&service.root, number).pop().unwrap();
    assert_eq!(last["state"], "completed", "{last}");
    assert_eq!(manifest(&tree).len(), before.len());
    let other = service.scratch.folder("other");
    let mut order = order;
    order["to"] = json!(other.to_str().unwrap());
    let made = service.root.post("/v1/restores", &order).expect(201).json();
    let last = follow(&service.root, made["event"]["number"].as_u64().unwrap()).pop().unwrap();
    assert!(last["report"]["restored"].as_u64() > Some(20), "{last}");
    let listed = service.root.get("/v1/restores?node=web-1").expect(200).json();
    let numbers: Vec<&Value> = listed["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| &one["event"]["number"])
        .collect();
    assert_eq!(numbers, [&made["event"]["number"], &json!(number)], "the last comes first");
    let operator = service.person("operator", &["operator"]);
    operator.post("/v1/restores", &order).expect(403);
    operator.get("/v1/restores").expect(200);
    let tenant = service.tenant("LAB");
    tenant.post("/v1/restores", &order).expect(404);
    assert_eq!(tenant.get("/v1/restores").expect(200).json()["items"], json!([]));
    for paths in [json!([]), json!(["etc"]), json!(["/../etc"])] {
        order["paths"] = paths;
        service.root.post("/v1/restores", &order).expect(400);
    }
    drop(agent.kill9());
}

#[test]
fn a_tree_comes_as_a_zip_that_keeps_all_names() {
    let service = Provider::new();
    let node = enrol(&service, "web-1");
    let tree = service.scratch.folder("tree");
    plant_files(&tree, 20, 50_000, 7);
    let odd = std::ffi::OsStr::from_bytes(b"odd-\xff\xfe");
    fs::write(tree.join(odd), b"odd").unwrap();
    fs::write(tree.join("r\u{e9}sum\u{e9}"), b"plain").unwrap();
    std::os::unix::fs::symlink("folder-00", tree.join("link")).unwrap();
    node.backup(&tree, &[]).expect(&[0]);
    let (space, inside) = place(&service, &tree);
    let query = format!("filespace={space}&path={inside}");
    let zip = service.root.get(&format!("/v1/nodes/web-1/zip?{query}")).expect(200);
    assert_eq!(zip.header("content-type"), Some("application/zip"));
    let (packed, out) = (service.scratch.join("tree.zip"), service.scratch.folder("out"));
    fs::write(&packed, &zip.body).unwrap();
    // The list of names as Python reads it: bytes of names that are not UTF-8 are those of CP437.
    let unpack = r#"
import os, stat, sys, zipfile
archive = zipfile.ZipFile(sys.argv[1])
assert archive.testzip() is None
for info in archive.infolist():
    is_utf8 = info.flag_bits & 0x800
    name = os.fsencode(info.filename) if is_utf8 else info.filename.encode("cp437")
    path = os.path.join(os.fsencode(sys.argv[2]), name)
    mode = info.external_attr >> 16
    if stat.S_ISDIR(mode):
        os.makedirs(path, exist_ok=True)
    elif stat.S_ISLNK(mode):
        os.symlink(archive.read(info), path)
    else:
        with open(path, "wb") as file:
            file.write(archive.read(info))
"#;
    let done = Command::new("python3").args(["-c", unpack]).arg(&packed).arg(&out).status();
    assert!(done.unwrap().success());
    assert_eq!(manifest(&out).len(), manifest(&tree).len());
    for name in [odd, std::ffi::OsStr::new("r\u{e9}sum\u{e9}")] {
        assert_eq!(fs::read(out.join(name)).unwrap(), fs::read(tree.join(name)).unwrap());
    }
    let name = crate::scene::file_name(7);
    assert!(fs::read(out.join(&name)).unwrap() == fs::read(tree.join(&name)).unwrap());
    assert_eq!(fs::read_link(out.join("link")).unwrap(), Path::new("folder-00"));
    service.root.get("/v1/nodes/web-1/zip?filespace=/none").expect(404);
}

#[test]
fn a_draft_shows_what_would_expire() {
    let service = Provider::new();
    let node = enrol(&service, "web-1");
    let tree = service.scratch.folder("tree");
    plant_files(&tree, 5, 1_000, 7);
    let file = tree.join("changing");
    for round in 0..5 {
        fs::write(&file, vec![b'x'; 1_000 + round]).unwrap();
        node.backup(&tree, &[]).expect(&[0]);
    }
    let path = "/v1/domains/STANDARD/policy/simulation";
    service.root.get(path).expect(409);
    let class = json!({ "put_class": { "name": "STANDARD", "backup":
        { "versions_existing_max": "1", "versions_deleted_max": "1" } } });
    service.root.patch("/v1/domains/STANDARD/policy/draft", &class).expect(200);
    let shown = service.root.get(path).expect(200).json();
    assert_eq!((&shown["is_complete"], &shown["nodes_counted"]), (&json!(true), &json!(1)));
    let expired = shown["expired"].as_u64().unwrap();
    assert!(expired >= 4, "{shown}");
    assert!(shown["expired_bytes"].as_u64().unwrap() >= 4_000, "{shown}");
    assert_eq!(fields(&json!({ "items": shown["by_class"] }), "name"), ["STANDARD"]);
    assert_eq!(shown["by_node"][0]["expired"], expired);
    service.root.get(&format!("{path}?seconds=0")).expect(400);
    let customer = json!([{ "role": "owner", "domain": "STANDARD" }]);
    service
        .root
        .post("/v1/users", &json!({ "login": "eve", "roles": customer }))
        .expect(201);
    service.key("eve", "full", &[]).get(path).expect(403);
    until("the versions are still there", || {
        let again = service.root.get(path).expect(200).json();
        (again["expired"] == expired).then_some(())
    });
}

#[test]
fn what_changes_by_itself_does_not_stand_in_the_way_of_a_change() {
    let service = Provider::new();
    let node = enrol(&service, "web-1");
    let tree = service.scratch.folder("tree");
    plant_files(&tree, 5, 1_000, 7);
    let read = service.root.get("/v1/nodes/web-1").expect(200);
    let tag = read.header("etag").unwrap().to_owned();
    node.backup(&tree, &[]).expect(&[0]);
    let known = service.root.with_headers(&[&format!("If-None-Match: {tag}")]);
    known.get("/v1/nodes/web-1").expect(200);
    let careful = service.root.with_headers(&[&format!("If-Match: {tag}")]);
    careful.patch("/v1/nodes/web-1", &json!({ "description": "first" })).expect(200);
    careful
        .patch("/v1/nodes/web-1", &json!({ "description": "second" }))
        .expect(412);
}

#[test]
fn a_change_that_is_refused_changes_nothing() {
    let service = Provider::new();
    for name in ["a", "b"] {
        service.root.post("/v1/nodes", &json!({ "name": name })).expect(201);
    }
    let before = service.root.get("/v1/nodes/a").expect(200).json();
    let refused = [
        json!({ "locked_by_service": true, "name": "b" }),
        json!({ "locked_by_service": true, "description": "x", "option_set": "none" }),
        json!({ "name": "c", "add_labels": ["web"], "domain": "NONE" }),
    ];
    for change in &refused {
        let status = service.root.patch("/v1/nodes/a", change).status;
        assert!((400..500).contains(&status), "{change}: {status}");
        assert_eq!(service.root.get("/v1/nodes/a").expect(200).json(), before, "{change}");
    }
    service.root.get("/v1/nodes/c").expect(404);
}

#[test]
fn a_full_domain_takes_no_node_by_any_way() {
    let service = Provider::new();
    let limits = json!({ "nodes": 1, "warning_percent": 80 });
    service
        .root
        .post("/v1/domains", &json!({ "name": "LAB", "limits": limits }))
        .expect(201);
    let new = |name: &str| json!({ "name": name, "domain": "LAB" });
    service.root.post("/v1/nodes", &new("a")).expect(201);
    service.root.post("/v1/nodes", &new("b")).expect(409);
    service
        .server
        .try_admin(&["node", "add", "b", "--domain", "LAB"])
        .says("no room for another node in the domain");
    service.root.post("/v1/nodes", &json!({ "name": "c" })).expect(201);
    service.root.patch("/v1/nodes/c", &json!({ "domain": "LAB" })).expect(409);
    service.root.post("/v1/nodes/a/rekey", &json!({})).expect(201);
}

#[test]
fn a_key_that_ends_makes_no_key_that_outlives_it() {
    let service = Provider::new();
    let ends = service.key("root", "full", &["--expires", "1d"]);
    let made = ends.post("/v1/keys", &json!({ "kind": "full" })).expect(201).json();
    let end = made["key"]["expires"].as_str().unwrap().to_owned();
    assert!(
        end < jiff::Timestamp::now()
            .checked_add(jiff::Span::new().hours(25))
            .unwrap()
            .to_string()
    );
    let later = json!({ "kind": "full", "expires": "2099-01-01T00:00:00Z" });
    ends.post("/v1/keys", &later).expect(400);
    service.root.post("/v1/keys", &later).expect(201);
}
