//! Damaged files of the server: the damage is found and named, and all undamaged data is restored.
//! No process may panic: the harness looks for panics in the output of every process.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use e2e::harness::Server;
use e2e::manifest::assert_same;

use crate::scene::{Scene, assert_failure_of, file_name, manifest};

const FILES: usize = 12;
/// Size of a file: more than the catalogue itself may hold. The content is random, so that it is
/// stored uncompressed.
const FILE_BYTES: usize = 900_000;
/// Index of the file whose content is damaged.
const DAMAGED: usize = 5;

pub(crate) fn files_below(dir: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for item in fs::read_dir(dir).unwrap() {
        let path = item.unwrap().path();
        let kind = fs::symlink_metadata(&path).unwrap().file_type();
        if kind.is_dir() {
            files.extend(files_below(&path));
        } else if kind.is_file() {
            files.push(path);
        }
    }
    files.sort();
    files
}

/// Returns the file in the server's folder that holds the middle of `content`, and its offset in
/// the file.
pub(crate) fn find_stored(server: &Path, content: &[u8]) -> (PathBuf, u64) {
    let middle = content.len() / 2;
    let wanted = &content[middle..middle + 64];
    for path in files_below(server) {
        let stored = fs::read(&path).unwrap();
        if let Some(offset) = stored.windows(wanted.len()).position(|bytes| bytes == wanted) {
            return (path, offset as u64);
        }
    }
    panic!("random content should be in a pack, uncompressed");
}

pub(crate) fn flip(path: &Path, offset: u64, bytes: usize) {
    let file = fs::File::options().read(true).write(true).open(path).unwrap();
    let mut data = vec![0; bytes];
    let bytes = file.read_at(&mut data, offset).unwrap();
    data[..bytes].iter_mut().for_each(|byte| *byte ^= 0x55);
    file.write_all_at(&data[..bytes], offset).unwrap();
}

#[test]
fn damaged_chunk_is_reported_by_path_and_costs_only_its_file() {
    if !e2e::harness::is_in_folders() {
        return;
    }
    let mut scene = Scene::with_files(FILES, FILE_BYTES);
    scene.backup();
    let content = fs::read(scene.file(DAMAGED)).unwrap();
    scene.server.terminate().expect(&[0]);
    let (pack, offset) = find_stored(scene.server.dir(), &content);
    flip(&pack, offset, 16);
    scene.server.restart();

    let verify = scene.node.verify().expect(&[4]);
    assert_failure_of(&verify, &scene.file(DAMAGED));
    let out = scene.scratch.folder("out");
    let restore = scene.node.restore(&scene.tree, &out, &[]).expect(&[4]);
    assert_failure_of(&restore, &scene.file(DAMAGED));
    // All chunks of a damaged quantum are lost: at most one neighbour on each side.
    let failures = restore.failures().len();
    assert!((1..=3).contains(&failures), "failures: {failures}, files: {FILES}: {restore}");
    let failed: Vec<_> = restore.failures().into_iter().map(|(path, _)| path).collect();
    for index in 0..FILES {
        let restored = out.join("tree").join(file_name(index));
        if failed.iter().any(|path| path.ends_with(file_name(index).as_bytes())) {
            assert!(
                fs::symlink_metadata(&restored).is_err(),
                "{restored:?} should not be restored"
            );
        } else {
            assert!(fs::read(&restored).unwrap() == fs::read(scene.file(index)).unwrap());
        }
    }
    assert!(scene.server.is_up());
}

