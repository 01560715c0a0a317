//! Scripts of the packages for Debian, without an installation: `make vm-test` installs them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

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
