//! Maker: makes objects in the target.

use std::io;
use std::path::Path;
use std::sync::Arc;

use model::{DirPath, Extent, Kind, Name, Object, Payload};
use sys::lock::Mutex;
use sys::{Dir, NewFile, ObjectStatus};

use super::attributes::note_refusals;
use super::copy::copy_file;
use super::destination::Destination;
use super::layout::Base;
use super::links::{Group, Links, MadeName, MadeNames, Spot, Turn, may_have_lost_names};
use super::parents::Start;
use super::presence::{NameState, Presence};
use super::tally::Tally;
use super::tree::{DirState, Site, Tree, is_too_deep};
use crate::error::ClientError;
use crate::link::versions::{Entry, has_data};
use crate::options::{ReplaceRule, RestoreOptions, RestorePart};
use crate::path::components;

/// Maximum number of objects with one name that a reception compares with objects with several
/// names. Each takes a few hundred bytes until the end of the reception. Further ones come back as
/// files of their own.
pub(super) const FORMER_NAMES_MAX: usize = 1 << 18;

/// Maker of the selected objects, below one place of the target.
pub(super) struct Maker<'a> {
    tree: Tree<'a>,
    /// Place of `base`.
    folder: Arc<Base>,
    base: Arc<Dir>,
    /// Directory of the filespace that `base` stands for.
    above: DirPath,
    /// Directories between the base and the objects, which are made if any object has come.
    parents: Vec<(DirPath, DirState)>,
    tally: &'a Tally,
    part: RestorePart,
    presence: Presence,
    /// Hard links of the reception. A waiting name keeps its directory, so that the directory is
    /// not finished.
    links: Links<Arc<Site<'a>>>,
    /// Names that all receptions have made; `None` if there is only one reception.
    made: Option<&'a MadeNames>,
    /// True if a past state is restored. Its objects may have had more names than they have now.
    is_past: bool,
    /// Number of objects with one name among the names of inodes.
    former_names: usize,
}

/// Consequence of the turn of a name.
enum Course {
    /// Nothing is left to do now.
    Done,
    /// The object must be made, as the first name of its inode if that is given.
    Make(Option<LinkName>),
}

/// File that waits for its data.
pub(super) struct File<'a> {
    site: Arc<Site<'a>>,
    /// Directory of the object, for messages.
    directory: Arc<DirPath>,
    object: Object,
    link: Option<LinkName>,
    replaces: bool,
    /// New file; `None` before the first chunk, and after the file was finished or lost.
    open: Mutex<Option<NewFile>>,
}

/// Name of an object that had several names.
#[derive(Clone)]
struct LinkName {
    group: Group,
    spot: Spot,
}

/// Result for a further name of an object.
enum LinkOutcome {
    Made,
    /// The name already leads to the object, or to a copy of the object.
    Right,
    /// Another object keeps the name.
    Kept,
}

impl<'a> File<'a> {
    fn new(
        site: Arc<Site<'a>>,
        directory: Arc<DirPath>,
        object: Object,
        link: Option<LinkName>,
        replaces: bool,
    ) -> Self {
        Self { site, directory, object, link, replaces, open: Mutex::new(None) }
    }
}

impl<'a> Maker<'a> {
    /// Makes a maker that begins at `start`.
    pub(super) fn new(
        start: Start,
        options: &RestoreOptions,
        tally: &'a Tally,
        made: Option<&'a MadeNames>,
    ) -> Result<Self, ClientError> {
        let Start { filespace, base: folder, above, parents } = start;
        let base = folder.make()?;
        let again = Arc::new(
            base.try_clone()
                .map_err(|error| ClientError::file("open", Path::new("the target"), &error))?,
        );
        let tree = Tree::new(base, above.clone(), filespace, tally, options.replace);
        let presence = Presence { replace: options.replace, owner: tree.owner() };
        Ok(Self {
            tree,
            folder: Arc::new(folder),
            base: again,
            above,
            parents,
            tally,
            part: options.part,
            presence,
            links: Links::default(),
            made,
            is_past: options.which.at.is_some(),
            former_names: 0,
        })
    }

