//! One server at a time: second processes, copies of the folder, and recoveries beside a running
//! server are refused before they touch a pack.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use e2e::harness::{Outcome, Server, binary, start};
use e2e::manifest::assert_same;
use e2e::scratch::Scratch;

use crate::recovery::recover;
use crate::scene::{Scene, manifest, plant_files};

const FILES: usize = 12;
const FILE_BYTES: usize = 20_000;

/// Makes a scene whose server has its pool outside its folder, with an open pack in the pool;
/// `None` if the tests use other stores.
fn scene() -> Option<Scene> {
    if !e2e::harness::is_in_folders() {
        return None;
    }
    let scratch = Scratch::new();
    let url = format!("file://{}", scratch.join("pool").display());
    let scene = Scene::stored(scratch, &["--pool", &url], FILES, FILE_BYTES);
    scene.backup();
    Some(scene)
}

impl Scene {
    /// Changes the tree, backs it up, and compares the restored tree.
    #[track_caller]
    fn goes_on(&self, round: u64) {
        plant_files(&self.tree.join(format!("round-{round}")), FILES, FILE_BYTES, 10 + round);
        self.backup();
        let restored = self.restore(&format!("out-{round}"), &[]);
        assert_same(&manifest(&self.tree), &manifest(&restored));
        self.node.verify().expect(&[0]);
        let audit = self.server.try_admin(&["audit", "--data"]).expect(&[0]);
        assert!(!audit.to_string().contains("damaged pack"), "{audit}");
    }

    /// Copies the server's folder.
    pub(crate) fn copy_server(&self, name: &str) -> PathBuf {
        let copy = self.scratch.join(name);
        let copied = Command::new("cp").arg("-a").args([self.server.dir(), &copy]).status();
        assert!(copied.unwrap().success());
        copy
    }

    /// Checks that a server in `folder` is refused, and returns its output.
    #[track_caller]
    fn refused(&self, folder: &Path) -> Outcome {
        *Server::try_start_at(folder, self.server.port()).expect_err("the server should be refused")
    }
}

fn server_command(command: &str, folder: &Path) -> Outcome {
    Server::command(&[OsStr::new(command), folder.as_os_str()])
}

/// Replaces the file by an edited copy, as an editor does.
fn edit(file: &Path) {
    let text = fs::read_to_string(file).unwrap();
    let new = file.with_extension("new");
    fs::write(&new, format!("# edited\n{text}")).unwrap();
    fs::rename(new, file).unwrap();
}

#[test]
fn a_second_process_is_refused_after_server_toml_was_edited() {
    let Some(scene) = scene() else { return };
    let folder = scene.server.dir();
    edit(&folder.join("server.toml"));
    for round in 0..3 {
        scene.refused(folder).expect(&[12]).says("another server is using");
        for command in ["rebuild-catalog", "adopt"] {
            server_command(command, folder).expect(&[12]).says("another server is using");
        }
        scene.goes_on(round);
    }
}

#[test]
fn a_copy_of_the_folder_is_refused_until_it_is_adopted() {
    let Some(mut scene) = scene() else { return };
    let copy = scene.copy_server("copy");
    scene.refused(&copy).expect(&[12]).says("server adopt");
    server_command("rebuild-catalog", &copy).expect(&[12]).says("server adopt");
    server_command("adopt", &copy).expect(&[12]).says("another server is using");
    scene.goes_on(0);
    scene.server.terminate().expect(&[0]);
    // The copy is also refused while no server uses the pool, because the original may come back.
    scene.refused(&copy).expect(&[12]).says("server adopt");
    scene.server.restart();
    scene.goes_on(1);
    scene.server.terminate().expect(&[0]);
    fs::remove_dir_all(&copy).unwrap();
    let copy = scene.copy_server("copy");
    let words: [OsString; 3] = ["server".into(), "adopt".into(), copy.clone().into()];
    let adopted = start(&binary(), &words, Path::new("/nonexistent"), None).wait().expect(&[0]);
    let pool = format!("  {}", scene.scratch.join("pool").display());
    assert!(adopted.stderr.lines().any(|line| line == pool), "{adopted}");
    let original = scene.server.dir().to_path_buf();
    scene.server = Server::start_at(&copy, scene.server.port());
    scene.goes_on(2);
    scene.refused(&original).expect(&[12]).says("another server is using");
    scene.goes_on(3);
    scene.server.terminate().expect(&[0]);
    scene.refused(&original).expect(&[12]).says("server adopt");
}

#[test]
fn a_folder_that_was_renamed_is_the_original() {
    let Some(mut scene) = scene() else { return };
    scene.server.terminate().expect(&[0]);
    let moved = scene.scratch.join("moved");
    fs::rename(scene.server.dir(), &moved).unwrap();
    scene.server = Server::start_at(&moved, scene.server.port());
    scene.goes_on(0);
}

#[test]
fn a_recovery_beside_a_running_server_is_refused() {
    let Some(mut scene) = scene() else { return };
    let (file, new) = (scene.recovery_file(), scene.scratch.join("new"));
    scene.copy_catalog();
    for round in 0..3 {
        recover(&new, &file, &[]).expect(&[12]).says("another server is using");
        assert!(!new.try_exists().unwrap(), "nothing is left of it");
        scene.goes_on(round);
    }
    scene.copy_catalog();
    scene.server.kill9();
    recover(&new, &file, &[]).expect(&[0]);
    let old = scene.server.dir().to_path_buf();
    scene.refused(&old).expect(&[12]).says("belongs to a server in another folder");
    scene.server = Server::start_at(&new, scene.server.port());
    scene.goes_on(3);
}

#[test]
fn a_server_ends_that_has_lost_its_lock() {
    let Some(mut scene) = scene() else { return };
    fs::remove_file(scene.server.dir().join("server.lock")).unwrap();
    scene.server.ends().expect(&[12]).says("server.lock was replaced");
    let folder = scene.server.dir().to_path_buf();
    scene.refused(&folder).expect(&[12]).says("server.lock");
    server_command("adopt", &folder).expect(&[0]);
    scene.server.restart();
    scene.goes_on(0);
}

#[test]
fn nothing_is_acknowledged_that_goes_to_a_catalogue_put_aside() {
    let Some(mut scene) = scene() else { return };
    let dir = scene.server.dir().to_path_buf();
    let (path, aside) = (dir.join("catalog.sqlite"), dir.join("catalog.moved"));
    for (round, is_replaced) in (0..).zip([false, true]) {
        fs::rename(&path, &aside).unwrap();
        if is_replaced {
            fs::copy(&aside, &path).unwrap();
        }
        plant_files(&scene.tree.join(format!("unseen-{round}")), FILES, FILE_BYTES, 3 + round);
        let refused = scene.node.backup(&scene.tree, &[]);
        assert_ne!(refused.code(), 0, "{refused}");
        scene.server.kill9();
        fs::rename(&aside, &path).unwrap();
        scene.server.restart();
        scene.goes_on(round);
    }
}

/// A server with the key of another one acknowledged backups that its own key could not read.
#[test]
fn a_server_with_a_wrong_key_does_not_start() {
    let Some(mut scene) = scene() else { return };
    scene.server.terminate().expect(&[0]);
    let folder = scene.server.dir().to_path_buf();
    let key = folder.join("master.key");
    let right = fs::read(&key).unwrap();
    let mut wrong = right.clone();
    wrong[0] ^= 1;
    fs::write(&key, wrong).unwrap();
    scene.refused(&folder).expect(&[12]).says("the key of another server");
    fs::write(&key, right).unwrap();
    scene.server.restart();
    scene.goes_on(0);
}
