//! Builds the page with npm in the build folder, and writes the list of its files for `src/lib.rs`.
//!
//! ```text
//!   page/ -> OUT_DIR/page -> npm ci (if the lock file has changed) -> npm run build
//!         -> OUT_DIR/page/dist -> OUT_DIR/files.rs
//! ```
//!
//! 1. Nothing is written in the source tree.
//! 2. `HOLDFAST_PAGE` names a folder with the built page. Then neither Node nor npm is needed.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs, io};

/// Sources of the page, of which a change makes the page anew.
const SOURCES: [&str; 9] = [
    ".npmrc",
    "index.html",
    "package-lock.json",
    "package.json",
    "public",
    "src",
    "svelte.config.js",
    "tsconfig.json",
    "vite.config.ts",
];
/// Oldest version of Node with which the page is built.
const NODE_MIN: (u32, u32) = (20, 19);
/// Advice for a person who has no suitable Node.
const WITHOUT_NODE: &str = "install Node.js 20.19 or newer with npm, name a folder with the built \
    page in HOLDFAST_PAGE, or build the server without the page by --no-default-features";

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo:rerun-if-env-changed=HOLDFAST_PAGE");
    println!("cargo:rerun-if-changed=build.rs");
    for source in SOURCES {
        println!("cargo:rerun-if-changed=page/{source}");
    }
    let out = PathBuf::from(env::var("OUT_DIR")?);
    match built(&out) {
        Ok(folder) => fs::write(out.join("files.rs"), list(&folder)?)?,
        Err(reason) => println!("cargo::error=cannot build the page: {reason}"),
    }
    Ok(())
}

/// Returns the folder with the built page.
fn built(out: &Path) -> Result<PathBuf, String> {
    if let Some(ready) = env::var_os("HOLDFAST_PAGE") {
        println!("cargo:rerun-if-changed={}", ready.display());
        return Ok(PathBuf::from(ready));
    }
    check_node(&printed("node")?)?;
    printed("npm")?;
    let folder = out.join("page");
    copy_sources(&folder).map_err(|error| format!("cannot copy its sources: {error}"))?;
    install(&folder)?;
    npm(&folder, &["run", "--silent", "build"])?;
    Ok(folder.join("dist"))
}

/// Returns the version that a program prints.
fn printed(program: &str) -> Result<String, String> {
    let output = Command::new(program).arg("--version").output();
    let output = output.map_err(|_| format!("{program} is missing: {WITHOUT_NODE}"))?;
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// Fails if Node is too old: `version` is as in `v20.19.2`.
fn check_node(version: &str) -> Result<(), String> {
    let mut numbers = version.trim_start_matches('v').split('.').map_while(|n| n.parse().ok());
    match (numbers.next(), numbers.next()) {
        (Some(major), Some(minor)) if (major, minor) >= NODE_MIN => Ok(()),
        _ => Err(format!("Node {version} is too old: {WITHOUT_NODE}")),
    }
}

/// Copies the sources into `folder`, where the packages of an earlier build stay.
fn copy_sources(folder: &Path) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    for source in SOURCES {
        let (from, to) = (Path::new("page").join(source), folder.join(source));
        if from.is_dir() {
            if to.is_dir() {
                fs::remove_dir_all(&to)?;
            }
            copy_tree(&from, &to)?;
        } else {
            fs::copy(&from, &to)?;
        }
    }
    Ok(())
}

fn copy_tree(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let (path, target) = {
            let entry = entry?;
            (entry.path(), to.join(entry.file_name()))
        };
        if path.is_dir() {
            copy_tree(&path, &target)?;
        } else {
            fs::copy(&path, &target)?;
        }
    }
    Ok(())
}

/// Installs the packages of the lock file, unless they are those of the last build.
fn install(folder: &Path) -> Result<(), String> {
    let failed = |error: io::Error| format!("cannot note its packages: {error}");
    let (lock, note) = (folder.join("package-lock.json"), folder.join("installed"));
    let wanted = fs::read(&lock).map_err(failed)?;
    if fs::read(&note).is_ok_and(|installed| installed == wanted) {
        return Ok(());
    }
    npm(folder, &["ci", "--include=dev", "--no-audit", "--no-fund", "--ignore-scripts"])?;
    fs::write(&note, wanted).map_err(failed)
}

/// Runs npm, which shows what it does only if it fails.
fn npm(folder: &Path, arguments: &[&str]) -> Result<(), String> {
    let output = Command::new("npm").args(arguments).current_dir(folder).output();
    let output = output.map_err(|error| format!("cannot run npm: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    for line in [&output.stdout, &output.stderr]
        .iter()
        .flat_map(|bytes| bytes.split(|b| *b == b'\n'))
    {
        println!("cargo::warning={}", String::from_utf8_lossy(line));
    }
    Err(format!("'npm {}' failed, see the lines above", arguments.join(" ")))
}

/// Returns the list of the files of the built page, as Rust. A file `NAME.br` is `NAME` in the
/// compressed form of Brotli.
fn list(folder: &Path) -> Result<String, Box<dyn std::error::Error>> {
    let mut names = Vec::new();
    collect(folder, "", &mut names)?;
    names.sort_unstable();
    if !names.iter().any(|name| name == "index.html") {
        let folder = folder.display();
        println!("cargo::error=the folder {folder} has no index.html: it is no built page");
    }
    let mut text = String::from("&[");
    for name in names.iter().filter(|name| !name.ends_with(".br")) {
        let compressed = format!("{name}.br");
        let path = |name: &str| folder.join(name).display().to_string();
        let bytes = format!("include_bytes!({:?})", path(name));
        let brotli = match names.contains(&compressed) {
            true => format!("Some(include_bytes!({:?}))", path(&compressed)),
            false => "None".to_owned(),
        };
        writeln!(text, "File {{ path: {name:?}, bytes: {bytes}, brotli: {brotli} }},")?;
    }
    text.push(']');
    Ok(text)
}

/// Collects the names of the files in a folder, each with the names of the folders on the way.
fn collect(folder: &Path, prefix: &str, names: &mut Vec<String>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = format!("{prefix}{}", entry.file_name().to_string_lossy());
        if entry.file_type()?.is_dir() {
            collect(&entry.path(), &format!("{name}/"), names)?;
        } else {
            names.push(name);
        }
    }
    Ok(())
}
