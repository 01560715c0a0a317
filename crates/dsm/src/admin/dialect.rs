//! SELECT of DB2, as scripts for TSM write it, translated into SQL of SQLite.
//!
//! ```text
//!   tokens -> items: operands, signs, words -> lengths of time, ends of rows -> text
//!             (calls of functions are operands, translated from the inside out)
//! ```
//!
//! 1. Present times become constants, so that a statement sees one moment.
//! 2. A time plus or minus a length (`CURRENT_TIMESTAMP - 24 HOURS`) becomes a call of `db2_shift`.
//!    A time minus a time becomes a call of `db2_between`, which is a number of DB2's form
//!    (years, months, days, hours, minutes, seconds) that TIMESTAMPDIFF understands.
//! 3. The functions `db2_...` are those of `database`.
//! 4. A column without a name is called `Unnamed[n]`.
//!
//! Deliberately absent: statements that change anything, and more than one statement.

mod bounds;
mod token;

pub use self::bounds::Bounds;
use self::token::{Token, refusal, tokens};
use super::abbreviation::stands_for;
use super::message::Message;
use super::view::{self, View};

/// Maximum depth of parentheses.
const DEPTH_MAX: usize = 50;

/// A statement for SQLite.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Translation {
    pub sql: String,
    /// Views that the statement names.
    pub views: Vec<&'static str>,
    /// Number of decimals of each column of the result, where the statement says it. An asterisk
    /// ends the list, because its number of columns is not known.
    pub decimals: Vec<Option<u8>>,
    /// Conditions that bound the views.
    pub bounds: Bounds,
}

/// Translates a statement. `now` is the present time as `2026-11-26 15:20:30.000000`.
pub fn translate(statement: &str, now: &str) -> Result<Translation, Message> {
    let mut tokens = tokens(statement)?;
    if let Some(Token::Word(first)) = tokens.first_mut()
        && is_select(first)
    {
        "SELECT".clone_into(first);
    }
    if !tokens.first().is_some_and(|token| token.is("SELECT") || token.is("WITH")) {
        return Err(refusal("it does not begin with SELECT"));
    }
    let mut translation = Translation {
        views: views(&tokens),
        bounds: bounds::find(&tokens),
        ..Translation::default()
    };
    let mut parser = Parser { tokens: &tokens, at: 0, now, views: &translation.views };
    let items = parser.items(0, false)?;
    if parser.at < tokens.len() {
        return Err(refusal("a parenthesis is closed that was not opened"));
    }
    let (items, decimals) = named(items);
    translation.decimals = decimals;
    translation.sql = text(&items);
    Ok(translation)
}

/// Returns true if `word` is SELECT, or an abbreviation of it that is not too short.
pub fn is_select(word: &str) -> bool {
    stands_for(word, "SELect")
}

/// Returns the views that stand where a table can stand.
fn views(tokens: &[Token]) -> Vec<&'static str> {
    let mut found: Vec<&'static View> = Vec::new();
    for pair in tokens.windows(2) {
        let begins = pair[0].is("FROM") || pair[0].is("JOIN") || pair[0] == Token::Sign(",");
        if let (true, Token::Word(name)) = (begins, &pair[1])
            && let Some(view) = view::find(name)
            && !found.iter().any(|known| known.name == view.name)
        {
            found.push(view);
        }
    }
    found.into_iter().map(|view| view.name).collect()
}

/// A part of a statement.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Item {
    Operand {
        sql: String,
        /// True for a time.
        is_time: bool,
        /// Number of decimals, if the operand is cast to a number with decimals.
        decimals: Option<u8>,
        /// True for the name of a column, or an asterisk.
        is_name: bool,
    },
    Sign(&'static str),
    Word(String),
}

impl Item {
    fn operand(sql: String, is_time: bool) -> Self {
        Self::Operand { sql, is_time, decimals: None, is_name: false }
    }

    fn is(&self, word: &str) -> bool {
        matches!(self, Self::Word(own) if own == word)
    }

