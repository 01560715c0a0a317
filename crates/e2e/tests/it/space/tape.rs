//! Migrated files whose copies are on volumes.

use std::os::unix::fs::FileExt as _;

use super::*;
use crate::administration_from_tsm::dsmadmc;

const FILES: usize = 24;
const FILE_BYTES: usize = 300_000;

/// Files with their contents.
pub(super) type Files = Vec<(PathBuf, Vec<u8>)>;

impl Space {
    /// Migrates files as [`Space::on_volumes`]. One volume is mounted at a time, and nothing that
    /// was read from one is kept.
    fn on_one_mount() -> Option<(Self, Files)> {
        let (mut space, files) = Self::on_volumes()?;
        space.scene.configure("stage_bytes", 0);
        space.scene.server.admin(&["library", "set", "vault", "--mounts", "1"]);
        Some((space, files))
    }

    fn spawn_recall(&self, path: &Path) -> Process {
        self.node().spawn(&["hsm", "recall", path.to_str().unwrap(), "--json"])
    }

    /// Migrates files in three rounds, each of which goes to a volume of its own.
    pub(super) fn on_volumes() -> Option<(Self, Files)> {
        let space = Self::new(KINDS[0], &[])?;
        let scene = &space.scene;
        scene.add_library("3M");
        scene.add_tape(&[]);
        let mut files = Vec::new();
        for index in 0..FILES {
            let content = noise(index as u64, FILE_BYTES);
            let path = space.write(&format!("run-{}/file-{index:02}", index % 3), &content);
            files.push((path, content));
        }
        for round in 0..3 {
            space.migrate(&space.fs().join(format!("run-{round}")));
            scene.drain();
        }
        Some((space, files))
    }

    /// The files in which the volumes are.
    fn volume_files(&self) -> Vec<PathBuf> {
        let folder = self.scene.scratch.join("tapes");
        crate::scene::names(&folder)
            .into_iter()
            .map(|name| folder.join(String::from_utf8(name).unwrap()))
            .filter(|path| path.extension().is_some_and(|suffix| suffix == "volume"))
            .collect()
    }

    #[track_caller]
    fn preview(&self, list: &Path) -> (Value, i32) {
        let list = list.to_str().unwrap();
        let words = ["hsm", "recall", "--filelist", list, "--dry-run", "--json"];
        let outcome = self.node().run(&words);
        (outcome.json_lines().remove(0), outcome.code())
    }
}

fn list_of(space: &Space, files: &[(PathBuf, Vec<u8>)]) -> PathBuf {
    let list = space.scene.scratch.join("list");
    // The order of the list differs from the order on the volumes.
    let lines = (0..files.len()).map(|index| &files[index * 7 % files.len()].0);
    let lines: Vec<String> = lines.map(|path| format!("{}\n", path.display())).collect();
    fs::write(&list, lines.concat()).unwrap();
    list
}

#[test]
fn who_opens_a_file_gets_it_from_its_volume() {
    let Some((_space, files)) = Space::on_volumes() else { return };
    let (path, content) = &files[5];
    assert_eq!(fs::read(path).unwrap(), *content);
    // A part of a second file is read, and then a third file as a whole.
    let mut part = vec![0; 5000];
    File::open(&files[6].0).unwrap().read_exact_at(&mut part, 123_456).unwrap();
    assert_eq!(part, files[6].1[123_456..][..5000]);
    assert_eq!(fs::read(&files[7].0).unwrap(), files[7].1);
}

