//! The page in a real browser, on a server with real backups.

mod lists;

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::time::Duration;

use e2e::clock;
use e2e::harness::api::{self, Caller};
use e2e::harness::{
    Browser, IdProvider, Keeper, Node, Play, Process, Proxy, Server, binary, is_in_folders,
};
use e2e::scratch::Scratch;
use serde_json::{Value, json};

use crate::api::{PASSWORD, fields, register_person};
use crate::scene::{file_name, plant_files};
use crate::tape::tgt::{self, Tgt};

/// Content of a file whose name is not UTF-8.
const ODD: &[u8] = b"a file with an odd name";
const LOOK: Duration = Duration::from_millis(100);
const LOOKS_MAX: u32 = 1200;

/// A server with nodes that have backups, and people who use its page.
struct Stage {
    browser: Browser,
    server: Server,
    root: Caller,
    nodes: Vec<Node>,
    tree: PathBuf,
    scratch: Scratch,
}

impl Stage {
    /// Makes a server with `count` nodes, each with a backup of the same tree; `None` if this
    /// machine has no browser.
    fn new(count: usize) -> Option<Self> {
        let browser = Browser::new()?;
        let scratch = Scratch::new();
        let tree = scratch.folder("tree");
        plant_files(&tree, 60, 5_000, 7);
        let (server, stranger) = api::start(&scratch.join("server"));
        let nodes: Vec<_> =
            (1..=count).map(|n| Node::enrol(&server, &format!("web-{n}"))).collect();
        let mut stage = Self { browser, server, root: stranger, nodes, tree, scratch };
        stage.root = stage.person("root", &["system"]);
        for node in &stage.nodes {
            node.backup(&stage.tree, &[]).expect(&[0]);
        }
        Some(stage)
    }

    /// Changes the server's configuration, and starts the server again.
    fn configure(&mut self, from: &str, to: &str) {
        self.reconfigure(|text| {
            assert!(text.contains(from), "{text}");
            text.replace(from, to)
        });
    }

    fn reconfigure(&mut self, change: impl FnOnce(String) -> String) {
        self.server.terminate().expect(&[0]);
        let config = self.server.dir().join("server.toml");
        let text = fs::read_to_string(&config).unwrap();
        fs::write(&config, change(text)).unwrap();
        self.server.restart();
    }

    /// Waits until `is_so` holds of the open alerts.
    #[track_caller]
    fn wait_for_alerts(&self, what: &str, is_so: impl Fn(&[Value]) -> bool) {
        for _ in 0..LOOKS_MAX {
            let open = self.root.get("/v1/alerts?state=open&limit=1000").expect(200).json();
            if is_so(open["items"].as_array().unwrap()) {
                return;
            }
            clock::pause(LOOK);
        }
        panic!("{what}: {}", self.root.get("/v1/alerts").expect(200).json());
    }

    /// Gives the pool and the domain a past in which they grew for two months, and the pool so
    /// little room that it will be full soon.
    fn grow(&mut self) {
        let pools = self.root.get("/v1/pools").expect(200).json();
        let bytes = pools["items"][0]["bytes"].as_i64().unwrap();
        let capacity = (bytes * 5 / 4).to_string();
        self.server.admin(&["pool", "set", "PRIMARY", "--capacity", &capacity]);
        self.server.terminate().expect(&[0]);
        let catalog = rusqlite::Connection::open(self.server.dir().join("catalog.sqlite")).unwrap();
        let insert = "INSERT INTO usage_day(kind, subject, day, bytes, bytes_max)
                      SELECT ?1, CASE ?1 WHEN 0 THEN (SELECT min(id) FROM pool)
                      ELSE (SELECT min(id) FROM domain) END, ?2, ?3, 0";
        let today = jiff::Timestamp::now().as_second() / 86_400;
        for ago in 1..60_i64 {
            for kind in [0, 1] {
                let row = (kind, today - ago, bytes * (70 - ago).pow(2) / 4_900);
                catalog.execute(insert, row).unwrap();
            }
        }
        drop(catalog);
        self.server.restart();
    }

