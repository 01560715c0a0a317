//! Making objects in the target.

use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use model::{DirPath, Kind, Object, Payload, Stat};
use sys::{Applied, Dir, NewFile, Part};

use super::links::{Group, Links, Spot, Turn};
use super::tree::{Site, State, Tree};
use super::window::Entry;
use super::{Destination, Place, Tally};
use crate::{ClientError, Replace, RestoreOptions, has_data, is_left_out};

/// Makes what was selected, below one place of the target.
pub(super) struct Maker<'a> {
    tree: Tree<'a>,
    base: Arc<Dir>,
    above: DirPath,
    /// The filespace's root is not made: it is what everything is put into.
    tally: &'a Tally,
    replace: Replace,
    left_out_from: Option<u64>,
    owner: bool,
    /// A name that waits to be linked keeps its directory from being finished.
    links: Links<Arc<Site<'a>>>,
}

/// A file that waits for its data.
pub(super) struct File<'a> {
    site: Arc<Site<'a>>,
    object: Object,
    path: Vec<u8>,
    group: Option<(Group, Spot)>,
    replaces: bool,
    /// `None` before the first chunk, and once it is finished or given up.
    open: Mutex<Option<NewFile>>,
}

/// What to do about an object of the name that is there already.
enum Present {
    Absent,
    Right,
    /// It differs and stays.
    Keep,
    Replace,
}

impl<'a> Maker<'a> {
    pub(super) fn new(
        place: &Place,
        options: &RestoreOptions,
        tally: &'a Tally,
    ) -> Result<Self, ClientError> {
        let above = match &place.name {
            Some(_) => place.directory.clone(),
            None => DirPath::root(),
        };
        let base = open_base(place, &above, options)?;
        let again = Arc::new(
            base.try_clone()
                .map_err(|error| ClientError::file("open", Path::new("the target"), &error))?,
        );
        let filespace = place.filespace.clone();
        let tree = Tree::new(base, above.clone(), filespace, tally, options.replace);
        let owner = tree.owner();
        let links = Links::default();
        let RestoreOptions { replace, left_out_from, .. } = *options;
        Ok(Self { tree, base: again, above, tally, replace, left_out_from, owner, links })
    }

    /// Finishes all directories.
    pub(super) fn finish(mut self) {
        self.tree.finish();
    }

