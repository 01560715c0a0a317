//! Recalls of many copies: planning (which volumes, in which order, for how long), and staging the
//! packs according to the plan.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use catalog::PageSpan;
use format::volume::Part;
use model::{BatchId, CopyId, FilespaceId, Object, PackNumber, PlaceCode as _};
use tape::operator::{Operator, VolumeRef};
use tape::schedule::VolumeId;

use super::select::{self, Choice, Selection};
use crate::error::StoreError;
use crate::places::places;
use crate::store::Store;
use crate::volumes::error::FetchError;
use crate::volumes::fetch::{self, EarlyRequests};
use crate::volumes::site::Site;
use crate::volumes::wait::Reader;

/// An order to recall copies of one filespace.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RecallOrder {
    pub copies: Vec<CopyId>,
    /// True if the client only wants the plan.
    pub is_preview: bool,
}

/// The plan of a recall.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct RecallPlan {
    /// Indices of the copies that the server has, in the best order for recalling them.
    pub order: Vec<u32>,
    /// The volumes in the order in which they are read.
    pub volumes: Vec<PlannedVolume>,
    pub unavailable: Vec<UnavailableCopies>,
    /// Number of copies that need no volume.
    pub disk_files: u64,
    /// Size of the copies that need no volume.
    pub disk_bytes: u64,
    /// Indices of the copies that the server does not have.
    pub unknown: Vec<u32>,
    pub mounts: u32,
    /// Time until the last volume has been read, if no other reader uses the drives.
    pub estimate_secs: f64,
}

/// A volume that a recall reads.
#[derive(Clone, PartialEq, Debug)]
pub struct PlannedVolume {
    pub library: String,
    pub volume: String,
    pub is_mounted: bool,
    /// Number of copies that begin on the volume.
    pub files: u64,
    /// Size of the copies that begin on the volume.
    pub bytes: u64,
    pub packs: u64,
    pub estimate_secs: f64,
}

/// Copies that cannot be read, all for the same reason.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UnavailableCopies {
    pub reason: String,
    pub files: u64,
    pub bytes: u64,
}

/// A message of a recall.
#[derive(Clone, PartialEq, Debug)]
pub enum RecallMessage {
    Plan(RecallPlan),
    Progress { packs: u32, packs_done: u32 },
}

/// The client that a recall reports to.
pub trait RecallListener {
    /// Sends a message. Returns false if the client is gone.
    fn send(&mut self, message: RecallMessage) -> bool;

    /// Returns false once the client is gone.
    fn is_listening(&self) -> bool;
}

/// An ordered copy that the server has.
struct OrderedCopy {
    /// Index of the copy in the order.
    index: u32,
    bytes: u64,
    /// The packs of the copy's content, in order.
    packs: Vec<PackNumber>,
    /// Code of the place at which the copy's content begins.
    first: u64,
}

/// Plans the recall and sends the plan. Then stages the packs until all packs have arrived or the
/// client is gone.
pub fn stage_copies(
    store: &Arc<Store>,
    filespace: FilespaceId,
    order: RecallOrder,
    reader: Reader,
    listener: &mut dyn RecallListener,
) -> Result<(), StoreError> {
    let RecallOrder { copies, is_preview } = order;
    let Search { found, unknown, unreadable } = find(store, filespace, &copies)?;
    // A recall may take days, and millions of copies much memory.
    drop(copies);
    let Plan { mut recall, packs } = Plan::new(store, found);
    recall.unknown = unknown;
    recall.unavailable.extend(unreadable);
    send(listener, RecallMessage::Plan(recall))?;
    if is_preview || packs.is_empty() {
        return Ok(());
    }
    let mut ahead = EarlyRequests::new(&store.volumes, reader, packs);
    ahead.advance()?;
    let mut sent = (u32::MAX, 0);
    while ahead.look_around()? {
        if ahead.progress() != sent {
            sent = ahead.progress();
            let (packs_done, packs) = sent;
            send(listener, RecallMessage::Progress { packs, packs_done })?;
        } else if !listener.is_listening() {
            return Err(gone());
        }
    }
    Ok(())
}

