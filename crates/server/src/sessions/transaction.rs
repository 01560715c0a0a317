//! A transaction while a client sends it: quanta that are being stored, and changes that are not
//! parsed yet.

use format::quantum::{Header, RECORD_BYTES_MAX};
use model::QUANTUM_CHUNKS_MAX;
use prost::Message as _;
use store::StoreError;
use store::intake::StoredQuantum;
use tokio::sync::OwnedSemaphorePermit;
use tokio::task::JoinHandle;
use wire::proto;

use crate::messages::changes;

/// Maximum number of changes in one transaction.
const CHANGES_MAX: usize = 100_000;
/// Maximum number of expired names, pages and known contents in the changes of one transaction.
const ITEMS_MAX: usize = 1 << 20;
/// Maximum length of the changes of one transaction, in bytes as they were sent. A client closes a
/// transaction earlier, and its largest change is smaller than a message.
const CHANGE_BYTES_MAX: usize = 64 << 20;
/// Maximum number of chunks in the quanta of one transaction.
const CHUNKS_MAX: u32 = 1 << 19;
/// Memory of a change besides its bytes and its items.
const CHANGE_BYTES: usize = 256;
/// Memory of an expired name, a page or a known content besides its bytes.
const ITEM_BYTES: usize = 128;
/// Memory of a chunk until its quantum is committed: its place, its length, its digest and its
/// grant.
const CHUNK_BYTES: usize = 64;

pub(super) type StoreTask = JoinHandle<Result<StoredQuantum, StoreError>>;

/// Growth of a transaction by one message of changes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Load {
    changes: usize,
    items: usize,
    /// Length in bytes, as the changes were sent.
    bytes: usize,
}

impl Load {
    fn of(message: &proto::Changes) -> Self {
        Self {
            changes: message.changes.len(),
            items: message.changes.iter().map(changes::items).sum(),
            bytes: message.encoded_len(),
        }
    }

    fn memory(self) -> usize {
        self.bytes + self.changes * CHANGE_BYTES + self.items * ITEM_BYTES
    }

    fn plus(self, other: Self) -> Self {
        Self {
            changes: self.changes + other.changes,
            items: self.items + other.items,
            bytes: self.bytes + other.bytes,
        }
    }

    /// Fails if a transaction may not have so much.
    fn check(self) -> Result<(), StoreError> {
        let refused = |text| Err(StoreError::usage(text));
        let help = "upgrade the client, or set transaction_objects to a smaller number";
        match self {
            Self { bytes, .. } if bytes > CHANGE_BYTES_MAX => refused(format!(
                "the changes of a transaction have more than {} MiB; {help}",
                CHANGE_BYTES_MAX >> 20
            )),
            Self { changes, .. } if changes > CHANGES_MAX => {
                refused(format!("a transaction has more than {CHANGES_MAX} changes; {help}"))
            }
            Self { items, .. } if items > ITEMS_MAX => refused(format!(
                "the changes of a transaction have more than {ITEMS_MAX} names; {help}"
            )),
            Self { .. } => Ok(()),
        }
    }
}

/// The quanta and changes that the client closes with one commit.
#[derive(Default)]
pub(super) struct Transaction {
    pub(super) quanta: Vec<(u64, StoreTask)>,
    pub(super) changes: Vec<proto::PageChange>,
    load: Load,
    chunks: u32,
    /// Memory that the transaction holds from the budget of the node.
    held: Option<OwnedSemaphorePermit>,
}

impl Transaction {
    /// Counts a message of changes. Returns the memory that it takes. The caller adds the changes
    /// after it has got this memory.
    pub(super) fn count(&mut self, message: &proto::Changes) -> Result<usize, StoreError> {
        let more = Load::of(message);
        let load = self.load.plus(more);
        load.check()?;
        self.load = load;
        Ok(more.memory())
    }

    pub(super) fn add_changes(&mut self, message: proto::Changes) {
        self.changes.extend(message.changes);
        assert!(self.changes.len() <= self.load.changes, "changes are counted before");
    }

