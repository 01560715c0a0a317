//! Snapshots: a backup reads a filespace as it was at one moment, if the system can do that.

use sys::Dir;
use sys::frozen_filesystem::{FrozenFilesystem, Means};

use super::tally::Tally;
use crate::error::{ClientError, ErrorKind};
use crate::path::absolute;
use crate::tuning::Stillness;

/// Filespace that is held still while a backup reads it, as far as its file system can do that.
#[derive(Default)]
pub(super) struct StillFilespace {
    frozen: Option<FrozenRoot>,
    /// True if each file is read from a reflink that is made when the file is opened.
    pub(super) reflinks: bool,
}

/// Snapshot of the file system with a filespace.
struct FrozenRoot {
    filesystem: FrozenFilesystem,
    /// Path of the filespace's root directory in the snapshot.
    path: Vec<u8>,
}

impl StillFilespace {
    /// Returns the path of the root directory to read for `filespace`.
    pub(super) fn root<'a>(&'a self, filespace: &'a [u8]) -> &'a [u8] {
        self.frozen.as_ref().map_or(filespace, |frozen| &frozen.path)
    }

    /// Removes the snapshot. If that fails, warns; the next backup then removes the snapshot.
    pub(super) fn end(self, filespace: &[u8], tally: &Tally) {
        if let Some(frozen) = self.frozen
            && let Err(error) = frozen.filesystem.thaw()
        {
            let filespace = model::escaped(filespace);
            tally.warn(format!(
                "cannot remove the snapshot of {filespace}: {error}; the next backup removes it"
            ));
        }
    }
}

/// Holds `filespace` still as `choice` says. [`Stillness::Auto`] uses the best means that its file
/// system has. If it has none, files may change while they are read. The snapshot for a virtual
/// filespace is one of the whole file system around it.
pub(super) fn hold(
    filespace: &[u8],
    choice: Stillness,
    tally: &Tally,
) -> Result<StillFilespace, ClientError> {
    match choice {
        Stillness::Off => Ok(StillFilespace::default()),
        Stillness::Btrfs => freeze(filespace, Means::Btrfs),
        Stillness::Lvm => freeze(filespace, Means::Lvm),
        Stillness::Reflink => match can_reflink(filespace) {
            Ok(()) => Ok(StillFilespace { frozen: None, reflinks: true }),
            Err(error) => Err(refusal(filespace, "reflinks", &error)),
        },
        Stillness::Auto => Ok(best(filespace, tally)),
    }
}

fn best(filespace: &[u8], tally: &Tally) -> StillFilespace {
    if let Ok(Some(means)) = sys::frozen_filesystem::means_for(&around(filespace).0) {
        match freeze(filespace, means) {
            Ok(held) => return held,
            Err(error) => tally.warn(error.message),
        }
    }
    StillFilespace { frozen: None, reflinks: can_reflink(filespace).is_ok() }
}

/// Returns the root directory of the file system with the filespace, and the path of the filespace
/// in it.
fn around(filespace: &[u8]) -> (Vec<u8>, Vec<u8>) {
    let found = sys::mount::filespace_root(filespace);
    found.unwrap_or_else(|_| (filespace.to_vec(), b"/".to_vec()))
}

fn freeze(filespace: &[u8], means: Means) -> Result<StillFilespace, ClientError> {
    let (what, mismatch) = match means {
        Means::Btrfs => ("a btrfs snapshot", "the file system is not btrfs"),
        Means::Lvm => ("an LVM snapshot", "the file system is not on an LVM volume"),
    };
    let (root, within) = around(filespace);
    let found = sys::frozen_filesystem::means_for(&root);
    if found.as_ref().is_ok_and(|found| *found != Some(means)) {
        return Err(refusal(filespace, what, &mismatch));
    }
    let frozen = found.and_then(|_| sys::frozen_filesystem::freeze(&root, means));
    let filesystem = frozen.map_err(|error| refusal(filespace, what, &error))?;
    let path = absolute(filesystem.root(), &within);
    Ok(StillFilespace { frozen: Some(FrozenRoot { filesystem, path }), reflinks: false })
}

fn can_reflink(filespace: &[u8]) -> std::io::Result<()> {
    Dir::open(filespace)?.can_reflink()
}

fn refusal(filespace: &[u8], what: &str, error: &dyn std::fmt::Display) -> ClientError {
    let filespace = model::escaped(filespace);
    let message = format!("{filespace} cannot be backed up from {what}: {error}");
    ClientError::new(ErrorKind::Refused, message)
}
