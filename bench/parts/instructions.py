"""What each function costs, in instructions a call.

  bench/instructions              every subject; a Markdown table on stdout (about 10 minutes)
  bench/instructions NAME...      some: queue_write, "job_claim (new)"
  bench/instructions --write      every subject, and the table into bench/instructions.md too
  bench/instructions --check      only what has a limit; exits 1 where a limit is exceeded (under 2 minutes)
  bench/instructions --profile NAME   where one subject spends more, or less, than its floor, by C and Rust function

Instructions and not time, because they come out the same to about a percent on any machine, busy or not. valgrind's
callgrind counts those of `postgres --single` (in user space only: a system call costs one), which reads calls from a
file, one a line: PREPARE once, then EXECUTE a call, each in a transaction of its own. Every form is run on a fresh copy
of one data directory, and only what stands between two marks is counted: what starting, planning and warming up cost is
left out. Plans are generic, as a driver's named statements get them. Forms run at once, one a processor.

Needs scripts/setup, and a release build of the extension in the PostgreSQL that it made:
`. scripts/env.sh; cargo pgrx install --release --pg-config "$pg_config"`.
"""

import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import textwrap
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Callable

from .checkout import ENV, ROOT, bash, die, say

# Calls before the first mark, and those between the marks.
WARM_UP, MEASURED = 40, 100
# Rows that setups make for calls to use up, one or more a call.
CALLS = WARM_UP + MEASURED
# How many rows a call of a set takes; a tenth of the calls count as well.
MANY, SHORTER = 100, 10


# ----------------------------------------------------------------------------------------------------------------------
# The subjects
# ----------------------------------------------------------------------------------------------------------------------


@dataclass
class Form:
    """Statements prepared once, and the arguments that a call gives to each: `%i` is the number of the call."""

    statements: list[str]
    args: "list[str | Callable[[int], str]]"
    database: str = "bench"
    # Rows that a call answers, where they are not those of the subject.
    rows: "int | None" = None
    # How often it is called to do the work of one call of ours.
    times: int = 1
    # By what the numbers of calls are divided, where a call is long by itself.
    shorter: int = 1

    def calls(self):
        """The numbers of its calls: those before the first mark, and those between the marks."""
        before, last = WARM_UP // self.shorter, CALLS // self.shorter
        return range(1, before + 1), range(before + 1, last + 1)


@dataclass
class Subject:
    name: str
    # How the applications call it.
    ours: "str | Form"
    args: "str | Callable[[int], str]" = ""
    # The bare prepared statement that does the same work on the same table; a Form where its arguments are others.
    floor: "str | Form | None" = None
    # The LANGUAGE sql function that applications have for it today, see HAND_WRITTEN.
    hand: "str | None" = None
    # Where ours is called.
    database: str = "bench"
    # What it is held against otherwise: what pgmq itself has for it, or ours elsewhere.
    peers: "dict[str, str | Form]" = field(default_factory=dict)
    # What ours may be at most, as a part of another column.
    bars: "dict[str, float]" = field(default_factory=dict)
    # Rows that a call answers; a form that answers another number was set up wrongly, and is not counted.
    rows: int = 1
    # What must be in the database before.
    setup: str = ""
    note: str = ""

    def forms(self):
        """Each column's form, by its name."""
        columns = {"floor": self.floor, "ours": self.ours, "hand": self.hand, **self.peers}
        for column, form in columns.items():
            if isinstance(form, str):
                form = Form([form], [self.args], self.database if column == "ours" else "bench")
            if form:
                yield column, form


def uuid(number):
    return f"00000000-0000-7000-8000-{number:012}"


def uuid_in_sql(number):
    return f"('{uuid(0)[:-12]}' || lpad(({number})::text, 12, '0'))::uuid"


NOW = "2026-01-05T12:00:00.000Z"
LEASE_END = "2026-01-05T12:01:00.000Z"
PAYLOAD = '{"orderId": "o-%i", "customer": "c-4711", "total": 129.9, "currency": "EUR", "dedupeKey": "order-%i"}'
ENVELOPE = (
    f'{{"eventId": "e-%i", "eventName": "order.placed", "payload": {PAYLOAD}, "metadata": {{"correlationId": "r-%i"}}}}'
)
# A request of 2 kB, as a form in a browser sends it.
ITEM = (
    '{"sku": "A-100%d", "name": "Gl\u00fchbirne, warmwei\u00df", "qty": %d, "price": 3.49, "tags": ["light", "e27"], '
    '"gift": false}'
)
REQUEST = (
    '{"cart": [%s], "note": "bitte klingeln", "address": {"street": "Hauptstra\u00dfe 12", "zip": "10115"}, "n": %%i}'
    % ", ".join(ITEM % (n, n) for n in range(18))
)

CLAIM_JOB = """
    insert into public.jobs as j
      (kind, job_key, status, fencing_token, claimed_by, lease_expires_at, payload, created_at, updated_at)
    values ($1, $2, 'running', 1, $3, $4, $5, $6, $6)
    on conflict (job_key) do update
      set fencing_token = j.fencing_token + 1, claimed_by = $3, lease_expires_at = $4, status = 'running', error = null,
          updated_at = $6
    where j.status = 'failed' or (j.status = 'running' and j.lease_expires_at < $6)
    returning j.id, j.kind, j.fencing_token, j.current_step, j.payload"""
CLAIM_RECEIPT = """
    insert into public.inbox (source, event_id, request_fingerprint, claimed_at) values ($1, $2, $3, $4)
    on conflict (source, event_id) do nothing returning request_fingerprint, outcome"""
READ_RECEIPT = "select request_fingerprint, outcome from public.inbox where source = $1 and event_id = $2"
COMPLETE_JOB = """
    update public.jobs set status = 'done', lease_expires_at = null, updated_at = $3
    where id = $1 and fencing_token = $2 and status = 'running' returning id"""

# Another database with the same in it, and many bindings that lead elsewhere: half are literal, half have a wildcard.
CROWDED = "crowded"
CROWD = """
select pgmq.create('elsewhere');
insert into pgmq.topic_bindings (pattern, queue_name)
  select 'order.' || n || '.placed' || wildcard, 'elsewhere'
    from generate_series(1, 10000) n, unnest(array['', '.#']) wildcard;
"""

SEND = 'insert into pgmq."q_order.placed__mail" (vt, message) values (clock_timestamp(), $1)'

