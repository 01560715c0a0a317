//! Data: cutting it into chunks, naming chunks by digest, and making quanta of them.
//!
//! Small files are one chunk each; larger ones are cut where their content says so, so that an edit
//! moves few cuts. Chunks are collected into quanta, and each quantum is coded alone: any number of
//! threads can make or open them, in any order.

mod cut;
mod digest;
mod quantum;
mod seal;

pub use cut::cut;
pub use digest::{ContentHasher, DomainKey};
pub use quantum::{Compression, Compressor, Decompressor, RawQuantum, recode};
pub use seal::{KeyName, SEAL_BYTES, SealKey, Sealer, UnsealError, Unsealer};
