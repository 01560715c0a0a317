//! A run is an immutable file of entries sorted by prefix, each prefix once.
//!
//! ```text
//! a run of E entries has B = ceil(E / 170) blocks and F filter lines
//! offset                 bytes    what (integers little-endian)
//! 0                      4096 B   blocks
//! 4096 B                 16 B     fence: the first prefix of every block
//! 4112 B                 64 F     filter lines, eight 64-bit words each
//! 4112 B + 64 F          56       trailer
//!
//! block                           trailer
//! offset  bytes  what             offset  bytes  what
//! 0       24 n   entries          0       4      "HFIR"
//! ...            zeros            4       2      version, 1
//! 4088    8      xxh3-64 of       6       2      zero
//!                all before,      8       8      number of the run
//!                seeded           16      8      E
//!                                 24      8      F
//! entry                           32      8      xxh3-64 of the fence
//! 0       16     prefix           40      8      xxh3-64 of the filter
//! 16      8      place code       48      8      xxh3-64 of the trailer before
//! ```
//!
//! All blocks except the last hold 170 entries. A block's checksum is seeded with the number of the
//! run (rotated left by 32 bits) xor the number of the block, so the checksum of a block of another
//! run, or from another place in this run, does not match.
//!
//! An open run has its fence and its filter in memory: 0.1 + 1.25 bytes for each entry. Opening the
//! run reads them. Each look-up reads and checks the blocks that it needs.

use std::fs::File;
use std::io::Write as _;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use model::{Place, PlaceCode as _};
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

use crate::entry::{Entry, Prefix};
use crate::error::{Damage, IndexError};
use crate::filter::Filter;
use crate::folder;
use crate::manifest::{ENTRIES_MAX, NamedRun, RunIdentity, RunNumber};

const MAGIC: [u8; 4] = *b"HFIR";
const VERSION: u16 = 1;
pub(crate) const BLOCK_BYTES: usize = 4096;
const PREFIX_BYTES: usize = 16;
const ENTRY_BYTES: usize = PREFIX_BYTES + 8;
const CHECKSUM_BYTES: usize = 8;
const BLOCK_ENTRIES: usize = (BLOCK_BYTES - CHECKSUM_BYTES) / ENTRY_BYTES;
const TRAILER_BYTES: usize = 56;
/// Number of blocks that a scan reads together, and that a writer collects before it writes them.
const STRETCH_BLOCKS: usize = 64;

const _: () = assert!(BLOCK_ENTRIES == 170, "the byte table must have this number");

type Block = [u8; BLOCK_BYTES];

/// A prefix to look up, and the position of its answer.
pub(crate) type Question = (Prefix, usize);

/// An open run.
pub(crate) struct Run {
    named: NamedRun,
    path: PathBuf,
    file: File,
    /// The first prefix of each block. Invariant: the prefixes ascend.
    fence: Vec<Prefix>,
    filter: Filter,
}

impl Run {
    /// Writes `entries` durably to a new run. They must ascend, and there must be at most
    /// `entries_max` of them. Returns `None` when there are no entries.
    pub(crate) fn create(
        folder: &Path,
        RunIdentity { number, epoch }: RunIdentity,
        entries_max: u64,
        entries: impl Iterator<Item = Result<Entry, IndexError>>,
    ) -> Result<Option<Self>, IndexError> {
        let mut entries = entries.peekable();
        if entries.peek().is_none() {
            return Ok(None);
        }
        let path = folder::run_path(folder, number);
        let (file, writer) = folder::write_durably(&path, |file| {
            let mut writer = Writer::new(number, entries_max);
            for entry in entries {
                writer.push(entry?);
                writer.drain_to(file, STRETCH_BLOCKS * BLOCK_BYTES, &path)?;
            }
            writer.end();
            writer.drain_to(file, 0, &path)?;
            Ok(writer)
        })?;
        let Writer { entries, fence, filter, .. } = writer;
        assert!(0 < entries && entries <= entries_max, "the filter must have room for all entries");
        Ok(Some(Self { named: NamedRun { number, entries, epoch }, path, file, fence, filter }))
    }