# As applications have them in their migrations, in a schema of their own here: the contract's statements in LANGUAGE
# sql, where a NULL instant is the database's clock, without the checks of arguments, which take more than a statement.
HAND_WRITTEN = """
create schema hand;
create function hand.job_claim(p_kind varchar, p_job_key varchar, p_worker varchar, p_lease_end timestamptz,
                               p_payload jsonb, p_now timestamptz)
returns table (id uuid, kind varchar, fencing_token bigint, current_step varchar, payload jsonb) language sql as $$
  insert into public.jobs as j
    (kind, job_key, status, fencing_token, claimed_by, lease_expires_at, payload, created_at, updated_at)
  values (p_kind, p_job_key, 'running', 1, p_worker, p_lease_end, p_payload, coalesce(p_now, now()),
          coalesce(p_now, now()))
  on conflict (job_key) do update
    set fencing_token = j.fencing_token + 1, claimed_by = p_worker, lease_expires_at = p_lease_end, status = 'running',
        error = null, updated_at = coalesce(p_now, now())
  where j.status = 'failed' or (j.status = 'running' and j.lease_expires_at < coalesce(p_now, now()))
  returning j.id, j.kind, j.fencing_token, j.current_step, j.payload $$;
create function hand.job_advance(p_id uuid, p_token bigint, p_step varchar, p_now timestamptz)
returns table (id uuid) language sql as $$
  update public.jobs as j set current_step = p_step, updated_at = coalesce(p_now, now())
  where j.id = p_id and j.fencing_token = p_token and j.status = 'running' returning j.id $$;
create function hand.job_complete(p_id uuid, p_token bigint, p_now timestamptz)
returns table (id uuid) language sql as $$
  update public.jobs as j set status = 'done', lease_expires_at = null, updated_at = coalesce(p_now, now())
  where j.id = p_id and j.fencing_token = p_token and j.status = 'running' returning j.id $$;
create function hand.job_fail(p_id uuid, p_token bigint, p_reason text, p_now timestamptz)
returns table (id uuid) language sql as $$
  update public.jobs as j
  set status = 'failed', lease_expires_at = null, updated_at = coalesce(p_now, now()), error = p_reason
  where j.id = p_id and j.fencing_token = p_token and j.status = 'running' returning j.id $$;
create function hand.job_tick_claim(p_name varchar, p_minute timestamptz, p_now timestamptz)
returns table (name varchar, minute timestamptz) language sql as $$
  insert into public.job_ticks as t (name, minute, claimed_at)
  select p_name, date_trunc('minute', p_minute), coalesce(p_now, now())
  where not exists (select from public.job_ticks n where n.name = p_name and n.minute > p_minute + interval '1 day')
  on conflict (name, minute) do nothing returning t.name, t.minute $$;
create function hand.queue_write(p_queue varchar, p_payload jsonb, p_created_at timestamptz, p_correlation_id varchar)
returns void language sql as $$
  insert into public.queue (queue, payload, created_at, correlation_id)
  values (p_queue, p_payload, coalesce(p_created_at, now()), p_correlation_id) $$;
create function hand.queue_waiting(p_batch integer)
returns table (id uuid, queue varchar, payload jsonb, "correlationId" varchar) language sql as $$
  select q.id, q.queue, q.payload, coalesce(q.correlation_id, q.id::varchar) from public.queue q
  where q.sent_at is null order by q.created_at, q.id limit p_batch for update skip locked $$;
create function hand.queue_mark_sent(p_ids uuid[], p_sent_at timestamptz)
returns void language sql as $$
  update public.queue set sent_at = coalesce(p_sent_at, now()) where id = any (p_ids) and sent_at is null $$;
create function hand.inbox_claim_event(p_source text, p_event_id text)
returns table (event_id text) language sql as $$
  insert into public.inbox as i (source, event_id) values (p_source, p_event_id)
  on conflict (source, event_id) do nothing returning i.event_id $$;
create function hand.inbox_claim_client(p_source text, p_event_id text, p_request_fingerprint text, p_now timestamptz)
returns table (request_fingerprint varchar, outcome jsonb, incomplete boolean) language sql as $$
  with claimed as (
    insert into public.inbox as i (source, event_id, request_fingerprint, claimed_at)
    values (p_source, p_event_id, p_request_fingerprint, coalesce(p_now, now()))
    on conflict (source, event_id) do nothing returning i.request_fingerprint, i.outcome)
  select c.request_fingerprint, c.outcome, false from claimed c
  union all
  select i.request_fingerprint, i.outcome, i.outcome is null from public.inbox i
  where i.source = p_source and i.event_id = p_event_id and not exists (select from claimed) $$;
create function hand.inbox_save_client_outcome(p_source text, p_event_id text, p_outcome jsonb)
returns table (outcome jsonb) language sql as $$
  update public.inbox as i set outcome = p_outcome
  where i.source = p_source and i.event_id = p_event_id and i.request_fingerprint is not null and i.outcome is null
  returning i.outcome $$;
"""

# Tables as they are in use, so that plans use their indexes. $CALLS, $PAYLOAD and $ENVELOPE are filled in, `%i` is i.
IN_USE = """
insert into public.jobs (kind, job_key, status, fencing_token, claimed_by, payload, created_at, updated_at)
  select 'mail', 'old-' || i, 'done', 1, 'worker-1', $PAYLOAD, '$NOW', '$NOW' from generate_series(1, 5000) i;
insert into public.queue (queue, payload, correlation_id, created_at, sent_at)
  select 'mail', $PAYLOAD, 'r-' || i, timestamptz '$NOW' - i * interval '1 minute', '$NOW'
    from generate_series(1, 5000) i;
insert into public.inbox (source, event_id, claimed_at)
  select 'webhook.pay', 'old-' || i, '$NOW' from generate_series(1, 5000) i;
insert into public.job_ticks (name, minute, claimed_at)
  select 'scheduler-' || i, '$NOW', '$NOW' from generate_series(1, 2000) i;
"""


def jobs(key, first, lease_end):
    """Running jobs whose keys begin with `key` and whose ids are counted from `first`."""
    return f"""
insert into public.jobs
    (id, kind, job_key, status, fencing_token, claimed_by, lease_expires_at, payload, created_at, updated_at)
  select {uuid_in_sql(f"{first} + i")}, 'mail', '{key}-' || i, 'running', 2, 'worker-1', '{lease_end}', $PAYLOAD,
         '$NOW', '$NOW' from generate_series(1, $CALLS) i;"""


def receipts(source, count, outcome):
    return f"""
insert into public.inbox (source, event_id, claimed_at, request_fingerprint, outcome)
  select '{source}', 'k-' || i, timestamptz '$NOW' - interval '1 day', repeat('a', 64), {outcome}
    from generate_series(1, {count}) i;"""


