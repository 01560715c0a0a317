//! Watch on one file system: the kernel's reports, and the record that they fill.
//!
//! The lock of the state is held while the queue of the kernel is read. So a question finds
//! every report that the kernel had queued before, and the reports keep their order.

use std::io;
use std::time::Duration;

use model::ServerTime;
use sys::Dir;
use sys::fanotify::changes::{ChangeGroup, ChangeReport};
use sys::lock::{Mutex, MutexGuard};

use crate::anchor::Anchor;
use crate::record::Record;
use crate::status::{AnchorState, DifferenceState, FilesystemState, LossState};
use crate::text::PathText;

/// Time between the first report that waits and the reading of all that wait then. Equal reports
/// merge while they wait.
const GATHERING_TIME: Duration = Duration::from_millis(20);
/// Interval at which a watch without reports looks whether its file system still exists.
const EXISTENCE_INTERVAL: Duration = Duration::from_secs(60);

/// Watch on one file system.
#[derive(Debug)]
pub(crate) struct Watch {
    group: ChangeGroup,
    /// Directory at which the file system was mounted when the watch began.
    path: Vec<u8>,
    since: ServerTime,
    state: Mutex<State>,
}

/// Record of a watch, and facts for people.
#[derive(Debug, Default)]
pub(crate) struct State {
    pub(crate) record: Record,
    reports: u64,
    overflows: u64,
    pub(crate) last_loss: Option<LossState>,
    pub(crate) last_difference: Option<DifferenceState>,
}

impl State {
    fn take(&mut self, report: ChangeReport) {
        self.reports += 1;
        match report {
            ChangeReport::Changed(change) => {
                if !self.record.note(change) {
                    self.note_loss("too many directories have changed");
                }
            }
            ChangeReport::Overflow => {
                self.overflows += 1;
                self.lose("the queue of the kernel was full");
            }
            ChangeReport::FilesystemError => {
                self.lose("the file system has found an error in itself");
            }
            // A server of NFS may make many of them. There is nothing to lose after the first one.
            ChangeReport::Nameless if !self.record.is_of_use() => {}
            ChangeReport::Nameless => self.lose("the kernel has reported a change without a place"),
        }
    }

    fn lose(&mut self, reason: &str) {
        self.record.cut();
        self.note_loss(reason);
    }

    fn note_loss(&mut self, reason: &str) {
        tracing::warn!(reason, "the journal of a file system begins anew");
        let at_micros = sys::clock::system().0;
        self.last_loss = Some(LossState { at_micros, reason: reason.to_owned() });
    }
}

impl Watch {
    /// Watches the file system that `root` lies in. `path` is its path.
    pub(crate) fn begin(root: &Dir, path: &[u8]) -> io::Result<Self> {
        let group = ChangeGroup::watch(root)?;
        let since = sys::clock::system();
        Ok(Self { group, path: path.to_vec(), since, state: Mutex::default() })
    }

    /// Returns true if this is the watch on the file system that `root` lies in.
    pub(crate) fn is_of(&self, root: &Dir) -> io::Result<bool> {
        self.group.is_watching(root)
    }

    /// Returns true if the file system still exists. If it does not, it never comes back: a new
    /// mount is another file system to the kernel.
    pub(crate) fn exists(&self) -> bool {
        self.group.exists().unwrap_or(false)
    }

    /// Returns the state, with every change whose system call has returned.
    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        let mut state = self.state.lock();
        if let Err(error) = self.group.drain(|report| state.take(report)) {
            state.lose(&format!("the reports of the kernel cannot be read: {error}"));
        }
        state
    }

    /// Reads reports until the file system does not exist any more.
    pub(crate) fn run(&self) {
        loop {
            match self.group.wait(EXISTENCE_INTERVAL) {
                Ok(true) => {
                    sys::clock::sleep(GATHERING_TIME);
                    drop(self.state());
                }
                Ok(false) if self.exists() => {}
                Ok(false) => return,
                Err(error) => {
                    let reason = format!("the reports of the kernel cannot be read: {error}");
                    self.state.lock().lose(&reason);
                    return;
                }
            }
        }
    }

    pub(crate) fn shown(&self) -> FilesystemState {
        let state = self.state();
        let now = sys::clock::uptime();
        let anchor = |anchor: &Anchor| AnchorState {
            filespace: anchor.filespace.clone(),
            again: (anchor.again.len() + anchor.again_below.len()) as u64,
            walked_secs_ago: now.saturating_sub(anchor.walked).as_secs(),
        };
        FilesystemState {
            path: PathText(self.path.clone()),
            watched_since_micros: self.since.0,
            directories: state.record.len() as u64,
            reports: state.reports,
            overflows: state.overflows,
            backups_under_way: state.record.backups_under_way() as u64,
            last_loss: state.last_loss.clone(),
            anchors: state.record.anchors().map(anchor).collect(),
            last_difference: state.last_difference.clone(),
        }
    }
}
