//! Volumes of the libraries that the server uses.

use model::ServerTime;
use wire::proto;
use wire::proto::set_volume_request::Change;
use wire::proto::tend_volumes_request::Work;

use super::connection::Admin;
use super::optional;
use super::packs::PackWork;
use super::words::words;
use crate::ClientError;
use crate::link::portions::{self, Section};

words!(
    /// State of a volume.
    VolumeState(proto::VolumeState) {
        Scratch = "scratch",
        Filling = "filling",
        Full = "full",
        /// Nothing on the volume is needed, and its reuse delay is not over.
        Pending = "pending",
    }
);

words!(
    /// Access to a volume.
    VolumeAccess(proto::VolumeAccess) {
        ReadWrite = "read-write",
        ReadOnly = "read-only",
        /// The volume is not in its library.
        Offsite = "offsite",
        /// The volume must not be mounted.
        Unavailable = "unavailable",
        /// The volume and everything on it are lost.
        Destroyed = "destroyed",
    }
);

/// A volume.
#[derive(Clone, Debug)]
pub struct Volume {
    pub library: String,
    pub name: String,
    /// Pool that has the volume; `None` for a scratch volume.
    pub pool: Option<String>,
    pub group: Option<String>,
    pub state: VolumeState,
    pub access: VolumeAccess,
    /// Place of a volume that is offsite.
    pub location: Option<String>,
    pub written_bytes: u64,
    /// Size of the packs that are still needed.
    pub live_bytes: u64,
    pub errors: u64,
    pub changed: Option<ServerTime>,
}

impl From<proto::VolumeInfo> for Volume {
    fn from(message: proto::VolumeInfo) -> Self {
        let (state, access) = (message.state().into(), message.access().into());
        Self {
            library: message.library,
            name: message.name,
            pool: optional::text(message.pool),
            group: optional::text(message.group),
            state,
            access,
            location: optional::text(message.location),
            written_bytes: message.written_bytes,
            live_bytes: message.live_bytes,
            errors: message.errors.into(),
            changed: optional::time(message.changed),
        }
    }
}

/// Filter for a list of volumes; `None` accepts every value.
#[derive(Clone, Debug, Default)]
pub struct VolumeFilter {
    pub library: Option<String>,
    pub pool: Option<String>,
    pub volume: Option<String>,
}

/// Request to label volumes.
#[derive(Clone, Debug)]
pub struct LabellingRequest {
    pub library: String,
    /// Names of the volumes. If there are none, every blank volume of the library is labelled.
    pub volumes: Vec<String>,
    /// True to label also volumes that Holdfast has labelled and the server does not know.
    pub overwrite: bool,
    /// Size of the largest block; `None` for the server's default.
    pub block_bytes: Option<u32>,
}

/// The result of labelling one volume.
#[derive(Clone, Debug)]
pub struct Labelling {
    pub volume: String,
    /// Reason why the volume was not labelled; `None` if it was labelled.
    pub problem: Option<String>,
}

/// A change of one volume.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum VolumeChange {
    /// Sets the access. It must not be [`VolumeAccess::Offsite`].
    Access(VolumeAccess),
    /// Takes the volume out of its library, to `location`.
    Offsite { location: String },
    /// Takes the volume into its library again.
    Onsite,
    /// Removes a volume that holds nothing from the catalogue.
    Remove,
}

impl From<VolumeChange> for Change {
    fn from(change: VolumeChange) -> Self {
        match change {
            VolumeChange::Access(access) => Self::Access(proto::VolumeAccess::from(access).into()),
            VolumeChange::Offsite { location } => Self::Offsite(location),
            VolumeChange::Onsite => Self::Onsite(true),
            VolumeChange::Remove => Self::Remove(true),
        }
    }
}

/// Work on volumes.
#[derive(Clone, Debug)]
pub enum VolumeTask {
    /// Empties the volumes of one pool, or of all pools, that are at least `dead_percent` dead.
    /// `None` stands for each pool's setting. If volumes are named, no other is emptied.
    Reclaim { pool: Option<String>, volumes: VolumeList, dead_percent: Option<u32> },
    /// Moves the needed packs to other volumes.
    Move(VolumeList),
    /// Reads the volumes and checks their packs.
    Audit(VolumeList),
    /// Adds to the catalogue the packs that the volumes hold.
    Import(VolumeList),
}

/// Volumes by name.
#[derive(Clone, Debug, Default)]
pub struct VolumeList {
    /// Library of the volumes. It must be given if several libraries have volumes of these names.
    pub library: Option<String>,
    pub names: Vec<String>,
}

impl From<VolumeTask> for proto::TendVolumesRequest {
    fn from(task: VolumeTask) -> Self {
        let of = |work: Work, volumes: VolumeList| Self {
            work: work.into(),
            volumes: volumes.names,
            library: volumes.library.unwrap_or_default(),
            ..Self::default()
        };
        match task {
            VolumeTask::Reclaim { pool, volumes, dead_percent } => Self {
                pool: pool.unwrap_or_default(),
                dead_percent: dead_percent.unwrap_or(0),
                ..of(Work::Reclaim, volumes)
            },
            VolumeTask::Move(volumes) => of(Work::Move, volumes),
            VolumeTask::Audit(volumes) => of(Work::Audit, volumes),
            VolumeTask::Import(volumes) => of(Work::Import, volumes),
        }
    }
}

impl Admin {
    pub fn volumes(&mut self, filter: &VolumeFilter) -> Result<Vec<Volume>, ClientError> {
        let volumes = portions::all(|portion| {
            let VolumeFilter { library, pool, volume } = filter.clone();
            let request = proto::VolumesRequest {
                library: library.unwrap_or_default(),
                pool: pool.unwrap_or_default(),
                volume: volume.unwrap_or_default(),
                portion: Some(portion),
            };
            let reply = self.call(async |server| server.volumes(request).await)?;
            Ok(Section { items: reply.volumes, next: reply.next })
        })?;
        Ok(volumes.into_iter().map(Volume::from).collect())
    }

    /// Labels volumes; `visit` sees the result of each. The server stops when the connection ends.
    pub fn label_volumes(
        &mut self,
        request: LabellingRequest,
        visit: &mut dyn FnMut(&Labelling),
    ) -> Result<(), ClientError> {
        let request = proto::LabelVolumesRequest {
            library: request.library,
            volumes: request.volumes,
            overwrite: request.overwrite,
            block_bytes: request.block_bytes.unwrap_or(0),
        };
        let mut stream = self.call(async |server| server.label_volumes(request).await)?;
        while let Some(message) = self.next(&mut stream)? {
            let problem = optional::text(message.problem);
            visit(&Labelling { volume: message.volume, problem });
        }
        Ok(())
    }

    /// Changes one volume. `library` may be `None` if only one library has a volume of this name.
    pub fn set_volume(
        &mut self,
        library: Option<&str>,
        volume: &str,
        change: VolumeChange,
    ) -> Result<Volume, ClientError> {
        let request = proto::SetVolumeRequest {
            library: library.unwrap_or_default().to_owned(),
            volume: volume.to_owned(),
            change: Some(change.into()),
        };
        Ok(self.call(async |server| server.set_volume(request).await)?.into())
    }

    /// Works on volumes; `visit` sees the progress.
    pub fn tend_volumes(
        &mut self,
        task: VolumeTask,
        visit: &mut dyn FnMut(&PackWork),
    ) -> Result<PackWork, ClientError> {
        let request = proto::TendVolumesRequest::from(task);
        let stream = self.call(async |server| server.tend_volumes(request).await)?;
        self.follow(stream, visit)
    }
}
