//! Clients that want to stop a server for all others: with guesses, with large bodies, and with
//! connections, calls and sessions that they leave open.

use std::time::Duration;

use bytes::Bytes;
use e2e::broken_node::field as any_field;
use e2e::harness::Node;
use e2e::transcript::{Credential, HostileClient};

use crate::scene::{Scene, plant_files};

const MIB: usize = 1 << 20;

/// Code of a refusal for a while.
const ABORTED: &str = "10 ";
/// Code of a refusal after which every client tries again.
const UNAVAILABLE: &str = "14 ";
const PERMISSION_DENIED: &str = "7 ";
const UNAUTHENTICATED: &str = "16 ";

const ENROL: &str = "/holdfast.v1.Enrolment/Enrol";
const HELLO: &str = "/holdfast.v1.Node/Hello";
const PAGES: &str = "/holdfast.v1.Node/Pages";
const BACKUP: &str = "/holdfast.v1.Node/Backup";
const STAGE: &str = "/holdfast.v1.Node/Stage";
const RESTORE: &str = "/holdfast.v1.Node/Restore";
const DIGESTS_OF: &str = "/holdfast.v1.Node/DigestsOf";

/// Number of threads that a server has for nodes, and more.
const THREADS: usize = 4200;
/// Number of backups that a server runs at once, and more.
const BACKUPS: usize = 1001;
/// Number of calls that a node can have at once, and of backups among them.
const CALLS_OF_NODE: usize = 512;
const BACKUPS_OF_NODE: usize = 64;
/// Maximum growth of the server's memory.
const GROWTH_MAX: u64 = 1 << 30;
/// Growth of the server's memory by which answers that nobody takes are noticed.
const UNREAD_MIN: u64 = 128 << 20;
/// Time limit until a server has noticed what its connections do: that they are closed, or that
/// they take no answers. After 40 seconds it closes those that are silent.
const NOTICED_MAX: Duration = Duration::from_secs(35);

/// Start of a message of `bytes` bytes.
fn announcement(bytes: u32) -> Vec<u8> {
    [&[0][..], &bytes.to_be_bytes()].concat()
}

/// A message of `mib` MiB as far as `sent` bytes of it.
fn part(mib: u32, sent: usize) -> Bytes {
    [announcement(mib << 20), vec![0; sent]].concat().into()
}

/// Opens a session of a backup. Returns its call.
fn open_backup(client: &mut HostileClient, filespace: &str) -> usize {
    let call = client.open(BACKUP, &[]);
    client.send(call, &field(1, &field(1, filespace.as_bytes())));
    client.first(call).expect("the session is open");
    call
}

/// Checks that the server has not grown much, and that another node works.
#[track_caller]
fn assert_serves(scene: &Scene, idle: u64) {
    scene.backup();
    let growth = scene.server.peak_growth_bytes(idle);
    assert!(growth < GROWTH_MAX, "the server grew by {} MiB", growth >> 20);
}

fn connect(scene: &Scene, credential: Credential<'_>) -> HostileClient {
    HostileClient::connect(credential, scene.server.port()).expect("the server takes connections")
}

/// Returns `message` as field `number` of another message.
fn field(number: u8, message: &[u8]) -> Vec<u8> {
    let length = u8::try_from(message.len()).ok().filter(|length| *length < 0x80);
    [&[number << 3 | 2, length.expect("a short message")][..], message].concat()
}

/// Tries to enrol with a token that is made of `guess` alone. Returns the refusal.
fn try_token(client: &mut HostileClient, guess: u8) -> String {
    let call = client.open(ENROL, &[]);
    client.finish(call, &field(1, &[guess; 32]));
    client.first(call).expect_err("no token is guessed")
}

