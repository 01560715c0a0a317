//! Reading a filespace as it was at one moment, where the system can hold it still.

use sys::Dir;
use sys::frozen::{Frozen, Means};

use super::tally::Tally;
use crate::{ClientError, ErrorKind, Stillness};

/// How a filespace is read.
#[derive(Default)]
pub(super) struct Held {
    frozen: Option<Frozen>,
    /// Each file is read as it was when it was opened.
    pub(super) reflinks: bool,
}

impl Held {
    /// Where the root directory of the filespace at `mount_point` is.
    pub(super) fn root<'a>(&'a self, mount_point: &'a [u8]) -> &'a [u8] {
        self.frozen.as_ref().map_or(mount_point, Frozen::root)
    }

    /// Lets go of the filespace; what stays is a warning, and the next backup's to remove.
    pub(super) fn end(self, mount_point: &[u8], tally: &Tally) {
        if let Some(frozen) = self.frozen
            && let Err(error) = frozen.thaw()
        {
            let mount_point = model::escaped(mount_point);
            tally.warn(format!("the snapshot of {mount_point} is still there: {error}"));
        }
    }
}

/// Holds the filespace at `mount_point` still as `choice` says. Left to itself it takes what there
/// is, and where there is nothing reads files as they change.
pub(super) fn hold(
    mount_point: &[u8],
    choice: Stillness,
    tally: &Tally,
) -> Result<Held, ClientError> {
    match choice {
        Stillness::Off => Ok(Held::default()),
        Stillness::Btrfs => freeze(mount_point, Means::Btrfs),
        Stillness::Lvm => freeze(mount_point, Means::Lvm),
        Stillness::Reflink => match can_reflink(mount_point) {
            Ok(()) => Ok(Held { frozen: None, reflinks: true }),
            Err(error) => Err(refusal(mount_point, "reflinks", &error)),
        },
        Stillness::Auto => Ok(best(mount_point, tally)),
    }
}

fn best(mount_point: &[u8], tally: &Tally) -> Held {
    if let Ok(Some(means)) = sys::frozen::means_for(mount_point) {
        match freeze(mount_point, means) {
            Ok(held) => return held,
            Err(error) => tally.warn(error.message),
        }
    }
    Held { frozen: None, reflinks: can_reflink(mount_point).is_ok() }
}

fn freeze(mount_point: &[u8], means: Means) -> Result<Held, ClientError> {
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
    Ok(Held { frozen: Some(frozen), reflinks: false })
}

fn can_reflink(mount_point: &[u8]) -> std::io::Result<()> {
    Dir::open(mount_point)?.can_reflink()
}

fn refusal(mount_point: &[u8], what: &str, error: &dyn std::fmt::Display) -> ClientError {
    let mount_point = model::escaped(mount_point);
    let message = format!("{mount_point} cannot be backed up from {what}: {error}");
    ClientError::new(ErrorKind::Refused, message)
}
