//! Results of restore drills, as the server keeps them.

use model::ServerTime;
use wire::proto;

/// Result of a restore drill, as the server keeps it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Drill {
    /// True if the whole sample could be restored.
    pub is_good: bool,
    /// End of the drill, by the server's clock.
    pub at: ServerTime,
    /// Number of files that the server has sent and the node has checked.
    pub objects: u64,
    pub bytes: u64,
    /// Number of files that could not be restored.
    pub damaged: u64,
    /// Reason why the drill failed; empty for a good drill.
    pub reason: String,
}

impl From<proto::DrillResult> for Drill {
    fn from(message: proto::DrillResult) -> Self {
        let proto::DrillResult { is_good, at, objects, bytes, damaged, reason } = message;
        Self { is_good, at: ServerTime(at), objects, bytes, damaged, reason }
    }
}

/// The last drills of a node.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct LastDrills {
    pub good: Option<Drill>,
    pub failed: Option<Drill>,
}

impl From<proto::LastDrills> for LastDrills {
    fn from(proto::LastDrills { good, failed }: proto::LastDrills) -> Self {
        Self { good: good.map(Drill::from), failed: failed.map(Drill::from) }
    }
}
