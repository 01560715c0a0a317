//! Opening of the quanta that an audit reads: on all processors, or on a GPU.
//!
//! A GPU gets only records whose checksum is right, of data that the server has decompressed itself
//! when it came. Data fresh from a node never goes to a GPU: the GPU's decoder may not return from
//! a frame that somebody has made to this end, and may read a frame that no other decoder reads.

use std::path::Path;

use chunk::{BatchOpener, Compression, DomainKey, OpenRecord, Threads, open_all};
use gpu::{Gpu, Settings};
use pool::ReadError;
use sys::process::processors;

use super::QuantumError;
use crate::error::StoreError;
use crate::folder::Config;

/// Division of the work: large batches, because a GPU takes as long for small ones.
const ON_GPU: Settings = Settings { piece_bytes: 256 << 10, quanta: 128, lanes: 1 };

/// The GPU if the administrator allows it, and threads.
pub(super) struct Opening {
    gpu: Option<Gpu>,
    threads: Threads,
}

impl Opening {
    /// Opens the GPU, if the configuration names one. Without a GPU that works, threads open
    /// everything.
    pub(super) fn new(config: &Config) -> Self {
        let library = config.nvcomp.as_deref().map(Path::as_os_str);
        let gpu = config.gpu.then(|| Gpu::open(library, ON_GPU));
        let gpu = gpu.and_then(|opened| match opened {
            Ok(gpu) => {
                tracing::info!(gpu = gpu.device_name(), "a GPU opens the data of this audit");
                Some(gpu)
            }
            Err(error) => {
                let error = error.to_string();
                tracing::warn!(error, "no GPU opens the data of this audit; threads do");
                None
            }
        });
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

    /// Opens records, at most [`Self::quanta_max`]. Returns the outcome of each, in order.
    pub(super) fn open(
        &self,
        key: &DomainKey,
        records: Vec<Result<Vec<u8>, ReadError>>,
    ) -> Result<Vec<Result<OpenRecord, QuantumError>>, StoreError> {
        let read: Vec<(usize, &[u8])> = records
            .iter()
            .enumerate()
            .filter_map(|(number, record)| Some((number, record.as_deref().ok()?)))
            .collect();
        let batch: Vec<&[u8]> = read.iter().map(|(_, record)| *record).collect();
        let mut opened: Vec<Option<Result<OpenRecord, format::DamageError>>> =
            records.iter().map(|_| None).collect();
        let failure = open_all(self.opener(), &self.threads, key, &batch, &mut |at, record| {
            opened[read[at].0] = Some(record);
        })
        .map_err(|_| StoreError::away("cannot create a zstd context"))?;
        if let Some(error) = failure {
            tracing::warn!(error = error.to_string(), "the GPU has failed; threads open the data");
        }
        let judged = records.into_iter().zip(opened).map(|(record, opened)| match record {
            Err(error) => Err(QuantumError::Unread(error)),
            Ok(_) => opened.expect("each record that was read was opened").map_err(Into::into),
        });
        Ok(judged.collect())
    }
}
