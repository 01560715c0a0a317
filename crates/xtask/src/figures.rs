//! Figures of the tree, crate by crate, to compare two states of it.
//!
//! | column | meaning |
//! |---|---|
//! | code, comment | lines without the tests; a line with both counts as code |
//! | functions | functions with a body |
//! | median, p95, >70 | lines of code between a function's braces; share of functions above 70 |
//! | asserts | assertions for each function |
//! | tests | lines of code in tests for each line of code outside tests |
//! | circle, circled | modules in the largest circle, and in all circles of more than two |
//! | variants | error enums with more than eight variants |
//! | tuples | signatures with a tuple of more than two values |
//! | comments | comments of one line or more, comments of tests included |
//! | headless | comments that open without a subject |
//! | doubtful | comments that open with how, when, where or whether |
//! | poison | mentions of `PoisonError` |
//! | strings | mentions of `Result<_, String>` |
//!
//! Benchmarks (`benches/`) and build scripts are not counted.

use std::fmt::Write as _;
use std::ops::AddAssign;

use crate::source::{ErrorEnum, Opening, Rooms, SourceFile, Split, Tree, circles, comments};

const FUNCTION_LINES_MAX: usize = 70;
const VARIANTS_MAX: usize = 8;
const CIRCLE_MEMBERS_MAX: usize = 2;
const HEADERS: [&str; 18] = [
    "crate",
    "code",
    "comment",
    "functions",
    "median",
    "p95",
    ">70",
    "asserts",
    "tests",
    "circle",
    "circled",
    "variants",
    "tuples",
    "comments",
    "headless",
    "doubtful",
    "poison",
    "strings",
];

/// Measures each crate of `tree`, and all crates together. Returns a table in text.
pub(crate) fn table(tree: &Tree<'_>) -> String {
    let mut rows = vec![HEADERS.map(str::to_owned)];
    let mut all = Figures::default();
    for folder in tree.crates() {
        let figures = Figures::of_crate(folder, tree);
        rows.push(figures.row(folder.trim_start_matches("crates/")));
        all += figures;
    }
    rows.push(all.row("all"));
    align(&rows)
}

/// Figures of a crate, or of several.
#[derive(Default)]
struct Figures {
    code_lines: usize,
    comment_lines: usize,
    test_lines: usize,
    /// Number of lines of each function.
    functions: Vec<usize>,
    assertions: usize,
    largest_circle: usize,
    circled: usize,
    large_errors: usize,
    tuple_signatures: usize,
    comments: usize,
    headless: usize,
    doubtful: usize,
    poison: usize,
    string_errors: usize,
}

impl Figures {
    fn of_crate(folder: &str, tree: &Tree<'_>) -> Self {
        let rooms = Rooms::of_crate(folder, tree);
        let mut figures = Self::default();
        for circle in circles(&rooms.arrows) {
            let count = circle.members.len();
            figures.largest_circle = figures.largest_circle.max(count);
            figures.circled += if count > CIRCLE_MEMBERS_MAX { count } else { 0 };
        }
        rooms.files.iter().for_each(|file| figures.add(file, tree));
        let tests = format!("{folder}/tests/");
        let is_test = |file: &&SourceFile| {
            file.path.starts_with(&tests) && tree.syntax.contains_key(file.path.as_str())
        };
        let tests = tree.files.iter().filter(is_test);
        for file in rooms.test_files.iter().copied().chain(tests) {
            let split = Split::new(&file.text);
            figures.test_lines += Kinds::of(file, &split).code.iter().filter(|&&is| is).count();
            figures.add_comments(&split);
        }
        figures
    }

    /// Adds the figures of a source file, including the figures of its tests.
    fn add(&mut self, file: &SourceFile, tree: &Tree<'_>) {
        let Some(syntax) = tree.syntax.get(file.path.as_str()) else { return };
        let split = Split::new(&file.text);
        let kinds = Kinds::of(file, &split);
        let is_of_test = |number: usize| syntax.test_lines.iter().any(|own| own.contains(&number));
        let lines = kinds.code.iter().zip(&kinds.comment).enumerate();
        for (index, (&is_code, &is_comment)) in lines {
            let is_of_test = is_of_test(index + 1);
            self.code_lines += usize::from(is_code && !is_of_test);
            self.test_lines += usize::from(is_code && is_of_test);
            self.comment_lines += usize::from(is_comment && !is_of_test);
        }
        self.functions.extend(syntax.functions.iter().map(|lines| {
            // The lines with the braces do not count, but every function has at least one line.
            let body = kinds.code.get(*lines.start()..lines.end().saturating_sub(1));
            body.map_or(0, |body| body.iter().filter(|&&is| is).count()).max(1)
        }));
        self.assertions += syntax.assertion_count;
        let is_large = |error: &&ErrorEnum| error.variant_count > VARIANTS_MAX;
        self.large_errors += syntax.errors.iter().filter(is_large).count();
        self.tuple_signatures += syntax.tuple_signature_count;
        self.string_errors += syntax.string_error_count;
        self.poison += split.code.matches("PoisonError").count();
        self.add_comments(&split);
    }

