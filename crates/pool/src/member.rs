//! One pool of a running server.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use model::{PackNumber, PoolId};

use crate::mark::Mark;
use crate::reserve::{Purpose, Reserve};
use crate::spec::{PoolSpec, Role};
use crate::storage::{Distance, PackStorage, RecordedBytes, Survey};

/// Use of a pool's space.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Usage {
    /// True if the pool's storage is available.
    pub is_there: bool,
    pub packs: u64,
    /// Size of all packs, in bytes.
    pub bytes: u64,
    /// Number of bytes that fit: the pool's capacity, or its packs and the free space of its disk
    /// together, without the reserve; 0 if unknown.
    pub bytes_max: u64,
}

/// Rank of a pool among the pools that have a pack. Readers try the lowest rank first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ReadingOrder {
    distance: Distance,
    is_copy: bool,
    pool: PoolId,
}

/// A pool and its packs.
///
/// Invariant: `packs` has the packs that are complete in the storage or being written to it, with
/// their last known sizes; `bytes` is the sum of the sizes. While the storage is unavailable, only
/// a pool on volumes has packs.
pub(crate) struct Member {
    pub(crate) spec: PoolSpec,
    pub(crate) storage: Arc<dyn PackStorage>,
    pub(crate) is_there: bool,
    packs: BTreeMap<PackNumber, u64>,
    bytes: u64,
}

impl Member {
    /// Opens the storage and lists its packs.
    pub(crate) fn open(spec: PoolSpec, recorded: RecordedBytes<'_>) -> io::Result<Self> {
        let storage = spec.open_storage();
        let Survey { is_there, packs } = storage.survey(spec.mark, recorded)?;
        assert!(
            is_there || packs.is_empty() || storage.distance() == Distance::Volume,
            "an unavailable storage lists no packs"
        );
        let bytes = packs.values().sum();
        Ok(Self { spec, storage, is_there, packs, bytes })
    }

    /// Returns the member for a pool whose storage is unavailable.
    pub(crate) fn away(spec: PoolSpec) -> Self {
        let storage = spec.open_storage();
        Self { spec, storage, is_there: false, packs: BTreeMap::new(), bytes: 0 }
    }

    /// Replaces the definition of the same pool.
    pub(crate) fn redefine(&mut self, spec: PoolSpec) {
        assert_eq!(self.spec.id, spec.id, "a member belongs to one pool");
        assert_eq!(self.spec.mark, spec.mark, "a member keeps its mark");
        self.storage = spec.open_storage();
        self.spec = spec;
    }

    pub(crate) fn id(&self) -> PoolId {
        self.spec.id
    }

    pub(crate) fn mark(&self) -> Mark {
        self.spec.mark
    }

    pub(crate) fn is_primary(&self) -> bool {
        self.spec.role == Role::Primary
    }

    /// Returns true if the pool is available and new packs may be written to it.
    pub(crate) fn takes_packs(&self) -> bool {
        self.is_there && self.storage.intake().is_some()
    }

    pub(crate) fn reading_order(&self) -> ReadingOrder {
        let distance = self.storage.distance();
        ReadingOrder { distance, is_copy: !self.is_primary(), pool: self.spec.id }
    }

    /// Returns all packs with their sizes in bytes.
    pub(crate) fn packs(&self) -> &BTreeMap<PackNumber, u64> {
        &self.packs
    }

    pub(crate) fn has(&self, pack: PackNumber) -> bool {
        self.packs.contains_key(&pack)
    }

    /// Takes note that the pool has the pack, with this size.
    pub(crate) fn put(&mut self, pack: PackNumber, bytes: u64) {
        let before = self.packs.insert(pack, bytes).unwrap_or(0);
        assert!(before <= self.bytes, "a pool has the bytes of each of its packs");
        self.bytes = self.bytes - before + bytes;
    }

    /// Takes note that the pool no longer has the pack.
    pub(crate) fn remove(&mut self, pack: PackNumber) {
        let before = self.packs.remove(&pack).unwrap_or(0);
        assert!(before <= self.bytes, "a pool has the bytes of each of its packs");
        self.bytes -= before;
    }

    /// Returns the number of bytes for which the pool's capacity has room.
    pub(crate) fn room_bytes(&self) -> u64 {
        let room = |capacity: u64| capacity.saturating_sub(self.bytes);
        self.spec.capacity_bytes.map_or(u64::MAX, room)
    }

    /// Returns true if the pool's capacity has room for `bytes` more.
    pub(crate) fn has_room(&self, bytes: u64) -> bool {
        bytes <= self.room_bytes()
    }

    /// Returns the usage without the free space of the disk, because asking the disk may take long.
    pub(crate) fn usage(&self) -> Usage {
        Usage {
            is_there: self.is_there,
            packs: self.packs.len() as u64,
            bytes: self.bytes,
            bytes_max: self.spec.capacity_bytes.unwrap_or(0),
        }
    }
}

impl Usage {
    /// Adds the free space of the disk, except for `reserve`, for a pool that has no capacity of
    /// its own.
    pub(crate) fn with_free_space(self, storage: &dyn PackStorage, reserve: Reserve) -> Self {
        if self.bytes_max > 0 || !self.is_there {
            return self;
        }
        let bytes_max = storage
            .room(reserve, Purpose::Data)
            .map_or(0, |room| self.bytes.saturating_add(room));
        Self { bytes_max, ..self }
    }
}
