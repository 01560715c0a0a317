//! The prompt of `dsmc`, macros, and help.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;

use dsm::client::{Action, Command, CommandDefinition, Message, commands, message};
use dsm::options::{Entry, Fate, Place};
use serde_json::{Value, json};

use super::faces;
use super::files;
use super::session::Session;
use crate::context::Context;
use crate::error::{CommandError, DONE, NOT_DONE};
use crate::output;
use crate::typed::TypedLines;

const PROMPT: &str = "tsm> ";
/// Maximum number of commands that the prompt keeps.
const HISTORY_MAX: usize = 1_000;
/// Maximum depth of macros that run macros, as in TSM.
const MACRO_DEPTH_MAX: usize = 10;

/// Reads commands from standard input until it ends, or until `quit`.
pub(super) fn run(given: &[Entry], context: &mut Context) -> u8 {
    let mut typed_lines = TypedLines::open();
    let (mut history, mut worst) = (History::default(), DONE);
    let mut given = given.to_vec();
    if typed_lines.is_terminal() {
        context
            .output
            .line("Holdfast: type 'help' for the commands, 'history' and '!N' for");
        context.output.line("commands again, and 'quit' to end.");
    }
    loop {
        context.output.flush();
        let Some(line) = typed_lines.next(PROMPT) else { return worst };
        let line = match history.expand(line.trim()) {
            Ok(line) => {
                typed_lines.keep(&line);
                line
            }
            Err(reason) => {
                output::say(&reason);
                continue;
            }
        };
        match line.to_ascii_lowercase().as_str() {
            "" => {}
            "q" | "qui" | "quit" | "exit" => return worst,
            "history" => history.lines().for_each(|line| context.output.line(&line)),
            _ => {
                worst = worst.max(typed(&given, line.as_bytes(), context));
                given = without_heading(given);
            }
        }
        context.output.flush();
    }
}

/// Adds the option that leaves out the heading, which stands before the first command only.
fn without_heading(mut given: Vec<Entry>) -> Vec<Entry> {
    let definition = dsm::options::find_exactly("DATAONLY").expect("the table has it");
    if !given.iter().any(|entry| entry.definition == definition) {
        given.push(Entry { place: Place::CommandLine, definition, value: b"yes".to_vec() });
    }
    given
}

/// Runs a line that was typed, or that a macro has.
fn typed(given: &[Entry], line: &[u8], context: &mut Context) -> u8 {
    match dsm::words::words(line) {
        Ok(words) => faces::command(given, &words, context),
        Err(error) => {
            output::say(&format!("ANS1107E {error}"));
            NOT_DONE
        }
    }
}

/// Commands that were typed.
#[derive(Default)]
struct History(Vec<String>);

impl History {
    /// Returns the command that `line` stands for, and keeps it. `!!` is the last one, `!N` the one
    /// with this number, and `!word` the last that begins so.
    fn expand(&mut self, line: &str) -> Result<String, String> {
        let Some(wanted) = line.strip_prefix('!') else {
            self.keep(line);
            return Ok(line.to_owned());
        };
        let by_number = wanted.parse::<usize>().ok().and_then(|number| number.checked_sub(1));
        let found = match (wanted, by_number) {
            ("!", _) => self.0.last(),
            (_, Some(index)) => self.0.get(index),
            (begin, None) => self.0.iter().rev().find(|line| line.starts_with(begin)),
        };
        let found = found.cloned().ok_or_else(|| format!("there is no command '{line}'"))?;
        self.keep(&found);
        Ok(found)
    }

    fn keep(&mut self, line: &str) {
        let is_new = self.0.last().is_none_or(|last| last != line);
        if !line.is_empty() && line != "history" && is_new {
            if self.0.len() == HISTORY_MAX {
                self.0.remove(0);
            }
            self.0.push(line.to_owned());
        }
    }

    fn lines(&self) -> impl Iterator<Item = String> {
        self.0
            .iter()
            .enumerate()
            .map(|(index, line)| format!("{:>5}  {line}", index + 1))
    }
}

