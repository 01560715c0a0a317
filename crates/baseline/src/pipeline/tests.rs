//! The published figures, old and slow machines, and any parts whatever.

use proptest::prelude::*;

use super::*;
use crate::facts::Cost;

/// A tree of sources on a fast disk, with the server on the same host: the machine and the tree of
/// `docs/performance/README.md`.
fn facts() -> Facts {
    Facts {
        processors: 2.0,
        speed: 1.0,
        memory_available: 20e9,
        objects: 285_005.0,
        directories: 20_000.0,
        small: Files { count: 264_800.0, bytes: 2.9e9 },
        large: Files { count: 262.0, bytes: 0.46e9 },
        day: Files { count: 2_650.0, bytes: 33e6 },
        file_system_bytes: 4e9,
        file_system_own_bytes: 0.0,
        walk_first: Cost { wait: 0.0, work: 1.2e-6 },
        walk_again: Cost { wait: 0.0, work: 1.0e-6 },
        read_small: Cost { wait: 0.0, work: 6e-6 },
        read_large: Cost { wait: 0.0, work: 0.1e-9 },
        create: Cost { wait: 0.0, work: 10e-6 },
        ratio_small: Estimate { value: 0.14, error: 0.005 },
        ratio_large: Estimate { value: 0.2, error: 0.02 },
        copies: Estimate { value: 0.01, error: 0.002 },
        cut: 3e9,
        digest: 7.5e9,
        compress: 0.97e9,
        decompress: 3.7e9,
        encrypt: 10e9,
        to_server: 1.5e9,
        from_server: 1.5e9,
        round_trip: 0.000_1,
        server_is_here: true,
        read_stream: 2e9,
        write_stream: 1e9,
        iops: Some((100_000.0, 32)),
    }
}

fn predicted(facts: &Facts, work: Work) -> Prediction {
    let all = predict(facts, &|_| None);
    all.into_iter().find(|one| one.work == work).expect("every work is predicted")
}

/// The published figures: a first backup in 9.6 s, nothing changed in 0.41 s, a restore in 7.1 s.
#[test]
fn the_published_figures_come_out() {
    for (work, secs) in [(Work::First, 9.6), (Work::Unchanged, 0.41), (Work::Restore, 7.1)] {
        let prediction = predicted(&facts(), work);
        assert_eq!(prediction.limit, Stage::Processor);
        let ratio = prediction.secs.likely / secs;
        assert!((0.75..1.33).contains(&ratio), "{work:?}: {:?}", prediction.secs);
    }
    let first = predicted(&facts(), Work::First);
    let sent = first.bytes_sent.likely / 508e6;
    assert!((0.8..1.25).contains(&sent), "{:?}", first.bytes_sent);
    assert!((0.9..1.1).contains(&(first.server_bytes.likely / 527e6)), "{:?}", first.server_bytes);
}

/// A system of 2010: two million files on a disk of 130 random reads a second, which need two of
/// them for each file and its inode. It reads 100 MB a second as a stream, and holds 400 GB.
fn disk_of_2010() -> Facts {
    let read = 1.0 / 130.0;
    Facts {
        processors: 4.0,
        speed: 0.2,
        objects: 2.1e6,
        directories: 1e5,
        small: Files { count: 1.99e6, bytes: 200e9 },
        large: Files { count: 1e4, bytes: 200e9 },
        file_system_bytes: 400e9,
        walk_first: Cost { wait: 0.1 * read, work: 5e-6 },
        walk_again: Cost { wait: 0.1 * read, work: 5e-6 },
        read_small: Cost { wait: 2.0 * read, work: 30e-6 },
        read_large: Cost { wait: 1.0 / 100e6, work: 0.5e-9 },
        compress: 0.4e9,
        digest: 2e9,
        server_is_here: false,
        read_stream: 100e6,
        iops: Some((130.0, 4)),
        ..facts()
    }
}

