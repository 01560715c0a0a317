//! The examples in the document of operations: every one of them is run, in the order of a story,
//! against a server that has the objects which the examples name. Each has the status and the form
//! of answer that the document promises.

mod request;
mod stage;

use std::fs;
use std::time::Duration;

use client::Client;
use e2e::harness::{IdProvider, Keeper, Node, Process};
use serde_json::{Value, json};

use self::stage::Stage;
use crate::api::{current_code, take_second_factor};
use crate::at_work::{follow, until};
use crate::oidc;
use crate::scene::plant_files;
use crate::space::leases::Lease;
use crate::tape::tgt::{TAPES, Tgt};

#[test]
fn each_example_does_what_the_document_says() {
    let Some(mut stage) = Stage::new() else { return };
    people_and_domains(&mut stage);
    sign_ins(&mut stage);
    second_factors(&mut stage);
    sign_ins_at_a_provider(&mut stage);
    let node = nodes(&mut stage);
    policies(&mut stage);
    schedules_and_work(&mut stage);
    let (tree, folder) = backups(&mut stage, &node);
    stored_files(&mut stage);
    sessions(&mut stage, &node, &folder);
    libraries_and_volumes(&mut stage);
    pools_and_alerts(&mut stage);
    recall_queue(&mut stage, &node, &tree);
    reports(&mut stage);
    removals(&mut stage);
    approvals(&mut stage);
    stage.check_that_all_were_run();
}

fn people_and_domains(stage: &mut Stage) {
    let (root, stranger) = (stage.root(), stage.stranger());
    for id in ["health.live", "health.ready", "openapi.get"] {
        stage.run(id, &stranger);
    }
    for id in ["metrics.get", "servers.list", "platforms.list"] {
        stage.run(id, &root);
    }
    for id in ["domains.add", "domains.list", "domains.get", "domains.change"] {
        stage.run(id, &root);
    }
    for id in ["users.add", "users.list", "users.get", "users.change"] {
        stage.run(id, &root);
    }
    let full = stage.run_one("keys.add", "program", &root);
    stage.anna = stranger.with_key(full["token"].as_str().unwrap());
    let limited = stage.run_one("keys.add", "machines", &root);
    stage.replace("hf-3k7q2m9x4w8t5r6a", limited["key"]["id"].as_str().unwrap());
    stage.run("keys.list", &root);
}

fn sign_ins(stage: &mut Stage) {
    let signed_in = stage.run("sign-in.begin", &stage.stranger());
    let cookie = signed_in.header("set-cookie").unwrap().split(';').next().unwrap().to_owned();
    let guard = signed_in.json()["guard"].as_str().unwrap().to_owned();
    let headers = [format!("Cookie: {cookie}"), format!("X-Holdfast-Guard: {guard}")];
    let page = stage.stranger().with_headers(&headers.each_ref().map(String::as_str));
    for id in ["sign-in.get", "account.get", "account.sign-ins", "sign-in.end"] {
        stage.run(id, &page);
    }
}

fn second_factors(stage: &mut Stage) {
    let anna = stage.anna.clone();
    let begun = stage.run("account.begin-second-factor", &anna).json();
    let secret = begun["secret"].as_str().unwrap();
    stage.replace("JBSWY3DPEHPK3PXPJBSWY3DPEHPK3PXP", secret);
    stage.replace("492039", &current_code(secret, 0));
    stage.run("account.set-second-factor", &anna);
    // A code counts once, and that of the next half minute is good already.
    stage.replace("492039", &current_code(secret, 1));
    stage.run("account.remove-second-factor", &anna);
    stage.run("account.password", &anna);
}

