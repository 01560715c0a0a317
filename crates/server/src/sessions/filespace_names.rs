//! The filespaces of a node, by their names.

use catalog::{Filespace, Node};
use store::{Store, StoreError};

/// Returns the filespace `name` of a node. Fails if the node has none with this name.
pub(super) fn filespace(store: &Store, node: &Node, name: &[u8]) -> Result<Filespace, StoreError> {
    find_filespace(store, node, name)?.ok_or_else(|| {
        let name = model::escaped(name);
        StoreError::not_found(format!("node {} has no filespace {name}", node.name))
    })
}

/// Returns the filespace `name` of a node, if the node has it.
pub(super) fn find_filespace(
    store: &Store,
    node: &Node,
    name: &[u8],
) -> Result<Option<Filespace>, StoreError> {
    let all = store.catalog.filespaces(node.id)?;
    Ok(all.into_iter().find(|filespace| filespace.name == name))
}
