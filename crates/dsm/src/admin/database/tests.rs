//! Tests of statements, over small views.

use super::*;
use crate::admin::dialect::translate;
use crate::admin::table::{Form, Layout, render};
use crate::admin::view;

const NOW: &str = "2026-11-26 15:20:30.000000";

fn tables() -> Vec<Table> {
    let mut nodes = Table::new(&view::NODES);
    for (name, domain, registered) in [
        ("anna", "STANDARD", "2026-11-01 08:00:00.000000"),
        ("bert", "LONG", "2026-11-26 15:00:00.000000"),
        ("Carl", "LONG", "2025-01-31 12:00:00.000000"),
    ] {
        nodes.add([
            ("NODE_NAME", name.into()),
            ("DOMAIN_NAME", domain.into()),
            ("REG_TIME", registered.into()),
            ("LOCKED", "NO".into()),
        ]);
    }
    let mut summary = Table::new(&view::SUMMARY);
    for (entity, activity, bytes, begin, end) in [
        ("anna", "BACKUP", 5_u64 << 30, "2026-11-26 01:00:00.000000", "2026-11-26 02:30:15.000000"),
        ("anna", "BACKUP", 1 << 20, "2026-11-20 01:00:00.000000", "2026-11-20 01:01:00.000000"),
        ("bert", "ARCHIVE", 300, "2026-11-26 03:00:00.000000", "2026-11-26 03:00:01.000000"),
    ] {
        summary.add([
            ("ENTITY", entity.into()),
            ("ACTIVITY", activity.into()),
            ("BYTES", bytes.into()),
            ("START_TIME", begin.into()),
            ("END_TIME", end.into()),
        ]);
    }
    let mut events = Table::new(&view::EVENTS);
    events.add([("NODE_NAME", "anna".into()), ("STATUS", "Missed".into())]);
    let mut one = Table::new(&view::SYSDUMMY1);
    one.add([("IBMREQD", "Y".into())]);
    let mut pools = Table::new(&view::STGPOOLS);
    pools.add([
        ("STGPOOL_NAME", "DISK".into()),
        ("PCT_UTILIZED", Value::Real(0.000_196_350_91)),
        ("EST_CAPACITY_MB", Value::Real(12.26)),
    ]);
    vec![nodes, summary, events, one, pools]
}

fn answer(statement: &str) -> Result<Answer, Message> {
    select(&translate(statement, NOW)?, &tables(), || true)
}

#[track_caller]
fn check(statement: &str, expected: &str) {
    let layout = Layout { form: Some(Form::Comma), width: 80, has_headings: false };
    let shown = match answer(statement) {
        Ok(answer) => render(&answer.listing, layout),
        Err(message) => message.to_string(),
    };
    assert_eq!(shown.trim_end(), expected, "{statement}");
}

