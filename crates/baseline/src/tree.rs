//! The data: how many objects, how large, how old, in how large directories. One walk over the tree
//! finds this, and draws the files that are read as a sample.

mod draw;

use std::path::{Path, PathBuf};
use std::time::Duration;

use model::{Kind, Stat};
use serde::{Deserialize, Serialize};
use sys::lock::Mutex;
use sys::{Dir, Listing, ObjectStatus, Segment};

pub(crate) use self::draw::{Draw, DrawnDirectory, DrawnFile};
use crate::disk::counters::Device;
use crate::queue::{Queue, Unread};
use crate::walks::Warmth;

/// Largest size of a file that a backup reads as a whole before it goes on: the largest chunk.
pub(crate) const SMALL_BYTES_MAX: u64 = model::CHUNK_BYTES_MAX as u64;

/// Part of its size that a file takes on the disk at least, if its content is there: one of so
/// many. File systems that compress do not do better.
const HELD_SHARE: u64 = 8;
/// Size below which a file's content may be in its inode, and take no space of its own.
const HELD_BYTES_MIN: u64 = 1024;

/// Number of days for which changes are counted by day.
pub const CHANGE_DAYS: usize = 30;
const DAY_SECS: i64 = 86_400;

/// Upper bounds of the classes of age, in days.
const AGE_DAYS: [u32; 7] = [1, 7, 30, 90, 365, 730, 1825];

/// Files of a class: their number, and the sum of what a backup reads of them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Share {
    pub files: u64,
    pub bytes: u64,
}

impl Share {
    fn add(&mut self, bytes: u64) {
        self.files += 1;
        self.bytes = self.bytes.saturating_add(bytes);
    }

    fn merge(&mut self, other: Self) {
        self.files += other.files;
        self.bytes = self.bytes.saturating_add(other.bytes);
    }
}

/// Number of classes of size and of directories, by powers of two.
const POWERS: usize = 48;

/// Content of a tree.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Survey {
    /// Number of names, directories included.
    pub objects: u64,
    pub directories: u64,
    pub symlinks: u64,
    /// Pipes and devices.
    pub others: u64,
    pub files: Share,
    /// Files that a backup reads as a whole.
    pub small: Share,
    /// Number of files with several names.
    pub hard_linked: u64,
    pub allocated_bytes: u64,
    /// Files by size: class `n` has those of at least `2^(n-1)` and less than `2^n` bytes, class 0
    /// the empty ones. The last class has all larger ones too.
    pub sizes: Vec<Share>,
    /// Files by the age of their content: those younger than each number of days, and not in an
    /// earlier class; the last class, with `None`, has all older ones.
    pub ages: Vec<(Option<u32>, Share)>,
    /// Files whose content changed in the day that ended `n` days ago.
    pub changed: Vec<Share>,
    /// Directories by their number of names, in classes as `sizes`.
    pub directory_sizes: Vec<u64>,
    pub names_max: u64,
    /// Number of objects that could not be read.
    pub failed: u64,
    pub elapsed_secs: f64,
    /// Processor time of all threads.
    pub processor_secs: f64,
    pub warmth: Warmth,
    /// False if the time was over before the end of the tree. The counts are then those of a part.
    pub whole: bool,
    /// Number of objects of the whole file system, as it counts them itself; `None` if it does not.
    pub file_system_objects: Option<u64>,
    /// Bytes that the file system counts as used.
    pub file_system_bytes: u64,
    /// Bytes of its device that an image reads beside the used ones. They are never free for files,
    /// such as those of its journal and its tables of inodes, or nobody tells which of them are
    /// free.
    #[serde(default)]
    pub file_system_own_bytes: u64,
}

impl Survey {
    fn new(warmth: Warmth) -> Self {
        let ages = AGE_DAYS.into_iter().map(Some).chain([None]);
        Self {
            objects: 0,
            directories: 0,
            symlinks: 0,
            others: 0,
            files: Share::default(),
            small: Share::default(),
            hard_linked: 0,
            allocated_bytes: 0,
            sizes: vec![Share::default(); POWERS],
            ages: ages.map(|days| (days, Share::default())).collect(),
            changed: vec![Share::default(); CHANGE_DAYS],
            directory_sizes: vec![0; POWERS],
            names_max: 0,
            failed: 0,
            elapsed_secs: 0.0,
            processor_secs: 0.0,
            warmth,
            whole: true,
            file_system_objects: None,
            file_system_bytes: 0,
            file_system_own_bytes: 0,
        }
    }

