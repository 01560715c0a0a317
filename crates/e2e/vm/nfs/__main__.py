"""Exports managed file systems by the NFS server of the kernel, and uses their stubs as a client.

Each function below that is named `test_...` is one test; the lines that it prints with `show` are
the figures of docs/guide/space-management/nfs.md. The arguments choose tests by parts of their
names. Run as root on a machine that nobody else uses: see `make nfs-test`.
"""

import errno
import fcntl
import os
import pathlib
import select
import shutil
import signal
import subprocess
import sys
import time

from scene import (
    HOLDFAST, KIB, LEASE_SECS, MIB, PATIENCE_SECS, FileSystem, Keeper, Mount, Nfs, Reader, Server,
    asks_about_ranges, check, check_content, check_no_wrong_bytes, is_content, noise, processes,
    release, run, wait_for, waiting,
)

VERSIONS = ("4.2", "3")
LOCKER = """
import fcntl, sys
with open(sys.argv[1], "r+b") as file:
    fcntl.lockf(file, fcntl.LOCK_EX)
    print("locked", flush=True)
    sys.stdin.readline()
"""


def show(text):
    print(f"    {text}", flush=True)


class Scene:
    """Everything that the tests use."""

    def __init__(self):
        self.nfs = Nfs()
        self.server = Server()
        token = run(HOLDFAST, "admin", "--server", "/srv/server", "node", "add", "nfs")
        token = token.split("--token ")[1].split()[0]
        run(HOLDFAST, "enroll", "127.0.0.1:7001", "--token", token)
        self.ext4 = FileSystem("ext4", ("mkfs.ext4", "-q", "-F"))
        self.xfs = FileSystem("xfs", ("mkfs.xfs", "-q", "-f"))
        self.btrfs = FileSystem("btrfs", ("mkfs.btrfs", "-q", "-f"))
        self.all = (self.ext4, self.xfs, self.btrfs)
        for filesystem in self.all:
            filesystem.add("--wait", "60", "--unused-days", "0", "--high", "100")
        self.keeper = Keeper()
        self.nfs.start([filesystem.path for filesystem in self.all])
        self.mounts = []

    def mount(self, filesystem, version, options=""):
        mount = Mount(filesystem, version, options)
        self.mounts.append(mount)
        return mount

    def stubs(self, filesystem, folder, count, size):
        """Makes stubs; returns their contents by their names."""
        contents = {}
        for number in range(count):
            name = f"{folder}/{number}"
            content = noise(f"{filesystem.kind} {name}", size + number * 1001)
            contents[name] = filesystem.write(name, content, migrate=False)
        filesystem.migrate(folder)
        return contents

    def tidy(self):
        """Ends what a test has left."""
        self.server.thaw()
        if self.server.process.poll() is not None:
            self.server.start()
        while self.mounts:
            self.mounts.pop().end()
        if self.nfs.threads != 8:
            self.nfs.threads = 8
        for filesystem in self.all:
            filesystem.add("--wait", "60", "--whole", "1T", "--requests-only", "no",
                           "--program-recalls", "10000")


