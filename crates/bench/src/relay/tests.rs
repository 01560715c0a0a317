//! Tests of the relay. They check only lower bounds of times, because a busy machine may be slower.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::thread::JoinHandle;

use super::*;

const MBIT: u64 = 1_000_000;

fn link(round_trip_ms: u64, mbit: Option<u64>) -> Link {
    let bits_per_sec = mbit.map(|mbit| mbit * MBIT);
    Link { round_trip: Duration::from_millis(round_trip_ms), bits_per_sec }
}

/// Starts a server for one connection that returns every byte to its sender. Returns its address,
/// and a thread that ends with the number of bytes.
fn echo() -> (String, JoinHandle<u64>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let server = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut back = stream.try_clone().unwrap();
        let bytes = std::io::copy(&mut stream, &mut back).unwrap();
        back.shutdown(Shutdown::Write).unwrap();
        bytes
    });
    (address, server)
}

#[test]
fn a_round_trip_takes_the_delay_twice() {
    let (target, server) = echo();
    let round_trip = Duration::from_millis(30);
    let relay = Relay::start(&target, link(30, None)).unwrap();
    let begin = clock::now();
    let mut stream = TcpStream::connect(relay.address()).unwrap();
    let mut byte = [0];
    for _ in 0..3 {
        stream.write_all(b"x").unwrap();
        stream.read_exact(&mut byte).unwrap();
    }
    // Three round trips for the three bytes, and one for the handshake.
    assert!(begin.elapsed() >= round_trip * 4, "{:?}", begin.elapsed());
    let traffic = relay.traffic();
    let (connections, turns, round_trips) = (1, 6, 3);
    let expected = Traffic { connections, up_bytes: 3, down_bytes: 3, turns, round_trips };
    assert_eq!(traffic, expected);
    let earlier = Traffic { up_bytes: 2, ..Traffic::default() };
    assert_eq!(traffic.since(earlier).bytes(), 4);
    drop(stream);
    assert_eq!(server.join().unwrap(), 3);
}

#[test]
fn requests_before_the_first_answer_are_one_round_trip() {
    let counts = Counts::default();
    let (one, other) = (AtomicU8::default(), AtomicU8::default());
    let count = |ways: &[Way], last: &AtomicU8| {
        ways.iter().for_each(|way| counts.count(*way, 1, last));
        counts.round_trips.load(Ordering::Relaxed)
    };
    assert_eq!(count(&[Way::Up, Way::Up, Way::Up, Way::Down, Way::Down], &one), 1);
    assert_eq!(count(&[Way::Up], &other), 2, "each connection has its own");
    assert_eq!(count(&[Way::Up, Way::Down, Way::Up], &one), 4);
    assert_eq!(count(&[Way::Up], &other), 4, "its answer has not come");
}

#[test]
fn bytes_take_their_time_on_the_line_and_arrive_whole() {
    let (target, server) = echo();
    let relay = Relay::start(&target, link(0, Some(80))).unwrap();
    let sent: Vec<u8> = (0..2_000_000_u32).map(|at| at.to_le_bytes()[1]).collect();
    let begin = clock::now();
    let mut stream = TcpStream::connect(relay.address()).unwrap();
    let mut writer = stream.try_clone().unwrap();
    let copy = sent.clone();
    let writing = std::thread::spawn(move || {
        writer.write_all(&copy).unwrap();
        writer.shutdown(Shutdown::Write).unwrap();
    });
    let mut received = Vec::new();
    stream.read_to_end(&mut received).unwrap();
    // At 10 MB/s, 2 MB take 200 ms.
    assert!(begin.elapsed() >= Duration::from_millis(200), "{:?}", begin.elapsed());
    assert!(received == sent, "the received bytes must be those that were sent");
    writing.join().unwrap();
    assert_eq!(server.join().unwrap(), 2_000_000);
}

#[test]
fn connections_share_a_line() {
    let counts = Arc::new(Counts::default());
    let way = Direction::new(Way::Up, link(20, Some(8)), &counts);
    let begin = clock::now();
    // At 1 MB/s, 100 kB occupy the line for 100 ms, whichever connection sends them.
    let first = way.carry(100_000, begin);
    let second = way.carry(100_000, begin);
    assert!(first >= begin + Duration::from_millis(110));
    assert_eq!(second - first, Duration::from_millis(100));
}

#[test]
fn the_buffer_holds_two_bandwidth_delay_products() {
    assert_eq!(link(16, Some(1000)).buffer_bytes(), 4_000_000);
    assert_eq!(link(0, Some(1000)).buffer_bytes(), BUFFER_BYTES_MIN);
    assert_eq!(link(1000, None).buffer_bytes(), BUFFER_BYTES_MAX);
    assert_eq!(link(0, Some(10)).segment_bytes(), SEGMENT_BYTES_MIN);
    assert_eq!(link(0, Some(1000)).segment_bytes(), 62_500);
    assert_eq!(link(0, Some(1000)).holding(125), Duration::from_micros(1));
    assert_eq!(link(0, None).holding(1 << 40), Duration::ZERO);
}
