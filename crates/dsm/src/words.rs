//! Words of a line: of a statement, of a list of file systems, of a typed command.

/// Reason why a line cannot be divided into words.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum WordError {
    #[error("a quote is not closed")]
    Quote,
}

/// Divides a line into words at blanks. Quotes, double or single, hold blanks together. They may
/// stand anywhere in a word, as in `-description="two words"`, and are no part of it.
pub fn words(line: &[u8]) -> Result<Vec<Vec<u8>>, WordError> {
    let mut words = Vec::new();
    let mut word: Option<Vec<u8>> = None;
    let mut quote = None;
    for &byte in line {
        match quote {
            Some(open) if byte == open => quote = None,
            Some(_) => word.get_or_insert_default().push(byte),
            None if byte == b'"' || byte == b'\'' => {
                quote = Some(byte);
                word.get_or_insert_default();
            }
            None if byte.is_ascii_whitespace() => words.extend(word.take()),
            None => word.get_or_insert_default().push(byte),
        }
    }
    if quote.is_some() {
        return Err(WordError::Quote);
    }
    words.extend(word);
    Ok(words)
}

/// Returns true if `text` matches `pattern`, in which `*` stands for any characters, and `?` for
/// one.
pub fn is_like(pattern: &str, text: &str) -> bool {
    let (pattern, text): (Vec<char>, Vec<char>) =
        (pattern.chars().collect(), text.chars().collect());
    let (mut at, mut place) = (0, 0);
    // Place after the last star, and the text that it has to match from there.
    let mut star: Option<(usize, usize)> = None;
    while place < text.len() {
        match pattern.get(at) {
            Some('*') => {
                star = Some((at + 1, place));
                at += 1;
            }
            Some(wanted) if *wanted == '?' || *wanted == text[place] => {
                at += 1;
                place += 1;
            }
            _ => {
                let Some((after, from)) = star else { return false };
                star = Some((after, from + 1));
                (at, place) = (after, from + 1);
            }
        }
    }
    pattern[at..].iter().all(|letter| *letter == '*')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[track_caller]
    fn check(line: &str, expected: &[&str]) {
        let found = words(line.as_bytes()).expect("words");
        let found: Vec<_> =
            found.iter().map(|word| std::str::from_utf8(word).expect("text")).collect();
        assert_eq!(found, expected, "{line}");
    }

    #[test]
    fn quotes_hold_blanks_together() {
        check("", &[]);
        check("  a  b ", &["a", "b"]);
        check("'/my disk' /home", &["/my disk", "/home"]);
        check("q ba \"/home/ann/a b\" -sub=yes", &["q", "ba", "/home/ann/a b", "-sub=yes"]);
        check("-desc=\"two words\" x", &["-desc=two words", "x"]);
        check("\"it's\" ''", &["it's", ""]);
        assert_eq!(words(b"a \"b"), Err(WordError::Quote));
    }

    #[test]
    fn a_star_stands_for_any_characters() {
        for (pattern, text, expected) in [
            ("*", "", true),
            ("project 17*", "project 17, final", true),
            ("*17*", "project 17, final", true),
            ("pro?ect", "project", true),
            ("project", "project 17", false),
            ("*a*b", "xaxbxb", true),
            ("*a*b", "xaxbx", false),
            ("?", "", false),
            ("", "", true),
            ("a/b*", "a/b/c", true),
        ] {
            assert_eq!(is_like(pattern, text), expected, "{pattern} {text}");
        }
    }

    proptest! {
        #[test]
        fn a_quoted_word_is_one_word(text in "[^\"]{0,40}") {
            let found = words(format!("\"{text}\"").as_bytes()).expect("closed");
            prop_assert_eq!(found, vec![text.into_bytes()]);
        }
    }
}
