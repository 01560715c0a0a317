//! The process of the keeper: its start, its takeover from a dead keeper, and its end, during which
//! no program may read zeros.

use std::cell::RefCell;
use std::io;
use std::os::fd::AsFd as _;
use std::path::Path;
use std::process::Child;
use std::sync::atomic::AtomicU32;

use model::escaped;
use sys::fanotify::{Group, QuestionKinds};

use crate::gate::Gate;
use crate::hidden;
use crate::holder::{Holder, HolderEnds};
use crate::keeper::{KeeperContext, WorkerEnds, keep};
use crate::keeper_lock::KeeperLock;
use crate::questions::{OpenQuestions, refuse_group, refuse_unread};
use crate::settings::Settings;
use crate::watch::{self, WatchError};

/// Launcher of the other processes. The command line, which knows their arguments, implements it.
pub trait Launcher {
    /// Starts a worker that inherits the descriptors of `ends` and the pipe of `holder`.
    fn start_worker(&self, ends: WorkerEnds<'_>, holder: Option<&Holder>) -> io::Result<Child>;

    /// Starts a holder that inherits the descriptors of `ends`.
    fn start_holder(&self, ends: HolderEnds<'_>) -> io::Result<Child>;
}

/// A service manager that holds the kernel's group of questions too. While it does, programs that
/// use files wait. So no program reads zeros if keeper and worker are killed together.
pub trait Supervisor {
    /// The group that the supervisor has held for a keeper that has ended.
    fn held_group(&self) -> io::Result<Option<Group>>;

    /// Gives the supervisor `group`, which it holds from now on.
    fn hold(&self, group: &Group);

    /// Tells the supervisor that the file systems at these mount points can be used.
    fn ready(&self, watched: &[Vec<u8>]);

    /// Tells the supervisor that it need not hold the group any more.
    fn forget(&self);
}

/// Reason why the keeper does not start.
#[derive(Debug, thiserror::Error)]
pub enum KeeperError {
    /// Add a file system.
    #[error("no file system is managed; 'holdfast hsm add' adds one")]
    NothingManaged,
    /// Another keeper works already: leave it as it is.
    #[error("space management is already running")]
    RunsAlready,
    /// No file system can be watched. This is the reason for one of them.
    #[error(transparent)]
    Watch(#[from] WatchError),
    /// Check the system.
    #[error("{what}")]
    System {
        what: String,
        #[source]
        error: io::Error,
    },
}

fn failed(what: impl Into<String>) -> impl FnOnce(io::Error) -> KeeperError {
    let what = what.into();
    move |error| KeeperError::System { what, error }
}

/// The keeper of a node, with its surroundings.
pub struct Station<'a> {
    /// The node's folder.
    pub home: &'a Path,
    pub launcher: &'a dyn Launcher,
    pub supervisor: Option<&'a dyn Supervisor>,
    /// Number of times that this process was told to end.
    pub told_to_end: &'a AtomicU32,
    /// Reports a text to the user.
    pub say: &'a dyn Fn(&str),
    /// Reports that the file systems at these mount points can be used, and that requests are
    /// carried out.
    pub ready: &'a dyn Fn(&[Vec<u8>]),
}

impl Station<'_> {
    /// Keeps the questions about all managed file systems, until it is time to end. The kernel asks
    /// as many kinds of questions as it can, at most `asks`.
    pub fn run(&self, settings: &Settings, asks: QuestionKinds) -> Result<(), KeeperError> {
        if settings.filesystems.is_empty() {
            return Err(KeeperError::NothingManaged);
        }
        let lock = KeeperLock::lock_or_replace(self.home)
            .map_err(failed(format!("cannot take the lock in {}", self.home.display())))?
            .ok_or(KeeperError::RunsAlready)?;
        let opened = Group::open(asks);
        let opened = opened.map_err(failed("cannot make the kernel ask about files"))?;
        let held = self.supervisor.map(Supervisor::held_group).transpose();
        // Programs are refused if a dead keeper has read their question. Questions that no keeper
        // has read are answered.
        let (group, adopted) = match held
            .map_err(failed("cannot take over the questions from the service manager"))?
            .flatten()
        {
            Some(held) => (held, Some(OpenQuestions::default())),
            None => (opened, None),
        };
        let watched = self.watch(settings, &group).inspect_err(|_| {
            // Files that are shown already are hidden again, before the group closes and the kernel
            // lets all programs continue.
            if KeeperLock::last_keeper(self.home).is_none() {
                self.conceal();
            }
        })?;
        if let Some(supervisor) = self.supervisor {
            supervisor.hold(&group);
        }
        lock.take_over(self.home)
            .map_err(failed("cannot end the keeper that ran before"))?;
        if group.asks() == QuestionKinds::Opening {
            (self.say)(
                "this kernel asks only when a file is opened (before 6.14): every file is recalled \
                 as a whole, and truncate(2) by path loses the rest of the last page of a stub",
            );
        }
        let holder = self.start_holder(&group);
        let ready = || {
            if let Some(supervisor) = self.supervisor {
                supervisor.ready(&watched);
            }
            (self.ready)(&watched);
        };
        self.stay(group, Some(lock), holder, adopted, &ready);
        Ok(())
    }

    /// Takes the place of a keeper that has died. This process continues after any failure, as far
    /// as it can: if it ended, programs would read stubs as zeros.
    pub fn take_over(&self, group: Group, holder: Option<Holder>, adopted: OpenQuestions) {
        let lock = match KeeperLock::lock_after_death(self.home) {
            Ok(Ok(lock)) => Some(lock),
            Ok(Err(other)) => {
                (self.say)("another process keeps the questions; this process ends");
                // The other keeper has the same group if it has taken over as well, or has the
                // group from the supervisor. Two processes must not read the questions of one
                // group. A keeper that was started anew has a group of its own.
                if other.has_taken_over() || self.supervisor.is_some() {
                    adopted.refuse(&group);
                } else {
                    refuse_group(&group);
                }
                holder.into_iter().for_each(Holder::dismiss);
                return;
            }
            Err(error) => {
                (self.say)(&format!("cannot take the lock in {}: {error}", self.home.display()));
                None
            }
        };
        if let Some(Err(error)) = lock.as_ref().map(KeeperLock::sign) {
            (self.say)(&format!(
                "cannot write into the lock that this process is the keeper: {error}"
            ));
        }
        let holder = holder.or_else(|| self.start_holder(&group));
        // A command that waited for the dead keeper to be ready has its answer, or gets it from the
        // keeper's successor.
        self.stay(group, lock, holder, Some(adopted), &|| {});
    }

    /// Makes the kernel ask about the managed file systems, and shows their files. Returns the
    /// mount points of those that are watched. A file system that fails is reported, and does not
    /// keep the others from being watched; the worker tries again. Fails if all fail.
    fn watch(&self, settings: &Settings, group: &Group) -> Result<Vec<Vec<u8>>, KeeperError> {
        let mut failures = Vec::new();
        let mut watched = Vec::new();
        for filesystem in &settings.filesystems {
            let done = watch::root_to_watch(&filesystem.mount_point, self.home)
                .and_then(|root| watch::watch(filesystem, root, group, self.say));
            match done {
                Ok(()) => watched.push(filesystem.mount_point.clone()),
                Err(error) => failures.push(error),
            }
        }
        if watched.is_empty()
            && let Some(error) = failures.pop()
        {
            failures.iter().for_each(|error| self.say_left_out(error));
            return Err(error.into());
        }
        failures.iter().for_each(|error| self.say_left_out(error));
        Ok(watched)
    }

    fn say_left_out(&self, error: &WatchError) {
        (self.say)(&format!("{}; its stubs cannot be used", error.text()));
    }

    /// Hides the files about which the kernel will not ask any more.
    fn conceal(&self) {
        let settings = Settings::load(self.home).unwrap_or_default();
        for filesystem in settings.filesystems.iter().filter(|filesystem| filesystem.hidden) {
            if let Err(error) = hidden::conceal(&filesystem.mount_point) {
                let mount_point = escaped(&filesystem.mount_point);
                (self.say)(&format!("cannot hide the files of {mount_point}: {error}"));
            }
        }
    }

    /// Starts a holder, unless a supervisor holds the group.
    fn start_holder(&self, group: &Group) -> Option<Holder> {
        if self.supervisor.is_some() {
            return None;
        }
        let started = Holder::start(group, |ends| self.launcher.start_holder(ends));
        let warn = |error: &io::Error| {
            (self.say)(&format!(
                "cannot start the holder: {error}; if keeper and worker die together, stubs read \
                 as zeros"
            ));
        };
        started.inspect_err(warn).ok()
    }

    /// Keeps the questions until it is time to end. Calls `ready` when the first worker carries out
    /// requests.
    fn stay(
        &self,
        group: Group,
        lock: Option<KeeperLock>,
        holder: Option<Holder>,
        adopted: Option<OpenQuestions>,
        ready: &dyn Fn(),
    ) {
        let asks = group.asks();
        // The group stays open to the end: no program may read zeros before the files are hidden
        // again.
        let held = group.as_fd().try_clone_to_owned().map(|held| Group::inherited(held, asks));
        let holder = RefCell::new(holder);
        let tend_holder = || {
            let is_gone = holder.borrow_mut().as_mut().is_some_and(Holder::is_gone);
            if is_gone && let Ok(held) = &held {
                *holder.borrow_mut() = self.start_holder(held);
            }
        };
        let start_worker =
            |ends: WorkerEnds<'_>| self.launcher.start_worker(ends, holder.borrow().as_ref());
        let warn = |error: &io::Error| {
            (self.say)(&format!("cannot open the gate to the worker: {error}"));
        };
        let context = KeeperContext {
            group,
            gate: Gate::open(self.home).inspect_err(warn).ok(),
            start_worker: &start_worker,
            told_to_end: self.told_to_end,
            tend_holder: &tend_holder,
            step_aside: &|| lock.iter().for_each(KeeperLock::unlock),
            say: self.say,
            ready,
        };
        keep(context, adopted);
        drop(lock);
        self.leave(held.ok().as_ref());
        holder.take().into_iter().for_each(Holder::dismiss);
    }

    /// Hides the files and answers the last questions, unless another keeper is at work.
    fn leave(&self, group: Option<&Group>) {
        let lock = KeeperLock::try_lock(self.home);
        let is_last = matches!(lock, Ok(Some(_)));
        if is_last {
            self.conceal();
            if let Some(supervisor) = self.supervisor {
                supervisor.forget();
            }
        }
        // A keeper that a supervisor has started meanwhile has the same group.
        if let Some(group) = group
            && (is_last || self.supervisor.is_none())
        {
            refuse_unread(group);
        }
    }
}

#[cfg(test)]
mod tests {
    use sys::lock::Mutex;

