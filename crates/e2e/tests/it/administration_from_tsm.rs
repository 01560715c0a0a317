//! TSM's administrative command line over a real server: queries, orders, SELECT, macros, and
//! return codes.

use std::ffi::OsString;
use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use e2e::clock;
use e2e::harness::{Outcome, Server, binary, start};
use e2e::nasty::Random;

use crate::scene::Scene;

/// Time within which an agent has done its work.
const PATIENCE: Duration = Duration::from_secs(180);

/// Runs `dsmadmc` at the server of the scene, with only the answers.
pub(crate) fn dsmadmc(server: &Server, words: &[&str]) -> Outcome {
    let folder = format!("-se={}", server.dir().display());
    let common = ["dsmadmc", "-id=admin", "-password=secret", "-dataonly=yes", "-noconfirm"];
    let words = common.iter().copied().chain([folder.as_str()]).chain(words.iter().copied());
    let words: Vec<OsString> = words.map(OsString::from).collect();
    start(&binary(), &words, Path::new("/nonexistent"), None).wait()
}

/// Runs a command that is done, and returns its lines, with commas between values.
#[track_caller]
fn lines(server: &Server, command: &str) -> Vec<String> {
    let outcome = dsmadmc(server, &["-comma", command]).expect(&[0]);
    outcome.stdout.lines().map(str::to_owned).collect()
}

/// Runs a command that ends with `code`, and says `text` on standard output.
#[track_caller]
pub(crate) fn refused(server: &Server, command: &str, code: i32, text: &str) {
    let outcome = dsmadmc(server, &[command]).expect(&[code]);
    assert!(outcome.stdout.contains(text), "{outcome}");
    assert!(outcome.stdout.contains(&format!("ANS8001I Return code {code}.")), "{outcome}");
}

