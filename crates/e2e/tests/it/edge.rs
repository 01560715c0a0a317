//! Clients that want to stop a server for all others: with guesses, with large bodies, and with
//! connections, calls and sessions that they leave open.

use std::time::Duration;

use e2e::harness::Node;
use e2e::transcript::{Credential, HostileClient};

use crate::scene::Scene;

/// Code of a refusal for a while.
const ABORTED: &str = "10 ";
const PERMISSION_DENIED: &str = "7 ";
const UNAUTHENTICATED: &str = "16 ";

const ENROL: &str = "/holdfast.v1.Enrolment/Enrol";
const HELLO: &str = "/holdfast.v1.Node/Hello";
const PAGES: &str = "/holdfast.v1.Node/Pages";
const BACKUP: &str = "/holdfast.v1.Node/Backup";

/// Number of threads that a server has for nodes, and more.
const THREADS: usize = 4200;
/// Number of backups that a server runs at once, and more.
const BACKUPS: usize = 1001;
/// Time limit until a server has noticed that connections are closed.
const NOTICED_MAX: Duration = Duration::from_secs(20);

/// Start of a message of `bytes` bytes.
fn announcement(bytes: u32) -> Vec<u8> {
    [&[0][..], &bytes.to_be_bytes()].concat()
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
    assert!(client.calls_max() <= 8, "{} calls at once", client.calls_max());
    // The rest of the body never comes. So the answer shows that nobody waits for it.
    let call = client.open(HELLO, &announcement(32 << 20));
    let status = client.head(call).expect("the call has ended");
    assert!(status.starts_with(UNAUTHENTICATED) && status.contains("enroll"), "{status}");
    let call = client.open(ENROL, &announcement(1 << 20));
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
