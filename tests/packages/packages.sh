#!/bin/bash
# The Debian packages as somebody would use them: built, judged by lintian and systemd-analyze, then
# installed, run, upgraded with its store and with one that an earlier program wrote (store-1.sql), removed
# and purged in a chroot of Debian 12 (mmdebstrap, as root). And the archives: the tarball runs, the bundle's manifest and server.json are as their
# schemas ask.
#
# usage: packages.sh ROOT WORK      Each check prints "ok NAME"; ends with "N passed, M failed".
set -uo pipefail
root=$(cd "$1" && pwd)
mkdir -p "$2"
work=$(cd "$2" && pwd)
chroot=$work/chroot
passed=0 failed=0

check() { # NAME COMMAND…: prints what it said when it fails
    local name=$1 out
    shift
    if out=$("$@" 2>&1); then
        echo "ok $name"
        passed=$((passed + 1))
    else
        echo "not ok $name"
        printf '%s\n' "$out" | tail -n 40 | sed 's/^/    /'
        failed=$((failed + 1))
    fi
}
finish() {
    echo "$passed passed, $failed failed"
    [ "$failed" -eq 0 ]
    exit
}

# ---- building, and what others say of it --------------------------------------------------------

build() {
    rm -rf "$work/debs"
    "$root/tools/build-deb" "$work/debs" >"$work/build.log" 2>&1 || { tail -n 40 "$work/build.log"; return 1; }
}
judge() { # Warnings and errors are failures, but for one about uploads to Debian's own archive.
    local said
    said=$(lintian --allow-root --suppress-tags initial-upload-closes-no-bugs --fail-on error,warning --tag-display-limit 0 "$work"/debs/*.changes 2>&1) || { echo "$said"; return 1; }
}
exposure() {
    local level
    level=$(systemd-analyze security --offline=true "$root/contrib/systemd/tidings.service" 2>&1 |
        sed -n 's/.*Overall exposure level for tidings.service: \([0-9.]*\).*/\1/p')
    echo "exposure level '$level', wanted: below 2.0"
    awk -v l="$level" 'BEGIN { exit !(l != "" && l < 2.0) }'
}
units_are_well_formed() {
    # What the unit runs is not installed here.
    ! systemd-analyze verify --man=no "$root"/contrib/systemd/tidings.{service,socket} 2>&1 |
        grep -v -e 'not executable' -e 'is not installed' | grep tidings
}
logrotate_takes_it() {
    sed "s/_tidings _tidings/$(id -un) $(id -gn)/" "$root/contrib/logrotate/tidings" >"$work/logrotate.conf"
    chmod 644 "$work/logrotate.conf"
    logrotate --debug --state "$work/logrotate.state" "$work/logrotate.conf" 2>&1 | tee /dev/stderr | grep -q error && return 1
    return 0
}

check 'the packages are built' build
[ $failed -eq 0 ] || finish
check 'lintian has nothing to complain of' judge
check 'the unit is exposed less than 2.0' exposure
check 'the units are well formed' units_are_well_formed
check 'logrotate takes its configuration' logrotate_takes_it

# ---- in a chroot --------------------------------------------------------------------------------

make_chroot() {
    rm -rf "$chroot"
    mmdebstrap --variant=apt --include=adduser,libsqlite3-0,libssl3,curl bookworm "$chroot" >"$work/chroot.log" 2>&1 ||
        { tail -n 20 "$work/chroot.log"; return 1; }
    mkdir -p "$chroot/debs"
    cp "$work"/debs/*.deb "$chroot/debs/"
}
inside() { chroot "$chroot" env PATH=/usr/sbin:/usr/bin:/sbin:/bin DEBIAN_FRONTEND=noninteractive "$@"; }
is_there() { [ -e "$chroot/$1" ] || { echo "no $1"; return 1; }; }
is_gone() { [ ! -e "$chroot/$1" ] || { echo "$1 is still there"; return 1; }; }

install_all() {
    inside sh -c 'dpkg -i /debs/libtidings0_*.deb /debs/libtidings-dev_*.deb /debs/tidings_*.deb' &&
        is_there usr/bin/tidings && is_there etc/tidings/tidings.json && is_there usr/lib/systemd/system/tidings.service &&
        is_there usr/lib/systemd/system/tidings.socket && is_there etc/logrotate.d/tidings &&
        is_there usr/share/tidings/prometheus/tidings.rules.yml && is_there usr/share/tidings/grafana/tidings.json &&
        is_there usr/share/doc/tidings/docs/how-to/monitor.md && is_there usr/share/doc/tidings/README.md &&
        is_there usr/share/bash-completion/completions/tidings && is_there usr/share/man/man1/tidings.1.gz &&
        is_there usr/share/man/man3/libtidings.3.gz && inside getent passwd _tidings &&
        [ "$(stat -c %U:%a "$chroot/var/lib/tidings")" = "$(inside id -u _tidings | xargs -I{} stat -c %U "$chroot/var/lib/tidings"):750" ]
}
settings_are_read() {
    inside tidings config --config /etc/tidings/tidings.json | grep '"entities": "/var/lib/tidings/tidings.db"'
}

# serve COMMAND…: the service as its user, as the unit starts it, while COMMAND runs.
serve() {
    local pid status=1 i
    inside setpriv --reuid _tidings --regid _tidings --clear-groups env ${hidden:+LD_LIBRARY_PATH="$hidden"} \
        tidings serve --config /etc/tidings/tidings.json --http 127.0.0.1:17941 --publish app:/// --allow-write --log-age 0 2>"$work/serve.log" &
    pid=$!
    for i in $(seq 100); do
        grep -q 'serving on' "$work/serve.log" && break
        kill -0 $pid 2>/dev/null || break
        sleep 0.1
    done
    if grep -q 'serving on' "$work/serve.log"; then
        "$@"
        status=$?
    fi
    pkill -TERM -P $pid tidings 2>/dev/null || kill -TERM $pid 2>/dev/null
    wait $pid
    [ $status -eq 0 ] || cat "$work/serve.log"
    return $status
}
url=http://127.0.0.1:17941/mcp
writes() {
    inside env TIDINGS_SERVER=$url tidings entity add-type User@1 '{"type": "object"}' &&
        inside env TIDINGS_SERVER=$url tidings entity put User@1/ann '{"age": 7}'
}
reads() { inside env TIDINGS_SERVER=$url tidings entity get User@1/ann | tee /dev/stderr | grep -q '"age": 7'; }

# The same with libraries of recommended packages hidden: an empty file in place of each.
bare_serve() {
    local lib
    mkdir -p "$chroot/hidden"
    for lib in libssl.so.3 libcrypto.so.3 libcurl.so.4 libcurl-gnutls.so.4 liburing.so.2 libwslay.so.1 libpq.so.5; do
        : >"$chroot/hidden/$lib"
    done
    hidden=/hidden serve inside env LD_LIBRARY_PATH=/hidden tidings version
}

# In place of its store one of an earlier layout, as whoever upgrades from that time has it.
store=$chroot/var/lib/tidings/tidings.db
older_store() {
    mv "$store" "$store.own" && rm -f "$store"-wal "$store"-shm && sqlite3 "$store" <"$root/tests/packages/store-1.sql" >/dev/null &&
        chown --reference="$store.own" "$store" && chmod --reference="$store.own" "$store"
}
own_store() { rm -f "$store"-wal "$store"-shm && mv "$store.own" "$store"; }
said() { printf '%s\n' "$1" | grep -q "$2" || { echo "no '$2' in: $1"; return 1; }; }
# Entities with their history, what was published, and what a cursor from before has to be told, once and without a gap.
older_reads() {
    local log told
    log=$(inside env TIDINGS_SERVER=$url tidings entity log User@1/ann) || return 1
    told=$(inside env TIDINGS_SERVER=$url tidings watch --json --since ecae35c08e1ab671.7.4 -n 3 --timeout 20s 'entity:///User@1/' 'app:///**') || return 1
    said "$(inside env TIDINGS_SERVER=$url tidings entity get User@1/ann)" '"age": 7' && said "$log" '{"age":6}' && said "$log" '{"age":7}' &&
        ! inside env TIDINGS_SERVER=$url tidings entity get User@1/bob 2>/dev/null &&
        said "$(inside env TIDINGS_SERVER=$url tidings read app:///note)" '^again$' &&
        said "$told" '"change":"updated","uri":"entity:///User@1/ann"' && said "$told" '"change":"deleted","uri":"entity:///User@1/bob"' &&
        said "$told" '"change":"updated","uri":"app:///note"' && ! printf '%s' "$told" | grep truncated &&
        inside env TIDINGS_SERVER=$url tidings entity put User@1/ann '{"age": 8}'
}

# The same packages with a higher version, as the next one will be.
next_version() {
    local deb dir version=0.1.0-2
    mkdir -p "$chroot/next"
    for deb in "$work"/debs/tidings_*.deb "$work"/debs/libtidings0_*.deb "$work"/debs/libtidings-dev_*.deb; do
        dir=$work/repack
        rm -rf "$dir"
        dpkg-deb -R "$deb" "$dir" &&
            sed -i -e "s/^Version: .*/Version: $version/" -e "s/libtidings0 (= [^)]*)/libtidings0 (= $version)/" "$dir/DEBIAN/control" &&
            dpkg-deb --root-owner-group -b "$dir" "$chroot/next/" >/dev/null || return 1
    done
}
upgrade() {
    echo '// mine' >>"$chroot/etc/tidings/tidings.json"
    next_version && inside sh -c 'dpkg -i /next/*.deb' &&
        inside dpkg-query -W -f '${Version}' tidings | grep -x 0.1.0-2 && grep -q '// mine' "$chroot/etc/tidings/tidings.json"
}
remove() {
    inside dpkg -r tidings libtidings-dev libtidings0 && is_gone usr/bin/tidings && is_there etc/tidings/tidings.json &&
        is_there var/lib/tidings/tidings.db
}
purge() {
    inside dpkg -P tidings && is_gone etc/tidings && is_gone var/lib/tidings && is_gone var/log/tidings
}

