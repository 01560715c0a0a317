//! The agents that are connected to this server.
//!
//! ```text
//!   newcomer --- claim ---> no agent, or one of the same place: admitted
//!                   |
//!                   `-----> an agent of another place: probed --- it answers: newcomer refused
//!                                                        `------- it does not: newcomer admitted
//! ```
//!
//! An agent that is known to be a copy is refused at once, and an agent that shows that the one
//! before it is a copy is admitted at once (`succession`).
//!
//! At most one agent of a node is admitted. Two agents of one node would carry out each event
//! twice. An agent of a program that gives no identity cannot be told apart: it is admitted, and
//! the other one goes on.
//!
//! Agents at other servers are in the catalogue (`store::schedules::attend`). They are asked for
//! nothing: their server ends their attendance when they are silent.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use catalog::{EventKey, EventProgress};
use model::NodeId;
use sys::lock::Mutex;
use tokio::sync::{Notify, mpsc, oneshot, watch};

use crate::succession::{AgentIdentity, Succession};

/// Events at which somebody looks, by node.
pub(crate) type Audience = Arc<BTreeMap<NodeId, Vec<EventKey>>>;

/// Maximum number of probes that wait for one agent.
const PROBES_MAX: usize = 16;
/// Time until the refusal of an agent at the same address is reported again.
const REPORT_PAUSE: Duration = Duration::from_secs(24 * 3600);
/// Maximum number of addresses of refused agents that are remembered for a node.
const RIVALS_MAX: usize = 16;

/// An agent that wants to attend.
#[derive(Clone, Debug)]
pub(crate) struct Newcomer {
    pub(crate) node: NodeId,
    /// Identity; `None` for an agent of a program that gives none.
    pub(crate) identity: Option<AgentIdentity>,
    pub(crate) address: IpAddr,
}

/// Right of an agent to attend.
pub(crate) struct Admission {
    pub(crate) node: NodeId,
    pub(crate) number: u64,
    /// Takes the senders of answers to probes.
    pub(crate) probes: mpsc::Receiver<oneshot::Sender<()>>,
    /// Notified when another agent has taken the place of this one.
    pub(crate) replaced: Arc<Notify>,
    /// Address of a copy that this agent has brought to light.
    pub(crate) copy: Option<IpAddr>,
}

/// The agent that holds the node while another one wants to attend.
pub(crate) struct Rival {
    /// Number of its attendance; `None` if it is known to live, connected or not.
    pub(crate) number: Option<u64>,
    pub(crate) address: IpAddr,
    probes: Option<mpsc::Sender<oneshot::Sender<()>>>,
    /// True if the newcomer's address was not refused before because of this agent.
    pub(crate) is_new: bool,
}

/// An agent that was admitted.
struct Attendant {
    number: u64,
    identity: Option<AgentIdentity>,
    address: IpAddr,
    probes: mpsc::Sender<oneshot::Sender<()>>,
    replaced: Arc<Notify>,
}

impl Attendant {
    /// Returns true if this agent cannot live any more, or cannot be told apart from `newcomer`.
    fn yields_to(&self, newcomer: &Newcomer) -> bool {
        match (&self.identity, &newcomer.identity) {
            (Some(own), Some(other)) => own.excludes(other),
            _ => true,
        }
    }
}

/// The agents of one node.
#[derive(Default)]
struct NodeAgents {
    present: Option<Attendant>,
    succession: Succession,
    /// Addresses of agents that were refused since a time.
    refused: BTreeSet<IpAddr>,
    refused_since: Option<Instant>,
}

