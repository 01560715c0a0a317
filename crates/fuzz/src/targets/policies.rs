//! Patterns, statements, policy sets and schedules.

use std::fmt::{Debug, Display};
use std::str::FromStr;

use model::{ClassId, Kind};
use policy::schedule::{Blackout, Definition, MonthDays, Months, Times, Weekdays, Weeks};
use policy::settings::{
    self, SetOption, Share, directory_words, find, is_plain_directory, path_words, split_words,
};
use policy::statement::parse_list;
use policy::{
    Limit, Mode, Operation, Pattern, PolicySet, Selection, Serialization, Source, Statement,
    Treatment,
};

use crate::seeds::texts;
use crate::{PLAIN_BYTES_MAX, Target};

/// Limit for the statements of a list, with their patterns.
const STATEMENTS_ALLOCATION_BYTES_MAX: u64 = 64 << 20;
/// Maximum length, in bytes, of a pattern that is matched here. The time of a match grows with the
/// product of the lengths.
const MATCHED_BYTES_MAX: usize = 1000;
const PATHS: [&[u8]; 4] = [b"/", b"/srv/anna/notes.txt", b"/a/a/a/a/a/a/b", b"/\xff/[x]/\\*"];

pub(super) const PATTERN: Target = Target {
    name: "pattern",
    allocation_bytes_max: PLAIN_BYTES_MAX,
    seeds: || {
        texts(&["*.o", "/home/.../cache/", "/srv/data[0-9a-f]/f?o", "/.../[abc]*", "a\\*\\[b"])
    },
    check: check_pattern,
};

pub(super) const STATEMENTS: Target = Target {
    name: "statements",
    allocation_bytes_max: STATEMENTS_ALLOCATION_BYTES_MAX,
    seeds: || texts(&[LIST]),
    check: check_statements,
};

pub(super) const POLICY_SET: Target = Target {
    name: "policy_set",
    allocation_bytes_max: PLAIN_BYTES_MAX,
    seeds: || {
        let set = serde_json::to_string(&PolicySet::standard(ClassId(1))).expect("it is data");
        texts(&[&set, "NOLIMIT", "9999", "modified", "shrdynamic"])
    },
    check: check_policy_set,
};

pub(super) const SETTING: Target = Target {
    name: "setting",
    allocation_bytes_max: PLAIN_BYTES_MAX,
    seeds: || {
        texts(&[
            "compression=19",
            "txnbytelimit=25600",
            "limits=mon-fri 08:00-18:00 send=10M receive=20MiB; send=50M",
            "paths=all-local, -/scratch, /odd\\x2c\\xff\\\\",
            "agent-commands=none",
            "wait=2h",
            "5.25%",
        ])
    },
    check: check_setting,
};

pub(super) const SCHEDULE: Target = Target {
    name: "schedule",
    allocation_bytes_max: PLAIN_BYTES_MAX,
    seeds: || {
        texts(&[
            DEFINITION,
            INTERVAL,
            "mon-fri 22:00-06:00",
            "2026-12-24T12:00..2026-12-26",
            "sat-mon,wed",
            "first,last",
            "jan-mar,october",
            "1,15,last-1",
            "04:00,22:30",
        ])
    },
    check: check_schedule,
};

const DEFINITION: &str = r#"{"description":"nightly","action":{"work":"incremental",
"objects":["/home"],"options":["--snapshot","auto"]},"timing":{"starts":{"calendar":{
"times":"22:00","months":"jan-mar","weekdays":"mon-fri","weeks":"first"}},"window_minutes":60,
"spread_percent":25,"last_day":"2027-12-31","blackouts":["22:30-23:00"]},
"zone":"Europe/Berlin","priority":5,"retries":2,"retry_pause_minutes":20}"#;
const INTERVAL: &str = r#"{"action":{"work":"expire"},"timing":{"starts":{"interval":{
"first":"2026-11-27T06:00:00","every":{"months":1}}},"window_minutes":1,"spread_percent":0},
"zone":"UTC","priority":1,"retries":0,"retry_pause_minutes":1,"duration_max_minutes":9}"#;

