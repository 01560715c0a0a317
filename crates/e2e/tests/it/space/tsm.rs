//! The commands of TSM's space management, and a script that recalls by them.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use e2e::harness::{Outcome, start};

use super::{KINDS, MIB, Space};

/// The names of TSM's commands, and option files for the node of a space.
struct Programs {
    folder: PathBuf,
    options: PathBuf,
    home: PathBuf,
}

impl Programs {
    fn of(space: &Space) -> Self {
        let home = space.node().home().to_owned();
        let folder = space.scene.scratch.folder("bin");
        space
            .node()
            .run(&["dsm".as_ref(), "link".as_ref(), folder.as_os_str()])
            .expect(&[0]);
        let options = space.scene.scratch.folder("tsm").join("dsm.opt");
        fs::write(&options, "").unwrap();
        let system = format!("SErvername one\nNODename anna\nPASSWORDDIR {}\n", home.display());
        fs::write(options.with_file_name("dsm.sys"), system).unwrap();
        Self { folder, options, home }
    }

    fn run(&self, name: &str, words: &[&str]) -> Outcome {
        let option = format!("-optfile={}", self.options.display());
        let words = std::iter::once(option.as_str()).chain(words.iter().copied());
        let words: Vec<OsString> = words.map(OsString::from).collect();
        start(&self.folder.join(name), &words, &self.home, None).wait()
    }

    /// Returns the states of the files that `dsmls` shows, sorted.
    fn states(&self, folder: &Path) -> Vec<String> {
        let listed = self.run("dsmls", &["-noheader", folder.to_str().unwrap()]).expect(&[0]);
        let state = |line: &str| {
            let words: Vec<_> = line.split_whitespace().collect();
            format!("{} {}", words[3], words[words.len() - 1])
        };
        let mut states: Vec<String> = listed.stdout.lines().map(state).collect();
        states.sort();
        states
    }
}

#[test]
fn files_migrate_and_come_back_by_the_commands_of_tsm() {
    let Some(space) = Space::new(KINDS[0], &[]) else { return };
    let programs = Programs::of(&space);
    let names = ["a 1", "b", "c"];
    let contents: Vec<Vec<u8>> = (1..=3).map(|seed: u8| vec![seed; MIB]).collect();
    let paths: Vec<PathBuf> = names
        .iter()
        .zip(&contents)
        .map(|(name, content)| space.write(&format!("run/{name}"), content))
        .collect();
    let folder = space.fs().join("run");
    let top = folder.to_str().unwrap();
    programs
        .run("dsmmigrate", &["-premigrate", paths[2].to_str().unwrap()])
        .expect(&[0]);
    programs.run("dsmmigrate", &["-d", top]).expect(&[0]).says("/run/b");
    assert_eq!(programs.states(&folder), ["m 1", "m b", "m c"]);
    let df = programs.run("dsmdf", &[space.fs().to_str().unwrap()]).expect(&[0]);
    let line = df.stdout.lines().last().unwrap().split_whitespace().collect::<Vec<_>>();
    assert_eq!((line[1], line[2], line[4]), ("a", "3072", "3"), "{df}");
    let absent = programs.run("dsmdf", &["no/such"]).expect(&[12]);
    assert!(absent.stderr.contains("ANS9085E dsmdf: file system /"), "{absent}");
    let refused = programs.run("dsmrm", &["1"]).expect(&[12]);
    assert_eq!((refused.stdout.as_str(), &refused.stderr[..8]), ("", "ANS1999E"), "{refused}");

    // A script of a site: a list with quotes, and the file system after it.
    let list = space.scene.scratch.join("list");
    fs::write(&list, format!("\"{}\"\n{}\n", paths[0].display(), paths[1].display())).unwrap();
    let (option, fs_name) = (format!("-filelist={}", list.display()), space.fs());
    let listed = programs.run("dsmls", &["-noheader", &option]).expect(&[0]);
    let names: Vec<_> = listed.stdout.lines().map(|line| line.rsplit('/').next()).collect();
    assert_eq!(names, [Some("a 1"), Some("b")], "the files of the list: {listed}");
    let both = ["-noheader", fs_name.to_str().unwrap(), top];
    let both = programs.run("dsmls", &both).expect(&[0]);
    let shown = both.stdout.lines().filter(|line| line.ends_with("m     b")).count();
    assert_eq!(shown, 1, "a directory in another one: {both}");
    let wrong = programs.run("dsmmigrate", &["-preview", top]).expect(&[12]);
    assert!(wrong.stderr.contains("dsmmigrate has no option -preview"), "{wrong}");
    let preview = ["-preview", &option, fs_name.to_str().unwrap()];
    programs.run("dsmrecall", &preview).expect(&[0]);
    assert_eq!(programs.states(&folder), ["m 1", "m b", "m c"]);
    programs
        .run("dsmrecall", &["-d", &option, fs_name.to_str().unwrap()])
        .expect(&[0]);
    assert_eq!(programs.states(&folder), ["m c", "p 1", "p b"]);
    for (path, content) in paths.iter().zip(&contents) {
        assert!(fs::read(path).unwrap() == *content, "{path:?} has other content");
    }
    programs.run("dsmq", &[]).expect(&[0]);
}

