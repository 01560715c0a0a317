//! Tests of the command line: what is refused and in which words, and that commands agree.

use std::path::PathBuf;

use super::*;

fn words(line: &str) -> Vec<OsString> {
    std::iter::once(NAME)
        .chain(line.split_whitespace())
        .map(OsString::from)
        .collect()
}

#[track_caller]
fn refusal(line: &str) -> String {
    match parse(words(line)) {
        Err(Stop::Usage(error)) => {
            let text = format!("{}\n    {}", error.message, error.hint.expect("a hint"));
            assert_eq!(text.lines().count(), 2, "two lines: {text}");
            text
        }
        other => panic!("{line} should be refused: {other:?}"),
    }
}

#[test]
fn the_definition_is_consistent() {
    Arguments::command().debug_assert();
}

/// Command lines that are refused.
const REFUSED: &[&str] = &[
    "",
    "server",
    "admin node",
    "no-such-command",
    "backup --no-such-option",
    "bakcup /home",
    "res /home",
    "arch",
    "admin nod list",
    "admin nodes list",
    "admin events",
    "admin eventt",
    "admin eventt lst",
    "admin evnts",
    "eventt",
    "evnts",
    "schedule defin",
    "agent schedule",
    "agent schedule define",
    "admin event shw 3",
    "admin --server /srv schedules lst",
    "schedule list",
    "node list --json",
    "admin restore /home",
    "status list",
    "archives list",
    "query filespace",
    "q",
    "version",
    "selective /home",
    "incremental",
    "login",
    "config",
    "run",
    "server strt",
    "verson",
    "define nightly",
    "admin optionset delete LINUX",
    "admin schedule remove nightly",
    "admin volume labl",
    "admin node ls",
    "admin pool show",
    "archives ls",
    "admin schedule set",
    "admin node update",
    "admin node del",
    "admin node register",
    "admin event stop",
    "admin event show cmd1",
    "events",
    "schedules",
    "libraries",
    "sched",
    "admin run n1 backup /etc",
    "admin run n1 backup --full /etc",
    "admin run n1 --",
    "hsm recal /data",
    "backup /home --compresion 3",
    "backup /home --compression 20",
    "backup /home --resourceutilization many",
    "find x --limit 0",
    "find x --limit -50",
    "backup --filelist /tmp/list /home",
    "restore",
    "restore /x --at the-day-before",
    "restore /x --replace perhaps",
    "list --recursive",
    "enroll localhost",
    "admin --server /srv node add bert --expires soon",
    "backup /home --quiet --verbose",
    "admin halt",
    "server stop",
    "admin reclamation",
    "admin policy show STANDARD",
    "admin policy diff --domain LONG STANDARD",
    "agent stop",
];

#[test]
fn a_refusal_names_the_thing_and_the_next_step() {
    let refusals = REFUSED.iter().map(|line| refusal(line)).collect::<Vec<_>>().join("\n");
    insta::assert_snapshot!(refusals);
}

