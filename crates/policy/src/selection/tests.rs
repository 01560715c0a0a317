//! Tests of verdicts, by the rules in the manual of TSM.

use super::*;
use crate::statement::parse_list;

fn listed(text: &str) -> Selection {
    let source = |line| Source::File { path: "list".to_owned(), line };
    let own = parse_list(text.as_bytes(), source).expect("a list");
    Selection::new(own, Vec::new(), []).expect("no patterns")
}

fn excluding(excludes: &[&str]) -> Selection {
    let patterns = excludes.iter().map(|text| text.as_bytes());
    Selection::new(Vec::new(), Vec::new(), patterns).expect("parses")
}

fn kind(path: &str) -> Kind {
    if path.ends_with('/') { Kind::Directory } else { Kind::File }
}

/// Checks which rule leaves `path` out: `expected` is its index. A directory's path ends with a
/// slash.
#[track_caller]
fn check_command(excludes: &[&str], path: &str, expected: Option<usize>) {
    let verdict = excluding(excludes).verdict(path.as_bytes(), kind(path), Operation::Backup);
    let expected = match expected {
        None => Verdict::Included { rule_index: None },
        Some(rule_index) => Verdict::Excluded { rule_index },
    };
    assert_eq!(verdict, expected, "{excludes:?} on {path}");
}

/// Checks the verdict on `path`. `expected` is `+` for included or `-` for excluded, followed by
/// the number of the line that decides, if any does.
#[track_caller]
fn check(list: &str, path: &str, expected: &str) {
    let selection = listed(list);
    let (verdict, _) = selection.explain(path.as_bytes(), kind(path), Operation::Backup);
    let sign = if verdict.is_included() { "+" } else { "-" };
    let line = verdict.rule_index().map(|index| match &selection.statements()[index].source {
        Source::File { line, .. } => line.to_string(),
        source => panic!("{source} is not a line of a file"),
    });
    assert_eq!(format!("{sign}{}", line.unwrap_or_default()), expected, "{path}");
}

#[test]
fn without_rules_everything_is_included() {
    check_command(&[], "/etc/passwd", None);
    check_command(&[], "/", None);
}

#[test]
fn an_exclude_of_the_command_is_about_directories_too() {
    let rules = ["*.o", "/src/.../*.o", "/src/target"];
    check_command(&rules, "/src/a.o", Some(1));
    check_command(&rules, "/src/target/", Some(2));
    check_command(&rules, "/src/a.c", None);
    check_command(&["cache/"], "/var/cache/", Some(0));
    check_command(&["cache/"], "/var/cache", None);
    check_command(&["cache"], "/var/cache", Some(0));
    check_command(&["cache"], "/var/cache/", Some(0));
}

#[test]
fn a_symlink_to_a_directory_is_no_directory() {
    let verdict = excluding(&["cache/"]).verdict(b"/var/cache", Kind::Symlink, Operation::Backup);
    assert!(verdict.is_included());
}

#[test]
fn the_last_statement_that_matches_decides() {
    let list = "exclude /fs1/.../*\ninclude /fs1/.../*.o";
    check(list, "/fs1/a/b.o", "+2");
    check(list, "/fs1/a/b.c", "-1");
    check(list, "/fs2/b.c", "+");
    let list = "include /fs1/.../*.o\nexclude /fs1/.../*";
    check(list, "/fs1/a/b.o", "-2");
}

#[test]
fn directories_are_left_out_only_by_exclude_dir() {
    check("exclude /fs1/.../*", "/fs1/a/", "+");
    check("exclude.dir /fs1/a", "/fs1/a/", "-1");
    check("exclude.dir /fs1/a", "/fs1/a", "+");
}

#[test]
fn nothing_below_an_excluded_directory_comes_back() {
    let list = "exclude.dir /fs1\ninclude /fs1/.../*.o";
    check(list, "/fs1/a/b.o", "-1");
    let list = "exclude.dir /.../tmp\ninclude /a/tmp/keep";
    check(list, "/a/tmp/keep", "-1");
    check(list, "/a/tmp2/keep", "+");
}

#[test]
fn archives_have_statements_of_their_own() {
    let selection = listed("exclude /a\nexclude.archive /b\nexclude.dir /c\ninclude.archive /b/x");
    let included = |path: &str, operation| {
        selection.verdict(path.as_bytes(), kind(path), operation).is_included()
    };
    for (path, in_backup, in_archive) in
        [("/a", false, true), ("/b", true, false), ("/c/", false, true), ("/b/x", true, true)]
    {
        assert_eq!(included(path, Operation::Backup), in_backup, "{path}");
        assert_eq!(included(path, Operation::Archive), in_archive, "{path}");
    }
}

#[test]
fn the_servers_statements_come_after_the_nodes_own() {
    let parse = |text: &str| {
        let source = |line| Source::OptionSet { name: "ALL".to_owned(), line };
        parse_list(text.as_bytes(), source).expect("a list")
    };
    let own = parse("include /etc/.../*");
    let server = parse("exclude /etc/shadow");
    let selection = Selection::new(own, server, [&b"*.bak"[..]]).expect("a selection");
    let verdict = |path: &[u8]| selection.verdict(path, Kind::File, Operation::Backup);
    assert_eq!(verdict(b"/etc/shadow"), Verdict::Excluded { rule_index: 1 });
    assert_eq!(verdict(b"/etc/passwd"), Verdict::Included { rule_index: Some(0) });
    assert_eq!(verdict(b"/etc/passwd.bak"), Verdict::Excluded { rule_index: 2 });
    assert_eq!(selection.statements()[1].source.to_string(), "option set ALL line 1");
}

