//! Tests of patterns by example, against a naive matcher, and with hostile input.

use proptest::prelude::*;

use super::*;

#[track_caller]
fn check(pattern: &[u8], matching: &[&[u8]], other: &[&[u8]]) {
    let pattern = Pattern::parse(pattern).expect("parses");
    for path in matching {
        assert!(pattern.matches(path), "{pattern} on {}", model::escaped(path));
    }
    for path in other {
        assert!(!pattern.matches(path), "{pattern} on {}", model::escaped(path));
    }
}

#[test]
fn a_plain_path_matches_itself() {
    check(b"/etc/passwd", &[b"/etc/passwd"], &[b"/etc/passwd-", b"/etc", b"/x/etc/passwd"]);
    check(b"/etc", &[b"/etc", b"/etc/"], &[b"/etc/x", b"/", b"", b"etc"]);
    check(b"//etc///passwd", &[b"/etc/passwd"], &[b"/etc"]);
}

#[test]
fn a_star_stays_within_its_component() {
    check(b"/a/*", &[b"/a/b", b"/a/.hidden"], &[b"/a/b/c", b"/a", b"/b/a"]);
    check(b"/a/*.c", &[b"/a/x.c", b"/a/.c"], &[b"/a/x.h", b"/a/b/x.c"]);
    check(b"/*/x*y**z", &[b"/q/xyz", b"/q/x1y2z", b"/q/xyzyz"], &[b"/q/xy", b"/xyz"]);
    check(b"/*.*", &[b"/a.b", b"/."], &[b"/ab"]);
}

#[test]
fn dots_are_any_number_of_whole_directories() {
    check(b"/a/.../x", &[b"/a/x", b"/a/b/x", b"/a/b/c/x"], &[b"/a/bx", b"/x", b"/a/x/y"]);
    check(b"/.../*.o", &[b"/x.o", b"/a/b/x.o"], &[b"/x.o/y"]);
    check(b"/.../b/.../c", &[b"/b/c", b"/a/b/x/b/y/c"], &[b"/a/c", b"/c"]);
    check(b"/a...b/c", &[b"/a...b/c"], &[b"/a/b/c", b"/axb/c"]);
    check(b"/\\.../c", &[b"/.../c"], &[b"/a/c", b"/c"]);
}

#[test]
fn a_pattern_without_slash_is_for_every_depth() {
    check(b"*.o", &[b"/x.o", b"/a/b/x.o"], &[b"/x.o/y", b"/", b"x.o"]);
    check(b"cache/", &[b"/cache", b"/var/cache/"], &[b"/cache/x"]);
}

#[test]
fn a_question_mark_is_one_character() {
    check(b"/?", &[b"/a", "/\u{e9}".as_bytes(), "/\u{1f600}".as_bytes()], &[b"/ab", b"/"]);
    check(b"/??", &[b"/ab", b"/\xff\xfe", b"/\xc3a"], &["/\u{e9}".as_bytes(), b"/a"]);
    // Each stray byte counts as one character, even if it looks like the start of a longer
    // character.
    check(b"/???", &[b"/\xf0\x9f\x98", b"/\xed\xa0\x80"], &["/\u{1f600}".as_bytes()]);
}

#[test]
fn classes_hold_ranges_and_single_characters() {
    check(b"/[a-cx]", &[b"/a", b"/c", b"/x"], &[b"/d", b"/-", b"/ab"]);
    check(b"/[-a]", &[b"/-", b"/a"], &[b"/b"]);
    check(b"/[a-]", &[b"/-", b"/a"], &[b"/b"]);
    check(b"/[\\]\\-]", &[b"/]", b"/-"], &[b"/\\"]);
    check("/[\u{e0}-\u{e9}]".as_bytes(), &["/\u{e5}".as_bytes()], &[b"/e", b"/\xe5"]);
    check(b"/[\xfe-\xff]", &[b"/\xff"], &[b"/\xfd"]);
}

#[test]
fn a_backslash_takes_the_meaning_away() {
    check(b"/\\*\\?\\[\\\\", &[b"/*?[\\"], &[b"/aa[\\"]);
    check(b"/\\a", &[b"/a"], &[b"/\\a"]);
    check(b"/a]b", &[b"/a]b"], &[b"/ab"]);
}

#[test]
fn what_cannot_match_is_refused() {
    for (text, error) in [
        (&b""[..], PatternError::Empty),
        (b"/", PatternError::Empty),
        (b"//", PatternError::Empty),
        (b"a/b", PatternError::Relative),
        (b".../b", PatternError::Relative),
        (b"...", PatternError::EndsInDirectories),
        (b"/a/...", PatternError::EndsInDirectories),
        (b"/a/.../", PatternError::EndsInDirectories),
        (b"/[a", PatternError::Class),
        (b"/[]", PatternError::Class),
        (b"/[b-a]", PatternError::Class),
        (b"/[!a]", PatternError::Class),
        (b"/[^a]", PatternError::Class),
        (b"/[a/b]", PatternError::Class),
        (b"/a\\", PatternError::Escape),
        (b"/a\\/b", PatternError::Escape),
        (&[b'a'; PATTERN_BYTES_MAX + 1], PatternError::TooLong),
    ] {
        assert_eq!(Pattern::parse(text), Err(error), "{}", model::escaped(text));
    }
    assert!(Pattern::parse(&[b'a'; PATTERN_BYTES_MAX]).is_ok());
}

