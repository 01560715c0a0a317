//! Patterns over paths, with TSM's wildcards.
//!
//! ```text
//!   *        any number of characters, even none, within one component
//!   ?        one character
//!   [a-cx]   one character of the class
//!   \c       the character c itself, also within a class
//!   ...      as a whole component: any number of directories, even none
//!   dir/     a slash at the end: directories only
//! ```
//!
//! Paths are bytes. A character is one UTF-8 character if the bytes are valid, otherwise one byte,
//! so that `?` matches one letter of any script, and patterns can match every name.
//!
//! 1. A pattern with a slash other than at its end is absolute and matches whole paths: `/a/*` does
//!    not match `/a/b/c`.
//! 2. A pattern without a slash matches the last component at any depth: `*.o` means `/.../*.o`.
//!    TSM has no such form; it exists for `--exclude`.
//! 3. The time of a match is at most proportional to the length of the pattern times the length of
//!    the path, whatever they contain. A match allocates nothing.
//!
//! Names that begin with a dot are not special. Dots within a component (`a...b`) are plain, and
//! `**` is `*`. Negated classes are deliberately absent: TSM has none, and `[!a]` is refused rather
//! than read as `!` or `a`.

use std::fmt;
use std::ops::RangeInclusive;

/// Maximum number of bytes in a pattern.
pub const PATTERN_BYTES_MAX: usize = 4096;

/// Component that stands for any number of directories.
const DIRECTORIES: &[u8] = b"...";
/// Base of the numbers of bytes that are not part of a valid character; greater than the number of
/// every character.
const STRAY: u32 = 0x11_0000;

/// A parsed pattern.
#[derive(Clone, PartialEq, Eq)]
pub struct Pattern {
    text: Vec<u8>,
    /// Conditions on the components above the last.
    directories: Vec<Element<Name>>,
    /// Condition on the last component.
    last: Name,
    directories_only: bool,
}

/// Reason why bytes are not a pattern.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum PatternError {
    #[error("the pattern is empty")]
    Empty,
    #[error("the pattern is longer than {PATTERN_BYTES_MAX} bytes")]
    TooLong,
    #[error("a pattern of several components must start with '/', or with '/.../' for any depth")]
    Relative,
    #[error("a pattern must not end with '...': write '/.../*' for everything in the directories")]
    EndsInDirectories,
    #[error("a class must be written '[abc]' or '[a-z]', and the plain character '[' as '\\['")]
    Class,
    #[error("a character must follow '\\', which escapes it; write '\\\\' for a plain '\\'")]
    Escape,
}

/// One element of a sequence: any run of items, or one item that meets a condition.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Element<T> {
    Run,
    One(T),
}

type Name = Vec<Element<Character>>;
type Class = Vec<RangeInclusive<u32>>;

/// Condition on the number of one character.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Character {
    Any,
    Exactly(u32),
    Class(Class),
}

impl Pattern {
    /// Parses `text`.
    pub fn parse(text: &[u8]) -> Result<Self, PatternError> {
        if text.len() > PATTERN_BYTES_MAX {
            return Err(PatternError::TooLong);
        }
        let (inner, directories_only) = match text {
            [inner @ .., b'/'] => (inner, true),
            inner => (inner, false),
        };
        let mut components = inner.split(|&byte| byte == b'/').filter(|part| !part.is_empty());
        let last = components.next_back().ok_or(PatternError::Empty)?;
        if last == DIRECTORIES {
            return Err(PatternError::EndsInDirectories);
        }
        let directories = if !inner.contains(&b'/') {
            vec![Element::Run]
        } else if inner.starts_with(b"/") {
            components.map(parse_directory).collect::<Result<_, _>>()?
        } else {
            return Err(PatternError::Relative);
        };
        Ok(Self { text: text.to_vec(), directories, last: parse_name(last)?, directories_only })
    }

    /// Parses a pattern of mount points, where `/` is the root itself.
    pub fn of_mount_points(text: &[u8]) -> Result<Self, PatternError> {
        if text != b"/" {
            return Self::parse(text);
        }
        let (directories, last) = (Vec::new(), Vec::new());
        Ok(Self { text: text.to_vec(), directories, last, directories_only: false })
    }

    /// Parses the pattern that only `path` matches.
    pub fn of_path(path: &[u8]) -> Result<Self, PatternError> {
        let escape = |&byte: &u8| match byte {
            b'*' | b'?' | b'[' | b'\\' => vec![b'\\', byte],
            byte => vec![byte],
        };
        let text: Vec<u8> = path.iter().flat_map(escape).collect();
        Self::parse(&text)
    }

    /// Returns true if `path` matches. `path` is absolute, with or without a slash at its end. The
    /// root of all paths, `/`, has no component and matches no pattern but its own.
    pub fn matches(&self, path: &[u8]) -> bool {
        if self.last.is_empty() {
            return path == b"/";
        }
        let path = path.strip_suffix(b"/").unwrap_or(path);
        let Some(slash) = path.iter().rposition(|&byte| byte == b'/') else { return false };
        let (directories, name) = (&path[..slash], &path[slash + 1..]);
        // The last component is compared first: most paths differ there.
        name_matches(&self.last, name)
            && sequence_matches(&self.directories, directories, take_component, |pattern, name| {
                name_matches(pattern, name)
            })
    }

    /// Returns true if the pattern ends with a slash. [`Self::matches`] does not know the kind of
    /// the object at a path, so the caller checks this too.
    pub fn directories_only(&self) -> bool {
        self.directories_only
    }

