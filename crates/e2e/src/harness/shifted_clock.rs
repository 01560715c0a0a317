//! A system clock that is wrong, for one process: a library that the loader puts before the C
//! library, made with the C compiler that links Rust programs. The uptime of the machine stays
//! right, as on a machine whose clock somebody sets.

use std::path::Path;
use std::process::Command;

/// `clock_gettime` with a wall clock that is ahead by the number of seconds in `CLOCK_AHEAD_SECS`.
const SOURCE: &str = r#"
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

int clock_gettime(clockid_t clock, struct timespec *time) {
    int failed = syscall(SYS_clock_gettime, clock, time);
    const char *ahead = getenv("CLOCK_AHEAD_SECS");
    if (!failed && clock == CLOCK_REALTIME && ahead)
        time->tv_sec += atol(ahead);
    return failed;
}
"#;

/// Returns variables for a process whose clock is ahead of the machine's by `days`. `folder` gets
/// the library.
#[track_caller]
pub fn clock_ahead(folder: &Path, days: i64) -> [String; 2] {
    let (source, library) = (folder.join("clock.c"), folder.join("clock.so"));
    if !library.is_file() {
        std::fs::write(&source, SOURCE).expect("the source is written");
        let mut compiler = Command::new("cc");
        compiler.args(["-shared", "-fPIC", "-o"]).arg(&library).arg(&source);
        let output = compiler.output().expect("the C compiler runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
    let library = library.to_str().expect("the path is text");
    [format!("LD_PRELOAD={library}"), format!("CLOCK_AHEAD_SECS={}", days * 86_400)]
}
