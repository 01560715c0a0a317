"""Images of the disk of a running virtual machine: running.py SYSTEM [PART_OF_THE_NAME]...

SYSTEM is the folder of a system that `.ci/vm/boot -s` has printed. Runs as root on the machine of
the contributor, whose kernel needs btrfs and loop devices for the snapshot by reflink.
"""

import sys
import time

import machine
import scene
from scene import DONE, FOLDER, MIB, check, image, restore, run, show, wait_for

MOUNT = FOLDER / "btrfs"
BTRFS_BYTES = 12 << 30
# Files that the machine has to write before and while an image is made.
FILES_BEFORE, FILES_WHILE = 10, 3


def test_running_machine():
    """The disk of a machine is imaged while the machine writes, and boots after a restore."""
    disk = MOUNT / "disk"
    machine.make_disk(sys.argv[1], disk)
    running = machine.Machine(disk, "raw", FOLDER, "original")
    try:
        running.wait_for_line("booted from /dev/vda2")
        running.wait_for_line("found 0 whole, 0 broken, newest -1")
        show("the machine has booted from its disk, and writes files")
        wait_for("files of the machine", lambda: running.number() >= FILES_BEFORE)
        images = {"/machine/reflink": from_reflink(running, disk),
                  "/machine/export": from_export(running)}
    finally:
        running.end()
    disk.unlink()
    for name, numbers in images.items():
        check_boot(name, *numbers)


def backed_up(running, source, name, state, *options):
    """Makes an image; returns the numbers of the files before and after it."""
    before = running.number()
    done = image("backup", source, "--name", name, "--rate", "100M", "--json", *options)
    wait_for("more files", lambda: running.number() >= before + FILES_WHILE)
    after = running.number()
    is_made = check(done.code == DONE and done.json()["state"] == state,
                    f"{name}: the image is made, its state is {state}", done)
    if is_made:
        report = done.json()
        show(f"{report['data_bytes'] // MIB} MiB of {report['bytes'] // MIB} MiB have data; files "
             f"{before + 1} to {after} were written meanwhile; {report['elapsed_secs']:.0f} s")
    return before, after


def from_reflink(running, disk):
    return backed_up(running, disk, "/machine/reflink", "snapshot", "--snapshot", "reflink")


def from_export(running):
    """QEMU keeps the old content of what the machine overwrites, and exports the moment."""
    overlay, socket = FOLDER / "overlay.qcow2", FOLDER / "export"
    size = running.monitor.do("query-named-block-nodes")
    size = next(node["image"]["virtual-size"] for node in size if node["node-name"] == "disk")
    run("qemu-img", "create", "-q", "-f", "qcow2", overlay, str(size))
    do = running.monitor.do
    do("blockdev-add", **{"node-name": "overlay", "driver": "qcow2", "backing": "disk",
                          "file": {"driver": "file", "filename": str(overlay)}})
    do("blockdev-backup", **{"job-id": "moment", "device": "disk", "target": "overlay",
                             "sync": "none"})
    do("nbd-server-start", addr={"type": "unix", "data": {"path": str(socket)}})
    do("block-export-add", **{"type": "nbd", "id": "export", "node-name": "overlay",
                              "name": "disk0", "writable": False})
    numbers = backed_up(running, f"nbd+unix:///disk0?socket={socket}", "/machine/export",
                        "unchanged")
    do("nbd-server-stop")
    do("block-job-cancel", device="moment")
    wait_for("the end of the job", lambda: not do("query-jobs"), 60)
    do("blockdev-del", **{"node-name": "overlay"})
    overlay.unlink()
    return numbers


def check_boot(name, before, after):
    """The restored disk boots, and has the files of one moment between the two numbers."""
    disk = FOLDER / "restored"
    done = restore(name, disk)
    check(done.code == DONE, f"{name}: the image is restored to a new file", done)
    restored = machine.Machine(disk, "raw", FOLDER, name.replace("/", "-"))
    try:
        restored.wait_for_line("booted from /dev/vda2")
        found = restored.wait_for_line(r"found (\d+) whole, (\d+) broken, newest (-?\d+)")
        check(True, "the restored disk boots")
        check("the journal was replayed" in restored.lines(), "its journal was replayed")
        whole, broken, newest = map(int, found.groups())
        check(broken == 0 and whole == newest + 1 and before <= newest <= after,
              f"it has {whole} whole files: all that were durable before file {newest}, which is "
              f"one of the files {before} to {after}", found.group(0))
        restored.wait_for_line(f"durable {newest + 1}")
        check(True, "it goes on writing files")
    finally:
        restored.end()
    disk.unlink()


def main(words):
    name = test_running_machine.__name__
    if words and not any(word in name for word in words):
        return 0
    began = time.monotonic()
    print(f"{name}: {test_running_machine.__doc__}", flush=True)
    MOUNT.mkdir(parents=True)
    with open(FOLDER / "btrfs.disk", "wb") as file:
        file.truncate(BTRFS_BYTES)
    run("mkfs.btrfs", "-q", FOLDER / "btrfs.disk")
    server = scene.Server()
    run("mount", "-o", "loop", FOLDER / "btrfs.disk", MOUNT)
    try:
        test_running_machine()
    except Exception as error:
        check(False, f"the test went to its end: {type(error).__name__}: {error}")
    finally:
        run("umount", MOUNT)
        server.end()
    failed = scene.Verdicts.failed
    print(f"  {f'{len(failed)} checks FAILED' if failed else 'ok'} "
          f"({time.monotonic() - began:.0f} s)", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[2:]))
