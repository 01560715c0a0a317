//! Fetching packs from volumes to the stage: one pack that is needed now, or many packs in advance.
//!
//! A reader that needs many packs requests them in advance, so that they are read in the order in
//! which they lie on the volumes. If two readers need the same pack, both wait for the same read.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::fs::File;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use catalog::{PartRow, VolumeRow};
use format::volume::{ObjectId as StoredId, Part};
use model::{PackNumber, PoolId};
use pool::ReadError;
use tape::operator::{Outcome, ReadRequest, SinkOpener, VolumeRef};
use tape::schedule::{ObjectId, WaiterId};

use super::drive::holds_drive;
use super::error::{AbsentVolume, FetchError};
use super::holdings::{Volumes, library_of};
use super::site::{Site, absence, known};
use super::wait::{Reader, Request, Wait};

/// Interval between two checks whether a wait was cancelled.
const LOOK_AROUND: Duration = Duration::from_millis(500);
/// Maximum time for which room is kept for a pack that nobody uses.
const UNUSED_MAX: Duration = Duration::from_secs(60);
/// Error of a reader whose pack left the stage too soon.
pub(crate) const PUSHED_OUT: &str =
    "the pack was removed from the full stage before it was read; try again";
/// Number of attempts for a pack that the stage drops before it was opened.
const TRIES: u32 = 3;
/// Number of bits for the copy, and also for the part, in the number of an object.
const ORDINAL_BITS: u32 = 8;

/// First ordinal of copies that are read separately, for a check of each copy.
const OWN_ORDINALS: u64 = 128;
/// First ordinal of damaged copies of which only the readable blocks are read.
const SALVAGED_ORDINALS: u64 = 64;
const _: () = assert!(SALVAGED_ORDINALS < OWN_ORDINALS && OWN_ORDINALS < 1 << ORDINAL_BITS);

/// A wait in the list of waits. It ends when this is dropped.
pub(crate) struct ListedWait {
    volumes: Arc<Volumes>,
    number: u64,
    pub(crate) wait: Arc<Wait>,
}

impl ListedWait {
    pub(crate) fn new(volumes: &Arc<Volumes>, who: &Reader, packs: usize) -> Self {
        let wait = Arc::new(Wait::new(who, packs));
        let number = volumes.waits.add(&wait);
        Self { volumes: Arc::clone(volumes), number, wait }
    }

    fn note(&self, asked: &PackRequest) {
        if let Some(waiter) = asked.waiters.last() {
            let (library, volume) = (asked.site.name.clone(), asked.volume.clone());
            self.wait.note(Request { library, waiter: *waiter, volume });
        }
    }

    fn is_cancelled(&self) -> bool {
        self.wait.is_cancelled.load(Ordering::Relaxed)
    }
}

impl Drop for ListedWait {
    fn drop(&mut self) {
        self.volumes.waits.remove(self.number);
    }
}

/// One way to read a pack: its parts, each from one of several volumes of one library.
pub(crate) struct Plan {
    pub site: Arc<Site>,
    pub pieces: Vec<Piece>,
    /// True if zeros replace the blocks that cannot be read. The reader checks each quantum.
    salvages: bool,
}

pub(crate) struct Piece {
    object: ObjectId,
    pub copies: Vec<(VolumeRef, Part)>,
}

impl Plan {
    pub(crate) fn bytes(&self) -> u64 {
        let bytes = |piece: &Piece| piece.copies.first().map_or(0, |(_, part)| part.bytes);
        self.pieces.iter().map(bytes).sum()
    }
}

/// A reader that waits for a pack.
struct Recipient<'a> {
    who: &'a Reader,
    /// Returns false when the reader has given up. It then loses its place in the queue.
    goes_on: &'a dyn Fn() -> bool,
}

/// A request for a pack to the operator of a library.
struct PackRequest {
    site: Arc<Site>,
    waiters: Vec<WaiterId>,
    /// Name of the last volume from which a piece comes.
    volume: String,
    /// Number of pieces that have not arrived yet.
    left: usize,
}

impl PackRequest {
    fn cancel(&self) {
        if let Ok(operator) = &self.site.operator {
            for waiter in &self.waiters {
                operator.cancel(*waiter);
            }
        }
    }
}

/// Returns the pack to which an object belongs.
fn pack_of(object: ObjectId) -> PackNumber {
    PackNumber(object.0 >> (2 * ORDINAL_BITS))
}

fn part_of(row: &PartRow) -> Part {
    Part {
        object: StoredId(row.object),
        object_sequence: row.object_sequence,
        position: row.position,
        block_count: row.block_count,
        first_sequence: row.first_sequence,
        offset: row.offset,
        bytes: row.bytes,
        is_last: row.is_last,
    }
}

