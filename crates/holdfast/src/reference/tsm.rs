//! The page of TSM's commands and options, from the tables of `dsm`.

use dsm::client::commands;
use dsm::options::{Definition, of_name};
use dsm::space::COMMANDS;

use super::compare;

const PAGE: &str = "tsm.md";

const HEAD: &str = "\
# Commands and options of TSM

This page is made from the tables of the program. The [guide](../guide/from-tsm.md) explains how a
node moves. *Carried out* means that Holdfast does what is asked, by the means that is named.
*Carried out in part* means that the rest of what is asked has no counterpart, which is named too.
*Needless* means that the line is accepted, and nothing needs to be done, for the reason that is
named. *Refused* means that ignoring the line would store, restore or protect something else than
it says: a command stops with exit code 12 until the line is changed. The capital letters of a name
are its shortest abbreviation. `holdfast dsm check` says the same of the option files of a site.
";

const ADMINISTRATION: &str =
    "holdfast admin; its [commands](../guide/from-tsm-administration.md) have a table of their own";

fn page() -> String {
    let mut page = HEAD.to_owned();
    page.push_str("\n## Commands of dsmc\n\n| command | fate | by or because |\n|---|---|---|\n");
    for command in commands() {
        let fate = command.fate;
        page.push_str(&row(&[&command.spelling, &fate.word(), &fate]));
    }
    page.push_str("\n## Other commands\n\n| command | by or because |\n|---|---|\n");
    page.push_str(&row(&[&"dsmcad", &"holdfast agent run"]));
    page.push_str(&row(&[&"dsmadmc", &ADMINISTRATION]));
    for (name, _, does) in COMMANDS {
        page.push_str(&row(&[&name, &does]));
    }
    for (theme, options) in of_name() {
        page.push_str(&["\n## Options: ", &theme.to_lowercase(), "\n\n"].concat());
        page.push_str("| option | place | fate | by or because |\n|---|---|---|---|\n");
        options.iter().for_each(|option| page.push_str(&rows(option)));
    }
    page
}

fn rows(option: &Definition) -> String {
    let place = option.homes.shown();
    let mut rows = row(&[&option.spelling, &place, &option.fate.word(), &option.fate]);
    for (value, fate) in option.values {
        let name = format!("{} {}", option.spelling, value.to_uppercase());
        rows.push_str(&row(&[&name, &place, &fate.word(), fate]));
    }
    rows
}

fn row(cells: &[&dyn std::fmt::Display]) -> String {
    let cells: Vec<String> = cells.iter().map(ToString::to_string).collect();
    format!("| {} |\n", cells.join(" | "))
}

#[test]
fn the_page_has_every_command_and_option() {
    compare(PAGE, &page());
}
