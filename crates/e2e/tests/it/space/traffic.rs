//! The amount of data that migrations and recalls send.

use e2e::harness::{COMMAND_MAX, Proxy};

use super::*;

const FILES: u64 = 200;
const FILE_BYTES: usize = 200_000;
const SMALL_BYTES: usize = 8192;

impl Space {
    /// Makes a space whose node reaches the server through a proxy.
    fn behind_proxy(kind: &[&str]) -> Option<(Self, Proxy)> {
        let mut space = Self::new(kind, &[])?;
        let proxy = Proxy::start(space.scene.server.port());
        space.kill_all();
        let again = space.scene.server.admin(&["node", "add", "anna", "--again"]);
        let address = format!("127.0.0.1:{}", proxy.port());
        space.node().enrol_at(&address, again["token"].as_str().unwrap());
        space.start(&[]);
        Some((space, proxy))
    }
}

#[test]
fn what_is_backed_up_migrates_without_its_data() {
    for kind in KINDS {
        let Some((space, proxy)) = Space::behind_proxy(kind) else { continue };
        let old = space.write("old", &noise(300, 8 * MIB));
        space.node().backup(&space.fs(), &[]).expect(&[0]);
        let new = space.write("new", &noise(301, 8 * MIB));
        let sent = |path: &Path| {
            let before = proxy.weather().asked_bytes();
            let rows = space.hsm(&["migrate"], path).expect(&[0]).json_lines();
            assert!(rows[0]["bytes"].as_u64().unwrap() >= 8 << 20, "{rows:?}");
            proxy.weather().asked_bytes() - before
        };
        let (of_old, of_new) = (sent(&old), sent(&new));
        assert!(of_old < 100_000, "{}: bytes sent: {of_old}", kind[0]);
        assert!(of_new > 8 << 20, "{}: bytes sent: {of_new}", kind[0]);
        assert!(fs::read(&old).unwrap() == noise(300, 8 * MIB), "{}", kind[0]);
        // A recalled file is compared, and not sent again.
        let of_old = sent(&old);
        assert!(of_old < 100_000, "{}: bytes sent again: {of_old}", kind[0]);
    }
}

/// Writes the file for `--filelist`.
fn write_list(list: &Path, paths: &[PathBuf]) {
    let lines = paths.iter().map(|path| format!("{}\n", path.display()));
    fs::write(list, lines.collect::<String>()).unwrap();
}

#[test]
fn a_list_that_was_interrupted_goes_on_with_what_is_missing() {
    for kind in KINDS {
        let Some((space, proxy)) = Space::behind_proxy(kind) else { continue };
        let content = |number| noise(310 + number, FILE_BYTES);
        let (folder, list) = (space.fs().join("many"), space.scene.scratch.join("list"));
        let paths: Vec<PathBuf> = (0..FILES)
            .map(|number| space.write(&format!("many/{number}"), &content(number)))
            .collect();
        let words = ["hsm", "recall", "--filelist", list.to_str().unwrap(), "--json"];
        let recall = |paths: &[PathBuf]| {
            write_list(&list, paths);
            let rows = space.node().run(&words).expect(&[0]).json_lines();
            assert_eq!(rows.len(), paths.len(), "{}: {rows:?}", kind[0]);
        };
        let answered = || proxy.weather().answered_bytes();
        space.migrate(&folder);
        let before = answered();
        recall(&paths);
        let at_once = answered() - before;
        space.migrate(&folder);

        let mut running = space.node().spawn(&words);
        assert!(running.next_line(COMMAND_MAX).is_some(), "a file should be recalled");
        running.signal(Signal::INT);
        let outcome = running.wait();
        drop(outcome.expect(&[12]).says("interrupted; the files that are done stay done"));
        let (here, missing): (Vec<&PathBuf>, Vec<&PathBuf>) = paths
            .iter()
            .partition(|path| fs::metadata(path).unwrap().blocks() * 512 >= FILE_BYTES as u64);
        assert!(!here.is_empty() && !missing.is_empty(), "{}: {}", kind[0], here.len());
        // How much was on its way when the command was interrupted depends on the machine. So a
        // half is recalled first, and what comes for the whole list after that is counted.
        recall(&paths[..paths.len() / 2]);
        let before = answered();
        recall(&paths);
        let rest = answered() - before;
        assert!(rest < at_once * 3 / 4, "{}: {rest} bytes of a half, {at_once} of all", kind[0]);
        let before = answered();
        recall(&paths);
        let again = answered() - before;
        assert!(again < at_once / 20, "{}: {again} bytes for recalled files", kind[0]);
        for (number, path) in (0..).zip(&paths) {
            assert!(fs::read(path).unwrap() == content(number), "{}: {number}", kind[0]);
        }
    }
}

#[test]
fn a_quantum_that_several_files_need_is_fetched_once() {
    for kind in KINDS {
        let Some((space, proxy)) = Space::behind_proxy(kind) else { continue };
        let content = |number| noise(600 + number, SMALL_BYTES);
        let paths: Vec<PathBuf> = (0..FILES)
            .map(|number| space.write(&format!("small/{number}"), &content(number)))
            .collect();
        let list = space.scene.scratch.join("list");
        write_list(&list, &paths);
        // In a list, files migrate whatever their size.
        let words = ["hsm", "migrate", "--filelist", list.to_str().unwrap(), "--json"];
        let rows = space.node().run(&words).expect(&[0]).json_lines();
        assert!(rows.iter().all(|row| row["state"] == "m"), "{}: {rows:?}", kind[0]);
        let before = proxy.weather().answered_bytes();
        for (number, path) in (0..).zip(&paths) {
            assert!(fs::read(path).unwrap() == content(number), "{}: {number}", kind[0]);
        }
        let answered = proxy.weather().answered_bytes() - before;
        // Each quantum has many of the files, and comes as a whole.
        let stored = FILES * SMALL_BYTES as u64;
        let is_once = (stored..stored * 2).contains(&answered);
        assert!(is_once, "{}: {answered} bytes for {stored} bytes of files", kind[0]);
    }
}
