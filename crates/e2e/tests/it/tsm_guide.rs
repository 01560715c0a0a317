//! The guide for those who come from TSM: each of its commands is run as it stands there, in a
//! name space of mounts with the folders of TSM's client.

use std::fs;
use std::path::Path;
use std::process::Command;

use e2e::harness::{Server, binary};
use e2e::scratch::Scratch;

use crate::scene::root_or_skip;

/// Text before the commands: a machine with TSM's client, which is a script, and a server with a
/// password for its node.
const PREAMBLE: &str = r#"
set -euo pipefail
mkdir -p opt local etc home/ann srv/projects room programs
mount --bind opt /opt
mount --bind local /usr/local/bin
cp -a /etc/. etc && mount --bind etc /etc
mount --bind home home
ln -s "$PROGRAM" programs/holdfast
ln -s "$SAMPLES/archives-from-tsm" programs/archives-from-tsm
export PATH="$PWD/programs:/usr/local/bin:$PATH" HOLDFAST_HOME="$PWD/node"
tsm=/opt/tivoli/tsm/client/ba/bin
mkdir -p $tsm
cat > $tsm/dsm.sys <<END
SErvername         tsm1
   TCPServeraddress  127.0.0.1
   TCPPort           $PORT
   NODename          ANNA
   PASSWORDAccess    generate
   ERRORLOGName      $PWD/dsmerror.log
END
printf 'SErvername tsm1\nDOMAIN %s\nDATEFORMAT 3\n' "$PWD/home" > $tsm/dsm.opt
cat > $tsm/dsmc <<'END'
#!/bin/bash
if [ "$1" = retrieve ]; then
  mkdir -p "$2/below" && echo one > "$2/one" && echo two > "$2/below/two" && : > "$2/empty"
fi
END
chmod +x $tsm/dsmc
holdfast dsmadmc -se="$SERVER" "register node ANNA correct-horse"
holdfast admin --server "$SERVER" policy class LONG --domain STANDARD --retver 3650
holdfast admin --server "$SERVER" policy activate --domain STANDARD
cp "$SERVER/ca.pem" $tsm/
echo 'a letter' > home/ann/letter
echo 'project 17' > descriptions
"#;

/// Returns the commands of a page.
fn script(page: &str) -> String {
    let (mut script, mut is_console) = (String::new(), false);
    for line in page.lines().map(str::trim_start) {
        if let Some(kind) = line.strip_prefix("```") {
            is_console = kind == "console";
            continue;
        }
        let command = line.strip_prefix("# ").or_else(|| line.strip_prefix("> "));
        if let (true, Some(command)) = (is_console, command) {
            script.push_str(command);
            script.push('\n');
        }
    }
    script
}

#[test]
fn the_guide_for_sites_with_tsm_does_what_it_says() {
    if !root_or_skip("the_guide_for_sites_with_tsm_does_what_it_says") {
        return;
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let commands = script(&fs::read_to_string(root.join("docs/guide/from-tsm.md")).unwrap());
    assert!(commands.lines().count() > 10, "{commands}");
    let commands = commands
        .replace("\"/home/ann/*\"", "\"$PWD/home/ann/*\"")
        .replace("/srv/projects", "\"$PWD/srv/projects\"")
        .replace("/mnt/room", "\"$PWD/room\"");
    let scratch = Scratch::new();
    let server = Server::start(&scratch.join("server"));
    let folder = scratch.folder("here");
    fs::write(folder.join("script"), format!("{PREAMBLE}\nset -x\n{commands}")).unwrap();
    let output = Command::new("unshare")
        .args(["--mount", "bash", "script"])
        .current_dir(&folder)
        .env("PROGRAM", binary())
        .env("SAMPLES", root.canonicalize().unwrap().join("packaging/debian/samples"))
        .env("SERVER", server.dir())
        .env("PORT", server.port().to_string())
        .env_remove("DSM_DIR")
        .env_remove("DSM_CONFIG")
        .output()
        .unwrap();
    let said =
        [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
    assert!(output.status.success(), "{}\n{}", said[0], said[1]);
    for expected in [
        "Node Name: ANNA",
        "Successful incremental backup",
        "/home/ann/letter",
        "'project 17': 3 files moved and compared",
    ] {
        assert!(said[0].contains(expected), "{expected}: {}\n{}", said[0], said[1]);
    }
    // The folder of Holdfast's own option files comes before that of TSM's client.
    assert_eq!(said[0].matches("Successful incremental backup").count(), 2, "{}", said[0]);
}

#[test]
fn a_page_with_indented_blocks_is_read_as_a_script() {
    let page = "1. text\n\n   ```console\n   # dsmc incremental\n   output\n   ```\n\
                ```console\n# while read; do\n>   a\n> done\n```\n# no command\n";
    assert_eq!(script(page), "dsmc incremental\nwhile read; do\n  a\ndone\n");
}