/// Tokens could be tried as fast as the network allows.
#[test]
fn guessing_tokens_is_slowed() {
    let scene = Scene::new();
    let mut client = connect(&scene, Credential::None(scene.server.dir()));
    let answers: Vec<String> = (0..12).map(|guess| try_token(&mut client, guess)).collect();
    assert!(answers[..5].iter().all(|answer| answer.starts_with(PERMISSION_DENIED)), "{answers:?}");
    // The pauses between so many attempts would add up to a minute.
    let slowed: Vec<_> = answers.iter().filter(|answer| answer.starts_with(ABORTED)).collect();
    assert!(!slowed.is_empty(), "{answers:?}");
    assert!(slowed[0].contains("127.0.0.1") && slowed[0].contains("wait"), "{answers:?}");
}

/// A script that tried a token which had ended kept all machines behind its address from enrolling.
#[test]
fn one_bad_token_keeps_no_other_machine_of_its_address_from_enrolling() {
    let scene = Scene::new();
    let mut client = connect(&scene, Credential::None(scene.server.dir()));
    let answers: Vec<String> = (0..12).map(|_| try_token(&mut client, 7)).collect();
    assert!(answers.iter().any(|answer| answer.starts_with(ABORTED)), "{answers:?}");
    // Nobody waits in between, so a pause of the address would still last.
    let other = try_token(&mut client, 8);
    assert!(other.starts_with(PERMISSION_DENIED), "{other}");
    let other = Node::enrol(&scene.server, "bert");
    other.backup(&scene.tree, &[]).expect(&[0]);
}

/// The body of a request was read before anybody looked at the certificate: 320 bodies of 32 MiB
/// for each connection.
#[test]
fn a_body_without_a_certificate_is_not_read() {
    let scene = Scene::new();
    let mut client = connect(&scene, Credential::None(scene.server.dir()));
    assert!(client.calls_max() <= 4, "{} calls at once", client.calls_max());
    // The rest of the body never comes. So the answer shows that nobody waits for it.
    let call = client.open(HELLO, &announcement(32 << 20));
    let status = client.head(call).expect("the call has ended");
    assert!(status.starts_with(UNAUTHENTICATED) && status.contains("enroll"), "{status}");
    let call = client.open(ENROL, &announcement((16 << 10) + 1));
    let status = client.first(call).expect_err("the call has ended");
    assert!(status.contains("too large"), "{status}");
}

/// Idle streams of one node had all threads of the server: no other node was served, and no
/// administrator could lock the node.
#[test]
fn idle_streams_of_one_node_leave_room_for_others() {
    let scene = Scene::with_files(10, 500);
    let other = Node::enrol(&scene.server, "bert");
    let mut clients = Vec::new();
    let mut opened = 0;
    let refusal = loop {
        let mut client = connect(&scene, Credential::Node(scene.node.home()));
        let calls: Vec<usize> = (0..client.calls_max()).map(|_| client.open(PAGES, &[])).collect();
        opened += calls.len();
        let refusal = calls.into_iter().find_map(|call| client.head(call));
        clients.push(client);
        if refusal.is_some() || opened > THREADS {
            break refusal;
        }
    };
    other.backup(&scene.tree, &[]).expect(&[0]).counts(&[("failed", 0)]);
    scene.server.admin(&["node", "lock", "anna"]);
    let refusal = refusal.expect("the calls of a node are limited");
    assert!(refusal.starts_with(ABORTED) && refusal.contains("node anna has"), "{refusal}");
}

/// A node could open as many sessions as the server runs backups, and did not use any of them.
#[test]
fn empty_sessions_of_one_node_leave_room_for_others() {
    let scene = Scene::with_files(10, 500);
    let other = Node::enrol(&scene.server, "bert");
    let mut clients = Vec::new();
    let mut opened = 0;
    let refusal = loop {
        let mut client = connect(&scene, Credential::Node(scene.node.home()));
        let refusal = (0..client.calls_max()).find_map(|_| {
            opened += 1;
            let call = client.open(BACKUP, &[]);
            let open = field(1, format!("/{opened}").as_bytes());
            client.send(call, &field(1, &open));
            client.first(call).err()
        });
        clients.push(client);
        if refusal.is_some() || opened > BACKUPS {
            break refusal;
        }
    };
    other.backup(&scene.tree, &[]).expect(&[0]).counts(&[("failed", 0)]);
    let refusal = refusal.expect("the backups of a node are limited");
    assert!(refusal.starts_with(ABORTED) && refusal.contains("node anna has"), "{refusal}");
}

