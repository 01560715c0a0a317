"""Whole disks with partitions, files out of their images, btrfs, and targets in use."""

import os
import re
import threading
import time

from scene import (
    DONE, FOLDER, KIB, MIB, NOT_DONE, WARNED, Mount, are_same, back_up, check, check_trees,
    differences, digest, facts, fill, flush, image, leave_content, listed, make_tree, manifest,
    noise, out, pieces, restore, run, settle, show, size_of, wait_for,
)
from volumes import Writer, check_files

# Partitions of the disk: their types, sizes in MiB, and how each is made.
PARTITIONS = (
    ("ef02", 1, None),
    ("ef00", 24, ("mkfs.vfat", "-F", "16")),
    ("8300", 80, ("mkfs.ext4", "-q", "-E", "lazy_itable_init=0,lazy_journal_init=0")),
    ("8300", 304, ("mkfs.xfs", "-q", "-f")),
    ("8200", 32, ("mkswap",)),
)
BIOS, EFI, EXT4, XFS, SWAP = range(1, 6)
BOOT_CODE_BYTES = 440


def make_disk(disk, partitions=PARTITIONS):
    """Makes a table of partitions, boot code, and what is on the partitions."""
    run("wipefs", "--all", "--force", disk)
    words = [word for number, (kind, size, _) in enumerate(partitions, 1)
             for word in (f"--new={number}:0:+{size}M", f"--typecode={number}:{kind}")]
    run("sgdisk", "--clear", *words, disk)
    settle()
    with open(disk, "r+b") as file:
        file.write(noise("boot code", BOOT_CODE_BYTES))
    for number, (_, size, words) in enumerate(partitions, 1):
        if words:
            run(*words, f"{disk}{number}")
        else:
            with open(f"{disk}{number}", "wb") as file:
                file.write(noise("boot area", size * MIB))
    settle()


def fill_disk(disk):
    """Writes files to the file systems of the disk; returns their facts."""
    trees = {}
    for number in (EXT4, XFS):
        with Mount(f"{disk}{number}") as mount:
            make_tree(mount.path, f"partition {number}")
            leave_content(mount)
            trees[number] = manifest(mount.path)
    with Mount(f"{disk}{EFI}") as mount:
        (mount / "EFI").mkdir()
        (mount / "EFI" / "loader").write_bytes(noise("loader", 3 * MIB))
    flush(disk)
    return trees


def layout(disk):
    """The table of partitions, without the name of the disk and its last sector."""
    lines = out("sfdisk", "--dump", disk).replace(disk, "DISK").splitlines()
    return [line for line in lines if not line.startswith(("last-lba", "device"))]


def identities(disk):
    """What blkid says about the partitions, without the name and the number of the disk."""
    said = [line.replace(disk, "DISK") for number in range(EFI, SWAP + 1)
            for line in out("blkid", "-p", "-o", "export", f"{disk}{number}").splitlines()]
    return [line for line in said if not line.startswith("PART_ENTRY_DISK")]


def test_disk(scene):
    """A disk with boot areas, ext4, xfs and swap space comes back on an equal and a larger disk."""
    disk = scene.disk("source")
    make_disk(disk)
    trees = fill_disk(disk)
    source = digest(disk)
    done = image("backup", disk, "--json")
    report = done.json()
    check(done.code == DONE and report["state"] == "unchanged", "the image is made", done)
    check(report["data_bytes"] < 40 * MIB,
          f"free blocks and swap space are left out: {report['data_bytes'] // MIB} MiB of "
          f"{size_of(disk) // MIB} MiB have data", report)
    check(digest(disk) == source, "the backup has written nothing to the disk")
    check("a table of partitions (gpt)" in listed(disk), "the list says what the disk holds",
          listed(disk))
    done = image("verify", disk, "--against", disk)
    check(done.code == DONE and "has the same content" in done.out,
          "the disk has the content of its image", done)
    report = back_up(disk)
    check(report["changed_parts"] == 0, "the next image finds no change", report)

    for name in ("equal", "larger"):
        target = scene.disk(name)
        fill(target)
        done = restore(disk, target)
        settle()
        check(done.code == DONE, f"the image is restored to the {name} disk", done)
        check_restored_disk(scene, disk, target, trees, name)
    small = scene.disk("small")
    before = digest(small)
    for options, text in (((), "without --confirm"), (("--confirm",), "with --confirm")):
        done = image("restore", disk, small, *options)
        check(done.code == NOT_DONE and "name a target that is as large" in done.err,
              f"a smaller disk is refused {text}", done)
    show(f"the message: {done.said()}")
    check(digest(small) == before, "it is as it was")

    fill(scene.disk("equal"))
    back_up(disk, "--all-blocks")
    restore(disk, scene.disk("equal"))
    check(are_same(disk, scene.disk("equal")), "with --all-blocks every byte of the disk is back")


