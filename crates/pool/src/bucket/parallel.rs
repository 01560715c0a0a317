//! The same work for many keys, several at once.

use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};

use sys::lock::Mutex;

/// Maximum number of keys for which a store is asked at once.
pub(super) const AT_ONCE: usize = 8;

/// Does `work` once for each item, for several items at the same time. Returns the items that
/// failed, with the reason.
pub(crate) fn each_of<T: Sync>(
    all: &[T],
    work: impl Fn(&T) -> io::Result<()> + Sync,
) -> Vec<(&T, io::Error)> {
    let next = AtomicUsize::new(0);
    let failures = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE.min(all.len()) {
            scope.spawn(|| {
                while let Some(one) = all.get(next.fetch_add(1, Ordering::Relaxed)) {
                    if let Err(error) = work(one) {
                        failures.lock().push((one, error));
                    }
                }
            });
        }
    });
    let failures = failures.into_inner();
    assert!(failures.len() <= all.len(), "each item fails once at most");
    failures
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_done_once_and_failures_are_told() {
        let all: Vec<usize> = (0..100).collect();
        let sum = AtomicUsize::new(0);
        let failures = each_of(&all, |one| {
            sum.fetch_add(*one, Ordering::Relaxed);
            if one.is_multiple_of(50) { Err(io::Error::other("no")) } else { Ok(()) }
        });
        let mut failed: Vec<usize> = failures.iter().map(|(one, _)| **one).collect();
        failed.sort_unstable();
        assert_eq!((sum.into_inner(), failed), (4950, vec![0, 50]));
    }
}
