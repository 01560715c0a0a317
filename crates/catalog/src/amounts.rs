//! Amounts of what nodes have stored, which grow and shrink with the batches that change it.
//!
//! All versions of objects count: active ones, inactive ones, archive copies, and deleted ones as
//! long as they can be brought back. Sizes are those of the files on the nodes, so that nobody
//! learns from an amount what others have stored.
//!
//! A filespace is counted from its beginning. One that is older than this table is counted once, by
//! [`Amounts::count_filespace`]; before that its changes are not counted.

use model::{DomainId, NodeId, Object};

use crate::{CatalogError, Filespace};

/// Maximum number of bytes of a filespace that are counted. Sizes come from nodes, and a sum must
/// not be too large for a column.
pub(crate) const BYTES_MAX: i64 = 1 << 61;

/// An amount of what is stored.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Amount {
    /// Number of versions of objects.
    pub objects: u64,
    /// Sizes of files, as they are on the node.
    pub bytes: u64,
}

impl Amount {
    /// Returns this amount and another one together.
    pub fn plus(self, other: Self) -> Self {
        Self {
            objects: self.objects.saturating_add(other.objects),
            bytes: self.bytes.saturating_add(other.bytes),
        }
    }

    /// Returns the amount after a change. It does not fall below nothing.
    pub fn grown(self, growth: Growth) -> Self {
        Self {
            objects: self.objects.saturating_add_signed(growth.objects),
            bytes: self.bytes.saturating_add_signed(growth.bytes),
        }
    }
}

/// A change of an amount.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Growth {
    pub objects: i64,
    pub bytes: i64,
}

impl Growth {
    pub fn is_nothing(self) -> bool {
        self == Self::default()
    }

    /// Returns this change and another one together.
    pub fn plus(self, other: Self) -> Self {
        Self {
            objects: self.objects.saturating_add(other.objects),
            bytes: self.bytes.saturating_add(other.bytes),
        }
    }

    /// Returns the change back.
    pub fn undone(self) -> Self {
        Self { objects: self.objects.saturating_neg(), bytes: self.bytes.saturating_neg() }
    }

    /// Returns the growth by one version of an object.
    pub fn of<P>(object: &Object<P>) -> Self {
        let bytes = if object.stat.kind == model::Kind::File { object.stat.size } else { 0 };
        Self { objects: 1, bytes: i64::try_from(bytes).unwrap_or(i64::MAX) }
    }
}

/// The amounts of filespaces and domains.
pub trait Amounts {
    /// The amount of what the nodes of the domain have stored.
    fn amount(&self, domain: DomainId) -> Result<Amount, CatalogError>;

    /// The amount of what the nodes of each domain have stored. Domains without filespaces are left
    /// out.
    fn amounts(&self) -> Result<Vec<(DomainId, Amount)>, CatalogError>;

    /// The amount of what each node of the domain has stored. Nodes without filespaces are left
    /// out.
    fn node_amounts(&self, domain: DomainId) -> Result<Vec<(NodeId, Amount)>, CatalogError>;

    /// At most `limit` filespaces that are not counted.
    fn uncounted(&self, limit: usize) -> Result<Vec<Filespace>, CatalogError>;

    /// Sets the amount of a filespace. The caller ensures that nobody changes the filespace
    /// meanwhile. A filespace that is gone is passed over.
    fn count_filespace(&self, filespace: &Filespace, amount: Amount) -> Result<(), CatalogError>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_grow_and_never_fall_below_nothing() {
        let amount = Amount { objects: 1, bytes: 10 };
        let growth = Growth { objects: 1, bytes: 5 };
        assert_eq!(amount.grown(growth), Amount { objects: 2, bytes: 15 });
        assert_eq!(amount.grown(growth).grown(growth.undone()), amount);
        assert_eq!(amount.grown(growth.plus(growth).undone()), Amount::default());
        assert_eq!(amount.plus(Amount { objects: 0, bytes: u64::MAX }).bytes, u64::MAX);
    }
}
