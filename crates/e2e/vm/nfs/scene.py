"""A server of Holdfast, its node, managed file systems, and an NFS server that exports them.

Everything runs on one machine, whose NFS client mounts the exports by the loopback device.
"""

import hashlib
import json
import os
import pathlib
import random
import re
import signal
import subprocess
import sys
import time

JOB = pathlib.Path("/job")
HOLDFAST = str(JOB / "holdfast")
SERVER, PORT = "/srv/server", 7001
READER = str(pathlib.Path(__file__).with_name("reader.py"))
# Clients of the NFS server are forgotten, and give delegations back, after times that depend on it.
LEASE_SECS = 20
KIB, MIB = 1 << 10, 1 << 20
PATIENCE_SECS = 240
os.environ["HOLDFAST_HOME"] = "/srv/home"


class Failure(Exception):
    """A check that does not hold."""


def check(holds, text):
    if not holds:
        raise Failure(text)


def run(*words, secs=PATIENCE_SECS, codes=(0,)):
    """Runs a command, and returns its standard output."""
    words = [str(word) for word in words]
    done = subprocess.run(words, capture_output=True, text=True, timeout=secs)
    if codes is not None and done.returncode not in codes:
        raise Failure(f"{' '.join(words)}: exit code {done.returncode}: {done.stderr.strip()}")
    return done.stdout


def wait_for(what, ready, secs=PATIENCE_SECS):
    """Waits until `ready` returns something true, and returns it."""
    end = time.monotonic() + secs
    while time.monotonic() < end:
        if found := ready():
            return found
        time.sleep(0.2)
    raise Failure(f"waited {secs} s in vain for {what}")


def noise(seed, size):
    return random.Random(seed).randbytes(size)


def sha(content):
    return hashlib.sha256(content).hexdigest()


def processes(name):
    """Numbers of the processes and kernel threads with this name."""
    found = []
    for folder in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            if (folder / "comm").read_text().strip() == name:
                found.append(int(folder.name))
        except OSError:
            pass
    return found


def waiting(name):
    """Number of the kernel threads with this name that wait for an answer of Holdfast."""
    count = 0
    for pid in processes(name):
        try:
            count += "fanotify" in pathlib.Path(f"/proc/{pid}/stack").read_text()
        except OSError:
            pass
    return count


class Server:
    """The server of Holdfast."""

    def __init__(self):
        run(HOLDFAST, "server", "init", SERVER, "--listen", f"127.0.0.1:{PORT}")
        self.start()

    def start(self):
        log = open("/srv/server.log", "ab")
        words = [HOLDFAST, "server", "run", SERVER]
        self.process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=log, text=True)
        line = self.process.stdout.readline()
        check("ready on" in line, f"the server is not ready: {line}")

    def freeze(self):
        self.process.send_signal(signal.SIGSTOP)

    def thaw(self):
        self.process.send_signal(signal.SIGCONT)

    def kill(self):
        self.process.kill()
        self.process.wait()


class FileSystem:
    """A managed file system, as the server of NFS sees it."""

    def __init__(self, kind, mkfs):
        self.kind = kind
        self.path = pathlib.Path(f"/data/{kind}")
        image = f"/srv/{kind}.image"
        self.path.mkdir(parents=True)
        with open(image, "wb") as file:
            file.truncate(400 * MIB)
        run(*mkfs, image)
        run("mount", "-o", "loop", image, self.path)

    def add(self, *options):
        run(HOLDFAST, "hsm", "add", self.path, *options)

    def write(self, name, content, migrate=True):
        path = self.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        if migrate:
            self.migrate(name)
        return content

    def migrate(self, name):
        """Migrates a file or a folder; fails if anything stays.

        A client that has read a file may have a delegation, which it gives back when asked.
        """
        wait_for(f"{name} to migrate",
                 lambda: all(row["state"] == "m" for row in self.try_migrate(name)), 30)

    def try_migrate(self, name):
        printed = run(HOLDFAST, "hsm", "migrate", self.path / name, "--json", codes=None)
        rows = [json.loads(line) for line in printed.splitlines()]
        return [row for row in rows if "path" in row and "state" in row]

    def state(self, name):
        printed = run(HOLDFAST, "hsm", "ls", self.path / name, "--json")
        return json.loads(printed.splitlines()[0])["state"]

    def states(self, folder):
        return [self.state(path.relative_to(self.path)) for path in
                sorted((self.path / folder).iterdir())]


