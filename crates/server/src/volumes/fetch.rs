//! Packs brought from volumes to the stage: one that is needed now, or many that will be needed.
//!
//! Whoever needs many says so in front, so that they are read in the order in which they lie; who
//! needs the same pack as another waits with him.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::fs::File;
use std::hash::Hasher as _;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use catalog::{Node, PartRow, VolumeRow};
use format::volume::{ObjectId as StoredId, Part};
use model::{PackNumber, PoolId, ServerTime};
use pool::ReadError;
use tape::operator::{Deliver, Known, Outcome, Wanted};
use tape::schedule::{Kind, ObjectId, OwnerId, ProgramId, Refusal, WaiterId};
use wire::proto;

use super::Volumes;
use super::site::{Site, absence, known};
use super::write::holds_drive;

/// Whether a wait was cancelled is looked at so often.
const LOOK_AROUND: Duration = Duration::from_millis(500);
/// A pack that could not be had is not tried again for so long.
const FAILURE_KEPT: Duration = Duration::from_secs(10);
/// Room is kept so long for a pack that nobody uses.
const UNUSED_MAX: Duration = Duration::from_secs(60);
/// A pack that is gone from the stage before it was opened is fetched again so often.
const TRIES: u32 = 3;
/// Parts and copies of a pack that can be told apart.
const ORDINAL_BITS: u32 = 8;

/// Copies that somebody wants to read for themselves count from here.
const OWN_ORDINALS: u64 = 128;
/// And those of which what can be read is wanted.
const SALVAGED_ORDINALS: u64 = 64;

/// On whose behalf packs are read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Who {
    pub(crate) kind: Kind,
    /// Empty for the server itself.
    pub(crate) node: String,
    pub(crate) user: u32,
    pub(crate) program: String,
}

impl Who {
    /// The server itself: it copies, moves or checks.
    pub(crate) fn server() -> Self {
        Self { kind: Kind::Restore, node: String::new(), user: 0, program: String::new() }
    }

    /// The node, as it says what for.
    pub(crate) fn of_node(node: &Node, purpose: &proto::Purpose) -> Self {
        let kind = match purpose.kind() {
            proto::purpose::Kind::Restore => Kind::Restore,
            proto::purpose::Kind::Open => Kind::Open,
            proto::purpose::Kind::List => Kind::List,
        };
        let proto::Purpose { user, program, .. } = purpose.clone();
        Self { kind, node: node.name.to_string(), user, program }
    }

    fn owner(&self) -> OwnerId {
        OwnerId(hashed(&(&self.node, self.user)))
    }

    fn program(&self) -> ProgramId {
        ProgramId(hashed(&(&self.node, &self.program)))
    }
}

