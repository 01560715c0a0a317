//! Facts about packs that a server and its catalogue exchange.

use std::sync::Arc;

use format::pack::{TRAILER_BYTES, Table};
use model::{DomainId, NodeId, PackNumber};

/// Size in bytes at which a pack is sealed.
pub const PACK_BYTES: u64 = 64 << 20;
/// Number of chunks at which a pack is sealed: far below the limit of a place's index.
pub const PACK_CHUNKS: u32 = 1 << 22;

/// A sealed pack with its table.
#[derive(Clone, Debug)]
pub struct SealedPack {
    pub table: Arc<Table>,
    /// Size of the whole pack in bytes: header, records and footer.
    pub bytes: u64,
}

impl SealedPack {
    /// Returns the sealed pack with this table.
    pub(crate) fn new(table: Arc<Table>) -> Self {
        let bytes = pack_bytes(&table);
        Self { table, bytes }
    }
}

/// Returns the size in bytes of a sealed pack with this table.
pub(crate) fn pack_bytes(table: &Table) -> u64 {
    let footer_bytes = table.encode_footer().len() as u64;
    assert!(footer_bytes >= TRAILER_BYTES as u64, "a footer ends with a trailer");
    table.end() + footer_bytes
}

/// The catalogue's record of a pack. The recorded bytes were durable: if some of them are missing,
/// the pack is damaged.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PackRecord {
    pub sealed: bool,
    pub bytes: u64,
}

/// Source of the data that goes into a pack: different fillers fill different packs.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Filler {
    pub domain: DomainId,
    /// The node whose data lies apart from the data of other nodes, if it does.
    pub node: Option<NodeId>,
}

impl Filler {
    /// Returns the filler for all nodes of `domain` together.
    pub fn any(domain: DomainId) -> Self {
        Self { domain, node: None }
    }
}

/// A change of a pack that the catalogue has to learn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PackNews {
    pub pack: PackNumber,
    pub domain: DomainId,
    /// The only node with data in the pack; `None` if there are several, or if the nodes are
    /// unknown.
    pub node: Option<NodeId>,
    pub bytes: u64,
    pub sealed: bool,
}
