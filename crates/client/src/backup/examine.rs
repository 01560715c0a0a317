//! Examining a page's objects one by one: what is new, what has changed, what is gone.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use bytes::Bytes;
use chunk::{ContentHasher, DomainKey};
use crossbeam_channel::Sender;
use format::page;
use model::{
    Attributes, ChunkDigest, ClassId, DirPath, DirectoryDigest, Extent, Kind, Name, Object,
    PAGE_OBJECTS_MAX, Payload, ServerTime, SessionPlace, Stat, Timestamp,
};
use sys::Found;
use wire::proto;

use super::compare::{Follow, Verdict, compare, follow};
use super::crew::Crew;
use super::data::{Assembler, Chunks};
use super::digest::Digester;
use super::outbox::{Change, Outgoing};
use super::presented::ChangeBuilder;
use super::read::{
    Collect, Content, Fidelity, FileReader, Patience, ReadFailure, Sink, read_stream,
};
use super::settled::{NO_CHANGE_TIME, Settled, settled};
use super::tally::Tally;
use super::walk::Segment;
use super::{absolute, pages, stub};
use crate::link::Link;
use crate::report::Failure;
use crate::rules::Rules;
use crate::{Stream, has_data};

/// Objects examined as one page at most; the page may be divided into so many more.
const SEGMENT_OBJECTS_MAX: usize = 2 * PAGE_OBJECTS_MAX;

/// Bytes of extended attributes in one change at most, so that it fits a message.
const ATTRIBUTE_BYTES_MAX: usize = 24 << 20;

/// Changes that may wait for one quantum to fill: tiny files fill it slowly.
const CHANGES_WAITING_MAX: usize = 4096;

/// Expirations of one page, held back.
pub(super) struct Expiry {
    pub(super) path: DirPath,
    pub(super) first: Vec<u8>,
    pub(super) names: Vec<(Name, Kind)>,
    /// The page's digest once they have been made.
    pub(super) digest: Option<DirectoryDigest>,
}

impl Expiry {
    pub(super) fn has_directory(&self) -> bool {
        self.names.iter().any(|(_, kind)| *kind == Kind::Directory)
    }
}

/// What all examiners of one filespace share.
pub(super) struct Context<'a> {
    pub(super) link: &'a Link,
    pub(super) filespace: &'a [u8],
    pub(super) chunks: &'a Chunks<'a>,
    pub(super) digester: &'a Digester,
    pub(super) readers: &'a Crew,
    pub(super) tally: &'a Tally,
    pub(super) rules: &'a Rules,
    /// Send every object, changed or not.
    pub(super) sends_all: bool,
    /// Let a changed object wait where its class says so.
    pub(super) keeps_frequency: bool,
    pub(super) is_dry: bool,
}

/// One examining thread.
pub(super) struct Examiner<'a> {
    pub(super) context: &'a Context<'a>,
    pub(super) reader: FileReader,
    pub(super) assembler: Assembler<'a>,
    outgoing: Sender<Outgoing>,
    pub(super) expiries: Vec<Expiry>,
    digest_buffer: Vec<u8>,
    /// Changes made since the open quantum was last sent, however little is in it.
    changes_waiting: usize,
}

/// An object on its way to the server.
pub(super) struct Draft {
    pub(super) name: Name,
    pub(super) class: ClassId,
    pub(super) stat: Stat,
    pub(super) attributes: Attributes,
    pub(super) content: DraftContent,
}

pub(super) enum DraftContent {
    Nothing,
    Target(Vec<u8>),
    Data(Content),
    /// The server has it as that of another object.
    Known(proto::KnownContent),
}

/// What one segment has come to.
#[derive(Default)]
pub(super) struct Outcome<'s> {
    pub(super) backed_up: Vec<Draft>,
    updated: Vec<Draft>,
    /// Names and stats as they are stored after this: what the digests are made of.
    stored: Vec<(&'s Name, Stat)>,
    expired: Vec<(Name, Kind)>,
    /// Whether an object could not be taken, or is to be looked at next time whatever its stat
    /// says: then there is no digest.
    has_failed: bool,
    /// Of the extended attributes taken so far.
    attribute_bytes: usize,
}

