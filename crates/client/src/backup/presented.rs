//! What a page change says of its objects' data: places, grants, and the quanta that it waits for.

use std::collections::BTreeSet;

use model::{ChunkRange, Extent, PlaceCode as _, SessionPlace};
use wire::{Grant, proto};

use super::data::{At, ChunkRef, Chunks};
use super::read::{Content, Part};

/// The grants that a change presents and the quanta that it refers to.
pub(super) struct ChangeBuilder<'a> {
    chunks: &'a Chunks<'a>,
    pub(super) grants: Vec<u8>,
    pub(super) known: Vec<proto::KnownContent>,
    pub(super) quanta: BTreeSet<u64>,
}

impl<'a> ChangeBuilder<'a> {
    pub(super) fn new(chunks: &'a Chunks<'a>) -> Self {
        Self { chunks, grants: Vec::new(), known: Vec::new(), quanta: BTreeSet::new() }
    }

    pub(super) fn extents(&mut self, content: &Content) -> Vec<Extent<SessionPlace>> {
        let mut extents: Vec<Extent<SessionPlace>> = Vec::new();
        for part in &content.parts {
            match part {
                Part::Hole { bytes } => extents.push(Extent::Hole { bytes: *bytes }),
                Part::Chunk(chunk) => push(&mut extents, self.place(*chunk)),
                Part::Sealed { chunk, bytes } => {
                    extents.push(Extent::Sealed { place: self.place(*chunk), bytes: *bytes });
                }
            }
        }
        extents
    }

    fn place(&mut self, chunk: ChunkRef) -> SessionPlace {
        let ChunkRef { digest, at } = self.chunks.present(chunk);
        match at {
            At::Sent(place) => {
                if let SessionPlace::Sent { quantum, .. } = place {
                    self.quanta.insert(quantum);
                }
                place
            }
            At::Granted(place, mac) => {
                let grant = self.grants.len() / wire::GRANT_BYTES;
                let grant = u32::try_from(grant).expect("a page holds fewer chunks");
                wire::encode_grant(&mut self.grants, &Grant { digest, place, mac });
                SessionPlace::Granted { grant }
            }
        }
    }
}

/// Adds a chunk, to the last run where it is its neighbour.
fn push(extents: &mut Vec<Extent<SessionPlace>>, place: SessionPlace) {
    if let Some(Extent::Chunks(ChunkRange { first, count })) = extents.last_mut()
        && first.code() + u64::from(*count) == place.code()
    {
        *count += 1;
        return;
    }
    extents.push(Extent::Chunks(ChunkRange { first: place, count: 1 }));
}