#[test]
fn statements_of_scripts_give_their_answers() {
    check("select count(*) from nodes", "3");
    check("select node_name from nodes where node_name='ANNA'", "anna");
    check(
        "select domain_name, count(*) from nodes group by domain_name order by 2",
        "STANDARD,1\nLONG,2",
    );
    check(
        "select entity, cast(float(sum(bytes))/1024/1024/1024 as dec(8,2)) as gb from summary \
         where end_time>current_timestamp-24 hours and activity='BACKUP' group by entity",
        "anna,5.00",
    );
    check(
        "select entity from summary where activity='BACKUP' and \
         TIMESTAMPDIFF(4,CHAR(current_timestamp-start_time)) <= 1440 group by entity",
        "anna",
    );
    check(
        "select substr(char(end_time - start_time),9,6) from summary where bytes>5000000000",
        "013015",
    );
    check("select timestampdiff(2, char(end_time-start_time)) from summary where bytes=300", "1");
    check(
        "select (end_time-start_time) seconds from summary where \
         cast((current_timestamp-start_time)hours as decimal) < 24 order by 1",
        "1\n5415",
    );
    check(
        "select node_name, days(current_date)-days(reg_time) from nodes order by reg_time",
        "Carl,664\nanna,25\nbert,0",
    );
    check(
        "select t.node_name from nodes t inner join events e on t.node_name=e.node_name \
         where e.status='Missed' union all select 'x' from sysibm.sysdummy1",
        "anna\nx",
    );
    check("select node_name from nodes where node_name like upper('%an%')", "anna");
    check(
        "SELECT ACTIVITY,SUM(BYTES),MAX(END_TIME) FROM SUMMARY WHERE ACTIVITY NOT IN \
         ('TAPE MOUNT') GROUP BY ACTIVITY,DATE(END_TIME) ORDER BY DATE(END_TIME) DESC \
         fetch first 1 rows only",
        "ARCHIVE,300,2026-11-26 03:00:01.000000",
    );
    check(
        "select date(reg_time), hour(reg_time) from nodes where locked='NO' and node_name='bert'",
        "2026-11-26,15",
    );
    check("select sum(case when bytes>1000 then 1 else 0 end) n from summary", "2");
    check(
        "select dayname(current_date), left('abcdef',3)||'x' from sysibm.sysdummy1",
        "Thursday,abcx",
    );
}

#[test]
fn times_of_scripts_are_reckoned() {
    check("select current_date - 1 month from sysdummy1", "2026-10-26");
    check(
        "select current_time - 20 minutes, current time - 16 hours from sysdummy1",
        "15:00:30,23:20:30",
    );
    check(
        "select timestamp('2026-01-02', '10.00.30'), hour('15.20.30') from sysdummy1",
        "2026-01-02 10:00:30.000000,15",
    );
    check(
        "select count(*) from summary where date(start_time) = current_date - 6 days and \
         date(end_time) between current date - 6 days and current date - 1 day",
        "1",
    );
    check(
        "select current_date + 1 day - 1 hour, date(start_time) + 1 year from summary where \
         bytes=300",
        "2026-11-26 23:00:00.000000,2027-11-26",
    );
    check(
        "select sum(seconds_between(end_time, start_time)), hour(current_time), \
         timestamp(current_date, '08:00:00') from summary",
        "5476,15,2026-11-26 08:00:00.000000",
    );
}

#[test]
fn statements_of_scripts_stand_in_statements() {
    check(
        "SELECT ROUND(FLOAT(s)*100/t,1) pct FROM(SELECT COUNT(*) t,SUM(CASE WHEN bytes>1000 THEN 1 \
         ELSE 0 END) s FROM(SELECT bytes FROM summary WHERE activity IN('BACKUP','ARCHIVE') AND \
         end_time>=CURRENT TIMESTAMP-240 HOURS UNION ALL SELECT 5 FROM events WHERE \
         status='Missed')x)a WHERE t>0",
        "50",
    );
    check(
        "select node_name from nodes where node_name not in (select node_name from events) and \
         reg_time between current_timestamp - 1 day and current_timestamp",
        "bert",
    );
    check("select contact from nodes where contact is null and node_name='bert'", "");
}

/// The same number had all its digits beside a text, and one decimal alone.
#[test]
fn numbers_that_are_joined_with_texts_are_rounded_as_alone() {
    check("select pct_utilized, est_capacity_mb from stgpools", "0.0,12.3");
    check(
        "select stgpool_name||'='||pct_utilized, p.est_capacity_mb concat ' MB', \
         pct_migr||'x' is null from stgpools p",
        "DISK=0.0,12.3 MB,1",
    );
    check("select concat(stgpool_name, pct_utilized) from stgpools", "DISK0.0");
    check("select stgpool_name from stgpools where pct_utilized > 0", "DISK");
}