/// Signs in a person with a second factor at a provider of OpenID Connect.
fn sign_ins_at_a_provider(stage: &mut Stage) {
    let folder = stage.service.scratch.join("provider");
    let Some(provider) = IdProvider::start(&folder, oidc::RETURN, json!({})) else {
        for id in ["ways", "begin-oidc", "complete-oidc", "give-code-oidc"] {
            stage.leave_out(&format!("sign-in.{id}"), None);
        }
        return;
    };
    stage.add_configuration(&oidc::section(&stage.service, &provider, ""));
    let (root, stranger) = (stage.root(), stage.stranger());
    stage.run("sign-in.ways", &stranger);
    let carl = stage.service.person("carl", &[]);
    let identities = json!([{ "issuer": provider.issuer(), "subject": "carl" }]);
    root.patch("/v1/users/carl", &json!({ "identities": identities })).expect(200);
    let (secret, _) = take_second_factor(&carl);
    let begun = stage.run("sign-in.begin-oidc", &stranger);
    let browser = oidc::with_cookie(&stranger, &begun, oidc::COOKIE);
    let back = provider.sign_in(begun.json()["url"].as_str().unwrap(), "carl");
    stage.replace("SplxlOBeZQQYbYS6WxSbIA", &back.code);
    stage.replace("af0ifjsldkj", &back.state);
    let half = stage.run("sign-in.complete-oidc", &browser);
    let browser = oidc::with_cookie(&stranger, &half, oidc::COOKIE);
    stage.replace("492039", &current_code(&secret, 1));
    stage.run("sign-in.give-code-oidc", &browser);
}

/// Registers the nodes, and gives them to machines. Returns the node of the examples.
fn nodes(stage: &mut Stage) -> Node {
    let root = stage.root();
    stage.run("nodes.add", &root);
    let other = json!({ "name": "web-2", "domain": "LAB" });
    root.post("/v1/nodes", &other).expect(201);
    stage.run("option-sets.add", &root);
    root.patch("/v1/nodes/web-2", &json!({ "option_set": "linux" })).expect(200);
    for id in ["nodes.change", "nodes.list", "nodes.get", "applications.list"] {
        stage.run(id, &root);
    }
    let sets = ["list", "get", "change", "end-stage", "versions"];
    for id in sets {
        stage.run(&format!("option-sets.{id}"), &root);
    }
    for id in ["nodes.settings", "nodes.policies", "nodes.rekey", "nodes.config"] {
        stage.run(id, &root);
    }
    for id in ["enrolment-keys.add", "enrolment-keys.list"] {
        stage.run(id, &root);
    }
    let again = root.post("/v1/nodes/web-1/rekey", &json!({})).expect(201).json();
    Node::enrol_with(&stage.service.server, "web-1", again["token"].as_str().unwrap())
}

fn policies(stage: &mut Stage) {
    let root = stage.root();
    stage.run("policies.get", &root);
    stage.run_one("policies.edit", "class", &root);
    for id in ["policies.review", "policies.simulate", "policies.activate"] {
        stage.run(id, &root);
    }
    stage.run_one("policies.edit", "default", &root);
    stage.run("policies.discard", &root);
}

fn schedules_and_work(stage: &mut Stage) {
    let root = stage.root();
    for id in ["add", "list", "get", "change", "follow"] {
        stage.run(&format!("schedules.{id}"), &root);
    }
    stage.run("nodes.schedules", &root);
    let task = stage.run_one("tasks.start", "expire", &root);
    stage.number("event", &task["number"]);
    for id in ["control", "watch", "get", "log"] {
        stage.run(&format!("events.{id}"), &root);
    }
    for id in ["runs.add", "events.list", "tasks.list"] {
        stage.run(id, &root);
    }
    let begun = until("the server begins a task", || {
        let runs = root.get("/v1/tasks").expect(200).json();
        runs["items"].as_array().unwrap().first().cloned()
    });
    stage.number("task", &begun["number"]);
    for id in ["tasks.get", "tasks.watch"] {
        stage.run(id, &root);
    }
    // A run that the server begins here has ended before anybody could cancel it.
    stage.leave_out("tasks.cancel", None);
}

