//! Cases of statements, worked out by hand from the manual of TSM, and properties of all lists.

use model::Kind;
use policy::{Selection, Source};
use proptest::prelude::*;

use super::*;

mod look_up;

/// Translates the lines of a list.
fn translated(list: &str) -> Translation {
    let (entries, faults) = parse_list("list", list.as_bytes());
    let mut translation = translate(&entries);
    translation.faults.splice(..0, faults);
    translation
}

/// Returns the selection of a list, after its way through Holdfast's own parser.
fn selection(translation: &Translation) -> Selection {
    let source = |line| Source::File { path: "list".to_owned(), line };
    let own = policy::statement::parse_list(&translation.list(), source).expect("is read again");
    Selection::new(own, Vec::new(), []).expect("no patterns")
}

/// Checks the cases of a text: blocks of statements, each followed by cases. A case has a sign (`+`
/// included, `-` left out), letters, a path and, after `=`, the management class.
///
/// Letters: `f` file, `d` directory, `l` symbolic link, `a` an archive of a file; `c`, `u`, `e` and
/// `m` ask about compression, deduplication, encryption and migration.
#[track_caller]
fn check_cases(text: &str) -> usize {
    let (mut list, mut has_cases, mut count) = (String::new(), false, 0);
    let mut current: Option<Selection> = None;
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
        if !line.starts_with(['+', '-']) {
            if has_cases {
                (list, has_cases) = (String::new(), false);
            }
            list.push_str(line);
            list.push('\n');
            continue;
        }
        if !has_cases {
            let translation = translated(&list);
            assert_eq!(translation.faults, [], "{list}");
            current = Some(selection(&translation));
            has_cases = true;
        }
        check_case(current.as_ref().expect("a list comes first"), &list, line);
        count += 1;
    }
    count
}

#[track_caller]
fn check_case(selection: &Selection, list: &str, case: &str) {
    let (case, class) =
        case.split_once(" =").map_or((case, None), |(case, class)| (case, Some(class)));
    let (head, path) = case.split_once(" /").expect("a path");
    let (sign, letter) = head.split_once(' ').expect("a letter");
    let path = format!("/{path}");
    let treats = |treatment| selection.treats(path.as_bytes(), treatment);
    let ruling = |kind, operation| {
        let (verdict, _) = selection.explain(path.as_bytes(), kind, operation);
        let bound = verdict.rule_index().and_then(|index| selection.class(index));
        assert_eq!(bound.filter(|_| class.is_some()), class, "{list}{case}");
        verdict.is_included()
    };
    let is_in = match letter {
        "f" => ruling(Kind::File, Operation::Backup),
        "d" => ruling(Kind::Directory, Operation::Backup),
        "l" => ruling(Kind::Symlink, Operation::Backup),
        "a" => ruling(Kind::File, Operation::Archive),
        "c" => treats(Treatment::Compression).unwrap_or(true),
        "u" => treats(Treatment::Deduplication).unwrap_or(true),
        "e" => treats(Treatment::Encryption).unwrap_or(false),
        "m" => treats(Treatment::SpaceManagement).unwrap_or(true),
        _ => panic!("no letter: {case}"),
    };
    assert_eq!(is_in, sign == "+", "{list}{case}");
}

