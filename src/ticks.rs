//! Ticks: of several schedulers that wake in the same minute, one gets to run it.

use crate::argument::{self, NAME};
use crate::statement::index::{Direction, Index, Locked, Row};
use crate::statement::{Call, Instant, Saved, Statement, TableIterator, Varchar, snapshot_is_kept};
use pgrx::pg_sys::{TEXTOID, TIMESTAMPTZOID, VARCHAROID};
use pgrx::prelude::*;

// The minutes of a name, in their order.
static MINUTES: Index = Index {
    schema: c"public",
    table: c"job_ticks",
    name: c"job_ticks_pkey",
    locked: Locked::ToWrite,
    columns: &[(c"name", TEXTOID)],
};

// The claim of a minute that is newer than all that the snapshot shows; other claims meet the unique index.
static CLAIM_NEWEST: Statement = Statement::new(
    c"insert into public.job_ticks as t (name, minute, claimed_at) values ($1, $2, $3)
      on conflict (name, minute) do nothing
      returning t.name, t.minute",
    &[VARCHAROID, TIMESTAMPTZOID, TIMESTAMPTZOID],
);

// The claim of any minute. The first condition refuses a minute more than a day older ($4) than the newest one; the second a
// minute that the statement's snapshot shows as claimed. Claims that are not yet in the snapshot meet the unique index.
static CLAIM: Statement = Statement::new(
    c"insert into public.job_ticks as t (name, minute, claimed_at)
      select $1, $2, $3
       where not exists (select from public.job_ticks n where n.name = $1 and n.minute > $4)
         and not exists (select from public.job_ticks s where s.name = $1 and s.minute = $2)
      on conflict (name, minute) do nothing
      returning t.name, t.minute",
    &[VARCHAROID, TIMESTAMPTZOID, TIMESTAMPTZOID, TIMESTAMPTZOID],
);

// A pruned minute must never be claimed again, also not by a caller whose snapshot is from before the newest minute was
// claimed. So only rows go that every open snapshot shows: their transaction is older than the oldest of those snapshots.
// Such a caller sees the row; one with a younger snapshot sees the newest minute, and is refused by that.
// Rows that another claim is pruning are skipped: waiting for each other, two claims of several minutes would deadlock.
// The comparison with year -4000 keeps the subtraction inside what a timestamptz can hold.
static PRUNE: Statement = Statement::new(
    c"delete from public.job_ticks d
       where d.name = $1
         and d.minute = any (array(
           select o.minute from public.job_ticks o
            where o.name = $1
              and o.minute < (
                select case when max(n.minute) > timestamptz '4000-01-01 00:00:00+00 BC'
                            then max(n.minute) - interval '48 hours' end
                  from public.job_ticks n where n.name = $1)
              and age(o.xmin) > (
                select max(age(a.backend_xmin)) from pg_catalog.pg_stat_get_activity(null) a
                  join pg_catalog.pg_database b on b.oid = a.datid and b.datname = current_database())
            order by o.minute limit 100
              for update of o skip locked))",
    &[VARCHAROID],
);

const MINUTE: i64 = 60_000_000;
const DAY: i64 = 24 * 60 * MINUTE;

/// Claims a minute for the scheduler of this name, so that of many that wake at once one runs it.
///
/// p_name: the scheduler's name, 1 to 200 characters. p_minute: an instant of the minute; it is cut to the UTC minute.
/// p_now: the caller's instant; NULL means the database's clock.
/// Answers one row with the name and the minute to the first caller. No row: somebody has that minute, or it is more
/// than 24 hours older than the newest minute claimed under that name. Minutes may be claimed in any order.
/// Rows more than 48 hours older than the name's newest are deleted in passing, at most 100 a call, once no open
/// transaction can still overlook them.
/// Errors: 22004 for NULL, 22023 for an empty name or an infinite instant, 22001 for a name over its width, 40001 from
/// PostgreSQL above READ COMMITTED.
/// Since 0.1.0.
#[pg_extern(volatile, security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn job_tick_claim(
    p_name: Option<Varchar>,
    p_minute: Option<Instant>,
    p_now: default!(Option<Instant>, "NULL"),
    call: Call,
) -> TableIterator<'static, (name!(name, Varchar), name!(minute, Instant))> {
    let name = argument::text("p_name", p_name, NAME);
    let minute = argument::instant("p_minute", p_minute);
    let now = argument::now("p_now", p_now);
    // The count starts at a full minute, 2000-01-01 00:00 UTC.
    let minute = Instant(minute.0 - minute.0.rem_euclid(MINUTE));
    // SERIALIZABLE would take the look at the newest minute for more than the claim needs to know.
    let known = if snapshot_is_kept() { None } else { Known::of(name) };
    let claimed = if known.is_some_and(|known| known.newest.is_none_or(|newest| newest < minute)) {
        CLAIM_NEWEST.rows(call, [name.into(), minute.into(), now.into()])
    } else {
        let too_new = Instant(minute.0.saturating_add(DAY));
        CLAIM.rows(call, [name.into(), minute.into(), now.into(), too_new.into()])
    };
    // No minute is claimed that is older than the newest one by more than a day.
    let kept = Instant(minute.0.saturating_sub(DAY));
    if claimed > 0 && known.is_none_or(|known| known.oldest.is_some_and(|oldest| oldest < kept)) {
        PRUNE.run([name.into()]);
    }
    call.done()
}

/// The minutes of a name that the claim's snapshot shows.
#[derive(Clone, Copy)]
struct Known {
    newest: Option<Instant>,
    oldest: Option<Instant>,
}

impl Known {
    /// None where the index can't say.
    fn of(name: Varchar) -> Option<Known> {
        let look = MINUTES.look([name.into()])?;
        let minute = |row: Row| row.instant(c"minute");
        let newest = look.next(Direction::Backward).map(minute);
        let oldest = newest.and_then(|_| look.again().next(Direction::Forward)).map(minute);
        look.close();
        match (newest, oldest) {
            (None, _) => Some(Known { newest: None, oldest: None }),
            (Some(newest), Some(oldest)) => Some(Known { newest: Some(newest?), oldest: Some(oldest?) }),
            _ => None,
        }
    }
}
