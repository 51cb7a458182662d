//! The sweeper: where the library is preloaded, rows that are past their retention are deleted by themselves.
//!
//! One process looks after the databases that the settings name, round after round. It is in none of them itself, so
//! that each can be dropped or renamed; for each it starts a process that sweeps it and ends. PostgreSQL starts the
//! first one again after an error or a crash, and not before a standby is promoted.

use crate::settings;
use crate::statement::server;
use pgrx::bgworkers::{BackgroundWorker, BackgroundWorkerBuilder};
use pgrx::pg_sys::panic::ErrorReportable;
use pgrx::prelude::*;
use std::collections::HashMap;
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

/// How long PostgreSQL waits before it starts the sweeper again after an error.
const RESTART: Duration = Duration::from_secs(5);

/// How many rows a transaction deletes at most: some milliseconds, for which nothing is worth waiting.
const BATCH: i32 = 1_000;

/// Has PostgreSQL start the sweeper. Only while the server starts.
pub fn register() {
    BackgroundWorkerBuilder::new("hfs_lite sweeper")
        .set_library("hfs_lite")
        .set_function("hfs_lite_sweeper_main")
        .enable_spi_access()
        .set_restart_time(Some(RESTART))
        .load();
}

// ---------------------------------------------------------------------------------------------------------------------
// Round after round
// ---------------------------------------------------------------------------------------------------------------------

/// Has the databases swept until the server stops, which ends this process wherever it is.
pub fn look_after_databases() {
    let mut obstacles = HashMap::new();
    loop {
        let names = settings::sweep_databases();
        obstacles.retain(|name, _| names.contains(name));
        for name in names {
            let obstacle = have_swept(&name).err();
            // An obstacle is said when it appears, and not in every round.
            if let Some(obstacle) = &obstacle
                && obstacles.get(&name) != Some(obstacle)
            {
                log!("hfs_lite sweeper: database \"{name}\" is not swept: {obstacle}");
            }
            match obstacle {
                Some(obstacle) => obstacles.insert(name, obstacle),
                None => obstacles.remove(&name),
            };
        }
        if !pause() {
            return;
        }
    }
}

fn have_swept(name: &str) -> Result<(), String> {
    let database = server::transaction("looking for databases", || server::database(name))?;
    let database = database.ok_or("there is no database of this name that takes connections")?;
    if server::run_in_database(database, name) {
        Ok(())
    } else {
        Err("all background workers are taken; raise max_worker_processes".into())
    }
}

/// Waits for the next round: for the time to come, or for other settings. False where the server is gone.
fn pause() -> bool {
    let since = Instant::now();
    while !server::reload_settings()
        && let Some(left) = settings::sweep_interval().checked_sub(since.elapsed())
    {
        if !BackgroundWorker::wait_latch(Some(left)) {
            return false;
        }
    }
    true
}

// ---------------------------------------------------------------------------------------------------------------------
// In a database
// ---------------------------------------------------------------------------------------------------------------------

/// What is swept by one function and one setting.
struct Rows {
    name: &'static str,
    retention: &'static settings::Text,
    function: &'static str,
    /// Its call, with the retention and the batch as parameters, and a queue's name where it takes one.
    call: &'static str,
}

const TABLES: [Rows; 4] = [
    Rows {
        name: "jobs",
        retention: &settings::RETAIN_JOBS,
        function: "public.jobs_sweep(timestamptz, integer)",
        call: "select deleted_count from public.jobs_sweep(now() - $1, $2)",
    },
    Rows {
        name: "queue",
        retention: &settings::RETAIN_QUEUE,
        function: "public.queue_sweep(timestamptz, integer)",
        call: "select deleted_count from public.queue_sweep(now() - $1, $2)",
    },
    Rows {
        name: "inbox_clients",
        retention: &settings::RETAIN_INBOX_CLIENTS,
        function: "public.inbox_sweep_clients(timestamptz, integer)",
        call: "select deleted_count from public.inbox_sweep_clients(now() - $1, $2)",
    },
    Rows {
        name: "inbox_events",
        retention: &settings::RETAIN_INBOX_EVENTS,
        function: "public.inbox_sweep_events(timestamptz, integer)",
        call: "select deleted_count from public.inbox_sweep_events(now() - $1, $2)",
    },
];

const ARCHIVES: Rows = Rows {
    name: "event_bus",
    retention: &settings::RETAIN_EVENT_BUS,
    function: "public.event_bus_sweep(text, timestamptz, integer)",
    call: "select deleted_count from public.event_bus_sweep($3, now() - $1, $2)",
};

