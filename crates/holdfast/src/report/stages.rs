//! Stages of a backup, as a table, with a line for each compressor.

use client::{CompressorWork, Stages};

use crate::quantity;
use crate::table::{self, Align};

/// Returns the table and the lines.
pub(crate) fn stages_text(stages: &Stages, compressors: &[CompressorWork]) -> String {
    let columns =
        [("Stage", Align::Left), ("Busy, s", Align::Right), ("Waited for, s", Align::Right)];
    let rows = stages.named().map(|(name, time)| {
        let secs = [time.busy, time.waited_for].map(|time| time.as_secs_f64());
        let [busy, waited_for] = secs.map(quantity::hundredths);
        [name.to_owned(), busy, waited_for]
    });
    let lines: String = compressors.iter().map(compressor_line).collect();
    format!("{}{lines}", table::render(columns, &rows))
}

fn compressor_line(work: &CompressorWork) -> String {
    let [before, after] = [work.bytes_before, work.bytes_after].map(quantity::bytes_with_unit);
    let quanta = quantity::counted(work.quanta, "quantum");
    format!("Compressed by {}: {quanta}, {before} to {after}.\n", work.name.name())
}
