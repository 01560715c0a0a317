//! Contents of stored files: one file, or a tree as an archive of tar or zip.

use std::io::{self, Write};
use std::sync::Arc;

use catalog::{Filespace, Node, PageSpan};
use model::{DirPath, Kind};
use schemars::JsonSchema;
use serde::Deserialize;
use store::nodes::note;
use store::selection::{Choice, ContentReader, Delivery, Part, Selection, note_restore};

use super::inventory::{directory, find_in_node, no_such, object, stored_name};
use super::nodes::NodePath;
use super::tar_tree::TarTree;
use super::trees::write_tree;
use super::zip_tree::ZipTree;
use crate::call::{Answer, Attention, Call};
use crate::download::Download;
use crate::fields::{Empty, NameText, Time};
use crate::operation::Operation;
use crate::problem::Problem;
use crate::roles::Area;
use crate::routes::Routes;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct FileQuery {
    /// Name of the filespace. A name that is not UTF-8 is `base64:` and its bytes in Base64.
    filespace: NameText,
    /// Number of an archive, whose part that comes from the filespace is meant; the backups of the
    /// filespace by default.
    archive: Option<u64>,
    /// Path of the file in the filespace, from its root. A path that is not UTF-8 is `base64:` and
    /// its bytes in Base64.
    path: NameText,
    /// Time at which the version stood; the present by default.
    at: Option<Time>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct TreeQuery {
    /// Name of the filespace. A name that is not UTF-8 is `base64:` and its bytes in Base64.
    filespace: NameText,
    /// Number of an archive, whose part that comes from the filespace is meant; the backups of the
    /// filespace by default.
    archive: Option<u64>,
    /// Directory in the filespace, from its root; the root by default. A path that is not UTF-8 is
    /// `base64:` and its bytes in Base64.
    path: Option<NameText>,
    /// Time at which the versions stood; the present by default.
    at: Option<Time>,
}

pub(super) fn add(routes: &mut Routes) {
    let area = Area::Contents;
    let summary = "Downloads a file";
    let path = "/v1/nodes/{node}/content";
    let operation = Operation::read("restores.file", path, area, summary);
    let operation = operation.value("path", "/etc/hostname");
    routes.stream(operation, "application/octet-stream", file);
    let summary = "Downloads a tree as an archive of tar";
    let path = "/v1/nodes/{node}/tree";
    let operation = Operation::read("restores.tree", path, area, summary);
    routes.stream(operation, "application/x-tar", tar);
    let summary = "Downloads a tree as an archive of zip, without compression";
    let path = "/v1/nodes/{node}/zip";
    let operation = Operation::read("restores.zip", path, area, summary);
    routes.stream(operation, "application/zip", zip);
}

fn choice(at: Option<Time>) -> Choice {
    at.map_or(Choice::Active, |at| Choice::At(at.0))
}

fn file(call: &mut Call<NodePath, FileQuery, Empty>) -> Answer<Download> {
    let FileQuery { filespace, archive, path, at } = &call.query;
    let stored = stored_name(filespace, *archive);
    let named = (call.path.node.as_str(), &stored[..]);
    let (node, found) = find_in_node(&call.desk, &call.caller, named, Area::Contents)?;
    let (directory, name) = object(path)?;
    let parts = vec![Part { span: PageSpan::Directory(directory), name: Some(name.clone()) }];
    let choice = choice(*at);
    let selection = Selection { filespace: found.id, choice, parts, range: 0..0, sample: None };
    let store = call.desk.store();
    let mut version = None;
    let unreadable = selection.walk_readable(&*store.catalog, |batch| {
        version = batch.versions.into_iter().next();
        Ok(())
    })?;
    if let Some(unreadable) = unreadable {
        return Err(store::StoreError::from(unreadable).into());
    }
    let version = version.ok_or_else(|| no_such("file", &path.0))?;
    if version.object.stat.kind != Kind::File {
        return Err(Problem::conflict("this is no file; a directory comes as a tree"));
    }
    ContentReader::new(store)?.check(&version.object)?;
    let details = downloaded(&call.path.node, *archive, &path.0);
    let entry = Entry { actor: call.caller.name.clone(), what: "file downloaded", details };
    let desk = Arc::clone(&call.desk);
    let (bytes, object) = (version.object.stat.size, version.object);
    let file_name = String::from_utf8_lossy(name.as_bytes()).into_owned();
    let started = sys::clock::now();
    let source = move |sink: &mut dyn Write| -> io::Result<()> {
        entry.write(desk.store())?;
        let mut reader = ContentReader::new(desk.store()).map_err(io::Error::other)?;
        let bytes = io::copy(&mut reader.content(&object), sink)?;
        let sent = Delivery { selected: 1, delivered: 1, bytes };
        note_restore(desk.store(), &found, started, &sent);
        Ok(())
    };
    let source = Box::new(source);
    let media = "application/octet-stream";
    Ok(Download { media, bytes: Some(bytes), name: Some(file_name), node: Some(node), source })
}

/// Entry of a download in the activity log, which is written when the download begins: a request
/// for its head downloads nothing.
struct Entry {
    actor: String,
    what: &'static str,
    details: String,
}

impl Entry {
    fn write(self, store: &store::Store) -> io::Result<()> {
        note(store, &self.actor, self.what, self.details).map_err(io::Error::other)
    }
}

/// Returns what the activity log says of a download.
fn downloaded(node: &str, archive: Option<u64>, path: &[u8]) -> String {
    let of = archive.map(|number| format!(" of archive {number}")).unwrap_or_default();
    format!("{node}: {}{of}", model::escaped(path))
}

/// A tree that a call names.
struct NamedTree {
    node: Node,
    filespace: Filespace,
    /// The versions of the tree.
    selection: Selection,
    top: DirPath,
    entry: Entry,
}

fn tree(call: &Call<NodePath, TreeQuery, Empty>) -> Answer<NamedTree> {
    let TreeQuery { filespace, archive, path, at } = &call.query;
    let stored = stored_name(filespace, *archive);
    let named = (call.path.node.as_str(), &stored[..]);
    let (node, found) = find_in_node(&call.desk, &call.caller, named, Area::Contents)?;
    let top = directory(path.as_ref())?;
    let parts = vec![Part { span: PageSpan::Subtree(top.clone()), name: None }];
    let choice = choice(*at);
    let selection = Selection { filespace: found.id, choice, parts, range: 0..0, sample: None };
    let store = call.desk.store();
    let shown = path.as_ref().map_or(&b"/"[..], |path| &path.0);
    check_tree((store, &call.attention), &selection, shown)?;
    let details = downloaded(&call.path.node, *archive, shown);
    let entry = Entry { actor: call.caller.name.clone(), what: "tree downloaded", details };
    Ok(NamedTree { node, filespace: found, selection, top, entry })
}

fn tar(call: &mut Call<NodePath, TreeQuery, Empty>) -> Answer<Download> {
    let NamedTree { node, filespace, selection, top, entry } = tree(call)?;
    let (desk, started) = (Arc::clone(&call.desk), sys::clock::now());
    let source = move |sink: &mut dyn Write| -> io::Result<()> {
        entry.write(desk.store())?;
        let mut tree = TarTree::new(sink);
        let sent = write_tree(desk.store(), (&selection, &top), &mut tree)?;
        tree.finish()?;
        note_restore(desk.store(), &filespace, started, &sent);
        Ok(())
    };
    let (name, source) = (Some(format!("{}.tar", call.path.node)), Box::new(source));
    Ok(Download { media: "application/x-tar", bytes: None, name, node: Some(node), source })
}

fn zip(call: &mut Call<NodePath, TreeQuery, Empty>) -> Answer<Download> {
    let NamedTree { node, filespace, selection, top, entry } = tree(call)?;
    let (desk, started) = (Arc::clone(&call.desk), sys::clock::now());
    let source = move |sink: &mut dyn Write| -> io::Result<()> {
        entry.write(desk.store())?;
        let mut tree = ZipTree::new(sink);
        let sent = write_tree(desk.store(), (&selection, &top), &mut tree)?;
        tree.finish()?;
        note_restore(desk.store(), &filespace, started, &sent);
        Ok(())
    };
    let (name, source) = (Some(format!("{}.zip", call.path.node)), Box::new(source));
    Ok(Download { media: "application/zip", bytes: None, name, node: Some(node), source })
}

/// Fails if a file of the tree cannot be read here, before the first byte is sent.
fn check_tree(
    (store, attention): (&store::Store, &Attention),
    selection: &Selection,
    path: &[u8],
) -> Answer<()> {
    let reader = ContentReader::new(store)?;
    let mut objects = 0_u64;
    let unreadable = selection.walk_readable(&*store.catalog, |batch| {
        attention.check()?;
        objects += batch.versions.len() as u64;
        batch.versions.iter().try_for_each(|version| reader.check(&version.object))
    })?;
    if let Some(unreadable) = unreadable {
        return Err(store::StoreError::from(unreadable).into());
    }
    if objects == 0 {
        return Err(no_such("directory", path));
    }
    Ok(())
}
