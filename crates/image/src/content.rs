//! The content of a device, as far as `blkid` of util-linux recognises it.

use std::path::Path;
use std::process::{Command, Stdio};

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
        let mut blkid = Command::new("blkid");
        blkid.args(["-p", "-o", "export", "--"]).arg(path);
        // The folders of administrators' programs are not in the path of every user.
        let folders =
            std::env::join_paths(["/usr/sbin", "/sbin", "/usr/bin", "/bin"].iter().map(Path::new));
        if let Ok(folders) = folders {
            blkid.env("PATH", folders);
        }
        let output = blkid.stdin(Stdio::null()).stderr(Stdio::null()).output();
        output.map_or_else(|_| Self::default(), |output| Self::parse(&output.stdout))
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
            (Some(kind), _) => Some(format!("the {kind} file system{label}")),
            (None, Some(table)) => Some(format!("a table of partitions ({table})")),
            (None, None) => None,
        }
    }
}

/// Undoes the backslashes of `blkid`, and makes control characters visible.
fn unescaped(value: &str) -> String {
    model::escaped(value.replace('\\', "").as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_answer_is_read() {
        let content = DeviceContent::parse(b"DEVNAME=/dev/sda1\nLABEL=my\\ disk\nTYPE=ext4\n");
        assert_eq!(content.shown().as_deref(), Some("the ext4 file system 'my disk'"));
        let disk = DeviceContent::parse(b"PTUUID=1234\nPTTYPE=gpt\n");
        assert_eq!(disk.shown().as_deref(), Some("a table of partitions (gpt)"));
        assert_eq!(DeviceContent::parse(b"").shown(), None);
        assert_eq!(DeviceContent::parse(b"TYPE=swap\n").shown().as_deref(), Some("swap space"));
    }

    #[test]
    fn what_is_not_there_holds_nothing() {
        assert_eq!(DeviceContent::of(Path::new("/nowhere")), DeviceContent::default());
    }
}
