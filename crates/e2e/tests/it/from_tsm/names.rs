//! Names that the commands of TSM take, ignore nowhere, and ask about before they destroy.

use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use e2e::harness::{Node, start};

use super::Site;

/// TSM's commands write names of nodes in capitals, and `register node` keeps them.
#[test]
fn nodes_with_capitals_get_access_and_give_it() {
    let site = Site::new(1);
    site.dsmc(&["i", site.tree(), "-su=yes"]).expect(&[0]);
    let file = site.scene.file(0);
    let file = file.to_str().unwrap();
    let bert = Node::enrol(&site.scene.server, "BERT");
    let dsmc = |words: &[&str]| bert.run(&[&["dsm", "run", "dsmc"], words].concat());
    for name in ["BERT", "bert"] {
        site.dsmc(&["set", "access", "backup", file, name]).expect(&[0]);
        dsmc(&["q", "ba", file, "-fromnode=ANNA"]).expect(&[0]).says(file);
        site.dsmc(&["delete", "access", "1"]).expect(&[0]);
    }
    dsmc(&["i", file]).expect(&[0]);
    dsmc(&["set", "access", "backup", file, "ANNA"]).expect(&[0]);
    for owner in ["-fromnode=BERT", "-fromnode=bert"] {
        site.dsmc(&["q", "ba", file, owner]).expect(&[0]).says(file);
    }
}

/// An archive has statements and classes of its own, which a preview of it shows.
#[test]
fn a_preview_shows_what_its_operation_would_send() {
    let site = Site::new(0);
    let tree = &site.scene.tree;
    fs::create_dir_all(tree.join("cache")).unwrap();
    for name in ["a.c", "b.tmp", "c.old", "cache/d.c"] {
        fs::write(tree.join(name), b"content").unwrap();
    }
    let list = site.options.with_file_name("inclexcl.list");
    let statements = fs::read_to_string(&list).unwrap() + "exclude.archive /.../*.old\n";
    fs::write(&list, statements).unwrap();
    let shown = |words: &[&str]| {
        let rows = site.dsmc(&[words, &["-json"]].concat()).expect(&[0]).json_lines();
        let shown = |row: &serde_json::Value| {
            let sign = if row["included"] == true { '+' } else { '-' };
            let path = row["path"].as_str().unwrap();
            format!("{sign}{}", path.strip_prefix(site.tree()).unwrap())
        };
        let mut rows: Vec<_> = rows.iter().map(shown).collect();
        rows.sort();
        rows
    };
    let (all, pattern) = (format!("{}/*", site.tree()), format!("{}/*.c", site.tree()));
    assert_eq!(
        shown(&["preview", "backup", &all]),
        ["+", "+/a.c", "+/c.old", "-/b.tmp", "-/cache"]
    );
    let of_archive = shown(&["preview", "archive", &all]);
    assert_eq!(of_archive, ["+", "+/a.c", "+/b.tmp", "+/cache", "+/cache/d.c", "-/c.old"]);
    // The program that looks has a list of its own, which nobody else knows.
    let rows = site.dsmc(&["preview", "backup", &all, "-json"]).expect(&[0]).json_lines();
    let of_list = |row: &&serde_json::Value| row["path"].as_str().unwrap().ends_with("b.tmp");
    let source = rows.iter().find(of_list).unwrap()["rule"]["source"].as_str().unwrap();
    assert_eq!(source, format!("{} line 2", list.display()));
    assert_eq!(shown(&["pre", "ar", &pattern, "-su=yes"]), ["+/a.c", "+/cache/d.c"]);
    assert_eq!(shown(&["pre", "ar", &pattern, "-su=no"]), ["+/a.c"]);
    assert_eq!(shown(&["pre", "ar", &pattern, "-traverse=no"]), ["+/a.c"]);
    let file = site.scene.scratch.join("previewed");
    let option = format!("-filename={}", file.display());
    let shown = site.dsmc(&["preview", "backup", &pattern, &option]).expect(&[0]);
    let written = fs::read_to_string(&file).unwrap();
    assert!(written.contains("/a.c") && shown.stdout.ends_with(&written), "{written}");
    site.dsmc(&["preview", "archive", &all, "-archmc=NONE"])
        .expect(&[12])
        .says("there is no class NONE");
}

