//! A directory page: up to 512 objects of one directory, sorted by name, encoded by columns.
//!
//! ```text
//! offset  bytes  field
//!      0      1  format version (1)
//!      1      1  codec of the body: 0 stored, 1 zstd
//!      2      4  low half of the xxh3-64 of the body, before compression
//!      6      -  body
//! ```
//! The body is a sequence of columns, all in the order of the objects' names. Numbers are varints;
//! signed numbers are zigzag:
//!
//! | column | per | content |
//! |---|---|---|
//! | count | page | number of objects |
//! | name prefixes | object | bytes shared with the name before |
//! | name suffix lengths | object | |
//! | name suffixes | object | bytes after the shared ones |
//! | dictionary of owners | page | count, then kind, mode, uid, gid, class of each |
//! | owners | object | index into the dictionary; absent when that has one entry |
//! | dictionary of attributes | page | count, then flags, xattr count, names and values of each |
//! | attributes | object | index into the dictionary; absent when that has one entry |
//! | linked | 8 objects | one bit for each object, lowest first |
//! | size | object | |
//! | mtime seconds | object | signed difference from the object before |
//! | mtime nanoseconds | object | |
//! | ctime seconds, nanoseconds | object | signed differences from the object before |
//! | inode | object | signed difference from the object before |
//! | inserted | object | signed difference from the object before, microseconds |
//! | device | device node | |
//! | target | symlink | length, bytes |
//! | extents | file of size > 0 | see `page/extents.rs` |

mod columns;
mod extents;

use model::{Object, PlaceCode};
use std::cell::RefCell;
use zstd::bulk::{Compressor, Decompressor};

use crate::{DamageError, Reader, Writer};

const VERSION: u8 = 1;
const HEADER_BYTES: usize = 6;
/// Minimum length of a body that is compressed, in bytes. Compression gains nothing on a shorter
/// body.
const COMPRESS_BYTES_MIN: usize = 128;
const COMPRESSION_LEVEL: i32 = 3;
/// Maximum length of a page body before compression, in bytes: 512 objects with large attributes.
pub const BODY_BYTES_MAX: usize = 64 << 20;

thread_local! {
    // A new context takes long to make, so each thread keeps its own context.
    static COMPRESSOR: RefCell<Option<Compressor<'static>>> = const { RefCell::new(None) };
    static DECOMPRESSOR: RefCell<Option<Decompressor<'static>>> = const { RefCell::new(None) };
}

/// Encodes `objects`, which must be sorted by name, without duplicates. A page for a catalogue must
/// have at most `model::PAGE_OBJECTS_MAX` objects.
pub fn encode<P: PlaceCode>(objects: &[Object<P>]) -> Vec<u8> {
    assert!(objects.is_sorted_by(|a, b| a.name < b.name), "a page is sorted by name");
    let mut writer = Writer::new();
    writer.varint(objects.len() as u64);
    columns::encode(&mut writer, objects);
    extents::encode(&mut writer, objects);
    let body = writer.finish();
    assert!(body.len() <= BODY_BYTES_MAX, "callers split pages by bytes too");
    seal(&body)
}

fn seal(body: &[u8]) -> Vec<u8> {
    let compressed = if body.len() >= COMPRESS_BYTES_MIN { compress(body) } else { None };
    let (codec, payload) = match &compressed {
        Some(compressed) if compressed.len() < body.len() => (1, compressed.as_slice()),
        _ => (0, body),
    };
    let mut page = Vec::with_capacity(HEADER_BYTES + payload.len());
    page.extend_from_slice(&[VERSION, codec]);
    page.extend_from_slice(&checksum(body));
    page.extend_from_slice(payload);
    page
}

fn compress(body: &[u8]) -> Option<Vec<u8>> {
    COMPRESSOR.with_borrow_mut(|slot| {
        if slot.is_none() {
            *slot = Compressor::new(COMPRESSION_LEVEL).ok();
        }
        slot.as_mut()?.compress(body).ok()
    })
}

fn checksum(body: &[u8]) -> [u8; 4] {
    let [a, b, c, d, ..] = xxhash_rust::xxh3::xxh3_64(body).to_le_bytes();
    [a, b, c, d]
}

/// Decodes a page. Returns its objects, sorted by name.
pub fn decode<P: PlaceCode>(page: &[u8]) -> Result<Vec<Object<P>>, DamageError> {
    let body = open(page)?;
    let mut reader = Reader::new(&body, "page");
    let count = reader.count()?;
    let objects = columns::decode(&mut reader, count)?;
    let objects = extents::decode(&mut reader, objects)?;
    reader.end()?;
    Ok(objects)
}

/// Decodes a page except the column of contents. In the result, files whose size is not 0 have no
/// extents.
pub fn decode_without_contents<P: PlaceCode>(page: &[u8]) -> Result<Vec<Object<P>>, DamageError> {
    let body = open(page)?;
    let mut reader = Reader::new(&body, "page");
    let count = reader.count()?;
    columns::decode(&mut reader, count)
}

fn open(page: &[u8]) -> Result<Vec<u8>, DamageError> {
    let mut reader = Reader::new(page, "page");
    if reader.u8()? != VERSION {
        return Err(DamageError::page("unknown version"));
    }
    let codec = reader.u8()?;
    let expected = reader.array::<4>()?;
    let body = match codec {
        0 => reader.rest().to_vec(),
        1 => decompress(reader.rest())?,
        _ => return Err(DamageError::page("unknown codec")),
    };
    if checksum(&body) == expected {
        Ok(body)
    } else {
        Err(DamageError::page("its checksum differs"))
    }
}

fn decompress(payload: &[u8]) -> Result<Vec<u8>, DamageError> {
    let capacity = Decompressor::upper_bound(payload)
        .filter(|&bytes| bytes <= BODY_BYTES_MAX)
        .ok_or(DamageError::page("its size is not stated or too large"))?;
    let decompressed = DECOMPRESSOR.with_borrow_mut(|slot| {
        if slot.is_none() {
            *slot = Decompressor::new().ok();
        }
        slot.as_mut()?.decompress(payload, capacity).ok()
    });
    decompressed.ok_or(DamageError::page("it cannot be decompressed"))
}
