//! Restore drills: a node restores a random sample of its versions to nowhere, and the server keeps
//! the date at which the node was last proven restorable.
//!
//! ```text
//!   begin -> sample of all filespaces
//!            restore of each filespace (`serve`) -> note: files of the sample, files delivered
//!   end   -> the node's count against the server's -> catalogue
//! ```
//!
//! Invariants:
//! 1. A drill is good only if this server has sent every file of the sample in all filespaces that
//!    the node had at the begin and still has, and the node confirms as many sound files.
//! 2. A drill that nobody ends proves nothing and changes nothing.
//! 3. A node has one drill. The next one takes the place of an unfinished one.

use catalog::{DrillRow, EventRow, Node, Write};
use model::{FilespaceId, NodeId, SampleAmount};

use crate::counts::counted;
use crate::error::StoreError;
use crate::store::Store;
use crate::store::drills::{Delivery, Sample};

/// Maximum number of characters of the reason that a node gives.
const REASON_CHARS_MAX: usize = 1000;

/// A node's own result of a drill.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Confirmation {
    /// Number of files whose data the node has checked.
    pub checked: u64,
    pub damaged: u64,
    /// The first damage, for people; empty if there is none.
    pub reason: String,
}

/// Begins a drill of `node`. Returns its number.
pub fn begin(
    store: &Store,
    node: &Node,
    amount: SampleAmount,
    seed: u64,
) -> Result<u64, StoreError> {
    let filespaces = store.catalog.filespaces(node.id)?;
    let sample = Sample::draw(store, &filespaces, amount, seed)?;
    let left = filespaces.iter().map(|filespace| filespace.id).collect();
    Ok(store.drills.begin(node.id, sample, left))
}

/// Returns the sample of a node's drill.
pub fn sample(store: &Store, node: NodeId, number: u64) -> Result<Sample, StoreError> {
    store.drills.sample(node, number).ok_or_else(unknown)
}

/// Notes that the sample of a filespace was sent, as far as it could be read.
pub fn note_delivery(store: &Store, node: NodeId, number: u64, of: (FilespaceId, Delivery)) {
    store.drills.note(node, number, of);
}

/// Ends a drill, and keeps its result.
pub fn end(
    store: &Store,
    node: &Node,
    number: u64,
    confirmation: &Confirmation,
) -> Result<DrillRow, StoreError> {
    let drill = store.drills.end(node.id, number).ok_or_else(unknown)?;
    let present = store.catalog.filespaces(node.id)?;
    let left = present.iter().filter(|filespace| drill.left.contains(&filespace.id)).count();
    let verdict = judge(drill.delivery, left as u64, confirmation);
    if matches!(verdict, Verdict::Nothing) {
        return Err(StoreError::usage(
            "the sample has no file, so nothing was proven; ask for a larger sample, or back up \
             files first",
        ));
    }
    let reason = match verdict {
        Verdict::Failed(reason) => Some(reason),
        Verdict::Good | Verdict::Nothing => None,
    };
    let row = DrillRow {
        node: node.id,
        is_good: reason.is_none(),
        at: sys::clock::now(),
        objects: confirmation.checked.min(drill.delivery.delivered),
        bytes: drill.delivery.bytes,
        damaged: confirmation.damaged,
        reason: reason.unwrap_or_default(),
    };
    store.catalog.put_drill(&row)?;
    store.catalog.commit(vec![Write::AddEvent(event(node, &row))])?;
    Ok(row)
}

fn event(node: &Node, row: &DrillRow) -> EventRow {
    let (what, details) = match row.is_good {
        true => ("restore drill good", counted(row.objects, "file")),
        false => ("restore drill failed", row.reason.clone()),
    };
    let actor = format!("node {}", node.name);
    EventRow { time: row.at, actor, what: what.to_owned(), details }
}

fn unknown() -> StoreError {
    StoreError::conflict(
        "the server does not know this restore drill: it has restarted, or another drill of the \
         node has begun; begin the drill again",
    )
}

/// Result of a drill.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Verdict {
    Good,
    Failed(String),
    /// The sample has no file.
    Nothing,
}

/// Judges a drill by the server's deliveries, the number of filespaces that were `left`, and the
/// node's result.
fn judge(delivery: Delivery, left: u64, confirmation: &Confirmation) -> Verdict {
    let Delivery { selected, delivered, .. } = delivery;
    assert!(delivered <= selected, "only files of the sample are delivered");
    let Confirmation { checked, damaged, reason } = confirmation;
    if *damaged > 0 {
        let reason: String = reason.chars().take(REASON_CHARS_MAX).collect();
        let files = counted(*damaged, "file");
        return Verdict::Failed(format!("{files} could not be restored: {reason}"));
    }
    if left > 0 {
        let left = counted(left, "filespace");
        return Verdict::Failed(format!("{left} could not be restored as a whole"));
    }
    if delivered < selected {
        let all = counted(selected, "file");
        return Verdict::Failed(format!("the server has sent {delivered} of {all}"));
    }
    if *checked != selected {
        let all = counted(selected, "file");
        return Verdict::Failed(format!("the node has checked {checked} of {all}"));
    }
    if selected == 0 { Verdict::Nothing } else { Verdict::Good }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(delivery: (u64, u64), left: u64, node: (u64, u64), expected: &str) {
        let (selected, delivered) = delivery;
        let delivery = Delivery { selected, delivered, bytes: 7 };
        let (checked, damaged) = node;
        let confirmation = Confirmation { checked, damaged, reason: "/a: lost".to_owned() };
        let shown = match judge(delivery, left, &confirmation) {
            Verdict::Good => "good".to_owned(),
            Verdict::Nothing => "nothing".to_owned(),
            Verdict::Failed(reason) => reason,
        };
        assert_eq!(shown, expected);
    }

    #[test]
    fn only_a_whole_sample_that_both_sides_have_seen_is_a_proof() {
        check((3, 3), 0, (3, 0), "good");
        check((0, 0), 0, (0, 0), "nothing");
        check((3, 2), 0, (2, 1), "1 file could not be restored: /a: lost");
        check((0, 0), 0, (0, 1), "1 file could not be restored: /a: lost");
        check((3, 3), 2, (3, 0), "2 filespaces could not be restored as a whole");
        check((3, 2), 0, (3, 0), "the server has sent 2 of 3 files");
        check((3, 3), 0, (2, 0), "the node has checked 2 of 3 files");
        check((3, 3), 0, (4, 0), "the node has checked 4 of 3 files");
        check((0, 0), 0, (1, 0), "the node has checked 1 of 0 files");
    }
}
