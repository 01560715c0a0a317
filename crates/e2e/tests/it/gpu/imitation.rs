//! Backups with an imitation of a GPU, whose driver and nvCOMP are two small libraries. Whatever
//! becomes of the GPU, the data comes back.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use e2e::harness::binary;
use e2e::nasty::Random;
use serde_json::Value;

use super::{allow_gpu, audit, configure};
use crate::scene::Scene;

const DRIVER: &str = include_str!("driver.c");
const NVCOMP: &str = include_str!("nvcomp.c");
/// Size of the data, in bytes: four batches of a GPU and more.
const BYTES: usize = 128 << 20;
/// Lengths of the noise and of the zeros of which data consists by turns, in bytes.
const NOISE_BYTES: usize = 4 << 10;
const ZERO_BYTES: usize = 12 << 10;

/// Imitation of a GPU, and the outcome of a backup.
struct Case {
    /// Macros of the libraries, as `NAME` or `NAME=VALUE`.
    driver: &'static [&'static str],
    nvcomp: &'static [&'static str],
    /// Part of the only line about the GPU; `None` if there is no such line.
    says: Option<&'static str>,
    /// A compressor that has taken part.
    by: &'static str,
}

const SOUND: Case = Case { driver: &[], nvcomp: &[], says: None, by: "gpu" };
/// Text about a frame that has other data.
const WRONG: Option<&str> = Some("Imitation made a frame that has other data");

const CASES: [Case; 6] = [
    SOUND,
    // Memory for one lane.
    Case { driver: &["MEMORY=200000000"], ..SOUND },
    Case { driver: &["MEMORY=0"], says: Some("memory"), by: "threads", ..SOUND },
    Case {
        driver: &["RESET_AFTER=4"],
        says: Some("CUDA_ERROR_ILLEGAL_ADDRESS"),
        by: "threads",
        ..SOUND
    },
    Case { nvcomp: &["BAD_BATCH=1"], says: WRONG, by: "threads", ..SOUND },
    // However late the GPU is opened, the first quantum and a full queue are two batches.
    Case { nvcomp: &["BAD_BATCH=2"], says: WRONG, by: "threads", ..SOUND },
];

/// A scene with the libraries of an imitation.
struct Imitation {
    scene: Scene,
    folder: PathBuf,
}

/// Outcome of a backup.
#[derive(Debug)]
struct Backup {
    /// Lines about the GPU.
    said: Vec<String>,
    compressors: Vec<String>,
}

/// Compiles a library of `source` with some macros.
fn compile(library: &Path, source: &str, macros: &[&str]) {
    let code = library.with_extension("c");
    fs::write(&code, source).unwrap();
    let built = Command::new("cc")
        .args(macros.iter().map(|name| format!("-D{name}")))
        .args(["-O1", "-shared", "-fPIC", "-o"])
        .arg(library)
        .arg(&code)
        .status()
        .expect("a C compiler, which the build needs too");
    assert!(built.success(), "{} is not compiled", code.display());
}

impl Imitation {
    fn new(driver: &[&str], nvcomp: &[&str]) -> Self {
        let scene = Scene::new();
        let folder = scene.scratch.folder("libraries");
        compile(&folder.join("libcuda.so"), DRIVER, driver);
        let library = folder.join("libnvcomp.so");
        compile(&library, NVCOMP, nvcomp);
        configure(&scene, &format!("nvcomp = \"{}\"", library.display()));
        Self { scene, folder }
    }

    /// Makes an imitation whose driver is no library.
    fn broken() -> Self {
        let imitation = Self::new(&[], &[]);
        for name in ["libcuda.so", "libcuda.so.1"] {
            fs::write(imitation.folder.join(name), b"\x7fELF and nothing more").unwrap();
        }
        imitation
    }

    /// Runs a command that backs up by the GPU, to its success.
    #[track_caller]
    fn back_up(&self, words: &[&str], input: Option<&Path>) -> Backup {
        self.run(&[words, &["--compression", "gpu"]].concat(), input)
    }

    /// Runs a command that backs up, to its success.
    #[track_caller]
    fn run(&self, words: &[&str], input: Option<&Path>) -> Backup {
        let input = input.map_or_else(Stdio::null, |path| File::open(path).unwrap().into());
        let output = Command::new(binary())
            .args(words)
            .args(["--json", "--home"])
            .arg(self.scene.node.home())
            .env("LD_LIBRARY_PATH", &self.folder)
            .env("LC_ALL", "C")
            .stdin(input)
            .output()
            .unwrap();
        let messages = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{words:?}: {messages}");
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        let name = |compressor: &Value| compressor["name"].as_str().unwrap().to_owned();
        Backup {
            said: messages
                .lines()
                .filter(|line| line.contains("GPU"))
                .map(str::to_owned)
                .collect(),
            compressors: report["compressors"].as_array().unwrap().iter().map(name).collect(),
        }
    }
}

