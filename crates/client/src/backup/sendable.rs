//! The part of a change that a stop leaves: the objects whose data was sent.

use bytes::Bytes;
use format::page;
use model::{Extent, Object, Payload, SessionPlace};

use super::outbox_message::Change;

/// Leaves out the objects of a change whose data is in quanta that were not sent. The page has no
/// digest then, so that the next backup examines it and makes their versions.
pub(super) fn with_sent_data(change: Change, is_sent: impl Fn(u64) -> bool) -> Change {
    let Change { mut page, mut quanta, figures } = change;
    let left_out =
        keep_objects(&mut page.backed_up, |object| object_quanta(object).into_iter().all(&is_sent));
    page.pages.iter_mut().for_each(|key| key.digest = None);
    quanta.retain(|quantum| is_sent(*quantum));
    Change { page, quanta, figures: figures.without_objects(left_out) }
}

/// Removes objects from an encoded page, and returns their number.
fn keep_objects(page: &mut Bytes, keeps: impl Fn(&Object<SessionPlace>) -> bool) -> u64 {
    if page.is_empty() {
        return 0;
    }
    let mut objects = page::decode(page).expect("this program has encoded the page");
    let before = objects.len();
    objects.retain(keeps);
    *page = if objects.is_empty() { Bytes::new() } else { page::encode(&objects).into() };
    (before - objects.len()) as u64
}

/// Returns the quanta that have data of the object.
fn object_quanta(object: &Object<SessionPlace>) -> Vec<u64> {
    let Payload::Extents(extents) = &object.payload else { return Vec::new() };
    let quantum = |extent: &Extent<SessionPlace>| match extent.chunks()?.first {
        SessionPlace::Sent { quantum, .. } => Some(quantum),
        SessionPlace::Granted { .. } => None,
    };
    extents.iter().filter_map(quantum).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::Arc;

    use model::{Attributes, ChunkRange, ClassId, DirPath, DirectoryDigest, Name, ServerTime};

    use super::*;
    use crate::backup::figures::Figures;
    use crate::backup::fixtures::stat;
    use crate::link::backup::{PageChange, PageKey};

    fn object(name: &str, quanta: &[u64]) -> Object<SessionPlace> {
        let extent = |&quantum: &u64| {
            let first = SessionPlace::Sent { quantum, index: 0 };
            Extent::Chunks(ChunkRange { first, count: 1 })
        };
        let extents = match quanta {
            [] => vec![Extent::Hole { bytes: 3 }],
            quanta => quanta.iter().map(extent).collect(),
        };
        Object {
            name: Name::new(name.as_bytes()).expect("a name"),
            stat: stat(),
            attributes: Arc::new(Attributes::default()),
            class: ClassId(1),
            inserted: ServerTime(0),
            payload: Payload::Extents(extents),
        }
    }

    fn change(objects: &[Object<SessionPlace>]) -> Change {
        let key = PageKey { first: Vec::new(), digest: Some(DirectoryDigest([7; 16])) };
        let mut page = PageChange::new(DirPath::root(), Vec::new(), vec![key]);
        page.backed_up = page::encode(objects).into();
        let quanta: BTreeSet<u64> = objects.iter().flat_map(object_quanta).collect();
        Change { page, quanta, figures: Figures::of_objects(objects.len() as u64) }
    }

    #[test]
    fn objects_whose_data_was_sent_stay() {
        let all = [object("a", &[0]), object("b", &[0, 1]), object("c", &[]), object("d", &[2])];
        let left = with_sent_data(change(&all), |quantum| quantum != 1);
        let kept = page::decode::<SessionPlace>(&left.page.backed_up).expect("a page");
        assert_eq!(kept, [all[0].clone(), all[2].clone(), all[3].clone()]);
        assert_eq!((left.figures.objects, left.quanta), (3, BTreeSet::from([0, 2])));
        assert!(left.page.pages.iter().all(|page| page.digest.is_none()));
        let nothing = with_sent_data(change(&all[..1]), |_| false);
        assert_eq!((nothing.figures.objects, nothing.page.backed_up.len()), (0, 0));
    }
}
