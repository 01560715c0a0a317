//! Holding a device still while its image is made: snapshots, and commands of the user.

use std::fs::File;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::str::FromStr;

use client::ImageStillness;
use rustix::fs::{StatVfsMountFlags, statvfs};
use sys::frozen_filesystem::{self, FrozenFilesystem};
use sys::mount;
use sys::thin_pool::ThinSnapshots;

use crate::error::ImageError;

/// Means of holding a device still.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum StillnessChoice {
    /// The best means that there is; without any, the device may change.
    #[default]
    Auto,
    Off,
    /// Snapshot of the logical volume.
    Lvm,
    /// Copy of a file that shares its blocks.
    Reflink,
}

/// Error for a word that is not one of the choices.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("the value must be auto, off, lvm or reflink")]
pub struct UnknownChoice;

impl FromStr for StillnessChoice {
    type Err = UnknownChoice;

    fn from_str(how: &str) -> Result<Self, Self::Err> {
        match how.to_ascii_lowercase().as_str() {
            "auto" => Ok(Self::Auto),
            "off" => Ok(Self::Off),
            "lvm" => Ok(Self::Lvm),
            "reflink" => Ok(Self::Reflink),
            _ => Err(UnknownChoice),
        }
    }
}

/// Shell commands that hold still what writes to the device, and let it go on.
#[derive(Clone, Debug, Default)]
pub(crate) struct FreezeCommands {
    pub(crate) freeze: Option<String>,
    pub(crate) thaw: Option<String>,
}

/// State in which the commands hold the device still. It ends when it is dropped.
pub(crate) struct Freeze {
    thaw: Option<String>,
    pub(crate) is_frozen: bool,
}

impl Freeze {
    /// Runs the freezing command, if there is one. Without it, the thawing command only marks the
    /// end: nothing is held still.
    pub(crate) fn begin(path: &Path, commands: &FreezeCommands) -> Result<Self, ImageError> {
        let Some(freeze) = &commands.freeze else {
            return Ok(Self { thaw: commands.thaw.clone(), is_frozen: false });
        };
        let reason = match shell(freeze) {
            Ok(true) => {
                return Ok(Self { thaw: commands.thaw.clone(), is_frozen: true });
            }
            Ok(false) => format!("the command '{freeze}' has failed"),
            Err(error) => format!("the command '{freeze}' cannot be run: {error}"),
        };
        // The command may have done a part of its work.
        drop(Self { thaw: commands.thaw.clone(), is_frozen: true });
        Err(ImageError::NotStill { path: path.to_owned(), reason })
    }

    /// Runs the thawing command. Returns a warning if that fails.
    pub(crate) fn end(&mut self) -> Option<String> {
        let thaw = self.thaw.take()?;
        match shell(&thaw) {
            Ok(true) => None,
            Ok(false) => Some(format!("the command '{thaw}' has failed; run it by hand")),
            Err(error) => {
                Some(format!("the command '{thaw}' cannot be run: {error}; run it by hand"))
            }
        }
    }
}

impl Drop for Freeze {
    fn drop(&mut self) {
        // A failure cannot be reported any more.
        drop(self.end());
    }
}

fn shell(command: &str) -> std::io::Result<bool> {
    let status = Command::new("/bin/sh").args(["-c", command]).stdin(Stdio::null()).status()?;
    Ok(status.success())
}

/// Source that is read in place of the device or file that the user has named.
pub(crate) struct Still {
    /// Device or file that is read.
    pub(crate) path: PathBuf,
    /// Copy of a file without a name, in place of `path`.
    pub(crate) copy: Option<File>,
    /// `None` if only its counters show whether the device changes.
    pub(crate) stillness: Option<ImageStillness>,
    /// True if `path` is a snapshot of a file system that was mounted here: the kernel has frozen
    /// it for that moment.
    pub(crate) has_frozen_files: bool,
    /// Kept until the image is made.
    snapshot: Option<FrozenFilesystem>,
    /// Snapshots of a thin volume: this one and those that have stayed for earlier images.
    thin: Option<ThinSnapshots>,
    /// True if the snapshot of a thin volume stays until the next image.
    keeps: bool,
    freeze: Freeze,
    /// Reason why a snapshot that would have been better is missing.
    warning: Option<String>,
}

