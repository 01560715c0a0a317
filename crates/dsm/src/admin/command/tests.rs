//! Tests of the table: each command as text, and its plan as text.

use std::collections::BTreeSet;

use jiff::civil::DateTime;
use proptest::prelude::*;

use super::*;
use crate::admin::abbreviation::stands_for;
use crate::admin::grammar;

fn now() -> DateTime {
    "2026-11-26T15:20:30".parse().expect("a time")
}

fn names(noun: Noun) -> Vec<String> {
    let names: &[&str] = match noun {
        Noun::Node => &["anna", "web-01", "web-02", "Bert"],
        Noun::Domain => &["STANDARD", "LONG"],
        Noun::Schedule => &["nightly", "expiry"],
        Noun::OptionSet => &["LINUX"],
        Noun::Pool => &["disk", "vault", "copies"],
        Noun::Volume => &["V00001", "V00002"],
        Noun::Library => &["lib"],
    };
    names.iter().map(|name| (*name).to_owned()).collect()
}

fn planned(command: &str) -> Result<Plan, Message> {
    let statement = grammar::parse(command)?;
    let (command, words) = find(&statement)?;
    let mut request = read(command, words, now())?;
    request.resolve(|noun| Ok::<_, Message>(names(noun)))?;
    plan(&request)
}

#[track_caller]
fn check(command: &str, expected: &str) {
    let shown = match planned(command) {
        Ok(Plan::Lines(lines)) => {
            let lines =
                lines.iter().map(|line| format!("{} | {}", line.words.join(" "), line.done));
            lines.collect::<Vec<_>>().join("\n")
        }
        Ok(Plan::Query(show)) => {
            let filters = show.filters.iter().map(|filter| match &filter.test {
                Test::Patterns(patterns) => format!("{}={}", filter.column, patterns.join(",")),
                Test::AnyWord(patterns) => format!("{}:{}", filter.column, patterns.join(",")),
                Test::Contains(text) => format!("{}~{text}", filter.column),
            });
            let period = show.period.map(|period| format!("{}..{}", period.from, period.to));
            let detailed = show.is_detailed.then(|| "detailed".to_owned());
            let mut parts = vec![show.report.view.name.to_owned()];
            parts.extend(filters.chain(detailed).chain(period));
            parts.join(" ")
        }
        Ok(Plan::Work(work)) => format!("{work:?}"),
        Ok(Plan::Nothing(message)) => format!("nothing | {message}"),
        Ok(Plan::Program(program, words)) => format!("{program:?} {}", words.join(" ")),
        Err(message) => format!("{message} ({})", message.code.number()),
    };
    assert_eq!(shown, expected, "{command}");
}

