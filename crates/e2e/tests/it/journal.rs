//! Backups by the journal: nothing is missed, whatever programs do, and every doubt leads to a
//! walk.
//!
//! After a backup by the journal, a dry run that walks everything must find nothing to do. The dry
//! run changes nothing at the server, so the journal goes on.

mod stranger;
mod unreported;

use std::fs::{self, File};
use std::os::unix::fs::{FileExt as _, PermissionsExt as _, symlink};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use e2e::harness::{Image, Outcome, Process, succeeds};
use e2e::manifest::assert_same;
use e2e::mutator::Mutator;
use rustix::fs::{CWD, RenameFlags};
use rustix::process::Signal;
use serde_json::Value;

use self::unreported::MappedFile;
use crate::chaos::setting;
use crate::scene::{Scene, manifest, plant_files, root_or_skip};

const IMAGE_BYTES: u64 = 400 << 20;
/// Options of a backup that is caught while it works.
const SLOW: [&str; 4] = ["--txngroupmax", "50", "--limit-rate-send", "2M"];
const START_MAX: Duration = Duration::from_secs(120);

/// Commands that make a file system.
const FILE_SYSTEMS: [&[&str]; 3] =
    [&["mkfs.ext4", "-q", "-F"], &["mkfs.xfs", "-q"], &["mkfs.btrfs", "-q"]];

/// A server, a node, a file system that is backed up, and its watcher.
struct Site {
    image: Image,
    watcher: Option<Process>,
    scene: Scene,
}

impl Site {
    /// Makes a site with a file system; `None` if this machine cannot make it.
    fn new(mkfs: &[&str]) -> Option<Self> {
        if !root_or_skip("the journal") {
            return None;
        }
        if !sys::fanotify::changes::reports_overlays().unwrap() {
            e2e::skip::say("overlays hide changes on this kernel, so that the journal is not used");
            return None;
        }
        let scene = Scene::new();
        let (file, folder) = (scene.scratch.join("image"), scene.scratch.join("mounted"));
        let Some(image) = Image::mount(&file, IMAGE_BYTES, mkfs, &folder) else {
            e2e::skip::say(&format!("{} or a loop mount does not work on this machine", mkfs[0]));
            return None;
        };
        // Its change time is a whole second: a backup does not trust it for two seconds.
        let _only_on_ext4 = fs::remove_dir(image.path().join("lost+found"));
        let mut site = Self { image, watcher: None, scene };
        site.start_watcher();
        Some(site)
    }

    fn ext4() -> Option<Self> {
        Self::new(FILE_SYSTEMS[0])
    }

    fn start_watcher(&mut self) {
        let watcher = self.scene.node.spawn(&["journal", "run"]);
        let began = e2e::clock::now();
        while self.scene.node.run(&["journal", "status", "--json"]).code() != 0 {
            assert!(!watcher.ends_within(Duration::ZERO), "the watcher has ended");
            assert!(began.elapsed() < START_MAX, "the watcher does not answer");
            e2e::clock::pause(Duration::from_millis(20));
        }
        self.watcher = Some(watcher);
    }

    fn kill_watcher(&mut self) {
        self.watcher.take().expect("it runs").kill9();
    }

    fn top(&self) -> &Path {
        self.image.path()
    }

    fn set(&self, key: &str, value: &str) {
        let path = self.scene.node.home().join("client.toml");
        let text = fs::read_to_string(&path).unwrap();
        let rest: String = text
            .lines()
            .filter(|line| !line.starts_with(&format!("{key} =")))
            .map(|line| format!("{line}\n"))
            .collect();
        fs::write(path, format!("{key} = {value}\n{rest}")).unwrap();
    }

    fn backup(&self, options: &[&str]) -> Outcome {
        self.scene.node.backup(self.top(), options)
    }

    /// Backs up, and checks that the backup went by the journal.
    #[track_caller]
    fn by_journal(&self) -> Outcome {
        let done = self.backup(&[]).expect(&[0]);
        let journal = journal(&done);
        assert_eq!(journal["used"], true, "{journal}");
        done
    }

    /// Backs up, and checks that the backup has walked everything for this reason.
    #[track_caller]
    fn walks(&self, reason: &str) -> Outcome {
        let done = self.backup(&[]).expect(&[0]);
        let journal = journal(&done);
        let said = journal["reason"].as_str().unwrap_or_default();
        assert!(journal["used"] == false && said.contains(reason), "{journal}");
        done
    }

