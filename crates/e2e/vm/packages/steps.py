"""The steps of the test, in their order."""

import os
import pathlib
import pwd
import stat
import sys
import time

import machine
import watched
from machine import (
    HOME, NODE, RESTARTS, SERVER, UNITS, admin, apt, check_active, check_no_crash, check_restored,
    enrol, events, exposure, files, is_active, journal, preseed, process_of, property_of,
    run_at_node, start_at_node, status, token, version, wait_for_event,
)
from scene import (
    DONE, HOLDFAST, KIB, MIB, Mount, check, check_trees, make_tree, manifest, noise, out, release,
    run, settle, show, start, wait_for,
)
from volumes import COPY, GROUP, ORIGIN, Group, Writer, check_restored_volume

BEFORE, PRESENT = "/job/before", "/job/present"
DATA, SLOW = pathlib.Path("/srv/data"), pathlib.Path("/srv/slow")
VOLUMES_DISK, MANAGED_DISK, MANAGED = "/dev/vdc", "/dev/vdd", pathlib.Path("/data")
# A managed file system of the version before.
EARLIER_DISK, EARLIER = "/dev/vdf", pathlib.Path("/earlier")
SCHEDULE = "minutely"
# States of an event whose task runs; the agent, or the server, may be away for a moment.
UNDER_WAY = ("started", "in-progress", "severed")
# Highest exposure levels of the units. The agent and space management do the work of root.
EXPOSURES = {"holdfast-server": 2.0, "holdfast-agent": 9.2, "holdfast-journal": 4.5,
             "holdfast-hsm": 8.2}


def step_install_the_version_before(state):
    """The packages of the version before are installed. Nothing starts before it is set up."""
    said = apt("install", *files(BEFORE))
    check("runuser -u holdfast -- holdfast server init /var/lib/holdfast" in said,
          "the installation says how the server is made", said[-500:])
    check("holdfast enroll SERVER --token TOKEN" in said, "it says how the node is enrolled")
    for unit in UNITS:
        enabled = run("systemctl", "is-enabled", unit, codes=None).out.strip()
        check(enabled == "enabled" and not is_active(unit) and property_of(unit, "Result") ==
              "success", f"{unit} is enabled, and waits until it is set up", enabled)
    user, folder = pwd.getpwnam("holdfast"), os.stat(SERVER)
    check(folder.st_uid == user.pw_uid and stat.S_IMODE(folder.st_mode) == 0o700,
          "/var/lib/holdfast belongs to the user holdfast alone", oct(folder.st_mode))
    done = run("systemd-analyze", "verify", *(f"{unit}.service" for unit in UNITS), codes=None)
    check(done.code == 0 and not done.err.strip(), "systemd-analyze verify finds nothing", done)
    state["before"] = version("holdfast")
    show(f"Debian {pathlib.Path('/etc/debian_version').read_text().strip()}, kernel {release()}, "
         f"holdfast {state['before']}")


def step_set_up(state):
    """The server is made, the node is enrolled, and a tree is backed up."""
    run("runuser", "-u", "holdfast", "--", HOLDFAST, "server", "init", SERVER, "--listen",
        machine.ADDRESS)
    run("systemctl", "start", "holdfast-server")
    wait_for("the server", lambda: run(HOLDFAST, "admin", "servers", codes=None).code == 0)
    enrol(NODE)
    run("systemctl", "start", "holdfast-agent", "holdfast-journal")
    check_active("holdfast-server", "holdfast-agent", "holdfast-journal")
    refused = run("runuser", "-u", "nobody", "--", HOLDFAST, "admin", "--server", SERVER, "node",
                  "list", codes=None)
    check(refused.code != 0 and "needs root" in refused.err,
          "other users may not administer the server", refused)
    DATA.mkdir()
    make_tree(DATA, "data")
    run(HOLDFAST, "backup", DATA)
    check_restored(DATA, manifest(DATA), "the restored tree is the same")
    second = run(HOLDFAST, "backup", DATA)
    check("Journal of" in second.out, "the backup has asked the journal", second.out[-300:])
    admin("schedule", "define", SCHEDULE, "--action", "incremental", "--object", str(DATA),
          "--every", "1m", "--window", "1m")
    admin("schedule", "associate", SCHEDULE, "--node", NODE)
    event = wait_for_event(SCHEDULE, "completed")
    check(event["code"] == 0, "a schedule runs each minute", event)


