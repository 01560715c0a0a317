//! Administration over the socket in the server's folder.
//!
//! Each module covers one noun: its types, their conversion from messages, and the calls. A value
//! that only a newer server knows becomes `Unknown`, or is refused with an error that names it.

mod audit;
mod backups;
mod catalog;
mod connection;
mod events;
mod expiration;
mod keys;
mod libraries;
mod nodes;
mod option_sets;
mod optional;
mod packs;
mod policies;
mod pools;
mod queue;
mod reclamation;
mod recompression;
mod rest;
mod schedules;
mod servers;
mod tasks;
mod transfers;
mod usage;
mod versions;
mod volumes;
mod words;

pub use audit::{
    Audit, AuditRequest, CatalogFindings, CatalogLoss, ChunkRange, Damage, DamagedDirectory,
    LostVersion,
};
pub use backups::FinishedBackup;
pub use catalog::{CatalogCopy, CatalogCopyProgress};
pub use connection::{Admin, RemoteServer};
pub use events::{Event, LogFilter};
pub use expiration::{Expiration, ExpirationRequest};
pub use keys::{EnrolmentKey, NewEnrolmentKey};
pub use libraries::{
    DriveState, Element, ElementKind, Library, LibraryChange, LibraryDrive, LibraryPlace,
    LibraryWork, NewLibrary,
};
pub use nodes::{IssuedToken, Node, NodeChange, NodeContact, NodeRegistration, Revocation};
pub use option_sets::{OptionSet, OptionSetChange, OptionSetReview, OptionSetVersion};
pub use optional::NameChange;
pub use packs::{FailureSubject, PackFailure, PackWork};
pub use policies::{
    ArchiveGroupChange, BackupGroupChange, ClassChange, Domain, LimitChange, ManagementClass,
    PolicyDifference, PolicyEdit, PolicyReview, PolicySet,
};
pub use pools::{
    CapacityChange, Collocation, NewPool, Pool, PoolChange, PoolSettings, PoolTask, VolumeUse,
};
pub use queue::{QueuedRequest, RequestKind, Requester};
pub use reclamation::{Reclamation, ReclamationRequest};
pub use recompression::RecompressionEffect;
pub use rest::RestAnswer;
pub use schedules::{EventFilter, Follower, PollingAgent, Schedule, ScheduledEvent, StartedAction};
pub use servers::{Health, Server};
pub use tasks::{TaskEnd, TaskRun};
pub use transfers::FinishedTransfer;
pub use volumes::{
    Labelling, LabellingRequest, Volume, VolumeAccess, VolumeChange, VolumeFilter, VolumeList,
    VolumeState, VolumeTask,
};
