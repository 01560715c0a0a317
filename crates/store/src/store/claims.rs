//! Claims: names that one session or process has exclusively, such as the filespace of a backup.

use std::collections::BTreeSet;
use std::sync::Arc;

use catalog::CatalogError;
use sys::lock::{Mutex, MutexGuard};

use crate::fleet::Fleet;

/// All claims of this server. If the catalogue has several servers, each claim is in the database
/// too.
pub(crate) struct Claims {
    here: Mutex<BTreeSet<String>>,
    fleet: Option<Arc<Fleet>>,
}

impl Claims {
    pub(crate) fn new(fleet: Option<Arc<Fleet>>) -> Self {
        Self { here: Mutex::default(), fleet }
    }

    fn here(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.here.lock()
    }

    /// Claims `name` until the claim is dropped. Returns `None` while somebody else has it.
    pub(crate) fn take(self: &Arc<Self>, name: &str) -> Result<Option<Claim>, CatalogError> {
        {
            let mut here = self.here();
            sys::fault::point("claim");
            if !here.insert(name.to_owned()) {
                return Ok(None);
            }
        }
        // The claim is made before the fleet is asked. If the fleet refuses, dropping the claim
        // gives the name back.
        let claim = Claim { claims: Arc::clone(self), name: name.to_owned() };
        let is_taken = self.fleet.as_ref().map_or(Ok(true), |fleet| fleet.try_claim(name))?;
        Ok(is_taken.then_some(claim))
    }

    /// Number of claims on this server whose name begins with `prefix`.
    pub(crate) fn count(&self, prefix: &str) -> u64 {
        self.here().iter().filter(|name| name.starts_with(prefix)).count() as u64
    }

    /// Releases the claims that this server has in the database but nobody here holds. The database
    /// did not answer when these claims were given back.
    pub(crate) fn release_forgotten(&self) -> Result<(), CatalogError> {
        let Some(fleet) = &self.fleet else { return Ok(()) };
        for name in fleet.postgres.reservations()? {
            // The lock is kept until the database has answered, so that nobody takes the claim
            // meanwhile.
            let here = self.here();
            if !here.contains(&name) {
                fleet.postgres.release(&name)?;
            }
        }
        Ok(())
    }

    fn give_back(&self, name: &str) {
        if let Some(fleet) = &self.fleet {
            fleet.release_claim(name);
        }
        // The name is removed last. Otherwise the release above could end the next claim of the
        // same name.
        let was_claimed = self.here().remove(name);
        debug_assert!(was_claimed, "{name} was claimed until now");
    }
}

/// A name that nobody else has until the claim is dropped.
pub struct Claim {
    claims: Arc<Claims>,
    name: String,
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.claims.give_back(&self.name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_has_a_name_until_its_claim_is_dropped() {
        let claims = Arc::new(Claims::new(None));
        let take = |name: &str| claims.take(name).expect("no database is asked");
        let first = take("filespace 1").expect("nobody has it");
        assert!(take("filespace 1").is_none(), "somebody has it");
        let other = take("filespace 2").expect("another name");
        let reclamation = take("reclamation").expect("another name");
        assert_eq!(claims.count("filespace "), 2);
        drop(first);
        assert_eq!(claims.count("filespace "), 1);
        assert!(take("filespace 1").is_some(), "it was given back");
        assert_eq!(claims.count("filespace "), 1, "the new claim was dropped at once");
        drop((other, reclamation));
        assert_eq!(claims.count(""), 0);
        claims.release_forgotten().expect("no database is asked");
    }
}