#[test]
fn an_audit_names_what_is_damaged_and_what_that_costs() {
    if !e2e::harness::is_in_folders() {
        return;
    }
    let mut scene = Scene::with_files(FILES, FILE_BYTES);
    scene.backup();
    scene.server.restart();
    for options in [&["audit"][..], &["audit", "--data"]] {
        let whole = scene.server.admin(options);
        assert_eq!((&whole["versions_lost"], &whole["damages"]), (&0.into(), &vec![0; 0].into()));
        assert!(whole["bytes"].as_u64().unwrap() >= (FILES * FILE_BYTES) as u64, "{whole}");
    }
    let content = fs::read(scene.file(DAMAGED)).unwrap();
    scene.server.terminate().expect(&[0]);
    let (pack, offset) = find_stored(scene.server.dir(), &content);
    flip(&pack, offset, 16);
    scene.server.restart();
    let damaged = scene.server.try_admin(&["audit"]).expect(&[4]).json();
    assert_eq!(damaged["damages"].as_array().unwrap().len(), 1, "{damaged}");
    let lost = damaged["versions"].as_array().unwrap();
    let path = scene.file(DAMAGED);
    let is_named = lost
        .iter()
        .any(|version| version["path"] == path.to_str().unwrap() && version["node"] == "anna");
    assert!(is_named && lost.len() <= 3, "{damaged}");
    assert_eq!(scene.server.admin(&["log", "--limit", "1"])["what"], "damage found");
    // The source still has the content. An incremental backup sees no change, but a full backup
    // stores it again.
    scene.backup();
    scene.server.try_admin(&["audit"]).expect(&[4]);
    scene
        .node
        .backup(&scene.tree, &["--full"])
        .expect(&[0])
        .counts(&[("failed", 0)]);
    assert_same(&manifest(&scene.tree), &manifest(&scene.restore("healed", &[])));
    // The damaged versions stay lost.
    scene.node.verify().expect(&[4]).counts(&[("failed", lost.len() as u64)]);
    // The second flip repairs the pack, and its chunks can be read again.
    flip(&pack, offset, 16);
    assert_eq!(scene.server.admin(&["audit", "--data"])["versions_lost"], 0);
    // When a whole pack is missing, everything in it is lost.
    fs::remove_file(&pack).unwrap();
    fs::remove_file(find_stored(scene.server.dir(), &content).0).unwrap();
    scene.server.restart();
    let gone = scene.server.try_admin(&["audit", "--data"]).expect(&[4]).json();
    assert!(gone["versions_lost"].as_u64().unwrap() >= 2 * FILES as u64, "{gone}");
    scene
        .node
        .backup(&scene.tree, &["--full"])
        .expect(&[0])
        .counts(&[("failed", 0)]);
    assert_same(&manifest(&scene.tree), &manifest(&scene.restore("healed-again", &[])));
}

#[test]
fn lost_and_cut_packs_cost_only_what_was_in_them() {
    if !e2e::harness::is_in_folders() {
        return;
    }
    for keep_percent in [0, 50, 99] {
        let mut scene = Scene::with_files(FILES, FILE_BYTES);
        scene.backup();
        let content = fs::read(scene.file(DAMAGED)).unwrap();
        scene.server.terminate().expect(&[0]);
        let (pack, _) = find_stored(scene.server.dir(), &content);
        if keep_percent == 0 {
            fs::remove_file(&pack).unwrap();
        } else {
            let bytes = fs::metadata(&pack).unwrap().len();
            let file = fs::File::options().write(true).open(&pack).unwrap();
            file.set_len(bytes * keep_percent / 100).unwrap();
        }
        match Server::try_start_at(scene.server.dir(), scene.server.port()) {
            Err(outcome) => {
                let outcome = outcome.expect(&[12]);
                assert!(!outcome.messages().is_empty(), "the server should say why: {outcome}");
            }
            Ok(server) => {
                let out = scene.scratch.folder("out");
                let verify = scene.node.verify();
                let restore = scene.node.restore(&scene.tree, &out, &[]);
                if keep_percent < 99 {
                    assert_eq!((verify.code(), restore.code()), (4, 4), "{verify}\n{restore}");
                }
                assert_no_wrong_content(&scene, &out.join("tree"));
                assert!(server.is_up());
            }
        }
    }
}

/// Fails the test if a restored file differs from its source.
#[track_caller]
fn assert_no_wrong_content(scene: &Scene, restored: &Path) {
    for index in 0..FILES {
        if let Ok(content) = fs::read(restored.join(file_name(index))) {
            let source = fs::read(scene.file(index)).unwrap();
            assert!(content == source, "{} has wrong content", file_name(index));
        }
    }
}