def queue(name, count, vt="'-infinity'", read_ct=1):
    """A queue of pgmq's that is bound to no topic, with messages in it."""
    return f"""
select pgmq.create('{name}');
insert into pgmq."q_{name}" (read_ct, vt, message)
  select {read_ct}, {vt}, $ENVELOPE from generate_series(1, {count}) i;"""


RUNNING = 3000
JOB_CALL = f"'mail', '%s-%i', 'worker-1', '{LEASE_END}', '{PAYLOAD}', '{NOW}'"
JOB_CLAIM = "select * from public.job_claim($1, $2, $3, $4, $5, $6)"
HAND_JOB_CLAIM = "select * from hand.job_claim($1, $2, $3, $4, $5, $6)"
FINGERPRINT = "a" * 64


def running_job(rest):
    return lambda i: f"'{uuid(RUNNING + i)}', {rest}"


# How inbox_kept_idx tells deliveries, incomplete and completed receipts apart.
KIND = """case when request_fingerprint is null then 'd'::"char" when outcome is null then 'i' else 'c' end"""


def sweep(name, table, oldest, setup, queue=None):
    """A sweep of ten rows that lie two days back; what else is there lies later, and stays."""
    return Subject(
        f"{name} (10)",
        f"select * from public.{name}({'$3, ' if queue else ''}$1, $2)",
        f"'{NOW}', 10" + (f", '{queue}'" if queue else ""),
        Form(
            [
                f"""with gone as (
                      delete from {table} where ctid = any (array(
                        select ctid from {table} where {oldest} limit $2 for update skip locked))
                      returning 1)
                    select count(*)::integer as deleted_count from gone"""
            ],
            [f"'{NOW}', 10"],
        ),
        setup=setup,
    )


def many(name, bar, ours, args, floor, single, single_args, setup="", rows=MANY):
    """A call on many rows, beside one bare statement on as many, and beside as many calls on one row.

    The statement has no order, in which ours locks what another call may lock too, and no verdicts."""
    return Subject(
        f"{name} ({MANY})",
        Form([ours], [args], shorter=SHORTER),
        floor=Form([floor], [args], rows=MANY, shorter=SHORTER),
        peers={f"{MANY} single calls": Form([single], [single_args], rows=1, times=MANY)},
        rows=rows,
        setup=setup,
        bars={"floor": bar},
    )


def of_a_call(element):
    """An array literal of the elements that a call on many rows takes."""
    return lambda i: "'{%s}'" % ",".join(element(MANY * i + n) for n in range(MANY))


def arguments(*parts):
    """The arguments of a call, each a text or made from the number of the call."""
    return lambda i: ", ".join(part(i) if callable(part) else part for part in parts)


def json_elements(text):
    return of_a_call(lambda n: '"%s"' % text.replace("%i", str(n)).replace('"', '\\"'))


# Ids of jobs that calls on many end, counted on from here.
ENDED, FAILED = 100_000, 200_000
ONES = "'{%s}'" % ",".join(["1"] * MANY)
TWOS = ONES.replace("1", "2")


def many_jobs(key, first):
    return jobs(key, first, LEASE_END).replace("$CALLS", f"{MANY} * $CALLS / {SHORTER} + {MANY}")


