//! Activities of nodes: backups, restores and recalls under way, with what they have moved.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use model::{NodeId, ServerTime};
use sys::lock::Mutex;

/// Number of the last seconds from which a rate is computed.
const PACE_SECS: u64 = PACE_SLOTS as u64;
const PACE_SLOTS: usize = 10;

/// Kind of an activity.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ActivityKind {
    Backup,
    Restore,
    Recall,
}

impl ActivityKind {
    pub const ALL: [Self; 3] = [Self::Backup, Self::Restore, Self::Recall];

    /// Returns the name of the kind for programs.
    pub fn name(self) -> &'static str {
        match self {
            Self::Backup => "backup",
            Self::Restore => "restore",
            Self::Recall => "recall",
        }
    }
}

/// Work of a node that is under way.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Activity {
    pub node: NodeId,
    pub kind: ActivityKind,
    /// Name of the filespace.
    pub filespace: Vec<u8>,
    pub since: ServerTime,
    /// Data that has come from the node, or gone to it, as it is on the wire.
    pub bytes: u64,
    /// Number of objects whose names have come or gone.
    pub objects: u64,
    /// Data of the last ten seconds, for each second.
    pub bytes_per_sec: u64,
}

/// The work of all nodes that is under way.
#[derive(Clone, Default)]
pub(crate) struct Activities(Arc<Mutex<Register>>);

#[derive(Default)]
struct Register {
    last: u64,
    under_way: BTreeMap<u64, Arc<Task>>,
}

/// Work under way.
struct Task {
    node: NodeId,
    kind: ActivityKind,
    filespace: Vec<u8>,
    since: ServerTime,
    began: Instant,
    counts: Mutex<Counts>,
}

#[derive(Default)]
struct Counts {
    bytes: u64,
    objects: u64,
    pace: Pace,
}

/// Membership of work in the list. The work leaves the list with it.
pub(crate) struct Seat {
    activities: Activities,
    number: u64,
    task: Arc<Task>,
}

impl Activities {
    /// Adds work that begins now.
    pub(crate) fn begin(&self, node: NodeId, kind: ActivityKind, filespace: &[u8]) -> Seat {
        let task = Arc::new(Task {
            node,
            kind,
            filespace: filespace.to_vec(),
            since: sys::clock::now(),
            began: sys::clock::monotonic(),
            counts: Mutex::default(),
        });
        let mut register = self.0.lock();
        register.last += 1;
        let number = register.last;
        register.under_way.insert(number, Arc::clone(&task));
        Seat { activities: self.clone(), number, task }
    }

    /// Returns the work that is under way, in the order in which it began.
    pub(crate) fn list(&self) -> Vec<Activity> {
        let under_way: Vec<_> = self.0.lock().under_way.values().cloned().collect();
        under_way.iter().map(|task| task.describe()).collect()
    }
}

impl Task {
    fn describe(&self) -> Activity {
        let second = self.began.elapsed().as_secs();
        let mut counts = self.counts.lock();
        Activity {
            node: self.node,
            kind: self.kind,
            filespace: self.filespace.clone(),
            since: self.since,
            bytes: counts.bytes,
            objects: counts.objects,
            bytes_per_sec: counts.pace.per_second(second),
        }
    }
}

impl Seat {
    /// Counts data and objects that have come or gone.
    pub(crate) fn count(&self, bytes: usize, objects: usize) {
        let second = self.task.began.elapsed().as_secs();
        let mut counts = self.task.counts.lock();
        counts.bytes += bytes as u64;
        counts.objects += objects as u64;
        counts.pace.add(second, bytes as u64);
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.activities.0.lock().under_way.remove(&self.number);
    }
}

/// Bytes of each of the last seconds. Seconds count from the beginning of the work.
#[derive(Default)]
struct Pace {
    /// Bytes by second, modulo the number of seconds that are kept.
    seconds: [u64; PACE_SLOTS],
    last: u64,
}

impl Pace {
    fn add(&mut self, second: u64, bytes: u64) {
        self.advance(second);
        *self.slot(second) += bytes;
    }

    /// Returns the mean of the last seconds, the present one included.
    fn per_second(&mut self, second: u64) -> u64 {
        self.advance(second);
        self.seconds.iter().sum::<u64>() / (second + 1).min(PACE_SECS)
    }

    /// Forgets the seconds that are too long ago.
    fn advance(&mut self, second: u64) {
        let passed = second.saturating_sub(self.last).min(PACE_SECS);
        for ago in 0..passed {
            *self.slot(second - ago) = 0;
        }
        self.last = self.last.max(second);
    }

    fn slot(&mut self, second: u64) -> &mut u64 {
        &mut self.seconds[usize::try_from(second % PACE_SECS).expect("a small number")]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pace_is_the_mean_of_the_last_seconds() {
        let mut pace = Pace::default();
        assert_eq!(pace.per_second(0), 0);
        pace.add(0, 100);
        assert_eq!(pace.per_second(0), 100);
        pace.add(1, 300);
        assert_eq!(pace.per_second(1), 200);
        assert_eq!(pace.per_second(9), 40);
        assert_eq!(pace.per_second(10), 30, "the first second is forgotten");
        pace.add(30, 50);
        assert_eq!(pace.per_second(30), 5, "the others, too");
        pace.add(29, 50);
        assert_eq!(pace.per_second(30), 10, "two threads may count in any order");
    }

    #[test]
    fn work_is_listed_while_it_is_under_way() {
        let activities = Activities::default();
        let backup = activities.begin(NodeId(1), ActivityKind::Backup, b"/home");
        let restore = activities.begin(NodeId(2), ActivityKind::Restore, b"/\xff");
        backup.count(1_000, 3);
        backup.count(500, 0);
        let listed = activities.list();
        assert_eq!((listed[0].bytes, listed[0].objects), (1_500, 3));
        assert_eq!(
            (listed[1].kind, &listed[1].filespace[..]),
            (ActivityKind::Restore, &b"/\xff"[..])
        );
        drop(backup);
        assert_eq!(activities.list().len(), 1);
        drop(restore);
        assert_eq!(activities.list(), []);
    }
}
