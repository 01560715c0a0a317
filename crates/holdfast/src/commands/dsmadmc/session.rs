//! A session of `dsmadmc`: one command, a prompt, or commands from standard input, and macros.

use std::io::{BufRead as _, Read as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use client::admin::Admin;
use dsm::admin::command::{self, Plan, Program, QueryPlan, Request};
use dsm::admin::grammar::{self, LineReader, Redirection};
use dsm::admin::invocation::Invocation;
use dsm::admin::message::{Message, ReturnCode};
use dsm::admin::table::{self, Form, Layout, Listing};
use dsm::admin::view::{Records, Table, Value};
use dsm::admin::{database, dialect, report, view};
use jiff::civil::DateTime;

use super::destination::Destination;
use super::link::{LineRunner, Link};
use super::refusal::{Refusal, refusal_code, sentence};
use super::{orders, views};
use crate::commands::admin;
use crate::context::Context;
use crate::error::CommandError;
use crate::typed::TypedLines;
use crate::{moment, output, servers};

/// Maximum depth of macros that run macros.
const MACRO_DEPTH_MAX: usize = 16;
/// Maximum number of bytes that are read of a macro: one more than it may have.
const MACRO_READ_MAX: u64 = dsm::options::FILE_BYTES_MAX as u64 + 1;
/// Maximum time of a SELECT.
const SELECT_MAX: Duration = Duration::from_secs(60);
/// Pause between two looks at the activity log.
const CONSOLE_PAUSE: Duration = Duration::from_secs(2);
/// Variable with the number of columns of the terminal.
const COLUMNS: &str = "COLUMNS";

/// A session with a server.
pub(super) struct Session<'a> {
    invocation: Invocation,
    link: Link,
    context: &'a mut Context,
    destination: Destination,
    /// Number of macros that are running.
    depth: usize,
    highest: u8,
    is_over: bool,
}

