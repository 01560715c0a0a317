//! Keepers and workers that are killed in the middle of long work: no file is lost, and the work is
//! completed when it is started again.

use super::*;

const FILES: u64 = 40;
const FILE_BYTES: usize = 90_000;
/// Number of rounds for each kind of work on each file system. `HOLDFAST_KILLS` sets another
/// number.
const ROUNDS: u64 = 6;
/// Approximate time of the work, in milliseconds.
const WORK_MILLIS: u64 = 150;

struct Round {
    folder: PathBuf,
    files: Vec<(PathBuf, Vec<u8>)>,
}

impl Round {
    fn new(space: &Space, round: u64) -> Self {
        let name = |number| format!("round-{round}/{number}");
        let file = |number| {
            let content = noise(round * FILES + number, FILE_BYTES);
            (space.write(&name(number), &content), content)
        };
        Self {
            folder: space.fs().join(format!("round-{round}")),
            files: (0..FILES).map(file).collect(),
        }
    }

    fn list(&self, space: &Space) -> PathBuf {
        let list = space.scene.scratch.join("list");
        let lines = self.files.iter().map(|(path, _)| format!("{}\n", path.display()));
        fs::write(&list, lines.collect::<String>()).unwrap();
        list
    }

    #[track_caller]
    fn assert_right(&self, step: usize, about: &str) {
        for (path, content) in self.files.iter().step_by(step) {
            assert!(fs::read(path).unwrap() == *content, "{about}: {path:?}");
        }
    }

    /// Checks that a file that is not migrated takes its space.
    #[track_caller]
    fn assert_states(&self, space: &Space, about: &str) {
        let rows = space.hsm(&["ls"], &self.folder).expect(&[0]).json_lines();
        assert_eq!(rows.len() as u64, FILES, "{about}: {rows:?}");
        for row in rows {
            let blocks = fs::metadata(row["path"].as_str().unwrap()).unwrap().blocks();
            let is_here = blocks * 512 >= FILE_BYTES as u64;
            let state = row["state"].as_str().unwrap();
            assert!(is_here || state.starts_with('m'), "{about}: {row} with {blocks} blocks");
        }
    }

    #[track_caller]
    fn states(&self, space: &Space) -> Vec<String> {
        let rows = space.hsm(&["ls"], &self.folder).expect(&[0]).json_lines();
        rows.iter().map(|row| row["state"].as_str().unwrap().to_owned()).collect()
    }
}

/// Starts `work`, kills the worker or both the worker and the keeper, and waits for the processes
/// that replace them.
fn cut_off(space: &Space, round: u64, rounds: u64, work: &[&str]) {
    let (keeper, worker) = (space.keeper_now(), space.worker_pid());
    let running = space.node().spawn(work);
    pause(Duration::from_millis(WORK_MILLIS * round / rounds));
    let victims = if round.is_multiple_of(2) { [worker, None] } else { [keeper, worker] };
    kill_at_once(&victims.into_iter().flatten().collect::<Vec<_>>());
    let outcome = running.wait();
    assert!([0, 4, 12].contains(&outcome.code()), "{outcome}");
    space.wait_for("the next worker", || space.try_status().code() == 0);
    // The next keeper may have to be replaced too.
    space.wait_for("a keeper and a holder", || {
        space.keeper_now().is_some() && space.holder_pid().is_some()
    });
}

fn on_each(test: impl Fn(&Space, u64, u64, &str)) {
    let rounds = std::env::var("HOLDFAST_KILLS").ok().and_then(|text| text.parse().ok());
    let rounds = rounds.unwrap_or(ROUNDS);
    for kind in KINDS {
        let Some(mut space) = Space::new(kind, &[]) else { continue };
        space.keeper.take().into_iter().for_each(Process::detach);
        for round in 0..rounds {
            test(&space, round, rounds, &format!("{} round {round}", kind[0]));
        }
    }
}

#[test]
fn a_migration_that_was_cut_off_loses_nothing_and_is_done_again() {
    on_each(|space, round, rounds, about| {
        let files = Round::new(space, round);
        let work = ["hsm", "migrate", files.folder.to_str().unwrap(), "--json"];
        cut_off(space, round, rounds, &work);
        files.assert_states(space, about);
        files.assert_right(2, about);
        files.assert_states(space, about);
        space.migrate(&files.folder);
        assert!(files.states(space).iter().all(|state| state == "m"), "{about}");
        files.assert_right(1, about);
    });
}

#[test]
fn a_list_that_was_cut_off_loses_nothing_and_is_done_again() {
    on_each(|space, round, rounds, about| {
        let files = Round::new(space, round);
        space.migrate(&files.folder);
        let list = files.list(space);
        let work = ["hsm", "recall", "--filelist", list.to_str().unwrap(), "--json"];
        cut_off(space, round, rounds, &work);
        files.assert_states(space, about);
        files.assert_right(2, about);
        space.node().run(&work).expect(&[0]);
        // A file counts as changed if the kill came before its time was reset.
        assert!(!files.states(space).contains(&"m".to_owned()), "{about}");
        files.assert_right(1, about);
    });
}
