//! The source of an image: a block device, or a file with the content of a disk.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use client::{ImageDescription, ImageSource, ImageStillness};
use sys::block;

use crate::content::DeviceContent;
use crate::error::ImageError;
use crate::export::{self, ExportReader};
use crate::still::{FreezeCommands, Still, StillnessChoice};
use crate::thin::Changes;
use crate::used;

/// Kind of a source that is a device, in words.
pub(crate) const DEVICE: &str = "block device";
/// Kind of a source that is a file with the plain content of a disk, in words.
pub(crate) const FILE: &str = "file";

/// Options of a source.
#[derive(Clone, Debug, Default)]
pub struct SourceOptions {
    pub snapshot: StillnessChoice,
    /// Shell command that runs before the device is read or its snapshot is made.
    pub freeze: Option<String>,
    /// Shell command that runs after that.
    pub thaw: Option<String>,
    /// True to read blocks that the file system does not use, too.
    pub all_blocks: bool,
    /// Format of a file, as qemu calls it; `None` recognises the format.
    pub format: Option<String>,
    /// Dirty bitmap of an export or a qcow2 file, which shows the changes since the last image.
    pub bitmap: Option<String>,
    /// True if the snapshot of a thin volume stays, so that the next image reads only what has
    /// changed.
    pub keeps_snapshot: bool,
    /// Number of this source among those of the process.
    pub number: u32,
}

/// Device or file that is held still, as far as possible, and is being read.
pub struct Source {
    name: PathBuf,
    // Dropped before the snapshot that it has open.
    reader: Reader,
    still: Still,
    bytes: u64,
    used: Vec<Range<u64>>,
    /// Changes of a thin volume whose snapshot stays, or the reason why nobody knows them.
    changes: Option<Result<Changes, String>>,
    kind: String,
    holds: Option<String>,
    /// State before anything was read.
    before: Mark,
}

/// Access to the bytes of a source.
enum Reader {
    Local {
        /// Reader that uses the page cache.
        cached: File,
        /// Reader that bypasses the page cache.
        direct: Option<File>,
    },
    Export(Box<ExportReader>),
}

/// State of a device or a file that changes when somebody writes to it.
#[derive(PartialEq, Eq, Debug)]
enum Mark {
    Device {
        sectors_written: Option<u64>,
    },
    File {
        size: u64,
        mtime: (i64, i64),
        ctime: (i64, i64),
    },
    /// Nobody tells whether a client of the server writes.
    Export {
        is_read_only: bool,
    },
}

impl Mark {
    fn of(path: &Path) -> io::Result<Self> {
        let stat = std::fs::metadata(path)?;
        if block::is_block_device(path)? {
            return Ok(Self::Device { sectors_written: block::sectors_written(path).ok() });
        }
        let mtime = (stat.mtime(), stat.mtime_nsec());
        let ctime = (stat.ctime(), stat.ctime_nsec());
        Ok(Self::File { size: stat.size(), mtime, ctime })
    }

    /// Returns true if somebody has written since the mark `before`, or if the kernel does not
    /// tell.
    fn has_changed_since(&self, before: &Self) -> bool {
        let is_unknown = matches!(
            self,
            Self::Device { sectors_written: None } | Self::Export { is_read_only: false }
        );
        self != before || is_unknown
    }
}

impl Source {
    /// Opens what `path` names: a block device, a file, or the mount point of a block device.
    pub fn open(path: &Path, options: &SourceOptions) -> Result<Self, ImageError> {
        let failed = |error| ImageError::file("read", path, error);
        let commands =
            FreezeCommands { freeze: options.freeze.clone(), thaw: options.thaw.clone() };
        let check_format = || match options.format.as_deref() {
            None | Some("raw") => Ok(()),
            Some(_) => Err(ImageError::NoFormat { path: path.to_owned() }),
        };
        if export::is_address(path.as_os_str().as_bytes()) {
            check_format()?;
            return Self::of_export(path, &commands, options);
        }
        let stat = std::fs::metadata(path).map_err(failed)?;
        if block::is_block_device(path).map_err(failed)? {
            check_format()?;
            let SourceOptions { snapshot, number, keeps_snapshot, .. } = *options;
            let still = Still::device(path, snapshot, number, keeps_snapshot, &commands)?;
            return Self::of_device(path, still, options).map_err(failed);
        }
        if stat.is_file() {
            let found = File::open(path).and_then(|file| export::format_of(&file));
            let format = match &options.format {
                Some(format) => Some(format.clone()).filter(|format| format != "raw"),
                None => found.map_err(failed)?,
            };
            return match format {
                Some(format) => Self::of_virtual_disk(path, &format, &commands, options),
                None => {
                    let still = Still::file(path, options.snapshot, &commands)?;
                    Self::of_file(path, still).map_err(failed)
                }
            };
        }
        let no_image = || ImageError::NoImage { path: path.to_owned() };
        let device = device_of_mount(path).ok_or_else(no_image)?;
        let devices = block::btrfs_devices(&device).unwrap_or_default();
        if devices.len() > 1 {
            return Err(ImageError::SeveralDevices { path: path.to_owned(), devices });
        }
        Self::open(&device, options)
    }

