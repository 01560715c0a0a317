"""Logical volumes, their snapshots, and disks of which some sectors cannot be read."""

import pathlib
import shutil
import signal
import sys
import time

import writer
from scene import (
    DONE, FAILED, FOLDER, KIB, MIB, NOT_DONE, WARNED, Mount, Work, are_same, back_up, check,
    check_trees, fill, image, leave_content, listed, make_tree, manifest, noise, out, restore, run,
    settle, show, start, wait_for,
)

GROUP = "tank"
ORIGIN, COPY = f"/dev/{GROUP}/origin", f"/dev/{GROUP}/copy"
VOLUME_BYTES = 128 * MIB
LVCREATE = ("lvcreate", "--yes")


class Group:
    """A volume group with a volume whose image is made, and one to which it is restored."""

    def __init__(self, disk, size=VOLUME_BYTES):
        self.disk = disk
        run("vgcreate", GROUP, disk)
        self.add("origin", size)
        run("mkfs.ext4", "-q", "-E", "lazy_itable_init=0,lazy_journal_init=0", ORIGIN)

    def add(self, name, size=VOLUME_BYTES):
        run(*LVCREATE, "--size", f"{size}B", "--name", name, GROUP)

    def snapshots(self):
        names = out("lvs", "--noheadings", "-o", "lv_name", GROUP).split()
        return [name for name in names if name.startswith("holdfast-snapshot")]

    def check_no_snapshot(self, text="the snapshot is gone"):
        found = self.snapshots()
        check(not found, text, found)
        self.remove_snapshots()

    def remove_snapshots(self):
        """Removes what a failed check has found, so that the next check finds its own."""
        for name in self.snapshots():
            run("lvremove", "--yes", f"{GROUP}/{name}", codes=None)

    def end(self):
        run("vgremove", "--force", "--yes", GROUP)
        run("pvremove", "--force", "--force", "--yes", self.disk)
        settle()


class Writer:
    """The program `writer.py`, which runs beside the test."""

    def __init__(self, folder):
        self.folder = folder
        folder.mkdir(exist_ok=True)
        self.log = FOLDER / "writer.log"
        self.process = start(sys.executable, writer.__file__, folder, stdout=open(self.log, "w"))
        wait_for("the writer", lambda: self.number() > 20)

    def number(self):
        """Number of the newest file that is durable."""
        whole = self.log.read_text().split("\n")[:-1]
        return int(whole[-1]) if whole else -1

    def end(self):
        self.process.kill()
        self.process.wait()


def test_lvm_snapshot(scene):
    """A logical volume is imaged from a snapshot while a program writes to it."""
    group = Group(scene.disk("volumes"))
    group.add("copy")
    snapshot_copy = FOLDER / "snapshot-copy"
    with Mount(ORIGIN) as mount:
        make_tree(mount.path, "lvm")
        leave_content(mount)
        tree = manifest(mount.path)
        program = Writer(mount / "written")
        before = program.number()
        work = Work("backup", ORIGIN, "--snapshot", "lvm", "--all-blocks", "--rate", "12M",
                    "--json")
        names = wait_for("the snapshot", group.snapshots)
        check(names == [f"holdfast-snapshot-{work.pid}-0"], "the snapshot is named after its maker",
              names)
        with open(f"/dev/{GROUP}/{names[0]}", "rb") as device, open(snapshot_copy, "wb") as copy:
            shutil.copyfileobj(device, copy, MIB)
        check(work.is_running(), "the backup reads while its snapshot is copied")
        done = work.end()
        after = program.number()
        check(done.code == DONE and done.json()["state"] == "snapshot", "the image is a snapshot",
              done)
        check(after > before + 20, f"the program wrote {after - before} files meanwhile")
        group.check_no_snapshot()
        done = restore(ORIGIN, COPY)
        check(done.code == DONE, "it is restored to another volume", done)
        check(are_same(COPY, snapshot_copy), "every byte is that of the snapshot")
        snapshot_copy.unlink()
        check_restored_volume(tree, before, after)
        check_used_blocks(group, program, tree)
        check_signals(group)
        program.end()
    check_unmounted(group)
    group.end()


def check_restored_volume(tree, before, after):
    """The restored volume has a sound file system, and all that was durable before the backup."""
    done = run("e2fsck", "-f", "-n", COPY, codes=None)
    check(done.code == 0, "e2fsck -fn of the restored volume finds nothing", done)
    with Mount(COPY, "ro") as mount:
        check_files(mount, tree, before, after)


