//! Exports of nbdkit: its plugins are the devices, its filters are their faults.

use std::fs::{self, File};
use std::io::{self, Seek as _, SeekFrom, Write as _};
use std::net::TcpListener;
use std::time::Duration;

use nbd::{Command, Export, Fault, NbdError, Patience, REQUEST_BYTES_MAX, Refusal, State, Uri};

use crate::server::{Nbdkit, pattern, text};

const MIB: usize = 1 << 20;

#[track_caller]
fn check_failed(outcome: Result<(), NbdError>, command: Command, offset: u64, fault: Fault) {
    let error = outcome.expect_err("it fails");
    let NbdError::Failed { command: failed, offset: at, fault: reason, .. } = error else {
        panic!("{error:?}")
    };
    assert_eq!((failed, at, reason), (command, offset, fault));
}

#[track_caller]
fn check_lost(outcome: Result<(), NbdError>, kind: io::ErrorKind) {
    match outcome.expect_err("it fails") {
        NbdError::Lost { source } => assert_eq!(source.kind(), kind),
        error => panic!("{error:?}"),
    }
}

/// Returns the ranges that are no zeros, as offset and length.
fn used(export: &mut Export) -> Vec<(u64, u64)> {
    let (mut offset, mut used) = (0, Vec::new());
    while offset < export.size() {
        let status = export.block_status(offset, export.size() - offset).expect("a status");
        assert_eq!(status.offset, offset);
        let parts = status.by_context[0].iter();
        used.extend(parts.filter_map(|part| match part.state {
            State::Allocation { is_zero: true, .. } => None,
            _ => Some((part.offset, part.bytes)),
        }));
        offset += status.bytes;
    }
    used
}

fn write_and_read(export: &mut Export) {
    let data = pattern(3 * MIB);
    export.write_at(&data, 4096).expect("written");
    export.write_zeroes(MIB as u64, MIB as u64).expect("zeros");
    let mut expected = vec![0; 8 * MIB];
    expected[4096..4096 + data.len()].copy_from_slice(&data);
    expected[MIB..2 * MIB].fill(0);
    let mut found = vec![0xff; 8 * MIB];
    export.read_at(&mut found, 0).expect("read");
    assert!(found == expected);
    found[..1000].fill(0xff);
    export.read_at(&mut found[..1000], 4000).expect("read");
    assert!(found[..1000] == expected[4000..5000]);
}

#[test]
fn an_export_gives_back_bytes_written() {
    let Some(server) = Nbdkit::start(&["memory", "8M"]) else { return };
    let mut export = server.open();
    assert_eq!((export.size(), export.block_size_min()), (8 << 20, 1));
    assert!(!export.is_read_only() && export.can_multi_conn() && export.can_flush());
    write_and_read(&mut export);
    export.flush().unwrap();
    // The plugin keeps pages of 32 KiB.
    assert_eq!(used(&mut export), [(0, MIB as u64), (2 << 20, MIB as u64 + (32 << 10))]);
    drop(export);
    assert_eq!(used(&mut server.open()).len(), 2, "another connection sees the same");
}

#[test]
fn a_server_is_reached_over_tcp() {
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let Some(_server) = Nbdkit::start_on_port(free, &["memory", "8M"]) else { return };
    let uri = Uri::parse(format!("nbd://localhost:{free}/").as_bytes()).unwrap();
    write_and_read(&mut Export::connect(&uri, &[]).unwrap());
}

#[test]
fn a_size_may_have_an_odd_end() {
    let Some(server) = Nbdkit::start(&["memory", "1000003"]) else { return };
    let mut export = server.open();
    assert_eq!(export.size(), 1_000_003);
    export.write_at(b"end", 1_000_000).unwrap();
    let mut found = vec![0; 1_000_003];
    export.read_at(&mut found, 0).unwrap();
    assert!(found.ends_with(b"\0\0end"));
    let beyond = export.read_at(&mut [0; 4], 1_000_000);
    check_failed(beyond, Command::Read, 1_000_000, Fault::Invalid);
    check_failed(export.write_zeroes(u64::MAX, 1), Command::WriteZeroes, u64::MAX, Fault::Invalid);
    let status = export.block_status(1_000_002, 1).unwrap();
    assert_eq!((status.bytes, status.by_context[0][0].bytes), (1, 1));
}

