/* SPDX-License-Identifier: MIT
 *
 * Judging If-Match, If-Unmodified-Since and If-Modified-Since.
 */
#include "wire/http_conditions.h"

#include "wire/http_date.h"
#include "wire/http_fields.h"

static bool conditions_read_date(const struct http_request *req, const char *name, int64_t now_ms,
                                 int64_t *ret)
{
    unsigned count = 0;
    struct tidings_str value = http_header(req, name, &count);
    return count == 1 && http_parse_date(value, now_ms / 1000, ret);
}

void http_conditions_read(struct http_conditions *c, const struct http_request *req, int64_t now_ms)
{
    bool reads = req->method == HTTP_GET || req->method == HTTP_HEAD;
    *c = (struct http_conditions){.if_match = http_header(req, "if-match", NULL)};
    c->has_unmodified_since =
        !c->if_match.ptr &&
        conditions_read_date(req, "if-unmodified-since", now_ms, &c->unmodified_since);
    c->has_modified_since =
        reads && !http_header(req, "if-none-match", NULL).ptr &&
        conditions_read_date(req, "if-modified-since", now_ms, &c->modified_since) &&
        c->modified_since <= now_ms / 1000;
}

/* Strongly: RFC 9110 §8.8.3.2. */
static bool etag_is_among(struct tidings_str list, struct tidings_str etag)
{
    struct tidings_str one;
    bool weak = false;
    while (http_next_etag(&list, &one, &weak)) {
        if (str_eq(one, STR("*")) || (!weak && str_eq(one, etag))) {
            return true;
        }
    }
    return false;
}

static bool is_modified_after(int64_t modified_ms, int64_t seconds)
{
    return modified_ms > 0 && modified_ms / 1000 > seconds;
}

enum http_condition http_conditions_judge(const struct http_conditions *c, struct tidings_str etag,
                                          int64_t modified_ms)
{
    bool fails = c->if_match.ptr ? !etag_is_among(c->if_match, etag)
                                 : c->has_unmodified_since &&
                                       is_modified_after(modified_ms, c->unmodified_since);
    if (fails) {
        return HTTP_CONDITION_FAILED;
    }
    bool is_held = c->has_modified_since && modified_ms > 0 && !str_starts(etag, STR("W/")) &&
                   !is_modified_after(modified_ms, c->modified_since);
    return is_held ? HTTP_CONDITION_UNCHANGED : HTTP_CONDITION_HOLDS;
}

int64_t http_last_modified(int64_t modified_ms, int64_t now_ms)
{
    int64_t seconds = modified_ms / 1000, now = now_ms / 1000;
    return seconds < now ? seconds : now - 1;
}
