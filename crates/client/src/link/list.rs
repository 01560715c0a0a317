//! Stream of versions for a list.

use tonic::Streaming;
use wire::proto;

use super::Link;
use super::versions::{Entries, Entry, Selection, decode};
use crate::error::ClientError;

/// Versions that the server lists.
pub(crate) struct Listing<'a> {
    link: &'a Link,
    selection: Selection,
    stream: Streaming<proto::VersionsReply>,
}

impl Link {
    pub(crate) fn list(&self, selection: &Selection) -> Result<Listing<'_>, ClientError> {
        let request = proto::ListRequest { selection: Some(selection.message()) };
        let stream = self.runtime.block_on(self.client().list(request))?.into_inner();
        Ok(Listing { link: self, selection: selection.clone(), stream })
    }
}

impl Listing<'_> {
    /// Returns the entries of the next message, or `None` at the end.
    pub(crate) fn next(&mut self) -> Result<Option<Vec<Entry>>, ClientError> {
        let Some(message) = self.link.runtime.block_on(self.stream.message())? else {
            return Ok(None);
        };
        let Entries { entries, .. } = decode(&message, &self.selection)?;
        Ok(Some(entries))
    }
}
