//! A file system of a given kind in an image file, mounted for as long as a test needs it.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

#[derive(Debug)]
pub struct Image {
    file: PathBuf,
    path: PathBuf,
}

impl Image {
    /// Makes a file system of `bytes` with `mkfs` (a command and its options) in the new file
    /// `image` and mounts it on the new folder `path`. `None` if this machine cannot do that.
    pub fn mount(image: &Path, bytes: u64, mkfs: &[&str], path: &Path) -> Option<Self> {
        std::fs::create_dir(path).expect("a new folder");
        Self::make(image, bytes, mkfs).then(|| Self::of(image, path))?
    }

    /// Makes a file system of `bytes` in the new file `image`. Returns true on success.
    pub fn make(image: &Path, bytes: u64, mkfs: &[&str]) -> bool {
        File::create_new(image)
            .and_then(|file| file.set_len(bytes))
            .expect("a sparse file");
        let (program, options) = mkfs.split_first().expect("a command");
        succeeds(Command::new(program).args(options).arg(image))
    }

    /// Mounts the file system in the file `image` on the folder `path`. `None` if this machine
    /// cannot do that.
    pub fn of(image: &Path, path: &Path) -> Option<Self> {
        let image = Self { file: image.to_owned(), path: path.to_owned() };
        image.mount_again().then_some(image)
    }

    /// Mounts the file system again after [`Self::unmount`]; returns true on success.
    pub fn mount_again(&self) -> bool {
        succeeds(Command::new("mount").args(["-o", "loop"]).arg(&self.file).arg(&self.path))
    }

    /// Unmounts the file system; returns true on success.
    pub fn unmount(&self) -> bool {
        succeeds(Command::new("umount").arg(&self.path))
    }

    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Image {
    fn drop(&mut self) {
        // A mount that a failed test still uses stays until the machine stops.
        let _unmounted = succeeds(Command::new("umount").arg("--lazy").arg(&self.path));
    }
}

/// Returns true if the command succeeded.
pub fn succeeds(command: &mut Command) -> bool {
    let status = command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    status.is_ok_and(|status| status.success())
}
