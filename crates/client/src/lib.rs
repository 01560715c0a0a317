//! Client: enrolment, backup, restore, verification, listing, and administration.
//!
//! A [`Client`] is a connection to the server as this machine's node. The stages of a backup or a
//! restore are threads joined by bounded queues. Only the edge to the network is asynchronous, and
//! [`Client`] hides it: every method blocks.
//!
//! Nothing here reads the environment, prints, or ends the process.

pub mod admin;
mod archive;
mod attempts;
mod backup;
mod browse;
mod cache;
mod connector;
mod diff;
mod drills;
mod error;
mod find;
mod image;
mod interruptions;
mod last_backup;
mod link;
mod list;
mod machine;
mod network;
mod node;
mod options;
mod pace;
mod path;
mod patience;
mod pauses;
mod preview;
mod progress;
mod remains;
mod report;
mod restore;
mod rules;
mod sizes;
mod source;
mod stages;
mod tuning;
mod virtual_filespaces;
mod wildcards;

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use chunk::SealKey;
use model::{BatchId, CopyId, DirPath, Name, Object, ServerTime};
use sys::{Dir, ObjectStatus};

pub use archive::PathDeletion;
pub use backup::{
    ActiveObjects, BATCH_FILES_MAX, CopyFailure, ImageOptions, ImageReport, ImageSource, Migrant,
    StoredCopy, is_hidden,
};
pub use browse::{ObjectPlace, StoredVersion};
pub use chunk::Compression;
pub use chunk::Recompression;
pub use connector::{Connector, LinkChoice};
pub use diff::Difference;
pub use drills::{Drill, LastDrills};
pub use error::{ClientError, ErrorKind};
pub use image::{
    Image, ImageDescription, ImageFacts, ImageLayout, ImageStillness, UnreadableRange,
};
pub use interruptions::{Absence, Interruptions, InterruptionsDocument};
pub use last_backup::LastBackup;
pub use link::FilespaceSummary;
pub use link::archives::{ArchiveSummary, DeletionSummary};
pub use link::attend::{
    AgentCall, AgentIdentity, AgentMessages, AgentOrders, AttendError, EventControl, EventName,
    EventProgress, EventReport, Order, Plan, PlannedSchedule,
};
pub use link::baselines::KeptBaseline;
pub use link::hello::{Class, Hello, LibraryOutage, OptionSet};
pub use link::readers::ReadRule;
pub use link::stage::{PlannedVolume, Purpose, PurposeKind, RecallPlan, StageMode, Staging};
pub use link::usage::Usage;
pub use link::waits::OwnWait;
pub use list::{ListedCopy, ListedVersion};
pub use machine::{MachinePaths, machine_paths};
pub use network::{Buffers, Direction, NetworkMeasurement, NetworkPlan, Transfer, Transport};
pub use node::agent::{
    AgentConfig, AgentMode, AgentSettings, CommandRight, CommandWord, RightSources, agent_config,
    agent_config_heard, keep_option_set,
};
pub use node::standing::{OtherOffer, ReceivedSet, SettingReport, Standing};
pub use node::{
    Commands, Enrolment, SYSTEM_FOLDER, authority, client_toml, enrol, is_enrolment_key, is_token,
    keys, not_enrolled,
};
pub use options::{
    ArchiveFilter, ArchiveOptions, BackupOptions, DeleteOptions, DeletionScope, DiffOptions,
    FindOptions, ListContent, ListOptions, LocalServer, Origin, PreviewOptions, ReplaceRule,
    RestoreOptions, RestorePart, STREAM_FILESPACE, Sample, Stream, Targets, VerifyOptions,
    VersionChoice,
};
pub use pace::{Rate, RateError, RateLimits};
pub use patience::Patience;
pub use preview::{Decision, PreviewSummary, RuleSummary};
pub use progress::{Phase, Progress};
pub use report::{
    Amount, BackupReport, DrillReport, Estimate, Exclusion, Failure, JournalUse, RestorePlan,
    RestoreReport, VerifyReport,
};
pub use restore::{
    AHEAD_BYTES, FileFiller, ImageReader, ImageRestoration, ImageRestoreReport, ImageTarget,
    LostRange, RangeReader, Reach, RecallRequest, SmallFile, SmallFileSink,
};
pub use rules::{FileTreatment, SpaceRules};
pub use stages::{CompressorKind, CompressorWork, StageTime, Stages};
pub use tuning::{CompressionChoice, JournalChoice, Stillness, Tuning, UnknownChoice};
pub use virtual_filespaces::{VirtualFilespaces, obstacle};
pub use wildcards::{has_wildcards, topmost};
pub use wire::PORT;

