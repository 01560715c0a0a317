//! Content-defined cutting: FastCDC of 2020, normalisation level 3.
//!
//! Cut points are part of the disk format: with other cuts, deduplication would find no old chunk.
//! Therefore the major version of the crate `fastcdc` is pinned, and a test compares known cuts.

use fastcdc::v2020::{FastCDC, Normalization};
use model::{CHUNK_BYTES_MAX, CHUNK_BYTES_MEAN, CHUNK_BYTES_MIN};

/// Returns the length of the first chunk of `data`, or `None` if more data is needed to find its
/// end.
///
/// `data` must start at a cut. `at_end` is true if no more data follows; the result is then `None`
/// only for empty data.
pub fn cut(data: &[u8], at_end: bool) -> Option<usize> {
    if data.len() < CHUNK_BYTES_MAX && !at_end {
        return None;
    }
    if data.len() <= CHUNK_BYTES_MIN {
        return (!data.is_empty()).then_some(data.len());
    }
    let window = &data[..data.len().min(CHUNK_BYTES_MAX)];
    let level = Normalization::Level3;
    let cutter =
        FastCDC::with_level(window, CHUNK_BYTES_MIN, CHUNK_BYTES_MEAN, CHUNK_BYTES_MAX, level);
    let (_, length) = cutter.cut(0, window.len());
    assert!((1..=window.len()).contains(&length), "a cut lies within the data");
    Some(length)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn noise(bytes: usize, mut seed: u64) -> Vec<u8> {
        let mut next = || {
            seed = seed
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            seed.to_le_bytes()[6]
        };
        (0..bytes).map(|_| next()).collect()
    }

    fn cuts(data: &[u8]) -> Vec<usize> {
        let mut at = 0;
        let mut lengths = Vec::new();
        while let Some(length) = cut(&data[at..], true) {
            lengths.push(length);
            at += length;
        }
        assert_eq!(at, data.len());
        lengths
    }

    #[test]
    fn small_data_is_one_chunk() {
        assert_eq!(cut(&[], true), None);
        assert_eq!(cut(&[0; 10], true), Some(10));
        assert_eq!(cut(&[0; CHUNK_BYTES_MIN], true), Some(CHUNK_BYTES_MIN));
        assert_eq!(cut(&[0; CHUNK_BYTES_MIN], false), None);
    }

    #[test]
    fn cuts_stay_within_their_limits() {
        for data in [noise(5 << 20, 1), vec![0; 5 << 20]] {
            let lengths = cuts(&data);
            let (_, inner) = lengths.split_last().expect("not empty");
            assert!(inner.iter().all(|l| (CHUNK_BYTES_MIN..=CHUNK_BYTES_MAX).contains(l)));
        }
    }

    #[test]
    fn an_insertion_moves_few_cuts() {
        let data = noise(16 << 20, 7);
        let mut edited = data.clone();
        edited.splice(5_000_000..5_000_000, *b"five!");
        let (before, after) = (cuts(&data), cuts(&edited));
        let common_tail =
            before.iter().rev().zip(after.iter().rev()).take_while(|(a, b)| a == b).count();
        let common_head = before.iter().zip(&after).take_while(|(a, b)| a == b).count();
        assert!(before.len() > 40 && before.len() - common_head - common_tail <= 4);
    }

    #[test]
    fn known_cuts_stay_where_they_are() {
        let known = [
            429_494, 266_360, 332_476, 264_654, 293_859, 270_518, 140_813, 315_106, 291_419,
            263_409, 277_620,
        ];
        assert_eq!(cuts(&noise(3 << 20, 42)), known);
    }
}
