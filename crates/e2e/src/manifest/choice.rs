//! Comparison with a tree whose objects may each be in one of several states.

use std::collections::BTreeSet;

use super::{Manifest, Object, assert_same, diff};

/// Fails with the first differences unless each object of `found` is as in one of `states`, or is
/// missing as in one of them.
#[track_caller]
pub fn assert_one_of(states: &[&Manifest], found: &Manifest) {
    assert_same(&expected(states, found), found);
}

/// Returns the tree that should have been found: each object as it is, if a state has it so, and
/// otherwise as in the first state that has it.
fn expected(states: &[&Manifest], found: &Manifest) -> Manifest {
    let paths = states.iter().flat_map(|state| state.objects.keys());
    let paths: BTreeSet<_> = paths.chain(found.objects.keys()).collect();
    let mut expected = Manifest::default();
    for path in paths {
        let is = found.objects.get(path);
        let mut may_be = states.iter().map(|state| state.objects.get(path));
        let object = match may_be.clone().any(|state| is_same(state, is)) {
            true => is,
            false => may_be.find_map(|state| state),
        };
        expected.objects.extend(object.map(|object| (path.clone(), object.clone())));
    }
    expected
}

fn is_same(expected: Option<&Object>, found: Option<&Object>) -> bool {
    let alone = |object: Option<&Object>| {
        let objects = object.map(|object| (Vec::new(), object.clone())).into_iter().collect();
        Manifest { objects }
    };
    diff(&alone(expected), &alone(found)).is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch::Scratch;

    /// Makes the manifest of a tree with files, each with a letter as its name and another letter
    /// as its content.
    fn tree(files: &str) -> Manifest {
        let scratch = Scratch::new();
        for file in files.split_whitespace() {
            let (name, content) = file.split_at(1);
            std::fs::write(scratch.join(name), content).unwrap();
        }
        let mut manifest = Manifest::take(scratch.path()).unwrap();
        for object in manifest.objects.values_mut() {
            object.mtime_ns = 0;
        }
        manifest
    }

    #[track_caller]
    fn check(first: &str, second: &str, found: &str, is_right: bool) {
        let [first, second, found] = [first, second, found].map(tree);
        let expected = expected(&[&first, &second], &found);
        assert_eq!(diff(&expected, &found).is_empty(), is_right);
    }

    #[test]
    fn each_object_is_as_in_one_of_the_states() {
        check("a1 b1", "a2 b1 c1", "a1 b1", true);
        check("a1 b1", "a2 b1 c1", "a2 b1", true);
        check("a1 b1", "a2 b1 c1", "a1 b1 c1", true);
        check("a1 b1", "a2", "a1", true);
        check("a1 b1", "a2 b1", "a3 b1", false);
        check("a1 b1", "a2 b1", "b1", false);
        check("a1 b1", "a2", "a1 b2", false);
        check("a1", "a1", "a1 b1", false);
    }
}
