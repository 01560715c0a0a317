//! Writing packs to volumes, with a filemark every few gigabytes. Several drives write at once,
//! each for one group of nodes (see `crew`). A pack on volumes is in the catalogue only after it is
//! durable.
//!
//! ```text
//!   queue --begin, write--> unsettled --filemark--> settled: rows in the catalogue, table kept
//!     ^                        |
//!     +------------------------+   the drive or the volume failed before the filemark
//! ```
//!
//! 1. A pack is settled when all its parts are durable and the catalogue names them, in one batch.
//! 2. After a crash a volume may have parts that no row names. Their space is lost until the volume
//!    is reclaimed.
//! 3. A pack that does not fit on a volume continues on the next volume.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use crate::error::StoreError;
use catalog::{
    Collocation, PartRow, PoolRow, StoredPack, VolumeAccess, VolumeRow, VolumeState, Write,
};
use format::volume::{ObjectId, Part};
use model::{Name, NodeId, PackNumber};
use tape::medium::{Medium, MediumError};
use tape::operator::{Loan, LoanError, Watch};
use tape::volume::{Continuation, Progress, VolumeError, VolumeWriter, WriterOptions};

use super::crew::{self, Claim, Claims, PackListener, Share};
use super::reclaim;
use crate::store::Store;
use crate::volumes::drive::HeldDrive;
use crate::volumes::holdings::{Volumes, library_of};
use crate::volumes::site::{Site, to_write_or_read};
use crate::volumes::trouble::Trouble;
use crate::volumes::wait::Reader;

/// Number of bytes between two filemarks. Each filemark takes a drive some seconds.
const GROUP_BYTES: u64 = 4 << 30;
/// Number of failed volumes or drives at which a run ends.
const FAILURES_MAX: usize = 8;
/// Number of times that the line to a drive may be cut while one volume is written.
const CUTS_MAX: u32 = 8;

/// Writes `packs` to volumes of the pool that are not in `avoided`.
pub(crate) fn write(
    store: &Arc<Store>,
    pool: &PoolRow,
    packs: &[PackNumber],
    avoided: &BTreeSet<u64>,
    listener: &mut dyn PackListener,
) -> Result<(), StoreError> {
    let library = library_of(&pool.url).unwrap_or_default();
    let site = store.volumes.site(library);
    let site = site.map_err(|error| StoreError::conflict(error.to_string()))?;
    let mut writers = site.writers()?;
    if packs.iter().any(|pack| store.pools.is_only_shelved(*pack)) {
        // Packs that come from volumes need the other drives and the stage.
        writers.max = 1;
    }
    let sized = |packs: Vec<PackNumber>| -> Vec<(PackNumber, u64)> {
        packs.into_iter().map(|pack| (pack, store.pools.bytes_of(pack))).collect()
    };
    let groups = grouped(store, pool, packs)?;
    let groups = groups.into_iter().map(|(group, packs)| (group, sized(packs)));
    let write_share = |share: Share, claims: &Claims, listener: &mut dyn PackListener| {
        let mut group_writer = GroupWriter {
            store,
            volumes: &store.volumes,
            site: &site,
            pool,
            group: share.group,
            queue: share.packs.into(),
            unsettled: VecDeque::new(),
            parts: BTreeMap::new(),
            going_on: None,
            avoided: avoided.clone(),
            claims,
            damaged: BTreeSet::new(),
            failures: 0,
        };
        group_writer.run(listener)?;
        let GroupWriter { group, queue, .. } = group_writer;
        Ok((!queue.is_empty()).then(|| Share { group, packs: queue.into() }))
    };
    crew::run(crew::shares(groups, writers), writers.max, &write_share, listener)
}