def step_migrate(state):
    """The version before migrates files."""
    manage(EARLIER_DISK, EARLIER)
    stubs = Stubs(EARLIER)
    stubs.make()
    check(set(stubs.states()) == {"m"}, "the files are migrated", stubs.states())
    state["keeper"] = process_of("holdfast-hsm")


def step_upgrade(state):
    """An upgrade restarts the server and the agent once, and tasks go on."""
    SLOW.mkdir()
    # A filespace of its own: the backups of the schedule would refuse it while they run.
    run("mount", "-t", "tmpfs", "none", SLOW)
    for number in range(120):
        (SLOW / f"file {number}").write_bytes(noise(f"slow {number}", 200 * KIB))
    runs, go = pathlib.Path("/srv/runs"), pathlib.Path("/srv/go")
    command = start_at_node(
        "command", f"echo begun >> {runs}; while [ ! -e {go} ]; do sleep 1; done; "
        f"echo ended >> {runs}")
    wait_for("the command", runs.exists)
    backup = start_at_node("backup", str(SLOW), "--limit-rate-send=200K")
    wait_for("the backup", lambda: events("--schedule", backup)[0]["state"] in UNDER_WAY)
    processes = {unit: process_of(unit) for unit in UNITS[:3]}
    began = time.monotonic()
    apt("install", *files(PRESENT))
    show(f"the upgrade took {time.monotonic() - began:.0f} s")
    state["present"] = version("holdfast")
    check(state["present"] != state["before"],
          f"{state['before']} is upgraded to {state['present']}")
    check_active(*processes)
    check_no_crash(*processes)
    for unit, process in processes.items():
        check(process_of(unit) != process, f"{unit} was restarted")
        program = os.readlink(f"/proc/{process_of(unit)}/exe")
        check(program == "/usr/bin/holdfast", f"{unit} runs the new program", program)
    check("the server is stopping" in journal("holdfast-server"), "the old server ended orderly")
    check(property_of("holdfast-server", "StatusText").startswith("ready on"),
          "the restart has waited until the server was ready")
    check(runs.read_text() == "begun\n", "the command runs on")
    event = events("--schedule", backup)[0]
    check(event["state"] in UNDER_WAY, "the backup is under way", event)
    go.touch()
    for schedule, what in ((command, "the command"), (backup, "the backup")):
        event = wait_for_event(schedule, "completed", 600)
        count = len(events("--schedule", schedule))
        check(event["code"] == 0 and count == 1 and event["attempt"] <= 1,
              f"{what} completes, once", event)
    check(runs.read_text() == "begun\nended\n", "the command ran once", runs.read_text())
    check_restored(SLOW, manifest(SLOW), "the backup that spanned the upgrade is whole")
    check_restored(DATA, manifest(DATA), "what the version before has stored is restored")
    done = run(HOLDFAST, "verify", "--data", codes=None)
    check(done.code == DONE, "verify finds all data of the version before sound", done)


def step_stubs_of_the_version_before(state):
    """The upgrade has replaced the processes of space management, which recall the old stubs."""
    stubs = Stubs(EARLIER)
    wait_for_keeper_after(state["keeper"])
    program = os.readlink(f"/proc/{process_of('holdfast-hsm')}/exe")
    check(program == "/usr/bin/holdfast", "holdfast-hsm runs the new program", program)
    check(set(stubs.states()) == {"m"}, "the files are still migrated", stubs.states())
    stubs.check_whole("every stub of the version before has its content when it is read")
    end_management(EARLIER, stubs)
    # As before the first file system was managed, so that the service does not start.
    for path in HOME.glob("hsm.*"):
        path.unlink()


