//! Actions on the command line.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};

use model::spelling;
use policy::schedule::{Action, Word, Work, option_name, takes_value};

use crate::error::CommandError;

/// Word by which a change removes all objects or all options.
const NONE: &str = "none";
/// Name of a backup, which is incremental, as the command is without options.
const BACKUP: &str = "backup";

/// Work of a schedule
#[derive(clap::Args, Debug, Default)]
#[command(next_help_heading = "Action")]
pub(super) struct ActionArgs {
    /// At nodes: incremental (or backup, which is the same), selective, full, archive, restore,
    /// verify, drill, image, command. At the server: expire, reclaim, audit, scrub, copy-catalog,
    /// drain, copy-pools, repair, reclaim-volumes, move-volumes, audit-volumes
    #[arg(long, value_name = "WORK", value_parser = parse_work)]
    action: Option<Work>,
    /// A path, also with wildcards, a device, a shell command, a pool, a volume, or the amount of a
    /// drill's sample; may be given several times. In an update, none removes all
    #[arg(long, value_name = "WORD")]
    object: Vec<OsString>,
    /// An option of the command at the node, as in --option=--exclude=*.o; may be given several
    /// times. In an update, none removes all
    #[arg(long, value_name = "OPTION", allow_hyphen_values = true)]
    option: Vec<String>,
}

/// Parses the name of work.
pub(in crate::commands::admin) fn parse_work(text: &str) -> Result<Work, String> {
    if text == BACKUP {
        return Ok(Work::Incremental);
    }
    Work::of_name(text).ok_or_else(|| {
        let names: Vec<&str> = Work::ALL.iter().map(|work| work.name()).collect();
        format!("give one of {} or {BACKUP}", names.join(", "))
    })
}

impl ActionArgs {
    pub(super) fn action(&self) -> Result<Action, CommandError> {
        let missing = || CommandError::new("say what is done, with --action WORK");
        Ok(Action {
            work: self.action.ok_or_else(missing)?,
            objects: self.object.iter().map(word).collect(),
            options: self.option.clone(),
        })
    }

    /// Changes what is named.
    pub(super) fn change(&self, action: &mut Action) -> Result<(), CommandError> {
        action.work = self.action.unwrap_or(action.work);
        match &self.object[..] {
            [] => {}
            [one] if one == NONE => action.objects.clear(),
            all => action.objects = all.iter().map(word).collect(),
        }
        match &self.option[..] {
            [] => {}
            [one] if one == NONE => action.options.clear(),
            all => action.options = all.to_vec(),
        }
        action.check().map_err(CommandError::new)
    }
}

fn word(text: &OsString) -> Word {
    Word(text.as_bytes().to_vec())
}

/// First words of the commands that nodes run.
const NODE_COMMANDS: [&str; 10] = [
    "backup",
    "incremental",
    "selective",
    "full",
    "archive",
    "restore",
    "verify",
    "drill",
    "image",
    "command",
];

/// Options of `admin run`, which no action has.
const RUN_OPTIONS: [&str; 6] =
    ["--detach", "--domain", "--duration-max", "--label", "--node", "--window"];

/// Parses the words of a command, such as `backup --full /home`, as an action.
pub(in crate::commands::admin) fn words_to_action(
    words: Vec<OsString>,
) -> Result<Action, CommandError> {
    let mut words = words.into_iter();
    let first = words.next().unwrap_or_default();
    let mut work = match first.to_str() {
        Some("backup" | "incremental") => Work::Incremental,
        Some("selective") => Work::Selective,
        Some("full") => Work::Full,
        Some("archive") => Work::Archive,
        Some("restore") => Work::Restore,
        Some("verify") => Work::Verify,
        Some("drill") => Work::Drill,
        Some("command") => Work::Command,
        Some("image") if words.next().is_some_and(|word| word == "backup") => Work::Image,
        _ => return Err(unknown_command(&first)),
    };
    let mut action = Action { work, objects: Vec::new(), options: Vec::new() };
    let mut has_options = work != Work::Command;
    while let Some(word) = words.next() {
        let bytes = word.into_vec();
        match str::from_utf8(&bytes) {
            Ok("--") if has_options => has_options = false,
            Ok("--full") if has_options && work == Work::Incremental => work = Work::Full,
            Ok("--selective") if has_options && work == Work::Incremental => {
                work = Work::Selective;
            }
            Ok(option) if has_options && option.starts_with('-') => {
                let value = if takes_value(work, option) { words.next() } else { None };
                let value = value.map(|value| text(value, option)).transpose()?;
                let option = match value {
                    Some(value) => format!("{option}={value}"),
                    None => option.to_owned(),
                };
                action.options.push(option);
            }
            _ => action.objects.push(Word(bytes)),
        }
    }
    action.work = work;
    match action.check() {
        Ok(()) => Ok(action),
        Err(reason) => Err(refusal(reason, &action)),
    }
}

