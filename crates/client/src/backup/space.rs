//! Migration: files are sent to the server in batches. A batch is a directory in the filespace of
//! migrated files. It is filled once, with files of any directories and names.

use std::io;
use std::sync::Arc;

use chunk::{ContentHasher, Sealer};
use model::{Attributes, BatchId, CopyId, DirPath, Kind, Name, Object, Xattr, space_filespace};
use sys::{Dir, ObjectStatus};

use super::context::Context;
use super::draft::{Draft, DraftContent, Outcome};
use super::examine::Examiner;
use super::outbox::Outbox;
use super::read::{ChunkCollector, Content, Fidelity, FileReader, ReadFailure, Sink};
use super::scope::Scope;
use super::seal_key::seal_key;
use super::segment::Segment;
use super::session::{Run, Session, in_session};
use super::tally::Tally;
use crate::error::{ClientError, ErrorKind};
use crate::link::Link;
use crate::link::backup::{KnownContent, PageChange, PageKey, Rejection};
use crate::link::pages::KeyedPage;
use crate::node::home::Home;
use crate::options::{BackupOptions, Targets};
use crate::path::absolute;
use crate::progress::Progress;
use crate::rules::{FileTreatment, Rules};
use crate::tuning::Tuning;

/// Attribute of a copy with the path of its file, so that a deleted stub can be made again.
const PATH_ATTRIBUTE: &[u8] = b"holdfast.path";

fn path_attribute(path: &[u8]) -> Xattr {
    Xattr { name: PATH_ATTRIBUTE.to_vec(), value: path.to_vec() }
}

/// Returns the path that the file of a copy had when it was migrated.
pub(crate) fn path_of(copy: &Object) -> Option<&[u8]> {
    let is_path = |xattr: &&Xattr| xattr.name == PATH_ATTRIBUTE;
    copy.attributes.xattrs.iter().find(is_path).map(|xattr| &xattr.value[..])
}

/// Maximum number of files in a batch: as many as a page holds.
pub const BATCH_FILES_MAX: usize = model::PAGE_OBJECTS_MAX;

/// File to be migrated.
pub struct Migrant<'a> {
    pub directory: &'a Dir,
    pub name: &'a Name,
    /// Path of the directory in its file system.
    pub path: &'a DirPath,
    /// State of the file in its backup, if the file has not changed since. Then the file is not
    /// read.
    pub backed_up: Option<StoredCopy>,
}

/// State of a file whose content is at the server.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StoredCopy {
    pub found: ObjectStatus,
    /// Digest of the content, as server and client can both compute it.
    pub content: [u8; 16],
}