impl NodeAgents {
    /// Returns the agent because of which `newcomer` is refused.
    fn rival(&mut self, newcomer: &Newcomer, dead: Option<u64>, now: Instant) -> Option<Rival> {
        let identity = newcomer.identity.as_ref();
        let original = identity.and_then(|identity| self.succession.original(identity, now));
        if let Some(address) = original {
            let is_new = self.note_refusal(newcomer.address, now);
            return Some(Rival { number: None, address, probes: None, is_new });
        }
        let comes_back = identity.is_some_and(|identity| self.succession.comes_back(identity));
        let present = self.present.as_ref().filter(|present| {
            Some(present.number) != dead && !present.yields_to(newcomer) && !comes_back
        })?;
        let (number, address) = (Some(present.number), present.address);
        let probes = Some(present.probes.clone());
        let is_new = self.note_refusal(newcomer.address, now);
        Some(Rival { number, address, probes, is_new })
    }

    /// Returns true if no agent at `address` was refused in the last day.
    fn note_refusal(&mut self, address: IpAddr, now: Instant) -> bool {
        let since = *self.refused_since.get_or_insert(now);
        if now.saturating_duration_since(since) >= REPORT_PAUSE {
            self.refused.clear();
            self.refused_since = Some(now);
        }
        self.refused.len() < RIVALS_MAX && self.refused.insert(address)
    }
}

impl Rival {
    /// Asks the agent for a sign of life, and waits for it.
    pub(crate) async fn answers(&self) -> bool {
        let Some(probes) = &self.probes else { return true };
        let (answer, answered) = oneshot::channel();
        probes.send(answer).await.is_ok() && answered.await.is_ok()
    }
}

/// The agents that are connected.
pub(crate) struct Attendances {
    /// Generation of the schedules that this server knows.
    generation: watch::Sender<i64>,
    watched: watch::Sender<Audience>,
    agents: Mutex<HashMap<NodeId, NodeAgents>>,
    last_number: AtomicU64,
    /// Progress that agents have told since the last look at the schedules. It has only events at
    /// which somebody looks.
    progress: Mutex<BTreeMap<EventKey, EventProgress>>,
    /// Attendances that have ended while the catalogue did not answer.
    unended: Mutex<Vec<(NodeId, u64)>>,
}

impl Default for Attendances {
    fn default() -> Self {
        Self {
            generation: watch::channel(0).0,
            watched: watch::channel(Audience::default()).0,
            agents: Mutex::default(),
            last_number: AtomicU64::default(),
            progress: Mutex::default(),
            unended: Mutex::default(),
        }
    }
}

impl Attendances {
    /// Takes note of the generation of the schedules. Agents get their plans if it has changed.
    pub(crate) fn announce(&self, generation: i64) {
        self.generation.send_if_modified(|known| {
            let is_new = *known != generation;
            *known = generation;
            is_new
        });
    }

    /// Returns the generation of the schedules, and its changes.
    pub(crate) fn subscribe(&self) -> watch::Receiver<i64> {
        self.generation.subscribe()
    }

    /// Takes note of the events at which somebody looks.
    pub(crate) fn announce_watched(&self, keys: Vec<EventKey>) {
        let mut by_node: BTreeMap<NodeId, Vec<EventKey>> = BTreeMap::new();
        for key in keys {
            if let Some(node) = key.node {
                by_node.entry(node).or_default().push(key);
            }
        }
        self.watched.send_if_modified(|known| {
            let is_new = **known != by_node;
            if is_new {
                *known = Arc::new(by_node);
            }
            is_new
        });
    }

    /// Returns the events at which somebody looks, and changes of them.
    pub(crate) fn subscribe_watched(&self) -> watch::Receiver<Audience> {
        self.watched.subscribe()
    }

    /// Takes the progress of an event until the next look at the schedules. The progress of an
    /// event at which nobody looks is dropped.
    pub(crate) fn note_progress(&self, progress: EventProgress) {
        let watched = Arc::clone(&self.watched.borrow());
        let of_node = progress.key.node.and_then(|node| watched.get(&node));
        if of_node.is_some_and(|keys| keys.contains(&progress.key)) {
            self.progress.lock().insert(progress.key.clone(), progress);
        }
    }

