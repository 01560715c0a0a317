//! The client: enrolment, backup, restore, verification, listing, and administration.
//!
//! A [`Client`] is a connection to the server as this machine's node. The stages of a backup or a
//! restore are threads joined by bounded queues; only the edge to the network is asynchronous, and
//! [`Client`] hides it: every method blocks.
//!
//! Nothing here reads the environment, prints, or ends the process.

pub mod admin;
mod archive;
mod backup;
mod cache;
mod error;
mod home;
pub mod keys;
mod link;
mod list;
mod preview;
mod progress;
mod report;
mod restore;
mod rules;
mod tuning;

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use model::{BatchId, CopyId, DirPath, Kind, Name, ServerTime, Stat};
use sys::{Dir, Found};

pub use archive::{ArchiveSummary, DeletionSummary};
pub use backup::{BATCH_FILES_MAX, Copied, Migrant, Targets, is_hidden};
pub use chunk::Compression;
pub use error::{ClientError, ErrorKind};
pub use home::{Commands, Enrolled, SYSTEM_FOLDER, commands, enroll};
pub use link::{Class, FilespaceSummary, Hello};
pub use list::{ListedCopy, ListedVersion};
pub use preview::{PreviewOptions, Previewed, RuleShown, Ruled};
pub use progress::{Phase, Progress};
pub use report::{BackupReport, Failure, RestoreReport, VerifyReport};
pub use restore::{Filling, Staging};
pub use rules::{FileTreatment, SpaceRules};
pub use tuning::{CompressionChoice, Stillness, Tuning};
pub use wire::proto::{PlannedVolume, Purpose, RecallPlan, purpose};

/// What to back up and how.
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is an option of its own")]
pub struct BackupOptions {
    /// Paths of directories, files or whole file systems, as the user gave them.
    pub targets: Targets,
    /// Patterns of what is left out, beside the rules of node and server.
    pub excludes: Vec<Vec<u8>>,
    /// The list of statements to take instead of the node's own.
    pub inclexcl: Option<PathBuf>,
    /// Read everything again, whatever has not changed.
    pub full: bool,
    /// Tell what would be done.
    pub dry_run: bool,
    /// Also descend into other file systems below the paths.
    pub cross_filesystems: bool,
    /// Expire also where most of what was backed up is gone.
    pub confirm_expire: bool,
    /// Goes before what the node's folder says.
    pub snapshot: Option<Stillness>,
    /// Goes before what the node's folder says.
    pub tuning: Tuning,
    /// Make an archive instead of a backup; the targets are selective then.
    pub archive: Option<ArchiveOptions>,
}

/// How to archive.
#[derive(Clone, Debug, Default)]
pub struct ArchiveOptions {
    pub description: String,
    /// The class of everything, whatever the rules say.
    pub class: Option<String>,
    /// Delete the files on this machine once the archive is complete and has been verified.
    pub delete: bool,
}

/// Something that ends, to be backed up as a file.
pub trait Stream {
    /// Reads some bytes; 0 at the end. [`std::io::ErrorKind::Interrupted`] where none come for a
    /// while, so that a backup can be stopped meanwhile.
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize>;

    /// Whether what was read is all there was to read; else why not. Called once, at the end.
    fn finish(&mut self) -> Result<(), String>;

    /// Whether a read after [`Self::finish`] begins again.
    fn repeats(&self) -> bool;
}

/// The filespace that streams are files of.
pub const STREAM_FILESPACE: &[u8] = b"/stdin";

/// Where a restore takes from.
#[derive(Clone, Debug, Default)]
pub enum Origin {
    #[default]
    Backups,
    /// The newest archive that has the path, of those meant.
    Archives(ArchiveFilter),
}

/// Which archives are meant.
#[derive(Clone, Debug, Default)]
pub struct ArchiveFilter {
    pub number: Option<u64>,
    /// A description, with `*` and `?`.
    pub description: Option<String>,
}

/// What to delete at the server.
#[derive(Clone, Debug, Default)]
pub struct DeleteOptions {
    pub path: Vec<u8>,
    /// Of this archive; of backups where there is none.
    pub archive: Option<u64>,
    pub active: bool,
    pub inactive: bool,
    pub dry_run: bool,
}

/// Which objects, in which state.
#[derive(Clone, Debug, Default)]
pub struct Which {
    /// As it was then; `None` for now.
    pub at: Option<ServerTime>,
    /// Objects that are gone count with their newest inactive version.
    pub inactive: bool,
}

