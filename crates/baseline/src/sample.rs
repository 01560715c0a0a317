//! The sample of a tree, read: what reading costs, how well the data compresses, and how much of it
//! is there twice.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use chunk::{Compression, Compressor, DomainKey, RawQuantum};
use model::{CHUNK_BYTES_MAX, ChunkDigest, QUANTUM_BYTES_MAX};
use serde::{Deserialize, Serialize};
use sys::lock::Mutex;
use sys::{Dir, Segment, SourceFile};

use crate::tree::{Draw, DrawnDirectory, DrawnFile, SMALL_BYTES_MAX};

/// Maximum number of bytes that are kept of small files, and of large ones.
const KEPT_BYTES_MAX: usize = 32 << 20;
/// Number of bytes that are read of a large file.
const STRETCH_BYTES: u64 = 8 << 20;
/// Size of one read.
const READ_BYTES: usize = 1 << 20;
/// Maximum size of a file that is digested to find its copies.
const DIGESTED_BYTES_MAX: u64 = 256 << 20;

/// Most threads that read for a backup.
const THREADS_MAX: usize = 16;

/// A figure from a sample, with its standard error.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Estimate {
    pub value: f64,
    pub error: f64,
}

impl Estimate {
    /// Estimates the ratio of two sums from pairs of a part and its whole, one for each item of a
    /// sample: the ratio estimator, with its standard error (Cochran, "Sampling Techniques", 1977,
    /// section 6.4). `None` if the wholes are 0.
    pub(crate) fn ratio(pairs: &[(f64, f64)]) -> Option<Self> {
        let sum = |of: fn(&(f64, f64)) -> f64| pairs.iter().map(of).sum::<f64>();
        let (parts, wholes) = (sum(|pair| pair.0), sum(|pair| pair.1));
        if wholes <= 0.0 {
            return None;
        }
        let value = parts / wholes;
        let count = crate::to_f64(pairs.len() as u64);
        let squares: f64 = pairs.iter().map(|(part, whole)| (part - value * whole).powi(2)).sum();
        // One item alone says nothing of how others differ.
        let variance = if count > 1.0 { squares * count / (count - 1.0) } else { value * value };
        let error = if count > 1.0 { variance.sqrt() / wholes } else { value };
        Some(Self { value, error })
    }
}

/// Reading of files of the sample.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Reading {
    pub threads: u32,
    pub files: u64,
    pub bytes: u64,
    pub elapsed_secs: f64,
    /// Processor time of all threads.
    pub processor_secs: f64,
}

impl Reading {
    pub fn files_per_sec(&self) -> f64 {
        crate::per_sec(self.files, self.elapsed_secs)
    }

    pub fn bytes_per_sec(&self) -> f64 {
        crate::per_sec(self.bytes, self.elapsed_secs)
    }
}

/// Findings of the sample.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Sample {
    /// Reading of small files as a whole, with their attributes, by number of threads.
    pub small: Vec<Reading>,
    /// Reading of the beginning of large files.
    pub large: Option<Reading>,
    /// Bytes after compression for one byte before, at the strength that backups use by default:
    /// of small files, which are compressed together, and of large ones.
    pub ratio_small: Option<Estimate>,
    pub ratio_large: Option<Estimate>,
    /// Share of the bytes whose file has a copy of equal content in this tree. Copies of parts of
    /// files do not show.
    pub copies: Option<Estimate>,
    /// Number of bytes of files that were read to find copies.
    pub bytes_digested: u64,
    /// Number of files of the sample that could not be read.
    pub failed: u64,
}

/// How the sample is read.
pub(crate) struct Order<'a> {
    /// Time for each of the five parts.
    pub(crate) each: Duration,
    pub(crate) is_stopped: &'a (dyn Fn() -> bool + Sync),
    /// Called when a part begins, with its name.
    pub(crate) begins: &'a (dyn Fn(&str) + Sync),
}

/// Number of parts of [`read`].
pub(crate) const PARTS: u32 = 5;

/// Reads the sample. Returns what it shows, and some of its content.
pub(crate) fn read(draw: &Draw, order: &Order<'_>) -> (Sample, Vec<u8>) {
    let reader = SampleReader::new(order);
    let directories = draw.directories();
    let (few, many) = directories.split_at(directories.len() / 2);
    (order.begins)("reading small files");
    let threads = sys::process::processors();
    let small = [reader.small(few, threads), {
        (order.begins)("reading small files by more threads");
        reader.small(many, threads.max(THREADS_MAX))
    }];
    (order.begins)("reading what is compressed together");
    let stretches = reader.stretches(&draw.stretches());
    (order.begins)("reading large files");
    let large = reader.large(&draw.files(), threads);
    (order.begins)("looking for copies");
    let (copies, bytes_digested) = reader.copies(draw);
    let kept_large = reader.kept_large.into_inner();
    let sample = Sample {
        small: small.into_iter().filter(|reading| reading.files > 0).collect(),
        large: (large.files > 0).then_some(large),
        ratio_small: ratio(stretches.iter().map(Vec::as_slice)),
        ratio_large: ratio(kept_large.chunks(QUANTUM_BYTES_MAX)),
        copies,
        bytes_digested,
        failed: reader.failed.into_inner(),
    };
    (sample, [stretches.concat(), kept_large].concat())
}

