//! The program `holdfast`: the command line, its reports, progress and exit codes.

mod address;
mod error;
mod home;
mod interrupt;
mod logging;
mod meter;
mod moment;
mod output;
mod path;
mod quantity;
mod report;
mod table;

fn main() {}