fn send(listener: &mut dyn RecallListener, message: RecallMessage) -> Result<(), StoreError> {
    if listener.send(message) { Ok(()) } else { Err(gone()) }
}

fn gone() -> StoreError {
    StoreError::cancelled("the client is gone")
}

/// Result of looking up the copies of an order in the catalogue.
#[derive(Default)]
struct Search {
    found: Vec<OrderedCopy>,
    /// Indices of the copies that the server does not have, in ascending order.
    unknown: Vec<u32>,
    /// Copies that the server may have. Rows of their batches are damaged.
    unreadable: Vec<UnavailableCopies>,
}

/// Finds the ordered copies that the server has. A damaged batch costs its own copies only.
fn find(store: &Store, filespace: FilespaceId, order: &[CopyId]) -> Result<Search, StoreError> {
    let order = SortedOrder::new(order);
    let mut search = Search::default();
    for (batch, of_batch) in order.batches() {
        let span = PageSpan::Directory(batch.directory());
        let selection = Selection {
            filespace,
            // A copy that was dropped recently still exists as an inactive version.
            choice: Choice::Newest,
            parts: vec![select::Part { span, name: None }],
            range: 0..u64::MAX,
            sample: None,
        };
        let mut here = Vec::new();
        let damage = selection.walk_readable(&*store.catalog, |batch| {
            for object in batch.versions.iter().map(|version| &version.object) {
                let Some(index) = CopyId::index_of(&object.name) else { continue };
                let indices = indices_of(of_batch, index);
                here.extend(indices.map(|index| OrderedCopy::new(index, object)));
            }
            Ok(())
        })?;
        let indices: BTreeSet<u32> = here.iter().map(|copy| copy.index).collect();
        let ordered = of_batch.iter().map(|(_, index)| *index);
        let missing: Vec<u32> = ordered.filter(|index| !indices.contains(index)).collect();
        match damage {
            Some(damage) if !missing.is_empty() => search.unreadable.push(UnavailableCopies {
                reason: StoreError::from(damage).to_string(),
                files: missing.len() as u64,
                bytes: 0,
            }),
            _ => search.unknown.extend(missing),
        }
        search.found.extend(here);
    }
    search.unknown.sort_unstable();
    Ok(search)
}

/// The copies of an order with their indices in it, sorted. It takes the same memory for each copy,
/// however many batches they are of.
struct SortedOrder(Vec<(CopyId, u32)>);

impl SortedOrder {
    fn new(order: &[CopyId]) -> Self {
        let mut sorted: Vec<(CopyId, u32)> = order.iter().copied().zip(0..).collect();
        sorted.sort_unstable();
        Self(sorted)
    }

    /// Returns the batches, each with its copies.
    fn batches(&self) -> impl Iterator<Item = (BatchId, &[(CopyId, u32)])> {
        let of_batches = self.0.chunk_by(|(one, _), (other, _)| one.batch == other.batch);
        of_batches.map(|copies| (copies[0].0.batch, copies))
    }
}

/// Returns the indices in the order of the copy with this `index` in its batch.
fn indices_of(of_batch: &[(CopyId, u32)], index: u16) -> impl Iterator<Item = u32> {
    let from = of_batch.partition_point(|(copy, _)| copy.index < index);
    let same = of_batch[from..].iter().take_while(move |(copy, _)| copy.index == index);
    same.map(|(_, at)| *at)
}

impl OrderedCopy {
    fn new(index: u32, object: &Object) -> Self {
        let mut packs: Vec<PackNumber> = Vec::new();
        for place in places(object) {
            if packs.last() != Some(&place.pack()) {
                packs.push(place.pack());
            }
        }
        let first = places(object).next().map_or(0, |place| place.code());
        Self { index, bytes: object.stat.size, packs, first }
    }
}

