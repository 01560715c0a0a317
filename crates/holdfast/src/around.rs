//! The commands around a backup: one that makes an application's files consistent before it, and
//! one that lets the application go on behind it.

use std::io;
use std::process::{Command, Stdio};

use client::Commands;

use crate::error::{CommandError, NOT_DONE, WARNED};
use crate::output;

/// What the command behind a backup finds its exit code in.
const EXIT_CODE: &str = "HOLDFAST_EXIT_CODE";

/// Runs `work` between the commands. If the one before fails, neither `work` nor the one behind
/// runs; the one behind runs whatever has come of `work`, and its failure is a warning.
pub(crate) fn run(
    commands: &Commands,
    work: impl FnOnce() -> Result<u8, CommandError>,
) -> Result<u8, CommandError> {
    if let Some(pre) = &commands.pre {
        ended(pre, &mut shell(pre)).map_err(|what| {
            let message = format!("the command before the backup {what}; nothing was backed up");
            CommandError::new(message)
        })?;
    }
    let done = work();
    let Some(post) = &commands.post else { return done };
    let code = *done.as_ref().unwrap_or(&NOT_DONE);
    match ended(post, shell(post).env(EXIT_CODE, code.to_string())) {
        Ok(()) => done,
        Err(what) => {
            output::say(&format!("warning: the command behind the backup {what}"));
            done.map(|code| code.max(WARNED))
        }
    }
}

/// A shell with `command`, which reads nothing and writes to standard error.
fn shell(command: &str) -> Command {
    let mut shell = Command::new("/bin/sh");
    shell.args(["-c", command]).stdin(Stdio::null()).stdout(io::stderr());
    shell
}

/// Runs `shell` to its end; else says what became of `command`.
fn ended(command: &str, shell: &mut Command) -> Result<(), String> {
    match shell.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("('{command}') ended with {status}")),
        Err(error) => Err(format!("('{command}') could not be started: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn commands(pre: &str, post: &str) -> Commands {
        Commands { pre: Some(pre.to_owned()), post: Some(post.to_owned()) }
    }

    #[test]
    fn a_failed_command_before_stops_everything() {
        let folder = tempfile::tempdir().unwrap();
        let mark = folder.path().join("mark");
        let post = format!("touch {}", mark.display());
        let done = run(&commands("exit 3", &post), || unreachable!("the command before failed"));
        assert!(done.unwrap_err().message.contains("('exit 3') ended with exit status: 3"));
        assert!(!mark.try_exists().unwrap());
    }

    #[test]
    fn the_command_behind_knows_what_has_come_of_it() {
        assert_eq!(run(&commands("true", "test $HOLDFAST_EXIT_CODE = 4"), || Ok(4)).unwrap(), 4);
        assert_eq!(run(&commands("true", "test $HOLDFAST_EXIT_CODE = 4"), || Ok(0)).unwrap(), 8);
        let failed = run(&commands("true", "test $HOLDFAST_EXIT_CODE = 12"), || {
            Err(CommandError::new("no server"))
        });
        assert_eq!(failed.unwrap_err().message, "no server");
    }
}
