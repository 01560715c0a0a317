//! Conditions that bound a view: a column that must equal a text wherever the view is read.
//!
//! A condition counts only in the WHERE of the SELECT that reads the view, joined with all other
//! conditions there by AND, and about a column of this view.

use super::token::Token;

/// A view that a SELECT reads.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Reading {
    scope: usize,
    name: String,
    /// Name of the view in the statement, as in `backups b`.
    alias: String,
}

/// A condition that a column equals a text.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Equality {
    scope: usize,
    qualifier: Option<String>,
    column: String,
    text: String,
}

/// The readings and conditions of a statement.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Bounds {
    readings: Vec<Reading>,
    equalities: Vec<Equality>,
}

impl Bounds {
    /// Returns the text that `column` of `view` must equal; `None` if there is no such condition,
    /// or if the statement reads the view more than once.
    pub fn of(&self, view: &str, column: &str) -> Option<&str> {
        let mut readings = self.readings.iter().filter(|reading| reading.name == view);
        let (Some(reading), None) = (readings.next(), readings.next()) else { return None };
        let is_meant = |equality: &&Equality| {
            let is_own = equality
                .qualifier
                .as_ref()
                .is_none_or(|qualifier| *qualifier == reading.alias || *qualifier == reading.name);
            equality.scope == reading.scope && equality.column == column && is_own
        };
        self.equalities.iter().find(is_meant).map(|equality| equality.text.as_str())
    }
}

/// Words that end the name of a view, and so are no alias.
const ENDS: [&str; 14] = [
    "WHERE",
    "GROUP",
    "ORDER",
    "HAVING",
    "FETCH",
    "UNION",
    "EXCEPT",
    "INTERSECT",
    "JOIN",
    "INNER",
    "LEFT",
    "RIGHT",
    "ON",
    "WITH",
];
/// Words that end a WHERE.
const AFTER_WHERE: [&str; 7] =
    ["GROUP", "ORDER", "HAVING", "FETCH", "UNION", "EXCEPT", "INTERSECT"];

/// A SELECT that is being read.
struct Scope {
    number: usize,
    is_in_where: bool,
    has_or: bool,
    found: Vec<Equality>,
}

impl Scope {
    fn new(number: usize) -> Self {
        Self { number, is_in_where: false, has_or: false, found: Vec::new() }
    }

    /// Ends the WHERE. Its conditions count unless one of them may be replaced by another.
    fn end(&mut self, bounds: &mut Bounds) {
        let found = std::mem::take(&mut self.found);
        if !self.has_or {
            bounds.equalities.extend(found);
        }
        (self.is_in_where, self.has_or) = (false, false);
    }
}

/// Finds what a statement reads, and its conditions.
pub(super) fn find(tokens: &[Token]) -> Bounds {
    let mut bounds = Bounds::default();
    let mut scopes = vec![Scope::new(0)];
    let mut last_number = 0;
    for (at, token) in tokens.iter().enumerate() {
        let before = at.checked_sub(1).and_then(|before| tokens.get(before));
        match token {
            Token::Sign("(") => {
                last_number += 1;
                scopes.push(Scope::new(last_number));
                continue;
            }
            Token::Sign(")") => {
                if let Some(mut scope) = scopes.pop_if(|scope| scope.number > 0) {
                    scope.end(&mut bounds);
                }
                continue;
            }
            _ => {}
        }
        let Some(scope) = scopes.last_mut() else { continue };
        let Token::Word(word) = token else { continue };
        if AFTER_WHERE.contains(&word.as_str()) {
            scope.end(&mut bounds);
            if matches!(word.as_str(), "UNION" | "EXCEPT" | "INTERSECT") {
                last_number += 1;
                scope.number = last_number;
            }
        }
        match word.as_str() {
            "WHERE" => scope.is_in_where = true,
            "OR" | "NOT" | "CASE" => scope.has_or |= scope.is_in_where,
            _ => {}
        }
        let reads = before.is_some_and(|before| {
            before.is("FROM") || before.is("JOIN") || *before == Token::Sign(",")
        });
        if reads && !scope.is_in_where {
            let alias = alias(&tokens[at + 1..]).unwrap_or(word).to_owned();
            bounds.readings.push(Reading { scope: scope.number, name: word.clone(), alias });
        }
        if let [Token::Sign("="), Token::Text(text), ..] = &tokens[at + 1..]
            && scope.is_in_where
        {
            let (qualifier, column) = match word.rsplit_once('.') {
                Some((qualifier, column)) => (Some(qualifier.to_owned()), column),
                None => (None, word.as_str()),
            };
            let (scope_number, text) = (scope.number, text.clone());
            let column = column.to_owned();
            scope.found.push(Equality { scope: scope_number, qualifier, column, text });
        }
    }
    while let Some(mut scope) = scopes.pop() {
        scope.end(&mut bounds);
    }
    bounds
}

/// Returns the alias that follows the name of a view, if there is one.
fn alias(rest: &[Token]) -> Option<&str> {
    let rest = if rest.first()?.is("AS") { &rest[1..] } else { rest };
    match rest.first()? {
        Token::Word(word) if !ENDS.contains(&word.as_str()) => Some(word),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admin::dialect::token::tokens;

    #[track_caller]
    fn check(rest: &str, expected: Option<&str>) {
        let statement = format!("select * from {rest}");
        let bounds = find(&tokens(&statement).expect("is SQL"));
        assert_eq!(bounds.of("BACKUPS", "NODE_NAME"), expected, "{statement}");
    }

    #[test]
    fn a_condition_bounds_the_view_that_it_is_about() {
        check("backups where node_name='A'", Some("A"));
        check("backups b where b.node_name='A' and b.type='FILE'", Some("A"));
        check("backups as b, nodes n where b.node_name='A' group by b.node_name", Some("A"));
        check("backups where type='x' and (state='y' or state='z') and node_name='A'", Some("A"));
        check(
            "nodes where node_name in (select node_name from backups where node_name='A')",
            Some("A"),
        );
    }

    #[test]
    fn a_condition_that_may_be_replaced_bounds_nothing() {
        check("backups", None);
        check("backups where node_name='A' or type='DIR'", None);
        check("backups where not node_name='A'", None);
        check("backups where (node_name='A' or type='DIR')", None);
        check("backups b, nodes n where n.node_name='A'", None);
        check("nodes where node_name='A' and 5 < (select count(*) from backups)", None);
        check("backups union select 1 from nodes where node_name='A'", None);
        check("backups where node_name='A' union select 1 from backups", None);
        check("(select * from backups) where node_name='A'", None);
    }
}