    /// Appends a section to the server's configuration, and starts the server again.
    fn append(&mut self, section: &str) {
        let config = self.server.dir().join("server.toml");
        let text = fs::read_to_string(&config).unwrap();
        fs::write(&config, text + section).unwrap();
        self.server.restart();
    }

    /// Registers a person with these roles, and returns the person with a key.
    #[track_caller]
    fn person(&self, login: &str, roles: &[&str]) -> Caller {
        register_person(&self.server, &self.scratch, login, roles);
        let made = self.server.admin(&["key", "add", "--user", login, "--kind", "full"]);
        self.root.with_key(made["token"].as_str().unwrap())
    }

    /// Starts the agent of the first node.
    fn agent(&self) -> Process {
        self.nodes[0].spawn_agent()
    }

    /// Returns the filespace of the first node that has the tree, and the path of the tree in it.
    fn place(&self) -> (String, String) {
        let node = self.root.get("/v1/nodes/web-1").expect(200).json();
        let filespace = node["filespaces"][0]["name"].as_str().unwrap().to_owned();
        let tree = self.tree.to_str().unwrap();
        let inside = tree.strip_prefix(filespace.trim_end_matches('/')).unwrap().to_owned();
        (filespace, inside)
    }

    /// Plays a script with the facts that every script needs, and with `more`.
    #[track_caller]
    fn play(&self, name: &str, more: Value) -> Value {
        self.begin(name, more).end()
    }

    /// Begins to play a script, as [`Self::play`] does.
    fn begin(&self, name: &str, more: Value) -> Play {
        let mut facts = json!({
            "url": self.root.url(),
            "login": "root",
            "password": PASSWORD,
            "program": binary(),
            "server": self.server.address(),
            "home": self.scratch.folder("home of the script"),
            "tree": self.tree,
            "pictures": std::env::var("HOLDFAST_PICTURES").ok(),
        });
        let more = more.as_object().expect("further facts are an object").clone();
        facts.as_object_mut().expect("is an object").extend(more);
        self.browser.begin(name, &facts)
    }
}

#[test]
fn nodes_are_listed_found_marked_and_registered() {
    let Some(stage) = Stage::new(3) else { return };
    let change = json!({ "description": "the second machine" });
    stage.root.patch("/v1/nodes/web-2", &change).expect(200);
    stage.play("nodes", json!({}));
    let node = stage.root.get("/v1/nodes/new-1").expect(200).json();
    assert_eq!(node["is_activated"], true, "the machine is enrolled by the token of the page");
}

#[test]
fn schedules_policies_people_and_keys_are_made_and_changed() {
    let Some(stage) = Stage::new(1) else { return };
    // Five files have three old versions each.
    for round in 0..3 {
        for index in 0..5 {
            let content = format!("content of file {index} in round {round}");
            fs::write(stage.tree.join(file_name(index)), content).unwrap();
        }
        stage.nodes[0].backup(&stage.tree, &[]).expect(&[0]);
    }
    stage.play("administration", json!({}));
    let schedule = stage.root.get("/v1/schedules/nightly").expect(200).json();
    assert_eq!(schedule["followers"], json!([{ "domain": "STANDARD" }]));
    assert_eq!(schedule["definition"]["timing"]["starts"]["calendar"]["times"], "22:00");
    let policy = stage.root.get("/v1/domains/STANDARD/policy").expect(200).json();
    assert_eq!(policy["active"]["classes"][0]["backup"]["versions_existing_max"], "3");
    let person = stage.root.get("/v1/users/olga").expect(200).json();
    assert_eq!(
        (&person["locked"], &person["roles"]),
        (&true.into(), &json!([{ "role": "operator" }]))
    );
    assert_eq!(stage.root.get("/v1/domains/LAB").expect(200).json()["limits"]["nodes"], 50);
}

#[test]
fn a_person_makes_own_keys_and_signs_in_with_a_second_factor() {
    let Some(stage) = Stage::new(0) else { return };
    stage.person("olaf", &[]);
    stage.play("account", json!({ "owner": "olaf" }));
    assert_eq!(stage.root.get("/v1/users/root").expect(200).json()["has_second_factor"], false);
}

