//! Options that choose among versions, in the commands of TSM.

use std::fs;

use super::Site;

/// The server deletes the inactive versions of a file together, so that a date, or a version that
/// a person would pick, cannot choose among them.
#[test]
fn nothing_is_deleted_by_a_choice_that_would_be_ignored() {
    let site = Site::new(1);
    let file = site.scene.file(0);
    let path = file.to_str().unwrap();
    for content in ["one", "two"] {
        fs::write(&file, content).unwrap();
        site.dsmc(&["sel", path]).expect(&[0]);
    }
    site.scene.server.admin(&["node", "set", "anna", "--backdelete", "yes"]);
    for choice in [
        &["-deltype=inactive", "-todate=2999-01-01"][..],
        &["-deltype=all", "-fromdate=2001-01-01"],
        &["-deltype=inactive", "-pitdate=2999-01-01"],
        &["-pick"],
    ] {
        let words = [&["delete", "backup", path, "-noprompt"], choice].concat();
        site.dsmc(&words).expect(&[12]).says("ANS1108E");
    }
    let versions = site.dsmc(&["q", "ba", path, "-inactive", "-json"]).expect(&[0]).json_lines();
    assert_eq!(versions.len(), 2, "{versions:?}");
    let words = ["delete", "backup", path, "-noprompt", "-todate=2001-01-01"];
    site.dsmc(&words).expect(&[12]).says("ANS1302E");
    let words = ["delete", "backup", path, "-noprompt", "-todate=2999-01-01"];
    site.dsmc(&words).expect(&[0]);
}
