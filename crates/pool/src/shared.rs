//! Pools that several servers use at once: what one of them writes, the others hear of later.
//!
//! Only packs in object stores are shared. Each server takes numbers for its packs beforehand, so
//! that no two use the same. What it hears of others' packs may be late, or tell of a pack that has
//! moved on to another pool since: a server that does not find one looks for it.

use std::io;
use std::ops::Range;
use std::sync::Arc;

use model::{PackNumber, PoolId};

use crate::Pools;
use crate::bucket::Bucketed;
use crate::open::OpenPack;
use crate::state::State;

/// Gives numbers that no other server has, each time other ones.
pub type TakeNumbers = Arc<dyn Fn() -> io::Result<Range<PackNumber>> + Send + Sync>;

/// More are taken when there are no more than so many.
const NUMBERS_LOW: u64 = 16;

/// Where the numbers of new packs come from.
pub enum Numbers {
    /// Nobody else gives any: from here on.
    Own(PackNumber),
    Shared(TakeNumbers),
}

/// Numbers that are there for packs.
pub(crate) struct Stock {
    pub(crate) next: PackNumber,
    end: PackNumber,
    /// What comes behind `end`.
    spare: Option<Range<PackNumber>>,
    /// The end of all that were ever taken, whether they are still there or not.
    taken_end: PackNumber,
    more: Option<TakeNumbers>,
}

/// What of a server's packs the others do not know yet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Standing {
    /// Not above a pack that is open, or that was sealed and nobody was told of; `None` where there
    /// is none, and the next one will have a number that is not taken yet.
    pub horizon: Option<PackNumber>,
    /// The end of all numbers that were ever taken.
    pub numbers_end: PackNumber,
}

impl Stock {
    /// `last` is the greatest number that there is.
    pub(crate) fn new(numbers: Numbers, last: PackNumber) -> Self {
        let (next, end, more) = match numbers {
            Numbers::Own(next) => (next.max(PackNumber(last.0 + 1)), PackNumber(u64::MAX), None),
            Numbers::Shared(more) => (PackNumber(0), PackNumber(0), Some(more)),
        };
        Self { next, end, spare: None, taken_end: end, more }
    }

    /// Others have numbers of their own.
    pub(crate) fn is_shared(&self) -> bool {
        self.more.is_some()
    }

    /// Has there be a number.
    fn fill(&mut self) -> io::Result<()> {
        if self.next >= self.end
            && let Some(more) = &self.more
        {
            let taken = self.spare.take().map_or_else(|| more(), Ok)?;
            self.taken_end = self.taken_end.max(taken.end);
            (self.next, self.end) = (taken.start, taken.end);
        }
        Ok(())
    }

    /// Has these be there for later. Who has taken them at the same time as another thread has
    /// taken them for nobody.
    fn put_by(&mut self, taken: Range<PackNumber>) {
        self.taken_end = self.taken_end.max(taken.end);
        self.spare = self.spare.take().or(Some(taken));
    }

    /// Whom to ask for more, where there are few.
    fn is_low(&self) -> Option<TakeNumbers> {
        let left = self.end.0.saturating_sub(self.next.0);
        let is_low = left <= NUMBERS_LOW && self.spare.is_none();
        self.more.clone().filter(|_| is_low)
    }

    /// The next number, for one pack.
    pub(crate) fn take(&mut self) -> io::Result<PackNumber> {
        self.fill()?;
        let number = self.next;
        self.next = PackNumber(number.0 + 1);
        Ok(number)
    }

    /// A pack has turned up: the next ones are numbered from behind it.
    pub(crate) fn pass(&mut self, pack: PackNumber) {
        if !self.is_shared() {
            self.next = self.next.max(PackNumber(pack.0 + 1));
        }
    }
}

impl State {
    /// The first of the packs that others do not know as a whole.
    pub(crate) fn first_untold(&self) -> Option<PackNumber> {
        let open = self.open.values().chain(&self.sealing).map(OpenPack::number);
        let sealing = self.being_sealed.keys().copied();
        open.chain(sealing).chain(self.news.iter().map(|news| news.pack)).min()
    }
}

