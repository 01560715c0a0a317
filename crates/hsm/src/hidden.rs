//! Hiding the files of a file system from everybody who mounts it without a keeper, because stubs
//! would read as zeros there.
//!
//! ```text
//!   mounted by anybody                         shown by the keeper, once the kernel asks it
//!   /data                                      /data = .holdfast-hidden/files
//!     FILES-ARE-HIDDEN                           2024/...
//!     .holdfast-hidden/    (only for root)
//!       files/2024/...
//! ```
//!
//! All files are in a folder that only root may enter. After the kernel was told to ask about the
//! files, the keeper mounts the directory `files` over the root directory. So no program can have
//! opened a file earlier. Without a keeper, a program that looks for a path finds nothing and gets
//! an error.

use std::io;

use format::stub::{HIDDEN_FILES, HIDDEN_FOLDER};
use model::{Attributes, Stat, escaped};
use sys::mount::{DetachedMount, MountedFilesystem, mounted, mounted_below};
use sys::{Dir, Refusal};

/// Name of the directory that becomes [`HIDDEN_FILES`] once it has the attributes of the root
/// directory.
const NEW_FILES: &[u8] = b"new";
/// Name of a symbolic link to nothing, for users who wonder where their files are. Making a link
/// opens no file about which the kernel would ask.
const NOTE: &[u8] = b"FILES-ARE-HIDDEN";
const NOTE_TEXT: &[u8] = b"until 'holdfast hsm run' shows them here";
/// Names that stay in the root directory. Fsck and quotas look for some of them there.
const STAYS: [&[u8]; 5] = [HIDDEN_FOLDER, NOTE, LOST_AND_FOUND, b"aquota.user", b"aquota.group"];
/// The directory in which a check of a file system puts files that have lost their names.
pub(crate) const LOST_AND_FOUND: &[u8] = b"lost+found";

/// The view of a file system at its mount point.
#[derive(Clone, PartialEq, Eq, Debug)]
enum View {
    /// Files that were never hidden.
    Plain,
    /// The root directory of a file system whose files are hidden.
    Hidden,
    /// Files that are hidden while no keeper runs. `root` is the path of the root directory in the
    /// file system.
    Shown { root: Vec<u8> },
}

fn view(mount_point: &[u8]) -> io::Result<View> {
    let Some(mounted) = mounted(mount_point)? else {
        return Err(io::Error::other("nothing is mounted there"));
    };
    if let Some(root) = root_of_shown(&mounted) {
        return Ok(View::Shown { root: root.to_vec() });
    }
    Ok(if client::is_hidden(&Dir::open(mount_point)?)? { View::Hidden } else { View::Plain })
}

/// The path of the root directory in the file system, if `mounted` shows hidden files.
fn root_of_shown(mounted: &MountedFilesystem) -> Option<&[u8]> {
    let end = [b"/", HIDDEN_FOLDER, b"/", HIDDEN_FILES].concat();
    mounted.root.strip_suffix(&end[..])
}

/// True if `mounted` shows all files of a file system, or of a subvolume of btrfs, and not only
/// those of a directory in it. `inode` is the inode number of the visible directory.
pub fn is_whole(mounted: &MountedFilesystem, inode: u64) -> bool {
    /// Number of the root directory of every subvolume.
    const SUBVOLUME_INODE: u64 = 256;
    let is_root = match &mounted.kind[..] {
        "btrfs" => inode == SUBVOLUME_INODE,
        _ => mounted.root == b"/",
    };
    is_root || root_of_shown(mounted).is_some()
}

/// True if the files of the file system at `mount_point` are hidden while no keeper runs, and shown
/// now.
pub(crate) fn is_shown(mount_point: &[u8]) -> io::Result<bool> {
    Ok(matches!(view(mount_point)?, View::Shown { .. }))
}

