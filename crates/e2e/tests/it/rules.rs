//! Selection of a backup: lists on the node, option sets of the server, tags, and the program's own
//! explanation of them.

use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use e2e::harness::path_bytes;
use serde_json::Value;

use crate::scene::{Scene, names};

/// Writes the node's list of statements; `TREE` stands for the path of the tree.
fn set_list(scene: &Scene, text: &str) {
    let text = text.replace("TREE", scene.tree.to_str().unwrap());
    fs::write(scene.node.home().join("inclexcl"), text).unwrap();
}

fn plant(scene: &Scene, files: &[&str]) {
    for file in files {
        let path = scene.tree.join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, file).unwrap();
    }
}

/// Returns the paths of the active files and directories below the tree.
fn active(scene: &Scene) -> Vec<String> {
    let top = [scene.tree.as_os_str().as_bytes(), b"/"].concat();
    let rows = scene.node.list(&scene.tree, &["--recursive"]);
    let below = |row: &Value| {
        let path = path_bytes(&row["path"]);
        Some(String::from_utf8_lossy(path.strip_prefix(&top[..])?).into_owned())
    };
    let mut paths: Vec<String> = rows.iter().filter_map(below).collect();
    paths.sort();
    paths
}

#[track_caller]
fn explain(scene: &Scene, name: &str) -> Value {
    let path = scene.tree.join(name);
    let path = path.to_str().unwrap();
    scene.node.run(&["explain", path, "--json"]).expect(&[0]).json()
}

#[test]
fn the_list_of_the_node_decides_from_the_bottom() {
    let scene = Scene::new();
    plant(&scene, &["a.c", "a.o", "sub/b.c", "sub/b.o", "tmp/c.o"]);
    set_list(
        &scene,
        "* only objects, and nothing in tmp\n\
         exclude TREE/.../*\n\
         exclude.dir TREE/tmp\n\
         include TREE/.../*.o\n",
    );
    scene.backup();
    assert_eq!(active(&scene), ["a.o", "sub", "sub/b.o"]);

    let included = explain(&scene, "sub/b.o");
    assert_eq!(included["included"], true);
    assert_eq!(included["mgmt_class"], "STANDARD");
    let source = included["rule"]["source"].as_str().unwrap();
    assert!(source.ends_with("inclexcl line 4"), "{source}");
    let excluded = explain(&scene, "a.c");
    assert_eq!(excluded["included"], false);
    assert!(excluded["rule"]["source"].as_str().unwrap().ends_with("line 2"));
    let below = explain(&scene, "tmp/c.o");
    assert_eq!(below["included"], false);
    assert!(below["rule"]["source"].as_str().unwrap().ends_with("line 3"));
    assert_eq!(below["rule"]["about"], scene.tree.join("tmp").to_str().unwrap());
    // A path without an object is explained too.
    let absent = explain(&scene, "sub/none.o");
    assert_eq!((&absent["included"], &absent["kind"]), (&Value::Bool(true), &Value::Null));
}

#[test]
fn a_change_of_the_rules_is_noticed_where_no_file_has_changed() {
    let scene = Scene::new();
    plant(&scene, &["a", "b", "sub/c"]);
    scene.backup();
    assert_eq!(active(&scene), ["a", "b", "sub", "sub/c"]);
    set_list(&scene, "exclude TREE/a\nexclude.dir TREE/sub\n");
    scene.backup().counts(&[("expired", 3), ("backed_up", 0)]);
    assert_eq!(active(&scene), ["b"]);
    scene.backup().counts(&[("expired", 0), ("backed_up", 0)]);
    set_list(&scene, "");
    scene.backup().counts(&[("backed_up", 3)]);
    assert_eq!(active(&scene), ["a", "b", "sub", "sub/c"]);
}

#[test]
fn what_is_stored_of_content_that_is_left_alone_stays() {
    let scene = Scene::new();
    plant(&scene, &["a", "sub/c", "sub/deep/d"]);
    scene.backup();
    set_list(&scene, "exclude.content TREE/sub\n");
    fs::remove_file(scene.tree.join("sub/c")).unwrap();
    plant(&scene, &["sub/new", "sub/deep/d2"]);
    scene.backup().counts(&[("expired", 0)]);
    assert_eq!(active(&scene), ["a", "sub", "sub/c", "sub/deep", "sub/deep/d"]);
    let below = explain(&scene, "sub/new");
    assert_eq!(below["included"], false);
    assert_eq!(below["rule"]["about"], scene.tree.join("sub").to_str().unwrap());
    set_list(&scene, "");
    scene.backup().counts(&[("expired", 1)]);
    assert_eq!(active(&scene), ["a", "sub", "sub/deep", "sub/deep/d", "sub/deep/d2", "sub/new"]);
}

