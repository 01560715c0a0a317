//! Attacks on the REST API: foreign pages, guessed passwords, odd paths, requests that are too
//! large or too slow, and connections on which nothing happens.

use std::fs;
use std::io::{Read as _, Write as _};

use e2e::harness::api::{Answer, Caller};
use serde_json::{Value, json};

use crate::api::{PASSWORD, Provider};

/// Signs a person in. Returns the caller with the cookie, the guard, and the cookie's attributes.
#[track_caller]
fn sign_in(service: &Provider, login: &str) -> (Caller, String, String) {
    let credentials = json!({ "login": login, "password": PASSWORD });
    let answer = service.stranger.post("/v1/sign-in", &credentials).expect(200);
    let cookie = answer.header("set-cookie").expect("a cookie").to_owned();
    let (value, attributes) = cookie.split_once(';').expect("attributes");
    let guard = answer.json()["guard"].as_str().unwrap().to_owned();
    (service.stranger.with_headers(&[&format!("Cookie: {value}")]), guard, attributes.to_owned())
}

fn code(answer: &Answer) -> (u16, Value) {
    (answer.status, answer.json()["code"].clone())
}

#[test]
fn no_other_page_acts_by_a_sign_in() {
    let service = Provider::new();
    service.person("anna", &["tenant@STANDARD"]);
    let (anna, guard, attributes) = sign_in(&service, "anna");
    for attribute in ["Secure", "HttpOnly", "SameSite=Strict", "Path=/"] {
        assert!(attributes.contains(attribute), "{attributes}");
    }
    anna.get("/v1/nodes").expect(200);
    let node = json!({ "name": "a" });
    let forbidden = (403, json!("forbidden"));
    assert_eq!(code(&anna.post("/v1/nodes", &node)), forbidden);
    let (_, other_guard, _) = sign_in(&service, "root");
    for wrong in ["", "00", &other_guard, &guard[1..], &guard.to_uppercase()] {
        let forged = anna.with_headers(&[&format!("X-Holdfast-Guard: {wrong}")]);
        if wrong != guard {
            assert_eq!(code(&forged.post("/v1/nodes", &node)), forbidden, "{wrong}");
        }
    }
    let own = anna.with_headers(&[&format!("X-Holdfast-Guard: {guard}")]);
    // A form of another page can send no JSON, even if it knew the guard.
    let form = own.with_headers(&["Content-Type: application/x-www-form-urlencoded"]);
    assert_eq!(form.post("/v1/nodes", &node).status, 415);
    let foreign = own.with_headers(&["Origin: https://evil.example"]);
    let answer = foreign.get("/v1/nodes").expect(200);
    assert_eq!(answer.header("access-control-allow-origin"), None, "no page reads the answer");
    own.post("/v1/nodes", &node).expect(201);
}

#[test]
fn what_only_reads_changes_nothing() {
    let service = Provider::new();
    let document = service.stranger.get("/v1/openapi.json").expect(200).json();
    for (path, methods) in document["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            let reads = operation["x-right"] == "read";
            assert_eq!(method == "get", reads, "{method} {path}: pages of others can send GET");
        }
    }
}

#[test]
fn a_sign_in_has_a_secret_of_its_own_and_ends_for_good() {
    let service = Provider::new();
    service.person("anna", &["tenant@STANDARD"]);
    // A cookie that somebody has planted in the browser does not become the sign-in.
    let planted = service.stranger.with_headers(&["Cookie: __Host-holdfast=planted"]);
    let credentials = json!({ "login": "anna", "password": PASSWORD });
    let answer = planted.post("/v1/sign-in", &credentials).expect(200);
    assert!(!answer.header("set-cookie").unwrap().contains("planted"));
    planted.get("/v1/account").expect(401);
    let (first, guard, _) = sign_in(&service, "anna");
    let (second, _, _) = sign_in(&service, "anna");
    let guarded = first.with_headers(&[&format!("X-Holdfast-Guard: {guard}")]);
    guarded.post("/v1/sign-out", &json!({})).expect(204);
    first.get("/v1/account").expect(401);
    second.get("/v1/account").expect(200);
    let change = json!({ "password": "another correct horse" });
    service.root.patch("/v1/users/anna", &change).expect(200);
    second.get("/v1/account").expect(401);
}