impl Still {
    /// Holds a block device still. The snapshots of one process have different `numbers`. With
    /// `keeps`, that of a thin volume stays until the next image.
    pub(crate) fn device(
        path: &Path,
        choice: StillnessChoice,
        number: u32,
        keeps: bool,
        commands: &FreezeCommands,
    ) -> Result<Self, ImageError> {
        let not_still = |reason: String| ImageError::NotStill { path: path.to_owned(), reason };
        let is_wanted = match choice {
            StillnessChoice::Off => false,
            StillnessChoice::Auto => frozen_filesystem::is_logical_volume(path),
            StillnessChoice::Lvm => true,
            StillnessChoice::Reflink => {
                return Err(not_still("only files have reflinks".to_owned()));
            }
        };
        if is_wanted && !frozen_filesystem::is_logical_volume(path) {
            let reason = "it is not a logical volume; use another --snapshot, or none";
            return Err(not_still(reason.to_owned()));
        }
        let mut freeze = Freeze::begin(path, commands)?;
        if !is_wanted {
            return Ok(Self::as_it_is(path, freeze, None));
        }
        let was_mounted = is_mounted(path);
        let made = frozen_filesystem::freeze_device(path, number, keeps);
        if let Err(error) = &made
            && choice == StillnessChoice::Auto
        {
            let warning = format!("{} was read without a snapshot: {error}", path.display());
            return Ok(Self::as_it_is(path, freeze, Some(warning)));
        }
        let warning = freeze.end();
        let snapshot = made.map_err(|error| not_still(error.to_string()))?;
        if let Some(warning) = warning {
            return Err(not_still(warning));
        }
        use std::os::unix::ffi::OsStrExt as _;
        let device = PathBuf::from(std::ffi::OsStr::from_bytes(snapshot.root()));
        let stillness = Some(ImageStillness::Snapshot);
        let found = ThinSnapshots::of(&snapshot);
        let unkept = found.as_ref().err().filter(|_| keeps);
        let warning =
            unkept.map(|error| format!("the snapshot of {} is not kept: {error}", path.display()));
        Ok(Self {
            path: device,
            copy: None,
            stillness,
            has_frozen_files: was_mounted && is_mounted(path),
            snapshot: Some(snapshot),
            thin: found.unwrap_or_default(),
            keeps,
            freeze,
            warning,
        })
    }

    /// Holds a file still.
    pub(crate) fn file(
        path: &Path,
        choice: StillnessChoice,
        commands: &FreezeCommands,
    ) -> Result<Self, ImageError> {
        let not_still = |reason: String| ImageError::NotStill { path: path.to_owned(), reason };
        if choice == StillnessChoice::Lvm {
            return Err(not_still("only logical volumes have snapshots of LVM".to_owned()));
        }
        let mut freeze = Freeze::begin(path, commands)?;
        let copy = match choice {
            StillnessChoice::Off => None,
            _ => match reflinked(path) {
                Ok(copy) => Some(copy),
                Err(error) if choice == StillnessChoice::Reflink => {
                    return Err(not_still(format!("no reflink of it can be made: {error}")));
                }
                Err(_) => None,
            },
        };
        let stillness = match (&copy, freeze.is_frozen) {
            (Some(_), _) => Some(ImageStillness::Snapshot),
            (None, true) => Some(ImageStillness::Frozen),
            (None, false) => None,
        };
        if copy.is_some()
            && let Some(warning) = freeze.end()
        {
            return Err(not_still(warning));
        }
        Ok(Self { copy, stillness, ..Self::as_it_is(path, freeze, None) })
    }

    /// Runs the freezing command for a source of which no snapshot can be made here.
    pub(crate) fn nothing(
        path: &Path,
        choice: StillnessChoice,
        commands: &FreezeCommands,
    ) -> Result<Self, ImageError> {
        match choice {
            StillnessChoice::Auto | StillnessChoice::Off => {
                Ok(Self::as_it_is(path, Freeze::begin(path, commands)?, None))
            }
            StillnessChoice::Lvm | StillnessChoice::Reflink => {
                let reason = "an export, and a file in a format of qemu, have no snapshot here; \
                              use --snapshot off, and --freeze if somebody writes";
                Err(ImageError::NotStill { path: path.to_owned(), reason: reason.to_owned() })
            }
        }
    }

    /// Returns the source that is read itself, held still by the user's command or not at all.
    fn as_it_is(path: &Path, freeze: Freeze, warning: Option<String>) -> Self {
        let stillness = freeze.is_frozen.then_some(ImageStillness::Frozen);
        Self {
            path: path.to_owned(),
            copy: None,
            stillness,
            has_frozen_files: false,
            snapshot: None,
            thin: None,
            keeps: false,
            freeze,
            warning,
        }
    }

    /// Returns the reason if the snapshot is lost.
    pub(crate) fn failure(&self) -> Option<String> {
        let is_lost = self.snapshot.as_ref().is_some_and(FrozenFilesystem::is_out_of_room);
        is_lost.then(|| {
            format!(
                "the snapshot {} ran out of room, because programs changed too much meanwhile; try \
                 again when they change less, or use a thin volume, or --snapshot off with \
                 --freeze",
                self.path.display()
            )
        })
    }

