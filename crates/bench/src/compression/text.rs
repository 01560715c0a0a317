//! The page `compression.md` and the JSON document.
//!
//! The page is written as a whole. What it explains is here, so that a new measurement keeps it.

use std::time::Duration;

use chunk::Compression;
use serde_json::{Value, json};

use super::alone::{self, GpuStage, Loss};
use super::contest::{
    AUTO_GPU_BYTES_MIN, CHOICES, GPU, NONE, ONE_THREAD, ROADS, Results, Road, Row, THREADS,
};
use crate::output;
use crate::page;
use crate::site::Sample;
use crate::spread::{Spread, float};

const MB: f64 = 1_000_000.0;

/// Maximum share of the compression ratio that may be lost because quanta are independent, on
/// average.
const LOSS_MEAN_TARGET: f64 = 0.02;
/// Maximum share that may be lost in any part of the corpus.
const LOSS_MOST_TARGET: f64 = 0.05;
/// Minimum ratio of the rate of the automatic choice to that of the best fixed choice.
const AUTO_TARGET: f64 = 0.9;
/// Maximum processor time of a backup with a GPU, compared with threads.
const GPU_CPU_TARGET: f64 = 0.5;
/// Minimum rate of a GPU alone, in bytes per second.
const GPU_RATE_TARGET: f64 = 20e9;
/// Minimum ratio of the rate of a GPU alone to that of all threads at level 1.
const GPU_SPEEDUP_TARGET: f64 = 5.0;
/// Minimum ratio of the rate with all threads to that with one, if processors limit the rate.
const LIMITED_BY_PROCESSORS: f64 = 1.1;

/// Returns the page. The measurements have taken `took`.
pub(super) fn page(contest: &Results, alone: Option<&alone::Results>, took: Duration) -> String {
    let has_rows = |road: &Road| contest.rows.iter().any(|row| row.road == *road);
    let tables = ROADS.into_iter().filter(has_rows).map(|road| table(contest, road));
    let alone =
        alone.map_or_else(String::new, |alone| scaling(alone) + &gpu_alone(alone) + &losses(alone));
    [head(contest, took), lesson(contest), tables.collect(), alone].concat()
}

fn reached(is_reached: bool) -> &'static str {
    if is_reached { "reached" } else { "missed" }
}

fn head(contest: &Results, took: Duration) -> String {
    let corpus: Vec<String> = contest
        .corpus
        .iter()
        .map(|folder| format!("`{}`", page::shown(&folder.to_string_lossy())))
        .collect();
    let choices: Vec<String> = CHOICES
        .iter()
        .map(|choice| format!("{} is `--compression {}`", choice.name, choice.value))
        .collect();
    format!(
        "{}\n{}\n\n{}\n\nThe bytes come from {}; no content occurs twice in a set. A set is cut \
         to the size that its link carries uncompressed in {} s. Each backup has a new server and \
         a new node, on {}. Rounds: {}. Load: {} before, {} after. The run took {}.\n\n\
         MB/s are uncompressed bytes of the set divided by the wall time. The ratio is that of \
         uncompressed to transferred bytes. CPU is the client's processor time in seconds; the \
         machine has {} cores, which the server shares. {}; with one thread the client has one \
         core. A restore brings back what the backup of its column has stored. Median (least .. \
         most).\n\n\
         ![Bars of the rates of backups](compression.svg)\n",
        page::head("Compression"),
        verdict(contest),
        gpu_line(contest),
        corpus.join(", "),
        contest.seconds,
        if contest.in_memory { "a tmpfs" } else { "a disk" },
        contest.rounds,
        contest.load_before,
        contest.load_after,
        output::counted(took.as_secs().div_ceil(60), "minute"),
        contest.cores,
        choices.join(", "),
    )
}

fn verdict(contest: &Results) -> String {
    let Some((row, share)) = contest.worst() else {
        return "The program refuses `--compression auto`.".to_owned();
    };
    format!(
        "In its worst case the automatic choice has **{share:.2}** of the rate of the best fixed \
         choice: set {} over {}. The aim is {AUTO_TARGET}: {}.",
        row.kind.name,
        row.road.name,
        reached(share >= AUTO_TARGET)
    )
}

fn gpu_line(contest: &Results) -> String {
    match &contest.gpu {
        Ok(name) => {
            let small = small_sets(contest);
            format!("The GPU is an {name}. When one pays is in [a GPU](gpu.md).{small}")
        }
        Err(reason) => format!(
            "There is no GPU: {reason}. Figures of a machine with one are in [a GPU](gpu.md)."
        ),
    }
}

