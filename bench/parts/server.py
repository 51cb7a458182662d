"""The one private server that the parts share: its databases, its settings, pgbench against it, and others beside it.

A part gets a `Server`. Everything that it starts through `spawn` is ended with the server, whatever happens.
"""

import os
import re
import signal
import statistics
import subprocess
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from .checkout import bash, die

CLUSTER = "bench"


@dataclass
class Script:
    """What a client of pgbench repeats: the text of a script, and how often it is drawn beside others."""

    text: str
    weight: int = 1


@dataclass
class Call:
    """One transaction of pgbench's log, in seconds: when it ended (since the epoch), and how long it took."""

    script: int
    ended: float
    took: float


@dataclass
class Answer:
    """What a run of pgbench came to."""

    calls: list[Call]
    seconds: float

    @property
    def rate(self) -> float:
        """Transactions a second."""
        return len(self.calls) / self.seconds

    def took(self, part: float) -> float:
        """That percentile of how long a transaction took, in milliseconds."""
        return percentile([call.took for call in self.calls], part) * 1000


def percentile(samples: list[float], part: float) -> float:
    """The smallest sample that `part` of them do not exceed."""
    ordered = sorted(samples)
    return ordered[min(len(ordered) - 1, int(part * len(ordered)))]


def spread(ratios: list[float]) -> dict[str, float]:
    """The median of what rounds came to, and between what it lay."""
    return {"median": statistics.median(ratios), "min": min(ratios), "max": max(ratios)}


def refuse_failure(process: subprocess.Popen, room: str, errors: str) -> None:
    if process.returncode or "aborted" in errors or "ERROR" in errors:
        scripts = "\n".join(file.read_text()[:2000] for file in sorted(Path(room).glob("*.sql")))
        die(f"pgbench failed:\n{scripts}\n{errors[-2000:]}")


