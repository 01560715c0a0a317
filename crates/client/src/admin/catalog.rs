//! Copies of the catalogue in the pools.

use model::ServerTime;
use wire::proto;

use super::connection::Admin;
use super::optional;
use crate::ClientError;
use crate::link::portions::{self, Section};

/// A copy of the catalogue.
#[derive(Clone, Debug)]
pub struct CatalogCopy {
    pub number: u64,
    pub taken: ServerTime,
    /// Size of the catalogue.
    pub bytes: u64,
    /// Pools that have the copy.
    pub pools: Vec<String>,
    /// True if the catalogue was damaged or had shrunk oddly when it was copied.
    pub is_doubtful: bool,
}

/// Progress of making a copy of the catalogue, or the result.
#[derive(Clone, Debug, Default)]
pub struct CatalogCopyProgress {
    pub number: u64,
    /// Size of the catalogue.
    pub bytes: u64,
    /// Size of the part that was compared with the copy before.
    pub bytes_done: u64,
    /// Size of the part that the copy before lacks, before compression.
    pub bytes_new: u64,
    /// Reason why the copy replaces no other one; `None` if it may.
    pub doubt: Option<String>,
}

impl From<proto::CatalogCopy> for CatalogCopy {
    fn from(message: proto::CatalogCopy) -> Self {
        let proto::CatalogCopy { number, taken, bytes, pools, is_doubtful } = message;
        Self { number, taken: ServerTime(taken), bytes, pools, is_doubtful }
    }
}

impl From<proto::CopyCatalogReply> for CatalogCopyProgress {
    fn from(message: proto::CopyCatalogReply) -> Self {
        let proto::CopyCatalogReply { number, bytes, bytes_done, bytes_new, doubt, .. } = message;
        Self { number, bytes, bytes_done, bytes_new, doubt: optional::text(doubt) }
    }
}

impl Admin {
    /// Lists the copies of the catalogue, newest first.
    pub fn catalog_copies(&mut self) -> Result<Vec<CatalogCopy>, ClientError> {
        let copies = portions::all(|portion| {
            let request = proto::CatalogCopiesRequest { portion: Some(portion) };
            let reply = self.call(async |server| server.catalog_copies(request).await)?;
            Ok(Section { items: reply.copies, next: reply.next })
        })?;
        Ok(copies.into_iter().map(CatalogCopy::from).collect())
    }

    /// Copies the catalogue to the pools; `visit` sees the progress. With `accepts_shrinking` the
    /// copy may replace others although the catalogue has lost many rows.
    pub fn copy_catalog(
        &mut self,
        accepts_shrinking: bool,
        visit: &mut dyn FnMut(&CatalogCopyProgress),
    ) -> Result<CatalogCopyProgress, ClientError> {
        let request = proto::CopyCatalogRequest { accepts_shrinking };
        let stream = self.call(async |server| server.copy_catalog(request).await)?;
        self.follow(stream, visit)
    }
}
