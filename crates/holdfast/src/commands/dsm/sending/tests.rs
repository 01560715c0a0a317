//! Tests of the commands that send data.

use super::*;

#[test]
fn a_report_has_its_figures_and_failures() {
    let document = json!({
        "inspected": 3, "backed_up": 2, "failed": 1, "elapsed_secs": 1.5,
        "failures": [{"path": {"bytes": "L/8="}, "error": "denied"},
            {"path": "/a", "error": "x"}],
    });
    let totals = totals(&document);
    assert_eq!((totals.inspected, totals.backed_up, totals.failed), (3, 2, 1));
    let failures = failures(&document);
    assert_eq!(failures[0], ("/\\xff".to_owned(), "denied".to_owned()));
    assert_eq!(failures[1].0, "/a");
}

#[test]
fn the_end_of_a_volume_has_the_words_that_scripts_look_for() {
    for (title, failed, is_incremental, expected) in [
        ("Incremental backup", 0, true, "Successful incremental backup of '/x'"),
        ("Incremental backup", 2, true, "Incremental backup of '/x' finished with 2 failure(s)"),
        ("Archive", 0, false, "Archive processing of '/x' finished without failure."),
        ("Archive", 2, false, "Archive processing of '/x' finished with failures: 2"),
    ] {
        assert_eq!(end_line(title, "/x", failed, is_incremental), expected);
    }
}

#[test]
fn places_are_those_of_the_option_files() {
    let place_of = |line| (line == 3).then(|| "/etc/dsm.sys line 12".to_owned());
    let shown = |text: &str| places_replaced(text, "/tmp/list-1", place_of);
    assert_eq!(shown("left out (/tmp/list-1 line 3)"), "left out (/etc/dsm.sys line 12)");
    assert_eq!(shown("/tmp/list-1 line 4: x"), "/tmp/list-1 line 4: x");
    assert_eq!(shown("no list"), "no list");
}

#[test]
fn a_line_of_a_list_is_sent_without_its_braces() {
    for (line, expected) in [
        ("/home/ann/a", "/home/ann/a"),
        ("{/home}/ann/a*", "/home/ann/a*"),
        ("{/}home/ann/a", "/home/ann/a"),
        ("{x}/a", "{x}/a"),
        ("{/", "{/"),
    ] {
        let path = without_braces(line.as_bytes().to_vec());
        assert_eq!(String::from_utf8_lossy(&path), expected);
    }
}

#[test]
fn the_line_of_an_object_names_its_kind() {
    let folder = tempfile::tempdir().expect("a folder");
    let (file, link) = (folder.path().join("file"), folder.path().join("link"));
    std::fs::write(&file, vec![7; 1_234]).expect("written");
    std::os::unix::fs::symlink("file", &link).expect("linked");
    let line = |path: &std::path::Path| {
        let path = path.to_str().expect("a text");
        let line = object_line("back up", path, Forms::default());
        line.strip_suffix(&format!(" {path} [Sent]")).expect("a line").to_owned()
    };
    assert_eq!(line(&file), "Normal File-->            1,234");
    assert_eq!(line(&link), "Symbolic Link-->              4");
    assert_eq!(line(folder.path()), "Directory-->                  0");
}
