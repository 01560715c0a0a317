//! Tables of the page.

use client::{NetworkMeasurement, Transport};

use super::text;
use crate::history::History;
use crate::plan::duration_words;
use crate::plot::short;
use crate::prediction::Range;
use crate::processor::Rate;
use crate::report::{Place, Report};

const MIB: f64 = 1_048_576.0;

/// Writes a table of `rows` below `heads`. Cells are markup.
fn table(heads: &[&str], rows: &[Vec<String>]) -> String {
    let cells = |tag: &str, cells: &mut dyn Iterator<Item = &str>| {
        let cells: String = cells.map(|cell| format!("<{tag}>{cell}</{tag}>")).collect();
        format!("<tr>{cells}</tr>\n")
    };
    let head = cells("th", &mut heads.iter().copied());
    let body: String = rows
        .iter()
        .map(|row| cells("td", &mut row.iter().map(String::as_str)))
        .collect();
    format!("<table>\n{head}{body}</table>\n")
}

fn list(items: impl Iterator<Item = String>) -> String {
    let items: String = items.map(|item| format!("<li>{}</li>\n", text(&item))).collect();
    if items.is_empty() { items } else { format!("<ul>\n{items}</ul>\n") }
}

pub(super) fn remarks(report: &Report) -> String {
    list(report.remarks.iter().cloned())
}

fn mib_per_sec(rate: f64) -> String {
    format!("{:.0} MiB/s", rate / MIB)
}

fn range(range: &Range, shown: impl Fn(f64) -> String) -> String {
    if range.most <= range.least {
        return shown(range.likely);
    }
    format!("{} ({} to {})", shown(range.likely), shown(range.least), shown(range.most))
}

/// Writes a number of bytes with three digits, in powers of 1024 as the rates are.
fn bytes(bytes: f64) -> String {
    let units =
        [(1024.0 * 1024.0 * MIB, "TiB"), (1024.0 * MIB, "GiB"), (MIB, "MiB"), (1024.0, "KiB")];
    let Some((size, unit)) = units.into_iter().find(|(size, _)| bytes >= *size) else {
        return format!("{bytes:.0} B");
    };
    let value = bytes / size;
    let digits = match value {
        100.0.. => 0,
        10.0.. => 1,
        _ => 2,
    };
    format!("{value:.digits$} {unit}")
}

pub(super) fn predictions(place: &Place) -> String {
    let row = |one: &crate::Prediction| {
        vec![
            one.work.title().to_owned(),
            range(&one.secs, duration_words),
            format!("<span class=\"limit\">{}</span>", one.limit.title()),
            range(&one.bytes_sent, bytes),
            range(&one.node_memory_bytes, bytes),
            range(&one.server_bytes, bytes),
            range(&one.catalog_bytes, bytes),
        ]
    };
    let rows: Vec<_> = place.predictions.iter().map(row).collect();
    let heads = [
        "work",
        "time",
        "limit",
        "sent",
        "memory of the node",
        "space at the server",
        "of it catalogue",
    ];
    let advice = place
        .predictions
        .iter()
        .map(|one| format!("{}: {}", one.work.title(), one.advice.0));
    table(&heads, &rows) + &list(advice)
}

pub(super) fn comparisons(history: &History, moment: &dyn Fn(i64) -> String) -> String {
    let row = |one: &crate::Comparison| {
        vec![
            text(&moment(one.at_micros)),
            one.work.title().to_owned(),
            short(crate::to_f64(one.inspected)),
            short(crate::to_f64(one.changed)),
            duration_words(one.predicted_secs),
            duration_words(one.elapsed_secs),
            format!("{:.2}", one.ratio()),
        ]
    };
    let rows: Vec<_> = history.comparisons.iter().rev().take(20).map(row).collect();
    table(&["time", "work", "objects", "changed", "predicted", "took", "ratio"], &rows)
}

