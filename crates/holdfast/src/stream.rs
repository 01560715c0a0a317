//! Where a stream to back up comes from: standard input, or what a command writes.

use std::fs::File;
use std::io::{self, IsTerminal as _, Read};
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

use client::Stream;

use crate::error::CommandError;

/// How long a read waits before it looks whether it is still wanted.
const PATIENCE: Duration = Duration::from_millis(200);

/// What is written to this process.
pub(crate) struct Input(File);

impl Input {
    pub(crate) fn open() -> Result<Self, CommandError> {
        let input = io::stdin();
        if input.is_terminal() {
            let message = "standard input is a terminal; pipe into it what is to be backed up, \
                           or name a --stdin-command";
            return Err(CommandError::new(message));
        }
        let unbuffered = input
            .as_fd()
            .try_clone_to_owned()
            .map_err(|error| CommandError::new(format!("cannot read standard input: {error}")))?;
        Ok(Self(unbuffered.into()))
    }
}

impl Stream for Input {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        read(&mut self.0, buffer)
    }

    fn finish(&mut self) -> Result<(), String> {
        Ok(())
    }

    fn repeats(&self) -> bool {
        false
    }
}

/// What a shell command writes. It starts with the first read, and again with the first behind the
/// end; dropped before its end it is killed.
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
                // Killed, it is killed with all that it has started.
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

    fn finish(&mut self) -> Result<(), String> {
        let ended = self.running().and_then(|(child, _)| child.wait());
        self.running = None;
        match ended {
            Ok(status) if status.success() => Ok(()),
            Ok(status) => Err(format!("the command '{}' ended with {status}", self.command)),
            Err(error) => Err(format!("cannot wait for the command '{}': {error}", self.command)),
        }
    }

    fn repeats(&self) -> bool {
        true
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        if let Some((child, _)) = &mut self.running {
            // It may have ended by itself: then there is nothing to kill, and nothing to say.
            let _killed = sys::process::kill_group(child.id());
            let _status = child.wait();
        }
    }
}

fn read(source: &mut (impl Read + AsFd), buffer: &mut [u8]) -> io::Result<usize> {
    if sys::pipe::is_readable(source, PATIENCE)? {
        source.read(buffer)
    } else {
        Err(io::ErrorKind::Interrupted.into())
    }
}
