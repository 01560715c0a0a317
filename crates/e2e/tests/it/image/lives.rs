//! How long images and their parts live: policy keeps images, and an image keeps its parts.

use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::{fs, io, slice};

use client::{
    Client, ErrorKind, ImageDescription, ImageOptions, ImageReport, ImageSource, ImageStillness,
    Progress,
};

use super::{back_up, image, noise, restore};
use crate::scene::Scene;

/// Length of a part of an image of a small disk.
const PART: usize = 64 << 20;

/// Disk whose backup the user interrupts when its parts are committed and its head is not.
struct InterruptedDisk {
    content: File,
    used: Range<u64>,
    progress: Arc<Progress>,
    descriptions: AtomicU32,
}

impl ImageSource for InterruptedDisk {
    fn bytes(&self) -> u64 {
        self.used.end
    }

    fn used(&self) -> &[Range<u64>] {
        slice::from_ref(&self.used)
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        self.content.read_exact_at(buffer, offset)
    }

    /// The source is described before its parts are committed, and again before the head is.
    fn describe(&self) -> io::Result<ImageDescription> {
        if self.descriptions.fetch_add(1, Ordering::Relaxed) == 1 {
            self.progress.stop();
        }
        Ok(ImageDescription {
            stillness: ImageStillness::Unchanged,
            leaves_out_unused: false,
            kind: "file".to_owned(),
            holds: None,
            host: "host".to_owned(),
            snapshot: None,
        })
    }
}

/// Disk of which nobody has written anything, as its dirty bitmap says.
struct IdleDisk {
    content: Vec<u8>,
    used: Range<u64>,
    /// True if the first block cannot be read.
    has_bad_block: bool,
    stillness: ImageStillness,
    /// Snapshot that the disk is, and the one since which nothing was written.
    snapshot: Option<&'static str>,
    since: Option<&'static str>,
}

impl ImageSource for IdleDisk {
    fn bytes(&self) -> u64 {
        self.used.end
    }

    fn used(&self) -> &[Range<u64>] {
        slice::from_ref(&self.used)
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        if self.has_bad_block && offset == 0 {
            return Err(io::Error::other("a bad block"));
        }
        let start = usize::try_from(offset).unwrap();
        buffer.copy_from_slice(&self.content[start..start + buffer.len()]);
        Ok(())
    }

    fn is_unchanged(&self, _: &Range<u64>) -> bool {
        true
    }

    fn changed_since(&self) -> Option<&str> {
        self.since
    }

    fn describe(&self) -> io::Result<ImageDescription> {
        Ok(ImageDescription {
            stillness: self.stillness,
            leaves_out_unused: false,
            kind: "NBD export".to_owned(),
            holds: None,
            host: "host".to_owned(),
            snapshot: self.snapshot.map(str::to_owned),
        })
    }
}

/// Disk whose first block can be read only once.
struct FadingDisk {
    disk: IdleDisk,
    has_faded: AtomicBool,
}

impl ImageSource for FadingDisk {
    fn bytes(&self) -> u64 {
        self.disk.bytes()
    }

    fn used(&self) -> &[Range<u64>] {
        self.disk.used()
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        if offset == 0 && self.has_faded.swap(true, Ordering::Relaxed) {
            return Err(io::Error::other("a bad block"));
        }
        self.disk.read_at(buffer, offset)
    }

    fn describe(&self) -> io::Result<ImageDescription> {
        self.disk.describe()
    }
}

/// Makes an image of `disk` and interrupts it between the parts and the head.
fn interrupt(scene: &Scene, disk: &Path) {
    let before = taken(scene, disk).len();
    interrupt_as(scene, disk, disk.to_str().unwrap().as_bytes());
    assert_eq!(taken(scene, disk).len(), before, "an interrupted backup leaves no image");
}

/// Interrupts the backup of the image `name` of `disk` between the parts and the head.
fn interrupt_as(scene: &Scene, disk: &Path, name: &[u8]) {
    let content = File::open(disk).unwrap();
    let used = 0..content.metadata().unwrap().len();
    let progress = Arc::new(Progress::default());
    let source = InterruptedDisk {
        content,
        used,
        progress: Arc::clone(&progress),
        descriptions: AtomicU32::new(0),
    };
    let options = ImageOptions { name: name.to_vec(), ..ImageOptions::default() };
    let client = Client::open(scene.node.home()).unwrap();
    let error = client.back_up_image(&options, &source, &progress).map(drop).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Interrupted, "{error}");
}

/// Writes a disk of two parts whose first blocks are the noise of `seeds`.
fn write_disk(scene: &Scene, name: &str, seeds: [u64; 2]) -> PathBuf {
    let disk = scene.scratch.join(name);
    let file = File::create(&disk).unwrap();
    file.set_len(2 * PART as u64).unwrap();
    for (part, seed) in (0..).zip(seeds) {
        file.write_all_at(&noise(seed, 1 << 20), part * PART as u64).unwrap();
    }
    disk
}