def check_files(mount, tree, before, after):
    newest, count, broken = writer.newest_whole(mount / "written")
    check(before <= newest <= after and count > 20 and not broken,
          f"all {count} files of the program are whole, up to file {newest} "
          f"({before} was durable before, {after} after the backup)", broken)
    found = {name: facts for name, facts in manifest(mount.path).items()
             if not name.startswith("written")}
    check_trees(tree, found, "the other files are as they were")


def check_used_blocks(group, program, tree):
    """The same without the free blocks, as the default is."""
    before = program.number()
    report = back_up(ORIGIN, codes=(DONE, WARNED))
    after = program.number()
    check(report["state"] == "snapshot", "a snapshot is the default for a logical volume", report)
    check(report["data_bytes"] < 30 * MIB,
          f"free blocks are left out: {report['data_bytes'] // MIB} MiB have data")
    group.check_no_snapshot()
    fill(COPY)
    done = restore(ORIGIN, COPY)
    check(done.code == DONE, "it is restored over other content", done)
    check_restored_volume(tree, before, after)


def check_signals(group):
    """The snapshot goes with its backup, however that ends."""
    count = len(listed("--json").splitlines())
    words = ("backup", ORIGIN, "--snapshot", "lvm", "--all-blocks", "--rate", "4M")
    for number in (signal.SIGINT, signal.SIGTERM):
        work = Work(*words)
        wait_for("the snapshot", group.snapshots)
        time.sleep(2)
        done = work.end(number)
        check(done.code == NOT_DONE and "interrupted" in done.err,
              f"{number.name} ends the backup with exit code 12", done)
        group.check_no_snapshot(f"after {number.name} the snapshot is gone")
    work = Work(*words)
    wait_for("the snapshot", group.snapshots)
    time.sleep(2)
    work.end(signal.SIGKILL)
    left = group.snapshots()
    check(left == [f"holdfast-snapshot-{work.pid}-0"], "after SIGKILL the snapshot stays", left)
    found = len(listed("--json").splitlines())
    check(found == count, "no image came of the backups that were ended", found)
    back_up(ORIGIN, codes=(DONE, WARNED))
    check(left[0] not in group.snapshots(), "the next backup of the volume group removes it",
          group.snapshots())
    group.check_no_snapshot("and leaves none of its own")


def check_unmounted(group):
    """A volume that nobody uses is restored byte by byte."""
    back_up(ORIGIN, "--all-blocks", codes=(DONE, WARNED))
    group.check_no_snapshot()
    done = image("verify", ORIGIN, "--against", ORIGIN)
    check(done.code == DONE, "an unmounted volume has the content of its image", done)
    fill(COPY)
    done = restore(ORIGIN, COPY)
    check(done.code == DONE and are_same(ORIGIN, COPY),
          "every byte of an unmounted volume comes back", done)


def test_lvm_full(scene):
    """A snapshot that has no room, or runs out of it, gives no wrong image."""
    group = Group(scene.disk("volumes"))
    with Mount(ORIGIN) as mount:
        make_tree(mount.path, "full")
        # The program overwrites more than the snapshot has room for.
        work = Work("backup", ORIGIN, "--snapshot", "lvm", "--all-blocks", "--rate", "4M")
        wait_for("the snapshot", group.snapshots)
        for number in range(3):
            (mount / f"flood {number}").write_bytes(noise(number, 16 * MIB))
            run("sync", "-f", mount.path)
        done = work.end()
        check(done.code == NOT_DONE and "ran out of room" in done.err,
              "a snapshot that is overfull ends the backup with exit code 12", done)
        show(f"the message: {done.said()}")
        group.check_no_snapshot()
        for number in range(3):
            (mount / f"flood {number}").unlink()
        run("sync", "-f", mount.path)
        # All room of the group is given to a volume.
        run(*LVCREATE, "--extents", "100%FREE", "--name", "rest", GROUP)
        done = image("backup", ORIGIN, "--snapshot", "lvm")
        check(done.code == NOT_DONE and "cannot be held still" in done.err,
              "--snapshot lvm without room ends with exit code 12", done)
        show(f"the message: {done.said()}")
        done = image("backup", ORIGIN)
        check(done.code in (DONE, WARNED), "without --snapshot the backup goes on without room",
              done)
        done = image("backup", ORIGIN, "--snapshot", "off")
        check(done.code in (DONE, WARNED), "--snapshot off needs no room", done)
    group.end()


