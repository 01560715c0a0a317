//! Lists of domains, of pools, and of option sets.

use store::option_sets::{self, OptionSetUse};
use store::{Store, StoreError, domains, pools};
use wire::proto;

use crate::actor::{OptionSetSight, Sight};
use crate::messages;
use crate::messages::portions::{Portion, Section, number_key};

/// Lists a portion of the domains that the caller sees.
pub(super) fn domains(
    store: &Store,
    request: proto::DomainsRequest,
    sight: Option<&Sight>,
) -> Result<proto::DomainsReply, StoreError> {
    let proto::DomainsRequest { name, portion } = request;
    let mut domains = domains::list(store, messages::name(&name))?;
    if let Some(sight) = sight {
        domains.retain(|one| sight.domains.contains(&one.domain.id));
    }
    let Section { items, next } = Portion::parse(portion).of_list(
        domains,
        |domain| domain.domain.name.clone().into(),
        messages::domains::domain,
    );
    Ok(proto::DomainsReply { domains: items, next })
}

/// Lists a portion of the pools.
pub(super) fn pools(
    store: &Store,
    request: proto::PoolsRequest,
) -> Result<proto::PoolsReply, StoreError> {
    let proto::PoolsRequest { name, portion } = request;
    let pools = pools::list(store, messages::name(&name))?;
    let Section { items, next } = Portion::parse(portion).of_list(
        pools,
        |pool| number_key(u64::from(pool.row.id.0)),
        messages::pools::pool,
    );
    Ok(proto::PoolsReply { pools: items, next })
}

/// Returns the option set `name`, or all option sets, of those that the caller sees. One of others
/// is answered as one that does not exist.
fn option_sets_seen(
    store: &Store,
    name: Option<&str>,
    sight: Option<OptionSetSight>,
) -> Result<Vec<OptionSetUse>, StoreError> {
    let Some(OptionSetSight(mut all)) = sight else { return option_sets::list(store, name) };
    if let Some(name) = name {
        all.retain(|uses| uses.set.name.eq_ignore_ascii_case(name));
        if all.is_empty() {
            return Err(option_sets::unknown(name));
        }
    }
    Ok(all)
}

/// Lists a portion of the option sets that the caller sees, with the versions in force.
pub(super) fn option_sets(
    store: &Store,
    request: proto::OptionSetsRequest,
    sight: Option<OptionSetSight>,
) -> Result<proto::OptionSetsReply, StoreError> {
    let proto::OptionSetsRequest { name, portion } = request;
    let Section { items, next } = Portion::parse(portion).of_list(
        option_sets_seen(store, messages::name(&name), sight)?,
        |uses| uses.set.name.to_ascii_lowercase().into(),
        |uses| messages::option_sets::of_node(Some((uses.set.name, uses.set.current))),
    );
    Ok(proto::OptionSetsReply { sets: items, next })
}

/// Lists a portion of the option sets that the caller sees, with their nodes.
pub(super) fn option_set_uses(
    store: &Store,
    request: proto::OptionSetsRequest,
    sight: Option<OptionSetSight>,
) -> Result<proto::OptionSetUsesReply, StoreError> {
    let proto::OptionSetsRequest { name, portion } = request;
    let Section { items, next } = Portion::parse(portion).of_list(
        option_sets_seen(store, messages::name(&name), sight)?,
        |uses| uses.set.name.to_ascii_lowercase().into(),
        messages::option_sets::uses,
    );
    Ok(proto::OptionSetUsesReply { uses: items, next })
}

/// Lists a portion of the versions of an option set that the caller sees. Their authors are for
/// those who run the service.
pub(super) fn option_set_versions(
    store: &Store,
    request: proto::OptionSetsRequest,
    sight: Option<OptionSetSight>,
) -> Result<proto::OptionSetVersionsReply, StoreError> {
    let proto::OptionSetsRequest { name, portion } = request;
    let is_limited = sight.is_some();
    if is_limited {
        option_sets_seen(store, Some(&name), sight)?;
    }
    let mut versions = option_sets::versions(store, &name)?;
    if is_limited {
        versions.iter_mut().for_each(|version| version.author.clear());
    }
    let Section { items, next } = Portion::parse(portion).of_list(
        versions,
        // Newest first.
        |version| number_key(u64::MAX - version.number),
        messages::option_sets::version,
    );
    Ok(proto::OptionSetVersionsReply { versions: items, next })
}
