//! Marks: numbers about the catalogue as a whole, by name.

use std::collections::BTreeMap;

use crate::CatalogError;

/// The marks of the catalogue. [`crate::Write::SetMark`] sets one.
pub trait Marks {
    /// The mark `name`; `None` if it was never set.
    fn mark(&self, name: &str) -> Result<Option<i64>, CatalogError>;

    /// The marks whose names begin with `prefix`, which has no '%' and no '_', by name.
    fn marks_of(&self, prefix: &str) -> Result<BTreeMap<String, i64>, CatalogError>;

    /// Sets marks by name, all of them or none.
    fn set_marks(&self, marks: &BTreeMap<String, i64>) -> Result<(), CatalogError>;
}
