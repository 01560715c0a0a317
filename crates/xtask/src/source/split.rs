//! Separates code, comments and literals of Rust source, as exactly as the checks need it.

/// Two copies of a source text: one with the code only, one with the comments only. All other
/// characters are replaced by spaces, and the lines keep their numbers.
#[derive(PartialEq, Eq, Debug)]
pub(crate) struct Split {
    /// Code without comments and without the content of literals.
    pub(crate) code: String,
    pub(crate) comments: String,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Part {
    Code,
    Comment,
    Literal,
}

impl Split {
    pub(crate) fn new(text: &str) -> Self {
        let mut split = Self { code: String::new(), comments: String::new() };
        let mut rest = text;
        let mut before = ' ';
        while let Some(first) = rest.chars().next() {
            let (part, bytes) = part_at(rest, before);
            let (taken, after) = rest.split_at(bytes.clamp(first.len_utf8(), rest.len()));
            split.push(part, taken);
            before = taken.chars().next_back().unwrap_or(' ');
            rest = after;
        }
        split
    }

    fn push(&mut self, part: Part, taken: &str) {
        for character in taken.chars() {
            let keep = |kept| if part == kept { character } else { ' ' };
            let is_line_end = character == '\n';
            self.code.push(if is_line_end { '\n' } else { keep(Part::Code) });
            self.comments.push(if is_line_end { '\n' } else { keep(Part::Comment) });
        }
    }
}

/// Returns the part that `rest` begins with, and its length in bytes. `before` is the character
/// before `rest`.
fn part_at(rest: &str, before: char) -> (Part, usize) {
    if rest.starts_with("//") {
        return (Part::Comment, rest.find('\n').unwrap_or(rest.len()));
    }
    if rest.starts_with("/*") {
        return (Part::Comment, block_comment_bytes(rest));
    }
    if let Some(bytes) = string_bytes(rest, before) {
        return (Part::Literal, bytes);
    }
    if let Some(bytes) = character_bytes(rest) {
        return (Part::Literal, bytes);
    }
    (Part::Code, 1)
}

fn block_comment_bytes(rest: &str) -> usize {
    let mut depth = 0_usize;
    let mut at = 0;
    while at < rest.len() {
        let tail = &rest.as_bytes()[at..];
        if tail.starts_with(b"/*") {
            depth += 1;
            at += 2;
        } else if tail.starts_with(b"*/") {
            depth -= 1;
            at += 2;
        } else {
            at += 1;
        }
        if depth == 0 {
            return at;
        }
    }
    rest.len()
}

/// Returns the length in bytes of the string literal that `rest` begins with, its prefix and quotes
/// included.
fn string_bytes(rest: &str, before: char) -> Option<usize> {
    let continues_a_word = before.is_alphanumeric() || before == '_';
    let prefix = rest.find(|c: char| !matches!(c, 'b' | 'c' | 'r'))?;
    if prefix > 2 || (prefix > 0 && continues_a_word) {
        return None;
    }
    if !rest[..prefix].contains('r') {
        return rest[prefix..]
            .strip_prefix('"')
            .map(|inner| prefix + 1 + quoted_bytes(inner, b'"'));
    }
    let hashes = rest[prefix..].bytes().take_while(|&byte| byte == b'#').count();
    let inner = rest[prefix + hashes..].strip_prefix('"')?;
    let end = format!("\"{}", "#".repeat(hashes));
    let inner_bytes = inner.find(&end).map_or(inner.len(), |at| at + end.len());
    Some(prefix + hashes + 1 + inner_bytes)
}

/// Returns the length in bytes of the character literal that `rest` begins with; `None` for
/// anything else, such as a lifetime.
fn character_bytes(rest: &str) -> Option<usize> {
    let inner = rest.strip_prefix('\'')?;
    let mut characters = inner.chars();
    let first = characters.next()?;
    if first == '\\' {
        return Some(1 + quoted_bytes(inner, b'\''));
    }
    (characters.next() == Some('\'')).then_some(1 + first.len_utf8() + 1)
}

/// Returns the number of bytes of `inner` up to and including the first `quote` that is not
/// escaped.
fn quoted_bytes(inner: &str, quote: u8) -> usize {
    let mut escaped = false;
    for (at, byte) in inner.bytes().enumerate() {
        if escaped {
            escaped = false;
        } else if byte == b'\\' {
            escaped = true;
        } else if byte == quote {
            return at + 1;
        }
    }
    inner.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks the code of `text`; `expected` has it without spaces.
    #[track_caller]
    fn check(text: &str, expected: &str) {
        let split = Split::new(text);
        assert_eq!(split.code.split(' ').collect::<String>(), expected, "{text}");
        assert_eq!(split.code.lines().count(), text.lines().count());
        assert_eq!(split.comments.lines().count(), text.lines().count());
    }

    #[test]
    fn comments_are_no_code() {
        check("a // b \"\n/// c\nd", "a\n\nd");
        check("a /* b /* c */ d\n */ e", "a\ne");
        check("a /* b", "a");
    }

    #[test]
    fn literals_are_no_code() {
        check("f(\"a // b\", c)", "f(,c)");
        check(r#"f("a\"b", c)"#, "f(,c)");
        check("f(r\"a\\\", c)", "f(,c)");
        check("f(br##\"a\"#b\"##, c)", "f(,c)");
        check("f(b\"a\", c\"b\", d)", "f(,,d)");
        check("bar\"a\"", "bar");
        check("a \"b\nc\" d", "a\nd");
    }

    #[test]
    fn characters_and_lifetimes_are_told_apart() {
        check("('\"', '\\'', '\\u{e9}', b'x')", "(,,,b)");
        check("fn f<'a>(x: &'a str)", "fnf<'a>(x:&'astr)");
        check("r#type", "r#type");
    }

    #[test]
    fn comments_stay_readable() {
        assert_eq!(Split::new("a // b\n\"// c\"").comments, "  // b\n      ");
    }
}
