//! The files in an opened image: lists, and copies of them.

use std::collections::HashMap;
use std::io;
use std::path::Path;
use std::sync::Arc;

use model::{Kind, Stat};
use sys::{ApplyOutcome, Dir, Listing, NewFile, ObjectStatus};

use crate::opened::components;

/// Maximum number of bytes that are read at once.
const READ_BYTES: usize = 1 << 20;

/// A file or directory in an image.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FoundFile {
    /// Path from the root of the file system.
    pub path: Vec<u8>,
    pub stat: Stat,
    /// Target of a symbolic link.
    pub target: Option<Vec<u8>>,
}

/// Counters and failures of a copy.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ExtractReport {
    pub files: u64,
    pub directories: u64,
    pub others: u64,
    pub bytes: u64,
    /// Paths in the image, and what went wrong.
    pub failures: Vec<(Vec<u8>, String)>,
}

/// Object in a file system, by its directory and its name; the root has no name.
enum Spot {
    Root,
    Object { dir: Dir, name: Vec<u8>, found: ObjectStatus },
}

fn locate(root: &Dir, path: &Path) -> io::Result<Spot> {
    let mut dir = root.try_clone()?;
    let mut parts = components(path).peekable();
    if parts.peek().is_none() {
        return Ok(Spot::Root);
    }
    while let Some(part) = parts.next() {
        if parts.peek().is_some() {
            dir = dir.open_dir(part)?;
            continue;
        }
        let found = dir.stat(part)?;
        let found = found.ok_or_else(|| io::Error::other("a socket has no content"))?;
        return Ok(Spot::Object { dir, name: part.to_vec(), found });
    }
    Ok(Spot::Root)
}

/// Calls `visit` with the object at `path` of the file system, or with the objects in it if it is a
/// directory; with `recursive`, with all objects below it. `visit` returns false to end. `fail` is
/// called with the path of each of them that cannot be read, and the list goes on.
pub fn list(
    root: &Dir,
    path: &Path,
    recursive: bool,
    visit: &mut dyn FnMut(&FoundFile) -> bool,
    fail: &mut dyn FnMut(&[u8], &io::Error),
) -> io::Result<()> {
    match locate(root, path)? {
        Spot::Object { dir, name, found } if found.stat.kind != Kind::Directory => {
            let parent: Vec<&[u8]> = components(path).collect();
            let parent = joined(&parent[..parent.len() - 1]);
            visit(&found_file(&dir, &parent, &name, &found));
            Ok(())
        }
        spot => {
            let dir = match spot {
                Spot::Root => root.try_clone()?,
                Spot::Object { dir, name, .. } => dir.open_dir(&name)?,
            };
            let parts: Vec<&[u8]> = components(path).collect();
            Lister { recursive, visit, fail }.list(&dir, &joined(&parts)).map(drop)
        }
    }
}

/// Returns the path of a directory, without a slash at its end; empty for the root.
fn joined(parts: &[&[u8]]) -> Vec<u8> {
    parts.iter().flat_map(|part| [b"/", *part].concat()).collect()
}

fn found_file(dir: &Dir, parent: &[u8], name: &[u8], found: &ObjectStatus) -> FoundFile {
    let is_link = found.stat.kind == Kind::Symlink;
    let target = is_link.then(|| dir.read_link(name).ok()).flatten();
    FoundFile { path: [parent, b"/", name].concat(), stat: found.stat, target }
}

/// Lister of directories.
struct Lister<'a> {
    recursive: bool,
    visit: &'a mut dyn FnMut(&FoundFile) -> bool,
    fail: &'a mut dyn FnMut(&[u8], &io::Error),
}