    /// Looks at what is there under the object's name.
    fn present(&self, dir: &Dir, object: &Object) -> io::Result<Present> {
        let found = match dir.stat(object.name.as_bytes()) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Present::Absent),
            Err(error) => return Err(error),
            Ok(found) => found,
        };
        let stat = found.map(|found| found.stat);
        if let Some(stat) = &stat
            && self.is_right(dir, object, stat)
        {
            return Ok(Present::Right);
        }
        let is_newer = stat.is_some_and(|stat| stat.mtime < object.stat.mtime);
        Ok(match self.replace {
            Replace::All => Present::Replace,
            Replace::IfNewer if is_newer => Present::Replace,
            Replace::IfNewer | Replace::No => Present::Keep,
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

    fn take_object(&mut self, entry: Entry) -> Option<File<'a>> {
        let Entry { directory, object, .. } = entry;
        let path = self.tree.node_path(&directory.join(&object.name));
        let Some(site) = self.tree.site(&directory) else {
            self.tally.fail(path, "its directory could not be made");
            return None;
        };
        if is_left_out(&object.stat, self.left_out_from) {
            return None;
        }
        let spot = Spot { directory, name: object.name.clone() };
        let group = Group::of(&object.stat).map(|group| (group, spot.clone()));
        if let Some((group, spot)) = &group {
            match self.links.turn(*group, spot, &site) {
                Turn::Make => {}
                Turn::Wait => return None,
                Turn::Link(first) => {
                    self.link(&first, spot);
                    return None;
                }
                Turn::Fail => {
                    self.tally.fail(path, "the file that it is a link of could not be restored");
                    return None;
                }
            }
        }
        let present = match site.is_new {
            // Nothing is there but what this restore makes.
            true => Ok(Present::Absent),
            false => self.present(&site.dir, &object),
        };
        match present {
            Ok(Present::Absent) => self.begin(site, object, path, group, false),
            Ok(Present::Replace) => self.begin(site, object, path, group, true),
            Ok(present) => {
                self.tally.skipped(matches!(present, Present::Keep));
                self.settle(group, true);
                None
            }
            Err(error) => {
                self.tally.fail(path, error.to_string());
                self.settle(group, false);
                None
            }
        }
    }

    /// Makes what has no data; tells the file to fill for what has.
    fn begin(
        &self,
        site: Arc<Site<'a>>,
        object: Object,
        path: Vec<u8>,
        group: Option<(Group, Spot)>,
        replaces: bool,
    ) -> Option<File<'a>> {
        let open = Mutex::new(None);
        let file = File { site, object, path, group, replaces, open };
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
        let applied = dir.apply_to_name(name, stat, &object.attributes, self.owner)?;
        note_refusals(self.tally, &file.path, &applied, self.owner);
        Ok(())
    }

    /// Gives a file whose content is whole its attributes and its name.
    fn publish(&self, file: &File<'_>, open: &mut Option<NewFile>) -> io::Result<()> {
        let File { site, object, .. } = file;
        let mut new = match open.take() {
            Some(new) => new,
            None => create(site, object)?,
        };
        if ends_in_hole(object) {
            new.set_len(object.stat.size)?;
        }
        let applied = new.apply(&object.stat, &object.attributes, self.owner);
        note_refusals(self.tally, &file.path, &applied, self.owner);
        if file.replaces {
            clear_other(&site.dir, object.name.as_bytes())?;
        }
        let applied = new.publish(file.replaces)?;
        note_refusals(self.tally, &file.path, &applied, self.owner);
        Ok(())
    }

    fn conclude(&self, file: &File<'_>, made: io::Result<()>) {
        let is_made = made.is_ok();
        match made {
            Ok(()) => self.tally.restored(data_bytes(&file.object)),
            // Somebody else made it meanwhile: as good, if it is the same.
            Err(error)
                if error.kind() == io::ErrorKind::AlreadyExists
                    && matches!(self.present(&file.site.dir, &file.object), Ok(Present::Right)) =>
            {
                self.tally.skipped(false);
                return self.settle(file.group.clone(), true);
            }
            Err(error) => self.tally.fail(file.path.clone(), error.to_string()),
        }
        self.settle(file.group.clone(), is_made);
    }

    /// Tells those who wait for the first name of a group.
    fn settle(&self, group: Option<(Group, Spot)>, is_made: bool) {
        let Some((group, first)) = group else { return };
        let waiting = self.links.settle(group, is_made.then(|| first.clone()));
        for (spot, _site) in waiting {
            if is_made {
                self.link(&first, &spot);
            } else {
                let path = self.tree.node_path(&spot.directory.join(&spot.name));
                self.tally.fail(path, "the file that it is a link of could not be restored");
            }
        }
    }

    fn link(&self, first: &Spot, second: &Spot) {
        match self.try_link(first, second) {
            Ok(true) => self.tally.restored(0),
            Ok(false) => self.tally.skipped(false),
            Err(error) => {
                let path = self.tree.node_path(&second.directory.join(&second.name));
                self.tally.fail(path, error.to_string());
            }
        }
    }

    /// Links `second` to `first`; `false` when it was linked already or something else stays there.
    fn try_link(&self, first: &Spot, second: &Spot) -> io::Result<bool> {
        let from = self.open(&first.directory)?;
        let to = self.open(&second.directory)?;
        let (from_name, to_name) = (first.name.as_bytes(), second.name.as_bytes());
        match to.stat(to_name) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
            Ok(present) => {
                let source = from.stat(from_name)?;
                let inode = |found: Option<sys::Found>| found.map(|found| found.stat.inode);
                if inode(present) == inode(source) || self.replace == Replace::No {
                    return Ok(false);
                }
                clear(&to, to_name)?;
            }
        }
        from.link(from_name, &to, to_name)?;
        Ok(true)
    }

    /// The directory of the target that stands for `directory`, which has been made.
    fn open(&self, directory: &DirPath) -> io::Result<Arc<Dir>> {
        let rest = directory.as_bytes().strip_prefix(self.above.as_bytes()).unwrap_or_default();
        let mut dir = Arc::clone(&self.base);
        for part in rest.split(|&byte| byte == b'/').filter(|part| !part.is_empty()) {
            dir = Arc::new(dir.open_dir(part)?);
        }
        Ok(dir)
    }
}

impl<'a> Destination for Maker<'a> {
    type File = File<'a>;

