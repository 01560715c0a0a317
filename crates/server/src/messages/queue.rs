//! The queue of readers.

use store::volumes::{QueueEntry, ReadKind, Reader};
use wire::proto;
use wire::proto::tape_wait::Kind;

pub(crate) fn wait(entry: QueueEntry) -> proto::TapeWait {
    let kind = kind(&entry.reader);
    let Reader { node, user, program, .. } = entry.reader;
    proto::TapeWait {
        number: entry.number,
        kind: kind.into(),
        node: node.unwrap_or_default(),
        user,
        program,
        since: entry.since.0,
        volume: entry.volume.unwrap_or_default(),
        packs: entry.packs,
        packs_done: entry.packs_done,
        ahead: entry.ahead,
        estimate_secs: entry.estimate.map(|estimate| estimate.as_secs()),
    }
}

/// The same for the node that waits.
pub(crate) fn own_wait(entry: QueueEntry) -> proto::OwnWait {
    proto::OwnWait {
        number: entry.number,
        reference: entry.reader.reference,
        volume: entry.volume.unwrap_or_default(),
        ahead: entry.ahead,
        estimate_secs: entry.estimate.map(|estimate| estimate.as_secs()),
    }
}

fn kind(reader: &Reader) -> Kind {
    match (&reader.node, reader.kind) {
        (None, _) => Kind::Server,
        (Some(_), ReadKind::Open) => Kind::Open,
        (Some(_), ReadKind::List) => Kind::List,
        (Some(_), ReadKind::Restore) => Kind::Restore,
    }
}
