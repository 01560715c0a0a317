//! The writers of a run: several drives write at once, each with packs of its own.
//!
//! ```text
//!   packs, by group --shares--> list of shares --> writer threads, one drive each
//!                                                    |
//!   caller's thread  <------------- reports ---------+   stored, failed
//! ```
//!
//! 1. A volume has one writer: a writer claims a volume before it borrows a drive.
//! 2. All volumes of a share belong to its group, and the packs of a share are written in order.
//! 3. The caller's listener is called on the caller's thread only. A writer waits for its answer.
//! 4. A writer that finds all volumes claimed leaves its packs, which are written after the others
//!    have ended.

use std::collections::{BTreeSet, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use model::PackNumber;
use sys::lock::Mutex;

use crate::error::StoreError;
use crate::volumes::site::Writers;

/// Number of bytes for which another drive is worth a mount, unless an administrator has set the
/// number of drives that write.
const SHARE_BYTES: u64 = 4 << 30;
/// Interval at which the caller is asked whether the run goes on.
const LOOK_AROUND: Duration = Duration::from_millis(200);

/// Listener of a run that writes packs to volumes.
pub(crate) trait PackListener {
    /// Notes that the pack is settled.
    fn stored(&mut self, pack: PackNumber) -> Result<(), StoreError>;

    /// Notes that the pack cannot be read from any pool, and was not written.
    fn failed(&mut self, pack: PackNumber, reason: String);

    /// Returns false to cancel the run.
    fn goes_on(&mut self) -> bool;
}

/// The packs of one writer. They belong to one collocation group.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Share {
    pub(super) group: String,
    pub(super) packs: Vec<PackNumber>,
}

/// Divides the packs of each group, given with their sizes in bytes, into as many shares as are
/// worth a drive. The packs of a share follow each other.
pub(super) fn shares(
    groups: impl IntoIterator<Item = (String, Vec<(PackNumber, u64)>)>,
    writers: Writers,
) -> Vec<Share> {
    let mut shares = Vec::new();
    for (group, packs) in groups {
        let bytes: u64 = packs.iter().map(|(_, bytes)| bytes).sum();
        let worth = if writers.is_set { u64::MAX } else { bytes / SHARE_BYTES };
        let worth = usize::try_from(worth).unwrap_or(usize::MAX);
        let count = worth.clamp(1, writers.max).min(packs.len()).max(1) as u64;
        let (mut before, mut parts) =
            (0_u64, vec![Vec::new(); usize::try_from(count).unwrap_or(1)]);
        for (pack, bytes_of_pack) in &packs {
            // A pack belongs to the share in which its middle lies.
            let middle = u128::from(before) + u128::from(bytes_of_pack / 2);
            let at = middle * u128::from(count) / u128::from(bytes.max(1));
            let at = usize::try_from(at).unwrap_or(0).min(parts.len() - 1);
            parts[at].push(*pack);
            before += bytes_of_pack;
        }
        parts.retain(|packs| !packs.is_empty());
        let share = |packs| Share { group: group.clone(), packs };
        shares.extend(parts.into_iter().map(share));
    }
    shares
}

/// Volumes that have a writer.
#[derive(Default)]
pub(super) struct Claims(Mutex<BTreeSet<u64>>);

/// A volume's only writer. Dropping this value ends the claim.
pub(super) struct Claim<'a> {
    claims: &'a Claims,
    volume: u64,
}

impl Claims {
    /// Chooses a volume with `choose`, which gets the volumes that have a writer, and claims it.
    pub(super) fn claim<T>(
        &self,
        choose: impl FnOnce(&BTreeSet<u64>) -> Result<T, StoreError>,
        id: impl FnOnce(&T) -> u64,
    ) -> Result<Option<(T, Claim<'_>)>, StoreError> {
        let mut claimed = self.0.lock();
        match choose(&claimed) {
            Ok(chosen) => {
                let volume = id(&chosen);
                let is_new = claimed.insert(volume);
                assert!(is_new, "a volume has one writer");
                Ok(Some((chosen, Claim { claims: self, volume })))
            }
            Err(StoreError::NoSpace(_)) if !claimed.is_empty() => Ok(None),
            Err(error) => Err(error),
        }
    }
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        self.claims.0.lock().remove(&self.volume);
    }
}

