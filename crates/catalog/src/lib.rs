//! The catalogue: the durable truth about nodes, their filespaces, policy, packs, pools and
//! volumes.
//!
//! [`Catalog`] is the seam between Holdfast and its database. It combines one trait for each noun.
//! Each trait is in a file of its own, with the rows of its noun. The engines are [`sqlite`], which
//! is embedded, and [`postgres`], which several servers may share. Their statements are in `sql`,
//! in files of the same names.
//!
//! The catalogue does not interpret bulk rows: a directory page is a key, a digest and a body of
//! bytes. [`change`] is the pure half of a backup's commit: it computes the next state of a page.
//!
//! Invariants:
//! 1. A batch of writes is visible to readers, and durable, as a whole or not at all.
//! 2. A page row and its digest row are written by the same batch.
//! 3. Numbers of nodes, filespaces, packs, pools and volumes are never given twice.

pub mod actor;
mod alerts;
mod amounts;
mod answers;
mod api_keys;
mod approvals;
mod archives;
mod baselines;
mod batches;
pub mod change;
mod commit_times;
mod contacts;
mod credentials;
mod deletions;
mod details;
mod drills;
mod enrolment_keys;
mod error;
mod events;
mod expiry;
mod filespaces;
mod identities;
mod marks;
mod move_state;
mod nodes;
mod option_sets;
mod overview;
mod packs;
mod pages;
mod people;
mod policies;
mod pools;
pub mod postgres;
mod read_rules;
mod registrations;
mod relocate;
mod restores;
mod schedules;
mod sessions;
mod sign_ins;
mod sql;
pub mod sqlite;
mod statements;
mod tasks;
mod transfers;
mod usage_days;
mod versions;
mod volumes;

pub use alerts::{AlertChanges, AlertFilter, AlertRow, Alerts, Delivery, NoticeRow};
pub use amounts::{Amount, Amounts, Growth};
pub use answers::{AnswerRow, Answers};
pub use api_keys::{ApiKeyRow, ApiKeys};
pub use approvals::{
    ACTIVATE_POLICY, AboutDomain, ApprovalRow, ApprovalState, Approvals, Decision, MOVE_NODE,
};
pub use archives::{ArchiveChange, ArchiveRow, Archives};
pub use baselines::{BASELINES_MAX, BaselineRow, Baselines};
pub use batches::{Batches, CommitError, Write};
pub use commit_times::{COMMIT_BOUNDS_MICROS, CommitTimes};
pub use contacts::{ContactRow, Contacts, PollRow};
pub use credentials::{Certificate, Credentials, InvalidToken, TokenError, TokenRow};
pub use deletions::{DeletionRow, Deletions, TrashedVersion};
pub use details::{Details, DomainDetails, NodeDetails};
pub use drills::{DrillRow, Drills};
pub use enrolment_keys::{EnrolmentKeyRow, EnrolmentKeys, InvalidKey, KeyError, KeyRedemption};
pub use error::CatalogError;
pub use events::{EventRow, Events, LoggedEvent};
pub use expiry::{Day, Ending, Expiry, ExpiryState};
pub use filespaces::{Filespace, Filespaces};
pub use identities::{Identities, IdentityRow};
pub use marks::Marks;
pub use move_state::MoveState;
pub use nodes::{Locker, Locks, Node, NodeChange, NodeSight, Nodes};
pub use option_sets::{OptionSet, OptionSetStage, OptionSetVersion, OptionSets};
pub use overview::{EventOutcome, FinishedBackup, Overview, PackUsage};
pub use packs::{PackRow, PackState, Packs};
pub use pages::{PageDigest, PageKey, PageRow, PageSpan, Pages};
pub use people::{NewPerson, People, Person, PersonChange, RoleRow};
pub use policies::Policies;
pub use pools::{Collocation, PoolRow, Pools};
pub use read_rules::{ReadRule, ReadRules};
pub use registrations::{NodeAlteration, NodeRegistration, Registrations};
pub use relocate::{Location, arrive, has_left, leave, relocate, standing};
pub use restores::{RestoreRow, Restores};
pub use schedules::{
    Association, Control, EventFilter, EventKey, EventProgress, EventReport, Follower, ScheduleRow,
    ScheduledEvent, Schedules,
};
pub use sessions::{SessionRow, Sessions};
pub use sign_ins::{SignInRow, SignIns};
pub use statements::statements_of_thread;
pub use tasks::{LoggedRun, TaskEnd, TaskRun, Tasks};
pub use transfers::{ArchivedRow, FinishedTransfer, TransferFigures, Transfers};
pub use usage_days::{UsageDay, UsageDays, UsageSubject};
pub use versions::{VersionKey, VersionRow, Versions};
pub use volumes::{
    LibraryRow, PartRow, StoredPack, VolumeAccess, VolumePart, VolumeRow, VolumeState, Volumes,
};

/// All operations that Holdfast needs from its database.
///
/// Methods block, and may be called from any thread. A write returns once its effect survives a
/// power cut. Readers see all batches that were committed before they were called.
pub trait Catalog:
    Nodes
    + Registrations
    + Credentials
    + Filespaces
    + Pages
    + Versions
    + Packs
    + Pools
    + Volumes
    + Policies
    + OptionSets
    + Events
    + Schedules
    + Tasks
    + Archives
    + Deletions
    + Expiry
    + Sessions
    + Baselines
    + Drills
    + EnrolmentKeys
    + People
    + ApiKeys
    + SignIns
    + Details
    + Identities
    + Contacts
    + Amounts
    + Answers
    + Approvals
    + Alerts
    + Overview
    + UsageDays
    + Restores
    + Transfers
    + ReadRules
    + Marks
    + Batches
    + Send
    + Sync
{
    /// Writes the catalogue, as it is at one moment, into the new file `path`, while writers go on.
    fn copy_to(&self, path: &std::path::Path) -> Result<(), CatalogError>;

    /// Returns the time by the clock of the database; `None` if the database has no other clock
    /// than this machine.
    fn database_time(&self) -> Result<Option<model::ServerTime>, CatalogError>;

    /// Times of the writes of this process so far.
    fn commit_times(&self) -> CommitTimes;
}
