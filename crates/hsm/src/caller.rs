//! The user at the other end of a control connection.

use std::io::Write as _;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use crate::control::{FileOutcome, PathText, Reply};
use crate::outcome::Outcome;
use crate::requester::Requester;

/// Sends replies to one user, and notices when the user has disconnected.
pub(crate) struct Caller {
    socket: UnixStream,
    pub(crate) requester: Requester,
    is_gone: AtomicBool,
}

impl Caller {
    pub(crate) fn new(socket: UnixStream, requester: Requester) -> Self {
        Self { socket, requester, is_gone: AtomicBool::new(false) }
    }

    pub(crate) fn send(&self, reply: &Reply) {
        let text = serde_json::to_string(reply).expect("a reply is a document");
        if (&self.socket).write_all(format!("{text}\n").as_bytes()).is_err() {
            self.is_gone.store(true, Relaxed);
        }
    }

    /// Sends the outcome of one file.
    pub(crate) fn send_file(&self, path: &[u8], outcome: Outcome) {
        let (state, bytes, error) = match outcome {
            Ok(settled) => (Some(settled.state.letter().to_owned()), settled.bytes, None),
            Err(error) => (None, 0, Some(error.to_string())),
        };
        let path = PathText(path.to_vec());
        self.send(&Reply::File(FileOutcome { path, state, bytes, error }));
    }

    /// False once the user has closed the connection.
    pub(crate) fn listens(&self) -> bool {
        if !self.is_gone.load(Relaxed) && sys::net::is_closed(&self.socket) {
            self.is_gone.store(true, Relaxed);
        }
        !self.is_gone.load(Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead as _, BufReader};

    use super::*;
    use crate::outcome::{FileError, FinalState};
    use crate::record::FileState;

    #[test]
    fn outcomes_arrive_one_a_line_until_the_user_has_gone() {
        let (ours, theirs) = UnixStream::pair().expect("a pair");
        let caller = Caller::new(ours, Requester::default());
        let settled = FinalState { state: FileState::Migrated, bytes: 5 };
        caller.send_file(b"/a\xff", Ok(settled));
        caller.send_file(b"/b", Err(FileError::InUse));
        let mut lines = BufReader::new(theirs).lines();
        let mut next = || lines.next().expect("a line").expect("read");
        assert_eq!(next(), r#"{"tell":"file","path":"/a%ff","state":"m","bytes":5,"error":null}"#);
        let second: Reply = serde_json::from_str(&next()).expect("a reply");
        let Reply::File(outcome) = second else { panic!("{second:?}") };
        assert_eq!((outcome.state, outcome.bytes), (None, 0));
        assert_eq!(outcome.error.as_deref(), Some("somebody has it open"));
        assert!(caller.listens());
        drop(lines);
        assert!(!caller.listens());
        caller.send(&Reply::Done);
        assert!(!caller.listens());
    }
}
