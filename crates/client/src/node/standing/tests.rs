//! Tests of settings that come from several sources.

use super::*;
use crate::node::home::Home;

const LEAST: &str = "server = \"one:1\"\nnode = \"alpha\"\n";

fn received(options: &[(&str, &str, bool)]) -> ReceivedSet {
    let option = |(name, value, is_forced): &(&str, &str, bool)| SetOption {
        name: (*name).to_owned(),
        value: (*value).to_owned(),
        is_forced: *is_forced,
    };
    ReceivedSet {
        name: "LINUX".to_owned(),
        version: 3,
        options: options.iter().map(option).collect(),
        ..ReceivedSet::default()
    }
}

/// Makes the folder of a node with these lines in its file and these options of the server.
fn home(lines: &str, options: &[(&str, &str, bool)]) -> Result<Home, ClientError> {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("client.toml"), format!("{LEAST}{lines}")).expect("written");
    std::fs::write(folder.path().join("node.pem"), b"").expect("written");
    received(options).keep(folder.path()).expect("written");
    Home::load(folder.path())
}

#[track_caller]
fn check(lines: &str, options: &[(&str, &str, bool)], name: &str, expected: (&str, &str)) {
    let home = home(lines, options).expect("a node's folder");
    let report = home.standing.report(find(name).expect("a setting"));
    let source = report.source.rsplit('/').next().expect("a part").to_owned();
    assert_eq!((report.value.as_str(), source.as_str()), expected, "{name}");
}

#[test]
fn each_source_may_decide() {
    let tuning = "[tuning]\ncompression = \"3\"\n";
    let forced = [("compression", "19", true)];
    let unforced = [("compression", "19", false)];
    let by_force = ("19", "option set LINUX version 3 (force)");
    check(tuning, &forced, "compression", by_force);
    check(tuning, &unforced, "compression", ("3", "client.toml line 4"));
    check("", &unforced, "compression", ("19", "option set LINUX version 3 (if not set)"));
    check("", &[], "compression", ("standard", "the default"));
    check("[options]\ncompression = 5\n", &[], "compression", ("5", "client.toml line 4"));
    let cache = "dedup-cache-megabytes";
    let size = "dedup_cache_megabytes = \"1G\"\n";
    check(size, &[], cache, ("1G", "client.toml line 3"));
    check("", &[(cache, "2G", false)], cache, ("2048", "option set LINUX version 3 (if not set)"));
}

#[test]
fn the_settings_in_force_reach_the_configuration() {
    let options = [
        ("compression", "19", true),
        ("txnbytelimit", "64M", false),
        ("wait", "2h", false),
        ("limits", "mon-fri 08:00-18:00 send=10M; receive=1M", false),
        ("dirmc", "LONG", true),
        ("dedup-cache-megabytes", "2G", false),
        ("cross-filesystems", "yes", false),
        ("agent-mode", "polling", true),
        ("paths", "all-local, -/scratch", false),
    ];
    let lines = "wait = \"5m\"\ndirmc = \"SHORT\"\n[tuning]\ncompression = \"3\"\n";
    let config = home(lines, &options).expect("a node's folder").config;
    assert_eq!(config.tuning.compression, "19".parse().ok());
    assert_eq!(config.tuning.transaction_bytes, Some(64 << 20));
    assert_eq!(config.wait, Some(std::time::Duration::from_secs(300)));
    assert_eq!(config.limits.len(), 2);
    assert_eq!(config.dirmc.as_deref(), Some("LONG"));
    assert_eq!(config.dedup_cache_megabytes, 2048);
    assert_eq!(config.cross_filesystems, Some(true));
    assert_eq!(config.agent.mode, crate::AgentMode::Polling);
    let words = vec!["all-local".to_owned(), "-/scratch".to_owned()];
    assert_eq!(config.paths, Some(words));
}

