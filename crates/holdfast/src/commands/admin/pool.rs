//! `holdfast admin pool`: where the data lies, and where its copies do.

use client::admin::{Admin, PoolInfo, PutPoolRequest, TendPoolReply, TendPoolRequest, Work};
use serde::Serialize;

use crate::commands::{Context, DONE};
use crate::error::{CommandError, FAILED};
use crate::output;
use crate::quantity;
use crate::table::{self, Align};

/// List, add, change and remove storage pools; copy, drain and repair them
///
/// New data goes to the pool PRIMARY, and on to its next pool when it is full. A copy pool holds
/// a second copy of everything, which serves and repairs what the first one has lost.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Example:
  holdfast admin --server /srv/holdfast pool add OFFSITE file:///mnt/offsite/pool --copy
  holdfast admin --server /srv/holdfast pool add LARGE file:///mnt/large/pool
  holdfast admin --server /srv/holdfast pool set PRIMARY --next LARGE --high 80 --low 60")]
pub(crate) struct Args {
    #[command(subcommand)]
    command: PoolCommand,
}

#[derive(clap::Subcommand, Debug)]
enum PoolCommand {
    /// List all pools: how full they are, and what copy pools lack
    #[command(after_help = "Example:\n  holdfast admin --server /srv/holdfast pool list")]
    List,
    Add(AddArgs),
    Set(SetArgs),
    Remove(RemoveArgs),
    Copy(CopyArgs),
    Drain(DrainArgs),
    Repair(RepairArgs),
}

/// Make a pool in an empty or new folder
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Example:
  holdfast admin --server /srv/holdfast pool add OFFSITE file:///mnt/offsite/pool --copy")]
struct AddArgs {
    /// The pool: 1 to 64 letters, digits, '.', '-' or '_'
    #[arg(value_name = "NAME")]
    name: String,
    /// Where it is, as file:///FOLDER
    #[arg(value_name = "URL")]
    url: String,
    /// It holds second copies of all that primary pools hold
    #[arg(long)]
    copy: bool,
    #[command(flatten)]
    traits: Traits,
}

/// Change a pool
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Example:
  holdfast admin --server /srv/holdfast pool set PRIMARY --next LARGE --high 80 --low 60")]
struct SetArgs {
    /// The pool
    #[arg(value_name = "NAME")]
    name: String,
    /// Its disk was lost and an empty one is in its place; an audit then restores it from copies
    #[arg(long)]
    replaced: bool,
    #[command(flatten)]
    traits: Traits,
}

/// What of a pool may be chosen.
#[derive(clap::Args, Debug)]
struct Traits {
    /// The pool that takes what this one has no room for, and what is drained from it; '' for none
    #[arg(long, value_name = "POOL")]
    next: Option<String>,
    /// What it may hold, as in 500G; 0 for as much as its disk has room for
    #[arg(long, value_name = "SIZE", value_parser = size)]
    capacity: Option<u64>,
    /// Packs go to the next pool when so much of it is used [default of a new one: 90]
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(u32).range(0..=100))]
    high: Option<u32>,
    /// And until so much is used [default of a new one: 70]
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(u32).range(0..=100))]
    low: Option<u32>,
    /// Packs stay so many days, unless it would stay above its high mark
    #[arg(long, value_name = "DAYS", value_parser = clap::value_parser!(u32).range(0..=9999))]
    delay: Option<u32>,
}

fn size(text: &str) -> Result<u64, String> {
    quantity::parse_bytes(text, 1)
}

/// Remove a copy pool, or a primary one that holds nothing; its files stay where they are
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Example:
  holdfast admin --server /srv/holdfast pool remove OFFSITE")]
struct RemoveArgs {
    /// The pool
    #[arg(value_name = "NAME")]
    name: String,
}

/// Copy to copy pools what they lack, up to the last byte that was committed
///
/// The server does it by itself, for packs that are complete. The catalogue is copied too, unless
/// server.toml has no copies of it made.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Example:
  holdfast admin --server /srv/holdfast pool copy OFFSITE")]