#[test]
fn queries_have_conditions() {
    check("q no", "NODES");
    check("q n web* f=d", "NODES NODE_NAME=web* detailed");
    check("Query NODE anna,bert DOmain=standard", "NODES NODE_NAME=anna,bert DOMAIN_NAME=standard");
    check("q no type=nas", "NODES NODETYPE=NAS");
    check("q ses t=node", "SESSIONS SESSION_TYPE=Node");
    check("q volh t=dbb", "VOLHISTORY TYPE=BACKUP*");
    check("q volh t=stgn", "VOLHISTORY TYPE=STGNEW");
    check("q fi anna 2 namet=fsid", "FILESPACES NODE_NAME=anna FILESPACE_ID=2");
    check("q occ anna 2,3 nametype=fsid", "OCCUPANCY NODE_NAME=anna FILESPACE_ID=2,3");
    check("q fi anna /home namet=uni", "FILESPACES NODE_NAME=anna FILESPACE_NAME=/home");
    check("q stg", "STGPOOLS");
    check(
        "q occ anna /home stg=disk t=b",
        "OCCUPANCY NODE_NAME=anna FILESPACE_NAME=/home STGPOOL_NAME=disk TYPE=Bkup",
    );
    check(
        "q ev * *",
        "EVENTS DOMAIN_NAME=* SCHEDULE_NAME=* 2026-11-26T00:00:00..2026-11-26T23:59:59",
    );
    check(
        "q event * *FULLM* begind=today-7 endd=+4 ex=y f=d",
        "EVENTS DOMAIN_NAME=* SCHEDULE_NAME=*FULLM* STATUS=Missed,Failed,Severed,Uncertain \
         detailed 2026-11-19T00:00:00..2026-11-30T23:59:59",
    );
    check("q ev * t=a", "EVENTS DOMAIN_NAME=* 2026-11-26T00:00:00..2026-11-26T23:59:59");
    check("q act", "ACTLOG 2026-11-26T14:20:30..2026-11-26T15:20:30");
    check(
        "q actlog begint=-00:01 search='Node anna' msg=2507,2578",
        "ACTLOG MSGNO=2507,2578 MESSAGE~Node anna 2026-11-26T15:19:30..2026-11-26T15:20:30",
    );
    check("q act begind=-1", "ACTLOG 2026-11-25T00:00:00..2026-11-26T15:20:30");
    check("q co standard active t=a", "AR_COPYGROUPS DOMAIN_NAME=standard SET_NAME=active");
    check("q mg standard ps2", "MGMTCLASSES DOMAIN_NAME=standard SET_NAME=STANDARD");
    check("q pol standard a*,ps", "POLICYSETS DOMAIN_NAME=standard SET_NAME=a*,STANDARD");
    check("q sched * t=a", "ADMIN_SCHEDULES");
    check(
        "q sched standard node=anna,b*",
        "CLIENT_SCHEDULES DOMAIN_NAME=standard FOLLOWERS:anna,b*",
    );
    check("q st", "STATUS");
    check("q se", "SESSIONS");
    check("q pr", "PROCESSES");
    check("q libv lib v*", "LIBVOLUMES LIBRARY_NAME=lib VOLUME_NAME=v*");
    check(
        "q con V00001 n=anna fi=/home t=sp cou=5",
        "CONTENTS VOLUME_NAME=V00001 NODE_NAME=anna FILESPACE_NAME=/home TYPE=SpMg",
    );
    check(
        "q content v00001 count=-5",
        "ANR2021E QUERY CONTENT: -5 is no value of COUNT; give a whole number. (3)",
    );
}

#[test]
fn nodes_are_changed_by_their_names() {
    check(
        "reg no carl secret do=long archdel=y",
        "admin node add carl --domain=LONG | ANR2060I Node carl registered in policy domain LONG. \
         The password is shorter than 8 characters; the node enrols with the token.\n\
         admin node set carl --archdelete=yes | ANR2063I Node carl updated.",
    );
    check(
        "reg no carl correct-horse passexp=90 contact=x",
        "admin node add carl --expires=30d --password=correct-horse | ANR2060I Node carl \
         registered in policy domain STANDARD.",
    );
    check(
        "upd n web-01 battery-staple passe=7 arch=n",
        "admin node add web-01 --again --expires=7d --password=battery-staple | ANR2063I Node \
         web-01 updated.\n\
         admin node set web-01 --archdelete=no | ANR2063I Node web-01 updated.",
    );
    check(
        "upd n anna emailad=ann@x.org",
        "admin api PATCH /v1/nodes/anna --data={\"mail\":\"ann@x.org\"} | ANR2063I Node anna \
         updated.",
    );
    check(
        "upd n anna emailaddress='a\"b'",
        "ANR2020E EMAILADDRESS: An address has no quotation marks and no backslashes. (3)",
    );
    check(
        "upd n anna short",
        "ANR2020E UPDATE NODE: The password must have at least 8 characters. (3)",
    );
    check("upd n anna passexp=0", "nothing | ANR2063I Nothing of anna needs to be changed.");
    check(
        "upd n WEB* clo=LINUX",
        "admin node set web-01 --optionset=LINUX | ANR2063I Node web-01 updated.\n\
         admin node set web-02 --optionset=LINUX | ANR2063I Node web-02 updated.",
    );
    check("lock node ANNA", "admin node lock anna | ANR2064I Node anna locked.");
    check("unl n bert", "admin node unlock Bert | ANR2065I Node Bert unlocked.");
    check("ren n anna anne", "admin node rename anna anne | ANR2062I Node anna renamed to anne.");
    check("rem n anna", "admin node remove anna | ANR2061I Node anna removed.");
    check("lock node nobody", "ANR2146E LOCK NODE: Node nobody is not registered. (11)");
    check("upd n anna contact=x", "nothing | ANR2063I Nothing of anna needs to be changed.");
}

