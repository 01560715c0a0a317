//! The program `holdfast`: the command line, its reports, progress and exit codes.

mod address;
mod error;
mod moment;
mod path;
mod quantity;
mod report;
mod table;

fn main() {}