struct CopyArgs {
    /// The copy pool; all of them unless given
    #[arg(value_name = "NAME")]
    name: Option<String>,
}

/// Move packs to the next pool, from the high mark down to the low one
///
/// The server does it by itself when the high mark is passed.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Example:
  holdfast admin --server /srv/holdfast pool drain LARGE --all")]
struct DrainArgs {
    /// The pool
    #[arg(value_name = "NAME")]
    name: String,
    /// Move everything
    #[arg(long)]
    all: bool,
}

/// Make damaged packs whole from what other pools have
///
/// An audit finds what is damaged and repairs it too; the server repairs by itself what a restore
/// has come upon.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Example:
  holdfast admin --server /srv/holdfast pool repair")]
struct RepairArgs {}

pub(super) fn run(
    args: Args,
    admin: &mut Admin,
    context: &mut Context,
) -> Result<u8, CommandError> {
    match args.command {
        PoolCommand::List => list(&admin.pools(None)?, context),
        PoolCommand::Add(args) => {
            let request = PutPoolRequest {
                name: args.name,
                is_new: true,
                url: args.url,
                is_copy: args.copy,
                ..args.traits.request()
            };
            let pool = admin.put_pool(request)?;
            tell(&pool, &format!("Pool {} is made.", pool.name), context);
        }
        PoolCommand::Set(args) => {
            let is_replaced = args.replaced;
            let request = PutPoolRequest { is_replaced, ..args.traits.request() };
            if request == PutPoolRequest::default() {
                let message = "say what to set: --next, --capacity, --high, --low, --delay or \
                               --replaced";
                return Err(CommandError::usage(message, "holdfast admin pool set"));
            }
            let pool = admin.put_pool(PutPoolRequest { name: args.name, ..request })?;
            tell(&pool, &format!("Pool {} is changed.", pool.name), context);
        }
        PoolCommand::Remove(args) => {
            let pool = admin.remove_pool(&args.name)?;
            tell(&pool, &format!("Pool {} is removed.", pool.name), context);
        }
        PoolCommand::Copy(args) => {
            let pool = args.name.unwrap_or_default();
            return tend(Work::Copy, pool, false, admin, context);
        }
        PoolCommand::Drain(args) => return tend(Work::Drain, args.name, args.all, admin, context),
        PoolCommand::Repair(RepairArgs {}) => {
            return tend(Work::Repair, String::new(), false, admin, context);
        }
    }
    Ok(DONE)
}

impl Traits {
    fn request(self) -> PutPoolRequest {
        PutPoolRequest {
            next: self.next,
            capacity_bytes: self.capacity,
            high_percent: self.high,
            low_percent: self.low,
            delay_days: self.delay,
            ..PutPoolRequest::default()
        }
    }
}

fn done(work: Work) -> &'static str {
    match work {
        Work::Copy => "copied",
        Work::Drain => "moved",
        Work::Repair => "repaired",
    }
}

fn tend(
    work: Work,
    pool: String,
    all: bool,
    admin: &mut Admin,
    context: &mut Context,
) -> Result<u8, CommandError> {
    let request = TendPoolRequest { work: work.into(), pool, all };
    let global = &context.global;
    let shows = !global.quiet && (global.progress || output::stderr_is_terminal());
    let outcome = admin.tend_pool(request, &mut |reply| {
        if shows {
            output::say(&so_far(reply, work));
        }
    })?;
    if context.output.is_json() {
        context.output.json(&TendDocument::new(&outcome));
    } else {
        context.output.text(&text(&outcome, work));
    }
    Ok(if outcome.failures.is_empty() { DONE } else { FAILED })
}

fn so_far(reply: &TendPoolReply, work: Work) -> String {
    format!(
        "{} of {} packs, {} of {} {}",
        quantity::count(reply.packs_done),
        quantity::count(reply.packs),
        quantity::bytes_with_unit(reply.bytes_done),
        quantity::bytes_with_unit(reply.bytes),
        done(work),
    )
}

