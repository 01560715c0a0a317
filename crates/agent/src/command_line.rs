//! Actions as command lines, within what the node allows.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;

use client::AgentSettings;
use policy::schedule::{Action, Place, Work, option_name};

/// Shell by which commands run.
pub(crate) const SHELL: &str = "/bin/sh";

/// A program to run, with its arguments.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum CommandLine {
    /// This program with these arguments.
    Own(Vec<OsString>),
    Shell(OsString),
}

/// Reason why an action is not carried out.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub(crate) enum Refusal {
    #[error("this node does not allow the server to start this command (commands in client.toml)")]
    Command,
    #[error("this node does not allow the server to start restores (restores in client.toml)")]
    Restore,
    #[error(
        "this node does not allow this command before or after its work (commands and \
         commands_around in client.toml)"
    )]
    Around,
    #[error("the option '{0}' is not allowed for this action")]
    Option(String),
    #[error("the work '{0}' is not done by nodes")]
    Place(&'static str),
}

/// Returns the command line of an action.
pub(crate) fn of_action(action: &Action, settings: &AgentSettings) -> Result<CommandLine, Refusal> {
    if action.work.place() != Place::Node {
        return Err(Refusal::Place(action.work.name()));
    }
    if action.work == Work::Command {
        let command = action.objects.first().map(|word| word.0.clone()).unwrap_or_default();
        return match settings.commands.allows(&command) {
            true => Ok(CommandLine::Shell(OsString::from_vec(command))),
            false => Err(Refusal::Command),
        };
    }
    // A drill writes nothing and sends nothing elsewhere, so it needs no right to restore.
    if action.work == Work::Restore && !settings.restores {
        return Err(Refusal::Restore);
    }
    let words: &[&str] = match action.work {
        Work::Selective => &["backup", "--selective"],
        Work::Full => &["backup", "--full"],
        Work::Archive => &["archive"],
        Work::Restore => &["restore"],
        Work::Verify => &["verify"],
        Work::Drill => &["verify", "--drill"],
        Work::Image => &["image", "backup"],
        _ => &["backup"],
    };
    let mut arguments: Vec<OsString> = words.iter().map(OsString::from).collect();
    for option in &action.options {
        let name = option_name(option);
        if action.work.runs_around(name) {
            let command = option.split_once('=').map_or("", |(_, command)| command);
            if !settings.commands_around || !settings.commands.allows(command.as_bytes()) {
                return Err(Refusal::Around);
            }
        } else if !action.work.takes(name) {
            return Err(Refusal::Option(option.clone()));
        }
        arguments.push(option.into());
    }
    if action.work == Work::Drill {
        let amount = action.objects.first().map(|word| word.0.clone()).unwrap_or_default();
        arguments.push(OsString::from_vec([&b"--sample="[..], &amount].concat()));
        return Ok(CommandLine::Own(arguments));
    }
    arguments.push("--".into());
    arguments.extend(action.objects.iter().map(|word| OsString::from_vec(word.0.clone())));
    Ok(CommandLine::Own(arguments))
}

impl CommandLine {
    /// Returns the program and its arguments. `own` is the path of this program, and `before` are
    /// the arguments that come before those of the action.
    pub(crate) fn program(self, own: OsString, before: Vec<OsString>) -> (OsString, Vec<OsString>) {
        match self {
            Self::Own(arguments) => (own, before.into_iter().chain(arguments).collect()),
            Self::Shell(command) => (SHELL.into(), vec!["-c".into(), command]),
        }
    }
}

#[cfg(test)]
mod tests {
    use client::{CommandRight, CommandWord};
    use policy::schedule::Word;

    use super::*;

    fn action(work: Work, objects: &[&[u8]], options: &[&str]) -> Action {
        Action {
            work,
            objects: objects.iter().map(|bytes| Word(bytes.to_vec())).collect(),
            options: options.iter().map(|option| (*option).to_owned()).collect(),
        }
    }

    fn words(action: &Action) -> Vec<String> {
        let line = of_action(action, &AgentSettings::default()).expect("is allowed");
        let (program, arguments) = line.program("holdfast".into(), vec!["--home=/h".into()]);
        let lossy = |word: OsString| word.to_string_lossy().into_owned();
        std::iter::once(program).chain(arguments).map(lossy).collect()
    }

    #[test]
    fn objects_are_never_taken_for_options() {
        let backup = action(Work::Incremental, &[b"/home", b"--full"], &["--exclude=*.o"]);
        let expected =
            ["holdfast", "--home=/h", "backup", "--exclude=*.o", "--", "/home", "--full"];
        assert_eq!(words(&backup), expected);
        let command = action(Work::Command, &[b"echo '$HOME' | cat"], &[]);
        assert_eq!(words(&command), ["/bin/sh", "-c", "echo '$HOME' | cat"]);
    }

    #[test]
    fn a_drill_names_its_sample_as_one_argument() {
        let drill = action(Work::Drill, &[b"2G"], &["--seed=7"]);
        let expected = ["holdfast", "--home=/h", "verify", "--drill", "--seed=7", "--sample=2G"];
        assert_eq!(words(&drill), expected);
        let option = action(Work::Drill, &[b"2G"], &["--data"]);
        let refusal = of_action(&option, &AgentSettings::default()).err();
        assert_eq!(refusal, Some(Refusal::Option("--data".to_owned())));
    }

    #[test]
    fn what_the_node_forbids_is_refused() {
        let all = AgentSettings::default();
        let none: AgentSettings = AgentSettings {
            commands: CommandRight::List(vec!["sync".to_owned()]),
            restores: false,
            commands_around: false,
            ..all
        };
        let refusal = |action: &Action, settings| of_action(action, settings).err();
        let reboot = action(Work::Command, &[b"reboot"], &[]);
        assert_eq!(refusal(&reboot, &all), None);
        assert_eq!(refusal(&reboot, &none), Some(Refusal::Command));
        assert_eq!(refusal(&action(Work::Command, &[b"sync"], &[]), &none), None);
        let restore = action(Work::Restore, &[b"/etc"], &[]);
        assert_eq!(refusal(&restore, &none), Some(Refusal::Restore));
        assert_eq!(refusal(&action(Work::Drill, &[b"5%"], &[]), &none), None);
        let around = action(Work::Incremental, &[b"/etc"], &["--pre-command=sync"]);
        assert_eq!(refusal(&around, &none), Some(Refusal::Around));
        assert_eq!(refusal(&around, &all), None);
        let word = CommandRight::Word(CommandWord::None);
        let nothing = AgentSettings { commands: word, ..AgentSettings::default() };
        assert_eq!(refusal(&around, &nothing), Some(Refusal::Around));
        for option in ["--stdin-command=id", "--home=/tmp", "--filelist=/etc/shadow", "-v", "x"] {
            let backup = action(Work::Incremental, &[], &[option]);
            assert_eq!(refusal(&backup, &all), Some(Refusal::Option(option.to_owned())));
        }
        let expire = action(Work::Expire, &[], &[]);
        assert_eq!(refusal(&expire, &all), Some(Refusal::Place("expire")));
        let sync = CommandRight::List(vec!["sync".to_owned()]);
        let listed = AgentSettings { commands: sync, ..AgentSettings::default() };
        assert_eq!(refusal(&around, &listed), None);
        let other = action(Work::Incremental, &[b"/etc"], &["--post-command=id"]);
        assert_eq!(refusal(&other, &listed), Some(Refusal::Around));
    }
}
