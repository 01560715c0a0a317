//! Upkeep of the roster while the worker runs: settings that change, and file systems that are
//! added, mounted and unmounted.
//!
//! 1. A file system is on the roster before the kernel asks about its files: otherwise their
//!    readers would be refused.
//! 2. A file system that is not in the settings any more stays managed while it is mounted.
//!    [`Tender::release`] ends that, after it has made sure that there are no stubs.
//! 3. One file system that fails does not concern the others.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use model::escaped;
use sys::fanotify::Group;
use sys::lock::Mutex;
use sys::mount::MountWatch;

use crate::control::{FilesystemState, PathText};
use crate::hidden;
use crate::mount::Mount;
#[cfg(test)]
use crate::recall::Recaller;
use crate::release::{self, ReleaseError};
use crate::roster::Roster;
use crate::settings::{FilesystemSettings, Settings, Stamp};
use crate::watch::{self, WatchError};

/// Interval at which the settings are examined for changes.
const LOOK_INTERVAL: Duration = Duration::from_millis(250);
/// Interval at which a file system that fails is tried again.
const RETRY_INTERVAL: Duration = Duration::from_secs(10);

/// Callback that reports a text to the user of the keeper.
pub type Say = Box<dyn Fn(&str) + Send + Sync>;

/// State of each file system, by its mount point.
type States = BTreeMap<Vec<u8>, FilesystemState>;

/// The upkeep of the roster. See the module.
pub(crate) struct Tender {
    home: PathBuf,
    group: Arc<Group>,
    roster: Arc<Roster>,
    say: Say,
    tending: Mutex<Knowledge>,
    /// The states after the last look; `None` before the first.
    states: Mutex<Option<States>>,
}

/// Knowledge of the last look.
#[derive(Default)]
struct Knowledge {
    stamp: Option<Stamp>,
    settings: Settings,
    /// Ids of the mounts that were covered when the files were shown, by the mount point.
    covered: HashMap<Vec<u8>, Vec<u32>>,
}

impl Tender {
    pub(crate) fn new(
        home: &Path,
        group: Arc<Group>,
        roster: Arc<Roster>,
        settings: Settings,
        say: Say,
    ) -> Self {
        let tending = Mutex::new(Knowledge { settings, ..Knowledge::default() });
        Self { home: home.to_owned(), group, roster, say, tending, states: Mutex::default() }
    }

    /// A tender of the file systems of `recaller`, for tests.
    #[cfg(test)]
    pub(crate) fn of(recaller: &Recaller, home: &Path) -> Self {
        let (group, roster) = recaller.group_and_roster();
        Self::new(home, group, roster, Settings::default(), Box::new(|_| {}))
    }

    /// The states after the last look.
    pub(crate) fn states(&self) -> Vec<FilesystemState> {
        self.states.lock().iter().flat_map(BTreeMap::values).cloned().collect()
    }

    /// Keeps the roster up to date as long as the process runs.
    pub(crate) fn serve(&self, watch: &MountWatch) -> ! {
        let mut last = self.tend_at(sys::clock::monotonic());
        loop {
            let has_changed = match watch.wait(LOOK_INTERVAL) {
                Ok(has_changed) => has_changed || self.has_new_settings(),
                Err(error) => {
                    tracing::error!(%error, "cannot watch the table of mounts");
                    sys::clock::sleep(RETRY_INTERVAL);
                    true
                }
            };
            if has_changed || (last.has_failures && last.at.elapsed() >= RETRY_INTERVAL) {
                last = self.tend_at(sys::clock::monotonic());
            }
        }
    }

    fn tend_at(&self, at: Instant) -> Look {
        let has_failures = self.tend().iter().any(|state| state.problem.is_some());
        Look { at, has_failures }
    }

    fn has_new_settings(&self) -> bool {
        self.tending.lock().stamp != Stamp::of(&self.home)
    }

    /// Reads the settings if they have changed, and looks at all file systems. Returns their
    /// states.
    pub(crate) fn tend(&self) -> Vec<FilesystemState> {
        let texts = RefCell::new(Vec::new());
        let say = |text: &str| texts.borrow_mut().push(text.to_owned());
        let mut knowledge = self.tending.lock();
        self.read_settings(&mut knowledge, &say);
        let filesystems = knowledge.settings.filesystems.clone();
        let mut states = States::new();
        for filesystem in &filesystems {
            let tended = self.tend_one(filesystem, &mut knowledge.covered, &say);
            let state = state_of(&filesystem.mount_point, tended.err().as_ref());
            states.insert(filesystem.mount_point.clone(), state);
        }
        for mount in self.roster.mounts().iter() {
            if knowledge.settings.has(mount.mount_point()) {
                continue;
            }
            if mount.root().is_ok() {
                states.insert(mount.mount_point().to_vec(), abandoned(mount.mount_point()));
            } else {
                self.roster.remove(mount.mount_point());
            }
        }
        self.tell(&states, &say);
        drop(knowledge);
        texts.take().iter().for_each(|text| (self.say)(text));
        states.into_values().collect()
    }

