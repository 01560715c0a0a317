//! A catalogue in a real PostgreSQL and packs in a real object store: the same server, and several
//! that serve at once.

use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use e2e::clock::{now, pause};
use e2e::harness::{Cluster, Outcome, Server};

use crate::recovery::recover;
use crate::scene::{Scene, plant_files};
use crate::site::{
    FILE_BYTES, FILES, Over, Site, audit, await_servers, compare_rounds, eventually, keeper,
    keeps_house, run_rounds, servers,
};

/// Returns true if the command began at one server and went on at another.
fn was_carried_on(outcome: &Outcome) -> bool {
    let line = "going on with another server";
    outcome.messages().iter().any(|message| message.ends_with(line))
}

#[test]
fn a_server_over_a_database_and_a_store_does_what_every_server_does() {
    let Some(mut site) = Site::new() else { return };
    site.scene.keep_only_active();
    site.scene.backup();
    site.scene.backup().counts(&[("backed_up", 0)]);
    fs::remove_file(site.scene.file(3)).unwrap();
    fs::write(site.scene.file(4), "changed").unwrap();
    site.scene.backup().counts(&[("expired", 1), ("failed", 0)]);
    site.scene
        .node
        .run(&["archive", site.scene.tree.to_str().unwrap(), "--json"])
        .expect(&[0]);
    site.scene.compare("restored");
    site.scene.server.admin(&["expire"]);
    site.scene.server.admin(&["reclaim"]);
    site.scene.configure("catalog_copy_hours", 24);
    site.scene.compare("again");
    site.scene.node.verify().expect(&[0]);
    site.audit();
    // Only keys, what is kept of packs, and the configuration lie in its folder.
    assert!(!site.scene.server.dir().join("catalog.sqlite").try_exists().unwrap());
    // The server's tables are there for everybody who asks in SQL.
    let ask = |statement: &str| site.cluster.sql(&site.database, statement);
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
    // It copies its catalogue by itself, soon after it has begun.
    let copied = "SELECT status, result FROM events WHERE schedule_name = 'copy the catalogue'";
    assert!(eventually(|| ask(copied) == "Completed|0"), "{}", ask(copied));
    let tasks = site.scene.server.try_admin(&["tasks"]).expect(&[0]).json_lines();
    assert_eq!((&tasks[0]["task"], &tasks[0]["code"]), (&"copy the catalogue".into(), &0.into()));
}

#[test]
fn a_lost_site_is_made_again_from_the_store_and_a_small_file() {
    let Some(mut site) = Site::new() else { return };
    site.scene.backup();
    let file = site.scene.recovery_file();
    site.scene.copy_catalog();
    let (dir, port) = (site.scene.server.dir().to_owned(), site.scene.server.port());
    site.scene.server.kill9();
    fs::remove_dir_all(&dir).unwrap();
    site.cluster
        .sql("postgres", &format!("DROP DATABASE {} WITH (FORCE)", site.database));
    site.cluster.sql("postgres", &format!("CREATE DATABASE {}", site.database));
    let made = recover(&dir, &file, &[]).expect(&[0]).json();
    assert_eq!((&made["versions_lost"], &made["nodes"]), (&0.into(), &1.into()), "{made}");
    site.scene.server = Server::start_at(&dir, port);
    site.scene.compare("recovered");
    site.audit();
}

#[test]
fn another_server_goes_on_where_one_was_killed() {
    let Some(mut site) = Site::new() else { return };
    let mut other = site.with_another();
    let mut carried_on = 0;
    for round in 0..4_u64 {
        plant_files(&site.scene.tree.join(format!("round-{round}")), 8, 6 << 20, round + 10);
        let running = site.scene.node.spawn_backup(&site.scene.tree, &[]);
        pause(Duration::from_millis(100 + 150 * round));
        site.scene.server.kill9();
        // The backup goes on at the other one, and nobody does anything about it.
        carried_on += usize::from(was_carried_on(&running.wait().expect(&[0])));
        let (dir, port) = (site.scene.server.dir().to_owned(), site.scene.server.port());
        site.scene.server = std::mem::replace(&mut other, Server::start_at(&dir, port));
        site.scene.node.verify().expect(&[0]);
    }
    assert!(carried_on > 0, "each backup was over before its server was killed");
    site.scene.compare("killed");
    audit(&[&site.scene.server, &other]);
    assert!(eventually(|| site.garage.unfinished_uploads() == 0));
}

