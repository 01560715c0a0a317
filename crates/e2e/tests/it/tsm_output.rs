//! The output of TSM's commands, compared with kept output. Scripts take it apart by lines and
//! columns, so that each change of it is seen here first.
//!
//! `HOLDFAST_WRITE_GOLDEN=1` writes the output anew. Times, sizes of transfers and the places of
//! the test's own files are replaced, because they differ each time.

use std::fs;
use std::path::{Path, PathBuf};

use e2e::harness::{Outcome, Process, start};
use rustix::process::{Pid, Signal, kill_process_group};

use crate::fleet::eventually;
use crate::scene::Scene;

/// Lines whose numbers depend on the time that the work took, and on the compression.
const VARYING: [&str; 13] = [
    "File space:",
    "Total number of bytes processed:",
    "Total bytes before deduplication:",
    "Total bytes after deduplication:",
    "Total number of bytes transferred:",
    "Data transfer time:",
    "Network data transfer rate:",
    "Aggregate data transfer rate:",
    "Objects compressed by:",
    "Deduplication reduction:",
    "Total data reduction ratio:",
    "Elapsed processing time:",
    "   Next Execution:",
];

/// Words of `dsmcad` before the number of a process.
const RUNS_AS: &str = " runs as process ";

pub(crate) struct Golden {
    pub(crate) scene: Scene,
    programs: PathBuf,
    options: PathBuf,
    pub(crate) text: String,
}

impl Golden {
    pub(crate) fn new() -> Self {
        let scene = Scene::with_files(0, 0);
        let programs = scene.scratch.folder("bin");
        scene
            .node
            .run(&["dsm".as_ref(), "link".as_ref(), programs.as_os_str()])
            .expect(&[0]);
        let options = scene.scratch.folder("tsm").join("dsm.opt");
        let system = format!(
            "SErvername one\nNODename anna\nPASSWORDDIR {}\nEXCLUDE /.../*.tmp\n",
            scene.node.home().display()
        );
        fs::write(options.with_file_name("dsm.sys"), system).unwrap();
        fs::write(&options, "DATEFORMAT 3\nNUMBERFORMAT 1\nREPLACE no\n").unwrap();
        Self { scene, programs, options, text: String::new() }
    }

    fn dsmc(&mut self, words: &[&str]) -> Outcome {
        self.run("dsmc", words)
    }

    /// Runs a program of the node, and adds its output.
    fn run(&mut self, name: &str, words: &[&str]) -> Outcome {
        let outcome = self.start(name, words).wait();
        self.keep(name, words, &outcome);
        outcome
    }

    fn start(&self, name: &str, words: &[&str]) -> Process {
        let option = format!("-optfile={}", self.options.display());
        let all = [&[option.as_str()], words].concat();
        let all: Vec<_> = all.into_iter().map(std::ffi::OsString::from).collect();
        start(&self.programs.join(name), &all, self.scene.node.home(), None)
    }

    /// Waits until the server knows whether the agent of the node is connected.
    #[track_caller]
    fn await_agent(&self, is_connected: bool) {
        let agent =
            || self.scene.server.admin(&["node", "show", "anna"])["agent_connected"].clone();
        assert!(eventually(|| agent() == is_connected), "{}", agent());
    }

    pub(crate) fn dsmadmc(&mut self, words: &[&str]) -> Outcome {
        let server = self.scene.server.dir().to_str().unwrap().to_owned();
        let all = [&["-se", server.as_str(), "-id=admin", "-password=x"], words].concat();
        let all: Vec<_> = all.into_iter().map(std::ffi::OsString::from).collect();
        let program = self.programs.join("dsmadmc");
        let outcome = start(&program, &all, self.scene.node.home(), None).wait();
        self.keep("dsmadmc", words, &outcome);
        outcome
    }