/// Backs up a tree twice, and makes the other things that a node keeps at its server. Returns the
/// tree and its folder of the examples.
fn backups(stage: &mut Stage, node: &Node) -> (std::path::PathBuf, std::path::PathBuf) {
    let tree = stage.service.scratch.folder("tree");
    let folder = stage.service.scratch.folder("tree/etc");
    plant_files(&folder, 20, 2_000, 7);
    fs::write(folder.join("hostname"), "web-1\n").unwrap();
    node.backup(&tree, &[]).expect(&[0]);
    stage.replace("2026-11-20T18:00:00Z", &now());
    fs::write(folder.join("hostname"), "web-1.lab.example\n").unwrap();
    fs::write(folder.join("hosts"), "127.0.0.1 localhost\n").unwrap();
    node.backup(&tree, &[]).expect(&[0]);
    stage.replace("2026-11-21T18:00:00Z", &now());
    let spaces = stage.root().get("/v1/nodes/web-1/filespaces").expect(200).json();
    let space = spaces["items"][0]["name"].as_str().unwrap();
    let path = folder.to_str().unwrap();
    let inside = if space == "/" { path } else { path.strip_prefix(space).unwrap() };
    stage.replace("/", space);
    stage.replace("/etc", inside);
    stage.replace("/etc/hostname", &format!("{inside}/hostname"));
    stage.replace("/etc/host*", &format!("{path}/host*"));
    let words = ["archive", path, "--description", "the year"];
    node.run(&words).expect(&[0]);
    Client::open(node.home())
        .unwrap()
        .keep_baseline(b"{\"host\":\"web-1\"}")
        .unwrap();
    let kept = stage.root().get("/v1/nodes/web-1/baselines").expect(200).json();
    stage.number("baseline", &kept["items"][0]["number"]);
    (tree, folder)
}

/// Returns the present time as text.
fn now() -> String {
    let now = jiff::Timestamp::from_microsecond(sys::clock::now().0).unwrap();
    // Versions that are stored after this have a later time.
    e2e::clock::pause(Duration::from_millis(20));
    now.to_string()
}

fn stored_files(stage: &mut Stage) {
    let root = stage.root();
    for id in [
        "filespaces.list",
        "versions.list",
        "versions.search",
        "versions.differences",
        "restores.file",
        "restores.tree",
        "restores.zip",
        "nodes.backups",
        "nodes.series",
        "reports.occupancy",
        "nights.list",
        "archives.list",
        "baselines.list",
        "baselines.get",
        "restores.start",
        "restores.list",
    ] {
        stage.run(id, &root);
    }
}

fn sessions(stage: &mut Stage, node: &Node, folder: &std::path::Path) {
    let root = stage.root();
    let large = folder.join("large");
    fs::create_dir(&large).unwrap();
    plant_files(&large, 5, 800_000, 9);
    let backup = node.spawn_backup(folder, &["--limit-rate-send", "200K"]);
    until("the node is connected", || {
        let sessions = root.get("/v1/sessions").expect(200).json();
        (!sessions["items"].as_array().unwrap().is_empty()).then_some(())
    });
    stage.run("sessions.list", &root);
    stage.run("sessions.end", &root);
    drop(backup.kill9());
    fs::remove_dir_all(large).unwrap();
}

fn libraries_and_volumes(stage: &mut Stage) {
    let root = stage.root();
    let tapes = stage.service.scratch.folder("tapes");
    stage.replace("/srv/tapes", tapes.to_str().unwrap());
    stage.run_one("libraries.add", "folder", &root);
    for id in ["libraries.list", "libraries.get", "libraries.change"] {
        stage.run(id, &root);
    }
    match Tgt::start() {
        Some(tgt) => changer(stage, &tgt),
        None => {
            stage.leave_out("libraries.add", Some("changer"));
            stage.leave_out("libraries.work", None);
        }
    }
    for id in ["volumes.label", "volumes.list", "volumes.get", "volumes.change"] {
        stage.run(id, &root);
    }
    let audit = stage.run_one("tasks.start", "volumes", &root);
    follow(&root, audit["number"].as_u64().unwrap());
    stage.run("volumes.remove", &root);
    stage.run_one("pools.add", "tape", &root);
    for id in ["pools.list", "pools.get", "pools.change", "pools.remove", "libraries.remove"] {
        stage.run(id, &root);
    }
}

fn changer(stage: &mut Stage, tgt: &Tgt) {
    let root = stage.root();
    for (number, lun) in [(0, 1), (1, 2), (2, 4)] {
        let address = format!("iscsi://10.0.0.9/iqn.2026-11.example:vault/{number}");
        stage.replace(&address, &tgt.address(lun));
    }
    stage.run_one("libraries.add", "changer", &root);
    stage.replace("A00004L8", TAPES[3]);
    stage.run("libraries.work", &root);
    root.delete("/v1/libraries/VAULT").expect(204);
}

