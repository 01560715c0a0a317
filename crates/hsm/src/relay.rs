//! The channel of keeper and worker: questions with their files to the worker, answers to the
//! keeper.

use std::io;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd, RawFd};

use rustix::io::Errno;
use sys::fanotify::{Access, Answer, Question};

const QUESTION_BYTES: usize = 25;
const ANSWER_BYTES: usize = 8;

/// Number of the message by which a worker announces itself. No question has it.
const READY_NUMBER: RawFd = -1;

/// Message of the worker.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum WorkerMessage {
    /// The answer to the question with this number.
    Answer(RawFd, Answer),
    /// The worker carries out requests from now on.
    Ready,
}

/// One end of the channel.
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

    /// Sends a question about `file`. Fails with `WouldBlock` while the worker has too many
    /// questions.
    pub(crate) fn ask(&self, file: BorrowedFd<'_>, inquiry: &Inquiry) -> io::Result<()> {
        sys::net::send_packet(&self.socket, &inquiry.encode(), Some(file), false)
    }

    /// Waits for the next question; `None` once the keeper has ended.
    pub(crate) fn next_question(&self) -> io::Result<Option<Question>> {
        let mut buffer = [0; QUESTION_BYTES];
        let received = sys::net::receive_packet(&self.socket, &mut buffer, true)?;
        let Some((bytes, file)) = received else {
            return Ok(None);
        };
        let inquiry = Inquiry::decode(&buffer[..bytes]);
        let whole = file.zip(inquiry).ok_or(io::ErrorKind::InvalidData)?;
        let (file, Inquiry { number, pid, access }) = whole;
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

    /// Tells the keeper that the worker carries out requests from now on.
    pub(crate) fn announce(&self) -> io::Result<()> {
        self.answer(READY_NUMBER, Answer::Go)
    }

    /// The next message of the worker; `None` once the worker has ended. Fails with `WouldBlock`
    /// while no message is available.
    pub(crate) fn next_message(&self) -> io::Result<Option<WorkerMessage>> {
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
        if number == READY_NUMBER {
            return Ok(Some(WorkerMessage::Ready));
        }
        let answer =
            if code == 0 { Answer::Go } else { Answer::Fail(Errno::from_raw_os_error(code)) };
        Ok(Some(WorkerMessage::Answer(number, answer)))
    }

    #[cfg(test)]
    pub(crate) fn into_fd(self) -> OwnedFd {
        self.socket
    }
}

impl AsFd for Relay {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// A question without its file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Inquiry {
    pub(crate) number: RawFd,
    pub(crate) pid: u32,
    pub(crate) access: Access,
}

impl Inquiry {
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
        debug_assert_eq!(Self::decode(&message).as_ref(), Some(self), "the worker reads the same");
        message
    }

    fn decode(message: &[u8]) -> Option<Self> {
        let message = <[u8; QUESTION_BYTES]>::try_from(message).ok()?;
        let word = |at: usize| u64::from_le_bytes(message[at..at + 8].try_into().expect("eight"));
        let half = |at: usize| u32::from_le_bytes(message[at..at + 4].try_into().expect("four"));
        let access = match message[0] {
            0 => Access::Open,
            1 => Access::Content(word(9)..word(17)),
            _ => return None,
        };
        Some(Self { number: half(1).cast_signed(), pid: half(5), access })
    }

    /// The question as a word of a command line.
    fn word(&self) -> String {
        let Self { number, pid, access } = self;
        match access {
            Access::Open => format!("{number}:{pid}"),
            Access::Content(range) => format!("{number}:{pid}:{}:{}", range.start, range.end),
        }
    }

    fn parse(word: &str) -> Option<Self> {
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

/// A waiting question that a worker passes on when it becomes the keeper: a word of the command
/// line, and the descriptor of its file, which the next program inherits.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OpenQuestion {
    inquiry: Inquiry,
    file: RawFd,
}

impl OpenQuestion {
    pub(crate) fn new(inquiry: &Inquiry, file: BorrowedFd<'_>) -> Self {
        Self { inquiry: inquiry.clone(), file: file.as_raw_fd() }
    }

    /// The number of the file's descriptor.
    pub fn file(&self) -> RawFd {
        self.file
    }

    /// The question and the number of the descriptor, in the form that [`Self::parse`] reads.
    pub fn word(&self) -> String {
        format!("{}@{}", self.inquiry.word(), self.file)
    }

