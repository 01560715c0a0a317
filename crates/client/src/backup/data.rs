//! Chunks on their way: deduplicated against grants and against this session, collected into
//! quanta.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

use chunk::{DomainKey, RawQuantum};
use crossbeam_channel::Sender;
use model::{ChunkDigest, GrantMac, Place, SessionPlace};

use super::tally::Tally;
use crate::cache::Cache;

/// A quantum ready to be compressed.
pub(super) struct FullQuantum {
    pub(super) number: u64,
    pub(super) raw: RawQuantum,
    pub(super) digests: Vec<ChunkDigest>,
}

/// Where a chunk of an object is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct ChunkRef {
    pub(super) digest: ChunkDigest,
    pub(super) at: At,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum At {
    Granted(Place, GrantMac),
    Sent(SessionPlace),
}

/// What all readers of a session share of their chunks.
pub(super) struct Chunks<'a> {
    pub(super) key: &'a DomainKey,
    pub(super) cache: &'a Cache,
    /// Sent and not yet granted, by digest prefix.
    pending: Mutex<HashMap<[u8; 16], SessionPlace>>,
    next_quantum: AtomicU64,
}

impl<'a> Chunks<'a> {
    pub(super) fn new(key: &'a DomainKey, cache: &'a Cache) -> Self {
        Self { key, cache, pending: Mutex::default(), next_quantum: AtomicU64::new(0) }
    }

    fn pending(&self) -> std::sync::MutexGuard<'_, HashMap<[u8; 16], SessionPlace>> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The server has granted the chunks of a quantum.
    pub(super) fn granted(&self, digests: &[ChunkDigest], grants: &[(Place, GrantMac)]) {
        for (digest, (place, mac)) in digests.iter().zip(grants) {
            self.cache.put(digest, *place, *mac);
        }
        let mut pending = self.pending();
        for digest in digests {
            pending.remove(&digest.prefix());
        }
    }

    /// The chunk as it can be presented by now: a grant, where one has come since.
    pub(super) fn present(&self, chunk: ChunkRef) -> ChunkRef {
        match chunk.at {
            At::Granted(..) => chunk,
            At::Sent(_) => match self.cache.get(&chunk.digest) {
                Some((place, mac)) => ChunkRef { at: At::Granted(place, mac), ..chunk },
                None => chunk,
            },
        }
    }
}

/// One reader's open quantum.
pub(super) struct Assembler<'a> {
    chunks: &'a Chunks<'a>,
    tally: &'a Tally,
    full: Sender<FullQuantum>,
    number: u64,
    raw: RawQuantum,
    digests: Vec<ChunkDigest>,
    /// Whether what the server has already may be told by grants.
    pub(super) trusts_grants: bool,
}

impl<'a> Assembler<'a> {
    pub(super) fn new(chunks: &'a Chunks<'a>, tally: &'a Tally, full: Sender<FullQuantum>) -> Self {
        Self {
            chunks,
            tally,
            full,
            number: chunks.next_quantum.fetch_add(1, Relaxed),
            raw: RawQuantum::with_room(),
            digests: Vec::new(),
            trusts_grants: true,
        }
    }

    pub(super) fn digest(&self, chunk: &[u8]) -> ChunkDigest {
        self.chunks.key.digest(chunk)
    }

    /// Sees to it that the server has or gets `chunk`, which is not empty.
    pub(super) fn add(&mut self, chunk: &[u8]) -> ChunkRef {
        let digest = self.digest(chunk);
        let bytes = chunk.len() as u64;
        self.tally.progress.bytes.fetch_add(bytes, Relaxed);
        if self.trusts_grants {
            if let Some((place, mac)) = self.chunks.cache.get(&digest) {
                return ChunkRef { digest, at: At::Granted(place, mac) };
            }
            if let Some(place) = self.chunks.pending().get(&digest.prefix()) {
                return ChunkRef { digest, at: At::Sent(*place) };
            }
        }
        if !self.raw.fits(chunk.len()) {
            self.flush();
        }
        let index = self.raw.push(chunk);
        self.digests.push(digest);
        self.tally.bytes_after_dedup.fetch_add(bytes, Relaxed);
        let place = SessionPlace::Sent { quantum: self.number, index };
        self.chunks.pending().insert(digest.prefix(), place);
        ChunkRef { digest, at: At::Sent(place) }
    }

    /// Sends the open quantum on its way, however little is in it.
    pub(super) fn flush(&mut self) {
        if self.raw.is_empty() {
            return;
        }
        let quantum = FullQuantum {
            number: std::mem::replace(
                &mut self.number,
                self.chunks.next_quantum.fetch_add(1, Relaxed),
            ),
            raw: std::mem::replace(&mut self.raw, RawQuantum::with_room()),
            digests: std::mem::take(&mut self.digests),
        };
        // The stages below end first only when the session has failed; that is told elsewhere.
        drop(self.full.send(quantum));
    }
}
