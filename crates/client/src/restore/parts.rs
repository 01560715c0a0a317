//! Parts: directories that an archive has only because they are above one of its paths, and
//! directories of archives that are incomplete.
//!
//! 1. An archive that has all of a directory comes before archives that have a part of it. What an
//!    incomplete archive has of a directory is a part.
//! 2. If several archives have parts of a directory, the part of the first of them comes: complete
//!    ones come first, then newer ones. A warning names the other archives.
//! 3. A path below another path of the command comes from the archive of that path, if it is there.
//! 4. Incomplete archives come after complete ones. A warning names those from which objects came.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use model::{archive_number, escaped};
use sys::lock::Mutex;

use super::parents::stored_directory;
use super::several::below;
use crate::error::{ClientError, ErrorKind};
use crate::link::Link;
use crate::link::versions::Selection;
use crate::options::{Origin, RestoreOptions, RestorePart};
use crate::path::Place;
use crate::report::FAILURES_LISTED;

/// Maximum number of archives that a warning names.
const NAMED_MAX: usize = 5;

/// Part of a path that is enough.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Coverage {
    /// All of it. An archive that has a part of a directory is passed over.
    Whole,
    Any,
}

/// Parts that a command meets.
#[derive(Default)]
pub(super) struct Parts {
    /// Incomplete archives.
    incomplete: BTreeSet<u64>,
    met: Mutex<Met>,
}

/// Parts and incomplete archives that a command has met so far.
#[derive(Default)]
struct Met {
    /// Archives that have a part of a directory, in the order of the origins, by the path of the
    /// directory.
    parts: BTreeMap<Vec<u8>, Vec<u64>>,
    /// Incomplete archives from which objects came.
    incomplete: BTreeSet<u64>,
}

impl Parts {
    pub(super) fn new(incomplete: BTreeSet<u64>) -> Self {
        Self { incomplete, ..Self::default() }
    }

    /// Brings `paths`, each from the first of `origins` that has it. `bring` brings what the
    /// filespaces of one origin have, and returns the other paths. Returns the paths that no origin
    /// has.
    pub(super) fn bring<F>(
        &self,
        options: &RestoreOptions,
        origins: &[Vec<Vec<u8>>],
        paths: Vec<Vec<u8>>,
        mut bring: F,
    ) -> Result<Vec<Vec<u8>>, ClientError>
    where
        F: FnMut(&[Vec<u8>], Vec<Vec<u8>>, Coverage) -> Result<Vec<Vec<u8>>, ClientError>,
    {
        let mut missing = paths;
        if is_divided(options, origins) {
            for filespaces in origins {
                missing = bring(filespaces, missing, Coverage::Whole)?;
            }
            self.keep(&missing);
            // A path below a missing one has waited for it.
            let (waiting, _) = below(&missing, missing.clone());
            if self.met.lock().parts.is_empty() && waiting.is_empty() {
                return Ok(missing);
            }
        }
        for filespaces in origins {
            missing = bring(filespaces, missing, Coverage::Any)?;
        }
        Ok(missing)
    }

    /// Returns true if an archive has only a part of the directory `path` at `place`, and notes
    /// the archive.
    pub(super) fn meet(
        &self,
        link: &Link,
        options: &RestoreOptions,
        path: &[u8],
        place: &Place,
    ) -> Result<bool, ClientError> {
        let Some(number) = archive_number(&place.filespace) else { return Ok(false) };
        let selection = Selection::of_object(place).with_versions(&options.which);
        let is_incomplete = self.incomplete.contains(&number);
        let is_part = match stored_directory(link, &selection) {
            // Another node may let this one read an object, but not its directory.
            Err(error) if matches!(error.kind, ErrorKind::NotFound | ErrorKind::Damaged) => false,
            found => found?.is_some_and(|found| is_incomplete || found.stat.is_above_archived()),
        };
        if is_part {
            self.note(path, number);
        }
        Ok(is_part)
    }

    fn note(&self, path: &[u8], number: u64) {
        self.met.lock().parts.entry(path.to_vec()).or_default().push(number);
    }

    /// Notes that objects came from `place`.
    pub(super) fn note_use(&self, place: &Place) {
        let number = archive_number(&place.filespace);
        let incomplete = number.filter(|number| self.incomplete.contains(number));
        if let Some(number) = incomplete {
            self.met.lock().incomplete.insert(number);
        }
    }

    /// Forgets all paths but `missing`.
    fn keep(&self, missing: &[Vec<u8>]) {
        let missing: HashSet<&[u8]> = missing.iter().map(Vec::as_slice).collect();
        self.met.lock().parts.retain(|path, _| missing.contains(path.as_slice()));
    }

    /// Returns a warning for each incomplete archive from which objects came, and for each
    /// directory of which several archives have parts.
    pub(super) fn warnings(&self) -> Vec<String> {
        let met = self.met.lock();
        let incomplete = met.incomplete.iter().map(|number| incomplete_warning(*number));
        let parts = met.parts.iter();
        let parts = parts.filter_map(|(path, archives)| self.warning(path, archives));
        incomplete.chain(parts).take(FAILURES_LISTED).collect()
    }

    /// Returns the warning for the directory `path`, of which `archives` have parts, in the order
    /// in which they come.
    fn warning(&self, path: &[u8], archives: &[u64]) -> Option<String> {
        let [first, others @ ..] = archives else { return None };
        let name = |number: &u64| match self.incomplete.contains(number) {
            true => format!("{number} (incomplete)"),
            false => number.to_string(),
        };
        let named: Vec<String> = others.iter().take(NAMED_MAX).map(name).collect();
        let further = match others.len() - named.len() {
            0 => String::new(),
            count => format!(" and {count} more"),
        };
        let (path, named) = (escaped(path), named.join(", "));
        let has = if others.len() == 1 { "archive" } else { "archives" };
        (!others.is_empty()).then(|| {
            format!(
                "none of these archives has all of {path}: this is the part in archive {first}; \
                 --archive brings the part in {has} {named}{further}"
            )
        })
    }
}