    fn of_device(name: &Path, still: Still, options: &SourceOptions) -> io::Result<Self> {
        if still.stillness != Some(ImageStillness::Snapshot) {
            used::sync(&still.path);
        }
        let before = Mark::of(name)?;
        let cached = File::open(&still.path)?;
        let bytes = block::size(&cached)?;
        let changes = still.staying().map(|snapshots| Changes::find(snapshots, bytes));
        let used = match &changes {
            Some(Ok(changes)) => changes.used.clone(),
            None if !options.all_blocks => {
                used::of_device(&still.path, bytes, still.has_frozen_files)
            }
            // The image has the whole content of a snapshot that stays.
            Some(Err(_)) | None => Vec::from([0..bytes]),
        };
        let direct = block::open_direct(&still.path)?;
        let holds = DeviceContent::of(&still.path).shown();
        let (name, kind) = (name.to_owned(), DEVICE.to_owned());
        let reader = Reader::Local { cached, direct };
        Ok(Self { name, still, reader, bytes, used, changes, kind, holds, before })
    }

    fn of_file(name: &Path, mut still: Still) -> io::Result<Self> {
        let before = Mark::of(name)?;
        let holds = DeviceContent::of(name).shown();
        let (cached, direct) = match still.copy.take() {
            Some(copy) => (copy, None),
            None => (File::open(name)?, block::open_direct(name)?),
        };
        let bytes = block::size(&cached)?;
        let used = block::data_ranges(&cached)?;
        let (name, kind, changes) = (name.to_owned(), FILE.to_owned(), None);
        let reader = Reader::Local { cached, direct };
        Ok(Self { name, still, reader, bytes, used, changes, kind, holds, before })
    }

    /// Opens the file of a virtual machine's disk through `qemu-nbd`.
    fn of_virtual_disk(
        path: &Path,
        format: &str,
        commands: &FreezeCommands,
        options: &SourceOptions,
    ) -> Result<Self, ImageError> {
        // The file may refer to other files, so a reflink of it alone is not the disk.
        let still = Still::nothing(path, options.snapshot, commands)?;
        let before = Mark::of(path).map_err(|error| ImageError::file("read", path, error))?;
        let reader = ExportReader::serve(path, format, options.bitmap.as_deref());
        Self::of_reader(path, still, before, reader, &format!("{format} file"))
    }

    fn of_export(
        address: &Path,
        commands: &FreezeCommands,
        options: &SourceOptions,
    ) -> Result<Self, ImageError> {
        let still = Still::nothing(address, options.snapshot, commands)?;
        let bitmap = options.bitmap.as_deref();
        let reader = nbd::Uri::parse(address.as_os_str().as_bytes())
            .and_then(|uri| ExportReader::connect(uri, bitmap));
        let is_read_only = reader.as_ref().is_ok_and(|reader| reader.is_read_only);
        let before = Mark::Export { is_read_only };
        Self::of_reader(address, still, before, reader, "NBD export")
    }

    fn of_reader(
        name: &Path,
        still: Still,
        before: Mark,
        reader: Result<ExportReader, nbd::NbdError>,
        kind: &str,
    ) -> Result<Self, ImageError> {
        let name = name.to_owned();
        match reader {
            Err(error) => Err(ImageError::Export { path: name, error }),
            Ok(reader) => Ok(Self {
                name,
                still,
                bytes: reader.bytes,
                used: reader.used.clone(),
                changes: None,
                reader: Reader::Export(Box::new(reader)),
                kind: kind.to_owned(),
                holds: None,
                before,
            }),
        }
    }

