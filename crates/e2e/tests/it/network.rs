//! Measurements of the network between a node and its server, over TLS and without it, and what
//! somebody may try with the plain connections. The client's library is under test here, not a
//! command.

use std::io::{self, Read as _, Write as _};
use std::net::{Ipv4Addr, TcpStream};
use std::thread;
use std::time::Duration;

use client::{Client, Direction, ErrorKind, NetworkPlan, Progress, Transport};
use e2e::broken_node::number_field;
use e2e::harness::{Node, Proxy};
use e2e::session_tree::redirect;
use e2e::transcript::{Credential, Entry, Event, HostileClient};
use prost::Message as _;
use wire::network::{Count, Direction as Course, PREAMBLE_BYTES, Preamble, TICKET_BYTES};
use wire::proto::MeasurePlainReply;

use crate::scene::Scene;
use crate::versions::{call_of, imitation, transcript};

const FROM_SERVER: &str = "/holdfast.v1.Node/MeasureFromServer";
const PLAIN: &str = "/holdfast.v1.Node/MeasurePlain";
const PING: &str = "/holdfast.v1.Node/Ping";

/// Code of a refusal for a while.
const ABORTED: &str = "10 ";
/// Time until an open transfer has ended that a server ends at once. It ends by itself after
/// [`MILLIS_MAX`].
const SOON: Duration = Duration::from_secs(9);
/// Longest time of a transfer, in milliseconds.
const MILLIS_MAX: u64 = 10_000;

fn plan(streams: &[u32], each_millis: u64) -> NetworkPlan {
    let each = Duration::from_millis(each_millis);
    NetworkPlan { round_trips: 20, streams: streams.to_vec(), each, plain: false }
}

fn connect(scene: &Scene, node: &Node) -> HostileClient {
    let credential = Credential::Node(node.home());
    HostileClient::connect(credential, scene.server.port()).expect("the server takes connections")
}

/// Takes a ticket for `connections` plain connections of `millis` milliseconds.
fn ticket(scene: &Scene, connections: u64, millis: u64) -> [u8; TICKET_BYTES] {
    let mut client = connect(scene, &scene.node);
    let call = client.open(PLAIN, &[]);
    client.finish(call, &[number_field(1, connections), number_field(2, millis)].concat());
    let reply = client.first(call).expect("a ticket");
    let reply = MeasurePlainReply::decode(&reply[..]).unwrap();
    reply.ticket[..].try_into().expect("a ticket has a fixed length")
}

/// Opens a plain connection to `port`.
fn plain(port: u16, direction: Course, ticket: [u8; TICKET_BYTES]) -> TcpStream {
    opened(port, &Preamble { direction, ticket }.encode())
}

fn opened(port: u16, bytes: &[u8]) -> TcpStream {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    stream.write_all(bytes).unwrap();
    stream
}

/// Reads to the end of the connection. Returns the number of bytes that came.
fn read_all(stream: &mut TcpStream) -> u64 {
    let mut bytes = 0;
    let mut buffer = vec![0; 1 << 16];
    loop {
        match stream.read(&mut buffer) {
            Ok(0) => return bytes,
            Ok(more) => bytes += more as u64,
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => return bytes,
            Err(error) => panic!("the server does not end the connection: {error}"),
        }
    }
}

