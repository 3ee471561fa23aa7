#!/bin/sh
# Each public header, alone and twice, compiles without a warning as C99 and as C++11: an embedder
# may include any of them first, from either language, without our build's definitions.
#
# usage: check.sh INCLUDE_DIR CC [CXX]
set -eu
include=$1 cc=$2 cxx=${3:-}
flags='-Wall -Wextra -Wpedantic -Wundef -Werror -fsyntax-only'
failed=0 count=0

# compile LANGUAGE COMPILER STANDARD HEADER [EXTRA_FLAGS]
compile() {
    count=$((count + 1))
    # shellcheck disable=SC2086  # flags are words
    if ! printf '#include <%s>\n#include <%s>\nextern int seen;\n' "$4" "$4" |
        "$2" -x "$1" -std="$3" $flags ${5:-} -I"$include" -; then
        echo "$4 does not compile as $3" >&2
        failed=$((failed + 1))
    fi
}

for path in "$include"/tidings/*.h; do
    header=${path#"$include"/}
    compile c "$cc" c99 "$header" '-Wstrict-prototypes -Wshadow'
    if [ -n "$cxx" ]; then
        compile c++ "$cxx" c++11 "$header" -Wshadow
    fi
    # A C function seen by C++ needs its C linkage said.
    if grep -q 'TIDINGS_API' "$path" && ! grep -q 'extern "C"' "$path"; then
        echo "$header declares functions without extern \"C\"" >&2
        failed=$((failed + 1))
    fi
done
echo "$count compilations, $failed failed"
[ "$count" -gt 0 ] && [ "$failed" -eq 0 ]
