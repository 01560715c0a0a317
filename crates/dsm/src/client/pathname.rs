//! Places of restored objects below a destination (PRESERVEPATH).

use std::collections::BTreeMap;

use super::spec::{Last, Spec, within};

/// Part of the source path that is kept below the destination.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Preservation {
    /// The last directory of the source, and everything below it.
    Subtree,
    /// The whole path below the mount point of its file system.
    Complete,
    /// Everything below the directory of the source.
    NoBase,
    /// Nothing: all files stand directly in the destination.
    None,
}

impl Preservation {
    pub fn of(word: &str) -> Self {
        match word {
            "complete" => Self::Complete,
            "nobase" => Self::NoBase,
            "none" => Self::None,
            _ => Self::Subtree,
        }
    }
}

/// Objects that are restored into one folder, each under its own name.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Placement {
    pub folder: Vec<u8>,
    pub paths: Vec<Vec<u8>>,
}

/// Returns the folders for the stored `paths` that `spec` names. `filespace` is the mount point of
/// their file system, and `destination` a folder.
pub fn placements(
    spec: &Spec,
    paths: &[Vec<u8>],
    filespace: &[u8],
    destination: &[u8],
    preservation: Preservation,
) -> Vec<Placement> {
    let mut folders: BTreeMap<Vec<u8>, Vec<Vec<u8>>> = BTreeMap::new();
    for path in paths {
        let folder = folder_of(spec, path, filespace, destination, preservation);
        folders.entry(folder).or_default().push(path.clone());
    }
    folders.into_iter().map(|(folder, paths)| Placement { folder, paths }).collect()
}

fn folder_of(
    spec: &Spec,
    path: &[u8],
    filespace: &[u8],
    destination: &[u8],
    preservation: Preservation,
) -> Vec<u8> {
    let destination = destination.strip_suffix(b"/").unwrap_or(destination);
    let above = parent(path);
    // A single object that is named goes directly into the destination.
    let is_named = matches!(&spec.last, Last::Named(_)) && spec.path() == path;
    let base = match preservation {
        Preservation::None => return folder(destination, b""),
        Preservation::Complete => {
            let filespace = filespace.strip_suffix(b"/").unwrap_or(filespace);
            filespace.to_vec()
        }
        Preservation::NoBase => spec.directory.clone(),
        Preservation::Subtree if is_named => above.to_vec(),
        Preservation::Subtree => parent(&spec.directory).to_vec(),
    };
    folder(destination, within(above, &base).unwrap_or_default())
}

fn folder(destination: &[u8], below: &[u8]) -> Vec<u8> {
    match (destination.is_empty(), below.is_empty()) {
        (true, true) => b"/".to_vec(),
        (_, true) => destination.to_vec(),
        _ => [destination, b"/", below].concat(),
    }
}

fn parent(path: &[u8]) -> &[u8] {
    let end = path.iter().rposition(|&byte| byte == b'/').unwrap_or(0);
    &path[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(operand: &str, path: &str, preservation: Preservation, expected: &str) {
        let spec = Spec::parse(operand.as_bytes(), b"/").expect("an operand");
        let paths = [path.as_bytes().to_vec()];
        let placed = placements(&spec, &paths, b"/h/jones", b"/fs/h2/m2/", preservation);
        let name = path.rsplit('/').next().unwrap_or("");
        let shown = format!("{}/{name}", model::escaped(&placed[0].folder));
        assert_eq!(shown, expected, "{operand} {preservation:?}");
    }

    /// The example of TSM's manual, with the file space /h/jones.
    #[test]
    fn parts_of_the_path_are_kept() {
        use Preservation::{Complete, NoBase, None, Subtree};
        let (file, deep) = ("/h/jones/h1/m1/file.a", "/h/jones/h1/m1/l1/file.x");
        check("/h/jones/h1/m1/", file, Complete, "/fs/h2/m2/h1/m1/file.a");
        check("/h/jones/h1/m1/", deep, Complete, "/fs/h2/m2/h1/m1/l1/file.x");
        check("/h/jones/h1/m1/", file, NoBase, "/fs/h2/m2/file.a");
        check("/h/jones/h1/m1/", deep, NoBase, "/fs/h2/m2/l1/file.x");
        check("/h/jones/h1/m1/", file, Subtree, "/fs/h2/m2/m1/file.a");
        check("/h/jones/h1/m1/", deep, Subtree, "/fs/h2/m2/m1/l1/file.x");
        check("/h/jones/h1/m1/", file, None, "/fs/h2/m2/file.a");
        check("/h/jones/h1/m1/", deep, None, "/fs/h2/m2/file.x");
        check("/h/jones/h1/m1/*.a", file, Subtree, "/fs/h2/m2/m1/file.a");
        check("/h/jones/h1/m1/file.a", file, Subtree, "/fs/h2/m2/file.a");
        check("/h/jones/h1/m1", "/h/jones/h1/m1", Subtree, "/fs/h2/m2/m1");
    }

    #[test]
    fn objects_of_one_folder_come_together() {
        let spec = Spec::parse(b"/a/b/", b"/").expect("an operand");
        let paths = ["/a/b/1", "/a/b/c/2", "/a/b/3"].map(|path| path.as_bytes().to_vec());
        let placed = placements(&spec, &paths, b"/", b"/t", Preservation::NoBase);
        assert_eq!(placed.len(), 2);
        assert_eq!(placed[0].folder, b"/t");
        assert_eq!(placed[0].paths.len(), 2);
        assert_eq!(placed[1].folder, b"/t/c");
    }
}
