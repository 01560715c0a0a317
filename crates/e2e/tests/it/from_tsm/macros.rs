//! Macros, lists and the prompt: commands of TSM that are read one after the other.

use std::fs;

use e2e::harness::start;

use super::Site;

#[test]
fn a_macro_runs_its_commands() {
    let site = Site::new(1);
    let script = site.scene.scratch.join("script");
    fs::write(&script, format!("* nightly\ni {} -\n -subdir=yes\nq fi\n", site.tree())).unwrap();
    let outcome = site.dsmc(&["macro", script.to_str().unwrap()]).expect(&[0]);
    assert!(outcome.stdout.contains("Successful incremental backup"), "{outcome}");
    assert!(outcome.stdout.contains("File Space Name"), "{outcome}");
    let macros: Vec<_> =
        (0..11).map(|depth| site.scene.scratch.join(&format!("m{depth}"))).collect();
    for both in macros.windows(2) {
        fs::write(&both[0], format!("macro {}\n", both[1].display())).unwrap();
    }
    fs::write(&macros[10], "q restore\n").unwrap();
    site.dsmc(&["macro", macros[1].to_str().unwrap()]).expect(&[0]);
    site.dsmc(&["macro", macros[0].to_str().unwrap()])
        .expect(&[12])
        .says("more than 10 deep");
}

/// The commands after `quit` ran, too.
#[test]
fn quit_ends_a_macro_and_those_around_it() {
    let site = Site::new(0);
    let (outer, inner) = (site.scene.scratch.join("outer"), site.scene.scratch.join("inner"));
    fs::write(&inner, "q restore\nquit\nfrobnicate\n").unwrap();
    fs::write(&outer, format!("macro {}\nfrobnicate\n", inner.display())).unwrap();
    let outcome = site.dsmc(&["macro", outer.to_str().unwrap()]).expect(&[0]);
    assert!(outcome.stdout.contains("No restore waits"), "{outcome}");
    assert!(outcome.stderr.contains("Highest exit code: 0"), "{outcome}");
}

#[test]
fn the_prompt_brings_commands_back_by_the_arrow_keys() {
    let site = Site::new(0);
    // The arrow brings the command before it.
    let answered = "Server Name.*tsm> ";
    let keys = [("tsm> ", "q session\r"), (answered, "\x1b[A\r"), (answered, "quit\r")];
    let Some(done) = site.dsmc_at_terminal(&[], &keys) else { return };
    let said = String::from_utf8_lossy(&done.stdout);
    assert!(done.status.success(), "{said}\n{}", String::from_utf8_lossy(&done.stderr));
    assert_eq!(said.matches("Server Name").count(), 2, "{said}");
    assert!(said.contains("tsm> "), "{said}");
}

#[test]
fn nonsense_in_macros_and_lists_is_told_by_clear_lines() {
    let site = Site::new(2);
    let file = site.scene.scratch.join("nonsense");
    let path = file.to_str().unwrap();
    let long = format!("q fi {}", "x".repeat(100_000));
    let lines = ["q ba \0", &long, "frobnicate", "q fi 'open", "q session"];
    fs::write(&file, lines.join("\n")).unwrap();
    let outcome = site.dsmc(&["macro", path]).expect(&[12]);
    let is_short = |line: &str| line.len() < 400 && !line.contains('\0');
    assert!(outcome.stderr.lines().all(is_short), "{}", outcome.stderr);
    for expected in [
        "line 1: the line has a NUL byte",
        "line 2: the line has 100005 bytes",
        "'frobnicate' is no command",
        "ANS1901I Highest exit code: 12",
    ] {
        assert!(outcome.stderr.contains(expected), "{expected}: {}", outcome.stderr);
    }
    assert!(outcome.stdout.contains("Server Name"), "the last command runs: {outcome}");

    let option = format!("-filelist={path}");
    for content in [&b"\xff\xfeq\0 \0f\0i\0\n\0"[..], b"\xfe\xff\0q\0 \0f\0i"] {
        fs::write(&file, content).unwrap();
        site.dsmc(&["macro", path]).expect(&[12]).says("UTF-16");
        site.dsmc(&["selective", &option]).expect(&[12]).says("UTF-16");
        site.dsmc(&["restore", &option]).expect(&[12]).says("UTF-16");
    }
    // A NUL in a line is no end of a name: nothing of such a list is archived and deleted.
    let files = [site.scene.file(0), site.scene.file(1)];
    let [first, second] = files.each_ref().map(|file| file.display().to_string());
    fs::write(&file, format!("{first}\0{second}\n")).unwrap();
    site.dsmc(&["archive", "-deletefiles", &option])
        .expect(&[12])
        .says("line 1 has a NUL byte");
    assert!(files.iter().all(|file| file.try_exists().unwrap()));
    fs::write(&file, long).unwrap();
    site.dsmc(&["selective", &option])
        .expect(&[12])
        .says("line 1 has 100005 bytes, and is no path");
    // The place of an option file may be no file at all.
    for place in ["/dev/zero", "/dev/null", "/", "/nowhere/dsm.opt"] {
        let option = format!("-optfile={place}");
        let programs = site.programs.join("dsmc");
        let words = [option.as_str(), "q", "fi"].map(std::ffi::OsString::from);
        let outcome = start(&programs, &words, site.scene.node.home(), None).wait();
        assert!(outcome.stderr.lines().all(is_short), "{place}: {outcome}");
    }
}
