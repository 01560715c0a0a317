//! Examination: compares the objects of a page with the last backup, one by one, and decides what
//! is new, what has changed and what is gone.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use chunk::{ContentHasher, DomainKey};
use crossbeam_channel::Sender;
use model::{
    Attributes, ChunkDigest, ClassId, DirectoryDigest, Kind, Name, Object, PAGE_OBJECTS_MAX,
    Payload, Stat,
};
use sys::ObjectStatus;

use super::assembler::Assembler;
use super::clock_step::NO_CHANGE_TIME;
use super::compare::{Consequence, Verdict, compare, follow};
use super::comparison::ChangeKind;
use super::context::Context;
use super::draft::{Draft, DraftContent, Observation, Outcome, encode, observe};
use super::expiry::{self, Expiry, GoneObject};
use super::figures::Figures;
use super::outbox_message::{Change, OutboxMessage};
use super::presented::ChangeBuilder;
use super::read::{ChunkCollector, Content, Fidelity, FileReader, Patience, ReadFailure, Sink};
use super::segment::Segment;
use super::stub;
use crate::link::backup::{PageChange, PageKey};
use crate::path::absolute;
use crate::report::Failure;

/// Maximum number of objects that are examined together. They may become several pages.
const SEGMENT_OBJECTS_MAX: usize = 2 * PAGE_OBJECTS_MAX;

/// Reason of a failure: the object is too large for a message, or the other objects of its page
/// leave no room for it.
pub(super) const TOO_LARGE: &str = "the extended attributes and the chunks of this directory's \
                                    objects do not fit into one message; give the objects fewer \
                                    attributes, or move large files to other directories";

/// Maximum number of changes that wait for one quantum to fill: tiny files fill it slowly.
const CHANGES_WAITING_MAX: usize = 4096;

/// Examiner of one thread.
pub(super) struct Examiner<'a> {
    pub(super) context: &'a Context<'a>,
    pub(super) reader: FileReader,
    pub(super) assembler: Assembler<'a>,
    outgoing: Sender<OutboxMessage>,
    pub(super) expiries: Vec<Expiry>,
    digest_buffer: Vec<u8>,
    /// Number of changes since the last flush.
    changes_waiting: usize,
}

/// Entry of a segment.
#[derive(Clone, Copy)]
struct Entry<'s> {
    name: &'s Name,
    found: ObjectStatus,
    /// True if the server has a version of the object.
    is_known: bool,
}

/// Object whose content must be compared.
struct Suspect<'s> {
    name: &'s Name,
    class: ClassId,
    attributes: Attributes,
}

