//! How this extension talks to PostgreSQL: statements saved once per backend, the datums that go into them, and the rows
//! that come out. With [`index`], which is about looks without a statement, and [`server`], which is about settings and background
//! workers, it is the only module with unsafe code.
//!
//! # The contract of this module
//!
//! PostgreSQL reports an ERROR by a `longjmp` to its own handler. pgrx 0.18 would catch it and build it anew, which loses
//! the CONTEXT, the names of table and constraint and every SQLSTATE that its list does not hold. So what can raise is
//! called here without pgrx's guard, and the jump goes over the Rust frames in between. That is defined for frames that
//! have nothing to drop. Therefore:
//!
//! 1. **Who calls in here holds only `Copy` values**: datums, numbers, references, raw pointers. No `String`, `Vec`, `Box`,
//!    lock or `RefCell` borrow lives across a call of [`Saved`]'s methods, [`Call::row`] or [`raise`]. All types that this
//!    module hands out are `Copy`, so that keeping to it needs no thought. (Where a text is being copied into PostgreSQL's
//!    memory and there is none left, the original leaks.)
//! 2. **Memory is PostgreSQL's.** What must outlive a statement is allocated in the memory context that was current when
//!    the function was called, and goes with it, error or not. Text that an error carries is copied there first.
//! 3. **A saved plan is never freed while it may run.** Plans of [`Statement`] are kept until the backend ends; those of
//!    [`QueueStatement`], one a queue, are dropped oldest first, and only at the end of a transaction.
//! 4. **No OID is kept** but those of built-in types. Saved plans survive DROP and CREATE of table and extension (the plan
//!    cache analyses the text anew); a cached OID of ours would not.
//! 5. **Types are checked at every call**: rows go through a receiver that compares their types with the function's
//!    declared columns, and a value that is read here is cast in its statement, so a table that was changed behind our back
//!    is an error and never a misread datum.
//! 6. **Nobody's trigger runs as us.** A statement on a queue's tables runs with the rights of the role that owns them,
//!    unless that is ours or a superuser; see [`QueueStatement`].
//!
//! `pgrx-tests/statement.rs` holds a test for each promise, `pgrx-tests/security.rs` those for the last.

pub mod index;
pub mod server;

use pgrx::callconv::{Arg, ArgAbi, BoxRet, CallCx, FcInfo, RetAbi};
use pgrx::pg_sys::{self, Datum, Oid};
use pgrx::pgrx_sql_entity_graph::metadata::{
    ArgumentError, ReturnsError, ReturnsRef, SqlMappingRef, SqlTranslatable, TypeOrigin,
};
use pgrx::{PgTupleDesc, prelude::*};
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::ffi::{CStr, CString, c_char, c_int, c_long, c_void};
use std::marker::PhantomData;
use std::ptr;

// PostgreSQL's own functions, declared here because pgrx wraps its declarations in the guard that rebuilds errors.
#[allow(non_snake_case)]
unsafe extern "C-unwind" {
    fn SPI_connect() -> c_int;
    fn SPI_finish() -> c_int;
    fn SPI_prepare_cursor(
        src: *const c_char,
        nargs: c_int,
        argtypes: *const Oid,
        cursor_options: c_int,
    ) -> pg_sys::SPIPlanPtr;
    fn SPI_keepplan(plan: pg_sys::SPIPlanPtr) -> c_int;
    fn SPI_freeplan(plan: pg_sys::SPIPlanPtr) -> c_int;
    fn SPI_execute(src: *const c_char, read_only: bool, count: c_long) -> c_int;
    fn SPI_execute_plan_extended(plan: pg_sys::SPIPlanPtr, options: *const pg_sys::SPIExecuteOptions) -> c_int;
    fn SPI_getbinval(row: pg_sys::HeapTuple, desc: pg_sys::TupleDesc, column: c_int, isnull: *mut bool) -> Datum;
    fn SPI_gettypeid(desc: pg_sys::TupleDesc, column: c_int) -> Oid;
    fn get_typlenbyval(kind: Oid, length: *mut i16, by_value: *mut bool);
    fn SPI_datumTransfer(value: Datum, by_value: bool, length: c_int) -> Datum;
    fn SPI_palloc(size: usize) -> *mut c_void;
    fn makeParamList(params: c_int) -> pg_sys::ParamListInfo;
    fn CreateDestReceiver(dest: pg_sys::CommandDest::Type) -> *mut pg_sys::DestReceiver;
    fn SetTuplestoreDestReceiverParams(
        this: *mut pg_sys::DestReceiver,
        store: *mut pg_sys::Tuplestorestate,
        context: pg_sys::MemoryContext,
        detoast: bool,
        target: pg_sys::TupleDesc,
        mismatch: *const c_char,
    );
    fn InitMaterializedSRF(fcinfo: pg_sys::FunctionCallInfo, flags: pg_sys::bits32);
    fn tuplestore_putvalues(
        store: *mut pg_sys::Tuplestorestate,
        desc: pg_sys::TupleDesc,
        values: *const Datum,
        nulls: *const bool,
    );
    fn palloc(size: usize) -> *mut c_void;
    fn repalloc(room: *mut c_void, size: usize) -> *mut c_void;
    fn palloc_extended(size: usize, flags: c_int) -> *mut c_void;
    fn pg_detoast_datum(datum: *mut pg_sys::varlena) -> *mut pg_sys::varlena;
    fn pg_detoast_datum_packed(datum: *mut pg_sys::varlena) -> *mut pg_sys::varlena;
    fn cstring_to_text_with_len(s: *const c_char, length: c_int) -> *mut pg_sys::text;
    fn array_contains_nulls(array: *mut pg_sys::ArrayType) -> bool;
    fn ArrayGetNItems(dimensions: c_int, sizes: *const c_int) -> c_int;
    fn deconstruct_array(
        array: *mut pg_sys::ArrayType,
        kind: Oid,
        length: c_int,
        by_value: bool,
        align: c_char,
        elements: *mut *mut Datum,
        nulls: *mut *mut bool,
        count: *mut c_int,
    );
    fn construct_array(
        elements: *const Datum,
        count: c_int,
        kind: Oid,
        length: c_int,
        by_value: bool,
        align: c_char,
    ) -> *mut pg_sys::ArrayType;
    fn JsonbToCString(out: *mut c_void, jsonb: *const c_char, estimate: c_int) -> *mut c_char;
    fn getKeyJsonValueFromContainer(
        container: *const c_char,
        key: *const c_char,
        length: c_int,
        result: *mut pg_sys::JsonbValue,
    ) -> *mut pg_sys::JsonbValue;
    fn GetCurrentTimestamp() -> i64;
    fn JsonbValueToJsonb(value: *mut pg_sys::JsonbValue) -> *mut c_void;
    fn pushJsonbValue(
        state: *mut *mut pg_sys::JsonbParseState,
        token: pg_sys::JsonbIteratorToken::Type,
        value: *mut pg_sys::JsonbValue,
    ) -> *mut pg_sys::JsonbValue;
    fn DirectFunctionCall2Coll(
        function: unsafe extern "C-unwind" fn(pg_sys::FunctionCallInfo) -> Datum,
        collation: Oid,
        first: Datum,
        second: Datum,
    ) -> Datum;
    fn textregexeq(call: pg_sys::FunctionCallInfo) -> Datum;
    fn varstr_cmp(a: *const c_char, a_length: c_int, b: *const c_char, b_length: c_int, collation: Oid) -> c_int;
    fn pg_qsort(
        elements: *mut c_void,
        count: usize,
        size: usize,
        compare: unsafe extern "C-unwind" fn(*const c_void, *const c_void) -> c_int,
    );
    fn get_namespace_oid(name: *const c_char, missing_ok: bool) -> Oid;
    fn SearchSysCache2(cache: c_int, key1: Datum, key2: Datum) -> pg_sys::HeapTuple;
    fn ReleaseSysCache(row: pg_sys::HeapTuple);
    fn GetOuterUserId() -> Oid;
    fn GetUserId() -> Oid;
    fn GetUserIdAndSecContext(role: *mut Oid, context: *mut c_int);
    fn SetUserIdAndSecContext(role: Oid, context: c_int);
    fn RecoveryInProgress() -> bool;
    fn PreventCommandIfReadOnly(command: *const c_char);
    fn superuser_arg(role: Oid) -> bool;
    fn RegisterXactCallback(callback: unsafe extern "C-unwind" fn(c_int, *mut c_void), arg: *mut c_void);
    fn errstart(level: c_int, domain: *const c_char) -> bool;
    fn errcode(code: c_int) -> c_int;
    fn errmsg_internal(format: *const c_char, ...) -> c_int;
    fn errdetail_internal(format: *const c_char, ...) -> c_int;
    fn errhint(format: *const c_char, ...) -> c_int;
    fn set_errcontext_domain(domain: *const c_char) -> c_int;
    fn errcontext_msg(format: *const c_char, ...) -> c_int;
    fn try_relation_open(relation: Oid, lock: c_int) -> pg_sys::Relation;
    fn relation_close(relation: pg_sys::Relation, lock: c_int);
    fn errfinish(file: *const c_char, line: c_int, function: *const c_char);
}

