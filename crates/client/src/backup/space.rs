//! Migrating: files go to the server as a batch, whatever they are called. A batch is a directory
//! of the filespace of what was migrated, and is filled once.

use std::sync::Arc;

use bytes::Bytes;
use chunk::{ContentHasher, Sealer};
use model::{Attributes, BatchId, CopyId, DirPath, Kind, Name, Object, Xattr, space_filespace};
use sys::{Dir, Found};
use wire::proto;

use super::examine::{Context, Draft, DraftContent, Examiner, Outcome};
use super::outbox::{Answered, Outbox};
use super::read::{Collect, Content, Fidelity, FileReader, Part, ReadFailure, Sink};
use super::session::{Scope, Session, Site, in_session};
use super::tally::Tally;
use super::walk::Segment;
use super::{Targets, absolute, pages, seal_key};
use crate::home::Home;
use crate::link::Link;
use crate::progress::Progress;
use crate::rules::{FileTreatment, Rules};
use crate::{BackupOptions, ClientError, ErrorKind, Tuning};

/// What a copy says of where its file was, so that a stub that was deleted can be made again.
const PATH_ATTRIBUTE: &[u8] = b"holdfast.path";

fn path_attribute(path: &[u8]) -> Xattr {
    Xattr { name: PATH_ATTRIBUTE.to_vec(), value: path.to_vec() }
}

/// Where the file of a copy was when it was migrated.
pub(crate) fn path_of(copy: &Object) -> Option<&[u8]> {
    let is_path = |xattr: &&Xattr| xattr.name == PATH_ATTRIBUTE;
    copy.attributes.xattrs.iter().find(is_path).map(|xattr| &xattr.value[..])
}

/// Files in a batch at most: as many as a page holds.
pub const BATCH_FILES_MAX: usize = model::PAGE_OBJECTS_MAX;

/// A file to be migrated.
pub struct Migrant<'a> {
    pub directory: &'a Dir,
    pub name: &'a Name,
    /// Where it is in its file system.
    pub path: &'a DirPath,
    /// What the server's backup of it holds, if that is its current state: then it is not read.
    pub backed_up: Option<(Found, [u8; 16])>,
}

/// What the server has of a file that was migrated.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Copied {
    /// What the file was.
    pub found: Found,
    /// The digest of its content, as server and client can both make it.
    pub content: [u8; 16],
}

