//! `bench prediction`: predictions of `holdfast baseline` beside what then came.
//!
//! ```text
//!   each condition:  new server and node, a tree in its place
//!                    baseline --quick
//!                    first backup --> nothing changed --> 1 % changed --> images --> restore
//! ```
//!
//! Images are made where the tree has a device of its own: the first one, and one after changes.
//! Each run is compared with the prediction for what it had to do. Nothing is corrected by earlier
//! runs: each condition has a new node.

mod conditions;
mod text;
mod trial;

use std::path::PathBuf;

use crate::arguments::{PageArgs, WorkArgs};
use crate::output;
use crate::page;
use crate::process::{self, Runner};
use crate::trouble::Trouble;
use crate::workplace::{self, Workplace};

use self::conditions::CONDITIONS;

/// Compare predictions of holdfast baseline with real backups, images and restores
///
/// The conditions: a tree in memory and on a disk, warm and cold, large files, a disk of its own
/// with images of it, a disk of 130 reads a second, links of 10 Mbit/s and 1 Gbit/s. Some of them
/// need root.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// The tree that is copied to the places; it is only read
    #[arg(value_name = "DIR")]
    tree: PathBuf,
    /// Only the conditions whose names have one of these words
    #[arg(long, value_name = "WORD", value_delimiter = ',')]
    only: Vec<String>,
    #[command(flatten)]
    page: PageArgs,
    #[command(flatten)]
    work: WorkArgs,
}

pub(crate) fn run(args: &Args) -> Result<(), Trouble> {
    let tree = workplace::resolve(&args.tree)?;
    let workplace = Workplace::below(&args.work.folder(), &tree)?;
    let runner = Runner::new(process::find_program()?, workplace.folder("outputs")?);
    let wanted = |name: &str| {
        args.only.is_empty() || args.only.iter().any(|word| name.contains(word.as_str()))
    };
    let mut results = Vec::new();
    for (number, condition) in CONDITIONS.iter().enumerate() {
        if !wanted(condition.name) {
            continue;
        }
        output::step(condition.name);
        let folder = workplace.folder(&format!("condition-{number}"))?;
        match trial::run(condition, &tree, &folder, &runner) {
            Ok(runs) => results.push((condition.name, runs)),
            Err(trouble) if process::check_interrupted().is_ok() => {
                output::warning(&format!("{} is left out: {trouble}", condition.name));
            }
            Err(trouble) => return Err(trouble),
        }
    }
    let text = text::page(&results);
    page::write(&args.page.out, "prediction.md", &text)?;
    let document = || text::document(&results).to_string();
    output::result(&if args.page.json { document() } else { text })
}
