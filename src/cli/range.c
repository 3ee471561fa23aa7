/* SPDX-License-Identifier: MIT
 *
 * Requests a part of a resource and parses the range data of the answer.
 */
#include "cli/range.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <tidings/json.h>

#include "cli/output.h"

/* -------------------------------------------------------------------------------------------------
 * Counts the pages of an answer, and stops an endless or circular one.
 */

#define PAGES_MAX 10000u
#define ANSWERS_MAX 10u
#define ANSWER_MS 30000u

int pages_next(struct pages *p, const char *cursor, uint64_t answer_ms, struct tidings_error *err)
{
    if (p->mark && strcmp(p->mark, cursor) == 0) {
        return tidings_fail(err, TIDINGS_E_PARSE, "the pages of the server go in a circle");
    }
    if (++p->count >= PAGES_MAX) {
        return tidings_fail(err, TIDINGS_E_LIMIT, "there are more than %u pages", PAGES_MAX);
    }
    if (p->waited_ms > ANSWERS_MAX * (answer_ms > 0 ? answer_ms : ANSWER_MS)) {
        return tidings_fail(err, TIDINGS_E_TIMEOUT,
                            "%u page%s took %" PRIu64 " ms, and there are more", p->count,
                            p->count == 1 ? "" : "s", p->waited_ms);
    }
    if ((p->count & (p->count - 1)) == 0) {
        free(p->mark);
        p->mark = strdup(cursor);
    }
    return 0;
}

void pages_deinit(struct pages *p)
{
    free(p->mark);
}

/* ---------------------------------------------------------------------------------------------- */

#define RANGE_BYTES_MIN 1024

/* ---- ranges ---------------------------------------------------------------------------------- */

/* Parses and skips the leading digits. */
static bool take_number(const char **text, int64_t *ret)
{
    char *end;
    errno = 0;
    if (**text < '0' || **text > '9') {
        return false;
    }
    *ret = strtoll(*text, &end, 10);
    *text = end;
    return errno == 0 && *ret < INT64_MAX;
}

bool range_spec_parse(const char *text, bool is_lines, struct range_spec *ret)
{
    int64_t first = is_lines ? 1 : 0, a = 0, b = 0;
    *ret = (struct range_spec){.is_lines = is_lines, .to = -1};
    if (*text == '-') {
        text++;
        return take_number(&text, &ret->last) && *text == '\0' && ret->last > 0;
    }
    if (!take_number(&text, &a) || a < first) {
        return false;
    }
    ret->from = a - first;
    ret->to = ret->from + 1;
    if (*text == '\0') {
        return true;
    }
    if (*text++ != '-') {
        return false;
    }
    if (*text == '\0') {
        ret->to = -1;
        return true;
    }
    bool is_good = take_number(&text, &b) && *text == '\0' && b >= a;
    ret->to = b - first + 1;
    return is_good;
}

/* The start of the line of that number; the length if there are fewer lines. */
static size_t line_start(const char *bytes, size_t len, int64_t number, int64_t *ret_lines)
{
    size_t at = 0;
    int64_t lines = 0;
    while (at < len && lines < number) {
        const char *feed = memchr(bytes + at, '\n', len - at);
        at = feed ? (size_t)(feed - bytes) + 1 : len;
        lines++;
    }
    *ret_lines = lines;
    return at;
}

size_t range_behind_feed(struct tidings_str bytes, int64_t *feeds)
{
    size_t at = bytes.len;
    while (at > 0 && *feeds > 0) {
        const char *feed = memrchr(bytes.ptr, '\n', at);
        at = feed ? (size_t)(feed - bytes.ptr) : 0;
        *feeds -= feed ? 1 : 0;
        if (feed && *feeds == 0) {
            return at + 1;
        }
    }
    return at;
}

int64_t range_feeds_of(struct tidings_str bytes, int64_t lines)
{
    return lines + (bytes.len > 0 && bytes.ptr[bytes.len - 1] == '\n' ? 1 : 0);
}

static size_t range_character_start(const struct range *p, size_t at)
{
    while (!p->is_blob && at > 0 && at < p->len && ((unsigned char)p->bytes[at] & 0xc0) == 0x80) {
        at--;
    }
    return at;
}

int range_cut(struct range *p, const struct range_spec *range, struct tidings_error *err)
{
    size_t from = 0, to = p->len;
    int64_t there = (int64_t)p->len;
    if (range->last > 0 && range->is_lines) {
        struct tidings_str all = tidings_strn(p->bytes, p->len);
        int64_t feeds = range_feeds_of(all, range->last);
        from = range_behind_feed(all, &feeds);
    } else if (range->last > 0) {
        from = range->last < there ? p->len - (size_t)range->last : 0;
    } else if (range->is_lines) {
        from = line_start(p->bytes, p->len, range->from, &there);
        if (range->to >= 0) {
            int64_t lines = 0;
            to = from + line_start(p->bytes + from, p->len - from, range->to - range->from, &lines);
        }
    } else {
        from = range->from < there ? (size_t)range->from : p->len;
        to = range->to >= 0 && range->to < there ? (size_t)range->to : p->len;
    }
    if (range->last <= 0 && range->from > there) {
        return tidings_fail(err, TIDINGS_E_INVALID,
                            "the range starts after the end; the resource has %lld %s",
                            (long long)there, range->is_lines ? "lines" : "bytes");
    }
    from = range_character_start(p, from);
    to = range_character_start(p, to);
    p->from = (int64_t)from;
    p->to = (int64_t)to;
    p->len = to - from;
    memmove(p->bytes, p->bytes + from, p->len);
    p->bytes[p->len] = '\0';
    return 0;
}