/// Administrators who come from TSM name the act first. Some hints named the opposite act.
#[test]
fn an_act_before_its_object_is_understood() {
    for (line, meant) in [
        ("admin delete node bert", "holdfast admin node remove"),
        ("admin query node", "holdfast admin node list"),
        ("admin list nodes", "holdfast admin node list"),
        ("admin register node bert", "holdfast admin node add"),
        ("admin lock node bert", "holdfast admin node lock"),
        ("admin update schedule nightly", "holdfast admin schedule update"),
        ("add node bert", "holdfast admin node add"),
        ("admin server list", "holdfast admin servers"),
        ("admin actlog", "holdfast admin log"),
        ("admin accept date", "holdfast admin expire --confirm"),
        ("admin node token bert", "holdfast admin node add --again"),
        ("hsm unmigrate /data/a", "holdfast hsm recall"),
        ("unarchive /data/a", "holdfast retrieve"),
        ("search letter", "holdfast find"),
        // TSM's administrators abbreviate both words.
        ("admin q ev", "holdfast admin event list"),
        ("admin q n", "holdfast admin node list"),
        ("admin q act", "holdfast admin log"),
        ("admin query process", "holdfast admin tasks"),
        ("admin q stg", "holdfast admin pool list"),
        ("admin upd n web-01", "holdfast admin node set"),
        ("admin del sch nightly", "holdfast admin schedule delete"),
        ("admin def sched nightly", "holdfast admin schedule define"),
        ("admin reg node bert", "holdfast admin node add"),
        ("admin event sho 3", "holdfast admin event show"),
        ("admin sho event 3", "holdfast admin event show"),
        ("admin node label web-01 web", "holdfast admin node set --label"),
        ("admin labels", "holdfast admin node set --label"),
        ("admin schedule suspend nightly", "holdfast admin schedule update --suspended yes"),
        ("admin schedule resume nightly", "holdfast admin schedule update --suspended no"),
        ("enrolment-key make", "holdfast admin enrolment-key add"),
        ("admin enrolment-key make", "holdfast admin enrolment-key add"),
    ] {
        let refused = refusal(line);
        let expected = format!("did you mean '{meant}'?");
        assert!(refused.contains(&expected), "{line}: {refused}");
    }
    // Nodes have labels, and so have volumes.
    for line in ["admin label", "admin label volume A0001L8"] {
        let refused = refusal(line);
        assert!(refused.contains("'holdfast admin volume label'"), "{line}: {refused}");
    }
}

/// Options, values and words after a command had no hint, or one that was like them only by chance.
#[test]
fn what_is_mistyped_or_abbreviated_gets_the_nearest() {
    for (line, meant) in [
        // Values that the program reads by itself, and those of a list.
        ("admin schedule define n --action bakup", "'backup' is similar"),
        ("admin schedule define n --action incr", "'incremental' is similar"),
        ("admin event list --state mised", "'missed' is similar"),
        ("admin event list --state f", "'future' and 'failed' are similar"),
        ("admin event list --action scrubb", "'scrub' is similar"),
        ("admin user add bert --role op", "'operator' is similar"),
        ("admin user add bert --role Auditer", "'auditor' is similar"),
        ("admin volume set A --access un", "'unavailable' is similar"),
        ("backup /x --compression standrd", "'standard' is similar"),
        ("backup /x --deduplication y", "'yes' is similar"),
        ("restore /x --replace ifnewer", "'if-newer' is similar"),
        ("completions zhs", "'zsh' is similar"),
        ("admin api GTE /v1/nodes", "'GET' is similar"),
        // Options.
        ("backup /x --exlude y", "'--exclude' is similar"),
        ("list /x --inact", "'--inactive' is similar"),
        ("backup /x --limit", "'--limit-rate' and '--limit-rate-receive' and "),
        ("admin node list --sever /srv", "'--server' is similar"),
        ("admin schedule define n --period 1", "did you mean '--every'?"),
        ("delete /x --preview", "did you mean '--dry-run'?"),
        ("admin schedule define n --label x", "'holdfast admin schedule associate' says"),
        ("restore /x -replace=all", "'--replace' is similar"),
        ("list /x -inactive", "'--inactive' is similar"),
        ("-version", "'--version' is similar"),
        // Words after a command.
        ("delete filespace /home", "did you mean 'holdfast admin filespace remove'?"),
        ("delete node bert", "did you mean 'holdfast admin node remove'?"),
        ("delete archive 3", "did you mean 'holdfast delete --archive'?"),
        ("admin tasks list", "did you mean 'holdfast admin tasks'?"),
        ("admin tasks canel 3", "did you mean 'holdfast admin tasks --cancel'?"),
        ("agent schedules lst", "did you mean 'holdfast agent schedules'?"),
        ("admin optionset update X compression=3", "did you mean '--option compression=3'?"),
        // Commands.
        ("query session", "did you mean 'holdfast status'?"),
        ("q opt", "did you mean 'holdfast explain --option'?"),
        ("query node", "did you mean 'holdfast admin node list'?"),
        ("admin q se", "did you mean 'holdfast admin api GET /v1/sessions'?"),
        ("admin query", "the object comes before the act, as in 'holdfast admin node list'"),
        ("admin queue del 3", "did you mean 'holdfast admin queue cancel'?"),
        ("admin approval reject 3", "did you mean 'holdfast admin approval refuse'?"),
        ("key genrate", "did you mean 'holdfast key create'?"),
        ("server create", "did you mean 'holdfast server init'?"),
    ] {
        let refused = refusal(line);
        assert!(refused.contains(meant), "{line}: {refused}");
    }
    // Neither is like the other.
    for (line, other) in [
        ("admin node set bert --compresion 3", "optionset"),
        ("admin optionset put X f --force", "traces"),
        ("admin pool add p --class disk", "'--ca'"),
    ] {
        let refused = refusal(line);
        assert!(!refused.contains(other), "{line}: {refused}");
    }
}

