//! The text of metadata, as sections that hold values and sections.
//!
//! ```text
//! vg0 {                           section
//! extent_size = 8192              number
//! format = "lvm2"                 string; a backslash stands before a quote and a backslash
//! status = ["READ", "WRITE"]      list
//! }
//! # to the end of the line        comment
//! ```
//!
//! The text ends at its first zero byte. A name that comes twice in a section is an error: LVM
//! writes none, and a reader could only guess which is meant.

use std::borrow::Cow;

use super::fault::Fault;

/// Maximum number of sections that lie within each other. LVM has four.
const DEPTH_MAX: usize = 8;

/// Names, each with a value or a section, in the order of the names.
#[derive(Debug)]
pub(super) struct Section<'t>(Vec<(&'t str, Node<'t>)>);

#[derive(Debug)]
enum Node<'t> {
    Section(Section<'t>),
    Scalar(Scalar<'t>),
    List(Vec<Scalar<'t>>),
}

#[derive(Debug)]
pub(super) enum Scalar<'t> {
    Text(Cow<'t, str>),
    Number(u64),
    /// Negative number, fraction, or number of more than 64 bits. Nothing that is read has one.
    OtherNumber,
}

impl<'t> Section<'t> {
    /// Parses a whole text as a section without a name.
    pub(super) fn parse(text: &'t str) -> Result<Self, Fault> {
        let mut parser = Parser { rest: text.split('\0').next().unwrap_or_default() };
        let section = parser.section(0)?;
        assert!(parser.rest.is_empty(), "the outermost section ends with the text");
        Ok(section)
    }

    fn node(&self, name: &str) -> Option<&Node<'t>> {
        let at = self.0.binary_search_by_key(&name, |(found, _)| *found).ok()?;
        Some(&self.0[at].1)
    }

    pub(super) fn number(&self, name: &str) -> Result<u64, Fault> {
        match self.node(name) {
            Some(Node::Scalar(Scalar::Number(number))) => Ok(*number),
            _ => Err(Fault("a number is missing")),
        }
    }

    pub(super) fn text(&self, name: &str) -> Option<&str> {
        match self.node(name) {
            Some(Node::Scalar(Scalar::Text(text))) => Some(text),
            _ => None,
        }
    }

    /// Returns the list `name`; an empty one if there is none.
    pub(super) fn list(&self, name: &str) -> &[Scalar<'t>] {
        match self.node(name) {
            Some(Node::List(list)) => list,
            _ => &[],
        }
    }

    /// Returns true if the list `name` has the string `flag`.
    pub(super) fn has_flag(&self, name: &str, flag: &str) -> bool {
        let is_flag = |scalar: &Scalar<'_>| matches!(scalar, Scalar::Text(text) if text == flag);
        self.list(name).iter().any(is_flag)
    }

    pub(super) fn section(&self, name: &str) -> Option<&Self> {
        match self.node(name) {
            Some(Node::Section(section)) => Some(section),
            _ => None,
        }
    }

    pub(super) fn sections(&self) -> impl Iterator<Item = (&'t str, &Self)> {
        self.0.iter().filter_map(|(name, node)| match node {
            Node::Section(section) => Some((*name, section)),
            Node::Scalar(_) | Node::List(_) => None,
        })
    }
}

struct Parser<'t> {
    rest: &'t str,
}

