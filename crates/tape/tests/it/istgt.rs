//! Tests with `istgt`, an iSCSI target with two tape drives that know LOCATE(10) and READ POSITION.
//!
//! Known faults that the crate hides: blocks are counted from 1; short blocks are reported
//! as whole blocks; blocks of less than 128 bytes are refused, so volumes pad them. Known faults
//! that remain visible: SPACE and LOCATE over a border are hardware errors; two filemarks are
//! regarded as the end of data; a drive has only the cartridge with which its unit was set up;
//! tapes have no end.

use std::fmt::Write as _;
use std::path::Path;

use tape::drive::{Drive, LocateMethod, PositionMethod};
use tape::medium::Medium;

use crate::scenario::{self, Site};
use crate::server::{self, Server};

struct Drives {
    drives: Vec<Drive>,
    _server: Server,
    _folder: tempfile::TempDir,
}

impl Drives {
    fn start() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let port = server::free_port();
        configure(folder.path(), port);
        let configuration = folder.path().join("istgt.conf");
        let path = configuration.to_str().expect("plain");
        let server = server::start("istgt", &["-D", "-c", path], port);
        let drive = |target| {
            let mut drive = Drive::open(server::open(port, target, 0)).expect("the drive answers");
            drive.load().expect("a tape is in the drive");
            drive
        };
        let drives = ["iqn.2026-01.test:drv1", "iqn.2026-01.test:drv2"].map(drive).into();
        Self { drives, _server: server, _folder: folder }
    }
}

fn configure(folder: &Path, port: u16) {
    let control = server::free_port();
    let at = folder.display();
    let mut text = format!(
        "[Global]
  NodeBase \"iqn.2026-01.test\"
  PidFile {at}/istgt.pid
  AuthFile {at}/auth.conf
  MediaDirectory {at}
  LogFacility \"local7\"
  Timeout 30
  NopInInterval 20
  DiscoveryAuthMethod None
  MaxSessions 16
  MaxConnections 4
  MaxR2T 32
  MaxOutstandingR2T 16
  DefaultTime2Wait 2
  DefaultTime2Retain 60
  FirstBurstLength 262144
  MaxBurstLength 1048576
  MaxRecvDataSegmentLength 262144
  InitialR2T Yes
  ImmediateData Yes
  DataPDUInOrder Yes
  DataSequenceInOrder Yes
  ErrorRecoveryLevel 0
[UnitControl]
  AuthMethod None
  Portal UC1 127.0.0.1:{control}
  Netmask 127.0.0.1
[PortalGroup1]
  Portal DA1 127.0.0.1:{port}
[InitiatorGroup1]
  InitiatorName \"ALL\"
  Netmask 127.0.0.0/8
"
    );
    for unit in 1..=2 {
        write!(
            text,
            "[LogicalUnit{unit}]
  TargetName drv{unit}
  Mapping PortalGroup1 InitiatorGroup1
  AuthMethod None
  UseDigest Auto
  UnitType Tape
  UnitOnline Yes
  UnitInquiry \"IBM\" \"ULT3580-TD8\" \"0001\" \"DRV0000{unit}\"
  LUN0 Removable \"rw,dynamic\" {at}/t{unit}.vt auto
"
        )
        .expect("a string takes all");
    }
    std::fs::write(folder.join("istgt.conf"), text).expect("a file");
    std::fs::write(folder.join("auth.conf"), "").expect("a file");
}

impl Site for Drives {
    fn tape(&mut self, index: usize) -> &mut dyn Medium {
        &mut self.drives[index]
    }

    fn ends(&self) -> bool {
        false
    }
}

#[test]
fn volumes_on_tapes_of_istgt() {
    if server::is_missing(&["istgt"]) {
        return;
    }
    let mut drives = Drives::start();
    scenario::run_all(&mut drives);
    assert_eq!(drives.drives[0].ways(), (LocateMethod::Ten, PositionMethod::Long));
}
