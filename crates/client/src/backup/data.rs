//! Chunks on their way: deduplicated against grants and against this session, collected into
//! quanta.

use std::collections::{BTreeSet, HashMap};
use std::io;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

use chunk::{DomainKey, RawQuantum, SealKey, Sealer};
use crossbeam_channel::Sender;
use model::{ChunkDigest, GrantMac, PackNumber, Place, SessionPlace};

use super::press::{Filled, FullQuantum, Presser};
use super::tally::Tally;
use crate::cache::Cache;
use crate::link::Link;
use crate::rules::FileTreatment;

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
    /// Whether chunks are digested at all before they are sent.
    deduplicates: bool,
    pub(super) key: &'a DomainKey,
    pub(super) cache: &'a Cache,
    /// Packs that the server has found damaged: what they hold is to be sent again.
    damaged: &'a BTreeSet<PackNumber>,
    /// Encrypts the files that the rules say.
    seal_key: Option<&'a SealKey>,
    /// Sent and not yet granted, by digest prefix.
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
        Self {
            deduplicates,
            seal_key,
            key: &link.domain_key,
            cache,
            damaged: &link.hello().damaged_packs,
            pending: Mutex::default(),
            next_quantum: AtomicU64::new(0),
        }
    }

    /// The grant of a chunk that the server has, as far as is known here.
    fn grant_of(&self, digest: &ChunkDigest) -> Option<(Place, GrantMac)> {
        self.cache
            .get(digest)
            .filter(|(place, _)| !self.damaged.contains(&place.pack()))
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
            At::Sent(_) if !self.deduplicates => chunk,
            At::Sent(_) => match self.grant_of(&chunk.digest) {
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
    presser: Presser<'a>,
    /// Threads that press quanta while this one reads on.
    others: Option<Sender<FullQuantum>>,
    number: u64,
    raw: RawQuantum,
    digests: Vec<ChunkDigest>,
    /// Whether what the server has already may be told by grants.
    pub(super) trusts_grants: bool,
    /// What the rules say of the file at hand.
    treatment: FileTreatment,
    /// Made for the first file that is encrypted.
    sealer: Option<Sealer>,
}

impl<'a> Assembler<'a> {
    pub(super) fn new(
        chunks: &'a Chunks<'a>,
        tally: &'a Tally,
        presser: Presser<'a>,
        others: Option<Sender<FullQuantum>>,
    ) -> Self {
        Self {
            chunks,
            tally,
            presser,
            others,
            number: chunks.next_quantum.fetch_add(1, Relaxed),
            raw: RawQuantum::with_room(),
            digests: Vec::new(),
            trusts_grants: true,
            treatment: FileTreatment::default(),
            sealer: None,
        }
    }

    /// Says how the data that follows is to be treated. What is compressed and what is not, or is
    /// not any more because it is encrypted, travels in quanta of its own.
    ///
    /// Fails where zstd does.
    pub(super) fn treat(&mut self, treatment: FileTreatment) -> io::Result<()> {
        if is_pressed(treatment) != is_pressed(self.treatment) {
            self.flush();
        }
        self.treatment = treatment;
        if treatment.encrypts && self.sealer.is_none() {
            let key = self.chunks.seal_key.expect("rules that encrypt come with a key");
            self.sealer = Some(Sealer::new(key.clone())?);
        }
        Ok(())
    }

    /// What `chunk` of the file at hand is sent as, if it is encrypted.
    pub(super) fn sealed(&mut self, chunk: &[u8]) -> Option<Vec<u8>> {
        let FileTreatment { compresses, encrypts, .. } = self.treatment;
        let sealer = self.sealer.as_mut().filter(|_| encrypts)?;
        Some(sealer.seal(chunk, compresses))
    }

    /// Whether the file at hand is encrypted.
    pub(super) fn encrypts(&self) -> bool {
        self.treatment.encrypts
    }

    /// Sees to it that the server has or gets `chunk`, which is not empty.
    pub(super) fn add(&mut self, chunk: &[u8]) -> ChunkRef {
        self.room(chunk.len()).copy_from_slice(chunk);
        self.written(chunk.len())
    }

    /// Where a chunk of `bytes` is to be written before it is [`Self::written`].
    pub(super) fn room(&mut self, bytes: usize) -> &mut [u8] {
        if !self.raw.fits(bytes) {
            self.flush();
        }
        self.raw.room(bytes)
    }

    /// Sees to it that the server has or gets the chunk of `bytes` that was written last.
    pub(super) fn written(&mut self, bytes: usize) -> ChunkRef {
        self.tally.progress.bytes.fetch_add(bytes as u64, Relaxed);
        if !self.chunks.deduplicates {
            let index = self.raw.take(bytes);
            self.tally.bytes_after_dedup.fetch_add(bytes as u64, Relaxed);
            let place = SessionPlace::Sent { quantum: self.number, index };
            return ChunkRef { digest: ChunkDigest([0; 32]), at: At::Sent(place) };
        }
        let digest = self.chunks.key.digest(self.raw.room(bytes));
        if self.trusts_grants && self.treatment.deduplicates {
            if let Some((place, mac)) = self.chunks.grant_of(&digest) {
                return ChunkRef { digest, at: At::Granted(place, mac) };
            }
            if let Some(place) = self.chunks.pending().get(&digest.prefix()) {
                return ChunkRef { digest, at: At::Sent(*place) };
            }
        }
        if !self.trusts_grants {
            // Else the change would present it again instead of what is sent now.
            self.chunks.cache.forget(&digest);
        }
        let index = self.raw.take(bytes);
        self.digests.push(digest);
        self.tally.bytes_after_dedup.fetch_add(bytes as u64, Relaxed);
        let place = SessionPlace::Sent { quantum: self.number, index };
        self.chunks.pending().insert(digest.prefix(), place);
        ChunkRef { digest, at: At::Sent(place) }
    }

    /// Sends the open quantum on its way, however little is in it.
    pub(super) fn flush(&mut self) {
        if self.raw.is_empty() {
            return;
        }
        let next = self.chunks.next_quantum.fetch_add(1, Relaxed);
        let number = std::mem::replace(&mut self.number, next);
        let digests = std::mem::take(&mut self.digests);
        let full = Filled { number, digests, compresses: is_pressed(self.treatment) };
        self.presser.press(self.others.as_ref(), full, &mut self.raw);
    }
}

/// Whether quanta of such data are compressed.
fn is_pressed(treatment: FileTreatment) -> bool {
    treatment.compresses && !treatment.encrypts
}
