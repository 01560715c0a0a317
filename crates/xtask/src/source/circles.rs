//! Circles of arrows. A circle is a set of modules in which each module reaches all others by
//! arrows.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::rooms::Arrows;

/// Modules that reach each other.
#[derive(PartialEq, Eq, Debug)]
pub(crate) struct Circle<'a> {
    pub(crate) members: BTreeSet<&'a str>,
}

/// Finds the circles of two or more modules, sorted by their first members.
pub(crate) fn circles(arrows: &Arrows) -> Vec<Circle<'_>> {
    let reached: BTreeMap<&str, BTreeSet<&str>> =
        arrows.keys().map(|from| (from.as_str(), reach(arrows, from))).collect();
    let mut circles = Vec::new();
    let mut placed = BTreeSet::new();
    for (from, targets) in &reached {
        if placed.contains(from) || !targets.contains(from) {
            continue;
        }
        let returns = |to: &&&str| reached.get(**to).is_some_and(|back| back.contains(from));
        let members: BTreeSet<&str> = targets.iter().filter(returns).copied().collect();
        placed.extend(members.iter().copied());
        circles.push(Circle { members });
    }
    circles
}

impl<'a> Circle<'a> {
    /// Returns a shortest way along arrows from the first member back to itself.
    pub(crate) fn way_round(&self, arrows: &'a Arrows) -> Vec<&'a str> {
        let Some((first, targets)) =
            self.members.first().and_then(|name| arrows.get_key_value(*name))
        else {
            return Vec::new();
        };
        let mut ways: VecDeque<Vec<&str>> =
            targets.iter().map(|to| vec![first.as_str(), to.as_str()]).collect();
        let mut seen = BTreeSet::new();
        while let Some(way) = ways.pop_front() {
            let last = way[way.len() - 1];
            if last == first {
                return way;
            }
            if seen.insert(last) {
                let next = arrows.get(last).into_iter().flatten();
                ways.extend(next.map(|to| [way.as_slice(), &[to.as_str()]].concat()));
            }
        }
        Vec::new()
    }
}

/// Returns the modules that `from` reaches by one or more arrows.
fn reach<'a>(arrows: &'a Arrows, from: &str) -> BTreeSet<&'a str> {
    let mut reached = BTreeSet::new();
    let mut pending: Vec<&str> = vec![from];
    while let Some(at) = pending.pop() {
        for to in arrows.get(at).into_iter().flatten() {
            if reached.insert(to.as_str()) {
                pending.push(to);
            }
        }
    }
    reached
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks the circles of `arrows`, which are written `a>b`. `expected` has the members of each
    /// circle and a way round it.
    #[track_caller]
    fn check(arrows: &str, expected: &[(&str, &str)]) {
        let mut parsed = Arrows::new();
        for arrow in arrows.split_whitespace() {
            let (from, to) = arrow.split_once('>').expect("an arrow");
            parsed.entry(from.to_owned()).or_default().insert(to.to_owned());
            parsed.entry(to.to_owned()).or_default();
        }
        let found: Vec<_> = circles(&parsed)
            .iter()
            .map(|circle| {
                let members = circle.members.iter().copied().collect::<Vec<_>>().join(" ");
                (members, circle.way_round(&parsed).join(">"))
            })
            .collect();
        let found: Vec<_> = found.iter().map(|(m, w)| (m.as_str(), w.as_str())).collect();
        assert_eq!(found, expected, "{arrows}");
    }

    #[test]
    fn arrows_that_only_point_down_make_no_circle() {
        check("a>b b>c a>c", &[]);
    }

    #[test]
    fn circles_are_found_apart() {
        check("a>b b>a b>c c>d d>e e>c", &[("a b", "a>b>a"), ("c d e", "c>d>e>c")]);
    }

    #[test]
    fn circles_with_a_module_in_common_are_one() {
        check("a>b b>a b>c c>b", &[("a b c", "a>b>a")]);
    }
}
