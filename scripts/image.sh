# Building and running the image: with Docker where an engine answers, else with podman, buildah and runc, and with
# stand-ins for the two official images that the Dockerfile begins with. Sourced by scripts/image-test, after env.sh.
# shellcheck shell=bash
set -euo pipefail

# shellcheck disable=SC2154 # state and root are env.sh's.
work=$state/image
# Docker's images are the machine's: each checkout has names of its own there.
image=localhost/hfs-lite-db:test-$(printf '%s' "$root" | cksum | cut -d' ' -f1)
# Of the previous release's versions, which is what a volume from then was made by.
previous=$image-previous
# The two names that the Dockerfile is built from, letter for letter.
from_rust=$(sed -n 's/^FROM \([^ ]*\) AS rust$/\1/p' "$root/Dockerfile")
from_postgres=$(sed -n 's/^FROM \([^ ]*\) AS pg$/\1/p' "$root/Dockerfile")
[[ $from_postgres = */postgres:17-trixie@sha256:* ]] || die "the stand-in is for postgres:17-trixie, not $from_postgres"
[[ $from_rust = */rust:1.95-trixie@sha256:* ]] || die "the stand-in is for rust:1.95-trixie, not $from_rust"
rust_version=$(sed -n 's/.* RUSTUP_TOOLCHAIN=\([^ ]*\).*/\1/p' "$root/Dockerfile")
stand_in_postgres=localhost/hfs-lite-postgres:latest
# shellcheck disable=SC2034 # image-test's: the engines name it differently
healthcheck_format='{{.Config.Healthcheck.Test}}'

have() { command -v "$1" > /dev/null 2>&1; }
install -d "$work"
if have docker && docker info > /dev/null 2>&1; then engine=docker; else engine=podman; fi

# A machine's own settings of containers are neither used nor changed.
if [ "$engine" = podman ]; then
  healthcheck_format='{{.HealthCheck.Test}}'
  cat > "$work/storage.conf" << CONF
[storage]
driver = "overlay"
graphroot = "$work/storage"
runroot = "$work/run"
CONF
  # runc, since crun refuses a machine that has both versions of cgroups. The limits, since podman's own need a
  # capability that a machine's root may lack.
  cat > "$work/containers.conf" << CONF
[containers]
default_ulimits = ["nofile=1024:$(ulimit -Hn)", "nproc=16384:16384"]
[engine]
runtime = "runc"
cgroup_manager = "cgroupfs"
events_logger = "file"
CONF
  export CONTAINERS_STORAGE_CONF=$work/storage.conf CONTAINERS_CONF=$work/containers.conf
fi

