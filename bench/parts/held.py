"""What a snapshot that somebody holds costs the outbox and the bus, which leave dead rows that nobody may remove then.

Each second 800 rows are written into the outbox (queue_write), and a relay takes and marks them in batches of 100
(queue_waiting, queue_mark_sent, one transaction); beside it 100 messages a second are sent, read one by one and
archived. First for two minutes without a snapshot; then a session holds one (REPEATABLE READ, idle in transaction) for
ten. Compared with the hand-written `LANGUAGE sql` functions and pgmq's own ones for the bus, at the same rates, in a
database of its own, after ours; under a snapshot for five minutes only. All is durable, and autovacuum runs.

pgbench paces them (--rate, by prepared statements, arrivals as chance has them). A call's time is that of its
transaction (for the bus's consumer: of two, the read and the archive), without the time that it was late; whether the
rate was held says the rate. Dead rows a call are entries that index scans of the table met (pg_stat_user_indexes,
idx_tup_read) less the rows that they fetched (idx_tup_fetch); pages a call are pg_statio_user_tables' of heap and
indexes, of all calls, over the calls of the relay or of the consumer.
"""

import subprocess
import tempfile
import time
from contextlib import ExitStack
from dataclasses import dataclass

from .instructions import HAND_WRITTEN, IN_USE, Bench
from .latency import VARIABLES
from .server import Call, Server, percentile

ROWS, BATCH, MESSAGES = 800, 100, 100


@dataclass
class Load:
    """One pgbench: its script, how many run it at once, and how often a second they do together."""

    script: str
    clients: int
    rate: float


@dataclass
class Times:
    """Seconds before the snapshot, seconds under it, and the seconds of a sample."""

    before: int
    held: dict[str, int]
    sample: int


LONG = Times(120, {"ours": 600, "hand-written": 300}, 60)
SHORT = Times(5, {"ours": 20, "hand-written": 20}, 5)

TAKE = f"""select coalesce(array_agg(id), '{{}}')::text as ids, count(payload) as payloads
from $SCHEMA.queue_waiting({BATCH}) \\gset"""
CONSUME = "\\set msg_id 0\n\\set read_ct 1\n"
# The relay and the consumer could do more than what comes in, so that they can catch up.
SPARE = 1.25


def loads(schema: str, send: str, read: str, archive: str) -> dict[str, Load]:
    relay = f"""begin;
{TAKE.replace("$SCHEMA", schema)}
select {schema}.queue_mark_sent(:ids, null);
commit;
"""
    return {
        "queue_write": Load(f"select {schema}.queue_write('mail', :payload, null, 'request-1');\n", 4, ROWS),
        "queue_waiting, queue_mark_sent": Load(relay, 1, ROWS / BATCH * SPARE),
        "send": Load(f"{send};\n", 1, MESSAGES),
        "read, archive": Load(f"{CONSUME}{read} \\aset\n{archive};\n", 1, MESSAGES * SPARE),
    }


FORMS = {
    "ours": loads("public", "select * from public.event_bus_send('e-1', 'order.placed', :payload, 'request-1')",
                  "select * from public.event_bus_read('order.placed__mail', 3600, 1)",
                  "select * from public.event_bus_archive('order.placed__mail', :msg_id, :read_ct)"),
    "hand-written": loads("hand", "select * from pgmq.send_topic('order.placed', :envelope)",
                          "select * from pgmq.read('order.placed__mail', 3600, 1)",
                          "select * from pgmq.archive('order.placed__mail', :msg_id::bigint)"),
}
# Whose calls the statistics of a table are shared among.
TABLES = {"queue": "queue_waiting, queue_mark_sent", "q_order.placed__mail": "read, archive"}
STATISTICS = """
select relname, n_tup_ins, n_tup_upd, n_dead_tup, dead, pages
from pg_stat_user_tables
join (select relid, heap_blks_hit + heap_blks_read + idx_blks_hit + idx_blks_read as pages
        from pg_statio_user_tables) io using (relid)
join (select relid, sum(idx_tup_read - idx_tup_fetch) as dead from pg_stat_user_indexes group by 1) i using (relid)
where relname in ('queue', 'q_order.placed__mail')"""


