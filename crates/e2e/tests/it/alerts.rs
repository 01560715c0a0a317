//! Alerts and their notices, by a real mail server and a real program that gets notices by HTTP.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::net::TcpListener;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use e2e::clock;
use e2e::harness::api::{self, Caller};
use e2e::harness::{Keeper, Node, Server, certificate, is_in_folders};
use e2e::scratch::Scratch;
use serde_json::{Value, json};

use crate::fleet::eventually;
use crate::scene::plant_files;
use crate::settings;

/// Settings with which notices come at once.
const AT_ONCE: &str = "look_secs = 1\ngroup_minutes = 0\npause_minutes = 0\n";
/// Time after which a server that looks each second has looked. Nothing shows its first look.
const FIRST_LOOK: Duration = Duration::from_secs(10);
const SECRET: &str = "a secret of the webhook";
const LOOKS_MAX: u64 = 1200;

/// A server whose nodes have had no backup for too long after it has travelled.
struct Watch {
    server: Server,
    stranger: Caller,
    scratch: Scratch,
}

impl Watch {
    fn new() -> Self {
        let scratch = Scratch::new();
        let (server, stranger) = api::start(&scratch.join("server"));
        Self { server, stranger, scratch }
    }

    /// Adds a section to the server's configuration; the next start reads it.
    fn configure(&self, section: &str) {
        let file = self.server.dir().join("server.toml");
        let config = fs::read_to_string(&file).unwrap();
        fs::write(&file, format!("{config}\n{section}")).unwrap();
    }

    fn mail_section(&self, mail: &Keeper) -> String {
        format!(
            "[alerts.mail]\nserver = \"127.0.0.1:{}\"\nencryption = \"none\"\n\
             from = \"Holdfast <holdfast@example.org>\"\nto = [\"ops@example.org\"]\n",
            mail.port()
        )
    }

    fn webhook_section(&self, webhook: &Keeper) -> String {
        fs::write(self.server.dir().join("webhook.secret"), format!("{SECRET}\n")).unwrap();
        format!(
            "[[alerts.webhooks]]\nname = \"chat\"\nurl = \"http://127.0.0.1:{}/notices\"\n\
             secret_file = \"webhook.secret\"\n",
            webhook.port()
        )
    }

    /// Returns the open alerts.
    fn open(&self) -> Vec<Value> {
        documents(&self.server.admin(&["alert", "list"]))
    }

    /// Waits until the open alerts are as many as `count`, and returns them.
    #[track_caller]
    fn wait_for_open(&self, count: usize) -> Vec<Value> {
        for _ in 0..LOOKS_MAX {
            let open = self.open();
            if open.len() == count {
                return open;
            }
            clock::pause(Duration::from_millis(100));
        }
        panic!("{count} alerts should be open, but these are: {:#?}", self.open());
    }

    fn tenant(&self, domain: &str) -> Caller {
        self.person(&format!("admin-of-{domain}"), &format!("tenant@{domain}"))
    }

    fn person(&self, login: &str, role: &str) -> Caller {
        let mail = format!("{login}@example.org");
        self.server.admin(&["user", "add", login, "--role", role, "--mail", &mail]);
        let made = self.server.admin(&["key", "add", "--user", login, "--kind", "full"]);
        self.stranger.with_key(made["token"].as_str().unwrap())
    }
}

fn documents(answer: &Value) -> Vec<Value> {
    match answer {
        Value::Array(all) => all.clone(),
        one => vec![one.clone()],
    }
}

fn is_to(mail: &Value, address: &str) -> bool {
    mail["to"] == json!([address])
}

fn says(mail: &Value, text: &str) -> bool {
    mail["text"].as_str().unwrap().replace("=\r\n", "").contains(text)
}

