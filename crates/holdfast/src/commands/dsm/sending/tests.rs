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
fn an_expiration_leaves_out_what_is_named() {
    let patterns = |operand: &str, descends| {
        let spec = Spec::parse(operand.as_bytes(), b"/").expect("an operand");
        String::from_utf8(excluded(&spec, descends)).expect("is text")
    };
    assert_eq!(patterns("/home/ann/a", false), "/home/ann/a");
    assert_eq!(patterns("/home/ann/*.c", true), "/home/ann/.../*.c");
    assert_eq!(patterns("/home/ann/", false), "/home/ann/*");
    assert_eq!(patterns("/srv/[ann]/a[1]", false), r"/srv/\[ann]/a\[1]");
    assert_eq!(patterns("/a", false), "/a");
}

#[test]
fn an_expiration_takes_each_directory_once() {
    let specs = |operands: &[&str]| -> Vec<Spec> {
        let parse = |operand: &&str| Spec::parse(operand.as_bytes(), b"/").expect("an operand");
        operands.iter().map(parse).collect()
    };
    let folders = by_folder(&specs(&["/b/x", "/a/y", "/b/z"]), false).expect("are few");
    let expected = [
        (b"/a".to_vec(), vec![b"/a/y".to_vec()]),
        (b"/b".to_vec(), vec![b"/b/x".to_vec(), b"/b/z".to_vec()]),
    ];
    assert_eq!(folders, BTreeMap::from(expected));
    let long = format!("/b/{}", "x".repeat(200));
    let many = vec![long.as_str(); PATHS_BYTES_MAX / 200];
    assert!(by_folder(&specs(&many), false).is_err());
}