/// The parts of a pack in one pool, with their volumes.
type PoolCopy = Vec<(VolumeRow, Part)>;

impl Volumes {
    /// Returns the ways to read a pack, the best way first. Fails if there is none.
    pub(crate) fn plans(&self, pack: PackNumber) -> Result<Vec<Plan>, FetchError> {
        let copies = self.copies(pack)?;
        if copies.is_empty() {
            return Err(FetchError::Unshelved);
        }
        let is_there = |copy: &&PoolCopy| copy.iter().all(|(row, _)| absence(row.access).is_none());
        let there: Vec<&PoolCopy> = copies.iter().filter(is_there).collect();
        if there.is_empty() {
            return Err(FetchError::Absent(absent(&copies)));
        }
        let mut plans: Vec<Plan> = Vec::new();
        for (ordinal, copy) in (0..).zip(&there) {
            let site = self.site(&copy[0].0.library)?;
            if let [(row, part)] = &copy[..] {
                // Copies that consist of one piece are equivalent, so the operator may read any.
                let single = (known(row)?, *part);
                let same = plans.iter_mut().find(|plan| {
                    Arc::ptr_eq(&plan.site, &site) && plan.pieces[0].object == object(pack, 0, 0)
                });
                match same {
                    Some(plan) => plan.pieces[0].copies.push(single),
                    None => {
                        let piece = Piece { object: object(pack, 0, 0), copies: vec![single] };
                        plans.push(Plan { site, pieces: vec![piece], salvages: false });
                    }
                }
                continue;
            }
            let piece = |(index, (row, part)): (u64, &(VolumeRow, Part))| {
                let copies = vec![(known(row)?, *part)];
                Ok(Piece { object: object(pack, ordinal + 1, index), copies })
            };
            let pieces = (0..).zip(*copy).map(piece).collect::<Result<_, FetchError>>()?;
            plans.push(Plan { site, pieces, salvages: false });
        }
        assert!(!plans.is_empty(), "each available copy has a plan");
        Ok(plans)
    }

    /// Reads the copy of a pack in this pool into the stage.
    pub(crate) fn fetch_own(
        self: &Arc<Self>,
        pool: PoolId,
        pack: PackNumber,
    ) -> Result<(), FetchError> {
        let parts = self.catalog.parts(pool, pack)?;
        let copy: Option<PoolCopy> =
            parts.iter().map(|part| Some((self.row(part.volume)?, part_of(part)))).collect();
        let copy = copy.filter(|copy| !copy.is_empty()).ok_or(FetchError::Unshelved)?;
        let site = self.site(&copy[0].0.library)?;
        let piece = |(index, (row, part)): (u64, &(VolumeRow, Part))| {
            let copies = vec![(known(row)?, *part)];
            Ok(Piece { object: object(pack, u64::from(pool.0) + OWN_ORDINALS, index), copies })
        };
        let pieces = (0..).zip(&copy).map(piece).collect::<Result<_, FetchError>>()?;
        let (who, plan) = (Reader::server(), Plan { site, pieces, salvages: false });
        let seen = ListedWait::new(self, &who, 1);
        self.fetch_by(pack, &plan, &Recipient { who: &who, goes_on: &|| true }, &seen)
    }

    /// Returns the copy of the pack in each pool. Copies in primary pools come first.
    fn copies(&self, pack: PackNumber) -> Result<Vec<PoolCopy>, FetchError> {
        let mut pools = self.catalog.pools()?;
        pools.retain(|row| library_of(&row.url).is_some());
        pools.sort_by_key(|row| (row.is_copy, row.id));
        let mut copies = Vec::new();
        for pool in pools {
            let parts = self.catalog.parts(pool.id, pack)?;
            let copy = parts.iter().map(|part| Some((self.row(part.volume)?, part_of(part))));
            copies.extend(copy.collect::<Option<PoolCopy>>().filter(|copy| !copy.is_empty()));
        }
        Ok(copies)
    }

