//! The settings, each with its reason. All but `adopt` are read from the server's configuration, and are taken over
//! when that is loaded anew.

use crate::error::Error;
use crate::statement::server;
use pgrx::datum::Interval;
use pgrx::guc::{GucContext, GucFlags, GucRegistry, GucSetting, PostgresGucEnum};
use pgrx::prelude::*;
use std::ffi::{CStr, CString};
use std::time::Duration;

/// A setting that holds a text.
pub type Text = GucSetting<Option<CString>>;

// Taking over tables changes what is somebody else's: never without being asked for.
static ADOPT: GucSetting<bool> = GucSetting::<bool>::new(false);

/// Whose clock says what has expired.
#[derive(Clone, Copy, PartialEq, Eq, PostgresGucEnum)]
pub enum Clock {
    #[name = c"caller"]
    Caller,
    #[name = c"database"]
    Database,
}

// The caller's, as it was before there was a choice. Of the whole server and nobody's to change in a session: a lease holds
// only where all who ask for it go by one clock.
static CLOCK: GucSetting<Clock> = GucSetting::<Clock>::new(Clock::Caller);

// None: an operator who preloads the library for another reason must not lose rows by it.
static SWEEP_DATABASES: Text = Text::new(Some(c""));

// In seconds. A round that finds nothing costs a new process a database and five looks into indexes.
static SWEEP_INTERVAL: GucSetting<i32> = GucSetting::<i32>::new(60);
const LONGEST_SWEEP_INTERVAL: i32 = 24 * 60 * 60;

// A month is what people look back on. What was sent is in its receiver's hands, and the table grows fastest.
pub static RETAIN_JOBS: Text = Text::new(Some(c"30 days"));
pub static RETAIN_QUEUE: Text = Text::new(Some(c"7 days"));
// How late a repeat may come and still be known as one.
pub static RETAIN_INBOX_CLIENTS: Text = Text::new(Some(c"30 days"));
pub static RETAIN_INBOX_EVENTS: Text = Text::new(Some(c"30 days"));
pub static RETAIN_EVENT_BUS: Text = Text::new(Some(c"30 days"));

/// Defines the settings; works wherever the library is loaded, not only at the server's start.
pub fn define() {
    // Where the library comes into a running session, PostgreSQL would only warn that what the session's options say is not
    // taken over, and forget what the configuration says: its clock would be the default.
    if server::is_of_session(c"hfs_lite.clock") {
        Error::SettingOfSession { name: "hfs_lite.clock" }.raise();
    }
    GucRegistry::define_bool_guc(
        c"hfs_lite.adopt",
        c"Whether CREATE EXTENSION hfs_lite takes over tables that are there already.",
        c"Only a superuser can set it.",
        &ADOPT,
        GucContext::Suset,
        GucFlags::default(),
    );
    GucRegistry::define_enum_guc(
        c"hfs_lite.clock",
        c"Whose clock decides what has expired: the caller's p_now, or the database's.",
        c"With database, p_now only says how long a lease is meant to last: p_lease_end - p_now.",
        &CLOCK,
        GucContext::Sighup,
        GucFlags::default(),
    );
    GucRegistry::define_string_guc(
        c"hfs_lite.sweep_databases",
        c"The databases that are swept, by their names, separated by commas.",
        c"Empty: none. Only where hfs_lite is in shared_preload_libraries.",
        &SWEEP_DATABASES,
        GucContext::Sighup,
        GucFlags::default(),
    );
    GucRegistry::define_int_guc(
        c"hfs_lite.sweep_interval",
        c"The pause between two rounds of the sweeper.",
        c"A change of the settings begins a round at once.",
        &SWEEP_INTERVAL,
        1,
        LONGEST_SWEEP_INTERVAL,
        GucContext::Sighup,
        GucFlags::UNIT_S,
    );
    let kept = c"An interval; empty: for ever.";
    server::define_retention(
        c"hfs_lite.retain_jobs",
        c"How long jobs are kept after they were done.",
        kept,
        &RETAIN_JOBS,
    );
    server::define_retention(
        c"hfs_lite.retain_queue",
        c"How long messages of the outbox are kept after they were sent.",
        kept,
        &RETAIN_QUEUE,
    );
    server::define_retention(
        c"hfs_lite.retain_inbox_clients",
        c"How long receipts of clients' requests that have an outcome are kept after they were claimed.",
        kept,
        &RETAIN_INBOX_CLIENTS,
    );
    server::define_retention(
        c"hfs_lite.retain_inbox_events",
        c"How long deliveries are kept after they were claimed.",
        kept,
        &RETAIN_INBOX_EVENTS,
    );
    server::define_retention(
        c"hfs_lite.retain_event_bus",
        c"How long messages of the event bus are kept after they were archived.",
        kept,
        &RETAIN_EVENT_BUS,
    );
    server::reserve_prefix(c"hfs_lite");
}

/// Whose clock says what has expired.
pub fn clock() -> Clock {
    CLOCK.get()
}

/// The names of the databases that are swept.
pub fn sweep_databases() -> Vec<String> {
    let names = SWEEP_DATABASES.get().unwrap_or_default();
    names.to_string_lossy().split(',').map(str::trim).filter(|name| !name.is_empty()).map(str::to_owned).collect()
}

/// The pause between two rounds of the sweeper.
pub fn sweep_interval() -> Duration {
    Duration::from_secs(SWEEP_INTERVAL.get().try_into().unwrap_or_default())
}

/// How long rows are kept by a setting; nothing where they are kept for ever.
pub fn retention(setting: &Text) -> Option<Interval> {
    parse_retention(&setting.get()?).ok().flatten()
}

/// What a retention says: an interval, or nothing for ever; or why it is neither.
pub fn parse_retention(value: &CStr) -> Result<Option<Interval>, &'static CStr> {
    const NO_INTERVAL: &CStr = c"It is no interval.";
    let text = value.to_str().map_err(|_| NO_INTERVAL)?;
    if text.is_empty() {
        return Ok(None);
    }
    // PostgreSQL would take 30 as thirty seconds, and 0 as at once, where somebody may have meant days, or never.
    if !text.contains(|c: char| c.is_ascii_alphabetic() || c == ':') {
        return Err(c"It has no unit.");
    }
    let parsed = PgTryBuilder::new(|| text.parse::<Interval>().ok()).catch_others(|_| None).execute();
    let interval = parsed.ok_or(NO_INTERVAL)?;
    // A part below zero can make the whole reach into the future, where a month is shorter than thirty days.
    if interval.is_negative() {
        return Err(c"An interval that keeps rows has no part below zero.");
    }
    // Also what PostgreSQL 17 calls infinity. An instant so long ago is out of every clock's range.
    const DAY: i128 = 24 * 60 * 60 * 1_000_000;
    const YEAR: i128 = DAY * 36_525 / 100;
    let parts =
        [i128::from(interval.months()) * YEAR / 12, i128::from(interval.days()) * DAY, interval.micros().into()];
    if parts.iter().sum::<i128>() > 1_000 * YEAR {
        return Err(c"It is longer than 1000 years.");
    }
    Ok(Some(interval))
}
