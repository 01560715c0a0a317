//! Opening of the quanta that an audit reads: on all processors, or on a GPU.
//!
//! A GPU gets only records whose checksum is right, of data that the server has decompressed itself
//! when it came. Data fresh from a node never goes to a GPU: the GPU's decoder may not return from
//! a frame that somebody has made to this end, and may read a frame that no other decoder reads.

use chunk::{BatchOpener, Compression, DomainKey, OpenRecord, Threads, open_all};
use gpu::{Gpu, Settings};
use model::ChunkDigest;
use pool::ReadError;
use sys::process::processors;

use super::QuantumError;
use crate::error::StoreError;
use crate::folder::Config;
use crate::lifecycle::accelerator;

/// Division of the work: large batches, because a GPU takes as long for small ones.
const ON_GPU: Settings = Settings { piece_bytes: 256 << 10, quanta: 128, lanes: 1 };

/// The GPU if the administrator allows it, and threads.
pub(super) struct Opening {
    gpu: Option<Gpu>,
    threads: Threads,
}

impl Opening {
    /// Opens the GPU, if the configuration allows one and quanta are opened together. Without a GPU
    /// that works, threads open everything.
    pub(super) fn new(config: &Config, opens_together: bool) -> Self {
        let open = || accelerator::open(config, ON_GPU, "opens the data of this audit");
        let gpu = opens_together.then(open).flatten();
        // The strength does not matter for opening.
        Self { gpu, threads: Threads { compression: Compression::Stored, count: processors() } }
    }

    fn opener(&self) -> &dyn BatchOpener {
        match &self.gpu {
            Some(gpu) if !gpu.is_lost() => gpu,
            _ => &self.threads,
        }
    }

    /// Returns the number of records that are best opened together.
    pub(super) fn quanta_max(&self) -> usize {
        self.opener().quanta_max()
    }

    /// Opens records, at most [`Self::quanta_max`], and compares their chunks with the `expected`
    /// digests. Returns the outcome of each, in order.
    ///
    /// A record that a GPU finds wrong is opened again by a thread: a GPU may err, and the
    /// verdict of an audit takes data out of service.
    pub(super) fn check(
        &self,
        key: &DomainKey,
        records: Vec<Result<Vec<u8>, ReadError>>,
        expected: &[&[ChunkDigest]],
    ) -> Result<Vec<Result<(), QuantumError>>, StoreError> {
        let read: Vec<(usize, &[u8])> = records
            .iter()
            .enumerate()
            .filter_map(|(number, record)| Some((number, record.as_deref().ok()?)))
            .collect();
        let batch: Vec<&[u8]> = read.iter().map(|(_, record)| *record).collect();
        let mut verdicts: Vec<Option<Result<(), QuantumError>>> =
            records.iter().map(|_| None).collect();
        let failure = open_all(self.opener(), &self.threads, key, &batch, &mut |at, opened| {
            let number = read[at].0;
            verdicts[number] = Some(verdict(opened, expected[number]));
        });
        if let Some(error) = failure.map_err(no_context)? {
            tracing::warn!(error = error.to_string(), "the GPU has failed; threads open the data");
        }
        for (number, record) in read {
            let is_wrong = matches!(verdicts[number], Some(Err(QuantumError::Digest)));
            let Some(gpu) = self.gpu.as_ref().filter(|_| is_wrong) else { continue };
            let again = self.by_a_thread(key, record, expected[number])?;
            let is_sound = again.is_ok();
            verdicts[number] = Some(again);
            if is_sound {
                tracing::error!("the GPU found damage in sound data; it is not used any more");
                gpu.lose("it found damage in sound data");
            }
        }
        let judged = records.into_iter().zip(verdicts).map(|(record, verdict)| match record {
            Err(error) => Err(QuantumError::Unread(error)),
            Ok(_) => verdict.expect("each record that was read was opened"),
        });
        Ok(judged.collect())
    }

    /// Opens one record without the GPU.
    fn by_a_thread(
        &self,
        key: &DomainKey,
        record: &[u8],
        expected: &[ChunkDigest],
    ) -> Result<Result<(), QuantumError>, StoreError> {
        let one = Threads { count: 1, ..self.threads };
        let mut outcome = Err(QuantumError::Digest);
        let failure = open_all(&one, &one, key, &[record], &mut |_, opened| {
            outcome = verdict(opened, expected);
        });
        failure.map_err(no_context)?;
        Ok(outcome)
    }
}

fn verdict(
    opened: Result<OpenRecord, format::DamageError>,
    expected: &[ChunkDigest],
) -> Result<(), QuantumError> {
    if opened?.digests == expected { Ok(()) } else { Err(QuantumError::Digest) }
}

fn no_context(_: std::io::Error) -> StoreError {
    StoreError::away("cannot create a zstd context")
}