impl Lister<'_> {
    /// Returns false if `visit` ended the list.
    fn list(&mut self, dir: &Dir, path: &[u8]) -> io::Result<bool> {
        let mut listing = Listing::default();
        dir.list(&mut listing)?;
        for entry in listing.entries() {
            let name = listing.name(entry);
            let file = found_file(dir, path, name, &entry.found);
            if !(self.visit)(&file) {
                return Ok(false);
            }
            if self.recursive && entry.found.stat.kind == Kind::Directory {
                match self.list_below(dir, name, &file.path) {
                    Ok(true) => {}
                    Ok(false) => return Ok(false),
                    Err(error) => (self.fail)(&file.path, &error),
                }
            }
        }
        for failure in listing.failures() {
            (self.fail)(&[path, b"/", &failure.name].concat(), &failure.error);
        }
        Ok(true)
    }

    fn list_below(&mut self, dir: &Dir, name: &[u8], path: &[u8]) -> io::Result<bool> {
        self.list(&dir.open_dir(name)?, path)
    }
}

/// Copier of objects into a folder.
pub struct Extraction<'a> {
    /// Folder that the objects go to.
    target: Arc<Dir>,
    /// Explains an error of the image.
    reason: &'a dyn Fn(&io::Error) -> String,
    /// True to end soon.
    is_stopped: &'a dyn Fn() -> bool,
    /// True if owners are set, because root runs this.
    owner: bool,
    /// Places of files with several names, by inode.
    links: HashMap<u64, Vec<Vec<u8>>>,
    report: ExtractReport,
    buffer: Vec<u8>,
}

impl<'a> Extraction<'a> {
    pub fn new(
        target: Dir,
        reason: &'a dyn Fn(&io::Error) -> String,
        is_stopped: &'a dyn Fn() -> bool,
    ) -> Self {
        let (user, _) = sys::process::effective_ids();
        Self {
            target: Arc::new(target),
            reason,
            is_stopped,
            owner: user == 0,
            links: HashMap::new(),
            report: ExtractReport::default(),
            buffer: Vec::new(),
        }
    }

    /// Copies the object at `path`, and everything in it, under its last name into the target. An
    /// object that exists there is left alone and is a failure, unless both are directories.
    pub fn copy(&mut self, root: &Dir, path: &Path) {
        let parts: Vec<&[u8]> = components(path).collect();
        let shown = joined(&parts);
        let target = Arc::clone(&self.target);
        match locate(root, path) {
            Ok(Spot::Root) => match root.try_clone() {
                Ok(dir) => self.copy_contents(&dir, &target, &mut Vec::new(), b""),
                Err(error) => self.fail(b"/", &error),
            },
            Ok(Spot::Object { dir, name, found }) => {
                self.copy_object((&dir, &name), &found, &target, &mut Vec::new(), &shown);
            }
            Err(error) => self.fail(&shown, &error),
        }
    }

    pub fn finish(self) -> ExtractReport {
        self.report
    }

    fn fail(&mut self, path: &[u8], error: &io::Error) {
        let path = if path.is_empty() { b"/" } else { path };
        self.report.failures.push((path.to_vec(), (self.reason)(error)));
    }

    fn note_refusals(&mut self, path: &[u8], applied: &ApplyOutcome) {
        for refusal in &applied.refused {
            let is_for_root = refusal.error.kind() == io::ErrorKind::PermissionDenied;
            if self.owner || !is_for_root {
                let text = format!("{:?} not set: {}", refusal.part, refusal.error);
                self.report.failures.push((path.to_vec(), text));
            }
        }
    }

    /// Copies the object `name` of `dir`. `place` are the names of the directories of the target
    /// that lead to `target`.
    fn copy_object(
        &mut self,
        (dir, name): (&Dir, &[u8]),
        found: &ObjectStatus,
        target: &Arc<Dir>,
        place: &mut Vec<Vec<u8>>,
        path: &[u8],
    ) {
        if (self.is_stopped)() {
            return;
        }
        let copied = match found.stat.kind {
            Kind::Directory => self.copy_dir((dir, name), target, place, path),
            _ => self.copy_named((dir, name), found, target, place, path),
        };
        if let Err(error) = copied {
            self.fail(path, &error);
        }
    }