    fn sql(&self) -> &str {
        match self {
            Self::Operand { sql, .. } | Self::Word(sql) => sql,
            Self::Sign(sign) => sign,
        }
    }

    fn is_time(&self) -> bool {
        matches!(self, Self::Operand { is_time: true, .. })
    }

    fn is_operand(&self) -> bool {
        matches!(self, Self::Operand { .. })
    }
}

fn text(items: &[Item]) -> String {
    items.iter().map(Item::sql).collect::<Vec<_>>().join(" ")
}

/// Words that are no operands.
const KEYWORDS: [&str; 52] = [
    "ALL",
    "AND",
    "AS",
    "ASC",
    "BETWEEN",
    "BY",
    "CASE",
    "CROSS",
    "DESC",
    "DISTINCT",
    "ELSE",
    "END",
    "ESCAPE",
    "EXCEPT",
    "EXISTS",
    "FETCH",
    "FIRST",
    "FOR",
    "FROM",
    "FULL",
    "GROUP",
    "HAVING",
    "IN",
    "INNER",
    "INTERSECT",
    "IS",
    "JOIN",
    "LAST",
    "LEFT",
    "LIKE",
    "LIMIT",
    "NEXT",
    "NOT",
    "NULL",
    "NULLS",
    "OFFSET",
    "ON",
    "ONLY",
    "OR",
    "ORDER",
    "OUTER",
    "OVER",
    "PARTITION",
    "RIGHT",
    "ROW",
    "ROWS",
    "SELECT",
    "THEN",
    "UNION",
    "WHEN",
    "WHERE",
    "WITH",
];
/// Keywords that are also functions, before a parenthesis.
const ALSO_FUNCTIONS: [&str; 2] = ["LEFT", "RIGHT"];

/// Functions of a text and the form of its time.
const TO_TIMES: [&str; 3] = ["TO_DATE", "TIMESTAMP_FORMAT", "TO_TIMESTAMP"];

struct Parser<'a> {
    tokens: &'a [Token],
    at: usize,
    now: &'a str,
    /// Views of the statement.
    views: &'a [&'static str],
}