#[test]
fn a_list_comes_volume_by_volume_as_the_preview_says() {
    let Some((space, files)) = Space::on_volumes() else { return };
    let list = list_of(&space, &files);
    let (plan, code) = space.preview(&list);
    assert_eq!(code, 0, "{plan}");
    let volumes = plan["volumes"].as_array().unwrap();
    assert!(volumes.len() >= 3, "{plan}");
    let of_all: u64 = volumes.iter().map(|volume| volume["files"].as_u64().unwrap()).sum();
    assert_eq!(of_all, FILES as u64, "{plan}");
    let order = plan["order"].as_array().unwrap();
    assert_eq!(order.len(), FILES);
    // Files that were migrated together are recalled together: a round ends before another begins.
    let rounds: Vec<&str> = order.iter().map(round_of).collect();
    let changes = rounds.windows(2).filter(|two| two[0] != two[1]).count();
    assert_eq!(changes, 2, "{rounds:?}");
    let stays_migrated = |(path, _): &(PathBuf, Vec<u8>)| space.state(path) == "m";
    assert!(files.iter().all(stays_migrated), "a preview should recall nothing");
    let words = ["hsm", "recall", "--filelist", list.to_str().unwrap(), "--json"];
    let rows = space.node().run(&words).expect(&[0]).json_lines();
    assert_eq!(rows.len(), FILES);
    assert!(rows.iter().all(|row| row["state"] == "p"), "{rows:?}");
    for (path, content) in &files {
        assert_eq!(fs::read(path).unwrap(), *content);
    }
    // Recalled files need no volume any more.
    let (plan, _) = space.preview(&list);
    assert_eq!((plan["mounts"].as_u64(), plan["order"].as_array().unwrap().len()), (Some(0), 0));
}

fn round_of(path: &Value) -> &str {
    path.as_str().unwrap().split('/').find(|part| part.starts_with("run-")).unwrap()
}

#[test]
fn what_lies_offsite_is_said_and_comes_back() {
    let Some((mut space, files)) = Space::on_volumes() else { return };
    space.scene.configure("stage_bytes", 0);
    let server = &space.scene.server;
    let names: Vec<String> = space.scene.volume_names();
    let all: Vec<&str> = names.iter().map(String::as_str).collect();
    server.admin(&[&["volume", "offsite", "--location", "the bank"], &all[..]].concat());
    let error = fs::read(&files[0].0).unwrap_err();
    assert_eq!(error.raw_os_error(), Some(5), "{error}");
    let list = list_of(&space, &files);
    let (plan, code) = space.preview(&list);
    assert_ne!(code, 0);
    let problem = plan["volumes"][0]["problem"].as_str().unwrap();
    assert!(problem.contains("offsite, in the bank"), "{plan}");
    server.admin(&[&["volume", "onsite"], &all[..]].concat());
    assert_eq!(fs::read(&files[0].0).unwrap(), files[0].1);
}

#[test]
fn lists_go_on_where_opens_are_refused() {
    let Some((mut space, files)) = Space::on_volumes() else { return };
    space.scene.configure("stage_bytes", 0);
    let server = &space.scene.server;
    server.admin(&["library", "set", "vault", "--optimised-only", "yes"]);
    fs::read(&files[0].0).unwrap_err();
    let rows = space.hsm(&["recall"], &files[0].0).expect(&[0]).json_lines();
    assert_eq!(rows[0]["state"], "p");
    assert_eq!(fs::read(&files[0].0).unwrap(), files[0].1);
    server.admin(&["library", "set", "vault", "--optimised-only", "no"]);
    assert_eq!(fs::read(&files[1].0).unwrap(), files[1].1);
}

