//! Exports of network block devices (NBD) as sources: disks of virtual machines by `qemu-nbd`, and
//! disks that any server exports.

mod connections;

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use nbd::{Export, NbdError, QemuNbd, State, Uri, dirty_bitmap_context};

use self::connections::Connections;
use crate::used::touches;

/// Context that tells which blocks hold data.
const ALLOCATION: &str = "base:allocation";
/// Number of bytes about which the server is asked at once.
const STATUS_BYTES: u64 = 1 << 30;

/// Format of a file with the disk of a virtual machine, as qemu calls it.
pub(crate) type Format = String;

/// Export that several threads read, each on a connection of its own if the server has so many.
pub(crate) struct ExportReader {
    connections: Connections,
    pub(crate) bytes: u64,
    pub(crate) is_read_only: bool,
    /// Ranges that hold data, in order.
    pub(crate) used: Vec<Range<u64>>,
    /// Ranges that have changed, if the server has the bitmap that was asked for.
    pub(crate) changed: Option<Vec<Range<u64>>>,
    /// Program that serves a file.
    _server: Option<QemuNbd>,
}

/// Returns true if `name` is the address of an export.
pub(crate) fn is_address(name: &[u8]) -> bool {
    [&b"nbd://"[..], b"nbd+unix://", b"nbds://", b"nbds+unix://"]
        .iter()
        .any(|scheme| name.starts_with(scheme))
}

/// Number of bytes at the beginning of a file that show its format.
const HEAD_BYTES: usize = 68;

/// Recognises the format of a file with the disk of a virtual machine; `None` for a file with the
/// plain content of a disk.
///
/// Sources: QEMU, `docs/interop/qcow2.txt`, `block/qcow.c`, `block/vdi.c`, `block/vpc.c`; the
/// specifications of VMDK, VHDX and QED.
pub(crate) fn format_of(file: &File) -> io::Result<Option<Format>> {
    let mut head = [0; HEAD_BYTES];
    let read = file.read_at(&mut head, 0)?;
    let known: [(usize, &[u8], &str); 8] = [
        (0, b"QFI\xfb\0\0\0\x01", "qcow"),
        (0, b"QFI\xfb", "qcow2"),
        (0, b"KDMV", "vmdk"),
        (0, b"COWD", "vmdk"),
        (0, b"vhdxfile", "vhdx"),
        (0, b"QED\0", "qed"),
        (0, b"conectix", "vpc"),
        (64, b"\x7f\x10\xda\xbe", "vdi"),
    ];
    let is_at = |at: usize, magic: &[u8]| {
        head[..read].get(at..).is_some_and(|rest| rest.starts_with(magic))
    };
    let found = known.iter().find(|(at, magic, _)| is_at(*at, magic));
    Ok(found.map(|(_, _, format)| (*format).to_owned()))
}

impl ExportReader {
    /// Opens an export. With `bitmap`, the server must have the dirty bitmap of this name.
    pub(crate) fn connect(uri: Uri, bitmap: Option<&str>) -> Result<Self, NbdError> {
        Self::open(uri, bitmap, None)
    }

    /// Opens a file of a format that qemu knows.
    pub(crate) fn serve(file: &Path, format: &str, bitmap: Option<&str>) -> Result<Self, NbdError> {
        let image = nbd::Image { file, format: Some(format), bitmap };
        let server = QemuNbd::serve(&image)?;
        Self::open(server.uri().clone(), bitmap, Some(server))
    }

    fn open(uri: Uri, bitmap: Option<&str>, server: Option<QemuNbd>) -> Result<Self, NbdError> {
        let context = bitmap.map(dirty_bitmap_context);
        let wished: Vec<&str> = std::iter::once(ALLOCATION).chain(context.as_deref()).collect();
        let mut export = Export::connect(&uri, &wished)?;
        let agreed: Vec<String> = export.contexts().map(str::to_owned).collect();
        let place = |name: &str| agreed.iter().position(|known| known == name);
        let (allocation, dirty) = (place(ALLOCATION), context.as_deref().and_then(place));
        let bytes = export.size();
        let (mut used, mut changed) = (Vec::new(), Vec::new());
        if allocation.is_none() {
            used.push(0..bytes);
        }
        let mut at = 0;
        while !agreed.is_empty() && at < bytes {
            let status = export.block_status(at, STATUS_BYTES.min(bytes - at))?;
            for (number, list) in status.by_context.iter().enumerate() {
                for part in list {
                    let range = part.offset..part.offset + part.bytes;
                    match part.state {
                        State::Allocation { is_zero: false, .. } if Some(number) == allocation => {
                            note(&mut used, range);
                        }
                        State::Dirty(true) if Some(number) == dirty => note(&mut changed, range),
                        _ => {}
                    }
                }
            }
            at = status.offset + status.bytes;
        }
        let is_read_only = export.is_read_only();
        Ok(Self {
            connections: Connections::new(uri, export),
            bytes,
            is_read_only,
            used,
            changed: dirty.map(|_| changed),
            _server: server,
        })
    }

    pub(crate) fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        let mut export = self.connections.take().map_err(io::Error::other)?;
        let read = export.read_at(buffer, offset);
        // After an error that the server reports, the connection is as good as before.
        let is_good = matches!(read, Ok(()) | Err(NbdError::Failed { .. }));
        self.connections.give_back(Some(export).filter(|_| is_good));
        read.map_err(io::Error::other)
    }

    /// Returns true if the bitmap says that nothing in `range` has changed.
    pub(crate) fn is_unchanged(&self, range: &Range<u64>) -> bool {
        self.changed.as_ref().is_some_and(|changed| !touches(changed, range))
    }
}

fn note(ranges: &mut Vec<Range<u64>>, range: Range<u64>) {
    match ranges.last_mut() {
        Some(last) if last.end == range.start => last.end = range.end,
        _ => ranges.push(range),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_and_formats_are_recognised() {
        assert!(is_address(b"nbd://host/disk") && is_address(b"nbd+unix:///?socket=/s"));
        assert!(!is_address(b"/dev/nbd0"));
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("disk");
        let vdi = [&[b'<'; 64][..], b"\x7f\x10\xda\xbe"].concat();
        for (content, format) in [
            (&b"QFI\xfb\0\0\0\x03"[..], Some("qcow2")),
            (b"QFI\xfb\0\0\0\x01", Some("qcow")),
            (b"vhdxfile", Some("vhdx")),
            (b"conectix", Some("vpc")),
            (&vdi[..], Some("vdi")),
            (&vdi[1..], None),
            (b"plain", None),
            (b"", None),
        ] {
            std::fs::write(&path, content).expect("written");
            let found = format_of(&File::open(&path).expect("opened")).expect("read");
            assert_eq!(found.as_deref(), format);
        }
    }
}
