//! Tests of the real program with real files, one module for each theme.
//!
//! Without root, the tests that need root (for owners, devices, mounts, or another user) are left
//! out, with a line on standard error.

// The attribute tells the lints that helpers outside `#[test]` functions are test code too.
#[cfg(test)]
mod administration;
#[cfg(test)]
mod administration_from_tsm;
#[cfg(test)]
mod alerts;
#[cfg(test)]
mod all_or_nothing;
#[cfg(test)]
mod api;
#[cfg(test)]
mod approvals;
#[cfg(test)]
mod archives;
#[cfg(test)]
mod at_work;
#[cfg(test)]
mod attacks;
#[cfg(test)]
mod baseline;
#[cfg(test)]
mod broken_node;
#[cfg(test)]
mod buckets;
#[cfg(test)]
mod bugs;
#[cfg(test)]
mod calls;
#[cfg(test)]
mod certificates;
#[cfg(test)]
mod changing;
#[cfg(test)]
mod chaos;
#[cfg(test)]
mod clients;
#[cfg(test)]
mod clock;
#[cfg(test)]
mod damage;
#[cfg(test)]
mod database_faults;
#[cfg(test)]
mod deletion;
#[cfg(test)]
mod drills;
#[cfg(test)]
mod drives;
#[cfg(test)]
mod edge;
#[cfg(test)]
mod edits;
#[cfg(test)]
mod encryption;
#[cfg(test)]
mod enrolment_keys;
#[cfg(test)]
mod examples;
#[cfg(test)]
mod expiring;
#[cfg(test)]
mod fleet;
#[cfg(test)]
mod from_tsm;
#[cfg(test)]
mod full_disk;
#[cfg(test)]
mod gpu;
#[cfg(test)]
mod growth;
#[cfg(test)]
mod guard;
#[cfg(test)]
mod heads;
#[cfg(test)]
mod hostile;
#[cfg(test)]
mod identities;
#[cfg(test)]
mod image;
#[cfg(test)]
mod isolation;
#[cfg(test)]
mod journal;
#[cfg(test)]
mod kept_baselines;
#[cfg(test)]
mod kills;
#[cfg(test)]
mod limits;
#[cfg(test)]
mod listing;
#[cfg(test)]
mod lost_connections;
#[cfg(test)]
mod managing;
#[cfg(test)]
mod merge_patches;
#[cfg(test)]
mod metrics;
#[cfg(test)]
mod mount;
#[cfg(test)]
mod mutants;
#[cfg(test)]
mod network;
#[cfg(test)]
mod numbers;
#[cfg(test)]
mod object_lock;
#[cfg(test)]
mod observed;
#[cfg(test)]
mod odd_names;
#[cfg(test)]
mod oidc;
#[cfg(test)]
mod ownership;
#[cfg(test)]
mod package_scripts;
#[cfg(test)]
mod page;
#[cfg(test)]
mod passwords;
#[cfg(test)]
mod policy;
#[cfg(test)]
mod pools;
#[cfg(test)]
mod power;
#[cfg(test)]
mod quotas;
#[cfg(test)]
mod readers;
#[cfg(test)]
mod readiness;
#[cfg(test)]
mod reclaim;
#[cfg(test)]
mod recovery;
#[cfg(test)]
mod refusals;
#[cfg(test)]
mod replace;
#[cfg(test)]
mod report;
#[cfg(test)]
mod reserve;
#[cfg(test)]
mod restores;
#[cfg(test)]
mod rights;
#[cfg(test)]
mod risks;
mod role_table;
#[cfg(test)]
mod round_trip;
#[cfg(test)]
mod rules;
#[cfg(test)]
mod scale_out;
#[cfg(test)]
mod scene;
#[cfg(test)]
mod schedules;
#[cfg(test)]
mod service;
#[cfg(test)]
mod settings;
#[cfg(test)]
mod several_paths;
#[cfg(test)]
mod sharing;
#[cfg(test)]
mod snapshots;
#[cfg(test)]
mod soak;
#[cfg(test)]
mod space;
#[cfg(test)]
mod standing;
#[cfg(test)]
mod store_faults;
#[cfg(test)]
mod stored_paths;
#[cfg(test)]
mod streams;
#[cfg(test)]
mod tape;
#[cfg(test)]
mod tenant_keys;
#[cfg(test)]
mod tsm_guide;
#[cfg(test)]
mod tsm_orders;
#[cfg(test)]
mod tsm_output;
#[cfg(test)]
mod tuning;
#[cfg(test)]
mod units;
#[cfg(test)]
mod versions;
#[cfg(test)]
mod virtual_filespaces;
#[cfg(test)]
mod volumes;
#[cfg(test)]
mod volumes_by_request;
