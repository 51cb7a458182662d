"""What each hot call costs while what it has to find its way through grows.

One axis at a time, each in a database of its own: sent rows, waiting rows, done jobs, receipts, messages in flight,
visible messages, literal and wildcard bindings of a topic, queues. Counted are instructions a call, as in
instructions.py (`postgres --single` under callgrind, generic plans, each call in a transaction of its own), since they
come out the same to a percent where times do not. They do not show what a page that is not in memory costs. The rows
are loaded in steps, with fsync off, and VACUUM (FREEZE, ANALYZE) settles them after each; all calls of an axis are
counted in one run of the server between marks, so that starting, planning and warming up are left out. `flat` is the
dearest size over the cheapest. Messages become visible one by one, as single sends make them.
"""

import re
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import repeat
from pathlib import Path
from typing import Callable

from .checkout import bash, die, say
from .instructions import (CLUSTER, FINGERPRINT, LEASE_END, MARK, NOP, NOW, PAYLOAD, Bench, counted, need_valgrind,
                           one_line, uuid, uuid_in_sql)
from .server import Server

# Calls before the first mark of a call, and those between its marks.
WARM_UP, MEASURED = 20, 60
EACH = WARM_UP + MEASURED
# Where the numbers of a step's own rows begin: above those of all that is loaded.
OWN = 100_000_000


@dataclass
class Call:
    name: str
    statement: str
    # The arguments of call i at step k: no two may be the same.
    args: "Callable[[int, int], str]"
    rows: int = 1
    bar: float = 1.20


@dataclass
class Axis:
    """What grows: its sizes, the SQL that loads the rows of numbers $FROM to $TO, and the calls that are counted."""

    name: str
    sizes: list[int]
    grow: str
    calls: list[Call]
    # What must be there before, and what each step needs besides, numbered from $OWN + 1 to $OWN + $EACH.
    begin: str = ""
    step: str = ""
    # How many sizes a short run has.
    short: int = 2


def own(i: int, k: int) -> int:
    """The number of the i-th of step k's own rows."""
    return OWN + k * 10_000 + i


def to(size: int, first: int = 1000) -> list[int]:
    sizes = [first]
    while sizes[-1] < size:
        sizes.append(sizes[-1] * 10)
    return sizes


WAITING_ROWS = """
insert into public.queue (queue, payload, correlation_id, created_at)
  select 'mail', $PAYLOAD, 'r-' || i, timestamptz '$NOW' + i * interval '1 second'
    from generate_series($FROM, $TO) i;"""
SENT_ROWS = """
insert into public.queue (queue, payload, correlation_id, created_at, sent_at)
  select 'mail', $PAYLOAD, 'r-' || i, timestamptz '$NOW' - i * interval '1 second',
         timestamptz '$NOW' - i * interval '1 second' from generate_series($FROM, $TO) i;"""
# Those that queue_mark_sent is given, later than all others.
OWN_ROWS = f"""
insert into public.queue (id, queue, payload, created_at)
  select {uuid_in_sql("i")}, 'mail', $PAYLOAD, timestamptz '$NOW' + interval '100 years'
    from generate_series($OWN, $OWN + 10 * $EACH + 10) i;"""
OUTBOX = [
    Call("queue_write", "select public.queue_write($1, $2, $3, $4)",
         lambda i, k: f"'mail', '{PAYLOAD.replace('%i', str(i))}', '{NOW}', 'request-{i}'"),
    Call("queue_waiting (100)", "select * from public.queue_waiting($1)", lambda i, k: "100", 100),
    Call("queue_mark_sent (10)", "select public.queue_mark_sent($1, $2)",
         lambda i, k: "'{%s}', '%s'" % (",".join(uuid(own(10 * i + n, k)) for n in range(10)), NOW)),
]
OWN_JOBS = f"""
insert into public.jobs
    (id, kind, job_key, status, fencing_token, claimed_by, lease_expires_at, payload, created_at, updated_at)
  select {uuid_in_sql("i")}, 'mail', 'running-' || i, 'running', 1, 'worker-1', '{LEASE_END}', $PAYLOAD, '$NOW', '$NOW'
    from generate_series($OWN + 1, $OWN + $EACH) i;"""
CLAIM = "select * from public.job_claim($1, $2, $3, $4, $5, $6)"


def claim(key: str) -> "Callable[[int, int], str]":
    return lambda i, k: f"'mail', '{key}-{own(i, k)}', 'worker-1', '{LEASE_END}', '{PAYLOAD}', '{NOW}'"


