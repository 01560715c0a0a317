//! Limits of domains on what their nodes store.
//!
//! A transaction that would bring a domain above a limit is refused as a whole. One that stores
//! nothing more is always admitted. New versions of directories that exist do not count here: each
//! deletion of a file makes one, and a full domain must be able to delete.
//!
//! Each server keeps the amounts of the domains that have limits, and adds what it admits. It reads
//! them again after [`FRESH`], and before it refuses anything. So one server is exact. Several
//! servers of one catalogue may together exceed a limit by what they admit in that time.

use std::collections::BTreeMap;
use std::fmt;
use std::time::{Duration, Instant};

use catalog::{Amount, Catalog, DomainDetails, Growth, Node};
use model::DomainId;
use policy::PolicyDomain;
use sys::lock::Mutex;

use crate::counts::counted;
use crate::error::StoreError;

/// Time for which an amount is used that was read.
const FRESH: Duration = Duration::from_secs(30);
/// Share of a limit from which there are warnings if nobody has set another one, in per cent.
const WARNING_PERCENT: u8 = 80;

/// The part of a limit that a domain uses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LimitUse {
    /// The thing that is limited: "node", "object" or "byte".
    pub unit: &'static str,
    pub used: u64,
    pub max: u64,
}

impl LimitUse {
    /// Returns true if at least `percent` of the limit is used.
    pub fn is_near(&self, percent: u8) -> bool {
        u128::from(self.used) * 100 >= u128::from(self.max) * u128::from(percent)
    }
}

impl fmt::Display for LimitUse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {}", self.used, counted(self.max, self.unit))
    }
}

/// Returns the share of a limit from which there are warnings, in per cent.
pub fn warning_percent(details: &DomainDetails) -> u8 {
    match details.warning_percent {
        0 => WARNING_PERCENT,
        percent => percent,
    }
}

/// Returns what a domain with `nodes` nodes uses of the limits that are near.
pub fn near(details: &DomainDetails, nodes: u64, amount: Amount) -> Vec<LimitUse> {
    let percent = warning_percent(details);
    let mut near = uses(details, nodes, amount);
    near.retain(|limit| limit.is_near(percent));
    near
}

/// A domain that is near a limit, or at it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NearDomain {
    pub id: DomainId,
    pub name: String,
    /// The limits that are near, at least one.
    pub near: Vec<LimitUse>,
}

/// Returns those of `domains` that are near a limit. `nodes` has the domain of each node.
pub fn domains_near<'a>(
    catalog: &dyn Catalog,
    domains: impl Iterator<Item = &'a PolicyDomain>,
    nodes: impl Iterator<Item = DomainId>,
) -> Result<Vec<NearDomain>, StoreError> {
    let mut counts: BTreeMap<DomainId, u64> = BTreeMap::new();
    nodes.for_each(|domain| *counts.entry(domain).or_default() += 1);
    let amounts: BTreeMap<DomainId, Amount> = catalog.amounts()?.into_iter().collect();
    let mut found = Vec::new();
    for PolicyDomain { id, name, .. } in domains {
        let details = catalog.domain_details(*id)?;
        let count = counts.get(id).copied().unwrap_or_default();
        let near = near(&details, count, amounts.get(id).copied().unwrap_or_default());
        if !near.is_empty() {
            found.push(NearDomain { id: *id, name: name.clone(), near });
        }
    }
    Ok(found)
}

/// Returns what a domain with `nodes` nodes uses of each limit that it has.
pub fn uses(details: &DomainDetails, nodes: u64, amount: Amount) -> Vec<LimitUse> {
    let all = [
        ("node", nodes, details.nodes_max),
        ("object", amount.objects, details.objects_max),
        ("byte", amount.bytes, details.bytes_max),
    ];
    let limited = all.into_iter().filter_map(|(unit, used, max)| Some((unit, used, max?)));
    limited.map(|(unit, used, max)| LimitUse { unit, used, max }).collect()
}

/// The amounts of domains, as far as this server needs them.
#[derive(Default)]
pub struct Quotas {
    domains: Mutex<BTreeMap<DomainId, Tally>>,
}

/// The amount of a domain, with its limits.
struct Tally {
    details: DomainDetails,
    /// The amount that was read, with all that was admitted since.
    amount: Amount,
    /// The growth that is admitted and perhaps not committed yet.
    under_way: Growth,
    /// Time of the last reading; `None` if it must be read again.
    read: Option<Instant>,
}

impl Tally {
    fn new(under_way: Growth) -> Self {
        let (details, amount) = (DomainDetails::default(), Amount::default());
        Self { details, amount, under_way, read: None }
    }

    fn is_fresh(&self, now: Instant) -> bool {
        self.read.is_some_and(|read| now.saturating_duration_since(read) < FRESH)
    }

    fn read(
        &mut self,
        catalog: &dyn Catalog,
        id: DomainId,
        now: Instant,
    ) -> Result<(), StoreError> {
        self.details = catalog.domain_details(id)?;
        let has_limits = self.details.objects_max.or(self.details.bytes_max).is_some();
        let stored = if has_limits { catalog.amount(id)? } else { Amount::default() };
        self.amount = stored.grown(self.under_way);
        self.read = Some(now);
        Ok(())
    }