    /// Returns true if a bitmap was asked for and the server does not have it.
    pub fn lacks_bitmap(&self, options: &SourceOptions) -> bool {
        let has_bitmap = match &self.reader {
            Reader::Export(reader) => reader.changed.is_some(),
            Reader::Local { .. } => false,
        };
        options.bitmap.is_some() && !has_bitmap
    }

    /// Returns true if the source is a snapshot of a thin volume that stays until the next image.
    pub fn keeps_snapshot(&self) -> bool {
        self.still.staying().is_some()
    }

    /// Returns the reason if all of a thin volume is read because nobody knows what has changed.
    pub fn doubt(&self) -> Option<&str> {
        match &self.changes {
            Some(Err(reason)) => Some(reason),
            Some(Ok(_)) | None => None,
        }
    }

    /// Returns the path of the device or the file, after which its images are called.
    pub fn name(&self) -> &[u8] {
        self.name.as_os_str().as_bytes()
    }

    /// Returns true if somebody may write to the source while it is read: it is a device in use, or
    /// a file, and nothing holds it still.
    pub fn may_change(&self) -> bool {
        let is_idle_device =
            || self.kind == DEVICE && block::is_in_use(&self.name).is_ok_and(|is_used| !is_used);
        let is_frozen_export = || self.before == Mark::Export { is_read_only: true };
        self.still.stillness.is_none() && !is_idle_device() && !is_frozen_export()
    }

    /// Returns the present state of the source.
    fn mark(&self) -> io::Result<Mark> {
        match &self.before {
            Mark::Export { is_read_only } => Ok(Mark::Export { is_read_only: *is_read_only }),
            Mark::Device { .. } | Mark::File { .. } => Mark::of(&self.name),
        }
    }

    /// Returns the state in which the source was read. A command that was to hold it still may have
    /// left out somebody who writes.
    fn stillness(&self) -> io::Result<ImageStillness> {
        Ok(match self.still.stillness {
            Some(ImageStillness::Frozen) if self.mark()? != self.before => ImageStillness::Fuzzy,
            Some(stillness) => stillness,
            None if self.mark()?.has_changed_since(&self.before) => ImageStillness::Fuzzy,
            None => ImageStillness::Unchanged,
        })
    }

    /// Lets the device go on, and removes its snapshot, unless it stays. `is_made` says that there
    /// is an image of it. Returns warnings about what is left.
    pub fn end(self, is_made: bool) -> Vec<String> {
        let Self { reader, still, .. } = self;
        // A snapshot that is open cannot be removed.
        drop(reader);
        still.end(is_made)
    }
}

/// Returns the block device that is mounted at `path`.
fn device_of_mount(path: &Path) -> Option<PathBuf> {
    // The slash follows a symbolic link to a mount point.
    let path = [path.as_os_str().as_bytes(), b"/"].concat();
    let (root, within) = sys::mount::filespace_root(&path).ok()?;
    if within != b"/" {
        return None;
    }
    let mounted = sys::mount::mounted(&root).ok()??;
    let source = PathBuf::from(OsStr::from_bytes(&mounted.source));
    if block::is_block_device(&source).is_ok_and(|is_device| is_device) {
        return Some(source);
    }
    // The table of mounts may have a name that nobody can open, such as /dev/root.
    block::path_of(std::fs::metadata(OsStr::from_bytes(&root)).ok()?.dev()).ok()
}

impl ImageSource for Source {
    fn bytes(&self) -> u64 {
        self.bytes
    }

