//! Errors of images, by what the user can do.

use std::io;
use std::path::{Path, PathBuf};

#[derive(Debug, thiserror::Error)]
pub enum ImageError {
    /// The user names something else, or gets the right to it.
    #[error("cannot {verb} {}: {error}", path.display())]
    File { verb: &'static str, path: PathBuf, error: io::Error },
    /// The user names something else.
    #[error(
        "{} is neither a block device, a file, nor a mount point of a block device",
        path.display()
    )]
    NoImage { path: PathBuf },
    /// The user leaves out the format.
    #[error(
        "{} is no file: what is read of it is the disk itself; leave out --format",
        path.display()
    )]
    NoFormat { path: PathBuf },
    /// The user names the devices.
    #[error(
        "the file system at {} lies on several devices: {}; unmount it, then name them all, so \
         that their images are of one moment",
        path.display(),
        listed(devices)
    )]
    SeveralDevices { path: PathBuf, devices: Vec<PathBuf> },
    /// The user names something else.
    #[error(
        "{} is neither a block device nor a file; no image can be written to it",
        path.display()
    )]
    NoTarget { path: PathBuf },
    /// The user names a device that is there, or a file elsewhere.
    #[error(
        "there is no device {}, and a file there would be in memory; 'lsblk' shows the disks of \
         this machine",
        path.display()
    )]
    NoDevice { path: PathBuf },
    /// The user looks after the server of the export, or installs `qemu-nbd`.
    #[error("cannot read {}: {}", path.display(), model::chain(error))]
    Export { path: PathBuf, error: nbd::NbdError },
    /// The user chooses another means, or repairs this one.
    #[error("{} cannot be held still: {reason}", path.display())]
    NotStill { path: PathBuf, reason: String },
    /// The user unmounts the target or ends its user.
    #[error(
        "{} is in use: it, or a partition of it, is mounted, is swap space, or is part of a \
         volume group or a RAID; end that use, then try again",
        path.display()
    )]
    InUse { path: PathBuf },
    /// The user unmounts the device, or names another file.
    #[error(
        "{} is the file behind {}, which is mounted or used otherwise; end that use, then try \
         again",
        path.display(),
        device.display()
    )]
    BehindUsed { path: PathBuf, device: PathBuf },
    /// The user takes the target out of the volume group.
    #[error(
        "{} is a physical volume of the volume group {group}; take it out with vgreduce, or remove \
         the group, then try again",
        path.display()
    )]
    InGroup { path: PathBuf, group: String },
    /// The user names a larger target.
    #[error(
        "{} has {has} bytes, but the image has {needed}; name a target that is as large or larger",
        path.display()
    )]
    TooSmall { path: PathBuf, has: u64, needed: u64 },
    /// The user confirms.
    #[error(
        "{} {content}; all of it will be overwritten; if that is meant, add --confirm",
        path.display()
    )]
    Unconfirmed { path: PathBuf, content: String },
}

impl ImageError {
    /// Makes the error for a file or a device. `verb` names the operation that failed.
    pub(crate) fn file(verb: &'static str, path: &Path, error: io::Error) -> Self {
        Self::File { verb, path: path.to_owned(), error }
    }
}

fn listed(devices: &[PathBuf]) -> String {
    let shown: Vec<String> = devices.iter().map(|device| device.display().to_string()).collect();
    shown.join(", ")
}
