//! Measures what this crate adds to the bare system calls of a walk through a tree, and the cost of
//! making files.
//!
//! `cargo bench -p sys -- TREE FOLDER` walks `TREE` and makes 20,000 files in `FOLDER`. Wall times:
//! trust them only on a quiet machine.
#![expect(clippy::print_stdout, reason = "a bench reports to a person")]

use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use model::{Attributes, Kind, Stat, Timestamp};
use rustix::fs::{AtFlags, FileType, Mode, OFlags, RawDir, StatxFlags};
use sys::{Dir, Listing, NewFile, clock, process};

const ROUNDS: usize = 5;
const FILE_COUNT: u32 = 20_000;
const FILES_PER_DIR: u32 = 100;
const CONTENT: &[u8] = &[b'c'; 3000];

fn main() -> io::Result<()> {
    let arguments: Vec<OsString> =
        std::env::args_os().skip(1).filter(|argument| argument != "--bench").collect();
    let [tree, folder] = &arguments[..] else {
        println!("usage: cargo bench -p sys -- TREE FOLDER");
        return Ok(());
    };
    for _ in 0..ROUNDS {
        measure("walk, bare", || walk_bare(tree.as_bytes()))?;
        measure("walk, Dir::list", || walk(tree.as_bytes()))?;
    }
    for _ in 0..ROUNDS {
        measure("make, O_TMPFILE and link", || make(folder.as_ref()))?;
    }
    Ok(())
}

fn measure(name: &str, work: impl FnOnce() -> io::Result<u32>) -> io::Result<()> {
    let (start, cpu_start) = (clock::monotonic(), process::cpu_time());
    let count = work()?;
    let each = |time: Duration| time.as_secs_f64() * 1e6 / f64::from(count);
    let (wall, cpu) = (each(start.elapsed()), each(process::cpu_time() - cpu_start));
    println!("{name:25} {count:8} objects, each {wall:8.3} us, {cpu:8.3} us of a processor");
    Ok(())
}

/// Walks `tree` with only the system calls that every walk needs: open, `getdents64` and `statx`.
/// Returns the number of objects.
fn walk_bare(tree: &[u8]) -> io::Result<u32> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut stack = vec![Arc::new(rustix::fs::open(tree, flags, Mode::empty())?)];
    let mut buffer = Vec::with_capacity(64 << 10);
    let mut count = 0;
    while let Some(dir) = stack.pop() {
        let mut names = RawDir::new(&*dir, buffer.spare_capacity_mut());
        while let Some(entry) = names.next() {
            let entry = entry?;
            let name = entry.file_name();
            if name == c"." || name == c".." {
                continue;
            }
            let statx = AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT;
            rustix::fs::statx(&dir, name, statx, StatxFlags::BASIC_STATS)?;
            if entry.file_type() == FileType::Directory {
                stack.push(Arc::new(rustix::fs::openat(&dir, name, flags, Mode::empty())?));
            }
            count += 1;
        }
    }
    Ok(count)
}

fn walk(tree: &[u8]) -> io::Result<u32> {
    let mut stack = vec![Arc::new(Dir::open(tree)?)];
    let mut listing = Listing::default();
    let mut count = 0;
    while let Some(dir) = stack.pop() {
        dir.list(&mut listing)?;
        for entry in listing.entries() {
            if entry.found.stat.kind == Kind::Directory {
                stack.push(Arc::new(dir.open_dir(listing.name(entry))?));
            }
            count += 1;
        }
    }
    Ok(count)
}

/// Makes the files and does not remove them: the removal would count in the figures.
fn make(folder: &Path) -> io::Result<u32> {
    let folder = tempfile::tempdir_in(folder)?;
    let base = Dir::open(folder.path().as_os_str().as_bytes())?;
    let (uid, gid) = process::effective_ids();
    let mtime = Timestamp { secs: 1_000_000_000, nanos: 1 };
    let stat = Stat {
        kind: Kind::File,
        mode: 0o644,
        uid,
        gid,
        size: CONTENT.len() as u64,
        mtime,
        ctime: mtime,
        inode: 0,
        linked: false,
        device: 0,
    };
    for dir_index in 0..FILE_COUNT / FILES_PER_DIR {
        let dir = Arc::new(base.make_dir(format!("dir{dir_index}").as_bytes())?);
        for index in 0..FILES_PER_DIR {
            let name = format!("some file {index}.rs");
            let mut file = NewFile::create_with_mode(&dir, name.as_bytes(), stat.mode)?;
            file.write_at(CONTENT, 0)?;
            let applied = file.apply(&stat, &Attributes::default(), true);
            assert!(applied.refused.is_empty(), "{:?}", applied.refused);
            assert!(file.publish(false)?.refused.is_empty());
        }
    }
    let _path = folder.keep();
    Ok(FILE_COUNT)
}
