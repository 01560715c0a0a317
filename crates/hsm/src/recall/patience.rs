//! Programs that wait for content in vain: the server gives no sign of life for too long, the
//! program was interrupted, or it is gone.
//!
//! While a program waits, the server is asked for a sign of life again and again. An answer and
//! content that arrives are such signs. So a program waits for a mount of a volume however long it
//! takes, and for a server that hangs only as long as the settings of its file system say.
//!
//! The kernel lets a program that waits for an answer see a signal only if the signal ends the
//! program. A program that catches the signal would wait on. So this module looks for such signals,
//! and refuses the program: its call fails, and the program handles the signal.

use std::time::{Duration, Instant};

use rustix::io::Errno;
use sys::fanotify::Answer;

use super::queue::{Waiter, WaitingProgram};
use super::{Recaller, Refusal};
use crate::requester::Requester;

/// Maximum number of programs whose signals one look examines. The next look examines others.
const PROGRAMS_MAX: usize = 500;
/// Signals that ask a program to end, by their numbers: SIGHUP, SIGINT, SIGQUIT and SIGTERM.
const ENDING: [u32; 4] = [1, 2, 3, 15];

/// State between two looks at the waiting programs.
#[derive(Debug, Default)]
pub(crate) struct Patience {
    /// Bytes that all transfers had received at the last look, and the time at which their number
    /// was seen to change last.
    received: Option<(u64, Option<Instant>)>,
    looks: usize,
}

impl Patience {
    /// Notes the number of received bytes; returns the time at which it was seen to change last.
    fn note_received(&mut self, bytes: u64, now: Instant) -> Option<Instant> {
        let changed = match self.received {
            Some((before, changed)) if before == bytes => changed,
            Some(_) => Some(now),
            None => None,
        };
        self.received = Some((bytes, changed));
        changed
    }
}

/// Reason to let a program wait no longer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum End {
    /// The server has given no sign of life for the time of the settings.
    Silence,
    /// A signal asks the program to end.
    Signal,
    /// The program does not exist any more.
    Gone,
}

impl Recaller {
    /// Looks at the waiting programs, and refuses those that wait in vain.
    pub(crate) fn tend_waiters(&self, patience: &mut Patience) {
        self.tend_waiters_at(patience, sys::clock::monotonic());
    }

    pub(super) fn tend_waiters_at(&self, patience: &mut Patience, now: Instant) {
        let (waiting, received) = {
            let queue = self.queue.lock();
            (queue.waiting_programs(), queue.received_bytes())
        };
        let content = patience.note_received(received, now);
        if waiting.is_empty() {
            return;
        }
        self.source.probe();
        let heard = content.into_iter().fold(self.source.last_sign(), Instant::max);
        patience.looks = patience.looks.wrapping_add(1);
        let stride = waiting.len().div_ceil(PROGRAMS_MAX);
        let mut is_silent = false;
        for (index, program) in waiting.iter().enumerate() {
            let is_examined = (index + patience.looks).is_multiple_of(stride);
            let ends = match self.has_waited(program, heard, now) {
                true => Some(End::Silence),
                false if is_examined => end_of(&program.requester),
                false => None,
            };
            if let Some(end) = ends {
                is_silent |= end == End::Silence;
                self.let_go(program, end);
            }
        }
        if is_silent {
            self.source.distrust();
        }
    }

    /// True if the program has waited long enough for a server that was heard last at `heard`.
    fn has_waited(&self, program: &WaitingProgram, heard: Instant, now: Instant) -> bool {
        let Some(mount) = self.mount_of(program.id.device_id) else { return false };
        let wait = Duration::from_secs(mount.settings().wait_secs.into());
        now.saturating_duration_since(program.asked.max(heard)) >= wait
    }

    fn let_go(&self, program: &WaitingProgram, end: End) {
        let given_up = self.queue.lock().give_up(program);
        // The content may have come meanwhile.
        let Some(Waiter::Question { number, requester, access, .. }) = given_up else { return };
        let refusal = match end {
            End::Silence => Refusal::Error(Errno::IO),
            End::Signal | End::Gone => Refusal::NotNow,
        };
        if end == End::Silence {
            tracing::error!(
                program = requester.program,
                uid = requester.uid,
                "the server gives no sign of life; a read fails"
            );
        }
        self.answer(number, Answer::Fail(refusal.errno(&access)));
    }
}

/// The reason to let the program wait no longer; `None` if it has none of its own.
fn end_of(program: &Requester) -> Option<End> {
    if program.has_ended() {
        return Some(End::Gone);
    }
    let status = std::fs::read_to_string(format!("/proc/{}/status", program.pid)).ok()?;
    has_signal(&status)?.then_some(End::Signal)
}

/// True if a signal that the process catches asks it to end, by the content of `/proc/PID/status`;
/// `None` if the content has another form.
///
/// Source: proc(5), `/proc/pid/status`.
fn has_signal(status: &str) -> Option<bool> {
    let value = |name: &str| {
        status
            .lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(':').map(str::trim))
    };
    let mask = |name| u64::from_str_radix(value(name)?, 16).ok();
    let pending = mask("SigPnd")? | mask("ShdPnd")?;
    // A signal that the program neither catches nor ignores ends it without our help.
    let handled = pending & mask("SigCgt")? & !mask("SigBlk")?;
    let is_ending = |signal: &u32| handled & (1 << (signal - 1)) != 0;
    Some(ENDING.iter().any(is_ending))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(masks: [u64; 4], expected: bool) {
        let [pending, shared, blocked, caught] = masks;
        let status = format!(
            "Name:\tcat\nState:\tD (disk sleep)\nThreads:\t1\nSigQ:\t0/5\n\
             SigPnd:\t{pending:016x}\nShdPnd:\t{shared:016x}\nSigBlk:\t{blocked:016x}\n\
             SigIgn:\t0\nSigCgt:\t{caught:016x}\n"
        );
        assert_eq!(has_signal(&status), Some(expected), "{status}");
    }

    #[test]
    fn a_program_is_let_go_for_a_signal_that_it_catches() {
        const INT: u64 = 1 << 1;
        const TERM: u64 = 1 << 14;
        const CHILD: u64 = 1 << 16;
        check([0; 4], false);
        check([0, INT, 0, INT], true);
        check([TERM, 0, 0, TERM | INT], true);
        check([0, INT, INT, INT], false);
        check([0, INT, 0, TERM], false);
        check([0, CHILD, 0, CHILD], false);
    }

    #[test]
    fn a_program_that_has_ended_waits_no_more() {
        assert_eq!(end_of(&Requester::of(std::process::id())), None);
        assert_eq!(end_of(&Requester::of(u32::MAX)), Some(End::Gone));
    }

    #[test]
    fn content_that_arrives_is_a_sign_of_life() {
        let mut patience = Patience::default();
        let start = sys::clock::monotonic();
        let at = |secs| start + Duration::from_secs(secs);
        assert_eq!(patience.note_received(5, at(0)), None);
        assert_eq!(patience.note_received(5, at(1)), None, "nothing has come yet");
        assert_eq!(patience.note_received(6, at(2)), Some(at(2)));
        assert_eq!(patience.note_received(6, at(9)), Some(at(2)));
    }
}