#[test]
fn each_direction_is_measured_with_tls_and_without() {
    let scene = Scene::new();
    let client = Client::open(scene.node.home()).unwrap();
    let (plan, progress) = (NetworkPlan { plain: true, ..plan(&[1, 4], 300) }, Progress::default());
    let measured = client.measure_network(&plan, &progress).unwrap();
    assert_eq!((measured.round_trips, &measured.plain_refused), (20, &None));
    assert!(measured.round_trip_median > Duration::ZERO);
    assert!(measured.round_trip_median <= measured.round_trip_p99);
    assert!(measured.cipher.starts_with("TLS13_"), "{}", measured.cipher);
    let kinds: Vec<_> = measured
        .transfers
        .iter()
        .map(|transfer| (transfer.transport, transfer.direction, transfer.streams))
        .collect();
    let expected: Vec<_> = [Transport::Tls, Transport::Plain]
        .into_iter()
        .flat_map(|transport| [1, 4].map(|streams| (transport, streams)))
        .flat_map(|(transport, streams)| {
            let directions = [Direction::ToServer, Direction::FromServer];
            directions.map(|direction| (transport, direction, streams))
        })
        .collect();
    assert_eq!(kinds, expected);
    for transfer in &measured.transfers {
        let lead_and_end = Duration::from_millis(75)..Duration::from_millis(600);
        assert!(transfer.bytes_per_sec() > 1_000_000, "{transfer:?}");
        assert!(lead_and_end.contains(&transfer.elapsed), "{transfer:?}");
    }
    let moved = progress.bytes_transferred.load(std::sync::atomic::Ordering::Relaxed);
    assert!(moved > measured.transfers.iter().map(|transfer| transfer.bytes).sum());
    let buffers = measured.buffers;
    assert!(buffers.send_bytes > 0 && buffers.receive_bytes > 0);
    assert!(buffers.send_bytes <= buffers.send_bytes_max, "{buffers:?}");
    assert!(measured.bandwidth_delay_bytes() > 0);
}

/// A sender sees only that buffers take its bytes, far more than a slow network carries.
#[test]
fn the_receiver_counts_on_a_slow_network() {
    let bytes_per_sec = 2 << 20;
    let scene = Scene::new();
    let proxy = Proxy::start(scene.server.port());
    redirect(&scene.node, &scene.server, proxy.port());
    let client = Client::open(scene.node.home()).unwrap();
    proxy.weather().carry(bytes_per_sec);
    let plan = NetworkPlan { plain: true, ..plan(&[1], 1000) };
    let measured = client.measure_network(&plan, &Progress::default()).unwrap();
    assert_eq!(measured.plain_refused, None);
    let up = measured.transfers.iter();
    let up: Vec<_> = up.filter(|transfer| transfer.direction == Direction::ToServer).collect();
    assert_eq!(up.len(), 2, "{:?}", measured.transfers);
    for transfer in up {
        let rate = transfer.bytes_per_sec();
        assert!((bytes_per_sec / 2..bytes_per_sec * 5 / 4).contains(&rate), "{transfer:?}");
    }
}

#[test]
fn a_server_that_is_too_old_to_measure_is_named() {
    let mut entries = transcript(1, "list");
    let hello = call_of(&entries, "Hello");
    entries.retain(|entry| entry.call == hello);
    let answers = [Event::Call(PING.to_owned()), Event::Answer(Vec::new())];
    let events = answers.into_iter().chain([Event::Status("0 ".to_owned())]);
    let ping: Vec<_> = events.map(|event| Entry { call: hello + 1, event }).collect();
    for known in [&[][..], &ping] {
        let (_scratch, node) = imitation(&[&entries[..], known].concat());
        let client = Client::open(node.home()).unwrap();
        let error = client.measure_network(&plan(&[1], 200), &Progress::default()).unwrap_err();
        assert_eq!(error.kind, ErrorKind::Usage, "{error}");
        assert!(error.message.contains("too old to measure the network"), "{error}");
        assert!(error.message.contains("upgrade the server"), "{error}");
    }
}

#[test]
fn a_ticket_works_only_as_often_as_it_says() {
    let scene = Scene::new();
    let (port, ticket) = (scene.server.port(), ticket(&scene, 2, 200));
    assert!(read_all(&mut plain(port, Course::FromServer, ticket)) > 0);
    let mut sending = plain(port, Course::ToServer, ticket);
    sending.write_all(&[7; 1000]).unwrap();
    sending.shutdown(std::net::Shutdown::Write).unwrap();
    let mut count = [0; Count::BYTES];
    sending.read_exact(&mut count).unwrap();
    assert!(Count::decode(&count).bytes <= 1000);
    for direction in [Course::FromServer, Course::ToServer] {
        assert_eq!(read_all(&mut plain(port, direction, ticket)), 0, "{direction:?}");
    }
}