#[test]
fn an_empty_export_is_open_to_nothing() {
    let Some(server) = Nbdkit::start(&["memory", "0"]) else { return };
    let mut export = server.open();
    assert_eq!(export.size(), 0);
    export.read_at(&mut [], 0).unwrap();
    check_failed(export.read_at(&mut [0], 0), Command::Read, 0, Fault::Invalid);
}

#[test]
fn sparse_data_are_found_in_a_large_export() {
    let arguments = ["data", "data=@0x40000000 1*5 @0x7f00000000 2*7", "size=1T"];
    let Some(server) = Nbdkit::start(&arguments) else { return };
    let mut export = server.open();
    let (first, second) = (0x4000_0000, 0x7f_0000_0000);
    let found = used(&mut export);
    let has = |offset| found.iter().any(|(start, bytes)| (*start..start + bytes).contains(&offset));
    assert!(found.len() == 2 && has(first) && has(second), "{found:?}");
    let mut bytes = [9; 7];
    export.read_at(&mut bytes, second).unwrap();
    assert_eq!(bytes, [2; 7]);
}

#[test]
fn a_file_is_read_whole_with_its_holes() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("image");
    let mut file = File::create(&path).unwrap();
    let data = pattern(5 * MIB);
    file.write_all(&data).unwrap();
    file.seek(SeekFrom::Start(20 << 20)).unwrap();
    file.write_all(&data).unwrap();
    let Some(server) = Nbdkit::start(&["--readonly", "file", text(&path)]) else { return };
    let mut export = server.open();
    let mut found = vec![0; 25 * MIB];
    export.read_at(&mut found, 0).unwrap();
    assert!(found == fs::read(&path).unwrap());
    let data_bytes = data.len() as u64;
    assert_eq!(used(&mut export), [(0, data_bytes), (20 << 20, data_bytes)]);
    assert!(export.is_read_only());
    check_failed(export.write_at(b"x", 7), Command::Write, 7, Fault::NotPermitted);
    check_failed(export.write_zeroes(7, 1), Command::WriteZeroes, 7, Fault::NotPermitted);
}

#[test]
fn several_connections_read_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("image");
    let data = pattern(8 * MIB);
    fs::write(&path, &data).unwrap();
    let Some(server) = Nbdkit::start(&["--readonly", "file", text(&path)]) else { return };
    std::thread::scope(|scope| {
        for (index, expected) in data.chunks(MIB).enumerate() {
            let server = &server;
            scope.spawn(move || {
                let mut found = vec![0; MIB];
                server.open().read_at(&mut found, (index * MIB) as u64).unwrap();
                assert!(found == expected);
            });
        }
    });
}

#[test]
fn an_error_names_its_place_and_the_connection_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let trigger = folder.path().join("trigger");
    let file = format!("error-file={}", trigger.display());
    let arguments = ["--filter=error", "memory", "16M", "error=EIO", "error-rate=100%", &file];
    let Some(server) = Nbdkit::start(&arguments) else { return };
    let mut export = server.open();
    let mut buffer = vec![0; 8 * MIB];
    export.read_at(&mut buffer, 0).unwrap();
    fs::write(&trigger, "").unwrap();
    check_failed(export.read_at(&mut buffer, 5000), Command::Read, 5000, Fault::Io);
    check_failed(export.write_at(&[1; 512], 1024), Command::Write, 1024, Fault::Io);
    check_failed(export.write_zeroes(4096, 512), Command::WriteZeroes, 4096, Fault::Io);
    let status = export.block_status(512, 512).map(|_| ());
    check_failed(status, Command::BlockStatus, 512, Fault::Io);
    fs::remove_file(&trigger).unwrap();
    export.read_at(&mut buffer, 5000).unwrap();
}

