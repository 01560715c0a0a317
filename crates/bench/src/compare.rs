//! `bench compare`: how a restored tree differs from its source.
//!
//! A process of its own, because what it keeps in memory would count in the peaks of the commands
//! that the bench starts after it.

use std::path::Path;

use e2e::manifest::{Manifest, diff};
use serde_json::json;

use crate::arguments::{Grammar, Line};
use crate::output;
use crate::trouble::{Trouble, While as _};
use crate::workplace;

pub(crate) const USAGE: &str = "\
bench compare DIR RESTORED
  Compares every object of two trees with all that a restore can bring back, and writes the number
  of differences and the first of them as a JSON document.
";

pub(crate) const GRAMMAR: Grammar = Grammar { flags: &[], options: &[] };

/// Differences that are told, not only counted.
const TOLD_MAX: usize = 5;

pub(crate) fn run(line: &Line) -> Result<(), Trouble> {
    let [source, restored] = line.paths(["tree", "restored tree"])?;
    let (source, restored) = (workplace::resolve(&source)?, workplace::resolve(&restored)?);
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