    /// The pattern as it was written.
    pub fn as_bytes(&self) -> &[u8] {
        &self.text
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&model::escaped(&self.text))
    }
}

impl fmt::Debug for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pattern({self})")
    }
}

fn parse_directory(text: &[u8]) -> Result<Element<Name>, PatternError> {
    if text == DIRECTORIES { Ok(Element::Run) } else { parse_name(text).map(Element::One) }
}

fn parse_name(text: &[u8]) -> Result<Name, PatternError> {
    let mut name = Vec::new();
    let mut rest = text;
    while let Some((character, after)) = take_character(rest) {
        let (element, after) = match u8::try_from(character) {
            Ok(b'*') => (Element::Run, after),
            Ok(b'?') => (Element::One(Character::Any), after),
            Ok(b'[') => {
                let (class, after) = parse_class(after)?;
                (Element::One(Character::Class(class)), after)
            }
            Ok(b'\\') => {
                let (escaped, after) = take_character(after).ok_or(PatternError::Escape)?;
                (Element::One(Character::Exactly(escaped)), after)
            }
            _ => (Element::One(Character::Exactly(character)), after),
        };
        name.push(element);
        rest = after;
    }
    Ok(name)
}

/// Parses the rest of a class after its `[`, including the `]`.
fn parse_class(text: &[u8]) -> Result<(Class, &[u8]), PatternError> {
    if matches!(text.first(), Some(b'!' | b'^')) {
        return Err(PatternError::Class);
    }
    let mut class = Vec::new();
    let mut rest = text;
    loop {
        if let Some(after) = rest.strip_prefix(b"]") {
            return if class.is_empty() { Err(PatternError::Class) } else { Ok((class, after)) };
        }
        let (first, after) = take_member(rest)?;
        // A '-' just before the ']' is a member, not a range.
        let (last, after) = match after {
            [b'-', end @ ..] if !end.starts_with(b"]") => take_member(end)?,
            _ => (first, after),
        };
        if last < first {
            return Err(PatternError::Class);
        }
        class.push(first..=last);
        rest = after;
    }
}

fn take_member(text: &[u8]) -> Result<(u32, &[u8]), PatternError> {
    let text = text.strip_prefix(b"\\").unwrap_or(text);
    take_character(text).ok_or(PatternError::Class)
}

fn name_matches(pattern: &[Element<Character>], name: &[u8]) -> bool {
    sequence_matches(pattern, name, take_character, |wanted, character| match wanted {
        Character::Any => true,
        Character::Exactly(number) => *number == character,
        Character::Class(ranges) => ranges.iter().any(|range| range.contains(&character)),
    })
}

/// Function that splits a text into its first item and the remaining text; `None` if there is no
/// item.
type Splitter<'t, I> = fn(&'t [u8]) -> Option<(I, &'t [u8])>;

/// Returns true if the items into which `take` splits `text` match `elements`: one item for each
/// [`Element::One`], and any number of items for each [`Element::Run`].
///
/// After a mismatch, only the last run is tried with more items. Earlier runs keep the fewest items
/// with which the elements between them match, because the last run can skip whatever follows. So
/// each item is compared at most once with each element.
fn sequence_matches<'t, T, I: Copy>(
    elements: &[Element<T>],
    text: &'t [u8],
    take: Splitter<'t, I>,
    fits: impl Fn(&T, I) -> bool,
) -> bool {
    let (mut pending, mut rest) = (elements, text);
    let mut last_run: Option<(&[Element<T>], &[u8])> = None;
    loop {
        match (pending, take(rest)) {
            ([Element::Run], _) | ([], None) => return true,
            ([Element::Run, after @ ..], _) => {
                pending = after;
                last_run = Some((after, rest));
                continue;
            }
            ([Element::One(wanted), after @ ..], Some((item, tail))) if fits(wanted, item) => {
                (pending, rest) = (after, tail);
                continue;
            }
            // The remaining elements need more items than are left. With more items in the last
            // run, even fewer would be left.
            ([Element::One(_), ..], None) => return false,
            _ => {}
        }
        let Some((after, start)) = last_run else { return false };
        let Some((_, start)) = take(start) else { return false };
        last_run = Some((after, start));
        (pending, rest) = (after, start);
    }
}

/// Splits off the first component of a path, without the slashes before it.
fn take_component(path: &[u8]) -> Option<(&[u8], &[u8])> {
    let start = path.iter().position(|&byte| byte != b'/')?;
    let path = &path[start..];
    let end = path.iter().position(|&byte| byte == b'/').unwrap_or(path.len());
    Some(path.split_at(end))
}

/// Splits off the first character and returns its number. A byte that begins no valid character
/// counts as a character of its own, with a number greater than the numbers of all characters.
fn take_character(text: &[u8]) -> Option<(u32, &[u8])> {
    let (&first, rest) = text.split_first()?;
    let length = match first {
        0..=0x7f => return Some((u32::from(first), rest)),
        0xc2..=0xdf => 2,
        0xe0..=0xef => 3,
        0xf0..=0xf4 => 4,
        _ => 1,
    };
    let valid = text.get(..length).and_then(|bytes| str::from_utf8(bytes).ok());
    match valid.and_then(|valid| valid.chars().next()) {
        Some(character) => Some((u32::from(character), &text[length..])),
        None => Some((STRAY + u32::from(first), rest)),
    }
}

#[cfg(test)]
mod tests;
