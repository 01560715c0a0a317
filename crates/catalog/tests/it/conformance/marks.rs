//! Marks.

use catalog::Write;

use super::Engine;

pub(crate) fn a_mark_is_as_it_was_set_last(engine: &dyn Engine) {
    let catalog = engine.open();
    assert_eq!(catalog.mark("first").expect("is read"), None);
    let set = |name, value| catalog.commit(vec![Write::SetMark { name, value }]);
    set("first", i64::MAX).expect("is set");
    set("second", -1).expect("is set");
    set("second", 2).expect("is set again");
    // The databases of the tests run on this machine.
    assert_eq!(catalog.database_time().expect("is read"), None);
    let catalog = engine.reopen(catalog);
    assert_eq!(catalog.mark("first").expect("is read"), Some(i64::MAX));
    assert_eq!(catalog.mark("second").expect("is read"), Some(2));
    assert_eq!(catalog.mark("third").expect("is read"), None);
}
