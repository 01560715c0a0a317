//! A file system as it was at one moment, to be read while its files change.
//!
//! The system's own tools make the snapshot: `btrfs` for a btrfs subvolume, `lvcreate` and `mount`
//! for a logical volume. Both keep inode numbers and times, so a backup of the snapshot can be
//! compared with a backup of the original. If a process is killed, the next process removes its
//! snapshot.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::SystemTime;

use crate::mount;
use crate::thin_pool::ThinSnapshots;

/// Prefix of the names of all snapshots; the number of the process follows, and the number of the
/// device if the process makes several snapshots.
const PREFIX: &str = "holdfast-snapshot-";
/// Folder in which snapshots of logical volumes are mounted while they are read.
const MOUNTS: &str = "/run";
/// Number by which the kernel identifies btrfs. Source: Linux, `include/uapi/linux/magic.h`.
const BTRFS_MAGIC: i64 = 0x9123_683e;
/// Room for changes while the snapshot exists, in per cent of the volume; a thin volume needs no
/// such room.
const VOLUME_ROOM: &str = "20%ORIGIN";

/// Means of holding a file system still.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Means {
    /// A read-only snapshot of the subvolume.
    Btrfs,
    /// A snapshot of the logical volume.
    Lvm,
}

/// A snapshot of a file system or a device. It is removed by [`FrozenFilesystem::thaw`] or when it
/// is dropped, unless [`FrozenFilesystem::keep`] lets it stay.
#[derive(Debug)]
pub struct FrozenFilesystem {
    root: PathBuf,
    /// Snapshot of LVM.
    volume: Option<LogicalVolume>,
    /// Steps that remove the snapshot, in this order.
    undo: Vec<UndoStep>,
}

#[derive(Debug)]
enum UndoStep {
    Run(Vec<OsString>),
    RemoveDir(PathBuf),
    /// Deletes a snapshot from the directory in which it was made. The directory gets its old time
    /// back, unless something other than the snapshot has changed it.
    Subvolume {
        path: PathBuf,
        root: PathBuf,
        before: SystemTime,
        during: SystemTime,
    },
}

/// Finds a means of holding the file system with the root directory `root` still.
pub fn means_for(root: &[u8]) -> io::Result<Option<Means>> {
    let path = Path::new(OsStr::from_bytes(root));
    let directory = std::fs::File::open(path)?;
    // The number is sign extended or not, by architecture and kernel.
    if rustix::fs::fstatfs(&directory)?.f_type & 0xffff_ffff == BTRFS_MAGIC {
        return Ok(Some(Means::Btrfs));
    }
    let Some(mounted) = mount::mounted(root)? else { return Ok(None) };
    let is_device = mounted.source.starts_with(b"/dev/");
    Ok((is_device && volume(&mounted.source).is_ok()).then_some(Means::Lvm))
}

/// Holds the file system with the root directory `root` still. Usually needs root's rights.
pub fn freeze(root: &[u8], means: Means) -> io::Result<FrozenFilesystem> {
    let name = format!("{PREFIX}{}", std::process::id());
    match means {
        Means::Btrfs => freeze_subvolume(Path::new(OsStr::from_bytes(root)), &name),
        Means::Lvm => freeze_volume(root, &name),
    }
}

/// Returns true if the device is a logical volume, of which a snapshot can be made.
pub fn is_logical_volume(device: &Path) -> bool {
    volume(device.as_os_str().as_bytes()).is_ok()
}

/// Makes a snapshot of the logical volume `device`. LVM holds a file system on it still meanwhile.
/// Several snapshots of one process have different numbers. The snapshot of a thin volume that may
/// stay cannot be written.
pub fn freeze_device(device: &Path, number: u32, may_stay: bool) -> io::Result<FrozenFilesystem> {
    let name = format!("{PREFIX}{}-{number}", std::process::id());
    snapshot_of(&volume(device.as_os_str().as_bytes())?, &name, may_stay)
}

impl FrozenFilesystem {
    /// Returns the path of the snapshot's root directory, or of the device of the snapshot.
    pub fn root(&self) -> &[u8] {
        self.root.as_os_str().as_bytes()
    }

