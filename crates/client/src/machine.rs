//! The paths of a backup that names none: the whole machine, unless the node's settings say
//! otherwise.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;

use policy::local::{self, MountStanding, Standing as MountDecision};
use policy::settings::{path_words, split_words};

use crate::error::{ClientError, ErrorKind};
use crate::node::standing::Standing;
use crate::virtual_filespaces::VirtualFilespaces;

/// Setting that names the paths.
const SETTING: &str = "paths";
/// Value of the setting, unless a source gives another.
const DEFAULT: &str = "all-local";

/// Paths of a backup that names none.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MachinePaths {
    pub paths: Vec<Vec<u8>>,
    /// All mounts and virtual filespaces, with the decision about each, if the setting asks for the
    /// local file systems.
    pub mounts: Option<Vec<MountStanding>>,
    /// Mount points that the setting leaves out although no local file system is there.
    pub unknown: Vec<Vec<u8>>,
}

/// Returns the paths that the node's settings name for a backup without paths.
pub fn machine_paths(standing: &Standing) -> Result<MachinePaths, ClientError> {
    let value = standing.value(SETTING).unwrap_or(DEFAULT);
    let words = path_words(&split_words(value)).map_err(|error| {
        ClientError::new(ErrorKind::Usage, format!("the setting paths must be {error}"))
    })?;
    if !words.all_local {
        return Ok(MachinePaths { paths: words.paths, mounts: None, unknown: Vec::new() });
    }
    let virtual_filespaces = VirtualFilespaces::of(standing)?;
    let table = sys::mount::table().map_err(|error| {
        ClientError::new(ErrorKind::Usage, format!("cannot read the table of mounts: {error}"))
    })?;
    let mut mounts = local::decide(&local::parse_mounts(&table), is_directory, &words.left_out);
    mounts.extend(virtual_filespaces.standings(&mounts, &words.left_out));
    let is_local = |mount: &&MountStanding| mount.standing == MountDecision::Local;
    let mut paths: Vec<Vec<u8>> =
        mounts.iter().filter(is_local).map(|mount| mount.point.clone()).collect();
    paths.extend(words.paths);
    if paths.is_empty() {
        let message = "there is no local file system of a disk that the setting paths takes; name \
                       the paths to back up, as in 'holdfast backup /home'";
        return Err(ClientError::new(ErrorKind::Usage, message));
    }
    let excluded = MountDecision::LeftOut(local::Reason::Excluded);
    let is_known = |point: &Vec<u8>| {
        mounts.iter().any(|mount| mount.point == *point && mount.standing == excluded)
    };
    let unknown = words.left_out.into_iter().filter(|point| !is_known(point)).collect();
    Ok(MachinePaths { paths, mounts: Some(mounts), unknown })
}

fn is_directory(point: &[u8]) -> bool {
    std::fs::metadata(OsStr::from_bytes(point)).is_ok_and(|found| found.is_dir())
}
