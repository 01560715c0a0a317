//! Backup of a stream as a file.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use model::{Attributes, DirPath, Kind, Name, Stat, Timestamp};
use sys::Dir;

use super::clock_step::NO_CHANGE_TIME;
use super::draft::{Draft, DraftContent, Outcome};
use super::examine::{Examiner, TOO_LARGE};
use super::outbox::Outbox;
use super::read::{ChunkCollector, Content, read_stream};
use super::scope::Scope;
use super::segment::Segment;
use super::session::{Run, Session, in_session};
use crate::error::{ClientError, ErrorKind};
use crate::options::Stream;
use crate::path::absolute;
use crate::rules::NoCopyGroup;

/// Directory and name of a stream in its filespace.
pub(super) struct StreamPlace {
    pub(super) directory: DirPath,
    pub(super) name: Name,
}

/// Reason why a stream was not backed up.
#[derive(Debug, thiserror::Error)]
enum StreamFailure {
    /// The user binds the file to another class.
    #[error(transparent)]
    Unbound(#[from] NoCopyGroup),
    /// The user runs the backup again.
    #[error(transparent)]
    Failed(#[from] io::Error),
}

/// Backs up `stream` as the file at `place` of the scope's filespace.
pub(super) fn back_up_stream(
    run: Run<'_>,
    scope: &Scope<'_>,
    place: &StreamPlace,
    stream: &mut dyn Stream,
) -> Result<(), ClientError> {
    in_session(run, scope, |session, outbox| session.send_stream(outbox, place, stream))
}

impl Session<'_> {
    /// Sends `stream` as a file. The server may refuse grants. A stream that can be read twice is
    /// then sent again without grants. Any other stream is sent without grants at once.
    fn send_stream(
        &self,
        mut outbox: Outbox<'_>,
        place: &StreamPlace,
        stream: &mut dyn Stream,
    ) -> Result<(), ClientError> {
        let StreamPlace { directory, name } = place;
        let (link, filespace) = (self.context.link, self.scope.filespace);
        let first = link.page_holding(filespace, directory, name.as_bytes())?.first;
        let root = Dir::open(b"/").map_err(|error| {
            ClientError::new(ErrorKind::Bug, format!("cannot open the root directory: {error}"))
        })?;
        let segment = Segment::partial(Arc::new(root), directory.clone(), first, Vec::new());
        self.tally().inspect(1, 0);
        let repeats = stream.repeats();
        let check = || self.check();
        self.send_with(&mut outbox, repeats, |examiner| {
            examiner.take_stream(&segment, name, stream, &check);
        })?;
        self.check()?;
        if repeats && !outbox.take_rejections().is_empty() {
            self.tally().backed_up.fetch_sub(1, Relaxed);
            self.tally().retries.fetch_add(1, Relaxed);
            self.send_with(&mut outbox, false, |examiner| {
                examiner.take_stream(&segment, name, stream, &check);
            })?;
            self.check()?;
        }
        self.fail_rejected(&outbox);
        let report = self.tally().report();
        outbox.close(report.backed_up > 0, report.summary_json())
    }
}

impl Examiner<'_> {
    /// Reads and sends a stream as the file `name` of the segment's directory, until `check` fails.
    fn take_stream(
        &mut self,
        segment: &Segment,
        name: &Name,
        stream: &mut dyn Stream,
        check: &dyn Fn() -> Result<(), ClientError>,
    ) {
        let mut outcome = Outcome::default();
        match self.draft_stream(segment, name, stream, check) {
            Ok(draft) if !outcome.admit(&draft) => self.fail(segment, name, TOO_LARGE.to_owned()),
            Ok(draft) => {
                // A stream that is read twice counts only once.
                self.context.tally.bytes_inspected.store(draft.stat.size, Relaxed);
                outcome.stored.push((name, draft.stat));
                self.count(segment, &self.context.tally.backed_up);
                self.count_data(&draft, &mut outcome);
                outcome.backed_up.push(draft);
            }
            Err(failure) => self.fail(segment, name, failure.to_string()),
        }
        self.conclude(segment, outcome);
    }

    fn draft_stream(
        &mut self,
        segment: &Segment,
        name: &Name,
        stream: &mut dyn Stream,
        check: &dyn Fn() -> Result<(), ClientError>,
    ) -> Result<Draft, StreamFailure> {
        let class = self.class_of(segment, name, Kind::File);
        self.context.rules.check(class)?;
        let path = || absolute(self.context.filespace, &segment.path.join(name));
        self.assembler.treat(self.context.rules.treatment(path))?;
        let assembler = &mut self.assembler;
        let mut collector = ChunkCollector { assembler, content: Content::default() };
        read_stream(stream, check, &mut collector, &mut self.reader.time)?;
        stream.finish()?;
        let content = collector.content;
        let stat = stat_of_stream(content.data_bytes);
        let content = DraftContent::of_file(content, &stat);
        let attributes = Attributes::default();
        Ok(Draft { name: name.clone(), class, stat, attributes, content })
    }
}

/// Makes the stat of a stream: a file of the user who runs the backup, written at this moment.
pub(crate) fn stat_of_stream(size: u64) -> Stat {
    let micros = sys::clock::now().0;
    let nanos = u32::try_from(micros.rem_euclid(1_000_000) * 1000).unwrap_or(0);
    let (uid, gid) = sys::process::effective_ids();
    Stat {
        kind: Kind::File,
        mode: 0o600,
        uid,
        gid,
        size,
        mtime: Timestamp { secs: micros.div_euclid(1_000_000), nanos },
        ctime: NO_CHANGE_TIME,
        inode: 0,
        linked: false,
        device: 0,
    }
}
