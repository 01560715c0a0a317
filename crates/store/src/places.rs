//! Places of an object's chunks: listing them, and joining them to runs.

use model::{ChunkRange, Extent, Object, Payload, Place, PlaceCode as _};

/// Returns the places of an object's chunks, in order.
pub(crate) fn places(object: &Object) -> impl Iterator<Item = Place> {
    let extents = match &object.payload {
        Payload::Extents(extents) => extents.as_slice(),
        Payload::Nothing | Payload::Target(_) => &[],
    };
    extents.iter().flat_map(|extent| {
        let (first, count) = match extent.chunks() {
            Some(range) => (range.first.code(), u64::from(range.count)),
            None => (0, 0),
        };
        (0..count).filter_map(move |offset| Place::from_code(first + offset))
    })
}

/// Adds the chunk at `place` to the last run, if the chunk follows it. Otherwise begins a new run.
pub(crate) fn push_chunk(extents: &mut Vec<Extent>, place: Place) {
    if let Some(Extent::Chunks(range)) = extents.last_mut()
        && range.first.code() + u64::from(range.count) == place.code()
        && range.first.pack() == place.pack()
    {
        range.count += 1;
        return;
    }
    extents.push(Extent::Chunks(ChunkRange { first: place, count: 1 }));
}
