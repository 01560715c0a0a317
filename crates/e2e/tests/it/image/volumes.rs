//! Files out of logical volumes in images. Device mapper is not needed: the tests write metadata
//! and extents themselves, or let LVM's tools write the metadata.

use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use e2e::manifest::{Manifest, assert_same};
use sim::lvm::{DATA_OFFSET, STRIPE_BYTES, Segment, VolumeGroup, head_of_disk};

use super::{EXT4, Loop, MIB, Mount, back_up, noise, run_tool};
use crate::scene::{Scene, manifest, root_or_skip};

const EXTENT_BYTES: u64 = 4 * MIB;
const EXTENTS: u64 = 20;
const VOLUME_BYTES: u64 = 16 * EXTENT_BYTES;
/// Size of a partition that is a physical volume, with room for its metadata.
const DISK_BYTES: u64 = EXTENTS * EXTENT_BYTES + 2 * MIB;
const FIRST: u64 = MIB;
const SECOND: u64 = FIRST + DISK_BYTES;
const IDS: [&str; 2] = ["DmsXLra15KXml1vZMGofPGncKaYtN7st", "7T6GaFusMEDFxYxDZFLvvWdzk9tMHIYv"];

/// Makes a file system with some files in `tree`. Returns its bytes, and what is in `tree`. `None`,
/// with a message, if this machine cannot do that, or not look into images.
fn file_system(scene: &Scene) -> Option<(Vec<u8>, Manifest)> {
    if !root_or_skip("a file system on a loop device") {
        return None;
    }
    if File::open("/dev/fuse").is_err() {
        e2e::skip::say("no /dev/fuse: no image can be looked into");
        return None;
    }
    let file = scene.scratch.join("file system");
    File::create(&file).unwrap().set_len(VOLUME_BYTES).unwrap();
    let Some(device) = run_tool(EXT4.mkfs, &file).then(|| Loop::of(&file)).flatten() else {
        e2e::skip::say("mkfs.ext4 or a loop device does not work here");
        return None;
    };
    let mount = Mount::at(&device.0, scene.scratch.folder("mounted"), "defaults");
    let tree = mount.0.join("tree");
    fs::create_dir(&tree).unwrap();
    for number in 0..40 {
        fs::write(tree.join(format!("file {number}")), noise(number, 900_000)).unwrap();
    }
    std::os::unix::fs::symlink("file 1", tree.join("link")).unwrap();
    let there = manifest(&tree);
    drop(mount);
    drop(device);
    let content = fs::read(&file).unwrap();
    fs::remove_file(&file).unwrap();
    Some((content, there))
}

/// Makes a disk with two partitions of the type of LVM.
fn partitioned(scene: &Scene) -> (PathBuf, File) {
    let path = scene.scratch.join("whole");
    let file = File::create(&path).unwrap();
    file.set_len(SECOND + DISK_BYTES + MIB).unwrap();
    // Source: the layout of a master boot record: status, start, type, end, first sector, sectors.
    let entry = |start: u64| {
        let sectors = |bytes: u64| u32::try_from(bytes / 512).unwrap().to_le_bytes();
        [&[0, 0, 0, 0, 0x8e, 0, 0, 0][..], &sectors(start), &sectors(DISK_BYTES)].concat()
    };
    file.write_all_at(&[entry(FIRST), entry(SECOND)].concat(), 446).unwrap();
    file.write_all_at(&[0x55, 0xaa], 510).unwrap();
    (path, file)
}

/// Part of a logical volume, and its places on the disk.
struct Piece {
    bytes: u64,
    stripe_bytes: u64,
    offsets: Vec<u64>,
}

impl Piece {
    fn linear(bytes: u64, offset: u64) -> Self {
        Self { bytes, stripe_bytes: bytes, offsets: vec![offset] }
    }
}

