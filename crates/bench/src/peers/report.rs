//! The page `peers.md` with the results. It has no date, so that the same figures give the same
//! text.

use super::cold::ColdRun;
use super::contest::{Entry, Results};
use super::entrant::{HOLDFAST, Role, Standing};
use super::mutation::Mutation;
use super::turn::{Phase, Turn};
use crate::output;
use crate::site::{self, OTHER_CORES_MAX, Sample};
use crate::spread::{Spread, float};

const MIB: f64 = 1_048_576.0;

/// Target: maximum ratio of the time of a first backup of Holdfast to the time of the fastest peer.
const FIRST_AIM: f64 = 0.50;
/// Target: maximum ratio of the size of the stored data to the size for the peer that stores least.
const STORED_AIM: f64 = 1.00;
/// Target: maximum ratio of the time of a nothing-changed backup to the time of the bare walk.
const WALK_AIM: f64 = 0.90;
/// Target: maximum ratio of the time of a nothing-changed backup to the time of the fastest peer.
const UNCHANGED_AIM: f64 = 0.34;
/// Target: maximum ratio of the time of a restore to the time of the fastest peer.
const RESTORE_AIM: f64 = 0.63;
/// Target: maximum ratio of the processor time of a restore to the processor time of making the
/// same files.
const CREATION_AIM: f64 = 1.80;
/// Target: maximum ratio of the time of a nothing-changed backup to the time of the bare walk, both
/// with empty caches.
const COLD_AIM: f64 = 0.40;
/// Target: maximum ratio of the time of a backup after changes to its limit.
const CHANGED_AIM: f64 = 1.00;

pub(crate) fn text(results: &Results, command_line: &str) -> String {
    [head(results, command_line), times(results), costs(results), aims(results), remarks(results)]
        .join("\n")
}

fn head(results: &Results, command_line: &str) -> String {
    let (tally, machine) = (&results.tally, &results.machine);
    let medium = if results.in_memory { "a tmpfs" } else { "a disk" };
    let versions: Vec<String> = results
        .entries
        .iter()
        .filter(|entry| !entry.entrant.version.is_empty())
        .map(|entry| format!("{} {}", entry.entrant.name, entry.entrant.version))
        .collect();
    format!(
        "# Holdfast and its peers\n\n\
         Made by `{command_line}`.\n\n\
         - Tree: {}, {}, {:.1} MiB, in the page cache. All other files are on {medium}.\n\
         - Machine: {}, {:.1} GiB memory, Linux {}; load {} before, {} after.\n\
         - Rounds: {}. In each round every program has a turn, and each round begins with another \
         program.\n\
         - Programs: {}.\n\n\
         Peers write to a local folder. Holdfast backs up over TLS to a server on the same \
         machine, and both ends count.\nValues are medians, with the least and the greatest \
         value in brackets. x is the ratio of the median to that of Holdfast.\n\n\
         ![Bars of these figures](peers.svg)\n",
        output::counted(tally.objects, "object"),
        output::counted(tally.files, "file"),
        float(tally.bytes) / MIB,
        output::counted(machine.cores, "core"),
        float(machine.memory_bytes) / MIB / 1024.0,
        machine.kernel,
        results.load_before,
        results.load_after,
        results.rounds,
        versions.join(", "),
    )
}

fn times(results: &Results) -> String {
    let mut lines = vec![
        "## Time\n".to_owned(),
        row(["program", "first backup, s", "x", "nothing changed, s", "x", "restore, s", "x"]),
        row(["---", "---:", "---:", "---:", "---:", "---:", "---:"]),
    ];
    for entry in &results.entries {
        let mut cells = vec![entry.entrant.name.clone()];
        for phase in Phase::ALL {
            let own = results.holdfast().and_then(|holdfast| holdfast.wall(phase));
            cells.push(match (entry.wall(phase), entry.failure()) {
                (None, Some(_)) => "failed".to_owned(),
                (wall, _) => spread(wall, 1.0),
            });
            cells.push(times_of(entry.wall(phase), own));
        }
        lines.push(row(cells));
    }
    lines.join("\n") + "\n"
}