// ---------------------------------------------------------------------------------------------------------------------
// Running statements
// ---------------------------------------------------------------------------------------------------------------------

/// One SQL statement, prepared on its first use in each backend, with a generic plan, and kept until the backend ends.
pub struct Statement {
    sql: &'static CStr,
    types: &'static [Oid],
    plan: Cell<pg_sys::SPIPlanPtr>,
}

// SAFETY: a backend is one thread.
unsafe impl Sync for Statement {}

impl Statement {
    /// `types` are the parameters' types, in the order of their numbers; built-in ones only.
    pub const fn new(sql: &'static CStr, types: &'static [Oid]) -> Self {
        Self { sql, types, plan: Cell::new(ptr::null_mut()) }
    }
}

/// The text of a statement that is put together at compile time.
macro_rules! sql {
    ($text:expr) => {
        match std::ffi::CStr::from_bytes_with_nul(concat!($text, "\0").as_bytes()) {
            Ok(text) => text,
            Err(_) => panic!("a statement holds a NUL"),
        }
    };
}
pub(crate) use sql;

/// A statement whose plan can be had, and what can be done with it. All of it runs inside the caller's transaction, each
/// statement with a snapshot of its own in READ COMMITTED.
pub trait Saved: Copy {
    #[doc(hidden)]
    fn types(self) -> &'static [Oid];

    /// The plan, saved now if it was not.
    ///
    /// SAFETY: between SPI_connect and SPI_finish.
    #[doc(hidden)]
    unsafe fn plan(self) -> pg_sys::SPIPlanPtr;

    /// The role that the statement is planned and run as, where that is not the running function's own.
    #[doc(hidden)]
    fn role(self) -> Option<Oid> {
        None
    }

    /// Streams the statement's rows from the executor into the result of the call; returns how many they were.
    fn rows<const N: usize>(self, call: Call, args: [Value; N]) -> u64 {
        // SAFETY: the module's contract; `call` is live, and the receiver checks the column types.
        unsafe {
            let result = call.result();
            SPI_connect();
            let dest = CreateDestReceiver(pg_sys::CommandDest::DestTuplestore);
            SetTuplestoreDestReceiverParams(
                dest,
                (*result).setResult,
                (*(*result).econtext).ecxt_per_query_memory,
                false,
                (*result).setDesc,
                c"a table of hfs_lite does not have the column types that its functions declare".as_ptr(),
            );
            execute(self, args, dest);
            let rows = pg_sys::SPI_processed;
            SPI_finish();
            rows
        }
    }

    /// Runs the statement and leaves its rows, if it has any, unread; returns how many it processed.
    fn run<const N: usize>(self, args: [Value; N]) -> u64 {
        // SAFETY: the module's contract.
        unsafe {
            SPI_connect();
            execute(self, args, CreateDestReceiver(pg_sys::CommandDest::DestNone));
            let rows = pg_sys::SPI_processed;
            SPI_finish();
            rows
        }
    }

    /// The first column of the statement's rows, in their order.
    fn column<const N: usize>(self, args: [Value; N]) -> Column {
        // SAFETY: the module's contract; the table is read before SPI_finish frees it, and what is passed by reference is
        // copied into the caller's memory context.
        unsafe {
            SPI_connect();
            execute(self, args, ptr::null_mut());
            let rows = pg_sys::SPI_processed as usize;
            let mut column = Column::new();
            if rows > 0 {
                let table = pg_sys::SPI_tuptable;
                let desc = (*table).tupdesc;
                let (mut length, mut by_value) = (0, false);
                get_typlenbyval(SPI_gettypeid(desc, 1), &mut length, &mut by_value);
                let values = SPI_palloc(rows * size_of::<Value>()).cast::<Value>();
                for i in 0..rows {
                    let mut null = false;
                    let value = SPI_getbinval(*(*table).vals.add(i), desc, 1, &mut null);
                    let value = if null { None } else { Some(SPI_datumTransfer(value, by_value, length.into())) };
                    values.add(i).write(Value(value));
                }
                column = Column { values, rows };
            }
            SPI_finish();
            column
        }
    }

    /// The first column of the statement's first row; NULL where there is no row.
    fn value<const N: usize>(self, args: [Value; N]) -> Value {
        self.column(args).get(0)
    }
}

impl Saved for &'static Statement {
    fn types(self) -> &'static [Oid] {
        self.types
    }

    unsafe fn plan(self) -> pg_sys::SPIPlanPtr {
        if self.plan.get().is_null() {
            // SAFETY: the text ends in NUL and lives for ever.
            self.plan.set(unsafe { prepare(self.sql.as_ptr(), self.types) });
        }
        self.plan.get()
    }
}

/// Runs commands given as one text, unsaved, for what is rare and has no parameters: DDL.
pub fn run_commands(commands: Text) {
    let text = CText::new(commands.as_str());
    // SAFETY: the module's contract; the text ends in NUL.
    unsafe {
        SPI_connect();
        let code = SPI_execute(text.0, false, 0);
        if code < 0 {
            spi_failed();
        }
        SPI_finish();
    }
}

/// SAFETY: `sql` ends in NUL; between SPI_connect and SPI_finish.
unsafe fn prepare(sql: *const c_char, types: &'static [Oid]) -> pg_sys::SPIPlanPtr {
    unsafe {
        // Without the generic plan, the first five runs in each backend would be planned anew.
        let options = pg_sys::CURSOR_OPT_GENERIC_PLAN as c_int;
        let plan = SPI_prepare_cursor(sql, types.len() as c_int, types.as_ptr(), options);
        if plan.is_null() || SPI_keepplan(plan) < 0 {
            spi_failed();
        }
        plan
    }
}

