//! Options and values that several subcommands take.

use std::ops::RangeInclusive;
use std::path::PathBuf;

use model::SizeError;

use crate::page;

/// Options of the subcommands that write a page.
#[derive(clap::Args, Debug)]
pub(crate) struct PageArgs {
    /// Write one JSON document with every sample
    #[arg(long)]
    pub(crate) json: bool,
    /// Folder for the page
    #[arg(long, value_name = "DIR", default_value = page::FOLDER)]
    pub(crate) out: PathBuf,
}

/// Option of the subcommands that make files.
#[derive(clap::Args, Debug)]
pub(crate) struct WorkArgs {
    /// Folder for all files that the bench makes [default: TMPDIR]
    #[arg(long, value_name = "DIR")]
    pub(crate) work: Option<PathBuf>,
}

impl WorkArgs {
    pub(crate) fn folder(&self) -> PathBuf {
        self.work.clone().unwrap_or_else(std::env::temp_dir)
    }
}

/// Reason why a value is refused: it is no number in the range.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("the value must be a number from {} to {}", .range.start(), .range.end())]
pub(crate) struct NumberError {
    range: RangeInclusive<usize>,
}

/// Returns a parser of numbers in `range`.
pub(crate) fn number(
    range: RangeInclusive<usize>,
) -> impl Fn(&str) -> Result<usize, NumberError> + Clone {
    move |text| {
        let number = text.parse().ok().filter(|number| range.contains(number));
        number.ok_or_else(|| NumberError { range: range.clone() })
    }
}

/// Parses a size, as in `4096`, `64K` or `2.5G`.
pub(crate) fn size(text: &str) -> Result<u64, SizeError> {
    model::parse_bytes(text, 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_bounds() {
        let parse = number(1..=100);
        assert_eq!((parse("1"), parse("100")), (Ok(1), Ok(100)));
        for text in ["0", "101", "-1", "x", ""] {
            let error = parse(text).expect_err(text);
            assert_eq!(error.to_string(), "the value must be a number from 1 to 100");
        }
    }
}