def step_look(state):
    """Manual pages, completions, and the rights of the units."""
    for unit, most in EXPOSURES.items():
        found = exposure(unit)
        check(found <= most, f"systemd-analyze security: {unit} {found} (at most {most})")
    done = run("systemd-analyze", "verify", *(f"{unit}.service" for unit in UNITS), codes=None)
    check(done.code == 0 and not done.err.strip(), "systemd-analyze verify finds nothing", done)
    pages = len(list(pathlib.Path("/usr/share/man/man1").glob("holdfast*.1.gz")))
    check(pages > 150, f"{pages} manual pages are installed")
    for page in ("holdfast", "holdfast-admin-schedule-define"):
        text = run("sh", "-c", f"MANWIDTH=80 man {page} | col -b").out
        check("NAME" in text and "EXAMPLE" in text, f"man {page} shows the page", text[:200])
    bash = ("source /usr/share/bash-completion/bash_completion; _completion_loader holdfast; "
            "complete -p holdfast")
    check("_holdfast" in out("bash", "-c", bash), "bash completes")
    zsh = "autoload -U compinit; compinit -u -D; print $_comps[holdfast]"
    check("_holdfast" in out("zsh", "-c", zsh), "zsh completes")
    for words, completed in (("sched", "schedule"), ("schedule define --act", "--action")):
        found = out("fish", "-c", f"complete --do-complete 'holdfast admin {words}'")
        check(completed in found, f"fish completes {completed}", found)


def step_journal(state):
    """A file system is watched, and its files will change whenever the journal is not there."""
    watched.set_up()
    watched.check_walk("no complete backup", "the first backup walks")
    (watched.FOLDER / "new").write_bytes(b"new")
    watched.check_by_journal("the second backup goes by the journal")
    watched.change_at_start_and_end()
    watched.check_by_journal("and the third, after changes by a unit")


def step_schedule(state):
    """A schedule runs each minute with the new version; then the machine is restarted."""
    # An event that is under way may see the new file.
    last = max(event["event"] for event in events("--schedule", SCHEDULE)
               if event["state"] == "completed")
    (DATA / "new").write_bytes(noise("new", 100 * KIB))
    new = lambda: [event for event in events("--schedule", SCHEDULE)
                   if event["event"] > last and event["state"] == "completed"
                   and event["report"]["backed_up"] > 0]
    event = wait_for("an event with a new file", new)[0]
    check(event["code"] == 0, "the schedule has backed up a new file", event)
    state["last"] = max(event["event"] for event in events("--schedule", SCHEDULE))
    state["boot"] = boot_id()
    return RESTARTS


def boot_id():
    return pathlib.Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def step_after_the_restart(state):
    """After a reboot everything comes back by itself, and the schedule goes on."""
    check(boot_id() != state["boot"], "the machine has booted anew")
    units = UNITS[:3]
    wait_for("the units", lambda: all(is_active(unit) for unit in units))
    check_active(*units)
    check_no_crash(*units)
    new = lambda: [event for event in events("--schedule", SCHEDULE)
                   if event["event"] > state["last"] and event["state"] == "completed"]
    event = wait_for("an event after the reboot", new)[0]
    check(event["code"] == 0, "the schedule runs after the reboot", event)
    check_restored(DATA, manifest(DATA), "the restored tree is the same")


def step_journal_of_another_boot(state):
    """What has changed while nobody watched, before and after the reboot, is in the next backup."""
    states = watched.LOG.read_text().splitlines()
    check(len(states) == 3 and states[0] == "active" and "active" not in states[1:],
          "files have changed after the journal had ended, and before it began", states)
    watched.check_walk("no complete backup", "after the reboot the first backup walks")
    watched.check_nothing_is_missing()
    check_restored(watched.PATH, manifest(watched.PATH), "every change is restored")
    (watched.FOLDER / "new").write_bytes(b"newer")
    watched.check_by_journal("the backup after that goes by the journal again")