JOBS = [
    Call("job_claim (refused)", CLAIM, claim("running"), 0),
    Call("job_claim (new)", CLAIM, claim("new")),
    Call("job_complete", "select * from public.job_complete($1, $2, $3)",
         lambda i, k: f"'{uuid(own(i, k))}', 1, '{NOW}'"),
]
RECEIPTS = [
    Call("inbox_claim_client (new)", "select * from public.inbox_claim_client($1, $2, $3, $4)",
         lambda i, k: f"'client:shop', 'new-{own(i, k)}', '{FINGERPRINT}', '{NOW}'"),
    Call("inbox_claim_client (replay)", "select * from public.inbox_claim_client($1, $2, $3, $4)",
         lambda i, k: f"'client:shop', 'k-{2 * i}', '{FINGERPRINT}', '{NOW}'"),
    Call("inbox_save_client_outcome", "select * from public.inbox_save_client_outcome($1, $2, $3)",
         lambda i, k: f"""'client:shop', 'new-{own(i, k)}', '{{"value": 1}}'"""),
    Call("inbox_claim_event (new)", "select * from public.inbox_claim_event($1, $2)",
         lambda i, k: f"'webhook.pay', 'new-{own(i, k)}'"),
    Call("inbox_claim_event (repeat)", "select * from public.inbox_claim_event($1, $2)",
         lambda i, k: f"'webhook.pay', 'k-{2 * i + 1}'", 0),
]
TOPIC = "select from public.event_bus_subscribe('order.placed', 'mail');"
SEND = Call("event_bus_send", "select * from public.event_bus_send($1, $2, $3, $4)",
            lambda i, k: f"'e-{i}', 'order.placed', '{PAYLOAD.replace('%i', str(i))}', 'r-{i}'", bar=1.10)
BUS = [
    Call("event_bus_read (1)", "select * from public.event_bus_read($1, $2, $3)",
         lambda i, k: "'order.placed__mail', 86400, 1"),
    SEND,
    Call("event_bus_archive", "select * from public.event_bus_archive($1, $2, $3)",
         lambda i, k: f"'order.placed__mail', {own(i, k)}, 1"),
]
# Visible ones for the reads, and held ones to archive, whose numbers are known.
OWN_MESSAGES = """
insert into pgmq."q_order.placed__mail" (vt, message)
  select timestamptz '$NOW' + i * interval '1 microsecond', $ENVELOPE from generate_series(1, 2 * $EACH) i;
insert into pgmq."q_order.placed__mail" (msg_id, read_ct, vt, message) overriding system value
  select i, 1, timestamptz '3000-01-01' + i * interval '1 microsecond', $ENVELOPE
    from generate_series($OWN + 1, $OWN + $EACH) i;"""

# So that messages of earlier steps are no second axis.
EMPTY = 'truncate pgmq."q_order.placed__mail";'

AXES = [
    Axis("sent rows", to(10_000_000), SENT_ROWS, OUTBOX,
         WAITING_ROWS.replace("$FROM", "1").replace("$TO", "1000"), OWN_ROWS),
    Axis("done jobs", to(10_000_000), """
insert into public.jobs (kind, job_key, status, fencing_token, claimed_by, payload, created_at, updated_at)
  select 'mail', 'old-' || i, 'done', 1, 'worker-1', $PAYLOAD, '$NOW', timestamptz '$NOW' - i * interval '1 second'
    from generate_series($FROM, $TO) i;""", JOBS, step=OWN_JOBS),
    # Even ones are clients', odd ones deliveries.
    Axis("receipts", to(10_000_000), f"""
insert into public.inbox (source, event_id, claimed_at, request_fingerprint, outcome)
  select case i % 2 when 0 then 'client:shop' else 'webhook.pay' end, 'k-' || i,
         timestamptz '$NOW' - i * interval '1 second', case i % 2 when 0 then '{FINGERPRINT}' end,
         case i % 2 when 0 then '{{"value": 1}}'::jsonb end from generate_series($FROM, $TO) i;""", RECEIPTS),
    Axis("waiting rows", to(1_000_000, 100), WAITING_ROWS, OUTBOX,
         SENT_ROWS.replace("$FROM", "1").replace("$TO", "1000"), OWN_ROWS),
    Axis("messages in flight", [0, *to(1_000_000)], """
insert into pgmq."q_order.placed__mail" (read_ct, vt, message)
  select 1, timestamptz '2500-01-01' + i * interval '1 microsecond', $ENVELOPE from generate_series($FROM, $TO) i;""",
         BUS, TOPIC, OWN_MESSAGES),
    Axis("visible messages", to(1_000_000, 100), """
insert into pgmq."q_order.placed__mail" (vt, message)
  select timestamptz '$NOW' + interval '1 hour' + i * interval '1 microsecond', $ENVELOPE
    from generate_series($FROM, $TO) i;""", BUS, TOPIC, OWN_MESSAGES),
    Axis("other literal bindings", to(10_000, 1), """
insert into pgmq.topic_bindings (pattern, queue_name)
  select 'order.' || i || '.placed', 'elsewhere' from generate_series($FROM, $TO) i;""", [SEND],
         TOPIC + "select from pgmq.create('elsewhere');", EMPTY, short=3),
    Axis("other wildcard bindings", to(10_000, 1), """
insert into pgmq.topic_bindings (pattern, queue_name)
  select 'order.' || i || '.placed.#', 'elsewhere' from generate_series($FROM, $TO) i;""", [SEND],
         TOPIC + "select from pgmq.create('elsewhere');", EMPTY, short=3),
    # Each with its own topic, and made by a statement of its own: no transaction could lock all of their tables.
    Axis("other queues", to(1000, 1), r"""
select format('select from public.event_bus_subscribe(%L, %L)', 'topic-' || i, 'mail')
  from generate_series($FROM, $TO) i \gexec
""", BUS, TOPIC, OWN_MESSAGES),
]


