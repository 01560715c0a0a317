//! Snapshots: a filespace is read as it was at one moment, if the system can do that.

use sys::Dir;
use sys::frozen::{Frozen, Means};

use super::tally::Tally;
use crate::error::{ClientError, ErrorKind};
use crate::tuning::Stillness;

/// Filespace that stands still, as far as it can.
#[derive(Default)]
pub(super) struct StillFilespace {
    frozen: Option<Frozen>,
    /// True if each file is read from a reflink that is made when it is opened.
    pub(super) reflinks: bool,
}

impl StillFilespace {
    /// Returns the path of the root directory to read for the filespace at `mount_point`.
    pub(super) fn root<'a>(&'a self, mount_point: &'a [u8]) -> &'a [u8] {
        self.frozen.as_ref().map_or(mount_point, Frozen::root)
    }

    /// Removes the snapshot. If that fails it warns, and the next backup removes the snapshot.
    pub(super) fn end(self, mount_point: &[u8], tally: &Tally) {
        if let Some(frozen) = self.frozen
            && let Err(error) = frozen.thaw()
        {
            let mount_point = model::escaped(mount_point);
            tally.warn(format!("the snapshot of {mount_point} is still there: {error}"));
        }
    }
}

/// Makes the filespace at `mount_point` stand still as `choice` says. [`Stillness::Auto`] takes the
/// best means of the file system, and reads files as they change if there is none.
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
    if let Ok(Some(means)) = sys::frozen::means_for(mount_point) {
        match freeze(mount_point, means) {
            Ok(held) => return held,
            Err(error) => tally.warn(error.message),
        }
    }
    StillFilespace { frozen: None, reflinks: can_reflink(mount_point).is_ok() }
}

fn freeze(mount_point: &[u8], means: Means) -> Result<StillFilespace, ClientError> {
    let what = match means {
        Means::Btrfs => "a btrfs snapshot",
        Means::Lvm => "an LVM snapshot",
    };
    let found = sys::frozen::means_for(mount_point);
    if found.as_ref().is_ok_and(|found| *found != Some(means)) {
        return Err(refusal(mount_point, what, &"it is not on one"));
    }
    let frozen = found.and_then(|_| sys::frozen::freeze(mount_point, means));
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