#[test]
fn a_notice_goes_by_mail_and_webhook_and_an_all_clear_follows() {
    let mut watched = Watch::new();
    let folder = |name: &str| watched.scratch.join(name);
    let Some(mail) = Keeper::mail(&folder("mail"), &["plain"]) else { return };
    let Some(webhook) = Keeper::webhook(&folder("webhook"), &[]) else { return };
    let sections = [watched.mail_section(&mail), watched.webhook_section(&webhook)].concat();
    watched.configure(&format!("[alerts]\n{AT_ONCE}{sections}"));
    watched.server.token("web-1");
    watched.server.travel("27h");
    let sent = mail.wait_for(|mail| says(mail, "a node has no good backup"));
    assert!(is_to(&sent, "ops@example.org"), "{sent}");
    assert!(says(&sent, "node web-1 has had no good backup since it was registered"), "{sent}");
    assert!(says(&sent, "Auto-Submitted: auto-generated"), "{sent}");
    let posted = webhook.wait_for(|_| true);
    check_signature(&posted);
    let document: Value = serde_json::from_str(posted["body"].as_str().unwrap()).unwrap();
    assert_eq!((&document["kind"], &document["opened"]), (&json!("alerts"), &json!(1)));
    assert_eq!(document["alerts"][0]["object"], "web-1");
    let open = watched.open();
    assert_eq!(
        (open[0]["kind"].as_str(), open[0]["node"].as_str()),
        (Some("no-backup"), Some("web-1"))
    );
    watched.server.admin(&["node", "lock", "web-1"]);
    let sent = mail.wait_for(|mail| says(mail, "all clear: 1 alert is over"));
    assert!(says(&sent, "Over:"), "{sent}");
    assert!(watched.open().is_empty());
    assert_eq!(mail.kept().len(), 2, "{:#?}", mail.kept());
}

/// A directory that is a filespace of its own stands for a disk that is mounted no longer.
#[test]
fn a_filespace_that_is_backed_up_no_longer_is_an_alert_though_its_node_is_good() {
    let mut watched = Watch::new();
    watched.configure(&format!("[alerts]\n{AT_ONCE}"));
    let node = Node::enrol(&watched.server, "web-1");
    let [data, home] = ["data", "home"].map(|name| watched.scratch.folder(name));
    let own = format!("virtual_filespaces = ['{}', '{}']", data.display(), home.display());
    settings::configure(&node, &own);
    for tree in [&data, &home] {
        plant_files(tree, 5, 200, 1);
        node.backup(tree, &[]).expect(&[0]);
    }
    watched.server.travel("9d");
    node.backup(&home, &[]).expect(&[0]);
    let old = || watched.open().into_iter().find(|alert| alert["kind"] == "old-filespace");
    assert!(eventually(|| old().is_some()), "{:#?}", watched.open());
    let alert = old().expect("is open");
    assert_eq!(alert["node"], "web-1");
    let text = alert["text"].as_str().unwrap();
    assert!(text.contains(data.to_str().unwrap()), "{text}");
    assert!(!text.contains(home.to_str().unwrap()), "{text}");
    node.backup(&data, &[]).expect(&[0]);
    assert!(eventually(|| old().is_none()), "{:#?}", watched.open());
}

/// Computes the signature of a notice anew, by OpenSSL.
#[track_caller]
fn check_signature(notice: &Value) {
    let header = |name: &str| notice["headers"][name].as_str().unwrap().to_owned();
    let text = format!("{}.{}", header("holdfast-timestamp"), notice["body"].as_str().unwrap());
    let scratch = Scratch::new();
    let file = scratch.join("signed");
    fs::write(&file, text).unwrap();
    let mut openssl = Command::new("openssl");
    let openssl = openssl.args(["dgst", "-sha256", "-hmac", SECRET, "-r"]).arg(&file);
    let output = openssl.output().expect("openssl runs");
    let expected = String::from_utf8(output.stdout).unwrap();
    let expected = expected.split(' ').next().unwrap();
    assert_eq!(header("holdfast-signature"), format!("sha256={expected}"));
}