/// `dsmc macro FILE`: runs the commands of a file, and ends with the highest exit code.
pub(super) fn run_macro(session: &mut Session<'_>) -> Result<u8, CommandError> {
    let [file] = &session.command.operands[..] else {
        return Err(CommandError::new("ANS1089E name the file with the commands"));
    };
    let file = PathBuf::from(OsStr::from_bytes(file));
    let given: Vec<Entry> = session.command.options.clone();
    let MacroEnd { code, .. } = macro_file(&file, &given, session.context, 0)?;
    output::say(&format!("ANS1901I Highest exit code: {code}"));
    Ok(code)
}

/// End of a macro.
struct MacroEnd {
    /// Highest exit code of its commands.
    code: u8,
    /// True after `quit`, which ends the macros around it, too.
    has_quit: bool,
}

fn macro_file(
    file: &std::path::Path,
    given: &[Entry],
    context: &mut Context,
    depth: usize,
) -> Result<MacroEnd, CommandError> {
    if depth == MACRO_DEPTH_MAX {
        let message = format!("ANS1107E macros run macros more than {MACRO_DEPTH_MAX} deep");
        return Err(CommandError::new(message));
    }
    let wrong = |reason: &dyn std::fmt::Display| {
        CommandError::new(format!("ANS1107E cannot run the macro {}: {reason}", file.display()))
    };
    let text = files::content(file).map_err(|error| wrong(&error))?;
    if let Some(reason) = dsm::options::unreadable(&text) {
        return Err(wrong(&reason));
    }
    let (mut worst, mut given) = (DONE, given.to_vec());
    for (number, line) in macro_lines(&text) {
        if let Some(reason) = dsm::options::unreadable_line(&line) {
            output::say(&format!("ANS1107E {} line {number}: {reason}", file.display()));
            worst = NOT_DONE;
            continue;
        }
        let words = dsm::words::words(&line).unwrap_or_default();
        let command = dsm::client::parse(&words).ok();
        let action = command.as_ref().map(Command::action);
        if action == Some(Action::Quit) {
            return Ok(MacroEnd { code: worst, has_quit: true });
        }
        let inner =
            command.filter(|command| action == Some(Action::Macro) && command.operands.len() == 1);
        let MacroEnd { code, has_quit } = match inner {
            Some(inner) => {
                let file = PathBuf::from(OsStr::from_bytes(&inner.operands[0]));
                macro_file(&file, &given, context, depth + 1)?
            }
            None => MacroEnd { code: typed(&given, &line, context), has_quit: false },
        };
        given = without_heading(given);
        worst = worst.max(code);
        context.output.flush();
        if has_quit {
            return Ok(MacroEnd { code: worst, has_quit });
        }
    }
    Ok(MacroEnd { code: worst, has_quit: false })
}

/// Returns the commands of a macro, each with the number of its last line. A line that ends with a
/// dash or a backslash goes on in the next; a line that begins with a star or a hash is a comment.
fn macro_lines(text: &[u8]) -> Vec<(usize, Vec<u8>)> {
    let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
    let (mut lines, mut open, mut last) = (Vec::new(), Vec::new(), 0);
    for (number, line) in (1..).zip(text.split(|&byte| byte == b'\n')) {
        let line = line.trim_ascii();
        last = number;
        if open.is_empty() && (line.is_empty() || matches!(line[0], b'*' | b'#')) {
            continue;
        }
        match line.strip_suffix(b"\\").or_else(|| line.strip_suffix(b" -")) {
            Some(part) => {
                open.extend_from_slice(part);
                open.push(b' ');
            }
            None => {
                open.extend_from_slice(line);
                lines.push((number, std::mem::take(&mut open).trim_ascii_end().to_vec()));
            }
        }
    }
    if !open.trim_ascii().is_empty() {
        lines.push((last, open.trim_ascii_end().to_vec()));
    }
    lines
}