/// SAFETY: between SPI_connect and SPI_finish; a null `dest` collects the rows in SPI's own table.
unsafe fn execute<const N: usize>(statement: impl Saved, args: [Value; N], dest: *mut pg_sys::DestReceiver) {
    let types = statement.types();
    debug_assert_eq!(N, types.len());
    unsafe {
        // An error puts the role back by itself, where PostgreSQL ends the transaction or the savepoint.
        let own = statement.role().map(|role| change_role(role));
        let params = makeParamList(N as c_int);
        for (i, (arg, kind)) in args.iter().zip(types).enumerate() {
            let param = (*params).params.as_mut_ptr().add(i);
            (*param).value = arg.0.unwrap_or(Datum::null());
            (*param).isnull = arg.0.is_none();
            (*param).pflags = pg_sys::PARAM_FLAG_CONST as u16;
            (*param).ptype = *kind;
        }
        let mut options: pg_sys::SPIExecuteOptions = std::mem::zeroed();
        options.params = params;
        options.dest = dest;
        if SPI_execute_plan_extended(statement.plan(), &options) < 0 {
            spi_failed();
        }
        if let Some((role, context)) = own {
            SetUserIdAndSecContext(role, context);
        }
    }
}

/// Goes on as another role, restricted as PostgreSQL is while it maintains that role's tables: what runs then can't
/// change the role back. Returns what to put back.
///
/// SAFETY: SetUserIdAndSecContext follows with what is returned here, or an error.
unsafe fn change_role(to: Oid) -> (Oid, c_int) {
    let (mut role, mut context) = (Oid::INVALID, 0);
    unsafe {
        GetUserIdAndSecContext(&mut role, &mut context);
        SetUserIdAndSecContext(to, context | pg_sys::SECURITY_RESTRICTED_OPERATION as c_int);
    }
    (role, context)
}

/// SPI's negative answers mean that this module used it wrongly; PostgreSQL's errors never come this way.
fn spi_failed() -> ! {
    raise(*b"XX000", CText::from_c(c"a saved statement of hfs_lite could not be run"), None, None)
}

/// The values of one column, in PostgreSQL's memory.
#[derive(Clone, Copy)]
pub struct Column {
    values: *mut Value,
    rows: usize,
}

impl Column {
    /// A column without rows.
    pub const fn new() -> Column {
        Column { values: ptr::null_mut(), rows: 0 }
    }

    pub fn push(&mut self, value: Value) {
        // SAFETY: there is room for the next power of two of rows; PostgreSQL raises where there is no memory.
        unsafe {
            if self.rows == 0 {
                self.values = palloc(size_of::<Value>()).cast();
            } else if self.rows.is_power_of_two() {
                self.values = repalloc(self.values.cast(), 2 * self.rows * size_of::<Value>()).cast();
            }
            self.values.add(self.rows).write(value);
        }
        self.rows += 1;
    }

    /// The distinct texts of a column of type text, without its NULLs, as SELECT DISTINCT ... ORDER BY gives them.
    pub fn distinct_texts(self) -> Column {
        let mut distinct = Column::new();
        if self.rows > 1 {
            // SAFETY: the rows are there; an error may jump over C's sort, which has nothing to drop.
            unsafe { pg_qsort(self.values.cast(), self.rows, size_of::<Value>(), compare_texts) };
        }
        let mut last: Option<Text> = None;
        for text in self.texts() {
            if last.is_none_or(|last| last.as_str() != text.as_str()) {
                distinct.push(text.into());
            }
            last = Some(text);
        }
        distinct
    }

    /// The value in a row, counted from 0; NULL past the last one.
    pub fn get(self, row: usize) -> Value {
        // SAFETY: `rows` values were written there.
        if row < self.rows { unsafe { *self.values.add(row) } } else { Value(None) }
    }

    /// The texts of a column of type text, without its NULLs.
    pub fn texts(self) -> impl Iterator<Item = Text> {
        (0..self.rows).filter_map(move |row| self.get(row).as_text())
    }
}

// ---------------------------------------------------------------------------------------------------------------------
// Statements on a queue's tables
// ---------------------------------------------------------------------------------------------------------------------

/// A statement on the tables of one pgmq queue: `{queue}` stands for its table, `{archive}` for its archive's, `{dead}` for
/// its dead-letter queue's, and `{name}` for its name, as a text. A table's name can't be a parameter, so there is one saved
/// plan a queue.
///
/// Whoever may create tables in schema pgmq can make a queue, and put triggers on it. So where one of the tables belongs
/// to a role that is neither ours nor a superuser, the statement runs with the rights of that role.
pub struct QueueStatement {
    sql: &'static str,
    by_pgmq: Option<&'static str>,
    types: &'static [Oid],
    /// Which of [`TABLES`] it is about.
    names: [bool; TABLES.len()],
}

/// What stands for a table's name, in the order of [`Tables::names`].
const TABLES: [&str; 3] = ["{queue}", "{archive}", "{dead}"];

/// The columns of a queue's table, as of pgmq 1.11; its archive has one more.
const COLUMNS: [(&CStr, Oid); 7] = [
    (c"msg_id", pg_sys::INT8OID),
    (c"read_ct", pg_sys::INT4OID),
    (c"enqueued_at", pg_sys::TIMESTAMPTZOID),
    (c"last_read_at", pg_sys::TIMESTAMPTZOID),
    (c"vt", pg_sys::TIMESTAMPTZOID),
    (c"message", pg_sys::JSONBOID),
    (c"headers", pg_sys::JSONBOID),
];
const COLUMNS_OF_ARCHIVE: &[(&CStr, Oid)] = &[(c"archived_at", pg_sys::TIMESTAMPTZOID)];
const COLUMNS_BESIDE: [&[(&CStr, Oid)]; TABLES.len()] = [&[], COLUMNS_OF_ARCHIVE, &[]];

impl QueueStatement {
    pub const fn new(sql: &'static str, types: &'static [Oid]) -> Self {
        let mut names = [false; TABLES.len()];
        let mut i = 0;
        while i < TABLES.len() {
            names[i] = contains(sql.as_bytes(), TABLES[i].as_bytes());
            i += 1;
        }
        Self { sql, by_pgmq: None, types, names }
    }

    /// What does the same by pgmq's own functions, where one of the tables has other columns than we know: another pgmq may
    /// fill them. It takes each function in the form that is written in PL/pgSQL and with arguments of its very types, so that
    /// no function that somebody made in schema pgmq fits better.
    pub const fn or_by_pgmq(self, sql: &'static str) -> Self {
        Self { by_pgmq: Some(sql), ..self }
    }

    /// The statement on this queue.
    pub fn on(&'static self, queue: Queue) -> OnQueue {
        OnQueue { statement: self, queue }
    }
}

/// Whether a text holds another; str::contains is not const.
const fn contains(text: &[u8], part: &[u8]) -> bool {
    let mut start = 0;
    while start + part.len() <= text.len() {
        let mut matching = 0;
        while matching < part.len() && text[start + matching] == part[matching] {
            matching += 1;
        }
        if matching == part.len() {
            return true;
        }
        start += 1;
    }
    false
}

/// A [`QueueStatement`] on one queue.
#[derive(Clone, Copy)]
pub struct OnQueue {
    statement: &'static QueueStatement,
    queue: Queue,
}

impl OnQueue {
    /// What the statement is about: each of the queue's tables that it names, and the columns that it knows there.
    fn tables<'a>(self) -> impl Iterator<Item = (&'a CStr, &'static [(&'static CStr, Oid)])> {
        let names = self.queue.tables().names.iter().map(CString::as_c_str).zip(COLUMNS_BESIDE);
        names.zip(self.statement.names).filter_map(|(table, named)| named.then_some(table))
    }

    /// The statement's text.
    fn sql(self) -> &'static str {
        let Some(by_pgmq) = self.statement.by_pgmq else { return self.statement.sql };
        let schema = schema_of_pgmq();
        if self.tables().all(|(table, beside)| has_columns(schema, table, &COLUMNS, beside)) {
            self.statement.sql
        } else {
            by_pgmq
        }
    }
}