#[test]
fn nothing_is_lost_while_the_recipients_are_away_and_the_server_is_killed() {
    let mut watched = Watch::new();
    let folder = |name: &str| watched.scratch.join(name);
    let Some(mut mail) = Keeper::mail(&folder("mail"), &["plain"]) else { return };
    let Some(webhook) = Keeper::webhook(&folder("webhook"), &[]) else { return };
    let sections = [watched.mail_section(&mail), watched.webhook_section(&webhook)].concat();
    watched.configure(&format!("[alerts]\n{AT_ONCE}{sections}"));
    watched.server.token("web-1");
    mail.end();
    webhook.refuse(true);
    watched.server.travel("27h");
    webhook.wait_for(|notice| notice["refused"] == true);
    watched.server.kill9();
    watched.server.travel("28h");
    mail.begin();
    webhook.refuse(false);
    let sent = mail.wait_for(|mail| says(mail, "a node has no good backup"));
    assert!(is_to(&sent, "ops@example.org"), "{sent}");
    let taken = webhook.wait_for(|notice| notice["refused"] == false);
    let number = |notice: &Value| notice["headers"]["holdfast-notice"].clone();
    assert_eq!(number(&taken), number(&webhook.kept()[0]), "it is the same notice");
    check_signature(&taken);
}

/// Each of many notices called the mail server, one every two seconds.
#[test]
fn a_mail_server_that_fails_is_not_called_for_each_notice() {
    let mut watched = Watch::new();
    let broken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = broken.local_addr().unwrap();
    let calls = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&calls);
    std::thread::spawn(move || {
        for call in broken.incoming() {
            counter.fetch_add(1, Relaxed);
            drop(call);
        }
    });
    let recipients: Vec<String> = (0..50).map(|one| format!("ops-{one}@example.org")).collect();
    watched.configure(&format!(
        "[alerts]\n{AT_ONCE}[alerts.mail]\nserver = \"{address}\"\nencryption = \"none\"\n\
         from = \"holdfast@example.org\"\nto = {recipients:?}\n"
    ));
    watched.server.token("web-1");
    watched.server.travel("27h");
    assert!(eventually(|| calls.load(Relaxed) > 0));
    clock::pause(Duration::from_secs(15));
    assert_eq!(calls.load(Relaxed), 1);
}

#[test]
fn a_server_says_at_its_start_which_way_cannot_be_used() {
    let mut watched = Watch::new();
    let mail = "[alerts.mail]\nserver = \"localhost:25\"\nencryption = \"none\"\n\
                from = \"nobody\"\nto = [\"ops@example.org\"]\n";
    watched.configure(mail);
    watched.server.restart();
    watched.server.wait_to_say("a way of notices cannot be used");
    let outcome = watched.server.terminate().expect(&[0]);
    outcome
        .says("a way of notices cannot be used")
        .says("'nobody' is not an address of mail");
}

#[test]
fn a_server_says_at_its_start_which_webhook_gets_notices_without_a_signature() {
    const UNSIGNED: &str = "notices are not signed, because this webhook has no 'secret_file'";
    let mut watched = Watch::new();
    fs::write(watched.server.dir().join("webhook.secret"), format!("{SECRET}\n")).unwrap();
    let webhook = |name: &str, secret: &str| {
        format!("[[alerts.webhooks]]\nname = \"{name}\"\nurl = \"http://127.0.0.1:9\"\n{secret}\n")
    };
    let signed = webhook("signed", "secret_file = \"webhook.secret\"");
    watched.configure(&[signed, webhook("bare", "")].concat());
    watched.server.restart();
    watched.server.wait_to_say(UNSIGNED);
    let outcome = watched.server.terminate().expect(&[0]);
    let told: Vec<_> =
        outcome.messages().into_iter().filter(|line| line.contains(UNSIGNED)).collect();
    let [line] = &told[..] else { panic!("one webhook: {outcome}") };
    assert!(line.contains("bare"), "{line}");
}

