//! Quanta that came lately: small files that were migrated together lie in one, and are recalled
//! one by one.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use chunk::{DomainKey, RawQuantum, SealKey, Unsealer};

use super::window::Piece;

/// Quanta that are kept: 2 MiB each at most.
const KEPT_MAX: usize = 16;

/// A quantum as it came. Its chunks are checked when they are used.
pub(crate) struct KeptQuantum {
    pub(crate) first_place: u64,
    pub(crate) raw: RawQuantum,
    /// 32 bytes a chunk.
    pub(crate) digests: Vec<u8>,
}

/// The quanta that came last, newest first.
#[derive(Default)]
pub(crate) struct Kept {
    quanta: Mutex<VecDeque<Arc<KeptQuantum>>>,
}

impl Kept {
    pub(crate) fn put(&self, quantum: KeptQuantum) {
        let mut quanta = self.quanta.lock().unwrap_or_else(PoisonError::into_inner);
        quanta.retain(|known| known.first_place != quantum.first_place);
        quanta.push_front(Arc::new(quantum));
        quanta.truncate(KEPT_MAX);
    }

    /// The content of `piece`, if it came lately and is whole.
    pub(crate) fn content(
        &self,
        piece: &Piece,
        (key, keys): (&DomainKey, &[SealKey]),
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
        Unsealer::new(keys).ok()?.unseal(chunk, piece.bytes as usize).ok()
    }

    fn holding(&self, place: u64) -> Option<Arc<KeptQuantum>> {
        let mut quanta = self.quanta.lock().unwrap_or_else(PoisonError::into_inner);
        let holds = |known: &Arc<KeptQuantum>| {
            let end = known.first_place + known.raw.lengths().len() as u64;
            (known.first_place..end).contains(&place)
        };
        let at = quanta.iter().position(holds)?;
        let quantum = quanta.remove(at)?;
        quanta.push_front(Arc::clone(&quantum));
        Some(quantum)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(first_place: u64, chunks: &[&[u8]], key: &DomainKey) -> KeptQuantum {
        let mut raw = RawQuantum::default();
        chunks.iter().for_each(|chunk| _ = raw.push(chunk));
        let digests = chunks.iter().flat_map(|chunk| key.digest(chunk).0).collect();
        KeptQuantum { first_place, raw, digests }
    }

    #[test]
    fn what_came_lately_is_found_and_checked() {
        let key = DomainKey::new([1; 32]);
        let piece = |place| Piece { place, offset: 0, bytes: 3, is_sealed: false };
        let kept_quanta = Kept::default();
        let content = |place| kept_quanta.content(&piece(place), (&key, &[]));
        kept_quanta.put(kept(10, &[b"abc", b"def"], &key));
        assert_eq!(content(11).as_deref(), Some(&b"def"[..]));
        assert_eq!((content(9), content(12)), (None, None));
        let mut damaged = kept(20, &[b"xyz"], &key);
        damaged.digests[0] ^= 1;
        kept_quanta.put(damaged);
        assert_eq!(content(20), None);
        for number in 0..KEPT_MAX as u64 - 1 {
            kept_quanta.put(kept(100 + number, &[b"abc"], &key));
            assert!(content(10).is_some(), "what is used stays");
        }
        (0..KEPT_MAX as u64).for_each(|number| kept_quanta.put(kept(200 + number, &[b"a"], &key)));
        assert_eq!(content(10), None);
    }
}