impl Saved for OnQueue {
    fn types(self) -> &'static [Oid] {
        self.statement.types
    }

    unsafe fn plan(self) -> pg_sys::SPIPlanPtr {
        let (tables, sql) = (self.queue.tables(), self.sql());
        let saved = tables.plans.borrow().iter().find(|(of, _)| ptr::eq(*of, sql)).map(|(_, plan)| *plan);
        if let Some(plan) = saved {
            return plan;
        }
        let text = CText::new(&tables.fill_in(sql));
        // SAFETY: the text ends in NUL.
        let plan = unsafe { prepare(text.0, self.statement.types) };
        tables.plans.borrow_mut().push((sql, plan));
        plan
    }

    fn role(self) -> Option<Oid> {
        let schema = schema_of_pgmq();
        // SAFETY: reads who runs, and looks into the catalog cache.
        let trusted = |role| unsafe { role == GetUserId() || superuser_arg(role) };
        self.tables().filter_map(|(table, _)| Some(relation(schema, table)?.owner)).find(|owner| !trusted(*owner))
    }
}

/// A queue that pgmq has or had: its name was found in pgmq's list once. Whether its tables are there now is another
/// question, see [`Queue::exists`]. Good until the transaction ends.
#[derive(Clone, Copy)]
pub struct Queue(*const Tables);

/// The tables of one queue and the plans on them.
struct Tables {
    /// As pgmq made them of the queue's name, in lower case: `q_` and the name, `a_` and the name, and the first with
    /// `__dead`.
    names: [CString; TABLES.len()],
    /// The queue's name as pgmq lists it, as an SQL literal.
    literal: Box<str>,
    plans: RefCell<Vec<(*const str, pg_sys::SPIPlanPtr)>>,
    /// When it was last asked for, by the count of `QUEUES.asked`.
    asked: Cell<u64>,
}

/// Queues whose plans a backend keeps. Five plans of a queue take about 150 kB; a backend that works on more queues than
/// this prepares some of them again.
const QUEUES_KEPT: usize = 256;

#[derive(Default)]
struct Queues {
    by_name: HashMap<Box<str>, Box<Tables>>,
    asked: u64,
}

thread_local! {
    static QUEUES: RefCell<Queues> = RefCell::default();
    /// Whether [`forget_queues`] is registered.
    static FORGETTING: Cell<bool> = const { Cell::new(false) };
}

impl Queue {
    /// The queue of this name, if this backend has met it.
    pub fn met(name: &str) -> Option<Queue> {
        QUEUES.with_borrow_mut(|queues| {
            queues.asked += 1;
            let tables = queues.by_name.get(name)?;
            tables.asked.set(queues.asked);
            Some(Queue(&raw const **tables))
        })
    }

    /// Remembers a queue by its name and the name of its table.
    pub fn remember(name: &str, table: &str) -> Queue {
        if !FORGETTING.replace(true) {
            // SAFETY: the callback is a function of this library, which is never unloaded.
            unsafe { RegisterXactCallback(forget_queues, ptr::null_mut()) };
        }
        QUEUES.with_borrow_mut(|queues| {
            queues.asked += 1;
            let tables = queues.by_name.entry(name.into()).or_insert_with(|| Box::new(Tables::new(name, table)));
            tables.asked.set(queues.asked);
            Queue(&raw const **tables)
        })
    }

    /// Whether the queue's table is there now: a look into PostgreSQL's catalog cache.
    pub fn exists(self) -> bool {
        relation(schema_of_pgmq(), &self.tables().names[0]).is_some()
    }

    /// Whether the queue's table is there now and can be read: on a standby an unlogged one can't.
    pub fn is_readable(self) -> bool {
        // SAFETY: reads a state.
        relation(schema_of_pgmq(), &self.tables().names[0])
            .is_some_and(|table| !table.unlogged || unsafe { !RecoveryInProgress() })
    }

    /// Whether the table of the queue's dead-letter queue is there now.
    pub fn has_dead_letter_queue(self) -> bool {
        relation(schema_of_pgmq(), &self.tables().names[2]).is_some()
    }

    fn tables<'a>(self) -> &'a Tables {
        // SAFETY: entries are boxed and go only at the end of a transaction, as the queue does.
        unsafe { &*self.0 }
    }
}

impl Tables {
    fn new(name: &str, queue: &str) -> Tables {
        let archive = format!("a_{}", queue.strip_prefix("q_").unwrap_or(queue));
        // No text of PostgreSQL's holds a NUL.
        let names =
            [queue.into(), archive, format!("{queue}__dead")].map(|name| CString::new(name).unwrap_or_default());
        // Right with standard_conforming_strings on and off.
        let literal = format!("E'{}'::text", name.replace('\\', "\\\\").replace('\'', "''")).into();
        Tables { names, literal, plans: RefCell::default(), asked: Cell::new(0) }
    }

    /// In one pass: a name that looks like a place stays a name.
    fn fill_in(&self, template: &str) -> String {
        let (mut text, mut rest) = (String::new(), template);
        let places = TABLES.iter().zip(self.names.iter().map(Some)).chain([(&"{name}", None)]);
        let next = |rest: &str| {
            let found = places.clone().filter_map(|(place, table)| Some((rest.find(place)?, place.len(), table)));
            found.min_by_key(|(at, ..)| *at)
        };
        while let Some((at, length, table)) = next(rest) {
            text += &rest[..at];
            match table {
                Some(table) => text += &format!("pgmq.\"{}\"", table.to_string_lossy().replace('"', "\"\"")),
                None => text += &self.literal,
            }
            rest = &rest[at + length..];
        }
        text + rest
    }
}

fn schema_of_pgmq() -> Oid {
    schema(c"pgmq")
}

/// The schema of this name; of an invalid one, no relation is found.
fn schema(name: &CStr) -> Oid {
    // SAFETY: looks into the catalog cache.
    unsafe { get_namespace_oid(name.as_ptr(), true) }
}

/// What the catalog says of a table or an index.
struct Relation {
    oid: Oid,
    owner: Oid,
    unlogged: bool,
}

/// The table or index of this name, if there is one.
fn relation(schema: Oid, name: &CStr) -> Option<Relation> {
    // SAFETY: looks into the catalog cache; the row is read before it is released.
    unsafe {
        let cache = pg_sys::SysCacheIdentifier::RELNAMENSP as c_int;
        let row = SearchSysCache2(cache, Datum::from(name.as_ptr()), schema.into());
        if row.is_null() {
            return None;
        }
        let class = (*row).t_data.cast::<u8>().add((*(*row).t_data).t_hoff.into()).cast::<pg_sys::FormData_pg_class>();
        let unlogged = (*class).relpersistence == pg_sys::RELPERSISTENCE_UNLOGGED as c_char;
        let relation = Relation { oid: (*class).oid, owner: (*class).relowner, unlogged };
        ReleaseSysCache(row);
        Some(relation)
    }
}

/// Keeps a lock until the transaction ends.
const KEPT: c_int = pg_sys::NoLock as c_int;

