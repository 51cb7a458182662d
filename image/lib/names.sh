# What the image's commands share. Whom they connect as, and to which database, is what the official entrypoint made of
# these variables.
# shellcheck shell=bash
of_environment() {
  local file=${1}_FILE
  if [ -n "${!1:-}" ]; then
    printf '%s' "${!1}"
  elif [ -n "${!file:-}" ]; then
    cat "${!file}"
  else
    printf '%s' "$2"
  fi
}
PGUSER=$(of_environment POSTGRES_USER postgres)
PGDATABASE=$(of_environment POSTGRES_DB "$PGUSER")
export PGUSER PGDATABASE

# Whether the first start on this volume came to its end; says so where it did not. Only volumes that this image made
# have the mark: see image/lib/postgresql.conf and image/initdb/zz-initialised.sh.
first_start_ended() {
  if grep -qs 'hfs_lite\.initialised' "$PGDATA/postgresql.conf" && [ ! -e "$PGDATA/hfs_lite.initialised" ]; then
    echo "the first start on this volume is under way, or was interrupted: see the container's log." \
      "If it was interrupted, delete the volume and start again: it was never ready"
    return 1
  fi
}
