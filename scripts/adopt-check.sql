-- A rehearsal of adoption: says what CREATE EXTENSION would do, or why it would be refused, and takes everything back.
--   psql "$URL" -f scripts/adopt-check.sql
-- The tables are locked until that is said; nobody waits longer than that, nor this longer than a second for them.
\set ON_ERROR_STOP on
\set QUIET on
\set VERBOSITY default
\set SHOW_CONTEXT never
begin;
set local lock_timeout = '1s';
set local hfs_lite.adopt = on;
create extension hfs_lite cascade;
rollback;
\echo 'hfs_lite can be adopted here. Nothing was changed.'