fn hashed(value: &impl std::hash::Hash) -> u64 {
    let mut hasher = std::hash::DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

/// Somebody who waits for packs, for show.
#[derive(Debug)]
pub(crate) struct Wait {
    pub(crate) who: Who,
    pub(crate) since: ServerTime,
    pub(crate) packs: AtomicU32,
    pub(crate) packs_done: AtomicU32,
    pub(crate) is_cancelled: AtomicBool,
    /// What was asked for last, and where it lies.
    pub(crate) last: Mutex<Option<(String, WaiterId, String)>>,
}

impl Wait {
    fn note(&self, asked: &Asked) {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(waiter) = asked.waiters.last() {
            let library = asked.site.name.clone();
            *last = Some((library, *waiter, asked.volume.clone()));
        }
    }
}

/// A wait that others can see; it ends when this is dropped.
pub(super) struct Seen {
    volumes: Arc<Volumes>,
    number: u64,
    pub(super) wait: Arc<Wait>,
}

impl Seen {
    pub(super) fn new(volumes: &Arc<Volumes>, who: &Who, packs: usize) -> Self {
        let wait = Arc::new(Wait {
            who: who.clone(),
            since: sys::clock::now(),
            packs: AtomicU32::new(u32::try_from(packs).unwrap_or(u32::MAX)),
            packs_done: AtomicU32::new(0),
            is_cancelled: AtomicBool::new(false),
            last: Mutex::new(None),
        });
        let number = volumes.last_wait.fetch_add(1, Ordering::Relaxed) + 1;
        let mut waits = volumes.waits.lock().unwrap_or_else(PoisonError::into_inner);
        waits.insert(number, Arc::clone(&wait));
        drop(waits);
        Self { volumes: Arc::clone(volumes), number, wait }
    }

    fn is_cancelled(&self) -> bool {
        self.wait.is_cancelled.load(Ordering::Relaxed)
    }
}

impl Drop for Seen {
    fn drop(&mut self) {
        let mut waits = self.volumes.waits.lock().unwrap_or_else(PoisonError::into_inner);
        waits.remove(&self.number);
    }
}

/// One way to read a pack: its parts, each from any of some volumes of one library.
pub(crate) struct Plan {
    pub(crate) site: Arc<Site>,
    pub(crate) pieces: Vec<Piece>,
    /// Whether zeros do for what cannot be read: each quantum is checked.
    salvages: bool,
}

pub(crate) struct Piece {
    object: ObjectId,
    pub(crate) copies: Vec<(Known, Part)>,
}

impl Plan {
    pub(crate) fn bytes(&self) -> u64 {
        let bytes = |piece: &Piece| piece.copies.first().map_or(0, |(_, part)| part.bytes);
        self.pieces.iter().map(bytes).sum()
    }
}

/// A pack that was asked for.
struct Asked {
    site: Arc<Site>,
    waiters: Vec<WaiterId>,
    /// The last one of those that it comes from.
    volume: String,
    /// Pieces that have not come.
    left: usize,
}

impl Asked {
    fn cancel(&self) {
        if let Ok(operator) = &self.site.operator {
            for waiter in &self.waiters {
                operator.cancel(*waiter);
            }
        }
    }
}

/// The pack that an object is of.
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

/// The pack's parts in one pool with their volumes.
type Copy = Vec<(VolumeRow, Part)>;

impl Volumes {
    /// The ways to read a pack, the best first; the reason why there is none is for a person.
    pub(crate) fn plans(&self, pack: PackNumber) -> Result<Vec<Plan>, String> {
        let copies = self.copies(pack)?;
        if copies.is_empty() {
            return Err("no volume has it".to_owned());
        }
        let is_there = |copy: &&Copy| copy.iter().all(|(row, _)| absence(row.access).is_none());
        let there: Vec<&Copy> = copies.iter().filter(is_there).collect();
        if there.is_empty() {
            return Err(absent(&copies));
        }
        let mut plans: Vec<Plan> = Vec::new();
        for (ordinal, copy) in (0..).zip(&there) {
            let site = self.site(&copy[0].0.library)?;
            if let [(row, part)] = &copy[..] {
                // Of copies in one piece any will do, whichever can be had first.
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
            let pieces = (0..).zip(*copy).map(piece).collect::<Result<_, String>>()?;
            plans.push(Plan { site, pieces, salvages: false });
        }
        Ok(plans)
    }

    /// Reads a pool's own copy of a pack into the stage.
    pub(super) fn fetch_own(
        self: &Arc<Self>,
        pool: PoolId,
        pack: PackNumber,
    ) -> Result<(), String> {
        let failed = |error: catalog::CatalogError| model::chain(&error);
        let parts = self.catalog.parts(pool, pack).map_err(failed)?;
        let copy: Option<Copy> =
            parts.iter().map(|part| Some((self.row(part.volume)?, part_of(part)))).collect();
        let copy = copy.filter(|copy| !copy.is_empty()).ok_or("no volume has it")?;
        let site = self.site(&copy[0].0.library)?;
        let piece = |(index, (row, part)): (u64, &(VolumeRow, Part))| {
            let copies = vec![(known(row)?, *part)];
            Ok(Piece { object: object(pack, u64::from(pool.0) + OWN_ORDINALS, index), copies })
        };
        let pieces = (0..).zip(&copy).map(piece).collect::<Result<_, String>>()?;
        let (who, plan) = (Who::server(), Plan { site, pieces, salvages: false });
        let seen = Seen::new(self, &who, 1);
        self.fetch_by(pack, &plan, &who, &seen)
    }

    /// What each pool has of the pack, the primary ones' first.
    fn copies(&self, pack: PackNumber) -> Result<Vec<Copy>, String> {
        let failed = |error: catalog::CatalogError| model::chain(&error);
        let mut pools = self.catalog.pools().map_err(failed)?;
        pools.retain(|row| super::library_of(&row.url).is_some());
        pools.sort_by_key(|row| (row.is_copy, row.id));
        let mut copies = Vec::new();
        for pool in pools {
            let parts = self.catalog.parts(pool.id, pack).map_err(failed)?;
            let copy = parts.iter().map(|part| Some((self.row(part.volume)?, part_of(part))));
            copies.extend(copy.collect::<Option<Copy>>().filter(|copy| !copy.is_empty()));
        }
        Ok(copies)
    }

    /// Asks for a pack by one plan.
    fn ask(
        &self,
        pack: PackNumber,
        plan: &Plan,
        who: &Who,
        told: &Sender<Outcome>,
    ) -> Result<Asked, Refused> {
        let operator = plan.site.operator().map_err(Refused::Reason)?;
        let mut asked = Asked {
            site: Arc::clone(&plan.site),
            waiters: Vec::new(),
            volume: String::new(),
            left: plan.pieces.len(),
        };
        let bytes = plan.bytes();
        for piece in &plan.pieces {
            let stage = Arc::clone(&self.stage);
            let deliver: Deliver = Arc::new(move |part: &Part| {
                let arriving = stage.begin(pack, bytes, part.offset)?;
                Ok(Box::new(arriving) as Box<dyn std::io::Write + Send>)
            });
            let wanted = Wanted {
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
                    return Err(Refused::By(refusal, piece.copies[0].0.name.to_string()));
                }
            }
            asked.volume = piece.copies[0].0.name.to_string();
        }
        Ok(asked)
    }

    /// The pack as a file, whichever volume it has to come from; with zeros for what cannot be read
    /// where it `salvages`.
    pub(super) fn fetch(
        self: &Arc<Self>,
        pool: PoolId,
        pack: PackNumber,
        (who, salvages): (&Who, bool),
    ) -> Result<File, ReadError> {
        let unread = |reason: String| ReadError::Volume { pack, reason };
        if let Some(file) = self.stage.open_pack(pack) {
            return Ok(file);
        }
        if holds_drive() {
            // Whoever writes reads in front, and gives his drive back for it.
            return Err(unread("the drives are being written with".to_owned()));
        }
        if let Some(reason) = self.failed_lately(pack) {
            return Err(unread(reason));
        }
        let seen = Seen::new(self, who, 1);
        let mut reason = format!("pool {pool} has nothing of it");
        let mut is_pushed_out = true;
        for _ in 0..TRIES {
            if !std::mem::replace(&mut is_pushed_out, false) {
                break;
            }
            for plan in self.plans(pack).map_err(unread)? {
                match self.fetch_by(pack, &plan, who, &seen) {
                    Ok(()) => {
                        if let Some(file) = self.stage.open_pack(pack) {
                            return Ok(file);
                        }
                        is_pushed_out = true;
                        "it was pushed out of the stage".clone_into(&mut reason);
                    }
                    Err(why) => reason = why,
                }
            }
            if seen.is_cancelled() {
                break;
            }
        }
        if salvages
            && !seen.is_cancelled()
            && let Some(file) = self.salvage(pack, who, &seen)
        {
            return Ok(file);
        }
        if !seen.is_cancelled() {
            let mut failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
            failures.insert(pack, (sys::clock::monotonic(), reason.clone()));
        }
        Err(unread(reason))
    }

    /// What could be read of the pack, where no copy is whole; the first that gives anything.
    fn salvage(&self, pack: PackNumber, who: &Who, seen: &Seen) -> Option<File> {
        for (ordinal, mut plan) in (SALVAGED_ORDINALS..).zip(self.plans(pack).ok()?) {
            plan.salvages = true;
            for (index, piece) in (0..).zip(&mut plan.pieces) {
                piece.object = object(pack, ordinal, index);
            }
            if self.fetch_by(pack, &plan, who, seen).is_ok() {
                tracing::error!(%pack, "a pack is damaged on its volume; the rest of it is served");
                let mut salvaged = self.salvaged.lock().unwrap_or_else(PoisonError::into_inner);
                salvaged.insert(pack);
                return self.stage.open_pack(pack);
            }
        }
        None
    }

    /// Lets go of what there is of a pack of which a part is lost: it is tried again.
    pub(super) fn drop_salvaged(&self, pack: PackNumber) {
        let mut salvaged = self.salvaged.lock().unwrap_or_else(PoisonError::into_inner);
        if salvaged.remove(&pack) {
            self.stage.forget(pack);
        }
    }

    /// What could not be had may be there now.
    pub(super) fn forget_failures(&self) {
        self.failures.lock().unwrap_or_else(PoisonError::into_inner).clear();
        let mut salvaged = self.salvaged.lock().unwrap_or_else(PoisonError::into_inner);
        salvaged.drain().for_each(|pack| self.stage.forget(pack));
    }

    /// Why the pack could not be had a moment ago: each of its quanta is asked for by itself.
    fn failed_lately(&self, pack: PackNumber) -> Option<String> {
        let mut failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
        failures.retain(|_, (at, _)| at.elapsed() < FAILURE_KEPT);
        failures.get(&pack).map(|(_, reason)| reason.clone())
    }

    fn fetch_by(
        &self,
        pack: PackNumber,
        plan: &Plan,
        who: &Who,
        seen: &Seen,
    ) -> Result<(), String> {
        let (told, answers) = channel();
        let asked = self.ask(pack, plan, who, &told).map_err(|refused| refused.to_string())?;
        seen.wait.note(&asked);
        drop(told);
        for _ in 0..asked.left {
            let outcome = receive(&answers, seen, &|| true).inspect_err(|_| asked.cancel())?;
            outcome.result.inspect_err(|_| asked.cancel())?;
        }
        Ok(())
    }
}

/// The next answer, unless the wait is cancelled.
fn receive(
    answers: &Receiver<Outcome>,
    seen: &Seen,
    goes_on: &dyn Fn() -> bool,
) -> Result<Outcome, String> {
    loop {
        match answers.recv_timeout(LOOK_AROUND) {
            Ok(outcome) => return Ok(outcome),
            Err(RecvTimeoutError::Disconnected) => return Err("the library was closed".to_owned()),
            Err(RecvTimeoutError::Timeout) if seen.is_cancelled() || !goes_on() => {
                return Err("it was cancelled".to_owned());
            }
            Err(RecvTimeoutError::Timeout) => {}
        }
    }
}

fn object(pack: PackNumber, copy: u64, piece: u64) -> ObjectId {
    let ordinal = |value: u64| value & ((1 << ORDINAL_BITS) - 1);
    ObjectId((pack.0 << (2 * ORDINAL_BITS)) | (ordinal(copy) << ORDINAL_BITS) | ordinal(piece))
}

/// Which volumes would be needed.
fn absent(copies: &[Copy]) -> String {
    let mut missing: BTreeMap<&str, String> = BTreeMap::new();
    for (row, _) in copies.iter().flatten() {
        if let Some(absence) = absence(row.access) {
            let place = if row.location.is_empty() { "" } else { ", in " };
            missing.insert(&row.name, format!("{absence}{place}{}", row.location));
        }
    }
    let named: Vec<String> =
        missing.iter().map(|(name, why)| format!("volume {name} is {why}")).collect();
    named.join("; ")
}

/// Why nobody was even asked to wait.
enum Refused {
    By(Refusal, String),
    Reason(String),
}

impl std::fmt::Display for Refused {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::By(Refusal::Unavailable { absence, .. }, volume) => {
                write!(f, "volume {volume} is {absence}")
            }
            Self::By(refusal, _) => write!(f, "{refusal}"),
            Self::Reason(reason) => f.write_str(reason),
        }
    }
}

