//! Rates of the processors, for each part of their work in a backup: by one thread alone, and by
//! all processors at once.

use std::sync::Barrier;
use std::thread;
use std::time::Duration;

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use chunk::{Compression, Compressor, Decompressor, DomainKey, RawQuantum};
use model::{CHUNK_BYTES_MEAN, QUANTUM_BYTES_MAX};
use serde::{Deserialize, Serialize};

/// Number of bytes of a record of TLS.
const RECORD_BYTES: usize = 16 << 10;
/// Number of bytes that a digest is made of: the usual length of a chunk.
const DIGESTED_BYTES: usize = 64 << 10;

/// A rate in bytes of uncompressed data per second.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Rate {
    /// By one thread, while the other processors are idle.
    pub one: f64,
    /// By as many threads as there are processors, together.
    pub all: f64,
}

/// Compression of the sample at one strength.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct CompressionRate {
    /// The strength as users write it: `standard`, or a level of zstd.
    pub strength: String,
    pub rate: Rate,
    /// Bytes after compression for one byte before.
    pub ratio: f64,
}

/// Rates of all parts of a backup's work that processors do.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct ProcessorRates {
    /// Encryption by AES-256-GCM in records of TLS, as the program's connections negotiate it.
    pub aes_gcm: Rate,
    /// Keyed BLAKE3 digests of chunks.
    pub digest: Rate,
    /// Cutting of large files by their content.
    pub cut: Rate,
    /// Compression, from the least work to the most.
    pub compress: Vec<CompressionRate>,
    /// Decompression of what the standard strength made, in bytes of the result.
    pub decompress: Rate,
}

impl ProcessorRates {
    /// Returns the rate of the strength that backups use if nobody chooses another.
    pub fn standard(&self) -> Option<&CompressionRate> {
        let standard = Compression::default().to_string();
        self.compress.iter().find(|row| row.strength == standard)
    }
}

/// Strengths that backups use: the default, and what `--compression auto` chooses among.
const STRENGTHS: [Compression; 5] = [
    Compression::Level(-5),
    Compression::Level(1),
    Compression::Standard,
    Compression::Level(6),
    Compression::Level(9),
];

/// Number of rates that [`measure`] takes, each for the same time.
pub(crate) const RATES: u32 = 2 * (crate::small(STRENGTHS.len()) + 4);

/// A way to measure a part of the work.
pub(crate) struct Stopwatch<'a> {
    /// Time for one rate.
    pub(crate) each: Duration,
    /// Returns true once the user wants the end. Rates then have no meaning.
    pub(crate) is_stopped: &'a (dyn Fn() -> bool + Sync),
}

impl Stopwatch<'_> {
    /// Returns the rates of the work that `prepare` makes for each thread. The work is called again
    /// and again, and returns the number of bytes that it has done.
    pub(crate) fn both<W: FnMut() -> usize>(&self, prepare: impl Fn() -> W + Sync) -> Rate {
        Rate { one: self.rate(1, &prepare), all: self.rate(sys::process::processors(), &prepare) }
    }

    fn rate<W: FnMut() -> usize>(&self, threads: usize, prepare: &(impl Fn() -> W + Sync)) -> f64 {
        let begin = Barrier::new(threads);
        let run = || {
            let mut work = prepare();
            // Not counted: it fills caches and buffers.
            let _warm = work();
            begin.wait();
            self.run(&mut work)
        };
        thread::scope(|scope| {
            let workers: Vec<_> = (0..threads).map(|_| scope.spawn(run)).collect();
            let joined = workers.into_iter().map(|worker| {
                worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            });
            joined.sum()
        })
    }

    /// Returns the rate of `work` in this thread, in bytes per second.
    fn run(&self, work: &mut impl FnMut() -> usize) -> f64 {
        let began = sys::clock::monotonic();
        let mut bytes = 0.0;
        loop {
            bytes += crate::to_f64(work() as u64);
            let elapsed = began.elapsed();
            if elapsed >= self.each || (self.is_stopped)() {
                return bytes / elapsed.as_secs_f64();
            }
        }
    }
}

/// Measures each part with `sample`, real data of at least one byte.
pub(crate) fn measure(sample: &[u8], stopwatch: &Stopwatch<'_>) -> ProcessorRates {
    assert!(!sample.is_empty(), "there is data to work on");
    let quanta = quanta(sample);
    let compress = STRENGTHS.map(|strength| {
        let rate = stopwatch.both(|| compressing(&quanta, strength));
        CompressionRate { strength: strength.to_string(), rate, ratio: ratio(&quanta, strength) }
    });
    ProcessorRates {
        aes_gcm: stopwatch.both(encrypting),
        digest: stopwatch.both(|| digesting(sample)),
        cut: stopwatch.both(|| cutting(sample)),
        compress: compress.into(),
        decompress: stopwatch.both(|| decompressing(&quanta)),
    }
}