/// Document about what becomes of a command.
pub(super) fn fate_document(command: &CommandDefinition) -> Value {
    json!({
        "command": command.name(),
        "fate": command.fate.word(),
        "by_or_because": command.fate.to_string(),
    })
}

/// Returns the commands that the words of a help name, abbreviated or not. No word names all.
fn named_commands(words: &[Vec<u8>]) -> impl Iterator<Item = &'static CommandDefinition> {
    let wanted: Vec<String> =
        words.iter().map(|word| model::escaped(word).to_ascii_lowercase()).collect();
    let (wanted, words) = (wanted.join(" "), words.to_vec());
    commands().filter(move |command| {
        command.name().starts_with(&wanted) || command.words_of(&words) == Some(words.len())
    })
}

/// `dsmc help`: the commands, with what does the same, or what a message is about.
pub(super) fn help(help: &Command, context: &mut Context) -> u8 {
    if let [word] = &help.operands[..]
        && let Some(Message { number, about, what_to_do }) = message(word)
    {
        if help.has("JSON") {
            let document = json!({"message": number, "about": about, "what_to_do": what_to_do});
            context.output.json(&document);
        } else {
            context.output.line(&format!("{number}: {about}; {what_to_do}"));
        }
        return DONE;
    }
    let mut named = named_commands(&help.operands).peekable();
    if named.peek().is_none() {
        let wanted = model::escaped(&help.operands.join(&b' '));
        output::say(&format!("ANS1107E '{wanted}' is no command; 'help' lists all commands"));
        return NOT_DONE;
    }
    if help.has("JSON") {
        named.for_each(|command| {
            context.output.json(&fate_document(command));
        });
        return DONE;
    }
    for command in named {
        let fate = match command.fate {
            Fate::Done(by) => by.to_owned(),
            fate => format!("{}: {fate}", fate.word()),
        };
        context.output.line(&format!("{:<24} {fate}", command.spelling));
    }
    context.output.line("");
    context
        .output
        .line("Options and option files: 'holdfast dsm check', docs/guide/from-tsm.md");
    DONE
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_macro_has_comments_and_lines_that_go_on() {
        let text = "* a comment\n\nq ba /a \\\n  -inactive\nsel /b -\n-subdir=yes\n# end\ni\\\n";
        let lines = macro_lines(text.as_bytes());
        let shown =
            |(number, line): &(usize, Vec<u8>)| format!("{number} {}", model::escaped(line));
        let lines: Vec<String> = lines.iter().map(shown).collect();
        assert_eq!(lines, ["4 q ba /a  -inactive", "6 sel /b -subdir=yes", "9 i"]);
        assert_eq!(macro_lines(b"\xef\xbb\xbfq fi /\xff\r\n"), [(1, b"q fi /\xff".to_vec())]);
    }

    #[test]
    fn help_takes_abbreviations() {
        let names = |words: &str| {
            let words = dsm::words::words(words.as_bytes()).expect("words");
            named_commands(&words).map(CommandDefinition::name).collect::<Vec<_>>()
        };
        assert_eq!(names("q ba"), ["query backup"]);
        assert_eq!(names("q fi"), ["query filespace"]);
        assert_eq!(names("restore image"), ["restore image"]);
        assert_eq!(names("expi"), ["expire"]);
        assert_eq!(names("").len(), commands().count());
        assert!(names("q zz").is_empty());
    }

    #[test]
    fn typed_commands_come_again() {
        let mut history = History::default();
        for line in ["q fi", "i /home", ""] {
            assert_eq!(history.expand(line).as_deref(), Ok(line));
        }
        assert_eq!(history.expand("!!").as_deref(), Ok("i /home"));
        assert_eq!(history.expand("!1").as_deref(), Ok("q fi"));
        assert_eq!(history.expand("!i").as_deref(), Ok("i /home"));
        assert!(history.expand("!9").is_err());
        assert_eq!(history.lines().count(), 4);
    }
}
