//! DROP EXTENSION takes its tables along and leaves pgmq's queues; CREATE EXTENSION finds them again. In sessions that stay open.

use super::everything::{Sessions, contents, fill, problems};
use crate::black_box::harness::{Database, column, refusal, rows, value};
use postgres::error::SqlState;

#[test]
fn what_is_dropped_and_created_again_works_in_the_sessions_that_had_called_it_before() {
    let database = Database::new();
    let mut sessions = Sessions::new(&database);
    fill(&mut sessions.superuser);
    sessions.call_every_function("before");
    let late = value(&mut sessions.superuser, "select id from public.jobs where job_key = 'running'");

    sessions.superuser.batch_execute("drop extension hfs_lite").unwrap();
    for session in [&mut sessions.application, &mut sessions.operator, &mut sessions.superuser] {
        for call in [
            "select * from public.job_claim('mail', 'k', 'w', '2100-01-01', '{}', null)",
            "select * from public.event_bus_read('order.placed__mailer', 60, 1)",
            "select public.queue_write('mail', '{}', null, null)",
        ] {
            assert_eq!(refusal(session.simple_query(call)).code(), &SqlState::UNDEFINED_FUNCTION, "{call}");
        }
    }

    sessions
        .superuser
        .batch_execute("create extension hfs_lite; select public.hfs_lite_grant('operator', 'operator')")
        .unwrap();
    // The tables are new: who held a job before holds none now.
    let complete = format!("select * from public.job_complete('{late}', 1, null)");
    assert_eq!(column(&mut sessions.application, &complete), [""; 0]);
    sessions.call_every_function("after");
}

#[test]
fn queues_with_their_messages_and_bindings_outlive_the_extension() {
    let database = Database::new();
    let mut superuser = database.connect();
    fill(&mut superuser);
    let of_pgmq = |contents: std::collections::BTreeMap<String, String>| {
        contents.into_iter().filter(|(name, _)| name.starts_with("pgmq.")).collect::<Vec<_>>()
    };
    let before = of_pgmq(contents(&mut superuser));
    let read = "select msg_id from public.event_bus_read('order.placed__mailer', 60, 2)";
    superuser.batch_execute("drop extension hfs_lite").unwrap();
    assert_eq!(of_pgmq(contents(&mut superuser)), before);
    assert_eq!(column(&mut superuser, "select msg_id from pgmq.read('order.placed__mailer', 60, 1)"), ["6"]);
    superuser.batch_execute("create extension hfs_lite").unwrap();

    assert_eq!(column(&mut superuser, read), ["7", "8"]);
    // What was recorded is gone with its table, and is found again.
    let not_recorded: Vec<Vec<String>> = [
        ["unrecorded_subscription", "order.placed", "order.placed__audit"],
        ["unrecorded_subscription", "order.placed", "order.placed__mailer"],
        ["unrecorded_subscription", "order.#", "orders"],
    ]
    .map(|row| row.map(String::from).to_vec())
    .to_vec();
    assert_eq!(problems(&mut superuser), not_recorded);
    assert_eq!(rows(&mut superuser, "select * from public.event_bus_record()").len(), 3);
    assert!(problems(&mut superuser).is_empty());
    let send = "select * from public.event_bus_send('order.placed', '{\"payload\": {\"dedupeKey\": \"k\"}}')";
    assert_eq!(value(&mut superuser, send), "3");
}

#[test]
fn what_depends_on_the_extension_or_is_needed_by_it_is_not_dropped_by_accident() {
    let database = Database::new();
    let mut superuser = database.connect();
    superuser.batch_execute("create view public.mine as select id from public.jobs").unwrap();
    let error = refusal(superuser.simple_query("drop extension hfs_lite"));
    assert_eq!(error.code(), &SqlState::DEPENDENT_OBJECTS_STILL_EXIST);
    assert!(error.detail().is_some_and(|detail| detail.contains("view mine")), "{error:?}");
    superuser.batch_execute("drop view public.mine").unwrap();

    let error = refusal(superuser.simple_query("drop extension pgmq"));
    assert_eq!(error.code(), &SqlState::DEPENDENT_OBJECTS_STILL_EXIST);
    assert!(error.detail().is_some_and(|detail| detail.contains("extension hfs_lite")), "{error:?}");
    for call in ["drop table public.jobs", "drop function public.queue_waiting(integer)"] {
        let error = refusal(superuser.simple_query(call));
        assert_eq!(error.code(), &SqlState::DEPENDENT_OBJECTS_STILL_EXIST, "{call}");
        assert!(error.hint().is_some_and(|hint| hint.contains("extension hfs_lite")), "{error:?}");
    }
}