/// A program that was killed waited for ever in the queue, and its volume was mounted for nobody.
#[test]
fn a_program_that_is_killed_while_it_waits_loses_its_place_and_its_mount() {
    let Some((mut space, files)) = Space::on_volumes() else { return };
    space.scene.configure("stage_bytes", 0);
    let server = &space.scene.server;
    server.admin(&["library", "set", "vault", "--mounts", "1", "--retain", "0"]);
    let volumes: Vec<PathBuf> = crate::scene::names(&space.scene.scratch.join("tapes"))
        .into_iter()
        .map(|name| space.scene.scratch.join("tapes").join(String::from_utf8(name).unwrap()))
        .filter(|path| path.extension().is_some_and(|suffix| suffix == "volume"))
        .collect();
    let Some(held) = leases::Lease::take("read", &volumes) else { return };
    let queue = || server.try_admin(&["queue"]).expect(&[0]).json_lines();
    let reader = |index: usize| {
        let path = &files[index].0;
        Command::new("cat").arg(path).stdout(Stdio::null()).spawn()
    };
    // The first program holds the only mount, and the second one waits for it.
    let mut first = reader(0).unwrap();
    space.wait_for("the first", || queue().len() == 1);
    let under_way = queue().remove(0)["volume"].clone();
    let mut second = reader(1).unwrap();
    space.wait_for("the second", || queue().len() == 2);
    let other = queue().into_iter().find(|wait| wait["volume"] != under_way);
    let other = other.expect("the files are on two volumes")["volume"].clone();
    second.kill().unwrap();
    second.wait().unwrap();
    space.wait_for("the place of the second", || queue().len() == 1);
    let recalls = || space.try_status().expect(&[0]).json_lines();
    let shows = |path: &Path| {
        let path = path.to_str().unwrap();
        recalls().iter().any(|line| line.to_string().contains(path))
    };
    assert!(shows(&files[0].0) && !shows(&files[1].0), "{:?}", recalls());
    drop(held);
    assert!(first.wait().unwrap().success());
    space.wait_for("the end of the queue", || queue().is_empty());
    // Nobody wanted the other volume any more, so its file was not even opened.
    let events = server.try_admin(&["log"]).expect(&[0]).to_string();
    assert!(!events.contains("trouble"), "{events}");
    assert_eq!(space.state(&files[1].0), "m", "nothing of {other} was recalled");
    assert_eq!(fs::read(&files[1].0).unwrap(), files[1].1);
}

#[test]
fn who_waits_for_a_volume_is_listed_and_sent_away() {
    let Some((space, files)) = Space::on_one_mount() else { return };
    // A process that opens a volume waits until the lease on the volume ends.
    let Some(held) = leases::Lease::take("read", &space.volume_files()) else { return };
    let server = &space.scene.server;
    let queue = || server.try_admin(&["queue"]).expect(&[0]).json_lines();
    let first = space.spawn_recall(&files[0].0);
    space.wait_for("the queue", || !queue().is_empty());
    let wait = queue().remove(0);
    assert_eq!((&wait["kind"], &wait["node"]), (&"list".into(), &"anna".into()), "{wait}");
    assert_eq!((&wait["uid"], &wait["program"]), (&0.into(), &"holdfast".into()), "{wait}");
    let under_way = wait["volume"].as_str().unwrap();
    assert!(space.scene.volume_names().contains(&under_way.to_owned()), "{wait}");
    // The only mount is in use, so the volume of the second recall is not mounted.
    let second = space.spawn_recall(&files[1].0);
    let others = || queue().into_iter().filter(|wait| wait["volume"] != *under_way);
    space.wait_for("the other", || others().next().is_some());
    server.try_admin(&["queue", "cancel", "999999"]).expect(&[12]);
    // The second recall first waits for a read ahead, and then for the file itself.
    for _ in 0..600 {
        for wait in others() {
            let number = wait["number"].to_string();
            drop(server.try_admin(&["queue", "cancel", &number]).expect(&[0, 12]));
        }
        if second.ends_within(Duration::from_millis(100)) {
            break;
        }
    }
    assert!(second.ends_within(Duration::ZERO), "the second recall should end");
    let rows = second.wait().expect(&[4]).json_lines();
    assert!(rows[0]["error"].as_str().unwrap().contains("cancelled"), "{rows:?}");
    drop(held);
    first.wait().expect(&[0]);
    space.wait_for("the end of the queue", || queue().is_empty());
    assert_eq!(fs::read(&files[1].0).unwrap(), files[1].1);
    assert_eq!(fs::read(&files[0].0).unwrap(), files[0].1);
}

