//! The client of a recall.

use store::selection::{RecallListener, RecallMessage};
use wire::proto;

use super::stream::Replies;
use crate::messages::recall;

/// The client at the other end of the stream.
pub(super) struct Client<'a> {
    pub(super) replies: &'a Replies<proto::StageReply>,
}

impl RecallListener for Client<'_> {
    fn send(&mut self, message: RecallMessage) -> bool {
        let reply = proto::StageReply { message: Some(recall::message(message)) };
        self.replies.blocking_send(Ok(reply)).is_ok()
    }

    fn is_listening(&self) -> bool {
        !self.replies.is_closed()
    }
}