def run(server: Server, short: bool) -> dict:
    need_valgrind()
    bench = Bench()
    axes = {axis.name: axis.sizes[:axis.short] if short else axis.sizes for axis in AXES}
    costs = {axis.name: {call.name: [] for call in axis.calls} for axis in AXES}
    try:
        bench.start_anew()
        for axis in AXES:
            bench.psql("postgres", f'create database "{axis.name}" template bench')
            bench.psql(axis.name, bench.fill(axis.begin))
        for k in range(max(map(len, axes.values()))):
            if k:
                bash(f'"$root/scripts/cluster" start {CLUSTER}')
            growing = [axis for axis in AXES if k < len(axes[axis.name])]
            with ThreadPoolExecutor(2) as processors:
                list(processors.map(load, repeat(bench), growing, repeat(k)))
            bench.stop()
            for axis in growing:
                for call, instructions in zip(axis.calls, count(bench, axis.name, axis.calls, k), strict=True):
                    costs[axis.name][call.name].append(round(instructions))
            say(f"step {k + 1}: " + ", ".join(f"{axis.sizes[k]:,} {axis.name}" for axis in growing))
        nop = Call("nop", NOP.ours, lambda i, k: "")
        nothing = round(count(bench, "bench", [nop], 0)[0])
    finally:
        bash(f'"$root/scripts/cluster" drop {CLUSTER}; rm -rf "$state/instructions"')
    return {"nothing": nothing, "axes": [
        {"axis": axis.name, "sizes": axes[axis.name], "calls": [
            {"name": call.name, "bar": call.bar, "instructions": of, "flat": max(of) / min(of)}
            for call in axis.calls for of in [costs[axis.name][call.name]]]}
        for axis in AXES]}


def load(bench: Bench, axis: Axis, k: int) -> None:
    """Makes an axis as long as its k-th step."""
    first, last = axis.sizes[k - 1] + 1 if k else 1, axis.sizes[k]
    sql = (axis.grow + axis.step).replace("$FROM", str(first)).replace("$TO", str(last))
    sql = sql.replace("$OWN", str(own(0, k))).replace("$EACH", str(EACH))
    bench.psql(axis.name, bench.fill(sql))
    bench.psql(axis.name, "set maintenance_work_mem = '1GB'; vacuum (freeze, analyze)")


def count(bench: Bench, database: str, calls: list[Call], k: int) -> list[float]:
    """Instructions of each call, all in one run, on the data directory itself: it is too much to copy."""
    lines, rows = [], 0
    for n, call in enumerate(calls):
        lines.append(f"prepare s{n} as {one_line(call.statement)}")
    for n, call in enumerate(calls):
        form = [f"execute s{n}({call.args(i, k)})".replace("()", "") for i in range(1, EACH + 1)]
        lines += [*form[:WARM_UP], f"select {MARK}()", *form[WARM_UP:], f"select {MARK}()"]
        # A line of dashes ends each heading and each row; the marks answer one of each.
        rows += (1 + call.rows) * EACH + 4
    with tempfile.TemporaryDirectory(dir=bench.room) as room:
        Path(room, "calls.sql").write_text("\n".join(lines) + "\n")
        printed = bench.single(room, f"'{database}'", f'ln -s "$state/cluster/{CLUSTER}/data" "$room/data"')
        if len(re.findall(r"^\t----$", printed, re.M)) != rows:
            die(f"{database}, {k}: not as many rows a call as there should be")
        return [counted(room, 2 * n + 2) / MEASURED for n in range(len(calls))]