/// Whether the table of this name is there and has these columns, in any order, and no other. It stays so until the transaction
/// ends: the table is locked as the statement locks it that follows, which then finds it locked.
fn has_columns(schema: Oid, name: &CStr, some: &[(&CStr, Oid)], others: &[(&CStr, Oid)]) -> bool {
    let Some(found) = relation(schema, name) else { return false };
    // SAFETY: the module's contract; the table is open while its columns are read.
    unsafe {
        let table = try_relation_open(found.oid, pg_sys::RowExclusiveLock as c_int);
        if table.is_null() {
            return false;
        }
        let mut count = 0;
        let all = PgTupleDesc::from_pg_unchecked((*table).rd_att).iter().filter(|column| !column.attisdropped).all(
            |column| {
                count += 1;
                let name = CStr::from_ptr(column.attname.data.as_ptr());
                some.iter().chain(others).any(|(known, kind)| *kind == column.atttypid && *known == name)
            },
        );
        relation_close(table, KEPT);
        all && count == some.len() + others.len()
    }
}

/// At the end of a transaction, when none of our statements can be running: drops the plans of the queues that were not
/// asked for the longest, if there are more than are kept.
#[pg_guard]
unsafe extern "C-unwind" fn forget_queues(_event: c_int, _arg: *mut c_void) {
    QUEUES.with_borrow_mut(|queues| {
        if queues.by_name.len() <= QUEUES_KEPT {
            return;
        }
        let mut asked: Vec<u64> = queues.by_name.values().map(|tables| tables.asked.get()).collect();
        asked.sort_unstable();
        // Half of them, so that this is seldom.
        let oldest_kept = asked[asked.len() - QUEUES_KEPT / 2];
        queues.by_name.retain(|_, tables| {
            let kept = tables.asked.get() >= oldest_kept;
            if !kept {
                for (_, plan) in tables.plans.borrow_mut().drain(..) {
                    // SAFETY: a saved plan that nothing runs; freeing it only returns memory and raises nothing.
                    unsafe { SPI_freeplan(plan) };
                }
            }
            kept
        });
    });
}

// ---------------------------------------------------------------------------------------------------------------------
// What a function takes and answers
// ---------------------------------------------------------------------------------------------------------------------

/// The call that a function is answering. As an argument it is invisible in SQL.
#[derive(Clone, Copy)]
pub struct Call(pg_sys::FunctionCallInfo);

impl Call {
    /// Where the rows of this call go: a tuplestore with the columns that the caller expects, made at the first row.
    ///
    /// SAFETY: the call is live.
    unsafe fn result(self) -> *mut pg_sys::ReturnSetInfo {
        unsafe {
            let result = (*self.0).resultinfo.cast::<pg_sys::ReturnSetInfo>();
            if result.is_null() || (*result).setResult.is_null() {
                // Refuses, with PostgreSQL's own error, a caller that takes no set.
                InitMaterializedSRF(self.0, pg_sys::MAT_SRF_USE_EXPECTED_DESC);
            }
            (*self.0).resultinfo.cast()
        }
    }

    /// Answers one row, whose values must be of the declared columns' types.
    pub fn row<const N: usize>(self, values: [Value; N]) {
        let mut datums = [Datum::null(); N];
        let mut nulls = [true; N];
        for (i, Value(value)) in values.into_iter().enumerate() {
            if let Some(value) = value {
                datums[i] = value;
                nulls[i] = false;
            }
        }
        // SAFETY: the call is live; PostgreSQL copies the values.
        unsafe {
            let result = self.result();
            debug_assert_eq!((*(*result).setDesc).natts, N as c_int);
            tuplestore_putvalues((*result).setResult, (*result).setDesc, datums.as_ptr(), nulls.as_ptr());
        }
    }

    /// Answers no row, or no more rows than were answered already.
    pub fn done<Row>(self) -> TableIterator<'static, Row> {
        // SAFETY: the call is live. Without a result a set-returning function would seem to answer one row of NULLs.
        unsafe { self.result() };
        TableIterator(PhantomData)
    }

    /// Answers the rows of a statement.
    pub fn answer<Row, const N: usize>(self, statement: impl Saved, args: [Value; N]) -> TableIterator<'static, Row> {
        statement.rows(self, args);
        self.done()
    }
}

// SAFETY: a virtual argument, as pgrx's own for the same pointer, which it takes it from.
unsafe impl<'fcx> ArgAbi<'fcx> for Call {
    unsafe fn unbox_arg_unchecked(arg: Arg<'_, 'fcx>) -> Self {
        Call(unsafe { <pg_sys::FunctionCallInfo as ArgAbi>::unbox_arg_unchecked(arg) })
    }
    fn is_virtual_arg() -> bool {
        true
    }
}

// SAFETY: it has no place in SQL.
unsafe impl SqlTranslatable for Call {
    const TYPE_IDENT: &'static str = pgrx::pgrx_resolved_type!(Call);
    const TYPE_ORIGIN: TypeOrigin = TypeOrigin::External;
    const ARGUMENT_SQL: Result<SqlMappingRef, ArgumentError> = Ok(SqlMappingRef::Skip);
    const RETURN_SQL: Result<ReturnsRef, ReturnsError> = Ok(ReturnsRef::One(SqlMappingRef::Skip));
}

/// `RETURNS TABLE (...)` of a function whose rows are in the call's tuplestore already. `#[pg_extern]` derives the SQL from
/// a return type of this name; [`Call::done`] makes one.
pub struct TableIterator<'a, Row>(PhantomData<(&'a (), Row)>);

// SAFETY: nothing is boxed: the rows are where PostgreSQL looks for them.
unsafe impl<Row> RetAbi for TableIterator<'_, Row> {
    type Item = Self;
    type Ret = Self;
    unsafe fn check_fcinfo_and_prepare(_: pg_sys::FunctionCallInfo) -> CallCx {
        CallCx::WrappedFn(unsafe { pg_sys::CurrentMemoryContext })
    }
    fn to_ret(self) -> Self {
        self
    }
    unsafe fn box_ret_in_fcinfo(fcinfo: pg_sys::FunctionCallInfo, _: Self) -> Datum {
        unsafe { (*fcinfo).isnull = true };
        Datum::null()
    }
    unsafe fn move_into_fcinfo_fcx(self, _: pg_sys::FunctionCallInfo) {}
    unsafe fn fill_fcinfo_fcx(&self, _: pg_sys::FunctionCallInfo) {}
}

/// What a parameter of a statement takes: a datum, or NULL.
#[derive(Clone, Copy)]
pub struct Value(Option<Datum>);

impl Value {
    /// A value of type boolean.
    pub fn as_bool(self) -> Option<bool> {
        self.0.map(|datum| datum.value() != 0)
    }

    /// A value of type text.
    pub fn as_text(self) -> Option<Text> {
        self.0.map(Text)
    }
}

impl<T: Into<Value>> From<Option<T>> for Value {
    fn from(value: Option<T>) -> Self {
        value.map_or(Value(None), Into::into)
    }
}

macro_rules! by_value {
    ($($of:ty),*) => {$(
        impl From<$of> for Value {
            fn from(value: $of) -> Self {
                Value(Some(Datum::from(value)))
            }
        }
    )*};
}
by_value!(i64, i32, bool);

