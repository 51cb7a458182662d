//! What the tests of several families check in one way: the rules that arguments share, and that nothing was written.

use super::harness::{column, refused, rows, value};
use postgres::Client;

/// What an argument takes; it says what must be refused, with which SQLSTATE, and what must not.
#[derive(Clone, Copy)]
pub enum Takes {
    /// Anything but NULL.
    Present,
    /// Anything, NULL too.
    Anything,
    /// 1 to so many characters.
    Text(usize),
    /// The same, or NULL.
    OptionalText(usize),
    /// Text that is not empty and has no width, or NULL.
    Reason,
    /// A finite instant.
    Instant,
    /// A finite instant, or NULL: the database's clock.
    OptionalInstant,
    /// A fencing token: 1 or more.
    Token,
    /// How many rows: 1 to 10,000.
    Batch,
    /// A visibility timeout: 0 or more seconds.
    Timeout,
    /// The name of a queue that pgmq knows.
    Queue,
    /// An array of at most 10,000 elements without a NULL: one that is accepted, as typed SQL, and some that are refused.
    Items(&'static str, &'static [(&'static str, &'static str)]),
    /// The same, whose elements may be anything, or NULL.
    OptionalItems(&'static str),
}

/// Text that an SQL string, a format, a pattern or a JSON path would stumble over. It must arrive as it is.
pub const AWKWARD: &str = r#"it's "x" \ \n %s %I $1 $$ {} ; -- /* ' 😀"#;

/// A text as an SQL literal.
pub fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

/// So many characters of four bytes each, as an SQL literal.
pub fn wide(characters: usize) -> String {
    quoted(&"😀".repeat(characters))
}

impl Takes {
    fn refused(self) -> Vec<(String, &'static str)> {
        let null = || ("null".to_owned(), "22004");
        let cases = |values: &[&str]| values.iter().map(|value| ((*value).to_owned(), "22023")).collect::<Vec<_>>();
        // A varchar would drop the space that makes it too long without a word.
        let too_long =
            |limit: usize| [(wide(limit + 1), "22001"), (quoted(&format!("{} ", "x".repeat(limit))), "22001")];
        let misshapen = |good: &str| {
            [format!("array[array[{good}]]"), format!("array_fill({good}, array[10001])")].map(|array| (array, "22023"))
        };
        match self {
            Takes::Anything => vec![],
            Takes::Items(good, bad) => {
                let bad = bad.iter().map(|(element, sqlstate)| (format!("array[{element}]"), *sqlstate)).collect();
                [vec![null(), (format!("array[{good}, null]"), "22004")], misshapen(good).to_vec(), bad].concat()
            }
            Takes::OptionalItems(good) => misshapen(good).to_vec(),
            Takes::Present => vec![null()],
            Takes::Text(limit) => [vec![null()], cases(&["''"]), too_long(limit).to_vec()].concat(),
            Takes::OptionalText(limit) => [cases(&["''"]), too_long(limit).to_vec()].concat(),
            Takes::Reason => cases(&["''"]),
            Takes::Instant => [vec![null()], cases(&["'infinity'", "'-infinity'"])].concat(),
            Takes::OptionalInstant => cases(&["'infinity'", "'-infinity'"]),
            Takes::Token => [vec![null()], cases(&["'0'", "'-1'", "'-9223372036854775808'"])].concat(),
            Takes::Batch => {
                [vec![null()], cases(&["'0'", "'-1'", "'10001'", "'2147483647'", "'-2147483648'"])].concat()
            }
            Takes::Timeout => [vec![null()], cases(&["'-1'", "'-2147483648'"])].concat(),
            Takes::Queue => [
                vec![null()],
                cases(&["''"]),
                ["none", "NONE\"; drop table x", "a'b\\c"].map(|name| (quoted(name), "42704")).to_vec(),
                vec![(wide(300), "42704")],
            ]
            .concat(),
        }
    }