/// Writes the content of a volume as the kernel does.
fn write_volume(disk: &File, content: &[u8], pieces: &[Piece]) {
    let mut rest = content;
    for piece in pieces {
        let (part, after) = rest.split_at(usize::try_from(piece.bytes).unwrap());
        let stripes = part.chunks(usize::try_from(piece.stripe_bytes).unwrap());
        for (number, stripe) in stripes.enumerate() {
            let count = piece.offsets.len();
            let turn = u64::try_from(number / count).unwrap() * piece.stripe_bytes;
            disk.write_all_at(stripe, piece.offsets[number % count] + turn).unwrap();
        }
        rest = after;
    }
    assert!(rest.is_empty(), "the volume is as long as its pieces");
}

/// Returns the offset on the disk of an extent of the physical volume at `start`.
fn extent(start: u64, number: u64) -> u64 {
    start + u64::try_from(DATA_OFFSET).unwrap() + number * EXTENT_BYTES
}

/// Checks that all files of `volume` are in the image `name`, and are copied as they were.
fn check_files(scene: &Scene, name: &Path, volume: &str, there: &Manifest) {
    let name = name.to_str().unwrap();
    let words = ["image", "files", name, "/tree", "--partition", volume, "--recursive", "--json"];
    let listed = scene.node.run(&words).expect(&[0]).json_lines();
    // All but the folder itself.
    assert_eq!(listed.len() as u64 + 1, there.len(), "{volume}");
    let out = scene.scratch.folder(&format!("out of {}", volume.replace('/', " ")));
    let to = out.to_str().unwrap();
    let words = ["image", "extract", name, "/tree", "--partition", volume, "--to", to];
    scene.node.run(&words).expect(&[0]);
    assert_same(there, &manifest(&out.join("tree")));
}

#[test]
fn files_come_out_of_logical_volumes_in_a_partition() {
    let scene = Scene::new();
    let Some((content, there)) = file_system(&scene) else { return };
    let (disk, file) = partitioned(&scene);
    let group = VolumeGroup {
        name: "tank",
        sequence: 7,
        extent_bytes: EXTENT_BYTES,
        disks: &[(IDS[0], EXTENTS), (IDS[1], EXTENTS)],
        volumes: &[
            (
                "home",
                &[
                    Segment { extents: 10, stripes: &[(1, 8)] },
                    Segment { extents: 6, stripes: &[(1, 1)] },
                ],
            ),
            ("wide", &[Segment { extents: 16, stripes: &[(0, 3), (0, 12)] }]),
            ("elsewhere", &[Segment { extents: 1, stripes: &[(1, 30)] }]),
        ],
    };
    for (id, start) in [(IDS[0], FIRST), (IDS[1], SECOND)] {
        let head = head_of_disk(id, DISK_BYTES, group.text().as_bytes(), 512);
        file.write_all_at(&head, start).unwrap();
    }
    let home = [
        Piece::linear(10 * EXTENT_BYTES, extent(SECOND, 8)),
        Piece::linear(6 * EXTENT_BYTES, extent(SECOND, 1)),
    ];
    write_volume(&file, &content, &home);
    let offsets = vec![extent(FIRST, 3), extent(FIRST, 12)];
    let wide = Piece { bytes: VOLUME_BYTES, stripe_bytes: STRIPE_BYTES, offsets };
    write_volume(&file, &content, &[wide]);
    back_up(&scene, &disk);
    let name = disk.to_str().unwrap();
    let files = |options: &[&str]| {
        let words = [&["image", "files", name, "/"][..], options].concat();
        scene.node.run(&words).expect(&[12])
    };
    files(&[])
        .says("it has 1 (82 MiB; physical volume of LVM), 2 (82 MiB; physical volume of LVM)")
        .says("tank/home (64 MiB), tank/wide (64 MiB)")
        .says("tank/elsewhere (4 MiB; it ends after the end of its physical volume)");
    files(&["--partition", "2"]).says("a physical volume of LVM; it has 1 (");
    files(&["--partition", "tank/none"]).says("no logical volume tank/none; it has 1 (");
    files(&["--partition", "tank/elsewhere"]).says("vgimportclone");
    check_files(&scene, &disk, "tank/home", &there);
    check_files(&scene, &disk, "tank/wide", &there);
}

