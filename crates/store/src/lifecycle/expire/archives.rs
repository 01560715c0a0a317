//! Expiration of archives, whose objects are kept by time alone.
//!
//! A run skips an archive until the earliest time at which one of its objects is due, which the run
//! before has computed. It looks at an archive that is empty or incomplete again after a day.

use std::collections::{BTreeMap, BTreeSet};

use catalog::actor::SERVER;
use catalog::{
    ArchiveChange, ArchiveRow, EventRow, Filespace, Growth, Node, PageKey, PageSpan, Write,
};
use model::{DirPath, FilespaceId, Kind, ServerTime, archive_number};
use policy::{PolicySet, expiry};

use super::{ClassCount, PAGES_BATCH, Round};
use crate::counts::counted;
use crate::error::StoreError;
use crate::pages::{decode_page, rewritten};

/// Age at which an incomplete archive without objects belongs to no running command any more: 30
/// days.
const FILLING_MICROS_MAX: i64 = 30 * 86_400_000_000;

/// Time after which a run looks again at an archive that is empty or incomplete: a day.
const AGAIN_MICROS: i64 = 86_400_000_000;

/// Returns true if only the ages of the archive's objects decide when something is to be done. An
/// empty archive may have to be removed, and an incomplete one may have grown.
fn is_settled(row: &ArchiveRow) -> bool {
    row.complete && row.objects > 0
}

/// Returns true if a run has to look at the archive now: no earlier run has computed that nothing
/// is to be done for it before a later time.
pub(super) fn is_due(row: &ArchiveRow, now: ServerTime) -> bool {
    // Earlier programs wrote the last of all times for archives that are empty or incomplete.
    let is_forgotten = |due: ServerTime| due == ServerTime::MAX && !is_settled(row);
    !row.held && row.due.is_none_or(|due| due <= now || is_forgotten(due))
}

/// Returns true if the command that made the archive may still put objects into it.
fn may_be_filled(row: &ArchiveRow, now: ServerTime) -> bool {
    !row.complete && now.0.saturating_sub(row.created.0) <= FILLING_MICROS_MAX
}

/// Returns the filespaces of each archive, by the archive's number.
fn of_archives(filespaces: &[Filespace]) -> BTreeMap<u64, Vec<FilespaceId>> {
    let mut archives: BTreeMap<u64, Vec<FilespaceId>> = BTreeMap::new();
    for filespace in filespaces {
        if let Some(number) = archive_number(&filespace.name) {
            archives.entry(number).or_default().push(filespace.id);
        }
    }
    archives
}

