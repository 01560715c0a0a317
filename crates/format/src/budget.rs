//! Budget of a decoder: the memory that decoded values may take.
//!
//! Bytes from a peer may be much shorter than the values that they stand for. So a decoder takes
//! the memory of the values from a budget before it makes them.

use std::cell::Cell;

/// Memory, in bytes, that is left for decoded values. Several messages may share a budget.
#[derive(Debug)]
pub struct Budget {
    left: Cell<usize>,
}

/// The values would take more memory than is left.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("it expands to more memory than its sender may use")]
pub struct OverBudget;

impl Budget {
    pub fn new(bytes: usize) -> Self {
        Self { left: Cell::new(bytes) }
    }

    /// Makes the budget for values that this program has checked before it stored them.
    pub fn unlimited() -> Self {
        Self::new(usize::MAX)
    }

    /// Returns the number of bytes that are left.
    pub fn left(&self) -> usize {
        self.left.get()
    }

    /// Takes the memory of `count` values of `item_bytes` bytes each. After a failure the budget is
    /// as before.
    pub fn take(&self, count: usize, item_bytes: usize) -> Result<(), OverBudget> {
        let bytes = count.checked_mul(item_bytes).ok_or(OverBudget)?;
        let left = self.left.get().checked_sub(bytes).ok_or(OverBudget)?;
        self.left.set(left);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_is_spent_once() {
        let budget = Budget::new(100);
        assert_eq!(budget.take(9, 10), Ok(()));
        assert_eq!(budget.take(11, 1), Err(OverBudget));
        assert_eq!(budget.left(), 10);
        assert_eq!(budget.take(usize::MAX, 2), Err(OverBudget));
        assert_eq!(budget.take(10, 1), Ok(()));
        assert_eq!(budget.left(), 0);
    }
}
