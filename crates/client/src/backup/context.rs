//! Context of all examiners of a filespace.

use std::sync::OnceLock;

use model::{Object, ServerTime};

use super::chunks::Chunks;
use super::comparison::Comparison;
use super::crew::Crew;
use super::digest::Digester;
use super::names::Notes;
use super::tally::Tally;
use crate::link::Link;
use crate::rules::Rules;

/// State that all examiners of one filespace share.
pub(super) struct Context<'a> {
    pub(super) link: &'a Link,
    pub(super) filespace: &'a [u8],
    pub(super) chunks: &'a Chunks<'a>,
    pub(super) digester: &'a Digester,
    pub(super) readers: &'a Crew,
    pub(super) tally: &'a Tally,
    pub(super) rules: &'a Rules,
    /// True to send every object, changed or not.
    pub(super) sends_all: bool,
    /// Time of the first attempt, by the server's clock, if this is a later one. A version that was
    /// stored since then was stored by this backup, and is not sent again unless it has changed.
    pub(super) continues_from: Option<ServerTime>,
    /// True to leave a changed object to a later backup if the frequency of its class says so.
    pub(super) keeps_frequency: bool,
    pub(super) is_dry: bool,
    /// Notes for the next backup by journal.
    pub(super) notes: &'a Notes,
    /// Comparison with the journal, if this walk compares.
    pub(super) comparison: &'a OnceLock<Comparison>,
}

impl Context<'_> {
    /// Returns true if an earlier attempt of this backup has stored the version.
    pub(super) fn has_stored(&self, known: &Object) -> bool {
        self.continues_from.is_some_and(|began| known.inserted >= began)
    }
}
