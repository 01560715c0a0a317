//! A site that comes from TSM: its option files, its commands and its scripts, as they are.

mod agent;
mod choices;
mod directories;
mod following;
mod joining;
mod lists;
mod macros;
mod names;

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use e2e::clock;
use e2e::harness::{Node, Outcome, Server, start};
use e2e::manifest::assert_same;
use e2e::scratch::Scratch;

use crate::scene::{Scene, manifest, root_or_skip};

/// A scene with TSM's option files and the names of its commands.
struct Site {
    scene: Scene,
    programs: PathBuf,
    options: PathBuf,
}

/// `dsm.sys` of a site, with the options that such files have.
const SYSTEM: &str = "\
* Options of the whole machine
ERRORLOGRETENTION 30 S
DEFAULTServer   other

SErvername  other
   NODename          somebody
   TCPServeraddress  tsm.example.org

SErvername  TSM1
   COMMMethod         TCPip
   TCPPort            PORT
   TCPServeraddress   127.0.0.1
   NODename           ANNA
   PASSWORDAccess     generate
   PASSWORDDIR        HOME
   SSL                yes
   SSLACCEPTCERTFROMSERV yes
   TXNBytelimit       10G
   RESOURceutilization 4
   DEDUPLICATION      yes
   DEDUPCACHESIZE     1024
   COMPRESSION        yes
   MEMORYEFFICIENTBACKUP yes
   TCPWindowsize      0
   VIRTUALMountpoint  /srv/projects
   MANAGEDServices    schedule
   SCHEDLOGName       FOLDER/dsmsched.log
   SCHEDLOGRetention  30 D
   ERRORLOGName       FOLDER/dsmerror.log
   SCHEDCMDDisabled   yes
   SCHEDCMDException  \"sync\"
   SRVPREPOSTSCHEDDisabled yes
   REVOKEremoteaccess access
   COMMRESTARTDuration 0
   INCLExcl           FOLDER/inclexcl.list
";

impl Site {
    fn new(files: usize) -> Self {
        let scene = Scene::with_files(files, 500);
        let folder = scene.scratch.folder("tsm");
        let port = scene.server.port();
        let options = write_options(&folder, scene.node.home(), port);
        let programs = scene.scratch.folder("bin");
        scene
            .node
            .run(&["dsm".as_ref(), "link".as_ref(), programs.as_os_str()])
            .expect(&[0]);
        Self { scene, programs, options }
    }

    /// Runs `dsmc` with the option files of the site.
    #[track_caller]
    fn dsmc(&self, words: &[&str]) -> Outcome {
        self.run("dsmc", words)
    }

    #[track_caller]
    fn run(&self, name: &str, words: &[&str]) -> Outcome {
        let option = format!("-optfile={}", self.options.display());
        let words = std::iter::once(option.as_str()).chain(words.iter().copied());
        let words: Vec<_> = words.map(std::ffi::OsString::from).collect();
        start(&self.programs.join(name), &words, self.scene.node.home(), None).wait()
    }

    /// Runs `dsmc` at a terminal at which a person types. Each pair of the dialogue has a pattern,
    /// and the keys that are typed once `dsmc` has written what matches it. `None` without Python.
    fn dsmc_at_terminal(&self, words: &[&str], dialogue: &[(&str, &str)]) -> Option<Output> {
        let dialogue = serde_json::to_string(dialogue).unwrap();
        let mut python = Command::new("python3");
        python
            .args(["-c", TERMINAL, dialogue.as_str()])
            .arg(self.programs.join("dsmc"))
            .arg(format!("-optfile={}", self.options.display()))
            .args(words)
            .env("HOLDFAST_HOME", self.scene.node.home())
            .env("TERM", "xterm");
        let done = python.output().ok();
        if done.is_none() {
            e2e::skip::say("python3 is not installed");
        }
        done
    }

    fn tree(&self) -> &str {
        self.scene.tree.to_str().unwrap()
    }
}

/// Runs a program at a terminal, and holds a dialogue with it. Each pattern is looked for in what
/// the program writes after the keys before.
const TERMINAL: &str = r#"
import json, os, pty, re, select, sys, time
process, terminal = pty.fork()
if process == 0:
    os.execv(sys.argv[2], sys.argv[2:])
seen = b""
for pattern, keys in json.loads(sys.argv[1]):
    said, end = b"", time.monotonic() + 120
    while not re.search(pattern.encode(), said, re.DOTALL):
        if not select.select([terminal], [], [], max(0, end - time.monotonic()))[0]:
            sys.exit("too late: %r" % (seen + said))
        try:
            said += os.read(terminal, 4096)
        except OSError:
            sys.exit("ended: %r" % (seen + said))
    os.write(terminal, keys.encode())
    seen += said
try:
    while more := os.read(terminal, 4096):
        seen += more
except OSError:
    pass
os.write(1, seen)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]))
"#;

