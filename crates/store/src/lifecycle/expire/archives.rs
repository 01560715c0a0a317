//! Expiration of archives, whose objects are kept by time alone.
//!
//! A run skips an archive until the earliest time at which one of its objects is due, which the run
//! before has computed.

use catalog::{
    ArchiveChange, ArchiveRow, EventRow, Filespace, Growth, Node, PageKey, PageSpan, Write,
};
use model::{DirPath, Kind, ServerTime, archive_number};
use policy::{PolicySet, expiry};

use super::{ClassCount, PAGES_BATCH, Round};
use crate::counts::counted;
use crate::error::StoreError;
use crate::pages::{decode_page, rewritten};

impl Round<'_> {
    /// Expires the objects of the node's archives. Skips archives in which no object can be due.
    pub(super) fn archives(&mut self, node: &Node, active: &PolicySet) -> Result<(), StoreError> {
        let now = self.order.now;
        let filespaces = self.store.catalog.filespaces(node.id)?;
        for row in self.store.catalog.archives(node.id)? {
            let waits = row.due.is_some_and(|due| due > now) && self.order.draft.is_none();
            if row.held || (waits && !self.order.all) {
                continue;
            }
            let mut change =
                ArchiveChange { due: Some(Some(ServerTime::MAX)), ..ArchiveChange::default() };
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
            let is_empty = row.complete && row.objects.cast_signed() + change.objects_added <= 0;
            if is_empty && self.store.catalog.deletions(Some(node.id))?.is_empty() {
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
