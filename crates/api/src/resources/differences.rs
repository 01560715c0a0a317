//! Differences between two times of a directory.

use std::collections::BTreeMap;

use catalog::PageSpan;
use model::{DirPath, Version};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use store::selection::{Choice, Part, Selection, VersionBatch};

use super::inventory::{VersionDocument, directory, document_of, find_filespace};
use super::nodes::NodePath;
use crate::call::{Answer, Call};
use crate::cursor::Portion;
use crate::fields::{Bytes, Empty, NameText, Page, Time};
use crate::operation::Operation;
use crate::problem::Problem;
use crate::roles::Area;
use crate::routes::Routes;

/// Number of differences that a walk keeps before it drops those that are not shown.
const KEPT_MAX: usize = 10_000;

/// An object that differs between two times.
#[derive(Serialize, JsonSchema)]
struct DifferenceDocument {
    /// Path in the filespace, from its root.
    path: Bytes,
    change: Change,
    /// The version at the first time; absent for an object that was added.
    #[serde(skip_serializing_if = "Option::is_none")]
    before: Option<VersionDocument>,
    /// The version at the second time; absent for an object that was removed.
    #[serde(skip_serializing_if = "Option::is_none")]
    after: Option<VersionDocument>,
}

/// Kind of a difference.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
enum Change {
    Added,
    Removed,
    Changed,
}

/// The versions of one object at both times.
#[derive(Clone, PartialEq, Debug)]
struct Pair {
    before: Option<Version>,
    after: Option<Version>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct DifferencesQuery {
    /// Name of the filespace. A name that is not UTF-8 is `base64:` and its bytes in Base64.
    filespace: NameText,
    /// Directory in the filespace, from its root, as in /etc/apt; the root by default. A path that
    /// is not UTF-8 is `base64:` and its bytes in Base64.
    path: Option<NameText>,
    /// The first time.
    from: Time,
    /// The second time; the present by default.
    to: Option<Time>,
    /// True for everything below the directory, too.
    deep: Option<bool>,
    /// Maximum number of items: 1 to 1000.
    limit: Option<u32>,
    /// Cursor that an earlier page gave.
    cursor: Option<String>,
}

pub(super) fn add(routes: &mut Routes) {
    let summary = "Compares a directory at two times";
    let path = "/v1/nodes/{node}/differences";
    routes.add(Operation::read("versions.differences", path, Area::Inventory, summary), list);
}

fn list(call: &mut Call<NodePath, DifferencesQuery, Empty>) -> Answer<Page<DifferenceDocument>> {
    let DifferencesQuery { filespace, path, from, to, deep, limit, cursor } = &call.query;
    let portion = Portion::parse(*limit, cursor.as_deref())?;
    let named = (call.path.node.as_str(), &filespace.0[..]);
    let found = find_filespace(&call.desk, &call.caller, named, Area::Inventory)?;
    let to = to.unwrap_or(Time(sys::clock::now()));
    if to < *from {
        return Err(Problem::invalid("the second time is before the first"));
    }
    let directory = directory(path.as_ref())?;
    let span = match deep {
        Some(true) => PageSpan::Subtree(directory),
        _ => PageSpan::Directory(directory),
    };
    let parts = vec![Part { span, name: None }];
    let selection =
        Selection { filespace: found.id, choice: Choice::All, parts, range: 0..0, sample: None };
    let first = portion.first_bytes().to_vec();
    let mut kept: BTreeMap<Vec<u8>, Pair> = BTreeMap::new();
    let unreadable = selection.walk_readable(&*call.desk.store().catalog, |batch| {
        call.attention.check()?;
        for (path, pair) in pairs(batch, (*from, to)) {
            if path >= first {
                kept.insert(path, pair);
            }
        }
        if kept.len() > KEPT_MAX {
            cut(&mut kept, portion.read_max());
        }
        Ok(())
    })?;
    if let Some(unreadable) = unreadable {
        return Err(store::StoreError::from(unreadable).into());
    }
    let items: Vec<_> = kept.into_iter().take(portion.read_max()).collect();
    let page = portion.page(items, |(path, _)| path.clone());
    Ok(Page { items: page.items.into_iter().map(describe).collect(), next: page.next })
}

/// Drops all but the first `count`.
fn cut(kept: &mut BTreeMap<Vec<u8>, Pair>, count: usize) {
    if let Some(end) = kept.keys().nth(count).cloned() {
        kept.split_off(&end);
    }
}

/// Returns the objects of a batch that differ, by path. A batch has all versions of an object, one
/// after the other.
fn pairs(batch: VersionBatch, (from, to): (Time, Time)) -> Vec<(Vec<u8>, Pair)> {
    let directory: DirPath = batch.directory;
    let same_name = |one: &Version, other: &Version| one.object.name == other.object.name;
    let pair = |versions: &[Version]| {
        let at = |time: Time| versions.iter().find(|version| version.stood_at(time.0)).cloned();
        let pair = Pair { before: at(from), after: at(to) };
        let moment = |version: &Option<Version>| version.as_ref().map(|one| one.object.inserted);
        let differs = moment(&pair.before) != moment(&pair.after);
        differs.then(|| (directory.join(&versions[0].object.name), pair))
    };
    batch.versions.chunk_by(same_name).filter_map(pair).collect()
}

fn describe((path, Pair { before, after }): (Vec<u8>, Pair)) -> DifferenceDocument {
    let change = match (&before, &after) {
        (None, _) => Change::Added,
        (_, None) => Change::Removed,
        _ => Change::Changed,
    };
    let document = |version: Version| document_of(path.clone(), version);
    let (before, after) = (before.map(document), after.map(document));
    DifferenceDocument { path: Bytes(path), change, before, after }
}
