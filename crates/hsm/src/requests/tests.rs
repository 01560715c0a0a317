//! Tests of requests, with a socket pair in place of the user.

use std::os::unix::ffi::OsStrExt as _;

use super::*;
use crate::FilesystemSettings;
use crate::mount::Mount;
use crate::recall::tests::{recaller_managing, recaller_of_nothing};

/// Carries out a request for the user `uid`. Returns the result and the replies.
fn carried_out(
    recaller: &Recaller,
    uid: u32,
    request: Request,
) -> (Result<(), RequestError>, Vec<Reply>) {
    let home = tempfile::tempdir().unwrap();
    let connection = Connection::new(home.path());
    let (ours, theirs) = UnixStream::pair().unwrap();
    let requester = Requester { uid, ..Requester::default() };
    let caller = Caller::new(ours, requester);
    let tender = Tender::of(recaller, home.path());
    let mounts = recaller.mounts();
    let desk = Desk {
        recaller,
        connection: &connection,
        caller: &caller,
        tender: &tender,
        mounts: &mounts,
    };
    let result = desk.carry_out(request);
    drop(caller);
    let lines = BufReader::new(theirs).lines();
    let replies = lines.map(|line| serde_json::from_str(&line.unwrap()).unwrap()).collect();
    (result, replies)
}

fn text(path: &[u8]) -> PathText {
    PathText(path.to_vec())
}

#[test]
fn users_may_not_send_requests_of_root() {
    let recaller = recaller_of_nothing();
    let (result, replies) = carried_out(&recaller, 7, Request::Purge { paths: Vec::new() });
    assert!(matches!(result, Err(RequestError::Forbidden)));
    assert_eq!(replies, []);
    let (result, _) = carried_out(&recaller, 7, Request::Status);
    assert!(result.is_ok());
}

#[test]
fn requests_name_what_is_not_managed() {
    let recaller = recaller_of_nothing();
    let mount_point = text(b"/data");
    let (result, _) = carried_out(&recaller, 0, Request::Relieve { mount_point });
    let message = result.unwrap_err().to_string();
    assert_eq!(
        message,
        "/data is not managed, or not mounted; 'holdfast hsm list' shows the file systems"
    );
    let paths = vec![text(b"/data/a")];
    let (result, _) = carried_out(&recaller, 0, Request::MakeStubs { paths, bytes_min: 1 });
    let message = result.unwrap_err().to_string();
    assert_eq!(message, "/data/a is in no managed file system");
    let (result, _) = carried_out(&recaller, 0, Request::Cancel { number: 3 });
    assert!(matches!(result, Err(RequestError::NoRecall(3))));
}

#[test]
fn users_do_not_learn_which_file_systems_are_managed() {
    let recaller = recaller_of_nothing();
    let recall = || Request::Recall { paths: vec![text(b"/")], resident: false, preview: true };
    let error = |uid| {
        let (result, replies) = carried_out(&recaller, uid, recall());
        assert!(result.is_ok());
        let Reply::File(outcome) = &replies[0] else { panic!("{replies:?}") };
        assert!(matches!(replies[1], Reply::Expect { files: 0, bytes: 0 }));
        assert!(matches!(replies[2], Reply::Plan(_)));
        outcome.error.clone().unwrap()
    };
    assert_eq!(error(0), "its file system / is not managed");
    assert_eq!(error(7), "you have no file there");
}

#[test]
fn a_path_belongs_to_the_innermost_managed_file_system() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("inner")).unwrap();
    let mount = |path: &std::path::Path| {
        let mount_point = path.as_os_str().as_bytes().to_vec();
        Mount::open(FilesystemSettings::new(mount_point)).unwrap()
    };
    let mounts = vec![mount(folder.path()), mount(&folder.path().join("inner"))];
    let recaller = recaller_managing(mounts);
    let connection = Connection::new(folder.path());
    let (ours, _theirs) = UnixStream::pair().unwrap();
    let caller = Caller::new(ours, Requester::default());
    let tender = Tender::of(&recaller, folder.path());
    let mounts = recaller.mounts();
    let desk = Desk {
        recaller: &recaller,
        connection: &connection,
        caller: &caller,
        tender: &tender,
        mounts: &mounts,
    };
    let holding = |name: &str| {
        let path = folder.path().join(name);
        desk.mount_holding(path.as_os_str().as_bytes()).unwrap().mount_point().to_vec()
    };
    let inner = folder.path().join("inner");
    assert_eq!(holding("inner/no/such/file"), inner.as_os_str().as_bytes());
    assert_eq!(holding("inner-else"), folder.path().as_os_str().as_bytes());
}

#[test]
fn a_connection_gets_its_answer_and_nonsense_is_refused() {
    #[track_caller]
    fn check(request: &str, expected: &str) {
        use std::io::Write as _;
        let folder = tempfile::tempdir().unwrap();
        let connection = Connection::new(folder.path());
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        theirs.write_all(request.as_bytes()).unwrap();
        let recaller = recaller_of_nothing();
        serve(&recaller, &connection, &Tender::of(&recaller, folder.path()), ours);
        let mut answer = String::new();
        BufReader::new(theirs).read_line(&mut answer).unwrap();
        assert!(answer.starts_with(expected), "{answer}");
    }
    check("{\"do\":\"status\"}\n", "{\"tell\":\"done\"}");
    check("nonsense\n", "{\"tell\":\"refused\",\"reason\":\"the request cannot be read");
    check("{\"do\":\"format\"}\n", "{\"tell\":\"refused\",\"reason\":\"the request cannot be read");
}

#[test]
fn a_recall_is_shown_to_its_user_and_to_root() {
    let status = |uid| RecallStatus {
        number: 3,
        requester: Requester { uid, pid: 9, program: "cat".to_owned(), started: 0 },
        since: model::ServerTime(5),
        path: b"/a".to_vec(),
        stage: Stage::Waiting { place: 4 },
        waiters: 2,
        bytes: 100,
        done_bytes: 1,
        estimate: Some(Duration::from_millis(1500)),
        volume: None,
        volume_place: None,
    };
    let state = request_state(status(7));
    assert_eq!((state.state.as_str(), state.place), ("waiting", 4));
    assert_eq!((state.uid, state.pid, state.program.as_str()), (7, 9, "cat"));
    assert_eq!(state.estimate_secs, Some(1.5));
    let at_server = request_state(RecallStatus { stage: Stage::AtServer, ..status(7) });
    assert_eq!((at_server.state.as_str(), at_server.place), ("at the server", 0));
}

#[test]
fn a_path_that_cannot_be_migrated_costs_that_path_alone() {
    let recaller = recaller_of_nothing();
    let paths = vec![text(b"/"), text(b"/no/such/path")];
    let request = Request::Migrate { paths, only_copies: false, any_size: false };
    let (result, replies) = carried_out(&recaller, 0, request);
    assert!(result.is_ok());
    let errors: Vec<_> = replies
        .iter()
        .map(|reply| match reply {
            Reply::File(outcome) => outcome.error.clone().unwrap(),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(errors[0], "its file system / is not managed");
    assert!(errors[1].contains("No such file"), "{errors:?}");
}