    /// Checks that a walk finds nothing to do. `done` describes the changes before.
    #[track_caller]
    fn nothing_is_missing(&self, done: &str) {
        let walk = self.backup(&["--dry-run", "--no-journal"]).expect(&[0]);
        let planned = &walk.json()["planned"];
        assert_eq!(planned.as_array().map(Vec::len), Some(0), "missed: {planned}\nafter {done}");
    }

    /// Fills the file system, and backs up until the journal is used.
    #[track_caller]
    fn anchored(self) -> Self {
        plant_files(&self.top().join("tree"), 200, 300, 1);
        self.walks("no complete backup");
        self.by_journal();
        self
    }

    fn status(&self) -> Value {
        let state = self.scene.node.run(&["journal", "status", "--json"]).expect(&[0]);
        state.json()["filesystems"][0].clone()
    }
}

/// Returns the part of a report about the journal of the only filespace.
#[track_caller]
fn journal(done: &Outcome) -> Value {
    let journals = done.json()["journals"].clone();
    assert_eq!(journals.as_array().map(Vec::len), Some(1), "{journals}");
    journals[0].clone()
}

fn run(command: &str, arguments: &[&str], path: &Path) {
    let done = succeeds(Command::new(command).args(arguments).arg(path));
    assert!(done, "{command} {arguments:?} {path:?}");
}

/// Changes that stand in folders of their own, so that a change that is missed has a name.
fn change_in_every_way(top: &Path) {
    let at = |path: &str| top.join(path);
    fs::write(at("create/new"), "new").unwrap();
    File::options()
        .write(true)
        .open(at("write/f"))
        .unwrap()
        .write_all_at(b"W", 0)
        .unwrap();
    File::options().write(true).open(at("truncate/f")).unwrap().set_len(1).unwrap();
    fs::set_permissions(at("chmod/f"), fs::Permissions::from_mode(0o600)).unwrap();
    fs::set_permissions(at("chmod-folder/d"), fs::Permissions::from_mode(0o711)).unwrap();
    run("touch", &["-d", "2001-01-01"], &at("touch/f"));
    run("touch", &["-d", "2001-01-01"], &at("touch-folder/d"));
    run("chown", &["7:7"], &at("chown/f"));
    run("chown", &["-h", "7:7"], &at("chown-link/l"));
    run("setfattr", &["-n", "user.a", "-v", "1"], &at("xattr/f"));
    run("setfacl", &["-m", "u:7:r"], &at("acl/f"));
    fs::remove_file(at("unlink/f")).unwrap();
    fs::remove_dir_all(at("rmdir/d")).unwrap();
    fs::create_dir_all(at("mkdir/a/b/c")).unwrap();
    fs::write(at("mkdir/a/b/c/f"), "deep").unwrap();
    symlink("target", at("symlink/l")).unwrap();
    fs::rename(at("rename/f"), at("rename/g")).unwrap();
    fs::rename(at("rename-over/f"), at("rename-over/d/f")).unwrap();
    fs::rename(at("rename-folder/d"), at("rename-folder/e")).unwrap();
    fs::rename(at("move-folder/from/d"), at("move-folder/to/d")).unwrap();
    // A folder is moved, and an object in it changes afterwards.
    fs::rename(at("move-change/d"), at("move-change/e")).unwrap();
    fs::write(at("move-change/e/f"), "changed after the move").unwrap();
    // An object changes, and its folder is moved afterwards.
    fs::write(at("change-move/d/f"), "changed before the move").unwrap();
    fs::rename(at("change-move/d"), at("change-move/e")).unwrap();
    let (one, other) = (at("exchange/d"), at("exchange/e"));
    rustix::fs::renameat_with(CWD, one, CWD, other, RenameFlags::EXCHANGE).unwrap();
    // One folder takes the place of another.
    fs::rename(at("replace/d"), at("replace/old")).unwrap();
    fs::rename(at("replace/e"), at("replace/d")).unwrap();
    fs::hard_link(at("link-here/f"), at("link-here/g")).unwrap();
    // The other name of this file is in another folder.
    fs::write(at("linked/two/f"), "through the other name").unwrap();
    fs::remove_file(at("unlink-one/two/f")).unwrap();
    run("mkfifo", &[], &at("mkfifo/p"));
    run("fallocate", &["-l", "100000"], &at("fallocate/f"));
    fs::copy(at("copy/f"), at("copy/g")).unwrap();
    fs::set_permissions(top, fs::Permissions::from_mode(0o750)).unwrap();
}

