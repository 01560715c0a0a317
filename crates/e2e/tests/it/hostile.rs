//! A server in wrong hands, and names that were made to deceive: the client refuses what cannot be,
//! stays small, and shows nothing that a terminal obeys.

use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use e2e::harness::{Node, Outcome, Process, Server, binary, start};
use e2e::manifest::assert_same;
use e2e::scratch::Scratch;
use e2e::session_tree::RECORDED;
use e2e::transcript::{Entry, Event, end_of_call};
use format::{Writer, page};
use model::{
    ChunkRange, ClassId, Extent, Kind, Name, Object, PackNumber, Payload, Place, ServerTime, Stat,
    Timestamp,
};
use prost::Message as _;
use wire::proto;
use wire::proto::restore_reply::Message as Reply;

use crate::scene::{Scene, manifest};
use crate::versions::{call_of, imitation, transcript};

/// Limit of the memory of a client, whatever a server sends.
const MEMORY_BYTES_MAX: u64 = 512 << 20;

/// Directory path of the tree of the recorded restore.
const TOP: &[u8] = b"/tmp/holdfast-session/tree/";

/// Text that a terminal would obey, and whose lines imitate other lines.
const DECEIT: &str = "a\u{1b}]0;owned\u{7}\u{1b}[2J\u{9b}31m\nholdfast: all is well\r\u{202e}b";

/// Fails the test if the output has a character that a terminal obeys, except ends of lines.
#[track_caller]
fn assert_printable(outcome: &Outcome) {
    for text in [&outcome.stdout, &outcome.stderr] {
        let found = text.chars().find(|&c| c != '\n' && model::is_unprintable(c));
        assert_eq!(found, None, "{text:?}");
    }
    assert!(
        !outcome
            .stdout
            .lines()
            .chain(outcome.stderr.lines())
            .any(|line| { line.trim_start().starts_with("holdfast: all is well") })
    );
}

/// Waits for the end of `process`, which must stay small.
#[track_caller]
fn watched(process: Process) -> Outcome {
    let mut bytes = 0;
    loop {
        // The last look comes shortly before the end. No process takes gigabytes after it.
        bytes = memory_bytes(process.id()).unwrap_or(bytes);
        if process.ends_within(Duration::from_millis(2)) {
            break;
        }
    }
    let outcome = process.wait();
    assert!(bytes < MEMORY_BYTES_MAX, "{bytes} bytes of memory: {outcome}");
    outcome
}

/// Returns the largest amount of memory that the process has had; `None` after its end.
fn memory_bytes(id: u32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{id}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kib: u64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
    Some(kib << 10)
}

/// Checks that the command was not done and says `reason`.
#[track_caller]
fn assert_refused(outcome: Outcome, reason: &str) {
    let outcome = outcome.expect(&[12]).says(reason);
    assert_printable(&outcome);
}

fn object(name: &[u8], kind: Kind, size: u64, payload: Payload) -> Object {
    let time = Timestamp { secs: 1_700_000_000, nanos: 0 };
    let stat = Stat {
        kind,
        mode: 0o755,
        uid: 0,
        gid: 0,
        size,
        mtime: time,
        ctime: time,
        inode: 1,
        linked: false,
        device: 0,
    };
    Object {
        name: Name::new(name).unwrap(),
        stat,
        attributes: Arc::default(),
        class: ClassId(1),
        inserted: ServerTime(1),
        payload,
    }
}

fn folder(name: &[u8]) -> Object {
    object(name, Kind::Directory, 4096, Payload::Nothing)
}

/// Makes a file of three bytes in one chunk.
fn file(name: &[u8]) -> Object {
    let first = Place::new(PackNumber(1), 1);
    let payload = Payload::Extents(vec![Extent::Chunks(ChunkRange { first, count: 1 })]);
    object(name, Kind::File, 3, payload)
}

fn directory(path: &[u8], objects: &[Object]) -> proto::DirectoryVersions {
    let mut lengths = Writer::new();
    objects
        .iter()
        .filter(|object| object.stat.kind == Kind::File)
        .for_each(|_| lengths.varint(3));
    proto::DirectoryVersions {
        directory: path.to_vec().into(),
        page: page::encode(objects).into(),
        chunk_lengths: lengths.finish().into(),
        deactivated: Vec::new(),
    }
}

fn entries(directories: Vec<proto::DirectoryVersions>) -> Reply {
    Reply::Entries(proto::VersionsReply { directories })
}

fn end(window: u64, last: bool) -> proto::WindowEnd {
    proto::WindowEnd { window, last }
}

/// Encodes the messages of a restore.
fn encoded(replies: Vec<Reply>) -> Vec<Vec<u8>> {
    let encode = |reply| proto::RestoreReply { message: Some(reply) }.encode_to_vec();
    replies.into_iter().map(encode).collect()
}

