//! Data as chunks and quanta: cutting, digests, compression, encryption.
//!
//! A small file is one chunk. A larger file is cut at points that depend on its content, so that an
//! edit moves few cuts. Chunks are collected into quanta. Each quantum is compressed alone, so any
//! number of threads can make or open quanta, in any order.

mod batch;
mod cut;
mod digest;
mod quantum;
mod recompression;
mod seal;

pub use batch::{
    BatchCompressor, BatchOpener, Estimate, OpenRecord, Remainder, Threads, compress_by, open_all,
};
pub use cut::cut;
pub use digest::{ContentHasher, DomainKey};
pub use quantum::{Compression, Compressor, Decompressor, RawQuantum, recode, record};
pub use recompression::{Recompression, RecompressionError};
pub use seal::{KeyName, SEAL_BYTES, SealKey, Sealer, UnsealError, Unsealer};
