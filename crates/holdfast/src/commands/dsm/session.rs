//! One command of `dsmc`: its option files, its node, its heading, and its messages.

use std::path::PathBuf;

use client::{Hello, VirtualFilespaces};
use dsm::client::{Action, Command, is_about_cache};
use dsm::forms::Forms;
use dsm::options::{Options, Place};
use serde::Serialize;

use super::clock;
use super::errors::numbered;
use super::files::{self, Places, Site};
use super::folders;
use super::import;
use super::logs::ErrorLog;
use crate::context::Context;
use crate::error::{CommandError, NOT_DONE};
use crate::output;
use crate::waiter::{LimitArgs, LinkArgs};

/// A command, and everything that it works with.
pub(super) struct Session<'c> {
    pub(super) context: &'c mut Context,
    pub(super) command: Command,
    pub(super) site: Site,
    /// Folder of the node.
    pub(super) home: PathBuf,
    pub(super) forms: Forms,
    pub(super) log: ErrorLog,
}

const MINUTE_SECS: u64 = 60;

impl<'c> Session<'c> {
    /// Reads the option files, and refuses the command if they have a line that would have to be
    /// ignored.
    pub(super) fn begin(command: Command, context: &'c mut Context) -> Result<Self, CommandError> {
        let places = Places::of_command(&command.options)?;
        let site = files::load(&places, &command.options)?;
        let forms = Forms::of(&site.options);
        let log = ErrorLog::open(&site.options, forms);
        let home = folders::folder(&site, context)?;
        context.global.home = Some(home.clone());
        if let Some(fault) = log.fault() {
            output::say(&fault);
        }
        let session = Self { context, command, site, home, forms, log };
        session.check()?;
        session.check_line()?;
        session.check_reader()?;
        Ok(session)
    }

    /// Refuses wrong lines and refused options of the files.
    fn check(&self) -> Result<(), CommandError> {
        let faults = self.site.faults.iter().map(ToString::to_string);
        let refused = self.site.options.refused().filter(|entry| self.command.refuses(entry));
        let refused = refused
            .map(|entry| format!("{}: {}: {}", entry.place, entry.definition.name(), entry.fate()));
        let all: Vec<String> = faults.chain(refused).collect();
        let Some((last, others)) = all.split_last() else { return Ok(()) };
        for line in others {
            self.complain(&format!("ANS1036S {line}"));
        }
        let error = CommandError::new(format!("ANS1036S {last}"));
        let of_line = Place::CommandLine.to_string();
        Err(match all.iter().all(|line| line.starts_with(&of_line)) {
            true => error,
            false => error.with_hint("'holdfast dsm check' shows all lines of the option files"),
        })
    }

    /// Refuses an option of the command line that has no effect there, unless what is stored does
    /// not depend on it.
    fn check_line(&self) -> Result<(), CommandError> {
        let hint = "write it into dsm.sys or dsm.opt, and run 'holdfast dsm import'";
        for option in self.command.ignored() {
            let name = option.definition.name();
            if !is_about_cache(option) {
                let message = format!("ANS1107E -{name}: a command line cannot carry it");
                return Err(CommandError::new(message).with_hint(hint));
            }
            output::say(&format!("-{name} has no effect on a command line; {hint}"));
        }
        Ok(())
    }

    /// Refuses the name of another node for a command that does not only read.
    fn check_reader(&self) -> Result<(), CommandError> {
        let only_reads = matches!(
            self.action(),
            Action::QueryBackup
                | Action::QueryArchive
                | Action::QueryFilespace
                | Action::Restore
                | Action::Retrieve
        );
        if self.command.has("FROMNODE") && !only_reads {
            let message = "ANS1107E -FROMNODE is for queries of files, restore and retrieve";
            return Err(CommandError::new(message));
        }
        Ok(())
    }

    pub(super) fn options(&self) -> &Options {
        &self.site.options
    }

    /// Options of a connection.
    pub(super) fn link(&self) -> LinkArgs {
        let minutes = self.options().number("COMMRESTARTDURATION");
        let wait = minutes.map(|minutes| std::time::Duration::from_secs(minutes * MINUTE_SECS));
        let reading = dsm::client::node_read(self.options());
        LinkArgs { wait, limits: LimitArgs::default(), reading }
    }

