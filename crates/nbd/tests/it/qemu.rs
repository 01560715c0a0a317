//! Images of virtual machines, served by the qemu-nbd that the crate starts.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use nbd::{Export, Image, NbdError, QemuNbd, State, dirty_bitmap_context};
use tempfile::TempDir;

use crate::server::{is_missing, pattern, text};

const MIB: u64 = 1 << 20;

fn is_qemu_missing() -> bool {
    ["qemu-nbd", "qemu-img", "qemu-io"]
        .into_iter()
        .any(|program| is_missing(program, "qemu-utils"))
}

/// Runs a program that must succeed.
#[track_caller]
fn run(program: &str, arguments: &[&str]) {
    let output = Command::new(program).args(arguments).output().expect("it is installed");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {arguments:?}: {said}");
}

/// Makes a qcow2 image of 1 GiB. The commands are commands of qemu-io, before the dirty bitmap
/// `daily` begins and after it.
fn image(folder: &TempDir, before: &[&str], after: &[&str]) -> PathBuf {
    // A name with a colon looks like the address of a server.
    let path = folder.path().join("nbd:disk.qcow2");
    run("qemu-img", &["create", "-q", "-f", "qcow2", text(&path), "1G"]);
    change(&path, before);
    run("qemu-img", &["bitmap", "--add", "-f", "qcow2", text(&path), "daily"]);
    change(&path, after);
    path
}

fn change(path: &Path, commands: &[&str]) {
    let commands = commands.iter().flat_map(|command| ["-c", command]);
    let arguments: Vec<_> = ["-f", "qcow2", text(path)].into_iter().chain(commands).collect();
    run("qemu-io", &arguments);
}

fn serve(file: &Path, format: Option<&str>, bitmap: Option<&str>) -> Result<QemuNbd, NbdError> {
    QemuNbd::serve(&Image { file, format, bitmap })
}

/// Returns the ranges of context `index` whose state `is_wanted`, in MiB.
fn ranges(export: &mut Export, index: usize, is_wanted: fn(State) -> bool) -> Vec<(u64, u64)> {
    let (mut offset, mut found) = (0, Vec::<(u64, u64)>::new());
    while offset < export.size() {
        let status = export.block_status(offset, export.size() - offset).expect("a status");
        for part in status.by_context[index].iter().filter(|part| is_wanted(part.state)) {
            let (start, bytes) = (part.offset, part.bytes);
            match found.last_mut() {
                Some(last) if last.0 + last.1 == start => last.1 += bytes,
                _ => found.push((start, bytes)),
            }
        }
        offset += status.bytes;
    }
    found.into_iter().map(|(start, bytes)| (start / MIB, bytes / MIB)).collect()
}

#[test]
fn a_dirty_bitmap_says_what_has_changed() {
    if is_qemu_missing() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let before = ["write -q -P 1 1M 4M", "write -q -P 2 500M 1M"];
    let after = ["write -q -P 3 2M 1M", "write -q -P 4 1023M 1M", "write -q -z 500M 1M"];
    let path = image(&folder, &before, &after);
    let server = serve(&path, Some("qcow2"), Some("daily")).unwrap();
    let daily = dirty_bitmap_context("daily");
    let contexts = [daily.as_str(), nbd::ALLOCATION_CONTEXT];
    let mut export = Export::connect(server.uri(), &contexts).unwrap();
    assert_eq!(export.size(), 1 << 30);
    assert!(export.is_read_only() && export.can_multi_conn());
    assert_eq!(export.contexts().collect::<Vec<_>>(), contexts);
    let dirty = ranges(&mut export, 0, |state| state == State::Dirty(true));
    assert_eq!(dirty, [(2, 1), (500, 1), (1023, 1)]);
    let content =
        ranges(&mut export, 1, |state| !matches!(state, State::Allocation { is_zero: true, .. }));
    assert_eq!(content, [(1, 4), (1023, 1)]);
    for (offset, byte) in [(0, 0), (1, 1), (2, 3), (3, 1), (500, 0), (1023, 4)] {
        let mut found = vec![9; 1 << 20];
        export.read_at(&mut found, offset * MIB).unwrap();
        assert!(found.iter().all(|&found| found == byte), "MiB {offset}");
    }
}

#[test]
fn a_read_of_data_and_holes_is_put_together() {
    if is_qemu_missing() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let writes: Vec<_> = (0..20).map(|at| format!("write -q -P 7 {}k 64k", at * 192)).collect();
    let writes: Vec<_> = writes.iter().map(String::as_str).collect();
    let path = image(&folder, &writes, &[]);
    let server = serve(&path, None, None).unwrap();
    let mut export = Export::connect(server.uri(), &[]).unwrap();
    let mut found = vec![9; 8 << 20];
    export.read_at(&mut found, 0).unwrap();
    for (index, cluster) in found.chunks(64 << 10).enumerate() {
        let byte = if index % 3 == 0 && index < 60 { 7 } else { 0 };
        assert!(cluster.iter().all(|&found| found == byte), "cluster {index}");
    }
}

#[test]
fn several_connections_are_served_at_once() {
    if is_qemu_missing() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("disk.raw");
    let data = pattern(8 << 20);
    fs::write(&path, &data).unwrap();
    // The thread that starts the server ends before the server is used.
    let start = || serve(&path, Some("raw"), None).unwrap();
    let server = std::thread::scope(|scope| scope.spawn(start).join().unwrap());
    let exports: Vec<_> = (0..8).map(|_| Export::connect(server.uri(), &[]).unwrap()).collect();
    std::thread::scope(|scope| {
        for (index, mut export) in exports.into_iter().enumerate() {
            let data = &data;
            scope.spawn(move || {
                let mut found = vec![0; 1 << 20];
                export.read_at(&mut found, index as u64 * MIB).unwrap();
                assert!(found == data[index << 20..(index + 1) << 20]);
            });
        }
    });
}

#[test]
fn a_server_ends_with_its_value() {
    if is_qemu_missing() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = image(&folder, &[], &[]);
    let server = serve(&path, Some("qcow2"), None).unwrap();
    let uri = server.uri().clone();
    drop(server);
    let gone = Export::connect(&uri, &[]);
    assert!(matches!(gone, Err(NbdError::Unreachable { .. })), "{gone:?}");
    // The image may be changed again.
    change(&path, &["write -q 0 64k"]);
}

#[test]
fn an_image_that_cannot_be_served_has_a_reason() {
    if is_qemu_missing() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = image(&folder, &[], &[]);
    let raw = folder.path().join("raw");
    fs::write(&raw, [1; 4096]).unwrap();
    let absent = folder.path().join("absent");
    for (file, format, bitmap, part) in [
        (&absent, None, None, "No such file"),
        (&raw, Some("qcow2"), None, "not in qcow2 format"),
        (&path, Some("x"), None, "'x'"),
        (&path, Some("qcow2"), Some("weekly"), "weekly"),
    ] {
        let error = serve(file, format, bitmap).unwrap_err();
        assert!(matches!(error, NbdError::Program { .. }), "{error:?}");
        assert!(error.to_string().contains(part), "{error}");
    }
}
