//! Packs written to volumes: grouped by whose they are, a filemark every few gigabytes, and in the
//! catalogue only once they are durable.
//!
//! ```text
//!   queue --begin, write--> unsettled --filemark--> settled: rows in the catalogue, table kept
//!     ^                        |
//!     +------------------------+   the drive or the volume failed in front of the filemark
//! ```
//!
//! 1. A pack is settled when all its parts are durable and the catalogue names them, in one batch.
//! 2. What a crash leaves on a volume and no row names is space lost until the volume is reclaimed.
//! 3. A pack that does not fit goes on on the next volume.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use catalog::{
    Collocation, PartRow, PoolRow, StoredPack, VolumeAccess, VolumeRow, VolumeState, Write,
};
use format::volume::{ObjectId, Part};
use model::{Name, NodeId, PackNumber};
use tape::medium::{Medium, MediumError};
use tape::operator::{Lent, LoanError};
use tape::volume::{Continuation, Progress, VolumeError, VolumeWriter, WriterOptions};
use tonic::Status;

use super::fetch::Who;
use super::site::{Site, known};
use super::{Volumes, reclaim};
use crate::core::Core;
use crate::recovery;
use crate::refusal;

/// Bytes between two filemarks: each costs a drive some seconds.
const GROUP_BYTES: u64 = 4 << 30;
/// Volumes that may fail in one run before it gives up.
const FAILURES_MAX: usize = 8;

/// What becomes of the packs of a run.
pub(crate) trait Carrying {
    /// The pack is settled.
    fn stored(&mut self, pack: PackNumber) -> Result<(), Status>;

    /// It cannot be read anywhere, and stays as it is.
    fn failed(&mut self, pack: PackNumber, reason: String);

    /// Whether the run is to go on.
    fn goes_on(&mut self) -> bool;
}

/// Writes `packs` to volumes of the pool; none of `avoided`.
pub(crate) fn write(
    core: &Arc<Core>,
    pool: &PoolRow,
    packs: &[PackNumber],
    avoided: &BTreeSet<u64>,
    carrying: &mut dyn Carrying,
) -> Result<(), Status> {
    let library = super::library_of(&pool.url).unwrap_or_default();
    let site = core.volumes.site(library).map_err(Status::failed_precondition)?;
    for (group, packs) in grouped(core, pool, packs)? {
        let mut session = Session {
            core,
            volumes: &core.volumes,
            site: &site,
            pool,
            group,
            queue: packs.into(),
            unsettled: VecDeque::new(),
            parts: BTreeMap::new(),
            going_on: None,
            avoided: avoided.clone(),
            damaged: BTreeSet::new(),
            failures: 0,
        };
        session.run(carrying)?;
    }
    Ok(())
}

/// The packs by the group whose volumes they go to.
fn grouped(
    core: &Core,
    pool: &PoolRow,
    packs: &[PackNumber],
) -> Result<BTreeMap<String, Vec<PackNumber>>, Status> {
    let failed = |error: catalog::CatalogError| refusal::catalog(&error);
    if pool.collocation == Collocation::No {
        return Ok(BTreeMap::from([(String::new(), packs.to_vec())]));
    }
    let nodes = core.catalog.nodes().map_err(failed)?;
    let group_of = |node: NodeId| {
        let node = nodes.iter().find(|known| known.id == node)?;
        let group = node
            .collocation_group
            .clone()
            .filter(|_| pool.collocation == Collocation::Group);
        Some(group.unwrap_or_else(|| node.name.to_string()))
    };
    let rows = core.catalog.packs().map_err(failed)?;
    let owners: BTreeMap<PackNumber, NodeId> =
        rows.iter().filter_map(|row| Some((row.number, row.node?))).collect();
    let mut groups: BTreeMap<String, Vec<PackNumber>> = BTreeMap::new();
    for pack in packs {
        let group = owners.get(pack).and_then(|node| group_of(*node)).unwrap_or_default();
        groups.entry(group).or_default().push(*pack);
    }
    Ok(groups)
}

/// What a pack is called on a volume.
fn name_of(pack: PackNumber) -> Name {
    Name::new(format!("{:010}.pack", pack.0).as_bytes()).expect("digits and a dot")
}

/// Of the pack in this pool, wherever it is written.
pub(super) fn object_of(pool: &PoolRow, pack: PackNumber) -> ObjectId {
    let mut object = [0; 16];
    object[..8].copy_from_slice(&pack.0.to_le_bytes());
    object[8..].copy_from_slice(&pool.mark[..8]);
    ObjectId(object)
}