impl Session<'_> {
    /// Runs the session, and returns its highest return code.
    pub(super) fn run(
        invocation: Invocation,
        context: &mut Context,
        runner: LineRunner,
    ) -> Result<u8, CommandError> {
        let connected = connect(invocation.server.as_deref());
        let (admin, folder) = match connected {
            Ok(connected) => connected,
            Err(error) => {
                let text = format!("ANS8023E No session with the server: {}", sentence(&error));
                match invocation.json {
                    true => output::say(&text),
                    false => context.output.line(&text),
                }
                return Ok(refusal_code(error.kind).number());
            }
        };
        let destination = match &invocation.outfile {
            Some(file) => Destination::open(&Redirection { file: file.clone(), appends: false }),
            None => Ok(Destination::Terminal),
        };
        let (destination, unopened) = match destination {
            Ok(destination) => (destination, None),
            Err(message) => (Destination::Terminal, Some(message)),
        };
        let mut session = Session {
            invocation,
            link: Link { admin, folder, runner },
            context,
            destination,
            depth: 0,
            highest: 0,
            is_over: false,
        };
        match unopened {
            Some(message) => session.refuse(&message),
            None => session.commands(),
        }
        Ok(session.highest)
    }

    fn commands(&mut self) {
        let command = self.invocation.command.clone();
        if !self.invocation.data_only {
            self.greet();
        }
        if self.invocation.console {
            self.console();
        } else if command.is_empty() {
            self.prompt();
        } else {
            let mut reader = LineReader::default();
            let mut lines: Vec<String> =
                command.lines().filter_map(|line| reader.take(line)).collect();
            lines.extend(reader.finish());
            for line in lines {
                self.one(&line);
            }
        }
        if !self.invocation.data_only {
            let text = format!("ANS8002I Highest return code was {}.", self.highest);
            self.write(&format!("\n{text}"));
        }
    }

    fn greet(&mut self) {
        let now = moment::shown(sys::clock::now());
        let name = self.server_name();
        let version = env!("CARGO_PKG_VERSION");
        let user = self.invocation.id.as_ref().map_or_else(String::new, |id| {
            format!("The user of this machine signs in, and not {}.\n", model::printable(id))
        });
        let text = format!(
            "Holdfast\nCommand Line Administrative Interface - Version {version}\n\nSession \
             established with server {name}: {}\n{user}Server date/time: {now}\n\n",
            std::env::consts::OS
        );
        self.write(&text);
    }

    /// Returns the name of the server, as the prompt shows it.
    fn server_name(&mut self) -> String {
        let servers = self.link.admin.servers().unwrap_or_default();
        let own = servers.into_iter().find(|server| server.is_this);
        own.map_or_else(|| "HOLDFAST".to_owned(), |server| views::name_of(&server.address))
    }

    /// Reads commands from standard input to its end.
    fn prompt(&mut self) {
        let name = self.server_name();
        let end = if self.invocation.newline_after_prompt { "\n" } else { " " };
        let prompt = format!("tsm: {name}>{end}");
        let (mut lines, mut reader) = (TypedLines::open(), LineReader::default());
        while !self.is_over {
            self.context.output.flush();
            let Some(line) = lines.next(&prompt) else { break };
            lines.keep(&line);
            if let Some(command) = reader.take(&line) {
                self.one(&command);
            }
        }
        if let Some(command) = reader.finish() {
            self.one(&command);
        }
    }

    /// Shows the activity log as it grows, until the process is ended.
    fn console(&mut self) {
        let mut shown = usize::MAX;
        loop {
            let mut log = match views::fetch(
                &view::ACTLOG,
                &views::Bounds::repeated(),
                "CONSOLEMODE",
                &mut self.link,
            ) {
                Ok(log) => log,
                Err(error) => return self.refuse(&error),
            };
            let length = log.rows.len();
            let table = Table { view: log.view, rows: log.rows.split_off(shown.min(length)) };
            shown = length;
            self.log_rows(&table);
            self.context.output.flush();
            if !self.context.output.is_open() {
                return;
            }
            sys::clock::sleep(CONSOLE_PAUSE);
        }
    }

    /// Shows rows of the activity log.
    fn log_rows(&mut self, table: &Table) {
        if self.invocation.json {
            self.records(&report::ACTLOG.records(table, false));
            return;
        }
        let message = view::ACTLOG.index("MESSAGE");
        let shown = |row: &Vec<Value>| model::printable(&report::plain(&row[message])).into_owned();
        let lines: Vec<String> = table.rows.iter().map(shown).collect();
        if !lines.is_empty() {
            self.write(&lines.join("\n"));
        }
    }

    /// Runs one command, and notes its return code. After `quit` no command runs.
    fn one(&mut self, text: &str) {
        if self.is_over {
            return;
        }
        if !self.invocation.data_only && self.depth == 0 {
            let shown = model::printable(text).into_owned();
            self.write(&format!("ANS8000I Server command: '{shown}'.\n\n"));
        }
        if let Err(message) = self.command(text) {
            self.refuse(&message);
        }
    }

    fn refuse(&mut self, message: &Message) {
        let code = message.code.number();
        let text = format!("{message}\nANS8001I Return code {code}.");
        self.highest = self.highest.max(code);
        if self.invocation.json {
            output::say_lines(&text);
            return;
        }
        // The message of a file that cannot be written goes to standard output.
        if self.destination.write(&text, &mut self.context.output).is_err() {
            self.context.output.text(&text);
        }
    }

    fn command(&mut self, text: &str) -> Result<(), Refusal> {
        grammar::check_length(text)?;
        grammar::check_text(text)?;
        let text = grammar::without_end(text);
        if is_select(text) {
            return self.select(text);
        }
        let statement = grammar::parse(text)?;
        if statement.words.is_empty() {
            return Ok(());
        }
        let (found, words) = command::find(&statement)?;
        let now = now();
        let mut request = command::read(found, words, now)?;
        request.resolve(|noun| views::names(noun, &found.name(), &mut self.link))?;
        let plan = command::plan(&request)?;
        for note in request.notes() {
            self.note(note);
        }
        if !found.question.is_empty() && !self.confirms(found.question) {
            let text = format!("{}: The command is not carried out.", found.name());
            return Err(Message::refusal("ANR2212I", ReturnCode::Failure, text));
        }
        self.redirected(statement.redirection.as_ref(), |session| {
            session.carry_out(plan, &request)?;
            request.left_out().cloned().map_or(Ok(()), Err)
        })
    }

    fn carry_out(&mut self, plan: Plan, request: &Request) -> Result<(), Refusal> {
        match plan {
            Plan::Query(show) => self.show(&show, request),
            Plan::Lines(lines) => {
                for line in &lines {
                    let text = orders::run_line(line, &request.command.name(), &mut self.link)?;
                    if !line.is_silent {
                        self.tell(&text);
                    }
                    self.tell(&line.done.to_string());
                }
                Ok(())
            }
            Plan::Work(work) => {
                let message = orders::work(&work, &request.command.name(), &mut self.link)?;
                self.tell(&message.to_string());
                Ok(())
            }
            Plan::Nothing(message) => {
                self.tell(&message.to_string());
                Ok(())
            }
            Plan::Program(Program::Macro, words) => self.macro_file(&words),
            Plan::Program(Program::Help, words) => {
                let text = help(&words)?;
                self.write(&text);
                Ok(())
            }
            Plan::Program(Program::Quit, _) => {
                self.is_over = true;
                Ok(())
            }
            Plan::Program(Program::Commit | Program::Select, _) => Ok(()),
        }
    }

    /// Writes a line about work that is done. A quiet session has none.
    fn tell(&mut self, text: &str) {
        if !self.invocation.quiet && !text.trim().is_empty() {
            self.write(text);
        }
    }

    fn note(&self, note: &str) {
        if !self.invocation.quiet {
            output::say(note);
        }
    }

    /// Writes text. Next to rows as JSON it goes to standard error.
    fn write(&mut self, text: &str) {
        if self.invocation.json {
            output::say_lines(text);
            return;
        }
        if let Err(message) = self.destination.write(text, &mut self.context.output) {
            self.context.output.text(&message.to_string());
            self.highest = self.highest.max(message.code.number());
        }
    }

    /// Runs `work` with its output in a file, if there is a redirection.
    fn redirected(
        &mut self,
        redirection: Option<&Redirection>,
        work: impl FnOnce(&mut Self) -> Result<(), Refusal>,
    ) -> Result<(), Refusal> {
        let Some(redirection) = redirection else { return work(self) };
        let opened = Destination::open(redirection)?;
        let outer = std::mem::replace(&mut self.destination, opened);
        let done = work(self);
        self.destination = outer;
        done
    }

    /// Asks a question on standard output, or on standard error next to rows as JSON. Only yes on
    /// standard input confirms.
    fn confirms(&mut self, question: &str) -> bool {
        if self.invocation.no_confirm {
            return true;
        }
        let question = format!("{question} (Yes (Y)/No (N)) ");
        let answer = if self.invocation.json {
            output::say(question.trim_end());
            read_line()
        } else {
            self.context.output.prompt(&question);
            let answer = read_line();
            self.context.output.text("");
            answer
        };
        let answer = answer.unwrap_or_default();
        dsm::admin::invocation::yes_or_no(answer.trim()) == Some(true)
    }

    fn show(&mut self, show: &QueryPlan, request: &Request) -> Result<(), Refusal> {
        let bounds = views::Bounds::of(show);
        let mut table =
            views::fetch(show.report.view, &bounds, &request.command.name(), &mut self.link)?;
        let name = request.command.name();
        views::add_empty_sets(show.report, &mut table, &name, &mut self.link)?;
        show.keep(&mut table);
        views::keep_side(show.report, &mut table);
        let most = show.rows_max.and_then(|most| usize::try_from(most).ok());
        table.rows.truncate(most.unwrap_or(usize::MAX));
        if table.rows.is_empty() {
            let message = show.without_rows.clone();
            if message.code == ReturnCode::Done {
                self.tell(&message.to_string());
                return Ok(());
            }
            return Err(message);
        }
        if self.invocation.json {
            self.records(&show.report.records(&table, show.is_detailed));
            return Ok(());
        }
        if std::ptr::eq(show.report, &raw const report::STATUS) && !self.is_delimited() {
            self.write(&format!("{}\n\n", views::title()));
        }
        let listing = show.report.listing(&table, show.is_detailed, request.now);
        self.answer(&listing, show.is_detailed);
        Ok(())
    }

    /// Returns true if programs read the answers as values.
    fn is_delimited(&self) -> bool {
        self.invocation.form.is_some_and(Form::is_delimited)
    }

    /// Writes an answer in the form that the session asks for. If it asks for none, a detailed
    /// answer is a list, as in TSM, whatever its width.
    fn answer(&mut self, listing: &Listing, is_detailed: bool) {
        let layout = Layout {
            form: self.invocation.form.or(is_detailed.then_some(Form::List)),
            width: width(),
            has_headings: !self.invocation.data_only,
        };
        let text = table::render(listing, layout);
        self.write(&text);
    }

    /// Writes each row as a JSON object.
    fn records(&mut self, records: &Records) {
        for row in &records.rows {
            let values = records.names.iter().cloned().zip(row.iter().map(json));
            let document: serde_json::Map<String, serde_json::Value> = values.collect();
            if let Err(message) = self.destination.document(&document, &mut self.context.output) {
                self.refuse(&message);
                return;
            }
        }
    }

    fn select(&mut self, text: &str) -> Result<(), Refusal> {
        let (text, redirection) = select_target(text);
        let now = views::shown_time(sys::clock::now());
        let translation = dialect::translate(text, &now)?;
        let mut tables = Vec::new();
        for name in &translation.views {
            let view = view::find(name).expect("the translation names views only");
            let bounds = views::Bounds::of_statement(&translation, view);
            tables.push(views::fetch(view, &bounds, "SELECT", &mut self.link)?);
        }
        let began = sys::clock::monotonic();
        let answer = database::select(&translation, &tables, move || began.elapsed() < SELECT_MAX)?;
        if answer.listing.rows.is_empty() {
            return Err(Message::no_match("SELECT"));
        }
        if answer.is_cut {
            self.note("the answer has more than 100,000 rows; only these are shown");
        }
        self.redirected(redirection.as_ref(), |session| {
            match session.invocation.json {
                true => session.records(&answer.records),
                false => session.answer(&answer.listing, false),
            }
            Ok(())
        })
    }

    /// Runs the commands of a file. The first word is its name, the others are its values.
    fn macro_file(&mut self, words: &[String]) -> Result<(), Refusal> {
        let (name, values) = words.split_first().expect("the table requires the name");
        let wrong = |reason: String| {
            let text = format!("The macro {} cannot be run: {reason}.", model::printable(name));
            Message::refusal("ANS8027E", ReturnCode::InputOutput, text)
        };
        if self.depth == MACRO_DEPTH_MAX {
            return Err(wrong("too many macros run each other".to_owned()));
        }
        let mut bytes = Vec::new();
        // The name may stand for something without an end.
        std::fs::File::open(name)
            .and_then(|file| file.take(MACRO_READ_MAX).read_to_end(&mut bytes))
            .map_err(|error| wrong(error.to_string()))?;
        if let Some(reason) = dsm::options::unreadable(&bytes) {
            return Err(wrong(reason.to_owned()));
        }
        let text = String::from_utf8_lossy(bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&bytes));
        self.depth += 1;
        let mut reader = LineReader::default();
        for line in text.lines() {
            if let Some(command) = reader.take(line) {
                self.one(&with_values(&command, values));
            }
        }
        if let Some(command) = reader.finish() {
            self.one(&with_values(&command, values));
        }
        self.depth -= 1;
        Ok(())
    }
}

