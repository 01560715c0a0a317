//! Parameters of commands.

/// A parameter of a command.
#[derive(Clone, Copy, Debug)]
pub struct Parameter {
    /// Name, with TSM's shortest form in capitals. A parameter without a name on the command line
    /// has a name in small letters.
    pub name: &'static str,
    pub is_required: bool,
    pub takes: ValueKind,
    pub effect: Effect,
}

/// Values that a parameter takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ValueKind {
    Text,
    /// A list of texts with commas between them.
    List,
    Number,
    YesNo,
    /// One of these words, which may be abbreviated.
    Word(&'static [&'static str]),
    /// The name of one object.
    One(Noun),
    /// A name that no object has.
    New(Noun),
    /// Names and patterns of objects.
    Several(Noun),
}

/// Kinds of objects that have names at the server.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Noun {
    Node,
    Domain,
    Schedule,
    OptionSet,
    Pool,
    Volume,
    Library,
}

/// Effect of a parameter.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Effect {
    /// The command carries it out.
    CarriedOut,
    /// Rows whose column matches.
    Filter(&'static str),
    /// Rows whose column contains the text.
    Contains(&'static str),
    /// Rows whose column has a word that matches.
    AnyWord(&'static str),
    /// Rows whose column matches the patterns of the word.
    Choice(&'static str, &'static [Choice]),
    /// Nothing needs to be done, for this reason.
    Accepted(&'static str),
    /// It cannot be carried out, for this reason.
    Refused(&'static str),
}

/// A word, and the patterns that it stands for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Choice {
    pub word: &'static str,
    pub patterns: &'static str,
}

pub(super) const fn choice(word: &'static str, patterns: &'static str) -> Choice {
    Choice { word, patterns }
}

impl Parameter {
    /// Returns true for a parameter that is found by its place.
    pub fn is_by_place(&self) -> bool {
        self.name.starts_with(|letter: char| letter.is_ascii_lowercase())
    }

    pub(super) const fn accepted(self, reason: &'static str) -> Self {
        Self { effect: Effect::Accepted(reason), ..self }
    }

    pub(super) const fn refused(self, reason: &'static str) -> Self {
        Self { effect: Effect::Refused(reason), ..self }
    }

    pub(super) const fn filter(self, column: &'static str) -> Self {
        Self { effect: Effect::Filter(column), ..self }
    }

    pub(super) const fn choices(self, column: &'static str, choices: &'static [Choice]) -> Self {
        Self { effect: Effect::Choice(column, choices), ..self }
    }

    pub(super) const fn any_word(self, column: &'static str) -> Self {
        Self { effect: Effect::AnyWord(column), ..self }
    }

    pub(super) const fn contains(self, column: &'static str) -> Self {
        Self { effect: Effect::Contains(column), ..self }
    }
}

/// A parameter that must be there.
pub(super) const fn need(name: &'static str, takes: ValueKind) -> Parameter {
    Parameter { name, is_required: true, takes, effect: Effect::CarriedOut }
}

/// A parameter that may be there.
pub(super) const fn may(name: &'static str, takes: ValueKind) -> Parameter {
    Parameter { name, is_required: false, takes, effect: Effect::CarriedOut }
}

/// Patterns for a column, by place.
pub(super) const fn pattern(name: &'static str, column: &'static str) -> Parameter {
    may(name, ValueKind::List).filter(column)
}

pub(super) const FORMAT: Parameter = may("Format", ValueKind::Word(&["Standard", "Detailed"]));
pub(super) const WAIT: Parameter =
    may("Wait", ValueKind::YesNo).accepted("the command always waits for the end of the work");
pub(super) const BEGIN_DATE: Parameter = may("BEGINDate", ValueKind::Text);
pub(super) const BEGIN_TIME: Parameter = may("BEGINTime", ValueKind::Text);
pub(super) const END_DATE: Parameter = may("ENDDate", ValueKind::Text);
pub(super) const END_TIME: Parameter = may("ENDTime", ValueKind::Text);
