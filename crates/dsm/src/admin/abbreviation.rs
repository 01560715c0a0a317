//! Abbreviations of words, as TSM's manuals write them: the capitals at the beginning of a word are
//! its shortest form, as in `ACtlog` or `Query`.

/// Reason why a word stands for no name.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum AbbreviationError {
    Unknown,
    /// Several names begin so.
    Ambiguous(Vec<String>),
}

/// Returns the name in upper case.
pub fn full(name: &str) -> String {
    name.to_ascii_uppercase()
}

/// Returns true if `word` is `name`, or a form of it that is not too short.
pub fn stands_for(word: &str, name: &str) -> bool {
    let shortest = name.bytes().take_while(u8::is_ascii_uppercase).count();
    word.len() >= shortest && begins(name, word)
}

fn begins(name: &str, word: &str) -> bool {
    !word.is_empty()
        && name.len() >= word.len()
        && name.as_bytes()[..word.len()].eq_ignore_ascii_case(word.as_bytes())
}

/// Returns the index of the name that `word` stands for. A form that is shorter than TSM's shortest
/// is accepted if only one name begins so.
pub fn resolve<'a>(
    word: &str,
    names: impl Iterator<Item = &'a str> + Clone,
) -> Result<usize, AbbreviationError> {
    let at = |test: &dyn Fn(&str) -> bool| names.clone().position(test);
    let complete = at(&|name| name.eq_ignore_ascii_case(word));
    if let Some(index) = complete.or_else(|| at(&|name| stands_for(word, name))) {
        return Ok(index);
    }
    let mut meant: Vec<&str> = names.clone().filter(|name| begins(name, word)).collect();
    meant.dedup();
    match meant[..] {
        [] => Err(AbbreviationError::Unknown),
        [only] => Ok(at(&|name| name == only).expect("it is one of the names")),
        _ => Err(AbbreviationError::Ambiguous(meant.into_iter().map(full).collect())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capitals_are_the_shortest_form() {
        for (word, name, expected) in [
            ("q", "Query", true),
            ("QUE", "Query", true),
            ("queryx", "Query", false),
            ("", "Query", false),
            ("a", "ACtlog", false),
            ("act", "ACtlog", true),
            ("libv", "LIBVolume", true),
            ("lib", "LIBVolume", false),
            ("\u{e9}", "ACtlog", false),
        ] {
            assert_eq!(stands_for(word, name), expected, "{word} {name}");
        }
    }

    #[test]
    fn a_form_that_only_one_name_begins_with_is_enough() {
        let names = ["ACtlog", "ASSOCiation", "Node", "LIBRary", "LIBVolume"];
        let resolve = |word: &str| resolve(word, names.into_iter());
        assert_eq!(resolve("as"), Ok(1));
        assert_eq!(resolve("n"), Ok(2));
        assert_eq!(resolve("library"), Ok(3));
        assert_eq!(resolve("x"), Err(AbbreviationError::Unknown));
        let both = vec!["LIBRARY".to_owned(), "LIBVOLUME".to_owned()];
        assert_eq!(resolve("lib"), Err(AbbreviationError::Ambiguous(both)));
    }
}
