//! The settings of the managed file systems: `hsm.toml` in the node's folder.

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use policy::sizes;
use serde::{Deserialize, Serialize};

const FILE: &str = "hsm.toml";
/// The file that is locked while the settings are changed.
const LOCK: &str = "hsm.toml.lock";

/// Mark by which a change of the settings is noticed: inode, size and times of their file. An
/// absent file has none.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Stamp {
    inode: u64,
    bytes: u64,
    /// Seconds and nanoseconds of the last change of content, and of the last change of status.
    times: [i64; 4],
}

impl Stamp {
    pub(crate) fn of(home: &Path) -> Option<Self> {
        let found = std::fs::metadata(home.join(FILE)).ok()?;
        let times = [found.mtime(), found.mtime_nsec(), found.ctime(), found.ctime_nsec()];
        Some(Self { inode: found.ino(), bytes: found.len(), times })
    }
}

/// The managed file systems of a node.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    #[serde(default, rename = "filesystem")]
    pub filesystems: Vec<FilesystemSettings>,
}

/// The settings of one file system.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FilesystemSettings {
    /// The mount point. Bytes that are not UTF-8, and `%`, are written as `%` and two digits.
    #[serde(with = "written")]
    pub mount_point: Vec<u8>,
    /// Per cent in use above which files migrate by themselves (HTHRESHOLD); 100 stands for never.
    pub high_percent: u8,
    /// Per cent in use down to which files migrate (LTHRESHOLD).
    pub low_percent: u8,
    /// Per cent of the file system's space that is kept premigrated (PMPERCENTAGE), so that space
    /// can be freed at once.
    pub premigrated_percent: u8,
    /// Size of the smallest file that migrates (MINMIGFILESIZE).
    #[serde(deserialize_with = "sizes::bytes")]
    pub file_bytes_min: u64,
    /// Number of days without use or change before a file migrates by itself (AUTOMIGNONUSE).
    pub unused_days_min: u32,
    /// True if a file migrates only if its current state is backed up (MIGREQUIRESBKUP).
    pub backup_first: bool,
    /// Size up to which a file is recalled as a whole when it is opened. Larger files are recalled
    /// range by range as they are read; programs that look for holes regard such a file as empty.
    #[serde(deserialize_with = "sizes::bytes")]
    pub whole_bytes_max: u64,
    /// Maximum number of recalls of one user that wait; further ones fail.
    pub user_recalls_max: u32,
    /// Maximum number of recalls of one program that wait; further ones fail.
    pub program_recalls_max: u32,
    /// True if only requests recall a file, and reading it does not (HSMOPTIMIZEDRECALLONLY).
    pub requests_only: bool,
    /// True if the files are shown only while a keeper runs.
    #[serde(default)]
    pub hidden: bool,
    /// Time that a program waits for a server that gives no sign of life, in seconds.
    #[serde(default = "wait_secs")]
    pub wait_secs: u32,
}

/// The time that programs wait unless the settings say otherwise. A fleet of servers has taken over
/// from a dead server by then.
fn wait_secs() -> u32 {
    60
}

impl FilesystemSettings {
    /// The defaults for the file system at `mount_point`.
    pub fn new(mount_point: Vec<u8>) -> Self {
        Self {
            mount_point,
            high_percent: 90,
            low_percent: 80,
            premigrated_percent: 10,
            file_bytes_min: 64 << 10,
            unused_days_min: 30,
            backup_first: false,
            whole_bytes_max: i64::MAX.unsigned_abs(),
            user_recalls_max: 10_000,
            program_recalls_max: 10_000,
            requests_only: false,
            hidden: true,
            wait_secs: wait_secs(),
        }
    }

    fn problem(&self) -> Option<&'static str> {
        let percents = [self.high_percent, self.low_percent, self.premigrated_percent];
        if percents.iter().any(|&percent| percent > 100) {
            Some("a threshold must be at most 100 per cent")
        } else if self.low_percent > self.high_percent {
            Some("the low threshold must not be above the high threshold")
        } else if self.premigrated_percent > self.low_percent {
            Some("the premigrated share must not be above the low threshold")
        } else if self.wait_secs == 0 {
            Some("a program must wait for at least 1 second")
        } else {
            None
        }
    }
}