    /// Returns the progress that was told since the last call.
    pub(crate) fn take_progress(&self) -> Vec<EventProgress> {
        std::mem::take(&mut *self.progress.lock()).into_values().collect()
    }

    /// Admits an agent, unless another agent of its node may live. `dead` is the number of an agent
    /// that has not answered.
    pub(crate) fn claim(
        &self,
        newcomer: &Newcomer,
        dead: Option<u64>,
        now: Instant,
    ) -> Result<Admission, Rival> {
        let mut agents = self.agents.lock();
        let known = agents.entry(newcomer.node).or_default();
        if let Some(rival) = known.rival(newcomer, dead, now) {
            return Err(rival);
        }
        let number = self.last_number.fetch_add(1, Ordering::Relaxed) + 1;
        let (probes, asked) = mpsc::channel(PROBES_MAX);
        let replaced = Arc::new(Notify::new());
        let (identity, address) = (newcomer.identity.clone(), newcomer.address);
        let admitted = identity.as_ref();
        let copy = admitted.and_then(|agent| known.succession.admit(agent, address, now));
        let copy = copy.filter(|copy| known.note_refusal(*copy, now));
        let attendant = Attendant { number, identity, address, probes, replaced };
        let replaced = Arc::clone(&attendant.replaced);
        // Agents that cannot be told apart go on side by side.
        if let Some(old) = known.present.replace(attendant)
            && old.identity.is_some()
            && newcomer.identity.is_some()
        {
            old.replaced.notify_one();
        }
        Ok(Admission { node: newcomer.node, number, probes: asked, replaced, copy })
    }

    /// Returns true if no agent of `node` at `address` was refused in the last day.
    pub(crate) fn note_refusal(&self, node: NodeId, address: IpAddr, now: Instant) -> bool {
        self.agents.lock().entry(node).or_default().note_refusal(address, now)
    }

    /// Takes note of attendances whose end the catalogue does not know.
    pub(crate) fn note_unended(&self, attendances: impl IntoIterator<Item = (NodeId, u64)>) {
        self.unended.lock().extend(attendances);
    }

    /// Returns the attendances whose end the catalogue does not know.
    pub(crate) fn take_unended(&self) -> Vec<(NodeId, u64)> {
        std::mem::take(&mut *self.unended.lock())
    }

