//! Compression alone, without a backup: its speed-up with threads, its rate by a GPU if there is
//! one, and the loss because each quantum is compressed independently.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use chunk::{BatchCompressor as _, Compression, Compressor, RawQuantum, cut};
use e2e::clock;
use gpu::{Gpu, Settings};

use super::corpus::Corpus;
use crate::output;
use crate::process;
use crate::spread::{Spread, float};
use crate::trouble::{Context as _, Trouble};

/// Maximum number of bytes that are compressed in one measurement. All of them are in memory.
const SAMPLE_BYTES_MAX: u64 = 256 << 20;

const ROUNDS: usize = 3;

/// Number of bytes that the GPU compresses in one measurement: the sample again and again.
const GPU_BYTES: u64 = 8 << 30;
/// Number of quanta in a batch that fills a GPU better than those of a backup.
const LARGE_BATCH: usize = 128;

/// Levels whose scaling is measured: the fastest level of zstd that is not negative, and the
/// default of the program.
const SCALING_LEVELS: [Compression; 2] = [Compression::Level(1), Compression::Standard];
const LOSS_LEVELS: [Compression; 4] =
    [Compression::Level(1), Compression::Standard, Compression::Level(3), Compression::Level(6)];

/// Rates of one level with each number of threads.
#[derive(Clone, Debug)]
pub(super) struct ThreadScaling {
    pub(super) level: Compression,
    /// Uncompressed bytes per second, in the order of [`Results::threads`].
    pub(super) rates: Vec<Spread>,
    /// Uncompressed bytes for each byte of the records.
    pub(super) ratio: f64,
    /// Ratio of the rate with the most threads to the rate with one thread, in each round.
    pub(super) speedup: Spread,
}

/// Compression by the GPU alone, from memory to memory.
#[derive(Clone, Debug)]
pub(super) struct GpuStage {
    pub(super) settings: Settings,
    /// Uncompressed bytes per second.
    pub(super) rate: Spread,
    /// Uncompressed bytes for each byte of the records.
    pub(super) ratio: f64,
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
    /// Numbers of threads, the least first.
    pub(super) threads: Vec<usize>,
    pub(super) scaling: Vec<ThreadScaling>,
    /// Measurements of the GPU alone; empty if there is no GPU.
    pub(super) gpu: Vec<GpuStage>,
    pub(super) losses: Vec<Loss>,
}

/// Measures compression of files below `tops`. `nvcomp` is the file of nvCOMP, if the user has
/// named one.
pub(super) fn measure(
    tops: &[PathBuf],
    set_bytes: u64,
    nvcomp: Option<&Path>,
) -> Result<Results, Trouble> {
    let bytes_max = set_bytes.min(SAMPLE_BYTES_MAX);
    let threads = thread_counts(sys::process::processors());
    output::step("compressing with one thread and more");
    let quanta = pack(&Corpus::list(tops)?.scattered(), bytes_max);
    let scaling = SCALING_LEVELS
        .into_iter()
        .map(|level| scaling(&quanta, level, &threads))
        .collect::<Result<_, _>>()?;
    let gpu = gpu_stages(&quanta, nvcomp)?;
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
    Ok(Results { scaling_bytes, threads, scaling, gpu, losses })
}

