//! Names, paths, and the short texts of the model.

use model::{
    BatchId, CopyId, DirPath, Name, NodeName, archive_filespace, archive_number, escaped,
    is_backup_filespace, is_space_filespace, mount_point, parse_bytes, space_filespace,
};

use crate::seeds::texts;
use crate::{PLAIN_BYTES_MAX, Target};

pub(super) const NAME: Target = Target {
    name: "name",
    allocation_bytes_max: PLAIN_BYTES_MAX,
    seeds: || {
        let plain = ["name", "/", "/usr/share/", "/00000000000000ff/", "00ff", "\0space\0/home"];
        let mut seeds = texts(&plain);
        seeds.push(b"\0".repeat(3));
        seeds.push(archive_filespace(17, b"/home/\xff"));
        seeds
    },
    check: check_name,
};

pub(super) const TEXT: Target = Target {
    name: "text",
    allocation_bytes_max: PLAIN_BYTES_MAX,
    seeds: || texts(&["2.5G", "12", "8T", "web-01.example.org"]),
    check: check_text,
};

fn check_name(input: &[u8]) {
    if let Ok(name) = Name::new(input) {
        assert_eq!(name.as_bytes(), input);
        let holder = if name == Name::root() { DirPath::above_root() } else { DirPath::root() };
        assert!(holder.can_hold(&name), "each name has a place");
        assert_eq!(holder.child(&name).parent(), Some((holder, name.clone())));
        if let Some(index) = CopyId::index_of(&name) {
            assert_eq!(CopyId { batch: BatchId(0), index }.name(), name);
        }
    }
    if let Ok(directory) = DirPath::new(input) {
        if let Some((parent, name)) = directory.parent() {
            assert_eq!(parent.child(&name), directory);
            assert!(parent.contains(&directory));
        }
        let end = directory.end_of_subtree();
        assert!(end.is_none_or(|end| end.as_slice() > directory.as_bytes()));
        if let Some(batch) = BatchId::of_directory(&directory) {
            assert_eq!(batch.directory(), directory);
        }
    }
    check_filespace(input);
    assert!(escaped(input).chars().all(|character| !character.is_control()));
}

fn check_filespace(filespace: &[u8]) {
    let mount_point = mount_point(filespace);
    if let Some(number) = archive_number(filespace) {
        assert_eq!(archive_filespace(number, mount_point), filespace, "a filespace has one name");
    }
    if is_space_filespace(filespace) {
        assert_eq!(space_filespace(mount_point), filespace);
    }
    if is_backup_filespace(filespace) {
        assert_eq!(mount_point, filespace);
    }
}

fn check_text(input: &[u8]) {
    let Ok(text) = str::from_utf8(input) else { return };
    for unit in [1, 1024, 1 << 20] {
        if let Ok(bytes) = parse_bytes(text, unit) {
            assert_eq!(parse_bytes(&bytes.to_string(), 1).ok(), Some(bytes));
        }
    }
    if let Ok(name) = NodeName::new(text) {
        assert_eq!(name.as_str(), text);
    }
}
