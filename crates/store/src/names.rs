//! Check of the names that administrators choose.

use crate::error::StoreError;

/// Fails if `name` is not a valid name. `kind` is the noun for the named object, with its article:
/// "a pool".
pub fn check_name(name: &str, kind: &str) -> Result<(), StoreError> {
    if policy::is_name(name) {
        return Ok(());
    }
    Err(StoreError::usage(format!(
        "'{}' cannot be the name of {kind}: give 1 to 64 letters, digits, '.', '-' or '_'",
        name.escape_debug()
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_name_is_shown_with_its_kind() {
        assert_eq!(check_name("OFFICE-1", "a pool"), Ok(()));
        let error = check_name("two words", "a pool").expect_err("a space is refused");
        assert!(error.to_string().starts_with("'two words' cannot be the name of a pool: "));
    }
}