    /// Adds a command of an administrator whose output has numbers that differ each time.
    pub(crate) fn dsmadmc_without_numbers(&mut self, words: &[&str]) {
        let before = self.text.len();
        self.dsmadmc(words);
        let added = self.text.split_off(before);
        let (command, output) = added.split_once('\n').expect("a command has a line");
        let mut plain = String::new();
        // The fingerprint of the server's CA is the only long line without blanks.
        let is_fingerprint = |line: &str| line.len() > 40 && !line.contains([' ', '\t']);
        let lines = output.lines().map(|line| if is_fingerprint(line) { "..." } else { line });
        let output = lines.flat_map(|line| [line, "\n"]).collect::<String>();
        let mut letters = output.chars().peekable();
        while let Some(letter) = letters.next() {
            let is_before_digit = letters.peek().is_some_and(char::is_ascii_digit);
            match letter {
                '0'..='9' if plain.ends_with('0') => {}
                ',' | '.' if plain.ends_with('0') && is_before_digit => {}
                '0'..='9' => plain.push('0'),
                letter => plain.push(letter),
            }
        }
        for part in [command, "\n", &plain] {
            self.text.push_str(part);
        }
    }

    /// Adds a command with its exit code, its output and its errors.
    fn keep(&mut self, name: &str, words: &[&str], outcome: &Outcome) {
        let code = outcome.code();
        let shown = format!("$ {name} {}  # {code}\n", words.join(" "));
        let text = format!("{shown}{}{}", outcome.stdout, outcome.stderr);
        for line in text.lines() {
            let line = self.plain(line);
            self.text.push_str(line.trim_end());
            self.text.push('\n');
        }
        self.text.push('\n');
    }

    /// Replaces what differs each time.
    fn plain(&self, line: &str) -> String {
        let scratch = self.scene.scratch.path().to_str().unwrap();
        let home = self.scene.node.home().to_str().unwrap();
        let port = format!("127.0.0.1:{}", self.scene.server.port());
        let line = line.replace(scratch, "SCRATCH").replace(home, "HOME").replace(&port, "SERVER");
        let line = line.replace(env!("CARGO_PKG_VERSION"), "VERSION");
        let line = without_machine(&line.replace(&kernel("osrelease"), "RELEASE"));
        if let Some(label) = VARYING.iter().find(|label| line.starts_with(**label)) {
            return format!("{label} ...");
        }
        if let Some((agent, _)) = line.split_once(RUNS_AS) {
            return format!("{agent}{RUNS_AS}NUMBER.");
        }
        // The width of a table of paths depends on the place of the test's files.
        let is_heading = line.starts_with("Name  ") && line.ends_with("Source");
        let is_of_paths = is_heading || line.starts_with("SCRATCH/");
        without_times(&without_numbers(&if is_of_paths { narrow(&line) } else { line }))
    }
}

/// The agent that `dsmcad` has left in the background, until it is dropped.
struct Background(Pid);

impl Background {
    /// Finds the agent by what `dsmcad` has said.
    fn of(outcome: &Outcome) -> Self {
        let (_, number) = outcome.stdout.trim().split_once(RUNS_AS).expect("a process");
        let number = number.trim_end_matches('.').parse().expect("a number");
        Self(Pid::from_raw(number).expect("a process"))
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        kill_process_group(self.0, Signal::KILL).ok();
    }
}

/// Returns what the kernel says of this machine.
fn kernel(file: &str) -> String {
    let text = fs::read_to_string(format!("/proc/sys/kernel/{file}")).expect("is read");
    text.trim_end().to_owned()
}

/// Replaces the fields of a line with tabs that depend on the machine: its name, its processors,
/// and the kind of its file system.
fn without_machine(line: &str) -> String {
    let (host, kinds) = (kernel("hostname"), ["EXT4", "XFS", "BTRFS", "TMPFS", "OVERLAY"]);
    let platform = format!("Linux {}", std::env::consts::ARCH.replace('_', "-"));
    let fields = line.split('\t').map(|field| match field {
        field if field == host => "HOST",
        field if field == platform => "PLATFORM",
        field if kinds.contains(&field) => "KIND",
        field => field,
    });
    fields.collect::<Vec<_>>().join("\t")
}

