//! Options that choose among versions, in the commands of TSM.

use std::fs;
use std::io::Write as _;
use std::process::{Command, Output, Stdio};

use e2e::clock;

use super::{Site, date_and_time};

/// The server deletes the inactive versions of a file together, so that a date, or a version that
/// a person would pick, cannot choose among them.
#[test]
fn nothing_is_deleted_by_a_choice_that_would_be_ignored() {
    let site = Site::new(1);
    let file = site.scene.file(0);
    let path = file.to_str().unwrap();
    for content in ["one", "two"] {
        fs::write(&file, content).unwrap();
        site.dsmc(&["sel", path]).expect(&[0]);
    }
    site.scene.server.admin(&["node", "set", "anna", "--backdelete", "yes"]);
    for choice in [
        &["-deltype=inactive", "-todate=2999-01-01"][..],
        &["-deltype=all", "-fromdate=2001-01-01"],
        &["-deltype=inactive", "-pitdate=2999-01-01"],
        &["-pick"],
    ] {
        let words = [&["delete", "backup", path, "-noprompt"], choice].concat();
        site.dsmc(&words).expect(&[12]).says("ANS1108E");
    }
    let versions = site.dsmc(&["q", "ba", path, "-inactive", "-json"]).expect(&[0]).json_lines();
    assert_eq!(versions.len(), 2, "{versions:?}");
    let words = ["delete", "backup", path, "-noprompt", "-todate=2001-01-01"];
    site.dsmc(&words).expect(&[12]).says("ANS1302E");
    let words = ["delete", "backup", path, "-noprompt", "-todate=2999-01-01"];
    site.dsmc(&words).expect(&[0]);
}

/// With -inactive, the dates choose among all versions: the newest of these comes back, and not the
/// newest of all.
#[test]
fn dates_choose_among_inactive_versions() {
    let site = Site::new(0);
    let (kept, gone) = (site.scene.tree.join("kept"), site.scene.tree.join("gone"));
    let all = format!("{}/*", site.tree());
    for file in [&kept, &gone] {
        fs::write(file, b"first").unwrap();
    }
    site.dsmc(&["i", &all, "-su=yes"]).expect(&[0]);
    let (date, time) = date_and_time(&clock::divide());
    fs::write(&kept, b"second").unwrap();
    fs::remove_file(&gone).unwrap();
    site.dsmc(&["i", &all, "-su=yes"]).expect(&[0]);
    let (todate, totime) = (format!("-todate={date}"), format!("-totime={time}"));
    let list = site.scene.scratch.join("list");
    fs::write(&list, format!("{}\n{}\n", kept.display(), gone.display())).unwrap();
    let option = format!("-filelist={}", list.display());
    for (name, source) in [("operand", all.as_str()), ("list", option.as_str())] {
        let to = site.scene.scratch.folder(&format!("{name}-restored"));
        let destination = format!("{}/", to.display());
        site.dsmc(&["restore", source, &destination, &todate, &totime, "-inactive"])
            .expect(&[0]);
        let to = if name == "list" { to } else { to.join("tree") };
        for file in ["kept", "gone"] {
            assert_eq!(fs::read(to.join(file)).unwrap(), b"first", "{name}");
        }
    }
}