impl Parser<'_> {
    fn peek(&self, ahead: usize) -> Option<&Token> {
        self.tokens.get(self.at + ahead)
    }

    /// Reads items up to the end, or up to a parenthesis that closes. In a cast, they end before
    /// the word AS.
    fn items(&mut self, depth: usize, is_cast: bool) -> Result<Vec<Item>, Message> {
        if depth > DEPTH_MAX {
            return Err(refusal("its parentheses are too deep"));
        }
        let mut items = Vec::new();
        while let Some(token) = self.tokens.get(self.at) {
            if *token == Token::Sign(")") || (is_cast && token.is("AS")) {
                break;
            }
            self.at += 1;
            let item = match token {
                Token::Text(text) if self.has_form() => Item::operand(literal(text), false),
                Token::Text(text) => Item::operand(literal(&normal_time(text)), false),
                Token::Number(number) => Item::operand(number.clone(), false),
                Token::Quoted(name) => Item::Operand {
                    sql: name.clone(),
                    is_time: false,
                    decimals: None,
                    is_name: true,
                },
                Token::Sign("{") => self.escape()?,
                Token::Sign("(") => self.group(depth)?,
                Token::Sign(sign) => Item::Sign(sign),
                Token::Word(word) => self.word(word, depth)?,
            };
            items.push(item);
        }
        Ok(self.joined(&times(rows(items))))
    }

    /// Rounds the columns that are joined with other texts.
    fn joined(&self, items: &[Item]) -> Vec<Item> {
        let joins = |at: Option<usize>| {
            at.and_then(|at| items.get(at)).is_some_and(|item| *item == Item::Sign("||"))
        };
        let shown = |(at, item): (usize, &Item)| {
            let is_joined = joins(at.checked_sub(1)) || joins(at.checked_add(1));
            if is_joined { self.rounded(item) } else { item.clone() }
        };
        items.iter().enumerate().map(shown).collect()
    }

    /// Returns a column of numbers with decimals as the text that it is in an answer, and any other
    /// item as it is.
    fn rounded(&self, item: &Item) -> Item {
        let Item::Operand { sql, is_name: true, .. } = item else { return item.clone() };
        let column = sql.rsplit('.').next().unwrap_or(sql);
        match view::decimals(column, self.views) {
            Some(decimals) => Item::operand(format!("db2_rounded({sql}, {decimals})"), false),
            None => item.clone(),
        }
    }

    /// Returns true if the form of the text that was read last follows it.
    fn has_form(&self) -> bool {
        let before = self.at.checked_sub(3).map(|begin| &self.tokens[begin..self.at - 1]);
        let Some([Token::Word(name), Token::Sign("(")]) = before else { return false };
        TO_TIMES.contains(&name.as_str())
    }

    fn close(&mut self) -> Result<(), Message> {
        if self.peek(0) != Some(&Token::Sign(")")) {
            return Err(refusal("a parenthesis is not closed"));
        }
        self.at += 1;
        Ok(())
    }

    fn group(&mut self, depth: usize) -> Result<Item, Message> {
        let items = self.items(depth + 1, false)?;
        self.close()?;
        let is_time = matches!(items[..], [Item::Operand { is_time: true, .. }]);
        Ok(Item::operand(format!("( {} )", text(&items)), is_time))
    }

    /// Reads `{ts '2026-11-26 15:20:30'}` after its first sign.
    fn escape(&mut self) -> Result<Item, Message> {
        match (self.peek(0), self.peek(1), self.peek(2)) {
            (Some(Token::Word(_)), Some(Token::Text(text)), Some(Token::Sign("}"))) => {
                let item = Item::operand(literal(&normal_time(text)), true);
                self.at += 3;
                Ok(item)
            }
            _ => Err(refusal("a time in braces is {ts '2026-11-26 15:20:30'}")),
        }
    }

    fn word(&mut self, word: &str, depth: usize) -> Result<Item, Message> {
        let opens = self.peek(0) == Some(&Token::Sign("("));
        let is_keyword = KEYWORDS.contains(&word);
        if opens && (!is_keyword || ALSO_FUNCTIONS.contains(&word)) {
            self.at += 1;
            return self.call(word, depth);
        }
        if is_keyword {
            return Ok(Item::Word(word.to_owned()));
        }
        if let Some(item) = self.present(word) {
            return Ok(item);
        }
        let is_all = word.ends_with('.') && self.peek(0) == Some(&Token::Sign("*"));
        if is_all {
            self.at += 1;
        }
        let sql = if is_all { format!("{word}*") } else { word.to_owned() };
        let column = word.rsplit('.').next().unwrap_or(word);
        Ok(Item::Operand { sql, is_time: view::is_time(column), decimals: None, is_name: true })
    }

    /// Returns the present time that `word` begins, as in `CURRENT TIMESTAMP`.
    fn present(&mut self, word: &str) -> Option<Item> {
        let name = match word.strip_prefix("CURRENT_") {
            Some(name) => name.to_owned(),
            None if word == "CURRENT" => {
                let Some(Token::Word(name)) = self.peek(0) else { return None };
                name.clone()
            }
            None => return None,
        };
        let value = match name.as_str() {
            "TIMESTAMP" => self.now,
            "DATE" => &self.now[..10],
            "TIME" => &self.now[11..19],
            _ => return None,
        };
        let item = Item::operand(literal(value), name != "TIME");
        self.at += usize::from(word == "CURRENT");
        Some(item)
    }

    /// Reads `CAST(value AS type)` after its first parenthesis.
    fn cast(&mut self, depth: usize) -> Result<Item, Message> {
        let value = self.items(depth + 1, true)?;
        let begin = self.at + 1;
        let missing = || refusal("CAST needs a type, as in CAST(x AS INTEGER)");
        let Some(Token::Word(kind)) = self.tokens.get(begin) else { return Err(missing()) };
        // The type may have a length, as in DECIMAL(8, 2).
        let rest = &self.tokens[begin + 1..];
        let opens = rest.first() == Some(&Token::Sign("("));
        let inner = if opens { 1 } else { 0 };
        let end = rest.iter().position(|token| *token == Token::Sign(")")).ok_or_else(missing)?;
        let numbers = rest[inner..end].iter().filter_map(|token| match token {
            Token::Number(number) => number.parse().ok(),
            _ => None,
        });
        let item = cast(&value, kind, &numbers.collect::<Vec<u8>>())?;
        self.at = begin + 1 + end + inner;
        self.close()?;
        Ok(item)
    }

    /// Reads a call after its first parenthesis.
    fn call(&mut self, name: &str, depth: usize) -> Result<Item, Message> {
        if name == "CAST" {
            return self.cast(depth);
        }
        let items = self.items(depth + 1, false)?;
        self.close()?;
        let arguments: Vec<&[Item]> = match items[..] {
            [] => Vec::new(),
            _ => items.split(|item| *item == Item::Sign(",")).collect(),
        };
        let any_time = items.iter().any(Item::is_time);
        let shown = |argument: &&[Item]| match (name, *argument) {
            ("CONCAT", [item]) => self.rounded(item).sql().to_owned(),
            (_, argument) => text(argument),
        };
        let texts: Vec<String> = arguments.iter().map(shown).collect();
        if name == "LISTAGG" {
            return self.listagg(texts, depth);
        }
        Ok(function(name, &texts, any_time))
    }

    /// Translates a call of LISTAGG, with the order of its values if one follows.
    fn listagg(&mut self, mut arguments: Vec<String>, depth: usize) -> Result<Item, Message> {
        if arguments.len() == 1 {
            // SQLite would put commas between the values.
            arguments.push("''".to_owned());
        }
        let all = arguments.join(", ");
        let is = |ahead: usize, word: &str| self.peek(ahead).is_some_and(|token| token.is(word));
        let opens = self.peek(2) == Some(&Token::Sign("("));
        if !(is(0, "WITHIN") && is(1, "GROUP") && opens) {
            return Ok(Item::operand(format!("GROUP_CONCAT({all})"), false));
        }
        self.at += 3;
        let order = self.items(depth + 1, false)?;
        self.close()?;
        Ok(Item::operand(format!("GROUP_CONCAT({all} {})", text(&order)), false))
    }
}