/// Replaces the numbers of archives and deletions, which have 16 digits.
fn without_numbers(line: &str) -> String {
    let words = line.split(' ').map(|word| {
        let (number, quote) = word.strip_suffix('\'').map_or((word, ""), |number| (number, "'"));
        let is_number = number.len() == 16 && number.bytes().all(|byte| byte.is_ascii_digit());
        if is_number { format!("NUMBER{quote}") } else { word.to_owned() }
    });
    words.collect::<Vec<_>>().join(" ")
}

/// Compares the output of commands with the kept output of this name.
pub(crate) fn compare(name: &str, text: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name);
    if std::env::var_os("HOLDFAST_WRITE_GOLDEN").is_some() {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
    }
    let kept = fs::read_to_string(&path).unwrap();
    let differs = kept.lines().zip(text.lines()).find(|(kept, now)| kept != now);
    assert!(differs.is_none(), "kept and now: {differs:#?}\n{text}");
    assert_eq!(kept.lines().count(), text.lines().count(), "{text}");
}

/// Replaces each gap of several blanks by one of two.
fn narrow(line: &str) -> String {
    let columns = line.split("  ").map(str::trim).filter(|column| !column.is_empty());
    columns.collect::<Vec<_>>().join("  ")
}

/// Replaces each digit of dates and times, as in 2026-11-20 18:00:07.
pub(crate) fn without_times(line: &str) -> String {
    let bytes: Vec<char> = line.chars().collect();
    let mut out = bytes.clone();
    let is_digit = |index: usize| bytes.get(index).is_some_and(char::is_ascii_digit);
    let mut hide = |at: usize, shape: &str| {
        let fits = shape.chars().enumerate().all(|(index, wanted)| match wanted {
            'd' => is_digit(at + index),
            other => bytes.get(at + index) == Some(&other),
        });
        let is_alone = at == 0 || !is_digit(at - 1);
        if fits && is_alone && !is_digit(at + shape.len()) {
            for (index, wanted) in shape.chars().enumerate() {
                if wanted == 'd' {
                    out[at + index] = '0';
                }
            }
        }
    };
    for at in 0..bytes.len() {
        hide(at, "dddd-dd-dd");
        hide(at, "dd:dd:dd");
    }
    out.into_iter().collect()
}

#[test]
fn times_are_replaced_and_other_numbers_stay() {
    assert_eq!(
        without_times("12,345  B  2026-11-20 18:00:07  x-2026 10:20"),
        "12,345  B  0000-00-00 00:00:00  x-2026 10:20"
    );
}

