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