if [ "$(id -u)" -ne 0 ] || ! command -v mmdebstrap >/dev/null || ! command -v sqlite3 >/dev/null; then
    echo "left out: a chroot needs root, mmdebstrap and sqlite3"
else
    check 'a chroot of Debian 12' make_chroot
    check 'installed, with everything in its place' install_all
    check 'the settings of the service are read' settings_are_read
    check 'the service starts without what the package recommends' bare_serve
    check 'the service keeps what is written' serve writes
    check 'a store that an earlier program wrote is there' older_store
    check 'upgraded, with the settings that were changed' upgrade
    check 'that store is brought up to date: entities, history, what was published, cursors' serve older_reads
    check 'the own store again' own_store
    check 'the store of the version before is read' serve reads
    check 'removed, but for settings and store' remove
    check 'purged' purge
    rm -rf "$chroot"
fi

# ---- archives -----------------------------------------------------------------------------------

archives() { rm -rf "$work/archives" && "$root/tools/build-archives" "$work/archives"; }
tarball_runs() {
    rm -rf "$work/unpacked" && mkdir "$work/unpacked" && tar -C "$work/unpacked" -xzf "$work"/archives/*.tar.gz &&
        "$work"/unpacked/*/bin/tidings version &&
        # Nothing but libc is needed to start.
        [ -z "$(ldd "$work"/unpacked/*/bin/tidings | grep -v -e linux-vdso -e 'libc\.so' -e ld-linux)" ]
}
check 'archives are made' archives
check 'the tarball runs, and needs libc alone' tarball_runs
finish