    /// Returns true if this is the snapshot of a device and has had no room for the changes of the
    /// device. Then nothing of it can be read any more.
    pub fn is_out_of_room(&self) -> bool {
        let lvs = ["lvs", "--noheadings", "-o", "lv_attr"].map(OsStr::new);
        let listed = run(&words(&[&lvs[..], &[self.root.as_os_str()]].concat()));
        listed.is_ok_and(|attributes| is_invalid(&attributes))
    }

    /// Returns the snapshot, if LVM has made it.
    pub(crate) fn volume(&self) -> Option<&LogicalVolume> {
        self.volume.as_ref()
    }

    /// Lets the snapshot of a thin volume stay, in place of those that have stayed before. If that
    /// fails, the snapshot is removed.
    pub fn keep(mut self, snapshots: &ThinSnapshots) -> io::Result<()> {
        snapshots.replace_kept()?;
        self.undo.clear();
        Ok(())
    }

    /// Removes the snapshot and everything that was made for it.
    pub fn thaw(mut self) -> io::Result<()> {
        self.undo()
    }

    fn undo(&mut self) -> io::Result<()> {
        let mut outcome = Ok(());
        for step in std::mem::take(&mut self.undo) {
            let done = match step {
                UndoStep::Run(words) => run(&words).map(drop),
                UndoStep::RemoveDir(path) => std::fs::remove_dir(path),
                UndoStep::Subvolume { path, root, before, during } => {
                    remove_subvolume(&path, &root, (before, during))
                }
            };
            outcome = outcome.and(done);
        }
        outcome
    }
}

impl Drop for FrozenFilesystem {
    fn drop(&mut self) {
        // A failure cannot be reported any more; the next process tries again.
        drop(self.undo());
    }
}

pub(crate) fn words(words: &[&OsStr]) -> Vec<OsString> {
    words.iter().map(OsString::from).collect()
}