/// Says of small sets that they show nothing of the automatic choice with a GPU, if there are some.
fn small_sets(contest: &Results) -> &'static str {
    if contest.rows.iter().all(|row| row.bytes >= AUTO_GPU_BYTES_MIN) {
        return "";
    }
    " In sets of less than 4 GB the backup ends before the automatic choice uses the GPU."
}

/// Explains with the figures of the rows when hardware pays: by link, size of files and processors.
fn lesson(contest: &Results) -> String {
    let lines = ROADS.into_iter().map(|road| lesson_of(contest, road));
    format!(
        "\n## When hardware pays\n\nHardware can spare the processor time of compression, and no \
         other part of a backup: reading, digests, encryption and sending stay with the \
         processors. It gains rate where compression limits the rate: where few processors feed \
         a fast link. It gains none where the link or the disk is slower than the threads; there \
         a stronger compression by idle processors is worth more. Small files leave more of the \
         work to the processors, and a small backup ends before hardware is ready. Restores are \
         by threads. How a GPU is used, and what it takes, with figures of a machine that has one: \
         [a GPU](gpu.md).\n\n{}{}{}",
        lines.collect::<String>(),
        lesson_by_size(contest).unwrap_or_default(),
        gpu_verdict(contest)
    )
}

/// Returns the median of the processor time of a client, in seconds.
fn cpu_of(row: &Row, choice: usize) -> Option<f64> {
    Some(row.spread(choice, cpu_secs)?.median)
}

/// Returns the share of the client's processor time that compression by threads takes, in percent.
fn compression_share(row: &Row) -> Option<f64> {
    Some(100.0 * (1.0 - cpu_of(row, NONE)? / cpu_of(row, THREADS)?).clamp(0.0, 1.0))
}

/// Returns the processor time of a backup with the GPU, compared with threads.
fn gpu_cpu(row: &Row) -> Option<f64> {
    Some(cpu_of(row, GPU)? / cpu_of(row, THREADS)?)
}

/// Returns what the smallest and the largest files show, over the first link with both.
fn lesson_by_size(contest: &Results) -> Option<String> {
    let ends = |road: Road| {
        let mut rows = contest.rows.iter().filter(|row| row.road == road);
        let first = rows.next()?;
        Some((road, first, rows.next_back()?))
    };
    let (road, first, last) = ROADS.into_iter().find_map(ends)?;
    let shares = [first, last].map(compression_share);
    let [Some(small), Some(large)] = shares else { return None };
    let gpu = match [first, last].map(gpu_cpu) {
        [Some(small), Some(large)] => format!(
            "; with the GPU a backup takes {small:.2} and {large:.2} of the processor time of \
             threads"
        ),
        _ => String::new(),
    };
    Some(format!(
        "- **By the size of files**, over {}: compression takes {small:.0} % of the client's \
         processor time in the set {}, and {large:.0} % in the set {}{gpu}.\n",
        road.name, first.kind.name, last.kind.name
    ))
}

/// Returns the processor time of backups with the GPU, compared with threads, in the worst set.
fn worst_gpu_cpu(contest: &Results) -> Option<f64> {
    contest.rows.iter().filter_map(gpu_cpu).max_by(f64::total_cmp)
}

/// Judges the processor time of backups with the GPU, or says that there is none.
fn gpu_verdict(contest: &Results) -> String {
    let verdict = worst_gpu_cpu(contest).map_or_else(
        || "not measured, because there is no GPU".to_owned(),
        |worst| format!("{}, {worst:.2} in the worst set", reached(worst <= GPU_CPU_TARGET)),
    );
    format!(
        "- **The GPU**: the aim is at most {GPU_CPU_TARGET} of the processor time of threads: \
         {verdict}.\n"
    )
}