    /// Counts an object that was found at `now`, in seconds since 1970. `bytes` is what a backup
    /// reads of it.
    fn count(&mut self, status: &ObjectStatus, bytes: u64, now: i64) {
        self.objects += 1;
        self.allocated_bytes = self.allocated_bytes.saturating_add(status.allocated_bytes);
        match status.stat.kind {
            Kind::Directory => {}
            Kind::Symlink => self.symlinks += 1,
            Kind::File => self.count_file(&status.stat, bytes, now),
            _ => self.others += 1,
        }
    }

    fn count_file(&mut self, stat: &Stat, bytes: u64, now: i64) {
        debug_assert!(bytes <= stat.size, "a backup reads no more than the file");
        self.files.add(bytes);
        self.hard_linked += u64::from(stat.linked);
        if stat.size <= SMALL_BYTES_MAX {
            self.small.add(bytes);
        }
        self.sizes[power(stat.size)].add(bytes);
        // A file from the future has just changed.
        let days = (now.saturating_sub(stat.mtime.secs)).max(0) / DAY_SECS;
        let is_in = |limit: &Option<u32>| limit.is_none_or(|limit| days < i64::from(limit));
        let age = self.ages.iter_mut().find(|(limit, _)| is_in(limit));
        age.expect("the last class takes all").1.add(bytes);
        if let Some(day) = usize::try_from(days).ok().and_then(|days| self.changed.get_mut(days)) {
            day.add(bytes);
        }
    }

    fn count_directory(&mut self, names: u64) {
        self.directories += 1;
        self.directory_sizes[power(names)] += 1;
        self.names_max = self.names_max.max(names);
    }

    fn merge(&mut self, other: &Self) {
        self.objects += other.objects;
        self.directories += other.directories;
        self.symlinks += other.symlinks;
        self.others += other.others;
        self.files.merge(other.files);
        self.small.merge(other.small);
        self.hard_linked += other.hard_linked;
        self.allocated_bytes = self.allocated_bytes.saturating_add(other.allocated_bytes);
        let shares = self.sizes.iter_mut().zip(&other.sizes);
        shares.for_each(|(own, other)| own.merge(*other));
        let ages = self.ages.iter_mut().zip(&other.ages);
        ages.for_each(|((_, own), (_, other))| own.merge(*other));
        let changed = self.changed.iter_mut().zip(&other.changed);
        changed.for_each(|(own, other)| own.merge(*other));
        let directories = self.directory_sizes.iter_mut().zip(&other.directory_sizes);
        directories.for_each(|(own, other)| *own += other);
        self.names_max = self.names_max.max(other.names_max);
        self.failed += other.failed;
        self.whole &= other.whole;
    }

    /// Returns the files larger than [`Self::small`].
    pub fn large(&self) -> Share {
        Share {
            files: self.files.files - self.small.files,
            bytes: self.files.bytes - self.small.bytes,
        }
    }

    /// Returns what usually changes in a day: the median of the last seven whole days. Files that
    /// changed often count once, on the last day; deletions do not show.
    pub fn usual_day(&self) -> Share {
        // A kept report may have fewer days.
        let days = self.changed.iter().skip(1).take(7);
        let median = |of: fn(&Share) -> u64| {
            let mut values: Vec<u64> = days.clone().map(of).collect();
            values.sort_unstable();
            values.get(values.len() / 2).copied().unwrap_or(0)
        };
        Share { files: median(|day| day.files), bytes: median(|day| day.bytes) }
    }

    /// Returns a factor for the counts of a survey that has not come to the end: how much more the
    /// file system holds. 1 for a whole survey, and where the file system does not count.
    pub fn scale(&self) -> f64 {
        match self.file_system_objects {
            Some(all) if !self.whole && self.objects > 0 => {
                (crate::to_f64(all) / crate::to_f64(self.objects)).max(1.0)
            }
            _ => 1.0,
        }
    }
}

/// Returns the class of a number: 0 for 0, otherwise the number of its binary digits.
fn power(number: u64) -> usize {
    let digits = u64::BITS - number.leading_zeros();
    (digits as usize).min(POWERS - 1)
}

/// How a tree is surveyed.
pub(crate) struct Order<'a> {
    pub(crate) warmth: Warmth,
    pub(crate) threads: usize,
    /// Time after which the survey ends where it is.
    pub(crate) at_most: Duration,
    pub(crate) is_stopped: &'a (dyn Fn() -> bool + Sync),
}

