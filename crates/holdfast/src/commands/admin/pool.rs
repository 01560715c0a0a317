//! `holdfast admin pool`: the pools of data and of its copies.

use client::Recompression;
use client::admin::{
    Admin, CapacityChange, Collocation, NameChange, NewPool, Pool, PoolChange, PoolSettings,
    PoolTask,
};
use serde::Serialize;

use super::recompression::EffortCheck;
use super::tend::{self, Wording};
use crate::context::Context;
use crate::error::{CommandError, DONE, WARNED};
use crate::quantity;
use crate::table::{self, Align};
use crate::values;

/// List, add, change and remove storage pools; copy, drain, repair and lock them
///
/// New data goes to the pool PRIMARY, and to its next pool when PRIMARY is full. A copy pool holds
/// a second copy of all packs. It serves and repairs data that the first copy has lost.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Example:
  holdfast admin --server /srv/holdfast pool add OFFSITE file:///mnt/offsite/pool --copy
  holdfast admin --server /srv/holdfast pool add LARGE file:///mnt/large/pool
  holdfast admin --server /srv/holdfast pool set PRIMARY --next LARGE --high 80 --low 60
  holdfast admin --server /srv/holdfast pool add TAPE tape:vault --collocate group")]
pub(crate) struct Args {
    #[command(subcommand)]
    command: PoolCommand,
}

#[derive(clap::Subcommand, Debug)]
enum PoolCommand {
    /// List all pools, with their space in use and the data that copy pools lack
    #[command(after_help = "Example:\n  holdfast admin --server /srv/holdfast pool list")]
    List,
    Add(AddArgs),
    Set(SetArgs),
    Remove(RemoveArgs),
    Copy(CopyArgs),
    Drain(DrainArgs),
    Repair(RepairArgs),
    Lock(LockArgs),
}

/// Make a pool in an empty or new folder, or on the volumes of a library
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Example:
  holdfast admin --server /srv/holdfast pool add OFFSITE file:///mnt/offsite/pool --copy
  holdfast admin --server /srv/holdfast pool add TAPE tape:vault --collocate group")]
struct AddArgs {
    /// The pool: 1 to 64 letters, digits, '.', '-' or '_'
    #[arg(value_name = "NAME")]
    name: String,
    /// The place of the pool: file:///FOLDER, s3://BUCKET/PREFIX?endpoint=URL or tape:LIBRARY
    #[arg(value_name = "URL")]
    url: String,
    /// Make a copy pool, which holds second copies of all packs in primary pools
    #[arg(long)]
    copy: bool,
    #[command(flatten)]
    settings: SettingsArgs,
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
    /// Record that an empty disk has replaced the lost disk of the pool; an audit then restores the
    /// packs from copies
    #[arg(long)]
    replaced: bool,
    #[command(flatten)]
    settings: SettingsArgs,
}

/// Settings of a pool.
#[derive(clap::Args, Debug)]
struct SettingsArgs {
    /// The pool that takes drained packs, and new data when this pool is full; '' for none
    #[arg(long, value_name = "POOL")]
    next: Option<String>,
    /// Maximum size, as in 500G; 0 for no limit except its disk
    #[arg(long, value_name = "SIZE", value_parser = values::size)]
    capacity: Option<u64>,
    /// High mark: percent in use from which packs move to the next pool [default for a new pool:
    /// 90]
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(u32).range(0..=100))]
    high: Option<u32>,
    /// Low mark: percent in use down to which packs move to the next pool [default for a new pool:
    /// 70]
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(u32).range(0..=100))]
    low: Option<u32>,
    /// Number of days that packs stay, unless the pool would stay above its high mark
    #[arg(long, value_name = "DAYS", value_parser = clap::value_parser!(u32).range(0..=9999))]
    delay: Option<u32>,
    /// Nodes whose packs share volumes: no (all nodes), group (the nodes of a group), node (each
    /// node alone)
    #[arg(long, value_name = "no|group|node", value_enum)]
    collocate: Option<Collocate>,
    /// Percent of a volume that must be dead before the volume is emptied and reused; 100 for never
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(u32).range(1..=100))]
    reclaim: Option<u32>,
    /// Number of days that a volume without packs waits before it is written again
    #[arg(long, value_name = "DAYS", value_parser = clap::value_parser!(u32).range(0..=9999))]
    reuse_delay: Option<u32>,
}