/// Returns the settings of the node in the folder `home`, as it has received them last.
pub fn standing(home: &Path, is_scheduled: bool) -> Result<Standing, ClientError> {
    let home = node::home::Home::load_for(home, RateLimits::default(), is_scheduled)?;
    Ok(home.standing)
}

/// Returns the limits that the windows of `limits` set at this time for the node in the folder
/// `home`.
pub fn timed_limits(home: &Path) -> Result<RateLimits, ClientError> {
    let home = node::home::Home::load(home)?;
    Ok(pace::limits_now(&home.config.limits))
}

/// Connection of a node to its server.
pub struct Client {
    link: Arc<link::Link>,
    home: node::home::Home,
    recent: restore::Recent,
    /// True if the greeting has brought settings with which the connection itself would be another.
    is_outdated: bool,
}

impl Client {
    /// Connects as the node that was enrolled in the folder `home`. Renews its certificate if that
    /// is due.
    pub fn open(home: &Path) -> Result<Self, ClientError> {
        Self::connect(node::home::Home::load(home)?, Arc::default(), None)
    }

    /// Connects as the node of `home`. A stop of `progress` ends the attempt.
    fn connect(
        home: node::home::Home,
        cache: Arc<cache::SharedCache>,
        progress: Option<&Progress>,
    ) -> Result<Self, ClientError> {
        let link = Arc::new(link::Link::open(&home, cache, progress)?);
        let is_new = link.hello().received() != *home.standing.received();
        let mut settled = if is_new { home.with_new_settings()? } else { home.clone() };
        let is_outdated = !settled.connects_like(&home);
        if !is_outdated {
            // The connection is paced by this one.
            settled.pace = home.pace;
        }
        let home = settled;
        Ok(Self { link, home, recent: restore::Recent::default(), is_outdated })
    }

    /// Returns the node's settings and their sources.
    pub fn standing(&self) -> &Standing {
        &self.home.standing
    }

    /// Returns the server's answer to the greeting.
    pub fn hello(&self) -> &Hello {
        self.link.hello()
    }

    /// Asks the server for a sign of life, and returns at once. `answered` is called with true when
    /// the server has answered, and with false if the connection is lost.
    pub fn ping(&self, answered: impl FnOnce(bool) + Send + 'static) {
        self.link.ping(answered);
    }

    /// Returns true if the server answers on this connection within `at_most`.
    fn is_alive(&self, at_most: Duration) -> bool {
        self.link.is_alive(at_most)
    }

    /// Returns the waits of this node for packs on volumes. A server that does not answer within
    /// `at_most`, or does not know the question, gives none.
    pub fn waits(&self, at_most: Duration) -> Result<Vec<OwnWait>, ClientError> {
        self.link.waits(at_most)
    }

    /// Measures the network to the server, on connections of its own. The plain transfers may fail
    /// without an error; the result then has the reason. `progress` counts the bytes, and can stop
    /// the measurement.
    pub fn measure_network(
        &self,
        plan: &NetworkPlan,
        progress: &Progress,
    ) -> Result<NetworkMeasurement, ClientError> {
        network::measure(&self.home.unlimited(), plan, progress).map_err(|error| match error.kind {
            ErrorKind::Retry => self.link.refusal(&self.home).unwrap_or(error),
            _ => error,
        })
    }

