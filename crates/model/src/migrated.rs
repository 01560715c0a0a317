//! Copies of migrated files, as the server keeps them.

use std::fmt;

use crate::{DirPath, Name};

/// Identifier of a copy of a migrated file: the batch of the copy, and the index of the copy in the
/// batch. The name of the migrated file is not part of it, because the name may change at any time.
///
/// A batch is a directory of the filespace for migrated files, and the copies are the files in it.
/// So files that were migrated together are recalled together.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct CopyId {
    pub batch: BatchId,
    pub index: u16,
}

/// Random number of a batch: of files that were migrated together.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct BatchId(pub u64);

impl BatchId {
    /// The directory of the batch's copies.
    pub fn directory(self) -> DirPath {
        let name = Name::new(format!("{:016x}", self.0).as_bytes()).expect("digits are a name");
        DirPath::root().child(&name)
    }

    /// The batch whose copies are in `directory`.
    pub fn of_directory(directory: &DirPath) -> Option<Self> {
        let name = directory.as_bytes().strip_prefix(b"/")?.strip_suffix(b"/")?;
        let number = u64::from_str_radix(str::from_utf8(name).ok()?, 16).ok()?;
        Some(Self(number)).filter(|batch| batch.directory() == *directory)
    }
}

impl CopyId {
    /// The name of the copy in the directory of its batch. Names sort in the order of the indexes.
    pub fn name(self) -> Name {
        Name::new(format!("{:04x}", self.index).as_bytes()).expect("digits are a name")
    }

    /// The index of the copy that is called `name`.
    pub fn index_of(name: &Name) -> Option<u16> {
        let digits = str::from_utf8(name.as_bytes()).ok()?;
        let index = u16::from_str_radix(digits, 16).ok()?;
        let copy = Self { batch: BatchId(0), index };
        (copy.name() == *name).then_some(index)
    }
}

impl fmt::Display for CopyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}-{:04x}", self.batch.0, self.index)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_is_found_by_where_it_lies() {
        let copy = CopyId { batch: BatchId(0x1f), index: 511 };
        assert_eq!(copy.batch.directory().as_bytes(), b"/000000000000001f/");
        assert_eq!(BatchId::of_directory(&copy.batch.directory()), Some(copy.batch));
        assert_eq!(CopyId::index_of(&copy.name()), Some(511));
        assert_eq!(copy.to_string(), "000000000000001f-01ff");
        let other = DirPath::new(b"/1f/").expect("a path");
        assert_eq!(BatchId::of_directory(&other), None);
        assert_eq!(CopyId::index_of(&Name::new(b"+1ff").expect("a name")), None);
    }
}
