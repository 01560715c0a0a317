//! The shape of a tree to make. It depends only on the numbers of objects and on a seed.
//!
//! A [`Plan`] has the number of directories and files in and below one directory. A plan is divided
//! into the directory's own files and the plans of its subdirectories, until a plan has only one
//! directory. Each division keeps the numbers exactly, so that the tree has the requested numbers.
//!
//! Real trees are uneven. So the shares of subdirectories in directories and files are random: some
//! directories are empty, and some have hundreds of files.

use e2e::nasty::Random;

/// Minimum number of subdirectories of one directory.
const CHILDREN_MIN: u32 = 2;
/// Maximum number of subdirectories of one directory.
const CHILDREN_MAX: u32 = 15;

/// One file in this number of files has content. The others are empty.
const FILLED_ONE_IN: u32 = 20;
const CONTENT_BYTES_MAX: u32 = 100;

const WORDS: [&str; 24] = [
    "report", "invoice", "photo", "draft", "summary", "index", "module", "test", "data", "notes",
    "budget", "letter", "sample", "config", "record", "figure", "table", "source", "result",
    "image", "message", "archive", "plan", "log",
];

const ENDINGS: [&str; 12] =
    ["txt", "c", "h", "py", "jpg", "pdf", "json", "html", "xml", "csv", "md", "o"];

/// A directory to make, with everything below it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Plan {
    /// Number of directories, including this directory.
    pub(crate) directories: u64,
    pub(crate) files: u64,
    pub(crate) seed: u64,
}

/// Contents of a directory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Division {
    pub(crate) own_files: u64,
    pub(crate) children: Vec<Plan>,
}

impl Plan {
    pub(crate) fn objects(&self) -> u64 {
        self.directories + self.files
    }

    /// Divides the plan into the directory's own files and its subdirectories.
    pub(crate) fn divide(&self) -> Division {
        let below = self.directories - 1;
        if below == 0 {
            return Division { own_files: self.files, children: Vec::new() };
        }
        let mut random = Random::new(self.seed, b"directory");
        let wanted = CHILDREN_MIN + random.below(CHILDREN_MAX - CHILDREN_MIN + 1);
        let count = u64::from(wanted).min(below);
        // The number is less than twice the average of a directory, and there are at least two
        // directories. So there are enough files.
        let own_files = self.files * u64::from(random.below(200)) / 100 / self.directories;
        let weights: Vec<u64> = (0..count).map(|_| u64::from(1 + random.below(100))).collect();
        let directories: Vec<u64> =
            share(below - count, &weights).into_iter().map(|share| share + 1).collect();
        let weights: Vec<u64> = directories
            .iter()
            .map(|directories| directories * u64::from(20 + random.below(160)))
            .collect();
        let files = share(self.files - own_files, &weights);
        let children = directories.into_iter().zip(files);
        let children = children
            .map(|(directories, files)| Self { directories, files, seed: random.word() })
            .collect();
        Division { own_files, children }
    }
}

/// Divides `total` into parts in proportion to `weights`. The parts add up to `total`.
fn share(total: u64, weights: &[u64]) -> Vec<u64> {
    let sum: u128 = weights.iter().map(|weight| u128::from(*weight)).sum();
    let mut weight_before = 0;
    let mut given = 0;
    let mut part = |weight: &u64| {
        weight_before += u128::from(*weight);
        let until = u128::from(total) * weight_before / sum;
        let until = u64::try_from(until).expect("a part is not larger than the whole");
        let part = until - given;
        given = until;
        part
    };
    weights.iter().map(&mut part).collect()
}

/// The files of one directory, one by one.
pub(crate) struct Files {
    random: Random,
}

impl Files {
    pub(crate) fn of(plan: &Plan) -> Self {
        Self { random: Random::new(plan.seed, b"files") }
    }

    /// Returns the name and the size of the file with this index. Calls must be in the order of the
    /// indexes.
    pub(crate) fn next(&mut self, index: u64) -> (String, usize) {
        let random = &mut self.random;
        let word = WORDS[random.below(24) as usize];
        let ending = ENDINGS[random.below(12) as usize];
        let name = match random.below(3) {
            0 => format!("{word}{index}.{ending}"),
            1 => format!("{word}-{index:04}.{ending}"),
            _ => format!("2026-{word}-{:03}-{index}.{ending}", random.below(1000)),
        };
        let is_filled = random.below(FILLED_ONE_IN) == 0;
        let bytes = if is_filled { 1 + random.below(CONTENT_BYTES_MAX) } else { 0 };
        (name, bytes as usize)
    }

    pub(crate) fn content(&mut self, bytes: usize) -> Vec<u8> {
        self.random.text(bytes)
    }
}

/// Returns the name of a subdirectory. It has no dot, so that it differs from the names of files.
pub(crate) fn directory_name(seed: u64, index: usize) -> String {
    let word = WORDS[Random::new(seed, b"name").below(24) as usize];
    format!("{word}s-{index:02}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    struct Measures {
        directories: u64,
        files: u64,
        /// Number of levels of directories.
        depth: u64,
        /// Number of files in the directory with the most files.
        files_max: u64,
    }

    fn measure(plan: &Plan) -> Measures {
        let own = plan.divide();
        let mut sum =
            Measures { directories: 1, files: own.own_files, depth: 1, files_max: own.own_files };
        for below in own.children.iter().map(measure) {
            sum.directories += below.directories;
            sum.files += below.files;
            sum.depth = sum.depth.max(1 + below.depth);
            sum.files_max = sum.files_max.max(below.files_max);
        }
        sum
    }

    #[test]
    fn tree_has_what_was_asked_for() {
        for (directories, files) in [(1, 0), (1, 5000), (2, 1), (3, 0), (9000, 91_000)] {
            let plan = Plan { directories, files, seed: 7 };
            let made = measure(&plan);
            assert_eq!((made.directories, made.files), (directories, files));
        }
    }

    #[test]
    fn tree_is_deep_and_uneven() {
        let made = measure(&Plan { directories: 25_000, files: 255_000, seed: 1 });
        assert!((6..20).contains(&made.depth), "{} levels", made.depth);
        assert!((30..5000).contains(&made.files_max), "{} files in one directory", made.files_max);
    }

    #[test]
    fn same_seed_gives_the_same_tree() {
        let plan = Plan { directories: 500, files: 5000, seed: 3 };
        assert_eq!(plan.divide(), plan.divide());
        assert_ne!(plan.divide(), Plan { seed: 4, ..plan }.divide());
        assert_eq!(Files::of(&plan).next(0), Files::of(&plan).next(0));
    }

    #[test]
    fn shares_add_up_to_the_whole() {
        assert_eq!(share(10, &[1, 1, 1]), [3, 3, 4]);
        assert_eq!(share(0, &[5, 9]), [0, 0]);
        assert_eq!(share(7, &[100, 1]), [6, 1]);
    }

    #[test]
    fn names_in_a_directory_differ() {
        let plan = Plan { directories: 1, files: 3000, seed: 5 };
        let mut files = Files::of(&plan);
        let names: BTreeSet<String> = (0..plan.files).map(|index| files.next(index).0).collect();
        assert_eq!(names.len(), 3000);
        assert!(names.iter().all(|name| name.contains('.')));
        let directories: BTreeSet<String> = (0..15).map(|i| directory_name(i as u64, i)).collect();
        assert_eq!(directories.len(), 15);
        assert!(directories.iter().all(|name| !name.contains('.')));
    }
}