#[test]
fn a_node_that_knows_one_server_learns_of_the_others() {
    let Some(mut site) = Site::new() else { return };
    let other = site.join("other");
    // From the one that it was enrolled at, which knows of the other within moments.
    let knows_both = || {
        site.scene.backup();
        let told = fs::read_to_string(site.scene.node.home().join("servers")).unwrap_or_default();
        told.lines().any(|line| line == other.address())
    };
    assert!((0..40).any(|_| knows_both() || {
        pause(Duration::from_millis(250));
        false
    }));
    site.scene.server.kill9();
    fs::write(site.scene.file(1), "changed").unwrap();
    site.scene.backup().counts(&[("backed_up", 1)]);
    site.scene.compare("at the other");
}

#[test]
fn a_restore_goes_on_at_another_server() {
    let Some(mut site) = Site::new() else { return };
    let mut other = site.with_another();
    plant_files(&site.scene.tree.join("more"), 30, 6 << 20, 10);
    site.scene.backup();
    let mut carried_on = 0;
    for round in 0..3_u64 {
        let out = site.scene.scratch.folder(&format!("out-{round}"));
        let running = site.scene.node.spawn_restore(&site.scene.tree, &out, &[]);
        pause(Duration::from_millis(150 + 150 * round));
        site.scene.server.kill9();
        let restored = running.wait().expect(&[0]).counts(&[("failed", 0)]);
        carried_on += usize::from(was_carried_on(&restored));
        let top = out.join(site.scene.tree.file_name().unwrap());
        let expected = crate::scene::manifest(&site.scene.tree);
        e2e::manifest::assert_same(&expected, &crate::scene::manifest(&top));
        let (dir, port) = (site.scene.server.dir().to_owned(), site.scene.server.port());
        site.scene.server = std::mem::replace(&mut other, Server::start_at(&dir, port));
    }
    assert!(carried_on > 0, "each restore was over before its server was killed");
}

#[test]
fn a_server_that_was_held_up_writes_nothing_any_more() {
    let Some(mut site) = Site::new() else { return };
    let other = site.with_another();
    site.scene.backup();
    plant_files(&site.scene.tree.join("more"), 8, 6 << 20, 10);
    let running = site.scene.node.spawn_backup(&site.scene.tree, &[]);
    pause(Duration::from_millis(200));
    // It hangs, and its machine answers for it.
    site.scene.server.freeze(true);
    await_servers(&other, 1);
    site.scene.server.freeze(false);
    let ended = site.scene.server.ends();
    assert_ne!(ended.code(), 0);
    drop(ended.says("take this one for dead"));
    running.wait().expect(&[0]);
    site.scene.server = other;
    site.scene.compare("held up");
    site.audit();
}

/// From its death on, until its filespace is backed up elsewhere and another one keeps house.
const TAKEN_OVER_MAX: Duration = Duration::from_secs(30);

#[test]
fn what_a_dead_server_was_at_another_does_within_half_a_minute() {
    let Some(mut site) = Site::new() else { return };
    let other = site.join("other");
    plant_files(&site.scene.tree.join("more"), 24, 6 << 20, 10);
    let running = site.scene.node.spawn_backup(&site.scene.tree, &[]);
    pause(Duration::from_millis(400));
    running.signal(rustix::process::Signal::STOP);
    assert!(eventually(|| servers(&other).iter().any(|one| one["backups"] == 1)));
    assert!(keeps_house(&site.scene.server));
    site.enrol_at(&other.address());
    fs::remove_dir_all(site.scene.tree.join("more")).unwrap();
    let refused = site.scene.node.backup(&site.scene.tree, &[]);
    assert_ne!(refused.code(), 0);
    drop(refused.says("another backup of this filespace"));
    site.scene.server.kill9();
    let died = now();
    while site.scene.node.backup(&site.scene.tree, &[]).code() != 0 || !keeps_house(&other) {
        assert!(died.elapsed() <= TAKEN_OVER_MAX, "{:?}", servers(&other));
        pause(Duration::from_millis(250));
    }
    let took = died.elapsed();
    assert!(took <= TAKEN_OVER_MAX, "{took:?}");
    drop(running);
    site.scene.server = other;
    site.scene.compare("taken over");
    site.audit();
}

