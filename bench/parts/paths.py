"""Whole paths against peers: a job from its enqueue to its end, an event from its sending to its archive.

All peers run on one server in one run, in turn, each in a database of its own that is made anew for each measurement,
with the same no-op handler, the same JSON of about 150 bytes and the same durability. What each does, and how it was
set up by its own documentation, stands at the head of its program in bench/peers/ and in PEERS below. Producers are one
thread of Node, workers another, with the connections of 1 or of 32; batched, 100 jobs are sent, taken or ended in one
call where the peer can do that.

What is measured (bench/peers/run.js):
- sustained: jobs a second while producers send as fast as workers keep up, until the last one is committed as done;
- drain: jobs a second of workers that find as many enqueued as they do in the time asked for; the rate of that
  enqueueing; rows written (inserted, updated, deleted, in all schemas) and WAL bytes a job, enqueue and end together;
- latency: at 100 jobs a second, sent one by one, from the answer to the enqueue's commit to the begin of the handler.
With synchronous_commit on; at 32 workers, sustained also with it off. A run in which not every job was handled exactly
once is an error.

The comparison is of whole paths, not of equals. hfs_lite does more: a job is fenced and idempotent by its key, and its
handler may write in the transaction that ends it; the libraries retry, schedule and prioritise, which nobody asks of
them here. graphile-worker, pg-boss and BullMQ are woken by NOTIFY; hfs_lite and pgmq poll every 20 ms; PgQ waits for
its ticks.
"""

import json
import statistics
import subprocess
import time
from collections import defaultdict

from .checkout import ROOT, bash, die, say
from .server import Server, spread

PEERS = {
    "jobs": {
        "hfs_lite": {
            "program": "hfs_lite-jobs",
            "setup": "outbox row, then queue_waiting, job_claim, job_complete, queue_mark_sent in one transaction; "
                     "batched by the set functions; polls every 20 ms; fenced, idempotent by key; done rows stay",
            "source": "docs/queue.md",
        },
        "pgmq": {
            "program": "pgmq-jobs",
            "setup": "send, read, archive; batched send_batch, read of 100, archive of an array; polls every 20 ms; "
                     "not fenced; archived rows stay",
            "source": "https://pgmq.github.io/pgmq/api/sql/functions/",
        },
        "graphile-worker": {
            "program": "graphile-worker",
            "setup": "concurrentJobs, a pool of one more; batched addJobs, localQueue of 500, completeJobBatchDelay 0; "
                     "NOTIFY; done jobs are deleted",
            "source": "https://worker.graphile.org/docs/performance",
        },
        "pg-boss": {
            "program": "pg-boss",
            "setup": "localConcurrency, polling at its least (0.5 s), useListenNotify; single: "
                     "burstWhenReadyExceeds 1, statistics every second; batched: insert, batchSize 100, "
                     "burstWhenBatchFull; done jobs stay",
            "source": "https://pgboss.io/api/workers",
        },
        "BullMQ": {
            "program": "bullmq",
            "setup": "PostgreSQL backend, concurrency, a pool of one more, done jobs removed; batched: addBulk only, "
                     "its workers have no batches; NOTIFY; fenced by a lock token",
            "source": "https://docs.bullmq.io/guide/postgresql",
        },
    },
    "events": {
        "hfs_lite": {
            "program": "hfs_lite-events",
            "setup": "event_bus_send, event_bus_read, then event_bus_archive in the handler's transaction; batched by "
                     "the set functions; polls every 20 ms; fenced; archived rows stay",
            "source": "docs/event_bus.md",
        },
        "pgmq": {
            "program": "pgmq-events",
            "setup": "send_topic, read, archive; batched send_batch_topic, read of 100, archive of an array; polls "
                     "every 20 ms; not fenced; archived rows stay",
            "source": "https://pgmq.github.io/pgmq/api/sql/functions/",
        },
        "PgQ": {
            "program": "pgq",
            "setup": "insert_event (batched: 100 in one statement); pgqd as it comes, a tick at 500 events or 3 "
                     "seconds; one consumer, always in batches of a tick; tables are rotated",
            "source": "https://github.com/pgq/pgqd",
            # One consumer has the whole batch: more workers are not to be had without pgq_coop.
            "workers": [1],
        },
    },
}
WORKERS, BATCHES = [1, 32], [1, 100]
SHORT = {"jobs": [(32, 100)], "events": [(1, 1), (32, 100)]}
RATE = 100
# Rows written so far, in all schemas.
WRITTEN = "select coalesce(sum(n_tup_ins + n_tup_upd + n_tup_del), 0) from pg_stat_user_tables"


def run(server: Server, short: bool) -> dict:
    rounds, seconds, waited = (1, 0.3, 0.5) if short else (3, 1, 2)
    # Of what costs the most time beside what it measures.
    fewer = min(rounds, 2)
    peers = Peers(server)
    measured = []
    for kind, members in PEERS.items():
        for workers, batch in SHORT[kind] if short else [(w, b) for w in WORKERS for b in BATCHES]:
            say(f"paths: {kind}, {workers} workers, {'batched' if batch > 1 else 'single'}")
            forms = [Form(peers, kind, name, workers, batch) for name, peer in members.items()
                     if name not in peers.left_out and workers in peer.get("workers", WORKERS)]
            for _ in range(rounds):
                for form in forms:
                    form.sustained(seconds)
            for _ in range(fewer):
                for form in forms:
                    form.drain(seconds)
                for form in forms:
                    form.latency(waited)
            if workers > 1 and not short:
                server.settings(synchronous_commit="off")
                for _ in range(fewer):
                    for form in forms:
                        form.sustained(seconds, "sustained_off")
                server.settings(synchronous_commit="on")
            measured += [form.result(forms[0]) for form in forms]
    return {
        "versions": peers.versions,
        "left_out": peers.left_out,
        "setup": {kind: {name: {"setup": peer["setup"], "source": peer["source"]} for name, peer in members.items()}
                  for kind, members in PEERS.items()},
        "rounds": rounds, "sending_seconds": seconds, "latency_rate": RATE, "latency_seconds": waited,
        "measured": measured,
    }


