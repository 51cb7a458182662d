//! What every test stands on: a server that is started once, a database of its own for each test, and errors as values.
//!
//! Tests are black boxes: they speak to the server as an application does, over connections of their own, and never call the
//! Rust functions. `cargo pgrx test` builds, installs and starts; the server ends with the test run.

use postgres::error::{DbError, SqlState};
use postgres::{Client, Config, NoTls};
use std::process::Command;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

/// The server's settings: durability is not what these tests are about.
pub const SETTINGS: [&str; 5] = [
    "fsync = off",
    "max_connections = 300",
    // Two sessions that wait for each other are found at once, so that a deadlock fails a test instead of delaying it.
    "deadlock_timeout = '100ms'",
    // pgrx waits for a line of level LOG; the errors that tests provoke are not worth one.
    "log_min_messages = log",
    "jit = off",
];

/// The database that each test's own is a copy of: the extension, and the roles of an application.
const TEMPLATE: &str = "hfs_lite_template";

fn server() -> &'static Config {
    static SERVER: OnceLock<Config> = OnceLock::new();
    SERVER.get_or_init(|| {
        pgrx_tests::run_test("the_server_is_up", None, crate::pg_test::postgresql_conf_options())
            .expect("pgrx's server");
        let (mut client, _) = pgrx_tests::client().expect("a first connection");
        let port: String = client.query_one("show port", &[]).unwrap().get(0);
        let user: String = client.query_one("select current_user::text", &[]).unwrap().get(0);
        client
            .batch_execute(
                "create role app_be login; create role anon; create role authenticated; create role operator login;
                 create role monitor login; create role outsider login;",
            )
            .unwrap();
        let mut config = Config::new();
        config.host("localhost").port(port.parse().unwrap()).user(&user);
        client.batch_execute(&format!("create database {TEMPLATE}")).unwrap();
        let mut template = config.clone().dbname(TEMPLATE).connect(NoTls).unwrap();
        template
            .batch_execute(
                "create extension hfs_lite cascade;
                 select hfs_lite_grant('operator', 'operator'), hfs_lite_grant('monitor', 'monitor')",
            )
            .unwrap();
        config
    })
}

/// A database of one test. It is dropped with the value.
pub struct Database {
    name: String,
}

impl Database {
    /// A new database with the extension in it.
    pub fn new() -> Database {
        Database::copy_of(TEMPLATE)
    }

    /// A new database without the extension.
    pub fn empty() -> Database {
        Database::copy_of("template0")
    }

    /// A new database of another encoding than UTF8, without the extension.
    pub fn of_encoding(encoding: &str) -> Database {
        Database::copy_of(&format!("template0 encoding '{encoding}' locale 'C'"))
    }

    fn copy_of(template: &str) -> Database {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name = format!("test_{}", COUNT.fetch_add(1, Ordering::Relaxed));
        let mut client = server().clone().dbname("postgres").connect(NoTls).unwrap();
        // file_copy forces checkpoints, which is slow with many at once.
        client.batch_execute(&format!("create database {name} template {template} strategy wal_log")).unwrap();
        Database { name }
    }

    /// A session as the superuser that owns the extension.
    pub fn connect(&self) -> Client {
        server().clone().dbname(&self.name).connect(NoTls).unwrap()
    }

    /// A session as another role.
    pub fn connect_as(&self, role: &str) -> Client {
        server().clone().dbname(&self.name).user(role).connect(NoTls).unwrap()
    }

    /// What a client needs to know to connect by itself.
    pub fn config(&self) -> Config {
        let mut config = server().clone();
        config.dbname(&self.name);
        config
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        if let Ok(mut client) = server().clone().dbname("postgres").connect(NoTls) {
            // A test that failed may have left sessions behind; its failure is what is to be seen.
            let _ = client.batch_execute(&format!("drop database {} with (force)", self.name));
        }
    }
}

/// A server of a test's own, for what pgrx's server can't show: other settings, a crash, a standby. It has no database
/// but the ones that every new server has. It is stopped and deleted with the value.
pub struct Cluster {
    name: String,
    settings: Vec<String>,
}

