//! Lines of commands: continuation, comments, words, quotes, parameters with names, and output to a
//! file.
//!
//! ```text
//!   define schedule standard nightly objects='/home "/my data"' -      continued
//!     starttime=22:00 /* each night */ > /tmp/answer
//! ```
//!
//! 1. A line that ends with `-` or `\` goes on with the next one.
//! 2. A comment begins with `/*` where a word could begin.
//! 3. Within quotes of one kind, the other kind is a character, and a doubled quote is one quote.

use super::message::{Message, ReturnCode};

/// Maximum length of a command, in bytes.
pub const COMMAND_BYTES_MAX: usize = 65_536;

/// A word of a command.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Word {
    /// Name of the parameter, as in `NAME=value`.
    pub name: Option<String>,
    pub value: String,
}

/// A file that takes the output of a command.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Redirection {
    pub file: String,
    /// True if the output is added to the file.
    pub appends: bool,
}

/// The words of a command.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Statement {
    pub words: Vec<Word>,
    pub redirection: Option<Redirection>,
}

/// Collects lines until a command is complete.
#[derive(Debug, Default)]
pub struct LineReader {
    begun: String,
    is_in_comment: bool,
}

impl LineReader {
    /// Takes a line. Returns a command if it is complete and has any words.
    pub fn take(&mut self, line: &str) -> Option<String> {
        let line = self.without_comment_lines(line)?;
        let line = line.trim_end();
        if let Some(part) = line.strip_suffix(['-', '\\'])
            && self.begun.len() < COMMAND_BYTES_MAX
        {
            self.begun.push_str(part);
            return None;
        }
        self.begun.push_str(line);
        self.finish()
    }

    /// Returns the command that the last line has begun, if there is one.
    pub fn finish(&mut self) -> Option<String> {
        let command = std::mem::take(&mut self.begun);
        Some(command.trim().to_owned()).filter(|command| !command.is_empty())
    }

    /// Returns `line` without a comment that has several lines; `None` if nothing is left.
    fn without_comment_lines<'a>(&mut self, line: &'a str) -> Option<&'a str> {
        let mut line = line;
        if self.is_in_comment {
            let end = line.find("*/")?;
            self.is_in_comment = false;
            line = &line[end + 2..];
        }
        let begins = line.trim_start().starts_with("/*");
        if begins && !line.contains("*/") {
            self.is_in_comment = true;
            return None;
        }
        Some(line)
    }
}

/// Returns the first word of a command in upper case.
pub fn first_word(command: &str) -> String {
    let rest = after_comments(command);
    let end = rest.find(|letter: char| letter.is_whitespace() || letter == '(');
    rest[..end.unwrap_or(rest.len())].to_uppercase()
}

/// Returns `command` without comments at its beginning.
pub fn after_comments(command: &str) -> &str {
    let mut rest = command.trim_start();
    while let Some(inner) = rest.strip_prefix("/*") {
        let end = inner.find("*/").map_or(inner.len(), |end| end + 2);
        rest = inner[end..].trim_start();
    }
    rest
}

/// Returns `command` without the semicolon at its end, which is no part of a name.
pub fn without_end(command: &str) -> &str {
    command.trim_end().trim_end_matches(';').trim_end()
}

/// Fails if the command is too long.
pub fn check_length(command: &str) -> Result<(), Message> {
    if command.len() <= COMMAND_BYTES_MAX {
        return Ok(());
    }
    let text = format!("The command is longer than {COMMAND_BYTES_MAX} bytes.");
    Err(Message::refusal("ANR2003E", ReturnCode::Syntax, text))
}

/// Fails if the command had bytes that are no UTF-8. Whoever has read it has put U+FFFD in their
/// place, so that it would name something else.
pub fn check_text(command: &str) -> Result<(), Message> {
    if !command.contains(char::REPLACEMENT_CHARACTER) {
        return Ok(());
    }
    let text = "The command has bytes that are no UTF-8, and is not carried out; convert the \
                macro or the terminal to UTF-8, as with 'iconv -t UTF-8'.";
    Err(Message::refusal("ANS8027E", ReturnCode::Syntax, text.to_owned()))
}