def run(server: Server, short: bool) -> dict:
    times = SHORT if short else LONG
    return {
        "rates": {"rows": ROWS, "messages": MESSAGES},
        "seconds_before": times.before,
        "sample_seconds": times.sample,
        "forms": {form: {"seconds_held": times.held[form]} | under_snapshot(server, form, times) for form in FORMS},
    }


def under_snapshot(server: Server, form: str, times: Times) -> dict:
    database = server.database("held", sql="create extension hfs_lite cascade;" + HAND_WRITTEN + Bench.fill(IN_USE)
                               + "select from public.event_bus_subscribe('order.placed', 'mail'); vacuum (analyze);")
    server.checkpoint()
    seconds = times.before + times.held[form]
    with ExitStack() as stack:
        rooms = {name: stack.enter_context(tempfile.TemporaryDirectory()) for name in FORMS[form]}
        begun = time.time()
        running = {name: server.start_pgbench(database, load.script, rooms[name], clients=load.clients, seconds=seconds,
                                              rate=load.rate, variables=VARIABLES)
                   for name, load in FORMS[form].items()}
        statistics = [statistics_of(server, database)]
        for end in range(times.sample, seconds + 1, times.sample):
            if end - times.sample == times.before:
                holder = hold(server, database)
            time.sleep(max(0, begun + end - time.time()))
            statistics.append(statistics_of(server, database))
        calls = {name: server.answer_of(process, rooms[name]).calls for name, process in running.items()}
        server.end(holder)
    samples = [sample(FORMS[form], calls, statistics[n:n + 2], begun + n * times.sample, times.sample,
                      n * times.sample >= times.before) for n in range(len(statistics) - 1)]
    server.psql("postgres", f"drop database {database}")
    return {"samples": samples}


def hold(server: Server, database: str) -> subprocess.Popen:
    """A session that has a snapshot, and does nothing more."""
    holder = server.spawn([str(server.bin / "psql"), server.url(database), "-X", "-q", "-At"], stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE, text=True)
    holder.stdin.write("begin isolation level repeatable read; select pg_current_snapshot();\n")
    holder.stdin.flush()
    holder.stdout.readline()
    return holder


def statistics_of(server: Server, database: str) -> dict[str, dict[str, int]]:
    rows = (row.split("|") for row in server.psql(database, STATISTICS).splitlines())
    return {table: dict(zip(("inserted", "updated", "dead_rows", "dead", "pages"), map(int, numbers), strict=True))
            for table, *numbers in rows}


def sample(loads: dict[str, Load], calls: dict[str, list[Call]], statistics: list[dict], begun: float, seconds: int,
           held: bool) -> dict:
    of = {}
    for name in loads:
        took = [call.took * 1000 for call in calls[name] if begun <= call.ended < begun + seconds]
        of[name] = {
            "rate": round(len(took) / seconds, 1),
            "p50_ms": round(percentile(took, 0.5), 3) if took else None,
            "p99_ms": round(percentile(took, 0.99), 3) if took else None,
        }
    tables = {}
    for table, name in TABLES.items():
        before, after = (at[table] for at in statistics)
        calls_of_it = max(1, of[name]["rate"] * seconds)
        tables[table] = {
            "rows_a_second": round((after["updated"] - before["updated"]) / seconds, 1),
            "dead_rows": after["dead_rows"],
            "dead_rows_a_call": round((after["dead"] - before["dead"]) / calls_of_it, 1),
            "pages_a_call": round((after["pages"] - before["pages"]) / calls_of_it, 1),
        }
    return {"held": held, "calls": of, "tables": tables}
