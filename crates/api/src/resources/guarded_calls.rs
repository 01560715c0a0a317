//! Calls of the administrator's service that destroy. Where two persons are needed, they ask for
//! approval as the operations of REST do.

use prost::{DecodeError, Message};
use server::ReviewMark;
use store::{domains, nodes};
use wire::proto;

use super::domains::find as find_domain;
use super::found_node::find_node;
use super::orders::{Activation, NodeRemoval, PoolRemoval, VolumeLabel};
use super::pools;
use crate::approval::guard;
use crate::call::Answer;
use crate::caller::Caller;
use crate::desk::Desk;
use crate::problem::{Kind, Problem};
use crate::roles::{Area, Right};

/// Maximum number of labels for which one call asks.
const LABELS_MAX: usize = 100;

/// Returns true if another person may have to approve the call with this name.
pub(crate) fn is_guarded(call: &str) -> bool {
    matches!(call, "RemoveNode" | "ActivatePolicy" | "RemovePool" | "LabelVolumes")
}

/// Asks for approval of a call, and fails then, if another person has to approve it. Returns the
/// review under which an activation may go on.
pub(crate) fn guard_call(
    desk: &Desk,
    caller: &Caller,
    call: &str,
    message: &[u8],
) -> Answer<Option<ReviewMark>> {
    match call {
        "RemoveNode" => {
            let proto::RemoveNodeRequest { name, with_data } = read(message)?;
            let found = find_node(desk, caller, &name, (Area::Nodes, Right::Write))?;
            // Nobody is asked to approve what would be refused.
            nodes::check_removal(desk.store(), &found.node, with_data)?;
            guard(desk, caller, &NodeRemoval::new(&found.node, with_data))?;
        }
        "ActivatePolicy" => return guard_activation(desk, caller, read(message)?).map(Some),
        "RemovePool" => {
            let proto::PoolsRequest { name, .. } = read(message)?;
            guard(desk, caller, &PoolRemoval::new(&pools::find(desk, &name)?))?;
        }
        "LabelVolumes" => guard_labels(desk, caller, read(message)?)?,
        _ => {}
    }
    Ok(None)
}

fn read<M: Message + Default>(message: &[u8]) -> Answer<M> {
    let wrong = |error: DecodeError| Problem::invalid(format!("the call is malformed: {error}"));
    M::decode(message).map_err(wrong)
}

fn guard_activation(
    desk: &Desk,
    caller: &Caller,
    request: proto::ActivatePolicyRequest,
) -> Answer<ReviewMark> {
    let proto::ActivatePolicyRequest { domain, confirm } = request;
    let name = if domain.is_empty() { policy::STANDARD } else { domain.as_str() };
    let domain = find_domain(desk, caller, name)?;
    let review = match domains::check_activation(desk.store(), &domain.name, confirm) {
        Ok(review) => review,
        // No draft has this mark, so the server says in its own words what is wrong.
        Err(error) if error.is_for_good() => return Ok(ReviewMark(String::new())),
        Err(error) => return Err(error.into()),
    };
    if review.shortens() {
        guard(desk, caller, &Activation::new(&domain, &review, confirm))?;
    }
    Ok(ReviewMark(review.mark))
}

/// Asks for approval of each label that may destroy data.
fn guard_labels(desk: &Desk, caller: &Caller, request: proto::LabelVolumesRequest) -> Answer<()> {
    let proto::LabelVolumesRequest { library, volumes, overwrite, block_bytes } = request;
    if !overwrite {
        return Ok(());
    }
    if !(1..=LABELS_MAX).contains(&volumes.len()) {
        let text = format!("name 1 to {LABELS_MAX} volumes: each label waits for a second person");
        return Err(Problem::invalid(text));
    }
    desk.store().volumes.libraries(Some(&library), false)?;
    let block_bytes = Some(block_bytes).filter(|&bytes| bytes > 0);
    let mut asked: Option<Problem> = None;
    for volume in &volumes {
        let label = VolumeLabel::new(&library, volume, block_bytes);
        let Err(next) = guard(desk, caller, &label) else { continue };
        // A request that was made before stays: whoever tries again is told its number.
        if !matches!(next.kind, Kind::ApprovalNeeded | Kind::Conflict) {
            return Err(next);
        }
        asked = Some(match asked {
            Some(first) => Problem::new(first.kind, format!("{}; {}", first.detail, next.detail)),
            None => next,
        });
    }
    asked.map_or(Ok(()), Err)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_guarded_call_is_one_of_the_service() {
        let services = include_str!("../../../wire/proto/holdfast.proto");
        let calls = services.lines().filter_map(|line| line.trim().strip_prefix("rpc "));
        let guarded =
            calls.filter_map(|call| call.split('(').next()).filter(|call| is_guarded(call));
        assert_eq!(guarded.count(), 4);
    }
}
