//! The table of all options, by theme, and the search in it.

mod appearance;
mod backup;
mod command;
mod connection;
mod image;
mod restore;
mod schedule;
mod space;
mod statement;
mod virtual_machine;

use super::definition::Definition;

/// The themes, in the order of the manual.
const THEMES: [(&str, &[Definition]); 10] = [
    ("Connection and node", connection::OPTIONS),
    ("Backup and archive", backup::OPTIONS),
    ("Include and exclude statements", statement::OPTIONS),
    ("Restore, retrieve and queries", restore::OPTIONS),
    ("Schedules and logs", schedule::OPTIONS),
    ("Output and language", appearance::OPTIONS),
    ("Commands", command::OPTIONS),
    ("Images and snapshots", image::OPTIONS),
    ("Space management", space::OPTIONS),
    ("Virtual machines", virtual_machine::OPTIONS),
];

/// Returns all options, by theme.
pub fn definitions() -> impl Iterator<Item = &'static Definition> {
    THEMES.iter().flat_map(|(_, options)| options.iter())
}

/// Returns the themes with their options.
pub fn of_name() -> impl Iterator<Item = (&'static str, &'static [Definition])> {
    THEMES.into_iter()
}

/// Finds the option that `word` names or abbreviates.
pub fn find(word: &str) -> Option<&'static Definition> {
    if let Some(exact) = find_exactly(word) {
        return Some(exact);
    }
    match word.split_once('.') {
        Some((verb, suffix)) => {
            let named = |fits: &dyn Fn(&str) -> bool| {
                let is_named = |definition: &&Definition| {
                    definition
                        .spelling
                        .split_once('.')
                        .is_some_and(|(known, rest)| fits(rest) && is_verb(verb, known))
                };
                let mut found = definitions().filter(is_named);
                found.next().filter(|_| found.next().is_none())
            };
            named(&|rest| rest.eq_ignore_ascii_case(suffix)).or_else(|| {
                // Suffixes have no abbreviations of their own: any that means one of them is taken.
                named(&|rest| !rest.contains('.') && begins(rest, suffix))
            })
        }
        None => definitions()
            .filter(|definition| !definition.spelling.contains('.'))
            .find(|definition| definition.is_called(word)),
    }
}

/// Returns true if `word` stands for the verb of a statement. Before a suffix, four letters are
/// enough.
fn is_verb(word: &str, verb: &str) -> bool {
    word.len() >= 4 && begins(verb, word)
}

fn begins(whole: &str, word: &str) -> bool {
    let whole = whole.as_bytes().get(..word.len());
    !word.is_empty() && whole.is_some_and(|whole| whole.eq_ignore_ascii_case(word.as_bytes()))
}

/// Finds the option by its full name.
pub fn find_exactly(name: &str) -> Option<&'static Definition> {
    definitions().find(|definition| definition.spelling.eq_ignore_ascii_case(name))
}

/// Finds the option that an unknown word may mean: one that differs in a letter or two.
pub(super) fn similar(word: &str) -> Option<&'static Definition> {
    const LENGTH_MAX: usize = 40;
    if word.len() < 4 || word.len() > LENGTH_MAX {
        return None;
    }
    let word = word.to_ascii_lowercase();
    let distance = |definition: &&Definition| {
        distance(word.as_bytes(), definition.spelling.to_ascii_lowercase().as_bytes())
    };
    let nearest = definitions().min_by_key(distance)?;
    (distance(&nearest) <= 2).then_some(nearest)
}

/// Number of letters that must be inserted, removed or changed to make `one` into `other`.
fn distance(one: &[u8], other: &[u8]) -> usize {
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (index, letter) in one.iter().enumerate() {
        let mut diagonal = row[0];
        row[0] = index + 1;
        for (column, wanted) in other.iter().enumerate() {
            let changed = diagonal + usize::from(letter != wanted);
            diagonal = row[column + 1];
            row[column + 1] = changed.min(row[column] + 1).min(diagonal + 1);
        }
    }
    row[other.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_name_is_there_once_and_found() {
        let all: Vec<_> = definitions().collect();
        assert!(all.len() >= 230, "{} options", all.len());
        for definition in &all {
            let name = definition.name();
            assert_eq!(find(&name), Some(*definition), "{name}");
            assert_eq!(find(&name.to_lowercase()), Some(*definition), "{name}");
            let same = all.iter().filter(|other| other.name() == name).count();
            assert_eq!(same, 1, "{name}");
        }
    }

    /// Option files of twenty years have options that later clients do without.
    #[test]
    fn options_of_old_clients_are_known() {
        for (word, name) in [
            ("largecommbuffers", "LARGECOMMBUFFERS"),
            ("mailprog", "MAILPROG"),
            ("autodeploy", "AUTODEPLOY"),
            ("testflag", "TESTFLAGS"),
        ] {
            assert_eq!(find(word).map(Definition::name).as_deref(), Some(name));
        }
    }

    #[test]
    fn abbreviations_are_those_of_tsm() {
        let found = |word: &str| find(word).map(Definition::name);
        for (word, expected) in [
            ("incl.arch", Some("INCLUDE.ARCHIVE")),
            ("excl.back", Some("EXCLUDE.BACKUP")),
            ("exclude.d", None),
            ("exclude.di", Some("EXCLUDE.DIR")),
            ("exc.dir", None),
            ("enablelan", Some("ENABLELANFREE")),
            ("domain.i", Some("DOMAIN.IMAGE")),
        ] {
            assert_eq!(found(word).as_deref(), expected, "{word}");
        }
    }

    #[test]
    fn no_abbreviation_means_two_options() {
        let plain = definitions().filter(|definition| !definition.spelling.contains('.'));
        let plain: Vec<_> = plain.collect();
        for one in &plain {
            let shortest = &one.spelling[..one.letters_min()];
            for other in plain.iter().filter(|other| *other != one) {
                let is_exact = other.spelling.eq_ignore_ascii_case(shortest);
                let is_other = other.is_called(shortest) && !is_exact;
                assert!(!is_other, "{shortest} means {} and {}", one.spelling, other.spelling);
            }
        }
    }

    #[test]
    fn each_fate_is_a_sentence_without_its_full_stop() {
        for definition in definitions() {
            let special = definition.values.iter().map(|(_, fate)| *fate);
            for fate in std::iter::once(definition.fate).chain(special) {
                let text = fate.to_string();
                assert!(text.len() > 6 && !text.ends_with('.'), "{}: {text}", definition.spelling);
                assert!(text.is_ascii() && !text.contains('\n'), "{}", definition.spelling);
                assert!(!text.contains('|'), "{}: a table has this text", definition.spelling);
            }
        }
    }

    #[test]
    fn special_values_are_values_of_their_option() {
        for definition in definitions() {
            for (value, _) in definition.values {
                let usual = definition.kind.usual(value.as_bytes());
                assert_eq!(usual.as_deref(), Ok(value.as_bytes()), "{}", definition.spelling);
            }
        }
    }

    #[test]
    fn names_that_differ_in_a_letter_are_similar() {
        let similar = |word| similar(word).map(Definition::name);
        assert_eq!(similar("nodname").as_deref(), Some("NODENAME"));
        assert_eq!(similar("resourceutilisation").as_deref(), Some("RESOURCEUTILIZATION"));
        assert_eq!(similar("foo"), None);
        assert_eq!(similar("something-else-entirely"), None);
    }
}
