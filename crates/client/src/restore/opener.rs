//! Opener: decompresses quanta, checks their chunks and hands them to the files that need them.

use std::io;
use std::sync::Arc;

use chunk::{Decompressor, DomainKey, RawQuantum, UnsealError, Unsealer};

use super::destination::Destination;
use super::recent::RecentQuantum;
use super::window::{Checker, Window};
use crate::link::Link;
use crate::link::restore::RestoredQuantum;

/// Quantum, and the window that needs it.
pub(super) struct Work<F> {
    pub(super) window: Arc<Window<F>>,
    pub(super) quantum: RestoredQuantum,
}

impl<F: Send + Sync> Work<F> {
    /// Reports a lost chunk to the files that need a chunk of the quantum.
    pub(super) fn lose<D: Destination<File = F>>(&self, destination: &D, reason: &str) {
        let count = u32::try_from(self.quantum.digests.len() / 32).unwrap_or(u32::MAX);
        self.window.lose(destination, self.quantum.first_place, count, reason);
    }
}

/// Reason why a quantum was not opened. The files that need the quantum are lost.
#[derive(Debug, thiserror::Error)]
enum OpenFailure {
    #[error("{0}")]
    Damaged(format::DamageError),
    #[error("the digests of the quantum are incomplete")]
    Digests,
}

/// Opener of one thread. It is used again, because new contexts are expensive.
pub(super) struct Opener<'a> {
    decompressor: Decompressor,
    unsealer: Unsealer<'a>,
    key: &'a DomainKey,
    /// Room for a quantum. It is used again, because new memory is expensive.
    raw: RawQuantum,
}

impl<'a> Opener<'a> {
    pub(super) fn new(link: &'a Link) -> io::Result<Self> {
        let (decompressor, unsealer) = (Decompressor::new()?, Unsealer::new(&link.seal_keys)?);
        Ok(Self { decompressor, unsealer, key: &link.domain_key, raw: RawQuantum::default() })
    }

    /// Hands the chunks of `work` to the files that need them, or reports the chunks as lost.
    pub(super) fn open_or_lose<D: Destination>(&mut self, work: &Work<D::File>, destination: &D) {
        if let Err(failure) = self.open(work, destination) {
            work.lose(destination, &failure.to_string());
        }
    }

    fn open<D: Destination>(
        &mut self,
        work: &Work<D::File>,
        destination: &D,
    ) -> Result<(), OpenFailure> {
        let Work { window, quantum } = work;
        let opened = self.decompressor.decode_into(&quantum.record, &mut self.raw);
        opened.map_err(OpenFailure::Damaged)?;
        let (digests, rest) = quantum.digests.as_chunks::<32>();
        if !rest.is_empty() || self.raw.lengths().len() != digests.len() {
            return Err(OpenFailure::Digests);
        }
        let mut checker = DigestChecker { key: self.key, digests, unsealer: &mut self.unsealer };
        window.put(destination, quantum.first_place, &self.raw, &mut checker);
        if let Some(recent) = destination.recent() {
            let (first_place, digests) = (quantum.first_place, quantum.digests.to_vec());
            let raw = std::mem::take(&mut self.raw);
            if let Some(room) = recent.put(RecentQuantum { first_place, raw, digests }) {
                self.raw = room;
            }
        }
        Ok(())
    }
}

/// Checker that uses the digests that the server has sent with a quantum.
struct DigestChecker<'a, 'b> {
    key: &'a DomainKey,
    /// One digest for each chunk.
    digests: &'a [[u8; 32]],
    unsealer: &'a mut Unsealer<'b>,
}

impl Checker for DigestChecker<'_, '_> {
    fn is_right(&self, index: usize, chunk: &[u8]) -> bool {
        self.key.digest(chunk).0 == self.digests[index]
    }