impl Case {
    fn imitation(&self) -> Imitation {
        Imitation::new(self.driver, self.nvcomp)
    }

    #[track_caller]
    fn check(&self, backup: &Backup) {
        let shown = format!("{:?} {:?}: {backup:?}", self.driver, self.nvcomp);
        let said: Vec<&str> = backup.said.iter().map(String::as_str).collect();
        match (self.says, &said[..]) {
            (None, []) => {}
            (Some(text), [line]) => assert!(line.contains(text), "{shown}"),
            _ => panic!("a failure is said once: {shown}"),
        }
        assert!(backup.compressors.iter().any(|name| name == self.by), "{shown}");
    }
}

/// Returns data that shrinks to a quarter, and of which no part occurs twice.
fn data(seed: u64, bytes: usize) -> Vec<u8> {
    let noise = Random::new(seed, b"imitation").bytes(bytes / 4);
    let mut data = Vec::with_capacity(bytes);
    for noise in noise.chunks(NOISE_BYTES) {
        data.extend_from_slice(noise);
        data.resize(data.len() + ZERO_BYTES, 0);
    }
    data
}

#[test]
fn files_come_back_whatever_becomes_of_the_gpu() {
    let content = data(1, BYTES);
    for case in &CASES {
        let imitation = case.imitation();
        let scene = &imitation.scene;
        fs::write(scene.tree.join("data"), &content).unwrap();
        let words = ["backup", scene.tree.to_str().unwrap()];
        case.check(&imitation.back_up(&words, None));
        let restored = scene.restore("out", &[]).join("data");
        assert!(fs::read(restored).unwrap() == content, "{:?} {:?}", case.driver, case.nvcomp);
    }
}

/// An input that is read only once ends well too: nothing of it is needed a second time.
#[test]
fn standard_input_comes_back_whatever_becomes_of_the_gpu() {
    let content = data(2, BYTES);
    for case in &CASES {
        let imitation = case.imitation();
        let scene = &imitation.scene;
        let input = scene.scratch.join("input");
        fs::write(&input, &content).unwrap();
        case.check(&imitation.back_up(&["backup", "--stdin", "dump"], Some(&input)));
        let out = scene.scratch.folder("out");
        scene.node.restore(Path::new("/stdin/dump"), &out, &[]).expect(&[0]);
        let restored = fs::read(out.join("dump")).unwrap();
        assert!(restored == content, "{:?} {:?}", case.driver, case.nvcomp);
    }
}

#[test]
fn an_image_comes_back_whatever_becomes_of_the_gpu() {
    let content = data(3, BYTES);
    for case in &CASES {
        let imitation = case.imitation();
        let scene = &imitation.scene;
        let disk = scene.scratch.join("disk");
        fs::write(&disk, &content).unwrap();
        let words = ["image", "backup", disk.to_str().unwrap(), "--name", "disk"];
        case.check(&imitation.back_up(&words, None));
        let copy = scene.scratch.join("copy");
        let words = ["image", "restore", "disk", copy.to_str().unwrap()];
        scene.node.run(&words).expect(&[0]);
        assert!(fs::read(copy).unwrap() == content, "{:?} {:?}", case.driver, case.nvcomp);
    }
}

/// Checks that threads do all the work, and that the only line about the GPU has `text`, also for a
/// reader of details.
#[track_caller]
fn check_unusable(imitation: &Imitation, text: &str) {
    let scene = &imitation.scene;
    for (seed, options) in [(4, &["-v"][..]), (9, &[][..])] {
        let content = data(seed, 4 << 20);
        fs::write(scene.tree.join("data"), &content).unwrap();
        let words = ["backup", scene.tree.to_str().unwrap()];
        let backup = imitation.back_up(&[&words[..], options].concat(), None);
        assert!(backup.said.len() == 1 && backup.said[0].contains(text), "{backup:?}");
        assert!(backup.said[0].contains("no GPU compresses; threads do"), "{backup:?}");
        assert_eq!(backup.compressors, ["threads"], "{backup:?}");
        let restored = scene.restore(&format!("out-{seed}"), &[]).join("data");
        assert!(fs::read(restored).unwrap() == content, "{text}");
    }
}

#[test]
fn a_driver_that_is_old_or_incomplete_is_named_with_the_reason() {
    let old = Imitation::new(&["VERSION=11080"], &[]);
    check_unusable(&old, "the NVIDIA driver is for CUDA 11.8; 12.1 or newer is needed");
    let incomplete = Imitation::new(&["INCOMPLETE"], &[]);
    check_unusable(&incomplete, "the NVIDIA driver lacks cuLaunchKernel");
}

