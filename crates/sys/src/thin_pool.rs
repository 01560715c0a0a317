//! Snapshots of thin volumes of LVM that stay, and what differs between two of them.
//!
//! The pool knows for each thin volume which blocks of the pool its blocks are. A block of the pool
//! that several volumes share is never overwritten. So two snapshots have the same content wherever
//! they have the same block of the pool, and where neither has one.
//!
//! ```text
//! lvcreate -> holdfast-snapshot-PID-N -- image -> holdfast-kept-VOLUME -- next image -> lvremove
//!                       |                                  |
//!                       +------------ thin_delta ----------+
//! ```
//!
//! 1. `thin_delta` reads a snapshot of the pool's metadata, which the kernel reserves for it. The
//!    shell that runs `thin_delta` releases it, also after a failure or a signal, and also if this
//!    process is killed meanwhile.
//! 2. Only what `thin_delta` calls the same is believed. Version 0.9 may leave out the last blocks
//!    of a volume that the other one does not have, so each volume is compared with itself, too:
//!    this lists all its blocks. Versions 1.0.0 to 1.0.5 call blocks the same that differ, and are
//!    not used.

use std::ffi::OsStr;
use std::io::{self, Read as _};
use std::process::{Command, Stdio};

use crate::frozen_filesystem::{FrozenFilesystem, LogicalVolume, remove, run, words};
use crate::lock::Mutex;

/// Prefix of the names of snapshots that stay until the next image; the name of the volume follows.
const KEPT: &str = "holdfast-kept-";
/// Facts about a volume, in the order of [`volumes_in`].
const FIELDS: &str = "lv_name,lv_uuid,pool_lv,origin,thin_id";
/// Maximum size of what `thin_delta` prints: a million and more ranges.
const PRINTED_BYTES_MAX: u64 = 64 << 20;
/// Maximum size of what tools say about a failure.
const SAID_BYTES_MAX: u64 = 64 << 10;
/// Shell program that compares pairs of volumes. Its arguments: the device of the pool, that of its
/// metadata, and the numbers of the volumes.
///
/// No signal may end it between the reservation and the lines after that, or during the release.
const COMPARE: &str = r#"
pool=$1 metadata=$2
shift 2
trap '' HUP INT QUIT TERM
dmsetup message "$pool" 0 reserve_metadata_snap >/dev/null || exit
trap 'trap "" HUP INT QUIT TERM
  dmsetup message "$pool" 0 release_metadata_snap >/dev/null || exit 1' EXIT