/// Writes the option files, and returns the path of `dsm.opt`.
fn write_options(folder: &Path, home: &Path, port: u16) -> PathBuf {
    let system = SYSTEM
        .replace("PORT", &port.to_string())
        .replace("HOME", home.to_str().unwrap())
        .replace("FOLDER", folder.to_str().unwrap());
    fs::write(folder.join("dsm.sys"), system).unwrap();
    let list = "* what nobody needs\nexclude /.../*.tmp\nexclude.dir /.../cache\n\
                include /.../keep.tmp\n";
    fs::write(folder.join("inclexcl.list"), list).unwrap();
    let options = folder.join("dsm.opt");
    fs::write(&options, "SErvername tsm1\nDATEFORMAT 3\nSUBDIR no\nREPLACE no\n").unwrap();
    options
}

/// Divides a time between two backups into the date and the time that `dsmc` takes.
fn date_and_time(time: &str) -> (String, String) {
    let (date, time) = time.split_once('T').unwrap();
    (date.to_owned(), time.trim_end_matches('Z').to_owned())
}

#[test]
fn a_node_is_backed_up_and_restored_by_the_commands_of_tsm() {
    let site = Site::new(60);
    let tree = site.tree();
    fs::write(site.scene.tree.join("a b\u{e9}"), b"blanks").unwrap();
    fs::write(site.scene.tree.join(std::ffi::OsStr::from_bytes(b"bytes-\xff")), b"x").unwrap();
    let first = site.dsmc(&["incremental", tree, "-subdir=yes"]).expect(&[0]);
    let first = first.says(&format!("Successful incremental backup of '{tree}'"));
    assert!(first.stdout.contains("Node Name: ANNA\n"), "{first}");
    assert!(first.stdout.contains("Total number of objects failed:               0\n"), "{first}");
    let before = manifest(&site.scene.tree);
    let (date, time) = date_and_time(&clock::divide());
    fs::write(site.scene.file(1), b"changed").unwrap();
    fs::remove_file(site.scene.file(2)).unwrap();
    site.dsmc(&["i", tree, "-su=yes", "-quiet"]).expect(&[0]);

    let file = site.scene.file(1);
    let line = site.dsmc(&["q", "ba", file.to_str().unwrap(), "-ina"]).expect(&[0]);
    let states: Vec<_> = line
        .stdout
        .lines()
        .filter(|line| line.ends_with("file-0001"))
        .map(|line| &line[72..73])
        .collect();
    assert_eq!(states.len(), 2, "{line}");
    assert!(states.contains(&"A") && states.contains(&"I"), "{line}");

    let source = format!("{tree}/");
    let target = site.scene.scratch.folder("back");
    let destination = format!("{}/", target.display());
    let (date, time) = (format!("-pitdate={date}"), format!("-pittime={time}"));
    site.dsmc(&["restore", &source, &destination, "-subdir=yes", &date, &time])
        .expect(&[0])
        .says("Restore processing finished.");
    assert_same(&before, &manifest(&target.join("tree")));
}

#[test]
fn the_lists_of_a_site_decide() {
    let site = Site::new(0);
    let tree = &site.scene.tree;
    fs::create_dir_all(tree.join("cache")).unwrap();
    for name in ["a", "a.tmp", "keep.tmp", "cache/b"] {
        fs::write(tree.join(name), b"content").unwrap();
    }
    site.dsmc(&["i", site.tree(), "-subdir=yes"]).expect(&[0]);
    let stored = site.dsmc(&["q", "ba", &format!("{}/*", site.tree()), "-subdir=yes"]);
    let stored = stored.expect(&[0]);
    let has = |name: &str| stored.stdout.lines().any(|line| line.ends_with(name));
    assert!(has("/a") && has("/keep.tmp"), "{stored}");
    assert!(!has("/a.tmp") && !has("/b"), "{stored}");
    // A file that is named itself is sent in spite of a statement on its directory.
    let named = tree.join("cache/b");
    site.dsmc(&["sel", named.to_str().unwrap()]).expect(&[0]);
    site.dsmc(&["q", "ba", named.to_str().unwrap()]).expect(&[0]).says("cache/b");
    let listed = site.dsmc(&["query", "inclexcl"]).expect(&[0]);
    let lines: Vec<_> = listed.stdout.lines().filter(|line| line.contains("/.../")).collect();
    assert!(lines[0].starts_with("Excl Directory /.../cache"), "{listed}");
    assert!(lines[1].starts_with("Incl All       /.../keep.tmp"), "{listed}");
    assert!(lines[2].starts_with("Excl All       /.../*.tmp"), "{listed}");
}