/// The port is open to everybody, and these connections have no TLS.
#[test]
fn a_plain_connection_without_a_good_ticket_gets_no_byte() {
    let scene = Scene::new();
    let (port, ticket) = (scene.server.port(), ticket(&scene, 1, 200));
    let good = Preamble { direction: Course::FromServer, ticket }.encode();
    let mut bad = vec![[b'H'; PREAMBLE_BYTES], good, good, good];
    bad[1][7] = b'2';
    bad[2][8] = 3;
    bad[3][PREAMBLE_BYTES - 1] ^= 1;
    for preamble in bad {
        assert_eq!(read_all(&mut opened(port, &preamble)), 0, "{preamble:?}");
    }
    // A preamble that is not whole is not answered either.
    let mut cut = opened(port, &good[..PREAMBLE_BYTES - 1]);
    cut.shutdown(std::net::Shutdown::Write).unwrap();
    assert_eq!(read_all(&mut cut), 0);
    // Somebody else has seen the ticket.
    let proxy = Proxy::start(port);
    proxy.weather().come_from(Ipv4Addr::new(127, 0, 0, 2));
    assert_eq!(read_all(&mut plain(proxy.port(), Course::FromServer, ticket)), 0);
    assert!(read_all(&mut opened(port, &good)) > 0, "the node itself may use it");
}

#[test]
fn measurements_of_one_node_leave_room_for_others() {
    let scene = Scene::with_files(10, 500);
    let [bert, carl] = ["bert", "carl"].map(|name| Node::enrol(&scene.server, name));
    let mut clients: Vec<_> = [&scene.node, &bert, &carl]
        .map(|node| connect(&scene, node))
        .into_iter()
        .collect();
    // The head of an answer shows that the server measures.
    let mut measure = |index: usize| {
        let client: &mut HostileClient = &mut clients[index];
        let call = client.open(FROM_SERVER, &[]);
        client.finish(call, &number_field(1, MILLIS_MAX));
        client.head(call)
    };
    assert!((0..8).all(|_| measure(0).is_none()));
    let refusal = measure(0).expect("these are too many");
    assert!(refusal.starts_with(ABORTED) && refusal.contains("node anna has 8"), "{refusal}");
    let client = Client::open(scene.node.home()).unwrap();
    let error = client.measure_network(&plan(&[1], 200), &Progress::default()).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Busy, "{error}");
    scene.backup();
    assert!((0..8).all(|_| measure(1).is_none()), "another node has room");
    let refusal = measure(2).expect("these are too many");
    assert!(refusal.contains("all nodes together have 16"), "{refusal}");
    carl.backup(&scene.tree, &[]).expect(&[0]);
}

#[test]
fn a_lock_ends_measurements_that_are_open() {
    let scene = Scene::new();
    let client = Client::open(scene.node.home()).unwrap();
    let ticket = ticket(&scene, 1, MILLIS_MAX);
    let mut plain = plain(scene.server.port(), Course::FromServer, ticket);
    assert!(plain.read(&mut [0]).unwrap() > 0, "it has begun");
    let progress = Progress::default();
    let began = e2e::clock::now();
    let error = thread::scope(|scope| {
        let measuring =
            scope.spawn(|| client.measure_network(&plan(&[1], MILLIS_MAX), &progress).unwrap_err());
        while progress.bytes_transferred.load(std::sync::atomic::Ordering::Relaxed) == 0 {
            assert!(began.elapsed() < SOON, "the measurement does not begin");
            e2e::clock::pause(Duration::from_millis(10));
        }
        scene.server.admin(&["node", "lock", "anna"]);
        measuring.join().unwrap()
    });
    assert_eq!(error.kind, ErrorKind::Refused, "{error}");
    assert!(error.message.contains("locked"), "{error}");
    read_all(&mut plain);
    assert!(began.elapsed() < SOON, "{:?}", began.elapsed());
}

#[test]
fn a_ticket_of_a_node_that_was_locked_is_not_good() {
    let scene = Scene::new();
    let ticket = ticket(&scene, 1, 200);
    scene.server.admin(&["node", "lock", "anna"]);
    assert_eq!(read_all(&mut plain(scene.server.port(), Course::FromServer, ticket)), 0);
}

#[test]
fn a_measurement_that_is_stopped_ends_soon() {
    let scene = Scene::new();
    let client = Client::open(scene.node.home()).unwrap();
    let progress = Progress::default();
    progress.stop();
    let began = e2e::clock::now();
    let error = client.measure_network(&plan(&[1], MILLIS_MAX), &progress).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Interrupted, "{error}");
    assert!(began.elapsed() < SOON, "{:?}", began.elapsed());
}
