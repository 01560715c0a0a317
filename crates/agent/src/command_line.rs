//! Actions as command lines, within what the node allows.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;

use client::{AgentSettings, RightSources};
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

/// Rights of the server at this node.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Rights {
    pub(crate) settings: AgentSettings,
    pub(crate) sources: RightSources,
    /// Reason why the settings cannot be read now. What they would forbid is unknown, so nothing
    /// is allowed that needs a right.
    pub(crate) fault: Option<String>,
}

/// Reason why an action is not carried out.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub(crate) enum Refusal {
    #[error("this node does not allow the server to start this command ({0})")]
    Command(String),
    #[error("this node does not allow the server to start restores ({0})")]
    Restore(String),
    #[error("this node does not allow this command before or after its work ({0})")]
    Around(String),
    #[error(
        "this node starts no command and no restore while its settings cannot be read: {0}; \
         correct the file at the node"
    )]
    Unreadable(String),
    #[error("the option '{0}' is not allowed for this action")]
    Option(String),
    #[error("the work '{0}' is not done by nodes")]
    Place(&'static str),
}

impl Rights {
    /// Fails if nobody knows what the node forbids.
    fn check_known(&self) -> Result<(), Refusal> {
        self.fault.clone().map_or(Ok(()), |fault| Err(Refusal::Unreadable(fault)))
    }

    fn check_command(&self, command: &[u8]) -> Result<(), Refusal> {
        self.check_known()?;
        match self.settings.commands.allows(command) {
            true => Ok(()),
            false => Err(Refusal::Command(self.sources.commands.clone())),
        }
    }

    fn check_restore(&self) -> Result<(), Refusal> {
        self.check_known()?;
        match self.settings.restores {
            true => Ok(()),
            false => Err(Refusal::Restore(self.sources.restores.clone())),
        }
    }

    /// Fails if `command` may not run before or after other work.
    fn check_around(&self, command: &[u8]) -> Result<(), Refusal> {
        self.check_known()?;
        if !self.settings.commands_around {
            return Err(Refusal::Around(self.sources.commands_around.clone()));
        }
        match self.settings.commands.allows(command) {
            true => Ok(()),
            false => Err(Refusal::Around(self.sources.commands.clone())),
        }
    }
}