def test_lvm_thin(scene):
    """A thin volume has snapshots, too, and two volumes are imaged side by side."""
    group = Group(scene.disk("volumes"))
    run(*LVCREATE, "--type", "thin-pool", "--size", "200M", "--name", "pool", GROUP)
    run(*LVCREATE, "--type", "thin", "--virtualsize", f"{VOLUME_BYTES}B", "--thinpool",
        "pool", "--name", "thin", GROUP)
    thin = f"/dev/{GROUP}/thin"
    run("mkfs.ext4", "-q", thin)
    with Mount(thin) as mount, Mount(ORIGIN) as other:
        make_tree(mount.path, "thin")
        make_tree(other.path, "thick")
        tree = manifest(mount.path)
        program = Writer(mount / "written")
        before = program.number()
        done = image("backup", thin, ORIGIN, "--snapshot", "lvm")
        after = program.number()
        program.end()
        check(done.code == DONE and done.out.count("snapshot") >= 2,
              "a thin volume and another one are imaged from snapshots", done)
        group.check_no_snapshot("both snapshots are gone")
    run("lvremove", "--yes", f"{GROUP}/thin", f"{GROUP}/pool")
    group.add("copy")
    restore(thin, COPY)
    check_restored_volume(tree, before, after)
    group.end()


THIN = f"/dev/{GROUP}/thin"
POOL_MAPPING = f"{GROUP}-pool-tpool"


def sectors_read():
    """Sectors that the pool has read of its disk since the start."""
    name = out("dmsetup", "info", "-c", "--noheadings", "-o", "blkdevname",
               f"{GROUP}-pool_tdata").strip()
    return int(pathlib.Path(f"/sys/block/{name}/stat").read_text().split()[2])


def write_thin(at, size, seed):
    with open(THIN, "r+b") as file:
        file.seek(at)
        file.write(noise(seed, size))
    run("sync", THIN)


def kept_snapshots():
    """Names and UUIDs of the snapshots that have stayed."""
    lines = out("lvs", "--noheadings", "-o", "lv_name,lv_uuid", GROUP).splitlines()
    return [tuple(line.split()) for line in lines if "holdfast-kept" in line]


def check_thin(text, changed, read_mib, *options):
    """Makes an image, which reads at most so much, and compares it with the volume."""
    before = sectors_read()
    done = image("backup", THIN, "--json", *options)
    read = (sectors_read() - before) * 512
    report = done.json() if done.code == DONE else {}
    figures = [report.get(key) for key in ("changed_parts", "bytes_before_dedup", "state")]
    check(figures[0] == changed and figures[1] <= read_mib * MIB and figures[2] == "snapshot",
          f"{text}: {figures}", done)
    # Tools of LVM and of udev read some blocks, too.
    check(read <= (read_mib + 2) * MIB, f"the pool has read {read // KIB} KiB")
    restored = FOLDER / "restored"
    restore(THIN, restored)
    check(are_same(THIN, restored), "every byte is that of the volume")
    restored.unlink()
    status = out("dmsetup", "status", POOL_MAPPING).split()
    check(status[6] == "-", "the metadata of the pool are released", status)
    return done