    /// Returns the snapshots of a thin volume if the new one stays until the next image.
    pub(crate) fn staying(&self) -> Option<&ThinSnapshots> {
        self.thin.as_ref().filter(|_| self.keeps)
    }

    /// Lets the device go on, and removes the snapshot or lets it stay. An image that was not made
    /// changes nothing about the snapshots of earlier images. Returns warnings about what is left.
    pub(crate) fn end(mut self, is_made: bool) -> Vec<String> {
        let snapshot = self.snapshot.take();
        let ended = match snapshot {
            Some(snapshot) if is_made => self.end_snapshot(snapshot),
            Some(snapshot) => Vec::from_iter(self.remove(snapshot)),
            None => Vec::new(),
        };
        self.freeze.end().into_iter().chain(self.warning).chain(ended).collect()
    }

    /// Ends the snapshot of an image that was made. Returns warnings about what fails.
    fn end_snapshot(&self, snapshot: FrozenFilesystem) -> Vec<String> {
        let path = self.path.display();
        if let Some(staying) = self.staying() {
            let unkept = snapshot.keep(staying).err().map(|error| {
                format!(
                    "the snapshot {path} could not be kept: {error}; the next image reads \
                     everything"
                )
            });
            return Vec::from_iter(unkept);
        }
        let removed = self.remove(snapshot);
        let left = self.thin.as_ref().and_then(|thin| thin.remove_kept().err());
        let left = left.map(|error| format!("cannot remove the snapshot that was kept: {error}"));
        removed.into_iter().chain(left).collect()
    }

    fn remove(&self, snapshot: FrozenFilesystem) -> Option<String> {
        let path = self.path.display();
        let error = snapshot.thaw().err()?;
        Some(format!("cannot remove the snapshot {path}: {error}; the next backup removes it"))
    }
}

/// Returns true if the file system on `device` is mounted here for writing. One that only can be
/// read may be mounted without its journal, and then freezing it puts nothing in its place.
fn is_mounted(device: &Path) -> bool {
    let number = std::fs::metadata(device).map(|stat| stat.rdev());
    let Ok(Some(point)) = number.and_then(mount::point_of_device) else { return false };
    statvfs(&point[..]).is_ok_and(|found| !found.f_flag.contains(StatVfsMountFlags::RDONLY))
}

fn reflinked(path: &Path) -> std::io::Result<File> {
    let folder = path.parent().unwrap_or(Path::new("/"));
    sys::block::reflinked(&File::open(path)?, folder)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn choices_are_words() {
        assert_eq!("LVM".parse(), Ok(StillnessChoice::Lvm));
        assert_eq!("btrfs".parse::<StillnessChoice>(), Err(UnknownChoice));
    }

    #[test]
    fn what_was_frozen_thaws_whatever_happens() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("disk");
        std::fs::write(&path, b"content").expect("written");
        let state = folder.path().join("state");
        let write = |word: &str| Some(format!("echo {word} >> {}", state.display()));
        let commands = FreezeCommands { freeze: write("freeze"), thaw: write("thaw") };
        let said = || std::fs::read_to_string(&state).expect("written");
        let still = Still::file(&path, StillnessChoice::Off, &commands).expect("frozen");
        assert_eq!((still.stillness, said().as_str()), (Some(ImageStillness::Frozen), "freeze\n"));
        assert!(still.end(true).is_empty());
        assert_eq!(said(), "freeze\nthaw\n");
        drop(Still::file(&path, StillnessChoice::Off, &commands).expect("frozen"));
        assert_eq!(said(), "freeze\nthaw\nfreeze\nthaw\n");
        let commands = FreezeCommands { freeze: Some("exit 3".to_owned()), thaw: write("thaw") };
        let error = Still::file(&path, StillnessChoice::Off, &commands).map(|_| ());
        assert!(error.expect_err("refused").to_string().contains("'exit 3' has failed"));
        assert_eq!(said(), "freeze\nthaw\nfreeze\nthaw\nthaw\n");
        std::fs::remove_file(&state).expect("removed");
        let commands = FreezeCommands { freeze: None, thaw: write("thaw") };
        let still = Still::file(&path, StillnessChoice::Off, &commands).expect("a source");
        let has_run = state.try_exists().expect("known");
        assert_eq!((still.stillness, has_run), (None, false));
        assert!(still.end(true).is_empty());
        assert_eq!(said(), "thaw\n");
    }
}
