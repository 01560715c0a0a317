//! Finds circles of more than two modules within a crate.
//!
//! A module and its parent, or two halves of a former module, may use each other. Three modules in
//! a circle can be read, tested and changed only together.

use super::finding::{Finding, Rule};
use crate::source::{Rooms, Tree, circles};

/// Maximum number of modules in a circle that is not reported.
const MEMBERS_MAX: usize = 2;

pub(crate) fn check(tree: &Tree<'_>) -> Vec<Finding> {
    tree.crates().into_iter().flat_map(|folder| of_crate(folder, tree)).collect()
}

fn of_crate(folder: &str, tree: &Tree<'_>) -> Vec<Finding> {
    let arrows = Rooms::of_crate(folder, tree).arrows;
    let large = circles(&arrows).into_iter().filter(|circle| circle.members.len() > MEMBERS_MAX);
    large
        .map(|circle| {
            let count = circle.members.len();
            let members: Vec<&str> = circle.members.iter().copied().collect();
            let message = format!(
                "{count} modules in a circle ({}), turn an arrow round: {}",
                members.join(", "),
                circle.way_round(&arrows).join(" -> "),
            );
            Finding { amount: count as u64, ..Finding::new(folder, 1, Rule::Circles, message) }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::SourceFile;

    #[test]
    fn a_circle_is_told_with_a_way_round_it() {
        let files = [
            ("Cargo.toml", ""),
            ("src/lib.rs", "mod b;\nmod c;\nmod d;\nmod e;"),
            ("src/b.rs", "use crate::c::C;\npub struct B;"),
            ("src/c.rs", "use crate::d::D;\npub struct C;\nfn f(e: crate::e::E) {}"),
            ("src/d.rs", "use crate::b::B;\npub struct D;"),
            ("src/e.rs", "pub struct E(super::c::C);"),
        ];
        let files = files.map(|(path, text)| SourceFile {
            path: format!("crates/a/{path}"),
            text: text.to_owned(),
        });
        let found: Vec<_> = check(&Tree::parse(&files)).iter().map(ToString::to_string).collect();
        let expected = "crates/a:1: 4 modules in a circle (b, c, d, e), turn an arrow round: \
                        b -> c -> d -> b [circles]";
        assert_eq!(found, [expected]);
        let pair = &files[..1];
        assert_eq!(check(&Tree::parse(pair)), []);
    }
}