#[test]
fn a_slow_disk_is_better_read_as_an_image() {
    let facts = disk_of_2010();
    let first = predicted(&facts, Work::First);
    assert_eq!(first.limit, Stage::Disk);
    let hours = first.secs.likely / 3600.0;
    assert!((8.5..10.5).contains(&hours), "{hours}");
    let image = predicted(&facts, Work::Image);
    assert_eq!(image.limit, Stage::Disk);
    let hours = image.secs.likely / 3600.0;
    assert!((1.0..1.3).contains(&hours), "{hours}");
    let advice = &first.advice.0;
    assert!(advice.contains("130 random reads a second") && advice.contains("1.1 h"), "{advice}");
    // A walk of two million files at its measured rate.
    let walk = predicted(&facts, Work::Unchanged).secs.likely;
    assert!((walk / (2.1e6 * 0.1 / 130.0) - 1.0).abs() < 0.1, "{walk}");
}

/// The condition "130 reads a second" of `docs/performance/prediction.md`: 3000 files on a new ext4
/// of 4 GiB, of which the kernel calls 245 MiB used. The image was predicted to take 0.98 s, as if
/// it read 100 MiB, and took 3.86 s, because that device divides each read into two.
#[test]
fn an_image_reads_what_the_file_system_keeps_for_itself() {
    let stream = 130.0 * 1_048_576.0;
    let files = Facts {
        small: Files { count: 3000.0, bytes: 96e6 },
        large: Files::default(),
        file_system_bytes: 105e6,
        read_stream: stream,
        ..facts()
    };
    let whole = Facts { file_system_own_bytes: 151e6, ..files };
    let [without, with] = [&files, &whole].map(|facts| predicted(facts, Work::Image));
    assert_eq!(with.limit, Stage::Disk);
    assert!((with.bytes_read.likely / 256e6 - 1.0).abs() < 0.01, "{:?}", with.bytes_read);
    let added = with.secs.likely - without.secs.likely;
    assert!((added / (151e6 / stream) - 1.0).abs() < 0.1, "{added}");
    let ratio = with.secs.likely / 3.86;
    assert!((0.45..1.2).contains(&ratio), "{ratio}");
    // Zeros are not sent.
    assert_eq!(with.bytes_sent, without.bytes_sent);
    assert_eq!(with.server_bytes, without.server_bytes);
}

/// Images of small disks, as "image again" of `docs/performance/prediction.md`, wait for commits.
#[test]
fn an_image_waits_for_the_commits_of_data_parts_and_head() {
    let quick = Facts { read_stream: 1e11, ..facts() };
    let secs = |bytes, new_share| {
        let large = Files { count: 0.0, bytes };
        let amount = Amount { large, new_share: Some(new_share), ..Amount::default() };
        predict_amount(&quick, Work::Image, &amount).secs.likely
    };
    let (changed, same) = (secs(1e6, 1.0), secs(1e6, 0.0));
    assert!((0.1..0.12).contains(&changed), "{changed}");
    assert!((0.04..0.05).contains(&same), "{same}");
}

#[test]
fn an_image_compresses_only_the_blocks_that_are_new() {
    let image = |new_share| {
        let large = Files { count: 0.0, bytes: 4e9 };
        let amount = Amount { large, new_share, ..Amount::default() };
        predict_amount(&facts(), Work::Image, &amount)
    };
    let (first, again) = (image(None), image(Some(0.01)));
    assert_eq!((first.limit, again.limit), (Stage::Processor, Stage::Disk));
    assert!((again.server_bytes.likely / first.server_bytes.likely - 0.01).abs() < 1e-9);
    assert_eq!(first, predicted(&facts(), Work::Image));
}

#[test]
fn a_slow_link_limits_and_a_stronger_compression_is_advised() {
    let facts = Facts { to_server: 1.2e6, round_trip: 0.05, ..facts() };
    let first = predicted(&facts, Work::First);
    assert_eq!(first.limit, Stage::Network);
    let bound = first.bytes_sent.likely / 1.2e6;
    assert!(first.secs.likely > bound && first.secs.likely < 1.1 * bound, "{first:?}");
    assert!(first.advice.0.contains("stronger compression"), "{}", first.advice.0);
    // Only data that is sent waits for the link.
    assert!(predicted(&facts, Work::Unchanged).secs.likely < 2.0);
}

