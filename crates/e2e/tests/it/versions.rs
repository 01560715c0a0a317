//! Clients and servers of earlier protocols, as recorded sessions.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use e2e::harness::{Node, Server};
use e2e::scratch::Scratch;
use e2e::session_tree::{self, RECORDED, RETRIEVED};
use e2e::transcript::{Entry, Event, Imitation, Numbers};
use e2e::transcript::{decode, end_of_call, replay, replay_with};

/// Versions of the protocol whose sessions are recorded.
const PROTOCOLS: [u32; 1] = [1];

/// Maximum number of servers that are made until one of them stores quanta in the recorded order.
const SERVERS_MAX: usize = 20;

/// Message with only the field 99, which no message has. The value of the field is 1.
const UNKNOWN: [u8; 3] = [0x98, 0x06, 1];

pub(crate) fn transcript(protocol: u32, name: &str) -> Vec<Entry> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata");
    let path = folder.join(format!("sessions-v{protocol}")).join(name);
    decode(&fs::read(path).unwrap()).unwrap()
}

#[test]
fn an_older_client_is_answered_as_it_was() {
    for protocol in PROTOCOLS {
        let scratch = Scratch::new();
        let (server, node) = backed_up(&scratch, protocol);
        for name in ["list", "restore"] {
            let found = replay(node.home(), server.port(), &transcript(protocol, name));
            assert!(found.is_empty(), "{name} of protocol {protocol}:\n{}", found.join("\n"));
        }
        // A client of the present version restores the backup of the older client.
        let out = restored(&node, &scratch);
        assert_same(&out, &changed_tree(&scratch));
        server.admin(&["node", "set", "anna", "--backdelete", "yes"]);
        // The retrieval was recorded at a server that had stored other quanta.
        let mut numbers = Numbers::default();
        for (name, _) in session_tree::FURTHER.iter().filter(|(name, _)| *name != "retrieve") {
            let entries = transcript(protocol, name);
            let found = replay_with(node.home(), server.port(), &entries, &mut numbers);
            assert!(found.is_empty(), "{name} of protocol {protocol}:\n{}", found.join("\n"));
        }
    }
}

#[test]
fn an_older_server_serves_archives_and_deletions() {
    for (protocol, (name, arguments)) in PROTOCOLS
        .iter()
        .flat_map(|protocol| session_tree::FURTHER.map(|further| (protocol, further)))
    {
        let (scratch, node) = imitated(*protocol, name);
        let [tree, out] = ["tree", "out"].map(|name| scratch.folder(name));
        session_tree::plant(&tree);
        session_tree::change(&tree);
        let path = |argument: &&str| match *argument {
            RECORDED if name == "archive" => tree.to_str().unwrap().to_owned(),
            RETRIEVED => out.to_str().unwrap().to_owned(),
            argument => argument.to_owned(),
        };
        let arguments: Vec<_> = arguments.iter().map(path).collect();
        node.run(&arguments).expect(&[0]);
        if name == "retrieve" {
            assert_same(&out.join("tree"), &tree);
        }
    }
}

#[test]
fn an_older_server_serves_a_list_and_a_restore() {
    for protocol in PROTOCOLS {
        let (scratch, node) = imitated(protocol, "list");
        let rows = node.list(Path::new(RECORDED), &["--recursive"]);
        let mut names: Vec<_> = rows.iter().map(|row| row["path"].as_str().unwrap()).collect();
        names.sort_unstable();
        let expected = ["", "/folder", "/folder/empty", "/folder/link", "/folder/new"];
        let expected = [&expected[..], &["/folder/noise", "/text"]].concat();
        let expected: Vec<_> = expected.iter().map(|name| format!("{RECORDED}{name}")).collect();
        assert_eq!(names, expected);
        drop(scratch);

        let (scratch, node) = imitated(protocol, "restore");
        assert_same(&restored(&node, &scratch), &changed_tree(&scratch));
    }
}

#[test]
fn an_older_server_takes_a_backup() {
    for protocol in PROTOCOLS {
        let (scratch, node) = imitated(protocol, "backup");
        let tree = scratch.folder("tree");
        session_tree::plant(&tree);
        node.backup(&tree, &[]).expect(&[0]).counts(&[("failed", 0)]);
    }
}