#[test]
fn policy_goes_to_the_draft() {
    check(
        "def co long ps1 monthly t=b vere=nolimit verd=5 retextra=365 dest=x",
        "admin policy class monthly --domain=LONG --verexists=nolimit --verdeleted=5 \
         --retextra=365 --retonly=60 --mode=modified --serialization=shrstatic --frequency=0 | \
         ANR1530I Backup copy group STANDARD defined in policy domain LONG, set PS1, management \
         class monthly.",
    );
    check(
        "upd co standard standard standard type=a retv=nol",
        "admin policy class standard --domain=STANDARD --retver=nolimit | ANR1537I Archive copy \
         group \
         STANDARD updated in policy domain STANDARD, set STANDARD, management class standard.",
    );
    check(
        "upd co standard active standard retv=1",
        "ANR1557E UPDATE COPYGROUP: The set ACTIVE cannot be changed; change the draft, and \
         activate it. (4)",
    );
    check(
        "upd co standard s standard retv=1",
        "ANR2020E UPDATE COPYGROUP: Invalid parameter - RETVER. (3)",
    );
    check("act po standard ps1", "ActivateSet { domain: \"STANDARD\", set: \"PS1\" }");
    check(
        "as defmg standard ps1 monthly",
        "admin policy default monthly --domain=STANDARD | ANR1538I Default management class set to \
         monthly for policy domain STANDARD, set PS1.",
    );
    check("copy domain standard new", "CopyDomain { from: \"STANDARD\", to: \"new\" }");
    check(
        "def do new desc=x backret=30",
        "admin domain add new | ANR1500I Policy domain new defined.\n\
         admin policy grace --domain=new --backretention=30 | ANR1502I The grace periods of policy \
         domain new are in its draft.",
    );
}

/// Returns the plan that defines the schedule x.
fn defined(rest: &str) -> String {
    format!(
        "admin schedule define x {rest} | ANR2500I Schedule x defined in policy domain standard."
    )
}

#[test]
fn schedules_have_times() {
    check(
        "def sched standard x starttime=22:00 objects='/home \"/my data\"' options='-subdir=yes'",
        &defined("--action=incremental --object=/home --object=/my data --window=1h --time=22:00"),
    );
    check(
        "def sch standard x act=c obj='/opt/run it' startd=11/27/2026 startt=6:30 per=4 peru=h \
         dur=30 duru=m",
        &defined(
            "--action=command --object=/opt/run it --window=30m --every=4h \
             --start=2026-11-27T06:30",
        ),
    );
    check(
        "def sched standard x startt=01:00 day=weekday pri=3 expi=12/31/2026 desc=weekly",
        &defined(
            "--description=weekly --order=3 --action=incremental --window=1h --until=2026-12-31 \
             --time=01:00 --days=mon-fri",
        ),
    );
    check(
        "def sched standard x action=archive objects=/data options='-archmc=LONG -desc=\"the \
         data\"' startt=02:00 perunits=weeks",
        &defined(
            "--action=archive --object=/data --option=--class=LONG --option=--description=the \
             data --window=1h --time=02:00 --days=thu",
        ),
    );
    check(
        "def sched standard x scheds=e month=jan,jul dayofm=1,-1 startt=03:00 dur=2",
        &defined(
            "--action=incremental --window=2h --time=03:00 --months=jan,jul --monthdays=1,last",
        ),
    );
    check(
        "def sched standard x week=last day=sun startt=03:00",
        &defined("--action=incremental --window=1h --time=03:00 --weeks=last --days=sun"),
    );
    check(
        "def sched standard x peru=o startd=11/30/2026 startt=03:00",
        &defined(
            "--action=incremental --window=1h --every=1d --start=2026-11-30T03:00 \
             --until=2026-11-30",
        ),
    );
    check(
        "def sched standard x startt=22:00 duru=indefinite",
        &defined("--action=incremental --window=30d --spread=0 --time=22:00"),
    );
    check(
        "def sched standard x startd=+20 startt=22:00",
        &defined("--action=incremental --window=1h --every=1d --start=2026-12-16T22:00"),
    );
}

