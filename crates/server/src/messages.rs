//! Conversions between messages of the wire and types of the store, one module for each noun.
//!
//! A conversion from the wire parses a message: it refuses values for which the store has no type.
//! On the wire an empty text or a zero often stands for a value that is absent; in the store it is
//! an `Option`.

pub(crate) mod archives;
pub(crate) mod baselines;
pub(crate) mod changes;
pub(crate) mod copies;
pub(crate) mod domains;
pub(crate) mod drills;
pub(crate) mod libraries;
pub(crate) mod log;
pub(crate) mod nodes;
pub(crate) mod option_sets;
pub(crate) mod outcomes;
pub(crate) mod pools;
pub(crate) mod portions;
pub(crate) mod queue;
pub(crate) mod recall;
pub(crate) mod schedules;
pub(crate) mod selection;
pub(crate) mod servers;
pub(crate) mod volumes;

use chunk::Recompression;
use store::StoreError;
use wire::proto;

/// Returns the effort of a recompression. Fails for a level that is not allowed, and for a request
/// that writes nothing again.
pub(crate) fn recompression(
    message: Option<proto::Recompression>,
    writes_again: bool,
) -> Result<Option<Recompression>, StoreError> {
    let effort = match message {
        None => return Ok(None),
        Some(_) if !writes_again => {
            let text = "only a drain, and a reclamation that is no dry run, may recompress data";
            return Err(StoreError::usage(text));
        }
        Some(message) => match message.level {
            0 => Recompression::STANDARD,
            level => Recompression::of_level(level).map_err(|_| {
                let text = format!("data cannot be recompressed at level {level}: give 1 to 19");
                StoreError::usage(text)
            })?,
        },
    };
    Ok(Some(effort))
}

/// The text, unless it is empty.
fn filled(text: String) -> Option<String> {
    Some(text).filter(|text| !text.is_empty())
}

/// The number, unless it is 0.
pub(crate) fn positive<N: Default + PartialEq>(number: N) -> Option<N> {
    Some(number).filter(|number| *number != N::default())
}

/// The name, unless it is empty.
pub(crate) fn name(name: &str) -> Option<&str> {
    Some(name).filter(|name| !name.is_empty())
}

#[cfg(test)]
mod tests;
