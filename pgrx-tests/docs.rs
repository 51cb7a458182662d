//! The documentation is executed, and says what the catalog says. `docs/README.md` tells how a page is read here.
//!
//! Pages are read when the test runs, so a new page is executed without anybody listing it.

use super::harness::{Database, rows};
use postgres::{Client, SimpleQueryMessage};
use std::collections::{BTreeSet, HashMap};
use std::fmt::Write;
use std::path::{Path, PathBuf};

// ---------------------------------------------------------------------------------------------------------------------
// Every SQL that a page shows is executed
// ---------------------------------------------------------------------------------------------------------------------

#[test]
fn every_sql_block_of_the_documentation_runs_and_answers_what_it_shows() {
    let mut wrong = String::new();
    for page in pages() {
        if let Err(error) = run_page(&page) {
            writeln!(wrong, "\n{}: {error}", page.display()).unwrap();
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

/// README.md and the pages of docs/, in the order of their names.
fn pages() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut pages: Vec<_> = std::fs::read_dir(root.join("docs"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "md"))
        .collect();
    pages.sort();
    pages.insert(0, root.join("README.md"));
    pages
}

/// Runs a page's blocks in their order, in a database of the page's own; stops at the first that is not as it says.
fn run_page(path: &Path) -> Result<(), String> {
    let text = std::fs::read_to_string(path).map_err(|error| error.to_string())?;
    let blocks = blocks(&text);
    let creates_extension = |block: &Block| block.language == "sql" && block.text.contains("create extension hfs_lite");
    // A page that shows how the extension is created does so in a database without it.
    let database = if blocks.iter().any(creates_extension) { Database::empty() } else { Database::new() };
    let mut sessions: HashMap<(String, String), Client> = HashMap::new();
    let mut variables = HashMap::new();
    for (i, block) in blocks.iter().enumerate() {
        let at = |what: String| format!("line {}: {what}", block.line);
        match block.language {
            "sql" => {}
            "text" | "sh" | "js" | "ts" | "json" => continue,
            other => return Err(at(format!("a block of language {other:?}"))),
        }
        let expected = blocks.get(i + 1).filter(|next| next.language == "text" && next.follows);
        let role = block.option("role").unwrap_or("superuser");
        let session = sessions
            .entry((role.to_owned(), block.option("session").unwrap_or("").to_owned()))
            .or_insert_with(|| connect(&database, role));
        let (sql, keep) = substitute(block.text, &variables).map_err(at)?;
        let answer: Vec<String> = match (session.simple_query(&sql), block.option("error")) {
            (Ok(messages), None) => {
                let (names, rows) = last_answer(&messages);
                if keep {
                    let row = rows.first().ok_or_else(|| at("no row for \\gset".into()))?;
                    variables.extend(names.into_iter().zip(row.iter().cloned()));
                }
                rows.iter().map(|row| row.join(" | ")).collect()
            }
            (Err(error), Some(sqlstate)) => match error.as_db_error() {
                Some(error) if error.code().code() == sqlstate => [
                    Some(format!("ERROR: {}", error.message())),
                    error.detail().map(|detail| format!("DETAIL: {detail}")),
                    error.hint().map(|hint| format!("HINT: {hint}")),
                ]
                .into_iter()
                .flatten()
                .collect(),
                _ => return Err(at(format!("failed, but not with {sqlstate}: {error:?}"))),
            },
            (Ok(_), Some(sqlstate)) => return Err(at(format!("did not fail with {sqlstate}"))),
            (Err(error), None) => return Err(at(format!("failed: {error:?}"))),
        };
        if let Some(expected) = expected {
            check_answer(expected.text, &answer).map_err(at)?;
        }
    }
    Ok(())
}

fn connect(database: &Database, role: &str) -> Client {
    let mut session = if role == "superuser" { database.connect() } else { database.connect_as(role) };
    session.batch_execute("set timezone = 'UTC'").unwrap();
    session
}

/// A fenced block: the words behind the fence, and what stands in it.
struct Block<'a> {
    line: usize,
    language: &'a str,
    options: Vec<&'a str>,
    text: &'a str,
    /// Nothing but white space stands between it and the block before it.
    follows: bool,
}

impl Block<'_> {
    /// The value of an option that is written `name=value` behind the language.
    fn option(&self, name: &str) -> Option<&str> {
        self.options.iter().find_map(|option| option.strip_prefix(name)?.strip_prefix('='))
    }
}