#[test]
fn schedules_are_changed_or_refused() {
    check(
        "def sched expiry2 type=admin cmd='expire inv wait=yes' active=yes startt=10:00",
        "admin schedule define expiry2 --suspended=no --action=expire --window=1h --time=10:00 | \
         ANR2500I Schedule expiry2 defined.",
    );
    check(
        "def sched standard NIGHTLY startt=23:00",
        "ANR2032E DEFINE SCHEDULE: The schedule nightly exists already. (10)",
    );
    check(
        "def sched expiry type=admin cmd='expire inv' startt=10:00",
        "ANR2032E DEFINE SCHEDULE: The schedule expiry exists already. (10)",
    );
    check(
        "upd sched standard nightly startt=23:00",
        "admin schedule update nightly --time=23:00 | ANR2502I Schedule nightly updated in policy \
         domain standard.",
    );
    // This was taken, and changed nothing.
    check(
        "upd sched standard nightly objects=\"\" options=\"\" startt=23:00",
        "admin schedule update nightly --object=none --option=none --time=23:00 | ANR2502I \
         Schedule nightly updated in policy domain standard.",
    );
    check(
        "upd sched standard nightly desc=x",
        "admin schedule update nightly --description=x | ANR2502I Schedule nightly updated in \
         policy domain standard.",
    );
    check(
        "def sched standard x startd=+20 day=mon",
        "ANR2020E DEFINE SCHEDULE: The parameter STARTDATE is not supported: a schedule by days of \
         the week or of the month begins today. (3)",
    );
    check(
        "def sched standard x opt='-nosuch'",
        "ANR2020E DEFINE SCHEDULE: the option -nosuch of OPTIONS has no counterpart here. (3)",
    );
    check(
        "def sched standard x act=macro",
        "ANR2020E DEFINE SCHEDULE: give ACTION=COMMAND, with the commands as its object. (3)",
    );
    check(
        "def assoc standard NIGHTLY web*",
        "admin schedule associate nightly --node=web-01 | ANR2510I Node web-01 associated with \
         schedule nightly in policy domain standard.\n\
         admin schedule associate nightly --node=web-02 | ANR2510I Node web-02 associated with \
         schedule nightly in policy domain standard.",
    );
    check(
        "def assoc standard NIGHTLY nobody,anna",
        "admin schedule associate nightly --node=anna | ANR2510I Node anna associated with \
         schedule nightly in policy domain standard.",
    );
    check(
        "def assoc standard NIGHTLY nobody",
        "ANR2146E DEFINE ASSOCIATION: Node nobody is not registered. (11)",
    );
    check(
        "def clienta anna act=i obj=/home",
        "admin run --detach anna -- backup /home | ANR2513I The action is started at anna.",
    );
}