#[test]
fn the_form_of_an_error_is_known_before_the_options_are() {
    for (line, format) in [
        ("bakcup --json", Format::Json),
        ("--json list", Format::Json),
        ("backup /x", Format::Text),
        ("backup -- --json", Format::Text),
    ] {
        assert_eq!(super::format(&words(line)), format, "{line}");
    }
}

#[test]
fn global_options_stand_anywhere() {
    for line in [
        "--home /h --json backup --progress /x",
        "backup /x --progress --json --home /h",
        "backup --home /h /x --json --progress",
    ] {
        let global = parse(words(line)).expect("parses").global;
        assert!(global.json && global.progress && !global.quiet);
        assert_eq!(global.home, Some(PathBuf::from("/h")));
    }
}

/// Calls `work` with each command below `command`, and with its full name.
fn each_command(command: &clap::Command, path: &str, work: &mut impl FnMut(&clap::Command, &str)) {
    work(command, path);
    for inner in command.get_subcommands() {
        each_command(inner, &format!("{path} {}", inner.get_name()), work);
    }
}

#[test]
fn each_command_refuses_an_unknown_option_in_the_form_that_is_asked_for() {
    let mut wrong = Vec::new();
    each_command(&Arguments::command(), NAME, &mut |command, path| {
        let takes_all = command.get_arguments().any(clap::Arg::is_trailing_var_arg_set);
        if command.has_subcommands() || takes_all || path.ends_with(FOREIGN) {
            return;
        }
        let name = path.strip_prefix(NAME).expect("a command of the program");
        let given = words(&format!("{name} --no-such-option --json"));
        let form = format(&given);
        let is_refused = match parse(given) {
            Err(Stop::Usage(error)) => {
                error.message.contains("'--no-such-option'") && error.hint.is_some()
            }
            _ => false,
        };
        if !is_refused || form != Format::Json {
            wrong.push(path.to_owned());
        }
    });
    assert_eq!(wrong, [""; 0]);
}

/// One option had the value NODE in one command and NAME in another, and a rate was a SIZE.
#[test]
fn a_value_has_one_name_in_all_commands() {
    let expected = [("node", "NODE"), ("limit-rate", "RATE"), ("limit-rate-send", "RATE")];
    let mut wrong = Vec::new();
    let mut whole = Arguments::command();
    whole.build();
    each_command(&whole, NAME, &mut |command, path| {
        for argument in command.get_arguments() {
            let (Some(long), Some([value])) = (argument.get_long(), argument.get_value_names())
            else {
                continue;
            };
            let is_wrong = match long {
                "rate" => value != "RATE" && value != "VERSIONS",
                _ => expected.iter().any(|(name, known)| long == *name && value != *known),
            };
            if is_wrong {
                wrong.push(format!("{path} --{long} {value}"));
            }
        }
    });
    assert_eq!(wrong, [""; 0]);
}

#[test]
fn options_of_the_connection_have_a_heading_of_their_own() {
    let help = |line: &str| match parse(words(line)) {
        Err(Stop::Help(help)) => help.to_string(),
        other => panic!("{line} should show help: {other:?}"),
    };
    for line in ["backup --help", "admin --help", "admin node list --help"] {
        let text = help(line);
        let (_, connection) = text.split_once("\nConnection:\n").expect("a heading");
        assert!(connection.contains("--wait <LENGTH>"), "{line}: {text}");
    }
}