    fn unseal(&mut self, sealed: &[u8], bytes: u32) -> Result<Vec<u8>, UnsealError> {
        self.unsealer.unseal(sealed, bytes as usize)
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use chunk::{Compression, Compressor, SealKey, Sealer};
    use sys::lock::Mutex;

    use super::super::window::WindowBuilder;
    use super::*;
    use crate::link::tests::unanswered;
    use crate::link::versions::{Entry, Piece};
    use crate::rules::tests::hello;

    const FIRST_PLACE: u64 = 100;

    /// Events of all files, in order.
    #[derive(Default)]
    struct Files(Mutex<Vec<FileEvent>>);

    struct FileEvent {
        file: usize,
        /// Content that was written, or the reason why the file was lost.
        result: Result<Vec<u8>, String>,
    }

    type Damage = fn(&mut Vec<u8>, &mut Vec<u8>);

    impl Destination for Files {
        type File = usize;

        fn take(&mut self, _: Entry) -> Option<usize> {
            None
        }

        fn write(&self, file: &usize, chunk: &[u8], _: u64) -> io::Result<()> {
            self.0.lock().push(FileEvent { file: *file, result: Ok(chunk.to_vec()) });
            Ok(())
        }

        fn complete(&self, _: &usize) {}

        fn lose(&self, file: &usize, reason: &str) {
            self.0.lock().push(FileEvent { file: *file, result: Err(reason.to_owned()) });
        }
    }

    /// Opens a quantum with a plain and a sealed chunk, after `damage` to its record and digests.
    /// One file needs the plain chunk, another the sealed chunk. Returns a text for each file.
    fn open(keys: Vec<SealKey>, damage: impl FnOnce(&mut Vec<u8>, &mut Vec<u8>)) -> [String; 2] {
        let mut link = unanswered(hello());
        link.seal_keys = keys;
        let mut sealer = Sealer::new(SealKey::new([5; 32])).expect("room");
        let chunks = [b"plain".to_vec(), sealer.seal(b"secret", false)];
        let mut raw = RawQuantum::default();
        let mut builder = WindowBuilder::new();
        for (number, chunk) in chunks.iter().enumerate() {
            raw.push(chunk);
            let bytes = if number == 0 { 5 } else { 6 };
            let place = FIRST_PLACE + number as u64;
            let piece = Piece { place, offset: 0, bytes, is_sealed: number == 1 };
            builder.add(Some(number), Some(&[piece]));
        }
        let mut record = Compressor::new(Compression::Stored).expect("room").encode(&raw);
        let mut digests = chunks.iter().flat_map(|chunk| link.domain_key.digest(chunk).0).collect();
        damage(&mut record, &mut digests);
        let (record, digests) = (Bytes::from(record), Bytes::from(digests));
        let quantum = RestoredQuantum { first_place: FIRST_PLACE, record, digests };
        let work = Work { window: Arc::new(builder.finish().0), quantum };
        let files = Files::default();
        Opener::new(&link).expect("room").open_or_lose(&work, &files);
        let results = files.0.into_inner();
        [0, 1].map(|number| {
            let mut own = results.iter().filter(|event| event.file == number);
            let FileEvent { result, .. } = own.next().expect("each file has an event");
            assert!(own.next().is_none(), "each file has only one event");
            match result {
                Ok(content) => String::from_utf8_lossy(content).into_owned(),
                Err(reason) => format!("lost: {reason}"),
            }
        })
    }

    fn keys() -> Vec<SealKey> {
        vec![SealKey::new([9; 32]), SealKey::new([5; 32])]
    }

    #[test]
    fn chunks_are_decrypted_by_the_key_that_sealed_them() {
        assert_eq!(open(keys(), |_, _| ()), ["plain", "secret"]);
        let [plain, sealed] = open(vec![SealKey::new([9; 32])], |_, _| ());
        assert_eq!(plain, "plain");
        assert!(sealed.starts_with("lost: "), "{sealed}");
    }

    #[test]
    fn a_chunk_with_another_digest_is_lost_alone() {
        let lost = "lost: the content differs from its digest";
        assert_eq!(open(keys(), |_, digests| digests[0] ^= 1), [lost, "secret"]);
        assert_eq!(open(keys(), |_, digests| digests[63] ^= 1), ["plain", lost]);
    }

    #[test]
    fn a_quantum_that_cannot_be_opened_loses_all_that_need_it() {
        let damages: [Damage; 5] = [
            |record, _| record.clear(),
            |record, _| record.truncate(20),
            |record, _| *record.last_mut().expect("not empty") ^= 1,
            |_, digests| digests.extend([0; 32]),
            |_, digests| digests.extend([0; 5]),
        ];
        for damage in damages {
            let results = open(keys(), damage);
            assert!(results.iter().all(|result| result.starts_with("lost: ")), "{results:?}");
        }
    }
}
