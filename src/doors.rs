//! Doors: which role may call what. The functions are the only way to the tables, and EXECUTE on them the only right.

use crate::argument;
use crate::error::Error;
use crate::statement::{Characters, Name, Saved, Statement, Text, caller_is_owner, run_commands};
use pgrx::pg_sys::{NAMEOID, TEXTOID};
use pgrx::prelude::*;

// Grants of two sessions at once would meet on one catalog row and fail: one waits for the other's commit.
static LOCK: Statement =
    Statement::new(c"select pg_catalog.pg_advisory_xact_lock(pg_catalog.hashtext('hfs_lite_grant'))", &[]);

static ROLE_EXISTS: Statement =
    Statement::new(c"select exists (select from pg_catalog.pg_roles where rolname = $1)", &[NAMEOID]);

// A role that a browser role is, or is a member of, would open its rights to browsers.
static BARRED: Statement = Statement::new(
    c"select b.rolname::text from pg_catalog.pg_roles b
       where b.rolname in ('anon', 'authenticated') and pg_catalog.pg_has_role(b.oid, $1, 'member')
       order by 1 limit 1",
    &[NAMEOID],
);

// Of the extension's functions, as commands: GRANT where the role lacks the right, so that a repeat writes nothing.
// What a role of kind application gets is all but what only operators do.
static GRANTS: Statement = Statement::new(
    c"select coalesce(string_agg(format('grant execute on function %s to %I', p.oid::regprocedure, $1), ';'), '')
        from pg_catalog.pg_depend d
        join pg_catalog.pg_extension e on e.oid = d.refobjid and e.extname = 'hfs_lite'
        join pg_catalog.pg_proc p on p.oid = d.objid
       where d.refclassid = 'pg_catalog.pg_extension'::regclass and d.classid = 'pg_catalog.pg_proc'::regclass
         and d.deptype = 'e'
         and p.proname not in ('hfs_lite_grant', 'hfs_lite_revoke')
         and ($2 = 'operator' or p.proname not in ('event_bus_subscribe', 'inbox_forget'))
         and not exists (
           select from aclexplode(p.proacl) a join pg_catalog.pg_roles r on r.oid = a.grantee
            where r.rolname = $1 and a.privilege_type = 'EXECUTE')",
    &[NAMEOID, TEXTOID],
);

static REVOKES: Statement = Statement::new(
    c"select coalesce(string_agg(format('revoke all on function %s from %I', p.oid::regprocedure, $1), ';'), '')
        from pg_catalog.pg_depend d
        join pg_catalog.pg_extension e on e.oid = d.refobjid and e.extname = 'hfs_lite'
        join pg_catalog.pg_proc p on p.oid = d.objid
       where d.refclassid = 'pg_catalog.pg_extension'::regclass and d.classid = 'pg_catalog.pg_proc'::regclass
         and d.deptype = 'e'
         and p.proowner <> (select r.oid from pg_catalog.pg_roles r where r.rolname = $1)
         and exists (
           select from aclexplode(p.proacl) a join pg_catalog.pg_roles r on r.oid = a.grantee where r.rolname = $1)",
    &[NAMEOID],
);

/// Gives a role what it needs to call the functions: EXECUTE, and nothing on any table or on schema pgmq. It may be
/// called any number of times.
///
/// p_role: the role. p_as: 'application' (every function but event_bus_subscribe and inbox_forget) or 'operator' (those
/// too).
/// Answers nothing.
/// Errors: 22004 for NULL, 22023 for another kind, and for anon, authenticated and roles that they are members of,
/// 42704 for a role that does not exist, 42501 unless the extension's owner or a superuser calls.
/// Since 0.1.0.
#[pg_extern(volatile, security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn hfs_lite_grant(p_role: Option<Name>, p_as: default!(Option<Text>, "'application'")) {
    let role = existing_role(p_role);
    let kind = argument::non_empty("p_as", p_as);
    if !matches!(kind.as_str(), "application" | "operator") {
        Error::NotAllowed { argument: "p_as", came: kind.as_str(), allowed: "application, operator" }.raise();
    }
    if let Some(barred) = BARRED.value([role.into()]).as_text() {
        Error::RoleBarred { role: role.as_str(), barred: barred.as_str() }.raise();
    }
    if let Some(grants) = GRANTS.value([role.into(), kind.into()]).as_text() {
        run_commands(grants);
    }
}

/// Takes all rights on the functions back from a role. It may be called any number of times.
///
/// p_role: the role.
/// Answers nothing.
/// Errors: 22004 for NULL, 42704 for a role that does not exist, 42501 unless the extension's owner or a superuser calls.
/// Since 0.1.0.
#[pg_extern(volatile, security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn hfs_lite_revoke(p_role: Option<Name>) {
    let role = existing_role(p_role);
    if let Some(revokes) = REVOKES.value([role.into()]).as_text() {
        run_commands(revokes);
    }
}

/// The role that the caller names, once it is sure that the caller may ask and that nobody else is granting.
fn existing_role(role: Option<Name>) -> Name {
    // EXECUTE alone does not do: a GRANT ON ALL FUNCTIONS IN SCHEMA public would hand out the right to hand out rights.
    if !caller_is_owner() {
        Error::NotOwner.raise();
    }
    let role = argument::text("p_role", role, argument::NAME);
    LOCK.run([]);
    if ROLE_EXISTS.value([role.into()]).as_bool() != Some(true) {
        Error::NoRole { role: role.as_str() }.raise();
    }
    role
}
