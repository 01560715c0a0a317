//! Metrics of pools, packs, volumes and the catalogue.

use std::collections::BTreeMap;

use catalog::{COMMIT_BOUNDS_MICROS, PackState, VolumeState};
use store::pools::PoolSummary;

use super::format::Text;
use crate::call::Answer;
use crate::desk::Desk;

/// Function that returns a value of a pool.
type PoolValue = fn(&PoolSummary) -> u64;

pub(super) fn add(desk: &Desk, text: &mut Text) -> Answer<()> {
    pools(desk, text)?;
    packs(desk, text)?;
    volumes(desk, text)?;
    drives(desk, text);
    commits(desk, text);
    Ok(())
}

fn pools(desk: &Desk, text: &mut Text) -> Answer<()> {
    let pools = store::pools::list(desk.store(), None)?;
    let families: [(&str, &str, PoolValue); 6] = [
        ("holdfast_pool_available", "1 if the pool is available.", |pool| {
            u64::from(pool.usage.is_there)
        }),
        ("holdfast_pool_bytes", "Size of the packs in the pool.", |pool| pool.usage.bytes),
        ("holdfast_pool_bytes_max", "Number of bytes that fit; 0 if unknown.", |pool| {
            pool.usage.bytes_max
        }),
        ("holdfast_pool_packs", "Packs in the pool.", |pool| pool.usage.packs),
        ("holdfast_pool_missing_bytes", "Size of the packs that a copy pool lacks.", |pool| {
            pool.missing_bytes
        }),
        ("holdfast_pool_disk_errors", "Errors of the pool's disk since the start.", |pool| {
            pool.disk_errors
        }),
    ];
    for (name, help, value) in families {
        let values = pools.iter().map(|pool| (&pool.row.name, value(pool)));
        text.labelled((name, "gauge", help), "pool", values);
    }
    Ok(())
}

fn packs(desk: &Desk, text: &mut Text) -> Answer<()> {
    let usage = desk.store().catalog.pack_usage()?;
    let states = [
        ("open", PackState::Open),
        ("sealed", PackState::Sealed),
        ("condemned", PackState::Condemned),
        ("damaged", PackState::Damaged),
    ];
    let of = |state| usage.iter().filter(move |usage| usage.state == state);
    let help = "Packs, by state.";
    let counts = states.map(|(name, state)| (name, of(state).map(|one| one.packs).sum::<u64>()));
    text.labelled(("holdfast_packs", "gauge", help), "state", counts);
    let help = "Size of the packs, by state.";
    let bytes = states.map(|(name, state)| (name, of(state).map(|one| one.bytes).sum::<u64>()));
    text.labelled(("holdfast_pack_bytes", "gauge", help), "state", bytes);
    Ok(())
}

fn volumes(desk: &Desk, text: &mut Text) -> Answer<()> {
    let store = desk.store();
    let volumes = store.catalog.volumes()?;
    let (mut errors, mut scratch) = (BTreeMap::new(), BTreeMap::new());
    for volume in &volumes {
        *errors.entry(&volume.library).or_insert(0) += u64::from(volume.errors);
        *scratch.entry(&volume.library).or_insert(0) +=
            u64::from(volume.state == VolumeState::Scratch);
    }
    let help = "Errors of the volumes that are in use, by library.";
    text.labelled(("holdfast_volume_errors", "gauge", help), "library", errors);
    let help = "Volumes that may be written from the beginning, by library.";
    text.labelled(("holdfast_volumes_scratch", "gauge", help), "library", scratch);
    let queue = store.volumes.queue(None).map_or(0, |queue| queue.len());
    text.gauge("holdfast_recall_queue", "Readers that wait for volumes.", queue);
    Ok(())
}

fn drives(desk: &Desk, text: &mut Text) {
    let name = "holdfast_drive_errors_total";
    let help = "Failures of the drive, and volumes that could not be read or written in it.";
    text.family(name, "counter", help);
    for one in desk.store().volumes.drive_errors() {
        let drive = one.drive.to_string();
        text.value(name, &[("library", &one.library), ("drive", &drive)], one.errors);
    }
}

fn commits(desk: &Desk, text: &mut Text) {
    let times = desk.store().catalog.commit_times();
    let mut count = 0;
    let mut classes = Vec::new();
    for (bound, of_class) in COMMIT_BOUNDS_MICROS.iter().zip(&times.counts) {
        count += of_class;
        classes.push((seconds(*bound), count));
    }
    let all = times.counts.iter().sum();
    let name = "holdfast_catalog_commit_seconds";
    let help = "Times of the writes of the catalogue, until they are durable.";
    text.histogram((name, help), &classes, (times.time.as_secs_f64(), all));
    let help = "Writes of the catalogue that failed.";
    text.counter("holdfast_catalog_commits_failed_total", help, times.failed);
}

/// Returns a number of microseconds as seconds.
fn seconds(micros: u64) -> String {
    std::time::Duration::from_micros(micros).as_secs_f64().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_are_in_seconds() {
        let bounds = [1_000, 300_000, 1_000_000, 10_000_000].map(seconds);
        assert_eq!(bounds, ["0.001", "0.3", "1", "10"]);
    }
}
