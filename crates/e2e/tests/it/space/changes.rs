//! Settings and file systems that change while `hsm run` runs.

use super::*;

/// Time until a change that nobody has announced has taken effect, if it does.
const SOON: Duration = Duration::from_secs(2);

impl Space {
    /// Changes the settings of the managed file system at `path`; returns the document of the
    /// command.
    #[track_caller]
    fn set(&self, path: &Path, options: &[&str]) -> Value {
        let words = [&["hsm", "add", path.to_str().unwrap(), "--json"], options].concat();
        self.node().run(&words).expect(&[0]).json()
    }

    /// State of the file system at `path`, as `hsm list` shows it.
    fn state_of_filesystem(&self, path: &Path) -> String {
        let rows = self.node().run(&["hsm", "list", "--json"]).expect(&[0]).json_lines();
        let row = rows.iter().find(|row| row["mount_point"] == path.to_str().unwrap());
        row.map_or_else(String::new, |row| row["state"].as_str().unwrap().to_owned())
    }

    #[track_caller]
    pub(super) fn wait_for_state(&self, path: &Path, state: &str) {
        self.wait_for(state, || self.state_of_filesystem(path) == state);
    }

    /// A program that reads a stub of the first file system, and that waits until the server goes
    /// on.
    fn waiting_reader(&self, stub: &Path) -> std::thread::JoinHandle<std::io::Result<Vec<u8>>> {
        self.scene.server.freeze(true);
        let path = stub.to_owned();
        let reader = std::thread::spawn(move || fs::read(path));
        self.wait_for("the reader", || {
            assert!(!reader.is_finished(), "the reader should wait for the server");
            !self.try_status().json_lines().is_empty()
        });
        reader
    }
}

fn errno(read: std::io::Result<Vec<u8>>) -> Option<i32> {
    read.err().and_then(|error| error.raw_os_error())
}

#[test]
fn settings_are_in_effect_when_the_command_has_ended() {
    let Some(space) = Space::new(KINDS[0], &["--high", "100"]) else { return };
    let (fs_path, content) = (space.fs(), noise(1, MIB));
    let stub = space.stub("file", &content);
    let set = space.set(&fs_path, &["--requests-only", "yes"]);
    assert_eq!(set["state"], "managed", "{set}");
    assert_eq!(errno(fs::read(&stub)), Some(libc::EPERM));
    space.set(&fs_path, &["--requests-only", "no"]);
    assert!(fs::read(&stub).unwrap() == content);
    // The thresholds are looked at as soon as they change.
    space.hsm(&["recall"], &stub).expect(&[0]);
    let worker = space.worker_pid();
    let options = ["--high", "0", "--low", "0", "--premigrated", "0", "--unused-days", "0"];
    space.set(&fs_path, &options);
    let began = e2e::clock::now();
    space.wait_for("the migration", || space.state(&stub) == "m");
    assert!(began.elapsed() < Duration::from_secs(8), "{:?}", began.elapsed());
    assert_eq!(space.worker_pid(), worker, "no process should be started again");
    assert_eq!(space.node().run(&["hsm", "add", fs_path.to_str().unwrap()]).stderr, "");
}

#[test]
fn a_file_of_settings_that_is_edited_is_read_and_a_bad_one_changes_nothing() {
    let Some(space) = Space::new(KINDS[0], &[]) else { return };
    let stub = space.stub("file", &noise(1, MIB));
    let file = space.node().home().join("hsm.toml");
    let text = fs::read_to_string(&file).unwrap();
    let edit = |text: &str| fs::write(&file, text).unwrap();
    edit(&text.replace("requests_only = false", "requests_only = true"));
    kill(space.keeper_pid(), Signal::HUP);
    space.wait_for("the new settings", || {
        let refusal = errno(fs::read(&stub));
        if refusal.is_none() {
            // It came before the change, and has recalled the file.
            space.migrate(&stub);
        }
        refusal == Some(libc::EPERM)
    });
    // The keeper reads the file without a signal too.
    edit(&text);
    space.wait_for("the old settings", || fs::read(&stub).is_ok());
    space.migrate(&stub);
    for bad in ["nonsense", "", &text.replace("high_percent = 90", "high_percent = 190")] {
        edit(bad);
        kill(space.keeper_pid(), Signal::HUP);
        pause(SOON);
        assert!(fs::read(&stub).unwrap() == noise(1, MIB), "{bad}");
        // A stub that nobody watches would be read as zeros.
        edit(&text);
        pause(SOON);
        space.migrate(&stub);
    }
}