/// Replaces the answers to the first call of the method `path` by `answers` and `status`.
fn answer(entries: &mut Vec<Entry>, path: &str, answers: Vec<Vec<u8>>, status: &str) {
    let call = call_of(entries, path);
    let is_kept = |entry: &Entry| match &entry.event {
        Event::Answer(_) | Event::Status(_) => entry.call != call,
        Event::Question(_) | Event::QuestionsEnd => entry.call != call,
        Event::Call(_) => true,
    };
    let question = entries
        .iter()
        .find(|entry| entry.call == call && matches!(entry.event, Event::Question(_)));
    let question = question.map(|entry| entry.event.clone());
    entries.retain(is_kept);
    let events = question.into_iter().chain(answers.into_iter().map(Event::Answer));
    let events = events.chain([Event::QuestionsEnd, Event::Status(status.to_owned())]);
    entries.extend(events.map(|event| Entry { call, event }));
}

/// Restores the recorded tree from a server that answers with `answers`.
fn restored(answers: Vec<Vec<u8>>) -> Outcome {
    let mut entries = transcript(1, "restore");
    answer(&mut entries, "/Restore", answers, "0 ");
    let (scratch, node) = imitation(&entries);
    let out = scratch.folder("out");
    let outcome = watched(node.spawn_restore(Path::new(RECORDED), &out, &[]));
    // Whatever the server sends stays in the target.
    let outside = fs::read_dir(scratch.path()).unwrap().count();
    assert_eq!(outside, 3, "only the server, its place in the list of servers, and the target");
    outcome
}

#[test]
fn a_folder_that_is_named_like_the_root_is_refused() {
    for (path, name) in [(TOP, &b"/"[..]), (b"/tmp/holdfast-session/tree//", b"a")] {
        let top = directory(b"/tmp/holdfast-session/", &[folder(b"tree")]);
        let wrong = directory(path, &[folder(name)]);
        let replies = vec![
            entries(vec![top, wrong]),
            Reply::EntriesEnd(end(0, true)),
            Reply::DataEnd(end(0, true)),
        ];
        let outcome = restored(encoded(replies));
        assert_refused(outcome, "a damaged page of the directory /tmp/holdfast-session/tree/");
    }
}

#[test]
fn objects_that_were_not_asked_for_are_refused() {
    for (path, name) in [(&b"/tmp/holdfast-session/"[..], &b"other"[..]), (b"/etc/", b"passwd")] {
        let replies = vec![entries(vec![directory(path, &[folder(name)])])];
        assert_refused(restored(encoded(replies)), "unasked");
    }
}

#[test]
fn a_message_of_empty_messages_is_refused() {
    // Each directory takes two bytes on the wire and more than a hundred bytes in memory.
    let directories = [0x0a, 0].repeat(15 << 20);
    let mut message = vec![0x0a];
    prost::encoding::encode_varint(directories.len() as u64, &mut message);
    message.extend(directories);
    assert_refused(restored(vec![message]), "more than 524288 messages");
}

#[test]
fn more_entries_than_fit_into_a_client_are_refused() {
    let names = (0..512).map(|number| format!("{number:04}"));
    let page: Vec<Object> = names.map(|name| file(name.as_bytes())).collect();
    let page = directory(TOP, &page);
    let top = directory(b"/tmp/holdfast-session/", &[folder(b"tree")]);
    let reason = "more entries at once than a server without fault sends";
    // In one message, and in many messages without an end of their window.
    assert_refused(restored(encoded(vec![entries(vec![page.clone(); 3000])])), reason);
    let some = entries(vec![page; 100]);
    let replies = [vec![entries(vec![top])], vec![some; 50]].concat();
    assert_refused(restored(encoded(replies)), reason);
}

#[test]
fn windows_without_end_are_refused() {
    let replies = (0..10).map(|window| Reply::EntriesEnd(end(window, false))).collect();
    assert_refused(restored(encoded(replies)), "at the wrong time");
    let twice = vec![Reply::EntriesEnd(end(0, true)), Reply::EntriesEnd(end(1, true))];
    assert_refused(restored(encoded(twice)), "at the wrong time");
}

#[test]
fn places_at_the_end_of_all_numbers_are_refused() {
    let top = directory(b"/tmp/holdfast-session/", &[folder(b"tree")]);
    let begin = || {
        let tree = directory(TOP, &[file(b"a")]);
        vec![entries(vec![top.clone(), tree]), Reply::EntriesEnd(end(0, true))]
    };
    let quantum = proto::RestoredQuantum {
        first_place: u64::MAX,
        record: vec![1; 100].into(),
        digests: vec![1; 64].into(),
    };
    let replies = [begin(), vec![Reply::Quantum(quantum)]].concat();
    assert_refused(restored(encoded(replies)), "beyond the last place");
    // Reports of damage beyond all places concern no file.
    let damaged = proto::DamagedQuantum {
        first_place: u64::MAX,
        chunk_count: u32::MAX,
        reason: DECEIT.to_owned(),
    };
    let everything = proto::DamagedQuantum { first_place: 0, ..damaged.clone() };
    let damages =
        vec![Reply::Damaged(damaged), Reply::Damaged(everything), Reply::DataEnd(end(0, true))];
    let outcome = restored(encoded([begin(), damages].concat())).expect(&[4]);
    assert_eq!(outcome.failures().len(), 1, "{outcome}");
    assert_printable(&outcome);
}

