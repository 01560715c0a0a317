//! The measurements, in their order. See the drawing in `scale.rs`.

use std::ffi::OsStr;
use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use e2e::clock;

use super::fill::fill;
use super::image::{self, Image};
use super::options::{Options, Tree};
use crate::machine::{self, Machine};
use crate::output;
use crate::process::{self, Runner, Server};
use crate::relay::{Link, Relay, Traffic};
use crate::site::{Sample, Site, StoredSizes};
use crate::trouble::{Context as _, Trouble};
use crate::walk::{self, Tally};
use crate::workplace::Workplace;

/// Maximum number of bytes that an object takes in the folders of the server and of the node.
const SERVER_BYTES_PER_OBJECT: u64 = 200;
/// Number of bytes that server and node take without objects.
const SERVER_BYTES: u64 = 1 << 30;

/// Number of names from which the middle name is chosen. It is small, because the kernel counts the
/// peak memory of the bench in the peaks of the programs that the bench starts later.
const NAMES_LISTED: usize = 10_000;

/// The figures of one backup.
#[derive(Clone, Debug)]
pub(crate) struct Backup {
    pub(crate) sample: Sample,
    pub(crate) traffic: Traffic,
    /// Number of bytes that the server wrote to its files, as the kernel counts them.
    pub(crate) server_written_bytes: u64,
}

impl Backup {
    pub(crate) fn count(&self, key: &str) -> u64 {
        self.sample.report[key].as_u64().unwrap_or(0)
    }
}

/// The results of the bench: measurements of all trees, and measurements that only one kind of tree
/// has.
#[derive(Debug)]
pub(crate) struct Results {
    pub(crate) machine: Machine,
    pub(crate) program: PathBuf,
    pub(crate) load_before: String,
    pub(crate) load_after: String,
    pub(crate) tally: Tally,
    pub(crate) is_cold: bool,
    /// Time in which the tree was made; `None` if the image existed before.
    pub(crate) filled: Option<Duration>,
    pub(crate) first: Backup,
    pub(crate) stored: StoredSizes,
    /// Incremental backup with nothing changed since the first backup.
    pub(crate) incremental: Backup,
    pub(crate) supplement: Supplement,
    /// Time since the start of the bench.
    pub(crate) wall: Duration,
}

/// Measurements that only one kind of tree has.
#[derive(Debug)]
pub(crate) enum Supplement {
    /// Times of the bare walks before and after the incremental.
    Walks { before: Duration, after: Duration },
    /// Incrementals after single changes, each with a name for the change.
    Changes(Vec<(&'static str, Backup)>),
}

/// The measurements after the first backup.
struct Incrementals {
    tally: Tally,
    unchanged: Backup,
    supplement: Supplement,
}

pub(crate) fn measure(options: &Options) -> Result<Results, Trouble> {
    let begin = clock::now();
    let load_before = machine::load();
    let program = process::find_program()?;
    check_room(options)?;
    let (image, filled) = open_image(options)?;
    let tree = image.tree();
    let workplace = Workplace::below(&options.work, tree)?;
    let runner = Runner::new(program.clone(), workplace.folder("outputs")?);
    let place = Place {
        site: Site::new(&runner, workplace.folder("site")?),
        tree,
        is_cold: options.is_cold,
    };
    let (relay, server) = place.enrolled()?;
    output::progress("first backup");
    let first = place.back_up(&server, &relay)?;
    server.stop()?;
    let stored = place.site.stored()?;
    // The server is started again, so that its peak memory comes from the incrementals only.
    let server = place.site.serve()?;
    let Incrementals { tally, unchanged, supplement } = match options.tree {
        Tree::Many(_) => place.between_walks(&server, &relay)?,
        Tree::OneDirectory(_) => place.changes(&server, &relay)?,
    };
    server.stop()?;
    Ok(Results {
        machine: Machine::read(),
        program,
        load_before,
        load_after: machine::load(),
        tally,
        is_cold: options.is_cold,
        filled,
        first,
        stored,
        incremental: unchanged,
        supplement,
        wall: begin.elapsed(),
    })
}

/// Fails if the files of the bench do not fit on the disk.
fn check_room(options: &Options) -> Result<(), Trouble> {
    let plan = options.plan();
    let mut needed = SERVER_BYTES + plan.objects() * SERVER_BYTES_PER_OBJECT;
    if !options.image.is_file() {
        needed += image::disk_bytes(plan);
    }
    let folders = [&options.work, options.image.parent().unwrap_or(Path::new("/"))];
    for folder in folders {
        let what = || format!("find the free space of {}", folder.display());
        let free = sys::durable::free_bytes(folder).while_doing(what)?;
        if free < needed {
            let (needed, free) = (needed >> 20, free >> 20);
            let folder = folder.display();
            return Err(Trouble::new(format!(
                "the bench needs {needed} MiB, but {folder} has only {free} MiB free: \
                 use fewer --objects, or another --work folder"
            )));
        }
    }
    Ok(())
}

/// Mounts the image. If it does not exist, makes it with its tree, and returns the time that making
/// the tree took.
fn open_image(options: &Options) -> Result<(Image, Option<Duration>), Trouble> {
    let path = &options.image;
    if path.is_file() {
        output::progress(&format!("using the tree in {}", path.display()));
        return Ok((Image::mount(path.clone(), &options.work, true)?, None));
    }
    let plan = options.plan();
    let part = path.with_added_extension("part");
    let objects = output::counted(plan.objects(), "object");
    output::progress(&format!("making {objects} in {}", path.display()));
    let formatted = image::format(&part, plan);
    if formatted.is_err() {
        drop(std::fs::remove_file(&part));
    }
    formatted?;
    // Until its tree is complete, dropping the image removes it.
    let mut image = Image::mount(part, &options.work, false)?;
    let (filled, wall) = clock::timed(|| {
        let filled = fill(image.tree(), plan);
        rustix::fs::sync();
        filled
    });
    filled?;
    image.finish(path.clone(), options.keeps)?;
    output::progress(&format!("the tree was made in {:.1} s", wall.as_secs_f64()));
    Ok((image, Some(wall)))
}

/// The node, the server and the tree of the measurement.
struct Place<'a> {
    site: Site<'a>,
    tree: &'a Path,
    is_cold: bool,
}

impl Place<'_> {
    /// Makes and starts a server, and enrols a node that reaches the server through a relay.
    fn enrolled(&self) -> Result<(Relay, Server), Trouble> {
        let (server, address) = self.site.started()?;
        let relay = Relay::start(&address, Link::BARE)?;
        self.site.enrol(&relay.address())?;
        Ok((relay, server))
    }

