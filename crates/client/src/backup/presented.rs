//! References of a page change to its objects' data: places, grants and quanta.

use std::collections::BTreeSet;

use model::{ChunkRange, Extent, PlaceCode as _, SessionPlace};
use wire::Grant;

use super::chunks::{ChunkRef, Chunks};
use super::read::{Content, Part};
use crate::link::backup::{ChunkSource, KnownContent};

/// Grants that a change presents, and quanta that it refers to, while they are collected.
pub(super) struct ChangeBuilder<'a> {
    chunks: &'a Chunks<'a>,
    pub(super) grants: Vec<u8>,
    pub(super) known: Vec<KnownContent>,
    pub(super) quanta: BTreeSet<u64>,
}

impl<'a> ChangeBuilder<'a> {
    pub(super) fn new(chunks: &'a Chunks<'a>) -> Self {
        Self { chunks, grants: Vec::new(), known: Vec::new(), quanta: BTreeSet::new() }
    }

    /// Makes the extents of a content, and collects their grants and quanta.
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
        let ChunkRef { digest, source } = self.chunks.present(chunk);
        match source {
            ChunkSource::Sent(place) => {
                if let SessionPlace::Sent { quantum, .. } = place {
                    self.quanta.insert(quantum);
                }
                place
            }
            ChunkSource::Granted(proof) => {
                let grant = self.grants.len() / wire::GRANT_BYTES;
                let grant = u32::try_from(grant).expect("a page holds fewer chunks");
                wire::encode_grant(&mut self.grants, &Grant { digest, proof });
                SessionPlace::Granted { grant }
            }
        }
    }
}

/// Adds a chunk. If its place follows the last run, it becomes part of that run.
fn push(extents: &mut Vec<Extent<SessionPlace>>, place: SessionPlace) {
    if let Some(Extent::Chunks(ChunkRange { first, count })) = extents.last_mut()
        && first.code() + u64::from(*count) == place.code()
    {
        *count += 1;
        return;
    }
    extents.push(Extent::Chunks(ChunkRange { first: place, count: 1 }));
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use chunk::DomainKey;
    use model::{ChunkDigest, GrantProof};

    use super::*;
    use crate::cache::Cache;

    fn sent(quantum: u64, index: u32) -> ChunkRef {
        let source = ChunkSource::Sent(SessionPlace::Sent { quantum, index });
        ChunkRef { digest: ChunkDigest([0; 32]), source }
    }

    fn granted(byte: u8) -> ChunkRef {
        let source = ChunkSource::Granted(GrantProof([byte; 16]));
        ChunkRef { digest: ChunkDigest([2; 32]), source }
    }

    fn run(first: SessionPlace, count: u32) -> Extent<SessionPlace> {
        Extent::Chunks(ChunkRange { first, count })
    }

    /// Checks the extents that `parts` become, and their grants and quanta.
    #[track_caller]
    fn check(parts: &[Part], extents: &[Extent<SessionPlace>], grants: usize, quanta: &[u64]) {
        let key = DomainKey::new([1; 32]);
        let cache = Cache::open(Path::new("/nowhere/cache"), 0);
        let chunks = Chunks::with_key(&key, &cache, true, None);
        let mut change = ChangeBuilder::new(&chunks);
        let content = Content { parts: parts.to_vec(), data_bytes: 0 };
        assert_eq!(change.extents(&content), extents);
        assert_eq!(change.grants.len(), grants * wire::GRANT_BYTES);
        assert!(change.quanta.iter().eq(quanta));
    }

    #[test]
    fn neighbours_become_one_run() {
        let place = |quantum, index| SessionPlace::Sent { quantum, index };
        let parts = [sent(3, 0), sent(3, 1), sent(3, 5), sent(4, 0)].map(Part::Chunk);
        let extents = [run(place(3, 0), 2), run(place(3, 5), 1), run(place(4, 0), 1)];
        check(&parts, &extents, 0, &[3, 4]);
    }

    #[test]
    fn grants_are_numbered_as_they_are_presented() {
        let parts = [Part::Chunk(granted(7)), Part::Hole { bytes: 9 }, Part::Chunk(granted(20))];
        let place = |grant| SessionPlace::Granted { grant };
        let extents = [run(place(0), 1), Extent::Hole { bytes: 9 }, run(place(1), 1)];
        check(&parts, &extents, 2, &[]);
    }

    #[test]
    fn an_encrypted_chunk_stands_alone() {
        let parts = [Part::Sealed { chunk: sent(0, 0), bytes: 10 }, Part::Chunk(sent(0, 1))];
        let place = |index| SessionPlace::Sent { quantum: 0, index };
        let sealed = Extent::Sealed { place: place(0), bytes: 10 };
        check(&parts, &[sealed, run(place(1), 1)], 0, &[0]);
    }
}
