//! Files that programs of root copy together with their records.

use xxhash_rust::xxh3::xxh3_64;

use super::*;

const RECORD: &str = "trusted.hf";
const CHECK_BYTES: usize = 8;
/// Place of the bearer in a record.
const BEARER: std::ops::Range<usize> = 52..59;

/// A way to copy a stub with its attributes: a shell script with the paths of the stub and of the
/// copy.
type Way = (&'static str, &'static str);

/// The last way copies the record as it was before the content was read, as rsync does.
const WAYS_TO_COPY: [Way; 3] = [
    ("cp", "cp -a \"$1\" \"$2\""),
    ("mv", "mv \"$1\" \"$2\""),
    (
        "record first",
        "record=$(getfattr --absolute-names -e hex -n trusted.hf \"$1\" | \
         sed -n 's/^trusted.hf=//p'); cat \"$1\" > \"$2\"; touch -r \"$1\" \"$2\"; \
         setfattr -n trusted.hf -v \"$record\" \"$2\"",
    ),
];

impl Space {
    /// Makes another file system of the same node, which is managed from the next start on.
    pub(super) fn add_another(&self, mkfs: &[&str]) -> Image {
        let image = self.unmanaged(mkfs);
        self.node().run(&["hsm", "add", image.path().to_str().unwrap()]).expect(&[0]);
        image
    }

    /// Makes and mounts another file system, which is not managed.
    pub(super) fn unmanaged(&self, mkfs: &[&str]) -> Image {
        let (file, folder) =
            (self.scene.scratch.join("image-2"), self.scene.scratch.join("data-2"));
        Image::mount(&file, IMAGE_BYTES, mkfs, &folder).expect("one was made before")
    }

    /// Makes another managed file system of the same node.
    pub(super) fn another(&mut self, mkfs: &[&str]) -> Image {
        let image = self.add_another(mkfs);
        self.kill_all();
        self.start(&[]);
        image
    }
}

#[test]
fn a_record_that_is_copied_with_its_file_costs_no_content() {
    for kind in KINDS {
        let Some(mut space) = Space::new(kind, &[]) else { continue };
        let other = space.another(kind);
        for (number, (way, script)) in WAYS_TO_COPY.iter().enumerate() {
            for (folder, place) in [(other.path(), "elsewhere"), (&space.fs(), "beside it")] {
                let about = format!("{} {way} {place}", kind[0]);
                let content = noise(number as u64, MIB + 17);
                let stub = space.stub(&format!("{number}-{}", place.len()), &content);
                let copy = folder.join(format!("copy-{number}"));
                assert!(shell(script, &stub, &copy), "{about}");
                assert!(fs::read(&copy).unwrap() == content, "{about}: the copy");
                space.migrate(&copy);
                assert!(fs::read(&copy).unwrap() == content, "{about}: the migrated copy");
                drop(fs::remove_file(stub));
            }
        }
        let copies = space.hsm(&["reconcile"], other.path()).expect(&[0]).json();
        assert_eq!(copies["kept"], WAYS_TO_COPY.len(), "each copy should have its own: {copies}");
        drop(space.keeper.take());
    }
}

/// Replaces the record of a file by the record that version 1 would have written.
fn make_old(path: &Path) {
    let mut value = vec![0; 8192];
    let bytes = rustix::fs::getxattr(path, RECORD, &mut value[..]).unwrap();
    let mut record = value[..bytes - CHECK_BYTES].to_vec();
    record.drain(BEARER);
    record[..4].copy_from_slice(b"HFS1");
    let check = xxh3_64(&record).to_le_bytes();
    let old = [&record[..], &check].concat();
    rustix::fs::setxattr(path, RECORD, &old, rustix::fs::XattrFlags::empty()).unwrap();
}

#[test]
fn a_record_of_the_old_version_is_recalled_and_costs_no_content() {
    let Some(mut space) = Space::new(KINDS[0], &[]) else { return };
    let other = space.another(KINDS[0]);
    let content = noise(1, MIB + 17);
    let stub = space.stub("stub", &content);
    make_old(&stub);
    assert_eq!(space.state(&stub), "m");
    assert!(fs::read(&stub).unwrap() == content);
    // The file is premigrated, and its record still does not say which file it describes.
    space.wait_for("the record", || space.state(&stub) == "p");
    make_old(&stub);
    let copy = other.path().join("copy");
    assert!(shell("cp -a \"$1\" \"$2\"", &stub, &copy));
    for path in [&stub, &copy] {
        space.migrate(path);
        assert!(fs::read(path).unwrap() == content, "{}", path.display());
    }
    let copies = |fs: &Path| space.hsm(&["reconcile"], fs).expect(&[0]).json()["kept"].clone();
    assert_eq!(copies(&space.fs()), 1, "the server has confirmed the old copy");
    assert_eq!(copies(other.path()), 1, "the copy of the file has a copy of its own");
    drop(space.keeper.take());
}
