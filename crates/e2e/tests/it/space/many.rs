//! Many stubs at once, and readers that are held up in unusual ways.

use super::*;

/// Number of stubs. `HOLDFAST_STUBS` sets another number. The test uses XFS, which limits the
/// number of files only by its size.
const STUBS: usize = 2_000;
const FOLDER_STUBS: usize = 500;

#[test]
fn many_small_stubs_come_back() {
    let Some(space) = Space::new(KINDS[1], &["--min-size", "1"]) else { return };
    let stubs = std::env::var("HOLDFAST_STUBS").ok().and_then(|text| text.parse().ok());
    let stubs: usize = stubs.unwrap_or(STUBS);
    let name = |index: usize| format!("d{}/f{index}", index / FOLDER_STUBS);
    let content = |index: usize| noise(index as u64, 1 + index % 4096);
    for index in 0..stubs {
        space.write(&name(index), &content(index));
    }
    let rows = space.hsm(&["migrate"], &space.fs()).expect(&[0]).json_lines();
    let migrated = rows.iter().filter(|row| row["state"] == "m").count();
    assert_eq!(migrated, stubs);
    // Some files are opened while all files are recalled.
    let all = space.fs();
    let running = space.node().spawn(&["hsm", "recall", all.to_str().unwrap(), "--json"]);
    for index in (0..stubs).rev().step_by(stubs / 100) {
        assert_eq!(fs::read(space.fs().join(name(index))).unwrap(), content(index));
    }
    running.wait().expect(&[0]);
    for index in 0..stubs {
        assert_eq!(fs::read(space.fs().join(name(index))).unwrap(), content(index), "{index}");
    }
}

/// Python program that takes a lease for reading on a file, reads the file, and prints its checksum
/// or the error.
const LEASE: &str = "\
import fcntl, os, signal, sys, zlib
signal.signal(signal.SIGIO, signal.SIG_IGN)
fd = os.open(sys.argv[1], os.O_RDONLY)
fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_RDLCK)
try:
    print(zlib.crc32(os.read(fd, 1 << 20)))
except OSError as error:
    print('error', error.errno)
";

#[test]
fn who_holds_a_lease_gets_the_content_or_an_error() {
    // With this option, opening does not recall a file, so it is still a stub under the lease.
    let Some(space) = Space::new(KINDS[0], &["--whole", "0"]) else { return };
    if !succeeds(Command::new("python3").arg("--version").stdout(Stdio::null())) {
        e2e::skip::say("python3 is not installed");
        return;
    }
    let content = noise(1, MIB);
    let stub = space.stub("leased", &content);
    let output = Command::new("python3").args(["-c", LEASE]).arg(&stub).output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    let sum = Command::new("python3")
        .args(["-c", "import sys, zlib; print(zlib.crc32(open(sys.argv[1], 'rb').read()))"])
        .arg(space.write("resident", &content))
        .output()
        .unwrap();
    let expected = String::from_utf8(sum.stdout).unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(
        said == expected || said.starts_with("error"),
        "printed {said}, expected {expected}: {errors}"
    );
    assert_eq!(fs::read(&stub).unwrap(), content);
}

/// A control group that limits the memory of its processes. It is removed when this value is
/// dropped.
struct Group(PathBuf);

impl Group {
    fn new(bytes: u64) -> Option<Self> {
        let name = format!("holdfast-test-{}", std::process::id());
        let ways = [("memory", "memory.limit_in_bytes"), ("", "memory.max")];
        ways.into_iter().find_map(|(above, limit)| {
            let path = Path::new("/sys/fs/cgroup").join(above).join(&name);
            fs::create_dir(&path).ok()?;
            let group = Self(path);
            fs::write(group.0.join(limit), bytes.to_string()).ok().map(|()| group)
        })
    }

    fn take(&self, pid: u32) {
        fs::write(self.0.join("cgroup.procs"), pid.to_string()).unwrap();
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // The removal fails if processes of the group are still running.
        drop(fs::remove_dir(&self.0));
    }
}

#[test]
fn a_recall_needs_little_memory() {
    let Some(space) = Space::new(KINDS[0], &[]) else { return };
    let Some(group) = Group::new(96 << 20) else {
        e2e::skip::say("this machine cannot make a control group of memory");
        return;
    };
    let content = noise(1, 256 * MIB);
    let stub = space.stub("large", &content);
    // The processes that fill the file, and the process that reads it, have less memory than the
    // file has bytes.
    group.take(space.keeper_now().unwrap());
    group.take(space.worker_pid().unwrap());
    let (copy, procs) = (space.scene.scratch.join("copy"), group.0.join("cgroup.procs"));
    let script = "echo $$ > \"$2\"; exec cat \"$1\" > /dev/null";
    assert!(shell(script, &stub, &procs));
    assert!(shell("cp \"$1\" \"$2\"", &stub, &copy));
    assert!(fs::read(&copy).unwrap() == content, "the content differs");
    // The worker still answers.
    assert_eq!(space.try_status().code(), 0);
}
