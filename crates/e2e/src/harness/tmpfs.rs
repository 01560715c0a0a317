//! A small file system in memory, which a test can fill or make read-only.

use std::path::{Path, PathBuf};
use std::process::Command;

#[derive(Debug)]
pub struct Tmpfs {
    path: PathBuf,
}

impl Tmpfs {
    /// Mounts a file system at `path`; `None` if that is not allowed.
    pub fn mount(path: &Path, options: &str) -> Option<Self> {
        std::fs::create_dir_all(path)
            .unwrap_or_else(|error| panic!("cannot make {path:?}: {error}"));
        let mount = ["-t", "tmpfs", "-o", options, "holdfast-e2e"];
        let status = Command::new("mount").args(mount).arg(path).status();
        matches!(status, Ok(status) if status.success()).then(|| Self { path: path.to_path_buf() })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Changes options of the mount, such as its size.
    #[track_caller]
    pub fn remount(&self, options: &str) {
        let options = format!("remount,{options}");
        let status = Command::new("mount").args(["-o", &options]).arg(&self.path).status();
        assert!(matches!(status, Ok(status) if status.success()), "cannot remount: {status:?}");
    }
}

impl Drop for Tmpfs {
    fn drop(&mut self) {
        // The unmount is lazy: a process of a failing test may still have a file open there.
        drop(Command::new("umount").arg("-l").arg(&self.path).status());
    }
}
