//! Backing up a stream as a file.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use model::{DirPath, Name};
use sys::Dir;

use super::examine::Context;
use super::outbox::{Answered, Outbox};
use super::pages;
use super::session::{Scope, Session, Site, in_session, summary};
use super::walk::Segment;
use crate::{ClientError, ErrorKind, Stream};

/// Backs up `stream` as the file at `place` of the scope's filespace.
pub(super) fn back_up_stream(
    site: Site<'_>,
    scope: Scope<'_>,
    (directory, name): (DirPath, Name),
    stream: &mut dyn Stream,
) -> Result<(), ClientError> {
    in_session(site, &scope, &mut |session, outbox, answered| {
        session.perform_stream(outbox, answered, (&directory, &name), stream)
    })
}

impl Session<'_> {
    /// Sends `stream` as a file. A grant of it may turn out not to hold: one that cannot be read
    /// again goes without grants, the other is read again then.
    fn perform_stream(
        &self,
        mut outbox: Outbox<'_>,
        answered: &Answered,
        (directory, name): (&DirPath, &Name),
        stream: &mut dyn Stream,
    ) -> Result<(), ClientError> {
        let Context { link, .. } = self.context;
        let (first, _) = pages::holding(link, self.scope.filespace, directory, name.as_bytes())?;
        let root = Dir::open(b"/").map_err(|error| {
            ClientError::new(ErrorKind::Bug, format!("cannot open the root directory: {error}"))
        })?;
        let segment = Segment {
            dir: Arc::new(root),
            path: directory.clone(),
            first,
            entries: Vec::new(),
            unreadable: Vec::new(),
            is_whole: false,
            counts: true,
        };
        self.tally().inspect(1, 0);
        let repeats = stream.repeats();
        self.send_with(&mut outbox, repeats, |examiner| {
            examiner.take_stream(&segment, name, stream);
        })?;
        self.check_session(answered)?;
        if repeats && !outbox.take_rejected().is_empty() {
            self.tally().backed_up.fetch_sub(1, Relaxed);
            self.tally().retries.fetch_add(1, Relaxed);
            self.send_with(&mut outbox, false, |examiner| {
                examiner.take_stream(&segment, name, stream);
            })?;
            self.check_session(answered)?;
        }
        self.fail_rejected(&outbox);
        let report = self.tally().report();
        outbox.close(report.backed_up > 0, summary(&report))
    }
}