    /// Requests a pack according to one plan.
    fn ask(
        &self,
        pack: PackNumber,
        plan: &Plan,
        who: &Reader,
        told: &Sender<Outcome>,
    ) -> Result<PackRequest, FetchError> {
        let operator = plan.site.operator()?;
        let mut asked = PackRequest {
            site: Arc::clone(&plan.site),
            waiters: Vec::new(),
            volume: String::new(),
            left: plan.pieces.len(),
        };
        assert!(!plan.pieces.is_empty(), "a plan has a piece");
        let bytes = plan.bytes();
        for piece in &plan.pieces {
            let stage = Arc::clone(&self.stage);
            let deliver: SinkOpener = Arc::new(move |part: &Part| {
                let stage_part = stage.begin(pack, bytes, part.offset)?;
                Ok(Box::new(stage_part) as Box<dyn std::io::Write + Send>)
            });
            let wanted = ReadRequest {
                object: piece.object,
                copies: piece.copies.clone(),
                deliver,
                salvages: plan.salvages,
                kind: who.kind,
                owner: who.owner(),
                program: who.program(),
            };
            match operator.ask(wanted, told.clone()) {
                Ok(waiter) => asked.waiters.push(waiter),
                Err(refusal) => {
                    asked.cancel();
                    return Err(FetchError::refused(refusal, piece.copies[0].0.name.to_string()));
                }
            }
            asked.volume = piece.copies[0].0.name.to_string();
        }
        assert_eq!(asked.waiters.len(), asked.left, "each piece has a waiter");
        Ok(asked)
    }

    /// Opens the pack as a file, from the stage or after reading it from a volume. If `salvages` is
    /// true, the file may have zeros in place of blocks that cannot be read.
    pub(crate) fn fetch(
        self: &Arc<Self>,
        pack: PackNumber,
        (who, salvages): (&Reader, bool),
    ) -> Result<File, ReadError> {
        self.fetch_for(pack, &Recipient { who, goes_on: &|| true }, salvages)
    }

    /// Does the same as [`Self::fetch`] for a recipient that may give up.
    fn fetch_for(
        self: &Arc<Self>,
        pack: PackNumber,
        recipient: &Recipient<'_>,
        salvages: bool,
    ) -> Result<File, ReadError> {
        let unread = |error: FetchError| ReadError::Volume { pack, reason: model::chain(&error) };
        if let Some(file) = self.stage.open_pack(pack) {
            return Ok(file);
        }
        if holds_drive() {
            // A writer reads packs before it borrows a drive.
            let reason = "this thread is writing a volume and cannot wait for another volume";
            return Err(ReadError::Volume { pack, reason: reason.to_owned() });
        }
        if let Some(error) = self.failures.of(pack) {
            return Err(unread(error));
        }
        let seen = ListedWait::new(self, recipient.who, 1);
        let has_given_up = || seen.is_cancelled() || !(recipient.goes_on)();
        let mut last = FetchError::Unshelved;
        let mut is_pushed_out = true;
        for _ in 0..TRIES {
            if !std::mem::replace(&mut is_pushed_out, false) {
                break;
            }
            for plan in self.plans(pack).map_err(unread)? {
                match self.fetch_by(pack, &plan, recipient, &seen) {
                    Ok(()) => {
                        if let Some(file) = self.stage.open_pack(pack) {
                            return Ok(file);
                        }
                        is_pushed_out = true;
                        last = FetchError::Retry(PUSHED_OUT);
                    }
                    Err(error) => last = error,
                }
                if has_given_up() {
                    break;
                }
            }
            if has_given_up() {
                break;
            }
        }
        if salvages
            && !has_given_up()
            && let Some(file) = self.salvage(pack, recipient, &seen)
        {
            return Ok(file);
        }
        if !has_given_up() {
            self.failures.note(pack, last.clone());
        }
        Err(unread(last))
    }

    /// Opens the readable parts of a pack of which no copy is undamaged. Uses the first copy that
    /// can be read at all.
    fn salvage(
        &self,
        pack: PackNumber,
        recipient: &Recipient<'_>,
        seen: &ListedWait,
    ) -> Option<File> {
        let plans = self.plans(pack);
        let plans = plans.inspect_err(|error| {
            tracing::warn!(%pack, %error, "the rest of a damaged pack cannot be looked for");
        });
        for (ordinal, mut plan) in (SALVAGED_ORDINALS..).zip(plans.ok()?) {
            plan.salvages = true;
            for (index, piece) in (0..).zip(&mut plan.pieces) {
                piece.object = object(pack, ordinal, index);
            }
            if self.fetch_by(pack, &plan, recipient, seen).is_ok() {
                tracing::error!(%pack, "a pack is damaged on its volume; the rest of it is served");
                self.note_salvaged(pack);
                return self.stage.open_pack(pack);
            }
        }
        None
    }

    fn fetch_by(
        &self,
        pack: PackNumber,
        plan: &Plan,
        recipient: &Recipient<'_>,
        seen: &ListedWait,
    ) -> Result<(), FetchError> {
        let (told, answers) = channel();
        let asked = self.ask(pack, plan, recipient.who, &told)?;
        seen.note(&asked);
        drop(told);
        for _ in 0..asked.left {
            let outcome =
                receive(&answers, seen, recipient.goes_on).inspect_err(|_| asked.cancel())?;
            outcome.result.inspect_err(|_| asked.cancel())?;
        }
        Ok(())
    }
}