impl Outcome<'_> {
    /// Makes room for the attributes of one more object, if there is any.
    fn admits(&mut self, attributes: &Attributes) -> bool {
        let bytes = |xattr: &model::Xattr| xattr.name.len() + xattr.value.len();
        self.attribute_bytes += attributes.xattrs.iter().map(bytes).sum::<usize>();
        self.attribute_bytes <= ATTRIBUTE_BYTES_MAX
    }
}

/// An object whose content must be compared.
struct Suspect<'s> {
    name: &'s Name,
    class: ClassId,
    attributes: Attributes,
}

impl<'a> Examiner<'a> {
    pub(super) fn new(
        context: &'a Context<'a>,
        assembler: Assembler<'a>,
        outgoing: Sender<Outgoing>,
    ) -> Self {
        Self {
            context,
            reader: FileReader::new(),
            assembler,
            outgoing,
            expiries: Vec::new(),
            digest_buffer: Vec::new(),
            changes_waiting: 0,
        }
    }

    /// Examines `segment` against the server's page of it, which holds `old`. What is more than a
    /// few pages' worth is divided first, so that no change grows without bound.
    pub(super) fn examine(&mut self, segment: Segment, old: &[Object]) {
        if !segment.is_whole || segment.entries.len() <= SEGMENT_OBJECTS_MAX {
            return self.examine_page(&segment, old);
        }
        let parts = divide(segment);
        if !old.is_empty() && !self.context.is_dry {
            self.send_division(&parts);
        }
        let mut rest = old;
        for (number, part) in parts.iter().enumerate() {
            let next = parts.get(number + 1).map(|next| &next.first[..]);
            let is_of_part = |object: &Object| next.is_none_or(|n| object.name.as_bytes() < n);
            let (of_part, behind) = rest.split_at(rest.partition_point(is_of_part));
            rest = behind;
            self.examine_page(part, of_part);
        }
    }

    /// Has the server divide its page where `parts` begin, before anything in them changes.
    fn send_division(&self, parts: &[Segment]) {
        let [whole, ..] = parts else { return };
        let key = |part: &Segment| proto::PageKey {
            first: Bytes::copy_from_slice(&part.first),
            digest: Bytes::new(),
        };
        let message = proto::PageChange {
            directory: Bytes::copy_from_slice(whole.path.as_bytes()),
            first: Bytes::copy_from_slice(&whole.first),
            pages: parts.iter().map(key).collect(),
            ..proto::PageChange::default()
        };
        let change = Change { message, quanta: BTreeSet::new(), objects: 0 };
        // The stages below end first only when the session has failed; that is told elsewhere.
        drop(self.outgoing.send(Outgoing::Change(change)));
    }

    fn examine_page(&mut self, segment: &Segment, old: &[Object]) {
        let mut outcome =
            Outcome { has_failed: !segment.unreadable.is_empty(), ..Outcome::default() };
        let mut suspects = Vec::new();
        let mut kept = 0;
        let mut rest = old;
        for (name, found) in &segment.entries {
            // Most often it is the next one.
            while let [gone, from @ ..] = rest
                && gone.name < *name
            {
                note_gone(segment, gone, &mut outcome);
                rest = from;
            }
            match rest {
                [known, from @ ..] if known.name == *name => {
                    rest = from;
                    kept += 1;
                    self.reexamine(segment, (name, found), known, &mut outcome, &mut suspects);
                }
                _ => self.back_up(segment, name, found, &mut outcome),
            }
        }
        self.context.tally.kept.fetch_add(kept, Relaxed);
        rest.iter().for_each(|gone| note_gone(segment, gone, &mut outcome));
        self.compare_contents(segment, suspects, &mut outcome);
        self.conclude(segment, outcome);
    }

