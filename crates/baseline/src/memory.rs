//! Bandwidth of the memory.

use crate::processor::{Rate, Stopwatch};

/// Size of a buffer that no cache holds.
const BUFFER_BYTES: usize = 64 << 20;

/// Number of rates that [`measure`] takes.
pub(crate) const RATES: u32 = 2;

/// Measures how fast memory is copied, in bytes copied per second. Each byte is read once and
/// written once.
pub(crate) fn measure(stopwatch: &Stopwatch<'_>) -> Rate {
    stopwatch.both(|| {
        let (from, mut to) = (vec![1_u8; BUFFER_BYTES], vec![0_u8; BUFFER_BYTES]);
        move || {
            to.copy_from_slice(std::hint::black_box(&from));
            std::hint::black_box(&mut to).len()
        }
    })
}
