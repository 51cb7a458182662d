//! Dump and restore: whatever was in the database is in the restored one, and work goes on there.

use super::everything::{contents, fill, functions, problems, rights, work_goes_on};
use super::upgrade::{TOPIC_HEADS, TOPIC_HEADS_NOW, released_versions};
use crate::black_box::harness::{Database, rows, value};
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

#[test]
fn a_plain_dump_restored_by_psql_has_everything_and_work_goes_on() {
    for _ in 0..3 {
        goes_on_in_a_copy(&["--format=plain"], restored_by_psql);
    }
}

#[test]
fn a_custom_dump_restored_by_one_job_has_everything_and_work_goes_on() {
    for _ in 0..3 {
        goes_on_in_a_copy(&["--format=custom"], |dump, into| dump.restored(into, &["--exit-on-error"]));
    }
}

#[test]
fn a_custom_dump_restored_by_eight_jobs_has_everything_once_it_is_repaired() {
    for _ in 0..5 {
        goes_on_in_a_copy(&["--format=custom"], restored_in_parallel);
    }
}

#[test]
fn a_directory_dump_restored_by_one_job_has_everything_and_work_goes_on() {
    for _ in 0..3 {
        goes_on_in_a_copy(&["--format=directory", "--jobs=4"], |dump, into| dump.restored(into, &["--exit-on-error"]));
    }
}

#[test]
fn a_directory_dump_restored_by_eight_jobs_has_everything_once_it_is_repaired() {
    for _ in 0..6 {
        goes_on_in_a_copy(&["--format=directory", "--jobs=4"], restored_in_parallel);
    }
}

/// As docs/upgrading.md shows it.
#[test]
fn a_parallel_restore_that_leaves_pgmqs_lists_for_last_loses_nothing_and_needs_no_repair() {
    for _ in 0..3 {
        goes_on_in_a_copy(&["--format=directory", "--jobs=4"], |dump, into| {
            let all = String::from_utf8(run(program(into, "pg_restore").arg("--list").arg(&dump.path)).stdout).unwrap();
            let lists = |line: &&str| {
                line.contains(" TABLE DATA pgmq topic_bindings ")
                    || line.contains(" TABLE DATA pgmq notify_insert_throttle ")
            };
            assert_eq!(all.lines().filter(lists).count(), 2, "{all}");
            let first: Vec<_> = all.lines().filter(|line| !lists(line)).collect();
            let list = dump.path.with_extension("list");
            std::fs::write(&list, first.join("\n")).unwrap();
            dump.restored(into, &["--exit-on-error", "--jobs=8", &format!("--use-list={}", list.display())]);
            std::fs::remove_file(list).unwrap();
            let last = ["--data-only", "--schema=pgmq", "--table=topic_bindings", "--table=notify_insert_throttle"];
            dump.restored(into, &[&["--exit-on-error"][..], &last].concat());
            assert!(problems(&mut into.connect()).is_empty());
        });
    }
}

/// Fills a database, dumps it, restores it into an empty one, and compares the two; then goes on working in the copy.
fn goes_on_in_a_copy(format: &[&str], restore: fn(&Dump, &Database)) {
    let (from, into) = (Database::new(), Database::empty());
    let mut source = from.connect();
    fill(&mut source);
    let dump = Dump::of(&from, format);
    restore(&dump, &into);

    let mut copy = into.connect();
    assert_eq!(contents(&mut copy), contents(&mut source));
    assert_eq!(rights(&mut copy), rights(&mut source));
    assert!(problems(&mut copy).is_empty());
    assert_eq!(value(&mut copy, TOPIC_HEADS), TOPIC_HEADS_NOW);
    work_goes_on(&mut copy, &mut into.connect_as("app_be"));
    rows(&mut into.connect_as("operator"), "select * from public.jobs_sweep(now(), 10)");
    rows(&mut into.connect_as("monitor"), "select * from public.hfs_lite_jobs");
}

fn restored_by_psql(dump: &Dump, into: &Database) {
    run(program(into, "psql").args(["--no-psqlrc", "--quiet", "--set=ON_ERROR_STOP=1", "--file"]).arg(&dump.path));
}