#[test]
fn data_without_end_is_refused() {
    let top = directory(b"/tmp/holdfast-session/", &[folder(b"tree")]);
    let quantum = proto::RestoredQuantum {
        first_place: 5,
        record: vec![1; 100].into(),
        digests: vec![1; 64].into(),
    };
    let data = vec![Reply::Quantum(quantum); 100];
    let begin = vec![entries(vec![top]), Reply::EntriesEnd(end(0, true))];
    assert_refused(restored(encoded([begin, data].concat())), "data that was not asked for");
}

#[test]
fn counts_that_cannot_be_are_refused() {
    let mut entries = transcript(1, "restore");
    let counts = proto::CountSubtreesReply { objects: vec![u64::MAX, u64::MAX] };
    answer(&mut entries, "/CountSubtrees", vec![counts.encode_to_vec()], "0 ");
    let (scratch, node) = imitation(&entries);
    let outcome = node.restore(Path::new(RECORDED), &scratch.folder("out"), &[]);
    assert_refused(outcome, "more objects than there can be");
}

#[test]
fn a_list_without_end_is_refused() {
    let mut entries = transcript(1, "list");
    let reply = proto::FilespacesReply {
        filespaces: vec![proto::Filespace::default()],
        next: vec![1].into(),
    };
    answer(&mut entries, "/Filespaces", vec![reply.encode_to_vec()], "0 ");
    let (_scratch, node) = imitation(&entries);
    assert_refused(node.run(&["status"]), "a list without end");
}

#[test]
fn texts_of_a_server_are_shown_and_not_obeyed() {
    let mut entries = transcript(1, "list");
    let hello = call_of(&entries, "/Hello");
    for entry in entries.iter_mut().filter(|entry| entry.call == hello) {
        if let Event::Answer(answer) = &mut entry.event {
            let mut reply = proto::HelloReply::decode(&answer[..]).unwrap();
            reply.node = DECEIT.to_owned();
            reply.server_version = DECEIT.to_owned();
            reply.classes.iter_mut().for_each(|class| class.name = DECEIT.to_owned());
            *answer = reply.encode_to_vec();
        }
    }
    let filespace = proto::Filespace {
        name: DECEIT.as_bytes().to_vec().into(),
        active_objects: u64::MAX,
        last_backup: i64::MAX,
        backups: vec![i64::MIN],
        id: u32::MAX,
    };
    let filespaces = vec![filespace.clone(), filespace];
    let reply = proto::FilespacesReply { filespaces, ..Default::default() };
    let whole = entries.clone();
    answer(&mut entries, "/Filespaces", vec![reply.encode_to_vec()], "0 ");
    let (_scratch, node) = imitation(&entries);
    let outcome = node.run(&["status"]).expect(&[0]).says("a\\x1b]0;owned\\x07");
    assert_printable(&outcome);
    let outcome = node.run(&["status", "--json"]).expect(&[0]);
    assert_printable(&outcome);
    assert_eq!(outcome.json()["node"], DECEIT, "a document keeps its values");

    let (_scratch, node) = imitation(&whole);
    let outcome = node.run(&["list", RECORDED, "--recursive"]).expect(&[0]);
    assert_printable(&outcome.says("a\\x1b]0;owned\\x07"));
}

#[test]
fn the_error_of_a_server_is_one_line() {
    let mut entries = transcript(1, "restore");
    let text = "5 no%1B%5B2J%0Aholdfast: all is well%0D%C2%9B31m";
    answer(&mut entries, "/CountSubtrees", Vec::new(), text);
    let (scratch, node) = imitation(&entries);
    let out = scratch.folder("out");
    let out = out.to_str().expect("is text");
    let outcome = node.run(&["restore", RECORDED, "--to", out]).expect(&[12]);
    assert_printable(&outcome);
    assert_refused(outcome, "no\\x1b[2J\\x0aholdfast: all is well\\x0d\\xc2\\x9b31m");
}

