//! Assembler: collects the chunks of one reader into quanta, except those that the server has.

use std::io;
use std::sync::atomic::Ordering::Relaxed;

use chunk::{RawQuantum, Sealer};
use crossbeam_channel::Sender;
use model::{ChunkDigest, SessionPlace};

use super::chunks::{ChunkRef, Chunks};
use super::press::{FullQuantum, Presser, QuantumHeader, QuantumKind};
use super::tally::Tally;
use crate::link::backup::ChunkSource;
use crate::rules::FileTreatment;

/// Open quantum of one reader.
pub(super) struct Assembler<'a> {
    chunks: &'a Chunks<'a>,
    tally: &'a Tally,
    presser: Presser<'a>,
    /// Queue to the threads that compress quanta while this thread continues to read.
    others: Option<Sender<FullQuantum>>,
    number: u64,
    raw: RawQuantum,
    digests: Vec<ChunkDigest>,
    /// True if grants may be presented instead of data.
    pub(super) trusts_grants: bool,
    /// Treatment of the current file.
    treatment: FileTreatment,
    /// Sealer, which is made for the first encrypted file.
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
            number: chunks.number_quantum(),
            raw: RawQuantum::with_room(),
            digests: Vec::new(),
            trusts_grants: true,
            treatment: FileTreatment::default(),
            sealer: None,
        }
    }

    /// Sets the treatment of the data that follows.
    ///
    /// Fails if no zstd context can be made.
    pub(super) fn treat(&mut self, treatment: FileTreatment) -> io::Result<()> {
        if kind(treatment) != kind(self.treatment) {
            self.flush();
        }
        self.treatment = treatment;
        if treatment.encrypts && self.sealer.is_none() {
            let key = self.chunks.seal_key.expect("rules that encrypt come with a key");
            self.sealer = Some(Sealer::new(key.clone())?);
        }
        Ok(())
    }

    /// Returns true if the user has stopped the backup.
    pub(super) fn is_stopped(&self) -> bool {
        self.tally.progress.is_stopped()
    }

    /// Encrypts `chunk`, if the current file is encrypted.
    pub(super) fn seal(&mut self, chunk: &[u8]) -> Option<Vec<u8>> {
        let FileTreatment { compresses, encrypts, .. } = self.treatment;
        let sealer = self.sealer.as_mut().filter(|_| encrypts)?;
        Some(sealer.seal(chunk, compresses))
    }

    /// Returns true if the current file is encrypted.
    pub(super) fn encrypts(&self) -> bool {
        self.treatment.encrypts
    }

    /// Adds `chunk`, which must not be empty, unless the server has it.
    pub(super) fn add(&mut self, chunk: &[u8]) -> ChunkRef {
        assert!(!chunk.is_empty(), "a chunk holds data");
        if !self.chunks.deduplicates {
            self.room(chunk.len()).copy_from_slice(chunk);
            return self.take_undigested(chunk.len());
        }
        // The digest comes first, because a chunk that the server has needs no copy.
        let digest = self.chunks.key.digest(chunk);
        if let Some(known) = self.find(digest, chunk.len()) {
            return known;
        }
        self.room(chunk.len()).copy_from_slice(chunk);
        self.take(digest, chunk.len())
    }

    /// Returns room for a chunk of `bytes` bytes. The caller writes the chunk there and then calls
    /// [`Self::take_written`].
    pub(super) fn room(&mut self, bytes: usize) -> &mut [u8] {
        if !self.raw.fits(bytes) {
            self.flush();
        }
        self.raw.room(bytes)
    }

    /// Adds the chunk of `bytes` bytes that was written last into the room of [`Self::room`],
    /// unless the server has it.
    pub(super) fn take_written(&mut self, bytes: usize) -> ChunkRef {
        if !self.chunks.deduplicates {
            return self.take_undigested(bytes);
        }
        let digest = self.chunks.key.digest(self.raw.room(bytes));
        match self.find(digest, bytes) {
            Some(known) => known,
            None => self.take(digest, bytes),
        }
    }

    /// Returns the reference to a chunk of `bytes` bytes that the server has, or gets in this
    /// session, and counts its data as known.
    fn find(&self, digest: ChunkDigest, bytes: usize) -> Option<ChunkRef> {
        if !(self.trusts_grants && self.treatment.deduplicates) {
            return None;
        }
        let source = match self.chunks.grant_of(&digest) {
            Some(grant) => ChunkSource::Granted(grant),
            None => ChunkSource::Sent(self.chunks.pending_place(&digest)?),
        };
        self.note_known(bytes);
        Some(ChunkRef { digest, source })
    }

    /// Adds the chunk of `bytes` bytes in the room of [`Self::room`], and its digest.
    fn take(&mut self, digest: ChunkDigest, bytes: usize) -> ChunkRef {
        if !self.trusts_grants {
            // If the cache kept the grant, the change would present it again instead of the data
            // sent here.
            self.chunks.cache.forget(&digest);
        }
        let index = self.raw.take(bytes);
        self.digests.push(digest);
        assert_eq!(self.digests.len(), self.raw.lengths().len(), "one digest for each chunk");
        self.tally.bytes_after_dedup.fetch_add(bytes as u64, Relaxed);
        let place = SessionPlace::Sent { quantum: self.number, index };
        self.chunks.note_sent(&digest, place);
        ChunkRef { digest, source: ChunkSource::Sent(place) }
    }

    /// Adds the chunk of `bytes` bytes in the room of [`Self::room`], for a server that computes
    /// the digests.
    fn take_undigested(&mut self, bytes: usize) -> ChunkRef {
        let index = self.raw.take(bytes);
        self.tally.bytes_after_dedup.fetch_add(bytes as u64, Relaxed);
        let place = SessionPlace::Sent { quantum: self.number, index };
        ChunkRef { digest: ChunkDigest([0; 32]), source: ChunkSource::Sent(place) }
    }

    /// Counts data that is not sent again. Data that is sent counts when it has arrived.
    fn note_known(&self, bytes: usize) {
        self.tally.progress.bytes.fetch_add(bytes as u64, Relaxed);
    }

    /// Sends the open quantum, full or not.
    pub(super) fn flush(&mut self) {
        if self.raw.is_empty() {
            return;
        }
        let next = self.chunks.number_quantum();
        let number = std::mem::replace(&mut self.number, next);
        let digests = std::mem::take(&mut self.digests);
        let (kind, full_at) = (kind(self.treatment), sys::clock::monotonic());
        let header = QuantumHeader { number, digests, kind, full_at };
        self.presser.press(self.others.as_ref(), header, &mut self.raw);
    }
}