    /// Opens the run that the manifest names; checks everything except the blocks.
    pub(crate) fn open(folder: &Path, named: NamedRun) -> Result<Self, IndexError> {
        let path = folder::run_path(folder, named.number);
        let at = || IndexError::at_run(named.number, &path);
        let file = File::open(&path).map_err(at())?;
        let bytes = file.metadata().map_err(at())?.len();
        let damaged = || IndexError::Damaged(Damage::Run(named.number));
        let read = |start: u64, bytes: u64| {
            let mut buffer = vec![0; usize::try_from(bytes).map_err(|_| damaged())?];
            file.read_exact_at(&mut buffer, start).map_err(at())?;
            Ok::<_, IndexError>(buffer)
        };
        let trailer_start = bytes.checked_sub(TRAILER_BYTES as u64).ok_or_else(damaged)?;
        let trailer = read(trailer_start, TRAILER_BYTES as u64)?;
        let trailer = Trailer::decode(&trailer).ok_or_else(damaged)?;
        let blocks = named.entries.div_ceil(BLOCK_ENTRIES as u64);
        let fence_start = blocks * BLOCK_BYTES as u64;
        let filter_start = fence_start + blocks * PREFIX_BYTES as u64;
        let filter_bytes = trailer_start.checked_sub(filter_start).ok_or_else(damaged)?;
        let fence = read(fence_start, blocks * PREFIX_BYTES as u64)?;
        let filter = read(filter_start, filter_bytes)?;
        let expected = Trailer {
            number: named.number,
            entries: named.entries,
            filter_lines: filter_bytes / Filter::LINE_BYTES as u64,
            fence_checksum: xxh3_64(&fence),
            filter_checksum: xxh3_64(&filter),
        };
        let filter = Filter::decode(&filter).ok_or_else(damaged)?;
        let fence: Vec<_> = fence
            .as_chunks()
            .0
            .iter()
            .map(|bytes| Prefix(u128::from_be_bytes(*bytes)))
            .collect();
        if trailer != expected || !fence.is_sorted_by(|one, next| one < next) {
            return Err(damaged());
        }
        assert_eq!(fence.len() as u64, blocks, "one prefix must have been read for each block");
        Ok(Self { named, path, file, fence, filter })
    }