    /// Returns true if the documents of Holdfast's own commands are written.
    pub(super) fn is_json(&self) -> bool {
        self.command.has("JSON")
    }

    /// Returns true if objects are not told one by one.
    pub(super) fn is_quiet(&self) -> bool {
        self.options().has("QUIET") && !self.command.has("VERBOSE")
    }

    fn is_bare(&self) -> bool {
        self.is_json() || self.options().yes("DATAONLY").unwrap_or(false)
    }

    /// Writes a line of the result, or of the text around it. Nothing is between documents.
    pub(super) fn say(&mut self, line: &str) {
        if !self.is_json() {
            self.context.output.line(line);
        }
    }

    pub(super) fn say_all(&mut self, lines: impl IntoIterator<Item = String>) {
        lines.into_iter().for_each(|line| self.say(&line));
    }

    /// Writes a document with -json.
    pub(super) fn document(&mut self, document: &impl Serialize) {
        if self.is_json() {
            self.context.output.json(document);
        }
    }

    /// Writes a line for a person who is asked. Nothing of it is between documents.
    pub(super) fn show(&mut self, line: &str) {
        match self.is_json() {
            true => output::say(line),
            false => self.context.output.line(line),
        }
    }

    /// Writes a line that is no part of the result.
    pub(super) fn remark(&mut self, line: &str) {
        if !self.is_bare() {
            self.context.output.line(line);
        }
    }

    /// Writes a message about something that went wrong, and keeps it in the log of errors.
    pub(super) fn complain(&self, line: &str) {
        output::say(line);
        self.log.add(line);
    }

    /// Writes the heading of the program.
    pub(super) fn heading(&mut self) {
        let now = self.forms.stamp(clock::moment(sys::clock::now()));
        self.remark("Holdfast");
        self.remark("Command Line Backup-Archive Client Interface");
        self.remark(&format!("  Client Version {}", env!("CARGO_PKG_VERSION")));
        self.remark(&format!("  Client date/time: {now}"));
        self.remark("");
    }

    /// Writes the heading of the session, and what the option files have and client.toml lacks.
    pub(super) fn greet(&mut self, hello: &Hello, server: &str) {
        let now = self.forms.stamp(clock::moment(hello.now));
        self.remark(&format!("Node Name: {}", hello.node.to_uppercase()));
        self.remark(&format!("Session established with server {server}"));
        self.remark(&format!("  Server Version {}", hello.server_version));
        self.remark(&format!("  Server date/time: {now}"));
        self.remark("");
        self.tell_missing();
    }

    /// Returns the directories that are filespaces of their own, by the settings of the node.
    pub(super) fn virtual_filespaces(&self) -> Result<VirtualFilespaces, CommandError> {
        let standing = client::standing(&self.home, false)?;
        Ok(VirtualFilespaces::of(&standing)?)
    }

    /// Says which options of the files have no effect until they are imported.
    fn tell_missing(&self) {
        // A scheduler writes it by itself.
        if self.site.files.is_empty() || self.action() == Action::Schedule {
            return;
        }
        let missing = import::missing(&self.site, &self.home);
        if !missing.is_empty() {
            output::say(&format!(
                "{} of the option files: not yet in client.toml; run '{}'",
                missing.join(", "),
                self.import_command()
            ));
        }
    }

    /// Returns the command that imports the option files of this command.
    fn import_command(&self) -> String {
        let mut words = vec!["holdfast dsm import".to_owned()];
        if self.command.has("OPTFILE") {
            words.extend(self.site.files.iter().map(|file| file.display().to_string()));
        }
        if self.command.has("SERVERNAME") {
            words.extend(self.site.stanza.iter().map(|one| format!("--stanza {}", one.name)));
        }
        words.join(" ")
    }

    /// Ends the command. An error is written and kept in the log.
    pub(super) fn end(self, done: Result<u8, CommandError>) -> u8 {
        match done {
            Ok(code) => code,
            Err(error) => {
                self.complain(&numbered(&error));
                if let Some(hint) = error.hint {
                    output::say(&hint);
                }
                NOT_DONE
            }
        }
    }

    /// Returns true if the command descends into directories.
    pub(super) fn descends(&self) -> bool {
        self.command.descends(self.options())
    }

    pub(super) fn action(&self) -> Action {
        self.command.action()
    }
}
