//! The reference of commands and their options: the help of each command, as clap prints it.

use std::fmt::Write as _;
use std::path::Path;

use clap::{Command, CommandFactory as _};

use crate::arguments::Arguments;

const HEAD: &str = "\
# Options

The help of every command, as `holdfast COMMAND --help` prints it, without the options that
[every command](commands.md) has. This page is made from the code, and
`HOLDFAST_WRITE_REFERENCE=1 cargo test -p holdfast reference` writes it anew.
";

/// Width of the help in columns.
const WIDTH: usize = 100;

/// Calls `work` with each visible command below `command` that has no subcommands, and with its
/// full name.
fn each_leaf(command: &Command, name: &str, work: &mut impl FnMut(&Command, &str)) {
    let is_shown = |inner: &&Command| inner.get_name() != "help" && !inner.is_hide_set();
    let own = command.get_subcommands().filter(is_shown);
    let inner: Vec<&Command> = own.collect();
    if inner.is_empty() {
        work(command, name);
    }
    for command in inner {
        each_leaf(command, &format!("{name} {}", command.get_name()), work);
    }
}

fn program() -> Command {
    let mut program = Arguments::command().term_width(WIDTH);
    program.build();
    program
}

#[test]
fn the_reference_of_options_is_that_of_the_code() {
    let program = program();
    let mut text = HEAD.to_owned();
    each_leaf(&program, program.get_name(), &mut |command, name| {
        let own = command.clone().mut_args(|argument| {
            let is_everywhere = argument.is_global_set() || argument.get_id() == "help";
            argument.hide(is_everywhere)
        });
        let help = own.term_width(WIDTH).render_long_help().to_string();
        let help: Vec<&str> = help.trim_end().lines().map(str::trim_end).collect();
        write!(text, "\n## `{name}`\n\n```text\n{}\n```\n", help.join("\n"))
            .expect("writing to a string cannot fail");
    });
    super::compare("options.md", &text);
}

/// The table names a command by its last word, in a row with other commands of its group.
#[test]
fn the_table_of_commands_has_all_of_them() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(super::FOLDER).join("commands.md");
    let table = std::fs::read_to_string(path).expect("the page can be read");
    let rows: Vec<&str> = table.lines().filter(|line| line.starts_with("| `")).collect();
    let has = |words: &[&str]| {
        let Some((last, groups)) = words.split_last() else { return false };
        rows.iter().any(|row| {
            let cell = row.split('|').nth(1).unwrap_or_default();
            let names = |word: &str| cell.split([' ', '`', ',']).any(|named| named == word);
            names(last) && groups.iter().all(|group| names(group) || *group == "admin")
        })
    };
    let mut missing = Vec::new();
    each_leaf(&program(), "", &mut |_, name| {
        let words: Vec<&str> = name.split_whitespace().collect();
        if !has(&words) {
            missing.push(name.trim().to_owned());
        }
    });
    assert_eq!(missing, [""; 0]);
}