/// Waits for the next answer. Fails when the wait is cancelled.
fn receive(
    answers: &Receiver<Outcome>,
    seen: &ListedWait,
    goes_on: &dyn Fn() -> bool,
) -> Result<Outcome, FetchError> {
    loop {
        match answers.recv_timeout(LOOK_AROUND) {
            Ok(outcome) => return Ok(outcome),
            Err(RecvTimeoutError::Disconnected) => {
                return Err(FetchError::Retry("the library was closed; try again"));
            }
            Err(RecvTimeoutError::Timeout) if seen.is_cancelled() || !goes_on() => {
                return Err(FetchError::Cancelled);
            }
            Err(RecvTimeoutError::Timeout) => {}
        }
    }
}

/// Returns the number of an object for the operator. All requests with the same number wait for one
/// read.
fn object(pack: PackNumber, copy: u64, piece: u64) -> ObjectId {
    debug_assert!(pack.0 < 1 << (u64::BITS - 2 * ORDINAL_BITS), "the number has room");
    let ordinal = |value: u64| value & ((1 << ORDINAL_BITS) - 1);
    ObjectId((pack.0 << (2 * ORDINAL_BITS)) | (ordinal(copy) << ORDINAL_BITS) | ordinal(piece))
}

/// Returns the volumes that are needed and not available, sorted by name.
fn absent(copies: &[PoolCopy]) -> Vec<AbsentVolume> {
    let mut missing = BTreeMap::new();
    for (row, _) in copies.iter().flatten() {
        if let Some(absence) = absence(row.access) {
            let (volume, location) = (row.name.clone(), row.location.clone());
            missing.insert(&row.name, AbsentVolume { volume, absence, location });
        }
    }
    assert!(!missing.is_empty(), "a copy that is not available lacks a volume");
    missing.into_values().collect()
}

/// Requests for packs that a reader will need later, as many as the stage has room for. Dropping
/// this value cancels the requests that were not served.
pub struct EarlyRequests {
    volumes: Arc<Volumes>,
    who: Reader,
    seen: ListedWait,
    queue: VecDeque<(PackNumber, u64)>,
    asked: HashMap<PackNumber, PackRequest>,
    /// Sizes in bytes of the packs that were requested and not yet used by the reader.
    held: HashMap<PackNumber, u64>,
    /// Sum of `held`.
    held_bytes: u64,
    budget_bytes: u64,
    told: Sender<Outcome>,
    answers: Receiver<Outcome>,
}

impl EarlyRequests {
    /// Prepares the requests. `packs` has each pack with its size in bytes, roughly in the order in
    /// which the packs will be needed.
    pub fn new(volumes: &Arc<Volumes>, who: Reader, packs: Vec<(PackNumber, u64)>) -> Self {
        let (told, answers) = channel();
        Self {
            seen: ListedWait::new(volumes, &who, packs.len()),
            volumes: Arc::clone(volumes),
            who,
            queue: packs.into(),
            asked: HashMap::new(),
            held: HashMap::new(),
            held_bytes: 0,
            budget_bytes: volumes.stage.bytes_max() / 2,
            told,
            answers,
        }
    }

    /// Requests as many packs as the stage has room for. Fails only if the operator refuses further
    /// requests.
    pub fn advance(&mut self) -> Result<(), FetchError> {
        while let Ok(outcome) = self.answers.try_recv() {
            self.note(&outcome);
        }
        while let Some(&(pack, bytes)) = self.queue.front() {
            if self.held_bytes > 0 && self.held_bytes + bytes > self.budget_bytes {
                break;
            }
            self.queue.pop_front();
            self.ask(pack, bytes)?;
        }
        Ok(())
    }