/// Regression: a mail server that took connections and said nothing held up all other notices, and
/// so did many mails that waited for it.
#[test]
fn a_silent_mail_server_holds_up_no_webhook() {
    let mut watched = Watch::new();
    let Some(webhook) = Keeper::webhook(&watched.scratch.join("webhook"), &[]) else { return };
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let recipients: Vec<String> = (0..100).map(|one| format!("ops-{one}@example.org")).collect();
    let mail = format!(
        "[alerts.mail]\nserver = \"{}\"\nencryption = \"none\"\n\
         from = \"holdfast@example.org\"\nto = {recipients:?}\n",
        silent.local_addr().unwrap()
    );
    let sections = [mail, watched.webhook_section(&webhook)].concat();
    watched.configure(&format!("[alerts]\n{AT_ONCE}{sections}"));
    watched.server.token("web-1");
    watched.server.travel("27h");
    check_signature(&webhook.wait_for(|_| true));
    watched.server.admin(&["node", "lock", "web-1"]);
    let over = |notice: &Value| notice["body"].as_str().unwrap().contains("\"ended\":1");
    check_signature(&webhook.wait_for(over));
}

#[test]
fn a_thousand_nodes_that_fail_at_once_are_one_notice() {
    if !is_in_folders() {
        return;
    }
    let mut watched = Watch::new();
    let Some(mail) = Keeper::mail(&watched.scratch.join("mail"), &["plain"]) else { return };
    let section = watched.mail_section(&mail);
    watched.configure(&format!("[alerts]\n{AT_ONCE}{section}"));
    watched.server.terminate().expect(&[0]);
    let now = jiff::Timestamp::now().as_microsecond();
    let mut rows = String::new();
    for number in 1..=1_000 {
        let begin = if number == 1 { "" } else { ", " };
        write!(rows, "{begin}('node-{number}', 1, 0, {now}, 0, 0, 0)").unwrap();
    }
    let insert = format!(
        "INSERT INTO node(name, domain, locked, registered, deletes_backups, deletes_archives, \
         domain_since) VALUES {rows}"
    );
    let catalog = watched.server.dir().join("catalog.sqlite");
    rusqlite::Connection::open(catalog).unwrap().execute_batch(&insert).unwrap();
    watched.server.travel("27h");
    mail.wait_for(|mail| says(mail, "1,000 nodes have no good backup"));
    assert_eq!(watched.wait_for_open(1_000).len(), 1_000);
    clock::pause(Duration::from_secs(3));
    let kept = mail.kept();
    assert_eq!(kept.len(), 1, "{kept:#?}");
    assert!(says(&kept[0], "and 980 more"), "{kept:#?}");
    assert!(kept[0]["text"].as_str().unwrap().len() < 8_000);
}

#[test]
fn a_tenant_sees_and_hears_of_the_own_domain_only() {
    let mut watched = Watch::new();
    let Some(mail) = Keeper::mail(&watched.scratch.join("mail"), &["plain"]) else { return };
    let section = watched.mail_section(&mail);
    watched.configure(&format!("[alerts]\n{AT_ONCE}tenants = true\n{section}"));
    let mut tenants = Vec::new();
    for domain in ["LAB", "CLINIC"] {
        watched.server.admin(&["domain", "add", domain]);
        tenants.push(watched.tenant(domain));
        let name = format!("node-of-{domain}");
        watched.server.admin(&["node", "add", &name, "--domain", domain]);
    }
    watched.server.travel("27h");
    let sent = mail.wait_for(|mail| is_to(mail, "admin-of-LAB@example.org"));
    assert!(says(&sent, "node-of-LAB") && !says(&sent, "CLINIC"), "{sent}");
    let sent = mail.wait_for(|mail| is_to(mail, "ops@example.org"));
    assert!(says(&sent, "node-of-LAB") && says(&sent, "node-of-CLINIC"), "{sent}");
    let own = tenants[0].get("/v1/alerts").expect(200).json();
    assert_eq!(own["items"].as_array().unwrap().len(), 1, "{own}");
    assert_eq!(own["items"][0]["object"], "node-of-LAB");
    let number = own["items"][0]["number"].as_u64().unwrap();
    let path = format!("/v1/alerts/{number}/acknowledgement");
    let foreign = tenants[1].post(&path, &json!({})).expect(404);
    let absent = tenants[1].post("/v1/alerts/999999/acknowledgement", &json!({})).expect(404);
    assert_eq!(foreign.json()["code"], absent.json()["code"]);
    let known = tenants[0].post(&path, &json!({ "note": "it is off" })).expect(200).json();
    assert_eq!(known["note"], "it is off");
    assert!(known["acknowledged_by"].as_str().unwrap().starts_with("admin-of-LAB"));
    tenants[0].post(&path, &json!({})).expect(409);
    tenants[0].post("/v1/alerts/test", &json!({})).expect(403);
}