#[test]
fn a_person_signs_in_at_a_provider_and_is_back_where_it_was() {
    let Some(mut stage) = Stage::new(1) else { return };
    let folder = stage.scratch.join("provider");
    let back = format!("{}/sign-in/return", stage.root.url());
    let Some(provider) = IdProvider::start(&folder, &back, json!({})) else { return };
    let secret = stage.server.dir().join("oidc-secret");
    fs::write(&secret, IdProvider::SECRET).unwrap();
    fs::set_permissions(&secret, fs::Permissions::from_mode(0o600)).unwrap();
    let (issuer, client) = (provider.issuer(), IdProvider::CLIENT);
    let section = format!(
        "\n[oidc]\nissuer = \"{issuer}\"\nclient_id = \"{client}\"\n\
         client_secret_file = \"oidc-secret\"\nredirect_url = \"{back}\"\n\
         title = \"The university\"\ntrusts_logins = true\n"
    );
    stage.person("anna", &["system"]);
    stage.append(&section);
    stage.play("provider", json!({ "issuer": issuer }));
    let anna = stage.root.get("/v1/users/anna").expect(200).json();
    assert_eq!(anna["identities"], json!([{ "issuer": issuer, "subject": "anna" }]));
}

#[test]
fn a_node_shows_its_past_and_works_when_it_is_told_to() {
    let Some(stage) = Stage::new(1) else { return };
    let _agent = stage.agent();
    stage.play("node", json!({}));
    let node = stage.root.get("/v1/nodes/web-1").expect(200).json();
    assert_eq!((&node["hostname"], &node["locked"]), (&"web-1.example.org".into(), &false.into()));
}

/// The bytes of downloads and of what the node restores are compared with the files.
#[test]
fn files_of_two_times_are_found_compared_downloaded_and_restored() {
    let Some(stage) = Stage::new(1) else { return };
    let file = stage.tree.join("folder-00/file-0007");
    let before = fs::read(&file).unwrap();
    fs::write(&file, b"changed after the first backup").unwrap();
    fs::write(stage.tree.join("folder-00/new"), b"new").unwrap();
    let gone = stage.tree.join("folder-00/file-0009");
    let content_of_gone = fs::read(&gone).unwrap();
    fs::remove_file(&gone).unwrap();
    let odd = stage.tree.join(OsStr::from_bytes(b"caf\xe9"));
    fs::create_dir(&odd).unwrap();
    fs::write(odd.join(OsStr::from_bytes(b"na\xefve")), ODD).unwrap();
    fs::write(odd.join("\u{202e}gpj.exe\u{1b}[2J"), ODD).unwrap();
    stage.nodes[0].backup(&stage.tree, &[]).expect(&[0]);
    let _agent = stage.agent();
    let (filespace, inside) = stage.place();
    let before = data_encoding::BASE64.encode(&before);
    let gone = data_encoding::BASE64.encode(&content_of_gone);
    let odd = data_encoding::BASE64.encode(ODD);
    let facts = json!({
        "filespace": filespace, "inside": inside, "before": before, "gone": gone, "odd": odd,
    });
    stage.play("restore", facts);
}

/// The limit makes the restore last so long that its bar is seen to move.
#[test]
fn a_restore_at_the_node_moves_its_bar() {
    let Some(stage) = Stage::new(1) else { return };
    plant_files(&stage.tree.join("slow"), 20, 1 << 20, 9);
    stage.nodes[0].backup(&stage.tree, &[]).expect(&[0]);
    let config = stage.nodes[0].home().join("client.toml");
    let own = fs::read_to_string(&config).unwrap();
    fs::write(&config, format!("limit_rate_receive = \"1M\"\n{own}")).unwrap();
    let _agent = stage.agent();
    let (filespace, inside) = stage.place();
    stage.play("bar", json!({ "filespace": filespace, "inside": inside }));
}

