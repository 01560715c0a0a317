//! `holdfast admin pool`: where the data lies, and where its copies do.

use client::admin::{Admin, PoolInfo, PutPoolRequest, TendPoolRequest, Work};
use serde::Serialize;

use super::tend::{self, Telling};
use crate::commands::{Context, DONE};
use crate::error::CommandError;
use crate::quantity;
use crate::table::{self, Align};

/// List, add, change and remove storage pools; copy, drain, repair and lock them
///
/// New data goes to the pool PRIMARY, and on to its next pool when it is full. A copy pool holds
/// a second copy of everything, which serves and repairs what the first one has lost.
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
    /// List all pools: how full they are, and what copy pools lack
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
    /// Where it is: file:///FOLDER, s3://BUCKET/PREFIX?endpoint=URL or tape:LIBRARY
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
    /// Whose packs share volumes: everybody's, those of a node's group, or those of one node
    #[arg(long, value_name = "no|group|node", value_parser = ["no", "group", "node"])]
    collocate: Option<String>,
    /// Volumes of which so much is dead are emptied, to be written again; 100 for never
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(u32).range(1..=100))]
    reclaim: Option<u32>,
    /// A volume is written again so many days after the last pack left it
    #[arg(long, value_name = "DAYS", value_parser = clap::value_parser!(u32).range(0..=9999))]
    reuse_delay: Option<u32>,
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

/// Have object stores lock what locked classes of policy hold
///
/// For pools whose URLs have lock=governance or lock=compliance. Backups and archives lock what
/// they store, and the server looks at everything once a day: this is for after a class was
/// locked.
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
                let message = "say what to set: --next, --capacity, --high, --low, --delay, \
                               --collocate, --reclaim, --reuse-delay or --replaced";
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
            let request = TendPoolRequest { work: Work::Copy.into(), pool, all: false };
            return tend(request, &tend::COPIED, admin, context);
        }
        PoolCommand::Drain(args) => {
            let DrainArgs { name: pool, all } = args;
            let request = TendPoolRequest { work: Work::Drain.into(), pool, all };
            return tend(request, &tend::MOVED, admin, context);
        }
        PoolCommand::Repair(RepairArgs {}) => {
            let request = TendPoolRequest { work: Work::Repair.into(), ..Default::default() };
            return tend(request, &tend::REPAIRED, admin, context);
        }
        PoolCommand::Lock(LockArgs {}) => {
            let request = TendPoolRequest { work: Work::Lock.into(), ..Default::default() };
            return tend(request, &tend::LOCKED, admin, context);
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
            collocation: self.collocate,
            reclaim_percent: self.reclaim,
            reuse_delay_days: self.reuse_delay,
            ..PutPoolRequest::default()
        }
    }
}

fn tend(
    request: TendPoolRequest,
    telling: &Telling,
    admin: &mut Admin,
    context: &mut Context,
) -> Result<u8, CommandError> {
    tend::run(telling, context, |visit| admin.tend_pool(request, visit))
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
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    tape: Option<TapeDocument<'a>>,
}

/// What a pool on volumes has beside.
#[derive(Serialize)]
struct TapeDocument<'a> {
    library: &'a str,
    volumes: u32,
    collocate: &'a str,
    reclaim_percent: u32,
    reuse_delay_days: u32,
}

impl<'a> PoolDocument<'a> {
    fn new(pool: &'a PoolInfo) -> Self {
        let tape = is_on_volumes(pool).then(|| TapeDocument {
            library: &pool.library,
            volumes: pool.volumes,
            collocate: &pool.collocation,
            reclaim_percent: pool.reclaim_percent,
            reuse_delay_days: pool.reuse_delay_days,
        });
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
            tape,
        }
    }
}

fn is_on_volumes(pool: &PoolInfo) -> bool {
    !pool.library.is_empty()
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
    context.output.text(&pools_table(pools));
}

fn pools_table(pools: &[PoolInfo]) -> String {
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
    table::render(columns, &pools.iter().map(row).collect::<Vec<_>>())
}

fn row(pool: &PoolInfo) -> [String; 10] {
    let of = match pool.bytes_max {
        // Nobody knows what the volumes that are not written yet, or an object store, will take.
        0 => String::new(),
        bytes => quantity::bytes_with_unit(bytes),
    };
    let (used, of) = if pool.is_there {
        (quantity::bytes_with_unit(pool.bytes), of)
    } else {
        ("away".to_owned(), String::new())
    };
    let tape = is_on_volumes(pool);
    [
        pool.name.clone(),
        if pool.is_copy { "copy" } else { "primary" }.to_owned(),
        quantity::count(pool.packs),
        used,
        of,
        if tape { quantity::count(pool.volumes.into()) } else { String::new() },
        if pool.next.is_empty() {
            String::new()
        } else {
            format!("{}/{} %", pool.high_percent, pool.low_percent)
        },
        pool.next.clone(),
        if pool.is_copy { quantity::bytes_with_unit(pool.missing_bytes) } else { String::new() },
        if tape { format!("tape:{}", pool.library) } else { pool.url.clone() },
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pools_on_volumes_say_how_many() {
        let folder = PoolInfo {
            name: "PRIMARY".to_owned(),
            url: "file:///srv/pool".to_owned(),
            is_there: true,
            packs: 1_234,
            bytes: 3 << 30,
            bytes_max: 1 << 40,
            next: "TAPE".to_owned(),
            high_percent: 90,
            low_percent: 70,
            ..PoolInfo::default()
        };
        let tape = PoolInfo {
            name: "TAPE".to_owned(),
            url: "tape:vault".to_owned(),
            is_there: true,
            packs: 20,
            bytes: 1 << 30,
            library: "vault".to_owned(),
            collocation: "group".to_owned(),
            reclaim_percent: 60,
            volumes: 7,
            ..PoolInfo::default()
        };
        insta::assert_snapshot!(pools_table(&[folder.clone(), tape.clone()]), @r"
        Pool     Kind     Packs     Used       Of  Volumes  Marks    Next  Lacks  Place
        PRIMARY  primary  1,234  3.00 GB  1.00 TB           90/70 %  TAPE         file:///srv/pool
        TAPE     primary     20  1.00 GB                 7                        tape:vault
        ");
        let document =
            |pool: &PoolInfo| serde_json::to_value(PoolDocument::new(pool)).expect("a document");
        assert_eq!(document(&folder).get("library"), None);
        assert_eq!(document(&tape)["library"], "vault");
        assert_eq!(document(&tape)["volumes"], 7);
    }
}