    fn add_comments(&mut self, split: &Split) {
        for comment in comments(split) {
            self.comments += 1;
            match comment.opening {
                Opening::Headless(_) => self.headless += 1,
                Opening::Doubtful => self.doubtful += 1,
                Opening::Sound => {}
            }
        }
    }

    fn row(&self, name: &str) -> [String; HEADERS.len()] {
        let mut functions = self.functions.clone();
        functions.sort_unstable();
        let long = functions.iter().filter(|&&lines| lines > FUNCTION_LINES_MAX).count();
        [
            name.to_owned(),
            self.code_lines.to_string(),
            self.comment_lines.to_string(),
            functions.len().to_string(),
            percentile(&functions, 50).to_string(),
            percentile(&functions, 95).to_string(),
            format!("{:.1} %", 100.0 * ratio(long, functions.len())),
            format!("{:.3}", ratio(self.assertions, functions.len())),
            format!("{:.2}", ratio(self.test_lines, self.code_lines)),
            self.largest_circle.to_string(),
            self.circled.to_string(),
            self.large_errors.to_string(),
            self.tuple_signatures.to_string(),
            self.comments.to_string(),
            self.headless.to_string(),
            self.doubtful.to_string(),
            self.poison.to_string(),
            self.string_errors.to_string(),
        ]
    }
}

impl AddAssign for Figures {
    fn add_assign(&mut self, other: Self) {
        self.code_lines += other.code_lines;
        self.comment_lines += other.comment_lines;
        self.test_lines += other.test_lines;
        self.functions.extend(other.functions);
        self.assertions += other.assertions;
        self.largest_circle = self.largest_circle.max(other.largest_circle);
        self.circled += other.circled;
        self.large_errors += other.large_errors;
        self.tuple_signatures += other.tuple_signatures;
        self.comments += other.comments;
        self.headless += other.headless;
        self.doubtful += other.doubtful;
        self.poison += other.poison;
        self.string_errors += other.string_errors;
    }
}

/// Kinds of the lines of a file. The vectors have an entry for each line.
struct Kinds {
    code: Vec<bool>,
    comment: Vec<bool>,
}

impl Kinds {
    fn of(file: &SourceFile, split: &Split) -> Self {
        let is_blank = |line: &str| line.trim().is_empty();
        let mut kinds = Self { code: Vec::new(), comment: Vec::new() };
        let parts = split.code.lines().zip(split.comments.lines());
        for (line, (code, comment)) in file.text.lines().zip(parts) {
            // A line inside a literal is blank in both parts, and counts as code.
            let is_comment = is_blank(code) && !is_blank(comment);
            kinds.code.push(!is_blank(line) && !is_comment);
            kinds.comment.push(is_comment);
        }
        kinds
    }
}

/// Returns the smallest value of `sorted` that at least `percent` % of the values do not exceed; 0
/// if there are no values.
fn percentile(sorted: &[usize], percent: usize) -> usize {
    let rank = (sorted.len() * percent).div_ceil(100);
    sorted.get(rank.saturating_sub(1)).copied().unwrap_or(0)
}

fn ratio(part: usize, whole: usize) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

