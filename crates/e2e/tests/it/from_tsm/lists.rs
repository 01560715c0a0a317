//! Lists of files in the commands of TSM, which name each object themselves.

use std::fs;
use std::path::Path;

use e2e::harness::Outcome;

use super::Site;
use crate::scene;

/// Returns the files that a query shows, below the tree of the site.
fn files(site: &Site, query: &[&str]) -> Vec<String> {
    files_of(site, &site.dsmc(&[query, &["-filesonly", "-json"]].concat()).expect(&[0]))
}

fn files_of(site: &Site, query: &Outcome) -> Vec<String> {
    let rows = query.json_lines();
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

/// Stores everything of the tree, as a backup and as an archive.
fn store(site: &Site) {
    for command in ["archive", "i"] {
        site.dsmc(&[command, &format!("{}/*", site.tree()), "-su=yes"]).expect(&[0]);
    }
}

/// Makes a site with planted files that are stored. Returns it with the pattern of all files.
fn stored() -> (Site, String) {
    let site = Site::new(0);
    plant(&site);
    store(&site);
    let all = format!("{}/*", site.tree());
    (site, all)
}

/// A name of a list is no pattern, and SUBDIR does not make it one of the directories below.
#[test]
fn a_list_deletes_what_it_names_and_nothing_else() {
    let (site, all) = stored();
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
    let (site, all) = stored();
    let option = list(&site, &format!("{0}/st*r\n{0}/x\n", site.tree()));
    let to = site.scene.scratch.folder("to");
    let destination = format!("{}/", to.display());
    site.dsmc(&["retrieve", &option, &destination, "-su=yes"]).expect(&[0]);
    assert_eq!(scene::names(&to), [&b"st*r"[..], b"x"]);
    site.dsmc(&["expire", &option, "-su=yes", "-noprompt"]).expect(&[0]);
    assert_eq!(files(&site, &["q", "ba", &all, "-su=yes"]), ["below/x", "star"]);
}

/// A restore of a list has not overwritten what only a directory of the list holds.
#[test]
fn a_directory_of_a_restored_list_stands_for_itself() {
    let site = Site::new(0);
    let folder = site.scene.tree.join("folder");
    fs::create_dir_all(folder.join("below")).unwrap();
    // So many names of one directory are looked up together.
    let names: Vec<_> = (10..40).map(|number| format!("file-{number}")).collect();
    let all = names.iter().map(|name| folder.join(name)).chain([folder.join("below/deep")]);
    let all: Vec<_> = all.collect();
    for file in &all {
        fs::write(file, b"stored").unwrap();
    }
    site.dsmc(&["i", &format!("{}/", site.tree()), "-su=yes"]).expect(&[0]);
    for file in &all {
        fs::write(file, b"local work").unwrap();
    }
    let top = folder.display();
    let lines = names[..20].iter().map(|name| format!("{top}/{name}\n"));
    let lines = lines.collect::<String>() + &format!("{top}\n{top}/below\n");
    let option = list(&site, &lines);
    site.dsmc(&["restore", &option, "-replace=all"]).expect(&[0]);
    let has = |file: &Path, content: &[u8]| assert_eq!(fs::read(file).unwrap(), content);
    all[..20].iter().for_each(|file| has(file, b"stored"));
    all[20..].iter().for_each(|file| has(file, b"local work"));
    fs::remove_dir_all(&folder).unwrap();
    let option = list(&site, &format!("{top}\n{top}/absent\n"));
    site.dsmc(&["restore", &option]).expect(&[4]).says("ANS4005E");
    assert!(scene::names(&folder).is_empty());
}

#[test]
fn braces_in_a_list_name_the_file_space() {
    let site = Site::new(1);
    let file = site.scene.file(0);
    let path = file.to_str().unwrap();
    site.dsmc(&["i", path]).expect(&[0]);
    let shown = site.dsmc(&["q", "fi", "-json"]).expect(&[0]);
    let document: serde_json::Value = serde_json::from_str(shown.stdout.trim()).unwrap();
    let filespace = document["filespace"].as_str().unwrap();
    let content = fs::read(&file).unwrap();
    fs::remove_file(&file).unwrap();
    let within = path.strip_prefix(filespace).unwrap();
    let option = list(&site, &format!("{{{filespace}}}{within}\n"));
    site.dsmc(&["restore", &option]).expect(&[0]);
    assert_eq!(fs::read(&file).unwrap(), content);
    let option = list(&site, &format!("{{/no/such}}/{within}\n"));
    site.dsmc(&["restore", &option]).expect(&[12]).says("no file space is called");
}

#[test]
fn a_query_takes_its_names_from_a_list() {
    let (site, _) = stored();
    let option = list(&site, &format!("{0}/st*r\n{0}/below/x\n{0}/absent\n", site.tree()));
    for query in ["ar", "ba"] {
        let absent =
            format!("ANS1092W The query finds nothing under the name '{}/absent'", site.tree());
        let shown = site.dsmc(&["q", query, &option, "-json"]).expect(&[8]).says(&absent);
        assert_eq!(files_of(&site, &shown), ["below/x", "st*r"], "{query}");
        let both = [format!("{}/x", site.tree()), format!("{}/absent", site.tree())];
        site.dsmc(&["q", query, &both[0], &both[1]]).expect(&[8]).says(&absent);
        site.dsmc(&["q", query, &both[0]]).expect(&[0]);
    }
    let option = list(&site, &format!("{}/absent\n", site.tree()));
    site.dsmc(&["q", "ba", &option]).expect(&[8]).says("ANS1092W");
}

/// Files of one name from two archives went to one place, and the second replaced the first.
#[test]
fn listed_files_of_one_name_come_back_apart() {
    let site = Site::new(0);
    let mut lines = String::new();
    for folder in ["a", "b"] {
        let file = site.scene.tree.join(folder).join("same");
        fs::create_dir(file.parent().unwrap()).unwrap();
        fs::write(&file, folder).unwrap();
        site.dsmc(&["archive", file.to_str().unwrap()]).expect(&[0]);
        lines.extend([file.display().to_string(), "\n".to_owned()]);
    }
    let option = list(&site, &lines);
    let to = site.scene.scratch.folder("apart");
    let destination = format!("{}/", to.display());
    site.dsmc(&["retrieve", &option, &destination, "-replace=all"]).expect(&[0]);
    for folder in ["a", "b"] {
        assert_eq!(fs::read_to_string(to.join(folder).join("same")).unwrap(), folder);
    }
}

/// Makes a site with planted files that are stored, and with every right to delete them.
fn deletable_site() -> Site {
    let (site, _) = stored();
    for right in ["--archdelete", "--backdelete"] {
        site.scene.server.admin(&["node", "set", "anna", right, "yes"]);
    }
    site
}

/// Returns lines with names that stand for nothing, so many that a list is looked up as a whole.
fn absent_names(top: &str) -> String {
    (10..30).map(|number| format!("{top}/absent-{number}\n")).collect()
}

#[test]
fn a_long_list_retrieves_and_deletes_what_archives_have() {
    let site = deletable_site();
    let top = site.tree();
    let absent = absent_names(top);
    let option = list(&site, &format!("{top}/st*r\n{top}/below\n{top}/below/x\n{absent}"));
    let told = format!("ANS1345E Nothing is stored under the name '{top}/absent-29'");
    let to = site.scene.scratch.folder("to");
    let destination = format!("{}/", to.display());
    site.dsmc(&["retrieve", &option, &destination]).expect(&[12]).says(&told);
    assert_eq!(scene::names(&to), [&b"st*r"[..], b"x"]);
    site.dsmc(&["delete", "archive", &option, "-noprompt"])
        .expect(&[12])
        .says(&told);
    let all = format!("{top}/*");
    assert_eq!(files(&site, &["q", "ar", &all, "-su=yes"]), ["star", "x"]);
}

/// Each file of a list was a deletion of its own, with a request of its own.
#[test]
fn the_backups_of_a_list_are_one_deletion() {
    let site = deletable_site();
    let top = site.tree();
    let absent = absent_names(top);
    let option = list(&site, &format!("{top}/st*r\n{top}/below/x\n{top}/x\n{absent}"));
    let told = format!("ANS1345E Nothing is stored under the name '{top}/absent-29'");
    let words = ["delete", "backup", &option, "-noprompt", "-json"];
    let deleted = site.dsmc(&words).expect(&[12]).says(&told).json();
    assert_eq!(deleted["deleted"], 3);
    assert_eq!(deleted["undone_by"].as_array().unwrap().len(), 1);
    assert_eq!(files(&site, &["q", "ba", &format!("{top}/*"), "-su=yes"]), ["star"]);
}

/// The answer has the order of the list, not that of the server.
#[test]
fn a_long_list_of_a_query_keeps_its_order() {
    let (site, _) = stored();
    let top = site.tree();
    let absent = absent_names(top);
    let option = list(&site, &format!("{top}/x\n{top}/below\n{absent}{top}/star\n{top}/st*r\n"));
    let told = format!("ANS1092W The query finds nothing under the name '{top}/absent-29'");
    for query in ["ar", "ba"] {
        let words = ["q", query, &option, "-filesonly", "-json"];
        let rows = site.dsmc(&words).expect(&[8]).says(&told).json_lines();
        let paths: Vec<&str> = rows.iter().map(|row| row["path"].as_str().unwrap()).collect();
        assert_eq!(paths, ["x", "star", "st*r"].map(|name| format!("{top}/{name}")), "{query}");
    }
}

/// Commands that end what is stored, each with the query that shows it.
const ENDINGS: [(&[&str], &str); 3] =
    [(&["delete", "backup"], "ba"), (&["delete", "archive"], "ar"), (&["expire"], "ba")];

/// The command went past a wrong name without a word, and ended with exit code 0.
#[test]
fn an_absent_name_beside_others_is_told_and_they_go() {
    let site = deletable_site();
    let [file, absent] = ["x", "absent"].map(|name| format!("{}/{name}", site.tree()));
    let all = format!("{}/*", site.tree());
    let option = list(&site, &format!("{file}\n{absent}\n"));
    let told = format!("ANS1345E Nothing is stored under the name '{absent}'");
    for (command, query) in ENDINGS {
        for names in [&[option.as_str()][..], &[file.as_str(), absent.as_str()]] {
            site.dsmc(&[command, names, &["-noprompt"]].concat()).expect(&[12]).says(&told);
            let left = files(&site, &["q", query, &all, "-su=yes"]);
            let has = |name: &str| left.iter().any(|left| left == name);
            assert!(!has("x") && has("star"), "{command:?} {names:?}: {left:?}");
            store(&site);
        }
        site.dsmc(&[command, &[absent.as_str(), "-noprompt"]].concat())
            .expect(&[12])
            .says("ANS1302E");
    }
}

/// The directory was left out in silence, or by a hint at an option that a list does not take.
#[test]
fn a_named_directory_that_stays_is_told() {
    let site = deletable_site();
    let [below, file] = ["below", "x"].map(|name| format!("{}/{name}", site.tree()));
    for (command, query) in ENDINGS {
        let hint = format!("'{} {below}/ -subdir=yes' is for all in it", command.join(" "));
        let alone = list(&site, &format!("{below}\n"));
        for names in [&[alone.as_str(), "-su=yes"][..], &[below.as_str()]] {
            site.dsmc(&[command, names, &["-noprompt"]].concat()).expect(&[12]).says(&hint);
        }
        let both = list(&site, &format!("{below}\n{file}\n"));
        site.dsmc(&[command, &[both.as_str(), "-noprompt"]].concat())
            .expect(&[0])
            .says("Directories that are named, and stay: 1;");
        let left = files(&site, &["q", query, &below, "-su=yes"]);
        assert!(left.contains(&"below/x".to_owned()), "{command:?}: {left:?}");
        store(&site);
    }
}

/// The directory of a wrong name stood for the nearest one that is there, which was backed up.
#[test]
fn an_expiration_backs_up_nothing_for_an_absent_name() {
    let site = Site::new(0);
    plant(&site);
    let [file, new, absent] =
        ["below/x", "star", "none/*.c"].map(|name| format!("{}/{name}", site.tree()));
    for descent in ["-su=no", "-su=yes"] {
        site.dsmc(&["i", &file]).expect(&[0]);
        site.dsmc(&["expire", &file, &absent, descent, "-noprompt"])
            .expect(&[12])
            .says(&format!("ANS1345E Nothing is stored under the name '{absent}'"));
        site.dsmc(&["q", "ba", &file]).expect(&[8]);
        site.dsmc(&["q", "ba", &new]).expect(&[8]);
    }
}