#[test]
fn storage_is_tended() {
    check("expi i du=60", "admin expire | ANR0812I Inventory expiration completed for all nodes.");
    check(
        "expi i node=anna",
        "admin expire --node=anna | ANR0812I Inventory expiration completed for node anna.",
    );
    check(
        "expire inventory wait=yes",
        "admin expire | ANR0812I Inventory expiration completed for all nodes.",
    );
    check(
        "mig stg disk lo=0 wait=yes",
        "admin pool drain disk --all | ANR1001I Migration of storage pool disk completed.",
    );
    check(
        "ba stg disk copies",
        "admin pool copy copies | ANR1214I Pool copies has a copy of all packs.",
    );
    check("recl stg VAULT th=60", "Reclaim { pool: \"vault\", dead_percent: Some(60) }");
    check("ba db t=f dev=x", "admin catalog backup | ANR4550I Full database backup completed.");
    check("aud v v00001 f=n", "admin volume audit V00001 | ANR2310I Volume V00001 audited.");
    check(
        "upd v v* acc=reado",
        "admin volume set V00001 V00002 --access=read-only | ANR2207I Volumes V00001, V00002 \
         updated.",
    );
    check(
        "upd v v00001 acc=of lo=cellar",
        "admin volume offsite V00001 --location=cellar | ANR2207I Volume V00001 updated.",
    );
    check(
        "upd v v00001 acc=des",
        "admin volume set V00001 --access=destroyed --confirm | ANR2207I Volume V00001 updated.",
    );
    check(
        "label libv lib search=bulk checkin=scr labels=bar",
        "admin library checkin lib | ANR8427I The volumes at the entry of library lib are \
         checked in.\n\
         admin volume label lib | ANR8810I Volumes of library lib labeled.",
    );
    check(
        "label libv lib a1 search=bulk voll=a2",
        "admin library checkin lib A2 | ANR8427I Volume A2 is checked in to library lib.\n\
         admin library checkin lib A1 | ANR8427I Volume A1 is checked in to library lib.\n\
         admin volume label lib A2 A1 | ANR8810I Volumes of library lib labeled.",
    );
    check(
        "checko libv lib v00002 rem=bulk",
        "admin library checkout lib V00002 | ANR8438I Volume V00002 checked out of library lib.",
    );
    check("can se 17", "CancelSession { number: 17 }");
    check("cancel session al", "CancelSessions");
    check(
        "cancel session x",
        "ANR2021E CANCEL SESSION: x is no value of SESSION_NUMBER; give a whole number, or ALL. \
         (3)",
    );
    check("can req 3", "admin queue cancel 3 | ANR8348I Request 3 canceled.");
    check("can req all", "CancelRequests");
    check(
        "can req x",
        "ANR2021E CANCEL REQUEST: x is no value of REQUEST_NUMBER; give a whole number, or ALL. \
         (3)",
    );
    check("halt", "Halt");
}

#[test]
fn volumes_are_checked_in_by_name_or_all_of_a_place() {
    check(
        "checki libv lib search=bulk stat=scr checkl=bar",
        "admin library checkin lib | ANR8427I The volumes at the entry of library lib are \
         checked in.",
    );
    check(
        "checki libv lib search=yes",
        "admin library scan lib | ANR8427I The volumes in the slots of library lib are checked in.",
    );
    check(
        "checki libv lib a00001l8",
        "admin library checkin lib A00001L8 | ANR8427I Volume A00001L8 is checked in to library \
         lib.",
    );
    check(
        "checki libv lib search=bulk voll=A1,A2",
        "admin library checkin lib A1 | ANR8427I Volume A1 is checked in to library lib.\n\
         admin library checkin lib A2 | ANR8427I Volume A2 is checked in to library lib.",
    );
    check(
        "checki libv lib stat=priv",
        "ANR2022E CHECKIN LIBVOLUME: A parameter is missing: VOLUME_NAME, or SEARCH=BULK. (3)",
    );
    check(
        "checki libv lib a00001l8 search=yes",
        "ANR2020E CHECKIN LIBVOLUME: The parameter SEARCH=YES is not supported: it is for all \
         volumes in slots; a volume by name is taken from the entry. (3)",
    );
}

#[test]
fn a_statement_is_added_to_an_option_set() {
    let planned = planned("def clientopt linux inclexcl 'exclude.backup /tmp/.../*' f=y");
    match planned.expect("a plan") {
        Plan::Work(Work::AddStatements { set, statements }) => {
            assert_eq!(
                (set.as_str(), statements.as_slice()),
                ("LINUX", &b"exclude /tmp/.../*\n"[..])
            );
        }
        other => panic!("{other:?}"),
    }
    check(
        "def clientopt linux inclexcl 'exclude /tmp/*' seq=3",
        "ANR2032E DEFINE CLIENTOPT: statements have the order in which they are defined; leave \
         SEQNUMBER out, or give all of them with 'holdfast admin optionset update SET --statements \
         FILE'. (4)",
    );
    check(
        "def clientopt linux inclexcl '* a comment'",
        "ANR2032E DEFINE CLIENTOPT: the value has no statement. (4)",
    );
}

