//! The table and the documents of volumes.

use client::admin::{Library, LibraryDrive, Volume};
use model::{ServerTime, escaped};
use serde::Serialize;

use crate::context::Context;
use crate::table::{self, Align};
use crate::{moment, quantity};

/// `volume list --json`, one document per line. Also a volume after a change.
#[derive(Serialize)]
pub(super) struct VolumeDocument<'a> {
    volume: &'a str,
    library: &'a str,
    pool: Option<&'a str>,
    group: Option<&'a str>,
    state: &'a str,
    access: &'a str,
    location: Option<&'a str>,
    written_bytes: u64,
    live_bytes: u64,
    live_percent: Option<f64>,
    errors: u64,
    changed: Option<String>,
    /// Time since which the library, or the drive with the volume, does not answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    away_since: Option<String>,
}

impl<'a> VolumeDocument<'a> {
    pub(super) fn new(volume: &'a Volume) -> Self {
        Self {
            volume: &volume.name,
            library: &volume.library,
            pool: volume.pool.as_deref(),
            group: volume.group.as_deref(),
            state: volume.state.word(),
            access: volume.access.word(),
            location: volume.location.as_deref(),
            written_bytes: volume.written_bytes,
            live_bytes: volume.live_bytes,
            live_percent: live_percent(volume),
            errors: volume.errors,
            changed: volume.changed.map(moment::rfc3339),
            away_since: None,
        }
    }

    fn in_libraries(volume: &'a Volume, libraries: &[Library]) -> Self {
        let since = away_since(volume, libraries).map(moment::rfc3339);
        Self { away_since: since, ..Self::new(volume) }
    }
}

/// Returns the time since which the volume cannot be had, because its library or the drive that it
/// is in does not answer.
fn away_since(volume: &Volume, libraries: &[Library]) -> Option<ServerTime> {
    let is_its = |library: &&Library| library.name.eq_ignore_ascii_case(&volume.library);
    let library = libraries.iter().find(is_its)?;
    let holds = |drive: &&LibraryDrive| drive.volume.as_ref() == Some(&volume.name);
    let of_drive = || library.drives.iter().find(holds)?.away_since;
    library.away_since.or_else(of_drive)
}

/// Returns the share of the written data that is still needed, rounded to a tenth. A volume without
/// data has no share.
#[expect(clippy::cast_precision_loss, reason = "it is rounded to a tenth")]
fn live_percent(volume: &Volume) -> Option<f64> {
    let written = volume.written_bytes;
    let percent = || volume.live_bytes as f64 * 100.0 / written as f64;
    (written > 0).then(|| (percent() * 10.0).round() / 10.0)
}

pub(super) fn list(volumes: &[Volume], libraries: &[Library], context: &mut Context) {
    if context.output.is_json() {
        for volume in volumes {
            context.output.json(&VolumeDocument::in_libraries(volume, libraries));
        }
    } else if volumes.is_empty() {
        context
            .output
            .note("There is no such volume; label volumes with 'holdfast admin volume label'.");
    } else {
        context.output.text(&volumes_table(volumes, libraries));
    }
}

fn volumes_table(volumes: &[Volume], libraries: &[Library]) -> String {
    let columns = [
        ("Library", Align::Left),
        ("Volume", Align::Left),
        ("Pool", Align::Left),
        ("Group", Align::Left),
        ("State", Align::Left),
        ("Access", Align::Left),
        ("Location", Align::Left),
        ("Written", Align::Right),
        ("Live", Align::Right),
        ("Live %", Align::Right),
        ("Errors", Align::Right),
        ("Changed", Align::Left),
    ];
    let cell = |text: Option<&str>| text.unwrap_or("-").to_owned();
    let row = |volume: &Volume| {
        let location = volume.location.as_ref().map(|place| escaped(place.as_bytes()));
        let share = live_percent(volume).map(|percent| quantity::percent(percent, 1));
        [
            volume.library.clone(),
            volume.name.clone(),
            cell(volume.pool.as_deref()),
            cell(volume.group.as_deref()),
            volume.state.word().to_owned(),
            access(volume, libraries),
            cell(location.as_deref()),
            quantity::bytes_with_unit(volume.written_bytes),
            quantity::bytes_with_unit(volume.live_bytes),
            share.unwrap_or_else(|| "-".to_owned()),
            quantity::count(volume.errors),
            moment::shown_or_never(volume.changed),
        ]
    };
    table::render(columns, &volumes.iter().map(row).collect::<Vec<_>>())
}