/// Returns what the rows over `road` show: the time that hardware could spare at most, the gain by
/// threads, and what the GPU gains if there is one.
fn lesson_of(contest: &Results, road: Road) -> String {
    let rows = || contest.rows.iter().filter(move |row| row.road == road);
    let rate = |row: &Row, choice| Some(row.rate(choice)?.median);
    let by_threads = |row: &Row| Some(rate(row, THREADS)? / rate(row, ONE_THREAD)?);
    let gpu_rate = |row: &Row| Some(rate(row, GPU)? / rate(row, THREADS)?);
    let mut parts = Vec::new();
    if let Some(range) = range(rows().filter_map(compression_share), 0) {
        parts.push(format!("compression takes {range} % of the client's processor time"));
    }
    let gains: Vec<f64> = rows().filter_map(by_threads).collect();
    if let Some(range) = range(gains.iter().copied(), 2) {
        let cores = output::counted(contest.cores, "core");
        let meaning = meaning(contest.cores, &gains);
        parts.push(format!("all threads, on {cores}, have {range} of the rate of one{meaning}"));
    }
    if let (Some(rates), Some(times)) =
        (range(rows().filter_map(gpu_rate), 2), range(rows().filter_map(gpu_cpu), 2))
    {
        parts.push(format!(
            "with the GPU a backup has {rates} of the rate of threads, and takes {times} of their \
             processor time"
        ));
    }
    if parts.is_empty() {
        return String::new();
    }
    format!("- **Over {}**: {}.\n", road.name, parts.join("; "))
}

/// Says what `gains` mean for hardware: the ratios of the rate with all threads, on `cores` cores,
/// to the rate with one thread. One core shows nothing.
fn meaning(cores: usize, gains: &[f64]) -> &'static str {
    let limited = gains.iter().filter(|gain| **gain >= LIMITED_BY_PROCESSORS).count();
    if cores < 2 {
        ""
    } else if limited == 0 {
        ": processors do not limit the rate, and hardware cannot raise it"
    } else if limited < gains.len() {
        ": processors limit the rate of some sets, and hardware can raise it there"
    } else {
        ": processors limit the rate, and where they are few, hardware can raise it"
    }
}

/// Returns the least and the greatest of some figures; `None` if there are none.
fn range(figures: impl Iterator<Item = f64>, digits: usize) -> Option<String> {
    let figures: Vec<f64> = figures.collect();
    let least = figures.iter().copied().min_by(f64::total_cmp)?;
    let most = figures.iter().copied().max_by(f64::total_cmp)?;
    let (least, most) = (format!("{least:.digits$}"), format!("{most:.digits$}"));
    Some(if least == most { least } else { format!("{least} to {most}") })
}

/// Returns the tables of backups and of restores over `road`.
fn table(contest: &Results, road: Road) -> String {
    let rows: Vec<&Row> = contest.rows.iter().filter(|row| row.road == road).collect();
    let names = CHOICES.map(|choice| format!("{}, MB/s", choice.name));
    let all = CHOICES.map(|choice| choice.name).join(" / ");
    let of_all = |what: &str| format!("{what}: {all}");
    let (time, ratio, cpu) = (of_all("time, s"), of_all("ratio"), of_all("CPU, s"));
    let rates = || names.iter().map(String::as_str);
    let backups: Vec<&str> = ["set", "files", "MB"]
        .into_iter()
        .chain(rates())
        .chain([time.as_str(), ratio.as_str(), cpu.as_str(), "auto / best fixed"])
        .collect();
    let restores: Vec<&str> = ["set"]
        .into_iter()
        .chain(rates())
        .chain([time.as_str(), cpu.as_str()])
        .collect();
    let cells = |of: fn(&Row) -> Vec<String>| rows.iter().map(|row| of(row)).collect::<Vec<_>>();
    format!(
        "\n## Over {}\n\nBackups:\n\n{}\nRestores:\n\n{}",
        road.name,
        page::table(&backups, &cells(backup_cells)),
        page::table(&restores, &cells(restore_cells))
    )
}

/// Returns the text of a figure of each choice.
fn each(figure: impl Fn(usize) -> Option<String>) -> [String; CHOICES.len()] {
    std::array::from_fn(|choice| figure(choice).unwrap_or_else(|| "-".to_owned()))
}

fn in_mb(spread: Spread) -> String {
    let Spread { median, least, most } = spread;
    page::cell(Spread { median: median / MB, least: least / MB, most: most / MB }, 1)
}

fn cpu_secs(sample: &Sample) -> f64 {
    sample.client_cpu.as_secs_f64()
}

fn wall_secs(sample: &Sample) -> f64 {
    sample.wall.as_secs_f64()
}

