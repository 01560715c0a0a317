//! Several paths: a restore of many paths transfers the quantum that holds many of them once.
//!
//! 1. Paths of one directory are received together, by one reception of the directory. It asks for
//!    the data of these paths alone. A directory among them comes by itself afterwards, with
//!    everything in it.
//! 2. A path below another one comes with it, if it goes to its old place. It is still received, so
//!    that it is reported if the server does not have it, but what is right by then is not counted.
//!    Of archives, it comes from the archive of the other path.
//! 3. All receptions of the restore share a memory of quanta. A small file whose quanta are there
//!    is filled from it.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::io;

use model::{Kind, QUANTUM_BYTES_MAX};

use super::destination::Destination;
use super::make::{File, Maker};
use super::recent::RecentQuanta;
use crate::link::Link;
use crate::link::versions::{Entry, Piece};
use crate::path::{Place, components, directories_above, innermost};

/// Minimum number of paths of a directory that are received together.
const SIBLINGS_MIN: usize = 4;
/// Maximum number of objects at or below a directory for each path that is received with others of
/// the directory. The server reads the pages of the directory for each reception. But it sends the
/// entries of all objects, and may fetch their data from volumes early.
const OBJECTS_PER_PATH: u64 = 8;

/// Returns `paths` without repetitions.
pub(super) fn distinct(mut paths: Vec<Vec<u8>>) -> Vec<Vec<u8>> {
    let mut known = HashSet::new();
    paths.retain(|path| known.insert(path.clone()));
    paths
}

/// Divides `paths` into those that stand for themselves, and those below one of them in the same
/// one of `filespaces`.
pub(super) fn divide(filespaces: &[Vec<u8>], paths: Vec<Vec<u8>>) -> (Vec<Vec<u8>>, Vec<Vec<u8>>) {
    let all: HashSet<Vec<u8>> = paths.iter().cloned().collect();
    let filespace = |path: &[u8]| {
        innermost(filespaces.iter().map(Vec::as_slice), path).map(|place| place.filespace)
    };
    let comes_with =
        |above: &[u8], path: &[u8]| all.contains(above) && filespace(above) == filespace(path);
    paths
        .into_iter()
        .partition(|path| !directories_above(path).any(|above| comes_with(above, path)))
}

/// Divides `paths` into those below one of `others`, and the rest.
pub(super) fn below(others: &[Vec<u8>], paths: Vec<Vec<u8>>) -> (Vec<Vec<u8>>, Vec<Vec<u8>>) {
    let others: HashSet<&[u8]> = others.iter().map(Vec::as_slice).collect();
    let is_below = |path: &Vec<u8>| directories_above(path).any(|above| others.contains(above));
    paths.into_iter().partition(is_below)
}

/// Returns `paths` in groups of one directory each. The groups have the order of their first paths.
pub(super) fn by_directory(paths: Vec<Vec<u8>>) -> Vec<Vec<Vec<u8>>> {
    let mut groups: Vec<Vec<Vec<u8>>> = Vec::new();
    let mut numbers = HashMap::new();
    for path in paths {
        let number = *numbers.entry(directory_of(&path).to_vec()).or_insert(groups.len());
        if number == groups.len() {
            groups.push(Vec::new());
        }
        groups[number].push(path);
    }
    groups
}

/// Returns the directory of `path`, without a slash at its end.
fn directory_of(path: &[u8]) -> &[u8] {
    let end = path.iter().rposition(|&byte| byte == b'/').unwrap_or(0);
    &path[..end]
}

fn name_of(path: &[u8]) -> &[u8] {
    components(path).last().unwrap_or_default()
}

/// Paths of one directory that are received together.
pub(super) struct Siblings {
    /// Place of the first path.
    pub(super) place: Place,
    /// Name of each path. True after an object that is no directory has come for it.
    names: BTreeMap<Vec<u8>, bool>,
}

impl Siblings {
    /// Returns the siblings among `paths`, which are of one directory; `None` if they are few.
    pub(super) fn of(filespaces: &[Vec<u8>], paths: &[Vec<u8>]) -> Option<Self> {
        if paths.len() < SIBLINGS_MIN {
            return None;
        }
        let mut siblings: Option<Self> = None;
        for path in paths {
            let place = innermost(filespaces.iter().map(Vec::as_slice), path);
            // The root of a filespace is no object of the directory above its mount point.
            let Some(place) = place.filter(|place| place.name.is_some()) else { continue };
            let all = siblings.get_or_insert_with(|| Self { place, names: BTreeMap::new() });
            all.names.insert(name_of(path).to_vec(), false);
        }
        siblings.filter(|siblings| siblings.names.len() >= SIBLINGS_MIN)
    }

    /// Returns the number of names for which nothing has come.
    pub(super) fn count_rest(&self) -> u64 {
        self.names.values().filter(|has_come| !**has_come).count() as u64
    }

    pub(super) fn count(&self) -> u64 {
        self.names.len() as u64
    }

    /// Returns true if one reception of the directory takes less than one for each path. `objects`
    /// is the number of active objects at and below the directory.
    pub(super) fn are_many_of(&self, objects: u64) -> bool {
        self.count().saturating_mul(OBJECTS_PER_PATH) >= objects
    }

