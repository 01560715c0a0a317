//! Rules by which a node lets others read, and the archives that others see.

use catalog::{Node, ReadRule};
use model::ServerTime;
use store::readers::Reading;
use store::{Store, StoreError, readers};
use wire::proto;

/// Lists the rules of a node.
pub(super) fn rules(store: &Store, owner: &Node) -> Result<proto::ReadRulesReply, StoreError> {
    let rules = readers::rules(store, owner)?.into_iter().map(message).collect();
    Ok(proto::ReadRulesReply { rules })
}

pub(super) fn allow(
    store: &Store,
    owner: &Node,
    rule: proto::ReadRule,
) -> Result<proto::ReadRule, StoreError> {
    readers::allow(store, owner, parse(rule)).map(message)
}

pub(super) fn forbid(
    store: &Store,
    owner: &Node,
    rule: proto::ReadRule,
) -> Result<proto::ReadRule, StoreError> {
    readers::forbid(store, owner, parse(rule)).map(message)
}

/// Lists a portion of the archives of the node that a request names. Another node sees only the
/// archives, and of these only the filespaces, in which it may read something.
pub(super) fn archives(
    store: &Store,
    caller: &Node,
    request: &proto::ArchivesRequest,
) -> Result<proto::ArchivesReply, StoreError> {
    let reading = Reading::of(store, caller, &request.node)?;
    let mut reply = super::archives(store, &reading.owner, request.portion.clone())?;
    if !reading.is_own() {
        reply.archives.retain_mut(|archive| {
            archive.filespaces.retain(|name| reading.sees(name));
            !archive.filespaces.is_empty()
        });
    }
    Ok(reply)
}

/// Reads a rule. The server's clock has its time.
fn parse(rule: proto::ReadRule) -> ReadRule {
    let proto::ReadRule { reader, path, archives, .. } = rule;
    ReadRule { reader, is_archive: archives, path: path.to_vec(), since: sys::clock::now() }
}

fn message(rule: ReadRule) -> proto::ReadRule {
    let ReadRule { reader, is_archive, path, since: ServerTime(since) } = rule;
    proto::ReadRule { reader, path: path.into(), archives: is_archive, since }
}
