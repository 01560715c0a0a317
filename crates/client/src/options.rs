//! Options of each command, as the command line or space management fills them in.

use std::path::PathBuf;

use model::{Kind, SampleAmount, ServerTime, Stat};

use crate::tuning::{Stillness, Tuning};

/// Paths of a backup, and the kind of backup.
#[derive(Clone, Debug)]
pub enum Targets {
    /// Progressive backup of everything at and below these paths. Unchanged objects are not sent,
    /// and objects that are gone expire.
    Paths(Vec<Vec<u8>>),
    /// Selective backup of everything at and below these paths. All objects are sent, changed or
    /// not. Nothing expires.
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

/// A server that runs on this machine, as far as a backup has to know it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LocalServer {
    pub folder: Vec<u8>,
    /// Folders of its pools, and of its libraries that have pools.
    pub pools: Vec<Vec<u8>>,
    /// Certificate of its authority, in PEM.
    pub authority: Vec<u8>,
}

/// Options of a backup or an archive.
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is an option of its own")]
pub struct BackupOptions {
    /// Directories, files or whole file systems, as the user gave them.
    pub targets: Targets,
    /// Patterns of excluded objects, in addition to the rules of node and server.
    pub excludes: Vec<Vec<u8>>,
    /// File of statements that replaces the node's own file.
    pub inclexcl: Option<PathBuf>,
    /// True to read every object again, changed or not.
    pub full: bool,
    /// True to only report what a backup would do.
    pub dry_run: bool,
    /// True to descend into other file systems below the paths too.
    pub cross_filesystems: bool,
    /// True if the targets are local file systems, each of which is named itself.
    pub all_local: bool,
    /// True to expire objects even if most objects of the last backup are gone.
    pub confirm_expire: bool,
    /// Means of holding files still. It overrides the setting in the node's folder.
    pub snapshot: Option<Stillness>,
    /// True to walk everything even if a journal could tell what has changed.
    pub no_journal: bool,
    /// True if the targets are a part of what is backed up otherwise: the time of the last backup
    /// of their filespaces stays.
    pub is_partial: bool,
    /// True if a directory among the targets stands for itself alone, without what is in it.
    pub without_content: bool,
    /// True to list the targets that a statement leaves out in the report, without a warning about
    /// each.
    pub lists_excluded: bool,
    /// True if wildcards in the targets stand for the objects of this machine that match.
    pub expands_wildcards: bool,
    /// Mount points of the file systems that space management works in.
    pub managed: Vec<Vec<u8>>,
    /// Servers that run on this machine. A backup that takes the pools of its own server warns.
    pub local_servers: Vec<LocalServer>,
    /// Settings that override the settings in the node's folder, one by one.
    pub tuning: Tuning,
    /// Options of an archive; `None` makes a backup. The targets of an archive must be selective.
    pub archive: Option<ArchiveOptions>,
}

/// Options of an archive.
#[derive(Clone, Debug, Default)]
pub struct ArchiveOptions {
    pub description: String,
    /// Management class of every object. It overrides the rules.
    pub class: Option<String>,
    /// True to delete the files on this machine once the archive is complete and verified.
    pub delete: bool,
}

/// Source of bytes, which is backed up as a file.
pub trait Stream {
    /// Reads some bytes. Returns 0 at the end. Fails with [`std::io::ErrorKind::Interrupted`] if no
    /// byte arrives for a while, so that the caller can check whether the backup was stopped.
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize>;

    /// Fails if the bytes that were read are not the whole stream. It is called once, at the end.
    fn finish(&mut self) -> std::io::Result<()>;

    /// Makes the next read start at the first byte, because the connection was lost. Returns false
    /// if that cannot be.
    fn restart(&mut self) -> bool;

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
    /// The backups of this filespace alone.
    Filespace(Vec<u8>),
    /// The newest of these archives that has the path.
    Archives(ArchiveFilter),
}

/// Filter of archives. An empty filter selects all archives.
#[derive(Clone, Debug, Default)]
pub struct ArchiveFilter {
    pub number: Option<u64>,
    /// Description, with the wildcards `*` and `?`.
    pub description: Option<String>,
}

/// Objects that the path of a deletion stands for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum DeletionScope {
    /// The object alone. The orders for many objects go to the server together.
    Object,
    /// The object and everything below it.
    #[default]
    Subtree,
}

/// Options of a deletion at the server.
#[derive(Clone, Debug, Default)]
pub struct DeleteOptions {
    pub path: Vec<u8>,
    pub scope: DeletionScope,
    /// Filespace to delete from; `None` takes the innermost one that has the path.
    pub filespace: Option<Vec<u8>>,
    /// Archive to delete from; `None` deletes backups.
    pub archive: Option<u64>,
    /// True to delete active versions.
    pub active: bool,
    /// True to delete inactive versions.
    pub inactive: bool,
    /// True to only report what would be deleted.
    pub dry_run: bool,
}

/// Choice of one version of each object.
#[derive(Clone, Debug, Default)]
pub struct VersionChoice {
    /// Time whose state is selected; `None` selects the current state.
    pub at: Option<ServerTime>,
    /// True to select the newest inactive version of an object that is gone.
    pub inactive: bool,
}