    /// Makes the server keep the document of a baseline of this node. The server keeps the newest
    /// 100 of each node.
    pub fn keep_baseline(&self, document: &[u8]) -> Result<(), ClientError> {
        self.link.keep_baseline(document)
    }

    /// Returns the baselines that the server keeps of this node, newest last.
    pub fn baselines(&self) -> Result<Vec<KeptBaseline>, ClientError> {
        self.link.baselines()
    }

    /// Returns the schedules that the node follows, without those for one action; `None` from an
    /// older server.
    pub fn schedules(&self) -> Result<Option<Vec<PlannedSchedule>>, ClientError> {
        self.link.schedules()
    }

    /// Returns the address of the server that enrolled the node.
    pub fn server(&self) -> &str {
        &self.home.config.server
    }

    pub fn filespaces(&self) -> Result<Vec<FilespaceSummary>, ClientError> {
        self.link.filespaces(false)
    }

    /// Returns the times of the newest complete backups of the node's files, in no order. At each
    /// of them the server had all of a backup.
    pub fn backup_times(&self) -> Result<Vec<ServerTime>, ClientError> {
        self.link.backup_times()
    }

    /// Returns the rules by which this node lets others read what it has stored.
    pub fn read_rules(&self) -> Result<Vec<ReadRule>, ClientError> {
        self.link.read_rules()
    }

    /// Lets another node read. Returns the rule as the server keeps it; its own time is not looked
    /// at.
    pub fn allow_reading(&self, rule: &ReadRule) -> Result<ReadRule, ClientError> {
        self.link.allow_reading(rule)
    }

    /// Takes a rule back, whatever its time is.
    pub fn forbid_reading(&self, rule: &ReadRule) -> Result<ReadRule, ClientError> {
        self.link.forbid_reading(rule)
    }

    /// Returns the node's archives, newest first.
    pub fn archives(&self) -> Result<Vec<ArchiveSummary>, ClientError> {
        self.link.archives()
    }

    /// Reports the event of an archive, if `event` is set, and holds or releases it.
    pub fn set_archive(
        &self,
        number: u64,
        event: bool,
        held: Option<bool>,
    ) -> Result<ArchiveSummary, ClientError> {
        self.link.set_archive(number, event, held)
    }

    /// Deletes versions of the node at the server, if the node has the right to.
    pub fn delete(&self, options: &DeleteOptions) -> Result<PathDeletion, ClientError> {
        archive::delete(&self.link, options)
    }

    /// Deletes versions as each of `orders` says, and calls `visit` for each deletion, which may be
    /// of many orders. Goes past paths of which the server has no such version. The first other
    /// error ends the work.
    pub fn delete_each(
        &self,
        orders: &[DeleteOptions],
        visit: &mut dyn FnMut(PathDeletion),
    ) -> Result<(), ClientError> {
        archive::delete_each(&self.link, orders, visit)
    }

    /// Returns the deletions that can be undone, newest first.
    pub fn deletions(&self) -> Result<Vec<DeletionSummary>, ClientError> {
        self.link.deletions()
    }

    pub fn undelete(&self, number: u64) -> Result<DeletionSummary, ClientError> {
        self.link.undelete(number)
    }

    /// Runs a backup. Objects that cannot be backed up are in the report. An error means that the
    /// run could not continue. Everything that it has committed is kept.
    pub fn backup(
        &self,
        options: &BackupOptions,
        progress: &Arc<Progress>,
    ) -> Result<BackupReport, ClientError> {
        let options = &self.home.settled(options);
        let filled = progress.attempts.filled_archive();
        let mut report = match filled {
            Some(report) => backup::complete(&self.link, report)?,
            None => backup::run(&self.link, &self.home, options, progress)?,
        };
        if let Some((archive, number)) = options.archive.as_ref().zip(report.archive)
            && archive.delete
        {
            archive::delete_local(&self.link, number, &mut report, progress)?;
        }
        Ok(report)
    }

