//! Presence: whether the target already has an object, and what a restore does with it.

use std::io;

use model::{Object, Payload, Stat};
use sys::Dir;

use super::attributes::same_stat;
use crate::options::ReplaceRule;

/// State of the name in the target.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum NameState {
    Absent,
    /// The name already leads to the object, in its stored state.
    Right,
    /// Another object has the name, and is kept.
    Keep,
    /// Another object has the name, and will be replaced.
    Replace,
}

/// Rules by which an object of the target is compared with the stored version.
#[derive(Clone, Copy)]
pub(super) struct Presence {
    pub(super) replace: ReplaceRule,
    /// True if the restore sets owners, because it runs as root.
    pub(super) owner: bool,
}

impl Presence {
    /// Returns the state of the name of `object` in the directory `dir` of the target.
    pub(super) fn state(&self, dir: &Dir, object: &Object) -> io::Result<NameState> {
        let found = match dir.stat(object.name.as_bytes()) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(NameState::Absent),
            Err(error) => return Err(error),
            Ok(found) => found,
        };
        let stat = found.map(|found| found.stat);
        if let Some(stat) = &stat
            && self.is_right(dir, object, stat)
        {
            return Ok(NameState::Right);
        }
        let is_newer = stat.is_some_and(|stat| stat.mtime < object.stat.mtime);
        Ok(match self.replace {
            ReplaceRule::All => NameState::Replace,
            ReplaceRule::IfNewer if is_newer => NameState::Replace,
            ReplaceRule::IfNewer | ReplaceRule::No => NameState::Keep,
        })
    }

    fn is_right(&self, dir: &Dir, object: &Object, found: &Stat) -> bool {
        if !same_stat(found, &object.stat, self.owner) {
            return false;
        }
        let name = object.name.as_bytes();
        let same_target = match &object.payload {
            Payload::Target(target) => dir.read_link(name).is_ok_and(|found| found == *target),
            _ => true,
        };
        let same_attributes = || {
            !self.owner
                || dir
                    .attributes(name, found.kind)
                    .is_ok_and(|attributes| attributes == *object.attributes)
        };
        same_target && same_attributes()
    }
}
