//! Servers with their catalogue in a real PostgreSQL and their packs in a real object store: one
//! server alone, and several at once.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use e2e::clock::{now, pause};
use e2e::harness::{Cluster, Outcome, Process, Server, start_enrolment, start_with_home};
use e2e::session_tree::redirect;
use e2e::transcript::{Credential, HostileClient};

use crate::fleet::{
    FILE_BYTES, FILES, Fleet, StopGuard, audit, await_servers, compare_rounds, eventually, keeper,
    keeps_house, run_rounds, servers,
};
use crate::recovery::recover;
use crate::scene::{Scene, plant_files};

/// Returns true if the command started at one server and continued at another.
fn was_carried_on(outcome: &Outcome) -> bool {
    let line = "continuing with another server";
    outcome.messages().iter().any(|message| message.contains(line))
}

#[test]
fn a_server_over_a_database_and_a_store_does_what_every_server_does() {
    let Some(mut fleet) = Fleet::new() else { return };
    fleet.scene.keep_only_active();
    fleet.scene.backup();
    fleet.scene.backup().counts(&[("backed_up", 0)]);
    fs::remove_file(fleet.scene.file(3)).unwrap();
    fs::write(fleet.scene.file(4), "changed").unwrap();
    fleet.scene.backup().counts(&[("expired", 1), ("failed", 0)]);
    fleet
        .scene
        .node
        .run(&["archive", fleet.scene.tree.to_str().unwrap(), "--json"])
        .expect(&[0]);
    fleet.scene.compare("restored");
    fleet.scene.server.admin(&["expire"]);
    fleet.scene.server.admin(&["reclaim"]);
    fleet.scene.configure("catalog_copy_hours", 24);
    fleet.scene.compare("again");
    fleet.scene.node.verify().expect(&[0]);
    fleet.audit();
    // The server's folder has only keys, the configuration, and local files about packs.
    assert!(!fleet.scene.server.dir().join("catalog.sqlite").try_exists().unwrap());
    // The tables of the server can be read in SQL.
    let ask = |statement: &str| fleet.cluster.sql(&fleet.database, statement);
    assert_eq!(ask("SELECT node_name FROM nodes"), "anna");
    let files = ask("SELECT sum(num_files) FROM occupancy WHERE node_name = 'anna'");
    assert!(files.parse::<usize>().unwrap() >= FILES - 1, "{files}");
    assert_eq!(ask("SELECT DISTINCT type FROM occupancy ORDER BY type"), "Arch\nBkup");
    assert!(ask("SELECT count(*) FROM summary WHERE successful").parse::<u32>().unwrap() >= 3);
    let told = ask("SELECT message FROM actlog");
    assert!(told.contains("reclaim") || told.contains("expir"), "{told}");
    let writable = "SELECT count(*) FROM information_schema.views WHERE table_schema = 'public'
                    AND (is_updatable = 'YES' OR is_insertable_into = 'YES')";
    assert_eq!(ask(writable), "0");
    // The server copies its catalogue by itself, soon after its start.
    let copied = "SELECT status, result FROM events WHERE schedule_name = 'copy the catalogue'";
    assert!(eventually(|| ask(copied) == "Completed|0"), "{}", ask(copied));
    let tasks = fleet.scene.server.try_admin(&["tasks"]).expect(&[0]).json_lines();
    assert_eq!((&tasks[0]["task"], &tasks[0]["code"]), (&"copy the catalogue".into(), &0.into()));
}

#[test]
fn a_lost_installation_is_made_again_from_the_store_and_a_small_file() {
    let Some(mut fleet) = Fleet::new() else { return };
    fleet.scene.backup();
    let file = fleet.scene.recovery_file();
    fleet.scene.copy_catalog();
    let (dir, port) = (fleet.scene.server.dir().to_owned(), fleet.scene.server.port());
    fleet.scene.server.kill9();
    fs::remove_dir_all(&dir).unwrap();
    fleet
        .cluster
        .sql("postgres", &format!("DROP DATABASE {} WITH (FORCE)", fleet.database));
    fleet.cluster.sql("postgres", &format!("CREATE DATABASE {}", fleet.database));
    let made = recover(&dir, &file, &[]).expect(&[0]).json();
    assert_eq!((&made["versions_lost"], &made["nodes"]), (&0.into(), &1.into()), "{made}");
    fleet.scene.server = Server::start_at(&dir, port);
    fleet.scene.compare("recovered");
    fleet.audit();
}