    /// Reads the settings if the file has changed. Settings that are not valid change nothing.
    fn read_settings(&self, knowledge: &mut Knowledge, say: &dyn Fn(&str)) {
        let stamp = Stamp::of(&self.home);
        if knowledge.stamp == stamp {
            return;
        }
        knowledge.stamp = stamp;
        match Settings::load(&self.home) {
            Ok(settings) => knowledge.settings = settings,
            Err(error) => {
                // The text of a syntax error has several lines.
                let text = model::chain(&error);
                let lines: Vec<&str> = text.lines().map(str::trim).collect();
                say(&format!("{}; the settings stay as they were", lines.join(" ")));
            }
        }
    }

    /// Puts the settings of one file system into effect. If it was mounted meanwhile, makes the
    /// kernel ask about its files and shows them.
    fn tend_one(
        &self,
        filesystem: &FilesystemSettings,
        covered: &mut HashMap<Vec<u8>, Vec<u32>>,
        say: &dyn Fn(&str),
    ) -> Result<(), WatchError> {
        let mount_point = &filesystem.mount_point;
        let failed = |error| {
            let what = format!("cannot look at {}", escaped(mount_point));
            WatchError::System { what, error }
        };
        let root = watch::root_to_watch(mount_point, &self.home).inspect_err(|_| {
            covered.remove(mount_point);
        })?;
        self.put(Mount::open(filesystem.clone()).map_err(failed)?, filesystem, say);
        let is_shown = hidden::is_shown(mount_point).map_err(failed)?;
        let stack = sys::mount::stack(mount_point).map_err(failed)?;
        let was_covered = |top: u32| covered.get(mount_point).is_some_and(|ids| ids.contains(&top));
        if filesystem.hidden && (is_shown || stack.top.is_some_and(was_covered)) {
            // Somebody who unmounts the shown files uncovers the mount below them. If they were
            // shown again, the file system could never be unmounted.
            self.group.mark_filesystem(&root).map_err(failed)?;
        } else {
            watch::watch(filesystem, root, &self.group, say)?;
        }
        if hidden::is_shown(mount_point).map_err(failed)? {
            let stack = sys::mount::stack(mount_point).map_err(failed)?;
            covered.insert(mount_point.clone(), stack.covered);
        }
        Ok(())
    }

    /// Puts a file system on the roster, or gives it the new settings if it is there.
    fn put(&self, mount: Mount, settings: &FilesystemSettings, say: &dyn Fn(&str)) {
        match self.roster.at(mount.mount_point()) {
            Some(known) if known.is_same_filesystem(&mount) => {
                if known.set_settings(settings) {
                    let mount_point = escaped(mount.mount_point());
                    say(&format!("{mount_point} has new settings"));
                    self.roster.note_change();
                }
            }
            _ => self.roster.put(Arc::new(mount), |other| other.root().is_ok()),
        }
    }

    /// Tells the user which file systems have another state than at the last look. The keeper has
    /// told the states at the first look.
    fn tell(&self, states: &States, say: &dyn Fn(&str)) {
        let before = self.states.lock().replace(states.clone());
        let Some(before) = before else { return };
        for (mount_point, state) in states {
            if before.get(mount_point) != Some(state) {
                say(&text_of(state));
            }
        }
    }

    /// Ends the management of the file system at `mount_point`. Nothing in it becomes a stub from
    /// the check for stubs on.
    pub(crate) fn release(&self, mount_point: &[u8]) -> Result<(), ReleaseError> {
        let mount = self.roster.at(mount_point);
        let not_managed = |_| ReleaseError::NotManaged(mount_point.to_vec());
        let alone = mount.as_ref().map(|mount| mount.lock_migration()).transpose();
        let alone = alone.map_err(not_managed)?;
        release::check(&self.home, mount_point)?;
        let mut knowledge = self.tending.lock();
        release::give_back(&self.home, mount_point)?;
        knowledge.settings.filesystems.retain(|known| known.mount_point != mount_point);
        if let (Some(mount), Some(alone)) = (&mount, &alone) {
            mount.retire(alone);
            self.roster.remove(mount_point);
            // A file system without stubs needs no questions. If they stay, they are answered.
            let forgotten = mount.root().and_then(|root| self.group.forget_filesystem(&*root));
            if let Err(error) = forgotten {
                let mount_point = escaped(mount_point);
                tracing::warn!(mount_point, %error, "the kernel still asks about the files");
            }
        }
        self.states
            .lock()
            .iter_mut()
            .for_each(|states| drop(states.remove(mount_point)));
        drop(knowledge);
        (self.say)(&format!("{} is not managed any more", escaped(mount_point)));
        Ok(())
    }
}

