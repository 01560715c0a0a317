//! Kept reports of one host over time: the main figures of each, and their changes. Pure.
//!
//! ```text
//!   kept documents (time, JSON) -> Report, or a note
//!   Reports -> Trend: a column a report, a row a figure
//! ```
//!
//! A document that this program does not know, or cannot read, costs only itself.

mod figures;

use std::collections::BTreeMap;

use model::ServerTime;
use serde::{Deserialize, Serialize};

use self::figures::{Figure, figures};
use crate::plan::Depth;
use crate::report::{DOCUMENT_VERSION, Report};

/// Least change that is marked, in per cent: less is within the usual noise of a busy host.
pub const MARKED_PER_CENT: f64 = 20.0;

/// The figures of kept reports over time.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Trend {
    /// The reports, oldest first.
    pub columns: Vec<Column>,
    /// The figures. Those of the host come first, then those of each place.
    pub rows: Vec<Row>,
    /// The documents that have no column.
    pub notes: Vec<Note>,
}

/// A report of the trend.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Column {
    /// Time when it was kept, in microseconds since 1970.
    pub made_micros: i64,
    pub program_version: String,
    pub depth: Depth,
    pub cold: bool,
}

/// A document without a column.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Note {
    /// Time when it was kept, in microseconds since 1970.
    pub made_micros: i64,
    /// End of a sentence about the document, such as "cannot be read".
    pub reason: String,
}

/// A figure in all reports.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Row {
    pub name: String,
    pub unit: Unit,
    /// Path of the place, as in [`crate::Place::path`]; `None` for a figure of the host.
    pub place: Option<String>,
    /// The figure in each column; `None` where it was not measured.
    pub values: Vec<Option<f64>>,
    /// The change in each column against the last column before it that has the figure.
    pub changes: Vec<Option<Change>>,
}

/// A change against an earlier report.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Change {
    /// Per cent of the earlier figure that were added.
    pub per_cent: f64,
    /// True if the change is more than [`MARKED_PER_CENT`], up or down.
    pub is_marked: bool,
}

/// Unit of a figure.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Unit {
    Bytes,
    BytesPerSec,
    Objects,
    ObjectsPerSec,
    ReadsPerSec,
    Seconds,
}

impl Unit {
    /// Returns the unit as people write it.
    pub fn title(self) -> &'static str {
        match self {
            Self::Bytes => "B",
            Self::BytesPerSec => "B/s",
            Self::Objects => "objects",
            Self::ObjectsPerSec => "objects/s",
            Self::ReadsPerSec => "reads/s",
            Self::Seconds => "s",
        }
    }
}

/// Compares kept documents, oldest first, each with the time when it was kept.
pub fn compare<'a>(kept: impl IntoIterator<Item = (ServerTime, &'a [u8])>) -> Trend {
    let mut trend = Trend::default();
    let mut all = Vec::new();
    for (made, document) in kept {
        match parse(document) {
            Ok(report) => {
                trend.columns.push(column(made, &report));
                all.push(figures(&report));
            }
            Err(error) => {
                trend.notes.push(Note { made_micros: made.0, reason: error.to_string() });
            }
        }
    }
    trend.rows = rows(&all);
    trend
}

/// Reason why a document has no column.
#[derive(Debug, thiserror::Error)]
enum DocumentError {
    #[error(
        "has version {0}, but this program knows versions up to {DOCUMENT_VERSION}; upgrade the \
         program to compare it"
    )]
    Later(u32),
    #[error("cannot be read: {0}")]
    Damaged(#[from] serde_json::Error),
}

/// The part of a document that every version has.
#[derive(Deserialize)]
struct Head {
    document_version: u32,
}

fn parse(document: &[u8]) -> Result<Report, DocumentError> {
    let Head { document_version } = serde_json::from_slice(document)?;
    if document_version > DOCUMENT_VERSION {
        return Err(DocumentError::Later(document_version));
    }
    Ok(serde_json::from_slice(document)?)
}

fn column(made: ServerTime, report: &Report) -> Column {
    Column {
        made_micros: made.0,
        program_version: report.program_version.clone(),
        depth: report.depth,
        cold: report.cold,
    }
}

/// Puts the figures of all reports into rows, in the order of the newest report that has them.
fn rows(all: &[Vec<Figure>]) -> Vec<Row> {
    let mut rows: Vec<Row> = Vec::new();
    let mut known = BTreeMap::new();
    for (column, figures) in all.iter().enumerate().rev() {
        for figure in figures {
            let index = *known.entry(figure.key()).or_insert_with(|| {
                rows.push(Row::new(figure, all.len()));
                rows.len() - 1
            });
            rows[index].values[column] = figure.value;
        }
    }
    rows.retain(|row| row.values.iter().any(Option::is_some));
    // A stable sort: figures of the host, then those of each place, each in their order.
    rows.sort_by(|one, other| one.place.cmp(&other.place));
    for row in &mut rows {
        row.changes = changes(&row.values);
    }
    rows
}

impl Row {
    /// Makes the row of `figure`, without values.
    fn new(figure: &Figure, columns: usize) -> Self {
        Self {
            name: figure.name.to_owned(),
            unit: figure.unit,
            place: figure.place.clone(),
            values: vec![None; columns],
            changes: Vec::new(),
        }
    }
}

/// Returns the change of each value against the last one before it.
fn changes(values: &[Option<f64>]) -> Vec<Option<Change>> {
    let mut before = None;
    let change = |value: &Option<f64>| {
        let change = before.zip(*value).and_then(|(before, after)| change(before, after));
        before = value.or(before);
        change
    };
    values.iter().map(change).collect()
}

fn change(before: f64, after: f64) -> Option<Change> {
    let per_cent = 100.0 * (after / before - 1.0);
    let is_marked = per_cent.abs() > MARKED_PER_CENT;
    per_cent.is_finite().then_some(Change { per_cent, is_marked })
}

#[cfg(test)]
pub(crate) mod tests;
