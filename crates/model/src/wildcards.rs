//! Wildcards in names and descriptions that people choose.

/// Returns true if `text` matches `pattern`, where `*` is any text and `?` any character.
///
/// After a mismatch, the last `*` takes one more character. An earlier `*` need not take more: if
/// the rest fits later, it also fits after the last one. So the time is bounded by the product of
/// the two lengths.
pub fn matches_wildcards(pattern: &str, text: &str) -> bool {
    let (mut pattern, mut text) = (pattern.chars(), text.chars());
    // The rest of the pattern after the last star, and the text that it has not tried yet.
    let mut retry = None;
    loop {
        let rest = text.clone();
        match (pattern.next(), text.next()) {
            (None, None) => return true,
            (Some('*'), _) => {
                text = rest;
                retry = Some((pattern.clone(), text.clone()));
                continue;
            }
            (Some(expected), Some(actual)) if expected == '?' || expected == actual => continue,
            _ => {}
        }
        let Some((after_star, untried)) = &mut retry else { return false };
        if untried.next().is_none() {
            return false;
        }
        (pattern, text) = (after_star.clone(), untried.clone());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptions_match_with_wildcards() {
        for (pattern, text, expected) in [
            ("", "", true),
            ("", "a", false),
            ("*", "", true),
            ("a*", "a", true),
            ("project*", "project 2026", true),
            ("*2026", "project 2026", true),
            ("p?oject*", "pr\u{f6}ject", false),
            ("pr?ject", "pr\u{f6}ject", true),
            ("*a*b*", "xaxbx", true),
            ("*a*b*", "xbxax", false),
            ("web-*", "web-01", true),
            ("web-?", "web-01", false),
            ("*ab", "aab", true),
            ("a?", "a", false),
        ] {
            assert_eq!(matches_wildcards(pattern, text), expected, "{pattern} {text}");
        }
        let (stars, text) = ("*a".repeat(200), "a".repeat(150));
        assert!(!matches_wildcards(&stars, &text), "is decided soon");
    }
}