/// Connections of one address were not counted.
#[test]
fn connections_of_one_address_are_limited() {
    let mut scene = Scene::new();
    scene.configure("address_connections_max", 6);
    let connect =
        || HostileClient::connect(Credential::Node(scene.node.home()), scene.server.port()).ok();
    let mut clients: Vec<_> = (0..20).map_while(|_| connect()).collect();
    assert_eq!(clients.len(), 6);
    scene.server.admin(&["node", "list"]);
    clients.pop();
    let began = e2e::clock::now();
    while connect().is_none() {
        assert!(began.elapsed() < NOTICED_MAX, "a closed connection still counts");
        e2e::clock::pause(Duration::from_millis(20));
    }
}

/// Connections of one node were not counted.
#[test]
fn connections_of_one_node_are_limited() {
    let mut scene = Scene::with_files(10, 500);
    scene.configure("node_connections_max", 2);
    let other = Node::enrol(&scene.server, "bert");
    let mut clients: Vec<_> =
        (0..3).map(|_| connect(&scene, Credential::Node(scene.node.home()))).collect();
    let mut greet = |index: usize| {
        let client: &mut HostileClient = &mut clients[index];
        let call = client.open(HELLO, &[]);
        client.finish(call, &[]);
        client.first(call)
    };
    assert!(greet(0).is_ok() && greet(1).is_ok() && greet(0).is_ok());
    let refusal = greet(2).expect_err("it is the third connection");
    assert!(refusal.starts_with(ABORTED) && refusal.contains("node_connections_max"), "{refusal}");
    other.backup(&scene.tree, &[]).expect(&[0]);
}

/// Each of 512 calls of a node could hold a message of 32 MiB.
#[test]
fn large_messages_in_all_calls_of_a_node_take_a_bounded_memory() {
    let scene = Scene::with_files(20, MIB);
    let captured = Node::enrol(&scene.server, "captured");
    let idle = scene.server.peak_memory_bytes();
    let (large, question) = (part(32, 9 * MIB), part(2, 2 * MIB - 1));
    let kinds = [(STAGE, &large), (HELLO, &large), (PAGES, &question), (DIGESTS_OF, &question)];
    let mut clients: Vec<HostileClient> =
        (0..8).map(|_| connect(&scene, Credential::Node(captured.home()))).collect();
    // All sessions are open before one of them takes room that the next would need.
    let mut backups = Vec::new();
    for (number, client) in clients.iter_mut().enumerate() {
        for session in 0..BACKUPS_OF_NODE / 8 {
            backups.push((number, open_backup(client, &format!("/{number}/{session}"))));
        }
    }
    for (number, call) in backups {
        clients[number].send_part(call, large.clone());
    }
    for client in &mut clients {
        let others = (CALLS_OF_NODE - BACKUPS_OF_NODE) / 8;
        for (path, body) in kinds.iter().cycle().take(others) {
            client.open_with(path, (*body).clone());
        }
    }
    assert_serves(&scene, idle);
    // No room is left, so a question that would be answered otherwise is refused.
    let began = e2e::clock::now();
    let refusal = loop {
        let call = clients[0].open(HELLO, &[]);
        clients[0].finish(call, &vec![0; 2 * MIB]);
        let end = clients[0].first(call).expect_err("it is no question");
        if end.starts_with(UNAVAILABLE) || began.elapsed() > NOTICED_MAX {
            break end;
        }
    };
    assert!(refusal.starts_with(UNAVAILABLE) && refusal.contains("node captured"), "{refusal}");
    drop(clients);
    let waits = ["--wait", "60s"];
    captured.backup(&scene.tree, &waits).expect(&[0]).counts(&[("failed", 0)]);
    assert_serves(&scene, idle);
}