impl Round<'_> {
    /// Expires the objects of the node's archives. Skips archives in which no object can be due.
    pub(super) fn archives(&mut self, node: &Node, active: &PolicySet) -> Result<(), StoreError> {
        let now = self.order.now;
        let examines_all = self.order.all || self.order.draft.is_some();
        let rows = self.store.catalog.archives(node.id)?;
        let filespaces = of_archives(&self.store.catalog.filespaces(node.id)?);
        let in_trash = if rows.is_empty() { BTreeSet::new() } else { self.in_trash(node)? };
        for row in rows {
            if row.held || !(is_due(&row, now) || examines_all) {
                continue;
            }
            let mut change =
                ArchiveChange { due: Some(Some(ServerTime::MAX)), ..ArchiveChange::default() };
            let own = filespaces.get(&row.number).map(Vec::as_slice).unwrap_or_default();
            for filespace in own {
                self.archived(node, active, &row, *filespace, &mut change)?;
            }
            let is_empty = row.objects.cast_signed() + change.objects_added <= 0;
            if is_empty || !row.complete {
                // Objects that come into an incomplete archive later may be due earlier.
                let again = ServerTime(now.0.saturating_add(AGAIN_MICROS));
                change.due = change.due.map(|due| due.min(Some(again)));
            }
            if self.order.is_dry {
                continue;
            }
            self.write_archive(node, &row, change)?;
            // An undone deletion fills its archive again.
            let can_be_filled =
                may_be_filled(&row, now) || own.iter().any(|own| in_trash.contains(own));
            if is_empty && !can_be_filled && self.may_go(node, row.number)? {
                self.store.catalog.remove_archive(node.id, row.number)?;
            }
        }
        Ok(())
    }

    /// Returns the filespaces of the node's deletions that can be undone.
    fn in_trash(&self, node: &Node) -> Result<BTreeSet<FilespaceId>, StoreError> {
        let mut filespaces = BTreeSet::new();
        for deletion in self.store.catalog.deletions(Some(node.id))? {
            // All versions of a deletion are of one filespace.
            let first = self.store.catalog.trash(deletion.number, 0, 1)?;
            filespaces.extend(first.into_iter().map(|version| version.filespace));
        }
        Ok(filespaces)
    }

    /// Reads the archive's row again, and returns true if the archive is empty and not held. Since
    /// the row was read, its node may have undone a deletion or held the archive.
    fn may_go(&self, node: &Node, number: u64) -> Result<bool, StoreError> {
        let found = self.store.catalog.archives_from(node.id, Some(number), 1)?;
        Ok(found
            .first()
            .is_some_and(|row| row.number == number && row.objects == 0 && !row.held))
    }

    /// Writes the change of an archive, if there is one.
    fn write_archive(
        &self,
        node: &Node,
        row: &ArchiveRow,
        change: ArchiveChange,
    ) -> Result<(), StoreError> {
        assert!(change.objects_added <= 0, "expiration adds nothing");
        let number = row.number;
        if change.objects_added == 0 && change.due.is_none_or(|due| due == row.due) {
            return Ok(());
        }
        let mut writes = vec![Write::SetArchive { number, change }];
        if change.objects_added < 0 {
            let count = counted(change.objects_added.unsigned_abs(), "object");
            let name = &node.name;
            writes.push(Write::AddEvent(EventRow {
                time: self.order.now,
                actor: SERVER.to_owned(),
                what: "archive copies expired".to_owned(),
                details: format!("{count} of archive {number} of node {name}"),
            }));
        }
        self.store.catalog.commit(writes)?;
        Ok(())
    }

    /// Expires one filespace of an archive, and adds the result to `change`.
    fn archived(
        &mut self,
        node: &Node,
        active: &PolicySet,
        row: &ArchiveRow,
        filespace: FilespaceId,
        change: &mut ArchiveChange,
    ) -> Result<(), StoreError> {
        let span = PageSpan::Subtree(DirPath::above_root());
        let now = self.order.now;
        let end = |set: &PolicySet, class| {
            expiry::archive_end(&set.archive_rules(class), row.created, row.event)
        };
        let mut after: Option<PageKey> = None;
        loop {
            let pages = self.store.catalog.pages(filespace, &span, after.as_ref(), PAGES_BATCH)?;
            let Some(last) = pages.last().map(|page| page.key.clone()) else { return Ok(()) };
            let mut writes = Vec::new();
            let before = Growth { objects: change.objects_added, bytes: change.bytes_added };
            for page in pages {
                let mut objects = match decode_page(&page) {
                    Err(StoreError::Damaged(reason)) => {
                        self.pass_over(node, &reason);
                        continue;
                    }
                    objects => objects?,
                };
                let before = objects.len();
                self.pace.wait(before);
                self.outcome.examined += before as u64;
                objects.retain(|object| {
                    let ends = end(self.order.draft.unwrap_or(active), object.class);
                    if ends.is_none_or(|ends| ends > now) {
                        change.due = change.due.map(|due| due.min(ends.or(due)));
                        return true;
                    }
                    let bytes = if object.stat.kind == Kind::File { object.stat.size } else { 0 };
                    self.outcome.expired += 1;
                    self.outcome.expired_bytes += bytes;
                    let count = ClassCount { expired: 1, expired_bytes: bytes };
                    self.by_class.entry(object.class).or_default().add(count);
                    change.objects_added -= 1;
                    change.bytes_added -= bytes.cast_signed();
                    let anyway = end(active, object.class).is_some_and(|ends| ends <= now);
                    self.outcome.due_anyway += u64::from(anyway && self.order.draft.is_some());
                    false
                });
                if objects.len() < before {
                    if self.of_nodes.insert(node.id) {
                        self.outcome.nodes += 1;
                    }
                    writes.push(rewritten(filespace, page.key, &objects));
                }
            }
            if !writes.is_empty() {
                let after = Growth { objects: change.objects_added, bytes: change.bytes_added };
                writes.push(Write::Grow { filespace, growth: after.plus(before.undone()) });
            }
            self.write(&mut writes)?;
            after = Some(last);
        }
    }
}
