/* SPDX-License-Identifier: MIT
 *
 * Computing the checksum of a stored version, by which bytes that changed on the disk are noticed.
 * Every step can be undone, so a change within one word of eight bytes is always noticed; this is
 * no protection from somebody who writes to the file. It is part of the layouts of stores: other
 * numbers need other versions of those.
 */
#include "store/entity_sum.h"

#include <string.h>

#include "json/json.h"

#define MULTIPLIER 0x9E3779B97F4A7C15u

static uint64_t sum_word(uint64_t sum, uint64_t word)
{
    sum = (sum ^ word) * MULTIPLIER;
    return sum ^ (sum >> 32);
}

static uint64_t sum_bytes(uint64_t sum, const char *at, size_t len)
{
    uint64_t word = 0;
    memcpy(&word, at, len);
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    word = __builtin_bswap64(word); /* files may be carried to other machines */
#endif
    return sum_word(sum, word);
}

static uint64_t sum_str(uint64_t sum, struct tidings_str s)
{
    size_t at = 0;
    for (; at + 8 <= s.len; at += 8) {
        sum = sum_bytes(sum, s.ptr + at, 8);
    }
    sum = at < s.len ? sum_bytes(sum, s.ptr + at, s.len - at) : sum;
    return sum_word(sum, s.len);
}

int64_t entity_version_sum(const struct entity_version *v)
{
    const struct tidings_str texts[] = {v->id,         v->type,     v->type_version, v->parent,
                                        v->changed_by, v->previous, v->value,        v->principal};
    uint64_t sum = sum_word(sum_word(0, (uint64_t)v->from), v->deleted);
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        sum = sum_str(sum, texts[i]);
    }
    return sum == 0 ? 1 : (int64_t)sum;
}

static bool sum_is_json(struct tidings_str text)
{
    struct json *value = NULL;
    int rc = jv_parse(text, JSON_MAX_DEPTH, &value, NULL);
    jv_unref(value);
    return rc == 0 || rc == TIDINGS_E_NOMEM;
}

bool entity_version_is_whole(const struct entity_version *v, int64_t sum)
{
    if (sum != 0) {
        return sum == entity_version_sum(v);
    }
    /* From before there were sums: at least nobody is sent what is no JSON. */
    return sum_is_json(v->value) && (v->changed_by.len == 0 || sum_is_json(v->changed_by)) &&
           (v->principal.len == 0 || sum_is_json(v->principal)) &&
           (v->previous.len == 0 || sum_is_json(v->previous));
}