#[test]
fn statements_of_the_server_are_listed_where_they_are_looked_at() {
    let site = Site::new(0);
    let list = site.scene.scratch.join("statements");
    fs::write(&list, "exclude /srv/*.bak\nexclude.dir /srv/cache\n").unwrap();
    let server = &site.scene.server;
    server.admin(&["optionset", "put", "LINUX", list.to_str().unwrap()]);
    server.admin(&["node", "set", "anna", "--optionset", "LINUX"]);
    let listed = site.dsmc(&["query", "inclexcl"]).expect(&[0]);
    let is_row = |line: &&str| line.starts_with("Excl ") || line.starts_with("Incl ");
    let rows: Vec<Vec<_>> = listed
        .stdout
        .lines()
        .filter(is_row)
        .map(|line| line.split_whitespace().take(4).collect())
        .collect();
    assert_eq!(rows.len(), 5, "{listed}");
    assert_eq!(rows[0], ["Excl", "Directory", "/srv/cache", "Server"]);
    assert_eq!(rows[1][2], "/.../cache");
    assert_eq!(rows[2], ["Excl", "Backup", "/srv/*.bak", "Server"]);
    assert_eq!(rows[3][2], "/.../keep.tmp");
    let documents = site.dsmc(&["query", "inclexcl", "-json"]).expect(&[0]).json_lines();
    assert_eq!(documents.len(), 5, "{documents:?}");
    assert_eq!(documents[2]["pattern"], "/srv/*.bak");
    assert_eq!(documents[2]["source"], "Server (LINUX)");
}

#[test]
fn exit_codes_are_those_of_tsm() {
    let site = Site::new(3);
    let tree = site.tree();
    site.dsmc(&["frobnicate"]).expect(&[12]).says("ANS1107E");
    site.dsmc(&["i", tree, "-nosuch=1"]).expect(&[12]).says("ANS1107E");
    site.dsmc(&["backup", "vm", "x"]).expect(&[12]).says("refused");
    site.dsmc(&["q", "fi"]).expect(&[8]).says("ANS1092W");
    site.dsmc(&["sel", &format!("{tree}/"), "-su=yes"]).expect(&[0]);
    site.dsmc(&["q", "fi"]).expect(&[0]).says("File Space Name");
    site.dsmc(&["q", "ba", "/nothing/here"]).expect(&[8]).says("ANS1092W");
    site.dsmc(&["restore", "/nothing/here"]).expect(&[12]).says("ANS1302E");
    let list = site.scene.scratch.join("list");
    fs::write(&list, format!("{}\n{tree}/absent\n", site.scene.file(0).display())).unwrap();
    let option = format!("-filelist={}", list.display());
    site.dsmc(&["sel", &option]).expect(&[4]).says("ANS1228E");
    let log = fs::read_to_string(site.options.with_file_name("dsmerror.log")).unwrap();
    assert!(log.lines().any(|line| line.contains("ANS1228E") && line.contains("absent")), "{log}");
    assert!(log.starts_with("20"), "dates have the form of DATEFORMAT: {log}");
}

#[test]
fn a_wrong_domain_is_told_as_a_wrong_line() {
    let site = Site::new(0);
    let mut options = fs::read_to_string(&site.options).unwrap();
    options.push_str("DOMAIN \"unclosed\n");
    fs::write(&site.options, options).unwrap();
    for words in [&["incremental"][..], &["query", "options"]] {
        let refused = site.dsmc(words).expect(&[12]);
        let refused = refused.says("ANS1036S");
        assert!(refused.to_string().contains("dsm.opt line 5"), "{refused}");
    }
}

/// TSM says of a named file that a statement leaves it out, and nothing of files that a pattern or
/// a directory brings.
#[test]
fn only_named_files_are_told_to_be_excluded() {
    let site = Site::new(0);
    let tree = &site.scene.tree;
    for name in ["a", "a.tmp"] {
        fs::write(tree.join(name), b"content").unwrap();
    }
    for words in [["sel", "/*"], ["i", "/*"], ["sel", "/"]] {
        let done = site.dsmc(&[words[0], &format!("{}{}", site.tree(), words[1])]).expect(&[0]);
        assert!(!done.to_string().contains("a.tmp"), "{done}");
    }
    let named = tree.join("a.tmp");
    let named = named.to_str().unwrap();
    let message = format!("ANS1115W File '{named}' excluded by Include/Exclude list");
    let done = site.dsmc(&["sel", named]).expect(&[4]).says(&message);
    assert!(
        !done.to_string().contains("dsm.statements"),
        "the place is a file of the site: {done}"
    );
    let list = site.scene.scratch.join("list");
    fs::write(&list, format!("{}/a\n{named}\n", site.tree())).unwrap();
    let option = format!("-filelist={}", list.display());
    site.dsmc(&["sel", &option]).expect(&[4]).says(&message);
    site.dsmc(&["i", &option]).expect(&[4]).says(&message);
}

