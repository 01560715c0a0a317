//! The directory digest hides no change: after any edits, the next incremental backup has the tree
//! as it is.
//!
//! Each case plants a small tree and backs it up. Several rounds follow, each with a few edits, an
//! incremental backup, and a restore that must equal the tree bit for bit. The edits are hard to
//! notice: many edits reset the time of their folder, and one kind of edit keeps a file's size and
//! times, so that only the ctime shows the change.
//!
//! `HOLDFAST_CASES` sets the number of cases; the default keeps the suite fast.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::unix::fs::{FileExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use e2e::folder::Folder;
use e2e::harness::is_root;
use e2e::manifest::{assert_same, diff};
use e2e::nasty::Random;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use rustix::fs::{CWD, IFlags, RenameFlags, renameat_with};

use crate::scene::{Scene, manifest};

const CASES: u32 = 8;
const CASES_VARIABLE: &str = "HOLDFAST_CASES";

/// Maximum number of steps that make a failing case smaller. Each step runs a whole case.
const SHRINK_STEPS_MAX: u32 = 60;

/// Number of files in the large folder: more than a directory page holds (512).
const MANY_FILES: usize = 530;

/// One edit: the action, the objects that it changes, and whether it resets the time of their
/// folder.
#[derive(Clone, Debug)]
struct Edit {
    /// Number that picks an object, modulo the number of objects.
    pick: u16,
    /// Number that picks a second object, if the action needs two.
    other: u16,
    /// Seed of contents, sizes and names.
    seed: u8,
    /// True if the edit resets the mtime of the object's folder.
    hides: bool,
    action: Action,
}

#[derive(Clone, Copy, Debug)]
enum Action {
    CreateFile,
    CreateFolder,
    CreateSymlink,
    Delete,
    /// An object moves into another folder, and replaces an object with the same name.
    Rename,
    /// Two objects exchange their places.
    Exchange,
    /// A file gets new content of another size.
    Write,
    /// A file gets new content of the same size, and its mtime is reset: only the ctime changes.
    Overwrite,
    Append,
    Chmod,
    Chown,
    SetXattr,
    RemoveXattrs,
    ToggleFlag,
    SetTime,
    HardLink,
    /// A file becomes a folder, a folder a file.
    ChangeKind,
    /// A symbolic link gets another target.
    Retarget,
}

const ACTIONS: [Action; 18] = [
    Action::CreateFile,
    Action::CreateFolder,
    Action::CreateSymlink,
    Action::Delete,
    Action::Rename,
    Action::Exchange,
    Action::Write,
    Action::Overwrite,
    Action::Append,
    Action::Chmod,
    Action::Chown,
    Action::SetXattr,
    Action::RemoveXattrs,
    Action::ToggleFlag,
    Action::SetTime,
    Action::HardLink,
    Action::ChangeKind,
    Action::Retarget,
];

fn edit() -> impl Strategy<Value = Edit> {
    let action = proptest::sample::select(&ACTIONS[..]);
    (any::<u16>(), any::<u16>(), any::<u8>(), any::<bool>(), action)
        .prop_map(|(pick, other, seed, hides, action)| Edit { pick, other, seed, hides, action })
}

/// A tree, and in each round the edits before the next incremental backup.
#[derive(Clone, Debug)]
struct Case {
    has_large_folder: bool,
    rounds: Vec<Vec<Edit>>,
}

fn case() -> impl Strategy<Value = Case> {
    let rounds = proptest::collection::vec(proptest::collection::vec(edit(), 1..7), 1..6);
    (proptest::bool::weighted(0.25), rounds)
        .prop_map(|(has_large_folder, rounds)| Case { has_large_folder, rounds })
}

#[test]
fn incremental_skips_no_change() {
    let scene = Scene::new();
    let number = AtomicU64::new(0);
    let cases = std::env::var(CASES_VARIABLE).ok().and_then(|text| text.parse().ok());
    let config = Config {
        cases: cases.unwrap_or(CASES),
        max_shrink_iters: SHRINK_STEPS_MAX,
        failure_persistence: None,
        ..Config::default()
    };
    let outcome = TestRunner::new(config).run(&case(), |case| {
        let number = number.fetch_add(1, Ordering::Relaxed);
        check(&scene, number, &case)
    });
    if let Err(failure) = outcome {
        panic!("{failure}");
    }
}