SUBJECTS = [
    Subject(
        "queue_write",
        "select public.queue_write($1, $2, $3, $4)",
        f"'mail', '{PAYLOAD}', '{NOW}', 'request-%i'",
        "insert into public.queue (queue, payload, created_at, correlation_id) values ($1, $2, $3, $4)",
        hand="select hand.queue_write($1, $2, $3, $4)",
        bars={"floor": 1.20, "hand": 0.65},
    ),
    many(
        "queue_write_many",
        1.05,
        "select * from public.queue_write_many($1, $2, $3, $4)",
        arguments("'mail'", json_elements(PAYLOAD), f"'{NOW}', 'request-1'"),
        """insert into public.queue (queue, payload, created_at, correlation_id)
           select $1, u.payload, $3::timestamptz, $4 from unnest($2::jsonb[]) u (payload) returning id""",
        "select public.queue_write($1, $2, $3, $4)",
        f"'mail', '{PAYLOAD}', '{NOW}', 'request-%i'",
    ),
    Subject(
        "queue_waiting (100 of 2,000)",
        "select * from public.queue_waiting($1)",
        "100",
        """select id, queue, payload, coalesce(correlation_id, id::varchar) as "correlationId" from public.queue
           where sent_at is null order by created_at, id limit $1 for update skip locked""",
        rows=100,
        setup="""
insert into public.queue (queue, payload, correlation_id, created_at)
  select 'mail', $PAYLOAD, 'r-' || i, timestamptz '$NOW' + i * interval '1 second' from generate_series(1, 2000) i;""",
        hand="select * from hand.queue_waiting($1)",
    ),
    Subject(
        "queue_mark_sent (10)",
        "select public.queue_mark_sent($1, $2)",
        lambda i: "'{%s}', '%s'" % (",".join(uuid(10 * i + n) for n in range(10)), NOW),
        "update public.queue set sent_at = $2 where id = any ($1) and sent_at is null",
        setup=f"""
insert into public.queue (id, queue, payload, created_at)
  select {uuid_in_sql("i")}, 'mail', $PAYLOAD, timestamptz '$NOW' + interval '1 day'
    from generate_series(1, 10 * $CALLS + 10) i;""",
        hand="select hand.queue_mark_sent($1, $2)",
    ),
    sweep(
        "queue_sweep",
        "public.queue",
        "sent_at < $1 order by sent_at",
        setup="""
insert into public.queue (queue, payload, created_at, sent_at)
  select 'mail', $PAYLOAD, '$NOW', timestamptz '$NOW' - interval '2 days' from generate_series(1, 10 * $CALLS) i;""",
    ),
    Subject(
        "job_claim (new)",
        JOB_CLAIM,
        JOB_CALL.replace("%s", "new"),
        CLAIM_JOB,
        HAND_JOB_CLAIM,
        bars={"floor": 1.08, "hand": 0.50},
    ),
    Subject(
        "job_claim (its lease ended)",
        JOB_CLAIM,
        JOB_CALL.replace("%s", "expired"),
        CLAIM_JOB,
        HAND_JOB_CLAIM,
        setup=jobs("expired", 1000, "2026-01-05T11:00:00Z"),
        bars={"floor": 1.08, "hand": 0.50},
    ),
    Subject(
        "job_claim (refused: a live lease)",
        JOB_CLAIM,
        JOB_CALL.replace("%s", "live"),
        CLAIM_JOB,
        HAND_JOB_CLAIM,
        rows=0,
        setup=jobs("live", 2000, LEASE_END),
        bars={"floor": 1.25, "hand": 0.50},
    ),
    many(
        "job_claim_many",
        1.10,
        "select * from public.job_claim_many($1, $2, $3, $4, $5, $6)",
        arguments(
            "'mail'",
            of_a_call(lambda n: f"many-{n}"),
            f"'worker-1', '{LEASE_END}'",
            json_elements(PAYLOAD),
            f"'{NOW}'",
        ),
        """insert into public.jobs
             (kind, job_key, status, fencing_token, claimed_by, lease_expires_at, payload, created_at, updated_at)
           select $1, u.job_key, 'running', 1, $3, $4::timestamptz, u.payload, $6::timestamptz, $6::timestamptz
             from unnest($2::varchar[], $5::jsonb[]) u (job_key, payload)
           on conflict (job_key) do nothing
           returning job_key, id, kind, fencing_token, current_step, payload""",
        JOB_CLAIM,
        JOB_CALL.replace("%s", "new"),
    ),
    Subject(
        "job_heartbeat",
        "select * from public.job_heartbeat($1, $2, $3, $4)",
        running_job(f"2, '2026-01-05T12:02:00Z', '{NOW}'"),
        Form(
            [
                """update public.jobs set lease_expires_at = $3
                   where id = $1 and fencing_token = $2 and status = 'running' returning id, lease_expires_at"""
            ],
            [running_job("2, '2026-01-05T12:02:00Z'")],
        ),
    ),
    Subject(
        "job_advance",
        "select * from public.job_advance($1, $2, $3, $4)",
        running_job(f"2, 'charged', '{NOW}'"),
        """update public.jobs set current_step = $3, updated_at = $4
           where id = $1 and fencing_token = $2 and status = 'running' returning id""",
        setup=jobs("running", RUNNING, LEASE_END),
        hand="select * from hand.job_advance($1, $2, $3, $4)",
        bars={"floor": 1.20, "hand": 0.65},
    ),
    Subject(
        "job_complete",
        "select * from public.job_complete($1, $2, $3)",
        running_job(f"2, '{NOW}'"),
        COMPLETE_JOB,
        hand="select * from hand.job_complete($1, $2, $3)",
        bars={"floor": 1.20, "hand": 0.65},
    ),
    Subject(
        "job_complete (refused: a late token)",
        "select * from public.job_complete($1, $2, $3)",
        running_job(f"1, '{NOW}'"),
        COMPLETE_JOB,
        hand="select * from hand.job_complete($1, $2, $3)",
        rows=0,
        bars={"floor": 1.25, "hand": 0.65},
    ),
    Subject(
        "job_fail",
        "select * from public.job_fail($1, $2, $3, $4)",
        running_job(f"2, 'provider answered 503', '{NOW}'"),
        """update public.jobs set status = 'failed', lease_expires_at = null, updated_at = $4, error = $3
           where id = $1 and fencing_token = $2 and status = 'running' returning id""",
        hand="select * from hand.job_fail($1, $2, $3, $4)",
        bars={"floor": 1.20, "hand": 0.65},
    ),
    many(
        "job_complete_many",
        1.30,
        "select * from public.job_complete_many($1, $2, $3)",
        arguments(of_a_call(lambda n: uuid(ENDED + n)), TWOS, f"'{NOW}'"),
        """update public.jobs j set status = 'done', lease_expires_at = null, updated_at = $3
             from unnest($1::uuid[], $2::bigint[]) u (id, token)
            where j.id = u.id and j.fencing_token = u.token and j.status = 'running' returning j.id""",
        "select * from public.job_complete($1, $2, $3)",
        running_job(f"2, '{NOW}'"),
        setup=many_jobs("ended", ENDED),
    ),
    many(
        "job_fail_many",
        1.40,
        "select * from public.job_fail_many($1, $2, $3, $4)",
        arguments(
            of_a_call(lambda n: uuid(FAILED + n)), TWOS, of_a_call(lambda n: "provider answered 503"), f"'{NOW}'"
        ),
        """update public.jobs j set status = 'failed', lease_expires_at = null, updated_at = $4, error = u.reason
             from unnest($1::uuid[], $2::bigint[], $3::text[]) u (id, token, reason)
            where j.id = u.id and j.fencing_token = u.token and j.status = 'running' returning j.id""",
        "select * from public.job_fail($1, $2, $3, $4)",
        running_job(f"2, 'provider answered 503', '{NOW}'"),
        setup=many_jobs("given-up", FAILED),
    ),
    sweep(
        "jobs_sweep",
        "public.jobs",
        "status = 'done' and updated_at < $1 order by updated_at",
        setup="""
insert into public.jobs (kind, job_key, status, fencing_token, payload, created_at, updated_at)
  select 'mail', 'swept-' || i, 'done', 1, $PAYLOAD, '$NOW', timestamptz '$NOW' - interval '2 days'
    from generate_series(1, 10 * $CALLS) i;""",
    ),
    Subject(
        "job_tick_claim",
        "select * from public.job_tick_claim($1, $2, $3)",
        f"'scheduler-%i', '2026-01-05T12:01:00Z', '{NOW}'",
        """insert into public.job_ticks (name, minute, claimed_at)
           values ($1, date_trunc('minute', $2::timestamptz), $3)
           on conflict (name, minute) do nothing returning name, minute""",
        note="the floor neither refuses old minutes nor prunes",
        hand="select * from hand.job_tick_claim($1, $2, $3)",
    ),
    Subject(
        "inbox_claim_event (new)",
        "select * from public.inbox_claim_event($1, $2)",
        "'webhook.pay', 'new-%i'",
        """insert into public.inbox (source, event_id) values ($1, $2)
           on conflict (source, event_id) do nothing returning event_id""",
        hand="select * from hand.inbox_claim_event($1, $2)",
        bars={"floor": 1.20, "hand": 0.65},
    ),
    Subject(
        "inbox_claim_event (repeat)",
        "select * from public.inbox_claim_event($1, $2)",
        "'webhook.pay', 'old-%i'",
        """insert into public.inbox (source, event_id) values ($1, $2)
           on conflict (source, event_id) do nothing returning event_id""",
        hand="select * from hand.inbox_claim_event($1, $2)",
        rows=0,
        bars={"floor": 1.25, "hand": 0.65},
    ),
    many(
        "inbox_claim_events",
        1.25,
        "select * from public.inbox_claim_events($1, $2)",
        arguments("'webhook.pay'", of_a_call(lambda n: f"many-{n}")),
        """insert into public.inbox (source, event_id) select $1, u.event_id from unnest($2::text[]) u (event_id)
           on conflict (source, event_id) do nothing returning event_id""",
        "select * from public.inbox_claim_event($1, $2)",
        "'webhook.pay', 'new-%i'",
    ),
    Subject(
        "inbox_claim_client (new)",
        "select * from public.inbox_claim_client($1, $2, $3, $4)",
        f"'client:new', 'k-%i', '{FINGERPRINT}', '{NOW}'",
        CLAIM_RECEIPT,
        hand="select * from hand.inbox_claim_client($1, $2, $3, $4)",
        bars={"floor": 1.20, "hand": 0.65},
    ),
    Subject(
        "inbox_claim_client (replay)",
        "select * from public.inbox_claim_client($1, $2, $3, $4)",
        f"'client:done', 'k-%i', '{FINGERPRINT}', '{NOW}'",
        Form(
            [CLAIM_RECEIPT, READ_RECEIPT],
            [f"'client:done', 'k-%i', '{FINGERPRINT}', '{NOW}'", "'client:done', 'k-%i'"],
        ),
        setup=receipts("client:done", "$CALLS", "'{\"value\": {\"orderId\": \"o-1\"}}'"),
        note="the floor is two statements",
        hand="select * from hand.inbox_claim_client($1, $2, $3, $4)",
        bars={"floor": 1.25, "hand": 0.65},
    ),
    Subject(
        "inbox_claim_request (new, 2 kB)",
        "select * from public.inbox_claim_request($1, $2, $3, $4, $5)",
        f"'user-1', 'checkout', 'k-%i', '{REQUEST}', '{NOW}'",
        Form([CLAIM_RECEIPT], [f"'client:user-1:checkout', 'k-%i', '{FINGERPRINT}', '{NOW}'"]),
        note="the floor is given the fingerprint, ours makes it of the request",
    ),
    Subject(
        "inbox_claim_request (replay, 2 kB)",
        "select * from public.inbox_claim_request($1, $2, $3, $4, $5)",
        f"'user-2', 'checkout', 'k-%i', '{REQUEST}', '{NOW}'",
        Form(
            [CLAIM_RECEIPT, READ_RECEIPT],
            [f"'client:user-2:checkout', 'k-%i', '{FINGERPRINT}', '{NOW}'", "'client:user-2:checkout', 'k-%i'"],
        ),
        setup="""
insert into public.inbox (source, event_id, claimed_at, request_fingerprint, outcome)
  select 'client:user-2:checkout', 'k-' || i, '$NOW', public.request_fingerprint($REQUEST),
         '{"value": {"orderId": "o-1"}}' from generate_series(1, $CALLS) i;""",
        note="the floor is two statements and is given the fingerprint",
    ),
    Subject(
        "inbox_save_client_outcome",
        "select * from public.inbox_save_client_outcome($1, $2, $3)",
        """'client:open', 'k-%i', '{"value": {"orderId": "o-%i"}}'""",
        """update public.inbox set outcome = $3 where source = $1 and event_id = $2
           and request_fingerprint is not null and outcome is null returning outcome""",
        setup=receipts("client:open", "$CALLS", "null"),
        hand="select * from hand.inbox_save_client_outcome($1, $2, $3)",
        bars={"floor": 1.20, "hand": 0.65},
    ),
    sweep(
        "inbox_sweep_clients",
        "public.inbox",
        f"{KIND} = 'c' and claimed_at < $1 order by claimed_at",
        setup=receipts("client:swept", "10 * $CALLS", "'{\"value\": 1}'").replace("1 day", "2 days"),
    ),
    sweep(
        "inbox_sweep_events",
        "public.inbox",
        f"{KIND} = 'd' and claimed_at < $1 order by claimed_at",
        setup="""
insert into public.inbox (source, event_id, claimed_at)
  select 'webhook.swept', i, timestamptz '$NOW' - interval '2 days' from generate_series(1, 10 * $CALLS) i;""",
    ),
    Subject(
        "inbox_forget",
        "select * from public.inbox_forget($1, $2)",
        "'webhook.pay', 'old-%i'",
        "delete from public.inbox where source = $1 and event_id = $2 returning event_id",
        note="the floor waits for a lock, ours leaves a locked row",
    ),
    Subject(
        "canonical_json (2 kB)",
        "select * from public.canonical_json($1)",
        f"'{REQUEST}'",
        "select $1::jsonb::text as canonical_json",
        note="the floor prints the value, which is not canonical",
    ),
    Subject(
        "request_fingerprint (2 kB)",
        "select * from public.request_fingerprint($1)",
        f"'{REQUEST}'",
        "select encode(sha256(convert_to($1::jsonb::text, 'UTF8')), 'hex') as request_fingerprint",
        note="the floor hashes the printed value, which is not canonical",
    ),
    Subject(
        "event_bus_send (one literal binding)",
        "select * from public.event_bus_send($1, $2, $3, $4)",
        f"'e-%i', 'order.placed', '{PAYLOAD}', 'r-%i'",
        Form([SEND], [f"'{ENVELOPE}'"]),
        peers={
            "pgmq.send": Form(["select * from pgmq.send($1, $2)"], [f"'order.placed__mail', '{ENVELOPE}'"]),
            "pgmq.send_topic": Form(["select * from pgmq.send_topic($1, $2)"], [f"'order.placed', '{ENVELOPE}'"]),
        },
        setup="select * from public.event_bus_subscribe('order.placed', 'mail');",
        note="the floor is given the queue and the envelope",
        bars={"pgmq.send_topic": 0.35},
    ),
    Subject(
        "event_bus_send (20,000 other bindings)",
        "select * from public.event_bus_send($1, $2, $3, $4)",
        f"'e-%i', 'order.placed', '{PAYLOAD}', 'r-%i'",
        database=CROWDED,
        peers={"without them": "select * from public.event_bus_send($1, $2, $3, $4)"},
        bars={"without them": 1.10},
    ),
    Subject(
        "event_bus_send (an envelope)",
        "select * from public.event_bus_send($1, $2)",
        f"'order.placed', '{ENVELOPE}'",
        Form([SEND], [f"'{ENVELOPE}'"]),
        note="the floor is given the queue",
    ),
    many(
        "event_bus_send_many",
        1.05,
        "select * from public.event_bus_send_many($1, $2)",
        arguments("'order.placed'", json_elements(ENVELOPE)),
        """insert into pgmq."q_order.placed__mail" (vt, message)
           select clock_timestamp(), u.message from unnest($2::jsonb[]) u (message) where $1 <> '' returning msg_id""",
        "select * from public.event_bus_send($1, $2)",
        f"'order.placed', '{ENVELOPE}'",
        rows=1,
    ),
    Subject(
        "event_bus_read (1, 600 in flight)",
        "select * from public.event_bus_read($1, $2, $3)",
        "'read__mail', 60, 1",
        Form(
            [
                """update pgmq."q_read__mail" set vt = $2, read_ct = read_ct + 1, last_read_at = $1
                   where msg_id = any (array(select m.msg_id from pgmq."q_read__mail" m where m.vt <= $1
                                             order by m.vt limit $3 for update skip locked))
                   returning msg_id, read_ct, enqueued_at, vt, message, headers"""
            ],
            [f"'{NOW}', 'infinity', 1"],
        ),
        peers={"pgmq.read": "select * from pgmq.read($1, $2, $3)"},
        # Every call puts one more in flight: the measured ones meet 520 to 720.
        setup=queue("read__mail", "450", "'infinity'") + queue("read__mail", "$CALLS", read_ct=0).partition(";")[2],
        bars={"pgmq.read": 0.25},
    ),
    Subject(
        "event_bus_archive",
        "select * from public.event_bus_archive($1, $2, $3)",
        "'archive__mail', %i, 1",
        Form(
            [
                """with gone as (
                     delete from pgmq."q_archive__mail" where msg_id = $1 and read_ct = $2
                     returning msg_id, read_ct, enqueued_at, last_read_at, vt, message, headers)
                   insert into pgmq."a_archive__mail" (msg_id, read_ct, enqueued_at, last_read_at, vt, message, headers)
                   select msg_id, read_ct, enqueued_at, last_read_at, vt, message, headers from gone returning msg_id"""
            ],
            ["%i, 1"],
        ),
        peers={"pgmq.archive": Form(["select * from pgmq.archive($1, $2::bigint)"], ["'archive__mail', %i"])},
        setup=queue("archive__mail", "20 * $CALLS"),
        bars={"pgmq.archive": 0.38},
    ),
    many(
        "event_bus_archive_many",
        1.45,
        "select * from public.event_bus_archive_many($1, $2, $3)",
        arguments("'archive_many__mail'", of_a_call(str), ONES),
        """with gone as (
             delete from pgmq."q_archive_many__mail" q using unnest($2::bigint[], $3::integer[]) u (msg_id, read_ct)
              where q.msg_id = u.msg_id and q.read_ct = u.read_ct and $1 <> ''
              returning q.msg_id, q.read_ct, enqueued_at, last_read_at, vt, message, headers)
           insert into pgmq."a_archive_many__mail"
             (msg_id, read_ct, enqueued_at, last_read_at, archived_at, vt, message, headers)
           select msg_id, read_ct, enqueued_at, last_read_at, now(), vt, message, headers from gone returning msg_id""",
        "select * from public.event_bus_archive($1, $2, $3)",
        "'archive__mail', %i, 1",
        setup=queue("archive_many__mail", f"{MANY} * $CALLS / {SHORTER} + {MANY}"),
    ),
    Subject(
        "event_bus_extend",
        "select * from public.event_bus_extend($1, $2, $3, $4)",
        "'extend__mail', %i, 1, 60",
        Form(
            ["""update pgmq."q_extend__mail" set vt = $3 where msg_id = $1 and read_ct = $2 returning msg_id, vt"""],
            [f"%i, 1, '{LEASE_END}'"],
        ),
        setup=queue("extend__mail", "20 * $CALLS", f"'{NOW}'"),
    ),
    Subject(
        "event_bus_bury",
        "select * from public.event_bus_bury($1, $2, $3, $4)",
        "'bury__mail', %i, 'no such address', 1",
        Form(
            [
                """with gone as (
                     delete from pgmq."q_bury__mail" where msg_id = $1 and read_ct = $3
                     returning msg_id, read_ct, enqueued_at, message, headers)
                   insert into pgmq."q_bury__mail__dead" (vt, message, headers)
                   select clock_timestamp(), message, coalesce(headers, '{}') || jsonb_build_object('hfs_lite',
                            jsonb_build_object('source_msg_id', msg_id, 'attempts', read_ct, 'reason', $2::text,
                                               'first_enqueued_at', enqueued_at, 'buried_at', clock_timestamp(),
                                               'requeues', 0))
                   from gone returning msg_id"""
            ],
            ["%i, 'no such address', 1"],
        ),
        setup=queue("bury__mail", "20 * $CALLS") + queue("bury__mail__dead", "0"),
        note="the floor knows of no earlier burial",
    ),
    Subject(
        "event_bus_dead_letters (100)",
        "select * from public.event_bus_dead_letters($1, $2)",
        "'dead__mail', 100",
        Form(
            [
                """select msg_id, (headers #>> '{hfs_lite,attempts}')::integer,
                          (headers #>> '{hfs_lite,first_enqueued_at}')::timestamptz,
                          (headers #>> '{hfs_lite,buried_at}')::timestamptz, headers #>> '{hfs_lite,reason}', message,
                          nullif(headers - 'hfs_lite', '{}')
                     from pgmq."q_dead__mail__dead" order by msg_id limit $1"""
            ],
            ["100"],
        ),
        rows=100,
        setup=queue("dead__mail", "$CALLS")
        + queue("dead__mail__dead", "0")
        + "select public.event_bus_bury('dead__mail', i, 'no such address') from generate_series(1, $CALLS) i;",
        note="the floor trusts the note",
    ),
    Subject(
        "event_bus_requeue",
        "select * from public.event_bus_requeue($1, $2)",
        "'dead__mail', %i",
        Form(
            [
                """with gone as (
                     delete from pgmq."q_dead__mail__dead" where msg_id = $1 returning enqueued_at, message, headers)
                   insert into pgmq."q_dead__mail" (vt, message, headers)
                   select clock_timestamp(), message, headers || jsonb_build_object('hfs_lite', jsonb_build_object(
                            'first_enqueued_at', (headers #>> '{hfs_lite,first_enqueued_at}')::timestamptz,
                            'requeues', (headers #>> '{hfs_lite,requeues}')::integer + 1))
                   from gone returning msg_id"""
            ],
            ["%i"],
        ),
        note="the floor trusts the note",
    ),
    sweep(
        "event_bus_sweep",
        'pgmq."a_swept__mail"',
        "archived_at < $1 order by archived_at",
        queue="swept__mail",
        setup=queue("swept__mail", "0")
        + """
insert into pgmq."a_swept__mail" (msg_id, read_ct, enqueued_at, archived_at, vt, message)
  select i, 1, '$NOW', timestamptz '$NOW' - interval '2 days', '$NOW', $ENVELOPE from generate_series(1, 10 * $CALLS) i;""",
    ),
    Subject(
        "event_bus_subscribe (repeat)",
        "select * from public.event_bus_subscribe($1, $2)",
        "'order.placed', 'mail'",
    ),
]


