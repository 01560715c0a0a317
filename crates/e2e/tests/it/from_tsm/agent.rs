//! The agent by the names of TSM's commands.

use std::fs;

use super::Site;
use crate::fleet::eventually;

/// `dsmcad` said that the agent runs, and the logs had no reason why it does not.
#[test]
fn an_agent_that_cannot_run_is_told() {
    let site = Site::new(0);
    let _agent = site.scene.node.spawn_agent();
    let is_connected =
        || site.scene.server.admin(&["node", "show", "anna"])["agent_connected"] == true;
    assert!(eventually(is_connected));
    site.run("dsmcad", &[]).expect(&[12]).says("the agent has ended at once");
    for log in ["dsmsched.log", "dsmerror.log"] {
        let text = fs::read_to_string(site.options.with_file_name(log)).unwrap();
        assert!(text.contains("another agent of this node is running"), "{log}: {text}");
    }
}

/// Before the agent had run once, the node seemed to follow no schedule.
#[test]
fn the_server_is_asked_for_schedules_and_the_node_knows_them_while_it_is_away() {
    let mut site = Site::new(0);
    let query = ["query", "schedule"];
    let define = ["schedule", "define", "nightly", "--action", "incremental", "--time", "22:00"];
    site.scene.server.admin(&define);
    site.dsmc(&query).expect(&[8]).says("This node follows no schedule");
    site.scene.server.admin(&["schedule", "associate", "nightly", "--node", "anna"]);
    site.dsmc(&query).expect(&[0]).says("    Schedule Name: NIGHTLY");
    let agent = site.scene.node.spawn_agent();
    let is_known = || {
        let known = site.scene.node.run(&["agent", "schedules", "--json"]).expect(&[0]);
        known.json_lines().len() == 1
    };
    assert!(eventually(is_known));
    drop(agent);
    site.scene.server.terminate().expect(&[0]);
    let kept = site.dsmc(&query).expect(&[8]).says("    Schedule Name: NIGHTLY");
    kept.says("; this is what the node has received last");
}