#[test]
fn faults_of_a_server_have_their_numbers() {
    for (name, fault) in [("ENOSPC", Fault::NoSpace), ("EPERM", Fault::NotPermitted)] {
        let error = format!("error={name}");
        let arguments = ["--filter=error", "memory", "1M", &error, "error-pwrite-rate=100%"];
        let Some(server) = Nbdkit::start(&arguments) else { return };
        check_failed(server.open().write_at(&[1; 512], 512), Command::Write, 512, fault);
    }
}

#[test]
fn nobody_waits_for_a_slow_server_for_ever() {
    let arguments = ["--filter=delay", "memory", "1M", "delay-read=60"];
    let Some(server) = Nbdkit::start(&arguments) else { return };
    let patience = Patience { reply: Duration::from_millis(200), ..Patience::default() };
    let mut export = Export::connect_within(&server.uri(""), &[], patience).unwrap();
    let begun = sys::clock::monotonic();
    check_lost(export.read_at(&mut [0; 512], 0), io::ErrorKind::TimedOut);
    assert!((200..20_000).contains(&begun.elapsed().as_millis()));
    check_lost(export.read_at(&mut [0; 512], 0), io::ErrorKind::NotConnected);
}

#[test]
fn a_server_that_died_is_noticed() {
    let Some(mut server) = Nbdkit::start(&["memory", "1M"]) else { return };
    let mut export = server.open();
    server.end();
    let lost = export.read_at(&mut [0; 512], 0);
    assert!(matches!(lost, Err(NbdError::Lost { .. })), "{lost:?}");
    let gone = Export::connect(&server.uri(""), &[]);
    assert!(matches!(gone, Err(NbdError::Unreachable { .. })), "{gone:?}");
}

#[test]
fn a_server_without_structured_replies_is_read_too() {
    let arguments = ["--no-sr", "--filter=error", "memory", "8M", "error-pwrite-rate=100%"];
    let Some(server) = Nbdkit::start(&arguments) else { return };
    let mut export = server.open();
    assert_eq!(export.contexts().len(), 0);
    let mut buffer = vec![1; 8 * MIB];
    export.read_at(&mut buffer, 0).unwrap();
    assert!(buffer.iter().all(|&byte| byte == 0));
    check_failed(export.write_at(&[1; 512], 512), Command::Write, 512, Fault::Io);
    let status = export.block_status(512, 512).map(|_| ());
    check_failed(status, Command::BlockStatus, 512, Fault::Unsupported);
    export.read_at(&mut buffer, 0).unwrap();
}

#[test]
fn zeros_are_sent_to_a_server_that_makes_none() {
    let Some(server) = Nbdkit::start(&["--filter=nozero", "memory", "16M"]) else { return };
    let mut export = server.open();
    let data = vec![1; 16 * MIB];
    export.write_at(&data, 0).unwrap();
    export.write_zeroes(512, u64::from(REQUEST_BYTES_MAX) + 512).unwrap();
    let mut found = vec![9; data.len()];
    export.read_at(&mut found, 0).unwrap();
    let zeros = 512..1024 + REQUEST_BYTES_MAX as usize;
    assert!(found.iter().enumerate().all(|(at, &byte)| (byte == 0) == zeros.contains(&at)));
}

#[test]
fn a_long_range_of_zeros_is_zero() {
    let Some(server) = Nbdkit::start(&["memory", "100M"]) else { return };
    let mut export = server.open();
    let marks = [0, 1, 32, 33, 64, 65, 66, 99].map(|at| at << 20);
    marks.iter().for_each(|&mark| export.write_at(&[1; 512], mark).unwrap());
    export.write_zeroes(512, (66 << 20) - 512).unwrap();
    let mut found = [0; 512];
    for (index, mark) in marks.into_iter().enumerate() {
        export.read_at(&mut found, mark).unwrap();
        assert_eq!(found, [u8::from([0, 6, 7].contains(&index)); 512], "{mark}");
    }
}

