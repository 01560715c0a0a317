//! Files on which a process holds a lease that it does not release.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, ChildStdin, ChildStdout};
use std::sync::mpsc::channel;

use super::*;

/// Time limit for an access that does not wait for the end of a lease, for which the kernel allows
/// 45 seconds.
const ANSWER_MAX: Duration = Duration::from_secs(35);

/// Python program that takes leases of the kind in its first argument on the files in the following
/// arguments. For each line of its input, it copies the first file to the file that the line
/// names, and prints the result.
const HOLDER: &str = "
import fcntl, os, signal, sys
signal.signal(signal.SIGIO, signal.SIG_IGN)
writes = sys.argv[1] == 'write'
files = [os.open(path, os.O_RDWR if writes else os.O_RDONLY) for path in sys.argv[2:]]
for file in files:
    fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_WRLCK if writes else fcntl.F_RDLCK)
print('held', flush=True)
for line in sys.stdin:
    try:
        content = os.pread(files[0], 1 << 30, 0)
        open(line.strip(), 'wb').write(content)
        print('read', flush=True)
    except OSError as error:
        print('error', error.errno, flush=True)
";

/// Process that holds leases until this value is dropped.
pub(crate) struct Lease {
    child: Child,
    lines: BufReader<ChildStdout>,
    orders: ChildStdin,
}

impl Lease {
    /// Takes leases of `kind` on the files; `None` if Python is not installed.
    pub(crate) fn take(kind: &str, paths: &[PathBuf]) -> Option<Self> {
        let mut command = Command::new("python3");
        command.args(["-c", HOLDER, kind]).args(paths);
        let Ok(mut child) = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn() else {
            e2e::skip::say("python3 is not installed");
            return None;
        };
        let lines = BufReader::new(child.stdout.take().unwrap());
        let orders = child.stdin.take().unwrap();
        let mut lease = Self { child, lines, orders };
        assert_eq!(lease.next_line(), "held");
        Some(lease)
    }

    fn next_line(&mut self) -> String {
        let mut line = String::new();
        self.lines.read_line(&mut line).unwrap();
        line.trim().to_owned()
    }

    /// Makes the process read its first file. Returns the content; `None` for an error.
    fn reads(&mut self, copy: &Path) -> Option<Vec<u8>> {
        writeln!(self.orders, "{}", copy.display()).unwrap();
        let said = self.next_line();
        assert!(said == "read" || said.starts_with("error"), "{said}");
        (said == "read").then(|| fs::read(copy).unwrap())
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

type PendingRead = std::sync::mpsc::Receiver<std::io::Result<Vec<u8>>>;

fn begin_to_read(path: &Path) -> PendingRead {
    let (got, has_come) = channel();
    let path = path.to_owned();
    std::thread::spawn(move || drop(got.send(fs::read(path))));
    has_come
}

impl Space {
    /// Runs an `hsm` command on one file and returns the file's row. The command must not wait for
    /// the end of a lease.
    #[track_caller]
    fn answer(&self, command: &str, path: &Path) -> Value {
        let words = ["hsm", command, path.to_str().unwrap(), "--json"];
        let running = self.node().spawn(&words);
        assert!(running.ends_within(ANSWER_MAX), "hsm {command} waits for the end of the lease");
        running.wait().expect(&[0, 4]).json_lines().remove(0)
    }
}

#[test]
fn leases_are_respected_and_hold_nobody_else_up() {
    for kind in KINDS {
        // With this option, opening does not recall a file, so it is still a stub under the lease.
        let Some(space) = Space::new(kind, &["--whole", "0"]) else { continue };
        for (round, lease) in (0..).zip(["read", "write"]) {
            let about = format!("{} {lease} lease", kind[0]);
            let (content, other) = (noise(200 + round, MIB), noise(210 + round, MIB));
            let stub = space.stub(&format!("stub-{round}"), &content);
            let free = space.stub(&format!("free-{round}"), &other);
            let resident = space.write(&format!("resident-{round}"), &content);
            let leased = [stub.clone(), resident.clone()];
            let Some(mut held) = Lease::take(lease, &leased) else { return };
            let row = space.answer("migrate", &resident);
            assert_eq!(row["error"], "somebody has it open", "{about}: {row}");
            let row = space.answer("recall", &stub);
            assert!(row["error"].is_string() || row["state"] == "p", "{about}: {row}");
            if let Some(got) = held.reads(&space.scene.scratch.join("copy")) {
                assert!(got == content, "{about}: the holder of the lease reads other content");
            }
            let of_stub = begin_to_read(&stub);
            let of_free =
                begin_to_read(&free).recv_timeout(ANSWER_MAX).expect("the read should not wait");
            assert!(of_free.unwrap() == other, "{about}: another file");
            drop(held);
            // A reader that waits during the lease may be refused.
            if let Ok(got) = of_stub.recv_timeout(ANSWER_MAX).expect("the read should end") {
                assert!(got == content, "{about}");
            }
            assert!(fs::read(&stub).unwrap() == content, "{about}: after the lease");
            space.migrate(&resident);
            assert!(fs::read(&resident).unwrap() == content, "{about}: migrated");
        }
    }
}
