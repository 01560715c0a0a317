//! Readers that wait in vain: for a server that hangs, and after a signal.

use super::*;

/// Limit for the end of a wait of some seconds, or of one that a signal ends: waits that nobody
/// limits and nothing ends take minutes.
const SHORT_MAX: Duration = Duration::from_secs(30);

/// Python program that prints what ends its read of the file: a signal that it catches.
const CATCHER: &str = "\
import signal, sys
caught = []
signal.signal(signal.SIGINT, lambda number, frame: caught.append(number))
print('ready', flush=True)
try:
    open(sys.argv[1], 'rb').read()
    print('content', flush=True)
except OSError as error:
    print(error.errno, caught, flush=True)
";

impl Space {
    fn rows(&self) -> usize {
        self.try_status().json_lines().len()
    }
}

#[test]
fn a_server_that_hangs_is_waited_for_as_long_as_is_set() {
    let Some(space) = Space::new(KINDS[0], &["--wait", "3s"]) else { return };
    let (content, fs_path) = (noise(1, MIB), space.fs());
    let (first, second) = (space.stub("first", &content), space.stub("second", &content));
    // The server hangs before the worker connects, and on a connection that exists.
    for path in [&first, &second] {
        space.scene.server.freeze(true);
        let began = e2e::clock::now();
        let error = fs::read(path).expect_err("nobody has the content");
        let waited = began.elapsed();
        space.scene.server.freeze(false);
        assert_eq!(error.raw_os_error(), Some(libc::EIO), "{error}");
        let expected = Duration::from_secs(3)..SHORT_MAX;
        assert!(expected.contains(&waited), "{waited:?}");
        space.wait_for("nobody to wait", || space.rows() == 0);
        assert!(fs::read(path).unwrap() == content);
        space.migrate(path);
    }
    // The setting counts for those who wait already.
    space.scene.server.freeze(true);
    let set = ["hsm", "add", fs_path.to_str().unwrap(), "--wait"];
    space.node().run(&[&set[..], &["10m"]].concat()).expect(&[0]);
    let reader = std::thread::spawn({
        let first = first.clone();
        move || fs::read(first)
    });
    pause(Duration::from_secs(5));
    assert!(!reader.is_finished(), "the reader should wait for ten minutes");
    space.node().run(&[&set[..], &["1s"]].concat()).expect(&[0]);
    let error = reader.join().unwrap().expect_err("nobody has the content");
    assert_eq!(error.raw_os_error(), Some(libc::EIO), "{error}");
    space.scene.server.freeze(false);
    assert!(fs::read(&first).unwrap() == content);
}

#[test]
fn a_server_that_is_busy_is_waited_for() {
    let Some(space) = Space::new(KINDS[0], &["--wait", "5s"]) else { return };
    let content = noise(2, 20 * MIB);
    let stub = space.stub("file", &content);
    // The content needs longer than the wait, because the server works only now and then.
    let reader = std::thread::spawn(move || fs::read(stub));
    for _ in 0..12 {
        space.scene.server.freeze(true);
        pause(Duration::from_millis(500));
        space.scene.server.freeze(false);
        pause(Duration::from_millis(300));
    }
    assert!(reader.join().unwrap().unwrap() == content);
}

#[test]
fn a_signal_ends_the_wait_of_a_program() {
    let Some(space) = Space::new(KINDS[0], &["--wait", "10m"]) else { return };
    let stub = space.stub("file", &noise(3, MIB));
    space.scene.server.freeze(true);
    // A program that does not catch the signal ends at once. This process may ignore it.
    let mut cat = Command::new("env");
    cat.args(["--default-signal=INT", "cat"]).arg(&stub).stdout(Stdio::null());
    let mut cat = cat.spawn().unwrap();
    space.wait_for("the reader", || space.rows() == 1);
    kill(cat.id(), Signal::INT);
    let ended = e2e::clock::now();
    assert!(!cat.wait().unwrap().success());
    assert!(ended.elapsed() < SHORT_MAX);
    space.wait_for("nobody to wait", || space.rows() == 0);
    // A program that catches it gets an error, and handles the signal.
    let mut command = Command::new("python3");
    command.args(["-c", CATCHER]).arg(&stub).stdout(Stdio::piped());
    let Ok(mut python) = command.spawn() else {
        e2e::skip::say("python3 is not installed");
        space.scene.server.freeze(false);
        return;
    };
    space.wait_for("the reader", || space.rows() == 1);
    kill(python.id(), Signal::INT);
    let mut said = String::new();
    python.stdout.take().unwrap().read_to_string(&mut said).unwrap();
    python.wait().unwrap();
    let expected = format!("ready\n{} [{}]\n", libc::EAGAIN, libc::SIGINT);
    assert_eq!(said, expected);
    space.scene.server.freeze(false);
    assert!(fs::read(&stub).unwrap() == noise(3, MIB));
}