# What reading, parsing and answering any call costs, with no work in it.
NOP = Subject("nop", "select 1", "")


# ----------------------------------------------------------------------------------------------------------------------
# Counting
# ----------------------------------------------------------------------------------------------------------------------

CLUSTER = "instructions"
# A function that nothing else calls: callgrind writes down what it counted so far whenever it is called.
MARK = "pg_backend_pid"
RUN = (
    f'as_server valgrind --quiet --tool=callgrind --dump-before={MARK} --callgrind-out-file="$room/callgrind.out" '
    '"$bin/postgres" --single -D "$room/data" "$database" < "$room/calls.sql"'
)
# Nothing by chance or by the clock: no autovacuum, no checkpoint, no JIT.
SETTINGS = """
fsync = off
full_page_writes = off
autovacuum = off
jit = off
shared_buffers = 1GB
max_wal_size = 4GB
checkpoint_timeout = 1d
plan_cache_mode = force_generic_plan
"""


def need_valgrind():
    if shutil.which("valgrind"):
        return
    if not shutil.which("apt-get"):
        die("valgrind is missing, and this machine has no apt-get: install it with your package manager")
    say("will install valgrind: its callgrind counts the instructions")
    bash("export DEBIAN_FRONTEND=noninteractive; { as_root apt-get update -qq && "
         "as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends valgrind; } >&2")