#[test]
fn subdir_and_patterns_choose_files() {
    let site = Site::new(0);
    let tree = &site.scene.tree;
    fs::create_dir_all(tree.join("x")).unwrap();
    for name in ["a.c", "b.o", "x/c.c"] {
        fs::write(tree.join(name), name).unwrap();
    }
    let stored = |outcome: Outcome| {
        let names = outcome.stdout.lines().filter_map(|line| line.split("/tree/").nth(1));
        let mut names: Vec<_> = names.map(str::to_owned).collect();
        names.sort();
        names
    };
    let (top, all) = (format!("{}/", site.tree()), format!("{}/*", site.tree()));
    site.dsmc(&["i", &top]).expect(&[0]);
    let query = |words: &[&str]| stored(site.dsmc(words).expect(&[0]));
    assert_eq!(query(&["q", "ba", &all, "-su=yes", "-filesonly"]), ["a.c", "b.o"]);
    site.dsmc(&["i", &all, "-su=yes"]).expect(&[0]);
    assert_eq!(query(&["q", "ba", &all, "-su=yes", "-filesonly"]), ["a.c", "b.o", "x/c.c"]);
    let pattern = format!("{}/*.c", site.tree());
    assert_eq!(query(&["q", "ba", &pattern]), ["a.c"]);
    assert_eq!(query(&["q", "ba", &pattern, "-su=yes"]), ["a.c", "x/c.c"]);
    let to = site.scene.scratch.folder("to");
    let destination = format!("{}/", to.display());
    site.dsmc(&["restore", &pattern, &destination, "-su=yes"]).expect(&[0]);
    assert_eq!(fs::read_to_string(to.join("tree/x/c.c")).unwrap(), "x/c.c");
    assert!(!to.join("tree/b.o").try_exists().unwrap());
    let whole = site.scene.scratch.folder("whole");
    site.dsmc(&["restore", site.tree(), &format!("{}/", whole.display()), "-su=yes"])
        .expect(&[0]);
    assert_eq!(fs::read_to_string(whole.join("tree/x/c.c")).unwrap(), "x/c.c");
    let renamed = to.join("renamed");
    let source = format!("{}/a.c", site.tree());
    site.dsmc(&["restore", &source, renamed.to_str().unwrap()]).expect(&[0]);
    assert_eq!(fs::read_to_string(&renamed).unwrap(), "a.c");
}

#[test]
fn existing_files_are_replaced_only_if_asked() {
    let site = Site::new(1);
    let file = site.scene.file(0);
    let path = file.to_str().unwrap();
    site.dsmc(&["i", path]).expect(&[0]);
    let content = fs::read(&file).unwrap();
    fs::write(&file, b"local work").unwrap();
    site.dsmc(&["restore", path]).expect(&[4]).says("left alone: 1");
    assert_eq!(fs::read(&file).unwrap(), b"local work");
    let other = site.scene.file(0).with_file_name("other");
    fs::write(&other, b"of a person").unwrap();
    site.dsmc(&["restore", path, other.to_str().unwrap()])
        .expect(&[4])
        .says("left alone: 1");
    assert_eq!(fs::read(&other).unwrap(), b"of a person");
    site.dsmc(&["restore", path, "-replace=all"]).expect(&[0]);
    assert_eq!(fs::read(&file).unwrap(), content);
    site.dsmc(&["restore", path, other.to_str().unwrap(), "-replace=all"])
        .expect(&[0]);
    site.dsmc(&["restore", path, other.to_str().unwrap()]).expect(&[0]);
    assert_eq!(fs::read(&other).unwrap(), content);
}

#[test]
fn archives_are_kept_found_and_retrieved() {
    let site = Site::new(2);
    let file = site.scene.file(0);
    let path = file.to_str().unwrap();
    site.dsmc(&["archive", path, "-description=project 17", "-archmc=STANDARD"])
        .expect(&[0]);
    let found = site.dsmc(&["q", "ar", path, "-desc=project*"]).expect(&[0]);
    assert!(found.stdout.lines().any(|line| line.ends_with("project 17")), "{found}");
    site.dsmc(&["q", "ar", path, "-desc=other"]).expect(&[8]);
    let sum = site.dsmc(&["q", "ar", path, "-querysummary"]).expect(&[0]);
    assert!(sum.stdout.contains("Files: 1") && !sum.stdout.contains(path), "{sum}");
    let content = fs::read(&file).unwrap();
    fs::remove_file(&file).unwrap();
    site.dsmc(&["retrieve", path])
        .expect(&[0])
        .says("Retrieve processing finished.");
    assert_eq!(fs::read(&file).unwrap(), content);
}

#[test]
fn an_event_is_about_whole_archives_only() {
    let site = Site::new(2);
    let file = site.scene.file(0);
    let (file, all) = (file.to_str().unwrap(), format!("{}/*", site.tree()));
    site.dsmc(&["archive", &all, "-su=yes", "-description=both"]).expect(&[0]);
    site.dsmc(&["set", "event", file, "-type=hold"])
        .expect(&[12])
        .says("1 of the 2 files of archive")
        .says("nothing was changed");
    site.dsmc(&["set", "event", &all, "-su=yes", "-type=hold"])
        .expect(&[0])
        .says("hold of archive");
    site.dsmc(&["set", "event", "/no/such/file", "-type=hold"]).expect(&[8]);
}

