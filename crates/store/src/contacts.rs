//! Last contacts of nodes, and the last polls of their agents.
//!
//! They wait in memory and are written together from time to time: a night with many nodes does not
//! cost a transaction for each of their connections.

use std::collections::BTreeMap;

use catalog::{Catalog, CatalogError, ContactRow, PollRow};
use model::NodeId;
use sys::lock::Mutex;

use crate::error::StoreError;

/// Last contacts and polls that are not written yet.
#[derive(Default)]
pub struct Contacts {
    waiting: Mutex<BTreeMap<NodeId, ContactRow>>,
    polls: Mutex<BTreeMap<NodeId, PollRow>>,
}

impl Contacts {
    /// Notes that a program of a node has just called.
    pub fn note(&self, contact: ContactRow) {
        self.waiting.lock().insert(contact.node, contact);
    }

    /// Returns the last contact of a node with this server, or with another one that has written
    /// it.
    pub fn last(
        &self,
        catalog: &dyn Catalog,
        node: NodeId,
    ) -> Result<Option<ContactRow>, StoreError> {
        let waiting = self.waiting.lock().get(&node).cloned();
        let written = catalog.contact(node)?;
        Ok([waiting, written].into_iter().flatten().max_by_key(|contact| contact.at))
    }

    /// Notes that the agent of a node has called, or has ended its call.
    pub(crate) fn note_poll(&self, poll: PollRow) {
        self.polls.lock().insert(poll.node, poll);
    }

    /// Returns the last call of a node's agent to this server, or to another one that has written
    /// it.
    pub(crate) fn last_poll(
        &self,
        catalog: &dyn Catalog,
        node: NodeId,
    ) -> Result<Option<PollRow>, StoreError> {
        let waiting = self.polls.lock().get(&node).copied();
        let written = catalog.poll(node)?;
        Ok([waiting, written].into_iter().flatten().max_by_key(|poll| poll.at))
    }

    /// Writes what waits. After a failure it waits on.
    pub fn write(&self, catalog: &dyn Catalog) -> Result<(), StoreError> {
        let contacts =
            write_waiting(&self.waiting, |row| row.node, |rows| catalog.put_contacts(rows));
        let polls = write_waiting(&self.polls, |row| row.node, |rows| catalog.put_polls(rows));
        contacts.and(polls)
    }
}

/// Writes the rows that wait by `put`. A row that came meanwhile waits on.
fn write_waiting<R: Clone + PartialEq>(
    waiting: &Mutex<BTreeMap<NodeId, R>>,
    node_of: impl Fn(&R) -> NodeId,
    put: impl FnOnce(&[R]) -> Result<(), CatalogError>,
) -> Result<(), StoreError> {
    let rows: Vec<R> = waiting.lock().values().cloned().collect();
    if rows.is_empty() {
        return Ok(());
    }
    put(&rows)?;
    let mut waiting = waiting.lock();
    for row in rows {
        let node = node_of(&row);
        if waiting.get(&node) == Some(&row) {
            waiting.remove(&node);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use model::ServerTime;

    use super::*;
    use crate::samples::TestServer;

    #[test]
    fn a_contact_is_known_before_and_after_it_is_written() {
        let server = TestServer::new();
        let (catalog, node) = (&*server.store.catalog, server.node.id);
        let contact = |at: i64| ContactRow {
            node,
            at: ServerTime(at),
            address: "192.0.2.7".to_owned(),
            host: "web-1".to_owned(),
        };
        let contacts = Contacts::default();
        assert_eq!(contacts.last(catalog, node).expect("is read"), None);
        contacts.note(contact(7));
        assert_eq!(contacts.last(catalog, node).expect("is read"), Some(contact(7)));
        contacts.write(catalog).expect("is written");
        assert_eq!(catalog.contact(node).expect("is read"), Some(contact(7)));
        assert!(contacts.waiting.lock().is_empty());
        assert_eq!(contacts.last(catalog, node).expect("is read"), Some(contact(7)));
        contacts.note(contact(9));
        assert_eq!(contacts.last(catalog, node).expect("is read"), Some(contact(9)));
    }

    #[test]
    fn a_poll_is_known_before_and_after_it_is_written() {
        let server = TestServer::new();
        let (catalog, node) = (&*server.store.catalog, server.node.id);
        let poll = |at: i64, minutes| PollRow { node, at: ServerTime(at), minutes };
        let contacts = Contacts::default();
        assert_eq!(contacts.last_poll(catalog, node).expect("is read"), None);
        contacts.note_poll(poll(7, 240));
        assert_eq!(contacts.last_poll(catalog, node).expect("is read"), Some(poll(7, 240)));
        contacts.write(catalog).expect("is written");
        assert_eq!(catalog.poll(node).expect("is read"), Some(poll(7, 240)));
        assert!(contacts.polls.lock().is_empty());
        assert_eq!(contacts.last_poll(catalog, node).expect("is read"), Some(poll(7, 240)));
        contacts.note_poll(poll(9, 0));
        assert_eq!(contacts.last_poll(catalog, node).expect("is read"), Some(poll(9, 0)));
    }
}
