//! Making files, as a restore does it.

use std::ffi::OsStr;
use std::fs::File;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use sys::{Dir, NewFile};

/// Size of each file: that of many files of programs and sources.
const FILE_BYTES: usize = 4 << 10;
/// Maximum number of files, for each thread.
const FILES_MAX: u64 = 10_000;

/// Beginning of the name of the folder in which the files are made.
pub const FOLDER_PREFIX: &str = ".holdfast-baseline-";
/// Number of letters and digits after it.
const FOLDER_SUFFIX_BYTES: usize = 6;

/// Making of small files.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Creation {
    pub threads: u32,
    pub files: u64,
    pub elapsed_secs: f64,
    /// Processor time of all threads.
    pub processor_secs: f64,
}

impl Creation {
    pub fn files_per_sec(&self) -> f64 {
        crate::per_sec(self.files, self.elapsed_secs)
    }
}

/// Makes small files in a folder of its own in `folder`, at most for the time `at_most`, and
/// removes them.
pub(crate) fn measure(
    folder: &Path,
    at_most: Duration,
    is_stopped: &(dyn Fn() -> bool + Sync),
) -> std::io::Result<Creation> {
    let outer = crate::open(folder)?;
    let modified = outer.stat_self()?.stat.mtime;
    remove_stale(folder);
    let own = tempfile::Builder::new()
        .prefix(FOLDER_PREFIX)
        .rand_bytes(FOLDER_SUFFIX_BYTES)
        .tempdir_in(folder)?;
    let lock = File::open(own.path())?;
    // The lock ends with the process. Some file systems have no locks.
    drop(lock.try_lock());
    let threads = sys::process::processors();
    let files = AtomicU64::new(0);
    let (began, processor) = (sys::clock::monotonic(), sys::process::cpu_time());
    let make = |thread: usize| {
        let directory = own.path().join(thread.to_string());
        std::fs::create_dir(&directory)?;
        let directory = Arc::new(crate::open(&directory)?);
        let mut made = 0;
        while made < FILES_MAX && began.elapsed() < at_most && !is_stopped() {
            make_file(&directory, made)?;
            made += 1;
        }
        files.fetch_add(made, Ordering::Relaxed);
        Ok(())
    };
    std::thread::scope(|scope| {
        let make = &make;
        let threads: Vec<_> = (0..threads).map(|n| scope.spawn(move || make(n))).collect();
        let joined = threads
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        joined.collect::<std::io::Result<()>>()
    })?;
    let creation = Creation {
        threads: u32::try_from(threads).unwrap_or(u32::MAX),
        files: files.into_inner(),
        elapsed_secs: began.elapsed().as_secs_f64(),
        processor_secs: (sys::process::cpu_time() - processor).as_secs_f64(),
    };
    own.close()?;
    drop(lock);
    // The folder has again what it had, so its time is not to say that it changed.
    outer.set_modified(modified)?;
    Ok(creation)
}

/// Removes what killed measurements have left in `folder`: folders that nobody has locked.
pub(crate) fn remove_stale(folder: &Path) {
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    for entry in entries.flatten().filter(|entry| is_own_name(&entry.file_name())) {
        let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
        if is_folder && File::open(entry.path()).is_ok_and(|opened| opened.try_lock().is_ok()) {
            // A folder that cannot be removed hinders nobody.
            drop(std::fs::remove_dir_all(entry.path()));
        }
    }
}

/// Returns true if a measurement makes folders called `name`.
fn is_own_name(name: &OsStr) -> bool {
    let suffix = name.as_bytes().strip_prefix(FOLDER_PREFIX.as_bytes());
    suffix.is_some_and(|suffix| {
        suffix.len() == FOLDER_SUFFIX_BYTES && suffix.iter().all(u8::is_ascii_alphanumeric)
    })
}

fn make_file(directory: &Arc<Dir>, number: u64) -> std::io::Result<()> {
    let file = NewFile::create(directory, number.to_string().as_bytes())?;
    file.write_at(&[0x5a; FILE_BYTES], 0)?;
    let _outcome = file.publish(false)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_made_and_nothing_is_left() {
        let folder = tempfile::tempdir().expect("a folder");
        let before = std::fs::metadata(folder.path()).and_then(|now| now.modified()).expect("stat");
        let made = measure(folder.path(), Duration::from_millis(50), &|| false).expect("files");
        assert!(made.files > 0 && made.files_per_sec() > 0.0, "{made:?}");
        assert_eq!(std::fs::read_dir(folder.path()).expect("a folder").count(), 0);
        let after = std::fs::metadata(folder.path()).and_then(|now| now.modified()).expect("stat");
        assert_eq!(before, after);
    }

    #[test]
    fn what_a_killed_measurement_has_left_goes() {
        let folder = tempfile::tempdir().expect("a folder");
        let [left, running, other] = ["aB3xyz", "000000", "notes"].map(|suffix| {
            let path = folder.path().join(format!("{FOLDER_PREFIX}{suffix}"));
            std::fs::create_dir_all(path.join("0")).expect("made");
            std::fs::write(path.join("0/17"), b"content").expect("written");
            path
        });
        let lock = File::open(&running).expect("opened");
        lock.try_lock().expect("locked");
        measure(folder.path(), Duration::ZERO, &|| false).expect("files");
        let is_there = |path: &Path| path.join("0/17").try_exists().expect("asked");
        assert_eq!([&left, &running, &other].map(|path| is_there(path)), [false, true, true]);
    }

    #[test]
    fn a_folder_that_cannot_be_written_is_said() {
        let error = measure(Path::new("/proc"), Duration::ZERO, &|| false).unwrap_err();
        assert!(!error.to_string().is_empty());
    }
}