fn blocks(page: &str) -> Vec<Block<'_>> {
    let mut blocks = Vec::new();
    let (mut at, mut line, mut follows) = (0, 0, false);
    let mut open: Option<(usize, usize, &str)> = None;
    for text in page.split_inclusive('\n') {
        line += 1;
        if let Some(info) = text.trim_end().strip_prefix("```") {
            match open.take() {
                None => open = Some((line, at + text.len(), info)),
                Some((line, start, info)) => {
                    let mut words = info.split_whitespace();
                    let language = words.next().unwrap_or("");
                    blocks.push(Block { line, language, options: words.collect(), text: &page[start..at], follows });
                    follows = true;
                }
            }
        } else if open.is_none() && !text.trim().is_empty() {
            follows = false;
        }
        at += text.len();
    }
    blocks
}

/// What psql does: `:'name'` becomes the variable's value as a literal, and a `\gset` at the end keeps the answer's
/// columns as variables.
fn substitute(sql: &str, variables: &HashMap<String, String>) -> Result<(String, bool), String> {
    let (sql, keep) = match sql.trim_end().strip_suffix("\\gset") {
        Some(sql) => (sql, true),
        None => (sql, false),
    };
    let mut out = String::new();
    let mut rest = sql;
    while let Some(start) = rest.find(":'") {
        let name = &rest[start + 2..];
        let end = name.find('\'').ok_or("a variable without an end")?;
        let value = variables.get(&name[..end]).ok_or_else(|| format!("no variable {}", &name[..end]))?;
        out += &format!("{}'{}'", &rest[..start], value.replace('\'', "''"));
        rest = &name[end + 1..];
    }
    Ok((out + rest, keep))
}

/// The column names and the rows of the last statement, NULL as `∅`.
fn last_answer(messages: &[SimpleQueryMessage]) -> (Vec<String>, Vec<Vec<String>>) {
    let (mut names, mut rows, mut ended) = (Vec::new(), Vec::new(), false);
    for message in messages {
        if ended {
            (names, rows, ended) = (Vec::new(), Vec::new(), false);
        }
        match message {
            SimpleQueryMessage::RowDescription(columns) => {
                names = columns.iter().map(|column| column.name().to_owned()).collect();
            }
            SimpleQueryMessage::Row(row) => {
                rows.push((0..row.len()).map(|i| row.get(i).unwrap_or("∅").to_owned()).collect());
            }
            SimpleQueryMessage::CommandComplete(_) => ended = true,
            _ => {}
        }
    }
    (names, rows)
}

/// Compares line by line; `(no row)` is an empty answer, and `…` in the expected text stands for whatever is there,
/// within one value.
fn check_answer(expected: &str, answer: &[String]) -> Result<(), String> {
    let lines: Vec<_> = expected.lines().filter(|line| *line != "(no row)").collect();
    // A value or an error may itself be of several lines.
    let answer = answer.join("\n");
    let same =
        lines.len() == answer.lines().count() && lines.iter().zip(answer.lines()).all(|(line, row)| matches(line, row));
    if same { Ok(()) } else { Err(format!("the answer is\n{answer}\nand the page shows\n{expected}")) }
}

fn matches(expected: &str, came: &str) -> bool {
    let (expected, came): (Vec<_>, Vec<_>) = (expected.split(" | ").collect(), came.split(" | ").collect());
    expected.len() == came.len() && expected.iter().zip(came).all(|(expected, came)| matches_value(expected, came))
}

fn matches_value(expected: &str, came: &str) -> bool {
    let Some((before, behind)) = expected.split_once('…') else { return expected == came };
    let Some(rest) = came.strip_prefix(before) else { return false };
    let ends = rest.char_indices().map(|(start, c)| start + c.len_utf8());
    ends.into_iter().any(|end| matches_value(behind, &rest[end..]))
}

#[test]
fn every_link_between_the_pages_leads_somewhere() {
    for page in pages() {
        let text = std::fs::read_to_string(&page).unwrap();
        for link in text.split("](").skip(1).filter_map(|rest| rest.split_once(')')).map(|(link, _)| link) {
            if link.starts_with("https://") {
                continue;
            }
            let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
            let target = if file.is_empty() { page.clone() } else { page.with_file_name(file) };
            assert!(target.exists(), "{}: {link}", page.display());
            if !anchor.is_empty() {
                let text = std::fs::read_to_string(&target).unwrap();
                let headings = text.lines().filter(|line| line.starts_with('#'));
                let found =
                    headings.map(|line| as_anchor(line.trim_start_matches('#').trim())).any(|name| name == anchor);
                assert!(found, "{}: {link}", page.display());
            }
        }
    }
}

/// The anchor that a heading gets: lower case, hyphens for spaces, no punctuation.
fn as_anchor(heading: &str) -> String {
    let kept = heading.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
    kept.collect::<String>().to_lowercase().replace(' ', "-")
}

// ---------------------------------------------------------------------------------------------------------------------
// The reference says what the catalog says
// ---------------------------------------------------------------------------------------------------------------------

const REFERENCE: &str = include_str!("../docs/reference.md");

