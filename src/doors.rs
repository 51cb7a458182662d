//! Doors: which role may call what. The functions are the only way to the tables; EXECUTE on them, and
//! SELECT on the views for people, are the only rights.

use crate::argument;
use crate::error::Error;
use crate::statement::{Characters, Name, Saved, Statement, Text, caller_is_owner, refuse_read_only, run_commands};
use pgrx::pg_sys::{NAMEOID, TEXTOID};
use pgrx::prelude::*;
use std::ffi::CStr;

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

// Of the extension's members, as commands: GRANT where the role lacks the right, so that a repeat writes nothing. What a role
// of kind application gets is all but what only operators do; what monitor gets is what changes nothing.
static GRANTS: Statement = Statement::new(
    c"select coalesce(string_agg(g.command, ';'), '') from (
        select format('grant execute on function %s to %I', p.oid::regprocedure, $1), p.proacl, 'EXECUTE'
          from pg_catalog.pg_depend d
          join pg_catalog.pg_extension e on e.oid = d.refobjid and e.extname = 'hfs_lite'
          join pg_catalog.pg_proc p on p.oid = d.objid
         where d.refclassid = 'pg_catalog.pg_extension'::regclass and d.classid = 'pg_catalog.pg_proc'::regclass
           and d.deptype = 'e'
           and p.proname not in ('hfs_lite_grant', 'hfs_lite_revoke')
           and case $2
               when 'operator' then true
               when 'application' then p.proname not in (
                 'jobs_sweep', 'queue_sweep', 'inbox_sweep_events', 'inbox_forget', 'event_bus_subscribe',
                 'event_bus_unsubscribe', 'event_bus_record', 'event_bus_check', 'event_bus_repair',
                 'event_bus_all_dead_letters', 'event_bus_sweep', 'hfs_lite_health', 'hfs_lite_age')
               when 'monitor' then p.proname in (
                 'event_bus_check', 'event_bus_all_dead_letters', 'hfs_lite_health', 'hfs_lite_age') end
        union all
        select format('grant select on table %s to %I', v.oid::regclass, $1), v.relacl, 'SELECT'
          from pg_catalog.pg_depend d
          join pg_catalog.pg_extension e on e.oid = d.refobjid and e.extname = 'hfs_lite'
          join pg_catalog.pg_class v on v.oid = d.objid and v.relkind = 'v'
         where d.refclassid = 'pg_catalog.pg_extension'::regclass and d.classid = 'pg_catalog.pg_class'::regclass
           and d.deptype = 'e'
           and $2 in ('operator', 'monitor')) g (command, acl, privilege)
       where not exists (
         select from aclexplode(g.acl) a join pg_catalog.pg_roles r on r.oid = a.grantee
          where r.rolname = $1 and a.privilege_type = g.privilege)",
    &[NAMEOID, TEXTOID],
);

static REVOKES: Statement = Statement::new(
    c"select coalesce(string_agg(format('revoke all on %s from %I', m.object, $1), ';'), '') from (
        select case when d.classid = 'pg_catalog.pg_proc'::regclass then 'function ' || p.oid::regprocedure
                    else 'table ' || v.oid::regclass end,
               coalesce(p.proacl, v.relacl), coalesce(p.proowner, v.relowner)
          from pg_catalog.pg_depend d
          join pg_catalog.pg_extension e on e.oid = d.refobjid and e.extname = 'hfs_lite'
          left join pg_catalog.pg_proc p on p.oid = d.objid and d.classid = 'pg_catalog.pg_proc'::regclass
          left join pg_catalog.pg_class v on v.oid = d.objid and d.classid = 'pg_catalog.pg_class'::regclass and v.relkind = 'v'
         where d.refclassid = 'pg_catalog.pg_extension'::regclass and d.deptype = 'e') m (object, acl, owner)
        join pg_catalog.pg_roles r on r.rolname = $1 and r.oid <> m.owner
       where exists (select from aclexplode(m.acl) a where a.grantee = r.oid)",
    &[NAMEOID],
);

/// Gives a role what it needs to call the functions: EXECUTE, and nothing on any table or on schema pgmq. It may be
/// called any number of times.
///
/// p_role: the role. p_as: 'application' (the functions that applications call), 'operator' (those too that maintain and
/// watch, and SELECT on the views) or 'monitor' (only those that watch, which change nothing, and the views).
/// Answers nothing.
/// Errors: 22004 for NULL, 22023 for another kind, and for anon, authenticated and roles that they are members of,
/// 42704 for a role that does not exist, 42501 unless the extension's owner or a superuser calls.
/// Since 0.1.0.
#[pg_extern(volatile, security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn hfs_lite_grant(p_role: Option<Name>, p_as: default!(Option<Text>, "'application'")) {
    let role = existing_role(c"hfs_lite_grant()", p_role);
    let kind = argument::non_empty("p_as", p_as);
    if !matches!(kind.as_str(), "application" | "operator" | "monitor") {
        Error::NotAllowed { argument: "p_as".into(), came: kind.as_str(), allowed: "application, operator, monitor" }
            .raise();
    }
    if let Some(barred) = BARRED.value([role.into()]).as_text() {
        Error::RoleBarred { role: role.as_str(), barred: barred.as_str() }.raise();
    }
    if let Some(grants) = GRANTS.value([role.into(), kind.into()]).as_text() {
        run_commands(grants);
    }
}

/// Takes all rights on the functions and views back from a role. It may be called any number of times.
///
/// p_role: the role.
/// Answers nothing.
/// Errors: 22004 for NULL, 42704 for a role that does not exist, 42501 unless the extension's owner or a superuser calls.
/// Since 0.1.0.
#[pg_extern(volatile, security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn hfs_lite_revoke(p_role: Option<Name>) {
    let role = existing_role(c"hfs_lite_revoke()", p_role);
    if let Some(revokes) = REVOKES.value([role.into()]).as_text() {
        run_commands(revokes);
    }
}

/// The role that the caller of the function names, once it is sure that the caller may ask and that nobody else is granting.
fn existing_role(function: &'static CStr, role: Option<Name>) -> Name {
    // EXECUTE alone does not do: a GRANT ON ALL FUNCTIONS IN SCHEMA public would hand out the right to hand out rights.
    if !caller_is_owner() {
        Error::NotOwner.raise();
    }
    let role = argument::text("p_role", role, argument::NAME);
    refuse_read_only(function);
    LOCK.run([]);
    if ROLE_EXISTS.value([role.into()]).as_bool() != Some(true) {
        Error::NoRole { role: role.as_str() }.raise();
    }
    role
}
