#!/usr/bin/env bash
# Runs once, on an empty volume, while the official entrypoint's temporary server answers on its socket only. It makes
# the application's database ready: the extensions, the role app_be, and what it may do. template1 stays as it is.
set -euo pipefail
die() { printf 'error: %s\n' "$*" >&2; exit 1; }

# By the environment: an argument with = in it would be a connection string to psql. And whatever the server was told to
# log, the verifier of a password is not for it.
export PGHOST='' PGHOSTADDR='' PGUSER=$POSTGRES_USER PGDATABASE=$POSTGRES_DB
export PGOPTIONS='-c log_statement=none -c log_min_duration_statement=-1 -c client_min_messages=warning'
psql=(psql --no-psqlrc --quiet --no-password --set=ON_ERROR_STOP=1)

[ "$POSTGRES_USER" != app_be ] || die "POSTGRES_USER is app_be, the application's role, which must not be a superuser"
password=
if [ -n "${APP_BE_PASSWORD_FILE:-}" ]; then
  [ -r "$APP_BE_PASSWORD_FILE" ] || die "APP_BE_PASSWORD_FILE cannot be read by $(id -un): $APP_BE_PASSWORD_FILE"
  password=$(< "$APP_BE_PASSWORD_FILE")
  [ -n "$password" ] || die "APP_BE_PASSWORD_FILE is empty: $APP_BE_PASSWORD_FILE"
  [[ $password != *$'\n'* ]] || die "APP_BE_PASSWORD_FILE has more than one line: $APP_BE_PASSWORD_FILE"
  [[ $password != *$'\r'* ]] || die "APP_BE_PASSWORD_FILE holds a carriage return: $APP_BE_PASSWORD_FILE"
fi

"${psql[@]}" --single-transaction << 'SQL'
create schema if not exists extensions;
create extension if not exists pgcrypto schema extensions;
create extension if not exists pg_trgm schema extensions;
create extension if not exists vector schema extensions;
create extension if not exists "uuid-ossp" schema extensions;
create extension if not exists unaccent schema extensions;
create extension if not exists btree_gist schema extensions;
create extension if not exists pgmq;
create extension if not exists hfs_lite;

select 'create role app_be' where not exists (select from pg_catalog.pg_roles where rolname = 'app_be') \gexec
select public.hfs_lite_grant('app_be') \g /dev/null
grant usage on schema extensions to app_be;
-- Whoever connects finds the types, functions and operators of the extensions without naming the schema.
select format('alter database %I set search_path = "$user", public, extensions', current_database()) \gexec
SQL

if [ -n "$password" ]; then
  # \password sends a SCRAM verifier that psql computes, so that no statement holds the password. It asks the terminal
  # twice, or, in a session without one, standard input.
  answer=$(printf '%s\n%s\n' "$password" "$password" |
    setsid --wait "${psql[@]}" --command='\password app_be' --command='alter role app_be login' 2>&1) ||
    die "the password of app_be could not be set: $answer"
fi
