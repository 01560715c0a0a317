//! The syntax of a source file without its tests: the names and paths of its modules, its functions
//! and its types.
//!
//! Code is parsed, but macros are not expanded. The tokens that a macro is called with are searched
//! for paths and assertions. A method call contains no path. So a module that only calls methods of
//! a value has no arrow to the module that defines the type of the value.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;

use proc_macro2::{Span, TokenStream, TokenTree};
use syn::spanned::Spanned as _;
use syn::visit::{self, Visit};

/// Names of the macros that assert.
const ASSERTIONS: [&str; 6] =
    ["assert", "assert_eq", "assert_ne", "debug_assert", "debug_assert_eq", "debug_assert_ne"];

/// A source file, parsed.
#[derive(Default)]
pub(crate) struct Syntax {
    /// The file's own module, then its inline modules.
    pub(crate) scopes: Vec<Scope>,
    pub(crate) functions: Vec<Lines>,
    pub(crate) errors: Vec<ErrorEnum>,
    pub(crate) assertion_count: usize,
    /// Number of signatures with a tuple of more than two values.
    pub(crate) tuple_signature_count: usize,
    /// Number of mentions of `Result<_, String>`.
    pub(crate) string_error_count: usize,
    /// Lines of the items that are compiled only for tests.
    pub(crate) test_lines: Vec<Lines>,
}

/// Range of the lines of an item, counted from 1.
pub(crate) type Lines = RangeInclusive<usize>;

/// An enum that is an error type.
pub(crate) struct ErrorEnum {
    pub(crate) variant_count: usize,
}

/// The names and paths of a module.
#[derive(Default)]
pub(crate) struct Scope {
    /// Names of the inline modules from the file's own module down to this module.
    pub(crate) inline: Vec<String>,
    /// Names of the items that the module defines.
    pub(crate) items: BTreeSet<String>,
    pub(crate) children: Vec<Child>,
    pub(crate) imports: Vec<Import>,
    pub(crate) paths: Vec<UsedPath>,
}

/// A module that has a file of its own.
pub(crate) struct Child {
    pub(crate) name: String,
    pub(crate) is_test: bool,
}

/// A name that a `use` declaration brings in.
pub(crate) struct Import {
    pub(crate) path: UsedPath,
    /// Name that the path brings in; `None` for all names of the module `path`.
    pub(crate) name: Option<String>,
    /// True for a re-export.
    pub(crate) is_public: bool,
}

/// A path in code.
#[derive(Clone)]
pub(crate) struct UsedPath {
    pub(crate) segments: Vec<String>,
    pub(crate) line: usize,
    /// True for the name of a called macro.
    pub(crate) is_macro: bool,
}

impl Syntax {
    /// Parses `text`; `None` if it is not Rust.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let file = syn::parse_file(text).ok()?;
        let mut collector = Collector::default();
        collector.syntax.scopes.push(Scope::default());
        collector.visit_file(&file);
        Some(collector.syntax)
    }
}

#[derive(Default)]
struct Collector {
    syntax: Syntax,
    /// Index in `scopes` of the module that is being visited.
    scope: usize,
}

impl Collector {
    fn scope(&mut self) -> &mut Scope {
        &mut self.syntax.scopes[self.scope]
    }

    /// Returns true if the item is compiled only for tests, and notes its lines.
    fn is_test(&mut self, attributes: &[syn::Attribute], span: Span) -> bool {
        let is_test = attributes.iter().any(is_of_tests);
        if is_test {
            self.syntax.test_lines.push(lines(span));
        }
        is_test
    }

    fn signature(&mut self, signature: &syn::Signature) {
        let mut tuples = TupleSearch { is_found: false };
        tuples.visit_signature(signature);
        self.syntax.tuple_signature_count += usize::from(tuples.is_found);
    }

    fn tokens(&mut self, tokens: TokenStream) {
        let mut path = TokenPath::default();
        for token in tokens {
            if let TokenTree::Group(group) = &token {
                self.tokens(group.stream());
            }
            if let Some(ended) = path.push(&token) {
                self.token_path(ended);
            }
        }
        self.token_path(std::mem::take(&mut path));
    }

    fn token_path(&mut self, path: TokenPath) {
        let Some(last) = path.segments.last() else { return };
        self.syntax.assertion_count +=
            usize::from(path.is_macro && ASSERTIONS.contains(&last.as_str()));
        // A single word in lower case may be the name of a field or of a label, so it is no path.
        if path.segments.len() > 1 || path.is_macro || last.starts_with(char::is_uppercase) {
            let TokenPath { segments, line, is_macro, .. } = path;
            self.scope().paths.push(UsedPath { segments, line, is_macro });
        }
    }
}