pub(super) fn pack_of(object: ObjectId) -> PackNumber {
    let mut number = [0; 8];
    number.copy_from_slice(&object.0[..8]);
    PackNumber(u64::from_le_bytes(number))
}

/// One group's packs on their way.
struct Session<'a> {
    core: &'a Arc<Core>,
    volumes: &'a Arc<Volumes>,
    site: &'a Arc<Site>,
    pool: &'a PoolRow,
    group: String,
    queue: VecDeque<PackNumber>,
    /// Written since the last filemark, in order.
    unsettled: VecDeque<PackNumber>,
    /// Durable parts of packs that are not whole yet.
    parts: BTreeMap<PackNumber, Vec<PartRow>>,
    /// Where the first pack of the queue goes on.
    going_on: Option<Continuation>,
    avoided: BTreeSet<u64>,
    /// Packs that are damaged on their disk, and that a volume has.
    damaged: BTreeSet<PackNumber>,
    failures: usize,
}

/// Why a volume is left.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Leaving {
    Full,
    Done,
    /// Somebody else needs the drive, or the volume is not to be written any more.
    Wanted,
    /// The next pack lies on a volume itself, which may need this drive.
    Reading,
    Stopped,
}

type Writer<'a> = VolumeWriter<&'a mut dyn Medium>;