/// Surveys the tree at `root`, within its file system, and draws the sample.
pub(crate) fn survey(root: &Path, order: &Order<'_>) -> (Survey, Draw) {
    let (queue, began) = (Queue::new(root), sys::clock::monotonic());
    let processor = sys::process::cpu_time();
    let now = sys::clock::system().secs();
    let draw = Mutex::new(Draw::default());
    let work = || {
        let mut surveyor = Surveyor::new(order.warmth, now);
        while let Some(directory) = queue.next() {
            let mut found = Vec::new();
            if began.elapsed() < order.at_most && !(order.is_stopped)() {
                found = surveyor.read(&directory, &draw);
            } else {
                surveyor.survey.whole = false;
            }
            queue.done(found);
        }
        surveyor.survey
    };
    let mut survey = Survey::new(order.warmth);
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..order.threads).map(|_| scope.spawn(work)).collect();
        for thread in threads {
            let part = thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            survey.merge(&part);
        }
    });
    survey.processor_secs = (sys::process::cpu_time() - processor).as_secs_f64();
    survey.elapsed_secs = began.elapsed().as_secs_f64();
    describe_file_system(root, &mut survey);
    (survey, draw.into_inner())
}

/// Adds what the file system says about itself.
fn describe_file_system(root: &Path, survey: &mut Survey) {
    let Ok(status) = rustix::fs::statvfs(root) else { return };
    let used = status.f_files.saturating_sub(status.f_ffree);
    let counts = status.f_files > 0 && used >= survey.objects;
    survey.file_system_objects = counts.then_some(used);
    let blocks = status.f_blocks.saturating_sub(status.f_bfree);
    survey.file_system_bytes = blocks.saturating_mul(status.f_frsize);
    let counted = status.f_blocks.saturating_mul(status.f_frsize);
    let kind = crate::file_system(root).unwrap_or_default();
    let left_out = if tells_free_blocks(&kind) { counted } else { survey.file_system_bytes };
    let device = Device::of(root).and_then(|device| device.bytes());
    survey.file_system_own_bytes = device.map_or(0, |bytes| bytes.saturating_sub(left_out));
}

/// Returns true if a file system of this type tells which of its blocks are free, so that an image
/// leaves them out.
fn tells_free_blocks(kind: &str) -> bool {
    matches!(kind, "ext2" | "ext3" | "ext4" | "xfs")
}

/// One thread of a survey.
struct Surveyor {
    survey: Survey,
    listing: Listing,
    now: i64,
    /// The file system that the survey stays in: that of the first directory.
    device: Option<u64>,
}

impl Surveyor {
    fn new(warmth: Warmth, now: i64) -> Self {
        Self { survey: Survey::new(warmth), listing: Listing::default(), now, device: None }
    }

    /// Reads one directory. Returns the directories in it.
    fn read(&mut self, directory: &Unread, draw: &Mutex<Draw>) -> Vec<Unread> {
        let listed = directory.open().and_then(|opened| {
            opened.list(&mut self.listing)?;
            Ok((opened.stat_self()?, opened))
        });
        let Ok((own, opened)) = listed else {
            self.survey.failed += 1;
            return Vec::new();
        };
        let device = *self.device.get_or_insert(own.device_id);
        let opened = std::sync::Arc::new(opened);
        let entries = self.listing.entries();
        self.survey.count_directory(entries.len() as u64);
        self.survey.failed += self.listing.failures().len() as u64;
        let mut found = Vec::new();
        let mut files = Vec::new();
        for entry in entries {
            let status = &entry.found;
            let name = self.listing.name(entry);
            self.survey.count(status, data_bytes(&opened, name, status), self.now);
            match status.stat.kind {
                Kind::Directory if status.device_id == device => found.push(Unread {
                    path: join(&directory.path, name),
                    parent: Some(std::sync::Arc::clone(&opened)),
                }),
                Kind::File if is_here(status) => files.push((name, status.stat.size)),
                _ => {}
            }
        }
        draw.lock().offer(&directory.path, &files);
        found
    }
}

/// Returns true if the content of a file is on the disk. A file that takes far less space than its
/// size has migrated, and reading it would bring it back; or it has little but holes.
fn is_here(status: &ObjectStatus) -> bool {
    status.stat.size < HELD_BYTES_MIN
        || status.allocated_bytes.saturating_mul(HELD_SHARE) >= status.stat.size
}

/// Returns the number of bytes that a backup reads of the file `name`: all but its holes. A file
/// that is not here has migrated or has little but holes; of both, what takes space counts.
/// Opening a migrated file might bring it back, so only a file that is here is asked for its holes.
fn data_bytes(directory: &Dir, name: &[u8], status: &ObjectStatus) -> u64 {
    let size = status.stat.size;
    if status.allocated_bytes >= size {
        return size;
    }
    if !is_here(status) {
        return status.allocated_bytes;
    }
    if status.stat.kind != Kind::File || size <= SMALL_BYTES_MAX {
        return size;
    }
    // A file system that compresses gives less space to files without holes, too.
    let segments = directory.open_file(name).and_then(|file| file.segments(size));
    let bytes = |segment: &Segment| match segment {
        Segment::Data { bytes, .. } => *bytes,
        Segment::Hole { .. } => 0,
    };
    segments.map_or(size, |segments| segments.iter().map(bytes).sum())
}

