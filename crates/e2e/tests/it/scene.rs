//! The scene of most tests: a server, an enrolled node and a tree.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use e2e::harness::{Node, Outcome, Proxy, Server, is_root};
use e2e::manifest::Manifest;
use e2e::nasty::Random;
use e2e::scratch::Scratch;

/// A server, an enrolled node and a tree. The fields are dropped in their order: processes before
/// the folders that they use.
pub(crate) struct Scene {
    pub(crate) server: Server,
    pub(crate) node: Node,
    pub(crate) scratch: Scratch,
    pub(crate) tree: PathBuf,
}

impl Scene {
    /// Makes a scene with an empty tree.
    pub(crate) fn new() -> Self {
        Self::with_files(0, 0)
    }

    /// Makes a scene with `files` of `bytes` each.
    pub(crate) fn with_files(files: usize, bytes: usize) -> Self {
        let scratch = Scratch::new();
        let tree = scratch.folder("source/tree");
        // The files are made before the server starts, because a server that has run for a while
        // copies its catalogue by itself.
        plant_files(&tree, files, bytes, 1);
        let server = Server::start(&scratch.join("server"));
        let node = Node::enrol(&server, "anna");
        Self { server, node, scratch, tree }
    }

    /// Makes a scene with `files` of `bytes` each. The server is made with these options, and does
    /// not copy its catalogue by itself.
    pub(crate) fn stored(scratch: Scratch, options: &[&str], files: usize, bytes: usize) -> Self {
        let tree = scratch.folder("source/tree");
        plant_files(&tree, files, bytes, 1);
        let server = Server::start_with(&scratch.join("server"), options);
        let node = Node::enrol(&server, "anna");
        let mut scene = Self { server, node, scratch, tree };
        scene.copy_no_catalog();
        scene
    }

    /// Restarts the server with only its keys, its configuration and its catalogue.
    pub(crate) fn restart_bare(&mut self) {
        self.server.terminate().expect(&[0]);
        for name in ["buckets", "index"] {
            fs::remove_dir_all(self.server.dir().join(name)).unwrap();
        }
        self.server.restart();
    }

    /// Enrols the node again, through a proxy before the server.
    #[track_caller]
    pub(crate) fn enrol_behind_proxy(&self) -> Proxy {
        let proxy = Proxy::start(self.server.port());
        let again = self.server.admin(&["node", "add", &self.node.name, "--again"]);
        let address = format!("127.0.0.1:{}", proxy.port());
        self.node.enrol_at(&address, again["token"].as_str().unwrap());
        proxy
    }

    /// Backs up the tree. No object may fail.
    #[track_caller]
    pub(crate) fn backup(&self) -> Outcome {
        self.node.backup(&self.tree, &[]).expect(&[0]).counts(&[("failed", 0)])
    }

    /// Restores the tree into the new folder `name` and returns the path of the restored tree. No
    /// object may fail.
    #[track_caller]
    pub(crate) fn restore(&self, name: &str, options: &[&str]) -> PathBuf {
        let out = self.scratch.folder(name);
        self.node
            .restore(&self.tree, &out, options)
            .expect(&[0])
            .counts(&[("failed", 0)]);
        out.join("tree")
    }

    /// Changes the policy so that the next expiration keeps active versions only.
    pub(crate) fn keep_only_active(&self) {
        keep_only_active(&self.server);
    }

    /// Returns the file of [`plant_files`] with this index.
    pub(crate) fn file(&self, index: usize) -> PathBuf {
        self.tree.join(file_name(index))
    }
}

/// Changes the policy so that the next expiration keeps active versions only.
pub(crate) fn keep_only_active(server: &Server) {
    let edit = ["--verexists", "1", "--verdeleted", "0", "--retextra", "0", "--retonly", "0"];
    server.admin(&[&["policy", "class", "STANDARD"], &edit[..]].concat());
    server.admin(&["policy", "activate", "--confirm"]);
}

pub(crate) fn file_name(index: usize) -> String {
    format!("folder-{:02}/file-{index:04}", index / FOLDER_FILES)
}

const FOLDER_FILES: usize = 50;

/// Fills `top` with `files` of `bytes` random bytes each, in folders of fifty.
pub(crate) fn plant_files(top: &Path, files: usize, bytes: usize, seed: u64) {
    let mut random = Random::new(seed, b"files");
    for index in 0..files {
        let path = top.join(file_name(index));
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, random.bytes(bytes)).unwrap();
    }
}

#[track_caller]
pub(crate) fn manifest(top: &Path) -> Manifest {
    Manifest::take(top)
        .unwrap_or_else(|error| panic!("cannot take the manifest of {top:?}: {error}"))
}

/// Calls `change`, which changes the content of a folder, and then resets the folder's time.
pub(crate) fn keep_folder_time(folder: &Path, change: impl FnOnce()) {
    let modified = fs::metadata(folder).unwrap().modified().unwrap();
    change();
    fs::File::open(folder).unwrap().set_modified(modified).unwrap();
}

/// Returns the names in a folder, sorted.
pub(crate) fn names(folder: &Path) -> Vec<Vec<u8>> {
    let names = fs::read_dir(folder).unwrap();
    let mut names: Vec<_> =
        names.map(|name| name.unwrap().file_name().as_bytes().to_vec()).collect();
    names.sort();
    names
}

/// Returns true if the tests run as root. Otherwise prints that `test` is left out.
pub(crate) fn root_or_skip(test: &str) -> bool {
    if !is_root() {
        e2e::skip::say(&format!("{test} needs root"));
    }
    is_root()
}

/// Fails the test unless the report names `path` among its failures.
#[track_caller]
pub(crate) fn assert_failure_of(outcome: &Outcome, path: &Path) {
    let failures = outcome.failures();
    let found = failures
        .iter()
        .any(|(failed, error)| failed.ends_with(path.as_os_str().as_bytes()) && !error.is_empty());
    assert!(found, "{path:?} should be among the failures: {outcome}");
}
