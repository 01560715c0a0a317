//! Stat walks: reading every directory of a tree and the status of every object in it, and nothing
//! else. An incremental backup that finds no change does little more.
//!
//! There are two ways to do it, and a host shows different rates for them: by the full path of each
//! object, which the kernel resolves from the root, and by the descriptor of the open directory.
//! The second is the way of a backup.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use sys::Dir;

use crate::disk::counters::Device;
use crate::queue::{Queue, Unread};

/// Numbers of threads that walk a tree, one after the other.
pub(crate) const THREADS: [u32; 7] = [1, 2, 4, 8, 16, 32, 64];

/// Way to reach the objects of a directory.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Way {
    Path,
    Descriptor,
}

/// State of the caches of directories and inodes when a walk began.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Warmth {
    /// Nothing: the caches of the machine were dropped.
    Cold,
    /// Whatever happened to be there.
    AsFound,
    /// All that fits, because the tree had just been walked.
    Warm,
}

/// A walk of a tree.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Walk {
    pub way: Way,
    pub warmth: Warmth,
    pub threads: u32,
    pub directories: u64,
    /// Number of names in these directories.
    pub objects: u64,
    pub elapsed_secs: f64,
    /// Processor time of all threads.
    pub processor_secs: f64,
    /// Time inside opening and reading directories, summed over all threads.
    pub opendir_secs: f64,
    /// Time inside reading the status of objects, summed over all threads.
    pub stat_secs: f64,
    /// Number of reads of the disk during the walk; `None` if the file system has no disk of its
    /// own.
    pub disk_reads: Option<u64>,
    /// Number of objects or directories that could not be read.
    pub failed: u64,
    /// False if the time was over before the end of the tree.
    pub whole: bool,
}

impl Walk {
    /// Returns the number of objects and directories per second.
    pub fn objects_per_sec(&self) -> f64 {
        crate::per_sec(self.objects, self.elapsed_secs)
    }

    pub fn directories_per_sec(&self) -> f64 {
        crate::per_sec(self.directories, self.elapsed_secs)
    }

    /// Returns the number of reads of the disk for each object.
    pub fn reads_per_object(&self) -> Option<f64> {
        let reads = self.disk_reads?;
        (self.objects > 0).then(|| crate::to_f64(reads) / crate::to_f64(self.objects))
    }
}

/// Figures that threads add up.
#[derive(Clone, Copy, Default)]
struct Sums {
    directories: u64,
    objects: u64,
    opendir: Duration,
    stat: Duration,
    failed: u64,
}

impl Sums {
    fn add(&mut self, other: Self) {
        self.directories += other.directories;
        self.objects += other.objects;
        self.opendir += other.opendir;
        self.stat += other.stat;
        self.failed += other.failed;
    }
}

/// How a tree is walked.
pub(crate) struct Order<'a> {
    pub(crate) way: Way,
    pub(crate) warmth: Warmth,
    pub(crate) threads: u32,
    /// Time after which the walk ends where it is.
    pub(crate) at_most: Duration,
    pub(crate) is_stopped: &'a (dyn Fn() -> bool + Sync),
}

/// Walks the tree at `root`, within its file system.
pub(crate) fn walk(root: &Path, order: &Order<'_>) -> Walk {
    let device = Device::of(root);
    let before = device.as_ref().and_then(Device::reads);
    let (queue, began) = (Queue::new(root), sys::clock::monotonic());
    let processor = sys::process::cpu_time();
    let file_system = device_id(root);
    let late = AtomicUsize::new(0);
    let work = || {
        let mut sums = Sums::default();
        while let Some(directory) = queue.next() {
            let mut found = Vec::new();
            if began.elapsed() < order.at_most && !(order.is_stopped)() {
                let reader = Reader { file_system, found: &mut found, sums: &mut sums };
                reader.read(&directory, order.way);
            } else {
                late.fetch_add(1, Ordering::Relaxed);
            }
            queue.done(found);
        }
        sums
    };
    let mut sums = Sums::default();
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..order.threads).map(|_| scope.spawn(work)).collect();
        for thread in threads {
            sums.add(thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        }
    });
    let elapsed_secs = began.elapsed().as_secs_f64();
    let after = device.as_ref().and_then(Device::reads);
    Walk {
        way: order.way,
        warmth: order.warmth,
        threads: order.threads,
        directories: sums.directories,
        objects: sums.objects,
        elapsed_secs,
        processor_secs: (sys::process::cpu_time() - processor).as_secs_f64(),
        opendir_secs: sums.opendir.as_secs_f64(),
        stat_secs: sums.stat.as_secs_f64(),
        disk_reads: after.zip(before).map(|(after, before)| after.saturating_sub(before)),
        failed: sums.failed,
        whole: late.into_inner() == 0,
    }
}