fn costs(results: &Results) -> String {
    let mut lines = vec![
        "## Cost\n".to_owned(),
        row([
            "program",
            "CPU first, s",
            "CPU nothing changed, s",
            "CPU restore, s",
            "memory first, MiB",
            "memory restore, MiB",
            "stored, MiB",
            "x",
            "differences",
        ]),
        row(["---", "---:", "---:", "---:", "---:", "---:", "---:", "---:", "---:"]),
    ];
    for entry in &results.entries {
        let mut cells = vec![entry.entrant.name.clone()];
        cells.extend(Phase::ALL.map(|phase| cpu_cell(entry, phase)));
        cells.extend([Phase::First, Phase::Restore].map(|phase| memory_cell(entry, phase)));
        let own = results.holdfast().and_then(Entry::stored);
        cells.push(entry.stored().map_or(dash(), |bytes| number(bytes.median / MIB)));
        cells.push(times_of(entry.stored(), own));
        cells.push(differences(entry));
        lines.push(row(cells));
    }
    lines.push(String::new());
    lines.push(
        "CPU is user and system time of all processes. Memory is the peak of the largest process. \
         For Holdfast, both are\nclient + server. Differences are from the first restore; for \
         Holdfast, the largest number of any restore."
            .to_owned(),
    );
    lines.join("\n") + "\n"
}

fn cpu_cell(entry: &Entry, phase: Phase) -> String {
    both(
        entry,
        entry.spread(phase, |sample| sample.client_cpu.as_secs_f64()),
        entry.spread(phase, |sample| sample.server_cpu.as_secs_f64()),
    )
}

fn memory_cell(entry: &Entry, phase: Phase) -> String {
    let figure = |bytes: fn(&Sample) -> u64| {
        entry
            .spread(phase, |sample| float(bytes(sample)) / MIB)
            .filter(|spread| spread.most > 0.0)
    };
    both(
        entry,
        figure(|sample| sample.client_memory_bytes),
        figure(|sample| sample.server_memory_bytes),
    )
}

/// Returns the figures of client and server for Holdfast; for other programs the only figure that
/// they have.
fn both(entry: &Entry, client: Option<Spread>, server: Option<Spread>) -> String {
    let one = |spread: Option<Spread>| spread.map_or(dash(), |spread| number(spread.median));
    match entry.entrant.standing() {
        Standing::Holdfast => format!("{} + {}", one(client), one(server)),
        Standing::Peer | Standing::Baseline => one(client),
    }
}

fn differences(entry: &Entry) -> String {
    let compared: Vec<u64> = entry
        .turns
        .iter()
        .filter_map(|turn| turn.comparison.as_ref())
        .map(|comparison| comparison.differences)
        .collect();
    match compared.iter().max() {
        Some(most) => most.to_string(),
        None => dash(),
    }
}

/// A function that returns one figure of a sample.
type Figure = fn(&Sample) -> f64;

/// A measured ratio, and its maximum as the target of Holdfast.
struct Aim {
    what: String,
    measured: Option<Spread>,
    most: Option<f64>,
}

fn aims(results: &Results) -> String {
    let mut lines = vec![
        "## Targets of Holdfast\n".to_owned(),
        row(["ratio", "measured", "at most", ""]),
        row(["---", "---:", "---:", "---"]),
    ];
    for Aim { what, measured, most } in all_aims(results) {
        let verdict = match (measured, most) {
            (Some(spread), Some(most)) if spread.median <= most => "reached",
            (Some(_), Some(_)) => "**missed**",
            _ => "",
        };
        let most = most.map_or(dash(), |most| format!("{most:.2}"));
        lines.push(row([what, spread(measured, 1.0), most, verdict.to_owned()]));
    }
    lines.join("\n") + "\n"
}