#[test]
fn a_list_that_comes_in_portions_is_shown_as_one() {
    let mut entries = transcript(1, "list");
    let hello = call_of(&entries, "Hello");
    entries.retain(|entry| entry.call == hello);
    // The archives have the numbers 5 and 4, then 2, then 1. Each portion but the last says that
    // another portion follows.
    let portions: [&[u8]; 3] = [
        b"\x0a\x02\x08\x05\x0a\x02\x08\x04\x12\x01n",
        b"\x0a\x02\x08\x02\x12\x01m",
        b"\x0a\x02\x08\x01",
    ];
    for (call, portion) in (hello + 1..).zip(portions) {
        let path = "/holdfast.v1.Node/Archives".to_owned();
        let status = Event::Status("0 ".to_owned());
        let events = [Event::Call(path), Event::Answer(portion.to_vec()), status];
        entries.extend(events.map(|event| Entry { call, event }));
    }
    let (_scratch, node) = imitation(&entries);
    let listed = node.run(&["archives", "--json"]).expect(&[0]).json_lines();
    let numbers: Vec<_> = listed.iter().map(|archive| archive["archive"].as_u64()).collect();
    assert_eq!(numbers, [5, 4, 2, 1].map(Some));
}

/// Appends to the questions of `Hello` the description of a client that speaks protocol 3 and
/// understands `oldest` and newer protocols. A later value of a field replaces an earlier value.
fn greet_as_newer_client(entries: &mut [Entry], oldest: u8) {
    let hello = call_of(entries, "Hello");
    for entry in entries.iter_mut().filter(|entry| entry.call == hello) {
        if let Event::Question(question) = &mut entry.event {
            // The protocols, a capability that this release does not know, and an unknown field.
            question.extend([0x10, 3, 0x18, oldest, 0x22, 1, 77]);
            question.extend(UNKNOWN);
        }
    }
}

/// Appends to the answers to `Hello` the description of a server that speaks protocol 3.
fn greet_as_newer_server(entries: &mut [Entry], oldest: u8) {
    let hello = call_of(entries, "Hello");
    for entry in entries.iter_mut().filter(|entry| entry.call == hello) {
        if let Event::Answer(answer) = &mut entry.event {
            answer.extend([0x70, 3, 0x78, oldest, 0x82, 0x01, 1, 77]);
            answer.extend(UNKNOWN);
        }
    }
}

#[test]
fn a_newer_client_is_served_if_it_understands_this_protocol() {
    let scratch = Scratch::new();
    let (server, node) = backed_up(&scratch, 1);
    for name in ["list", "restore"] {
        let mut entries = transcript(1, name);
        greet_as_newer_client(&mut entries, 2);
        let found = replay(node.home(), server.port(), &entries);
        assert!(found.is_empty(), "{name}:\n{}", found.join("\n"));
    }
}

#[test]
fn a_client_that_is_too_new_is_refused_with_both_versions() {
    let scratch = Scratch::new();
    let server = Server::start(&scratch.join("server"));
    let node = Node::enrol(&server, "anna");
    let mut entries = transcript(1, "list");
    greet_as_newer_client(&mut entries, 3);
    let hello = call_of(&entries, "Hello");
    let question = |entry: &Entry| match &entry.event {
        Event::Question(question) if entry.call == hello => Some(question.clone()),
        _ => None,
    };
    let questions: Vec<_> = entries.iter().filter_map(question).collect();
    let path = "/holdfast.v1.Node/Hello";
    let status = end_of_call(node.home(), server.port(), path, &questions);
    let expected = format!(
        "9 client 0.1.0 understands protocol 3 and newer, but server {} speaks protocol 2; upgrade \
         the server",
        env!("CARGO_PKG_VERSION")
    );
    assert_eq!(status, expected);
}

#[test]
fn a_newer_server_is_used_if_it_understands_this_protocol() {
    let mut entries = transcript(1, "restore");
    greet_as_newer_server(&mut entries, 2);
    let (scratch, node) = imitation(&entries);
    assert_same(&restored(&node, &scratch), &changed_tree(&scratch));
}

#[test]
fn a_server_that_is_too_new_is_refused_with_both_versions() {
    let mut entries = transcript(1, "list");
    greet_as_newer_server(&mut entries, 3);
    let (_scratch, node) = imitation(&entries);
    let expected = format!(
        "server 0.1.0 understands protocol 3 and newer, but client {} speaks protocol 2; upgrade \
         the client",
        env!("CARGO_PKG_VERSION")
    );
    node.run(&["list", RECORDED]).expect(&[12]).says(&expected);
}

