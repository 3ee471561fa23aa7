/* SPDX-License-Identifier: MIT
 *
 * Reading and writing instants, and when a new version begins.
 */
#include "store/timeline.h"

#include "base/clock.h"
#include "base/instant.h"
#include "base/str.h"

int timeline_parse(struct tidings_str text, int64_t *ret_ms, struct tidings_error *err)
{
    struct instant i;
    if (!instant_parse(text, &i) || !i.has_seconds || !i.has_offset || i.has_space ||
        i.nanosecond % 1000000 != 0) { /* cutting it off would name another instant */
        return tidings_fail(err, TIDINGS_E_INVALID,
                            "'%.*s' is not a time like 2024-01-01T10:00:00.000Z (milliseconds at "
                            "most, with Z or an offset)",
                            STR_ARG_MAX(text, 64));
    }
    int64_t at = i.second * 1000 + i.nanosecond / 1000000;
    if (at >= TIMELINE_FOREVER || at < -INT64_C(62167219200000)) {
        return tidings_fail(err, TIDINGS_E_INVALID,
                            "'%.*s' lies outside the years 0000 to 9998 in UTC", STR_ARG(text));
    }
    *ret_ms = at;
    return 0;
}

struct tidings_str timeline_text(int64_t ms, char out[TIMELINE_TEXT])
{
    clock_format_iso(ms, out);
    return tidings_strn(out, TIMELINE_TEXT - 1);
}

int timeline_next(int64_t newest, int64_t wanted, int64_t *ret_ms, struct tidings_error *err)
{
    int64_t next = newest != TIMELINE_NEVER && newest >= wanted ? newest + 1 : wanted;
    if (next >= TIMELINE_FOREVER) {
        return tidings_fail(err, TIDINGS_E_LIMIT, "no version can begin after the year 9998");
    }
    *ret_ms = next;
    return 0;
}
