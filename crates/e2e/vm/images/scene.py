"""A server of Holdfast, its node, disks, and trees of files whose every attribute is compared."""

import hashlib
import json
import os
import pathlib
import random
import signal
import stat
import subprocess
import time

HOLDFAST = os.environ.get("HOLDFAST_PROGRAM", "/job/holdfast")
FOLDER = pathlib.Path(os.environ.get("HOLDFAST_FOLDER", "/srv"))
PORT = int(os.environ.get("HOLDFAST_PORT", "7002"))
KIB, MIB = 1 << 10, 1 << 20
PATIENCE_SECS = 240
# Exit codes of the program.
DONE, FAILED, WARNED, NOT_DONE = 0, 4, 8, 12
os.environ["HOLDFAST_HOME"] = str(FOLDER / "home")


class Failure(Exception):
    """A step without which a test cannot go on."""


class Verdicts:
    """The checks of a test, each of which has a line of its own."""

    failed = []

    @classmethod
    def check(cls, holds, text, found=""):
        """Prints whether something holds. The test goes on in any case."""
        print(f"    {'ok    ' if holds else 'FAILED'} {text}", flush=True)
        if not holds:
            cls.failed.append(text)
            if found:
                print(f"           found: {found}", flush=True)
        return holds


check = Verdicts.check


def show(text):
    print(f"           {text}", flush=True)


class Result:
    """A command that has ended."""

    def __init__(self, words, code, out, err):
        self.words, self.code, self.out, self.err = words, code, out, err

    def json(self):
        return json.loads(self.out)

    def said(self):
        """Everything that was printed, on one line."""
        return " | ".join(line.strip() for line in (self.out + self.err).splitlines())

    def __str__(self):
        return f"exit code {self.code}: {self.said()}"


def run(*words, secs=PATIENCE_SECS, codes=(0,)):
    """Runs a command to its end. Another exit code than these ends the test."""
    words = [str(word) for word in words]
    done = subprocess.run(words, capture_output=True, text=True, timeout=secs,
                          stdin=subprocess.DEVNULL)
    result = Result(words, done.returncode, done.stdout, done.stderr)
    if codes is not None and result.code not in codes:
        raise Failure(f"{' '.join(words)}: {result}")
    return result


def out(*words):
    return run(*words).out


def image(*words, codes=None):
    """Runs `holdfast image`. The caller checks the exit code, unless it gives some."""
    return run(HOLDFAST, "image", *words, codes=codes)


def back_up(source, *options, codes=(DONE,)):
    """Makes an image; returns its report."""
    return image("backup", source, "--json", *options, codes=codes).json()


def listed(*words):
    return image("list", *words, codes=(DONE,)).out


def restore(name, target, *options):
    return image("restore", name, target, "--confirm", *options)


# Programs that run beside a test.
beside = []


def start(*words, **options):
    """Starts a program, which ends with the test at the latest."""
    process = subprocess.Popen([str(word) for word in words], stdin=subprocess.DEVNULL, **options)
    beside.append(process)
    return process


