//! Audit: the packs of all pools are read and compared with their checksums.

use model::ServerTime;
use wire::proto;

use super::connection::Admin;
use crate::ClientError;

/// Request to begin an audit.
#[derive(Clone, Copy, Debug, Default)]
pub struct AuditRequest {
    /// True to compare every chunk with its digest, and not only stored checksums.
    pub data: bool,
    /// Maximum number of bytes that are read per second.
    pub bytes_per_sec_max: Option<u64>,
}

/// Progress of an audit, or its result.
#[derive(Clone, Debug, Default)]
pub struct Audit {
    pub packs: u64,
    pub packs_done: u64,
    /// Number of quanta that were read.
    pub quanta: u64,
    /// Number of bytes that were read.
    pub bytes: u64,
    /// Number of quanta that are damaged.
    pub damaged: u64,
    /// Damaged parts of packs. Only the result has them.
    pub damages: Vec<Damage>,
    /// Some of the versions that cannot be restored because of the damage. Only the result has
    /// them.
    pub lost_versions: Vec<LostVersion>,
    /// Number of all versions that cannot be restored because of the damage.
    pub lost_versions_count: u64,
    /// Unavailable pools. Their packs were not read.
    pub pools_away: Vec<String>,
    /// Pools on volumes, which have an audit of their own.
    pub pools_on_volumes: Vec<String>,
    pub catalog: CatalogFindings,
}

/// Damage of the catalogue. Only the result has it.
#[derive(Clone, Debug, Default)]
pub struct CatalogFindings {
    /// Faults of the database, in its own words.
    pub faults: Vec<String>,
    /// The first directories with rows that cannot be decoded.
    pub directories: Vec<DamagedDirectory>,
    /// Number of rows that cannot be decoded.
    pub damaged_rows: u64,
    /// Loss if the newest sound copy replaces the catalogue; `None` if no available pool has one.
    pub loss: Option<CatalogLoss>,
}

/// Part of the catalogue that its newest sound copy lacks.
#[derive(Clone, Copy, Debug)]
pub struct CatalogLoss {
    /// Number of the copy.
    pub copy: u64,
    pub taken: ServerTime,
    /// Number of readable versions that were made since then.
    pub versions: u64,
    /// Number of backups that have ended since then.
    pub backups: u64,
}

/// A directory of a node whose rows in the catalogue are damaged.
#[derive(Clone, Debug)]
pub struct DamagedDirectory {
    pub node: String,
    pub path: Vec<u8>,
}

impl CatalogFindings {
    pub fn is_damaged(&self) -> bool {
        self.damaged_rows > 0 || !self.faults.is_empty()
    }
}

/// A damaged part of a pack.
#[derive(Clone, Debug)]
pub struct Damage {
    pub pack: u64,
    pub pool: String,
    pub chunks: ChunkRange,
    pub reason: String,
    /// True if the pack was repaired from another pool.
    pub is_repaired: bool,
}

/// Chunks of a pack.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ChunkRange {
    /// The whole pack.
    All,
    /// Chunks from `first` to the end of the pack, whose number of chunks is not known.
    From { first: u32 },
    /// Chunks from `first` up to, but not including, `end`.
    Between { first: u32, end: u32 },
}

impl ChunkRange {
    fn new(first: u32, end: u32) -> Self {
        match (first, end) {
            (0, 0) => Self::All,
            (first, u32::MAX) => Self::From { first },
            (first, end) => Self::Between { first, end },
        }
    }

    /// Returns the first chunk and the chunk after the last, as messages have them.
    pub fn bounds(self) -> (u32, u32) {
        match self {
            Self::All => (0, 0),
            Self::From { first } => (first, u32::MAX),
            Self::Between { first, end } => (first, end),
        }
    }
}

/// A version that cannot be restored as a whole.
#[derive(Clone, Debug)]
pub struct LostVersion {
    pub node: String,
    pub path: Vec<u8>,
    pub is_active: bool,
}

impl From<proto::AuditReply> for Audit {
    fn from(message: proto::AuditReply) -> Self {
        let damage = |damage: proto::Damage| Damage {
            pack: damage.pack,
            pool: damage.pool,
            chunks: ChunkRange::new(damage.first_chunk, damage.end_chunk),
            reason: damage.reason,
            is_repaired: damage.repaired,
        };
        let version = |victim: proto::Victim| LostVersion {
            node: victim.node,
            path: victim.path.to_vec(),
            is_active: victim.active,
        };
        let directory = |damaged: proto::DamagedDirectory| DamagedDirectory {
            node: damaged.node,
            path: damaged.path.to_vec(),
        };
        Self {
            packs: message.packs,
            packs_done: message.packs_done,
            quanta: message.quanta,
            bytes: message.bytes,
            damaged: message.damaged,
            damages: message.damages.into_iter().map(damage).collect(),
            lost_versions: message.victims.into_iter().map(version).collect(),
            lost_versions_count: message.victim_count,
            pools_away: message.away,
            pools_on_volumes: message.on_volumes,
            catalog: CatalogFindings {
                faults: message.catalog_faults,
                directories: message.catalog_directories.into_iter().map(directory).collect(),
                damaged_rows: message.catalog_rows,
                loss: message.catalog_loss.map(|loss| CatalogLoss {
                    copy: loss.copy,
                    taken: ServerTime(loss.taken),
                    versions: loss.versions,
                    backups: loss.backups,
                }),
            },
        }
    }
}

impl Admin {
    /// Audits the packs of all pools; `visit` sees the progress.
    pub fn audit(
        &mut self,
        request: AuditRequest,
        visit: &mut dyn FnMut(&Audit),
    ) -> Result<Audit, ClientError> {
        let rate = request.bytes_per_sec_max.unwrap_or(0);
        let request = proto::AuditRequest { data: request.data, rate };
        let stream = self.call(async |server| server.audit(request).await)?;
        self.follow(stream, visit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_of_chunks_keep_their_bounds() {
        for (bounds, range) in [
            ((0, 0), ChunkRange::All),
            ((0, u32::MAX), ChunkRange::From { first: 0 }),
            ((3, 9), ChunkRange::Between { first: 3, end: 9 }),
        ] {
            assert_eq!(ChunkRange::new(bounds.0, bounds.1), range);
            assert_eq!(range.bounds(), bounds);
        }
    }
}
