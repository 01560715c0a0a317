"""A virtual machine whose disk is imaged while it runs, restored, and booted.

The machine boots from its disk as a real one does: by the code in the first sector, a boot loader,
a kernel and its first files on one partition, and the system on another. Its service looks at
the files of the boot before, and then writes files for ever. It prints each number when the file is
durable.
"""

import json
import os
import pathlib
import re
import socket
import subprocess

from scene import Failure, MIB, run, wait_for

# Code for the first sector that starts the boot loader of the partition with the attribute 2.
BOOT_CODES = ("/usr/lib/syslinux/mbr/gptmbr.bin", "/usr/lib/SYSLINUX/gptmbr.bin")
BOOT_MIB, ROOT_START_MIB = 64, 66
SERVICE = pathlib.Path(__file__).with_name("guest")
LOADER = """\
DEFAULT linux
LABEL linux
  KERNEL kernel
  INITRD initrd
  APPEND root=/dev/vda2 rw console=ttyS0 quiet panic=5
"""
BOOT_SECS = 600


def make_disk(system, disk):
    """Makes the disk of a machine from the folder of a system that `.ci/vm/boot` has made."""
    system, disk = pathlib.Path(system), pathlib.Path(disk)
    root = disk.with_name("root")
    run("cp", "--sparse=always", system / "disk", root)
    fstab = disk.with_name("fstab")
    fstab.write_text("/dev/vda2 / ext4 defaults,noatime 0 1\n")
    # The service of the system runs the job of the disk /dev/vdb, which this machine does not have.
    for source, target, mode in ((SERVICE, "/usr/local/sbin/job", 0o100755),
                                 (fstab, "/etc/fstab", 0o100644)):
        for request in (f"rm {target}", f"write {source} {target}",
                        f"set_inode_field {target} mode 0{mode:o}"):
            run("debugfs", "-w", "-R", request, root)
    root_mib = root.stat().st_size // MIB
    with open(disk, "wb") as file:
        file.truncate((ROOT_START_MIB + root_mib + 2) * MIB)
    table = (f"label: gpt\nstart={MIB // 512}, size={BOOT_MIB * MIB // 512}, type=uefi, "
             f'attrs=LegacyBIOSBootable\nstart={ROOT_START_MIB * MIB // 512}, '
             f"size={root_mib * MIB // 512}, type=linux\n")
    subprocess.run(["sfdisk", "--quiet", str(disk)], input=table, text=True, check=True)
    code = next((name for name in BOOT_CODES if os.path.exists(name)), None)
    if code is None:
        raise Failure("gptmbr.bin of syslinux is missing")
    run("dd", f"if={code}", f"of={disk}", "bs=440", "count=1", "conv=notrunc")
    make_boot_partition(system, disk)
    run("dd", f"if={root}", f"of={disk}", "bs=1M", f"seek={ROOT_START_MIB}", "conv=notrunc,sparse")
    root.unlink()


def make_boot_partition(system, disk):
    boot, loader = disk.with_name("boot"), disk.with_name("syslinux.cfg")
    with open(boot, "wb") as file:
        file.truncate(BOOT_MIB * MIB)
    loader.write_text(LOADER)
    run("mkfs.fat", "-F", "16", "-h", str(MIB // 512), boot)
    for source, name in ((system / "kernel", "kernel"), (system / "initrd", "initrd"),
                         (loader, "syslinux.cfg")):
        run("mcopy", "-i", boot, source, f"::{name}")
    run("syslinux", "--install", boot)
    run("dd", f"if={boot}", f"of={disk}", "bs=1M", "seek=1", "conv=notrunc")
    boot.unlink()


class Qmp:
    """The monitor of a running machine."""

    def __init__(self, path):
        self.socket = socket.socket(socket.AF_UNIX)
        wait_for("the monitor", lambda: os.path.exists(path), 60)
        self.socket.connect(str(path))
        self.socket.settimeout(120)
        self.file = self.socket.makefile("rw")
        self.read()
        self.do("qmp_capabilities")

    def read(self):
        return json.loads(self.file.readline())

    def do(self, command, **arguments):
        """Runs a command and waits for its answer."""
        request = {"execute": command, "arguments": arguments}
        self.file.write(json.dumps(request) + "\n")
        self.file.flush()
        while True:
            answer = self.read()
            if "error" in answer:
                raise Failure(f"{command}: {answer['error']['desc']}")
            if "return" in answer:
                return answer["return"]

    def wait_for_event(self, name):
        while True:
            answer = self.read()
            if answer.get("event") == name:
                return answer


class Machine:
    """A machine that runs from a disk."""

    def __init__(self, disk, kind, folder, name):
        self.printed = folder / f"{name}.out"
        self.console = folder / f"{name}.console"
        monitor = folder / f"{name}.monitor"
        words = [
            "qemu-system-x86_64", *accelerator(), "-m", "1024", "-smp", "2", "-display", "none",
            "-nic", "none", "-no-reboot", "-qmp", f"unix:{monitor},server=on,wait=off",
            "-blockdev", f"driver=file,filename={disk},node-name=file",
            "-blockdev", f"driver={kind},file=file,node-name=disk",
            "-device", "virtio-blk-pci,drive=disk",
            "-serial", f"file:{self.console}", "-serial", f"file:{self.printed}",
        ]
        self.process = subprocess.Popen(words, stdin=subprocess.DEVNULL)
        self.monitor = Qmp(monitor)

    def lines(self):
        """Whole lines that the service has printed."""
        if not self.printed.exists():
            return []
        text = self.printed.read_text(errors="replace").replace("\r", "")
        return text.split("\n")[:-1]

    def wait_for_line(self, pattern, secs=BOOT_SECS):
        def found():
            if self.process.poll() is not None:
                raise Failure(f"the machine has ended: {self.console.read_text(errors='replace')}")
            return next((found for line in self.lines() if (found := re.match(pattern, line))),
                        None)
        return wait_for(f"the line '{pattern}' of the machine", found, secs)

    def number(self):
        """Number of the newest file that is durable."""
        written = [line.split()[1] for line in self.lines() if line.startswith("durable ")]
        return int(written[-1]) if written else -1

    def end(self):
        """Cuts the power."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()


def accelerator():
    if os.environ.get("HOLDFAST_KVM") == "yes":
        return ["-accel", "kvm", "-cpu", "max,-arch-capabilities"]
    return ["-accel", "tcg,thread=multi", "-cpu", "max"]
