//! Walks: programs that go through directories in the order of their paths. What they will ask for
//! next is then known.

use std::time::{Duration, Instant};

use model::DirPath;

use crate::node::View;

/// Number of directories in order that make a walk.
const STEPS: usize = 3;
/// Maximum time between two of them.
const PAUSE_MAX: Duration = Duration::from_secs(2);

/// A directory in a filespace, at the time of a view.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Place {
    pub(crate) view: View,
    pub(crate) filespace: Vec<u8>,
    pub(crate) directory: DirPath,
}

impl Place {
    /// Returns true if `other` is this directory or lies below it.
    pub(crate) fn covers(&self, other: &Self) -> bool {
        self.is_beside(other) && self.directory.contains(&other.directory)
    }

    fn is_beside(&self, other: &Self) -> bool {
        (self.view, &self.filespace) == (other.view, &other.filespace)
    }
}

struct Step {
    place: Place,
    at: Instant,
}

/// The last directories that a program asked for in order.
#[derive(Default)]
pub(crate) struct Walk {
    steps: Vec<Step>,
    /// Root of the walk before, and when it ended.
    before: Option<Step>,
}

impl Walk {
    /// Notes a directory that was asked for. Returns the root of the walk after enough of them: the
    /// lowest directory that contains them all. If a walk has just ended, the new one goes on from
    /// it, and the root contains that one's root too.
    pub(crate) fn note(&mut self, place: &Place, now: Instant) -> Option<Place> {
        let is_near = |step: &Step| now - step.at < PAUSE_MAX && step.place.is_beside(place);
        let goes_on = self.steps.last().is_some_and(|last| {
            is_near(last) && last.place.directory.as_bytes() < place.directory.as_bytes()
        });
        if !goes_on {
            self.steps.clear();
        }
        self.steps.push(Step { place: place.clone(), at: now });
        if self.steps.len() < STEPS {
            return None;
        }
        let steps = std::mem::take(&mut self.steps);
        let before = self.before.take().filter(is_near);
        let all = steps.iter().chain(&before).map(|step| &step.place.directory);
        Some(Place { directory: common(all), ..place.clone() })
    }

    /// Notes that the walk of `root` has come to its end.
    pub(crate) fn end(&mut self, root: Place, now: Instant) {
        self.before = Some(Step { place: root, at: now });
    }
}

/// Returns true if a program that is at `position` has yet to come to `directory`: it lies ahead,
/// or the program is below it and will come back to it.
pub(crate) fn is_ahead(directory: &DirPath, position: &DirPath) -> bool {
    directory.as_bytes() >= position.as_bytes() || directory.contains(position)
}

/// Returns the lowest directory that contains all of `directories`.
fn common<'a>(mut directories: impl Iterator<Item = &'a DirPath>) -> DirPath {
    let mut common = directories.next().cloned().unwrap_or_else(DirPath::root);
    for directory in directories {
        while !common.contains(directory) {
            match common.parent() {
                Some((parent, _)) => common = parent,
                None => return DirPath::root(),
            }
        }
    }
    if common.as_bytes().is_empty() { DirPath::root() } else { common }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(path: &str) -> Place {
        let directory = DirPath::new(path.as_bytes()).expect("a path");
        Place { view: View::Latest, filespace: b"/".to_vec(), directory }
    }

    /// Notes the directories, and returns the root after the last.
    fn root(walk: &mut Walk, paths: &[&str], now: Instant) -> Option<String> {
        let roots: Vec<_> = paths.iter().map(|path| walk.note(&place(path), now)).collect();
        let root = roots.into_iter().next_back().flatten()?;
        Some(String::from_utf8_lossy(root.directory.as_bytes()).into_owned())
    }

    #[test]
    fn three_directories_in_order_are_a_walk() {
        let now = sys::clock::monotonic();
        let walk = |paths: &[&str]| root(&mut Walk::default(), paths, now);
        assert_eq!(walk(&["/usr/", "/usr/bin/", "/usr/lib/x/"]).as_deref(), Some("/usr/"));
        let deep = ["/usr/lib/a/", "/usr/lib/b/", "/usr/lib/b/c/"];
        assert_eq!(walk(&deep).as_deref(), Some("/usr/lib/"));
        assert_eq!(walk(&["/a/", "/b/", "/c/"]).as_deref(), Some("/"));
        assert_eq!(walk(&["/a/", "/b/"]), None);
        assert_eq!(walk(&["/a/", "/c/", "/b/"]), None);
        assert_eq!(walk(&["/a/", "/b/", "/b/"]), None);
    }

    #[test]
    fn directories_before_the_position_are_passed() {
        let is_ahead = |path| is_ahead(&place(path).directory, &place("/a/c/d/").directory);
        assert!(["/a/", "/a/c/", "/a/c/d/", "/a/c/d/e/", "/a/z/"].into_iter().all(is_ahead));
        assert!(!["/a/b/", "/a/c/c/"].into_iter().any(is_ahead));
    }

    #[test]
    fn a_walk_goes_on_from_the_one_before() {
        let now = sys::clock::monotonic();
        let paths = ["/a/b/1/", "/a/b/2/", "/a/b/3/"];
        for (pause, expected) in [(1, "/a/"), (3, "/a/b/")] {
            let mut walk = Walk::default();
            walk.end(place("/a/a/"), now);
            let found = root(&mut walk, &paths, now + Duration::from_secs(pause));
            assert_eq!(found.as_deref(), Some(expected));
        }
    }
}