/// Hides the files of the file system at `mount_point`, unless they are hidden already, and shows
/// them at the mount point. The kernel must already ask about the files. Returns the names that
/// stay in the root directory because a shown file has the same name.
pub(crate) fn show(mount_point: &[u8]) -> io::Result<Vec<Vec<u8>>> {
    let view = view(mount_point)?;
    if let View::Shown { root } = &view {
        // An interrupted call of `give_up` may have left files in the root directory.
        let (_whole, root) = root_directory(mount_point, root)?;
        return move_all(&root, &files_of(&root)?, &STAYS);
    }
    refuse_mounts_below(mount_point)?;
    let root = Dir::open(mount_point)?;
    let metadata = DirectoryMetadata::of(&root)?;
    let files = folder_of_files(&root, &metadata)?;
    if !root.has(NOTE)? {
        root.make_symlink(NOTE, NOTE_TEXT)?;
    }
    if let Err(error) = move_all(&root, &files, &STAYS) {
        if view == View::Plain {
            // An error of moving back is more serious than the first error.
            bring_back(&root, &files, &metadata)?;
        }
        return Err(error);
    }
    if view == View::Plain {
        // The moves have changed the times of the directory.
        metadata.apply(&files)?;
    }
    sys::space::sync_filesystem(&root)?;
    DetachedMount::of(&files)?.replace(mount_point)?;
    // Files that were made in the root directory meanwhile are moved too.
    move_all(&root, &files, &STAYS)
}

/// Fails if a file system is mounted inside the one at `mount_point`: it would lose its place with
/// the mount that is replaced.
fn refuse_mounts_below(mount_point: &[u8]) -> io::Result<()> {
    let Some(below) = mounted_below(mount_point)? else { return Ok(()) };
    let text = format!("{} is mounted inside it; unmount that file system first", escaped(&below));
    Err(io::Error::other(text))
}

/// The directory to which the files move; it is made with the `metadata` of the root directory.
fn folder_of_files(root: &Dir, metadata: &DirectoryMetadata) -> io::Result<Dir> {
    let folder = root.make_dir(HIDDEN_FOLDER)?;
    let told = folder.stat_self()?.stat;
    if told.uid != 0 || told.mode & 0o7777 != 0o700 {
        let text = format!("{} must belong to root and have mode 0700", escaped(HIDDEN_FOLDER));
        return Err(io::Error::other(text));
    }
    if !folder.has(HIDDEN_FILES)? {
        metadata.apply(&folder.make_dir(NEW_FILES)?)?;
        folder.move_to(NEW_FILES, &folder, HIDDEN_FILES)?;
    }
    folder.open_dir(HIDDEN_FILES)
}

/// Moves the files back to the root directory, where everybody sees them, and shows that directory.
/// No stub may be among the files.
pub(crate) fn give_up(mount_point: &[u8]) -> io::Result<()> {
    match view(mount_point)? {
        View::Plain => Ok(()),
        View::Hidden => bring_all_back(&Dir::open(mount_point)?),
        View::Shown { root } => {
            refuse_mounts_below(mount_point)?;
            let (whole, root) = root_directory(mount_point, &root)?;
            let shown = shown_from(whole, &root)?;
            if let Err(error) = bring_all_back(&root) {
                // Users see the files that are left here. The first error is reported.
                drop(files_of(&root).and_then(|files| move_all(&root, &files, &STAYS)));
                return Err(error);
            }
            shown.replace(mount_point)
        }
    }
}

/// Shows the root directory in the place of the files, so that no program finds the files there.
/// The files stay where they are, and open files stay open.
pub(crate) fn conceal(mount_point: &[u8]) -> io::Result<()> {
    if mounted(mount_point)?.is_none() {
        return Ok(());
    }
    let View::Shown { root } = view(mount_point)? else { return Ok(()) };
    let (whole, root) = root_directory(mount_point, &root)?;
    shown_from(whole, &root)?.replace(mount_point)
}

/// The root directory whose files are shown at `mount_point`, and the mount of its file system.
fn root_directory(mount_point: &[u8], within: &[u8]) -> io::Result<(DetachedMount, Dir)> {
    let whole = DetachedMount::whole(mount_point, within)?;
    let top = whole.root()?;
    if top.has(HIDDEN_FOLDER)? {
        return Ok((whole, top));
    }
    let mut parts = within.split(|&byte| byte == b'/').filter(|part| !part.is_empty());
    let root = parts.try_fold(top, |above, part| above.open_dir(part))?;
    Ok((whole, root))
}