    fn accepted(self) -> Vec<String> {
        match self {
            Takes::Present | Takes::Queue | Takes::Instant | Takes::Items(..) => vec![],
            Takes::OptionalItems(_) => vec!["null".into(), "'{NULL}'".into()],
            Takes::Anything => vec!["null".into()],
            Takes::Text(limit) => vec![wide(limit), quoted(&AWKWARD.chars().take(limit).collect::<String>())],
            Takes::OptionalText(limit) => vec!["null".into(), wide(limit), quoted(AWKWARD)],
            Takes::Reason => vec!["null".into(), wide(20_000), quoted(AWKWARD)],
            Takes::OptionalInstant => vec!["null".into()],
            Takes::Token => vec!["'1'".into(), "'9223372036854775807'".into()],
            Takes::Batch => vec!["'1'".into(), "'10000'".into()],
            Takes::Timeout => vec!["'0'".into(), "'2147483647'".into()],
        }
    }
}

/// Puts each argument of a function to the test, one at a time: its name, a value that is accepted, and what it takes.
/// A refusal names the argument, carries a hint, can be caught in PL/pgSQL and leaves the transaction usable.
#[track_caller]
pub fn arguments(session: &mut Client, function: &str, arguments: &[(&str, &str, Takes)]) {
    let call = |changed: usize, by: &str| {
        let values: Vec<&str> =
            arguments.iter().enumerate().map(|(i, (_, good, _))| if i == changed { by } else { good }).collect();
        format!("select * from public.{function}({})", values.join(", "))
    };
    session.batch_execute("begin").unwrap();
    for (i, (name, good, takes)) in arguments.iter().enumerate() {
        for (value, sqlstate) in takes.refused() {
            let call = call(i, &value);
            refused(session, &call, sqlstate, name);
            caught(session, &call, sqlstate);
        }
        for value in takes.accepted().iter().map(String::as_str).chain([*good]) {
            session.batch_execute("savepoint accepted").unwrap();
            rows(session, &call(i, value));
            session.batch_execute("rollback to savepoint accepted; release savepoint accepted").unwrap();
        }
    }
    session.batch_execute("rollback").unwrap();
}

/// A refusal that PL/pgSQL catches: SQLSTATE and hint arrive there too, and the block goes on.
#[track_caller]
pub fn caught(session: &mut Client, call: &str, sqlstate: &str) {
    let block = format!(
        "do $do$
         declare
           hint text;
         begin
           begin
             perform {};
             raise assert_failure using message = 'not refused';
           exception when sqlstate '{sqlstate}' then
             get stacked diagnostics hint = pg_exception_hint;
           end;
           assert hint <> '', 'no hint';
         end $do$",
        call.strip_prefix("select ").expect("a SELECT")
    );
    session.batch_execute(&block).unwrap_or_else(|error| panic!("{call}, caught in PL/pgSQL: {error:?}"));
}

/// Runs one call that must answer no row and write nothing: it does not even take a transaction id.
#[track_caller]
pub fn changes_nothing(session: &mut Client, call: &str) {
    assert_eq!(writes_nothing(session, call), Vec::<Vec<String>>::new(), "{call}");
}

/// Runs one call on many items that must write nothing: it does not even take a transaction id. What it answered.
#[track_caller]
pub fn writes_nothing(session: &mut Client, call: &str) -> Vec<Vec<String>> {
    session.batch_execute("begin").unwrap();
    let answer = rows(session, call);
    assert_eq!(value(session, "select pg_current_xact_id_if_assigned() is null"), "t", "{call} wrote");
    session.batch_execute("commit").unwrap();
    answer
}

/// Every row of every table of the extension and of pgmq, with the version that it is of.
pub fn contents(superuser: &mut Client) -> Vec<String> {
    let tables = column(
        superuser,
        "select oid::regclass from pg_class
          where relkind = 'r' and relnamespace in ('public'::regnamespace, 'pgmq'::regnamespace) order by oid",
    );
    let mut contents = vec![];
    for table in tables {
        let rows = column(superuser, &format!("select concat_ws(' ', ctid, xmin, t) from {table} t order by ctid"));
        contents.extend(rows.into_iter().map(|row| format!("{table} {row}")));
    }
    contents
}