/// The extension's functions but those of test builds: name, arguments, result, comment.
const FUNCTIONS: &str = "
    select p.proname, pg_get_function_arguments(p.oid), pg_get_function_result(p.oid), obj_description(p.oid, 'pg_proc')
      from pg_depend d
      join pg_extension e on e.oid = d.refobjid and e.extname = 'hfs_lite'
      join pg_proc p on p.oid = d.objid
     where d.refclassid = 'pg_extension'::regclass and d.classid = 'pg_proc'::regclass and d.deptype = 'e'
       and p.pronamespace <> 'tests'::regnamespace
     order by 1, 2";

const TABLES: &str = "
    select c.relname, obj_description(c.oid, 'pg_class')
      from pg_depend d
      join pg_extension e on e.oid = d.refobjid and e.extname = 'hfs_lite'
      join pg_class c on c.oid = d.objid and c.relkind = 'r'
     where d.refclassid = 'pg_extension'::regclass and d.classid = 'pg_class'::regclass and d.deptype = 'e'
     order by 1";

#[test]
fn every_function_stands_in_the_reference_with_its_signature_and_its_comment() {
    let database = Database::new();
    let functions = rows(&mut database.connect(), FUNCTIONS);
    let sections = sections("### `", "`");
    for function in &functions {
        let [name, arguments, result, comment] = &function[..] else { panic!("{function:?}") };
        let signature = plain(&format!("{name}({arguments}) returns {result}"));
        let of_that_name: Vec<_> = sections.iter().filter(|(heading, _)| heading == name).collect();
        let section = of_that_name.iter().find(|(_, text)| plain(text).contains(&signature));
        let (_, section) = section.unwrap_or_else(|| panic!("docs/reference.md has no section with: {signature}"));
        assert!(plain(section).contains(&plain(comment)), "docs/reference.md, {name}: the COMMENT is: {comment}");
    }
    let functions: Vec<_> = functions.iter().map(|function| &function[0]).collect();
    let sections: Vec<_> = sections.iter().map(|(heading, _)| heading).collect();
    let mut sorted = sections.clone();
    sorted.sort();
    assert_eq!(sorted, functions, "the sections of docs/reference.md, and the functions of the catalog");
}

#[test]
fn every_table_stands_in_the_reference_with_the_type_and_the_comment_of_each_column() {
    let database = Database::new();
    let mut session = database.connect();
    let tables = rows(&mut session, TABLES);
    let sections = sections("### Table `", "`");
    assert_eq!(
        sections.iter().map(|(heading, _)| heading.as_str()).collect::<BTreeSet<_>>(),
        tables.iter().map(|table| table[0].as_str()).collect::<BTreeSet<_>>(),
        "the tables of docs/reference.md, and of the catalog"
    );
    for (table, text) in &sections {
        let comment = &tables.iter().find(|row| row[0] == *table).unwrap()[1];
        assert!(plain(text).contains(&plain(comment)), "docs/reference.md, table {table}: the COMMENT is: {comment}");
        let columns = rows(
            &mut session,
            &format!(
                "select a.attname, format_type(a.atttypid, a.atttypmod),
                        case when a.attnotnull then '' else 'null' end,
                        coalesce(pg_get_expr(d.adbin, d.adrelid), ''), col_description(a.attrelid, a.attnum)
                   from pg_attribute a
                   left join pg_attrdef d on d.adrelid = a.attrelid and d.adnum = a.attnum
                  where a.attrelid = 'public.{table}'::regclass and a.attnum > 0 and not a.attisdropped
                  order by a.attnum"
            ),
        );
        let shown: Vec<Vec<String>> = text
            .lines()
            .filter(|line| line.starts_with("| `"))
            .map(|line| line.trim_matches('|').split('|').map(plain).collect())
            .collect();
        let columns: Vec<Vec<String>> =
            columns.iter().map(|row| row.iter().map(|cell| plain(cell)).collect()).collect();
        for (shown, column) in shown.iter().zip(&columns) {
            assert_eq!(shown, column, "docs/reference.md, table {table}, and the catalog");
        }
        assert_eq!(shown.len(), columns.len(), "columns of docs/reference.md, table {table}, and of the catalog");
    }
}

#[test]
fn every_view_stands_in_the_reference_with_its_comment_and_its_columns() {
    let database = Database::new();
    let views = rows(
        &mut database.connect(),
        "select c.relname, obj_description(c.oid, 'pg_class'), string_agg(a.attname, ', ' order by a.attnum)
           from pg_class c join pg_attribute a on a.attrelid = c.oid and a.attnum > 0
          where c.relkind = 'v' and c.relnamespace = 'public'::regnamespace
          group by c.oid order by c.relname",
    );
    let mut sections = sections("### View `", "`");
    sections.sort();
    assert_eq!(sections.len(), views.len(), "the views of docs/reference.md, and of the catalog");
    for (view, (name, text)) in views.iter().zip(&sections) {
        assert_eq!(name, &view[0]);
        assert_eq!(plain(text), format!("{} Columns: {}.", plain(&view[1]), view[2]), "docs/reference.md, view {name}");
    }
}

