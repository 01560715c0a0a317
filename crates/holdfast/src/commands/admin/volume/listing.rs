//! Volumes as they are shown.

use client::admin::VolumeInfo;
use model::{ServerTime, escaped};
use serde::Serialize;

use crate::commands::Context;
use crate::table::{self, Align};
use crate::{moment, quantity};

/// `volume list --json`, one a line; and what became of a volume that was changed.
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
    errors: u32,
    changed: Option<String>,
}

fn given(text: &str) -> Option<&str> {
    Some(text).filter(|text| !text.is_empty())
}

impl<'a> VolumeDocument<'a> {
    pub(super) fn new(volume: &'a VolumeInfo) -> Self {
        Self {
            volume: &volume.name,
            library: &volume.library,
            pool: given(&volume.pool),
            group: given(&volume.group),
            state: &volume.state,
            access: &volume.access,
            location: given(&volume.location),
            written_bytes: volume.written_bytes,
            live_bytes: volume.live_bytes,
            live_percent: live_percent(volume),
            errors: volume.errors,
            changed: changed(volume).map(moment::rfc3339),
        }
    }
}

/// How much of what is written is still needed, to a tenth; nothing where nothing is written.
#[expect(clippy::cast_precision_loss, reason = "it is rounded to a tenth")]
fn live_percent(volume: &VolumeInfo) -> Option<f64> {
    let written = volume.written_bytes;
    let percent = || volume.live_bytes as f64 * 100.0 / written as f64;
    (written > 0).then(|| (percent() * 10.0).round() / 10.0)
}

/// On the wire 0 means never.
fn changed(volume: &VolumeInfo) -> Option<ServerTime> {
    (volume.changed != 0).then_some(ServerTime(volume.changed))
}

pub(super) fn list(volumes: &[VolumeInfo], context: &mut Context) {
    if context.output.is_json() {
        for volume in volumes {
            context.output.json(&VolumeDocument::new(volume));
        }
    } else if volumes.is_empty() {
        context
            .output
            .note("There is no such volume; 'holdfast admin volume label' makes some.");
    } else {
        context.output.text(&volumes_table(volumes));
    }
}

fn volumes_table(volumes: &[VolumeInfo]) -> String {
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
    let cell = |text: &str| given(text).unwrap_or("-").to_owned();
    let row = |volume: &VolumeInfo| {
        let share = live_percent(volume).map(|percent| quantity::percent(percent, 1));
        [
            volume.library.clone(),
            volume.name.clone(),
            cell(&volume.pool),
            cell(&volume.group),
            volume.state.clone(),
            volume.access.clone(),
            cell(&escaped(volume.location.as_bytes())),
            quantity::bytes_with_unit(volume.written_bytes),
            quantity::bytes_with_unit(volume.live_bytes),
            share.unwrap_or_else(|| "-".to_owned()),
            quantity::count(volume.errors.into()),
            moment::shown_or_never(changed(volume)),
        ]
    };
    table::render(columns, &volumes.iter().map(row).collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn volume() -> VolumeInfo {
        VolumeInfo {
            library: "vault".to_owned(),
            name: "A00001L8".to_owned(),
            pool: "TAPE".to_owned(),
            group: "accounts".to_owned(),
            state: "full".to_owned(),
            access: "offsite".to_owned(),
            location: "bank safe".to_owned(),
            written_bytes: 3 << 30,
            live_bytes: 1 << 30,
            errors: 2,
            changed: 0,
        }
    }

    #[test]
    fn volumes_stand_in_a_table() {
        let scratch = VolumeInfo {
            library: "vault".to_owned(),
            name: "A00002L8".to_owned(),
            state: "scratch".to_owned(),
            access: "read-write".to_owned(),
            ..VolumeInfo::default()
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
