//! Administration: finding the server, the audit trail of nodes, and messages for programs.

use std::ffi::OsString;
use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::Path;

use e2e::clock;
use e2e::harness::{Outcome, Process, Server, binary, is_root, start};
use e2e::scratch::Scratch;
use serde_json::Value;

use crate::scene::{Scene, root_or_skip};

/// Runs an administrator's command without a server's folder. A home beside the server's folder
/// shares the folder of runtime files with the server.
fn admin_at(home: &Path, arguments: &[&str]) -> Outcome {
    let arguments = ["admin"].iter().chain(arguments).map(OsString::from);
    let process: Process = start(&binary(), &arguments.collect::<Vec<_>>(), home, None);
    process.wait()
}

#[test]
fn the_only_server_of_the_machine_is_found() {
    let mut scene = Scene::new();
    let dir = scene.server.dir().to_owned();
    let found = admin_at(&dir, &["node", "list"]).expect(&[0]);
    assert!(found.stdout.contains("anna"), "{found}");
    // A server that was killed leaves its announcement.
    scene.server.kill9();
    let none = admin_at(&dir, &["node", "list"]).expect(&[12]);
    none.says("no server was found").says("--server DIR");
    scene.server.restart();
    admin_at(&dir, &["node", "list"]).expect(&[0]);
    let elsewhere = admin_at(Path::new("/nonexistent"), &["node", "list"]).expect(&[12]);
    elsewhere.says("no server was found");
}

#[test]
fn one_of_several_servers_is_named_by_a_variable() {
    let scene = Scene::new();
    let other = Server::start(&scene.scratch.join("other"));
    // Both servers announce themselves in the runtime folder of this home.
    let admin = |folder: &Path| {
        let variable = format!("HOLDFAST_SERVER={}", folder.display());
        let words = [OsString::from(variable), binary().into()].into_iter();
        let words = words.chain(["admin", "node", "list", "--json"].map(OsString::from));
        let arguments: Vec<OsString> = words.collect();
        start(Path::new("/usr/bin/env"), &arguments, Path::new("/nonexistent"), None).wait()
    };
    let nodes = |folder: &Path| admin(folder).expect(&[0]).json_lines().len();
    assert_eq!((nodes(scene.server.dir()), nodes(other.dir())), (1, 0));
    let wrong = admin(&scene.scratch.join("none")).expect(&[12]);
    let wrong = wrong.says(scene.scratch.join("none").to_str().unwrap());
    wrong.says("is not the folder of a server").says("--server DIR");
    let other_folder = ["--server", "/tmp", "node", "list"];
    let refused = admin_at(scene.server.dir(), &other_folder).expect(&[12]);
    refused.says("/tmp is not the folder of a server").says("HOLDFAST_SERVER");
    let named = ["--server", other.dir().to_str().unwrap(), "node", "list"];
    let named = admin_at(scene.server.dir(), &named).expect(&[0]);
    assert!(!named.stdout.contains("anna"), "an option goes before all: {named}");
}

/// The message was that the pool in the folder is that of another server.
#[test]
fn a_folder_with_a_server_gets_no_other_one() {
    let scene = Scene::new();
    let refused = Server::init_with(scene.server.dir(), Server::free_port(), &[]);
    assert_ne!(refused.code(), 0, "{refused}");
    drop(refused.says("is the folder of a server already").says("holdfast server run"));
}

/// The message asked whether the server was running.
#[test]
fn a_user_without_rights_is_told_who_has_them() {
    if !root_or_skip("a_user_without_rights_is_told_who_has_them") {
        return;
    }
    let scene = Scene::new();
    let program = scene.scratch.join("holdfast");
    fs::copy(binary(), &program).unwrap();
    fs::set_permissions(scene.scratch.path(), Permissions::from_mode(0o755)).unwrap();
    let dir = scene.server.dir().to_str().unwrap();
    let refused = |words: &[&str]| {
        let words: Vec<OsString> = words.iter().map(OsString::from).collect();
        start(&program, &words, Path::new("/nonexistent"), Some(1234))
            .wait()
            .expect(&[12])
    };
    let admin = refused(&["admin", "--server", dir, "node", "list"]);
    let admin = admin.says("needs root; run the command with sudo");
    assert!(!admin.stderr.contains("is the server running"), "{admin}");
    let server = refused(&["server", "run", dir]);
    let server = server.says("server.toml cannot be read; run the command as the owner");
    assert!(!server.stderr.contains("no server yet"), "{server}");
    let (home, tree) = (scene.node.home().to_str().unwrap(), scene.tree.to_str().unwrap());
    for command in ["backup", "restore"] {
        let file = refused(&["--home", home, command, tree]);
        file.says("client.toml")
            .says("run the command as root, or as a user who has the right");
    }
}

