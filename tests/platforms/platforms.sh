#!/bin/bash
# Other platforms: builds the program with Debian's musl toolchain and serves a file with it; builds everything for
# arm64 in a chroot (mmdebstrap, as root) and runs the unit tests under qemu-user.
#
# qemu-user comes from Debian's backports: version 7.2 of Debian 12 lacks openat2, which serving files needs.
#
# usage: platforms.sh ROOT WORK      Each check prints "ok NAME"; ends with "N passed, M failed".
set -uo pipefail
root=$(cd "$1" && pwd)
mkdir -p "$2"
work=$(cd "$2" && pwd)
chroot=$work/arm64
jobs=${TIDINGS_JOBS:-2}
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

# ---- musl ---------------------------------------------------------------------------------------

# Headers of libraries that are loaded at run time come from the system, behind those of musl.
build_musl() {
    local said
    cmake -S "$root" -B "$work/musl" -G Ninja -DCMAKE_C_COMPILER=musl-gcc -DCMAKE_BUILD_TYPE=RelWithDebInfo \
        -DTIDINGS_TESTS=OFF -DTIDINGS_BENCH=OFF -DTIDINGS_EXAMPLES=OFF -DTIDINGS_WERROR=ON \
        -DCMAKE_C_FLAGS="-idirafter /usr/include -idirafter /usr/include/$(uname -m)-linux-gnu" &&
        ninja -C "$work/musl" -j "$jobs" tidings &&
        said=$(readelf -l "$work/musl/tidings") && grep ld-musl <<<"$said"
}

# musl cannot load the system's libcurl, so clients are curl, and the program itself over pipes.
reads() { # from a server that confines itself
    local pid status=1 line
    rm -rf "$work/served" "$work/said"
    mkdir -p "$work/served"
    echo one >"$work/served/a.txt"
    mkfifo "$work/said"
    "$work/musl/tidings" serve --http 127.0.0.1:0 --no-config "$work/served" >"$work/said" 2>&1 &
    pid=$!
    exec 3<"$work/said"
    while read -r -t 30 line <&3; do
        echo "$line"
        case $line in
        *'serving on'*)
            curl -sS "${line##*serving on }" -o /dev/null &&
                [ "$(curl -sS "${line##*serving on }/../resource?uri=file://$work/served/a.txt")" = one ]
            status=$?
            break
            ;;
        esac
    done
    kill "$pid" && wait "$pid" || status=1
    exec 3<&-
    return $status
}
watches() { # the subscription exists before the file changes
    local line pid
    rm -f "$work/watched"
    mkfifo "$work/watched"
    "$work/musl/tidings" watch -v -n 1 "file://$work/served/" -- \
        "$work/musl/tidings" serve --stdio --no-config "$work/served" >"$work/watched" 2>&1 &
    pid=$!
    exec 4<"$work/watched"
    while read -r -t 30 line <&4; do
        echo "$line"
        case $line in
        *watching*) echo two >"$work/served/b.txt" ;;
        *b.txt*) break ;;
        esac
    done
    exec 4<&-
    wait "$pid"
}
says_why() { # whichever strerror there is
    local said
    said=$("$work/musl/tidings" serve "$work/none" 2>&1)
    echo "$said"
    grep '^tidings serve: .*No such file or directory' <<<"$said"
}

check 'musl: the program builds without warnings' build_musl
check 'musl: a file is read' reads
check 'musl: a change is reported' watches
check 'musl: an error says why' says_why

# ---- arm64 --------------------------------------------------------------------------------------

libraries='libpcre2-dev liburing-dev libwslay-dev libsqlite3-dev libpq-dev libssl-dev libcurl4-openssl-dev
    libcmocka-dev libjansson-dev libhttp-parser-dev libuv1-dev'

make_chroot() {
    local include
    include=cmake,ninja-build,gcc-aarch64-linux-gnu,libc6-dev-arm64-cross,pkg-config,shared-mime-info
    for name in $libraries; do include+=,$name:arm64; done
    rm -rf "$chroot"
    mmdebstrap --variant=apt --architectures=amd64,arm64 --include="$include" bookworm "$chroot" || return 1
    # The same mirror that mmdebstrap used.
    sed -n '/ bookworm main/s/ bookworm / bookworm-backports /p' "$chroot/etc/apt/sources.list" \
        >"$chroot/etc/apt/sources.list.d/backports.list"
    inside sh -c 'apt-get update -q && apt-get install -y -q --no-install-recommends -t bookworm-backports qemu-user'
}
inside() { # tests look at /proc; the namespaces end with the command
    unshare --mount --pid --fork sh -c 'mount -t proc proc "$0/proc" && mount --rbind /dev "$0/dev" && exec chroot "$0" "$@"' \
        "$chroot" env -u TIDINGS_DATA -u CMAKE_C_COMPILER_LAUNCHER -u CMAKE_CXX_COMPILER_LAUNCHER PATH=/usr/sbin:/usr/bin:/sbin:/bin DEBIAN_FRONTEND=noninteractive "$@"
}
build_arm64() {
    mkdir -p "$chroot/src"
    (cd "$root" && git ls-files -z --cached --others --exclude-standard | tar --null -T - -cf -) | tar -xf - -C "$chroot/src"
    inside env PKG_CONFIG_LIBDIR=/usr/lib/aarch64-linux-gnu/pkgconfig:/usr/share/pkgconfig \
        cmake -S /src -B /build -G Ninja -DCMAKE_SYSTEM_NAME=Linux -DCMAKE_SYSTEM_PROCESSOR=aarch64 \
        -DCMAKE_C_COMPILER=aarch64-linux-gnu-gcc -DCMAKE_CROSSCOMPILING_EMULATOR=/usr/bin/qemu-aarch64 \
        -DCMAKE_BUILD_TYPE=Debug -DTIDINGS_BENCH=OFF -DTIDINGS_WERROR=ON &&
        inside ninja -C /build -j "$jobs" src/all unit
}
# Emulated, everything takes ten times as long.
test_arm64() {
    inside env TIDINGS_SLOW=1 ctest --test-dir /build -L '^unit$' -j $((2 * jobs)) --timeout 1500 --output-on-failure \
        --no-tests=error
}

check 'arm64: the chroot is made' make_chroot
if [ -x "$chroot/usr/bin/qemu-aarch64" ]; then
    check 'arm64: everything builds without warnings' build_arm64
    check 'arm64: the unit tests pass under qemu-user' test_arm64
fi

echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
