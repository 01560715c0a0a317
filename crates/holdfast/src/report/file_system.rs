//! File systems of the machine in JSON: those that a backup without paths takes, and the others.

use policy::local::{MountStanding, Reason, Standing};
use serde::Serialize;

use crate::path::JsonPath;

/// A mounted file system, and the reason why it is not taken.
#[derive(Serialize)]
pub(crate) struct FileSystemDocument<'a> {
    mount_point: JsonPath<'a>,
    r#type: &'a str,
    taken: bool,
    reason: Option<String>,
}

impl<'a> FileSystemDocument<'a> {
    pub(crate) fn new(mount: &'a MountStanding) -> Self {
        let reason = match &mount.standing {
            Standing::Local => None,
            Standing::LeftOut(reason) => Some(reason.to_string()),
        };
        let taken = reason.is_none();
        Self { mount_point: JsonPath(&mount.point), r#type: &mount.kind, taken, reason }
    }

    /// Returns the documents of the file systems that a person would ask for: those of the kernel
    /// and in memory are left out.
    pub(crate) fn of_disks(mounts: &'a [MountStanding]) -> Vec<Self> {
        let is_of_disk = |mount: &&MountStanding| {
            !matches!(mount.standing, Standing::LeftOut(Reason::Kernel | Reason::Memory))
        };
        mounts.iter().filter(is_of_disk).map(Self::new).collect()
    }
}
