//! What this extension asks of the server around its statements: settings that are checked when they are set,
//! background workers, and locks that keep things in place.
//!
//! Nobody waits for an answer here whose errors would have to arrive whole. So all of it goes through pgrx's guard: an
//! ERROR comes as a panic, which unwinds, and Rust values may live across these calls. [`transaction`] gives it back as
//! a value.

use crate::{settings, sweeper};
use pgrx::bgworkers::{BackgroundWorker, BackgroundWorkerBuilder};
use pgrx::guc::{GucContext, GucFlags, GucRegistry};
use pgrx::memcxt::PgMemoryContexts;
use pgrx::pg_sys::panic::CaughtError;
use pgrx::pg_sys::{self, Datum, Oid};
use pgrx::prelude::*;
use std::cell::Cell;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::panic::AssertUnwindSafe;
use std::ptr;

// Handlers of signals, which PostgreSQL calls by itself: no place for pgrx's guard.
#[allow(non_snake_case)]
unsafe extern "C-unwind" {
    fn die(signal: c_int);
    fn SignalHandlerForConfigReload(signal: c_int);
}

#[cfg(not(feature = "pg18"))]
use pg_sys::pqsignal;
#[cfg(feature = "pg18")]
use pg_sys::pqsignal_be as pqsignal;

// ---------------------------------------------------------------------------------------------------------------------
// Settings
// ---------------------------------------------------------------------------------------------------------------------

thread_local! {
    /// The retention that is being defined.
    static DEFINING: Cell<Option<&'static CStr>> = const { Cell::new(None) };
}

/// Defines a setting that holds an interval, or nothing; whatever else is refused when it is set.
pub fn define_retention(
    name: &'static CStr,
    short: &'static CStr,
    long: &'static CStr,
    setting: &'static settings::Text,
) {
    DEFINING.set(Some(name));
    // SAFETY: the hook is guarded.
    unsafe {
        GucRegistry::define_string_guc_with_hooks(
            name,
            short,
            long,
            setting,
            GucContext::Sighup,
            GucFlags::default(),
            Some(check_retention),
            None,
            None,
        );
    }
    DEFINING.set(None);
}

#[pg_guard]
unsafe extern "C-unwind" fn check_retention(
    value: *mut *mut c_char,
    _extra: *mut *mut c_void,
    _source: pg_sys::GucSource::Type,
) -> bool {
    // SAFETY: PostgreSQL passes a C string of its own making, and prints what the two pointers lead to before it goes
    // on.
    unsafe {
        let Err(why) = settings::parse_retention(CStr::from_ptr(*value)) else { return true };
        if let Some(name) = DEFINING.get() {
            // There is no old value yet. To refuse this one would leave the default in force, and rows would go that
            // somebody wanted to keep.
            let (name, text) = (name.to_string_lossy(), CStr::from_ptr(*value).to_string_lossy());
            warning!(
                "{name} is empty, and its rows are kept for ever: \"{text}\" is no retention. {}",
                why.to_string_lossy()
            );
            (*value).write(0);
            return true;
        }
        pg_sys::GUC_check_errdetail_string = why.as_ptr().cast_mut();
        pg_sys::GUC_check_errhint_string =
            c"Set it to an interval such as '30 days', or to '' to keep all rows.".as_ptr().cast_mut();
        false
    }
}

/// Whether a setting that is not defined yet was given a value for this session, by the options of its connection or by ALTER
/// ROLE or ALTER DATABASE ... SET.
pub fn is_of_session(name: &CStr) -> bool {
    // SAFETY: PostgreSQL's own list of its settings.
    unsafe {
        let settings = settings();
        let setting = settings.iter().find(|setting| CStr::from_ptr((***setting).name) == name);
        setting.is_some_and(|setting| (**setting).reset_source > pg_sys::GucSource::PGC_S_ARGV)
    }
}

#[cfg(feature = "pg15")]
unsafe fn settings<'a>() -> &'a [*mut pg_sys::config_generic] {
    unsafe { std::slice::from_raw_parts(pg_sys::get_guc_variables(), pg_sys::GetNumConfigOptions() as usize) }
}

#[cfg(not(feature = "pg15"))]
unsafe fn settings<'a>() -> &'a [*mut pg_sys::config_generic] {
    let mut count = 0;
    unsafe { std::slice::from_raw_parts(pg_sys::get_guc_variables(&mut count), count as usize) }
}

