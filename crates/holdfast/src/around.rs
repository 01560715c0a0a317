//! The commands around a backup: the first makes an application's files consistent, and the second
//! lets the application continue.

use std::io;
use std::process::{Command, ExitStatus, Stdio};

use client::{BackupReport, Commands};

use crate::error::{CommandError, NOT_DONE};
use crate::output;

/// Environment variable in which the command after a backup finds the backup's exit code.
const EXIT_CODE: &str = "HOLDFAST_EXIT_CODE";

/// Reason why a shell command failed.
#[derive(Debug, thiserror::Error)]
enum ShellError {
    #[error("('{command}') ended with {status}")]
    Failed { command: String, status: ExitStatus },
    #[error("('{command}') could not be started")]
    Start { command: String, source: io::Error },
}

/// Runs `work` between the two commands. If the first command fails, neither `work` nor the second
/// command runs. Otherwise the second command always runs, even if `work` fails or is stopped
/// before it begins. A failure of the second command becomes a warning of the report.
pub(crate) fn run(
    commands: &Commands,
    is_stopped: impl Fn() -> bool,
    work: impl FnOnce() -> Result<BackupReport, CommandError>,
) -> Result<BackupReport, CommandError> {
    if let Some(pre) = &commands.pre {
        complete(pre, &mut shell(pre)).map_err(|error| {
            let error = model::chain(&error);
            let message = format!("the command before the backup {error}; nothing was backed up");
            CommandError::new(message)
        })?;
    }
    let mut done = if is_stopped() {
        Err(CommandError::new("stopped before the backup began"))
    } else {
        work()
    };
    let Some(post) = &commands.post else { return done };
    let code = done.as_ref().map_or(NOT_DONE, BackupReport::exit_code);
    if let Err(error) = complete(post, shell(post).env(EXIT_CODE, code.to_string())) {
        let warning = format!("the command after the backup {}", model::chain(&error));
        match &mut done {
            Ok(report) => report.warnings.push(warning),
            Err(_) => output::say(&format!("warning: {warning}")),
        }
    }
    done
}

/// Returns a shell that runs `command` without input and writes to standard error.
fn shell(command: &str) -> Command {
    let mut shell = Command::new("/bin/sh");
    shell.args(["-c", command]).stdin(Stdio::null()).stdout(output::of_command());
    shell
}

/// Runs `shell`, which executes `command`, and waits until it ends.
fn complete(command: &str, shell: &mut Command) -> Result<(), ShellError> {
    let command = command.to_owned();
    match shell.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(ShellError::Failed { command, status }),
        Err(source) => Err(ShellError::Start { command, source }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn commands(pre: &str, post: &str) -> Commands {
        Commands { pre: Some(pre.to_owned()), post: Some(post.to_owned()) }
    }

    fn report(failed: u64) -> BackupReport {
        BackupReport { failed, ..BackupReport::default() }
    }

    #[test]
    fn a_failed_command_before_stops_everything() {
        let folder = tempfile::tempdir().unwrap();
        let mark = folder.path().join("mark");
        let post = format!("touch {}", mark.display());
        let work = || unreachable!("the command before failed");
        let done = run(&commands("exit 3", &post), || false, work);
        assert!(done.unwrap_err().message.contains("('exit 3') ended with exit status: 3"));
        assert!(!mark.try_exists().unwrap());
    }

    #[test]
    fn the_command_after_a_backup_knows_its_exit_code() {
        let test = |code: u8| commands("true", &format!("test $HOLDFAST_EXIT_CODE = {code}"));
        let go_on = || false;
        assert_eq!(run(&test(4), go_on, || Ok(report(1))).unwrap().exit_code(), 4);
        let warned = run(&test(4), go_on, || Ok(report(0))).unwrap();
        assert_eq!((warned.exit_code(), warned.warnings.len()), (8, 1));
        let failed = run(&test(12), go_on, || Err(CommandError::new("no server")));
        assert_eq!(failed.unwrap_err().message, "no server");
    }

    #[test]
    fn a_backup_stopped_before_it_began_lets_the_application_go_on() {
        let folder = tempfile::tempdir().unwrap();
        let mark = folder.path().join("mark");
        let post = format!("test $HOLDFAST_EXIT_CODE = 12 && touch {}", mark.display());
        let work = || unreachable!("the backup was stopped");
        assert!(run(&commands("true", &post), || true, work).is_err());
        assert!(mark.try_exists().unwrap());
    }
}