/// A deletion of images takes active ones only, unless -deltype says otherwise.
#[test]
fn a_deletion_of_images_takes_those_of_its_type() {
    let site = Site::new(0);
    let disk = site.scene.scratch.join("disk");
    let path = disk.to_str().unwrap();
    for fill in 1..4_u8 {
        fs::write(&disk, vec![fill; 300_000]).unwrap();
        site.dsmc(&["backup", "image", path]).expect(&[0]);
    }
    site.scene.server.admin(&["node", "set", "anna", "--backdelete", "yes"]);
    let states = || {
        let words = ["q", "image", path, "-inactive", "-json"];
        let rows = site.dsmc(&words).expect(&[0]).json_lines();
        rows.iter().map(|row| row["active"].as_bool().unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(states(), [true, false, false]);
    let active = site.dsmc(&["q", "image", path, "-json"]).expect(&[0]).json_lines();
    assert_eq!(active.len(), 1, "{active:?}");
    site.dsmc(&["q", "image", path, "-numberformat=5"])
        .expect(&[0])
        .says("292,97 KB");
    let delete = |choice: &[&str]| {
        let words = ["delete", "backup", path, "-objtype=image", "-noprompt"];
        site.dsmc(&[&words[..], choice].concat())
    };
    delete(&["-deltype=inactive", "-todate=2001-01-01"])
        .expect(&[12])
        .says("ANS1302E");
    delete(&["-deltype=inactive"]).expect(&[0]);
    assert_eq!(states(), [true]);
    delete(&["-deltype=inactive"]).expect(&[12]);
    delete(&[]).expect(&[0]);
    site.dsmc(&["q", "image", path]).expect(&[8]);
}

#[test]
fn images_are_shown_as_of_a_moment_and_of_a_range() {
    let site = Site::new(0);
    let disk = site.scene.scratch.join("disk");
    let path = disk.to_str().unwrap();
    let back_up = |bytes: usize| {
        fs::write(&disk, vec![7; bytes]).unwrap();
        site.dsmc(&["backup", "image", path]).expect(&[0]);
    };
    back_up(100_000);
    back_up(200_000);
    let (date, time) = date_and_time(&clock::divide());
    back_up(300_000);
    let sizes = |choice: &[&str]| {
        let words = [&["q", "image", path, "-json"][..], choice].concat();
        let rows = site.dsmc(&words).expect(&[0]).json_lines();
        rows.iter().map(|row| row["bytes"].as_u64().unwrap()).collect::<Vec<_>>()
    };
    let at = [format!("-pitdate={date}"), format!("-pittime={time}")];
    let [at_date, at_time] = at.each_ref().map(String::as_str);
    assert_eq!(sizes(&[at_date, at_time]), [200_000]);
    assert_eq!(sizes(&[at_date, at_time, "-inactive"]), [200_000, 100_000]);
    let (todate, totime) = (format!("-todate={date}"), format!("-totime={time}"));
    assert_eq!(sizes(&["-inactive", &todate, &totime]), [200_000, 100_000]);
    assert_eq!(sizes(&["-fromdate=2001-01-01"]), [300_000]);
    site.dsmc(&["q", "image", path, "-pitdate=2001-01-01"])
        .expect(&[8])
        .says("ANS1092W");
}

/// The commands ran for no disk if there were several.
#[test]
fn commands_run_around_the_image_of_each_disk() {
    let site = Site::new(0);
    let disks = ["one", "two"].map(|name| site.scene.scratch.join(name));
    for disk in &disks {
        fs::write(disk, vec![7; 300_000]).unwrap();
    }
    let log = site.scene.scratch.join("log");
    let note = |word: &str| format!("echo {word} >> {}", log.display());
    let before = format!("-presnapshotcmd={}", note("on"));
    let after = format!("-postsnapshotcmd={}", note("off"));
    let [one, two] = disks.each_ref().map(|disk| disk.to_str().unwrap());
    let options = ["-snapshotproviderimage=none", &before, &after];
    site.dsmc(&[&["backup", "image", one, two][..], &options].concat()).expect(&[0]);
    assert_eq!(fs::read_to_string(&log).unwrap(), "on\noff\non\noff\n");
    // A command after the snapshot needs none before it.
    fs::remove_file(&log).unwrap();
    let options = ["-snapshotproviderimage=none", &after];
    site.dsmc(&[&["backup", "image", one][..], &options].concat()).expect(&[0]);
    assert_eq!(fs::read_to_string(&log).unwrap(), "off\n");
    site.dsmc(&[&["backup", "image", one, two][..], &options].concat()).expect(&[0]);
    assert_eq!(fs::read_to_string(&log).unwrap(), "off\noff\noff\n");
}

/// Runs `dsmc` with the answer of a person.
fn answered(site: &Site, words: &[&str], answer: &str) -> Output {
    let mut process = Command::new(site.programs.join("dsmc"))
        .arg(format!("-optfile={}", site.options.display()))
        .args(words)
        .env("HOLDFAST_HOME", site.scene.node.home())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    process.stdin.take().unwrap().write_all(answer.as_bytes()).unwrap();
    process.wait_with_output().unwrap()
}

/// A command that goes on after `&&` must not take what nobody agreed to as done.
#[test]
fn what_a_person_declines_is_not_done() {
    let site = Site::new(1);
    let file = site.scene.file(0);
    let path = file.to_str().unwrap();
    site.dsmc(&["i", path]).expect(&[0]);
    site.scene.server.admin(&["node", "set", "anna", "--backdelete", "yes"]);
    for words in [&["delete", "backup", path][..], &["expire", path]] {
        let declines = [(r"\(Yes \(Y\)/No \(N\)\)", "n\r")];
        let Some(done) = site.dsmc_at_terminal(words, &declines) else { return };
        let said = String::from_utf8_lossy(&done.stdout);
        let failure = String::from_utf8_lossy(&done.stderr);
        assert_eq!(done.status.code(), Some(12), "{said}\n{failure}");
        assert!(said.contains("Nothing is changed"), "{said}");
    }
    site.dsmc(&["q", "ba", path]).expect(&[0]);
}

#[test]
fn a_person_picks_among_archived_files() {
    let site = Site::new(1);
    let file = site.scene.file(0);
    let path = file.to_str().unwrap();
    for content in ["older", "newer"] {
        fs::write(&file, content).unwrap();
        site.dsmc(&["archive", path, &format!("-desc={content}")]).expect(&[0]);
    }
    site.scene.server.admin(&["node", "set", "anna", "--archdelete", "yes"]);
    let to = site.scene.scratch.join("picked");
    let picked = answered(&site, &["retrieve", path, to.to_str().unwrap(), "-pick"], "2\n");
    assert_eq!(picked.status.code(), Some(0), "{picked:?}");
    assert_eq!(fs::read(&to).unwrap(), b"older");
    let none = answered(&site, &["delete", "archive", path, "-pick", "-noprompt"], "q\n");
    assert_eq!(none.status.code(), Some(12), "{none:?}");
    let one = answered(&site, &["delete", "archive", path, "-pick", "-noprompt"], "1\n");
    assert_eq!(one.status.code(), Some(0), "{one:?}");
    let rest = site.dsmc(&["q", "ar", path, "-json"]).expect(&[0]).json_lines();
    let texts: Vec<_> = rest.iter().map(|row| row["description"].as_str().unwrap()).collect();
    assert_eq!(texts, ["older"]);
}