fn backup_cells(row: &Row) -> Vec<String> {
    let rates = each(|choice| Some(in_mb(row.rate(choice)?)));
    let times = each(|choice| Some(format!("{:.1}", row.spread(choice, wall_secs)?.median)));
    let ratios = each(|choice| Some(format!("{:.2}", row.ratio(choice)?.median)));
    let cpu = each(|choice| Some(format!("{:.2}", row.spread(choice, cpu_secs)?.median)));
    let auto = row.auto_to_best().map_or_else(|| "-".to_owned(), |share| format!("{share:.2}"));
    let fixed =
        [row.kind.name.to_owned(), row.files.to_string(), format!("{:.1}", float(row.bytes) / MB)];
    let last = [times.join(" / "), ratios.join(" / "), cpu.join(" / "), auto];
    fixed.into_iter().chain(rates).chain(last).collect()
}

fn restore_cells(row: &Row) -> Vec<String> {
    let rates = each(|choice| Some(in_mb(row.restore_rate(choice)?)));
    let cpu = each(|choice| Some(format!("{:.2}", row.restored(choice, cpu_secs)?.median)));
    let times = each(|choice| Some(format!("{:.1}", row.restored(choice, wall_secs)?.median)));
    let set = [row.kind.name.to_owned()].into_iter();
    set.chain(rates).chain([times.join(" / "), cpu.join(" / ")]).collect()
}

fn scaling(alone: &alone::Results) -> String {
    let rows: Vec<Vec<String>> = alone
        .scaling
        .iter()
        .map(|one| {
            let rate = |rate: Spread| {
                let Spread { median, least, most } = rate;
                format!("{:.0} ({:.0} .. {:.0})", median / MB, least / MB, most / MB)
            };
            let rates = one.rates.iter().copied().map(rate);
            let ends = [page::cell(one.speedup, 2), format!("{:.3}", one.ratio)];
            [one.level.to_string()].into_iter().chain(rates).chain(ends).collect()
        })
        .collect();
    let heads: Vec<String> = alone
        .threads
        .iter()
        .map(|threads| format!("threads: {threads}, MB/s"))
        .collect();
    let heads = heads.iter().map(String::as_str);
    let head: Vec<&str> = ["level"].into_iter().chain(heads).chain(["speed-up", "ratio"]).collect();
    format!(
        "\n## Threads\n\n{:.1} MB of the corpus, packed as a client packs files into quanta of up \
         to 2 MiB, and compressed from memory in the process of the bench.\n\n{}",
        float(alone.scaling_bytes) / MB,
        page::table(&head, &rows)
    )
}

/// Returns the section about the GPU alone: its aims, and its table if there is a GPU.
fn gpu_alone(alone: &alone::Results) -> String {
    let threads = alone.threads.last().copied().unwrap_or(1);
    let (what, [rate, speedup], table) = gpu_stages(alone)
        .unwrap_or_else(|| ("No GPU was measured.", ["not measured"; 2], String::new()));
    format!(
        "\n## The GPU alone\n\n{what}\n\n- {:.0} GB/s: {rate}\n- {GPU_SPEEDUP_TARGET} times all \
         threads ({threads}) at level 1, at their ratio or better: {speedup}\n{table}",
        GPU_RATE_TARGET / 1e9
    )
}

/// Returns what was measured of the GPU alone, the verdicts on its rate and on its speed-up, and
/// the table; `None` if nothing was measured.
fn gpu_stages(alone: &alone::Results) -> Option<(&'static str, [&'static str; 2], String)> {
    let threads = alone.scaling.iter().find(|one| one.level == Compression::Level(1))?;
    let all_threads = threads.rates.last()?.median;
    let best = alone.gpu.iter().max_by(|a, b| a.rate.median.total_cmp(&b.rate.median))?;
    let speedup = |stage: &GpuStage| stage.rate.median / all_threads;
    let row = |stage: &GpuStage| {
        let Spread { median, least, most } = stage.rate;
        let rate = Spread { median: median / 1e9, least: least / 1e9, most: most / 1e9 };
        vec![
            format!("{} lanes of {} quanta", stage.settings.lanes, stage.settings.quanta),
            page::cell(rate, 2),
            format!("{:.2}", speedup(stage)),
            format!("{:.3}", stage.ratio),
        ]
    };
    let rows: Vec<Vec<String>> = alone.gpu.iter().map(row).collect();
    let what = "The same quanta, again and again, from memory to memory: both transfers, the \
                making of records and their reading back are included. The first row is the \
                setting of a backup.";
    let verdicts = [
        reached(best.rate.median >= GPU_RATE_TARGET),
        reached(speedup(best) >= GPU_SPEEDUP_TARGET && best.ratio >= threads.ratio),
    ];
    let table = page::table(&["GPU", "GB/s", "of all threads at level 1", "ratio"], &rows);
    Some((what, verdicts, format!("\n{table}")))
}

