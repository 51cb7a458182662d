# Where this checkout keeps what it makes, and as whom its servers run. Sourced by the other scripts.
# shellcheck shell=bash
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
pg_major=${PG_MAJOR:-17}
pgrx_version=$(sed -n 's/^pgrx = { *version = "=\([^"]*\)".*/\1/p; s/^pgrx = "=\([^"]*\)".*/\1/p' "$root/Cargo.toml")

say() { printf '\033[1m%s\033[0m\n' "==> $*" >&2; }
die() { printf '%s\n' "error: $*" >&2; exit 1; }

# The first free port from the given one on.
free_port() {
  local port=$1
  while (exec 3<> "/dev/tcp/127.0.0.1/$port") 2> /dev/null; do port=$((port + 1)); done
  echo "$port"
}
random_password() { od -An -N 12 -tx1 /dev/urandom | tr -d ' \n'; }

# PostgreSQL refuses to run as root: root's servers run as the user postgres, anybody else's as themselves.
if [ "$(id -u)" = 0 ]; then
  server_user=postgres
  as_root() { "$@"; }
  # HOME and the working directory of root are closed to that user.
  as_server() { (cd / && sudo -u "$server_user" -- "$@"); }
else
  server_user=$(id -un)
  as_root() { sudo "$@"; }
  as_server() { (cd / && "$@"); }
fi

# What is made lies in the checkout, unless the server's user cannot reach it there (a checkout below root's home).
state=${HFS_LITE_STATE:-$root/.state}
reachable() {
  local dir=$1
  [ "$(id -u)" = 0 ] || return 0
  while [ "$dir" != / ]; do
    if [ -d "$dir" ] && [ $((0$(stat -c %a "$dir") & 1)) = 0 ]; then return 1; fi
    dir=$(dirname "$dir")
  done
}
if [ -z "${HFS_LITE_STATE:-}" ] && ! reachable "$root"; then
  state=/var/tmp/hfs_lite-$(printf '%s' "$root" | cksum | cut -d' ' -f1)
  if [ -e "$state" ] && [ ! -O "$state" ]; then die "$state belongs to somebody else; set HFS_LITE_STATE to another folder"; fi
fi

# A copy of PostgreSQL's programs and files, so that nothing is installed into the system's own PostgreSQL.
prefix=$state/pg$pg_major
if [ -s "$prefix/bindir" ]; then bin=$(cat "$prefix/bindir"); else bin=; fi
pg_config=$bin/pg_config

export PGRX_HOME=${PGRX_HOME:-$state/pgrx}
export PATH="$state/tools/bin:$PATH"
# Halves the build: cargo-pgrx's subcommands and plain cargo then share their artefacts. The workaround is for aarch64's linker.
if [ "$(uname -m)" = x86_64 ]; then export CARGO_PGRX_DISABLE_GC_SECTIONS_WORKAROUND=1; fi
# Otherwise every error that pgrx raises carries a backtrace in its DETAIL.
unset RUST_BACKTRACE
# The caller's own connection settings must not lead anywhere but to our servers.
unset PGHOST PGHOSTADDR PGPORT PGUSER PGDATABASE PGPASSWORD PGSERVICE PGOPTIONS PGDATA