fn pools_and_alerts(stage: &mut Stage) {
    let root = stage.root();
    let copies = stage.service.scratch.join("copies");
    stage.replace("file:///srv/copies", &format!("file://{}", copies.display()));
    stage.run_one("pools.add", "copies", &root);
    // A pool whose folder is away needs a person.
    let away = stage.service.scratch.join("away");
    fs::rename(&copies, &away).unwrap();
    let alert = until("an alert", || {
        let open = root.get("/v1/alerts?state=open").expect(200).json();
        let open = open["items"].as_array().unwrap().clone();
        open.into_iter().find(|one| one["kind"] == "pool-away")
    });
    stage.number("alert", &alert["number"]);
    for id in ["alerts.list", "alerts.acknowledge", "alerts.test"] {
        stage.run(id, &root);
    }
    fs::rename(&away, &copies).unwrap();
}

/// Lets a restore wait for a volume that another process holds.
fn recall_queue(stage: &mut Stage, node: &Node, tree: &std::path::Path) {
    let root = stage.root();
    let folder = stage.service.scratch.folder("more tapes");
    let (folder_text, out) = (folder.to_str().unwrap(), stage.service.scratch.folder("out"));
    let server = &stage.service.server;
    server.admin(&["library", "add", "TL", "--folder", folder_text, "--capacity", "64M"]);
    server.admin(&["pool", "add", "TAPE", "tape:TL"]);
    server.admin(&["pool", "remove", "COPIES"]);
    server.admin(&["pool", "set", "PRIMARY", "--next", "TAPE"]);
    server.admin(&["pool", "drain", "PRIMARY", "--all"]);
    // A drive lets its volume go when the server ends.
    stage.service.server.restart();
    let files = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path());
    let is_volume = |path: &std::path::PathBuf| path.extension().is_some_and(|end| end == "volume");
    let volumes: Vec<_> = files.filter(is_volume).collect();
    let Some(held) = Lease::take("read", &volumes) else {
        stage.leave_out("recall-queue.list", None);
        stage.leave_out("recall-queue.cancel", None);
        return;
    };
    let restore: Process = node.spawn_restore(tree, &out, &[]);
    let waiting = until("a reader waits", || {
        let queue = root.get("/v1/recall-queue").expect(200).json();
        queue["items"].as_array().unwrap().first().cloned()
    });
    stage.number("wait", &waiting["number"]);
    stage.run("recall-queue.list", &root);
    stage.run("recall-queue.cancel", &root);
    drop(restore.kill9());
    drop(held);
}

fn reports(stage: &mut Stage) {
    let root = stage.root();
    let all =
        ["reports.risks", "reports.growth", "domains.report", "log.list", "catalog-copies.list"];
    for id in all {
        stage.run(id, &root);
    }
}

fn removals(stage: &mut Stage) {
    let root = stage.root();
    for id in [
        "filespaces.remove",
        "schedules.remove",
        "option-sets.remove",
        "enrolment-keys.revoke",
        "nodes.remove",
        "keys.revoke",
        "users.remove",
    ] {
        stage.run(id, &root);
    }
    root.delete("/v1/nodes/web-2").expect(204);
    root.delete("/v1/schedules/lab-noon").expect(204);
    stage.run("domains.remove", &root);
}

fn approvals(stage: &mut Stage) {
    stage.configure("two_person = false", "two_person = true");
    let (root, second) = (stage.root(), stage.service.person("second", &["system"]));
    root.post("/v1/nodes", &json!({ "name": "old-1" })).expect(201);
    root.delete("/v1/nodes/old-1").expect(202);
    let waiting = stage.run("approvals.list", &second).json();
    stage.number("approval", &waiting["items"][0]["number"]);
    let decided: Value = stage.run("approvals.decide", &second).json();
    assert_eq!(decided["state"], "done", "{decided}");
    root.post("/v1/nodes", &json!({ "name": "old-1" })).expect(201);
    root.delete("/v1/nodes/old-1").expect(202);
    let waiting = root.get("/v1/approvals").expect(200).json();
    stage.number("approval", &waiting["items"][0]["number"]);
    stage.run("approvals.withdraw", &root);
}

/// Returns a section of the configuration by which notices come at once.
fn alerts(webhook: &Keeper) -> String {
    format!(
        "\n[alerts]\nlook_secs = 1\ngroup_minutes = 0\npause_minutes = 0\n\
         [[alerts.webhooks]]\nname = \"chat\"\nurl = \"http://127.0.0.1:{}/notices\"\n\
         secret_file = \"webhook.secret\"\n",
        webhook.port()
    )
}