/// Packs that will be needed, asked for in front as far as the stage has room. What is not needed
/// any more when this is dropped is not read.
pub(crate) struct Ahead {
    volumes: Arc<Volumes>,
    who: Who,
    seen: Seen,
    queue: VecDeque<(PackNumber, u64)>,
    asked: HashMap<PackNumber, Asked>,
    /// Bytes of packs that were asked for and are not done with, by pack.
    held: HashMap<PackNumber, u64>,
    held_bytes: u64,
    budget_bytes: u64,
    told: Sender<Outcome>,
    answers: Receiver<Outcome>,
}

impl Ahead {
    /// `packs` with their bytes, in the order in which they will be needed, about.
    pub(crate) fn new(volumes: &Arc<Volumes>, who: Who, packs: Vec<(PackNumber, u64)>) -> Self {
        let (told, answers) = channel();
        Self {
            seen: Seen::new(volumes, &who, packs.len()),
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

    /// Asks for as much as there is room for. Fails only where nobody may wait.
    pub(crate) fn advance(&mut self) -> Result<(), String> {
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

    fn ask(&mut self, pack: PackNumber, bytes: u64) -> Result<(), String> {
        if self.held.insert(pack, bytes).is_none() {
            self.held_bytes += bytes;
        }
        if self.volumes.stage.has(pack) {
            self.seen.wait.packs_done.fetch_add(1, Ordering::Relaxed);
            return Ok(());
        }
        // What cannot be had is said when it is needed.
        let Ok(plans) = self.volumes.plans(pack) else { return Ok(()) };
        for plan in plans {
            match self.volumes.ask(pack, &plan, &self.who, &self.told) {
                Ok(asked) => {
                    self.seen.wait.note(&asked);
                    self.asked.insert(pack, asked);
                    return Ok(());
                }
                Err(Refused::By(Refusal::Unavailable { .. }, _) | Refused::Reason(_)) => {}
                Err(refused @ Refused::By(..)) => return Err(refused.to_string()),
            }
        }
        Ok(())
    }

    fn note(&mut self, outcome: &Outcome) {
        let pack = pack_of(outcome.object);
        let Some(asked) = self.asked.get_mut(&pack) else { return };
        asked.left -= 1;
        if outcome.result.is_err() {
            asked.cancel();
        }
        if outcome.result.is_err() || asked.left == 0 {
            self.asked.remove(&pack);
            self.seen.wait.packs_done.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Asks for packs that are needed now, as far as there is room.
    pub(crate) fn need(&mut self, packs: &[(PackNumber, u64)]) -> Result<(), String> {
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

    /// Waits a moment for what was asked for; packs that somebody has used make room for others.
    /// Returns whether anything is left to come.
    pub(crate) fn look_around(&mut self) -> Result<bool, String> {
        if self.seen.is_cancelled() {
            return Err("it was cancelled".to_owned());
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

    /// Packs that have come, and all.
    pub(crate) fn progress(&self) -> (u32, u32) {
        let wait = &self.seen.wait;
        (wait.packs_done.load(Ordering::Relaxed), wait.packs.load(Ordering::Relaxed))
    }

    /// Of `packs` one that is here, or that nobody has to wait for; the first where there is none.
    pub(crate) fn choose(&mut self, packs: &[PackNumber]) -> Option<PackNumber> {
        while let Ok(outcome) = self.answers.try_recv() {
            self.note(&outcome);
        }
        let is_here = |pack: &&PackNumber| !self.asked.contains_key(pack);
        packs.iter().find(is_here).or_else(|| packs.first()).copied()
    }

    /// Waits until the pack is here, or has failed to come: reading it says so.
    ///
    /// `goes_on` says whether anybody still wants it.
    pub(crate) fn wait_for(
        &mut self,
        pack: PackNumber,
        bytes: u64,
        goes_on: &dyn Fn() -> bool,
    ) -> Result<(), String> {
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

    /// The pack was read: there is room for another.
    pub(crate) fn done_with(&mut self, pack: PackNumber) {
        self.held_bytes -= self.held.remove(&pack).unwrap_or(0);
    }
}

impl Drop for Ahead {
    fn drop(&mut self) {
        self.asked.values().for_each(Asked::cancel);
    }
}