/// Translates a cast to the type `kind` with these lengths.
fn cast(items: &[Item], kind: &str, lengths: &[u8]) -> Result<Item, Message> {
    let value = text(items);
    let is_time = items.iter().any(Item::is_time);
    Ok(match kind {
        "DECIMAL" | "DEC" | "NUMERIC" => decimal(&value, lengths.get(1).copied().unwrap_or(0)),
        "CHAR" | "VARCHAR" | "CHARACTER" => {
            let length = lengths.first().map_or_else(String::new, |length| format!(", {length}"));
            Item::operand(format!("db2_text({value}{length})"), false)
        }
        "DATE" => Item::operand(format!("db2_date({value})"), true),
        "TIME" => Item::operand(format!("db2_time({value})"), false),
        "TIMESTAMP" => Item::operand(format!("db2_timestamp({value})"), true),
        "FLOAT" | "DOUBLE" | "REAL" => Item::operand(format!("CAST({value} AS REAL)"), is_time),
        "INTEGER" | "INT" | "BIGINT" | "SMALLINT" => {
            Item::operand(format!("CAST({value} AS INTEGER)"), false)
        }
        _ => return Err(refusal(&format!("the type {} is not supported", model::printable(kind)))),
    })
}

fn decimal(value: &str, decimals: u8) -> Item {
    Item::Operand {
        sql: format!("db2_decimal({value}, {decimals})"),
        is_time: false,
        decimals: Some(decimals),
        is_name: false,
    }
}

