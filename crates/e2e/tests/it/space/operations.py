"""Uses a file in one way: WAY FILE OTHER. Exit code 77: the way is not supported here."""

import ctypes
import errno
import fcntl
import mmap
import os
import platform
import struct
import sys

LACKING = (errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOTTY)
LIBC = ctypes.CDLL(None, use_errno=True)
LIBC.mmap.restype = ctypes.c_void_p
STEP = 300_000
MIB = 1 << 20


def checked(result):
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result


def syscall(number, *arguments):
    wide = (part if hasattr(part, "_obj") else ctypes.c_long(part) for part in arguments)
    return checked(LIBC.syscall(ctypes.c_long(number), *wide))


def in_steps(size, read):
    content = b""
    while len(content) < size:
        part = read(len(content), min(STEP, size - len(content)))
        if not part:
            break
        content += part
    return content


def preadv2(fd, size, flags):
    def read(offset, length):
        part = bytearray(length)
        return bytes(part[: os.preadv(fd, [part], offset, flags)])

    return in_steps(size, read)


def nowait(fd, size):
    try:
        return preadv2(fd, size, os.RWF_NOWAIT)
    except BlockingIOError:
        return preadv2(fd, size, 0)


def direct(path, size):
    fd = os.open(path, os.O_RDONLY | os.O_DIRECT)
    buffer = mmap.mmap(-1, -(-size // MIB) * MIB)
    return buffer[: os.preadv(fd, [buffer], 0)]


def aio(fd, size):
    setup, events, submit = (0, 4, 2) if platform.machine() == "aarch64" else (206, 208, 209)
    context = ctypes.c_ulong()
    syscall(setup, 1, ctypes.byref(context))

    def read(offset, length):
        buffer = ctypes.create_string_buffer(length)
        place = ctypes.addressof(buffer)
        order = struct.pack("=QIIHhIQQqQII", 0, 0, 0, 0, 0, fd, place, length, offset, 0, 0, 0)
        order = ctypes.create_string_buffer(order)
        orders = (ctypes.c_void_p * 1)(ctypes.addressof(order))
        syscall(submit, context.value, 1, ctypes.addressof(orders))
        event = ctypes.create_string_buffer(32)
        syscall(events, context.value, 1, 1, ctypes.addressof(event), 0)
        return buffer.raw[: res_of(struct.unpack("=QQqq", event.raw)[2])]

    return in_steps(size, read)


def uring(fd, size):
    parameters = ctypes.create_string_buffer(120)
    ring = syscall(425, 4, ctypes.addressof(parameters))
    told = struct.unpack("=30I", parameters.raw)
    submission, completion = told[10:20], told[20:30]
    length = max(submission[6] + 4 * told[0], completion[5] + 16 * told[1])
    both = mmap.mmap(ring, length, mmap.MAP_SHARED | mmap.MAP_POPULATE)
    entries = mmap.mmap(ring, 64 * told[0], mmap.MAP_SHARED, offset=0x10000000)
    word = lambda at: struct.unpack_from("=I", both, at)[0]

    def read(offset, length):
        buffer = ctypes.create_string_buffer(length)
        place = ctypes.addressof(buffer)
        order = struct.pack("=BBHiQQIIQ", 22, 0, 0, fd, offset, place, length, 0, 0)
        entries[:64] = order.ljust(64, b"\0")
        tail = word(submission[1])
        struct.pack_into("=I", both, submission[6] + 4 * (tail & word(submission[2])), 0)
        struct.pack_into("=I", both, submission[1], tail + 1)
        syscall(426, ring, 1, 1, 1, 0, 0)
        head = word(completion[0])
        at = completion[5] + 16 * (head & word(completion[2]))
        result = struct.unpack_from("=Qi", both, at)[1]
        struct.pack_into("=I", both, completion[0], head + 1)
        return buffer.raw[: res_of(result)]

    return in_steps(size, read)


def res_of(result):
    if result < 0:
        raise OSError(-result, os.strerror(-result))
    return result


def mapped(fd, size, flags, prot):
    return mmap.mmap(fd, size, flags=flags, prot=prot)[:]


def protected_later(fd, size):
    place = LIBC.mmap(None, ctypes.c_long(size), 0, mmap.MAP_PRIVATE, fd, ctypes.c_long(0))
    checked(LIBC.mprotect(ctypes.c_void_p(place), ctypes.c_long(size), mmap.PROT_READ))
    return ctypes.string_at(place, size)


def spliced(fd, size):
    out, into = os.pipe()

    def read(offset, length):
        count = os.splice(fd, into, min(length, 65536), offset_src=offset)
        return os.read(out, count)

    return in_steps(size, read)


def handled(path, _size):
    handle = ctypes.create_string_buffer(struct.pack("=Ii", 128, 0), 8 + 128)
    mount = ctypes.c_int()
    checked(LIBC.name_to_handle_at(-100, path.encode(), handle, ctypes.byref(mount), 0))
    folder = os.open(os.path.dirname(path), os.O_RDONLY)
    return read_all(checked(LIBC.open_by_handle_at(folder, handle, os.O_RDONLY)))


def read_all(fd):
    with open(fd, "rb") as file:
        return file.read()


def advised(fd, size, advise):
    advise(fd, size)
    return os.pread(fd, size, 0)


def readahead(fd, size):
    checked(LIBC.readahead(fd, ctypes.c_long(0), ctypes.c_size_t(size)))


def reopened(path, _size):
    fd = os.open(path, os.O_PATH)
    return read_all(os.open(f"/proc/self/fd/{fd}", os.O_RDONLY))


READS = {
    "preadv2": lambda fd, size: preadv2(fd, size, 0),
    "preadv2 without waiting": nowait,
    "aio": aio,
    "uring": uring,
    "mmap private": lambda fd, size: mapped(fd, size, mmap.MAP_PRIVATE, mmap.PROT_READ),
    "mmap populate": lambda fd, size: mapped(
        fd, size, mmap.MAP_SHARED | mmap.MAP_POPULATE, mmap.PROT_READ
    ),
    "mmap protected later": protected_later,
    "splice": spliced,
    "fadvise": lambda fd, size: advised(
        fd, size, lambda fd, size: os.posix_fadvise(fd, 0, size, os.POSIX_FADV_WILLNEED)
    ),
    "readahead": lambda fd, size: advised(fd, size, readahead),
}
READS_PATH = {"direct": direct, "path and reopen": reopened, "handle": handled}


def sent(source, target, size):
    offset = 0
    while offset < size:
        offset += os.sendfile(target, source, offset, size - offset)


def copied(source, target, size):
    offset = 0
    while offset < size:
        offset += os.copy_file_range(source, target, size - offset, offset, offset)


def clone(source, target, at, length, to):
    fcntl.ioctl(target, 0x4020940D, struct.pack("=qQQQ", source, at, length, to))


def cloned(source, target, _size):
    clone(source, target, MIB, 0, MIB)
    clone(source, target, 0, MIB, 0)


COPIES = {"sendfile": sent, "copy_file_range": copied, "clone range": cloned}


def written_by_mapping(path, _other):
    with open(path, "r+b") as file:
        view = mmap.mmap(file.fileno(), 0)
        view[1_000_000:1_000_005] = b"HELLO"
        view.flush()


def cloned_into(path, other):
    with open(other, "rb") as source, open(path, "r+b") as target:
        clone(source.fileno(), target.fileno(), 0, MIB, MIB)


def dedupe(path, other):
    """Prints how many bytes of FILE and OTHER share their storage now, from the beginning."""
    with open(path, "rb") as source, open(other, "r+b") as target:
        length = os.fstat(source.fileno()).st_size & ~4095
        order = struct.pack("=QQHHIqQQiI", 0, length, 1, 0, 0, target.fileno(), 0, 0, 0, 0)
        order = bytearray(order)
        fcntl.ioctl(source.fileno(), 0xC0189436, order)
        count, status = struct.unpack("=Qi", order[40:52])
        res_of(min(status, 0))
        print("differs" if status else count)


CHANGES = {"map": written_by_mapping, "clone into": cloned_into, "dedupe": dedupe}


def run(way, path, other):
    if way in CHANGES:
        return CHANGES[way](path, other)
    size = os.stat(path).st_size
    with open(other, "wb") as file:
        if way in READS_PATH:
            return file.write(READS_PATH[way](path, size))
        fd = os.open(path, os.O_RDONLY)
        if way in READS:
            return file.write(READS[way](fd, size))
        COPIES[way](fd, file.fileno(), size)


try:
    run(*sys.argv[1:])
except OSError as error:
    print(f"{sys.argv[1]}: {error}")
    sys.exit(77 if error.errno in LACKING else 1)