/// Types that are passed through as the datum they came in: not copied, not decoded.
macro_rules! by_datum {
    ($($(#[$doc:meta])* $of:ident = $sql:literal;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy)]
        pub struct $of(Datum);

        pgrx::impl_sql_translatable!($of, $sql);

        impl From<$of> for Value {
            fn from(value: $of) -> Self {
                Value(Some(value.0))
            }
        }
        impl FromDatum for $of {
            unsafe fn from_polymorphic_datum(datum: Datum, null: bool, _: Oid) -> Option<Self> {
                (!null).then_some($of(datum))
            }
        }
        // SAFETY: the SQL declaration says what the datum is; nothing of it is read here.
        unsafe impl<'fcx> ArgAbi<'fcx> for $of {
            unsafe fn unbox_arg_unchecked(arg: Arg<'_, 'fcx>) -> Self {
                match unsafe { arg.unbox_arg_using_from_datum::<$of>() } {
                    Some(value) => value,
                    // Only a STRICT function takes one without Option, and PostgreSQL does not call it with NULL.
                    None => raise(*b"XX000", CText::from_c(c"a strict function was called with NULL"), None, None),
                }
            }
        }
        // SAFETY: as above.
        unsafe impl BoxRet for $of {
            unsafe fn box_into<'fcx>(self, fcinfo: &mut FcInfo<'fcx>) -> pgrx::datum::Datum<'fcx> {
                unsafe { fcinfo.return_raw_datum(self.0) }
            }
        }
    )*};
}
by_datum! {
    Text = "text";
    Varchar = "varchar";
    Name = "name";
    Jsonb = "jsonb";
    Uuid = "uuid";
    Uuids = "uuid[]";
    Bigints = "bigint[]";
    Integers = "integer[]";
    Texts = "text[]";
    Varchars = "varchar[]";
    Jsonbs = "jsonb[]";
}

/// An instant, in microseconds since 2000-01-01 UTC, as PostgreSQL counts them.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Instant(pub i64);

pgrx::impl_sql_translatable!(Instant, "timestamptz");

impl Instant {
    /// The database's clock: `clock_timestamp()`.
    pub fn now() -> Self {
        // SAFETY: reads the clock.
        Instant(unsafe { GetCurrentTimestamp() })
    }

    /// How long it is until a later instant, in microseconds.
    pub fn until(self, later: Instant) -> i64 {
        later.0.saturating_sub(self.0)
    }

    /// The instant so many microseconds later, or the last one that PostgreSQL knows.
    pub fn plus(self, microseconds: i64) -> Instant {
        const LAST: i64 = 9_223_371_331_199_999_999;
        Instant(self.0.saturating_add(microseconds).min(LAST))
    }

    /// Neither `infinity` nor `-infinity`, which are the two ends of the count.
    pub fn is_finite(self) -> bool {
        self.0 != i64::MIN && self.0 != i64::MAX
    }
}
impl From<Instant> for Value {
    fn from(instant: Instant) -> Self {
        instant.0.into()
    }
}
impl FromDatum for Instant {
    unsafe fn from_polymorphic_datum(datum: Datum, null: bool, _: Oid) -> Option<Self> {
        (!null).then_some(Instant(datum.value() as i64))
    }
}
// SAFETY: a timestamptz is passed by value.
unsafe impl<'fcx> ArgAbi<'fcx> for Instant {
    unsafe fn unbox_arg_unchecked(arg: Arg<'_, 'fcx>) -> Self {
        Instant(unsafe { arg.unbox_arg_using_from_datum::<i64>() }.unwrap_or_default())
    }
}

// ---------------------------------------------------------------------------------------------------------------------
// Arrays
// ---------------------------------------------------------------------------------------------------------------------

/// An argument that is an array.
pub trait Array: Copy {
    type Element: FromDatum;
    /// How PostgreSQL lays its elements out: type, length, whether by value, alignment.
    #[doc(hidden)]
    const LAYOUT: (Oid, c_int, bool, u8);

    #[doc(hidden)]
    fn datum(self) -> Datum;

    #[doc(hidden)]
    fn of(datum: Datum) -> Self;

    /// The same array, decompressed, flattened and brought into memory once, for what else is asked of it here.
    fn in_memory(self) -> Self {
        // SAFETY: the datum is an array.
        Self::of(Datum::from(unsafe { pg_detoast_datum(self.datum().cast_mut_ptr()) }))
    }

    /// How many dimensions it has; an empty array has none.
    fn dimensions(self) -> c_int {
        // SAFETY: the datum is an array.
        unsafe { (*flat(self)).ndim }
    }

    /// How many elements it holds.
    fn count(self) -> usize {
        // SAFETY: the datum is an array; behind its head stands the size of each dimension.
        unsafe {
            let array = flat(self);
            ArrayGetNItems((*array).ndim, array.add(1).cast()) as usize
        }
    }

    /// Its elements, taken apart once.
    fn elements(self) -> Elements<Self::Element> {
        let (kind, length, by_value, align) = Self::LAYOUT;
        let (mut datums, mut nulls, mut count) = (ptr::null_mut(), ptr::null_mut(), 0);
        // SAFETY: the datum is an array of this type.
        unsafe {
            let array = flat(self);
            deconstruct_array(array, kind, length, by_value, align as c_char, &mut datums, &mut nulls, &mut count);
        }
        Elements { datums, nulls, count: count as usize, kind, of: PhantomData }
    }
}

/// SAFETY: the datum of an array is one.
unsafe fn flat(array: impl Array) -> *mut pg_sys::ArrayType {
    unsafe { pg_detoast_datum(array.datum().cast_mut_ptr()).cast() }
}

/// The elements of an array, in PostgreSQL's memory.
#[derive(Clone, Copy)]
pub struct Elements<T> {
    datums: *const Datum,
    nulls: *const bool,
    count: usize,
    kind: Oid,
    of: PhantomData<T>,
}

impl<T: FromDatum> Elements<T> {
    /// How many there are.
    pub fn count(&self) -> usize {
        self.count
    }

    /// The element at a place, counted from 0; nothing where it is NULL, or past the last one.
    pub fn get(&self, place: usize) -> Option<T> {
        if place >= self.count {
            return None;
        }
        // SAFETY: `count` of each were written there, of a type that T is made of.
        unsafe { T::from_polymorphic_datum(*self.datums.add(place), *self.nulls.add(place), self.kind) }
    }
}

macro_rules! arrays {
    ($($array:ident of $element:ident: $layout:expr;)*) => {$(
        impl Array for $array {
            type Element = $element;
            const LAYOUT: (Oid, c_int, bool, u8) = $layout;

            fn datum(self) -> Datum {
                self.0
            }

            fn of(datum: Datum) -> Self {
                Self(datum)
            }
        }
    )*};
}
arrays! {
    Uuids of Uuid: (pg_sys::UUIDOID, 16, false, pg_sys::TYPALIGN_CHAR);
    Bigints of i64: (pg_sys::INT8OID, 8, true, pg_sys::TYPALIGN_DOUBLE);
    Integers of i32: (pg_sys::INT4OID, 4, true, pg_sys::TYPALIGN_INT);
    Texts of Text: (pg_sys::TEXTOID, -1, false, pg_sys::TYPALIGN_INT);
    Varchars of Varchar: (pg_sys::VARCHAROID, -1, false, pg_sys::TYPALIGN_INT);
    Jsonbs of Jsonb: (pg_sys::JSONBOID, -1, false, pg_sys::TYPALIGN_INT);
}

impl Uuids {
    /// So many new ids of version 7, in the order in which they grow.
    pub fn new(count: usize) -> Uuids {
        let (kind, length, by_value, align) = Uuids::LAYOUT;
        // SAFETY: room for `count` datums, all of which are written; PostgreSQL copies what they lead to.
        unsafe {
            let ids = palloc(count.max(1) * size_of::<Datum>()).cast::<Datum>();
            for place in 0..count {
                ids.add(place).write(Uuid::new().0);
            }
            Uuids(Datum::from(construct_array(ids, count as c_int, kind, length, by_value, align as c_char)))
        }
    }
}

