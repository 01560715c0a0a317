//! Counts with their nouns, for messages and the audit trail.

/// Returns the number with its noun: "1 pack", "2 packs". The plural of `noun` must be regular.
pub(crate) fn counted(number: u64, noun: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {noun}{plural}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_singular_and_none_is_plural() {
        let counts = [0, 1, 2].map(|number| counted(number, "pack"));
        assert_eq!(counts, ["0 packs", "1 pack", "2 packs"]);
    }
}