/// Performs `case` in a folder of its own.
fn check(scene: &Scene, number: u64, case: &Case) -> Result<(), TestCaseError> {
    let tree = scene.scratch.folder(&format!("case-{number}/tree"));
    plant(&tree, case.has_large_folder);
    back_up(scene, &tree)?;
    for (round, edits) in case.rounds.iter().enumerate() {
        let done: Vec<String> = edits.iter().map(|edit| edit.perform(&tree)).collect();
        back_up(scene, &tree)?;
        let out = scene.scratch.folder(&format!("out-{number}-{round}"));
        let restored = scene.node.restore(&tree, &out, &[]);
        prop_assert_eq!(restored.code(), 0, "round {}: {}", round, restored);
        let lines = diff(&manifest(&tree), &manifest(&out.join("tree")));
        prop_assert!(
            lines.is_empty(),
            "after round {} the backup differs from the tree:\n{}\nedits of the round:\n{}",
            round,
            lines.join("\n"),
            done.join("\n")
        );
        remove(&out);
    }
    remove(&scene.scratch.join(&format!("case-{number}")));
    Ok(())
}

fn back_up(scene: &Scene, tree: &Path) -> Result<(), TestCaseError> {
    // Edits may delete most of the small tree, so the expiry is confirmed.
    let outcome = scene.node.backup(tree, &["--confirm"]);
    prop_assert_eq!(outcome.code(), 0, "{}", outcome);
    prop_assert_eq!(outcome.count("failed"), 0, "{}", outcome);
    Ok(())
}

/// Removes a folder. No edit makes an object that could not be removed.
fn remove(folder: &Path) {
    fs::remove_dir_all(folder).unwrap();
}

fn plant(tree: &Path, has_large_folder: bool) {
    let mut random = Random::new(1, b"edits");
    for folder in ["one", "one/inner", "two", "two/inner/deep", "empty"] {
        fs::create_dir_all(tree.join(folder)).unwrap();
    }
    for folder in ["", "one", "one/inner", "two", "two/inner/deep"] {
        for (index, bytes) in [0, 1, 700, 5000].into_iter().enumerate() {
            let path = tree.join(folder).join(format!("file-{index}"));
            fs::write(path, random.bytes(bytes)).unwrap();
        }
    }
    fs::write(tree.join("two/large"), random.bytes(300_000)).unwrap();
    fs::hard_link(tree.join("one/file-2"), tree.join("two/linked")).unwrap();
    std::os::unix::fs::symlink("file-1", tree.join("one/symlink")).unwrap();
    std::os::unix::fs::symlink("nowhere", tree.join("two/inner/symlink")).unwrap();
    if has_large_folder {
        fs::create_dir(tree.join("many")).unwrap();
        for index in 0..MANY_FILES {
            File::create(tree.join(format!("many/{index:03}"))).unwrap();
        }
    }
}

/// Objects below a folder, sorted by name in each folder.
#[derive(Default)]
struct Objects {
    /// All objects except the folder itself, which no edit may remove.
    all: Vec<PathBuf>,
    with_top: Vec<PathBuf>,
    files: Vec<PathBuf>,
    folders: Vec<PathBuf>,
    symlinks: Vec<PathBuf>,
}

impl Objects {
    fn below(top: &Path) -> Self {
        let mut objects = Self { folders: vec![top.to_path_buf()], ..Self::default() };
        objects.visit(top);
        objects.with_top = [&[top.to_path_buf()], &objects.all[..]].concat();
        objects
    }

    fn visit(&mut self, folder: &Path) {
        for name in crate::scene::names(folder) {
            let path = folder.join(std::str::from_utf8(&name).unwrap());
            let kind = fs::symlink_metadata(&path).unwrap().file_type();
            self.all.push(path.clone());
            if kind.is_dir() {
                self.folders.push(path.clone());
                self.visit(&path);
            } else if kind.is_symlink() {
                self.symlinks.push(path);
            } else {
                self.files.push(path);
            }
        }
    }
}

fn picked(paths: &[PathBuf], pick: u16) -> io::Result<&Path> {
    let index = usize::from(pick).checked_rem(paths.len());
    index.map(|index| paths[index].as_path()).ok_or(io::ErrorKind::NotFound.into())
}