/// Translates the call of a function. A function that is not known stays as it is.
fn function(name: &str, arguments: &[String], any_time: bool) -> Item {
    let all = arguments.join(", ");
    let first = arguments.first().map_or("", String::as_str);
    let (sql, is_time) = match (name, arguments) {
        ("DECIMAL" | "DEC" | "NUMERIC", [value] | [value, _]) => return decimal(value, 0),
        ("DECIMAL" | "DEC" | "NUMERIC", [value, _, decimals]) => {
            return decimal(value, decimals.trim().parse().unwrap_or(0));
        }
        ("FLOAT" | "DOUBLE" | "REAL", [_]) => (format!("CAST({first} AS REAL)"), false),
        ("INTEGER" | "INT" | "BIGINT" | "SMALLINT", [_]) => {
            (format!("CAST({first} AS INTEGER)"), false)
        }
        ("DATE", _) => (format!("db2_date({all})"), true),
        ("TIME", _) => (format!("db2_time({all})"), false),
        ("TIMESTAMP", _) => (format!("db2_timestamp({all})"), true),
        ("CHAR" | "VARCHAR", [value, form]) if day_form(value, form).is_some() => {
            let form = day_form(value, form).unwrap_or_default();
            (format!("db2_format({value}, '{form}')"), false)
        }
        ("TRUNC" | "TRUNCATE", [value]) if any_time => {
            (format!("db2_timestamp(db2_date({value}))"), true)
        }
        ("TRUNC" | "TRUNCATE", [value]) => (format!("db2_decimal({value}, 0)"), false),
        ("TRUNC" | "TRUNCATE", [_, _]) => (format!("db2_decimal({all})"), false),
        ("VARCHAR_FORMAT" | "TO_CHAR", [_, _]) => (format!("db2_format({all})"), false),
        ("VARCHAR_FORMAT" | "TO_CHAR", [_]) => (format!("db2_text({all})"), false),
        ("VALUE" | "IFNULL" | "NVL", _) => (format!("COALESCE({all})"), any_time),
        ("UCASE", _) => (format!("UPPER({all})"), false),
        ("LCASE", _) => (format!("LOWER({all})"), false),
        ("CEILING" | "CEIL", [_]) => (format!("db2_ceiling({all})"), false),
        ("LPAD" | "RPAD", [_, _] | [_, _, _]) => {
            (format!("db2_{}({all})", name.to_ascii_lowercase()), false)
        }
        ("SPACE", [count]) => (format!("db2_repeat(' ', {count})"), false),
        (_, [_, _]) if TO_TIMES.contains(&name) => (format!("db2_to_date({all})"), true),
        ("LAST_DAY", [_]) => (format!("db2_last_day({all})"), true),
        ("DECODE", [_, _, _, ..]) => (decode(arguments), any_time),
        ("STRIP", [value, side, rest @ ..]) => (strip(value, side, rest), false),
        ("STRIP", _) => (format!("TRIM({all})"), false),
        ("CHAR_LENGTH" | "CHARACTER_LENGTH", [_]) => (format!("LENGTH({all})"), false),
        ("GREATEST", [_, _, ..]) => (format!("MAX({all})"), any_time),
        ("LEAST", [_, _, ..]) => (format!("MIN({all})"), any_time),
        ("NVL2", [value, one, other]) => (present(value, one, other), any_time),
        ("ADD_MONTHS", [day, months]) => (months_after(day, months), true),
        ("POSSTR", _) => (format!("INSTR({all})"), false),
        ("LOCATE", [needle, text]) => (format!("INSTR({text}, {needle})"), false),
        ("LEFT", [value, length]) => (format!("SUBSTR({value}, 1, {length})"), false),
        ("RIGHT", [value, length]) => (format!("SUBSTR({value}, -({length}))"), false),
        ("SUBSTRING", _) => (format!("SUBSTR({all})"), false),
        ("CONCAT", [first, second]) => (format!("({first} || {second})"), false),
        ("MOD", [first, second]) => (format!("({first} % {second})"), false),
        ("SECONDS_BETWEEN", [later, earlier]) => (elapsed(2, later, earlier), false),
        ("MINUTES_BETWEEN", [later, earlier]) => (elapsed(4, later, earlier), false),
        ("HOURS_BETWEEN", [later, earlier]) => (elapsed(8, later, earlier), false),
        ("DAYS_BETWEEN", [later, earlier]) => (elapsed(16, later, earlier), false),
        ("MAX" | "MIN" | "COALESCE", _) => (format!("{name}({all})"), any_time),
        (
            "CHAR" | "VARCHAR" | "DAYS" | "YEAR" | "MONTH" | "DAY" | "HOUR" | "MINUTE" | "SECOND"
            | "DAYOFWEEK" | "DAYNAME" | "MONTHNAME" | "MIDNIGHT_SECONDS" | "TIMESTAMPDIFF"
            | "TRANSLATE" | "DIGITS" | "FLOOR" | "REPEAT" | "MICROSECOND" | "DAYOFYEAR" | "WEEK"
            | "WEEK_ISO" | "QUARTER" | "JULIAN_DAY",
            _,
        ) => {
            let name = if matches!(name, "CHAR" | "VARCHAR") { "text" } else { name };
            (format!("db2_{}({all})", name.to_ascii_lowercase()), false)
        }
        _ => (format!("{name}({all})"), false),
    };
    Item::operand(sql, is_time)
}