/// Cases of wildcards.
const WILDCARDS: &str = "
exclude /h/ann/*
  - f /h/ann/a
  - f /h/ann/.profile
  - f /h/ann/a.b.c
  + f /h/ann/x/a
  + f /h/bob/a
  + d /h/ann
  + d /h/ann/x
exclude /h/.../*
  - f /h/a
  - f /h/ann/a
  - f /h/ann/x/y/z
  + f /hs/a
  + f /etc/passwd
exclude /h/.../core
  - f /h/core
  - f /h/ann/core
  - f /h/ann/x/y/core
  + f /h/ann/core.c
  + f /h/ann/score
  + f /core
exclude /.../core
  - f /core
  - f /h/core
  - f /h/ann/x/core
  + f /h/ann/core/a
exclude /h/.../tmp/.../*
  - f /h/tmp/a
  - f /h/ann/tmp/a
  - f /h/ann/x/tmp/y/z/a
  + f /h/ann/a
  + f /h/ann/tmp
exclude /h/*/tmp/*
  - f /h/ann/tmp/a
  + f /h/tmp/a
  + f /h/ann/x/tmp/a
  + f /h/ann/tmp/x/a
exclude /h/ann/*.o
  - f /h/ann/a.o
  - f /h/ann/.o
  + f /h/ann/a.o.c
  + f /h/ann/ao
exclude /h/ann/*.*
  - f /h/ann/a.b
  - f /h/ann/.b
  - f /h/ann/a.
  + f /h/ann/ab
exclude /h/ann/?
  - f /h/ann/a
  + f /h/ann/ab
  + f /h/ann/x/a
exclude /h/ann/a?c
  - f /h/ann/abc
  - f /h/ann/a.c
  + f /h/ann/ac
  + f /h/ann/abbc
exclude /h/ann/[abc]x
  - f /h/ann/ax
  - f /h/ann/cx
  + f /h/ann/dx
  + f /h/ann/x
exclude /h/ann/[a-c0-9]*
  - f /h/ann/apple
  - f /h/ann/7
  - f /h/ann/c
  + f /h/ann/d
  + f /h/ann/Apple
exclude /h/ann/[-a]x
  - f /h/ann/-x
  - f /h/ann/ax
  + f /h/ann/bx
exclude /h/ann/\\*x
  - f /h/ann/*x
  + f /h/ann/ax
exclude /h/ann/\\[x\\]
  - f /h/ann/[x]
  + f /h/ann/x
exclude /h/ann/...x
  - f /h/ann/...x
  + f /h/ann/b/x
exclude \"/h/ann/my files/*\"
  - f /h/ann/my files/a
  + f /h/ann/my
exclude '/h/ann/a \"b\"'
  - f /h/ann/a \"b\"
  + f /h/ann/a b
exclude /h/ann/a**b
  - f /h/ann/ab
  - f /h/ann/axxb
  + f /h/ann/a/b
exclude /h/ann/...
  - f /h/ann/a
  - f /h/ann/x/a
  + f /h/ann
  + f /h/bob/a
exclude /h/ann/.../
  - f /h/ann/a
  - f /h/ann/x/a
exclude /h//ann/*
  - f /h/ann/a
  + f /h/ann/x/a
";

/// Cases of the order of statements.
const ORDER: &str = "
exclude /fs1/.../*
include /fs1/.../*.o
  + f /fs1/a.o
  + f /fs1/x/y/a.o
  - f /fs1/a.c
  - f /fs1/x/a.c
  + f /fs2/a.c
include /fs1/.../*.o
exclude /fs1/.../*
  - f /fs1/a.o
  - f /fs1/x/a.o
exclude.dir /fs1
include /fs1/.../*.o
  - d /fs1
  - f /fs1/a.o
  - f /fs1/x/a.o
  + f /fs2/a.o
include /fs1/.../*.o
exclude.dir /fs1
  - f /fs1/a.o
exclude /h/.../*
include /h/ann/.../*
exclude /h/ann/tmp/*
  - f /h/bob/a
  + f /h/ann/a
  + f /h/ann/x/a
  - f /h/ann/tmp/a
  + f /h/ann/tmp/x/a
exclude /a/*
include /a/b*
exclude /a/bc*
include /a/bcd
  - f /a/x
  + f /a/b
  + f /a/bx
  - f /a/bc
  - f /a/bcx
  + f /a/bcd
exclude /.../*.tmp
include /keep/.../*
  - f /x/a.tmp
  + f /keep/a.tmp
  + f /keep/x/a.tmp
  + f /x/a
include /keep/.../*
exclude /.../*.tmp
  - f /keep/a.tmp
  + f /keep/a
include /h/.../* STANDARD
include /h/legal/.../* LEGAL
  + f /h/a =STANDARD
  + f /h/ann/x =STANDARD
  + f /h/legal/a =LEGAL
  + f /h/legal/x/y =LEGAL
  + f /etc/a
include /h/legal/.../* LEGAL
include /h/.../* STANDARD
  + f /h/legal/a =STANDARD
include.backup /a/* DAYS
include.archive /a/* YEARS
  + f /a/x =DAYS
  + a /a/x =YEARS
include /a/* DAYS
include.archive /a/* YEARS
  + f /a/x =DAYS
  + a /a/x =YEARS
include.archive /a/* YEARS
include /a/* DAYS
  + f /a/x =DAYS
  + a /a/x =DAYS
";

/// Cases of the kinds of statements.
const KINDS: &str = "
exclude /a/*
  - f /a/x
  - l /a/x
  + d /a/x
  + a /a/x
  - m /a/x
  + m /b/x
exclude.backup /a/*
  - f /a/x
  + m /a/x
  + a /a/x
exclude.file /a/*
  - f /a/x
  - l /a/x
  + d /a/x
  + m /a/x
exclude.file.backup /a/*
  - f /a/x
  + a /a/x
exclude.archive /a/*
  + f /a/x
  - a /a/x
  + a /b/x
exclude.spacemgmt /a/*
  + f /a/x
  - m /a/x
exclude /a/.../*
include.spacemgmt /a/big/*
  - f /a/big/x
  + m /a/big/x
  - m /a/x
exclude /a/.../*
include /a/big/*
  + f /a/big/x
  + m /a/big/x
  - m /a/x
exclude.spacemgmt /a/.../*
include.file /a/big/*
  + f /a/big/x
  - m /a/big/x
exclude.dir /h/ann/cache
  - d /h/ann/cache
  - f /h/ann/cache/a
  - f /h/ann/cache/x/y
  - l /h/ann/cache/l
  + d /h/ann/caches
  + f /h/ann/a
  + a /h/ann/cache/a
exclude.dir /h/.../cache
  - d /h/cache
  - d /h/ann/cache
  - f /h/ann/x/cache/y/a
  + d /cache
  + f /h/ann/cache
exclude.dir /h/*/tmp
  - d /h/ann/tmp
  + d /h/tmp
  + d /h/ann/x/tmp