def step_volume(state):
    """The agent makes an image, and a backup of files, of a volume in use, by snapshots of LVM."""
    group = Group(VOLUMES_DISK)
    group.add("copy")
    with Mount(ORIGIN) as mount:
        make_tree(mount.path, "volume")
        tree = manifest(mount.path)
        program = Writer(mount / "written")
        before = program.number()
        event = run_at_node("image", "backup", ORIGIN, "--snapshot=lvm", "--rate=12M")
        after = program.number()
        check(event["state"] == "completed" and event["code"] == 0,
              "the image is made by the agent", event)
        check(after > before, f"a program wrote {after - before} files meanwhile")
        group.check_no_snapshot()
        listed = out(HOLDFAST, "image", "list", "--json")
        check('"state":"snapshot"' in listed, "it is of one moment", listed)
        run(HOLDFAST, "image", "restore", ORIGIN, COPY, "--confirm")
        check_restored_volume(tree, before, after)
        event = run_at_node("backup", str(mount.path), "--snapshot=lvm")
        check(event["state"] == "completed" and event["code"] == 0,
              "the files are backed up from a snapshot", event)
        group.check_no_snapshot()
        program.end()
        check_journal(mount.path)
        target = pathlib.Path("/srv/out")
        run(HOLDFAST, "restore", mount.path, "--to", target)
        restored = {name: facts for name, facts in manifest(target).items()
                    if not name.startswith("written")}
        check_trees(tree, restored, "the files of the snapshot are the same")
    group.end()


def check_journal(path):
    """The second of two backups of a file system goes by the journal."""
    folder = path / "written by turns"
    folder.mkdir()
    # The program that wrote by turns may have removed most of what the snapshot had.
    run(HOLDFAST, "backup", path, "--confirm")
    (folder / "new").write_bytes(b"new")
    done = run(HOLDFAST, "backup", path)
    line = next((line for line in done.out.splitlines() if line.startswith("Journal of")), "")
    check("looked at" in line, f"a backup goes by the journal: {line}", done)
    listed = out(HOLDFAST, "list", folder)
    check("/new" in listed, "and finds what is new", listed)


class Stubs:
    """Files of a managed file system, whose contents are known."""

    COUNT, BYTES = 12, 300 * KIB

    def __init__(self, top=MANAGED):
        self.folder = top / "files"
        self.contents = {self.folder / f"file {number}": noise(f"stub {number}", self.BYTES + number)
                         for number in range(self.COUNT)}

    def make(self):
        self.folder.mkdir()
        for path, content in self.contents.items():
            path.write_bytes(content)
        self.migrate()

    def migrate(self):
        run(HOLDFAST, "hsm", "migrate", self.folder)

    def states(self):
        listed = machine.documents(out(HOLDFAST, "hsm", "ls", "--json", self.folder))
        return [row["state"] for row in listed]

    def check_whole(self, text):
        wrong = [path.name for path, content in self.contents.items()
                 if path.read_bytes() != content]
        check(not wrong, text, wrong)


def manage(disk, top):
    """Makes a file system, which space management manages from now on."""
    top.mkdir()
    run("mkfs.ext4", "-q", disk)
    run("mount", disk, top)
    run(HOLDFAST, "hsm", "add", top, "--unused-days", "0", "--high", "100")
    run("systemctl", "start", "holdfast-hsm")
    check_active("holdfast-hsm")


def wait_for_keeper_after(process):
    """Waits until another process than this one does space management."""
    wait_for("the new keeper", lambda: is_active("holdfast-hsm")
             and process_of("holdfast-hsm") not in (0, process))


