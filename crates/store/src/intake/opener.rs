//! Memory and contexts for opening quanta.

use chunk::{Compressor, Decompressor, RawQuantum};

/// Memory and contexts for opening one quantum at a time.
///
/// The store keeps a list of openers for all threads. A new opener for each quantum would take as
/// much time as opening the quantum. An opener for each thread would waste memory on threads that
/// seldom store quanta.
pub(crate) struct Opener {
    pub(crate) decompressor: Decompressor,
    pub(crate) raw: RawQuantum,
    /// Compressor for quanta that are compressed again; `None` before the first of them.
    pub(crate) compressor: Option<Compressor>,
}

impl Opener {
    pub(crate) fn new() -> std::io::Result<Self> {
        let decompressor = Decompressor::new()?;
        Ok(Self { decompressor, raw: RawQuantum::default(), compressor: None })
    }
}