fn taken(scene: &Scene, disk: &Path) -> Vec<String> {
    let images = image(scene, &["list"], disk).expect(&[0]).json_lines();
    images.iter().map(|image| image["taken"].as_str().unwrap().to_owned()).collect()
}

/// Restores the image of `disk` that was taken at `at`, and returns its content.
fn content(scene: &Scene, disk: &Path, at: &str) -> Vec<u8> {
    let out = scene.scratch.join("restored");
    restore(scene, disk, &out, &["--at", at, "--confirm"]).expect(&[0]);
    fs::read(&out).unwrap()
}

fn keep(scene: &Scene, words: &[&str]) {
    scene.server.admin(&[&["policy", "class", "STANDARD"], words].concat());
    scene.server.admin(&["policy", "activate", "--confirm"]);
}

fn pool_bytes(scene: &Scene) -> u64 {
    let pools = scene.server.try_admin(&["pool", "list"]).expect(&[0]).json_lines();
    pools.iter().map(|pool| pool["bytes"].as_u64().unwrap()).sum()
}

/// The versions that interrupted backups had left pushed the parts of listed images over the limit.
#[test]
fn interrupted_backups_cost_no_image_its_parts() {
    for limit in ["1", "2"] {
        let scene = Scene::new();
        keep(&scene, &["--verexists", limit, "--retextra", "NOLIMIT"]);
        let mut contents = Vec::new();
        for seed in [10, 20] {
            let disk = write_disk(&scene, "disk", [seed, seed + 1]);
            contents.insert(0, fs::read(&disk).unwrap());
            back_up(&scene, &disk);
            for interruption in 0..2 {
                interrupt(&scene, &write_disk(&scene, "disk", [100 + seed + interruption; 2]));
                scene.server.admin(&["expire"]);
            }
        }
        let disk = scene.scratch.join("disk");
        let images = taken(&scene, &disk);
        assert_eq!(images.len().to_string(), limit);
        for (at, expected) in images.iter().zip(&contents) {
            assert!(content(&scene, &disk, at) == *expected, "{at}");
        }
    }
}

#[test]
fn parts_of_dropped_images_go_and_their_space_is_free() {
    let mut scene = Scene::new();
    keep(&scene, &["--verexists", "3", "--retextra", "NOLIMIT"]);
    // The second part changes once only, so three of its versions outlive many images.
    for seed in 0..6 {
        let disk = write_disk(&scene, "disk", [10 + seed, seed / 2 + 1]);
        back_up(&scene, &disk);
    }
    let disk = scene.scratch.join("disk");
    let before = pool_bytes(&scene);
    let expected = fs::read(&disk).unwrap();
    keep(&scene, &["--verexists", "1"]);
    let dry = scene.server.admin(&["expire", "--dry-run"]);
    let done = scene.server.admin(&["expire"]);
    // Five heads, five versions of the first part, two of the second.
    assert_eq!((&dry["expired"], &done["expired"]), (&12.into(), &12.into()), "{done}");
    // An open pack is not reclaimed.
    scene.server.restart();
    scene.server.admin(&["reclaim"]);
    let images = taken(&scene, &disk);
    assert_eq!(images.len(), 1);
    assert!(content(&scene, &disk, &images[0]) == expected);
    let after = pool_bytes(&scene);
    assert!(after + (6 << 20) < before, "{before} {after}");
}

fn delete(scene: &Scene, disk: &Path, words: &[&str]) -> e2e::harness::Outcome {
    image(scene, &[&["delete"], words].concat(), disk)
}

