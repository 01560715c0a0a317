//! The kernel's cache of files, which gets contents before programs ask for them.
//!
//! A question of the kernel costs more than the bytes of a small file. When a program walks through
//! directories and reads the files in them, their contents come ahead. What is in the kernel's
//! cache is read without a question, and takes no room in this process any more.
//!
//! The kernel may wait in [`KernelCache::put`] for a part of the file that it is asking for at that
//! moment, until a thread answers. So one thread at a time puts contents there, and no other waits
//! for it: there is always a thread that answers.

use std::sync::{Arc, OnceLock};

use fuser::{INodeNo, Notifier};
use sys::lock::Mutex;

#[derive(Clone, Default)]
pub(crate) struct KernelCache {
    shared: Arc<Line>,
}

/// The way to the kernel, which is known once the mount has begun.
#[derive(Default)]
struct Line {
    notifier: OnceLock<Notifier>,
    is_in_use: Mutex<()>,
}

impl KernelCache {
    /// Notes the way to the kernel.
    pub(crate) fn connect(&self, notifier: Notifier) {
        // A mount begins once.
        drop(self.shared.notifier.set(notifier));
    }

    /// Puts the whole content of the file `inode` into the kernel's cache. Returns false if another
    /// thread is doing that, or if the kernel does not take it. It asks for the content then.
    pub(crate) fn put(&self, inode: INodeNo, content: &[u8]) -> bool {
        let Some(notifier) = self.shared.notifier.get() else { return false };
        let Some(_in_use) = self.shared.is_in_use.try_lock() else { return false };
        notifier.store(inode, 0, content).is_ok()
    }
}