    /// Ends an attendance. Returns false if another agent of the node attends.
    pub(crate) fn end(&self, admission: &Admission, now: Instant) -> bool {
        let mut agents = self.agents.lock();
        let Some(known) = agents.get_mut(&admission.node) else { return false };
        let is_last =
            known.present.as_ref().is_some_and(|present| present.number == admission.number);
        if is_last {
            known.present = None;
            known.succession.see(now);
        }
        is_last
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use model::ServerTime;

    use super::*;

    #[test]
    fn only_progress_at_which_somebody_looks_is_kept() {
        let key = |schedule: &str| EventKey {
            schedule: schedule.to_owned(),
            planned: ServerTime(1),
            node: Some(NodeId(7)),
        };
        let progress = |schedule: &str, document: &str| EventProgress {
            key: key(schedule),
            attempt: 1,
            document: document.to_owned(),
        };
        let attendances = Attendances::default();
        attendances.note_progress(progress("a", "early"));
        attendances.announce_watched(vec![key("a")]);
        attendances.note_progress(progress("a", "1"));
        attendances.note_progress(progress("a", "2"));
        attendances.note_progress(progress("b", "1"));
        assert_eq!(attendances.take_progress(), [progress("a", "2")]);
        assert_eq!(attendances.take_progress(), []);
        attendances.announce_watched(Vec::new());
        attendances.note_progress(progress("a", "3"));
        assert_eq!(attendances.take_progress(), []);
    }

    fn newcomer(instance: &'static str, place: &'static str) -> Newcomer {
        let bytes = |text: &'static str| Bytes::from_static(text.as_bytes());
        let identity = AgentIdentity { instance: bytes(instance), place: bytes(place) };
        Newcomer {
            node: NodeId(7),
            identity: Some(identity).filter(|_| !instance.is_empty()),
            address: IpAddr::from([127, 0, 0, 1]),
        }
    }

    /// The agents of one server at one time.
    struct Scene {
        attendances: Attendances,
        now: Instant,
    }

    impl Scene {
        fn new() -> Self {
            Self { attendances: Attendances::default(), now: sys::clock::monotonic() }
        }

        #[track_caller]
        fn admit(&self, newcomer: &Newcomer, dead: Option<u64>) -> Admission {
            let admitted = self.attendances.claim(newcomer, dead, self.now).ok();
            admitted.expect("is admitted")
        }

        #[track_caller]
        fn refuse(&self, newcomer: &Newcomer, dead: Option<u64>) -> Rival {
            let rival = self.attendances.claim(newcomer, dead, self.now).err();
            rival.expect("another agent lives")
        }

        fn end(&self, admission: &Admission) -> bool {
            self.attendances.end(admission, self.now)
        }
    }

    #[test]
    fn an_agent_of_another_place_waits_for_the_end_of_the_first() {
        let scene = Scene::new();
        let first = scene.admit(&newcomer("a", "here"), None);
        let copy = newcomer("b", "there");
        let rival = scene.refuse(&copy, None);
        assert_eq!(rival.number, Some(first.number));
        assert!(rival.is_new && !scene.refuse(&copy, None).is_new, "it is reported once");
        assert!(scene.end(&first));
        let second = scene.admit(&copy, None);
        assert!(!scene.end(&first), "the first has ended before");
        assert!(scene.end(&second));
    }

    #[tokio::test]
    async fn an_agent_replaces_a_dead_one_and_one_of_its_own_place() {
        let scene = Scene::new();
        let first = scene.admit(&newcomer("a", "here"), None);
        let restarted = scene.admit(&newcomer("b", "here"), None);
        first.replaced.notified().await;
        assert!(!scene.end(&first), "another agent attends");
        let again = scene.admit(&newcomer("b", "here"), None);
        restarted.replaced.notified().await;
        let copy = newcomer("c", "there");
        scene.refuse(&copy, Some(restarted.number));
        let copy = scene.admit(&copy, Some(again.number));
        let older = scene.admit(&newcomer("", ""), None);
        assert!(!scene.end(&copy), "another agent attends");
        assert!(scene.end(&older));
    }

    #[tokio::test]
    async fn an_agent_that_comes_back_ousts_its_copy() {
        let scene = Scene::new();
        let (first, copy) = (newcomer("a", "here"), newcomer("b", "there"));
        let silent = scene.admit(&first, None);
        let in_its_place = scene.admit(&copy, Some(silent.number));
        let back = scene.admit(&first, None);
        in_its_place.replaced.notified().await;
        assert_eq!(back.copy, Some(copy.address));
        // It is a copy even while the first one is not connected.
        assert!(scene.end(&back));
        let rival = scene.refuse(&copy, None);
        assert!(rival.answers().await, "it is known to live");
        assert!(!rival.is_new, "it was reported when the first one came back");
        assert_eq!(scene.admit(&first, None).copy, None);
    }

    #[tokio::test]
    async fn a_probe_is_answered_by_a_living_agent_only() {
        let scene = Scene::new();
        let mut first = scene.admit(&newcomer("a", "here"), None);
        let rival = scene.refuse(&newcomer("b", "there"), None);
        let answer = async {
            let asked = first.probes.recv().await.expect("a probe");
            asked.send(()).expect("somebody waits");
        };
        let (answers, ()) = tokio::join!(rival.answers(), answer);
        assert!(answers);
        drop(first);
        assert!(!rival.answers().await);
    }
}