/// Reason why `hsm.toml` cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    #[error("cannot read or write {path}")]
    File {
        path: String,
        #[source]
        error: std::io::Error,
    },
    #[error("{path} is not valid: {fault}")]
    Invalid { path: String, fault: String },
    #[error("{mount_point}: {problem}")]
    Problem { mount_point: String, problem: &'static str },
}

impl Settings {
    /// Reads the settings in the node's folder. A missing file means that nothing is managed.
    pub fn load(home: &Path) -> Result<Self, SettingsError> {
        let path = home.join(FILE);
        let shown = || path.display().to_string();
        let text = match std::fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Ok(Self::default());
            }
            Err(error) => return Err(SettingsError::File { path: shown(), error }),
        };
        let settings: Self = toml::from_str(&text).map_err(|error| {
            let fault = model::located(&text, error.span(), error.message());
            SettingsError::Invalid { path: shown(), fault }
        })?;
        settings.check()?;
        Ok(settings)
    }

    /// True if the file system at `mount_point` is managed.
    pub fn has(&self, mount_point: &[u8]) -> bool {
        self.filesystems.iter().any(|known| known.mount_point == mount_point)
    }

    /// Reads the settings, applies `change` and stores them. Nobody else who uses this function
    /// changes them meanwhile. Returns the result of `change`.
    pub fn change<T>(home: &Path, change: impl FnOnce(&mut Self) -> T) -> Result<T, SettingsError> {
        let path = home.join(LOCK);
        let failed = |error| SettingsError::File { path: path.display().to_string(), error };
        let mut options = std::fs::File::options();
        let lock = options.write(true).create(true).truncate(false).open(&path).map_err(failed)?;
        // The lock ends when the file is closed.
        lock.lock().map_err(failed)?;
        let mut settings = Self::load(home)?;
        let result = change(&mut settings);
        settings.store(home)?;
        Ok(result)
    }

    pub fn store(&self, home: &Path) -> Result<(), SettingsError> {
        self.check()?;
        let path = home.join(FILE);
        let text = toml::to_string(self).expect("settings are a table");
        sys::durable::write(&path, text.as_bytes(), 0o644)
            .map_err(|error| SettingsError::File { path: path.display().to_string(), error })
    }

    fn check(&self) -> Result<(), SettingsError> {
        for filesystem in &self.filesystems {
            if let Some(problem) = filesystem.problem() {
                let mount_point = model::escaped(&filesystem.mount_point);
                return Err(SettingsError::Problem { mount_point, problem });
            }
        }
        Ok(())
    }
}

/// Bytes as text that people can read, and that can be decoded again.
pub(crate) mod written {
    use model::{percent_decoded, percent_encoded};
    use serde::de::Error as _;
    use serde::{Deserialize as _, Deserializer, Serializer};

