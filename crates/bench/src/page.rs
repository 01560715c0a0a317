//! The pages that a bench writes to `docs/performance`. They are in Markdown, and name the command
//! line that made them.

use std::path::{Path, PathBuf};

use crate::machine::Machine;
use crate::output;
use crate::spread::{Spread, float};
use crate::trouble::{Context as _, Trouble};

/// Default folder for pages.
pub(crate) const FOLDER: &str = "docs/performance";

const GIB: f64 = 1_073_741_824.0;

/// Start of a section of a page.
const SECTION: &str = "\n## ";

/// Returns the head of a page: the title, the command line of this program, and the machine.
pub(crate) fn head(title: &str) -> String {
    let machine = Machine::read();
    format!(
        "# {title}\n\nMade by `{}` on a machine with {}, {:.1} GiB memory, Linux {}.\n",
        own_command_line(),
        output::counted(machine.cores, "core"),
        float(machine.memory_bytes) / GIB,
        machine.kernel,
    )
}

/// Returns the command line of this program.
pub(crate) fn own_command_line() -> String {
    let words = std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned());
    command_line(words, &home())
}

/// Joins `words` to a command line. Leaves out the folders for results and work, which mean nothing
/// on another machine.
fn command_line(words: impl IntoIterator<Item = String>, home: &str) -> String {
    let mut line = "bench".to_owned();
    let mut words = words.into_iter();
    while let Some(word) = words.next() {
        if word == "--out" || word == "--work" {
            words.next();
            continue;
        }
        line.extend([" ", &below_home(&word, home)]);
    }
    line
}

/// Returns `path` with `~` for the home folder of the user.
pub(crate) fn shown(path: &str) -> String {
    below_home(path, &home())
}

fn home() -> String {
    std::env::var("HOME").unwrap_or_default()
}

fn below_home(path: &str, home: &str) -> String {
    match path.strip_prefix(home) {
        Some(rest) if home.len() > 1 && (rest.is_empty() || rest.starts_with('/')) => {
            format!("~{rest}")
        }
        _ => path.to_owned(),
    }
}

/// Returns a table in Markdown. The first column is left-aligned, all others are right-aligned.
pub(crate) fn table(head: &[&str], rows: &[Vec<String>]) -> String {
    let line = |cells: &[&str]| format!("| {} |\n", cells.join(" | "));
    let rule: Vec<&str> = (0..head.len()).map(|at| if at == 0 { "---" } else { "---:" }).collect();
    let body = rows.iter().map(|row| line(&row.iter().map(String::as_str).collect::<Vec<_>>()));
    [line(head), line(&rule)].into_iter().chain(body).collect()
}

/// Returns the median of `spread` as text, with the least and the greatest value if they differ.
pub(crate) fn cell(spread: Spread, decimals: usize) -> String {
    let Spread { median, least, most } = spread;
    if least.to_bits() == most.to_bits() {
        return format!("{median:.decimals$}");
    }
    format!("{median:.decimals$} ({least:.decimals$} .. {most:.decimals$})")
}

/// Writes `text` to the file `name` in `folder`, and returns the path. Makes the folder if it does
/// not exist.
pub(crate) fn write(folder: &Path, name: &str, text: &str) -> Result<PathBuf, Trouble> {
    std::fs::create_dir_all(folder).while_doing(|| format!("make {}", folder.display()))?;
    let path = folder.join(name);
    std::fs::write(&path, text).while_doing(|| format!("write {}", path.display()))?;
    Ok(path)
}

/// Writes a page without sections as [`write`] does, and keeps the sections of the page that is
/// there: they were written by hand.
pub(crate) fn write_above_sections(
    folder: &Path,
    name: &str,
    text: &str,
) -> Result<PathBuf, Trouble> {
    let path = folder.join(name);
    let before = match std::fs::read_to_string(&path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
        before => before.while_doing(|| format!("read {}", path.display()))?,
    };
    assert!(!text.contains(SECTION), "all sections of the page are written by hand");
    let sections = before.find(SECTION).map_or("", |at| &before[at..]);
    write(folder, name, &[text, sections].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_has_a_rule_below_its_head() {
        let rows = [vec!["a".to_owned(), "1".to_owned()]];
        assert_eq!(table(&["what", "MB/s"], &rows), "| what | MB/s |\n| --- | ---: |\n| a | 1 |\n");
    }

    #[test]
    fn sections_stay_as_they_were_written() {
        let folder = tempfile::tempdir().unwrap();
        let write = |text: &str| {
            let path = write_above_sections(folder.path(), "page.md", text).unwrap();
            std::fs::read_to_string(path).unwrap()
        };
        assert_eq!(write("# Page\n\nfirst\n"), "# Page\n\nfirst\n");
        assert_eq!(write("# Page\n\nnext\n"), "# Page\n\nnext\n");
        let sections = "\n## By hand\n\nreasons\n\n### Below\n\n## Another\n";
        std::fs::write(folder.path().join("page.md"), format!("# Old\n{sections}")).unwrap();
        for _ in 0..2 {
            assert_eq!(write("# Page\n\nlast\n"), format!("# Page\n\nlast\n{sections}"));
        }
    }

    #[test]
    fn one_value_has_no_spread() {
        assert_eq!(cell(Spread::of([2.0]), 1), "2.0");
        assert_eq!(cell(Spread::of([1.0, 2.0, 4.0]), 1), "2.0 (1.0 .. 4.0)");
    }

    #[test]
    fn a_home_is_a_tilde_and_a_namesake_is_not() {
        assert_eq!(below_home("/srv/ann/src", "/srv/ann"), "~/src");
        assert_eq!(below_home("/srv/anna/src", "/srv/ann"), "/srv/anna/src");
        assert_eq!(below_home("/usr", "/"), "/usr");
        assert_eq!(below_home("/usr", ""), "/usr");
    }

    #[test]
    fn the_command_line_says_what_was_measured_and_not_where() {
        let words = ["link", "/srv/ann/src", "--out", "here", "--json"].map(str::to_owned);
        assert_eq!(command_line(words, "/srv/ann"), "bench link ~/src --json");
        let line = "peers /home/ann/src --work /fast --rounds 5 --out /home/ann/results";
        let shown = command_line(line.split(' ').map(str::to_owned), "/home/ann");
        assert_eq!(shown, "bench peers ~/src --rounds 5");
    }
}
