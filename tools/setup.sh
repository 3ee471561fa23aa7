# shellcheck shell=sh disable=SC2034
# What ./run and ./test share (sourced, POSIX sh): Debian packages and builds. Nothing is done, and
# nothing is asked of the network, when all is there. Elsewhere than on Debian no package is looked
# for: cmake then says what is missing.

# need_packages NAME…: installs those that are missing. `a|b` means either; a is installed. Returns
# 0 and sets `installed` to what was added.
need_packages() {
    installed=
    command -v dpkg-query >/dev/null || return 0
    present=" $(dpkg-query -W -f '${Package} ${db:Status-Status}\n' 2>/dev/null |
        sed -n 's/ installed$//p' | tr '\n' ' ')"
    for wanted; do
        found=
        for name in $(echo "$wanted" | tr '|' ' '); do
            case $present in *" $name "*) found=yes ;; esac
        done
        [ -n "$found" ] || installed="$installed ${wanted%%|*}"
    done
    [ -n "$installed" ] || return 0

    if [ "$(id -u)" = 0 ]; then
        as_root="env"
    elif command -v sudo >/dev/null; then
        as_root='sudo env'
    else
        echo "these packages are missing; install them as root, then try again:" >&2
        echo "    apt-get install$installed" >&2
        return 1
    fi
    echo "installing$installed" >&2
    mkdir -p build
    # shellcheck disable=SC2086  # lists of words
    if ! {
        $as_root DEBIAN_FRONTEND=noninteractive apt-get update -q &&
            $as_root DEBIAN_FRONTEND=noninteractive apt-get install -q -y \
                --no-install-recommends $installed
    } >build/packages.log 2>&1 </dev/null; then
        tail -n 15 build/packages.log >&2
        echo "the packages could not be installed (whole log: build/packages.log)" >&2
        return 1
    fi
}

# What building needs.
build_packages='cmake ninja-build gcc libc6-dev pkg-config|pkgconf
    libpcre2-dev liburing-dev libwslay-dev libsqlite3-dev libpq-dev libssl-dev
    libcurl4-openssl-dev|libcurl4-gnutls-dev shared-mime-info'
# What the tests need besides (npm is asked for separately: it may come from elsewhere). Of the servers
# among them tests start their own, in directories of their own; they leave out what is not there.
test_packages='g++ libcmocka-dev libjansson-dev clang clang-tidy clang-format libclang-rt-14-dev
    libhttp-parser-dev libuv1-dev openssl scdoc procps iproute2 curl zsh fish chromium
    postgresql-15 haproxy nginx caddy libnginx-mod-nchan redis-server prometheus'

# What building and trying the Debian packages needs besides.
packaging_packages='debhelper dpkg-dev fakeroot lintian mmdebstrap logrotate systemd'

# What building for other platforms needs besides.
platform_packages='musl-tools mmdebstrap'

# build_preset PRESET [WORD…]: configures when that was never done, or when presets or packages
# changed since; then builds, the words going to ninja.
build_preset() {
    preset=$1
    shift
    stamp=build/$preset/configured.stamp
    if [ -n "${installed-}" ] || [ ! -e "$stamp" ] || [ -n "$(find CMakePresets.json -newer "$stamp")" ]
    then
        cmake --preset "$preset" || return 1
        : >"$stamp"
    fi
    ninja -C "build/$preset" "$@"
}
