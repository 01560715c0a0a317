//! Processor time of the parts of an image backup and of a restore, each alone on one core.
//!
//! The parts use the crate `chunk` as client and server do, on chunks of the disk itself. Chunks of
//! zeros are left out, as in an image.

use std::io;

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use chunk::{Compressor, Decompressor, DomainKey, RawQuantum};
use client::ImageLayout;
use model::QUANTUM_BYTES_MAX;
use serde_json::{Value, json};

use super::disk::{StillDisk, WindowBuffer};
use crate::effort::Effort;
use crate::file::stages::{KEY, STRENGTH};
use crate::process;
use crate::spread::float;
use crate::trouble::{Context as _, Trouble};

/// Maximum number of windows in the sample. They are spread evenly over the disk.
const SAMPLE_WINDOWS: usize = 256;
/// Number of bytes in a record of TLS.
const RECORD_BYTES: usize = 16 << 10;

/// Times of the parts for the data in a sample.
#[derive(Clone, Default, Debug)]
pub(super) struct Parts {
    /// Copying of chunks into a quantum.
    copy: Effort,
    digest: Effort,
    compress: Effort,
    /// Encryption and decryption of the compressed data.
    tls: Effort,
    /// Decompression and digests, as the server does in a backup and the client in a restore.
    check: Effort,
    data_bytes: u64,
    stored_bytes: u64,
}

impl Parts {
    /// Measures the parts with a sample of `disk`.
    pub(super) fn measure(disk: &StillDisk) -> Result<Self, Trouble> {
        let what = || "measure the parts of an image backup".to_owned();
        let mut bench = Bench::new().while_doing(what)?;
        let chunk_bytes = usize::try_from(ImageLayout::of(disk.bytes).chunk_bytes);
        let chunk_bytes = chunk_bytes.expect("a chunk fits in memory");
        let mut buffer = WindowBuffer::new();
        let mut pending = Vec::new();
        for window in disk.windows.iter().step_by(disk.windows.len().div_ceil(SAMPLE_WINDOWS)) {
            process::check_interrupted()?;
            buffer.bytes().fill(0);
            disk.read(window, &mut buffer).while_doing(what)?;
            for chunk in buffer.bytes().chunks(chunk_bytes) {
                if chunk.iter().any(|byte| *byte != 0) {
                    pending.extend_from_slice(chunk);
                }
                if pending.len() + chunk_bytes > QUANTUM_BYTES_MAX {
                    bench.quantum(&pending, chunk_bytes).while_doing(what)?;
                    pending.clear();
                }
            }
        }
        bench.quantum(&pending, chunk_bytes).while_doing(what)?;
        Ok(bench.parts)
    }

    /// Returns the processor time for finding out that `bytes` of data are known, in seconds.
    pub(super) fn known_secs(&self, bytes: u64) -> f64 {
        self.secs(&[self.digest], bytes)
    }

    /// Returns the processor time for backing up `bytes` of new data, in seconds.
    pub(super) fn backup_secs(&self, bytes: u64) -> f64 {
        self.secs(&[self.copy, self.digest, self.compress, self.tls, self.check], bytes)
    }

    /// Returns the processor time for restoring `bytes` of data without writing them, in seconds.
    pub(super) fn restore_secs(&self, bytes: u64) -> f64 {
        self.secs(&[self.tls, self.check], bytes)
    }

    fn secs(&self, parts: &[Effort], bytes: u64) -> f64 {
        let secs: f64 = parts.iter().map(|part| part.cpu.as_secs_f64()).sum();
        secs * float(bytes) / float(self.data_bytes.max(1))
    }