/// Callback that writes a share, and returns the packs that it has left.
pub(super) type ShareWriter<'a> =
    &'a (dyn Fn(Share, &Claims, &mut dyn PackListener) -> Result<Option<Share>, StoreError> + Sync);

/// Writes the shares with at most `writers_max` threads. If a share fails, the others are written
/// nevertheless, and the first error is returned.
pub(super) fn run(
    shares: Vec<Share>,
    writers_max: usize,
    write: ShareWriter<'_>,
    listener: &mut dyn PackListener,
) -> Result<(), StoreError> {
    let claims = Claims::default();
    let crew = writers_max.min(shares.len());
    let left = if crew > 1 { run_crew(shares, crew, (&claims, write), listener)? } else { shares };
    for share in left {
        let rest = write(share, &claims, listener)?;
        assert!(rest.is_none(), "a single writer finds every volume that there is");
    }
    Ok(())
}

/// Writes the shares with `crew` threads. Returns the packs that had no volume.
fn run_crew(
    shares: Vec<Share>,
    crew: usize,
    (claims, write): (&Claims, ShareWriter<'_>),
    listener: &mut dyn PackListener,
) -> Result<Vec<Share>, StoreError> {
    let (waiting, left) = (Mutex::new(VecDeque::from(shares)), Mutex::new(Vec::new()));
    let goes_on = AtomicBool::new(true);
    let (reports, inbox) = channel();
    let work = |reports: Sender<Report>| -> Result<(), StoreError> {
        let mut relay = Relay { reports, goes_on: &goes_on };
        loop {
            let Some(share) = waiting.lock().pop_front() else { return Ok(()) };
            if let Some(rest) = write(share, claims, &mut relay)? {
                left.lock().push(rest);
            }
        }
    };
    let results = std::thread::scope(|scope| {
        let work = &work;
        let start = |reports: Sender<Report>| {
            let name = "volume-writer".to_owned();
            std::thread::Builder::new()
                .name(name)
                .spawn_scoped(scope, move || work(reports))
        };
        let threads: Vec<_> = (0..crew).map(|_| start(reports.clone())).collect();
        drop(reports);
        answer(&inbox, &goes_on, listener);
        let ended = threads.into_iter().map(|thread| match thread {
            // A panic of a writer is a panic of the run.
            Ok(thread) => thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
            Err(error) => Err(StoreError::away(format!("cannot start a writer: {error}"))),
        });
        Vec::from_iter(ended)
    });
    results.into_iter().collect::<Result<(), StoreError>>()?;
    Ok(left.into_inner())
}

/// Passes reports to the listener until all writers have ended.
fn answer(inbox: &Receiver<Report>, goes_on: &AtomicBool, listener: &mut dyn PackListener) {
    loop {
        match inbox.recv_timeout(LOOK_AROUND) {
            // A writer that has ended needs no answer.
            Ok(Report::Stored { pack, reply }) => drop(reply.send(listener.stored(pack))),
            Ok(Report::Failed { pack, reason }) => listener.failed(pack, reason),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
        if !listener.goes_on() {
            goes_on.store(false, Ordering::Relaxed);
        }
    }
}

/// A report of a writer to the caller's listener.
enum Report {
    Stored { pack: PackNumber, reply: Sender<Result<(), StoreError>> },
    Failed { pack: PackNumber, reason: String },
}

/// The listener of one writer, which passes everything on.
struct Relay<'a> {
    reports: Sender<Report>,
    goes_on: &'a AtomicBool,
}

impl PackListener for Relay<'_> {
    fn stored(&mut self, pack: PackNumber) -> Result<(), StoreError> {
        let (reply, answer) = channel();
        let gone = || StoreError::cancelled("the run has ended");
        self.reports.send(Report::Stored { pack, reply }).map_err(|_| gone())?;
        answer.recv().map_err(|_| gone())?
    }

    fn failed(&mut self, pack: PackNumber, reason: String) {
        // The caller's thread listens until all writers have ended.
        drop(self.reports.send(Report::Failed { pack, reason }));
    }

    fn goes_on(&mut self) -> bool {
        self.goes_on.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;

    use super::*;

    const MIB: u64 = 1 << 20;

    /// Listener that notes everything, and can end the run.
    #[derive(Default)]
    struct Notes {
        stored: BTreeSet<PackNumber>,
        is_ending: bool,
    }

    impl PackListener for Notes {
        fn stored(&mut self, pack: PackNumber) -> Result<(), StoreError> {
            assert!(self.stored.insert(pack), "pack {pack} is stored once");
            Ok(())
        }

        fn failed(&mut self, pack: PackNumber, reason: String) {
            panic!("pack {pack}: {reason}");
        }

        fn goes_on(&mut self) -> bool {
            !self.is_ending
        }
    }

    fn share(group: &str, packs: std::ops::Range<u64>) -> Share {
        Share { group: group.to_owned(), packs: packs.map(PackNumber).collect() }
    }

    #[track_caller]
    fn check(packs: &[u64], writers: Writers, expected: &[usize]) {
        let group: Vec<_> = (1..).map(PackNumber).zip(packs.iter().map(|mib| mib * MIB)).collect();
        let shares = shares([("a".to_owned(), group.clone())], writers);
        let counts: Vec<usize> = shares.iter().map(|share| share.packs.len()).collect();
        assert_eq!(counts, expected);
        let order = shares.into_iter().flat_map(|share| share.packs);
        assert!(order.eq(group.iter().map(|(pack, _)| *pack)), "packs follow each other");
    }

    #[test]
    fn a_drive_is_worth_four_gibibytes_unless_a_number_is_set() {
        let usual = |max| Writers { max, is_set: false };
        let set = |max| Writers { max, is_set: true };
        check(&[64; 10], usual(3), &[10]);
        check(&[64; 128], usual(3), &[64, 64]);
        check(&[64; 640], usual(3), &[213, 214, 213]);
        check(&[64; 4], set(2), &[2, 2]);
        check(&[64], set(2), &[1]);
        check(&[1, 1, 64], set(3), &[2, 1]);
        check(&[], usual(3), &[]);
    }

    #[test]
    fn groups_are_written_at_once_and_each_pack_is_reported_once() {
        let together = Barrier::new(2);
        let write = |share: Share, _: &Claims, listener: &mut dyn PackListener| {
            together.wait();
            for pack in share.packs {
                listener.stored(pack)?;
            }
            Ok(None)
        };
        let mut notes = Notes::default();
        let shares = vec![share("a", 0..50), share("b", 50..100)];
        run(shares, 2, &write, &mut notes).expect("all is written");
        assert_eq!(notes.stored.len(), 100);
    }

    #[test]
    fn packs_without_a_volume_are_written_after_the_others() {
        let volume = |claimed: &BTreeSet<u64>| match claimed.contains(&1) {
            true => Err(StoreError::no_space("the only volume has a writer")),
            false => Ok(1),
        };
        let together = Barrier::new(2);
        let is_first_round = AtomicBool::new(true);
        let write = |share: Share, claims: &Claims, listener: &mut dyn PackListener| {
            let claim = claims.claim(volume, |id| *id)?;
            if is_first_round.load(Ordering::Relaxed) {
                together.wait();
                is_first_round.store(false, Ordering::Relaxed);
                together.wait();
            }
            if claim.is_none() {
                return Ok(Some(share));
            }
            for pack in share.packs {
                listener.stored(pack)?;
            }
            Ok(None)
        };
        let mut notes = Notes::default();
        let shares = vec![share("a", 0..3), share("a", 3..6)];
        run(shares, 2, &write, &mut notes).expect("all is written");
        assert_eq!(notes.stored.len(), 6);
    }

    #[test]
    fn one_share_that_fails_does_not_stop_the_others_and_a_run_can_be_ended() {
        let write = |share: Share, _: &Claims, listener: &mut dyn PackListener| {
            if share.group == "bad" {
                return Err(StoreError::away("the drive is on fire"));
            }
            for pack in share.packs {
                listener.stored(pack)?;
            }
            Ok(None)
        };
        let mut notes = Notes::default();
        let failed = run(vec![share("bad", 0..1), share("a", 1..9)], 2, &write, &mut notes);
        assert!(failed.is_err_and(|error| error.to_string().contains("fire")));
        assert_eq!(notes.stored.len(), 8);
        let endless = |_: Share, _: &Claims, listener: &mut dyn PackListener| {
            while listener.goes_on() {
                std::thread::yield_now();
            }
            Err(StoreError::cancelled("ended"))
        };
        let mut notes = Notes { is_ending: true, ..Notes::default() };
        let ended = run(vec![share("a", 0..1), share("b", 1..2)], 2, &endless, &mut notes);
        assert!(matches!(ended, Err(StoreError::Cancelled(_))), "{ended:?}");
    }
}