    /// Returns the objects with active versions at the absolute `paths`: in `filespace`, or in the
    /// innermost filespace that has each.
    pub fn active_objects(
        &self,
        paths: &[Vec<u8>],
        filespace: Option<&[u8]>,
    ) -> Result<ActiveObjects, ClientError> {
        backup::active_objects(&self.link, paths, filespace)
    }

    /// Ends the active versions of `objects`, as if they were gone: they stay restorable as the
    /// policy says for objects that are deleted. A directory ends with everything in it.
    pub fn expire(
        &self,
        objects: &ActiveObjects,
        dry_run: bool,
        progress: &Arc<Progress>,
    ) -> Result<BackupReport, ClientError> {
        backup::end_versions(&self.link, &self.home, objects, dry_run, progress)
    }

    /// Returns the decision of a backup about each path, with the rule that decides, and warnings
    /// about the rules.
    pub fn explain(
        &self,
        options: &PreviewOptions,
    ) -> Result<(Vec<Decision>, Vec<String>), ClientError> {
        preview::explain(&self.link, &self.home, options)
    }

    /// Calls `visit` with the decision of a backup about each object at and below the paths, until
    /// `visit` returns false.
    pub fn preview(
        &self,
        options: &PreviewOptions,
        visit: &mut dyn FnMut(&Decision) -> bool,
    ) -> Result<PreviewSummary, ClientError> {
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
        let options = &self.home.settled(options);
        backup::run_stream(&self.link, &self.home, options, name, stream, progress)
    }

    /// Makes an image of `source`. An interrupted backup leaves no image; the next one sends only
    /// the rest.
    pub fn back_up_image(
        &self,
        options: &ImageOptions,
        source: &dyn ImageSource,
        progress: &Arc<Progress>,
    ) -> Result<ImageReport, ClientError> {
        backup::back_up_image(&self.link, &self.home, options, source, progress)
    }

    /// Returns all images called `name`, or all images of the node, sorted by name and then newest
    /// first.
    pub fn images(&self, name: Option<&[u8]>) -> Result<Vec<Image>, ClientError> {
        image::list(&self.link, name)
    }

    /// Returns the image called `name` that was the newest at the time `at`, or now.
    pub fn image(&self, name: &[u8], at: Option<ServerTime>) -> Result<Image, ClientError> {
        image::find(&self.link, name, at)
    }

    /// Deletes `images`, which all have one name, at the server, if the node has the right to.
    pub fn delete_images(
        &self,
        images: &[Image],
        dry_run: bool,
    ) -> Result<DeletionSummary, ClientError> {
        image::delete(&self.link, images, dry_run)
    }

    /// Reads and checks an image, and writes it to `target` if there is one. The report has the
    /// ranges that are lost or damaged at the server; an error of `target` ends the restore. The
    /// parts that `restoration` has are left out.
    pub fn restore_image(
        &self,
        image: &Image,
        target: Option<&dyn ImageTarget>,
        restoration: &ImageRestoration,
        progress: &Arc<Progress>,
    ) -> Result<ImageRestoreReport, ClientError> {
        restore::restore_image(&self.link, image, target, restoration, progress)
    }

    /// Returns a reader of any ranges of an image.
    pub fn image_reader(&self, image: Image) -> ImageReader {
        ImageReader::new(Arc::clone(&self.link), image)
    }

    /// Returns the objects directly in `directory` at the time `at`, or now, sorted by name and
    /// without the places of their data. An unknown directory has none.
    pub fn directory(
        &self,
        filespace: &[u8],
        directory: &DirPath,
        at: Option<ServerTime>,
    ) -> Result<Vec<Object>, ClientError> {
        browse::directory(&self.link, filespace, directory, at)
    }

    /// Calls `visit` with the directories at and below `directory`, in the order of their paths,
    /// each with objects of it at the time `at`, or now. A directory with many objects comes
    /// several times. Ends when `visit` returns false.
    pub fn subtree(
        &self,
        filespace: &[u8],
        directory: &DirPath,
        at: Option<ServerTime>,
        visit: &mut dyn FnMut(&DirPath, Vec<Object>) -> bool,
    ) -> Result<(), ClientError> {
        browse::subtree(&self.link, filespace, directory, at, visit)
    }

