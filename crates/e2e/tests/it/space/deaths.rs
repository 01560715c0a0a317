//! Keepers and workers that end in every way: no reader gets zeros.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use e2e::clock::pause;
use e2e::harness::Process;
use rustix::process::Signal;

use super::{KINDS, MIB, Space, kill, kill_at_once, noise, shell};

#[test]
fn a_worker_that_is_killed_is_started_again_and_readers_get_their_content() {
    let Some(space) = Space::new(KINDS[0], &[]) else { return };
    for round in 0..6 {
        let content = noise(10 + round, 30 * MIB);
        let path = space.stub(&format!("file-{round}"), &content);
        let reader = std::thread::spawn(move || fs::read(path));
        pause(Duration::from_millis(15 * round));
        if let Some(pid) = space.worker_pid() {
            kill(pid, Signal::KILL);
        }
        let got = reader.join().unwrap().expect("the reader is served by the next worker");
        assert!(got == content, "round {round}");
        space.wait_for("the next worker", || space.try_status().code() == 0);
    }
}

#[test]
fn a_keeper_that_is_killed_is_replaced_and_readers_get_content_or_an_error() {
    let Some(mut space) = Space::new(KINDS[0], &[]) else { return };
    let content = noise(20, 30 * MIB);
    let paths: Vec<PathBuf> =
        (0..4).map(|number| space.stub(&format!("file-{number}"), &content)).collect();
    let read = |path: &PathBuf| {
        let path = path.clone();
        std::thread::spawn(move || fs::read(path))
    };
    let readers: Vec<_> = paths[..3].iter().map(read).collect();
    pause(Duration::from_millis(20));
    kill(space.keeper_pid(), Signal::KILL);
    for reader in readers {
        // A reader that waits at the moment of the kill may be refused.
        if let Ok(got) = reader.join().unwrap() {
            assert!(got == content);
        }
    }
    drop(space.keeper.take());
    space.wait_for("the next worker", || space.try_status().code() == 0);
    paths.iter().for_each(|path| assert!(fs::read(path).unwrap() == content));
}

#[test]
fn keepers_and_workers_that_are_killed_again_and_again_leave_no_zeros() {
    let Some(mut space) = Space::new(KINDS[1], &[]) else { return };
    space.keeper.take().into_iter().for_each(Process::detach);
    let content = noise(23, MIB);
    for round in 0..8 {
        let paths: Vec<PathBuf> = (0..4)
            .map(|number| space.stub(&format!("file-{round}-{number}"), &content))
            .collect();
        let reader = |path: &PathBuf| {
            let path = path.clone();
            std::thread::spawn(move || fs::read(path))
        };
        let readers: Vec<_> = paths[..3].iter().map(reader).collect();
        let keeper = space.keeper_now();
        if round % 2 == 0 {
            keeper.into_iter().for_each(|pid| kill(pid, Signal::KILL));
            // The worker replaces the keeper and starts another worker. The test waits for both
            // before the next kill.
            space.wait_for("another keeper", || {
                space.keeper_now().is_some_and(|pid| Some(pid) != keeper)
            });
            space.wait_for("another worker", || space.worker_pid().is_some());
            space.worker_pid().into_iter().for_each(|pid| kill(pid, Signal::KILL));
        } else {
            space.worker_pid().into_iter().for_each(|pid| kill(pid, Signal::KILL));
            pause(Duration::from_millis(1000));
            keeper.into_iter().for_each(|pid| kill(pid, Signal::KILL));
        }
        for reader in readers {
            if let Ok(got) = reader.join().unwrap() {
                assert!(got == content, "round {round}");
            }
        }
        space.wait_for("the next worker", || space.try_status().code() == 0);
        assert!(fs::read(&paths[3]).unwrap() == content, "round {round}");
    }
}

