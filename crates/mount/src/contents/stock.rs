//! Stock: contents of small files in memory, those that came ahead and those that were read lately.

use std::sync::Arc;

use lru::LruCache;

use crate::node::VersionKey;

/// Total size of the contents that came ahead, in bytes, from which on no more are wanted.
const AHEAD_BYTES_MAX: usize = 8 << 20;
/// Maximum total size of the contents that came ahead after those of a directory were added, in
/// bytes. It leaves what a run has asked for.
const KEPT_BYTES_MAX: usize = 24 << 20;
/// Maximum total size of the contents that were read lately, in bytes.
const READ_BYTES_MAX: usize = 4 << 20;

/// Contents, oldest first.
struct Shelf {
    contents: LruCache<VersionKey, Arc<Vec<u8>>>,
    bytes: usize,
}

impl Shelf {
    fn new() -> Self {
        Self { contents: LruCache::unbounded(), bytes: 0 }
    }

    fn put(&mut self, key: VersionKey, content: Arc<Vec<u8>>) {
        self.bytes += content.len();
        if let Some((_, old)) = self.contents.push(key, content) {
            self.bytes -= old.len();
        }
    }

    fn take(&mut self, key: &VersionKey) -> Option<Arc<Vec<u8>>> {
        let content = self.contents.pop(key)?;
        self.bytes -= content.len();
        Some(content)
    }

    fn shrink(&mut self, bytes_max: usize) {
        while self.bytes > bytes_max {
            let Some((_, old)) = self.contents.pop_lru() else { break };
            self.bytes -= old.len();
        }
    }
}

/// Contents in memory.
pub(super) struct Stock {
    ahead: Shelf,
    read: Shelf,
}

impl Stock {
    pub(super) fn new() -> Self {
        Self { ahead: Shelf::new(), read: Shelf::new() }
    }

    /// Returns a content if it is here. From then on it counts as read.
    pub(super) fn find(&mut self, key: &VersionKey) -> Option<Arc<Vec<u8>>> {
        if let Some(content) = self.read.contents.get(key) {
            return Some(Arc::clone(content));
        }
        let content = self.ahead.take(key)?;
        self.put_read(key.clone(), Arc::clone(&content));
        Some(content)
    }

    /// Returns a content if it is here, and leaves it in its place.
    pub(super) fn look(&self, key: &VersionKey) -> Option<Arc<Vec<u8>>> {
        self.read.contents.peek(key).or_else(|| self.ahead.contents.peek(key)).cloned()
    }

    /// Drops a content that the kernel keeps from now on.
    pub(super) fn drop_one(&mut self, key: &VersionKey) {
        drop((self.ahead.take(key), self.read.take(key)));
    }

    pub(super) fn has(&self, key: &VersionKey) -> bool {
        self.read.contents.contains(key) || self.ahead.contents.contains(key)
    }

    pub(super) fn put_read(&mut self, key: VersionKey, content: Arc<Vec<u8>>) {
        self.read.put(key, content);
        self.read.shrink(READ_BYTES_MAX);
    }

    pub(super) fn put_ahead(&mut self, key: VersionKey, content: Vec<u8>) {
        self.ahead.put(key, Arc::new(content));
    }

    /// Adds a content that came with its directory. Programs that read a few files of each
    /// directory leave many, so what came first makes room.
    pub(super) fn put_beside(&mut self, key: VersionKey, content: Vec<u8>) {
        self.put_ahead(key, content);
        self.ahead.shrink(KEPT_BYTES_MAX);
    }

    /// Returns true if so much came ahead that no more is wanted.
    pub(super) fn is_full(&self) -> bool {
        self.ahead.bytes > AHEAD_BYTES_MAX
    }

    /// Drops what came first of what nobody has read, until there is room for more.
    pub(super) fn make_room(&mut self) {
        self.ahead.shrink(AHEAD_BYTES_MAX);
    }

    /// Drops all that came ahead.
    pub(super) fn drop_ahead(&mut self) {
        self.ahead.shrink(0);
    }
}

#[cfg(test)]
mod tests {
    use client::ObjectPlace;
    use model::{DirPath, ServerTime};

    use super::*;

    fn key(name: &str) -> VersionKey {
        let directory = DirPath::root();
        let name = directory.name(name.as_bytes()).expect("a name");
        (ObjectPlace { filespace: b"/".to_vec(), directory, name }, ServerTime(1))
    }

    #[test]
    fn a_content_that_is_read_makes_room_for_more() {
        let mut stock = Stock::new();
        stock.put_ahead(key("a"), vec![1; AHEAD_BYTES_MAX]);
        assert!(!stock.is_full());
        stock.put_ahead(key("b"), vec![2]);
        assert!(stock.is_full());
        assert_eq!(stock.find(&key("b")).as_deref(), Some(&vec![2]));
        assert!(!stock.is_full());
        assert!(stock.find(&key("b")).is_some(), "it was read lately");
        stock.put_read(key("c"), Arc::new(vec![3; READ_BYTES_MAX]));
        assert!(stock.find(&key("b")).is_none(), "it has made room");
    }

    #[test]
    fn a_content_that_is_dropped_takes_no_room() {
        let mut stock = Stock::new();
        stock.put_ahead(key("a"), vec![1; AHEAD_BYTES_MAX + 1]);
        stock.put_read(key("b"), Arc::new(vec![2]));
        assert_eq!(stock.look(&key("b")).as_deref(), Some(&vec![2]));
        assert!(stock.look(&key("a")).is_some() && stock.is_full(), "it stays");
        stock.drop_one(&key("a"));
        stock.drop_one(&key("b"));
        assert!(!stock.is_full() && !stock.has(&key("a")) && !stock.has(&key("b")));
        assert_eq!((stock.ahead.bytes, stock.read.bytes), (0, 0));
    }

    /// Such contents stayed until the end of the mount.
    #[test]
    fn what_came_with_directories_and_is_not_read_makes_room() {
        let mut stock = Stock::new();
        for number in 0..=24 {
            stock.put_beside(key(&number.to_string()), vec![1; 1 << 20]);
        }
        assert_eq!(stock.ahead.bytes, KEPT_BYTES_MAX);
        let is_there = ["0", "1", "24"].map(|name| stock.has(&key(name)));
        assert_eq!(is_there, [false, true, true]);
    }

    #[test]
    fn what_nobody_reads_is_dropped_oldest_first() {
        let mut stock = Stock::new();
        stock.put_ahead(key("a"), vec![1; AHEAD_BYTES_MAX]);
        stock.put_ahead(key("b"), vec![2]);
        stock.make_room();
        assert!(stock.find(&key("a")).is_none());
        assert!(stock.find(&key("b")).is_some());
    }
}
