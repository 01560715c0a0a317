//! Memory and contexts for opening quanta.

use chunk::{Compressor, Decompressor, RawQuantum};

/// Memory and contexts for opening one quantum at a time.
///
/// The store keeps a list of them for all threads. Making them for each quantum would take as much
/// time as opening it. One for each thread would keep memory for threads that seldom store.
pub(crate) struct Opener {
    pub(crate) decompressor: Decompressor,
    pub(crate) raw: RawQuantum,
    /// Compressor for quanta that are made again, once the first of them has come.
    pub(crate) compressor: Option<Compressor>,
}

impl Opener {
    pub(crate) fn new() -> std::io::Result<Self> {
        let decompressor = Decompressor::new()?;
        Ok(Self { decompressor, raw: RawQuantum::default(), compressor: None })
    }
}
