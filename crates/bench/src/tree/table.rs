//! The results as a text table.

use super::figures::{Phase, other_cores, rate, ratio, secs};
use super::rounds::{INCREMENTALS, Results};
use crate::output;
use crate::site::{OTHER_CORES_MAX, Sample, StoredSizes};
use crate::spread::{Spread, float};

const LABEL_COLUMNS: usize = 26;
const VALUE_COLUMNS: usize = 15;
const MIB: f64 = 1_048_576.0;

pub(crate) fn text(results: &Results) -> String {
    [head(results), phases(results), foot(results)].concat()
}

fn head(results: &Results) -> String {
    let (tally, machine) = (&results.tally, &results.machine);
    let unreadable = match tally.unreadable {
        0 => String::new(),
        count => format!(", {count} unreadable"),
    };
    format!(
        "Tree      {}: {}, {}, {:.1} MiB{unreadable}\n\
         Machine   {}, {:.1} GiB memory, Linux {}\n\
         Load      {} before, {} after\n\
         Program   {}\n\
         Rounds    {}, each with {INCREMENTALS} bare walks and incrementals in turns\n\n",
        results.tree.display(),
        output::counted(tally.objects, "object"),
        output::counted(tally.files, "file"),
        float(tally.bytes) / MIB,
        output::counted(machine.cores, "core"),
        float(machine.memory_bytes) / MIB / 1024.0,
        machine.kernel,
        results.load_before,
        results.load_after,
        results.program.display(),
        results.rounds.len(),
    )
}

fn phases(results: &Results) -> String {
    let tally = &results.tally;
    let median = |figure: &dyn Fn(&Sample) -> f64| {
        Phase::ALL.map(|phase| phase.spread(results, figure).median)
    };
    let wall = Phase::ALL.map(|phase| phase.spread(results, secs));
    let mib = |values: [f64; 4]| values.map(|bytes| number(bytes / MIB, 1));
    [
        row("median of all samples", ["bare walk", "first backup", "incremental", "restore"]),
        row("wall, s", wall.map(|spread| number(spread.median, 3))),
        row("  min", wall.map(|spread| number(spread.least, 3))),
        row("  max", wall.map(|spread| number(spread.most, 3))),
        row("objects/s", median(&rate(tally.objects)).map(|rate| number(rate, 0))),
        row("files/s", median(&rate(tally.files)).map(|rate| number(rate, 0))),
        row("MiB/s", mib(median(&rate(tally.bytes)))),
        row("client CPU, s", median(&client_cpu).map(|secs| number(secs, 3))),
        row("server CPU, s", remote(median(&server_cpu), 2)),
        row(
            "client peak memory, MiB",
            remote(median(&|one| float(one.client_memory_bytes) / MIB), 1),
        ),
        row(
            "server peak memory, MiB",
            remote(median(&|one| float(one.server_memory_bytes) / MIB), 1),
        ),
        row("transferred, MiB", remote(median(&|one| float(one.bytes_transferred) / MIB), 1)),
        row("cores, other programs", Phase::ALL.map(|p| format!("{:.2}", p.other_cores(results)))),
    ]
    .concat()
}

fn foot(results: &Results) -> String {
    let of_stored = |figure: &dyn Fn(&StoredSizes) -> u64| {
        Spread::of(results.rounds.iter().map(|round| float(figure(&round.stored)))).median
    };
    let catalog = of_stored(&|stored| stored.catalog_bytes);
    let ratio = ratio(results);
    let failed: u64 = Phase::ALL[1..]
        .iter()
        .flat_map(|phase| phase.samples(results))
        .map(|one| one.failed)
        .sum();
    let mut lines = vec![
        String::new(),
        format!(
            "Stored    pool {:.1} MiB, catalogue {:.1} MiB ({:.1} bytes/object), chunk index \
             {:.1} MiB, home folder of the node {:.1} MiB",
            of_stored(&|stored| stored.pool_bytes) / MIB,
            catalog / MIB,
            catalog / float(results.tally.objects.max(1)),
            of_stored(&|stored| stored.index_bytes) / MIB,
            of_stored(&|stored| stored.home_bytes) / MIB,
        ),
        format!(
            "Ratio     incremental / bare walk: {:.2} ({:.2} .. {:.2})",
            ratio.median, ratio.least, ratio.most
        ),
    ];
    if failed > 0 {
        let failed = output::counted(failed, "object");
        lines.push(format!("Failed    {failed} in all samples together"));
    }
    if other_cores(results) > OTHER_CORES_MAX {
        lines.push("Warning   other programs were running on this machine meanwhile".to_owned());
    }
    lines.join("\n")
}

fn client_cpu(sample: &Sample) -> f64 {
    sample.client_cpu.as_secs_f64()
}

fn server_cpu(sample: &Sample) -> f64 {
    sample.server_cpu.as_secs_f64()
}

fn number(value: f64, decimals: usize) -> String {
    format!("{value:.decimals$}")
}

/// Returns the cells of a figure that the bare walk, the first phase, does not have.
fn remote(values: [f64; 4], decimals: usize) -> [String; 4] {
    let mut cells = values.map(|value| number(value, decimals));
    "-".clone_into(&mut cells[0]);
    cells
}

fn row(label: &str, values: [impl AsRef<str>; 4]) -> String {
    let cells: String = values
        .iter()
        .map(|value| format!("{:>VALUE_COLUMNS$}", value.as_ref()))
        .collect();
    format!("{label:<LABEL_COLUMNS$}{cells}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_stand_below_each_other() {
        let line = row("label", ["1", "22", "-", "x"]);
        assert_eq!(line.trim_end().chars().count(), LABEL_COLUMNS + 4 * VALUE_COLUMNS);
        assert_eq!(remote([0.0, 1.25, 0.0, 3.0], 1), ["-", "1.2", "0.0", "3.0"]);
    }
}
