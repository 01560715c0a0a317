//! Packs of one number in two pools on disks.
//!
//! Mostly they are one pack, which a drain has copied and has not removed yet. But a number may
//! have been given twice: a pool was away that had a pack of which the catalogue knew nothing, and
//! a server made another pack with its number meanwhile. Readers would take one pack for the other.
//! So the pack that the catalogue does not know is set aside: its file gets a name that no pack
//! has.

use std::collections::BTreeMap;
use std::sync::Arc;

use format::pack::{QuantumEntry, Table};
use model::{PackNumber, PoolId};

use crate::disk;
use crate::error::ReadError;
use crate::member::Member;
use crate::pack::{PackRecord, pack_bytes};
use crate::storage::{Distance, PackStorage};
use crate::table::{self, DigestOf};

/// A pack of another pool that has the number of a pack of the newcomer.
pub(crate) struct Namesake {
    pub(crate) pack: PackNumber,
    pool: PoolId,
    storage: Arc<dyn PackStorage>,
}

/// Returns true if the packs of the pool are compared: new packs are made there, and their footers
/// can be read at once.
fn is_compared(member: &Member) -> bool {
    member.is_primary() && member.storage.distance() == Distance::Disk
}

/// Lists the packs of `members` that have numbers of packs of `newcomer`. Does no I/O.
pub(crate) fn list<'a>(
    newcomer: &Member,
    members: impl Iterator<Item = &'a Member>,
) -> Vec<Namesake> {
    let mut found = Vec::new();
    if !is_compared(newcomer) {
        return found;
    }
    for member in members.filter(|member| member.id() != newcomer.id() && is_compared(member)) {
        let common = newcomer.packs().keys().copied().filter(|pack| member.has(*pack));
        found.extend(common.map(|pack| {
            let storage = Arc::clone(&member.storage);
            Namesake { pack, pool: member.id(), storage }
        }));
    }
    found
}

/// Sets aside the packs of `newcomer` and of `namesakes` that are not the packs that the catalogue
/// knows under these numbers. `newcomer` loses its own. Returns the packs that other pools have
/// lost.
pub(crate) fn settle(
    newcomer: &mut Member,
    namesakes: &[Namesake],
    records: &BTreeMap<PackNumber, PackRecord>,
    digest_of: &DigestOf,
) -> Vec<(PoolId, PackNumber)> {
    let mut lost = Vec::new();
    for Namesake { pack, pool, storage } in namesakes {
        let record = records.get(pack).copied().unwrap_or_default();
        let known = table_of(&**storage, *pack, digest_of);
        let own = table_of(&*newcomer.storage, *pack, digest_of);
        match stranger(&own, &known, record) {
            Some(Side::Newcomer) => {
                set_aside(&*newcomer.storage, *pack);
                newcomer.remove(*pack);
            }
            Some(Side::Namesake) => {
                set_aside(&**storage, *pack);
                lost.push((*pool, *pack));
            }
            None => {}
        }
    }
    lost
}

/// One of two packs with the same number.
#[derive(PartialEq, Eq, Debug)]
enum Side {
    Newcomer,
    Namesake,
}

/// Returns the pack that is not the one that the catalogue knows: `own` is the table of the
/// newcomer's pack, and `known` that of the other one, which stays if the record fits both or none.
/// Returns `None` if they are one pack, or if this cannot be decided now.
fn stranger(
    own: &Result<Table, ReadError>,
    known: &Result<Table, ReadError>,
    record: PackRecord,
) -> Option<Side> {
    let known = known.as_ref().ok()?;
    match own {
        Ok(own) if fits(own, record) && !fits(known, record) => Some(Side::Namesake),
        // Two packs may begin alike: a client sends again what a dead server has not recorded.
        Ok(own) if fits(known, record) && !fits(own, record) => Some(Side::Newcomer),
        // The shorter one may have lost its end.
        Ok(own) if is_beginning(own, known) || is_beginning(known, own) => None,
        Ok(_) => Some(Side::Newcomer),
        Err(error) if error.is_loss() => Some(Side::Newcomer),
        Err(_) => None,
    }
}

/// Returns true if the pack with the table `whole` begins with the pack with the table `part`.
fn is_beginning(part: &Table, whole: &Table) -> bool {
    part.chunk_count() <= whole.chunk_count() && whole.until(part.chunk_count()) == *part
}