/// Time and result of a look.
struct Look {
    at: Instant,
    has_failures: bool,
}

fn state_of(mount_point: &[u8], error: Option<&WatchError>) -> FilesystemState {
    let (state, problem) = match error {
        None => ("managed", None),
        Some(WatchError::NotMounted { .. }) => ("not mounted", None),
        Some(error) => ("failed", Some(error.text())),
    };
    FilesystemState {
        mount_point: PathText(mount_point.to_vec()),
        state: state.to_owned(),
        problem,
    }
}

/// The state of a file system that is missing in the settings.
fn abandoned(mount_point: &[u8]) -> FilesystemState {
    let problem = "it is missing in hsm.toml, and stays managed while it is mounted: 'holdfast \
                   hsm add' puts it back, and 'holdfast hsm remove' then makes sure that it has \
                   no stubs";
    let mount_point = PathText(mount_point.to_vec());
    FilesystemState { mount_point, state: "failed".to_owned(), problem: Some(problem.to_owned()) }
}

fn text_of(state: &FilesystemState) -> String {
    let mount_point = escaped(&state.mount_point.0);
    match (&state.problem, &state.state[..]) {
        (Some(problem), _) => format!("{mount_point}: {problem}"),
        (None, "managed") => format!("{mount_point} is managed: its files can be used"),
        (None, state) => format!("{mount_point} is {state}; its stubs cannot be used"),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStrExt as _;

    use sys::fanotify::QuestionKinds;

    use super::*;

    /// A tender of settings in a folder of its own, and the texts that the user was told.
    struct Scene {
        home: tempfile::TempDir,
        tender: Tender,
        said: Arc<Mutex<Vec<String>>>,
    }

    impl Scene {
        fn new() -> Self {
            let home = tempfile::tempdir().expect("a folder");
            let file = tempfile::tempfile().expect("a file").into();
            let group = Arc::new(Group::inherited(file, QuestionKinds::Ranges));
            let said = Arc::new(Mutex::new(Vec::new()));
            let told = Arc::clone(&said);
            let say = move |text: &str| told.lock().push(text.to_owned());
            let roster = Arc::new(Roster::new(Vec::new()));
            let settings = Settings::default();
            let tender = Tender::new(home.path(), group, roster, settings, Box::new(say));
            Self { home, tender, said }
        }

        fn store(&self, names: &[&str]) {
            let settings = |name: &&str| {
                let path = self.home.path().join(name);
                FilesystemSettings::new(path.as_os_str().as_bytes().to_vec())
            };
            let filesystems = names.iter().map(settings).collect();
            Settings { filesystems }.store(self.home.path()).expect("stored");
        }

        /// The states of the last look, and the texts since the look before.
        fn look(&self) -> (Vec<String>, Vec<String>) {
            let states = self.tender.tend().into_iter().map(|state| state.state).collect();
            (states, std::mem::take(&mut *self.said.lock()))
        }
    }

    #[test]
    fn new_settings_are_read_and_told_and_bad_ones_change_nothing() {
        let scene = Scene::new();
        scene.store(&["a"]);
        assert!(scene.tender.has_new_settings());
        let (states, said) = scene.look();
        assert_eq!((states, said.len()), (vec!["not mounted".to_owned()], 0));
        assert!(!scene.tender.has_new_settings());
        scene.store(&["a", "b"]);
        assert!(scene.tender.has_new_settings());
        let (states, said) = scene.look();
        assert_eq!((states.len(), said.len()), (2, 1), "{said:?}");
        assert!(said[0].contains("/b is not mounted"), "{said:?}");
        std::fs::write(scene.home.path().join("hsm.toml"), "nonsense").expect("written");
        let (states, said) = scene.look();
        assert_eq!((states.len(), said.len()), (2, 1), "{said:?}");
        assert!(said[0].ends_with("the settings stay as they were"), "{said:?}");
        assert_eq!(scene.look(), (vec!["not mounted".to_owned(); 2], Vec::new()));
    }

    #[test]
    fn a_file_system_that_is_missing_in_the_settings_stays_while_it_is_there() {
        let scene = Scene::new();
        let folder = tempfile::tempdir().expect("a folder");
        let mount_point = folder.path().as_os_str().as_bytes().to_vec();
        let mount = Mount::open(FilesystemSettings::new(mount_point.clone())).expect("opened");
        scene.tender.roster.put(Arc::new(mount), |_| true);
        let states = scene.tender.tend();
        assert_eq!(states[0].state, "failed");
        assert!(states[0].problem.as_ref().is_some_and(|text| text.contains("hsm.toml")));
        assert!(scene.tender.roster.at(&mount_point).is_some());
        drop(folder);
        assert_eq!(scene.tender.tend(), []);
        assert!(scene.tender.roster.at(&mount_point).is_none());
    }
}