fn json(value: &Value) -> serde_json::Value {
    match value {
        Value::Missing => serde_json::Value::Null,
        Value::Text(text) => text.as_str().into(),
        Value::Integer(number) => (*number).into(),
        Value::Real(number) => (*number).into(),
    }
}

fn is_select(text: &str) -> bool {
    let first = grammar::first_word(text);
    // A statement with parts before SELECT begins with WITH.
    first == "WITH" || dialect::is_select(&first)
}

/// Divides a SELECT from the file that takes its answer, as in `select ... > /tmp/answer`. Only a
/// path is a file, because the sign is also a comparison.
fn select_target(text: &str) -> (&str, Option<Redirection>) {
    let text = grammar::after_comments(text);
    let Some((statement, file)) = text.trim_end().rsplit_once(char::is_whitespace) else {
        return (text, None);
    };
    let (before, file, sign) = match file.strip_prefix('>') {
        Some(rest) => (statement, rest.trim_start_matches('>'), file),
        None => match statement.trim_end().rsplit_once(char::is_whitespace) {
            Some((before, sign @ (">" | ">>"))) => (before, file, sign),
            _ => return (text, None),
        },
    };
    if !file.starts_with('/') {
        return (text, None);
    }
    let appends = sign.starts_with(">>");
    (before, Some(Redirection { file: file.to_owned(), appends }))
}

