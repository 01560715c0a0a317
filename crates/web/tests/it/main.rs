//! Checks of the page's sources that need its packages, which the build has installed.

use std::path::Path;
use std::process::Command;

/// Runs a program of the page's packages in the folder where the page was built.
fn run(program: &str, arguments: &[&str]) {
    let folder = Path::new(env!("OUT_DIR")).join("page");
    let path = folder.join("node_modules/.bin").join(program);
    let output = Command::new(path).args(arguments).current_dir(&folder).output();
    let output = output.unwrap_or_else(|error| panic!("cannot run {program}: {error}"));
    let text = [output.stdout, output.stderr].concat();
    assert!(output.status.success(), "{program}: {}", String::from_utf8_lossy(&text));
}

/// The types of requests and answers are made from the document of the API as it is in the tree,
/// so that a request that the API does not have is an error here.
#[test]
fn the_page_asks_only_what_the_api_has() {
    if option_env!("HOLDFAST_PAGE").is_some() {
        return;
    }
    let document = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/openapi.json");
    run("openapi-typescript", &[document, "--output", "src/api/document.d.ts"]);
    run("svelte-check", &["--tsconfig", "tsconfig.json", "--fail-on-warnings"]);
}