/// Remove a copy pool, or an empty primary pool; its files stay where they are
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Example:
  holdfast admin --server /srv/holdfast pool remove OFFSITE")]
struct RemoveArgs {
    /// The pool
    #[arg(value_name = "NAME")]
    name: String,
}

/// Copy all data that copy pools lack to them, up to the last commit
///
/// The server does this by itself for sealed packs. It copies the catalogue too, unless
/// server.toml turns that off.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Example:
  holdfast admin --server /srv/holdfast pool copy OFFSITE")]
struct CopyArgs {
    /// The copy pool [default: all copy pools]
    #[arg(value_name = "NAME")]
    name: Option<String>,
}

/// Move packs to the next pool, from the high mark down to the low mark
///
/// The server does this by itself when the high mark is passed.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Example:
  holdfast admin --server /srv/holdfast pool drain LARGE --all
  holdfast admin --server /srv/holdfast pool drain PRIMARY --recompress 19")]
struct DrainArgs {
    /// The pool
    #[arg(value_name = "NAME")]
    name: String,
    /// Move everything
    #[arg(long)]
    all: bool,
    /// Compress harder what moves: standard, or a level of zstd from 1 to 19; data that would not
    /// become smaller stays as it is. The server writes it to new packs, for which the first pool
    /// needs room
    #[arg(long, value_name = "LEVEL", allow_hyphen_values = true)]
    recompress: Option<Recompression>,
}

/// Repair damaged packs from other pools
///
/// An audit finds damaged packs and repairs them too. The server itself repairs the packs that a
/// restore has found damaged.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Example:
  holdfast admin --server /srv/holdfast pool repair")]
struct RepairArgs {}

/// Lock the data of locked management classes in object stores
///
/// This concerns pools whose URLs have lock=governance or lock=compliance. Backups and archives
/// lock the data that they store, and the server checks all locks once a day. Use this command
/// after locking a class.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Example:
  holdfast admin --server /srv/holdfast pool lock")]
struct LockArgs {}

pub(super) fn run(
    args: Args,
    admin: &mut Admin,
    context: &mut Context,
) -> Result<u8, CommandError> {
    match args.command {
        PoolCommand::List => return list(admin, context),
        PoolCommand::Add(args) => {
            let settings = args.settings.into();
            let pool = NewPool { name: args.name, url: args.url, is_copy: args.copy, settings };
            let pool = admin.add_pool(pool)?;
            tell(&pool, &format!("Pool {} is created.", pool.name), context);
        }
        PoolCommand::Set(args) => {
            let settings = args.settings.into();
            let change = PoolChange { is_replaced: args.replaced, settings };
            if change == PoolChange::default() {
                let message = "give a setting: --next, --capacity, --high, --low, --delay, \
                               --collocate, --reclaim, --reuse-delay or --replaced";
                return Err(CommandError::usage(message, "holdfast admin pool set"));
            }
            let pool = admin.set_pool(args.name, change)?;
            tell(&pool, &format!("Pool {} is changed.", pool.name), context);
        }
        PoolCommand::Remove(args) => {
            let pool = admin.remove_pool(&args.name)?;
            tell(&pool, &format!("Pool {} is removed.", pool.name), context);
        }
        PoolCommand::Copy(args) => {
            let task = PoolTask::Copy { pool: args.name };
            return tend(task, &tend::COPIED, admin, context);
        }
        PoolCommand::Drain(args) => {
            let DrainArgs { name: pool, all, recompress } = args;
            let task = PoolTask::Drain { pool, all, recompress };
            let mut check = EffortCheck::new(recompress);
            let code = tend::run(&tend::MOVED, context, |visit| {
                let outcome = admin.tend_pools(task, &mut |state| {
                    check.see(state.recompression.as_ref());
                    visit(state);
                })?;
                check.see(outcome.recompression.as_ref());
                Ok(outcome)
            })?;
            return Ok(check.code(code));
        }
        PoolCommand::Repair(RepairArgs {}) => {
            return tend(PoolTask::Repair, &tend::REPAIRED, admin, context);
        }
        PoolCommand::Lock(LockArgs {}) => {
            return tend(PoolTask::Lock, &tend::LOCKED, admin, context);
        }
    }
    Ok(DONE)
}