def check_restored_disk(scene, disk, target, trees, name):
    done = image("verify", disk, "--against", target)
    check(done.code == DONE, "every block of the image is on it", done)
    if name == "larger":
        with open(target, "rb") as file:
            file.seek(size_of(disk))
            behind = [piece for piece in pieces(file) if piece.strip(b"\xa5")]
        check(not behind, "behind the old end it is as it was")
        done = run("sgdisk", "--move-second-header", target, codes=None)
        check(done.code == 0, "sgdisk moves the second table to the new end", done)
        settle()
    done = run("sgdisk", "--verify", target)
    check("No problems found" in done.out, "its table of partitions is sound", done)
    check(layout(disk) == layout(target), "its table of partitions is the same", layout(target))
    nodes = [number for number in range(1, SWAP + 1) if os.path.exists(f"{target}{number}")]
    check(len(nodes) == SWAP, "the kernel knows its partitions", nodes)
    with open(disk, "rb") as one, open(target, "rb") as other:
        check(one.read(BOOT_CODE_BYTES) == other.read(BOOT_CODE_BYTES), "its boot code is the same")
    for number in (BIOS, EFI):
        check(are_same(f"{disk}{number}", f"{target}{number}"),
              f"every byte of partition {number} is the same")
    check(identities(disk) == identities(target), "the UUIDs and types are the same",
          identities(target))
    check_file_systems(disk, target, trees)


def check_file_systems(disk, target, trees):
    done = run("e2fsck", "-f", "-n", f"{target}{EXT4}", codes=None)
    check(done.code == 0, "e2fsck -fn finds nothing", done)
    done = run("xfs_repair", "-n", f"{target}{XFS}", codes=None)
    check(done.code == 0, "xfs_repair -n finds nothing", done)
    for number, options in ((EXT4, ("ro",)), (XFS, ("ro", "nouuid"))):
        with Mount(f"{disk}{number}", *options) as one, Mount(f"{target}{number}", *options) as two:
            original, copy = manifest(one.path), manifest(two.path)
            check_trees(original, copy, f"partition {number}: files and all attributes are the "
                        "same")
            check(not differences(trees[number], original), "the original is as it was made")
    run("swapon", f"{target}{SWAP}")
    run("swapoff", f"{target}{SWAP}")
    check(True, "the swap space is usable")