/// Returns the average and the greatest loss among the parts at one level.
fn loss_at(losses: &[Loss], level: Compression) -> (f64, f64) {
    let shares: Vec<f64> =
        losses.iter().filter(|loss| loss.level == level).map(Loss::share).collect();
    let count = float(u64::try_from(shares.len()).unwrap_or(0)).max(1.0);
    let worst = shares.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    (shares.iter().sum::<f64>() / count, worst)
}

fn levels(losses: &[Loss]) -> Vec<Compression> {
    let mut levels: Vec<Compression> = losses.iter().map(|loss| loss.level).collect();
    levels.sort_unstable();
    levels.dedup();
    levels
}

fn losses(alone: &alone::Results) -> String {
    let summary: Vec<String> = levels(&alone.losses)
        .into_iter()
        .map(|level| {
            let (mean, worst) = loss_at(&alone.losses, level);
            let is_met = mean <= LOSS_MEAN_TARGET && worst <= LOSS_MOST_TARGET;
            format!(
                "- level {level}: {:.2} % on average, {:.2} % at most: {}\n",
                mean * 100.0,
                worst * 100.0,
                reached(is_met),
            )
        })
        .collect();
    let rows: Vec<Vec<String>> = alone.losses.iter().map(loss_cells).collect();
    let head = ["part", "level", "MB", "ratio, one stream", "ratio, quanta", "loss of ratio, %"];
    format!(
        "\n## Independence\n\nThe same bytes, compressed as one zstd stream, and with the same \
         strength as independent quanta of 2 MiB. Headers and chunk lengths count. The target is a \
         loss of at most {:.0} % on average, and of at most {:.0} % in any part.\n\n{}\n{}",
        LOSS_MEAN_TARGET * 100.0,
        LOSS_MOST_TARGET * 100.0,
        summary.concat(),
        page::table(&head, &rows)
    )
}

fn loss_cells(loss: &Loss) -> Vec<String> {
    let raw = float(loss.raw_bytes);
    vec![
        loss.part.file_name().unwrap_or_default().to_string_lossy().into_owned(),
        loss.level.to_string(),
        format!("{:.1}", raw / MB),
        format!("{:.3}", raw / float(loss.stream_bytes.max(1))),
        format!("{:.3}", raw / float(loss.quanta_bytes.max(1))),
        format!("{:.2}", loss.share() * 100.0),
    ]
}

pub(super) fn document(contest: &Results, alone: Option<&alone::Results>) -> Value {
    let rows: Vec<Value> = contest.rows.iter().map(row_document).collect();
    let scaling: Vec<Value> = alone
        .iter()
        .flat_map(|alone| &alone.scaling)
        .map(|one| {
            let rates: Vec<Value> = one.rates.iter().map(|rate| rate.json()).collect();
            json!({
                "level": one.level.to_string(),
                "threads": alone.map(|alone| &alone.threads),
                "bytes_per_sec": rates,
                "ratio": one.ratio,
                "speedup": one.speedup.json(),
            })
        })
        .collect();
    let gpu_alone: Vec<Value> = alone
        .iter()
        .flat_map(|alone| &alone.gpu)
        .map(|stage| {
            json!({
                "lanes": stage.settings.lanes,
                "quanta": stage.settings.quanta,
                "bytes_per_sec": stage.rate.json(),
                "ratio": stage.ratio,
            })
        })
        .collect();
    let losses: Vec<Value> = alone
        .iter()
        .flat_map(|alone| &alone.losses)
        .map(|loss| {
            json!({
                "part": loss.part.to_string_lossy(),
                "level": loss.level.to_string(),
                "raw_bytes": loss.raw_bytes,
                "stream_bytes": loss.stream_bytes,
                "quanta_bytes": loss.quanta_bytes,
                "lost": loss.share(),
            })
        })
        .collect();
    json!({
        "gpu": contest.gpu.as_ref().ok(),
        "gpu_missing_reason": contest.gpu.as_ref().err(),
        "load_before": contest.load_before,
        "load_after": contest.load_after,
        "auto_to_best_worst": contest.worst().map(|(_, share)| share),
        "gpu_to_threads_cpu_worst": worst_gpu_cpu(contest),
        "sets": rows,
        "scaling": scaling,
        "gpu_alone": gpu_alone,
        "independence": losses,
    })
}

