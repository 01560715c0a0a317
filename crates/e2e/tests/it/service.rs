//! The guide for a service with ten customers: each of its commands is run as it stands there, with
//! other folders and ports.

use std::fs;
use std::path::Path;
use std::process::Command;

use e2e::harness::{Keeper, Server, binary};
use e2e::scratch::Scratch;

/// Text before the commands: the services of the machine, and the names of the guide.
const PREAMBLE: &str = r#"
set -euo pipefail
mkdir bin && ln -s "$PROGRAM" bin/holdfast && export PATH="$PWD/bin:$PATH"
export HOLDFAST_HOME="$PWD/home"
end() { if [ -n "${server:-}" ]; then kill "$server" && wait "$server" || true; server=; fi; }
trap end EXIT
begin() {
  holdfast server run "$PWD/srv" > ready.log 2> server.log &
  server=$!
  for _ in $(seq 300); do grep -q ready ready.log server.log && break; sleep 0.1; done
  cp srv/ca.pem ca.pem
}
# The machine has no user of the service.
runuser() { [ "$1 $2 $3" = "-u holdfast --" ] && shift 3 && "$@"; }
install() { [ "$1" = --owner=holdfast ] && shift && command install "$@"; }
systemctl() {
  case "$*" in
    "enable --now holdfast-server") begin ;;
    "restart holdfast-server") end; begin ;;
    *) echo "the test knows no 'systemctl $*'" >&2; return 1 ;;
  esac
}
"#;

/// Returns the commands of a page, and the sections that it adds to the server's configuration, in
/// their order.
fn script(page: &str) -> String {
    let (mut script, mut fence, mut is_command) = (String::new(), None::<&str>, false);
    for line in page.lines() {
        if let Some(kind) = line.strip_prefix("```") {
            match (fence, kind) {
                (None, "toml") => script.push_str("cat >> srv/server.toml <<'END'\n\n"),
                (Some("toml"), _) => script.push_str("END\n"),
                _ => {}
            }
            fence = if fence.is_none() { Some(kind) } else { None };
            is_command = false;
            continue;
        }
        let prompted = line.strip_prefix("# ").or_else(|| line.strip_prefix("$ "));
        let part = match (fence, prompted) {
            (Some("toml"), _) => Some(line),
            (Some("console"), Some(command)) => {
                is_command = true;
                Some(command)
            }
            (Some("console"), None) if is_command && line.starts_with("  ") => Some(line),
            _ => {
                is_command = false;
                None
            }
        };
        if let Some(part) = part {
            script.push_str(part);
            script.push('\n');
        }
    }
    script
}

/// Puts the places of the test into the place of those of the guide.
fn here(script: &str, node_port: u16, api_port: u16, mail: u16) -> String {
    script
        .replace(
            "server init /var/lib/holdfast --api 0.0.0.0",
            &format!(
                "server init \"$PWD/srv\" --listen 127.0.0.1:{node_port} --api 127.0.0.1:{api_port}"
            ),
        )
        .replace("=/var/lib/holdfast", "=\"$PWD/srv\"")
        .replace("https://backup.example.org:1580", &format!("https://localhost:{api_port}"))
        .replace("enroll backup.example.org", &format!("enroll 127.0.0.1:{node_port}"))
        .replace("\"localhost:25\"", &format!("\"localhost:{mail}\""))
}

#[test]
fn the_guide_for_a_service_does_what_it_says() {
    let scratch = Scratch::new();
    let Some(mail) = Keeper::mail(&scratch.join("mail"), &["plain"]) else { return };
    let guide = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guide/service.md");
    let commands = script(&fs::read_to_string(guide).unwrap());
    assert!(commands.lines().count() > 40, "{commands}");
    let (node_port, api_port) = (Server::free_port(), Server::free_port());
    let commands = here(&commands, node_port, api_port, mail.port());
    for place in ["backup.example.org", "/var/lib/holdfast"] {
        assert!(!commands.contains(place), "{place} is not of the test: {commands}");
    }
    let folder = scratch.folder("here");
    let checks = "test -s customer-10.html && grep -q '^....-..,customer-1,web-1,' customer-1.csv\n\
                  cmp restored/etc/passwd /etc/passwd || cmp restored/passwd /etc/passwd\n\
                  grep -q '\"web-1\"' nodes.json\n";
    fs::write(folder.join("script"), format!("{PREAMBLE}\n{commands}\n{checks}")).unwrap();
    let mut bash = Command::new("bash");
    let output = bash
        .arg("script")
        .current_dir(&folder)
        .env("PROGRAM", binary())
        .output()
        .unwrap();
    let said =
        [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
    let log = fs::read_to_string(folder.join("server.log")).unwrap_or_default();
    assert!(output.status.success(), "{}\n{}\n{log}", said[0], said[1]);
    let sent = mail.wait_for(|_| true);
    assert!(sent["text"].as_str().unwrap().contains("a test of the notices"), "{sent}");
}

#[test]
fn a_page_is_read_as_a_script() {
    let page = "text\n```console\n# for n in 1; do\n    a $n\n  done\noutput\n$ b \\\n    -c\n```\n\
                ```toml\n[x]\ny = 1\n```\n# no command\n";
    let expected = "for n in 1; do\n    a $n\n  done\nb \\\n    -c\n\
                    cat >> srv/server.toml <<'END'\n\n[x]\ny = 1\nEND\n";
    assert_eq!(script(page), expected);
}
