//! `bench journal`: an incremental by the journal beside one that walks, and the cost of the
//! journal to programs that write.
//!
//! ```text
//!   make the tree -> storm -> start the watcher -> first backup
//!     nothing changed:  walk, journal (rounds, in turns)
//!     some directories: change, journal (rounds) -> change, walk (rounds)
//!   storm with the watcher -> stop the watcher -> storm
//! ```
//!
//! 1. A storm makes, writes, closes, renames and removes files, in one thread, as fast as it can.
//! 2. A walk that sends changes leaves other pages at the server than the journal expects. So these
//!    rounds come last.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use e2e::clock;
use serde_json::{Value, json};

use crate::arguments::{PageArgs, WorkArgs};
use crate::machine;
use crate::output;
use crate::page;
use crate::process::{self, Runner, Server};
use crate::scale::count;
use crate::scale::fill::fill;
use crate::scale::image::{self, Image};
use crate::scale::shape::Plan;
use crate::site::{OTHER_CORES_MAX, Sample, Site, other_cores};
use crate::spread::{Spread, float};
use crate::trouble::{Context as _, Trouble};
use crate::workplace::Workplace;

/// Maximum time in which the watcher answers after its start.
const START_MAX: Duration = Duration::from_secs(20);
/// Number of directories among which a storm distributes its files.
const STORM_DIRECTORIES: u64 = 64;
const SEED: u64 = 1;
const MB: f64 = 1e6;

/// Time an incremental by the journal beside a walk, and the journal's cost to programs, as root
///
/// The tree is in a file system in a sparse file.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// Number of files and directories
    #[arg(long, value_name = "N", value_parser = count, default_value = "1M")]
    objects: u64,
    /// Number of directories in which a file changes before each incremental
    #[arg(long, value_name = "N", value_parser = count, default_value = "10k")]
    changed: u64,
    /// Number of rounds
    #[arg(long, value_name = "N", default_value_t = 3)]
    rounds: usize,
    /// Number of files of a storm
    #[arg(long, value_name = "N", value_parser = count, default_value = "100k")]
    storm: u64,
    #[command(flatten)]
    work: WorkArgs,
    #[command(flatten)]
    page: PageArgs,
}

/// Results of the bench.
struct Results {
    plan: Plan,
    changed: u64,
    first: Sample,
    unchanged_walk: Vec<Sample>,
    unchanged_journal: Vec<Sample>,
    changed_walk: Vec<Sample>,
    changed_journal: Vec<Sample>,
    storms: Storms,
    watcher: WatcherCost,
    load: (String, String),
}

/// Rates of the storms, in files per second.
struct Storms {
    before: f64,
    with: f64,
    after: f64,
}

struct WatcherCost {
    memory_bytes: u64,
    cpu: Duration,
    reports: u64,
}

pub(crate) fn run(args: &Args) -> Result<(), Trouble> {
    if !sys::process::is_root() {
        return Err(Trouble::new(
            "bench journal must be run as root, because it mounts a file system and watches it",
        ));
    }
    let out = &args.page.out;
    fs::create_dir_all(out).while_doing(|| format!("make {}", out.display()))?;
    let results = measure(args)?;
    let text = text(&results);
    page::write(out, "journal.md", &text)?;
    match args.page.json {
        true => output::result(&document(&results).to_string()),
        false => output::result(&text),
    }
}

fn measure(args: &Args) -> Result<Results, Trouble> {
    let load_before = machine::load();
    let program = process::find_program()?;
    let work = args.work.folder();
    let work = work.canonicalize().while_doing(|| format!("find {}", work.display()))?;
    let directories = (args.objects * 10 / 112).max(1);
    let plan = Plan { directories, files: args.objects - directories, seed: SEED };
    let image = make_image(&work, plan)?;
    let tree = image.tree();
    let workplace = Workplace::below(&work, tree)?;
    let runner = Runner::new(program, workplace.folder("outputs")?);
    let site = Site::new(&runner, workplace.folder("site")?);
    let server = site.enrolled()?;
    let storm = || storm(&tree.join("storm"), args.storm);
    output::progress("a storm without a watcher");
    let before = storm()?;
    let watcher = start_watcher(&runner, &site)?;
    let place = Place { site: &site, server: &server, tree };
    output::progress("first backup");
    let first = place.back_up(&[])?;
    let (mut unchanged_walk, mut unchanged_journal) = (Vec::new(), Vec::new());
    for round in 0..args.rounds {
        output::progress(&format!("round {round}, nothing changed"));
        unchanged_walk.push(place.back_up(&["--no-journal"])?);
        unchanged_journal.push(place.by_journal()?);
    }
    let chosen = choose(tree, directories, args.changed)?;
    let (mut changed_walk, mut changed_journal) = (Vec::new(), Vec::new());
    for round in 0..args.rounds {
        output::progress(&format!("round {round}, some directories changed"));
        change(&chosen)?;
        changed_journal.push(place.by_journal()?);
    }
    output::progress("a storm with the watcher");
    let with = storm()?;
    let watcher_cost = cost(&watcher, &site)?;
    for _ in 0..args.rounds {
        change(&chosen)?;
        changed_walk.push(place.back_up(&["--no-journal"])?);
    }
    drop(watcher);
    output::progress("a storm without a watcher");
    let after = storm()?;
    server.stop()?;
    Ok(Results {
        plan,
        changed: chosen.len() as u64,
        first,
        unchanged_walk,
        unchanged_journal,
        changed_walk,
        changed_journal,
        storms: Storms { before, with, after },
        watcher: watcher_cost,
        load: (load_before, machine::load()),
    })
}