fn device_id(path: &Path) -> Option<u64> {
    let root = Dir::open(path.as_os_str().as_bytes()).ok()?;
    Some(root.stat_self().ok()?.device_id)
}

/// Reads directories in one thread.
struct Reader<'a> {
    /// The file system that the walk stays in.
    file_system: Option<u64>,
    /// Directories in the directory that is read.
    found: &'a mut Vec<Unread>,
    sums: &'a mut Sums,
}

impl Reader<'_> {
    fn read(mut self, directory: &Unread, way: Way) {
        match way {
            Way::Path => self.read_by_path(&directory.path),
            Way::Descriptor => self.read_by_descriptor(directory),
        }
    }

    fn read_by_path(&mut self, directory: &Path) {
        let began = sys::clock::monotonic();
        let names = fs::read_dir(directory)
            .and_then(|names| names.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>, _>>());
        let listed = self.timed_listing(began, names.is_ok());
        for path in names.unwrap_or_default() {
            self.sums.objects += 1;
            match fs::symlink_metadata(&path) {
                Ok(status) if status.is_dir() => {
                    self.find(Unread { path, parent: None }, status.dev());
                }
                Ok(_) => {}
                Err(_) => self.sums.failed += 1,
            }
        }
        self.sums.stat += listed.elapsed();
    }

    fn read_by_descriptor(&mut self, directory: &Unread) {
        let began = sys::clock::monotonic();
        let opened = directory.open().and_then(|opened| Ok((opened.names()?, Arc::new(opened))));
        let listed = self.timed_listing(began, opened.is_ok());
        let Ok((names, opened)) = opened else { return };
        for name in &names {
            self.sums.objects += 1;
            match opened.stat(name) {
                Ok(Some(found)) if found.stat.kind == model::Kind::Directory => {
                    let path = directory.path.join(OsStr::from_bytes(name));
                    let parent = Some(Arc::clone(&opened));
                    self.find(Unread { path, parent }, found.device_id);
                }
                Ok(_) => {}
                Err(_) => self.sums.failed += 1,
            }
        }
        self.sums.stat += listed.elapsed();
    }

    /// Counts a directory that was listed since `began`. Returns the present.
    fn timed_listing(&mut self, began: Instant, is_ok: bool) -> Instant {
        let listed = sys::clock::monotonic();
        self.sums.opendir += listed - began;
        self.sums.directories += u64::from(is_ok);
        self.sums.failed += u64::from(!is_ok);
        listed
    }

    fn find(&mut self, directory: Unread, device: u64) {
        if self.file_system.is_none_or(|own| own == device) {
            self.found.push(directory);
        }
    }
}

/// Drops the page cache and the caches of directories and inodes of the whole machine. Fails
/// without the right to.
pub(crate) fn drop_caches() -> io::Result<()> {
    rustix::fs::sync();
    fs::write("/proc/sys/vm/drop_caches", "3")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(way: Way, threads: u32) -> Order<'static> {
        let at_most = Duration::from_secs(60);
        Order { way, warmth: Warmth::AsFound, threads, at_most, is_stopped: &|| false }
    }

    fn tree() -> tempfile::TempDir {
        let tree = tempfile::tempdir().expect("a folder");
        for directory in ["a", "b/c", "b/d", "b/\u{fffd}"] {
            let directory = tree.path().join(directory);
            fs::create_dir_all(&directory).expect("a directory");
            (0..10).for_each(|n| fs::write(directory.join(n.to_string()), "x").expect("a file"));
        }
        let bytes = OsStr::from_bytes(b"b/c/\xff\n");
        fs::write(tree.path().join(bytes), "x").expect("a file");
        tree
    }

    #[test]
    fn both_ways_and_any_number_of_threads_see_the_same() {
        let tree = tree();
        for way in [Way::Path, Way::Descriptor] {
            for threads in [1, 2, 64] {
                let walk = walk(tree.path(), &order(way, threads));
                assert_eq!((walk.directories, walk.objects), (6, 46), "{walk:?}");
                assert!(walk.whole && walk.failed == 0 && walk.objects_per_sec() > 0.0);
            }
        }
    }

    #[test]
    fn a_walk_ends_when_its_time_is_over() {
        let tree = tree();
        let walk = walk(tree.path(), &Order { at_most: Duration::ZERO, ..order(Way::Path, 2) });
        assert!(!walk.whole && walk.objects == 0, "{walk:?}");
    }

    #[test]
    fn what_cannot_be_read_is_counted() {
        let walk = walk(Path::new("/does/not/exist"), &order(Way::Descriptor, 1));
        assert_eq!((walk.failed, walk.directories), (1, 0));
        assert_eq!(walk.reads_per_object(), None);
    }
}
