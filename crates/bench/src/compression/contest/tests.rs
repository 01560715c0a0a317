//! Tests of the figures of a row, with invented times.

use super::*;

/// Results of one round with these rows.
pub(crate) fn results(gpu: Result<String, String>, rows: Vec<Row>) -> Results {
    Results {
        gpu,
        rows,
        rounds: 1,
        seconds: 20,
        cores: 2,
        corpus: Vec::new(),
        in_memory: true,
        load_before: String::new(),
        load_after: String::new(),
    }
}

/// Returns the row of a set over `road`. `walls` has the seconds of each choice; `None` for a
/// refused choice.
pub(crate) fn row(road: Road, walls: [Option<u64>; CHOICES.len()]) -> Row {
    let sample = |secs| Sample {
        wall: Duration::from_secs(secs),
        client_cpu: Duration::from_secs(1),
        bytes_transferred: 1_000_000,
        ..Sample::default()
    };
    let samples = walls.map(|wall| wall.map(sample).into_iter().collect());
    let restores = walls.map(|wall| wall.map(sample).into_iter().collect());
    let kind = Kind::named("1M").unwrap();
    Row { kind, road, files: 2, bytes: 4_000_000, samples, restores }
}

#[test]
fn a_set_is_cut_to_what_the_road_carries() {
    assert_eq!(ROADS[0].bytes(1 << 40, 20), 1 << 40);
    assert_eq!(ROADS[2].bytes(1 << 40, 20), 25_000_000);
    assert_eq!(ROADS[2].bytes(1000, 20), 1000);
}

#[test]
fn sets_in_which_auto_uses_no_gpu_are_named() {
    let warning = |set_bytes, seconds, roads: &[Road]| {
        small_sets(&Order {
            set_bytes,
            seconds,
            rounds: 1,
            kinds: Vec::new(),
            roads: roads.to_vec(),
            corpus: Vec::new(),
            work: PathBuf::new(),
            nvcomp: None,
        })
    };
    let text = warning(5 << 29, 20, &ROADS).expect("the default sets are small");
    assert!(text.contains("over loopback, 1 Gbit/s, 10 Mbit/s: "), "{text}");
    let text = warning(4 << 30, 20, &ROADS).expect("links cut the sets");
    assert!(text.contains("over 1 Gbit/s, 10 Mbit/s: "), "{text}");
    assert_eq!(warning(4 << 30, 35, &ROADS[..2]), None);
}

#[test]
fn auto_is_judged_by_the_best_fixed_choice() {
    let walls = |auto| [Some(4), Some(8), Some(2), Some(4), Some(8), None, auto];
    assert_eq!(row(ROADS[0], walls(Some(4))).auto_to_best(), Some(0.5));
    assert_eq!(row(ROADS[0], walls(None)).auto_to_best(), None);
    let one = row(ROADS[0], walls(Some(2)));
    assert_eq!(one.auto_to_best(), Some(1.0));
    assert_eq!(one.ratio(0), Some(Spread::of([4.0])));
    assert_eq!(one.restore_rate(2), Some(Spread::of([2e6])));
    assert_eq!(one.restore_rate(GPU), None);
}