    fn parse(word: &str) -> Option<Self> {
        let (inquiry, file) = word.split_once('@')?;
        Some(Self { inquiry: Inquiry::parse(inquiry)?, file: file.parse().ok()? })
    }

    /// Takes the question over from the command line; `None` if its file was not inherited.
    pub(crate) fn inherit(word: &str) -> Option<(Inquiry, OwnedFd)> {
        let Self { inquiry, file } = Self::parse(word)?;
        Some((inquiry, sys::process::inherited(file).ok()?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_and_answers_arrive() {
        let (keeper, worker) = Relay::pair().expect("a pair");
        let file = tempfile::tempfile().expect("a file");
        let inquiry = Inquiry { number: 9, pid: 77, access: Access::Content(5..u64::MAX) };
        keeper.ask(file.as_fd(), &inquiry).expect("sent");
        let question = worker.next_question().expect("read").expect("one");
        assert_eq!((question.number, question.pid, question.access), (9, 77, inquiry.access));
        worker.answer(9, Answer::Fail(Errno::IO)).expect("sent");
        worker.announce().expect("sent");
        worker.answer(9, Answer::Go).expect("sent");
        let next = || keeper.next_message().expect("read");
        assert_eq!(next(), Some(WorkerMessage::Answer(9, Answer::Fail(Errno::IO))));
        assert_eq!(next(), Some(WorkerMessage::Ready));
        assert_eq!(next(), Some(WorkerMessage::Answer(9, Answer::Go)));
        drop(worker);
        assert_eq!(keeper.next_message().expect("read"), None);
    }

    #[test]
    fn a_worker_that_reads_nothing_does_not_stop_the_keeper() {
        let (keeper, worker) = Relay::pair().expect("a pair");
        let file = tempfile::tempfile().expect("a file");
        let inquiry = Inquiry { number: 1, pid: 2, access: Access::Open };
        let full = loop {
            if let Err(error) = keeper.ask(file.as_fd(), &inquiry) {
                break error;
            }
        };
        assert_eq!(full.kind(), io::ErrorKind::WouldBlock);
        assert_eq!(keeper.next_message().expect_err("none").kind(), io::ErrorKind::WouldBlock);
        drop(keeper);
        while let Some(question) = worker.next_question().expect("read") {
            assert_eq!(question.number, 1);
        }
    }

    #[test]
    fn messages_that_mean_nothing_are_refused() {
        let whole = Inquiry { number: 9, pid: 77, access: Access::Open }.encode();
        assert!(Inquiry::decode(&whole).is_some());
        assert_eq!(Inquiry::decode(&whole[..24]), None);
        let mut other = whole;
        other[0] = 2;
        assert_eq!(Inquiry::decode(&other), None);
        let (keeper, worker) = Relay::pair().expect("a pair");
        sys::net::send_packet(&worker, b"short", None, true).expect("sent");
        assert_eq!(keeper.next_message().expect_err("short").kind(), io::ErrorKind::InvalidData);
        sys::net::send_packet(&keeper, &whole, None, true).expect("sent");
        let error = worker.next_question().expect_err("it has no file");
        assert_eq!(error.kind(), io::ErrorKind::InvalidData);
    }

    #[test]
    fn questions_survive_a_command_line() {
        for access in [Access::Open, Access::Content(4096..8192)] {
            let question =
                OpenQuestion { inquiry: Inquiry { number: 12, pid: 1, access }, file: 7 };
            assert_eq!(OpenQuestion::parse(&question.word()), Some(question));
        }
        for word in ["1:2:3@4", "1:2", "1:2@", "-1:2@3", "1:2:3:4:5@6", "a:2@3", ""] {
            assert_eq!(OpenQuestion::parse(word), None, "{word}");
        }
    }

    #[test]
    fn a_question_without_its_file_is_not_inherited() {
        assert!(OpenQuestion::inherit("1:2@1000000").is_none());
        let file: OwnedFd = tempfile::tempfile().expect("a file").into();
        let number = std::os::fd::IntoRawFd::into_raw_fd(file);
        let (inquiry, file) = OpenQuestion::inherit(&format!("1:2@{number}")).expect("open");
        assert_eq!((inquiry.number, inquiry.pid, file.as_raw_fd()), (1, 2, number));
    }
}