/// Lists that end with NUL, switches and confirmations had other names in other commands.
#[test]
fn an_option_has_one_form_in_all_commands() {
    let names = ["print0", "zero", "nul", "yes", "assume-yes", "really", "preview", "simulate"];
    let values = ["BYTES", "KB", "MB", "MIB", "GB", "BOOL", "ON|OFF", "YES|NO"];
    let mut wrong = Vec::new();
    let mut whole = Arguments::command();
    whole.build();
    each_command(&whole, NAME, &mut |command, path| {
        let named =
            |long: &str| command.get_arguments().find(|argument| argument.get_long() == Some(long));
        if named("filelist").is_some() {
            let null = named("null").map(|null| null.get_short());
            if null != Some(Some('0')) {
                wrong.push(format!("{path}: a list of files needs --null, -0 for short"));
            }
        }
        for argument in command.get_arguments() {
            let long = argument.get_long().unwrap_or_default();
            if names.contains(&long) || long.starts_with("confirm-") {
                wrong.push(format!("{path} --{long}"));
            }
            for value in argument.get_value_names().unwrap_or_default() {
                let upper = value.to_uppercase();
                let is_switch = upper.split('|').any(|word| word == "YES");
                if (is_switch && value != "YES|NO") || (!is_switch && values.contains(&&*upper)) {
                    wrong.push(format!("{path} --{long} {value}"));
                }
            }
        }
    });
    assert_eq!(wrong, [""; 0]);
}

#[test]
fn sizes_switches_and_names_are_taken_in_their_one_form() {
    for line in [
        "backup /x --txnbytelimit 10G",
        "backup /x --txnbytelimit 32GiB",
        "restore /x --stubs-from 1.5GiB",
        "hsm add /data --min-size 10M",
        "admin library set LIB --writers 2 --retain 10m",
        "admin audit --data --rate 50M",
        "backup /x --deduplication NO",
        "admin node set bert --backdelete yes",
        "admin node remove bert --confirm",
        "admin catalog backup --confirm",
        "admin volume set V00001 --access destroyed --confirm",
        "backup /x --confirm",
        "admin expire --confirm",
        "hsm reconcile /data --confirm",
        // Scripts and schedules have the former names.
        "backup /x --confirm-expire",
        "admin expire --confirm-clock",
        "hsm reconcile /data --confirm-release",
        "admin volume reclaim TAPES",
        "admin volume reclaim V00001 --library vault",
        "archives hold 3",
        "archives release 3",
        "admin queue cancel 3",
        "restore --filelist list --null --to /x",
        "hsm recall --filelist list -0",
        "backup --filelist list -0",
    ] {
        if let Err(Stop::Usage(error)) = parse(words(line)) {
            panic!("{line}: {} {:?}", error.message, error.hint);
        }
    }
    let refused = refusal("backup /x --txnbytelimit 33G");
    assert!(refused.contains("txnbytelimit"), "{refused}");
    // Somebody who means 50M would wait for years.
    for line in ["backup /x --limit-rate 50", "admin audit --rate 50"] {
        let refused = refusal(line);
        assert!(refused.contains("at least 128K bytes a second"), "{refused}");
    }
}

#[test]
fn compression_levels_may_be_negative() {
    parse(words("backup /x --compression -7")).expect("parses");
    parse(words("backup /x --compression=-7")).expect("parses");
}

#[test]
fn every_command_shows_an_example() {
    fn visit(command: &mut clap::Command, path: &str, missing: &mut Vec<String>) {
        let help = command.render_long_help().to_string();
        if !help.contains("Example") {
            missing.push(path.to_owned());
        }
        let own = command
            .get_subcommands_mut()
            .filter(|inner| inner.get_name() != "help" && !inner.is_hide_set());
        for inner in own {
            let path = format!("{path} {}", inner.get_name());
            visit(inner, &path, missing);
        }
    }
    let mut missing = Vec::new();
    visit(&mut Arguments::command(), NAME, &mut missing);
    assert_eq!(missing, [""; 0]);
}
