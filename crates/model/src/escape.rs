//! The only functions that make text from elsewhere safe for a terminal.
//!
//! A name in a tree, a message of a server and a value in a file may hold anything: sequences that
//! move the cursor or change the title of a terminal, line ends that imitate further lines, and
//! marks that turn the direction of text around. None of these reaches a terminal. Each becomes
//! `\xNN` for each of its bytes, so nothing is lost.
//!
//! [`escaped`] is for names and other bytes. It can be read back, because it doubles each
//! backslash. [`printable`] is for text that may have been escaped already, and leaves backslashes
//! alone. [`plain_json`] is for documents, whose values programs read. All of them escape the same
//! characters: [`is_unprintable`].

use std::borrow::Cow;
use std::fmt::Write as _;

/// Returns `bytes` as text for people. Valid UTF-8 stays as it is, except that a backslash becomes
/// `\\`. Each byte of an unprintable character or of invalid UTF-8 becomes `\xNN`.
pub fn escaped(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for part in bytes.utf8_chunks() {
        for character in part.valid().chars() {
            match character {
                '\\' => text.push_str("\\\\"),
                character => push_printable(&mut text, character),
            }
        }
        part.invalid().iter().for_each(|&byte| push_hex(&mut text, byte));
    }
    text
}

/// Returns the bytes from which [`escaped`] has made `text`. What is no escape stays as it is.
pub fn unescaped(text: &str) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, after @ ..] = rest {
        let (byte, tail) = escape_at(rest).unwrap_or((*first, after));
        bytes.push(byte);
        rest = tail;
    }
    bytes
}

/// Returns the byte of the escape at the beginning of `text`, and what follows.
fn escape_at(text: &[u8]) -> Option<(u8, &[u8])> {
    match text {
        [b'\\', b'\\', tail @ ..] => Some((b'\\', tail)),
        [b'\\', b'x', high, low, tail @ ..] => {
            let digit = |byte: u8| char::from(byte).to_digit(16);
            let byte = digit(*high)? * 16 + digit(*low)?;
            Some((u8::try_from(byte).ok()?, tail))
        }
        _ => None,
    }
}

/// Returns `text` on one line, with `\xNN` for each byte of an unprintable character.
pub fn printable(text: &str) -> Cow<'_, str> {
    if !text.contains(is_unprintable) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len());
    text.chars().for_each(|character| push_printable(&mut shown, character));
    Cow::Owned(shown)
}

/// Returns a JSON document on one line with `\uNNNN` for each unprintable character. Such
/// characters are only in its strings, where JSON allows this form, so all values stay as they are.
pub fn plain_json(document: String) -> String {
    if !document.contains(is_unprintable) {
        return document;
    }
    let mut plain = String::with_capacity(document.len());
    for character in document.chars() {
        if is_unprintable(character) {
            let number = u32::from(character);
            assert!(number <= 0xffff, "JSON writes others as two numbers");
            write!(plain, "\\u{number:04x}").expect("writing to a String cannot fail");
        } else {
            plain.push(character);
        }
    }
    plain
}

/// Returns true for a character that a terminal obeys in place of showing it: control characters,
/// ends of lines and paragraphs, and marks that change the direction of text.
pub fn is_unprintable(character: char) -> bool {
    character.is_control()
        || matches!(
            character,
            '\u{61c}'
                | '\u{200e}'..='\u{200f}'
                | '\u{2028}'..='\u{202e}'
                | '\u{2066}'..='\u{2069}'
        )
}

fn push_printable(text: &mut String, character: char) {
    if is_unprintable(character) {
        let mut utf8 = [0; 4];
        character.encode_utf8(&mut utf8).bytes().for_each(|byte| push_hex(text, byte));
    } else {
        text.push(character);
    }
}

fn push_hex(text: &mut String, byte: u8) {
    write!(text, "\\x{byte:02x}").expect("writing to a String cannot fail");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escaped_names_are_unambiguous() {
        assert_eq!(escaped(b"plain \xc3\xa9"), "plain \u{e9}");
        assert_eq!(escaped(b"a\nb\\c\xff"), "a\\x0ab\\\\c\\xff");
    }

    #[test]
    fn escaped_names_are_read_back() {
        let bytes: Vec<u8> = (0..=u8::MAX).collect();
        for name in [&b"plain \xc3\xa9"[..], b"a\nb\\c\xff\\x41", b"\\", &bytes] {
            assert_eq!(unescaped(&escaped(name)), name);
        }
        assert_eq!(unescaped("a\\xzz\\"), b"a\\xzz\\");
    }

    #[test]
    fn nothing_that_a_terminal_obeys_is_left() {
        for (text, expected) in [
            ("\u{1b}]0;title\u{7}", "\\x1b]0;title\\x07"),
            ("\u{9b}2J", "\\xc2\\x9b2J"),
            ("a\r\nb\tc\u{7f}", "a\\x0d\\x0ab\\x09c\\x7f"),
            ("\u{202e}cod.exe", "\\xe2\\x80\\xaecod.exe"),
            ("\u{2066}\u{2069}", "\\xe2\\x81\\xa6\\xe2\\x81\\xa9"),
            ("\u{200f}\u{61c}", "\\xe2\\x80\\x8f\\xd8\\x9c"),
            ("a\u{2028}b", "a\\xe2\\x80\\xa8b"),
        ] {
            assert_eq!(printable(text), expected);
            assert_eq!(escaped(text.as_bytes()), expected);
        }
    }

    #[test]
    fn a_document_has_nothing_that_a_terminal_obeys() {
        for (document, expected) in [
            ("{\"a\":\"\u{e9} \u{5bb6}\"}", "{\"a\":\"\u{e9} \u{5bb6}\"}"),
            ("[\"\u{9b}2J\u{7f}\u{202e}b\"]", "[\"\\u009b2J\\u007f\\u202eb\"]"),
        ] {
            assert_eq!(plain_json(document.to_owned()), expected);
        }
    }

    #[test]
    fn text_that_was_escaped_stays_as_it_is() {
        for text in ["plain", "\u{e9} \u{5bb6} \u{200d}", &escaped(b"a\\b\n\xff")] {
            assert!(matches!(printable(text), Cow::Borrowed(same) if same == text));
        }
    }
}
