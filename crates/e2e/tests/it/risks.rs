//! Risks, as requests see them.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use e2e::clock;
use e2e::harness::Node;
use e2e::harness::api::Caller;
use serde_json::{Value, json};

use crate::api::{Provider, fields};
use crate::at_work::enrol_in;
use crate::damage::{find_stored, flip};
use crate::scene::{file_name, plant_files};

const LOOKS_MAX: u32 = 1200;

/// Starts the server again, which then looks each second, and takes every certificate for one that
/// ends soon.
pub(crate) fn watch_certificates(service: &mut Provider) {
    let config = service.server.dir().join("server.toml");
    let text = fs::read_to_string(&config).unwrap();
    let section = "\n[alerts]\nlook_secs = 1\ncertificate_days = 11000\n";
    fs::write(&config, text + section).unwrap();
    service.server.restart();
}

/// Waits until `is_so` holds of the answer at a path, and returns it.
#[track_caller]
pub(crate) fn wait_for(caller: &Caller, path: &str, is_so: impl Fn(&Value) -> bool) -> Value {
    let mut answer = Value::Null;
    for _ in 0..LOOKS_MAX {
        answer = caller.get(path).expect(200).json();
        if is_so(&answer) {
            return answer;
        }
        clock::pause(Duration::from_millis(100));
    }
    panic!("{path}: {answer}");
}

/// Makes a domain with a node that has a backup, and returns its administrator.
pub(crate) fn tenant(service: &Provider, domain: &str) -> Caller {
    let caller = service.tenant(domain);
    let name = format!("node-of-{domain}");
    let node = enrol_in(service, &caller, &name, domain);
    let tree = service.scratch.folder(&format!("tree of {domain}"));
    plant_files(&tree, 20, 5_000, 7);
    node.backup(&tree, &[]).expect(&[0]);
    caller
}

/// Two owners of nodes. Data of the first node is damaged.
struct Owners {
    service: Provider,
    eve: Caller,
    bert: Caller,
    /// The node of the first owner, and its tree.
    node: Node,
    tree: PathBuf,
}

impl Owners {
    /// Returns `None` if the packs do not lie in folders.
    fn new() -> Option<Self> {
        if !e2e::harness::is_in_folders() {
            return None;
        }
        let mut service = Provider::new();
        service.tenant("LAB");
        let [eve, bert] = ["eve", "bert"].map(|login| service.person(login, &["owner@LAB"]));
        let back_up = |owner: &Caller, name: &str, seed| {
            let node = enrol_in(&service, owner, name, "LAB");
            let tree = service.scratch.folder(&format!("tree of {name}"));
            plant_files(&tree, 3, 900_000, seed);
            node.backup(&tree, &[]).expect(&[0]);
            (node, tree)
        };
        let (node, tree) = back_up(&eve, "eve-1", 1);
        back_up(&bert, "bert-1", 2);
        service.server.terminate().expect(&[0]);
        let damaged = fs::read(tree.join(file_name(0))).unwrap();
        let (pack, offset) = find_stored(service.server.dir(), &damaged);
        flip(&pack, offset, 16);
        let config = service.server.dir().join("server.toml");
        let text = fs::read_to_string(&config).unwrap();
        fs::write(&config, text + "\n[alerts]\nlook_secs = 1\n").unwrap();
        service.server.restart();
        Some(Self { service, eve, bert, node, tree })
    }

    /// Waits until the first owner is told of the damage. The second one is told nothing.
    #[track_caller]
    fn first_is_told(&self) {
        let path = "/v1/alerts?state=open";
        let are_told = |count: usize| {
            move |alerts: &Value| fields(alerts, "kind") == vec!["damaged-data"; count]
        };
        let told = wait_for(&self.eve, path, are_told(1));
        assert_eq!(fields(&told, "node"), ["eve-1"]);
        let text = told["items"][0]["text"].as_str().unwrap();
        assert!(text.contains("of node eve-1 cannot be restored"), "{text}");
        assert_eq!(self.bert.get(path).expect(200).json()["items"], json!([]));
        let of_all = wait_for(&self.service.root, path, are_told(2));
        let texts = fields(&of_all, "text").join("\n");
        assert!(texts.contains("1 pack has damaged data"), "{texts}");
    }
}

