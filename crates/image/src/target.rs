//! Where an image is restored to: a block device that nobody uses, or a file.

use std::ffi::OsStr;
use std::fs::{File, Metadata};
use std::io;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{FileExt as _, MetadataExt as _, OpenOptionsExt as _, fchown};
use std::path::{Path, PathBuf};

use client::ImageTarget;
use sys::{block, frozen_filesystem, loop_device};

use crate::content::DeviceContent;
use crate::error::ImageError;

/// Length of the pieces of a new file that are left out if they are zeros.
const PIECE_BYTES: usize = 64 << 10;
/// Part of the name of an unfinished file, between the name of the target and the process.
const UNFINISHED: &str = ".holdfast-";

/// Device or file that an image is being restored to.
#[derive(Debug)]
pub struct Target {
    file: File,
    path: PathBuf,
    /// Name of a new file until it is whole.
    unfinished: Option<PathBuf>,
}

impl Target {
    /// Opens the target of an image of `bytes` bytes. A device or an existing file is a target only
    /// if it is large enough, if nobody uses it, and if the user has confirmed it. An empty file is
    /// large enough: it has nothing to lose. A file is replaced as a whole.
    pub fn open(path: &Path, bytes: u64, is_confirmed: bool) -> Result<Self, ImageError> {
        let failed = |error| ImageError::file("write", path, error);
        let stat = match std::fs::metadata(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                if is_among_devices(path) {
                    return Err(ImageError::NoDevice { path: path.to_owned() });
                }
                return Self::new_file(path, bytes, None).map_err(failed);
            }
            stat => stat.map_err(failed)?,
        };
        if block::is_block_device(path).map_err(failed)? {
            return Self::device(path, bytes, is_confirmed);
        }
        if !stat.is_file() {
            return Err(ImageError::NoTarget { path: path.to_owned() });
        }
        // The device would go on with the file that loses its name.
        if let Some(device) = used_device_of(path) {
            return Err(ImageError::BehindUsed { path: path.to_owned(), device });
        }
        let has = stat.len();
        if has > 0 && has < bytes {
            return Err(ImageError::TooSmall { path: path.to_owned(), has, needed: bytes });
        }
        if !is_confirmed {
            let content = content(path, has);
            return Err(ImageError::Unconfirmed { path: path.to_owned(), content });
        }
        // A symbolic link goes on leading to the file.
        let path = path.canonicalize().map_err(failed)?;
        Self::new_file(&path, bytes, Some(&stat)).map_err(failed)
    }

    fn device(path: &Path, needed: u64, is_confirmed: bool) -> Result<Self, ImageError> {
        let failed = |error| ImageError::file("write", path, error);
        if let Some(group) = frozen_filesystem::volume_group_of(path) {
            return Err(ImageError::InGroup { path: path.to_owned(), group });
        }
        let file = block::open_alone(path).map_err(|error| match error.kind() {
            io::ErrorKind::ResourceBusy => ImageError::InUse { path: path.to_owned() },
            _ => failed(error),
        })?;
        let has = block::size(&file).map_err(failed)?;
        if has < needed {
            return Err(ImageError::TooSmall { path: path.to_owned(), has, needed });
        }
        if !is_confirmed {
            let content = content(path, has);
            return Err(ImageError::Unconfirmed { path: path.to_owned(), content });
        }
        Ok(Self { file, path: path.to_owned(), unfinished: None })
    }

    /// Makes a file that gets its name when it is whole. It has the owner and the mode of the file
    /// that it replaces; otherwise only its owner may read it, as it has the secrets of a machine.
    fn new_file(path: &Path, bytes: u64, replaced: Option<&Metadata>) -> io::Result<Self> {
        let mut name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?.to_owned();
        name.push(format!("{UNFINISHED}{}", std::process::id()));
        let unfinished = path.with_file_name(name);
        remove_stale(path);
        let mut options = File::options();
        options.create_new(true).read(true).write(true).mode(0o600);
        let file = options.open(&unfinished)?;
        // The lock ends with the process. Some file systems have no locks.
        drop(file.try_lock());
        let target = Self { file, path: path.to_owned(), unfinished: Some(unfinished) };
        if let Some(replaced) = replaced {
            // Only root may give a file to somebody else.
            drop(fchown(&target.file, Some(replaced.uid()), Some(replaced.gid())));
            target.file.set_permissions(replaced.permissions())?;
        }
        target.file.set_len(bytes)?;
        Ok(target)
    }

    /// Returns true if a restore that ends early leaves a part of the image in the target. A new
    /// file goes away then.
    pub fn keeps_parts(&self) -> bool {
        self.unfinished.is_none()
    }

    /// Makes everything durable, and gives a new file its name.
    pub fn finish(mut self) -> Result<(), ImageError> {
        let done = self.file.sync_all().and_then(|()| match &self.unfinished {
            Some(unfinished) => std::fs::rename(unfinished, &self.path),
            None => {
                // Only a disk has partitions.
                drop(block::reread_partitions(&self.file));
                Ok(())
            }
        });
        done.map_err(|error| ImageError::file("write", &self.path, error))?;
        self.unfinished = None;
        Ok(())
    }
}

