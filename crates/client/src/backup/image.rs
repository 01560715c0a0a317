//! Backup of an image: readers cut the device at fixed places and send what the server does not
//! have. The changed parts are committed at the end, and the head last.
//!
//! ```text
//! readers (threads): next piece -> read used runs, cut, digest, compress -> outbox -> server
//!                      | contents of changed parts
//!                      v
//! changes of pages, after all data --> head
//! ```
//!
//! A backup that is interrupted leaves no image. The next backup reads everything again, and sends
//! only what the server has not got.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use crossbeam_channel::bounded;
use model::{Attributes, ClassId, Name, PAGE_OBJECTS_MAX, Stat};
use sys::Dir;
use sys::lock::Mutex;
use sys::process::processors;

use super::assembler::Assembler;
use super::draft::{Draft, DraftContent, Outcome};
use super::examine::Examiner;
use super::gpu::GpuStage;
use super::image_parts::{OpenParts, ReadPart};
use super::image_read::{Errors, PartReader, ReadBuffers};
use super::image_source::ImageSource;
use super::outbox::Outbox;
use super::press::{Press, Presser};
use super::read::{ChunkCollector, Content};
use super::scope::Scope;
use super::seal_key::seal_key;
use super::segment::Segment;
use super::session::{OUTGOING_WAITING, Run, Session, in_session};
use super::space;
use super::stream::stat_of_stream;
use super::tally::Tally;
use super::threads::joined;
use crate::error::{ClientError, ErrorKind};
use crate::image::{self, Image, ImageFacts, ImageLayout};
use crate::link::Link;
use crate::link::backup::Rejection;
use crate::node::home::Home;
use crate::progress::{Phase, Progress};
use crate::report::BackupReport;
use crate::rules::{FileTreatment, Rules};
use crate::tuning::Tuning;

/// Minimum number of reading threads: a disk serves several requests at once.
const READERS_MIN: usize = 4;
/// Maximum time that a reader which keeps to a rate sleeps before it looks whether the backup ends.
const PAUSE_MAX: Duration = Duration::from_millis(100);

/// Options of an image backup.
#[derive(Clone, Debug, Default)]
pub struct ImageOptions {
    /// Name of the image.
    pub name: Vec<u8>,
    /// True to go on after an error of the device. What cannot be read has zeros in the image.
    pub skips_errors: bool,
    /// Maximum number of bytes to read in a second; `None` for no limit.
    pub bytes_per_sec: Option<u64>,
    pub tuning: Tuning,
}

/// Result of an image backup.
#[derive(Clone, Debug)]
pub struct ImageReport {
    pub backup: BackupReport,
    pub facts: ImageFacts,
    /// Number of parts, and of those that have changed since the last image.
    pub parts: u64,
    pub changed_parts: u64,
    /// Number of bytes that were read. They hold data or zeros.
    pub read_bytes: u64,
}

/// Makes an image of `source`. An attempt that loses its connection leaves its report to the next
/// one.
pub(crate) fn back_up(
    link: &Link,
    home: &Home,
    options: &ImageOptions,
    source: &dyn ImageSource,
    progress: &Arc<Progress>,
) -> Result<ImageReport, ClientError> {
    progress.attempts.begin(link.hello().now);
    let filespace = image::filespace_of(&options.name)?;
    let tally = Tally::new(Arc::clone(progress));
    let rules = Rules::load(home, link.hello(), None, &[], policy::Operation::Backup)?;
    rules.warnings.iter().for_each(|warning| tally.warn(warning.clone()));
    let seal_key = seal_key(link, &rules)?;
    // The references to a large image are grants, so its chunks are always deduplicated.
    let backup_options = space::options(options.tuning);
    let run = Run { link, home, options: &backup_options, rules: &rules, seal_key, tally: &tally };
    let scope = Scope { filespace: &filespace, root: b"/", reflinks: false, targets: &[] };
    let used = source.used().iter().map(|run| run.end - run.start).sum();
    progress.bytes_expected.fetch_add(used, Relaxed);
    progress.enter(Phase::Running);
    tally.inspect(1, source.bytes());
    tally.note_authentication(link.authentication);
    let made = in_session(run, &scope, |session, outbox| {
        let last = last_image(link, &options.name)?;
        let doubtful = doubtful_parts(link, source, last.as_ref())?;
        let run = ImageRun::new(session, source, options, last, doubtful)?;
        run.back_up(outbox)
    });
    let made = made.inspect_err(|_| {
        progress.attempts.keep_image(&options.name, tally.report_of_lost());
    })?;
    let mut report = progress.attempts.join_image(&options.name, tally.into_report());
    report.node = link.hello().node.clone();
    report.filespaces = vec![filespace];
    report.elapsed = progress.attempts.elapsed();
    report.interruptions = progress.interruptions();
    Ok(ImageReport { backup: report, ..made })
}