fn plant_for_changes(top: &Path) {
    let folders = [
        "create",
        "write",
        "truncate",
        "chmod",
        "chmod-folder/d",
        "touch",
        "touch-folder/d",
        "chown",
        "chown-link",
        "xattr",
        "acl",
        "unlink",
        "rmdir/d",
        "mkdir",
        "symlink",
        "rename",
        "rename-over",
        "rename-over/d",
        "rename-folder/d/sub",
        "move-folder/from/d/sub",
        "move-folder/to",
        "move-change/d",
        "change-move",
        "change-move/d",
        "exchange/d",
        "exchange/e",
        "replace/d",
        "replace/e",
        "link-here",
        "linked/one",
        "linked/two",
        "unlink-one/one",
        "unlink-one/two",
        "mkfifo",
        "fallocate",
        "copy",
        "untouched/a/b",
    ];
    for folder in folders {
        fs::create_dir_all(top.join(folder)).unwrap();
        if !folder.ends_with("/two") {
            fs::write(top.join(folder).join("f"), folder).unwrap();
        }
    }
    symlink("target", top.join("chown-link/l")).unwrap();
    for folder in ["linked", "unlink-one"] {
        fs::hard_link(top.join(folder).join("one/f"), top.join(folder).join("two/f")).unwrap();
    }
}

#[test]
fn every_kind_of_change_is_seen_on_every_file_system() {
    for mkfs in FILE_SYSTEMS {
        let Some(site) = Site::new(mkfs) else { continue };
        let tree = site.top().join("all");
        fs::create_dir(&tree).unwrap();
        plant_for_changes(&tree);
        site.walks("no complete backup");
        site.by_journal();
        site.nothing_is_missing("the first backups");
        change_in_every_way(&tree);
        let done = site.by_journal();
        assert!(done.count("inspected") < 150, "it has looked at most of the tree: {done}");
        site.nothing_is_missing(mkfs[0]);
        // Nothing has changed since.
        let idle = site.by_journal();
        assert_eq!((idle.count("backed_up"), idle.count("expired")), (0, 0), "{idle}");
        let out = site.scene.scratch.folder("out");
        site.scene.node.restore(&tree, &out, &[]).expect(&[0]);
        assert_same(&manifest(&tree), &manifest(&out.join("all")));
    }
}

#[test]
fn random_changes_are_never_missed() {
    let rounds = count("HOLDFAST_JOURNAL_ROUNDS", 4);
    let first = count("HOLDFAST_JOURNAL_SEED", 1);
    let mut is_tested = false;
    for (mkfs, seed) in FILE_SYSTEMS.into_iter().zip(first..) {
        let Some(site) = Site::new(mkfs) else { continue };
        is_tested = true;
        let mut mutator = Mutator::new(site.top(), seed);
        mutator.run(150);
        site.walks("no complete backup");
        let mut used = 0;
        for round in 0..rounds {
            let operations = mutator.run(30);
            let done = site.backup(&["--confirm"]).expect(&[0]);
            // A new name of a file whose other names are not known makes the backup walk.
            used += u64::from(journal(&done)["used"] == true);
            let text = format!("{} seed {seed} round {round}: {operations:?}", mkfs[0]);
            site.nothing_is_missing(&text);
        }
        assert!(used > 0, "no backup of {} went by the journal", mkfs[0]);
        println!("{}: {used} of {rounds} backups went by the journal", mkfs[0]);
    }
    assert_tested(is_tested);
}

/// Fails if `make journal-test` has asked for the tests, and this machine could test none of the
/// file systems. Among all tests this is no failure: the lines about what is left out say it.
#[track_caller]
fn assert_tested(is_tested: bool) {
    let is_asked_for = setting("HOLDFAST_JOURNAL_ROUNDS").is_some();
    assert!(
        !is_asked_for || is_tested,
        "none of the file systems could be tested: see the lines that begin with 'skipped'"
    );
}

fn count(variable: &str, default: u64) -> u64 {
    setting(variable).unwrap_or(default)
}

