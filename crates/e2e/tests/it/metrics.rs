//! Metrics, the dashboard and the rules, by a real Prometheus and its `promtool`.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use e2e::harness::api::{self, Caller};
use e2e::harness::{Node, Server, succeeds};
use e2e::scratch::Scratch;
use e2e::{clock, skip};
use serde_json::Value;

use crate::scene::plant_files;

/// A server with a node that has a backup, and an auditor with a key.
struct Subject {
    server: Server,
    auditor: Caller,
    token: String,
    scratch: Scratch,
}

impl Subject {
    fn new() -> Self {
        let scratch = Scratch::new();
        let (server, stranger) = api::start(&scratch.join("server"));
        server.admin(&["user", "add", "prometheus", "--role", "auditor"]);
        let made = server.admin(&["key", "add", "--user", "prometheus", "--kind", "readonly"]);
        let token = made["token"].as_str().unwrap().to_owned();
        let auditor = stranger.with_key(&token);
        Self { server, auditor, token, scratch }
    }

    fn back_up(&self) {
        let tree = self.scratch.folder("tree");
        plant_files(&tree, 40, 5_000, 7);
        let node = Node::enrol(&self.server, "web-1");
        node.backup(&tree, &[]).expect(&[0]);
    }

    fn text(&self) -> String {
        String::from_utf8(self.auditor.get("/metrics").expect(200).body).unwrap()
    }
}

/// Returns the value of a metric, with its labels as the text has them.
#[track_caller]
fn value(text: &str, metric: &str) -> f64 {
    let line = text.lines().find_map(|line| line.strip_prefix(metric)?.strip_prefix(' '));
    let line = line.unwrap_or_else(|| panic!("{metric} is not in {text}"));
    line.parse().unwrap()
}

fn has_promtool() -> bool {
    let has = succeeds(Command::new("promtool").arg("--version").stdout(Stdio::null()));
    if !has {
        skip::say("promtool is not installed; Debian's package prometheus has it");
    }
    has
}

/// Runs promtool with `input`, and fails unless it finds nothing wrong and says nothing.
#[track_caller]
fn promtool(arguments: &[&str], input: &str) -> String {
    let mut promtool = Command::new("promtool");
    let promtool = promtool.args(arguments).stdin(Stdio::piped());
    let promtool = promtool.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut running = promtool.spawn().expect("promtool starts");
    running.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = running.wait_with_output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said).into_owned();
    assert!(output.status.success(), "{arguments:?}: {said}");
    said
}

fn docs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/watching")
}

#[test]
fn metrics_tell_what_backups_did() {
    let measured = Subject::new();
    let before = measured.text();
    assert!(value(&before, "holdfast_backups_total{result=\"complete\"}") < 0.5);
    measured.back_up();
    let text = measured.text();
    assert!((value(&text, "holdfast_nodes") - 1.0).abs() < 0.5);
    assert!((value(&text, "holdfast_backups_total{result=\"complete\"}") - 1.0).abs() < 0.5);
    for metric in [
        "holdfast_backup_objects_total{what=\"backed-up\"}",
        "holdfast_backup_inspected_bytes_total",
        "holdfast_backup_before_dedup_bytes_total",
        "holdfast_backup_transferred_bytes_total",
        "holdfast_backup_stage_busy_seconds_total{stage=\"authenticate\"}",
        "holdfast_backup_stage_waited_seconds_total{stage=\"authenticate\"}",
        "holdfast_backup_stage_busy_seconds_total{stage=\"read\"}",
        "holdfast_backup_stage_busy_seconds_total{stage=\"commit\"}",
        "holdfast_pool_bytes{pool=\"PRIMARY\"}",
        "holdfast_catalog_commit_seconds_count",
        "holdfast_catalog_commit_seconds_sum",
        "process_resident_memory_bytes",
        "process_cpu_seconds_total",
        "process_open_fds",
    ] {
        assert!(value(&text, metric) > 0.0, "{metric}: {text}");
    }
    assert!(!text.contains("web-1"), "no label names a node");
}

#[test]
fn promtool_finds_nothing_wrong_with_the_metrics() {
    if !has_promtool() {
        return;
    }
    let measured = Subject::new();
    measured.back_up();
    let said = promtool(&["check", "metrics"], &measured.text());
    assert_eq!(said, "");
}

#[test]
fn promtool_finds_nothing_wrong_with_the_rules() {
    if !has_promtool() {
        return;
    }
    let rules = docs().join("alert-rules.yml");
    promtool(&["check", "rules", rules.to_str().unwrap()], "");
    let tests = docs().join("alert-rules-test.yml");
    promtool(&["test", "rules", tests.to_str().unwrap()], "");
}

