//! Planned times and windows against a slow, obvious model, which walks through each minute of ten
//! years in three time zones.

use std::sync::OnceLock;

use jiff::Timestamp;
use jiff::civil::{Date, DateTime};
use proptest::prelude::*;

use super::zone::MINUTE_MICROS;
use super::*;
use jiff::tz::TimeZone;
use model::ServerTime;

const FIRST_YEAR: i16 = 2019;
const YEARS: i16 = 10;

/// Each minute of ten years, as its zone's clock on the wall shows it.
struct Minutes {
    zone: TimeZone,
    /// Begin of the ten years, in minutes since 1970.
    first: i64,
    /// Minutes on the wall since 1970, for each minute that passes.
    wall: Vec<i32>,
}

/// Berlin has summer time; Lord Howe changes by half an hour; Kathmandu is off by 5:45 hours.
const ZONES: [&str; 3] = ["Europe/Berlin", "Australia/Lord_Howe", "Asia/Kathmandu"];

fn minutes() -> &'static [Minutes; 3] {
    static MINUTES: OnceLock<[Minutes; 3]> = OnceLock::new();
    MINUTES.get_or_init(|| ZONES.map(Minutes::of))
}

impl Minutes {
    fn of(name: &str) -> Self {
        let zone = TimeZone::get(name).expect("is known");
        let begin = |year: i16| {
            let begin = Date::constant(year, 1, 1).at(0, 0, 0, 0);
            zone.to_timestamp(begin).expect("exists").as_second() / 60
        };
        let (first, end) = (begin(FIRST_YEAR), begin(FIRST_YEAR + YEARS));
        let on_the_wall = |minute: i64| {
            let at = Timestamp::from_second(minute * 60).expect("is in the calendar");
            let wall = minute + i64::from(zone.to_offset(at).seconds()) / 60;
            i32::try_from(wall).expect("is a time of our days")
        };
        let wall = (first..end).map(on_the_wall).collect();
        Self { zone, first, wall }
    }

    fn moment(&self, index: usize) -> ServerTime {
        let minute = self.first + i64::try_from(index).expect("fits");
        ServerTime(minute * MINUTE_MICROS)
    }

    /// Returns the index of each minute at which one of the times on the wall for which `is_meant`
    /// holds is reached for the first time.
    fn planned(&self, is_meant: impl Fn(i32) -> bool) -> Vec<usize> {
        let mut reached = self.wall[0] - 1;
        let mut planned = Vec::new();
        for (index, wall) in self.wall.iter().enumerate() {
            if (reached + 1..=*wall).any(&is_meant) {
                planned.push(index);
            }
            reached = reached.max(*wall);
        }
        planned
    }
}

/// A time on the wall, taken apart as in a calendar on paper.
#[derive(Clone, Copy)]
struct Paper {
    year: i16,
    month: i8,
    day: i8,
    days_in_month: i8,
    /// 0 for Monday.
    weekday: i32,
    minute: i32,
}

/// Returns what the calendar says for each day from the first of the ten years on.
fn paper(wall: i32) -> Paper {
    static DAYS: OnceLock<Vec<Paper>> = OnceLock::new();
    let first_day = i32::try_from(Date::constant(FIRST_YEAR - 1, 1, 1).to_days()).expect("fits");
    let days = DAYS.get_or_init(|| {
        let lengths = |year: i16| {
            let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
            [31, if is_leap { 29 } else { 28 }, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31]
        };
        let mut days = Vec::new();
        for year in FIRST_YEAR - 1..FIRST_YEAR + YEARS + 2 {
            for (month, days_in_month) in (1..).zip(lengths(year)) {
                for day in 1..=days_in_month {
                    let number = first_day + i32::try_from(days.len()).expect("fits");
                    // 1 January 1970 was a Thursday.
                    let weekday = (number + 3).rem_euclid(7);
                    days.push(Paper { year, month, day, days_in_month, weekday, minute: 0 });
                }
            }
        }
        days
    });
    let index = usize::try_from(wall.div_euclid(1440) - first_day).expect("is in the calendar");
    Paper { minute: wall.rem_euclid(1440), ..days[index] }
}

/// Days since 1970, for the model's begin.
trait ToDays {
    fn to_days(self) -> i64;
}

