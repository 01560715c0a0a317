//! The process that waits for content or has sent a request. The limits of a user or a program, and
//! the server's log, depend on it.

use client::{Purpose, PurposeKind};

/// A process that waits for content or has sent a request.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Requester {
    pub(crate) pid: u32,
    pub(crate) uid: u32,
    pub(crate) program: String,
    /// Moment at which the process started, in the kernel's ticks since the start of the machine; 0
    /// if it is not known.
    pub(crate) started: u64,
}

impl Requester {
    /// Reads the program and the user of the process `pid` from `/proc`. A process that has ended
    /// gets an empty program and the user number `u32::MAX`.
    pub(crate) fn of(pid: u32) -> Self {
        let read = |name: &str| std::fs::read_to_string(format!("/proc/{pid}/{name}"));
        let program = read("comm").unwrap_or_default().trim_end().to_owned();
        let uid = effective_uid(&read("status").unwrap_or_default());
        let started = state_and_start(&read("stat").unwrap_or_default()).map_or(0, |(_, at)| at);
        Self { pid, uid: uid.unwrap_or(u32::MAX), program, started }
    }

    /// Returns true if the process has ended, although another process may have its number now. A
    /// process that cannot be seen from here counts as running.
    pub(crate) fn has_ended(&self) -> bool {
        if self.pid == 0 {
            return false;
        }
        let folder = format!("/proc/{}", self.pid);
        let Ok(stat) = std::fs::read_to_string(format!("{folder}/stat")) else { return true };
        let Some((state, started)) = state_and_start(&stat) else { return false };
        if started != self.started {
            return true;
        }
        // The first thread of a process may have ended before the others.
        let has_threads = || {
            let tasks = std::fs::read_dir(format!("{folder}/task"));
            tasks.is_ok_and(|tasks| tasks.count() > 1)
        };
        matches!(state, 'Z' | 'X') && !has_threads()
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

/// The state and the start of a process, from `/proc/PID/stat`. The name of the program, in
/// brackets, may hold any characters.
fn state_and_start(stat: &str) -> Option<(char, u64)> {
    /// Number of fields between the state and the start.
    const BETWEEN: usize = 18;
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_ascii_whitespace();
    let state = fields.next()?.chars().next()?;
    Some((state, fields.nth(BETWEEN)?.parse().ok()?))
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
    fn a_process_that_was_killed_has_ended_even_before_its_parent_notices() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().expect("started");
        let requester = Requester::of(child.id());
        assert!(!requester.has_ended());
        let another = Requester { started: requester.started + 1, ..requester.clone() };
        assert!(another.has_ended(), "the number belongs to another process now");
        child.kill().expect("killed");
        while !requester.has_ended() {
            std::thread::yield_now();
        }
        child.wait().expect("a child");
        assert!(requester.has_ended());
        assert!(!Requester::default().has_ended(), "it cannot be seen from here");
        assert!(!Requester::of(std::process::id()).has_ended());
    }

    #[test]
    fn the_name_of_a_program_does_not_hide_its_state() {
        let rest = "1 1 1 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 777 1 1";
        assert_eq!(state_and_start(&format!("7 (a) Z 1) S {rest}")), Some(('S', 777)));
        assert_eq!(state_and_start("7 (a) Z"), None);
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
