//! The examination of a server after a power cut.

use std::ffi::OsStr;
use std::fs;
use std::path::Path;

use e2e::harness::{Outcome, Server};
use e2e::manifest::{Manifest, assert_one_of, assert_same};
use e2e::nasty::Random;
use e2e::power::{Cut, Disk, Loss, Position, Replay};

use super::Site;
use super::workload::{Actor, Archive, History};
use crate::fleet::audit_data;
use crate::recovery::destroy_catalog;
use crate::scene::manifest;

/// Further trouble for a server after a power cut.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Trial {
    /// No trouble: the server starts.
    Start,
    /// The power is cut again while the file system and the server recover.
    SecondCut,
    /// The catalogue is lost after the start, and made again from its copy and the packs.
    LostCatalog,
}

impl Trial {
    pub(super) fn of(number: usize) -> Self {
        match number % 5 {
            1 | 3 => Self::SecondCut,
            4 => Self::LostCatalog,
            _ => Self::Start,
        }
    }
}

pub(super) struct Examination<'a> {
    pub(super) site: &'a Site,
    pub(super) history: &'a History,
}

impl Examination<'_> {
    /// Examines the image of a disk after a power cut at `cut`. Panics if something is wrong.
    pub(super) fn run(&self, image: &Path, cut: Position, trial: Trial, random: &mut Random) {
        for actor in &self.history.actors {
            actor.return_to(cut, random.below(2) == 0);
        }
        let second = self.site.scratch.join("second");
        match trial {
            Trial::SecondCut => {
                self.cut_again(image, &second, random);
                self.examine(&second, cut, trial);
            }
            Trial::Start | Trial::LostCatalog => self.examine(image, cut, trial),
        }
    }

    /// Lets the server recover on the disk of `image`, and cuts the power at some moment of that.
    fn cut_again(&self, image: &Path, target: &Path, random: &mut Random) {
        let file = self.site.scratch.join("recovering");
        // The file is of the previous examination.
        drop(fs::remove_file(&file));
        let disk = Disk::attach(image, &file).expect("a disk of FUSE");
        let mounted = self.site.mount(disk.file()).expect("the file system recovers");
        let mut server = self.start();
        server.terminate().expect(&[0]);
        assert!(mounted.unmount(), "nothing uses the file system");
        drop(mounted);
        let log = disk.detach();
        let entries = u32::try_from(log.end().0).expect("a log is short");
        let moment = Position(random.below(entries + 1) as usize);
        let loss = Loss::ALL[random.below(6) as usize];
        let cut = Cut::choose(&log, moment, loss, random);
        let mut replay = Replay::begin(&log, image).expect("the image before the recovery");
        replay.after(&cut, target).expect("room for an image");
    }

    fn start(&self) -> Server {
        Server::start_at(&self.site.server(), self.history.port)
    }

    fn examine(&self, image: &Path, cut: Position, trial: Trial) {
        let mounted = self.site.mount(image).expect("the file system recovers");
        let mut server = self.start();
        self.compare(cut, cut);
        audit_data(&server);
        if trial == Trial::LostCatalog
            && let Some(copied) = self.history.copied_before(cut)
        {
            server.kill9();
            let dir = self.site.server();
            destroy_catalog(&dir);
            let words = [OsStr::new("rebuild-catalog"), dir.as_os_str()];
            Server::command(&words).expect(&[0]);
            server = self.start();
            self.compare(copied, cut);
            audit_data(&server);
        }
        for actor in &self.history.actors {
            actor.node.backup(&actor.tree, &[]).expect(&[0]).counts(&[("failed", 0)]);
            assert_same(&manifest(&actor.tree), &self.restored(actor));
        }
        server.terminate().expect(&[0]);
        assert!(mounted.unmount(), "nothing uses the file system");
    }

    /// Restores what was acknowledged before `since`, and compares it. Something later may have
    /// reached the server before the cut.
    fn compare(&self, since: Position, cut: Position) {
        for actor in self.history.actors.iter().filter(|actor| actor.is_stored(since)) {
            let states = actor.states(since, cut);
            let manifests: Vec<_> = states.iter().map(|state| &state.manifest).collect();
            assert_one_of(&manifests, &self.restored(actor));
        }
        let archives: Vec<_> = self.history.archives_before(since).collect();
        if let Some(last) = archives.last() {
            self.compare_archive(archives[0]);
            self.compare_archive(last);
        }
    }

    fn restored(&self, actor: &Actor) -> Manifest {
        self.bring_back(actor, |out| actor.node.restore(&actor.tree, out, &[]))
    }

    fn compare_archive(&self, archive: &Archive) {
        let anna = &self.history.actors[0];
        let number = archive.number.to_string();
        let tree = anna.tree.to_str().unwrap();
        let retrieved = self.bring_back(anna, |out| {
            let to = out.to_str().unwrap();
            anna.node.run(&["retrieve", tree, "--to", to, "--archive", &number, "--json"])
        });
        assert_same(&archive.manifest, &retrieved);
    }

    /// Calls `command`, which restores or retrieves a tree into a folder. Returns its manifest.
    fn bring_back(&self, actor: &Actor, command: impl FnOnce(&Path) -> Outcome) -> Manifest {
        let out = self.site.scratch.join("out");
        // The folder is left over from an examination that has failed.
        drop(fs::remove_dir_all(&out));
        fs::create_dir(&out).unwrap();
        command(&out).expect(&[0]).counts(&[("failed", 0)]);
        let found = manifest(&out.join(actor.tree.file_name().unwrap()));
        fs::remove_dir_all(&out).unwrap();
        found
    }
}
