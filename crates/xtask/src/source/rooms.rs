//! The modules of a crate and the arrows between them.
//!
//! A module is a file, with its inline modules. A path in a module makes an arrow to the module
//! that defines the item of the path. A re-export is only another name: it neither makes an arrow
//! nor hides one. The declaration of a module alone makes no arrow. Code of tests makes no arrows.

use std::collections::{BTreeMap, BTreeSet};

use super::syntax::Scope;
use super::tree::{SourceFile, Tree};

/// Maximum number of re-exports that are followed for one name.
const RE_EXPORTS_MAX: usize = 16;

/// Name of the module at a crate's root.
pub(crate) const ROOT: &str = "crate";

/// A module's place: the names of the modules from the crate's root down to it.
type Place = Vec<String>;

/// The modules of a crate: their files and their arrows.
pub(crate) struct Rooms<'t> {
    /// Files of the modules below all roots.
    pub(crate) files: Vec<&'t SourceFile>,
    /// Files of the modules that are compiled only for tests.
    pub(crate) test_files: Vec<&'t SourceFile>,
    /// The arrows between the modules of the crate, by name; every module is a key.
    pub(crate) arrows: Arrows,
}

/// Arrows from each module, by the modules' names.
pub(crate) type Arrows = BTreeMap<String, BTreeSet<String>>;

impl<'t> Rooms<'t> {
    /// Finds the modules of the crate in `folder`, which is `crates/NAME`.
    pub(crate) fn of_crate(folder: &str, tree: &'t Tree<'_>) -> Self {
        let sources = format!("{folder}/src/");
        let is_root = |file: &&SourceFile| file.path.starts_with(&sources) && is_root(&file.path);
        let mut rooms = Self { files: Vec::new(), test_files: Vec::new(), arrows: BTreeMap::new() };
        for file in tree.files.iter().filter(is_root) {
            let mut house = House::default();
            house.enter(Module { file, place: Vec::new(), is_test: false }, tree);
            for (from, targets) in house.arrows() {
                rooms.arrows.entry(from).or_default().extend(targets);
            }
            rooms.files.extend(house.files);
            rooms.test_files.extend(house.test_files);
        }
        rooms
    }
}

/// Returns true for a file that cargo builds as a root of modules.
pub(crate) fn is_root(path: &str) -> bool {
    let within: Vec<&str> = path.split('/').skip(2).collect();
    matches!(
        within.as_slice(),
        ["src", "main.rs" | "lib.rs"]
            | ["src", "bin", _]
            | ["src", "bin", _, "main.rs"]
            | ["tests", _]
            | ["tests", _, "main.rs"]
    )
}

/// Returns the two paths at which the module `name` may lie, if the file `path` declares it.
pub(crate) fn places(path: &str, name: &str) -> [String; 2] {
    let (folder, file) = path.rsplit_once('/').unwrap_or(("", path));
    let holds_its_folder = file == "mod.rs" || is_root(path);
    let base = if holds_its_folder { folder } else { path.trim_end_matches(".rs") };
    [format!("{base}/{name}.rs"), format!("{base}/{name}/mod.rs")]
}

/// A module that is being added to a [`House`].
struct Module<'t> {
    file: &'t SourceFile,
    place: Place,
    is_test: bool,
}

/// The modules below one root.
#[derive(Default)]
struct House<'s> {
    files: Vec<&'s SourceFile>,
    test_files: Vec<&'s SourceFile>,
    /// The scopes by place, including the scopes of inline modules.
    scopes: BTreeMap<Place, &'s Scope>,
    /// The module in whose file each scope lies, by the place of the scope.
    homes: BTreeMap<Place, Place>,
}

/// Meaning of a path.
enum PathMeaning {
    Module(Place),
    /// An item, with the place of the module that defines it.
    Item(Place),
    /// An item of another crate.
    Outside,
}

impl<'s> House<'s> {
    /// Adds the module of `file` and all modules below it.
    fn enter(&mut self, module: Module<'s>, tree: &'s Tree<'_>) {
        let Module { file, place, is_test } = module;
        if is_test { &mut self.test_files } else { &mut self.files }.push(file);
        let Some(syntax) = tree.syntax.get(file.path.as_str()) else { return };
        for scope in &syntax.scopes {
            let scope_place = [place.clone(), scope.inline.clone()].concat();
            for child in &scope.children {
                let below = [scope.inline.clone(), vec![child.name.clone()]].concat();
                let places = places(&file.path, &below.join("/"));
                if let Some(file) = tree.files.iter().find(|file| places.contains(&file.path)) {
                    let place = [place.clone(), below].concat();
                    self.enter(Module { file, place, is_test: is_test || child.is_test }, tree);
                }
            }
            if !is_test {
                self.homes.insert(scope_place.clone(), place.clone());
                self.scopes.insert(scope_place, scope);
            }
        }
    }

    fn arrows(&self) -> Arrows {
        let mut arrows = Arrows::new();
        for (place, scope) in &self.scopes {
            let home = &self.homes[place];
            let imports = scope.imports.iter().filter(|import| !import.is_public);
            let imported = imports.filter_map(|import| {
                match self.follow(place, &import.path.segments, 0) {
                    PathMeaning::Item(target) => Some(target),
                    // The path brings in all names of the module, and not the module's own name.
                    PathMeaning::Module(target) if import.name.is_none() => Some(target),
                    PathMeaning::Module(_) | PathMeaning::Outside => None,
                }
            });
            let used =
                scope
                    .paths
                    .iter()
                    .filter_map(|path| match self.follow(place, &path.segments, 0) {
                        PathMeaning::Item(target) => Some(target),
                        PathMeaning::Module(_) | PathMeaning::Outside => None,
                    });
            let targets = imported.chain(used).map(|target| &self.homes[&target]);
            let targets = targets.filter(|target| *target != home).map(name);
            arrows.entry(name(home)).or_default().extend(targets);
        }
        arrows
    }

