//! The process that waits for content or has sent a request. The limits of a user or a program, and
//! the server's log, depend on it.

use client::{Purpose, PurposeKind};

/// A process that waits for content or has sent a request.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Requester {
    pub(crate) pid: u32,
    pub(crate) uid: u32,
    pub(crate) program: String,
}

impl Requester {
    /// Reads the program and the user of the process `pid` from `/proc`. A process that has ended
    /// gets an empty program and the user number `u32::MAX`.
    pub(crate) fn of(pid: u32) -> Self {
        let read = |name: &str| std::fs::read_to_string(format!("/proc/{pid}/{name}"));
        let program = read("comm").unwrap_or_default().trim_end().to_owned();
        let uid = effective_uid(&read("status").unwrap_or_default());
        Self { pid, uid: uid.unwrap_or(u32::MAX), program }
    }

    pub(crate) fn is_root(&self) -> bool {
        self.uid == 0
    }

    /// True if the process may see and cancel recalls of `other`.
    pub(crate) fn may_act_for(&self, other: &Self) -> bool {
        self.is_root() || self.uid == other.uid
    }

    /// The note on this process for the server's log.
    pub(crate) fn purpose(&self, kind: PurposeKind) -> Purpose {
        Purpose { kind, user: self.uid, program: self.program.clone(), reference: 0 }
    }
}

/// The second number of the line `Uid:` of `/proc/PID/status`.
fn effective_uid(status: &str) -> Option<u32> {
    let numbers = status.lines().find_map(|line| line.strip_prefix("Uid:"))?;
    numbers.split_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_known_by_its_program_and_effective_user() {
        let this = Requester::of(std::process::id());
        assert_eq!(this.uid, sys::process::effective_ids().0);
        assert!(!this.program.is_empty());
        assert_eq!(effective_uid("Name:\tcat\nUid:\t1000\t1001\t1002\t1003\n"), Some(1001));
        assert_eq!(effective_uid("Name:\tcat\nUid:\tmany\n"), None);
    }

    #[test]
    fn a_process_that_has_ended_is_nobody() {
        let nobody = Requester::of(u32::MAX);
        assert_eq!((nobody.uid, nobody.program.as_str()), (u32::MAX, ""));
    }

    #[test]
    fn root_acts_for_everybody_and_others_for_themselves() {
        let user = |uid| Requester { uid, ..Requester::default() };
        assert!(user(0).may_act_for(&user(7)));
        assert!(user(7).may_act_for(&user(7)));
        assert!(!user(7).may_act_for(&user(8)));
        assert!(!user(7).may_act_for(&user(0)));
    }
}