#[test]
fn an_owner_hears_of_the_own_nodes_only() {
    let mut watched = Watch::new();
    let Some(mail) = Keeper::mail(&watched.scratch.join("mail"), &["plain"]) else { return };
    let section = watched.mail_section(&mail);
    watched.configure(&format!("[alerts]\n{AT_ONCE}tenants = true\n{section}"));
    watched.server.admin(&["domain", "add", "LAB"]);
    watched.person("otto", "owner@LAB");
    for name in ["node-of-otto", "node-of-nobody"] {
        watched.server.admin(&["node", "add", name, "--domain", "LAB"]);
    }
    let system = watched.person("sybil", "system");
    system.patch("/v1/nodes/node-of-otto", &json!({ "owner": "otto" })).expect(200);
    watched.server.travel("27h");
    let sent = mail.wait_for(|mail| is_to(mail, "otto@example.org"));
    assert!(says(&sent, "node-of-otto") && !says(&sent, "node-of-nobody"), "{sent}");
    let sent = mail.wait_for(|mail| is_to(mail, "ops@example.org"));
    assert!(says(&sent, "node-of-otto") && says(&sent, "node-of-nobody"), "{sent}");
}

#[test]
fn an_alert_of_one_domain_holds_up_no_notice_to_another() {
    let mut watched = Watch::new();
    let Some(mail) = Keeper::mail(&watched.scratch.join("mail"), &["plain"]) else { return };
    let section = watched.mail_section(&mail);
    let pause = "look_secs = 1\ngroup_minutes = 0\npause_minutes = 10000\ntenants = true\n";
    watched.configure(&format!("[alerts]\n{pause}{section}"));
    for domain in ["LAB", "CLINIC"] {
        watched.server.admin(&["domain", "add", domain]);
        watched.tenant(domain);
    }
    watched.server.admin(&["node", "add", "node-of-LAB", "--domain", "LAB"]);
    watched.server.travel("27h");
    mail.wait_for(|mail| is_to(mail, "admin-of-LAB@example.org"));
    mail.wait_for(|mail| is_to(mail, "ops@example.org"));
    watched.server.admin(&["node", "add", "node-of-CLINIC", "--domain", "CLINIC"]);
    watched.server.travel("54h");
    let sent = mail.wait_for(|mail| is_to(mail, "admin-of-CLINIC@example.org"));
    assert!(says(&sent, "node-of-CLINIC") && !says(&sent, "node-of-LAB"), "{sent}");
    let kept = mail.kept();
    let to_ops = kept.iter().filter(|mail| is_to(mail, "ops@example.org"));
    assert_eq!(to_ops.count(), 1, "their own pause is not over: {kept:#?}");
}

#[test]
fn a_known_alert_is_told_nobody() {
    let mut watched = Watch::new();
    let Some(mail) = Keeper::mail(&watched.scratch.join("mail"), &["plain"]) else { return };
    let section = watched.mail_section(&mail);
    // The notice waits for an hour for more alerts.
    watched.configure(&format!("[alerts]\nlook_secs = 1\ngroup_minutes = 60\n{section}"));
    watched.server.token("web-1");
    watched.server.travel("27h");
    let open = watched.wait_for_open(1);
    let number = open[0]["number"].to_string();
    watched
        .server
        .admin(&["alert", "acknowledge", &number, "--note", "is in repair"]);
    watched.server.travel("29h");
    let open = watched.wait_for_open(1);
    assert_eq!(open[0]["note"], "is in repair");
    assert!(open[0]["told"].is_null(), "{open:#?}");
    watched.server.admin(&["alert", "test", "--channel", "mail"]);
    mail.wait_for(|mail| says(mail, "a test of the notices"));
    assert_eq!(mail.kept().len(), 1, "{:#?}", mail.kept());
}

