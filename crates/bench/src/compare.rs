//! `bench compare`: the differences between a restored tree and its source.
//!
//! The comparison is a process of its own. In the process of the bench, its memory would count in
//! the peaks of the commands that the bench starts later.

use std::path::{Path, PathBuf};

use e2e::manifest::{Manifest, diff};
use serde_json::json;

use crate::output;
use crate::trouble::{Context as _, Trouble};
use crate::workplace;

/// Compare two trees, object by object, with all attributes that a restore brings back
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// The original tree
    #[arg(value_name = "DIR")]
    tree: PathBuf,
    /// The restored tree
    #[arg(value_name = "RESTORED")]
    restored: PathBuf,
}

/// Maximum number of differences that are listed.
const LISTED_MAX: usize = 5;

pub(crate) fn run(args: &Args) -> Result<(), Trouble> {
    let (source, restored) = (workplace::resolve(&args.tree)?, workplace::resolve(&args.restored)?);
    let take =
        |top: &Path| Manifest::take(top).while_doing(|| format!("describe {}", top.display()));
    let (source, restored) = std::thread::scope(|threads| {
        let source = threads.spawn(|| take(&source));
        let restored = take(&restored);
        (source.join().map_err(|_| Trouble::new("the comparison panicked")), restored)
    });
    let lines = diff(&source??, &restored?);
    let listed = &lines[..lines.len().min(LISTED_MAX)];
    output::result(&json!({"differences": lines.len(), "first": listed}).to_string())
}