#[test]
fn a_driver_that_is_broken_is_named_with_the_loaders_reason() {
    check_unusable(&Imitation::broken(), "libcuda.so.1: file too short");
}

/// An automatic choice says why it cannot use a GPU, but only for a reader of details.
#[test]
fn an_automatic_choice_says_what_it_has_found_among_the_details() {
    let imitation = Imitation::broken();
    let tree = &imitation.scene.tree;
    for (seed, options, lines) in [(5, &["-v"][..], 1), (6, &[][..], 0)] {
        fs::write(tree.join("data"), data(seed, 4 << 20)).unwrap();
        let words = ["backup", tree.to_str().unwrap(), "--compression", "auto"];
        let backup = imitation.run(&[&words[..], options].concat(), None);
        assert_eq!(backup.said.len(), lines, "{backup:?}");
        assert!(backup.said.iter().all(|line| line.contains("file too short")), "{backup:?}");
        assert_eq!(backup.compressors, ["threads"], "{backup:?}");
    }
}

#[test]
fn a_library_that_is_missing_or_broken_is_named_with_the_loaders_reason() {
    let imitation = Imitation::new(&[], &[]);
    fs::remove_file(imitation.folder.join("libnvcomp.so")).unwrap();
    check_unusable(&imitation, "libnvcomp.so: cannot open shared object file");
    let imitation = Imitation::new(&[], &[]);
    fs::write(imitation.folder.join("libnvcomp.so"), b"\x7fELF and nothing more").unwrap();
    check_unusable(&imitation, "libnvcomp.so: file too short");
}

#[test]
fn a_library_of_another_version_is_named_with_its_version() {
    let old = Imitation::new(&[], &["NVCOMP=4200"]);
    check_unusable(&old, "is nvCOMP 4.2; version 6 is needed");
}

/// The node has sent the data as it is. The server makes it smaller with and without the GPU.
#[test]
fn data_is_compressed_anew_whatever_becomes_of_the_gpu() {
    let content = data(8, 24 << 20);
    for (driver, is_by_gpu, says) in [
        (&["RESET_AFTER=2"][..], false, "the GPU has failed; threads compress data anew"),
        (&[][..], true, "a GPU compresses data anew"),
    ] {
        let Imitation { mut scene, folder } = Imitation::new(driver, &[]);
        scene.keep_only_active();
        fs::write(scene.tree.join("data"), &content).unwrap();
        fs::write(scene.tree.join("gone"), Random::new(9, b"gone").bytes(8 << 20)).unwrap();
        scene.node.backup(&scene.tree, &["--compression", "none"]).expect(&[0]);
        allow_gpu(&scene, &format!("nvcomp = \"{}\"", folder.join("libnvcomp.so").display()));
        scene
            .server
            .set_environment(&[&format!("LD_LIBRARY_PATH={}", folder.display())]);
        // Only sealed packs are reclaimed. A restart seals them.
        scene.server.restart();
        fs::remove_file(scene.tree.join("gone")).unwrap();
        scene.node.backup(&scene.tree, &["--confirm"]).expect(&[0]);
        scene.server.admin(&["expire"]);
        let words = ["reclaim", "--dead-percent", "10", "--recompress", "1"];
        let done = scene.server.admin(&words);
        let count = |key: &str| done["recompression"][key].as_u64().unwrap();
        assert!(count("bytes_after") < count("bytes_before") / 2, "{done}");
        assert_eq!(count("gpu_bytes") > 0, is_by_gpu, "{done}");
        let restored = scene.restore("out", &[]).join("data");
        assert!(fs::read(restored).unwrap() == content, "{driver:?}");
        let log = scene.server.terminate().expect(&[0]);
        assert!(log.messages().iter().any(|line| line.contains(says)), "{log}");
    }
}

/// The imitation opens no data. Threads open it, and the log of the server says why.
#[test]
fn an_audit_finds_the_same_if_its_gpu_fails() {
    let Imitation { mut scene, folder } = Imitation::new(&[], &[]);
    fs::write(scene.tree.join("data"), data(7, 8 << 20)).unwrap();
    scene.backup();
    let before = audit(&scene);
    allow_gpu(&scene, &format!("nvcomp = \"{}\"", folder.join("libnvcomp.so").display()));
    scene
        .server
        .set_environment(&[&format!("LD_LIBRARY_PATH={}", folder.display())]);
    scene.server.restart();
    assert_eq!(audit(&scene), before);
    let log = scene.server.terminate().expect(&[0]);
    let failed = "the GPU has failed; threads open the data";
    let said = log.messages().iter().filter(|line| line.contains(failed)).count();
    assert_eq!(said, 1, "{log}");
}
