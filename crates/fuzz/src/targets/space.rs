//! Records and settings of space management.

use format::stub::{Bearer, State, Stub};
use xxhash_rust::xxh3::xxh3_64;

use crate::seeds::{golden, texts};
use crate::{PLAIN_BYTES_MAX, Target};

const CHECK_BYTES: usize = 8;

pub(super) const STUB: Target = Target {
    name: "stub",
    allocation_bytes_max: PLAIN_BYTES_MAX,
    seeds: stub_seeds,
    check: check_stub,
};

pub(super) const HSM_SETTINGS: Target = Target {
    name: "hsm_settings",
    allocation_bytes_max: PLAIN_BYTES_MAX,
    seeds: settings_seeds,
    check: check_settings,
};

pub(super) const HSM_REQUEST: Target = Target {
    name: "hsm_request",
    allocation_bytes_max: PLAIN_BYTES_MAX,
    seeds: || {
        let paths = vec![hsm::PathText(b"/data/a%\xff".to_vec())];
        let purge = hsm::Request::Purge { paths: paths.clone() };
        let recall = hsm::Request::Recall { paths, resident: true, preview: false };
        let written = [purge, recall].map(|request| serde_json::to_vec(&request));
        written.map(|written| written.expect("a request is data")).to_vec()
    },
    check: check_request,
};

fn check_request(input: &[u8]) {
    let Ok(request) = serde_json::from_slice::<hsm::Request>(input) else { return };
    let written = serde_json::to_string(&request).expect("a request is data");
    assert_eq!(serde_json::from_str::<hsm::Request>(&written).ok(), Some(request));
}

/// Records of version 1, and the same records with a bearer.
fn stub_seeds() -> Vec<Vec<u8>> {
    let mut records = golden("format", &["stub-premigrated", "stub-migrated"]);
    for number in 0..records.len() {
        let stub = Stub::decode(&records[number]).expect("a golden file");
        let bearer = Some(Bearer::of(&[3; 16], b"handle"));
        records.push(Stub { bearer, ..stub }.encode());
    }
    records
}

fn check_stub(input: &[u8]) {
    check_record(input);
    if let Some((body, _)) = input.split_last_chunk::<CHECK_BYTES>() {
        check_record(&[body, &xxh3_64(body).to_le_bytes()].concat());
    }
}

fn check_record(bytes: &[u8]) {
    let Ok(stub) = Stub::decode(bytes) else { return };
    assert_eq!(Stub::decode(&stub.encode()).as_ref(), Ok(&stub));
    if let State::Migrated(grains) = &stub.state {
        let whole = 0..stub.size;
        let mut filled = grains.clone();
        filled.set(&whole);
        assert!(filled.is_whole() && filled.missing(&whole).is_empty());
        let missing: u64 = grains.missing(&whole).iter().map(|hole| hole.end - hole.start).sum();
        assert!(missing <= stub.size && grains.is_whole() == (missing == 0));
    }
    let boot = stub.unsynced.as_ref().map_or(0, |sync| sync.boot.wrapping_add(1));
    let later = stub.as_of(boot);
    assert!(later.unsynced.is_none(), "after another start nothing is unsynced");
}

fn settings_seeds() -> Vec<Vec<u8>> {
    let filesystem = hsm::FilesystemSettings::new(b"/data/\xff%".to_vec());
    let settings = hsm::Settings { filesystems: vec![filesystem] };
    texts(&["", &toml::to_string(&settings).expect("settings are a table")])
}

fn check_settings(input: &[u8]) {
    let Ok(text) = str::from_utf8(input) else { return };
    let Ok(settings) = toml::from_str::<hsm::Settings>(text) else { return };
    let written = toml::to_string(&settings).expect("settings are a table");
    assert_eq!(toml::from_str(&written), Ok(settings));
}