    pub(crate) fn named(&self) -> NamedRun {
        self.named
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn may_hold(&self, prefix: Prefix) -> bool {
        self.filter.may_hold(prefix)
    }

    /// Looks up the prefixes of `asked`. For each prefix that the run has, calls `found` with the
    /// position of the answer and the place. `asked` must ascend, so that each block is read once.
    pub(crate) fn find(
        &self,
        asked: &[Question],
        mut found: impl FnMut(usize, Place),
    ) -> Result<(), IndexError> {
        debug_assert!(asked.is_sorted(), "the prefixes must ascend");
        let mut block: Block = [0; BLOCK_BYTES];
        let mut loaded = None;
        for &(prefix, position) in asked {
            let ahead = loaded.unwrap_or(0);
            let passed = self.fence[ahead..].partition_point(|&first| first <= prefix);
            let Some(block_index) = (ahead + passed).checked_sub(1) else { continue };
            if loaded != Some(block_index) {
                self.read(block_index, &mut block)?;
                loaded = Some(block_index);
            }
            if let Some(entry) = self.find_in_block(block_index, &block, prefix)? {
                found(position, entry.place);
            }
        }
        Ok(())
    }

    /// Returns all the entries, ascending.
    pub(crate) fn scan(self: &Arc<Self>) -> Scan {
        Scan { run: Arc::clone(self), bytes: Vec::new(), first: 0, next: 0, last: None }
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        self.fence.len() * PREFIX_BYTES + self.filter.bytes()
    }

    pub(crate) fn disk_bytes(&self) -> usize {
        self.fence.len() * BLOCK_BYTES + self.memory_bytes() + TRAILER_BYTES
    }

    fn read(&self, block_index: usize, block: &mut Block) -> Result<(), IndexError> {
        let start = block_index as u64 * BLOCK_BYTES as u64;
        let at = IndexError::at_run(self.named.number, &self.path);
        self.file.read_exact_at(block, start).map_err(at)?;
        self.check(block_index, block)
    }

    fn check(&self, block_index: usize, block: &Block) -> Result<(), IndexError> {
        let (content, checksum) = split_checksum(block);
        let is_written = checksum == block_checksum(self.named.number, block_index, content);
        let padding = &content[self.entries_in(block_index) * ENTRY_BYTES..];
        if is_written && padding.iter().all(|&byte| byte == 0) {
            Ok(())
        } else {
            Err(self.damaged(block_index))
        }
    }

    fn find_in_block(
        &self,
        block_index: usize,
        block: &Block,
        prefix: Prefix,
    ) -> Result<Option<Entry>, IndexError> {
        let (entries, _) = block.as_chunks::<ENTRY_BYTES>();
        let entries = &entries[..self.entries_in(block_index)];
        let found = entries.binary_search_by_key(&prefix, entry_prefix).ok();
        found.map(|at| self.decode_entry(block_index, &entries[at])).transpose()
    }

    fn decode_entry(
        &self,
        block_index: usize,
        bytes: &[u8; ENTRY_BYTES],
    ) -> Result<Entry, IndexError> {
        let code = bytes.last_chunk().expect("an entry ends with its place code");
        let place = Place::from_code(u64::from_le_bytes(*code));
        let place = place.ok_or_else(|| self.damaged(block_index))?;
        Ok(Entry { prefix: entry_prefix(bytes), place })
    }

    /// Returns the number of entries in the block. The last block may have fewer than the others.
    fn entries_in(&self, block_index: usize) -> usize {
        assert!(block_index < self.fence.len(), "every block must have a prefix in the fence");
        let before = (block_index * BLOCK_ENTRIES) as u64;
        let left = self.named.entries - before;
        usize::try_from(left).map_or(BLOCK_ENTRIES, |left| left.min(BLOCK_ENTRIES))
    }

    fn damaged(&self, block_index: usize) -> IndexError {
        IndexError::Damaged(Damage::Block { run: self.named.number, block: block_index as u64 })
    }
}

/// Iterator over the entries of a run, ascending. Ends after the first error.
pub(crate) struct Scan {
    run: Arc<Run>,
    /// Whole blocks of the run that were read and checked.
    bytes: Vec<u8>,
    /// Index of the first block in `bytes`.
    first: usize,
    /// Index of the next entry, counted from the first entry in `bytes`.
    next: usize,
    /// Prefix of the entry before.
    last: Option<Prefix>,
}

impl Scan {
    /// Replaces `bytes` with the blocks that follow. At the end of the run `bytes` becomes empty.
    fn read_on(&mut self) -> Result<(), IndexError> {
        self.first += self.bytes.len() / BLOCK_BYTES;
        self.next = 0;
        let run = &self.run;
        let blocks = (run.fence.len() - self.first).min(STRETCH_BLOCKS);
        self.bytes.resize(blocks * BLOCK_BYTES, 0);
        let start = self.first as u64 * BLOCK_BYTES as u64;
        let at = IndexError::at_run(run.named.number, &run.path);
        run.file.read_exact_at(&mut self.bytes, start).map_err(at)?;
        let (blocks, _) = self.bytes.as_chunks();
        blocks
            .iter()
            .zip(self.first..)
            .try_for_each(|(block, index)| run.check(index, block))
    }

    fn entry(&self) -> Option<Result<Entry, IndexError>> {
        let (block, at) = (self.next / BLOCK_ENTRIES, self.next % BLOCK_ENTRIES);
        let bytes = self.bytes.as_chunks::<BLOCK_BYTES>().0.get(block)?;
        let index = self.first + block;
        let (entries, _) = bytes.as_chunks();
        (at < self.run.entries_in(index)).then(|| {
            let entry = self.run.decode_entry(index, &entries[at])?;
            // A merge relies on the order, and a checksum does not prove it.
            if self.last >= Some(entry.prefix) {
                return Err(self.run.damaged(index));
            }
            Ok(entry)
        })
    }

    /// Ends the scan.
    fn stop(&mut self) {
        self.bytes.clear();
        self.first = self.run.fence.len();
        self.next = 0;
    }
}

impl Iterator for Scan {
    type Item = Result<Entry, IndexError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.next == self.bytes.len() / BLOCK_BYTES * BLOCK_ENTRIES
            && let Err(error) = self.read_on()
        {
            self.stop();
            return Some(Err(error));
        }
        let entry = self.entry();
        match &entry {
            Some(Ok(Entry { prefix, .. })) => {
                self.last = Some(*prefix);
                self.next += 1;
            }
            Some(Err(_)) => self.stop(),
            None => {}
        }
        entry
    }
}

