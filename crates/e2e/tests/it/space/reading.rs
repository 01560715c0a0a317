//! Programs that read an open stub whose content cannot come, and programs that look for holes.

use super::*;

#[test]
fn a_reader_whose_server_is_away_is_not_told_to_try_again() {
    // With this option, opening does not recall a file.
    let Some(mut space) = Space::new(KINDS[0], &["--whole", "0"]) else { return };
    let content = noise(1, MIB);
    let path = space.stub("file", &content);
    space.scene.server.kill9();
    let file = File::open(&path).unwrap();
    // Python and others end a copy at EAGAIN as if the file ended there.
    let error = file.read_exact_at(&mut [0; 10], 0).expect_err("nobody has the content");
    assert_eq!(error.raw_os_error(), Some(libc::EBUSY), "{error}");
    space.scene.server.restart();
    assert!(fs::read(&path).unwrap() == content);
}

#[test]
fn a_reader_whose_keeper_ends_is_not_told_to_try_again() {
    let Some(mut space) = Space::new(KINDS[0], &["--whole", "0"]) else { return };
    let content = noise(2, MIB);
    let path = space.stub("file", &content);
    space.scene.server.freeze(true);
    let file = File::open(&path).unwrap();
    let reader = std::thread::spawn(move || file.read_exact_at(&mut [0; 10], 0));
    space.wait_for("the reader", || !space.try_status().json_lines().is_empty());
    let first = space.keeper.take().unwrap();
    first.signal(Signal::TERM);
    let error = reader.join().unwrap().expect_err("the keeper refuses");
    assert_eq!(error.raw_os_error(), Some(libc::EBUSY), "{error}");
    space.scene.server.freeze(false);
    space.start(&[]);
    assert!(first.ends_within(Duration::from_secs(60)), "the first keeper should end");
    assert!(fs::read(&path).unwrap() == content);
}

/// Programs that look for holes, each with a script that reads the file at `$1`, which is alone in
/// its folder, and writes all of its content to `$2`.
const HOLE_SEEKERS: [(&str, &str); 3] = [
    ("grep", "grep -I '' \"$1\" > \"$2\""),
    (
        "mkfs.ext4",
        "mkfs.ext4 -q -F -d \"$(dirname \"$1\")\" \"$2.fs\" 64M; \
         debugfs -R 'cat /large' \"$2.fs\" > \"$2\"; rm \"$2.fs\"",
    ),
    (
        "debugfs",
        "mkfs.ext4 -q -F \"$2.fs\" 64M; debugfs -w -R \"write $1 large\" \"$2.fs\"; \
         debugfs -R 'cat /large' \"$2.fs\" > \"$2\"; rm \"$2.fs\"",
    ),
];

#[test]
fn programs_that_look_for_holes_get_the_content() {
    let Some(space) = Space::new(KINDS[0], &["--whole", "1M"]) else { return };
    let lines: Vec<String> = (0..400_000).map(|number| format!("line {number}\n")).collect();
    let content = lines.concat().into_bytes();
    let copy = space.scene.scratch.join("copy");
    for (program, script) in HOLE_SEEKERS {
        let stub = space.stub("alone/large", &content);
        assert!(shell(script, &stub, &copy), "{program}");
        assert!(fs::read(&copy).unwrap() == content, "{program}: the content differs");
    }
}