impl Edit {
    /// Performs the edit and describes it in a line. An edit that fails in this tree or for this
    /// user is skipped.
    fn perform(&self, tree: &Path) -> String {
        let objects = Objects::below(tree);
        let done = self.choose(&objects).and_then(|(path, second)| {
            let shown = |path: &Path| path.strip_prefix(tree).unwrap_or(path).display().to_string();
            let line = format!("{:?} {} {}", self.action, shown(&path), shown(&second));
            // The edit may remove the folder, so errors are ignored when its time is reset.
            let folders = [&path, &second].map(|path| path.parent().unwrap().to_path_buf());
            let times = folders.clone().map(|folder| fs::metadata(folder)?.modified());
            self.apply(&path, &second)?;
            for (folder, time) in folders.iter().zip(times).filter(|_| self.hides) {
                drop(File::open(folder).and_then(|folder| folder.set_modified(time?)));
            }
            Ok(line)
        });
        done.unwrap_or_else(|error| format!("{:?}: not done, {error}", self.action))
    }

    /// The object to edit, and the second path that the edit needs.
    fn choose(&self, objects: &Objects) -> io::Result<(PathBuf, PathBuf)> {
        let of = match self.action {
            Action::CreateFile | Action::CreateFolder | Action::CreateSymlink => &objects.folders,
            Action::Write | Action::Overwrite | Action::Append | Action::HardLink => &objects.files,
            Action::Retarget => &objects.symlinks,
            Action::Delete | Action::Rename | Action::Exchange | Action::ChangeKind => &objects.all,
            _ => &objects.with_top,
        };
        let path = picked(of, self.pick)?.to_path_buf();
        let folder = picked(&objects.folders, self.other)?;
        Ok(match self.action {
            Action::CreateFile | Action::CreateFolder | Action::CreateSymlink => {
                (path.join(self.name()), path.join(self.name()))
            }
            Action::Rename | Action::HardLink => (path, folder.join(self.name())),
            Action::Exchange => (path, picked(&objects.all, self.other)?.to_path_buf()),
            _ => (path.clone(), path),
        })
    }

    /// One of a few names, so that edits often use the same name. Some sort before the planted
    /// names, some after.
    fn name(&self) -> String {
        ["a", "file-1", "file-9", "inner", "new", "zz"][usize::from(self.seed % 6)].to_owned()
    }

    fn random(&self) -> Random {
        Random::new(self.seed.into(), b"edit")
    }

    fn apply(&self, path: &Path, second: &Path) -> io::Result<()> {
        let mut random = self.random();
        match self.action {
            Action::CreateFile => File::create_new(path)?.write_all(&random.bytes(self.bytes())),
            Action::CreateFolder => fs::create_dir(path),
            Action::CreateSymlink => std::os::unix::fs::symlink("file-1", path),
            Action::Delete => delete(path),
            Action::Rename => fs::rename(path, second),
            Action::Exchange => Ok(renameat_with(CWD, path, CWD, second, RenameFlags::EXCHANGE)?),
            Action::Write => fs::write(path, random.bytes(self.bytes())),
            Action::Overwrite => overwrite(path, &mut random),
            Action::Append => File::options().append(true).open(path)?.write_all(&random.bytes(9)),
            Action::HardLink => fs::hard_link(path, second),
            Action::ChangeKind => self.change_kind(path),
            Action::Retarget => {
                fs::remove_file(path)?;
                std::os::unix::fs::symlink(format!("target-{}", self.seed % 3), path)
            }
            _ => self.apply_to_attributes(path),
        }
    }

    fn apply_to_attributes(&self, path: &Path) -> io::Result<()> {
        let folder = Folder::open(path.parent().unwrap())?;
        let name = path.file_name().unwrap().as_encoded_bytes();
        let number = u32::from(self.seed % 4);
        match self.action {
            Action::Chmod if fs::symlink_metadata(path)?.is_symlink() => Ok(()),
            Action::Chmod => {
                let mode = [0o700, 0o755, 0o750, 0o4711][self.seed as usize % 4];
                fs::set_permissions(path, fs::Permissions::from_mode(mode))
            }
            Action::Chown if is_root() => folder.set_owner(name, number, number),
            Action::SetXattr => {
                let attribute = ["user.a", "user.b"][self.seed as usize % 2];
                folder.set_xattr(name, attribute, &self.random().bytes(self.bytes() % 100))
            }
            Action::RemoveXattrs => {
                for attribute in ["user.a", "user.b"] {
                    drop(folder.remove_xattr(name, attribute));
                }
                Ok(())
            }
            Action::ToggleFlag if fs::symlink_metadata(path)?.is_symlink() => Ok(()),
            Action::ToggleFlag => match folder.flags(name)? {
                Some(flags) => folder.set_flags(name, flags.symmetric_difference(IFlags::NODUMP)),
                None => Ok(()),
            },
            Action::SetTime => {
                let tv_sec = 1_500_000_000 + i64::from(number);
                folder.set_mtime(name, rustix::fs::Timespec { tv_sec, tv_nsec: 0 })
            }
            _ => Ok(()),
        }
    }

