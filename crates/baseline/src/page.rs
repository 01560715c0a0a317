//! The report as one HTML file, which needs nothing else: style and plots are in it.

mod tables;

use std::fmt::Write as _;

use crate::history::History;
use crate::plot::{self, Axis, Line, PlotError, Scale};
use crate::report::{Place, Report};
use crate::walks::{Warmth, Way};

const STYLE: &str = "\
body{font:15px/1.45 sans-serif;max-width:62em;margin:2em auto;padding:0 1em;color:#1a1a1a}\
h1{font-size:1.6em}h2{font-size:1.25em;margin-top:2em;border-bottom:1px solid #ccc}\
table{border-collapse:collapse;margin:.8em 0}\
td,th{padding:.2em .7em;border-bottom:1px solid #ddd;text-align:right;vertical-align:top}\
td:first-child,th:first-child{text-align:left}td.text{text-align:left;max-width:36em}\
figure{display:inline-block;width:min(100%,30em);margin:.4em .4em 0 0}svg{width:100%;height:auto}\
.limit{font-weight:bold}@media print{body{margin:0;max-width:none}figure{break-inside:avoid}}";

/// Returns the page of `report`, with the comparisons of `history`. Times are written by `moment`
/// from microseconds since 1970.
pub fn html(
    report: &Report,
    history: &History,
    moment: &dyn Fn(i64) -> String,
) -> Result<String, PlotError> {
    let mut page = format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width\">\
         <title>Baseline of {host}</title><style>{STYLE}</style></head><body>\n\
         <h1>Baseline of {host}</h1>\n<p>{made}, in {elapsed:.0} s, by version {version}.</p>\n",
        host = text(&report.host.name),
        made = text(&moment(report.made_micros)),
        elapsed = report.elapsed_secs,
        version = text(&report.program_version),
    );
    page.push_str(&tables::remarks(report));
    for place in &report.places {
        heading(&mut page, &format!("Predictions for {}", place.path));
        page.push_str(&tables::predictions(place));
    }
    if !history.comparisons.is_empty() {
        heading(&mut page, "Runs beside their predictions");
        page.push_str(&tables::comparisons(history, moment));
    }
    heading(&mut page, "Processors and memory");
    page.push_str(&tables::host(report));
    if let Some(measured) = &report.network.measured {
        heading(&mut page, "Network to the server");
        page.push_str(&tables::network(report, measured));
    }
    for place in &report.places {
        heading(&mut page, &format!("The tree {}", place.path));
        page.push_str(&tables::tree(place));
        figures(&mut page, tree_plots(place)?);
        heading(&mut page, &format!("Walks of {}", place.path));
        page.push_str(&tables::walks(place));
        figures(&mut page, [walk_plot(place)?]);
        if place.disk.is_some() {
            heading(&mut page, &format!("Disk under {}", place.path));
            page.push_str(&tables::disk(place));
            figures(&mut page, disk_plots(place)?);
        }
    }
    page.push_str("</body></html>\n");
    Ok(page)
}

fn heading(page: &mut String, words: &str) {
    let _written = writeln!(page, "<h2>{}</h2>", text(words));
}

fn figures(page: &mut String, plots: impl IntoIterator<Item = String>) {
    for plot in plots {
        let _written = writeln!(page, "<figure>{plot}</figure>");
    }
}

/// Returns `words` for a page: nothing in them is taken as markup.
fn text(words: &str) -> String {
    let mut safe = String::with_capacity(words.len());
    for letter in words.chars() {
        match letter {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            letter => safe.push(letter),
        }
    }
    safe
}

fn tree_plots(place: &Place) -> Result<[String; 4], PlotError> {
    let tree = &place.tree;
    let classes = || {
        let used = tree.sizes.iter().rposition(|share| share.files > 0).unwrap_or(0);
        // Two powers of two in one bar, so that the names have room.
        tree.sizes[..=used].chunks(2).enumerate().map(|(index, pair)| {
            let name = size_class(2 * index + pair.len() - 1);
            (
                name,
                pair.iter().map(|share| share.files).sum(),
                pair.iter().map(|share| share.bytes).sum(),
            )
        })
    };
    let files: Vec<_> = classes()
        .map(|(name, files, _): (_, u64, u64)| (name, crate::to_f64(files)))
        .collect();
    let bytes: Vec<_> = classes()
        .map(|(name, _, bytes): (_, u64, u64)| (name, crate::to_f64(bytes) / 1_048_576.0))
        .collect();
    let days = tree.changed.iter().enumerate().map(|(day, share)| {
        let name = if day % 5 == 0 { day.to_string() } else { String::new() };
        (name, crate::to_f64(share.files))
    });
    let names = tree.directory_sizes.iter().rposition(|count| *count > 0).unwrap_or(0);
    let directories = tree.directory_sizes.iter().take(names + 1).enumerate();
    let directories = directories.map(|(power, count)| (size_class(power), crate::to_f64(*count)));
    Ok([
        plot::bars("Files by size", "size below, bytes", "files", &files)?,
        plot::bars("Data by size of its file", "size below, bytes", "MiB", &bytes)?,
        plot::bars("Files changed by day", "days ago", "files", &days.collect::<Vec<_>>())?,
        plot::bars(
            "Directories by size",
            "names below",
            "directories",
            &directories.collect::<Vec<_>>(),
        )?,
    ])
}

