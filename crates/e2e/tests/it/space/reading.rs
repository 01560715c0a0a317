//! Programs that read an open stub whose content cannot come.

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