    fn reexamine<'s>(
        &mut self,
        segment: &Segment,
        (name, found): (&'s Name, &Found),
        known: &Object,
        outcome: &mut Outcome<'s>,
        suspects: &mut Vec<Suspect<'s>>,
    ) {
        let class = self.class_of(segment, name, found.stat.kind);
        // Objects of such a class are sent each time: their directory must not look unchanged.
        let is_absolute = self.context.rules.is_absolute(class);
        outcome.has_failed |= is_absolute;
        let verdict = match compare(known, &found.stat, class) {
            _ if self.context.sends_all || is_absolute => Verdict::NewVersion,
            Verdict::Same => Verdict::Same,
            _ if self.waits(known, class) => {
                outcome.has_failed = true;
                Verdict::Same
            }
            verdict => verdict,
        };
        match verdict {
            Verdict::Same => outcome.stored.push((name, found.stat)),
            Verdict::NewVersion => self.back_up(segment, name, found, outcome),
            Verdict::Rebind => {
                self.count(segment, &self.context.tally.rebound);
                let attributes = Attributes::clone(&known.attributes);
                self.update(segment, (name, found), attributes, known, outcome);
            }
            Verdict::Attributes { and_content } => {
                let Some((found, attributes, target)) = self.look(segment, name, found) else {
                    outcome.has_failed = true;
                    return;
                };
                let found = &found;
                match follow(known, &attributes, target.as_deref(), and_content) {
                    Follow::NewVersion => self.back_up(segment, name, found, outcome),
                    Follow::Update => {
                        self.count(segment, &self.context.tally.updated);
                        self.update(segment, (name, found), attributes, known, outcome);
                    }
                    Follow::CompareContent => {
                        suspects.push(Suspect { name, class, attributes });
                    }
                }
            }
        }
    }

    fn class_of(&self, segment: &Segment, name: &Name, kind: Kind) -> ClassId {
        let path = || absolute(self.context.filespace, &segment.path.join(name));
        self.context.rules.ruling(path, kind).class
    }

    /// Whether the object was sent so lately that its class has it wait.
    fn waits(&self, known: &Object, class: ClassId) -> bool {
        let days = self.context.rules.group(class).map_or(0, |group| group.frequency_days);
        let now = self.context.link.hello().now;
        let stands = policy::expiry::stands(policy::Limit::AtMost(days), known.inserted, now);
        self.context.keeps_frequency && stands
    }

    fn count(&self, segment: &Segment, counter: &AtomicU64) {
        counter.fetch_add(u64::from(segment.counts), Relaxed);
    }

    fn fail(&self, segment: &Segment, name: &Name, error: String) {
        let path = absolute(self.context.filespace, &segment.path.join(name));
        self.context.tally.fail(Failure { path, error });
    }

    /// As the function `look`; `None` and a failure if they cannot be read.
    fn look(
        &self,
        segment: &Segment,
        name: &Name,
        found: &Found,
    ) -> Option<(Found, Attributes, Option<Vec<u8>>)> {
        let looked = look(segment, name, found);
        looked.map_err(|error| self.fail(segment, name, error.to_string())).ok()
    }

    fn update<'s>(
        &self,
        segment: &Segment,
        (name, found): (&'s Name, &Found),
        attributes: Attributes,
        known: &Object,
        outcome: &mut Outcome<'s>,
    ) {
        if self.context.is_dry {
            self.plan("update", segment, name);
        }
        let content = match &known.payload {
            Payload::Target(target) => DraftContent::Target(target.clone()),
            Payload::Nothing | Payload::Extents(_) => DraftContent::Nothing,
        };
        outcome.stored.push((name, found.stat));
        let class = self.class_of(segment, name, found.stat.kind);
        let name = name.clone();
        outcome
            .updated
            .push(Draft { name, class, stat: found.stat, attributes, content });
    }

    fn plan(&self, verb: &'static str, segment: &Segment, name: &Name) {
        let path = absolute(self.context.filespace, &segment.path.join(name));
        self.context.tally.plan(verb, path);
    }

