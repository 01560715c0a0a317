//! Stream of a restore: windows of entries, and the quanta that the client asks for.

use std::time::Duration;

use bytes::Bytes;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Streaming;
use wire::proto;

use super::Link;
use super::stage::Purpose;
use super::versions::{Entry, Selection, decode};
use crate::error::{ClientError, ErrorKind};
use crate::progress::Progress;

/// Maximum number of answers that wait for the network.
const ANSWERS_WAITING: usize = 4;
/// Interval between two checks for a stop while no message arrives. A mount of a volume may take
/// minutes.
const STOP_INTERVAL: Duration = Duration::from_millis(500);

/// Message of the server in a restore.
pub(crate) enum Arrival {
    /// Entries of the newest window.
    Entries(Vec<Entry>),
    /// End of the entries of the window with this number. `is_last` is true if no further window
    /// follows.
    EntriesEnd { window: u64, is_last: bool },
    /// Quantum for the oldest window whose data is not complete.
    Quantum(RestoredQuantum),
    /// Chunks for the same window that the server cannot read.
    Damaged(DamagedChunks),
    /// End of the data of the same window. `is_last` is true if nothing follows.
    DataEnd { is_last: bool },
}

/// Quantum as it lies in its pack.
pub(crate) struct RestoredQuantum {
    /// Code of the place of the quantum's first chunk.
    pub(crate) first_place: u64,
    pub(crate) record: Bytes,
    /// Digests of the quantum's chunks, 32 bytes each.
    pub(crate) digests: Bytes,
}

/// Chunks at consecutive places that cannot be read.
pub(crate) struct DamagedChunks {
    pub(crate) first_place: u64,
    pub(crate) count: u32,
    pub(crate) reason: String,
}

/// Open stream of a restore.
pub(crate) struct RestoreStream<'a> {
    link: &'a Link,
    messages: Streaming<proto::RestoreReply>,
    answers: mpsc::Sender<proto::RestoreRequest>,
}

impl Link {
    /// Starts a restore. A window has at most `directories_max` directories. If data must be read
    /// from volumes, `purpose` decides when the server serves the restore.
    pub(crate) fn restore(
        &self,
        selection: &Selection,
        purpose: Option<Purpose>,
        directories_max: u32,
    ) -> Result<RestoreStream<'_>, ClientError> {
        let (answers, receiver) = mpsc::channel(ANSWERS_WAITING);
        let start = proto::restore_request::Message::Start(selection.message());
        let purpose = purpose.map(Purpose::message);
        let request = proto::RestoreRequest { message: Some(start), purpose, directories_max };
        send(&answers, request)?;
        let mut client = self.client();
        let messages = self
            .runtime
            .block_on(client.restore(ReceiverStream::new(receiver)))?
            .into_inner();
        Ok(RestoreStream { link: self, messages, answers })
    }
}

fn send(
    answers: &mpsc::Sender<proto::RestoreRequest>,
    request: proto::RestoreRequest,
) -> Result<(), ClientError> {
    answers.blocking_send(request).map_err(|_| ClientError::lost())
}

impl RestoreStream<'_> {
    /// Returns the next message. Fails at the end of the stream, and when `progress` is stopped.
    pub(crate) fn next(&mut self, progress: &Progress) -> Result<Arrival, ClientError> {
        let ended = || ClientError::new(ErrorKind::Retry, "the server ended the restore early");
        let message = loop {
            if progress.is_stopped() {
                return Err(ClientError::interrupted());
            }
            let messages = &mut self.messages;
            let message = async { tokio::time::timeout(STOP_INTERVAL, messages.message()).await };
            if let Ok(message) = self.link.runtime.block_on(message) {
                break message;
            }
        };
        let reply = message?.ok_or_else(ended)?;
        parse(reply.message.ok_or_else(|| self.link.unknown_message())?)
    }

    /// Asks for the data of entries of `window`. `bits` has one bit for each entry, in order of
    /// arrival; it is set if the data is wanted.
    pub(crate) fn answer(&mut self, window: u64, bits: Vec<u8>) -> Result<(), ClientError> {
        let wanted = proto::Wanted { window, bits: bits.into() };
        let message = Some(proto::restore_request::Message::Wanted(wanted));
        let request = proto::RestoreRequest { message, ..Default::default() };
        send(&self.answers, request).map_err(|lost| self.reason().unwrap_or(lost))
    }

    /// Reads a stream that takes no more messages to its end, and returns the reason that the
    /// server has given there.
    fn reason(&mut self) -> Option<ClientError> {
        self.link.runtime.block_on(async {
            loop {
                match self.messages.message().await {
                    Ok(Some(_)) => {}
                    Ok(None) => return None,
                    Err(status) => return Some(status.into()),
                }
            }
        })
    }
}

fn parse(message: proto::restore_reply::Message) -> Result<Arrival, ClientError> {
    use proto::restore_reply::Message;
    Ok(match message {
        Message::Entries(entries) => {
            Arrival::Entries(decode(&entries)?.into_iter().flatten().collect())
        }
        Message::EntriesEnd(end) => Arrival::EntriesEnd { window: end.window, is_last: end.last },
        Message::Quantum(quantum) => {
            let proto::RestoredQuantum { first_place, record, digests } = quantum;
            Arrival::Quantum(RestoredQuantum { first_place, record, digests })
        }
        Message::Damaged(damaged) => {
            let proto::DamagedQuantum { first_place, chunk_count: count, reason } = damaged;
            Arrival::Damaged(DamagedChunks { first_place, count, reason })
        }
        Message::DataEnd(end) => Arrival::DataEnd { is_last: end.last },
    })
}
