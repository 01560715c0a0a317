"""Installs, upgrades, removes and purges the packages on a Debian system with systemd, and uses
what they install.

The steps below follow each other, and each begins with what the one before has left. A step prints
a line for each check. A step that restarts the machine is followed by the next step after the boot.
Run as root in a virtual machine that can be restarted: see `make vm-test`.
"""

import json
import os
import pathlib
import sys
import time

sys.path.append("/job/images")
os.environ["HOLDFAST_PROGRAM"] = "/usr/bin/holdfast"

import scene

# The packages make this machine a node as a whole, in the usual folder.
del os.environ["HOLDFAST_HOME"]

import machine
import steps

STATE = pathlib.Path("/job/state")
# Exit status that asks for a restart of the machine.
RESTART = 75


def main():
    state = json.loads(STATE.read_text()) if STATE.exists() else {"next": 0}
    while state["next"] < len(steps.ALL):
        step = steps.ALL[state["next"]]
        began = time.monotonic()
        print(f"{step.__name__}: {step.__doc__}", flush=True)
        scene.Verdicts.failed = []
        try:
            restarts = step(state) is machine.RESTARTS
        except Exception as error:  # The machine ends in any case; the step is named.
            scene.check(False, f"the step went to its end: {type(error).__name__}: {error}")
        if scene.Verdicts.failed:
            machine.show_logs()
            print(f"vm-test: FAILED in {step.__name__}: {'; '.join(scene.Verdicts.failed)}",
                  flush=True)
            return 1
        print(f"  ok ({time.monotonic() - began:.0f} s)", flush=True)
        state["next"] += 1
        STATE.write_text(json.dumps(state))
        if restarts:
            os.sync()
            return RESTART
    print(f"vm-test: {len(steps.ALL)} steps passed", flush=True)
    return 0


# A program that a failed step has left may not be joined.
sys.stdout.flush()
os._exit(main())