#[test]
fn a_file_system_is_added_and_removed_while_another_is_read() {
    for kind in KINDS {
        let Some(space) = Space::new(kind, &[]) else { continue };
        let content = noise(1, MIB);
        let stub = space.stub("file", &content);
        let other = space.unmanaged(kind);
        let stub_of_other = other.path().join("file");
        fs::write(&stub_of_other, noise(2, MIB)).unwrap();
        let set = space.set(other.path(), &[]);
        assert_eq!(set["state"], "managed", "{}: {set}", kind[0]);
        assert_eq!(space.state_of_filesystem(&space.fs()), "managed");
        space.migrate(&stub_of_other);
        let processes = (space.keeper_now(), space.worker_pid());
        let reader = space.waiting_reader(&stub);
        let remove = ["hsm", "remove", other.path().to_str().unwrap()];
        space.node().run(&remove).expect(&[12]).says("would read as zeros");
        space.scene.server.freeze(false);
        assert!(reader.join().unwrap().unwrap() == content);
        assert!(fs::read(&stub_of_other).unwrap() == noise(2, MIB));
        space.migrate(&stub);
        let reader = space.waiting_reader(&stub);
        space.wait_for("the record", || space.node().run(&remove).code() == 0);
        assert_eq!(space.state_of_filesystem(other.path()), "");
        // Its files are not hidden any more, and none of them migrates.
        assert!(other.path().join("file").try_exists().unwrap());
        space.wait_for("the unmounting", || other.unmount());
        assert!(!reader.is_finished(), "the reader should wait for the server");
        space.scene.server.freeze(false);
        assert!(reader.join().unwrap().unwrap() == content, "{}", kind[0]);
        assert_eq!((space.keeper_now(), space.worker_pid()), processes, "{}", kind[0]);
    }
}

#[test]
fn a_file_system_that_is_mounted_later_or_again_is_taken_up() {
    for kind in KINDS {
        for options in [&[][..], &["--hidden", "no"]] {
            let Some(mut space) = Space::new(kind, &[]) else { continue };
            let other = space.add_another(kind);
            space.set(other.path(), options);
            space.wait_for_state(other.path(), "managed");
            let (path, content) = (other.path().join("file"), noise(1, MIB));
            fs::write(&path, &content).unwrap();
            space.migrate(&path);
            for _ in 0..2 {
                space.wait_for("the unmounting", || other.unmount());
                space.wait_for_state(other.path(), "not mounted");
                assert!(other.mount_again());
                space.wait_for_state(other.path(), "managed");
                assert!(fs::read(&path).unwrap() == content, "{} {options:?}", kind[0]);
                space.migrate(&path);
            }
            // It may be away when the processes start.
            space.wait_for("the unmounting", || other.unmount());
            space.kill_all();
            space.start(&[]);
            assert_eq!(space.state_of_filesystem(other.path()), "not mounted");
            assert!(other.mount_again());
            space.wait_for_state(other.path(), "managed");
            assert!(fs::read(&path).unwrap() == content, "{} {options:?}", kind[0]);
        }
    }
}

#[test]
fn hiding_is_switched_while_the_files_are_used() {
    let Some(space) = Space::new(KINDS[0], &[]) else { return };
    let (fs_path, content) = (space.fs(), noise(1, MIB));
    let stub = space.stub("file", &content);
    let is_hidden = || fs_path.join(".holdfast-hidden").try_exists().unwrap();
    space.set(&fs_path, &["--hidden", "no"]);
    assert!(!is_hidden() && fs::read(&stub).unwrap() == content);
    space.migrate(&stub);
    let open = File::open(space.write("open", b"open")).unwrap();
    space.set(&fs_path, &["--hidden", "yes"]);
    let rows = space.node().run(&["hsm", "list", "--json"]).expect(&[0]).json_lines();
    assert_eq!(rows[0]["hidden"], true, "{rows:?}");
    let mut text = String::new();
    (&open).read_to_string(&mut text).unwrap();
    assert_eq!(text, "open");
    assert!(fs::read(&stub).unwrap() == content);
}

#[test]
fn it_says_when_it_is_ready() {
    let Some(mut space) = Space::new(KINDS[0], &[]) else { return };
    let stub = space.stub("file", &noise(1, MIB));
    let first = space.fs();
    let limit = Duration::from_secs(30);
    let line = space.keeper.as_mut().unwrap().next_line(limit).unwrap();
    assert!(line.starts_with("Ready: ") && line.contains(first.to_str().unwrap()), "{line}");
    space.kill_all();
    assert_eq!(space.state_of_filesystem(&first), "not running");
    let mut keeper = space.node().spawn(&["hsm", "run", "--json"]);
    let line = keeper.next_line(limit).unwrap();
    // Requests are carried out from this moment on.
    assert_eq!(space.try_status().code(), 0);
    let told: Value = serde_json::from_str(&line).unwrap();
    assert_eq!(
        (&told["event"], &told["filesystems"][0]),
        (&"ready".into(), &first.to_str().into())
    );
    space.keeper = Some(keeper);
    assert_eq!(space.state_of_filesystem(&first), "managed");
    assert!(fs::read(&stub).unwrap() == noise(1, MIB));
}
