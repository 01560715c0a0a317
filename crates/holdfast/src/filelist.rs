//! File lists: paths in a file, one after the other.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use crate::error::CommandError;

/// A list of paths, in place of paths on the command line
#[derive(clap::Args, Debug)]
pub(crate) struct FilelistArgs {
    /// Take exactly the paths listed in a file, one per line, in which wildcards stand for
    /// themselves; - reads standard input
    #[arg(long, value_name = "FILE", conflicts_with = "paths")]
    filelist: Option<PathBuf>,
    /// The paths in the file list end with NUL instead of a newline
    #[arg(long, short = '0', requires = "filelist")]
    null: bool,
}

impl FilelistArgs {
    pub(crate) fn is_given(&self) -> bool {
        self.filelist.is_some()
    }

    /// Returns the paths in the list; `None` without a list. Fails if the list is empty.
    pub(crate) fn paths(&self) -> Result<Option<Vec<Vec<u8>>>, CommandError> {
        let Some(list) = &self.filelist else { return Ok(None) };
        let paths = listed(&read(list)?, if self.null { 0 } else { b'\n' });
        if paths.is_empty() {
            let message = format!("the file list {} names no file", list.display());
            return Err(CommandError::new(message));
        }
        Ok(Some(paths))
    }
}

fn read(list: &Path) -> Result<Vec<u8>, CommandError> {
    let read = if list.as_os_str() == "-" {
        let mut bytes = Vec::new();
        std::io::stdin().lock().read_to_end(&mut bytes).map(|_| bytes)
    } else {
        std::fs::read(list)
    };
    read.map_err(|error| {
        CommandError::new(format!("cannot read the file list {}: {error}", list.display()))
    })
}

/// Splits the bytes of a file list into paths. Each path ends with `end`, which may be missing
/// after the last path.
fn listed(bytes: &[u8], end: u8) -> Vec<Vec<u8>> {
    let paths = bytes.split(|&byte| byte == end);
    paths.filter(|path| !path.is_empty()).map(<[u8]>::to_vec).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_list_holds_any_bytes_but_its_end() {
        assert_eq!(listed(b"", b'\n'), [b""; 0]);
        assert_eq!(listed(b"/a\n\n/b c\xff\n", b'\n'), [&b"/a"[..], b"/b c\xff"]);
        assert_eq!(listed(b"/a\n\n/b\0/c", 0), [&b"/a\n\n/b"[..], b"/c"]);
    }
}