/// The queues of the bus: those that are bound to a topic or recorded so, and their dead-letter queues. What else has a
/// queue of pgmq's keeps its archive for reasons of its own.
const QUEUES: &str = "
    select m.queue_name::text
      from pgmq.meta m
     where exists (
        select from (select b.queue_name::text from pgmq.topic_bindings b
                     union all select s.queue::text from public.event_bus_subscriptions s) c (queue)
         where m.queue_name in (c.queue, c.queue || '__dead'))
     order by 1";

/// Whether the extension has this function: a schema that was not updated yet lacks some.
const HAS_FUNCTION: &str = "
    select exists (
        select from pg_depend d join pg_extension e on e.oid = d.refobjid and e.extname = 'hfs_lite'
         where d.refclassid = 'pg_extension'::regclass and d.deptype = 'e'
           and d.classid = 'pg_proc'::regclass and d.objid = to_regprocedure($1))";

/// Sweeps the database that this process is in, each table and archive until nothing old is left.
pub fn sweep_database(database: &str) {
    let _ = sweep_all(database);
}

/// It breaks off where the process must leave the database.
fn sweep_all(database: &str) -> ControlFlow<()> {
    for table in &TABLES {
        sweep(database, table, None)?;
    }
    for queue in queues(database)? {
        sweep(database, &ARCHIVES, Some(&queue))?;
    }
    ControlFlow::Continue(())
}

fn queues(database: &str) -> ControlFlow<(), Vec<String>> {
    let queues = server::transaction("looking for queues", || {
        held()?;
        if settings::retention(ARCHIVES.retention).is_none() || !is_there(ARCHIVES.function) {
            return ControlFlow::Continue(Vec::new());
        }
        let names = Spi::connect(|client| {
            let rows = client.select(QUEUES, None, &[])?;
            rows.map(|row| row.get::<String>(1)).collect::<Result<Vec<_>, _>>()
        });
        ControlFlow::Continue(names.unwrap_or_report().into_iter().flatten().collect())
    });
    queues.unwrap_or_else(|error| {
        warn(database, ARCHIVES.name, None, &error);
        ControlFlow::Continue(Vec::new())
    })
}

/// Sweeps one table, or a queue's archive. An error is logged, and is none of the next one's business.
fn sweep(database: &str, rows: &Rows, queue: Option<&str>) -> ControlFlow<()> {
    let mut deleted = 0;
    let end = loop {
        server::reload_settings();
        match server::transaction(rows.function, || batch(rows, queue)) {
            Ok(ControlFlow::Continue(count)) => {
                deleted += i64::from(count);
                if count < BATCH {
                    break ControlFlow::Continue(());
                }
            }
            Ok(ControlFlow::Break(())) => break ControlFlow::Break(()),
            Err(error) => {
                warn(database, rows.name, queue, &error);
                break ControlFlow::Continue(());
            }
        }
    };
    if deleted > 0 {
        log!("hfs_lite sweeper: deleted {deleted} rows of {} in database \"{database}\"", named(rows.name, queue));
    }
    end
}

/// Deletes a batch of old rows; how many there were.
fn batch(rows: &Rows, queue: Option<&str>) -> ControlFlow<(), i32> {
    held()?;
    let Some(retention) = settings::retention(rows.retention).filter(|_| is_there(rows.function)) else {
        return ControlFlow::Continue(0);
    };
    let parameters = [retention.into(), BATCH.into(), queue.into()];
    let parameters = if queue.is_some() { &parameters[..] } else { &parameters[..2] };
    let count = Spi::connect(|client| client.select(rows.call, None, parameters)?.first().get_one::<i32>());
    ControlFlow::Continue(count.unwrap_or_report().unwrap_or_default())
}

/// Keeps database and extension in place until the transaction ends.
fn held() -> ControlFlow<()> {
    if server::hold_database() && server::hold_extension() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
}

fn is_there(function: &str) -> bool {
    let found = Spi::connect(|client| client.select(HAS_FUNCTION, None, &[function.into()])?.first().get_one::<bool>());
    found.unwrap_or_report().unwrap_or_default()
}

fn warn(database: &str, name: &str, queue: Option<&str>, error: &str) {
    warning!("hfs_lite sweeper: could not sweep {} in database \"{database}\": {error}", named(name, queue));
}

fn named(name: &str, queue: Option<&str>) -> String {
    queue.map_or_else(|| name.to_owned(), |queue| format!("{name}, queue \"{queue}\","))
}