def test_mounted_disk(scene):
    """A disk is imaged while its partitions are mounted and a program writes to one of them."""
    disk, target = scene.disk("source"), scene.disk("equal")
    make_disk(disk)
    trees = fill_disk(disk)
    with Mount(f"{disk}{EXT4}") as one, Mount(f"{disk}{XFS}") as two:
        program = Writer(one / "written")
        done = image("backup", disk, "--rate", "20M", "--json")
        check(done.code == WARNED and done.json()["state"] == "fuzzy",
              "without --freeze the image is fuzzy, and the exit code is 8", done)
        commands = [" && ".join(f"fsfreeze --{verb} {mount.path}" for mount in (one, two))
                    for verb in ("freeze", "unfreeze")]
        before = program.number()
        done = image("backup", disk, "--freeze", commands[0], "--thaw", commands[1], "--json")
        check(done.code == DONE and done.json()["state"] == "frozen",
              "--freeze holds both file systems still", done)
        data = done.json()["data_bytes"] // MIB
        check(data < 40, f"free blocks are left out: {data} MiB have data")
        after = program.number()
        wait_for("the program to go on", lambda: program.number() > after + 2)
        program.end()
    fill(target)
    restore(disk, target)
    settle()
    done = run("e2fsck", "-f", "-n", f"{target}{EXT4}", codes=None)
    check(done.code == 0, "e2fsck -fn of the restored partition finds nothing", done)
    with Mount(f"{target}{EXT4}") as one, Mount(f"{target}{XFS}") as two:
        check_files(one, trees[EXT4], before, after)
        check_trees(trees[XFS], manifest(two.path), "and those of the other partition")
    done = run("xfs_repair", "-n", f"{target}{XFS}", codes=None)
    check(done.code == 0, "xfs_repair -n finds nothing after a mount", done)


def test_files(scene):
    """Files come out of a partition of an image with all attributes."""
    disk = scene.disk("source")
    make_disk(disk)
    fill_disk(disk)
    back_up(disk)
    done = image("files", disk, "/")
    check(done.code == NOT_DONE and "--partition" in done.err and f"{XFS} (304 MiB)" in done.err,
          "without a partition, the partitions are listed", done)
    done = image("files", disk, "/", "--partition", SWAP)
    check(done.code == NOT_DONE and "swap space" in done.err, "swap space has no files", done)
    for number, options in ((EFI, ("ro",)), (EXT4, ("ro",)), (XFS, ("ro", "nouuid"))):
        with Mount(f"{disk}{number}", *options) as mount:
            done = image("files", disk, "/", "--partition", number, "--recursive")
            names = re.findall(r"^\S.*?  (/.*?)(?: -> .*)?$", done.out, re.MULTILINE)
            expected = ["/" + str(path.relative_to(mount.path)) for path in
                        sorted(mount.path.rglob("*"))]
            check(done.code == DONE and sorted(names) == sorted(expected),
                  f"partition {number}: image files lists {len(expected)} objects",
                  sorted(set(names) ^ set(expected))[:5] or done)
            target = FOLDER / f"extracted-{number}"
            if number != EFI:
                done = image("extract", disk, "/special", "--partition", number, "--to", target)
                same = facts(mount / "special") == facts(target / "special")
                check(done.code == DONE and same, "image extract copies one file with its owner, "
                      "mode, times, extended attributes and ACL", done)
                (target / "special").unlink()
            done = image("extract", disk, "/", "--partition", number, "--to", target)
            check(done.code == DONE, "image extract copies the root directory", done)
            check_trees(manifest(mount.path), manifest(target), "and everything in it")
            run("rm", "-r", target)
    left = out("losetup", "--list", "--noheadings") + run("findmnt", "-t", "fuse", codes=None).out
    check(not left, "no loop device and no mount is left", left)


def long_sectors(name):
    """Makes a disk with sectors of 4096 bytes."""
    path = FOLDER / name
    with open(path, "wb") as file:
        file.truncate(96 * MIB)
    return out("losetup", "--find", "--show", "--sector-size", "4096", path).strip()


def test_long_sectors(scene):
    """The table of partitions of a disk with sectors of 4096 bytes is found."""
    run("modprobe", "loop")
    disk, target = long_sectors("long"), long_sectors("long-target")
    run("sgdisk", "--new=1:0:+60M", disk)
    run("partx", "--update", disk)
    settle()
    run("mkfs.ext4", "-q", f"{disk}p1")
    with Mount(f"{disk}p1") as mount:
        make_tree(mount.path, "long sectors")
        leave_content(mount)
        tree = manifest(mount.path)
    report = back_up(disk)
    check(report["data_bytes"] < 30 * MIB,
          f"free blocks are left out: {report['data_bytes'] // MIB} MiB have data")
    restore(disk, target)
    run("partx", "--update", target)
    settle()
    with Mount(f"{target}p1") as mount:
        check_trees(tree, manifest(mount.path), "the files come back on a disk of the same kind")
    done = image("files", disk, "/", "--partition", 1)
    check(done.code == DONE and "/special" in done.out, "image files finds the partition", done)
    for device in (disk, target):
        run("losetup", "--detach", device)
    for name in ("long", "long-target"):
        (FOLDER / name).unlink()