/// Returns `rows` as text in columns of equal width. The first column is left-aligned, the others
/// are right-aligned.
fn align<const N: usize>(rows: &[[String; N]]) -> String {
    let mut text = String::new();
    let width = |column: usize| rows.iter().map(|row| row[column].len()).max().unwrap_or(0);
    for row in rows {
        let mut line = format!("{:<1$}", row[0], width(0));
        for (column, cell) in row.iter().enumerate().skip(1) {
            write!(line, "  {cell:>0$}", width(column)).expect("writing to a string does not fail");
        }
        text += line.trim_end();
        text.push('\n');
    }
    text.pop();
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, text: &str) -> SourceFile {
        SourceFile { path: path.to_owned(), text: text.to_owned() }
    }

    /// Checks cells in the row of the crate `a`; `expected` has them with their headers.
    #[track_caller]
    fn check(files: &[SourceFile], expected: &[(&str, &str)]) {
        let tree = Tree::parse(files);
        let row = Figures::of_crate("crates/a", &tree).row("a");
        for (header, cell) in expected {
            let column = HEADERS.iter().position(|known| known == header).expect("a header");
            assert_eq!(row[column], *cell, "{header}");
        }
    }

    #[test]
    fn lines_are_counted_apart_from_those_of_tests() {
        let source = "//! A.\n\nfn f() {\n    // B.\n    g(); // C.\n    \"\n// D.\n\"\n}\n\n\
                      #[cfg(test)]\nmod tests {\n    // E.\n    fn h() {}\n}\n\
                      #[cfg(test)]\nmod t;\n";
        let files = [
            file("crates/a/src/lib.rs", source),
            file("crates/a/src/t.rs", "fn i() {}\n\n// F.\n"),
            file("crates/a/tests/it/main.rs", "fn j() {\n}\n"),
        ];
        // Code outside tests: two lines with braces, one with a call, and a literal of three lines.
        // Code in tests: 4 + 2 lines in lib.rs, 1 in t.rs, and 2 in main.rs.
        check(&files, &[("code", "6"), ("comment", "2"), ("tests", "1.50"), ("functions", "1")]);
        check(&files, &[("comments", "5")]);
    }

    #[test]
    fn functions_are_measured_between_their_braces() {
        let body = |lines: usize| format!("fn f{lines}() {{\n{}}}\n", "    g();\n".repeat(lines));
        let text = [1, 2, 3, 71].map(body).concat() + "fn short() { g() }\n// A.\n";
        let expected = [("functions", "5"), ("median", "2"), ("p95", "71"), (">70", "20.0 %")];
        check(&[file("crates/a/src/lib.rs", &text)], &expected);
    }

    #[test]
    fn assertions_are_told_by_function() {
        let text = "fn f() { assert!(a); }\nfn g() { debug_assert!(b); }\nfn h() {}\nfn i() {}\n";
        check(&[file("crates/a/src/lib.rs", text)], &[("asserts", "0.500")]);
    }

    #[test]
    fn faults_of_form_are_counted() {
        let variants = "A, B, C, D, E, F, G, H, I";
        let text = format!(
            "/// What it is.\nenum AError {{ {variants} }}\n/// How.\n\
             fn f() -> Result<(u8, u8, u8), String> {{ PoisonError::into_inner }}\n"
        );
        let expected = [
            ("variants", "1"),
            ("tuples", "1"),
            ("comments", "2"),
            ("headless", "1"),
            ("doubtful", "1"),
            ("poison", "1"),
            ("strings", "1"),
        ];
        check(&[file("crates/a/src/lib.rs", &text)], &expected);
    }

    #[test]
    fn pairs_are_no_large_circles() {
        let files = [
            file("crates/a/src/lib.rs", "mod b;\nmod c;"),
            file("crates/a/src/b.rs", "pub struct B(super::c::C);"),
            file("crates/a/src/c.rs", "pub struct C(super::b::B);"),
        ];
        check(&files, &[("circle", "2"), ("circled", "0")]);
    }

    #[test]
    fn percentiles_of_few_numbers_are_among_them() {
        assert_eq!([50, 95, 100].map(|percent| percentile(&[1, 2, 3, 4], percent)), [2, 4, 4]);
        assert_eq!(percentile(&[], 50), 0);
    }

    #[test]
    fn columns_are_aligned() {
        let rows = [["crate", "code"], ["a", "7"]].map(|row| row.map(str::to_owned));
        assert_eq!(align(&rows), "crate  code\na         7");
    }

    #[test]
    fn every_crate_has_a_row_and_all_together_have_one() {
        let files = [file("crates/a/Cargo.toml", ""), file("crates/b/Cargo.toml", "")];
        let table = table(&Tree::parse(&files));
        let names: Vec<_> =
            table.lines().filter_map(|line| line.split_whitespace().next()).collect();
        assert_eq!(names, ["crate", "a", "b", "all"]);
    }
}
