//! What has arrived, told now and then: by it a client finds out what the link carries.

use std::time::{Duration, Instant};

use wire::proto;

use super::Replies;

/// It is told no more often than this.
const TELLING: Duration = Duration::from_millis(10);

/// Counts the bytes of a session's quanta.
pub(super) struct Arrivals {
    replies: Replies,
    bytes: u64,
    told_at: Instant,
}

impl Arrivals {
    pub(super) fn new(replies: Replies) -> Self {
        Self { replies, bytes: 0, told_at: sys::clock::monotonic() }
    }

    /// A quantum with a record of so many bytes has arrived.
    pub(super) fn add(&mut self, bytes: usize) {
        self.bytes += bytes as u64;
        if self.told_at.elapsed() < TELLING {
            return;
        }
        self.told_at = sys::clock::monotonic();
        let arrived = proto::Arrived { bytes: self.bytes };
        let message = Some(proto::from_server::Message::Arrived(arrived));
        // Where more important replies wait there is another time.
        drop(self.replies.try_send(Ok(proto::FromServer { message })));
    }
}

#[cfg(test)]
mod tests {
    use proto::from_server::Message;
    use tokio::sync::mpsc;

    use super::*;

    #[test]
    fn all_is_told_later_and_nobody_is_waited_for() {
        let (replies, mut told) = mpsc::channel(1);
        let mut arrivals = Arrivals::new(replies);
        arrivals.told_at += Duration::from_secs(3600);
        arrivals.add(5);
        assert!(told.try_recv().is_err(), "it is too early");
        for bytes in [7, 11, 13] {
            arrivals.told_at = sys::clock::monotonic() - TELLING;
            // The first one takes all the room that there is.
            arrivals.add(bytes);
        }
        let first = told.try_recv().unwrap().unwrap().message.unwrap();
        assert_eq!(first, Message::Arrived(proto::Arrived { bytes: 12 }));
        assert!(told.try_recv().is_err());
        arrivals.told_at = sys::clock::monotonic() - TELLING;
        arrivals.add(17);
        let next = told.try_recv().unwrap().unwrap().message.unwrap();
        assert_eq!(next, Message::Arrived(proto::Arrived { bytes: 53 }));
    }
}