class Peers:
    """What is installed: by npm, by Debian, and each peer's schema in a database from which others are made."""

    def __init__(self, server: Server):
        self.server = server
        self.node, *pgqd = bash('"$root/bench/peers/install"').split()
        self.pgqd = pgqd[0] if pgqd else ""
        self.left_out = {} if self.pgqd else {"PgQ": "this machine's package sources have no postgresql-17-pgq3"}
        lock = json.loads((ROOT / "bench/peers/package-lock.json").read_text())["packages"]
        self.versions = {name: lock[f"node_modules/{package}"]["version"] for name, package in [
            ("graphile-worker", "graphile-worker"), ("pg-boss", "pg-boss"), ("BullMQ", "bullmq"),
            ("node-postgres", "pg")]}
        node = subprocess.run([self.node, "--version"], stdout=subprocess.PIPE, text=True)
        self.versions["Node"] = node.stdout.strip().lstrip("v")
        for members in PEERS.values():
            for name, peer in members.items():
                if name not in self.left_out:
                    self.call(peer["program"], server.database(f"{peer['program']}_template"), "install")
        if self.pgqd:
            version = "select extversion from pg_extension where extname = 'pgq'"
            self.versions["PgQ"] = server.psql("pgq_template", version)

    def call(self, program: str, database: str, measure: str, **options) -> dict:
        """Runs a peer's program to its end; what it left open is closed when this answers."""
        environment = self.server.environment(database) | {"PGQD": self.pgqd, "NODE_ENV": "production"}
        process = self.server.spawn([self.node, "run.js", program, measure, json.dumps(options)], env=environment,
                                    cwd=ROOT / "bench/peers", stdout=subprocess.PIPE, text=True)
        out, _ = process.communicate()
        self.server.processes.remove(process)
        if process.returncode:
            die(f"{program} failed: {measure} {options}")
        # A session's counts of rows arrive with its end.
        until = time.monotonic() + 10
        while self.server.psql("postgres", f"select count(*) from pg_stat_activity where datname = '{database}' and "
                                           "backend_type = 'client backend'") != "0":
            if time.monotonic() > until:
                die(f"{program} left connections open")
            time.sleep(0.02)
        return json.loads(out) if out else {}


class Form:
    """One peer at one number of workers, single or batched: what its rounds came to."""

    def __init__(self, peers: Peers, kind: str, name: str, workers: int, batch: int):
        self.peers, self.kind, self.name, self.workers, self.batch = peers, kind, name, workers, batch
        self.program = PEERS[kind][name]["program"]
        # One sample a round of each figure.
        self.samples: dict[str, list[float]] = defaultdict(list)

    def measure(self, measure: str, **options) -> dict:
        server = self.peers.server
        database = server.database(f"{self.program}_run", f"{self.program}_template")
        rows, wal = int(server.psql(database, WRITTEN)), server.wal()
        answer = self.peers.call(self.program, database, measure, workers=self.workers, batch=self.batch, **options)
        wal = server.wal() - wal
        answer |= {"rows": round((int(server.psql(database, WRITTEN)) - rows) / answer["jobs"], 2),
                   "wal": round(wal / answer["jobs"])}
        server.psql("postgres", f'drop database "{database}" (force)')
        return answer

    def keep(self, **figures: float) -> None:
        for figure, sample in figures.items():
            self.samples[figure].append(sample)

    def sustained(self, seconds: float, figure: str = "sustained") -> None:
        self.keep(**{figure: self.measure("sustained", seconds=seconds)["rate"]})

    def drain(self, seconds: float) -> None:
        jobs = min(200_000, max(20, self.batch, round(self.samples["sustained"][0] * seconds)))
        answer = self.measure("drain", jobs=jobs)
        self.keep(jobs=jobs, drain=answer["rate"], enqueue=answer["enqueued"], rows=answer["rows"], wal=answer["wal"])

    def latency(self, seconds: float) -> None:
        answer = self.measure("latency", seconds=seconds, rate=RATE)
        self.keep(p50_ms=answer["p50"], p99_ms=answer["p99"], max_ms=answer["max"])

    def result(self, ours: "Form") -> dict:
        """Each figure's raw samples and their median; `ratio` is ours over this peer's, of the same rounds."""
        figures = {}
        for figure, samples in self.samples.items():
            # No latency is zero: a clock's step is the least.
            ratios = [our / max(sample, 0.01) for our, sample in zip(ours.samples[figure], samples)]
            figures[figure] = {"median": statistics.median(samples), "samples": samples,
                               "ratio": {name: round(ratio, 3) for name, ratio in spread(ratios).items()}}
        return {"kind": self.kind, "peer": self.name, "workers": self.workers, "batch": self.batch, **figures}