    /// Finishes all directories.
    pub(super) fn finish(mut self) {
        self.tree.finish();
    }

    fn announce_parents(&mut self) {
        for (path, state) in std::mem::take(&mut self.parents) {
            self.tree.announce(path, state);
        }
    }

    fn take_object(&mut self, entry: Entry) -> Option<File<'a>> {
        let Entry { directory, object, .. } = entry;
        self.announce_parents();
        let Some(site) = self.tree.site(&directory) else {
            let path = self.tree.node_path(&directory.join(&object.name));
            self.tally.fail(path, "the directory of the object could not be made");
            return None;
        };
        if self.part.leaves_out(&object.stat) {
            return None;
        }
        let link = match self.course(&site, &directory, &object) {
            Ok(Course::Make(link)) => link,
            Ok(Course::Done) => return None,
            Err(error) => {
                let path = self.tree.node_path(&directory.join(&object.name));
                self.tally.fail(path, error.to_string());
                return None;
            }
        };
        let present = match site.is_new {
            // The directory holds only objects that this restore has made.
            true => Ok(NameState::Absent),
            false => self.presence.state(&site.dir, &object),
        };
        match present {
            Ok(NameState::Absent) => self.begin(File::new(site, directory, object, link, false)),
            Ok(NameState::Replace) => self.begin(File::new(site, directory, object, link, true)),
            Ok(NameState::Right) => {
                self.tally.skipped(false);
                self.settle(link, true);
                None
            }
            Ok(NameState::Keep) => {
                self.tally.skipped(true);
                // No other name may lead to this object, because its content is not the stored
                // content.
                if let Some(LinkName { group, .. }) = link {
                    self.links.pass_on(group);
                }
                None
            }
            Err(error) => {
                let path = self.tree.node_path(&directory.join(&object.name));
                self.tally.fail(path, error.to_string());
                self.settle(link, false);
                None
            }
        }
    }

    /// Links the name of an object with several names to the first name, or lets it wait for the
    /// first name.
    fn course(
        &mut self,
        site: &Arc<Site<'a>>,
        directory: &Arc<DirPath>,
        object: &Object,
    ) -> io::Result<Course> {
        let is_former =
            self.is_past && self.former_names < FORMER_NAMES_MAX && may_have_lost_names(object);
        if !object.stat.linked && !is_former {
            return Ok(Course::Make(None));
        }
        self.former_names += usize::from(is_former);
        let Some(group) = Group::of(object, site.dir.stat_self()?.device_id) else {
            return Ok(Course::Make(None));
        };
        let spot = Spot { directory: Arc::clone(directory), name: object.name.clone() };
        match self.links.turn(group, &spot, site) {
            Turn::Make => return Ok(self.course_of_first(LinkName { group, spot })),
            Turn::Wait => {}
            Turn::Link(first) => match self.try_link(group, &first, &spot) {
                Ok(outcome) => self.count_link(&outcome),
                // Some file systems refuse links between two of their directories. Then the name
                // gets a file of its own.
                Err(_) => return Ok(Course::Make(None)),
            },
            Turn::Fail => {
                let path = self.tree.node_path(&directory.join(&object.name));
                self.tally
                    .fail(path, "the file with which it shares an inode could not be restored");
            }
        }
        Ok(Course::Done)
    }

    /// Links the first name of an inode in this reception to a name that an earlier reception has
    /// made.
    fn course_of_first(&self, link: LinkName) -> Course {
        let filespace = self.tree.filespace();
        let earlier = self.made.and_then(|made| made.find(filespace, &link.group));
        let linked = earlier.map(|earlier| self.try_link_to_earlier(&earlier, &link));
        // A name that cannot be linked gets a file of its own.
        let Some(Ok(outcome)) = linked else { return Course::Make(Some(link)) };
        self.count_link(&outcome);
        match outcome {
            LinkOutcome::Made | LinkOutcome::Right => self.settle(Some(link), true),
            LinkOutcome::Kept => self.links.pass_on(link.group),
        }
        Course::Done
    }

    fn try_link_to_earlier(&self, first: &MadeName, link: &LinkName) -> io::Result<LinkOutcome> {
        let from = first.open()?;
        let found = from.stat(first.name.as_bytes())?;
        if !found.is_some_and(|found| link.group.may_be(&found.stat)) {
            return Err(io::Error::other("another object has taken the name"));
        }
        self.try_link_from(&from, &first.name, link)
    }

    /// Makes an object without data. Returns a file with data, because it must be filled.
    fn begin(&self, file: File<'a>) -> Option<File<'a>> {
        if has_pieces(&file.object) {
            return Some(file);
        }
        let made = match file.object.stat.kind {
            Kind::File => self.publish(&file, &mut None),
            _ => self.make_special(&file),
        };
        self.conclude(&file, made);
        None
    }

    fn make_special(&self, file: &File<'_>) -> io::Result<()> {
        let File { site, object, replaces, .. } = file;
        let (dir, name, stat) = (&site.dir, object.name.as_bytes(), &object.stat);
        if *replaces {
            clear(dir, name)?;
        }
        match (&object.payload, stat.kind) {
            (Payload::Target(target), _) => dir.make_symlink(name, target)?,
            (_, kind) => dir.make_node(name, kind, stat.device)?,
        }
        let applied = dir.apply_to_name(name, stat, &object.attributes, self.presence.owner)?;
        note_refusals(self.tally, || self.path_of(file), &applied, self.presence.owner);
        Ok(())
    }

    /// Sets the attributes and the name of a file whose content is complete.
    fn publish(&self, file: &File<'_>, open: &mut Option<NewFile>) -> io::Result<()> {
        let File { site, object, .. } = file;
        let mut new = match open.take() {
            Some(new) => new,
            None => create(site, object)?,
        };
        if ends_in_hole(object) {
            new.set_len(object.stat.size)?;
        }
        let applied = new.apply(&object.stat, &object.attributes, self.presence.owner);
        note_refusals(self.tally, || self.path_of(file), &applied, self.presence.owner);
        if file.replaces {
            clear_other(&site.dir, object.name.as_bytes())?;
        }
        let applied = new.publish(file.replaces)?;
        note_refusals(self.tally, || self.path_of(file), &applied, self.presence.owner);
        Ok(())
    }

    /// Returns the path of `file` on the node, for messages.
    fn path_of(&self, file: &File<'_>) -> Vec<u8> {
        self.tree.node_path(&file.directory.join(&file.object.name))
    }

    fn conclude(&self, file: &File<'_>, made: io::Result<()>) {
        let is_made = made.is_ok();
        match made {
            Ok(()) => {
                self.tally.progress.tell("restore", || self.path_of(file));
                self.tally.restored(data_bytes(&file.object));
                self.tally.note_holes(file.object.payload.hole_bytes());
            }
            // Another process has made the object meanwhile. If the object is the same, this is no
            // failure.
            Err(error)
                if error.kind() == io::ErrorKind::AlreadyExists
                    && matches!(
                        self.presence.state(&file.site.dir, &file.object),
                        Ok(NameState::Right)
                    ) =>
            {
                self.tally.skipped(false);
                return self.settle(file.link.clone(), true);
            }
            Err(error) => self.tally.fail(self.path_of(file), error.to_string()),
        }
        self.settle(file.link.clone(), is_made);
    }

    /// Links the names that wait for the first name of a group, if the first name was made.
    fn settle(&self, link: Option<LinkName>, is_made: bool) {
        let Some(LinkName { group, spot: first }) = link else { return };
        if let Some(made) = self.made.filter(|made| is_made && made.has_room()) {
            let (base, name) = (Arc::clone(&self.folder), first.name.clone());
            let below = self.below(&first.directory).to_vec();
            made.note(self.tree.filespace(), group, MadeName { base, below, name });
        }
        let waiting = self.links.settle(group, is_made.then(|| first.clone()));
        for (spot, site) in waiting {
            if is_made {
                self.link(group, &first, &spot, &site);
            } else {
                let path = self.tree.node_path(&spot.directory.join(&spot.name));
                self.tally
                    .fail(path, "the file with which it shares an inode could not be restored");
            }
        }
    }

    /// Links `second`, a name in `site`, to `first`. If the file system refuses that, the name gets
    /// a copy: the data of a name that has waited is not asked for again.
    fn link(&self, group: Group, first: &Spot, second: &Spot, site: &Site<'_>) {
        let linked = self.try_link(group, first, second).or_else(|refusal| {
            match is_refused_link(&refusal) {
                true => self.copy(first, second, site).map_err(|_| refusal),
                false => Err(refusal),
            }
        });
        match linked {
            Ok(outcome) => self.count_link(&outcome),
            Err(error) => {
                let path = self.tree.node_path(&second.directory.join(&second.name));
                self.tally.fail(path, error.to_string());
            }
        }
    }

    fn copy(&self, first: &Spot, second: &Spot, site: &Site<'_>) -> io::Result<LinkOutcome> {
        let (from, owner) = (self.open(&first.directory)?, self.presence.owner);
        // An object that has the name was to be replaced, or no link would have been tried.
        let replaces = self.presence.replace != ReplaceRule::No;
        if replaces {
            clear_other(&site.dir, second.name.as_bytes())?;
        }
        let outcomes = copy_file(&from, &first.name, &site.dir, &second.name, owner, replaces)?;
        let path = || self.tree.node_path(&second.directory.join(&second.name));
        for applied in &outcomes {
            note_refusals(self.tally, path, applied, owner);
        }
        Ok(LinkOutcome::Made)
    }

    fn count_link(&self, outcome: &LinkOutcome) {
        match outcome {
            LinkOutcome::Made => self.tally.restored(0),
            LinkOutcome::Right => self.tally.skipped(false),
            LinkOutcome::Kept => self.tally.skipped(true),
        }
    }

    /// Links `second` to `first`, unless another object keeps the name `second`.
    fn try_link(&self, group: Group, first: &Spot, second: &Spot) -> io::Result<LinkOutcome> {
        let from = self.open(&first.directory)?;
        self.try_link_from(&from, &first.name, &LinkName { group, spot: second.clone() })
    }

    /// Links the name `second` to the name `first` in `from`, unless another object keeps it.
    fn try_link_from(
        &self,
        from: &Dir,
        first: &Name,
        LinkName { group, spot: second }: &LinkName,
    ) -> io::Result<LinkOutcome> {
        let to = self.open(&second.directory)?;
        let (from_name, to_name) = (first.as_bytes(), second.name.as_bytes());
        match to.stat(to_name) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
            Ok(present) => {
                let source = from.stat(from_name)?;
                let inode = |found: ObjectStatus| (found.device_id, found.stat.inode);
                if present.map(inode) == source.map(inode) {
                    return Ok(LinkOutcome::Right);
                }
                let stat = present.map(|present| present.stat);
                let is_older = || stat.is_some_and(|stat| group.is_newer_than(stat.mtime));
                let is_replaced = match self.presence.replace {
                    ReplaceRule::All => true,
                    ReplaceRule::IfNewer => is_older(),
                    ReplaceRule::No => false,
                };
                if !is_replaced {
                    // A separate copy has the stored content too.
                    let is_copy = stat.is_some_and(|stat| group.describes(&stat));
                    return Ok(if is_copy { LinkOutcome::Right } else { LinkOutcome::Kept });
                }
                // A link that the file system refuses does not cost the object that has the name.
                from.link_over(from_name, &to, to_name)?;
                return Ok(LinkOutcome::Made);
            }
        }
        from.link(from_name, &to, to_name)?;
        Ok(LinkOutcome::Made)
    }

    /// Opens the directory of the target that stands for `directory`, which must exist.
    fn open(&self, directory: &DirPath) -> io::Result<Arc<Dir>> {
        let mut dir = Arc::clone(&self.base);
        for part in components(self.below(directory)) {
            dir = Arc::new(dir.open_dir(part)?);
        }
        Ok(dir)
    }

    /// Returns the path of `directory` below the base.
    fn below<'d>(&self, directory: &'d DirPath) -> &'d [u8] {
        directory.as_bytes().strip_prefix(self.above.as_bytes()).unwrap_or_default()
    }
}

