//! The length of lists that may be long.

/// Maximum number of items that a list has without `--limit`.
pub(super) const LISTED_MAX: u32 = 100;

/// Returns what is said about a list of `listed` items that may have ended early, although nobody
/// has chosen its length.
pub(super) fn cut_note(listed: usize, limit: u32) -> Option<String> {
    let is_cut = limit == LISTED_MAX && listed >= limit as usize;
    is_cut.then(|| {
        format!("Only {listed} are listed, and there may be more: --limit N lists up to N.")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_that_may_have_ended_early_says_so() {
        assert_eq!(cut_note(99, LISTED_MAX), None);
        assert!(cut_note(100, LISTED_MAX).is_some_and(|note| note.contains("--limit")));
        assert_eq!(cut_note(20, 20), None, "somebody has chosen this length");
    }
}