#[test]
fn each_command_has_documents_and_nothing_beside_them() {
    let site = Site::new(1);
    site.dsmc(&["i", site.tree(), "-su=yes"]).expect(&[0]);
    let file = site.scene.file(0);
    let file = file.to_str().unwrap();
    site.scene.server.admin(&["node", "set", "anna", "--backdelete", "yes"]);
    site.dsmc(&["archive", file]).expect(&[0]);
    for words in [
        vec!["set", "access", "backup", file, "bert"],
        vec!["delete", "access", "1"],
        vec!["query", "restore"],
        vec!["query", "filespace", "--json"],
        vec!["set", "event", file, "-type=hold"],
        vec!["set", "event", file, "-type=release"],
        vec!["set", "password"],
        vec!["restart", "restore"],
        vec!["help"],
        vec!["expire", file, "-noprompt"],
        vec!["delete", "backup", file, "-deltype=all", "-noprompt"],
        vec!["delete", "archive", file, "-noprompt"],
    ] {
        let done = site.dsmc(&[&words[..], &["-json"]].concat()).expect(&[0]);
        assert!(!done.json_lines().is_empty(), "{words:?}");
    }
    site.dsmc(&["i", file]).expect(&[0]);
    let asked = site.dsmc(&["delete", "backup", file, "-json"]).expect(&[12]);
    assert_eq!(asked.stdout, "", "{asked}");
}

#[test]
fn words_that_would_be_ignored_are_refused() {
    let site = Site::new(1);
    let file = site.scene.file(0);
    let file = file.to_str().unwrap();
    site.dsmc(&["i", file, "--nosuch"]).expect(&[12]).says("ANS1107E");
    site.dsmc(&["q", "sess", "bogus"]).expect(&[12]).says("ANS1102E");
    site.dsmc(&["help", "bogus"]).expect(&[12]).says("'bogus' is no command");
    site.dsmc(&["archive", "-filelist=list", file]).expect(&[12]).says("ANS1102E");
    site.dsmc(&["i", file]).expect(&[0]);
    site.dsmc(&["q", "fi", "/no/such"]).expect(&[8]).says("ANS1092W");
    site.dsmc(&["archive", file, "-archmc=NONE"]).expect(&[12]).says("ANS1999E");
}

/// A command that would destroy something is not done in silence without somebody who agrees. What
/// cannot be done anyway is told before.
#[test]
fn nothing_is_deleted_without_an_answer() {
    let site = Site::new(1);
    let file = site.scene.file(0);
    let file = file.to_str().unwrap();
    site.dsmc(&["i", file]).expect(&[0]);
    site.scene.server.admin(&["node", "set", "anna", "--backdelete", "no"]);
    site.dsmc(&["del", "b", file]).expect(&[12]).says("ANS1126E");
    site.scene.server.admin(&["node", "set", "anna", "--backdelete", "yes"]);
    for command in [["del", "b"], ["exp", "-quiet"]] {
        let absent = [&command[..], &["/nothing/here"]].concat();
        site.dsmc(&absent).expect(&[12]).says("ANS1302E");
        let unanswered = [&command[..], &[file]].concat();
        site.dsmc(&unanswered).expect(&[12]).says("nothing is changed");
    }
    site.dsmc(&["q", "ba", file]).expect(&[0]).says(file);
    site.dsmc(&["del", "b", file, "-noprompt"]).expect(&[0]);
    site.dsmc(&["q", "ba", file]).expect(&[8]);
}

/// A name that stands for nothing is told, and the others are sent.
#[test]
fn an_absent_name_does_not_stop_the_others() {
    let site = Site::new(1);
    let (gone, tree) = ("/no/such/folder/", format!("{}/", site.tree()));
    let done = site.dsmc(&["i", gone, &tree, "-su=yes"]).expect(&[4]);
    let done = done.says("ANS1228E Sending of object '/no/such/folder' failed");
    assert!(done.stdout.contains("Total number of objects failed:               1\n"), "{done}");
    let file = site.scene.file(0);
    site.dsmc(&["q", "ba", file.to_str().unwrap()]).expect(&[0]);
    site.dsmc(&["i", gone]).expect(&[12]).says("ANS1228E");
    let log = fs::read_to_string(site.options.with_file_name("dsmerror.log")).unwrap();
    assert!(log.contains("ANS1228E Sending of object '/no/such/folder'"), "{log}");
}

