//! Which parts of images are needed: an image consists of the versions of its parts that were
//! active when its head was inserted.
//!
//! Policy decides about heads as about any object. It does not decide about parts, whose versions
//! live and count differently: parts end before their head does, because they are committed first,
//! and an interrupted image backup leaves versions of parts that no image has.
//!
//! 1. The heads are read after the versions of parts that are judged by them. A part that has ended
//!    when it is read belongs to no image whose head is inserted later.
//! 2. An image whose deletion can be undone needs its parts, too.
//! 3. Time goes on in a filespace of images, even if the clock was set back: what comes is inserted
//!    after all that is there, and ends after all images that need it. See [`time_of_change`].
//! 4. A head moves from its page to the versions when a newer image replaces it, to the trash when
//!    it is deleted, and back to the versions when that is undone. The places are read in this
//!    order, and the trash before them, too. So a head that moves meanwhile is seen.

use std::collections::{BTreeMap, BTreeSet};

use catalog::{Filespace, PageSpan, VersionRow};
use model::{DirPath, IMAGE_HEAD, Name, ServerTime, image_name};

use crate::error::StoreError;
use crate::pages::decode_page;
use crate::selection::select;
use crate::store::Store;

/// Heads of the images of one filespace: the time at which each was inserted, and the time at which
/// it became inactive.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Heads(BTreeMap<ServerTime, Option<ServerTime>>);

impl Heads {
    /// Reads the heads of `filespace`; `None` if it does not hold images.
    pub(super) fn read(store: &Store, filespace: &Filespace) -> Result<Option<Self>, StoreError> {
        if image_name(&filespace.name).is_none() {
            return Ok(None);
        }
        let (id, directory, name) = (filespace.id, DirPath::root(), head());
        let trashed = || store.catalog.trashed_versions(id, &directory, &name);
        let mut rows = trashed()?;
        let active = select::active(&*store.catalog, id, &directory, &name)?;
        rows.extend(
            store
                .catalog
                .versions(id, &directory)?
                .into_iter()
                .filter(|row| row.name == name),
        );
        rows.extend(trashed()?);
        let ends = rows.into_iter().map(|row| (row.inserted, Some(row.deactivated)));
        let mut heads: BTreeMap<_, _> = ends.collect();
        heads.extend(active.map(|head| (head.inserted, None)));
        Ok(Some(Self(heads)))
    }

    /// Returns the heads without those that were inserted at the times `dropped`.
    pub(super) fn without(&self, dropped: &BTreeSet<ServerTime>) -> Self {
        let mut heads = self.0.clone();
        heads.retain(|inserted, _| !dropped.contains(inserted));
        Self(heads)
    }

    /// Returns true if one of the heads is active: that of the newest image.
    pub(super) fn has_active(&self) -> bool {
        self.0.values().any(Option::is_none)
    }

    /// Returns true if an image needs the version `part` of a part.
    pub(super) fn need(&self, part: &VersionRow) -> bool {
        self.needing(part).next().is_some()
    }

    /// Returns the ends of the images that need the version `part` of a part. A version that ends
    /// before it begins comes from a damaged row, and is needed by none.
    fn needing(&self, part: &VersionRow) -> impl Iterator<Item = Option<ServerTime>> {
        let end = part.deactivated.max(part.inserted);
        self.0.range(part.inserted..end).map(|(_, end)| *end)
    }

    /// Returns the latest time at which an image came or ended.
    fn latest(&self) -> Option<ServerTime> {
        self.0
            .iter()
            .map(|(inserted, end)| end.unwrap_or(*inserted).max(*inserted))
            .max()
    }

    /// Returns the end of the version `part` of a part, or of the last image that needs it; `None`
    /// while that is the newest image.
    pub(super) fn end_of(&self, part: &VersionRow) -> Option<ServerTime> {
        self.needing(part).try_fold(part.deactivated, |last, end| Some(last.max(end?)))
    }
}

/// Returns the time at which a change of `filespace` counts as made: the clock's, but in a
/// filespace of images after all that is active there, and after all that happened to images.
/// Otherwise an image would, after the clock was set back, not consist of its own parts.
pub(crate) fn time_of_change(
    store: &Store,
    filespace: &Filespace,
    clock: ServerTime,
) -> Result<ServerTime, StoreError> {
    let heads = match Heads::read(store, filespace) {
        Ok(None) => return Ok(clock),
        // A head that cannot be read cannot be restored either.
        Err(StoreError::Damaged(_)) => Heads::default(),
        heads => heads?.unwrap_or_default(),
    };
    let latest = heads.latest().max(latest_active(store, filespace)?);
    Ok(latest.map_or(clock, |latest| clock.max(next(latest))))
}