/// Divides a command into words.
pub fn parse(command: &str) -> Result<Statement, Message> {
    check_length(command)?;
    let mut scanner = Scanner { rest: command };
    let mut statement = Statement::default();
    while scanner.skip_blanks() {
        if let Some(appends) = scanner.redirection() {
            scanner.skip_blanks();
            let file = scanner.text(|_| false)?;
            if file.is_empty() {
                return Err(syntax("ANR2004E", "A file is missing after the sign >."));
            }
            statement.redirection = Some(Redirection { file, appends });
        } else {
            statement.words.push(scanner.word()?);
        }
    }
    Ok(statement)
}

fn syntax(number: &'static str, text: impl Into<String>) -> Message {
    Message::refusal(number, ReturnCode::Syntax, text)
}

/// The part of a command that has not been read.
struct Scanner<'a> {
    rest: &'a str,
}

impl Scanner<'_> {
    /// Skips blanks and comments. Returns true if a word follows.
    fn skip_blanks(&mut self) -> bool {
        self.rest = after_comments(self.rest).trim_start_matches(';');
        !self.rest.trim_start().is_empty()
    }

    /// Reads the sign of a redirection. Returns true if it appends.
    fn redirection(&mut self) -> Option<bool> {
        let rest = self.rest.strip_prefix('>')?;
        let (rest, appends) = match rest.strip_prefix('>') {
            Some(rest) => (rest, true),
            None => (rest, false),
        };
        self.rest = rest;
        Some(appends)
    }

    fn word(&mut self) -> Result<Word, Message> {
        let first = self.text(|letter| letter == '=')?;
        let Some(rest) = self.rest.strip_prefix('=') else {
            return Ok(Word { name: None, value: first });
        };
        if first.is_empty() {
            let text = "The sign = stands without the name of a parameter, or after a blank.";
            return Err(syntax("ANR2005E", text));
        }
        let name = first.to_ascii_uppercase();
        if !rest.starts_with(|letter: char| !letter.is_whitespace()) {
            let text = format!("The parameter {} has no value.", model::printable(&name));
            return Err(syntax("ANR2004E", text));
        }
        self.rest = rest;
        let value = self.text(|_| false)?;
        Ok(Word { name: Some(name), value })
    }

    /// Reads text up to a blank, or up to a letter for which `ends` returns true, outside of
    /// quotes.
    fn text(&mut self, ends: impl Fn(char) -> bool) -> Result<String, Message> {
        let mut text = String::new();
        let mut quote = None;
        let mut letters = self.rest.char_indices().peekable();
        let mut end = self.rest.len();
        while let Some((at, letter)) = letters.next() {
            match quote {
                Some(mark) if letter == mark => {
                    if letters.next_if(|(_, next)| *next == mark).is_some() {
                        text.push(mark);
                    } else {
                        quote = None;
                    }
                }
                Some(_) => text.push(letter),
                None if letter.is_whitespace() || ends(letter) => {
                    end = at;
                    break;
                }
                None if matches!(letter, '\'' | '"') => quote = Some(letter),
                None => text.push(letter),
            }
        }
        if quote.is_some() {
            return Err(syntax("ANR2002E", "A quotation mark at the end is missing."));
        }
        self.rest = &self.rest[end..];
        Ok(text)
    }
}

/// Divides a list of values, as in `a,b`, and leaves out empty ones.
pub fn list(value: &str) -> Vec<String> {
    let parts = value.split(',').map(str::trim).filter(|part| !part.is_empty());
    parts.map(str::to_owned).collect()
}

/// Divides the words of a value that has several, as in `/home "/my data"`.
pub fn quoted_words(value: &str) -> Result<Vec<String>, Message> {
    let mut scanner = Scanner { rest: value };
    let mut words = Vec::new();
    while !scanner.rest.trim_start().is_empty() {
        scanner.rest = scanner.rest.trim_start();
        words.push(scanner.text(|_| false)?);
    }
    Ok(words)
}

