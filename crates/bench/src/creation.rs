//! `bench creation`: the time that the kernel takes to make the files of a tree, which is the lower
//! limit of the time of a restore.
//!
//! Contents are read into memory beforehand, in batches. Only the time of the calls that make
//! files, directories and symbolic links counts: create, write, close, and those that set owner,
//! mode and times. Extended attributes are left out. Each name of a hard link becomes a file of its
//! own.

use std::fs::{self, File, Metadata};
use std::io::Write as _;
use std::ops::Range;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use rustix::fs::{
    AtFlags, CWD, Gid, Mode, OFlags, Timespec, Timestamps, Uid, chmodat, chownat, fchmod, fchown,
    futimens, mkdirat, openat, symlinkat, utimensat,
};
use serde_json::json;

use crate::arguments::number;
use crate::effort::Effort;
use crate::output;
use crate::trouble::{Context as _, Trouble};
use crate::workplace;

/// Make the files of a tree from memory, as the lower limit of the time of a restore
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// The tree; it is only read
    #[arg(value_name = "DIR")]
    tree: PathBuf,
    /// The folder to make
    #[arg(value_name = "TARGET")]
    target: PathBuf,
    /// Number of threads that make files
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = number(1..=THREADS_MAX))]
    threads: usize,
}

const THREADS_MAX: usize = 256;

/// Maximum number of bytes of contents in memory. A larger file is a batch of its own.
const BATCH_BYTES: u64 = 256 << 20;

pub(crate) fn run(args: &Args) -> Result<(), Trouble> {
    let Args { tree, target, threads } = args;
    let tree = workplace::resolve(tree)?;
    let plan = Plan::of(&tree)?;
    fs::create_dir(target).while_doing(|| format!("make {}", target.display()))?;
    let (spent, unreadable) = plan.carry_out(&tree, target, *threads)?;
    let document = json!({
        "spent": spent.json(),
        "files": plan.files.len(),
        "unreadable": plan.unreadable + unreadable,
    });
    output::result(&document.to_string())
}

/// A symbolic link.
struct PlannedLink {
    path: PathBuf,
    target: PathBuf,
    metadata: Metadata,
}

/// The objects to make. Paths are relative to the top of the tree.
#[derive(Default)]
struct Plan {
    /// Directories. A parent comes before its children.
    folders: Vec<(PathBuf, Metadata)>,
    /// Regular files. The files of a folder follow each other.
    files: Vec<PlannedFile>,
    links: Vec<PlannedLink>,
    unreadable: usize,
}

struct PlannedFile {
    folder: usize,
    name: std::ffi::OsString,
    metadata: Metadata,
}

impl Plan {
    fn of(tree: &Path) -> Result<Self, Trouble> {
        let top = fs::symlink_metadata(tree).while_doing(|| format!("stat {}", tree.display()))?;
        let device = top.dev();
        let mut plan = Self { folders: vec![(PathBuf::new(), top)], ..Self::default() };
        let mut index = 0;
        while index < plan.folders.len() {
            if plan.folders[index].1.dev() == device {
                plan.list(tree, index);
            }
            index += 1;
        }
        Ok(plan)
    }

    fn list(&mut self, tree: &Path, folder: usize) {
        let relative = self.folders[folder].0.clone();
        let Ok(names) = fs::read_dir(tree.join(&relative)) else {
            self.unreadable += 1;
            return;
        };
        for entry in names.flatten() {
            let Ok(metadata) = entry.metadata() else {
                self.unreadable += 1;
                continue;
            };
            let path = relative.join(entry.file_name());
            if metadata.is_dir() {
                self.folders.push((path, metadata));
            } else if metadata.is_file() {
                self.files.push(PlannedFile { folder, name: entry.file_name(), metadata });
            } else if let Ok(target) = fs::read_link(tree.join(&path)) {
                self.links.push(PlannedLink { path, target, metadata });
            }
        }
    }

    /// Makes everything in `target`. Returns the time that it took, and the number of files that
    /// could not be read.
    fn carry_out(
        &self,
        tree: &Path,
        target: &Path,
        threads: usize,
    ) -> Result<(Effort, usize), Trouble> {
        let mut spent = Effort::default();
        let mut unreadable = 0;
        let what = || format!("make files in {}", target.display());
        spent.timed(|| self.make_folders(target)).while_doing(what)?;
        for batch in batches(&self.files, BATCH_BYTES) {
            let mut contents = Vec::new();
            for file in &self.files[batch.clone()] {
                let content = fs::read(tree.join(self.path(file)));
                unreadable += usize::from(content.is_err());
                contents.push(content.unwrap_or_default());
            }
            let work = Work { plan: self, target, files: &self.files[batch], contents: &contents };
            spent.timed(|| work.run(threads)).while_doing(what)?;
        }
        spent.timed(|| self.finish(target)).while_doing(what)?;
        Ok((spent, unreadable))
    }

    fn path(&self, file: &PlannedFile) -> PathBuf {
        self.folders[file.folder].0.join(&file.name)
    }

    fn make_folders(&self, target: &Path) -> rustix::io::Result<()> {
        for (path, _) in &self.folders[1..] {
            mkdirat(CWD, target.join(path), Mode::RWXU)?;
        }
        Ok(())
    }

