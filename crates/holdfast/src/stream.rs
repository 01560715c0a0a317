//! Sources of a stream to back up: standard input, or the output of a command.

use std::fs::File;
use std::io::{self, IsTerminal as _, Read};
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

use client::Stream;

use crate::error::CommandError;

/// Time that a read waits for bytes before it returns, so that a backup can be stopped.
const PATIENCE: Duration = Duration::from_millis(200);

/// Standard input of this process.
pub(crate) struct Input {
    file: File,
    /// True after bytes were read.
    has_begun: bool,
}

impl Input {
    pub(crate) fn open() -> Result<Self, CommandError> {
        let input = io::stdin();
        if input.is_terminal() {
            let message = "standard input is a terminal; pipe the data to back up into it, \
                           or give a --stdin-command";
            return Err(CommandError::new(message));
        }
        let unbuffered = input
            .as_fd()
            .try_clone_to_owned()
            .map_err(|error| CommandError::new(format!("cannot read standard input: {error}")))?;
        Ok(Self { file: unbuffered.into(), has_begun: false })
    }
}

impl Stream for Input {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = read(&mut self.file, buffer);
        self.has_begun |= read.is_ok();
        read
    }

    fn restart(&mut self) -> bool {
        !self.has_begun
    }

    fn finish(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn repeats(&self) -> bool {
        false
    }
}

/// Output of a shell command. The command starts at the first read, and starts again at the first
/// read after its end. Dropping the output kills a command that has not ended.
pub(crate) struct Output {
    command: String,
    running: Option<(Child, ChildStdout)>,
}

impl Output {
    pub(crate) fn of(command: String) -> Self {
        Self { command, running: None }
    }

    fn running(&mut self) -> io::Result<&mut (Child, ChildStdout)> {
        if self.running.is_none() {
            let mut child = Command::new("/bin/sh")
                .args(["-c", &self.command])
                .stdin(Stdio::null())
                .stdout(Stdio::piped())
                // The command gets a process group of its own, so that a kill reaches all its
                // processes.
                .process_group(0)
                .spawn()?;
            self.running = child.stdout.take().map(|output| (child, output));
        }
        self.running
            .as_mut()
            .ok_or_else(|| io::Error::other("the command has no output"))
    }
}

impl Stream for Output {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        read(&mut self.running()?.1, buffer)
    }

    fn restart(&mut self) -> bool {
        self.end();
        true
    }

    fn finish(&mut self) -> io::Result<()> {
        let ended = self.running().and_then(|(child, _)| child.wait());
        self.running = None;
        match ended {
            Ok(status) if status.success() => Ok(()),
            Ok(status) => {
                let message = format!("the command '{}' ended with {status}", self.command);
                Err(io::Error::other(message))
            }
            Err(error) => {
                let message = format!("cannot wait for the command '{}': {error}", self.command);
                Err(io::Error::other(message))
            }
        }
    }

    fn repeats(&self) -> bool {
        true
    }
}

impl Output {
    /// Ends the command.
    fn end(&mut self) {
        if let Some((mut child, _)) = self.running.take() {
            // The kill fails if the command has ended by itself; that is no fault.
            let _killed = sys::process::kill_group(child.id());
            let _status = child.wait();
        }
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        self.end();
    }
}

fn read(source: &mut (impl Read + AsFd), buffer: &mut [u8]) -> io::Result<usize> {
    if sys::pipe::is_readable(source, PATIENCE)? {
        source.read(buffer)
    } else {
        Err(io::ErrorKind::Interrupted.into())
    }
}