def test_lvm_thin_kept(scene):
    """Of a thin volume only what has changed is read, if the last snapshot was kept."""
    group = Group(scene.disk("volumes"), 16 * MIB)
    run(*LVCREATE, "--type", "thin-pool", "--size", "300M", "--name", "pool", GROUP)
    run(*LVCREATE, "--type", "thin", "--virtualsize", "256M", "--thinpool", "pool", "--name",
        "thin", GROUP)
    # Of four parts of 64 MiB, the third one has no block.
    for part, size in ((0, 16 * MIB), (1, 8 * MIB), (3, 8 * MIB)):
        write_thin(part * 64 * MIB, size, part)
    check_thin("the first image has what the pool has", 4, 32, "--keep-snapshot")
    first = kept_snapshots()
    check([name for name, _ in first] == ["holdfast-kept-thin"], "its snapshot stays", first)
    active = out("dmsetup", "ls")
    check("kept" not in active, "and is not active", active)
    check_thin("nothing is read of a volume that did not change", 0, 0, "--keep-snapshot")
    write_thin(64 * MIB + 4 * MIB, 64 * KIB, "changed")
    write_thin(160 * MIB, 64 * KIB, "new")
    run("blkdiscard", "--offset", 194 * MIB, "--length", 2 * MIB, THIN)
    check_thin("three parts have changed, one by a discard", 3, 15, "--keep-snapshot")
    check(len(kept_snapshots()) == 1 and kept_snapshots() != first,
          "the newer snapshot has replaced the older one", kept_snapshots())
    check_thin_interrupted()
    check_thin_doubts(group)
    check_thin("without the option nothing is believed", 0, 32)
    check(not kept_snapshots(), "and the kept snapshot is removed", kept_snapshots())
    group.check_no_snapshot()
    run("lvremove", "--yes", f"{GROUP}/thin", f"{GROUP}/pool")
    group.end()


def check_thin_interrupted():
    """An image that is not made leaves the snapshot of the last one."""
    kept = kept_snapshots()
    write_thin(0, 16 * MIB, "interrupted")
    work = Work("backup", THIN, "--keep-snapshot", "--rate", "1M")
    wait_for("the snapshot", lambda: "holdfast-snapshot" in out("lvs", GROUP))
    time.sleep(2)
    done = work.end(signal.SIGINT)
    check(done.code == NOT_DONE and kept_snapshots() == kept,
          "after SIGINT the last image's snapshot is there, and no other", kept_snapshots())
    check("holdfast-snapshot" not in out("lvs", GROUP), "the new one is gone")
    check_thin("the next image has the changes", 1, 16, "--keep-snapshot")


def check_thin_doubts(group):
    """Everything is read if nobody knows what has changed, or if the last image is another one."""
    tool = pathlib.Path(shutil.which("thin_delta"))
    away = tool.with_name("thin_delta.away")
    tool.rename(away)
    done = check_thin("without thin_delta everything is read", 0, 300, "--keep-snapshot")
    away.rename(tool)
    check("thin-provisioning-tools" in done.err, "and a line says so", done.err)
    run("dmsetup", "message", POOL_MAPPING, "0", "reserve_metadata_snap")
    done = image("backup", THIN, "--keep-snapshot")
    check(done.code == DONE and "nobody knows what has changed" in done.err,
          "metadata that somebody else has reserved are left alone", done)
    run("dmsetup", "message", POOL_MAPPING, "0", "release_metadata_snap")
    back_up(THIN, "--name", "other", "--keep-snapshot")
    write_thin(64 * MIB, 64 * KIB, "another")
    check_thin("the snapshot of another image is not believed", 1, 32, "--keep-snapshot")
    group.check_no_snapshot("no other snapshot is left")


def test_lvm_names(scene):
    """A logical volume is recognised by each of its names."""
    group = Group(scene.disk("volumes"))
    settle()
    with Mount(ORIGIN) as mount:
        uuid = out("blkid", "-s", "UUID", "-o", "value", ORIGIN).strip()
        for name in (ORIGIN, f"/dev/mapper/{GROUP}-origin", mount.path,
                     pathlib.Path(ORIGIN).resolve(), f"/dev/disk/by-uuid/{uuid}",
                     f"/dev/disk/by-id/dm-name-{GROUP}-origin"):
            report = back_up(name, codes=(DONE, WARNED))
            check(report["state"] == "snapshot", f"{name} is imaged from a snapshot", report)
            group.remove_snapshots()
    group.end()


