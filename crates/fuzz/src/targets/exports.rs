//! Servers of network block devices, and the addresses of their exports.

use std::io::{self, Cursor, Read, Write};
use std::time::Duration;

use nbd::{ALLOCATION_CONTEXT, Export, NbdError, Patience, Stream, Uri};

use crate::seeds::texts;
use crate::{PLAIN_BYTES_MAX, Target};

const BITMAP_CONTEXT: &str = "qemu:dirty-bitmap:daily";
const ACK: u32 = 1;
const DETAIL: u32 = 3;
const CONTEXT: u32 = 4;
const UNSUPPORTED: u32 = (1 << 31) + 1;

pub(super) const NBD_URI: Target = Target {
    name: "nbd_uri",
    allocation_bytes_max: PLAIN_BYTES_MAX,
    seeds: || {
        texts(&[
            "nbd://example.com:99/disk%20one",
            "nbd://[fe80::1%25eth0]/",
            "nbd+unix:///disk?socket=/run/a%26b",
            "nbds://h/x?tls-type=psk#y",
        ])
    },
    check: check_uri,
};

pub(super) const NBD_SERVER: Target = Target {
    name: "nbd_server",
    allocation_bytes_max: PLAIN_BYTES_MAX,
    seeds: || vec![structured(), simple()],
    check: check_server,
};

fn check_uri(input: &[u8]) {
    if let Ok(uri) = Uri::parse(input) {
        let again = Uri::parse(uri.to_string().as_bytes()).expect("it was written");
        assert_eq!(again, uri);
    }
}

/// A server that sends an input, whatever it receives.
#[derive(Debug)]
struct Script(Cursor<Vec<u8>>);

impl Read for Script {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read(buffer)
    }
}

impl Write for Script {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
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

/// The input is what the server sends, from its greeting to its last reply.
fn check_server(input: &[u8]) {
    let stream = Box::new(Script(Cursor::new(input.to_vec())));
    let contexts = [ALLOCATION_CONTEXT, BITMAP_CONTEXT];
    let Ok(mut export) = Export::over(stream, b"disk", &contexts, Patience::default()) else {
        return;
    };
    assert!(export.size() < 1 << 63 && export.block_size_min().is_power_of_two());
    assert!(export.contexts().all(|context| contexts.contains(&context)));
    let mut content = vec![0; 2048];
    check_place(export.read_at(&mut content, 1024), 1024, 2048);
    check_status(&mut export);
    check_place(export.flush(), 0, 1);
    check_place(export.write_at(&content[..512], 512), 512, 512);
    check_place(export.read_at(&mut content[..100], 700), 700, 100);
}

/// Checks that an error names a place in the request, or in a block of its start or end.
fn check_place(outcome: Result<(), NbdError>, start: u64, bytes: u64) {
    const BLOCK_BYTES_MAX: u64 = 1 << 16;
    if let Err(NbdError::Failed { offset, .. }) = outcome {
        let end = (start + bytes).next_multiple_of(BLOCK_BYTES_MAX);
        assert!(offset < end, "{offset}");
    }
}

fn check_status(export: &mut Export) {
    let status = match export.block_status(1000, 3000) {
        Ok(status) => status,
        Err(error) => return check_place(Err(error), 1000, 3000),
    };
    assert_eq!(status.offset, 1000);
    assert!((1..=3000).contains(&status.bytes), "{status:?}");
    assert_eq!(status.by_context.len(), export.contexts().len());
    for list in &status.by_context {
        let mut next = status.offset;
        for part in list {
            assert!(part.offset == next && part.bytes > 0, "{status:?}");
            next += part.bytes;
        }
        assert_eq!(next, status.offset + status.bytes);
    }
}

/// Returns the bytes of a server with structured replies.
fn structured() -> Vec<u8> {
    let read = [&1024_u64.to_be_bytes()[..], &[7; 1536]].concat();
    let hole = [&2560_u64.to_be_bytes()[..], &512_u32.to_be_bytes()].concat();
    [
        greeting(),
        option_reply(8, ACK, b""),
        option_reply(10, CONTEXT, &[&[0, 0, 0, 5], ALLOCATION_CONTEXT.as_bytes()].concat()),
        option_reply(10, CONTEXT, &[&[0, 0, 0, 6], BITMAP_CONTEXT.as_bytes()].concat()),
        option_reply(10, ACK, b""),
        option_reply(7, DETAIL, b"\0\x03\0\0\x02\0\0\0\x10\0\x02\0\0\0"),
        option_reply(7, DETAIL, b"\0\0\0\0\0\0\0\x10\0\0\0\x45"),
        option_reply(7, ACK, b""),
        chunk(0, 2, 1, &hole),
        chunk(0, 1, 1, &read),
        chunk(1, 0, 1, b""),
        chunk(0, 5, 2, b"\0\0\0\x05\0\0\x04\0\0\0\0\x03\0\0\x10\0\0\0\0\0"),
        chunk(1, 5, 2, b"\0\0\0\x06\0\0\x08\0\0\0\0\x01"),
        chunk(1, 0, 3, b""),
        simple_reply(0, 4),
        chunk(1, 0x8002, 5, b"\0\0\0\x05\0\x03bad\0\0\0\0\0\0\x02\xbc"),
    ]
    .concat()
}

/// Returns the bytes of an old server.
fn simple() -> Vec<u8> {
    [
        greeting(),
        option_reply(8, UNSUPPORTED, b"what?"),
        option_reply(7, UNSUPPORTED, b""),
        b"\0\0\0\0\0\x10\0\0\0\x05".to_vec(),
        simple_reply(0, 1),
        vec![7; 2048],
        simple_reply(28, 2),
        simple_reply(0, 3),
        simple_reply(5, 4),
    ]
    .concat()
}

fn greeting() -> Vec<u8> {
    b"NBDMAGICIHAVEOPT\0\x03".to_vec()
}

fn option_reply(option: u32, kind: u32, data: &[u8]) -> Vec<u8> {
    let length = u32::try_from(data.len()).expect("a short text");
    let numbers = [option, kind, length].map(u32::to_be_bytes).concat();
    [&0x0003_e889_0455_65a9_u64.to_be_bytes()[..], &numbers, data].concat()
}

fn chunk(flags: u16, kind: u16, cookie: u64, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).expect("a short payload");
    let (flags, kind) = (flags.to_be_bytes(), kind.to_be_bytes());
    let start = [&0x668e_33ef_u32.to_be_bytes()[..], &flags, &kind, &cookie.to_be_bytes()];
    [&start.concat()[..], &length.to_be_bytes(), payload].concat()
}

fn simple_reply(error: u32, cookie: u64) -> Vec<u8> {
    let start = [0x6744_6698, error].map(u32::to_be_bytes).concat();
    [&start[..], &cookie.to_be_bytes()].concat()
}