#[test]
fn functions_of_scripts_give_their_answers() {
    check(
        "select to_date('05/11/2026', 'DD/MM/YYYY'), ceil(-0.5) from sysdummy1",
        "2026-11-05 00:00:00.000000,0",
    );
    check("select 0.29*100, decimal(0.29*100,5,0), 7/2 from sysdummy1", "29,29,3");
    check(
        "select strip('0012', L, '0'), strip('120', trailing, '0'), strip(' a '), \
         char_length('abc'), greatest(3,5), least(3,5), nvl2(null,1,2), \
         add_months(date('2026-01-31'),1), add_months('2026-02-28',1), week_iso('2026-01-01'), \
         varchar_format('12.25', '99.99') from sysdummy1",
        "12,12,a,3,5,3,2,2026-02-28,2026-03-31,1, 12.25",
    );
    check(
        "select dec(7)/2, cast(7 as decimal(5,1))/4 as quarter, dec(7,5,2)/2 half, dec(7,5,2) - \
         dec(1.5,5,1), dec(7,5,2) x, dec(7,5,2) + 1 from sysdummy1",
        "3.5,1.75,3.5,5.50,7.00,8.00",
    );
    check(
        "select to_char(start_time, 'DD Mon YYYY HH24:MI'), varchar_format(bytes, '999,999') from \
         summary where bytes=300",
        "26 Nov 2026 03:00,     300",
    );
    check(
        "select translate('a bc:de:fg', digits(end_time-start_time), '_______abcdefg______') from \
         summary where bytes=300",
        "0 00:00:01",
    );
    check(
        "select translate('abc'), monthname(current_date), digits(7) from sysdummy1",
        "ABC,November,0000000007",
    );
    check(
        "select char(date(reg_time), eur), char(date(reg_time),iso), trunc(2.567, 1) from nodes \
         where node_name='bert'",
        "26.11.2026,2026-11-26,2.5",
    );
}

#[test]
fn functions_of_scripts_sum_up_and_take_times_apart() {
    check("select listagg(entity, '+') from summary where activity='BACKUP'", "anna+anna");
    check(
        "select listagg(entity) within group (order by entity) from summary where \
         bytes<5000000000",
        "annabert",
    );
    check("select char(time(end_time), iso) from summary where bytes=300", "03.00.01");
    check("select midnight_seconds(end_time) from summary where bytes=300", "10801");
    check(
        "select hour(end_time - start_time), minute(end_time - start_time), \
         second(end_time - start_time), day(start_time - end_time) from summary \
         where bytes>5000000000",
        "1,30,15,0",
    );
    check(
        "select ceil(3.2), ceiling(-3.2), floor(3.9), lpad(7, 3, '0'), rpad('ab', 4) || '|', \
         lpad('abc', 2), repeat('ab', 2) || space(2) || '|' from sysdummy1",
        "4,-3,3,007,ab  |,ab,abab  |",
    );
    check(
        "select dayofyear(current_date), week(current_date), quarter(current_date), \
         last_day(current_date), julian_day(current_date), microsecond(current_timestamp) \
         from sysdummy1",
        "330,48,4,2026-11-30,2461371,0",
    );
    check(
        "select decode(activity, 'BACKUP', 'b', 'ARCHIVE', 'a', '-'), decode(bytes, 300, 'few') \
         from summary where bytes=300",
        "a,few",
    );
    check(
        "select count(*) from nodes where reg_time > to_date('11/25/2026 23:00', \
         'MM/DD/YYYY HH24:MI') and reg_time > to_date('11/25/2026', 'MM/DD/YYYY') and \
         reg_time < timestamp_format('2026-11-27', 'YYYY-MM-DD')",
        "1",
    );
    check(
        "select timestamp(reg_time, 0), timestamp(reg_time, 2) from nodes where node_name='bert'",
        "2026-11-26 15:00:00,2026-11-26 15:00:00.00",
    );
    let message = answer("select to_char(end_time, 'QQ') from summary").expect_err("is refused");
    assert!(message.to_string().contains("the form 'QQ' is not supported"), "{message}");
}