/// Sends `migrants` as the batch `batch`; tells of each what the server has durably, or why not.
pub(crate) fn migrate(
    link: &Link,
    home: &Home,
    mount_point: &[u8],
    batch: BatchId,
    migrants: &[Migrant<'_>],
) -> Result<Vec<Result<Copied, String>>, ClientError> {
    assert!(migrants.len() <= BATCH_FILES_MAX, "a batch is a page");
    let rules = Rules::load(home, link, None, &[], policy::Operation::Backup)?;
    let seal_key = seal_key(link, &rules)?;
    let tally = Tally::new(Arc::new(Progress::default()));
    let options = options();
    let site = Site { link, home, options: &options, rules: &rules, seal_key, tally: &tally };
    let filespace = space_filespace(mount_point);
    let scope = Scope { filespace: &filespace, root: b"/", reflinks: false, targets: &[] };
    let mut copied: Vec<Result<Copied, String>> = Vec::new();
    in_session(site, &scope, &mut |session, outbox, answered| {
        copied = session.send_batch(outbox, answered, batch, migrants)?;
        Ok(())
    })?;
    Ok(copied)
}

fn options() -> BackupOptions {
    BackupOptions {
        targets: Targets::Selective(Vec::new()),
        excludes: Vec::new(),
        inclexcl: None,
        full: false,
        dry_run: false,
        cross_filesystems: false,
        confirm_expire: false,
        snapshot: None,
        tuning: Tuning { deduplication: Some(true), ..Tuning::default() },
        archive: None,
    }
}

/// Of each file named, all in `directory` of the mount point, the digest of what the server's
/// backup holds, if it is as `found` says.
pub(crate) fn backed_up(
    link: &Link,
    mount_point: &[u8],
    directory: &DirPath,
    files: &[(&Name, Found)],
) -> Result<Vec<Option<[u8; 16]>>, ClientError> {
    let mut known = vec![None; files.len()];
    let mut done = 0;
    while let Some((name, _)) = files.get(done) {
        let (first, page) = pages::holding(link, mount_point, directory, name.as_bytes())?;
        let objects = page.objects()?;
        // Those that this page would hold too: up to the last object of it, and one at least.
        let last = objects.last().map(|object| object.name.clone());
        let of_page = files[done..]
            .iter()
            .take_while(|(name, _)| last.as_ref().is_some_and(|last| *name <= last))
            .count();
        let asked = &files[done..done + of_page.max(1)];
        let is_current = |(name, found): &&(&Name, Found)| {
            let at = objects.binary_search_by(|object| object.name.cmp(name));
            at.is_ok_and(|at| objects[at].stat == found.stat && found.stat.kind == Kind::File)
        };
        let current: Vec<&(&Name, Found)> = asked.iter().filter(is_current).collect();
        let names: Vec<&[u8]> = current.iter().map(|(name, _)| name.as_bytes()).collect();
        if !names.is_empty() {
            let contents = pages::contents(link, mount_point, directory, &first, &names)?;
            for ((name, _), content) in current.iter().zip(contents) {
                let at = files.iter().position(|(known, _)| known == name);
                known[at.expect("one of those asked for")] = content;
            }
        }
        done += asked.len();
    }
    Ok(known)
}

/// The digest of what the file at `path` holds now, as the server makes it.
pub(crate) fn content(
    link: &Link,
    home: &Home,
    path: &[u8],
    (directory, name): (&Dir, &Name),
) -> Result<[u8; 16], ClientError> {
    let rules = Rules::load(home, link, None, &[], policy::Operation::Backup)?;
    let treatment = rules.treatment(|| path.to_vec());
    let failed = |error: std::io::Error| ClientError::new(ErrorKind::Bug, error.to_string());
    let sealer = match seal_key(link, &rules)? {
        Some(key) if treatment.encrypts => Some(Sealer::new(key.clone()).map_err(failed)?),
        _ => None,
    };
    let mut digesting = Digesting { link, treatment, sealer, hasher: ContentHasher::new() };
    let read =
        FileReader::new().read(directory, name.as_bytes(), None, Fidelity::Exact, &mut digesting);
    read.map_err(|failure| {
        let message = format!("{}: {failure}", model::escaped(path));
        ClientError::new(ErrorKind::Busy, message)
    })?;
    Ok(digesting.hasher.finish())
}

/// Digests a content without sending it.
struct Digesting<'a> {
    link: &'a Link,
    treatment: FileTreatment,
    sealer: Option<Sealer>,
    hasher: ContentHasher,
}

impl Sink for Digesting<'_> {
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

/// Lets go of copies of a batch: they become inactive, and are kept as their class says.
pub(crate) fn release(
    link: &Link,
    home: &Home,
    mount_point: &[u8],
    copies: &[CopyId],
) -> Result<(), ClientError> {
    let rules = Rules::load(home, link, None, &[], policy::Operation::Backup)?;
    let tally = Tally::new(Arc::new(Progress::default()));
    let options = options();
    let site = Site { link, home, options: &options, rules: &rules, seal_key: None, tally: &tally };
    let filespace = space_filespace(mount_point);
    let scope = Scope { filespace: &filespace, root: b"/", reflinks: false, targets: &[] };
    in_session(site, &scope, &mut |_, mut outbox, _| {
        for of_batch in copies.chunk_by(|a, b| a.batch == b.batch) {
            let directory = of_batch[0].batch.directory();
            let names = of_batch.iter().map(|copy| copy.name().as_bytes().to_vec().into());
            outbox.send_change(proto::PageChange {
                directory: Bytes::copy_from_slice(directory.as_bytes()),
                expired: names.collect(),
                pages: vec![proto::PageKey::default()],
                ..proto::PageChange::default()
            })?;
        }
        outbox.close(false, String::new())
    })
}