/// Has PostgreSQL refuse settings whose names begin with the prefix and that were not defined.
pub fn reserve_prefix(prefix: &'static CStr) {
    // SAFETY: the text lives for ever.
    unsafe { pg_sys::MarkGUCPrefixReserved(prefix.as_ptr()) };
}

// ---------------------------------------------------------------------------------------------------------------------
// Background workers
// ---------------------------------------------------------------------------------------------------------------------

/// Where the sweeper's own process begins.
#[pg_guard]
#[unsafe(no_mangle)]
pub extern "C-unwind" fn hfs_lite_sweeper_main(_nothing: Datum) {
    handle_signals();
    pin_settings();
    // SAFETY: a worker that has asked for a connection. Without a database, as autovacuum's launcher: databases come
    // and go.
    unsafe { pg_sys::BackgroundWorkerInitializeConnection(ptr::null(), ptr::null(), 0) };
    sweeper::look_after_databases();
}

/// Where the process begins that sweeps one database.
#[pg_guard]
#[unsafe(no_mangle)]
pub extern "C-unwind" fn hfs_lite_sweep_main(database: Datum) {
    handle_signals();
    pin_settings();
    // SAFETY: a worker that has asked for a connection; the argument is what `run_in_database` passed.
    unsafe {
        let database = Oid::from_datum(database, false).unwrap_or(Oid::INVALID);
        pg_sys::BackgroundWorkerInitializeConnectionByOid(database, Oid::INVALID, 0);
    }
    sweeper::sweep_database(BackgroundWorker::get_extra());
}

/// Ends at the next chance where the server wants it to, also in the middle of a statement; takes new settings between
/// them.
fn handle_signals() {
    // SAFETY: handlers of PostgreSQL's own.
    unsafe {
        pqsignal(pg_sys::SIGTERM as c_int, Some(die));
        pqsignal(pg_sys::SIGHUP as c_int, Some(SignalHandlerForConfigReload));
        pg_sys::BackgroundWorkerUnblockSignals();
    }
}

/// What a worker's session relies on, whatever a database or a role says about it.
const PINNED: [(&CStr, &CStr); 6] = [
    (c"application_name", c"hfs_lite sweeper"),
    // A superuser's session must not meet anybody's look-alikes.
    (c"search_path", c"pg_catalog, pg_temp"),
    (c"default_transaction_isolation", c"read committed"),
    // A table that somebody locked is left for the next round.
    (c"lock_timeout", c"1s"),
    (c"statement_timeout", c"0"),
    // What a crash brings back is swept again: no need to wait for the disk, nor for a standby.
    (c"synchronous_commit", c"off"),
];

fn pin_settings() {
    for (name, value) in PINNED {
        let (context, source) = (pg_sys::GucContext::PGC_SUSET, pg_sys::GucSource::PGC_S_OVERRIDE);
        // SAFETY: C strings, which are copied.
        unsafe { pg_sys::SetConfigOption(name.as_ptr(), value.as_ptr(), context, source) };
    }
}

/// Takes over the settings if they were changed; whether they may have been.
pub fn reload_settings() -> bool {
    // SAFETY: flags and functions of this process's main loop.
    unsafe {
        let pending = pg_sys::ConfigReloadPending != 0;
        if pending {
            pg_sys::ConfigReloadPending = 0;
            pg_sys::ProcessConfigFile(pg_sys::GucContext::PGC_SIGHUP);
        }
        pending
    }
}

/// Whether a worker can be registered: only while the server starts and loads shared_preload_libraries; and not where
/// pg_upgrade has started it, when nothing must change.
pub fn takes_workers() -> bool {
    // SAFETY: reads flags.
    unsafe { pg_sys::process_shared_preload_libraries_in_progress && !pg_sys::IsBinaryUpgrade }
}

/// Starts a process that sweeps the database, and returns when it has ended, however it did; false where it can't be
/// started.
pub fn run_in_database(database: Oid, name: &str) -> bool {
    // What PostgreSQL allocates for it goes with the context, or it would add up over the rounds.
    // SAFETY: nothing that was allocated there is kept.
    unsafe { PgMemoryContexts::new("hfs_lite sweeper").switch_to(|_| start_and_wait(database, name)) }
}

fn start_and_wait(database: Oid, name: &str) -> bool {
    // SAFETY: reads a number.
    let us = unsafe { pg_sys::MyProcPid };
    let worker = BackgroundWorkerBuilder::new(&format!("hfs_lite sweep of {name}"))
        .set_type("hfs_lite sweep")
        .set_library("hfs_lite")
        .set_function("hfs_lite_sweep_main")
        .set_argument(database.into_datum())
        .set_extra(name)
        .enable_spi_access()
        .set_notify_pid(us)
        .load_dynamic();
    // What ended it has been logged by the process itself, or by the server.
    worker.map(|worker| worker.wait_for_shutdown()).is_ok()
}

