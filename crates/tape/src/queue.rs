//! Requests for volumes, the waiters of each request, and the queue of each volume.
//!
//! 1. Each wanted object has one request, for any number of waiters.
//! 2. A request waits in the queue of exactly one volume, or is being read. It has a waiter, unless
//!    its last waiter was cancelled while the request was being read.
//! 3. Numbers of requests grow in the order of arrival. A request that returns to a queue keeps its
//!    number, and so its place by age.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use crate::order::Stop;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct VolumeId(pub u64);

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct DriveId(pub u32);

/// An object that is read as a whole: a file, or the wanted part of a file.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ObjectId(pub u64);

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct RequestId(pub u64);

/// Number of a waiter. No two waiters have the same number at the same time.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct WaiterId(pub u64);

/// Owner to whose budget a waiter counts.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct OwnerId(pub u64);

/// Program to whose budget a waiter counts.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ProgramId(pub u64);

/// Kind of a request, the most urgent first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Kind {
    /// A program has opened a migrated file and waits.
    Open,
    /// A user wants a list of files recalled.
    List,
    Restore,
}

/// Number of kinds.
pub const KINDS: usize = 3;

impl Kind {
    pub(crate) fn index(self) -> usize {
        match self {
            Self::Open => 0,
            Self::List => 1,
            Self::Restore => 2,
        }
    }
}

/// A waiter, with the budgets to which it counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Waiter {
    pub id: WaiterId,
    pub owner: OwnerId,
    pub program: ProgramId,
    pub kind: Kind,
}

/// One copy of an object on tape.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Source {
    pub volume: VolumeId,
    pub stop: Stop,
}

/// A waiter with the object that it wants, and the places where the object can be read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Demand {
    pub waiter: Waiter,
    pub object: ObjectId,
    /// Copies of the object: at least one, each on a volume of its own.
    pub sources: Vec<Source>,
}

/// One wanted object, with its waiters.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) object: ObjectId,
    pub(crate) arrived: Duration,
    /// The copy that the request waits for or is read from.
    pub(crate) source: Source,
    /// Other copies, without those that have failed.
    pub(crate) others: Vec<Source>,
    pub(crate) waiters: Vec<Waiter>,
    /// Number of drives that failed while they read the request.
    pub(crate) breakdowns: u32,
    is_waiting: bool,
}

impl Request {
    /// Returns the most urgent kind among the waiters of the request.
    pub(crate) fn kind(&self) -> Kind {
        self.waiters.iter().map(|waiter| waiter.kind).min().unwrap_or(Kind::Restore)
    }
}

/// The queue of one volume.
#[derive(Debug, Default)]
pub(crate) struct Lane {
    /// Waiting requests, oldest first.
    pub(crate) waiting: BTreeSet<RequestId>,
    requests_of: [usize; KINDS],
    pub(crate) waiters: usize,
    /// Time of arrival of the last request for an open.
    pub(crate) last_open: Option<Duration>,
    /// Last request of the closed batch, see `schedule`; `None` while no batch is closed.
    pub(crate) closed: Option<RequestId>,
    /// Planned requests, in the order of reading. Some of them may have left the queue.
    pub(crate) plan: VecDeque<RequestId>,
    /// Estimated seconds of the plan and of the requests that have joined since.
    pub(crate) plan_secs: f64,
    /// Number of requests that have joined since the plan was made.
    pub(crate) fresh: usize,
    /// True if the volume has given up its drive for other volumes, and was not mounted again
    /// since.
    pub(crate) has_yielded: bool,
    /// Last order that a drive has recommended, for the requests that waited at that moment.
    pub(crate) recommended: Vec<RequestId>,
}

impl Lane {
    /// Returns the most urgent kind among the waiting requests.
    pub(crate) fn kind(&self) -> Kind {
        let kinds = [Kind::Open, Kind::List];
        let waits = |kind: &Kind| self.requests_of[kind.index()] > 0;
        kinds.into_iter().find(waits).unwrap_or(Kind::Restore)
    }

