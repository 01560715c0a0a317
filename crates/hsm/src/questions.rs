//! Questions of the kernel that outlive the process that should have answered them.

use std::os::fd::{OwnedFd, RawFd};

use format::stub::{STUB_ATTRIBUTE, STUB_BYTES_MAX};
use rustix::io::Errno;
use sys::fanotify::{Access, Answer, Group, Question};

use crate::relay::{Inquiry, OpenQuestion};

/// End of the range of the numbers that questions can have: a question has the number of a
/// descriptor.
const NUMBERS_END: RawFd = 1 << 20;

/// Reason why the access of a program is refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Refusal {
    /// The access may succeed later.
    NotNow,
    Error(Errno),
}

impl Refusal {
    /// The error for the program.
    ///
    /// A program that reads never gets `EAGAIN`: many programs take it for the end of the data, and
    /// regard what they have read so far as the whole file.
    pub(crate) fn errno(self, access: &Access) -> Errno {
        match (self, access) {
            (Self::NotNow, Access::Open) => Errno::AGAIN,
            (Self::NotNow, Access::Content(_)) => Errno::BUSY,
            (Self::Error(errno), _) => errno,
        }
    }
}

/// Questions that a dead keeper has left, with their files.
#[derive(Debug, Default)]
pub struct OpenQuestions(Vec<(Inquiry, OwnedFd)>);

impl OpenQuestions {
    /// Takes over the questions of a command line; see [`OpenQuestion::word`]. A question that
    /// cannot be taken over is refused later, with the unknown questions.
    pub fn inherit(words: &[String]) -> Self {
        Self(words.iter().filter_map(|word| OpenQuestion::inherit(word)).collect())
    }

    pub(crate) fn into_inner(self) -> Vec<(Inquiry, OwnedFd)> {
        self.0
    }

    /// Makes the waiting programs fail, because another keeper with the same group has taken over.
    pub(crate) fn refuse(self, group: &Group) {
        for (inquiry, file) in self.0 {
            drop(file);
            refuse(group, inquiry.number, &inquiry.access);
        }
    }
}

/// Makes every program fail that waits for an answer of `group`, and makes the kernel ask this
/// group no more. No other process may have the group.
pub(crate) fn refuse_group(group: &Group) {
    if let Err(error) = group.forget_filesystems() {
        tracing::error!(%error, "cannot end the questions of a group that nobody answers");
    }
    refuse_unread(group);
    refuse_unknown(group, |_| false);
}

/// Answers the questions of `group` that nobody has read, before the group closes and the kernel
/// lets all programs continue. Programs that use a stub fail, the others continue.
pub(crate) fn refuse_unread(group: &Group) {
    while let Ok(questions) = group.read()
        && !questions.is_empty()
    {
        for Question { file, number, access, .. } in questions {
            let record = sys::space::attribute::<STUB_BYTES_MAX>(&file, STUB_ATTRIBUTE);
            drop(file);
            match record {
                Ok(None) => answer(group, number, Answer::Go),
                Ok(Some(_)) | Err(_) => refuse(group, number, &access),
            }
        }
    }
}

/// Refuses the questions that a dead keeper has read and not passed on, unless they are `known`.
/// The programs may be reading.
pub(crate) fn refuse_unknown(group: &Group, known: impl Fn(RawFd) -> bool) {
    (0..NUMBERS_END)
        .filter(|number| !known(*number))
        .for_each(|number| refuse(group, number, &Access::Content(0..0)));
}

/// Refuses a program that may try again later.
pub(crate) fn refuse(group: &Group, number: RawFd, access: &Access) {
    answer(group, number, Answer::Fail(Refusal::NotNow.errno(access)));
}

pub(crate) fn answer(group: &Group, number: RawFd, answer: Answer) {
    // Most numbers have no waiting program, and a program that waited may have been killed.
    drop(group.answer(number, answer));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_reads_is_never_told_to_try_again() {
        assert_eq!(Refusal::NotNow.errno(&Access::Open), Errno::AGAIN);
        assert_eq!(Refusal::NotNow.errno(&Access::Content(0..1)), Errno::BUSY);
        assert_eq!(Refusal::Error(Errno::IO).errno(&Access::Open), Errno::IO);
    }
}