/// Translates ADD_MONTHS: the last day of a month becomes the last day of a month.
fn months_after(day: &str, months: &str) -> String {
    let shifted = format!("db2_shift({day}, {months}, 'MONTH')");
    format!(
        "CASE WHEN db2_date({day}) = db2_last_day({day}) THEN db2_last_day({shifted}) ELSE \
         {shifted} END"
    )
}

/// Translates NVL2(value, one, other): `one` if there is a value, and otherwise `other`.
fn present(value: &str, one: &str, other: &str) -> String {
    format!("CASE WHEN {value} IS NOT NULL THEN {one} ELSE {other} END")
}

/// Translates STRIP(value, side, letter), where the side is a word such as LEADING, or its first
/// letter.
fn strip(value: &str, side: &str, letter: &[String]) -> String {
    let function = match side {
        "L" | "LEADING" => "LTRIM",
        "T" | "TRAILING" => "RTRIM",
        _ => "TRIM",
    };
    let letter = letter.first().map_or_else(String::new, |letter| format!(", {letter}"));
    format!("{function}({value}{letter})")
}

/// Translates DECODE(value, one, its result, other, its result, ..., result of all others).
fn decode(arguments: &[String]) -> String {
    let (value, rest) = arguments.split_first().expect("has three arguments");
    let pairs = rest.chunks_exact(2);
    let others = pairs.remainder().first().map_or("NULL", String::as_str);
    let cases = pairs.map(|pair| format!("WHEN {value} IS {} THEN {}", pair[0], pair[1]));
    format!("CASE {} ELSE {others} END", cases.collect::<Vec<_>>().join(" "))
}

/// Returns the form of a day, or of a time of the day, that CHAR knows by a word.
fn day_form(value: &str, word: &str) -> Option<&'static str> {
    match (word, value.starts_with("db2_time(")) {
        ("ISO" | "JIS", false) => Some("YYYY-MM-DD"),
        ("USA", false) => Some("MM/DD/YYYY"),
        ("EUR", false) => Some("DD.MM.YYYY"),
        ("ISO" | "EUR", true) => Some("HH24.MI.SS"),
        ("JIS", true) => Some("HH24:MI:SS"),
        ("USA", true) => Some("HH12:MI AM"),
        _ => None,
    }
}

/// Returns the time between two times, in a unit of TIMESTAMPDIFF.
fn elapsed(unit: u8, later: &str, earlier: &str) -> String {
    format!("db2_timestampdiff({unit}, db2_between({later}, {earlier}))")
}

