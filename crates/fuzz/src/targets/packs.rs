//! Headers and footers of packs.

use format::DamageError;
use format::pack::{HEADER_BYTES, Header, TRAILER_BYTES, Table, Trailer};
use xxhash_rust::xxh3::xxh3_64;

use crate::seeds::golden;
use crate::{PLAIN_BYTES_MAX, Target};

const CHECKED_BYTES: usize = 24;

pub(super) const PACK_HEADER: Target = Target {
    name: "pack_header",
    allocation_bytes_max: PLAIN_BYTES_MAX,
    seeds: || golden("format", &["pack-header"]),
    check: check_header,
};

pub(super) const PACK_FOOTER: Target = Target {
    name: "pack_footer",
    allocation_bytes_max: PLAIN_BYTES_MAX,
    seeds: || golden("format", &["pack-footer"]),
    check: check_footer,
};

fn check_header(input: &[u8]) {
    for_header(input);
    if let Some(head) = input.first_chunk::<HEADER_BYTES>() {
        let mut head = *head;
        let checksum = xxh3_64(&head[..CHECKED_BYTES]).to_le_bytes();
        head[CHECKED_BYTES..].copy_from_slice(&checksum);
        for_header(&head);
    }
}

fn for_header(bytes: &[u8]) {
    let Ok(header) = Header::decode(bytes) else { return };
    assert_eq!(Header::decode(&header.encode()), Ok(header));
}

/// The input is a footer with its trailer.
fn check_footer(input: &[u8]) {
    let Some((footer, trailer)) = input.split_last_chunk::<TRAILER_BYTES>() else { return };
    for_footer(footer, trailer);
    let mut trailer = *trailer;
    let footer_bytes = u32::try_from(footer.len()).expect("an input is short");
    trailer[8..12].copy_from_slice(&footer_bytes.to_le_bytes());
    trailer[12..16].fill(0);
    trailer[16..24].copy_from_slice(&xxh3_64(footer).to_le_bytes());
    trailer[24..].copy_from_slice(b"HFPACKND");
    for_footer(footer, &trailer);
}

fn for_footer(footer: &[u8], trailer: &[u8; TRAILER_BYTES]) {
    let Ok(table) = open(footer, trailer) else { return };
    let again = table.encode_footer();
    let (footer, trailer) = again.split_last_chunk().expect("it has a trailer");
    let found = table.quanta().iter().map(|quantum| quantum.first_index);
    assert!(found.clone().all(|index| table.chunk(index).is_some()), "each quantum has a chunk");
    assert_eq!(open(footer, trailer), Ok(table));
}

fn open(footer: &[u8], trailer: &[u8; TRAILER_BYTES]) -> Result<Table, DamageError> {
    let [offset, ..] = trailer.as_chunks().0 else { unreachable!("a trailer has 32 bytes") };
    let pack_bytes =
        u64::from_le_bytes(*offset).saturating_add((footer.len() + TRAILER_BYTES) as u64);
    Trailer::decode(trailer, pack_bytes)?.open(footer)
}
