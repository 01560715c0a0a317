//! Selections of versions, and the versions that answer them.

use bytes::Bytes;
use catalog::PageSpan;
use model::{FilespaceId, ServerTime};
use policy::Pattern;
use store::StoreError;
use store::selection::{Choice, DirectoryVersions, Part, Selection, VersionCondition};
use wire::proto;

use super::changes::directory;

/// Parses a selection. The caller has already found its `filespace`.
pub(crate) fn parse(
    message: &proto::Selection,
    filespace: FilespaceId,
) -> Result<Selection, StoreError> {
    let malformed = |error: model::NameError| StoreError::malformed(error);
    let directory = directory(&message.directory)?;
    let choice = match (message.all_versions, message.at, message.inactive) {
        (true, ..) => Choice::All,
        (false, 0, false) => Choice::Active,
        (false, 0, true) => Choice::Newest,
        (false, at, _) => Choice::At(ServerTime(at)),
    };
    let parts = if message.name.is_empty() {
        let span = if message.one_directory {
            PageSpan::Directory(directory)
        } else {
            PageSpan::Subtree(directory)
        };
        vec![Part { span, name: None }]
    } else {
        let name = directory.name(&message.name).map_err(malformed)?;
        let below = PageSpan::Subtree(directory.child(&name));
        let own = Part { span: PageSpan::Directory(directory), name: Some(name) };
        let below = message.recursive.then_some(Part { span: below, name: None });
        std::iter::once(own).chain(below).collect()
    };
    let end = match message.bytes {
        0 => u64::MAX,
        bytes => message.from.saturating_add(bytes),
    };
    Ok(Selection { filespace, choice, parts, range: message.from..end, sample: None })
}

/// Parses the conditions on the versions of a selection.
pub(crate) fn condition(
    message: Option<proto::VersionCondition>,
) -> Result<VersionCondition, StoreError> {
    let proto::VersionCondition { pattern, absent_at } = message.unwrap_or_default();
    let pattern = Some(pattern).filter(|pattern| !pattern.is_empty());
    let pattern = pattern.map(|pattern| Pattern::parse(&pattern)).transpose();
    Ok(VersionCondition {
        pattern: pattern.map_err(StoreError::malformed)?,
        absent_at: absent_at.map(ServerTime),
        packs: None,
    })
}

pub(crate) fn directory_versions(versions: DirectoryVersions) -> proto::DirectoryVersions {
    let deactivated = versions.deactivated.into_iter();
    proto::DirectoryVersions {
        directory: Bytes::copy_from_slice(versions.directory.as_bytes()),
        page: versions.page.into(),
        deactivated: deactivated.map(|time| time.map_or(0, |time| time.0)).collect(),
        chunk_lengths: versions.chunk_lengths.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(directory: &'static [u8], name: &'static [u8]) -> proto::Selection {
        proto::Selection {
            directory: Bytes::from_static(directory),
            name: Bytes::from_static(name),
            ..proto::Selection::default()
        }
    }

    #[test]
    fn a_selection_has_a_choice_and_a_path() {
        let check = |message: proto::Selection, choice: Choice, parts: usize, path: &[u8]| {
            let selection = parse(&message, FilespaceId(1)).expect("is well formed");
            assert_eq!((selection.choice, selection.parts.len()), (choice, parts));
            assert_eq!(selection.path(), path);
        };
        check(message(b"", b""), Choice::Active, 1, b"");
        check(message(b"/a/", b"b"), Choice::Active, 1, b"/a/b");
        let whole = proto::Selection { recursive: true, inactive: true, ..message(b"/", b"a") };
        check(whole, Choice::Newest, 2, b"/a");
        let then = proto::Selection { at: 7, inactive: true, ..message(b"/a/", b"") };
        check(then, Choice::At(ServerTime(7)), 1, b"/a/");
        let all = proto::Selection { at: 7, all_versions: true, ..message(b"/a/", b"") };
        check(all, Choice::All, 1, b"/a/");
    }

    #[test]
    fn a_range_ends_at_its_bytes() {
        let range = |from, bytes| {
            let message = proto::Selection { from, bytes, ..message(b"/", b"") };
            parse(&message, FilespaceId(1)).expect("is well formed").range
        };
        assert_eq!(range(0, 0), 0..u64::MAX);
        assert_eq!(range(5, 10), 5..15);
        assert_eq!(range(5, u64::MAX), 5..u64::MAX);
    }

    #[test]
    fn a_path_that_is_not_whole_is_refused() {
        for (directory, name) in
            [(&b"a/"[..], &b""[..]), (b"/a", b""), (b"/", b"a/b"), (b"/", b"/"), (b"", b"a")]
        {
            assert!(parse(&message(directory, name), FilespaceId(1)).is_err());
        }
    }
}
