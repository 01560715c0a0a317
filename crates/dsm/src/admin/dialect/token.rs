//! Tokens of SQL.

use crate::admin::message::{Message, ReturnCode};

/// A token of SQL.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Token {
    /// A word in upper case: a name, a function or a keyword. It may have points in it.
    Word(String),
    /// A name in double quotes, with its quotes.
    Quoted(String),
    /// Text, without its quotes.
    Text(String),
    Number(String),
    Sign(&'static str),
}

impl Token {
    pub(super) fn is(&self, word: &str) -> bool {
        matches!(self, Self::Word(own) if own == word)
    }
}

/// Signs, the longer ones first.
const SIGNS: [&str; 20] = [
    "||", "<>", "<=", ">=", "!=", "==", "(", ")", ",", "+", "-", "*", "/", "%", "=", "<", ">", "{",
    "}", ".",
];

/// Names of schemas that scripts put before the names of views.
const SCHEMAS: [&str; 4] = ["TSMDB1.", "SYSIBM.", "SYSCAT.", "TSMGUI."];

/// Divides a statement into tokens.
pub(super) fn tokens(statement: &str) -> Result<Vec<Token>, Message> {
    let mut rest = statement.trim().trim_end_matches(';');
    let mut tokens = Vec::new();
    while let Some(letter) = rest.chars().next() {
        if letter.is_whitespace() {
            rest = rest.trim_start();
        } else if rest.starts_with("/*") {
            let end = rest.find("*/").map_or(rest.len(), |end| end + 2);
            rest = &rest[end..];
        } else if rest.starts_with("--") {
            return Err(refusal("two hyphens begin no comment here"));
        } else if matches!(letter, '\'' | '"') {
            let (text, after) = quoted(rest, letter)?;
            rest = after;
            tokens.push(match letter {
                '\'' => Token::Text(text),
                _ => Token::Quoted(format!("\"{}\"", text.replace('"', "\"\""))),
            });
        } else if letter.is_ascii_digit() {
            let end = rest.find(|next: char| !next.is_ascii_digit() && next != '.');
            let (number, after) = rest.split_at(end.unwrap_or(rest.len()));
            tokens.push(Token::Number(number.to_owned()));
            rest = after;
        } else if letter.is_alphabetic() || letter == '_' {
            let is_inner = |next: char| next.is_alphanumeric() || matches!(next, '_' | '.' | '$');
            let end = rest.find(|next: char| !is_inner(next)).unwrap_or(rest.len());
            let word = rest[..end].to_uppercase();
            let schema = SCHEMAS.iter().find_map(|schema| word.strip_prefix(schema));
            tokens.push(Token::Word(schema.unwrap_or(&word).to_owned()));
            rest = &rest[end..];
        } else {
            let sign = SIGNS.into_iter().find(|sign| rest.starts_with(sign)).ok_or_else(|| {
                refusal(&format!(
                    "it has a sign that means nothing: {}",
                    model::printable(&letter.to_string())
                ))
            })?;
            tokens.push(Token::Sign(sign));
            rest = &rest[sign.len()..];
        }
    }
    Ok(tokens)
}

/// Reads quoted text. Returns it without its quotes, and the rest.
fn quoted(text: &str, mark: char) -> Result<(String, &str), Message> {
    let mut inner = String::new();
    let mut letters = text.char_indices().skip(1).peekable();
    while let Some((at, letter)) = letters.next() {
        if letter != mark {
            inner.push(letter);
        } else if letters.next_if(|(_, next)| *next == mark).is_some() {
            inner.push(mark);
        } else {
            return Ok((inner, &text[at + 1..]));
        }
    }
    Err(Message::refusal("ANR2002E", ReturnCode::Syntax, "A quotation mark at the end is missing."))
}

/// Makes the message for a statement that cannot be understood.
pub(super) fn refusal(reason: &str) -> Message {
    let text = format!("SELECT: The statement cannot be read: {reason}.");
    Message::refusal("ANR2901E", ReturnCode::Syntax, text)
}