    /// Closes the batch if its oldest request is old, and opens it again when all its requests have
    /// been read. Returns true if the set of requests that may be planned has changed.
    pub(crate) fn settle_batch(&mut self, is_old: bool) -> bool {
        let before = self.closed;
        if self.closed.is_some_and(|last| self.waiting.first().is_none_or(|id| *id > last)) {
            self.closed = None;
        }
        if self.closed.is_none() && is_old {
            self.closed = self.waiting.last().copied();
        }
        self.closed != before
    }

    /// Returns the requests that may be planned: all waiting requests, or the rest of the closed
    /// batch.
    pub(crate) fn batch(&self) -> impl Iterator<Item = RequestId> {
        // All requests of a batch may have been cancelled while nothing was planned.
        let is_left = |last: &RequestId| self.waiting.first().is_some_and(|id| id <= last);
        let last = self.closed.filter(is_left);
        self.waiting
            .iter()
            .copied()
            .take_while(move |id| last.is_none_or(|last| *id <= last))
    }

    /// Returns the next request of the plan that still waits, and removes earlier ones from the
    /// plan.
    pub(crate) fn next_planned(&mut self) -> Option<RequestId> {
        while let Some(first) = self.plan.front() {
            if self.waiting.contains(first) {
                return Some(*first);
            }
            self.plan.pop_front();
        }
        None
    }

    fn count(&mut self, request: &Request) {
        self.requests_of[request.kind().index()] += 1;
        self.waiters += request.waiters.len();
    }

    fn discount(&mut self, request: &Request) {
        assert!(self.requests_of[request.kind().index()] > 0, "the request was counted");
        assert!(self.waiters >= request.waiters.len(), "the waiters of the request were counted");
        self.requests_of[request.kind().index()] -= 1;
        self.waiters -= request.waiters.len();
    }
}

/// All requests, and the queues that they wait in.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    requests: BTreeMap<RequestId, Request>,
    by_object: BTreeMap<ObjectId, RequestId>,
    by_waiter: BTreeMap<WaiterId, RequestId>,
    /// Volumes with waiting requests.
    lanes: BTreeMap<VolumeId, Lane>,
    opens_of_owner: BTreeMap<OwnerId, usize>,
    opens_of_program: BTreeMap<ProgramId, usize>,
    next: u64,
}

impl Queue {
    pub(crate) fn request(&self, id: RequestId) -> &Request {
        self.requests
            .get(&id)
            .expect("a request's number is not used after its removal")
    }

    pub(crate) fn of_object(&self, object: ObjectId) -> Option<RequestId> {
        self.by_object.get(&object).copied()
    }

    pub(crate) fn of_waiter(&self, waiter: WaiterId) -> Option<RequestId> {
        self.by_waiter.get(&waiter).copied()
    }

    pub(crate) fn lane(&self, volume: VolumeId) -> Option<&Lane> {
        self.lanes.get(&volume)
    }

    pub(crate) fn lane_mut(&mut self, volume: VolumeId) -> Option<&mut Lane> {
        self.lanes.get_mut(&volume)
    }

    /// Drops the plans of all queues. Each queue is planned anew when it is next used.
    pub(crate) fn drop_plans(&mut self) {
        self.lanes.values_mut().for_each(|lane| lane.plan.clear());
    }

    /// Returns the volumes with waiting requests, and their queues.
    pub(crate) fn lanes(&self) -> impl Iterator<Item = (VolumeId, &Lane)> {
        self.lanes.iter().map(|(volume, lane)| (*volume, lane))
    }

    /// Returns the numbers of opens of `owner` and of `program` that wait or are being served.
    pub(crate) fn opens_of(&self, owner: OwnerId, program: ProgramId) -> (usize, usize) {
        let of_owner = self.opens_of_owner.get(&owner).copied().unwrap_or(0);
        (of_owner, self.opens_of_program.get(&program).copied().unwrap_or(0))
    }

    /// Returns the arrival of the oldest request for `volume`.
    pub(crate) fn oldest(&self, volume: VolumeId) -> Option<Duration> {
        let first = self.lane(volume)?.waiting.first()?;
        Some(self.request(*first).arrived)
    }