    /// Returns true if the object of `entry` is wanted, and notes that it has come.
    fn take(&mut self, entry: &Entry) -> bool {
        if entry.object.stat.kind == Kind::Directory {
            return false;
        }
        let has_come = self.names.get_mut(entry.object.name.as_bytes());
        has_come.is_some_and(|has_come| !std::mem::replace(has_come, true))
    }

    /// Returns those of `paths` for which nothing has come.
    pub(super) fn rest(&self, mut paths: Vec<Vec<u8>>) -> Vec<Vec<u8>> {
        paths.retain(|path| self.names.get(name_of(path)) != Some(&true));
        paths
    }
}

/// Destination of one of the receptions of a restore.
pub(super) struct Portion<'a> {
    pub(super) maker: Maker<'a>,
    pub(super) link: &'a Link,
    /// Wanted objects of the reception; `None` if all are wanted.
    pub(super) siblings: Option<Siblings>,
    /// Memory of all receptions; `None` for one path.
    pub(super) recent: Option<&'a RecentQuanta>,
}

impl<'a> Portion<'a> {
    /// Returns the contents of all pieces, if all their quanta arrived recently.
    fn contents(&self, pieces: &[Piece]) -> Option<Vec<Vec<u8>>> {
        self.recent?.contents(pieces, &self.link.domain_key, &self.link.seal_keys)
    }

    fn fill(&self, file: &File<'a>, pieces: &[Piece], contents: &[Vec<u8>]) {
        assert_eq!(pieces.len(), contents.len(), "one content for each piece");
        for (piece, content) in pieces.iter().zip(contents) {
            if let Err(error) = self.maker.write(file, content, piece.offset) {
                return self.maker.lose(file, &error.to_string());
            }
        }
        self.maker.complete(file);
    }
}

impl<'a> Destination for Portion<'a> {
    type File = File<'a>;

    fn take(&mut self, entry: Entry) -> Option<File<'a>> {
        if self.siblings.as_mut().is_some_and(|siblings| !siblings.take(&entry)) {
            return None;
        }
        // The contents are in memory at once.
        let is_small = entry.object.stat.size <= QUANTUM_BYTES_MAX as u64;
        let pieces = self.recent.filter(|_| is_small).and_then(|_| entry.pieces());
        let file = self.maker.take(entry)?;
        let Some(pieces) = pieces else { return Some(file) };
        let Some(contents) = self.contents(&pieces) else { return Some(file) };
        self.fill(&file, &pieces, &contents);
        None
    }

    fn write(&self, file: &File<'a>, chunk: &[u8], offset: u64) -> io::Result<()> {
        self.maker.write(file, chunk, offset)
    }

    fn complete(&self, file: &File<'a>) {
        self.maker.complete(file);
    }

    fn lose(&self, file: &File<'a>, reason: &str) {
        self.maker.lose(file, reason);
    }

    fn recent(&self) -> Option<&RecentQuanta> {
        self.recent
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(paths: &str) -> Vec<Vec<u8>> {
        paths.split(' ').map(|path| path.as_bytes().to_vec()).collect()
    }

    #[test]
    fn paths_of_one_directory_come_together() {
        let groups = by_directory(list("/a/x /b /a/y /a/x/z /c /"));
        assert_eq!(groups, [list("/a/x /a/y"), list("/b /c /"), list("/a/x/z")]);
    }

    #[test]
    fn a_path_below_another_one_comes_with_it() {
        let divided = |paths: &str| divide(&list("/ /home"), distinct(list(paths)));
        assert_eq!(divided("/a/x /ab /home/me /ab"), (list("/a/x /ab /home/me"), Vec::new()));
        assert_eq!(divided("/a/x/y /a /a/x"), (list("/a"), list("/a/x/y /a/x")));
        assert_eq!(divided("/ /a /home/me /"), (list("/ /home/me"), list("/a")));
        assert_eq!(divided("/home/me/x /home"), (list("/home"), list("/home/me/x")));
    }

    #[test]
    fn paths_below_others_are_told_from_the_rest() {
        let divided = below(&list("/a/x /c"), list("/a /a/x /a/x/y /a/xy /c/d/e"));
        assert_eq!(divided, (list("/a/x/y /c/d/e"), list("/a /a/x /a/xy")));
    }

    #[test]
    fn a_few_paths_or_a_mount_point_are_no_siblings() {
        let filespaces = list("/ /home /home/me/m");
        let of = |paths: &str| {
            let siblings = Siblings::of(&filespaces, &list(paths))?;
            Some((siblings.place.filespace.clone(), siblings.count()))
        };
        assert_eq!(of("/home/me/1 /home/me/2 /home/me/3"), None);
        assert_eq!(of("/home/me/1 /home/me/2 /home/me/3 /home/me/m"), None);
        assert_eq!(of("/home/me/1 /home/me/1 /home/me/1 /home/me/1"), None);
        let four = of("/home/me/m /home/me/1 /home/me/2 /home/me/3 /home/me/4");
        assert_eq!(four, Some((b"/home".to_vec(), 4)));
    }

    #[test]
    fn a_few_paths_of_a_large_directory_come_one_by_one() {
        let siblings = Siblings::of(&list("/"), &list("/d/1 /d/2 /d/3 /d/4")).expect("four");
        assert!(siblings.are_many_of(0));
        assert!(siblings.are_many_of(32));
        assert!(!siblings.are_many_of(33));
        assert_eq!(siblings.rest(list("/d/1 /d/2")), list("/d/1 /d/2"), "nothing has come");
    }
}