    pub(crate) fn serialize<S: Serializer>(bytes: &[u8], to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&percent_encoded(bytes))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<u8>, D::Error> {
        let text = String::deserialize(from)?;
        percent_decoded(&text).ok_or_else(|| D::Error::custom("a % without two digits after it"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_mount_point_survives(bytes in prop::collection::vec(any::<u8>(), 0..40)) {
            let filesystem = FilesystemSettings::new(bytes);
            let text = toml::to_string(&filesystem).expect("it has a text");
            let read: FilesystemSettings = toml::from_str(&text).expect("it is read");
            prop_assert_eq!(read, filesystem);
        }
    }

    #[test]
    fn settings_survive() {
        let folder = tempfile::tempdir().expect("a folder");
        assert_eq!(Settings::load(folder.path()).expect("none"), Settings::default());
        let filesystem = FilesystemSettings::new(b"/data/\xff%".to_vec());
        let settings = Settings { filesystems: vec![filesystem] };
        settings.store(folder.path()).expect("stored");
        assert_eq!(Settings::load(folder.path()).expect("loaded"), settings);
    }

    #[test]
    fn sizes_are_bytes_or_have_a_unit() {
        let made = FilesystemSettings::new(b"/data".to_vec());
        let (smallest, whole) = (made.file_bytes_min, made.whole_bytes_max);
        let text = toml::to_string(&made).expect("it has a text");
        let text = text
            .replace(&format!("file_bytes_min = {smallest}"), "file_bytes_min = \"10M\"")
            .replace(&format!("whole_bytes_max = {whole}"), "whole_bytes_max = \"1.5GiB\"");
        let read: FilesystemSettings = toml::from_str(&text).expect("it is read");
        let wanted =
            FilesystemSettings { file_bytes_min: 10 << 20, whole_bytes_max: 3 << 29, ..made };
        assert_eq!(read, wanted);
    }

    #[test]
    fn changes_at_once_are_all_kept() {
        let folder = tempfile::tempdir().expect("a folder");
        let before = Stamp::of(folder.path());
        std::thread::scope(|threads| {
            for number in 0..8 {
                let home = folder.path();
                threads.spawn(move || {
                    let mount_point = format!("/data-{number}").into_bytes();
                    let add = |settings: &mut Settings| {
                        settings.filesystems.push(FilesystemSettings::new(mount_point));
                    };
                    Settings::change(home, add).expect("changed");
                });
            }
        });
        assert_ne!(Stamp::of(folder.path()), before);
        assert_eq!(Settings::load(folder.path()).expect("loaded").filesystems.len(), 8);
    }

    #[test]
    fn thresholds_must_make_sense() {
        #[track_caller]
        fn check(high: u8, low: u8, premigrated: u8, is_fine: bool) {
            let mut filesystem = FilesystemSettings::new(b"/data".to_vec());
            filesystem.high_percent = high;
            filesystem.low_percent = low;
            filesystem.premigrated_percent = premigrated;
            assert_eq!(filesystem.problem().is_none(), is_fine);
            let folder = tempfile::tempdir().expect("a folder");
            let settings = Settings { filesystems: vec![filesystem] };
            let stored = settings.store(folder.path());
            assert_eq!(stored.is_ok(), is_fine);
            assert_eq!(folder.path().join(FILE).try_exists().expect("looked"), is_fine);
        }
        check(90, 80, 10, true);
        check(100, 100, 100, true);
        check(90, 90, 0, true);
        check(90, 95, 10, false);
        check(101, 80, 10, false);
        check(90, 80, 81, false);
    }

    #[test]
    fn settings_of_earlier_versions_get_the_usual_wait() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut filesystem = FilesystemSettings::new(b"/data".to_vec());
        filesystem.wait_secs = 61;
        let settings = Settings { filesystems: vec![filesystem.clone()] };
        let text = toml::to_string(&settings).expect("settings are a table");
        std::fs::write(folder.path().join(FILE), text.replace("wait_secs = 61\n", ""))
            .expect("written");
        filesystem.wait_secs = 60;
        let loaded = Settings::load(folder.path()).expect("loaded");
        assert_eq!(
            loaded.filesystems,
            [FilesystemSettings { wait_secs: 60, ..filesystem.clone() }]
        );
        filesystem.wait_secs = 0;
        let never = Settings { filesystems: vec![filesystem] };
        assert!(never.store(folder.path()).is_err());
    }

    #[test]
    fn a_file_that_is_not_valid_is_refused_by_name() {
        #[track_caller]
        fn check(text: &str, expected: &str) {
            let folder = tempfile::tempdir().expect("a folder");
            std::fs::write(folder.path().join(FILE), text).expect("written");
            let error = Settings::load(folder.path()).expect_err("refused").to_string();
            assert!(error.contains(expected), "{error}");
        }
        check("[[filesystem]]\nmount_point = \"/data\"\n", "missing field");
        check("filesystems = []\n", "unknown field");
        check("nonsense", "hsm.toml is not valid");
    }
}
