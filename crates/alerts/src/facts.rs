//! The state of a server, as the rules see it.

use std::collections::BTreeSet;

use catalog::EventOutcome;
use model::{DomainId, NodeId, ServerTime};
use store::Hold;
use store::quotas::NearDomain;

/// The state of a server at one moment.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Facts {
    pub(crate) now: ServerTime,
    pub(crate) nodes: Vec<NodeFacts>,
    /// Names of the schedules.
    pub(crate) schedules: BTreeSet<String>,
    /// Outcomes of the events of the last days, by the planned time.
    pub(crate) outcomes: Vec<EventOutcome>,
    pub(crate) pools: Vec<PoolFacts>,
    /// True if the server refuses new data because no pool has room.
    pub(crate) refuses_data: bool,
    /// Why the server is held, if it is.
    pub(crate) hold: Option<Hold>,
    /// The domains that are near a limit, or at it.
    pub(crate) domains: Vec<NearDomain>,
    /// Volumes with errors, and the numbers of their errors.
    pub(crate) volumes: Vec<(String, u32)>,
    /// The last run of each task that has ended.
    pub(crate) tasks: Vec<TaskFacts>,
    /// True if the server does not trust its clock.
    pub(crate) distrusts_clock: bool,
    /// Time of the newest copy of the catalogue; `None` if nobody can list the copies.
    pub(crate) copy: CopyFacts,
    pub(crate) damaged_packs: u64,
    /// Certificates of the server, by what they are for.
    pub(crate) certificates: Vec<(&'static str, ServerTime)>,
    /// Backups that found far more deleted than usual, since the last look.
    pub(crate) deletions: Vec<DeletionFacts>,
}

/// The newest copy of the catalogue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum CopyFacts {
    /// No pool can have copies, or the server has just begun.
    Unknown,
    Taken(ServerTime),
    /// There is none, and the server has had nodes since this time.
    None {
        since: ServerTime,
    },
}

/// A node.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct NodeFacts {
    pub(crate) id: NodeId,
    pub(crate) name: String,
    pub(crate) domain: DomainId,
    pub(crate) registered: ServerTime,
    /// True if nobody expects backups of the node.
    pub(crate) is_locked: bool,
    /// Start of the last good backup.
    pub(crate) last_backup: Option<ServerTime>,
    /// Mount points whose last good backups are old, with the starts of these.
    pub(crate) old_filespaces: Vec<(String, ServerTime)>,
    pub(crate) certificate_end: Option<ServerTime>,
    pub(crate) good_drill: Option<ServerTime>,
    pub(crate) failed_drill: Option<(ServerTime, String)>,
    /// Number of versions that need damaged data, as the last audits have found them.
    pub(crate) lost_versions: u64,
}

/// A pool.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct PoolFacts {
    pub(crate) name: String,
    pub(crate) is_there: bool,
    pub(crate) bytes: u64,
    /// Number of bytes that fit; 0 if unknown.
    pub(crate) bytes_max: u64,
    pub(crate) disk_errors: u64,
    /// Bytes of the pool on earlier days, by the number of the day.
    pub(crate) days: Vec<(i64, u64)>,
}

/// The last run of a task of the server.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct TaskFacts {
    pub(crate) task: String,
    pub(crate) ended: ServerTime,
    pub(crate) has_failed: bool,
    pub(crate) reason: String,
}

/// A backup that found far more deleted than usual.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct DeletionFacts {
    pub(crate) node: NodeId,
    pub(crate) filespace: String,
    pub(crate) ended: ServerTime,
    pub(crate) deleted: u64,
    /// Largest number in the backups before.
    pub(crate) usual: u64,
}