#[test]
fn columns_have_names() {
    let headings = |statement: &str| {
        let answer = answer(statement).expect("is SQL");
        answer
            .listing
            .headings
            .into_iter()
            .map(|heading| heading.text)
            .collect::<Vec<_>>()
    };
    assert_eq!(
        headings("select node_name, count(*), max(reg_time) as \"Last One\" from nodes"),
        ["NODE_NAME", "Unnamed[2]", "Last One"]
    );
    assert_eq!(headings("select * from events").len(), view::EVENTS.columns().count());
}

#[test]
fn a_statement_can_only_read() {
    for statement in [
        "with x as (select 1) delete from nodes",
        "select load_extension('x') from nodes",
        "select * from sqlite_master where writefile('x','y')",
        "with recursive x as (select 1 union all select 1 from x) select count(*) from x",
    ] {
        let message = answer(statement).expect_err("is refused");
        assert!(!message.to_string().contains('\n'), "{message}");
        assert_ne!(message.code, ReturnCode::Done);
    }
    check("select nosuch from nodes", "ANR2940E SELECT: There is no column NOSUCH.");
    let message = answer("select 1 from nosuch").expect_err("is refused").to_string();
    assert!(
        message.starts_with("ANR2938E SELECT: There is no table NOSUCH; the tables are NODES,")
    );
    let message = answer("select \"anna\" from nodes").expect_err("is no text").to_string();
    assert!(message.contains("There is no column"), "{message}");
}

#[test]
fn a_statement_ends_in_time() {
    let many = "select count(*) from nodes a, nodes b, nodes c, nodes d, nodes e, nodes f, nodes \
         g, \
                nodes h, nodes i, nodes j, nodes k, nodes l, nodes m, nodes n, nodes o, nodes p";
    let translation = translate(many, NOW).expect("is SQL");
    let mut questions = 0;
    let ended = select(&translation, &tables(), move || {
        questions += 1;
        questions < 100
    });
    let message = ended.expect_err("it ends").to_string();
    assert!(message.contains("it takes too long; add conditions"), "{message}");
}

#[test]
fn a_value_has_a_limit() {
    let message = answer("select length(zeroblob(1000000000)) from nodes").expect_err("is refused");
    assert!(message.to_string().contains("too big"), "{message}");
}

#[test]
fn programs_get_values_under_the_names_of_columns() {
    let statement = "select node_name, 1.5, reg_admin, node_name from nodes where node_name='ANNA'";
    let records = answer(statement).expect("an answer").records;
    assert_eq!((records.names[0].as_str(), records.names.len()), ("NODE_NAME", 4));
    let anna = || Value::Text("anna".to_owned());
    assert_eq!(records.rows, [vec![anna(), Value::Real(1.5), Value::Missing, anna()]]);
    assert_ne!(records.names[0], records.names[3], "each name is there once");
}

#[test]
fn a_table_that_is_absent_says_what_shows_the_same() {
    for (table, part) in [
        ("backupsets", "holdfast image backup"),
        ("containers", "query stgpool"),
        ("damaged", "holdfast admin audit"),
        ("dbspace", "DB has the space"),
        ("devclasses", "no device classes"),
        ("drmedia", "access=offsite"),
        ("drmstatus", "holdfast server recovery"),
        ("licenses", "no licence"),
        ("media", "query volume"),
        ("nodegroups", "labels"),
        ("options", "server.toml"),
        ("replicationview", "pool copy"),
        ("replrules", "pool copy"),
        ("restores", "run again"),
        ("retrules", "holdfast archives"),
        ("retsets", "holdfast archives"),
        ("scripts", "macro"),
        ("stgpool_dirs", "pool list"),
        ("stgrules", "query stgpool"),
        ("volumeusage", "volumes of a node"),
    ] {
        let message = answer(&format!("select * from {table}")).expect_err(table).to_string();
        let begin = format!("ANR2938E SELECT: There is no table {}; ", table.to_uppercase());
        let rest = message.strip_prefix(&begin).expect(&message);
        assert!(rest.contains(part) && !rest.contains("the tables are"), "{message}");
    }
}
