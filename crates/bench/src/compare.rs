//! `bench compare`: how a restored tree differs from its source.
//!
//! The comparison is a process of its own, because its memory would count in the peaks of the
//! commands that the bench starts later.

use std::path::{Path, PathBuf};

use e2e::manifest::{Manifest, diff};
use serde_json::json;

use crate::output;
use crate::trouble::{Trouble, While as _};
use crate::workplace;

/// Compare every object of two trees with everything that a restore can bring back
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// The tree
    #[arg(value_name = "DIR")]
    tree: PathBuf,
    /// The restored tree
    #[arg(value_name = "RESTORED")]
    restored: PathBuf,
}

/// Maximum number of differences that are written out.
const TOLD_MAX: usize = 5;

pub(crate) fn run(args: &Args) -> Result<(), Trouble> {
    let (source, restored) = (workplace::resolve(&args.tree)?, workplace::resolve(&args.restored)?);
    let take =
        |top: &Path| Manifest::take(top).while_doing(|| format!("describe {}", top.display()));
    let (source, restored) = std::thread::scope(|threads| {
        let source = threads.spawn(|| take(&source));
        let restored = take(&restored);
        (source.join().map_err(|_| Trouble::new("the comparison broke off")), restored)
    });
    let lines = diff(&source??, &restored?);
    let told = &lines[..lines.len().min(TOLD_MAX)];
    output::result(&json!({"differences": lines.len(), "first": told}).to_string())
}
