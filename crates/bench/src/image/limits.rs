//! Limits of the disk: reading everything that is in use, and writing a new file.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use super::disk::{StillDisk, WindowBuffer, places};
use super::windows::{WINDOW_BYTES, Window};
use crate::effort::Effort;
use crate::machine;
use crate::process;
use crate::trouble::{Context as _, Trouble};

/// Number of threads that read, as in the program that is measured.
const READERS: usize = 4;
/// Number of windows that a thread reads one after the other: a part of an image.
const PART_WINDOWS: usize = 64;

/// Reads everything that is in use on `disk`, with empty caches. Returns the time that this took.
pub(super) fn read(disk: &StillDisk) -> Result<Effort, Trouble> {
    machine::drop_caches()?;
    let next = AtomicUsize::new(0);
    let parts: Vec<&[Window]> = disk.windows.chunks(PART_WINDOWS).collect();
    let some = || {
        let mut buffer = WindowBuffer::new();
        while let Some(part) = parts.get(next.fetch_add(1, Relaxed)) {
            for window in *part {
                process::check_interrupted()?;
                disk.read(window, &mut buffer).while_doing(|| "read the disk".to_owned())?;
            }
        }
        Ok(())
    };
    let mut effort = Effort::default();
    effort.timed(|| {
        std::thread::scope(|threads| {
            let readers: Vec<_> = (0..READERS).map(|_| threads.spawn(some)).collect();
            readers.into_iter().try_for_each(|reader| {
                reader.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            })
        })
    })?;
    Ok(effort)
}

/// Writes `bytes` to the places of `windows` in the new file `path`, which gets `length` bytes.
/// Returns the time that this took, including the wait until all is on the disk.
pub(super) fn write(
    path: &Path,
    windows: &[Window],
    bytes: u64,
    length: u64,
) -> Result<Effort, Trouble> {
    machine::settle();
    machine::drop_caches()?;
    let what = || format!("write {}", path.display());
    let data = vec![0x5a; WINDOW_BYTES];
    let mut effort = Effort::default();
    effort.timed(|| {
        let file = File::create_new(path).while_doing(what)?;
        let mut left = bytes;
        for window in windows {
            process::check_interrupted()?;
            for run in &window.runs {
                let mut places = places(window, run);
                let end = places.start.saturating_add(usize::try_from(left).unwrap_or(usize::MAX));
                places.end = places.end.min(end);
                left -= places.len() as u64;
                file.write_all_at(&data[places], run.start).while_doing(what)?;
            }
        }
        file.set_len(length).and_then(|()| file.sync_all()).while_doing(what)
    })?;
    Ok(effort)
}

/// Returns the number of windows in which the file `restored` differs from `disk`.
pub(super) fn differences(disk: &StillDisk, restored: &Path) -> Result<u64, Trouble> {
    let what = || format!("compare {} with the disk", restored.display());
    let file = File::open(restored).while_doing(what)?;
    let mut buffer = WindowBuffer::new();
    let mut other = vec![0; WINDOW_BYTES];
    let mut differs = |window: &Window| -> io::Result<bool> {
        disk.read(window, &mut buffer)?;
        for run in &window.runs {
            let places = places(window, run);
            file.read_exact_at(&mut other[places.clone()], run.start)?;
            if other[places.clone()] != buffer.bytes()[places] {
                return Ok(true);
            }
        }
        Ok(false)
    };
    let mut found = 0;
    for window in &disk.windows {
        process::check_interrupted()?;
        found += u64::from(differs(window).while_doing(what)?);
    }
    Ok(found)
}