fn access(volume: &Volume, libraries: &[Library]) -> String {
    let access = volume.access.word();
    match away_since(volume, libraries) {
        Some(since) => format!("{access}, away since {}", moment::shown(since)),
        None => access.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use client::admin::{DriveState, LibraryPlace, VolumeAccess, VolumeState};

    use super::*;

    fn volume() -> Volume {
        Volume {
            library: "vault".to_owned(),
            name: "A00001L8".to_owned(),
            pool: Some("TAPE".to_owned()),
            group: Some("accounts".to_owned()),
            state: VolumeState::Full,
            access: VolumeAccess::Offsite,
            location: Some("bank safe".to_owned()),
            written_bytes: 3 << 30,
            live_bytes: 1 << 30,
            errors: 2,
            changed: None,
        }
    }

    #[test]
    fn a_volume_is_away_with_its_library_or_its_drive() {
        let since = Some(ServerTime::from_secs(86_400));
        let drive = LibraryDrive {
            address: 500,
            product: String::new(),
            serial: String::new(),
            volume: Some("A00001L8".to_owned()),
            state: DriveState::Away,
            problem: None,
            away_since: since,
            wants_cleaning: false,
        };
        let library = Library {
            name: "VAULT".to_owned(),
            place: LibraryPlace::Changer { address: "/dev/sg5".to_owned() },
            drive_addresses: Vec::new(),
            mounts_max: None,
            retain_secs: 0,
            optimised_only: false,
            writers_max: None,
            problem: None,
            away_since: None,
            drives: vec![drive],
            elements: Vec::new(),
        };
        let other = Volume { name: "A00002L8".to_owned(), ..volume() };
        assert_eq!(away_since(&volume(), std::slice::from_ref(&library)), since);
        assert_eq!(away_since(&other, std::slice::from_ref(&library)), None);
        let library = Library { away_since: since, drives: Vec::new(), ..library };
        assert_eq!(away_since(&other, std::slice::from_ref(&library)), since);
        let document = VolumeDocument::in_libraries(&other, &[library]);
        assert_eq!(document.away_since.as_deref(), Some("1970-01-02T00:00:00Z"));
    }

    #[test]
    fn volumes_stand_in_a_table() {
        let scratch = Volume {
            name: "A00002L8".to_owned(),
            pool: None,
            group: None,
            state: VolumeState::Scratch,
            access: VolumeAccess::ReadWrite,
            location: None,
            written_bytes: 0,
            live_bytes: 0,
            errors: 0,
            ..volume()
        };
        let table = volumes_table(&[volume(), scratch], &[]);
        let cells: Vec<Vec<_>> = table
            .lines()
            .map(|line| line.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).collect())
            .collect();
        assert_eq!(cells[0].len(), 12);
        assert_eq!(
            cells[1],
            [
                "vault",
                "A00001L8",
                "TAPE",
                "accounts",
                "full",
                "offsite",
                "bank safe",
                "3.00 GB",
                "1.00 GB",
                "33.3%",
                "2",
                "never"
            ]
        );
        assert_eq!(
            cells[2],
            [
                "vault",
                "A00002L8",
                "-",
                "-",
                "scratch",
                "read-write",
                "-",
                "0 B",
                "0 B",
                "-",
                "0",
                "never"
            ]
        );
    }

    #[test]
    fn a_document_tells_all_of_a_volume() {
        let volume = volume();
        let document = serde_json::to_value(VolumeDocument::new(&volume)).expect("a document");
        assert_eq!(document["live_percent"], 33.3);
        assert_eq!(document["location"], "bank safe");
        assert_eq!(document["changed"], serde_json::Value::Null);
    }
}
