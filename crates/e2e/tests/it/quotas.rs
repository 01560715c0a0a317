//! Limits of domains on what their nodes store.

use std::fs;
use std::path::Path;

use e2e::harness::api::Caller;
use serde_json::{Value, json};

use crate::api::{Provider, fields};
use crate::at_work::enrol_in;
use crate::scene::{file_name, plant_files};

#[track_caller]
fn stored(caller: &Caller) -> (u64, u64) {
    let domain = caller.get("/v1/domains/LAB").expect(200).json();
    let number = |name: &str| domain["stored"][name].as_u64().unwrap();
    (number("objects"), number("bytes"))
}

#[track_caller]
fn limit(service: &Provider, objects: Value, bytes: Value) {
    let limits = json!({ "objects": objects, "bytes": bytes, "warning_percent": 80 });
    service.root.patch("/v1/domains/LAB", &json!({ "limits": limits })).expect(200);
}

fn write(tree: &Path, name: &str, bytes: usize) {
    fs::write(tree.join(name), vec![7; bytes]).unwrap();
}

#[test]
fn a_domain_stores_up_to_its_limits() {
    let mut service = Provider::new();
    let (anna, bert) = (service.tenant("LAB"), service.tenant("LAW"));
    let node = enrol_in(&service, &service.root, "web-1", "LAB");
    let tree = service.scratch.folder("tree");
    plant_files(&tree, 60, 5_000, 7);
    node.backup(&tree, &[]).expect(&[0]);
    let (objects, bytes) = stored(&anna);
    assert!(objects > 60 && bytes >= 300_000, "{objects} objects, {bytes} bytes");
    // A copy of the first tree takes no space, but it counts: nobody learns what is known already.
    limit(&service, Value::Null, json!(bytes + 10_000));
    fs::copy(tree.join(file_name(7)), tree.join("copy-1")).unwrap();
    node.backup(&tree, &[]).expect(&[0]);
    write(&tree, "large", 20_000);
    let refused = node.backup(&tree, &[]);
    assert_ne!(refused.code(), 0, "{refused}");
    for words in ["domain LAB may store", "bytes", "ask for a higher limit"] {
        assert!(refused.stderr.contains(words), "{words}: {refused}");
    }
    let archive = ["archive", tree.to_str().unwrap()];
    let refused = node.run(&archive);
    assert_ne!(refused.code(), 0, "{refused}");
    assert!(refused.stderr.contains("domain LAB may store"), "{refused}");
    let risks = anna.get("/v1/risks").expect(200).json();
    assert!(fields(&risks, "kind").contains(&"domain-full".to_owned()), "{risks}");
    assert_eq!(fields(&bert.get("/v1/risks").expect(200).json(), "object"), [""; 0]);
    bert.get("/v1/domains/LAB").expect(404);
    let before = stored(&anna);
    service.server.restart();
    assert_eq!(stored(&anna), before, "the amounts are those of before the start");
    let metrics = String::from_utf8(service.root.get("/metrics").expect(200).body).unwrap();
    let line = format!("holdfast_domain_stored_bytes{{domain=\"LAB\"}} {}", before.1);
    assert!(metrics.contains(&line), "{metrics}");
    let domain = service.server.admin(&["domain", "set", "LAB", "--bytes", "nolimit"]);
    assert_eq!((&domain["bytes"], &domain["bytes_max"]), (&before.1.into(), &Value::Null));
    node.backup(&tree, &[]).expect(&[0]);
    assert_eq!(stored(&anna).1, before.1 + 20_000);
    service.root.delete("/v1/nodes/web-1?with_data=true").expect(204);
    assert_eq!(stored(&anna), (0, 0));
}

#[test]
fn what_expires_makes_room() {
    let service = Provider::new();
    let anna = service.tenant("LAB");
    let node = enrol_in(&service, &service.root, "web-1", "LAB");
    let tree = service.scratch.folder("tree");
    write(&tree, "a", 1_000);
    node.backup(&tree, &[]).expect(&[0]);
    let (objects, bytes) = stored(&anna);
    write(&tree, "a", 2_000);
    node.backup(&tree, &[]).expect(&[0]);
    assert_eq!(stored(&anna).1, bytes + 2_000, "old versions count");
    limit(&service, json!(stored(&anna).0), Value::Null);
    write(&tree, "b", 1);
    assert_ne!(node.backup(&tree, &[]).code(), 0);
    // A deletion at the node leaves an old version, and is admitted.
    fs::remove_file(tree.join("b")).unwrap();
    fs::remove_file(tree.join("a")).unwrap();
    node.backup(&tree, &[]).expect(&[0]);
    let keep = json!({
        "versions_existing_max": "1", "versions_deleted_max": "0", "only_days": "0",
    });
    let class = json!({ "put_class": { "name": "STANDARD", "backup": keep } });
    anna.patch("/v1/domains/LAB/policy/draft", &class).expect(200);
    anna.post("/v1/domains/LAB/policy/activation", &json!({ "confirm": true }))
        .expect(200);
    service.server.admin(&["expire"]);
    let after = stored(&anna);
    assert!(after.0 < objects && after.1 < bytes, "{after:?}");
    write(&tree, "c", 10);
    node.backup(&tree, &[]).expect(&[0]);
}
