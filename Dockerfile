# PostgreSQL 17 with pgvector, pgmq and hfs_lite: the database of an application's stack. See docs/image.md.
#   docker build --tag hfs-lite-db .
# A certificate bundle or a cargo configuration that the network asks for is handed in, and stays in no layer:
#   docker build --secret id=ca,src=FILE --secret id=cargo-config,src=FILE --tag hfs-lite-db .

# rust:1.95-trixie of April 2026, as public repositories cite it. See docs/image.md, "Before a release".
FROM docker.io/library/rust:1.95-trixie@sha256:f49565f188ee00bc2a18dd418183f2c5f23ef7d6e691890517ed341a598f67c3 AS rust
# The official image has rustup's minimal profile; pgrx runs rustfmt on the bindings that it generates.
RUN --mount=type=secret,id=ca,target=/etc/ssl/certs/ca-certificates.crt rustup component add rustfmt

# postgres:17-trixie of September 2026 (17.11), as public repositories cite it. See docs/image.md, "Before a release".
FROM docker.io/library/postgres:17-trixie@sha256:d74eeac9a635390a49bc21bd49fccd973de707e2a53a76ac49b552b8712ec46f AS pg

# What builds. It stands on the image that it builds for, so that headers and C library are those of the server.
FROM pg AS toolchain
SHELL ["/bin/bash", "-euo", "pipefail", "-c"]
# A package's revision is not pinned: its source drops old ones, and the build would break.
# hadolint ignore=DL3008
RUN apt-get update \
 && apt-get install -y --no-install-recommends \
      ca-certificates cargo-auditable clang gcc libc6-dev libclang-dev libssl-dev pkg-config \
      "postgresql-server-dev-${PG_MAJOR}" \
 && rm -rf /var/lib/apt/lists/*
ENV RUSTUP_HOME=/usr/local/rustup CARGO_HOME=/usr/local/cargo RUSTUP_TOOLCHAIN=1.95.0 PATH=/usr/local/cargo/bin:$PATH
COPY --from=rust /usr/local/rustup /usr/local/rustup
COPY --from=rust /usr/local/cargo /usr/local/cargo

FROM toolchain AS cargo-pgrx
RUN --mount=type=secret,id=ca,target=/etc/ssl/certs/ca-certificates.crt \
    --mount=type=secret,id=cargo-config,target=/usr/local/cargo/config.toml \
    cargo install --quiet --locked --root /opt/cargo-pgrx --version =0.18.1 cargo-pgrx

FROM toolchain AS pgmq
WORKDIR /src/scripts
COPY scripts/install-pgmq ./
COPY scripts/pgmq pgmq
RUN --mount=type=secret,id=ca,target=/etc/ssl/certs/ca-certificates.crt \
    --mount=type=secret,id=cargo-config,target=/usr/local/cargo/config.toml \
    ./install-pgmq "/usr/lib/postgresql/${PG_MAJOR}/bin/pg_config" \
 && install -D -m 644 -t /usr/share/doc/pgmq /usr/local/cargo/registry/src/*/pgmq-0.34.*/LICENSE
# SQL alone belongs to no package that the bill of materials would find.
COPY image/sbom/pgmq.cdx.json /usr/share/doc/pgmq/
RUN control="/usr/share/postgresql/${PG_MAJOR}/extension/pgmq.control" \
 && version="$(sed -n "s/^default_version = '\(.*\)'/\1/p" "$control")" \
 && sed -i "s/@VERSION@/$version/" /usr/share/doc/pgmq/pgmq.cdx.json

FROM toolchain AS build
COPY --from=cargo-pgrx /opt/cargo-pgrx/bin/cargo-pgrx /usr/local/bin/
RUN cargo pgrx init --no-run "--pg${PG_MAJOR}" "/usr/lib/postgresql/${PG_MAJOR}/bin/pg_config"
WORKDIR /src
COPY Cargo.toml Cargo.lock hfs_lite.control ./
COPY sql sql
COPY src src
# Fetched by the lock, then built without the network: cargo-pgrx has no --locked of its own. cargo-auditable notes in
# the library which crates went into it, for the bill of materials.
RUN --mount=type=secret,id=ca,target=/etc/ssl/certs/ca-certificates.crt \
    --mount=type=secret,id=cargo-config,target=/usr/local/cargo/config.toml \
    cargo fetch --quiet --locked \
 && CARGO_NET_OFFLINE=true cargo auditable pgrx package --out-dir /out \
      --pg-config "/usr/lib/postgresql/${PG_MAJOR}/bin/pg_config" --no-default-features --features "pg${PG_MAJOR}"

# All that is shipped, but the bill of materials.
FROM pg AS server
# hadolint ignore=DL3008
RUN apt-get update \
 && apt-get install -y --no-install-recommends "postgresql-${PG_MAJOR}-pgvector" \
 && rm -rf /var/lib/apt/lists/*
COPY --from=pgmq /usr/share/postgresql/${PG_MAJOR}/extension/pgmq* /usr/share/postgresql/${PG_MAJOR}/extension/
COPY --from=pgmq /usr/share/doc/pgmq/ /usr/share/doc/pgmq/
COPY --from=build /out/usr /usr
# For the user postgres, too, whatever umask this was checked out under.
COPY --chmod=755 image/bin/ /usr/local/bin/
COPY --chmod=755 image/lib/ /usr/local/lib/hfs_lite/
COPY --chmod=755 image/initdb/ /docker-entrypoint-initdb.d/
COPY --chmod=644 LICENSE /usr/share/doc/hfs_lite/LICENSE
# initdb makes each new volume's postgresql.conf of it.
RUN cat /usr/local/lib/hfs_lite/postgresql.conf >> "/usr/share/postgresql/${PG_MAJOR}/postgresql.conf.sample"

FROM pg AS sbom
# hadolint ignore=DL3008
RUN apt-get update && apt-get install -y --no-install-recommends python3-pip && rm -rf /var/lib/apt/lists/*
COPY image/sbom/requirements.txt /tmp/
RUN --mount=type=secret,id=ca,target=/etc/ssl/certs/ca-certificates.crt \
    PIP_ROOT_USER_ACTION=ignore pip install --quiet --no-cache-dir --require-hashes --only-binary :all: \
      --target /opt/syft --requirement /tmp/requirements.txt
# Packages, not the thousands of files that they own.
RUN --mount=type=bind,from=server,target=/image \
    PYTHONPATH=/opt/syft SYFT_CHECK_FOR_APP_UPDATE=false \
    SYFT_FILE_METADATA_SELECTION=none SYFT_RELATIONSHIPS_PACKAGE_FILE_OWNERSHIP=false \
    /opt/syft/bin/syft scan --quiet dir:/image --source-name hfs-lite-db --select-catalogers +sbom-cataloger \
      --output spdx-json=/sbom.spdx.json

FROM server
COPY --from=sbom /sbom.spdx.json /usr/share/doc/hfs_lite/sbom.spdx.json
LABEL org.opencontainers.image.title="hfs-lite-db" \
      org.opencontainers.image.description="PostgreSQL 17 with pgvector, pgmq and hfs_lite" \
      org.opencontainers.image.version="0.3.0" \
      org.opencontainers.image.licenses="Apache-2.0 AND PostgreSQL" \
      org.opencontainers.image.base.name="docker.io/library/postgres:17-trixie"
# Fast shutdown: sessions are ended, not waited for, and the next start needs no recovery.
STOPSIGNAL SIGINT
# The long start period is for recovery after a crash; the first success ends it.
HEALTHCHECK --interval=10s --timeout=5s --start-period=10m --retries=3 CMD ["hfs-lite-healthy"]
