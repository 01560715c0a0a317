//! Stream of a restore: windows of entries, and the quanta that the client asks for.

use std::time::Duration;

use bytes::Bytes;
use format::quantum::RECORD_BYTES_MAX;
use model::QUANTUM_BYTES_MAX;
use tokio::sync::{mpsc, oneshot};
use tokio_stream::StreamExt as _;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Streaming;
use wire::proto;

use super::Link;
use super::stage::Purpose;
use super::versions::{Entries, Selection, decode};
use crate::error::{ClientError, ErrorKind, shortened};
use crate::progress::Progress;

/// Maximum number of answers that wait for the network.
const ANSWERS_WAITING: usize = 4;
/// Interval between two checks for a stop while no message arrives. A mount of a volume may take
/// minutes.
const STOP_INTERVAL: Duration = Duration::from_millis(500);

/// Time that the server has to end a stream after its last message.
const END_MAX: Duration = Duration::from_secs(1);

/// Maximum number of bytes in the digests of a quantum. A quantum may have one chunk for each of
/// its bytes, but a message has no room for that many digests.
const DIGESTS_BYTES_MAX: usize = 32 * (QUANTUM_BYTES_MAX / 4);

/// Message of the server in a restore.
pub(crate) enum Arrival {
    /// Entries of the newest window.
    Entries(Entries),
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
    /// Code of the place of the quantum's first chunk. All chunks have places.
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
    selection: Selection,
    messages: Streaming<proto::RestoreReply>,
    answers: mpsc::Sender<proto::RestoreRequest>,
    /// Ends when the end of the answers was sent.
    answers_end: oneshot::Receiver<()>,
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
        let start = proto::restore_request::Message::Start(selection.message(&self.reading));
        let purpose = purpose.map(Purpose::message);
        let request = proto::RestoreRequest { message: Some(start), purpose, directories_max };
        send(&answers, request)?;
        let mut client = self.client();
        let (is_open, answers_end) = oneshot::channel();
        // The stream of answers is dropped, and `is_open` with it, after its end was sent.
        let sent = ReceiverStream::new(receiver).map(move |answer| {
            let _: &oneshot::Sender<()> = &is_open;
            answer
        });
        let messages = self.runtime.block_on(client.restore(sent))?.into_inner();
        let selection = selection.clone();
        Ok(RestoreStream { link: self, selection, messages, answers, answers_end })
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
            progress.hold();
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
        let message = reply.message.ok_or_else(|| self.link.unknown_message())?;
        parse(message, &self.selection)
    }

    /// Asks for the data of entries of `window`. `bits` has one bit for each entry, in order of
    /// arrival; it is set if the data is wanted.
    pub(crate) fn answer(&mut self, window: u64, bits: Vec<u8>) -> Result<(), ClientError> {
        let wanted = proto::Wanted { window, bits: bits.into() };
        let message = Some(proto::restore_request::Message::Wanted(wanted));
        let request = proto::RestoreRequest { message, ..Default::default() };
        send(&self.answers, request).map_err(|lost| self.reason().unwrap_or(lost))
    }

    /// Ends the stream on both sides after its last message.
    ///
    /// A stream that is dropped earlier is reset, and the server's last frames then come for a
    /// stream that is no more. HTTP/2 closes a connection with many such frames.
    pub(crate) fn finish(self) {
        let Self { link, mut messages, answers, answers_end, .. } = self;
        drop(answers);
        let both = async {
            drop(answers_end.await);
            messages.message().await
        };
        let end = async { tokio::time::timeout(END_MAX, both).await };
        // All data has arrived, so an error at the end changes nothing.
        drop(link.runtime.block_on(end));
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

fn parse(
    message: proto::restore_reply::Message,
    selection: &Selection,
) -> Result<Arrival, ClientError> {
    use proto::restore_reply::Message;
    Ok(match message {
        Message::Entries(entries) => Arrival::Entries(decode(&entries, selection)?),
        Message::EntriesEnd(end) => Arrival::EntriesEnd { window: end.window, is_last: end.last },
        Message::Quantum(quantum) => Arrival::Quantum(quantum_of(quantum)?),
        Message::Damaged(damaged) => {
            let proto::DamagedQuantum { first_place, chunk_count: count, reason } = damaged;
            Arrival::Damaged(DamagedChunks { first_place, count, reason: shortened(reason) })
        }
        Message::DataEnd(end) => Arrival::DataEnd { is_last: end.last },
    })
}

/// Parses a quantum. It is bounded before it waits for a thread.
fn quantum_of(message: proto::RestoredQuantum) -> Result<RestoredQuantum, ClientError> {
    let proto::RestoredQuantum { first_place, record, digests } = message;
    let impossible = |what: &str| {
        let message = format!("the server sent a quantum that cannot be: {what}");
        ClientError::new(ErrorKind::Damaged, message)
    };
    if record.len() > RECORD_BYTES_MAX {
        return Err(impossible("its record is too long"));
    }
    if digests.len() > DIGESTS_BYTES_MAX {
        return Err(impossible("it has too many digests"));
    }
    if first_place.checked_add(digests.len() as u64).is_none() {
        return Err(impossible("its chunks lie beyond the last place"));
    }
    Ok(RestoredQuantum { first_place, record, digests })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(first_place: u64, record: usize, digests: usize, expected: Result<(), &str>) {
        let (record, digests) = (vec![0; record].into(), vec![0; digests].into());
        let message = proto::RestoredQuantum { first_place, record, digests };
        let parsed = quantum_of(message).map(|_| ()).map_err(|error| error.message);
        match expected {
            Ok(()) => assert_eq!(parsed, Ok(())),
            Err(part) => assert!(parsed.is_err_and(|message| message.contains(part))),
        }
    }

    #[test]
    fn a_quantum_that_cannot_be_is_refused() {
        check(1, RECORD_BYTES_MAX, 64, Ok(()));
        check(1, RECORD_BYTES_MAX + 1, 64, Err("too long"));
        check(1, 10, DIGESTS_BYTES_MAX + 1, Err("too many digests"));
        check(u64::MAX, 10, 32, Err("beyond the last place"));
        check(u64::MAX, 10, 0, Ok(()));
    }

    #[test]
    fn the_reason_of_damage_is_short() {
        let reason = "x".repeat(1 << 20);
        let damaged =
            proto::DamagedQuantum { first_place: u64::MAX, chunk_count: u32::MAX, reason };
        let message = proto::restore_reply::Message::Damaged(damaged);
        let arrival = parse(message, &Selection::of_filespace(b"/")).ok();
        let Some(Arrival::Damaged(damaged)) = arrival else { panic!("a report of damage") };
        assert!(damaged.reason.len() < 10_000);
    }
}
