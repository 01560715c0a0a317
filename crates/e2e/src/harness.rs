//! Runs the real `holdfast`, and checks the outcome.
//!
//! 1. No process runs for ever: each wait has a limit, after which the process is killed and the
//!    test fails with all output of the process.
//! 2. No panic passes unseen: `panicked at` on the standard error of any process fails the test.
//! 3. Nothing outside the test's own folders is read or written: every client has a `--home`.

pub mod api;
mod browser;
mod ceph;
mod garage;
mod id_provider;
mod image;
mod keeper;
mod node;
mod port;
mod postgres;
mod process;
mod proxy;
mod ring;
mod scripts;
mod server;
mod shifted_clock;
mod stacks;
mod stores;
mod tls;
mod tmpfs;

use std::path::PathBuf;
use std::time::Duration;

pub use browser::{Browser, Play};
pub use ceph::{Ceph, VersionEntry};
pub use garage::Garage;
pub use id_provider::{IdProvider, Return};
pub use image::{Image, succeeds};
pub use keeper::{Keeper, certificate};
pub use node::{Node, enrol, start_enrolment, start_with_home};
pub use postgres::Cluster;
pub use process::{Outcome, Process, path_bytes, start};
pub use proxy::{Proxy, Weather};
pub use ring::Ring;
pub use server::Server;
pub use shifted_clock::clock_ahead;
pub use stores::{are_in_folders, is_in_folders};
pub use tls::Tls;
pub use tmpfs::Tmpfs;

/// Time limit of any command. Only a command that hangs takes so long, whatever runs beside it.
pub const COMMAND_MAX: Duration = Duration::from_secs(300);

/// Returns the path of the program under test.
pub fn binary() -> PathBuf {
    if let Some(path) = std::env::var_os("HOLDFAST_BIN") {
        return path.into();
    }
    let test = std::env::current_exe()
        .unwrap_or_else(|error| panic!("cannot find the path of this test: {error}"));
    // A test is target/PROFILE/deps/it-HASH, a bench target/PROFILE/bench.
    let beside = test.ancestors().skip(1).take(2).map(|folder| folder.join("holdfast"));
    let beside: Vec<PathBuf> = beside.collect();
    let path = beside.iter().find(|path| path.is_file()).or(beside.last());
    let path = path.cloned().unwrap_or_default();
    assert!(
        path.is_file(),
        "{path:?} does not exist: run `cargo build -p holdfast`, or set HOLDFAST_BIN to the program"
    );
    path
}

/// Returns true if the tests run as root. Otherwise tests that need root are left out.
pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

#[cfg(test)]
mod tests;
