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
mod weight;

pub use weight::{EXTENT_BYTES, weight};

use model::{Object, PAGE_OBJECTS_MAX, PlaceCode};
use std::cell::RefCell;
use zstd::bulk::{Compressor, Decompressor};

use crate::budget::Budget;
use crate::{DamageError, Reader, Writer};

const VERSION: u8 = 1;
const HEADER_BYTES: usize = 6;
/// Minimum length of a body that is compressed, in bytes. Compression gains nothing on a shorter
/// body.
const COMPRESS_BYTES_MIN: usize = 128;
const COMPRESSION_LEVEL: i32 = 3;
/// Maximum length of a page body before compression, in bytes: 512 objects with large attributes.
pub const BODY_BYTES_MAX: usize = 64 << 20;
/// Maximum number of objects in a page. Pages have more than [`PAGE_OBJECTS_MAX`] objects only
/// while deletions are withheld.
pub const OBJECTS_MAX: usize = 8 * PAGE_OBJECTS_MAX;

thread_local! {
    // A new context takes long to make, so each thread keeps its own context.
    static COMPRESSOR: RefCell<Option<Compressor<'static>>> = const { RefCell::new(None) };
    static DECOMPRESSOR: RefCell<Option<Decompressor<'static>>> = const { RefCell::new(None) };
}

/// The objects do not fit into one page.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("the objects need more than {BODY_BYTES_MAX} bytes in a page")]
pub struct PageFull;

/// Encodes `objects`, which must be sorted by name, without duplicates, and fit into a page.
/// Objects of one page always fit, in any number. A page for a catalogue must have at most
/// `model::PAGE_OBJECTS_MAX` objects.
pub fn encode<P: PlaceCode>(objects: &[Object<P>]) -> Vec<u8> {
    try_encode(objects).expect("callers add no objects that do not fit")
}

/// Encodes objects as [`encode`] does, if they fit into a page. They fit if their [`weight`] is at
/// most [`BODY_BYTES_MAX`].
pub fn try_encode<P: PlaceCode>(objects: &[Object<P>]) -> Result<Vec<u8>, PageFull> {
    assert!(objects.is_sorted_by(|a, b| a.name < b.name), "a page is sorted by name");
    let mut writer = Writer::new();
    writer.varint(objects.len() as u64);
    columns::encode(&mut writer, objects);
    extents::encode(&mut writer, objects);
    let body = writer.finish();
    debug_assert!(body.len() <= weight(objects), "a weight is an upper bound");
    if body.len() <= BODY_BYTES_MAX { Ok(seal(&body)) } else { Err(PageFull) }
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

/// Decodes a page that a server has made. Returns its objects, sorted by name. A page in the answer
/// to a selection may have any number of objects.
pub fn decode<P: PlaceCode>(page: &[u8]) -> Result<Vec<Object<P>>, DamageError> {
    decode_objects(page, &Budget::unlimited(), usize::MAX)
}

/// Decodes a page of a node. It has at most [`OBJECTS_MAX`] objects, whose memory is taken from
/// `budget` before they are made. So the page cannot expand without bound.
pub fn decode_within<P: PlaceCode>(
    page: &[u8],
    budget: &Budget,
) -> Result<Vec<Object<P>>, DamageError> {
    decode_objects(page, budget, OBJECTS_MAX)
}

fn decode_objects<P: PlaceCode>(
    page: &[u8],
    budget: &Budget,
    objects_max: usize,
) -> Result<Vec<Object<P>>, DamageError> {
    let body = open(page, budget.left())?;
    let mut reader = Reader::new(&body, "page");
    let count = reader.count()?;
    if count > objects_max {
        return Err(DamageError::page("it has more objects than a page may have"));
    }
    let objects = columns::decode(&mut reader, count, budget)?;
    let objects = extents::decode(&mut reader, objects, budget)?;
    reader.end()?;
    Ok(objects)
}

/// Decodes a page except the column of contents. In the result, files whose size is not 0 have no
/// extents.
pub fn decode_without_contents<P: PlaceCode>(page: &[u8]) -> Result<Vec<Object<P>>, DamageError> {
    let body = open(page, BODY_BYTES_MAX)?;
    let mut reader = Reader::new(&body, "page");
    let count = reader.count()?;
    columns::decode(&mut reader, count, &Budget::unlimited())
}

/// Returns the body, which may have `bytes_max` bytes.
fn open(page: &[u8], bytes_max: usize) -> Result<Vec<u8>, DamageError> {
    let mut reader = Reader::new(page, "page");
    if reader.u8()? != VERSION {
        return Err(DamageError::page("unknown version"));
    }
    let codec = reader.u8()?;
    let expected = reader.array::<4>()?;
    let body = match codec {
        0 => reader.rest().to_vec(),
        1 => decompress(reader.rest(), bytes_max.min(BODY_BYTES_MAX))?,
        _ => return Err(DamageError::page("unknown codec")),
    };
    if checksum(&body) == expected {
        Ok(body)
    } else {
        Err(DamageError::page("its checksum differs"))
    }
}

fn decompress(payload: &[u8], bytes_max: usize) -> Result<Vec<u8>, DamageError> {
    let capacity = Decompressor::upper_bound(payload)
        .filter(|&bytes| bytes <= bytes_max)
        .ok_or(DamageError::page("its size is not stated or too large"))?;
    let decompressed = DECOMPRESSOR.with_borrow_mut(|slot| {
        if slot.is_none() {
            *slot = Decompressor::new().ok();
        }
        slot.as_mut()?.decompress(payload, capacity).ok()
    });
    decompressed.ok_or(DamageError::page("it cannot be decompressed"))
}