/// Estimates the ratio of compression from drawn quanta. Each was drawn in proportion to the bytes
/// that it stands for, so each counts as much, whatever its own length.
fn ratio<'a>(quanta: impl Iterator<Item = &'a [u8]>) -> Option<Estimate> {
    let mut compressor = Compressor::new(Compression::default()).expect("zstd knows the default");
    let pair = |part: &[u8]| {
        let mut quantum = RawQuantum::default();
        part.chunks(CHUNK_BYTES_MAX).for_each(|chunk| {
            let _index = quantum.push(chunk);
        });
        let after = compressor.encode(&quantum).len();
        (crate::to_f64(after as u64) / crate::to_f64(part.len() as u64), 1.0)
    };
    let quanta = quanta.filter(|quantum| !quantum.is_empty());
    Estimate::ratio(&quanta.map(pair).collect::<Vec<_>>())
}

struct SampleReader<'a> {
    order: &'a Order<'a>,
    kept_large: Mutex<Vec<u8>>,
    failed: AtomicU64,
}

impl<'a> SampleReader<'a> {
    fn new(order: &'a Order<'a>) -> Self {
        Self { order, kept_large: Mutex::default(), failed: AtomicU64::new(0) }
    }

    fn is_over(&self, began: Instant) -> bool {
        began.elapsed() >= self.order.each || (self.order.is_stopped)()
    }

    /// Calls `work` with each of `items` until the time is over, in several threads. Returns the
    /// files and bytes that the calls have read, and what that took.
    fn timed<T: Sync>(
        &self,
        items: &[T],
        threads: usize,
        work: impl Fn(&T, Instant, &mut Reading) + Sync,
    ) -> Reading {
        let next = AtomicUsize::new(0);
        let (began, processor) = (sys::clock::monotonic(), sys::process::cpu_time());
        let run = || {
            let mut read = Reading::default();
            while let Some(item) = items.get(next.fetch_add(1, Ordering::Relaxed)) {
                if self.is_over(began) {
                    break;
                }
                work(item, began, &mut read);
            }
            read
        };
        let mut sum =
            Reading { threads: u32::try_from(threads).unwrap_or(0), ..Reading::default() };
        std::thread::scope(|scope| {
            let threads: Vec<_> = (0..threads).map(|_| scope.spawn(run)).collect();
            for thread in threads {
                let part = thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
                sum.files += part.files;
                sum.bytes += part.bytes;
            }
        });
        sum.elapsed_secs = began.elapsed().as_secs_f64();
        sum.processor_secs = (sys::process::cpu_time() - processor).as_secs_f64();
        sum
    }

    /// Reads the small files of directories, with their attributes, as a backup does.
    fn small(&self, directories: &[&DrawnDirectory], threads: usize) -> Reading {
        self.timed(directories, threads, |drawn, began, read| {
            let Ok(directory) = crate::open(&drawn.path) else {
                self.failed.fetch_add(1, Ordering::Relaxed);
                return;
            };
            let mut buffer = Vec::new();
            for (name, bytes) in &drawn.files {
                if *bytes > SMALL_BYTES_MAX {
                    continue;
                }
                if self.is_over(began) {
                    break;
                }
                match read_whole(&directory, name, &mut buffer) {
                    Ok(()) => {
                        read.files += 1;
                        read.bytes += buffer.len() as u64;
                    }
                    Err(_) => drop(self.failed.fetch_add(1, Ordering::Relaxed)),
                }
            }
        })
    }

    /// Reads small files that a backup would compress together.
    fn stretches(&self, drawn: &[&DrawnDirectory]) -> Vec<Vec<u8>> {
        let began = sys::clock::monotonic();
        let mut stretches = Vec::new();
        for drawn in drawn {
            let Ok(directory) = crate::open(&drawn.path) else { continue };
            let (mut content, mut buffer) = (Vec::new(), Vec::new());
            for (name, _) in &drawn.files {
                if self.is_over(began) {
                    return stretches;
                }
                if read_whole(&directory, name, &mut buffer).is_ok() {
                    content.extend_from_slice(&buffer);
                }
            }
            content.truncate(QUANTUM_BYTES_MAX);
            stretches.push(content);
        }
        stretches
    }

