//! Context of all examiners of a filespace.

use std::sync::OnceLock;

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
    /// True to leave a changed object to a later backup if the frequency of its class says so.
    pub(super) keeps_frequency: bool,
    pub(super) is_dry: bool,
    /// Notes for the next backup by journal.
    pub(super) notes: &'a Notes,
    /// Comparison with the journal, if this walk compares.
    pub(super) comparison: &'a OnceLock<Comparison>,
}
