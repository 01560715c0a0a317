//! Errors as text.

use std::error::Error;
use std::ops::Range;

use crate::spelling;

/// Returns the message of the error, followed by the messages of its causes. A message that an
/// earlier message contains is left out.
pub fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(inner) = source {
        source = inner.source();
        let more = inner.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
    }
    text
}

/// Returns the message of a parser about a part of `text`, on one line: the place, the line there,
/// the message, and the known word that is meant by an unknown one.
pub fn located(text: &str, at: Option<Range<usize>>, message: &str) -> String {
    let question = word_meant(message).map_or_else(String::new, |question| format!("; {question}"));
    let message = on_one_line(message) + &question;
    let Some(before) = at.and_then(|at| text.get(..at.start)) else { return message };
    let number = before.matches('\n').count() + 1;
    let begin = before.rfind('\n').map_or(0, |end| end + 1);
    let column = before[begin..].chars().count() + 1;
    let line = text[begin..].lines().next().unwrap_or_default().trim();
    format!("line {number}, column {column} ('{line}'): {message}")
}

/// Returns the question for the word that a parser refuses by `message`, because it expects others;
/// `None` if the word is like none of them.
pub fn word_meant(message: &str) -> Option<String> {
    let begins = ["unknown field `", "unknown variant `"];
    let is_unknown = begins.iter().any(|begin| message.starts_with(begin));
    let mut words = message.split('`').skip(1).step_by(2);
    let word = words.next().filter(|_| is_unknown)?;
    spelling::question(word, &words.collect::<Vec<_>>())
}

/// Returns the lines of `text`, joined.
pub fn on_one_line(text: &str) -> String {
    let lines: Vec<_> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    lines.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_in_a_text_has_its_place_and_its_line() {
        let text = "a = 1\n\u{e9} = 2\n";
        let fault = located(text, Some(11..12), "no\nlike it");
        assert_eq!(fault, "line 2, column 5 ('\u{e9} = 2'): no like it");
        assert_eq!(located(text, Some(0..1), "no"), "line 1, column 1 ('a = 1'): no");
        // At the end of the text, in the middle of a character, and nowhere.
        assert_eq!(located(text, Some(13..13), "no"), "line 3, column 1 (''): no");
        assert_eq!(located(text, Some(7..8), "no"), "no");
        assert_eq!(located(text, None, "no"), "no");
    }

    #[test]
    fn an_unknown_word_has_the_nearest_that_is_known() {
        for (message, expected) in [
            ("unknown field `wiat`, expected one of `wait`, `paths`", Some("'wait'")),
            ("unknown field `restors`, expected `restores`", Some("'restores'")),
            ("unknown variant `poll`, expected `prompted` or `polling`", Some("'polling'")),
            ("unknown field `speed`, expected one of `wait`, `paths`", None),
            ("unknown field `speed`, there are no fields", None),
            ("missing field `wait`", None),
        ] {
            let expected = expected.map(|meant| format!("did you mean {meant}?"));
            assert_eq!(word_meant(message), expected, "{message}");
        }
        let fault = located("a", Some(0..1), "unknown field `a`, expected `as`");
        let expected = "line 1, column 1 ('a'): unknown field `a`, expected `as`; did you mean \
                        'as'?";
        assert_eq!(fault, expected);
    }

    #[derive(Debug)]
    struct Fault(&'static str, Option<Box<Self>>);

    impl std::fmt::Display for Fault {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str(self.0)
        }
    }

    impl Error for Fault {
        fn source(&self) -> Option<&(dyn Error + 'static)> {
            self.1.as_deref().map(|inner| inner as _)
        }
    }

    #[test]
    fn every_cause_is_said_once() {
        let inner = Fault("no such host", None);
        let middle = Fault("cannot connect: no such host", Some(Box::new(inner)));
        let outer = Fault("the database", Some(Box::new(middle)));
        assert_eq!(chain(&outer), "the database: cannot connect: no such host");
    }
}