/// Translates the ends of statements: the number of rows, and what only DB2 needs.
fn rows(items: Vec<Item>) -> Vec<Item> {
    let mut kept: Vec<Item> = Vec::with_capacity(items.len());
    let mut at = 0;
    while at < items.len() {
        let rest = &items[at..];
        let is = |ahead: usize, words: &[&str]| {
            rest.get(ahead).is_some_and(|item| words.iter().any(|word| item.is(word)))
        };
        let is_operand = |ahead: usize, words: &[&str]| {
            rest.get(ahead).is_some_and(|item| words.contains(&item.sql()))
        };
        if is(0, &["FETCH"]) && is(1, &["FIRST", "NEXT"]) {
            let has_number = rest.get(2).is_some_and(Item::is_operand);
            let number =
                if has_number { rest[2].clone() } else { Item::operand("1".into(), false) };
            kept.extend([Item::Word("LIMIT".to_owned()), number]);
            // The words ROWS and ONLY follow.
            at += 4 + usize::from(has_number);
        } else if is(0, &["WITH"]) && is_operand(1, &["UR", "CS", "RS", "RR"]) {
            at += 2;
        } else if is(0, &["FOR"]) && is_operand(1, &["READ", "FETCH"]) {
            at += 3;
        } else if is_operand(0, &["OPTIMIZE"]) && is(1, &["FOR"]) {
            at += 4;
        } else if is_operand(0, &["CONCAT"]) {
            kept.push(Item::Sign("||"));
            at += 1;
        } else {
            kept.push(rest[0].clone());
            at += 1;
        }
    }
    kept
}

/// Units of lengths of time.
const UNITS: [&str; 7] = ["YEAR", "MONTH", "DAY", "HOUR", "MINUTE", "SECOND", "MICROSECOND"];

fn unit(item: &Item) -> Option<&'static str> {
    let Item::Operand { sql, is_name: true, .. } = item else { return None };
    let word = sql.strip_suffix('S').unwrap_or(sql);
    UNITS.into_iter().find(|unit| *unit == word)
}

/// Translates sums of times and lengths, and differences of times.
fn times(items: Vec<Item>) -> Vec<Item> {
    let mut kept: Vec<Item> = Vec::with_capacity(items.len());
    let mut at = 0;
    while at < items.len() {
        if let Some(number) = length_in(&items[at], items.get(at + 1)) {
            kept.push(number);
            at += 2;
            continue;
        }
        let sign = match items[at] {
            Item::Sign(sign @ ("+" | "-")) => sign,
            _ => "",
        };
        let length = items.get(at + 1).filter(|item| item.is_operand());
        let of_unit = items.get(at + 2).and_then(unit);
        let left = kept.last().filter(|item| item.is_operand()).cloned();
        let replaced = match (left, length, of_unit) {
            (Some(left), Some(length), Some(unit)) if !sign.is_empty() => {
                let call = format!("db2_shift({}, {sign}({}), '{unit}')", left.sql(), length.sql());
                Some((Item::operand(call, true), 3))
            }
            (Some(left), Some(right), None) if sign == "-" && left.is_time() && right.is_time() => {
                let call = format!("db2_between({}, {})", left.sql(), right.sql());
                Some((Item::operand(call, false), 2))
            }
            _ => None,
        };
        match replaced {
            Some((item, taken)) => {
                kept.pop();
                kept.push(item);
                at += taken;
            }
            None => {
                kept.push(items[at].clone());
                at += 1;
            }
        }
    }
    kept
}

/// Returns the number of whole units in the length between two times, as older scripts write it:
/// `(CURRENT_TIMESTAMP - START_TIME) HOURS`.
fn length_in(item: &Item, next: Option<&Item>) -> Option<Item> {
    // The length must be all that the parentheses hold.
    let inner = item
        .sql()
        .strip_prefix("( db2_between(")
        .and_then(|sql| sql.strip_suffix(") )"));
    let mut depth = 0_i32;
    let is_whole = inner.is_some_and(|inner| {
        inner.chars().all(|letter| {
            depth += i32::from(letter == '(') - i32::from(letter == ')');
            depth >= 0
        })
    });
    if !item.is_operand() || !is_whole {
        return None;
    }
    let code = match unit(next?)? {
        "SECOND" => 2,
        "MINUTE" => 4,
        "HOUR" => 8,
        "DAY" => 16,
        _ => return None,
    };
    Some(Item::operand(format!("db2_timestampdiff({code}, {})", item.sql()), false))
}

