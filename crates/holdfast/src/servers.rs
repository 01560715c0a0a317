//! The servers that run on this machine: each announces its folder, so that administrators need not
//! name the folder of the only server.
//!
//! An announcement is a file in a folder of the system's runtime files. Its name is the id of the
//! server's process. Its content is the start of the process ([`sys::process::began`]) in decimal,
//! a line feed, and the server's folder. The announcement of a process that has ended does not
//! count, even if another process has its id.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use client::LocalServer;
use store::folder::config::{CA_CERTIFICATE, CONFIG_FILE, Config};

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
    let servers = runtime_folders().first()?.join(SERVERS);
    let announced = path::absolute(folder).ok().and_then(|folder| announce_in(&servers, &folder));
    if announced.is_none() {
        tracing::debug!(place = %servers.display(), "the server could not be announced");
    }
    announced
}

/// Writes the announcement of this process, which serves `folder`, and removes those that dead
/// processes have left.
fn announce_in(servers: &Path, folder: &[u8]) -> Option<Announcement> {
    let id = std::process::id();
    let began = sys::process::began(id)?;
    std::fs::create_dir_all(servers).ok()?;
    for server in announced(servers).into_iter().filter(|server| !server.is_running()) {
        // An announcement that cannot be removed does not count either.
        drop(std::fs::remove_file(servers.join(server.id.to_string())));
    }
    let file = servers.join(id.to_string());
    let content = [format!("{began}\n").as_bytes(), folder].concat();
    std::fs::write(&file, content).ok()?;
    Some(Announcement(file))
}

/// A server that has announced itself.
struct ServerRecord {
    id: u32,
    /// Start of its process.
    began: u64,
    folder: PathBuf,
}

impl ServerRecord {
    /// Returns what `content`, the announcement of the process `id`, says.
    fn parse(id: u32, content: &[u8]) -> Option<Self> {
        let end = content.iter().position(|&byte| byte == b'\n')?;
        let began = std::str::from_utf8(&content[..end]).ok()?.parse().ok()?;
        let folder = PathBuf::from(OsStr::from_bytes(&content[end + 1..]));
        Some(Self { id, began, folder })
    }

    /// Returns true if the process that has announced itself runs.
    fn is_running(&self) -> bool {
        sys::process::began(self.id) == Some(self.began)
    }
}

/// Returns the servers that have announced themselves in the folder `servers`, those that have
/// ended included.
fn announced(servers: &Path) -> Vec<ServerRecord> {
    let files = std::fs::read_dir(servers).into_iter().flatten().flatten();
    let said = |file: std::fs::DirEntry| {
        let id = file.file_name().to_str()?.parse().ok()?;
        ServerRecord::parse(id, &std::fs::read(file.path()).ok()?)
    };
    files.filter_map(said).collect()
}

/// Returns the servers that run, as the announcements in `servers` say.
fn running(servers: &Path) -> Vec<ServerRecord> {
    let mut servers = announced(servers);
    servers.retain(ServerRecord::is_running);
    servers
}

/// Returns the id of the process of the server in `folder`, if it has announced itself.
pub(crate) fn process(folder: &Path) -> Option<u32> {
    let folder = path::absolute(folder).ok()?;
    let folder = Path::new(OsStr::from_bytes(&folder));
    let mut servers = runtime_folders().into_iter().flat_map(|place| running(&place.join(SERVERS)));
    servers.find(|server| server.folder == folder).map(|server| server.id)
}

/// Returns the folder of the server to administer: `named`, otherwise that of the environment,
/// otherwise that of the only server that runs on this machine.
pub(crate) fn choose(named: Option<PathBuf>) -> Result<PathBuf, CommandError> {
    let set = std::env::var_os(SERVER).filter(|folder| !folder.is_empty());
    if let Some(folder) = named.or(set.map(PathBuf::from)) {
        return Ok(folder);
    }
    let running = runtime_folders().into_iter().flat_map(|place| running(&place.join(SERVERS)));
    let mut folders: Vec<PathBuf> = running.map(|server| server.folder).collect();
    folders.sort();
    folders.dedup();
    only(folders)
}