#[test]
fn names_that_deceive_come_back_and_are_never_obeyed() {
    let scene = Scene::new();
    let names =
        [DECEIT.as_bytes(), b"\x1b[31mred\x1b[0m", b"line\nend", b"\x9b2J\xff", b"tab\t\\x1b"];
    for name in names {
        let folder = scene.tree.join(std::ffi::OsStr::from_bytes(name));
        fs::create_dir(&folder).unwrap();
        fs::write(folder.join(std::ffi::OsStr::from_bytes(name)), name).unwrap();
    }
    let tree = scene.tree.to_str().unwrap();
    assert_printable(&scene.node.run(&["backup", tree]).expect(&[0]));
    assert_printable(&scene.node.run(&["status"]).expect(&[0]));
    let listed = scene.node.run(&["list", tree, "--recursive"]).expect(&[0]);
    assert_printable(&listed);
    assert_eq!(listed.stdout.lines().count(), 1 + 1 + 2 * names.len(), "one line for each object");
    let json = scene.node.run(&["list", tree, "--recursive", "--json"]).expect(&[0]);
    assert_printable(&json);
    assert!(json.json_lines().iter().any(|row| {
        row["path"]
            .as_str()
            .is_some_and(|path| path.ends_with(&format!("{DECEIT}/{DECEIT}")))
    }));
    let out = scene.scratch.folder("out");
    let arguments = ["restore", tree, "--to", out.to_str().unwrap()];
    assert_printable(&scene.node.run(&arguments).expect(&[0]));
    assert_same(&manifest(&scene.tree), &manifest(&out.join("tree")));
    // The names stand in errors and in plans too.
    let missing = scene.tree.join(DECEIT).join("missing");
    let missing = missing.to_str().unwrap();
    assert_printable(&scene.node.run(&["backup", missing]).expect(&[12]));
    assert_printable(&scene.node.run(&["list", missing]).expect(&[12]));
    assert_printable(&scene.node.run(&["backup", tree, "--dry-run"]).expect(&[0]));
    assert_printable(&scene.node.run(&["explain", missing]));
}

#[test]
fn texts_of_a_node_are_obeyed_neither_in_documents_nor_by_commands_of_tsm() {
    let scene = Scene::new();
    let folder = scene.tree.join(DECEIT);
    fs::create_dir(&folder).unwrap();
    fs::write(folder.join(DECEIT), b"content").unwrap();
    let tree = scene.tree.to_str().unwrap();
    let archive = ["archive", tree, "--description", DECEIT, "--verbose"];
    assert_printable(&scene.node.run(&archive).expect(&[0]));
    assert_printable(&scene.node.run(&["archives"]).expect(&[0]).says("a\\x1b]0;owned\\x07"));

    let objects = format!("{tree}/");
    for action in [&["selective"][..], &["query", "backup"], &["query", "archive"]] {
        let words = [&["dsm", "run", "dsmc"], action, &[objects.as_str(), "-subdir=yes"]].concat();
        let outcome = scene.node.run(&words).expect(&[0]);
        assert_printable(&outcome.says("a\\x1b]0;owned\\x07"));
    }
    let server = scene.server.dir().to_str().unwrap();
    let at_server = format!("-server={server}");
    let asked = |words: &[&str]| {
        let words: Vec<OsString> = words.iter().map(OsString::from).collect();
        let outcome = start(&binary(), &words, Path::new("/nonexistent"), None).wait().expect(&[0]);
        assert_printable(&outcome);
        outcome
    };
    asked(&["dsmadmc", &at_server, "select * from archives"]).says("a\\x1b]0;owned\\x07");
    let archives = "/v1/nodes/anna/archives";
    let document = asked(&["admin", "--server", server, "api", "GET", archives]).stdout;
    let document: serde_json::Value = serde_json::from_str(&document).unwrap();
    assert_eq!(document["items"][0]["description"], DECEIT, "a document keeps its values");
}

#[test]
fn a_server_takes_no_name_that_leads_nowhere() {
    let scratch = Scratch::new();
    let server = Server::start(&scratch.join("server"));
    let node = Node::enrol(&server, "anna");
    use proto::to_server::Message;
    let message = |message| proto::ToServer { message: Some(message) }.encode_to_vec();
    let open = proto::OpenBackup { filespace: b"/".to_vec().into(), ..Default::default() };
    for (path, name) in [(&b"/"[..], &b"/"[..]), (b"/a/", b"/"), (b"", b"a")] {
        let change = proto::PageChange {
            directory: path.to_vec().into(),
            backed_up: page::encode(&[folder(name)]).into(),
            pages: vec![proto::PageKey::default()],
            ..Default::default()
        };
        let questions = [
            message(Message::Open(open.clone())),
            message(Message::Changes(proto::Changes { changes: vec![change] })),
            message(Message::Commit(proto::Commit { number: 0 })),
        ];
        let path = "/holdfast.v1.Node/Backup";
        let status = end_of_call(node.home(), server.port(), path, &questions);
        assert!(status.starts_with("3 ") && status.contains("the root"), "{status}");
    }
}
