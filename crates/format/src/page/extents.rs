//! The column of contents: the places of the chunks of each file whose size is not 0.
//!
//! Neighbours in a directory are usually neighbours in a pack, so each run of chunks is given
//! relative to the end of the run before it, which costs one byte for a small file. Per file: the
//! number of its extents; 0 stands for a single chunk right after the run before. Per extent a
//! varint:
//!
//! | lowest 2 bits | rest | follows | extent |
//! |---|---|---|---|
//! | 0 next | chunk count | | chunks right after the end of the run before |
//! | 1 far | chunk count | signed difference | chunks at that distance from that end |
//! | 2 hole | reserved: 0 | bytes | zeros |
//! | 3 sealed | 0 next, 1 far | signed difference if far, bytes | one encrypted chunk |

use model::{ChunkRange, Extent, Kind, Object, Payload, PlaceCode};

use super::columns::take;
use crate::budget::Budget;
use crate::bytes::RESERVED;
use crate::{DamageError, Reader, Writer};

const NEXT: u64 = 0;
const FAR: u64 = 1;
const HOLE: u64 = 2;
const SEALED: u64 = 3;

fn has_extents<P>(object: &Object<P>) -> bool {
    object.stat.kind == Kind::File && object.stat.size > 0
}

pub(super) fn encode<P: PlaceCode>(writer: &mut Writer, objects: &[Object<P>]) {
    let mut next = 0_u64;
    for object in objects {
        match &object.payload {
            Payload::Extents(extents) => {
                assert!(
                    has_extents(object) && !extents.is_empty(),
                    "only files with content have extents"
                );
                encode_file(writer, extents, &mut next);
            }
            Payload::Nothing | Payload::Target(_) => {
                assert!(!has_extents(object), "a file with content has extents");
                let target = matches!(object.payload, Payload::Target(_));
                assert_eq!(target, object.stat.kind == Kind::Symlink, "symlinks have targets");
            }
        }
    }
}

fn encode_file<P: PlaceCode>(writer: &mut Writer, extents: &[Extent<P>], next: &mut u64) {
    if let [Extent::Chunks(ChunkRange { first, count: 1 })] = extents
        && first.code() == *next
    {
        writer.varint(0);
        *next = next.wrapping_add(1);
        return;
    }
    writer.varint(extents.len() as u64);
    for extent in extents {
        match extent {
            Extent::Hole { bytes } => {
                writer.varint(HOLE);
                writer.varint(*bytes);
            }
            Extent::Sealed { place, bytes } => {
                let far = place.code() != *next;
                writer.varint(u64::from(far) << 2 | SEALED);
                if far {
                    writer.signed(place.code().wrapping_sub(*next).cast_signed());
                }
                writer.varint(u64::from(*bytes));
                *next = place.code().wrapping_add(1);
            }
            Extent::Chunks(ChunkRange { first, count }) => {
                assert!(*count > 0, "no run is empty");
                let far = first.code() != *next;
                writer.varint(u64::from(*count) << 2 | if far { FAR } else { NEXT });
                if far {
                    writer.signed(first.code().wrapping_sub(*next).cast_signed());
                }
                *next = first.code().wrapping_add(u64::from(*count));
            }
        }
    }
}

/// Reads the extents into those `objects` that have extents.
pub(super) fn decode<P: PlaceCode>(
    reader: &mut Reader<'_>,
    mut objects: Vec<Object<P>>,
    budget: &Budget,
) -> Result<Vec<Object<P>>, DamageError> {
    let mut next = 0_u64;
    for object in objects.iter_mut().filter(|object| has_extents(object)) {
        object.payload = Payload::Extents(decode_file(reader, &mut next, budget)?);
    }
    Ok(objects)
}

fn decode_file<P: PlaceCode>(
    reader: &mut Reader<'_>,
    next: &mut u64,
    budget: &Budget,
) -> Result<Vec<Extent<P>>, DamageError> {
    let extent_count = reader.count()?;
    take(reader, budget, extent_count.max(1), size_of::<Extent<P>>())?;
    if extent_count == 0 {
        return Ok(vec![chunks(reader, next, 1)?]);
    }
    let mut extents = Vec::with_capacity(extent_count);
    for _ in 0..extent_count {
        extents.push(decode_extent(reader, next)?);
    }
    Ok(extents)
}

fn decode_extent<P: PlaceCode>(
    reader: &mut Reader<'_>,
    next: &mut u64,
) -> Result<Extent<P>, DamageError> {
    let tag = reader.varint()?;
    match tag & 3 {
        NEXT => chunks(reader, next, tag >> 2),
        FAR => {
            *next = next.wrapping_add(reader.signed()?.cast_unsigned());
            chunks(reader, next, tag >> 2)
        }
        HOLE if tag != HOLE => Err(reader.damaged(RESERVED)),
        HOLE => Ok(Extent::Hole { bytes: reader.varint()? }),
        _ => sealed(reader, next, tag >> 2),
    }
}

fn sealed<P: PlaceCode>(
    reader: &mut Reader<'_>,
    next: &mut u64,
    far: u64,
) -> Result<Extent<P>, DamageError> {
    match far {
        0 => {}
        1 => *next = next.wrapping_add(reader.signed()?.cast_unsigned()),
        _ => return Err(reader.damaged("unknown kind of extent")),
    }
    let place = P::from_code(*next).ok_or_else(|| reader.damaged("an impossible place"))?;
    *next = next.wrapping_add(1);
    Ok(Extent::Sealed { place, bytes: reader.number()? })
}

fn chunks<P: PlaceCode>(
    reader: &Reader<'_>,
    next: &mut u64,
    count: u64,
) -> Result<Extent<P>, DamageError> {
    let first = P::from_code(*next).ok_or_else(|| reader.damaged("an impossible place"))?;
    let last = next.checked_add(count).and_then(|end| P::from_code(end - u64::from(count > 0)));
    match u32::try_from(count) {
        Ok(count @ 1..) if last.is_some() => {
            *next += u64::from(count);
            Ok(Extent::Chunks(ChunkRange { first, count }))
        }
        _ => Err(reader.damaged("an impossible run of chunks")),
    }
}