#[test]
fn a_killed_watcher_leads_to_a_walk() {
    let Some(site) = Site::ext4() else { return };
    let mut site = site.anchored();
    site.kill_watcher();
    fs::write(site.top().join("tree/unseen"), "nobody watches").unwrap();
    // Without a watcher the journal is not mentioned, unless the configuration asks for it.
    let done = site.backup(&["--dry-run"]).expect(&[0]);
    assert_eq!(done.json()["journals"].as_array().map(Vec::len), Some(0), "{done}");
    site.set("journal", "\"yes\"");
    site.backup(&["--dry-run"]).expect(&[8]).says("no watcher is running");
    site.start_watcher();
    site.walks("no complete backup");
    site.nothing_is_missing("a killed watcher");
    site.by_journal();
    // A second watcher with this folder refuses to start.
    site.scene.node.run(&["journal", "run"]).expect(&[12]).says("already running");
}

/// Each backup of a folder said why it did not use a journal that nobody had asked for.
#[test]
fn a_node_without_a_watcher_hears_nothing_of_the_journal() {
    let scene = Scene::with_files(3, 10);
    let tree = scene.tree.to_str().expect("a path");
    let none: &[&str] = &[];
    for options in [none, &["--full"], &["--selective"], &["--dry-run"]] {
        let done = scene.node.backup(&scene.tree, options).expect(&[0]);
        assert_eq!(done.json()["journals"].as_array().map(Vec::len), Some(0), "{done}");
        let text = scene.node.run(&[&["backup", tree], options].concat()).expect(&[0]);
        assert!(!text.stdout.contains("Journal"), "{text}");
    }
    let config = scene.node.home().join("client.toml");
    let own = fs::read_to_string(&config).unwrap();
    fs::write(&config, format!("journal = \"yes\"\n{own}")).unwrap();
    let done = scene.backup().json();
    let reason = done["journals"][0]["reason"].as_str().unwrap_or_default();
    assert!(reason.contains("only a part"), "who asks for a journal hears of it: {done}");
}

/// Fills the queue of the kernel, so that a change is not reported.
fn overflow(site: &Site) {
    let watcher = site.watcher.as_ref().expect("it runs");
    watcher.freeze(true);
    let limit = fs::read_to_string("/proc/sys/fs/fanotify/max_queued_events").unwrap();
    let files: usize = limit.trim().parse::<usize>().unwrap() + 1000;
    let folder = site.top().join("storm");
    fs::create_dir_all(&folder).unwrap();
    for number in 0..files {
        let path = folder.join(format!("{number}"));
        File::create(&path).unwrap();
        fs::remove_file(&path).unwrap();
    }
    fs::write(site.top().join("tree/after"), "its report was lost").unwrap();
    watcher.freeze(false);
}

#[test]
fn an_overflow_of_the_queue_leads_to_a_walk() {
    let Some(site) = Site::ext4() else { return };
    let site = site.anchored();
    overflow(&site);
    site.walks("the queue of the kernel was full");
    site.nothing_is_missing("an overflow");
    assert_eq!(site.status()["overflows"], 1);
    site.by_journal();
}

#[test]
fn a_new_mount_leads_to_a_walk() {
    let Some(site) = Site::ext4() else { return };
    let site = site.anchored();
    let again = site.scene.scratch.folder("again");
    assert!(site.image.unmount());
    // The file system changes where the watcher does not look.
    let file = site.scene.scratch.join("image");
    let mount = Command::new("mount").args(["-o", "loop"]).arg(&file).arg(&again).status();
    assert!(mount.unwrap().success());
    fs::write(again.join("tree/elsewhere"), "another mount").unwrap();
    run("umount", &[], &again);
    assert!(site.image.mount_again());
    site.walks("no complete backup");
    site.nothing_is_missing("a new mount");
    site.by_journal();
    // A remount with other options is no new mount.
    run("mount", &["-o", "remount,noatime"], site.top());
    fs::write(site.top().join("tree/new"), "after the remount").unwrap();
    site.by_journal();
    site.nothing_is_missing("a remount");
}