    /// Adds a request for an object that has no request yet. The request waits for the copy
    /// `source`.
    pub(crate) fn add(&mut self, now: Duration, ask: Demand, source: Source) -> RequestId {
        assert!(ask.sources.contains(&source), "the copy is a source of the demand");
        let id = RequestId(self.next);
        self.next += 1;
        let others = ask.sources.into_iter().filter(|other| *other != source).collect();
        let request = Request {
            object: ask.object,
            arrived: now,
            source,
            others,
            waiters: Vec::new(),
            breakdowns: 0,
            is_waiting: false,
        };
        assert!(self.by_object.insert(ask.object, id).is_none(), "an object has one request");
        self.requests.insert(id, request);
        self.join(id, ask.waiter);
        self.put_back(id);
        id
    }

    /// Adds a waiter to a request.
    pub(crate) fn join(&mut self, id: RequestId, waiter: Waiter) {
        assert!(self.by_waiter.insert(waiter.id, id).is_none(), "a waiter waits once");
        if waiter.kind == Kind::Open {
            *self.opens_of_owner.entry(waiter.owner).or_default() += 1;
            *self.opens_of_program.entry(waiter.program).or_default() += 1;
        }
        self.change(id, |request| request.waiters.push(waiter));
    }

    /// Removes a waiter; returns true if it existed. A request without waiters is removed too,
    /// unless it is being read.
    pub(crate) fn cancel(&mut self, waiter: WaiterId) -> bool {
        let Some(id) = self.by_waiter.get(&waiter).copied() else { return false };
        let of_request = &self.request(id).waiters;
        let gone = *of_request
            .iter()
            .find(|other| other.id == waiter)
            .expect("the waiter belongs to its request");
        self.release(&gone);
        self.change(id, |request| request.waiters.retain(|other| other.id != waiter));
        if self.request(id).waiters.is_empty() && self.request(id).is_waiting {
            self.remove(id);
        }
        true
    }

    /// Takes a request out of its volume's queue, to be read.
    pub(crate) fn take(&mut self, id: RequestId) {
        let request = self.requests.get_mut(&id).expect("the request waits");
        assert!(request.is_waiting, "only a waiting request can be taken");
        request.is_waiting = false;
        let volume = request.source.volume;
        let lane = self.lanes.get_mut(&volume).expect("a waiting request has a queue");
        let was_there = lane.waiting.remove(&id);
        assert!(was_there, "a request waits in the queue of its volume");
        lane.discount(request);
        if lane.waiting.is_empty() {
            self.lanes.remove(&volume);
        }
    }

    /// Puts a request that is not being read into the queue of its volume.
    pub(crate) fn put_back(&mut self, id: RequestId) {
        let request = self.requests.get_mut(&id).expect("the request exists");
        assert!(!request.is_waiting, "a request waits in one queue");
        request.is_waiting = true;
        let lane = self.lanes.entry(request.source.volume).or_default();
        lane.waiting.insert(id);
        lane.fresh += 1;
        lane.count(request);
        if request.kind() == Kind::Open {
            lane.last_open = lane.last_open.max(Some(request.arrived));
        }
    }

    /// Puts a request that is not being read into the queue of another copy's volume. The old copy
    /// is dropped if it `failed`.
    pub(crate) fn turn_to(&mut self, id: RequestId, source: Source, failed: bool) {
        let request = self.requests.get_mut(&id).expect("the request exists");
        assert!(!request.is_waiting, "the request has left its queue");
        let before = std::mem::replace(&mut request.source, source);
        request.others.retain(|other| *other != source);
        if !failed && before != source {
            request.others.push(before);
        }
        self.put_back(id);
    }

    /// Counts a drive that failed while it read the request; returns the number of such drives.
    pub(crate) fn count_breakdown(&mut self, id: RequestId) -> u32 {
        let request = self.requests.get_mut(&id).expect("the request exists");
        request.breakdowns += 1;
        request.breakdowns
    }

    /// Removes a request with all its waiters.
    pub(crate) fn remove(&mut self, id: RequestId) -> Request {
        if self.request(id).is_waiting {
            self.take(id);
        }
        let request = self.requests.remove(&id).expect("the request exists");
        let of_object = self.by_object.remove(&request.object);
        assert_eq!(of_object, Some(id), "an object has one request");
        for waiter in &request.waiters {
            self.release(waiter);
        }
        request
    }

    /// Changes the waiters of a request, and updates the counts of its queue.
    fn change(&mut self, id: RequestId, change: impl FnOnce(&mut Request)) {
        let request = self.requests.get_mut(&id).expect("the request exists");
        let lane = self.lanes.get_mut(&request.source.volume).filter(|_| request.is_waiting);
        let Some(lane) = lane else { return change(request) };
        lane.discount(request);
        change(request);
        lane.count(request);
    }