    fn change_kind(&self, path: &Path) -> io::Result<()> {
        let was_folder = fs::symlink_metadata(path)?.is_dir();
        delete(path)?;
        if was_folder {
            return fs::write(path, self.random().bytes(self.bytes()));
        }
        fs::create_dir(path)?;
        fs::write(path.join("file-1"), self.random().bytes(self.bytes()))
    }

    /// One of a few sizes: nothing, one byte, and up to 100,000 bytes.
    fn bytes(&self) -> usize {
        [0, 1, 700, 5000, 100_000][usize::from(self.seed % 5)]
    }
}

fn delete(path: &Path) -> io::Result<()> {
    if fs::symlink_metadata(path)?.is_dir() {
        fs::remove_dir_all(path)
    } else {
        fs::remove_file(path)
    }
}

/// Changes all bytes of a file in place and resets its mtime.
fn overwrite(path: &Path, random: &mut Random) -> io::Result<()> {
    let file = File::options().write(true).open(path)?;
    let before = file.metadata()?;
    let bytes = usize::try_from(before.size()).unwrap();
    file.write_all_at(&random.bytes(bytes), 0)?;
    file.set_modified(before.modified()?)
}

/// Guard that sets the flag when it is dropped, so that a failing test does not wait for its thread
/// for ever.
struct StopGuard<'a>(&'a AtomicBool);

impl Drop for StopGuard<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A change between the `stat` of a file and the end of reading it, or shortly after, may leave the
/// ctime as it was. The next backup must still find the change.
#[test]
fn change_during_a_backup_is_in_the_next() {
    const FILES: usize = 20;
    let scene = Scene::with_files(FILES, 300);
    scene.backup();
    let files: Vec<PathBuf> = (0..FILES).map(|index| scene.file(index)).collect();
    for seed in 0..3 {
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut random = Random::new(seed, b"overwrites");
                let mut paths = files.iter().cycle();
                while !stop.load(Ordering::Relaxed) {
                    overwrite(paths.next().unwrap(), &mut random).unwrap();
                }
            });
            let stopper = StopGuard(&stop);
            scene.node.backup(&scene.tree, &[]).expect(&[0, 4]);
            drop(stopper);
        });
        scene.backup();
        let out = scene.restore(&format!("out-{seed}"), &[]);
        assert_same(&manifest(&scene.tree), &manifest(&out));
    }
}

/// The fault: a new mode was regarded as the reason for the new ctime, and the content was not
/// compared.
#[test]
fn content_overwritten_before_a_chmod_is_backed_up() {
    check_one_file(|file, _| {
        overwrite(file, &mut Random::new(2, b"new")).unwrap();
        fs::set_permissions(file, fs::Permissions::from_mode(0o600)).unwrap();
    });
}

/// Setting an inode flag changes the ctime as a change of mode does.
#[test]
fn content_overwritten_before_a_flag_is_set_is_backed_up() {
    check_one_file(|file, _| {
        overwrite(file, &mut Random::new(2, b"new")).unwrap();
        let folder = Folder::open(file.parent().unwrap()).unwrap();
        let name = file.file_name().unwrap().as_encoded_bytes();
        if let Some(flags) = folder.flags(name).unwrap() {
            folder.set_flags(name, flags.union(IFlags::NODUMP)).unwrap();
        }
    });
}

/// In images of containers, all times are the same on purpose, so only the inode shows that a file
/// was replaced. The fault: a new mode was regarded as the whole change.
#[test]
fn file_replaced_by_one_of_another_mode_and_the_same_time_is_backed_up() {
    check_one_file(|file, other| {
        let modified = fs::metadata(file).unwrap().modified().unwrap();
        fs::write(other, Random::new(3, b"other").bytes(1000)).unwrap();
        fs::set_permissions(other, fs::Permissions::from_mode(0o755)).unwrap();
        File::open(other).unwrap().set_modified(modified).unwrap();
        fs::rename(other, file).unwrap();
    });
}

/// Backs up a file of 1000 bytes, calls `change` with its path and with the path of a file that
/// does not exist, and checks that the next backup has the change.
#[track_caller]
fn check_one_file(change: impl FnOnce(&Path, &Path)) {
    let scene = Scene::with_files(2, 1000);
    scene.backup();
    change(&scene.file(0), &scene.tree.join("other"));
    scene.backup();
    assert_same(&manifest(&scene.tree), &manifest(&scene.restore("out", &[])));
}
