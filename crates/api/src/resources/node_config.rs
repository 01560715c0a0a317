//! The archive with all that a machine needs to become a node.

use std::io::{self, Write};

use schemars::JsonSchema;
use serde::Deserialize;
use store::nodes::NewNode;

use super::found_node::find_node;
use super::nodes::NodePath;
use crate::call::{Answer, Call};
use crate::download::Download;
use crate::fields::Empty;
use crate::operation::Operation;
use crate::roles::{Area, Right};
use crate::routes::Routes;

/// Folder in the archive.
const FOLDER: &str = "holdfast";

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ConfigQuery {
    /// Lifetime of the token: 1 second to 30 days; a day by default.
    token_secs: Option<i64>,
}

pub(super) fn add(routes: &mut Routes) {
    let summary = "Makes a new token for a node, and an archive of tar with all that a machine \
                   needs to become the node";
    let path = "/v1/nodes/{node}/config";
    let operation = Operation::post("nodes.config", path, Area::Enrolment, summary);
    routes.stream(operation, "application/x-tar", config);
}

fn config(call: &mut Call<NodePath, ConfigQuery, Empty>) -> Answer<Download> {
    let (desk, caller) = (&call.desk, &call.caller);
    let rights = (Area::Enrolment, Right::Write);
    let found = find_node(desk, caller, &call.path.node, rights)?;
    let new = NewNode {
        name: found.node.name.to_string(),
        domain: found.node.domain_name,
        token_secs: call.query.token_secs,
        again: true,
        details: found.details,
        api_key: None,
        secret: None,
    };
    let added = desk.office.add_node(&new, &caller.name)?;
    let files = files(&new.name, &desk.addresses().join(","), desk.office.ca_pem(), &added.token);
    let source = move |sink: &mut dyn Write| write(sink, &files);
    let (name, source) = (Some(format!("{}-config.tar", new.name)), Box::new(source));
    Ok(Download { media: "application/x-tar", bytes: None, name, node: None, source })
}

/// A file of the archive.
struct File {
    name: &'static str,
    mode: u32,
    text: String,
}

fn files(node: &str, servers: &str, ca: &str, token: &str) -> [File; 4] {
    let file = |name, mode, text: String| File { name, mode, text };
    let script = format!(
        "#!/bin/sh\n# Makes this machine the node {node}. Needs the program holdfast, and root.\n\
         set -e\ncd \"$(dirname \"$0\")\"\nholdfast enroll '{servers}' --token \"$(cat token)\"\n"
    );
    [
        file("client.toml", 0o644, format!("server = {servers:?}\nnode = {node:?}\n")),
        file("ca.pem", 0o644, ca.to_owned()),
        file("token", 0o600, format!("{token}\n")),
        file("enroll.sh", 0o755, script),
    ]
}

fn write(sink: &mut dyn Write, files: &[File]) -> io::Result<()> {
    let mut archive = tar::Builder::new(sink);
    let now = u64::try_from(sys::clock::now().0 / 1_000_000).unwrap_or(0);
    for File { name, mode, text } in files {
        let mut header = tar::Header::new_gnu();
        header.set_mode(*mode);
        header.set_mtime(now);
        header.set_size(text.len() as u64);
        archive.append_data(&mut header, format!("{FOLDER}/{name}"), text.as_bytes())?;
    }
    archive.finish()
}
