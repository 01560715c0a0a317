//! Marks: numbers about the catalogue as a whole, by name.

use crate::CatalogError;

/// The marks of the catalogue. [`crate::Write::SetMark`] sets one.
pub trait Marks {
    /// The mark `name`; `None` if it was never set.
    fn mark(&self, name: &str) -> Result<Option<i64>, CatalogError>;
}
