#!/bin/sh
# Installs into the build tree and builds a small program the ways an embedder would: pkg-config with
# the shared library, with the archive and with a checkout, find_package with both; every example, as in
# docs/how-to/embed-a-server.md; a program of the C++ header, which is run; and takes it all away again.
#
# usage: install.sh CMAKE BUILD_DIR CC
set -eu
cmake=$1 build=$2 cc=$3
here=$(cd "$(dirname "$0")" && pwd)
work=$build/install-test
prefix=$work/prefix
rm -rf "$work"
mkdir -p "$work"

"$cmake" --install "$build" --prefix "$prefix" >"$work/install.log" ||
    { cat "$work/install.log" >&2; exit 1; }
pc=$(find "$prefix" -name tidings.pc)
libdir=$(dirname "$(dirname "$pc")")
PKG_CONFIG_PATH=$(dirname "$pc")
export PKG_CONFIG_PATH

# expect_version COMMAND…
expect_version() {
    want=$(pkg-config --modversion tidings)
    got=$("$@") || { echo "'$*' failed" >&2; exit 1; }
    [ "$got" = "$want" ] || { echo "'$*' says '$got' instead of '$want'" >&2; exit 1; }
}

# shellcheck disable=SC2046  # pkg-config prints words
"$cc" -o "$work/shared" "$here/consumer/main.c" $(pkg-config --cflags --libs tidings)
expect_version env LD_LIBRARY_PATH="$libdir" "$work/shared"
echo "pkg-config, shared: ok"

# shellcheck disable=SC2046
"$cc" -o "$work/static" "$here/consumer/main.c" $(pkg-config --cflags tidings) \
    $(pkg-config --static --libs tidings | sed 's/-ltidings/-l:libtidings.a/')
expect_version "$work/static"
echo "pkg-config, static: ok"

for source in "$here"/../../examples/*.c; do
    needs=tidings
    more=
    case ${source##*/} in
    embed_libuv.c) needs='tidings libuv' ;;
    conformance.c) more="${source%.c}_tasks.c ${source%.c}_skills.c" ;;
    conformance_*.c) continue ;; # parts of the one before
    esac
    # shellcheck disable=SC2046,SC2086
    "$cc" -o "$work/example" "$source" $more $(pkg-config --cflags --libs $needs)
done
echo "examples: ok"

# The C++ header, where there is a compiler for it.
cxx=$(command -v c++ || command -v g++ || command -v clang++ || :)
if [ -n "$cxx" ]; then
    for source in "$here/consumer/wrapper.cpp" "$here/../../examples/hello.cpp"; do
        # shellcheck disable=SC2046
        "$cxx" -std=c++17 -pthread -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Werror \
            -o "$work/$(basename "$source" .cpp)" "$source" $(pkg-config --cflags --libs tidings)
    done
    expect_version env LD_LIBRARY_PATH="$libdir" "$work/wrapper"
    LD_LIBRARY_PATH=$libdir "$work/hello" --version >/dev/null
    echo "C++: ok"
fi

"$cmake" -G Ninja -S "$here/consumer" -B "$work/consumer" -DCMAKE_PREFIX_PATH="$prefix" \
    -DCMAKE_C_COMPILER="$cc" >"$work/consumer.log" 2>&1 &&
    "$cmake" --build "$work/consumer" >>"$work/consumer.log" 2>&1 ||
    { cat "$work/consumer.log" >&2; exit 1; }
expect_version "$work/consumer/with_shared"
expect_version "$work/consumer/with_static"
echo "find_package, both: ok"

if [ -x "$build/tidings" ]; then
    [ -x "$prefix/bin/tidings" ] || { echo "the program was not installed" >&2; exit 1; }
    "$prefix/bin/tidings" --version >/dev/null
    for file in bash-completion/completions/tidings zsh/site-functions/_tidings \
        fish/vendor_completions.d/tidings.fish; do
        [ -s "$prefix/share/$file" ] || { echo "share/$file was not installed" >&2; exit 1; }
    done
    for page in man1/tidings.1 man1/tidings-serve.1 man5/tidings.conf.5 man3/libtidings.3 \
        man3/tidings_changed.3 man3/tidings-server.3; do
        [ -s "$prefix/share/man/$page" ] || { echo "the manual page $page was not installed" >&2; exit 1; }
    done
    echo "program: ok"
fi

grep -q "ldconfig.*-Wl,-rpath,$libdir" "$work/install.log" ||
    { echo "installing does not say how the loader finds the library" >&2; exit 1; }

# Against the checkout, without installing: as README.md has it.
# shellcheck disable=SC2046
PKG_CONFIG_PATH=$build "$cc" -o "$work/checkout" "$here/consumer/main.c" \
    $(PKG_CONFIG_PATH=$build pkg-config --cflags --libs tidings)
PKG_CONFIG_PATH=$build expect_version "$work/checkout"
echo "checkout: ok"

cp "$build/install_manifest.txt" "$work/manifest"
said=$("$here/../../tools/uninstall" "$work/manifest")
case $said in *" files of $prefix removed") ;; *) echo "uninstalling says '$said'" >&2; exit 1 ;; esac
[ ! -e "$prefix" ] ||
    { echo "uninstalling left this behind:" >&2; find "$prefix" >&2; exit 1; }
! "$here/../../tools/uninstall" "$work/manifest" 2>/dev/null ||
    { echo "uninstalling twice is no failure" >&2; exit 1; }
echo "uninstall: ok"

# `make install PREFIX=…`, which a word of the command line reaches; and what includes us installs
# only what is its own.
make -C "$here/../.." -n install PREFIX=/opt/x | grep -q -e '--install build/release --prefix "/opt/x"' ||
    { echo "make install does not know PREFIX" >&2; exit 1; }
mkdir "$work/host"
cat >"$work/host/CMakeLists.txt" <<END
cmake_minimum_required(VERSION 3.25)
project(host LANGUAGES C)
add_subdirectory("$here/../.." tidings)
install(FILES CMakeLists.txt DESTINATION share/host)
END
"$cmake" -G Ninja -S "$work/host" -B "$work/host/build" -DCMAKE_C_COMPILER="$cc" >"$work/host.log" 2>&1 ||
    { cat "$work/host.log" >&2; exit 1; }
"$cmake" --install "$work/host/build" --prefix "$work/host/prefix" >"$work/host.log" 2>&1 ||
    { cat "$work/host.log" >&2; exit 1; }
[ "$(cd "$work/host/prefix" && find . -type f)" = ./share/host/CMakeLists.txt ] ||
    { echo "what includes us installs more than its own" >&2; exit 1; }
echo "add_subdirectory: ok"
