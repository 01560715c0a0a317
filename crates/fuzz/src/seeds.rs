//! Golden files of the other crates, as valid inputs.

use std::path::Path;

/// Returns the golden files `names` of version 1 of the formats of `of_crate`.
pub(crate) fn golden(of_crate: &str, names: &[&str]) -> Vec<Vec<u8>> {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("a crate is in a folder");
    let folder = crates.join(of_crate).join("testdata/format-v1");
    let read = |name: &&str| {
        let path = folder.join(name);
        std::fs::read(&path).unwrap_or_else(|error| panic!("cannot read {path:?}: {error}"))
    };
    names.iter().map(read).collect()
}

/// Returns the texts as inputs.
pub(crate) fn texts(texts: &[&str]) -> Vec<Vec<u8>> {
    texts.iter().map(|text| text.as_bytes().to_vec()).collect()
}