    /// Returns all versions of the object at `place`, newest first.
    pub fn versions(&self, place: &ObjectPlace) -> Result<Vec<StoredVersion>, ClientError> {
        browse::versions(&self.link, place)
    }

    /// Returns all versions of all objects directly in `directory`, sorted by name, newest first.
    pub fn all_versions(
        &self,
        filespace: &[u8],
        directory: &DirPath,
    ) -> Result<Vec<StoredVersion>, ClientError> {
        browse::all_versions(&self.link, filespace, directory)
    }

    /// Reads the contents of the files in a directory, as far as the reach says, that `sink` wants:
    /// as they were at the time `at`, or are now.
    pub fn small_files(
        &self,
        filespace: &[u8],
        files: (&DirPath, Reach),
        at: Option<ServerTime>,
        sink: &dyn SmallFileSink,
    ) -> Result<(), ClientError> {
        restore::small_files(&self.link, filespace, files, at, sink)
    }

    /// Returns true if the node has got a key for its files since it has connected. Such a key
    /// counts from the next connection on.
    pub fn has_new_keys(&self) -> bool {
        let is_new = |key: &SealKey| self.link.seal_keys.iter().all(|old| old.name() != key.name());
        keys::load(&self.home).is_ok_and(|keys| keys.iter().any(is_new))
    }

    /// Returns a reader of any ranges of stored files.
    pub fn range_reader(&self) -> RangeReader {
        RangeReader::new(Arc::clone(&self.link))
    }