fn join(directory: &Path, name: &[u8]) -> PathBuf {
    use std::os::unix::ffi::OsStrExt as _;
    directory.join(std::ffi::OsStr::from_bytes(name))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn surveyed(root: &Path, at_most: Duration) -> (Survey, Draw) {
        survey(root, &Order { warmth: Warmth::AsFound, threads: 2, at_most, is_stopped: &|| false })
    }

    #[test]
    fn a_tree_is_counted_by_size_age_and_directory() {
        let tree = tempfile::tempdir().expect("a folder");
        let deep = tree.path().join("a/b");
        fs::create_dir_all(&deep).expect("directories");
        fs::write(deep.join("empty"), "").expect("a file");
        fs::write(deep.join("small"), vec![1; 100]).expect("a file");
        fs::write(tree.path().join("large"), vec![1; 3 << 20]).expect("a file");
        std::os::unix::fs::symlink("x", deep.join("link")).expect("a link");
        let old = fs::File::open(deep.join("small")).expect("it is there");
        let past = std::time::SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
        old.set_modified(past).expect("its time is set");
        let (survey, draw) = surveyed(tree.path(), Duration::from_secs(60));
        assert_eq!((survey.objects, survey.directories, survey.symlinks), (6, 3, 1));
        assert_eq!(survey.files, Share { files: 3, bytes: (3 << 20) + 100 });
        assert_eq!(survey.large(), Share { files: 1, bytes: 3 << 20 });
        assert_eq!(
            (survey.sizes[0].files, survey.sizes[7].files, survey.sizes[22].files),
            (1, 1, 1)
        );
        assert_eq!((survey.ages[0].1.files, survey.ages[7].1.files), (2, 1));
        assert_eq!(survey.changed[0].files, 2);
        assert_eq!(survey.names_max, 3);
        assert!(survey.whole && survey.failed == 0);
        assert_eq!(draw.directories().iter().map(|drawn| drawn.files.len()).sum::<usize>(), 3);
    }

    #[test]
    fn content_that_is_not_on_the_disk_is_not_read() {
        let tree = tempfile::tempdir().expect("a folder");
        let file = fs::File::create(tree.path().join("migrated")).expect("a file");
        file.set_len(1 << 20).expect("a hole");
        fs::write(tree.path().join("here"), vec![1; 4096]).expect("a file");
        let (survey, draw) = surveyed(tree.path(), Duration::from_secs(60));
        assert_eq!(survey.files, Share { files: 2, bytes: 4096 });
        let drawn: Vec<_> = draw.directories().iter().flat_map(|one| one.files.clone()).collect();
        assert_eq!(drawn, [(b"here".to_vec(), 4096)]);
        assert!(draw.files().iter().all(|file| file.bytes == 4096));
    }

    #[test]
    fn holes_are_no_data() {
        use std::os::unix::fs::FileExt as _;
        let tree = tempfile::tempdir().expect("a folder");
        let file = fs::File::create(tree.path().join("disk")).expect("a file");
        file.set_len(8 << 20).expect("a hole");
        file.write_all_at(&vec![1; 2 << 20], 4 << 20).expect("some data");
        let (survey, draw) = surveyed(tree.path(), Duration::from_secs(60));
        assert_eq!(survey.large(), Share { files: 1, bytes: 2 << 20 });
        assert_eq!(survey.sizes[24], Share { files: 1, bytes: 2 << 20 });
        assert_eq!(draw.files().len(), 1);
    }

    #[test]
    fn a_survey_that_runs_out_of_time_says_so() {
        let tree = tempfile::tempdir().expect("a folder");
        let (survey, _) = surveyed(tree.path(), Duration::ZERO);
        assert!(!survey.whole && survey.objects == 0);
        assert!((survey.scale() - 1.0).abs() < 1e-9);
        let part = Survey {
            objects: 10,
            file_system_objects: Some(40),
            ..Survey { whole: false, ..survey }
        };
        assert!((part.scale() - 4.0).abs() < 1e-9);
    }

    #[test]
    fn the_usual_day_is_no_exception() {
        let mut survey = Survey::new(Warmth::AsFound);
        for (day, files) in [9, 1, 2, 3, 1000, 4, 5, 6, 7].into_iter().enumerate() {
            survey.changed[day] = Share { files, bytes: files * 10 };
        }
        assert_eq!(survey.usual_day(), Share { files: 4, bytes: 40 });
    }

    #[test]
    fn classes_are_powers_of_two() {
        assert_eq!([0, 1, 2, 3, 4, 1023, 1024].map(power), [0, 1, 2, 2, 3, 10, 11]);
        assert_eq!(power(u64::MAX), POWERS - 1);
    }
}