#[test]
fn keeper_and_worker_that_are_killed_at_once_are_replaced() {
    for kind in KINDS {
        let Some(mut space) = Space::new(kind, &[]) else { continue };
        let content = noise(24, MIB);
        space.keeper.take().into_iter().for_each(Process::detach);
        for round in 0..3 {
            let paths: Vec<PathBuf> = (0..4)
                .map(|number| space.stub(&format!("file-{round}-{number}"), &content))
                .collect();
            let (keeper, holder) = (space.keeper_now(), space.holder_pid());
            kill_at_once(&[keeper, space.worker_pid()].into_iter().flatten().collect::<Vec<_>>());
            // No reader waited at the moment of the kill, so no reader is refused.
            for path in &paths {
                assert!(fs::read(path).unwrap() == content, "{} round {round}", kind[0]);
            }
            assert_eq!(space.keeper_now(), holder, "the holder should become the keeper");
            space.wait_for("the next worker", || space.try_status().code() == 0);
            space.wait_for("the next holder", || space.holder_pid().is_some());
        }
        // A holder that dies is replaced. A keeper that is started by hand replaces the present
        // keeper.
        let holder = space.holder_pid();
        holder.into_iter().for_each(|pid| kill(pid, Signal::KILL));
        space.wait_for("another holder", || ![None, holder].contains(&space.holder_pid()));
        space.start(&[]);
        let started = space.keeper_pid();
        space.wait_for("the end of the other one", || space.keepers() == [started]);
        space.wait_for("the worker", || space.try_status().code() == 0);
        let path = space.stub("last", &content);
        assert!(fs::read(path).unwrap() == content);
        // When the keeper ends in an orderly way, the holder ends too.
        let (keeper, holder) = (space.keeper_now().unwrap(), space.holder_pid());
        assert!(space.image.unmount() || shell("umount --lazy \"$1\"", &space.fs(), &space.fs()));
        kill(keeper, Signal::TERM);
        space.wait_for("the end of all", || {
            space.keeper_now().is_none() && space.holder_pid().is_none()
        });
        assert!(holder.is_some());
    }
}

#[test]
fn who_has_the_number_of_a_keeper_that_died_is_let_alone() {
    let Some(one) = Space::new(KINDS[0], &[]) else { return };
    let Some(mut other) = Space::new(KINDS[0], &[]) else { return };
    other.kill_all();
    // The lock file looks as if the kernel had given the id of the dead keeper to another process.
    let lock = other.node().home().join("hsm.lock");
    let signed = fs::read_to_string(&lock).unwrap();
    let (_, since) = signed.split_once(' ').expect("a process id and a time");
    fs::write(&lock, format!("{} {since}", one.keeper_pid())).unwrap();
    other.start(&[]);
    let content = noise(25, MIB);
    for space in [&one, &other] {
        let path = space.stub("file", &content);
        assert!(fs::read(path).unwrap() == content);
    }
}

#[test]
fn what_was_taken_out_of_a_file_does_not_come_back_with_the_next_worker() {
    let Some(space) = Space::new(KINDS[1], &["--whole", "0"]) else { return };
    let punch = "fallocate --punch-hole --offset 0 --length 2097152 \"$1\"";
    let cut = "truncate -s 1000000 \"$1\"; truncate -s 5000000 \"$1\"";
    for (number, (script, from, to)) in
        [(punch, 0, 2 << 20), (cut, 1_000_000, 5_000_000)].into_iter().enumerate()
    {
        let mut content = noise(26, 5_000_000);
        let path = space.stub(&format!("file-{number}"), &content);
        assert!(fs::read(&path).unwrap() == content);
        assert!(shell(script, &path, &path));
        space.worker_pid().into_iter().for_each(|pid| kill(pid, Signal::KILL));
        content[from..to].fill(0);
        assert!(fs::read(&path).unwrap() == content, "{script}");
        space.wait_for("the next worker", || space.try_status().code() == 0);
    }
}

#[test]
fn told_to_end_it_refuses_until_another_one_takes_over() {
    let Some(mut space) = Space::new(KINDS[0], &[]) else { return };
    let content = noise(21, MIB);
    let path = space.stub("file", &content);
    let plain = space.write("plain", b"resident");
    let first = space.keeper.take().unwrap();
    first.signal(Signal::TERM);
    space.wait_for("the guard", || {
        fs::read(&path).is_err_and(|error| error.raw_os_error() == Some(libc::EAGAIN))
    });
    assert_eq!(fs::read(&plain).unwrap(), b"resident");
    space.node().run(&["hsm", "status"]).expect(&[12]).says("hsm run");
    space.start(&[]);
    assert!(first.ends_within(Duration::from_secs(60)), "the first keeper should end");
    assert!(fs::read(&path).unwrap() == content);
    space.node().run(&["hsm", "run"]).expect(&[12]).says("is already running");
}