def end_management(top, stubs):
    """Makes all files resident, and unmounts the file system."""
    run(HOLDFAST, "hsm", "recall", "--resident", top)
    run(HOLDFAST, "hsm", "remove", top)
    stubs.check_whole("they are resident without space management")
    run("systemctl", "stop", "holdfast-hsm")
    while run("mountpoint", "-q", top, codes=None).code == 0:
        run("umount", top)


def step_space_management(state):
    """On this kernel, which asks only when a file is opened, stubs are recalled as a whole."""
    manage(MANAGED_DISK, MANAGED)
    said = journal("holdfast-hsm")
    check("this kernel asks only when a file is opened (before 6.14)" in said,
          "the service says how this kernel asks", said)
    stubs = Stubs()
    stubs.make()
    check(set(stubs.states()) == {"m"}, "the files are migrated", stubs.states())
    used = sum(os.stat(path).st_blocks for path in stubs.contents) // 2
    check(used < 100, f"the stubs take {used} KiB in place of {stubs.COUNT * 300} KiB")
    first = next(iter(stubs.contents))
    with open(first, "rb") as file:
        check(file.read(10) == stubs.contents[first][:10], "a program reads ten bytes of a stub")
    check(stubs.states().count("m") == stubs.COUNT - 1 and os.stat(first).st_blocks * 512 >=
          stubs.BYTES, "the whole file was recalled for it", stubs.states())
    stubs.check_whole("every stub has its content when it is read")
    stubs.migrate()
    run(HOLDFAST, "backup", MANAGED)
    check(set(stubs.states()) == {"m"}, "a backup recalls nothing", stubs.states())


def step_replace_the_keeper(state):
    """An upgrade of space management replaces its processes while a program reads stubs."""
    stubs, pid = Stubs(), process_of("holdfast-hsm")
    log = pathlib.Path("/srv/reader.log")
    reader = start(sys.executable, "-u", "-c", READER, stubs.folder, stdout=open(log, "w"))
    wait_for("the reader", lambda: log.read_text().count("\n") > stubs.COUNT)
    apt("install", "--reinstall", *files(PRESENT, "holdfast-hsm"))
    wait_for_keeper_after(pid)
    read = log.read_text().count("\n")
    wait_for("the reader", lambda: log.read_text().count("\n") > read + stubs.COUNT)
    reader.kill()
    lines = log.read_text().splitlines()
    check("zeros" not in lines, "a program that opens the files meanwhile never reads zeros")
    # The old keeper may have read one question of the program when it ended.
    check(lines.count("refused") <= 1, "and waits for the new keeper",
          f"{lines.count('refused')} refusals")
    stubs.migrate()
    check(set(stubs.states()) == {"m"}, "the files migrate again", stubs.states())
    stubs.check_whole("they are recalled by the new keeper")
    stubs.migrate()


# Opens all files again and again, and says what it has found.
READER = """
import pathlib, sys, time
while True:
    for path in pathlib.Path(sys.argv[1]).iterdir():
        try:
            with open(path, "rb") as file:
                print("content" if file.read(64).strip(b"\\0") else "zeros")
        except OSError as error:
            print("refused")
        time.sleep(0.2)
"""


def step_hidden(state):
    """Without the service the files are hidden; it shows them again."""
    stubs = Stubs()
    run("umount", "--all-targets", MANAGED, codes=None)
    run("systemctl", "stop", "holdfast-hsm")
    while run("mountpoint", "-q", MANAGED, codes=None).code == 0:
        run("umount", MANAGED)
    run("mount", MANAGED_DISK, MANAGED)
    names = set(os.listdir(MANAGED))
    check("files" not in names and ".holdfast-hidden" in names, "the files are hidden", names)
    refused = run(HOLDFAST, "backup", MANAGED, codes=None)
    check(refused.code != DONE, "a backup of the hidden files is refused", refused)
    run("systemctl", "start", "holdfast-hsm")
    check("files" in os.listdir(MANAGED), "the service shows them", os.listdir(MANAGED))
    stubs.check_whole("they have their contents")
    end_management(MANAGED, stubs)


