//! Lists of several pages, addresses with wrong values, and the page by the keyboard.

use std::fs;

use serde_json::json;

use super::Stage;

/// Number of nodes: six pages.
const NODES: usize = 260;
/// Number of files in a folder: five pages.
const FILES: usize = 500;

#[test]
fn lists_are_turned_sorted_and_exported_and_the_address_leads_back() {
    let Some(stage) = Stage::new(1) else { return };
    let many = stage.tree.join("many");
    fs::create_dir(&many).unwrap();
    for number in 1..=FILES {
        fs::write(many.join(format!("file-{number:04}")), format!("content {number}")).unwrap();
    }
    stage.nodes[0].backup(&stage.tree, &[]).expect(&[0]);
    for number in 1..NODES {
        let description = if number % 2 == 0 { "even" } else { "odd" };
        let node = json!({ "name": format!("fleet-{number:03}"), "description": description });
        stage.root.post("/v1/nodes", &node).expect(201);
    }
    let (filespace, inside) = stage.place();
    let facts = json!({
        "nodes": NODES, "odd": NODES / 2, "files": FILES,
        "filespace": filespace, "inside": inside,
    });
    stage.play("lists", facts);
}

#[test]
fn wrong_addresses_are_answered_in_words() {
    let Some(stage) = Stage::new(1) else { return };
    stage.person("theo", &["tenant@STANDARD"]);
    stage.play("addresses", json!({ "tenant": "theo" }));
}

#[test]
fn dialogs_hold_the_focus_and_give_it_back() {
    let Some(stage) = Stage::new(1) else { return };
    stage.play("keyboard", json!({}));
    assert_eq!(stage.root.get("/v1/nodes/web-1").expect(200).json()["locked"], true);
}