#[test]
fn work_is_followed_live_and_cancelled_and_sessions_are_ended() {
    let Some(stage) = Stage::new(1) else { return };
    let _agent = stage.agent();
    let definition = json!({
        "action": { "work": "command", "objects": ["sleep 600"] },
        "timing": { "starts": { "once": 0 }, "window_minutes": 60, "spread_percent": 0 },
        "zone": "UTC", "priority": 5, "retries": 0, "retry_pause_minutes": 1,
    });
    let run = json!({ "nodes": ["web-1"], "definition": definition });
    let ordered = stage.root.post("/v1/runs", &run).expect(201).json();
    stage.person("paul", &["auditor"]);
    stage.play("running", json!({ "schedule": ordered["schedule"], "auditor": "paul" }));
}

#[test]
fn a_second_person_approves_a_removal() {
    let Some(mut stage) = Stage::new(2) else { return };
    stage.configure("two_person = false", "two_person = true");
    stage.person("vera", &["system"]);
    let key = stage.server.admin(&["key", "add", "--user", "root", "--kind", "impersonator"]);
    let acting = stage.root.with_key(key["token"].as_str().unwrap());
    let as_vera = acting.with_headers(&["X-Holdfast-For: vera"]);
    as_vera.delete("/v1/nodes/web-1?with_data=true").expect(202);
    stage.play("approval", json!({ "second": "vera" }));
    stage.root.get("/v1/nodes/web-2").expect(404);
    stage.root.get("/v1/nodes/web-1").expect(200);
}

#[test]
fn risks_and_growth_are_shown_and_alerts_are_acknowledged_and_tested() {
    let Some(mut stage) = Stage::new(3) else { return };
    let folder = stage.scratch.join("webhook");
    let Some(webhook) = Keeper::webhook(&folder, &[]) else { return };
    let url = |port: u16| format!("http://127.0.0.1:{port}/notices");
    let section = format!(
        "\n[alerts]\nlook_secs = 1\ndeleted_objects = 10\ncertificate_days = 11000\n\
         [[alerts.webhooks]]\nname = \"chat\"\nurl = \"{}\"\n\
         [[alerts.webhooks]]\nname = \"pager\"\nurl = \"{}\"\n",
        url(webhook.port()),
        url(Server::free_port()),
    );
    stage.reconfigure(|text| text + &section);
    // The first look of a server examines no backup.
    stage.wait_for_alerts("certificates", |open| open.len() >= 3);
    (0..20).for_each(|index| fs::remove_file(stage.tree.join(file_name(index))).unwrap());
    stage.nodes[0].backup(&stage.tree, &[]).expect(&[0]);
    let mut kinds = vec!["Mass deletion", "Node certificate", "Server certificate"];
    if is_in_folders() {
        stage.grow();
        kinds.push("Pool fills");
    }
    stage.wait_for_alerts("deletions", |open| {
        kinds.iter().all(|kind| {
            let kind = kind.to_lowercase().replace(' ', "-");
            open.iter().any(|alert| alert["kind"] == *kind)
        })
    });
    stage.play("alerts", json!({ "kinds": kinds }));
    let sent = webhook.wait_for(|notice| notice["body"].to_string().contains("a test"));
    assert_eq!(sent["refused"], false);
    let alerts = stage.root.get("/v1/alerts?limit=1000").expect(200).json();
    let known =
        alerts["items"].as_array().unwrap().iter().filter(|alert| {
            alert["acknowledged_by"].as_str().is_some_and(|by| by.starts_with("root"))
        });
    assert_eq!(known.count(), 4, "{alerts}");
}