impl Session<'_> {
    fn run(&mut self, carrying: &mut dyn Carrying) -> Result<(), Status> {
        while !self.queue.is_empty() {
            self.read_ahead(carrying)?;
            if self.queue.is_empty() {
                break;
            }
            let mut volume =
                self.volumes.choose(self.site, self.pool, &self.group, &self.avoided)?;
            if volume.state == VolumeState::Scratch {
                // After a loss it may not be as scratch as the catalogue thinks.
                recovery::check_released(self.core)?;
            }
            let mut known = known(&volume).map_err(Status::internal)?;
            // What is on a scratch volume is looked at where it gets its new label.
            known.label = known.label.filter(|_| volume.state != VolumeState::Scratch);
            let operator = self.site.operator().map_err(Status::failed_precondition)?;
            let mut lent = match operator.borrow(&known) {
                Ok(lent) => lent,
                // Why is known already, or will pass.
                Err(LoanError::Absent { .. }) => {
                    self.avoided.insert(volume.id);
                    continue;
                }
                Err(LoanError::Volume { reason, .. }) => {
                    self.leave_alone(&volume, &reason)?;
                    continue;
                }
                Err(error) => return Err(Status::unavailable(error.to_string())),
            };
            let filled = match self.volumes.relabel_scratch(&mut lent, &mut volume, self.pool) {
                Ok(()) => self.fill(&mut lent, &mut volume, carrying),
                Err(trouble) => Err(trouble),
            };
            match filled {
                Ok(Leaving::Stopped) => {
                    return Err(Status::cancelled("it was cancelled; the next run goes on"));
                }
                Ok(Leaving::Full | Leaving::Done | Leaving::Wanted | Leaving::Reading) => {}
                Err(Trouble::Status(status)) => return Err(status),
                Err(Trouble::Volume(error)) => {
                    self.put_back();
                    self.blame(&mut lent, &volume, &error)?;
                }
            }
        }
        Ok(())
    }

    /// Whether the pack is on volumes alone, and not on the disk for a while.
    fn must_be_read(&self, pack: PackNumber) -> bool {
        let comes_from_volume =
            self.core.pools.is_only_shelved(pack) || self.damaged.contains(&pack);
        comes_from_volume && !self.volumes.is_staged(pack)
    }

    /// Has the next packs on the disk, while no drive is held: of those that cannot be had is told.
    fn read_ahead(&mut self, carrying: &mut dyn Carrying) -> Result<(), Status> {
        let mut bytes = 0;
        let near = self.queue.iter().copied().take_while(|pack| {
            bytes += self.core.pools.bytes_of(*pack);
            bytes <= reclaim::staged_max(self.core)
        });
        let near: Vec<PackNumber> = near.collect();
        let near =
            if near.is_empty() { self.queue.iter().copied().take(1).collect() } else { near };
        near.iter().for_each(|pack| self.volumes.drop_salvaged(*pack));
        if !near.iter().any(|pack| self.must_be_read(*pack)) {
            return Ok(());
        }
        reclaim::bring(self.core, &near)?;
        while let Some(&pack) = self.queue.front().filter(|pack| self.must_be_read(**pack)) {
            // Once more by itself: it says why, or is there then.
            if let Err(error) = self.volumes.fetch(self.pool.id, pack, (&Who::server(), false)) {
                self.queue.pop_front();
                self.parts.remove(&pack);
                self.going_on = None;
                carrying.failed(pack, model::chain(&error));
            }
        }
        Ok(())
    }

    /// Writes as much as the volume takes.
    fn fill(
        &mut self,
        lent: &mut Lent,
        volume: &mut VolumeRow,
        carrying: &mut dyn Carrying,
    ) -> Result<Leaving, Trouble> {
        let _holding = Holding::begin();
        let watch = lent.watch();
        let label = lent.label.as_ref().map(|label| label.volume);
        let label = label.ok_or(VolumeError::Blank)?;
        let options = WriterOptions { group_bytes: u64::MAX };
        let mut writer = VolumeWriter::open(lent.medium(), label, options)?;
        let mut since_mark = 0;
        let leaving = loop {
            let Some(&pack) = self.queue.front() else { break Leaving::Done };
            if !carrying.goes_on() {
                break Leaving::Stopped;
            }
            let is_taken_away = volume.access != VolumeAccess::ReadWrite;
            if is_taken_away || (!self.unsettled.is_empty() && watch.is_wanted_back()) {
                break Leaving::Wanted;
            }
            if self.must_be_read(pack) {
                break Leaving::Reading;
            }
            match self.put(&mut writer, pack)? {
                Put::Written(bytes) => since_mark += bytes,
                Put::Full => break Leaving::Full,
                Put::MustBeRead => break Leaving::Reading,
                Put::Unreadable(reason) => {
                    self.queue.pop_front();
                    self.parts.remove(&pack);
                    self.going_on = None;
                    carrying.failed(pack, reason);
                }
            }
            if since_mark >= GROUP_BYTES {
                since_mark = 0;
                let parts = writer.sync()?;
                self.settle(volume, &parts, carrying)?;
            }
        };
        let (closed, _) = writer.close()?;
        if leaving == Leaving::Full {
            volume.state = VolumeState::Full;
        }
        self.settle(volume, &closed.parts, carrying)?;
        // What found no room in front of the filemark is written again.
        self.put_back();
        let first = self.queue.front().map(|pack| object_of(self.pool, *pack));
        self.going_on = closed
            .continues
            .filter(|going_on| going_on.offset > 0 && Some(going_on.object) == first);
        if self.going_on.is_none() {
            self.parts.clear();
        }
        Ok(leaving)
    }

    /// Writes one pack, or what is left of it.
    fn put(&mut self, writer: &mut Writer<'_>, pack: PackNumber) -> Result<Put, Trouble> {
        let object = object_of(self.pool, pack);
        let from = self.going_on.filter(|from| from.object == object);
        let from = from.unwrap_or_else(|| Continuation::start(object));
        let mut reader = match self.core.pools.reader(pack) {
            Ok(reader) => reader,
            Err(error) => return Ok(Put::Unreadable(model::chain(&error))),
        };
        let bytes = reader.bytes();
        if let Err(error) = reader.skip_to(from.offset) {
            return Ok(Put::Unreadable(error.to_string()));
        }
        writer.begin_named(from, &name_of(pack))?;
        let progress = match writer.write_all_of(&mut reader) {
            Ok(Progress::Going) => writer.end()?,
            Ok(Progress::Full) => return Ok(Put::Full),
            Err(VolumeError::Handover(error)) => {
                writer.abandon();
                if self.volumes.plans(pack).is_ok() {
                    self.damaged.insert(pack);
                }
                // It may have been pushed out of the stage meanwhile.
                let is_away = self.must_be_read(pack);
                let reason = model::chain(&error);
                return Ok(if is_away { Put::MustBeRead } else { Put::Unreadable(reason) });
            }
            Err(error) => return Err(error.into()),
        };
        // Whether it is whole where the volume is full, closing the volume tells.
        if progress == Progress::Full {
            return Ok(Put::Full);
        }
        self.queue.pop_front();
        self.unsettled.push_back(pack);
        self.going_on = None;
        Ok(Put::Written(bytes))
    }

    /// Notes what is durable; packs that are whole are told of.
    fn settle(
        &mut self,
        volume: &mut VolumeRow,
        parts: &[Part],
        carrying: &mut dyn Carrying,
    ) -> Result<(), Trouble> {
        let now = sys::clock::now();
        let mut whole = Vec::new();
        let mut writes = Vec::new();
        for part in parts {
            let pack = pack_of(part.object);
            let rows = self.parts.entry(pack).or_default();
            // What goes on overlaps nothing; what begins anew takes the place of all before.
            rows.retain(|row| row.offset < part.offset);
            rows.push(row_of(volume.id, part));
            if part.is_last {
                let parts = self.parts.remove(&pack).unwrap_or_default();
                let bytes = parts.iter().map(|part| part.bytes).sum();
                let stored = StoredPack { pack, bytes, stored: now };
                writes.push(Write::PutParts { pool: self.pool.id, stored, parts });
                whole.push(pack);
            }
        }
        let (state, added) = (volume.state, parts.iter().map(|part| part.bytes).sum::<u64>());
        *volume = self.volumes.change(volume.id, writes, |row| {
            row.written_bytes += added;
            row.changed = now;
            if state == VolumeState::Full {
                row.state = VolumeState::Full;
            }
        })?;
        for pack in whole {
            self.unsettled.retain(|other| *other != pack);
            self.queue.retain(|other| *other != pack);
            let shelved = self.core.pools.shelved(pack, self.pool.id);
            shelved.map_err(|error| Status::data_loss(model::chain(&error)))?;
            carrying.stored(pack)?;
        }
        Ok(())
    }

    /// What was written and is not settled is to be written again.
    fn put_back(&mut self) {
        while let Some(pack) = self.unsettled.pop_back() {
            self.queue.push_front(pack);
        }
    }

    /// Takes the right one of drive and volume out of use.
    fn blame(
        &mut self,
        lent: &mut Lent,
        volume: &VolumeRow,
        error: &VolumeError,
    ) -> Result<(), Status> {
        let reason = model::chain(error);
        if matches!(error, VolumeError::Medium(MediumError::Failed(_))) {
            lent.blame_drive(&reason);
            self.failures += 1;
            return self.check_failures(&reason);
        }
        self.leave_alone(volume, &reason)
    }

    /// The volume takes nothing more.
    fn leave_alone(&mut self, volume: &VolumeRow, reason: &str) -> Result<(), Status> {
        let access = VolumeAccess::ReadOnly;
        self.volumes.note_trouble(volume.id, Some(access), reason)?;
        self.avoided.insert(volume.id);
        self.failures += 1;
        self.check_failures(reason)
    }

    fn check_failures(&self, reason: &str) -> Result<(), Status> {
        if self.failures < FAILURES_MAX {
            return Ok(());
        }
        let message =
            format!("{FAILURES_MAX} volumes or drives have failed, the last one: {reason}");
        Err(Status::unavailable(message))
    }
}

