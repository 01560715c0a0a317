//! Making files, as a restore does it.

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
    let own = tempfile::Builder::new().prefix(FOLDER_PREFIX).tempdir_in(folder)?;
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
    // The folder has again what it had, so its time is not to say that it changed.
    outer.set_modified(modified)?;
    Ok(creation)
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
    fn a_folder_that_cannot_be_written_is_said() {
        let error = measure(Path::new("/proc"), Duration::ZERO, &|| false).unwrap_err();
        assert!(!error.to_string().is_empty());
    }
}
