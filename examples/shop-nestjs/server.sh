# A server of the shop's own, which its tests and scripts/example start. Sourced after env.sh.
# shellcheck shell=bash

# own_server NAME [SETTING=VALUE ...] starts cluster NAME, anew, on TCP; $admin is how its superuser gets in, and
# $start_server the command that starts it again once it was stopped.
own_server() {
  local name=$1 port password url
  [ -n "$bin" ] || die "there is no PostgreSQL $pg_major in $prefix: call scripts/setup first"
  [ -e "$("$pg_config" --sharedir)/extension/hfs_lite.control" ] ||
    die "hfs_lite is not installed in $prefix: call scripts/install first"
  # Also what a run that was killed has left.
  "$root/scripts/cluster" drop "$name"
  port=$(free_port 54317)
  start_server=("$root/scripts/cluster" start "$@" "port=$port" listen_addresses=127.0.0.1)
  "${start_server[@]}"
  password=$(random_password)
  url=$("$root/scripts/cluster" url "$name")
  "$bin/psql" -qX --set=ON_ERROR_STOP=1 "$url dbname=postgres" <<< "alter role postgres password '$password'"
  admin=postgresql://postgres:$password@127.0.0.1:$port/postgres
}

# shop_connections ADMIN DATABASE exports how the shop's roles get into a database on a server, with new passwords,
# which `setup` sets.
shop_connections() {
  local password server=${1%/*}
  password=$(random_password)
  export ADMIN_DATABASE_URL=$server/$2
  export OWNER_DATABASE_URL=${server/*@/postgresql://shop_owner:$password@}/$2
  export DATABASE_URL=${server/*@/postgresql://app_be:$password@}/$2
  export OPERATOR_DATABASE_URL=${server/*@/postgresql://operator:$password@}/$2
}