    /// Takes a new state of an object.
    fn back_up<'s>(
        &mut self,
        segment: &Segment,
        name: &'s Name,
        found: &Found,
        outcome: &mut Outcome<'s>,
    ) {
        let class = self.class_of(segment, name, found.stat.kind);
        if let Some(refusal) = self.context.rules.refuses(class) {
            self.fail(segment, name, refusal);
            outcome.has_failed = true;
            return;
        }
        outcome.has_failed |= self.context.rules.is_absolute(class);
        if self.context.is_dry {
            self.plan("back up", segment, name);
            self.count(segment, &self.context.tally.backed_up);
            return;
        }
        match self.draft(segment, name, found, class) {
            Ok(draft) if !outcome.admits(&draft.attributes) => {
                let error = "the extended attributes of this directory's objects take too much";
                self.fail(segment, name, error.to_owned());
                outcome.has_failed = true;
            }
            Ok(draft) => {
                outcome.stored.push((name, draft.stat));
                self.count(segment, &self.context.tally.backed_up);
                self.context.tally.progress.done.fetch_add(1, Relaxed);
                outcome.backed_up.push(draft);
            }
            Err(failure) => {
                self.fail(segment, name, failure.to_string());
                outcome.has_failed = true;
            }
        }
    }

    /// Takes a stream as the file `name` of the segment's directory.
    pub(super) fn take_stream(&mut self, segment: &Segment, name: &Name, stream: &mut dyn Stream) {
        let mut outcome = Outcome::default();
        match self.draft_stream(segment, name, stream) {
            Ok(draft) => {
                // Read again it is the same one stream of the run.
                self.context.tally.bytes_inspected.store(draft.stat.size, Relaxed);
                outcome.stored.push((name, draft.stat));
                self.count(segment, &self.context.tally.backed_up);
                outcome.backed_up.push(draft);
            }
            Err(error) => self.fail(segment, name, error),
        }
        self.conclude(segment, outcome);
    }

    fn draft_stream(
        &mut self,
        segment: &Segment,
        name: &Name,
        stream: &mut dyn Stream,
    ) -> Result<Draft, String> {
        let class = self.class_of(segment, name, Kind::File);
        if let Some(refusal) = self.context.rules.refuses(class) {
            return Err(refusal);
        }
        let path = || absolute(self.context.filespace, &segment.path.join(name));
        let treated = self.assembler.treat(self.context.rules.treatment(path));
        treated.map_err(|error| error.to_string())?;
        let assembler = &mut self.assembler;
        let mut collect = Collect { assembler, content: Content::default() };
        let read = read_stream(stream, &self.context.tally.progress, &mut collect);
        read.map_err(|error| error.to_string())?;
        stream.finish()?;
        let content = collect.content;
        self.count_data(&content);
        let micros = sys::clock::now().0;
        let nanos = u32::try_from(micros.rem_euclid(1_000_000) * 1000).unwrap_or(0);
        let (uid, gid) = sys::process::effective_ids();
        let stat = Stat {
            kind: Kind::File,
            mode: 0o600,
            uid,
            gid,
            size: content.data_bytes,
            mtime: Timestamp { secs: micros.div_euclid(1_000_000), nanos },
            ctime: NO_CHANGE_TIME,
            inode: 0,
            linked: false,
            device: 0,
        };
        let content =
            if stat.size > 0 { DraftContent::Data(content) } else { DraftContent::Nothing };
        let attributes = Attributes::default();
        Ok(Draft { name: name.clone(), class, stat, attributes, content })
    }

    /// Counts the content of a file that was treated as the assembler is told.
    fn count_data(&self, content: &Content) {
        let tally = self.context.tally;
        let has_data = content.data_bytes > 0;
        let encrypted = has_data && self.assembler.encrypts();
        tally.deduplicated.fetch_add(u64::from(has_data), Relaxed);
        tally.encrypted.fetch_add(u64::from(encrypted), Relaxed);
        tally.bytes_before_dedup.fetch_add(content.data_bytes, Relaxed);
    }

    fn draft(
        &mut self,
        segment: &Segment,
        name: &Name,
        found: &Found,
        class: ClassId,
    ) -> Result<Draft, ReadFailure> {
        if found.stat.kind == Kind::File && found.stat.size > 0 {
            return self.draft_file(segment, name, found, class);
        }
        let (found, attributes, target) = look(segment, name, found)?;
        let content = target.map_or(DraftContent::Nothing, DraftContent::Target);
        Ok(Draft { name: name.clone(), class, stat: found.stat, attributes, content })
    }

    fn draft_file(
        &mut self,
        segment: &Segment,
        name: &Name,
        found: &Found,
        class: ClassId,
    ) -> Result<Draft, ReadFailure> {
        if self.assembler.trusts_grants
            && let Some(stub) = stub::of(&segment.dir, name, found)?
        {
            let attributes = segment.dir.attributes_unopened(name.as_bytes())?;
            let content = DraftContent::Known(stub::known(self.context.filespace, name, &stub));
            return Ok(Draft { name: name.clone(), class, stat: found.stat, attributes, content });
        }
        let tally = self.context.tally;
        let path = || absolute(self.context.filespace, &segment.path.join(name));
        self.assembler.treat(self.context.rules.treatment(path))?;
        let patience = Patience::of(self.context.rules.group(class));
        let mut seen = Some(found);
        let mut tries = 0;
        loop {
            let assembler = &mut self.assembler;
            let mut collect = Collect { assembler, content: Content::default() };
            let (reader, dir) = (&mut self.reader, &segment.dir);
            let crew = self.context.readers;
            let fidelity = patience.fidelity(tries);
            match crew.measure(|| reader.read(dir, name.as_bytes(), seen, fidelity, &mut collect)) {
                Ok((file, found)) => {
                    let content = collect.content;
                    let attributes = file.attributes()?;
                    self.count_data(&content);
                    let content = if found.stat.size > 0 {
                        DraftContent::Data(content)
                    } else {
                        DraftContent::Nothing
                    };
                    let (name, stat) = (name.clone(), found.stat);
                    return Ok(Draft { name, class, stat, attributes, content });
                }
                // It has changed since it was listed, which need not be while it was read.
                Err(ReadFailure::Changed) if seen.is_some() => seen = None,
                Err(ReadFailure::Changed) if tries < patience.retries => {
                    tries += 1;
                    tally.retries.fetch_add(1, Relaxed);
                }
                Err(failure) => return Err(failure),
            }
        }
    }

    /// Settles the objects of which only ctime, inode or link count has changed.
    fn compare_contents<'s>(
        &mut self,
        segment: &Segment,
        suspects: Vec<Suspect<'s>>,
        outcome: &mut Outcome<'s>,
    ) {
        if suspects.is_empty() {
            return;
        }
        let names: Vec<&[u8]> = suspects.iter().map(|suspect| suspect.name.as_bytes()).collect();
        let Context { link, filespace, .. } = self.context;
        let asked = pages::contents(link, filespace, &segment.path, &segment.first, &names);
        // What the server cannot tell is sent again.
        let stored = asked.unwrap_or_else(|_| vec![None; suspects.len()]);
        for (suspect, stored) in suspects.into_iter().zip(stored) {
            let Suspect { name, class, attributes } = suspect;
            match self.read_and_hash(segment, name) {
                Ok((content, found)) if stored == Some(content) => {
                    self.count(segment, &self.context.tally.updated);
                    if self.context.is_dry {
                        self.plan("update", segment, name);
                    }
                    outcome.stored.push((name, found.stat));
                    let (name, stat) = (name.clone(), found.stat);
                    let content = DraftContent::Nothing;
                    outcome.updated.push(Draft { name, class, stat, attributes, content });
                }
                Ok((_, found)) => self.back_up(segment, name, &found, outcome),
                Err(ReadFailure::Changed) => match segment.dir.stat(name.as_bytes()) {
                    Ok(Some(found)) => self.back_up(segment, name, &found, outcome),
                    _ => {
                        self.fail(segment, name, ReadFailure::Changed.to_string());
                        outcome.has_failed = true;
                    }
                },
                Err(failure) => {
                    self.fail(segment, name, failure.to_string());
                    outcome.has_failed = true;
                }
            }
        }
        outcome.stored.sort_by(|a, b| a.0.cmp(b.0));
        outcome.updated.sort_by(|a, b| a.name.cmp(&b.name));
        outcome.backed_up.sort_by(|a, b| a.name.cmp(&b.name));
    }

    /// Digests the file as the server would, and tells what it is.
    fn read_and_hash(
        &mut self,
        segment: &Segment,
        name: &Name,
    ) -> Result<([u8; 16], Found), ReadFailure> {
        if let Some(found) = segment.dir.stat(name.as_bytes())?
            && let Some(stub) = stub::of(&segment.dir, name, &found)?
        {
            return Ok((stub.content, found));
        }
        let path = || absolute(self.context.filespace, &segment.path.join(name));
        self.assembler.treat(self.context.rules.treatment(path))?;
        let (key, assembler) = (self.context.chunks.key, &mut self.assembler);
        let mut hash = Hash { key, assembler, hasher: ContentHasher::new() };
        let exact = Fidelity::Exact;
        let (_, found) = self.reader.read(&segment.dir, name.as_bytes(), None, exact, &mut hash)?;
        Ok((hash.hasher.finish(), found))
    }

    /// Sends what the segment has come to, and keeps back what expires.
    pub(super) fn conclude(&mut self, segment: &Segment, outcome: Outcome<'_>) {
        let changes = !outcome.backed_up.is_empty() || !outcome.updated.is_empty();
        if !segment.is_whole && !changes {
            return;
        }
        let has_digests = segment.is_whole && !outcome.has_failed;
        let pages = self.pages(segment, &outcome.stored, has_digests);
        let is_withheld = !outcome.expired.is_empty();
        self.withhold(segment, outcome.expired, &pages);
        if self.context.is_dry {
            return;
        }
        let mut change = ChangeBuilder::new(self.context.chunks);
        let objects = (outcome.backed_up.len() + outcome.updated.len()) as u64;
        let backed_up = self.encode(outcome.backed_up, &mut change);
        let updated = self.encode(outcome.updated, &mut change);
        let key = |(first, digest): (Vec<u8>, Option<DirectoryDigest>)| proto::PageKey {
            first: first.into(),
            digest: digest
                .filter(|_| !is_withheld)
                .map_or_else(Bytes::new, |digest| Bytes::copy_from_slice(&digest.0)),
        };
        let message = proto::PageChange {
            directory: Bytes::copy_from_slice(segment.path.as_bytes()),
            first: Bytes::copy_from_slice(&segment.first),
            backed_up,
            updated,
            expired: Vec::new(),
            grants: change.grants.into(),
            pages: pages.into_iter().map(key).collect(),
            known: change.known,
        };
        let outgoing = Outgoing::Change(Change { message, quanta: change.quanta, objects });
        // The stages below end first only when the session has failed; that is told elsewhere.
        drop(self.outgoing.send(outgoing));
        self.changes_waiting += 1;
        if self.changes_waiting >= CHANGES_WAITING_MAX {
            self.flush();
        }
    }

    /// Sends the open quantum on its way, with the changes that wait for it.
    pub(super) fn flush(&mut self) {
        self.changes_waiting = 0;
        self.assembler.flush();
    }

    /// The pages that there are after the change, and their digests.
    fn pages(
        &mut self,
        segment: &Segment,
        stored: &[(&Name, Stat)],
        has_digests: bool,
    ) -> Vec<(Vec<u8>, Option<DirectoryDigest>)> {
        if !segment.is_whole {
            return vec![(segment.first.clone(), None)];
        }
        let page_count = stored.len().div_ceil(PAGE_OBJECTS_MAX).max(1);
        let per_page = stored.len().div_ceil(page_count).max(1);
        let mut parts: Vec<&[(&Name, Stat)]> = stored.chunks(per_page).collect();
        if parts.is_empty() {
            parts.push(&[]);
        }
        let digester = self.context.digester;
        let buffer = &mut self.digest_buffer;
        let page = |(number, part): (usize, &[(&Name, Stat)])| {
            let first = match part.first() {
                Some((name, _)) if number > 0 => name.as_bytes().to_vec(),
                _ => segment.first.clone(),
            };
            let stats = part.iter().map(|(name, stat)| (name.as_bytes(), stat));
            let digest = has_digests.then(|| digester.digest(&segment.path, stats, buffer));
            (first, digest)
        };
        parts.into_iter().enumerate().map(page).collect()
    }

    fn withhold(
        &mut self,
        segment: &Segment,
        expired: Vec<(Name, Kind)>,
        pages: &[(Vec<u8>, Option<DirectoryDigest>)],
    ) {
        if expired.is_empty() {
            return;
        }
        let mut rest = expired;
        // A page without an expiration still gets its digest at the end.
        for (first, digest) in pages.iter().rev() {
            let from = rest.partition_point(|(name, _)| name.as_bytes() < &first[..]);
            let names = rest.split_off(from);
            let (first, digest) = (first.clone(), *digest);
            self.expiries.push(Expiry { path: segment.path.clone(), first, names, digest });
        }
    }

    fn encode(&self, drafts: Vec<Draft>, change: &mut ChangeBuilder<'_>) -> Bytes {
        if drafts.is_empty() {
            return Bytes::new();
        }
        let object = |draft: Draft| {
            let Draft { name, class, stat, attributes, content } = draft;
            let payload = match content {
                DraftContent::Target(target) => Payload::Target(target),
                DraftContent::Data(content) => Payload::Extents(change.extents(&content)),
                DraftContent::Known(known) => {
                    change.known.push(known);
                    Payload::Extents(vec![Extent::Hole { bytes: stat.size }])
                }
                // The extents of an update are not looked at, but the format wants some.
                DraftContent::Nothing if has_data(stat.kind, stat.size) => {
                    Payload::Extents(vec![Extent::Hole { bytes: stat.size }])
                }
                DraftContent::Nothing => Payload::Nothing,
            };
            Object {
                name,
                stat,
                attributes: Arc::new(attributes),
                class,
                inserted: ServerTime(0),
                payload,
            }
        };
        let objects: Vec<Object<SessionPlace>> = drafts.into_iter().map(object).collect();
        page::encode(&objects).into()
    }
}

