//! The report of a baseline as text.

use std::time::Duration;

use baseline::{
    Change, Column, Comparison, Depth, DiskRates, Place, Prediction, Range, Rate, Report, Row,
    Trend, Unit,
};

use model::ServerTime;

use crate::table::{self, Align};
use crate::{moment, quantity};

/// Returns the report as text: the predictions first, then what they come from.
pub(crate) fn baseline_text(report: &Report) -> String {
    let mut parts = vec![head(report)];
    for place in &report.places {
        parts.push(format!("Predictions for {}\n{}", place.path, predictions(place)));
    }
    parts.push(format!("Processors and memory\n{}", rates(report)));
    parts.extend(network(report));
    for place in &report.places {
        parts.push(format!("Tree {}\n{}", place.path, tree(place)));
        parts.push(format!("Walks of {}\n{}", place.path, walks(place)));
        let disk = place.disk.as_ref().map(disk);
        parts.extend(disk.map(|text| format!("Disk under {}\n{text}", place.path)));
    }
    parts.extend((!report.remarks.is_empty()).then(|| remarks(report)));
    parts.join("\n")
}

/// Returns a line about a real run beside its prediction.
pub(crate) fn comparison_line(comparison: &Comparison) -> String {
    format!(
        "Predicted: {}, took {} ({:.2} of it)",
        clock(comparison.predicted_secs),
        clock(comparison.elapsed_secs),
        comparison.ratio()
    )
}

/// Number of reports that a table of text has room for.
const TREND_COLUMNS: usize = 5;

/// Returns the newest reports side by side, with the changes from one to the next. A change of
/// more than 20 % has a star. Figures that none of these reports has are left out.
pub(crate) fn trend_text(trend: &Trend) -> String {
    let from = trend.columns.len().saturating_sub(TREND_COLUMNS);
    let made = |index: usize| {
        let column = trend.columns.get(from + index);
        column.map_or_else(String::new, |column| moment::shown(ServerTime(column.made_micros)))
    };
    let heads: [String; TREND_COLUMNS] = std::array::from_fn(made);
    let columns: [(&str, Align); TREND_COLUMNS + 1] = std::array::from_fn(|index| {
        let head = index.checked_sub(1).map_or("Figure", |index| heads[index].as_str());
        (head, if index == 0 { Align::Left } else { Align::Right })
    });
    let row = |row: &Row| -> [String; TREND_COLUMNS + 1] {
        std::array::from_fn(|index| match index.checked_sub(1) {
            None => row_name(row),
            Some(index) => {
                let value = row.values.get(from + index).copied().flatten();
                let change = row.changes.get(from + index).copied().flatten();
                value.map_or_else(String::new, |value| trend_cell(row.unit, value, change))
            }
        })
    };
    let kinds: [String; TREND_COLUMNS + 1] =
        std::array::from_fn(|index| match index.checked_sub(1) {
            None => "Measurement".to_owned(),
            Some(index) => trend.columns.get(from + index).map_or_else(String::new, kind),
        });
    let is_shown = |row: &&Row| row.values.iter().skip(from).any(Option::is_some);
    let shown = trend.rows.iter().filter(is_shown).map(row);
    table::render(columns, &[kinds].into_iter().chain(shown).collect::<Vec<_>>())
}

/// Returns how a report was measured: short and thorough measurements differ, as do those with
/// warm caches and without.
fn kind(column: &Column) -> String {
    let depth = match column.depth {
        Depth::Quick => "quick",
        Depth::Full => "full",
    };
    format!("{depth}{}", if column.cold { ", cold" } else { "" })
}

fn row_name(row: &Row) -> String {
    match &row.place {
        Some(place) => format!("{place}: {}", row.name),
        None => row.name.clone(),
    }
}

fn trend_cell(unit: Unit, value: f64, change: Option<Change>) -> String {
    let value = match unit {
        Unit::Bytes => bytes(value),
        Unit::BytesPerSec => per_sec(value),
        Unit::Seconds if value < 0.1 => format!("{:.3} ms", 1000.0 * value),
        Unit::Seconds => clock(value),
        Unit::Objects => quantity::counted(whole(value), "object"),
        Unit::ObjectsPerSec | Unit::ReadsPerSec => {
            format!("{} {}", count(value), unit.title())
        }
    };
    let change = change.map_or_else(String::new, |change| {
        format!(" {:+.0} %{}", change.per_cent, if change.is_marked { "*" } else { "" })
    });
    value + &change
}

fn head(report: &Report) -> String {
    let host = &report.host;
    let aes = if host.has_aes() { "with" } else { "without" };
    format!(
        "Host:       {}, Linux {}\nProcessors: {} x {}, {aes} AES instructions\n\
         Memory:     {}, {} available\nMeasured:   {}, in {:.0} s\n",
        host.name,
        host.kernel,
        host.processors,
        host.processor,
        quantity::bytes_with_unit(host.memory_bytes),
        quantity::bytes_with_unit(host.memory_available_bytes),
        moment::shown(report.made()),
        report.elapsed_secs,
    )
}

