//! `bench stages`: the time of each stage of a backup and of a restore of one file, without the
//! other stages. The file is read in batches.
//!
//! The stages use the crate `chunk` as client and server do. Data after the last boundary of a
//! batch is cut with the next batch; a hole ends a chunk. Chunks that occurred before are digested,
//! but not compressed.

use std::collections::HashSet;
use std::fs::File;
use std::io::{self, Write as _};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use chunk::{Compression, Compressor, Decompressor, DomainKey, RawQuantum, cut};
use rustix::fs::{SeekFrom, seek};
use serde_json::{Value, json};

use crate::effort::Effort;
use crate::output;
use crate::trouble::{Context as _, Trouble};

/// Time each stage of a backup and of a restore of one file
///
/// The stages run one after the other, each on all cores if it can. They do not wait for disks. The
/// compressed data goes to the file 'compressed' in the new folder TARGET.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// The file to measure
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// The folder to make
    #[arg(value_name = "TARGET")]
    target: PathBuf,
}

pub(super) const BATCH_BYTES: u64 = 64 << 20;

/// Default strength of `holdfast backup`.
pub(crate) const STRENGTH: Compression = Compression::Standard;

pub(crate) const KEY: [u8; DomainKey::BYTES] = [7; DomainKey::BYTES];

/// Name of the file with the compressed data.
pub(crate) const COMPRESSED: &str = "compressed";

/// Times of the stages that do not wait for a disk.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(crate) struct Stages {
    pub(crate) read: Effort,
    pub(crate) cut: Effort,
    pub(crate) compress: Effort,
    /// Time for decompressing and digesting, as the server does in a backup and the client in a
    /// restore.
    pub(crate) check: Effort,
    pub(crate) stored_bytes: u64,
}

impl Stages {
    /// Returns the stages with their names, in the order in which data passes them.
    pub(crate) fn named(&self) -> [(&'static str, Effort); 4] {
        [("read", self.read), ("cut", self.cut), ("compress", self.compress), ("check", self.check)]
    }

    pub(crate) fn json(&self) -> Value {
        let named = self.named().map(|(name, spent)| (name.to_owned(), spent.json()));
        json!({
            "stages": named.into_iter().collect::<serde_json::Map<_, _>>(),
            "stored_bytes": self.stored_bytes,
        })
    }

    /// Reads the value that [`Self::json`] wrote in another process.
    pub(crate) fn parse(value: &Value) -> Result<Self, Trouble> {
        let spent = |name: &str| Effort::parse(&value["stages"][name]);
        let stored_bytes = value["stored_bytes"].as_u64();
        Ok(Self {
            read: spent("read")?,
            cut: spent("cut")?,
            compress: spent("compress")?,
            check: spent("check")?,
            stored_bytes: stored_bytes
                .ok_or_else(|| Trouble::new("bench stages returned no stored_bytes"))?,
        })
    }
}

pub(crate) fn run(args: &Args) -> Result<(), Trouble> {
    let Args { file: path, target } = args;
    std::fs::create_dir(target).while_doing(|| format!("make {}", target.display()))?;
    let what = || format!("measure the stages of {}", path.display());
    let threads = sys::process::processors();
    // Reading the file once brings it into the page cache, if it fits there. The stages then read
    // it from the cache, as a backup does.
    io::copy(&mut File::open(path).while_doing(what)?, &mut io::sink()).while_doing(what)?;
    let mut course = Course::new(path, target, threads).while_doing(what)?;
    course.all().while_doing(what)?;
    output::result(&course.stages.json().to_string())
}

/// State of all stages while the data of a file passes through them.
struct Course {
    source: File,
    compressed: File,
    threads: usize,
    key: DomainKey,
    seen: HashSet<[u8; 16]>,
    stages: Stages,
}

impl Course {
    fn new(path: &Path, target: &Path, threads: usize) -> io::Result<Self> {
        Ok(Self {
            source: File::open(path)?,
            compressed: File::create_new(target.join(COMPRESSED))?,
            threads,
            key: DomainKey::new(KEY),
            seen: HashSet::new(),
            stages: Stages::default(),
        })
    }

    fn all(&mut self) -> io::Result<()> {
        let mut offset = 0;
        while let Some((begin, end)) = data(&self.source, offset)? {
            self.data(begin, end)?;
            offset = end;
        }
        Ok(())
    }

    /// Passes the data from `begin` to `end` through all stages.
    fn data(&mut self, begin: u64, end: u64) -> io::Result<()> {
        let (mut batch, mut offset) = (Vec::new(), begin);
        while offset < end {
            let carried = batch.len();
            let bytes = BATCH_BYTES.min(end - offset);
            batch.resize(carried + usize::try_from(bytes).unwrap_or(0), 0);
            let fresh = &mut batch[carried..];
            self.stages.read.timed(|| self.source.read_exact_at(fresh, offset))?;
            offset += bytes;
            let (key, seen) = (&self.key, &mut self.seen);
            let cut = || cut_all(&batch, offset == end, key, seen);
            let (quanta, used) = self.stages.cut.timed(cut);
            self.quanta(&quanta)?;
            batch.drain(..used);
        }
        Ok(())
    }

