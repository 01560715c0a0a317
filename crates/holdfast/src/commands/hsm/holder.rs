//! The holder: a third process, which holds the kernel's questions and does nothing else. While
//! somebody holds them, who asks waits; so where keeper and worker are killed together nobody reads
//! zeros, and the holder becomes the keeper.
//!
//! Where a service manager holds the questions (`supervisor`) there is none.

use std::io::{self, PipeReader, PipeWriter, Read as _, Write as _};
use std::os::fd::{AsFd as _, AsRawFd as _, RawFd};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Child;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use sys::fanotify::{Asks, Group};

use super::run::{become_keeper, failed, inheriting, program};
use crate::commands::{Context, DONE};
use crate::error::CommandError;
use crate::output;

/// What the process is called. It is found by no name that the others go by: a kill by name, which
/// is how both of those die together, passes it by.
const NAME: &str = "stub-holder";
/// What it is told where the keeper ends as it should.
const DISMISSED: &[u8] = b"end";

/// What the holder is started with
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Example:
  it is started by 'holdfast hsm run'")]
pub(super) struct Args {
    #[arg(long)]
    group: RawFd,
    /// Open at its other end while keeper or worker live
    #[arg(long)]
    pipe: RawFd,
    #[arg(long)]
    opening_only: bool,
}

/// The holder, as keepers and workers know it: the pipe at whose other end it waits. It comes
/// forward once no process has that open.
pub(super) struct Holder {
    pipe: PipeWriter,
    /// Where this process has started it.
    child: Option<Child>,
}

impl Holder {
    /// Starts one that holds `group`.
    pub(super) fn start(home: &Path, group: &Group) -> io::Result<Self> {
        let (waits, pipe) = io::pipe()?;
        let [group_number, pipe_number] = [group.as_fd().as_raw_fd(), waits.as_raw_fd()];
        let mut command = program();
        command.arg0(NAME).args(["hsm", "hold"]).env("HOLDFAST_HOME", home);
        command.args(["--group", &group_number.to_string()]);
        command.args(["--pipe", &pipe_number.to_string()]);
        if group.asks() == Asks::Opening {
            command.arg("--opening-only");
        }
        // What is typed at the keeper's terminal does not concern it.
        command.process_group(0).current_dir("/").stdin(std::process::Stdio::null());
        let child = inheriting(&[group_number, pipe_number], || command.spawn())?;
        Ok(Self { pipe, child: Some(child) })
    }

    /// The one that a keeper has started of which this process is the worker.
    pub(super) fn inherited(number: RawFd) -> io::Result<Self> {
        Ok(Self { pipe: sys::process::inherited(number)?.into(), child: None })
    }

    /// Whether it has died.
    pub(super) fn is_gone(&mut self) -> bool {
        let mut polled = [PollFd::new(&self.pipe, PollFlags::empty())];
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        let is_gone = poll(&mut polled, Some(&now)).is_ok_and(|count| count > 0);
        if is_gone && let Some(child) = &mut self.child {
            drop(child.wait());
        }
        is_gone
    }

    pub(super) fn number(&self) -> RawFd {
        self.pipe.as_raw_fd()
    }

    /// Lets it end.
    pub(super) fn dismiss(mut self) {
        // It may have been killed.
        drop(self.pipe.write_all(DISMISSED));
    }
}

pub(super) fn hold(args: &Args, context: &Context) -> Result<u8, CommandError> {
    let home = context.home()?;
    let inherit = |number| sys::process::inherited(number).map_err(failed("cannot hold"));
    let asks = if args.opening_only { Asks::Opening } else { Asks::Ranges };
    let group = Group::inherited(inherit(args.group)?, asks);
    let mut pipe = PipeReader::from(inherit(args.pipe)?);
    // It takes next to nothing, and where memory is short the others may go.
    drop(std::fs::write("/proc/self/oom_score_adj", "-1000"));
    let mut told = Vec::new();
    if pipe.read_to_end(&mut told).is_ok() && told == DISMISSED {
        return Ok(DONE);
    }
    output::say("keeper and worker have died; taking their place");
    // The worker may have died while a file that was losing its content was not asked about.
    if let Err(error) = group.watch_all_again() {
        output::say(&format!("cannot have the kernel ask about all files: {error}"));
    }
    loop {
        let error = become_keeper(&home, asks, group.as_fd().as_raw_fd(), &[], None)
            .unwrap_or_else(|error| error);
        // To end would let everybody read stubs as zeros.
        output::say(&format!("cannot become the keeper: {error}; trying again"));
        sys::clock::sleep(super::guard::LOCK_PAUSE);
    }
}
