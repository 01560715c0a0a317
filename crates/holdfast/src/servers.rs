//! The servers that run on this machine: each announces its folder, so that administrators need not
//! name the folder of the only server.
//!
//! An announcement is a file in a folder of the system's runtime files. Its name is the id of the
//! server's process, and its content is the server's folder. The announcement of a process that has
//! ended does not count.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use crate::error::CommandError;
use crate::path;

/// Environment variable with the folder of the server that is administered.
const SERVER: &str = "HOLDFAST_SERVER";
/// Folder with the runtime files of root's servers.
const SYSTEM_FOLDER: &str = "/run/holdfast";
/// Folder of the announcements, in the folder of runtime files.
const SERVERS: &str = "servers";

/// The announcement of a running server. It ends when this value is dropped.
pub(crate) struct Announcement(PathBuf);

impl Drop for Announcement {
    fn drop(&mut self) {
        // A reader of an announcement that stays finds out that its process has ended.
        drop(std::fs::remove_file(&self.0));
    }
}

/// Announces the server in `folder`. A server that cannot be announced is found by its folder only.
pub(crate) fn announce(folder: &Path) -> Option<Announcement> {
    let places = runtime_folders();
    let servers = places.first()?.join(SERVERS);
    let file = servers.join(std::process::id().to_string());
    let written = path::absolute(folder).ok().and_then(|folder| {
        std::fs::create_dir_all(&servers).ok()?;
        std::fs::write(&file, folder).ok()
    });
    if written.is_none() {
        tracing::debug!(place = %servers.display(), "the server could not be announced");
    }
    written.map(|()| Announcement(file))
}

/// Returns the id of the process of the server in `folder`, if it has announced itself.
pub(crate) fn process(folder: &Path) -> Option<i32> {
    let folder = path::absolute(folder).ok()?;
    let announced = |place: PathBuf| {
        let files = std::fs::read_dir(place.join(SERVERS)).into_iter().flatten().flatten();
        let named =
            files.filter(|file| std::fs::read(file.path()).is_ok_and(|read| read == folder));
        named
            .filter_map(|file| file.file_name().to_str()?.parse::<i32>().ok())
            .find(|id| Path::new("/proc").join(id.to_string()).try_exists().unwrap_or(false))
    };
    runtime_folders().into_iter().find_map(announced)
}

/// Returns the folder of the server to administer: `named`, otherwise that of the environment,
/// otherwise that of the only server that runs on this machine.
pub(crate) fn choose(named: Option<PathBuf>) -> Result<PathBuf, CommandError> {
    let set = std::env::var_os(SERVER).filter(|folder| !folder.is_empty());
    if let Some(folder) = named.or(set.map(PathBuf::from)) {
        return Ok(folder);
    }
    let running = runtime_folders().into_iter().flat_map(|place| running(&place.join(SERVERS)));
    let mut folders: Vec<PathBuf> = running.collect();
    folders.sort();
    folders.dedup();
    only(folders)
}

/// Returns the only of `folders`.
fn only(mut folders: Vec<PathBuf>) -> Result<PathBuf, CommandError> {
    match (folders.pop(), folders.is_empty()) {
        (Some(only), true) => Ok(only),
        (None, _) => Err(CommandError::usage(
            "no server was found on this machine; start one with 'holdfast server run DIR', or \
             name its folder with --server DIR",
            "holdfast admin",
        )),
        (Some(last), false) => {
            folders.push(last);
            let shown = folders.iter().map(|folder| folder.display().to_string());
            let shown: Vec<String> = shown.collect();
            let message = format!(
                "several servers run on this machine ({}); name one with --server DIR",
                shown.join(", ")
            );
            Err(CommandError::usage(&message, "holdfast admin"))
        }
    }
}

/// Returns the folders whose servers run, as the announcements in `servers` say.
fn running(servers: &Path) -> Vec<PathBuf> {
    let announced = std::fs::read_dir(servers).into_iter().flatten().flatten();
    let folder = |file: std::fs::DirEntry| {
        let runs = Path::new("/proc").join(file.file_name()).try_exists().unwrap_or(false);
        let folder = std::fs::read(file.path()).ok().filter(|_| runs)?;
        Some(PathBuf::from(OsStr::from_bytes(&folder)))
    };
    announced.filter_map(folder).collect()
}

/// Returns the folders of runtime files, the own first: that of the service manager, otherwise that
/// of the system for root, and that of the user and that of the system for others.
fn runtime_folders() -> Vec<PathBuf> {
    let set = |name: &str| std::env::var_os(name).filter(|folder: &OsString| !folder.is_empty());
    if let Some(given) = set("RUNTIME_DIRECTORY") {
        return vec![PathBuf::from(given)];
    }
    let system = PathBuf::from(SYSTEM_FOLDER);
    if sys::process::is_root() {
        return vec![system];
    }
    let own = set("XDG_RUNTIME_DIR").map(|folder| PathBuf::from(folder).join("holdfast"));
    own.into_iter().chain([system]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_only_server_is_found() {
        let folders = |names: &[&str]| names.iter().map(PathBuf::from).collect::<Vec<_>>();
        assert_eq!(only(folders(&["/srv/a"])).expect("the only one"), PathBuf::from("/srv/a"));
        let none = only(Vec::new()).expect_err("there is none").message;
        assert!(none.contains("no server was found") && none.contains("--server DIR"), "{none}");
        let several = only(folders(&["/srv/a", "/srv/b"])).expect_err("there are two").message;
        assert!(several.contains("(/srv/a, /srv/b)"), "{several}");
    }

    #[test]
    fn a_process_that_has_ended_runs_no_server() {
        let folder = tempfile::tempdir().expect("a folder");
        let own = std::process::id().to_string();
        std::fs::write(folder.path().join(own), "/srv/a").expect("is written");
        // No process has this number.
        std::fs::write(folder.path().join("4194305"), "/srv/b").expect("is written");
        assert_eq!(running(folder.path()), [PathBuf::from("/srv/a")]);
        assert!(running(&folder.path().join("none")).is_empty());
    }
}
