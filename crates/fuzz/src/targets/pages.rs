//! Directory pages, and lists of the blocks of a copy of the catalogue.

use format::catalog_copy::CatalogCopy;
use format::page;
use model::{Place, PlaceCode, SessionPlace};
use xxhash_rust::xxh3::xxh3_64;

use crate::seeds::golden;
use crate::{INPUT_BYTES_MAX, PLAIN_BYTES_MAX, Target};

/// Limit for the objects of one page, with its body and the encoded copy of it.
const PAGE_ALLOCATION_BYTES_MAX: u64 = 256 << 20;
const PAGE_HEADER_BYTES: usize = 6;
const CHECKSUM_BYTES: usize = 8;

pub(super) const PAGE: Target = Target {
    name: "page",
    allocation_bytes_max: PAGE_ALLOCATION_BYTES_MAX,
    seeds: page_seeds,
    check: check_page,
};

pub(super) const CATALOG_COPY: Target = Target {
    name: "catalog_copy",
    allocation_bytes_max: PLAIN_BYTES_MAX,
    seeds: || golden("format", &["catalog-copy"]),
    check: check_catalog_copy,
};

/// Returns golden pages as they are, and with a body that is not compressed, so that changes reach
/// the columns.
fn page_seeds() -> Vec<Vec<u8>> {
    let pages = golden("format", &["page", "page-sealed"]);
    let plain = pages.iter().map(|page| {
        let (header, body) = page.split_at(PAGE_HEADER_BYTES);
        match header[1] {
            0 => stored(body),
            _ => stored(&zstd::bulk::decompress(body, INPUT_BYTES_MAX).expect("a golden page")),
        }
    });
    let plain: Vec<_> = plain.collect();
    [pages, plain].concat()
}

/// Returns a page with this body and its checksum.
fn stored(body: &[u8]) -> Vec<u8> {
    let [a, b, c, d, ..] = xxh3_64(body).to_le_bytes();
    [&[1, 0, a, b, c, d], body].concat()
}

fn check_page(input: &[u8]) {
    check_page_of::<Place>(input);
    if let Some(body) = input.get(PAGE_HEADER_BYTES..) {
        let page = stored(body);
        check_page_of::<Place>(&page);
        check_page_of::<SessionPlace>(&page);
    }
}

fn check_page_of<P: PlaceCode + std::fmt::Debug>(bytes: &[u8]) {
    let names = page::decode_without_contents::<P>(bytes);
    let Ok(objects) = page::decode::<P>(bytes) else { return };
    let names = names.expect("a page that decodes also decodes without contents");
    let same = names.iter().zip(&objects).all(|(a, b)| a.name == b.name && a.stat == b.stat);
    assert!(names.len() == objects.len() && same, "both decoders find the same objects");
    assert_eq!(page::decode::<P>(&page::encode(&objects)).as_ref(), Ok(&objects));
}

fn check_catalog_copy(input: &[u8]) {
    check_list(input);
    if let Some((content, _)) = input.split_last_chunk::<CHECKSUM_BYTES>() {
        check_list(&[content, &xxh3_64(content).to_le_bytes()].concat());
    }
}

fn check_list(bytes: &[u8]) {
    let Ok(copy) = CatalogCopy::decode(bytes) else { return };
    assert_eq!(CatalogCopy::decode(&copy.encode()), Ok(copy));
}
