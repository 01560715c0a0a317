//! Limits on things that are held for a while: in all, and by holder.

use std::collections::BTreeMap;
use std::sync::Arc;

use sys::lock::Mutex;

/// Number of things that each holder has, below a limit for each holder and one for all of them.
pub(crate) struct Quota<K: Ord> {
    each_max: usize,
    all_max: usize,
    held: Mutex<Holdings<K>>,
}

struct Holdings<K> {
    all: usize,
    /// Holders of at least one thing.
    each: BTreeMap<K, usize>,
}

/// The limit that refuses one more thing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Excess {
    /// The holder has as many as it may have.
    Each(usize),
    /// All holders together have as many as they may have.
    All(usize),
}

/// The right to one thing. Dropping it gives the right back.
pub(crate) struct Share<K: Ord> {
    quota: Arc<Quota<K>>,
    holder: K,
}

impl<K: Ord + Clone> Quota<K> {
    pub(crate) fn new(each_max: usize, all_max: usize) -> Arc<Self> {
        let held = Holdings { all: 0, each: BTreeMap::new() };
        Arc::new(Self { each_max, all_max, held: Mutex::new(held) })
    }

    /// Gives `holder` the right to one more thing, unless a limit is reached.
    pub(crate) fn take(self: &Arc<Self>, holder: K) -> Result<Share<K>, Excess> {
        let mut held = self.held.lock();
        let own = held.each.get(&holder).copied().unwrap_or(0);
        if own >= self.each_max {
            return Err(Excess::Each(self.each_max));
        }
        if held.all >= self.all_max {
            return Err(Excess::All(self.all_max));
        }
        held.all += 1;
        held.each.insert(holder.clone(), own + 1);
        Ok(Share { quota: Arc::clone(self), holder })
    }
}

impl<K: Ord> Share<K> {
    pub(crate) fn holder(&self) -> &K {
        &self.holder
    }
}

impl<K: Ord> Drop for Share<K> {
    fn drop(&mut self) {
        let mut held = self.quota.held.lock();
        let own = held.each.get_mut(&self.holder).expect("the holder has this share");
        *own -= 1;
        if *own == 0 {
            held.each.remove(&self.holder);
        }
        held.all -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_holder_leaves_room_for_the_others() {
        let quota = Quota::new(2, 3);
        let mut shares = vec![quota.take("anna"), quota.take("anna")];
        assert_eq!(quota.take("anna").err(), Some(Excess::Each(2)));
        shares.push(quota.take("bert"));
        assert!(shares.iter().all(Result::is_ok));
        assert_eq!(quota.take("carl").err(), Some(Excess::All(3)));
    }

    #[test]
    fn a_dropped_share_is_given_back_and_leaves_nothing() {
        let quota = Quota::new(1, 1);
        let share = quota.take("anna").ok();
        assert!(share.is_some());
        assert_eq!(quota.take("anna").err(), Some(Excess::Each(1)));
        drop(share);
        assert!(quota.held.lock().each.is_empty(), "no holder is remembered");
        assert!(quota.take("bert").is_ok());
    }
}