impl<'a> Destination for Maker<'a> {
    type File = File<'a>;

    fn take(&mut self, entry: Entry) -> Option<File<'a>> {
        if *entry.directory == DirPath::above_root() {
            // The root of a filespace is not made, because the target stands for it.
            return None;
        }
        if is_too_deep(&entry.directory) {
            let path = self.tree.node_path(entry.directory.as_bytes());
            self.tally.fail(path, "the directory is too deep to be restored");
            return None;
        }
        if entry.object.stat.kind == Kind::Directory {
            self.announce_parents();
            let Object { name, stat, attributes, .. } = entry.object;
            let state = DirState { stat, attributes, is_parent: false };
            self.tree.announce(entry.directory.child(&name), state);
            return None;
        }
        if matches!(self.part, RestorePart::Directories | RestorePart::NamedDirectories) {
            // The directory of a file that is left out need not be made.
            return None;
        }
        if has_data(&entry.object.stat) && !entry.has_whole_data() {
            let path = self.tree.node_path(&entry.directory.join(&entry.object.name));
            self.tally.fail(path, "the data of the file is lost or damaged at the server");
            return None;
        }
        self.take_object(entry)
    }

    fn write(&self, file: &File<'a>, chunk: &[u8], offset: u64) -> io::Result<()> {
        let mut open = file.open.lock();
        let new = match open.take() {
            Some(new) => new,
            None => create(&file.site, &file.object)?,
        };
        open.insert(new).write_at(chunk, offset)
    }

    fn complete(&self, file: &File<'a>) {
        let mut open = file.open.lock();
        let made = self.publish(file, &mut open);
        drop(open);
        self.conclude(file, made);
    }

    fn lose(&self, file: &File<'a>, reason: &str) {
        *file.open.lock() = None;
        self.conclude(file, Err(io::Error::other(reason.to_owned())));
    }
}

