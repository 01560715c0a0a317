//! `bench agent`: memory and wake-ups of an agent that has nothing to do, and the time from an
//! order to the begin of its work at the node.
//!
//! ```text
//!   server, node, a schedule of each night -> start the agent -> wait until it rests
//!     -> look at it for some minutes -> orders, one after the other
//! ```
//!
//! The kernel counts how often each thread gave its processor away, which a thread that sleeps does
//! once for each wake-up. A message and its answer wake several threads, or one several times. So
//! looks at the counts that follow one another closely show one wake-up.

use std::ffi::OsStr;
use std::path::Path;
use std::time::{Duration, Instant};

use e2e::clock;
use serde_json::{Value, json};

use crate::arguments::{PageArgs, WorkArgs, number};
use crate::machine;
use crate::output;
use crate::page;
use crate::process::{self, Runner};
use crate::site::{NODE, Site};
use crate::spread::{Spread, float};
use crate::trouble::{Context as _, Trouble};
use crate::workplace::Workplace;

/// Time after which an agent without work has given back the memory of its start.
const SETTLING: Duration = Duration::from_secs(60);
/// Interval between two looks at the agent.
const LOOK: Duration = Duration::from_millis(100);
/// Time between two changes of the counts up to which they are one wake-up.
const ONE_WAKE_UP: Duration = Duration::from_secs(1);
/// Maximum time from an order to the begin of its work.
const BEGIN_MAX: Duration = Duration::from_secs(60);
/// Limits that an agent has to keep: its memory, and the time between two wake-ups.
const MEMORY_MAX_MIB: f64 = 15.0;
const PAUSE_MIN_SECS: f64 = 30.0;
/// Maximum time from an order to the begin of its work that an administrator may expect.
const ORDER_MAX_SECS: f64 = 2.0;
const MIB: f64 = 1_048_576.0;

/// Measure an idle agent: its memory, its wake-ups, and how soon it begins what is ordered
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// Time for which the idle agent is watched, in minutes
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = number(1..=1000))]
    minutes: usize,
    /// Number of orders
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = number(1..=1000))]
    orders: usize,
    #[command(flatten)]
    work: WorkArgs,
    #[command(flatten)]
    page: PageArgs,
}

/// Figures of the agent.
struct Results {
    /// Time for which the idle agent was watched.
    watched: Duration,
    /// Resident memory at the end of that time, and the most so far.
    memory_bytes: u64,
    memory_peak_bytes: u64,
    cpu: Duration,
    /// Times between one wake-up and the next one.
    pauses: Vec<Duration>,
    /// Times from the start of `holdfast admin run` to the begin of the command at the node.
    orders: Vec<Duration>,
    load: (String, String),
}

pub(crate) fn run(args: &Args) -> Result<(), Trouble> {
    let results = measure(args)?;
    let text = text(&results);
    page::write(&args.page.out, "agent.md", &text)?;
    match args.page.json {
        true => output::result(&document(&results).to_string()),
        false => output::result(&text),
    }
}

fn measure(args: &Args) -> Result<Results, Trouble> {
    let load_before = machine::load();
    let program = process::find_program()?;
    let workplace = Workplace::below(&args.work.folder(), Path::new("/nowhere"))?;
    let runner = Runner::new(program, workplace.folder("outputs")?);
    let site = Site::new(&runner, workplace.folder("site")?);
    let server = site.enrolled()?;
    let words = |text: &'static str| text.split(' ').map(OsStr::new).collect::<Vec<_>>();
    let define = "schedule define nightly --action incremental --object / --time 22:00";
    site.admin(&words(define))?;
    site.admin(&words("schedule associate nightly --domain STANDARD"))?;
    let home = site.home();
    let run: [&OsStr; 4] = ["agent".as_ref(), "run".as_ref(), "--home".as_ref(), home.as_os_str()];
    let agent = runner.start(&run, "agent")?;
    output::step("waiting until the agent rests");
    pause(SETTLING)?;
    let watched = Duration::from_secs(60 * args.minutes as u64);
    output::step(&format!("watching the agent for {}", output::counted(args.minutes, "minute")));
    let cpu_before = machine::cpu_of(agent.pid())?;
    let pauses = pauses(&wake_ups(agent.pid(), watched)?);
    let cpu = machine::cpu_of(agent.pid())?.saturating_sub(cpu_before);
    let memory_bytes = machine::memory_of(agent.pid())?;
    let memory_peak_bytes = machine::peak_memory_of(agent.pid())?;
    output::step(&output::counted(args.orders, "order"));
    let begun = workplace.path().join("begun");
    let orders = (0..args.orders).map(|_| order(&site, &begun)).collect::<Result<_, _>>()?;
    agent.stop()?;
    server.stop()?;
    let load = (load_before, machine::load());
    Ok(Results { watched, memory_bytes, memory_peak_bytes, cpu, pauses, orders, load })
}