impl Cluster {
    /// A new server with these settings, each `name=value`.
    pub fn start(settings: &[&str]) -> Cluster {
        let cluster = Cluster::named(settings);
        cluster.start_again();
        cluster
    }

    /// A hot standby of this server, made by `pg_basebackup`, which follows it until `pg_promote` is called there.
    pub fn standby(&self, settings: &[&str]) -> Cluster {
        let standby = Cluster::named(settings);
        standby.run("standby", [&self.name].into_iter().chain(&standby.settings));
        standby
    }

    fn named(settings: &[&str]) -> Cluster {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name = format!("test_{}", COUNT.fetch_add(1, Ordering::Relaxed));
        // To start its server, pgrx installs the library anew: never over one that a running server has loaded.
        server();
        // Durability is not what these tests are about either.
        let settings = ["fsync=off"].iter().chain(settings).map(|setting| setting.to_string()).collect();
        let cluster = Cluster { name, settings };
        // A test run that was killed may have left one of this name.
        cluster.run("drop", []);
        cluster
    }

    /// Starts the server that was stopped, with the settings that it was made with.
    pub fn start_again(&self) {
        self.run("start", &self.settings);
    }

    /// Stops the server as an operator does (fast): it ends its sessions, and writes everything out.
    pub fn stop(&self) {
        self.run("stop", []);
    }

    /// Stops the server as a crash would (immediate): the next start begins with recovery.
    pub fn crash(&self) {
        self.run("stop", [&"immediate".to_owned()]);
    }

    /// How a client reaches one of the server's databases, as a superuser.
    pub fn config(&self, database: &str) -> Config {
        let mut config: Config = self.run("url", []).parse().expect("what scripts/cluster url says");
        config.dbname(database);
        config
    }

    /// A session in one of the server's databases, as a superuser.
    pub fn connect(&self, database: &str) -> Client {
        self.config(database).connect(NoTls).unwrap_or_else(|error| panic!("{database}: {error}"))
    }

    /// All that the server has logged.
    pub fn log(&self) -> String {
        self.run("log", [])
    }

    /// Calls `scripts/cluster`; what it wrote.
    #[track_caller]
    fn run<'a>(&self, verb: &str, arguments: impl IntoIterator<Item = &'a String>) -> String {
        let output = self.command(verb).args(arguments).output().expect("scripts/cluster");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "scripts/cluster {verb} {}: {said}", self.name);
        String::from_utf8(output.stdout).expect("UTF-8 from scripts/cluster")
    }

    fn command(&self, verb: &str) -> Command {
        let mut command = Command::new(concat!(env!("CARGO_MANIFEST_DIR"), "/scripts/cluster"));
        command.env("PG_MAJOR", pg_major()).args([verb, &self.name]);
        command
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        // Not `run`: where the test has failed already, its failure is what is to be seen.
        let _ = self.command("drop").output();
    }
}

/// The major version of PostgreSQL that the tests run on.
pub fn pg_major() -> &'static str {
    pgrx::pg_sys::PG_MAJORVERSION.to_str().expect("digits")
}

/// The error of a statement that must fail, as PostgreSQL sent it.
#[track_caller]
pub fn refusal<T>(result: Result<T, postgres::Error>) -> DbError {
    match result {
        Ok(_) => panic!("the statement was not refused"),
        Err(error) => error.as_db_error().unwrap_or_else(|| panic!("not an error of the server: {error}")).clone(),
    }
}

/// Runs one statement that must be refused, in a savepoint, and checks SQLSTATE, a part of the message (the argument's
/// name) and that there is a hint. The session and its transaction go on.
#[track_caller]
pub fn refused(client: &mut Client, sql: &str, sqlstate: &str, message: &str) -> DbError {
    client.batch_execute("savepoint refused").ok();
    let error = refusal(client.simple_query(sql));
    client.batch_execute("rollback to savepoint refused; release savepoint refused").ok();
    assert_eq!(error.code(), &SqlState::from_code(sqlstate), "{sql}: {error}");
    assert!(error.message().contains(message), "{sql}: the message is: {}", error.message());
    assert!(error.hint().is_some_and(|hint| !hint.is_empty()), "{sql}: no hint: {}", error.message());
    error
}