/// Returns the newest image. One that cannot be understood counts as none, so that it is replaced.
fn last_image(link: &Link, name: &[u8]) -> Result<Option<Image>, ClientError> {
    match image::find(link, name, None) {
        Ok(image) => Ok(Some(image).filter(|image| image.replaced.is_none())),
        Err(error) if matches!(error.kind, ErrorKind::NotFound | ErrorKind::Damaged) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Returns the parts that are read even if the source knows no change; `None` for all parts.
///
/// The changes since a snapshot say nothing about an image that was not made from it. They say
/// nothing about a part that was replaced later, either: the disk may have been set back to the
/// snapshot since then.
fn doubtful_parts(
    link: &Link,
    source: &dyn ImageSource,
    last: Option<&Image>,
) -> Result<Option<BTreeSet<u64>>, ClientError> {
    let (Some(snapshot), Some(last)) = (source.changed_since(), last) else {
        return Ok(Some(BTreeSet::new()));
    };
    match last.facts.snapshot.as_deref() == Some(snapshot) {
        true => image::replaced_parts(link, last).map(Some),
        false => Ok(None),
    }
}

/// The backup of one image, shared by its readers.
struct ImageRun<'a> {
    session: &'a Session<'a>,
    source: &'a dyn ImageSource,
    options: &'a ImageOptions,
    layout: ImageLayout,
    /// Newest image before this one.
    last: Option<Image>,
    /// Parts that are read even if the source knows no change; `None` for all parts.
    doubtful: Option<BTreeSet<u64>>,
    class: ClassId,
    treatment: FileTreatment,
    stat: Stat,
    front: Mutex<Front>,
    /// True after a reader has failed, so that the others end.
    has_failed: AtomicBool,
    pace: Pace,
}

/// Returns the path that the rules see: a name that is no path is one of the root directory.
fn path_for_rules(name: &[u8]) -> Vec<u8> {
    if name.starts_with(b"/") { name.to_vec() } else { [b"/", name].concat() }
}

/// Where the readers are.
#[derive(Default)]
struct Front {
    /// Next part to begin.
    next: u64,
    open: OpenParts,
    known: KnownParts,
}

/// Parts that changed, and what could not be read.
#[derive(Default)]
struct Findings {
    changed: BTreeMap<u64, Content>,
    /// Parts that have not changed, but get another class.
    rebound: Vec<u64>,
    data_bytes: u64,
    /// Bytes of parts that were not read, because the source knows that they have not changed.
    unread_bytes: u64,
    unreadable: Errors,
}

impl<'a> ImageRun<'a> {
    fn new(
        session: &'a Session<'a>,
        source: &'a dyn ImageSource,
        options: &'a ImageOptions,
        last: Option<Image>,
        doubtful: Option<BTreeSet<u64>>,
    ) -> Result<Self, ClientError> {
        let rules = session.context.rules;
        let path = || path_for_rules(&options.name);
        let class = rules.class_of_images(&path());
        rules.check(class).map_err(|refusal| {
            let shown = model::escaped(&options.name);
            ClientError::new(ErrorKind::Refused, format!("{shown}: {refusal}"))
        })?;
        Ok(Self {
            session,
            source,
            options,
            layout: ImageLayout::of(source.bytes()),
            last,
            doubtful,
            class,
            treatment: rules.treatment(path),
            stat: stat_of_stream(0),
            front: Mutex::default(),
            has_failed: AtomicBool::new(false),
            pace: Pace::new(options.bytes_per_sec),
        })
    }

    fn back_up(&self, mut outbox: Outbox<'_>) -> Result<ImageReport, ClientError> {
        let Findings { mut changed, mut rebound, data_bytes, unread_bytes, mut unreadable } =
            self.read_all(&mut outbox)?;
        self.session.check()?;
        // Nothing may fail later that can fail here: the parts replace those of the last image.
        let described = self.source.describe().map_err(|error| self.failed(&error))?;
        self.tally().progress.enter(Phase::Finishing);
        let changed_parts = changed.len() as u64;
        changed.extend(self.surplus().map(|number| (number, Content::default())));
        self.commit_parts(&mut outbox, changed, &mut unreadable)?;
        rebound.sort_unstable();
        self.rebind(&mut outbox, &rebound)?;
        // Parts may have been read again meanwhile.
        let description = self.source.describe().unwrap_or(described);
        let unreadable = unreadable.into_ranges();
        let facts = ImageFacts::new(self.layout, data_bytes, unreadable, description);
        // After an interruption there is no image, so that the message is true.
        self.session.check()?;
        self.commit_head(&mut outbox, &facts)?;
        let report = self.tally().report();
        outbox.close(true, report.summary_json())?;
        let (parts, backup) = (self.layout.parts(), BackupReport::default());
        let used = used_bytes(self.source.used(), &(0..self.source.bytes()));
        let read_bytes = used.saturating_sub(unread_bytes);
        Ok(ImageReport { backup, facts, parts, changed_parts, read_bytes })
    }

    fn tally(&self) -> &Tally {
        self.session.tally()
    }

    fn failed(&self, error: &io::Error) -> ClientError {
        let shown = model::escaped(&self.options.name);
        ClientError::new(ErrorKind::Usage, format!("cannot read {shown}: {error}"))
    }

    /// Reads all parts and sends the data that the server does not have.
    fn read_all(&self, outbox: &mut Outbox<'_>) -> Result<Findings, ClientError> {
        let (outgoing_sender, outgoing) = bounded(OUTGOING_WAITING);
        let threads = self.session.tuning.resource_utilization.map(usize::from);
        let readers = threads.unwrap_or_else(|| processors().max(READERS_MIN));
        let press = Press::new(self.session.compression(), 0, self.session.answers)
            .with_gpu(self.session.nvcomp());
        let (gpu_sender, gpu_queue) = bounded(GpuStage::queue_quanta());
        let gpu_sender = press.gpu().map(|_| gpu_sender);
        let findings = Mutex::new(Findings::default());
        let assemblers: Vec<Assembler<'_>> = (0..readers)
            .map(|_| {
                let presser = Presser::new(&press, outgoing_sender.clone())?;
                let presser = presser.with_gpu(gpu_sender.clone());
                Ok(Assembler::new(self.session.context.chunks, self.tally(), presser, None))
            })
            .collect::<Result<_, ClientError>>()?;
        let gpu_presser = Presser::new(&press, outgoing_sender.clone())?;
        drop((gpu_sender, outgoing_sender));
        let mut buffers = ReadBuffers::new(readers);
        let buffers: Vec<&mut [u8]> = buffers.each().collect();
        std::thread::scope(|threads| {
            match press.gpu() {
                Some(gpu) => gpu.start(threads, gpu_queue, gpu_presser),
                None => drop(gpu_presser),
            }
            let (findings, mut reading) = (&findings, Vec::new());
            for (assembler, buffer) in assemblers.into_iter().zip(buffers) {
                reading.push(threads.spawn(move || self.read_some(assembler, buffer, findings)));
            }
            outbox.run(&outgoing);
            reading.into_iter().try_for_each(joined)
        })?;
        outbox.finish();
        Ok(findings.into_inner())
    }

    /// Reads pieces of parts until none is left.
    fn read_some(
        &self,
        mut assembler: Assembler<'_>,
        buffer: &mut [u8],
        findings: &Mutex<Findings>,
    ) -> Result<(), ClientError> {
        let skips_errors = self.options.skips_errors;
        let mut reader = PartReader::new(self.source, self.layout, skips_errors, buffer);
        let outcome = loop {
            let read = match self.next_piece(findings) {
                Ok(None) => break Ok(()),
                Ok(Some((number, piece))) => {
                    self.examine_piece(&mut assembler, &mut reader, number, piece, findings)
                }
                Err(error) => Err(error),
            };
            if let Err(error) = read {
                break Err(error);
            }
        };
        self.has_failed.fetch_or(outcome.is_err(), Relaxed);
        assembler.flush();
        outcome
    }

    /// Returns the next piece to read, and the number of its part; `None` if none is left, or if a
    /// reader has failed. Parts that are known to be unchanged are not read.
    fn next_piece(
        &self,
        findings: &Mutex<Findings>,
    ) -> Result<Option<(u64, Range<u64>)>, ClientError> {
        let mut front = self.front.lock();
        loop {
            self.session.check()?;
            if self.has_failed.load(Relaxed) {
                return Ok(None);
            }
            if let Some(piece) = front.open.take() {
                return Ok(Some(piece));
            }
            let number = front.next;
            if number >= self.layout.parts() {
                return Ok(None);
            }
            front.next += 1;
            let stored = self.known_digest(&mut front.known, number)?;
            let range = self.layout.range(number);
            if stored.is_some() && self.has_whole(number) && self.is_known_unchanged(number, &range)
            {
                self.note_unread(number, &range, findings);
            } else {
                front.open.begin(number, range, stored);
            }
        }
    }

    /// Notes a part that is not read.
    fn note_unread(&self, number: u64, range: &Range<u64>, findings: &Mutex<Findings>) {
        let bytes = used_bytes(self.source.used(), range);
        self.tally().progress.bytes.fetch_add(bytes, Relaxed);
        let mut findings = findings.lock();
        findings.data_bytes += bytes;
        findings.unread_bytes += bytes;
        findings.rebound.extend(self.changes_class().then_some(number));
    }

    /// Reads a piece of a part. The reader of the last one notes what was found in the part.
    fn examine_piece(
        &self,
        assembler: &mut Assembler<'_>,
        reader: &mut PartReader<'_>,
        number: u64,
        piece: Range<u64>,
        findings: &Mutex<Findings>,
    ) -> Result<(), ClientError> {
        let read = self.read(assembler, reader, piece.clone())?;
        let whole = self.front.lock().open.add(number, &piece, read);
        let Some(part) = whole else { return Ok(()) };
        let stored = part.stored;
        let ReadPart { content, errors } = part.joined();
        let is_known = stored == Some(content.digest());
        let mut findings = findings.lock();
        findings.data_bytes += content.data_bytes;
        findings.unreadable.extend(errors);
        if !is_known {
            findings.changed.insert(number, content);
        } else if self.changes_class() {
            findings.rebound.push(number);
        }
        Ok(())
    }

    /// Returns true if the source knows that the part `number` is that of the last image.
    fn is_known_unchanged(&self, number: u64, range: &Range<u64>) -> bool {
        let is_doubtful = self.doubtful.as_ref().is_none_or(|parts| parts.contains(&number));
        !is_doubtful && self.source.is_unchanged(range)
    }

    /// Returns true if the last image has all of the part `number`. A part that could not be read,
    /// or that was shorter, is not the source's, even if nothing was written to it since.
    fn has_whole(&self, number: u64) -> bool {
        let range = self.layout.range(number);
        self.last.as_ref().is_some_and(|last| {
            let layout = last.facts.layout;
            number < layout.parts()
                && layout.range(number) == range
                && last.facts.unreadable_in(&range).is_none()
        })
    }

    /// Returns true if the last image has another class. Each part gets the class, changed or not,
    /// because a locked class holds the data of the objects that are bound to it.
    fn changes_class(&self) -> bool {
        let class = self.session.context.link.hello().class_name(self.class);
        self.last.as_ref().is_some_and(|last| last.class != class)
    }

    /// Gives parts that have not changed the class of the image.
    fn rebind(&self, outbox: &mut Outbox<'_>, parts: &[u64]) -> Result<(), ClientError> {
        let group = |number: &u64| number / PAGE_OBJECTS_MAX as u64;
        self.session.send_with(outbox, true, |examiner| {
            for of_directory in parts.chunk_by(|a, b| group(a) == group(b)) {
                let segment = self.segment_of(of_directory[0]);
                let unchanged = |number: &u64| Draft {
                    content: DraftContent::Nothing,
                    ..self.draft(*number, Content::default())
                };
                let updated = of_directory.iter().map(unchanged).collect();
                examiner.conclude(&segment, Outcome { updated, ..Outcome::default() });
            }
        })?;
        self.session.check()?;
        outbox
            .take_rejections()
            .first()
            .map_or(Ok(()), |rejection| Err(refusal(rejection)))
    }

    /// Reads a part, or a piece of it.
    fn read(
        &self,
        assembler: &mut Assembler<'_>,
        reader: &mut PartReader<'_>,
        range: Range<u64>,
    ) -> Result<ReadPart, ClientError> {
        assembler.treat(self.treatment).map_err(|error| self.failed(&error))?;
        let progress = &self.tally().progress;
        let has_ended = || self.session.check().is_err();
        let mut sink = ChunkCollector { assembler, content: Content::default() };
        let read = reader
            .read(range, &mut sink, &mut |bytes, zeros| {
                progress.bytes.fetch_add(zeros, Relaxed);
                self.pace.spend(bytes, &|| has_ended() || self.has_failed.load(Relaxed));
                !has_ended()
            })
            .map_err(|error| self.failed(&error));
        self.tally().note_read(std::mem::take(&mut reader.time));
        let errors = read?;
        self.session.check()?;
        let content = sink.content;
        self.tally().bytes_before_dedup.fetch_add(content.data_bytes, Relaxed);
        Ok(ReadPart { content, errors })
    }

    /// Returns the digest of the part `number` of the last image, if the server knows it.
    fn known_digest(
        &self,
        known: &mut KnownParts,
        number: u64,
    ) -> Result<Option<[u8; 16]>, ClientError> {
        let Some(last) = &self.last else { return Ok(None) };
        let layout = last.facts.layout;
        if layout.chunk_bytes != self.layout.chunk_bytes || number >= layout.parts() {
            return Ok(None);
        }
        let group = number / PAGE_OBJECTS_MAX as u64;
        if known.group != Some(group) {
            let first = group * PAGE_OBJECTS_MAX as u64;
            let names: Vec<Name> =
                (first..layout.parts()).take(PAGE_OBJECTS_MAX).map(image::name_of).collect();
            let names: Vec<&[u8]> = names.iter().map(Name::as_bytes).collect();
            let (link, directory) = (self.session.context.link, image::directory_of(number));
            let filespace = self.session.scope.filespace;
            known.digests = link.content_digests(filespace, &directory, b"", &names)?;
            known.group = Some(group);
        }
        let index = usize::try_from(number % PAGE_OBJECTS_MAX as u64).expect("below 512");
        Ok(known.digests.get(index).copied().flatten())
    }

    /// Commits the parts that have changed. Parts whose grants the server refuses are read again
    /// and sent with their data. `unreadable` then has what could not be read the last time.
    fn commit_parts(
        &self,
        outbox: &mut Outbox<'_>,
        changed: BTreeMap<u64, Content>,
        unreadable: &mut Errors,
    ) -> Result<(), ClientError> {
        self.session
            .send_with(outbox, true, |examiner| self.send_parts(examiner, changed))?;
        self.session.check()?;
        let refused = outbox.take_rejections();
        if refused.is_empty() {
            return Ok(());
        }
        let mut again = Ok(());
        self.session.send_with(outbox, false, |examiner| {
            again = self.send_again(examiner, &refused, unreadable);
        })?;
        self.session.check()?;
        let refused = outbox.take_rejections();
        again?;
        refused.first().map_or(Ok(()), |rejection| Err(refusal(rejection)))
    }

    fn send_parts(&self, examiner: &mut Examiner<'_>, changed: BTreeMap<u64, Content>) {
        let mut changed = changed.into_iter().peekable();
        while let Some((number, content)) = changed.next() {
            let segment = self.segment_of(number);
            let mut outcome = Outcome::default();
            let mut of_group = vec![(number, content)];
            let group = number / PAGE_OBJECTS_MAX as u64;
            while let Some(next) =
                changed.next_if(|(number, _)| number / PAGE_OBJECTS_MAX as u64 == group)
            {
                of_group.push(next);
            }
            for (number, content) in of_group {
                let draft = self.draft(number, content);
                assert!(outcome.admit(&draft), "a directory of parts fits into a message");
                outcome.backed_up.push(draft);
            }
            self.tally().backed_up.fetch_add(outcome.backed_up.len() as u64, Relaxed);
            examiner.conclude(&segment, outcome);
        }
    }

    fn draft(&self, number: u64, content: Content) -> Draft {
        let is_surplus = number >= self.layout.parts();
        let range = if is_surplus { 0..0 } else { self.layout.range(number) };
        let stat = Stat { size: range.end - range.start, ..self.stat };
        let content = DraftContent::of_file(content, &stat);
        let (name, attributes) = (image::name_of(number), Attributes::default());
        Draft { name, class: self.class, stat, attributes, content }
    }

    fn segment_of(&self, number: u64) -> Segment {
        self.segment(image::directory_of(number))
    }

    fn segment(&self, directory: model::DirPath) -> Segment {
        let root = Dir::open(b"/").expect("every system has a root directory");
        Segment::partial(Arc::new(root), directory, Vec::new(), Vec::new())
    }

    /// Reads and sends the parts whose grants the server has refused. `unreadable` then has what
    /// could not be read of them the last time.
    fn send_again(
        &self,
        examiner: &mut Examiner<'_>,
        refused: &[Rejection],
        unreadable: &mut Errors,
    ) -> Result<(), ClientError> {
        let mut buffers = ReadBuffers::new(1);
        let buffer = buffers.each().next().expect("a reader has a buffer");
        let skips_errors = self.options.skips_errors;
        let mut reader = PartReader::new(self.source, self.layout, skips_errors, buffer);
        for rejection in refused {
            let number = part_of(rejection).ok_or_else(|| refusal(rejection))?;
            self.tally().retries.fetch_add(1, Relaxed);
            self.tally().backed_up.fetch_sub(1, Relaxed);
            let range = self.layout.range(number);
            let ReadPart { content, errors } =
                self.read(&mut examiner.assembler, &mut reader, range.clone())?;
            unreadable.forget(&range);
            unreadable.extend(errors);
            self.send_parts(examiner, BTreeMap::from([(number, content)]));
        }
        Ok(())
    }

    /// Numbers of the parts that the last image has and this one does not. They become empty files,
    /// so that their content ends as that of any part that changes.
    fn surplus(&self) -> Range<u64> {
        let before = self.last.as_ref().map_or(0, |last| last.facts.layout.parts());
        self.layout.parts()..before
    }

    fn commit_head(&self, outbox: &mut Outbox<'_>, facts: &ImageFacts) -> Result<(), ClientError> {
        let (directory, name) = image::head_place();
        let attributes = Attributes { xattrs: vec![facts.attribute()], flags: 0 };
        let (stat, content) = (self.stat, DraftContent::Nothing);
        let draft = Draft { name, class: self.class, stat, attributes, content };
        let mut outcome = Outcome::default();
        if !outcome.admit(&draft) {
            let message = "too many ranges could not be read";
            return Err(ClientError::new(ErrorKind::Damaged, message));
        }
        outcome.backed_up.push(draft);
        let segment = self.segment(directory);
        self.session
            .send_with(outbox, true, |examiner| examiner.conclude(&segment, outcome))?;
        self.session.check()?;
        outbox
            .take_rejections()
            .first()
            .map_or(Ok(()), |rejection| Err(refusal(rejection)))
    }
}

/// Returns the number of bytes of `range` in `used`.
fn used_bytes(used: &[Range<u64>], range: &Range<u64>) -> u64 {
    let first = used.partition_point(|run| run.end <= range.start);
    let runs = used[first..].iter().take_while(|run| run.start < range.end);
    runs.map(|run| run.end.min(range.end) - run.start.max(range.start)).sum()
}

/// Digests of the parts of the last image in one directory.
#[derive(Default)]
struct KnownParts {
    group: Option<u64>,
    digests: Vec<Option<[u8; 16]>>,
}

fn part_of(rejection: &Rejection) -> Option<u64> {
    let (directory, name) = crate::path::split(&rejection.path)?;
    image::part_of(&directory, &name)
}

fn refusal(rejection: &Rejection) -> ClientError {
    let reason = &rejection.reason;
    let message = format!("the server has refused a part of the image: {reason}");
    ClientError::new(ErrorKind::Refused, message)
}

/// Limit on the bytes that all readers together read in a second.
struct Pace {
    bytes_per_sec: Option<u64>,
    /// Time from which more may be read.
    due: Mutex<Instant>,
}

impl Pace {
    fn new(bytes_per_sec: Option<u64>) -> Self {
        let bytes_per_sec = bytes_per_sec.filter(|rate| *rate > 0);
        Self { bytes_per_sec, due: Mutex::new(sys::clock::monotonic()) }
    }

    /// Counts `bytes`, and waits until more are allowed, or until the backup ends.
    fn spend(&self, bytes: u64, has_ended: &dyn Fn() -> bool) {
        let Some(due) = self.count(bytes, sys::clock::monotonic()) else { return };
        while !has_ended() {
            let wait = due.saturating_duration_since(sys::clock::monotonic());
            if wait.is_zero() {
                break;
            }
            sys::clock::sleep(wait.min(PAUSE_MAX));
        }
    }

    /// Counts `bytes` that were read at `now`. Returns the time from which more may be read; `None`
    /// without a limit. A reader may be late by [`PAUSE_MAX`]. What the limit would have allowed
    /// while the readers waited for something else is not read later.
    fn count(&self, bytes: u64, now: Instant) -> Option<Instant> {
        let rate = self.bytes_per_sec?;
        #[expect(clippy::cast_precision_loss, reason = "a time to wait")]
        let time = Duration::from_secs_f64(bytes as f64 / rate as f64);
        let mut due = self.due.lock();
        *due = now.checked_sub(PAUSE_MAX).unwrap_or(now).max(*due) + time;
        Some(*due)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// After a minute without the server, a minute's worth of the disk was read at once.
    #[test]
    fn what_a_limit_has_allowed_and_nobody_has_read_is_not_read_later() {
        let pace = Pace::new(Some(1 << 20));
        let later = sys::clock::monotonic() + Duration::from_secs(60);
        for secs in [1, 2, 3] {
            let due = later + Duration::from_secs(secs) - PAUSE_MAX;
            assert_eq!(pace.count(1 << 20, later), Some(due));
        }
        for unlimited in [None, Some(0)] {
            assert_eq!(Pace::new(unlimited).count(1 << 20, later), None);
        }
    }
}
