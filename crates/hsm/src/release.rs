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
    /// Move the files to where they can be recalled.
    #[error("{}", concealed_text(.mount_point, *.files))]
    Concealed { mount_point: Vec<u8>, files: u64 },
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

fn concealed_text(mount_point: &[u8], files: u64) -> String {
    let (noun, verb, pronoun) =
        if files == 1 { ("file", "is", "it") } else { ("files", "are", "them") };
    format!(
        "{files} {noun} in lost+found of {} {verb} migrated and would read as zeros; stop \
         'holdfast hsm run', mount the file system, move {pronoun} into .holdfast-hidden/files, \
         start 'holdfast hsm run', and recall {pronoun}",
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
    let failed = |error: io::Error| uncounted(mount_point, error.to_string());
    if sys::mount::mounted(mount_point).map_err(failed)?.is_none() {
        return Err(ReleaseError::NotMounted(mount_point.to_vec()));
    }
    if let Some(below) = sys::mount::mounted_below(mount_point).map_err(failed)? {
        return Err(ReleaseError::Covered { mount_point: mount_point.to_vec(), below });
    }
    let mut migrated =
        || counted(mount_point, &|fail| Ok(tree::count(mount_point, b"/", fail)?.migrated_files));
    let files = certain_count(&mut migrated)?;
    if files > 0 {
        return Err(ReleaseError::Migrated { mount_point: mount_point.to_vec(), files });
    }
    // Nobody moves a file between `lost+found` and the shown files.
    match counted(mount_point, &|fail| tree::count_concealed_stubs(mount_point, fail))? {
        0 => Ok(()),
        files => Err(ReleaseError::Concealed { mount_point: mount_point.to_vec(), files }),
    }
}

fn uncounted(mount_point: &[u8], reason: String) -> ReleaseError {
    ReleaseError::Uncounted { mount_point: mount_point.to_vec(), reason }
}

/// Number of migrated files. A single count misses a file that is moved meanwhile, so that only two
/// counts show that there is none.
fn certain_count(
    count: &mut dyn FnMut() -> Result<u64, ReleaseError>,
) -> Result<u64, ReleaseError> {
    match count()? {
        0 => count(),
        files => Ok(files),
    }
}

/// Note of a path that a count could not look at.
type Fail<'a> = dyn FnMut(&[u8], &io::Error) + 'a;

/// Number of files by `count`, which fails if one of them cannot be looked at.
fn counted(
    mount_point: &[u8],
    count: &dyn Fn(&mut Fail<'_>) -> io::Result<u64>,
) -> Result<u64, ReleaseError> {
    let mut failure = None;
    let mut fail = |_: &[u8], error: &io::Error| failure = Some(error.to_string());
    let files = count(&mut fail);
    let files = files.map_err(|error| uncounted(mount_point, error.to_string()))?;
    match failure {
        Some(reason) => Err(uncounted(mount_point, reason)),
        None => Ok(files),
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
    fn a_file_that_is_moved_during_the_first_count_is_counted() {
        let check = |counts: [u64; 2], expected: u64| {
            let mut counts = counts.into_iter();
            let count = certain_count(&mut || Ok(counts.next().expect("two counts")));
            assert_eq!(count.expect("counted"), expected);
        };
        check([0, 3], 3);
        check([0, 0], 0);
        check([2, 0], 2);
        let failed = certain_count(&mut || Err(uncounted(b"/d", "damaged".to_owned())));
        assert!(failed.is_err());
    }

    #[test]
    fn migrated_files_are_counted_in_the_right_number() {
        assert!(migrated_text(b"/d", 1).starts_with("1 file on /d is migrated"));
        assert!(migrated_text(b"/d", 2).ends_with(
            "2 files on /d are migrated and would read as \
            zeros; recall them first"
        ));
        assert!(concealed_text(b"/d", 1).starts_with("1 file in lost+found of /d is migrated"));
    }
}
