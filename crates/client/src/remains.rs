//! Remains: versions of a path that a command did not select, and the options that select them.

use model::DirPath;

use crate::error::{ClientError, ErrorKind};
use crate::link::Link;
use crate::link::versions::Selection;
use crate::options::VersionChoice;
use crate::path::{Place, places};

/// A path of which the server has nothing that a command selects.
pub(crate) struct Absence {
    /// Reason that names the path.
    reason: String,
    /// Reason that stands beside the path.
    reason_beside: String,
}

impl Absence {
    /// Makes the missing path with the reason that `reason` gives. Its arguments are the subject of
    /// a sentence, and a word of a command line, that stand for the path.
    pub(crate) fn new(path: &[u8], reason: impl Fn(&str, &str) -> String) -> Self {
        let shown = model::escaped(path);
        Self { reason: reason(&shown, &shown), reason_beside: reason("it", "PATH") }
    }

    /// Returns the error for a command without other paths.
    pub(crate) fn error(self) -> ClientError {
        ClientError::new(ErrorKind::NotFound, self.reason)
    }

    /// Returns the text of the failure of the path, which stands beside it, if it is one of
    /// several: the others are done. Fails if the command has no other path.
    pub(crate) fn one_of_several(self, paths: usize) -> Result<String, ClientError> {
        if paths > 1 { Ok(self.reason_beside) } else { Err(self.error()) }
    }
}

/// Returns the path, of which the server has no version of `which`, with the reason.
pub(crate) fn nothing_stored(
    link: &Link,
    filespaces: &[Vec<u8>],
    path: &[u8],
    which: &VersionChoice,
) -> Absence {
    let mut places = places(filespaces.iter().map(Vec::as_slice), path).into_iter();
    // A server that cannot answer has no effect on the message.
    let has_others = places.any(|place| {
        let selection = Selection { all_versions: true, ..Selection::of_subtree(&place) };
        has_any(link, &selection).unwrap_or(false)
    });
    Absence::new(path, |subject, word| message((subject, word), which, has_others))
}

/// Returns the error for a pattern that no version of `which` matches. `has_others` is true if
/// other versions match it.
pub(crate) fn no_match(pattern: &[u8], which: &VersionChoice, has_others: bool) -> ClientError {
    let shown = model::escaped(pattern);
    let message = match (has_others, which.at) {
        (false, _) => format!("nothing stored matches {shown}; 'holdfast find' searches by name"),
        (true, None) => format!(
            "no active version matches {shown}, only inactive ones: --inactive takes the newest of \
             them, --at TIME those of a time, and 'holdfast list \"{shown}\" --inactive' shows them"
        ),
        (true, Some(_)) => format!(
            "nothing that matches {shown} was stored at this time, but at others: 'holdfast list \
             \"{shown}\" --inactive' shows the versions, for --at"
        ),
    };
    ClientError::new(ErrorKind::NotFound, message)
}

/// Returns the error for a pattern that nothing in the chosen archives matches.
pub(crate) fn no_archived_match(pattern: &[u8]) -> ClientError {
    let shown = model::escaped(pattern);
    let message = format!(
        "nothing in these archives matches {shown}; 'holdfast archives' shows all archives"
    );
    ClientError::new(ErrorKind::NotFound, message)
}

/// Returns true if the server has a version of `selection`.
pub(crate) fn has_any(link: &Link, selection: &Selection) -> Result<bool, ClientError> {
    has_beside(link, selection, None)
}

/// Does the same without the objects of the directory `left_out`.
fn has_beside(
    link: &Link,
    selection: &Selection,
    left_out: Option<&DirPath>,
) -> Result<bool, ClientError> {
    let mut listing = link.list(selection)?;
    while let Some(entries) = listing.next()? {
        if entries.iter().any(|entry| left_out != Some(&*entry.directory)) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Returns the filespaces of `places`, which are those of one path, that have versions of the path
/// beside the filespace from which a command takes it: the first one that has any. `select` returns
/// the versions at a place that count.
pub(crate) fn elsewhere(
    link: &Link,
    places: &[Place],
    select: &dyn Fn(&Place) -> Selection,
) -> Result<Vec<Vec<u8>>, ClientError> {
    if places.len() < 2 {
        return Ok(Vec::new());
    }
    let mut taken: Option<&Place> = None;
    let mut others: Vec<Vec<u8>> = Vec::new();
    for place in places {
        // The filespace around another one has its root directory, which is no older version of it.
        let is_root = taken.is_some_and(|taken| taken.name.is_none());
        let left_out = is_root.then_some(&place.directory);
        if !has_beside(link, &select(place), left_out)? {
            continue;
        }
        match taken {
            None => taken = Some(place),
            Some(taken) => {
                if taken.filespace != place.filespace && !others.contains(&place.filespace) {
                    others.push(place.filespace.clone());
                }
            }
        }
    }
    Ok(others)
}

/// Returns the reason why a path has no version of `which`. `subject` stands for the path in a
/// sentence, and `word` on a command line.
fn message((subject, word): (&str, &str), which: &VersionChoice, has_others: bool) -> String {
    match (has_others, which.at) {
        (false, _) => {
            format!("the server has no version of {subject}; 'holdfast list' shows what is stored")
        }
        (true, None) => format!(
            "{subject} has no active version, only inactive ones: --inactive takes the newest of \
             them, --at TIME those of a time, and 'holdfast list {word} --inactive' shows them"
        ),
        (true, Some(_)) => format!(
            "{subject} was not stored at this time, but at others: 'holdfast list {word} \
             --inactive' shows its versions, for --at"
        ),
    }
}

#[cfg(test)]
mod tests {
    use model::ServerTime;

    use super::*;

    #[test]
    fn a_pattern_without_a_match_names_the_option_that_helps() {
        let check = |at, has_others, expected: &[&str], absent: &str| {
            let text = no_match(b"/a*", &VersionChoice { at, inactive: false }, has_others).message;
            assert!(expected.iter().all(|part| text.contains(part)), "{text}");
            assert!(!text.contains(absent), "{text}");
        };
        check(None, false, &["nothing stored matches /a*"], "--");
        check(None, true, &["no active version matches /a*", "--inactive", "--at TIME"], "nothing");
        check(
            Some(ServerTime(1)),
            true,
            &["stored at this time, but at others", "--at"],
            "no active",
        );
        check(Some(ServerTime(1)), false, &["nothing stored matches /a*"], "--at");
    }

    #[test]
    fn one_missing_path_of_several_does_not_end_the_command() {
        let missing = || Absence::new(b"/x", |subject, word| format!("no {subject}, try {word}"));
        // The failure stands after the path.
        assert_eq!(missing().one_of_several(2).expect("a failure"), "no it, try PATH");
        let error = missing().one_of_several(1).expect_err("ends the command");
        assert_eq!((error.kind, &*error.message), (ErrorKind::NotFound, "no /x, try /x"));
    }

    #[test]
    fn the_message_names_the_option_that_helps() {
        let check = |at, has_others, expected: &[&str], absent: &str| {
            let which = VersionChoice { at, inactive: false };
            let text = message(("/x", "/x"), &which, has_others);
            assert!(expected.iter().all(|part| text.contains(part)), "{text}");
            assert!(!text.contains(absent), "{text}");
        };
        check(None, false, &["no version of /x", "'holdfast list'"], "--");
        check(None, true, &["--inactive", "--at TIME"], "not stored");
        check(Some(ServerTime(1)), true, &["not stored at this time", "--at"], "no version");
        check(Some(ServerTime(1)), false, &["no version of /x"], "--at");
    }
}