/// Runs a tool to its end and returns its output; the error has the tool's own message.
pub(crate) fn run(words: &[OsString]) -> io::Result<Vec<u8>> {
    let [program, arguments @ ..] = words else { return Ok(Vec::new()) };
    let output = Command::new(program).args(arguments).stdin(Stdio::null()).output();
    let shown = program.to_string_lossy();
    let output = output
        .map_err(|error| io::Error::new(error.kind(), format!("cannot run {shown}: {error}")))?;
    if output.status.success() {
        return Ok(output.stdout);
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let said = said.lines().map(str::trim).filter(|line| !line.is_empty());
    Err(io::Error::other(format!("{shown}: {}", said.collect::<Vec<_>>().join("; "))))
}

/// Returns the number of the process that made the snapshot `name`, if the name has the form of
/// Holdfast's snapshots.
fn maker(name: &[u8]) -> Option<u32> {
    let number = str::from_utf8(name.strip_prefix(PREFIX.as_bytes())?).ok()?;
    // The snapshots of devices have a second number.
    let process = number.split_once('-').map_or(number, |(process, _)| process);
    process.parse().ok()
}

fn is_dead(process: u32) -> io::Result<bool> {
    let path = Path::new("/proc").join(process.to_string());
    path.try_exists().map(|is_alive| !is_alive)
}

fn freeze_subvolume(root: &Path, name: &str) -> io::Result<FrozenFilesystem> {
    let hidden = |name: &[u8]| root.join(OsStr::from_bytes(&[b".", name].concat()));
    for entry in std::fs::read_dir(root)? {
        let found = entry?.file_name();
        let ours = found.as_bytes().strip_prefix(b".").and_then(|name| Some((name, maker(name)?)));
        if let Some((name, process)) = ours
            && is_dead(process)?
        {
            run(&delete_subvolume(&hidden(name)))?;
        }
    }
    let path = hidden(name.as_bytes());
    let before = modified(root)?;
    let btrfs = ["btrfs", "subvolume", "snapshot", "-r"].map(OsStr::new);
    run(&words(&[&btrfs[..], &[root.as_os_str(), path.as_os_str()]].concat()))?;
    let during = modified(root).unwrap_or(before);
    let undo = UndoStep::Subvolume { path: path.clone(), root: root.to_owned(), before, during };
    Ok(FrozenFilesystem { root: path, volume: None, undo: vec![undo] })
}

fn modified(directory: &Path) -> io::Result<SystemTime> {
    std::fs::metadata(directory)?.modified()
}

fn remove_subvolume(
    path: &Path,
    root: &Path,
    (before, during): (SystemTime, SystemTime),
) -> io::Result<()> {
    let is_ours = modified(root)? == during;
    run(&delete_subvolume(path))?;
    if is_ours { std::fs::File::open(root)?.set_modified(before) } else { Ok(()) }
}

fn delete_subvolume(path: &Path) -> Vec<OsString> {
    let btrfs = ["btrfs", "subvolume", "delete"].map(OsStr::new);
    words(&[&btrfs[..], &[path.as_os_str()]].concat())
}

/// A logical volume that is mounted or read.
#[derive(Debug)]
pub(crate) struct LogicalVolume {
    pub(crate) group: String,
    pub(crate) name: String,
    pub(crate) is_thin: bool,
}

/// Returns true if the attributes of a logical volume are those of a snapshot that is invalid:
/// `I`, or `S` if it is suspended, in the fifth place. Source: lvs(8).
fn is_invalid(attributes: &[u8]) -> bool {
    matches!(attributes.trim_ascii().get(4), Some(b'I' | b'S'))
}

/// Returns the name of the volume group that has `device` as a physical volume, even if the kernel
/// does not use it now.
pub fn volume_group_of(device: &Path) -> Option<String> {
    let pvs = ["pvs", "--noheadings", "-o", "vg_name"].map(OsStr::new);
    let listed = run(&words(&[&pvs[..], &[device.as_os_str()]].concat())).ok()?;
    let group = String::from_utf8_lossy(&listed).trim().to_owned();
    (!group.is_empty()).then_some(group)
}

/// Returns the name by which LVM knows a device that the kernel calls by a number, such as
/// `/dev/dm-3`, or to which another path leads.
fn name_of_mapping(source: &[u8]) -> Option<Vec<u8>> {
    let device = std::fs::metadata(OsStr::from_bytes(source)).ok()?.rdev();
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    let name = std::fs::read(format!("/sys/dev/block/{major}:{minor}/dm/name")).ok()?;
    Some([b"/dev/mapper/", name.trim_ascii_end()].concat())
}

fn volume(source: &[u8]) -> io::Result<LogicalVolume> {
    let mapping = name_of_mapping(source);
    let source = mapping.as_deref().unwrap_or(source);
    let lvs = ["lvs", "--noheadings", "--separator", "/", "-o", "vg_name,lv_name,pool_lv"];
    let source = OsStr::from_bytes(source);
    let listed = run(&words(&[&lvs.map(OsStr::new)[..], &[source]].concat()))?;
    let listed = String::from_utf8_lossy(&listed).into_owned();
    let mut fields = listed.trim().splitn(3, '/').map(str::to_owned);
    match (fields.next(), fields.next(), fields.next()) {
        (Some(group), Some(name), pool) if !name.is_empty() => {
            let is_thin = pool.is_some_and(|pool| !pool.is_empty());
            Ok(LogicalVolume { group, name, is_thin })
        }
        _ => Err(io::Error::other("the device is not a logical volume")),
    }
}

fn freeze_volume(root: &[u8], name: &str) -> io::Result<FrozenFilesystem> {
    let unmounted = || io::Error::other(format!("nothing is mounted at {}", root.escape_ascii()));
    let mounted = mount::mounted(root)?.ok_or_else(unmounted)?;
    let snapshot = snapshot_of(&volume(&mounted.source)?, name, false)?;
    let device = snapshot.root.clone();
    let mut frozen = snapshot;
    let folder = Path::new(MOUNTS).join(name);
    std::fs::create_dir(&folder)?;
    frozen.undo.insert(0, UndoStep::RemoveDir(folder.clone()));
    // XFS refuses to mount a second file system with the same UUID.
    let options = if mounted.kind == "xfs" { "ro,nouuid" } else { "ro" };
    let mount = ["mount", "-o", options].map(OsStr::new);
    run(&words(&[&mount[..], &[device.as_os_str(), folder.as_os_str()]].concat()))?;
    frozen
        .undo
        .insert(0, UndoStep::Run(words(&[OsStr::new("umount"), folder.as_os_str()])));
    // If only a part of the file system is mounted, only that part is read.
    let part = mounted.root.strip_prefix(b"/").unwrap_or(&mounted.root).to_vec();
    frozen.root = folder.join(OsString::from_vec(part));
    Ok(frozen)
}

/// Makes the snapshot `name` of a logical volume. The root of the result is its device.
fn snapshot_of(volume: &LogicalVolume, name: &str, may_stay: bool) -> io::Result<FrozenFilesystem> {
    let LogicalVolume { group, name: origin, is_thin } = volume;
    remove_dead_volumes(group)?;
    let mut create = words(&["lvcreate", "--snapshot", "--name", name].map(OsStr::new));
    if *is_thin {
        create.extend(words(&["--setactivationskip", "n"].map(OsStr::new)));
        if may_stay {
            create.extend(words(&["--permission", "r"].map(OsStr::new)));
        }
    } else {
        create.extend(words(&["--extents", VOLUME_ROOM].map(OsStr::new)));
    }
    create.push(format!("{group}/{origin}").into());
    run(&create)?;
    let undo = vec![UndoStep::Run(remove(group, name))];
    let root = Path::new("/dev").join(group).join(name);
    let volume = LogicalVolume { group: group.clone(), name: name.to_owned(), is_thin: *is_thin };
    Ok(FrozenFilesystem { root, volume: Some(volume), undo })
}

/// Returns the command that removes a logical volume.
pub(crate) fn remove(group: &str, name: &str) -> Vec<OsString> {
    let path = format!("{group}/{name}");
    words(&["lvremove", "--yes", &path].map(OsStr::new))
}

fn remove_dead_volumes(group: &str) -> io::Result<()> {
    let listed = run(&words(&["lvs", "--noheadings", "-o", "lv_name", group].map(OsStr::new)))?;
    for name in String::from_utf8_lossy(&listed).lines().map(str::trim) {
        if let Some(process) = maker(name.as_bytes())
            && is_dead(process)?
        {
            let folder = Path::new(MOUNTS).join(name);
            // The process may have died before it mounted the volume, or after it unmounted it.
            drop(run(&words(&[OsStr::new("umount"), folder.as_os_str()])));
            drop(std::fs::remove_dir(&folder));
            run(&remove(group, name))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_made_tells_its_maker() {
        assert_eq!(maker(b"holdfast-snapshot-17"), Some(17));
        assert_eq!(maker(b"holdfast-snapshot-17-2"), Some(17));
        for name in [&b"holdfast-snapshot-"[..], b"holdfast-snapshot-x", b"other", b"\xff"] {
            assert_eq!(maker(name), None);
        }
        assert!(!is_dead(std::process::id()).expect("asked"));
    }

    #[test]
    fn the_attributes_of_a_snapshot_tell_whether_it_is_lost() {
        for (attributes, is_lost) in [
            (&b"  swi-I-s---\n"[..], true),
            (b"  swi-S-s---\n", true),
            (b"  swi-a-s---\n", false),
            (b"  Vwi-a-tz--\n", false),
            (b"", false),
        ] {
            assert_eq!(is_invalid(attributes), is_lost, "{}", attributes.escape_ascii());
        }
    }

    #[test]
    fn a_tool_that_fails_says_why() {
        let missing = run(&words(&[OsStr::new("holdfast-no-such-tool")])).expect_err("fails");
        assert!(missing.to_string().contains("holdfast-no-such-tool"), "{missing}");
        let said = run(&words(&["sh", "-c", "echo no; echo why >&2; exit 3"].map(OsStr::new)));
        assert_eq!(said.expect_err("fails").to_string(), "sh: why");
    }

    #[test]
    fn a_memory_file_system_cannot_be_held_still() {
        if std::fs::metadata("/dev/shm").is_ok() {
            assert_eq!(means_for(b"/dev/shm").expect("asked"), None);
        }
    }
}
