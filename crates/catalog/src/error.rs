//! The error of the catalogue, by what its caller can do about it.

/// Failure of an operation on the catalogue.
#[derive(Debug, thiserror::Error)]
pub enum CatalogError {
    /// The catalogue has no row for `what`: tell the caller.
    #[error("{what} is not known")]
    NotFound { what: &'static str },
    /// The catalogue has a row for `what` already: tell the caller.
    #[error("{what} exists already")]
    Exists { what: &'static str },
    /// A limit that somebody has set leaves no room for `what`: remove something, or raise it.
    #[error("there is no room for {what}: the limit is {limit}")]
    Limit { what: &'static str, limit: u64 },
    /// The catalogue's disk is full: free some space, then try again.
    #[error("no space left for the catalogue")]
    NoSpace,
    /// The database is not readable as a catalogue: restore it from its copy.
    #[error("the catalogue is damaged: {0}")]
    Damaged(String),
    /// The database does not answer: make it available, then go on.
    #[error("the catalogue's database does not answer: {0}")]
    Away(String),
    /// Other servers have declared this server dead: stop it. It cannot write any more.
    #[error("other servers have declared this server dead")]
    Fenced,
    /// The configuration names a catalogue that cannot be used: change its URL, or end the move of
    /// the catalogue.
    #[error("the catalogue cannot be used: {0}")]
    Unusable(String),
    /// Any other failure of the database; another try may help.
    #[error("the catalogue's database failed")]
    Database(#[source] Box<dyn std::error::Error + Send + Sync>),
}

impl CatalogError {
    /// Returns the error for a failure of the database that only the log shows.
    pub(crate) fn failed(source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self::Database(source.into())
    }

    /// Returns the error for a value `what` in the database that this program cannot have written.
    pub(crate) fn impossible(what: &str) -> Self {
        Self::Damaged(format!("{what} is impossible"))
    }
}