impl<'a> Examiner<'a> {
    pub(super) fn new(
        context: &'a Context<'a>,
        assembler: Assembler<'a>,
        outgoing: Sender<OutboxMessage>,
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

    /// Compares `segment` with the objects `old` of the server's page. A segment of more than a few
    /// pages is divided first, so that no change grows without bound.
    pub(super) fn examine(&mut self, segment: Segment, old: &[Object]) {
        if !segment.is_whole || segment.entries.len() <= SEGMENT_OBJECTS_MAX {
            return self.examine_page(&segment, old);
        }
        let parts = segment.divide();
        if !old.is_empty() && !self.context.is_dry {
            self.send_division(&parts);
        }
        let mut rest = old;
        for (number, part) in parts.iter().enumerate() {
            let next = parts.get(number + 1).map(|next| &next.first[..]);
            let is_of_part = |object: &Object| next.is_none_or(|n| object.name.as_bytes() < n);
            let (of_part, after) = rest.split_at(rest.partition_point(is_of_part));
            rest = after;
            self.examine_page(part, of_part);
        }
    }

    /// Makes the server divide its page where `parts` begin, before an object in them changes.
    fn send_division(&self, parts: &[Segment]) {
        let [whole, ..] = parts else { return };
        let key = |part: &Segment| PageKey { first: part.first.clone(), digest: None };
        let keys = parts.iter().map(key).collect();
        let page = PageChange::new(whole.path.clone(), whole.first.clone(), keys);
        self.send(Change { page, quanta: BTreeSet::new(), figures: Figures::default() });
    }

    fn send(&self, change: Change) {
        // Sending fails only after the session has failed. The reason is then already noted.
        drop(self.outgoing.send(OutboxMessage::Change(change)));
    }

    fn examine_page(&mut self, segment: &Segment, old: &[Object]) {
        let has_failed = !segment.unreadable.is_empty();
        let mut outcome = Outcome { has_failed, ..Outcome::default() };
        let mut suspects = Vec::new();
        let mut kept = 0;
        let mut rest = old;
        for (name, found) in &segment.entries {
            let mut entry = Entry { name, found: *found, is_known: false };
            // Usually the next object of the last backup has this name.
            while let [gone, from @ ..] = rest
                && gone.name < *name
            {
                self.note_gone(segment, gone, &mut outcome);
                rest = from;
            }
            match rest {
                [known, from @ ..] if known.name == *name => {
                    rest = from;
                    kept += 1;
                    entry.is_known = true;
                    self.reexamine(segment, entry, known, &mut outcome, &mut suspects);
                }
                _ => {
                    self.note_new(segment, entry);
                    self.back_up(segment, entry, &mut outcome);
                }
            }
        }
        self.context.tally.kept.fetch_add(kept, Relaxed);
        rest.iter().for_each(|gone| self.note_gone(segment, gone, &mut outcome));
        self.compare_contents(segment, suspects, &mut outcome);
        self.conclude(segment, outcome);
    }

    fn reexamine<'s>(
        &mut self,
        segment: &Segment,
        entry: Entry<'s>,
        known: &Object,
        outcome: &mut Outcome<'s>,
        suspects: &mut Vec<Suspect<'s>>,
    ) {
        let Entry { name, found, .. } = entry;
        if known.stat != found.stat {
            self.note_change(segment, entry, known);
        }
        let class = self.class_of(segment, name, found.stat.kind);
        // Objects of an absolute class are sent in each backup, so their page must not get a
        // digest.
        let is_absolute = self.context.rules.is_absolute(class);
        outcome.has_failed |= is_absolute;
        let verdict = match compare(known, &found.stat, class) {
            _ if (self.context.sends_all || is_absolute) && !self.context.has_stored(known) => {
                Verdict::NewVersion
            }
            Verdict::Same => Verdict::Same,
            _ if self.waits(known, class) => {
                outcome.has_failed = true;
                Verdict::Same
            }
            verdict => verdict,
        };
        match verdict {
            Verdict::Same => outcome.stored.push((name, found.stat)),
            Verdict::NewVersion => self.back_up(segment, entry, outcome),
            Verdict::Rebind => {
                self.count(segment, &self.context.tally.rebound);
                outcome.figures.rebound += u64::from(segment.counts);
                let attributes = Attributes::clone(&known.attributes);
                self.update(segment, entry, attributes, known, outcome);
            }
            Verdict::Attributes { and_content } => {
                let Observation { found, attributes, target } = match observe(segment, name, &found)
                {
                    Ok(observation) => observation,
                    Err(error) => return self.fail_in(outcome, segment, name, error.to_string()),
                };
                let entry = Entry { found, ..entry };
                match follow(known, &attributes, target.as_deref(), and_content) {
                    Consequence::NewVersion => self.back_up(segment, entry, outcome),
                    Consequence::Update => {
                        self.count(segment, &self.context.tally.updated);
                        self.update(segment, entry, attributes, known, outcome);
                    }
                    Consequence::CompareContent => {
                        suspects.push(Suspect { name, class, attributes });
                    }
                }
            }
        }
    }

    /// Notes an object that the server does not have.
    fn note_new(&self, segment: &Segment, Entry { name, found, .. }: Entry<'_>) {
        self.context.notes.change(&found);
        if segment.is_whole
            && let Some(comparison) = self.context.comparison.get()
        {
            comparison.note(&segment.path, name, ChangeKind::New);
        }
    }

    /// Notes an object whose status differs from that of its active version.
    fn note_change(&self, segment: &Segment, Entry { name, found, .. }: Entry<'_>, known: &Object) {
        self.context.notes.change(&found);
        if segment.is_whole
            && let Some(comparison) = self.context.comparison.get()
        {
            comparison.note_change(&segment.path, name, &known.stat, &found.stat);
        }
    }

    fn note_gone(&self, segment: &Segment, gone: &Object, outcome: &mut Outcome<'_>) {
        let is_unreadable = || segment.unreadable.iter().any(|name| name == gone.name.as_bytes());
        if !segment.is_whole || is_unreadable() {
            return;
        }
        if let Some(comparison) = self.context.comparison.get() {
            comparison.note(&segment.path, &gone.name, ChangeKind::Gone);
        }
        outcome
            .expired
            .push(GoneObject { name: gone.name.clone(), kind: gone.stat.kind });
    }

