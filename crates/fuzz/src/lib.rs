//! Fuzz targets: each decoder of bytes that come from a disk, a tape, a peer or a person.
//!
//! ```text
//! targets    one function for each decoder, and the seeds of it: golden files and short texts
//!   seeds      golden files of the other crates
//! campaign   replays seeds and kept inputs, then changes the seeds: in each `cargo test`
//!   mutation   changes of bytes, from a number that makes them the same in each run
//! corpus/    inputs that were found to break something, a folder for each target
//! bin/guided libFuzzer chooses inputs by the code that they reach: `make fuzz`
//! ```
//!
//! Every target checks:
//! 1. The decoder returns a value or an error. It does not panic.
//! 2. If bytes decode, the value encodes, and the result decodes to an equal value.
//! 3. The target allocates at most [`Target::allocation_bytes_max`], on an input of at most
//!    [`INPUT_BYTES_MAX`]. The test and the program `guided` count.
//!
//! A checksum would hide most of a decoder from changed bytes. So a target also decodes its input
//! with the checksum that fits.
//!
//! Deliberately absent: sessions, which the crate `e2e` changes, and decoders that are private to a
//! crate. The tests of such a crate use [`exercise`] with a target of their own.

mod campaign;
mod mutation;
mod seeds;
mod targets;

pub use campaign::{Campaign, exercise, exercise_with, kept_inputs};
pub use mutation::Mutator;
pub use targets::TARGETS;

/// Maximum length of an input, in bytes.
pub const INPUT_BYTES_MAX: usize = 64 << 10;

/// Limit for a decoder whose result is about as large as its input.
const PLAIN_BYTES_MAX: u64 = 4 << 20;

/// A decoder with the check of its invariants.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// Name of the target, of its test, and of its folder in `corpus`.
    pub name: &'static str,
    /// Maximum number of bytes that a check has allocated at one time.
    pub allocation_bytes_max: u64,
    /// Returns valid inputs, which are changed.
    pub seeds: fn() -> Vec<Vec<u8>>,
    /// Decodes the input and panics if an invariant does not hold.
    pub check: fn(&[u8]),
}