#[test]
fn another_server_goes_on_where_one_was_killed() {
    let Some(mut fleet) = Fleet::new() else { return };
    let mut other = fleet.with_another();
    let mut carried_on = 0;
    for round in 0..4_u64 {
        plant_files(&fleet.scene.tree.join(format!("round-{round}")), 8, 6 << 20, round + 10);
        let running = fleet.scene.node.spawn_backup(&fleet.scene.tree, &["--wait", "2m"]);
        pause(Duration::from_millis(100 + 150 * round));
        fleet.scene.server.kill9();
        // The backup continues at the other server, without any help.
        let backed_up = running.wait().expect(&[0]);
        carried_on += usize::from(was_carried_on(&backed_up));
        let mut messages = backed_up.messages().into_iter();
        assert!(messages.all(|message| !message.contains("server is away")), "{backed_up}");
        let (dir, port) = (fleet.scene.server.dir().to_owned(), fleet.scene.server.port());
        fleet.scene.server = std::mem::replace(&mut other, Server::start_at(&dir, port));
        fleet.scene.node.verify().expect(&[0]);
    }
    assert!(carried_on > 0, "each backup ended before its server was killed");
    fleet.scene.compare("killed");
    audit(&[&fleet.scene.server, &other]);
    assert!(eventually(|| fleet.garage.unfinished_uploads() == 0));
}

#[test]
fn a_node_that_knows_one_server_learns_of_the_others() {
    let Some(mut fleet) = Fleet::new() else { return };
    let other = fleet.join("other");
    // The node learns the address of the other server from the server at which it was enrolled.
    let knows_both = || {
        fleet.scene.backup();
        let told = fs::read_to_string(fleet.scene.node.home().join("servers")).unwrap_or_default();
        told.lines().any(|line| line == other.address())
    };
    assert!((0..240).any(|_| knows_both() || {
        pause(Duration::from_millis(250));
        false
    }));
    fleet.scene.server.kill9();
    fs::write(fleet.scene.file(1), "changed").unwrap();
    fleet.scene.backup().counts(&[("backed_up", 1)]);
    fleet.scene.compare("at the other");
}

#[test]
fn an_enrolment_key_counts_at_all_servers() {
    let Some(fleet) = Fleet::new() else { return };
    let other = fleet.join("other");
    let first = &fleet.scene.server;
    let made = first.admin(&["enrolment-key", "add", "racks", "--count", "3"]);
    let key = made["token"].as_str().unwrap().to_owned();
    let start = |server: &Server, machine: &str| {
        let home = fleet.scene.scratch.join(machine);
        start_enrolment(&home, &server.address(), &key, &["--name", machine])
    };
    // Twice as many machines as the key is for come to both servers at once.
    let machines: Vec<String> = (0..6).map(|number| format!("rack-{number}")).collect();
    let all: Vec<_> = machines
        .iter()
        .zip([first, &other].into_iter().cycle())
        .map(|(machine, server)| start(server, machine))
        .collect();
    let outcomes: Vec<Outcome> = all.into_iter().map(Process::wait).collect();
    let (enrolled, refused): (Vec<&Outcome>, Vec<&Outcome>) =
        outcomes.iter().partition(|outcome| outcome.code() == 0);
    assert_eq!(enrolled.len(), 3, "{outcomes:?}");
    let reason = "has enrolled as many nodes as it may";
    assert!(refused.iter().all(|outcome| outcome.stderr.contains(reason)), "{outcomes:?}");
    for server in [first, &other] {
        let shown = server.admin(&["enrolment-key", "show", "racks"]);
        assert_eq!((&shown["enrolled"], &shown["state"]), (&3.into(), &"used up".into()));
    }
    // A node of the key works with the server at which it was not enrolled.
    let machine = machines.iter().zip(&outcomes).find(|(_, outcome)| outcome.code() == 0);
    let home = fleet.scene.scratch.join(machine.unwrap().0);
    let settings = fs::read_to_string(home.join("client.toml")).unwrap();
    let [one, two] = [first.address(), other.address()];
    let elsewhere = match settings.contains(&one) {
        true => settings.replace(&one, &two),
        false => settings.replace(&two, &one),
    };
    fs::write(home.join("client.toml"), elsewhere).unwrap();
    start_with_home(&home, &["list"]).wait().expect(&[0]);
}

