//! Looks into an index without a statement, for what is asked at every call: to start and end a statement costs several times
//! what a look costs.
//!
//! The contract is that of [`super`]. Table and index are found by their names at every look, and are locked as
//! a statement locks them, until the transaction ends. Where an index can't say (it is not there, is not what was expected, or may
//! lack rows), there is no look, and the caller has a statement that does without.

use super::{
    Characters, Instant, KEPT, SPI_getbinval, SPI_gettypeid, Text, Value, construct_array, relation, relation_close,
    schema, try_relation_open,
};
use pgrx::pg_sys::{self, Datum, Oid};
use std::ffi::{CStr, c_char, c_int};
use std::ptr;

// PostgreSQL's own functions, declared here because pgrx wraps its declarations in the guard that rebuilds errors.
#[allow(non_snake_case)]
unsafe extern "C-unwind" {
    fn ScanKeyEntryInitialize(
        entry: pg_sys::ScanKey,
        flags: c_int,
        attribute: i16,
        strategy: u16,
        subtype: Oid,
        collation: Oid,
        procedure: Oid,
        argument: Datum,
    );
    // Made for the catalog, and used for TOAST tables too: any table with a B-tree will do.
    fn systable_beginscan_ordered(
        table: pg_sys::Relation,
        index: pg_sys::Relation,
        snapshot: pg_sys::Snapshot,
        count: c_int,
        keys: pg_sys::ScanKey,
    ) -> pg_sys::SysScanDesc;
    fn systable_getnext_ordered(scan: pg_sys::SysScanDesc, direction: c_int) -> pg_sys::HeapTuple;
    fn SPI_fnumber(desc: pg_sys::TupleDesc, column: *const c_char) -> c_int;
    fn systable_endscan_ordered(scan: pg_sys::SysScanDesc);
    fn RelationGetIndexPredicate(index: pg_sys::Relation) -> *mut pg_sys::List;
    fn TransactionIdPrecedes(earlier: pg_sys::TransactionId, later: pg_sys::TransactionId) -> bool;
    fn index_rescan(
        scan: pg_sys::IndexScanDesc,
        keys: pg_sys::ScanKey,
        count: c_int,
        order: pg_sys::ScanKey,
        order_count: c_int,
    );
    fn CommandCounterIncrement();
    fn GetTransactionSnapshot() -> pg_sys::Snapshot;
    fn RegisterSnapshot(snapshot: pg_sys::Snapshot) -> pg_sys::Snapshot;
    fn UnregisterSnapshot(snapshot: pg_sys::Snapshot);
}

/// A B-tree and its table.
pub struct Index {
    pub schema: &'static CStr,
    pub table: &'static CStr,
    pub name: &'static CStr,
    /// How both are locked: as the statement locks them that follows, which then finds them locked.
    pub locked: Locked,
    /// The columns that it is asked by, which are its first: the name of each (of an expression, that of its function) and its
    /// type, text (to an index, varchar is text) or timestamptz.
    pub columns: &'static [(&'static CStr, Oid)],
}

/// The mode of a lock.
#[derive(Clone, Copy)]
pub enum Locked {
    ToRead = pg_sys::AccessShareLock as isize,
    ToWrite = pg_sys::RowExclusiveLock as isize,
}

/// What a column of an index must be.
#[derive(Clone, Copy)]
pub enum Key {
    Equal(Value),
    /// One of these, which are a text[] without NULLs.
    AnyOf(Datum),
}

impl<T: Into<Value>> From<T> for Key {
    fn from(value: T) -> Key {
        Key::Equal(value.into())
    }
}

impl Key {
    pub fn any_of(texts: &[Text]) -> Key {
        // SAFETY: a Text is the datum of a text; PostgreSQL only reads them, to copy them.
        Key::AnyOf(Datum::from(unsafe {
            let elements = texts.as_ptr().cast::<Datum>();
            construct_array(elements, texts.len() as c_int, pg_sys::TEXTOID, -1, false, pg_sys::TYPALIGN_INT as c_char)
        }))
    }
}

/// More columns than any of our indexes is asked by.
const COLUMNS: usize = 2;