/// Reason why a file was not copied.
#[derive(Debug, thiserror::Error)]
pub enum CopyFailure {
    /// The caller offers the file again, in another batch.
    #[error("the file was not sent")]
    Unsent,
    /// The caller offers the file again later, when it no longer changes.
    #[error("the file changed while it was read")]
    Changed,
    #[error("{0}")]
    Unreadable(#[source] io::Error),
    /// The server has refused the file for this reason.
    #[error("{reason}")]
    Refused { reason: String },
}

impl From<ReadFailure> for CopyFailure {
    fn from(failure: ReadFailure) -> Self {
        match failure {
            ReadFailure::Changed => Self::Changed,
            ReadFailure::Failed(error) => Self::Unreadable(error),
        }
    }
}

/// Sends `migrants` as the batch `batch`. Returns, for each file, the state that is durable at the
/// server.
pub(crate) fn migrate(
    link: &Link,
    home: &Home,
    mount_point: &[u8],
    batch: BatchId,
    migrants: &[Migrant<'_>],
) -> Result<Vec<Result<StoredCopy, CopyFailure>>, ClientError> {
    assert!(migrants.len() <= BATCH_FILES_MAX, "a batch has at most the files of a page");
    let rules = Rules::load(home, link.hello(), None, &[], policy::Operation::Backup)?;
    let seal_key = seal_key(link, &rules)?;
    let tally = Tally::new(Arc::new(Progress::default()));
    let options = options(Tuning::default());
    let run = Run { link, home, options: &options, rules: &rules, seal_key, tally: &tally };
    let filespace = space_filespace(mount_point);
    let scope = Scope { filespace: &filespace, root: b"/", reflinks: false, targets: &[] };
    in_session(run, &scope, |session, outbox| session.send_batch(outbox, batch, migrants))
}

/// Returns the options of a session that walks through no tree. It deduplicates in any case.
pub(super) fn options(tuning: Tuning) -> BackupOptions {
    BackupOptions {
        targets: Targets::Selective(Vec::new()),
        excludes: Vec::new(),
        inclexcl: None,
        full: false,
        dry_run: false,
        cross_filesystems: false,
        all_local: false,
        confirm_expire: false,
        snapshot: None,
        no_journal: true,
        is_partial: false,
        without_content: false,
        lists_excluded: false,
        expands_wildcards: false,
        managed: Vec::new(),
        local_servers: Vec::new(),
        tuning: Tuning { deduplication: Some(true), ..tuning },
        archive: None,
    }
}

/// Returns, for each of the `files` of one directory, the digest of its content in the backup;
/// `None` if the backup does not have the file's current state. `files` must be sorted by name.
pub(crate) fn backed_up(
    link: &Link,
    mount_point: &[u8],
    directory: &DirPath,
    files: &[(&Name, ObjectStatus)],
) -> Result<Vec<Option<[u8; 16]>>, ClientError> {
    debug_assert!(files.is_sorted_by(|a, b| a.0 <= b.0), "pages are ranges of names");
    let mut known = vec![None; files.len()];
    let mut done = 0;
    while let Some((name, _)) = files.get(done) {
        let KeyedPage { first, page } =
            link.page_holding(mount_point, directory, name.as_bytes())?;
        let objects = page.objects(directory)?;
        // Files in the name range of this page: the files up to its last object, but at least one
        // file.
        let last = objects.last().map(|object| object.name.clone());
        let of_page = files[done..]
            .iter()
            .take_while(|(name, _)| last.as_ref().is_some_and(|last| *name <= last))
            .count();
        let asked = &files[done..done + of_page.max(1)];
        let is_current = |(name, found): &&(&Name, ObjectStatus)| {
            let at = objects.binary_search_by(|object| object.name.cmp(name));
            at.is_ok_and(|at| objects[at].stat == found.stat && found.stat.kind == Kind::File)
        };
        let current: Vec<&(&Name, ObjectStatus)> = asked.iter().filter(is_current).collect();
        let names: Vec<&[u8]> = current.iter().map(|(name, _)| name.as_bytes()).collect();
        if !names.is_empty() {
            let contents = link.content_digests(mount_point, directory, &first, &names)?;
            assert_eq!(contents.len(), current.len(), "one digest for each name");
            for ((name, _), content) in current.iter().zip(contents) {
                let at = files.iter().position(|(known, _)| known == name);
                known[at.expect("the name is one of these files")] = content;
            }
        }
        done += asked.len();
    }
    Ok(known)
}

/// Returns the digest of the current content of the file at `path`, computed as the server does.
pub(crate) fn content(
    link: &Link,
    home: &Home,
    path: &[u8],
    (directory, name): (&Dir, &Name),
) -> Result<[u8; 16], ClientError> {
    let rules = Rules::load(home, link.hello(), None, &[], policy::Operation::Backup)?;
    let treatment = rules.treatment(|| path.to_vec());
    let failed = |error: io::Error| ClientError::new(ErrorKind::Bug, error.to_string());
    let sealer = match seal_key(link, &rules)? {
        Some(key) if treatment.encrypts => Some(Sealer::new(key.clone()).map_err(failed)?),
        _ => None,
    };
    let mut sink = DigestSink { link, treatment, sealer, hasher: ContentHasher::new() };
    let read = FileReader::new().read(directory, name.as_bytes(), None, Fidelity::Exact, &mut sink);
    read.map_err(|failure| {
        let message = format!("{}: {failure}", model::escaped(path));
        ClientError::new(ErrorKind::Busy, message)
    })?;
    Ok(sink.hasher.finish())
}

/// Sink that computes the digest of a content and sends nothing.
struct DigestSink<'a> {
    link: &'a Link,
    treatment: FileTreatment,
    sealer: Option<Sealer>,
    hasher: ContentHasher,
}

impl Sink for DigestSink<'_> {
    fn chunk(&mut self, chunk: &[u8]) {
        let key = &self.link.domain_key;
        let digest = match &mut self.sealer {
            Some(sealer) => key.digest(&sealer.seal(chunk, self.treatment.compresses)),
            None => key.digest(chunk),
        };
        self.hasher.chunk(&digest);
    }

    fn hole(&mut self, bytes: u64) {
        self.hasher.hole(bytes);
    }
}

/// Releases copies: they become inactive, and are kept as their class says.
pub(crate) fn release(
    link: &Link,
    home: &Home,
    mount_point: &[u8],
    copies: &[CopyId],
) -> Result<(), ClientError> {
    let rules = Rules::load(home, link.hello(), None, &[], policy::Operation::Backup)?;
    let tally = Tally::new(Arc::new(Progress::default()));
    let options = options(Tuning::default());
    let run = Run { link, home, options: &options, rules: &rules, seal_key: None, tally: &tally };
    let filespace = space_filespace(mount_point);
    let scope = Scope { filespace: &filespace, root: b"/", reflinks: false, targets: &[] };
    in_session(run, &scope, |_, mut outbox| {
        for of_batch in copies.chunk_by(|a, b| a.batch == b.batch) {
            let key = PageKey { first: Vec::new(), digest: None };
            let directory = of_batch[0].batch.directory();
            let mut change = PageChange::new(directory, Vec::new(), vec![key]);
            change.expired = of_batch.iter().map(|copy| copy.name()).collect();
            outbox.send_change(change)?;
        }
        outbox.close(false, String::new())
    })
}