#[test]
fn progress_is_told_to_an_administrator_at_another_server() {
    let Some(fleet) = Fleet::new() else { return };
    let other = fleet.join("other");
    plant_files(&fleet.scene.tree.join("more"), 24, 1 << 20, 7);
    let _agent = fleet.scene.node.spawn_agent();
    let tree = fleet.scene.tree.to_str().unwrap();
    let words = ["run", "--json", "anna", "--", "backup", "--limit-rate-send=1M", tree];
    let mut run = other.spawn_admin(&words);
    let mut seen: Vec<u64> = Vec::new();
    while seen.len() < 3 {
        let line = run.next_line(Duration::from_secs(180)).expect("the backup goes on");
        let line: serde_json::Value = serde_json::from_str(&line).unwrap();
        assert_eq!(line.get("report"), None, "it ended before its progress was told: {line}");
        seen.extend(line["progress"]["bytes"].as_u64().filter(|bytes| *bytes > 0));
        seen.dedup();
    }
    assert!(seen.is_sorted(), "{seen:?}");
    let done = run.wait().expect(&[0]).json_lines();
    let last = done.last().unwrap();
    assert_eq!((&last["state"], &last["code"]), (&"completed".into(), &0.into()), "{last}");
}

/// Each server knew only the agents that were connected to it, so a copy at another server carried
/// out each event a second time.
#[test]
fn a_copied_node_is_refused_at_another_server_too() {
    let Some(fleet) = Fleet::new() else { return };
    let other = fleet.join("other");
    let home = fleet.scene.node.home();
    let at_other = |name: &str| {
        let copy = fleet.scene.scratch.join(name);
        let copied = Command::new("cp").arg("-a").arg(home).arg(&copy).status();
        assert!(copied.expect("cp runs").success());
        let settings = fs::read_to_string(copy.join("client.toml")).unwrap();
        let elsewhere = settings.replace(&fleet.scene.server.address(), &other.address());
        fs::write(copy.join("client.toml"), elsewhere).unwrap();
        copy
    };
    let run_true = || {
        let words = ["run", "--json", "anna", "--", "command", "true"];
        let done = fleet.scene.server.spawn_admin(&words).wait().expect(&[0]).json_lines();
        assert_eq!(done.last().unwrap()["state"], "completed", "{done:?}");
    };
    let first = fleet.scene.node.spawn_agent();
    run_true();
    let copy = at_other("copy");
    let second = start_with_home(&copy, &["agent", "run"]);
    let refused = || {
        let status = start_with_home(&copy, &["agent", "status"]).wait().expect(&[0]);
        status.stderr.contains("another agent of node anna lives")
    };
    assert!(eventually(refused), "the copy is not refused");
    run_true();
    // The copy is admitted once the first agent is gone.
    drop(first.kill9());
    run_true();
    assert!(!refused(), "nobody else lives");
    drop(second.kill9());
}

#[test]
fn a_restore_goes_on_at_another_server() {
    let Some(mut fleet) = Fleet::new() else { return };
    let mut other = fleet.with_another();
    plant_files(&fleet.scene.tree.join("more"), 30, 6 << 20, 10);
    fleet.scene.backup();
    let mut carried_on = 0;
    for round in 0..3_u64 {
        let out = fleet.scene.scratch.folder(&format!("out-{round}"));
        let running = fleet.scene.node.spawn_restore(&fleet.scene.tree, &out, &[]);
        pause(Duration::from_millis(150 + 150 * round));
        fleet.scene.server.kill9();
        let restored = running.wait().expect(&[0]).counts(&[("failed", 0)]);
        carried_on += usize::from(was_carried_on(&restored));
        let top = out.join(fleet.scene.tree.file_name().unwrap());
        let expected = crate::scene::manifest(&fleet.scene.tree);
        e2e::manifest::assert_same(&expected, &crate::scene::manifest(&top));
        let (dir, port) = (fleet.scene.server.dir().to_owned(), fleet.scene.server.port());
        fleet.scene.server = std::mem::replace(&mut other, Server::start_at(&dir, port));
    }
    assert!(carried_on > 0, "each restore ended before its server was killed");
}