/// Returns true if the pack with this table may be the pack of the record: a sync ends with a
/// quantum.
fn fits(table: &Table, record: PackRecord) -> bool {
    if record.sealed {
        return pack_bytes(table) == record.bytes;
    }
    let ends = |quantum: &QuantumEntry| quantum.offset + u64::from(quantum.record_bytes);
    record.bytes == 0 || table.quanta().iter().any(|quantum| ends(quantum) == record.bytes)
}

/// Returns the table of a pack, which is computed from the records if the pack has no footer.
fn table_of(
    storage: &dyn PackStorage,
    pack: PackNumber,
    digest_of: &DigestOf,
) -> Result<Table, ReadError> {
    let source = storage.open(pack, None)?;
    let read = match table::read_table(&*source, pack) {
        Err(error) if error.is_loss() => table::scan_table(&*source, pack, digest_of),
        read => read,
    };
    read.inspect_err(|error| disk::note_read(storage, error))
}

/// Gives the pack's file a name that no pack has.
pub(crate) fn set_aside(storage: &dyn PackStorage, pack: PackNumber) {
    let place = storage.files().place();
    let place = place.display();
    match storage.set_aside(pack) {
        Ok(()) => tracing::error!(
            %pack, %place, "another pool has another pack of this number: the file was set aside"
        ),
        Err(error) => {
            disk::note_pack(storage, pack, "rename", &error);
            tracing::error!(
                %pack, %place, %error,
                "another pool has another pack of this number: the file cannot be set aside"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use model::{ChunkDigest, DomainId};

    use super::*;

    /// Returns the table of pack 7, whose quanta have one chunk each, with these digests.
    fn table(digests: &[u8]) -> Table {
        let mut table = Table::new(PackNumber(7), DomainId(1));
        for digest in digests {
            table.push(100 + usize::from(*digest), &[10], &[ChunkDigest([*digest; 32])]);
        }
        table
    }

    fn record(sealed: bool, bytes: u64) -> PackRecord {
        PackRecord { sealed, bytes }
    }

    #[test]
    fn the_pack_that_the_catalogue_knows_stays() {
        let [own, known] = [&[1, 2][..], &[3, 4]].map(|digests| Ok(table(digests)));
        let whole = |table: &Result<Table, ReadError>| pack_bytes(table.as_ref().unwrap());
        let synced = table(&[1]).end();
        for (record, expected) in [
            (PackRecord::default(), Side::Newcomer),
            (record(true, whole(&own)), Side::Namesake),
            (record(true, whole(&known)), Side::Newcomer),
            (record(true, 1), Side::Newcomer),
            (record(false, synced), Side::Namesake),
            (record(false, synced + 1), Side::Newcomer),
        ] {
            assert_eq!(stranger(&own, &known, record), Some(expected), "{record:?}");
        }
    }

    #[test]
    fn a_pack_that_a_drain_has_copied_is_one_pack() {
        let [whole, part] = [&[1, 2][..], &[1]].map(|digests| Ok(table(digests)));
        for (own, known) in [(&whole, &whole), (&whole, &part), (&part, &whole)] {
            assert_eq!(stranger(own, known, PackRecord::default()), None);
        }
    }

    #[test]
    fn of_two_packs_that_begin_alike_the_recorded_one_stays() {
        let [long, short] = [&[1, 2][..], &[1]].map(|digests| Ok(table(digests)));
        let of_long = record(true, pack_bytes(long.as_ref().unwrap()));
        assert_eq!(stranger(&short, &long, of_long), Some(Side::Newcomer));
        assert_eq!(stranger(&long, &short, of_long), Some(Side::Namesake));
    }

    #[test]
    fn nothing_is_decided_while_a_disk_does_not_answer() {
        let pack = PackNumber(7);
        let silent = || Err(ReadError::Disk { pack, source: std::io::ErrorKind::TimedOut.into() });
        let (own, none) = (Ok(table(&[1])), PackRecord::default());
        assert_eq!(stranger(&own, &silent(), none), None);
        assert_eq!(stranger(&silent(), &own, none), None);
        let damaged = Err(ReadError::damaged(pack, "it has no header"));
        assert_eq!(stranger(&damaged, &own, none), Some(Side::Newcomer));
        assert_eq!(stranger(&own, &damaged, none), None);
    }
}