#[test]
fn a_digest_comes_once_a_day() {
    let mut watched = Watch::new();
    let Some(mail) = Keeper::mail(&watched.scratch.join("mail"), &["plain"]) else { return };
    let section = watched.mail_section(&mail);
    let quiet = "backup_hours = 0\ndigest_at = \"07:30\"\n";
    watched.configure(&format!("[alerts]\n{AT_ONCE}{quiet}{section}"));
    watched.server.token("web-1");
    watched.server.restart();
    // The first look begins with the next day's digest.
    clock::pause(FIRST_LOOK);
    assert!(mail.kept().is_empty());
    watched.server.travel("24h");
    let sent = mail.wait_for(|mail| says(mail, "nothing is wrong; 0 of 1 node have a good backup"));
    assert!(says(&sent, "No alert is open."), "{sent}");
    watched.server.restart();
    clock::pause(Duration::from_secs(3));
    // A server that ends before it has noted that a mail is sent sends the same mail again.
    let number = |mail: &Value| {
        let text = mail["text"].as_str().expect("a mail has a text");
        let line = text.lines().find(|line| line.starts_with("Message-ID:"));
        line.expect("a mail has a number").to_owned()
    };
    let digests: BTreeSet<String> = mail.kept().iter().map(number).collect();
    assert_eq!(digests.len(), 1, "{:#?}", mail.kept());
}

/// Sends a test by each way over TLS, with and without the right authority.
#[test]
fn notices_are_encrypted_and_the_server_signs_in() {
    let mut watched = Watch::new();
    let [leaf, key, authority] = certificate(&watched.scratch.join("tls"));
    let [leaf, key] = [leaf, key].map(|path| path.to_str().unwrap().to_owned());
    let (user, password) = ("holdfast", "a password with spaces");
    let start = |mode: &str| {
        let folder = watched.scratch.join(mode);
        Keeper::mail(&folder, &[mode, &leaf, &key, user, password])
    };
    let (Some(starttls), Some(tls)) = (start("starttls"), start("tls")) else { return };
    let Some(webhook) = Keeper::webhook(&watched.scratch.join("webhook"), &[&leaf, &key]) else {
        return;
    };
    fs::write(watched.server.dir().join("mail.password"), format!("{password}\n")).unwrap();
    fs::copy(&authority, watched.server.dir().join("mail-ca.pem")).unwrap();
    let config = fs::read_to_string(watched.server.dir().join("server.toml")).unwrap();
    for (mode, mail) in [("starttls", &starttls), ("tls", &tls)] {
        let section = tls_sections(mode, mail.port(), webhook.port());
        write_config(watched.server.dir(), &format!("{config}\n{section}"));
        watched.server.restart();
        let sent = watched.server.admin(&["alert", "test"]);
        assert_eq!(sent["items"].as_array().unwrap().len(), 2, "{sent}");
        let kept = mail.wait_for(|_| true);
        assert_eq!((&kept["encrypted"], &kept["user"]), (&json!(true), &json!(user)));
        assert!(webhook.wait_for(|_| true)["headers"]["holdfast-signature"].is_null());
        let wrong = section.replace("authority = \"mail-ca.pem\"\n", "");
        write_config(watched.server.dir(), &format!("{config}\n{wrong}"));
        watched.server.restart();
        let failed = watched.server.try_admin(&["alert", "test"]).expect(&[4]).json();
        let errors = failed["items"].as_array().unwrap().iter();
        assert!(errors.clone().all(|one| one["is_sent"] == false), "{failed}");
        assert_eq!(mail.kept().len(), 1, "nothing went to a server that nobody trusts");
    }
}

fn write_config(server: &Path, config: &str) {
    fs::write(server.join("server.toml"), config).unwrap();
}