#[test]
fn symbolic_links_may_be_left_out_alone() {
    let selection = listed("exclude.attribute.symlink /a/*");
    let included = |kind| selection.verdict(b"/a/b", kind, Operation::Backup).is_included();
    assert!(!included(Kind::Symlink));
    assert!(included(Kind::File));
}

#[test]
fn file_systems_are_left_out_by_mount_point_or_type() {
    let selection = listed("exclude.fs /mnt/*\nexclude.fstype nfs tmpfs");
    assert_eq!(selection.excludes_filesystem(b"/mnt/a", "ext4"), Some(0));
    assert_eq!(selection.excludes_filesystem(b"/home", "NFS"), Some(1));
    assert_eq!(selection.excludes_filesystem(b"/home", "ext4"), None);
    let of_root = listed("exclude.fs /");
    assert_eq!(of_root.excludes_filesystem(b"/", "ext4"), Some(0));
    assert_eq!(of_root.excludes_filesystem(b"/home", "ext4"), None);
}

#[test]
fn the_content_of_a_directory_may_be_left_alone() {
    let list = "include /srv/.../*\nexclude.content /srv/p*";
    check(list, "/srv/projects/a/b", "-2");
    check(list, "/srv/projects/", "-2");
    check(list, "/srv/other/a", "+1");
    let selection = listed(list);
    let itself = selection.verdict(b"/srv/projects", Kind::Directory, Operation::Backup);
    assert!(itself.is_included(), "the directory has a version of its own");
    assert_eq!(selection.leaves_content(b"/srv/projects", Operation::Backup), Some(1));
    assert_eq!(selection.leaves_content(b"/srv/projects", Operation::Archive), None);
    assert_eq!(selection.leaves_content(b"/srv", Operation::Backup), None);
    assert!(selection.has_left_contents() && !listed("exclude.dir /srv").has_left_contents());
}

#[test]
fn treatments_are_asked_apart_from_the_verdict() {
    let selection =
        listed("exclude.compression /.../*.gz\ninclude.compression /a/*\nexclude.dedup /b");
    assert_eq!(selection.treats(b"/b/c.gz", Treatment::Compression), Some(false));
    assert_eq!(selection.treats(b"/a/c.gz", Treatment::Compression), Some(true));
    assert_eq!(selection.treats(b"/b", Treatment::Compression), None);
    assert_eq!(selection.treats(b"/b", Treatment::Deduplication), Some(false));
    assert!(selection.verdict(b"/b/c.gz", Kind::File, Operation::Backup).is_included());
}

#[test]
fn statements_bind_to_classes() {
    let selection = listed("include /a/* LONG\ninclude /a/b");
    let class = |path: &[u8]| {
        let verdict = selection.verdict(path, Kind::File, Operation::Backup);
        verdict.rule_index().and_then(|index| selection.class(index))
    };
    assert_eq!(class(b"/a/c"), Some("LONG"));
    assert_eq!(class(b"/a/b"), None);
    assert_eq!(class(b"/d"), None);
    assert_eq!(selection.classes().collect::<Vec<_>>(), [(0, "LONG")]);
}

#[test]
fn an_include_is_found_behind_an_exclude() {
    let list = "include /a LONG\ninclude.archive /a OTHER\nexclude /*";
    let including = |path: &[u8]| listed(list).including(path, Operation::Backup);
    assert_eq!(including(b"/a"), Some(0));
    assert_eq!(including(b"/b"), None);
}

#[test]
fn an_error_names_its_pattern() {
    let patterns = [&b"*.o"[..], b"a/b"];
    let error = Selection::new(Vec::new(), Vec::new(), patterns);
    assert_eq!(error, Err((1, PatternError::Relative)));
}

#[test]
fn every_change_of_the_rules_shows_in_the_canonical_bytes() {
    let lists = [
        "",
        "exclude /a",
        "exclude.archive /a",
        "exclude.dir /a",
        "exclude.fs /a",
        "exclude.tag a",
        "exclude.fstype a",
        "exclude.fstype a b",
        "exclude.attribute.symlink /a",
        "exclude.compression /a",
        "include.compression /a",
        "exclude.dedup /a",
        "include /a",
        "include.backup /a",
        "include /a B",
        "include /a b",
        "exclude /a\nexclude /b",
        "exclude /b\nexclude /a",
        "exclude \"/a b\"",
    ];
    let mut forms: Vec<_> = lists.iter().map(|list| listed(list).canonical()).collect();
    forms.push(excluding(&["/a"]).canonical());
    forms.sort();
    forms.dedup();
    assert_eq!(forms.len(), lists.len() + 1);
}

#[test]
fn statements_on_space_management_are_not_about_backups() {
    let list = "exclude /a/*\ninclude.spacemgmt /a/b\nexclude.spacemgmt /a/*";
    let selection = listed(list);
    let says = |path: &[u8]| {
        let found = selection.treating(path, Treatment::SpaceManagement);
        found.map(|(is_on, source)| (is_on, source.to_string()))
    };
    assert_eq!(says(b"/a/b"), Some((false, "list line 3".to_owned())), "the last one wins");
    assert_eq!(says(b"/b"), None);
    assert!(!selection.has_treatments());
    assert_eq!(selection.canonical(), listed("exclude /a/*").canonical());
}