def step_remove(state):
    """Removal keeps all data, and an installation goes on with them."""
    packages = ("holdfast-server", "holdfast-agent", "holdfast-hsm")
    apt("remove", *packages)
    for unit in UNITS:
        check(not is_active(unit), f"{unit} has stopped")
    check(all(status(package) == "config-files" for package in packages), "they are removed")
    check((SERVER / "catalog.sqlite").exists() and (HOME / "node.pem").exists(),
          "the server's data and the node's keys are there")
    apt("install", *files(PRESENT))
    wait_for("the server", lambda: is_active("holdfast-server"))
    check_active(*UNITS[:3])
    check_restored(DATA, manifest(DATA), "after a new installation everything is restored")


def step_purge_the_agent(state):
    """Purge asks whether the keys go, and keeps them unless somebody says yes."""
    said = apt("purge", "holdfast-agent", "holdfast-hsm")
    check(status("holdfast-agent") != "config-files" and (HOME / "node.pem").exists(),
          "without an answer the keys stay", said[-300:])
    check("stay in /etc/holdfast" in said, "purge says so", said[-300:])
    apt("install", *files(PRESENT, "holdfast-agent", "holdfast-hsm"))
    settings = HOME / "hsm.toml"
    settings.touch()
    preseed("holdfast-agent/remove-keys", "boolean", "true")
    said = apt("purge", "holdfast-agent")
    check((HOME / "node.pem").exists() and settings.exists() and not (HOME / "agent").exists(),
          "only the records of the agent go while space management is installed", said[-300:])
    check("stay in /etc/holdfast, for holdfast-hsm" in said, "purge says so", said[-300:])
    preseed("holdfast-hsm/remove-settings", "boolean", "true")
    apt("purge", "holdfast-hsm")
    check((HOME / "node.pem").exists() and not settings.exists(),
          "purge of space management removes its settings alone")
    apt("install", *files(PRESENT, "holdfast-agent", "holdfast-hsm"))
    preseed("holdfast-agent/remove-keys", "boolean", "true")
    apt("purge", "holdfast-agent", "holdfast-hsm")
    check(not HOME.exists(), "with the answer yes they are gone")


def step_fleet(state):
    """The role of Ansible installs the agent, enrols the node, changes nothing the next time, and
    upgrades the node when the folder has a newer version."""
    repository = pathlib.Path("/srv/packages")
    repository.mkdir()
    for path in files(PRESENT):
        (repository / path.name).write_bytes(path.read_bytes())
    variables = (f"holdfast_package_folder={repository} holdfast_server={machine.ADDRESS} "
                 f"holdfast_token={token('web2')}")
    words = ("ansible-playbook", "--connection", "local", "--inventory", "localhost,",
             "--extra-vars", variables, "/job/ansible/fleet.yml")
    environment = ("env", "ANSIBLE_LOCALHOST_WARNING=False", "LC_ALL=C.UTF-8", "HOME=/root")
    done = run(*environment, *words, secs=900, codes=None)
    check(done.code == 0 and "failed=0" in done.out, "the role runs", done.out[-800:] + done.err)
    check((HOME / "node.pem").exists(), "the node is enrolled")
    check_active("holdfast-agent", "holdfast-journal")
    run(HOLDFAST, "backup", DATA)
    check_restored(DATA, manifest(DATA), "it backs up and restores")
    def check_unchanged(text):
        done = run(*environment, *words, secs=900, codes=None)
        check(done.code == 0 and "changed=0" in done.out, text, done.out[-800:] + done.err)

    check_unchanged("a second run changes nothing")
    newer = version("holdfast") + "+newer"
    for path in files(PRESENT):
        repack(path, newer, repository)
    process = process_of("holdfast-agent")
    done = run(*environment, *words, secs=900, codes=None)
    check(done.code == 0 and "failed=0" in done.out, "the role runs with a newer version beside the "
          "old one", done.out[-800:] + done.err)
    found = {package: version(package) for package in machine.PACKAGES
             if status(package) == "installed"}
    check(set(found.values()) == {newer} and "holdfast-agent" in found and "holdfast-server" in
          found, "every package of the host is upgraded", found)
    check_active("holdfast-server", "holdfast-agent", "holdfast-journal")
    check(process_of("holdfast-agent") != process, "the agent was restarted")
    run(HOLDFAST, "backup", DATA)
    check_restored(DATA, manifest(DATA), "the upgraded node backs up and restores")
    check_unchanged("after the upgrade the role changes nothing")
    # The steps that follow install packages of the present version.
    apt("install", "--allow-downgrades", *(path for path in files(PRESENT)
                                           if path.name.split("_")[0] in found))


