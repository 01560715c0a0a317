//! Makes the objects of a [`Plan`], on all cores.
//!
//! The threads share one stack of directories to make. A thread makes a directory, makes its files
//! relative to the descriptor of the directory, and puts its subdirectories on the stack. Children
//! are made before siblings, so that few directories are open at the same time. An empty file takes
//! one `mknodat`, and no path is resolved.

use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, MutexGuard};
use std::time::Duration;

use e2e::clock;
use rustix::fs::{CWD, FileType, Mode, OFlags, mkdirat, mknodat, openat};
use sys::lock::{Condvar, Mutex};

use super::shape::{Division, Files, Plan, directory_name};
use crate::output;
use crate::process::check_interrupted;
use crate::trouble::{Context as _, Trouble};

/// Interval between two messages about the progress.
const PROGRESS_EVERY: Duration = Duration::from_secs(5);

/// Number of files between two checks for a signal.
const LOOK_EVERY: u64 = 4096;

/// A directory to make in `parent`. Without a name, `parent` itself is the directory to fill.
struct Task {
    parent: Arc<OwnedFd>,
    name: Option<String>,
    plan: Plan,
}

#[derive(Default)]
struct State {
    waiting: Vec<Task>,
    busy: usize,
    trouble: Option<Trouble>,
}

struct Filler {
    state: Mutex<State>,
    changed: Condvar,
    made: AtomicU64,
}

/// Makes everything of `plan` in the directory `top`, which counts as the first directory of the
/// plan. Returns the time that this took.
pub(crate) fn fill(top: &Path, plan: Plan) -> Result<Duration, Trouble> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let top =
        openat(CWD, top, flags, Mode::empty()).while_doing(|| format!("open {}", top.display()))?;
    let first = Task { parent: Arc::new(top), name: None, plan };
    let filler = Filler {
        state: Mutex::new(State { waiting: vec![first], ..State::default() }),
        changed: Condvar::new(),
        made: AtomicU64::new(0),
    };
    let begin = clock::now();
    std::thread::scope(|threads| {
        for _ in 0..sys::process::processors() {
            threads.spawn(|| filler.run());
        }
        filler.watch(plan.objects());
    });
    if let Some(trouble) = filler.state().trouble.take() {
        return Err(trouble);
    }
    assert_eq!(filler.made.load(Relaxed), plan.objects(), "all planned objects must be made");
    Ok(begin.elapsed())
}

impl Filler {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Reports the progress at regular intervals. Returns when all objects are made or a thread
    /// failed.
    fn watch(&self, objects: u64) {
        let begin = clock::now();
        let mut reported = begin;
        let mut state = self.state();
        while !state.waiting.is_empty() || state.busy > 0 {
            state = self.changed.wait_timeout(state, PROGRESS_EVERY);
            if reported.elapsed() >= PROGRESS_EVERY {
                reported = clock::now();
                let (made, secs) = (self.made.load(Relaxed), begin.elapsed().as_secs().max(1));
                let rate = made / secs;
                let objects = output::counted(objects, "object");
                output::progress(&format!("{made} of {objects} made, {rate} per second"));
            }
        }
    }

    fn run(&self) {
        while let Some(task) = self.take() {
            let outcome = self.make(&task);
            let mut state = self.state();
            state.busy -= 1;
            match outcome {
                Ok(mut children) if state.trouble.is_none() => state.waiting.append(&mut children),
                Ok(_) => {}
                Err(trouble) => {
                    state.waiting.clear();
                    state.trouble.get_or_insert(trouble);
                }
            }
            // The thread in `watch` waits on the same condition for the end of the work.
            if !state.waiting.is_empty() || state.busy == 0 {
                self.changed.notify_all();
            }
        }
    }

    /// Returns the next task, or `None` once no task waits and no thread is busy.
    fn take(&self) -> Option<Task> {
        let mut state = self.state();
        loop {
            if let Some(task) = state.waiting.pop() {
                state.busy += 1;
                return Some(task);
            }
            if state.busy == 0 {
                return None;
            }
            state = self.changed.wait(state);
        }
    }

    /// Makes one directory and its files. Returns its subdirectories as tasks.
    fn make(&self, task: &Task) -> Result<Vec<Task>, Trouble> {
        check_interrupted()?;
        let directory = match &task.name {
            Some(name) => {
                Arc::new(make_directory(&task.parent, name).while_doing(|| format!("make {name}"))?)
            }
            None => Arc::clone(&task.parent),
        };
        let Division { own_files, children } = task.plan.divide();
        let mut files = Files::of(&task.plan);
        for index in 0..own_files {
            let (name, bytes) = files.next(index);
            make_file(&directory, &name, bytes, &mut files)
                .while_doing(|| format!("make {name}"))?;
            if index % LOOK_EVERY == LOOK_EVERY - 1 {
                check_interrupted()?;
                self.made.fetch_add(LOOK_EVERY, Relaxed);
            }
        }
        self.made.fetch_add(1 + own_files % LOOK_EVERY, Relaxed);
        let task = |(index, plan): (usize, Plan)| Task {
            parent: Arc::clone(&directory),
            name: Some(directory_name(plan.seed, index)),
            plan,
        };
        Ok(children.into_iter().enumerate().map(task).collect())
    }
}

fn make_directory(parent: &OwnedFd, name: &str) -> std::io::Result<OwnedFd> {
    mkdirat(parent, name, Mode::from_raw_mode(0o755))?;
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(openat(parent, name, flags, Mode::empty())?)
}

fn make_file(
    directory: &OwnedFd,
    name: &str,
    bytes: usize,
    files: &mut Files,
) -> std::io::Result<()> {
    let mode = Mode::from_raw_mode(0o644);
    if bytes == 0 {
        return Ok(mknodat(directory, name, FileType::RegularFile, mode, 0)?);
    }
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    let mut file = std::fs::File::from(openat(directory, name, flags, mode)?);
    std::io::Write::write_all(&mut file, &files.content(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::walk::walk;

    #[test]
    fn tree_is_as_planned() {
        let dir = tempfile::tempdir().unwrap();
        fill(dir.path(), Plan { directories: 40, files: 400, seed: 2 }).unwrap();
        let tally = walk(dir.path()).unwrap();
        assert_eq!((tally.objects, tally.files), (440, 400));
        assert!((10..4000).contains(&tally.bytes), "{} bytes", tally.bytes);
    }

    #[test]
    fn what_is_there_already_is_trouble() {
        let dir = tempfile::tempdir().unwrap();
        let plan = Plan { directories: 3, files: 30, seed: 2 };
        fill(dir.path(), plan).unwrap();
        let message = fill(dir.path(), plan).unwrap_err().to_string();
        assert!(message.starts_with("cannot make "), "{message}");
    }
}