/// Returns the kind of the quanta with data of this treatment.
fn kind(treatment: FileTreatment) -> QuantumKind {
    match treatment {
        FileTreatment { encrypts: true, .. } => QuantumKind::Encrypted,
        FileTreatment { compresses: true, .. } => QuantumKind::Compressed,
        FileTreatment { .. } => QuantumKind::Stored,
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::Arc;

    use chunk::{Decompressor, DomainKey, SealKey, Unsealer};
    use crossbeam_channel::{Receiver, unbounded};
    use model::GrantProof;

    use super::super::answers::Answers;
    use super::super::outbox_message::OutboxMessage;
    use super::super::press::Press;
    use super::*;
    use crate::cache::Cache;
    use crate::link::backup::SentQuantum;
    use crate::progress::Progress;
    use crate::tuning::CompressionChoice;

    const PLAIN: FileTreatment =
        FileTreatment { compresses: true, deduplicates: true, encrypts: false };

    fn grant() -> GrantProof {
        GrantProof([3; 16])
    }

    /// Calls `work` with an assembler. Returns the chunks of each quantum that the assembler sent.
    fn assemble(deduplicates: bool, work: impl FnOnce(&mut Assembler<'_>)) -> Vec<Vec<Vec<u8>>> {
        assemble_quanta(deduplicates, work).iter().map(opened).collect()
    }

    /// Calls `work` with an assembler. Returns the quanta that the assembler sent.
    fn assemble_quanta(
        deduplicates: bool,
        work: impl FnOnce(&mut Assembler<'_>),
    ) -> Vec<SentQuantum> {
        let (key, seal_key) = (DomainKey::new([1; 32]), SealKey::new([5; 32]));
        let cache = Cache::open(Path::new("/nowhere/cache"), 0);
        let chunks = Chunks::with_key(&key, &cache, deduplicates, Some(&seal_key));
        let tally = Tally::new(Arc::new(Progress::default()));
        let answers = Answers::default();
        let press = Press::new(CompressionChoice::default(), 1, &answers);
        let (sender, outgoing) = unbounded();
        let presser = Presser::new(&press, sender).expect("a compressor");
        let mut assembler = Assembler::new(&chunks, &tally, presser, None);
        work(&mut assembler);
        assembler.flush();
        let sent = quanta(&outgoing);
        let bytes: usize = sent.iter().flat_map(opened).map(|chunk| chunk.len()).sum();
        assert_eq!(tally.bytes_after_dedup.load(Relaxed), bytes as u64);
        sent
    }

    fn quanta(outgoing: &Receiver<OutboxMessage>) -> Vec<SentQuantum> {
        let quantum = |message| match message {
            OutboxMessage::Quantum(quantum) => quantum,
            OutboxMessage::Change(_) => panic!("an assembler sends data only"),
        };
        outgoing.try_iter().map(quantum).collect()
    }

    fn opened(quantum: &SentQuantum) -> Vec<Vec<u8>> {
        let raw = Decompressor::new().expect("room").decode(&quantum.record).expect("a quantum");
        raw.chunks().map(<[u8]>::to_vec).collect()
    }

    fn sent(quantum: u64, index: u32) -> ChunkSource {
        ChunkSource::Sent(SessionPlace::Sent { quantum, index })
    }

    #[test]
    fn a_chunk_goes_out_once_a_session() {
        let quanta = assemble(true, |assembler| {
            let places = [&b"one"[..], b"two", b"one"].map(|chunk| assembler.add(chunk).source);
            assert_eq!(places, [sent(0, 0), sent(0, 1), sent(0, 0)]);
            assembler.flush();
            assert_eq!(assembler.add(b"two").source, sent(0, 1));
            assert_eq!(assembler.add(b"six").source, sent(1, 0));
        });
        assert_eq!(quanta, [vec![b"one".to_vec(), b"two".to_vec()], vec![b"six".to_vec()]]);
    }

    #[test]
    fn a_grant_is_presented_until_the_server_refuses_it() {
        let quanta = assemble(true, |assembler| {
            let digest = assembler.chunks.key.digest(b"known");
            assembler.chunks.cache.put(&digest, grant());
            assert_eq!(assembler.add(b"known").source, ChunkSource::Granted(grant()));
            assembler.trusts_grants = false;
            assert_eq!(assembler.add(b"known").source, sent(0, 0));
            // The change that follows must not present the grant either.
            assert_eq!(assembler.chunks.grant_of(&digest), None);
        });
        assert_eq!(quanta, [[b"known".to_vec()]]);
    }

    #[test]
    fn data_that_is_not_to_be_deduplicated_is_sent() {
        let quanta = assemble(true, |assembler| {
            assembler.treat(FileTreatment { deduplicates: false, ..PLAIN }).expect("room");
            assert_eq!([(); 2].map(|()| assembler.add(b"one").source), [sent(0, 0), sent(0, 1)]);
        });
        assert_eq!(quanta, [[b"one".to_vec(), b"one".to_vec()]]);
        let quanta = assemble(false, |assembler| {
            assert_eq!([(); 2].map(|()| assembler.add(b"one").source), [sent(0, 0), sent(0, 1)]);
        });
        assert_eq!(quanta.len(), 1);
    }

    #[test]
    fn data_of_other_treatment_gets_a_quantum_of_its_own() {
        let quanta = assemble_quanta(true, |assembler| {
            assembler.add(b"plain");
            assembler.treat(FileTreatment { compresses: false, ..PLAIN }).expect("room");
            assembler.add(b"stored");
            assembler.treat(FileTreatment { encrypts: true, ..PLAIN }).expect("room");
            assert!(assembler.encrypts());
            let sealed = assembler.seal(b"secret").expect("encrypted");
            assembler.add(&sealed);
            assembler.treat(PLAIN).expect("room");
            assert_eq!(assembler.seal(b"plain"), None);
            assembler.add(b"again");
        });
        let encrypted: Vec<bool> = quanta.iter().map(|quantum| quantum.is_encrypted).collect();
        assert_eq!(encrypted, [false, false, true, false]);
        let chunks: Vec<Vec<u8>> = quanta.iter().flat_map(opened).collect();
        let [plain, stored, sealed, again] = &chunks[..] else { panic!("four: {chunks:?}") };
        assert_eq!([&plain[..], stored, again], [&b"plain"[..], b"stored", b"again"]);
        let keys = [SealKey::new([5; 32])];
        let mut unsealer = Unsealer::new(&keys).expect("room");
        assert_eq!(unsealer.unseal(sealed, 6).expect("the key"), b"secret");
        let keys = [SealKey::new([6; 32])];
        assert!(Unsealer::new(&keys).expect("room").unseal(sealed, 6).is_err());
    }

    #[test]
    fn a_full_quantum_is_sent() {
        let chunk = |byte: u8| vec![byte; 600_000];
        let quanta = assemble(true, |assembler| {
            let places: Vec<_> = (0..5).map(|byte| assembler.add(&chunk(byte)).source).collect();
            assert_eq!(places, [sent(0, 0), sent(0, 1), sent(0, 2), sent(1, 0), sent(1, 1)]);
        });
        let lengths: Vec<usize> = quanta.iter().map(Vec::len).collect();
        assert_eq!(lengths, [3, 2]);
    }

    #[test]
    fn a_chunk_that_is_known_takes_no_room() {
        let chunk = |byte: u8| vec![byte; 600_000];
        let quanta = assemble(true, |assembler| {
            (0..3).for_each(|byte| _ = assembler.add(&chunk(byte)));
            assert_eq!(assembler.add(&chunk(1)).source, sent(0, 1));
            assert_eq!(assembler.add(b"small").source, sent(0, 3));
        });
        let lengths: Vec<usize> = quanta.iter().map(Vec::len).collect();
        assert_eq!(lengths, [4]);
    }
}