/// A server that root had made or recovered in the folder of a service could not be started by it.
#[test]
fn root_makes_nothing_in_the_folder_of_another_users_server() {
    const NOBODY: u32 = 65534;
    if !root_or_skip("root_makes_nothing_in_the_folder_of_another_users_server") {
        return;
    }
    let scratch = Scratch::new();
    let folder = scratch.folder("server");
    let dir = folder.to_str().unwrap();
    let run = |words: &[&str]| {
        let words: Vec<OsString> = words.iter().map(OsString::from).collect();
        start(&binary(), &words, Path::new("/nonexistent"), None).wait()
    };
    let check_refused = |words: &[&str]| {
        run(words).expect(&[12]).says("belongs to nobody").says("runuser -u nobody");
    };
    let own = |owner: u32| chown(&folder, Some(owner), None).unwrap();
    own(NOBODY);
    check_refused(&["server", "init", dir]);
    check_refused(&["server", "recover", dir, "--from", "/dev/null"]);
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 0, "nothing was made");
    own(0);
    run(&["server", "init", dir]).expect(&[0]);
    own(NOBODY);
    // The folder may have been given away alone: the server itself is that of root.
    run(&["server", "adopt", dir]).expect(&[0]);
    chown(folder.join("server.toml"), Some(NOBODY), None).unwrap();
    for command in ["run", "rebuild-catalog", "adopt"] {
        check_refused(&["server", command, dir]);
    }
    check_refused(&["admin", "--server", dir, "catalog", "move", "sqlite:"]);
}

