//! Drafts: objects that will be part of a page change.

use std::io;
use std::sync::Arc;

use bytes::Bytes;
use format::page;
use model::{
    Attributes, ClassId, Extent, Kind, Name, Object, Payload, ServerTime, SessionPlace, Stat, Xattr,
};
use sys::ObjectStatus;

use super::clock_step::{ClockStep, NO_CHANGE_TIME, clock_step};
use super::expiry::GoneObject;
use super::figures::Figures;
use super::presented::ChangeBuilder;
use super::read::Content;
use super::segment::Segment;
use super::stub;
use crate::link::backup::KnownContent;
use crate::link::versions::has_data;

/// Maximum number of bytes of extended attributes and references to chunks in one change, so that
/// it fits a message.
const CHANGE_BYTES_MAX: usize = 28 << 20;

/// Object that will be sent to the server.
pub(super) struct Draft {
    pub(super) name: Name,
    pub(super) class: ClassId,
    pub(super) stat: Stat,
    pub(super) attributes: Attributes,
    pub(super) content: DraftContent,
}

impl Draft {
    /// Returns an upper bound of the bytes that the draft's extended attributes and its references
    /// to chunks have in a message.
    fn bytes(&self) -> usize {
        let of_xattr = |xattr: &Xattr| xattr.name.len() + xattr.value.len();
        let parts = match &self.content {
            DraftContent::Data(content) => content.parts.len(),
            DraftContent::Nothing | DraftContent::Target(_) | DraftContent::Known(_) => 0,
        };
        let attributes: usize = self.attributes.xattrs.iter().map(of_xattr).sum();
        attributes + parts * wire::GRANT_BYTES
    }
}

/// Content of a draft.
pub(super) enum DraftContent {
    Nothing,
    /// Target of a symbolic link.
    Target(Vec<u8>),
    Data(Content),
    /// Content that the server already has as the content of another object.
    Known(KnownContent),
}

impl DraftContent {
    /// Makes the content of a file that was read. An empty file has no content.
    pub(super) fn of_file(content: Content, stat: &Stat) -> Self {
        if stat.size > 0 { Self::Data(content) } else { Self::Nothing }
    }
}

/// Result of the examination of one segment.
#[derive(Default)]
pub(super) struct Outcome<'s> {
    pub(super) backed_up: Vec<Draft>,
    pub(super) updated: Vec<Draft>,
    /// Names and stats of the objects that the server has after the change. The page digests are
    /// computed from them.
    pub(super) stored: Vec<(&'s Name, Stat)>,
    pub(super) expired: Vec<GoneObject>,
    /// Figures of the objects, without the numbers that the lists give.
    pub(super) figures: Figures,
    /// True if the next backup must examine the page again, because an object failed or was left to
    /// a later backup. The page then gets no digest.
    pub(super) has_failed: bool,
    /// Upper bound of the bytes of extended attributes and references to chunks so far.
    pub(super) bytes: usize,
}

impl Outcome<'_> {
    /// Reserves room for one more object. Returns false, and reserves nothing, if no room is left.
    pub(super) fn admit(&mut self, draft: &Draft) -> bool {
        let bytes = self.bytes + draft.bytes();
        let fits = bytes <= CHANGE_BYTES_MAX;
        if fits {
            self.bytes = bytes;
        }
        fits
    }

    pub(super) fn has_changes(&self) -> bool {
        !self.backed_up.is_empty() || !self.updated.is_empty()
    }

    /// Sorts all lists by name, after objects were added in another order.
    pub(super) fn sort(&mut self) {
        self.stored.sort_by(|a, b| a.0.cmp(b.0));
        self.updated.sort_by(|a, b| a.name.cmp(&b.name));
        self.backed_up.sort_by(|a, b| a.name.cmp(&b.name));
    }
}

/// Encodes drafts as a page, and adds their grants and quanta to `change`.
pub(super) fn encode(drafts: Vec<Draft>, change: &mut ChangeBuilder<'_>) -> Bytes {
    if drafts.is_empty() {
        return Bytes::new();
    }
    debug_assert!(
        drafts.is_sorted_by(|a, b| a.name <= b.name),
        "the server reads pages sorted by name"
    );
    let object = |draft: Draft| {
        let Draft { name, class, stat, attributes, content } = draft;
        let hole = || Payload::Extents(vec![Extent::Hole { bytes: stat.size }]);
        let payload = match content {
            DraftContent::Target(target) => Payload::Target(target),
            DraftContent::Data(content) => Payload::Extents(change.extents(&content)),
            DraftContent::Known(known) => {
                change.known.push(known);
                hole()
            }
            // The server ignores the extents of an update, but the format needs some.
            DraftContent::Nothing if has_data(&stat) => hole(),
            DraftContent::Nothing => Payload::Nothing,
        };
        let (attributes, inserted) = (Arc::new(attributes), ServerTime(0));
        Object { name, stat, attributes, class, inserted, payload }
    };
    let objects: Vec<Object<SessionPlace>> = drafts.into_iter().map(object).collect();
    page::encode(&objects).into()
}

