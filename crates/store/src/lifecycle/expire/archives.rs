//! Expiration of archives, whose objects are kept by time alone.
//!
//! A run skips an archive until the earliest time at which one of its objects is due, which the run
//! before has computed. It computes no such time for an incomplete archive, which may grow.

use catalog::{
    ArchiveChange, ArchiveRow, EventRow, Filespace, Growth, Node, PageKey, PageSpan, Write,
};
use model::{DirPath, Kind, ServerTime, archive_number};
use policy::{PolicySet, expiry};

use super::{ClassCount, PAGES_BATCH, Round};
use crate::counts::counted;
use crate::error::StoreError;
use crate::pages::{decode_page, rewritten};

/// Age at which an incomplete archive without objects belongs to no running command any more: 30
/// days.
const FILLING_MICROS_MAX: i64 = 30 * 86_400_000_000;

/// Returns true if an earlier run has computed that nothing is to be done for the archive before a
/// later time. An empty archive may have to be removed, and an incomplete one may have grown.
fn has_nothing_due(row: &ArchiveRow, now: ServerTime) -> bool {
    row.complete && row.objects > 0 && row.due.is_some_and(|due| due > now)
}

/// Returns true if the command that made the archive may still put objects into it.
fn may_be_filled(row: &ArchiveRow, now: ServerTime) -> bool {
    !row.complete && now.0.saturating_sub(row.created.0) <= FILLING_MICROS_MAX
}

impl Round<'_> {
    /// Expires the objects of the node's archives. Skips archives in which no object can be due.
    pub(super) fn archives(&mut self, node: &Node, active: &PolicySet) -> Result<(), StoreError> {
        let now = self.order.now;
        let examines_all = self.order.all || self.order.draft.is_some();
        let filespaces = self.store.catalog.filespaces(node.id)?;
        for row in self.store.catalog.archives(node.id)? {
            if row.held || (has_nothing_due(&row, now) && !examines_all) {
                continue;
            }
            // Objects that come into an incomplete archive later may be due earlier.
            let due = row.complete.then_some(Some(ServerTime::MAX));
            let mut change = ArchiveChange { due, ..ArchiveChange::default() };
            let own = |known: &&Filespace| archive_number(&known.name) == Some(row.number);
            for filespace in filespaces.iter().filter(own) {
                self.archived(node, active, &row, filespace.id, &mut change)?;
            }
            if self.order.is_dry {
                continue;
            }
            assert!(change.objects_added <= 0, "expiration adds nothing");
            let number = row.number;
            let mut writes = vec![Write::SetArchive { number, change }];
            if change.objects_added < 0 {
                let count = counted(change.objects_added.unsigned_abs(), "object");
                let name = &node.name;
                writes.push(Write::AddEvent(EventRow {
                    time: now,
                    actor: "server".to_owned(),
                    what: "archive copies expired".to_owned(),
                    details: format!("{count} of archive {number} of node {name}"),
                }));
            }
            self.store.catalog.commit(writes)?;
            // An empty archive stays while the node has deletions that can be undone.
            let is_empty = row.objects.cast_signed() + change.objects_added <= 0;
            if is_empty
                && !may_be_filled(&row, now)
                && self.store.catalog.deletions(Some(node.id))?.is_empty()
            {
                self.store.catalog.remove_archive(node.id, number)?;
            }
        }
        Ok(())
    }

    /// Expires one filespace of an archive, and adds the result to `change`.
    fn archived(
        &mut self,
        node: &Node,
        active: &PolicySet,
        row: &ArchiveRow,
        filespace: model::FilespaceId,
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
