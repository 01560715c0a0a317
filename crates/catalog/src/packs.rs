//! Packs, in whatever storage their pools have them.

use model::{DomainId, NodeId, PackNumber};

use crate::CatalogError;

/// State of a pack.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PackState {
    /// The pack takes more quanta.
    Open,
    Sealed,
    /// Nothing names its chunks, and nothing new may name them. Reclamation removes the pack once
    /// that is certain.
    Condemned,
    /// An audit or a reader has found damage in the pack; nothing new may name its chunks.
    Damaged,
}

impl PackState {
    /// All states, in the order of their codes in the catalogue.
    pub(crate) const ALL: [Self; 4] = [Self::Open, Self::Sealed, Self::Condemned, Self::Damaged];

    /// Returns true if the pack takes no more quanta.
    pub fn is_sealed(self) -> bool {
        self != Self::Open
    }
}

/// A pack as the catalogue knows it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PackRow {
    pub number: PackNumber,
    pub domain: DomainId,
    pub state: PackState,
    pub bytes: u64,
    /// The node whose data the pack has, if all its data is of one node. Writing `None` leaves the
    /// stored node as it is.
    pub node: Option<NodeId>,
}

/// The packs of all pools.
pub trait Packs {
    /// All packs, by number.
    fn packs(&self) -> Result<Vec<PackRow>, CatalogError>;

    /// The lowest number that no pack has ever had.
    fn next_pack(&self) -> Result<PackNumber, CatalogError>;
}
