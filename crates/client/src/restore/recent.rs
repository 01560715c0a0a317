//! Recently received quanta. Small files that were stored together lie in one quantum, but may be
//! recalled or restored one by one.

use std::collections::VecDeque;
use std::sync::Arc;

use chunk::{DomainKey, RawQuantum, SealKey, Unsealer};
use sys::lock::Mutex;

use crate::link::versions::Piece;

/// Usual maximum number of quanta of a memory, of at most 2 MiB each.
const QUANTA_MAX: usize = 16;

/// Quantum that was received and decompressed. Its chunks are checked when they are used.
pub(crate) struct RecentQuantum {
    pub(crate) first_place: u64,
    pub(crate) raw: RawQuantum,
    /// Digests of the quantum's chunks, 32 bytes each.
    pub(crate) digests: Vec<u8>,
}

/// Memory of quanta.
pub(crate) struct RecentQuanta {
    /// Maximum number of quanta.
    quanta_max: usize,
    /// The quanta, the last used one first.
    quanta: Mutex<VecDeque<Arc<RecentQuantum>>>,
}

impl Default for RecentQuanta {
    fn default() -> Self {
        Self::of(QUANTA_MAX)
    }
}

impl RecentQuanta {
    /// Makes a memory of at most `quanta_max` quanta.
    pub(crate) fn of(quanta_max: usize) -> Self {
        Self { quanta_max, quanta: Mutex::default() }
    }

    /// Keeps `quantum`. Returns the room of a quantum that is not kept any more, if there is one:
    /// new memory is expensive.
    pub(crate) fn put(&self, quantum: RecentQuantum) -> Option<RawQuantum> {
        assert_eq!(
            quantum.digests.len(),
            quantum.raw.lengths().len() * 32,
            "one digest for each chunk"
        );
        let mut quanta = self.quanta.lock();
        let known = quanta.iter().position(|known| known.first_place == quantum.first_place);
        let replaced = known.and_then(|at| quanta.remove(at));
        quanta.push_front(Arc::new(quantum));
        let dropped = match replaced {
            None if quanta.len() > self.quanta_max => quanta.pop_back(),
            replaced => replaced,
        };
        assert!(quanta.len() <= self.quanta_max, "one quantum has come and one has gone");
        // The last reader of a quantum gives its room back to the system.
        dropped.and_then(Arc::into_inner).map(|quantum| quantum.raw)
    }

    /// Returns the contents of all `pieces`, if the memory has all of them.
    pub(crate) fn contents(
        &self,
        pieces: &[Piece],
        key: &DomainKey,
        seal_keys: &[SealKey],
    ) -> Option<Vec<Vec<u8>>> {
        let whole = |piece: &Piece| {
            let content = self.content(piece, key, seal_keys)?;
            (content.len() == piece.bytes as usize).then_some(content)
        };
        pieces.iter().map(whole).collect()
    }

    /// Returns the content of `piece`, if its quantum is in the memory and the chunk is undamaged.
    pub(crate) fn content(
        &self,
        piece: &Piece,
        key: &DomainKey,
        seal_keys: &[SealKey],
    ) -> Option<Vec<u8>> {
        let quantum = self.holding(piece.place)?;
        let index = usize::try_from(piece.place - quantum.first_place).ok()?;
        let chunk = quantum.raw.chunks().nth(index)?;
        let digest = quantum.digests.get(index * 32..(index + 1) * 32)?;
        if key.digest(chunk).0 != *digest {
            return None;
        }
        if !piece.is_sealed {
            return Some(chunk.to_vec());
        }
        Unsealer::new(seal_keys).ok()?.unseal(chunk, piece.bytes as usize).ok()
    }

    fn holding(&self, place: u64) -> Option<Arc<RecentQuantum>> {
        let mut quanta = self.quanta.lock();
        let holds = |known: &Arc<RecentQuantum>| {
            let end = known.first_place + known.raw.lengths().len() as u64;
            (known.first_place..end).contains(&place)
        };
        let at = quanta.iter().position(holds)?;
        let quantum = quanta.remove(at)?;
        quanta.push_front(Arc::clone(&quantum));
        let is_bounded = quanta.len() <= self.quanta_max;
        assert!(is_bounded, "a quantum that is found takes its own place again");
        Some(quantum)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn quantum(first_place: u64, chunks: &[&[u8]], key: &DomainKey) -> RecentQuantum {
        let mut raw = RawQuantum::default();
        chunks.iter().for_each(|chunk| _ = raw.push(chunk));
        let digests = chunks.iter().flat_map(|chunk| key.digest(chunk).0).collect();
        RecentQuantum { first_place, raw, digests }
    }

    #[test]
    fn what_came_lately_is_found_and_checked() {
        let key = DomainKey::new([1; 32]);
        let piece = |place| Piece { place, offset: 0, bytes: 3, is_sealed: false };
        let recent = RecentQuanta::default();
        let content = |place| recent.content(&piece(place), &key, &[]);
        recent.put(quantum(10, &[b"abc", b"def"], &key));
        assert_eq!(content(11).as_deref(), Some(&b"def"[..]));
        assert_eq!((content(9), content(12)), (None, None));
        let pieces = [piece(11), piece(10)];
        let contents = |pieces: &[Piece]| recent.contents(pieces, &key, &[]);
        assert_eq!(contents(&pieces), Some(vec![b"def".to_vec(), b"abc".to_vec()]));
        assert_eq!(contents(&[piece(10), piece(12)]), None);
        assert_eq!(contents(&[Piece { bytes: 2, ..piece(10) }]), None);
        let mut damaged = quantum(20, &[b"xyz"], &key);
        damaged.digests[0] ^= 1;
        recent.put(damaged);
        assert_eq!(content(20), None);
        for number in 0..QUANTA_MAX as u64 - 1 {
            recent.put(quantum(100 + number, &[b"abc"], &key));
            assert!(content(10).is_some(), "a quantum that is used stays");
        }
        for number in 0..QUANTA_MAX as u64 {
            recent.put(quantum(200 + number, &[b"a"], &key));
        }
        assert_eq!(content(10), None);
    }

    #[test]
    fn a_small_memory_keeps_few_quanta() {
        let key = DomainKey::new([1; 32]);
        let recent = RecentQuanta::of(2);
        for place in 0..5 {
            recent.put(quantum(place, &[b"abc"], &key));
        }
        let is_kept = [0, 2, 3, 4].map(|place| recent.holding(place).is_some());
        assert_eq!(is_kept, [false, false, true, true]);
    }

    #[test]
    fn the_room_of_a_dropped_quantum_is_used_again() {
        let key = DomainKey::new([1; 32]);
        let recent = RecentQuanta::default();
        let put = |place, chunk: &[u8]| {
            let room = recent.put(quantum(place, &[chunk], &key))?;
            Some(room.data().to_vec())
        };
        for place in 0..QUANTA_MAX as u64 {
            assert_eq!(put(place, b"abc"), None, "there is room for {place}");
        }
        assert_eq!(put(100, b"def"), Some(b"abc".to_vec()), "it takes the place of the oldest");
        assert_eq!(put(100, b"ghi"), Some(b"def".to_vec()), "it has come again");
        let read = recent.holding(5);
        assert!(read.is_some());
        for place in 1..QUANTA_MAX as u64 {
            assert!(put(200 + place, b"jkl").is_some());
        }
        assert_eq!(put(300, b"jkl"), None, "it is being read");
    }
}
