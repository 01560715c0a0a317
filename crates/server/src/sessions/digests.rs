//! Directory digests: of a whole filespace, of some directories, and the fingerprint of all of
//! them.

use bytes::Bytes;
use catalog::{CatalogError, Node, PageDigest};
use store::{Store, StoreError};
use wire::proto;

use super::filespace_names::find_filespace;
use super::stream::Replies;
use crate::messages::changes::directory;

/// Number of bytes of digest rows after which a message ends.
const ROWS_BYTES: usize = 256 << 10;
/// Maximum number of pages without a digest whose directories a fingerprint lists.
const UNDIGESTED_MAX: usize = 1 << 16;
/// Maximum size of the paths of these directories, in bytes.
const UNDIGESTED_BYTES_MAX: usize = 8 << 20;

/// Rows on their way to the client.
struct Rows<'a> {
    replies: &'a Replies<proto::Rows>,
    rows: Vec<u8>,
    sent: Result<(), StoreError>,
}

impl<'a> Rows<'a> {
    fn new(replies: &'a Replies<proto::Rows>) -> Self {
        Self { replies, rows: Vec::with_capacity(ROWS_BYTES + 512), sent: Ok(()) }
    }

    /// Adds a row. Returns false if the client takes no more rows.
    fn add(&mut self, digest: &PageDigest) -> bool {
        let row =
            wire::DigestRow { hash: digest.hash, digest: digest.digest, first: &digest.first };
        wire::encode_digest_row(&mut self.rows, &row);
        if self.rows.len() >= ROWS_BYTES {
            let full = std::mem::replace(&mut self.rows, Vec::with_capacity(ROWS_BYTES + 512));
            self.sent = self.replies.blocking_send(Ok(proto::Rows { rows: full.into() }));
        }
        self.sent.is_ok()
    }

    fn finish(self) -> Result<(), StoreError> {
        self.sent?;
        sys::fault::point("digests");
        self.replies.blocking_send(Ok(proto::Rows { rows: self.rows.into() }))
    }
}

/// Sends the digests of all directories at or below a directory.
pub(super) fn send_all(
    store: &Store,
    node: &Node,
    request: &proto::DigestsRequest,
    replies: &Replies<proto::Rows>,
) -> Result<(), StoreError> {
    let within = directory(&request.directory)?;
    let Some(filespace) = find_filespace(store, node, &request.filespace)? else { return Ok(()) };
    let mut rows = Rows::new(replies);
    store.catalog.digests(filespace.id, &within, &mut |digest| rows.add(digest))?;
    rows.finish()
}

/// Sends the digests of the named directories.
pub(super) fn send_some(
    store: &Store,
    node: &Node,
    request: &proto::DigestsOfRequest,
    replies: &Replies<proto::Rows>,
) -> Result<(), StoreError> {
    let parse =
        |paths: &[Bytes]| paths.iter().map(|path| directory(path)).collect::<Result<Vec<_>, _>>();
    let directories = parse(&request.directories)?;
    let subtrees = parse(&request.subtrees)?;
    let Some(filespace) = find_filespace(store, node, &request.filespace)? else { return Ok(()) };
    let mut rows = Rows::new(replies);
    for directory in &directories {
        let add = &mut |digest: &PageDigest| rows.add(digest);
        store.catalog.directory_digests(filespace.id, directory, add)?;
    }
    for subtree in &subtrees {
        store.catalog.digests(filespace.id, subtree, &mut |digest| rows.add(digest))?;
    }
    rows.finish()
}

/// Returns the fingerprint of all digests of a filespace, which is their sum.
pub(super) fn fingerprint(
    store: &Store,
    node: &Node,
    request: &proto::FingerprintRequest,
) -> Result<proto::FingerprintReply, StoreError> {
    let Some(filespace) = find_filespace(store, node, &request.filespace)? else {
        return Ok(proto::FingerprintReply::default());
    };
    let sum = store.catalog.digest_sum(filespace.id)?;
    let mut reply = proto::FingerprintReply {
        fingerprint: sum.to_le_bytes().to_vec().into(),
        ..Default::default()
    };
    if request.lists_undigested {
        match undigested(store, filespace.id)? {
            Some(directories) => reply.undigested = directories,
            None => reply.has_more = true,
        }
    }
    Ok(reply)
}

fn undigested(
    store: &Store,
    filespace: model::FilespaceId,
) -> Result<Option<Vec<Bytes>>, CatalogError> {
    let found = store.catalog.undigested(filespace, UNDIGESTED_MAX)?;
    let paths = found.map(|directories| {
        let bytes = directories.iter().map(|path| Bytes::copy_from_slice(path.as_bytes()));
        bytes.collect::<Vec<_>>()
    });
    let bytes = |paths: &Vec<Bytes>| paths.iter().map(Bytes::len).sum::<usize>();
    Ok(paths.filter(|paths| bytes(paths) <= UNDIGESTED_BYTES_MAX))
}
