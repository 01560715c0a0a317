//! Tests of the harness itself, with programs that every system has.

use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

use rustix::process::Signal;

use super::process::{Process, start};

fn shell(script: &str) -> Process {
    let arguments = ["-c", script].map(OsString::from);
    start(Path::new("/bin/sh"), &arguments, Path::new("/"), None)
}

#[test]
fn outcome_has_both_outputs_and_the_code() {
    let outcome = shell("echo '{\"failed\": 3}'; echo oops >&2; exit 4").wait().expect(&[4]);
    assert_eq!(outcome.count("failed"), 3);
    assert_eq!(outcome.messages(), ["oops"]);
    assert!(!outcome.was_killed());
}

#[test]
fn lines_come_while_the_process_runs() {
    let mut running = shell("echo one; echo two; exec sleep 60");
    let second = Duration::from_secs(10);
    assert_eq!(running.next_line(second).as_deref(), Some("one\n"));
    assert_eq!(running.next_line(second).as_deref(), Some("two\n"));
    assert!(!running.ends_within(Duration::from_millis(20)));
    running.signal(Signal::TERM);
    assert!(running.wait().was_killed());
}

#[test]
fn messages_come_while_the_process_runs_and_stay_in_its_outcome() {
    let mut running = shell("echo one >&2; echo two words >&2; exec sleep 60");
    running.wait_to_say("words");
    assert!(!running.ends_within(Duration::from_millis(20)));
    assert_eq!(running.kill9().messages(), ["one", "two words"]);
}

#[test]
#[should_panic(expected = "does not say \"three\"")]
fn process_that_ends_without_the_message_fails_the_test() {
    shell("echo one >&2").wait_to_say("three");
}

#[test]
fn killed_process_has_no_code() {
    let outcome = shell("echo begun; exec sleep 60").kill9();
    assert!(outcome.was_killed());
}

#[test]
#[should_panic(expected = "the program panicked")]
fn panic_of_the_program_fails_the_test() {
    shell("echo \"thread 'main' panicked at src/main.rs:1:1:\" >&2; exit 101").wait();
}

#[test]
#[should_panic(expected = "should be one of [0]")]
fn unexpected_code_fails_the_test_with_the_output() {
    shell("exit 12").wait().expect(&[0]);
}

#[test]
fn failures_have_their_bytes() {
    let report =
        r#"{"failures": [{"path": {"bytes": "YS//"}, "error": "e"}, {"path": "b", "error": "f"}]}"#;
    let outcome = shell(&format!("echo '{report}'")).wait();
    let expected = vec![(b"a/\xff".to_vec(), "e".to_owned()), (b"b".to_vec(), "f".to_owned())];
    assert_eq!(outcome.failures(), expected);
}
