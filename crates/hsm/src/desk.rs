//! Objects with which the requests of one user are carried out.

use std::io;
use std::sync::Arc;

use client::ClientError;

use crate::caller::Caller;
use crate::connection::Connection;
use crate::mount::Mount;
use crate::recall::Recaller;
use crate::release::ReleaseError;
use crate::tender::Tender;

/// Reason why a request is not carried out, or not completely.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RequestError {
    /// Ask as root.
    #[error("only root may ask for this")]
    Forbidden,
    /// Correct the request.
    #[error("the request cannot be read: {0}")]
    Malformed(#[from] serde_json::Error),
    #[error("you have no request {0}")]
    NoRecall(u64),
    /// Manage the file system, or mount it.
    #[error(
        "{} is not managed, or not mounted; 'holdfast hsm list' shows the file systems",
        model::escaped(.0)
    )]
    NotManaged(Vec<u8>),
    /// Name a path of a managed file system.
    #[error("{} is in no managed file system", model::escaped(.0))]
    Elsewhere(Vec<u8>),
    /// The file system stays managed.
    #[error(transparent)]
    Unreleased(#[from] ReleaseError),
    /// Run 'holdfast hsm reconcile'.
    #[error(
        "the files are deleted, but their copies were not released: {0}; 'holdfast hsm reconcile' \
         releases them"
    )]
    CopiesLeft(String),
    /// Check the server.
    #[error("{}", .0.message)]
    Server(#[from] ClientError),
    /// The file system failed: repair it.
    #[error("{0}")]
    System(#[from] io::Error),
}

/// Objects that the requests of one user need.
pub(crate) struct Desk<'a> {
    pub(crate) recaller: &'a Recaller,
    pub(crate) connection: &'a Connection,
    pub(crate) caller: &'a Caller,
    pub(crate) tender: &'a Tender,
    /// The managed file systems at the moment of the request.
    pub(crate) mounts: &'a [Arc<Mount>],
}

impl<'a> Desk<'a> {
    /// The managed file system at `mount_point`, which must be mounted there now.
    pub(crate) fn mount_at(&self, mount_point: &[u8]) -> Result<&'a Mount, RequestError> {
        let mount = self.mounts.iter().find(|mount| mount.mount_point() == mount_point);
        mount
            .filter(|mount| mount.root().is_ok())
            .map(|mount| &**mount)
            .ok_or_else(|| RequestError::NotManaged(mount_point.to_vec()))
    }

    /// The managed file system that holds `path`. The path need not exist.
    pub(crate) fn mount_holding(&self, path: &[u8]) -> Result<&'a Mount, RequestError> {
        let holding = self.mounts.iter().filter(|mount| mount.within(path).is_some());
        let innermost = holding.max_by_key(|mount| mount.mount_point().len());
        innermost
            .map(|mount| &**mount)
            .ok_or_else(|| RequestError::Elsewhere(path.to_vec()))
    }
}