const LIST: &str = "* a comment
exclude *.o
exclude.archive '/with blanks/*'
exclude.dir \"/it's/.../tmp\"
exclude.fs /mnt/...
exclude.fstype nfs tmpfs
exclude.tag CACHEDIR.TAG
exclude.attribute.symlink /srv/*
include /home/.../* STANDARD
include.archive /home/*/[a-z]? LONG
include.encrypt /secret/.../*
exclude.compression *.zip
exclude.spacemgmt /hot/...
";

fn check_pattern(input: &[u8]) {
    let Ok(pattern) = Pattern::parse(input) else { return };
    let again = Pattern::parse(pattern.as_bytes());
    assert_eq!(again.as_ref(), Ok(&pattern));
    assert!(!format!("{pattern} {pattern:?}").is_empty());
    if input.len() <= MATCHED_BYTES_MAX {
        for path in PATHS {
            assert!(!(path == b"/" && pattern.matches(path)), "no pattern matches the root");
            pattern.matches(&[b"/", input].concat());
        }
    }
}

fn parse(text: &[u8]) -> Option<Vec<Statement>> {
    let source = |line| Source::OptionSet { name: "fuzz".to_owned(), line };
    parse_list(text, source).ok()
}

fn check_statements(input: &[u8]) {
    let Some(statements) = parse(input) else { return };
    let lines: Vec<_> = statements.iter().map(|statement| statement.rule.written()).collect();
    let again = parse(&lines.join(&b'\n')).expect("written statements can be read");
    let rules = |statements: &[Statement]| -> Vec<_> {
        statements.iter().map(|statement| statement.rule.clone()).collect()
    };
    assert_eq!(rules(&again), rules(&statements));
    if input.len() > MATCHED_BYTES_MAX {
        return;
    }
    let selection = Selection::new(statements, again, [&b"*.excluded"[..]]).expect("a pattern");
    for path in PATHS {
        for operation in [Operation::Backup, Operation::Archive] {
            selection.explain(path, Kind::File, operation);
            selection.verdict(path, Kind::Directory, operation);
        }
        selection.treats(path, Treatment::Encryption);
        selection.excludes_filesystem(path, "nfs");
    }
}

fn check_setting(input: &[u8]) {
    let Ok(text) = str::from_utf8(input) else { return };
    if let Ok(share) = text.parse::<Share>() {
        assert_eq!(share.to_string().parse::<Share>(), Ok(share));
    }
    let Some((name, value)) = text.split_once('=') else { return };
    let Ok(option) = SetOption::parse(name, value, true) else { return };
    let again = SetOption::parse(&option.name, &option.value, true);
    assert_eq!(again.as_ref(), Ok(&option), "an option is kept as it was written");
    let setting = find(&option.name).expect("an option that was parsed has a setting");
    if setting.kind == settings::Kind::Paths {
        let words = path_words(&split_words(value)).expect("the value was parsed");
        assert!(words.paths.iter().chain(&words.left_out).all(|path| path.starts_with(b"/")));
    }
    if setting.kind == settings::Kind::Directories {
        let words = directory_words(&split_words(value)).expect("the value was parsed");
        assert!(words.iter().all(|path| is_plain_directory(path)));
    }
}

fn check_policy_set(input: &[u8]) {
    let Ok(text) = str::from_utf8(input) else { return };
    if let Ok(limit) = text.parse::<Limit>() {
        assert_eq!(limit.to_string().parse::<Limit>(), Ok(limit));
    }
    if let Ok(mode) = text.parse::<Mode>() {
        assert_eq!(mode.to_string().parse::<Mode>(), Ok(mode));
    }
    if let Ok(serialization) = text.parse::<Serialization>() {
        assert_eq!(serialization.to_string().parse::<Serialization>(), Ok(serialization));
    }
    let Ok(set) = serde_json::from_str::<PolicySet>(text) else { return };
    let written = serde_json::to_string(&set).expect("it is data");
    assert_eq!(serde_json::from_str::<PolicySet>(&written).ok().as_ref(), Some(&set));
    set.backup_rules(ClassId(1));
    set.archive_rules(ClassId(u16::MAX));
}

/// Checks that what is read is written in a form that is read in the same way. Definitions are
/// stored in this form.
fn check_words<T: FromStr + Display + PartialEq + Debug>(text: &str) {
    if let Ok(words) = text.parse::<T>() {
        assert_eq!(words.to_string().parse::<T>().ok(), Some(words));
    }
}

fn check_schedule(input: &[u8]) {
    let Ok(text) = str::from_utf8(input) else { return };
    check_words::<Blackout>(text);
    check_words::<Weekdays>(text);
    check_words::<Weeks>(text);
    check_words::<Months>(text);
    check_words::<MonthDays>(text);
    check_words::<Times>(text);
    let Ok(definition) = serde_json::from_str::<Definition>(text) else { return };
    let written = serde_json::to_string(&definition).expect("it is data");
    assert_eq!(serde_json::from_str::<Definition>(&written).ok().as_ref(), Some(&definition));
    drop(definition.action.check());
}