class Counting:
    """A form that is being counted, or was: who wants the same meanwhile waits."""

    def __init__(self):
        self.lock = threading.Lock()
        self.instructions = None


class Bench:
    """A data directory with everything that the subjects ask for, and runs on copies of it."""

    def __init__(self):
        self.bin, self.state = bash('printf "%s\\n" "$bin" "$state"').splitlines()
        if not self.bin or not Path(self.bin, "postgres").exists():
            die("there is no PostgreSQL in this checkout: run scripts/setup first")
        self.data = Path(self.state, "cluster", CLUSTER, "data")
        self.room = Path(self.state, "instructions")
        self.claiming = threading.Lock()
        self.counted = {}

    def set_up(self):
        say("making a data directory")
        self.start_anew()
        self.psql("bench", HAND_WRITTEN)
        self.psql("bench", self.fill(IN_USE) + "".join(self.fill(subject.setup) for subject in SUBJECTS))
        # In transactions of their own: rows are settled, so that no first reader has to do it.
        self.psql("bench", "vacuum (analyze)")
        self.psql("postgres", f"create database {CROWDED} template bench")
        self.psql(CROWDED, CROWD)
        for database in ("bench", CROWDED):
            self.psql(database, "vacuum (freeze, analyze)")
        self.stop()

    def start_anew(self):
        bash(f'"$root/scripts/cluster" drop {CLUSTER}; "$root/scripts/cluster" start {CLUSTER} fsync=off;'
             f'rm -rf "$state/instructions"; install -d "$state/instructions";'
             'if [ "$(id -u)" = 0 ]; then chown "$server_user" "$state/instructions"; fi')
        with open(self.data / "postgresql.conf", "a") as conf:
            conf.write(SETTINGS)
        self.psql("postgres", "create database bench")
        self.psql("bench", "create extension hfs_lite cascade")
        self.versions = self.psql("bench", """
            select 'PostgreSQL ' || split_part(current_setting('server_version'), ' ', 1)
                   || (select string_agg(', ' || extname || ' ' || extversion, '' order by extname)
                         from pg_extension where extname in ('hfs_lite', 'pgmq'))""").strip()

    def stop(self):
        bash(f'"$root/scripts/cluster" stop {CLUSTER}')

    @staticmethod
    def fill(sql):
        """SQL that makes a text of the row's number i, in the place of `%i`."""
        for name, text in {"PAYLOAD": PAYLOAD, "ENVELOPE": ENVELOPE, "REQUEST": REQUEST}.items():
            sql = sql.replace(f"${name}", f"replace('{text}', '%' || 'i', i::text)::jsonb")
        return sql.replace("$CALLS", str(CALLS)).replace("$NOW", NOW)

    def psql(self, database, sql):
        url = bash(f'"$root/scripts/cluster" url {CLUSTER}').strip()
        done = subprocess.run(
            [f"{self.bin}/psql", f"{url} dbname='{database}'", "-X", "-q", "-At", "-v", "ON_ERROR_STOP=1", "-f", "-"],
            input=sql, stdout=subprocess.PIPE, text=True)
        if done.returncode:
            die("the data could not be set up")
        return done.stdout

    def instructions(self, subject, column, form):
        """Instructions of the calls that do the work of one call of ours."""
        # Subjects share forms, as a floor does its arguments.
        key = repr((form.database, form.statements, [call_of(form, i) for i in (1, 2)]))
        with self.claiming:
            counting = self.counted.setdefault(key, Counting())
        with counting.lock:
            if counting.instructions is None:
                with tempfile.TemporaryDirectory(dir=self.room) as room:
                    counting.instructions = self.run(subject, column, form, room)
        return counting.instructions * form.times

    def run(self, subject, column, form, room):
        """Runs the calls, and answers what one of them came to; callgrind's own account is in the room."""
        lines = [f"prepare s{n} as {one_line(s)}" for n, s in enumerate(form.statements)]
        for calls in form.calls():
            lines += [call_of(form, i) for i in calls] + [f"select {MARK}()"]
        Path(room, "calls.sql").write_text("\n".join(lines) + "\n")
        printed = self.single(room, form.database, f'cp -a "$state/cluster/{CLUSTER}/data" "$room/data"')
        answers = [s for s in form.statements if re.search(r"\breturning\b|^\s*select\b|\)\s*select\b", s)]
        # A line of dashes ends each heading and each row; the marks answer one of each.
        rows = form.rows or subject.rows
        expected = (len(answers) + rows) * (CALLS // form.shorter) + 4 if answers else 4
        if len(re.findall(r"^\t----$", printed, re.M)) != expected:
            die(f"{subject.name}, {column}: not {rows} rows a call")
        return counted(room, 2) / len(form.calls()[1])

    @staticmethod
    def single(room, database, make_data):
        """Runs the room's calls on the data directory that `make_data` puts there, and answers what was printed."""
        script = f"room={shlex.quote(str(room))}; database={database}; " + ENV + make_data + (
            '; if [ "$(id -u)" = 0 ]; then chown "$server_user" "$room"; fi; '
        )
        done = subprocess.run(["bash", "-c", script + RUN], capture_output=True, text=True)
        if done.returncode or re.search(r"\b(ERROR|FATAL|PANIC|WARNING):", done.stderr):
            die(f"postgres --single failed:\n{done.stderr[-2000:]}")
        return done.stdout


def counted(room, mark):
    """The instructions between that mark and the one before it."""
    account = Path(room, f"callgrind.out.{mark}").read_text()
    return int(re.search(r"^(?:summary|totals): (\d+)", account, re.M)[1])


def one_line(sql):
    """--single takes a line for a statement."""
    return " ".join(sql.split())


def call_of(form, i):
    calls = []
    for n, args in enumerate(form.args):
        args = args(i) if callable(args) else args.replace("%i", str(i))
        calls.append(f"execute s{n}({args})" if args else f"execute s{n}")
    return "; ".join(calls)


# ----------------------------------------------------------------------------------------------------------------------
# Answering
# ----------------------------------------------------------------------------------------------------------------------


def chosen(names):
    subjects = [s for s in SUBJECTS if not names or s.name in names or s.name.split(" (")[0] in names]
    for name in names:
        if not any(name in (s.name, s.name.split(" (")[0]) for s in SUBJECTS):
            die(f"no such subject: {name}. There are: {', '.join(s.name for s in SUBJECTS)}")
    return subjects


def count(bench, subjects, barred=False):
    """Instructions a call of each form, or of those that a bar is about, by subject and column."""
    forms = [
        (subject, column, form)
        for subject in subjects
        for column, form in subject.forms()
        if not barred or column == "ours" or column in subject.bars
    ]

    def counted(of):
        instructions = bench.instructions(*of)
        say(f"{of[0].name}, {of[1]}: {instructions:,.0f}")
        return instructions

    with ThreadPoolExecutor(os.cpu_count()) as processors:
        counts = list(processors.map(counted, forms))
    answer = {subject.name: {} for subject in subjects}
    for (subject, column, _), instructions in zip(forms, counts):
        answer[subject.name][column] = instructions
    return answer


def table(subjects, counts):
    def number(n):
        return f"{round(n, -3):,.0f}" if n else ""

    def ratio(n, of):
        return f"{n / of:.2f}" if of else ""

    lines = [
        "| function | floor | ours | ours / floor | hand-written SQL | ours / hand-written | beside |",
        "| --- | ---: | ---: | ---: | ---: | ---: | --- |",
    ]
    notes = []
    for subject in subjects:
        of = counts[subject.name]
        ours, floor, hand = of["ours"], of.get("floor"), of.get("hand")
        mark = ""
        if subject.note:
            if subject.note not in notes:
                notes.append(subject.note)
            mark = f" [{notes.index(subject.note) + 1}]"
        peers = ", ".join(f"{peer} {number(of[peer])} ({ratio(ours, of[peer])})" for peer in subject.peers)
        name, paren, rest = subject.name.partition(" (")
        cells = [f"`{name}`{paren}{rest}{mark}"]
        cells += [number(floor), number(ours), ratio(ours, floor), number(hand), ratio(ours, hand), peers]
        lines.append("| " + " | ".join(cells) + " |")
    lines += [""] + [f"{n + 1}. {note[0].upper()}{note[1:]}." for n, note in enumerate(notes)]
    return "\n".join(lines).rstrip()


def main(arguments):
    options = {a for a in arguments if a.startswith("--")}
    names = [a for a in arguments if not a.startswith("--")]
    known = options <= {"--write", "--check", "--profile"} and len(options) <= 1
    if not known or (names and options & {"--write", "--check"}):
        sys.exit(__doc__)
    subjects = [s for s in chosen(names) if s.bars or "--check" not in options]
    if "--profile" in options and len(subjects) != 1:
        die(f"one subject, please: {', '.join(s.name for s in subjects)}")
    need_valgrind()
    bench = Bench()
    try:
        bench.set_up()
        if "--profile" in options:
            profile(bench, subjects[0])
        elif "--check" in options:
            check(subjects, count(bench, subjects, barred=True))
        else:
            report(bench, subjects, "--write" in options)
    finally:
        bash(f'"$root/scripts/cluster" drop {CLUSTER}; rm -rf "$state/instructions"')


def report(bench, subjects, write):
    nop = count(bench, [NOP])["nop"]["ours"]
    rows = table(subjects, count(bench, subjects))
    valgrind = subprocess.run(["valgrind", "--version"], capture_output=True, text=True).stdout.strip()
    about = f"""
        Written by `bench/instructions --write` ({bench.versions}, {valgrind}); how it counts stands at its head.
        *Floor* is the bare prepared statement that does the same work on the same table, and *hand-written SQL* the
        `LANGUAGE sql` function that applications have for it today. All are called by EXECUTE, each in a transaction of
        its own; a call without any work (`SELECT 1`) takes {round(nop, -3):,.0f}, which are part of every number. Rows
        are printed as text, which is the larger part of it where 100 are answered."""
    text = "\n".join(["# Instructions a call", "", *textwrap.wrap(one_line(about), 120), "", rows, ""])
    print(text, end="")
    if write:
        (ROOT / "bench/instructions.md").write_text(text)


def check(subjects, counts):
    failed = False
    for subject in subjects:
        of = counts[subject.name]
        for column, bar in subject.bars.items():
            ratio = of["ours"] / of[column]
            failed |= ratio > bar
            sums = f"{of['ours']:,.0f} of {of[column]:,.0f} ({column}) = {ratio:.3f}"
            print(f"{subject.name}: {sums}, at most {bar:.2f}: {'TOO MUCH' if ratio > bar else 'ok'}")
    if failed:
        sys.exit(1)


def profile(bench, subject):
    """Instructions a call of each function inside, with those that it calls: ours, the floor's, and the difference."""
    spent = {}
    for column, form in subject.forms():
        if column not in ("ours", "floor"):
            continue
        with tempfile.TemporaryDirectory(dir=bench.room) as room:
            bench.run(subject, column, form, room)
            annotate = ["callgrind_annotate", "--inclusive=yes", "--threshold=100", f"{room}/callgrind.out.2"]
            listing = subprocess.run(annotate, stdout=subprocess.PIPE, text=True).stdout
        for n, function in re.findall(r"^ *([\d,]+) +\([ \d.]+%\) +[^:\n]*:(.*?)(?: \[.*)?$", listing, re.M):
            spent.setdefault(function, {"ours": 0, "floor": 0})[column] += int(n.replace(",", "")) / len(form.calls()[1])
    print(f"{'ours':>10}{'floor':>10}{'more':>10}")
    for function, of in sorted(spent.items(), key=lambda item: -abs(item[1]["ours"] - item[1]["floor"]))[:60]:
        print(f"{of['ours']:>10,.0f}{of['floor']:>10,.0f}{of['ours'] - of['floor']:>10,.0f}  {function}")
