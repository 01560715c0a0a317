//! Reports of arrived bytes, by which a client measures the link.

use std::time::{Duration, Instant};

use tokio::sync::mpsc;
use tonic::Status;
use wire::proto;

type Replies = mpsc::Sender<Result<proto::FromServer, Status>>;

/// Minimum interval between two reports.
const INTERVAL: Duration = Duration::from_millis(10);

/// Counter of the bytes in a session's messages.
pub(super) struct Arrivals {
    replies: Replies,
    /// Bytes of the records of quanta.
    bytes: u64,
    message_bytes: u64,
    reported_at: Instant,
    is_reported: bool,
}

impl Arrivals {
    pub(super) fn new(replies: Replies) -> Self {
        let reported_at = sys::clock::monotonic();
        Self { replies, bytes: 0, message_bytes: 0, reported_at, is_reported: true }
    }

    /// Counts a message.
    pub(super) fn add(&mut self, message: &proto::to_server::Message) {
        if let proto::to_server::Message::Quantum(quantum) = message {
            self.bytes += quantum.record.len() as u64;
        }
        self.message_bytes += message.encoded_len() as u64;
        self.is_reported = false;
        if self.reported_at.elapsed() >= INTERVAL {
            self.report();
        }
    }

    /// Waits until a report is due. Waits without end if everything is reported.
    pub(super) async fn due(&self) {
        if self.is_reported {
            return std::future::pending().await;
        }
        tokio::time::sleep(INTERVAL.saturating_sub(self.reported_at.elapsed())).await;
    }

    pub(super) fn report(&mut self) {
        self.reported_at = sys::clock::monotonic();
        let arrived = proto::Arrived { bytes: self.bytes, message_bytes: self.message_bytes };
        let message = Some(proto::from_server::Message::Arrived(arrived));
        // A full channel refuses the report: other replies are more important, and the next report
        // has these bytes too.
        self.is_reported = self.replies.try_send(Ok(proto::FromServer { message })).is_ok();
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use proto::from_server::Message;

    fn quantum(bytes: usize) -> proto::to_server::Message {
        let record = Bytes::from(vec![0; bytes]);
        proto::to_server::Message::Quantum(proto::Quantum { record, ..Default::default() })
    }

    /// Returns the counts of the next report.
    fn report(
        reports: &mut mpsc::Receiver<Result<proto::FromServer, Status>>,
    ) -> Option<proto::Arrived> {
        match reports.try_recv().ok()?.ok()?.message? {
            Message::Arrived(arrived) => Some(arrived),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_late_report_has_all_bytes_and_none_waits() {
        let (replies, mut reports) = mpsc::channel(1);
        let mut arrivals = Arrivals::new(replies);
        arrivals.reported_at += Duration::from_secs(3600);
        arrivals.add(&quantum(5));
        assert_eq!(report(&mut reports), None, "it is too early");
        for bytes in [7, 11, 13] {
            arrivals.reported_at = sys::clock::monotonic() - INTERVAL;
            // The first report fills the channel.
            arrivals.add(&quantum(bytes));
        }
        let first = report(&mut reports).unwrap();
        assert_eq!(first.bytes, 12);
        assert!(first.message_bytes > 12, "messages have more than records: {first:?}");
        assert_eq!(report(&mut reports), None);
        arrivals.reported_at = sys::clock::monotonic() - INTERVAL;
        let commit = proto::to_server::Message::Commit(proto::Commit { number: 1 });
        arrivals.add(&commit);
        let next = report(&mut reports).unwrap();
        assert_eq!(next.bytes, 36);
    }

    #[tokio::test]
    async fn the_last_message_is_reported_without_another_message() {
        let (replies, mut reports) = mpsc::channel(1);
        let mut arrivals = Arrivals::new(replies);
        let pause = Duration::from_millis(1);
        assert!(tokio::time::timeout(pause, arrivals.due()).await.is_err(), "nothing has arrived");
        arrivals.add(&quantum(5));
        if !arrivals.is_reported {
            arrivals.due().await;
            arrivals.report();
        }
        assert_eq!(report(&mut reports).map(|arrived| arrived.bytes), Some(5));
        assert!(arrivals.is_reported);
    }
}