def repack(path, to, folder):
    """Makes the package of another version, with the same program, in a folder."""
    name, old, rest = path.name.split("_")
    tree = pathlib.Path("/srv/repacked") / name
    tree.parent.mkdir(exist_ok=True)
    run("dpkg-deb", "--raw-extract", path, tree)
    control = tree / "DEBIAN/control"
    text = control.read_text()
    was = next(line.split(": ")[1] for line in text.splitlines() if line.startswith("Version: "))
    text = text.replace(f"Version: {was}\n", f"Version: {to}\n").replace(f"(= {was})", f"(= {to})")
    control.write_text(text)
    run("dpkg-deb", "--root-owner-group", "--build", tree, folder / f"{name}_{to}_{rest}")


def step_dsmcad(state):
    """Where a site has chosen dsmcad, an upgrade restarts it, and a removal stops it."""
    host, port = machine.ADDRESS.split(":")
    options = HOME / "tsm"
    options.mkdir()
    (options / "dsm.opt").touch()
    (options / "dsm.sys").write_text(
        f"SERVERNAME here\nTCPSERVERADDRESS {host}\nTCPPORT {port}\nNODENAME web2\n"
        "PASSWORDACCESS GENERATE\nMANAGEDSERVICES SCHEDULE\n")
    apt("install", *files(PRESENT, "holdfast-tsm"))
    check(not is_active("dsmcad"), "an installation starts no second agent")
    run("systemctl", "disable", "--now", "holdfast-agent")
    run("systemctl", "enable", "--now", "dsmcad")
    check_active("dsmcad")
    process = process_of("dsmcad")
    # For the scripts of the package this is an upgrade.
    apt("install", "--reinstall", *files(PRESENT, "holdfast-tsm"))
    check_active("dsmcad")
    check(process_of("dsmcad") not in (0, process), "it was restarted")
    check(not is_active("holdfast-agent"), "the other agent was not started")
    apt("remove", "holdfast-tsm")
    check(not is_active("dsmcad"), "it has stopped")
    run("systemctl", "enable", "--now", "holdfast-agent")
    check_active("holdfast-agent")


def step_purge_the_server(state):
    """Purge asks whether the server's data go, and keeps them unless somebody says yes."""
    said = apt("purge", "holdfast-server")
    check((SERVER / "catalog.sqlite").exists() and "stay in /var/lib/holdfast" in said,
          "without an answer the data stay", said[-300:])
    apt("install", *files(PRESENT, "holdfast-server"))
    wait_for("the server", lambda: is_active("holdfast-server"))
    check_restored(DATA, manifest(DATA), "and are used again")
    preseed("holdfast-server/remove-data", "boolean", "true")
    apt("purge", "holdfast-server")
    check(not SERVER.exists(), "with the answer yes they are gone")
    left = [str(path) for pattern in ("/usr/lib/systemd/system/holdfast-server*",
                                      "/lib/systemd/system/holdfast-server*",
                                      "/etc/systemd/system/*/holdfast-server*")
            for path in pathlib.Path("/").glob(pattern.lstrip("/"))]
    check(not left, "no unit is left", left)


ALL = [step for name, step in list(globals().items()) if name.startswith("step_")]