#[test]
fn a_message_of_a_newer_server_ends_the_command() {
    for (name, at) in [("backup", 0), ("backup", 1), ("restore", 0), ("restore", 1)] {
        let mut entries = transcript(1, name);
        let path = if name == "backup" { "Backup" } else { "Restore" };
        let call = call_of(&entries, path);
        let is_answer = |entry: &Entry| matches!(entry.event, Event::Answer(_));
        let answers = (0..entries.len()).filter(|&index| is_answer(&entries[index]));
        let answer = answers.filter(|&index| entries[index].call == call).nth(at).unwrap();
        entries.insert(answer, Entry { call, event: Event::Answer(UNKNOWN.to_vec()) });
        let (scratch, node) = imitation(&entries);
        let tree = scratch.folder("tree");
        session_tree::plant(&tree);
        let outcome = if name == "backup" {
            node.backup(&tree, &[])
        } else {
            node.restore(Path::new(RECORDED), &scratch.folder("out"), &[])
        };
        let version = env!("CARGO_PKG_VERSION");
        let text = format!("that client {version} does not know; upgrade the client");
        outcome.expect(&[12]).says(&text).says("server 0.1.0 sent a message");
    }
}

#[test]
fn a_message_of_a_newer_client_ends_the_call() {
    let scratch = Scratch::new();
    let (server, node) = backed_up(&scratch, 1);
    for (name, path) in [("backup", "Backup"), ("restore", "Restore")] {
        let entries = transcript(1, name);
        let call = call_of(&entries, path);
        let question = |entry: &Entry| match &entry.event {
            Event::Question(question) if entry.call == call => Some(question.clone()),
            _ => None,
        };
        let first = entries.iter().find_map(question).unwrap();
        let unknown = UNKNOWN.to_vec();
        for questions in [vec![unknown.clone()], vec![first, unknown]] {
            let path = format!("/holdfast.v1.Node/{path}");
            let status = end_of_call(node.home(), server.port(), &path, &questions);
            let expected = "does not know a message of this client; upgrade the server";
            assert!(status.starts_with("12 server ") && status.ends_with(expected), "{status}");
        }
    }
}

/// Makes a server that has answered the recorded backups as they were answered then.
///
/// A server stores two quanta at once, and the places in its grants depend on which of them is
/// stored first. Another order is not a failure: then another server is made.
#[track_caller]
fn backed_up(scratch: &Scratch, protocol: u32) -> (Server, Node) {
    let mut found = Vec::new();
    for attempt in 0..SERVERS_MAX {
        let server = session_tree::server(&scratch.join(&format!("server-{attempt}")));
        let node = Node::enrol(&server, "anna");
        let replay_one = |name| replay(node.home(), server.port(), &transcript(protocol, name));
        found = ["backup", "incremental"].into_iter().flat_map(replay_one).collect();
        if found.is_empty() {
            return (server, node);
        }
    }
    panic!("backups of protocol {protocol}:\n{}", found.join("\n"));
}

/// Returns the number of the first call of the method whose path ends with `path`.
pub(crate) fn call_of(entries: &[Entry], path: &str) -> u32 {
    let is_call = |entry: &&Entry| matches!(&entry.event, Event::Call(of) if of.ends_with(path));
    entries.iter().find(is_call).unwrap().call
}

/// Makes a node whose server only repeats the recorded session `name`.
fn imitated(protocol: u32, name: &str) -> (Scratch, Node) {
    imitation(&transcript(protocol, name))
}

/// Makes a node whose server only repeats the session `entries`.
pub(crate) fn imitation(entries: &[Entry]) -> (Scratch, Node) {
    let scratch = Scratch::new();
    let mut server = Server::start(&scratch.join("server"));
    let node = Node::enrol(&server, "anna");
    server.terminate().expect(&[0]);
    Imitation::start(server.dir(), server.port(), entries);
    (scratch, node)
}

fn restored(node: &Node, scratch: &Scratch) -> PathBuf {
    let out = scratch.folder("out");
    node.restore(Path::new(RECORDED), &out, &[])
        .expect(&[0])
        .counts(&[("failed", 0)]);
    out.join("tree")
}

fn changed_tree(scratch: &Scratch) -> PathBuf {
    let tree = scratch.folder("expected");
    session_tree::plant(&tree);
    session_tree::change(&tree);
    tree
}

/// Fails unless both trees have the same names, modes, times, contents and links.
#[track_caller]
fn assert_same(left: &Path, right: &Path) {
    for name in ["", "text", "folder", "folder/noise", "folder/empty", "folder/new"] {
        let [left, right] = [left, right].map(|top| top.join(name));
        let [a, b] = [&left, &right].map(|path| fs::metadata(path).unwrap());
        assert_eq!(a.permissions().mode(), b.permissions().mode(), "{left:?}");
        assert_eq!((a.mtime(), a.mtime_nsec()), (b.mtime(), b.mtime_nsec()), "{left:?}");
        if a.is_file() {
            assert_eq!(fs::read(&left).unwrap(), fs::read(&right).unwrap(), "{left:?}");
        }
    }
    let [a, b] = [left, right].map(|top| fs::read_link(top.join("folder/link")).unwrap());
    assert_eq!(a, b);
}
