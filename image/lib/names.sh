# Whom the image's commands connect as, and to which database: what the official entrypoint made of these variables.
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