def test_in_use(scene):
    """A target in use is refused, and not changed."""
    source = FOLDER / "source"
    source.write_bytes(noise("source", MIB))
    back_up(source)
    disk = scene.disk("equal")
    make_disk(disk)
    with Mount(f"{disk}{EXT4}") as mount:
        make_tree(mount.path, "in use")
        refused(source, f"{disk}{EXT4}", disk, "a mounted partition")
        refused(source, disk, disk, "a disk one of whose partitions is mounted")
        uuid = out("blkid", "-s", "PARTUUID", "-o", "value", f"{disk}{EXT4}").strip()
        refused(source, f"/dev/disk/by-partuuid/{uuid}", disk, "the partition by another name")
    run("swapon", f"{disk}{SWAP}")
    done = refused(source, f"{disk}{SWAP}", disk, "active swap space")
    check("swap" in done.err, "the message says what uses it", done)
    refused(source, disk, disk, "the disk with active swap space")
    run("swapoff", f"{disk}{SWAP}")
    check_volume_group(source, scene.disk("volumes"), scene.disk("small"))
    check_raid(source, scene.disk("equal"), scene.disk("source"))
    done = image("restore", source, f"{disk}{EXT4}")
    check(done.code == NOT_DONE and "--confirm" in done.err,
          "a partition that nobody uses needs --confirm", done)


def refused(source, target, disk, text, says="is in use"):
    before = digest(disk)
    done = image("restore", source, target, "--confirm")
    check(done.code == NOT_DONE and says in done.err, f"{text} is refused", done)
    if done.code == NOT_DONE:
        show(f"the message: {done.said()}")
    check(digest(disk) == before, "it is as it was")
    return done


def check_volume_group(source, used, unused):
    """Of the two physical volumes, only the first one has a logical volume."""
    run("vgcreate", "busy", used, unused)
    run("lvcreate", "--yes", "--size", "64M", "--name", "volume", "busy", used)
    says = "is a physical volume of the volume group busy"
    refused(source, used, used, "a physical volume with an active logical volume", says)
    refused(source, unused, unused, "a physical volume whose volume group uses another disk now",
            says)
    run("vgchange", "--activate", "n", "busy")
    refused(source, used, used, "a physical volume of a volume group that is not active", says)
    # The label may be gone.
    run("wipefs", "--all", "--force", used, unused)
    run("pvscan", "--cache", codes=None)
    settle()


def check_raid(source, one, two):
    run("wipefs", "--all", "--force", one, two)
    settle()
    run("mdadm", "--create", "/dev/md0", "--run", "--level=1", "--raid-devices=2",
        "--assume-clean", "--metadata=1.2", one, two)
    settle()
    refused(source, one, two, "a disk of a running RAID")
    run("mdadm", "--stop", "/dev/md0")
    run("mdadm", "--zero-superblock", one, two)
    make_disk(one)


