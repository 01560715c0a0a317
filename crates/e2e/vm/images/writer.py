"""Writes files for ever: writer.py FOLDER

The number of a file is printed when the file is durable. The content of a file follows from its
number, so a reader can tell whether the file is whole. Older files are removed, so that the folder
stays small.
"""

import os
import pathlib
import random
import sys
import time

KEPT = 100
PAUSE_SECS = 0.05


def content(number):
    return random.Random(number).randbytes(4000 + number % 7 * 1000)


def newest_whole(folder):
    """Number of the newest file, and the names of the files that are not whole."""
    numbers, broken = [], []
    for path in pathlib.Path(folder).iterdir():
        if not path.name.isdigit():
            continue
        numbers.append(int(path.name))
        if path.read_bytes() != content(int(path.name)):
            broken.append(path.name)
    return max(numbers, default=-1), len(numbers), broken


def write(folder):
    directory = os.open(folder, os.O_RDONLY)
    number = 0
    while True:
        path = folder / f"{number}.new"
        with open(path, "wb") as file:
            file.write(content(number))
            file.flush()
            os.fsync(file.fileno())
        os.rename(path, folder / str(number))
        os.fsync(directory)
        print(number, flush=True)
        if number >= KEPT:
            os.unlink(folder / str(number - KEPT))
        number += 1
        time.sleep(PAUSE_SECS)


if __name__ == "__main__":
    write(pathlib.Path(sys.argv[1]))
