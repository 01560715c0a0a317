"""A file system that the journal watches, and a unit that changes its files while nobody watches."""

import pathlib

from scene import HOLDFAST, check, make_tree, run

DISK, PATH = "/dev/vde", pathlib.Path("/srv/watched")
FOLDER = PATH / "folder" / "sub"
# State of the journal at each of the changes, a line each.
LOG = pathlib.Path("/srv/watched.log")
NAME = "change-watched"
SCRIPT = pathlib.Path("/usr/local/sbin") / NAME
UNIT = pathlib.Path("/etc/systemd/system") / f"{NAME}.service"
# Makes a folder and a file, and removes, changes and moves one of the other files.
CHANGES = f"""\
#!/bin/sh
set -e
journal=$(systemctl is-active holdfast-journal || true)
number=$(wc -l <{LOG})
cd {FOLDER}
mkdir "made $number"
echo "the journal is $journal" >"made $number/file"
set -- file*
rm "$1"
echo more >>"$2"
mv "$3" "moved $number"
sync
echo "$journal" >>{LOG}
"""
# At the start of the machine it comes before the other services, and at the end after them.
SERVICE = f"""\
[Unit]
Description=Changes of files that nobody watches
RequiresMountsFor={PATH}
Before=holdfast-server.service holdfast-agent.service holdfast-journal.service

[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart={SCRIPT}
ExecStop={SCRIPT}

[Install]
WantedBy=multi-user.target
"""


def set_up():
    """Makes the file system, which is mounted at each start of the machine, and its files."""
    run("mkfs.ext4", "-q", DISK)
    PATH.mkdir()
    with open("/etc/fstab", "a") as table:
        table.write(f"{DISK} {PATH} ext4 defaults 0 0\n")
    run("systemctl", "daemon-reload")
    run("mount", PATH)
    # Its change time is a whole second: a backup does not trust it for two seconds.
    (PATH / "lost+found").rmdir()
    make_tree(PATH, "watched")


def change_at_start_and_end():
    """Installs the unit. Its first changes are made at once, while the journal is there."""
    LOG.touch()
    SCRIPT.write_text(CHANGES)
    SCRIPT.chmod(0o755)
    UNIT.write_text(SERVICE)
    run("systemctl", "daemon-reload")
    run("systemctl", "enable", "--now", NAME)


def journal_of_backup():
    """Backs up, and returns what the report says about the journal."""
    [journal] = run(HOLDFAST, "backup", PATH, "--json").json()["journals"]
    return journal


def check_walk(reason, text):
    journal = journal_of_backup()
    check(not journal["used"] and reason in str(journal["reason"]), text, journal)


def check_by_journal(text):
    journal = journal_of_backup()
    check(journal["used"], text, journal)
    check_nothing_is_missing()


def check_nothing_is_missing():
    """A walk after a backup finds nothing to do."""
    walk = run(HOLDFAST, "backup", PATH, "--dry-run", "--no-journal", "--json").json()
    check(walk["planned"] == [], "it has missed no change", walk["planned"][:5])