    use super::*;
    use crate::FilesystemSettings;

    /// Launcher that starts nothing.
    struct NoLauncher;

    impl Launcher for NoLauncher {
        fn start_worker(&self, _: WorkerEnds<'_>, _: Option<&Holder>) -> io::Result<Child> {
            Err(io::ErrorKind::Unsupported.into())
        }

        fn start_holder(&self, _: HolderEnds<'_>) -> io::Result<Child> {
            Err(io::ErrorKind::Unsupported.into())
        }
    }

    /// Runs `test` with a station in a folder of its own. Returns the messages to the user.
    fn at_station(told_to_end: u32, test: impl FnOnce(&Station<'_>)) -> Vec<String> {
        let home = tempfile::tempdir().expect("a folder");
        let said = Mutex::new(Vec::new());
        let station = Station {
            home: home.path(),
            launcher: &NoLauncher,
            supervisor: None,
            told_to_end: &AtomicU32::new(told_to_end),
            say: &|text| said.lock().push(text.to_owned()),
            ready: &|_| {},
        };
        test(&station);
        said.into_inner()
    }

    fn group() -> Group {
        Group::inherited(tempfile::tempfile().expect("a file").into(), QuestionKinds::Ranges)
    }

    #[test]
    fn a_keeper_of_nothing_does_not_start() {
        at_station(0, |station| {
            let error =
                station.run(&Settings::default(), QuestionKinds::Ranges).expect_err("refused");
            assert!(matches!(error, KeeperError::NothingManaged));
        });
    }

    #[test]
    fn a_second_keeper_does_not_start() {
        at_station(0, |station| {
            let _lock = KeeperLock::try_lock(station.home).expect("opened").expect("free");
            let filesystems = vec![FilesystemSettings::new(b"/".to_vec())];
            let error = station
                .run(&Settings { filesystems }, QuestionKinds::Ranges)
                .expect_err("refused");
            assert!(matches!(error, KeeperError::RunsAlready));
        });
    }

    #[test]
    fn file_systems_that_all_fail_are_an_error() {
        let said = at_station(0, |station| {
            let folder = station.home.as_os_str().as_encoded_bytes();
            let filesystems = ["a", "b"]
                .map(|name| [folder, name.as_bytes()].join(&b'/'))
                .map(FilesystemSettings::new);
            let settings = Settings { filesystems: filesystems.into() };
            let error = station.watch(&settings, &group()).expect_err("refused");
            let KeeperError::Watch(WatchError::NotMounted { mount_point }) = error else {
                panic!("{error}");
            };
            assert!(mount_point.ends_with(b"/b"));
        });
        assert!(said[0].contains("/a is not mounted"), "{said:?}");
        assert_eq!(said.len(), 1);
    }

    #[test]
    fn a_keeper_that_was_told_to_end_twice_takes_over_and_leaves() {
        let said = at_station(2, |station| {
            station.take_over(group(), None, OpenQuestions::default());
            assert_eq!(KeeperLock::last_keeper(station.home), None);
            assert!(
                KeeperLock::try_lock(station.home).expect("opened").is_some(),
                "the lock was not released"
            );
        });
        assert!(said[0].starts_with("cannot start the holder"), "{said:?}");
    }
}
