//! A service manager that holds the kernel's questions when keeper and worker die.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, ChildStdin, ChildStdout};

use super::*;

/// Python program of a service manager that follows `sd_notify(3)` and `sd_listen_fds(3)`. It
/// starts the keeper, and prints the keeper's process id once the keeper is ready. On each line of
/// its input, it starts the next keeper with the descriptor that the previous keeper stored.
const SUPERVISOR: &str = "
import os, socket, sys
notices = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
notices.bind(sys.argv[1])
held = None
while True:
    pid = os.fork()
    if pid == 0:
        # The keeper says there that it is ready.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        env = dict(os.environ, NOTIFY_SOCKET=sys.argv[1])
        if held is not None:
            os.dup2(held, 3)
            os.set_inheritable(3, True)
            env.update(LISTEN_PID=str(os.getpid()), LISTEN_FDS='1', LISTEN_FDNAMES=name)
        os.execve(sys.argv[2], [sys.argv[2], 'hsm', 'run', '--home', sys.argv[3]], env)
    while True:
        text, descriptors, _, _ = socket.recv_fds(notices, 4096, 1)
        if text.startswith(b'FDSTORE=1\\nFDNAME='):
            held, name = descriptors[0], text.decode().strip().split('=')[2]
        if text.strip() == b'READY=1':
            break
    print(pid, flush=True)
    if not sys.stdin.readline():
        break
    os.waitpid(pid, 0)
";

struct Supervisor {
    child: Child,
    lines: BufReader<ChildStdout>,
    orders: ChildStdin,
}

impl Supervisor {
    /// Starts the service manager; `None` if Python is not installed.
    fn new(space: &Space) -> Option<Self> {
        let mut command = Command::new("python3");
        command.args(["-c", SUPERVISOR]).arg(space.scene.scratch.join("notices"));
        command.arg(e2e::harness::binary()).arg(space.node().home());
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let Ok(mut child) = command.spawn() else {
            e2e::skip::say("python3 is not installed");
            return None;
        };
        let lines = BufReader::new(child.stdout.take().unwrap());
        let orders = child.stdin.take().unwrap();
        Some(Self { child, lines, orders })
    }

    /// Waits for a keeper to be ready; returns its process id.
    fn next_ready(&mut self) -> u32 {
        let mut line = String::new();
        self.lines.read_line(&mut line).unwrap();
        line.trim().parse().unwrap()
    }
}

impl Drop for Supervisor {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

#[test]
fn what_a_supervisor_holds_outlives_keeper_and_worker() {
    for kind in KINDS {
        let Some(mut space) = Space::new(kind, &[]) else { continue };
        let content = noise(1, MIB);
        let path = space.stub("file", &content);
        space.kill_all();
        let Some(mut supervisor) = Supervisor::new(&space) else { return };
        for _ in 0..3 {
            let keeper = supervisor.next_ready();
            space.wait_for("the worker", || space.try_status().code() == 0);
            kill_at_once(
                &[Some(keeper), space.worker_pid()].into_iter().flatten().collect::<Vec<_>>(),
            );
            let reading = path.clone();
            let reader = std::thread::spawn(move || fs::read(reading));
            pause(Duration::from_millis(500));
            assert!(!reader.is_finished(), "the read should wait for the next keeper");
            supervisor.orders.write_all(b"again\n").unwrap();
            let got = reader.join().unwrap().expect("the next keeper answers");
            assert!(got == content, "{}", kind[0]);
            space.migrate(&path);
        }
        // If the worker has become the keeper, the supervisor's next keeper replaces it.
        let keeper = supervisor.next_ready();
        space.wait_for("the worker", || space.try_status().code() == 0);
        kill(keeper, Signal::KILL);
        assert!(fs::read(&path).unwrap() == content);
        let taker = space.keeper_now().unwrap();
        assert_ne!(taker, keeper);
        supervisor.orders.write_all(b"again\n").unwrap();
        let next = supervisor.next_ready();
        space.wait_for("the end of the other one", || space.keepers() == [next]);
        space.wait_for("the worker", || space.try_status().code() == 0);
        space.migrate(&path);
        assert!(fs::read(&path).unwrap() == content);
    }
}