/// The part of a recall that reads one volume.
struct VolumeLoad {
    site: Arc<Site>,
    volume: VolumeRef,
    packs: Vec<PackNumber>,
    /// Parts of the packs on this volume, in the order of `packs`.
    parts: Vec<Part>,
    files: u64,
    bytes: u64,
}

/// The plan of a recall with its packs and their sizes, in the order in which they are read.
struct Plan {
    recall: RecallPlan,
    packs: Vec<(PackNumber, u64)>,
}

impl Plan {
    fn new(store: &Store, mut copies: Vec<OrderedCopy>) -> Self {
        let mut recall = RecallPlan::default();
        let loads = Loads::collect(store, &copies, &mut recall);
        let mut ranks: HashMap<PackNumber, usize> = HashMap::new();
        let packs = read_in_order(&mut recall, loads, &mut ranks);
        let rank = |copy: &OrderedCopy| copy.packs.iter().filter_map(|pack| ranks.get(pack)).min();
        copies.sort_by_key(|copy| (rank(copy).map_or(0, |rank| rank + 1), copy.first, copy.index));
        recall.order = copies.iter().map(|copy| copy.index).collect();
        let packs = packs.into_iter().map(|pack| (pack, store.pools.bytes_of(pack))).collect();
        Self { recall, packs }
    }
}

/// The volumes that a recall reads, and the first volume of each pack; `None` for a pack on disk.
#[derive(Default)]
struct Loads {
    volumes: BTreeMap<VolumeId, VolumeLoad>,
    homes: HashMap<PackNumber, Option<VolumeId>>,
}

impl Loads {
    /// Collects the volumes of all copies. Copies on disk and copies that cannot be read are added
    /// to the plan.
    fn collect(
        store: &Store,
        copies: &[OrderedCopy],
        recall: &mut RecallPlan,
    ) -> BTreeMap<VolumeId, VolumeLoad> {
        let mut loads = Self::default();
        let mut unavailable: BTreeMap<String, UnavailableCopies> = BTreeMap::new();
        for copy in copies {
            match loads.home_of(store, copy) {
                Err(error) => {
                    let reason = error.to_string();
                    let none = || UnavailableCopies { reason: reason.clone(), files: 0, bytes: 0 };
                    let group = unavailable.entry(reason.clone()).or_insert_with(none);
                    group.files += 1;
                    group.bytes += copy.bytes;
                }
                Ok(Some(volume)) => {
                    let load = loads.volumes.get_mut(&volume).expect("a home has its load");
                    load.files += 1;
                    load.bytes += copy.bytes;
                }
                Ok(None) => {
                    recall.disk_files += 1;
                    recall.disk_bytes += copy.bytes;
                }
            }
        }
        recall.unavailable = unavailable.into_values().collect();
        let on_volumes: u64 = loads.volumes.values().map(|load| load.files).sum();
        let away: u64 = recall.unavailable.iter().map(|group| group.files).sum();
        let all = recall.disk_files + on_volumes + away;
        assert_eq!(all, copies.len() as u64, "each copy is counted once");
        loads.volumes
    }

    /// Returns the volume on which the copy begins; `None` if the copy is on disk. Adds all its
    /// packs to the volumes, even if some of them cannot be read. Then returns the error of the
    /// last of these packs.
    fn home_of(
        &mut self,
        store: &Store,
        copy: &OrderedCopy,
    ) -> Result<Option<VolumeId>, FetchError> {
        let mut first = None;
        let mut last = None;
        for pack in &copy.packs {
            let home = match self.homes.get(pack) {
                Some(home) => Ok(*home),
                None => self.add(store, *pack),
            };
            match home {
                Ok(home) => {
                    self.homes.insert(*pack, home);
                    first = first.or(home);
                }
                Err(error) => last = Some(error),
            }
        }
        last.map_or(Ok(first), Err)
    }