/// Returns the numbers of threads that are measured on a machine with so many processors: one, two,
/// and all.
fn thread_counts(processors: usize) -> Vec<usize> {
    if processors > 2 { vec![1, 2, processors] } else { vec![1, 2] }
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

fn scaling(
    quanta: &[RawQuantum],
    level: Compression,
    threads: &[usize],
) -> Result<ThreadScaling, Trouble> {
    let bytes = float(raw_bytes(quanta));
    let mut rates: Vec<Vec<f64>> = vec![Vec::new(); threads.len()];
    let mut ratio = 1.0;
    for round in 0..ROUNDS {
        for turn in 0..threads.len() {
            let index = (turn + round) % threads.len();
            process::check_interrupted()?;
            let (done, wall) = clock::timed(|| compress(quanta, level, threads[index]));
            ratio = bytes / float(done?.max(1));
            rates[index].push(bytes / wall.as_secs_f64());
        }
    }
    let (one, most) = (&rates[0], &rates[threads.len() - 1]);
    let speedup = Spread::of(one.iter().zip(most).map(|(one, most)| most / one));
    let rates = rates.into_iter().map(Spread::of).collect();
    Ok(ThreadScaling { level, rates, ratio, speedup })
}

/// Measures the GPU with the batches of a backup, and with large ones. A GPU that fails ends the
/// measurements of the GPU, and no others.
fn gpu_stages(quanta: &[RawQuantum], nvcomp: Option<&Path>) -> Result<Vec<GpuStage>, Trouble> {
    let mut stages = Vec::new();
    let large = Settings { quanta: LARGE_BATCH, ..Settings::default() };
    for settings in [Settings::default(), large] {
        process::check_interrupted()?;
        let gpu = match Gpu::open(nvcomp.map(Path::as_os_str), settings) {
            // Without a GPU, the page says why there is none.
            Err(_) if stages.is_empty() => break,
            opened => opened,
        };
        output::step(&format!("compressing by the GPU in batches of {} quanta", settings.quanta));
        match gpu.and_then(|gpu| gpu_stage(&gpu, settings, quanta)) {
            Ok(stage) => stages.push(stage),
            Err(error) => {
                output::warning(&format!("the GPU alone was not measured: {error}"));
                break;
            }
        }
    }
    Ok(stages)
}

fn gpu_stage(gpu: &Gpu, settings: Settings, quanta: &[RawQuantum]) -> io::Result<GpuStage> {
    let (mut rates, mut ratio) = (Vec::new(), 1.0);
    // The lanes are made before the clock starts.
    pass(gpu, settings, quanta, 1)?;
    for _ in 0..ROUNDS {
        let (passed, wall) = clock::timed(|| pass(gpu, settings, quanta, GPU_BYTES));
        let [before, after] = passed?;
        rates.push(float(before) / wall.as_secs_f64());
        ratio = float(before) / float(after.max(1));
    }
    Ok(GpuStage { settings, rate: Spread::of(rates), ratio })
}

/// Compresses at least `bytes` bytes by all lanes of the GPU, the quanta again and again. Returns
/// the numbers of bytes before and after compression.
fn pass(gpu: &Gpu, settings: Settings, quanta: &[RawQuantum], bytes: u64) -> io::Result<[u64; 2]> {
    if quanta.is_empty() {
        return Err(io::Error::other("the corpus is empty"));
    }
    let (next, before, after) = (AtomicUsize::new(0), AtomicU64::new(0), AtomicU64::new(0));
    let work = || -> io::Result<()> {
        loop {
            let first = next.fetch_add(settings.quanta, Ordering::Relaxed);
            let numbers = first..first + settings.quanta;
            let batch: Vec<&RawQuantum> =
                numbers.map(|number| &quanta[number % quanta.len()]).collect();
            let (mut made, mut sent) = (0, 0);
            gpu.compress(&batch, &mut |_, record| {
                made += 1;
                sent += record.len();
            })?;
            if made < batch.len() {
                return Err(io::Error::other("it has left quanta undone"));
            }
            let raw: usize = batch.iter().map(|quantum| quantum.data().len()).sum();
            after.fetch_add(u64::try_from(sent).unwrap_or(0), Ordering::Relaxed);
            let raw = u64::try_from(raw).unwrap_or(0);
            if before.fetch_add(raw, Ordering::Relaxed) + raw >= bytes {
                return Ok(());
            }
        }
    };
    in_threads(settings.lanes, work).into_iter().collect::<io::Result<()>>()?;
    Ok([before.into_inner(), after.into_inner()])
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
    let sum: io::Result<u64> = in_threads(threads, work).into_iter().sum();
    sum.while_doing(|| format!("compress at level {level}"))
}

/// Performs `work` in each of so many threads. Returns the results.
fn in_threads<T: Send>(
    threads: usize,
    work: impl Fn() -> io::Result<T> + Copy + Send,
) -> Vec<io::Result<T>> {
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        threads
            .into_iter()
            .map(|thread| thread.join().expect("compressing does not panic"))
            .collect()
    })
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
        let scaling = scaling(&quanta, level, &[1, 2]).unwrap();
        let bytes = compress(&quanta, level, 1).unwrap();
        assert_eq!(scaling.ratio.to_bits(), (float(raw_bytes(&quanta)) / float(bytes)).to_bits());
        assert_eq!(scaling.rates.len(), 2);
        let loss = loss(dir.path(), &quanta, level).unwrap();
        assert!(loss.stream_bytes >= 3 << 20 && loss.share().abs() < 0.01, "{loss:?}");
    }

    #[test]
    fn all_processors_are_measured() {
        assert_eq!([1, 2, 16].map(thread_counts), [vec![1, 2], vec![1, 2], vec![1, 2, 16]]);
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