#[test]
fn statements_of_the_server_win_over_those_of_the_node() {
    let scene = Scene::new();
    plant(&scene, &["secret", "other"]);
    set_list(&scene, "include TREE/secret\n");
    let file = scene.scratch.join("options");
    fs::write(&file, format!("exclude {}/secret\n", scene.tree.display())).unwrap();
    scene.server.admin(&["optionset", "put", "ALL", file.to_str().unwrap()]);
    let node = scene.server.admin(&["node", "set", "anna", "--optionset", "ALL"]);
    assert_eq!(node["option_set"], "ALL");
    scene.backup();
    assert_eq!(active(&scene), ["other"]);
    let excluded = explain(&scene, "secret");
    assert_eq!(excluded["rule"]["source"], "option set ALL line 1");
    let refused = scene.server.try_admin(&["optionset", "remove", "ALL"]);
    refused.expect(&[12]).says("1 node uses it").says("--confirm");
    assert_eq!(active(&scene), ["other"]);
    let removed = scene.server.admin(&["optionset", "remove", "ALL", "--confirm"]);
    assert_eq!(removed["nodes"][0], "anna");
    scene.backup();
    assert_eq!(active(&scene), ["other", "secret"]);
    // The server refuses an invalid list at once, before any node gets it.
    fs::write(&file, "exclude.dir\n").unwrap();
    let refused = scene.server.try_admin(&["optionset", "put", "BAD", file.to_str().unwrap()]);
    refused.expect(&[12]).says("line 1");
}

#[test]
fn tagged_directories_are_left_out_but_for_the_tag() {
    let scene = Scene::new();
    plant(&scene, &["keep/a", "skip/.nobackup", "skip/a", "skip/sub/b", "cache/CACHEDIR.TAG"]);
    plant(&scene, &["cache/a", "real/CACHEDIR.TAG", "real/a"]);
    let tag = "Signature: 8a477f597d28d172789f06886806bc55\n# a cache\n";
    fs::write(scene.tree.join("real/CACHEDIR.TAG"), tag).unwrap();
    set_list(&scene, "exclude.tag .nobackup\nexclude.tag CACHEDIR.TAG\n");
    scene.backup();
    let expected = [
        "cache",
        "cache/CACHEDIR.TAG",
        "cache/a",
        "keep",
        "keep/a",
        "real",
        "real/CACHEDIR.TAG",
        "skip",
        "skip/.nobackup",
    ];
    assert_eq!(active(&scene), expected);
    let below = explain(&scene, "skip/sub/b");
    assert_eq!(below["included"], false);
    assert_eq!(below["rule"]["about"], scene.tree.join("skip").to_str().unwrap());
}

#[test]
fn a_preview_says_what_the_backup_then_does() {
    let scene = Scene::new();
    plant(&scene, &["a.c", "a.o", "skip/.nobackup", "skip/x", "out/y", "in/z"]);
    fs::write(scene.tree.join(std::ffi::OsStr::from_bytes(b"odd\xff\n")), "odd").unwrap();
    set_list(&scene, "exclude *.o\nexclude.tag .nobackup\nexclude.dir TREE/out\n");
    let tree = scene.tree.to_str().unwrap();
    let rows = scene.node.run(&["preview", tree, "--json"]).expect(&[0]).json_lines();
    let included = rows.iter().filter(|row| row["included"] == true).count();
    let outcome = scene.backup();
    assert_eq!(outcome.count("backed_up"), included as u64, "{rows:?}");
    assert_eq!(active(&scene).len() + 1, included);
    let excluded = scene.node.run(&["preview", tree, "--filter", "excluded", "--json"]);
    let mut excluded: Vec<String> = excluded
        .expect(&[0])
        .json_lines()
        .iter()
        .map(|row| row["path"].as_str().unwrap().trim_start_matches(tree).to_owned())
        .collect();
    excluded.sort();
    assert_eq!(excluded, ["/a.o", "/out", "/skip/x"]);
    let text = scene.node.run(&["preview", tree]).expect(&[0]);
    let heading = text.stdout.lines().next().unwrap();
    assert!(heading.contains("Size") && heading.ends_with("Path  Rule"), "{text}");
    let totals = "3 are left out, among them 1 directory with everything in it";
    assert!(text.stdout.contains(totals), "{text}");
}

#[test]
fn a_pattern_that_is_none_stops_the_run_before_it_begins() {
    let scene = Scene::new();
    plant(&scene, &["a"]);
    for (list, word) in [
        ("exclude a/b\n", "line 1"),
        ("* fine\nexclude [a\n", "line 2"),
        ("omit /a\n", "'omit'"),
        ("include.image /a\n", "include.image"),
    ] {
        set_list(&scene, list);
        scene.node.backup(&scene.tree, &[]).expect(&[12]).says(word).says("inclexcl");
    }
    let missing = scene.scratch.join("none");
    let options = ["--inclexcl", missing.to_str().unwrap()];
    scene.node.backup(&scene.tree, &options).expect(&[12]).says("none");
}