fn remarks(report: &Report) -> String {
    let lines: String = report.remarks.iter().map(|remark| format!("- {remark}\n")).collect();
    format!("Remarks\n{lines}")
}

/// Returns a time as a clock shows it; below ten seconds, with hundredths.
fn clock(secs: f64) -> String {
    if secs < 10.0 {
        return format!("{secs:.2} s");
    }
    let time = Duration::try_from_secs_f64(secs).unwrap_or(Duration::MAX);
    quantity::clock(time)
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "numbers of bytes and objects, which are not negative"
)]
fn whole(number: f64) -> u64 {
    number.round() as u64
}

fn bytes(number: f64) -> String {
    quantity::bytes_with_unit(whole(number))
}

fn per_sec(rate: f64) -> String {
    format!("{}/s", bytes(rate))
}

fn count(rate: f64) -> String {
    quantity::count(whole(rate))
}

fn predictions(place: &Place) -> String {
    let columns = [
        ("Work", Align::Left),
        ("Likely", Align::Right),
        ("From", Align::Right),
        ("To", Align::Right),
        ("Limit", Align::Left),
        ("Sent", Align::Right),
        ("Node's memory", Align::Right),
        ("Server's space", Align::Right),
    ];
    let row = |one: &Prediction| {
        let Range { least, likely, most } = one.secs;
        [
            one.work.title().to_owned(),
            clock(likely),
            clock(least),
            clock(most),
            one.limit.title().to_owned(),
            bytes(one.bytes_sent.likely),
            bytes(one.node_memory_bytes.likely),
            bytes(one.server_bytes.likely),
        ]
    };
    let rows: Vec<_> = place.predictions.iter().map(row).collect();
    let advice = place.predictions.iter().map(|one| {
        let fitted = if (one.fitted - 1.0).abs() > 1e-9 {
            format!(" Corrected by {:.2}, as earlier runs took.", one.fitted)
        } else {
            String::new()
        };
        format!("- {}: {}{fitted}\n", one.work.title(), one.advice.0)
    });
    format!("{}\n{}", table::render(columns, &rows), advice.collect::<String>())
}

fn rates(report: &Report) -> String {
    let columns = [
        ("Part", Align::Left),
        ("One thread", Align::Right),
        ("All", Align::Right),
        ("Left of a byte", Align::Right),
    ];
    let processor = &report.processor;
    let row = |name: &str, rate: &Rate, ratio: Option<f64>| {
        let ratio = ratio.map_or_else(|| "-".to_owned(), |ratio| format!("{ratio:.3}"));
        [name.to_owned(), per_sec(rate.one), per_sec(rate.all), ratio]
    };
    let mut rows = vec![
        row("AES-256-GCM, as TLS uses it", &processor.aes_gcm, None),
        row("BLAKE3 digests", &processor.digest, None),
        row("cutting", &processor.cut, None),
        row("decompression", &processor.decompress, None),
        row("copying memory", &report.memory, None),
    ];
    rows.extend(
        processor
            .compress
            .iter()
            .map(|one| row(&format!("compression {}", one.strength), &one.rate, Some(one.ratio))),
    );
    table::render(columns, &rows)
}

fn network(report: &Report) -> Option<String> {
    let measured = report.network.measured.as_ref()?;
    let columns = [
        ("Direction", Align::Left),
        ("By", Align::Left),
        ("Streams", Align::Right),
        ("Rate", Align::Right),
    ];
    let row = |one: &client::Transfer| {
        let direction = match one.direction {
            client::Direction::ToServer => "to the server",
            client::Direction::FromServer => "from the server",
        };
        let transport = match one.transport {
            client::Transport::Tls => "TLS",
            client::Transport::Plain => "plain TCP",
        };
        let rate = format!("{}/s", quantity::bytes_with_unit(one.bytes_per_sec()));
        [direction.to_owned(), transport.to_owned(), one.streams.to_string(), rate]
    };
    let rows: Vec<_> = measured.transfers.iter().map(row).collect();
    let millis = |time: Duration| format!("{:.3} ms", time.as_secs_f64() * 1000.0);
    let holds = if measured.buffers_hold_bandwidth_delay() { "hold" } else { "are too small for" };
    Some(format!(
        "Network to {}\nRound trip {}, 99 % within {}; {}\n\
         Bandwidth-delay product {}, which the buffers {holds}\n\n{}",
        report.network.server.as_deref().unwrap_or("the server"),
        millis(measured.round_trip_median),
        millis(measured.round_trip_p99),
        measured.cipher,
        quantity::bytes_with_unit(measured.bandwidth_delay_bytes()),
        table::render(columns, &rows)
    ))
}