/// The first column of the rows of a statement, as text; NULL as `∅`. An application sends untyped text, and so does this.
#[track_caller]
pub fn column(client: &mut Client, sql: &str) -> Vec<String> {
    rows(client, sql).into_iter().map(|row| row.into_iter().next().unwrap_or_default()).collect()
}

/// The rows of a statement, each value as text; NULL as `∅`.
#[track_caller]
pub fn rows(client: &mut Client, sql: &str) -> Vec<Vec<String>> {
    try_rows(client, sql).unwrap_or_else(|error| panic!("{sql}: {error:?}"))
}

/// Rows, each value as text, or the error of a statement that was refused.
pub type Answer = Result<Vec<Vec<String>>, postgres::Error>;

/// The rows of a statement that may be refused.
pub fn try_rows(client: &mut Client, sql: &str) -> Answer {
    let messages = client.simple_query(sql)?;
    let rows = messages.iter().filter_map(|message| match message {
        postgres::SimpleQueryMessage::Row(row) => {
            Some((0..row.len()).map(|i| row.get(i).unwrap_or("∅").to_owned()).collect())
        }
        _ => None,
    });
    Ok(rows.collect())
}

/// The single value of a statement that answers one row, as text.
#[track_caller]
pub fn value(client: &mut Client, sql: &str) -> String {
    let rows = column(client, sql);
    assert_eq!(rows.len(), 1, "{sql}: {rows:?}");
    rows.into_iter().next().unwrap()
}

/// Does the same in many sessions of a role, which start at one moment; what each of them came to.
pub fn at_once<T: Send>(
    database: &Database,
    sessions: usize,
    role: &str,
    act: impl Fn(usize, &mut Client) -> T + Sync,
) -> Vec<T> {
    let connected: Vec<Client> = (0..sessions).map(|_| database.connect_as(role)).collect();
    let start = std::sync::Barrier::new(sessions);
    std::thread::scope(|scope| {
        let running: Vec<_> = connected
            .into_iter()
            .enumerate()
            .map(|(i, mut session)| {
                let (start, act) = (&start, &act);
                scope.spawn(move || {
                    start.wait();
                    act(i, &mut session)
                })
            })
            .collect();
        running.into_iter().map(|session| session.join().expect("a session that ran at once with others")).collect()
    })
}

/// The process id of a session's backend.
pub fn pid(session: &mut Client) -> i32 {
    session.query_one("select pg_backend_pid()", &[]).unwrap().get(0)
}

/// Asks until the answer is true. What does not become true in two minutes fails the test.
#[track_caller]
pub fn wait_until(observer: &mut Client, condition: &str) {
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(120);
    while value(observer, &format!("select {condition}")) != "t" {
        assert!(std::time::Instant::now() < deadline, "it never came to this: {condition}");
        std::thread::yield_now();
    }
}

/// A statement that runs in a session of its own while the test goes on.
pub struct Running {
    pid: i32,
    thread: std::thread::JoinHandle<(Client, Answer)>,
}

/// Starts a statement and does not wait for it.
pub fn start(mut session: Client, sql: &str) -> Running {
    let pid = pid(&mut session);
    let sql = sql.to_owned();
    let thread = std::thread::spawn(move || {
        let result = try_rows(&mut session, &sql);
        (session, result)
    });
    Running { pid, thread }
}

impl Running {
    /// Returns once the statement waits for a lock that another session holds.
    #[track_caller]
    pub fn wait_until_blocked(self, observer: &mut Client) -> Running {
        wait_until(observer, &format!("cardinality(pg_blocking_pids({})) > 0", self.pid));
        self
    }

    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// The rows that the statement came to.
    #[track_caller]
    pub fn rows(self) -> Vec<Vec<String>> {
        self.finish().1
    }

    /// The session, which goes on, and the rows.
    #[track_caller]
    pub fn finish(self) -> (Client, Vec<Vec<String>>) {
        let (session, result) = self.end();
        (session, result.unwrap_or_else(|error| panic!("{error:?}")))
    }

    /// The session, and what the statement came to, an error too.
    pub fn end(self) -> (Client, Answer) {
        self.thread.join().expect("the thread of a session")
    }
}