    /// Finds the meaning of `segments` in the module `place`.
    fn follow(&self, place: &Place, segments: &[String], re_exports: usize) -> PathMeaning {
        let mut at = place.clone();
        let mut may_rise = true;
        for (index, segment) in segments.iter().enumerate() {
            match segment.as_str() {
                "crate" if index == 0 => at.clear(),
                "self" if index == 0 => continue,
                "super" if may_rise => {
                    at.pop();
                    continue;
                }
                _ => match self.look_up(&at, segment, re_exports) {
                    Some(PathMeaning::Module(found)) => at = found,
                    Some(found) => return found,
                    None if index == 0 => return PathMeaning::Outside,
                    // The name is unknown, because a macro defines it.
                    None => return PathMeaning::Item(at),
                },
            }
            may_rise = false;
        }
        PathMeaning::Module(at)
    }

    /// Finds the meaning of `word` among the names of the module `place`.
    fn look_up(&self, place: &Place, word: &str, re_exports: usize) -> Option<PathMeaning> {
        let scope = self.scopes.get(place)?;
        if scope.items.contains(word) {
            return Some(PathMeaning::Item(place.clone()));
        }
        let child = [place.clone(), vec![word.to_owned()]].concat();
        if self.scopes.contains_key(&child) {
            return Some(PathMeaning::Module(child));
        }
        if re_exports == RE_EXPORTS_MAX {
            return None;
        }
        let named = scope.imports.iter().find(|import| import.name.as_deref() == Some(word));
        if let Some(import) = named {
            return Some(self.follow(place, &import.path.segments, re_exports + 1));
        }
        let all_of = scope.imports.iter().filter(|import| import.name.is_none());
        all_of
            .filter_map(|import| match self.follow(place, &import.path.segments, re_exports + 1) {
                PathMeaning::Module(found) if found != *place => Some(found),
                _ => None,
            })
            .find_map(|found| self.look_up(&found, word, re_exports + 1))
    }
}

/// Returns the name of the module at `place`, as code of the crate writes it.
fn name(place: &Place) -> String {
    if place.is_empty() { ROOT.to_owned() } else { place.join("::") }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks the arrows between `files`, whose paths begin in `src`. `expected` has the arrows of
    /// each module.
    #[track_caller]
    fn check(files: &[(&str, &str)], expected: &[(&str, &[&str])]) {
        let file = |(path, text): &(&str, &str)| SourceFile {
            path: format!("crates/a/src/{path}"),
            text: (*text).to_owned(),
        };
        let files: Vec<_> = files.iter().map(file).collect();
        let arrows = Rooms::of_crate("crates/a", &Tree::parse(&files)).arrows;
        let arrows: Vec<_> = arrows
            .iter()
            .filter(|(_, targets)| !targets.is_empty())
            .map(|(from, targets)| (from.as_str(), targets.iter().map(String::as_str).collect()))
            .collect();
        let expected: Vec<_> = expected.iter().map(|(from, to)| (*from, to.to_vec())).collect();
        assert_eq!(arrows, expected);
    }

    #[test]
    fn imports_and_paths_are_arrows() {
        check(
            &[
                ("lib.rs", "mod b;\nmod c;\nmod d;\nfn f() { d::f() }"),
                ("b.rs", "use crate::c::C;\nfn f() { super::d::f() }"),
                ("c.rs", "pub struct C;"),
                ("d.rs", "pub fn f() {}"),
            ],
            &[("b", &["c", "d"]), (ROOT, &["d"])],
        );
    }

    #[test]
    fn re_exports_are_seen_through() {
        check(
            &[
                ("lib.rs", "mod b;\nmod d;\npub use b::*;"),
                ("b.rs", "mod c;\npub use c::C as B;\npub use model::M;"),
                ("b/c.rs", "pub struct C;"),
                ("d.rs", "use crate::B;\nuse crate::b;\nfn f(m: b::M) {}"),
            ],
            &[("d", &["b::c"])],
        );
    }

    #[test]
    fn a_re_export_that_is_used_too_is_an_arrow() {
        check(
            &[
                ("lib.rs", "mod b;"),
                ("b.rs", "mod c;\npub use c::C;\nfn f(c: C) {}"),
                ("b/c.rs", "pub struct C;\nuse super::f;"),
            ],
            &[("b", &["b::c"]), ("b::c", &["b"])],
        );
    }

    #[test]
    fn inline_modules_belong_to_their_file() {
        check(
            &[
                ("lib.rs", "mod b;\nmod c;"),
                ("b.rs", "mod inner { use super::B; use crate::c::C; }\nstruct B;"),
                ("c.rs", "pub struct C;\nuse crate::b::inner::f;"),
            ],
            &[("b", &["c"]), ("c", &["b"])],
        );
    }

    #[test]
    fn tests_and_other_crates_have_no_arrows() {
        check(
            &[
                ("lib.rs", "mod b;\nmod c;\n#[cfg(test)]\nmod tests;"),
                ("b.rs", "use model::c::C;\n#[cfg(test)]\nmod tests { use crate::c::C; }"),
                ("c.rs", "pub struct C;"),
                ("tests.rs", "use crate::c::C;"),
            ],
            &[],
        );
    }

    #[test]
    fn two_names_that_import_each_other_end() {
        check(&[("lib.rs", "mod b;"), ("b.rs", "use self::c::d as c;\nfn f() { c::e() }")], &[]);
    }
}