    fn used(&self) -> &[Range<u64>] {
        &self.used
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        let read = match &self.reader {
            Reader::Local { direct: Some(direct), .. } => {
                block::read_direct(direct, buffer, offset)
            }
            Reader::Local { cached, .. } => cached.read_exact_at(buffer, offset),
            Reader::Export(export) => return export.read_at(buffer, offset),
        };
        read.map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => {
                io::Error::new(error.kind(), "it has become shorter while it was read")
            }
            _ => error,
        })
    }

    fn failure(&self) -> Option<String> {
        self.still.failure()
    }

    fn is_unchanged(&self, range: &Range<u64>) -> bool {
        match &self.reader {
            Reader::Export(export) => export.is_unchanged(range),
            // Without an older snapshot, the new one was compared with itself.
            Reader::Local { .. } => match &self.changes {
                Some(Ok(changes)) => self.changed_since().is_some() && changes.is_unchanged(range),
                Some(Err(_)) | None => false,
            },
        }
    }

    fn changed_since(&self) -> Option<&str> {
        self.still.staying()?.kept_id()
    }

    fn describe(&self) -> io::Result<ImageDescription> {
        let stillness = self.stillness()?;
        let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
        let (kind, holds) = (self.kind.clone(), self.holds.clone());
        // The holes of a file and of a thin volume are zeros, but free blocks of a device may have
        // any content.
        let staying = self.still.staying();
        let leaves_out_unused =
            kind == DEVICE && staying.is_none() && *self.used != [0..self.bytes];
        let snapshot = staying.map(|snapshots| snapshots.id().to_owned());
        Ok(ImageDescription { stillness, leaves_out_unused, kind, holds, host, snapshot })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_changes_gives_a_fuzzy_image() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("disk");
        std::fs::write(&path, vec![7; 10_000]).expect("written");
        let options = SourceOptions { snapshot: StillnessChoice::Off, ..Default::default() };
        let source = Source::open(&path, &options).expect("opened");
        assert_eq!((source.bytes(), source.used()), (10_000, &[0..10_000][..]));
        let mut tail = [0; 10_000 - 8192];
        source.read_at(&mut tail, 8192).expect("read");
        assert_eq!(tail, [7; 10_000 - 8192]);
        assert_eq!(source.describe().expect("known").stillness, ImageStillness::Unchanged);
        std::fs::write(&path, vec![8; 10_000]).expect("written");
        assert_eq!(source.describe().expect("known").stillness, ImageStillness::Fuzzy);
        assert!(source.may_change());
        let cut = File::options().write(true).open(&path);
        cut.and_then(|file| file.set_len(9000)).expect("cut");
        let error = source.read_at(&mut tail, 8192).expect_err("the end is missing");
        assert_eq!(error.to_string(), "it has become shorter while it was read");
    }

    #[test]
    fn a_frozen_file_that_changes_all_the_same_gives_a_fuzzy_image() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("disk");
        std::fs::write(&path, vec![7; 10_000]).expect("written");
        let (snapshot, freeze) = (StillnessChoice::Off, Some("true".to_owned()));
        let options = SourceOptions { snapshot, freeze, ..Default::default() };
        let source = Source::open(&path, &options).expect("opened");
        assert_eq!(source.describe().expect("known").stillness, ImageStillness::Frozen);
        std::fs::write(&path, vec![8; 10_001]).expect("written");
        assert_eq!(source.describe().expect("known").stillness, ImageStillness::Fuzzy);
    }

    #[test]
    fn what_has_no_image_is_refused() {
        let options = SourceOptions::default();
        for path in ["/proc", "/dev/null", "/nowhere"] {
            assert!(Source::open(Path::new(path), &options).is_err(), "{path}");
        }
    }

    /// A snapshot that could not be made was left out without a word.
    #[test]
    fn what_an_option_asks_for_and_a_source_does_not_have_is_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        let disk = folder.path().join("disk.qcow2");
        std::fs::write(&disk, b"QFI\xfb\0\0\0\x03").expect("written");
        let export = Path::new("nbd+unix:///?socket=/nowhere/socket");
        let refused = |path: &Path, options: &SourceOptions| {
            Source::open(path, options).err().expect("refused").to_string()
        };
        for snapshot in [StillnessChoice::Lvm, StillnessChoice::Reflink] {
            let options = SourceOptions { snapshot, ..Default::default() };
            for path in [export, &disk] {
                let text = refused(path, &options);
                assert!(text.contains("have no snapshot here"), "{text}");
            }
        }
        let options = SourceOptions { format: Some("qcow2".to_owned()), ..Default::default() };
        let text = refused(export, &options);
        assert!(text.contains("leave out --format"), "{text}");
    }

    #[test]
    fn an_export_that_cannot_be_reached_is_refused_with_the_reason() {
        let address = "nbd+unix:///?socket=/nowhere/socket";
        let refused = Source::open(Path::new(address), &SourceOptions::default()).err();
        let text = refused.expect("there is no server").to_string();
        assert!(text.starts_with(&format!("cannot read {address}: ")), "{text}");
        assert!(text.ends_with("No such file or directory (os error 2)"), "{text}");
    }
}