#[test]
fn guesses_from_one_place_lock_out_nobody_elsewhere() {
    let service = Provider::new();
    service.person("anna", &["tenant@STANDARD"]);
    let wrong = |login: &str, password: &str| json!({ "login": login, "password": password });
    let guesser = service.stranger.with_options(&["--interface", "127.0.0.2"]);
    let ask = |number: usize| {
        guesser
            .post("/v1/sign-in", &wrong("anna", &format!("wrong horse {number:08}")))
            .status
    };
    let statuses: Vec<u16> = (0..20).map(ask).collect();
    assert!(statuses.starts_with(&[401; 5]), "{statuses:?}");
    assert!(statuses.iter().filter(|status| **status == 429).count() > 10, "{statuses:?}");
    // Not even the right password gets in from there now, so that nobody learns of a hit.
    let hit = guesser.post("/v1/sign-in", &wrong("anna", PASSWORD)).expect(429);
    assert!(hit.header("retry-after").is_some());
    let elsewhere = service.stranger.with_options(&["--interface", "127.0.0.3"]);
    elsewhere.post("/v1/sign-in", &wrong("anna", PASSWORD)).expect(200);
    // A login that does not exist is answered in the same way.
    let prober = service.stranger.with_options(&["--interface", "127.0.0.4"]);
    let answer = |login: &str| {
        let answer = prober.post("/v1/sign-in", &wrong(login, "wrong horse battery"));
        (answer.status, String::from_utf8(answer.body).unwrap())
    };
    assert_eq!(answer("anna"), answer("nobody-at-all"));
}

#[test]
fn guesses_from_everywhere_are_slowed_and_the_owner_gets_in() {
    let service = Provider::new();
    let key = service.person("anna", &["tenant@STANDARD"]);
    let at = |place: &str| service.stranger.with_options(&["--interface", place]);
    let attempt = |place: &str, login: &str, password: &str| {
        at(place).post("/v1/sign-in", &json!({ "login": login, "password": password }))
    };
    attempt("127.0.0.9", "anna", PASSWORD).expect(200);
    let (signed_in, _, _) = sign_in(&service, "anna");
    // Each guess comes from a place of its own.
    let guess = |login: &str, network: u8| -> Vec<u16> {
        let place = |number: u8| format!("127.0.{network}.{number}");
        let guess = |number| attempt(&place(number), login, &format!("wrong horse {number:08}"));
        (1..=30).map(|number| guess(number).status).collect()
    };
    let statuses = guess("anna", 1);
    assert!(statuses[..20].iter().all(|status| *status == 401), "{statuses:?}");
    assert!(statuses.iter().filter(|status| **status == 429).count() > 6, "{statuses:?}");
    // Not even the right password gets in from any new place now, but once in a pause.
    let places = ["127.0.3.1", "127.0.3.2", "127.0.3.3"];
    let hits = places.map(|place| attempt(place, "anna", PASSWORD));
    let refused: Vec<_> = hits.iter().filter(|hit| hit.status == 429).collect();
    assert!(refused.len() >= 2 && refused[0].header("retry-after").is_some(), "{hits:?}");
    attempt("127.0.0.9", "anna", PASSWORD).expect(200);
    signed_in.get("/v1/account").expect(200);
    key.get("/v1/account").expect(200);
    // A login that nobody has is slowed in the same way.
    let statuses = guess("nobody-at-all", 2);
    assert!(statuses[..20].iter().all(|status| *status == 401), "{statuses:?}");
    assert!(statuses.iter().filter(|status| **status == 429).count() > 6, "{statuses:?}");
}

