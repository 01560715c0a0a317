//! Scripts of the packages for Debian, without an installation: `make vm-test` installs them.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use e2e::harness::Tmpfs;
use e2e::scratch::Scratch;
use e2e::skip;

/// Packages with a unit that an upgrade restarts. Space management is replaced in another way.
const RESTARTED: [(&str, &str); 4] = [
    ("holdfast-server", "holdfast-server"),
    ("holdfast-agent", "holdfast-agent"),
    ("holdfast-agent", "holdfast-journal"),
    ("holdfast-tsm", "dsmcad"),
];

fn debian() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/debian")
}

/// Makes the parts of the scripts that start and stop units, by debhelper, in `scratch`.
fn make_scripts(scratch: &Scratch) {
    let copy = Command::new("cp").arg("-R").arg(debian()).arg(scratch.join("debian")).status();
    assert!(copy.expect("cp runs").success(), "the folder is copied");
    let make = Command::new("make")
        .args(["-s", "-f", "debian/rules", "override_dh_installsystemd"])
        .current_dir(scratch.path())
        .env_remove("MAKEFLAGS")
        .output()
        .expect("make runs");
    assert!(make.status.success(), "{}", String::from_utf8_lossy(&make.stderr));
}

#[test]
fn an_upgrade_restarts_each_unit_and_a_removal_stops_it() {
    if Command::new("dh_installsystemd").arg("--help").output().is_err() {
        return skip::say("debhelper is missing");
    }
    let scratch = Scratch::new();
    make_scripts(&scratch);
    for (package, unit) in RESTARTED {
        let calls = |name: &str, call: &str| {
            let path = format!("debian/.debhelper/generated/{package}/{name}.service");
            // debhelper makes no file for a script without a part.
            let script = fs::read_to_string(scratch.join(&path)).unwrap_or_default();
            script.contains(&format!("deb-systemd-invoke {call} '{unit}.service'"))
        };
        assert!(!calls("preinst", "stop"), "{unit} would stay stopped after an upgrade");
        assert!(calls("postinst", "$_dh_action"), "{unit} is restarted by an upgrade");
        assert!(calls("prerm", "stop"), "{unit} is stopped by a removal");
    }
}

/// A folder of a server whose package is purged.
struct PackageServer {
    scratch: Scratch,
    folder: PathBuf,
}

impl PackageServer {
    fn new() -> Self {
        let scratch = Scratch::new();
        let folder = scratch.folder("server");
        Self { scratch, folder }
    }

    /// Purges the package with this answer to the question whether the data go. Returns what the
    /// script has printed.
    #[track_caller]
    fn purge(&self, answer: &str) -> String {
        let debconf = self.scratch.join("confmodule");
        let functions =
            format!("db_input() {{ :; }}; db_go() {{ :; }}; db_get() {{ RET={answer}; }}");
        fs::write(&debconf, functions).expect("is written");
        let script = fs::read_to_string(debian().join("holdfast-server.postrm")).expect("is read");
        let script = script
            .replace("/usr/share/debconf/confmodule", &debconf.display().to_string())
            .replace("/var/lib/holdfast", &self.folder.display().to_string());
        let run = Command::new("sh").args(["-c", &script, "postrm", "purge"]).output();
        let run = run.expect("sh runs");
        let said = String::from_utf8_lossy(&run.stderr).into_owned();
        assert!(run.status.success(), "the purge ends: {said}");
        said
    }
}

#[test]
fn a_purge_removes_the_data_of_the_server_if_the_answer_is_yes() {
    let purged = PackageServer::new();
    fs::write(purged.folder.join("server.toml"), "").expect("is written");
    let said = purged.purge("false");
    assert!(said.contains("The data of the Holdfast server stay in"), "{said}");
    assert!(purged.folder.join("server.toml").is_file());
    assert_eq!(purged.purge("true"), "");
    assert!(!purged.folder.is_dir());
}

/// `rm` fails at a mount point. The package stayed in a state that only an administrator ends.
#[test]
fn a_purge_ends_where_the_folder_of_the_server_is_a_mount_point() {
    let purged = PackageServer::new();
    let Some(mount) = Tmpfs::mount(&purged.folder, "size=1m") else {
        return skip::say("this machine cannot mount a tmpfs");
    };
    fs::write(mount.path().join("server.toml"), "").expect("is written");
    let said = purged.purge("true");
    assert!(said.contains("could not be removed, and stays"), "{said}");
    assert!(!purged.folder.join("server.toml").is_file());
}

#[test]
fn a_purge_removes_the_data_that_a_link_leads_to() {
    let mut purged = PackageServer::new();
    fs::write(purged.folder.join("server.toml"), "").expect("is written");
    let link = purged.scratch.join("link");
    symlink(&purged.folder, &link).expect("is made");
    let folder = std::mem::replace(&mut purged.folder, link);
    assert_eq!(purged.purge("true"), "");
    assert!(!folder.is_dir());
    assert!(!purged.folder.is_symlink());
}

/// A link may lead to a folder of others, in which no server was ever made.
#[test]
fn a_purge_keeps_what_a_link_leads_to_if_no_server_is_there() {
    let mut purged = PackageServer::new();
    fs::write(purged.folder.join("letter"), "").expect("is written");
    let link = purged.scratch.join("link");
    symlink(&purged.folder, &link).expect("is made");
    let folder = std::mem::replace(&mut purged.folder, link);
    let said = purged.purge("true");
    assert!(said.contains("is not the folder of a server"), "{said}");
    assert!(folder.join("letter").is_file());
    assert!(!purged.folder.is_symlink());
}

/// The packages named the licence of the program alone, and not those of the crates in it.
#[test]
fn the_copyright_names_the_crates_in_the_program() {
    let build = debian().join("../build");
    let made = Command::new("bash").arg(build).arg("--copyright").output().expect("bash runs");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let text = String::from_utf8(made.stdout).expect("text");
    let own = fs::read_to_string(debian().join("copyright")).expect("is read");
    let rest = text.strip_prefix(&own).expect("the own copyright comes first");
    let crates: Vec<&str> = rest.lines().filter_map(|line| line.strip_prefix("  ")).collect();
    let licence = |name: &str| {
        let of_crate = |line: &&str| line.starts_with(&format!("{name} "));
        crates
            .iter()
            .copied()
            .find(of_crate)
            .and_then(|line| line.split_once(": "))
            .map(|(_, it)| it)
    };
    assert_eq!(licence("tokio"), Some("MIT"));
    assert!(licence("rustls").is_some_and(|licence| licence.contains("Apache-2.0")));
    assert_eq!(licence("serde_derive"), None, "it runs at the build alone");
    assert!(crates.iter().all(|line| line.contains(": ") && !line.contains('/')), "{text}");
}
