//! Sizes that are changed without a question about the file.

use super::*;

/// Sets the size of a file by its path. A kernel that asks at opening only does not ask about it.
#[track_caller]
fn resize_by_path(path: &Path, sizes: &[usize]) {
    let program = "import os, sys\nfor size in sys.argv[2:]: os.truncate(sys.argv[1], int(size))";
    let sizes = sizes.iter().map(ToString::to_string);
    let mut command = Command::new("python3");
    assert!(succeeds(command.args(["-c", program]).arg(path).args(sizes)));
}

/// A client of an NFS server, and programs on old kernels, change sizes unasked: a stub that was
/// emptied and lengthened had its old content in place of zeros.
#[test]
fn a_stub_whose_size_was_changed_unasked_is_refused_until_somebody_vouches() {
    let Some(space) = Space::with_keeper(KINDS[0], &["--whole", "0"], &["--opening-only"]) else {
        return;
    };
    let content = noise(81, 3 * MIB);
    for (name, sizes) in [
        ("emptied", &[0, 3 * MIB][..]),
        ("lengthened", &[3 * MIB + 1][..]),
        ("cut", &[MIB][..]),
        ("cut-and-lengthened", &[MIB, 2 * MIB][..]),
    ] {
        let path = space.stub(name, &content);
        resize_by_path(&path, sizes);
        assert!(fs::read(&path).is_err(), "{name}: nobody knows its content");
        let rows = space.hsm(&["recall"], &path).expect(&[4]).json_lines();
        assert!(rows[0]["error"].as_str().unwrap().contains("touch -ca"), "{rows:?}");
        assert_eq!(space.state(&path), "m");
        assert!(shell("touch -ca \"$1\"", &path, &path));
        let found = fs::read(&path).unwrap();
        let old_bytes = found.len().min(content.len());
        assert_eq!(Some(&found.len()), sizes.last(), "{name}");
        assert!(found[..old_bytes] == content[..old_bytes], "{name}");
        assert!(found[old_bytes..].iter().all(|byte| *byte == 0), "{name}");
    }
    // Programs that set times change no content.
    let touched = space.stub("touched", &content);
    assert!(shell("touch -c \"$1\"", &touched, &touched));
    assert!(fs::read(&touched).unwrap() == content);
    // Times that are set do not hide a change of the size.
    let hidden = space.stub("hidden", &content);
    resize_by_path(&hidden, &[2 * MIB]);
    assert!(shell("touch -c -d 2001-01-01 \"$1\"", &hidden, &hidden));
    assert!(fs::read(&hidden).is_err());
    // A file that was emptied can be written anew.
    let anew = space.stub("anew", &content);
    resize_by_path(&anew, &[0]);
    fs::write(&anew, b"anew").unwrap();
    assert_eq!(fs::read(&anew).unwrap(), b"anew");
}

/// A kernel that asks about ranges asks before it lengthens a file too. Nothing of a file with
/// whole pages has to be recalled then, so only the record shows that somebody was asked.
#[test]
fn a_stub_that_is_lengthened_at_a_page_is_recalled_afterwards() {
    let Some(space) = Space::new(KINDS[0], &["--whole", "0"]) else { return };
    let mut content = noise(82, 3 * MIB);
    let path = space.stub("file", &content);
    resize_by_path(&path, &[4 * MIB]);
    content.resize(4 * MIB, 0);
    assert!(fs::read(&path).unwrap() == content);
}