def test_lvm_xfs(scene):
    """A volume with xfs is imaged from a snapshot, too."""
    group = Group(scene.disk("volumes"), 300 * MIB)
    run("mkfs.xfs", "-q", "-f", ORIGIN)
    with Mount(ORIGIN) as mount:
        make_tree(mount.path, "xfs")
        leave_content(mount)
        tree = manifest(mount.path)
        program = Writer(mount / "written")
        before = program.number()
        everything = back_up(ORIGIN, "--all-blocks", codes=(DONE, WARNED))
        report = back_up(ORIGIN, codes=(DONE, WARNED))
        after = program.number()
        program.end()
        check(report["state"] == "snapshot", "the image is a snapshot", report)
        group.check_no_snapshot()
    group.end()
    sizes = [made["data_bytes"] // MIB for made in (report, everything)]
    check(sizes[0] + 24 < sizes[1], f"free blocks are left out: {sizes} MiB have data")
    target = FOLDER / "restored"
    restore(ORIGIN, target)
    with Mount(target, "loop") as mount:
        check_files(mount, tree, before, after)
    done = run("xfs_repair", "-n", "-f", target, codes=None)
    check(done.code == 0, "xfs_repair -n finds nothing after a mount", done)
    target.unlink()


def test_lvm_inside(scene):
    """Files come out of the volumes in the image of a disk, which is in use at the same time."""
    disk = scene.disk("volumes")
    group = Group(disk)
    group.add("between", 8 * MIB)
    # The second segment of the volume follows another volume.
    run("lvextend", "--size", "+64M", ORIGIN)
    run("mkfs.ext4", "-q", "-F", ORIGIN)
    with Mount(ORIGIN) as mount:
        make_tree(mount.path, "inside", 20 * MIB)
        tree = manifest(mount.path)
    run(*LVCREATE, "--snapshot", "--size", "8M", "--name", "snap", ORIGIN)
    run(*LVCREATE, "--type", "thin-pool", "--size", "40M", "--name", "pool", GROUP)
    run(*LVCREATE, "--type", "thin", "--virtualsize", "80M", "--thinpool", "pool", "--name", "thin",
        GROUP)
    settle()
    back_up(disk, codes=(DONE, WARNED))
    done = image("files", disk)
    named = all(words in done.err for words in (
        f"{GROUP}/origin (192 MiB)", f"{GROUP}/snap (8 MiB; it is a snapshot)",
        f"{GROUP}/thin (80 MiB; it is a thin volume)"))
    check(done.code == NOT_DONE and named, "the volumes are listed, with the reasons against some",
          done)
    done = image("files", disk, "--partition", f"{GROUP}/thin")
    check(done.code == NOT_DONE and "thin volume" in done.err, "a thin volume gives no files", done)
    target = FOLDER / "inside"
    mapped = out("dmsetup", "ls")
    events = FOLDER / "events"
    monitor = start("udevadm", "monitor", "--udev", "--property", "--subsystem-match=block",
                    stdout=open(events, "w"))
    time.sleep(1)
    done = image("extract", disk, "/", "--partition", f"{GROUP}/origin", "--to", target)
    check(done.code == DONE, "the root directory of a volume of two segments is copied", done)
    settle()
    time.sleep(1)
    # It writes its buffer when it ends in order.
    monitor.terminate()
    monitor.wait()
    seen = [event for event in events.read_text().split("\n\n") if "DEVNAME=/dev/loop" in event]
    check(seen and not any("LVM2_member" in event for event in seen),
          "udev sees a loop device, and no physical volume in it", seen)
    check_trees(tree, manifest(target), "all files of the volume are as they were")
    check(out("dmsetup", "ls") == mapped, "device mapper of this machine has what it had", mapped)
    shutil.rmtree(target)
    group.end()


def test_bad_sectors(scene):
    """Sectors that cannot be read are named, and everything else is right."""
    disk = scene.disk("small")
    content = noise("bad", 16 * MIB)
    with open(disk, "wb") as file:
        file.write(content)
    # Bytes from 5 MiB on, 64 KiB long, and one sector that is no whole block.
    holes = [(5 * MIB, 64 * KIB), (9 * MIB + 1001 * 512, 512)]
    lines, at = [], 0
    for start, length in holes:
        lines.append(f"{at // 512} {(start - at) // 512} linear {disk} {at // 512}")
        lines.append(f"{start // 512} {length // 512} error")
        at = start + length
    lines.append(f"{at // 512} {(len(content) - at) // 512} linear {disk} {at // 512}")
    bad = make_mapping("bad", lines)
    done = image("backup", bad)
    check(done.code == NOT_DONE and f"at offset {holes[0][0]}" in done.err,
          "the backup ends at the first error, and names it", done)
    show(f"the message: {done.said()}")
    check("bad" not in listed(), "no image was made")
    # Whole blocks of 4 KiB are left out.
    second = holes[1][0] // 4096 * 4096
    expected = [{"offset": 5 * MIB, "bytes": 64 * KIB}, {"offset": second, "bytes": 4096}]
    done = image("backup", bad, "--skip-errors", "--json")
    check(done.code == FAILED and done.json()["unreadable"] == expected,
          "--skip-errors ends with exit code 4 and reports the ranges", done)
    found = listed(bad)
    check("68.00 KB unreadable" in found, "the list shows how much could not be read", found)
    target = FOLDER / "bad-restored"
    done = restore(bad, target)
    for hole in expected:
        start, end = hole["offset"], hole["offset"] + hole["bytes"]
        content = content[:start] + bytes(end - start) + content[end:]
    check(done.code == DONE and target.read_bytes() == content,
          "the restored file has zeros there, and every other byte", done)
    target.unlink()
    done = image("verify", bad)
    check(done.code == DONE, "what the image has is whole", done)
    run("dmsetup", "remove", bad)
    check_bad_free_blocks(disk)


def make_mapping(name, lines):
    table = FOLDER / "table"
    table.write_text("\n".join(lines) + "\n")
    run("dmsetup", "create", name, table)
    settle()
    return f"/dev/mapper/{name}"


def check_bad_free_blocks(disk):
    """Errors in blocks that the file system does not use do not matter."""
    run("mkfs.ext4", "-q", "-F", "-b", "1024", "-E", "lazy_itable_init=0", disk, "64M")
    with Mount(disk) as mount:
        make_tree(mount.path, "around", MIB)
        tree = manifest(mount.path)
    free = out("dumpe2fs", disk).split("Free blocks:")
    # The last group has free blocks at its end.
    start = int(free[-1].split("\n")[0].split(",")[-1].strip().split("-")[0])
    # In sectors; the blocks of the file system have 1 KiB. The end is left, where blkid looks.
    first, end = (start // 4 + 1) * 8, 60 * MIB // 512
    lines = [f"0 {first} linear {disk} 0", f"{first} {end - first} error",
             f"{end} {4 * MIB // 512} linear {disk} {end}"]
    bad = make_mapping("free", lines)
    done = image("backup", bad)
    check(done.code == DONE, f"errors in {(end - first) // 2048} MiB of free blocks do not matter",
          done)
    done = image("backup", bad, "--all-blocks")
    check(done.code == NOT_DONE, "with --all-blocks they do", done)
    target = FOLDER / "free-restored"
    restore(bad, target)
    with Mount(target, "ro", "loop") as mount:
        check_trees(tree, manifest(mount.path), "the files come back")
    target.unlink()
    run("dmsetup", "remove", bad)


def test_odd_size(scene):
    """A mounted device whose size is no multiple of 4 KiB is read as it is on the disk."""
    # The end is read with all but the first block of its MiB.
    sectors = (24 * MIB - 4 * KIB) // 512 + 1
    lines = [f"0 {sectors} linear {scene.disk('small')} 0"]
    odd = make_mapping("odd", lines)
    run("mkfs.ext4", "-q", "-F", "-b", "4096", "-m", "0", "-N", "16", "-O", "^has_journal",
        "-E", "lazy_itable_init=0", odd)
    with Mount(odd) as mount:
        # A file fills the file system up to its end.
        name = pathlib.Path(odd).resolve().name
        pathlib.Path(f"/sys/fs/ext4/{name}/reserved_clusters").write_text("0")
        path = mount / "file"
        with open(path, "wb", buffering=0) as file:
            try:
                while file.write(b"\x5a" * 64 * KIB):
                    pass
            except OSError:
                pass
        size = path.stat().st_size
        run("sync", "-f", mount.path)
        # The kernel keeps what other programs have read of the device.
        run("dd", f"if={odd}", "of=/dev/null", "bs=1M")
        content = noise("new", size)
        with open(path, "r+b") as file:
            file.write(content)
        run("sync", "-f", mount.path)
        report = back_up(odd)
        check(report["state"] == "unchanged", "nobody writes while the image is made", report)
    target = FOLDER / "odd-restored"
    restore(odd, target)
    check(target.stat().st_size == sectors * 512, "the restored file has the size")
    with Mount(target, "ro", "loop") as mount:
        found = (mount / "file").read_bytes()
        wrong = [at for at in range(0, size, 4096) if found[at:at + 4096] != content[at:at + 4096]]
        check(not wrong, "the file has the content that was written last",
              f"{len(wrong)} blocks of 4 KiB are older, from offset {wrong[:1]} on")
    target.unlink()
    run("dmsetup", "remove", odd)