fn row_document(row: &Row) -> Value {
    let choices = CHOICES.iter().enumerate().map(|(index, choice)| {
        let figures = json!({
            "bytes_per_sec": row.rate(index).map(Spread::json),
            "ratio": row.ratio(index).map(Spread::json),
            "cpu_secs": row.spread(index, cpu_secs).map(Spread::json),
            "wall_secs": row.spread(index, wall_secs).map(Spread::json),
            "restore_wall_secs": row.restored(index, wall_secs).map(Spread::json),
            "restore_bytes_per_sec": row.restore_rate(index).map(Spread::json),
            "restore_cpu_secs": row.restored(index, cpu_secs).map(Spread::json),
        });
        (choice.name.to_owned(), figures)
    });
    json!({
        "set": row.kind.name,
        "road": row.road.name,
        "files": row.files,
        "bytes": row.bytes,
        "choices": choices.collect::<serde_json::Map<String, Value>>(),
        "auto_to_best": row.auto_to_best(),
    })
}

#[cfg(test)]
mod tests {
    use super::super::contest::tests::{results, row};
    use super::*;

    const TOOK: Duration = Duration::from_secs(61);

    fn loss(level: Compression, quanta_bytes: u64) -> Loss {
        Loss { part: "/part".into(), level, raw_bytes: 4000, stream_bytes: 1000, quanta_bytes }
    }

    #[test]
    fn loss_is_averaged_over_the_parts_of_a_level() {
        let (one, three) = (Compression::Level(1), Compression::Level(3));
        let losses = [loss(one, 1000), loss(three, 4000), loss(one, 1250)];
        let (mean, worst) = loss_at(&losses, one);
        assert!((mean - 0.1).abs() < 1e-9 && (worst - 0.2).abs() < 1e-9, "{mean} {worst}");
        assert_eq!(levels(&losses), [one, three]);
    }

    /// The page explains with its own figures, and names no GPU that there was not.
    #[test]
    fn the_page_says_when_hardware_pays() {
        let walls = |gpu| [Some(4), Some(8), Some(2), Some(4), Some(8), gpu, Some(2)];
        let of_slow_link = [Some(8), Some(2), Some(2), Some(2), Some(2), None, Some(2)];
        let rows = vec![row(ROADS[0], walls(None)), row(ROADS[2], of_slow_link)];
        let text = page(&results(Err("no driver".to_owned()), rows), None, TOOK);
        assert!(text.contains("There is no GPU: no driver."), "{text}");
        let open = "processor time of threads: not measured, because there is no GPU.\n";
        assert!(text.contains(open), "{text}");
        let fast = "4.00 of the rate of one: processors limit the rate, and where they are few, \
                    hardware can raise it.\n";
        let slow = "1.00 of the rate of one: processors do not limit the rate, and hardware cannot \
                    raise it.\n";
        for (road, meaning) in [("loopback", fast), ("10 Mbit/s", slow)] {
            let line = format!(
                "- **Over {road}**: compression takes 0 % of the client's processor time; all \
                 threads, on 2 cores, have {meaning}"
            );
            assert!(text.contains(&line), "{text}");
        }
        assert!(text.contains("[a GPU](gpu.md)") && text.contains("The run took 2 minutes."));
        assert!(text.contains("The aim is 0.9: reached."), "{text}");
        let rows = vec![row(ROADS[0], walls(Some(1))), row(ROADS[0], walls(Some(4)))];
        let text = page(&results(Ok("NVIDIA X".to_owned()), rows), None, TOOK);
        let with_gpu = "with the GPU a backup has 0.50 to 2.00 of the rate of threads, and takes \
                        1.00 of their processor time.\n";
        assert!(text.contains(with_gpu), "{text}");
        let by_size = "- **By the size of files**, over loopback: compression takes 0 % of the \
                       client's processor time in the set 1M, and 0 % in the set 1M; with the GPU \
                       a backup takes 1.00 and 1.00 of the processor time of threads.\n";
        assert!(text.contains(by_size), "{text}");
        let missed = "at most 0.5 of the processor time of threads: missed, 1.00 in the worst set";
        assert!(text.contains(missed), "{text}");
        let small = "In sets of less than 4 GB the backup ends before the automatic choice";
        assert!(text.contains(small), "{text}");
        let large = Row { bytes: AUTO_GPU_BYTES_MIN, ..row(ROADS[0], walls(Some(1))) };
        let text = page(&results(Ok("NVIDIA X".to_owned()), vec![large]), None, TOOK);
        assert!(!text.contains(small), "{text}");
    }