/// Returns the kinds of the events that a filter finds, newest first.
fn kinds(scene: &Scene, options: &[&str]) -> Vec<String> {
    let events = scene.server.try_admin(&[&["log"], options].concat()).expect(&[0]).json_lines();
    events.iter().map(|event| event["what"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn changes_of_nodes_are_in_the_audit_trail() {
    let scene = Scene::new();
    let admin = |arguments: &[&str]| scene.server.admin(arguments);
    admin(&["node", "add", "bert"]);
    admin(&["node", "add", "bert", "--again"]);
    let middle = clock::divide();
    admin(&["node", "lock", "bert"]);
    admin(&["node", "unlock", "bert"]);
    admin(&["node", "rename", "bert", "berta"]);
    admin(&["domain", "add", "LONG"]);
    admin(&["node", "set", "berta", "--domain", "LONG", "--backdelete", "yes"]);
    admin(&["node", "revoke", "berta"]);
    admin(&["node", "remove", "berta"]);
    let all = kinds(&scene, &["--kind", "node", "--node", "berta"]);
    let expected = [
        "node removed",
        "node revoked",
        "node domain changed",
        "node rights changed",
        "node renamed",
    ];
    assert_eq!(all, expected);
    let earlier =
        ["node renamed", "node unlocked", "node locked", "node token issued", "node added"];
    assert_eq!(kinds(&scene, &["--node", "bert"]), earlier);
    assert_eq!(kinds(&scene, &["--node", "bert", "--to", &middle]).len(), 2);
    assert_eq!(kinds(&scene, &["--node", "bert", "--from", &middle]).len(), 3);
    assert_eq!(kinds(&scene, &["--text", "BACKDELETE YES"]), ["node rights changed"]);
    assert_eq!(
        kinds(&scene, &["--kind", "node", "--limit", "2"]),
        ["node removed", "node revoked"]
    );
    assert_eq!(kinds(&scene, &["--node", "nobody"]), [""; 0]);
    let event = scene.server.admin(&["log", "--text", "node renamed"]);
    let own = if is_root() { "administrator (uid 0)" } else { "administrator (uid " };
    assert!(event["actor"].as_str().unwrap().starts_with(own), "{event}");
}

/// A label for hundreds of nodes took as many commands.
#[test]
fn several_nodes_are_changed_alike_or_none_is() {
    let scene = Scene::new();
    for name in ["bert", "carl"] {
        scene.server.admin(&["node", "add", name]);
    }
    let change = |names: &[&str], options: &[&str]| {
        scene.server.try_admin(&[&["node", "set"][..], names, options].concat())
    };
    let both = ["bert", "carl"];
    let unknown = change(&["bert", "nobody"], &["--label", "db"]).expect(&[12]);
    unknown.says("there is no node nobody");
    let labels = || scene.server.admin(&["node", "show", "bert"])["labels"].clone();
    assert_eq!(labels().as_array().map(Vec::len), Some(0));
    let changed = change(&both, &["--label", "db"]).expect(&[0]).json_lines();
    let names: Vec<_> = changed.iter().filter_map(|node| node["node"].as_str()).collect();
    assert_eq!(names, both);
    assert_eq!(labels()[0], "db");
    change(&both, &["--unlabel", "db"]).expect(&[0]);
    change(&both, &["--unlabel", "db"])
        .expect(&[12])
        .says("node bert has no label db");
    scene.server.try_admin(&["node", "lock", "bert", "carl"]).expect(&[0]);
    assert_eq!(kinds(&scene, &["--kind", "node locked"]), ["node locked"; 2]);
}

/// Returns the document of the error of a command that was not done.
#[track_caller]
fn error(outcome: &Outcome) -> Value {
    assert_eq!((outcome.code(), outcome.stdout.as_str()), (12, ""), "{outcome}");
    serde_json::from_str(&outcome.stderr).unwrap_or_else(|error| panic!("{error}: {outcome}"))
}

#[test]
fn errors_for_programs_are_documents() {
    let scene = Scene::new();
    let run = |arguments: &[&str]| error(&scene.node.run(arguments));
    let gone = run(&["list", "/nowhere/at/all", "--json"]);
    assert!(gone["error"].as_str().unwrap().contains("no version"), "{gone}");
    assert_eq!((&gone["hint"], &gone["exit_code"]), (&Value::Null, &12.into()));
    let usage = run(&["bakcup", "/x", "--json"]);
    assert_eq!(usage["error"], "unrecognized subcommand 'bakcup'");
    assert_eq!(usage["hint"], "did you mean 'holdfast backup'?");
    let elsewhere = run(&["schedule", "list", "--json"]);
    let hint = elsewhere["hint"].as_str().unwrap();
    assert!(hint.contains("did you mean 'holdfast admin schedule list'?"), "{elsewhere}");
    let mut scene = scene;
    scene.server.terminate().expect(&[0]);
    let away = error(&scene.node.run(&["list", "--json"]));
    assert!(away["hint"].as_str().unwrap().contains("is the server running"), "{away}");
    let refused = error(&scene.server.try_admin(&["node", "list"]));
    assert!(refused["error"].as_str().unwrap().contains("cannot reach the server"), "{refused}");
}

/// Collects the places in `value` of texts that are numbers.
fn numbers_as_text(value: &Value, place: &str, found: &mut Vec<String>) {
    match value {
        // Modes are octal.
        Value::String(_) if place.ends_with(".mode") => {}
        Value::String(text) if text.parse::<f64>().is_ok() => found.push(format!("{place}={text}")),
        Value::Array(values) => {
            values.iter().for_each(|value| numbers_as_text(value, place, found));
        }
        Value::Object(fields) => fields
            .iter()
            .for_each(|(key, value)| numbers_as_text(value, &format!("{place}.{key}"), found)),
        _ => {}
    }
}

/// Changes that give documents something to show.
const CHANGES: [&str; 8] = [
    "policy class STANDARD --verexists 5 --retextra 7",
    "policy activate",
    "optionset define NUMBERS --option resourceutilization=4 --option wait=2h",
    "optionset update NUMBERS --option compression=7",
    "node set anna --optionset NUMBERS",
    "schedule define nightly --action incremental --time 22:00 --duration-max 8h",
    "schedule associate nightly --node anna",
    "enrolment-key add web --count 3",
];
/// Commands of a node whose documents are looked at.
const NODE_COMMANDS: [&str; 16] = [
    "backup TREE",
    "backup TREE --dry-run",
    "preview TREE",
    "status",
    "list TREE --recursive --inactive",
    "find *",
    "diff --from BEFORE",
    "stats",
    "archives",
    "verify TREE",
    "verify --sample 100%",
    "restore TREE --dry-run",
    "explain TREE",
    "explain --option resourceutilization",
    "explain --option compression",
    "explain --option wait",
];
/// Commands of administrators whose documents are looked at.
const ADMIN_COMMANDS: [&str; 20] = [
    "node list",
    "node show anna",
    "domain list",
    "policy show",
    "optionset list",
    "optionset show NUMBERS",
    "optionset history NUMBERS",
    "schedule list",
    "schedule show nightly",
    "event list --state future",
    "enrolment-key list",
    "pool list",
    "stats",
    "servers",
    "catalog backup",
    "catalog list",
    "audit",
    "expire",
    "reclaim",
    "log",
];

/// Limits, counts and settings were texts in some documents.
#[test]
fn numbers_are_numbers_in_all_documents() {
    let scene = Scene::with_files(3, 500);
    let (before, tree) = (clock::divide(), scene.tree.to_str().unwrap());
    scene.node.wait_by_default();
    scene.backup();
    let admin = |line: &str| {
        let words: Vec<&str> = line.split(' ').collect();
        scene.server.try_admin(&words).expect(&[0])
    };
    let node = |line: &str| {
        let line = line.replace("TREE", tree).replace("BEFORE", &before);
        let words: Vec<&str> = line.split(' ').chain(["--json"]).collect();
        scene.node.run(&words).expect(&[0, 4])
    };
    for change in CHANGES {
        admin(change);
    }
    node("archive TREE --description all");
    fs::write(scene.file(1), "changed").unwrap();
    let mut found = Vec::new();
    let mut check = |outcome: Outcome, line: &str| {
        let documents = outcome.json_lines();
        assert!(!documents.is_empty(), "{line}: {outcome}");
        documents
            .iter()
            .for_each(|document| numbers_as_text(document, line, &mut found));
    };
    for line in NODE_COMMANDS {
        check(node(line), line);
    }
    for line in ADMIN_COMMANDS {
        check(admin(line), line);
    }
    assert_eq!(found, [""; 0]);
}

#[test]
fn verbose_commands_name_each_object() {
    let scene = Scene::with_files(3, 500);
    let tree = scene.tree.to_str().unwrap();
    let backup = scene.node.run(&["backup", tree, "--verbose"]).expect(&[0]);
    let line = format!("back up    {}", scene.file(1).display());
    assert!(backup.messages().contains(&line.as_str()), "{backup}");
    fs::remove_file(scene.file(1)).unwrap();
    let backup = scene.node.run(&["backup", tree, "--verbose"]).expect(&[0]);
    let line = format!("expire     {}", scene.file(1).display());
    assert!(backup.messages().contains(&line.as_str()), "{backup}");
    let other = scene.file(2);
    assert!(!backup.stderr.contains(other.to_str().unwrap()), "it has not changed: {backup}");
    let out = scene.scratch.folder("out");
    let restore = ["restore", tree, "--to", out.to_str().unwrap(), "--verbose"];
    let restore = scene.node.run(&restore).expect(&[0]);
    let line = format!("restore    {}", other.display());
    assert!(restore.messages().contains(&line.as_str()), "{restore}");
    let silent = scene.node.run(&["backup", tree]).expect(&[0]);
    assert!(silent.messages().is_empty(), "{silent}");
}

#[test]
fn versions_of_a_filespace_that_is_not_there_are_refused() {
    let scene = Scene::with_files(3, 500);
    scene.backup();
    // The folder is within a filespace, and is none itself.
    let folder = scene.tree.to_str().unwrap();
    let refused = scene.server.try_admin(&["node", "versions", "anna", folder]).expect(&[12]);
    refused.says(&format!("node anna has no filespace {folder}"));
    scene.server.try_admin(&["node", "versions", "anna"]).expect(&[0]);
}

#[test]
fn a_destruction_is_confirmed() {
    let scene = Scene::with_files(3, 500);
    scene.backup();
    let remove = scene.server.try_admin(&["node", "remove", "anna"]).expect(&[12]);
    remove.says("--confirm removes them too");
    let set = ["volume", "set", "V00001", "--access", "destroyed"];
    scene.server.try_admin(&set).expect(&[12]).says("confirm it with --confirm");
    scene.server.admin(&["node", "remove", "anna", "--confirm"]);
}