/// Gives each column of the result that has no name its name, and returns the decimals of the
/// columns.
fn named(mut items: Vec<Item>) -> (Vec<Item>, Vec<Option<u8>>) {
    let begin = items.iter().position(|item| item.is("SELECT")).map_or(0, |at| at + 1);
    let begin = begin + usize::from(items.get(begin).is_some_and(|item| item.is("DISTINCT")));
    let end = items.iter().position(|item| item.is("FROM")).unwrap_or(items.len()).max(begin);
    let rest = items.split_off(end);
    let list = items.split_off(begin);
    let mut decimals = Vec::new();
    let mut counts = true;
    let columns: Vec<&[Item]> = list.split(|item| *item == Item::Sign(",")).collect();
    for (index, column) in columns.iter().enumerate() {
        if index > 0 {
            items.push(Item::Sign(","));
        }
        items.extend_from_slice(column);
        let is_all = matches!(column, [Item::Sign("*")])
            || matches!(column, [Item::Operand { sql, .. }] if sql.ends_with(".*"));
        counts &= !is_all;
        if counts {
            decimals.push(decimals_of(column));
        }
        if !is_all && !has_name(column) {
            items.push(Item::Word(format!("AS \"Unnamed[{}]\"", index + 1)));
        }
    }
    items.extend(rest);
    (items, decimals)
}

/// Returns the number of decimals of a column of the result: that of its only operand, or the
/// largest one of a sum. A product or a quotient has more decimals than its operands.
fn decimals_of(column: &[Item]) -> Option<u8> {
    let of = |item: &Item| match item {
        Item::Operand { decimals, .. } => *decimals,
        _ => None,
    };
    let mut items = column.iter();
    let mut largest = of(items.next()?)?;
    while let Some(item) = items.next() {
        match item {
            Item::Sign("+" | "-") => {
                let next = items.next()?;
                // A whole number has no decimals.
                let is_whole = next.sql().bytes().all(|byte| byte.is_ascii_digit());
                largest = largest.max(if is_whole { 0 } else { of(next)? });
            }
            // The name of the column is its end.
            Item::Operand { is_name: true, .. } => break,
            Item::Word(word) if word == "AS" => break,
            _ => return None,
        }
    }
    Some(largest)
}

/// Returns true if a column of the result has a name: it is the name of a column, or a name follows
/// it.
fn has_name(column: &[Item]) -> bool {
    let ends_operand = |item: &Item| item.is_operand() || item.is("END") || item.is("AS");
    match column {
        [] => true,
        [Item::Operand { is_name, .. }] => *is_name,
        [.., before, Item::Operand { is_name: true, .. }] => ends_operand(before),
        _ => false,
    }
}

fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

/// Returns a text that is a time of DB2 in the form that times have here: `2026-11-26-15.20.30`,
/// or `11/26/2026`. Any other text stays as it is.
fn normal_time(text: &str) -> String {
    let bytes = text.as_bytes();
    let shape = |form: &str| {
        bytes.len() >= form.len()
            && form.bytes().zip(bytes).all(|(form, byte)| match form {
                b'd' => byte.is_ascii_digit(),
                _ => form == *byte,
            })
    };
    if shape("dddd-dd-dd-dd.dd.dd") {
        let time = text[11..19].replace('.', ":");
        return format!("{} {time}{}", &text[..10], &text[19..]);
    }
    if shape("dd/dd/dddd") && (bytes.len() == 10 || bytes[10] == b' ') {
        return format!("{}-{}-{}{}", &text[6..10], &text[..2], &text[3..5], &text[10..]);
    }
    text.to_owned()
}

#[cfg(test)]
mod tests;
