//! Records the sessions that `tests/it/versions.rs` replays, with the program in `HOLDFAST_BIN`:
//!
//! ```text
//! HOLDFAST_BIN=... cargo run -p e2e --example record_sessions -- crates/e2e/testdata/sessions-vN
//! ```
//!
//! The program is that of the release that introduced protocol N. Recorded sessions are never
//! written again: a file that exists stays as it is.

use std::path::Path;

use e2e::harness::Node;
use e2e::scratch::Scratch;
use e2e::session_tree;
use e2e::transcript::{Recorder, encode};

fn main() {
    let folder = std::env::args_os()
        .nth(1)
        .expect("an argument must name the folder of the transcripts");
    let folder = Path::new(&folder);
    std::fs::create_dir_all(folder).expect("the folder is made");
    let scratch = Scratch::new();
    let server = session_tree::server(&scratch.join("server"));
    let node = Node::enrol(&server, "anna");
    let recorder = Recorder::start(server.dir(), node.home(), server.port());
    session_tree::redirect(&node, &server, recorder.port());
    let tree = Path::new(session_tree::RECORDED);
    // An earlier run may have left its tree.
    drop(std::fs::remove_dir_all(tree));
    session_tree::plant(tree);
    let write = |name: &str| {
        let (bytes, path) = (encode(&recorder.take()), folder.join(name));
        if !path.try_exists().expect("a folder") {
            std::fs::write(path, bytes).expect("the transcript is written");
        }
    };
    node.backup(tree, &[]).expect(&[0]);
    write("backup");
    session_tree::change(tree);
    node.backup(tree, &[]).expect(&[0]);
    write("incremental");
    node.list(tree, &["--recursive"]);
    write("list");
    node.restore(tree, &scratch.folder("out"), &[]).expect(&[0]);
    write("restore");
    server.admin(&["node", "set", "anna", "--backdelete", "yes"]);
    let [mut archive, mut deletion] = ["1", "1"].map(str::to_owned);
    for (name, arguments) in session_tree::FURTHER {
        let own = |word: &&str| match (name, *word) {
            ("undelete", "1") => deletion.clone(),
            (_, "1") => archive.clone(),
            (_, word) => word.to_owned(),
        };
        let mut words: Vec<String> = arguments.iter().map(own).collect();
        if ["archive", "delete"].contains(&name) {
            words.push("--json".to_owned());
        }
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let done = node.run(&words).expect(&[0]);
        match name {
            "archive" => archive = done.json()["archive"].to_string(),
            "delete" => deletion = done.json()["deletion"].to_string(),
            _ => {}
        }
        write(name);
    }
    std::fs::remove_dir_all(tree).expect("the tree is removed");
}
