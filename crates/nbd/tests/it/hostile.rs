//! Servers that break the protocol, or that do not answer.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use nbd::{Export, Fault, NbdError, Patience, Refusal, Stream};

const GREETING: &[u8] = b"NBDMAGICIHAVEOPT\0\x03";
const REPLY_MAGIC: &[u8] = &0x0003_e889_0455_65a9_u64.to_be_bytes();
const CHUNK_MAGIC: &[u8] = &0x668e_33ef_u32.to_be_bytes();
const SIMPLE_MAGIC: &[u8] = &0x6744_6698_u32.to_be_bytes();
const ACK: u32 = 1;
const REFUSED: u32 = (1 << 31) + 1;

/// A server that sends bytes that are known before, and keeps what it receives.
#[derive(Debug)]
struct Script {
    sent: io::Cursor<Vec<u8>>,
    received: Arc<Mutex<Vec<u8>>>,
}

impl Read for Script {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.sent.read(buffer)
    }
}

impl Write for Script {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.received.lock().expect("no test panics with it").extend(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Stream for Script {
    fn set_timeout(&mut self, _timeout: Duration) -> io::Result<()> {
        Ok(())
    }
}

fn option_reply(option: u32, kind: u32, data: &[u8]) -> Vec<u8> {
    let length = u32::try_from(data.len()).expect("a short text");
    let numbers = [option, kind, length].map(u32::to_be_bytes).concat();
    [REPLY_MAGIC, &numbers, data].concat()
}

/// Returns the bytes of a handshake for an export of 1 MiB with `base:allocation`, number 5.
fn handshake() -> Vec<u8> {
    [
        GREETING.to_vec(),
        option_reply(8, ACK, b""),
        option_reply(10, 4, b"\0\0\0\x05base:allocation"),
        option_reply(10, ACK, b""),
        option_reply(7, 3, b"\0\0\0\0\0\0\0\x10\0\0\0\x45"),
        option_reply(7, ACK, b""),
    ]
    .concat()
}

/// Returns a chunk of the reply to the first request. A server may send a wrong `length`.
fn chunk_of(flags: u16, kind: u16, length: u32, payload: &[u8]) -> Vec<u8> {
    let cookie = 1_u64.to_be_bytes();
    let (flags, kind) = (flags.to_be_bytes(), kind.to_be_bytes());
    [CHUNK_MAGIC, &flags, &kind, &cookie, &length.to_be_bytes(), payload].concat()
}

fn chunk(flags: u16, kind: u16, payload: &[u8]) -> Vec<u8> {
    chunk_of(flags, kind, u32::try_from(payload.len()).expect("a short payload"), payload)
}

fn data(flags: u16, offset: u64, bytes: &[u8]) -> Vec<u8> {
    chunk(flags, 1, &[&offset.to_be_bytes(), bytes].concat())
}

fn hole(flags: u16, offset: u64, bytes: u32) -> Vec<u8> {
    chunk(flags, 2, &[&offset.to_be_bytes()[..], &bytes.to_be_bytes()].concat())
}

fn over(parts: &[Vec<u8>]) -> (Result<Export, NbdError>, Arc<Mutex<Vec<u8>>>) {
    let received = Arc::new(Mutex::new(Vec::new()));
    let script = Script { sent: io::Cursor::new(parts.concat()), received: Arc::clone(&received) };
    let contexts = [nbd::ALLOCATION_CONTEXT];
    (Export::over(Box::new(script), b"disk", &contexts, Patience::default()), received)
}

fn open(replies: &[Vec<u8>]) -> Export {
    over(&[&[handshake()], replies].concat()).0.expect("the handshake is sound")
}

#[track_caller]
fn refuse<T: std::fmt::Debug>(outcome: Result<T, NbdError>, part: &str) {
    let error = outcome.expect_err("it is refused");
    assert!(matches!(error, NbdError::Protocol { .. }), "{error:?}");
    assert!(error.to_string().contains(part), "{error}");
}

/// Checks that a read of 8 bytes at 512 breaks the protocol, and ends the connection.
#[track_caller]
fn refuse_read(replies: &[Vec<u8>], part: &str) {
    let mut export = open(replies);
    refuse(export.read_at(&mut [0; 8], 512), part);
    let after = export.read_at(&mut [0; 8], 512);
    assert!(matches!(after, Err(NbdError::Lost { .. })), "{after:?}");
}

#[test]
fn a_conversation_begins_and_ends_as_the_protocol_says() {
    let (export, received) = over(&[handshake()]);
    let export = export.unwrap();
    assert_eq!((export.size(), export.contexts().len()), (1 << 20, 1));
    drop(export);
    let received = received.lock().unwrap();
    assert!(received.starts_with(b"\0\0\0\x03IHAVEOPT\0\0\0\x08\0\0\0\0IHAVEOPT\0\0\0\x0a"));
    let disconnect = [&0x2560_9513_u32.to_be_bytes()[..], b"\0\0\0\x02", &[0; 20]].concat();
    assert!(received.ends_with(&disconnect));
}

#[test]
fn a_handshake_that_breaks_off_is_lost() {
    let whole = handshake();
    for end in 0..whole.len() {
        let outcome = over(&[whole[..end].to_vec()]).0;
        assert!(matches!(outcome, Err(NbdError::Lost { .. })), "{end}: {outcome:?}");
    }
}

#[test]
fn a_refused_export_is_left_with_a_farewell() {
    let structured = option_reply(8, REFUSED, b"");
    let unknown = option_reply(7, (1 << 31) + 6, b"no such disk");
    let (outcome, received) = over(&[GREETING.to_vec(), structured, unknown]);
    match outcome.unwrap_err() {
        NbdError::Refused { refusal: Refusal::UnknownExport, message } => {
            assert_eq!(message, "no such disk");
        }
        error => panic!("{error:?}"),
    }
    assert!(received.lock().unwrap().ends_with(b"IHAVEOPT\0\0\0\x02\0\0\0\0"));
}

#[test]
fn an_old_server_is_asked_by_name() {
    let refusals = [option_reply(8, REFUSED, b""), option_reply(7, REFUSED, b"")].concat();
    let export = b"\0\0\0\0\0\0\x10\0\0\x01".to_vec();
    let mut greeting = GREETING.to_vec();
    let (outcome, received) = over(&[greeting.clone(), refusals.clone(), export.clone()]);
    assert_eq!(outcome.unwrap().size(), 4096);
    assert!(received.lock().unwrap().windows(4).any(|window| window == b"disk"));
    // Without the agreement on zeros, 124 of them follow.
    greeting[17] = 1;
    let reply = [SIMPLE_MAGIC, &[0; 11], b"\x01", b"content."].concat();
    let (outcome, _) = over(&[greeting, refusals, export, vec![0; 124], reply]);
    let mut found = [0; 8];
    outcome.unwrap().read_at(&mut found, 0).unwrap();
    assert_eq!(&found, b"content.");
}

#[test]
fn replies_to_options_are_bounded() {
    let start = [GREETING.to_vec(), option_reply(8, ACK, b"")].concat();
    let check = |replies: Vec<u8>, part: &str| refuse(over(&[start.clone(), replies]).0, part);
    let context =
        |id: u8, name: &str| option_reply(10, 4, &[&[0, 0, 0, id], name.as_bytes()].concat());
    check([context(1, "base:allocation"), context(2, "base:allocation")].concat(), "twice");
    check(context(1, "base:other"), "nobody asked for");
    check(option_reply(10, 4, b"\0\0"), "too short");
    check(option_reply(10, 3, b"\0\x07"), "does not belong");
    let none = option_reply(10, ACK, b"");
    check([none.clone(), option_reply(7, ACK, b"")].concat(), "size");
    check([none, option_reply(7, 3, b"\0\x07").repeat(300)].concat(), "too many replies");
}

#[test]
fn pieces_of_a_read_come_in_any_order() {
    let replies = [data(0, 518, b"gh"), hole(0, 514, 4), data(0, 512, b"ab"), chunk(1, 0, b"")];
    let mut export = open(&replies);
    let mut found = [9; 8];
    export.read_at(&mut found, 512).unwrap();
    assert_eq!(&found, b"ab\0\0\0\0gh");
}

#[test]
fn a_read_that_is_not_whole_is_refused() {
    refuse_read(&[chunk(1, 0, b"")], "has not come");
    refuse_read(&[data(1, 512, b"abc")], "has not come");
    refuse_read(&[data(0, 512, b"abcd"), data(1, 515, b"abcde")], "overlap");
    refuse_read(&[data(1, 513, b"abcdefgh")], "outside");
    refuse_read(&[hole(1, 512, 0)], "empty");
    refuse_read(&[hole(1, 512, u32::MAX)], "outside");
    refuse_read(&[hole(1, u64::MAX, 8)], "outside");
}

#[test]
fn chunks_have_sound_lengths_and_places() {
    refuse_read(&[data(1, 512, b"")], "wrong length");
    refuse_read(&[chunk(1, 2, b"\0\0\0\0\0\0\x02\0\0\0\0\x08\0")], "wrong length");
    refuse_read(&[chunk(0, 0, b"")], "wrong length");
    refuse_read(&[chunk(1, 0, b"x")], "wrong length");
    refuse_read(&[chunk(1, 5, &[0; 12])], "wrong place");
    refuse_read(&[chunk(1, 7, b"")], "unknown type");
    refuse_read(&[chunk_of(1, 0x8001, u32::MAX, b"")], "wrong length");
    refuse_read(&[chunk_of(1, 1, u32::MAX, &512_u64.to_be_bytes())], "outside");
    refuse_read(&[[SIMPLE_MAGIC, &[0; 11], b"\x01"].concat()], "no chunks");
    refuse_read(&[[SIMPLE_MAGIC, &[0; 11], b"\x02"].concat()], "another request");
    refuse_read(&[b"HTTP/1.1 200 OK\r\n".to_vec()], "magic");
    let error = chunk(0, 0x8001, b"\0\0\0\x05\0\0");
    refuse_read(&[error.repeat(100)], "too many chunks");
}

#[test]
fn an_error_of_a_read_names_the_place() {
    let replies = [
        data(0, 512, b"abcdefgh"),
        chunk(0, 0x8002, b"\0\0\0\x05\0\x03bad\0\0\0\0\0\0\x02\x04"),
        chunk(1, 0, b""),
    ];
    let error = open(&replies).read_at(&mut [0; 8], 512).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the read at byte 516 of the NBD export failed: input/output error: bad"
    );
    refuse_read(&[chunk(1, 0x8002, b"\0\0\0\x05\0\0\0\0\0\0\0\0\x01\xff")], "outside");
    let unknown = chunk(1, 0x8099, b"\0\0\0\x4c\0\0more");
    let error = open(&[unknown]).read_at(&mut [0; 8], 512).unwrap_err();
    assert!(matches!(error, NbdError::Failed { offset: 512, fault: Fault::Other(76), .. }));
}

#[test]
fn a_server_that_shuts_down_is_left() {
    let mut export = open(&[chunk(1, 0x8001, b"\0\0\0\x6c\0\0")]);
    let error = export.read_at(&mut [0; 8], 512).unwrap_err();
    assert!(matches!(error, NbdError::Failed { fault: Fault::ShuttingDown, .. }), "{error:?}");
    let after = export.read_at(&mut [0; 8], 512);
    assert!(matches!(after, Err(NbdError::Lost { .. })), "{after:?}");
}

#[test]
fn a_status_is_within_the_range() {
    let reply = chunk(1, 5, b"\0\0\0\x05\0\0\x02\0\0\0\0\x03\xff\xff\xff\xff\0\0\0\0");
    let status = open(&[reply]).block_status(512, 1024).unwrap();
    assert_eq!((status.offset, status.bytes), (512, 1024));
    assert_eq!(status.by_context[0].len(), 2);
    refuse(open(&[chunk(1, 0, b"")]).block_status(0, 512), "missing");
    let huge = chunk_of(1, 5, 4 + (8 << 20) + 8, b"");
    refuse(open(&[huge]).block_status(0, 512), "wrong length");
    // A length within the limit costs no memory before the bytes come.
    let lie = chunk_of(1, 5, 4 + (8 << 20), b"\0\0\0\x05");
    let lost = open(&[lie]).block_status(0, 512);
    assert!(matches!(lost, Err(NbdError::Lost { .. })), "{lost:?}");
}

#[test]
fn a_silent_server_is_given_up() {
    let (client, server) = UnixStream::pair().unwrap();
    let patience = Patience { connect: Duration::from_millis(100), ..Patience::default() };
    match Export::over(Box::new(client), b"", &[], patience).unwrap_err() {
        NbdError::Lost { source } => assert_eq!(source.kind(), io::ErrorKind::TimedOut),
        error => panic!("{error:?}"),
    }
    drop(server);
}

#[test]
fn single_bytes_do_not_prolong_a_deadline() {
    let (client, mut server) = UnixStream::pair().unwrap();
    let trickle = move || {
        for byte in GREETING.iter().cycle() {
            sys::clock::sleep(Duration::from_millis(20));
            if server.write_all(&[*byte]).is_err() {
                return;
            }
        }
    };
    let trickle = std::thread::spawn(trickle);
    let patience = Patience { connect: Duration::from_millis(150), ..Patience::default() };
    let begun = sys::clock::monotonic();
    let lost = Export::over(Box::new(client), b"", &[], patience).unwrap_err();
    assert!(matches!(lost, NbdError::Lost { .. }), "{lost:?}");
    assert!(begun.elapsed() < Duration::from_secs(10));
    trickle.join().unwrap();
}

#[test]
fn a_long_name_is_refused_before_it_is_sent() {
    let name = "x".repeat(4097);
    let received = Arc::default();
    let script = Script { sent: io::Cursor::default(), received: Arc::clone(&received) };
    let outcome = Export::over(Box::new(script), b"", &[&name], Patience::default());
    assert!(matches!(outcome, Err(NbdError::Address { .. })), "{outcome:?}");
    assert!(received.lock().unwrap().is_empty());
}
