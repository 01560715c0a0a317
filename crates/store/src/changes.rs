//! Changes of objects in words, for the activity log. No secret may come here.

use std::fmt::Display;

/// Maximum number of characters of a value that is shown.
const SHOWN_CHARS_MAX: usize = 100;

/// The words about a change of an object.
#[derive(Debug, Default)]
pub struct Changes(Vec<String>);

impl Changes {
    /// Adds a value that is another one now.
    pub fn compare(&mut self, field: &str, before: impl Display, after: impl Display) {
        let (before, after) = (before.to_string(), after.to_string());
        if before != after {
            self.0.push(format!("{field} from {} to {}", shown(&before), shown(&after)));
        }
    }

    /// Adds words about a change whose values nobody may see.
    pub fn add(&mut self, words: &str) {
        self.0.push(words.to_owned());
    }

    /// Returns the words with the name of the object: "LAB: bytes from 10 to 20".
    pub fn of(&self, object: &str) -> String {
        match &self.0[..] {
            [] => format!("{object}: nothing is different"),
            all => format!("{object}: {}", all.join(", ")),
        }
    }
}

fn shown(value: &str) -> String {
    if value.is_empty() {
        return "nothing".to_owned();
    }
    let mut shown: String = value.chars().take(SHOWN_CHARS_MAX).collect();
    if shown.len() < value.len() {
        shown.push_str("...");
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_differs_is_named() {
        let mut changes = Changes::default();
        assert_eq!(changes.of("LAB"), "LAB: nothing is different");
        changes.compare("nodes", 7, 7);
        changes.compare("tag", "", "lab");
        changes.compare("description", "x".repeat(101), "");
        changes.add("password");
        let long = "x".repeat(100);
        let expected = format!(
            "LAB: tag from nothing to lab, description from {long}... to nothing, password"
        );
        assert_eq!(changes.of("LAB"), expected);
    }
}