    fn take(&mut self, entry: Entry) -> Option<File<'a>> {
        if entry.directory == DirPath::above_root() {
            return None;
        }
        if entry.object.stat.kind == Kind::Directory {
            let Object { name, stat, attributes, .. } = entry.object;
            self.tree.announce(entry.directory.child(&name), State { stat, attributes });
            return None;
        }
        if has_data(entry.object.stat.kind, entry.object.stat.size) && entry.extents().is_none() {
            let path = self.tree.node_path(&entry.directory.join(&entry.object.name));
            self.tally.fail(path, "its data is lost or damaged at the server");
            return None;
        }
        self.take_object(entry)
    }

    fn write(&self, file: &File<'a>, chunk: &[u8], offset: u64) -> Result<(), String> {
        let mut open = file.open.lock().unwrap_or_else(PoisonError::into_inner);
        let written = (|| {
            if open.is_none() {
                *open = Some(create(&file.site, &file.object)?);
            }
            open.as_ref().expect("made just above").write_at(chunk, offset)
        })();
        written.map_err(|error: io::Error| error.to_string())
    }

    fn complete(&self, file: &File<'a>) {
        let mut open = file.open.lock().unwrap_or_else(PoisonError::into_inner);
        let made = self.publish(file, &mut open);
        drop(open);
        self.conclude(file, made);
    }

    fn lose(&self, file: &File<'a>, reason: &str) {
        *file.open.lock().unwrap_or_else(PoisonError::into_inner) = None;
        self.conclude(file, Err(io::Error::other(reason.to_owned())));
    }
}

fn has_pieces(object: &Object) -> bool {
    match &object.payload {
        Payload::Extents(extents) => extents.iter().any(|extent| extent.chunks().is_some()),
        Payload::Nothing | Payload::Target(_) => false,
    }
}

/// Whether writing its data does not give a file its size.
fn ends_in_hole(object: &Object) -> bool {
    match &object.payload {
        Payload::Extents(extents) => matches!(extents.last(), Some(model::Extent::Hole { .. })),
        Payload::Nothing | Payload::Target(_) => object.stat.size > 0,
    }
}

fn data_bytes(object: &Object) -> u64 {
    if object.stat.kind == Kind::File { object.stat.size } else { 0 }
}

fn create(site: &Site<'_>, object: &Object) -> io::Result<NewFile> {
    let mut new = NewFile::create(&site.dir, object.name.as_bytes())?;
    // Refusals show again, and are counted, when the attributes are applied.
    let _refusals = new.prepare(&object.attributes);
    Ok(new)
}

/// Removes what is in the way, if it is no directory with something in it.
fn clear(dir: &Dir, name: &[u8]) -> io::Result<()> {
    let is_directory = matches!(dir.stat(name)?, Some(found) if found.stat.kind == Kind::Directory);
    dir.remove(name, is_directory)
}

/// Removes a directory that is in the way of a file; anything else is replaced when the file gets
/// its name.
fn clear_other(dir: &Dir, name: &[u8]) -> io::Result<()> {
    match dir.stat(name) {
        Ok(Some(found)) if found.stat.kind == Kind::Directory => dir.remove(name, true),
        _ => Ok(()),
    }
}

/// Whether an object looks as it was stored. Sizes of directories are the file system's business.
pub(super) fn same_stat(found: &Stat, stored: &Stat, owner: bool) -> bool {
    found.kind == stored.kind
        && (stored.kind != Kind::File || found.size == stored.size)
        && found.mtime == stored.mtime
        && (stored.kind == Kind::Symlink || found.mode == stored.mode)
        && (!owner || (found.uid == stored.uid && found.gid == stored.gid))
        && found.device == stored.device
}

/// Counts what could not be set: a failure for root; for others, what only root may do is left out.
pub(super) fn note_refusals(tally: &Tally, path: &[u8], applied: &Applied, owner: bool) {
    for refusal in &applied.refused {
        let is_for_root = match &refusal.part {
            Part::Owner | Part::Mode | Part::Flags => true,
            Part::Xattr(name) => !name.starts_with(b"user.") && !name.starts_with(b"system."),
            Part::Times => false,
        };
        if !owner && is_for_root && refusal.error.kind() == io::ErrorKind::PermissionDenied {
            continue;
        }
        tally.fail(path.to_vec(), format!("{:?} not set: {}", refusal.part, refusal.error));
    }
}

fn open_base(place: &Place, above: &DirPath, options: &RestoreOptions) -> Result<Dir, ClientError> {
    use std::os::unix::ffi::OsStrExt as _;
    let path = match &options.to {
        Some(to) => to.clone(),
        None => crate::backup::absolute(&place.filespace, above.as_bytes()),
    };
    let shown = Path::new(std::ffi::OsStr::from_bytes(&path));
    let opened = match Dir::open(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => std::fs::create_dir_all(shown)
            .and_then(|()| Dir::open(&path))
            .map_err(|error| ClientError::file("make", shown, &error)),
        other => other.map_err(|error| ClientError::file("open", shown, &error)),
    }?;
    opened
        .check_writable()
        .map_err(|error| ClientError::file("write to", shown, &error))?;
    Ok(opened)
}