    /// Counts the chunks of a quantum. Returns the memory that they take.
    pub(super) fn add_chunks(&mut self, record: &[u8]) -> Result<usize, StoreError> {
        let header = Header::decode(record).map_err(StoreError::malformed)?;
        if record.len() > RECORD_BYTES_MAX || header.chunk_count > QUANTUM_CHUNKS_MAX {
            return Err(StoreError::malformed(format!(
                "a quantum has {} bytes and {} chunks, but may have {RECORD_BYTES_MAX} bytes and \
                 {QUANTUM_CHUNKS_MAX} chunks",
                record.len(),
                header.chunk_count
            )));
        }
        self.chunks += header.chunk_count;
        if self.chunks > CHUNKS_MAX {
            return Err(StoreError::malformed(format!(
                "the quanta of a transaction have more than {CHUNKS_MAX} chunks"
            )));
        }
        Ok(header.chunk_count as usize * CHUNK_BYTES)
    }

    /// Keeps the memory until the transaction is committed.
    pub(super) fn keep(&mut self, held: OwnedSemaphorePermit) {
        match &mut self.held {
            Some(before) => before.merge(held),
            none => *none = Some(held),
        }
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use format::quantum::{Codec, encode};

    use super::*;

    fn refused<T: std::fmt::Debug>(result: Result<T, StoreError>, text: &str) {
        let error = result.expect_err("it is too much").to_string();
        assert!(error.contains(text), "{error}");
    }

    fn message(changes: Vec<proto::PageChange>) -> proto::Changes {
        proto::Changes { changes }
    }

    #[test]
    fn changes_are_limited_by_their_bytes() {
        let mut transaction = Transaction::default();
        let backed_up = vec![0; 1 << 20].into();
        let large = message(vec![proto::PageChange { backed_up, ..Default::default() }]);
        let mut count = 0;
        while let Ok(memory) = transaction.count(&large) {
            assert!(memory > 1 << 20, "{memory} bytes");
            transaction.add_changes(large.clone());
            count += 1;
        }
        assert_eq!(count, 63);
        assert_eq!(transaction.changes.len(), count);
        refused(transaction.count(&large), "more than 64 MiB");
    }

    #[test]
    fn changes_are_limited_by_their_number() {
        let mut transaction = Transaction::default();
        let empty = message(vec![proto::PageChange::default(); CHANGES_MAX]);
        let memory = transaction.count(&empty).expect("as many as allowed");
        assert_eq!(memory, CHANGES_MAX * (2 + CHANGE_BYTES));
        let one = message(vec![proto::PageChange::default()]);
        refused(transaction.count(&one), "more than 100000 changes");
    }

    #[test]
    fn changes_are_limited_by_their_names() {
        let mut transaction = Transaction::default();
        let change =
            |names| proto::PageChange { expired: vec![Bytes::new(); names], ..Default::default() };
        let memory = transaction.count(&message(vec![change(ITEMS_MAX)]));
        assert!(memory.expect("as many as allowed") > ITEMS_MAX * ITEM_BYTES);
        refused(transaction.count(&message(vec![change(1)])), "more than 1048576 names");
    }

    #[test]
    fn a_change_takes_no_more_memory_than_is_counted() {
        assert!(size_of::<proto::PageChange>() <= CHANGE_BYTES);
        assert!(size_of::<proto::KnownContent>() <= ITEM_BYTES);
        assert!(size_of::<proto::PageKey>() <= ITEM_BYTES);
    }

    #[test]
    fn chunks_are_limited_in_a_quantum_and_in_a_transaction() {
        let quantum = |chunks: u32| {
            let lengths = vec![1; chunks as usize];
            encode(Codec::Stored, &lengths, &vec![0; chunks as usize])
        };
        let mut transaction = Transaction::default();
        refused(transaction.add_chunks(&quantum(QUANTUM_CHUNKS_MAX + 1)), "262144 chunks");
        let full = quantum(QUANTUM_CHUNKS_MAX);
        let bytes = transaction.add_chunks(&full).expect("as many as allowed");
        assert_eq!(bytes, QUANTUM_CHUNKS_MAX as usize * CHUNK_BYTES);
        transaction.add_chunks(&full).expect("the second half");
        refused(transaction.add_chunks(&quantum(1)), "more than 524288 chunks");
        refused(transaction.add_chunks(b"no quantum"), "malformed message: damaged quantum");
    }
}