impl<'ast> Visit<'ast> for Collector {
    fn visit_item(&mut self, item: &'ast syn::Item) {
        if self.is_test(item_attributes(item), item.span()) {
            if let syn::Item::Mod(module) = item
                && module.content.is_none()
            {
                self.scope().children.push(Child { name: bare(&module.ident), is_test: true });
            }
            return;
        }
        if let Some(name) = item_name(item) {
            self.scope().items.insert(name);
        }
        visit::visit_item(self, item);
    }

    fn visit_impl_item_fn(&mut self, function: &'ast syn::ImplItemFn) {
        if !self.is_test(&function.attrs, function.span()) {
            self.syntax.functions.push(lines(function.block.span()));
            self.signature(&function.sig);
            visit::visit_impl_item_fn(self, function);
        }
    }

    fn visit_item_fn(&mut self, function: &'ast syn::ItemFn) {
        self.syntax.functions.push(lines(function.block.span()));
        self.signature(&function.sig);
        visit::visit_item_fn(self, function);
    }

    fn visit_trait_item_fn(&mut self, function: &'ast syn::TraitItemFn) {
        if let Some(block) = &function.default {
            self.syntax.functions.push(lines(block.span()));
        }
        self.signature(&function.sig);
        visit::visit_trait_item_fn(self, function);
    }

    fn visit_item_enum(&mut self, item: &'ast syn::ItemEnum) {
        let derives_error = item.attrs.iter().any(|attribute| {
            attribute.path().is_ident("derive")
                && words(&attribute.meta).iter().any(|word| word == "Error")
        });
        if derives_error || item.ident.to_string().ends_with("Error") {
            self.syntax.errors.push(ErrorEnum { variant_count: item.variants.len() });
        }
        visit::visit_item_enum(self, item);
    }

    fn visit_item_mod(&mut self, module: &'ast syn::ItemMod) {
        let name = bare(&module.ident);
        let Some((_, items)) = &module.content else {
            self.scope().children.push(Child { name, is_test: false });
            return;
        };
        let outer = self.scope;
        let inline = [self.scope().inline.clone(), vec![name]].concat();
        self.syntax.scopes.push(Scope { inline, ..Scope::default() });
        self.scope = self.syntax.scopes.len() - 1;
        items.iter().for_each(|item| self.visit_item(item));
        self.scope = outer;
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        let is_public = !matches!(item.vis, syn::Visibility::Inherited);
        let mut imports = Vec::new();
        flatten(&item.tree, &mut Vec::new(), &mut imports);
        let line = item.span().start().line;
        self.scope().imports.extend(imports.into_iter().map(|leaf| Import {
            path: UsedPath { segments: leaf.segments, line, is_macro: false },
            name: leaf.name,
            is_public,
        }));
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let segments = path.segments.iter().map(|segment| bare(&segment.ident)).collect();
        let line = path.span().start().line;
        self.scope().paths.push(UsedPath { segments, line, is_macro: false });
        if path.segments.last().is_some_and(is_result_of_string) {
            self.syntax.string_error_count += 1;
        }
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, call: &'ast syn::Macro) {
        let segments: Vec<String> =
            call.path.segments.iter().map(|segment| bare(&segment.ident)).collect();
        let last = segments.last().map_or("", String::as_str);
        self.syntax.assertion_count += usize::from(ASSERTIONS.contains(&last));
        let line = call.path.span().start().line;
        self.scope().paths.push(UsedPath { segments, line, is_macro: true });
        self.tokens(call.tokens.clone());
    }

