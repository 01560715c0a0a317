//! What keeper and worker say to each other: questions with their files one way, answers the other.

use std::io;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd, RawFd};

use rustix::io::Errno;
use sys::fanotify::{Access, Answer, Question};

const QUESTION_BYTES: usize = 25;
const ANSWER_BYTES: usize = 8;

/// One end.
#[derive(Debug)]
pub(crate) struct Relay {
    socket: OwnedFd,
}

impl Relay {
    pub(crate) fn pair() -> io::Result<(Self, Self)> {
        let (one, other) = sys::net::packet_pair()?;
        Ok((Self { socket: one }, Self { socket: other }))
    }

    pub(crate) fn inherited(socket: OwnedFd) -> Self {
        Self { socket }
    }

    /// Hands over a question about `file`; fails with `WouldBlock` while the worker has too many.
    pub(crate) fn ask(&self, file: BorrowedFd<'_>, asked: &Asked) -> io::Result<()> {
        sys::net::send_packet(&self.socket, &asked.encode(), Some(file), false)
    }

    /// Waits for the next question; `None` once the other end is gone.
    pub(crate) fn next_question(&self) -> io::Result<Option<Question>> {
        let mut buffer = [0; QUESTION_BYTES];
        let received = sys::net::receive_packet(&self.socket, &mut buffer, true)?;
        let Some((bytes, file)) = received else {
            return Ok(None);
        };
        let asked = Asked::decode(&buffer[..bytes]);
        let whole = file.zip(asked).ok_or(io::ErrorKind::InvalidData)?;
        let (file, Asked { number, pid, access }) = whole;
        Ok(Some(Question { file, number, pid, access }))
    }

    pub(crate) fn answer(&self, number: RawFd, answer: Answer) -> io::Result<()> {
        let code = match answer {
            Answer::Go => 0,
            Answer::Fail(errno) => errno.raw_os_error(),
        };
        let message: [u8; ANSWER_BYTES] = [number.to_le_bytes(), code.to_le_bytes()]
            .concat()
            .try_into()
            .expect("two numbers");
        sys::net::send_packet(&self.socket, &message, None, true)
    }

    /// The next answer; `None` once the other end is gone. Fails with `WouldBlock` while there is
    /// none.
    pub(crate) fn next_answer(&self) -> io::Result<Option<(RawFd, Answer)>> {
        let mut buffer = [0; ANSWER_BYTES];
        let received = sys::net::receive_packet(&self.socket, &mut buffer, false)?;
        let Some((bytes, _)) = received else {
            return Ok(None);
        };
        if bytes != ANSWER_BYTES {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let (number, code) = buffer.split_at(4);
        let number = i32::from_le_bytes(number.try_into().expect("split at its length"));
        let code = i32::from_le_bytes(code.try_into().expect("the rest"));
        let answer =
            if code == 0 { Answer::Go } else { Answer::Fail(Errno::from_raw_os_error(code)) };
        Ok(Some((number, answer)))
    }

    pub(crate) fn number(&self) -> RawFd {
        self.socket.as_raw_fd()
    }
}

impl AsFd for Relay {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// A question without its file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Asked {
    pub(crate) number: RawFd,
    pub(crate) pid: u32,
    pub(crate) access: Access,
}

impl Asked {
    fn encode(&self) -> [u8; QUESTION_BYTES] {
        let (kind, range) = match &self.access {
            Access::Open => (0, 0..0),
            Access::Content(range) => (1, range.clone()),
        };
        let mut message = [0; QUESTION_BYTES];
        message[0] = kind;
        message[1..5].copy_from_slice(&self.number.to_le_bytes());
        message[5..9].copy_from_slice(&self.pid.to_le_bytes());
        message[9..17].copy_from_slice(&range.start.to_le_bytes());
        message[17..].copy_from_slice(&range.end.to_le_bytes());
        message
    }

    fn decode(message: &[u8]) -> Option<Self> {
        let message = <[u8; QUESTION_BYTES]>::try_from(message).ok()?;
        let word = |at: usize| u64::from_le_bytes(message[at..at + 8].try_into().expect("eight"));
        let half = |at: usize| u32::from_le_bytes(message[at..at + 4].try_into().expect("four"));
        let access =
            if message[0] == 0 { Access::Open } else { Access::Content(word(9)..word(17)) };
        Some(Self { number: half(1).cast_signed(), pid: half(5), access })
    }

    /// As a word of a command line.
    pub(crate) fn written(&self) -> String {
        let Self { number, pid, access } = self;
        match access {
            Access::Open => format!("{number}:{pid}"),
            Access::Content(range) => format!("{number}:{pid}:{}:{}", range.start, range.end),
        }
    }

    pub(crate) fn parse(word: &str) -> Option<Self> {
        let parts: Option<Vec<u64>> = word.split(':').map(|part| part.parse().ok()).collect();
        let (number, pid, access) = match parts?[..] {
            [number, pid] => (number, pid, Access::Open),
            [number, pid, start, end] => (number, pid, Access::Content(start..end)),
            _ => return None,
        };
        let number = i32::try_from(number).ok()?;
        Some(Self { number, pid: u32::try_from(pid).ok()?, access })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_and_answers_arrive() {
        let (keeper, worker) = Relay::pair().expect("a pair");
        let file = tempfile::tempfile().expect("a file");
        let asked = Asked { number: 9, pid: 77, access: Access::Content(5..u64::MAX) };
        keeper.ask(file.as_fd(), &asked).expect("sent");
        let question = worker.next_question().expect("read").expect("one");
        assert_eq!((question.number, question.pid, question.access), (9, 77, asked.access));
        worker.answer(9, Answer::Fail(Errno::IO)).expect("sent");
        worker.answer(9, Answer::Go).expect("sent");
        let next = || keeper.next_answer().expect("read");
        assert_eq!(next(), Some((9, Answer::Fail(Errno::IO))));
        assert_eq!(next(), Some((9, Answer::Go)));
        drop(worker);
        assert_eq!(keeper.next_answer().expect("read"), None);
    }

    #[test]
    fn questions_survive_a_command_line() {
        for access in [Access::Open, Access::Content(4096..8192)] {
            let asked = Asked { number: 12, pid: 1, access };
            assert_eq!(Asked::parse(&asked.written()), Some(asked));
        }
        assert_eq!(Asked::parse("1:2:3"), None);
    }
}
