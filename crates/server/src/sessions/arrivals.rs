//! Reports of arrived bytes, by which a client measures the link.

use std::time::{Duration, Instant};

use tokio::sync::mpsc;
use tonic::Status;
use wire::proto;

type Replies = mpsc::Sender<Result<proto::FromServer, Status>>;

/// Minimum interval between two reports.
const INTERVAL: Duration = Duration::from_millis(10);

/// Counter of the bytes in a session's quanta.
pub(super) struct Arrivals {
    replies: Replies,
    bytes: u64,
    reported_at: Instant,
}

impl Arrivals {
    pub(super) fn new(replies: Replies) -> Self {
        Self { replies, bytes: 0, reported_at: sys::clock::monotonic() }
    }

    /// Counts the bytes of a quantum's record.
    pub(super) fn add(&mut self, bytes: usize) {
        self.bytes += bytes as u64;
        if self.reported_at.elapsed() < INTERVAL {
            return;
        }
        self.reported_at = sys::clock::monotonic();
        let arrived = proto::Arrived { bytes: self.bytes };
        let message = Some(proto::from_server::Message::Arrived(arrived));
        // A full channel drops the report: other replies are more important, and the next report
        // has these bytes too.
        drop(self.replies.try_send(Ok(proto::FromServer { message })));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proto::from_server::Message;

    #[test]
    fn a_late_report_has_all_bytes_and_none_waits() {
        let (replies, mut reports) = mpsc::channel(1);
        let mut arrivals = Arrivals::new(replies);
        arrivals.reported_at += Duration::from_secs(3600);
        arrivals.add(5);
        assert!(reports.try_recv().is_err(), "it is too early");
        for bytes in [7, 11, 13] {
            arrivals.reported_at = sys::clock::monotonic() - INTERVAL;
            // The first report fills the channel.
            arrivals.add(bytes);
        }
        let first = reports.try_recv().unwrap().unwrap().message.unwrap();
        assert_eq!(first, Message::Arrived(proto::Arrived { bytes: 12 }));
        assert!(reports.try_recv().is_err());
        arrivals.reported_at = sys::clock::monotonic() - INTERVAL;
        arrivals.add(17);
        let next = reports.try_recv().unwrap().unwrap().message.unwrap();
        assert_eq!(next, Message::Arrived(proto::Arrived { bytes: 53 }));
    }
}
