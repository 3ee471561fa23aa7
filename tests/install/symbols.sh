#!/bin/sh
# Only `tidings_*` may be visible to whoever links the library: every other global symbol could
# clash with one of theirs.
#
# usage: symbols.sh NM libtidings.so libtidings.a
set -eu
nm=$1 shared=$2 archive=$3
failed=0

# judge WHAT SYMBOLS
judge() {
    ours=$(printf '%s\n' "$2" | grep -c '^tidings_' || true)
    foreign=$(printf '%s\n' "$2" | grep -v '^tidings_' | grep . || true)
    if [ -n "$foreign" ]; then
        echo "$1 exports names that are not tidings_*:" "$(printf '%s\n' "$foreign" | head -20)" >&2
        failed=1
    fi
    if [ "$ours" -eq 0 ]; then
        echo "$1 exports no tidings_* function at all" >&2
        failed=1
    fi
    echo "$1: $ours public symbols"
}

judge "$shared" "$("$nm" -D --defined-only --format=posix "$shared" | cut -d' ' -f1)"
judge "$archive" "$("$nm" -g --defined-only --format=posix "$archive" | grep ' ' | cut -d' ' -f1)"
exit $failed