exclude.dir /h/ann/*
  - d /h/ann/x
  - f /h/ann/x/a
  + f /h/ann/a
  + d /h/ann
exclude.dir /h/ann/
  - d /h/ann
  - f /h/ann/a
exclude.dir /h/ann/...
  - d /h/ann/x
  - d /h/ann/x/y
  + f /h/ann/a
exclude.dir /var/[a-c]*
  - d /var/a
  - f /var/cache/x
  + d /var/dir
exclude.dir /proc
exclude.dir /sys
exclude /.../core
include /h/ann/core
  - d /proc
  - d /sys
  - f /sys/x
  + f /h/ann/core
  - f /h/bob/core
exclude.attribute.symlink /h/.../*
  - l /h/ann/l
  - l /h/l
  + f /h/ann/l
  + d /h/ann/l
  + l /srv/l
  + a /h/ann/l
exclude.attribute.symlink /h/ann/*
include /h/ann/keep
  + l /h/ann/keep
  - l /h/ann/other
exclude.compression /.../*.gz
exclude.compression /.../*.zip
include.compression /h/ann/.../*.zip
  - c /a.gz
  - c /x/y/a.gz
  - c /x/a.zip
  + c /h/ann/a.zip
  + c /x/a
  + f /x/a.gz
exclude.dedup /db/.../*
include.dedup /db/small/*
  - u /db/a
  - u /db/x/a
  + u /db/small/a
  + u /h/a
exclude.dedup /db/* ieobjtype=file
  - u /db/a
include.encrypt /secret/.../*
exclude.encrypt /secret/public/*
  + e /secret/a
  + e /secret/x/a
  - e /secret/public/a
  - e /h/a
  + f /secret/a
EXCLUDE.DIR /A
Exclude /B/*
INCLUDE.ENCRYPT /C/*
  - d /A
  - f /B/x
  + e /C/x
excl /a/x
excl.dir /a/d
  - f /a/x
  - d /a/d
* a comment

   exclude    /a/x
\texclude\t/a/y
  - f /a/x
  - f /a/y
exclude.fs /proc
include.fs /h memoryefficientbackup=yes diskcachelocation=/tmp
exclude.image /dev/sda1
include.image /h MGMT dynamicimage=yes
include.vm web* CLASS
exclude.vmdisk web1 \"Hard disk 1\"
exclude /a/x
  - f /a/x
  + f /h/x
";

/// Cases as sites have them.
const SITES: &str = "
exclude /unix/
exclude /.../core
exclude.dir /tmp
exclude.dir /var/tmp
exclude.dir /.../.mozilla/.../Cache
exclude.dir /.../.cache
exclude /var/adm/.../*
exclude /var/log/.../*.gz
include /var/log/audit/.../* AUDIT
exclude.fs /mnt/*
exclude.spacemgmt /.../*
  - f /core
  - f /h/ann/core
  - d /tmp
  - f /tmp/a
  - f /var/tmp/a/b
  - d /h/ann/.mozilla/firefox/x/Cache
  - d /h/ann/.mozilla/Cache
  + d /h/ann/Cache
  - f /h/ann/.cache/x
  - f /var/adm/wtmp
  - f /var/adm/ras/errlog
  + f /var/log/messages
  - f /var/log/messages.gz
  + f /var/log/audit/a.gz =AUDIT
  + f /var/log/audit/x/b =AUDIT
  + f /unix/a
  - m /h/ann/big
exclude.dir /scratch/.../checkpoint-[0-9]*
include /scratch/projects/.../* PROJECTS
exclude /scratch/.../*.tmp
exclude /scratch/.../*~
exclude /scratch/.../#*#
include.archive /scratch/projects/.../* TENYEARS
  - d /scratch/a/checkpoint-1
  - d /scratch/checkpoint-007
  - f /scratch/a/checkpoint-12/x
  + d /scratch/a/checkpoint-x
  + f /scratch/projects/a =PROJECTS
  + a /scratch/projects/a =TENYEARS
  - f /scratch/projects/a.tmp
  - f /scratch/projects/a~
  - f /scratch/#a#
  + f /scratch/a#
  + a /scratch/projects/a.tmp =TENYEARS
exclude.dir /gpfs/.../.SpaceMan
exclude.dir /gpfs/.../.snapshots
exclude.dir /gpfs/.mmSharedTmpDir
exclude /gpfs/.mmbackupShadow.*
exclude.compression /gpfs/.../*.[zgx]z
  - d /gpfs/.SpaceMan
  - d /gpfs/fileset/.SpaceMan
  - f /gpfs/fileset/.snapshots/s1/a
  - d /gpfs/.mmSharedTmpDir
  + d /gpfs/x/.mmSharedTmpDir
  - f /gpfs/.mmbackupShadow.1.tsm
  - c /gpfs/a.gz
  - c /gpfs/a/b.xz
  + c /gpfs/a.bz2
  + c /gpfs/a.az
include /oracle/.../* ORA
exclude /oracle/.../*.dbf
exclude /oracle/.../*.ctl
exclude /oracle/.../redo*.log
include /oracle/arch/.../* ORALOG
include.encrypt /oracle/arch/.../*
exclude.dedup /oracle/.../*
  - f /oracle/data/users01.dbf
  - f /oracle/data/control01.ctl
  - f /oracle/data/redo01.log
  + f /oracle/data/undo.log =ORA
  + f /oracle/arch/1_2_3.arc =ORALOG
  + f /oracle/arch/x/redo1.log =ORALOG
  + e /oracle/arch/1_2_3.arc
  - e /oracle/data/x
  - u /oracle/data/x
  + u /h/x
";

/// Cases of lists in which several kinds of statements meet.
const MEETINGS: &str = "
exclude.archive /a/.../*
include.archive /a/keep/.../* YEARS
include /a/.../* DAYS
exclude /a/tmp/*
  + f /a/x =DAYS
  - f /a/tmp/x
  + a /a/tmp/x =DAYS
  + a /a/keep/x =DAYS
  - m /a/tmp/x
  + m /a/x
include /a/.../* DAYS
exclude.archive /a/.../*
include.archive /a/keep/.../* YEARS
  - a /a/x
  + a /a/keep/x =YEARS
  + f /a/keep/x =DAYS
  + f /a/x =DAYS
exclude.dir /a/.../.snapshot
exclude.dir /a/scratch
include.encrypt /a/.../*
exclude.encrypt /a/public/.../*
exclude.compression /a/.../*.mp[34]
include.compression /a/raw/*.mp4
exclude.dedup /a/raw/*
  - d /a/.snapshot
  - d /a/x/.snapshot
  - f /a/x/.snapshot/y
  + d /b/.snapshot
  - d /a/scratch
  + d /a/x/scratch
  + e /a/x
  - e /a/public/x
  - e /a/public/y/x
  - c /a/x.mp3
  - c /a/y/x.mp4
  + c /a/raw/x.mp4
  - c /a/raw/x.mp3
  + c /a/x.mp5
  - u /a/raw/x
  + u /a/raw/y/x
exclude.spacemgmt /data/.../*.db
include.spacemgmt /data/old/.../*.db
exclude /data/.../core
include.file /data/keep/core
  - m /data/a.db
  + m /data/old/a.db
  + m /data/old/x/a.db
  - m /data/core
  - m /data/keep/core
  + f /data/keep/core
  - f /data/x/core
  + f /data/a.db
exclude /.../?[0-9][0-9].log
include /.../a[0-9]?.log
  - f /x/b12.log
  + f /x/a12.log
  + f /b1.log
  - f /c99.log
  + f /x/y/a0z.log
exclude /x/.../y/.../z
  - f /x/y/z
  - f /x/a/y/z
  - f /x/y/b/z
  - f /x/a/b/y/c/d/z
  + f /x/z
  + f /y/z
  + f /x/y/zz
";

/// Cases of names that are no text in ASCII.
const NAMES: &str = "
exclude /h/ann/?
  - f /h/ann/\u{e9}
  - f /h/ann/\u{4e2d}
  + f /h/ann/\u{e9}\u{e9}
exclude /h/ann/[\u{e0}-\u{e9}]
  - f /h/ann/\u{e5}
  + f /h/ann/\u{ea}
  + f /h/ann/a
exclude /h/\u{fc}nal/.../*
  - f /h/\u{fc}nal/x
  - f /h/\u{fc}nal/a/x
  + f /h/unal/x
exclude /h/ann/#*
  - f /h/ann/#a
  + f /h/ann/a#
exclude /h/ann/a=b
  - f /h/ann/a=b
";

#[test]
fn statements_select_as_in_tsm() {
    let counts = [WILDCARDS, ORDER, KINDS, SITES, MEETINGS].map(check_cases);
    let all: usize = counts.iter().sum();
    assert!(all >= 300, "{all} cases");
}

#[test]
fn names_may_be_in_any_script() {
    assert!(check_cases(NAMES) >= 10);
    let translation = translated("exclude \"/h/ann/trailing \"");
    let verdict = |path: &[u8]| {
        selection(&translation)
            .verdict(path, Kind::File, Operation::Backup)
            .is_included()
    };
    assert!(!verdict(b"/h/ann/trailing "));
    assert!(verdict(b"/h/ann/trailing"));
}

#[test]
fn file_systems_are_left_out_by_their_mount_points() {
    for (list, path, expected) in [
        ("exclude.fs /mnt/*", "/mnt/usb", true),
        ("exclude.fs /mnt/*", "/mnt", false),
        ("exclude.fs /mnt/*", "/mnt/a/b", false),
        ("exclude.fs /mnt/.../*", "/mnt/a/b", true),
        ("exclude.fs /h", "/h", true),
        ("exclude.fs /h/", "/h", true),
        ("exclude.fs /h", "/hs", false),
        ("exclude.fs /", "/", true),
        ("exclude.fs /h\ninclude /h/.../*", "/h", true),
        ("exclude.dir /h", "/h", false),
        ("exclude.fs /proj[0-9]", "/proj7", true),
        ("exclude.fs /proj[0-9]", "/projx", false),
        ("exclude /h/*", "/h", false),
    ] {
        let selection = selection(&translated(list));
        let found = selection.excludes_filesystem(path.as_bytes(), "ext4").is_some();
        assert_eq!(found, expected, "{list} {path}");
    }
}

#[test]
fn the_content_of_virtual_mount_points_is_left_alone() {
    let mut translation = translated("exclude.fs /data/*");
    translation.leave_out_points(&[b"/data/a[1]".to_vec(), b"/srv/b".to_vec()]);
    let selection = selection(&translation);
    let is_left = |path: &[u8]| selection.leaves_content(path, Operation::Backup).is_some();
    assert!(is_left(b"/data/a[1]") && !is_left(b"/data/a1") && !is_left(b"/srv/b"));
    let itself = selection.verdict(b"/data/a[1]", Kind::Directory, Operation::Backup);
    assert!(itself.is_included(), "only its content is left alone");
}

#[track_caller]
fn check_fault(line: &str, expected: &str) {
    let faults = translated(line).faults;
    assert_eq!(faults.len(), 1, "{line}: {faults:?}");
    let text = faults[0].to_string();
    assert!(text.contains(expected) && text.lines().count() == 1, "{line}: {text}");
}

#[test]
fn a_wrong_statement_is_told_in_one_line() {
    check_fault("exclude", "exclude needs a pattern");
    check_fault("exclude *.o", "write '/.../*.o'");
    check_fault("exclude home/x", "does not begin with a slash");
    check_fault("exclude /", "root directory");
    check_fault("exclude /a/[", "a class must be written");
    check_fault("exclude /a/[!b]", "a class must be written");
    check_fault("exclude /a/x\\", "must follow");
    check_fault("exclude \"/a", "a quote is not closed");
    check_fault("exclude /a/b c", "'c' after the pattern");
    check_fault("include /a/* ONE TWO", "'TWO' after the pattern");
    check_fault("include /a/* bad/name", "is not the name of a management class");
    check_fault("exclude.dedup /a/* ieobjtype=image", "is about files");
    check_fault("exclude.systemservice x", "is no option of the client");
    check_fault("compression yes", "move it to dsm.sys or dsm.opt");
    check_fault("exclude /a\u{0}b", "NUL");
    check_fault(&format!("exclude /{}", "x/".repeat(3000)), "longer than 4096 bytes");
    check_fault(&format!("exclude /{}", "x".repeat(100_000)), "at most 8192 are read");
    check_fault(
        "exclude.attribute.symlink /a/*\ninclude.attribute.symlink /a/b",
        "that leave these links alone",
    );
}

#[test]
fn links_that_nothing_leaves_out_need_no_statement() {
    let translation = translated("include.attribute.symlink /a/b\nexclude /c/*");
    assert_eq!(translation.faults, []);
    assert_eq!(translation.list(), b"exclude /c/*\nexclude.spacemgmt /c/*\n");
}

#[test]
fn a_line_of_the_translation_leads_to_its_source() {
    let translation = translated("* comment\nexclude /a/*\n\nexclude.dir /b\ninclude /c/* CLASS");
    let line = |line| translation.place_of(line).map(ToString::to_string);
    assert_eq!(line(1).as_deref(), Some("list line 2"));
    assert_eq!(line(2).as_deref(), Some("list line 2"));
    assert_eq!(line(3).as_deref(), Some("list line 4"));
    assert_eq!(line(4).as_deref(), Some("list line 5"));
    assert_eq!(line(5).as_deref(), Some("list line 5"));
    assert_eq!(line(6), None);
}

#[test]
fn statements_on_directories_are_not_about_files_that_are_named() {
    let translation = translated("exclude.dir /a\nexclude.backup /a/*.tmp\nexclude.dir /b");
    assert_eq!(translation.list_of_named(), b"exclude /a/*.tmp\n");
    let line = |line| translation.place_of_named(line).map(ToString::to_string);
    assert_eq!((line(1).as_deref(), line(2), line(0)), (Some("list line 2"), None, None));
}

#[test]
fn every_statement_of_the_table_has_a_keyword() {
    let statements = crate::options::definitions()
        .filter(|definition| definition.kind == crate::options::Kind::Statement);
    for definition in statements {
        let name = keyword(definition.spelling);
        assert_eq!(name, definition.spelling.to_ascii_lowercase(), "{name}");
        let is_done = matches!(definition.fate, Fate::Done(_));
        let translation = translated(&format!("{name} /a/b"));
        let has_rules = translation.statements.iter().any(|one| !one.rules.is_empty());
        assert_eq!(has_rules, is_done && name != INCLUDE_LINKS, "{name}");
    }
}

/// The verdict of a simple reading of the rules: the last statement that matches decides.
fn simple_verdict(lines: &[(bool, String)], path: &str) -> bool {
    let matching = lines.iter().rev().find(|(_, pattern)| {
        Pattern::parse(pattern.as_bytes()).expect("a pattern").matches(path.as_bytes())
    });
    matching.is_none_or(|(is_included, _)| *is_included)
}

fn component() -> impl Strategy<Value = String> {
    prop_oneof!["[ab]{1,2}", Just("*".to_owned()), Just("...".to_owned()), "[ab?*]{1,3}"]
}

fn pattern() -> impl Strategy<Value = String> {
    (proptest::collection::vec(component(), 0..4), "[ab*?]{1,3}").prop_map(|(directories, last)| {
        format!("/{}", [directories, vec![last]].concat().join("/"))
    })
}

proptest! {
    #[test]
    fn the_last_statement_that_matches_decides(
        lines in proptest::collection::vec((any::<bool>(), pattern()), 0..8),
        path in "(/[ab]{1,2}){1,4}",
    ) {
        let list: String = lines
            .iter()
            .map(|(is_included, pattern)| {
                format!("{} {pattern}\n", if *is_included { "include" } else { "exclude" })
            })
            .collect();
        let translation = translated(&list);
        prop_assert!(translation.faults.is_empty());
        let verdict =
            selection(&translation).verdict(path.as_bytes(), Kind::File, Operation::Backup);
        let expected = simple_verdict(&lines, &path);
        prop_assert_eq!(verdict.is_included(), expected, "{}{}", list, path);
    }

    #[test]
    fn nothing_below_an_excluded_directory_comes_back(
        before in proptest::collection::vec((any::<bool>(), pattern()), 0..4),
        after in proptest::collection::vec((any::<bool>(), pattern()), 0..4),
        path in "(/[ab]{1,2}){1,3}",
    ) {
        let line = |(is_included, pattern): &(bool, String)| {
            format!("{} {pattern}\n", if *is_included { "include" } else { "exclude" })
        };
        let [before, after]: [String; 2] =
            [before, after].map(|lines| lines.iter().map(line).collect());
        let selection = selection(&translated(&format!("{before}exclude.dir /top\n{after}")));
        let path = format!("/top{path}");
        let (verdict, about) = selection.explain(path.as_bytes(), Kind::File, Operation::Backup);
        prop_assert!(!verdict.is_included());
        prop_assert_eq!(about, b"/top");
    }

    #[test]
    fn any_list_is_translated_or_told(bytes in proptest::collection::vec(any::<u8>(), 0..1000)) {
        let (entries, _) = parse_list("list", &bytes);
        selection(&translate(&entries));
    }

    #[test]
    fn any_statement_is_translated_or_told(
        index in 0..33_usize,
        rest in "[ -~]{0,60}",
    ) {
        let translation = translated(&format!("{} {rest}", KEYWORDS[index]));
        prop_assert!(translation.faults.len() <= 2);
        selection(&translation);
    }
}