/// Returns the servers that run on this machine, and whose folders this user may read.
pub(crate) fn local() -> Vec<LocalServer> {
    let mut places = runtime_folders();
    // A service that makes a backup has a folder of its own.
    let system = PathBuf::from(SYSTEM_FOLDER);
    if !places.contains(&system) {
        places.push(system);
    }
    let running = places.iter().flat_map(|place| running(&place.join(SERVERS)));
    running.filter_map(|server| local_in(&server.folder)).collect()
}

/// Returns what a backup has to know of the server in `folder`.
fn local_in(folder: &Path) -> Option<LocalServer> {
    let config = Config::load(folder).ok()?;
    let authority = std::fs::read(folder.join(CA_CERTIFICATE)).ok()?;
    let resolved = |path: &Path| Some(path::bytes(&path.canonicalize().ok()?));
    let pools = store::pools::pool_folders(folder, &config);
    let pools = pools.iter().filter_map(|pool| resolved(pool)).collect();
    Some(LocalServer { folder: resolved(folder)?, pools, authority })
}

/// Returns true unless `folder` is certainly no folder of a server.
pub(crate) fn may_be_folder(folder: &Path) -> bool {
    match folder.join(CONFIG_FILE).try_exists() {
        Ok(is_there) => is_there,
        // Only root and its owner can look into the folder of a server.
        Err(error) => error.kind() != std::io::ErrorKind::NotADirectory,
    }
}

/// Returns the error for a folder that is no folder of a server.
pub(crate) fn no_server_in(folder: &Path) -> CommandError {
    let hint =
        format!("name the folder that 'holdfast server init' made, by --server DIR or {SERVER}");
    let message = format!("{} is not the folder of a server", folder.display());
    CommandError::new(message).with_hint(hint)
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
    fn only_a_folder_with_a_configuration_may_be_that_of_a_server() {
        let folder = tempfile::tempdir().expect("a folder");
        assert!(!may_be_folder(folder.path()));
        assert!(!may_be_folder(Path::new("/nonexistent")));
        assert!(!may_be_folder(Path::new("/dev/null")), "a file is no folder");
        std::fs::write(folder.path().join(CONFIG_FILE), "").expect("is written");
        assert!(may_be_folder(folder.path()));
        let error = no_server_in(Path::new("/tmp"));
        assert_eq!(error.message, "/tmp is not the folder of a server");
        assert!(error.hint.is_some_and(|hint| hint.contains("HOLDFAST_SERVER")));
    }

    #[test]
    fn a_process_that_has_ended_runs_no_server() {
        let folder = tempfile::tempdir().expect("a folder");
        let own = announce_in(folder.path(), b"/srv/a\nb").expect("is announced");
        // No process has this number.
        std::fs::write(folder.path().join("4194305"), "1\n/srv/b").expect("is written");
        std::fs::write(folder.path().join("1"), "/srv/c").expect("is written");
        let found = |place: &Path| {
            running(place).into_iter().map(|server| server.folder).collect::<Vec<_>>()
        };
        assert_eq!(found(folder.path()), [PathBuf::from("/srv/a\nb")]);
        assert!(found(&folder.path().join("none")).is_empty());
        drop(own);
        assert!(found(folder.path()).is_empty());
    }

    /// An administrator who stopped a server that had been killed stopped the program that had got
    /// the number of its process.
    #[test]
    fn another_process_with_the_number_of_a_dead_server_is_no_server() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut other = std::process::Command::new("sleep").arg("60").spawn().expect("it starts");
        let began = sys::process::began(other.id()).expect("it sleeps");
        let file = folder.path().join(other.id().to_string());
        std::fs::write(&file, format!("{}\n/srv/a", began - 1)).expect("is written");
        assert!(running(folder.path()).is_empty());
        std::fs::write(&file, format!("{began}\n/srv/a")).expect("is written");
        assert!(running(folder.path()).iter().any(|server| server.id == other.id()));
        other.kill().expect("is killed");
        other.wait().expect("has ended");
        let own = announce_in(folder.path(), b"/srv/a").expect("is announced");
        assert!(!file.try_exists().expect("can be looked up"), "what is left over is removed");
        drop(own);
    }
}
