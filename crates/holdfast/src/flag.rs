//! An option as it was written on the command line.

/// Option on a command line.
#[derive(Debug)]
pub(crate) struct Flag {
    /// Name without its dashes.
    pub(crate) name: String,
    /// Text after `=`, or the next word: the value, if the option takes one.
    pub(crate) value: Option<String>,
}
