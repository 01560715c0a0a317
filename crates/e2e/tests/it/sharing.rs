//! Deduplication between nodes: long contents are stored once, and no node learns whether another
//! node has a short content.

use std::fs;

use e2e::harness::{Node, Server};
use e2e::scratch::Scratch;

/// Length from which nodes share a chunk by default.
const SHARED: usize = 64 << 10;
/// Maximum number of bytes of the head of a record.
const HEAD_BYTES: usize = 64;

/// Returns bytes that cannot be compressed, of which `number` is the only secret.
fn content(number: u64, length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    blake3::Hasher::new()
        .update(&number.to_le_bytes())
        .finalize_xof()
        .fill(&mut bytes);
    bytes
}

/// Nodes of one server that back up single files.
struct World {
    server: Server,
    scratch: Scratch,
}

impl World {
    fn new() -> Self {
        let scratch = Scratch::new();
        Self { server: Server::start(&scratch.folder("world").join("server")), scratch }
    }

    /// Returns the size of the pool in bytes.
    fn stored(&self) -> usize {
        let pools = self.server.try_admin(&["pool", "list"]).expect(&[0]).json_lines();
        let bytes = pools.iter().map(|pool| pool["bytes"].as_u64().unwrap()).sum::<u64>();
        usize::try_from(bytes).unwrap()
    }

    /// Backs up a file of this content. Returns the growth of the pool in bytes.
    fn back_up(&self, node: &Node, name: &str, content: &[u8], options: &[&str]) -> usize {
        let before = self.stored();
        let folder = self.scratch.folder(name);
        fs::write(folder.join("file"), content).unwrap();
        node.backup(&folder, options).expect(&[0]);
        self.stored() - before
    }
}

/// Regression: a node tried all contents of five digits in 6.4 seconds. The server stored nothing
/// for the content that another node had.
#[test]
fn no_node_learns_whether_another_has_a_short_content() {
    let world = World::new();
    let [owner, guesser] = ["owner", "guesser"].map(|name| Node::enrol(&world.server, name));
    for (length, set) in [(5000, "short"), (SHARED - 1, "just-short")] {
        world.back_up(&owner, &format!("{set}-secret"), &content(12345, length), &[]);
        let guess = |number| {
            let name = format!("{set}-{number}");
            world.back_up(&guesser, &name, &content(number, length), &[])
        };
        let grown = [11111, 12345, 22222].map(guess);
        assert!(grown[0] > length, "{set}: {grown:?}");
        // The head of a record is a few bytes longer where its numbers are larger.
        assert!(grown.iter().all(|one| one.abs_diff(grown[0]) < HEAD_BYTES), "{set}: {grown:?}");
    }
}

#[test]
fn nodes_share_long_contents_that_are_not_encrypted() {
    let world = World::new();
    let [one, two] = ["one", "two"].map(|name| Node::enrol(&world.server, name));
    let long = content(1, SHARED);
    assert!(world.back_up(&one, "one", &long, &[]) > SHARED);
    assert_eq!(world.back_up(&two, "two", &long, &[]), 0);
}

/// A node knows its own contents by the index too, when it has lost its grants.
#[test]
fn a_node_without_grants_stores_nothing_twice() {
    let world = World::new();
    let node = Node::enrol(&world.server, "one");
    let short = content(1, 5000);
    let no_cache = ["--deduplication", "NO"];
    assert!(world.back_up(&node, "first", &short, &no_cache) > 5000);
    assert_eq!(world.back_up(&node, "second", &short, &no_cache), 0);
}