/// Changes of the schema that a newer program makes when it is started beside this one.
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
    let Some(mut site) = Site::new() else { return };
    let mut other = site.with_another();
    site.scene.backup();
    let (node, tree) = site.client("berta", &other.address());
    let is_over = AtomicBool::new(false);
    let rounds = std::thread::scope(|scope| {
        let rounds = scope.spawn(|| run_rounds(&node, &tree, 1, &is_over));
        let over = Over(&is_over);
        pause(Duration::from_secs(1));
        site.cluster.sql(&site.database, NEWER);
        fs::write(site.scene.file(1), "changed").unwrap();
        site.scene.backup().counts(&[("backed_up", 1)]);
        pause(Duration::from_secs(1));
        drop(over);
        rounds.join().expect("no panic")
    });
    assert!(rounds.len() > 2, "{rounds:?}");
    // One after the other is started again, of the old version too.
    site.scene.server.restart();
    compare_rounds((&node, &tree), &rounds, &site.scene.scratch.folder("of-berta"));
    other.restart();
    fs::remove_file(site.scene.file(2)).unwrap();
    site.scene.backup().counts(&[("expired", 1)]);
    site.scene.compare("beside");
    audit(&[&site.scene.server, &other]);
    // This server says so when a newer one has changed the schema beyond its understanding.
    site.cluster.sql(&site.database, "UPDATE holdfast_schema SET needs = version");
    other.terminate().expect(&[0]);
    let refused = Server::try_start_at(other.dir(), other.port());
    drop(refused.unwrap_err().says("its schema needs programs of version"));
}

#[test]
fn all_servers_serve_at_once_and_one_keeps_house() {
    let Some(site) = Site::new() else { return };
    let other = site.join("other");
    assert!(eventually(|| servers(&site.scene.server).len() == 2));
    assert!(keeps_house(&site.scene.server) && !keeps_house(&other));
    site.scene.backup();
    // Chunks that one server has stored are offered by the other at once, and not stored again.
    let (node, tree) = site.client("berta", &other.address());
    site.enrol_at(&other.address());
    site.scene.compare("elsewhere");
    plant_files(&tree, FILES, FILE_BYTES, 1);
    let stored = "SELECT sum(bytes) FROM pack";
    let before: u64 = site.cluster.sql(&site.database, stored).parse().unwrap();
    assert!(before > (FILES * FILE_BYTES / 2) as u64);
    pause(Duration::from_secs(3));
    node.backup(&tree, &[]).expect(&[0]);
    let after: u64 = site.cluster.sql(&site.database, stored).parse().unwrap();
    assert!(after < before + before / 10, "{before} became {after}: the same content");
    // A filespace is backed up by one server at a time.
    plant_files(&site.scene.tree.join("more"), 24, 6 << 20, 10);
    let running = site.scene.node.spawn_backup(&site.scene.tree, &[]);
    pause(Duration::from_millis(400));
    running.signal(rustix::process::Signal::STOP);
    assert!(eventually(|| servers(&other)[1]["backups"] == 1), "{:?}", servers(&other));
    site.enrol_at(&site.scene.server.address());
    let refused = site.scene.node.backup(&site.scene.tree, &[]);
    assert_ne!(refused.code(), 0);
    drop(refused.says("another backup of this filespace"));
    running.signal(rustix::process::Signal::CONT);
    running.wait().expect(&[0]);
    site.scene.backup().counts(&[("backed_up", 0)]);
    // Work that has to happen once happens at one server.
    for command in [&["expire"][..], &["reclaim"], &["audit"], &["pool", "copy"]] {
        let refused = other.try_admin(command);
        assert_ne!(refused.code(), 0, "{command:?}");
        drop(refused.says("keeps house").says(&site.scene.server.address()));
    }
    drop(other);
}

#[test]
fn a_new_server_takes_the_index_that_was_stored() {
    let Some(mut site) = Site::new() else { return };
    site.scene.backup();
    // A new process has packs of far greater numbers.
    site.scene.server.restart();
    plant_files(&site.scene.tree.join("more"), 5, FILE_BYTES, 3);
    site.scene.backup();
    site.scene.server.terminate().expect(&[0]).says("the chunk index was stored");
    let mut late = site.join("late");
    std::mem::swap(&mut site.scene.server, &mut late);
    let (node, tree) = site.client("berta", &site.scene.server.address());
    plant_files(&tree, 5, FILE_BYTES, 3);
    let stored = || site.cluster.sql(&site.database, "SELECT sum(bytes) FROM pack");
    let before: u64 = stored().parse().unwrap();
    node.backup(&tree, &[]).expect(&[0]);
    let after: u64 = stored().parse().unwrap();
    assert!(after < before + FILE_BYTES as u64, "{before} became {after}: the same content");
    site.enrol_at(&site.scene.server.address());
    site.scene.compare("late");
    site.audit();
    site.scene.server.terminate().expect(&[0]).says("the chunk index was fetched");
}

