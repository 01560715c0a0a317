//! Compression alone, without a backup: its speed-up with threads, and the loss because each
//! quantum is compressed independently.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use chunk::{Compression, Compressor, RawQuantum, cut};
use e2e::clock;

use super::corpus::Corpus;
use crate::output;
use crate::process;
use crate::spread::{Spread, float};
use crate::trouble::{Context as _, Trouble};

/// Maximum number of bytes that are compressed in one measurement. All of them are in memory.
const SAMPLE_BYTES_MAX: u64 = 256 << 20;

const ROUNDS: usize = 3;

pub(super) const THREADS: [usize; 2] = [1, 2];

/// Levels whose scaling is measured: the fastest level of zstd that is not negative, and the
/// default of the program.
const SCALING_LEVELS: [Compression; 2] = [Compression::Level(1), Compression::Standard];
const LOSS_LEVELS: [Compression; 4] =
    [Compression::Level(1), Compression::Standard, Compression::Level(3), Compression::Level(6)];

/// Rates of one level with each number of threads.
#[derive(Clone, Debug)]
pub(super) struct ThreadScaling {
    pub(super) level: Compression,
    /// Uncompressed bytes per second, in the order of [`THREADS`].
    pub(super) rates: [Spread; THREADS.len()],
    /// Ratio of the rate with the most threads to the rate with one thread, in each round.
    pub(super) speedup: Spread,
}

/// Loss of compression because each quantum is compressed independently, in one part of the corpus
/// at one level.
#[derive(Clone, Debug)]
pub(super) struct Loss {
    pub(super) part: PathBuf,
    pub(super) level: Compression,
    pub(super) raw_bytes: u64,
    pub(super) stream_bytes: u64,
    pub(super) quanta_bytes: u64,
}

impl Loss {
    /// Returns the share of the compression ratio of one stream that is lost in quanta.
    pub(super) fn share(&self) -> f64 {
        1.0 - float(self.stream_bytes) / float(self.quanta_bytes.max(1))
    }
}

pub(super) struct Results {
    pub(super) scaling_bytes: u64,
    pub(super) scaling: Vec<ThreadScaling>,
    pub(super) losses: Vec<Loss>,
}

pub(super) fn measure(tops: &[PathBuf], set_bytes: u64) -> Result<Results, Trouble> {
    let bytes_max = set_bytes.min(SAMPLE_BYTES_MAX);
    output::step("compressing with one thread and two");
    let quanta = pack(&Corpus::list(tops)?.scattered(), bytes_max);
    let scaling = SCALING_LEVELS
        .into_iter()
        .map(|level| scaling(&quanta, level))
        .collect::<Result<_, _>>()?;
    let scaling_bytes = raw_bytes(&quanta);
    drop(quanta);
    let mut losses = Vec::new();
    for part in parts(tops)? {
        output::step(&format!("compressing {} as one stream", part.display()));
        let quanta = pack(&Corpus::list(std::slice::from_ref(&part))?, bytes_max);
        for level in LOSS_LEVELS {
            losses.push(loss(&part, &quanta, level)?);
        }
    }
    Ok(Results { scaling_bytes, scaling, losses })
}

/// Packs files as a client does in a first backup: chunks in order, in quanta that are as full as
/// possible.
fn pack(corpus: &Corpus, bytes_max: u64) -> Vec<RawQuantum> {
    let mut stream = corpus.stream();
    let (mut quanta, mut open, mut bytes) = (Vec::new(), RawQuantum::with_room(), 0);
    while bytes < bytes_max
        && let Some(file) = stream.next_file()
    {
        bytes += u64::try_from(file.len()).unwrap_or(u64::MAX);
        let mut rest = file.as_slice();
        while let Some(length) = cut(rest, true) {
            let (chunk, after) = rest.split_at(length);
            if !open.fits(length) {
                quanta.push(std::mem::replace(&mut open, RawQuantum::with_room()));
            }
            open.push(chunk);
            rest = after;
        }
    }
    if !open.is_empty() {
        quanta.push(open);
    }
    quanta
}

fn raw_bytes(quanta: &[RawQuantum]) -> u64 {
    let bytes = |quantum: &RawQuantum| u64::try_from(quantum.data().len()).unwrap_or(0);
    quanta.iter().map(bytes).sum()
}