    /// Sends at most [`BATCH_FILES_MAX`] files of `mount_point` as the batch `batch`. Returns, for
    /// each file, the state that is durable at the server.
    pub fn migrate(
        &self,
        mount_point: &[u8],
        batch: BatchId,
        migrants: &[Migrant<'_>],
    ) -> Result<Vec<Result<StoredCopy, CopyFailure>>, ClientError> {
        backup::migrate(&self.link, &self.home, mount_point, batch, migrants)
    }

    /// Returns the rules that exclude files from migration.
    pub fn space_rules(&self) -> Result<SpaceRules, ClientError> {
        SpaceRules::load(&self.home, self.link.hello())
    }

    /// Returns, for each of `files`, the digest of its content in the backup; `None` if the backup
    /// does not have the file's current state. `files` lie in `directory` of the mount point and
    /// must be sorted by name.
    pub fn backed_up(
        &self,
        mount_point: &[u8],
        directory: &DirPath,
        files: &[(&Name, ObjectStatus)],
    ) -> Result<Vec<Option<[u8; 16]>>, ClientError> {
        backup::backed_up(&self.link, mount_point, directory, files)
    }

    /// Fetches copies of files of `mount_point`. For a copy that the server does not have, neither
    /// `complete` nor `lose` is called. `progress` can stop the recall.
    pub fn recall(
        &self,
        mount_point: &[u8],
        request: RecallRequest,
        filling: &dyn FileFiller,
        progress: &Arc<Progress>,
    ) -> Result<(), ClientError> {
        restore::recall(&self.link, &self.recent, mount_point, request, filling, progress)
    }

    /// Makes the server plan the recall of `copies` of files of `mount_point`. With
    /// [`StageMode::Read`] the server then reads the volumes for them, until the returned
    /// [`Staging`] is dropped.
    pub fn stage(
        &self,
        mount_point: &[u8],
        copies: &[CopyId],
        mode: StageMode,
        purpose: Purpose,
    ) -> Result<(RecallPlan, Staging), ClientError> {
        self.link.stage(mount_point, copies, mode, purpose)
    }

    /// Lists the copies of files of `mount_point`, with released copies if `released` is set.
    pub fn copies(
        &self,
        mount_point: &[u8],
        released: bool,
    ) -> Result<Vec<ListedCopy>, ClientError> {
        list::copies(&self.link, mount_point, released)
    }

    /// Lists the copies of one batch of files of `mount_point`, without released copies.
    pub fn copies_of_batch(
        &self,
        mount_point: &[u8],
        batch: BatchId,
    ) -> Result<Vec<ListedCopy>, ClientError> {
        list::copies_of_batch(&self.link, mount_point, batch)
    }

    /// Releases copies, which must be sorted. Their class then decides how long they are kept.
    pub fn release(&self, mount_point: &[u8], copies: &[CopyId]) -> Result<(), ClientError> {
        backup::release(&self.link, &self.home, mount_point, copies)
    }

    /// Returns the digest of the current content of the file at `path`, computed as the server does
    /// for its copy.
    pub fn content(&self, path: &[u8], file: (&Dir, &Name)) -> Result<[u8; 16], ClientError> {
        backup::content(&self.link, &self.home, path, file)
    }

    /// Runs a restore. A second run skips the objects that are already right.
    pub fn restore(
        &self,
        options: &RestoreOptions,
        progress: &Arc<Progress>,
    ) -> Result<RestoreReport, ClientError> {
        restore::run(&self.link, options, progress)
    }

    /// Calls `visit` with each stored version that matches a pattern, until it returns false.
    pub fn find(
        &self,
        options: &FindOptions,
        visit: &mut dyn FnMut(&ListedVersion) -> bool,
    ) -> Result<(), ClientError> {
        find::run(&self.link, options, visit)
    }

    /// Calls `visit` with each object that differs between two times, until it returns false.
    /// Returns the filespaces within the compared ones that have, or had, a part of the objects
    /// that came or went: those may be there at the other time, too.
    pub fn diff(
        &self,
        options: &DiffOptions,
        visit: &mut dyn FnMut(&Difference) -> bool,
    ) -> Result<BTreeSet<Vec<u8>>, ClientError> {
        diff::run(&self.link, options, visit)
    }

    /// Calls `visit` with the usage of each filespace of the node, by class, until it returns
    /// false.
    pub fn usage(&self, visit: &mut dyn FnMut(Usage) -> bool) -> Result<(), ClientError> {
        self.link.usage(visit)
    }

    /// Returns what a restore would do, and changes nothing.
    pub fn plan_restore(
        &self,
        options: &RestoreOptions,
        progress: &Progress,
    ) -> Result<RestorePlan, ClientError> {
        restore::plan(&self.link, options, progress)
    }

    /// Returns the paths of `origin` that `path` stands for: itself, or the paths that match it as
    /// a pattern.
    pub fn expand(
        &self,
        path: &[u8],
        which: &VersionChoice,
        origin: &Origin,
    ) -> Result<Vec<Vec<u8>>, ClientError> {
        wildcards::expand(&self.link, path, which, origin)
    }

    /// Checks the versions that the server has, active and inactive.
    pub fn verify(
        &self,
        options: &VerifyOptions,
        progress: &Arc<Progress>,
    ) -> Result<VerifyReport, ClientError> {
        restore::verify(&self.link, options, progress)
    }

    /// Returns the last restore drills of the node; `None` from an older server.
    pub fn last_drills(&self) -> Result<Option<LastDrills>, ClientError> {
        self.link.last_drills()
    }

    /// Calls `visit` with each listed version in path order, newest first, until `visit` returns
    /// false.
    pub fn list(
        &self,
        options: &ListOptions,
        visit: &mut dyn FnMut(&ListedVersion) -> bool,
    ) -> Result<(), ClientError> {
        list::run(&self.link, options, visit)
    }

    /// Returns the filespaces that have versions for a list of these options, too, beside the one
    /// whose versions the list shows: the innermost one that has any.
    pub fn elsewhere(&self, options: &ListOptions) -> Result<Vec<Vec<u8>>, ClientError> {
        list::elsewhere(&self.link, options)
    }
}