fn pause(time: Duration) -> Result<(), Trouble> {
    let end = clock::now() + time;
    while clock::now() < end {
        process::check_interrupted()?;
        clock::pause(LOOK);
    }
    Ok(())
}

/// Returns the times at which the process `pid` was found to have worked, during `time`.
fn wake_ups(pid: u32, time: Duration) -> Result<Vec<Instant>, Trouble> {
    let end = clock::now() + time;
    let (mut seen, mut found) = (machine::switches_of(pid)?, Vec::new());
    while clock::now() < end {
        process::check_interrupted()?;
        clock::pause(LOOK);
        let now = machine::switches_of(pid)?;
        if now != seen {
            found.push(clock::now());
            seen = now;
        }
    }
    Ok(found)
}

/// Returns the pauses between wake-ups, without those within one wake-up.
fn pauses(found: &[Instant]) -> Vec<Duration> {
    let pauses = found.windows(2).map(|pair| pair[1] - pair[0]);
    pauses.filter(|pause| *pause > ONE_WAKE_UP).collect()
}

/// Lets the node run a command now, which writes its time into the file `begun`. Returns the time
/// from the order to the begin of the command.
fn order(site: &Site<'_>, begun: &Path) -> Result<Duration, Trouble> {
    drop(std::fs::remove_file(begun));
    // The file appears when it is complete.
    let file = begun.display();
    let command = format!("date +%s%N > {file}.new && mv {file}.new {file}");
    let ordered = sys::clock::system();
    let words = ["run", NODE, "--detach", "--", "command", &command].map(OsStr::new);
    site.admin(&words)?;
    let end = clock::now() + BEGIN_MAX;
    let text = loop {
        process::check_interrupted()?;
        match std::fs::read_to_string(begun) {
            Ok(text) => break text,
            Err(_) if clock::now() < end => clock::pause(Duration::from_millis(5)),
            Err(_) => return Err(Trouble::new("the agent has not begun what was ordered")),
        }
    };
    let what = || "read the time at which the command began".to_owned();
    let nanos: i64 = text.trim().parse().while_doing(what)?;
    let micros = u64::try_from(nanos / 1000 - ordered.0).while_doing(what)?;
    Ok(Duration::from_micros(micros))
}

fn secs(times: &[Duration]) -> Spread {
    Spread::of(times.iter().map(Duration::as_secs_f64))
}

fn text(results: &Results) -> String {
    let Results { watched, memory_bytes, memory_peak_bytes, cpu, .. } = results;
    let mib = |bytes: u64| format!("{:.1}", float(bytes) / MIB);
    let row = |name: &str, figure: String, aim: String| vec![name.to_owned(), figure, aim];
    let rows = [
        row(
            "memory of an idle agent, MiB",
            mib(*memory_bytes),
            format!("at most {MEMORY_MAX_MIB:.0}"),
        ),
        row("the most since its start, MiB", mib(*memory_peak_bytes), String::new()),
        row(
            "time between two wake-ups, s",
            page::cell(secs(&results.pauses), 1),
            format!("at least {PAUSE_MIN_SECS:.0}"),
        ),
        row("processor time meanwhile, s", format!("{:.2}", cpu.as_secs_f64()), String::new()),
        row(
            "from an order to the begin at the node, s",
            page::cell(secs(&results.orders), 2),
            format!("at most {ORDER_MAX_SECS:.0}"),
        ),
    ];
    format!(
        "{}\nAn agent with one schedule of each night was watched for {} s, and then got {}. Load \
         {} before and {} after. Median (least .. most).\n\n{}",
        page::head("The agent"),
        watched.as_secs(),
        output::counted(results.orders.len(), "order"),
        results.load.0,
        results.load.1,
        page::table(&["figure", "measured", "aim"], &rows),
    )
}

fn document(results: &Results) -> Value {
    let list = |times: &[Duration]| times.iter().map(Duration::as_secs_f64).collect::<Vec<_>>();
    json!({
        "watched_secs": results.watched.as_secs(),
        "memory_bytes": results.memory_bytes,
        "memory_peak_bytes": results.memory_peak_bytes,
        "cpu_secs": results.cpu.as_secs_f64(),
        "pauses_secs": list(&results.pauses),
        "orders_secs": list(&results.orders),
        "load_before": results.load.0,
        "load_after": results.load.1,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_that_follow_closely_are_one_wake_up() {
        let begin = sys::clock::monotonic();
        let found: Vec<Instant> = [0, 100, 40_000, 40_300, 75_300]
            .map(|ms| begin + Duration::from_millis(ms))
            .to_vec();
        let expected = [39_900, 35_000].map(Duration::from_millis);
        assert_eq!(pauses(&found), expected);
        assert!(pauses(&found[..1]).is_empty());
    }
}
