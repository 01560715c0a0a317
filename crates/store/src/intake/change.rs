//! Changes of pages as a node sends them, and the objects that the server leaves out of them.

use std::sync::Arc;

use catalog::PageKey;
use catalog::change::PageStart;
use model::{DirPath, Name, Object, SessionPlace};
use wire::Grant;

/// A change of one page as a node sends it. Objects that the change does not name stay as they are.
#[derive(Clone, PartialEq, Debug)]
pub struct PageChange {
    pub key: PageKey,
    /// Objects with new versions.
    pub backed_up: Vec<Object<SessionPlace>>,
    /// Objects of which only attributes changed. Their extents are not used.
    pub updated: Vec<Object>,
    /// Objects that no longer exist. If a directory is one of them, everything below it expires
    /// too.
    pub expired: Vec<Name>,
    /// Proofs that the node may name chunks without sending them.
    pub grants: Vec<Grant>,
    /// First names and digests of the pages that exist after the change.
    pub pages: Vec<PageStart>,
    /// Objects of `backed_up` with the same content as another object of the node.
    pub known: Vec<KnownContent>,
}

/// A statement of the node that the object `name` has the same content as another active object:
/// the object `of` in `directory` of the node's filespace `filespace`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KnownContent {
    pub name: Name,
    pub filespace: Vec<u8>,
    pub directory: DirPath,
    pub of: Name,
}

/// An object that the server left out of its change.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Rejection {
    /// The page, which all rejections of a change share: a path may be long.
    pub key: Arc<PageKey>,
    pub name: Name,
    pub reason: Reason,
}

impl Rejection {
    /// Returns the rejections of objects of one page.
    pub(crate) fn of_page(key: &PageKey, objects: Vec<(Name, Reason)>) -> Vec<Self> {
        if objects.is_empty() {
            return Vec::new();
        }
        let key = Arc::new(key.clone());
        let rejection = |(name, reason)| Self { key: Arc::clone(&key), name, reason };
        objects.into_iter().map(rejection).collect()
    }
}

/// A directory that the node has removed, and below which pages of the catalogue are damaged. These
/// pages stay.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Remnant {
    pub directory: DirPath,
    /// Fault of the first page.
    pub reason: String,
}

/// Reason why an object was left out.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Reason {
    /// A grant is not valid, or the server does not know a quantum. The node sends the data.
    #[error("the server does not have the object's data")]
    SendData,
    /// The lengths of the object's parts do not add up to its size. The node reads the object
    /// again.
    #[error("the object's parts do not add up to its size")]
    Size,
    /// The page cannot hold the object. Another backup meets the same page.
    #[error(
        "the objects near it in its directory need too much room at the server; give them fewer \
         extended attributes, or move some of them to another directory"
    )]
    PageFull,
}