#[test]
fn the_service_is_run_from_the_page_and_each_role_sees_what_is_its_own() {
    let Some(stage) = Stage::new(2) else { return };
    stage.root.post("/v1/domains", &json!({ "name": "LAB" })).expect(201);
    stage.person("vera", &["auditor"]);
    stage.person("theo", &["tenant@LAB"]);
    let tree = stage.tree.to_str().unwrap();
    let archived = ["archive", tree, "--description", "the tree of the play"];
    stage.nodes[0].run(&archived).expect(&[0]);
    let issuer = "https://id.example.org/realms/staff";
    let facts = json!({
        "auditor": "vera", "tenant": "theo", "domain": "LAB", "issuer": issuer,
        "folder": stage.scratch.folder("library"),
    });
    stage.play("service", facts);
    let node = stage.root.get("/v1/nodes/lab-9").expect(200).json();
    let given = (&node["labels"], &node["option_set"], &node["is_activated"]);
    assert_eq!(given, (&json!(["berlin", "web"]), &json!("linux"), &true.into()));
    assert_eq!(node["domain"], "LAB");
    let found = stage
        .root
        .get("/v1/nodes?application=database&platform=linux")
        .expect(200)
        .json();
    assert_eq!(fields(&found, "name"), ["web-1"]);
    let emptied = stage.root.get("/v1/nodes/web-2").expect(200).json();
    assert_eq!(emptied["filespaces"], json!([]));
    let set = stage.root.get("/v1/option-sets/linux").expect(200).json();
    assert_eq!((&set["current"]["version"], &set["staged"]), (&json!(3), &Value::Null));
    assert_eq!(
        set["current"]["options"],
        json!([{ "name": "compression", "value": "9", "force": false }])
    );
    let library = stage.root.get("/v1/libraries/files").expect(200).json();
    assert_eq!(library["settings"]["retain_secs"], 5);
    assert_eq!(stage.root.get("/v1/pools/TAPE").expect(200).json()["reclaim_percent"], 40);
    let volumes = stage.root.get("/v1/volumes?library=files").expect(200).json();
    // Data that is stored after the change goes to another volume, if there was time for it.
    let mut of_library = volumes["items"].as_array().unwrap().iter();
    let changed = of_library.find(|volume| volume["access"] == "read-only");
    assert_eq!(changed.map(|volume| &volume["pool"]), Some(&"TAPE".into()), "{volumes}");
    let vera = stage.root.get("/v1/users/vera").expect(200).json();
    assert_eq!(vera["identities"], json!([{ "issuer": issuer, "subject": "f3c9" }]));
}

/// The line to the library is so slow that its readers wait while the page shows them. They come
/// once the page is there, however long a browser takes to begin.
#[test]
fn a_library_is_shown_with_its_drives_volumes_and_readers() {
    if !is_in_folders() {
        return;
    }
    let (Some(mut stage), Some(tgt)) = (Stage::new(2), Tgt::start()) else { return };
    let proxy = Proxy::start(tgt.port());
    stage.configure("catalog_copy_hours = 24", "catalog_copy_hours = 0");
    let address = |lun: u16| format!("iscsi://127.0.0.1:{}/{}/{lun}", proxy.port(), tgt::TARGET);
    let (changer, first, second) = (address(4), address(1), address(2));
    let devices = ["--changer", &changer, "--drive", &first, "--drive", &second];
    stage.server.admin(&[&["library", "add", "vault"], &devices[..]].concat());
    stage.server.try_admin(&["volume", "label", "vault"]).expect(&[0]);
    stage
        .server
        .admin(&["pool", "add", "TAPE", "tape:vault", "--collocate", "node"]);
    stage.server.admin(&["pool", "set", "PRIMARY", "--next", "TAPE"]);
    stage.server.admin(&["pool", "drain", "PRIMARY", "--all"]);
    // Nothing is on the stage after a start.
    stage.server.restart();
    proxy.weather().delay(Duration::from_secs(4));
    let (out, mark) = (stage.scratch.folder("out"), stage.scratch.join("the page is there"));
    let facts = json!({ "volumes": tgt::TAPES.len(), "mark": mark });
    let play = stage.begin("library", facts);
    play.wait_for(&mark);
    let reading: Vec<_> = stage
        .nodes
        .iter()
        .map(|node| node.spawn_restore(&stage.tree, &out.join(&node.name), &[]))
        .collect();
    play.end();
    proxy.weather().delay(Duration::ZERO);
    for restore in reading {
        restore.wait().expect(&[0]).counts(&[("failed", 0)]);
    }
}