/// The mount and the root directory of the file system, if its files are shown at `mount_point`.
pub(crate) fn root_of_shown_files(mount_point: &[u8]) -> io::Result<Option<(DetachedMount, Dir)>> {
    match view(mount_point)? {
        View::Shown { root } => root_directory(mount_point, &root).map(Some),
        View::Plain | View::Hidden => Ok(None),
    }
}

/// Makes a mount of `root`, which lies in the mount `whole`.
fn shown_from(whole: DetachedMount, root: &Dir) -> io::Result<DetachedMount> {
    let is_top = whole.root()?.stat_self()?.stat.inode == root.stat_self()?.stat.inode;
    if is_top { Ok(whole) } else { DetachedMount::of(root) }
}

fn files_of(root: &Dir) -> io::Result<Dir> {
    root.open_dir(HIDDEN_FOLDER)?.open_dir(HIDDEN_FILES)
}

fn bring_all_back(root: &Dir) -> io::Result<()> {
    let files = files_of(root)?;
    bring_back(root, &files, &DirectoryMetadata::of(&files)?)
}

/// Moves everything in `files` to `root`, which gets `metadata`.
fn bring_back(root: &Dir, files: &Dir, metadata: &DirectoryMetadata) -> io::Result<()> {
    let two = |name: &[u8]| {
        let text = format!("two files have the name {}; rename one of them", escaped(name));
        io::Error::other(text)
    };
    // The names are checked before the first move: otherwise users would see only some of the
    // files.
    for name in files.names()? {
        if root.has(&name)? {
            return Err(two(&name));
        }
    }
    if let Some(name) = move_all(files, root, &[])?.first() {
        return Err(two(name));
    }
    root.open_dir(HIDDEN_FOLDER)?.remove(HIDDEN_FILES, true)?;
    root.remove(HIDDEN_FOLDER, true)?;
    if root.has(NOTE)? {
        root.remove(NOTE, false)?;
    }
    metadata.apply(root)?;
    sys::space::sync_filesystem(root)
}

/// Moves the entries of `from`, sockets too, except those in `stays`. Returns the names that `to`
/// already has.
fn move_all(from: &Dir, to: &Dir, stays: &[&[u8]]) -> io::Result<Vec<Vec<u8>>> {
    let mut left = Vec::new();
    for name in from.names()? {
        if stays.contains(&&name[..]) {
            continue;
        }
        match from.move_to(&name, to, &name) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => left.push(name),
            Err(error) => {
                return Err(io::Error::new(error.kind(), format!("{}: {error}", escaped(&name))));
            }
        }
    }
    left.sort();
    Ok(left)
}

/// Owner, mode, attributes and times of a directory.
struct DirectoryMetadata {
    stat: Stat,
    attributes: Attributes,
}

impl DirectoryMetadata {
    fn of(directory: &Dir) -> io::Result<Self> {
        let stat = directory.stat_self()?.stat;
        Ok(Self { stat, attributes: directory.own_attributes()? })
    }

    fn apply(&self, to: &Dir) -> io::Result<()> {
        match to.apply(&self.stat, &self.attributes, true).refused.into_iter().next() {
            None => Ok(()),
            Some(Refusal { part, error }) => {
                let text = format!("the {part:?} of its root directory: {error}");
                Err(io::Error::new(error.kind(), text))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_that_is_mounted_elsewhere_is_no_whole_file_system() {
        let check = |kind: &str, root: &str, inode: u64| {
            let (root, kind, source) = (root.as_bytes().to_vec(), kind.to_owned(), Vec::new());
            is_whole(&MountedFilesystem { root, kind, source }, inode)
        };
        assert!(check("ext4", "/", 2) && check("xfs", "/", 128));
        assert!(check("xfs", "/.holdfast-hidden/files", 135));
        assert!(!check("ext4", "/2024", 13));
        assert!(!check("xfs", "/.holdfast-hidden/files/2024", 136));
        assert!(check("btrfs", "/", 256) && check("btrfs", "/sub", 256));
        assert!(check("btrfs", "/sub/.holdfast-hidden/files", 300));
        assert!(!check("btrfs", "/sub/2024", 301));
    }
}