impl<'t> Parser<'t> {
    /// Parses up to the end of a section, or of the text if `depth` is 0.
    fn section(&mut self, depth: usize) -> Result<Section<'t>, Fault> {
        if depth > DEPTH_MAX {
            return Err(Fault("too many sections lie within each other"));
        }
        let mut nodes = Vec::new();
        loop {
            self.skip();
            let is_over = if depth == 0 { self.rest.is_empty() } else { self.eat('}') };
            if is_over {
                break;
            }
            let name = self.take_while(is_of_name);
            if name.is_empty() {
                return Err(Fault("a name is missing"));
            }
            nodes.push((name, self.node(depth)?));
        }
        nodes.sort_unstable_by_key(|(name, _)| *name);
        if nodes.windows(2).any(|pair| pair[0].0 == pair[1].0) {
            return Err(Fault("a name comes twice"));
        }
        Ok(Section(nodes))
    }

    fn node(&mut self, depth: usize) -> Result<Node<'t>, Fault> {
        self.skip();
        if self.eat('{') {
            return Ok(Node::Section(self.section(depth + 1)?));
        }
        if !self.eat('=') {
            return Err(Fault("a name has no value"));
        }
        self.skip();
        if self.eat('[') { Ok(Node::List(self.list()?)) } else { Ok(Node::Scalar(self.scalar()?)) }
    }

    /// Parses what follows the bracket of a list.
    fn list(&mut self) -> Result<Vec<Scalar<'t>>, Fault> {
        let mut list = Vec::new();
        loop {
            self.skip();
            if self.eat(']') {
                return Ok(list);
            }
            list.push(self.scalar()?);
            self.skip();
            if !self.eat(',') && !self.rest.starts_with(']') {
                return Err(Fault("a list has no end"));
            }
        }
    }

    fn scalar(&mut self) -> Result<Scalar<'t>, Fault> {
        if self.eat('"') {
            return Ok(Scalar::Text(self.string()?));
        }
        let number = self.take_while(|c| c.is_ascii_digit() || matches!(c, '-' | '+' | '.'));
        if number.is_empty() {
            return Err(Fault("a value is missing"));
        }
        Ok(number.parse::<u64>().map_or(Scalar::OtherNumber, Scalar::Number))
    }

    /// Parses what follows the first quote of a string.
    fn string(&mut self) -> Result<Cow<'t, str>, Fault> {
        let mut is_escaped = false;
        let end = self.rest.find(|c: char| {
            let is_end = c == '"' && !is_escaped;
            is_escaped = c == '\\' && !is_escaped;
            is_end
        });
        let (text, rest) = self.rest.split_at(end.ok_or(Fault("a string has no end"))?);
        self.rest = rest;
        assert!(self.eat('"'), "the string was cut before its last quote");
        let is_plain = !text.contains('\\');
        Ok(if is_plain { Cow::Borrowed(text) } else { Cow::Owned(unescaped(text)) })
    }

    /// Skips blanks and comments.
    fn skip(&mut self) {
        loop {
            self.rest = self.rest.trim_start();
            let Some(comment) = self.rest.strip_prefix('#') else { return };
            self.rest = comment.find('\n').map_or("", |end| &comment[end..]);
        }
    }

    fn eat(&mut self, expected: char) -> bool {
        let rest = self.rest.strip_prefix(expected);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    fn take_while(&mut self, belongs: impl Fn(char) -> bool) -> &'t str {
        let end = self.rest.find(|c: char| !belongs(c)).unwrap_or(self.rest.len());
        let (taken, rest) = self.rest.split_at(end);
        self.rest = rest;
        taken
    }
}

/// Returns true for the characters of names of volumes and of fields.
fn is_of_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '+' | '_' | '.' | '-')
}

fn unescaped(text: &str) -> String {
    let mut characters = text.chars();
    let next = || match characters.next() {
        Some('\\') => characters.next(),
        other => other,
    };
    std::iter::from_fn(next).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_fault(text: &str, fault: &str) {
        assert_eq!(Section::parse(text).expect_err("refused").to_string(), fault, "{text}");
    }

    #[test]
    fn a_text_has_sections_and_values() {
        let text = "b { n = 7 # seven\n s=\"a \\\"#\\\\\" }\na {l = [\"x\", 2,\n3]\nempty=[]}\0}}";
        let root = Section::parse(text).expect("sound");
        let names: Vec<_> = root.sections().map(|(name, _)| name).collect();
        assert_eq!(names, ["a", "b"]);
        let (a, b) = (root.section("a").expect("there"), root.section("b").expect("there"));
        assert_eq!((b.number("n"), b.text("s")), (Ok(7), Some("a \"#\\")));
        assert!(a.has_flag("l", "x") && !a.has_flag("l", "y") && a.list("empty").is_empty());
        assert!(matches!(a.list("l"), [_, Scalar::Number(2), Scalar::Number(3)]));
        assert!(b.number("s").is_err() && b.text("n").is_none() && b.section("n").is_none());
    }

    #[test]
    fn numbers_that_nobody_needs_do_no_harm() {
        let root = Section::parse("a = -1 b = 1.5 c = 99999999999999999999 d = 3").expect("sound");
        assert_eq!(root.number("d"), Ok(3));
        assert!(["a", "b", "c"].iter().all(|name| root.number(name).is_err()));
    }

    #[test]
    fn what_lvm_does_not_write_is_refused() {
        check_fault("a = 1 a = 2", "a name comes twice");
        check_fault("a", "a name has no value");
        check_fault("a = ", "a value is missing");
        check_fault("a = \"x\\\"", "a string has no end");
        check_fault("a = [1 2]", "a list has no end");
        check_fault("a = [", "a value is missing");
        check_fault("a { b = 1", "a name is missing");
        check_fault("}", "a name is missing");
        check_fault(&"a{".repeat(100_000), "too many sections lie within each other");
    }
}