fn make_image(work: &Path, plan: Plan) -> Result<Image, Trouble> {
    let path = work.join("holdfast-journal.image");
    let objects = output::counted(plan.objects(), "object");
    output::progress(&format!("making {objects} in {}", path.display()));
    let formatted = image::format(&path, plan);
    if formatted.is_err() {
        drop(fs::remove_file(&path));
    }
    formatted?;
    let image = Image::mount(path, work, false)?;
    fill(image.tree(), plan)?;
    rustix::fs::sync();
    Ok(image)
}

fn start_watcher(runner: &Runner, site: &Site<'_>) -> Result<Server, Trouble> {
    let home = site.home();
    let words: [&OsStr; 4] =
        ["journal".as_ref(), "run".as_ref(), "--home".as_ref(), home.as_os_str()];
    let watcher = runner.start(&words, "watcher")?;
    let began = clock::now();
    while status(site).is_err() {
        if began.elapsed() > START_MAX {
            return Err(Trouble::new("the watcher does not answer"));
        }
        clock::pause(Duration::from_millis(50));
    }
    Ok(watcher)
}

fn status(site: &Site<'_>) -> Result<Value, Trouble> {
    Ok(site.client(&["journal".as_ref(), "status".as_ref()])?.report)
}

fn cost(watcher: &Server, site: &Site<'_>) -> Result<WatcherCost, Trouble> {
    let state = status(site)?;
    Ok(WatcherCost {
        memory_bytes: machine::peak_memory_of(watcher.pid())?,
        cpu: machine::cpu_of(watcher.pid())?,
        reports: state["filesystems"][0]["reports"].as_u64().unwrap_or(0),
    })
}

/// The node, the server and the tree.
struct Place<'a> {
    site: &'a Site<'a>,
    server: &'a Server,
    tree: &'a Path,
}

impl Place<'_> {
    fn back_up(&self, options: &[&str]) -> Result<Sample, Trouble> {
        let mut words: Vec<&OsStr> = vec!["backup".as_ref(), self.tree.as_os_str()];
        words.extend(options.iter().map(OsStr::new));
        let sample = self.site.measured(self.server, &words)?;
        match sample.exit_code {
            0 => Ok(sample),
            code => Err(Trouble::new(format!("the backup ended with exit code {code}"))),
        }
    }

    /// Backs up by the journal. Fails if the backup has walked.
    fn by_journal(&self) -> Result<Sample, Trouble> {
        let sample = self.back_up(&[])?;
        let usage = &sample.report["journals"][0];
        match usage["used"].as_bool() {
            Some(true) => Ok(sample),
            _ => Err(Trouble::new(format!("the backup has not used the journal: {usage}"))),
        }
    }
}

/// Chooses `wanted` of the directories, in even distances. Only their paths are kept, because the
/// kernel counts the peak memory of the bench in the peaks of its programs.
fn choose(tree: &Path, directories: u64, wanted: u64) -> Result<Vec<PathBuf>, Trouble> {
    let distance = (directories / wanted.max(1)).max(1);
    let (mut chosen, mut seen) = (Vec::new(), 0_u64);
    let mut waiting = vec![tree.to_owned()];
    while let Some(directory) = waiting.pop() {
        let what = || format!("list {}", directory.display());
        for entry in fs::read_dir(&directory).while_doing(what)? {
            let entry = entry.while_doing(what)?;
            if entry.file_type().while_doing(what)?.is_dir() {
                waiting.push(entry.path());
            }
        }
        if seen.is_multiple_of(distance) && (chosen.len() as u64) < wanted {
            chosen.push(directory);
        }
        seen += 1;
    }
    Ok(chosen)
}

/// Appends a byte to one file in each of the directories.
fn change(directories: &[PathBuf]) -> Result<(), Trouble> {
    for directory in directories {
        let path = directory.join("changed");
        let what = || format!("write {}", path.display());
        let mut file = File::options().create(true).append(true).open(&path).while_doing(what)?;
        file.write_all(b"x").while_doing(what)?;
    }
    rustix::fs::sync();
    Ok(())
}

