//! `bench compression`: sets of files of many sizes, over links of many rates, with each choice of
//! compression.
//!
//! ```text
//!   set:  files of one size, bytes of a real corpus, no content twice
//!     link:  the set, cut to the size that the link carries uncompressed in the allowed time
//!       round:  each choice in turn, beginning with another choice in each round:
//!                 new server and node -> first backup through the link -> restore
//!   after:  in this process, compression with one thread, two and all,
//!           by the GPU alone if there is one,
//!           and the loss of independent quanta compared with one stream
//! ```
//!
//! 1. All sets begin with the same bytes. They differ only in the sizes of their files.
//! 2. Nothing is deduplicated: no content occurs twice in a set, and each backup has a new server.
//! 3. The files of a backup are deleted right after it, because all of them together would not fit.
//!    The work folder should be in a tmpfs, where deleting does not slow down the next backup.

mod alone;
mod contest;
mod corpus;
mod drawing;
mod sets;
mod text;

use std::path::{Path, PathBuf};

use crate::arguments::{PageArgs, number, size};
use crate::output;
use crate::page;
use crate::trouble::Trouble;
use contest::{Order, Road};
use sets::Kind;

/// Back up and restore sets of files of many sizes over links of many rates, by each means
///
/// The files have 500 KB to 256 MB, and in one set 1 to 16 KB. The links are loopback, 1 Gbit/s and
/// 10 Mbit/s. The means are none, one thread, all threads, a lighter and a stronger compression, a
/// GPU if there is one, and the automatic choice. Then measures in this process how compression
/// scales with threads, what the GPU does alone, and the loss because quanta are compressed
/// independently. Writes all of compression.md, with what it explains, and compression.svg.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// Size of a set
    #[arg(long, value_name = "SIZE", default_value = "2.5G", value_parser = size)]
    set_bytes: u64,
    /// Maximum number of seconds that a link needs for an uncompressed set; a larger set is cut
    #[arg(long, value_name = "N")]
    #[arg(default_value_t = SECONDS_DEFAULT, value_parser = number(1..=SECONDS_MAX))]
    seconds_max: usize,
    /// Number of measurements of each combination
    #[arg(long, value_name = "N")]
    #[arg(default_value_t = ROUNDS_DEFAULT, value_parser = number(1..=ROUNDS_MAX))]
    rounds: usize,
    /// Folders whose files provide the bytes [default: ~/corpus/src, /usr/bin and /usr/lib, if they
    /// exist]
    #[arg(long, value_name = "DIR", value_delimiter = ',')]
    corpus: Vec<String>,
    /// Sets to measure: 500K, 1M, 2M, 4M, 8M, 16M, 32M, 64M, 128M, 256M, small [default: all]
    #[arg(long, value_name = "SET", value_delimiter = ',')]
    only: Vec<String>,
    /// Links to measure: loopback, 1 Gbit/s, 10 Mbit/s [default: all]
    #[arg(long, value_name = "LINK", value_delimiter = ',')]
    links: Vec<String>,
    /// Leave out the measurements of compression alone
    #[arg(long)]
    backups_only: bool,
    /// File of nvCOMP, by which a GPU compresses [default: where the system's loader finds it]
    #[arg(long, value_name = "FILE")]
    nvcomp: Option<PathBuf>,
    #[command(flatten)]
    page: PageArgs,
    /// Folder for a set, servers and nodes [default: /dev/shm if it has room, otherwise TMPDIR]
    #[arg(long, value_name = "DIR")]
    work: Option<PathBuf>,
}

const SECONDS_DEFAULT: usize = 20;
const SECONDS_MAX: usize = 86_400;
const ROUNDS_DEFAULT: usize = 1;
const ROUNDS_MAX: usize = 100;

pub(crate) fn run(args: &Args) -> Result<(), Trouble> {
    let began = sys::clock::monotonic();
    let set_bytes = args.set_bytes;
    let order = Order {
        set_bytes,
        seconds: u64::try_from(args.seconds_max).unwrap_or(u64::MAX),
        rounds: args.rounds,
        kinds: kinds(&args.only)?,
        roads: roads(&args.links)?,
        corpus: corpus_folders(&args.corpus),
        work: args.work.clone().unwrap_or_else(|| work(set_bytes)),
        nvcomp: args.nvcomp.clone(),
    };
    let contest = contest::measure(&order)?;
    let alone = match args.backups_only {
        true => None,
        false => Some(alone::measure(&order.corpus, set_bytes, order.nvcomp.as_deref())?),
    };
    page::write(&args.page.out, "compression.svg", &drawing::draw(&contest)?)?;
    let text = text::page(&contest, alone.as_ref(), began.elapsed());
    page::write(&args.page.out, "compression.md", &text)?;
    let document = || text::document(&contest, alone.as_ref()).to_string();
    output::result(&if args.page.json { document() } else { text })
}

fn kinds(names: &[String]) -> Result<Vec<Kind>, Trouble> {
    if let Some(unknown) = names.iter().find(|name| Kind::named(name).is_none()) {
        return Err(Trouble::new(format!("there is no set {unknown}: see --help for the sets")));
    }
    if names.is_empty() {
        return Ok(sets::KINDS.to_vec());
    }
    Ok(names.iter().filter_map(|name| Kind::named(name)).collect())
}

fn roads(names: &[String]) -> Result<Vec<Road>, Trouble> {
    let named = |name: &String| contest::ROADS.iter().find(|road| road.name == name).copied();
    if let Some(unknown) = names.iter().find(|name| named(name).is_none()) {
        return Err(Trouble::new(format!("there is no link {unknown}: see --help for the links")));
    }
    if names.is_empty() {
        return Ok(contest::ROADS.to_vec());
    }
    Ok(names.iter().filter_map(named).collect())
}

fn corpus_folders(names: &[String]) -> Vec<PathBuf> {
    if !names.is_empty() {
        return names.iter().map(PathBuf::from).collect();
    }
    let sources = std::env::home_dir().unwrap_or_default().join("corpus/src");
    let usual = [sources, "/usr/bin".into(), "/usr/lib".into()];
    usual.into_iter().filter(|folder| folder.is_dir()).collect()
}

/// Returns /dev/shm if a set and its pool leave at least half of its free space; otherwise TMPDIR.
fn work(set_bytes: u64) -> PathBuf {
    let memory = Path::new("/dev/shm");
    let has_room = sys::durable::free_bytes(memory).is_ok_and(|free| set_bytes < free / 4);
    if has_room { memory.into() } else { std::env::temp_dir() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_are_asked_for_by_name() {
        let names = |words: &[&str]| words.iter().map(|&word| word.to_owned()).collect::<Vec<_>>();
        assert_eq!(kinds(&[]).unwrap().len(), sets::KINDS.len());
        let some: Vec<_> = kinds(&names(&["small", "1M"])).unwrap();
        assert_eq!(some.iter().map(|kind| kind.name).collect::<Vec<_>>(), ["small", "1M"]);
        assert_eq!(roads(&names(&["loopback"])).unwrap(), [contest::ROADS[0]]);
        assert!(roads(&names(&["2 Gbit/s"])).is_err());
        let unknown = kinds(&names(&["3M"])).unwrap_err();
        assert_eq!(unknown, Trouble::new("there is no set 3M: see --help for the sets"));
    }
}