    /// Reads the beginning of the data of large files, without holes, as a backup does.
    fn large(&self, files: &[&DrawnFile], threads: usize) -> Reading {
        let files: Vec<_> = files.iter().filter(|file| file.bytes > SMALL_BYTES_MAX).collect();
        let kept_each = KEPT_BYTES_MAX / files.len().clamp(1, KEPT_BYTES_MAX / QUANTUM_BYTES_MAX);
        self.timed(&files, threads, |drawn, began, read| {
            let opened = open_drawn(drawn).and_then(|file| Ok((file.segments(drawn.bytes)?, file)));
            let Ok((segments, file)) = opened else {
                self.failed.fetch_add(1, Ordering::Relaxed);
                return;
            };
            file.advise_sequential();
            read.files += 1;
            let mut buffer = vec![0; READ_BYTES];
            let mut so_far = 0;
            let mut kept = 0;
            for (offset, length) in reads(&segments) {
                if so_far >= STRETCH_BYTES || self.is_over(began) {
                    return;
                }
                let Ok(bytes @ 1..) = file.read_at(&mut buffer[..length], offset) else { return };
                so_far += bytes as u64;
                read.bytes += bytes as u64;
                if kept < kept_each {
                    kept += bytes;
                    keep(&self.kept_large, &buffer[..bytes]);
                }
            }
        })
    }

    /// Looks for files of equal content among those of drawn sizes, size by size. Returns the share
    /// of the bytes that are copies, and the number of bytes that were read.
    fn copies(&self, draw: &Draw) -> (Option<Estimate>, u64) {
        let began = sys::clock::monotonic();
        let key = DomainKey::new([1; 32]);
        let mut pairs = Vec::new();
        let mut bytes_read = 0;
        for files in draw.sizes() {
            let size = files.first().map_or(0, |file| file.bytes);
            let mut contents: BTreeMap<Vec<ChunkDigest>, u64> = BTreeMap::new();
            for file in files {
                if self.is_over(began) {
                    // A size of which some files were not read would have too few copies.
                    return (Estimate::ratio(&pairs), bytes_read);
                }
                // A size that one file has, has no copies: its content does not matter.
                let content = if files.len() == 1 || size > DIGESTED_BYTES_MAX {
                    Some(vec![ChunkDigest([0; 32])])
                } else {
                    digests(file, &key).ok()
                };
                match content {
                    Some(content) => *contents.entry(content).or_default() += 1,
                    None => drop(self.failed.fetch_add(1, Ordering::Relaxed)),
                }
                bytes_read += if files.len() > 1 { size } else { 0 };
            }
            let all: u64 = contents.values().sum();
            let copies = if size > DIGESTED_BYTES_MAX { 0 } else { all - contents.len() as u64 };
            let bytes = |files: u64| crate::to_f64(files.saturating_mul(size));
            pairs.push((bytes(copies), bytes(all)));
        }
        (Estimate::ratio(&pairs), bytes_read)
    }
}

/// Divides the data of a file into reads. Returns their offsets and lengths.
fn reads(segments: &[Segment]) -> impl Iterator<Item = (u64, usize)> {
    segments.iter().flat_map(|segment| {
        let (start, bytes) = match *segment {
            Segment::Data { offset, bytes } => (offset, bytes),
            Segment::Hole { offset, .. } => (offset, 0),
        };
        (0..bytes).step_by(READ_BYTES).map(move |done| {
            let length = (bytes - done).min(READ_BYTES as u64);
            (start + done, usize::try_from(length).expect("at most READ_BYTES"))
        })
    })
}

/// Keeps `bytes`, as far as there is room.
fn keep(kept: &Mutex<Vec<u8>>, bytes: &[u8]) {
    let mut kept = kept.lock();
    let room = KEPT_BYTES_MAX - kept.len().min(KEPT_BYTES_MAX);
    kept.extend_from_slice(&bytes[..bytes.len().min(room)]);
}

fn open_drawn(drawn: &DrawnFile) -> std::io::Result<SourceFile> {
    use std::os::unix::ffi::OsStrExt as _;
    let (Some(parent), Some(name)) = (drawn.path.parent(), drawn.path.file_name()) else {
        return Err(std::io::ErrorKind::NotFound.into());
    };
    crate::open(parent)?.open_file(name.as_bytes())
}