#[test]
fn every_setting_of_an_option_set_reaches_the_configuration() {
    for setting in &SETTINGS {
        let value = match setting.kind {
            Kind::YesNo => "no",
            Kind::Word(words) => words[0],
            Kind::Number { .. } => "1",
            Kind::Size { .. } | Kind::Megabytes { .. } | Kind::Rate => "1M",
            Kind::Length => "9m",
            Kind::Compression => "7",
            Kind::Text => "word",
            Kind::Path | Kind::Paths | Kind::Directories => "/path",
            Kind::Commands => "none",
            Kind::Windows => "send=1M",
        };
        let with = home("", &[(setting.name, value, true)]).expect("a node's folder");
        let is_left_out = !with.standing.unheard().is_empty();
        assert_eq!(is_left_out, matches!(setting.sway, Sway::Node(_)), "{}", setting.name);
        let without = home("", &[]).expect("a node's folder");
        let has_word = |home: &Home| {
            let text = toml::to_string(&home.config).expect("is written");
            let key = setting.key.rsplit('.').next().expect("a part");
            text.lines().any(|line| line.starts_with(key) || line == format!("[[{key}]]"))
        };
        let is_default = with.config == without.config;
        assert!(is_left_out || has_word(&with) || is_default, "{}", setting.name);
        let of_file = matches!(setting.name, "node" | "server");
        let has_none = with.standing.value(setting.name).is_none();
        assert_eq!(has_none, is_left_out && !of_file, "{}", setting.name);
    }
}

#[test]
fn what_the_node_forbids_stays_forbidden() {
    let all = [
        ("agent-restores", "yes", true),
        ("agent-commands", "all", true),
        ("agent-commands-around", "yes", true),
        ("pre-command", "reboot", true),
        ("encryption-keys", "/tmp/keys", true),
    ];
    let lines = "encryption_keys = \"/etc/keys\"\n\
                 [agent]\nrestores = false\ncommands = \"none\"\ncommands_around = false\n";
    let home = home(lines, &all).expect("a node's folder");
    let agent = &home.config.agent;
    assert!(!agent.restores && !agent.commands_around && !agent.commands.allows(b"reboot"));
    assert_eq!(home.config.pre_command, None);
    assert_eq!(home.config.encryption_keys.as_deref(), Some(Path::new("/etc/keys")));
    let report = home.standing.report(find("pre-command").expect("a setting"));
    assert_eq!(report.rank, Rank::Default);
    let reason = report.others[0].reason.expect("a reason");
    assert!(reason.contains("commands_around"), "{reason}");
    let none = [("agent-restores", "no", false), ("agent-commands", "none", true)];
    let lines = "[agent]\ncommands = [\"sync\"]\n";
    let tightened = self::home(lines, &none).expect("a node's folder").config.agent;
    assert!(!tightened.restores && !tightened.commands.allows(b"sync"));
}

#[test]
fn a_forced_value_holds_against_the_command_line_but_not_against_a_schedule() {
    let mut home = home("", &[("compression", "19", true), ("wait", "1m", false)]).expect("a node");
    assert_eq!(home.standing.heed("compression", Some(3)), None);
    assert_eq!(home.standing.heed("wait", Some(3)), Some(3));
    assert_eq!(home.standing.heed("snapshot", Some(3)), Some(3));
    home.standing.is_scheduled = true;
    assert_eq!(home.standing.heed("compression", Some(3)), Some(3));
}

#[test]
fn an_option_set_never_makes_a_node_unable_to_work() {
    let odd = [("no-such-option", "1", true), ("compression", "fast", true), ("wait", "2h", false)];
    let home = home("", &odd).expect("a node's folder");
    assert_eq!(home.standing.unheard().len(), 2);
    assert_eq!(home.config.tuning.compression, None);
    assert_eq!(home.config.wait, Some(std::time::Duration::from_secs(7200)));
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join(RECEIVED_FILE), b"{\"name\":").expect("written");
    assert_eq!(ReceivedSet::load(folder.path()), ReceivedSet::default());
}

#[test]
fn an_interval_out_of_its_bounds_counts_as_the_nearest_of_them() {
    let bounds = "from 1 to 44640";
    for (given, counted) in [("0", 1), ("-1", 1), ("99999999", 44_640), ("5000000000", 44_640)] {
        let home = home(&format!("[agent]\npoll_minutes = {given}\n"), &[]).expect("a node");
        assert_eq!(home.config.agent.poll_minutes, counted);
        assert_eq!(home.standing.value("agent-poll-minutes"), Some(counted.to_string().as_str()));
        let [warning] = home.standing.out_of_bounds() else { panic!("one warning") };
        let said = format!("poll_minutes = {given} counts as {counted}; it is a number {bounds}");
        assert!(warning.ends_with(&said), "{warning}");
    }
    let forced = [("agent-poll-minutes", "30", true)];
    let home = home("[agent]\npoll_minutes = 0\n", &forced).expect("a node");
    assert_eq!(home.config.agent.poll_minutes, 30);
    let home = self::home("[options]\nagent-poll-minutes = 1\n", &[]).expect("a node");
    assert_eq!(home.config.agent.poll_minutes, 1);
    assert!(home.standing.out_of_bounds().is_empty());
}