/// Questions that nobody reads filled the windows of 256 connections of a node: 4 GiB.
#[test]
fn questions_of_a_node_that_takes_no_answers_take_a_bounded_memory() {
    let scene = Scene::with_files(50, 100);
    let captured = Node::enrol(&scene.server, "captured");
    let filespaces = captured.backup(&scene.tree, &[]).expect(&[0]).json()["filespaces"].clone();
    let filespace = filespaces[0].as_str().expect("a filespace");
    let folder = scene.tree.join("folder-00");
    let folder = folder.strip_prefix(filespace).expect("the tree is in the filespace");
    let directory = format!("/{}/", folder.display());
    // Questions are longer than they have to be, so that those without an answer fill the windows.
    let fields = [(1, filespace.as_bytes()), (2, directory.as_bytes()), (15, &[0; 1000][..])];
    let question = fields.map(|(number, content)| any_field(number, content)).concat();
    let mut client = connect(&scene, Credential::Node(captured.home()));
    let call = client.open(PAGES, &[]);
    client.finish(call, &question);
    assert!(client.first(call).expect("an answer").len() > 200, "there is no page");
    let length = u32::try_from(question.len()).expect("a short message");
    let message = [announcement(length), question].concat();
    let questions = Bytes::from(message.repeat(10 * MIB / message.len()));
    let idle = scene.server.peak_memory_bytes();
    let _clients: Vec<HostileClient> = (0..96)
        .map(|_| {
            let mut client = connect(&scene, Credential::Node(captured.home()));
            for _ in 0..2 {
                client.open_with(PAGES, questions.clone());
            }
            client
        })
        .collect();
    assert_serves(&scene, idle);
}

/// Each of 512 calls could hold ten answers that nobody took.
#[test]
fn restores_of_a_node_that_takes_no_answers_take_a_bounded_memory() {
    let scene = Scene::with_files(12, 2 * MIB);
    let captured = Node::enrol(&scene.server, "captured");
    let filespaces = captured.backup(&scene.tree, &[]).expect(&[0]).json()["filespaces"].clone();
    let filespace = filespaces[0].as_str().expect("a filespace");
    let selection = [any_field(1, filespace.as_bytes()), any_field(2, b"/")].concat();
    let start = any_field(1, &selection);
    // A bit for each object of the first window, and more.
    let wanted = any_field(2, &any_field(2, &[0xff; 100]));
    let idle = scene.server.peak_memory_bytes();
    let mut clients: Vec<HostileClient> =
        (0..8).map(|_| connect(&scene, Credential::Node(captured.home()))).collect();
    for client in &mut clients {
        for _ in 0..24 {
            let call = client.open(RESTORE, &[]);
            client.send(call, &start);
            client.send(call, &wanted);
        }
    }
    let began = e2e::clock::now();
    while scene.server.peak_growth_bytes(idle) < UNREAD_MIN {
        assert!(began.elapsed() < NOTICED_MAX, "nothing is unread, so this shows nothing");
        e2e::clock::pause(Duration::from_millis(50));
    }
    assert_serves(&scene, idle);
    drop(clients);
    let waits = ["--wait", "60s"];
    captured.backup(&scene.tree, &waits).expect(&[0]).counts(&[("failed", 0)]);
    assert_serves(&scene, idle);
}

/// Backups that find little memory wait for each other, and none of them fails.
#[test]
fn backups_go_on_while_their_node_has_little_memory_left() {
    let scene = Scene::new();
    let trees: Vec<_> = (0..6_u64)
        .map(|number| {
            let tree = scene.scratch.folder(&format!("source/large-{number}"));
            plant_files(&tree, 6, 4 * MIB, number + 2);
            tree
        })
        .collect();
    let mut client = connect(&scene, Credential::Node(scene.node.home()));
    // Messages that never end leave 8 MiB for other backups, which need about 2 MiB each.
    for (number, mib) in [32, 32, 32, 32, 32, 24].into_iter().enumerate() {
        let call = open_backup(&mut client, &format!("/held-{number}"));
        client.send_part(call, part(mib, 0));
    }
    let begin = |tree: &std::path::PathBuf| scene.node.spawn_backup(tree, &["--wait", "2m"]);
    let running: Vec<_> = trees.iter().map(begin).collect();
    for backup in running {
        backup.wait().expect(&[0]).counts(&[("failed", 0)]);
    }
}