# Says what is missing, and installs it.
engine_setup() {
  local packages=() release='' program
  want() { packages+=("$1"); say "will install $1: $2"; }
  if [ "$engine" = podman ]; then
    [ "$(id -u)" = 0 ] || die "no Docker engine answers, and to build with podman this must run as root"
    for program in buildah podman runc debootstrap; do
      have "$program" || want "$program" "no Docker engine answers, and the image is built and run with it instead"
    done
  fi
  python3 -c 'import ensurepip' 2> /dev/null || want python3-venv "the linter, and podman-compose, come as wheels"
  # Docker's clients need no engine for it. Debian 12's are too old, and scripts/setup has added Debian 13 there.
  if [ -e /etc/apt/preferences.d/hfs-lite-trixie ]; then release=/trixie; fi
  have docker || want "docker-cli$release" "says whether the Swarm stack is valid"
  if [ "$engine" = docker ]; then
    docker buildx version > /dev/null 2>&1 || want "docker-buildx$release" "builds the image"
  fi
  docker compose version > /dev/null 2>&1 || want "docker-compose$release" "says whether compose.yaml is valid"
  if [ ${#packages[@]} -eq 0 ]; then return; fi
  have apt-get || die "this machine has no apt-get: install with your package manager: ${packages[*]}"
  { as_root apt-get update -qq &&
    as_root env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300 \
      install -y -qq --no-install-recommends "${packages[@]}"; } > "$work/apt.log" 2>&1 ||
    { tail -n 20 "$work/apt.log" >&2; die "apt-get could not install: ${packages[*]}"; }
}

# build LOG ARGUMENT...: the engine's build, its output in a file unless it fails.
build() {
  local log=$work/$1 builder=(docker buildx build --load)
  shift
  if [ "$engine" = podman ]; then
    # Docker's format, since OCI's knows no health check.
    builder=(nice buildah build --isolation oci --layers --format docker --pull=never --network host)
  fi
  "${builder[@]}" "$@" > "$log" 2>&1 || { tail -n 40 "$log" >&2; die "the build failed; all it said is in $log"; }
}

# What stands for the official images; into the array stand_ins what tells the build so.
stand_ins=()
make_stand_ins() {
  local toolchain triple program to
  if [ "$engine" = docker ]; then return; fi
  if ! podman image exists localhost/hfs-lite-debian:trixie; then
    say "making the stand-in for the official postgres image (debootstrap)"
    rm -rf "$work/root"
    debootstrap --variant=minbase trixie "$work/root" > "$work/debootstrap.log" 2>&1 ||
      { tail -n 20 "$work/debootstrap.log" >&2; die "debootstrap failed"; }
    tar -C "$work/root" --numeric-owner --exclude='./var/cache/apt/*' --exclude='./var/lib/apt/lists/*' -c . |
      podman import --quiet - localhost/hfs-lite-debian:trixie > /dev/null
    rm -rf "$work/root"
  fi
  build standin.log --file "$root/image/standin/Dockerfile" --tag "$stand_in_postgres" "$root/image/standin"

  # The stage `rust`: this machine's toolchain, where the official image has it. Hard links, where that is possible.
  toolchain=$(realpath "$(dirname "$(rustup which --toolchain "$rust_version" rustc)")/..")
  triple=$rust_version-$(rustc -vV | sed -n 's/^host: //p')
  rm -rf "$work/rust"
  to=$work/rust/usr/local
  install -d "$to/rustup/toolchains/$triple" "$to/cargo/bin"
  for program in bin lib; do
    cp -al "$toolchain/$program" "$to/rustup/toolchains/$triple/" 2> /dev/null ||
      cp -a "$toolchain/$program" "$to/rustup/toolchains/$triple/"
  done
  cp -L "$(command -v rustup)" "$to/cargo/bin/rustup"
  for program in cargo rustc rustdoc rustfmt cargo-fmt; do ln -s rustup "$to/cargo/bin/$program"; done
  printf 'version = "12"\ndefault_toolchain = "%s"\nprofile = "minimal"\n' "$triple" > "$to/rustup/settings.toml"

  # The stage `cargo-pgrx`: this machine's own, which scripts/setup has put there.
  # shellcheck disable=SC2154 # env.sh's
  [ "$(cargo pgrx --version)" = "cargo-pgrx $pgrx_version" ] || die "cargo-pgrx $pgrx_version is missing: scripts/setup"
  install -d "$work/cargo-pgrx/opt/cargo-pgrx/bin"
  cmp -s "$(command -v cargo-pgrx)" "$work/cargo-pgrx/opt/cargo-pgrx/bin/cargo-pgrx" ||
    cp -L "$(command -v cargo-pgrx)" "$work/cargo-pgrx/opt/cargo-pgrx/bin/"
  stand_ins=(
    --build-context "$from_postgres=container-image://$stand_in_postgres"
    --build-context "rust=$work/rust"
    --build-context "cargo-pgrx=$work/cargo-pgrx"
  )
}

# The Dockerfile as it is. IMAGE_BUILD_ARGS: more for the build, such as --secret id=cargo-config,src=FILE.
build_image() {
  local arguments=() ca=/etc/ssl/certs/ca-certificates.crt
  make_stand_ins
  if [ -e "$ca" ]; then arguments+=(--secret "id=ca,src=$ca"); fi
  # shellcheck disable=SC2206 # words are meant
  arguments+=(${IMAGE_BUILD_ARGS:-})
  say "building the image with $engine"
  build build.log ${stand_ins[@]+"${stand_ins[@]}"} ${arguments[@]+"${arguments[@]}"} --tag "$image" "$root"
}

# Lets go of what builds leave mounted: a stage that another one reads stays so, and all of an interrupted build.
engine_rest() {
  if [ "$engine" = podman ] && have buildah; then
    buildah rm --all > /dev/null 2>&1 || :
    umount "$work/storage/overlay" 2> /dev/null || :
  fi
}

# Takes all of it away. But for Docker's images and its builder's cache nothing of it lies outside the checkout.
engine_clean() {
  if [ "$engine" = docker ]; then docker image rm --force "$image" "$previous" > /dev/null 2>&1 || :; fi
  if [ "$engine" = podman ] && have podman && [ -e "$work/storage" ]; then
    podman rm --force --all --volumes > /dev/null
    podman volume rm --force --all > /dev/null
    engine_rest
  fi
  rm -rf --one-file-system "$work"
}