    fn ask(&mut self, pack: PackNumber, bytes: u64) -> Result<(), FetchError> {
        if self.held.insert(pack, bytes).is_none() {
            self.held_bytes += bytes;
        }
        if self.volumes.stage.has(pack) {
            self.seen.wait.packs_done.fetch_add(1, Ordering::Relaxed);
            return Ok(());
        }
        // The error of a pack that cannot be read is reported when the pack is needed.
        let Ok(plans) = self.volumes.plans(pack) else { return Ok(()) };
        for plan in plans {
            match self.volumes.ask(pack, &plan, &self.who, &self.told) {
                Ok(asked) => {
                    self.seen.note(&asked);
                    self.asked.insert(pack, asked);
                    return Ok(());
                }
                Err(FetchError::Absent(_) | FetchError::Library(_)) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn note(&mut self, outcome: &Outcome) {
        let pack = pack_of(outcome.object);
        let Some(asked) = self.asked.get_mut(&pack) else { return };
        assert!(asked.left > 0, "each piece arrives once");
        asked.left -= 1;
        if outcome.result.is_err() {
            asked.cancel();
        }
        if outcome.result.is_err() || asked.left == 0 {
            self.asked.remove(&pack);
            self.seen.wait.packs_done.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Requests packs that are needed now, as many as the stage has room for.
    pub fn need(&mut self, packs: &[(PackNumber, u64)]) -> Result<(), FetchError> {
        for &(pack, bytes) in packs {
            let is_room = self.held_bytes == 0 || self.held_bytes + bytes <= self.budget_bytes;
            if self.held.contains_key(&pack) || !is_room {
                continue;
            }
            self.queue.retain(|(queued, _)| *queued != pack);
            self.ask(pack, bytes)?;
        }
        Ok(())
    }

    /// Waits a moment for packs to arrive. Packs that were used, or that nobody has used for long,
    /// make room for further requests. Returns true while packs are still to arrive.
    pub fn look_around(&mut self) -> Result<bool, FetchError> {
        if self.seen.is_cancelled() {
            return Err(FetchError::Cancelled);
        }
        if let Ok(outcome) = self.answers.recv_timeout(LOOK_AROUND) {
            self.note(&outcome);
        }
        let stage = &self.volumes.stage;
        let is_over = |pack: &PackNumber| {
            let is_here = !self.asked.contains_key(pack);
            is_here && stage.idle_for(*pack).is_none_or(|idle| idle > UNUSED_MAX)
        };
        let over: Vec<PackNumber> =
            self.held.keys().filter(|pack| is_over(pack)).copied().collect();
        over.into_iter().for_each(|pack| self.done_with(pack));
        self.advance()?;
        Ok(!self.queue.is_empty() || !self.asked.is_empty())
    }

    /// Returns the number of packs that have arrived, and the number of all packs.
    pub fn progress(&self) -> (u32, u32) {
        let wait = &self.seen.wait;
        (wait.packs_done.load(Ordering::Relaxed), wait.packs.load(Ordering::Relaxed))
    }

    /// Chooses one of `packs` that can be read without waiting. If there is none, chooses the
    /// first.
    pub fn choose(&mut self, packs: &[PackNumber]) -> Option<PackNumber> {
        while let Ok(outcome) = self.answers.try_recv() {
            self.note(&outcome);
        }
        let is_here = |pack: &&PackNumber| !self.asked.contains_key(pack);
        packs.iter().find(is_here).or_else(|| packs.first()).copied()
    }

    /// Waits until the pack has arrived or its read has failed. Opening the pack then shows which
    /// of the two happened. `goes_on` returns false when nobody needs the pack any more.
    pub fn wait_for(
        &mut self,
        pack: PackNumber,
        bytes: u64,
        goes_on: &dyn Fn() -> bool,
    ) -> Result<(), FetchError> {
        if !self.held.contains_key(&pack) {
            self.queue.retain(|(queued, _)| *queued != pack);
            self.ask(pack, bytes)?;
        }
        while self.asked.contains_key(&pack) {
            let outcome = receive(&self.answers, &self.seen, goes_on)?;
            self.note(&outcome);
        }
        Ok(())
    }

    /// Brings a pack to the stage that is not there although its request has ended: it could not be
    /// read, or the stage needed the room. The readable parts of a damaged pack are brought too.
    ///
    /// Fails only if the reader has given up. Any other error is reported when the pack is opened.
    pub fn bring(&self, pack: PackNumber, goes_on: &dyn Fn() -> bool) -> Result<(), FetchError> {
        if self.volumes.is_staged(pack) {
            return Ok(());
        }
        let recipient = Recipient { who: &self.who, goes_on };
        let brought = self.volumes.fetch_for(pack, &recipient, true);
        if brought.is_err() && !goes_on() { Err(FetchError::Cancelled) } else { Ok(()) }
    }

    /// Notes that the pack was used, so that there is room for another pack.
    pub fn done_with(&mut self, pack: PackNumber) {
        let bytes = self.held.remove(&pack).unwrap_or(0);
        assert!(bytes <= self.held_bytes, "each pack that is held is counted");
        self.held_bytes -= bytes;
    }
}

impl Drop for EarlyRequests {
    fn drop(&mut self) {
        self.asked.values().for_each(PackRequest::cancel);
    }
}