impl Session<'_> {
    fn send_batch(
        &self,
        mut outbox: Outbox<'_>,
        batch: BatchId,
        migrants: &[Migrant<'_>],
    ) -> Result<Vec<Result<StoredCopy, CopyFailure>>, ClientError> {
        let root = Dir::open(b"/").map_err(|error| {
            ClientError::new(ErrorKind::Bug, format!("cannot open the root directory: {error}"))
        })?;
        let path = batch.directory();
        let segment = Segment::partial(Arc::new(root), path, Vec::new(), Vec::new());
        let all: Vec<usize> = (0..migrants.len()).collect();
        let mut copies: Vec<_> = all.iter().map(|_| Err(CopyFailure::Unsent)).collect();
        self.send_with(&mut outbox, true, |examiner| {
            examiner.take_migrants(&segment, migrants, &all, &mut copies);
        })?;
        self.check()?;
        let mut refused: Vec<usize> = outbox
            .take_rejections()
            .iter()
            .filter_map(|object| index_of(object, &all))
            .collect();
        if !refused.is_empty() {
            refused.sort_unstable();
            self.send_with(&mut outbox, false, |examiner| {
                examiner.take_migrants(&segment, migrants, &refused, &mut copies);
            })?;
            self.check()?;
            for rejection in outbox.take_rejections() {
                if let Some(index) = index_of(&rejection, &all) {
                    copies[index] = Err(CopyFailure::Refused { reason: rejection.reason });
                }
            }
        }
        outbox.close(false, String::new())?;
        Ok(copies)
    }
}

/// Returns the index in the batch of an object that the server has rejected; `None` if `all` does
/// not have that object.
fn index_of(rejection: &Rejection, all: &[usize]) -> Option<usize> {
    let index = CopyId::index_of(&Name::new(&rejection.name).ok()?)?;
    all.get(usize::from(index)).copied()
}

impl Examiner<'_> {
    /// Reads and sends the `migrants` at `indexes`, which must be sorted. Puts the results into
    /// `copies`.
    fn take_migrants(
        &mut self,
        segment: &Segment,
        migrants: &[Migrant<'_>],
        indexes: &[usize],
        copies: &mut [Result<StoredCopy, CopyFailure>],
    ) {
        assert_eq!(migrants.len(), copies.len(), "one result for each file");
        let mut outcome = Outcome::default();
        let batch = BatchId::of_directory(&segment.path).expect("the segment was made for a batch");
        for &index in indexes {
            let number = u16::try_from(index).expect("a batch has at most the files of a page");
            let name = CopyId { batch, index: number }.name();
            copies[index] = match self.draft_migrant(&migrants[index], name) {
                Ok((draft, copy)) => {
                    outcome.backed_up.push(draft);
                    Ok(copy)
                }
                Err(failure) => Err(failure.into()),
            };
        }
        self.conclude(segment, outcome);
    }

    fn draft_migrant(
        &mut self,
        migrant: &Migrant<'_>,
        name: Name,
    ) -> Result<(Draft, StoredCopy), ReadFailure> {
        let Context { filespace, rules, .. } = self.context;
        let mount_point = model::mount_point(filespace);
        let path = absolute(mount_point, &migrant.path.join(migrant.name));
        let class = rules.ruling(|| path.clone(), Kind::File).class;
        let attributes = Attributes { xattrs: vec![path_attribute(&path)], flags: 0 };
        if let Some(copy) = migrant.backed_up.filter(|_| self.assembler.trusts_grants) {
            let content = DraftContent::Known(KnownContent {
                name: name.clone(),
                filespace: mount_point.to_vec(),
                directory: migrant.path.clone(),
                of: migrant.name.clone(),
            });
            return Ok((Draft { name, class, stat: copy.found.stat, attributes, content }, copy));
        }
        self.assembler.treat(rules.treatment(|| path))?;
        let mut collector =
            ChunkCollector { assembler: &mut self.assembler, content: Content::default() };
        let (directory, of) = (migrant.directory, migrant.name.as_bytes());
        let (_, found) = self.reader.read(directory, of, None, Fidelity::Exact, &mut collector)?;
        let copy = StoredCopy { found, content: collector.content.digest() };
        let content = DraftContent::Data(collector.content);
        Ok((Draft { name, class, stat: found.stat, attributes, content }, copy))
    }
}
