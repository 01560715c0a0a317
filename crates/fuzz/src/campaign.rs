//! A campaign against one target: kept inputs and seeds first, then changed seeds.
//!
//! Without settings, a campaign is short and the same in each run, so that it is a test.
//! `HOLDFAST_CASES` sets the number of changed seeds. `HOLDFAST_FUZZ_SECS` sets the time instead;
//! such a campaign begins with a random number and reports the number of its cases.

use std::collections::hash_map::DefaultHasher;
use std::fs;
use std::hash::{Hash as _, Hasher as _};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::Mutator;

/// Number of changed seeds, unless a variable says otherwise.
const CASES: u64 = 3000;
/// First number of a campaign of limited cases.
const SEED: u64 = 1;
/// Number of cases between two looks at the clock.
const CASES_BETWEEN_LOOKS: u64 = 32;

/// The limits of a campaign.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Campaign {
    /// So many changed seeds, the same in each run.
    Cases(u64),
    /// As many as fit into this time.
    Time(Duration),
}

impl Campaign {
    /// Reads the limits from the environment. `cases` is the number of cases without a setting.
    pub fn from_environment(cases: u64) -> Self {
        let number = |name| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
        match number("HOLDFAST_FUZZ_SECS") {
            Some(secs) => Self::Time(Duration::from_secs(secs)),
            None => Self::Cases(number("HOLDFAST_CASES").unwrap_or(cases)),
        }
    }

    /// Calls `case` until the limit. Returns the number of the calls.
    pub fn run(self, mut case: impl FnMut(&mut Mutator)) -> u64 {
        let began = sys::clock::monotonic();
        let seed = match self {
            Self::Cases(_) => SEED,
            Self::Time(_) => u64::from_le_bytes(sys::entropy::bytes()),
        };
        let mut mutator = Mutator::new(seed);
        let mut count = 0;
        loop {
            let is_over = match self {
                Self::Cases(cases) => count >= cases,
                Self::Time(time) => {
                    count.is_multiple_of(CASES_BETWEEN_LOOKS) && began.elapsed() >= time
                }
            };
            if is_over {
                return count;
            }
            case(&mut mutator);
            count += 1;
        }
    }
}

/// Runs the campaign that the environment asks for: `check` gets the inputs that are kept for the
/// target `name`, then `seeds`, then changed seeds. Returns the number of changed seeds.
///
/// Panics if `check` panics. The message names a file with the input.
pub fn exercise(name: &str, seeds: &[Vec<u8>], check: &dyn Fn(&[u8])) -> u64 {
    seeds.iter().for_each(|seed| attempt(name, seed, check));
    let pool = [seeds, &kept_inputs(name)].concat();
    let campaign = Campaign::from_environment(CASES);
    exercise_with(name, campaign, check, |mutator| mutator.mutant(&pool))
}

/// Runs `campaign` as [`exercise`] does, with the inputs that `next` makes.
pub fn exercise_with(
    name: &str,
    campaign: Campaign,
    check: &dyn Fn(&[u8]),
    mut next: impl FnMut(&mut Mutator) -> Vec<u8>,
) -> u64 {
    kept_inputs(name).iter().for_each(|input| attempt(name, input, check));
    campaign.run(|mutator| attempt(name, &next(mutator), check))
}

/// Returns the inputs in the folder of the target `name`.
pub fn kept_inputs(name: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(name);
    let Ok(files) = fs::read_dir(&folder) else { return Vec::new() };
    let mut paths: Vec<PathBuf> = files.flatten().map(|file| file.path()).collect();
    paths.sort_unstable();
    paths
        .iter()
        .map(|path| fs::read(path).expect("a kept input is a file"))
        .collect()
}

fn attempt(name: &str, input: &[u8], check: &dyn Fn(&[u8])) {
    if catch_unwind(AssertUnwindSafe(|| check(input))).is_err() {
        let path = found_path(name, input);
        fs::write(&path, input).expect("a found input is kept");
        panic!(
            "the target {name} fails at the input in {}; correct the decoder, and keep the input \
             in crates/fuzz/corpus/{name}",
            path.display()
        );
    }
}

fn found_path(name: &str, input: &[u8]) -> PathBuf {
    let mut hasher = DefaultHasher::new();
    input.hash(&mut hasher);
    std::env::temp_dir().join(format!("holdfast-fuzz-{name}-{:016x}", hasher.finish()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_names_the_file_with_the_input() {
        let check = |input: &[u8]| assert!(!input.contains(&b'x'), "a planted fault");
        let failure = catch_unwind(|| attempt("planted", b"axb", &check));
        let message = failure.expect_err("the fault is found");
        let message = message.downcast_ref::<String>().expect("a message");
        assert!(message.contains("holdfast-fuzz-planted-"), "{message}");
        let path = found_path("planted", b"axb");
        assert_eq!(fs::read(&path).expect("it was written"), b"axb");
        fs::remove_file(path).expect("it was written");
        attempt("planted", b"ab", &check);
    }

    #[test]
    fn a_planted_fault_is_found_among_the_changed_seeds() {
        let mut hits = 0;
        Campaign::Cases(CASES).run(|mutator| {
            let input = mutator.mutant(&[b"a number: 17, and more".to_vec()]);
            hits += u32::from(input.starts_with(b"a number: ") && !input.contains(&b'7'));
        });
        assert!(hits > 0, "no change reached the number");
    }
}
