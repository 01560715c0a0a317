//! A node that reads what another node has stored, by the rules of that node.

use std::fs;
use std::path::PathBuf;

use e2e::harness::{Node, Outcome};
use e2e::manifest::assert_same;

use crate::scene::{Scene, manifest};

/// The node anna with a public and a private folder, both backed up, and the node bert.
struct Pair {
    scene: Scene,
    bert: Node,
    public: PathBuf,
    private: PathBuf,
}

impl Pair {
    fn new() -> Self {
        let scene = Scene::with_files(0, 0);
        let (public, private) = (scene.tree.join("public"), scene.tree.join("public-not"));
        for folder in [&public, &private] {
            fs::create_dir_all(folder.join("below")).unwrap();
            fs::write(folder.join("file"), b"content of a file").unwrap();
            fs::write(folder.join("below/deep"), b"deep").unwrap();
        }
        scene.node.backup(&scene.tree, &[]).expect(&[0]);
        let bert = Node::enrol(&scene.server, "bert");
        Self { scene, bert, public, private }
    }

    fn allow(&self, words: &[&str]) -> Outcome {
        let public = self.public.to_str().unwrap();
        self.scene.node.run(&[&["access", "allow", "bert", public], words].concat())
    }

    /// Lets bert list a path of anna.
    fn list(&self, path: &str, words: &[&str]) -> Outcome {
        self.bert.run(&[&["list", path, "--from-node", "anna"], words].concat())
    }
}

#[test]
fn a_node_reads_what_the_rules_of_another_allow_and_nothing_else() {
    let pair = Pair::new();
    let (public, private) = (pair.public.to_str().unwrap(), pair.private.to_str().unwrap());
    let unknown = pair.bert.run(&["list", public, "--from-node", "nobody"]).expect(&[12]);
    let known = pair.list(public, &[]).expect(&[12]).says("may read nothing of a node anna");
    assert_eq!(unknown.stderr.replace("nobody", "anna"), known.stderr, "nobody learns of nodes");

    pair.allow(&[]).expect(&[0]).says("bert");
    let rows = pair.list(public, &["--recursive", "--json"]).expect(&[0]).json_lines();
    assert_eq!(rows.len(), 4, "{rows:?}");
    let to = pair.scene.scratch.folder("bert");
    pair.bert.restore(&pair.public, &to, &["--from-node", "anna"]).expect(&[0]);
    assert_same(&manifest(&pair.public), &manifest(&to.join("public")));

    let top = pair.scene.tree.to_str().unwrap();
    for path in [private, top, "/"] {
        pair.list(path, &[]).expect(&[12]).says("does not let this node read");
    }
    pair.bert
        .restore(&pair.private, &to, &["--from-node", "anna"])
        .expect(&[12])
        .says("does not let this node read");
    assert!(!to.join("public-not").try_exists().unwrap());

    pair.scene.node.run(&["access", "forbid", "bert", public]).expect(&[0]);
    pair.list(public, &[]).expect(&[12]).says("may read nothing");
    let log = pair.scene.server.try_admin(&["log"]).expect(&[0]);
    assert!(log.stdout.contains("reading allowed") && log.stdout.contains("reading forbidden"));
}

#[test]
fn files_that_a_node_may_read_come_without_the_rest_of_their_directory() {
    let pair = Pair::new();
    let files: Vec<String> =
        (0..5).map(|number| format!("{}/{number}", pair.private.display())).collect();
    for file in &files {
        fs::write(file, "shown").unwrap();
        pair.scene.node.run(&["access", "allow", "bert", file]).expect(&[0]);
    }
    pair.scene.backup();
    let to = pair.scene.scratch.folder("bert");
    let fixed = ["restore", "--json", "--from-node", "anna", "--to", to.to_str().unwrap()];
    let paths: Vec<&str> = files.iter().map(String::as_str).collect();
    let restored = pair.bert.run(&[&fixed[..], &paths].concat()).expect(&[0]);
    restored.counts(&[("restored", 5), ("failed", 0)]);
    assert_eq!(fs::read(to.join("3")).unwrap(), b"shown");
}

#[test]
fn a_rule_about_archives_is_not_about_backups() {
    let pair = Pair::new();
    let public = pair.public.to_str().unwrap();
    pair.scene
        .node
        .run(&["archive", public, "--description", "of anna"])
        .expect(&[0]);
    pair.allow(&["--archives"]).expect(&[0]);
    pair.list(public, &[]).expect(&[12]);
    let archives = pair.bert.run(&["archives", "--from-node", "anna"]).expect(&[0]);
    assert!(archives.stdout.contains("of anna"), "{archives}");
    let to = pair.scene.scratch.folder("bert");
    pair.bert
        .run(&["retrieve", public, "--from-node", "anna", "--to", to.to_str().unwrap()])
        .expect(&[0]);
    assert_eq!(fs::read(to.join("public/file")).unwrap(), b"content of a file");
    // The archives of bert himself stay apart.
    let own = pair.bert.run(&["archives"]).expect(&[0]);
    assert!(!own.stdout.contains("of anna"), "{own}");
}

#[test]
fn a_new_node_with_an_old_name_may_read_nothing() {
    let pair = Pair::new();
    pair.allow(&[]).expect(&[0]);
    pair.scene.server.admin(&["node", "remove", "bert"]);
    let rules = pair.scene.node.run(&["access", "--json"]).expect(&[0]);
    assert_eq!(rules.json_lines().len(), 0, "{rules}");
}

#[test]
fn names_of_nodes_are_found_without_regard_to_case() {
    let pair = Pair::new();
    let public = pair.public.to_str().unwrap();
    pair.scene.node.run(&["access", "allow", "BERT", public]).expect(&[0]);
    let list = |node: &Node, owner: &str| node.run(&["list", public, "--from-node", owner]);
    list(&pair.bert, "ANNA").expect(&[0]);
    list(&pair.bert, "Anna").expect(&[0]);
    pair.scene.node.run(&["access", "forbid", "bert", public]).expect(&[0]);
    list(&pair.bert, "anna").expect(&[12]).says("may read nothing");
    pair.scene.node.run(&["access", "allow", "BERT", public]).expect(&[0]);
    // A node with exactly the name is the one that is meant.
    let other = Node::enrol(&pair.scene.server, "BERT");
    list(&other, "anna").expect(&[0]);
    list(&pair.bert, "anna").expect(&[12]).says("may read nothing");
    pair.scene.server.admin(&["node", "remove", "BERT"]);
    list(&pair.bert, "anna").expect(&[12]).says("may read nothing");
}