fn tree(place: &Place) -> String {
    let (tree, sample) = (&place.tree, &place.sample);
    let day = tree.usual_day();
    let estimate = |estimate: Option<baseline::Estimate>| {
        let shown = |one: baseline::Estimate| {
            format!("{:.1} % (+- {:.1})", 100.0 * one.value, 100.0 * one.error)
        };
        estimate.map_or_else(|| "not known".to_owned(), shown)
    };
    let readings = sample
        .small
        .iter()
        .map(|one| format!("{} files/s by {} threads", count(one.files_per_sec()), one.threads));
    let large = sample
        .large
        .iter()
        .map(|one| format!("large ones {}", per_sec(one.bytes_per_sec())));
    let readings: Vec<String> = readings.chain(large).collect();
    format!(
        "On {} ({}): {} in {} and {}; {} of data\n\
         Up to 1 MiB: {} with {}; larger: {} with {}\n\
         A usual day changes {} with {}\n\
         Read: {}\n\
         Compressed: small files to {}, large ones to {}; copies of other files: {} of the data\n",
        place.device.as_deref().unwrap_or("no device of its own"),
        place.file_system,
        quantity::counted(tree.objects, "object"),
        quantity::counted(tree.files.files, "file"),
        quantity::counted(tree.directories, "directory"),
        quantity::bytes_with_unit(tree.files.bytes),
        quantity::count(tree.small.files),
        quantity::bytes_with_unit(tree.small.bytes),
        quantity::count(tree.large().files),
        quantity::bytes_with_unit(tree.large().bytes),
        quantity::counted(day.files, "file"),
        quantity::bytes_with_unit(day.bytes),
        if readings.is_empty() { "nothing".to_owned() } else { readings.join(", ") },
        estimate(sample.ratio_small),
        estimate(sample.ratio_large),
        estimate(sample.copies),
    )
}

fn walks(place: &Place) -> String {
    let columns = [
        ("Way", Align::Left),
        ("Caches", Align::Left),
        ("Threads", Align::Right),
        ("Objects/s", Align::Right),
        ("Directories/s", Align::Right),
        ("Opendir, us", Align::Right),
        ("Stat, us", Align::Right),
        ("Reads an object", Align::Right),
    ];
    let row = |walk: &baseline::Walk| {
        let way = match walk.way {
            baseline::Way::Path => "path",
            baseline::Way::Descriptor => "descriptor",
        };
        let warmth = match walk.warmth {
            baseline::Warmth::Cold => "cold",
            baseline::Warmth::AsFound => "as found",
            baseline::Warmth::Warm => "warm",
        };
        let each = |secs: f64, count: u64| {
            let count = u32::try_from(count.max(1)).unwrap_or(u32::MAX);
            format!("{:.2}", 1e6 * secs / f64::from(count))
        };
        [
            way.to_owned(),
            warmth.to_owned(),
            walk.threads.to_string(),
            count(walk.objects_per_sec()),
            count(walk.directories_per_sec()),
            each(walk.opendir_secs, walk.directories),
            each(walk.stat_secs, walk.objects),
            walk.reads_per_object()
                .map_or_else(|| "-".to_owned(), |reads| format!("{reads:.3}")),
        ]
    };
    table::render(columns, &place.walks.iter().map(row).collect::<Vec<_>>())
}

fn disk(disk: &DiskRates) -> String {
    let columns = [
        ("At once", Align::Right),
        ("Reads/s", Align::Right),
        ("Rate", Align::Right),
        ("Submission, us", Align::Right),
        ("Completion, us", Align::Right),
        ("Total, us", Align::Right),
        ("99 %", Align::Right),
        ("99.9 %", Align::Right),
    ];
    let micros = |micros: f64| format!("{micros:.0}");
    let row = |one: &baseline::RandomReads| {
        let latency = &one.latency;
        [
            one.depth.to_string(),
            count(one.iops),
            per_sec(one.bytes_per_sec),
            micros(latency.submission.mean),
            micros(latency.completion.p50),
            micros(latency.total.p50),
            micros(latency.total.p99),
            micros(latency.total.p99_9),
        ]
    };
    format!(
        "Random reads of 4 KiB by {}, {}\n\n{}\nStreams: read {}, write {}\n",
        disk.fio,
        if disk.direct { "past the page cache" } else { "through the page cache" },
        table::render(columns, &disk.random_reads.iter().map(row).collect::<Vec<_>>()),
        per_sec(disk.read.bytes_per_sec),
        per_sec(disk.write.bytes_per_sec)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(name: &str, values: [Option<f64>; 6]) -> Row {
        Row {
            name: name.to_owned(),
            unit: Unit::Objects,
            place: None,
            values: values.into(),
            changes: vec![None; 6],
        }
    }

    #[test]
    fn reports_side_by_side_say_how_they_were_measured() {
        let column = |depth, cold| Column {
            made_micros: 0,
            program_version: "0.1.0".to_owned(),
            depth,
            cold,
        };
        let mut columns = vec![column(Depth::Quick, false); 5];
        columns.push(column(Depth::Full, true));
        let some = |index: usize| std::array::from_fn(|at| (at == index).then_some(1.0));
        let rows = vec![row("Figure of the first", some(0)), row("Figure of the last", some(5))];
        let text = trend_text(&Trend { columns, rows, notes: Vec::new() });
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 3, "no row is empty: {text}");
        assert!(lines[1].starts_with("Measurement") && lines[1].ends_with("full, cold"), "{text}");
        assert!(lines[2].contains("of the last") && lines[2].ends_with(" 1 object"), "{text}");
    }
}