#[test]
fn what_a_dead_server_kept_is_kept_by_another() {
    let Some(mut site) = Site::new() else { return };
    let other = site.with_another();
    site.scene.keep_only_active();
    site.scene.backup();
    fs::remove_dir_all(&site.scene.tree).unwrap();
    plant_files(&site.scene.tree, FILES, FILE_BYTES, 2);
    site.scene.backup();
    site.scene.server.kill9();
    await_servers(&other, 1);
    site.scene.server = other;
    let keeper = keeper(&[&site.scene.server]);
    keeper.admin(&["expire"]);
    let reclaimed = keeper.admin(&["reclaim"]);
    assert!(reclaimed["packs_removed"].as_u64().unwrap() > 0, "{reclaimed}");
    site.scene.compare("kept");
    site.audit();
}

#[test]
fn a_database_that_is_away_for_long_takes_no_server_along() {
    let Some(cluster) = Cluster::start() else { return };
    let Some(mut site) = Site::over(&cluster) else { return };
    let mut other = site.with_another();
    site.scene.backup();
    plant_files(&site.scene.tree.join("more"), 24, 6 << 20, 10);
    let running = site.scene.node.spawn_backup(&site.scene.tree, &[]);
    pause(Duration::from_millis(300));
    cluster.kill();
    // Longer than a server may be silent.
    pause(Duration::from_secs(20));
    cluster.begin();
    running.wait().expect(&[0]);
    for server in [&site.scene.server, &other] {
        await_servers(server, 2);
    }
    site.scene.compare("of one");
    std::mem::swap(&mut site.scene.server, &mut other);
    site.enrol_at(&site.scene.server.address());
    site.scene.backup().counts(&[("backed_up", 0)]);
    site.scene.compare("of the other");
    audit(&[&site.scene.server, &other]);
}

/// Nodes send through one server again the data that another one has just condemned, over and over.
#[test]
fn what_is_named_at_one_server_is_not_removed_at_another() {
    let Some(mut site) = Site::new() else { return };
    let other = site.join("other");
    site.scene.keep_only_active();
    let (node, tree) = site.client("berta", &other.address());
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
        let over = Over(&is_over);
        let mut removed = 0;
        // Condemned packs wait for their readers: in some rounds nothing goes.
        for round in 0..60 {
            if round >= 10 && removed > 0 {
                break;
            }
            fs::remove_dir_all(&site.scene.tree).unwrap();
            plant_files(&site.scene.tree, 30, 60_000, (round + 1) % 3);
            site.scene.backup();
            site.scene.server.admin(&["expire"]);
            let reclaimed = site.scene.server.admin(&["reclaim", "--dead-percent", "1"]);
            removed += reclaimed["packs_removed"].as_u64().unwrap();
        }
        drop(over);
        assert!(removed > 0, "nothing was removed that could have been named meanwhile");
        assert!(running.join().expect("no panic") > 5);
    });
    node.verify().expect(&[0]);
    let out = site.scene.scratch.folder("of-berta");
    node.restore(&tree, &out, &[]).expect(&[0]).counts(&[("failed", 0)]);
    let top = out.join(tree.file_name().unwrap());
    let (expected, found) = (crate::scene::manifest(&tree), crate::scene::manifest(&top));
    e2e::manifest::assert_same(&expected, &found);
    site.scene.compare("of anna");
    audit(&[&site.scene.server, &other]);
    site.scene.server.terminate().expect(&[0]);
    site.scene.server = other;
    site.audit();
}

#[test]
fn a_catalogue_moves_to_a_database_and_back() {
    let Some(cluster) = Cluster::shared() else { return };
    let mut scene = Scene::with_files(FILES, FILE_BYTES);
    scene.backup();
    let url = cluster.url(&cluster.add_database());
    let running = scene.server.try_admin(&["catalog", "move", &url]);
    assert_ne!(running.code(), 0, "not while the server runs");
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
    // The old one is nobody's any more.
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
    let mut command = std::process::Command::new(program);
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
    assert!(is_done, "it goes on from wherever it was killed");
    scene.server.restart();
    scene.compare("moved");
    scene.backup().counts(&[("backed_up", 0)]);
    // Killed before the last step, and before the one before it.
    scene.server.terminate().expect(&[0]);
    let mark = "INSERT INTO counter VALUES('arriving', 5)";
    cluster.sql(&database, mark);
    let refused = Server::try_start_at(&dir, scene.server.port());
    drop(refused.unwrap_err().says("goes on with it"));
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
    let output = std::process::Command::new("python3").args(["-c", &python]).output().unwrap();
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
    // The folder looks like that of a server that has joined.
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
    let Some(site) = Site::new() else { return };
    let taken: PathBuf = site.scene.scratch.join("taken");
    let (pool, catalog) = (site.garage.url("another"), site.cluster.url(&site.database));
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
    drop(refused.says("share a catalogue in a database"));
}