/// Puts the values of a macro into a command.
fn with_values(command: &str, values: &[String]) -> String {
    let mut command = command.to_owned();
    for (number, value) in (1..=9).zip(values) {
        command = command.replace(&format!("%{number}"), value);
    }
    command
}

fn connect(named: Option<&str>) -> Result<(Admin, PathBuf), CommandError> {
    // A name of TSM's option files says nothing here, unlike the path of a folder.
    let folder = named.filter(|name| name.contains('/')).map(PathBuf::from);
    let folder = servers::choose(folder)?;
    let admin = admin::connect(Path::new(&folder), Duration::ZERO)?;
    Ok((admin, folder))
}

/// Returns the next line of standard input; `None` at its end.
fn read_line() -> Option<String> {
    let mut line = Vec::new();
    let read = std::io::stdin().lock().read_until(b'\n', &mut line).ok()?;
    (read > 0).then(|| String::from_utf8_lossy(&line).trim_end_matches(['\n', '\r']).to_owned())
}

/// Returns the present time on the wall.
fn now() -> DateTime {
    moment::zoned(sys::clock::now()).datetime()
}

fn width() -> usize {
    let set = std::env::var(COLUMNS).ok().and_then(|columns| columns.parse().ok());
    set.unwrap_or(table::WIDTH_DEFAULT)
}

