//! Pools of data, and pools of copies.

use chunk::Recompression;
use wire::proto;
use wire::proto::tend_pool_request::Work;

use super::connection::Admin;
use super::optional::{self, NameChange};
use super::packs::PackWork;
use super::recompression;
use super::words::words;
use crate::ClientError;
use crate::link::portions::{self, Section};

words!(
    /// Rule that says which nodes' packs share volumes.
    Collocation(proto::Collocation) {
        /// The packs of all nodes share volumes.
        No = "no",
        /// The packs of the nodes of one collocation group share volumes.
        Group = "group",
        /// Each node has volumes of its own.
        Node = "node",
    }
);

/// A pool.
#[derive(Clone, Debug)]
pub struct Pool {
    pub name: String,
    pub url: String,
    /// True for a pool of second copies.
    pub is_copy: bool,
    /// False while the pool's folder, bucket or library cannot be reached.
    pub is_available: bool,
    /// Pool that takes the packs for which this pool has no room.
    pub next: Option<String>,
    /// Maximum size that an administrator has set.
    pub capacity_bytes: Option<u64>,
    pub high_percent: u32,
    pub low_percent: u32,
    pub delay_days: u32,
    pub packs: u64,
    pub bytes: u64,
    /// Size that the pool can grow to, if it is known.
    pub bytes_max: Option<u64>,
    /// Number of packs that a copy pool lacks.
    pub missing_packs: u64,
    pub missing_bytes: u64,
    /// Number of errors of the pool's disk since the server started.
    pub disk_errors: u64,
    /// Use of volumes; `None` for a pool in a folder or a bucket.
    pub volume_use: Option<VolumeUse>,
}

/// Use of the volumes of a library by a pool.
#[derive(Clone, Debug)]
pub struct VolumeUse {
    pub library: String,
    /// Number of the pool's volumes.
    pub volumes: u64,
    pub collocation: Collocation,
    pub reclaim_percent: u32,
    pub reuse_delay_days: u32,
}

impl From<proto::PoolInfo> for Pool {
    fn from(message: proto::PoolInfo) -> Self {
        let collocation = message.collocation().into();
        let volume_use = optional::text(message.library).map(|library| VolumeUse {
            library,
            volumes: message.volumes.into(),
            collocation,
            reclaim_percent: message.reclaim_percent,
            reuse_delay_days: message.reuse_delay_days,
        });
        Self {
            name: message.name,
            url: message.url,
            is_copy: message.is_copy,
            is_available: message.is_there,
            next: optional::text(message.next),
            capacity_bytes: message.capacity_bytes,
            high_percent: message.high_percent,
            low_percent: message.low_percent,
            delay_days: message.delay_days,
            packs: message.packs,
            bytes: message.bytes,
            bytes_max: optional::number(message.bytes_max),
            missing_packs: message.missing_packs,
            missing_bytes: message.missing_bytes,
            disk_errors: message.disk_errors,
            volume_use,
        }
    }
}

/// A pool to make.
#[derive(Clone, Debug)]
pub struct NewPool {
    pub name: String,
    pub url: String,
    /// True for a pool of second copies.
    pub is_copy: bool,
    pub settings: PoolSettings,
}

/// Changes of a pool.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PoolChange {
    /// True if the pool's disk was lost and an empty folder takes its place.
    pub is_replaced: bool,
    pub settings: PoolSettings,
}

/// Settings of a pool; `None` leaves a setting as it is, or at its default for a new pool.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PoolSettings {
    pub next: Option<NameChange>,
    pub capacity: Option<CapacityChange>,
    pub high_percent: Option<u32>,
    pub low_percent: Option<u32>,
    pub delay_days: Option<u32>,
    pub collocation: Option<Collocation>,
    pub reclaim_percent: Option<u32>,
    pub reuse_delay_days: Option<u32>,
}

/// A change of the maximum size of a pool.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CapacityChange {
    /// Removes the maximum: only the pool's disk limits the pool.
    Remove,
    Set {
        bytes: u64,
    },
}

impl From<u64> for CapacityChange {
    /// Zero removes the maximum.
    fn from(bytes: u64) -> Self {
        optional::number(bytes).map_or(Self::Remove, |bytes| Self::Set { bytes })
    }
}

impl From<CapacityChange> for u64 {
    fn from(change: CapacityChange) -> Self {
        match change {
            CapacityChange::Remove => 0,
            CapacityChange::Set { bytes } => bytes,
        }
    }
}

impl PoolSettings {
    fn request(self, name: String) -> proto::PutPoolRequest {
        proto::PutPoolRequest {
            name,
            next: self.next.map(String::from),
            capacity_bytes: self.capacity.map(u64::from),
            high_percent: self.high_percent,
            low_percent: self.low_percent,
            delay_days: self.delay_days,
            collocation: self.collocation.map(|each| proto::Collocation::from(each).into()),
            reclaim_percent: self.reclaim_percent,
            reuse_delay_days: self.reuse_delay_days,
            ..proto::PutPoolRequest::default()
        }
    }
}