fn has_pieces(object: &Object) -> bool {
    match &object.payload {
        Payload::Extents(extents) => extents.iter().any(|extent| extent.chunks().is_some()),
        Payload::Nothing | Payload::Target(_) => false,
    }
}

/// Returns true if the data of a file ends before its size.
fn ends_in_hole(object: &Object) -> bool {
    match &object.payload {
        Payload::Extents(extents) => matches!(extents.last(), Some(Extent::Hole { .. })),
        Payload::Nothing | Payload::Target(_) => object.stat.size > 0,
    }
}

fn data_bytes(object: &Object) -> u64 {
    if object.stat.kind == Kind::File { object.stat.size } else { 0 }
}

fn create(site: &Site<'_>, object: &Object) -> io::Result<NewFile> {
    let mut new = NewFile::create_with_mode(&site.dir, object.name.as_bytes(), object.stat.mode)?;
    // Refusals are counted later, when the attributes are applied.
    let _refusals = new.prepare(&object.attributes);
    Ok(new)
}

/// Returns true if a file system refuses a link to an object, but may take a copy of it.
fn is_refused_link(error: &io::Error) -> bool {
    use io::ErrorKind::{CrossesDevices, PermissionDenied, TooManyLinks, Unsupported};
    matches!(error.kind(), CrossesDevices | PermissionDenied | TooManyLinks | Unsupported)
}

/// Removes the object that has the name, unless it is a directory with objects in it.
fn clear(dir: &Dir, name: &[u8]) -> io::Result<()> {
    let is_directory = matches!(dir.stat(name)?, Some(found) if found.stat.kind == Kind::Directory);
    dir.remove(name, is_directory)
}

/// Removes a directory that has the name of a file. Any other object is replaced when the file gets
/// its name.
fn clear_other(dir: &Dir, name: &[u8]) -> io::Result<()> {
    match dir.stat(name) {
        Ok(Some(found)) if found.stat.kind == Kind::Directory => dir.remove(name, true),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests;