/// Returns the upper bound of a class of sizes, in few letters.
fn size_class(power: usize) -> String {
    let units = ["", "K", "M", "G", "T"];
    let unit = units.get(power / 10).copied().unwrap_or("T");
    let power = if power / 10 < units.len() { power % 10 } else { power - 40 };
    format!("{}{unit}", 1_u64 << power)
}

fn walk_plot(place: &Place) -> Result<String, PlotError> {
    let kinds = [
        ("by path, warm", Way::Path, Warmth::Warm),
        ("by descriptor, warm", Way::Descriptor, Warmth::Warm),
        ("by descriptor, cold", Way::Descriptor, Warmth::Cold),
    ];
    let lines: Vec<Line> = kinds
        .into_iter()
        .map(|(name, way, warmth)| {
            let walks = place.walks.iter().filter(|walk| walk.way == way && walk.warmth == warmth);
            let point = |walk: &crate::Walk| (f64::from(walk.threads), walk.objects_per_sec());
            Line { name: name.to_owned(), points: walks.map(point).collect() }
        })
        .filter(|line| !line.points.is_empty())
        .collect();
    plot::lines(
        "Stat walks",
        &Axis { label: "threads", scale: Scale::Doubling },
        &Axis { label: "objects per second", scale: Scale::Linear },
        &lines,
    )
}

fn disk_plots(place: &Place) -> Result<Vec<String>, PlotError> {
    let Some(disk) = &place.disk else { return Ok(Vec::new()) };
    let depth = || Axis { label: "requests at once (queue depth)", scale: Scale::Doubling };
    let line = |name: &str, value: fn(&crate::RandomReads) -> f64| Line {
        name: name.to_owned(),
        points: disk.random_reads.iter().map(|row| (f64::from(row.depth), value(row))).collect(),
    };
    let iops = plot::lines(
        "Random reads of 4 KiB",
        &depth(),
        &Axis { label: "reads per second", scale: Scale::Linear },
        &[line("reads per second", |row| row.iops)],
    )?;
    let latency = plot::lines(
        "Latency of random reads",
        &depth(),
        &Axis { label: "microseconds", scale: Scale::Doubling },
        &[
            line("median", |row| row.latency.total.p50.max(0.1)),
            line("90 %", |row| row.latency.total.p90.max(0.1)),
            line("99 %", |row| row.latency.total.p99.max(0.1)),
            line("99.9 %", |row| row.latency.total.p99_9.max(0.1)),
        ],
    )?;
    let stream = |name: &str, stream: &crate::StreamRate| Line {
        name: name.to_owned(),
        points: stream
            .over_time
            .iter()
            .map(|(secs, rate)| (*secs, rate / 1_048_576.0))
            .collect(),
    };
    let streams = plot::lines(
        "Streams of 1 MiB requests",
        &Axis { label: "seconds", scale: Scale::Linear },
        &Axis { label: "MiB per second", scale: Scale::Linear },
        &[stream("read", &disk.read), stream("write", &disk.write)],
    )?;
    Ok(vec![iops, latency, streams])
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::comparison::tests::document;

    #[test]
    fn figures_have_their_ranges_and_directories_their_plot() {
        let mut kept = document("/home");
        let (tree, share) = (&mut kept["places"][0]["tree"], json!({ "files": 1, "bytes": 1 }));
        tree["sizes"] = json!([share, share]);
        tree["changed"] = json!([share, share]);
        tree["directory_sizes"] = json!([0, 3]);
        let report: Report = serde_json::from_value(kept).expect("a report");
        let page = html(&report, &History::default(), &|_| "today".to_owned()).expect("a page");
        for words in ["60 B (30 B to 120 B)", "Directories by size", "names below"] {
            assert!(page.contains(words), "{words} is not in {page}");
        }
    }

    #[test]
    fn names_are_no_markup() {
        assert_eq!(text("/a<script>&\"b\""), "/a&lt;script&gt;&amp;&quot;b&quot;");
    }

    #[test]
    fn classes_of_sizes_have_short_names() {
        assert_eq!([0, 9, 10, 21, 30, 47].map(size_class), ["1", "512", "1K", "2M", "1G", "128T"]);
    }
}