#[test]
fn a_class_that_does_not_exist_is_said_and_the_default_taken() {
    let scene = Scene::new();
    plant(&scene, &["a"]);
    set_list(&scene, "include TREE/a FOREVER\n");
    let warned = scene.node.backup(&scene.tree, &[]).expect(&[8]);
    warned.says("FOREVER").says("STANDARD").says("line 1");
    assert_eq!(scene.node.list(&scene.tree.join("a"), &[])[0]["mgmt_class"], "STANDARD");
}

#[test]
fn a_named_file_is_taken_although_its_directory_is_left_out() {
    let scene = Scene::new();
    plant(&scene, &["out/a", "out/b"]);
    set_list(&scene, "exclude.dir TREE/out\nexclude TREE/out/b\n");
    scene.node.backup(&scene.tree.join("out/a"), &["--selective"]).expect(&[0]);
    assert_eq!(scene.node.list(&scene.tree.join("out/a"), &[]).len(), 1);
    let left_out = scene.node.backup(&scene.tree.join("out/b"), &["--selective"]);
    left_out.expect(&[8]).says("left out");
}

#[test]
fn file_systems_are_left_out_by_type() {
    let scene = Scene::new();
    plant(&scene, &["a"]);
    let types = ["ext2", "ext3", "ext4", "xfs", "btrfs", "tmpfs", "overlay", "zfs", "f2fs"];
    set_list(&scene, &format!("exclude.fstype {}\n", types.join(" ")));
    let outcome = scene.node.backup(&scene.tree, &[]).expect(&[8]);
    outcome.counts(&[("inspected", 0)]).says("exclude.fstype");
    scene.node.run(&["list", scene.tree.to_str().unwrap()]).expect(&[12]);
}

#[test]
fn files_are_spared_compression_and_deduplication_as_told() {
    let scene = Scene::new();
    let text = "a line that compresses well\n".repeat(4000);
    fs::write(scene.tree.join("a.txt"), &text).unwrap();
    fs::write(scene.tree.join("b.gz"), &text).unwrap();
    set_list(&scene, "exclude.compression *.gz\nexclude.dedup *.gz\n");
    let outcome = scene.backup();
    let sent = outcome.count("bytes_transferred");
    assert!(sent > text.len() as u64, "one of the two should be sent uncompressed: {sent}");
    let excluded = explain(&scene, "b.gz");
    assert_eq!(
        (&excluded["compression"], &excluded["deduplication"]),
        (&false.into(), &false.into())
    );
    let out = scene.restore("out", &[]);
    assert_eq!(fs::read_to_string(out.join("b.gz")).unwrap(), text);
    assert_eq!(names(&out), names(&scene.tree));
}

/// Announces the server of the scene to the node, as a server of the node's machine is announced.
fn announce(scene: &Scene) {
    let id = scene.server.id();
    let stat = fs::read_to_string(format!("/proc/{id}/stat")).unwrap();
    let (_, fields) = stat.rsplit_once(')').unwrap();
    let began = fields.split_ascii_whitespace().nth(19).unwrap();
    let servers = scene.node.home().with_extension("run").join("servers");
    fs::create_dir_all(&servers).unwrap();
    let content = format!("{began}\n{}", scene.server.dir().display());
    fs::write(servers.join(id.to_string()), content).unwrap();
}

/// The pool grew with each backup of the server's machine, and nothing said why.
#[test]
fn a_backup_of_the_pool_of_its_own_server_warns_once() {
    if !e2e::harness::is_in_folders() {
        return;
    }
    let scene = Scene::new();
    plant(&scene, &["a"]);
    announce(&scene);
    let folder = scene.server.dir().canonicalize().unwrap();
    let statement = |folder: &Path| format!("exclude.dir {}", folder.display());
    let line = statement(&folder);
    let around = folder.parent().unwrap();
    let warned = |line: &str, path: &Path, options: &[&str]| {
        let report = scene.node.backup(path, options).expect(&[0, 8]).json();
        let warnings = report["warnings"].as_array().unwrap();
        warnings.iter().filter(|text| text.as_str().unwrap().contains(line)).count()
    };
    assert_eq!(warned(&line, around, &["--dry-run"]), 1);
    assert_eq!(warned(&line, around, &[]), 1);
    assert_eq!(warned(&line, &scene.tree, &["--dry-run"]), 0);
    // A pool that was added later was not known.
    let second = scene.add_pool("COPIES", &["--copy"]).canonicalize().unwrap();
    let further = statement(&second);
    assert_eq!(warned(&further, around, &["--dry-run"]), 1);
    assert_eq!(warned(&further, &scene.tree, &["--dry-run"]), 0);
    // Nor were the volumes of a library in a folder.
    let tapes = scene.add_library("2M");
    scene.add_tape(&[]);
    let of_tapes = statement(&tapes.canonicalize().unwrap());
    assert_eq!(warned(&of_tapes, around, &["--dry-run"]), 1);
    set_list(&scene, &format!("{line}\n{further}\n"));
    assert_eq!(warned(&line, around, &["--dry-run"]), 0);
    assert_eq!(warned(&further, around, &["--dry-run"]), 0);
}
