//! A node that was broken into: messages that no client of Holdfast sends, made byte by byte, from
//! a machine that has the certificate of the node.
//!
//! The messages are those of `holdfast.proto`, and the pages those of `docs/format/page.md`.
//! Nothing here shares code with the program.

use std::path::Path;

use xxhash_rust::xxh3::xxh3_64;

use crate::harness::{Node, Server};
use crate::transcript::end_of_call;

/// Path of the method that backs up.
pub const BACKUP: &str = "/holdfast.v1.Node/Backup";

/// A client with the certificate of a node, which follows no limit.
#[derive(Clone, Copy, Debug)]
pub struct Intruder<'a> {
    home: &'a Path,
    port: u16,
}

impl<'a> Intruder<'a> {
    /// Takes the certificate of `node`.
    pub fn of(server: &Server, node: &'a Node) -> Self {
        Self { home: node.home(), port: server.port() }
    }

    /// Calls a method of the server with `messages`. Returns the status: code, space, text.
    pub fn call(&self, path: &str, messages: &[Vec<u8>]) -> String {
        end_of_call(self.home, self.port, path, messages)
    }

    /// Opens a session of the filespace `name`, and sends `messages`. Returns the status.
    pub fn back_up(&self, name: &[u8], messages: &[Vec<u8>]) -> String {
        let opened = [&[open(name)][..], messages].concat();
        self.call(BACKUP, &opened)
    }
}

fn varint(mut value: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while value >= 0x80 {
        bytes.push(value.to_le_bytes()[0] | 0x80);
        value >>= 7;
    }
    bytes.push(value.to_le_bytes()[0]);
    bytes
}

/// A field that has bytes or a message.
pub fn field(number: u64, content: &[u8]) -> Vec<u8> {
    [&varint(number << 3 | 2)[..], &varint(content.len() as u64), content].concat()
}

/// A field that has a number.
pub fn number_field(number: u64, value: u64) -> Vec<u8> {
    [varint(number << 3), varint(value)].concat()
}

/// The message that opens a session.
pub fn open(filespace: &[u8]) -> Vec<u8> {
    field(1, &field(1, filespace))
}

/// The message of a quantum.
pub fn quantum(number: u64, record: &[u8]) -> Vec<u8> {
    field(2, &[number_field(1, number), field(2, record)].concat())
}

/// A message of changes.
pub fn changes(changes: &[Vec<u8>]) -> Vec<u8> {
    let changes: Vec<u8> = changes.iter().flat_map(|change| field(1, change)).collect();
    field(3, &changes)
}

/// A change of the first page of `directory`, with a page of new states.
pub fn change(directory: &[u8], backed_up: &[u8]) -> Vec<u8> {
    [field(1, directory), field(3, backed_up), field(7, b"")].concat()
}

/// The message that ends a transaction.
pub fn commit(number: u64) -> Vec<u8> {
    field(4, &number_field(1, number))
}

/// The message that ends a session.
pub fn close(report: &[u8]) -> Vec<u8> {
    field(5, &field(2, report))
}

/// The record of a quantum of `chunks` chunks of one byte.
pub fn record_of_bytes(chunks: u32) -> Vec<u8> {
    let count = chunks.to_le_bytes();
    let mut record = [&b"HFQ1\0\0\0\0"[..], &count, &count, &count, &count].concat();
    let body = [vec![1; chunks as usize], vec![0; chunks as usize]].concat();
    let checksum = xxh3_64(&[&record[..], &body].concat());
    record.extend(checksum.to_le_bytes());
    [record, body].concat()
}

/// Columns of a page with one object `a` of this kind, up to its attributes.
fn object(kind: u8) -> Vec<u8> {
    vec![1, 0, 1, b'a', 1, kind, 0, 0, 0, 0]
}

/// The page of one file of `chunks` bytes, in a run of `chunks` chunks that begins with the first
/// chunk of quantum 0.
pub fn page_of_a_run(chunks: u32) -> Vec<u8> {
    let after_run = 2;
    let body = [
        object(0),
        vec![1, 0, 0, 0],
        varint(u64::from(chunks)),
        vec![0; 6],
        vec![1],
        varint(u64::from(chunks) << after_run),
    ]
    .concat();
    page(0, &body, &body)
}

/// The page of one FIFO with an extended attribute of `bytes` zeros. The page is compressed to
/// about one byte in 30,000.
pub fn page_of_zeros(bytes: u32) -> Vec<u8> {
    let before = [object(3), vec![1, 0, 1, 6], b"user.a".to_vec(), varint(bytes.into())].concat();
    let after = vec![0; 8];
    let body = [&before[..], &vec![0; bytes as usize], &after].concat();
    let length = u32::try_from(body.len()).expect("a page is short");
    let mut frame = vec![0x28, 0xb5, 0x2f, 0xfd, 0xa0];
    frame.extend(length.to_le_bytes());
    let block = |frame: &mut Vec<u8>, kind: u32, bytes: u32, content: &[u8]| {
        frame.extend_from_slice(&(bytes << 3 | kind << 1).to_le_bytes()[..3]);
        frame.extend_from_slice(content);
    };
    let plain = u32::try_from(before.len()).expect("a page is short");
    block(&mut frame, 0, plain, &before);
    let mut zeros = length - plain;
    while zeros > 0 {
        let run = zeros.min(BLOCK_BYTES_MAX);
        block(&mut frame, 1, run, &[0]);
        zeros -= run;
    }
    // A block without content ends the frame.
    frame.extend([1, 0, 0]);
    page(1, &body, &frame)
}

/// Maximum number of bytes of a block of zstd.
const BLOCK_BYTES_MAX: u32 = 128 << 10;

fn page(codec: u8, body: &[u8], payload: &[u8]) -> Vec<u8> {
    [&[1, codec][..], &xxh3_64(body).to_le_bytes()[..4], payload].concat()
}