/// The owner of a node hears how much of it is damaged, and nothing about the nodes of others.
#[test]
fn an_owner_is_told_of_damage_to_the_own_data_only() {
    let Some(owners) = Owners::new() else { return };
    owners.service.server.try_admin(&["audit", "--data"]).expect(&[4]);
    owners.first_is_told();
}

/// The owner heard of damage that a restore had met only after the next audit.
#[test]
fn an_owner_is_told_of_damage_that_a_restore_has_met() {
    let Some(owners) = Owners::new() else { return };
    let out = owners.service.scratch.folder("out");
    owners.node.restore(&owners.tree, &out, &[]).expect(&[4]);
    owners.first_is_told();
}

#[test]
fn alerts_are_risks_of_those_who_may_see_them() {
    let mut service = Provider::new();
    let lab = tenant(&service, "LAB");
    tenant(&service, "CLINIC");
    let stranger = service.person("owner-of-nothing", &[]);
    watch_certificates(&mut service);
    let has_all = |risks: &Value| fields(risks, "kind").len() >= 3;
    let all = wait_for(&service.root, "/v1/risks", has_all);
    assert!(fields(&all, "kind").contains(&"server-certificate".to_owned()), "{all}");
    assert_eq!((&all["nodes"], &all["nodes_at_risk"]), (&json!(2), &json!(2)));
    let own = lab.get("/v1/risks").expect(200).json();
    assert_eq!(fields(&own, "kind"), ["node-certificate"], "{own}");
    assert_eq!(fields(&own, "node"), ["node-of-LAB"]);
    assert_eq!((&own["nodes"], &own["nodes_at_risk"]), (&json!(1), &json!(1)));
    let alerts = lab.get("/v1/alerts").expect(200).json();
    assert_eq!(own["items"][0]["alert"], alerts["items"][0]["number"]);
    let number = |caller: &Caller| {
        let alerts = caller.get("/v1/alerts").expect(200).json();
        alerts["items"][0]["number"].as_u64().unwrap()
    };
    let (of_lab, of_root) = (number(&lab), number(&service.root));
    assert!(of_root < 1_000_000 && of_lab > 1_000_000, "{of_lab} tells of the alerts of others");
    let nothing = stranger.get("/v1/risks").expect(200).json();
    assert_eq!(nothing, json!({ "nodes": 0, "nodes_at_risk": 0, "items": [] }));
}

#[test]
fn a_domain_near_a_limit_is_an_alert_of_those_who_administer_it() {
    let mut service = Provider::new();
    let (lab, law) = (tenant(&service, "LAB"), service.tenant("LAW"));
    let limit = |nodes: u64| json!({ "limits": { "nodes": nodes } });
    service.root.patch("/v1/domains/LAB", &limit(1)).expect(200);
    watch_certificates(&mut service);
    let is_full = |list: &Value| fields(list, "kind").contains(&"domain-full".to_owned());
    let open = "/v1/alerts?state=open";
    let alerts = wait_for(&lab, open, is_full);
    let is_alert = |one: &&Value| one["kind"] == "domain-full";
    let alert = alerts["items"].as_array().unwrap().iter().find(is_alert).unwrap();
    assert_eq!((&alert["object"], &alert["domain"]), (&json!("LAB"), &json!("LAB")), "{alert}");
    assert!(alert["text"].as_str().unwrap().contains("has 1 of 1 node"), "{alert}");
    let risks = fields(&lab.get("/v1/risks").expect(200).json(), "kind");
    assert_eq!(risks.iter().filter(|kind| *kind == "domain-full").count(), 1, "{risks:?}");
    assert_eq!(law.get("/v1/alerts").expect(200).json()["items"], json!([]));
    let metrics = String::from_utf8(service.root.get("/metrics").expect(200).body).unwrap();
    assert!(metrics.contains("holdfast_alerts_open{kind=\"domain-full\"} 1\n"), "{metrics}");
    service.root.patch("/v1/domains/LAB", &limit(10)).expect(200);
    wait_for(&lab, open, |list| !is_full(list));
}
