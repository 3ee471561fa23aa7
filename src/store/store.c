/* SPDX-License-Identifier: MIT
 *
 * Timelines: parses and formats instants, and computes the start of a new version.
 */
#include "store/store.h"

#include <string.h>

#include "base/str.h"
#include "base/time.h"

/* -------------------------------------------------------------------------------------------------
 * The checksum of a stored version, which detects bytes that changed on disk. Every step is
 * invertible, so a change within one word of eight bytes is always detected; it does not protect
 * against an attacker who writes to the file. It is part of the layouts of stores: another checksum
 * needs new layout versions.
 */

#define MULTIPLIER 0x9E3779B97F4A7C15u

static uint64_t checksum_word(uint64_t checksum, uint64_t word)
{
    checksum = (checksum ^ word) * MULTIPLIER;
    return checksum ^ (checksum >> 32);
}

static uint64_t checksum_bytes(uint64_t checksum, const char *at, size_t len)
{
    uint64_t word = 0;
    memcpy(&word, at, len);
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    word = __builtin_bswap64(word); /* files can be moved to other machines */
#endif
    return checksum_word(checksum, word);
}

static uint64_t checksum_str(uint64_t checksum, struct tidings_str s)
{
    size_t at = 0;
    for (; at + 8 <= s.len; at += 8) {
        checksum = checksum_bytes(checksum, s.ptr + at, 8);
    }
    checksum = at < s.len ? checksum_bytes(checksum, s.ptr + at, s.len - at) : checksum;
    return checksum_word(checksum, s.len);
}

int64_t entity_version_checksum(const struct entity_version *v)
{
    const struct tidings_str texts[] = {v->id,         v->type,     v->type_version, v->parent,
                                        v->changed_by, v->previous, v->value,        v->principal};
    uint64_t checksum = checksum_word(checksum_word(0, (uint64_t)v->from), v->deleted);
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        checksum = checksum_str(checksum, texts[i]);
    }
    checksum = v->old_parent.len > 0 ? checksum_str(checksum, v->old_parent) : checksum;
    return checksum == 0 ? 1 : (int64_t)checksum;
}

bool entity_version_is_whole(const struct entity_version *v, int64_t checksum)
{
    return checksum == entity_version_checksum(v);
}

/* ---------------------------------------------------------------------------------------------- */

int timeline_parse(struct tidings_str text, int64_t *ret_ms, struct tidings_error *err)
{
    struct instant i;
    if (!instant_parse(text, &i) || !i.has_seconds || !i.has_offset || i.has_space ||
        i.nanosecond % 1000000 != 0) { /* truncation would name another instant */
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
