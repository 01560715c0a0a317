//! The meaning of LIB on the command line: a library of `tape.toml`, a folder, or addresses.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use ::tape::settings::{Settings, SettingsError};
use ::tape::site::{Site, SiteError};

use crate::context::Context;
use crate::error::CommandError;

/// Reads the libraries that have names.
pub(super) fn settings(home: &Path) -> Result<Settings, CommandError> {
    Settings::load(home).map_err(|error| of_settings(&error))
}

pub(super) fn of_settings(error: &SettingsError) -> CommandError {
    CommandError::chain(error)
}

/// Returns the site that `word` means: addresses, a folder, or otherwise the library with this
/// name.
pub(super) fn of_word(word: &OsStr, context: &Context) -> Result<Site, CommandError> {
    if let Some(site) = of_path(word)? {
        return Ok(site);
    }
    let settings = settings(&context.home()?)?;
    let site = word.to_str().and_then(|name| settings.site(name)).cloned();
    site.ok_or_else(|| {
        CommandError::new(format!("there is no library {}", word.display()))
            .with_hint("'holdfast tape list' shows the libraries; the path of a folder needs a '/'")
    })
}

/// Returns the site that a word with a `/` in it means, and `None` for a word without a `/`.
fn of_path(word: &OsStr) -> Result<Option<Site>, CommandError> {
    let bytes = word.as_bytes();
    if !bytes.contains(&b'/') {
        return Ok(None);
    }
    let is_folder = || std::fs::metadata(word).is_ok_and(|found| found.is_dir());
    if bytes.starts_with(b"iscsi://") || (bytes.starts_with(b"/dev/") && !is_folder()) {
        let site = Site::of_addresses(&word.to_string_lossy());
        return site.map(Some).map_err(|error| of_addresses(&error));
    }
    Ok(Some(Site::Folder { path: absolute(word)?, capacity_bytes: None }))
}

fn of_addresses(error: &SiteError) -> CommandError {
    let hint = match error {
        SiteError::NoDrive(text) => {
            Some(format!("to read a drive alone, use 'holdfast tape read --drive {text}'"))
        }
        SiteError::Address { .. } => None,
    };
    CommandError { hint, ..CommandError::chain(error) }
}

pub(super) fn absolute(folder: &OsStr) -> Result<PathBuf, CommandError> {
    std::path::absolute(folder).map_err(|error| {
        CommandError::new(format!("cannot use the folder {}: {error}", folder.display()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(word: &str, expected: Option<&str>) {
        let shown = match of_path(word.as_ref()).expect("valid") {
            None => None,
            Some(Site::Folder { path, .. }) => Some(path.display().to_string()),
            Some(Site::Devices { changer, drives }) => Some(format!("{changer} {}", drives.len())),
        };
        assert_eq!(shown.as_deref(), expected, "{word}");
    }

    #[test]
    fn a_word_is_a_name_a_folder_or_addresses() {
        check("vault", None);
        check("/srv/tapes", Some("/srv/tapes"));
        check("/srv/a,b", Some("/srv/a,b"));
        check("/dev/shm", Some("/dev/shm"));
        check("/dev/sg5,/dev/sg3,/dev/sg4", Some("/dev/sg5 2"));
        check("iscsi://h/t/4,iscsi://h/t/1", Some("iscsi://h:3260/t/4 1"));
        for bad in ["/dev/sg5", "iscsi://h/t,/dev/sg1"] {
            assert!(of_path(bad.as_ref()).is_err(), "{bad}");
        }
    }
}
