//! The lease of a bucket: an object that the server which uses the bucket renews at regular
//! intervals.
//!
//! Object stores have no locks, and not every store has conditional writes. Therefore a server that
//! finds the lease of another watches it. If the lease changes meanwhile, the other server runs. If
//! the lease stays the same for longer than it is valid, the other server writes nothing any more:
//! it renews the lease before the next pack.
//!
//! ```text
//!   holder    renew ---20 s--- renew ---20 s--- renew        dies
//!   valid     |-------- 45 s --------|
//!   watcher                             read ... the same lease for 60 s: the bucket is free
//! ```
//!
//! Requests that a holder has sent before its lease ended may still arrive. Only clocks that
//! nobody can set are used, and each only on its own machine.
//!
//! The lock on its folder tells a server that an earlier process on this machine is dead. It tells
//! nothing about a clone of the machine, whose folder and identity are the same. So a holder names
//! the start of its machine, and the lease of another start is watched. This does not tell apart
//! two containers of one machine with clones of one folder, nor a machine that was resumed twice
//! from one image of its memory: they have the same start.

use std::io;
use std::time::Duration;

use data_encoding::HEXLOWER;

use super::Bucket;
use super::runtime::runtime;
use crate::owner::{self, OWNER_FILE, Owner};

/// Name of the lease's object.
pub(crate) const LEASE_FILE: &str = "holdfast-lease";

/// Time between two renewals.
const RENEWAL: Duration = Duration::from_secs(20);
/// Time after which the holder writes nothing without a renewal.
const VALID: Duration = Duration::from_secs(45);
/// Time for which a lease must stay the same until its holder counts as dead.
const WATCH: Duration = Duration::from_secs(60);
/// Pause between two looks at a lease that is watched.
const LOOK: Duration = Duration::from_secs(2);

/// Identity of a process that holds a lease: the number of its machine's start, and random bytes.
type Holder = [u8; 16];

/// Size of the number of a machine's start, in bytes.
const START_BYTES: usize = 8;

/// Content of the object.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Lease {
    owner: Owner,
    holder: Holder,
    /// Number of renewals.
    count: u64,
}

/// A lease that this process holds.
#[derive(Clone, Copy)]
pub(super) struct Tenure {
    lease: Lease,
    /// Start of the last renewal, as the machine's uptime.
    renewed: Duration,
}

/// Returns the identity of a process that was made in the start `start` of its machine.
fn new_holder(start: u64) -> Holder {
    let mut holder: Holder = sys::entropy::bytes();
    holder[..START_BYTES].copy_from_slice(&start.to_be_bytes());
    holder
}

/// Returns true if the holder of `lease` is dead, for a process that has the lock on the folder of
/// the server `own` in the start `start` of its machine; 0 is an unknown start.
fn is_of_the_dead(lease: Lease, own: Option<Owner>, start: u64) -> bool {
    Some(lease.owner) == own && start != 0 && lease.holder[..START_BYTES] == start.to_be_bytes()
}

/// Returns true if the process with the lease `own` may renew it. `found` is the lease in the
/// bucket, and `owner` the owner of a bucket without a lease.
fn may_renew(own: Lease, found: Option<Lease>, owner: Option<Owner>) -> bool {
    match found {
        Some(found) => found.holder == own.holder,
        // The lease is damaged or was deleted. Or another server took the bucket, and has given its
        // lease back meanwhile; then it is the owner.
        None => owner.is_none_or(|owner| owner == own.owner),
    }
}

impl Lease {
    fn text(self) -> String {
        let [owner, holder] = [self.owner.0, self.holder].map(|bytes| HEXLOWER.encode(&bytes));
        let text = format!("{owner} {holder} {}\n", self.count);
        assert_eq!(Self::parse(text.as_bytes()), Some(self), "a reader finds the same lease");
        text
    }

    fn parse(text: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(text.strip_suffix(b"\n")?).ok()?;
        let parts: [&str; 3] = text.split(' ').collect::<Vec<_>>().try_into().ok()?;
        let bytes = |part: &str| HEXLOWER.decode(part.as_bytes()).ok()?.try_into().ok();
        let [owner, holder, count] = parts;
        Some(Self {
            owner: Owner(bytes(owner)?),
            holder: bytes(holder)?,
            count: count.parse().ok()?,
        })
    }
}

impl Bucket {
    /// Returns true if another process uses the bucket. The caller has the lock on the folder of
    /// the server `own`. Waits until the lease changes, or for a minute.
    pub(crate) fn is_leased_by_another(&self, own: Option<Owner>) -> io::Result<bool> {
        let start = sys::process::boot_tag();
        let first = match self.read_lease()? {
            Some(lease) if !self.holds(lease) && !is_of_the_dead(lease, own, start) => lease,
            Some(_) | None => return Ok(false),
        };
        let (bucket, secs) = (&self.url, WATCH.as_secs());
        tracing::info!(%bucket, secs, "watching whether another server uses the bucket");
        let begun = sys::clock::uptime();
        while sys::clock::uptime() - begun < WATCH {
            sys::clock::sleep(LOOK);
            match self.read_lease()? {
                Some(lease) if lease == first => {}
                Some(lease) => return Ok(!is_of_the_dead(lease, own, start)),
                None => return Ok(false),
            }
        }
        Ok(false)
    }

    /// Returns true if `lease` is the lease of this process.
    fn holds(&self, lease: Lease) -> bool {
        self.tenure.lock().is_some_and(|tenure| tenure.lease.holder == lease.holder)
    }