#[test]
fn a_server_that_was_held_up_writes_nothing_any_more() {
    let Some(mut fleet) = Fleet::new() else { return };
    let other = fleet.with_another();
    fleet.scene.backup();
    plant_files(&fleet.scene.tree.join("more"), 8, 6 << 20, 10);
    let running = fleet.scene.node.spawn_backup(&fleet.scene.tree, &[]);
    pause(Duration::from_millis(200));
    // The server hangs, but its machine still accepts connections.
    fleet.scene.server.freeze(true);
    await_servers(&other, 1);
    fleet.scene.server.freeze(false);
    let ended = fleet.scene.server.ends();
    assert_ne!(ended.code(), 0);
    drop(ended.says("have declared this server dead"));
    running.wait().expect(&[0]);
    fleet.scene.server = other;
    fleet.scene.compare("held up");
    fleet.audit();
}

/// Time limit from the death of a server until its filespace is backed up at another server, which
/// also keeps house.
const TAKEN_OVER_MAX: Duration = Duration::from_secs(30);

#[test]
fn what_a_dead_server_was_at_another_does_within_half_a_minute() {
    let Some(mut fleet) = Fleet::new() else { return };
    let other = fleet.join("other");
    plant_files(&fleet.scene.tree.join("more"), 24, 6 << 20, 10);
    let running = fleet.scene.node.spawn_backup(&fleet.scene.tree, &[]);
    pause(Duration::from_millis(400));
    running.freeze(true);
    assert!(eventually(|| servers(&other).iter().any(|one| one["backups"] == 1)));
    assert!(keeps_house(&fleet.scene.server));
    // A new enrolment would end the backup.
    redirect(&fleet.scene.node, &fleet.scene.server, other.port());
    fs::remove_dir_all(fleet.scene.tree.join("more")).unwrap();
    let refused = fleet.scene.node.backup(&fleet.scene.tree, &[]);
    assert_ne!(refused.code(), 0);
    drop(refused.says("another backup of this filespace"));
    fleet.scene.server.kill9();
    let died = now();
    while fleet.scene.node.backup(&fleet.scene.tree, &[]).code() != 0 || !keeps_house(&other) {
        assert!(died.elapsed() <= TAKEN_OVER_MAX, "{:?}", servers(&other));
        pause(Duration::from_millis(250));
    }
    let took = died.elapsed();
    assert!(took <= TAKEN_OVER_MAX, "{took:?}");
    drop(running);
    fleet.scene.server = other;
    fleet.scene.compare("taken over");
    fleet.audit();
}

/// Changes of the schema, such as a newer program makes when it starts beside this program.
const NEWER: &str = "
    ALTER TABLE session ADD COLUMN of_newer BIGINT;
    ALTER TABLE filespace ADD COLUMN of_newer TEXT NOT NULL DEFAULT 'new';
    ALTER TABLE directory ADD COLUMN of_newer BYTEA;
    ALTER TABLE page ADD COLUMN of_newer BIGINT NOT NULL DEFAULT 7;
    ALTER TABLE digest ADD COLUMN of_newer BIGINT;
    ALTER TABLE version ADD COLUMN of_newer BIGINT;
    ALTER TABLE pack ADD COLUMN of_newer BIGINT;
    ALTER TABLE event ADD COLUMN of_newer BIGINT;
    ALTER TABLE server ADD COLUMN of_newer BIGINT;
    CREATE TABLE of_newer(id BIGINT PRIMARY KEY);
    UPDATE holdfast_schema SET version = version + 1";

