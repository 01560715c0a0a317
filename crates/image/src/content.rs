//! The content of a device, as far as `blkid` and `partx` of util-linux recognise it.

use std::fs::File;
use std::ops::Range;
use std::path::Path;
use std::process::{Command, Stdio};

use sys::block::Partition;

/// Length of the sectors in which `partx` counts, whatever the disk has.
const SECTOR_BYTES: u64 = 512;
/// Path by which a program finds a file that has none: it is the program's standard input.
const INPUT: &str = "/proc/self/fd/0";

/// Content of a device.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct DeviceContent {
    /// Type of the file system or of other content, such as `ext4`, `swap` or `LVM2_member`.
    pub kind: Option<String>,
    /// Type of the table of partitions: `gpt` or `dos`.
    pub table: Option<String>,
    pub label: Option<String>,
}

impl DeviceContent {
    /// Asks `blkid` about a device or a file. Without an answer the content is not known.
    pub fn of(path: &Path) -> Self {
        Self::parse(&said(&["blkid", "-p", "-o", "export", "--"], path, Stdio::null()))
    }

    /// Asks `blkid` about a range of a file, or about all of it if the range is empty.
    pub(crate) fn within(file: &File, range: &Range<u64>) -> Self {
        let [start, bytes] = [range.start, range.end - range.start].map(|at| at.to_string());
        let words = ["blkid", "-p", "-o", "export", "-O", &start, "-S", &bytes, "--"];
        Self::parse(&said_of(file, &words))
    }

    /// Reads lines such as `TYPE=ext4`.
    fn parse(lines: &[u8]) -> Self {
        let lines = String::from_utf8_lossy(lines);
        let value = |key: &str| {
            let of_line = |line: &str| line.strip_prefix(key)?.strip_prefix('=').map(unescaped);
            lines.lines().find_map(of_line).filter(|value| !value.is_empty())
        };
        Self { kind: value("TYPE"), table: value("PTTYPE"), label: value("LABEL") }
    }

    /// Returns the content in words; `None` if nothing is known about it.
    pub fn shown(&self) -> Option<String> {
        let label = self.label.as_ref().map(|label| format!(" '{label}'")).unwrap_or_default();
        match (self.kind.as_deref(), self.table.as_deref()) {
            (Some("swap"), _) => Some("swap space".to_owned()),
            (Some("LVM2_member"), _) => Some("a physical volume of LVM".to_owned()),
            (Some("crypto_LUKS"), _) => Some("a volume that is encrypted by LUKS".to_owned()),
            (Some(kind), None) => Some(format!("the {kind} file system{label}")),
            (Some(kind), Some(table)) => {
                Some(format!("a table of partitions ({table}), and the {kind} file system{label}"))
            }
            (None, Some(table)) => Some(format!("a table of partitions ({table})")),
            (None, None) => None,
        }
    }
}

/// Returns the partitions in the table in a file that has the content of a disk with sectors of
/// `sector` bytes.
pub(crate) fn partitions_in(file: &File, sector: u32) -> Vec<Partition> {
    let sector = sector.to_string();
    let columns = ["--raw", "--noheadings", "-o", "NR,START,SECTORS"];
    let words = [&["partx", "--sector-size", &sector][..], &columns, &["--"]].concat();
    parse_partitions(&said_of(file, &words), Path::new(INPUT))
}

fn parse_partitions(lines: &[u8], path: &Path) -> Vec<Partition> {
    let of_line = |line: &str| {
        let mut fields = line.split_ascii_whitespace().map(|field| field.parse::<u64>().ok());
        let mut next = || fields.next().flatten();
        let (number, start, sectors) = (u32::try_from(next()?).ok()?, next()?, next()?);
        let end = start.checked_add(sectors)?.checked_mul(SECTOR_BYTES)?;
        let range = start * SECTOR_BYTES..end;
        Some(Partition { number, device: path.to_owned(), range })
    };
    String::from_utf8_lossy(lines).lines().filter_map(of_line).collect()
}

/// Runs a program of util-linux on a file, which may have no path.
fn said_of(file: &File, words: &[&str]) -> Vec<u8> {
    let input = file.try_clone().map(Stdio::from);
    input.map(|input| said(words, Path::new(INPUT), input)).unwrap_or_default()
}

/// Runs a program of util-linux on `path`, and returns what it says; nothing if it fails.
fn said(words: &[&str], path: &Path, input: Stdio) -> Vec<u8> {
    let (program, options) = words.split_first().expect("a program");
    let mut command = Command::new(program);
    command.args(options).arg(path).stdin(input).stderr(Stdio::null());
    // The folders of administrators' programs are not in the path of every user.
    command.env("PATH", "/usr/sbin:/sbin:/usr/bin:/bin");
    command.output().map(|output| output.stdout).unwrap_or_default()
}

/// Undoes the backslashes of `blkid`, and makes control characters visible.
fn unescaped(value: &str) -> String {
    model::escaped(value.replace('\\', "").as_bytes())
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    #[test]
    fn the_answer_is_read() {
        let content = DeviceContent::parse(b"DEVNAME=/dev/sda1\nLABEL=my\\ disk\nTYPE=ext4\n");
        assert_eq!(content.shown().as_deref(), Some("the ext4 file system 'my disk'"));
        let disk = DeviceContent::parse(b"PTUUID=1234\nPTTYPE=gpt\n");
        assert_eq!(disk.shown().as_deref(), Some("a table of partitions (gpt)"));
        let both = DeviceContent::parse(b"TYPE=ext4\nPTTYPE=dos\n");
        let shown = "a table of partitions (dos), and the ext4 file system";
        assert_eq!(both.shown().as_deref(), Some(shown));
        assert_eq!(DeviceContent::parse(b"").shown(), None);
        assert_eq!(DeviceContent::parse(b"TYPE=swap\n").shown().as_deref(), Some("swap space"));
    }

    #[test]
    fn a_table_is_read() {
        let found = parse_partitions(b"1 2048 40960\n2 43008 20480\nnonsense\n", Path::new("/x"));
        let ranges: Vec<_> = found.iter().map(|one| (one.number, one.range.clone())).collect();
        let mib = |from: u64, to: u64| from << 20..to << 20;
        assert_eq!(ranges, [(1, mib(1, 21)), (2, mib(21, 31))]);
        let huge = b"1 99999999999999999999 1\n1 18446744073709551615 2\n";
        assert!(parse_partitions(huge, Path::new("/x")).is_empty());
    }

    #[test]
    fn a_range_of_a_file_is_recognised() {
        let mut swap = vec![0; 1 << 20];
        // Version 1, and a number of pages.
        swap[1024] = 1;
        swap[1028] = 255;
        swap[4086..4096].copy_from_slice(b"SWAPSPACE2");
        let mut file = tempfile::tempfile().expect("a file");
        file.write_all(&[vec![0; 1 << 20], swap].concat()).expect("written");
        let kind = |range| DeviceContent::within(&file, &range).kind;
        assert_eq!(kind(1 << 20..2 << 20).as_deref(), Some("swap"));
        assert_eq!((kind(0..0), kind(0..1 << 20), kind(2 << 20..3 << 20)), (None, None, None));
        assert!(partitions_in(&file, 512).is_empty());
    }

    #[test]
    fn what_is_not_there_holds_nothing() {
        assert_eq!(DeviceContent::of(Path::new("/nowhere")), DeviceContent::default());
    }
}
