//! Tests of the translation: statements of scripts, and nonsense.

use proptest::prelude::*;

use super::*;

const NOW: &str = "2026-11-26 15:20:30.000000";

#[track_caller]
fn check(statement: &str, expected: &str) {
    let translated = match translate(statement, NOW) {
        Ok(translation) => translation.sql,
        Err(message) => message.to_string(),
    };
    assert_eq!(translated, expected, "{statement}");
}

#[test]
fn times_minus_lengths_are_shifted() {
    check(
        "select message from actlog where date_time>current_timestamp - 24 hours",
        "SELECT MESSAGE FROM ACTLOG WHERE DATE_TIME > \
         db2_shift('2026-11-26 15:20:30.000000', -(24), 'HOUR')",
    );
    check(
        "select entity from summary where end_time>timestamp(current_date)-(7)days and bytes>0",
        "SELECT ENTITY FROM SUMMARY WHERE END_TIME > \
         db2_shift(db2_timestamp('2026-11-26'), -(( 7 )), 'DAY') AND BYTES > 0",
    );
    check(
        "select 1 from events where completed < CURRENT TIMESTAMP-1 DAY+2 HOURS",
        "SELECT 1 AS \"Unnamed[1]\" FROM EVENTS WHERE COMPLETED < \
         db2_shift(db2_shift('2026-11-26 15:20:30.000000', -(1), 'DAY'), +(2), 'HOUR')",
    );
}

#[test]
fn values_get_their_forms_from_functions() {
    check(
        "select to_char(start_time, 'YYYY-MM-DD'), varchar_format(end_time) from summary",
        "SELECT db2_format(START_TIME, 'YYYY-MM-DD') AS \"Unnamed[1]\" , db2_text(END_TIME) AS \
         \"Unnamed[2]\" FROM SUMMARY",
    );
}

#[test]
fn times_minus_times_are_lengths() {
    check(
        "select entity from summary where TIMESTAMPDIFF(4,CHAR(current_timestamp-start_time)) <= 9",
        "SELECT ENTITY FROM SUMMARY WHERE db2_timestampdiff(4, \
         db2_text(db2_between('2026-11-26 15:20:30.000000', START_TIME))) <= 9",
    );
    check(
        "select days(current date)-days(backup_end) age from filespaces",
        "SELECT db2_days('2026-11-26') - db2_days(BACKUP_END) AGE FROM FILESPACES",
    );
}

#[test]
fn casts_keep_their_decimals() {
    let statement = "select entity, cast(float(sum(bytes))/1024/1024 as dec(8,2)) as \"Sent MB\", \
                     count(*), decimal(pct_utilized, 5, 1) x from summary group by entity";
    let translation = translate(statement, NOW).expect("is SQL");
    assert_eq!(translation.decimals, [None, Some(2), None, Some(1)]);
    assert_eq!(
        translation.sql,
        "SELECT ENTITY , db2_decimal(CAST(SUM(BYTES) AS REAL) / 1024 / 1024, 2) AS \"Sent MB\" , \
         COUNT(*) AS \"Unnamed[3]\" , db2_decimal(PCT_UTILIZED, 1) X FROM SUMMARY GROUP BY ENTITY"
    );
    let translation = translate("select cast(node_name as char(15)), n.* from nodes n", NOW);
    let translation = translation.expect("is SQL");
    assert_eq!(translation.decimals, [None], "nothing is known after an asterisk");
    assert!(
        translation
            .sql
            .starts_with("SELECT db2_text(NODE_NAME, 15) AS \"Unnamed[1]\" , N.*")
    );
}

#[test]
fn what_only_db2_needs_is_left_out() {
    check(
        "select * from tsmdb1.nodes order by 1 fetch first 10 rows only with ur",
        "SELECT * FROM NODES ORDER BY 1 LIMIT 10",
    );
    check("sel node_name from nodes", "SELECT NODE_NAME FROM NODES");
    check(
        "select node_name from nodes fetch first row only;",
        "SELECT NODE_NAME FROM NODES LIMIT 1",
    );
    check(
        "select entity from summary where start_time >{ts '2011-09-21 00:00:00'} for read only",
        "SELECT ENTITY FROM SUMMARY WHERE START_TIME > '2011-09-21 00:00:00'",
    );
    check(
        "select ucase(node_name) concat left(contact,3) from nodes where \
         '2011-09-21-10.11.12'<reg_time",
        "SELECT UPPER(NODE_NAME) || SUBSTR(CONTACT, 1, 3) AS \"Unnamed[1]\" FROM NODES WHERE \
         '2011-09-21 10:11:12' < REG_TIME",
    );
}

#[test]
fn views_and_conditions_are_found() {
    let statement = "select b.ll_name from backups b, nodes n where b.node_name='ANNA' \
                     and filespace_name = '/home' and b.node_name in (select node_name from \
                     associations)";
    let translation = translate(statement, NOW).expect("is SQL");
    assert_eq!(translation.views, ["BACKUPS", "NODES", "ASSOCIATIONS"]);
    assert_eq!(translation.bounds.of("BACKUPS", "NODE_NAME"), Some("ANNA"));
    assert_eq!(translation.bounds.of("BACKUPS", "FILESPACE_NAME"), Some("/home"));
    assert_eq!(translation.bounds.of("BACKUPS", "LL_NAME"), None);
}

#[test]
fn mistakes_are_said_in_one_line() {
    let wrong = |reason: &str| format!("ANR2901E SELECT: The statement cannot be read: {reason}.");
    check("drop table nodes", &wrong("it does not begin with SELECT"));
    check("select (1 from nodes", &wrong("a parenthesis is not closed"));
    check("select 1) from nodes", &wrong("a parenthesis is closed that was not opened"));
    check("select cast(1 as blob) from nodes", &wrong("the type BLOB is not supported"));
    check("select 1 -- x", &wrong("two hyphens begin no comment here"));
    check("select @x from nodes", &wrong("it has a sign that means nothing: @"));
    check(&format!("select {}", "(".repeat(1000)), &wrong("its parentheses are too deep"));
    check("select 'x from nodes", "ANR2002E A quotation mark at the end is missing.");
}

proptest! {
    #[test]
    fn nonsense_is_translated_or_refused(rest in any::<String>()) {
        if let Err(message) = translate(&format!("select {rest}"), NOW) {
            prop_assert!(!message.to_string().contains(['\n', '\0']));
        }
    }

    #[test]
    fn words_in_any_order_are_translated_or_refused(
        words in prop::collection::vec(
            prop::sample::select(vec![
                "select", "from", "nodes", "(", ")", ",", "-", "+", "1", "days", "current", "cast",
                "timestamp", "as", "dec", "fetch", "first", "rows", "only", "*", "'x'", "reg_time",
                "case", "end", "{", "ts", "}", "with", "ur", "n.", "timestampdiff", "4",
            ]),
            0..25,
        ),
    ) {
        drop(translate(&format!("select {}", words.join(" ")), NOW));
    }
}
