//! Succession of the agents of one node: which of them was there first. The module is pure.
//!
//! Agents that poll are never connected at the same time. But an agent that comes back after an
//! agent of another place was admitted has lived all along, so the other one is a copy:
//!
//! ```text
//!   A admitted ... B of another place admitted ... A comes back: B is a copy, and is refused
//! ```

use std::collections::VecDeque;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use bytes::Bytes;

/// Maximum number of instances of each kind that are remembered for a node.
const INSTANCES_MAX: usize = 8;
/// Time without the first agent after which a copy may take its place.
const ABANDONED: Duration = Duration::from_secs(2 * 24 * 3600);

/// Identity of an agent, as it gives it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct AgentIdentity {
    /// Random bytes of the agent's start.
    pub(crate) instance: Bytes,
    /// Start of the machine, and the agent's folder. Only one agent at a time works there.
    pub(crate) place: Bytes,
}

impl AgentIdentity {
    /// Returns true if both cannot live at the same time as different agents.
    pub(crate) fn excludes(&self, other: &Self) -> bool {
        self.instance == other.instance || self.place == other.place
    }
}

/// The agent that was admitted last.
#[derive(Debug)]
struct Holder {
    identity: AgentIdentity,
    address: IpAddr,
    seen: Instant,
}

/// Agents of one node that were admitted.
#[derive(Default, Debug)]
pub(crate) struct Succession {
    holder: Option<Holder>,
    /// Instances that an agent of another place has followed, oldest first.
    former: VecDeque<Bytes>,
    /// Instances that are copies of the holder, oldest first.
    copies: VecDeque<Bytes>,
}

impl Succession {
    /// Returns true if the agent was followed by one of another place, and lives all the same.
    pub(crate) fn comes_back(&self, identity: &AgentIdentity) -> bool {
        self.former.contains(&identity.instance)
    }

    /// Returns the address of the agent that is known to live while `identity` is its copy.
    pub(crate) fn original(&self, identity: &AgentIdentity, now: Instant) -> Option<IpAddr> {
        let holder = self.holder.as_ref().filter(|_| self.copies.contains(&identity.instance))?;
        let is_there = now.saturating_duration_since(holder.seen) < ABANDONED;
        is_there.then_some(holder.address)
    }

    /// Takes note that an agent is admitted at `address`. Returns the address of its copy, if the
    /// agent shows that the one before it was a copy.
    pub(crate) fn admit(
        &mut self,
        identity: &AgentIdentity,
        address: IpAddr,
        now: Instant,
    ) -> Option<IpAddr> {
        let comes_back = self.comes_back(identity);
        let holder = Holder { identity: identity.clone(), address, seen: now };
        let before = self.holder.replace(holder)?;
        if before.identity.excludes(identity) {
            return None;
        }
        let list = if comes_back { &mut self.copies } else { &mut self.former };
        remember(list, before.identity.instance);
        self.former.retain(|known| *known != identity.instance);
        self.copies.retain(|known| *known != identity.instance);
        comes_back.then_some(before.address)
    }

    /// Takes note that the holder was there until `now`.
    pub(crate) fn see(&mut self, now: Instant) {
        if let Some(holder) = &mut self.holder {
            holder.seen = now;
        }
    }
}

fn remember(list: &mut VecDeque<Bytes>, instance: Bytes) {
    if list.len() == INSTANCES_MAX {
        list.pop_front();
    }
    list.push_back(instance);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn agent(instance: &'static str, place: &'static str) -> AgentIdentity {
        let bytes = |text: &'static str| Bytes::from_static(text.as_bytes());
        AgentIdentity { instance: bytes(instance), place: bytes(place) }
    }

    #[test]
    fn an_agent_that_comes_back_shows_that_its_successor_is_a_copy() {
        let now = sys::clock::monotonic();
        let [here, there] = [1, 2].map(|last| IpAddr::from([10, 0, 0, last]));
        let (first, copy) = (agent("a", "here"), agent("b", "there"));
        let mut succession = Succession::default();
        assert_eq!(succession.admit(&first, here, now), None);
        assert_eq!(succession.admit(&first, here, now), None, "it polls again");
        assert_eq!(succession.admit(&copy, there, now), None, "it may have moved");
        assert!(succession.comes_back(&first) && !succession.comes_back(&copy));
        assert_eq!(succession.original(&copy, now), None);
        assert_eq!(succession.admit(&first, here, now), Some(there));
        assert_eq!(succession.original(&copy, now), Some(here));
        assert_eq!(succession.original(&first, now), None);
        // The first agent is gone for good.
        let later = now + ABANDONED;
        assert_eq!(succession.original(&copy, later), None);
        succession.see(later);
        assert_eq!(succession.original(&copy, later), Some(here));
    }

    #[test]
    fn a_node_that_has_moved_or_was_restarted_has_no_copy() {
        let now = sys::clock::monotonic();
        let address = IpAddr::from([10, 0, 0, 1]);
        let mut succession = Succession::default();
        let names = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l"];
        for instance in names {
            assert_eq!(succession.admit(&agent(instance, "here"), address, now), None);
        }
        assert!(succession.former.is_empty(), "a place has one agent at a time");
        for place in names {
            assert_eq!(succession.admit(&agent(place, place), address, now), None);
        }
        assert_eq!(succession.former.len(), INSTANCES_MAX);
        assert!(succession.copies.is_empty());
    }
}
