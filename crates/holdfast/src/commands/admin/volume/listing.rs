//! The table and the documents of volumes.

use client::admin::Volume;
use model::escaped;
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
        }
    }
}

/// Returns the share of the written data that is still needed, rounded to a tenth. A volume without
/// data has no share.
#[expect(clippy::cast_precision_loss, reason = "it is rounded to a tenth")]
fn live_percent(volume: &Volume) -> Option<f64> {
    let written = volume.written_bytes;
    let percent = || volume.live_bytes as f64 * 100.0 / written as f64;
    (written > 0).then(|| (percent() * 10.0).round() / 10.0)
}

pub(super) fn list(volumes: &[Volume], context: &mut Context) {
    if context.output.is_json() {
        for volume in volumes {
            context.output.json(&VolumeDocument::new(volume));
        }
    } else if volumes.is_empty() {
        context
            .output
            .note("There is no such volume; label volumes with 'holdfast admin volume label'.");
    } else {
        context.output.text(&volumes_table(volumes));
    }
}

fn volumes_table(volumes: &[Volume]) -> String {
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
            volume.access.word().to_owned(),
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

#[cfg(test)]
mod tests {
    use client::admin::{VolumeAccess, VolumeState};

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
        let table = volumes_table(&[volume(), scratch]);
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