/// Returns the packs by collocation group. Each group has volumes of its own.
fn grouped(
    store: &Store,
    pool: &PoolRow,
    packs: &[PackNumber],
) -> Result<BTreeMap<String, Vec<PackNumber>>, StoreError> {
    if pool.collocation == Collocation::No {
        return Ok(BTreeMap::from([(String::new(), packs.to_vec())]));
    }
    let nodes = store.catalog.nodes()?;
    let group_of = |node: NodeId| {
        let node = nodes.iter().find(|known| known.id == node)?;
        let group = node
            .collocation_group
            .clone()
            .filter(|_| pool.collocation == Collocation::Group);
        Some(group.unwrap_or_else(|| node.name.to_string()))
    };
    let rows = store.catalog.packs()?;
    let owners: BTreeMap<PackNumber, NodeId> =
        rows.iter().filter_map(|row| Some((row.number, row.node?))).collect();
    let mut groups: BTreeMap<String, Vec<PackNumber>> = BTreeMap::new();
    for pack in packs {
        let group = owners.get(pack).and_then(|node| group_of(*node)).unwrap_or_default();
        groups.entry(group).or_default().push(*pack);
    }
    Ok(groups)
}

/// Returns the name of a pack on a volume.
fn name_of(pack: PackNumber) -> Name {
    Name::new(format!("{:010}.pack", pack.0).as_bytes()).expect("digits and a dot")
}

/// Returns the identity of the pack on all volumes of the pool.
pub(super) fn object_of(pool: &PoolRow, pack: PackNumber) -> ObjectId {
    let mut object = [0; 16];
    object[..8].copy_from_slice(&pack.0.to_le_bytes());
    object[8..].copy_from_slice(&pool.mark[..8]);
    let object = ObjectId(object);
    debug_assert_eq!(pack_of(object), pack, "the reader gets the same pack");
    object
}

/// Returns the pack of an object on a volume.
pub(super) fn pack_of(object: ObjectId) -> PackNumber {
    let mut number = [0; 8];
    number.copy_from_slice(&object.0[..8]);
    PackNumber(u64::from_le_bytes(number))
}

/// Writer for the packs of one group.
struct GroupWriter<'a> {
    store: &'a Arc<Store>,
    volumes: &'a Arc<Volumes>,
    site: &'a Arc<Site>,
    pool: &'a PoolRow,
    group: String,
    queue: VecDeque<PackNumber>,
    /// Packs written since the last filemark, in order.
    unsettled: VecDeque<PackNumber>,
    /// Durable parts of packs that are not whole yet.
    parts: BTreeMap<PackNumber, Vec<PartRow>>,
    /// Point at which the first pack of the queue continues.
    going_on: Option<Continuation>,
    /// Volumes that must not be written.
    avoided: BTreeSet<u64>,
    /// Volumes that have a writer.
    claims: &'a Claims,
    /// Packs that are damaged on disk and that a volume also has.
    damaged: BTreeSet<PackNumber>,
    failures: usize,
}

/// Reason to leave a volume.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Departure {
    Full,
    Done,
    /// Another user needs the drive, or the volume must not be written any more.
    Recalled,
    /// The next pack has to be read from a volume first, which may need this drive.
    Reading,
    Cancelled,
}

type Writer<'a> = VolumeWriter<&'a mut dyn Medium>;

impl<'a> GroupWriter<'a> {
    /// Writes all packs. If other writers have all volumes, the rest stays in the queue.
    fn run(&mut self, listener: &mut dyn PackListener) -> Result<(), StoreError> {
        while !self.queue.is_empty() {
            self.read_ahead(listener)?;
            if self.queue.is_empty() {
                break;
            }
            let Some((mut volume, _claim)) = self.claim()? else { break };
            if volume.state == VolumeState::Scratch {
                // After a recovery the volume may hold data that the catalogue does not know.
                self.store.check_released()?;
            }
            let known = to_write_or_read(&volume)?;
            let operator = self.site.operator()?;
            let mut lent = match operator.borrow(&known) {
                Ok(lent) => lent,
                // The reason for the absence is already known, or the absence will end.
                Err(LoanError::Absent { .. }) => {
                    self.avoided.insert(volume.id);
                    continue;
                }
                Err(LoanError::Volume { reason, .. }) => {
                    self.leave_alone(&volume, &reason)?;
                    continue;
                }
                Err(error) => return Err(StoreError::away(error.to_string())),
            };
            let filled = match self.volumes.relabel_scratch(&mut lent, &mut volume, self.pool) {
                Ok(()) => self.fill(&mut lent, &mut volume, listener),
                Err(trouble) => Err(trouble),
            };
            match filled {
                Ok(Departure::Cancelled) => {
                    return Err(StoreError::cancelled(
                        "the run was cancelled; the next run does the rest",
                    ));
                }
                Ok(
                    Departure::Full | Departure::Done | Departure::Recalled | Departure::Reading,
                ) => {}
                Err(Trouble::Store(error)) => return Err(error),
                Err(Trouble::Volume(error)) => {
                    self.put_back();
                    self.blame(&mut lent, &volume, &error)?;
                }
            }
        }
        Ok(())
    }

