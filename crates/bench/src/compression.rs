//! `bench compression`: sets of files of many sizes, over links of many rates, with each choice.
//!
//! ```text
//!   set:  files of one size, bytes of a real corpus, no content twice
//!     link:  the set, cut to what the link carries uncompressed in the time allowed
//!       round:  each choice in turn, another one first each time:
//!                 new server and node -> first backup through the link
//!   after:  in this process, compression with one thread and two,
//!           and what independent quanta lose against one stream
//! ```
//!
//! 1. All sets begin with the same bytes: they differ by the sizes of their files alone.
//! 2. Nothing deduplicates: a set has no content twice, and each backup has a new server.
//! 3. What the backups make goes at once: it would not fit otherwise. The work folder should be a
//!    tmpfs, where this costs the next one nothing.

mod alone;
mod contest;
mod corpus;
mod drawing;
mod sets;
mod text;

use std::path::{Path, PathBuf};

use crate::arguments::{Grammar, Line};
use crate::output;
use crate::page;
use crate::trouble::Trouble;
use contest::Order;
use sets::Kind;

pub(crate) const USAGE: &str = "\
bench compression [--set-bytes N] [--seconds-max N] [--rounds N] [--corpus DIR,..]
                  [--only SET,..] [--json] [--out DIR] [--work DIR]
  Backs up sets of files of 500 KB to 256 MB and of 1 to 16 KB over links of 10 Mbit/s, 1 Gbit/s
  and loopback, with no, fast, strong and automatic compression. Then measures in this process how
  compression scales with threads and what independent quanta lose. Writes compression.md and
  compression.svg.

  --set-bytes N    How large a set is [default: 2.5G]
  --seconds-max N  A set is cut to what the link carries uncompressed in so long [default: 20]
  --rounds N       Measure each so many times [default: 1]
  --corpus A,B     Folders that the bytes come from [default: ~/corpus/src, /usr/bin and /usr/lib
                   as far as they are there]
  --only A,B       These sets only: 500K, 1M, 2M, 4M, 8M, 16M, 32M, 64M, 128M, 256M, small
  --json           Write one JSON document with every sample
  --out DIR        Where the page and the drawing go [default: docs/performance]
  --work DIR       Where a set, servers and nodes go [default: /dev/shm where it has room, else
                   TMPDIR]
";

pub(crate) const GRAMMAR: Grammar = Grammar {
    flags: &["--json"],
    options: &["--set-bytes", "--seconds-max", "--rounds", "--corpus", "--only", "--out", "--work"],
};

const SET_BYTES_DEFAULT: u64 = 5 << 29;
const SECONDS_DEFAULT: usize = 20;
const SECONDS_MAX: usize = 86_400;
const ROUNDS_DEFAULT: usize = 1;
const ROUNDS_MAX: usize = 100;

pub(crate) fn run(line: &Line) -> Result<(), Trouble> {
    line.paths([])?;
    let set_bytes = line.bytes("--set-bytes", SET_BYTES_DEFAULT)?;
    let seconds = line.number("--seconds-max", SECONDS_DEFAULT, 1..=SECONDS_MAX)?;
    let order = Order {
        set_bytes,
        seconds: u64::try_from(seconds).unwrap_or(u64::MAX),
        rounds: line.number("--rounds", ROUNDS_DEFAULT, 1..=ROUNDS_MAX)?,
        kinds: kinds(&line.names("--only"))?,
        corpus: corpus(&line.names("--corpus")),
        work: line.path("--work").unwrap_or_else(|| work(set_bytes)),
    };
    let out = line.path("--out").unwrap_or_else(|| page::FOLDER.into());
    let contest = contest::measure(&order)?;
    let alone = alone::measure(&order.corpus, set_bytes)?;
    page::write(&out, "compression.svg", &drawing::draw(&contest)?)?;
    let text = text::page(&contest, &alone);
    page::write(&out, "compression.md", &text)?;
    let document = || text::document(&contest, &alone).to_string();
    output::result(&if line.flag("--json") { document() } else { text })
}

fn kinds(names: &[String]) -> Result<Vec<Kind>, Trouble> {
    if let Some(unknown) = names.iter().find(|name| Kind::named(name).is_none()) {
        return Err(Trouble::new(format!("there is no set {unknown}; see --help")));
    }
    if names.is_empty() {
        return Ok(sets::KINDS.to_vec());
    }
    Ok(names.iter().filter_map(|name| Kind::named(name)).collect())
}

fn corpus(names: &[String]) -> Vec<PathBuf> {
    if !names.is_empty() {
        return names.iter().map(PathBuf::from).collect();
    }
    let sources = std::env::home_dir().unwrap_or_default().join("corpus/src");
    let usual = [sources, "/usr/bin".into(), "/usr/lib".into()];
    usual.into_iter().filter(|folder| folder.is_dir()).collect()
}

/// Returns the memory's folder where a set and its pool leave half of it free.
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
        let unknown = kinds(&names(&["3M"])).unwrap_err();
        assert_eq!(unknown, Trouble::new("there is no set 3M; see --help"));
    }
}
