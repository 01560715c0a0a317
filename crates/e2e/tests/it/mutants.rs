//! Recorded sessions with changed messages: against a real server, and against a real client.
//!
//! A changed session may be refused, or do what it says. It must not end the server, leave a call
//! without an end, or report a bug; the client must end with one of its exit codes. Sessions that
//! have found something are kept in `crates/fuzz/corpus`. `HOLDFAST_CASES` and
//! `HOLDFAST_FUZZ_SECS` make the tests longer.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::time::Duration;

use e2e::harness::{Node, Process, Server};
use e2e::manifest::assert_same;
use e2e::scratch::Scratch;
use e2e::session_tree::{self, RECORDED};
use e2e::transcript::{Entry, Event, Imitation, decode, encode, provoke};
use fuzz::{Campaign, Mutator, exercise_with};

use crate::scene::manifest;

const SERVER_CASES: u64 = 200;
const CLIENT_CASES: u64 = 30;
/// Number of changes of a session.
const CHANGES_MAX: usize = 3;
/// Time for which the imitated server waits for messages that a changed session may not cause.
const PATIENCE: Duration = Duration::from_millis(200);
/// Exit codes of a command: done, failed with some objects, done with warnings, not done.
const ORDERLY: [i32; 4] = [0, 4, 8, 12];
/// Statuses with which a server ends a call.
const STATUSES: [&str; 7] = ["0 ", "5 gone", "7 no", "8 full", "9 old", "13 bug", "14 away"];

fn session(name: &str) -> Vec<Entry> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/sessions-v1");
    decode(&fs::read(folder.join(name)).unwrap()).unwrap()
}

/// Returns one of `sessions`, changed by `change` at one or several places.
fn mutant(
    mutator: &mut Mutator,
    sessions: &[Vec<Entry>],
    change: fn(&mut Mutator, &mut Vec<Entry>),
) -> Vec<u8> {
    let mut entries = sessions[mutator.below(sessions.len())].clone();
    for _ in 0..=mutator.below(CHANGES_MAX) {
        change(mutator, &mut entries);
    }
    encode(&entries)
}

/// Returns the indexes of the entries with a message for which `is_sent` is true.
fn indexes(entries: &[Entry], is_sent: fn(&Event) -> bool) -> Vec<usize> {
    (0..entries.len()).filter(|&index| is_sent(&entries[index].event)).collect()
}

fn is_question(event: &Event) -> bool {
    matches!(event, Event::Question(_))
}

fn is_answer(event: &Event) -> bool {
    matches!(event, Event::Answer(_))
}

/// Changes the bytes of the message of the entry `at`.
fn change_message(mutator: &mut Mutator, entries: &mut [Entry], at: usize) {
    let message = |entry: &Entry| match &entry.event {
        Event::Question(message) | Event::Answer(message) => Some(message.clone()),
        _ => None,
    };
    let others: Vec<_> = entries.iter().filter_map(message).collect();
    if let Event::Question(message) | Event::Answer(message) = &mut entries[at].event {
        mutator.change(message, &others);
    }
}

/// Changes the client's part of a session at one place.
fn change_questions(mutator: &mut Mutator, entries: &mut Vec<Entry>) {
    let questions = indexes(entries, is_question);
    if questions.is_empty() {
        return;
    }
    let [at, other] = [(); 2].map(|()| questions[mutator.below(questions.len())]);
    let call = entries[at].call;
    match mutator.below(16) {
        0 => drop(entries.remove(at)),
        1 => entries.insert(at, entries[at].clone()),
        2 => {
            let event = entries[other].event.clone();
            entries[other].event = std::mem::replace(&mut entries[at].event, event);
        }
        3 => {
            let call = entries[other].call;
            entries[at].call = call;
        }
        4 => {
            let is_end = |entry: &Entry| entry.event == Event::QuestionsEnd && entry.call == call;
            entries.retain(|entry| !is_end(entry));
        }
        _ => change_message(mutator, entries, at),
    }
}

