//! Metrics of what domains have stored, and of their limits.

use std::collections::BTreeMap;

use catalog::{Amount, DomainDetails};

use super::format::Text;
use crate::call::Answer;
use crate::desk::Desk;

/// Function that returns a value of a domain; `None` for a limit that it does not have.
type DomainValue = fn(&Amount, &DomainDetails) -> Option<u64>;

pub(super) fn add(desk: &Desk, text: &mut Text) -> Answer<()> {
    let catalog = &desk.store().catalog;
    let stored: BTreeMap<_, _> = catalog.amounts()?.into_iter().collect();
    let mut all = Vec::new();
    for domain in catalog.domains()? {
        let amount = stored.get(&domain.id).copied().unwrap_or_default();
        all.push((domain.name, amount, catalog.domain_details(domain.id)?));
    }
    let families: [(&str, &str, DomainValue); 4] = [
        ("holdfast_domain_stored_objects", "Stored versions of objects.", |amount, _| {
            Some(amount.objects)
        }),
        ("holdfast_domain_stored_bytes", "Size of the stored versions.", |amount, _| {
            Some(amount.bytes)
        }),
        ("holdfast_domain_objects_max", "Limit on stored versions.", |_, details| {
            details.objects_max
        }),
        ("holdfast_domain_bytes_max", "Limit on the size of stored versions.", |_, details| {
            details.bytes_max
        }),
    ];
    for (name, help, value) in families {
        text.family(name, "gauge", help);
        for (domain, amount, details) in &all {
            if let Some(value) = value(amount, details) {
                text.value(name, &[("domain", domain)], value);
            }
        }
    }
    Ok(())
}
