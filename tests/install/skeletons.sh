#!/bin/sh
# What tools/new-provider and tools/new-test create compiles with our warnings, passes the gates and
# its own tests. They run in a copy of the tree; the new files are compiled and linked as BUILD_DIR
# does it with other files beside them.
#
# usage: skeletons.sh ROOT BUILD_DIR
set -eu
root=$1 build=$2
[ -e "$build/build.ninja" ] || { echo 'skipped: not a build of ninja'; exit 77; }
copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
mkdir "$copy/tests"
cp -R "$root/src" "$root/include" "$root/tools" "$root/.clang-format" "$copy/"
cp -R "$root/tests/unit" "$root/tests/support" "$root/tests/programs.cmake" "$copy/tests/"

refused() {
    if "$@" >"$copy/out" 2>&1; then
        echo "'$*' was not refused"
        exit 1
    fi
}

cd "$copy"
tools/new-provider sample
tools/new-test base/sample_sum
tools/new-test formats/sample_word
refused tools/new-provider sample
refused tools/new-provider Sample-2
refused tools/new-test base/sample_sum
refused tools/new-test base/../sample
refused tools/new-test nowhere/sample
refused tools/new-test sample
for gate in layers modules files rules; do
    tools/check-$gate .
done
mkdir -p new/src new/tests
cp .clang-format new/
cp src/sources/sample.? new/src/
cp tests/unit/*/test_sample* new/tests/
tools/check-format new || [ $? -eq 77 ]

# The command that makes OUTPUT, with some words replaced, and with the copy for the tree.
run_like() {
    output=$1
    shift
    (cd "$build" && ninja -t commands "$output") | tail -n 1 |
        sed -e "s| $root/| $copy/|g; s|-I$root/|-I$copy/|g" "$@" >"$copy/command"
    (cd "$build" && sh "$copy/command")
}
compile() { # compile OUTPUT LIKE NEW
    run_like "$1" -e "s|/$2\\.c|/$3.c|g; s| -o [^ ]*| -o $copy/${3##*/}.o|; s| -M[DTF]* [^ ]*\\.o[.d]*||g; s| -MD||"
    [ -s "$copy/${3##*/}.o" ] || { echo "src or tests/$3.c was not compiled"; exit 1; }
}
units=tests/CMakeFiles/unit_sources_command.dir/unit/sources/test_command.c.o
compile src/CMakeFiles/layer_sources.dir/sources/command.c.o sources/command sources/sample
compile src/CMakeFiles/layer_server.dir/server/setup.c.o server/setup server/setup
compile $units sources/test_command sources/test_sample
run_like tests/unit_sources_command -e "s|$units|$copy/test_sample.o $copy/sample.o|; s| -o [^ ]*| -o $copy/test_sample|"
"$copy/test_sample"
units=tests/CMakeFiles/unit_base_str.dir/unit/base/test_str.c.o
compile $units base/test_str base/test_sample_sum
run_like tests/unit_base_str -e "s|$units|$copy/test_sample_sum.o|; s| -o [^ ]*| -o $copy/test_sample_sum|"
"$copy/test_sample_sum"