fn quanta(sample: &[u8]) -> Vec<RawQuantum> {
    let quantum = |part: &[u8]| {
        let mut quantum = RawQuantum::default();
        part.chunks(CHUNK_BYTES_MEAN).for_each(|chunk| {
            let _index = quantum.push(chunk);
        });
        quantum
    };
    sample.chunks(QUANTUM_BYTES_MAX).map(quantum).collect()
}

fn compressor(strength: Compression) -> Compressor {
    Compressor::new(strength).expect("zstd knows these strengths")
}

fn ratio(quanta: &[RawQuantum], strength: Compression) -> f64 {
    let mut compressor = compressor(strength);
    let after: usize = quanta.iter().map(|quantum| compressor.encode(quantum).len()).sum();
    let before: usize = quanta.iter().map(|quantum| quantum.data().len()).sum();
    crate::to_f64(after as u64) / crate::to_f64(before as u64)
}

fn compressing(quanta: &[RawQuantum], strength: Compression) -> impl FnMut() -> usize {
    let mut compressor = compressor(strength);
    let mut turn = quanta.iter().cycle();
    move || {
        let quantum = turn.next().expect("a cycle has no end");
        assert!(!compressor.encode(quantum).is_empty(), "a record has a head");
        quantum.data().len()
    }
}

fn decompressing(quanta: &[RawQuantum]) -> impl FnMut() -> usize {
    let mut compressor = compressor(Compression::default());
    let records: Vec<_> = quanta.iter().map(|quantum| compressor.encode(quantum)).collect();
    let mut decompressor = Decompressor::new().expect("zstd needs only memory");
    let mut quantum = RawQuantum::with_room();
    let mut turn = 0;
    move || {
        let record = &records[turn];
        turn = (turn + 1) % records.len();
        decompressor.decode_into(record, &mut quantum).expect("it was just encoded");
        quantum.data().len()
    }
}

fn digesting(sample: &[u8]) -> impl FnMut() -> usize {
    let key = DomainKey::new([7; 32]);
    let mut turn = sample.chunks(DIGESTED_BYTES).cycle();
    move || {
        let chunk = turn.next().expect("a cycle has no end");
        std::hint::black_box(key.digest(chunk));
        chunk.len()
    }
}

fn cutting(sample: &[u8]) -> impl FnMut() -> usize {
    let mut rest = sample;
    move || {
        if rest.is_empty() {
            rest = sample;
        }
        let bytes = chunk::cut(rest, true).expect("there is data, and its end is known");
        rest = &rest[bytes..];
        bytes
    }
}

/// Encrypts records of TLS 1.3. The counter in the nonce goes up, as in a connection.
fn encrypting() -> impl FnMut() -> usize {
    let key = UnboundKey::new(&AES_256_GCM, &[3; 32]).expect("the key is as long as it must be");
    let key = LessSafeKey::new(key);
    let mut record = vec![0x5a; RECORD_BYTES];
    let mut counter = 0_u64;
    move || {
        counter += 1;
        let mut nonce = [0; 12];
        nonce[4..].copy_from_slice(&counter.to_be_bytes());
        let nonce = Nonce::assume_unique_for_key(nonce);
        let sealed = key.seal_in_place_separate_tag(nonce, Aad::empty(), &mut record);
        std::hint::black_box(sealed.expect("a record is short enough").as_ref()[0]);
        RECORD_BYTES
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_has_rates_and_compression_has_ratios() {
        let sample: Vec<u8> = (0..3_000_000_u32).flat_map(|n| (n / 8).to_le_bytes()).collect();
        let stopwatch = Stopwatch { each: Duration::from_millis(5), is_stopped: &|| false };
        let rates = measure(&sample, &stopwatch);
        let parts = [rates.aes_gcm, rates.digest, rates.cut, rates.decompress];
        let strengths = rates.compress.iter().map(|row| row.rate);
        for rate in parts.into_iter().chain(strengths) {
            assert!(rate.one > 0.0 && rate.all > 0.0, "{rates:?}");
        }
        let ratio = rates.standard().expect("the default is measured").ratio;
        assert!(ratio > 0.0 && ratio < 0.7, "{ratio}");
    }

    #[test]
    fn whoever_wants_the_end_gets_it() {
        let stopwatch = Stopwatch { each: Duration::from_secs(3600), is_stopped: &|| true };
        assert!(stopwatch.both(|| || 1).one > 0.0);
    }
}
