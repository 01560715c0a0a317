//! Lists of domains and of pools.

use store::{Store, StoreError, domains, pools};
use wire::proto;

use crate::actor::Sight;
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
