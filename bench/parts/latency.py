"""Throughput and latency of single calls, and of sets against single calls.

Compared: each function, the hand-written `LANGUAGE sql` function that applications have for it today (HAND_WRITTEN of
instructions.py; for the bus pgmq's own functions), and the bare prepared statement that does the same work on the same
table. All are called by pgbench with `--protocol=prepared`, each call in a transaction of its own, with the same
arguments, by 1, 2, 8 and 32 clients, with synchronous_commit on and off (all else is durable). Forms run in turn
(A B C A B C A B C); before each run the tables are emptied, filled as in use, and analysed. What a run's first quarter
of a second did, while its sessions warmed up, is left out. A ratio is ours over the other's: of transactions a second
(more is better), of the median and of the 99th percentile of a transaction's latency (less is better).

Sets: 100 rows by one call, in BEGIN and COMMIT, against 100 single calls in one BEGIN and COMMIT over the same
connection, each a round trip, as drivers do it. Compared are the sums of the means of these statements' latencies, by
pgbench's --report-per-command, of the calls alone and of the whole transaction; making the arguments is not counted.
"""

import re
from dataclasses import dataclass

from .instructions import (CLAIM_JOB, CLAIM_RECEIPT, COMPLETE_JOB, ENVELOPE, FINGERPRINT, HAND_WRITTEN, IN_USE,
                           LEASE_END, NOW, PAYLOAD, SEND, Bench, uuid_in_sql)
from .server import Answer, Server, spread

CLIENTS = [1, 2, 8, 32]
ROUNDS = 3
SECONDS = 1
# Seconds at a run's beginning that are not counted.
SETTLING = 0.25
DATABASE = "latency"

# Emptied and filled before each run.
TABLES = "truncate public.jobs, public.queue, public.inbox, public.job_ticks;" + IN_USE + """
truncate pgmq."q_order.placed__mail", pgmq."a_order.placed__mail";
analyze public.jobs, public.queue, public.inbox, public.job_ticks, pgmq."q_order.placed__mail";"""
# More messages than any run takes, each visible since an instant of its own, as if they had been sent one by one.
MESSAGES = """
insert into pgmq."q_order.placed__mail" (vt, message)
  select timestamptz '$NOW' + i * interval '1 microsecond', $ENVELOPE from generate_series(1, $MANY) i;
analyze pgmq."q_order.placed__mail";"""
MANY_MESSAGES = 25_000

VARIABLES = {
    "payload": PAYLOAD.replace("%i", "1"),
    "envelope": ENVELOPE.replace("%i", "1"),
    "fingerprint": FINGERPRINT,
    "now": NOW,
    "lease": LEASE_END,
    "i": "0",
}
# A number that no other call of any client has.
NEXT = "\\set i :i + 1\n\\set key :client_id * 100000000 + :i\n"


def bound(statement: str, *arguments: str) -> str:
    """A statement with arguments of pgbench's in the place of $1, $2 ..., on one line."""
    text = re.sub(r"\$(\d+)", lambda place: arguments[int(place[1]) - 1], statement)
    return " ".join(text.split())


@dataclass
class Subject:
    name: str
    # Scripts by form; "ours" first.
    forms: dict[str, str]
    setup: str = ""


def calls(*statements: str) -> str:
    return NEXT + "".join(f"{statement}{'' if statement.endswith('gset') else ';'}\n" for statement in statements)


JOB = ("'mail'", ":key", "'worker-1'", ":lease", ":payload", ":now")
ENDED = (":id", ":fencing_token", ":now")
RECEIPT = ("'shop-checkout'", ":key", ":fingerprint", ":now")
OUTBOX = ("'mail'", ":payload", ":now", "'request-1'")
READ = """
    update pgmq."q_order.placed__mail" set vt = clock_timestamp() + $1 * interval '1 second', read_ct = read_ct + 1,
      last_read_at = clock_timestamp()
    where msg_id = any (array(select m.msg_id from pgmq."q_order.placed__mail" m where m.vt <= clock_timestamp()
                              order by m.vt limit 1 for update skip locked))
    returning msg_id, read_ct, enqueued_at, vt, message, headers"""
ARCHIVE = """
    with gone as (
      delete from pgmq."q_order.placed__mail" where msg_id = $1 and read_ct = $2
      returning msg_id, read_ct, enqueued_at, last_read_at, vt, message, headers)
    insert into pgmq."a_order.placed__mail" (msg_id, read_ct, enqueued_at, last_read_at, vt, message, headers)
    select msg_id, read_ct, enqueued_at, last_read_at, vt, message, headers from gone returning msg_id"""

