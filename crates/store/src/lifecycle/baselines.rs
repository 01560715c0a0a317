//! Baselines that nodes keep at the server, to compare them over time.

use catalog::{BaselineRow, Node};

use crate::error::StoreError;
use crate::store::Store;

/// Keeps a baseline of `node`, with the time by the server's clock. The node's oldest baseline
/// makes room for it if the node has as many as the server keeps.
pub fn keep(store: &Store, node: &Node, document: &[u8]) -> Result<(), StoreError> {
    store.check_commit_room()?;
    Ok(store.catalog.add_baseline(node.id, sys::clock::now(), document)?)
}

/// Lists at most `limit` baselines of `node`, oldest first, from the number `from`.
pub fn list(
    store: &Store,
    node: &Node,
    from: Option<u64>,
    limit: usize,
) -> Result<Vec<BaselineRow>, StoreError> {
    Ok(store.catalog.baselines(node.id, from, limit)?)
}
