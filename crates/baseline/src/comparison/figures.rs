//! The main figures of a report.

use super::Unit;
use crate::prediction::Work;
use crate::report::{Place, Report};
use crate::walks::{Walk, Warmth};

/// A figure of one report.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Figure {
    pub(super) name: &'static str,
    pub(super) unit: Unit,
    pub(super) place: Option<String>,
    pub(super) value: Option<f64>,
}

impl Figure {
    /// Returns the key by which the figure is found in other reports.
    pub(super) fn key(&self) -> (Option<&str>, &str) {
        (self.place.as_deref(), self.name)
    }
}

/// Returns the figures of `report`, also those that it lacks.
pub(super) fn figures(report: &Report) -> Vec<Figure> {
    let mut figures = of_host(report);
    figures.extend(report.places.iter().flat_map(of_place));
    figures
}

fn of_host(report: &Report) -> Vec<Figure> {
    let processor = &report.processor;
    let compression = processor.standard().map(|standard| standard.rate.all);
    let (to, from) = report.network.rates().unzip();
    let measured = report.network.measured.as_ref();
    let round_trip = measured.map(|_| report.network.round_trip_secs());
    [
        ("AES-256-GCM, all threads", Unit::BytesPerSec, Some(processor.aes_gcm.all)),
        ("BLAKE3, all threads", Unit::BytesPerSec, Some(processor.digest.all)),
        ("zstd, standard, all threads", Unit::BytesPerSec, compression),
        ("Copying memory, all threads", Unit::BytesPerSec, Some(report.memory.all)),
        ("Round trip, median", Unit::Seconds, round_trip),
        ("To the server, best", Unit::BytesPerSec, to),
        ("From the server, best", Unit::BytesPerSec, from),
    ]
    .map(|(name, unit, value)| Figure { name, unit, place: None, value: sound(value) })
    .into()
}

fn of_place(place: &Place) -> Vec<Figure> {
    let disk = place.disk.as_ref();
    let alone = disk.and_then(|disk| disk.random_reads.iter().find(|row| row.depth == 1));
    let files = &place.tree.files;
    let measured = [
        ("Random reads, one at once", Unit::ReadsPerSec, alone.map(|row| row.iops)),
        ("Random reads, most", Unit::ReadsPerSec, disk.map(crate::DiskRates::iops_max)),
        ("Stream, read", Unit::BytesPerSec, disk.map(|disk| disk.read.bytes_per_sec)),
        ("Stream, written", Unit::BytesPerSec, disk.map(|disk| disk.write.bytes_per_sec)),
        ("Warm walk, fastest", Unit::ObjectsPerSec, warm_walk(&place.walks)),
        ("Objects", Unit::Objects, Some(crate::to_f64(place.tree.objects))),
        ("Data of files", Unit::Bytes, Some(crate::to_f64(files.bytes))),
    ];
    let predicted = Work::ALL.map(|work| {
        let prediction = place.predictions.iter().find(|one| one.work == work);
        (work.title(), Unit::Seconds, prediction.map(|one| one.secs.likely))
    });
    let figure = |(name, unit, value)| {
        let place = Some(place.path.clone());
        Figure { name, unit, place, value: sound(value) }
    };
    measured.into_iter().chain(predicted).map(figure).collect()
}

/// Returns the objects per second of the fastest warm walk.
fn warm_walk(walks: &[Walk]) -> Option<f64> {
    let warm = walks.iter().filter(|walk| walk.warmth == Warmth::Warm);
    warm.map(Walk::objects_per_sec).max_by(f64::total_cmp)
}

/// Returns the figure if it is one that can have been measured.
fn sound(value: Option<f64>) -> Option<f64> {
    value.filter(|value| value.is_finite() && *value >= 0.0)
}
