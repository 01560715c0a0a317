//! One request and its reply.

use std::time::Duration;

use crate::assembly::Assembly;
use crate::connection::{Connection, Patience};
use crate::error::{Command, NbdError};
use crate::message::{ChunkKind, ERROR_BYTES_MAX, ErrorChunk, ReplyStart, Request};
use crate::status::StatusLists;

/// Maximum number of chunks of a reply, apart from the pieces of a read.
const CHUNKS_MAX: u32 = 64;
/// Minimum length to which a server cuts the pieces of a read, on average.
const PIECE_BYTES_MIN: u32 = 512;
/// Length of the offset before the data of a chunk.
const OFFSET_BYTES: u32 = 8;
/// Length of the payload of a hole.
const HOLE_BYTES: u32 = 12;
/// Time for the farewell, which no reply follows.
const FAREWELL: Duration = Duration::from_secs(1);

/// Place where the content of a reply goes.
#[derive(Debug)]
pub(crate) enum Content<'a> {
    /// Such a reply says only whether the command succeeded.
    Nothing,
    Read(Assembly<'a>),
    Statuses(StatusLists<'a>),
}

/// Connection after the handshake.
#[derive(Debug)]
pub(crate) struct Channel {
    connection: Connection,
    patience: Patience,
    is_structured: bool,
    cookie: u64,
    /// True after an error after which nobody knows where the next message begins.
    is_broken: bool,
}

impl Channel {
    pub(crate) fn new(connection: Connection, patience: Patience, is_structured: bool) -> Self {
        Self { connection, patience, is_structured, cookie: 0, is_broken: false }
    }

    /// Sends a request for `bytes` bytes at `offset`, with the data of a write, and puts the
    /// content of the reply into `content`. The content is meaningless after an error.
    pub(crate) fn perform(
        &mut self,
        command: Command,
        offset: u64,
        bytes: u32,
        data: &[u8],
        content: &mut Content<'_>,
    ) -> Result<(), NbdError> {
        assert!(data.is_empty() || data.len() == bytes as usize, "the data of a write are whole");
        if self.is_broken {
            return Err(NbdError::lost(std::io::ErrorKind::NotConnected));
        }
        self.cookie = self.cookie.wrapping_add(1);
        let request = Request { command, cookie: self.cookie, offset, bytes };
        let work_bytes = match command {
            Command::Read | Command::Write | Command::WriteZeroes => u64::from(bytes),
            Command::Flush | Command::BlockStatus => 0,
        };
        self.connection.allow(self.patience.reply, work_bytes);
        let outcome = self.exchange(request, data, content);
        self.is_broken = outcome.as_ref().is_err_and(NbdError::ends_connection);
        outcome
    }

    fn exchange(
        &mut self,
        request: Request,
        data: &[u8],
        content: &mut Content<'_>,
    ) -> Result<(), NbdError> {
        self.connection.send(&request.encode())?;
        self.connection.send(data)?;
        let pieces_max = match request.command {
            Command::Read => request.bytes / PIECE_BYTES_MIN,
            _ => 0,
        };
        let mut failure = None;
        for _ in 0..CHUNKS_MAX + pieces_max {
            let start = ReplyStart::parse(&self.connection.receive_array()?)?;
            if start.cookie() != request.cookie {
                return Err(NbdError::protocol("a reply is for another request"));
            }
            let is_last = match start {
                ReplyStart::Simple { fault: Some(fault), .. } => {
                    let chunk = ErrorChunk { fault, message: String::new(), offset: None };
                    failure.get_or_insert(failed(request, chunk)?);
                    true
                }
                ReplyStart::Simple { fault: None, .. } => {
                    self.receive_simple(request, content)?;
                    true
                }
                ReplyStart::Chunk { kind, is_last, .. } => {
                    let error = self.receive_chunk(kind, is_last, request, content)?;
                    failure = failure.or(error);
                    is_last
                }
            };
            if is_last {
                return failure.map_or_else(|| whole(content), Err);
            }
        }
        Err(NbdError::protocol("a reply has too many chunks"))
    }

    /// Receives the rest of a simple reply.
    fn receive_simple(
        &mut self,
        request: Request,
        content: &mut Content<'_>,
    ) -> Result<(), NbdError> {
        match content {
            Content::Nothing => Ok(()),
            Content::Read(assembly) if !self.is_structured => {
                let room = assembly.room(request.offset, request.bytes as usize)?;
                self.connection.receive(room)
            }
            Content::Read(_) | Content::Statuses(_) => {
                Err(NbdError::protocol("a reply with content has no chunks"))
            }
        }
    }

    /// Receives the rest of a chunk. Returns the error that an error chunk reports.
    fn receive_chunk(
        &mut self,
        kind: ChunkKind,
        is_last: bool,
        request: Request,
        content: &mut Content<'_>,
    ) -> Result<Option<NbdError>, NbdError> {
        if !self.is_structured {
            return Err(NbdError::protocol("a reply has chunks, which nobody agreed to"));
        }
        let bytes = u32::from_be_bytes(self.connection.receive_array()?);
        match (kind, content) {
            (ChunkKind::None, _) if bytes == 0 && is_last => Ok(None),
            (ChunkKind::Data, Content::Read(assembly)) if bytes > OFFSET_BYTES => {
                let offset = u64::from_be_bytes(self.connection.receive_array()?);
                let room = assembly.room(offset, (bytes - OFFSET_BYTES) as usize)?;
                self.connection.receive(room)?;
                Ok(None)
            }
            (ChunkKind::Hole, Content::Read(assembly)) if bytes == HOLE_BYTES => {
                let offset = u64::from_be_bytes(self.connection.receive_array()?);
                let hole_bytes = u32::from_be_bytes(self.connection.receive_array()?);
                assembly.room(offset, hole_bytes as usize)?.fill(0);
                Ok(None)
            }
            (ChunkKind::BlockStatus, Content::Statuses(lists)) if StatusLists::may_have(bytes) => {
                let payload = self.connection.receive_vec(bytes as usize)?;
                lists.add(&payload)?;
                Ok(None)
            }
            (ChunkKind::Error | ChunkKind::ErrorOffset | ChunkKind::OtherError, _)
                if bytes <= ERROR_BYTES_MAX =>
            {
                let payload = self.connection.receive_vec(bytes as usize)?;
                failed(request, ErrorChunk::parse(kind, &payload)?).map(Some)
            }
            _ => Err(NbdError::protocol("a chunk has a wrong length or a wrong place")),
        }
    }
}

impl Drop for Channel {
    fn drop(&mut self) {
        if !self.is_broken {
            self.connection.allow(FAREWELL, 0);
            // A server that does not read any more notices the end of the connection.
            drop(self.connection.send(&Request::disconnect()));
        }
    }
}

/// Returns the failure of `request` that the server reports.
fn failed(request: Request, chunk: ErrorChunk) -> Result<NbdError, NbdError> {
    let end = request.offset.saturating_add(u64::from(request.bytes));
    let offset = chunk.offset.unwrap_or(request.offset);
    if offset != request.offset && !(request.offset..end).contains(&offset) {
        return Err(NbdError::protocol("an error is outside the request"));
    }
    let ErrorChunk { fault, message, .. } = chunk;
    Ok(NbdError::Failed { command: request.command, offset, fault, message })
}

/// Fails if a read that succeeded has not brought each byte.
fn whole(content: &Content<'_>) -> Result<(), NbdError> {
    match content {
        Content::Read(assembly) if !assembly.is_whole() => {
            Err(NbdError::protocol("a part of a read has not come"))
        }
        _ => Ok(()),
    }
}