impl Session<'_> {
    fn send_batch(
        &self,
        mut outbox: Outbox<'_>,
        answered: &Answered,
        batch: BatchId,
        migrants: &[Migrant<'_>],
    ) -> Result<Vec<Result<Copied, String>>, ClientError> {
        let root = Dir::open(b"/").map_err(|error| {
            ClientError::new(ErrorKind::Bug, format!("cannot open the root directory: {error}"))
        })?;
        let segment = Segment {
            dir: Arc::new(root),
            path: batch.directory(),
            first: Vec::new(),
            entries: Vec::new(),
            unreadable: Vec::new(),
            is_whole: false,
            counts: true,
        };
        let mut copied: Vec<Result<Copied, String>> = Vec::new();
        let all: Vec<usize> = (0..migrants.len()).collect();
        copied.resize(all.len(), Err("it was not sent".to_owned()));
        self.send_with(&mut outbox, true, |examiner| {
            examiner.take_migrants(&segment, migrants, &all, &mut copied);
        })?;
        self.check_session(answered)?;
        let refused = indexes(&outbox.take_rejected());
        if !refused.is_empty() {
            self.send_with(&mut outbox, false, |examiner| {
                examiner.take_migrants(&segment, migrants, &refused, &mut copied);
            })?;
            self.check_session(answered)?;
            for rejected in outbox.take_rejected() {
                for index in indexes(std::slice::from_ref(&rejected)) {
                    copied[index] = Err(rejected.reason.clone());
                }
            }
        }
        outbox.close(false, String::new())?;
        Ok(copied)
    }
}

fn indexes(rejected: &[proto::Rejected]) -> Vec<usize> {
    let index = |object: &proto::Rejected| CopyId::index_of(&Name::new(&object.name).ok()?);
    rejected.iter().filter_map(index).map(usize::from).collect()
}

impl Examiner<'_> {
    /// Takes those of the `migrants` at `indexes`, which are in order, and tells what came of them.
    fn take_migrants(
        &mut self,
        segment: &Segment,
        migrants: &[Migrant<'_>],
        indexes: &[usize],
        copied: &mut [Result<Copied, String>],
    ) {
        let mut outcome = Outcome::default();
        let batch = BatchId::of_directory(&segment.path).expect("made for a batch");
        for &index in indexes {
            let number = u16::try_from(index).expect("a batch is a page");
            let name = CopyId { batch, index: number }.name();
            copied[index] = match self.draft_migrant(&migrants[index], name) {
                Ok((draft, copied)) => {
                    outcome.backed_up.push(draft);
                    Ok(copied)
                }
                Err(failure) => Err(failure.to_string()),
            };
        }
        self.conclude(segment, outcome);
    }

    fn draft_migrant(
        &mut self,
        migrant: &Migrant<'_>,
        name: Name,
    ) -> Result<(Draft, Copied), ReadFailure> {
        let Context { filespace, rules, .. } = self.context;
        let mount_point = model::mount_point(filespace);
        let path = absolute(mount_point, &migrant.path.join(migrant.name));
        let class = rules.ruling(|| path.clone(), Kind::File).class;
        let attributes = Attributes { xattrs: vec![path_attribute(&path)], flags: 0 };
        if let Some((found, content)) = migrant.backed_up.filter(|_| self.assembler.trusts_grants) {
            let known = DraftContent::Known(proto::KnownContent {
                name: Bytes::copy_from_slice(name.as_bytes()),
                filespace: Bytes::copy_from_slice(mount_point),
                directory: Bytes::copy_from_slice(migrant.path.as_bytes()),
                of: Bytes::copy_from_slice(migrant.name.as_bytes()),
            });
            let draft = Draft { name, class, stat: found.stat, attributes, content: known };
            return Ok((draft, Copied { found, content }));
        }
        self.assembler.treat(rules.treatment(|| path))?;
        let mut collect = Collect { assembler: &mut self.assembler, content: Content::default() };
        let (directory, of) = (migrant.directory, migrant.name.as_bytes());
        let (_, found) = self.reader.read(directory, of, None, Fidelity::Exact, &mut collect)?;
        let copied = Copied { found, content: digest(&collect.content) };
        let content = DraftContent::Data(collect.content);
        Ok((Draft { name, class, stat: found.stat, attributes, content }, copied))
    }
}

/// The digest of a content, as the server makes it.
fn digest(content: &Content) -> [u8; 16] {
    let mut hasher = ContentHasher::new();
    for part in &content.parts {
        match part {
            Part::Chunk(chunk) | Part::Sealed { chunk, .. } => hasher.chunk(&chunk.digest),
            Part::Hole { bytes } => hasher.hole(*bytes),
        }
    }
    hasher.finish()
}
