//! The report of a month about a domain: what was backed up, how it went, and what was restored.
//!
//! ```text
//!   catalogue --figures--> MonthlyReport --html, csv--> a person, a program, a mail
//! ```
//!
//! The occupancy of a node is what it has stored when the report is made, also in the report of a
//! past month. The other figures are those of the month, as long as its backups are known.

mod csv;
mod figures;
mod html;
pub(crate) mod letter;
mod report;

pub use figures::read;
pub use report::{Month, MonthError, MonthlyReport, NodeMonth};

impl MonthlyReport {
    /// Returns the report as a page that needs nothing else.
    pub fn html(&self) -> String {
        html::page(self)
    }

    /// Returns the report as a table with a line for each node.
    pub fn csv(&self) -> String {
        csv::table(self)
    }
}

#[cfg(test)]
mod tests;