#[test]
fn a_deleted_image_comes_back_or_its_space_is_free() {
    let mut scene = Scene::new();
    let contents = [10, 20].map(|seed| {
        let disk = write_disk(&scene, "disk", [seed, 1]);
        back_up(&scene, &disk);
        fs::read(&disk).unwrap()
    });
    let disk = scene.scratch.join("disk");
    let images = taken(&scene, &disk);
    delete(&scene, &disk, &[]).expect(&[12]).says("--backdelete yes");
    scene.server.admin(&["node", "set", "anna", "--backdelete", "yes"]);
    delete(&scene, &disk, &[]).expect(&[12]).says("1 image of").says("--confirm");
    delete(&scene, &disk, &["--all"]).expect(&[12]).says("2 images of");
    delete(&scene, &disk, &["--at", "2020-01-01"]).expect(&[12]).says("so old");
    assert_eq!(taken(&scene, &disk), images, "nothing was confirmed");
    // The newest one goes and comes back, whatever expires meanwhile.
    let deletion = delete(&scene, &disk, &["--confirm"]).expect(&[0]).json();
    assert_eq!((&deletion["versions"], taken(&scene, &disk)), (&1.into(), images[1..].to_vec()));
    scene.server.admin(&["expire"]);
    assert!(content(&scene, &disk, &images[1]) == contents[0]);
    let number = deletion["deletion"].to_string();
    scene.node.run(&["undelete", &number, "--json"]).expect(&[0]);
    for (at, expected) in images.iter().zip([&contents[1], &contents[0]]) {
        assert!(content(&scene, &disk, at) == *expected, "{at}");
    }
    // The parts of a deleted image are not taken for those of the disk.
    delete(&scene, &disk, &["--confirm"]).expect(&[0]);
    back_up(&scene, &disk);
    assert!(content(&scene, &disk, &taken(&scene, &disk)[0]) == contents[1]);
    let images = taken(&scene, &disk);
    // One image keeps what it shared with the other, and the next image of the disk is whole.
    delete(&scene, &disk, &["--at", &images[1], "--confirm"]).expect(&[0]);
    scene.server.travel("9d");
    for _ in 0..2 {
        scene.server.admin(&["expire"]);
    }
    assert!(content(&scene, &disk, &images[0]) == contents[1]);
    back_up(&scene, &disk);
    assert!(content(&scene, &disk, &taken(&scene, &disk)[0]) == contents[1]);
    delete(&scene, &disk, &["--all", "--confirm"])
        .expect(&[0])
        .counts(&[("versions", 2)]);
    image(&scene, &["list"], &disk).expect(&[12]);
    scene.server.travel("18d");
    for _ in 0..2 {
        scene.server.admin(&["expire"]);
    }
    scene.server.admin(&["reclaim"]);
    assert!(pool_bytes(&scene) < 1 << 20, "{}", pool_bytes(&scene));
}

/// Runs the server again, with its clock ahead by `days`.
fn set_clock(scene: &mut Scene, days: i64) {
    let environment = e2e::harness::clock_ahead(scene.scratch.path(), days);
    scene.server.set_environment(&environment.each_ref().map(String::as_str));
    scene.server.restart();
}

/// The parts of the second image began before those of the first, so each had parts of the other.
#[test]
fn images_have_their_own_parts_after_the_clock_was_set_back() {
    let mut scene = Scene::new();
    set_clock(&mut scene, 1);
    let disk = write_disk(&scene, "disk", [10, 1]);
    back_up(&scene, &disk);
    let first = fs::read(&disk).unwrap();
    set_clock(&mut scene, 0);
    write_disk(&scene, "disk", [20, 1]);
    back_up(&scene, &disk);
    let second = fs::read(&disk).unwrap();
    let check = |expected: &[&Vec<u8>]| {
        let images = taken(&scene, &disk);
        assert_eq!(images.len(), expected.len());
        for (at, expected) in images.iter().zip(expected) {
            assert!(content(&scene, &disk, at) == **expected, "{at}");
        }
    };
    check(&[&second, &first]);
    // A deletion ends parts no earlier than the images that stay.
    scene.server.admin(&["node", "set", "anna", "--backdelete", "yes"]);
    delete(&scene, &disk, &["--confirm"]).expect(&[0]);
    check(&[&first]);
}

/// Makes an image called `vm` of a disk of which nobody has written anything.
fn back_up_idle(scene: &Scene, content: &[u8], has_bad_block: bool) -> ImageReport {
    back_up_disk(scene, &IdleDisk { has_bad_block, ..idle(content) })
}

fn idle(content: &[u8]) -> IdleDisk {
    IdleDisk {
        content: content.to_vec(),
        used: 0..content.len() as u64,
        has_bad_block: false,
        stillness: ImageStillness::Unchanged,
        snapshot: None,
        since: None,
    }
}

fn back_up_disk(scene: &Scene, disk: &dyn ImageSource) -> ImageReport {
    let options =
        ImageOptions { name: b"vm".to_vec(), skips_errors: true, ..ImageOptions::default() };
    let client = Client::open(scene.node.home()).unwrap();
    client.back_up_image(&options, disk, &Arc::new(Progress::default())).unwrap()
}

/// The part kept its zeros, and the image said that everything was read. A disk that had grown kept
/// the old length of its last part.
#[test]
fn what_the_last_image_lacks_is_read_whatever_a_bitmap_says() {
    let scene = Scene::new();
    let content = noise(1, 3 << 20);
    let (small, large) = (&content[..2 << 20], &content[..]);
    assert_eq!(back_up_idle(&scene, small, true).facts.unreadable.len(), 1);
    let again = back_up_idle(&scene, small, false);
    assert_eq!((again.changed_parts, again.facts.unreadable.len()), (1, 0));
    assert_eq!(back_up_idle(&scene, small, false).changed_parts, 0, "the bitmap saves reading");
    assert_eq!(back_up_idle(&scene, large, false).changed_parts, 1);
    let out = scene.scratch.join("out");
    restore(&scene, Path::new("vm"), &out, &[]).expect(&[0]);
    assert!(fs::read(&out).unwrap() == content);
}

