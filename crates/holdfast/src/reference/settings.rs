//! `settings.md`: the standing options of the client, and the options of one call.

use std::collections::BTreeMap;

use clap::CommandFactory as _;
use policy::settings::{SETTINGS, Sway, of_flag};

use super::compare;
use crate::arguments::Arguments;

const HEAD: &str = "\
# Settings of a node

Every standing option of the client. Each can stand in `client.toml`: at its place, or by its name
in the section `[options]`. What an option set of the server can do with it is in the column
*option set*; [the guide](../guide/settings.md) explains the order of the sources, and
`holdfast explain --option NAME` shows which one decides. This page is made from the code, and
`HOLDFAST_WRITE_REFERENCE=1 cargo test -p holdfast reference` writes it anew.

| option | place in `client.toml` | command line | for | default | option set | values | meaning |
|---|---|---|---|---|---|---|---|
";

const ARGUMENTS: &str = "
## Options of one call

These options of the client's commands are no settings: they say what one call works on or how it
shows it, or they confirm something that nobody should confirm for all time. Statements that include
and exclude files are in the node's list and in option sets; `holdfast hsm` keeps the settings of
each managed file system itself.

| command | options |
|---|---|
";

/// Commands whose options are those of the client.
const COMMANDS: [&str; 13] = [
    "archive",
    "backup",
    "delete",
    "diff",
    "expire",
    "find",
    "image backup",
    "image restore",
    "list",
    "preview",
    "restore",
    "retrieve",
    "verify",
];

#[test]
fn the_page_of_settings_is_current() {
    let rows: String = SETTINGS.iter().map(row).collect();
    let arguments: String = COMMANDS.iter().map(|command| arguments(command)).collect();
    compare("settings.md", &format!("{HEAD}{rows}{ARGUMENTS}{arguments}"));
}

fn row(setting: &policy::settings::Setting) -> String {
    let flag = setting.flag.map(|flag| format!("`--{flag}`")).unwrap_or_default();
    let sway = match setting.sway {
        Sway::Open => "sets it".to_owned(),
        Sway::Around => "sets it, if the node lets the server ask for commands".to_owned(),
        Sway::Tightening => "only takes the right away".to_owned(),
        Sway::Node(reason) => format!("no: {reason}"),
    };
    format!(
        "| `{}` | `{}` | {flag} | {} | {} | {sway} | {} | {} |\n",
        setting.name,
        setting.key,
        setting.commands,
        setting.default,
        setting.kind.expected(),
        setting.meaning,
    )
}

/// Lists the options of a command that are no settings.
fn arguments(name: &str) -> String {
    let whole = Arguments::command();
    let command = name.split(' ').fold(&whole, |command, part| {
        command.find_subcommand(part).expect("a command of the program")
    });
    let shown = command.get_arguments().filter(|argument| !argument.is_hide_set());
    let flags = shown.filter_map(clap::Arg::get_long);
    let of_call: BTreeMap<&str, ()> = flags
        .filter(|flag| of_flag(flag, name).is_none() && *flag != "help")
        .map(|flag| (flag, ()))
        .collect();
    let listed: Vec<String> = of_call.keys().map(|flag| format!("`--{flag}`")).collect();
    format!("| `{name}` | {} |\n", listed.join(", "))
}

/// Each option of the command line that a setting names exists, for one of its commands at least.
#[test]
fn options_of_settings_exist() {
    let whole = Arguments::command();
    let has = |name: &str, flag: &str| {
        let command =
            name.split(' ').try_fold(&whole, |command, part| command.find_subcommand(part));
        let mut all = command.into_iter().chain([&whole]).flat_map(clap::Command::get_arguments);
        all.any(|argument| argument.get_long() == Some(flag))
    };
    for setting in &SETTINGS {
        let Some(flag) = setting.flag else { continue };
        let mut commands = setting.commands.split(", ").chain(["backup"]);
        assert!(commands.any(|command| has(command, flag)), "--{flag} of {}", setting.name);
    }
}
