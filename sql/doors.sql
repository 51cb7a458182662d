-- Doors.

comment on function public.hfs_lite_grant(name, text) is
$$Gives a role what it needs to call the functions: EXECUTE, and nothing on any table or on schema pgmq. It may be called any number of times.
p_role: the role. p_as: 'application' (every function but event_bus_subscribe and inbox_forget) or 'operator' (those too).
Answers nothing.
Errors: 22004 for NULL, 22023 for another kind, and for anon, authenticated and roles that they are members of, 42704 for a role that does not exist, 42501 unless the extension's owner or a superuser calls.
Since 0.1.0.$$;

comment on function public.hfs_lite_revoke(name) is
$$Takes all rights on the functions back from a role. It may be called any number of times.
p_role: the role.
Answers nothing.
Errors: 22004 for NULL, 42704 for a role that does not exist, 42501 unless the extension's owner or a superuser calls.
Since 0.1.0.$$;