#[test]
fn servers_go_on_beside_a_newer_one_and_end_where_it_says_so() {
    let Some(mut fleet) = Fleet::new() else { return };
    let mut other = fleet.with_another();
    fleet.scene.backup();
    let (node, tree) = fleet.client("berta", &other.address());
    let is_over = AtomicBool::new(false);
    let rounds = std::thread::scope(|scope| {
        let rounds = scope.spawn(|| run_rounds(&node, &tree, 1, &is_over));
        let over = StopGuard(&is_over);
        pause(Duration::from_secs(1));
        fleet.cluster.sql(&fleet.database, NEWER);
        fs::write(fleet.scene.file(1), "changed").unwrap();
        fleet.scene.backup().counts(&[("backed_up", 1)]);
        pause(Duration::from_secs(1));
        drop(over);
        rounds.join().expect("the thread has not panicked")
    });
    assert!(rounds.len() > 2, "{rounds:?}");
    // The servers, still of the old version, are restarted one after the other.
    fleet.scene.server.restart();
    compare_rounds((&node, &tree), &rounds, &fleet.scene.scratch.folder("of-berta"));
    other.restart();
    fs::remove_file(fleet.scene.file(2)).unwrap();
    fleet.scene.backup().counts(&[("expired", 1)]);
    fleet.scene.compare("beside");
    audit(&[&fleet.scene.server, &other]);
    // A server refuses to start if a newer server has changed the schema too much.
    fleet.cluster.sql(&fleet.database, "UPDATE holdfast_schema SET needs = version");
    other.terminate().expect(&[0]);
    let refused = Server::try_start_at(other.dir(), other.port());
    drop(refused.unwrap_err().says("its schema needs programs of version"));
}

#[test]
fn all_servers_serve_at_once_and_one_keeps_house() {
    let Some(fleet) = Fleet::new() else { return };
    let other = fleet.join("other");
    assert!(eventually(|| servers(&fleet.scene.server).len() == 2));
    assert!(keeps_house(&fleet.scene.server) && !keeps_house(&other));
    fleet.scene.backup();
    // Chunks that one server has stored are offered by the other at once, and not stored again.
    let (node, tree) = fleet.client("berta", &other.address());
    fleet.enrol_at(&other.address());
    fleet.scene.compare("elsewhere");
    plant_files(&tree, FILES, FILE_BYTES, 1);
    let stored = "SELECT sum(bytes) FROM pack";
    let before: u64 = fleet.cluster.sql(&fleet.database, stored).parse().unwrap();
    assert!(before > (FILES * FILE_BYTES / 2) as u64);
    pause(Duration::from_secs(3));
    node.backup(&tree, &[]).expect(&[0]);
    let after: u64 = fleet.cluster.sql(&fleet.database, stored).parse().unwrap();
    assert!(
        after < before + before / 10,
        "the same content is stored again: {before} bytes became {after}"
    );
    // A filespace is backed up by one server at a time.
    plant_files(&fleet.scene.tree.join("more"), 24, 6 << 20, 10);
    let running = fleet.scene.node.spawn_backup(&fleet.scene.tree, &[]);
    pause(Duration::from_millis(400));
    running.freeze(true);
    assert!(eventually(|| servers(&other)[1]["backups"] == 1), "{:?}", servers(&other));
    redirect(&fleet.scene.node, &other, fleet.scene.server.port());
    let refused = fleet.scene.node.backup(&fleet.scene.tree, &[]);
    assert_ne!(refused.code(), 0);
    drop(refused.says("another backup of this filespace"));
    running.freeze(false);
    running.wait().expect(&[0]);
    fleet.scene.backup().counts(&[("backed_up", 0)]);
    // Work that is needed once is done at one server only.
    for command in [&["expire"][..], &["reclaim"], &["audit"], &["pool", "copy"]] {
        let refused = other.try_admin(command);
        assert_ne!(refused.code(), 0, "{command:?}");
        drop(refused.says("keeps house").says(&fleet.scene.server.address()));
    }
    drop(other);
}