#[test]
fn a_file_system_that_does_not_report_all_changes_is_walked() {
    let Some(site) = Site::ext4() else { return };
    let memory = site.scene.scratch.folder("memory");
    run("mount", &["-t", "tmpfs", "none"], &memory);
    let walks = || {
        let done = site.scene.node.backup(&memory, &[]).expect(&[0]);
        let journal = journal(&done);
        let reason = journal["reason"].as_str().unwrap_or_default();
        let is_silent = reason.contains("does not report all changes");
        assert!(journal["used"] == false && is_silent, "{journal}");
        done
    };
    walks();
    fs::write(memory.join("new"), "new").unwrap();
    assert!(walks().count("backed_up") > 0, "the walk finds what is new");
    run("umount", &[], &memory);
}

#[test]
fn whatever_changes_the_pages_at_the_server_leads_to_a_walk() {
    let Some(site) = Site::ext4() else { return };
    let site = site.anchored();
    let other_pages = "the server has other pages";
    site.backup(&["--exclude", "file-0003"]).expect(&[0]);
    site.walks(other_pages);
    site.nothing_is_missing("a backup with another rule");
    site.by_journal();
    // A selective backup of a part, and a backup of a part with the same rules.
    let part = site.top().join("tree/folder-00");
    fs::write(part.join("file-0001"), "changed").unwrap();
    site.scene.node.backup(&part, &[]).expect(&[0]);
    site.walks(other_pages);
    site.nothing_is_missing("a backup of a part");
    site.by_journal();
    site.scene.server.admin(&["node", "set", "anna", "--backdelete", "yes"]);
    let deleted = part.join("file-0004");
    site.scene
        .node
        .run(&["delete", deleted.to_str().unwrap(), "--json"])
        .expect(&[0]);
    site.walks(other_pages);
    site.nothing_is_missing("a deletion at the server");
    site.by_journal();
    // Other rules have no anchor.
    fs::write(site.scene.node.home().join("inclexcl"), "exclude /.../file-0005\n").unwrap();
    site.walks("no complete backup");
    site.nothing_is_missing("another rule of the node");
    site.by_journal();
}

#[test]
fn a_backup_that_is_killed_or_stopped_misses_nothing() {
    let Some(site) = Site::ext4() else { return };
    let site = site.anchored();
    plant_files(&site.top().join("more"), 3000, 4000, 7);
    let running = site.scene.node.spawn_backup(site.top(), &SLOW);
    while site.scene.node.list(site.top(), &["-r"]).len() < 400 {
        assert!(!running.ends_within(Duration::ZERO), "the backup ended before it was killed");
    }
    running.kill9();
    fs::write(site.top().join("more/folder-00/file-0000"), "changed").unwrap();
    let done = site.backup(&[]).expect(&[0]);
    assert_eq!(journal(&done)["used"], false, "{done}");
    site.nothing_is_missing("a killed backup");
    site.by_journal();
    // A backup that is stopped by a signal ends in order, and the journal goes on.
    plant_files(&site.top().join("most"), 3000, 4000, 8);
    let running = site.scene.node.spawn_backup(site.top(), &SLOW);
    let before = site.scene.node.list(site.top(), &["-r"]).len();
    while site.scene.node.list(site.top(), &["-r"]).len() < before + 200 {
        assert!(!running.ends_within(Duration::ZERO), "the backup ended before it was stopped");
    }
    running.signal(Signal::INT);
    running.wait();
    site.by_journal();
    site.nothing_is_missing("a stopped backup");
}

#[test]
fn a_first_further_name_leads_to_a_walk_and_later_ones_do_not() {
    let Some(site) = Site::ext4() else { return };
    let site = site.anchored();
    let tree = site.top().join("tree");
    fs::hard_link(tree.join("folder-00/file-0001"), tree.join("folder-01/link")).unwrap();
    site.walks("further name");
    site.nothing_is_missing("a further name");
    fs::write(tree.join("folder-00/file-0001"), "changed through the first name").unwrap();
    site.by_journal();
    site.nothing_is_missing("a change through one name");
    fs::remove_file(tree.join("folder-00/file-0001")).unwrap();
    site.by_journal();
    site.nothing_is_missing("one name less");
}

#[test]
fn files_that_are_held_open_or_mapped_are_looked_at() {
    let Some(site) = Site::ext4() else { return };
    let site = site.anchored();
    let file = MappedFile::of(&site);
    for value in 1..4 {
        file.write(value);
        site.by_journal();
        site.nothing_is_missing("a write through a mapping");
    }
}

