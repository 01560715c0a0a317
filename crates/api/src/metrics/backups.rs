//! Metrics of the backups that have ended at this server since it began.

use store::tallies::{BackupSums, STAGES};

use super::format::Text;
use crate::desk::Desk;

pub(super) fn add(desk: &Desk, text: &mut Text) {
    let store = desk.store();
    let servers = store.servers();
    let own = servers.iter().filter(|one| one.is_this);
    let running: u64 = own.map(|one| one.backups).sum();
    text.gauge("holdfast_backups_running", "Backups under way at this server.", running);
    let sums = store.tallies.sums();
    let help = "Backups of filespaces that have ended. A partial one did not examine everything.";
    let values = [("complete", sums.complete), ("partial", sums.partial)];
    text.labelled(("holdfast_backups_total", "counter", help), "result", values);
    objects(&sums, text);
    bytes(&sums, text);
    stages(&sums, text);
}

fn objects(sums: &BackupSums, text: &mut Text) {
    let objects = sums.objects;
    let values = [
        ("inspected", objects.inspected),
        ("backed-up", objects.backed_up),
        ("updated", objects.updated),
        ("expired", objects.expired),
        ("failed", objects.failed),
    ];
    let help = "Objects of ended backups, by what became of them.";
    text.labelled(("holdfast_backup_objects_total", "counter", help), "what", values);
}

fn bytes(sums: &BackupSums, text: &mut Text) {
    let bytes = sums.bytes;
    let families = [
        ("inspected", "Size of the objects that backups inspected.", bytes.inspected),
        ("before_dedup", "Bytes before deduplication.", bytes.before_dedup),
        ("after_dedup", "Bytes after deduplication, before compression.", bytes.after_dedup),
        ("transferred", "Bytes that backups sent.", bytes.transferred),
    ];
    for (name, help, value) in families {
        text.counter(&format!("holdfast_backup_{name}_bytes_total"), help, value);
    }
}

fn stages(sums: &BackupSums, text: &mut Text) {
    let pairs = || STAGES.iter().zip(&sums.stages);
    let help = "Work of the stages of backups, summed over threads.";
    let busy = pairs().map(|(name, stage)| (name, stage.busy_secs));
    text.labelled(("holdfast_backup_stage_busy_seconds_total", "counter", help), "stage", busy);
    let help = "Time for which backups waited because of a stage.";
    let waited = pairs().map(|(name, stage)| (name, stage.waited_for_secs));
    text.labelled(("holdfast_backup_stage_waited_seconds_total", "counter", help), "stage", waited);
}