#[derive(clap::ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
enum Collocate {
    No,
    Group,
    Node,
}

impl From<Collocate> for Collocation {
    fn from(collocate: Collocate) -> Self {
        match collocate {
            Collocate::No => Self::No,
            Collocate::Group => Self::Group,
            Collocate::Node => Self::Node,
        }
    }
}

impl From<SettingsArgs> for PoolSettings {
    fn from(args: SettingsArgs) -> Self {
        Self {
            next: args.next.map(NameChange::from),
            capacity: args.capacity.map(CapacityChange::from),
            high_percent: args.high,
            low_percent: args.low,
            delay_days: args.delay,
            collocation: args.collocate.map(Collocation::from),
            reclaim_percent: args.reclaim,
            reuse_delay_days: args.reuse_delay,
        }
    }
}

fn tend(
    task: PoolTask,
    wording: &Wording,
    admin: &mut Admin,
    context: &mut Context,
) -> Result<u8, CommandError> {
    tend::run(wording, context, |visit| admin.tend_pools(task, visit))
}

/// `pool list --json`, one document per line.
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
    disk_errors: u64,
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    tape: Option<TapeDocument<'a>>,
}

/// Additional keys of a pool on volumes.
#[derive(Serialize)]
struct TapeDocument<'a> {
    library: &'a str,
    volumes: u64,
    collocate: &'a str,
    reclaim_percent: u32,
    reuse_delay_days: u32,
}

impl<'a> PoolDocument<'a> {
    fn new(pool: &'a Pool) -> Self {
        let tape = pool.volume_use.as_ref().map(|volumes| TapeDocument {
            library: &volumes.library,
            volumes: volumes.volumes,
            collocate: volumes.collocation.word(),
            reclaim_percent: volumes.reclaim_percent,
            reuse_delay_days: volumes.reuse_delay_days,
        });
        Self {
            pool: &pool.name,
            url: &pool.url,
            copy: pool.is_copy,
            available: pool.is_available,
            packs: pool.packs,
            bytes: pool.bytes,
            bytes_max: pool.bytes_max.unwrap_or(0),
            next: pool.next.as_deref(),
            capacity: pool.capacity_bytes,
            high_percent: pool.high_percent,
            low_percent: pool.low_percent,
            delay_days: pool.delay_days,
            missing_packs: pool.missing_packs,
            missing_bytes: pool.missing_bytes,
            disk_errors: pool.disk_errors,
            tape,
        }
    }
}

fn tell(pool: &Pool, text: &str, context: &mut Context) {
    if context.output.is_json() {
        context.output.json(&PoolDocument::new(pool));
    } else if !context.output.quiet {
        context.output.text(text);
    }
}

/// Lists the pools. Ends with a warning if the server refuses new data.
fn list(admin: &mut Admin, context: &mut Context) -> Result<u8, CommandError> {
    let pools = admin.pools(None)?;
    let refuses_data = admin.servers()?.iter().any(|server| server.health.refuses_data);
    if context.output.is_json() {
        pools.iter().for_each(|pool| context.output.json(&PoolDocument::new(pool)));
    } else {
        context.output.text(&pools_table(&pools));
        if refuses_data {
            context
                .output
                .text("The server refuses new data, because no pool has room for it.");
        }
    }
    Ok(if refuses_data { WARNED } else { DONE })
}

fn pools_table(pools: &[Pool]) -> String {
    let columns = [
        ("Pool", Align::Left),
        ("Kind", Align::Left),
        ("Packs", Align::Right),
        ("Used", Align::Right),
        ("Of", Align::Right),
        ("Volumes", Align::Right),
        ("Marks", Align::Left),
        ("Next", Align::Left),
        ("Lacks", Align::Right),
        ("Place", Align::Left),
    ];
    let mut text = table::render(columns, &pools.iter().map(row).collect::<Vec<_>>());
    for pool in pools.iter().filter(|pool| pool.disk_errors > 0) {
        let errors = quantity::counted(pool.disk_errors, "disk error");
        let advice = " since the server started; its log names the files.\n";
        text.push_str(&["Pool ", &pool.name, " has had ", &errors, advice].concat());
    }
    text
}

