//! Measures Holdfast: `bench SUBCOMMAND ...`, a module each.
//!
//! 1. The real program is measured, over TLS, client and server as processes of their own.
//! 2. What is compared takes turns in one run, so that a ratio says the same on a slow machine and
//!    on a busy one.
//! 3. Nothing is deleted before the last measurement: ext4 makes files several times slower for
//!    minutes after a tree has been deleted. Each round has new folders.
//! 4. Everything lies in one temporary folder, which goes when the bench ends, also when it fails
//!    or is interrupted.

mod arguments;
mod compare;
mod compression;
mod creation;
mod expiry;
mod file;
mod fleet;
mod link;
mod machine;
mod output;
mod page;
mod peers;
mod process;
mod random;
mod relay;
mod scale;
mod servers;
mod site;
mod space;
mod spent;
mod spread;
mod stores;
mod tape;
mod tree;
mod trouble;
mod tuning;
mod walk;
mod workplace;

use std::ffi::OsString;
use std::process::ExitCode;

use arguments::{Grammar, Line};
use trouble::Trouble;

/// Not done, as the exit code of `holdfast` itself says it.
const NOT_DONE: u8 = 12;

/// One thing to measure.
struct Subcommand {
    name: &'static str,
    usage: &'static str,
    grammar: Grammar,
    run: fn(&Line) -> Result<(), Trouble>,
}

const SUBCOMMANDS: &[Subcommand] = &[
    Subcommand { name: "tree", usage: tree::USAGE, grammar: tree::GRAMMAR, run: tree::run },
    Subcommand { name: "peers", usage: peers::USAGE, grammar: peers::GRAMMAR, run: peers::run },
    Subcommand { name: "file", usage: file::USAGE, grammar: file::GRAMMAR, run: file::run },
    Subcommand {
        name: "mix",
        usage: file::mix::USAGE,
        grammar: file::mix::GRAMMAR,
        run: file::mix::run,
    },
    Subcommand {
        name: "again",
        usage: file::again::USAGE,
        grammar: file::again::GRAMMAR,
        run: file::again::run,
    },
    Subcommand {
        name: "stages",
        usage: file::stages::USAGE,
        grammar: file::stages::GRAMMAR,
        run: file::stages::run,
    },
    Subcommand {
        name: "servers",
        usage: servers::USAGE,
        grammar: servers::GRAMMAR,
        run: servers::run,
    },
    Subcommand { name: "stores", usage: stores::USAGE, grammar: stores::GRAMMAR, run: stores::run },
    Subcommand {
        name: "creation",
        usage: creation::USAGE,
        grammar: creation::GRAMMAR,
        run: creation::run,
    },
    Subcommand {
        name: "compare",
        usage: compare::USAGE,
        grammar: compare::GRAMMAR,
        run: compare::run,
    },
    Subcommand { name: "scale", usage: scale::USAGE, grammar: scale::GRAMMAR, run: scale::run },
    Subcommand {
        name: "compression",
        usage: compression::USAGE,
        grammar: compression::GRAMMAR,
        run: compression::run,
    },
    Subcommand { name: "fleet", usage: fleet::USAGE, grammar: fleet::GRAMMAR, run: fleet::run },
    Subcommand { name: "link", usage: link::USAGE, grammar: link::GRAMMAR, run: link::run },
    Subcommand { name: "expiry", usage: expiry::USAGE, grammar: expiry::GRAMMAR, run: expiry::run },
    Subcommand { name: "space", usage: space::USAGE, grammar: space::GRAMMAR, run: space::run },
    Subcommand { name: "tape", usage: tape::USAGE, grammar: tape::GRAMMAR, run: tape::run },
    Subcommand { name: "tuning", usage: tuning::USAGE, grammar: tuning::GRAMMAR, run: tuning::run },
];

const HEAD: &str = "\
Measures Holdfast.

Usage: bench SUBCOMMAND ...
       bench DIR ...          the same as bench tree DIR ...

The program measured is the release build of holdfast beside this one, or the one that
HOLDFAST_BIN names. What is made lies in a folder in TMPDIR, which goes at the end.
";

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(trouble) => {
            output::trouble(&trouble);
            ExitCode::from(NOT_DONE)
        }
    }
}

fn run() -> Result<(), Trouble> {
    let mut words: Vec<OsString> = std::env::args_os().skip(1).collect();
    let Some(first) = words.first() else { return output::result(&help()) };
    if first == "-h" || first == "--help" {
        return output::result(&help());
    }
    let named = SUBCOMMANDS.iter().find(|subcommand| *first == *subcommand.name);
    if named.is_some() {
        words.remove(0);
    }
    let subcommand = named.unwrap_or(&SUBCOMMANDS[0]);
    let Some(line) = Line::parse(words, subcommand.grammar)? else {
        return output::result(subcommand.usage);
    };
    process::catch_signals()?;
    sys::process::raise_open_files();
    (subcommand.run)(&line)
}

fn help() -> String {
    let usages = SUBCOMMANDS.iter().map(|subcommand| subcommand.usage);
    std::iter::once(HEAD).chain(usages).collect::<Vec<_>>().join("\n")
}