fn all_aims(results: &Results) -> Vec<Aim> {
    let wall = |phase| move |entry: &Entry| Some(entry.wall(phase)?.median);
    let mut aims = vec![
        against(results, "first backup", wall(Phase::First), FIRST_AIM),
        against(results, "stored bytes", |entry| Some(entry.stored()?.median), STORED_AIM),
        Aim {
            what: "nothing changed / bare walk right before it".to_owned(),
            measured: per_walk(results),
            most: Some(WALK_AIM),
        },
        against(results, "nothing changed", wall(Phase::Unchanged), UNCHANGED_AIM),
        against(results, "restore", wall(Phase::Restore), RESTORE_AIM),
    ];
    aims.extend(per_creation(results));
    aims.extend(results.cold.as_ref().map(|cold| Aim {
        what: "nothing changed / bare walk, both cold".to_owned(),
        measured: Some(cold.ratio()),
        most: Some(COLD_AIM),
    }));
    aims.extend(results.mutation.as_ref().map(|mutation| Aim {
        what: "1 % changed / (1.5 nothing changed + sending the changed files)".to_owned(),
        measured: Some(mutation.share_of_limit()),
        most: Some(CHANGED_AIM),
    }));
    aims
}

/// Returns the ratio of a figure of Holdfast to the least figure of all peers.
fn against(
    results: &Results,
    what: &str,
    figure: impl Fn(&Entry) -> Option<f64>,
    most: f64,
) -> Aim {
    let own = results.holdfast().and_then(&figure);
    let least = results.least(figure);
    let name = least.map_or("no peer", |(entry, _)| entry.entrant.name.as_str());
    let ratio = own.zip(least).map(|(own, (_, least))| own / least.max(f64::MIN_POSITIVE));
    Aim {
        what: format!("{what} / {name}"),
        measured: ratio.map(|ratio| Spread::of([ratio])),
        most: Some(most),
    }
}

fn per_walk(results: &Results) -> Option<Spread> {
    let turns = &results.holdfast()?.turns;
    let pairs = turns
        .iter()
        .filter_map(|turn| Some(turn.walks.iter().zip(turn.samples.get(&Phase::Unchanged)?)));
    let ratios: Vec<f64> = pairs
        .flatten()
        .map(|(walk, backup)| backup.wall.as_secs_f64() / walk.wall.as_secs_f64())
        .collect();
    (!ratios.is_empty()).then(|| Spread::of(ratios))
}

/// Returns the ratios of the second restore to the creation of the same files right before it: of
/// processor time and of time.
fn per_creation(results: &Results) -> Vec<Aim> {
    let cpu: Figure = |one| one.client_cpu.as_secs_f64() + one.server_cpu.as_secs_f64();
    let wall: Figure = |one| one.wall.as_secs_f64();
    let turns = results.holdfast().map_or(&[][..], |holdfast| &holdfast.turns);
    let aims = [("CPU", cpu, Some(CREATION_AIM)), ("time", wall, None)];
    aims.map(|(word, figure, most)| {
        let ratio = |turn: &Turn| {
            let pair = turn.pair.as_ref()?;
            Some(figure(&pair.restore) / figure(&pair.creation).max(1e-9))
        };
        let ratios: Vec<f64> = turns.iter().filter_map(ratio).collect();
        Aim {
            what: format!("second restore, {word} / making the same files right before it"),
            measured: (!ratios.is_empty()).then(|| Spread::of(ratios)),
            most,
        }
    })
    .into()
}