/// A disk without partitions is a physical volume, and its only volume needs no name.
#[test]
fn the_only_volume_of_a_whole_disk_is_opened() {
    let scene = Scene::new();
    let Some((content, there)) = file_system(&scene) else { return };
    let disk = scene.scratch.join("whole");
    let file = File::create(&disk).unwrap();
    file.set_len(DISK_BYTES).unwrap();
    let group = VolumeGroup {
        name: "tank",
        sequence: 1,
        extent_bytes: EXTENT_BYTES,
        disks: &[(IDS[0], EXTENTS)],
        volumes: &[("home", &[Segment { extents: 16, stripes: &[(0, 2)] }])],
    };
    let head = head_of_disk(IDS[0], DISK_BYTES, group.text().as_bytes(), 512);
    file.write_all_at(&head, 0).unwrap();
    write_volume(&file, &content, &[Piece::linear(VOLUME_BYTES, extent(0, 2))]);
    back_up(&scene, &disk);
    let words = ["image", "files", disk.to_str().unwrap(), "/tree", "--recursive", "--json"];
    let listed = scene.node.run(&words).expect(&[0]).json_lines();
    assert_eq!(listed.len() as u64 + 1, there.len());
    if let Some(tools) = Tools::new(&scene, &[(disk.as_path(), 0)]) {
        assert_eq!(tools.segments(), [("home".to_owned(), VOLUME_BYTES, 0, vec![(0, 2)])]);
    }
}

/// LVM's tools without device mapper. They see only some loop devices.
struct Tools {
    folder: PathBuf,
    devices: Vec<Loop>,
}

/// Name of a volume, bytes of a segment, bytes of its stripes, and for each stripe the index of its
/// disk and its first extent there.
type ToolSegment = (String, u64, u64, Vec<(usize, u64)>);

impl Tools {
    /// Makes loop devices of the disks that begin at these offsets of files. `None`, with a
    /// message, if there is no LVM.
    fn new(scene: &Scene, disks: &[(&Path, u64)]) -> Option<Self> {
        if Command::new("lvm").arg("version").output().is_err() {
            e2e::skip::say("no lvm: volumes are not compared with those of LVM");
            return None;
        }
        let devices: Vec<Loop> =
            disks.iter().map(|(disk, offset)| part_of(disk, *offset)).collect();
        let accepted = |device: &Loop| format!("\"a|^{}$|\", ", device.0.display());
        let filter: String = devices.iter().map(accepted).collect();
        let folder = scene.scratch.folder("lvm");
        let settings = format!(
            "devices {{\nuse_devicesfile = 0\nhints = \"none\"\nfilter = [{filter}\"r|.*|\"]\n\
             obtain_device_list_from_udev = 0\nexternal_device_info_source = \"none\"\n}}\n\
             activation {{\nudev_sync = 0\nudev_rules = 0\nmonitoring = 0\n}}\n\
             global {{\nactivation = 0\nlocking_dir = \"{}\"\n}}\n\
             backup {{\nbackup = 0\narchive = 0\n}}\n",
            folder.join("locks").display()
        );
        fs::write(folder.join("lvm.conf"), settings).unwrap();
        Some(Self { folder, devices })
    }