    /// Copies an object that is no directory. A further name of an object becomes a link.
    fn copy_named(
        &mut self,
        (dir, name): (&Dir, &[u8]),
        found: &ObjectStatus,
        target: &Arc<Dir>,
        place: &[Vec<u8>],
        path: &[u8],
    ) -> io::Result<()> {
        let is_file = found.stat.kind == Kind::File;
        if let Some(first) = self.links.get(&found.stat.inode).filter(|_| found.stat.linked) {
            self.link(first, target, name)?;
        } else if is_file {
            self.copy_file((dir, name), found, target, path)?;
        } else {
            self.copy_special((dir, name), found, target, path)?;
        }
        if found.stat.linked {
            let place = || [place, &[name.to_vec()]].concat();
            self.links.entry(found.stat.inode).or_insert_with(place);
        }
        *(if is_file { &mut self.report.files } else { &mut self.report.others }) += 1;
        Ok(())
    }

    /// Gives the copy at `first` below the target the further name `name` in `dir`.
    fn link(&self, first: &[Vec<u8>], dir: &Dir, name: &[u8]) -> io::Result<()> {
        let (first_name, folders) = first.split_last().expect("an object has a name");
        let mut first_dir = self.target.try_clone()?;
        for folder in folders {
            first_dir = first_dir.open_dir(folder)?;
        }
        first_dir.link(first_name, dir, name)
    }

    fn copy_dir(
        &mut self,
        (dir, name): (&Dir, &[u8]),
        target: &Arc<Dir>,
        place: &mut Vec<Vec<u8>>,
        path: &[u8],
    ) -> io::Result<()> {
        let from = dir.open_dir(name)?;
        let found = from.stat_self()?;
        let attributes = from.own_attributes()?;
        let to = Arc::new(target.make_unfinished_dir(name)?);
        place.push(name.to_vec());
        self.copy_contents(&from, &to, place, path);
        place.pop();
        let applied = to.apply(&found.stat, &attributes, self.owner);
        self.note_refusals(path, &applied);
        self.report.directories += 1;
        Ok(())
    }

    fn copy_contents(&mut self, from: &Dir, to: &Arc<Dir>, place: &mut Vec<Vec<u8>>, path: &[u8]) {
        let mut listing = Listing::default();
        if let Err(error) = from.list(&mut listing) {
            return self.fail(path, &error);
        }
        for entry in listing.entries() {
            let name = listing.name(entry);
            let path = [path, b"/", name].concat();
            self.copy_object((from, name), &entry.found, to, place, &path);
        }
        for failure in listing.failures() {
            self.fail(&[path, b"/", &failure.name].concat(), &failure.error);
        }
    }

    fn copy_file(
        &mut self,
        (dir, name): (&Dir, &[u8]),
        found: &ObjectStatus,
        target: &Arc<Dir>,
        path: &[u8],
    ) -> io::Result<()> {
        let source = dir.open_file(name)?;
        let attributes = source.attributes()?;
        let mut new = NewFile::create_with_mode(target, name, found.stat.mode)?;
        let _later = new.prepare(&attributes);
        self.buffer.resize(READ_BYTES, 0);
        new.copy_from(&source, found, &mut self.buffer)?;
        let applied = new.apply(&found.stat, &attributes, self.owner);
        self.note_refusals(path, &applied);
        let applied = new.publish(false)?;
        self.note_refusals(path, &applied);
        self.report.bytes += found.stat.size;
        Ok(())
    }