    /// Returns the rate of each part on one core, in bytes of data per second.
    pub(super) fn rates(&self) -> [(&'static str, f64); 5] {
        let named = [
            ("copy", self.copy),
            ("digest", self.digest),
            ("compress", self.compress),
            ("TLS, both ends", self.tls),
            ("decompress and check", self.check),
        ];
        let least = f64::MIN_POSITIVE;
        named.map(|(name, part)| (name, float(self.data_bytes) / part.cpu.as_secs_f64().max(least)))
    }

    /// Returns the compressed size of one byte of data.
    pub(super) fn ratio(&self) -> f64 {
        float(self.stored_bytes) / float(self.data_bytes.max(1))
    }

    pub(super) fn json(&self) -> Value {
        json!({
            "data_bytes": self.data_bytes,
            "stored_bytes": self.stored_bytes,
            "copy": self.copy.json(),
            "digest": self.digest.json(),
            "compress": self.compress.json(),
            "tls": self.tls.json(),
            "check": self.check.json(),
        })
    }
}

/// State of all parts while data passes through them.
struct Bench {
    key: DomainKey,
    quantum: RawQuantum,
    compressor: Compressor,
    connection: Connection,
    decompressor: Decompressor,
    checked: RawQuantum,
    parts: Parts,
}

impl Bench {
    fn new() -> io::Result<Self> {
        Ok(Self {
            key: DomainKey::new(KEY),
            quantum: RawQuantum::with_room(),
            compressor: Compressor::new(STRENGTH)?,
            connection: Connection::new(),
            decompressor: Decompressor::new()?,
            checked: RawQuantum::with_room(),
            parts: Parts::default(),
        })
    }

    /// Passes `data`, which fits in a quantum, through all parts.
    fn quantum(&mut self, data: &[u8], chunk_bytes: usize) -> io::Result<()> {
        if data.is_empty() {
            return Ok(());
        }
        let Self { key, quantum, compressor, connection, decompressor, checked, parts } = self;
        quantum.clear();
        parts.copy.timed(|| {
            for chunk in data.chunks(chunk_bytes) {
                let _index = quantum.push(chunk);
            }
        });
        let digests = |quantum: &RawQuantum| {
            quantum.chunks().map(|chunk| key.digest(chunk)).collect::<Vec<_>>()
        };
        let expected = parts.digest.timed(|| digests(quantum));
        let record = parts.compress.timed(|| compressor.encode(quantum));
        parts.tls.timed(|| connection.pass(&record));
        let found = parts.check.timed(|| {
            decompressor.decode_into(&record, checked).ok()?;
            Some(digests(checked))
        });
        if found != Some(expected) {
            return Err(io::ErrorKind::InvalidData.into());
        }
        parts.data_bytes += data.len() as u64;
        parts.stored_bytes += record.len() as u64;
        Ok(())
    }
}

/// Both ends of a connection, as far as they encrypt and decrypt.
struct Connection {
    key: LessSafeKey,
    /// Number of records. It makes the nonces, as in a connection.
    records: u64,
    buffer: Vec<u8>,
}

impl Connection {
    fn new() -> Self {
        let key =
            UnboundKey::new(&AES_256_GCM, &[3; 32]).expect("the key is as long as it must be");
        Self { key: LessSafeKey::new(key), records: 0, buffer: Vec::new() }
    }

    fn pass(&mut self, bytes: &[u8]) {
        for record in bytes.chunks(RECORD_BYTES) {
            self.records += 1;
            let mut nonce = [0; 12];
            nonce[4..].copy_from_slice(&self.records.to_be_bytes());
            let nonce = || Nonce::assume_unique_for_key(nonce);
            self.buffer.clear();
            self.buffer.extend_from_slice(record);
            let sealed = self.key.seal_in_place_append_tag(nonce(), Aad::empty(), &mut self.buffer);
            sealed.expect("a record is short enough");
            let opened = self.key.open_in_place(nonce(), Aad::empty(), &mut self.buffer);
            assert_eq!(opened.expect("it was just sealed").len(), record.len());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_passes_all_parts() {
        let mut bench = Bench::new().expect("zstd needs only memory");
        let data = b"some text to repeat\n".repeat(50_000);
        bench.quantum(&data, 128 << 10).expect("checked");
        let parts = bench.parts;
        assert_eq!(parts.data_bytes, 1_000_000);
        assert!(parts.ratio() < 0.1, "{}", parts.ratio());
        let twice = parts.backup_secs(2_000_000) / parts.backup_secs(1_000_000);
        assert!((twice - 2.0).abs() < 1e-9);
        assert!(parts.restore_secs(1) + parts.known_secs(1) < parts.backup_secs(1));
        assert!(parts.rates().iter().all(|(_, rate)| *rate > 0.0));
    }
}