// ---------------------------------------------------------------------------------------------------------------------
// Looking into a datum
// ---------------------------------------------------------------------------------------------------------------------

/// An argument of characters: text, varchar or name.
pub trait Characters: Copy + Into<Value> {
    /// The characters, in PostgreSQL's memory.
    fn as_str(&self) -> &str;
}

macro_rules! varlena_characters {
    ($($of:ident),*) => {$(
        impl Characters for $of {
            fn as_str(&self) -> &str {
                // SAFETY: the datum is of this type, and lives as long as the call.
                unsafe { utf8(varlena_bytes(pg_detoast_datum_packed(self.0.cast_mut_ptr()))) }
            }
        }
    )*};
}
varlena_characters!(Text, Varchar);

impl Characters for Name {
    fn as_str(&self) -> &str {
        // SAFETY: a name is a C string in a fixed width.
        unsafe { utf8(CStr::from_ptr(self.0.cast_mut_ptr()).to_bytes()) }
    }
}

impl Text {
    pub fn new(text: &str) -> Text {
        // SAFETY: PostgreSQL copies the bytes.
        Text(Datum::from(unsafe { cstring_to_text_with_len(text.as_ptr().cast(), text.len() as c_int) }))
    }

    /// Whether it matches a regular expression: `$1 ~ $2`.
    pub fn matches(self, regex: Text) -> bool {
        // SAFETY: both datums are texts.
        unsafe { DirectFunctionCall2Coll(textregexeq, pg_sys::DEFAULT_COLLATION_OID, self.0, regex.0).value() != 0 }
    }
}

/// SAFETY: for [`Column::distinct_texts`]: both are values of type text, and not NULL.
unsafe extern "C-unwind" fn compare_texts(a: *const c_void, b: *const c_void) -> c_int {
    let text = |value: *const c_void| unsafe { (*value.cast::<Value>()).as_text() };
    let (Some(a), Some(b)) = (text(a), text(b)) else { return 0 };
    let (a, b) = (a.as_str(), b.as_str());
    let (a_length, b_length) = (a.len() as c_int, b.len() as c_int);
    let collation = pg_sys::DEFAULT_COLLATION_OID;
    unsafe { varstr_cmp(a.as_ptr().cast(), a_length, b.as_ptr().cast(), b_length, collation) }
}

impl Varchar {
    pub fn new(text: &str) -> Varchar {
        Varchar(Text::new(text).0)
    }
}

/// SAFETY: a live, detoasted datum.
unsafe fn varlena_bytes<'a>(varlena: *mut pg_sys::varlena) -> &'a [u8] {
    unsafe { std::slice::from_raw_parts(pgrx::vardata_any(varlena).cast(), pgrx::varsize_any_exhdr(varlena)) }
}

/// The extension installs only into databases of encoding UTF8, whose text PostgreSQL checks on its way in.
fn utf8(bytes: &[u8]) -> &str {
    match std::str::from_utf8(bytes) {
        Ok(text) => text,
        Err(_) => raise(*b"22021", CText::from_c(c"the text is not valid UTF-8"), None, None),
    }
}

impl Uuid {
    /// A new id of version 7: they grow with time, so that inserts stay at the right edge of their index.
    pub fn new() -> Uuid {
        // SAFETY: 16 bytes are allocated, and written whole; PostgreSQL raises where there is no memory.
        unsafe {
            let place = palloc(size_of::<uuid::Bytes>()).cast::<uuid::Bytes>();
            place.write(uuid::Uuid::now_v7().into_bytes());
            Uuid(Datum::from(place))
        }
    }
}

impl Uuids {
    pub fn contains_null(self) -> bool {
        // SAFETY: the datum is an array.
        unsafe { array_contains_nulls(pg_detoast_datum(self.0.cast_mut_ptr()).cast()) }
    }
}

/// A field of a JSON object.
#[derive(Clone, Copy)]
pub enum Field<'a> {
    Missing,
    String(&'a str),
    Object(Fields),
    Other,
}

/// A JSON object, as PostgreSQL's binary form holds it.
#[derive(Clone, Copy)]
pub struct Fields(*const c_char);

impl Fields {
    /// The field of this name.
    pub fn get(&self, key: &str) -> Field<'_> {
        // SAFETY: the container is a live object; the value is a copy whose strings point into it.
        unsafe {
            let mut value = std::mem::zeroed();
            let key = (key.as_ptr().cast(), key.len() as c_int);
            if getKeyJsonValueFromContainer(self.0, key.0, key.1, &mut value).is_null() {
                return Field::Missing;
            }
            match value.type_ {
                pg_sys::jbvType::jbvString => {
                    let string = value.val.string;
                    Field::String(utf8(std::slice::from_raw_parts(string.val.cast(), string.len as usize)))
                }
                pg_sys::jbvType::jbvBinary => {
                    let container = value.val.binary.data.cast::<c_char>();
                    if header(container) & pg_sys::JB_FOBJECT != 0 {
                        Field::Object(Fields(container))
                    } else {
                        Field::Other
                    }
                }
                _ => Field::Other,
            }
        }
    }
}

/// A container's first four bytes: its kind and how many it holds.
///
/// SAFETY: a live jsonb container, which PostgreSQL aligns to four bytes.
unsafe fn header(container: *const c_char) -> u32 {
    unsafe { container.cast::<u32>().read() }
}

/// An object that is being put together, in PostgreSQL's memory; the fields may come in any order.
pub struct Object(*mut pg_sys::JsonbParseState);

impl Object {
    pub fn new() -> Object {
        let mut state = ptr::null_mut();
        // SAFETY: the module's contract.
        unsafe { pushJsonbValue(&mut state, pg_sys::JsonbIteratorToken::WJB_BEGIN_OBJECT, ptr::null_mut()) };
        Object(state)
    }

    pub fn string(&mut self, key: &str, value: &str) {
        self.push(pg_sys::JsonbIteratorToken::WJB_KEY, jsonb_string(key));
        self.push(pg_sys::JsonbIteratorToken::WJB_VALUE, jsonb_string(value));
    }

    /// An object or array: a scalar, whose binary form is an array of one, would become that array.
    pub fn container(&mut self, key: &str, value: Jsonb) {
        // SAFETY: the container outlives the object that it is copied into.
        let value = unsafe {
            let mut binary: pg_sys::JsonbValue = std::mem::zeroed();
            binary.type_ = pg_sys::jbvType::jbvBinary;
            binary.val.binary.data = value.container().cast_mut().cast();
            binary
        };
        self.push(pg_sys::JsonbIteratorToken::WJB_KEY, jsonb_string(key));
        self.push(pg_sys::JsonbIteratorToken::WJB_VALUE, value);
    }

    pub fn object(&mut self, key: &str, fill: impl FnOnce(&mut Object)) {
        self.push(pg_sys::JsonbIteratorToken::WJB_KEY, jsonb_string(key));
        // SAFETY: the module's contract.
        unsafe { pushJsonbValue(&mut self.0, pg_sys::JsonbIteratorToken::WJB_BEGIN_OBJECT, ptr::null_mut()) };
        fill(self);
        // SAFETY: the module's contract.
        unsafe { pushJsonbValue(&mut self.0, pg_sys::JsonbIteratorToken::WJB_END_OBJECT, ptr::null_mut()) };
    }

    pub fn done(mut self) -> Jsonb {
        // SAFETY: the module's contract.
        unsafe {
            let end = pg_sys::JsonbIteratorToken::WJB_END_OBJECT;
            Jsonb(Datum::from(JsonbValueToJsonb(pushJsonbValue(&mut self.0, end, ptr::null_mut()))))
        }
    }