    /// Takes the lease for the server `owner`. The caller has found that no other server uses the
    /// bucket.
    pub(crate) fn take_lease(&self, owner: Owner) -> io::Result<()> {
        if self.tenure.lock().is_some_and(|tenure| tenure.lease.owner == owner) {
            return Ok(());
        }
        let holder = new_holder(sys::process::boot_tag());
        self.put_lease(Lease { owner, holder, count: 0 })
    }

    /// Renews the lease of this process, if it has one and it is time. Returns false if another
    /// server has the lease, or had it meanwhile and is the owner.
    pub(crate) fn renew_lease(&self) -> io::Result<bool> {
        self.renew_after(RENEWAL)
    }

    /// Fails if another server has the lease now. Asks the store only if the lease of this process
    /// has ended. To be called before other servers can see a change of the bucket.
    pub(crate) fn check_lease(&self) -> io::Result<()> {
        if self.renew_after(VALID)? {
            return Ok(());
        }
        let text = format!("another server uses {}", self.url);
        Err(io::Error::new(io::ErrorKind::PermissionDenied, text))
    }

    /// Does the same as [`Self::check_lease`] in a task.
    pub(super) async fn check_lease_in_task(self: &std::sync::Arc<Self>) -> io::Result<()> {
        let bucket = std::sync::Arc::clone(self);
        let checking = runtime()?.spawn_blocking(move || bucket.check_lease());
        checking.await.map_err(io::Error::other)?
    }

    /// Gives the lease of this process back, so that another server need not wait.
    pub(crate) fn release_lease(&self) -> io::Result<()> {
        let Some(tenure) = self.tenure.lock().take() else { return Ok(()) };
        match self.read_lease()? {
            Some(found) if found.holder == tenure.lease.holder => self.remove_beside(LEASE_FILE),
            Some(_) | None => Ok(()),
        }
    }

    fn renew_after(&self, age: Duration) -> io::Result<bool> {
        let Some(Tenure { lease, renewed }) = *self.tenure.lock() else { return Ok(true) };
        if sys::clock::uptime() - renewed < age {
            return Ok(true);
        }
        let found = self.read_lease()?;
        let owner = if found.is_none() { self.read_owner()? } else { None };
        if !may_renew(lease, found, owner) {
            return Ok(false);
        }
        self.put_lease(Lease { count: lease.count + 1, ..lease })?;
        Ok(true)
    }

    /// Reads the identity of the server that writes to the bucket; `None` if no server is recorded.
    pub(crate) fn read_owner(&self) -> io::Result<Option<Owner>> {
        let text = self.read_beside(OWNER_FILE)?;
        text.map(|text| owner::parse_file(&text)).transpose()
    }

    /// Returns `None` if there is no lease, or if it is damaged.
    fn read_lease(&self) -> io::Result<Option<Lease>> {
        let text = self.read_beside(LEASE_FILE)?;
        Ok(text.and_then(|text| Lease::parse(&text)))
    }

    fn put_lease(&self, lease: Lease) -> io::Result<()> {
        let renewed = sys::clock::uptime();
        self.write_beside(LEASE_FILE, lease.text().as_bytes())?;
        *self.tenure.lock() = Some(Tenure { lease, renewed });
        Ok(())
    }
}

const _: () = assert!(
    RENEWAL.as_secs() * 2 < VALID.as_secs() && VALID.as_secs() < WATCH.as_secs(),
    "a renewal may fail once, and a lease has ended before another server takes the bucket"
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_leases_are_read() {
        let lease = Lease { owner: Owner([0xa5; 16]), holder: [0x5a; 16], count: 17 };
        let text = lease.text();
        assert_eq!(Lease::parse(text.as_bytes()), Some(lease));
        for part in 0..text.len() {
            assert_eq!(Lease::parse(&text.as_bytes()[..part]), None, "{part} bytes");
        }
        assert_eq!(Lease::parse(text.replace(" 17", " seventeen").as_bytes()), None);
        assert_eq!(Lease::parse(format!("{text}\n").as_bytes()), None);
    }

    fn lease(owner: u8, start: u64) -> Lease {
        Lease { owner: Owner([owner; 16]), holder: new_holder(start), count: 0 }
    }

    /// A clone of a machine has the folder, the identity and the lock of the original.
    #[test]
    fn only_a_process_of_the_same_server_and_start_of_the_machine_is_known_to_be_dead() {
        let own = Some(Owner([1; 16]));
        assert!(is_of_the_dead(lease(1, 7), own, 7));
        assert!(!is_of_the_dead(lease(1, 8), own, 7), "it may run on a clone of this machine");
        assert!(!is_of_the_dead(lease(2, 7), own, 7));
        assert!(!is_of_the_dead(lease(1, 7), None, 7));
        assert!(!is_of_the_dead(lease(1, 0), own, 0), "nobody knows the start");
    }

    /// A machine slept, and another server took its bucket and gave the lease back meanwhile.
    #[test]
    fn a_lease_is_not_renewed_after_another_server_has_taken_the_bucket() {
        let own = lease(1, 7);
        assert!(may_renew(own, Some(Lease { count: 9, ..own }), None));
        assert!(!may_renew(own, Some(lease(1, 7)), None), "another process has it");
        assert!(may_renew(own, None, Some(own.owner)), "somebody has deleted it");
        assert!(may_renew(own, None, None));
        assert!(!may_renew(own, None, Some(Owner([2; 16]))));
    }
}