fn tls_sections(mode: &str, mail: u16, webhook: u16) -> String {
    format!(
        "[alerts.mail]\nserver = \"localhost:{mail}\"\nencryption = \"{mode}\"\n\
         from = \"holdfast@example.org\"\nto = [\"ops@example.org\"]\nuser = \"holdfast\"\n\
         password_file = \"mail.password\"\nauthority = \"mail-ca.pem\"\n\
         [[alerts.webhooks]]\nname = \"chat\"\nurl = \"https://localhost:{webhook}/\"\n\
         authority = \"mail-ca.pem\"\n"
    )
}

#[test]
fn the_report_of_a_month_comes_by_request_and_by_mail() {
    let mut watched = Watch::new();
    let Some(mail) = Keeper::mail(&watched.scratch.join("mail"), &["plain"]) else { return };
    let section = watched.mail_section(&mail);
    let quiet = "backup_hours = 0\ncopy_hours = 0\nmonthly_report = true\ntenants = true\n";
    for domain in ["LAB", "CLINIC"] {
        watched.server.admin(&["domain", "add", domain]);
    }
    let (own, other) = (watched.tenant("LAB"), watched.tenant("CLINIC"));
    let added = watched.server.admin(&["node", "add", "web-1", "--domain", "LAB"]);
    let node = Node::enrol_with(&watched.server, "web-1", added["token"].as_str().unwrap());
    let tree = watched.scratch.folder("tree");
    plant_files(&tree, 20, 5_000, 7);
    node.backup(&tree, &[]).expect(&[0]);
    node.restore(&tree, &watched.scratch.folder("restored"), &[]).expect(&[0]);
    // A verification is no restore.
    node.run(&["verify", "--data"]).expect(&[0]);
    check_report(&watched, &own);
    other.get("/v1/domains/LAB/report").expect(404);
    own.get("/v1/domains/LAB/report?month=2026-13").expect(400);
    own.get("/v1/domains/LAB/report?month=9998-01").expect(400);
    watched.configure(&format!("[alerts]\n{AT_ONCE}{quiet}{section}"));
    watched.server.restart();
    // The first look begins with this month's report.
    clock::pause(FIRST_LOOK);
    watched.server.travel("32d");
    let is_report = |mail: &Value, to: &str| is_to(mail, to) && says(mail, "backup of LAB in 2");
    let sent = mail.wait_for(|mail| is_report(mail, "ops@example.org"));
    assert!(says(&sent, "1 node: ") && says(&sent, ".html") && says(&sent, ".csv"), "{sent}");
    mail.wait_for(|mail| is_report(mail, "admin-of-LAB@example.org"));
    let foreign = mail.kept().iter().any(|mail| is_report(mail, "admin-of-CLINIC@example.org"));
    assert!(!foreign, "{:#?}", mail.kept());
}

/// Checks the page and the table that a tenant gets, and those of the command.
fn check_report(watched: &Watch, own: &Caller) {
    let page = own.get("/v1/domains/LAB/report").expect(200);
    assert_eq!(page.header("content-type"), Some("text/html; charset=utf-8"));
    let page = String::from_utf8(page.body).unwrap();
    assert!(page.contains("<td>web-1</td><td>1 of 1</td>"), "{page}");
    let table = own.get("/v1/domains/LAB/report?format=csv").expect(200);
    let table = String::from_utf8(table.body).unwrap();
    let [head, line, ""] = table.split("\r\n").collect::<Vec<_>>()[..] else { panic!("{table}") };
    let column = |name: &str| {
        let index = head.split(',').position(|column| column == name).unwrap();
        line.split(',').nth(index).unwrap()
    };
    assert_eq!((column("node"), column("days_good"), column("restores")), ("web-1", "1", "1"));
    assert!(column("restored_objects").parse::<u64>().unwrap() > 0, "{table}");
    assert!(column("bytes").parse::<u64>().unwrap() > 0, "{table}");
    let file = watched.scratch.join("report.csv");
    let output = file.to_str().unwrap();
    watched.server.admin(&["report", "LAB", "--format", "csv", "--output", output]);
    assert_eq!(fs::read_to_string(&file).unwrap(), table);
    let failed = watched.server.try_admin(&["report", "NONE", "--output", output]);
    failed.expect(&[12]).says("there is no domain");
}
