//! Units of systemd: each addition that the guide names fits into the unit of the server.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use e2e::scratch::Scratch;
use e2e::skip;

/// Rows of the table with what to add to the unit, in the guide.
const ROWS: usize = 5;

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Returns the settings in code of each row of the guide's table.
fn additions() -> Vec<Vec<String>> {
    let guide = fs::read_to_string(repository().join("docs/guide/install.md")).expect("is read");
    let table = guide.split("| add to `[Service]` |\n").nth(1).expect("the guide has a table");
    let rows = table.lines().skip(1).take_while(|line| line.starts_with('|'));
    let settings = |row: &str| {
        let cell = row.split('|').nth(2).expect("a row has two cells");
        let words = cell.split('`').skip(1).step_by(2);
        words.filter(|word| word.contains('=')).map(str::to_owned).collect()
    };
    rows.map(settings).collect()
}

#[test]
fn each_addition_to_the_servers_unit_is_valid() {
    if Command::new("systemd-analyze").arg("--version").output().is_err() {
        return skip::say("systemd-analyze is missing");
    }
    let unit = repository().join("packaging/debian/holdfast-server.service");
    let unit = fs::read_to_string(unit).expect("is read");
    // The program and the pages of the manual are not installed here.
    let unit = unit.replace("/usr/bin/holdfast", "/bin/true");
    let check = |settings: &[String]| {
        let scratch = Scratch::new();
        let folder = scratch.folder("holdfast-server.service.d");
        let file = scratch.join("holdfast-server.service");
        fs::write(&file, &unit).expect("is written");
        let addition = format!("[Service]\n{}\n", settings.join("\n"));
        fs::write(folder.join("override.conf"), addition).expect("is written");
        let verify = Command::new("systemd-analyze")
            .args(["verify", "--man=no", "--recursive-errors=one"])
            .arg(&file)
            .output()
            .expect("runs");
        String::from_utf8_lossy(&verify.stderr).into_owned()
    };
    let complains = |said: &str| said.contains("holdfast-server.service");
    let wrong = check(&["PrivateDevice=no".to_owned()]);
    assert!(complains(&wrong), "a wrong setting is found: {wrong}");
    let all = additions();
    assert_eq!(all.len(), ROWS, "{all:?}");
    for settings in all {
        assert!(!settings.is_empty(), "a row adds something");
        let said = check(&settings);
        assert!(!complains(&said), "{settings:?}: {said}");
    }
}
