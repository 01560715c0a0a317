//! Stream of versions for a list.

use model::ServerTime;
use policy::Pattern;
use tonic::Streaming;
use wire::proto;

use super::Link;
use super::versions::{Entries, Entry, Selection, decode};
use crate::error::ClientError;
use crate::path::absolute;

/// Conditions on listed versions, beyond their selection. All of them must hold.
#[derive(Clone, Debug, Default)]
pub(crate) struct Condition {
    /// Pattern that the path of the object on the node matches.
    pub(crate) pattern: Option<Pattern>,
    /// Time at which the version was not active.
    pub(crate) absent_at: Option<ServerTime>,
}

impl Condition {
    fn message(&self) -> proto::VersionCondition {
        let pattern = self.pattern.as_ref().map_or(&b""[..], Pattern::as_bytes);
        proto::VersionCondition {
            pattern: pattern.to_vec().into(),
            absent_at: self.absent_at.map(|time| time.0),
        }
    }

    fn holds(&self, filespace: &[u8], entry: &Entry) -> bool {
        let stood_at =
            |time| entry.object.inserted <= time && entry.deactivated.is_none_or(|end| end > time);
        self.absent_at.is_none_or(|time| !stood_at(time))
            && self.pattern.as_ref().is_none_or(|pattern| {
                pattern.matches(&absolute(filespace, &entry.directory.join(&entry.object.name)))
            })
    }
}

/// Versions that the server lists.
pub(crate) struct Listing<'a> {
    link: &'a Link,
    selection: Selection,
    condition: Condition,
    stream: Streaming<proto::VersionsReply>,
}

impl Link {
    pub(crate) fn list(&self, selection: &Selection) -> Result<Listing<'_>, ClientError> {
        self.list_if(selection, Condition::default())
    }

    /// Lists the versions of `selection` that meet `condition`.
    pub(crate) fn list_if(
        &self,
        selection: &Selection,
        condition: Condition,
    ) -> Result<Listing<'_>, ClientError> {
        let request = proto::ListRequest {
            selection: Some(selection.message(&self.reading)),
            condition: Some(condition.message()),
        };
        let stream = self.runtime.block_on(self.client().list(request))?.into_inner();
        Ok(Listing { link: self, selection: selection.clone(), condition, stream })
    }
}

impl Listing<'_> {
    /// Returns the entries of the next message, or `None` at the end.
    pub(crate) fn next(&mut self) -> Result<Option<Vec<Entry>>, ClientError> {
        let Some(message) = self.link.runtime.block_on(self.stream.message())? else {
            return Ok(None);
        };
        let Entries { mut entries, .. } = decode(&message, &self.selection)?;
        // An older server does not know the conditions, and sends everything.
        entries.retain(|entry| self.condition.holds(&self.selection.filespace, entry));
        Ok(Some(entries))
    }
}