fn scaling(quanta: &[RawQuantum], level: Compression) -> Result<ThreadScaling, Trouble> {
    let bytes = float(raw_bytes(quanta));
    let mut rates: [Vec<f64>; THREADS.len()] = Default::default();
    for round in 0..ROUNDS {
        for turn in 0..THREADS.len() {
            let index = (turn + round) % THREADS.len();
            process::check_interrupted()?;
            let (done, wall) = clock::timed(|| compress(quanta, level, THREADS[index]));
            done?;
            rates[index].push(bytes / wall.as_secs_f64());
        }
    }
    let [one, .., most] = &rates;
    let speedup = Spread::of(one.iter().zip(most).map(|(one, most)| most / one));
    Ok(ThreadScaling { level, rates: rates.map(Spread::of), speedup })
}

/// Compresses all quanta with `threads` threads. Returns the number of bytes of the records.
fn compress(quanta: &[RawQuantum], level: Compression, threads: usize) -> Result<u64, Trouble> {
    let next = AtomicUsize::new(0);
    let work = || -> io::Result<u64> {
        let mut compressor = Compressor::new(level)?;
        let mut bytes = 0;
        while let Some(quantum) = quanta.get(next.fetch_add(1, Ordering::Relaxed)) {
            bytes += u64::try_from(compressor.encode(quantum).len()).unwrap_or(0);
        }
        Ok(bytes)
    };
    let results: Vec<io::Result<u64>> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        threads
            .into_iter()
            .map(|thread| thread.join().expect("compressing does not panic"))
            .collect()
    });
    let sum: io::Result<u64> = results.into_iter().sum();
    sum.while_doing(|| format!("compress at level {level}"))
}

fn loss(part: &Path, quanta: &[RawQuantum], level: Compression) -> Result<Loss, Trouble> {
    process::check_interrupted()?;
    Ok(Loss {
        part: part.to_path_buf(),
        level,
        raw_bytes: raw_bytes(quanta),
        stream_bytes: stream(quanta, level)
            .while_doing(|| format!("compress a stream at level {level}"))?,
        quanta_bytes: compress(quanta, level, 1)?,
    })
}

/// Compresses the data of all quanta as one zstd stream of the same strength. Returns its number of
/// bytes.
fn stream(quanta: &[RawQuantum], strength: Compression) -> io::Result<u64> {
    let (level, parameters) = strength.parameters();
    let mut encoder = zstd::stream::write::Encoder::new(Counter(0), level)?;
    for parameter in parameters {
        encoder.set_parameter(*parameter)?;
    }
    for quantum in quanta {
        encoder.write_all(quantum.data())?;
    }
    Ok(encoder.finish()?.0)
}

/// A sink that only counts bytes.
struct Counter(u64);

impl Write for Counter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += u64::try_from(bytes.len()).unwrap_or(0);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Returns the parts of the corpus. A top that contains only folders is divided into these folders;
/// any other top is a part itself.
fn parts(tops: &[PathBuf]) -> Result<Vec<PathBuf>, Trouble> {
    let mut parts = Vec::new();
    for top in tops {
        let what = || format!("list {}", top.display());
        let entries: Vec<_> = std::fs::read_dir(top).while_doing(what)?.flatten().collect();
        let is_dir = |entry: &std::fs::DirEntry| entry.file_type().is_ok_and(|kind| kind.is_dir());
        if entries.iter().all(is_dir) && !entries.is_empty() {
            parts.extend(entries.iter().map(std::fs::DirEntry::path));
        } else {
            parts.push(top.clone());
        }
    }
    parts.sort_unstable();
    Ok(parts)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    #[test]
    fn quanta_hold_all_that_was_packed_and_threads_make_the_same() {
        let dir = tempfile::tempdir().unwrap();
        let mut content = vec![0; 3 << 20];
        Random::new(1).fill(&mut content);
        std::fs::write(dir.path().join("large"), &content).unwrap();
        std::fs::write(dir.path().join("small"), b"text ".repeat(1000)).unwrap();
        let corpus = Corpus::list(&[dir.path().to_path_buf()]).unwrap();
        let quanta = pack(&corpus, u64::MAX);
        assert!(quanta.len() >= 2);
        assert_eq!(raw_bytes(&quanta), (3 << 20) + 5000);
        let level = Compression::Level(1);
        assert_eq!(compress(&quanta, level, 1), compress(&quanta, level, 2));
        let loss = loss(dir.path(), &quanta, level).unwrap();
        assert!(loss.stream_bytes >= 3 << 20 && loss.share().abs() < 0.01, "{loss:?}");
    }

    #[test]
    fn a_folder_of_folders_is_as_many_parts() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        ["a", "b"].iter().for_each(|name| std::fs::create_dir(at(name)).unwrap());
        assert_eq!(parts(&[dir.path().to_path_buf()]), Ok(vec![at("a"), at("b")]));
        std::fs::write(at("file"), b"1").unwrap();
        assert_eq!(parts(&[dir.path().to_path_buf()]), Ok(vec![dir.path().to_path_buf()]));
    }
}