#[test]
fn a_walk_that_compares_finds_flags_and_no_bugs() {
    let Some(site) = Site::ext4() else { return };
    let site = site.anchored();
    site.set("journal_full_walk_days", "0");
    fs::write(site.top().join("tree/folder-00/new"), "reported").unwrap();
    run("chattr", &["+A"], &site.top().join("tree/folder-01/file-0051"));
    let done = site.backup(&[]).expect(&[0]);
    let journal = journal(&done);
    assert_eq!((&journal["compared"], &journal["missed"]), (&true.into(), &0.into()), "{journal}");
    assert_eq!(journal["silent"], 1, "{journal}");
    assert!(journal["reason"].as_str().unwrap().contains("compare"), "{journal}");
}

#[test]
fn another_file_system_below_is_not_forgotten() {
    let Some(site) = Site::ext4() else { return };
    let below = site.top().join("below");
    fs::create_dir(&below).unwrap();
    fs::write(below.join("covered"), "under the mount").unwrap();
    let site = site.anchored();
    let mount = |arguments: &[&str]| run("mount", arguments, &below);
    mount(&["-t", "tmpfs", "none"]);
    fs::set_permissions(&below, fs::Permissions::from_mode(0o711)).unwrap();
    site.by_journal();
    site.nothing_is_missing("a mount below");
    run("umount", &[], &below);
    fs::write(below.join("covered"), "seen again").unwrap();
    site.by_journal();
    site.nothing_is_missing("an unmount below");
    // The same file system at two places has two paths for each directory.
    run("mount", &["--bind", site.top().join("tree").to_str().unwrap()], &below);
    site.walks("mounted again");
    run("umount", &[], &below);
}

#[test]
fn excluded_directories_stay_excluded() {
    let Some(site) = Site::ext4() else { return };
    let list = site.scene.node.home().join("inclexcl");
    fs::write(&list, "exclude.dir /.../hidden\nexclude.tag CACHEDIR.TAG\n").unwrap();
    let site = site.anchored();
    let (hidden, tagged) =
        (site.top().join("tree/hidden/deep"), site.top().join("tree/tagged/deep"));
    fs::create_dir_all(&hidden).unwrap();
    fs::create_dir_all(&tagged).unwrap();
    let tag = "Signature: 8a477f597d28d172789f06886806bc55";
    fs::write(site.top().join("tree/tagged/CACHEDIR.TAG"), tag).unwrap();
    site.by_journal();
    fs::write(hidden.join("f"), "excluded").unwrap();
    fs::write(tagged.join("f"), "excluded").unwrap();
    let done = site.by_journal();
    assert_eq!(done.count("backed_up"), 0, "{done}");
    site.nothing_is_missing("changes in excluded directories");
}

#[test]
fn the_socket_is_for_its_owner_alone() {
    let Some(site) = Site::ext4() else { return };
    let mode = fs::metadata(site.scene.node.home().join("journal.socket"))
        .unwrap()
        .permissions();
    assert_eq!(mode.mode() & 0o777, 0o600);
}

/// Changes below a virtual filespace are none of the file system around it, and a
/// new virtual filespace is no fault of the journal.
#[test]
fn a_virtual_filespace_is_left_out_without_an_alarm() {
    let Some(site) = Site::ext4() else { return };
    let own = site.top().join("own");
    plant_files(&own, 5, 100, 2);
    let site = site.anchored();
    site.set("virtual_filespaces", &format!("['{}']", own.display()));
    site.walks("no complete backup").counts(&[("expired", 6), ("failed", 0)]);
    let (inside, outside) = (own.join("folder-00/file-0000"), site.top().join("tree/new"));
    fs::write(inside, "changed").unwrap();
    fs::write(outside, "new").unwrap();
    fs::create_dir_all(own.join("further/below")).unwrap();
    let done = site.by_journal();
    assert!(done.count("backed_up") >= 1 && done.count("expired") == 0, "{done}");
    site.nothing_is_missing("changes at both sides of a virtual filespace");
    let first = site.scene.node.backup(&own, &[]).expect(&[0]);
    assert!(journal(&first)["reason"].as_str().unwrap().contains("virtual filespace"), "{first}");
    first.counts(&[("failed", 0), ("expired", 0)]);
    site.by_journal().counts(&[("expired", 0)]);
}