/// Divides a segment into pages' worth.
fn divide(segment: Segment) -> Vec<Segment> {
    let Segment { dir, path, first, entries, mut unreadable, is_whole, counts } = segment;
    let mut parts: Vec<Segment> = entries
        .chunks(PAGE_OBJECTS_MAX)
        .enumerate()
        .map(|(number, part)| Segment {
            dir: Arc::clone(&dir),
            path: path.clone(),
            first: if number == 0 { first.clone() } else { part[0].0.as_bytes().to_vec() },
            entries: part.to_vec(),
            unreadable: Vec::new(),
            is_whole,
            counts,
        })
        .collect();
    for part in parts.iter_mut().rev() {
        let (of_earlier, of_part) = unreadable.into_iter().partition(|name| *name < part.first);
        part.unreadable = of_part;
        unreadable = of_earlier;
    }
    parts
}

fn note_gone(segment: &Segment, gone: &Object, outcome: &mut Outcome<'_>) {
    let is_unreadable = || segment.unreadable.iter().any(|name| name == gone.name.as_bytes());
    if segment.is_whole && !is_unreadable() {
        outcome.expired.push((gone.name.clone(), gone.stat.kind));
    }
}

/// Attributes and, of a symbolic link, its target, with the stat that they belong to: `found`, or
/// a later one where its change time was too young.
fn look(
    segment: &Segment,
    name: &Name,
    found: &Found,
) -> std::io::Result<(Found, Attributes, Option<Vec<u8>>)> {
    let is_root = *name == Name::root();
    let mut found = *found;
    if let Settled::In(wait) = settled(&found.stat, sys::clock::now()) {
        sys::clock::sleep(wait);
        let again = match is_root {
            true => Some(segment.dir.stat_self()?),
            false => segment.dir.stat(name.as_bytes())?,
        };
        let is_same = |again: &Found| again.stat.kind == found.stat.kind;
        let changed = || std::io::Error::other("it changed while it was looked at");
        found = again.filter(is_same).ok_or_else(changed)?;
    }
    if settled(&found.stat, sys::clock::now()) != Settled::Yes {
        found.stat.ctime = NO_CHANGE_TIME;
    }
    if is_root {
        return Ok((found, segment.dir.own_attributes()?, None));
    }
    let kind = found.stat.kind;
    let attributes = match stub::of(&segment.dir, name, &found) {
        Ok(Some(_)) => segment.dir.attributes_unopened(name.as_bytes())?,
        _ => segment.dir.attributes(name.as_bytes(), kind)?,
    };
    let target = match kind {
        Kind::Symlink => Some(segment.dir.read_link(name.as_bytes())?),
        _ => None,
    };
    Ok((found, attributes, target))
}

/// Digests a content without keeping it.
struct Hash<'a, 'b> {
    key: &'a DomainKey,
    assembler: &'a mut Assembler<'b>,
    hasher: ContentHasher,
}

impl Sink for Hash<'_, '_> {
    fn chunk(&mut self, chunk: &[u8]) {
        let digest: ChunkDigest = match self.assembler.sealed(chunk) {
            Some(sealed) => self.key.digest(&sealed),
            None => self.key.digest(chunk),
        };
        self.hasher.chunk(&digest);
    }

    fn hole(&mut self, bytes: u64) {
        self.hasher.hole(bytes);
    }
}