/// The pattern went by in silence, with exit code 0.
#[test]
fn a_pattern_without_files_is_told_beside_others() {
    let site = Site::new(1);
    let (file, none) = (site.scene.file(0), format!("{}/*.none", site.tree()));
    let told = format!("ANS1228E Sending of object '{none}' failed: no file has such a name");
    for command in ["i", "sel", "archive"] {
        site.dsmc(&[command, &none, file.to_str().unwrap()]).expect(&[4]).says(&told);
        site.dsmc(&[command, &none]).expect(&[8]).says("ANS1092W");
    }
    site.dsmc(&["q", "ba", file.to_str().unwrap()]).expect(&[0]);
}

#[test]
fn an_absent_name_of_a_list_does_not_stop_a_restore() {
    let site = Site::new(1);
    let file = site.scene.file(0);
    let path = file.to_str().unwrap();
    site.dsmc(&["i", path]).expect(&[0]);
    let content = fs::read(&file).unwrap();
    fs::remove_file(&file).unwrap();
    let list = site.scene.scratch.join("list");
    fs::write(&list, format!("{path}\n{}/absent\n", site.tree())).unwrap();
    let option = format!("-filelist={}", list.display());
    site.dsmc(&["restore", &option]).expect(&[4]).says("ANS4005E");
    assert_eq!(fs::read(&file).unwrap(), content);
}

/// The report told a person to give the option that was given.
#[test]
fn a_newer_file_that_stays_is_told_with_what_replaces_it() {
    let site = Site::new(1);
    let file = site.scene.file(0);
    let path = file.to_str().unwrap();
    site.dsmc(&["i", path]).expect(&[0]);
    fs::write(&file, b"newer").unwrap();
    for (options, advice) in [
        (&["-replace=no"][..], "left alone: 1; -replace=all replaces them"),
        (
            &["-replace=all", "-ifnewer"],
            "left alone: 1; -replace=all without -ifnewer replaces them",
        ),
    ] {
        site.dsmc(&[&["restore", path], options].concat()).expect(&[4]).says(advice);
        assert_eq!(fs::read(&file).unwrap(), b"newer");
        // A new name has the same rule: the file ended with exit code 0, and counted as restored.
        let renamed = site.scene.scratch.join("renamed");
        fs::write(&renamed, b"newer").unwrap();
        let words = [&["restore", path, renamed.to_str().unwrap()], options].concat();
        let done = site.dsmc(&words).expect(&[4]).says(advice);
        assert!(done.stdout.contains("objects restored:             0\n"), "{done}");
        assert_eq!(fs::read(&renamed).unwrap(), b"newer");
    }
}

#[test]
fn a_whole_command_may_be_one_word() {
    let site = Site::new(0);
    let shown = site.dsmc(&["q restore", "-quiet"]).expect(&[0]);
    assert!(shown.stdout.contains("No restore waits"), "{shown}");
    let absent = format!("q ba '{}/no such'", site.tree());
    site.dsmc(&[absent.as_str()]).expect(&[8]).says("ANS1092W");
}

#[test]
fn a_question_mark_asks_for_help() {
    let site = Site::new(0);
    for word in ["-?", "-help", "--help"] {
        let words = [std::ffi::OsString::from(word)];
        let home = site.scene.node.home();
        let shown = start(&site.programs.join("dsmc"), &words, home, None).wait().expect(&[0]);
        assert!(shown.stdout.contains("holdfast backup --selective"), "{word}: {shown}");
    }
}

