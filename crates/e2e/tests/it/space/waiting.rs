//! Many readers that wait at once, and room for the files that they wait for.

use super::*;

/// Number of files: more than are recalled at once.
const MANY: usize = 80;

#[test]
fn the_server_knows_of_all_that_is_waited_for() {
    let Some(space) = Space::new(KINDS[0], &["--min-size", "1"]) else { return };
    let content = |index: usize| noise(100 + index as u64, 9000);
    let paths: Vec<PathBuf> = (0..MANY)
        .map(|index| space.write(&format!("d/{index}"), &content(index)))
        .collect();
    space.migrate(&space.fs().join("d"));
    space.scene.server.freeze(true);
    let folder = space.fs().join("d").to_str().unwrap().to_owned();
    let list = space.node().spawn(&["hsm", "recall", "--json", &folder]);
    std::thread::scope(|scope| {
        let read = |path: &PathBuf| {
            let path = path.clone();
            scope.spawn(move || fs::read(path).unwrap())
        };
        let readers: Vec<_> = paths.iter().map(read).collect();
        space.wait_for("all at the server", || {
            let rows = space.try_status().json_lines();
            rows.iter().filter(|row| row["state"] == "at the server").count() == MANY
        });
        space.scene.server.freeze(false);
        for (index, reader) in readers.into_iter().enumerate() {
            assert!(reader.join().unwrap() == content(index), "{index}");
        }
    });
    list.wait().expect(&[0]);
}

/// All files failed if the server was started again at that moment.
#[test]
fn a_migration_waits_for_a_server_that_is_away() {
    let Some(mut space) = Space::new(KINDS[0], &["--min-size", "1"]) else { return };
    space.scene.node.wait_by_default();
    let folder = space.write("d/file", &noise(300, MIB)).parent().unwrap().to_owned();
    let migrate = |space: &Space| {
        let migration = space.node().spawn(&["hsm", "migrate", "--json", folder.to_str().unwrap()]);
        pause(Duration::from_secs(2));
        assert!(!migration.ends_within(Duration::ZERO), "it waits");
        migration
    };
    space.scene.server.kill9();
    let given_up = migrate(&space);
    given_up.signal(Signal::INT);
    given_up.wait().expect(&[12]);
    assert_eq!(space.state(&folder.join("file")), "r");
    let migration = migrate(&space);
    space.scene.server.restart();
    migration.wait().expect(&[0]);
    assert_eq!(space.state(&folder.join("file")), "m");
}

#[test]
fn who_gives_up_a_list_holds_nobody_up() {
    let Some(space) = Space::new(KINDS[0], &["--min-size", "1"]) else { return };
    for index in 0..MANY {
        space.write(&format!("d/{index}"), &noise(200 + index as u64, 9000));
    }
    let folder = space.fs().join("d");
    space.migrate(&folder);
    space.scene.server.freeze(true);
    let rows = || space.try_status().json_lines().len();
    let list = space.node().spawn(&["hsm", "recall", "--json", folder.to_str().unwrap()]);
    pause(Duration::from_secs(1));
    drop(list.kill9());
    // Within this time, the killed command is noticed.
    pause(Duration::from_secs(2));
    space.scene.server.freeze(false);
    space.wait_for("nothing to wait for", || rows() == 0);
    let is_stub = |index: &usize| space.state(&folder.join(index.to_string())) == "m";
    let stubs = (0..MANY).filter(is_stub).count();
    assert_eq!(stubs, MANY, "files for which nobody waits should stay stubs");
    space.hsm(&["recall"], &folder).expect(&[0]);
}

#[test]
fn a_recall_onto_a_full_disk_migrates_what_policy_lets_go() {
    let never = ["--high", "100", "--low", "60", "--premigrated", "0", "--unused-days", "0"];
    let Some(space) = Space::new(KINDS[0], &never) else { return };
    let content = noise(90, 60 * MIB);
    let path = space.stub("file", &content);
    let others = || (0..).map(|number| space.fs().join(format!("other-{number}")));
    let is_written = |(path, seed): (PathBuf, u64)| fs::write(path, noise(seed, 30 * MIB)).is_ok();
    let written = others().zip(1000..).map_while(|one| is_written(one).then_some(())).count();
    assert!(written > 5, "the disk should be full; number of files: {written}");
    assert!(fs::read(&path).unwrap() == content);
    for (other, seed) in others().zip(1000..).take(written) {
        assert!(fs::read(&other).unwrap() == noise(seed, 30 * MIB), "{other:?}");
    }
}
