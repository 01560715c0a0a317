//! Backups by the journal while stress-ng works, a program that knows nothing of Holdfast.
//!
//! Each round stops stress-ng wherever it is, backs up by the journal, and walks for comparison.
//! Between the rounds backups run while it works, watchers are killed, the queue of the kernel
//! overflows, and the file system is unmounted as at a restart of the machine.

use std::fs;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};

use super::{FILE_SYSTEMS, Site, assert_tested, count, journal, overflow};

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

/// An event while stress-ng works, before it is stopped for a backup.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Disturbance {
    None,
    /// A backup, of a tree that changes under it.
    Backup,
    KilledWatcher,
    FullQueue,
    Restart,
}

/// After a restart the first backup walks, and the second goes by the journal.
const DISTURBANCES: [Disturbance; 5] = [
    Disturbance::None,
    Disturbance::Backup,
    Disturbance::KilledWatcher,
    Disturbance::FullQueue,
    Disturbance::Restart,
];

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

    /// Kills all processes.
    fn end(&mut self) {
        // The group may have ended by itself.
        kill_process_group(self.group, Signal::KILL).ok();
        drop(self.leader.wait());
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
        self.end();
    }
}

/// A site on which stress-ng works.
struct Busy {
    site: Site,
    stress: Stress,
    seed: u64,
}

impl Busy {
    /// Lets stress-ng work, and disturbs the watcher meanwhile.
    fn work(&mut self, disturbance: Disturbance) {
        e2e::clock::pause(WORK);
        match disturbance {
            Disturbance::None => return,
            // Files that change or disappear while they are read are failures or warnings.
            Disturbance::Backup => {
                self.site.backup(&["--confirm"]).expect(&[0, 4, 8]);
            }
            Disturbance::KilledWatcher => {
                self.site.kill_watcher();
                e2e::clock::pause(WORK);
                self.site.start_watcher();
            }
            Disturbance::FullQueue => overflow(&self.site),
            Disturbance::Restart => self.restart(),
        }
        e2e::clock::pause(WORK);
    }

    /// Ends everything that a restart of the machine ends, and begins it again.
    fn restart(&mut self) {
        self.stress.end();
        self.site.kill_watcher();
        let began = e2e::clock::now();
        while !self.site.image.unmount() {
            assert!(began.elapsed() < STOP_MAX, "the file system stays in use");
            e2e::clock::pause(Duration::from_millis(50));
        }
        assert!(self.site.image.mount_again());
        self.remove_leftovers();
        self.site.start_watcher();
        self.seed += 1000;
        self.stress = Stress::start(self.site.top(), self.seed).expect("it has started before");
    }

    /// Removes what stress-ng removes when it ends by itself.
    fn remove_leftovers(&self) {
        for entry in fs::read_dir(self.site.top()).unwrap() {
            let entry = entry.unwrap();
            if entry.file_name() != "tree" && entry.file_type().unwrap().is_dir() {
                fs::remove_dir_all(entry.path()).unwrap();
            }
        }
    }
}

#[test]
fn what_stress_ng_does_is_never_missed() {
    let rounds = count("HOLDFAST_JOURNAL_ROUNDS", DISTURBANCES.len() as u64);
    let first = count("HOLDFAST_JOURNAL_SEED", 1);
    let mut is_tested = false;
    for (mkfs, seed) in FILE_SYSTEMS.into_iter().zip(first..) {
        let Some(site) = Site::new(mkfs) else { continue };
        let site = site.anchored();
        let Some(stress) = Stress::start(site.top(), seed) else {
            e2e::skip::say("stress-ng is not installed");
            break;
        };
        is_tested = true;
        let mut busy = Busy { site, stress, seed };
        let (mut used, mut seen) = (0, 0);
        for (round, disturbance) in (0..rounds).zip(DISTURBANCES.into_iter().cycle()) {
            busy.work(disturbance);
            busy.stress.stop();
            let done = busy.site.backup(&["--confirm"]).expect(&[0]);
            let by_journal = journal(&done)["used"] == true;
            let is_doubtful = !matches!(disturbance, Disturbance::None | Disturbance::Backup);
            assert!(!(by_journal && is_doubtful), "{disturbance:?} must lead to a walk: {done}");
            used += u64::from(by_journal);
            seen += done.count("backed_up");
            let text = format!("{} seed {seed} round {round} ({disturbance:?})", mkfs[0]);
            busy.site.nothing_is_missing(&text);
            busy.stress.signal(Signal::CONT);
        }
        assert!(used > 0, "no backup of {} went by the journal", mkfs[0]);
        assert!(seen > 0, "stress-ng has changed nothing");
        println!("{}: {used} of {rounds} backups went by the journal, {seen} objects", mkfs[0]);
    }
    assert_tested(is_tested);
}