fn row(pool: &Pool) -> [String; 10] {
    // The room on volumes that are not written yet, and the room in an object store, is not known.
    let of = pool.bytes_max.map(quantity::bytes_with_unit).unwrap_or_default();
    let (used, of) = if pool.is_available {
        (quantity::bytes_with_unit(pool.bytes), of)
    } else {
        ("away".to_owned(), String::new())
    };
    let marks = |_: &String| format!("{}/{} %", pool.high_percent, pool.low_percent);
    let volumes = pool.volume_use.as_ref();
    [
        pool.name.clone(),
        if pool.is_copy { "copy" } else { "primary" }.to_owned(),
        quantity::count(pool.packs),
        used,
        of,
        volumes.map(|volumes| quantity::count(volumes.volumes)).unwrap_or_default(),
        pool.next.as_ref().map(marks).unwrap_or_default(),
        pool.next.clone().unwrap_or_default(),
        if pool.is_copy { quantity::bytes_with_unit(pool.missing_bytes) } else { String::new() },
        volumes.map_or_else(|| pool.url.clone(), |volumes| format!("tape:{}", volumes.library)),
    ]
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;
    use client::admin::VolumeUse;

    use super::*;

    /// A program with the options of `pool drain` only.
    #[derive(clap::Parser)]
    struct Program {
        #[command(flatten)]
        args: DrainArgs,
    }

    #[test]
    fn a_drain_takes_an_effort_of_recompression() {
        let parse = |words: &[&str]| {
            let words = ["drain", "PRIMARY"].iter().chain(words);
            Program::try_parse_from(words).map(|parsed| parsed.args.recompress)
        };
        assert_eq!(parse(&[]).ok().flatten(), None);
        let parsed = parse(&["--all", "--recompress", "19"]).expect("is allowed");
        assert_eq!(parsed.and_then(Recompression::level), Some(19));
        for effort in ["0", "none", "-1", "20"] {
            let refused = parse(&["--recompress", effort]).expect_err("is refused").to_string();
            assert!(refused.contains("from 1 to 19"), "{refused}");
        }
    }

    #[test]
    fn a_pool_on_volumes_shows_their_number() {
        let folder = Pool {
            name: "PRIMARY".to_owned(),
            url: "file:///srv/pool".to_owned(),
            is_copy: false,
            is_available: true,
            next: Some("TAPE".to_owned()),
            capacity_bytes: None,
            high_percent: 90,
            low_percent: 70,
            delay_days: 0,
            packs: 1_234,
            bytes: 3 << 30,
            bytes_max: Some(1 << 40),
            missing_packs: 0,
            missing_bytes: 0,
            disk_errors: 0,
            volume_use: None,
        };
        let tape = Pool {
            name: "TAPE".to_owned(),
            url: "tape:vault".to_owned(),
            next: None,
            packs: 20,
            bytes: 1 << 30,
            bytes_max: None,
            volume_use: Some(VolumeUse {
                library: "vault".to_owned(),
                volumes: 7,
                collocation: Collocation::Group,
                reclaim_percent: 60,
                reuse_delay_days: 0,
            }),
            ..folder
        };
        insta::assert_snapshot!(pools_table(&[folder.clone(), tape.clone()]), @r"
        Pool     Kind     Packs     Used       Of  Volumes  Marks    Next  Lacks  Place
        PRIMARY  primary  1,234  3.00 GB  1.00 TB           90/70 %  TAPE         file:///srv/pool
        TAPE     primary     20  1.00 GB                 7                        tape:vault
        ");
        let failing = Pool { disk_errors: 2, ..folder.clone() };
        let text = pools_table(&[failing, tape.clone()]);
        assert!(text.contains("Pool PRIMARY has had 2 disk errors since"), "{text}");
        assert!(!text.contains("Pool TAPE has had"), "{text}");
        let document =
            |pool: &Pool| serde_json::to_value(PoolDocument::new(pool)).expect("a document");
        assert_eq!(document(&folder).get("library"), None);
        assert_eq!(document(&tape)["library"], "vault");
        assert_eq!(document(&tape)["volumes"], 7);
    }
}