class Server:
    """A private PostgreSQL, from `with Server(settings)` until its end; then it and what was spawned are gone."""

    def __init__(self, settings: dict[str, str]):
        self.set_at_start = settings
        self.bin, self.state = (Path(line) for line in bash('printf "%s\\n" "$bin" "$state"').splitlines())
        if not (self.bin / "postgres").exists():
            die("there is no PostgreSQL in this checkout: run scripts/setup first")
        self.processes: list[subprocess.Popen] = []
        # libpq's address of the server, without a database, and its parts for drivers of other languages.
        self.address = ""
        self.host = self.port = self.user = ""

    def __enter__(self) -> "Server":
        bash(f'"$root/scripts/cluster" drop {CLUSTER}; "$root/scripts/cluster" start {CLUSTER}')
        # Into the file and not to the command line, which no ALTER SYSTEM would override.
        with open(self.state / f"cluster/{CLUSTER}/data/postgresql.conf", "a") as conf:
            conf.writelines(f"{name} = '{value}'\n" for name, value in self.set_at_start.items())
        bash(f'"$root/scripts/cluster" stop {CLUSTER}; "$root/scripts/cluster" start {CLUSTER}')
        self.address = bash(f'"$root/scripts/cluster" url {CLUSTER}').strip()
        self.host, self.port, self.user = (part.partition("=")[2] for part in self.address.split())
        return self

    def __exit__(self, *_) -> None:
        self.end_processes()
        bash(f'"$root/scripts/cluster" drop {CLUSTER}')

    def url(self, database: str) -> str:
        return f"{self.address} dbname={database}"

    def environment(self, database: str) -> dict[str, str]:
        """The environment in which any client of libpq's manners (node-postgres among them) reaches a database."""
        return os.environ | {"PGHOST": self.host, "PGPORT": self.port, "PGUSER": self.user, "PGDATABASE": database}

    def psql(self, database: str, sql: str) -> str:
        """Runs SQL, each statement in a transaction of its own, and answers the rows, their columns parted by |."""
        done = subprocess.run(
            [self.bin / "psql", self.url(database), "-X", "-q", "-At", "-v", "ON_ERROR_STOP=1", "-f", "-"],
            input="set client_min_messages = warning;" + sql, stdout=subprocess.PIPE, text=True)
        if done.returncode:
            die(f"psql failed in database {database}")
        return done.stdout.strip()

    def database(self, name: str, template: str = "template1", sql: str = "") -> str:
        """Makes a database anew, of a template; runs SQL in it, and answers its name."""
        self.psql("postgres", f'drop database if exists "{name}" (force)')
        self.psql("postgres", f'create database "{name}" template "{template}"')
        if sql:
            self.psql(name, sql)
        return name

    def settings(self, **settings: str) -> None:
        """Changes settings that a reload changes, for all sessions, and waits until a new session has them."""
        for name, value in settings.items():
            self.psql("postgres", f"alter system set {name} = '{value}'")
        self.psql("postgres", "select pg_reload_conf()")
        for name, value in settings.items():
            same = f"select current_setting('{name}') = '{value}'"
            until = time.monotonic() + 10
            while self.psql("postgres", same) != "t":
                if time.monotonic() > until:
                    die(f"the server did not take {name} = {value}")
                time.sleep(0.02)

    def wal(self) -> int:
        """The position at which the next record of the write-ahead log begins, in bytes."""
        return int(self.psql("postgres", "select pg_current_wal_insert_lsn() - '0/0'::pg_lsn"))

    def checkpoint(self) -> None:
        """Writes out what earlier runs left, so that none pays for another one."""
        self.psql("postgres", "checkpoint")

    def pgbench(self, database: str, scripts: "list[Script] | Script | str", *, clients: int, seconds: float = 0,
                transactions: int = 0, rate: float = 0, variables: "dict[str, str] | None" = None) -> Answer:
        """Runs scripts by prepared statements, for whole seconds or so many transactions a client; none may fail."""
        with tempfile.TemporaryDirectory() as room:
            process = self.start_pgbench(database, scripts, room, clients=clients, seconds=seconds,
                                         transactions=transactions, rate=rate, variables=variables)
            return self.answer_of(process, room)

    def latencies(self, database: str, script: str, *, transactions: int,
                  variables: "dict[str, str] | None" = None) -> list[tuple[float, str]]:
        """How long each command of a script took on average, in milliseconds, beside the command; by one client."""
        with tempfile.TemporaryDirectory() as room:
            process = self.start_pgbench(database, script, room, clients=1, transactions=transactions,
                                         variables=variables, report=True)
            out, errors = process.communicate()
            self.processes.remove(process)
            refuse_failure(process, room, errors)
        # Milliseconds, failures, command.
        return [(float(took), command) for took, command in re.findall(r"^ +([\d.]+) +\d+ +(\S.*)$", out, re.M)]

    def start_pgbench(self, database, scripts, room, *, clients, seconds=0, transactions=0, rate=0,
                      variables=None, report=False) -> subprocess.Popen:
        """Starts pgbench, with its log in the folder `room`; `answer_of` waits for it."""
        command = [self.bin / "pgbench", "--no-vacuum", "--protocol=prepared", "--log", f"--log-prefix={room}/log",
                   f"--client={clients}", f"--jobs={min(clients, os.cpu_count() or 1)}"]
        command += [f"--time={max(1, round(seconds))}"] if seconds else [f"--transactions={transactions}"]
        if report:
            command.append("--report-per-command")
        if rate:
            command.append(f"--rate={rate}")
        for name, value in (variables or {}).items():
            command.append(f"--define={name}={value}")
        if not isinstance(scripts, list):
            scripts = [scripts]
        for n, script in enumerate(scripts):
            if isinstance(script, str):
                script = Script(script)
            file = Path(room, f"{n}.sql")
            file.write_text(script.text)
            command.append(f"--file={file}@{script.weight}")
        return self.spawn([*map(str, command), self.url(database)], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          text=True)

    def answer_of(self, process: subprocess.Popen, room: str) -> Answer:
        out, errors = process.communicate()
        self.processes.remove(process)
        refuse_failure(process, room, errors)
        calls = []
        for log in Path(room).glob("log.*"):
            for line in log.read_text().splitlines():
                # With --rate a last one says how late it began, which is counted as its own time.
                _, _, took, script, ended, microseconds, *late = map(int, line.split())
                calls.append(Call(script, ended + microseconds / 1e6, (took - sum(late)) / 1e6))
        if not calls:
            die(f"pgbench ran no transaction:\n{out}{errors}")
        begun = min(call.ended - call.took for call in calls)
        return Answer(calls, max(call.ended for call in calls) - begun)

    def spawn(self, command: list[str], **options) -> subprocess.Popen:
        """Starts a program in a process group of its own, which is ended with the server if it still runs then."""
        process = subprocess.Popen(command, start_new_session=True, **options)
        self.processes.append(process)
        return process

    def end(self, process: subprocess.Popen) -> None:
        """Ends what was spawned, with all that it started."""
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGTERM)
            try:
                process.wait(5)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        self.processes.remove(process)

    def end_processes(self) -> None:
        for process in list(self.processes):
            self.end(process)