def test_btrfs(scene):
    """A partition with btrfs comes back, and a file on btrfs or xfs is imaged from a reflink."""
    disk, target = scene.disk("small"), scene.disk("equal")
    make_disk(disk, (("8300", 200, ("mkfs.btrfs", "-q", "-f")),))
    part = f"{disk}1"
    with Mount(part) as mount:
        make_tree(mount.path, "btrfs")
        run("btrfs", "subvolume", "create", mount / "volume")
        make_tree(mount / "volume", "volume")
        run("btrfs", "subvolume", "snapshot", "-r", mount / "volume", mount / "snapshot")
        os.sync()
        tree = manifest(mount.path)
        check_reflink(mount, "btrfs")
    report = back_up(part)
    check(report["state"] == "unchanged" and "btrfs" in report["holds"],
          f"the image is made: {report['data_bytes'] // MIB} MiB of 200 MiB have data", report)
    fill(target)
    done = restore(part, target)
    check(done.code == DONE and digest(part) == digest(target, 0, size_of(part)),
          "every byte of the partition is back", done)
    done = image("extract", part, "/volume/special", "--to", FOLDER / "extracted-btrfs")
    found = facts(FOLDER / "extracted-btrfs" / "special")
    check(done.code == DONE and found == tree["volume/special"],
          "image extract copies a file out of a subvolume", done)
    # Two file systems with the same UUID would be taken for one.
    run("wipefs", "--all", "--force", part)
    run("btrfs", "device", "scan", "--forget")
    done = run("btrfs", "check", "--readonly", target, codes=None)
    check(done.code == 0, "btrfs check finds nothing", done)
    with Mount(target, "ro") as mount:
        found = {name: about for name, about in manifest(mount.path).items()
                 if not name.startswith("file-")}
        check_trees(tree, found, "files, subvolume and snapshot are the same")
    fill(target)
    run("mkfs.xfs", "-q", "-f", target)
    with Mount(target) as mount:
        check_reflink(mount, "xfs")


class Sweep(threading.Thread):
    """Writes a file from its beginning to its end, again and again, with a higher number each time.

    At each moment the numbers in the file fall at one place at most, by one. A file that is read
    while it changes has them in another order.
    """

    BLOCK_BYTES = 64 * KIB

    def __init__(self, path, size):
        super().__init__(daemon=True)
        self.file, self.blocks = open(path, "r+b", buffering=0), size // self.BLOCK_BYTES
        self.sweeps, self.has_ended = 0, False

    def run(self):
        while not self.has_ended:
            self.sweeps += 1
            for number in range(self.blocks):
                self.file.seek(number * self.BLOCK_BYTES)
                self.file.write(self.sweeps.to_bytes(8, "big") * (self.BLOCK_BYTES // 8))

    def end(self):
        self.has_ended = True
        self.join()
        self.file.close()

    @classmethod
    def is_of_one_moment(cls, path):
        numbers = []
        with open(path, "rb") as file:
            while block := file.read(cls.BLOCK_BYTES):
                if block != block[:8] * (len(block) // 8):
                    return False, f"block {len(numbers)} is a mixture"
                numbers.append(int.from_bytes(block[:8], "big"))
        falls = [one - other for one, other in zip(numbers, numbers[1:]) if one != other]
        return falls in ([], [1]), f"the numbers fall by {falls[:5]}"


def check_reflink(mount, kind):
    """A file of one moment is imaged while a program writes to it."""
    path, restored, size = mount / "file-disk", FOLDER / "restored", 24 * MIB
    path.write_bytes(bytes(size))
    before = set(os.listdir(mount.path))
    sweep = Sweep(path, size)
    sweep.start()
    time.sleep(1)
    sweeps = sweep.sweeps
    done = image("backup", path, "--snapshot", "reflink", "--rate", "6M", "--json")
    after = sweep.sweeps
    check(done.code == DONE and done.json()["state"] == "snapshot",
          f"{kind}: the image is made from a reflink", done)
    check(after > sweeps + 1, f"the program overwrote the file {after - sweeps} times meanwhile")
    done = restore(path, restored)
    is_sound, found = Sweep.is_of_one_moment(restored)
    check(done.code == DONE and is_sound, "the restored file is that of one moment", found)
    restored.unlink()
    done = image("backup", path, "--snapshot", "off", "--rate", "6M", "--json")
    check(done.code == WARNED and done.json()["state"] == "fuzzy",
          "--snapshot off gives a fuzzy image and exit code 8", done)
    sweep.end()
    check(set(os.listdir(mount.path)) == before, "no copy is left beside the file")
    path.unlink()
