//! Packs that move while somebody reads them.

use std::sync::{OnceLock, Weak};

use super::*;

/// A shelf from which a drain moves a pack to a folder in the moment in which a reader opens it.
struct MovingShelf {
    from: FileShelf,
    to: PathBuf,
    pools: OnceLock<Weak<Pools>>,
}

impl Shelf for MovingShelf {
    fn packs(&self) -> std::io::Result<BTreeMap<PackNumber, u64>> {
        self.from.packs()
    }

    fn open(&self, pack: PackNumber) -> Result<File, ReadError> {
        if let Some(pools) = self.pools.get().and_then(Weak::upgrade) {
            let to = layout::make_for(&self.to, pack).expect("a folder");
            std::fs::rename(layout::path(&self.from.folder, pack), to).expect("moved");
            pools.look_for(pack);
        }
        self.from.open(pack)
    }

    fn forget(&self, pack: PackNumber) -> std::io::Result<()> {
        self.from.forget(pack)
    }

    fn arrival(&self, pack: PackNumber) -> Option<std::time::SystemTime> {
        self.from.arrival(pack)
    }
}

/// A restore beside a drain said that a pack had lost its chunks.
#[test]
fn a_pack_that_moves_while_it_is_opened_is_read_where_it_is() {
    let folders = [(); 3].map(|()| tempfile::tempdir().expect("a folder"));
    let [disk, on_volumes, volumes] = folders.each_ref().map(tempfile::TempDir::path);
    let from = FileShelf { folder: volumes.to_owned() };
    let shelf = Arc::new(MovingShelf { from, to: disk.to_owned(), pools: OnceLock::new() });
    let mut shelved = spec(2, Role::Primary, on_volumes);
    shelved.storage = Storage::Shelf(shelf.clone());
    let specs = [spec(1, Role::Primary, disk), shelved];
    let opened = Pools::open(&specs, Numbers::Own(PackNumber(1)), &BTreeMap::new(), digest_of);
    let pools = Arc::new(opened.expect("folders").0);
    let place = append(&pools, &[b"one".to_vec()]);
    let pack = place.pack();
    pools.seal_all().expect("sealed");
    let volume = layout::make_for(volumes, pack).expect("a folder");
    std::fs::copy(pack_file(disk), volume).expect("written");
    pools.shelved(pack, PoolId(2)).expect("whole");
    pools.remove_from(PoolId(1), pack).expect("removed");
    assert_eq!(pools.homes(pack), [PoolId(2)]);
    shelf.pools.set(Arc::downgrade(&pools)).expect("set once");
    assert_eq!(read(&pools, place).expect("it is somewhere"), b"one");
    assert_eq!(pools.homes(pack), [PoolId(1), PoolId(2)]);
}