SUBJECTS = [
    Subject("queue_write", {
        "ours": calls(bound("select public.queue_write($1, $2, $3, $4)", *OUTBOX)),
        "hand-written": calls(bound("select hand.queue_write($1, $2, $3, $4)", *OUTBOX)),
        "bare": calls(bound("insert into public.queue (queue, payload, created_at, correlation_id) "
                            "values ($1, $2, $3, $4)", *OUTBOX)),
    }),
    Subject("job_claim, job_complete", {
        "ours": calls(bound("select * from public.job_claim($1, $2, $3, $4, $5, $6)", *JOB) + " \\gset",
                      bound("select * from public.job_complete($1, $2, $3)", *ENDED)),
        "hand-written": calls(bound("select * from hand.job_claim($1, $2, $3, $4, $5, $6)", *JOB) + " \\gset",
                              bound("select * from hand.job_complete($1, $2, $3)", *ENDED)),
        "bare": calls(bound(CLAIM_JOB, *JOB) + " \\gset", bound(COMPLETE_JOB, *ENDED)),
    }),
    Subject("inbox_claim_client", {
        "ours": calls(bound("select * from public.inbox_claim_client($1, $2, $3, $4)", *RECEIPT)),
        "hand-written": calls(bound("select * from hand.inbox_claim_client($1, $2, $3, $4)", *RECEIPT)),
        "bare": calls(bound(CLAIM_RECEIPT, *RECEIPT)),
    }),
    Subject("event_bus_send", {
        "ours": calls("select * from public.event_bus_send(:key, 'order.placed', :payload, 'request-1')"),
        "pgmq": calls("select * from pgmq.send_topic('order.placed', :envelope)"),
        "bare": calls(bound(SEND, ":envelope")),
    }),
    Subject("event_bus_read, event_bus_archive", {
        "ours": calls("select * from public.event_bus_read('order.placed__mail', 3600, 1) \\gset",
                      "select * from public.event_bus_archive('order.placed__mail', :msg_id, :read_ct)"),
        "pgmq": calls("select * from pgmq.read('order.placed__mail', 3600, 1) \\gset",
                      "select * from pgmq.archive('order.placed__mail', :msg_id::bigint)"),
        "bare": calls(bound(READ, "3600") + " \\gset", bound(ARCHIVE, ":msg_id", ":read_ct")),
    }, MESSAGES.replace("$MANY", str(MANY_MESSAGES))),
]


def run(server: Server, short: bool) -> dict:
    server.database(DATABASE, sql="create extension hfs_lite cascade;" + HAND_WRITTEN
                    + "select from public.event_bus_subscribe('order.placed', 'mail');")
    subjects = []
    for synchronous in ("on", "off"):
        server.settings(synchronous_commit=synchronous)
        for subject in SUBJECTS:
            for clients in [8] if short else CLIENTS:
                rounds = [{form: once(server, subject, form, clients) for form in subject.forms}
                          for _ in range(1 if short else ROUNDS)]
                subjects.append({"name": subject.name, "synchronous_commit": synchronous, "clients": clients}
                                | compared(rounds))
    server.settings(synchronous_commit="on")
    measured = sets(server, short)
    server.psql("postgres", f"drop database {DATABASE}")
    return {"subjects": subjects, "sets": measured}


def once(server: Server, subject: Subject, form: str, clients: int) -> dict[str, float]:
    server.psql(DATABASE, Bench.fill(TABLES + subject.setup))
    answer = server.pgbench(DATABASE, subject.forms[form], clients=clients, seconds=SECONDS, variables=VARIABLES)
    return figures(settled(answer))


def settled(answer: Answer) -> Answer:
    begun = min(call.ended - call.took for call in answer.calls) + SETTLING
    return Answer([call for call in answer.calls if call.ended - call.took >= begun], answer.seconds - SETTLING)


def figures(answer: Answer) -> dict[str, float]:
    return {"tps": round(answer.rate, 1), "p50_ms": round(answer.took(0.5), 3), "p99_ms": round(answer.took(0.99), 3)}


def compared(rounds: list[dict[str, dict[str, float]]]) -> dict:
    """What each form came to in each round, and of ours over each other form the ratios' median and spread."""
    forms = {form: {figure: [of[form][figure] for of in rounds] for figure in rounds[0][form]} for form in rounds[0]}
    return {
        "forms": forms,
        "ratios": {
            form: {figure: spread([of["ours"][figure] / of[form][figure] for of in rounds]) for figure in forms[form]}
            for form in forms if form != "ours"
        },
    }


# ----------------------------------------------------------------------------------------------------------------------
# Sets
# ----------------------------------------------------------------------------------------------------------------------

ROWS = 100
# Calls of a set in a run; a statement's first executions are a part of its mean.
SETS = 200
BAR = 0.25


@dataclass
class Set:
    name: str
    many: str
    single: str
    # What the items of a call are called in it: each is an expression in SQL of the number i.
    items: dict[str, str]
    setup: str = ""


