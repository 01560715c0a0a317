//! The server with the backup, and the programs that read it.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::file::mix::Mixer;
use crate::machine;
use crate::process::{self, Runner, Server};
use crate::site::Site;
use crate::trouble::{Context as _, Trouble};
use crate::walk;
use crate::workplace::Workplace;

/// Pause between two looks at a mount that begins.
const PAUSE: Duration = Duration::from_millis(20);
/// Maximum number of these looks.
const LOOKS_MAX: usize = 500;

/// One reading of a mount.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Reading {
    pub(super) wall: Duration,
    /// Processor time of the program, of the mount and of the server.
    pub(super) cpu: Duration,
    /// Peak memory of the mount.
    pub(super) memory_bytes: u64,
}

/// The measurements of one round.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Round {
    /// Number of objects that `find` has found.
    pub(super) objects: u64,
    pub(super) restore: Duration,
    pub(super) find: Reading,
    pub(super) tar: Reading,
    pub(super) large: Reading,
}

pub(super) struct Scene<'a> {
    site: Site<'a>,
    server: Server,
    runner: &'a Runner,
    tree: PathBuf,
    large: PathBuf,
    folder: PathBuf,
}

impl<'a> Scene<'a> {
    /// Backs up `tree`, and a file of `bytes` bytes.
    pub(super) fn new(
        tree: &Path,
        bytes: u64,
        workplace: &Workplace,
        runner: &'a Runner,
    ) -> Result<Self, Trouble> {
        let folder = workplace.folder("mount")?;
        let large = folder.join("large");
        let what = || format!("make {}", large.display());
        let mut file = File::create_new(&large).while_doing(what)?;
        Mixer::with_text_of(tree)?.write(&mut file, bytes).while_doing(what)?;
        let site = Site::new(runner, workplace.folder("site")?);
        let server = site.enrolled()?;
        site.client(&["backup".as_ref(), tree.as_os_str(), large.as_os_str()])?;
        let tree = tree.to_owned();
        Ok(Self { site, server, runner, tree, large, folder })
    }

    pub(super) fn round(&self, number: usize) -> Result<Round, Trouble> {
        let target = self.folder.join(format!("restored-{number}"));
        let words: [&OsStr; 4] =
            ["restore".as_ref(), self.tree.as_os_str(), "--to".as_ref(), target.as_os_str()];
        machine::settle();
        let restore = self.site.measured(&self.server, &words)?.wall;
        let mut objects = 0;
        let find = self.reading(&self.tree, |path| {
            let counted = Command::new("find").arg(path).stderr(Stdio::null()).output();
            let found = counted.while_doing(|| "run find".to_owned())?;
            objects = found.stdout.iter().filter(|byte| **byte == b'\n').count() as u64;
            Ok(())
        })?;
        let tar = self.reading(&self.tree, |path| {
            let mut command = Command::new("/bin/sh");
            command
                .args(["-c", "tar -cf - -C \"$1\" . | cat > /dev/null", "bench"])
                .arg(path);
            succeed(&mut command, "tar")
        })?;
        let large = self.reading(&self.large, |path| {
            let mut file = File::open(path).while_doing(|| "open the large file".to_owned())?;
            std::io::copy(&mut file, &mut std::io::sink())
                .while_doing(|| "read the large file".to_owned())?;
            Ok(())
        })?;
        let expected = walk::walk(&self.tree)?.objects;
        if objects != expected {
            let message = format!("find has found {objects} objects in the mount of {expected}");
            return Err(Trouble::new(message));
        }
        Ok(Round { objects, restore, find, tar, large })
    }

    /// Mounts the backup, and measures `work` with the path at which `of` appears in the mount.
    fn reading(
        &self,
        of: &Path,
        work: impl FnOnce(&Path) -> Result<(), Trouble>,
    ) -> Result<Reading, Trouble> {
        machine::settle();
        let mount = self.mount()?;
        let path = mount.path.join("latest").join(of.strip_prefix("/").unwrap_or(of));
        let before = self.cpu(&mount)?;
        let (done, wall) = e2e::clock::timed(|| work(&path));
        done?;
        let cpu = self.cpu(&mount)?.saturating_sub(before);
        Ok(Reading { wall, cpu, memory_bytes: machine::peak_memory_of(mount.process.pid())? })
    }

    /// Returns the processor time so far of the server, of a mount, of the bench and its children.
    fn cpu(&self, mount: &Mount) -> Result<Duration, Trouble> {
        let own = sys::process::cpu_time() + sys::process::cpu_time_of_children();
        let of_mount = machine::cpu_of(mount.process.pid())?;
        Ok(own + of_mount + machine::cpu_of(self.server.pid())?)
    }

    fn mount(&self) -> Result<Mount, Trouble> {
        let path = self.folder.join("mnt");
        fs::create_dir_all(&path).while_doing(|| format!("make {}", path.display()))?;
        let home = self.site.home();
        let words: [&OsStr; 4] =
            ["mount".as_ref(), path.as_os_str(), "--home".as_ref(), home.as_os_str()];
        let process = self.runner.start(&words, "mount")?;
        let mount = Mount { process, path };
        for _ in 0..LOOKS_MAX {
            process::check_interrupted()?;
            if mount.path.join("latest").is_dir() {
                return Ok(mount);
            }
            sys::clock::sleep(PAUSE);
        }
        Err(Trouble::new("holdfast mount shows nothing"))
    }
}

/// A mount. It ends when it is dropped.
struct Mount {
    process: Server,
    path: PathBuf,
}

impl Drop for Mount {
    fn drop(&mut self) {
        // The process ends by itself after that.
        drop(
            Command::new("umount")
                .arg("-l")
                .arg(OsStr::from_bytes(self.path.as_os_str().as_bytes()))
                .status(),
        );
    }
}

fn succeed(command: &mut Command, name: &str) -> Result<(), Trouble> {
    let status = command.status().while_doing(|| format!("run {name}"))?;
    if status.success() { Ok(()) } else { Err(Trouble::new(format!("{name} failed: {status}"))) }
}
