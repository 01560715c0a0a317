//! Progress and results of long runs.

use model::PackNumber;
use store::lifecycle::victims::Victim;
use store::lifecycle::{audit, expire, reclaim};
use store::pools;
use wire::proto;

/// Maximum number of damaged parts that a reply names.
const DAMAGES_MAX: usize = 10_000;

pub(crate) fn expiration(outcome: &expire::Outcome, is_last: bool) -> proto::ExpireReply {
    let expire::Outcome { directories, examined, expired, expired_bytes, .. } = *outcome;
    proto::ExpireReply {
        directories,
        examined,
        expired,
        expired_bytes,
        nodes: outcome.nodes,
        due_anyway: outcome.due_anyway,
        damaged: outcome.damaged,
        filespaces_done: outcome.filespaces_done,
        filespaces: outcome.filespaces,
        is_last,
    }
}

pub(crate) fn tending(outcome: &pools::Outcome, is_last: bool) -> proto::TendPoolReply {
    let of_pack = |(pack, reason): &(PackNumber, String)| proto::PackFailure {
        pack: pack.0,
        reason: reason.clone(),
        volume: String::new(),
    };
    let of_volume = |(volume, reason): &(String, String)| proto::PackFailure {
        pack: 0,
        reason: reason.clone(),
        volume: volume.clone(),
    };
    let packs = outcome.failures.iter().map(of_pack);
    proto::TendPoolReply {
        packs: outcome.packs,
        bytes: outcome.bytes,
        packs_done: outcome.packs_done,
        bytes_done: outcome.bytes_done,
        failures: outcome.volumes.iter().map(of_volume).chain(packs).collect(),
        recompression: outcome.recompression.map(recompression),
        packs_unchanged: outcome.packs_unchanged,
        is_last,
    }
}

pub(crate) fn audit(outcome: &audit::Outcome, is_last: bool) -> proto::AuditReply {
    let damage = |damage: &audit::Damage| {
        let (first_chunk, end_chunk) = damage.chunks.unwrap_or_default();
        let reason = damage.reason.clone();
        let pool = outcome.pools.get(&damage.pool).cloned().unwrap_or_default();
        let repaired = damage.is_repaired;
        proto::Damage { pack: damage.pack.0, first_chunk, end_chunk, reason, pool, repaired }
    };
    let victim = |victim: &Victim| proto::Victim {
        node: victim.node.clone(),
        path: victim.path.clone().into(),
        active: victim.is_active,
    };
    let directory = |damaged: &audit::NamedDirectory| proto::DamagedDirectory {
        node: damaged.node.clone(),
        path: damaged.path.clone().into(),
    };
    let mut reply = proto::AuditReply {
        packs: outcome.packs,
        packs_done: outcome.packs_done,
        quanta: outcome.quanta,
        bytes: outcome.bytes,
        damaged: outcome.damages.len() as u64,
        victim_count: outcome.victims.count,
        is_last,
        ..proto::AuditReply::default()
    };
    if is_last {
        reply.damages = outcome.damages.iter().take(DAMAGES_MAX).map(damage).collect();
        reply.away.clone_from(&outcome.away);
        reply.on_volumes.clone_from(&outcome.on_volumes);
        reply.victims = outcome.victims.named.iter().map(victim).collect();
        reply.catalog_faults.clone_from(&outcome.catalog.faults);
        let directories = outcome.catalog.directories.iter();
        reply.catalog_directories = directories.map(directory).collect();
        reply.catalog_rows = outcome.catalog.damaged_rows;
        reply.catalog_loss = outcome.catalog.loss.map(|loss| proto::CatalogLoss {
            copy: loss.copy,
            taken: loss.taken.0,
            versions: loss.versions,
            backups: loss.backups,
        });
    }
    reply
}

pub(crate) fn reclamation(outcome: &reclaim::Outcome, is_last: bool) -> proto::ReclaimReply {
    let reclaim::Outcome { examined, packs, pack_bytes, dead_bytes, .. } = *outcome;
    proto::ReclaimReply {
        examined,
        packs,
        pack_bytes,
        dead_bytes,
        packs_removed: outcome.packs_removed,
        bytes_removed: outcome.bytes_removed,
        packs_rewritten: outcome.packs_rewritten,
        bytes_rewritten: outcome.bytes_rewritten,
        packs_waiting: outcome.packs_waiting,
        packs_locked: outcome.packs_locked,
        bytes_locked: outcome.bytes_locked,
        packs_unread: outcome.packs_unread,
        packs_stuck: outcome.packs_stuck,
        recompression: outcome.recompression.map(recompression),
        is_last,
    }
}

fn recompression(effect: reclaim::RecompressionEffect) -> proto::RecompressionEffect {
    let reclaim::RecompressionEffect { effort, before_bytes, after_bytes, gpu_bytes } = effect;
    let effort = Some(proto::Recompression { level: effort.level().unwrap_or(0) });
    proto::RecompressionEffect { effort, before_bytes, after_bytes, gpu_bytes }
}
