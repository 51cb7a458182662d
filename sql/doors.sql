-- Doors.

comment on function public.hfs_lite_grant(name, text) is
$$Gives a role what it needs to call the functions: EXECUTE, and nothing on any table or on schema pgmq. It may be called any number of times.
p_role: the role. p_as: 'application' (the functions that applications call), 'operator' (those too that maintain and watch, and SELECT on the views) or 'monitor' (only those that watch, which change nothing, and the views).
Answers nothing.
Errors: 22004 for NULL, 22023 for another kind, and for anon, authenticated and roles that they are members of, 42704 for a role that does not exist, 42501 unless the extension's owner or a superuser calls.
Since 0.1.0.$$;

comment on function public.hfs_lite_revoke(name) is
$$Takes all rights on the functions and views back from a role. It may be called any number of times.
p_role: the role.
Answers nothing.
Errors: 22004 for NULL, 42704 for a role that does not exist, 42501 unless the extension's owner or a superuser calls.
Since 0.1.0.$$;