    pub(super) fn class_of(&self, segment: &Segment, name: &Name, kind: Kind) -> ClassId {
        let path = || absolute(self.context.filespace, &segment.path.join(name));
        self.context.rules.ruling(path, kind).class
    }

    /// Returns true if the object was sent so recently that its class leaves it to a later backup.
    fn waits(&self, known: &Object, class: ClassId) -> bool {
        let days = self.context.rules.group(class).map_or(0, |group| group.frequency_days);
        let now = self.context.link.hello().now;
        let stands = policy::expiry::stands(policy::Limit::AtMost(days), known.inserted, now);
        self.context.keeps_frequency && stands
    }

    pub(super) fn count(&self, segment: &Segment, counter: &AtomicU64) {
        counter.fetch_add(u64::from(segment.counts), Relaxed);
    }

    pub(super) fn fail(&self, segment: &Segment, name: &Name, error: String) {
        let path = absolute(self.context.filespace, &segment.path.join(name));
        self.context.tally.fail(Failure { path, error });
    }

    /// Counts a failure, after which the page gets no digest.
    fn fail_in(&self, outcome: &mut Outcome<'_>, segment: &Segment, name: &Name, error: String) {
        self.fail(segment, name, error);
        outcome.has_failed = true;
    }

    fn update<'s>(
        &self,
        segment: &Segment,
        Entry { name, found, .. }: Entry<'s>,
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
        let class = self.class_of(segment, name, found.stat.kind);
        let draft = Draft { name: name.clone(), class, stat: found.stat, attributes, content };
        self.push_update(segment, name, draft, outcome);
    }

    /// Adds a draft of new attributes, if the message has room for them.
    fn push_update<'s>(
        &self,
        segment: &Segment,
        name: &'s Name,
        draft: Draft,
        outcome: &mut Outcome<'s>,
    ) {
        if !outcome.admit(&draft) {
            return self.fail_in(outcome, segment, name, TOO_LARGE.to_owned());
        }
        outcome.stored.push((name, draft.stat));
        self.tell("update", segment, name);
        outcome.updated.push(draft);
    }

    /// Tells whoever wants to hear of each object.
    fn tell(&self, verb: &str, segment: &Segment, name: &Name) {
        if !self.context.is_dry && segment.counts {
            let path = || absolute(self.context.filespace, &segment.path.join(name));
            self.context.tally.progress.tell(verb, path);
        }
    }

    /// Lists what a dry run has planned, of the objects that count.
    fn plan(&self, verb: &'static str, segment: &Segment, name: &Name) {
        if segment.counts {
            let path = absolute(self.context.filespace, &segment.path.join(name));
            self.context.tally.plan(verb, path);
        }
    }

    /// Makes a new version of an object.
    fn back_up<'s>(
        &mut self,
        segment: &Segment,
        Entry { name, found, is_known }: Entry<'s>,
        outcome: &mut Outcome<'s>,
    ) {
        let class = self.class_of(segment, name, found.stat.kind);
        if let Err(refusal) = self.context.rules.check(class) {
            return self.fail_in(outcome, segment, name, refusal.to_string());
        }
        outcome.has_failed |= self.context.rules.is_absolute(class);
        if self.context.is_dry {
            self.plan("back up", segment, name);
            self.count(segment, &self.context.tally.backed_up);
            if segment.counts {
                let is_file = found.stat.kind == Kind::File;
                self.context.tally.estimate(is_known, if is_file { found.stat.size } else { 0 });
            }
            return;
        }
        if self.assembler.is_stopped() {
            // The next backup makes the version. Until then the page has no digest.
            outcome.has_failed = true;
            return;
        }
        match self.draft(segment, name, &found, class) {
            Ok(draft) if !outcome.admit(&draft) => {
                self.fail_in(outcome, segment, name, TOO_LARGE.to_owned());
            }
            Ok(draft) => {
                outcome.stored.push((name, draft.stat));
                self.count(segment, &self.context.tally.backed_up);
                self.count_data(&draft, outcome);
                self.context.tally.progress.done.fetch_add(1, Relaxed);
                self.tell("back up", segment, name);
                outcome.backed_up.push(draft);
            }
            // The read was stopped: the file has no fault.
            Err(_) if self.assembler.is_stopped() => outcome.has_failed = true,
            Err(failure) => self.fail_in(outcome, segment, name, failure.to_string()),
        }
    }

    /// Counts the data of an object, if it is a file that was just read.
    pub(super) fn count_data(&self, draft: &Draft, outcome: &mut Outcome<'_>) {
        let DraftContent::Data(Content { data_bytes, .. }) = draft.content else { return };
        let has_data = data_bytes > 0;
        let is_encrypted = has_data && self.assembler.encrypts();
        let figures = Figures {
            deduplicated: u64::from(has_data),
            encrypted: u64::from(is_encrypted),
            bytes_before_dedup: data_bytes,
            ..Figures::default()
        };
        outcome.figures += figures;
        self.context.tally.count_data(figures);
    }

    fn draft(
        &mut self,
        segment: &Segment,
        name: &Name,
        found: &ObjectStatus,
        class: ClassId,
    ) -> Result<Draft, ReadFailure> {
        if found.stat.kind == Kind::File && found.stat.size > 0 {
            return self.draft_file(segment, name, found, class);
        }
        let Observation { found, attributes, target } = observe(segment, name, found)?;
        let content = target.map_or(DraftContent::Nothing, DraftContent::Target);
        Ok(Draft { name: name.clone(), class, stat: found.stat, attributes, content })
    }

    fn draft_file(
        &mut self,
        segment: &Segment,
        name: &Name,
        found: &ObjectStatus,
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
            let mut collector = ChunkCollector { assembler, content: Content::default() };
            let (reader, dir) = (&mut self.reader, &segment.dir);
            let crew = self.context.readers;
            let fidelity = patience.fidelity(tries);
            match crew.measure(|| reader.read(dir, name.as_bytes(), seen, fidelity, &mut collector))
            {
                Ok((file, found)) => {
                    let content = collector.content;
                    let attributes = file.attributes()?;
                    let (name, stat) = (name.clone(), found.stat);
                    let content = DraftContent::of_file(content, &stat);
                    return Ok(Draft { name, class, stat, attributes, content });
                }
                // The file has changed since it was listed, perhaps before the read began. This is
                // not counted as a retry.
                Err(ReadFailure::Changed) if seen.is_some() => seen = None,
                Err(ReadFailure::Changed) if tries < patience.retries => {
                    tries += 1;
                    tally.retries.fetch_add(1, Relaxed);
                }
                Err(failure) => return Err(failure),
            }
        }
    }

    /// Decides about objects that may have new content although their size and mtime are unchanged.
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
        let stored = link.content_digests(filespace, &segment.path, &segment.first, &names);
        // An object whose content the server does not know is sent again.
        let stored = stored.unwrap_or_else(|_| vec![None; suspects.len()]);
        assert_eq!(stored.len(), suspects.len(), "one digest for each suspect");
        for (suspect, stored) in suspects.into_iter().zip(stored) {
            let Suspect { name, class, attributes } = suspect;
            match self.read_and_hash(segment, name) {
                Ok((content, found)) if stored == Some(content) => {
                    self.count(segment, &self.context.tally.updated);
                    if self.context.is_dry {
                        self.plan("update", segment, name);
                    }
                    let (stat, content) = (found.stat, DraftContent::Nothing);
                    let draft = Draft { name: name.clone(), class, stat, attributes, content };
                    self.push_update(segment, name, draft, outcome);
                }
                Ok((_, found)) => {
                    self.back_up(segment, Entry { name, found, is_known: true }, outcome);
                }
                Err(ReadFailure::Changed) => match segment.dir.stat(name.as_bytes()) {
                    Ok(Some(found)) => {
                        self.back_up(segment, Entry { name, found, is_known: true }, outcome);
                    }
                    _ => {
                        let failure = ReadFailure::Changed;
                        self.fail_in(outcome, segment, name, failure.to_string());
                    }
                },
                Err(failure) => self.fail_in(outcome, segment, name, failure.to_string()),
            }
        }
        outcome.sort();
        debug_assert!(
            outcome.stored.windows(2).all(|pair| pair[0].0 != pair[1].0),
            "an object is decided once"
        );
    }

    /// Returns the digest of a file's content, computed as the server does, and the file's stat.
    fn read_and_hash(
        &mut self,
        segment: &Segment,
        name: &Name,
    ) -> Result<([u8; 16], ObjectStatus), ReadFailure> {
        if let Some(found) = segment.dir.stat(name.as_bytes())?
            && let Some(stub) = stub::of(&segment.dir, name, &found)?
        {
            return Ok((stub.content, found));
        }
        let path = || absolute(self.context.filespace, &segment.path.join(name));
        self.assembler.treat(self.context.rules.treatment(path))?;
        let (key, assembler) = (self.context.chunks.key, &mut self.assembler);
        let mut sink = ComparisonSink { key, assembler, hasher: ContentHasher::new() };
        let exact = Fidelity::Exact;
        let (_, found) = self.reader.read(&segment.dir, name.as_bytes(), None, exact, &mut sink)?;
        Ok((sink.hasher.finish(), found))
    }

    /// Sends the changes of a segment. Its expirations are kept for the end of the backup.
    pub(super) fn conclude(&mut self, segment: &Segment, outcome: Outcome<'_>) {
        self.context.tally.note_read(std::mem::take(&mut self.reader.time));
        if !segment.is_whole && !outcome.has_changes() {
            return;
        }
        let has_no_time = |(_, stat): &(&Name, Stat)| stat.ctime == NO_CHANGE_TIME;
        if segment.is_whole && outcome.stored.iter().any(has_no_time) {
            self.context.notes.again(&segment.path);
        }
        let has_digests = segment.is_whole && !outcome.has_failed;
        let mut pages = self.pages(segment, &outcome.stored, has_digests);
        if !outcome.expired.is_empty() {
            self.expiries.extend(expiry::divide(&segment.path, outcome.expired, &pages));
            // The pages get their digests with their expirations.
            pages.iter_mut().for_each(|page| page.digest = None);
        }
        if self.context.is_dry {
            return;
        }
        let mut change = ChangeBuilder::new(self.context.chunks);
        let counted = |drafts: &[Draft]| if segment.counts { drafts.len() as u64 } else { 0 };
        let updated = counted(&outcome.updated);
        let figures = Figures {
            objects: counted(&outcome.backed_up) + updated,
            updated: updated.saturating_sub(outcome.figures.rebound),
            ..outcome.figures
        };
        let mut page = PageChange::new(segment.path.clone(), segment.first.clone(), pages);
        page.backed_up = encode(outcome.backed_up, &mut change);
        page.updated = encode(outcome.updated, &mut change);
        page.grants = change.grants;
        page.known = change.known;
        self.send(Change { page, quanta: change.quanta, figures });
        self.changes_waiting += 1;
        if self.changes_waiting >= CHANGES_WAITING_MAX {
            self.flush();
        }
    }

    /// Sends the open quantum, full or not, so that the changes that wait for it can be sent.
    pub(super) fn flush(&mut self) {
        self.changes_waiting = 0;
        self.assembler.flush();
    }

    /// Divides the objects that the server has after the change into pages, with digests if
    /// `has_digests` is set.
    fn pages(
        &mut self,
        segment: &Segment,
        stored: &[(&Name, Stat)],
        has_digests: bool,
    ) -> Vec<PageKey> {
        if !segment.is_whole {
            return vec![PageKey { first: segment.first.clone(), digest: None }];
        }
        debug_assert!(stored.is_sorted_by(|a, b| a.0 <= b.0), "a digest is over sorted names");
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
            let digest: Option<DirectoryDigest> =
                has_digests.then(|| digester.digest(&segment.path, stats, buffer));
            PageKey { first, digest }
        };
        assert!(parts.iter().all(|part| part.len() <= PAGE_OBJECTS_MAX), "a page is bounded");
        parts.into_iter().enumerate().map(page).collect()
    }
}

/// Sink that computes the digest of a content and keeps no data.
struct ComparisonSink<'a, 'b> {
    key: &'a DomainKey,
    assembler: &'a mut Assembler<'b>,
    hasher: ContentHasher,
}

impl Sink for ComparisonSink<'_, '_> {
    fn chunk(&mut self, chunk: &[u8]) {
        let digest: ChunkDigest = match self.assembler.seal(chunk) {
            Some(sealed) => self.key.digest(&sealed),
            None => self.key.digest(chunk),
        };
        self.hasher.chunk(&digest);
    }

    fn hole(&mut self, bytes: u64) {
        self.hasher.hole(bytes);
    }
}

#[cfg(test)]
mod tests;