#[test]
fn a_new_server_takes_the_index_that_was_stored() {
    let Some(mut fleet) = Fleet::new() else { return };
    fleet.scene.backup();
    // The packs of a restarted server have far greater numbers.
    fleet.scene.server.restart();
    plant_files(&fleet.scene.tree.join("more"), 5, FILE_BYTES, 3);
    fleet.scene.backup();
    fleet.scene.server.terminate().expect(&[0]).says("the chunk index was stored");
    let mut late = fleet.join("late");
    std::mem::swap(&mut fleet.scene.server, &mut late);
    let (node, tree) = fleet.client("berta", &fleet.scene.server.address());
    plant_files(&tree, 5, FILE_BYTES, 3);
    let stored = || fleet.cluster.sql(&fleet.database, "SELECT sum(bytes) FROM pack");
    let before: u64 = stored().parse().unwrap();
    node.backup(&tree, &[]).expect(&[0]);
    let after: u64 = stored().parse().unwrap();
    assert!(
        after < before + FILE_BYTES as u64,
        "the same content is stored again: {before} bytes became {after}"
    );
    fleet.enrol_at(&fleet.scene.server.address());
    fleet.scene.compare("late");
    fleet.audit();
    fleet.scene.server.terminate().expect(&[0]).says("the chunk index was fetched");
}

#[test]
fn what_a_dead_server_kept_is_kept_by_another() {
    let Some(mut fleet) = Fleet::new() else { return };
    let other = fleet.with_another();
    fleet.scene.keep_only_active();
    fleet.scene.backup();
    fs::remove_dir_all(&fleet.scene.tree).unwrap();
    plant_files(&fleet.scene.tree, FILES, FILE_BYTES, 2);
    fleet.scene.backup();
    fleet.scene.server.kill9();
    await_servers(&other, 1);
    fleet.scene.server = other;
    let keeper = keeper(&[&fleet.scene.server]);
    keeper.admin(&["expire"]);
    let reclaimed = keeper.admin(&["reclaim"]);
    assert!(reclaimed["packs_removed"].as_u64().unwrap() > 0, "{reclaimed}");
    fleet.scene.compare("kept");
    fleet.audit();
}

#[test]
fn a_database_that_is_away_for_long_takes_no_server_along() {
    let Some(cluster) = Cluster::start() else { return };
    let Some(mut fleet) = Fleet::over(&cluster) else { return };
    let mut other = fleet.with_another();
    fleet.scene.backup();
    plant_files(&fleet.scene.tree.join("more"), 24, 6 << 20, 10);
    let running = fleet.scene.node.spawn_backup(&fleet.scene.tree, &[]);
    pause(Duration::from_millis(300));
    cluster.kill();
    // This is longer than a server may be silent.
    pause(Duration::from_secs(20));
    cluster.begin();
    running.wait().expect(&[0]);
    for server in [&fleet.scene.server, &other] {
        await_servers(server, 2);
    }
    fleet.scene.compare("of one");
    std::mem::swap(&mut fleet.scene.server, &mut other);
    fleet.enrol_at(&fleet.scene.server.address());
    fleet.scene.backup().counts(&[("backed_up", 0)]);
    fleet.scene.compare("of the other");
    audit(&[&fleet.scene.server, &other]);
}

/// A node sends data through one server again and again, after another server has condemned the
/// packs of this data.
#[test]
fn what_is_named_at_one_server_is_not_removed_at_another() {
    let Some(mut fleet) = Fleet::new() else { return };
    let other = fleet.join("other");
    fleet.scene.keep_only_active();
    let (node, tree) = fleet.client("berta", &other.address());
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let running = scope.spawn(|| {
            let mut rounds = 0_u64;
            while !is_over.load(Ordering::Relaxed) {
                fs::remove_dir_all(&tree).unwrap();
                plant_files(&tree, 30, 60_000, rounds % 3);
                node.backup(&tree, &[]).expect(&[0]);
                rounds += 1;
            }
            rounds
        });
        let over = StopGuard(&is_over);
        let mut removed = 0;
        // Condemned packs wait for their readers, so in some rounds no pack is removed.
        for round in 0..60 {
            if round >= 10 && removed > 0 {
                break;
            }
            fs::remove_dir_all(&fleet.scene.tree).unwrap();
            plant_files(&fleet.scene.tree, 30, 60_000, (round + 1) % 3);
            fleet.scene.backup();
            fleet.scene.server.admin(&["expire"]);
            let reclaimed = fleet.scene.server.admin(&["reclaim", "--dead-percent", "1"]);
            removed += reclaimed["packs_removed"].as_u64().unwrap();
        }
        drop(over);
        assert!(removed > 0, "no pack was removed");
        assert!(running.join().expect("the thread has not panicked") > 5);
    });
    node.verify().expect(&[0]);
    let out = fleet.scene.scratch.folder("of-berta");
    node.restore(&tree, &out, &[]).expect(&[0]).counts(&[("failed", 0)]);
    let top = out.join(tree.file_name().unwrap());
    let (expected, found) = (crate::scene::manifest(&tree), crate::scene::manifest(&top));
    e2e::manifest::assert_same(&expected, &found);
    fleet.scene.compare("of anna");
    audit(&[&fleet.scene.server, &other]);
    fleet.scene.server.terminate().expect(&[0]);
    fleet.scene.server = other;
    fleet.audit();
}

