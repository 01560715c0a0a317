//! Lists that go on after the loss of the server: what was shown before is not shown again.

use client::{Client, ClientError, ListedVersion, Progress};
use model::ServerTime;

use crate::error::CommandError;
use crate::waiter::Waiter;

/// Runs `list` until it has ended. `list` gives each version to [`Shown::visit`].
pub(super) fn resumable(
    waiter: &Waiter,
    mut list: impl FnMut(&Client, &mut Shown<'_>) -> Result<(), ClientError>,
) -> Result<(), CommandError> {
    let mut last = LastShown::default();
    waiter.run(|client, progress| {
        let mut shown = Shown::new(&mut last, progress);
        let listed = list(client, &mut shown);
        match listed {
            Ok(()) if shown.has_changed() => {
                let message = "the server has other versions since the connection was lost, so the \
                               list cannot go on; run the same command again";
                Err(CommandError::new(message))
            }
            listed => Ok(listed?),
        }
    })
}

/// Versions that were shown, over all attempts.
#[derive(Default)]
struct LastShown {
    count: u64,
    last: Option<(Vec<u8>, ServerTime)>,
}

impl LastShown {
    fn is(&self, version: &ListedVersion) -> bool {
        self.last.as_ref().is_some_and(|(path, inserted)| {
            *path == version.path && *inserted == version.object.inserted
        })
    }

    fn note(&mut self, version: &ListedVersion) {
        self.count += 1;
        self.last = Some((version.path.clone(), version.object.inserted));
    }
}

/// Versions of one attempt to list. Those that were shown before the connection was lost are not
/// shown again.
pub(super) struct Shown<'a> {
    all: &'a mut LastShown,
    progress: &'a Progress,
    /// Number of versions of earlier attempts that have not come again.
    left: u64,
    /// True if other versions have come than before.
    is_other: bool,
    is_ended: bool,
}

impl<'a> Shown<'a> {
    fn new(all: &'a mut LastShown, progress: &'a Progress) -> Self {
        let left = all.count;
        Self { all, progress, left, is_other: false, is_ended: false }
    }

    /// Calls `show`, unless `version` was shown before. Returns false if the list is to end, which
    /// is so if `show` returns false.
    pub(super) fn visit(&mut self, version: &ListedVersion, show: impl FnOnce() -> bool) -> bool {
        if self.left > 0 {
            self.left -= 1;
            self.is_other = self.left == 0 && !self.all.is(version);
            self.is_ended = self.is_other;
            return !self.is_ended;
        }
        self.is_ended = !show();
        self.all.note(version);
        self.progress.get_on();
        !self.is_ended
    }

    /// Returns true if no version is wanted any more.
    pub(super) fn is_ended(&self) -> bool {
        self.is_ended
    }

    /// Returns true if the server has other versions than before.
    fn has_changed(&self) -> bool {
        self.is_other || self.left > 0
    }
}