    #[test]
    fn what_threads_gain_shows_whether_processors_limit_the_rate() {
        assert_eq!(meaning(1, &[1.0]), "", "one core shows nothing");
        assert!(meaning(2, &[0.97, 1.05]).contains("do not limit the rate, "));
        assert!(meaning(2, &[0.97, 1.9]).contains("limit the rate of some sets, "));
        assert!(meaning(2, &[1.2, 1.9]).contains("processors limit the rate, "));
    }

    #[test]
    fn the_gpu_alone_is_judged_beside_all_threads() {
        let threads = alone::ThreadScaling {
            level: Compression::Level(1),
            rates: [1e9, 4e9].map(|rate| Spread::of([rate])).to_vec(),
            ratio: 4.0,
            speedup: Spread::of([4.0]),
        };
        let results = |gpu| alone::Results {
            scaling_bytes: 1,
            threads: vec![1, 16],
            scaling: vec![threads.clone()],
            gpu,
            losses: Vec::new(),
        };
        let stage = |rate, ratio| {
            let settings = gpu::Settings { piece_bytes: 1 << 18, quanta: 16, lanes: 4 };
            GpuStage { settings, rate: Spread::of([rate]), ratio }
        };
        let text = gpu_alone(&results(Vec::new()));
        let aims = "No GPU was measured.\n\n- 20 GB/s: not measured\n- 5 times all threads (16) at \
                    level 1, at their ratio or better: not measured\n";
        assert!(text.ends_with(aims), "the aims stand there without a GPU too: {text}");
        let text = gpu_alone(&results(vec![stage(10e9, 3.9), stage(21e9, 3.9)]));
        assert!(text.contains("| 4 lanes of 16 quanta | 10.00 | 2.50 | 3.900 |"), "{text}");
        assert!(text.contains("- 20 GB/s: reached\n"), "{text}");
        assert!(text.contains("at their ratio or better: missed\n"), "the ratio is less: {text}");
        let text = gpu_alone(&results(vec![stage(21e9, 4.0)]));
        assert!(text.contains("at their ratio or better: reached\n"), "{text}");
        assert!(scaling(&results(Vec::new())).contains("threads: 16, MB/s"));
    }

    #[test]
    fn the_document_names_the_gpu_or_says_why_there_is_none() {
        let walls = [Some(4), Some(8), Some(2), Some(4), Some(8), Some(1), Some(2)];
        let of = |gpu| document(&results(gpu, vec![row(ROADS[0], walls)]), None);
        let without = of(Err("no driver".to_owned()));
        assert_eq!(without["gpu"], Value::Null);
        assert_eq!(without["gpu_missing_reason"], "no driver");
        let with = of(Ok("NVIDIA X".to_owned()));
        assert_eq!(with["gpu"], "NVIDIA X");
        assert_eq!(with["gpu_missing_reason"], Value::Null);
        assert_eq!(with["gpu_to_threads_cpu_worst"], 1.0);
    }

    #[test]
    fn a_choice_that_is_not_possible_has_no_figures() {
        let walls = [Some(4), Some(8), Some(2), Some(4), Some(8), None, Some(2)];
        let row = row(ROADS[0], walls);
        let cells = backup_cells(&row);
        let rates = ["1.0", "0.5", "2.0", "1.0", "0.5", "-", "2.0"];
        assert_eq!(cells[..3], ["1M", "2", "4.0"]);
        assert_eq!(cells[3..10], rates);
        let times = "4.0 / 8.0 / 2.0 / 4.0 / 8.0 / - / 2.0";
        let ratios = "4.00 / 4.00 / 4.00 / 4.00 / 4.00 / - / 4.00";
        let cpu = "1.00 / 1.00 / 1.00 / 1.00 / 1.00 / - / 1.00";
        assert_eq!(cells[10..], [times, ratios, cpu, "1.00"]);
        let restored = restore_cells(&row);
        assert_eq!(restored[0], "1M");
        assert_eq!(restored[1..8], rates);
        assert_eq!(restored[8..], [times, cpu]);
    }
}
