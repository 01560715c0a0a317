//! The end of the management of a file system: it must have no migrated files, and its files are
//! not hidden any more afterwards.

use std::io;
use std::path::Path;

use model::escaped;

use crate::settings::{Settings, SettingsError};
use crate::{hidden, tree};

/// Reason why a file system stays managed.
#[derive(Debug, thiserror::Error)]
pub enum ReleaseError {
    /// Name a file system of the settings.
    #[error("{} is not managed", escaped(.0))]
    NotManaged(Vec<u8>),
    /// Mount the file system.
    #[error("{} is not mounted, and it may have migrated files; mount it first", escaped(.0))]
    NotMounted(Vec<u8>),
    /// Unmount the other file system.
    #[error(
        "{} is mounted inside {}, and may cover migrated files; unmount it first",
        escaped(.below), escaped(.mount_point)
    )]
    Covered { mount_point: Vec<u8>, below: Vec<u8> },
    /// Repair the file system.
    #[error("cannot count the files of {}: {reason}", escaped(.mount_point))]
    Uncounted { mount_point: Vec<u8>, reason: String },
    /// Recall the files.
    #[error("{}", migrated_text(.mount_point, *.files))]
    Migrated { mount_point: Vec<u8>, files: u64 },
    /// The error says what is in the way.
    #[error("the files of {} stay hidden: {error}", escaped(.mount_point))]
    Hidden { mount_point: Vec<u8>, error: io::Error },
    #[error(transparent)]
    Settings(#[from] SettingsError),
}

fn migrated_text(mount_point: &[u8], files: u64) -> String {
    let (noun, verb, pronoun) =
        if files == 1 { ("file", "is", "it") } else { ("files", "are", "them") };
    format!(
        "{files} {noun} on {} {verb} migrated and would read as zeros; recall {pronoun} first",
        escaped(mount_point)
    )
}

/// Ends the management of the file system at `mount_point` while no worker runs.
pub fn release(home: &Path, mount_point: &[u8]) -> Result<(), ReleaseError> {
    check(home, mount_point)?;
    give_back(home, mount_point)
}

/// Fails if the file system is not managed, or has migrated files. The caller makes sure that
/// nobody migrates files meanwhile.
pub(crate) fn check(home: &Path, mount_point: &[u8]) -> Result<(), ReleaseError> {
    if !Settings::load(home)?.has(mount_point) {
        return Err(ReleaseError::NotManaged(mount_point.to_vec()));
    }
    let uncounted = |reason: String| {
        let mount_point = mount_point.to_vec();
        ReleaseError::Uncounted { mount_point, reason }
    };
    let failed = |error: io::Error| uncounted(error.to_string());
    if sys::mount::mounted(mount_point).map_err(failed)?.is_none() {
        return Err(ReleaseError::NotMounted(mount_point.to_vec()));
    }
    if let Some(below) = sys::mount::mounted_below(mount_point).map_err(failed)? {
        return Err(ReleaseError::Covered { mount_point: mount_point.to_vec(), below });
    }
    let mut failure = None;
    let mut fail = |_: &[u8], error: &io::Error| failure = Some(error.to_string());
    let counts = tree::count(mount_point, b"/", &mut fail);
    let counts = counts.map_err(failed)?;
    match (failure, counts.migrated_files) {
        (Some(reason), _) => Err(uncounted(reason)),
        (None, 0) => Ok(()),
        (None, files) => Err(ReleaseError::Migrated { mount_point: mount_point.to_vec(), files }),
    }
}

/// Shows the files to everybody again, and takes the file system out of the settings.
pub(crate) fn give_back(home: &Path, mount_point: &[u8]) -> Result<(), ReleaseError> {
    hidden::give_up(mount_point).map_err(|error| {
        let mount_point = mount_point.to_vec();
        ReleaseError::Hidden { mount_point, error }
    })?;
    Settings::change(home, |settings| {
        settings.filesystems.retain(|filesystem| filesystem.mount_point != mount_point);
    })?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::FilesystemSettings;

    #[test]
    fn a_file_system_that_is_away_or_unknown_is_not_released() {
        let home = tempfile::tempdir().expect("a folder");
        let away = home.path().join("away").as_os_str().as_encoded_bytes().to_vec();
        let error = release(home.path(), &away).expect_err("it is not in the settings");
        assert!(matches!(error, ReleaseError::NotManaged(_)), "{error}");
        let settings = Settings { filesystems: vec![FilesystemSettings::new(away.clone())] };
        settings.store(home.path()).expect("stored");
        let error = release(home.path(), &away).expect_err("nobody knows its files");
        assert!(matches!(error, ReleaseError::NotMounted(_)), "{error}");
        assert!(Settings::load(home.path()).expect("loaded").has(&away));
    }

    #[test]
    fn migrated_files_are_counted_in_the_right_number() {
        assert!(migrated_text(b"/d", 1).starts_with("1 file on /d is migrated"));
        assert!(migrated_text(b"/d", 2).ends_with(
            "2 files on /d are migrated and would read as \
            zeros; recall them first"
        ));
    }
}
