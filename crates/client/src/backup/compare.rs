//! Comparison of an object with its active version. The module is pure.
//!
//! | difference | consequence |
//! |---|---|
//! | kind, device, size, mtime | new version |
//! | xattrs, ACLs | new version |
//! | class | attributes are updated |
//! | anything else | a file's content is compared, then attributes are updated |
//!
//! A new mode explains a new ctime, but the content may have changed as well: another file with the
//! same size and mtime, but another mode, may have replaced the file.

use model::{Attributes, ClassId, Kind, Object, Payload, Stat};

/// Result of the comparison of two stats.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Verdict {
    Same,
    NewVersion,
    /// Extended attributes decide between a new version and an update.
    Attributes {
        /// True if the content must be compared too when the attributes are equal.
        and_content: bool,
    },
    /// Only the class differs.
    Rebind,
}

/// Compares the `stat` of an object with its active version.
pub(super) fn compare(old: &Object, stat: &Stat, class: ClassId) -> Verdict {
    let was = &old.stat;
    if was.kind != stat.kind
        || was.device != stat.device
        || was.size != stat.size
        || was.mtime != stat.mtime
    {
        return Verdict::NewVersion;
    }
    // Kind, device, size and mtime are equal.
    match (was == stat, old.class == class) {
        (true, true) => Verdict::Same,
        (true, false) => Verdict::Rebind,
        (false, _) => {
            let has_content = stat.kind == Kind::File && stat.size > 0;
            Verdict::Attributes { and_content: has_content }
        }
    }
}

/// Consequence of a comparison, once the attributes have been read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Consequence {
    NewVersion,
    Update,
    CompareContent,
}

/// Compares the attributes of an object and, for a symbolic link, the `target` with the active
/// version.
pub(super) fn follow(
    old: &Object,
    attributes: &Attributes,
    target: Option<&[u8]>,
    and_content: bool,
) -> Consequence {
    let same_target = match (&old.payload, target) {
        (Payload::Target(was), Some(target)) => was == target,
        (_, target) => target.is_none(),
    };
    if old.attributes.xattrs != attributes.xattrs || !same_target {
        Consequence::NewVersion
    } else if and_content {
        Consequence::CompareContent
    } else {
        Consequence::Update
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use model::{Extent, Name, ServerTime, Xattr};

    use super::super::fixtures::stat;
    use super::*;

    fn old() -> Object {
        Object {
            name: Name::new(b"n").expect("a name"),
            stat: stat(),
            attributes: Arc::default(),
            class: ClassId(1),
            inserted: ServerTime(0),
            payload: Payload::Extents(vec![Extent::Hole { bytes: 3 }]),
        }
    }

    #[track_caller]
    fn check(change: fn(&mut Stat), verdict: Verdict) {
        let mut changed = stat();
        change(&mut changed);
        assert_eq!(compare(&old(), &changed, ClassId(1)), verdict);
    }

    #[test]
    fn content_attributes_make_a_new_version() {
        check(|_| (), Verdict::Same);
        check(|s| s.size = 4, Verdict::NewVersion);
        check(|s| s.mtime.nanos = 6, Verdict::NewVersion);
        check(|s| s.kind = Kind::Fifo, Verdict::NewVersion);
        check(|s| s.device = 1, Verdict::NewVersion);
    }

    #[test]
    fn what_moves_ctime_is_a_hint_to_look_closer() {
        let changes: [fn(&mut Stat); 6] = [
            |s| s.ctime.nanos = 9,
            |s| s.inode = 9,
            |s| s.linked = true,
            |s| s.mode = 0o600,
            |s| s.uid = 7,
            |s| s.gid = 7,
        ];
        for change in changes {
            check(change, Verdict::Attributes { and_content: true });
        }
    }

    #[test]
    fn another_class_rebinds() {
        assert_eq!(compare(&old(), &stat(), ClassId(2)), Verdict::Rebind);
    }

    #[test]
    fn changed_xattrs_make_a_new_version_and_flags_do_not() {
        let mut attributes = Attributes::default();
        assert_eq!(follow(&old(), &attributes, None, true), Consequence::CompareContent);
        assert_eq!(follow(&old(), &attributes, None, false), Consequence::Update);
        attributes.flags = 0x40;
        assert_eq!(follow(&old(), &attributes, None, true), Consequence::CompareContent);
        attributes.xattrs.push(Xattr { name: b"user.a".to_vec(), value: Vec::new() });
        assert_eq!(follow(&old(), &attributes, None, true), Consequence::NewVersion);
    }
}