#[test]
fn lines_of_objects_have_sizes_whatever_the_names_are() {
    let site = Site::new(0);
    let name = std::ffi::OsStr::from_bytes(b"bytes-\xff\\");
    fs::write(site.scene.tree.join(name), vec![7; 1_234]).unwrap();
    let done = site.dsmc(&["sel", &format!("{}/*", site.tree())]).expect(&[0]);
    let line = done.stdout.lines().find(|line| line.contains("bytes-")).unwrap_or_default();
    let words: Vec<_> = line.split_whitespace().collect();
    assert_eq!(words[..3], ["Normal", "File-->", "1,234"], "{done}");
}

/// A directory of VIRTUALMOUNTPOINT is a file space of its own, as soon as the import has told the
/// node.
#[test]
fn a_virtual_mount_point_is_a_file_space_of_its_own() {
    let site = Site::new(1);
    let own = site.scene.tree.join("own");
    fs::create_dir(&own).unwrap();
    let file = own.join("letter");
    fs::write(&file, b"to be kept").unwrap();
    let (own, file) = (own.to_str().unwrap(), file.to_str().unwrap());
    let system = site.options.with_file_name("dsm.sys");
    let text = fs::read_to_string(&system).unwrap().replace("/srv/projects", own);
    fs::write(&system, &text).unwrap();
    fs::write(&site.options, format!("SErvername tsm1\nDOMAIN {own}\n")).unwrap();
    let files = [system.to_str().unwrap(), site.options.to_str().unwrap()];
    let dsm = |command: &str| site.scene.node.run(&[&["dsm", command], &files[..]].concat());
    dsm("check").expect(&[0]).says("virtual_filespaces in client.toml");
    dsm("import").expect(&[0]).says("virtual_filespaces");
    site.scene.server.admin(&["node", "set", "anna", "--backdelete", "yes"]);
    let mut dates = Vec::new();
    for words in [vec!["i"], vec!["i", own]] {
        site.dsmc(&words).expect(&[0]).says(&format!("backup of volume '{own}'"));
        let shown = site.dsmc(&["q", "fi", "-json"]).expect(&[0]).json_lines();
        assert_eq!((shown.len(), &shown[0]["filespace"]), (1, &own.into()));
        dates.push(shown[0]["last_backup"].clone());
    }
    assert!(dates[0].is_string() && dates[0] != dates[1], "both move its date: {dates:?}");

    // The file system around it leaves it out.
    site.dsmc(&["i", &format!("{}/", site.tree()), "-su=yes"]).expect(&[0]);
    fs::remove_file(file).unwrap();
    site.dsmc(&["restore", &format!("{own}/*")]).expect(&[0]);
    assert_eq!(fs::read(file).unwrap(), b"to be kept");
    site.dsmc(&["q", "fi"]).expect(&[0]).says(own);
    site.dsmc(&["delete", "filespace", own, "-noprompt"]).expect(&[0]);
    site.dsmc(&["q", "ba", file]).expect(&[8]);
    site.dsmc(&["q", "fi", own]).expect(&[8]).says("ANS1092W");
    site.dsmc(&["q", "ba", site.scene.file(0).to_str().unwrap()]).expect(&[0]);

    fs::write(&system, text.replace(own, "own")).unwrap();
    dsm("check").expect(&[4]).says("own is no directory below the root");
    let link = format!("{}/link", site.tree());
    std::os::unix::fs::symlink(own, &link).unwrap();
    fs::create_dir_all(format!("{own}/x")).unwrap();
    for (named, reason) in [(&link, "link is not a directory"), (&format!("{link}/x"), "name it")] {
        fs::write(&system, text.replace(own, named)).unwrap();
        dsm("check").expect(&[4]).says("refused").says(reason);
    }
}

/// The root of a file space has an entry of its own, and in the one around it. It keeps nothing
/// else from expiring.
#[test]
fn what_is_in_a_file_space_expires_and_its_root_stays() {
    let site = Site::new(3);
    let own = site.scene.tree.join("own");
    fs::create_dir(&own).unwrap();
    fs::write(own.join("letter"), "1").unwrap();
    site.dsmc(&["i", &format!("{}/", site.tree()), "-su=yes"]).expect(&[0]);
    crate::virtual_filespaces::make_virtual(&site.scene.node, &own);
    site.dsmc(&["i", &format!("{}/", own.display()), "-su=yes"]).expect(&[0]);
    let named = own.to_str().unwrap();
    site.dsmc(&["expire", named, "-su=yes", "-noprompt"]).expect(&[0]);
    site.dsmc(&["q", "ba", &format!("{named}/*"), "-su=yes", "-filesonly"])
        .expect(&[8]);
    site.dsmc(&["i", &format!("{named}/"), "-su=yes"]).expect(&[0]);
    let all = format!("{}/*", site.tree());
    site.dsmc(&["expire", &all, "-su=yes", "-noprompt"]).expect(&[0]);
    let file = site.scene.file(0);
    site.dsmc(&["q", "ba", file.to_str().unwrap()]).expect(&[8]);
    site.dsmc(&["q", "ba", &format!("{named}/letter")]).expect(&[0]);
}