    /// Removes a waiter from the index and from the counts of its budgets.
    fn release(&mut self, waiter: &Waiter) {
        self.by_waiter.remove(&waiter.id);
        if waiter.kind == Kind::Open {
            less_one(&mut self.opens_of_owner, waiter.owner);
            less_one(&mut self.opens_of_program, waiter.program);
        }
    }
}

/// Reduces a count by one. A count that reaches 0 is removed.
fn less_one<K: Ord>(counts: &mut BTreeMap<K, usize>, key: K) {
    let count = counts.get_mut(&key).expect("a waiter was counted on arrival");
    debug_assert!(*count > 0, "a count of 0 is not kept");
    *count -= 1;
    if *count == 0 {
        counts.remove(&key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Duration = Duration::from_secs(1);

    fn source(volume: u64) -> Source {
        Source { volume: VolumeId(volume), stop: Stop { at: 0, bytes: 1 } }
    }

    fn waiter(id: u64, kind: Kind) -> Waiter {
        Waiter { id: WaiterId(id), owner: OwnerId(id % 2), program: ProgramId(0), kind }
    }

    fn add(queue: &mut Queue, object: u64, waiter: Waiter) -> RequestId {
        let sources = vec![source(1), source(2)];
        let ask = Demand { waiter, object: ObjectId(object), sources };
        queue.add(NOW, ask, source(1))
    }

    #[test]
    fn a_request_goes_with_its_last_waiter() {
        let mut queue = Queue::default();
        let id = add(&mut queue, 7, waiter(1, Kind::List));
        queue.join(id, waiter(2, Kind::Open));
        assert!(queue.cancel(WaiterId(1)) && !queue.cancel(WaiterId(1)));
        assert_eq!(queue.of_object(ObjectId(7)), Some(id));
        assert!(queue.cancel(WaiterId(2)));
        assert_eq!(queue.of_object(ObjectId(7)), None);
        assert_eq!((queue.lanes().count(), queue.opens_of(OwnerId(0), ProgramId(0))), (0, (0, 0)));
    }

    #[test]
    fn what_is_being_read_stays_without_waiters() {
        let mut queue = Queue::default();
        let id = add(&mut queue, 7, waiter(1, Kind::Open));
        queue.take(id);
        assert!(queue.cancel(WaiterId(1)));
        assert_eq!(queue.remove(id).waiters, []);
    }

    #[test]
    fn a_queue_is_as_urgent_as_its_most_urgent_waiter() {
        let mut queue = Queue::default();
        let id = add(&mut queue, 7, waiter(1, Kind::Restore));
        let kind = |queue: &Queue| queue.lane(VolumeId(1)).map(Lane::kind);
        assert_eq!(kind(&queue), Some(Kind::Restore));
        queue.join(id, waiter(2, Kind::Open));
        add(&mut queue, 8, waiter(3, Kind::List));
        assert_eq!(kind(&queue), Some(Kind::Open));
        queue.cancel(WaiterId(2));
        assert_eq!(kind(&queue), Some(Kind::List));
        assert_eq!(queue.lane(VolumeId(1)).map(|lane| lane.waiters), Some(2));
    }

    #[test]
    fn a_copy_that_failed_is_not_offered_again() {
        let mut queue = Queue::default();
        let id = add(&mut queue, 7, waiter(1, Kind::Open));
        queue.take(id);
        queue.turn_to(id, source(2), true);
        assert_eq!((queue.request(id).source, queue.request(id).others.len()), (source(2), 0));
        queue.take(id);
        queue.turn_to(id, source(1), false);
        assert_eq!(queue.request(id).others, [source(2)]);
    }

    #[test]
    fn opens_are_counted_and_lists_are_not() {
        let mut queue = Queue::default();
        add(&mut queue, 1, waiter(1, Kind::Open));
        add(&mut queue, 2, waiter(2, Kind::Open));
        add(&mut queue, 3, waiter(3, Kind::List));
        assert_eq!(queue.opens_of(OwnerId(1), ProgramId(0)), (1, 2));
    }
}
