//! The listing of statements, in the order in which they are looked at.

use super::*;

#[test]
fn the_listing_has_the_order_of_the_look_up() {
    let translation =
        translated("exclude /a/*\nexclude.dir /d1\nexclude.fs /f\ninclude /b/* C\nexclude.dir /d2");
    let shown = |of_server: &[ListedStatement]| -> Vec<_> {
        listing(&translation, of_server)
            .iter()
            .map(|line| format!("{} {} {}", line.mode, line.function, line.pattern))
            .collect()
    };
    let lines = shown(&[]);
    assert_eq!(
        lines,
        [
            "Excl Filespace /f",
            "Excl Directory /d2",
            "Excl Directory /d1",
            "Incl All /b/*",
            "Excl All /a/*"
        ]
    );
    // Statements of the server stand below those of the node, and are looked at before them.
    let text = b"exclude.fstype nfs\nexclude.tag x\nexclude /s\ninclude.compression /t\n\
        exclude /p\nexclude.spacemgmt /p\nexclude /q\nexclude.spacemgmt /r";
    let source = |line| Source::OptionSet { name: "SET".to_owned(), line };
    let statements = policy::statement::parse_list(text, source).expect("a list");
    let of_server = listed_of_server("SET", statements.iter().map(|one| &one.rule));
    assert_eq!(of_server[0].source, "Server (SET)");
    assert_eq!(
        shown(&of_server),
        [
            "Excl FSType nfs",
            "Excl Filespace /f",
            "Excl Tag x",
            "Excl Directory /d2",
            "Excl Directory /d1",
            "Excl HSM /r",
            "Excl Backup /q",
            "Excl All /p",
            "Incl Compress /t",
            "Excl Backup /s",
            "Incl All /b/*",
            "Excl All /a/*"
        ]
    );
}