/// Writer of a run: it lays out the bytes.
struct Writer {
    number: RunNumber,
    /// Bytes that are not in the file yet; they end with the unfinished block.
    bytes: Vec<u8>,
    /// Number of entries in the unfinished block.
    block_entries: usize,
    entries: u64,
    fence: Vec<Prefix>,
    filter: Filter,
    last: Option<Prefix>,
}

impl Writer {
    fn new(number: RunNumber, entries_max: u64) -> Self {
        assert!(entries_max <= ENTRIES_MAX, "a run must not have more entries than the limit");
        let entries_max = usize::try_from(entries_max).expect("at most 2^40");
        Self {
            number,
            bytes: Vec::new(),
            block_entries: 0,
            entries: 0,
            fence: Vec::new(),
            filter: Filter::new(entries_max),
            last: None,
        }
    }

    fn push(&mut self, entry: Entry) {
        assert!(self.last < Some(entry.prefix), "the prefixes of a run must ascend");
        if self.block_entries == 0 {
            self.fence.push(entry.prefix);
        }
        self.bytes.extend_from_slice(&entry.prefix.0.to_be_bytes());
        self.bytes.extend_from_slice(&entry.place.code().to_le_bytes());
        self.filter.insert(entry.prefix);
        self.last = Some(entry.prefix);
        self.entries += 1;
        self.block_entries += 1;
        if self.block_entries == BLOCK_ENTRIES {
            self.end_block();
        }
    }

    fn end_block(&mut self) {
        let start = self.bytes.len() - self.block_entries * ENTRY_BYTES;
        self.bytes.resize(start + BLOCK_BYTES - CHECKSUM_BYTES, 0);
        let block_index = self.fence.len() - 1;
        let checksum = block_checksum(self.number, block_index, &self.bytes[start..]);
        self.bytes.extend_from_slice(&checksum.to_le_bytes());
        self.block_entries = 0;
        debug_assert_eq!(self.bytes.len() % BLOCK_BYTES, 0, "only whole blocks are collected");
    }

    /// Appends the fence, the filter and the trailer.
    fn end(&mut self) {
        if self.block_entries > 0 {
            self.end_block();
        }
        let fence: Vec<u8> = self.fence.iter().flat_map(|first| first.0.to_be_bytes()).collect();
        let filter = self.filter.encode();
        let trailer = Trailer {
            number: self.number,
            entries: self.entries,
            filter_lines: (filter.len() / Filter::LINE_BYTES) as u64,
            fence_checksum: xxh3_64(&fence),
            filter_checksum: xxh3_64(&filter),
        };
        self.bytes.extend_from_slice(&fence);
        self.bytes.extend_from_slice(&filter);
        self.bytes.extend_from_slice(&trailer.encode());
    }

    /// Writes the collected bytes to `file` if there are more than `bytes_max` and the last block
    /// is complete.
    fn drain_to(
        &mut self,
        file: &mut File,
        bytes_max: usize,
        path: &Path,
    ) -> Result<(), IndexError> {
        if self.bytes.len() > bytes_max && self.block_entries == 0 {
            file.write_all(&self.bytes).map_err(IndexError::at(path))?;
            self.bytes.clear();
        }
        Ok(())
    }
}

/// The last bytes of a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Trailer {
    number: RunNumber,
    entries: u64,
    filter_lines: u64,
    fence_checksum: u64,
    filter_checksum: u64,
}

impl Trailer {
    fn encode(&self) -> [u8; TRAILER_BYTES] {
        let mut bytes = [0; TRAILER_BYTES];
        bytes[..4].copy_from_slice(&MAGIC);
        bytes[4..6].copy_from_slice(&VERSION.to_le_bytes());
        let numbers = [
            self.number.0,
            self.entries,
            self.filter_lines,
            self.fence_checksum,
            self.filter_checksum,
        ];
        for (field, number) in bytes[8..].as_chunks_mut().0.iter_mut().zip(numbers) {
            *field = number.to_le_bytes();
        }
        let checksum = xxh3_64(&bytes[..TRAILER_BYTES - CHECKSUM_BYTES]);
        bytes[TRAILER_BYTES - CHECKSUM_BYTES..].copy_from_slice(&checksum.to_le_bytes());
        debug_assert_eq!(Self::decode(&bytes), Some(*self));
        bytes
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; TRAILER_BYTES] = bytes.try_into().ok()?;
        let (head, fields) = bytes.split_first_chunk::<8>()?;
        let (fields, _) = fields.as_chunks();
        let numbers: Vec<_> = fields.iter().map(|field| u64::from_le_bytes(*field)).collect();
        let &[number, entries, filter_lines, fence_checksum, filter_checksum, checksum] =
            numbers.as_slice()
        else {
            return None;
        };
        let [version, _] = VERSION.to_le_bytes();
        let [m, a, g, i] = MAGIC;
        let sound = *head == [m, a, g, i, version, 0, 0, 0]
            && checksum == xxh3_64(&bytes[..TRAILER_BYTES - CHECKSUM_BYTES]);
        let number = RunNumber(number);
        sound.then_some(Self { number, entries, filter_lines, fence_checksum, filter_checksum })
    }
}