impl ToDays for Date {
    fn to_days(self) -> i64 {
        let noon = self.at(12, 0, 0, 0).to_zoned(TimeZone::UTC).expect("exists");
        noon.timestamp().as_second().div_euclid(86_400)
    }
}

/// A calendar with the sets from which it was made.
#[derive(Clone, Debug)]
struct PaperCalendar {
    minutes: Vec<i32>,
    months: Vec<i8>,
    days: PaperDays,
}

#[derive(Clone, Debug)]
enum PaperDays {
    OfMonth(Vec<i8>),
    OfWeek { weekdays: Vec<i32>, weeks: Vec<usize> },
}

impl PaperCalendar {
    fn means(&self, wall: i32) -> bool {
        let minute = wall.rem_euclid(1440);
        if !self.minutes.contains(&minute) {
            return false;
        }
        let paper = paper(wall);
        assert_eq!(paper.minute, minute);
        self.months.contains(&paper.month)
            && match &self.days {
                PaperDays::OfMonth(days) => {
                    let from_end = paper.day - paper.days_in_month - 1;
                    days.contains(&paper.day) || days.contains(&from_end)
                }
                PaperDays::OfWeek { weekdays, weeks } => {
                    let week = usize::try_from((paper.day - 1) / 7).expect("is positive");
                    let is_last = paper.day > paper.days_in_month - 7;
                    weekdays.contains(&paper.weekday)
                        && (weeks.contains(&week) || (is_last && weeks.contains(&5)))
                }
            }
    }

    fn calendar(&self) -> Calendar {
        let times: Vec<String> =
            self.minutes.iter().map(|at| format!("{:02}:{:02}", at / 60, at % 60)).collect();
        let names = |list: &[&str], indices: &mut dyn Iterator<Item = usize>| {
            indices.map(|index| list[index]).collect::<Vec<_>>().join(",")
        };
        let index = |number: &i8| usize::try_from(*number - 1).expect("is positive");
        const MONTHS: [&str; 12] =
            ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
        const DAYS: [&str; 7] = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"];
        const WEEKS: [&str; 6] = ["first", "second", "third", "fourth", "fifth", "last"];
        let days = match &self.days {
            PaperDays::OfMonth(days) => {
                let word = |day: &i8| match day {
                    -1 => "last".to_owned(),
                    before @ ..-1 => format!("last-{}", -before - 1),
                    day => day.to_string(),
                };
                let words: Vec<String> = days.iter().map(word).collect();
                Days::OfMonth { month_days: words.join(",").parse().expect("are days") }
            }
            PaperDays::OfWeek { weekdays, weeks } => {
                let mut indices =
                    weekdays.iter().map(|day| usize::try_from(*day).expect("is positive"));
                let weekdays = names(&DAYS, &mut indices).parse().expect("are weekdays");
                let weeks = names(&WEEKS, &mut weeks.iter().copied()).parse().expect("are weeks");
                Days::OfWeek { weekdays, weeks }
            }
        };
        let months = names(&MONTHS, &mut self.months.iter().map(index));
        Calendar {
            times: times.join(",").parse().expect("are times"),
            months: months.parse().expect("are months"),
            days,
        }
    }
}

fn wanted() -> impl Strategy<Value = PaperCalendar> {
    let some =
        |max: usize, count| proptest::sample::subsequence((0..max).collect::<Vec<_>>(), count);
    // Half of the times are around the changes to and from summer time.
    let minute = prop_oneof![0..1440, 90..220];
    let minutes = proptest::collection::vec(minute, 1..4);
    let months = some(12, 1..=12).prop_map(|months| {
        months.into_iter().map(|month| i8::try_from(month + 1).expect("fits")).collect()
    });
    let month_day = prop_oneof![1..=31_i8, -31..=-1_i8];
    let of_month = proptest::collection::vec(month_day, 1..4).prop_map(PaperDays::OfMonth);
    let of_week = (some(7, 1..=7), some(6, 1..=6)).prop_map(|(weekdays, weeks)| {
        let day = |day| i32::try_from(day).expect("fits");
        PaperDays::OfWeek { weekdays: weekdays.into_iter().map(day).collect(), weeks }
    });
    let days = prop_oneof![of_month, of_week];
    (minutes, months, days).prop_map(|(minutes, months, days)| PaperCalendar {
        minutes,
        months,
        days,
    })
}