/// What becomes of objects that are there already and differ.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Replace {
    #[default]
    No,
    /// Where the stored version's mtime is newer.
    IfNewer,
    All,
}

/// What to restore and where to.
#[derive(Clone, Debug)]
pub struct RestoreOptions {
    /// Paths as they were when backed up.
    pub paths: Vec<Vec<u8>>,
    /// The folder below which each path's last component goes; `None` for where it was.
    pub to: Option<Vec<u8>>,
    pub which: Which,
    pub replace: Replace,
    pub origin: Origin,
    /// Files of so many bytes and more are left out: space management makes stubs of them.
    pub left_out_from: Option<u64>,
}

/// Whether a restore leaves a file out for space management to make a stub of it.
pub fn is_left_out(stat: &Stat, left_out_from: Option<u64>) -> bool {
    let is_large = left_out_from.is_some_and(|least| stat.size >= least.max(1));
    is_large && stat.kind == Kind::File && !stat.linked
}

/// What to verify.
#[derive(Clone, Debug, Default)]
pub struct VerifyOptions {
    /// Empty for everything that the node has.
    pub paths: Vec<Vec<u8>>,
    /// Read every chunk back and check it; otherwise the server's tables only.
    pub data: bool,
    /// Only this archive.
    pub archive: Option<u64>,
}

/// What to list.
#[derive(Clone, Debug, Default)]
pub struct ListOptions {
    /// `None` lists the filespaces' roots.
    pub path: Option<Vec<u8>>,
    pub which: Which,
    pub recursive: bool,
    /// Every version, not only the one that a restore would take.
    pub all_versions: bool,
    /// Of this archive, and not of backups.
    pub archive: Option<u64>,
}

/// A node's connection to its server.
pub struct Client {
    link: link::Link,
    home: home::Home,
}

impl Client {
    /// Connects as the node that was enrolled in the folder `home`; renews its certificate when
    /// that is due.
    pub fn open(home: &Path) -> Result<Self, ClientError> {
        let home = home::Home::load(home)?;
        let link = link::Link::open(&home)?;
        Ok(Self { link, home })
    }

    /// What the server said when it was greeted.
    pub fn hello(&self) -> &Hello {
        self.link.hello()
    }

    /// Whether another server may go on where this one has died.
    pub fn has_several_servers(&self) -> bool {
        self.home.has_several_servers()
    }

    /// The server's address as enrolled.
    pub fn server(&self) -> &str {
        &self.home.config.server
    }

    pub fn filespaces(&self) -> Result<Vec<FilespaceSummary>, ClientError> {
        self.link.filespaces(false)
    }

    /// The node's archives, newest first.
    pub fn archives(&self) -> Result<Vec<ArchiveSummary>, ClientError> {
        self.link.archives()
    }

    /// Says of an archive that its event has happened, or that it is held or not.
    pub fn set_archive(
        &self,
        number: u64,
        event: bool,
        held: Option<bool>,
    ) -> Result<ArchiveSummary, ClientError> {
        self.link.set_archive(number, event, held)
    }

    /// Deletes what the server holds of the node, if the node may.
    pub fn delete(&self, options: &DeleteOptions) -> Result<DeletionSummary, ClientError> {
        archive::delete(&self.link, options)
    }

    /// Deletions that can be undone, newest first.
    pub fn deletions(&self) -> Result<Vec<DeletionSummary>, ClientError> {
        self.link.deletions()
    }

    pub fn undelete(&self, number: u64) -> Result<DeletionSummary, ClientError> {
        self.link.undelete(number)
    }

    /// Backs up. Single objects that cannot be backed up are in the report; an error means that the
    /// run as a whole could not go on, and everything committed until then stays.
    pub fn backup(
        &self,
        options: &BackupOptions,
        progress: &Arc<Progress>,
    ) -> Result<BackupReport, ClientError> {
        let mut report = backup::run(&self.link, &self.home, options, progress)?;
        if let Some((archive, number)) = options.archive.as_ref().zip(report.archive)
            && archive.delete
        {
            archive::delete_local(&self.link, number, &mut report, progress)?;
        }
        Ok(report)
    }

    /// What a backup would do with each path, and which rule says so; with what the user should
    /// know of the rules.
    pub fn explain(
        &self,
        options: &PreviewOptions,
    ) -> Result<(Vec<Ruled>, Vec<String>), ClientError> {
        preview::explain(&self.link, &self.home, options)
    }