/// In TSM, only an incremental of the whole file system moves its date.
#[test]
fn a_part_of_a_file_system_does_not_move_the_date_of_its_last_backup() {
    let site = Site::new(2);
    let date = || {
        let shown = site.dsmc(&["q", "fi", "-json"]).expect(&[0]);
        let document: serde_json::Value = serde_json::from_str(shown.stdout.trim()).unwrap();
        document["last_backup"].clone()
    };
    let (file, all) = (site.scene.file(0), format!("{}/*", site.tree()));
    site.dsmc(&["i", &all, "-su=yes"]).expect(&[0]);
    site.dsmc(&["i", file.to_str().unwrap()]).expect(&[0]);
    assert!(date().is_null());
    site.scene.node.run(&["backup", site.tree()]).expect(&[0]);
    let whole = date();
    assert!(whole.is_string());
    site.dsmc(&["i", &format!("{}/", site.tree()), "-su=yes"]).expect(&[0]);
    assert_eq!(date(), whole);
}

#[test]
fn lists_name_what_is_retrieved_and_deleted() {
    let site = Site::new(2);
    let paths = [site.scene.file(0), site.scene.file(1)];
    let contents = paths.each_ref().map(|path| fs::read(path).unwrap());
    let list = site.scene.scratch.join("list");
    let lines: Vec<_> = paths.iter().map(|path| format!("\"{}\"\n", path.display())).collect();
    fs::write(&list, lines.concat()).unwrap();
    let option = format!("-filelist={}", list.display());
    site.dsmc(&["archive", "-deletefiles", &option]).expect(&[0]);
    assert!(paths.iter().all(|path| !path.try_exists().unwrap()));
    fs::write(&list, format!("{}/absent\n{}", site.tree(), lines.concat())).unwrap();
    site.dsmc(&["retrieve", "-replace=no", "-followsymbolic=yes", &option])
        .expect(&[12])
        .says("ANS1345E");
    assert_eq!(paths.each_ref().map(|path| fs::read(path).unwrap()), contents);
    site.scene.server.admin(&["node", "set", "anna", "--archdelete", "yes"]);
    let deleted = site.dsmc(&["delete", "archive", "-noprompt", &option]).expect(&[12]);
    let absent = format!("'{}/absent'", site.tree());
    let says = |text: &str| deleted.stderr.lines().any(|line| line.ends_with(text));
    assert!(says(&absent) && deleted.stdout.contains("objects deleted"), "{deleted}");
    site.dsmc(&["retrieve", &option]).expect(&[12]).says("ANS1302E");
}

/// The script of the package moves archives. The commands of TSM at another server stand for TSM.
#[test]
fn archives_move_from_another_server_under_their_names() {
    if !root_or_skip("archives_move_from_another_server_under_their_names") {
        return;
    }
    let site = Site::new(3);
    let folder = site.scene.file(0).parent().unwrap().to_owned();
    let file_of = |top: &Path| fs::read(top.join("file-0000")).unwrap();
    let before = file_of(&folder);
    site.dsmc(&["archive", &format!("{}/", folder.display()), "-su=yes", "-desc=project 17"])
        .expect(&[0]);
    let other = site.scene.tree.join("other");
    fs::create_dir(&other).unwrap();
    fs::write(other.join("file"), b"of the same name").unwrap();
    site.dsmc(&["archive", &format!("{}/", other.display()), "-su=yes", "-desc=project 17"])
        .expect(&[0]);
    fs::remove_dir_all(&other).unwrap();
    fs::remove_dir_all(&folder).unwrap();
    fs::create_dir(&folder).unwrap();
    fs::write(folder.join("of today"), b"stays").unwrap();

    let server = Server::start(&site.scene.scratch.join("new"));
    let node = Node::enrol(&server, "anna");
    let staging = site.scene.scratch.folder("staging");
    let old = site.scene.scratch.join("old-dsmc");
    let command = format!(
        "#!/bin/sh\nunset HOLDFAST_HOME\nexec {}/dsmc -optfile={} \"$@\"\n",
        site.programs.display(),
        site.options.display()
    );
    fs::write(&old, command).unwrap();
    fs::set_permissions(&old, fs::Permissions::from_mode(0o755)).unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../packaging/debian/samples/archives-from-tsm");
    let path = format!(
        "{}:{}",
        e2e::harness::binary().parent().unwrap().display(),
        std::env::var("PATH").unwrap_or_default()
    );
    let run_in = |folder: &Path, description: &str| {
        let done = Command::new(&script)
            .arg(&old)
            .arg(folder)
            .args([description, "STANDARD"])
            .arg(&staging)
            .env("HOLDFAST_HOME", node.home())
            .env("PATH", &path)
            .output()
            .unwrap();
        let text = [done.stdout, done.stderr].concat();
        (done.status.code(), String::from_utf8_lossy(&text).into_owned())
    };
    let run = |description: &str| run_in(&folder, description);
    let (code, said) = run("project 17");
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("files moved and compared"), "{said}");
    assert_eq!(fs::read(folder.join("of today")).unwrap(), b"stays");
    assert_eq!(fs::read_dir(&staging).unwrap().count(), 0, "{said}");
    let to = site.scene.scratch.folder("back");
    let path_of = folder.to_str().unwrap();
    node.run(&["retrieve", path_of, "--to", to.to_str().unwrap()]).expect(&[0]);
    assert_eq!(file_of(&to.join(folder.file_name().unwrap())), before);
    let (code, said) = run("project 17");
    assert!(code == Some(0) && said.contains("was moved before"), "{said}");
    let (code, said) = run("absent");
    assert!(code == Some(12) && said.contains("did not retrieve"), "{said}");
    // The same description in another directory is another archive.
    fs::create_dir(&other).unwrap();
    let (code, said) = run_in(&other, "project 17");
    assert!(code == Some(0) && said.contains("files moved and compared"), "{said}");
}

