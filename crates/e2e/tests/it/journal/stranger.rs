//! Backups by the journal while stress-ng works, a program that knows nothing of Holdfast.
//!
//! Each round stops stress-ng wherever it is, backs up by the journal, and walks for comparison.

use std::fs;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};

use super::{FILE_SYSTEMS, Site, count, journal};

/// Stressors that change a file system. chattr is absent: the journal does not promise to see it.
const STRESSORS: [&str; 17] = [
    "chmod",
    "chown",
    "dentry",
    "dir",
    "dirdeep",
    "fallocate",
    "fpunch",
    "hdd",
    "link",
    "mknod",
    "rename",
    "seek",
    "symlink",
    "touch",
    "utime",
    "xattr",
    "filename",
];
/// Sizes that leave room on the file system.
const SIZES: [&str; 8] = [
    "--hdd-bytes",
    "4M",
    "--seek-size",
    "1M",
    "--fallocate-bytes",
    "2M",
    "--dirdeep-inodes",
    "2000",
];
/// Time for which stress-ng works between two backups.
const WORK: Duration = Duration::from_millis(700);
const STOP_MAX: Duration = Duration::from_secs(60);

/// stress-ng at work in a folder, with all its processes.
struct Stress {
    leader: Child,
    group: Pid,
}

impl Stress {
    /// Starts stress-ng; `None` if this machine does not have it.
    fn start(folder: &Path, seed: u64) -> Option<Self> {
        let mut command = Command::new("stress-ng");
        command.args(STRESSORS.iter().flat_map(|name| [format!("--{name}"), "1".to_owned()]));
        let leader = command
            .args(SIZES)
            .args(["--seed", &seed.to_string(), "--timeout", "1h", "--temp-path"])
            .arg(folder)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .ok()?;
        let group = Pid::from_child(&leader);
        Some(Self { leader, group })
    }

    /// Stops all processes, and waits until each has stopped.
    fn stop(&self) {
        self.signal(Signal::STOP);
        let began = e2e::clock::now();
        while self.states().any(|state| !matches!(state, 'T' | 'Z')) {
            assert!(began.elapsed() < STOP_MAX, "stress-ng does not stop");
            e2e::clock::pause(Duration::from_millis(10));
        }
        assert!(self.states().any(|state| state == 'T'), "stress-ng has ended by itself");
    }

    fn signal(&self, signal: Signal) {
        kill_process_group(self.group, signal).expect("stress-ng runs");
    }

    /// Returns the states of the processes of the group, as letters of /proc/PID/stat.
    fn states(&self) -> impl Iterator<Item = char> {
        let group = self.group.as_raw_nonzero().get();
        let entries = fs::read_dir("/proc").expect("a list of processes");
        entries.filter_map(move |entry| {
            let text = fs::read_to_string(entry.ok()?.path().join("stat")).ok()?;
            let (_, fields) = text.rsplit_once(") ")?;
            let mut fields = fields.split(' ');
            let state = fields.next()?.chars().next()?;
            (fields.nth(1)?.parse() == Ok(group)).then_some(state)
        })
    }
}

impl Drop for Stress {
    fn drop(&mut self) {
        // The group may have ended by itself.
        kill_process_group(self.group, Signal::KILL).ok();
        drop(self.leader.wait());
    }
}

#[test]
fn what_stress_ng_does_is_never_missed() {
    let rounds = count("HOLDFAST_JOURNAL_ROUNDS", 3);
    let first = count("HOLDFAST_JOURNAL_SEED", 1);
    for (mkfs, seed) in FILE_SYSTEMS.into_iter().zip(first..) {
        let Some(site) = Site::new(mkfs) else { continue };
        let site = site.anchored();
        let Some(stress) = Stress::start(site.top(), seed) else {
            e2e::skip::say("stress-ng is not installed");
            return;
        };
        let (mut used, mut seen) = (0, 0);
        for round in 0..rounds {
            e2e::clock::pause(WORK);
            stress.stop();
            let done = site.backup(&["--confirm-expire"]).expect(&[0]);
            used += u64::from(journal(&done)["used"] == true);
            seen += done.count("backed_up");
            site.nothing_is_missing(&format!("{} seed {seed} round {round}", mkfs[0]));
            stress.signal(Signal::CONT);
        }
        assert!(used > 0, "no backup of {} went by the journal", mkfs[0]);
        assert!(seen > 0, "stress-ng has changed nothing");
        println!("{}: {used} of {rounds} backups went by the journal, {seen} objects", mkfs[0]);
    }
}