#[test]
fn the_section_of_options_is_read_by_names() {
    let lines = "[options]\ntxnbytelimit = \"64M\"\nagent-mode = \"polling\"\nwait = \"9m\"\n\
                 deduplication = false\nlimits = \"send=1M\"\npaths = \"/a, /b\"\n";
    let config = home(lines, &[]).expect("a node's folder").config;
    assert_eq!(config.tuning.transaction_bytes, Some(64 << 20));
    assert_eq!(config.tuning.deduplication, Some(false));
    assert_eq!(config.agent.mode, crate::AgentMode::Polling);
    assert_eq!(config.limits.len(), 1);
    assert_eq!(config.paths, Some(vec!["/a".to_owned(), "/b".to_owned()]));
    for (lines, named) in [
        ("[options]\nspeed = 1\n", "speed"),
        ("[options]\ncompression = \"fast\"\n", "compression"),
        ("[options]\ncompression = 30\n", "compression"),
        ("wait = \"1m\"\n[options]\nwait = \"1m\"\n", "wait is given twice"),
        ("paths = [\"home\"]\n", "paths"),
        ("paths = [\"-/scratch\"]\n", "paths"),
        ("priority = \"high\"\n", "priority"),
        ("virtual_filespaces = [\"home\"]\n", "virtual_filespaces"),
        ("virtual_filespaces = [\"/\"]\n", "virtual_filespaces"),
        ("options = 1\n", "options"),
    ] {
        let error = home(lines, &[]).err().expect("refused");
        assert_eq!(error.kind, ErrorKind::Usage);
        assert!(error.message.contains(named), "{lines}: {}", error.message);
    }
}

/// The rate of the other direction had the remark, too.
#[test]
fn a_forced_timetable_is_told_beside_the_rate_that_it_limits() {
    let rates = "limit_rate_send = \"2M\"\nlimit_rate_receive = \"2M\"\n";
    for (limits, limited, other) in [
        ("08:00-18:00 send=10M", "limit-rate-send", "limit-rate-receive"),
        ("receive=10M", "limit-rate-receive", "limit-rate-send"),
    ] {
        let home = home(rates, &[("limits", limits, true)]).expect("a node's folder");
        let remark = |name| home.standing.report(find(name).expect("a setting")).remark;
        let told = remark(limited).expect("a remark");
        assert!(told.starts_with("option set LINUX version 3 forces limits = "), "{told}");
        assert_eq!(remark(other), None, "{limits}");
    }
}

#[test]
fn an_unknown_key_is_told_its_section_or_the_nearest_key() {
    for (lines, section) in [
        ("compression = 3\n", Some("; compression belongs in [tuning]")),
        ("poll_minutes = 3\n[options]\nwait = \"9m\"\n", Some("; poll_minutes belongs in [agent]")),
        ("compresion = 3\n", Some("; 'compression' is similar, and belongs in [tuning]")),
        ("wiat = \"9m\"\n", Some("; did you mean 'wait'?")),
        ("[agent]\nrestors = \"no\"\n", Some("; did you mean 'restores'?")),
        ("speed = 3\n", None),
    ] {
        let error = home(lines, &[]).err().expect("refused");
        assert!(error.message.contains("unknown field"), "{}", error.message);
        match section {
            Some(section) => assert!(error.message.ends_with(section), "{}", error.message),
            None => assert!(error.message.ends_with('`'), "{}", error.message),
        }
    }
    let error = home("[options]\ncompresion = 3\n", &[]).err().expect("refused");
    assert!(error.message.ends_with("; did you mean 'compression'?"), "{}", error.message);
}

#[test]
fn values_of_the_file_are_shown_as_they_are_written_in_option_sets() {
    let lines = "paths = [\"all-local\", '/odd,\\xff']\n[[limits]]\nfrom = \"22:00\"\n\
                 days = \"fri\"\nsend = \"10M\"\n[[limits]]\nreceive = \"20M\"\n";
    check(lines, &[], "paths", ("all-local, /odd\\x2c\\xff", "client.toml line 3"));
    let directories = "virtual_filespaces = ['/a,b', '/odd\\xff']\n";
    check(directories, &[], "virtual-filespaces", ("/a\\x2cb, /odd\\xff", "client.toml line 3"));
    let limits = "fri 22:00-00:00 send=10M; receive=20M";
    check(lines, &[], "limits", (limits, "client.toml line 4"));
    assert!(find("limits").expect("a setting").kind.parse(limits).is_ok());
}