fn timing(starts: Starts) -> Timing {
    Timing { starts, window_minutes: 60, spread_percent: 0, last_day: None, blackouts: Vec::new() }
}

/// Returns the time on the wall that is this number of minutes after 1970.
fn wall_time(minutes: i32) -> DateTime {
    let epoch = Date::constant(1970, 1, 1).at(0, 0, 0, 0);
    epoch
        .checked_add(jiff::Span::new().minutes(minutes))
        .expect("is in the calendar")
}

/// Compares the planned times after a moment with the model's.
fn check(minutes: &Minutes, timing: &Timing, model: &[usize], after: usize) {
    let after_moment = minutes.moment(after);
    let end = minutes.moment(minutes.wall.len());
    let planned: Vec<ServerTime> = timing
        .occurrences(&minutes.zone, after_moment)
        .map(|occurrence| occurrence.planned)
        .take_while(|planned| *planned < end)
        .collect();
    let model: Vec<ServerTime> = model
        .iter()
        .filter(|index| **index > after)
        .map(|index| minutes.moment(*index))
        .collect();
    assert_eq!(planned, model, "{timing:?} in {:?}", minutes.zone.iana_name());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn a_calendar_plans_what_the_clock_on_the_wall_shows(
        wanted in wanted(),
        zone in 0..3_usize,
        after in 0..(365 * 1440_usize),
    ) {
        let minutes = &minutes()[zone];
        let model = minutes.planned(|wall| wanted.means(wall));
        let timing = timing(Starts::Calendar(wanted.calendar()));
        check(minutes, &timing, &model, after);
    }

    #[test]
    fn an_interval_of_days_keeps_the_time_on_the_wall(
        (days, minute) in (1..40_i32, prop_oneof![0..1440_i32, 90..220]),
        (zone, after) in (0..3_usize, 0..(365 * 1440_usize)),
    ) {
        let minutes = &minutes()[zone];
        let first_day = minutes.wall[0].div_euclid(1440) + 1;
        let is_meant = |wall: i32| {
            let day = wall.div_euclid(1440) - first_day;
            wall.rem_euclid(1440) == minute && day >= 0 && day % days == 0
        };
        let model = minutes.planned(is_meant);
        let part = |number: i32| i8::try_from(number).expect("fits");
        let time = jiff::civil::time(part(minute / 60), part(minute % 60), 0, 0);
        let first = Date::constant(FIRST_YEAR, 1, 2).to_datetime(time);
        let every = Every::Days(days.unsigned_abs());
        check(minutes, &timing(Starts::Interval(Interval { first, every })), &model, after);
    }

    #[test]
    fn an_interval_of_months_keeps_the_day_and_the_time_on_the_wall(
        (months, day, minute) in (1..30_i32, 1..=31_i8, prop_oneof![0..1440_i32, 90..220]),
        (zone, after) in (0..3_usize, 0..(365 * 1440_usize)),
    ) {
        let minutes = &minutes()[zone];
        let is_meant = |wall: i32| {
            let paper = paper(wall);
            let passed = i32::from(paper.year - FIRST_YEAR) * 12 + i32::from(paper.month - 1);
            paper.minute == minute
                && passed >= 0
                && passed % months == 0
                && paper.day == day.min(paper.days_in_month)
        };
        let model = minutes.planned(is_meant);
        let part = |number: i32| i8::try_from(number).expect("fits");
        let time = jiff::civil::time(part(minute / 60), part(minute % 60), 0, 0);
        let first = Date::constant(FIRST_YEAR, 1, day).to_datetime(time);
        let every = Every::Months(months.unsigned_abs());
        check(minutes, &timing(Starts::Interval(Interval { first, every })), &model, after);
    }

    #[test]
    fn an_interval_of_minutes_counts_elapsed_time(
        (every, first) in (1..5000_usize, 0..100_000_usize),
        (zone, after) in (0..3_usize, 0..(365 * 1440_usize)),
    ) {
        let minutes = &minutes()[zone];
        let model: Vec<usize> = (first..minutes.wall.len()).step_by(every).collect();
        let wall: DateTime = zone::wall(minutes.moment(first), &minutes.zone);
        // A time on the wall that comes twice means the first.
        prop_assume!(zone::moment(wall, &minutes.zone) == Some(minutes.moment(first)));
        let every = Every::Minutes(u32::try_from(every).expect("fits"));
        let starts = Starts::Interval(Interval { first: wall, every });
        check(minutes, &timing(starts), &model, after);
    }

    #[test]
    fn a_window_opens_at_the_first_minute_that_no_blackout_covers(
        (from, to, weekdays) in (0..1440_i32, 0..1440_i32, 1..128_i32),
        (dated, dated_length) in (0..9 * 365 * 1440_i32, 1..20_000_i32),
        (planned, window) in (0..1440_i32, 1..3000_u32),
        zone in 0..3_usize,
    ) {
        let minutes = &minutes()[zone];
        let dated = minutes.wall[0] + dated..minutes.wall[0] + dated + dated_length;
        let has = |weekday: i32| weekdays & (1 << weekday) != 0;
        let is_dark = |wall: i32| {
            if dated.contains(&wall) {
                return true;
            }
            let (minute, paper) = (wall.rem_euclid(1440), paper(wall));
            let today = has(paper.weekday);
            let yesterday = has((paper.weekday + 6) % 7);
            if to > from {
                today && (from..to).contains(&minute)
            } else {
                (today && minute >= from) || (yesterday && minute < to)
            }
        };
        let clock = |minute: i32| format!("{:02}:{:02}", minute / 60, minute % 60);
        let names = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"];
        let names: Vec<&str> =
            (0..).zip(names).filter(|(day, _)| has(*day)).map(|(_, name)| name).collect();
        let text = format!("{} {}-{}", names.join(","), clock(from), clock(to));
        let calendar = Calendar {
            times: clock(planned).parse().expect("a time"),
            months: Months::all(),
            days: Days::OfWeek { weekdays: Weekdays::all(), weeks: Weeks::all() },
        };
        let timing = Timing {
            window_minutes: window,
            blackouts: vec![
                text.parse().expect("a blackout"),
                Blackout::Between { from: wall_time(dated.start), to: wall_time(dated.end) },
            ],
            ..timing(Starts::Calendar(calendar))
        };
        let window = usize::try_from(window).expect("fits");
        let model: Vec<(usize, usize)> = minutes
            .planned(|wall| wall.rem_euclid(1440) == planned)
            .into_iter()
            .filter(|index| index + window < minutes.wall.len())
            .filter_map(|index| {
                let opens = (index..index + window).find(|at| !is_dark(minutes.wall[*at]))?;
                Some((index, opens))
            })
            .filter(|(index, _)| *index > 0)
            .collect();
        let occurrences: Vec<Occurrence> = timing
            .occurrences(&minutes.zone, minutes.moment(0))
            .take(model.len())
            .collect();
        let model: Vec<Occurrence> = model
            .into_iter()
            .map(|(index, opens)| Occurrence {
                planned: minutes.moment(index),
                opens: minutes.moment(opens),
                closes: minutes.moment(index + window),
            })
            .collect();
        prop_assert_eq!(occurrences, model);
    }

    #[test]
    fn a_spread_start_is_in_its_part_of_the_window(
        (planned, length, late) in (0..30_000_000_i64, 1..43_200_i64, 0..43_200_i64),
        percent in 0..=100_u8,
        node in "[a-z]{1,12}",
    ) {
        let moment = |minute: i64| ServerTime(minute * MINUTE_MICROS);
        let occurrence = Occurrence {
            planned: moment(planned),
            // A blackout may have covered the beginning.
            opens: moment(planned + late % length),
            closes: moment(planned + length),
        };
        let timing = Timing { spread_percent: percent, ..timing(Starts::Once(0)) };
        let start = start_of(&timing, occurrence, &node);
        prop_assert!(occurrence.is_open(start));
        let width = occurrence.closes.0 - occurrence.opens.0;
        prop_assert!((start.0 - occurrence.opens.0) * 100 <= width * i64::from(percent));
        prop_assert_eq!(start_of(&timing, occurrence, &node), start);
    }
}