    /// Adds the pack to the volumes on which it lies. Returns the first of these volumes; `None` if
    /// the pack is on disk.
    fn add(&mut self, store: &Store, pack: PackNumber) -> Result<Option<VolumeId>, FetchError> {
        if !store.pools.is_only_shelved(pack) || store.volumes.is_staged(pack) {
            return Ok(None);
        }
        let plans = store.volumes.plans(pack)?;
        let plan = usable(plans)?;
        let mut first = None;
        for piece in plan.pieces {
            let Some((volume, part)) = piece.copies.into_iter().next() else { continue };
            first = first.or(Some(volume.id));
            let empty = || VolumeLoad {
                site: Arc::clone(&plan.site),
                volume: volume.clone(),
                packs: Vec::new(),
                parts: Vec::new(),
                files: 0,
                bytes: 0,
            };
            let load = self.volumes.entry(volume.id).or_insert_with(empty);
            load.packs.push(pack);
            load.parts.push(part);
        }
        Ok(first)
    }
}

/// Returns the first plan whose library can be used. If there is none, returns the error of the
/// last library.
fn usable(plans: Vec<fetch::Plan>) -> Result<fetch::Plan, FetchError> {
    let mut last = FetchError::Unshelved;
    for plan in plans {
        match plan.site.operator().map(drop) {
            Ok(()) => return Ok(plan),
            Err(error) => last = error.into(),
        }
    }
    Err(last)
}

/// Adds the volumes to the plan: mounted volumes first, then the volumes with the most files per
/// second. Returns the packs in the order in which all drives together read them, and stores the
/// rank of each pack in `ranks`.
fn read_in_order(
    recall: &mut RecallPlan,
    loads: BTreeMap<VolumeId, VolumeLoad>,
    ranks: &mut HashMap<PackNumber, usize>,
) -> Vec<PackNumber> {
    let preview = |load: VolumeLoad| {
        debug_assert_eq!(load.packs.len(), load.parts.len(), "each pack has a part");
        let operator: &Operator = load.site.operator.as_ref().ok()?;
        let preview = operator.preview(&load.volume, &load.parts);
        Some((load, preview))
    };
    let mut volumes: Vec<_> = loads.into_values().filter_map(preview).collect();
    let files_a_second = |files: u64, secs: f64| files as f64 / secs.max(1e-3);
    volumes.sort_by(|(a, of_a), (b, of_b)| {
        let by_speed =
            files_a_second(b.files, of_b.secs).total_cmp(&files_a_second(a.files, of_a.secs));
        of_b.is_mounted.cmp(&of_a.is_mounted).then(by_speed)
    });
    let drives = volumes.first().map_or(1, |(_, preview)| preview.drives);
    let mut busy = vec![0.0_f64; drives];
    // Packs with the time, in seconds from the start, at which each has probably been read.
    let mut read: Vec<(f64, PackNumber)> = Vec::new();
    for (load, preview) in volumes {
        let next = busy.iter_mut().min_by(|a, b| a.total_cmp(b)).expect("a library has a drive");
        let each = preview.secs / preview.order.len().max(1) as f64;
        let begins = *next;
        let moments = (1..).map(|count| begins + f64::from(count) * each);
        read.extend(moments.zip(preview.order.iter().map(|index| load.packs[*index])));
        *next += preview.secs;
        recall.mounts += u32::from(!preview.is_mounted);
        recall.volumes.push(PlannedVolume {
            library: load.site.name.clone(),
            volume: load.volume.name.to_string(),
            is_mounted: preview.is_mounted,
            files: load.files,
            bytes: load.bytes,
            packs: load.packs.len() as u64,
            estimate_secs: preview.secs,
        });
    }
    recall.estimate_secs = busy.into_iter().fold(0.0, f64::max);
    read.sort_by(|(a, _), (b, _)| a.total_cmp(b));
    let mut packs = Vec::new();
    for (_, pack) in read {
        // A pack that began on another volume already has its rank.
        ranks.entry(pack).or_insert_with(|| {
            packs.push(pack);
            packs.len() - 1
        });
    }
    assert_eq!(packs.len(), ranks.len(), "each pack has one rank");
    packs
}

#[cfg(test)]
mod tests;