/// Versions from before a directory was made a file space are in the one around it, which braces
/// name.
#[test]
fn braces_name_the_file_space_of_a_version() {
    let site = Site::new(3);
    let own = site.scene.tree.join("own");
    fs::create_dir(&own).unwrap();
    fs::write(own.join("letter"), "older").unwrap();
    site.dsmc(&["i", &format!("{}/", site.tree()), "-su=yes"]).expect(&[0]);
    let rows = site.dsmc(&["q", "fi", "-json"]).expect(&[0]).json_lines();
    let around = rows[0]["filespace"].as_str().unwrap().to_owned();
    fs::write(own.join("letter"), "the newer one").unwrap();
    crate::virtual_filespaces::make_virtual(&site.scene.node, &own);
    site.dsmc(&["i", &format!("{}/", own.display()), "-su=yes"]).expect(&[0]);
    site.scene.node.backup(&site.scene.tree, &["--confirm"]).expect(&[0]);

    let letter = own.join("letter").display().to_string();
    let in_braces = format!("{{{around}}}{}", letter.strip_prefix(around.as_str()).unwrap());
    let sizes = |operand: &str| -> Vec<u64> {
        let shown = site.dsmc(&["q", "ba", operand, "-inactive", "-json"]).expect(&[0, 8]);
        shown.json_lines().iter().map(|row| row["size"].as_u64().unwrap()).collect()
    };
    assert_eq!(sizes(&letter), [13]);
    assert_eq!(sizes(&in_braces), [5]);
    let hint = format!("'query backup {in_braces} -inactive'");
    site.dsmc(&["q", "ba", &letter, "-inactive"]).expect(&[0]).says(&hint);
    for words in [vec![&*letter], vec![&*in_braces, "-inactive"]] {
        let shown = site.dsmc(&[&["q", "ba"], &words[..]].concat()).expect(&[0]);
        assert!(!shown.stderr.contains("file space"), "{shown}");
    }
    let out = site.scene.scratch.join("out").display().to_string();
    site.dsmc(&["restore", &in_braces, &out, "-inactive"]).expect(&[0]);
    assert_eq!(fs::read(&out).unwrap(), b"older");
    site.dsmc(&["expire", &in_braces, "-noprompt"]).expect(&[12]).says("ANS1302E");
    site.scene.server.admin(&["node", "set", "anna", "--backdelete", "yes"]);
    let delete = |operand: &str| {
        let words = ["delete", "backup", operand, "-deltype=all", "-noprompt"];
        site.dsmc(&words).expect(&[0])
    };
    let deleted = delete(&letter).says(&format!("File space: {}\n", own.display()));
    deleted.says(&format!("'delete backup {in_braces} -deltype=all'"));
    assert_eq!(sizes(&in_braces), [5]);
    let unknown = site.dsmc(&["q", "ba", "{/nowhere}/letter"]).expect(&[12]);
    unknown.says("ANS1092W no file space is called '/nowhere'");
    let deleted = delete(&in_braces).says(&format!("File space: {around}\n"));
    assert!(!deleted.stderr.contains("Another"), "{deleted}");
    assert_eq!(sizes(&in_braces), [] as [u64; 0]);
}