#[test]
fn all_who_wait_for_a_volume_are_sent_away() {
    let Some((space, files)) = Space::on_one_mount() else { return };
    let Some(held) = leases::Lease::take("read", &space.volume_files()) else { return };
    let server = &space.scene.server;
    let is_waiting = || !server.try_admin(&["queue"]).expect(&[0]).json_lines().is_empty();
    let first = space.spawn_recall(&files[0].0);
    space.wait_for("the queue", is_waiting);
    // The only mount is in use.
    let second = space.spawn_recall(&files[1].0);
    for _ in 0..600 {
        drop(dsmadmc(server, &["cancel request all"]).expect(&[0, 11]));
        if second.ends_within(Duration::from_millis(100)) {
            break;
        }
    }
    assert!(second.ends_within(Duration::ZERO), "the second recall should end");
    let rows = second.wait().expect(&[4]).json_lines();
    assert!(rows[0]["error"].as_str().unwrap().contains("cancelled"), "{rows:?}");
    drop(held);
    // Its pack may have been on the way already.
    first.wait().expect(&[0, 4]);
}

#[test]
fn a_user_of_the_node_sees_the_volume_the_place_and_the_time() {
    let Some((mut space, mut files)) = Space::on_volumes() else { return };
    // A second pack comes onto a volume that has one.
    let content = noise(77, 100_000);
    files.push((space.write("extra", &content), content));
    space.migrate(&files[files.len() - 1].0);
    space.scene.drain();
    space.scene.configure("stage_bytes", 0);
    space.scene.server.admin(&["library", "set", "vault", "--mounts", "1"]);
    // The number of each recall is known to the node only.
    let Some(held) = leases::Lease::take("read", &space.volume_files()) else { return };
    let read = [0, 1, 2, 4, 7, files.len() - 1];
    let readers = read.map(|index| {
        let path = files[index].0.clone();
        std::thread::spawn(move || fs::read(path))
    });
    let rows = || space.try_status().expect(&[0]).json_lines();
    let has_place = |row: &Value| row["volume_place"].is_u64();
    space.wait_for("the places", || {
        rows().iter().filter(|row| has_place(row)).count() == read.len()
    });
    let rows = rows();
    let queue = space.scene.server.try_admin(&["queue"]).expect(&[0]).json_lines();
    for row in &rows {
        assert_eq!(row["state"], "at the server", "{row}");
        assert!(space.scene.volume_names().contains(&row["volume"].as_str().unwrap().to_owned()));
        let is_of_row = |wait: &&Value| {
            wait["volume"] == row["volume"]
                && wait["ahead"].as_u64().map(|ahead| ahead + 1) == row["volume_place"].as_u64()
        };
        assert!(queue.iter().any(|wait| is_of_row(&wait)), "{row}: {queue:?}");
    }
    let of_file = |index: usize| {
        let path = files[index].0.to_str().unwrap();
        let row = rows.iter().find(|row| row["path"] == path).unwrap();
        (row["volume"].as_str().unwrap().to_owned(), row["volume_place"].as_u64().unwrap())
    };
    // The files of one round are in one pack, which is read once.
    let same = [1, 4, 7].map(of_file);
    assert!(same.iter().all(|one| *one == same[0]), "{same:?}");
    assert_ne!(of_file(0).0, same[0].0);
    // Packs on one volume are read one behind the other.
    let (shared, place) = of_file(files.len() - 1);
    let mut places = vec![place];
    places.extend(
        [0, 1, 2]
            .map(of_file)
            .into_iter()
            .filter(|(of, _)| *of == shared)
            .map(|one| one.1),
    );
    places.sort_unstable();
    assert_eq!(places, [1, 2], "{rows:?}");
    assert!(rows.iter().any(|row| row["eta_secs"].is_number()), "{rows:?}");
    let text = space.node().run(&["hsm", "status"]).expect(&[0]).stdout;
    assert!(text.contains(&shared) && text.contains("Volume"), "{text}");
    drop(held);
    for (reader, index) in readers.into_iter().zip(read) {
        assert!(reader.join().unwrap().unwrap() == files[index].1, "{index}");
    }
}
