//! Amounts in plans: a number of objects, and the sum of their sizes.

use client::Amount;
use serde::Serialize;

use crate::quantity;

#[derive(Serialize)]
pub(super) struct AmountDocument {
    objects: u64,
    bytes: u64,
}

impl From<Amount> for AmountDocument {
    fn from(Amount { objects, bytes }: Amount) -> Self {
        Self { objects, bytes }
    }
}

/// Returns the row of a table: label, objects, size.
pub(super) fn amount_row(label: &str, Amount { objects, bytes }: Amount) -> [String; 3] {
    [label.to_owned(), quantity::count(objects), quantity::bytes_with_unit(bytes)]
}