/// Returns the command line of an action.
pub(crate) fn of_action(action: &Action, rights: &Rights) -> Result<CommandLine, Refusal> {
    if action.work.place() != Place::Node {
        return Err(Refusal::Place(action.work.name()));
    }
    if action.work == Work::Command {
        let command = action.objects.first().map(|word| word.0.clone()).unwrap_or_default();
        rights.check_command(&command)?;
        return Ok(CommandLine::Shell(OsString::from_vec(command)));
    }
    // A drill writes nothing and sends nothing elsewhere, so it needs no right to restore.
    if action.work == Work::Restore {
        rights.check_restore()?;
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
            rights.check_around(command.as_bytes())?;
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
    if expands_wildcards(action) {
        arguments.push("--expand-wildcards".into());
    }
    arguments.push("--".into());
    arguments.extend(action.objects.iter().map(|word| OsString::from_vec(word.0.clone())));
    Ok(CommandLine::Own(arguments))
}

/// Returns true if the node has to find the objects that match: no shell expands the words of an
/// action, and restores understand patterns by themselves.
fn expands_wildcards(action: &Action) -> bool {
    let sends_paths =
        matches!(action.work, Work::Incremental | Work::Selective | Work::Full | Work::Archive);
    sends_paths && action.objects.iter().any(|object| client::has_wildcards(&object.0))
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
        let line = of_action(action, &Rights::default()).expect("is allowed");
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
    fn wildcards_of_what_is_sent_are_expanded_at_the_node() {
        let flag = "--expand-wildcards".to_owned();
        for work in [Work::Incremental, Work::Selective, Work::Full, Work::Archive] {
            let line = words(&action(work, &[b"/etc", b"/x/*.c"], &[]));
            assert_eq!(line.iter().filter(|word| **word == flag).count(), 1, "{line:?}");
            assert_eq!(line[line.len() - 4..], [flag.as_str(), "--", "/etc", "/x/*.c"]);
            assert!(!words(&action(work, &[b"/etc"], &[])).contains(&flag));
        }
        for work in [Work::Restore, Work::Verify, Work::Image] {
            assert!(!words(&action(work, &[b"/x/*.c"], &[])).contains(&flag));
        }
        let given = action(Work::Archive, &[b"/x"], &["--expand-wildcards"]);
        assert!(matches!(refusal(&given, &Rights::default()), Some(Refusal::Option(_))));
    }

    #[test]
    fn a_drill_names_its_sample_as_one_argument() {
        let drill = action(Work::Drill, &[b"2G"], &["--seed=7"]);
        let expected = ["holdfast", "--home=/h", "verify", "--drill", "--seed=7", "--sample=2G"];
        assert_eq!(words(&drill), expected);
        let option = action(Work::Drill, &[b"2G"], &["--data"]);
        let refusal = of_action(&option, &Rights::default()).err();
        assert_eq!(refusal, Some(Refusal::Option("--data".to_owned())));
    }

    fn rights(commands: CommandRight) -> Rights {
        let settings = AgentSettings { commands, ..AgentSettings::default() };
        Rights { settings, ..Rights::default() }
    }

    fn refusal(action: &Action, rights: &Rights) -> Option<Refusal> {
        of_action(action, rights).err()
    }

    #[test]
    fn what_the_node_forbids_is_refused() {
        let all = Rights::default();
        let mut none = rights(CommandRight::List(vec!["sync".to_owned()]));
        none.settings.restores = false;
        none.settings.commands_around = false;
        none.sources.restores = "agent-restores of option set web".to_owned();
        let reboot = action(Work::Command, &[b"reboot"], &[]);
        assert_eq!(refusal(&reboot, &all), None);
        let of_file = |key: &str| format!("{key} in client.toml");
        assert_eq!(refusal(&reboot, &none), Some(Refusal::Command(of_file("commands"))));
        assert_eq!(refusal(&action(Work::Command, &[b"sync"], &[]), &none), None);
        let restore = action(Work::Restore, &[b"/etc"], &[]);
        let by_set = Refusal::Restore("agent-restores of option set web".to_owned());
        assert_eq!(refusal(&restore, &none), Some(by_set));
        assert_eq!(refusal(&action(Work::Drill, &[b"5%"], &[]), &none), None);
        let around = action(Work::Incremental, &[b"/etc"], &["--pre-command=sync"]);
        assert_eq!(refusal(&around, &none), Some(Refusal::Around(of_file("commands_around"))));
        assert_eq!(refusal(&around, &all), None);
        let nothing = rights(CommandRight::Word(CommandWord::None));
        let by_commands = Some(Refusal::Around(of_file("commands")));
        assert_eq!(refusal(&around, &nothing), by_commands);
        for option in ["--stdin-command=id", "--home=/tmp", "--filelist=/etc/shadow", "-v", "x"] {
            let backup = action(Work::Incremental, &[], &[option]);
            assert_eq!(refusal(&backup, &all), Some(Refusal::Option(option.to_owned())));
        }
        let expire = action(Work::Expire, &[], &[]);
        assert_eq!(refusal(&expire, &all), Some(Refusal::Place("expire")));
        let listed = rights(CommandRight::List(vec!["sync".to_owned()]));
        assert_eq!(refusal(&around, &listed), None);
        let other = action(Work::Incremental, &[b"/etc"], &["--post-command=id"]);
        assert_eq!(refusal(&other, &listed), by_commands);
    }

    /// A mistake in the file left the server all rights that the node had given before.
    #[test]
    fn nothing_that_needs_a_right_starts_while_the_settings_cannot_be_read() {
        let rights = Rights { fault: Some("a fault".to_owned()), ..Rights::default() };
        let unreadable = Some(Refusal::Unreadable("a fault".to_owned()));
        for needs_right in [
            action(Work::Command, &[b"reboot"], &[]),
            action(Work::Restore, &[b"/etc"], &[]),
            action(Work::Incremental, &[b"/etc"], &["--pre-command=sync"]),
        ] {
            assert_eq!(refusal(&needs_right, &rights), unreadable, "{needs_right:?}");
        }
        for free in [
            action(Work::Incremental, &[b"/etc"], &["--exclude=*.o"]),
            action(Work::Drill, &[b"5%"], &[]),
        ] {
            assert_eq!(refusal(&free, &rights), None, "{free:?}");
        }
    }
}