fn remarks(results: &Results) -> String {
    let mut lines = vec!["## Remarks\n".to_owned()];
    let busy = other_cores(results);
    if busy > OTHER_CORES_MAX {
        lines.push(format!("- **Other programs kept {busy:.2} cores busy meanwhile.**"));
    }
    for entry in &results.entries {
        let name = &entry.entrant.name;
        if let Some(failure) = entry.failure() {
            lines.push(format!("- {name}: failed: {failure}"));
        }
        let codes = entry.turns.iter().flat_map(|turn| turn.samples.values().flatten());
        if let Some(code) = codes.map(|sample| sample.exit_code).find(|code| *code != 0) {
            lines.push(format!("- {name}: done with remarks, exit code {code}"));
        }
        let compared = entry.turns.iter().filter_map(|turn| turn.comparison.as_ref());
        if let Some(first) = compared.flat_map(|comparison| &comparison.first).next() {
            lines.push(format!("- {name}: the first difference is `{first}`"));
        }
    }
    for missing in &results.missing {
        lines.push(format!(
            "- {}: not installed; install it with `{}`",
            missing.name, missing.install
        ));
    }
    lines.extend(results.cold.as_ref().map(cold_remark));
    lines.extend(results.mutation.as_ref().map(mutation_remark));
    lines.push(format!("- {HOLDFAST}: compresses with its default (standard)."));
    lines.join("\n") + "\n"
}

/// Returns the number of cores that programs other than the measured programs kept busy. Samples of
/// a creation do not have this figure, and are left out.
fn other_cores(results: &Results) -> f64 {
    let entries = results
        .entries
        .iter()
        .filter(|entry| !matches!(entry.entrant.role, Role::Creation { .. }));
    let turns = entries.flat_map(|entry| &entry.turns);
    let samples = turns.flat_map(|turn| turn.samples.values().flatten());
    site::other_cores(&samples.collect::<Vec<_>>())
}

fn cold_remark(cold: &ColdRun) -> String {
    let walls = |samples: &[Sample]| spread(Some(ColdRun::walls(samples)), 1.0);
    let peer = cold
        .peer
        .as_ref()
        .map_or(String::new(), |(name, samples)| format!(", {name} {} s", walls(samples)));
    let (walk, backup) = (walls(&cold.walks), walls(&cold.backups));
    format!("- Cold, nothing changed: bare walk {walk} s, {HOLDFAST} {backup} s{peer}.")
}

fn mutation_remark(mutation: &Mutation) -> String {
    let wall = |of: fn(&super::mutation::Step) -> &Sample| spread(Some(mutation.wall(of)), 1.0);
    let changes = mutation.steps.first().map(|step| step.changes).unwrap_or_default();
    format!(
        "- Changed: {} ({:.1} MiB), deleted: {}. Time {} s; with nothing changed {} s.",
        output::counted(changes.changed, "file"),
        float(changes.bytes) / MIB,
        output::counted(changes.deleted, "file"),
        wall(|step| &step.after),
        wall(|step| &step.unchanged),
    )
}

fn row<I: AsRef<str>>(cells: impl IntoIterator<Item = I>) -> String {
    let cells: Vec<String> = cells.into_iter().map(|cell| cell.as_ref().to_owned()).collect();
    format!("| {} |", cells.join(" | "))
}

fn dash() -> String {
    "-".to_owned()
}

/// Returns `value` with three significant digits. Numbers above 100 have no decimals.
pub(crate) fn number(value: f64) -> String {
    match value.abs() {
        ..1.0 => format!("{value:.3}"),
        ..10.0 => format!("{value:.2}"),
        ..100.0 => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    }
}

fn spread(spread: Option<Spread>, unit: f64) -> String {
    let Some(Spread { median, least, most }) = spread else { return dash() };
    let [median, least, most] = [median, least, most].map(|value| number(value / unit));
    if least == most { median } else { format!("{median} ({least}-{most})") }
}

/// Returns `value` as a multiple of the value of Holdfast.
fn times_of(value: Option<Spread>, own: Option<Spread>) -> String {
    match value.zip(own) {
        Some((value, own)) if own.median > 0.0 => format!("{:.2}", value.median / own.median),
        _ => dash(),
    }
}

#[cfg(test)]
pub(crate) mod tests;