    /// Makes the symbolic links. Then sets the attributes of the directories, because making an
    /// object in a directory changes its times.
    fn finish(&self, target: &Path) -> rustix::io::Result<()> {
        for PlannedLink { path, target: link_target, metadata } in &self.links {
            let path = target.join(path);
            symlinkat(link_target, CWD, &path)?;
            let (uid, gid) = owner(metadata);
            chownat(CWD, &path, Some(uid), Some(gid), AtFlags::SYMLINK_NOFOLLOW)?;
            utimensat(CWD, &path, &times(metadata), AtFlags::SYMLINK_NOFOLLOW)?;
        }
        for (path, metadata) in self.folders.iter().rev() {
            let path = target.join(path);
            let (uid, gid) = owner(metadata);
            chownat(CWD, &path, Some(uid), Some(gid), AtFlags::empty())?;
            chmodat(CWD, &path, mode(metadata), AtFlags::empty())?;
            utimensat(CWD, &path, &times(metadata), AtFlags::empty())?;
        }
        Ok(())
    }
}

/// A batch of files whose contents are in memory.
struct Work<'a> {
    plan: &'a Plan,
    target: &'a Path,
    files: &'a [PlannedFile],
    contents: &'a [Vec<u8>],
}

impl Work<'_> {
    fn run(&self, threads: usize) -> rustix::io::Result<()> {
        let mut units = Vec::new();
        let mut begin = 0;
        for same in self.files.chunk_by(|one, other| one.folder == other.folder) {
            units.push(begin..begin + same.len());
            begin += same.len();
        }
        let next = AtomicUsize::new(0);
        let take_units = || {
            while let Some(unit) = units.get(next.fetch_add(1, Relaxed)) {
                self.make(unit.clone())?;
            }
            Ok(())
        };
        std::thread::scope(|scope| {
            let others: Vec<_> = (1..threads).map(|_| scope.spawn(take_units)).collect();
            let own = take_units();
            others.into_iter().fold(own, |result, thread| {
                result.and(thread.join().unwrap_or(Err(rustix::io::Errno::IO)))
            })
        })
    }

    /// Makes the files with indexes `unit`, which must be in the same folder.
    fn make(&self, unit: Range<usize>) -> rustix::io::Result<()> {
        let folder = &self.plan.folders[self.files[unit.start].folder].0;
        let flags = OFlags::DIRECTORY | OFlags::CLOEXEC;
        let folder = openat(CWD, self.target.join(folder), flags, Mode::empty())?;
        for index in unit {
            let PlannedFile { name, metadata, .. } = &self.files[index];
            let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
            let mut file: File = openat(&folder, name, flags, Mode::RUSR | Mode::WUSR)?.into();
            let written = file.write_all(&self.contents[index]);
            written.map_err(|error| {
                rustix::io::Errno::from_io_error(&error).unwrap_or(rustix::io::Errno::IO)
            })?;
            let (uid, gid) = owner(metadata);
            fchown(&file, Some(uid), Some(gid))?;
            fchmod(&file, mode(metadata))?;
            futimens(&file, &times(metadata))?;
        }
        Ok(())
    }
}

/// Divides `files` into batches of at most `bytes_max` bytes each. A larger file is a batch of its
/// own.
fn batches(files: &[PlannedFile], bytes_max: u64) -> Vec<Range<usize>> {
    let sizes: Vec<u64> = files.iter().map(|file| file.metadata.len()).collect();
    divide(&sizes, bytes_max)
}

fn divide(sizes: &[u64], bytes_max: u64) -> Vec<Range<usize>> {
    let mut parts: Vec<Range<usize>> = Vec::new();
    let mut bytes = u64::MAX;
    for (index, size) in sizes.iter().enumerate() {
        match parts.last_mut() {
            Some(part) if bytes.saturating_add(*size) <= bytes_max => {
                part.end = index + 1;
                bytes += size;
            }
            _ => {
                parts.push(index..index + 1);
                bytes = *size;
            }
        }
    }
    parts
}

fn owner(metadata: &Metadata) -> (Uid, Gid) {
    (Uid::from_raw(metadata.uid()), Gid::from_raw(metadata.gid()))
}

fn mode(metadata: &Metadata) -> Mode {
    Mode::from_raw_mode(metadata.mode() & 0o7777)
}

fn times(metadata: &Metadata) -> Timestamps {
    let time = |tv_sec, tv_nsec| Timespec { tv_sec, tv_nsec };
    Timestamps {
        last_access: time(metadata.atime(), metadata.atime_nsec()),
        last_modification: time(metadata.mtime(), metadata.mtime_nsec()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_holds_what_fits_or_one_file() {
        assert_eq!(divide(&[], 10), []);
        assert_eq!(divide(&[4, 6, 1], 10), [0..2, 2..3]);
        assert_eq!(divide(&[40, 6, 4, 0], 10), [0..1, 1..4]);
    }

    #[test]
    fn what_is_made_is_what_was_there() {
        let dir = tempfile::tempdir().unwrap();
        let source = dir.path().join("source");
        fs::create_dir_all(source.join("a/b")).unwrap();
        fs::write(source.join("a/one"), b"12345").unwrap();
        fs::write(source.join("a/b/two"), b"").unwrap();
        std::os::unix::fs::symlink("a", source.join("link")).unwrap();
        let target = dir.path().join("target");
        fs::create_dir(&target).unwrap();
        let plan = Plan::of(&source).unwrap();
        let (_, unreadable) = plan.carry_out(&source, &target, 2).unwrap();
        assert_eq!(unreadable, 0);
        let take = |top: &Path| e2e::manifest::Manifest::take(top).unwrap();
        assert_eq!(e2e::manifest::diff(&take(&source), &take(&target)), Vec::<String>::new());
    }
}