/// Does `work` in a transaction of its own. An error undoes it and is answered as its message.
pub fn transaction<T>(doing: &str, work: impl FnOnce() -> T) -> Result<T, String> {
    // Nothing of what is captured is looked at after an error but by its owner, who is told of it.
    let work = AssertUnwindSafe(work);
    let doing = CString::new(doing).unwrap_or_default();
    // SAFETY: a worker's process, outside of any transaction.
    unsafe {
        pg_sys::pgstat_report_activity(pg_sys::BackendState::STATE_RUNNING, doing.as_ptr());
        let result = PgTryBuilder::new(AssertUnwindSafe(|| Ok(BackgroundWorker::transaction(work))))
            .catch_others(|error| {
                pg_sys::AbortCurrentTransaction();
                Err(message(&error))
            })
            .execute();
        // Autovacuum goes by what is reported.
        pg_sys::pgstat_report_stat(true);
        pg_sys::pgstat_report_activity(pg_sys::BackendState::STATE_IDLE, ptr::null());
        result
    }
}

fn message(error: &CaughtError) -> String {
    match error {
        CaughtError::PostgresError(error) | CaughtError::ErrorReport(error) => error.message().to_owned(),
        CaughtError::RustPanic { ereport, .. } => ereport.message().to_owned(),
    }
}

// ---------------------------------------------------------------------------------------------------------------------
// What is there, and stays for the rest of a transaction
// ---------------------------------------------------------------------------------------------------------------------

/// The database of this name that takes connections, if there is one.
pub fn database(name: &str) -> Option<Oid> {
    // SAFETY: inside a transaction; a row is looked at before the next is asked for. Not by an index: without a
    // database of its own, and before anybody else has connected, a process can't open one.
    unsafe {
        let table = pg_sys::table_open(pg_sys::DatabaseRelationId, pg_sys::AccessShareLock as c_int);
        let scan = pg_sys::systable_beginscan(table, Oid::INVALID, false, ptr::null_mut(), 0, ptr::null_mut());
        let mut found = None;
        while let Some(row) = pg_sys::systable_getnext(scan).as_mut() {
            let database = &*pg_sys::GETSTRUCT(row).cast::<pg_sys::FormData_pg_database>();
            // A DROP DATABASE that was interrupted leaves a limit that lets nobody in.
            let open = database.datallowconn && database.datconnlimit != pg_sys::DATCONNLIMIT_INVALID_DB;
            if open && CStr::from_ptr(database.datname.data.as_ptr()).to_bytes() == name.as_bytes() {
                found = Some(database.oid);
            }
        }
        pg_sys::systable_endscan(scan);
        pg_sys::table_close(table, pg_sys::AccessShareLock as c_int);
        found
    }
}

/// Holds the database of this session as it is. False where somebody is about to drop, rename or copy it, and waits for
/// everybody to leave.
pub fn hold_database() -> bool {
    // SAFETY: inside a transaction. The lock is that of a session that enters the database; it is not waited for.
    unsafe {
        let database = pg_sys::LOCKTAG {
            locktag_field1: 0,
            locktag_field2: pg_sys::DatabaseRelationId.to_u32(),
            locktag_field3: pg_sys::MyDatabaseId.to_u32(),
            locktag_field4: 0,
            locktag_type: pg_sys::LockTagType::LOCKTAG_OBJECT as u8,
            locktag_lockmethodid: pg_sys::DEFAULT_LOCKMETHOD as u8,
        };
        let got = pg_sys::LockAcquire(&database, pg_sys::RowExclusiveLock as c_int, false, true);
        got != pg_sys::LockAcquireResult::LOCKACQUIRE_NOT_AVAIL
    }
}

/// Holds the extension, so that nobody can drop it and put look-alikes into its place. False where it is not there.
pub fn hold_extension() -> bool {
    // SAFETY: inside a transaction.
    unsafe {
        let find = || pg_sys::get_extension_oid(c"hfs_lite".as_ptr(), true);
        let extension = find();
        if extension == Oid::INVALID {
            return false;
        }
        pg_sys::LockDatabaseObject(pg_sys::ExtensionRelationId, extension, 0, pg_sys::AccessShareLock as c_int);
        // It may have been dropped while this waited.
        find() == extension
    }
}