impl Pools {
    /// What others are to know of this server. Where it is `idle` and fills nothing it lets go of
    /// the numbers that it has: what it fills next is behind all that others know by then.
    pub fn standing(&self, idle: bool) -> Standing {
        let mut state = self.state();
        let untold = state.first_untold();
        let numbers = &mut state.numbers;
        let numbers_end = numbers.taken_end;
        if !numbers.is_shared() {
            return Standing { horizon: untold, numbers_end };
        }
        if idle && untold.is_none() {
            numbers.spare = None;
            numbers.next = numbers.end;
        }
        // The next pack may have a number that others do not hear of when it is begun.
        let is_kept = numbers.next < numbers.end || numbers.spare.is_some();
        let next = is_kept.then_some(numbers.next.min(numbers.end));
        Standing { horizon: untold.or(next), numbers_end }
    }

    /// Takes numbers where there are few, while nobody waits for that.
    pub fn stock_up(&self) -> io::Result<()> {
        let Some(more) = self.state().numbers.is_low() else { return Ok(()) };
        let taken = more()?;
        let mut state = self.state();
        state.numbers.put_by(taken);
        state.numbers.fill()
    }

    /// A pack of `bytes` was sealed by another server, in an object store. Returns whether that was
    /// not known.
    pub fn learn(&self, pack: PackNumber, bytes: u64) -> bool {
        let mut state = self.state();
        let is_found = state.found.remove(&pack);
        if !state.homes(pack).is_empty() || state.open_pack(pack).is_some() {
            return is_found;
        }
        let chain = state.chain();
        let is_bucket = |pool: &PoolId| state.members[pool].spec.bucket().is_some();
        // Where it is really is seen when it is looked for there in vain.
        let pool = chain.into_iter().find(is_bucket);
        pool.inspect(|pool| state.set_bytes(*pool, pack, bytes)).is_some()
    }

    /// A pack was removed by another server, or is nobody's.
    pub fn forget(&self, pack: PackNumber) {
        let buckets: Vec<Bucketed> = {
            let mut state = self.state();
            state.tables.forget(pack);
            state.found.remove(&pack);
            // What a copy pool has goes when it has what came in its place.
            let members = state.members.values_mut().filter(|member| member.is_primary());
            let having = members.filter(|member| member.packs.contains_key(&pack));
            having
                .filter_map(|member| {
                    let bucket = member.spec.bucket().cloned();
                    bucket.inspect(|_| member.remove(pack))
                })
                .collect()
        };
        buckets.iter().for_each(|bucket| bucket.0.forget(pack));
    }

    /// Looks for a pack in the object stores, where others may have put it; whether it was found
    /// elsewhere than it was thought to be.
    pub(crate) fn locate(&self, pack: PackNumber) -> bool {
        let (known, buckets): (_, Vec<(PoolId, Bucketed)>) = {
            let state = self.state();
            if !state.numbers.is_shared() || state.open_pack(pack).is_some() {
                return false;
            }
            let members = state.members.iter().filter(|(_, member)| member.is_there);
            let buckets = members.filter_map(|(pool, m)| Some((*pool, m.spec.bucket()?.clone())));
            (state.homes(pack), buckets.collect())
        };
        for (pool, bucket) in buckets {
            let found = bucket.0.find(pack);
            let mut state = self.state();
            if known.is_empty() && matches!(found, Ok(Some(_))) {
                state.found.insert(pack);
            }
            let Some(member) = state.members.get_mut(&pool) else { continue };
            match found {
                Ok(Some(bytes)) => member.put(pack, bytes),
                Ok(None) => member.remove(pack),
                Err(error) => tracing::warn!(%pack, %pool, %error, "a pool cannot be asked"),
            }
        }
        self.homes(pack) != known
    }

    /// The first object store of a primary pool that is there.
    pub fn first_bucket(&self) -> Option<Bucketed> {
        let state = self.state();
        let mut members = state.members.values().filter(|m| m.is_there && m.is_primary());
        members.find_map(|member| member.spec.bucket().cloned())
    }

    /// All packs in the object stores of primary pools that are there, as they are now. Others may
    /// be sending some of them.
    pub fn list_objects(&self) -> io::Result<Vec<(PackNumber, u64)>> {
        let buckets: Vec<Bucketed> = {
            let state = self.state();
            let members = state.members.values().filter(|m| m.is_there && m.is_primary());
            members.filter_map(|member| member.spec.bucket().cloned()).collect()
        };
        let mut all = Vec::new();
        for bucket in buckets {
            all.extend(bucket.0.list()?);
        }
        Ok(all)
    }
}