impl Target {
    /// Returns the error with the name of the target.
    fn named(&self, error: &io::Error) -> io::Error {
        io::Error::new(error.kind(), format!("{}: {error}", self.path.display()))
    }

    fn write(&self, data: &[u8], offset: u64) -> io::Result<()> {
        if self.unfinished.is_none() {
            return self.file.write_all_at(data, offset);
        }
        // A new file has zeros already. Neighbours are written at once.
        let is_data = |piece: &[u8]| piece.iter().any(|byte| *byte != 0);
        let mut start = 0;
        while start < data.len() {
            let rest = &data[start..];
            let first = rest.chunks(PIECE_BYTES).next().expect("there is a rest");
            let kind = is_data(first);
            let same = rest.chunks(PIECE_BYTES).take_while(|piece| is_data(piece) == kind);
            let bytes: usize = same.map(<[u8]>::len).sum();
            if kind {
                self.file.write_all_at(&rest[..bytes], offset + start as u64)?;
            }
            start += bytes;
        }
        Ok(())
    }
}

/// Returns true if a new file at `path` would be in the file system of the devices, which is in
/// memory.
fn is_among_devices(path: &Path) -> bool {
    let folder = match path.parent() {
        Some(folder) if folder != Path::new("") => folder,
        _ => Path::new("."),
    };
    let device = |path: &Path| std::fs::metadata(path).ok().map(|stat| stat.dev());
    let of_devices = device(Path::new("/dev"));
    of_devices.is_some() && of_devices != device(Path::new("/")) && device(folder) == of_devices
}

/// Returns a loop device that has the content of the file at `path` and is mounted or used
/// otherwise, or may be.
fn used_device_of(path: &Path) -> Option<PathBuf> {
    let devices = loop_device::of_file(path).unwrap_or_default();
    devices.into_iter().find(|device| block::is_in_use(device).unwrap_or(true))
}

/// Removes what killed restores to `path` have left: unfinished files that nobody has locked.
fn remove_stale(path: &Path) {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let Ok(entries) = std::fs::read_dir(folder.unwrap_or(Path::new("."))) else { return };
    for entry in entries.flatten().filter(|entry| is_unfinished(&entry.file_name(), path)) {
        let file = File::options().write(true).open(entry.path());
        if file.is_ok_and(|file| file.try_lock().is_ok()) {
            // A file that cannot be removed hinders nobody.
            drop(std::fs::remove_file(entry.path()));
        }
    }
}

/// Returns true if a restore to `path` makes files called `name`.
fn is_unfinished(name: &OsStr, path: &Path) -> bool {
    let rest = path.file_name().and_then(|of_path| {
        name.as_bytes()
            .strip_prefix(of_path.as_bytes())?
            .strip_prefix(UNFINISHED.as_bytes())
    });
    rest.is_some_and(|process| !process.is_empty() && process.iter().all(u8::is_ascii_digit))
}

