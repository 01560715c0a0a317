//! Files that the node encrypts before they leave it.

use std::fs;
use std::path::Path;

use e2e::manifest::assert_same;
use serde_json::Value;

use crate::scene::{Scene, manifest};

const SECRET: &[u8] = b"nobody but the node may read this sentence";

fn write(path: &Path, bytes: &[u8]) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, bytes).unwrap();
}

/// Makes a scene whose tree has a secret part, which the node's list says to encrypt. Returns it
/// with the node's key.
fn scene() -> (Scene, String) {
    let scene = Scene::new();
    write(&scene.tree.join("open"), &SECRET.repeat(50));
    write(&scene.tree.join("secret/small"), &SECRET.repeat(50));
    let large: Vec<u8> = (0..700_000_u32).flat_map(|n| (n / 7).to_le_bytes()).collect();
    write(&scene.tree.join("secret/large"), &large);
    let sparse = fs::File::create(scene.tree.join("secret/sparse")).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&sparse, SECRET, 5 << 20).unwrap();
    sparse.set_len(9 << 20).unwrap();
    let list = "include.encrypt TREE/secret/.../*\nexclude.compression TREE/secret/s*\n";
    let list = list.replace("TREE", scene.tree.to_str().unwrap());
    fs::write(scene.node.home().join("inclexcl"), list).unwrap();
    scene.node.backup(&scene.tree, &[]).expect(&[12]).says("no key").says("line 1");
    let key = scene.node.run(&["key", "create", "--json"]).expect(&[0]).json();
    (scene, key["key"].as_str().unwrap().to_owned())
}

fn packs_hold(scene: &Scene, bytes: &[u8]) -> bool {
    let mut folders = vec![scene.server.dir().to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if fs::read(&path)
                .unwrap_or_default()
                .windows(bytes.len())
                .any(|part| part == bytes)
            {
                return true;
            }
        }
    }
    false
}

#[test]
fn what_is_encrypted_comes_back_and_is_nowhere_at_the_server() {
    let (scene, _) = scene();
    fs::remove_file(scene.tree.join("open")).unwrap();
    let report = scene.node.backup(&scene.tree, &["--compression", "none"]).expect(&[0]).json();
    assert_eq!(report["encrypted"], 3);
    assert!(!packs_hold(&scene, SECRET));
    let rows = scene.node.list(&scene.tree, &["--recursive"]);
    let encrypted = rows.iter().filter(|row| row["encrypted"] == true).count();
    assert_eq!(encrypted, 3);
    assert_same(&manifest(&scene.tree), &manifest(&scene.restore("back", &[])));
    scene.node.verify().expect(&[0]);

    let again = scene.node.backup(&scene.tree, &[]).expect(&[0]).json();
    assert_eq!((&again["backed_up"], &again["encrypted"]), (&Value::from(0), &Value::from(0)));
    // The same content under another name is not stored again.
    fs::copy(scene.tree.join("secret/large"), scene.tree.join("secret/copy")).unwrap();
    let copied = scene.node.backup(&scene.tree, &[]).expect(&[0]).json();
    assert_eq!(copied["encrypted"], 1);
    assert_eq!(copied["bytes_after_dedup"], 0);
    // The content of a file whose mode has changed is compared, and not sent again.
    let touched = fs::File::open(scene.tree.join("secret/large")).unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o600);
    touched.set_permissions(mode).unwrap();
    let touched = scene.node.backup(&scene.tree, &[]).expect(&[0]).json();
    assert_eq!((&touched["updated"], &touched["backed_up"]), (&Value::from(1), &Value::from(0)));
}

#[test]
fn a_key_that_was_written_down_opens_on_a_new_machine() {
    let (scene, key) = scene();
    scene.backup();
    fs::remove_file(scene.node.home().join("encryption.keys")).unwrap();
    let target = scene.scratch.folder("without");
    let outcome = scene.node.restore(&scene.tree, &target, &[]).expect(&[4]);
    let report = outcome.json();
    assert_eq!(report["failed"], 3);
    let failure = report["failures"][0]["error"].as_str().unwrap();
    assert!(failure.contains("which this node does not have"), "{failure}");
    let tree = target.join("tree");
    assert_eq!(fs::read(tree.join("open")).unwrap(), SECRET.repeat(50));
    assert!(!fs::exists(tree.join("secret/small")).unwrap());

    let slip = key.replace(&key[8..9], if &key[8..9] == "A" { "B" } else { "A" });
    scene.node.run(&["key", "import", &slip]).expect(&[12]).says("is not a key");
    scene.node.run(&["key", "import", &key.to_lowercase()]).expect(&[0]);
    assert_same(&manifest(&scene.tree), &manifest(&scene.restore("with", &[])));
}

#[test]
fn a_new_key_encrypts_and_the_old_one_still_opens() {
    let (scene, _) = scene();
    scene.backup();
    scene.node.run(&["key", "create"]).expect(&[0]).says("safe place");
    let keys = scene.node.run(&["key", "list", "--json"]).expect(&[0]).json_lines();
    assert_eq!(keys.iter().map(|key| &key["encrypts"]).collect::<Vec<_>>(), [false, true]);
    write(&scene.tree.join("secret/new"), SECRET);
    let report = scene.node.backup(&scene.tree, &[]).expect(&[0]).json();
    assert_eq!(report["encrypted"], 1);
    assert_same(&manifest(&scene.tree), &manifest(&scene.restore("both", &[])));
    // An archive is encrypted as a backup is.
    scene.node.run(&["archive", scene.tree.to_str().unwrap()]).expect(&[0]);
    let retrieved = scene.scratch.folder("retrieved");
    let arguments = ["retrieve", scene.tree.to_str().unwrap(), "--to", retrieved.to_str().unwrap()];
    scene.node.run(&arguments).expect(&[0]);
    assert_same(&manifest(&scene.tree), &manifest(&retrieved.join("tree")));
}

/// Reclamation moves encrypted chunks, which it cannot read.
#[test]
fn encrypted_files_survive_reclamation() {
    let (mut scene, _) = scene();
    for number in 0..40 {
        let noise = e2e::nasty::Random::new(number, b"noise").bytes(40_000);
        write(&scene.tree.join(format!("secret/noise-{number}")), &noise);
    }
    scene.backup();
    scene.server.restart();
    for number in 0..30 {
        fs::remove_file(scene.tree.join(format!("secret/noise-{number}"))).unwrap();
    }
    scene.node.backup(&scene.tree, &["--confirm"]).expect(&[0]);
    scene.keep_only_active();
    scene.server.admin(&["expire"]);
    let done = scene.server.admin(&["reclaim"]);
    assert_eq!(done["packs_rewritten"], 1, "{done}");
    scene.server.admin(&["audit", "--data"]);
    scene.node.verify().expect(&[0]);
    assert_same(&manifest(&scene.tree), &manifest(&scene.restore("out", &[])));
    let path = scene.tree.join("secret/small");
    let explained = scene.node.run(&["explain", path.to_str().unwrap(), "--json"]).expect(&[0]);
    assert_eq!(explained.json()["encryption"], true);
}
