//! The disk whose images are made: a file with an ext4 file system.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use client::ImageSource as _;
use e2e::harness::{self, Image};
use image::{Source, SourceOptions};
use sys::block;
use sys::huge_memory::HugeMemory;
use sys::loop_device::LoopDevice;

use super::windows::{WINDOW_BYTES, Window, windows};
use crate::output;
use crate::trouble::{Context as _, Trouble};

/// All structures are written at once, not in the background by the kernel.
const MKFS: [&str; 4] = ["mkfs.ext4", "-q", "-E", "lazy_itable_init=0,lazy_journal_init=0"];

/// A disk. Dropping the value unmounts it.
pub(super) struct Disk {
    file: PathBuf,
    mount: Image,
}

impl Disk {
    /// Makes a disk of `bytes` in `folder`, and mounts it.
    pub(super) fn make(folder: &Path, bytes: u64) -> Result<Self, Trouble> {
        let (file, root) = (folder.join("disk"), folder.join("root"));
        let mount = Image::mount(&file, bytes, &MKFS, &root);
        let message = "cannot make and mount a loop device with ext4 here";
        let mount = mount.ok_or_else(|| Trouble::new(message))?;
        Ok(Self { file, mount })
    }

    /// Returns the folder on which the disk can be mounted.
    pub(super) fn root(&self) -> &Path {
        self.mount.path()
    }

    pub(super) fn mount(&self) -> Result<(), Trouble> {
        let message = || format!("cannot mount {}", self.file.display());
        self.mount.mount_again().then_some(()).ok_or_else(|| Trouble::new(message()))
    }

    pub(super) fn unmount(&self) -> Result<(), Trouble> {
        let message = || format!("cannot unmount {}", self.root().display());
        self.mount.unmount().then_some(()).ok_or_else(|| Trouble::new(message()))
    }

    /// Returns the disk as a device that cannot be written. It must not be mounted meanwhile.
    pub(super) fn still(&self) -> Result<StillDisk, Trouble> {
        StillDisk::of(&self.file)
    }
}

/// A disk that is not mounted, as a block device. The device ends when the value is dropped.
pub(super) struct StillDisk {
    device: LoopDevice,
    direct: File,
    pub(super) bytes: u64,
    /// Windows with everything that is in use.
    pub(super) windows: Vec<Window>,
}

impl StillDisk {
    fn of(file: &Path) -> Result<Self, Trouble> {
        let what = || format!("make a loop device of {}", file.display());
        let device = File::open(file).and_then(|file| LoopDevice::read_only(&file, 0, 0));
        let device = device.while_doing(what)?;
        let path = device.path();
        let mut command = Command::new("losetup");
        if !harness::succeeds(command.arg("--direct-io=on").arg(path)) {
            output::warning("the loop device reads through the page cache");
        }
        let what = || format!("read {}", path.display());
        let source = Source::open(path, &SourceOptions::default()).while_doing(what)?;
        let (bytes, windows) = (source.bytes(), windows(source.used()));
        source.end(false).iter().for_each(|text| output::warning(text));
        let direct = block::open_direct(path).while_doing(what)?;
        let message = || format!("{} has no reading past the page cache", path.display());
        let direct = direct.ok_or_else(|| Trouble::new(message()))?;
        Ok(Self { device, direct, bytes, windows })
    }

    pub(super) fn path(&self) -> &Path {
        self.device.path()
    }

    /// Returns the number of bytes that are in use.
    pub(super) fn used_bytes(&self) -> u64 {
        self.windows.iter().map(Window::bytes).sum()
    }

    /// Reads the runs of `window` to their places in `buffer`. The other bytes stay as they are.
    pub(super) fn read(&self, window: &Window, buffer: &mut WindowBuffer) -> io::Result<()> {
        window.runs.iter().try_for_each(|run| {
            let places = places(window, run);
            self.direct.read_exact_at(&mut buffer.bytes()[places], run.start)
        })
    }
}

/// Returns the places of `run` in the buffer of `window`.
pub(super) fn places(window: &Window, run: &std::ops::Range<u64>) -> std::ops::Range<usize> {
    let place = |offset: u64| usize::try_from(offset - window.offset).expect("a window is small");
    place(run.start)..place(run.end)
}

/// Memory for a window, which begins at a block. It is in huge pages, as in the program that is
/// measured: a device is read faster that way.
pub(super) struct WindowBuffer(HugeMemory);

impl WindowBuffer {
    pub(super) fn new() -> Self {
        Self(HugeMemory::new(WINDOW_BYTES))
    }

    pub(super) fn bytes(&mut self) -> &mut [u8] {
        self.0.bytes()
    }
}