    // A path in an attribute or a visibility does not count as a use of its module.
    fn visit_attribute(&mut self, _: &'ast syn::Attribute) {}

    fn visit_visibility(&mut self, _: &'ast syn::Visibility) {}
}

/// The part of a path that was read so far from the tokens of a macro's call.
#[derive(Default)]
struct TokenPath {
    segments: Vec<String>,
    line: usize,
    /// Number of colons since the last segment.
    colon_count: usize,
    is_macro: bool,
}

impl TokenPath {
    /// Takes the next token. Returns the path that ends at this token.
    fn push(&mut self, token: &TokenTree) -> Option<Self> {
        match token {
            TokenTree::Ident(word) if self.segments.is_empty() || self.colon_count == 2 => {
                if self.segments.is_empty() {
                    self.line = word.span().start().line;
                }
                self.segments.push(bare(word));
                self.colon_count = 0;
                None
            }
            TokenTree::Ident(word) => {
                let next = Self {
                    segments: vec![bare(word)],
                    line: word.span().start().line,
                    ..Self::default()
                };
                Some(std::mem::replace(self, next))
            }
            TokenTree::Punct(mark) if mark.as_char() == ':' && self.colon_count < 2 => {
                self.colon_count += 1;
                None
            }
            TokenTree::Punct(mark) if mark.as_char() == '!' && self.colon_count == 0 => {
                self.is_macro = true;
                Some(std::mem::take(self))
            }
            _ => Some(std::mem::take(self)),
        }
    }
}

struct TupleSearch {
    is_found: bool,
}

impl<'ast> Visit<'ast> for TupleSearch {
    fn visit_type_tuple(&mut self, tuple: &'ast syn::TypeTuple) {
        self.is_found |= tuple.elems.len() > 2;
        visit::visit_type_tuple(self, tuple);
    }
}

/// One name of a tree of imports.
struct Leaf {
    segments: Vec<String>,
    name: Option<String>,
}

fn flatten(tree: &syn::UseTree, before: &mut Vec<String>, leaves: &mut Vec<Leaf>) {
    let leaf = |last: Option<&syn::Ident>, name: Option<String>| {
        // `a::{self}` stands for `a`.
        let last = last.map(bare).filter(|last| last != "self" || before.is_empty());
        Leaf { segments: before.iter().cloned().chain(last).collect(), name }
    };
    match tree {
        syn::UseTree::Path(path) => {
            before.push(bare(&path.ident));
            flatten(&path.tree, before, leaves);
            before.pop();
        }
        syn::UseTree::Group(group) => {
            group.items.iter().for_each(|tree| flatten(tree, before, leaves));
        }
        syn::UseTree::Glob(_) => leaves.push(leaf(None, None)),
        syn::UseTree::Rename(rename) => {
            leaves.push(leaf(Some(&rename.ident), Some(bare(&rename.rename))));
        }
        syn::UseTree::Name(name) => {
            let leaf = leaf(Some(&name.ident), None);
            let bound = leaf.segments.last().cloned();
            leaves.push(Leaf { name: bound, ..leaf });
        }
    }
}

fn lines(span: Span) -> Lines {
    span.start().line..=span.end().line
}

/// Returns the word without the prefix `r#` of a raw identifier.
fn bare(word: &syn::Ident) -> String {
    word.to_string().trim_start_matches("r#").to_owned()
}

fn is_result_of_string(segment: &syn::PathSegment) -> bool {
    let syn::PathArguments::AngleBracketed(arguments) = &segment.arguments else { return false };
    let error = arguments.args.iter().nth(1);
    let Some(syn::GenericArgument::Type(syn::Type::Path(error))) = error else { return false };
    segment.ident == "Result" && error.path.is_ident("String")
}

/// Returns true for `#[test]` and for `#[cfg(test)]`, alone or with other conditions that must hold
/// too.
fn is_of_tests(attribute: &syn::Attribute) -> bool {
    let words = words(&attribute.meta);
    let [first, rest @ ..] = words.as_slice() else { return false };
    match first.as_str() {
        "test" => true,
        "cfg" => match rest {
            [first, ..] if first == "test" => true,
            [first, rest @ ..] if first == "all" => {
                rest.contains(&"test".to_owned()) && !rest.contains(&"not".to_owned())
            }
            _ => false,
        },
        _ => false,
    }
}

/// Returns all words of an attribute, in order.
fn words(meta: &syn::Meta) -> Vec<String> {
    fn collect(tokens: TokenStream, words: &mut Vec<String>) {
        for token in tokens {
            match token {
                TokenTree::Ident(word) => words.push(word.to_string()),
                TokenTree::Group(group) => collect(group.stream(), words),
                _ => {}
            }
        }
    }
    let mut words: Vec<String> =
        meta.path().segments.last().map(|s| bare(&s.ident)).into_iter().collect();
    if let syn::Meta::List(list) = meta {
        collect(list.tokens.clone(), &mut words);
    }
    words
}

fn item_attributes(item: &syn::Item) -> &[syn::Attribute] {
    match item {
        syn::Item::Const(item) => &item.attrs,
        syn::Item::Enum(item) => &item.attrs,
        syn::Item::Fn(item) => &item.attrs,
        syn::Item::Impl(item) => &item.attrs,
        syn::Item::Macro(item) => &item.attrs,
        syn::Item::Mod(item) => &item.attrs,
        syn::Item::Static(item) => &item.attrs,
        syn::Item::Struct(item) => &item.attrs,
        syn::Item::Trait(item) => &item.attrs,
        syn::Item::Type(item) => &item.attrs,
        syn::Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

fn item_name(item: &syn::Item) -> Option<String> {
    let name = match item {
        syn::Item::Const(item) => &item.ident,
        syn::Item::Enum(item) => &item.ident,
        syn::Item::Fn(item) => &item.sig.ident,
        syn::Item::Macro(item) => item.ident.as_ref()?,
        syn::Item::Static(item) => &item.ident,
        syn::Item::Struct(item) => &item.ident,
        syn::Item::Trait(item) => &item.ident,
        syn::Item::Type(item) => &item.ident,
        _ => return None,
    };
    Some(bare(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Syntax {
        Syntax::parse(text).expect("is Rust")
    }

    /// Checks the paths of the file's own module; `expected` has the imports first.
    #[track_caller]
    fn check_paths(text: &str, expected: &[&str]) {
        let syntax = parse(text);
        let scope = &syntax.scopes[0];
        let imports = scope.imports.iter().map(|import| {
            let name = import.name.as_deref().unwrap_or("*");
            format!("{} as {name}", import.path.segments.join("::"))
        });
        let paths = scope.paths.iter().map(|path| path.segments.join("::"));
        assert_eq!(imports.chain(paths).collect::<Vec<_>>(), expected, "{text}");
    }

    #[test]
    fn imports_are_flattened() {
        check_paths(
            "use a::{self, b::{C, D as E}, f::*};",
            &["a as a", "a::b::C as C", "a::b::D as E", "a::f as *"],
        );
        check_paths("pub(crate) use super::x;", &["super::x as x"]);
    }

    #[test]
    fn paths_are_found_in_code_and_in_calls_of_macros() {
        check_paths("const A: b::C = d::e(F);", &["b::C", "d::e", "F"]);
        check_paths("const A: u8 = m!(x, b::C { y }, D);", &["u8", "m", "b::C", "D"]);
        check_paths("const A: u8 = m!(n!(a::b));", &["u8", "m", "n", "a::b"]);
    }

    #[test]
    fn comments_literals_and_tests_hold_no_paths() {
        check_paths(
            "// a::B\nconst A: &str = \"c::D\";\n#[cfg(test)]\nmod t { use e::F; }",
            &["str"],
        );
        check_paths("#[test]\nfn f() { a::b() }", &[]);
        check_paths("#[cfg(all(test, unix))]\nuse a::b;", &[]);
        check_paths("#[cfg(not(test))]\nuse a::b;", &["a::b as b"]);
    }

    #[test]
    fn modules_are_told_by_where_they_lie() {
        let syntax = parse("mod a;\n#[cfg(test)]\nmod b;\nmod c { struct D; mod e {} }\nstruct F;");
        let children: Vec<_> = syntax.scopes[0]
            .children
            .iter()
            .map(|child| (&*child.name, child.is_test))
            .collect();
        assert_eq!(children, [("a", false), ("b", true)]);
        let inline: Vec<_> = syntax.scopes.iter().map(|scope| scope.inline.join("::")).collect();
        assert_eq!(inline, ["", "c", "c::e"]);
        assert!(syntax.scopes[1].items.contains("D") && syntax.scopes[0].items.contains("F"));
    }

    #[test]
    fn functions_have_their_lines_without_those_of_tests() {
        let syntax = parse(
            "fn a() {\n}\nimpl B {\n fn c() {}\n}\ntrait D { fn e(); fn f() {} }\n\
                    #[test]\nfn g() {}\n",
        );
        assert_eq!(syntax.functions, [1..=2, 4..=4, 6..=6]);
        assert_eq!(syntax.test_lines, [7..=8]);
    }

    #[test]
    fn assertions_are_counted_outside_of_tests() {
        let text = "fn a() { assert!(b); debug_assert_eq!(c, d); m!(assert!(e)); }\n\
                    const _: () = assert!(F);\n#[cfg(test)]\nmod t { fn g() { assert!(h) } }";
        assert_eq!(parse(text).assertion_count, 4);
    }

    #[test]
    fn tuples_of_more_than_two_values_are_counted_by_signature() {
        let text = "fn a(b: (u8, u8, u8)) -> Vec<(u8, u8, u8)> {}\nfn c() -> (u8, u8) {}\n\
                    fn d(e: impl Fn(u8, u8, u8)) {}\ntrait F { fn g(h: &[(u8, u8, u8)]); }";
        assert_eq!(parse(text).tuple_signature_count, 2);
    }

    #[test]
    fn errors_are_told_by_their_name_or_derived() {
        let syntax = parse(
            "enum AError { B, C }\n#[derive(Debug, thiserror::Error)]\nenum D { E }\nenum F { G }",
        );
        let counts: Vec<_> = syntax.errors.iter().map(|error| error.variant_count).collect();
        assert_eq!(counts, [2, 1]);
    }

    #[test]
    fn results_with_text_for_an_error_are_counted() {
        let text = "fn a() -> Result<u8, String> {}\nfn b() -> Result<String, C> {}\n\
                    type D = Result<(), String>;";
        assert_eq!(parse(text).string_error_count, 2);
    }

    #[test]
    fn text_that_is_no_rust_is_not_parsed() {
        assert!(Syntax::parse("fn {").is_none());
    }
}
