//! The client of a recall.

use store::StoreError;
use store::selection::{RecallListener, RecallMessage};
use wire::proto;

use super::stream::Replies;
use crate::gate::CallRight;
use crate::messages::recall;

/// The client at the other end of the stream.
pub(super) struct Client<'a> {
    pub(super) replies: &'a Replies<proto::StageReply>,
    /// Holds the memory of the order until the plan is sent.
    pub(super) right: CallRight,
    /// Reason why a message could not be sent.
    pub(super) failure: Option<StoreError>,
}

impl RecallListener for Client<'_> {
    fn send(&mut self, message: RecallMessage) -> bool {
        let reply = proto::StageReply { message: Some(recall::message(message)) };
        self.failure = self.replies.blocking_send(Ok(reply)).err();
        // The plan comes first. After it the order is not needed any more.
        self.right.forget_messages();
        self.failure.is_none()
    }

    fn is_listening(&self) -> bool {
        !self.replies.is_closed()
    }
}