class Keeper:
    """`holdfast hsm run`."""

    def __init__(self):
        self.start()

    def start(self):
        wait_for("hsm run to be ready", self.starts, 60)

    def starts(self):
        log = open("/srv/hsm.log", "ab")
        words = [HOLDFAST, "hsm", "run"]
        self.process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=log, text=True)
        if "Ready" in self.process.stdout.readline():
            return True
        log = pathlib.Path("/srv/hsm.log").read_text().splitlines()
        print(f"    hsm run ends: {log[-1]}", flush=True)
        return False

    def waiters(self):
        printed = run(HOLDFAST, "hsm", "status", "--json", codes=None)
        rows = [json.loads(line) for line in printed.splitlines()]
        return sum(row.get("waiters", 1) for row in rows)


class Nfs:
    """The NFS server of the kernel."""

    def __init__(self):
        run("systemctl", "stop", "nfs-server", codes=None)
        pathlib.Path("/etc/modprobe.d/nfs.conf").write_text(
            # Without this, a client on the same machine passes by the server's threads.
            "options nfs localio_enabled=N\n"
        )
        conf = f"[nfsd]\nlease-time={LEASE_SECS}\ngrace-time=10\nthreads=8\n"
        conf += "[lockd]\ngrace-time=10\n"
        pathlib.Path("/etc/nfs.conf.d").mkdir(exist_ok=True)
        pathlib.Path("/etc/nfs.conf.d/test.conf").write_text(conf)

    def start(self, paths):
        lines = [f"{path} 127.0.0.1(rw,no_root_squash,no_subtree_check)\n" for path in paths]
        pathlib.Path("/etc/exports").write_text("".join(lines))
        run("systemctl", "start", "rpcbind", "rpc-statd", codes=None)
        run("systemctl", "start", "nfs-server")

    @property
    def threads(self):
        return int(pathlib.Path("/proc/fs/nfsd/threads").read_text())

    @threads.setter
    def threads(self, count):
        pathlib.Path("/proc/fs/nfsd/threads").write_text(f"{count}\n")
        wait_for(f"{count} threads of nfsd", lambda: len(processes("nfsd")) == count, 120)

    def waiting(self):
        return waiting("nfsd")

    def pool_stats(self):
        return pathlib.Path("/proc/fs/nfsd/pool_stats").read_text()

    def delegations(self, name):
        """Number of the delegations of files with this name."""
        count = 0
        for states in pathlib.Path("/proc/fs/nfsd/clients").glob("*/states"):
            lines = states.read_text().splitlines()
            count += sum("type: deleg" in line and name in line for line in lines)
        return count


class Mount:
    """A mount of an export, at the client."""

    count = 0

    def __init__(self, filesystem, version, options=""):
        Mount.count += 1
        self.version = version
        self.path = pathlib.Path(f"/mnt/{Mount.count}")
        self.path.mkdir(parents=True)
        # Each mount gets caches and connections of its own.
        words = ",".join(filter(None, [f"vers={version}", "nosharecache", options]))
        run("mount", "-t", "nfs", "-o", words, f"127.0.0.1:{filesystem.path}", self.path)

    def __truediv__(self, name):
        return self.path / name

    def end(self):
        run("umount", "-f", self.path, secs=60, codes=None)
        run("umount", "-l", self.path, secs=60, codes=None)


class Reader:
    """A program at the client that reads files."""

    def __init__(self, *paths):
        words = [sys.executable, READER, *map(str, paths)]
        self.process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)

    def is_waiting(self):
        return self.process.poll() is None

    def results(self, secs=PATIENCE_SECS):
        try:
            printed, _ = self.process.communicate(timeout=secs)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise Failure("a reader does not end") from None
        return [json.loads(line) for line in printed.splitlines()]

    def result(self, secs=PATIENCE_SECS):
        return self.results(secs)[0]


def is_content(result, content):
    return result["error"] is None and result["sha"] == sha(content)


def check_content(result, content, text=""):
    if not is_content(result, content):
        name = result["path"]
        raise Failure(
            f"{text} {name}: error {result['error']}, {result['bytes']} of {len(content)} bytes, "
            f"{result['zeros']} zeros"
        )


def check_no_wrong_bytes(result, content, text=""):
    """A reader gets all of the content, or an error after a beginning of it."""
    if result["error"] is None:
        check_content(result, content, text)
    else:
        check(sha(content[: result["bytes"]]) == result["sha"], f"{text}: wrong bytes: {result}")


def release():
    return os.uname().release


def kernel():
    return tuple(map(int, re.match(r"(\d+)\.(\d+)", release()).groups()))


def asks_about_ranges():
    """True if the kernel asks about ranges, and lets Holdfast choose the error of a program."""
    return kernel() >= (6, 14)
