//! Facts about the source of a backup: the client, its platform, and the file system. The server
//! keeps them with the report of the backup, for administrators.

use serde::Serialize;
use sys::Dir;

use crate::virtual_filespaces::VirtualFilespaces;

/// Source of a backup.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub(crate) struct Source {
    client_version: &'static str,
    /// Release of the kernel.
    kernel: String,
    /// Operating system and architecture, as in `linux x86_64`.
    platform: String,
    /// Type of the file system, as the kernel calls it.
    #[serde(skip_serializing_if = "Option::is_none")]
    filesystem_type: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    capacity_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    free_bytes: Option<u64>,
}

impl Source {
    /// Describes the file system with the filespace `path`.
    pub(crate) fn of_filespace(path: &[u8], virtual_filespaces: &VirtualFilespaces) -> Self {
        let filesystem_type = virtual_filespaces.filesystem_type(path);
        Self { filesystem_type, ..Self::of(path) }
    }

    /// Describes the file system that is mounted at `mount_point`. What cannot be found out is
    /// absent.
    pub(crate) fn of(mount_point: &[u8]) -> Self {
        let room = Dir::open(mount_point).and_then(|root| sys::space::room(&root)).ok();
        Self {
            client_version: env!("CARGO_PKG_VERSION"),
            kernel: sys::process::kernel_release(),
            platform: format!("{} {}", std::env::consts::OS, std::env::consts::ARCH),
            filesystem_type: sys::mount::filesystem_type(mount_point).ok().flatten(),
            capacity_bytes: room.map(|room| room.bytes),
            free_bytes: room.map(|room| room.free_bytes),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_system_is_described_as_far_as_it_is_there() {
        let root = serde_json::to_value(Source::of(b"/")).expect("is JSON");
        assert!(root["capacity_bytes"].as_u64() > Some(0), "{root}");
        assert!(root["free_bytes"].as_u64() <= root["capacity_bytes"].as_u64(), "{root}");
        assert!(root["platform"].as_str().is_some_and(|words| words.contains(' ')), "{root}");
        assert!(root["kernel"].as_str().is_some_and(|words| words.contains('.')), "{root}");
        let absent = serde_json::to_value(Source::of(b"/nowhere/at/all")).expect("is JSON");
        let keys: Vec<_> = absent.as_object().expect("an object").keys().collect();
        assert_eq!(keys, ["client_version", "kernel", "platform"]);
    }
}