    fn push(&mut self, token: pg_sys::JsonbIteratorToken::Type, mut value: pg_sys::JsonbValue) {
        // SAFETY: the value is copied; strings in it stay where they are until it is done.
        unsafe { pushJsonbValue(&mut self.0, token, &mut value) };
    }
}

fn jsonb_string(text: &str) -> pg_sys::JsonbValue {
    // SAFETY: a string's value is its place and its length.
    unsafe {
        let mut string: pg_sys::JsonbValue = std::mem::zeroed();
        string.type_ = pg_sys::jbvType::jbvString;
        string.val.string.val = text.as_ptr().cast_mut().cast();
        string.val.string.len = text.len() as c_int;
        string
    }
}

impl Jsonb {
    /// The same value, decompressed and brought into memory once, so that looking into it and storing it don't do so twice.
    pub fn in_memory(self) -> Jsonb {
        // SAFETY: the datum is a jsonb.
        Jsonb(Datum::from(unsafe { pg_detoast_datum(self.0.cast_mut_ptr()) }))
    }

    fn container(&self) -> *const c_char {
        // SAFETY: the datum is a jsonb; its container stands behind the length word.
        unsafe { pg_detoast_datum(self.0.cast_mut_ptr()).cast::<c_char>().add(pg_sys::VARHDRSZ) }
    }

    /// The value, where it is an object.
    pub fn as_object(&self) -> Option<Fields> {
        let container = self.container();
        // SAFETY: a live container.
        (unsafe { header(container) } & pg_sys::JB_FOBJECT != 0).then_some(Fields(container))
    }

    /// Whether it is JSON's own null.
    pub fn is_json_null(&self) -> bool {
        let container = self.container();
        // SAFETY: a scalar is an array of one, whose entry stands behind the header.
        unsafe {
            header(container) & pg_sys::JB_FSCALAR != 0
                && header(container.add(4)) & pg_sys::JENTRY_TYPEMASK == pg_sys::JENTRY_ISNULL
        }
    }

    /// The value as PostgreSQL prints it.
    pub fn as_json(&self) -> &str {
        let container = self.container();
        // SAFETY: a live container; the text is in PostgreSQL's memory.
        unsafe { utf8(CStr::from_ptr(JsonbToCString(ptr::null_mut(), container, 0)).to_bytes()) }
    }
}

// ---------------------------------------------------------------------------------------------------------------------
// Asking PostgreSQL, and raising
// ---------------------------------------------------------------------------------------------------------------------

/// Whether all statements of this transaction see one snapshot, as they do above READ COMMITTED.
pub fn snapshot_is_kept() -> bool {
    // SAFETY: reads a number.
    unsafe { pg_sys::XactIsoLevel >= pg_sys::XACT_REPEATABLE_READ as c_int }
}

/// Whether the transaction must not write.
pub fn is_read_only() -> bool {
    // SAFETY: reads a flag.
    unsafe { pg_sys::XactReadOnly }
}

/// Raises PostgreSQL's 25006 where nothing can be written, for a function that may find nothing to write: it would answer on
/// a standby as if it had been done. `function` is what the error names.
pub fn refuse_read_only(function: &'static CStr) {
    // SAFETY: the module's contract; the text ends in NUL.
    unsafe { PreventCommandIfReadOnly(function.as_ptr()) }
}

/// Whether the role that called, before any SECURITY DEFINER function changed it, owns the running function or is a
/// superuser.
pub fn caller_is_owner() -> bool {
    // SAFETY: looks into the catalog cache.
    unsafe { GetOuterUserId() == GetUserId() || superuser_arg(GetOuterUserId()) }
}

/// A C string in PostgreSQL's memory, or one that lives for ever.
#[derive(Clone, Copy)]
pub struct CText(*const c_char);

impl CText {
    /// A copy that takes no destructor along. A character NUL, which no text of PostgreSQL's holds, would end it.
    pub fn new(text: &str) -> CText {
        // SAFETY: the room is one byte larger than the text. NO_OOM: where there is no memory for it, nothing is raised
        // here, over the frames of a caller that may still hold the text.
        unsafe {
            let room = palloc_extended(text.len() + 1, pg_sys::MCXT_ALLOC_NO_OOM as c_int).cast::<u8>();
            if room.is_null() {
                return CText(c"out of memory".as_ptr());
            }
            ptr::copy_nonoverlapping(text.as_ptr(), room, text.len());
            room.add(text.len()).write(0);
            CText(room.cast())
        }
    }

    pub const fn from_c(text: &'static CStr) -> CText {
        CText(text.as_ptr())
    }
}

/// Raises an ERROR with any SQLSTATE; pgrx's own list lacks ours and some of PostgreSQL's.
pub fn raise(sqlstate: [u8; 5], message: CText, detail: Option<CText>, hint: Option<CText>) -> ! {
    report(pg_sys::PGERROR as c_int, sqlstate, message, detail, hint);
    unreachable!("errfinish returned from an ERROR")
}

/// Raises a WARNING, and goes on.
pub fn warn(sqlstate: [u8; 5], message: CText, hint: CText) {
    report(pg_sys::WARNING as c_int, sqlstate, message, None, Some(hint));
}

/// A line of an error's CONTEXT; each of the two texts stands for a `%.*s`. It takes no memory until it is printed, and then
/// PostgreSQL's: what is reported may be that there is none.
#[derive(Clone, Copy)]
pub struct ContextLine<'a> {
    pub format: &'static CStr,
    pub texts: [&'a str; 2],
}

impl ContextLine<'_> {
    /// Does what `act` does; whatever is reported meanwhile, by anybody, has this line in its CONTEXT.
    pub fn around<T>(self, act: impl FnOnce() -> T) -> T {
        // SAFETY: PostgreSQL's own list, which it cuts back itself where it jumps out; until then the line is there.
        unsafe {
            let mut own = pg_sys::ErrorContextCallback {
                previous: pg_sys::error_context_stack,
                callback: Some(add_line),
                arg: (&raw const self).cast_mut().cast(),
            };
            pg_sys::error_context_stack = &raw mut own;
            let done = act();
            pg_sys::error_context_stack = own.previous;
            done
        }
    }
}

/// SAFETY: for [`ContextLine::around`]: the line is there.
unsafe extern "C-unwind" fn add_line(line: *mut c_void) {
    unsafe {
        let ContextLine { format, texts: [first, second] } = *line.cast::<ContextLine>();
        set_errcontext_domain(ptr::null());
        errcontext_msg(
            format.as_ptr(),
            first.len() as c_int,
            first.as_ptr().cast::<c_char>(),
            second.len() as c_int,
            second.as_ptr().cast::<c_char>(),
        );
    }
}

fn report(level: c_int, sqlstate: [u8; 5], message: CText, detail: Option<CText>, hint: Option<CText>) {
    // As MAKE_SQLSTATE of PostgreSQL's elog.h: six bits a character.
    let code = sqlstate.iter().rev().fold(0, |code, c| code << 6 | (c_int::from(*c) - c_int::from(b'0')) & 0x3f);
    // SAFETY: C strings, given as values and never as formats.
    unsafe {
        if errstart(level, ptr::null()) {
            errcode(code);
            errmsg_internal(c"%s".as_ptr(), message.0);
            if let Some(detail) = detail {
                errdetail_internal(c"%s".as_ptr(), detail.0);
            }
            if let Some(hint) = hint {
                errhint(c"%s".as_ptr(), hint.0);
            }
            errfinish(ptr::null(), 0, ptr::null());
        }
    }
}