fn entry_prefix(bytes: &[u8; ENTRY_BYTES]) -> Prefix {
    let prefix = bytes.first_chunk().expect("an entry starts with its prefix");
    Prefix(u128::from_be_bytes(*prefix))
}

fn split_checksum(block: &Block) -> (&[u8], u64) {
    let (content, checksum) = block.split_last_chunk().expect("a block ends with its checksum");
    (content, u64::from_le_bytes(*checksum))
}

fn block_checksum(run: RunNumber, block_index: usize, content: &[u8]) -> u64 {
    debug_assert_eq!(content.len(), BLOCK_BYTES - CHECKSUM_BYTES);
    xxh3_64_with_seed(content, run.0.rotate_left(32) ^ block_index as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manifest::Epoch;
    use crate::tests::{random_entries, random_prefix};

    const NUMBER: RunNumber = RunNumber(5);
    const IDENTITY: RunIdentity = RunIdentity { number: NUMBER, epoch: Epoch(0) };

    fn create(folder: &Path, count: u64) -> (Arc<Run>, Vec<Entry>) {
        let entries = random_entries(0..count);
        let run = Run::create(folder, IDENTITY, count, entries.iter().copied().map(Ok));
        (Arc::new(run.expect("written").expect("not empty")), entries)
    }

    fn find(run: &Run, mut asked: Vec<Question>) -> Vec<Option<Place>> {
        let mut answers = vec![None; asked.len()];
        asked.sort_unstable();
        run.find(&asked, |position, place| answers[position] = Some(place))
            .expect("readable");
        answers
    }

    #[track_caller]
    fn check_round_trip(count: u64) {
        let folder = tempfile::tempdir().expect("a folder for the test");
        let (created, entries) = create(folder.path(), count);
        let opened = Arc::new(Run::open(folder.path(), created.named()).expect("sound"));
        assert_eq!((&opened.fence, &opened.filter), (&created.fence, &created.filter));
        let bytes = std::fs::metadata(opened.path()).expect("there").len();
        assert_eq!(bytes, opened.disk_bytes() as u64);
        for run in [created, opened] {
            assert_eq!(run.scan().collect::<Result<Vec<_>, _>>().expect("sound"), entries);
            let prefixes = (0..count + 50).map(random_prefix);
            let asked = prefixes.clone().zip(0..).collect();
            let expected = prefixes.map(|prefix| {
                let at = entries.binary_search_by_key(&prefix, |entry| entry.prefix);
                at.ok().map(|at| entries[at].place)
            });
            assert_eq!(find(&run, asked), expected.collect::<Vec<_>>());
        }
    }

    #[test]
    fn a_run_gives_back_its_entries() {
        let stretch = (STRETCH_BLOCKS * BLOCK_ENTRIES) as u64;
        for count in [1, 2, 169, 170, 171, 340, stretch, stretch + 1] {
            check_round_trip(count);
        }
    }

    #[test]
    fn prefixes_outside_the_run_are_absent() {
        let folder = tempfile::tempdir().expect("a folder for the test");
        let (run, _) = create(folder.path(), 500);
        let asked = vec![(Prefix(0), 0), (Prefix(u128::MAX), 1)];
        assert_eq!(find(&run, asked), [None, None]);
    }

    #[test]
    fn a_run_of_nothing_is_no_run() {
        let folder = tempfile::tempdir().expect("a folder for the test");
        let run = Run::create(folder.path(), IDENTITY, 9, std::iter::empty());
        assert!(run.expect("nothing to fail").is_none());
        assert_eq!(std::fs::read_dir(folder.path()).expect("readable").count(), 0);
    }

    #[test]
    fn a_block_out_of_place_is_noticed() {
        let folder = tempfile::tempdir().expect("a folder for the test");
        let (run, entries) = create(folder.path(), 400);
        let mut bytes = std::fs::read(run.path()).expect("readable");
        bytes.copy_within(..BLOCK_BYTES, BLOCK_BYTES);
        std::fs::write(run.path(), bytes).expect("written");
        let opened = Run::open(folder.path(), run.named()).expect("the blocks are not looked at");
        let found = opened.find(&[(entries[200].prefix, 0)], |_, _| panic!("not there"));
        let expected = Damage::Block { run: NUMBER, block: 1 };
        assert!(matches!(found, Err(IndexError::Damaged(damage)) if damage == expected));
        assert!(Arc::new(opened).scan().any(|entry| entry.is_err()));
    }

    #[test]
    fn padding_of_a_block_is_zero() {
        let folder = tempfile::tempdir().expect("a folder for the test");
        let (run, entries) = create(folder.path(), 200);
        let mut bytes = std::fs::read(run.path()).expect("readable");
        let last = &mut bytes[BLOCK_BYTES..2 * BLOCK_BYTES];
        last[BLOCK_BYTES - CHECKSUM_BYTES - 1] = 1;
        let checksum = block_checksum(NUMBER, 1, &last[..BLOCK_BYTES - CHECKSUM_BYTES]);
        last[BLOCK_BYTES - CHECKSUM_BYTES..].copy_from_slice(&checksum.to_le_bytes());
        std::fs::write(run.path(), bytes).expect("written");
        let opened = Run::open(folder.path(), run.named()).expect("the blocks are not read");
        let found = opened.find(&[(entries[180].prefix, 0)], |_, _| panic!("it is damaged"));
        assert!(matches!(found, Err(IndexError::Damaged(Damage::Block { block: 1, .. }))));
    }

    /// Entries out of order reached the merger, whose panic ends the server.
    #[test]
    fn entries_out_of_order_are_damage() {
        let folder = tempfile::tempdir().expect("a folder for the test");
        let (run, _) = create(folder.path(), 3);
        let mut bytes = std::fs::read(run.path()).expect("readable");
        let block = &mut bytes[..BLOCK_BYTES];
        block[..2 * ENTRY_BYTES].rotate_left(ENTRY_BYTES);
        let checksum = block_checksum(NUMBER, 0, &block[..BLOCK_BYTES - CHECKSUM_BYTES]);
        block[BLOCK_BYTES - CHECKSUM_BYTES..].copy_from_slice(&checksum.to_le_bytes());
        std::fs::write(run.path(), bytes).expect("written");
        let opened = Run::open(folder.path(), run.named()).expect("the blocks are not read");
        let scanned: Vec<_> = Arc::new(opened).scan().collect();
        let [Ok(_), Err(IndexError::Damaged(Damage::Block { block: 0, .. }))] = &scanned[..] else {
            panic!("the scan ends at the second entry: {scanned:?}");
        };
    }

    #[test]
    fn reserved_bytes_of_a_trailer_are_refused() {
        let trailer = Trailer {
            number: NUMBER,
            entries: 1,
            filter_lines: 1,
            fence_checksum: 2,
            filter_checksum: 3,
        };
        let mut bytes = trailer.encode();
        bytes[6] = 1;
        let (body, checksum) = bytes.split_last_chunk_mut::<CHECKSUM_BYTES>().expect("longer");
        *checksum = xxh3_64(body).to_le_bytes();
        assert_eq!(Trailer::decode(&bytes), None);
    }

    #[test]
    fn a_run_under_another_s_name_is_refused() {
        let folder = tempfile::tempdir().expect("a folder for the test");
        let (run, _) = create(folder.path(), 400);
        let other = NamedRun { number: RunNumber(6), ..run.named() };
        std::fs::copy(run.path(), folder::run_path(folder.path(), other.number)).expect("copied");
        assert!(matches!(Run::open(folder.path(), other), Err(IndexError::Damaged(_))));
        let longer = NamedRun { entries: 401, ..run.named() };
        assert!(matches!(Run::open(folder.path(), longer), Err(IndexError::Damaged(_))));
    }
}
