//! Words with a slip of the hand, and abbreviated words: which known words are meant. The module is
//! pure.

/// Maximum number of words that a question names.
const NAMED_MAX: usize = 4;

/// Returns the most similar of `names` that `word` differs from by a slip of the hand: by a letter,
/// and in longer words by a letter for each three.
pub fn similar<'a>(word: &str, names: &[&'a str]) -> Option<&'a str> {
    let letters = word.chars().count();
    let slips_max = (letters / 3).max(1);
    // Lengths that differ by more need more slips. A word from elsewhere may be very long.
    let is_near = |name: &&str| name.chars().count().abs_diff(letters) <= slips_max;
    names
        .iter()
        .copied()
        .filter(is_near)
        .map(|name| (strsim::osa_distance(word, name), name))
        .filter(|(slips, _)| *slips <= slips_max && *slips < letters)
        .min_by_key(|(slips, _)| *slips)
        .map(|(_, name)| name)
}

/// Returns the names that `word` abbreviates, if they are few, or else the one to which it is
/// similar.
pub fn meant<'a>(word: &str, names: &[&'a str]) -> Vec<&'a str> {
    let begun: Vec<&str> = names.iter().copied().filter(|name| name.starts_with(word)).collect();
    match begun.len() {
        1..=NAMED_MAX => begun,
        _ => similar(word, names).into_iter().collect(),
    }
}

/// Returns the question for those of `names` that the unknown `word` means, as in `did you mean
/// 'backup'?`; `None` if it is like none.
pub fn question(word: &str, names: &[&str]) -> Option<String> {
    question_for(&meant(word, names))
}

/// Returns the question for the names that are meant; `None` if there are none.
pub fn question_for(meant: &[&str]) -> Option<String> {
    let quoted: Vec<String> = meant.iter().map(|name| format!("'{name}'")).collect();
    (!quoted.is_empty()).then(|| format!("did you mean {}?", quoted.join(" or ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_slip_of_the_hand_is_similar() {
        let names = ["backup", "delete", "find", "list", "verify", "diff"];
        for (word, expected) in [
            ("bakcup", Some("backup")),
            ("lsit", Some("list")),
            ("verifiy", Some("verify")),
            ("fnd", Some("find")),
            ("query", None),
            ("version", None),
            ("selective", None),
            ("q", None),
        ] {
            assert_eq!(similar(word, &names), expected, "{word}");
        }
    }

    #[test]
    fn an_abbreviation_means_all_words_that_it_begins() {
        let names = ["failed", "future", "started", "severed"];
        for (word, expected) in [
            ("fai", "did you mean 'failed'?"),
            ("f", "did you mean 'failed' or 'future'?"),
            ("statred", "did you mean 'started'?"),
        ] {
            assert_eq!(question(word, &names).as_deref(), Some(expected), "{word}");
        }
        assert_eq!(question("over", &names), None);
        assert_eq!(question("", &["a", "b", "c", "d", "e"]), None, "five words are too many");
    }
}
