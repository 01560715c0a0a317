//! Where a library is: a changer and its drives, or a folder of files that stand for tapes.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;

use ::tape::transport::Address;

use super::settings::Settings;
use crate::commands::Context;
use crate::error::CommandError;

#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Site {
    Folder {
        path: PathBuf,
        /// Of each volume; `None` for as much as the file system has room for.
        capacity_bytes: Option<u64>,
    },
    Devices {
        changer: Address,
        drives: Vec<Address>,
    },
}

impl Site {
    /// What `word` means: addresses, a folder, or else the name of a library.
    pub(super) fn of(word: &OsStr, context: &Context) -> Result<Self, CommandError> {
        if let Some(site) = Self::of_path(word)? {
            return Ok(site);
        }
        let sites = Settings::load(&context.home()?)?.sites();
        let is_it = |(name, _): &(String, Self)| name.as_bytes() == word.as_bytes();
        let found = sites.into_iter().find(is_it).map(|(_, site)| site);
        found.ok_or_else(|| CommandError {
            message: format!("there is no library {}", word.display()),
            hint: Some(
                "'holdfast tape list' shows them; a folder is named with a '/' in it".to_owned(),
            ),
        })
    }

    /// The site that a word with a `/` in it means.
    pub(super) fn of_path(word: &OsStr) -> Result<Option<Self>, CommandError> {
        let bytes = word.as_bytes();
        if !bytes.contains(&b'/') {
            return Ok(None);
        }
        let is_folder = || std::fs::metadata(word).is_ok_and(|found| found.is_dir());
        if bytes.starts_with(b"iscsi://") || (bytes.starts_with(b"/dev/") && !is_folder()) {
            return Self::of_addresses(word).map(Some);
        }
        Ok(Some(Self::Folder { path: absolute(word)?, capacity_bytes: None }))
    }

    fn of_addresses(word: &OsStr) -> Result<Self, CommandError> {
        let text = word.to_string_lossy();
        let parsed = text.split(',').map(address).collect::<Result<Vec<_>, _>>();
        let addresses = parsed.map_err(CommandError::new)?;
        match addresses.split_first() {
            Some((changer, drives)) if !drives.is_empty() => {
                Ok(Self::Devices { changer: changer.clone(), drives: drives.to_vec() })
            }
            _ => Err(CommandError::new(format!(
                "{text} names no drive: give CHANGER,DRIVE[,DRIVE...]; a drive alone is read with \
                 'holdfast tape read --drive {text}'"
            ))),
        }
    }
}

pub(super) fn absolute(folder: &OsStr) -> Result<PathBuf, CommandError> {
    std::path::absolute(folder).map_err(|error| {
        CommandError::new(format!("cannot use the folder {}: {error}", folder.display()))
    })
}

pub(crate) fn address(text: &str) -> Result<Address, String> {
    text.parse().map_err(|error| format!("{text}: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(word: &str, expected: Option<&str>) {
        let told = match Site::of_path(word.as_ref()).expect("valid") {
            None => None,
            Some(Site::Folder { path, .. }) => Some(path.display().to_string()),
            Some(Site::Devices { changer, drives }) => Some(format!("{changer} {}", drives.len())),
        };
        assert_eq!(told.as_deref(), expected, "{word}");
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
            assert!(Site::of_path(bad.as_ref()).is_err(), "{bad}");
        }
    }
}