#[test]
fn no_page_names_a_function_or_a_column_that_is_not_there() {
    let database = Database::new();
    let mut session = database.connect();
    let known: BTreeSet<String> = rows(
        &mut session,
        "select p.proname from pg_proc p where p.pronamespace = 'public'::regnamespace
         union select unnest(p.proargnames) from pg_proc p where p.pronamespace = 'public'::regnamespace
         union select c.relname from pg_class c where c.relnamespace = 'public'::regnamespace
         union select a.attname from pg_attribute a join pg_class c on c.oid = a.attrelid
                where c.relnamespace = 'public'::regnamespace",
    )
    .into_iter()
    .map(|row| row[0].clone())
    .collect();
    let prefixes = ["job_", "queue_", "inbox_", "event_bus_", "hfs_lite_", "p_"];
    for page in pages() {
        let text = std::fs::read_to_string(&page).unwrap();
        let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        let unknown: BTreeSet<_> = words
            .filter(|word| prefixes.iter().any(|prefix| word.strip_prefix(prefix).is_some_and(|rest| !rest.is_empty())))
            .filter(|word| !known.contains(*word))
            .collect();
        assert!(unknown.is_empty(), "{}: {unknown:?}", page.display());
    }
}

/// The parts of the reference whose headings are `before` name `after`, each up to the next heading.
fn sections(before: &str, after: &str) -> Vec<(String, String)> {
    let mut sections: Vec<(String, String)> = Vec::new();
    let mut inside = false;
    for line in REFERENCE.lines() {
        if line.starts_with('#') {
            let name = line.strip_prefix(before).and_then(|line| line.strip_suffix(after));
            inside = name.is_some();
            sections.extend(name.map(|name| (name.to_owned(), String::new())));
        } else if inside && let Some((_, text)) = sections.last_mut() {
            text.push_str(line);
            text.push('\n');
        }
    }
    sections
}

/// A text without what only lays it out: white space is folded, and the marks of code and of lists are left out.
fn plain(text: &str) -> String {
    let lines = text.lines().map(|line| line.trim_start().strip_prefix("- ").unwrap_or(line));
    let words: Vec<_> = lines.flat_map(str::split_whitespace).collect();
    words.join(" ").replace('`', "")
}

// ---------------------------------------------------------------------------------------------------------------------
// The rustdoc says what the COMMENT says
// ---------------------------------------------------------------------------------------------------------------------

#[test]
fn the_rustdoc_of_each_function_says_what_its_comment_says() {
    let sources = [
        include_str!("../src/jobs.rs"),
        include_str!("../src/ticks.rs"),
        include_str!("../src/queue.rs"),
        include_str!("../src/inbox.rs"),
        include_str!("../src/fingerprint.rs"),
        include_str!("../src/event_bus.rs"),
        include_str!("../src/subscriptions.rs"),
        include_str!("../src/watch.rs"),
        include_str!("../src/doors.rs"),
    ];
    let database = Database::new();
    let mut documented: Vec<(String, String)> = sources.iter().flat_map(|source| rustdoc(source)).collect();
    let mut commented: Vec<(String, String)> =
        rows(&mut database.connect(), FUNCTIONS).into_iter().map(|row| (row[0].clone(), plain(&row[3]))).collect();
    documented.sort();
    commented.sort();
    assert_eq!(
        documented.iter().map(|(name, _)| name).collect::<Vec<_>>(),
        commented.iter().map(|(name, _)| name).collect::<Vec<_>>(),
        "the functions of src/, and of the catalog"
    );
    for ((name, rustdoc), (_, comment)) in documented.iter().zip(&commented) {
        assert_eq!(rustdoc, comment, "{name}: the rustdoc, and the COMMENT");
    }
}

/// The functions of a source that SQL can call, each by its name in SQL, with the lines of `///` above its attribute.
fn rustdoc(source: &str) -> Vec<(String, String)> {
    let mut functions = Vec::new();
    let mut doc = String::new();
    let mut lines = source.lines();
    while let Some(line) = lines.next() {
        if let Some(text) = line.strip_prefix("///") {
            doc.push_str(text);
            doc.push('\n');
        } else if line.starts_with("#[pg_extern") {
            let named = line.split_once("name = \"").and_then(|(_, rest)| rest.split_once('"')).map(|(name, _)| name);
            let declared = lines.find_map(|line| line.strip_prefix("fn ")).and_then(|line| line.split_once('('));
            let name = named.or(declared.map(|(name, _)| name)).expect("a function below its attribute");
            functions.push((name.to_owned(), plain(&std::mem::take(&mut doc))));
        } else {
            doc.clear();
        }
    }
    functions
}