/// Two of pgmq's own tables refer to its list of queues, and pg_restore loads them in any order: what came too early is lost.
/// Nothing else may be.
fn restored_in_parallel(dump: &Dump, into: &Database) {
    let output =
        program(into, "pg_restore").args(["--jobs=8", "--dbname", &url(into)]).arg(&dump.path).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    let mut throttles_are_lost = false;
    for error in said.lines().filter(|line| line.starts_with("pg_restore: error: ")) {
        throttles_are_lost |= error.contains("\"notify_insert_throttle\"");
        assert!(
            ["\"topic_bindings\"", "\"notify_insert_throttle\""]
                .iter()
                .any(|table| error.starts_with(&format!("pg_restore: error: COPY failed for table {table}"))),
            "{said}"
        );
    }
    let mut session = into.connect();
    rows(&mut session, "select * from public.event_bus_repair()");
    if throttles_are_lost {
        session.batch_execute("select pgmq.enable_notify_insert('Plain')").unwrap();
    }
}

#[test]
fn a_repair_after_a_restore_that_lost_every_binding_brings_them_all_back() {
    let (from, into) = (Database::new(), Database::empty());
    let mut source = from.connect();
    fill(&mut source);
    Dump::of(&from, &["--format=custom"]).restored(&into, &["--exit-on-error"]);
    let mut copy = into.connect();
    copy.batch_execute("delete from pgmq.topic_bindings").unwrap();
    assert_eq!(problems(&mut copy).len(), 3);
    assert_eq!(rows(&mut copy, "select * from public.event_bus_repair()").len(), 3);
    assert_eq!(contents(&mut copy), contents(&mut source));
    work_goes_on(&mut copy, &mut into.connect_as("app_be"));
}

#[test]
fn a_dump_of_an_older_version_is_restored_into_this_one() {
    for version in released_versions() {
        let (from, into) = (Database::empty(), Database::empty());
        let mut source = from.connect();
        source.batch_execute(&format!("create extension hfs_lite version '{version}' cascade")).unwrap();
        fill(&mut source);
        Dump::of(&from, &["--format=custom"]).restored(&into, &["--exit-on-error"]);
        let mut copy = into.connect();
        let (before, after) = (contents(&mut source), contents(&mut copy));
        for (name, digest) in &before {
            assert_eq!(after.get(name), Some(digest), "{name}, from {version}");
        }
        rows(&mut copy, "select * from public.event_bus_record()");
        assert!(problems(&mut copy).is_empty());
        work_goes_on(&mut copy, &mut into.connect_as("app_be"));
    }
}

/// What an upgrade script grants counts as the extension's own, and pg_dump leaves it out.
#[test]
fn a_dump_of_an_upgraded_database_keeps_every_right() {
    for version in released_versions() {
        let (from, into) = (Database::empty(), Database::empty());
        let mut source = from.connect();
        source.batch_execute(&format!("create extension hfs_lite version '{version}' cascade")).unwrap();
        fill(&mut source);
        source
            .batch_execute(
                "alter extension hfs_lite update;
                 select public.hfs_lite_grant('operator', 'operator'), public.hfs_lite_grant('app_be')",
            )
            .unwrap();
        Dump::of(&from, &["--format=custom"]).restored(&into, &["--exit-on-error"]);
        let mut copy = into.connect();
        assert_eq!(rights(&mut copy), rights(&mut source), "from {version}");
        assert_eq!(functions(&mut copy), functions(&mut source), "from {version}");
    }
}

/// A dump in a file or folder of its own, deleted with the value.
pub struct Dump {
    path: PathBuf,
}

impl Dump {
    pub fn of(database: &Database, arguments: &[&str]) -> Dump {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name = format!("hfs_lite-{}-{}.dump", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let dump = Dump { path: std::env::temp_dir().join(name) };
        run(program(database, "pg_dump").args(arguments).arg("--file").arg(&dump.path).arg(url(database)));
        dump
    }

    pub fn restored(&self, into: &Database, arguments: &[&str]) {
        run(program(into, "pg_restore").args(arguments).args(["--dbname", &url(into)]).arg(&self.path));
    }
}

impl Drop for Dump {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
        let _ = std::fs::remove_dir_all(&self.path);
    }
}

/// A program of the server's own version, with the environment that leads psql to this database.
fn program(database: &Database, name: &str) -> Command {
    let folder = value(&mut database.connect(), "select setting from pg_config where name = 'BINDIR'");
    let mut command = Command::new(format!("{folder}/{name}"));
    let config = database.config();
    command
        .env("PGHOST", "localhost")
        .env("PGPORT", config.get_ports()[0].to_string())
        .env("PGUSER", config.get_user().unwrap())
        .env("PGDATABASE", config.get_dbname().unwrap())
        .env("PGOPTIONS", "-c client_min_messages=warning");
    command
}

fn url(database: &Database) -> String {
    format!("dbname={}", database.config().get_dbname().unwrap())
}

/// Runs it, and fails the test where it failed or complained.
#[track_caller]
fn run(command: &mut Command) -> std::process::Output {
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.is_empty(), "{command:?}: {said}");
    output
}
