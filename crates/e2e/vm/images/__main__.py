"""Images of disks where only a machine of its own shows them: snapshots of LVM, tables of
partitions that the kernel knows, network block devices, disks with bad sectors, and disks in use.

The first argument is the module with the tests: volumes, disks or exports. Each function in it that
is named `test_...` is one test, and prints a line for each check. More arguments choose tests by
parts of their names. Run as root in a virtual machine with five empty disks: see `make image-test`.
"""

import importlib
import os
import sys
import time

import scene

# The disks after that of the system and that of the job, as the machine was given them.
DISKS = {"source": "vdc", "equal": "vdd", "larger": "vde", "small": "vdf", "volumes": "vdg"}


class Scene:
    """The server, and the disks of the machine."""

    def __init__(self):
        self.server = scene.Server()

    def disk(self, name):
        return f"/dev/{DISKS[name]}"


def main(module, words):
    chosen = {name: test for name, test in vars(module).items()
              if name.startswith("test_")
              and (not words or any(word in name for word in words))}
    whole = Scene()
    scene.show(f"kernel {scene.release()}")
    failed = {}
    for name, test in chosen.items():
        began = time.monotonic()
        print(f"{name}: {test.__doc__}", flush=True)
        scene.Verdicts.failed = []
        try:
            test(whole)
        except Exception as error:  # A failed test must not hide the others.
            scene.check(False, f"the test went to its end: {type(error).__name__}: {error}")
        scene.tidy([whole.disk(disk) for disk in DISKS])
        if scene.Verdicts.failed:
            failed[name] = scene.Verdicts.failed
        verdict = f"{len(scene.Verdicts.failed)} checks FAILED" if name in failed else "ok"
        print(f"  {verdict} ({time.monotonic() - began:.0f} s)", flush=True)
    if failed:
        print(scene.out("tail", "-n", "15", whole.server.log), flush=True)
    for name, checks in failed.items():
        print(f"image-test: FAILED in {name}: {'; '.join(checks)}", flush=True)
    print(f"image-test: {module.__name__}: {len(chosen) - len(failed)} tests passed, "
          f"{len(failed)} failed", flush=True)
    return 1 if failed else 0


# A program that a failed test has left may not be joined.
sys.stdout.flush()
os._exit(main(importlib.import_module(sys.argv[1]), sys.argv[2:]))