#[test]
fn another_node_gets_access_by_the_commands_of_tsm() {
    let site = Site::new(2);
    site.dsmc(&["i", site.tree(), "-su=yes"]).expect(&[0]);
    let file = site.scene.file(0);
    let folder = file.parent().unwrap().to_str().unwrap();
    site.dsmc(&["query", "access"]).expect(&[0]).says("No other node");
    site.dsmc(&["set", "access", "backup", &format!("{folder}/*"), "BERT"])
        .expect(&[8])
        .says("BERT");
    let listed = site.dsmc(&["q", "ac"]).expect(&[0]);
    assert!(listed.stdout.lines().any(|line| line.ends_with(folder)), "{listed}");
    let bert = Node::enrol(&site.scene.server, "bert");
    let dsmc = |words: &[&str]| {
        let words: Vec<_> = words.iter().map(std::ffi::OsString::from).collect();
        let line = [&["dsm", "run", "dsmc"].map(std::ffi::OsString::from), &words[..]].concat();
        bert.run(&line)
    };
    let from = "-fromnode=ANNA";
    dsmc(&["q", "ba", &format!("{folder}/*"), from]).expect(&[0]).says("file-0000");
    let to = site.scene.scratch.folder("bert");
    let destination = format!("{}/", to.display());
    dsmc(&["restore", &format!("{folder}/*"), &destination, from]).expect(&[0]);
    assert_eq!(fs::read(to.join("folder-00/file-0000")).unwrap(), fs::read(&file).unwrap());
    dsmc(&["delete", "backup", file.to_str().unwrap(), from])
        .expect(&[12])
        .says("ANS1107E");
    // Nobody answers.
    site.dsmc(&["delete", "access"])
        .expect(&[12])
        .says("ANS1107E no rule is picked");
    site.dsmc(&["delete", "access", "1"]).expect(&[0]);
    dsmc(&["q", "ba", &format!("{folder}/*"), from]).expect(&[8, 12]);
}

#[test]
fn documents_are_there_for_programs() {
    let site = Site::new(2);
    let report = site.dsmc(&["i", site.tree(), "-su=yes", "-json"]).expect(&[0]);
    assert_eq!(report.count("failed"), 0);
    let rows = site.dsmc(&["q", "ba", site.tree(), "-su=yes", "-json"]).expect(&[0]);
    assert!(rows.json_lines().len() >= 2, "{rows}");
}

#[test]
fn each_query_has_documents() {
    let site = Site::new(1);
    site.dsmc(&["i", site.tree(), "-su=yes"]).expect(&[0]);
    for (words, key) in [
        ("q inclexcl", "pattern"),
        ("q options", "option"),
        ("q mgmtclass", "mgmt_class"),
        ("q session", "server_version"),
        ("q fi", "filespace"),
        ("q systeminfo -console", "lines"),
    ] {
        let words: Vec<_> = words.split(' ').chain(["-json"]).collect();
        let shown = site.dsmc(&words).expect(&[0]);
        assert!(!shown.stdout.is_empty(), "{words:?}");
        for line in shown.stdout.lines() {
            let document: serde_json::Value = serde_json::from_str(line).unwrap();
            assert!(document.get(key).is_some(), "{words:?}: {line}");
        }
    }
}