    /// Returns the limit above which the growth would bring the amount.
    fn excess(&self, growth: Growth) -> Option<LimitUse> {
        let after = self.amount.grown(growth);
        let grows = |one: &LimitUse| match one.unit {
            "object" => growth.objects > 0 && after.objects > one.max,
            "byte" => growth.bytes > 0 && after.bytes > one.max,
            _ => false,
        };
        uses(&self.details, 0, self.amount).into_iter().find(grows)
    }
}

impl Quotas {
    /// Admits the growth of what the node's domain stores. Fails if the domain would be above a
    /// limit, without the new versions of the number `renewed` of directories.
    pub(crate) fn admit(
        &self,
        catalog: &dyn Catalog,
        node: &Node,
        growth: Growth,
        renewed: i64,
    ) -> Result<Admission<'_>, StoreError> {
        let checked = Growth { objects: growth.objects - renewed, ..growth };
        let (id, now) = (node.domain, sys::clock::monotonic());
        let mut domains = self.domains.lock();
        let tally = domains.entry(id).or_insert_with(|| Tally::new(Growth::default()));
        if !tally.is_fresh(now) {
            tally.read(catalog, id, now)?;
        }
        if tally.excess(checked).is_some() {
            // Something may have expired, or the limit may be higher by now.
            tally.read(catalog, id, now)?;
        }
        if let Some(limit) = tally.excess(checked) {
            return Err(refusal(&node.domain_name, limit));
        }
        tally.amount = tally.amount.grown(growth);
        tally.under_way = tally.under_way.plus(growth);
        drop(domains);
        Ok(Admission { quotas: self, domain: id, growth, is_kept: false })
    }

    /// Lets limits and amounts be read again before the next growth.
    pub fn forget(&self) {
        self.domains.lock().values_mut().for_each(|tally| tally.read = None);
    }
}

fn refusal(domain: &str, LimitUse { unit, used, max }: LimitUse) -> StoreError {
    StoreError::no_space(format!(
        "domain {domain} may store {} and stores {} already; delete what is not needed, or ask for \
         a higher limit",
        counted(max, unit),
        counted(used, unit)
    ))
}

/// Growth that is admitted. Dropping it gives the growth back, unless it is kept.
pub(crate) struct Admission<'a> {
    quotas: &'a Quotas,
    domain: DomainId,
    growth: Growth,
    is_kept: bool,
}

impl Admission<'_> {
    /// Keeps the growth, which is durable.
    pub(crate) fn keep(mut self) {
        self.is_kept = true;
    }
}

impl Drop for Admission<'_> {
    fn drop(&mut self) {
        let back = self.growth.undone();
        let mut domains = self.quotas.domains.lock();
        let tally = domains.get_mut(&self.domain).expect("what was admitted is known");
        tally.under_way = tally.under_way.plus(back);
        if !self.is_kept {
            tally.amount = tally.amount.grown(back);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::{TestServer, refused};

    fn limit(server: &TestServer, objects_max: Option<u64>, bytes_max: Option<u64>) {
        let details = DomainDetails { objects_max, bytes_max, ..DomainDetails::default() };
        let catalog = &server.store.catalog;
        catalog.put_domain_details(server.node.domain, &details).expect("are kept");
    }

    fn admit(server: &TestServer, objects: i64, bytes: i64) -> Result<Admission<'_>, StoreError> {
        let growth = Growth { objects, bytes };
        server.store.quotas.admit(&*server.store.catalog, &server.node, growth, 0)
    }

    #[test]
    fn a_domain_grows_up_to_its_limit() {
        let server = TestServer::new();
        limit(&server, Some(10), None);
        let first = admit(&server, 6, i64::MAX).expect("is below the limit");
        refused(admit(&server, 5, 0), "domain STANDARD may store 10 objects and stores 6 objects");
        admit(&server, 4, 0).expect("is at the limit").keep();
        drop(first);
        admit(&server, -3, 0).expect("nothing more is stored").keep();
        let other = admit(&server, 6, 0).expect("the first was given back");
        drop(other);
    }

    #[test]
    fn a_full_domain_deletes() {
        let server = TestServer::new();
        limit(&server, Some(0), None);
        let growth = Growth { objects: 2, bytes: 0 };
        let admit = |renewed| {
            let catalog = &*server.store.catalog;
            server.store.quotas.admit(catalog, &server.node, growth, renewed)
        };
        refused(admit(1), "may store 0 objects");
        admit(2).expect("only directories have new versions");
    }

    #[test]
    fn a_higher_limit_is_seen_at_once_and_a_lower_one_soon() {
        let server = TestServer::new();
        limit(&server, None, Some(100));
        refused(admit(&server, 1, 101), "may store 100 bytes and stores 0 bytes already");
        limit(&server, None, Some(200));
        admit(&server, 1, 101).expect("is below the limit");
        limit(&server, None, Some(1));
        server.store.quotas.forget();
        refused(admit(&server, 1, 2), "may store 1 byte and");
        admit(&server, 5, 0).expect("only bytes are limited");
    }

    #[test]
    fn a_limit_is_near_from_its_percentage_on() {
        let near = |used, max| LimitUse { unit: "byte", used, max }.is_near(80);
        assert!(near(80, 100) && near(u64::MAX, u64::MAX) && near(0, 0));
        assert!(!near(79, 100));
    }
}