impl Index {
    /// Looks for the rows with these keys that a statement would see now; `close` must follow, or an error.
    pub fn look<const N: usize>(&self, keys: [Key; N]) -> Option<Look> {
        // SAFETY: the module's contract. As SPI does before a statement: what this transaction wrote is seen.
        let snapshot = || unsafe {
            CommandCounterIncrement();
            RegisterSnapshot(GetTransactionSnapshot())
        };
        self.open(keys, snapshot)
    }

    /// Whether there is a row with these keys, and no other transaction that is open has written it: what ON CONFLICT DO
    /// NOTHING finds, where it does not wait.
    pub fn is_settled<const N: usize>(&self, keys: [Key; N]) -> bool {
        // SAFETY: the module's contract; the snapshot outlives the look, and is no more than a kind and three fields that
        // are set anew for each row.
        unsafe {
            let mut dirty: pg_sys::SnapshotData = std::mem::zeroed();
            dirty.snapshot_type = pg_sys::SnapshotType::SNAPSHOT_DIRTY;
            let snapshot = &raw mut dirty;
            let Some(look) = self.open(keys, || snapshot) else { return false };
            let found = look.next(Direction::Forward).is_some();
            let settled = found && [(*snapshot).xmin, (*snapshot).xmax] == [pg_sys::InvalidTransactionId; 2];
            look.end();
            settled
        }
    }

    fn open<const N: usize>(&self, keys: [Key; N], snapshot: impl FnOnce() -> pg_sys::Snapshot) -> Option<Look> {
        const { assert!(N <= COLUMNS) };
        debug_assert_eq!(N, self.columns.len());
        // SAFETY: the module's contract; what is opened is closed, here or by the look.
        unsafe {
            let lock = self.locked as c_int;
            let schema = schema(self.schema);
            let table = try_relation_open(relation(schema, self.table)?.oid, lock);
            if table.is_null() {
                return None;
            }
            // After the table was locked, so that it stays.
            let index = relation(schema, self.name).map_or(ptr::null_mut(), |index| try_relation_open(index.oid, lock));
            if index.is_null() || !self.is_told_by(schema, table, index) {
                if !index.is_null() {
                    relation_close(index, KEPT);
                }
                relation_close(table, KEPT);
                return None;
            }
            let mut entries: [pg_sys::ScanKeyData; COLUMNS] = std::mem::zeroed();
            for (i, key) in keys.into_iter().enumerate() {
                let (flags, argument) = match key {
                    Key::Equal(value) => (0, value.0.unwrap_or(Datum::null())),
                    Key::AnyOf(texts) => (pg_sys::SK_SEARCHARRAY, texts),
                };
                let equal =
                    if self.columns[i].1 == pg_sys::TEXTOID { pg_sys::F_TEXTEQ } else { pg_sys::F_TIMESTAMPTZ_EQ };
                ScanKeyEntryInitialize(
                    &mut entries[i],
                    flags as c_int,
                    // The scan takes it for a column of the table: 0 is an expression.
                    *(*(*index).rd_index).indkey.values.as_ptr().add(i),
                    pg_sys::BTEqualStrategyNumber as u16,
                    Oid::INVALID,
                    *(*index).rd_indcollation.add(i),
                    equal.into(),
                    argument,
                );
            }
            let snapshot = snapshot();
            let scan = systable_beginscan_ordered(table, index, snapshot, N as c_int, entries.as_mut_ptr());
            Some(Look { table, index, snapshot, scan })
        }
    }

    /// Whether the index is of this table and of the expected columns, and holds all rows that our snapshots show.
    ///
    /// SAFETY: both are open.
    unsafe fn is_told_by(&self, schema: Oid, table: pg_sys::Relation, index: pg_sys::Relation) -> bool {
        unsafe {
            let of_index = &*(*index).rd_rel;
            if of_index.relkind != pg_sys::RELKIND_INDEX as c_char || of_index.relam != pg_sys::BTREE_AM_OID {
                return false;
            }
            let (of_table, of_index) = (&*(*table).rd_rel, &*(*index).rd_index);
            // Until it was locked, somebody may have given its name to another.
            CStr::from_ptr(of_table.relname.data.as_ptr()) == self.table
                && of_table.relnamespace == schema
                && of_table.relkind == pg_sys::RELKIND_RELATION as c_char
                && !of_table.relhassubclass
                && of_index.indrelid == (*table).rd_id
                && of_index.indisvalid
                && (!of_index.indcheckxmin || is_older_than_our_snapshots(index))
                && RelationGetIndexPredicate(index).is_null()
                && usize::from(of_index.indnkeyatts as u16) >= self.columns.len()
                && self.columns.iter().enumerate().all(|(i, (name, kind))| {
                    *(*index).rd_opcintype.add(i) == *kind
                        && SPI_fnumber((*index).rd_att, name.as_ptr()) == i as c_int + 1
                })
        }
    }
}

