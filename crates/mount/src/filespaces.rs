//! The filespaces of a node as one tree, by the paths of their mount points. The module is pure.

use model::DirPath;

/// Mount points of the filespaces, sorted.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct MountPoints(Vec<Vec<u8>>);

impl MountPoints {
    /// Takes the names of filespaces. Those that are no paths, such as images, are left out.
    pub(crate) fn new(names: impl IntoIterator<Item = Vec<u8>>) -> Self {
        let mut points: Vec<Vec<u8>> =
            names.into_iter().filter(|name| name.starts_with(b"/")).collect();
        points.sort();
        points.dedup();
        Self(points)
    }

    /// Returns the innermost filespace that holds the directory `path`, and the directory in it.
    /// `path` has no slash at its end, so the root is empty.
    pub(crate) fn resolve(&self, path: &[u8]) -> Option<(&[u8], DirPath)> {
        let within = |point: &[u8]| {
            let rest = model::within(path, point)?;
            Some([rest, b"/"].concat())
        };
        let holding = self.0.iter().rev().filter_map(|point| Some((&point[..], within(point)?)));
        let (point, rest) = holding.max_by_key(|(point, _)| point.len())?;
        Some((point, DirPath::new(&rest).ok()?))
    }

    /// Returns true if a filespace is mounted at the directory `path`.
    pub(crate) fn is_point(&self, path: &[u8]) -> bool {
        let path = if path.is_empty() { b"/" } else { path };
        self.0.iter().any(|point| point == path)
    }

    /// Returns the names in the directory `path` that lead to filespaces, sorted.
    pub(crate) fn names_in(&self, path: &[u8]) -> Vec<Vec<u8>> {
        let prefix = [path, b"/"].concat();
        let name = |point: &Vec<u8>| {
            let rest = point.strip_prefix(&prefix[..])?;
            let name = rest.split(|byte| *byte == b'/').next()?;
            (!name.is_empty()).then(|| name.to_vec())
        };
        let mut names: Vec<Vec<u8>> = self.0.iter().filter_map(name).collect();
        names.dedup();
        names
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn points(names: &[&str]) -> MountPoints {
        MountPoints::new(names.iter().map(|name| name.as_bytes().to_vec()))
    }

    #[track_caller]
    fn check(points: &MountPoints, path: &str, expected: Option<(&str, &str)>) {
        let found = points.resolve(path.as_bytes());
        let found = found.map(|(point, directory)| {
            let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("plain");
            (text(point), text(directory.as_bytes()))
        });
        let expected = expected.map(|(point, path)| (point.to_owned(), path.to_owned()));
        assert_eq!(found, expected, "{path}");
    }

    #[test]
    fn the_innermost_filespace_holds_a_path() {
        let all = points(&["/", "/home", "/home/ann/data", "image:/dev/sda"]);
        check(&all, "", Some(("/", "/")));
        check(&all, "/etc", Some(("/", "/etc/")));
        check(&all, "/home", Some(("/home", "/")));
        check(&all, "/home/ann", Some(("/home", "/ann/")));
        check(&all, "/home/ann/data/x", Some(("/home/ann/data", "/x/")));
        check(&all, "/homestead", Some(("/", "/homestead/")));
        let some = points(&["/srv/www"]);
        check(&some, "", None);
        check(&some, "/srv", None);
        check(&some, "/srv/www/a", Some(("/srv/www", "/a/")));
        assert!(some.is_point(b"/srv/www") && !some.is_point(b"/srv") && all.is_point(b""));
    }

    #[test]
    fn directories_lead_to_filespaces() {
        let all = points(&["/", "/home", "/srv/www", "/srv/ftp"]);
        assert_eq!(all.names_in(b""), [b"home".to_vec(), b"srv".to_vec()]);
        assert_eq!(all.names_in(b"/srv"), [b"ftp".to_vec(), b"www".to_vec()]);
        assert_eq!(all.names_in(b"/home"), Vec::<Vec<u8>>::new());
    }
}