fn catalogues(server: &Path) -> Vec<PathBuf> {
    let is_database = |path: &PathBuf| {
        let mut magic = [0; 16];
        let file = fs::File::open(path).unwrap();
        file.read_exact_at(&mut magic, 0).is_ok() && &magic == b"SQLite format 3\0"
    };
    files_below(server).into_iter().filter(is_database).collect()
}

type Damage = (&'static str, fn(&Path));

const CATALOGUE_DAMAGE: [Damage; 6] = [
    ("header", |path| flip(path, 0, 100)),
    ("schema", |path| flip(path, 100, 2000)),
    ("second page", |path| flip(path, 4096, 4096)),
    ("all but the first page", |path| {
        let bytes = fs::metadata(path).unwrap().len();
        flip(path, 4096, usize::try_from(bytes - 4096).unwrap());
    }),
    ("cut in half", |path| {
        let bytes = fs::metadata(path).unwrap().len();
        fs::File::options().write(true).open(path).unwrap().set_len(bytes / 2).unwrap();
    }),
    ("empty", |path| fs::write(path, b"").unwrap()),
];

#[test]
fn damaged_catalogue_gives_an_error_and_no_panic() {
    if !e2e::harness::is_in_folders() {
        return;
    }
    let mut scene = Scene::with_files(60, 500);
    scene.backup();
    scene.server.terminate().expect(&[0]);
    let good = scene.scratch.join("good");
    copy_folder(scene.server.dir(), &good);
    let dir = scene.server.dir().to_path_buf();
    assert!(!catalogues(&dir).is_empty(), "the catalogue should be an SQLite file");
    for (what, damage) in CATALOGUE_DAMAGE {
        eprintln!("damage: {what}");
        bring_back(&good, &dir);
        catalogues(&dir).iter().for_each(|path| damage(path));
        use_damaged(&scene, what);
    }
    // The undamaged copy still works.
    bring_back(&good, &dir);
    scene.server.restart();
    scene.backup().counts(&[("backed_up", 0)]);
    assert_same(&manifest(&scene.tree), &manifest(&scene.restore("out", &[])));
}

/// Starts the server on a damaged catalogue and sends it requests. Each must end with a right
/// answer or with an error.
fn use_damaged(scene: &Scene, what: &str) {
    let (dir, port) = (scene.server.dir(), scene.server.port());
    let mut server = match Server::try_start_at(dir, port) {
        Err(outcome) => {
            let outcome = outcome.expect(&[12]);
            assert!(!outcome.messages().is_empty(), "{what}: the server should say why: {outcome}");
            return;
        }
        Ok(server) => server,
    };
    let out = scene.scratch.folder(&format!("out {what}"));
    let restore = scene.node.restore(&scene.tree, &out, &[]);
    if restore.code() == 0 {
        assert_same(&manifest(&scene.tree), &manifest(&out.join("tree")));
    } else if restore.code() == 4 {
        assert!(
            !restore.failures().is_empty(),
            "{what}: the report should name failures: {restore}"
        );
    } else {
        assert!(!restore.messages().is_empty(), "{what}: the restore should say why: {restore}");
    }
    scene.node.backup(&scene.tree, &[]).code();
    scene.node.verify().code();
    server.try_admin(&["node", "list"]).code();
    assert!(server.is_up(), "{what}: the server should not end after its start");
    server.terminate().code();
}

/// Replaces a server's folder by its copy.
fn bring_back(copy: &Path, dir: &Path) {
    fs::remove_dir_all(dir).unwrap();
    copy_folder(copy, dir);
    Server::command(&[OsStr::new("adopt"), dir.as_os_str()]).expect(&[0]);
}

fn copy_folder(source: &Path, target: &Path) {
    let status = Command::new("cp").arg("-a").args([source, target]).status().unwrap();
    assert!(status.success());
}
