//! One target under libFuzzer, which keeps the inputs that reach new code and changes them further.
//!
//! libFuzzer reads the command line. Two variables say what the program does:
//! - `HOLDFAST_FUZZ_TARGET` names the target.
//! - `HOLDFAST_FUZZ_SEEDS` names a folder. The program writes the seeds and the kept inputs of each
//!   target into a folder of the target's name there, and ends.
//!
//! `make fuzz` builds this program so that the compiler marks the branches of the code. The stable
//! compiler can do that.

#![no_main]

use std::path::Path;
use std::sync::OnceLock;

use fuzz::{INPUT_BYTES_MAX, TARGETS, Target, kept_inputs};

static TARGET: OnceLock<Target> = OnceLock::new();

libfuzzer_sys::fuzz_target!(
    init: begin(),
    |input: &[u8]| {
        let target = TARGET.get().expect("it is chosen at the beginning");
        let input = &input[..input.len().min(INPUT_BYTES_MAX)];
        let used = allocation_counter::measure(|| (target.check)(input));
        assert!(
            used.bytes_max <= target.allocation_bytes_max,
            "{} bytes were allocated",
            used.bytes_max
        );
    }
);

fn begin() {
    if let Some(folder) = std::env::var_os("HOLDFAST_FUZZ_SEEDS") {
        TARGETS.iter().for_each(|target| write_seeds(Path::new(&folder), target));
        std::process::exit(0);
    }
    let name = std::env::var("HOLDFAST_FUZZ_TARGET").unwrap_or_default();
    let target = TARGETS.iter().find(|target| target.name == name);
    let target = target.expect("HOLDFAST_FUZZ_TARGET must name a target");
    assert!(TARGET.set(*target).is_ok(), "the target is chosen once");
}

fn write_seeds(folder: &Path, target: &Target) {
    let folder = folder.join(target.name);
    std::fs::create_dir_all(&folder).expect("the folder can be made");
    let inputs = [(target.seeds)(), kept_inputs(target.name)].concat();
    for (number, input) in inputs.iter().enumerate() {
        std::fs::write(folder.join(format!("seed-{number}")), input).expect("it is writable");
    }
}