/// Returns true if `text` matches one of `patterns`, with `*` and `?`, in upper or lower case.
pub fn matches_any(patterns: &[String], text: &str) -> bool {
    let text = text.to_lowercase();
    let matches = |pattern: &String| model::matches_wildcards(&pattern.to_lowercase(), &text);
    patterns.iter().any(matches)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[track_caller]
    fn check(command: &str, expected: &str) {
        let shown = match parse(command) {
            Ok(statement) => {
                let words = statement.words.into_iter().map(|word| match word.name {
                    Some(name) => format!("{name}=[{}]", word.value),
                    None => format!("[{}]", word.value),
                });
                let mut words: Vec<String> = words.collect();
                if let Some(Redirection { file, appends }) = statement.redirection {
                    words.push(format!("{} [{file}]", if appends { ">>" } else { ">" }));
                }
                words.join(" ")
            }
            Err(message) => message.number.to_owned(),
        };
        assert_eq!(shown, expected, "{command}");
    }

    #[test]
    fn a_semicolon_at_the_end_is_no_part_of_a_name() {
        for (command, expected) in
            [("q node ANNA;", "q node ANNA"), ("q no ; ", "q no"), ("x 'a;'", "x 'a;'"), (";", "")]
        {
            assert_eq!(without_end(command), expected);
        }
    }

    #[test]
    fn words_have_names_and_quotes() {
        check("q no", "[q] [no]");
        check("  q\tno ; ", "[q] [no]");
        check("upd no anna do=LONG", "[upd] [no] [anna] DO=[LONG]");
        check(
            r#"def sched d s obj='/home "/my data"' desc="it''s" x=''"#,
            r#"[def] [sched] [d] [s] OBJ=[/home "/my data"] DESC=[it''s] X=[]"#,
        );
        check("a 'it''s' \"a=b\"", "[a] [it's] [a=b]");
        check("q fi /* comment */ anna", "[q] [fi] [anna]");
        check("q fi anna /home/*", "[q] [fi] [anna] [/home/*]");
        check("q no > /tmp/x", "[q] [no] > [/tmp/x]");
        check("q no >>'/tmp/a b'", "[q] [no] >> [/tmp/a b]");
        check("\u{e9} a=\u{e9}", "[\u{e9}] A=[\u{e9}]");
        check("", "");
        check("/* nothing", "");
    }

    #[test]
    fn mistakes_have_numbers() {
        check("a 'b", "ANR2002E");
        check("a b=", "ANR2004E");
        check("a b= c", "ANR2004E");
        check("a =b", "ANR2005E");
        check("a b = c", "ANR2005E");
        check("q no >", "ANR2004E");
        check(&"x".repeat(100_000), "ANR2003E");
    }

    #[test]
    fn lines_are_continued() {
        let mut reader = LineReader::default();
        assert_eq!(reader.take("select a -  "), None);
        assert_eq!(reader.take("  from b\\"), None);
        assert_eq!(reader.take(" where c").as_deref(), Some("select a   from b where c"));
        assert_eq!(reader.take("/* a comment"), None);
        assert_eq!(reader.take("q no"), None);
        assert_eq!(reader.take("ends */ q st").as_deref(), Some("q st"));
        assert_eq!(reader.take(""), None);
        assert_eq!(reader.take("q no -"), None);
        assert_eq!(reader.finish().as_deref(), Some("q no"));
        assert_eq!(reader.finish(), None);
    }

    #[test]
    fn the_first_word_is_found_after_comments() {
        assert_eq!(first_word("/* x */ select(1)"), "SELECT");
        assert_eq!(first_word(" q no"), "Q");
    }

    #[test]
    fn patterns_match_in_any_case() {
        assert!(matches_any(&list("WEB*, db?"), "web-01"));
        assert!(matches_any(&list("WEB*, db?"), "DB1"));
        assert!(!matches_any(&list("WEB*,db?"), "mail"));
    }

    proptest! {
        #[test]
        fn nonsense_is_words_or_one_clear_line(command in any::<String>()) {
            if let Err(message) = parse(&command) {
                prop_assert!(!message.to_string().contains(['\n', '\0']));
                prop_assert_eq!(message.code, ReturnCode::Syntax);
            }
        }

        #[test]
        fn quoted_values_come_back(values in prop::collection::vec("[^\0]{0,20}", 1..5)) {
            let quoted = values.iter().map(|value| format!("'{}'", value.replace('\'', "''")));
            let command = quoted.collect::<Vec<_>>().join(" ");
            let parsed = parse(&command).expect("quotes are closed");
            let found: Vec<String> = parsed.words.into_iter().map(|word| word.value).collect();
            prop_assert_eq!(found, values);
        }
    }
}