/// Attributes of an object, with the stat that they belong to.
pub(super) struct Observation {
    pub(super) found: ObjectStatus,
    pub(super) attributes: Attributes,
    /// Target of a symbolic link.
    pub(super) target: Option<Vec<u8>>,
}

/// Reads the attributes of an object and the target of a symbolic link. If the change time is too
/// recent to show a later change, waits and then reads the stat again.
pub(super) fn observe(
    segment: &Segment,
    name: &Name,
    found: &ObjectStatus,
) -> io::Result<Observation> {
    let is_root = *name == Name::root();
    let is_above_archived = found.stat.is_above_archived();
    let mut found = *found;
    if let ClockStep::PassesIn(wait) = clock_step(&found.stat, sys::clock::now()) {
        sys::clock::sleep(wait);
        let again = match is_root {
            true => Some(segment.dir.stat_self()?),
            false => segment.dir.stat(name.as_bytes())?,
        };
        let is_same = |again: &ObjectStatus| again.stat.kind == found.stat.kind;
        let changed = || io::Error::other("the object changed while its attributes were read");
        found = again.filter(is_same).ok_or_else(changed)?;
        found.stat.linked |= is_above_archived;
    }
    if clock_step(&found.stat, sys::clock::now()) != ClockStep::Passed {
        found.stat.ctime = NO_CHANGE_TIME;
    }
    if is_root {
        let attributes = segment.dir.own_attributes()?;
        return Ok(Observation { found, attributes, target: None });
    }
    let kind = found.stat.kind;
    let attributes = match stub::of(&segment.dir, name, &found) {
        Ok(Some(_)) => segment.dir.attributes_unopened(name.as_bytes())?,
        _ => segment.dir.attributes(name.as_bytes(), kind)?,
    };
    let target = match kind {
        Kind::Symlink => Some(segment.dir.read_link(name.as_bytes())?),
        _ => None,
    };
    Ok(Observation { found, attributes, target })
}

#[cfg(test)]
mod tests {
    use sys::Dir;

    use super::super::fixtures::stat;
    use super::super::read::Part;
    use super::*;

    #[test]
    fn objects_are_admitted_up_to_a_message() {
        let draft = |attribute_bytes: usize, parts: usize| {
            let xattr = Xattr { name: b"user.a".to_vec(), value: vec![0; attribute_bytes - 6] };
            Draft {
                name: Name::new(b"n").expect("a name"),
                class: ClassId(1),
                stat: stat(),
                attributes: Attributes { xattrs: vec![xattr], flags: 0 },
                content: DraftContent::Data(Content {
                    parts: vec![Part::Hole { bytes: 1 }; parts],
                    data_bytes: 0,
                }),
            }
        };
        let mut outcome = Outcome::default();
        let parts = 1000;
        let most = CHANGE_BYTES_MAX - parts * wire::GRANT_BYTES;
        assert!(!outcome.admit(&draft(most, parts + 1)), "one object alone is too large");
        assert!(outcome.admit(&draft(most, parts)), "the others fit");
        assert!(!outcome.admit(&draft(6, 0)));
    }

    #[test]
    fn a_link_is_observed_with_its_target() {
        let folder = tempfile::tempdir().expect("a folder");
        std::os::unix::fs::symlink("a target", folder.path().join("link")).expect("made");
        std::fs::write(folder.path().join("file"), b"x").expect("written");
        let path = folder.path().as_os_str().as_encoded_bytes();
        let dir = Arc::new(Dir::open(path).expect("a folder"));
        let segment = Segment::partial(dir, model::DirPath::root(), Vec::new(), Vec::new());
        for (name, target) in [(&b"link"[..], Some(&b"a target"[..])), (b"file", None)] {
            let found = segment.dir.stat(name).expect("stat").expect("no socket");
            let name = Name::new(name).expect("a name");
            let observation = observe(&segment, &name, &found).expect("observed");
            assert_eq!(observation.target.as_deref(), target);
            // The files changed in the current step of the clock. Either the step has passed, or
            // the change time is not stored.
            assert!(
                observation.found.stat.ctime == found.stat.ctime
                    || observation.found.stat.ctime == NO_CHANGE_TIME
            );
        }
    }

    #[test]
    fn a_directory_above_archived_paths_stays_marked() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().as_os_str().as_encoded_bytes();
        let dir = Arc::new(Dir::open(path).expect("a folder"));
        // It is asked again for the status of a directory that has just changed.
        std::fs::create_dir(folder.path().join("new")).expect("made");
        let name = Name::new(b"new").expect("a name");
        let mut found = dir.stat(b"new").expect("looked").expect("a directory");
        found.stat.linked = true;
        let entries = vec![(name.clone(), found)];
        let segment = Segment::partial(dir, model::DirPath::root(), Vec::new(), entries);
        let observation = observe(&segment, &name, &found).expect("observed");
        assert!(observation.found.stat.is_above_archived());
    }
}