/// Changes the server's part of a session at one place.
fn change_answers(mutator: &mut Mutator, entries: &mut Vec<Entry>) {
    let answers = indexes(entries, is_answer);
    if answers.is_empty() {
        return;
    }
    let [at, other] = [(); 2].map(|()| answers[mutator.below(answers.len())]);
    let call = entries[at].call;
    match mutator.below(12) {
        0 => entries.insert(at, entries[at].clone()),
        1 => {
            let event = entries[other].event.clone();
            entries[other].event = std::mem::replace(&mut entries[at].event, event);
        }
        2 => {
            let mut index = 0;
            entries.retain(|entry| {
                index += 1;
                entry.call != call || index <= at
            });
            let status = STATUSES[mutator.below(STATUSES.len())].to_owned();
            entries.push(Entry { call, event: Event::Status(status) });
        }
        _ => change_message(mutator, entries, at),
    }
}

#[test]
fn a_server_survives_changed_sessions() {
    let scratch = Scratch::new();
    let mut server = session_tree::server(&scratch.join("server"));
    let node = Node::enrol(&server, "anna");
    assert_eq!(provoke(node.home(), server.port(), &session("backup")), None);
    let sessions = ["backup", "incremental", "list", "restore"].map(session);
    let check = |input: &[u8]| {
        let entries = decode(input).expect("a session is a transcript");
        let stuck = provoke(node.home(), server.port(), &entries);
        assert_eq!(stuck, None, "the server does not end this call");
        assert!(server.is_up(), "the session ended the server");
    };
    let campaign = Campaign::from_environment(SERVER_CASES);
    let cases = exercise_with("server_session", campaign, &check, |mutator| {
        mutant(mutator, &sessions, change_questions)
    });
    println!("server_session: {cases} cases");

    let tree = scratch.folder("tree");
    session_tree::plant(&tree);
    for node in [&node, &Node::enrol(&server, "berta")] {
        node.backup(&tree, &[]).expect(&[0]).counts(&[("failed", 0)]);
        let out = scratch.folder(&format!("out-{}", node.name));
        node.restore(&tree, &out, &[]).expect(&[0]).counts(&[("failed", 0)]);
        assert_same(&manifest(&tree), &manifest(&out.join("tree")));
    }
    let events = server.admin(&["log"]).to_string();
    assert!(!events.contains("bug of the server"), "{events}");
    // The harness fails for a process that has written of a panic.
    server.terminate().expect(&[0]);
}

#[test]
fn a_client_survives_changed_answers() {
    let scratch = Scratch::new();
    let mut server = Server::start(&scratch.join("server"));
    let node = Node::enrol(&server, "anna");
    server.terminate().expect(&[0]);
    let tree = scratch.folder("tree");
    session_tree::plant(&tree);
    let sessions = ["backup", "list", "restore"].map(session);
    let (folder, port) = (server.dir(), server.port());
    let imitation = Imitation::start_impatient(folder, port, &sessions[0], PATIENCE);
    let own = names_in(node.home());
    let check = |input: &[u8]| {
        let entries = decode(input).expect("a session is a transcript");
        imitation.play_instead(&entries);
        forget(node.home(), &own);
        let out = scratch.join("out");
        drop(fs::remove_dir_all(&out));
        let outcome = command(&node, &entries, &tree, &scratch.folder("out")).wait();
        assert!(ORDERLY.contains(&outcome.code()), "{outcome}");
    };
    let campaign = Campaign::from_environment(CLIENT_CASES);
    let cases = exercise_with("client_session", campaign, &check, |mutator| {
        mutant(mutator, &sessions, change_answers)
    });
    println!("client_session: {cases} cases");
}

/// Starts the command that makes the calls of `entries`.
fn command(node: &Node, entries: &[Entry], tree: &Path, out: &Path) -> Process {
    let calls = |method: &str| {
        let is_it =
            |entry: &Entry| matches!(&entry.event, Event::Call(path) if path.ends_with(method));
        entries.iter().any(is_it)
    };
    if calls("/Backup") {
        node.spawn_backup(tree, &[])
    } else if calls("/Restore") {
        node.spawn_restore(Path::new(RECORDED), out, &[])
    } else {
        node.spawn(&["list", RECORDED, "--recursive"])
    }
}

fn names_in(folder: &Path) -> BTreeSet<OsString> {
    fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name()).collect()
}

/// Removes from the node's folder everything that earlier answers have left.
fn forget(home: &Path, own: &BTreeSet<OsString>) {
    for name in names_in(home).difference(own) {
        let path = home.join(name);
        if path.is_dir() {
            fs::remove_dir_all(path).unwrap();
        } else {
            fs::remove_file(path).unwrap();
        }
    }
}