    fn run(&self, words: &[&str]) -> String {
        let output = Command::new("lvm")
            .args(words)
            .env("LVM_SYSTEM_DIR", &self.folder)
            .env("LVM_SUPPRESS_FD_WARNINGS", "1")
            .output()
            .unwrap();
        assert!(output.status.success(), "{words:?} {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    fn device(&self, index: usize) -> &str {
        self.devices[index].0.to_str().unwrap()
    }

    fn create(&self, words: &[&str]) {
        self.run(&[&["lvcreate", "-an", "-Zn", "-Wn"][..], words].concat());
    }

    /// Returns the segments of all volumes, sorted by volume and offset.
    fn segments(&self) -> Vec<ToolSegment> {
        let fields = "lv_name,seg_size,stripe_size,seg_pe_ranges";
        let lines = self.run(&[
            "lvs",
            "--noheadings",
            "--nosuffix",
            "--units",
            "b",
            "--separator",
            ",",
            "-o",
            fields,
            "--sort",
            "lv_name,seg_start",
            "tank",
        ]);
        lines.lines().map(|line| self.segment(line)).collect()
    }

    fn segment(&self, line: &str) -> ToolSegment {
        let fields: Vec<&str> = line.trim().split(',').collect();
        let [name, bytes, stripe_bytes, ranges] = fields[..] else { panic!("{line}") };
        // Such as "/dev/loop1:12-19 /dev/loop2:6-13".
        let range = |range: &str| {
            let (device, extents) = range.split_once(':').unwrap();
            let disk = (0..self.devices.len()).find(|index| self.device(*index) == device);
            (disk.unwrap(), extents.split('-').next().unwrap().parse().unwrap())
        };
        let ranges = ranges.split(' ').map(range).collect();
        (name.to_owned(), bytes.parse().unwrap(), stripe_bytes.parse().unwrap(), ranges)
    }
}

/// Makes a loop device of the disk that begins at `offset` of `file`.
fn part_of(file: &Path, offset: u64) -> Loop {
    let range = [format!("--offset={offset}"), format!("--sizelimit={DISK_BYTES}")];
    let words = ["--find", "--show"];
    let output = Command::new("losetup").args(words).args(range).arg(file).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    Loop(String::from_utf8(output.stdout).unwrap().trim().into())
}

/// The volumes are made by `lvcreate` and `lvextend`, and written where `lvs` says.
#[test]
fn files_come_out_of_volumes_that_lvm_has_made() {
    let scene = Scene::new();
    let Some((content, there)) = file_system(&scene) else { return };
    let (disk, file) = partitioned(&scene);
    let starts = [FIRST, SECOND];
    let Some(tools) = Tools::new(&scene, &starts.map(|start| (disk.as_path(), start))) else {
        return;
    };
    let (first, second) = (tools.device(0), tools.device(1));
    tools.run(&["pvcreate", first, second]);
    // A machine that looks for groups by itself leaves this one alone.
    tools.run(&["vgcreate", "--setautoactivation", "n", "tank", first, second]);
    tools.create(&["-l", "6", "-n", "home", "tank", second]);
    tools.create(&["-l", "2", "-n", "gap", "tank", first]);
    tools.run(&["lvextend", "-l", "+10", "tank/home", first]);
    tools.create(&["-i", "2", "-I", "4", "-l", "16", "-n", "wide", "tank"]);
    let segments = tools.segments();
    let order: Vec<_> = segments.iter().map(|(name, ..)| &**name).collect();
    assert_eq!(order, ["gap", "home", "home", "wide"]);
    for volume in ["home", "wide"] {
        let of_volume = segments.iter().filter(|(name, ..)| name == volume);
        let piece = |(_, bytes, stripe_bytes, ranges): &ToolSegment| Piece {
            bytes: *bytes,
            stripe_bytes: if *stripe_bytes == 0 { *bytes } else { *stripe_bytes },
            offsets: ranges.iter().map(|(disk, first)| extent(starts[*disk], *first)).collect(),
        };
        write_volume(&file, &content, &of_volume.map(piece).collect::<Vec<_>>());
    }
    drop(tools);
    back_up(&scene, &disk);
    check_files(&scene, &disk, "tank/home", &there);
    check_files(&scene, &disk, "tank/wide", &there);
    let words = ["image", "files", disk.to_str().unwrap(), "/", "--partition", "tank/gap"];
    scene.node.run(&words).expect(&[12]).says("nothing that blkid recognises");
}