    /// Calls `visit` with what a backup would do with each object at and below the paths, until it
    /// says `false`.
    pub fn preview(
        &self,
        options: &PreviewOptions,
        visit: &mut dyn FnMut(&Ruled) -> bool,
    ) -> Result<Previewed, ClientError> {
        preview::preview(&self.link, &self.home, options, visit)
    }

    /// Backs up `stream` as the file `name` of the filespace [`STREAM_FILESPACE`].
    pub fn backup_stream(
        &self,
        options: &BackupOptions,
        name: &[u8],
        stream: &mut dyn Stream,
        progress: &Arc<Progress>,
    ) -> Result<BackupReport, ClientError> {
        backup::run_stream(&self.link, &self.home, options, (name, stream), progress)
    }

    /// Sends files to be migrated off `mount_point` as the batch `batch`, at most
    /// [`BATCH_FILES_MAX`]; tells of each what the server has durably, or why not.
    pub fn migrate(
        &self,
        mount_point: &[u8],
        batch: BatchId,
        migrants: &[Migrant<'_>],
    ) -> Result<Vec<Result<Copied, String>>, ClientError> {
        backup::migrate(&self.link, &self.home, mount_point, batch, migrants)
    }

    /// Which files may migrate.
    pub fn space_rules(&self) -> Result<SpaceRules, ClientError> {
        SpaceRules::load(&self.home, &self.link)
    }

    /// Of each file, all in `directory` of the mount point and sorted by name, the digest of what
    /// the server's backup holds, if it is as the file is.
    pub fn backed_up(
        &self,
        mount_point: &[u8],
        directory: &DirPath,
        files: &[(&Name, Found)],
    ) -> Result<Vec<Option<[u8; 16]>>, ClientError> {
        backup::backed_up(&self.link, mount_point, directory, files)
    }

    /// Fetches what was migrated off `mount_point`: one copy of a batch, or all that are wanted,
    /// and of each what lies in `range`. What the server does not have is neither completed nor
    /// lost. `progress` says whether it is still wanted.
    pub fn recall(
        &self,
        mount_point: &[u8],
        copies: (BatchId, Option<u16>),
        part: (Range<u64>, Purpose),
        (progress, filling): (&Arc<Progress>, &dyn Filling),
    ) -> Result<(), ClientError> {
        restore::recall(&self.link, mount_point, copies, part, (progress, filling))
    }

    /// Has the server plan the recall of copies of what was migrated off `mount_point`; then,
    /// unless it is only a `preview`, has it read volumes for them until what is returned is
    /// dropped.
    pub fn stage(
        &self,
        mount_point: &[u8],
        copies: &[CopyId],
        (preview, purpose): (bool, Purpose),
    ) -> Result<(RecallPlan, Staging), ClientError> {
        restore::stage(&self.link, mount_point, copies, (preview, purpose))
    }

    /// The copies that the server has of what was migrated off `mount_point`; with `released` also
    /// those that were let go of and are kept for a time only.
    pub fn copies(
        &self,
        mount_point: &[u8],
        released: bool,
    ) -> Result<Vec<ListedCopy>, ClientError> {
        list::copies(&self.link, mount_point, released)
    }

    /// Lets go of copies, sorted: they are kept as their class keeps what is gone.
    pub fn release(&self, mount_point: &[u8], copies: &[CopyId]) -> Result<(), ClientError> {
        backup::release(&self.link, &self.home, mount_point, copies)
    }

    /// The digest of the content that the file at `path` has now, as the server makes it of what
    /// it has.
    pub fn content(&self, path: &[u8], file: (&Dir, &Name)) -> Result<[u8; 16], ClientError> {
        backup::content(&self.link, &self.home, path, file)
    }

    /// Restores. A rerun skips what is right already.
    pub fn restore(
        &self,
        options: &RestoreOptions,
        progress: &Arc<Progress>,
    ) -> Result<RestoreReport, ClientError> {
        restore::run(&self.link, options, progress)
    }

    /// Checks what the server holds, versions of all ages.
    pub fn verify(
        &self,
        options: &VerifyOptions,
        progress: &Arc<Progress>,
    ) -> Result<VerifyReport, ClientError> {
        restore::verify(&self.link, options, progress)
    }

    /// Calls `visit` with each listed version in path order, newest first, until it says `false`.
    pub fn list(
        &self,
        options: &ListOptions,
        visit: &mut dyn FnMut(&ListedVersion) -> bool,
    ) -> Result<(), ClientError> {
        list::run(&self.link, options, visit)
    }
}

/// Whether objects of this kind carry data.
fn has_data(kind: Kind, size: u64) -> bool {
    kind == Kind::File && size > 0
}