pub(super) fn host(report: &Report) -> String {
    let host = &report.host;
    let aes = match host.has_aes() {
        true => "AES by instructions of its own, which the program's TLS uses",
        false => "no instructions for AES: encryption takes processor time",
    };
    let about = [
        format!("{}, {} processors, {aes}", host.processor, host.processors),
        format!(
            "Instructions: {}",
            host.instructions.iter().cloned().collect::<Vec<_>>().join(" ")
        ),
        format!("Linux {}", host.kernel),
        format!(
            "Memory: {}, of which {} are available",
            bytes(crate::to_f64(host.memory_bytes)),
            bytes(crate::to_f64(host.memory_available_bytes))
        ),
    ];
    let rates = &report.processor;
    let row = |name: String, rate: &Rate, note: String| {
        vec![
            name,
            mib_per_sec(rate.one),
            mib_per_sec(rate.all),
            format!("{:.2}", rate.all / rate.one),
            note,
        ]
    };
    let parts = [
        ("AES-256-GCM (TLS)", &rates.aes_gcm),
        ("BLAKE3", &rates.digest),
        ("cutting", &rates.cut),
        ("decompression", &rates.decompress),
        ("copying memory", &report.memory),
    ];
    let mut rows: Vec<_> = parts
        .into_iter()
        .map(|(name, rate)| row(name.to_owned(), rate, String::new()))
        .collect();
    rows.extend(rates.compress.iter().map(|one| {
        let name = format!("compression, {}", one.strength);
        row(name, &one.rate, format!("{:.3}", one.ratio))
    }));
    let heads = ["part", "one thread", "all", "gain", "bytes after compression"];
    list(about.into_iter()) + &table(&heads, &rows)
}

pub(super) fn network(report: &Report, measured: &NetworkMeasurement) -> String {
    let micros = |time: std::time::Duration| format!("{:.2} ms", time.as_secs_f64() * 1000.0);
    let product = crate::to_f64(measured.bandwidth_delay_bytes());
    let holds = match measured.buffers_hold_bandwidth_delay() {
        true => "the buffers hold it",
        false => "the buffers are too small for it; raise net.ipv4.tcp_rmem and tcp_wmem",
    };
    let about = [
        format!("Server: {}", report.network.server.as_deref().unwrap_or("none")),
        format!(
            "Round trip: median {}, 99 % below {}, of {}",
            micros(measured.round_trip_median),
            micros(measured.round_trip_p99),
            measured.round_trips
        ),
        format!("Cipher: {}", measured.cipher),
        format!("Bandwidth-delay product: {}; {holds}", bytes(product)),
    ];
    let row = |one: &client::Transfer| {
        let transport = match one.transport {
            Transport::Tls => "TLS",
            Transport::Plain => "plain TCP",
        };
        let direction = match one.direction {
            client::Direction::ToServer => "to the server",
            client::Direction::FromServer => "from the server",
        };
        let rate = crate::to_f64(one.bytes_per_sec());
        vec![direction.to_owned(), one.streams.to_string(), transport.to_owned(), mib_per_sec(rate)]
    };
    let rows: Vec<_> = measured.transfers.iter().map(row).collect();
    list(about.into_iter()) + &table(&["direction", "streams", "by", "rate"], &rows)
}

pub(super) fn tree(place: &Place) -> String {
    let (tree, sample) = (&place.tree, &place.sample);
    let count = |number: u64| short(crate::to_f64(number));
    let size = |number: u64| bytes(crate::to_f64(number));
    let day = tree.usual_day();
    let estimate = |estimate: Option<crate::Estimate>| {
        estimate.map_or_else(
            || "not known".to_owned(),
            |one| format!("{:.1} % (\u{b1} {:.1})", 100.0 * one.value, 100.0 * one.error),
        )
    };
    let device = place.device.as_deref().unwrap_or("no device of its own");
    list(
        [
            format!("{} on {device}", place.file_system),
            format!(
                "{} objects: {} files with {}, {} directories, {} symbolic links, {} others",
                count(tree.objects),
                count(tree.files.files),
                size(tree.files.bytes),
                count(tree.directories),
                count(tree.symlinks),
                count(tree.others)
            ),
            format!(
                "{} files up to 1 MiB with {}, which are read as a whole; {} larger ones with {}",
                count(tree.small.files),
                size(tree.small.bytes),
                count(tree.large().files),
                size(tree.large().bytes)
            ),
            format!("The largest directory has {} names", count(tree.names_max)),
            format!("In a usual day {} files with {} change", count(day.files), size(day.bytes)),
            format!(
                "Small files shrink to {}, large ones to {}",
                estimate(sample.ratio_small),
                estimate(sample.ratio_large)
            ),
            format!("Copies of other files of this tree: {} of the bytes", estimate(sample.copies)),
        ]
        .into_iter(),
    ) + &table(&["age of the content", "files", "data"], &ages(place))
        + &table(
            &["reading the sample", "threads", "files/s", "rate", "processor time a file"],
            &readings(place),
        )
}