/// Runs `dsmadmc` with commands on standard input.
fn with_input(server: &Server, options: &[&str], input: &str) -> String {
    let mut child = Command::new(binary())
        .arg("dsmadmc")
        .arg(format!("-se={}", server.dir().display()))
        .args(options)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("the program starts");
    let stdin = child.stdin.as_mut().expect("a pipe");
    stdin.write_all(input.as_bytes()).expect("the program reads");
    let output = child.wait_with_output().expect("the program ends");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn nodes_are_administered_with_tsm_s_commands() {
    let scene = Scene::with_files(3, 5000);
    let server = &scene.server;
    let greeted = scene.node.run(&["status"]);
    assert_ne!(greeted.code(), 12, "{greeted}");
    let access = "select tcp_address, lastacc_time is null, lastsess_recvd is null from nodes";
    assert_eq!(lines(server, access), ["127.0.0.1,0,1"]);
    scene.backup();
    let platform = format!("Linux {}", std::env::consts::ARCH.replace('_', "-"));
    assert_eq!(lines(server, "q no"), [format!("ANNA,{platform},STANDARD,<1,,NO")]);
    assert_eq!(lines(server, "select client_os_name from nodes"), ["LNX:Linux"]);
    let registered = dsmadmc(server, &["reg no bert secret do=standard archdel=no"]).expect(&[0]);
    assert!(registered.stdout.contains("--token "), "the token is shown: {registered}");
    registered.says("ANR2060I Node bert registered in policy domain STANDARD.");
    refused(server, "register node BERT x", 10, "ANR2147E REGISTER NODE: Node bert is already");
    lines(server, "lock n b*");
    let locked = "select node_name, locked, archdelete from nodes where node_name='BERT'";
    assert_eq!(lines(server, locked), ["BERT,YES,NO"]);
    lines(server, "unlock node bert");
    lines(server, "define domain long");
    assert_eq!(lines(server, "upd no bert do=LONG"), ["ANR2063I Node bert updated."]);
    assert_eq!(lines(server, "select domain_name from nodes where node_name='bert'"), ["LONG"]);
    lines(server, "rename node bert berta");
    lines(server, "remove node berta");
    refused(server, "q node berta", 11, "ANR2034E QUERY NODE: No match found using this criteria.");
    refused(server, "lock node berta", 11, "ANR2146E LOCK NODE: Node berta is not registered.");
    // A node with data is guarded as 'holdfast admin' guards it.
    refused(server, "remove node anna", 4, "--confirm removes them too");
    let filespaces = lines(server, "select node_name, num_active from filespaces");
    assert_eq!(filespaces.len(), 1, "{filespaces:?}");
    assert!(filespaces[0].starts_with("ANNA,"), "{filespaces:?}");
    // The tree, its folders, and the folders above it are objects, too.
    let occupancy = lines(server, "select type, sum(num_files)>5 from occupancy group by type");
    assert_eq!(occupancy, ["Bkup,1"]);
    let stored = lines(server, "q occ anna");
    assert!(stored[0].starts_with("ANNA,Bkup,"), "{stored:?}");
    let mount = lines(server, "select filespace_name from filespaces").remove(0);
    let backups = format!(
        "select state, type, ll_name, class_name, file_size from backups where node_name='ANNA' \
         and filespace_name='{mount}' and type='FILE' order by ll_name"
    );
    let files = lines(server, &backups);
    assert_eq!(files.len(), 3, "{files:?}");
    assert_eq!(files[0], "ACTIVE_VERSION,FILE,file-0000,STANDARD,5000");
    // Without a condition on the node, the versions of all nodes are read.
    let of_all = "select node_name, count(*) from backups where type='FILE' and filespace_id>0 \
                  group by node_name";
    assert_eq!(lines(server, of_all), ["ANNA,3"]);
    let numbered = "select count(*) from occupancy o, filespaces f where o.node_name=f.node_name \
                    and o.filespace_id=f.filespace_id and f.filespace_id>0";
    assert_eq!(lines(server, numbered), ["1"]);
    let archived =
        scene
            .node
            .run(&["archive", scene.tree.to_str().unwrap(), "--description", "all"]);
    archived.expect(&[0]);
    let archives = "select description, count(*) from archives where node_name='anna' and \
                    type='FILE' group by description";
    assert_eq!(lines(server, archives), ["all,3"]);
    refused(server, "delete filespace anna /nowhere", 11, "node anna has no filespace /nowhere");
    refused(server, "delete filespace anna * type=archive", 4, "Only backups are deleted here");
    refused(server, "delete filespace anna * data=images", 4, "go together: DATA=ANY");
    let deleted = lines(server, &format!("del fi ANNA '{mount}' type=any data=any wait=yes"));
    assert!(deleted[0].starts_with("ANR0806I"), "{deleted:?}");
    refused(server, "q filespace anna", 11, "ANR2034E");
    assert_eq!(lines(server, archives), ["all,3"], "archives stay");
    let log = lines(server, "q act begind=today-1 msg=2060");
    assert!(log.iter().any(|line| line.contains("ANR2060I") && line.contains("bert")), "{log:?}");
}

#[test]
fn a_macro_in_another_encoding_is_refused_by_one_line() {
    let scene = Scene::with_files(0, 0);
    let file = scene.scratch.join("macro");
    fs::write(&file, b"\xff\xfeq\0 \0n\0o\0\n\0").expect("is written");
    let outcome = dsmadmc(&scene.server, &[&format!("macro {}", file.display())]);
    assert_ne!(outcome.code(), 0);
    assert!(outcome.stdout.contains("ANS8027E") && outcome.stdout.contains("UTF-16"), "{outcome}");
    // Other characters in their place would name another node.
    fs::write(&file, b"query node\nquery node a\xffna\n").expect("is written");
    let outcome = dsmadmc(&scene.server, &[&format!("macro {}", file.display())]);
    assert_eq!(outcome.stdout.matches("ANS8027E").count(), 1, "{outcome}");
    assert!(outcome.code() != 0 && outcome.stdout.contains("ANNA"), "{outcome}");
    fs::write(&file, b"\xef\xbb\xbfquery node\n").expect("is written");
    let outcome = dsmadmc(&scene.server, &[&format!("macro {}", file.display())]);
    outcome.expect(&[0]).says("ANNA");
}

/// A device without an end was read until the memory was full.
#[test]
fn a_macro_that_is_no_file_is_refused() {
    let scene = Scene::with_files(0, 0);
    for (place, reason) in [("/dev/zero", "larger than 4 MiB"), ("/", "directory")] {
        let outcome = dsmadmc(&scene.server, &[&format!("macro {place}")]);
        assert_ne!(outcome.code(), 0, "{place}");
        let said = &outcome.stdout;
        assert!(said.contains("ANS8027E") && said.contains(reason), "{outcome}");
    }
}

#[test]
fn the_files_of_a_volume_are_listed() {
    if !e2e::harness::is_in_folders() {
        return;
    }
    let scene = Scene::with_files(0, 0);
    let server = &scene.server;
    scene.add_library("3M");
    scene.add_tape(&[]);
    let write = |round: u64| {
        for number in 0..8 {
            let path = scene.tree.join(format!("round-{round}-{number}"));
            fs::write(path, Random::new(round * 8 + number, b"content").bytes(300_000))
                .expect("is written");
        }
        scene.backup();
        scene.drain();
    };
    write(1);
    let first: Vec<String> = scene.volume_names();
    write(2);
    let named = |volume: &str, options: &str| {
        let rows = lines(server, &format!("query content {volume} {options}"));
        let file = |row: String| row.rsplit('/').next().unwrap_or_default().to_owned();
        rows.into_iter().map(file).collect::<std::collections::BTreeSet<_>>()
    };
    let is_of = |name: &String, round: u64| name.starts_with(&format!("round-{round}-"));
    let holding = first.iter().find(|volume| {
        let outcome = dsmadmc(server, &["-comma", &format!("query content {volume}")]);
        outcome.code() == 0
    });
    let volume = holding.expect("a volume with files").to_lowercase();
    let names = named(&volume, "");
    assert!(names.iter().any(|name| is_of(name, 1)), "{names:?}");
    let everywhere: std::collections::BTreeSet<_> = scene
        .volume_names()
        .iter()
        .filter(|name| dsmadmc(server, &[&format!("q con {name}")]).code() == 0)
        .flat_map(|name| named(name, ""))
        .collect();
    let expected = (1..=2).flat_map(|round| (0..8).map(move |n| format!("round-{round}-{n}")));
    assert_eq!(everywhere, expected.collect::<std::collections::BTreeSet<_>>());
    assert_eq!(named(&volume, "count=2 node=ANNA type=backup").len(), 2);
    let ids = "select filespace_id from filespaces where node_name='ANNA'";
    let of_number = |number: &str| {
        format!("query content {volume} node=anna filespace={number} nametype=fsid count=2")
    };
    let numbered: Vec<String> =
        lines(server, ids).iter().flat_map(|id| lines(server, &of_number(id))).collect();
    assert_eq!(numbered.len(), 2, "{numbered:?}");
    let row = lines(server, &format!("query content {volume} count=1")).remove(0);
    assert!(row.starts_with("ANNA,Bkup,"), "{row}");
    let none = "ANR2034E QUERY CONTENT: No match found using this criteria.";
    for options in ["node=bert", "type=archive", "filespace=/nowhere"] {
        refused(server, &format!("query content {volume} {options}"), 11, none);
    }
    let select = format!("select count(*) from contents where volume_name='{volume}'");
    assert_eq!(lines(server, &select), [names.len().to_string()]);
    let unknown = dsmadmc(server, &["query content NOSUCH"]);
    assert!(unknown.code() != 0 && unknown.stdout.contains("there is no volume"), "{unknown}");
    dsmadmc(server, &["select * from contents"]).expect(&[4]);
    dsmadmc(server, &["query content"]).expect(&[3]);
}

/// Nouns of QUERY. An underscore stands for a blank.
const NOUNS: &str = "\
    actlog admin association auditocc cloptset collocgroup copygroup db dbbackup domain \
    drive event_* filespace library libvolume log mgmtclass mount node occupancy path \
    policyset process request schedule session status stgpool volhist volume";
/// Tables of SELECT.
const TABLES: &str = "\
    nodes filespaces occupancy auditocc volumes stgpools events summary summary_extended \
    actlog processes sessions domains policysets mgmtclasses bu_copygroups ar_copygroups \
    client_schedules admin_schedules associations libraries drives paths libvolumes \
    admins status db log volhistory cloptsets clientopts tables columns";

#[test]
fn every_query_and_every_table_answers() {
    let scene = Scene::with_files(2, 500);
    scene.backup();
    scene.server.admin(&["catalog", "backup"]);
    for noun in NOUNS.split_whitespace() {
        let command = format!("query {}", noun.replace('_', " "));
        for form in ["", "-tab", "-comma", "-displaymode=list"] {
            let words = [form, command.as_str()];
            let outcome = dsmadmc(&scene.server, &words[usize::from(form.is_empty())..]);
            let outcome = outcome.expect(&[0, 11]);
            assert_eq!(outcome.stderr, "", "{outcome}");
            assert!(!outcome.stdout.is_empty(), "{command}: {outcome}");
        }
    }
    for table in TABLES.split_whitespace() {
        let statement = format!("select * from {table}");
        dsmadmc(&scene.server, &["-tab", &statement]).expect(&[0, 11]);
    }
    assert_eq!(lines(&scene.server, "select count(*) from db where num_backups>0"), ["1"]);
    let columns = "select colname, typename from syscat.columns where tabname='domains' and \
                   colname like 'ACTIVATE%'";
    assert_eq!(lines(&scene.server, columns), ["ACTIVATE_DATE,TIMESTAMP"]);
    // Scripts name columns that have no values here.
    let named = "select count(*) from columns where colname in ('COMMMETHOD', 'MOUNT_POINT_WAIT', \
                 'LAST_REORG', 'ACTIVE_LOG_DIR', 'RECLAIMPROCESS', 'INSTALL_DATE', \
                 'LASTSESS_IDLEWAIT', 'WRITE_PASS', 'MIGR_RUNNING', 'VERB_STATE', 'MAXSESSIONS', \
                 'NUM_BACKUP_INCR')";
    assert_eq!(lines(&scene.server, named), ["12"]);
    // A detailed answer is a list, whatever its width.
    let detailed = dsmadmc(&scene.server, &["query db f=d"]).expect(&[0]);
    assert!(detailed.stdout.contains("Database Name: CATALOGUE\n"), "{detailed}");
    let tables = "select tabname, colcount from tables where tabname='COLLOCGROUP'";
    assert_eq!(lines(&scene.server, tables), ["COLLOCGROUP,2"]);
    if e2e::harness::is_in_folders() {
        let space = "select count(*) from db, log where tot_file_system_mb > 0 and \
                     pct_utilized <= 100 and total_space_mb > 0";
        let space = space.replace("pct_utilized", "db.pct_utilized");
        assert_eq!(lines(&scene.server, &space), ["1"]);
        let pages = "select count(*) from db where used_pages > 0 and free_pages is not null and \
                     usable_pages = used_pages + free_pages and total_pages = usable_pages";
        assert_eq!(lines(&scene.server, pages), ["1"]);
    }
    assert_eq!(lines(&scene.server, "select stgpool_name from stgpools").len(), 1);
    let groups = "select verexists, retextra from bu_copygroups where set_name='ACTIVE'";
    assert_eq!(lines(&scene.server, groups).len(), 1);
}

#[test]
fn refusals_have_tsm_s_numbers_and_return_codes() {
    let scene = Scene::new();
    let refused = |command: &str, code, text: &str| refused(&scene.server, command, code, text);
    refused("q pr", 11, "ANR0944E QUERY PROCESS: No active processes found.");
    refused("cancel session all", 11, "there is no session under way");
    refused("cancel request all", 11, "no request waits for a volume");
    refused("select 1 from backups where node_name='NOBODY'", 11, "there is no node NOBODY");
    refused("delete from nodes", 2, "ANR2000E");
    refused("select x from nodes", 3, "ANR2940E SELECT: There is no column X.");
    refused("register license", 4, "not supported: Holdfast needs no licence");
    refused("q nosuch", 2, "ANR2000E Unknown command - QUERY NOSUCH.");
    refused("q node x=y", 3, "ANR2020E QUERY NODE: Invalid parameter - X.");
}

#[test]
fn policy_and_option_sets_are_changed() {
    let scene = Scene::new();
    let server = &scene.server;
    lines(server, "copy domain standard plain");
    assert_eq!(lines(server, "q domain plain")[0], "PLAIN,STANDARD,STANDARD,0,,No");
    // A set that is active already is activated again.
    let unchanged = "It has no changes: the active set stays as it is.";
    for change in ["copy policyset plain standard ps", "assign defmgmtclass plain ps STANDARD"] {
        lines(server, change);
        let again = lines(server, "activate policyset plain ps");
        assert!(again[0].starts_with("ANR1514I") && again[0].ends_with(unchanged), "{again:?}");
    }
    lines(server, "def mg standard ps monthly");
    lines(server, "def co standard ps monthly vere=nolimit verd=nol rete=365 reto=365 dest=x");
    lines(server, "def co standard ps monthly t=a retv=3650 dest=x");
    lines(server, "copy mg standard ps monthly yearly");
    lines(server, "validate policyset standard ps");
    lines(server, "activate policyset standard ps");
    let rules = "select class_name, verexists, retextra from bu_copygroups where \
                 set_name='ACTIVE' and class_name in ('MONTHLY','YEARLY') order by 1";
    assert_eq!(lines(server, rules), ["MONTHLY,NOLIMIT,365", "YEARLY,NOLIMIT,365"]);
    lines(server, "assign defmgmtclass standard ps monthly");
    lines(server, "activate policyset standard ps");
    let default = "select class_name from mgmtclasses where set_name='ACTIVE' and \
                   defaultmc='Yes' and domain_name='STANDARD'";
    assert_eq!(lines(server, default), ["MONTHLY"]);
    refused(server, "upd co standard active monthly rete=1", 4, "ANR1557E");
    lines(server, "copy domain standard other");
    assert_eq!(lines(server, "q domain other")[0], "OTHER,STANDARD,MONTHLY,0,,No");
    lines(server, "define cloptset linux desc=machines");
    assert_eq!(lines(server, "q cloptset LINUX"), ["LINUX,,,,"], "a set without options");
    refused(server, "q cloptset nosuch", 11, "ANR2034E");
    lines(server, "define clientopt linux resourceutilization 4 force=yes");
    lines(server, "update node anna cloptset=LINUX");
    let options = "select option_name, option_value, force from clientopts where \
                   option_name<>'INCLEXCL'";
    assert_eq!(lines(server, options), ["RESOURCEUTILIZATION,4,Yes"]);
    lines(server, "define clientopt linux commrestartduration 5");
    lines(server, "define clientopt linux compression no");
    let values = "select option_name, option_value from clientopts where option_name<>'RES%' \
                  and option_name not like 'RES%' order by 1";
    assert_eq!(lines(server, values), ["COMPRESSION,none", "WAIT,5m"]);
    refused(server, "define clientopt linux replace prompt", 4, "ANR2032E");
    lines(server, "define clientopt linux inclexcl 'exclude.backup /no/.../*'");
    lines(server, "define clientopt linux inclexcl 'include.file /no/such/*' force=yes");
    refused(server, "define clientopt linux inclexcl 'exclude *.o'", 4, "ANR2032E");
    let statements = "select option_value from clientopts where option_name='INCLEXCL' order by \
                      seqnumber";
    assert_eq!(lines(server, statements), ["exclude /no/.../*", "include /no/such/*"]);
    lines(server, "delete clientopt linux commrestartduration");
    lines(server, "delete clientopt linux compression");
    assert_eq!(lines(server, options), ["RESOURCEUTILIZATION,4,Yes"]);
    lines(server, "copy cloptset linux linux2");
    lines(server, "delete clientopt linux2 resourceutilization");
    lines(server, "delete cloptset linux2");
    assert_eq!(lines(server, "select optionset_name from cloptsets"), ["LINUX"]);
}

/// A script that validates before it activates takes 0 for leave to do so.
#[test]
fn a_set_that_cannot_be_activated_is_not_validated() {
    let scene = Scene::new();
    let server = &scene.server;
    lines(server, "delete mgmtclass standard standard standard");
    for verb in ["validate", "activate"] {
        let command = format!("{verb} policyset standard standard");
        let outcome = dsmadmc(server, &[&command]).expect(&[4]);
        let text = format!("ANR2032E {} POLICYSET: The command failed: ", verb.to_uppercase());
        assert!(outcome.stdout.contains(&text), "{outcome}");
        assert!(outcome.stdout.contains("the draft has no class"), "{outcome}");
        assert!(!outcome.stdout.contains("ANR1515I"), "{outcome}");
    }
    lines(server, "delete policyset standard standard");
    let valid = lines(server, "validate policyset standard standard");
    assert!(valid.iter().any(|line| line.starts_with("ANR1515I")), "{valid:?}");
}

#[test]
fn what_exists_is_not_defined_again() {
    let scene = Scene::new();
    let server = &scene.server;
    lines(server, "define mgmtclass standard ps monthly");
    for class in ["MONTHLY", "standard"] {
        let command = format!("define mgmtclass standard ps {class}");
        refused(server, &command, 10, "ANR2032E DEFINE MGMTCLASS: The management class");
    }
    // A copy took the place of the class that was there.
    lines(server, "update copygroup standard ps monthly verexists=9");
    let onto = "copy mgmtclass standard ps standard MONTHLY";
    refused(server, onto, 10, "ANR2032E COPY MGMTCLASS: The management class");
    let kept = "select verexists from bu_copygroups where set_name='STANDARD' and \
                class_name='MONTHLY'";
    assert_eq!(lines(server, kept), ["9"]);
    lines(server, "define schedule standard nightly starttime=22:00");
    let exists = "exists already.";
    refused(server, "define schedule standard NIGHTLY starttime=23:00", 10, exists);
    // A schedule of the server has no domain before its name, and shares the names.
    let of_server = "define schedule nightly type=administrative cmd='expire inventory'";
    refused(server, of_server, 10, exists);
    let unchanged = "select count(*) from client_schedules where starttime like '22:00%'";
    assert_eq!(lines(server, unchanged), ["1"]);
}

#[test]
fn schedules_run_and_leave_their_traces() {
    let scene = Scene::with_files(3, 500);
    let server = &scene.server;
    let tree = scene.tree.display();
    let _agent = scene.node.spawn_agent();
    let define =
        format!("def sched standard nightly act=i obj='{tree}' startd=today+20 dur=2 duru=h");
    assert_eq!(
        lines(server, &define),
        ["ANR2500I Schedule nightly defined in policy domain standard."]
    );
    lines(server, "define association standard NIGHTLY ann*");
    assert_eq!(lines(server, "select node_name from associations"), ["ANNA"]);
    refused(server, "delete assoc standard NIGHTLY nobody,ANNA;", 11, "nobody is not registered");
    refused(server, "select node_name from associations;", 11, "ANR2034E");
    lines(server, "define association standard NIGHTLY ann*");
    assert_eq!(lines(server, "query node ANNA;").len(), 1);
    let schedule = lines(server, "q sched standard nightly");
    assert_eq!(lines(server, "q sched standard node=anna"), schedule);
    refused(server, "q sched standard node=bert", 11, "ANR2034E");
    assert!(schedule[0].starts_with("STANDARD,NIGHTLY,INCREMENTAL,"), "{schedule:?}");
    lines(server, "copy sched standard nightly standard other");
    lines(server, "delete schedule standard other");
    lines(server, &format!("define clientaction anna act=i obj='{tree}'"));
    let completed = "select count(*) from events where status='Completed'";
    let end = clock::now() + PATIENCE;
    while lines(server, completed) != ["1"] {
        assert!(clock::now() < end, "the backup ends: {:?}", lines(server, "q ev * *"));
        clock::pause(Duration::from_millis(200));
    }
    let ran = lines(server, "q event * * f=d");
    assert!(
        ran.iter().any(|line| line.contains("ANNA") && line.contains("Completed,0")),
        "{ran:?}"
    );
    let summary = "select activity, entity, successful, affected>0 from summary \
                   where entity='ANNA' and start_time>current_timestamp - 24 hours";
    assert_eq!(lines(server, summary), ["BACKUP,ANNA,YES,1"]);
    let log = "select message from actlog where msgno=2507 or message like 'ANE4954I%' order by 1";
    let log = lines(server, log);
    assert!(log[0].starts_with("\"ANE4954I (Session: "), "{log:?}");
    assert!(log[1].starts_with("ANR2507I Schedule "), "{log:?}");
}

#[test]
fn work_by_hand_leaves_its_traces() {
    let scene = Scene::with_files(3, 500);
    let server = &scene.server;
    scene.node.run(&["backup", scene.tree.to_str().unwrap()]).expect(&[0]);
    let summary = "select activity, entity, schedule_name, successful, examined>0 from summary \
                   where entity='ANNA'";
    assert_eq!(lines(server, summary), ["BACKUP,ANNA,,YES,1"]);
    let log = lines(server, "select message from actlog where msgno=4952");
    // Scripts look for the end of the name.
    let is_of_node = log[0].contains(", Node: ANNA) Total number of objects inspected: ");
    assert!(log[0].starts_with("\"ANE4952I (Filespace: ") && is_of_node, "{log:?}");
    let known = "select count(*) from nodes where lastsess_recvd>0 and lastacc_time is not null";
    assert_eq!(lines(server, known), ["1"]);
    // A start without its end would stand for both.
    let times = "select count(*) from filespaces where backup_end>backup_start";
    assert_eq!(lines(server, times), ["1"]);
    let sizes = "select count(*) from filespaces where capacity>0 and pct_util between 0 and 100";
    assert_eq!(lines(server, sizes), ["1"]);
    let of_client = "select count(*) from nodes where platform_name like 'Linux %' and \
                     client_version is not null and client_sublevel is not null and \
                     client_os_level is not null";
    assert_eq!(lines(server, of_client), ["1"]);
    // The backups of many nodes come in one list.
    for number in 0..21 {
        server.admin(&["node", "add", &format!("more-{number}")]);
    }
    for same in [known, times, sizes, of_client] {
        assert_eq!(lines(server, same), ["1"], "{same}");
    }
    let facts = "select count(*) from nodes where reg_admin is not null and compression='CLIENT'";
    assert_eq!(lines(server, facts), ["22"]);
    assert_eq!(lines(server, "update node anna emailaddress=anna@example.org").len(), 1);
    let mail = "select email_address from nodes where node_name='ANNA'";
    assert_eq!(lines(server, mail), ["anna@example.org"]);
    let detailed = dsmadmc(server, &["-displaymode=list", "query node anna f=d"]).expect(&[0]);
    for part in [
        "Client Version: Version ",
        "Email Address: anna@example.org",
        "Session Security: STRICT",
        "Transport Method: TLS 1.3",
    ] {
        assert!(detailed.stdout.contains(part), "{part}: {detailed}");
    }
    let versions = "select count(*) from backups where node_name='anna' and type='FILE'";
    assert_eq!(lines(server, versions), ["3"], "of all filespaces");
    for command in ["query node ANNA", "select node_name, lastsess_recvd from nodes"] {
        let rows = dsmadmc(server, &["-json", command]).expect(&[0]).json_lines();
        assert_eq!(rows[0]["NODE_NAME"], "ANNA", "{rows:?}");
    }
    let absent = dsmadmc(server, &["-json", "query node NOBODY"]).expect(&[11]);
    assert_eq!(absent.stdout, "");
    assert!(absent.stderr.contains("ANR2034E"), "{absent}");
}

#[test]
fn archives_and_restores_by_hand_are_in_the_summary() {
    let scene = Scene::with_files(3, 500);
    let server = &scene.server;
    scene.backup();
    let tree = scene.tree.to_str().unwrap();
    scene.node.run(&["archive", tree, "--description", "all"]).expect(&[0]);
    scene.restore("restored", &[]);
    let target = scene.scratch.folder("retrieved");
    scene
        .node
        .run(&["retrieve", tree, "--to", target.to_str().unwrap()])
        .expect(&[0]);
    let summary = "select activity, entity, successful, examined>2, affected>2, failed, bytes>0, \
                   end_time>=start_time from summary where entity='ANNA' order by activity";
    let expected = [
        "ARCHIVE,ANNA,YES,1,1,0,1,1",
        "BACKUP,ANNA,YES,1,1,0,1,1",
        "RESTORE,ANNA,YES,1,1,,1,1",
        "RETRIEVE,ANNA,YES,1,1,,1,1",
    ];
    // The server records a restore after it has sent all of it.
    let end = clock::now() + PATIENCE;
    while lines(server, summary) != expected {
        assert!(clock::now() < end, "all are there: {:?}", lines(server, summary));
        clock::pause(Duration::from_millis(200));
    }
    let others = "select count(*) from summary where entity='BERT'";
    assert_eq!(lines(server, others), ["0"]);
}

#[test]
fn scripts_get_titles_forms_and_files() {
    let scene = Scene::new();
    let server = &scene.server;
    let folder = format!("-se={}", server.dir().display());
    let run = |words: &[&str]| {
        let common = ["dsmadmc", folder.as_str()];
        let words = common.iter().chain(words).map(OsString::from);
        start(&binary(), &words.collect::<Vec<_>>(), Path::new("/nonexistent"), None).wait()
    };
    let titled = run(&["-id=admin", "-pa=x", "q", "node"]).expect(&[0]);
    for part in ["Session established", "ANS8000I Server command: 'q node'.", "Node Name", "-----"]
    {
        assert!(titled.stdout.contains(part), "{part}: {titled}");
    }
    assert!(titled.stdout.ends_with("ANS8002I Highest return code was 0.\n"), "{titled}");
    let list = run(&["-dataonly=yes", "-displaymode=list", "q node f=d"]).expect(&[0]);
    assert!(list.stdout.contains("Policy Domain Name: STANDARD\n"), "{list}");
    let file = scene.scratch.join("answer");
    let redirected = format!("q node > {}", file.display());
    assert_eq!(run(&["-dataonly=yes", "-tab", &redirected]).expect(&[0]).stdout, "");
    assert_eq!(fs::read_to_string(&file).expect("is written"), "ANNA\t\tSTANDARD\t\t\tNO\n");
    let tabbed = run(&["-dataonly=yes", "-tab", "select node_name, domain_name from nodes"]);
    assert_eq!(tabbed.expect(&[0]).stdout, "ANNA\tSTANDARD\n");
    let status = run(&["-dataonly=yes", "q status"]).expect(&[0]);
    assert!(status.stdout.contains(" - Version 8, Release 1, Level 0.0 "), "{status}");
    let appended = format!("select 1 from sysdummy1 >> {}", file.display());
    run(&["-dataonly=yes", "-tab", &appended]).expect(&[0]);
    assert_eq!(fs::read_to_string(&file).expect("is written").lines().count(), 2);
    let outfile = format!("-outfile={}", file.display());
    assert_eq!(run(&["-dataonly=yes", "-comma", &outfile, "q no"]).expect(&[0]).stdout, "");
    assert_eq!(fs::read_to_string(&file).expect("is written"), "ANNA,,STANDARD,,,NO\n");
    run(&["-nosuch", "q no"]).expect(&[3]);
    let away = ["dsmadmc", "-se=/nonexistent/server", "q no"].map(OsString::from);
    let away = start(&binary(), &away, Path::new("/nonexistent"), None).wait().expect(&[14]);
    assert!(away.stdout.contains("ANS8023E"), "{away}");
}

#[test]
fn macros_and_input_are_carried_out_command_by_command() {
    let scene = Scene::new();
    let server = &scene.server;
    let file = scene.scratch.join("nodes.mac");
    let text = "/* nodes of the\n   web */\nregister node %1 secret -\n  domain=STANDARD\n\
                lock node %1\nlock node nobody\nq no %1\n";
    fs::write(&file, text).expect("is written");
    let outcome = dsmadmc(server, &["-comma", &format!("macro {} web-01", file.display())]);
    let outcome = outcome.expect(&[11]);
    for part in ["ANR2060I", "ANR2064I", "ANR2146E", "WEB-01,,STANDARD,,,YES"] {
        assert!(outcome.stdout.contains(part), "{part}: {outcome}");
    }
    let answered = with_input(server, &["-dataonly=yes"], "remove node web-01\nno\nq no web-01\n");
    assert!(answered.contains("Do you want to remove the node?"), "{answered}");
    assert!(answered.contains("not carried out") && answered.contains("WEB-01"), "{answered}");
    let answered = with_input(
        server,
        &["-dataonly=yes", "-comma"],
        "rem n web-01\ny\nq no web-01\nquit\nq no\n",
    );
    assert!(answered.contains("ANR2061I") && answered.contains("ANR2034E"), "{answered}");
    assert!(!answered.contains("ANNA"), "nothing is read after QUIT: {answered}");
    fs::write(&file, "q domain\nquit\nq node\n").expect("is written");
    let ended = dsmadmc(server, &["-comma", &format!("macro {}", file.display())]).expect(&[0]);
    assert!(ended.stdout.contains("STANDARD") && !ended.stdout.contains("ANNA"), "{ended}");
    refused(server, "macro /nonexistent/macro", 15, "ANS8027E");
}

#[test]
fn halt_stops_the_server_in_an_orderly_way() {
    let mut scene = Scene::new();
    let folder = format!("-se={}", scene.server.dir().display());
    let words = ["dsmadmc", &folder, "-noconfirm", "halt"].map(OsString::from);
    // The announcement of the server is in the folder of runtime files beside its own.
    let home = scene.server.dir().to_owned();
    start(&binary(), &words, &home, None).wait().expect(&[0]);
    scene.server.ends().expect(&[0]);
}