/// The password of a node becomes an enrolment if it is a token of the server.
#[test]
fn a_token_as_password_makes_the_machine_a_node() {
    let scratch = Scratch::new();
    let server = Server::start(&scratch.join("server"));
    let (folder, home) = (scratch.folder("tsm"), scratch.folder("node"));
    let options = write_options(&folder, &home, server.port());
    fs::write(home.join("TSM.PWD"), b"of TSM").unwrap();
    let helper = Node::enrol(&server, "helper");
    let programs = scratch.folder("bin");
    helper
        .run(&["dsm".as_ref(), "link".as_ref(), programs.as_os_str()])
        .expect(&[0]);
    let option = format!("-optfile={}", options.display());
    let dsmc = |words: &[&str]| {
        let words: Vec<_> = [&[option.as_str()], words].concat();
        let words: Vec<_> = words.into_iter().map(std::ffi::OsString::from).collect();
        start(&programs.join("dsmc"), &words, &home, None).wait()
    };
    dsmc(&["q", "session"]).expect(&[12]).says("ANS2050E");
    // Without a file, a store or a person that knows the server, a password is not sent.
    dsmc(&["q", "session", "-password=secret"]).expect(&[12]).says("ANS1592E");
    let token = server.token("anna");
    dsmc(&["q", "session", &format!("-password={token}")]).expect(&[0]).says("ANNA");
    assert_eq!(fs::read(home.join("TSM.PWD")).unwrap(), b"of TSM");
    let config = fs::read_to_string(home.join("client.toml")).unwrap();
    for expected in ["dedup_cache_megabytes = 1024", "commands = [\"sync\"]", "node = \"anna\""] {
        assert!(config.contains(expected), "{expected}: {config}");
    }
    dsmc(&["q", "session"]).expect(&[0]);
}

/// The password that an administrator has given a node makes the machine that node, as with
/// PASSWORDACCESS GENERATE.
#[test]
fn a_password_makes_the_machine_a_node() {
    let scratch = Scratch::new();
    let server = Server::start(&scratch.join("server"));
    let (folder, home, programs) =
        (scratch.folder("tsm"), scratch.folder("node"), scratch.folder("bin"));
    let options = write_options(&folder, &home, server.port());
    let holdfast = |words: &[&str]| {
        let words: Vec<_> = words.iter().map(std::ffi::OsString::from).collect();
        start(&e2e::harness::binary(), &words, &home, None).wait()
    };
    let missing = holdfast(&["dsm", "link", "/no/such/folder"]).expect(&[12]);
    assert_eq!(missing.stderr.lines().count(), 1, "one line, and not one for each link: {missing}");
    holdfast(&["dsm", "link", programs.to_str().unwrap()]).expect(&[0]);
    let register = |words: &[&str]| {
        let words = [&["dsmadmc", "-se", server.dir().to_str().unwrap(), "-dataonly=yes"], words];
        holdfast(&words.concat())
    };
    register(&["register node ANNA correct-horse"]).expect(&[0]).says("ANR2060I");
    fs::copy(server.dir().join("ca.pem"), folder.join("ca.pem")).unwrap();
    let option = format!("-optfile={}", options.display());
    let dsmc = |words: &[&str]| {
        let words: Vec<_> = [&[option.as_str()], words].concat();
        let words: Vec<_> = words.into_iter().map(std::ffi::OsString::from).collect();
        start(&programs.join("dsmc"), &words, &home, None).wait()
    };
    dsmc(&["q", "session", "-password=battery-staple"])
        .expect(&[12])
        .says("ANS1025E");
    dsmc(&["q", "session", "-password=correct-horse"]).expect(&[0]).says("ANNA");
    dsmc(&["q", "session"]).expect(&[0]).says("Node Name: ANNA");
    // TSM's scripts set a new password, with which the machine can be enrolled anew.
    register(&["update node ANNA battery-staple"]).expect(&[0]).says("ANR2063I");
    fs::remove_file(home.join("client.toml")).unwrap();
    dsmc(&["q", "session", "-password=battery-staple"]).expect(&[0]);
}

#[test]
fn a_check_tells_the_fate_of_each_line() {
    let site = Site::new(0);
    let (system, user) = (site.options.with_file_name("dsm.sys"), &site.options);
    let check = |words: &[&str]| {
        let fixed = ["dsm", "check", system.to_str().unwrap(), user.to_str().unwrap()];
        site.scene.node.run(&[&fixed, words].concat())
    };
    let rows = check(&["--json"]).expect(&[0]).json_lines();
    let fate = |option: &str| {
        let row = rows.iter().find(|row| row["option"] == option);
        row.unwrap_or_else(|| panic!("{option} is not in {rows:?}"))["fate"].clone()
    };
    assert_eq!(fate("COMPRESSION"), "carried out");
    assert_eq!(fate("TCPWINDOWSIZE"), "needless");
    assert_eq!(fate("EXCLUDE.DIR"), "carried out");
    // Each stanza counts, and not only the one in force.
    let good = fs::read_to_string(&system).unwrap();
    let node = "   NODename          somebody\n";
    fs::write(&system, good.replace(node, &format!("{node}   FOLLOWSYMBOLIC yes\n"))).unwrap();
    check(&[]).expect(&[4]).says("FOLLOWSYMBOLIC");
    check(&["--stanza", "TSM1"]).expect(&[0]);
    fs::write(&system, good).unwrap();
    fs::write(user, "SErvername tsm1\nFOLLOWSYMBOLIC yes\nnodname x\n").unwrap();
    check(&[]).expect(&[4]).says("did you mean NODENAME?");
    site.dsmc(&["i", site.tree()]).expect(&[12]).says("ANS1036S");
}

