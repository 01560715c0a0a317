//! Lists of files in the commands of TSM, which name each object themselves.

use std::fs;

use super::Site;

/// Returns the files that a query shows, below the tree of the site.
fn files(site: &Site, query: &[&str]) -> Vec<String> {
    let rows = site.dsmc(&[query, &["-filesonly", "-json"]].concat()).expect(&[0]).json_lines();
    let within = |row: &serde_json::Value| {
        let path = row["path"].as_str().unwrap();
        path.strip_prefix(&format!("{}/", site.tree())).unwrap().to_owned()
    };
    let mut names: Vec<_> = rows.iter().map(within).collect();
    names.sort();
    names
}

/// Writes a list of files, and returns the option that names it.
fn list(site: &Site, lines: &str) -> String {
    let path = site.scene.scratch.join("list");
    fs::write(&path, lines).unwrap();
    format!("-filelist={}", path.display())
}

/// Plants files of which a name with a wildcard, or a name in a directory below, fits others.
fn plant(site: &Site) {
    let tree = &site.scene.tree;
    fs::create_dir(tree.join("below")).unwrap();
    for name in ["st*r", "star", "x", "below/x"] {
        fs::write(tree.join(name), name).unwrap();
    }
}

/// A name of a list is no pattern, and SUBDIR does not make it one of the directories below.
#[test]
fn a_list_deletes_what_it_names_and_nothing_else() {
    let site = Site::new(0);
    plant(&site);
    let all = format!("{}/*", site.tree());
    for command in ["archive", "i"] {
        site.dsmc(&[command, &all, "-su=yes"]).expect(&[0]);
    }
    for right in ["--archdelete", "--backdelete"] {
        site.scene.server.admin(&["node", "set", "anna", right, "yes"]);
    }
    let option = list(&site, &format!("{0}/st*r\n{0}/x\n", site.tree()));
    for (kind, query) in [("archive", "ar"), ("backup", "ba")] {
        site.dsmc(&["delete", kind, &option, "-su=yes", "-noprompt"]).expect(&[0]);
        assert_eq!(files(&site, &["q", query, &all, "-su=yes"]), ["below/x", "star"], "{kind}");
    }
}

#[test]
fn a_list_expires_and_retrieves_what_it_names_and_nothing_else() {
    let site = Site::new(0);
    plant(&site);
    let all = format!("{}/*", site.tree());
    for command in ["archive", "i"] {
        site.dsmc(&[command, &all, "-su=yes"]).expect(&[0]);
    }
    let option = list(&site, &format!("{0}/st*r\n{0}/x\n", site.tree()));
    let to = site.scene.scratch.folder("to");
    let destination = format!("{}/", to.display());
    site.dsmc(&["retrieve", &option, &destination, "-su=yes"]).expect(&[0]);
    let mut names: Vec<_> =
        fs::read_dir(&to).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["st*r", "x"]);
    site.dsmc(&["expire", &option, "-su=yes", "-noprompt"]).expect(&[0]);
    assert_eq!(files(&site, &["q", "ba", &all, "-su=yes"]), ["below/x", "star"]);
}
