"""Reads files as a client does, and prints a JSON document for each: reader.py PATH...

The programs that wait for a server stay in the kernel, so the tests start this as a process of its
own and look at it from outside.
"""

import errno
import hashlib
import json
import sys
import time


def read(path):
    began = time.monotonic()
    digest, size, zeros, failed = hashlib.sha256(), 0, 0, None
    try:
        with open(path, "rb", buffering=0) as file:
            while part := file.read(1 << 20):
                digest.update(part)
                size += len(part)
                zeros += part.count(0)
    except OSError as error:
        failed = errno.errorcode.get(error.errno, str(error.errno))
    return {
        "path": path,
        "error": failed,
        "bytes": size,
        "zeros": zeros,
        "sha": digest.hexdigest(),
        "secs": round(time.monotonic() - began, 1),
    }


for name in sys.argv[1:]:
    print(json.dumps(read(name)), flush=True)