#[test]
fn a_catalogue_moves_to_a_database_and_back() {
    let Some(cluster) = Cluster::shared() else { return };
    let mut scene = Scene::with_files(FILES, FILE_BYTES);
    scene.backup();
    let url = cluster.url(&cluster.add_database());
    let running = scene.server.try_admin(&["catalog", "move", &url]);
    assert_ne!(running.code(), 0, "the move should be refused while the server is running");
    scene.server.terminate().expect(&[0]);
    let there = scene.server.admin(&["catalog", "move", &url]);
    assert!(there["rows"].as_u64().unwrap() > 10, "{there}");
    assert!(!scene.server.dir().join("catalog.sqlite").try_exists().unwrap());
    scene.server.restart();
    scene.compare("in the database");
    fs::write(scene.file(1), "changed").unwrap();
    scene.backup();
    scene.server.terminate().expect(&[0]);
    scene.server.admin(&["catalog", "move", "sqlite:"]);
    scene.server.restart();
    scene.compare("back");
    scene.backup().counts(&[("backed_up", 0)]);
    // A server must refuse the old catalogue.
    let config = scene.server.dir().join("server.toml");
    let own = fs::read_to_string(&config).unwrap();
    let old = own.replace("catalog = \"sqlite:\"", &format!("catalog = \"{url}\""));
    assert_ne!(own, old);
    scene.server.terminate().expect(&[0]);
    fs::write(&config, old).unwrap();
    let refused = Server::try_start_at(scene.server.dir(), scene.server.port());
    drop(refused.unwrap_err().says("moved elsewhere"));
}

#[test]
fn a_move_of_the_catalogue_that_is_killed_goes_on() {
    let Some(cluster) = Cluster::shared() else { return };
    let mut scene = Scene::with_files(FILES, FILE_BYTES);
    scene.backup();
    scene.server.terminate().expect(&[0]);
    let (database, dir) = (cluster.add_database(), scene.server.dir().to_owned());
    let url = cluster.url(&database);
    let words = ["admin", "catalog", "move", &url, "--server", dir.to_str().unwrap()];
    let program = e2e::harness::binary();
    let mut command = Command::new(program);
    command
        .args(words)
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null());
    let is_done = (1..100).any(|round| {
        let mut moving = command.spawn().unwrap();
        pause(Duration::from_millis(8 * round));
        drop(moving.kill());
        moving.wait().unwrap().success()
    });
    assert!(is_done, "the move should complete after any kill");
    scene.server.restart();
    scene.compare("moved");
    scene.backup().counts(&[("backed_up", 0)]);
    // The move may also be killed just before its last step, or just before the step before that.
    scene.server.terminate().expect(&[0]);
    let mark = "INSERT INTO counter VALUES('arriving', 5)";
    cluster.sql(&database, mark);
    let refused = Server::try_start_at(&dir, scene.server.port());
    drop(refused.unwrap_err().says("to finish it"));
    scene.server.admin(&["catalog", "move", &url]);
    scene.server.restart();
    scene.compare("arrived");
    scene.server.terminate().expect(&[0]);
    let number = "SELECT value FROM counter WHERE name = 'moved'";
    let left = format!(
        "import sqlite3; c = sqlite3.connect('{}')",
        dir.join("catalog.sqlite.moved").display()
    );
    let python = format!("{left}; print(c.execute(\"{number}\").fetchone()[0])");
    let output = Command::new("python3").args(["-c", &python]).output().unwrap();
    let number = String::from_utf8(output.stdout).unwrap();
    cluster.sql(&database, &mark.replace('5', number.trim()));
    let config = dir.join("server.toml");
    let own = fs::read_to_string(&config).unwrap();
    fs::write(&config, own.replace(&url, "sqlite:")).unwrap();
    let refused = Server::try_start_at(&dir, scene.server.port());
    drop(refused.unwrap_err().says("moved elsewhere"));
    assert_eq!(scene.server.admin(&["catalog", "move", &url])["rows"], 0);
    scene.server.restart();
    scene.compare("left and arrived");
}