/// Makes the error for an action that is refused, with the place of an option of `admin run` that
/// stands among those of the action.
fn refusal(reason: String, action: &Action) -> CommandError {
    let mut names = action.options.iter().map(|option| option_name(option));
    let refused = CommandError::new(reason);
    match names.find(|name| RUN_OPTIONS.contains(name)) {
        Some(name) => refused.with_hint(format!(
            "{name} comes before --, as --detach in 'holdfast admin run --detach web-01 -- backup \
             /etc'"
        )),
        None => refused,
    }
}

/// Makes the error for a word that is no command of nodes.
fn unknown_command(word: &OsStr) -> CommandError {
    let question = word.to_str().and_then(|word| match word {
        "image" => Some("did you mean 'image backup'?".to_owned()),
        _ => spelling::question(word, &NODE_COMMANDS),
    });
    CommandError::new(format!("'{}' is no command of nodes", model::escaped(word.as_bytes())))
        .with_hint(format!(
            "{}nodes run backup, selective, full, archive, restore, verify, drill SAMPLE, image \
             backup, and command TEXT",
            question.map_or_else(String::new, |question| question + " ")
        ))
}

/// Returns the value of an option as text.
fn text(value: OsString, option: &str) -> Result<String, CommandError> {
    value.into_string().map_err(|value| {
        CommandError::new(format!(
            "the value '{}' of {option} is not UTF-8",
            model::escaped(value.as_bytes())
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Action, CommandError> {
        words_to_action(text.split(' ').map(OsString::from).collect())
    }

    fn words(action: &Action) -> String {
        action.words()
    }

    #[test]
    fn an_unknown_command_of_nodes_is_named_with_the_nearest() {
        for (given, meant) in [
            ("bakup /etc", "did you mean 'backup'? nodes run backup, "),
            ("incr /etc", "did you mean 'incremental'? nodes run backup, "),
            ("image restore x", "did you mean 'image backup'? nodes run backup, "),
            ("mount /mnt", "nodes run backup, "),
            ("", "nodes run backup, "),
        ] {
            let error = parse(given).expect_err("is refused");
            let word = given.split(' ').next().unwrap_or_default();
            assert_eq!(error.message, format!("'{word}' is no command of nodes"));
            assert!(error.hint.expect("a hint").starts_with(meant), "{given}");
        }
    }

    #[test]
    fn options_of_the_order_come_before_the_command() {
        let hint = |text: &str| parse(text).expect_err("is refused").hint;
        let detached = hint("backup /etc --detach").expect("a hint");
        assert!(detached.starts_with("--detach comes before --"), "{detached}");
        assert_eq!(hint("backup /etc --no-such-option"), None);
    }

    #[test]
    fn a_backup_is_incremental() {
        assert_eq!(parse_work("backup"), Ok(Work::Incremental));
        assert_eq!(parse_work("full"), Ok(Work::Full));
        assert!(parse_work("back").is_err());
    }

    /// A schedule lost its nodes with its last object: it had to be removed and defined again.
    #[test]
    fn a_change_replaces_objects_and_options_or_removes_them() {
        let changed = |object: &[&str], option: &[&str]| {
            let object = object.iter().map(OsString::from).collect();
            let option = option.iter().map(|&text| text.to_owned()).collect();
            let args = ActionArgs { action: None, object, option };
            let mut action = parse("backup --no-journal /home /srv").expect("is an action");
            args.change(&mut action).map(|()| words(&action)).map_err(|error| error.message)
        };
        let ok = |text: &str| Ok(text.to_owned());
        assert_eq!(changed(&[], &[]), ok("incremental /home /srv --no-journal"));
        assert_eq!(changed(&["none"], &[]), ok("incremental --no-journal"));
        assert_eq!(changed(&["/etc"], &["none"]), ok("incremental /etc"));
        assert!(changed(&["none", "/etc"], &[]).is_err_and(|error| error.contains("begin with")));
        assert!(changed(&[""], &[]).is_err_and(|error| error.contains("is empty")));
    }

    #[test]
    fn the_words_of_a_command_become_an_action() {
        let full = parse("backup --full --exclude=*.o /home -- /--odd").expect("is an action");
        assert_eq!(words(&full), "full /home /--odd --exclude=*.o");
        for (given, action) in [
            ("incremental /home", "incremental /home"),
            ("backup /home", "incremental /home"),
            ("selective /home", "selective /home"),
            ("full", "full"),
        ] {
            assert_eq!(words(&parse(given).expect("is an action")), action);
        }
        assert_eq!(words(&parse("image backup /dev/sda").expect("an action")), "image /dev/sda");
        let drill = parse("drill 5% --seed=7").expect("an action");
        assert_eq!(words(&drill), "drill 5% --seed=7");
        let command = parse("command sync").expect("an action");
        assert_eq!((command.work, command.objects.len()), (Work::Command, 1));
        let restore = parse("restore --to /tmp --inactive /etc").expect("an action");
        assert_eq!(words(&restore), "restore /etc --to=/tmp --inactive");
        let same = parse("restore --to=/tmp --inactive /etc").expect("an action");
        assert_eq!(same, restore);
        for wrong in ["backup --bogus", "restore /etc --to", "backup --stdin-command=id"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
        for wrong in
            ["", "drill", "drill x", "mount /mnt", "image restore x", "archive", "command a b"]
        {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