    fn copy_special(
        &mut self,
        (dir, name): (&Dir, &[u8]),
        found: &ObjectStatus,
        target: &Arc<Dir>,
        path: &[u8],
    ) -> io::Result<()> {
        let stat = &found.stat;
        let attributes = dir.attributes(name, stat.kind)?;
        match stat.kind {
            Kind::Symlink => target.make_symlink(name, &dir.read_link(name)?)?,
            kind => target.make_node(name, kind, stat.device)?,
        }
        let applied = target.apply_to_name(name, stat, &attributes, self.owner)?;
        self.note_refusals(path, &applied);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(path: &Path) -> Dir {
        Dir::open(path.as_os_str().as_encoded_bytes()).expect("a folder")
    }

    #[test]
    fn a_tree_is_copied_with_its_links_and_holes() {
        let folder = tempfile::tempdir().expect("a folder");
        let (from, to) = (folder.path().join("from"), folder.path().join("to"));
        std::fs::create_dir_all(from.join("a/b")).expect("made");
        std::fs::create_dir(&to).expect("made");
        std::fs::write(from.join("a/one"), b"content").expect("written");
        std::fs::hard_link(from.join("a/one"), from.join("a/b/two")).expect("linked");
        std::os::unix::fs::symlink("../one", from.join("a/b/link")).expect("linked");
        let sparse = std::fs::File::create(from.join("a/sparse")).expect("made");
        sparse.set_len(5_000_000).expect("sized");
        let root = open(&from);
        let reason = |error: &io::Error| error.to_string();
        let mut extraction = Extraction::new(open(&to), &reason, &|| false);
        extraction.copy(&root, Path::new("/a"));
        extraction.copy(&root, Path::new("missing"));
        let report = extraction.finish();
        assert_eq!((report.files, report.directories, report.others), (3, 2, 1));
        assert_eq!(report.failures.len(), 1);
        assert_eq!(report.failures[0].0, b"/missing");
        assert_eq!(std::fs::read(to.join("a/b/two")).expect("read"), b"content");
        assert_eq!(std::fs::read_link(to.join("a/b/link")).expect("read"), Path::new("../one"));
        let stat = |path: &str| {
            use std::os::unix::fs::MetadataExt as _;
            let stat = std::fs::metadata(to.join(path)).expect("there");
            (stat.ino(), stat.len(), stat.blocks())
        };
        assert_eq!(stat("a/one").0, stat("a/b/two").0);
        assert_eq!((stat("a/sparse").1, stat("a/sparse").2 < 100), (5_000_000, true));
        // A second copy leaves everything as it is.
        let mut extraction = Extraction::new(open(&to), &reason, &|| false);
        extraction.copy(&root, Path::new("/a/one"));
        extraction.copy(&root, Path::new("/a"));
        assert_eq!(extraction.finish().failures.len(), 4);
    }

    #[test]
    fn a_directory_is_listed_with_what_is_in_it() {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::create_dir(folder.path().join("a")).expect("made");
        std::fs::write(folder.path().join("a/file"), b"content").expect("written");
        let root = open(folder.path());
        let names = |path: &str, recursive| {
            let mut found = Vec::new();
            let mut visit = |file: &FoundFile| {
                found.push(String::from_utf8(file.path.clone()).expect("plain"));
                true
            };
            list(&root, Path::new(path), recursive, &mut visit, &mut |path, error| {
                panic!("{path:?}: {error}")
            })
            .expect("listed");
            found
        };
        assert_eq!(names("/", false), ["/a"]);
        assert_eq!(names("", true), ["/a", "/a/file"]);
        assert_eq!(names("a", false), ["/a/file"]);
        assert_eq!(names("/a/file", false), ["/a/file"]);
        let missing = list(&root, Path::new("/a/x"), false, &mut |_| true, &mut |_, _| {});
        assert!(missing.is_err());
    }

    /// The list ended at the first directory that could not be read.
    #[test]
    fn a_directory_that_cannot_be_read_costs_only_what_is_in_it() {
        let folder = tempfile::tempdir().expect("a folder");
        for name in ["a", "b", "c"] {
            std::fs::create_dir(folder.path().join(name)).expect("made");
            std::fs::write(folder.path().join(name).join("file"), b"content").expect("written");
        }
        let (mut found, mut failed) = (Vec::new(), Vec::new());
        let mut visit = |file: &FoundFile| {
            if file.path == b"/b" {
                std::fs::remove_dir_all(folder.path().join("b")).expect("removed");
            }
            found.push(String::from_utf8(file.path.clone()).expect("plain"));
            true
        };
        let mut fail = |path: &[u8], error: &io::Error| failed.push((path.to_vec(), error.kind()));
        let root = open(folder.path());
        list(&root, Path::new("/"), true, &mut visit, &mut fail).expect("the others are listed");
        found.sort();
        assert_eq!(found, ["/a", "/a/file", "/b", "/c", "/c/file"]);
        assert_eq!(failed, [(b"/b".to_vec(), io::ErrorKind::NotFound)]);
    }
}
