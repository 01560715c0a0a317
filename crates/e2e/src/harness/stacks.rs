//! Stacks of the processes of a test that has waited too long: they show where a process hangs.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::Command;

/// Text in a stack frame before the name of a source file of this project.
const OWN: &str = " at crates/";

/// Returns a line for each thread of the test's processes that is in this project's code: the name
/// of the thread, and its frames, the innermost first. If this machine has no debugger, a line says
/// so.
pub(super) fn of_children() -> String {
    let mut text = String::new();
    for (pid, command) in children() {
        writeln!(text, "--- stacks of process {pid}: {command}")
            .expect("writing to a String cannot fail");
        let pid = pid.to_string();
        let debugger = Command::new("gdb")
            .args(["-p", &pid, "-batch", "-ex", "thread apply all bt 60"])
            .output();
        match debugger {
            Ok(output) => text += &own_frames(&String::from_utf8_lossy(&output.stdout)),
            Err(error) => writeln!(text, "gdb: {error}").expect("writing to a String cannot fail"),
        }
    }
    text
}

/// Lists the child processes of this process, with their commands.
fn children() -> Vec<(u32, String)> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let own = format!("PPid:\t{}\n", std::process::id());
    let is_own = |pid: &u32| {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status"));
        status.is_ok_and(|status| status.contains(&own))
    };
    let command = |pid: u32| {
        let words = std::fs::read(PathBuf::from(format!("/proc/{pid}/cmdline"))).ok()?;
        Some((pid, String::from_utf8_lossy(&words).replace('\0', " ")))
    };
    pids.filter(is_own).filter_map(command).collect()
}

/// Returns a line for each thread in gdb's answer that has a frame of this project.
fn own_frames(answer: &str) -> String {
    let mut text = String::new();
    for thread in answer.split("\nThread ").skip(1) {
        let name = thread.split('"').nth(1).unwrap_or("?");
        let own = thread.lines().filter_map(|line| Some(line.split_once(OWN)?.1));
        let frames: Vec<&str> = own.collect();
        if !frames.is_empty() {
            writeln!(text, "{name}: {}", frames.join(" < "))
                .expect("writing to a String cannot fail");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::process::Stdio;

    use super::*;

    #[test]
    fn frames_of_other_projects_are_left_out() {
        let answer = "[New LWP 2]\n\nThread 2 (LWP 2 \"bucket\"):\n#0  syscall () at ../s.S:38\n\
                      \nThread 1 (Thread 0x7f (LWP 1) \"store\"):\n#0  futex () at library/f.rs:1\n\
                      #1  sync () at crates/pool/src/sync.rs:9\n#2  commit () at \
                      crates/store/src/store.rs:70\n";
        assert_eq!(own_frames(answer), "store: pool/src/sync.rs:9 < store/src/store.rs:70\n");
    }

    /// The kernel may set the command of a process after `spawn` returns. So the test first waits
    /// for an answer of the process.
    #[test]
    fn own_processes_are_found() {
        let cat = Command::new("cat")
            .arg("-")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn();
        let mut cat = cat.unwrap();
        cat.stdin.as_mut().unwrap().write_all(b"?").unwrap();
        cat.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
        let found = children();
        cat.kill().unwrap();
        cat.wait().unwrap();
        let own = found.iter().find(|(pid, _)| *pid == cat.id()).expect("the process is running");
        assert_eq!(own.1, "cat - ");
    }
}