#[test]
fn the_commands_write_what_they_have_always_written() {
    let Some(space) = Space::new(KINDS[0], &[]) else { return };
    let programs = Programs::of(&space);
    for (number, name) in ["a", "b b", "c"].into_iter().enumerate() {
        space.write(&format!("run/{name}"), &vec![7; (number + 1) * MIB]);
    }
    let (fs, folder) = (space.fs(), space.fs().join("run"));
    let (top, fs_name) = (folder.to_str().unwrap(), fs.to_str().unwrap());
    let (first, last) = (format!("{top}/a"), format!("{top}/c"));
    let mut text = String::new();
    let mut run = |name: &str, words: &[&str]| {
        let outcome = programs.run(name, words);
        let all = format!(
            "$ {name} {}  # {}\n{}{}",
            words.join(" "),
            outcome.code(),
            outcome.stdout,
            outcome.stderr
        );
        let all = all.replace(fs_name, "FS").replace(env!("CARGO_PKG_VERSION"), "VERSION");
        for line in all.lines() {
            text.push_str(crate::tsm_output::without_times(line).trim_end());
            text.push('\n');
        }
        text.push('\n');
    };
    run("dsmmighelp", &[]);
    run("dsmmigrate", &["-d", &first]);
    run("dsmmigrate", &["-premigrate", &last]);
    run("dsmmigrate", &[&format!("{top}/absent")]);
    run("dsmls", &[top]);
    run("dsmls", &["-noheader", "-recursive", fs_name]);
    run("dsmdu", &[top]);
    run("dsmdu", &["-allfiles", top]);
    run("dsmdu", &[fs_name]);
    run("dsmdu", &["-summary", fs_name]);
    run("dsmq", &[]);
    run("dsmrecall", &["-preview", top]);
    run("dsmrecall", &["-d", &first]);
    run("dsmls", &[&first]);
    run("dsmrecall", &[&format!("{top}/absent")]);
    run("dsmattr", &[&first]);
    run("dsmreconcile", &[fs_name]);
    run("dsmdf", &["/nowhere"]);
    run("dsmmigquery", &[fs_name]);
    run("dsmmigfs", &["query", fs_name]);
    run("dsmmigfs", &["query", "/nowhere"]);
    run("dsmmigundelete", &[fs_name]);
    run("dsmrm", &["1"]);
    run("dsmautomig", &[fs_name]);
    run("dsmautomig", &[]);
    run("dsmautomig", &["/nowhere"]);
    run("dsmmigfs", &["update", fs_name, "-ht=95"]);
    run("dsmmigfs", &["update", fs_name, "-ht=1", "-lt=0"]);
    run("dsmmigfs", &["add", "/nowhere"]);
    run("dsmmigfs", &["add"]);
    run("dsmmigfs", &["stop"]);
    run("dsmmigfs", &["frobnicate"]);
    run("dsmmigfs", &["remove", "/nowhere"]);
    run("dsmmigfs", &["remove", fs_name]);
    run("dsmmigfs", &["query"]);
    crate::tsm_output::compare("space.txt", &text);
}

/// A recall as sites script it: the list is split by volume, four volumes are read at once, and the
/// content is compared with sums that were made before the migration.
const RECALL: &str = r#"
set -e
dsmrecall() { "$PROGRAMS/dsmrecall" "-optfile=$OPTIONS" "$@"; }
export -f dsmrecall
cd "$WORK"
dsmrecall -preview -json -filelist=all.list "$FS" > plan
python3 - <<'SPLIT'
import json
plan = json.load(open("plan"))
order = iter(plan["order"])
volumes = [volume for volume in plan["volumes"] if volume["files"]]
for number, volume in enumerate(volumes):
    with open(f"volume-{number}.list", "w") as part:
        part.writelines(f'"{next(order)}"\n' for _ in range(volume["files"]))
assert next(order, None) is None
SPLIT
ls volume-*.list | xargs -P 4 -I{} bash -c 'dsmrecall -d -filelist={} "$FS" > {}.log'
sha256sum --quiet -c sums
cat volume-*.list.log
"#;

#[test]
fn a_list_is_split_by_volume_and_recalled_four_at_once() {
    let Some((space, files)) = Space::on_volumes() else { return };
    let programs = Programs::of(&space);
    let work = space.scene.scratch.folder("work");
    let all: String = files.iter().map(|(path, _)| format!("{}\n", path.display())).collect();
    fs::write(work.join("all.list"), all).unwrap();
    for (index, (_, content)) in files.iter().enumerate() {
        fs::write(work.join(format!("original-{index}")), content).unwrap();
    }
    // The sums are those of the originals, under the names of the stubs.
    let sums = std::process::Command::new("sh")
        .args(["-c", "sha256sum original-* | sed 's/ original-/ /'"])
        .current_dir(&work)
        .output()
        .unwrap();
    let sums = String::from_utf8(sums.stdout).unwrap();
    let named: String = sums
        .lines()
        .map(|line| {
            let (sum, index) = line.split_once("  ").or(line.split_once(' ')).unwrap();
            let index: usize = index.trim().parse().unwrap();
            format!("{sum}  {}\n", files[index].0.display())
        })
        .collect();
    fs::write(work.join("sums"), named).unwrap();
    let done = std::process::Command::new("bash")
        .args(["-c", RECALL])
        .env("PROGRAMS", &programs.folder)
        .env("OPTIONS", &programs.options)
        .env("WORK", &work)
        .env("FS", space.fs())
        .env("HOLDFAST_HOME", &programs.home)
        .output()
        .unwrap();
    let (said, errors) =
        (String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
    assert!(done.status.success(), "{said}\n{errors}");
    assert!(files.iter().all(|(path, _)| said.contains(path.to_str().unwrap())), "{said}");
    let volumes = fs::read_dir(&work).unwrap().filter(|entry| {
        entry.as_ref().unwrap().file_name().to_string_lossy().ends_with(".list.log")
    });
    assert!(volumes.count() >= 2, "{said}");
    assert!(
        programs
            .states(&space.fs().join("run-0"))
            .iter()
            .all(|state| state.starts_with('p'))
    );
}
