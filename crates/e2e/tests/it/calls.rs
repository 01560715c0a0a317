//! Calls of a client, as they pass the network.

use e2e::harness::Node;
use e2e::scratch::Scratch;
use e2e::session_tree;
use e2e::transcript::Recorder;

/// After some thousand recalls a client's connection was closed, because it had reset the stream of
/// each recall before the server's last frame.
#[test]
fn a_restore_reads_its_stream_to_the_end() {
    let scratch = Scratch::new();
    let server = session_tree::server(&scratch.join("server"));
    let node = Node::enrol(&server, "anna");
    let tree = scratch.folder("tree");
    session_tree::plant(&tree);
    node.backup(&tree, &[]).expect(&[0]);
    let recorder = Recorder::start(server.dir(), node.home(), server.port());
    session_tree::redirect(&node, &server, recorder.port());
    node.restore(&tree, &scratch.folder("out"), &[]).expect(&[0]);
    assert_eq!(recorder.resets(), Vec::<String>::new());
}