thread_local! {
    /// Whether this thread holds a drive: who waits for another one then may wait for ever.
    static HOLDS_DRIVE: Cell<bool> = const { Cell::new(false) };
}

/// Whether this thread holds a drive.
pub(super) fn holds_drive() -> bool {
    HOLDS_DRIVE.get()
}

/// A drive that this thread holds until it is dropped.
struct Holding;

impl Holding {
    fn begin() -> Self {
        HOLDS_DRIVE.set(true);
        Self
    }
}

impl Drop for Holding {
    fn drop(&mut self) {
        HOLDS_DRIVE.set(false);
    }
}

/// What became of a pack.
enum Put {
    Written(u64),
    Full,
    MustBeRead,
    Unreadable(String),
}

/// Why filling a volume ended early.
pub(super) enum Trouble {
    Volume(VolumeError),
    Status(Status),
}

impl From<VolumeError> for Trouble {
    fn from(error: VolumeError) -> Self {
        Self::Volume(error)
    }
}

impl From<Status> for Trouble {
    fn from(status: Status) -> Self {
        Self::Status(status)
    }
}

pub(super) fn row_of(volume: u64, part: &Part) -> PartRow {
    PartRow {
        volume,
        object: part.object.0,
        object_sequence: part.object_sequence,
        position: part.position,
        block_count: part.block_count,
        first_sequence: part.first_sequence,
        offset: part.offset,
        bytes: part.bytes,
        is_last: part.is_last,
    }
}