#[test]
fn mistakes_have_tsm_s_numbers() {
    check("nosuch", "ANR2000E Unknown command - NOSUCH. 'help' lists the commands. (2)");
    check("q nosuch", "ANR2000E Unknown command - QUERY NOSUCH. 'help' lists the commands. (2)");
    check("q node nosuch=1", "ANR2020E QUERY NODE: Invalid parameter - NOSUCH. (3)");
    check("q node a b", "ANR2023E QUERY NODE: There is a parameter too many: b. (3)");
    check(
        "q node f=x",
        "ANR2021E QUERY NODE: x is no value of FORMAT; give STANDARD, DETAILED. (3)",
    );
    check("lock node", "ANR2022E LOCK NODE: A parameter is missing: NODE_NAME. (3)");
    check(
        "q ev * begind=xx",
        "ANR2021E QUERY EVENT: xx is no value of BEGINDATE; give a day or a time, as in TODAY-7, \
         11/26/2026, 22:00 or NOW-01:00. (3)",
    );
    check(
        "register admin x",
        "ANR2032E REGISTER ADMIN: This command is not supported: root and the owner of the \
         server's folder administer it, and their rights are not divided. (4)",
    );
    check("q lib", "ANR2000E The word QUERY lib is not clear: it begins LIBRARY, LIBVOLUME. (2)");
    check("sel", "Select ");
    check("macro f a b", "Macro f a b");
}

#[test]
fn every_command_and_parameter_is_found_by_its_shortest_form() {
    let shortest =
        |name: &str| name.chars().take_while(char::is_ascii_uppercase).collect::<String>();
    for command in all() {
        let line = format!("{} {}", shortest(command.verb), shortest(command.noun));
        let statement = grammar::parse(line.trim()).expect("words");
        let (found, _) = find(&statement).unwrap_or_else(|error| panic!("{line}: {error}"));
        assert_eq!(found.name(), command.name(), "{line}");
        let named: Vec<&str> = command
            .parameters
            .iter()
            .filter(|parameter| !parameter.is_by_place())
            .map(|parameter| parameter.name)
            .collect();
        for name in &named {
            let form = shortest(name);
            let meant: Vec<&&str> = named.iter().filter(|other| stands_for(&form, other)).collect();
            assert!(meant.len() == 1 || meant[0] == name, "{line} {form}: {meant:?}");
        }
    }
}

#[test]
fn every_command_is_once_in_the_table_and_says_what_becomes_of_it() {
    let names: Vec<String> = all().map(Command::name).collect();
    let different: BTreeSet<&String> = names.iter().collect();
    assert_eq!(different.len(), names.len());
    assert!(all().all(|command| !command.becomes.is_empty() && !command.becomes.ends_with('.')));
    for command in all() {
        for parameter in command.parameters {
            if let Effect::Filter(column)
            | Effect::AnyWord(column)
            | Effect::Contains(column)
            | Effect::Choice(column, _) = parameter.effect
            {
                assert!(matches!(command.action, Action::Query(_)), "{column}");
            }
        }
    }
}

proptest! {
    #[test]
    fn nonsense_is_a_plan_or_one_clear_line(command in any::<String>()) {
        if let Err(message) = planned(&command) {
            let text = message.to_string();
            prop_assert!(!text.contains(['\n', '\0']) && text.len() < 400, "{}", text);
        }
    }

    #[test]
    fn words_in_any_order_are_a_plan_or_one_clear_line(
        words in prop::collection::vec(
            prop::sample::select(vec![
                "q", "no", "reg", "upd", "def", "sched", "co", "ev", "a", "standard", "f=d",
                "type=a", "startt=22:00", "obj='x y'", "peru=w", "day=mon", "anna", "*", "vere=1",
                "cmd='q no'", "begind=-1", "x=\0",
            ]),
            0..8,
        ),
    ) {
        if let Err(message) = planned(&words.join(" ")) {
            prop_assert!(!message.to_string().contains(['\n', '\0']));
        }
    }
}

#[test]
fn a_long_line_is_one_clear_line() {
    for command in [format!("q node {}", "x".repeat(100_000)), "x ".repeat(30_000)] {
        let message = planned(&command).expect_err("is refused").to_string();
        assert!(message.len() < 200, "{message}");
    }
}