/// Returns true if archives that have a part of a directory are passed over at first.
fn is_divided(options: &RestoreOptions, origins: &[Vec<Vec<u8>>]) -> bool {
    // Each archive has the attributes of a directory.
    let has_content = options.part != RestorePart::NamedDirectories;
    matches!(options.origin, Origin::Archives(_)) && has_content && origins.len() > 1
}

fn incomplete_warning(number: u64) -> String {
    format!(
        "archive {number} may lack objects: it is incomplete, because the command that makes it \
         was interrupted, or is still running"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::{ArchiveFilter, ReplaceRule, VersionChoice};

    fn options(origin: Origin) -> RestoreOptions {
        RestoreOptions {
            paths: Vec::new(),
            to: None,
            which: VersionChoice::default(),
            replace: ReplaceRule::No,
            origin,
            part: RestorePart::Whole,
        }
    }

    /// Contents of an archive: whole paths, and directories above them.
    type Contents = (u64, &'static [&'static str], &'static [&'static str]);

    /// Returns the paths that come, each with the number of its archive. `archives` come newest
    /// first.
    fn brought(options: &RestoreOptions, archives: &[Contents], paths: &[&str]) -> Vec<String> {
        let parts = Parts::default();
        let bytes = |path: &&str| path.as_bytes().to_vec();
        let name = |number: u64| vec![model::archive_filespace(number, b"/")];
        let origins: Vec<_> = archives.iter().map(|(number, ..)| name(*number)).collect();
        let mut brought = Vec::new();
        let paths = paths.iter().map(bytes).collect();
        let missing = parts.bring(options, &origins, paths, |filespaces, paths, wanted| {
            let number = archive_number(&filespaces[0]).expect("an archive");
            let archive = archives.iter().find(|(one, ..)| *one == number);
            let (_, whole, above) = archive.expect("it is there");
            let mut missing = Vec::new();
            for path in paths {
                let text = str::from_utf8(&path).expect("a text");
                let is_part = above.contains(&text);
                if is_part && wanted == Coverage::Whole {
                    parts.note(&path, number);
                }
                match whole.contains(&text) || is_part && wanted == Coverage::Any {
                    true => brought.push(format!("{text} of {number}")),
                    false => missing.push(path),
                }
            }
            Ok(missing)
        });
        let missing = missing.expect("brought");
        brought.extend(missing.iter().map(|path| format!("{} missing", escaped(path))));
        brought.extend(parts.warnings());
        brought
    }

    const ARCHIVES: [Contents; 4] = [
        (4, &["/a/x"], &["/a", "/p"]),
        (3, &["/p/x"], &["/p"]),
        (2, &["/a", "/a/x", "/b"], &[]),
        (1, &["/a", "/p/y"], &["/p", "/q"]),
    ];

    #[test]
    fn an_archive_of_a_directory_comes_before_one_with_a_part() {
        let options = options(Origin::Archives(ArchiveFilter::default()));
        let check = |path: &str, expected: &[&str]| {
            assert_eq!(brought(&options, &ARCHIVES, &[path]), expected);
        };
        check("/a", &["/a of 2"]);
        check("/a/x", &["/a/x of 4"]);
        check("/q", &["/q of 1"]);
        check("/none", &["/none missing"]);
        check(
            "/p",
            &[
                "/p of 4",
                "none of these archives has all of /p: this is the part in archive 4; --archive \
                 brings the part in archives 3, 1",
            ],
        );
    }

    #[test]
    fn one_archive_brings_the_part_that_it_has() {
        let options = options(Origin::Archives(ArchiveFilter::default()));
        assert_eq!(brought(&options, &ARCHIVES[..1], &["/a"]), ["/a of 4"]);
    }

    #[test]
    fn attributes_of_a_directory_come_from_the_newest_archive() {
        let options = options(Origin::Archives(ArchiveFilter::default()));
        let options = RestoreOptions { part: RestorePart::NamedDirectories, ..options };
        assert_eq!(brought(&options, &ARCHIVES, &["/a"]), ["/a of 4"]);
    }

    #[test]
    fn objects_of_an_incomplete_archive_come_with_a_warning() {
        let parts = Parts::new(BTreeSet::from([4, 5]));
        let from = |filespace: &[u8]| {
            parts.note_use(&Place::of_filespace(filespace));
            parts.warnings()
        };
        let from_archive = |number| from(&model::archive_filespace(number, b"/"));
        assert_eq!(from(b"/"), [""; 0]);
        assert_eq!(from_archive(3), [""; 0]);
        let warning = "archive 4 may lack objects: it is incomplete, because the command that \
                       makes it was interrupted, or is still running";
        assert_eq!(from_archive(4), [warning]);
        assert_eq!(from_archive(4), [warning]);
    }

    #[test]
    fn a_warning_names_a_few_archives() {
        let parts = Parts::new(BTreeSet::from([5]));
        let warning = |archives: &[u64]| parts.warning(b"/a", archives);
        assert_eq!(warning(&[7]), None);
        let one = warning(&[7, 6]).expect("a warning");
        assert!(one.ends_with("the part in archive 6"), "{one}");
        let many = warning(&[9, 8, 7, 6, 5, 4, 3, 2]).expect("a warning");
        let others = "the part in archives 8, 7, 6, 5 (incomplete), 4 and 2 more";
        assert!(many.ends_with(others), "{many}");
    }
}
