//! The processes that manage a test's file system.

use std::fs;
use std::process::Command;
use std::time::Duration;

use e2e::clock::pause;
use e2e::harness::succeeds;
use rustix::process::Signal;

use super::Space;

impl Space {
    /// Process id of the present keeper.
    pub(super) fn keeper_now(&self) -> Option<u32> {
        self.keepers().first().copied()
    }

    /// Process ids of all keepers. There are two while one replaces the other; the ids do not show
    /// which is older.
    pub(super) fn keepers(&self) -> Vec<u32> {
        let home = self.node().home().to_str().unwrap();
        let is_keeper = |pid: &u32| {
            let line = fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            line.contains("\0run\0") && line.contains("\0hsm\0") && line.contains(home)
        };
        processes().into_iter().filter(is_keeper).collect()
    }

    pub(super) fn keeper_pid(&self) -> u32 {
        self.keeper.as_ref().unwrap().id()
    }

    /// Process id of the worker.
    pub(super) fn worker_pid(&self) -> Option<u32> {
        let home = self.node().home().to_str().unwrap();
        let is_worker = |pid: &u32| {
            let line = fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            line.contains("\0worker\0") && line.contains(home)
        };
        processes().into_iter().find(is_worker)
    }

    /// Process id of the holder.
    pub(super) fn holder_pid(&self) -> Option<u32> {
        let home = self.node().home().to_str().unwrap();
        let is_holder = |pid: &u32| {
            let of = |what| fs::read(format!("/proc/{pid}/{what}")).unwrap_or_default();
            contains(&of("cmdline"), b"\0hold\0") && contains(&of("environ"), home.as_bytes())
        };
        processes().into_iter().find(is_holder)
    }

    /// Process ids of all `hsm` processes of the node.
    fn standing(&self) -> Vec<u32> {
        let home = self.node().home().to_str().unwrap();
        let stands = |pid: &u32| {
            let of = |what| fs::read(format!("/proc/{pid}/{what}")).unwrap_or_default();
            let (line, environ) = (of("cmdline"), of("environ"));
            contains(&line, b"\0hsm\0")
                && (contains(&line, home.as_bytes()) || contains(&environ, home.as_bytes()))
        };
        processes().into_iter().filter(stands).collect()
    }

    /// Kills keeper, worker and holder at once.
    pub(super) fn kill_all(&mut self) {
        let others = [self.worker_pid(), self.holder_pid()];
        kill_at_once(&others.into_iter().flatten().chain([self.keeper_pid()]).collect::<Vec<_>>());
        drop(self.keeper.take().unwrap().wait());
    }
}

impl Drop for Space {
    fn drop(&mut self) {
        // The file system is unmounted first, so that no program reads a stub without a keeper.
        let _unmounted = succeeds(Command::new("umount").arg("--lazy").arg(self.image.path()));
        // Each process replaces the others when they die. So all are stopped before any is killed,
        // and the next round finds processes that started meanwhile.
        loop {
            let standing = self.standing();
            if standing.is_empty() {
                break;
            }
            kill_at_once(&standing);
            pause(Duration::from_millis(5));
        }
    }
}

fn processes() -> Vec<u32> {
    let names = fs::read_dir("/proc").unwrap().map(|entry| entry.unwrap().file_name());
    names.filter_map(|name| name.to_str()?.parse().ok()).collect()
}

fn contains(text: &[u8], part: &[u8]) -> bool {
    text.windows(part.len()).any(|window| window == part)
}

pub(super) fn kill(pid: u32, signal: Signal) {
    let pid = rustix::process::Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
    // The process may have ended by itself.
    let _killed = rustix::process::kill_process(pid, signal);
}

/// Kills the processes. All are stopped first, so that none has the time to replace another.
pub(super) fn kill_at_once(pids: &[u32]) {
    pids.iter().for_each(|pid| kill(*pid, Signal::STOP));
    pids.iter().for_each(|pid| kill(*pid, Signal::KILL));
}
