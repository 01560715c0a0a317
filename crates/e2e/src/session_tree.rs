//! The scene of recorded sessions: a small tree and a server. The bytes of the tree and the keys of
//! the server are always the same.

use std::fs::{self, File, Permissions};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

use crate::harness::{Node, Server};
use crate::nasty::Random;

/// Path of the tree while a session is recorded.
pub const RECORDED: &str = "/tmp/holdfast-session/tree";

/// Folder of the retrieval while it is recorded.
pub const RETRIEVED: &str = "/tmp/holdfast-session/out";

/// Further sessions after backup, incremental, list and restore, in this order: a name and the
/// arguments of the command.
pub const FURTHER: [(&str, &[&str]); 8] = [
    ("archive", &["archive", RECORDED, "--description", "session"]),
    ("archives", &["archives"]),
    ("hold", &["archives", "hold", "1"]),
    ("release", &["archives", "release", "1"]),
    ("retrieve", &["retrieve", RECORDED, "--to", RETRIEVED, "--archive", "1"]),
    ("delete", &["delete", "/tmp/holdfast-session/tree/folder/noise"]),
    ("deletions", &["undelete"]),
    ("undelete", &["undelete", "1"]),
];

/// Master key of the recorded server.
const MASTER_KEY: [u8; 32] = *b"the master key of the recording!";
/// Time of every file and directory, in seconds since 1970.
const MODIFIED_SECS: u64 = 1_700_000_000;
const NOISE_BYTES: usize = 6_000;

/// Makes a server in `dir` with the keys of the recorded server, and runs it.
#[track_caller]
pub fn server(dir: &Path) -> Server {
    let port = Server::free_port();
    Server::init_with(dir, port, &[]).expect(&[0]);
    fs::write(dir.join("master.key"), MASTER_KEY).expect("the folder exists");
    Server::start_at(dir, port)
}

/// Makes the node reach its server through `port`.
pub fn redirect(node: &Node, server: &Server, port: u16) {
    let path = node.home().join("client.toml");
    let own = fs::read_to_string(&path).expect("the node is enrolled");
    let other = own.replace(&server.address(), &format!("127.0.0.1:{port}"));
    assert_ne!(own, other, "the configuration should name the server");
    fs::write(&path, other).expect("the configuration is written");
}

/// Makes the tree of the first backup.
pub fn plant(top: &Path) {
    let folder = top.join("folder");
    fs::create_dir_all(&folder).expect("the folder is made");
    write(&top.join("text"), b"a line of text\n", 0o644);
    write(&folder.join("noise"), &Random::new(1, b"session").bytes(NOISE_BYTES), 0o600);
    write(&folder.join("empty"), b"", 0o644);
    symlink("../text", folder.join("link")).expect("the link is made");
    settle(top);
}

/// Changes the tree for the second backup.
pub fn change(top: &Path) {
    write(&top.join("text"), b"another line of text\n", 0o644);
    write(&top.join("folder/new"), b"a new file\n", 0o640);
    settle(top);
}

fn write(path: &Path, bytes: &[u8], mode: u32) {
    fs::write(path, bytes).expect("the file is written");
    fs::set_permissions(path, Permissions::from_mode(mode)).expect("the file is ours");
    date(path);
}

/// Gives the directories their times and modes, after their content has been made.
fn settle(top: &Path) {
    for directory in [top.join("folder"), top.to_owned()] {
        fs::set_permissions(&directory, Permissions::from_mode(0o755))
            .expect("the directory is ours");
        date(&directory);
    }
}

fn date(path: &Path) {
    let time = UNIX_EPOCH + Duration::from_secs(MODIFIED_SECS);
    let file = File::open(path).expect("the object exists");
    file.set_modified(time).expect("the object is ours");
}
