//! Chunks of a session: those that the server has, and those that it gets in this session.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use chunk::{DomainKey, SealKey};
use model::{ChunkDigest, GrantProof, SessionPlace};
use sys::lock::{Mutex, MutexGuard};

use crate::cache::Cache;
use crate::link::Link;
use crate::link::backup::ChunkSource;

/// Reference of an object to a chunk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct ChunkRef {
    pub(super) digest: ChunkDigest,
    pub(super) source: ChunkSource,
}

/// State of the chunks that all readers of a session share.
pub(super) struct Chunks<'a> {
    /// True if chunks are digested before they are sent.
    pub(super) deduplicates: bool,
    pub(super) key: &'a DomainKey,
    pub(super) cache: &'a Cache,
    /// Key for the files that the rules encrypt.
    pub(super) seal_key: Option<&'a SealKey>,
    /// Chunks that were sent and have no grant yet, by digest prefix.
    pending: Mutex<HashMap<[u8; 16], SessionPlace>>,
    next_quantum: AtomicU64,
}

impl<'a> Chunks<'a> {
    pub(super) fn new(
        link: &'a Link,
        cache: &'a Cache,
        deduplicates: bool,
        seal_key: Option<&'a SealKey>,
    ) -> Self {
        Self::with_key(&link.domain_key, cache, deduplicates, seal_key)
    }

    pub(super) fn with_key(
        key: &'a DomainKey,
        cache: &'a Cache,
        deduplicates: bool,
        seal_key: Option<&'a SealKey>,
    ) -> Self {
        Self {
            deduplicates,
            key,
            cache,
            seal_key,
            pending: Mutex::default(),
            next_quantum: AtomicU64::new(0),
        }
    }

    /// Returns the number of a new quantum.
    pub(super) fn number_quantum(&self) -> u64 {
        self.next_quantum.fetch_add(1, Relaxed)
    }

    /// Returns the grant of a chunk, if the client has one. The server may refuse it.
    pub(super) fn grant_of(&self, digest: &ChunkDigest) -> Option<GrantProof> {
        self.cache.get(digest)
    }

    fn pending(&self) -> MutexGuard<'_, HashMap<[u8; 16], SessionPlace>> {
        self.pending.lock()
    }

    /// Returns the place of a chunk that was sent and has no grant yet.
    pub(super) fn pending_place(&self, digest: &ChunkDigest) -> Option<SessionPlace> {
        self.pending().get(&digest.prefix()).copied()
    }

    /// Notes that a chunk is sent to the server at `place`.
    pub(super) fn note_sent(&self, digest: &ChunkDigest, place: SessionPlace) {
        self.pending().insert(digest.prefix(), place);
    }

    /// Stores the grants of a quantum whose chunks have `digests`. The server may grant fewer than
    /// all; the chunks without a grant are sent again by a later backup.
    pub(super) fn store_grants(&self, digests: &[ChunkDigest], grants: &[GrantProof]) {
        for (digest, grant) in digests.iter().zip(grants) {
            self.cache.put(digest, *grant);
        }
        let mut pending = self.pending();
        for digest in digests {
            pending.remove(&digest.prefix());
        }
    }

    /// Returns `chunk`. If the server has granted the chunk meanwhile, the result has the grant.
    pub(super) fn present(&self, chunk: ChunkRef) -> ChunkRef {
        match chunk.source {
            ChunkSource::Sent(_) if self.deduplicates => match self.grant_of(&chunk.digest) {
                Some(grant) => ChunkRef { source: ChunkSource::Granted(grant), ..chunk },
                None => chunk,
            },
            ChunkSource::Granted(_) | ChunkSource::Sent(_) => chunk,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn digest(number: u8) -> ChunkDigest {
        ChunkDigest([number; 32])
    }

    const GRANT: GrantProof = GrantProof([7; 16]);

    #[test]
    fn a_sent_chunk_is_presented_by_its_grant_once_that_has_come() {
        let key = DomainKey::new([1; 32]);
        let cache = Cache::open(Path::new("/nowhere/cache"), 0);
        let chunks = Chunks::with_key(&key, &cache, true, None);
        let place = SessionPlace::Sent { quantum: 0, index: 0 };
        let chunk = ChunkRef { digest: digest(1), source: ChunkSource::Sent(place) };
        chunks.note_sent(&digest(1), place);
        assert_eq!(chunks.present(chunk), chunk);
        assert_eq!(chunks.pending_place(&digest(1)), Some(place));
        // The server grants only the first chunk. Neither chunk is pending any more.
        chunks.note_sent(&digest(2), SessionPlace::Sent { quantum: 0, index: 1 });
        chunks.store_grants(&[digest(1), digest(2)], &[GRANT]);
        assert_eq!(chunks.present(chunk).source, ChunkSource::Granted(GRANT));
        assert_eq!(chunks.pending_place(&digest(2)), None);
        assert_eq!(chunks.grant_of(&digest(2)), None);
    }

    #[test]
    fn without_deduplication_nothing_is_presented_by_grant() {
        let key = DomainKey::new([1; 32]);
        let cache = Cache::open(Path::new("/nowhere/cache"), 0);
        let chunks = Chunks::with_key(&key, &cache, false, None);
        chunks.store_grants(&[digest(0)], &[GRANT]);
        let place = SessionPlace::Sent { quantum: 0, index: 0 };
        let chunk = ChunkRef { digest: digest(0), source: ChunkSource::Sent(place) };
        assert_eq!(chunks.present(chunk), chunk);
    }

    #[test]
    fn quanta_are_counted_from_0() {
        let key = DomainKey::new([1; 32]);
        let cache = Cache::open(Path::new("/nowhere/cache"), 0);
        let chunks = Chunks::with_key(&key, &cache, true, None);
        assert_eq!([(); 3].map(|()| chunks.number_quantum()), [0, 1, 2]);
    }
}
