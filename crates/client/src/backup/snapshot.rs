//! Snapshots: a backup reads a filespace as it was at one moment, if the system can do that.

use sys::Dir;
use sys::frozen_filesystem::{FrozenFilesystem, Means};

use super::tally::Tally;
use crate::error::{ClientError, ErrorKind};
use crate::tuning::Stillness;

/// Filespace that is held still while a backup reads it, as far as its file system can do that.
#[derive(Default)]
pub(super) struct StillFilespace {
    frozen: Option<FrozenFilesystem>,
    /// True if each file is read from a reflink that is made when the file is opened.
    pub(super) reflinks: bool,
}

impl StillFilespace {
    /// Returns the path of the root directory to read for the filespace at `mount_point`.
    pub(super) fn root<'a>(&'a self, mount_point: &'a [u8]) -> &'a [u8] {
        self.frozen.as_ref().map_or(mount_point, FrozenFilesystem::root)
    }

    /// Removes the snapshot. If that fails, warns; the next backup then removes the snapshot.
    pub(super) fn end(self, mount_point: &[u8], tally: &Tally) {
        if let Some(frozen) = self.frozen
            && let Err(error) = frozen.thaw()
        {
            let mount_point = model::escaped(mount_point);
            tally.warn(format!(
                "cannot remove the snapshot of {mount_point}: {error}; the next backup removes it"
            ));
        }
    }
}

/// Holds the filespace at `mount_point` still as `choice` says. [`Stillness::Auto`] uses the best
/// means that the file system has. If it has none, files may change while they are read.
pub(super) fn hold(
    mount_point: &[u8],
    choice: Stillness,
    tally: &Tally,
) -> Result<StillFilespace, ClientError> {
    match choice {
        Stillness::Off => Ok(StillFilespace::default()),
        Stillness::Btrfs => freeze(mount_point, Means::Btrfs),
        Stillness::Lvm => freeze(mount_point, Means::Lvm),
        Stillness::Reflink => match can_reflink(mount_point) {
            Ok(()) => Ok(StillFilespace { frozen: None, reflinks: true }),
            Err(error) => Err(refusal(mount_point, "reflinks", &error)),
        },
        Stillness::Auto => Ok(best(mount_point, tally)),
    }
}

fn best(mount_point: &[u8], tally: &Tally) -> StillFilespace {
    if let Ok(Some(means)) = sys::frozen_filesystem::means_for(mount_point) {
        match freeze(mount_point, means) {
            Ok(held) => return held,
            Err(error) => tally.warn(error.message),
        }
    }
    StillFilespace { frozen: None, reflinks: can_reflink(mount_point).is_ok() }
}

fn freeze(mount_point: &[u8], means: Means) -> Result<StillFilespace, ClientError> {
    let (what, mismatch) = match means {
        Means::Btrfs => ("a btrfs snapshot", "the file system is not btrfs"),
        Means::Lvm => ("an LVM snapshot", "the file system is not on an LVM volume"),
    };
    let found = sys::frozen_filesystem::means_for(mount_point);
    if found.as_ref().is_ok_and(|found| *found != Some(means)) {
        return Err(refusal(mount_point, what, &mismatch));
    }
    let frozen = found.and_then(|_| sys::frozen_filesystem::freeze(mount_point, means));
    let frozen = frozen.map_err(|error| refusal(mount_point, what, &error))?;
    Ok(StillFilespace { frozen: Some(frozen), reflinks: false })
}

fn can_reflink(mount_point: &[u8]) -> std::io::Result<()> {
    Dir::open(mount_point)?.can_reflink()
}

fn refusal(mount_point: &[u8], what: &str, error: &dyn std::fmt::Display) -> ClientError {
    let mount_point = model::escaped(mount_point);
    let message = format!("{mount_point} cannot be backed up from {what}: {error}");
    ClientError::new(ErrorKind::Refused, message)
}