/// Makes, writes, renames and removes `files` files. Returns the number of files per second.
fn storm(folder: &Path, files: u64) -> Result<f64, Trouble> {
    process::check_interrupted()?;
    let what = || format!("make files in {}", folder.display());
    for number in 0..STORM_DIRECTORIES {
        fs::create_dir_all(folder.join(number.to_string())).while_doing(what)?;
    }
    let (done, wall) = clock::timed(|| {
        for number in 0..files {
            let at = |number: u64| folder.join((number % STORM_DIRECTORIES).to_string());
            let (one, other) = (at(number).join("one"), at(number + 1).join("other"));
            fs::write(&one, b"x")?;
            fs::rename(&one, &other)?;
            fs::remove_file(&other)?;
        }
        std::io::Result::Ok(())
    });
    done.while_doing(what)?;
    fs::remove_dir_all(folder).while_doing(what)?;
    Ok(float(files) / wall.as_secs_f64().max(f64::MIN_POSITIVE))
}

fn secs(samples: &[Sample]) -> Spread {
    Spread::of(samples.iter().map(|sample| sample.wall.as_secs_f64()))
}

fn cpu(samples: &[Sample]) -> Spread {
    Spread::of(samples.iter().map(|sample| sample.client_cpu.as_secs_f64()))
}

fn server_cpu(samples: &[Sample]) -> Spread {
    Spread::of(samples.iter().map(|sample| sample.server_cpu.as_secs_f64()))
}

fn memory(samples: &[Sample]) -> Spread {
    Spread::of(samples.iter().map(|sample| float(sample.client_memory_bytes) / MB))
}

fn text(results: &Results) -> String {
    let Results { plan, storms, watcher, .. } = results;
    let row = |name: &str, samples: &[Sample]| {
        vec![
            name.to_owned(),
            page::cell(secs(samples), 2),
            page::cell(cpu(samples), 2),
            page::cell(server_cpu(samples), 2),
            page::cell(memory(samples), 1),
        ]
    };
    let changed = format!("{} directories changed", results.changed);
    let rows = [
        row("nothing changed, walk", &results.unchanged_walk),
        row("nothing changed, by the journal", &results.unchanged_journal),
        row(&format!("{changed}, walk"), &results.changed_walk),
        row(&format!("{changed}, by the journal"), &results.changed_journal),
    ];
    let head = ["incremental", "wall, s", "client CPU, s", "server CPU, s", "client peak, MB"];
    let storm_rows = [
        vec!["without a watcher, before".to_owned(), format!("{:.0}", storms.before)],
        vec!["with the watcher".to_owned(), format!("{:.0}", storms.with)],
        vec!["without a watcher, after".to_owned(), format!("{:.0}", storms.after)],
    ];
    let others = other_cores(&all_samples(results));
    let busy = if others > OTHER_CORES_MAX {
        " The machine was busy: the figures are worse than on a machine of its own."
    } else {
        ""
    };
    format!(
        "{}\n- Tree: {} objects in {} directories, on ext4 in a sparse file. The first backup \
         took {:.1} s.\n- Load {} before and {} after. Other programs kept {others:.2} cores \
         busy.{busy}\n\n{}\nA storm makes, writes, closes, renames and removes files in one \
         thread:\n\n{}\nThe watcher took at most {:.1} MB of memory, and {:.2} s of processor \
         time for {} reports.\n",
        page::head("The journal"),
        plan.objects(),
        plan.directories,
        results.first.wall.as_secs_f64(),
        results.load.0,
        results.load.1,
        page::table(&head, &rows),
        page::table(&["storm", "files/s"], &storm_rows),
        float(watcher.memory_bytes) / MB,
        watcher.cpu.as_secs_f64(),
        watcher.reports,
    )
}

fn all_samples(results: &Results) -> Vec<&Sample> {
    let lists = [
        &results.unchanged_walk,
        &results.unchanged_journal,
        &results.changed_walk,
        &results.changed_journal,
    ];
    lists.into_iter().flatten().collect()
}

fn document(results: &Results) -> Value {
    let list = |samples: &[Sample]| samples.iter().map(Sample::json).collect::<Vec<_>>();
    json!({
        "objects": results.plan.objects(),
        "directories": results.plan.directories,
        "changed": results.changed,
        "first": results.first.json(),
        "unchanged_walk": list(&results.unchanged_walk),
        "unchanged_journal": list(&results.unchanged_journal),
        "changed_walk": list(&results.changed_walk),
        "changed_journal": list(&results.changed_journal),
        "storm_before_per_sec": results.storms.before,
        "storm_with_per_sec": results.storms.with,
        "storm_after_per_sec": results.storms.after,
        "watcher_memory_bytes": results.watcher.memory_bytes,
        "watcher_cpu_secs": results.watcher.cpu.as_secs_f64(),
        "watcher_reports": results.watcher.reports,
    })
}
