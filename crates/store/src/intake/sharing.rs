//! Sharing of chunks between nodes: which chunks the nodes share, and under which key the index has
//! a chunk.
//!
//! ```text
//!   long                 every node -- digest -------------------> place
//!   short or encrypted   node N     -- key of N and the digest --> place
//! ```
//!
//! A node that sends a chunk could tell from the answer whether another node has it. So nodes share
//! only chunks that are too long to be guessed. A shorter chunk, and a chunk that its node has
//! encrypted, is deduplicated among the chunks of its own node.
//!
//! The tables of packs do not say whose a chunk is. So a rebuilt index and a reclamation enter all
//! chunks under their digests. Only a grant leads to such an entry: the node has proved then
//! that it has sent the chunk.

use model::{ChunkDigest, NodeId};

use crate::store::{KeyedChunk, Store};

/// Scope in which the chunks of a quantum are deduplicated.
#[derive(Clone, Copy)]
pub(super) struct Scope<'a> {
    pub(super) store: &'a Store,
    /// The node that sends the quantum.
    pub(super) node: NodeId,
    /// True if the node has encrypted the chunks.
    pub(super) is_encrypted: bool,
}

impl Scope<'_> {
    /// Returns the chunk `digest`, which is `bytes` long, with its key.
    pub(super) fn keyed(self, digest: ChunkDigest, bytes: u32) -> KeyedChunk {
        let is_shared = bytes >= self.store.config.shared_chunk_bytes_min && !self.is_encrypted;
        let own_key = || self.store.secrets.chunk_key(self.node, &digest);
        KeyedChunk { key: if is_shared { digest } else { own_key() }, digest }
    }
}

/// Returns the keys that a chunk may have which `node` has sent.
pub(super) fn keys_of_sent(store: &Store, node: NodeId, digest: ChunkDigest) -> [KeyedChunk; 2] {
    let key = store.secrets.chunk_key(node, &digest);
    [KeyedChunk { key: digest, digest }, KeyedChunk { key, digest }]
}
