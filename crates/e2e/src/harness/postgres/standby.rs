//! A standby server. It has all that the primary server has confirmed, and can take its place.

use super::{Cluster, Door, READY_SECS, clock, command, programs};

impl Cluster {
    /// Starts a server and its standby; `None`, with a line on standard error, if PostgreSQL is not
    /// installed.
    pub fn with_standby() -> Option<(Self, Self)> {
        let primary = Self::make("off", Door::Plain)?;
        let standby = Self::new("off", Door::Plain);
        let copied = command(&programs()?.join("pg_basebackup"))
            .args(["--no-sync", "--checkpoint=fast", "--write-recovery-conf", "-U", "holdfast"])
            .args(["-p", &primary.port.to_string(), "-h"])
            .arg(primary.folder.path())
            .arg("-D")
            .arg(standby.data())
            .status();
        assert!(copied.expect("pg_basebackup runs").success());
        standby.begin();
        // This is set after the copy, so that the standby does not wait for a standby of its own
        // when it is promoted.
        primary.sql("postgres", "ALTER SYSTEM SET synchronous_standby_names = '*'");
        primary.sql("postgres", "SELECT pg_reload_conf()");
        let synchronous = "SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'";
        let follows = (0..READY_SECS * 10).any(|_| {
            clock::pause(std::time::Duration::from_millis(100));
            primary.sql("postgres", synchronous) == "1"
        });
        assert!(
            follows,
            "the standby does not follow; see {:?}",
            standby.folder.path().join("log")
        );
        Some((primary, standby))
    }

    /// Makes the standby the primary server, which accepts writes.
    pub fn promote(&self) {
        assert_eq!(
            self.sql("postgres", "SELECT pg_promote()"),
            "t",
            "the standby was not promoted in time"
        );
    }

    /// The URL of a database, with the addresses of both servers.
    pub fn url_with(&self, other: &Self, database: &str) -> String {
        let (one, other) = (self.port, other.port);
        format!(
            "postgres://holdfast@127.0.0.1:{one},127.0.0.1:{other}/{database}\
             ?target_session_attrs=read-write"
        )
    }
}
