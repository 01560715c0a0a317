//! The queue of readers.

use std::collections::BTreeMap;

use bytes::Bytes;
use store::volumes::{QueueEntry, ReadKind, Reader};
use wire::proto;
use wire::proto::tape_wait::Kind;

use super::portions::{Portion, Section};

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

/// Returns a portion of the waits of a node, for the node. It has no numbers of waits: they would
/// tell the node how often the others wait. The key of a wait is its time, and its place among the
/// node's waits since the same time.
pub(crate) fn own_waits(portion: &Portion, own: Vec<QueueEntry>) -> proto::WaitsReply {
    let mut places = BTreeMap::new();
    let placed = own.into_iter().map(|entry| {
        let place: &mut u64 = places.entry(entry.since).or_default();
        *place += 1;
        (*place, entry)
    });
    let key = |(place, entry): &(u64, QueueEntry)| {
        let since = entry.since.0.max(0);
        Bytes::from([since.to_be_bytes(), place.to_be_bytes()].concat())
    };
    let Section { items, next } =
        portion.of_list(placed.collect(), key, |(_, entry)| own_wait(entry));
    proto::WaitsReply { waits: items, next }
}

fn own_wait(entry: QueueEntry) -> proto::OwnWait {
    proto::OwnWait {
        number: 0,
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

#[cfg(test)]
mod tests {
    use model::ServerTime;

    use super::*;

    #[test]
    fn the_own_waits_tell_nothing_of_others_and_come_once() {
        let entry = |number, since| QueueEntry {
            number,
            reader: Reader { reference: number, ..Reader::server() },
            since: ServerTime(since),
            volume: None,
            packs: 1,
            packs_done: 0,
            ahead: 0,
            estimate: None,
        };
        let own = || vec![entry(700, 5), entry(900, 5), entry(901, 9)];
        let mut found = Vec::new();
        let mut from = Bytes::new();
        for _ in 0..3 {
            let portion = Portion::parse(Some(proto::Portion { items_max: 1, from }));
            let reply = own_waits(&portion, own());
            found.extend(reply.waits.iter().map(|wait| (wait.number, wait.reference)));
            from = reply.next;
        }
        assert_eq!(found, [(0, 700), (0, 900), (0, 901)]);
        assert!(from.is_empty(), "there is nothing more");
    }
}
