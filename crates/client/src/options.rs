//! Options of each command, as the command line or space management fills them in.

use std::path::PathBuf;

use model::{Kind, ServerTime, Stat};

use crate::tuning::{Stillness, Tuning};

/// Paths of a backup, and how much of them is sent.
#[derive(Clone, Debug)]
pub enum Targets {
    /// Everything at and below these paths, progressively: an unchanged object is not sent, and an
    /// object that is gone expires.
    Paths(Vec<Vec<u8>>),
    /// Everything at and below these paths is sent, changed or not. Nothing expires.
    Selective(Vec<Vec<u8>>),
}

impl Targets {
    pub(crate) fn paths(&self) -> &[Vec<u8>] {
        match self {
            Self::Paths(paths) | Self::Selective(paths) => paths,
        }
    }

    pub(crate) fn is_selective(&self) -> bool {
        matches!(self, Self::Selective(_))
    }
}

/// Options of a backup or an archive.
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is an option of its own")]
pub struct BackupOptions {
    /// Directories, files or whole file systems, as the user gave them.
    pub targets: Targets,
    /// Patterns of excluded objects, beside the rules of node and server.
    pub excludes: Vec<Vec<u8>>,
    /// List of statements that replaces the node's own.
    pub inclexcl: Option<PathBuf>,
    /// Read every object again, changed or not.
    pub full: bool,
    /// Only report what a backup would do.
    pub dry_run: bool,
    /// Descend into other file systems below the paths too.
    pub cross_filesystems: bool,
    /// Expire even where most of the last backup's objects are gone.
    pub confirm_expire: bool,
    /// Overrides the setting in the node's folder.
    pub snapshot: Option<Stillness>,
    /// Overrides the settings in the node's folder, one by one.
    pub tuning: Tuning,
    /// Make an archive instead of a backup. Its targets are selective.
    pub archive: Option<ArchiveOptions>,
}

/// Options of an archive.
#[derive(Clone, Debug, Default)]
pub struct ArchiveOptions {
    pub description: String,
    /// Management class of every object, whatever the rules say.
    pub class: Option<String>,
    /// Delete the files on this machine once the archive is complete and verified.
    pub delete: bool,
}

/// Source of bytes with an end, to be backed up as a file.
pub trait Stream {
    /// Reads some bytes; returns 0 at the end. Returns [`std::io::ErrorKind::Interrupted`] when no
    /// byte has come for a while, so that the backup can be stopped meanwhile.
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize>;

    /// Fails if the bytes that were read are not the whole stream. Called once, at the end.
    fn finish(&mut self) -> std::io::Result<()>;

    /// Returns true if a read after [`Self::finish`] starts again at the first byte.
    fn repeats(&self) -> bool;
}

/// Filespace that holds streams as files.
pub const STREAM_FILESPACE: &[u8] = b"/stdin";

/// Source of a restore.
#[derive(Clone, Debug, Default)]
pub enum Origin {
    #[default]
    Backups,
    /// The newest of these archives that has the path.
    Archives(ArchiveFilter),
}

/// Selects archives; an empty filter selects all of them.
#[derive(Clone, Debug, Default)]
pub struct ArchiveFilter {
    pub number: Option<u64>,
    /// Description, with the wildcards `*` and `?`.
    pub description: Option<String>,
}

/// Options of a deletion at the server.
#[derive(Clone, Debug, Default)]
pub struct DeleteOptions {
    pub path: Vec<u8>,
    /// Archive to delete from; `None` deletes backups.
    pub archive: Option<u64>,
    /// Delete active versions.
    pub active: bool,
    /// Delete inactive versions.
    pub inactive: bool,
    /// Only report what would be deleted.
    pub dry_run: bool,
}

/// Selects one version of each object.
#[derive(Clone, Debug, Default)]
pub struct VersionChoice {
    /// Time whose state is selected; `None` selects the current state.
    pub at: Option<ServerTime>,
    /// Select the newest inactive version of an object that is gone.
    pub inactive: bool,
}

/// Decides about objects that exist in the target and differ from the stored version.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Replace {
    #[default]
    No,
    /// Replace if the stored version has the newer mtime.
    IfNewer,
    All,
}

/// Options of a restore.
#[derive(Clone, Debug)]
pub struct RestoreOptions {
    /// Absolute paths of the objects when they were backed up.
    pub paths: Vec<Vec<u8>>,
    /// Folder that receives the last component of each path; `None` restores to the old place.
    pub to: Option<Vec<u8>>,
    pub which: VersionChoice,
    pub replace: Replace,
    pub origin: Origin,
    /// Size in bytes from which files are left out: space management makes stubs of them.
    pub left_out_from: Option<u64>,
}

/// Returns true if a restore leaves the file out, so that space management makes a stub of it.
pub fn is_left_out(stat: &Stat, left_out_from: Option<u64>) -> bool {
    let is_large = left_out_from.is_some_and(|least| stat.size >= least.max(1));
    is_large && stat.kind == Kind::File && !stat.linked
}

/// Options of a verification.
#[derive(Clone, Debug, Default)]
pub struct VerifyOptions {
    /// Absolute paths; none selects everything that the node has.
    pub paths: Vec<Vec<u8>>,
    /// Read every chunk back and check it. Otherwise only the server's tables are checked.
    pub data: bool,
    /// Verify this archive only.
    pub archive: Option<u64>,
}

/// Options of a list.
#[derive(Clone, Debug, Default)]
pub struct ListOptions {
    /// Absolute path; `None` lists the roots of the filespaces.
    pub path: Option<Vec<u8>>,
    pub which: VersionChoice,
    pub recursive: bool,
    /// List every version, not only the one that a restore would take.
    pub all_versions: bool,
    /// List this archive instead of backups.
    pub archive: Option<u64>,
}

/// Options of a preview.
#[derive(Clone, Debug, Default)]
pub struct PreviewOptions {
    pub paths: Vec<Vec<u8>>,
    /// Patterns of excluded objects, as for a backup.
    pub excludes: Vec<Vec<u8>>,
    /// List of statements that replaces the node's own.
    pub inclexcl: Option<PathBuf>,
}

#[cfg(test)]
mod tests {
    use model::Timestamp;

    use super::*;

    #[test]
    fn only_large_files_of_one_name_are_left_out() {
        let check = |kind, size, linked, limit, expected| {
            let stat = Stat {
                kind,
                mode: 0o644,
                uid: 0,
                gid: 0,
                size,
                mtime: Timestamp::default(),
                ctime: Timestamp::default(),
                inode: 1,
                linked,
                device: 0,
            };
            assert_eq!(is_left_out(&stat, limit), expected, "{kind:?} {size} {linked} {limit:?}");
        };
        check(Kind::File, 100, false, Some(100), true);
        check(Kind::File, 99, false, Some(100), false);
        check(Kind::File, 100, true, Some(100), false);
        check(Kind::Directory, 4096, false, Some(100), false);
        check(Kind::File, 100, false, None, false);
        // A file without content needs no stub, whatever the limit.
        check(Kind::File, 0, false, Some(0), false);
    }
}