#[test]
fn odd_paths_lead_nowhere() {
    let service = Provider::new();
    let caller = service.root.with_options(&["--path-as-is"]);
    service.root.post("/v1/nodes", &json!({ "name": "a" })).expect(201);
    for body in [json!({ "description": "\0" }), json!({ "labels": ["a\0"] })] {
        service.root.patch("/v1/nodes/a", &body).expect(400);
    }
    for path in [
        "/v1/nodes/../../../etc/passwd",
        "/v1/../server.toml",
        "/../../etc/passwd",
        "//etc/passwd",
        "/v1//nodes",
        "/v1/nodes/",
        "/v1/nodes/%2e%2e%2f%2e%2e%2fetc%2fpasswd",
        "/v1/nodes/..%2Fa",
        "/v1/nodes/a%00",
        "/v1/nodes?owner=%00",
        "/v1/schedules/a%00",
        "/v1/nodes?cursor=AA",
        "/v1/volumes?cursor=AGEBAA",
        "/v1/nodes/%ff%fe",
        "/v1/nodes/a;admin=true",
        "/V1/nodes",
        "/v1/nodes/a/content?filespace=/&path=/../../etc/passwd",
        "/v1/nodes/a/content?filespace=..&path=/etc/passwd",
        "/v1/nodes/a/content?filespace=%00&path=%00",
        "/v1/nodes/a/tree?filespace=/../..",
        "/v1/domains/..%2f..%2fkeys",
        "/v1/log?kind=%27%20OR%201=1--",
        "/holdfast.v1.Admin/../v1/nodes",
    ] {
        let answer = caller.get(path);
        let text = String::from_utf8_lossy(&answer.body).into_owned();
        assert!(!text.contains("root:x:"), "{path}: {text}");
        let is_empty_list = answer.status == 200 && text.starts_with("{\"items\":[]");
        let is_unknown_call = answer.header("grpc-status").is_some_and(|code| code != "0");
        // Any other path is one of the page, which says that it has no such screen.
        let is_page = !path.starts_with("/v1/") && text.to_lowercase().contains("<!doctype html");
        let is_refused = matches!(answer.status, 400 | 404);
        let is_nothing = is_empty_list || is_unknown_call || is_page || is_refused;
        assert!(is_nothing, "{path}: {text}");
    }
    let long = format!("/v1/nodes/{}", "a".repeat(20_000));
    assert!(matches!(caller.get(&long).status, 400 | 404 | 414 | 431), "a long path");
}

#[test]
fn requests_that_are_too_large_are_refused() {
    let service = Provider::new();
    let large = json!({ "name": "x".repeat(70_000) });
    let file = service.scratch.join("body");
    fs::write(&file, large.to_string()).unwrap();
    let data = format!("@{}", file.display());
    let json = "Content-Type: application/json";
    for framing in ["Content-Length: 70011", "Transfer-Encoding: chunked"] {
        let sender = service.root.with_options(&["--data-binary", &data]);
        let sender = sender.with_headers(&[json, framing]);
        let answer = sender.send("POST", "/v1/nodes", None);
        assert_eq!(code(&answer), (413, json!("too-large")), "{framing}");
    }
    let long = "x".repeat(60_000);
    let sender = service.root.with_options(&["--http2"]);
    let answer = sender.with_headers(&[&format!("X-Long: {long}")]).get("/v1/nodes");
    assert_eq!(answer.status, 431);
    // Over HTTP/1.1 the server may end the connection before it has read everything.
    let mut connection = service.stranger.connect();
    let request = format!("GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-Long: {long}\r\n\r\n");
    drop(connection.write_all(request.as_bytes()));
    let mut answer = Vec::new();
    drop(connection.read_to_end(&mut answer));
    let text = String::from_utf8_lossy(&answer);
    assert!(text.is_empty() || text.starts_with("HTTP/1.1 431"), "{text}");
    service.root.get("/v1/nodes").expect(200);
}