/// A part whose chunks the server has no longer is read twice. What failed only then had zeros in
/// an image that was called whole.
#[test]
fn what_a_disk_does_not_give_again_is_named() {
    let mut scene = Scene::new();
    scene.keep_only_active();
    let content = noise(1, 2 << 20);
    let fading = || FadingDisk { disk: idle(&content), has_faded: AtomicBool::new(false) };
    back_up_disk(&scene, &fading());
    back_up_disk(&scene, &FadingDisk { disk: idle(&vec![7; 2 << 20]), ..fading() });
    scene.server.admin(&["expire"]);
    scene.server.restart();
    assert!(scene.server.admin(&["reclaim"])["packs_removed"].as_u64().unwrap() > 0);
    let report = back_up_disk(&scene, &fading());
    let lost: Vec<_> = report
        .facts
        .unreadable
        .iter()
        .map(|range| (range.offset, range.bytes))
        .collect();
    assert_eq!(lost, [(0, 4096)]);
    assert!(content_of_vm(&scene)[4096..] == content[4096..]);
}

/// Content that the newest image called `vm` has.
fn content_of_vm(scene: &Scene) -> Vec<u8> {
    let out = scene.scratch.join("out");
    restore(scene, Path::new("vm"), &out, &["--confirm"]).expect(&[0]);
    fs::read(&out).unwrap()
}

#[test]
fn changes_since_a_snapshot_count_only_for_an_image_of_that_snapshot() {
    let scene = Scene::new();
    let (old, new) = (noise(1, 2 << 20), noise(2, 2 << 20));
    let disk =
        |content, snapshot, since| IdleDisk { snapshot: Some(snapshot), since, ..idle(content) };
    back_up_disk(&scene, &disk(&old, "first", None));
    let unread = back_up_disk(&scene, &disk(&new, "second", Some("first")));
    assert_eq!((unread.changed_parts, unread.facts.data_bytes), (0, 2 << 20));
    assert!(content_of_vm(&scene) == old, "the disk is believed");
    let read = back_up_disk(&scene, &disk(&new, "third", Some("first")));
    assert_eq!(read.changed_parts, 1, "the last image is that of another snapshot");
    assert!(content_of_vm(&scene) == new);
}

/// The image had what the interrupted backup had found, and not what the disk had.
#[test]
fn a_part_of_an_interrupted_backup_is_read_if_the_disk_was_set_back_to_a_snapshot() {
    let scene = Scene::new();
    let (old, new) = (noise(1, 2 << 20), noise(2, 2 << 20));
    let path = scene.scratch.join("vm");
    fs::write(&path, &new).unwrap();
    back_up_disk(&scene, &IdleDisk { snapshot: Some("first"), ..idle(&old) });
    interrupt_as(&scene, &path, b"vm");
    let since = Some("first");
    back_up_disk(&scene, &IdleDisk { snapshot: Some("second"), since, ..idle(&old) });
    assert!(content_of_vm(&scene) == old);
}

/// Files came out of the image with zeros in place of what the disk did not give.
#[test]
fn what_a_disk_did_not_give_is_an_error_in_its_image() {
    let scene = Scene::new();
    let content = noise(1, 2 << 20);
    back_up_idle(&scene, &content, true);
    let client = Client::open(scene.node.home()).unwrap();
    let reader = client.image_reader(client.image(b"vm", None).unwrap());
    let mut buffer = vec![0; 4096];
    reader.read_at(&mut buffer, 4096).unwrap();
    assert!(buffer == content[4096..8192]);
    for offset in [0, 4095] {
        let error = reader.read_at(&mut buffer, offset).unwrap_err();
        assert_eq!(error.kind, ErrorKind::Damaged);
        assert!(error.message.contains("bytes 0 to 4095 of the disk"), "{error}");
    }
}

#[test]
fn a_mixture_of_several_moments_is_called_so_when_it_is_used() {
    let scene = Scene::new();
    let disk = IdleDisk { stillness: ImageStillness::Fuzzy, ..idle(&noise(1, 100_000)) };
    back_up_disk(&scene, &disk);
    let out = scene.scratch.join("out");
    restore(&scene, Path::new("vm"), &out, &[])
        .expect(&[0])
        .says("vm changed while its image of 2");
    back_up_idle(&scene, &disk.content, false);
    let quiet = restore(&scene, Path::new("vm"), &out, &["--confirm"]).expect(&[0]);
    assert!(!quiet.stderr.contains("changed while"), "{quiet}");
}
