/* SPDX-License-Identifier: MIT */
#include "bin/sync/mirror_fetch.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include <tidings/json.h>

#include "bin/cli/output.h"
#include "bin/sync/folder.h"

#define PIECE                                                                                      \
    (1 << 20) /* six times as much, when each byte has to be escaped, is still a message */
#define PIECE_MIN 1024
#define OVERLAP_MAX 3 /* a part that is text begins where a character does */
#define TRIES 8u
#define PAUSE_MS 500 /* a file that changed less than two seconds ago may change unseen */

/* What came of a read. Without `is_part` it is the whole. */
struct part {
    int64_t from, to, total;
    bool is_part;
    char *etag, *bytes;
    size_t len;
};

static void part_release(struct part *p)
{
    tidings_free(p->etag);
    tidings_free(p->bytes);
}

static char *ask_part(const struct fetch *f, int64_t from, struct tidings_error *err)
{
    struct json_text t;
    char *params = NULL;
    if (json_text_begin(&t)) {
        fputs("{\"uri\":", t.out);
        put_quoted(t.out, tidings_str(f->uri));
        fprintf(t.out,
                ",\"_meta\":{\"dev.tidings/range\":{\"unit\":\"bytes\",\"from\":%" PRId64
                ",\"to\":%" PRId64 "}}}",
                from, from + f->piece);
        params = json_text_take(&t);
    }
    if (!params) {
        tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
        return NULL;
    }
    char *result = tidings_client_request(f->client, "resources/read", params, err);
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

#define RANGE "/_meta/dev.tidings~1range"

static int part_parse(struct part *p, struct tidings_str content, struct tidings_error *err)
{
    char *range = tidings_json_get(content, RANGE);
    p->is_part = range != NULL;
    tidings_free(range);
    p->etag = tidings_json_string(content, "/_meta/dev.tidings~1etag");
    p->bytes = tidings_json_text(content, "/text", &p->len);
    if (!p->bytes) {
        p->bytes = tidings_json_bytes(content, "/blob", &p->len);
    }
    if (!p->bytes) {
        return tidings_fail(err, TIDINGS_E_PARSE, "it has no content that can be kept");
    }
    if (!p->is_part) {
        p->to = p->total = (int64_t)p->len;
        return 0;
    }
    bool is_good = number_at(content, RANGE "/from", &p->from) &&
                   number_at(content, RANGE "/to", &p->to) &&
                   number_at(content, RANGE "/total", &p->total) && p->from <= p->to &&
                   p->to <= p->total && (uint64_t)(p->to - p->from) == p->len;
    return is_good ? 0 : tidings_fail(err, TIDINGS_E_PARSE, "a part of it is not what it says");
}

/* Could a smaller part be given? The server's own limit may be lower than ours. */
static bool may_shrink(const struct fetch *f, int code)
{
    return code == TIDINGS_E_LIMIT && tidings_client_last_error(f->client) && f->piece > PIECE_MIN;
}

static int get_part(struct fetch *f, int64_t from, struct part *p, struct tidings_error *err)
{
    *p = (struct part){0};
    char *result = ask_part(f, from, err);
    while (!result && may_shrink(f, err->code)) {
        f->piece /= 2;
        result = ask_part(f, from, err);
    }
    if (!result) {
        return err->code;
    }
    char *content = tidings_json_get(tidings_str(result), "/contents/0");
    tidings_free(result);
    int rc = part_parse(p, tidings_str(content), err);
    tidings_free(content);
    return rc;
}

/* 1: it is of another state than the first. */
static int take_part(struct fetch *f, const struct part *p, int64_t at, struct tidings_error *err)
{
    const char *etag = p->etag ? p->etag : "";
    bool is_more = p->to < p->total;
    if (at == 0) {
        f->total = p->total;
        free(f->state);
        f->state = strdup(etag);
        if (!f->state) {
            return tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
        }
    }
    int64_t skip = at - p->from;
    bool is_same = p->total == f->total && strcmp(etag, f->state) == 0 && (p->is_part || at == 0) &&
                   skip >= 0 && skip <= OVERLAP_MAX;
    bool is_safe = at == 0 ? !is_more || strncmp(etag, "W/", 2) != 0 : is_same;
    if (!is_safe) {
        return 1;
    }
    if (skip < 0 || skip > (int64_t)p->len || (is_more && p->to <= at)) {
        return tidings_fail(err, TIDINGS_E_PARSE, "its parts do not meet");
    }
    f->errnum = folder_add(f->fd, tidings_strn(p->bytes + skip, p->len - (size_t)skip));
    return f->errnum ? tidings_fail(err, TIDINGS_E_IO, "%s", strerror(f->errnum)) : 0;
}

/* 1: it changed meanwhile. */
static int fetch_once(struct fetch *f, struct tidings_error *err)
{
    int64_t at = 0;
    bool is_more = true;
    while (is_more) {
        struct part p;
        int rc = get_part(f, at, &p, err);
        if (rc == TIDINGS_E_INVALID && at > 0) {
            rc = 1; /* it ends before */
        }
        rc = rc == 0 ? take_part(f, &p, at, err) : rc;
        at = p.to;
        is_more = p.to < p.total;
        part_release(&p);
        if (rc != 0) {
            return rc;
        }
    }
    return 0;
}

/* A signal ends it. */
static bool begin_again(struct fetch *f)
{
    struct timespec pause = {.tv_nsec = PAUSE_MS * 1000000L};
    nanosleep(&pause, NULL);
    return ftruncate(f->fd, 0) == 0 && lseek(f->fd, 0, SEEK_SET) == 0;
}

int fetch_run(struct fetch *f, struct tidings_error *err)
{
    int rc = 1;
    f->piece = PIECE;
    for (unsigned i = 0; i < TRIES && rc == 1; i++) {
        rc = i > 0 && !begin_again(f) ? tidings_fail(err, TIDINGS_E_IO, "%s", strerror(errno))
                                      : fetch_once(f, err);
    }
    if (rc == 1) {
        rc = tidings_fail(err, TIDINGS_E_BUSY, "it changes faster than it can be read");
    }
    if (rc == 0 && strlen(f->state) < sizeof(f->etag)) {
        memcpy(f->etag, f->state, strlen(f->state) + 1);
    }
    free(f->state);
    f->state = NULL;
    return rc;
}

bool fetch_has_parts(struct tidings_client *client)
{
    const struct tidings_client_info *info = tidings_client_info(client);
    char *ours = info ? tidings_json_get(tidings_str(info->capabilities),
                                         "/extensions/dev.tidings~1resource-metadata")
                      : NULL;
    tidings_free(ours);
    return ours != NULL;
}