/// The lock ended the connections at its own server only. An agent and questions about pages went
/// on at the others.
#[test]
fn a_lock_ends_connections_at_all_servers() {
    let Some(fleet) = Fleet::new() else { return };
    let other = fleet.with_another();
    let (bystander, _) = fleet.client("berta", &other.address());
    let connect = |home| HostileClient::connect(Credential::Node(home), other.port()).unwrap();
    let mut clients = [connect(fleet.scene.node.home()), connect(bystander.home())];
    let calls = clients.each_mut().map(|client| client.open("/holdfast.v1.Node/Pages", &[]));
    for (client, call) in clients.iter_mut().zip(calls) {
        assert_eq!(client.head(call), None, "the call goes on");
    }
    fleet.scene.server.admin(&["node", "lock", "anna"]);
    let [locked, free] = &mut clients;
    let end = locked.first(calls[0]).expect_err("the connection is cut");
    assert!(end.starts_with("14 "), "{end}");
    let further = free.open("/holdfast.v1.Node/Pages", &[]);
    assert_eq!(free.head(further), None, "another node goes on");
}

#[test]
fn what_is_held_stays_held_wherever_the_catalogue_goes() {
    let Some(cluster) = Cluster::shared() else { return };
    let mut scene = Scene::with_files(FILES, FILE_BYTES);
    scene.backup();
    scene.copy_catalog();
    let dir = scene.server.dir().to_owned();
    let refused = |scene: &Scene| {
        drop(scene.server.try_admin(&["reclaim"]).expect(&[12]).says("reclaim --release"));
    };
    scene.server.terminate().expect(&[0]);
    Server::command(&["rebuild-catalog", dir.to_str().unwrap()]).expect(&[0]);
    scene.server.restart();
    refused(&scene);
    scene.server.terminate().expect(&[0]);
    scene.server.admin(&["catalog", "move", &cluster.url(&cluster.add_database())]);
    scene.server.restart();
    refused(&scene);
    // Without this file, the folder looks like the folder of a server that has joined.
    scene.server.terminate().expect(&[0]);
    fs::remove_file(dir.join("recovered")).unwrap();
    scene.server.admin(&["catalog", "move", "sqlite:"]);
    scene.server.restart();
    refused(&scene);
    scene.server.admin(&["reclaim", "--release"]);
    scene.server.restart();
    scene.server.admin(&["reclaim"]);
}

#[test]
fn what_servers_cannot_share_is_said() {
    if !e2e::harness::is_in_folders() {
        return;
    }
    let Some(fleet) = Fleet::new() else { return };
    let taken: PathBuf = fleet.scene.scratch.join("taken");
    let (pool, catalog) = (fleet.garage.url("another"), fleet.cluster.url(&fleet.database));
    let options = ["--pool", &pool, "--catalog", &catalog];
    let refused = Server::init_with(&taken, Server::free_port(), &options);
    assert_ne!(refused.code(), 0);
    drop(refused.says("server join"));
    assert!(!taken.try_exists().unwrap());
    let alone = Scene::with_files(1, 10);
    let file = alone.recovery_file();
    let (dir, file) = (taken.to_str().unwrap(), file.to_str().unwrap());
    let refused = Server::command(&["join", dir, "--from", file]);
    assert_ne!(refused.code(), 0);
    drop(refused.says("need a catalogue in a database"));
}
