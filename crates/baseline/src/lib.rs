//! The baseline of a host: each part of a backup measured alone, and from that a prediction of what
//! whole backups will take.
//!
//! ```text
//!   host, processor, memory ---+
//!   client (network) ----------+--> Report --> pipeline (pure) --> predictions
//!   disk, walks, tree, sample -+       |
//!   creation                           +--> page (HTML with plots), text and JSON
//!
//!   kept Reports --> comparison (pure) --> Trend: the main figures over time
//!
//!   a real run --> history --> how far predictions were off --> the next prediction
//! ```
//!
//! 1. Nothing of the user is written: files of the measurement have no names, or lie in a folder of
//!    their own, and are gone at its end.
//! 2. Each part ends after its time, whatever it has found by then. A part that cannot be measured
//!    says why, and the others go on.
//! 3. The parts are measured with the code that backups use, not with code like it.
//! 4. A prediction names the stage that limits it. The stages overlap, so the slowest counts.
//!
//! Deliberately absent: the command line, and any text for people but remarks and the page.

mod comparison;
mod creation;
mod disk;
mod facts;
mod history;
mod host;
mod memory;
mod page;
mod pipeline;
mod plan;
mod plot;
mod prediction;
mod processor;
mod queue;
mod report;
mod run;
mod sample;
mod tree;
mod walks;

pub use comparison::{Change, Column, MARKED_PER_CENT, Note, Row, Trend, Unit, compare};
pub use creation::{Creation, FOLDER_PREFIX};
pub use disk::{DEPTHS, DiskRates, Latency, Percentiles, RandomReads, StreamRate, device_name};
pub use history::{Comparison, History, Outcome, OutcomeKind};
pub use host::{Host, Strain};
pub use page::html;
pub use plan::{Depth, Plan};
pub use plot::PlotError;
pub use prediction::{Advice, Prediction, Range, Stage, StageTime, Work};
pub use processor::{CompressionRate, ProcessorRates, Rate};
pub use report::{DOCUMENT_VERSION, Network, Place, Report};
pub use run::{RunError, Subject, Watch, run};
pub use sample::{Estimate, Reading, Sample};
pub use tree::{CHANGE_DAYS, Share, Survey};
pub use walks::{Walk, Warmth, Way};

use std::path::Path;

#[expect(clippy::cast_precision_loss, reason = "figures of measurements, shown with few digits")]
fn to_f64(count: u64) -> f64 {
    count as f64
}

/// Returns the length of a list of this crate.
#[expect(clippy::cast_possible_truncation, reason = "these lists have a few items")]
const fn small(length: usize) -> u32 {
    assert!(length < 1000, "the list is short");
    length as u32
}

/// Returns a rate; 0 if no time has passed.
fn per_sec(count: u64, secs: f64) -> f64 {
    if secs > 0.0 { to_f64(count) / secs } else { 0.0 }
}

/// Returns the type of the file system that holds `directory`, as the kernel calls it.
fn file_system(directory: &Path) -> Option<String> {
    let root = mount_point(directory)?;
    sys::mount::filesystem_type(&root).ok()?
}

/// Returns the mount point of the file system that holds `directory`.
fn mount_point(directory: &Path) -> Option<Vec<u8>> {
    use std::os::unix::ffi::OsStrExt as _;
    // The slash follows a symbolic link.
    let directory = [directory.as_os_str().as_bytes(), b"/"].concat();
    sys::mount::filespace_root(&directory).ok().map(|(root, _)| root)
}

fn open(directory: &Path) -> std::io::Result<sys::Dir> {
    use std::os::unix::ffi::OsStrExt as _;
    sys::Dir::open(directory.as_os_str().as_bytes())
}
