//! hfs_lite: fenced jobs, an outbox, an idempotency inbox and an event bus, as functions of the database.
//!
//! Each family is a room of its own: `src/<family>.rs` holds its statements and its functions, `sql/<family>.sql` its tables
//! and what the catalog says of them, `pgrx-tests/<family>.rs` its tests, `docs/<family>.md` its page of the guide.

use pgrx::prelude::*;

mod argument;
mod canonical_json;
mod error;
mod settings;
mod statement;
mod sweeper;

mod doors;
mod event_bus;
mod fingerprint;
mod inbox;
mod jobs;
mod queue;
mod subscriptions;
mod ticks;
mod watch;

::pgrx::pg_module_magic!(name, version);

/// What PostgreSQL calls when it loads the library: at the server's start where it is preloaded, else in each session at the first
/// call of a function.
#[pg_guard]
pub extern "C-unwind" fn _PG_init() {
    settings::define();
    if statement::server::takes_workers() {
        sweeper::register();
    }
}

// The install script: what is needed, then the functions, which pgrx writes, then a file a family, then what is adopted,
// then the views, then the rights.
extension_sql_file!("../sql/requirements.sql", bootstrap);
extension_sql_file!(
    "../sql/jobs.sql",
    name = "jobs",
    requires = [
        jobs::job_claim,
        jobs::job_claim_many,
        jobs::job_heartbeat,
        jobs::job_advance,
        jobs::job_complete,
        jobs::job_fail,
        jobs::job_complete_many,
        jobs::job_fail_many,
        jobs::jobs_sweep
    ]
);
extension_sql_file!("../sql/ticks.sql", name = "ticks", requires = [ticks::job_tick_claim]);
extension_sql_file!(
    "../sql/queue.sql",
    name = "queue",
    requires =
        [queue::queue_write, queue::queue_write_many, queue::queue_waiting, queue::queue_mark_sent, queue::queue_sweep]
);
extension_sql_file!(
    "../sql/inbox.sql",
    name = "inbox",
    requires = [
        inbox::inbox_claim_event,
        inbox::inbox_claim_events,
        inbox::inbox_claim_client,
        inbox::inbox_claim_request,
        inbox::inbox_save_client_outcome,
        inbox::inbox_sweep_clients,
        inbox::inbox_sweep_events,
        inbox::inbox_forget
    ]
);
extension_sql_file!(
    "../sql/fingerprint.sql",
    name = "fingerprint",
    requires = [fingerprint::canonical_json, fingerprint::request_fingerprint]
);
extension_sql_file!(
    "../sql/event_bus.sql",
    name = "event_bus",
    requires = [
        event_bus::event_bus_send_envelope,
        event_bus::event_bus_send,
        event_bus::event_bus_send_many,
        event_bus::event_bus_read,
        event_bus::event_bus_archive,
        event_bus::event_bus_archive_many,
        event_bus::event_bus_extend,
        event_bus::event_bus_bury,
        event_bus::event_bus_dead_letters,
        event_bus::event_bus_all_dead_letters,
        event_bus::event_bus_requeue,
        event_bus::event_bus_sweep
    ]
);
extension_sql_file!(
    "../sql/subscriptions.sql",
    name = "subscriptions",
    requires = [
        subscriptions::event_bus_subscribe,
        subscriptions::event_bus_unsubscribe,
        subscriptions::event_bus_record,
        subscriptions::event_bus_check,
        subscriptions::event_bus_repair
    ]
);
extension_sql_file!("../sql/doors.sql", name = "doors", requires = [doors::hfs_lite_grant, doors::hfs_lite_revoke]);
// What makes views of the tables comes after it, since it may put others in their place.
extension_sql_file!(
    "../sql/take_over.sql",
    name = "take_over",
    requires = [
        "jobs",
        "ticks",
        "queue",
        "inbox",
        "fingerprint",
        "event_bus",
        "subscriptions",
        "doors",
        watch::hfs_lite_health,
        watch::hfs_lite_age
    ]
);
extension_sql_file!("../sql/watch.sql", name = "watch", requires = ["take_over"]);
extension_sql_file!("../sql/privileges.sql", finalize);

// The tests are under pgrx-tests/; they are compiled into the extension's crate to be run by cargo pgrx test.
#[cfg(test)]
#[path = "../pgrx-tests/mod.rs"]
mod black_box;

/// pgrx starts its server for a test that runs inside it; this is the one that it starts for.
#[cfg(any(test, feature = "pg_test"))]
#[pg_schema]
mod tests {
    use pgrx::prelude::*;

    #[pg_test]
    fn the_server_is_up() {}
}

/// How pgrx's test framework sets up its server.
#[cfg(test)]
pub mod pg_test {
    pub fn setup(_options: Vec<&str>) {}

    pub fn postgresql_conf_options() -> Vec<&'static str> {
        crate::black_box::harness::SETTINGS.to_vec()
    }
}
