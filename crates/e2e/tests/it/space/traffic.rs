//! What goes over the wire, and what does not.

use e2e::harness::Proxy;

use super::*;

impl Space {
    /// Its node reaches the server by way of the proxy.
    fn behind_proxy(kind: &[&str]) -> Option<(Self, Proxy)> {
        let mut space = Self::new(kind, &[])?;
        let proxy = Proxy::start(space.scene.server.port());
        space.kill_all();
        let again = space.scene.server.admin(&["node", "add", "anna", "--again"]);
        let address = format!("127.0.0.1:{}", proxy.port());
        space.node().enroll_at(&address, again["token"].as_str().unwrap());
        space.start(&[]);
        Some((space, proxy))
    }
}

#[test]
fn what_is_backed_up_migrates_without_its_data() {
    for kind in KINDS {
        let Some((space, proxy)) = Space::behind_proxy(kind) else { continue };
        let old = space.write("old", &noise(300, 8 * MIB));
        space.node().backup(&space.fs(), &[]).expect(&[0]);
        let new = space.write("new", &noise(301, 8 * MIB));
        let sent = |path: &Path| {
            let before = proxy.weather().asked_bytes();
            let rows = space.hsm(&["migrate"], path).expect(&[0]).json_lines();
            assert!(rows[0]["bytes"].as_u64().unwrap() >= 8 << 20, "{rows:?}");
            proxy.weather().asked_bytes() - before
        };
        let (of_old, of_new) = (sent(&old), sent(&new));
        assert!(of_old < 100_000, "{}: {of_old} bytes are sent", kind[0]);
        assert!(of_new > 8 << 20, "{}: {of_new} bytes are sent", kind[0]);
        assert!(fs::read(&old).unwrap() == noise(300, 8 * MIB), "{}", kind[0]);
        // What was recalled is compared, and not sent again.
        let of_old = sent(&old);
        assert!(of_old < 100_000, "{}: {of_old} bytes are sent again", kind[0]);
    }
}