/// Returns the list of the commands, or the parameters of one.
fn help(words: &[String]) -> Result<String, Message> {
    let Some(first) = words.first() else {
        let names: Vec<String> = command::all()
            .filter(|command| !matches!(command.action, command::Action::Unsupported))
            .map(|command| format!("{} {}", command.verb, command.noun).trim().to_owned())
            .collect();
        return Ok(format!(
            "Commands, with their shortest forms in capitals:\n{}",
            names.join("\n")
        ));
    };
    let rest = words.get(1).map_or("", String::as_str);
    let statement = grammar::parse(&format!("{first} {rest}"))?;
    let (found, _) = command::find(&statement)?;
    let parameters = found.parameters.iter().map(|parameter| {
        let (open, close) = if parameter.is_required { ("", "") } else { ("[", "]") };
        let value = if parameter.is_by_place() { "" } else { "=..." };
        format!(" {open}{}{value}{close}", parameter.name)
    });
    let name = format!("{} {}", found.verb, found.noun);
    let text = format!("{}{}", name.trim(), parameters.collect::<String>());
    Ok(format!("{text}\nIn Holdfast: {}.", found.becomes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_at_the_end_of_a_select_takes_the_answer() {
        for (text, statement, file) in [
            ("select 1 from db", "select 1 from db", None),
            ("select 1 from db > /tmp/x", "select 1 from db", Some(("/tmp/x", false))),
            ("select 1 from db >>/tmp/x", "select 1 from db", Some(("/tmp/x", true))),
            ("select 1 from db where a > 5", "select 1 from db where a > 5", None),
            ("select 1 from db where a >5", "select 1 from db where a >5", None),
        ] {
            let (found, redirection) = select_target(text);
            let redirected = redirection.map(|to| (to.file, to.appends));
            let expected = file.map(|(file, appends): (&str, bool)| (file.to_owned(), appends));
            assert_eq!((found.trim_end(), redirected), (statement, expected), "{text}");
        }
    }

    #[test]
    fn a_macro_gets_its_values() {
        let values = ["anna".to_owned(), "LONG".to_owned()];
        assert_eq!(with_values("upd n %1 do=%2 %3", &values), "upd n anna do=LONG %3");
    }

    #[test]
    fn select_is_known_by_its_first_word() {
        assert!(is_select("sel * from nodes") && is_select("SELECT(1)") && is_select("with x as"));
        assert!(!is_select("se") && !is_select("set x") && !is_select("selective"));
    }

    #[test]
    fn help_names_parameters_and_the_counterpart() {
        let text = help(&["lock".to_owned(), "n".to_owned()]).expect("a command");
        assert_eq!(text, "LOCK Node node_name\nIn Holdfast: `admin node lock`.");
        assert!(help(&[]).expect("the list").contains("\nQuery ACtlog\n"));
    }
}
