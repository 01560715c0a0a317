"""Packages, units, the server and the node of the machine."""

import json
import pathlib
import re

from scene import HOLDFAST, Failure, check, check_trees, manifest, out, run, show, wait_for

RESTARTS = object()
SERVER = pathlib.Path("/var/lib/holdfast")
HOME = pathlib.Path("/etc/holdfast")
ADDRESS = "127.0.0.1:1500"
NODE = "web"
UNITS = ("holdfast-server", "holdfast-agent", "holdfast-journal", "holdfast-hsm")
PACKAGES = ("holdfast", "holdfast-server", "holdfast-agent", "holdfast-hsm")
APT_SECS = 900


def apt(*words):
    """Runs apt-get, which asks nothing; returns what it has printed."""
    done = run("env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "-y", "-q", *words, secs=APT_SECS)
    return done.out + done.err


def files(folder, *packages):
    """The files of these packages in a folder."""
    found = {path.name.split("_")[0]: path for path in pathlib.Path(folder).glob("*.deb")}
    return [found[package] for package in packages or PACKAGES]


def version(package):
    return out("dpkg-query", "-W", "-f=${Version}", package)


def status(package):
    return run("dpkg-query", "-W", "-f=${db:Status-Status}", package, codes=None).out


def preseed(question, kind, answer):
    package = question.split("/")[0]
    line = f"{package} {question} {kind} {answer}"
    run("sh", "-c", f"echo '{line}' | debconf-set-selections")


def property_of(unit, name):
    return out("systemctl", "show", "--value", "-p", name, unit).strip()


def is_active(unit):
    return run("systemctl", "is-active", unit, codes=None).out.strip() == "active"


def process_of(unit):
    return int(property_of(unit, "MainPID"))


def check_active(*units):
    for unit in units:
        state = run("systemctl", "is-active", unit, codes=None).out.strip()
        check(state == "active", f"{unit} is active", state)


def check_no_crash(*units):
    for unit in units:
        count = property_of(unit, "NRestarts")
        check(count == "0", f"{unit} was not started again by systemd", count)


def journal(unit):
    return out("journalctl", "--no-pager", "-b", "-o", "cat", "-u", unit)


def exposure(unit):
    """The number of `systemd-analyze security`: 0 is best, 10 is worst."""
    said = run("systemd-analyze", "security", "--no-pager", f"{unit}.service", codes=None).out
    found = re.search(r"Overall exposure level for \S+: ([0-9.]+)", said)
    if not found:
        raise Failure(f"systemd-analyze says nothing about {unit}: {said[-300:]}")
    return float(found.group(1))


def documents(text):
    return [json.loads(line) for line in text.splitlines()]


def admin(*words):
    """Runs `holdfast admin` as root. It finds the server of the machine by itself."""
    return run(HOLDFAST, "admin", *words).out


def token(node):
    return admin("node", "add", node).split("--token ")[1].split()[0]


def enrol(node):
    run(HOLDFAST, "enroll", ADDRESS, "--token", token(node))


def events(*options):
    return documents(admin("event", "list", "--json", *options))


def run_at_node(*words):
    """Runs a command by the agent, and returns the event: the last line; lines before it tell
    the progress."""
    done = run(HOLDFAST, "admin", "run", NODE, "--json", "--", *words, codes=None)
    return documents(done.out)[-1] if done.out else {"state": "refused", "reason": done.err}


def start_at_node(*words):
    """Starts a command by the agent; returns the name of its schedule."""
    known = {event["schedule"] for event in events()}
    admin("run", NODE, "--detach", "--", *words)
    new = lambda: {event["schedule"] for event in events()} - known
    return wait_for("the event", new).pop()


def wait_for_event(schedule, state, secs=300):
    def is_so():
        found = events("--schedule", schedule)
        if found and found[0]["state"] in ("failed", "missed", "uncertain"):
            raise Failure("it ended in another way")
        return [event for event in found if event["state"] == state]

    try:
        return wait_for(f"an event of {schedule} that is {state}", is_so, secs)[0]
    except Failure as failure:
        raise Failure(f"{failure}; there are {events('--schedule', schedule)}") from None


def check_restored(path, tree, text):
    """Restores a folder beside the old one, and compares everything with its manifest."""
    target = pathlib.Path("/srv/restored")
    run("rm", "-rf", target)
    run(HOLDFAST, "restore", path, "--to", target)
    # The files of a whole filespace lie in the target itself.
    found = target if path.is_mount() else target / path.name
    check_trees(tree, manifest(found), text)
    run("rm", "-rf", target)


def show_logs():
    """Shows the end of each log, for a step that has failed."""
    for event in documents(run(HOLDFAST, "agent", "status", "--json", codes=None).out)[:4]:
        show(f"{event} {run('tail', '-n', '15', event['log'], codes=None).out}")
    for unit in UNITS:
        lines = run("journalctl", "--no-pager", "-b", "-o", "short-monotonic", "-n", "25", "-u",
                    unit, codes=None).out
        show(f"{unit}:\n{lines}")