#[test]
fn details_of_a_version_are_the_times_and_the_inode_of_its_file() {
    use std::os::unix::fs::MetadataExt as _;

    let site = Site::new(1);
    let (file, tree) = (site.scene.file(0), format!("{}/", site.tree()));
    site.dsmc(&["i", &tree, "-su=yes"]).expect(&[0]);
    let inode = fs::metadata(&file).unwrap().ino();
    let file = file.to_str().unwrap();
    let shown = site.dsmc(&["q", "ba", file, "-detail"]).expect(&[0]);
    let line = shown.stdout.lines().find(|line| line.contains("Inode#")).expect("has details");
    assert!(line.trim_start().starts_with("Modified: "), "{shown}");
    assert!(line.ends_with(&format!("  Inode#: {inode}")), "{shown}");
    assert!(!site.dsmc(&["q", "ba", file]).expect(&[0]).stdout.contains("Inode#"));
}

#[test]
fn the_objects_of_a_list_expire() {
    let site = Site::new(3);
    let bracket = site.scene.tree.join("a[1]");
    fs::write(&bracket, "x").unwrap();
    site.dsmc(&["i", &format!("{}/", site.tree()), "-su=yes"]).expect(&[0]);
    let list = site.scene.scratch.join("expired");
    let gone = site.scene.file(0);
    fs::remove_file(&gone).unwrap();
    fs::write(&list, format!("{}\n{}\n", gone.display(), bracket.display())).unwrap();
    let option = format!("-filelist={}", list.display());
    site.dsmc(&["expire", &option, "-noprompt"]).expect(&[0]);
    for ended in [&gone, &bracket] {
        site.dsmc(&["q", "ba", ended.to_str().unwrap()]).expect(&[8]);
        site.dsmc(&["q", "ba", ended.to_str().unwrap(), "-inactive"]).expect(&[0]);
    }
    for index in [1, 2] {
        site.dsmc(&["q", "ba", site.scene.file(index).to_str().unwrap()]).expect(&[0]);
    }
}

#[test]
fn versions_below_a_virtual_mount_point_stay_when_it_is_left_out() {
    let site = Site::new(1);
    let (system, point) = (site.options.with_file_name("dsm.sys"), site.scene.tree.join("p"));
    let text = fs::read_to_string(&system).unwrap();
    fs::write(&system, text.replace("/srv/projects", point.to_str().unwrap())).unwrap();
    fs::create_dir(&point).unwrap();
    let file = point.join("letter");
    fs::write(&file, "x").unwrap();
    let tree = format!("{}/", site.tree());
    site.dsmc(&["i", &tree, "-su=yes"]).expect(&[0]);
    let list = site.options.with_file_name("inclexcl.list");
    fs::write(&list, format!("exclude.fs {}\n", point.display())).unwrap();
    fs::remove_file(&file).unwrap();
    site.dsmc(&["i", &tree, "-su=yes"]).expect(&[0]);
    site.dsmc(&["q", "ba", file.to_str().unwrap()]).expect(&[0]).says("letter");
}

#[test]
fn a_statement_on_the_root_file_system_is_taken() {
    let site = Site::new(0);
    let list = site.options.with_file_name("inclexcl.list");
    fs::write(&list, "exclude.fs /\n").unwrap();
    site.dsmc(&["q", "inclexcl"]).expect(&[0]).says("Excl Filespace");
    site.dsmc(&["q", "session"]).expect(&[0]);
}

#[test]
fn a_check_of_dsm_opt_alone_finds_its_dsm_sys_and_shows_a_table_without_it() {
    let site = Site::new(0);
    let check = |file: &Path| site.scene.node.run(&["dsm", "check", file.to_str().unwrap()]);
    check(&site.options).expect(&[0]).says("TXNBYTELIMIT");
    let alone = site.scene.scratch.folder("alone").join("dsm.opt");
    fs::write(&alone, "SErvername absent\nSUBDIR yes\n").unwrap();
    check(&alone).expect(&[4]).says("SUBDIR").says("has no stanza absent");
    let twice = alone.with_file_name("dsm.sys");
    fs::write(&twice, "SErvername a\nSErvername A\n").unwrap();
    check(&twice).expect(&[4]).says("has a second stanza");
}

