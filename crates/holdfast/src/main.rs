//! The program `holdfast`: the command line, its reports, progress and exit codes.
//!
//! ```text
//!   arguments -> commands::<one file a command> -> client | server
//!                          |
//!                        report, table -> output -> standard output
//! ```
//!
//! 1. Only `output` writes to standard output and standard error.
//! 2. Only this crate reads the environment, the working directory and the terminal.
//! 3. Exit codes are TSM's: 0 all done, 4 some objects failed or were skipped, 8 done with
//!    warnings, 12 not done.
//!
//! Deliberately absent: what a backup or a server does.

mod address;
mod arguments;
mod around;
mod commands;
mod error;
mod home;
mod interrupt;
mod logging;
mod meter;
mod moment;
mod output;
mod path;
mod quantity;
mod report;
mod stream;
mod table;

use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    sys::process::use_small_pages();
    commands::main()
}