fn ages(place: &Place) -> Vec<Vec<String>> {
    let row = |(days, share): &(Option<u32>, crate::Share)| {
        let name = match days {
            None => "older".to_owned(),
            Some(1) => "below 1 day".to_owned(),
            Some(days) => format!("below {days} days"),
        };
        vec![name, short(crate::to_f64(share.files)), bytes(crate::to_f64(share.bytes))]
    };
    place.tree.ages.iter().map(row).collect()
}

fn readings(place: &Place) -> Vec<Vec<String>> {
    let row = |name: &str, one: &crate::Reading| {
        vec![
            name.to_owned(),
            one.threads.to_string(),
            short(one.files_per_sec()),
            mib_per_sec(one.bytes_per_sec()),
            format!("{:.1} \u{b5}s", 1e6 * one.processor_secs / crate::to_f64(one.files.max(1))),
        ]
    };
    let sample = &place.sample;
    let small = sample.small.iter().map(|one| row("small files", one));
    small.chain(sample.large.iter().map(|one| row("large files", one))).collect()
}

pub(super) fn walks(place: &Place) -> String {
    let row = |walk: &crate::Walk| {
        let way = match walk.way {
            crate::Way::Path => "path",
            crate::Way::Descriptor => "descriptor",
        };
        let warmth = match walk.warmth {
            crate::Warmth::Cold => "cold",
            crate::Warmth::AsFound => "as found",
            crate::Warmth::Warm => "warm",
        };
        let each = |secs: f64, count: u64| {
            format!("{:.2} \u{b5}s", 1e6 * secs / crate::to_f64(count.max(1)))
        };
        vec![
            way.to_owned(),
            warmth.to_owned(),
            walk.threads.to_string(),
            short(walk.objects_per_sec()),
            short(walk.directories_per_sec()),
            each(walk.opendir_secs, walk.directories),
            each(walk.stat_secs, walk.objects),
            walk.reads_per_object()
                .map_or_else(|| "-".to_owned(), |reads| format!("{reads:.3}")),
            if walk.whole { "yes" } else { "no" }.to_owned(),
        ]
    };
    let heads = [
        "way",
        "caches",
        "threads",
        "objects/s",
        "directories/s",
        "opendir each",
        "stat each",
        "disk reads an object",
        "whole tree",
    ];
    table(&heads, &place.walks.iter().map(row).collect::<Vec<_>>())
}

pub(super) fn disk(place: &Place) -> String {
    let Some(disk) = &place.disk else { return String::new() };
    let row = |one: &crate::RandomReads| {
        let latency = &one.latency;
        let micros = |value: f64| format!("{value:.0}");
        vec![
            one.depth.to_string(),
            format!("{} \u{b1} {}", short(one.iops), short(one.iops_deviation)),
            mib_per_sec(one.bytes_per_sec),
            micros(latency.submission.mean),
            micros(latency.completion.p50),
            micros(latency.completion.p99),
            micros(latency.total.p50),
            micros(latency.total.p99),
            micros(latency.total.p99_9),
        ]
    };
    let heads = [
        "queue depth",
        "reads/s",
        "rate",
        "submission, mean \u{b5}s",
        "completion, 50 %",
        "99 %",
        "total, 50 %",
        "99 %",
        "99.9 %",
    ];
    let streams = [("read", &disk.read), ("write", &disk.write)];
    let streams = streams.map(|(name, stream)| {
        let total = stream.latency.total;
        vec![
            name.to_owned(),
            mib_per_sec(stream.bytes_per_sec),
            format!("{:.0}", total.p50),
            format!("{:.0}", total.p99),
        ]
    });
    let about = format!(
        "{}, a file of {}, {}",
        disk.fio,
        bytes(crate::to_f64(disk.file_bytes)),
        if disk.direct { "past the page cache" } else { "through the page cache" }
    );
    list([about].into_iter())
        + &table(&heads, &disk.random_reads.iter().map(row).collect::<Vec<_>>())
        + &table(&["stream of 1 MiB requests", "rate", "total, 50 % \u{b5}s", "99 %"], &streams)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_three_digits() {
        let cases = [
            (0.0, "0 B"),
            (1023.0, "1023 B"),
            (1536.0, "1.50 KiB"),
            (115e6, "110 MiB"),
            (5e9, "4.66 GiB"),
        ];
        for (size, text) in cases {
            assert_eq!(bytes(size), text);
        }
    }
}