/// Rule for objects that exist in the target and differ from the stored version.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum ReplaceRule {
    #[default]
    No,
    /// Replace the object if the stored version has a newer mtime.
    IfNewer,
    All,
}

/// Options of a restore.
#[derive(Clone, Debug)]
pub struct RestoreOptions {
    /// Absolute paths of the objects when they were backed up.
    pub paths: Vec<Vec<u8>>,
    /// Folder that receives the last component of each path, or more of it if two paths have the
    /// same last component; `None` restores to the original path.
    pub to: Option<Vec<u8>>,
    pub which: VersionChoice,
    pub replace: ReplaceRule,
    pub origin: Origin,
    pub part: RestorePart,
}

/// Part of the named objects that a restore brings back.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum RestorePart {
    /// Everything.
    #[default]
    Whole,
    /// Everything but files of at least this size in bytes, because space management makes stubs
    /// of them.
    WithoutFilesFrom(u64),
    /// The directories, with the directories in them.
    Directories,
    /// The directories that the paths name, without anything in them.
    NamedDirectories,
}

impl RestorePart {
    /// Returns true if an object with this status is left out.
    pub fn leaves_out(self, stat: &Stat) -> bool {
        match self {
            Self::Whole => false,
            Self::WithoutFilesFrom(least) => {
                stat.size >= least.max(1) && stat.kind == Kind::File && !stat.linked
            }
            Self::Directories | Self::NamedDirectories => stat.kind != Kind::Directory,
        }
    }
}

/// Options of a verification.
#[derive(Clone, Debug, Default)]
pub struct VerifyOptions {
    /// Absolute paths. If there are none, everything that the node has is verified.
    pub paths: Vec<Vec<u8>>,
    /// True to read every chunk back and check it. Otherwise only the server's tables are checked.
    pub data: bool,
    /// Archive to verify; `None` verifies backups and archives.
    pub archive: Option<u64>,
    /// Sample of everything that the node has, which a restore drill reads back.
    pub sample: Option<Sample>,
}

/// Random sample of the versions of files with content, of all ages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sample {
    pub amount: SampleAmount,
    /// Seed of the choice. The same seed chooses the same versions again.
    pub seed: u64,
}

/// Content of the listed object that is listed too, if the object is a directory.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum ListContent {
    None,
    /// The objects directly in the directory.
    #[default]
    Direct,
    Everything,
}

/// Options of a list.
#[derive(Clone, Debug, Default)]
pub struct ListOptions {
    /// Absolute path; `None` lists the roots of the filespaces.
    pub path: Option<Vec<u8>>,
    pub which: VersionChoice,
    pub content: ListContent,
    /// True to list every version, and not only the version that a restore would select.
    pub all_versions: bool,
    /// Archive to list; `None` lists backups.
    pub archive: Option<u64>,
    /// Filespace to list; `None` takes the innermost one that has the path.
    pub filespace: Option<Vec<u8>>,
}

/// Options of a search for stored objects.
#[derive(Clone, Debug, Default)]
pub struct FindOptions {
    /// Pattern of paths, or of names at any depth.
    pub pattern: Vec<u8>,
    pub which: VersionChoice,
    /// True to find every version, and not only the version that a restore would select.
    pub all_versions: bool,
}

/// Options of a comparison of two times.
#[derive(Clone, Debug)]
pub struct DiffOptions {
    /// Absolute path; `None` compares everything that the node has.
    pub path: Option<Vec<u8>>,
    pub from: ServerTime,
    pub to: ServerTime,
}

/// Options of a preview.
#[derive(Clone, Debug, Default)]
pub struct PreviewOptions {
    pub paths: Vec<Vec<u8>>,
    /// Patterns of excluded objects, as for a backup.
    pub excludes: Vec<Vec<u8>>,
    /// File of statements that replaces the node's own file.
    pub inclexcl: Option<PathBuf>,
    /// True for the decisions of an archive, false for those of a backup.
    pub is_archive: bool,
    /// Class of all objects, in place of the one that the rules choose for each.
    pub class: Option<String>,
    /// Mount points of the file systems that space management works in.
    pub managed: Vec<Vec<u8>>,
}

#[cfg(test)]
mod tests {
    use model::Timestamp;

    use super::*;

    #[test]
    fn only_large_files_of_one_name_are_left_to_space_management() {
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
            let part = RestorePart::WithoutFilesFrom(limit);
            assert_eq!(part.leaves_out(&stat), expected, "{kind:?} {size} {linked} {limit}");
            assert!(!RestorePart::Whole.leaves_out(&stat), "{kind:?}");
            let is_directory = kind == Kind::Directory;
            assert_eq!(RestorePart::Directories.leaves_out(&stat), !is_directory, "{kind:?}");
        };
        check(Kind::File, 100, false, 100, true);
        check(Kind::File, 99, false, 100, false);
        check(Kind::File, 100, true, 100, false);
        check(Kind::Directory, 4096, false, 100, false);
        // A file without content needs no stub, whatever the limit.
        check(Kind::File, 0, false, 0, false);
    }
}
