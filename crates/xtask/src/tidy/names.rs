//! Checks of names: of files, and of the types that a file declares.

use super::finding::{Finding, Rule};

/// Names of files that do not say what the file contains.
const REFUSED_FILES: [&str; 10] = [
    "common", "helper", "helpers", "manager", "managers", "misc", "types", "util", "utils",
    "utility",
];
/// Last words of type names that say nothing.
const REFUSED_SUFFIXES: [&str; 8] =
    ["Data", "Helper", "Impl", "Info", "Manager", "Service", "Util", "Utils"];
/// Words that the glossary does not use, each with the word to use instead.
const REFUSED_WORDS: [(&str, &str); 3] = [
    ("Blob", "Chunk, Quantum or Pack"),
    ("Job", "Process, Session or Schedule"),
    ("Snapshot", "Version, or the thing whose state it is"),
];
/// Complete names that are no nouns, or that hide a name of the standard library.
const REFUSED_NAMES: [&str; 14] = [
    "After", "Ahead", "Before", "Copy", "Found", "Further", "Kept", "Known", "Next", "Only",
    "Then", "Told", "While", "Who",
];
/// Endings of participles. A name of one word with such an ending is refused.
const PARTICIPLE_ENDINGS: [&str; 2] = ["ed", "ing"];
/// Names of one word that have such an ending and are nouns.
const NOUNS: [&str; 27] = [
    "Bed",
    "Encoding",
    "Ending",
    "Feed",
    "Finding",
    "Greeting",
    "Heading",
    "Labelling",
    "Listing",
    "Need",
    "Numbering",
    "Opening",
    "Ordering",
    "Ranking",
    "Reading",
    "Recording",
    "Ring",
    "Ruling",
    "Seed",
    "Setting",
    "Speed",
    "Staging",
    "Standing",
    "Timing",
    "Tuning",
    "Warning",
    "Wording",
];
const DECLARING: [&str; 4] = ["struct", "enum", "trait", "type"];

/// Checks the names of a source file and of its folders. Only the last word of a name counts, such
/// as `helpers` in `pool_helpers`.
pub(crate) fn file_name(path: &str) -> Option<Finding> {
    let parts = path.strip_suffix(".rs")?.split('/');
    let last_word = |part: &'_ str| part.rsplit('_').next().unwrap_or("").to_owned();
    let refused = parts.map(last_word).find(|word| REFUSED_FILES.contains(&word.as_str()))?;
    let message =
        format!("'{refused}' does not say what the file contains, name the file after its noun");
    Some(Finding::new(path, 1, Rule::FileName, message))
}

/// Checks the names of the types that `code` declares. Associated types do not count, because a
/// trait determines their names.
pub(crate) fn type_names(path: &str, code: &str) -> Vec<Finding> {
    let declared = code.lines().enumerate().filter_map(|(index, line)| {
        let message = complaint(declared_type(line)?)?;
        Some(Finding::new(path, index + 1, Rule::TypeName, message))
    });
    declared.collect()
}

fn declared_type(line: &str) -> Option<&str> {
    let mut words = line.split_whitespace();
    let keyword = words.find(|word| DECLARING.contains(word))?;
    if keyword == "type" && line.starts_with(' ') {
        return None;
    }
    let name = words.next()?;
    let end = name.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(name.len());
    (end > 0).then_some(&name[..end])
}

fn complaint(name: &str) -> Option<String> {
    if REFUSED_NAMES.contains(&name) {
        return Some(format!("'{name}' is not the noun of a thing, find the noun"));
    }
    let words = camel_case_words(name);
    let last = words.last()?;
    if words.len() == 1 && is_participle(last) {
        return Some(format!("'{name}' is a participle, name the thing by a noun"));
    }
    if REFUSED_SUFFIXES.contains(last) {
        return Some(format!("'{name}': the word '{last}' says nothing, find the noun"));
    }
    let (word, better) = REFUSED_WORDS.iter().find(|(word, _)| words.contains(word))?;
    Some(format!("'{name}': '{word}' is not in the glossary, write {better}"))
}

fn is_participle(word: &str) -> bool {
    PARTICIPLE_ENDINGS.iter().any(|ending| word.ends_with(ending)) && !NOUNS.contains(&word)
}

fn camel_case_words(name: &str) -> Vec<&str> {
    let starts = name.char_indices().filter(|(_, c)| c.is_uppercase()).map(|(at, _)| at);
    let mut bounds: Vec<usize> = starts.chain([0, name.len()]).collect();
    bounds.sort_unstable();
    bounds.dedup();
    bounds.windows(2).map(|pair| &name[pair[0]..pair[1]]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_file(path: &str, refused: bool) {
        assert_eq!(file_name(path).is_some(), refused, "{path}");
    }

    #[test]
    fn files_are_named_for_nouns() {
        check_file("crates/a/src/pack.rs", false);
        check_file("crates/a/src/utils.rs", true);
        check_file("crates/a/src/pool_manager.rs", true);
        check_file("crates/a/src/common/mod.rs", true);
        check_file("crates/a/src/manage.rs", false);
        check_file("docs/utils.md", false);
    }

    #[track_caller]
    fn check_type(line: &str, refused: bool) {
        assert_eq!(!type_names("a.rs", line).is_empty(), refused, "{line}");
    }

    #[test]
    fn types_have_no_empty_suffix() {
        check_type("pub struct PoolManager {", true);
        check_type("pub(crate) enum NodeInfo<T> {", true);
        check_type("trait Service: Send {", true);
        check_type("type CatalogImpl = X;", true);
        check_type("struct Simple(u32);", false);
        check_type("struct InfoLine;", false);
        check_type("struct Metadata;", false);
    }

    #[test]
    fn types_take_their_words_from_the_glossary() {
        check_type("struct BlobStore;", true);
        check_type("enum BackupJob {", true);
        check_type("struct Snapshot;", true);
        check_type("struct Jobless;", false);
    }

    #[test]
    fn types_are_nouns() {
        check_type("pub struct Wanted {", true);
        check_type("enum Known<T> {", true);
        check_type("trait Told {", true);
        check_type("struct KnownPacks;", false);
        check_type("struct Candidate;", false);
    }

    #[test]
    fn a_participle_or_an_adverb_alone_is_no_noun() {
        check_type("struct Mounted {", true);
        check_type("pub(crate) enum Filling<'a> {", true);
        check_type("type Settled = X;", true);
        check_type("pub trait While<T> {", true);
        check_type("struct Next(u32);", true);
        check_type("struct MountedVolume;", false);
        check_type("struct NextStep;", false);
        check_type("enum Setting {", false);
        check_type("struct Seed(u64);", false);
    }

    #[test]
    fn only_declarations_count() {
        check_type("impl PoolManager {", false);
        check_type("    type Service = X;", false);
        check_type("let x = SnapshotImpl::new();", false);
        check_type("pub struct $name(pub $inner);", false);
    }
}
