//! Sharing of chunks between nodes: which chunks the nodes share, and under which key the index has
//! a chunk.
//!
//! ```text
//!   long enough     every node -- digest ------------------> place
//!   short, of N     node N     -- key of N and the digest --> place
//! ```
//!
//! A node that sends a chunk could tell from the answer whether another node has it. So nodes share
//! only chunks that are too long to be guessed. A shorter chunk is deduplicated among the chunks of
//! its own node.
//!
//! The tables of packs do not say whose a chunk is. So a rebuilt index and a reclamation enter short
//! chunks under their digests too. Only a grant leads to such an entry: the node has proved then
//! that it has sent the chunk.

use model::{ChunkDigest, NodeId};

use crate::store::{KeyedChunk, Store};

/// Returns the chunk `digest` of `node`, which is `bytes` long, as the node may deduplicate it.
pub(super) fn keyed(store: &Store, node: NodeId, digest: ChunkDigest, bytes: u32) -> KeyedChunk {
    if bytes >= store.config.shared_chunk_bytes_min {
        KeyedChunk { key: digest, digest }
    } else {
        KeyedChunk { key: store.secrets.chunk_key(node, &digest), digest }
    }
}

/// Returns the keys that a chunk may have which `node` has sent.
pub(super) fn keys_of_sent(store: &Store, node: NodeId, digest: ChunkDigest) -> [KeyedChunk; 2] {
    let key = store.secrets.chunk_key(node, &digest);
    [KeyedChunk { key: digest, digest }, KeyedChunk { key, digest }]
}