    /// Chooses the volume to write next; `None` if other writers have all volumes.
    fn claim(&self) -> Result<Option<(VolumeRow, Claim<'a>)>, StoreError> {
        let choose = |claimed: &BTreeSet<u64>| {
            self.volumes
                .choose(self.site, self.pool, &self.group, &(&self.avoided | claimed))
        };
        let claims: &'a Claims = self.claims;
        claims.claim(choose, |volume| volume.id)
    }

    /// Returns true for a pack that has to be read from a volume, because neither a disk nor the
    /// stage has it undamaged.
    fn must_be_read(&self, pack: PackNumber) -> bool {
        let comes_from_volume =
            self.store.pools.is_only_shelved(pack) || self.damaged.contains(&pack);
        comes_from_volume && !self.volumes.is_staged(pack)
    }

    /// Reads the next packs from their volumes to the stage, while this thread holds no drive.
    /// Tells `listener` of packs that cannot be read.
    fn read_ahead(&mut self, listener: &mut dyn PackListener) -> Result<(), StoreError> {
        let mut bytes = 0;
        let near = self.queue.iter().copied().take_while(|pack| {
            bytes += self.store.pools.bytes_of(*pack);
            bytes <= reclaim::staged_max(self.store)
        });
        let near: Vec<PackNumber> = near.collect();
        let near =
            if near.is_empty() { self.queue.iter().copied().take(1).collect() } else { near };
        near.iter().for_each(|pack| self.volumes.drop_salvaged(*pack));
        if !near.iter().any(|pack| self.must_be_read(*pack)) {
            return Ok(());
        }
        reclaim::bring(self.store, &near)?;
        while let Some(&pack) = self.queue.front().filter(|pack| self.must_be_read(**pack)) {
            // The pack is fetched once more, by itself. This returns the pack, or the reason why it
            // cannot be read.
            if let Err(error) = self.volumes.fetch(pack, (&Reader::server(), false)) {
                self.queue.pop_front();
                self.parts.remove(&pack);
                self.going_on = None;
                listener.failed(pack, model::chain(&error));
            }
        }
        Ok(())
    }

    /// Writes packs until there is a reason to leave the volume. Returns this reason.
    ///
    /// If the line to the drive is cut meanwhile, the writer goes back to the last filemark. The
    /// packs after it are written again, in their place.
    fn fill(
        &mut self,
        lent: &mut Loan,
        volume: &mut VolumeRow,
        listener: &mut dyn PackListener,
    ) -> Result<Departure, Trouble> {
        assert!(self.unsettled.is_empty(), "all packs on the previous volume are settled");
        let _holding = HeldDrive::begin();
        let watch = lent.watch();
        let label = lent.label.as_ref().map(|label| label.volume);
        let label = label.ok_or(VolumeError::Blank)?;
        let options = WriterOptions { group_bytes: u64::MAX };
        let mut writer = VolumeWriter::open(lent.medium(), label, options)?;
        let mut departure = None;
        for _ in 0..CUTS_MAX {
            let ended = match departure {
                None => self.write_packs(&mut writer, volume, &watch, listener),
                Some(departure) => Ok(departure),
            };
            let ended = ended.and_then(|reason| {
                departure = Some(reason);
                self.finish(&mut writer, volume, reason, listener)
            });
            match ended {
                Err(Trouble::Volume(VolumeError::Medium(MediumError::PositionLost))) => {}
                ended => return ended,
            }
            let is_settled = self.resume(&mut writer, volume, listener)?;
            // Nothing but the index is missing if the filemark was there.
            departure = departure.filter(|_| is_settled);
        }
        Err(VolumeError::Medium(MediumError::PositionLost).into())
    }