/// Whether an index that was built while rows were being updated may be used, as the planner asks: it lacks versions of them
/// that only snapshots from before it show.
///
/// SAFETY: it is open, and this transaction has a snapshot.
unsafe fn is_older_than_our_snapshots(index: pg_sys::Relation) -> bool {
    unsafe { TransactionIdPrecedes(xmin_of(&*(*(*index).rd_indextuple).t_data), pg_sys::TransactionXmin) }
}

/// As HeapTupleHeaderGetXmin of PostgreSQL's htup_details.h.
///
/// SAFETY: the header of a stored row.
unsafe fn xmin_of(header: &pg_sys::HeapTupleHeaderData) -> pg_sys::TransactionId {
    let frozen = pg_sys::HEAP_XMIN_FROZEN as u16;
    if header.t_infomask & frozen == frozen {
        pg_sys::FrozenTransactionId
    } else {
        unsafe { header.t_choice.t_heap.t_xmin }
    }
}

/// In which direction rows come.
#[derive(Clone, Copy)]
pub enum Direction {
    Forward = 1,
    Backward = -1,
}

/// A look that is open.
#[derive(Clone, Copy)]
pub struct Look {
    table: pg_sys::Relation,
    index: pg_sys::Relation,
    snapshot: pg_sys::Snapshot,
    scan: pg_sys::SysScanDesc,
}

impl Look {
    /// The next row in the order of the index; the direction is the same at every call.
    pub fn next(self, direction: Direction) -> Option<Row> {
        // SAFETY: the look is open.
        let tuple = unsafe { systable_getnext_ordered(self.scan, direction as c_int) };
        (!tuple.is_null()).then_some(Row { tuple, look: self })
    }

    /// The look as it was before its first row.
    pub fn again(self) -> Look {
        // SAFETY: the look is open; without keys, those that it has stay.
        unsafe {
            index_rescan((*self.scan).iscan, ptr::null_mut(), (*(*self.scan).iscan).numberOfKeys, ptr::null_mut(), 0)
        };
        self
    }

    pub fn close(self) {
        // SAFETY: the look is open, and its snapshot was registered.
        unsafe {
            self.end();
            UnregisterSnapshot(self.snapshot);
        }
    }

    /// SAFETY: the look is open.
    unsafe fn end(self) {
        unsafe {
            systable_endscan_ordered(self.scan);
            relation_close(self.index, KEPT);
            relation_close(self.table, KEPT);
        }
    }
}

/// A row of the table, until the next one is asked for or the look is closed.
#[derive(Clone, Copy)]
pub struct Row {
    tuple: pg_sys::HeapTuple,
    look: Look,
}

impl Row {
    /// The text of a column; NULL where there is no such column of text.
    pub fn text(&self, column: &CStr) -> Option<&str> {
        let text = self.value(column, &[pg_sys::TEXTOID, pg_sys::VARCHAROID])?.as_text()?;
        // SAFETY: the text is where the row is, or was brought into memory that outlives it.
        Some(unsafe { &*ptr::from_ref(text.as_str()) })
    }

    /// The instant in a column; NULL where there is no such column.
    pub fn instant(&self, column: &CStr) -> Option<Instant> {
        Some(Instant(self.value(column, &[pg_sys::TIMESTAMPTZOID])?.0?.value() as i64))
    }

    fn value(&self, column: &CStr, kinds: &[Oid]) -> Option<Value> {
        // SAFETY: the look is open; the column's type is what the caller reads.
        unsafe {
            let desc = (*self.look.table).rd_att;
            let number = SPI_fnumber(desc, column.as_ptr());
            if number <= 0 || !kinds.contains(&SPI_gettypeid(desc, number)) {
                return None;
            }
            let mut null = false;
            let value = SPI_getbinval(self.tuple, desc, number, &mut null);
            Some(Value((!null).then_some(value)))
        }
    }
}