#[test]
fn the_client_writes_what_it_has_always_written() {
    let mut golden = Golden::new();
    let tree = golden.scene.tree.clone();
    fs::create_dir(tree.join("below")).unwrap();
    for (name, bytes) in [("a", 1_234), ("below/b c", 10_000_000), ("left.tmp", 5)] {
        fs::write(tree.join(name), vec![7; bytes]).unwrap();
    }
    let top = tree.to_str().unwrap();
    let (all, file) = (format!("{top}/*"), format!("{top}/a"));
    let to = golden.scene.scratch.folder("to");
    let destination = format!("{}/", to.display());
    golden.dsmc(&["query", "session"]).expect(&[0]);
    golden.dsmc(&["query", "filespace"]).expect(&[8]);
    golden.dsmc(&["incremental", top, "-subdir=yes", "-quiet"]).expect(&[0]);
    golden.dsmc(&["selective", &file]).expect(&[0]);
    fs::write(&file, b"changed").unwrap();
    golden.dsmc(&["incremental", &file]).expect(&[0]);
    golden.dsmc(&["query", "backup", &file]).expect(&[0]);
    golden
        .dsmc(&["query", "backup", &all, "-subdir=yes", "-querysummary"])
        .expect(&[0]);
    golden.dsmc(&["query", "backup", "/no/such/file"]).expect(&[8]);
    golden.dsmc(&["query", "inclexcl"]).expect(&[0]);
    golden.dsmc(&["query", "mgmtclass", "-detail"]).expect(&[0]);
    golden.dsmc(&["query", "options"]).expect(&[0]);
    golden.dsmc(&["preview", "backup", &format!("{top}/")]).expect(&[0]);
    golden.dsmc(&["restore", &file, &destination]).expect(&[0]);
    golden.dsmc(&["restore", "/no/such/file"]).expect(&[12]);
    golden.dsmc(&["archive", &file, "-description=project 17"]).expect(&[0]);
    golden.dsmc(&["query", "archive", &file]).expect(&[0]);
    golden.dsmc(&["retrieve", &file, &destination]).expect(&[0]);
    golden.dsmc(&["set", "access", "backup", &all, "BERT"]).expect(&[8]);
    golden.dsmc(&["query", "access"]).expect(&[0]);
    golden.dsmc(&["delete", "access", "1"]).expect(&[0]);
    golden.dsmc(&["set", "password"]).expect(&[0]);
    golden.dsmc(&["query", "node"]).expect(&[0]);
    golden.dsmc(&["query", "restore"]).expect(&[0]);
    golden.dsmc(&["query", "schedule"]).expect(&[8]);
    golden.dsmc(&["query", "image"]).expect(&[8]);
    let facts = format!("-filename={}", golden.scene.scratch.join("facts").display());
    golden.dsmc(&["query", "systeminfo", &facts]).expect(&[0]);
    golden.dsmc(&["preview", "archive", &all]).expect(&[0]);
    golden.dsmc(&["set", "event", &file, "-type=hold"]).expect(&[0]);
    golden.dsmc(&["set", "event", &file, "-type=release"]).expect(&[0]);
    let script = golden.scene.scratch.join("macro");
    fs::write(&script, "* two commands\nquery restore\nquery node\n").unwrap();
    golden.dsmc(&["macro", script.to_str().unwrap()]).expect(&[0]);
    golden.scene.server.admin(&["node", "set", "anna", "--backdelete", "yes"]);
    golden.dsmc(&["delete", "backup", &file]).expect(&[12]);
    golden.dsmc(&["expire", &file, "-noprompt"]).expect(&[0]);
    golden
        .dsmc(&["delete", "backup", &file, "-deltype=inactive", "-noprompt"])
        .expect(&[0]);
    golden.dsmc(&["delete", "archive", &file, "-noprompt"]).expect(&[0]);
    golden.dsmc(&["query", "filespace", "/no/such"]).expect(&[8]);
    golden.dsmc(&["delete", "filespace", "/no/such", "-noprompt"]).expect(&[12]);
    golden.dsmc(&["help"]).expect(&[0]);
    golden.dsmc(&["query", "session", "bogus"]).expect(&[12]);
    golden.dsmc(&["selective", &format!("{top}/absent")]).expect(&[4, 12]);
    golden.dsmc(&["backup", "vm", "x"]).expect(&[12]);
    golden.dsmc(&["frobnicate"]).expect(&[12]);
    compare("dsmc.txt", &golden.text);
}

#[test]
fn files_of_a_list_and_of_a_moment_come_back_with_the_words_of_always() {
    let mut golden = Golden::new();
    let tree = golden.scene.tree.clone();
    for (name, bytes) in [("a", 1_234), ("b", 10_000_000)] {
        fs::write(tree.join(name), vec![7; bytes]).unwrap();
    }
    let top = tree.to_str().unwrap();
    let file = format!("{top}/a");
    let list = golden.scene.scratch.join("list");
    fs::write(&list, format!("{file}\n{top}/absent\n")).unwrap();
    let list = format!("-filelist={}", list.display());
    let to = golden.scene.scratch.folder("to");
    let destination = format!("{}/", to.display());
    golden.dsmc(&["incremental", top, "-subdir=yes", "-quiet"]).expect(&[0]);
    golden.dsmc(&["restore", &list, &destination]).expect(&[4]);
    fs::remove_file(to.join("a")).unwrap();
    golden
        .dsmc(&["restore", &file, &destination, "-pitdate=2099-12-31"])
        .expect(&[0]);
    golden
        .dsmc(&["restore", &file, &destination, "-pitdate=2001-01-01"])
        .expect(&[12]);
    // It asks which, and nobody answers.
    golden.dsmc(&["restore", &file, &destination, "-pick"]).expect(&[12]);
    for command in ["cancel process", "cancel restore", "restart restore"] {
        golden.dsmc(&command.split(' ').collect::<Vec<_>>());
    }
    compare("dsmc-restore.txt", &golden.text);
}