/* ---- reading --------------------------------------------------------------------------------- */

static void range_put_range(FILE *out, const struct range_spec *range)
{
    fprintf(out, "\"dev.tidings/range\":{\"unit\":\"%s\"", range->is_lines ? "lines" : "bytes");
    if (range->last > 0) {
        fprintf(out, ",\"last\":%" PRId64, range->last);
    } else {
        fprintf(out, ",\"from\":%" PRId64, range->from);
    }
    if (range->last <= 0 && range->to >= 0) {
        fprintf(out, ",\"to\":%" PRId64, range->to);
    }
    fputs("}", out);
}

char *range_ask(struct tidings_client *client, const char *uri, const struct range_spec *range,
                const char *at_least, struct tidings_error *err)
{
    struct json_text t;
    char *params = NULL;
    if (json_text_begin(&t)) {
        fputs("{\"uri\":", t.out);
        put_quoted(t.out, tidings_str(uri));
        fputs(",\"_meta\":{", t.out);
        if (range) {
            range_put_range(t.out, range);
        }
        if (at_least) {
            fputs(range ? ",\"dev.tidings/atLeast\":" : "\"dev.tidings/atLeast\":", t.out);
            put_quoted(t.out, tidings_str(at_least));
        }
        fputs("}}", t.out);
        params = json_text_take(&t);
    }
    if (!params) {
        tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
        return NULL;
    }
    char *result = tidings_client_request(client, "resources/read", params, err);
    free(params);
    return result;
}

static bool number_at(struct tidings_str json, const char *pointer, int64_t *ret)
{
    char *text = tidings_json_get(json, pointer), *end = text;
    if (text) {
        errno = 0;
        *ret = strtoll(text, &end, 10);
    }
    bool is_good = text && end != text && *end == '\0' && errno == 0 && *ret >= 0;
    tidings_free(text);
    return is_good;
}

int range_parse(struct range *p, struct tidings_str content, struct tidings_error *err)
{
    *p = (struct range){0};
    char *range = tidings_json_get(content, RANGE_MEMBER);
    p->is_range = range != NULL;
    tidings_free(range);
    p->etag = tidings_json_string(content, "/_meta/dev.tidings~1etag");
    p->bytes = tidings_json_text(content, "/text", &p->len);
    if (!p->bytes) {
        p->is_blob = true;
        p->bytes = tidings_json_bytes(content, "/blob", &p->len);
    }
    if (!p->bytes) {
        return tidings_fail(err, TIDINGS_E_PARSE, "the server gave no content");
    }
    if (!p->is_range) {
        p->to = p->total = (int64_t)p->len;
        return 0;
    }
    bool is_good = number_at(content, RANGE_MEMBER "/from", &p->from) &&
                   number_at(content, RANGE_MEMBER "/to", &p->to) &&
                   number_at(content, RANGE_MEMBER "/total", &p->total) && p->from <= p->to &&
                   p->to <= p->total && (uint64_t)(p->to - p->from) == p->len;
    return is_good ? 0
                   : tidings_fail(err, TIDINGS_E_PARSE, "a part is not as long as the server says");
}

void range_release(struct range *p)
{
    tidings_free(p->etag);
    tidings_free(p->bytes);
    *p = (struct range){0};
}

int range_get(struct tidings_client *client, const char *uri, int64_t from, int64_t *bytes,
              struct range *ret, struct tidings_error *err)
{
    *ret = (struct range){0};
    for (;;) {
        struct range_spec range = {
            .from = from, .to = from + *bytes, .last = from < 0 ? *bytes : 0};
        char *result = range_ask(client, uri, &range, NULL, err);
        if (result) {
            char *content = tidings_json_get(tidings_str(result), "/contents/0");
            tidings_free(result);
            int rc = range_parse(ret, tidings_str(content), err);
            tidings_free(content);
            return rc;
        }
        /* The server's own limit may be lower than ours. */
        if (err->code != TIDINGS_E_LIMIT || !tidings_client_last_error(client) ||
            *bytes <= RANGE_BYTES_MIN) {
            return err->code;
        }
        *bytes /= 2;
    }
}

bool range_is_offered(const struct tidings_client *client)
{
    const struct tidings_client_info *info = tidings_client_info(client);
    char *ours = info ? tidings_json_get(tidings_str(info->capabilities),
                                         "/extensions/dev.tidings~1resource-metadata")
                      : NULL;
    tidings_free(ours);
    return ours != NULL;
}