#[test]
fn an_import_carries_the_options_over() {
    let site = Site::new(0);
    let system = site.options.with_file_name("dsm.sys");
    let files = [system.to_str().unwrap(), site.options.to_str().unwrap()];
    let import = || site.scene.node.run(&[&["dsm", "import"], &files[..]].concat());
    import().expect(&[0]);
    let config = || fs::read_to_string(site.scene.node.home().join("client.toml")).unwrap();
    assert!(config().contains("transaction_bytes = 1073741824"), "{}", config());
    let list = fs::read_to_string(site.scene.node.home().join("inclexcl")).unwrap();
    assert!(list.contains("exclude.dir /.../cache\n"), "{list}");
    let changed = fs::read_to_string(&system).unwrap().replace("   DEDUPCACHESIZE     1024\n", "");
    fs::write(&system, changed).unwrap();
    import().expect(&[0]);
    assert!(!config().contains("dedup_cache_megabytes"), "{}", config());
    site.scene.node.run(&["backup", site.tree(), "--json"]).expect(&[0]);
}

/// The statements go to the backup in a file that is gone afterwards, which no message may name.
#[test]
fn a_statement_that_needs_a_key_is_told_at_its_place() {
    let site = Site::new(1);
    let list = site.options.with_file_name("inclexcl.list");
    fs::write(&list, "* keys\ninclude.encrypt /.../*\n").unwrap();
    let system = site.options.with_file_name("dsm.sys");
    let check = ["dsm", "check", system.to_str().unwrap(), site.options.to_str().unwrap()];
    site.scene.node.run(&check).expect(&[0]).says("'holdfast key create'");
    let refused = site.dsmc(&["i", site.tree(), "-su=yes"]).expect(&[12]);
    refused.says(&format!("ANS1999E {} line 2 encrypts files", list.display()));
    site.scene.node.run(&["key", "create"]).expect(&[0]);
    site.dsmc(&["i", site.tree(), "-su=yes"]).expect(&[0]);
}

/// An option that only the settings of the node carry is told, in an option file that a command
/// names and on its line.
#[test]
fn an_option_without_effect_is_told() {
    let site = Site::new(1);
    let system = site.options.with_file_name("dsm.sys");
    let files = [system.to_str().unwrap(), site.options.to_str().unwrap()];
    let told = site.dsmc(&["q", "session"]).expect(&[0]);
    let told = told.says(&format!("run 'holdfast dsm import {} {}'", files[0], files[1]));
    assert!(told.stderr.contains("DEDUPCACHESIZE"), "{told}");
    site.scene.node.run(&[&["dsm", "import"], &files[..]].concat()).expect(&[0]);
    let quiet = site.dsmc(&["q", "session"]).expect(&[0]);
    assert!(!quiet.stderr.contains("dsm import"), "{quiet}");
    let file = site.scene.file(0).display().to_string();
    let refused = site.dsmc(&["i", &file, "-dirmc=LONG"]).expect(&[12]);
    refused.says("ANS1107E -DIRMC: a command line cannot carry it");
    let done = site.dsmc(&["i", &file, "-enablededupcache=no"]).expect(&[0]);
    done.says("-ENABLEDEDUPCACHE has no effect on a command line");
}

#[test]
fn space_management_has_the_columns_of_tsm() {
    if !root_or_skip("space_management_has_the_columns_of_tsm") {
        return;
    }
    let site = Site::new(2);
    let folder = site.scene.tree.join("folder-00");
    fs::create_dir(folder.join("below")).unwrap();
    fs::write(folder.join("below/deep"), b"deep").unwrap();
    let listed = |words: &[&str]| site.run("dsmls", words).expect(&[0]).stdout;
    let text = listed(&[folder.to_str().unwrap()]);
    let lines: Vec<_> = text.lines().collect();
    let heading: Vec<_> = lines[0].split_whitespace().collect();
    assert_eq!(heading, ["ActS", "ResS", "ResB", "FSt", "FName"]);
    assert_eq!(lines.len(), 4, "{text}");
    let of_directory: Vec<_> = lines[3].split_whitespace().collect();
    assert_eq!(of_directory[3..], ["-", "below"], "{text}");
    let words: Vec<_> = lines[1].split_whitespace().collect();
    assert_eq!((words[0], words[3], words[4]), ("500", "r", "file-0000"), "{text}");
    assert!(listed(&["-R", folder.to_str().unwrap()]).contains("below/deep"));
    site.run("dsmmigrate", &[folder.to_str().unwrap()]).expect(&[12]);
    site.run("dsmmighelp", &[]).expect(&[0]).says("dsmrecall");
}