/// Work on the packs of pools.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum PoolTask {
    /// Copies to one copy pool, or to all copy pools, the packs that they lack.
    Copy { pool: Option<String> },
    /// Moves packs to the next pool: all packs if `all` is set, otherwise only while the pool is
    /// above its high mark. With `recompress`, the data is compressed anew with this effort.
    Drain { pool: String, all: bool, recompress: Option<Recompression> },
    /// Repairs damaged packs from other pools.
    Repair,
    /// Locks packs in object stores as long as policy locks the versions in them.
    Lock,
}

impl From<PoolTask> for proto::TendPoolRequest {
    fn from(task: PoolTask) -> Self {
        let request = |work: Work| Self { work: work.into(), ..Self::default() };
        match task {
            PoolTask::Copy { pool } => {
                Self { pool: pool.unwrap_or_default(), ..request(Work::Copy) }
            }
            PoolTask::Drain { pool, all, recompress } => {
                let recompress = recompress.map(recompression::message);
                Self { pool, all, recompress, ..request(Work::Drain) }
            }
            PoolTask::Repair => request(Work::Repair),
            PoolTask::Lock => request(Work::Lock),
        }
    }
}

impl Admin {
    /// Lists one pool, or all pools.
    pub fn pools(&mut self, name: Option<&str>) -> Result<Vec<Pool>, ClientError> {
        let pools = portions::all(|portion| {
            let name = name.unwrap_or_default().to_owned();
            let request = proto::PoolsRequest { name, portion: Some(portion) };
            let reply = self.call(async |server| server.pools(request).await)?;
            Ok(Section { items: reply.pools, next: reply.next })
        })?;
        Ok(pools.into_iter().map(Pool::from).collect())
    }

    pub fn add_pool(&mut self, pool: NewPool) -> Result<Pool, ClientError> {
        let NewPool { name, url, is_copy, settings } = pool;
        let request =
            proto::PutPoolRequest { is_new: true, url, is_copy, ..settings.request(name) };
        Ok(self.call(async |server| server.put_pool(request).await)?.into())
    }

    pub fn set_pool(&mut self, name: String, change: PoolChange) -> Result<Pool, ClientError> {
        let PoolChange { is_replaced, settings } = change;
        let request = proto::PutPoolRequest { is_replaced, ..settings.request(name) };
        Ok(self.call(async |server| server.put_pool(request).await)?.into())
    }

    pub fn remove_pool(&mut self, name: &str) -> Result<Pool, ClientError> {
        let request = proto::PoolsRequest { name: name.to_owned(), portion: None };
        Ok(self.call(async |server| server.remove_pool(request).await)?.into())
    }

    /// Works on the packs of pools; `visit` sees the progress.
    pub fn tend_pools(
        &mut self,
        task: PoolTask,
        visit: &mut dyn FnMut(&PackWork),
    ) -> Result<PackWork, ClientError> {
        let request = proto::TendPoolRequest::from(task);
        let stream = self.call(async |server| server.tend_pool(request).await)?;
        self.follow(stream, visit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_of_another_version_is_unknown() {
        for (code, collocation, word) in [
            (1, Collocation::No, "no"),
            (3, Collocation::Node, "node"),
            (0, Collocation::Unknown, "unknown"),
            (99, Collocation::Unknown, "unknown"),
        ] {
            let (library, collocation_code) = ("vault".to_owned(), code);
            let message = proto::PoolInfo {
                library,
                collocation: collocation_code,
                ..proto::PoolInfo::default()
            };
            let volumes = Pool::from(message).volume_use.expect("the pool is on volumes");
            assert_eq!((volumes.collocation, volumes.collocation.word()), (collocation, word));
        }
    }

    #[test]
    fn a_capacity_of_zero_removes_the_maximum() {
        for bytes in [0, 1 << 30] {
            assert_eq!(u64::from(CapacityChange::from(bytes)), bytes);
        }
        assert_eq!(CapacityChange::from(0), CapacityChange::Remove);
    }

    #[test]
    fn a_pool_outside_of_libraries_uses_no_volumes() {
        let message = proto::PoolInfo { next: String::new(), ..Default::default() };
        let pool = Pool::from(message.clone());
        assert!(pool.volume_use.is_none() && pool.next.is_none() && pool.bytes_max.is_none());
        let pool = Pool::from(proto::PoolInfo { library: "vault".to_owned(), ..message });
        assert_eq!(pool.volume_use.map(|volumes| volumes.library).as_deref(), Some("vault"));
    }
}
