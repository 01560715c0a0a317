//! A file system in a sparse file, so that tens of millions of objects can be removed as one file.
//!
//! 1. An image is called `FILE.part` until its tree is complete.
//! 2. The loop device uses direct I/O for the file. So an object is in the page cache once, as with
//!    a disk.
//! 3. The mount point is removed as an empty directory, so that no file in an image can be deleted.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::shape::Plan;
use crate::output;
use crate::trouble::{Context as _, Trouble};

/// Size of the sparse file, in bytes for each object. ext4 has at most one inode for each block.
const IMAGE_BYTES_PER_OBJECT: u64 = 5 << 10;
/// Minimum size of the sparse file, in bytes.
const IMAGE_BYTES_MIN: u64 = 256 << 20;

const INODE_BYTES: u64 = 256;
const BLOCK_BYTES: u64 = 4096;
/// Average number of bytes that a name takes in a large directory.
const NAME_BYTES: u64 = 40;
/// One file in this number of files has content, which takes one block.
const FILLED_ONE_IN: u64 = 20;

/// A mounted image. Dropping the value unmounts the image, and removes its file unless it is to be
/// kept.
#[derive(Debug)]
pub(crate) struct Image {
    path: PathBuf,
    mount_point: PathBuf,
    is_kept: bool,
}

/// Returns the number of bytes that an image with the tree of `plan` takes on the disk.
pub(crate) fn disk_bytes(plan: Plan) -> u64 {
    let directories = plan.directories * BLOCK_BYTES + plan.files * NAME_BYTES;
    let contents = plan.files / FILLED_ONE_IN * BLOCK_BYTES;
    plan.objects() * INODE_BYTES + directories + contents
}

/// Makes an image at `path` with an empty file system that has room for `plan`.
pub(crate) fn format(path: &Path, plan: Plan) -> Result<(), Trouble> {
    let file = std::fs::File::create(path).while_doing(|| format!("make {}", path.display()))?;
    let bytes = (plan.objects() * IMAGE_BYTES_PER_OBJECT).max(IMAGE_BYTES_MIN);
    let made = file.set_len(bytes).while_doing(|| format!("make {}", path.display()));
    let inodes = (plan.objects() + plan.objects() / 20 + 1000).to_string();
    let inode_bytes = INODE_BYTES.to_string();
    let words: [&OsStr; 14] = [
        "-q".as_ref(),
        "-F".as_ref(),
        "-m".as_ref(),
        "0".as_ref(),
        "-b".as_ref(),
        "4096".as_ref(),
        "-I".as_ref(),
        inode_bytes.as_ref(),
        "-N".as_ref(),
        inodes.as_ref(),
        "-O".as_ref(),
        // A journal would take time while the tree is made, and the image need not survive a crash.
        "^has_journal,^resize_inode,dir_index".as_ref(),
        // Inode tables in a hole of the file are zero already, so nothing has to zero them later.
        "-Elazy_itable_init=0".as_ref(),
        path.as_os_str(),
    ];
    made.and_then(|()| command("mkfs.ext4", &words)).map(drop)
}

impl Image {
    /// Mounts the image at `path` on a new folder in `folder`. When the value is dropped, the file
    /// of the image is removed unless `is_kept` is true.
    pub(crate) fn mount(path: PathBuf, folder: &Path, is_kept: bool) -> Result<Self, Trouble> {
        let what = || format!("make a folder in {}", folder.display());
        let dir = tempfile::Builder::new().prefix("hfm").tempdir_in(folder).while_doing(what)?;
        let image = Self { path, mount_point: dir.keep(), is_kept };
        let attach: [&OsStr; 4] = [
            "--direct-io=on".as_ref(),
            "--find".as_ref(),
            "--show".as_ref(),
            image.path.as_os_str(),
        ];
        let device = command("losetup", &attach)?;
        let device = device.trim();
        let options = ["-t", "ext4", "-o", "noatime", device];
        let mut mount: Vec<&OsStr> = options.iter().map(OsStr::new).collect();
        mount.push(image.mount_point.as_os_str());
        let mounted = command("mount", &mount);
        // The loop device is detached after the unmount, or at once if the mount has failed.
        command("losetup", &["-d".as_ref(), device.as_ref()])?;
        mounted?;
        // The folder lost+found is not part of the tree. An image that was used before does not
        // have it.
        drop(std::fs::remove_dir(image.tree().join("lost+found")));
        Ok(image)
    }

    /// Returns the top folder of the tree.
    pub(crate) fn tree(&self) -> &Path {
        &self.mount_point
    }

    /// Gives the image its final name. Its tree must be complete.
    pub(crate) fn finish(&mut self, path: PathBuf, is_kept: bool) -> Result<(), Trouble> {
        let what = || format!("rename {} to {}", self.path.display(), path.display());
        std::fs::rename(&self.path, &path).while_doing(what)?;
        self.path = path;
        self.is_kept = is_kept;
        Ok(())
    }
}

impl Drop for Image {
    fn drop(&mut self) {
        output::step("unmounting the image");
        let is_mounted = is_mount_point(&self.mount_point);
        if is_mounted && let Err(trouble) = command("umount", &[self.mount_point.as_os_str()]) {
            let mount_point = self.mount_point.display();
            output::warning(&format!(
                "cannot unmount {mount_point}, unmount it by hand: {trouble}"
            ));
            return;
        }
        if let Err(error) = std::fs::remove_dir(&self.mount_point) {
            output::warning(&format!("cannot remove {}: {error}", self.mount_point.display()));
        }
        if !self.is_kept
            && let Err(error) = std::fs::remove_file(&self.path)
        {
            output::warning(&format!("cannot remove {}: {error}", self.path.display()));
        }
    }
}

fn is_mount_point(path: &Path) -> bool {
    let device = |path: &Path| rustix::fs::stat(path).map(|stat| stat.st_dev).ok();
    let parent = path.parent().unwrap_or(Path::new("/"));
    device(path) != device(parent)
}

/// Runs a command of the system and returns its output.
fn command(program: &str, words: &[&OsStr]) -> Result<String, Trouble> {
    let output = Command::new(program)
        .args(words)
        .stdin(Stdio::null())
        .env("LC_ALL", "C")
        .output()
        .while_doing(|| format!("start {program}"))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let last = said
        .lines()
        .rfind(|line| !line.trim().is_empty())
        .unwrap_or("it wrote no message");
    Err(Trouble::new(format!("{program} failed ({}): {last}", output.status)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_for_the_whole_tree_is_some_twenty_gigabytes() {
        let plan = Plan { directories: 2_500_000, files: 25_500_000, seed: 1 };
        assert!((20..26).contains(&(disk_bytes(plan) / 1_000_000_000)));
    }

    #[test]
    fn a_command_that_fails_is_named_with_what_it_said() {
        let message = command("ls", &["/nonexistent".as_ref()]).unwrap_err().to_string();
        assert!(message.starts_with("ls failed (exit status: 2): ls: cannot access"), "{message}");
    }
}
