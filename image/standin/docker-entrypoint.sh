#!/usr/bin/env bash
# Stands for the official image's entrypoint, for tests only: what that image documents and ours relies on, no more.
set -euo pipefail
case "${1:-}" in -*) set -- postgres "$@" ;; esac
if [ "${1:-}" != postgres ]; then exec "$@"; fi

# VARIABLE or VARIABLE_FILE, else what is given.
variable() {
  local name=$1 file=${1}_FILE
  if [ -n "${!file:-}" ]; then printf -v "$name" '%s' "$(< "${!file}")"; fi
  if [ -z "${!name:-}" ]; then printf -v "$name" '%s' "${2:-}"; fi
  export "${name?}"
  unset "$file"
}
variable POSTGRES_PASSWORD
variable POSTGRES_USER postgres
variable POSTGRES_DB "$POSTGRES_USER"
variable POSTGRES_INITDB_ARGS

# Root hands the folders to the user postgres, and goes on as that one; with --user it is somebody else from the start.
mkdir -p "$PGDATA"
# Whoever may not: initdb does it, too.
chmod 700 "$PGDATA" 2> /dev/null || :
if [ "$(id -u)" = 0 ]; then
  find "$PGDATA" /var/run/postgresql ! -user postgres -exec chown postgres {} +
  exec setpriv --reuid=postgres --regid=postgres --init-groups -- "$0" "$@"
fi

if [ -s "$PGDATA/PG_VERSION" ]; then
  echo "stand-in: there is a database already; nothing is initialised"
  exec "$@"
fi
[ -n "$POSTGRES_PASSWORD" ] || { echo "stand-in: POSTGRES_PASSWORD or POSTGRES_PASSWORD_FILE is needed" >&2; exit 1; }
# shellcheck disable=SC2086 # words are meant
initdb --username="$POSTGRES_USER" --pwfile=<(printf '%s\n' "$POSTGRES_PASSWORD") $POSTGRES_INITDB_ARGS
printf '\nhost all all all scram-sha-256\n' >> "$PGDATA/pg_hba.conf"

# A server for the scripts, with the arguments of the one to come, on the socket only.
export PGPASSWORD=$POSTGRES_PASSWORD
pg_ctl --options="$(printf '%q ' "${@:2}" -c listen_addresses=)" --wait start
sql() { PGUSER=$POSTGRES_USER PGDATABASE=$1 psql --no-psqlrc --no-password --set=ON_ERROR_STOP=1 "${@:2}"; }
sql postgres --set=db="$POSTGRES_DB" << 'SQL'
select format('create database %I', :'db') where not exists (select from pg_database where datname = :'db') \gexec
SQL
for script in /docker-entrypoint-initdb.d/*; do
  echo "stand-in: $script"
  case $script in
    *.sh) if [ -x "$script" ]; then "$script"; else . "$script"; fi ;;
    *.sql) sql "$POSTGRES_DB" --file="$script" ;;
  esac
done
pg_ctl --mode=fast --wait stop
unset PGPASSWORD
echo "stand-in: the database is initialised"
exec "$@"