/// Says in words what a target holds.
fn content(path: &Path, bytes: u64) -> String {
    let partitions = block::partitions(path).unwrap_or_default();
    let within = partitions.iter().filter_map(|partition| {
        let held = DeviceContent::of(&partition.device).shown()?;
        Some(format!("; partition {} holds {held}", partition.number))
    });
    let whole = match DeviceContent::of(path).shown() {
        Some(content) => format!("({bytes} bytes) holds {content}"),
        None => format!("has {bytes} bytes, in which blkid recognises nothing"),
    };
    whole + &within.collect::<String>()
}

impl Drop for Target {
    fn drop(&mut self) {
        if let Some(unfinished) = &self.unfinished {
            drop(std::fs::remove_file(unfinished));
        }
    }
}

impl ImageTarget for Target {
    fn write_at(&self, data: &[u8], offset: u64) -> io::Result<()> {
        self.write(data, offset).map_err(|error| self.named(&error))?;
        // Otherwise most of the writing would begin with the sync at the end.
        block::start_writing(&self.file, offset..offset + data.len() as u64);
        Ok(())
    }

    fn clear(&self, range: Range<u64>) -> io::Result<()> {
        if self.unfinished.is_some() {
            return Ok(());
        }
        block::clear(&self.file, range).map_err(|error| self.named(&error))
    }

    /// Nothing of what a device had stays between the blocks of the image.
    fn lose(&self, range: Range<u64>) -> io::Result<()> {
        self.clear(range)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_appears_when_it_is_whole() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("disk");
        let entries = || std::fs::read_dir(folder.path()).expect("listed").count();
        let target = Target::open(&path, 1 << 20, false).expect("opened");
        target.write_at(b"data", 500_000).expect("written");
        assert!(!path.try_exists().expect("asked"));
        target.finish().expect("finished");
        let content = std::fs::read(&path).expect("read");
        assert_eq!((content.len(), &content[500_000..500_004]), (1 << 20, &b"data"[..]));
        assert_eq!(entries(), 1);
        // An existing file is replaced only if that is confirmed, and only by a whole image.
        let refused = Target::open(&path, 10, false).expect_err("not confirmed");
        assert!(refused.to_string().contains("--confirm"), "{refused}");
        drop(Target::open(&path, 10, true).expect("opened"));
        assert_eq!((std::fs::read(&path).expect("read").len(), entries()), (1 << 20, 1));
        Target::open(&path, 10, true).expect("opened").finish().expect("finished");
        assert_eq!(std::fs::read(&path).expect("read"), [0; 10]);
    }

    #[test]
    fn what_a_killed_restore_has_left_goes_at_the_next() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = |name: &str| folder.path().join(name);
        for name in ["disk.holdfast-17", "disk.holdfast-", "disk.holdfast-x", "other.holdfast-17"] {
            std::fs::write(file(name), b"left").expect("written");
        }
        let running = file("disk.holdfast-18");
        let locked = File::create(&running).expect("made");
        locked.try_lock().expect("locked");
        drop(Target::open(&file("disk"), 10, false).expect("opened"));
        let left = std::fs::read_dir(folder.path()).expect("listed");
        let mut left: Vec<_> = left.map(|entry| entry.expect("read").file_name()).collect();
        left.sort();
        assert_eq!(
            left,
            ["disk.holdfast-", "disk.holdfast-18", "disk.holdfast-x", "other.holdfast-17"]
        );
    }

    /// A restore to a disk whose name was mistyped filled the memory.
    #[test]
    fn a_disk_that_is_not_there_becomes_no_file_among_the_devices() {
        let path = Path::new("/dev/holdfast-no-such-disk");
        if !is_among_devices(path) {
            eprintln!("skipped: /dev is no file system of its own");
            return;
        }
        let refused = Target::open(path, 10, true).expect_err("refused");
        assert!(matches!(refused, ImageError::NoDevice { .. }), "{refused}");
        let folder = tempfile::tempdir().expect("a folder");
        assert!(!is_among_devices(&folder.path().join("disk")));
    }

    #[test]
    fn a_folder_is_no_target() {
        let folder = tempfile::tempdir().expect("a folder");
        assert!(Target::open(folder.path(), 10, true).is_err());
    }
}