trap 'exit 1' HUP INT QUIT TERM
while [ $# -gt 0 ]; do
  thin_delta --metadata-snap --thin1 "$1" --thin2 "$2" "$metadata" || exit
  shift 2
done
"#;

/// Held while the metadata of a pool are reserved: the kernel reserves one snapshot of them for
/// each pool, and sources of one pool may be read side by side.
static TURN: Mutex<()> = Mutex::new(());

/// A thin volume.
#[derive(Clone, PartialEq, Eq, Debug)]
struct ThinVolume {
    name: String,
    uuid: String,
    pool: String,
    /// Name of the volume of which it is a snapshot, or an empty text.
    origin: String,
    /// Number of the volume in its pool.
    number: u64,
}

/// A new snapshot of a thin volume, and those that have stayed for it.
#[derive(Debug)]
pub struct ThinSnapshots {
    group: String,
    new: ThinVolume,
    kept: Vec<ThinVolume>,
}

/// Comparisons of two snapshots by `thin_delta`, which the caller parses.
#[derive(Debug)]
pub struct ThinDelta {
    /// Numbers of the older snapshot and of the newer one; equal if there is no older one.
    pub numbers: (u64, u64),
    /// Three documents in XML: the older snapshot and itself, the newer one and itself, both.
    pub documents: Vec<u8>,
}

impl ThinSnapshots {
    /// Finds the snapshots of the volume of which `frozen` is a new one; `None` if the volume is
    /// not thin.
    pub fn of(frozen: &FrozenFilesystem) -> io::Result<Option<Self>> {
        let Some(LogicalVolume { group, name, is_thin: true }) = frozen.volume() else {
            return Ok(None);
        };
        let lvs = ["lvs", "--noheadings", "--separator", "/", "-o", FIELDS, group.as_str()];
        let listed = run(&words(&lvs.map(OsStr::new)))?;
        let found = among(group, name, volumes_in(&String::from_utf8_lossy(&listed)));
        let lost = || io::Error::other(format!("lvs does not list the snapshot {group}/{name}"));
        found.ok_or_else(lost).map(Some)
    }

    /// Returns the UUID of the new snapshot. It keeps it under any name.
    pub fn id(&self) -> &str {
        &self.new.uuid
    }

    /// Returns the UUID of the snapshot that has stayed.
    pub fn kept_id(&self) -> Option<&str> {
        self.kept.first().map(|kept| &kept.uuid[..])
    }

    /// Compares the snapshot that has stayed with the new one, or the new one with itself.
    pub fn compare(&self) -> io::Result<ThinDelta> {
        let missing = |error: io::Error| {
            io::Error::new(error.kind(), format!("{error}; install thin-provisioning-tools"))
        };
        let version = run(&words(&["thin_delta", "--version"].map(OsStr::new))).map_err(missing)?;
        let version = String::from_utf8_lossy(&version);
        if !is_sound(&version) {
            let version = version.trim();
            let text = format!("thin_delta {version} calls blocks the same that differ");
            return Err(io::Error::other(text));
        }
        let device = mapping(&self.group, &self.new.name);
        let table = run(&words(&["dmsetup", "table", &device].map(OsStr::new)))?;
        if !is_plain(&String::from_utf8_lossy(&table), self.new.number) {
            return Err(io::Error::other("it has blocks outside of its pool"));
        }
        let (old, new) = (self.kept.first().unwrap_or(&self.new).number, self.new.number);
        let pool = mapping(&self.group, &self.new.pool);
        let _turn = TURN.lock();
        let documents = output_of(comparison(&pool, [(old, old), (new, new), (old, new)]))?;
        Ok(ThinDelta { numbers: (old, new), documents })
    }

    /// Removes the snapshots that have stayed.
    pub fn remove_kept(&self) -> io::Result<()> {
        self.kept
            .iter()
            .try_for_each(|kept| run(&remove(&self.group, &kept.name)).map(drop))
    }

    /// Makes the new snapshot the one that stays. It is not active then, so that nobody finds a
    /// second file system with the same UUID.
    pub(crate) fn replace_kept(&self) -> io::Result<()> {
        let path = format!("{}/{}", self.group, self.new.name);
        let kept = format!("{KEPT}{}", self.new.origin);
        run(&words(&["lvchange", "--activate", "n", &path].map(OsStr::new)))?;
        run(&words(&["lvchange", "--setactivationskip", "y", &path].map(OsStr::new)))?;
        self.remove_kept()?;
        let rename = ["lvrename", self.group.as_str(), self.new.name.as_str(), kept.as_str()];
        run(&words(&rename.map(OsStr::new))).map(drop)
    }
}

/// Finds the snapshot `name` among the volumes of a group, and those that have stayed for its
/// volume.
fn among(group: &str, name: &str, volumes: Vec<ThinVolume>) -> Option<ThinSnapshots> {
    let is_new = |volume: &&ThinVolume| volume.name == name && !volume.origin.is_empty();
    let new = volumes.iter().find(is_new)?.clone();
    let has_stayed = |volume: &ThinVolume| {
        volume.name.starts_with(KEPT) && (&volume.origin, &volume.pool) == (&new.origin, &new.pool)
    };
    let kept = volumes.into_iter().filter(has_stayed).collect();
    Some(ThinSnapshots { group: group.to_owned(), new, kept })
}

/// Returns the thin volumes in a list of volumes.
fn volumes_in(listed: &str) -> Vec<ThinVolume> {
    let volume = |line: &str| {
        let mut fields = line.split('/').map(|field| field.trim().to_owned());
        let (name, uuid) = (fields.next()?, fields.next()?);
        let pool = fields.next().filter(|pool| !pool.is_empty())?;
        let origin = fields.next()?;
        let number = fields.next()?.parse().ok()?;
        Some(ThinVolume { name, uuid, pool, origin, number })
    };
    listed.lines().filter_map(volume).collect()
}

/// Returns true if `thin_delta` of this version calls nothing the same that differs.
fn is_sound(version: &str) -> bool {
    let number = version.split_whitespace().last().unwrap_or_default();
    let parts: Vec<u32> = number.split(['.', '-']).map_while(|part| part.parse().ok()).collect();
    match parts[..] {
        [0, minor, ..] => minor >= 9,
        [1, 0, patch, ..] => patch >= 6,
        [1, 0] => false,
        [_, _, ..] => true,
        _ => false,
    }
}

/// Returns true if the table of a mapping is that of the thin volume `number` without an external
/// origin. Source: Linux, `Documentation/admin-guide/device-mapper/thin-provisioning.rst`.
fn is_plain(table: &str, number: u64) -> bool {
    let fields: Vec<&str> = table.split_whitespace().collect();
    matches!(fields[..], [_, _, "thin", _, volume] if volume.parse::<u64>() == Ok(number))
}

/// Returns the name that device mapper has for a logical volume.
fn mapping(group: &str, volume: &str) -> String {
    format!("{}-{}", group.replace('-', "--"), volume.replace('-', "--"))
}

/// Returns the command that compares pairs of volumes of a pool, which has the name `pool` in
/// device mapper.
fn comparison(pool: &str, pairs: [(u64, u64); 3]) -> Command {
    let mut command = Command::new("/bin/sh");
    command.args(["-c", COMPARE, "thin_delta", &format!("{pool}-tpool")]);
    command.arg(format!("/dev/mapper/{pool}_tmeta"));
    command.args(pairs.iter().flat_map(|(one, other)| [one.to_string(), other.to_string()]));
    command
}

/// Runs a command to its end and returns what it has printed; the error has what it has said.
fn output_of(mut command: Command) -> io::Result<Vec<u8>> {
    let command = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn()?;
    let stdout = child.stdout.take().expect("it is a pipe");
    let stderr = child.stderr.take().expect("it is a pipe");
    let (mut printed, mut said) = (Vec::new(), Vec::new());
    let read = std::thread::scope(|threads| {
        let saying = threads.spawn(|| stderr.take(SAID_BYTES_MAX).read_to_end(&mut said));
        let read = stdout.take(PRINTED_BYTES_MAX + 1).read_to_end(&mut printed);
        // An explanation that could not be read is missing in the message only.
        drop(saying.join());
        read
    });
    let status = child.wait()?;
    if read? as u64 > PRINTED_BYTES_MAX {
        return Err(io::Error::other("its changes are in too many places"));
    }
    if status.success() {
        return Ok(printed);
    }
    let said = String::from_utf8_lossy(&said);
    let mut lines = said.lines().map(str::trim).filter(|line| !line.is_empty());
    let reason = lines.next().unwrap_or("thin_delta has failed");
    Err(io::Error::other(reason.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LISTED: &str = "  data/aaaa-1/pool//1\n  holdfast-kept-data/bbbb-2/pool/data/2\n  \
                          holdfast-snapshot-7-0/cccc-3/pool/data/5\n  \
                          holdfast-kept-other/dddd-4/pool/other/3\n  pool/eeee-5///\n  \
                          holdfast-kept-x/ffff-6/pool2/data/4\n  thick/gggg-7///\n";

    #[test]
    fn snapshots_belong_to_their_volume() {
        let found = among("vg", "holdfast-snapshot-7-0", volumes_in(LISTED)).expect("listed");
        assert_eq!((found.id(), found.kept_id()), ("cccc-3", Some("bbbb-2")));
        assert_eq!((found.kept.len(), found.new.number), (1, 5));
        for name in ["data", "thick", "none"] {
            assert!(among("vg", name, volumes_in(LISTED)).is_none(), "{name} is no thin snapshot");
        }
    }

    #[test]
    fn versions_that_mistake_blocks_are_known() {
        for sound in ["0.9.0\n", "1.0.6\n", "thin_delta 1.0.12", "1.1.0", "1.3.0-rc1", "2.0"] {
            assert!(is_sound(sound), "{sound}");
        }
        for unsound in ["0.8.5", "1.0.0", "thin_delta 1.0.5\n", "1", "1.0", "", "unknown"] {
            assert!(!is_sound(unsound), "{unsound}");
        }
    }

    #[test]
    fn a_volume_with_an_external_origin_is_recognised() {
        assert!(is_plain("0 262144 thin 253:4 5\n", 5));
        for table in ["0 262144 thin 253:4 5 253:9\n", "0 262144 thin 253:4 6\n", "", "0 8 linear"]
        {
            assert!(!is_plain(table, 5), "{table}");
        }
    }

    #[test]
    fn device_mapper_has_names_of_its_own() {
        assert_eq!(mapping("vg-x", "my-pool"), "vg--x-my--pool");
    }

    /// Runs the comparison with tools that only note how they are called. Returns its result and
    /// the notes.
    fn compared(dmsetup: &str, thin_delta: &str) -> (Result<String, String>, Vec<String>) {
        let folder = tempfile::tempdir().expect("a folder");
        let notes = folder.path().join("notes");
        // Another process writes the tools: a file that this one has open cannot be run.
        let tool = |name: &str, work: &str| {
            let text = format!("#!/bin/sh\necho {name} \"$*\" >>\"$NOTES\"\n{work}\n");
            let path = folder.path().join(name);
            let write = "printf %s \"$0\" >\"$1\" && chmod 755 \"$1\"";
            let shell = ["sh", "-c", write, text.as_str()].map(OsStr::new);
            run(&words(&[&shell[..], &[path.as_os_str()]].concat())).expect("written");
        };
        tool("dmsetup", dmsetup);
        tool("thin_delta", thin_delta);
        let mut command = comparison("vg-pool", [(1, 1), (2, 2), (1, 2)]);
        command.env("PATH", folder.path()).env("NOTES", &notes);
        let printed = output_of(command).map_err(|error| error.to_string());
        let printed = printed.map(|text| String::from_utf8_lossy(&text).into_owned());
        let notes = std::fs::read_to_string(&notes).expect("written");
        (printed, notes.lines().map(str::to_owned).collect())
    }

    const RESERVED: &str = "dmsetup message vg-pool-tpool 0 reserve_metadata_snap";
    const RELEASED: &str = "dmsetup message vg-pool-tpool 0 release_metadata_snap";

    #[test]
    fn the_metadata_are_released_after_a_comparison() {
        let (printed, notes) = compared("", "echo \"$3 $5\"");
        assert_eq!(printed.as_deref(), Ok("1 1\n2 2\n1 2\n"));
        assert_eq!((notes.len(), &notes[0][..], &notes[4][..]), (5, RESERVED, RELEASED));
        let last = "thin_delta --metadata-snap --thin1 1 --thin2 2 /dev/mapper/vg-pool_tmeta";
        assert_eq!(notes[3], last);
    }

    #[test]
    fn the_metadata_are_released_after_a_failure_and_after_a_signal() {
        let (failed, notes) = compared("", "echo broken >&2; echo usage >&2; exit 3");
        assert_eq!(failed, Err("broken".to_owned()));
        assert_eq!((notes.len(), &notes[2][..]), (3, RELEASED));
        // A shell cannot trap the other signals if this process ignores them.
        let (ended, notes) = compared("", "kill -TERM $PPID");
        assert!(ended.is_err());
        assert_eq!((notes.len(), &notes[2][..]), (3, RELEASED));
        let (failed, _) = compared("case $* in *release*) echo stuck >&2; exit 1; esac", "");
        assert_eq!(failed, Err("stuck".to_owned()));
    }

    #[test]
    fn metadata_that_another_program_has_reserved_stay_reserved() {
        let (refused, notes) = compared("echo taken >&2; exit 1", "");
        assert_eq!((refused, notes), (Err("taken".to_owned()), vec![RESERVED.to_owned()]));
    }
}
