//! Files that people write, addresses, and the kernel's table of mounts.

use std::fs;
use std::path::Path;

use pool::BucketUrl;
use store::folder::Config;
use tape::address::Address;

use super::scratch::with_folder;
use crate::seeds::texts;
use crate::{PLAIN_BYTES_MAX, Target};

const SERVER: &str = "listen = \"[::]:1500\"\npool = \"file:packs\"\ncatalog = \"sqlite:\"\n";
const SERVER_MORE: &str = "certificate_days = 90\nexpire_every_hours = 0\nundo_days = 7\n";
const CLIENT: &str = "server = \"127.0.0.1:1500\"\nnode = \"anna\"\n";

pub(super) const ADDRESS: Target = Target {
    name: "address",
    allocation_bytes_max: PLAIN_BYTES_MAX,
    seeds: || {
        texts(&[
            "/dev/sg3",
            "iscsi://[::1]:3260/iqn.2026-01.test:vtl/4",
            "s3://packs/of/one?endpoint=https://s3.example.org:3900&region=garage&style=virtual",
            "s3://packs?class=STANDARD_IA&lock=compliance&credentials=/etc/keys&checksum=none",
        ])
    },
    check: check_address,
};

pub(super) const SERVER_TOML: Target = Target {
    name: "server_toml",
    allocation_bytes_max: PLAIN_BYTES_MAX,
    seeds: || texts(&[SERVER, &format!("{SERVER}{SERVER_MORE}")]),
    check: check_server,
};

pub(super) const CLIENT_TOML: Target = Target {
    name: "client_toml",
    allocation_bytes_max: PLAIN_BYTES_MAX,
    seeds: || {
        let more = "snapshot = \"auto\"\npre_command = \"sync\"\npost_command = \"\"\n\
                    [tuning]\ncompression = \"auto\"\ntransaction_objects = 9\n";
        texts(&[CLIENT, &format!("{CLIENT}{more}")])
    },
    check: check_client,
};

pub(super) const TAPE_TOML: Target = Target {
    name: "tape_toml",
    allocation_bytes_max: PLAIN_BYTES_MAX,
    seeds: || {
        let devices = "[[library]]\nname = \"big\"\nchanger = \"/dev/sg1\"\n\
                       drives = [\"/dev/sg2\", \"iscsi://h:99/t/0\"]\n";
        let folder = "[[library]]\nname = \"a\"\nfolder = \"/srv/tapes\"\ncapacity = 1000000\n";
        texts(&[devices, folder, &format!("{folder}{devices}")])
    },
    check: check_tape,
};

pub(super) const KEY_FILE: Target = Target {
    name: "key_file",
    allocation_bytes_max: PLAIN_BYTES_MAX,
    seeds: key_seeds,
    check: check_keys,
};

pub(super) const MOUNT_TABLE: Target = Target {
    name: "mount_table",
    allocation_bytes_max: PLAIN_BYTES_MAX,
    seeds: || {
        texts(&["22 1 8:2 / / rw - ext4 /dev/sda2 rw\n\
                 30 22 0:25 /sub /mnt/with\\040blank rw shared:1 - btrfs /dev/sdb rw\n\
                 31 30 0:26 / /mnt/with\\040blank rw - tmpfs tmpfs rw\n"])
    },
    check: check_mounts,
};

fn check_address(input: &[u8]) {
    let Ok(text) = str::from_utf8(input) else { return };
    if let Ok(address) = text.parse::<Address>() {
        assert_eq!(address.to_string().parse(), Ok(address));
    }
    if let Ok(url) = text.parse::<BucketUrl>() {
        assert_eq!(url.to_string().parse().as_ref(), Ok(&url));
        assert!(url.overlaps(&url));
    }
}

fn check_server(input: &[u8]) {
    let Ok(text) = str::from_utf8(input) else { return };
    let Ok(config) = toml::from_str::<Config>(text) else { return };
    let written = toml::to_string(&config).expect("a configuration is a table");
    assert_eq!(toml::from_str(&written).as_ref(), Ok(&config));
    drop(store::folder::config::pool_folder(&config.pool, Path::new("/srv")));
}

/// Makes the folder of an enrolled node, and calls `look` with it.
fn with_home(client: &[u8], look: impl FnOnce(&Path)) {
    with_folder(|folder| {
        fs::write(folder.join("client.toml"), client).expect("the folder is writable");
        fs::write(folder.join("node.pem"), b"").expect("the folder is writable");
        look(folder);
    });
}

fn check_client(input: &[u8]) {
    with_home(input, |home| drop(client::standing(home, false)));
}

fn check_tape(input: &[u8]) {
    with_folder(|folder| {
        fs::write(folder.join("tape.toml"), input).expect("the folder is writable");
        let Ok(settings) = tape::settings::Settings::load(folder) else { return };
        let names: Vec<_> = settings.libraries().iter().map(|library| &library.name).collect();
        assert!(names.is_sorted_by(|a, b| a < b), "each name occurs once: {names:?}");
        assert!(names.iter().all(|name| settings.site(name).is_some()));
    });
}

fn key_seeds() -> Vec<Vec<u8>> {
    let mut file = Vec::new();
    with_home(CLIENT.as_bytes(), |home| {
        drop(fs::remove_file(home.join("encryption.keys")));
        client::keys::create(home).expect("the folder is writable");
        client::keys::create(home).expect("the folder is writable");
        file = fs::read(home.join("encryption.keys")).expect("just written");
    });
    vec![file]
}

fn check_keys(input: &[u8]) {
    with_home(CLIENT.as_bytes(), |home| {
        let path = home.join("encryption.keys");
        fs::write(&path, input).expect("the folder is writable");
        let Ok(keys) = client::keys::list(home) else { return };
        let lines: Vec<_> = keys.iter().map(|key| key.written.clone()).collect();
        fs::write(&path, lines.join("\n")).expect("the folder is writable");
        assert_eq!(client::keys::list(home).expect("written keys can be read"), keys);
    });
}

fn check_mounts(input: &[u8]) {
    for path in [&b"/"[..], b"/mnt/with blank", b""] {
        drop(sys::mount::mounted_in(input, path));
        let below = sys::mount::point_below(input, path);
        assert!(below.is_none_or(|point| point.starts_with(path)));
    }
    let mounts = policy::local::parse_mounts(input);
    let standings = policy::local::decide(&mounts, |_| true, &[b"/".to_vec()]);
    assert_eq!(standings.len(), mounts.len(), "each mount has a decision");
}
