//! Recall: what was migrated comes back, as the server has it.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use model::{BatchId, CopyId, space_filespace};
use tokio::task::JoinHandle;
use wire::proto;

use super::window::{Entry, Piece};
use super::{Destination, Kept, Tally, stream_for};
use crate::link::Link;
use crate::progress::Progress;
use crate::{ClientError, ErrorKind};

/// Files that are being filled with what was migrated off them, by the index of their copy.
pub trait Filling: Sync {
    /// Whether the copy is wanted.
    fn wants(&self, index: u16) -> bool;

    /// Writes a checked part of the content; why not, if it cannot be. Called by several threads.
    fn write(&self, index: u16, content: &[u8], offset: u64) -> Result<(), String>;

    /// All that was asked for has been written.
    fn complete(&self, index: u16);

    /// It cannot be had. Called once at most, and not after `complete`.
    fn lose(&self, index: u16, reason: &str);
}

/// Fetches copies of a batch that was migrated off `mount_point`: one, or all that are wanted. What
/// the server does not have is neither completed nor lost.
pub(crate) fn recall(
    link: &Link,
    mount_point: &[u8],
    (batch, only): (BatchId, Option<u16>),
    (range, purpose): (Range<u64>, proto::Purpose),
    (progress, filling): (&Arc<Progress>, &dyn Filling),
) -> Result<(), ClientError> {
    let name = only.map(|index| CopyId { batch, index }.name());
    let name = name.map_or_else(Bytes::new, |name| Bytes::copy_from_slice(name.as_bytes()));
    let selection = proto::Selection {
        filespace: space_filespace(mount_point).into(),
        directory: Bytes::copy_from_slice(batch.directory().as_bytes()),
        one_directory: name.is_empty(),
        name,
        from: range.start,
        bytes: if range.end == u64::MAX { 0 } else { range.end - range.start },
        // What was let go of for a time is there still.
        inactive: true,
        ..proto::Selection::default()
    };
    let tally = Tally::new(Arc::clone(progress));
    let mut files = Files { link, filling, range };
    stream_for(link, (selection, Some(purpose)), &mut files, &tally).map(drop)
}

/// Volumes that are being read for a recall, while this is there.
pub struct Staging(JoinHandle<()>);

impl Drop for Staging {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Has the server plan the recall of copies of what was migrated off `mount_point`; then, unless
/// it is only a `preview`, has it read volumes for them until what is returned is dropped.
pub(crate) fn stage(
    link: &Link,
    mount_point: &[u8],
    copies: &[CopyId],
    (preview, purpose): (bool, proto::Purpose),
) -> Result<(proto::RecallPlan, Staging), ClientError> {
    let mut listed = Vec::with_capacity(copies.len() * COPY_BYTES);
    for copy in copies {
        listed.extend(copy.batch.0.to_le_bytes());
        listed.extend(copy.index.to_le_bytes());
    }
    let request = proto::StageRequest {
        filespace: space_filespace(mount_point).into(),
        copies: listed.into(),
        preview,
        purpose: Some(purpose),
    };
    let mut client = link.client();
    let mut replies = link.runtime.block_on(client.stage(request))?.into_inner();
    let ended = || ClientError::new(ErrorKind::Retry, "the server ended the plan early");
    let first = link.runtime.block_on(replies.message())?.ok_or_else(ended)?;
    let Some(proto::stage_reply::Message::Plan(plan)) = first.message else {
        return Err(ClientError::new(ErrorKind::Bug, "no plan"));
    };
    // How far it is, whoever recalls sees by what comes.
    let listening = link
        .runtime
        .spawn(async move { while let Ok(Some(_)) = replies.message().await {} });
    Ok((plan, Staging(listening)))
}

/// Of a copy in a request: its batch and its index there.
const COPY_BYTES: usize = 10;

struct Files<'a> {
    link: &'a Link,
    filling: &'a dyn Filling,
    range: Range<u64>,
}

impl Files<'_> {
    /// The contents of all the pieces, if all of them came lately.
    fn contents(&self, pieces: &[Piece]) -> Option<Vec<Vec<u8>>> {
        let keys = (&self.link.domain_key, &self.link.seal_keys[..]);
        pieces.iter().map(|piece| self.link.kept.content(piece, keys)).collect()
    }

    fn fill(&self, index: u16, pieces: &[Piece], contents: &[Vec<u8>]) {
        for (piece, content) in pieces.iter().zip(contents) {
            if let Err(reason) = self.write(&index, content, piece.offset) {
                return self.filling.lose(index, &reason);
            }
        }
        self.filling.complete(index);
    }
}

impl Destination for Files<'_> {
    /// The index of the copy.
    type File = u16;

    fn take(&mut self, entry: Entry) -> Option<u16> {
        let index = CopyId::index_of(&entry.object.name)?;
        if !self.filling.wants(index) {
            return None;
        }
        match entry.pieces_within(&self.range) {
            None => self.filling.lose(index, "its data is lost or damaged at the server"),
            // Nothing but holes.
            Some(pieces) if pieces.is_empty() => self.filling.complete(index),
            Some(pieces) => match self.contents(&pieces) {
                Some(contents) => self.fill(index, &pieces, &contents),
                None => return Some(index),
            },
        }
        None
    }

    fn write(&self, index: &u16, chunk: &[u8], offset: u64) -> Result<(), String> {
        let from = self.range.start.saturating_sub(offset).min(chunk.len() as u64);
        let to = self.range.end.saturating_sub(offset).min(chunk.len() as u64);
        let within = |at: u64| usize::try_from(at).expect("at most the chunk's length");
        self.filling.write(*index, &chunk[within(from)..within(to)], offset + from)
    }

    fn complete(&self, index: &u16) {
        self.filling.complete(*index);
    }

    fn lose(&self, index: &u16, reason: &str) {
        self.filling.lose(*index, reason);
    }

    fn kept(&self) -> Option<&Kept> {
        Some(&self.link.kept)
    }

    fn range(&self) -> Range<u64> {
        self.range.clone()
    }
}