/// Reads the file `name` with its attributes, into `buffer`.
fn read_whole(directory: &Dir, name: &[u8], buffer: &mut Vec<u8>) -> std::io::Result<()> {
    let mut file = directory.open_file(name)?;
    buffer.clear();
    buffer.resize(CHUNK_BYTES_MAX, 0);
    let mut length = 0;
    // The last read, which finds the end, is one that a backup makes too.
    while length < buffer.len() {
        match file.read(&mut buffer[length..])? {
            0 => break,
            bytes => length += bytes,
        }
    }
    buffer.truncate(length);
    let _status = file.stat()?;
    let _attributes = file.attributes()?;
    Ok(())
}

fn digests(drawn: &DrawnFile, key: &DomainKey) -> std::io::Result<Vec<ChunkDigest>> {
    let mut file = open_drawn(drawn)?;
    let mut buffer = vec![0; READ_BYTES];
    let mut digests = Vec::new();
    loop {
        let mut length = 0;
        while length < buffer.len() {
            match file.read(&mut buffer[length..])? {
                0 => break,
                bytes => length += bytes,
            }
        }
        if length == 0 {
            return Ok(digests);
        }
        digests.push(key.digest(&buffer[..length]));
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;
    use crate::tree;
    use crate::walks::Warmth;

    fn sampled(root: &Path) -> (Sample, Vec<u8>) {
        let order = tree::Order {
            warmth: Warmth::AsFound,
            threads: 2,
            at_most: Duration::from_secs(60),
            is_stopped: &|| false,
        };
        let (_, draw) = tree::survey(root, &order);
        let each = Duration::from_secs(20);
        read(&draw, &Order { each, is_stopped: &|| false, begins: &|_| {} })
    }

    #[test]
    fn copies_are_found_and_the_ratio_is_that_of_the_data() {
        let root = tempfile::tempdir().expect("a folder");
        for directory in 0..20_u32 {
            let folder = root.path().join(directory.to_string());
            fs::create_dir(&folder).expect("a directory");
            // Of the four files, two are equal in all directories.
            for name in ["a", "b"] {
                let mut content = vec![0; 2048 + directory as usize];
                sys::entropy::fill(&mut content);
                fs::write(folder.join(name), content).expect("a file");
            }
            for name in ["c", "d"] {
                fs::write(folder.join(name), vec![0; 4096]).expect("a file");
            }
        }
        let mut large = vec![0; 5 << 20];
        sys::entropy::fill(&mut large);
        fs::write(root.path().join("large"), &large).expect("a file");
        let (sample, content) = sampled(root.path());
        assert_eq!(sample.failed, 0);
        let files: u64 = sample.small.iter().map(|reading| reading.files).sum();
        assert_eq!((files, sample.large.expect("large").bytes), (80, 5 << 20));
        let small = sample.ratio_small.expect("a ratio").value;
        // 82 KB of noise and 164 KB of zeros.
        assert!((0.3..0.4).contains(&small), "{small}");
        assert!(sample.ratio_large.expect("a ratio").value > 0.99);
        let copies = sample.copies.expect("copies");
        let expected = 39.0 * 4096.0 / crate::to_f64(content.len() as u64);
        assert!((copies.value - expected).abs() < 0.002, "{copies:?} {expected}");
    }

    #[test]
    fn holes_are_not_read() {
        use std::os::unix::fs::FileExt as _;
        let root = tempfile::tempdir().expect("a folder");
        let disk = fs::File::create(root.path().join("disk")).expect("a file");
        disk.set_len(8 << 20).expect("a hole");
        let mut noise = vec![0; 2 << 20];
        sys::entropy::fill(&mut noise);
        disk.write_all_at(&noise, 4 << 20).expect("some data");
        let (sample, content) = sampled(root.path());
        assert_eq!(sample.large.expect("a large file").bytes, 2 << 20);
        assert!(sample.ratio_large.expect("a ratio").value > 0.99);
        assert!(content == noise, "all of the data, and no zeros");
    }

    #[test]
    fn the_error_of_a_ratio_grows_with_its_spread() {
        let even = Estimate::ratio(&[(1.0, 2.0), (2.0, 4.0), (1.5, 3.0)]).expect("a ratio");
        assert!((even.value - 0.5).abs() < 1e-12 && even.error < 1e-12, "{even:?}");
        let spread = Estimate::ratio(&[(0.0, 2.0), (4.0, 4.0), (0.5, 3.0)]).expect("a ratio");
        assert!((spread.value - 0.5).abs() < 1e-12 && spread.error > 0.1, "{spread:?}");
        assert_eq!(Estimate::ratio(&[]), None);
        assert!(Estimate::ratio(&[(1.0, 2.0)]).expect("a ratio").error >= 0.5);
    }
}