RUNNING = """
insert into public.jobs
    (id, kind, job_key, status, fencing_token, claimed_by, lease_expires_at, payload, created_at, updated_at)
  select """ + uuid_in_sql("i") + """, 'mail', 'running-' || i, 'running', 1, 'worker-1', '$LEASE', $PAYLOAD, '$NOW',
         '$NOW' from generate_series(1, $ALL) i;
analyze public.jobs;"""
READ_MESSAGES = """
insert into pgmq."q_order.placed__mail" (msg_id, read_ct, vt, message) overriding system value
  select i, 1, timestamptz '$NOW' + i * interval '1 microsecond', $ENVELOPE from generate_series(1, $ALL) i;
analyze pgmq."q_order.placed__mail";"""

PAYLOADS = {"payload": "'" + VARIABLES["payload"] + "'::jsonb"}
ENVELOPES = {"envelope": "'" + VARIABLES["envelope"] + "'::jsonb"}
SET_SUBJECTS = [
    Set("queue_write_many",
        "select * from public.queue_write_many('mail', :payloads, :now, 'request-1')",
        "select public.queue_write('mail', :payload, :now, 'request-1')", PAYLOADS),
    Set("job_claim_many",
        "select * from public.job_claim_many('mail', :keys, 'worker-1', :lease, :payloads, :now)",
        "select * from public.job_claim('mail', :key, 'worker-1', :lease, :payload, :now)",
        {"key": "'new-' || i"} | PAYLOADS),
    Set("job_complete_many",
        "select * from public.job_complete_many(:ids, :tokens, :now)",
        "select * from public.job_complete(:id, :token, :now)",
        {"id": uuid_in_sql("i"), "token": "1::bigint"}, RUNNING),
    Set("job_fail_many",
        "select * from public.job_fail_many(:ids, :tokens, :reasons, :now)",
        "select * from public.job_fail(:id, :token, :reason, :now)",
        {"id": uuid_in_sql("i"), "token": "1::bigint", "reason": "'provider answered 503'::text"}, RUNNING),
    Set("inbox_claim_events",
        "select * from public.inbox_claim_events('webhook.pay', :keys)",
        "select * from public.inbox_claim_event('webhook.pay', :key)", {"key": "'new-' || i"}),
    Set("event_bus_send_many",
        "select * from public.event_bus_send_many('order.placed', :envelopes)",
        "select * from public.event_bus_send('order.placed', :envelope)", ENVELOPES),
    Set("event_bus_archive_many",
        "select * from public.event_bus_archive_many('order.placed__mail', :msg_ids, :read_cts)",
        "select * from public.event_bus_archive('order.placed__mail', :msg_id, :read_ct)",
        {"msg_id": "i::bigint", "read_ct": "1"}, READ_MESSAGES),
]


def sets(server: Server, short: bool) -> list[dict]:
    measured = []
    for subject in SET_SUBJECTS:
        there = server.psql(DATABASE, f"select count(*) from pg_proc where proname = '{subject.name}'")
        if there == "0":
            continue
        scripts = {"ours": script_of_set(subject), "single calls": script_of_singles(subject)}
        count = 20 if short else SETS
        setup = subject.setup.replace("$ALL", str(ROWS * count + ROWS)).replace("$LEASE", LEASE_END)
        rounds = []
        for _ in range(1 if short else ROUNDS):
            took = {}
            for form, script in scripts.items():
                server.psql(DATABASE, Bench.fill(TABLES + setup))
                took[form] = statements(server, script, count)
            rounds.append(took)
        measured.append({"name": subject.name, "rows": ROWS, "bar": BAR} | compared(rounds))
    return measured


def script_of_set(subject: Set) -> str:
    arrays = ", ".join(f"array_agg({item} order by i)::text as {name}s" for name, item in subject.items.items())
    numbers = f"generate_series(:i * {ROWS} - {ROWS - 1}, :i * {ROWS}) i"
    return f"\\set i :i + 1\nselect {arrays} from {numbers} \\gset\nbegin;\n{subject.many};\ncommit;\n"


def script_of_singles(subject: Set) -> str:
    lines, columns = [], []
    for n in range(1, ROWS + 1):
        call = subject.single
        for name, item in subject.items.items():
            number = re.sub(r"\bi\b", f"(:i * {ROWS} - {ROWS} + {n})", item)
            # Constants are the same for all.
            if number != item or n == 1:
                columns.append(f"({number})::text as {name}_{n}")
            call = re.sub(rf":{name}\b", f":{name}_{n if number != item else 1}", call)
        lines.append(call + ";")
    # A statement of pgbench's has at most 255 parameters.
    prepared = [f"select {', '.join(columns[at:at + 100])} \\gset" for at in range(0, len(columns), 100)]
    return "\n".join(["\\set i :i + 1", *prepared, "begin;", *lines, "commit;", ""])


def statements(server: Server, script: str, count: int) -> dict[str, float]:
    """Milliseconds that the calls take, and those of the whole transaction, on average."""
    took = server.latencies(DATABASE, script, transactions=count, variables=VARIABLES)
    begun = [command for _, command in took].index("begin;")
    transaction = [milliseconds for milliseconds, _ in took[begun:]]
    return {"ms": round(sum(transaction[1:-1]), 4), "transaction_ms": round(sum(transaction), 4)}