#[test]
fn earlier_backups_correct_the_next_prediction() {
    let plain = predicted(&facts(), Work::First).secs;
    let fitted = |work| (work == Work::First).then_some(Estimate { value: 1.5, error: 0.15 });
    let all = predict(&facts(), &fitted);
    let first = &all[0];
    assert!((first.secs.likely / plain.likely - 1.5).abs() < 1e-9 && first.fitted > 1.0);
    assert!((first.secs.most / first.secs.likely - 1.2).abs() < 1e-3, "{:?}", first.secs);
    assert!((all[1].fitted - 1.0).abs() < 1e-9);
}

/// A walk of nothing was predicted to take 0.01 s, from 0.008 s to 0.013 s, and took 0.004 s.
#[test]
fn a_short_time_has_a_wide_range() {
    let empty = Files::default();
    let small = Facts { objects: 11.0, directories: 1.0, small: empty, large: empty, ..facts() };
    let Range { least, likely, most } = predicted(&small, Work::Unchanged).secs;
    assert!(likely < 0.02 && least < 0.5 * likely && most > 0.04, "{least} {likely} {most}");
    let whole = predicted(&facts(), Work::First).secs;
    assert!(whole.most < 1.35 * whole.likely, "{whole:?}");
}

/// The restores of `docs/performance/prediction.md`: seconds predicted, and seconds that it took.
#[test]
fn the_range_of_a_restore_has_what_came() {
    let Range { least, likely, most } = predicted(&facts(), Work::Restore).secs;
    let restores = [
        (3.96, 9.61),
        (0.70, 0.80),
        (6.45, 13.72),
        (6.02, 8.72),
        (0.61, 0.80),
        (0.11, 0.16),
        (20.63, 19.72),
    ];
    let is_within = |(predicted, took): &&(f64, f64)| {
        let ratio = took / predicted;
        least / likely <= ratio && ratio <= most / likely
    };
    assert!(restores.iter().filter(is_within).count() >= 6, "{least} {likely} {most}");
}

#[test]
fn a_restore_makes_directories_too() {
    let few = facts();
    let more = 1e6;
    let many = Facts { objects: few.objects + more, directories: few.directories + more, ..few };
    let [few, many] = [few, many].map(|facts| predicted(&facts, Work::Restore).secs.likely);
    let each = (many - few) / more;
    assert!((10e-6..20e-6).contains(&each), "{each}");
}

#[test]
fn threads_that_are_never_short_of_work_wait_for_no_disk() {
    let busy = Cost::of(100.0, 1.0, 1.8, 2.0);
    assert!(busy.wait == 0.0 && (busy.work - 0.009).abs() < 1e-12, "{busy:?}");
    let waiting = Cost::of(100.0, 1.0, 0.2, 2.0);
    assert!((waiting.wait - 0.009).abs() < 1e-12 && (waiting.work - 0.001).abs() < 1e-12);
    assert_eq!(Cost::of(0.0, 1.0, 1.0, 2.0), Cost::default());
}

proptest! {
    /// Whatever the parts are, the slowest stage bounds the time, the range holds what is likely,
    /// and nothing is infinite.
    #[test]
    fn predictions_are_sound(
        rates in prop::array::uniform5(1e3..1e11_f64),
        waits in prop::array::uniform3(0.0..0.1_f64),
        objects in 1.0..1e9_f64,
        large in 0.0..1e14_f64,
        here in any::<bool>(),
    ) {
        let [to_server, from_server, compress, digest, read_stream] = rates;
        let cost = |wait| Cost { wait, work: 1e-6 };
        let facts = Facts {
            to_server, from_server, compress, digest, read_stream,
            walk_first: cost(waits[0]), read_small: cost(waits[1]), create: cost(waits[2]),
            objects,
            large: Files { count: (large / 1e8).ceil(), bytes: large },
            server_is_here: here,
            ..facts()
        };
        for one in predict(&facts, &|_| None) {
            let Range { least, likely, most } = one.secs;
            prop_assert!(least > 0.0 && least <= likely && likely <= most && most.is_finite());
            let slowest = one.stages.iter().map(|stage| stage.secs).fold(0.0, f64::max);
            prop_assert!(likely >= slowest);
            let limit = one.stages.iter().find(|stage| stage.stage == one.limit);
            prop_assert_eq!(limit.map(|stage| stage.secs), Some(slowest));
            prop_assert!(!one.advice.0.is_empty());
        }
    }
}