/// Patterns, directories and lists through a link found nothing, and a new name became a folder.
#[test]
fn names_through_a_link_stand_for_what_it_leads_to() {
    let site = Site::new(0);
    let tree = &site.scene.tree;
    let real = tree.join("real/below");
    fs::create_dir_all(&real).unwrap();
    let letter = real.join("letter");
    fs::write(&letter, b"kept").unwrap();
    std::os::unix::fs::symlink("real", tree.join("link")).unwrap();
    site.scene.server.admin(&["node", "set", "anna", "--archdelete", "yes"]);
    let link = format!("{}/link/below", tree.display());
    let (all, named) = (format!("{link}/*"), format!("{link}/letter"));
    site.dsmc(&["i", &format!("{}/", tree.display()), "-su=yes"]).expect(&[0]);
    site.dsmc(&["archive", &all]).expect(&[0]);
    fs::remove_dir_all(&real).unwrap();
    let path = letter.to_str().unwrap();
    for operand in [&all, &named, &format!("{link}/"), &format!("{link}/l?tter")] {
        site.dsmc(&["q", "ba", operand]).expect(&[0]).says(path);
        site.dsmc(&["q", "ar", operand]).expect(&[0]).says(path);
    }
    let list = site.scene.scratch.join("list");
    fs::write(&list, format!("{named}\n")).unwrap();
    let option = format!("-filelist={}", list.display());
    for command in ["restore", "retrieve"] {
        let to = site.scene.scratch.folder(command);
        let new = to.join("new").display().to_string();
        site.dsmc(&[command, &named, &new]).expect(&[0]);
        let below = format!("{}/", to.display());
        site.dsmc(&[command, &all, &below]).expect(&[0]);
        site.dsmc(&[command, &option, &below]).expect(&[0]);
        for name in ["new", "below/letter", "letter"] {
            assert_eq!(fs::read(to.join(name)).unwrap(), b"kept", "{command} {name}");
        }
    }
    site.dsmc(&["restore", &all]).expect(&[0]);
    assert_eq!(fs::read(&letter).unwrap(), b"kept");
    for (files, top) in [(&all, real.to_str().unwrap()), (&named, path)] {
        let rule = format!("Node BERT may read the backups at {top}\n");
        let set = site.dsmc(&["set", "access", "backup", files, "bert"]).expect(&[0, 8]);
        let set = set.says(&rule);
        assert_eq!(set.code() == 8, files.ends_with("/*"), "{set}");
    }
    // A deletion follows no link.
    let leads = "leads through a symbolic link to";
    site.dsmc(&["expire", &named, "-noprompt"]).expect(&[12]).says(leads);
    site.dsmc(&["delete", "archive", &all, "-noprompt"]).expect(&[12]).says(leads);
    site.dsmc(&["q", "ba", path]).expect(&[0]);
    site.dsmc(&["q", "ar", path]).expect(&[0]);
}

/// A file that was stored before a link took the place of its directory keeps its name.
#[test]
fn a_stored_name_stands_for_itself_after_a_link_took_its_place() {
    let site = Site::new(0);
    let (old, new) = (site.scene.tree.join("old"), site.scene.tree.join("new"));
    fs::create_dir(&old).unwrap();
    fs::write(old.join("letter"), b"older").unwrap();
    let all = format!("{}/*", old.display());
    site.dsmc(&["i", &all]).expect(&[0]);
    fs::rename(&old, &new).unwrap();
    std::os::unix::fs::symlink("new", &old).unwrap();
    fs::write(new.join("letter"), b"the newer one").unwrap();
    site.dsmc(&["i", &format!("{}/*", new.display())]).expect(&[0]);
    let rows = site.dsmc(&["q", "ba", &all, "-json"]).expect(&[0]).json_lines();
    let paths: Vec<_> = rows.iter().map(|row| row["path"].as_str().unwrap()).collect();
    assert_eq!(paths, [old.join("letter").to_str().unwrap()]);
    // The second expiration finds nothing active there any more, and ends nothing elsewhere.
    site.dsmc(&["expire", &all, "-noprompt"]).expect(&[0, 8]);
    site.dsmc(&["expire", &all, "-noprompt"]).expect(&[12]).says("ANS1302E");
    site.dsmc(&["q", "ba", new.join("letter").to_str().unwrap()]).expect(&[0]);
}