    /// Writes packs until there is a reason to leave the volume. Returns this reason.
    fn write_packs(
        &mut self,
        writer: &mut Writer<'_>,
        volume: &mut VolumeRow,
        watch: &Watch,
        listener: &mut dyn PackListener,
    ) -> Result<Departure, Trouble> {
        let mut since_mark = 0;
        loop {
            let Some(&pack) = self.queue.front() else { return Ok(Departure::Done) };
            if !listener.goes_on() {
                return Ok(Departure::Cancelled);
            }
            let is_taken_away = volume.access != VolumeAccess::ReadWrite;
            if is_taken_away || (!self.unsettled.is_empty() && watch.is_wanted_back()) {
                return Ok(Departure::Recalled);
            }
            if self.must_be_read(pack) {
                return Ok(Departure::Reading);
            }
            match self.put(writer, pack)? {
                PackOutcome::Written(bytes) => since_mark += bytes,
                PackOutcome::Full => return Ok(Departure::Full),
                PackOutcome::MustBeRead => return Ok(Departure::Reading),
                PackOutcome::Unreadable(reason) => {
                    self.queue.pop_front();
                    self.parts.remove(&pack);
                    self.going_on = None;
                    listener.failed(pack, reason);
                }
            }
            if since_mark >= GROUP_BYTES {
                since_mark = 0;
                let parts = writer.sync()?;
                self.settle(volume, &parts, listener)?;
            }
        }
    }

    /// Ends the session on the volume, and settles its packs.
    fn finish(
        &mut self,
        writer: &mut Writer<'_>,
        volume: &mut VolumeRow,
        departure: Departure,
        listener: &mut dyn PackListener,
    ) -> Result<Departure, Trouble> {
        let closed = writer.finish()?;
        if departure == Departure::Full {
            volume.state = VolumeState::Full;
        }
        self.settle(volume, &closed.parts, listener)?;
        // Packs that found no room before the filemark are written again.
        self.put_back();
        let first = self.queue.front().map(|pack| object_of(self.pool, *pack));
        self.going_on = closed
            .continues
            .filter(|going_on| going_on.offset > 0 && Some(going_on.object) == first);
        if self.going_on.is_none() {
            self.parts.clear();
        }
        Ok(departure)
    }

    /// Goes back to the last filemark after the position was lost, and settles the packs before it.
    /// Packs after it are written again. Returns true if there was nothing after it but the index.
    fn resume(
        &mut self,
        writer: &mut Writer<'_>,
        volume: &mut VolumeRow,
        listener: &mut dyn PackListener,
    ) -> Result<bool, Trouble> {
        let mut resumed = writer.resume();
        for _ in 1..CUTS_MAX {
            match resumed {
                Err(VolumeError::Medium(MediumError::PositionLost)) => resumed = writer.resume(),
                _ => break,
            }
        }
        resumed?;
        let parts = writer.sync()?;
        self.settle(volume, &parts, listener)?;
        let is_settled = !parts.is_empty() && self.unsettled.is_empty();
        self.put_back();
        Ok(is_settled)
    }

