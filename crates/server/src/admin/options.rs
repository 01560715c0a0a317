//! Option sets: statements that the administrator gives to nodes.

use catalog::OptionSet;
use store::{Store, StoreError, domains};

/// Lists one option set, or all option sets.
pub(super) fn list(store: &Store, name: Option<&str>) -> Result<Vec<OptionSet>, StoreError> {
    let mut sets = store.catalog.option_sets()?;
    let Some(name) = name else { return Ok(sets) };
    sets.retain(|set| set.name.eq_ignore_ascii_case(name));
    if sets.is_empty() {
        return Err(StoreError::not_found(format!(
            "there is no option set {name}; 'holdfast admin optionset list' shows all option sets"
        )));
    }
    Ok(sets)
}

/// Stores an option set. Its text must be a list of statements.
pub(super) fn put(store: &Store, set: &OptionSet) -> Result<(), StoreError> {
    store::check_name(&set.name, "an option set")?;
    let source = |line| policy::Source::OptionSet { name: set.name.clone(), line };
    policy::statement::parse_list(&set.text, source)
        .map_err(|error| StoreError::usage(error.to_string()))?;
    store.catalog.put_option_set(set)?;
    domains::note(store, sys::clock::now(), "option set stored", &set.name)
}

/// Removes an option set.
pub(super) fn remove(store: &Store, name: &str) -> Result<(), StoreError> {
    store.catalog.remove_option_set(name)?;
    domains::note(store, sys::clock::now(), "option set removed", name)
}