class Work:
    """A command of Holdfast that runs beside the test."""

    def __init__(self, *words):
        self.words = [HOLDFAST, "image", *words]
        self.process = start(*self.words, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.pid = self.process.pid

    def is_running(self):
        return self.process.poll() is None

    def end(self, with_signal=None):
        """Waits for the end; tells the process to end before, if a signal is given."""
        if with_signal is not None:
            self.process.send_signal(with_signal)
        printed, said = self.process.communicate(timeout=PATIENCE_SECS)
        return Result(self.words, self.process.returncode, printed, said)


def wait_for(what, ready, secs=PATIENCE_SECS):
    """Waits until `ready` returns something true, and returns it."""
    end = time.monotonic() + secs
    while time.monotonic() < end:
        if found := ready():
            return found
        time.sleep(0.1)
    raise Failure(f"waited {secs} s in vain for {what}")


def noise(seed, size):
    return random.Random(seed).randbytes(size)


def sha(content):
    return hashlib.sha256(content).hexdigest()


class Server:
    """The server of Holdfast, and this machine as its node."""

    def __init__(self):
        FOLDER.mkdir(exist_ok=True)
        folder, self.log = FOLDER / "server", FOLDER / "server.log"
        run(HOLDFAST, "server", "init", folder, "--listen", f"127.0.0.1:{PORT}")
        words = [HOLDFAST, "server", "run", str(folder)]
        self.process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True,
                                        stderr=open(self.log, "ab"))
        line = self.process.stdout.readline()
        if "ready on" not in line:
            raise Failure(f"the server is not ready: {line}{self.log.read_text()}")
        token = out(HOLDFAST, "admin", "--server", folder, "node", "add", "images")
        token = token.split("--token ")[1].split()[0]
        run(HOLDFAST, "enroll", f"127.0.0.1:{PORT}", "--token", token)

    def end(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(PATIENCE_SECS)


def size_of(device):
    with open(device, "rb") as file:
        return file.seek(0, os.SEEK_END)


def pieces(file, length=None):
    """Reads a file in pieces of one MiB, up to `length` bytes."""
    left = length
    while left is None or left > 0:
        piece = file.read(MIB if left is None else min(MIB, left))
        if not piece:
            return
        left = None if left is None else left - len(piece)
        yield piece


def digest(path, offset=0, length=None):
    """Digest of a range of a device, as it is on the disk."""
    flush(path)
    found, zeros = hashlib.sha256(), bytes(MIB)
    with open(path, "rb") as file:
        file.seek(offset)
        for number, piece in enumerate(pieces(file, length)):
            # A processor that is emulated is slow, and most of the disks is empty.
            if piece != zeros[:len(piece)]:
                found.update(number.to_bytes(8, "big") + piece)
    return found.hexdigest()


def flush(path):
    """Writes what the kernel has in memory for a device, and makes it read the disk again."""
    os.sync()
    run("blockdev", "--flushbufs", path, codes=None)


def are_same(one, other):
    """Compares every byte of two devices or files."""
    flush(one)
    flush(other)
    with open(one, "rb") as first, open(other, "rb") as second:
        for piece in pieces(first):
            if piece != second.read(len(piece)):
                return False
        return second.read(1) == b""


def fill(device, byte=0xa5):
    """Overwrites a device, so that everything is noticed that a restore leaves out."""
    left, piece = size_of(device), bytes([byte]) * MIB
    with open(device, "wb") as file:
        while left > 0:
            left -= file.write(piece[:left])
        os.fsync(file.fileno())


def settle():
    """Waits until udev has looked at all disks."""
    run("udevadm", "settle")


class Mount:
    """A mounted file system, for a `with` statement."""

    count = 0

    def __init__(self, device, *options):
        Mount.count += 1
        self.path = pathlib.Path(f"/mnt/{Mount.count}")
        self.path.mkdir(parents=True)
        words = ["-o", ",".join(options)] if options else []
        run("mount", *words, device, self.path)

    def __truediv__(self, name):
        return self.path / name

    def end(self):
        run("umount", self.path)

    def __enter__(self):
        return self

    def __exit__(self, error, *_):
        # After a failure a program may still use it: `tidy` unmounts it later.
        if error is None:
            self.end()


def tidy(disks):
    """Ends what a failed test has left, so that the next test finds empty disks."""
    while beside:
        process = beside.pop()
        process.kill()
        process.wait()
    for mount in sorted(pathlib.Path("/mnt").iterdir()):
        run("umount", "--lazy", mount, codes=None)
    run("swapoff", "--all", codes=None)
    for group in out("vgs", "--noheadings", "-o", "vg_name").split():
        run("vgremove", "--force", "--yes", group, codes=None)
    for name in out("dmsetup", "ls").splitlines():
        run("dmsetup", "remove", "--retry", name.split()[0], codes=None)
    run("mdadm", "--stop", "--scan", codes=None)
    run("losetup", "--detach-all", codes=None)
    for disk in disks:
        run("blkdiscard", "--force", disk)
        run("blockdev", "--rereadpt", disk)
    settle()


def make_tree(root, seed, size=3 * MIB):
    """Makes files with all kinds of attributes."""
    folder = root / "folder" / "sub"
    folder.mkdir(parents=True)
    for number in range(24):
        path = folder / f"file {number}"
        path.write_bytes(noise(f"{seed}{number}", number * number * 97))
        os.chmod(path, 0o600 + number % 8 * 8 + number % 5)
        os.chown(path, 1000 + number, 2000 + number)
    (root / "large").write_bytes(noise(f"{seed} large", size + 5))
    with open(root / "sparse", "wb") as file:
        file.seek(5 * MIB)
        file.write(b"end")
    os.link(root / "large", folder / "hard link")
    os.symlink("../large", root / "folder" / "link")
    os.mkfifo(root / "fifo", 0o640)
    os.mknod(root / "device", stat.S_IFCHR | 0o600, os.makedev(1, 3))
    special = root / "special"
    special.write_bytes(noise(f"{seed} special", 70_001))
    os.chown(special, 1234, 4321)
    os.chmod(special, 0o4750)
    os.setxattr(special, "user.note", b"a note \x00\xff")
    os.setxattr(special, "trusted.mark", b"for root")
    run("setfacl", "-m", "u:1001:rwx,g:1002:r--", special)
    run("setfacl", "-d", "-m", "u:1003:r-x", folder)
    for number, path in enumerate(sorted(root.rglob("*"))):
        moment = (1_600_000_000 + number) * 10**9 + 123_456_789
        os.utime(path, ns=(moment, moment), follow_symlinks=False)
    os.sync()


def leave_content(mount):
    """Leaves 32 MiB of content in free blocks, so that an image which reads them has more data."""
    path = mount / "removed"
    path.write_bytes(b"\x5a" * 32 * MIB)
    run("sync", "-f", mount.path)
    path.unlink()
    run("sync", "-f", mount.path)


def facts(path):
    """All that is compared of one object: everything but its times of access and of change."""
    found = os.lstat(path)
    kind = stat.S_IFMT(found.st_mode)
    try:
        names = sorted(os.listxattr(path, follow_symlinks=False))
    except OSError:  # The file system has none.
        names = []
    attributes = {name: os.getxattr(path, name, follow_symlinks=False) for name in names}
    content = None
    if kind == stat.S_IFREG:
        content = sha(path.read_bytes())
    elif kind == stat.S_IFLNK:
        content = os.readlink(path)
    size = found.st_size if kind in (stat.S_IFREG, stat.S_IFLNK) else 0
    links = found.st_nlink if kind == stat.S_IFREG else 0
    return {
        "mode": oct(found.st_mode), "owner": (found.st_uid, found.st_gid), "size": size,
        "links": links, "time": found.st_mtime_ns, "device": found.st_rdev,
        "attributes": attributes, "content": content,
    }


def manifest(root):
    """The facts about all objects below a folder, by their names."""
    root = pathlib.Path(root)
    return {str(path.relative_to(root)): facts(path) for path in sorted(root.rglob("*"))}


def differences(one, other):
    """Names of the objects that differ in two manifests, with what differs."""
    found = []
    for name in sorted(set(one) | set(other)):
        if name not in one or name not in other:
            found.append(f"{name}: only in {'the first' if name in one else 'the second'}")
            continue
        differs = [key for key in one[name] if one[name][key] != other[name][key]]
        found += [f"{name}: {', '.join(differs)}"] if differs else []
    return found


def check_trees(one, other, text):
    found = differences(one, other)
    check(one and not found, f"{text} ({len(one)} objects)", found[:5])


def release():
    return os.uname().release