    /// Writes one pack, or the rest of a pack that began on another volume.
    fn put(&mut self, writer: &mut Writer<'_>, pack: PackNumber) -> Result<PackOutcome, Trouble> {
        let object = object_of(self.pool, pack);
        let from = self.going_on.filter(|from| from.object == object);
        let from = from.unwrap_or_else(|| Continuation::start(object));
        let mut reader = match self.store.pools.reader(pack) {
            Ok(reader) => reader,
            Err(error) => return Ok(PackOutcome::Unreadable(model::chain(&error))),
        };
        let bytes = reader.bytes();
        debug_assert!(from.offset <= bytes, "a pack continues within its bytes");
        if let Err(error) = reader.skip_to(from.offset) {
            return Ok(PackOutcome::Unreadable(error.to_string()));
        }
        writer.begin_named(from, &name_of(pack))?;
        let progress = match writer.write_all_of(&mut reader) {
            Ok(Progress::Going) => writer.end()?,
            Ok(Progress::Full) => return Ok(PackOutcome::Full),
            Err(VolumeError::Handover(error)) => {
                writer.abandon();
                if self.volumes.plans(pack).is_ok() {
                    self.damaged.insert(pack);
                }
                // The stage may have dropped the pack meanwhile.
                let is_away = self.must_be_read(pack);
                let reason = model::chain(&error);
                return Ok(if is_away {
                    PackOutcome::MustBeRead
                } else {
                    PackOutcome::Unreadable(reason)
                });
            }
            Err(error) => return Err(error.into()),
        };
        // Closing the full volume shows whether the pack is whole on it.
        if progress == Progress::Full {
            return Ok(PackOutcome::Full);
        }
        self.queue.pop_front();
        self.unsettled.push_back(pack);
        self.going_on = None;
        Ok(PackOutcome::Written(bytes))
    }

    /// Records durable parts, and tells `listener` of the packs that are whole.
    fn settle(
        &mut self,
        volume: &mut VolumeRow,
        parts: &[Part],
        listener: &mut dyn PackListener,
    ) -> Result<(), Trouble> {
        let now = sys::clock::now();
        let mut whole = Vec::new();
        let mut writes = Vec::new();
        for part in parts {
            let pack = pack_of(part.object);
            let rows = self.parts.entry(pack).or_default();
            // A part that continues a pack overlaps no other part. A part that begins a pack anew
            // replaces all earlier parts.
            rows.retain(|row| row.offset < part.offset);
            rows.push(row_of(volume.id, part));
            if part.is_last {
                let parts = self.parts.remove(&pack).unwrap_or_default();
                let bytes = parts.iter().map(|part| part.bytes).sum();
                let is_whole = parts
                    .iter()
                    .try_fold(0, |end, part| (part.offset == end).then_some(end + part.bytes));
                assert_eq!(is_whole, Some(bytes), "the parts of pack {pack} meet");
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
            let shelved = self.store.pools.shelved(pack, self.pool.id);
            shelved.map_err(|error| StoreError::damaged(model::chain(&error)))?;
            listener.stored(pack)?;
        }
        Ok(())
    }

    /// Puts packs that are not settled back into the queue.
    fn put_back(&mut self) {
        while let Some(pack) = self.unsettled.pop_back() {
            self.queue.push_front(pack);
        }
    }

    /// Takes the drive or the volume out of use, depending on the error.
    fn blame(
        &mut self,
        lent: &mut Loan,
        volume: &VolumeRow,
        error: &VolumeError,
    ) -> Result<(), StoreError> {
        let reason = model::chain(error);
        let is_lost =
            matches!(error, VolumeError::Medium(MediumError::PositionLost | MediumError::NoMedium));
        if is_lost {
            // Before the next use, the volume is made ready or brought again.
            self.failures += 1;
            return self.check_failures(&reason);
        }
        if matches!(error, VolumeError::Medium(MediumError::Failed(_))) {
            lent.blame_drive(&reason);
            self.failures += 1;
            return self.check_failures(&reason);
        }
        lent.count_error();
        self.leave_alone(volume, &reason)
    }

    /// Closes the volume for writing.
    fn leave_alone(&mut self, volume: &VolumeRow, reason: &str) -> Result<(), StoreError> {
        let access = VolumeAccess::ReadOnly;
        self.volumes.note_trouble(volume.id, Some(access), reason)?;
        self.avoided.insert(volume.id);
        self.failures += 1;
        self.check_failures(reason)
    }

    fn check_failures(&self, reason: &str) -> Result<(), StoreError> {
        if self.failures < FAILURES_MAX {
            return Ok(());
        }
        let message =
            format!("{FAILURES_MAX} volumes or drives have failed; the last failure: {reason}");
        Err(StoreError::away(message))
    }
}

/// Outcome of writing one pack.
enum PackOutcome {
    Written(u64),
    Full,
    MustBeRead,
    Unreadable(String),
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