def test_reading(scene):
    """A client lists stubs without recalling them, and reads their content."""
    for filesystem in scene.all:
        for version in VERSIONS:
            folder = f"reading-{version}"
            contents = scene.stubs(filesystem, folder, 12, 100 * KIB)
            mount = scene.mount(filesystem, version)
            listed = run("ls", "-l", mount / folder).splitlines()[1:]
            sizes = {line.split()[8]: int(line.split()[4]) for line in listed}
            check(all(sizes[name.split("/")[1]] == len(content)
                      for name, content in contents.items()), f"sizes: {sizes}")
            run("find", mount / folder, "-type", "f", "-newermt", "2000-01-01")
            run("stat", *(mount / name for name in contents))
            used = int(run("du", "-sk", mount / folder).split()[0])
            check(used < 12 * 100 // 2, f"du shows {used} KiB")
            check(set(filesystem.states(folder)) == {"m"}, "a stub was recalled")
            # Several programs read the same file, and others.
            names = list(contents)
            paths = [names[0], names[0], names[0], names[1], names[2], names[3]]
            readers = [(name, Reader(mount / name)) for name in paths]
            for name, reader in readers:
                check_content(reader.result(), contents[name], "several readers")
            for name in names[4:]:
                check(filesystem.state(name) == "m", f"{name} was recalled")
            copies = pathlib.Path("/srv/copies")
            shutil.rmtree(copies, ignore_errors=True)
            run("cp", "-r", mount / folder, copies)
            for name, content in contents.items():
                copied = (copies / name.split("/")[1]).read_bytes()
                check(copied == content, f"cp -r: {name} differs")
            # The server of NFS copies the file itself, if the version knows how.
            filesystem.migrate(folder)
            run("cp", mount / names[5], mount / f"{folder}-copy")
            check((filesystem.path / f"{folder}-copy").read_bytes() == contents[names[5]],
                  f"cp within NFS {version} on {filesystem.kind} differs")
        show(f"{filesystem.kind}: 24 stubs listed, found and measured by du without a recall; "
             "read by 6 programs at once and by cp -r, byte for byte")


def rewrite(path, content):
    with open(path, "wb") as file:
        file.write(b"anew")
    return b"anew"


def write_middle(path, content):
    with open(path, "r+b") as file:
        file.seek(70_001)
        file.write(b"HELLO")
    return content[:70_001] + b"HELLO" + content[70_006:]


def append(path, content):
    with open(path, "ab") as file:
        file.write(b"more")
    return content + b"more"


def cut_open_file(path, content):
    with open(path, "r+b") as file:
        file.truncate(100_001)
    return content[:100_001]


def cut(path, content):
    os.truncate(path, 100_001)
    return content[:100_001]


def cut_at_page(path, content):
    os.truncate(path, 98_304)
    return content[:98_304]


def lengthen(path, content):
    os.truncate(path, len(content) + 50_000)
    return content + bytes(50_000)


def empty_and_write_far(path, content):
    with open(path, "wb") as file:
        file.seek(150_000)
        file.write(b"far")
    return bytes(150_000) + b"far"


def cut_and_append(path, content):
    os.truncate(path, 98_304)
    with open(path, "ab") as file:
        file.write(b"more")
    return content[:98_304] + b"more"


def punch(path, content):
    with open(path, "r+b"):
        pass
    run("fallocate", "--punch-hole", "--offset", "65536", "--length", "8192", path)
    return content[:65_536] + bytes(8192) + content[73_728:]


def cut_and_lengthen(path, content):
    os.truncate(path, 98_304)
    os.truncate(path, len(content))
    return content[:98_304] + bytes(len(content) - 98_304)


def empty_and_lengthen(path, content):
    with open(path, "wb") as file:
        file.truncate(len(content) + 7)
    return bytes(len(content) + 7)


def change_mode(path, content):
    os.chmod(path, 0o600)
    return content


def change_times(path, content):
    os.utime(path, (10**9, 10**9))
    return content


CHANGES = (
    rewrite, write_middle, append, cut_open_file, cut, cut_at_page, lengthen, empty_and_write_far,
    cut_and_append, punch, cut_and_lengthen, empty_and_lengthen, change_mode, change_times,
)
# NFS has no such operation in version 3.
MISSING = {("3", punch)}


# Changes of the size that a client makes without opening the file, and those of NFS 3 alone.
UNASKED = (cut, cut_at_page, cut_and_append, lengthen, cut_and_lengthen)
UNASKED_BY_3 = (cut_open_file, empty_and_lengthen)


def is_doubtful(version, change):
    """True for changes that no question precedes, and after which a stub may have zeros of its own:
    it is not recalled."""
    return change in UNASKED or change in UNASKED_BY_3 and version == "3"


def read(place):
    """The content of a file; None if it is refused."""
    try:
        return place.read_bytes()
    except OSError as error:
        check(error.errno in (errno.EIO, errno.EPERM), f"{place}: {error}")
        return None


def test_changes(scene):
    """What a client changes in a stub stays, and the rest is as it was."""
    wrong, refused = [], []
    for filesystem in scene.all:
        for version in VERSIONS:
            folder = f"changes-{version}"
            mount = scene.mount(filesystem, version)
            changes = [change for change in CHANGES if (version, change) not in MISSING]
            for change in changes:
                name = f"{folder}/{change.__name__}"
                filesystem.write(name, noise(name, 200_005), migrate=False)
            filesystem.migrate(folder)
            for change in changes:
                name = f"{folder}/{change.__name__}"
                before = os.stat(filesystem.path / name).st_mtime_ns
                about = f"{change.__name__} ({filesystem.kind}, NFS {version})"
                try:
                    expected = change(mount / name, noise(name, 200_005))
                except OSError as error:
                    # A part of a change that writes is refused, as reading is.
                    check(is_doubtful(version, change)
                          and error.errno in (errno.EIO, errno.EPERM), f"{about}: {error}")
                    refused.append(about)
                    continue
                for place in (mount / name, filesystem.path / name):
                    found = read(place)
                    if is_doubtful(version, change) and found is None:
                        refused.append(about)
                    elif found != expected:
                        wrong.append(about)
                if change is change_mode:
                    after = os.stat(filesystem.path / name).st_mtime_ns
                    check(before == after, "a recall for a client changes the time")
    check(not wrong, f"wrong content: {wrong}")
    show(f"{len(CHANGES)} kinds of changes, no wrong content; refused, as documented, after: "
         f"{', '.join(sorted(set(refused))) or 'none'}")


def test_names(scene):
    """Renaming, linking and removing stubs recalls nothing; the records are out of reach."""
    for filesystem in scene.all:
        for version in VERSIONS:
            folder = f"names-{version}"
            contents = scene.stubs(filesystem, folder, 3, 100 * KIB)
            mount = scene.mount(filesystem, version)
            os.rename(mount / f"{folder}/0", mount / f"{folder}/renamed")
            os.link(mount / f"{folder}/1", mount / f"{folder}/linked")
            os.unlink(mount / f"{folder}/2")
            names = sorted(path.name for path in (filesystem.path / folder).iterdir())
            check(names == ["1", "linked", "renamed"], f"names: {names}")
            check(set(filesystem.states(folder)) == {"m"}, "a stub was recalled")
            # Only root at the server sees the record.
            path = mount / f"{folder}/renamed"
            check("trusted.hf" in os.listxattr(filesystem.path / f"{folder}/renamed"), "no record")
            seen = [name for name in os.listxattr(path) if "hf" in name or "trusted" in name]
            check(not seen, f"the client sees {seen}")
            for attempt in (lambda: os.getxattr(path, "trusted.hf"),
                            lambda: os.setxattr(path, "trusted.hf", b"x"),
                            lambda: os.removexattr(path, "trusted.hf")):
                try:
                    attempt()
                except OSError:
                    continue
                check(False, "the client reaches the record")
            check(filesystem.state(f"{folder}/renamed") == "m", "the record has changed")
            check(not [name for name in os.listdir(mount.path) if "hidden" in name.lower()],
                  "the hidden folder is shown")
            for name, first in (("renamed", "0"), ("linked", "1")):
                found = Reader(mount / f"{folder}/{name}").result()
                check_content(found, contents[f"{folder}/{first}"], "after renaming")
    show("rename, link and unlink recall nothing; trusted.hf is neither shown nor changed")


def test_threads(scene):
    """Each waiting reader holds a thread of nfsd; when all are held, the export stands still."""
    filesystem, nfs = scene.ext4, scene.nfs
    for version in VERSIONS:
        folder = f"threads-{version}"
        contents = scene.stubs(filesystem, folder, 8, 70 * KIB)
        filesystem.write(f"{folder}-resident", noise(folder, 70 * KIB), migrate=False)
        filesystem.write(f"{folder}-other", noise(folder, 70 * KIB), migrate=False)
        mount = scene.mount(filesystem, version)
        other = scene.mount(scene.xfs, "3" if version == "4.2" else "4.2")
        os.listdir(mount / folder)
        nfs.threads = 4
        scene.server.freeze()
        frozen = time.monotonic()
        readers = {name: Reader(mount / name) for name in list(contents)[:3]}
        wait_for("three waiting threads", lambda: nfs.waiting() == 3, 50)
        beside = Reader(mount / f"{folder}-resident").result(30)
        check_content(beside, noise(folder, 70 * KIB), "with one free thread")
        show(f"NFS {version}: 4 threads, 3 readers of stubs: {nfs.waiting()} threads wait; "
             f"another file is read in {beside['secs']} s")
        readers |= {name: Reader(mount / name) for name in list(contents)[3:6]}
        wait_for("all threads to wait", lambda: nfs.waiting() == 4, 50)
        still = Reader(mount / f"{folder}-other")
        listing = subprocess.Popen(["stat", "-f", str(other.path)], stdout=subprocess.DEVNULL)
        time.sleep(5)
        check(still.is_waiting() and listing.poll() is None, "the export does not stand still")
        show(f"NFS {version}: 4 threads, 6 readers of stubs: {nfs.waiting()} threads wait; "
             "after 5 s another file and another exported file system still wait")
        if version == "4.2":
            show("/proc/fs/nfsd/threads: " + str(nfs.threads))
            show("/proc/fs/nfsd/pool_stats: " + " | ".join(nfs.pool_stats().split("\n")[:2]))
            stack = pathlib.Path(f"/proc/{processes('nfsd')[0]}/stack").read_text().splitlines()
            show("/proc/PID/stack of nfsd: " + " < ".join(
                line.split()[-1].split("+")[0] for line in stack[:9]))
        # More threads help at once.
        nfs.threads = 16
        wait_for("the other reader", lambda: not still.is_waiting(), 60)
        check_content(still.result(), noise(folder, 70 * KIB), "with more threads")
        wait_for("the statistics", lambda: listing.poll() is not None, 60)
        show(f"NFS {version}: with 16 threads, {nfs.waiting()} wait, and the others go on "
             f"({time.monotonic() - frozen:.0f} s after the server has stopped)")
        nfs.threads = 16
        thawed = time.monotonic()
        scene.server.thaw()
        for name, reader in readers.items():
            check_content(reader.result(), contents[name], "after the server is back")
        show(f"NFS {version}: all readers have their content {time.monotonic() - thawed:.1f} s "
             "after the server goes on")


def test_free_threads(scene):
    """With fewer recalls of one program than threads of nfsd, an export never stands still."""
    filesystem, nfs = scene.ext4, scene.nfs
    filesystem.add("--program-recalls", "2")
    nfs.threads = 4
    for version in VERSIONS:
        folder = f"free-{version}"
        contents = scene.stubs(filesystem, folder, 8, 70 * KIB)
        resident = filesystem.write(f"{folder}-resident", noise(folder, 70 * KIB), migrate=False)
        mount = scene.mount(filesystem, version)
        scene.server.freeze()
        readers = {name: Reader(mount / name) for name in contents}
        time.sleep(10)
        held = nfs.waiting()
        beside = Reader(mount / f"{folder}-resident").result(30)
        check_content(beside, resident, "beside the limit")
        waits = sum(reader.is_waiting() for reader in readers.values())
        scene.server.thaw()
        results = {name: reader.result() for name, reader in readers.items()}
        for name, result in results.items():
            check_no_wrong_bytes(result, contents[name], folder)
        errors = [result["error"] for result in results.values() if result["error"]]
        check(held <= 2, f"{held} threads wait")
        if asks_about_ranges():
            check(not errors and waits == 8, f"{waits} of 8 readers wait; errors: {errors}")
        show(f"NFS {version}: 4 threads, --program-recalls 2, 8 readers of stubs, frozen server: "
             f"{held} threads wait, {waits} readers wait; another file is read in "
             f"{beside['secs']} s; errors: {len(errors)} {set(errors) or ''}")
    filesystem.add("--program-recalls", "10000")


def test_readahead(scene):
    """Number of threads that one reader holds, by version, and with retransmissions."""
    filesystem, nfs = scene.ext4, scene.nfs
    nfs.threads = 16
    for version, options in (("4.2", ""), ("3", ""), ("3", "timeo=20,retrans=2")):
        name = f"large-{version}-{len(options)}"
        content = filesystem.write(name, noise(name, 8 * MIB))
        mount = scene.mount(filesystem, version, options)
        scene.server.freeze()
        reader = Reader(mount / name)
        time.sleep(10)
        held = nfs.waiting()
        scene.server.thaw()
        check_content(reader.result(), content)
        show(f"NFS {version} {options or 'timeo=600 (default)'}: one reader of 8 MiB holds {held} "
             "threads after 10 s")


def test_long_wait(scene):
    """A server that does not answer: the wait of the client, by version and options."""
    filesystem = scene.ext4
    for version in VERSIONS:
        for wait, options in ((10, ""), (40, "soft,timeo=30,retrans=1"),
                              (40, "softerr,timeo=30,retrans=1")):
            filesystem.add("--wait", wait)
            name = f"long-{version}-{wait}-{len(options)}"
            content = filesystem.write(name, noise(name, 100 * KIB))
            mount = scene.mount(filesystem, version, options)
            scene.server.freeze()
            result = Reader(mount / name).result()
            scene.server.thaw()
            check(result["error"] is not None, f"a reader without an error: {result}")
            check_no_wrong_bytes(result, content)
            show(f"NFS {version} {options or 'hard (default)'}, hsm add --wait {wait}, frozen "
                 f"server: {result['error']} after {result['secs']} s")
            wait_for("nobody to wait", lambda: scene.nfs.waiting() == 0, 150)
            check_content(Reader(mount / name).result(), content, "after the server is back")


def test_server_away(scene):
    """A server that is away: the client waits until it is back, or gets an error."""
    filesystem = scene.ext4
    for version in VERSIONS:
        name = f"away-{version}"
        content = filesystem.write(name, noise(name, 100 * KIB))
        mount = scene.mount(filesystem, version)
        scene.server.kill()
        reader = Reader(mount / name)
        time.sleep(30)
        waits = reader.is_waiting()
        scene.server.start()
        result = reader.result()
        check_no_wrong_bytes(result, content)
        check(not waits or is_content(result, content), f"a reader that waits fails: {result}")
        waited = "still waits after 30 s, and has its content" if waits else "has ended with"
        show(f"NFS {version} hard, no server of Holdfast: the reader {waited} "
             f"{result['error'] or ''} after {result['secs']} s; threads held: "
             f"{scene.nfs.waiting()}")
        check_content(Reader(mount / name).result(), content, "after the server is back")


def test_locks(scene):
    """A lock on a stub needs its content first; a locked file does not migrate."""
    filesystem = scene.ext4
    for version in VERSIONS:
        name, second = f"locks-{version}", f"locks-{version}-second"
        content = filesystem.write(name, noise(name, 100 * KIB))
        filesystem.write(second, noise(second, 100 * KIB))
        filesystem.write("locks-resident", b"content", migrate=False)
        mount = scene.mount(filesystem, version)

        def locker(path):
            words = [sys.executable, "-c", LOCKER, str(path)]
            return subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

        first = locker(mount / name)
        check(first.stdout.readline() == "locked\n", "no lock")
        show(f"NFS {version}: after fcntl(F_SETLKW) on a stub its state is "
             f"{filesystem.state(name)}")
        rows = filesystem.try_migrate(name)
        check(rows[0]["state"] is None, f"a locked file migrates: {rows}")
        show(f"NFS {version}: hsm migrate of the locked file: {rows[0]['error']}")
        # The lock is one of the whole server.
        with open(filesystem.path / name, "r+b") as local:
            try:
                fcntl.lockf(local, fcntl.LOCK_EX | fcntl.LOCK_NB)
                check(False, "a program at the server gets the same lock")
            except BlockingIOError:
                show(f"NFS {version}: a program at the server cannot get the same lock")
        check_content(Reader(mount / name).result(), content, "beside a lock")
        # Another lock, while the server does not answer.
        scene.server.freeze()
        waits = locker(mount / second)
        wait_for("a waiting locker", lambda: waiting("nfsd") + waiting("lockd") > 0, 50)
        show(f"NFS {version}, server frozen, lock on a stub: waiting threads: nfsd "
             f"{waiting('nfsd')}, lockd {waiting('lockd')}")
        third = locker(mount / "locks-resident") if version == "3" else None
        time.sleep(5)
        if third:
            ready, _, _ = select.select([third.stdout], [], [], 0)
            show(f"NFS 3: a lock on a file with content, 5 s later: "
                 f"{'it is there' if ready else 'waits too'}")
        scene.server.thaw()
        check(waits.stdout.readline() == "locked\n", "no lock after the server is back")
        for process in filter(None, (first, waits, third)):
            process.communicate("\n", timeout=PATIENCE_SECS)
        began = time.monotonic()
        wait_for("the file to migrate", lambda: filesystem.try_migrate(name)[0]["state"] == "m")
        show(f"NFS {version}: {time.monotonic() - began:.0f} s after unlocking and closing, the "
             "file migrates")
        check_content(Reader(mount / name).result(), content, "after migrating again")


def test_delegations(scene):
    """A file that a client has open, or has a delegation of, keeps its content."""
    filesystem = scene.ext4
    mount = scene.mount(filesystem, "4.2")
    name = "delegated"
    content = filesystem.write(name, noise(name, 300 * KIB), migrate=False)
    # Servers delegate only files that nobody has written lately.
    wait_for("a file that is not new", lambda: time.time() > os.stat(mount / name).st_mtime + 35)

    with open(mount / name, "rb") as file:
        check(file.read() == content, "wrong content")
        opened = scene.nfs.delegations(name)
        rows = filesystem.try_migrate(name)
        check(rows[0]["state"] is None, f"an open file migrates: {rows}")
        show(f"open over NFS 4.2, delegations of the file: {opened}; hsm migrate: "
             f"{rows[0]['error']}; delegations afterwards: {scene.nfs.delegations(name)}")
    check_content(Reader(mount / name).result(), content, "after the first try")
    count = scene.nfs.delegations(name)
    rows = filesystem.try_migrate(name)
    show(f"closed, delegations of the file: {count}; hsm migrate: "
         f"{rows[0]['error'] or rows[0]['state']}; delegations afterwards: "
         f"{scene.nfs.delegations(name)}")
    check(count == 0 or rows[0]["state"] is None, "a delegated file has lost its content")
    check_content(Reader(mount / name).result(), content, "with a delegation")
    began = time.monotonic()
    wait_for("the file to migrate", lambda: filesystem.try_migrate(name)[0]["state"] == "m")
    show(f"the client gives the delegation back, and the file migrates, after "
         f"{time.monotonic() - began:.0f} s (lease time: {LEASE_SECS} s)")
    check_content(Reader(mount / name).result(), content, "after the delegation")
    # The kernel asks about a delegated file when a program at the server opens it.
    content = filesystem.write("asked", noise("asked", 300 * KIB), migrate=False)
    time.sleep(35)
    check_content(Reader(mount / "asked").result(), content)
    count = scene.nfs.delegations("asked")
    scene.keeper.process.kill()
    time.sleep(3)
    scene.keeper.start()
    local = [Reader(filesystem.path / "asked").result() for _ in range(3)]
    for result in local:
        check_no_wrong_bytes(result, content, "beside a delegation")
    show(f"delegations: {count}; after 'hsm run' was started again, a program at the server opens "
         f"the file: {', '.join(result['error'] or 'content' for result in local)}")
    # A program at the server that writes takes the delegation away.
    with open(filesystem.path / "asked", "r+b") as file:
        file.write(b"local")
    check_content(Reader(mount / "asked").result(), b"local" + content[5:], "after a local write")
    # Version 3 keeps files open at the server for a moment.
    mount = scene.mount(filesystem, "3")
    name = "third"
    content = filesystem.write(name, noise(name, 300 * KIB), migrate=False)
    check_content(Reader(mount / name).result(), content)
    began, tries = time.monotonic(), []
    while not tries or tries[-1]["state"] != "m":
        tries.append(filesystem.try_migrate(name)[0])
        check(time.monotonic() - began < 60, f"the file does not migrate: {tries[-1]}")
    refused = {row["error"] for row in tries if row["error"]}
    show(f"read over NFS 3: the file migrates at try {len(tries)}, after "
         f"{time.monotonic() - began:.1f} s {refused or ''}")


def test_cache(scene):
    """A client that has cached a file before it migrates reads the right content afterwards."""
    for filesystem in scene.all:
        for version in VERSIONS:
            mount = scene.mount(filesystem, version)
            name = f"cached-{version}"
            content = filesystem.write(name, noise(name, 300 * KIB), migrate=False)
            check_content(Reader(mount / name).result(), content)
            before = os.stat(mount / name)
            wait_for("the file to migrate",
                     lambda: filesystem.try_migrate(name)[0]["state"] == "m")
            time.sleep(1)
            with open(mount / name, "rb") as file:
                state = filesystem.state(name)
                check(file.read() == content, "cached content is wrong")
            # Attributes are cached for some seconds.
            time.sleep(4)
            after = os.stat(mount / name)
            same = [text for text, holds in (
                ("mtime", before.st_mtime_ns == after.st_mtime_ns),
                ("size", before.st_size == after.st_size),
                ("ctime", before.st_ctime_ns == after.st_ctime_ns)) if holds]
            check("mtime" in same and "size" in same, f"times: {before} {after}")
            show(f"{filesystem.kind}, NFS {version}: cached, then migrated: unchanged: "
                 f"{', '.join(same)}; state after opening: {state}, after reading: "
                 f"{filesystem.state(name)}")
            check_content(Reader(mount / name).result(), content, "from the cache")
            # The server's side changes, and the client sees it.
            wait_for("the file to migrate",
                     lambda: filesystem.try_migrate(name)[0]["state"] == "m")
            content = filesystem.write(name, noise(f"{name} anew", 300 * KIB))
            time.sleep(4)
            check_content(Reader(mount / name).result(), content, "after a change at the server")


def test_migration_beside_readers(scene):
    """Files migrate while clients read them: nobody sees zeros."""
    for filesystem in scene.all:
        contents = scene.stubs(filesystem, "beside", 6, 200 * KIB)
        mounts = [scene.mount(filesystem, version, "actimeo=0,noac") for version in VERSIONS]
        freed, errors = 0, []
        for _ in range(6):
            readers = [(name, Reader(mount / name)) for mount in mounts for name in contents]
            while any(reader.is_waiting() for _, reader in readers):
                rows = filesystem.try_migrate("beside")
                freed += sum(row["state"] == "m" and row["bytes"] > 0 for row in rows)
            for name, reader in readers:
                result = reader.result()
                check_no_wrong_bytes(result, contents[name], "beside its migration")
                errors += [result["error"]] if result["error"] else []
        check(len(errors) <= 12, f"too many errors: {errors}")
        show(f"{filesystem.kind}: 72 reads beside {freed} migrations: all bytes right; errors: "
             f"{len(errors)} {set(errors) or ''}")
        for mount in mounts:
            for name, content in contents.items():
                check_content(Reader(mount / name).result(), content, "after its migration")


def test_deaths(scene):
    """Keeper and worker are killed while clients wait: content or an error, never zeros."""
    filesystem = scene.ext4
    scene.nfs.threads = 16

    def kill_keeper():
        scene.keeper.process.kill()

    def kill_all_but_holder():
        for pid in [scene.keeper.process.pid] + children(scene.keeper.process.pid, "worker"):
            os.kill(pid, signal.SIGKILL)

    for kill in (kill_keeper, kill_all_but_holder):
        for version in VERSIONS:
            folder = f"deaths-{kill.__name__}-{version}"
            contents = scene.stubs(filesystem, folder, 4, 100 * KIB)
            mount = scene.mount(filesystem, version)
            scene.server.freeze()
            readers = [(name, Reader(mount / name)) for name in contents]
            wait_for("waiting threads", lambda: scene.nfs.waiting() >= 4, 50)
            kill()
            time.sleep(3)
            scene.server.thaw()
            results = [(name, reader.result()) for name, reader in readers]
            for name, result in results:
                check_no_wrong_bytes(result, contents[name], folder)
            errors = [result["error"] or "content" for _, result in results]
            show(f"{kill.__name__}, NFS {version}: the readers get {', '.join(errors)}")
            scene.keeper.start()
            for name, content in contents.items():
                check_content(Reader(mount / name).result(), content, "after the death")


def children(pid, word):
    found = []
    for folder in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            words = (folder / "cmdline").read_bytes().split(b"\0")
            parent = int((folder / "stat").read_text().rsplit(")", 1)[1].split()[1])
        except (OSError, IndexError):
            continue
        if parent == pid and word.encode() in words:
            found.append(int(folder.name))
    return found


def test_holes(scene):
    """A client that looks for holes gets the content of large files too (--whole)."""
    for filesystem in scene.all:
        filesystem.add("--whole", "64K")
        for version in VERSIONS:
            mount = scene.mount(filesystem, version)
            content = filesystem.write(f"holes-{version}", noise("holes", 4 * MIB))
            path = mount / f"holes-{version}"
            for way in (("--sparse=always",), ("--sparse=auto",)):
                filesystem.migrate(path.name)
                run("cp", *way, path, "/srv/copy")
                copied = pathlib.Path("/srv/copy").read_bytes()
                check(copied == content, f"{filesystem.kind}, NFS {version}, cp {way[0]}: "
                      f"{copied.count(0)} zeros of {len(copied)} bytes")
                filesystem.migrate(path.name)
            with open(path, "rb") as file:
                hole = os.lseek(file.fileno(), 0, os.SEEK_HOLE)
            check(hole == len(content), f"{filesystem.kind} NFS {version}: a hole at {hole}")
            filesystem.migrate(path.name)
            run("cp", path, mount / f"holes-{version}-copy")
            check((filesystem.path / f"holes-{version}-copy").read_bytes() == content,
                  f"{filesystem.kind}, NFS {version}: a copy by the server differs")
        filesystem.add("--whole", "1T")
    show("cp and lseek(SEEK_HOLE) of stubs that are larger than --whole get the content")


def test_limits(scene):
    """Users are not told apart: all clients are the user root and the program nfsd."""
    filesystem = scene.ext4
    content = filesystem.write("limits", noise("limits", 100 * KIB))
    mount = scene.mount(filesystem, "4.2")
    scene.server.freeze()
    user = subprocess.Popen(["setpriv", "--reuid=1000", "--regid=1000", "--clear-groups", "cat",
                             str(mount / "limits")], stdout=subprocess.DEVNULL)
    wait_for("a waiting thread", lambda: scene.nfs.waiting() == 1, 50)
    printed = run(HOLDFAST, "hsm", "status")
    scene.server.thaw()
    user.wait(PATIENCE_SECS)
    show("hsm status while user 1000 of a client waits: " + " | ".join(printed.splitlines()))
    check("nfsd" in printed, "the program is not nfsd")
    filesystem.migrate("limits")
    filesystem.add("--requests-only", "yes")
    result = Reader(mount / "limits").result()
    show(f"hsm add --requests-only yes: a client gets {result['error']}")
    check(result["error"] is not None, "a client recalls")
    filesystem.add("--requests-only", "no")
    check_content(Reader(mount / "limits").result(), content)


def test_start_and_end(scene):
    """The order of starting and ending: files that are hidden, exports that keep a mount."""
    filesystem = scene.ext4
    content = filesystem.write("order", noise("order", 100 * KIB))
    scene.keeper.process.send_signal(signal.SIGTERM)
    time.sleep(3)
    mount = scene.mount(filesystem, "3", "soft,timeo=100,retrans=1")
    reader = Reader(mount / "order")
    time.sleep(20)
    if reader.is_waiting():
        show("after SIGTERM to hsm run, a reader with soft,timeo=100,retrans=1 still waits after "
             f"20 s; waiting threads of nfsd: {scene.nfs.waiting()}")
        reader.process.kill()
        killed = time.monotonic()
        reader.process.wait(60)
        show(f"kill -9 ends it in {time.monotonic() - killed:.0f} s")
    else:
        result = reader.result()
        show(f"after SIGTERM to hsm run, a reader gets {result['error']} after "
             f"{result['secs']} s")
        check(result["error"] is not None, "hsm run has ended, and a stub is read")
        check_no_wrong_bytes(result, content)
    mount.end()
    busy = subprocess.run(["umount", filesystem.path], capture_output=True, text=True)
    show(f"umount of an exported file system: {busy.stderr.strip() or 'done'}")
    run("systemctl", "stop", "nfs-server")
    for each in scene.all:
        while subprocess.run(["umount", each.path], capture_output=True).returncode == 0:
            pass
    scene.keeper.process.wait(60)
    show("after 'systemctl stop nfs-server' it is unmounted, and hsm run ends")
    # The export is made before hsm run shows the files.
    for each in scene.all:
        run("mount", "-o", "loop", f"/srv/{each.kind}.image", each.path)
    run("systemctl", "start", "nfs-server")
    mount = scene.mount(filesystem, "3", "actimeo=1")
    show(f"exported before hsm run: a client sees {sorted(os.listdir(mount.path))}")
    check("order" not in os.listdir(mount.path), "files are not hidden")
    scene.keeper.start()
    time.sleep(3)
    seen = "sees" if "order" in os.listdir(mount.path) else "does not see"
    show(f"after hsm run has started: the old mount of the client {seen} the files")
    fresh = scene.mount(filesystem, "3", "actimeo=1")
    seen = "sees" if "order" in os.listdir(fresh.path) else "does not see"
    show(f"a new mount of a client {seen} them")
    run("exportfs", "-f")
    fresh = scene.mount(filesystem, "3", "actimeo=1")
    check("order" in os.listdir(fresh.path), "exportfs -f does not help")
    check_content(Reader(fresh / "order").result(), content)
    show("after 'exportfs -f', a new mount sees and reads them")


def test_told_twice(scene):
    """A second SIGTERM hides the files of mounts that are shared; the next start shows them."""
    content = scene.ext4.write("told", noise("told", 100 * KIB))
    for _ in range(2):
        for _ in range(2):
            scene.keeper.process.send_signal(signal.SIGTERM)
            time.sleep(1)
        scene.keeper.process.wait(60)
        check("told" not in os.listdir(scene.ext4.path), "the files are not hidden")
        scene.keeper.start()
        check("told" in os.listdir(scene.ext4.path), "the files are not shown again")
    check_content(Reader(scene.ext4.path / "told").result(), content)
    show("hidden by a second SIGTERM, and shown again, twice")


def main(words):
    tests = [(name, test) for name, test in globals().items() if name.startswith("test_")]
    chosen = [(name, test) for name, test in tests
              if not words or any(word in name for word in words)]
    scene = Scene()
    show(f"kernel {release()}, questions about "
         f"{'ranges' if asks_about_ranges() else 'opening only'}")
    failed = []
    for name, test in chosen:
        began = time.monotonic()
        print(f"{name}: {test.__doc__}", flush=True)
        try:
            test(scene)
            verdict = "ok"
        except Exception as error:  # A failed test must not hide the others.
            failed.append(name)
            verdict = f"FAILED: {type(error).__name__}: {error}"
        try:
            scene.tidy()
        except Exception as error:
            failed.append(name)
            verdict += f" FAILED to tidy: {error}"
        print(f"  {verdict} ({time.monotonic() - began:.0f} s)", flush=True)
    for log in ("/srv/hsm.log", "/srv/server.log"):
        if failed:
            print(f"{log}:\n" + run("tail", "-n", "15", log), flush=True)
    print(f"nfs-test: kernel {release()}: {len(chosen) - len(set(failed))} passed, "
          f"{len(set(failed))} failed", flush=True)
    return 1 if failed else 0


# Threads in the kernel may wait for a server that is gone, so nothing is joined.
os._exit(main(sys.argv[1:]))