/// Returns the shortest time after `time`.
pub(crate) fn next(time: ServerTime) -> ServerTime {
    ServerTime(time.0.saturating_add(1))
}

/// Returns the time at which the newest active object of `filespace` was inserted. Damaged pages
/// are passed over.
fn latest_active(store: &Store, filespace: &Filespace) -> Result<Option<ServerTime>, StoreError> {
    let span = PageSpan::Subtree(DirPath::above_root());
    let (mut after, mut latest) = (None, None);
    // Pages with parts are large, so they come one by one.
    while let Some(page) = store.catalog.pages(filespace.id, &span, after.as_ref(), 1)?.pop() {
        match decode_page(&page) {
            Err(StoreError::Damaged(_)) => {}
            objects => latest = latest.max(objects?.iter().map(|object| object.inserted).max()),
        }
        after = Some(page.key);
    }
    Ok(latest)
}

/// Name of the head of an image.
pub(super) fn head() -> Name {
    Name::new(IMAGE_HEAD).expect("a name")
}

/// Returns true if the object `name` of `directory` in a filespace of images is their head.
pub(super) fn is_head(directory: &DirPath, name: &Name) -> bool {
    *directory == DirPath::root() && name.as_bytes() == IMAGE_HEAD
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(inserted: i64, deactivated: i64) -> VersionRow {
        VersionRow {
            directory: DirPath::root(),
            name: Name::new(b"0000").expect("a name"),
            inserted: ServerTime(inserted),
            deactivated: ServerTime(deactivated),
            body: Vec::new(),
        }
    }

    /// Checks which parts are needed. `heads` are the times at which heads were inserted, `parts`
    /// the begin and the end of each part.
    #[track_caller]
    fn check(heads: &[i64], parts: &[(i64, i64, bool)]) {
        let heads = Heads(heads.iter().map(|head| (ServerTime(*head), None)).collect());
        for &(inserted, deactivated, expected) in parts {
            let needed = heads.need(&part(inserted, deactivated));
            assert_eq!(needed, expected, "{inserted}..{deactivated}");
        }
    }

    #[test]
    fn an_image_needs_the_parts_that_were_active_when_its_head_came() {
        check(&[], &[(1, 1000, false)]);
        check(&[10, 20], &[(1, 10, false), (10, 11, true), (5, 20, true), (5, 9, false)]);
        check(&[10, 20], &[(11, 20, false), (11, 21, true), (20, 21, true), (21, 30, false)]);
    }

    #[test]
    fn a_part_lives_as_long_as_its_last_image() {
        let time = ServerTime;
        let heads = [(10, Some(time(20))), (20, Some(time(30))), (30, None)];
        let heads = Heads(heads.map(|(inserted, ended)| (time(inserted), ended)).into());
        for (inserted, deactivated, expected) in [
            (1, 5, Some(5)),
            (1, 12, Some(20)),
            (1, 25, Some(30)),
            (1, 31, None),
            (31, 40, Some(40)),
        ] {
            assert_eq!(heads.end_of(&part(inserted, deactivated)), expected.map(time));
        }
    }

    #[test]
    fn a_damaged_row_stops_nothing() {
        let heads = Heads([(ServerTime(10), None)].into());
        assert!(!heads.need(&part(20, 5)));
        assert_eq!(heads.end_of(&part(20, 5)), Some(ServerTime(5)));
    }

    #[test]
    fn the_latest_time_is_that_of_a_head_or_of_an_end() {
        let time = ServerTime;
        assert_eq!(Heads::default().latest(), None);
        let heads = |ends: &[(i64, Option<i64>)]| {
            Heads(ends.iter().map(|(head, end)| (time(*head), end.map(time))).collect())
        };
        assert_eq!(heads(&[(10, Some(30)), (20, None)]).latest(), Some(time(30)));
        assert_eq!(heads(&[(10, Some(15)), (20, None)]).latest(), Some(time(20)));
    }

    #[test]
    fn a_dropped_head_needs_nothing() {
        let heads = Heads([10, 20].map(|head| (ServerTime(head), None)).into());
        let left = heads.without(&BTreeSet::from([ServerTime(10), ServerTime(11)]));
        assert_eq!(left, Heads([(ServerTime(20), None)].into()));
    }

    #[test]
    fn only_one_name_is_a_head() {
        let directory = |path: &[u8]| DirPath::new(path).expect("a path");
        assert!(is_head(&directory(b"/"), &head()));
        assert!(!is_head(&directory(b"/00000000/"), &head()));
        assert!(!is_head(&directory(b"/"), &Name::new(b"0000").expect("a name")));
    }
}
