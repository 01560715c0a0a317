//! Usage of the server by nodes, as messages: one for each filespace.

use catalog::Node;
use store::lifecycle::usage::{self, Usage};
use store::{Store, StoreError};
use wire::proto;

use crate::messages::drills;
use crate::sessions::stream::Replies;

/// Sends the usage of `nodes`.
pub(crate) fn send(
    store: &Store,
    nodes: &[Node],
    replies: &Replies<proto::StatsReply>,
) -> Result<(), StoreError> {
    let classes = usage::class_names(store)?;
    for node in nodes {
        let mut drills = Some(drills::last(store.catalog.drills(Some(node.id))?));
        for filespace in store.catalog.filespaces(node.id)? {
            let mut goes_on = || !replies.is_closed();
            let by_class = usage::of_filespace(store, &filespace, &classes, &mut goes_on)?;
            let usage = by_class.into_iter().map(|(class, usage)| proto::Usage {
                node: node.name.to_string(),
                filespace: filespace.name.clone().into(),
                class,
                ..message(usage)
            });
            let reply = proto::StatsReply { usage: usage.collect(), drills: drills.take() };
            replies.blocking_send(Ok(reply))?;
        }
    }
    Ok(())
}

fn message(usage: Usage) -> proto::Usage {
    proto::Usage {
        active_objects: usage.active_objects,
        active_bytes: usage.active_bytes,
        inactive_versions: usage.inactive_versions,
        inactive_bytes: usage.inactive_bytes,
        stored_bytes: usage.stored_bytes,
        packs_unread: usage.packs_unread,
        ..proto::Usage::default()
    }
}
