//! The script with which fish completes command lines.
//!
//! The script of `clap_complete` has the options of two levels of commands. Those of a third level,
//! as in `holdfast admin node list`, are missing there. This script has a list of all commands, and
//! goes from word to word: a word that makes the name of a longer command leads to that command.
//! Other words are options, their values, and names of files. A value that is the name of a
//! command misleads it.

use clap::builder::StyledStr;
use clap::{Arg, Command};

const FUNCTIONS: &str = r#"
# Succeeds if the words of the line lead to this command, and to none of its own commands.
function __fish_holdfast_at
    set -l command
    set -l words (commandline -opc)
    set -e words[1]
    for word in $words
        set -l longer (string trim -- "$command $word")
        contains -- "$longer" $__fish_holdfast_commands
        and set command $longer
    end
    test "$command" = "$argv"
end
"#;

/// Returns the script for `definition`, the definition of the whole command line.
pub(super) fn script(definition: &Command) -> String {
    let mut root = definition.clone().disable_help_subcommand(true);
    root.build();
    let mut commands = Vec::new();
    let everywhere = root.get_arguments().filter(|argument| is_everywhere(argument));
    let mut lines: Vec<String> = everywhere.filter_map(|argument| line("", argument)).collect();
    add(&root, &root, "", &mut commands, &mut lines);
    let commands = commands.join(" ");
    format!("set -g __fish_holdfast_commands {commands}\n{FUNCTIONS}\n{}\n", lines.join("\n"))
}

/// Returns whether every command takes this argument of the program.
fn is_everywhere(argument: &Arg) -> bool {
    argument.is_global_set() || argument.get_id().as_str() == "help"
}

/// Adds the lines of `command`, whose name in `root` is `name`, and those of its own commands.
fn add(
    root: &Command,
    command: &Command,
    name: &str,
    commands: &mut Vec<String>,
    lines: &mut Vec<String>,
) {
    let condition = format!(" -n {}", quoted(format!("__fish_holdfast_at {name}").trim_end()));
    let is_new = |argument: &&Arg| {
        let same = |other: &Arg| other.get_id() == argument.get_id();
        !root.get_arguments().any(|other| is_everywhere(other) && same(other))
    };
    let own = command.get_arguments().filter(is_new);
    lines.extend(own.filter_map(|argument| line(&condition, argument)));
    for inner in command.get_subcommands().filter(|inner| !inner.is_hide_set()) {
        let about = description(inner.get_about());
        for word in inner.get_name_and_visible_aliases() {
            lines.push(format!("complete -c holdfast{condition} -f -a {word}{about}"));
            let longer = format!("{name} {word}").trim_start().to_owned();
            commands.push(quoted(&longer));
            add(root, inner, &longer, commands, lines);
        }
    }
}

/// Returns the line that completes an argument; `None` if names of files complete it, as they do
/// everywhere.
fn line(condition: &str, argument: &Arg) -> Option<String> {
    let values: Vec<String> = argument
        .get_possible_values()
        .iter()
        .filter(|value| !value.is_hide_set())
        .map(|value| value.get_name().to_owned())
        .collect();
    if argument.is_hide_set() || (argument.is_positional() && values.is_empty()) {
        return None;
    }
    let shorts = argument.get_short_and_visible_aliases().unwrap_or_default();
    let longs = argument.get_long_and_visible_aliases().unwrap_or_default();
    let mut words: Vec<String> = shorts.iter().map(|short| format!(" -s {short}")).collect();
    words.extend(longs.iter().map(|long| format!(" -l {long}")));
    words.push(description(argument.get_help()));
    if !argument.is_positional() && argument.get_action().takes_values() {
        words.push(" -r".to_owned());
    }
    if !values.is_empty() {
        words.push(format!(" -f -a {}", quoted(&values.join(" "))));
    }
    Some(format!("complete -c holdfast{condition}{}", words.concat()))
}

fn description(text: Option<&StyledStr>) -> String {
    text.map_or_else(String::new, |text| format!(" -d {}", quoted(&text.to_string())))
}

/// Returns a word of the script with this text, on one line.
fn quoted(text: &str) -> String {
    let text = text.replace('\\', "\\\\").replace('\'', "\\'").replace('\n', " ");
    format!("'{text}'")
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;
    use crate::arguments::Arguments;

    /// Asserts that a line for `command` begins its words with `first` and ends with `last`.
    #[track_caller]
    fn check(command: &str, first: &str, last: &str) {
        let script = script(&Arguments::command());
        let start = format!("complete -c holdfast -n '__fish_holdfast_at{command}' {first}");
        let is_it = |line: &str| line.starts_with(&start) && line.ends_with(last);
        assert!(script.lines().any(is_it), "no line begins with {start} and ends with {last}");
    }

    #[test]
    fn commands_of_each_level_have_their_options() {
        check("", "-s V -l version -d ", "'");
        check("", "-f -a backup -d ", "'");
        check(" backup", "-l inclexcl -d ", "' -r");
        check(" admin", "-f -a schedule -d ", "'");
        check(" admin schedule", "-f -a define -d ", "'");
        check(" admin schedule define", "-l action -d ", "' -r");
        check(" admin schedule define", "-l server -d ", "' -r");
        check(" admin node list", "-l agent -d ", "' -r -f -a 'connected polls away'");
        check(" completions", "-d 'The shell' -f -a 'bash elvish fish powershell zsh'", "");
    }

    #[test]
    fn options_of_every_command_are_there_once() {
        let script = script(&Arguments::command());
        for option in [" -l home -d ", " -s h -l help -d "] {
            assert_eq!(script.matches(option).count(), 1, "{option}");
        }
    }

    #[test]
    fn each_command_is_known_by_its_whole_name() {
        let script = script(&Arguments::command());
        let first = script.lines().next().expect("a script has lines");
        assert!(first.starts_with("set -g __fish_holdfast_commands '"), "{first}");
        for name in [" 'backup' ", " 'admin' ", " 'admin schedule' ", " 'admin schedule define' "] {
            assert!(first.contains(name), "{name} is missing");
        }
    }

    #[test]
    fn quotes_and_ends_of_lines_stay_in_the_word() {
        assert_eq!(quoted("the node's\nkey \\ 1"), "'the node\\'s key \\\\ 1'");
    }
}