#[test]
fn images_come_and_go_with_the_words_of_always() {
    let mut golden = Golden::new();
    let (disk, copy) = (golden.scene.scratch.join("disk"), golden.scene.scratch.join("copy"));
    fs::write(&disk, [vec![7_u8; 3_000_000], vec![0; 97_152]].concat()).unwrap();
    let (disk, copy) = (disk.to_str().unwrap(), copy.to_str().unwrap());
    golden.dsmc(&["backup", "image", disk]).expect(&[0]);
    golden.dsmc(&["query", "image"]).expect(&[0]);
    golden.dsmc(&["query", "image", disk]).expect(&[0]);
    golden.dsmc(&["query", "image", "/no/such/disk"]).expect(&[8]);
    // It asks, and nobody answers.
    golden.dsmc(&["restore", "image", disk, copy]).expect(&[12]);
    golden.dsmc(&["restore", "image", "/no/such/disk", copy]).expect(&[12]);
    golden.dsmc(&["restore", "image", disk, copy, "-noprompt"]).expect(&[0]);
    golden
        .dsmc(&["restore", "image", "/no/such/disk", copy, "-noprompt"])
        .expect(&[12]);
    golden.dsmc(&["restore", "image", disk]).expect(&[12]);
    golden.dsmc(&["backup", "image", "/no/such/disk"]).expect(&[12]);
    golden.dsmc(&["backup", "image"]).expect(&[12]);
    compare("dsmc-image.txt", &golden.text);
}

#[test]
fn schedules_are_followed_with_the_words_of_always() {
    let mut golden = Golden::new();
    let define = ["schedule", "define", "nightly", "--action", "incremental", "--time", "22:00"];
    golden.scene.server.admin(&[&define[..], &["--zone", "UTC"]].concat());
    golden
        .scene
        .server
        .admin(&["schedule", "associate", "nightly", "--node", "anna"]);
    golden.dsmc(&["query", "schedule"]).expect(&[0]);
    golden.run("dsmcad", &["nonsense"]).expect(&[12]);
    let background = Background::of(&golden.run("dsmcad", &[]).expect(&[0]));
    golden.await_agent(true);
    golden.run("dsmcad", &[]).expect(&[12]);
    golden.dsmc(&["schedule"]).expect(&[12]);
    drop(background);
    golden.await_agent(false);
    let scheduler = golden.start("dsmc", &["schedule"]);
    golden.await_agent(true);
    scheduler.signal(Signal::TERM);
    let ended = scheduler.wait().expect(&[0]);
    golden.keep("dsmc", &["schedule"], &ended);
    compare("dsmc-schedule.txt", &golden.text);
}

#[test]
fn the_administrator_reads_what_has_always_been_written() {
    let mut golden = Golden::new();
    golden.scene.server.admin(&["node", "add", "bert"]);
    for command in [
        "query node",
        "query domain",
        "query mgmtclass",
        "query copygroup",
        "query copygroup type=archive",
        "query schedule",
        "query event * *",
        "query drive",
        "select node_name, domain_name from nodes order by node_name",
        "select count(*) from nodes",
        "select node_name from nodes where node_name='NOBODY'",
        "query frobnicate",
    ] {
        golden.dsmadmc(&["-dataonly=yes", command]);
        golden.dsmadmc(&["-dataonly=yes", "-commadelimited", command]);
    }
    for command in [
        "register node carl correct-horse",
        "update node carl contact='the machine room'",
        "define domain LONG",
        "define schedule standard nightly action=incremental starttime=22:00",
        "define association standard nightly carl,nobody",
        "expire inventory wait=yes",
        "backup db type=full wait=yes",
    ] {
        golden.dsmadmc_without_numbers(&["-dataonly=yes", "-noconfirm", command]);
    }
    golden.dsmadmc(&["query domain"]);
    golden.dsmadmc(&["-displaymode=list", "query domain"]);
    compare("dsmadmc.txt", &golden.text);
}