/// Returns the names of metrics in a text.
fn names(text: &str) -> BTreeSet<String> {
    let is_part = |character: char| character.is_ascii_alphanumeric() || character == '_';
    let words = text.split(|character| !is_part(character));
    let named = words.filter(|word| word.starts_with("holdfast_") || word.starts_with("process_"));
    let base = |word: &str| {
        let ends = ["_bucket", "_sum", "_count"];
        let cut = ends.iter().find_map(|end| word.strip_suffix(end));
        cut.unwrap_or(word).to_owned()
    };
    named.map(base).collect()
}

#[test]
fn each_metric_of_the_dashboard_and_the_rules_exists() {
    let measured = Subject::new();
    let text = measured.text();
    let families = text.lines().filter_map(|line| line.strip_prefix("# TYPE "));
    let known: BTreeSet<String> =
        families.filter_map(|line| line.split(' ').next()).map(str::to_owned).collect();
    for file in ["dashboard.json", "alert-rules.yml"] {
        let text = fs::read_to_string(docs().join(file)).unwrap();
        let named = names(&text);
        assert!(named.len() > 5, "{file} names few metrics: {named:?}");
        let unknown: Vec<_> = named.difference(&known).collect();
        assert!(unknown.is_empty(), "{file} names {unknown:?}");
    }
    let dashboard = fs::read_to_string(docs().join("dashboard.json")).unwrap();
    let dashboard: Value = serde_json::from_str(&dashboard).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    assert!(panels.iter().all(|panel| !panel["targets"].as_array().unwrap().is_empty()));
}

/// A running Prometheus. It ends when this value is dropped.
struct Prometheus {
    process: Child,
    port: u16,
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        self.process.kill().expect("is killed");
        self.process.wait().expect("has ended");
    }
}

impl Prometheus {
    /// Starts a Prometheus that scrapes the server as the guide says.
    fn start(measured: &Subject) -> Option<Self> {
        let has = succeeds(Command::new("prometheus").arg("--version").stdout(Stdio::null()));
        if !has {
            skip::say("prometheus is not installed; Debian's package prometheus has it");
            return None;
        }
        let folder = measured.scratch.folder("prometheus");
        let address = measured.auditor.url().replace("https://", "");
        let config = format!(
            "global: {{ scrape_interval: 1s }}\nrule_files: [{}]\nscrape_configs:\n  \
             - job_name: holdfast\n    scheme: https\n    tls_config: {{ ca_file: {} }}\n    \
             authorization: {{ type: Token, credentials: \"{}\" }}\n    \
             static_configs: [{{ targets: [\"{address}\"] }}]\n",
            docs().join("alert-rules.yml").display(),
            measured.server.dir().join("ca.pem").display(),
            measured.token,
        );
        let file = folder.join("prometheus.yml");
        fs::write(&file, config).unwrap();
        let port = Server::free_port();
        let log = fs::File::create(folder.join("log")).unwrap();
        let process = Command::new("prometheus")
            .arg(format!("--config.file={}", file.display()))
            .arg(format!("--storage.tsdb.path={}", folder.join("data").display()))
            .arg(format!("--web.listen-address=127.0.0.1:{port}"))
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .expect("Prometheus starts");
        Some(Self { process, port })
    }

    /// Asks for the present value of an expression, until there is one.
    #[track_caller]
    fn query(&self, expression: &str) -> String {
        let url = format!("http://127.0.0.1:{}/api/v1/query", self.port);
        let mut last = String::new();
        for _ in 0..1200 {
            let mut curl = Command::new("curl");
            curl.args(["--silent", "--get", &url, "--data-urlencode"]);
            let output = curl.arg(format!("query={expression}")).output().expect("curl runs");
            last = String::from_utf8_lossy(&output.stdout).into_owned();
            let answer: Value = serde_json::from_str(&last).unwrap_or(Value::Null);
            if let Some(value) = answer["data"]["result"][0]["value"][1].as_str() {
                return value.to_owned();
            }
            clock::pause(Duration::from_millis(100));
        }
        panic!("no value of {expression}: {last}");
    }
}

#[test]
fn a_real_prometheus_scrapes_the_server() {
    let measured = Subject::new();
    measured.back_up();
    let Some(prometheus) = Prometheus::start(&measured) else { return };
    assert_eq!(prometheus.query("holdfast_nodes"), "1");
    assert_eq!(prometheus.query("up{job=\"holdfast\"}"), "1");
    assert_eq!(prometheus.query("holdfast_backups_total{result=\"complete\"}"), "1");
    let quantile = "histogram_quantile(0.99, holdfast_catalog_commit_seconds_bucket)";
    let seconds: f64 = prometheus.query(quantile).parse().unwrap();
    assert!(seconds > 0.0, "{seconds}");
}
