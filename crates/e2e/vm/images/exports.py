"""Disks of virtual machines, through the kernel's network block devices and without them."""

import os

from scene import (
    DONE, FOLDER, MIB, Mount, are_same, back_up, check, check_trees, image, leave_content,
    make_tree, manifest, out, restore, run, settle, start, wait_for,
)

DEVICE, PORT = "/dev/nbd0", 10809
DISK_BYTES = 96 * MIB
URL = f"nbd://127.0.0.1:{PORT}/disk"


def attach(path, kind, *options):
    """Makes /dev/nbd0 the disk in a file."""
    run("qemu-nbd", "--connect", DEVICE, "--format", kind, *options, path)
    wait_for(DEVICE, lambda: int(open("/sys/block/nbd0/size").read()) > 0)
    settle()


def detach():
    run("qemu-nbd", "--disconnect", DEVICE)
    wait_for(f"the end of {DEVICE}", lambda: not os.path.exists("/sys/block/nbd0/pid"))
    settle()


def serve(path, kind):
    """Exports the disk in a file by the network; returns the process."""
    process = start("qemu-nbd", "--read-only", "--persistent", "--shared=0", "--bind=127.0.0.1",
                    f"--port={PORT}", "--export-name=disk", "--format", kind, path)
    wait_for("the export", lambda: f":{PORT} " in out("ss", "-tln"))
    return process


def test_nbd(scene):
    """The kernel's network block device and the address of an export give the same image."""
    run("modprobe", "nbd")
    for kind in ("qcow2", "raw"):
        path = FOLDER / f"disk.{kind}"
        run("qemu-img", "create", "-q", "-f", kind, path, str(DISK_BYTES))
        attach(path, kind)
        run("mkfs.ext4", "-q", DEVICE)
        with Mount(DEVICE) as mount:
            make_tree(mount.path, kind)
            leave_content(mount)
            tree = manifest(mount.path)
        first = back_up(DEVICE, "--name", f"/kernel/{kind}", "--all-blocks")
        used = back_up(DEVICE, "--name", f"/used/{kind}")
        check(used["data_bytes"] < first["data_bytes"] - 30 * MIB and used["state"] == "unchanged",
              f"{kind}: an image of {DEVICE} leaves out free blocks", used)
        done = image("verify", f"/used/{kind}", "--against", DEVICE)
        check(done.code == DONE, f"{DEVICE} has the content of its image", done)
        detach()
        check_export(path, kind, tree, first)
        path.unlink()


def check_export(path, kind, tree, first):
    process = serve(path, kind)
    report = back_up(URL, "--name", f"/network/{kind}")
    check(report["state"] == "unchanged" and report["bytes_after_dedup"] == 0,
          f"{kind}: an image of {URL} finds all its data at the server", report)
    check(report["data_bytes"] == first["data_bytes"],
          f"both have the same {first['data_bytes'] // 1024} KiB of data", report)
    process.terminate()
    process.wait()
    one, other, direct = FOLDER / "one", FOLDER / "other", FOLDER / "direct"
    report = back_up(path, "--name", f"/file/{kind}")
    check(report["bytes_after_dedup"] == 0, "an image of the file has the same data, too", report)
    restore(f"/kernel/{kind}", one)
    restore(f"/network/{kind}", other)
    restore(f"/file/{kind}", direct)
    check(are_same(one, other) and are_same(one, direct), "all three images give the same bytes")
    done = run("qemu-img", "compare", "-f", "raw", "-F", kind, one, path, codes=None)
    check(done.code == 0, "qemu-img compare finds no difference", done)
    for copy in (one, other, direct):
        copy.unlink()
    # A restore onto the device fills a new qcow2 file.
    new = FOLDER / "new.qcow2"
    run("qemu-img", "create", "-q", "-f", "qcow2", new, str(DISK_BYTES))
    attach(new, "qcow2", "--discard=unmap", "--detect-zeroes=unmap")
    done = restore(f"/kernel/{kind}", DEVICE)
    check(done.code == DONE, f"the image is restored to {DEVICE}", done)
    with Mount(DEVICE, "ro") as mount:
        check_trees(tree, manifest(mount.path), "it has the files")
    detach()
    done = run("qemu-img", "compare", "-f", "qcow2", "-F", kind, new, path, codes=None)
    check(done.code == 0, "the new qcow2 file has the same content", done)
    new.unlink()
