//! The names by which the program stands in for commands of TSM.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;

use dsm::client::{Action, options_of};
use dsm::options::Entry;
use dsm::space::{self, SpaceCommand};

use super::errors::ended;
use super::session::Session;
use super::{
    access, deleting, expiring, images, previewing, prompt, queries, restoring, retrieving,
    scheduler, sending, space as space_commands,
};
use crate::context::Context;
use crate::error::{CommandError, DONE, NOT_DONE};
use crate::logging::{self, Level};
use crate::options::{Global, LogFormat};
use crate::output::{self, Format};

/// A command of TSM.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Face {
    /// The client.
    Dsmc,
    /// The client acceptor.
    Dsmcad,
    Space(SpaceCommand),
}

/// Finds the command with the name of a program, which may have a path before it.
pub(crate) fn by_name(program: &str) -> Option<Face> {
    match program.rsplit('/').next()? {
        "dsmc" => Some(Face::Dsmc),
        "dsmcad" => Some(Face::Dsmcad),
        name => space::find(name).map(Face::Space),
    }
}

/// Returns the names of all commands, each with what does the same.
pub(super) fn names() -> impl Iterator<Item = (&'static str, &'static str)> {
    let own = [
        ("dsmc", "holdfast backup, restore, list ..."),
        ("dsmcad", "holdfast agent run"),
        ("dsmadmc", "holdfast admin"),
    ];
    own.into_iter()
        .chain(space::COMMANDS.iter().map(|(name, _, does)| (*name, *does)))
}

/// Runs a command that the program was called by.
pub(super) fn run_alone(face: Face, words: Vec<OsString>) -> Result<u8, CommandError> {
    let _none = logging::start(Level::Command, LogFormat::Text, None)?;
    let global = Global {
        log_format: LogFormat::Text,
        traces: None,
        home: None,
        json: false,
        quiet: false,
        verbose: false,
        progress: false,
        priority: None,
    };
    let mut context = Context::new(global, Format::Text, "holdfast dsm".to_owned());
    let done = run(face, words, &mut context);
    let finished = context.output.finish();
    let code = done?;
    finished.map(|()| code)
}

/// Runs a command. Its errors are written in TSM's way.
pub(super) fn run(
    face: Face,
    words: Vec<OsString>,
    context: &mut Context,
) -> Result<u8, CommandError> {
    let bytes = |words: Vec<OsString>| -> Vec<Vec<u8>> {
        words.into_iter().map(OsString::into_vec).collect()
    };
    match face {
        Face::Dsmc => dsmc(&bytes(words), context),
        Face::Dsmcad => Ok(ended(scheduler::acceptor(&bytes(words), context))),
        Face::Space(command) => Ok(ended(space_commands::run(command, &bytes(words), context))),
    }
}

fn dsmc(words: &[Vec<u8>], context: &mut Context) -> Result<u8, CommandError> {
    if let [word] = words
        && matches!(&word[..], b"-?" | b"-help" | b"--help")
    {
        return Ok(command(&[], &[b"help".to_vec()], context));
    }
    let parsed = options_of(words);
    if let Ok((given, others)) = &parsed
        && others.is_empty()
    {
        return Ok(prompt::run(given, context));
    }
    // A script may give the whole command as one word.
    if let Ok((_, others)) = &parsed
        && let [whole] = &others[..]
        && whole.contains(&b' ')
        && let Ok(mut parts) = dsm::words::words(whole)
    {
        parts.extend(words.iter().filter(|word| *word != whole).cloned());
        return Ok(command(&[], &parts, context));
    }
    Ok(command(&[], words, context))
}

/// Runs one command of the client. `given` are the options with which the client was started.
pub(super) fn command(given: &[Entry], words: &[Vec<u8>], context: &mut Context) -> u8 {
    let parsed = dsm::client::parse(words);
    let command = match parsed {
        Ok(command) => command,
        Err(error) => {
            output::say(&format!("{} {error}", error.number()));
            return NOT_DONE;
        }
    };
    if command.action() == Action::Help {
        return prompt::help(&command, context);
    }
    let mut options = given.to_vec();
    options.extend(command.options.iter().cloned());
    let command = dsm::client::Command { options, ..command };
    // Each command of a prompt or a macro finds the folder of its node anew.
    let usual = context.global.home.clone();
    let code = match Session::begin(command, context) {
        Ok(mut session) => {
            let done = act(&mut session);
            session.end(done)
        }
        Err(error) => ended(Err(error)),
    };
    context.global.home = usual;
    code
}

fn act(session: &mut Session<'_>) -> Result<u8, CommandError> {
    match session.command.action() {
        Action::Incremental => sending::incremental(session),
        Action::Selective => sending::selective(session),
        Action::Archive => sending::archive(session),
        Action::Expire => expiring::expire(session),
        Action::Preview | Action::PreviewArchive => previewing::preview(session),
        Action::BackupImage => images::back_up(session),
        Action::Restore => restoring::restore(session),
        Action::RestoreImage => images::restore(session),
        Action::Retrieve => retrieving::retrieve(session),
        Action::SetAccess => access::set(session),
        Action::DeleteAccess => access::delete(session),
        Action::DeleteBackup => deleting::backup(session),
        Action::DeleteArchive => deleting::archive(session),
        Action::DeleteFilespace => deleting::filespace(session),
        Action::SetEvent => deleting::set_event(session),
        Action::SetPassword => super::joining::set_password(session),
        Action::Schedule => scheduler::schedule(session),
        Action::Macro => prompt::run_macro(session),
        Action::Loop => Ok(prompt::run(&session.command.options.clone(), session.context)),
        Action::Help | Action::Quit => Ok(DONE),
        Action::None => {
            let definition = session.command.definition;
            session.say(&format!("'{}': {}.", definition.name(), definition.fate));
            session.document(&prompt::fate_document(definition));
            Ok(DONE)
        }
        _ => queries::run(session),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_a_path_leads_to_its_command() {
        assert_eq!(by_name("/usr/bin/dsmc"), Some(Face::Dsmc));
        assert_eq!(by_name("dsmcad"), Some(Face::Dsmcad));
        assert_eq!(by_name("dsmls"), Some(Face::Space(SpaceCommand::Ls)));
        assert_eq!(by_name("/usr/bin/holdfast"), None);
        // The administrative command line is a command of the program itself.
        let others = names().filter(|(name, _)| *name != crate::DSMADMC);
        assert!(others.into_iter().all(|(name, _)| by_name(name).is_some()));
    }
}