    /// Backs up the tree. Fails unless the backup is complete, because the figures of a part would
    /// be too good.
    fn back_up(&self, server: &Server, relay: &Relay) -> Result<Backup, Trouble> {
        self.cool_down()?;
        let traffic_before = relay.traffic();
        let written_before = machine::written_by(server.pid())?;
        let words: [&OsStr; 2] = ["backup".as_ref(), self.tree.as_os_str()];
        let sample = self.site.measured(server, &words)?;
        if sample.exit_code != 0 {
            let (code, failed) = (sample.exit_code, output::counted(sample.failed, "object"));
            return Err(Trouble::new(format!(
                "the backup ended with exit code {code}: {failed} failed"
            )));
        }
        let written = machine::written_by(server.pid())?;
        Ok(Backup {
            sample,
            traffic: relay.traffic().since(traffic_before),
            server_written_bytes: written.saturating_sub(written_before),
        })
    }

    fn between_walks(&self, server: &Server, relay: &Relay) -> Result<Incrementals, Trouble> {
        let (tally, before) = self.walk()?;
        output::progress("incremental, nothing changed");
        let unchanged = self.back_up(server, relay)?;
        let (_, after) = self.walk()?;
        Ok(Incrementals { tally, unchanged, supplement: Supplement::Walks { before, after } })
    }

    fn walk(&self) -> Result<(Tally, Duration), Trouble> {
        self.cool_down()?;
        process::check_interrupted()?;
        output::progress("bare walk");
        let (tally, wall) = clock::timed(|| walk::walk(self.tree));
        Ok((tally?, wall))
    }

    fn changes(&self, server: &Server, relay: &Relay) -> Result<Incrementals, Trouble> {
        let (tally, _) = self.walk()?;
        output::progress("incremental, nothing changed");
        let unchanged = self.back_up(server, relay)?;
        // The file is in the middle, so that a faulty client could send pages before and after it.
        let file = self.middle_file()?;
        let added = self.tree.join("added.txt");
        let what = || format!("change {}", file.display());
        let mut changes = Vec::new();
        File::options()
            .append(true)
            .open(&file)
            .and_then(|mut file| file.write_all(b"."))
            .while_doing(what)?;
        changes.push(("one file written", self.back_up_change("written", server, relay)?));
        File::create_new(&added).while_doing(what)?;
        changes.push(("one file added", self.back_up_change("added", server, relay)?));
        std::fs::remove_file(&added).while_doing(what)?;
        changes.push(("one file removed", self.back_up_change("removed", server, relay)?));
        Ok(Incrementals { tally, unchanged, supplement: Supplement::Changes(changes) })
    }

    fn back_up_change(
        &self,
        what: &str,
        server: &Server,
        relay: &Relay,
    ) -> Result<Backup, Trouble> {
        output::progress(&format!("incremental, one file {what}"));
        self.back_up(server, relay)
    }

    /// Returns a file whose name is in the middle of the names of the top directory. It is chosen
    /// from the first listed names. They are a sample, because ext4 lists names in the order of
    /// their hashes.
    fn middle_file(&self) -> Result<PathBuf, Trouble> {
        let what = || format!("list {}", self.tree.display());
        let entries = std::fs::read_dir(self.tree).while_doing(what)?;
        let mut names = Vec::new();
        for entry in entries.take(NAMES_LISTED) {
            names.push(entry.while_doing(what)?.file_name());
        }
        let middle = names.len() / 2;
        if names.is_empty() {
            return Err(Trouble::new(format!("{} is empty", self.tree.display())));
        }
        let (_, name, _) = names.select_nth_unstable(middle);
        Ok(self.tree.join(name))
    }

    /// Drops the caches of the kernel if `--cold` was given.
    fn cool_down(&self) -> Result<(), Trouble> {
        if self.is_cold { machine::drop_caches() } else { Ok(()) }
    }
}