/// Over HTTP/2, `curl` takes the end of an exchange before the end of its body for an error, and
/// ends with 92 in place of the answer.
#[test]
fn a_refusal_arrives_although_nobody_needed_the_body() {
    let service = Provider::new();
    let file = service.scratch.join("body");
    fs::write(&file, " ".repeat(900_000)).unwrap();
    let data = format!("@{}", file.display());
    let options = ["--http2", "--data-binary", &data, "--write-out", " over %{http_version}"];
    let sender = service
        .root
        .with_options(&options)
        .with_headers(&["Content-Type: application/json"]);
    let refused = [
        ("POST", "/v1/events/first/wish", 400),
        ("POST", "/v1/nodes/a/config?token_secs=soon", 400),
        ("POST", "/v1/nodes", 413),
        ("POST", "/v1/nothing", 404),
        ("PUT", "/v1/log", 405),
    ];
    for round in 0..10 {
        for (method, path, status) in refused {
            let answer = sender.send(method, path, None);
            let text = String::from_utf8_lossy(&answer.body).into_owned();
            assert_eq!(answer.status, status, "{round}: {method} {path}: {text}");
            assert!(text.contains("\"code\":") && text.ends_with(" over 2"), "{path}: {text}");
        }
    }
}

#[test]
fn a_refusal_arrives_after_a_body_that_is_far_too_large() {
    let service = Provider::new();
    let file = service.scratch.join("body");
    let data = format!("@{}", file.display());
    for (version, bytes) in
        [("--http2", 1_500_000), ("--http2", 20_000_000), ("--http1.1", 12_000_000)]
    {
        fs::write(&file, " ".repeat(bytes)).unwrap();
        // Without the wait for the word to go on, the body is on its way when the answer is known.
        let sender = service
            .root
            .with_options(&[version, "--data-binary", &data])
            .with_headers(&["Content-Type: application/json", "Expect:"]);
        let answer = sender.send("POST", "/v1/nodes", None);
        assert_eq!(code(&answer), (413, json!("too-large")), "{version}: {bytes}");
    }
}

#[test]
fn many_idle_connections_leave_room_for_others() {
    let service = Provider::new();
    let idle: Vec<_> = (0..500).map(|_| service.stranger.connect()).collect();
    for _ in 0..20 {
        service.root.get("/v1/nodes").expect(200);
    }
    drop(idle);
    service.root.get("/v1/nodes").expect(200);
}

#[test]
fn slow_clients_are_cut_off_and_others_are_served() {
    let service = Provider::new();
    let begin = |text: &str| {
        let mut connection = service.stranger.connect();
        connection.write_all(text.as_bytes()).unwrap();
        connection.flush().unwrap();
        connection
    };
    let headers = "GET /v1/nodes HTTP/1.1\r\nHost: localhost\r\nX-Slow: ";
    let body = "POST /v1/sign-in HTTP/1.1\r\nHost: localhost\r\nContent-Type: \
                application/json\r\nContent-Length: 1000\r\n\r\n{\"login\": ";
    // A reader that takes nothing: the answers fill the buffers, and the server waits.
    let reader = "GET /v1/openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n".repeat(300);
    let mut slow: Vec<_> = (0..60).map(|_| begin(headers)).collect();
    slow.extend((0..150).map(|_| begin(body)));
    let readers: Vec<_> = (0..20).map(|_| begin(&reader)).collect();
    for _ in 0..20 {
        service.root.get("/v1/nodes").expect(200);
    }
    for mut connection in slow {
        // The server ends the connection: the read returns without the client's doing.
        let mut rest = Vec::new();
        drop(connection.read_to_end(&mut rest));
        let text = String::from_utf8_lossy(&rest);
        assert!(!text.starts_with("HTTP/1.1 200"), "{text}");
    }
    service.root.get("/v1/nodes").expect(200);
    drop(readers);
}