#[test]
fn patterns_show_as_they_were_written() {
    let pattern = Pattern::parse(b"/a//[b]\xff/").expect("parses");
    assert_eq!(pattern.as_bytes(), b"/a//[b]\xff/");
    assert_eq!(pattern.to_string(), "/a//[b]\\xff/");
    assert!(pattern.directories_only());
}

/// A matcher that tries every split of every run would practically never end here.
#[test]
fn hostile_patterns_cost_no_more_than_length_by_length() {
    let refuses = |pattern: &[&[u8]], path: &[&[u8]]| {
        let pattern = Pattern::parse(&pattern.concat()).expect("parses");
        assert!(!pattern.matches(&path.concat()));
    };
    refuses(&[b"/", &b"*a".repeat(2000), b"b"], &[b"/", &b"a".repeat(50_000)]);
    refuses(&[&b"/.../a".repeat(680), b"/b/c"], &[&b"/a".repeat(20_000), b"/c"]);
    refuses(&[&b"/.../*a*a".repeat(450), b"/b/c"], &[&b"/aaaa".repeat(2_000), b"/c"]);
}

/// Matches by trying every possibility, as a reference for [`Pattern::matches`].
fn naive(pattern: &[u8], path: &[u8]) -> bool {
    let split = |text: &[u8]| -> Vec<Vec<char>> {
        let text = str::from_utf8(text).expect("made of characters");
        text.split('/')
            .filter(|part| !part.is_empty())
            .map(|part| part.chars().collect())
            .collect()
    };
    let mut wanted = split(pattern);
    if !pattern.strip_suffix(b"/").unwrap_or(pattern).contains(&b'/') {
        wanted.insert(0, vec!['.', '.', '.']);
    }
    naive_path(&wanted, &split(path))
}

fn naive_path(pattern: &[Vec<char>], path: &[Vec<char>]) -> bool {
    match pattern {
        [] => path.is_empty(),
        [first, rest @ ..] if first == &['.', '.', '.'] => {
            (0..=path.len()).any(|taken| naive_path(rest, &path[taken..]))
        }
        [first, rest @ ..] => {
            !path.is_empty() && naive_name(first, &path[0]) && naive_path(rest, &path[1..])
        }
    }
}

fn naive_name(pattern: &[char], name: &[char]) -> bool {
    match pattern {
        [] => name.is_empty(),
        ['*', rest @ ..] => (0..=name.len()).any(|taken| naive_name(rest, &name[taken..])),
        ['?', rest @ ..] => !name.is_empty() && naive_name(rest, &name[1..]),
        ['\\', plain, rest @ ..] => name.first() == Some(plain) && naive_name(rest, &name[1..]),
        ['[', 'a', '-', 'b', ']', rest @ ..] => {
            matches!(name, ['a' | 'b', ..]) && naive_name(rest, &name[1..])
        }
        [plain, rest @ ..] => name.first() == Some(plain) && naive_name(rest, &name[1..]),
    }
}

fn patterns() -> impl Strategy<Value = String> {
    let name = "([abc\u{e9}.*?]|\\\\[*?a]|\\[a-b\\]){1,4}";
    let directory = prop_oneof![Just("...".to_owned()), name.prop_map(|name| name)];
    (prop::collection::vec(directory, 0..4), name, any::<(bool, bool)>()).prop_map(
        |(directories, name, (bare, slash))| {
            let path = if bare { String::new() } else { format!("/{}/", directories.join("/")) };
            format!("{path}{name}{}", if slash { "/" } else { "" })
        },
    )
}

fn paths() -> impl Strategy<Value = String> {
    prop::collection::vec("[abc\u{e9}*.]{1,4}", 1..6)
        .prop_map(|components| format!("/{}", components.join("/")))
}

proptest! {
    #[test]
    fn agrees_with_the_naive_matcher(pattern in patterns(), path in paths()) {
        let (pattern, path) = (pattern.as_bytes(), path.as_bytes());
        if let Ok(parsed) = Pattern::parse(pattern) {
            prop_assert_eq!(parsed.matches(path), naive(pattern, path));
        }
    }

    /// Patterns and paths of two letters, which nearly always match in part.
    #[test]
    fn agrees_where_everything_nearly_matches(
        pattern in "(/\\.\\.\\.|/[a*]{1,5}){0,3}/[ab*]{1,6}",
        path in "(/[ab]{1,6}){1,6}",
    ) {
        let (pattern, path) = (pattern.as_bytes(), path.as_bytes());
        if let Ok(parsed) = Pattern::parse(pattern) {
            prop_assert_eq!(parsed.matches(path), naive(pattern, path));
        }
    }

    #[test]
    fn any_bytes_parse_or_are_refused(
        pattern in prop::collection::vec(any::<u8>(), 0..40),
        path in prop::collection::vec(any::<u8>(), 0..40),
    ) {
        if let Ok(parsed) = Pattern::parse(&pattern) {
            parsed.matches(&path);
        }
    }

    #[test]
    fn an_escaped_path_matches_itself(name in prop::collection::vec(1_u8.., 1..40)) {
        let name: Vec<u8> = name.into_iter().filter(|&byte| byte != b'/').collect();
        prop_assume!(!name.is_empty());
        let special = |byte: u8| b"*?[\\.".contains(&byte);
        let escaped = name.iter().flat_map(|&byte| [special(byte).then_some(b'\\'), Some(byte)]);
        let pattern: Vec<u8> = b"/".iter().copied().chain(escaped.flatten()).collect();
        let parsed = Pattern::parse(&pattern).expect("everything special is escaped");
        let path = [b"/", name.as_slice()].concat();
        prop_assert!(parsed.matches(&path));
    }
}