    fn quanta(&mut self, quanta: &[RawQuantum]) -> io::Result<()> {
        let threads = self.threads;
        let records = self.stages.compress.timed(|| {
            let encode =
                |compressor: &mut Compressor, quantum: &RawQuantum| compressor.encode(quantum);
            on_all_cores(threads, quanta, || Compressor::new(STRENGTH), encode)
        })?;
        records.iter().try_for_each(|record| self.compressed.write_all(record))?;
        self.stages.stored_bytes += records.iter().map(|record| record.len() as u64).sum::<u64>();
        let key = &self.key;
        let checked = self.stages.check.timed(|| {
            let check = |decompressor: &mut Decompressor, record: &Vec<u8>| {
                let quantum = decompressor.decode(record).ok()?;
                Some(quantum.chunks().map(|chunk| key.digest(chunk)).collect::<Vec<_>>())
            };
            on_all_cores(threads, &records, Decompressor::new, check)
        })?;
        let is_whole = checked.iter().all(Option::is_some);
        if is_whole { Ok(()) } else { Err(io::ErrorKind::InvalidData.into()) }
    }
}

/// Returns the range of the next data at or after `offset`; `None` if only a hole follows.
pub(super) fn data(file: &File, offset: u64) -> io::Result<Option<(u64, u64)>> {
    match seek(file, SeekFrom::Data(offset)) {
        Ok(begin) => Ok(Some((begin, seek(file, SeekFrom::Hole(begin))?))),
        Err(rustix::io::Errno::NXIO) => Ok(None),
        Err(errno) => Err(errno.into()),
    }
}

/// Cuts `batch` into chunks. Returns quanta of the chunks that are new, and the number of bytes
/// that were cut.
fn cut_all(
    batch: &[u8],
    at_end: bool,
    key: &DomainKey,
    seen: &mut HashSet<[u8; 16]>,
) -> (Vec<RawQuantum>, usize) {
    let (mut quanta, mut open, mut used) = (Vec::new(), RawQuantum::with_room(), 0);
    while let Some(bytes) = cut(&batch[used..], at_end) {
        let chunk = &batch[used..used + bytes];
        used += bytes;
        if !seen.insert(key.digest(chunk).prefix()) {
            continue;
        }
        if !open.fits(bytes) {
            quanta.push(std::mem::replace(&mut open, RawQuantum::with_room()));
        }
        open.push(chunk);
    }
    if !open.is_empty() {
        quanta.push(open);
    }
    (quanta, used)
}

/// Calls `work` with each of `items`, in `threads` threads. Returns the results in the order of the
/// items.
fn on_all_cores<T: Sync, C, R: Send>(
    threads: usize,
    items: &[T],
    context: impl Fn() -> io::Result<C> + Sync,
    work: impl Fn(&mut C, &T) -> R + Sync,
) -> io::Result<Vec<R>> {
    let next = AtomicUsize::new(0);
    let take = || -> io::Result<Vec<(usize, R)>> {
        let mut context = context()?;
        let mut done = Vec::new();
        loop {
            let index = next.fetch_add(1, Relaxed);
            let Some(item) = items.get(index) else { return Ok(done) };
            done.push((index, work(&mut context, item)));
        }
    };
    let mut all = std::thread::scope(|scope| {
        let running: Vec<_> = (0..threads).map(|_| scope.spawn(take)).collect();
        let mut all = Vec::new();
        for thread in running {
            all.extend(thread.join().map_err(|_| io::ErrorKind::Other)??);
        }
        Ok::<_, io::Error>(all)
    })?;
    all.sort_by_key(|(index, _)| *index);
    Ok(all.into_iter().map(|(_, result)| result).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    #[test]
    fn everything_is_cut_and_nothing_is_kept_twice() {
        let mut noise = vec![0; 3 << 20];
        Random::new(5).fill(&mut noise);
        let twice = [noise.clone(), noise].concat();
        let key = DomainKey::new(KEY);
        let (quanta, used) = cut_all(&twice, true, &key, &mut HashSet::new());
        assert_eq!(used, twice.len());
        let kept: usize = quanta.iter().map(|quantum| quantum.data().len()).sum();
        assert!((3 << 20..4 << 20).contains(&kept), "{kept}");
    }

    #[test]
    fn results_stand_in_the_order_of_the_items() {
        let items: Vec<u32> = (0..1000).collect();
        let doubled = on_all_cores(3, &items, || Ok(()), |(), item| item * 2).unwrap();
        assert_eq!(doubled, items.iter().map(|item| item * 2).collect::<Vec<_>>());
    }

    #[test]
    fn a_file_passes_all_stages() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        let mut noise = vec![0; 2 << 20];
        Random::new(5).fill(&mut noise);
        std::fs::write(&path, &noise).unwrap();
        let mut course = Course::new(&path, dir.path(), 2).unwrap();
        course.all().unwrap();
        assert!(course.stages.stored_bytes >= 2 << 20);
        assert_eq!(Stages::parse(&course.stages.json()), Ok(course.stages));
    }
}
