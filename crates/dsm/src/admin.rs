//! TSM's administrative command line, `dsmadmc`.
//!
//! ```text
//!   words of dsmadmc -> invocation -> lines -> grammar -> statements
//!                                                            |
//!                                command (the one table) <---+
//!                                   |
//!        +--------------------------+----------------------+
//!        v                          v                      v
//!   report over views          select: dialect        line of 'holdfast admin'
//!        |                          |                 and a message
//!        v                          v
//!   table (table, list, tab, comma) <- database (in memory)
//! ```
//!
//! 1. A view is a table with TSM's name and columns. The program fills views from the server's
//!    administration interface; reports and SELECT read nothing else.
//! 2. A fact that the server does not report is a missing value. It is never invented.
//! 3. Each parameter of each command is in the table of `command`: it is carried out, accepted with
//!    the reason why nothing needs to be done, or refused with the reason.
//! 4. Messages have TSM's numbers, because scripts look for them, and words of their own.
//!
//! Deliberately absent: I/O. The database is in memory and reads only what it is given.

pub mod abbreviation;
pub mod calendar;
pub mod command;
pub mod database;
pub mod dialect;
pub mod grammar;
pub mod invocation;
pub mod message;
#[cfg(test)]
mod reference;
pub mod report;
pub mod table;
pub mod view;
