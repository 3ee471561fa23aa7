/* SPDX-License-Identifier: MIT
 *
 * The names, values and counters of limits, and what a client that reached one is told.
 */
#include "access/limit.h"

#include <stdio.h>

#include "base/str.h"
#include "uri/uri.h"
#include "wire/http.h"

#define RETRY_MS 1000u

static const struct {
    const char *name, *text;
    uint64_t value;
} rows[LIMIT_COUNT] = {
#define LIMIT_ROW(symbol, name, value, text) [LIMIT_##symbol] = {name, text, value},
    LIMIT_MAP(LIMIT_ROW)
#undef LIMIT_ROW
};

/* Said in the table for people, meant where they are used. */
#define LIMIT_VALUE(symbol, name, value, text) value_of_##symbol = (value),
enum { LIMIT_MAP(LIMIT_VALUE) };
#undef LIMIT_VALUE
_Static_assert(value_of_SESSION_STREAMS == LIMIT_MAX_STREAMS, "streams of a session");
_Static_assert(value_of_URI == URI_MAX, "bytes of a URI");
_Static_assert(value_of_HEAD == HTTP_MAX_HEAD, "bytes of a head");
_Static_assert(value_of_TARGET == HTTP_MAX_TARGET, "bytes of a target");

const char *limit_name(enum limit limit)
{
    return rows[limit].name;
}

const char *limit_text(enum limit limit)
{
    return rows[limit].text;
}

int limit_shared_at(enum limit limit)
{
    static const signed char place[LIMIT_COUNT] = {
#define LIMIT_SHARED_PLACE(symbol) [LIMIT_##symbol] = LIMIT_SHARED_##symbol + 1,
        LIMIT_SHARED_MAP(LIMIT_SHARED_PLACE)
#undef LIMIT_SHARED_PLACE
    };
    return place[limit] - 1;
}

void limit_counters_init(struct limit_counters *counters)
{
    *counters = (struct limit_counters){.fair_share = LIMIT_FAIR_SHARE};
    for (size_t i = 0; i < LIMIT_COUNT; i++) {
        counters->values[i] = rows[i].value;
    }
}

bool limit_enter(struct limit_counters *counters, enum limit limit, uint64_t most)
{
    size_t before = __atomic_fetch_add(&counters->in_use[limit], 1, __ATOMIC_RELAXED);
    if (most > 0 && before >= most) {
        limit_leave(counters, limit);
        limit_hit(counters, limit);
        return false;
    }
    return true;
}

void limit_leave(struct limit_counters *counters, enum limit limit)
{
    __atomic_fetch_sub(&counters->in_use[limit], 1, __ATOMIC_RELAXED);
}

struct refusal limit_refusal(enum limit limit, uint64_t value, bool is_own)
{
    return (struct refusal){.limit = limit, .value = value, .retry_ms = RETRY_MS, .is_own = is_own};
}

int refusal_status(const struct refusal *r)
{
    return r->is_own ? 429 : 503;
}

uint64_t refusal_seconds(const struct refusal *r)
{
    return (r->retry_ms + 999) / 1000;
}

const char *refusal_sentence(const struct refusal *r, char out[REFUSAL_SENTENCE])
{
    char share[48] = "";
    if (r->share > 0) {
        snprintf(share, sizeof(share), ", at most %llu of one client",
                 (unsigned long long)r->share);
    }
    int n = snprintf(out, REFUSAL_SENTENCE, "too many %s (--%s %llu%s)", rows[r->limit].text,
                     rows[r->limit].name, (unsigned long long)r->value, share);
    if (r->limit == LIMIT_BLOCKED) {
        n = snprintf(out, REFUSAL_SENTENCE, "blocked after too many refused requests (--%s %llu)",
                     rows[r->limit].name, (unsigned long long)r->value);
    }
    if (n > 0 && (size_t)n < REFUSAL_SENTENCE && r->retry_ms > 0) {
        snprintf(out + n, REFUSAL_SENTENCE - (size_t)n, "; try again in %llu s",
                 (unsigned long long)refusal_seconds(r));
    }
    return out;
}

struct tidings_str refusal_json(const struct refusal *r, char out[REFUSAL_JSON])
{
    int n = snprintf(out, REFUSAL_JSON, "{\"limit\":\"%s\",\"value\":%llu", rows[r->limit].name,
                     (unsigned long long)r->value);
    size_t len = n > 0 ? (size_t)n : 0;
    if (r->share > 0) {
        n = snprintf(out + len, REFUSAL_JSON - len, ",\"share\":%llu",
                     (unsigned long long)r->share);
        len += n > 0 ? (size_t)n : 0;
    }
    if (r->retry_ms > 0) {
        n = snprintf(out + len, REFUSAL_JSON - len, ",\"retryAfterMs\":%llu",
                     (unsigned long long)r->retry_ms);
        len += n > 0 ? (size_t)n : 0;
    }
    out[len++] = '}';
    return tidings_strn(out, len);
}
