//! The virtual library of `tgt`: a changer with ten slots, two import/export elements and two
//! drives, at a loopback address.

use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use e2e::clock;
use e2e::harness::{Process, Server, is_root, start};
use e2e::scratch::Scratch;

pub(crate) const TARGET: &str = "iqn.2026-01.test:vtl";
pub(crate) const TAPES: [&str; 4] = ["A00001L8", "A00002L8", "A00003L8", "A00004L8"];
const CLEANER: &str = "CLN001L1";
const TAPE_MEBIBYTES: &str = "16";
const PROGRAMS: [&str; 4] = ["tgtd", "tgtadm", "tgtimg", "setpriv"];
const START_MAX: Duration = Duration::from_secs(120);
const LOOK: Duration = Duration::from_millis(50);

/// A running `tgt`. It is killed when this value is dropped, or when the test's process ends.
pub(crate) struct Tgt {
    server: Process,
    folder: Scratch,
    port: u16,
}

/// Returns the reason why `tgt` cannot run on this machine, as far as that is known before it
/// starts.
fn missing() -> Option<String> {
    if !is_root() {
        return Some("root is needed".to_owned());
    }
    let folders = ["/usr/sbin", "/usr/bin", "/usr/local/sbin", "/usr/local/bin"];
    let is_there = |program: &str| folders.iter().any(|at| Path::new(at).join(program).is_file());
    let absent = PROGRAMS.into_iter().find(|program| !is_there(program));
    absent.map(|program| format!("{program} is not installed"))
}

impl Tgt {
    /// Starts `tgt`, or prints why the test is left out.
    pub(crate) fn start() -> Option<Self> {
        if let Some(reason) = missing() {
            e2e::skip::say(&reason);
            return None;
        }
        let folder = Scratch::new();
        let port = Server::free_port();
        // This number names the socket for the setup of `tgt`. It is at most 32767.
        let control = (port % 30_000 + 1).to_string();
        let portal = format!("portal=127.0.0.1:{port}");
        let words = ["--pdeathsig", "KILL", "tgtd", "-f", "--control-port", &control];
        let arguments = words.into_iter().chain(["--iscsi", &portal]).map(Into::into);
        let arguments: Vec<_> = arguments.collect();
        let server = start("setpriv".as_ref(), &arguments, folder.path(), None);
        let tgt = Self { server, folder, port };
        tgt.wait_until_it_listens();
        set_up(tgt.folder.path(), &control);
        Some(tgt)
    }

    fn wait_until_it_listens(&self) {
        let address = SocketAddr::from(([127, 0, 0, 1], self.port));
        let end = clock::now() + START_MAX;
        while TcpStream::connect_timeout(&address, LOOK).is_err() {
            assert!(!self.server.ends_within(LOOK), "the server has ended");
            assert!(clock::now() < end, "the server does not listen");
        }
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    pub(crate) fn address(&self, lun: u16) -> String {
        format!("iscsi://127.0.0.1:{}/{TARGET}/{lun}", self.port)
    }
}

#[track_caller]
fn run(program: &str, arguments: &[&str]) {
    let output = Command::new(program).args(arguments).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {arguments:?}: {said}");
}

fn set_up(folder: &Path, control: &str) {
    let path = |name: &str| folder.join(name).to_str().unwrap().to_owned();
    let image = |barcode: &str, kind: &str, file: &str| {
        let common = ["--op", "new", "--device-type", "tape", "--barcode", barcode];
        let sized = ["--size", TAPE_MEBIBYTES, "--type", kind, "--file", file];
        run("tgtimg", &[common, sized].concat());
    };
    for barcode in TAPES {
        image(barcode, "data", &path(barcode));
    }
    image(CLEANER, "clean", &path(CLEANER));
    image("", "clean", &path("notape"));
    std::fs::write(folder.join("smc"), [0; 1024]).unwrap();
    let admin = |arguments: &[&str]| {
        let common = ["--control-port", control, "--lld", "iscsi", "--tid", "1", "--mode"];
        run("tgtadm", &[&common[..], arguments].concat());
    };
    let unit = |lun: &str, arguments: &[&str]| {
        admin(&[&["logicalunit", "--lun", lun][..], arguments].concat());
    };
    admin(&["target", "--op", "new", "-T", TARGET]);
    for lun in ["1", "2"] {
        let backing = path("notape");
        unit(lun, &["--op", "new", "--device-type", "tape", "--bstype", "ssc", "-b", &backing]);
        let named = format!("vendor_id=IBM,product_id=ULT3580-TD8,scsi_sn=DRV0000{lun}");
        unit(lun, &["--op", "update", "--params", &format!("{named},removable=1,online=0")]);
    }
    let backing = path("smc");
    unit("4", &["--op", "new", "--device-type", "changer", "--bstype", "smc", "-b", &backing]);
    let home = format!("media_home={}", folder.display());
    for parameter in elements(&home) {
        unit("4", &["--op", "update", "--params", &parameter]);
    }
    admin(&["target", "--op", "bind", "-I", "127.0.0.1"]);
}

fn elements(home: &str) -> Vec<String> {
    let mut parameters: Vec<String> = [
        "vendor_id=STK,product_id=L700,product_rev=0001,scsi_sn=CHG00001,removable=1",
        home,
        "element_type=1,start_address=1,quantity=1",
        "element_type=2,start_address=1000,quantity=10",
        "element_type=3,start_address=700,quantity=2",
        "element_type=4,start_address=500,quantity=2",
        "element_type=4,address=500,tid=1,lun=1",
        "element_type=4,address=501,tid=1,lun=2",
    ]
    .map(str::to_owned)
    .into();
    let cartridges = TAPES.into_iter().chain([CLEANER]);
    parameters.extend((1000..).zip(cartridges).map(|(address, barcode)| {
        format!("element_type=2,address={address},barcode={barcode},sides=1")
    }));
    parameters
}
