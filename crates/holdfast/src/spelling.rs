//! Words with a slip of the hand: which known word is meant. The module is pure.

/// Returns the most similar of `names` that `word` differs from by a slip of the hand: by a letter,
/// and in longer words by a letter for each three.
pub(crate) fn similar<'a>(word: &str, names: &[&'a str]) -> Option<&'a str> {
    let letters = word.chars().count();
    let slips_max = (letters / 3).max(1);
    names
        .iter()
        .map(|&name| (strsim::osa_distance(word, name), name))
        .filter(|(slips, _)| *slips <= slips_max && *slips < letters)
        .min_by_key(|(slips, _)| *slips)
        .map(|(_, name)| name)
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
}
