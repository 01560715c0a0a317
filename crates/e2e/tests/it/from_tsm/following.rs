//! Schedules of a node whose option files change while its scheduler runs.

use std::ffi::OsString;
use std::fs;

use e2e::harness::start;
use rustix::process::Signal;

use super::Site;
use crate::fleet::eventually;

/// A statement that was added to a list counted for `dsmc`, and for schedules only after an import
/// by hand, so that they sent what the list leaves out.
#[test]
fn a_schedule_leaves_out_what_the_list_has_learned() {
    let site = Site::new(1);
    let options = fs::read_to_string(&site.options).unwrap();
    fs::write(&site.options, format!("{options}DOMAIN {}\n", site.tree())).unwrap();
    let words = [format!("-optfile={}", site.options.display()), "schedule".to_owned()];
    let home = site.scene.node.home();
    let program = site.programs.join("dsmc");
    let scheduler = start(&program, &words.map(OsString::from), home, None);
    let of_node = home.join("inclexcl");
    let has = |text: &str| fs::read_to_string(&of_node).is_ok_and(|list| list.contains(text));
    assert!(eventually(|| has("exclude.dir /.../cache")), "the list at the start");

    let list = site.options.with_file_name("inclexcl.list");
    fs::write(list, "exclude /.../late\n").unwrap();
    assert!(eventually(|| has("exclude /.../late")), "the changed list");
    let [late, other] = ["late", "other"].map(|name| site.scene.tree.join(name));
    for path in [&late, &other] {
        fs::write(path, b"new").unwrap();
    }
    let run = ["run", "--json", "anna", "--", "incremental"];
    site.scene.server.spawn_admin(&run).wait().expect(&[0]);
    site.dsmc(&["q", "ba", late.to_str().unwrap()]).expect(&[8]);
    site.dsmc(&["q", "ba", other.to_str().unwrap()]).expect(&[0]);
    scheduler.signal(Signal::TERM);
    drop(scheduler.wait());
}
