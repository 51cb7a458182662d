# What the scripts that run Node share. Sourced after env.sh.
# shellcheck shell=bash

have() { command -v "$1" > /dev/null 2>&1; }

packages=()
want() { packages+=("$1"); say "will install $1: $2"; }

apt_install() {
  [ $# -gt 0 ] || return 0
  have apt-get || die "this machine has no apt-get: install with your package manager: $*"
  local log
  log=$(mktemp)
  { as_root apt-get update -qq &&
    as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@"; } \
    > "$log" 2>&1 || { tail -n 20 "$log" >&2; die "apt-get could not install: $*"; }
  rm -f "$log"
}

# Installs what was wanted before, and Node where it is missing.
install_wanted() {
  local from=()
  apt_install ${packages[@]+"${packages[@]}"}
  packages=()
  have node || want nodejs "runs what is written for Node"
  have npm || want npm "installs libraries, as package-lock.json has them"
  # Debian 12's node is too old for TypeORM; scripts/setup has added Debian 13 there, for PostgreSQL. Nothing else is
  # taken from it: a browser would bring half of the system along.
  if [ -e /etc/apt/preferences.d/hfs-lite-trixie ]; then from=(-t trixie); fi
  if [ ${#packages[@]} -gt 0 ]; then apt_install ${from[@]+"${from[@]}"} "${packages[@]}"; fi
  packages=()
  node -e 'const [a, b] = process.versions.node.split("."); process.exit(a > 20 || (a == 20 && b >= 19) ? 0 : 1)' ||
    die "node is $(node --version), and TypeORM needs 20.19 or newer"
}

# In a folder with a package-lock.json: its libraries, if they are not what it says already. None of them gets to run a
# script of its own.
npm_ci() {
  if cmp -s package-lock.json node_modules/.installed; then return; fi
  say "installing what ${PWD#"$root/"}/package-lock.json names: npm ci"
  npm ci --ignore-scripts --no-audit --no-fund --loglevel=error > /dev/null
  cp package-lock.json node_modules/.installed
}