#[test]
fn requests_are_aligned_as_the_server_wants_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("image");
    let data = pattern(MIB);
    fs::write(&path, &data).unwrap();
    let arguments = [
        "--filter=blocksize-policy",
        "file",
        text(&path),
        "blocksize-minimum=4096",
        "blocksize-preferred=64K",
        "blocksize-maximum=100K",
        "blocksize-error-policy=error",
    ];
    let Some(server) = Nbdkit::start(&arguments) else { return };
    let mut export = server.open();
    assert_eq!((export.block_size_min(), export.block_size_preferred()), (4096, 64 << 10));
    for range in [0..MIB, 1..2, 4095..4097, 5000..5001, 4096..8192, 100..900_001, MIB - 1..MIB] {
        let mut found = vec![0; range.len()];
        export.read_at(&mut found, range.start as u64).unwrap();
        assert!(found == data[range.clone()], "{range:?}");
    }
    check_failed(export.write_at(&[1; 512], 4096), Command::Write, 4096, Fault::Invalid);
    check_failed(export.write_at(&[1; 4096], 512), Command::Write, 512, Fault::Invalid);
    export.write_at(&[1; 4096], 4096).unwrap();
    let status = export.block_status(5000, 10).unwrap();
    assert_eq!((status.offset, status.bytes), (5000, 10));
}

#[test]
fn an_unknown_export_is_refused() {
    let arguments = ["--filter=exportname", "memory", "1M", "exportname-strict=true"];
    let named = [&arguments[..], &["exportname=a disk"]].concat();
    let Some(server) = Nbdkit::start(&named) else { return };
    let export = Export::connect(&server.uri("a disk"), &[nbd::ALLOCATION_CONTEXT]).unwrap();
    assert_eq!(export.size(), 1 << 20);
    for contexts in [&[][..], &[nbd::ALLOCATION_CONTEXT]] {
        match Export::connect(&server.uri("another"), contexts).unwrap_err() {
            NbdError::Refused { refusal: Refusal::UnknownExport | Refusal::Invalid, .. } => {}
            error => panic!("{error:?}"),
        }
    }
}

#[test]
fn a_server_that_requires_tls_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let keys = folder.path().join("keys");
    fs::write(&keys, "anna:00112233445566778899aabbccddeeff\n").unwrap();
    let keys = format!("--tls-psk={}", keys.display());
    let Some(server) = Nbdkit::start(&["--tls=require", &keys, "memory", "1M"]) else { return };
    match Export::connect(&server.uri(""), &[]).unwrap_err() {
        NbdError::Refused { refusal: Refusal::TlsRequired, .. } => {}
        error => panic!("{error:?}"),
    }
}

#[test]
fn older_handshakes_are_told_apart() {
    let Some(server) = Nbdkit::start(&["--mask-handshake=1", "memory", "1M"]) else { return };
    assert_eq!(server.open().size(), 1 << 20);
    for (option, part) in [("--mask-handshake=0", "fixed newstyle"), ("--oldstyle", "oldstyle")] {
        let Some(server) = Nbdkit::start(&[option, "memory", "1M"]) else { return };
        let error = Export::connect(&server.uri(""), &[]).unwrap_err();
        assert!(matches!(error, NbdError::Protocol { .. }), "{error:?}");
        assert!(error.to_string().contains(part), "{error}");
    }
}

#[test]
fn contexts_that_the_server_does_not_have_are_left_out() {
    let Some(server) = Nbdkit::start(&["memory", "1M"]) else { return };
    let contexts = ["qemu:dirty-bitmap:x", nbd::ALLOCATION_CONTEXT, "x-other:y"];
    let export = Export::connect(&server.uri(""), &contexts).unwrap();
    assert_eq!(export.contexts().collect::<Vec<_>>(), [nbd::ALLOCATION_CONTEXT]);
}