fn text(outcome: &TendPoolReply, work: Work) -> String {
    let mut text = format!(
        "{} packs with {} are {}.\n",
        quantity::count(outcome.packs_done),
        quantity::bytes_with_unit(outcome.bytes_done),
        done(work)
    );
    for failure in &outcome.failures {
        let pack = failure.pack.to_string();
        text.push_str(&["  pack ", &pack, " stays: ", &failure.reason, "\n"].concat());
    }
    if !outcome.failures.is_empty() {
        text.push_str("'holdfast admin audit' names the versions that need them.\n");
    }
    text
}

/// `pool copy|drain|repair --json`.
#[derive(Serialize)]
struct TendDocument<'a> {
    packs: u64,
    bytes: u64,
    packs_done: u64,
    bytes_done: u64,
    failures: Vec<FailureDocument<'a>>,
}

#[derive(Serialize)]
struct FailureDocument<'a> {
    pack: u64,
    reason: &'a str,
}

impl<'a> TendDocument<'a> {
    fn new(outcome: &'a TendPoolReply) -> Self {
        let failures = outcome.failures.iter();
        Self {
            packs: outcome.packs,
            bytes: outcome.bytes,
            packs_done: outcome.packs_done,
            bytes_done: outcome.bytes_done,
            failures: failures
                .map(|failure| FailureDocument { pack: failure.pack, reason: &failure.reason })
                .collect(),
        }
    }
}

/// `pool list --json`, one a line.
#[derive(Serialize)]
struct PoolDocument<'a> {
    pool: &'a str,
    url: &'a str,
    copy: bool,
    available: bool,
    packs: u64,
    bytes: u64,
    bytes_max: u64,
    next: Option<&'a str>,
    capacity: Option<u64>,
    high_percent: u32,
    low_percent: u32,
    delay_days: u32,
    missing_packs: u64,
    missing_bytes: u64,
}

impl<'a> PoolDocument<'a> {
    fn new(pool: &'a PoolInfo) -> Self {
        Self {
            pool: &pool.name,
            url: &pool.url,
            copy: pool.is_copy,
            available: pool.is_there,
            packs: pool.packs,
            bytes: pool.bytes,
            bytes_max: pool.bytes_max,
            next: Some(pool.next.as_str()).filter(|next| !next.is_empty()),
            capacity: pool.capacity_bytes,
            high_percent: pool.high_percent,
            low_percent: pool.low_percent,
            delay_days: pool.delay_days,
            missing_packs: pool.missing_packs,
            missing_bytes: pool.missing_bytes,
        }
    }
}

fn tell(pool: &PoolInfo, text: &str, context: &mut Context) {
    if context.output.is_json() {
        context.output.json(&PoolDocument::new(pool));
    } else if !context.output.quiet {
        context.output.text(text);
    }
}

fn list(pools: &[PoolInfo], context: &mut Context) {
    if context.output.is_json() {
        pools.iter().for_each(|pool| context.output.json(&PoolDocument::new(pool)));
        return;
    }
    let columns = [
        ("Pool", Align::Left),
        ("Kind", Align::Left),
        ("Packs", Align::Right),
        ("Used", Align::Right),
        ("Of", Align::Right),
        ("Marks", Align::Left),
        ("Next", Align::Left),
        ("Lacks", Align::Right),
        ("Place", Align::Left),
    ];
    let rows: Vec<_> = pools.iter().map(row).collect();
    context.output.text(&table::render(columns, &rows));
}

fn row(pool: &PoolInfo) -> [String; 9] {
    let (used, of) = if pool.is_there {
        (quantity::bytes_with_unit(pool.bytes), quantity::bytes_with_unit(pool.bytes_max))
    } else {
        ("away".to_owned(), String::new())
    };
    [
        pool.name.clone(),
        if pool.is_copy { "copy" } else { "primary" }.to_owned(),
        quantity::count(pool.packs),
        used,
        of,
        if pool.next.is_empty() {
            String::new()
        } else {
            format!("{}/{} %", pool.high_percent, pool.low_percent)
        },
        pool.next.clone(),
        if pool.is_copy { quantity::bytes_with_unit(pool.missing_bytes) } else { String::new() },
        pool.url.clone(),
    ]
}
