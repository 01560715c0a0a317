//! Last contacts of nodes.
//!
//! They wait in memory and are written together from time to time: a night with many nodes does not
//! cost a transaction for each of their connections.

use std::collections::BTreeMap;

use catalog::{Catalog, ContactRow};
use model::NodeId;
use sys::lock::Mutex;

use crate::error::StoreError;

/// Last contacts that are not written yet.
#[derive(Default)]
pub struct Contacts {
    waiting: Mutex<BTreeMap<NodeId, ContactRow>>,
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

    /// Writes what waits. After a failure it waits on.
    pub fn write(&self, catalog: &dyn Catalog) -> Result<(), StoreError> {
        let rows: Vec<ContactRow> = self.waiting.lock().values().cloned().collect();
        if rows.is_empty() {
            return Ok(());
        }
        catalog.put_contacts(&rows)?;
        let mut waiting = self.waiting.lock();
        for row in rows {
            // A contact that came meanwhile is not written.
            if waiting.get(&row.node) == Some(&row) {
                waiting.remove(&row.node);
            }
        }
        Ok(())
    }
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
}
