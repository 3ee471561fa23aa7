/* SPDX-License-Identifier: MIT
 *
 * /resource?uri=…: one resource over plain HTTP, for clients without MCP. If a mount has an alias
 * (/entity/), paths that begin with it name resources too. GET and HEAD read it, with conditions,
 * ranges and a choice of formats; PUT, PATCH and DELETE write it, if that is allowed. Requests go
 * to engine/catalog/resource_io; this file converts between it and the HTTP fields.
 *
 * A resource may hold an untrusted page or script, and comes from the address of the endpoint. It
 * is sent in a sandbox, so that a browser does not treat it as part of this origin.
 */
#include "base/error.h"
#include "base/mem.h"
#include "base/time.h"
#include "engine/catalog/resource_io.h"
#include "formats/http.h"
#include "formats/http_fields.h"
#include "formats/json_write.h"
#include "transport/http_internal.h"

#define AFTER "after"
#define BUSY_RETRY_S 1u
#define FIELDS_MAX 16384u    /* an etag and a media type are its longest parts */
#define ERROR_MAX (8u << 20) /* details may hold a patch */

static const struct tidings_str allow_read = {"GET, HEAD, OPTIONS", 18};
static const struct tidings_str allow_whole = {"GET, HEAD, PUT, DELETE, OPTIONS", 31};

struct http_exchange {
    struct resource_io plain;
    struct http_conn *conn; /* NULL after its end */
    struct buf uri, after;
    struct buf request; /* a copy for the slices of `plain` */
    struct tidings_str if_range;
    struct http_conditions conditions;
    size_t held;   /* etags of If-None-Match, which are checked second (see holds_back) */
    bool any_held; /* If-None-Match: * */
    bool measured; /* read again only for the size */
};

#define METRICS_PATH "/metrics"
#define METRICS_URI "tidings://self/metrics"

bool resource_is_at(const struct http_conn *conn, struct tidings_str path)
{
    return str_eq(path, STR(RESOURCE_PATH)) ||
           (http_worker_of(conn)->config->metrics && str_eq(path, STR(METRICS_PATH))) ||
           catalog_is_alias(conn->base.channel.worker->catalog, path);
}

/* ---- failures -------------------------------------------------------------------------------- */

struct resource_failure {
    int status;
    struct tidings_str text, reason, uri;
    struct tidings_str details; /* an object: further members */
    int64_t size;               /* 416: of the whole resource; -1: unknown */
    struct tidings_str allow;   /* 405 */
    struct tidings_str scope;   /* 403: the missing scopes; or empty */
    uint64_t retry_s;           /* 429: when to try again */
    enum failure_cause cause;   /* of a rejection; ORDINARY: the status is the cause */
};

static void answer_failure(struct http_conn *conn, const struct resource_failure *f)
{
    struct response_headers headers = {0};
    struct buf text, fields;
    struct jw w;
    buf_init(&text, ERROR_MAX);
    buf_init(&fields, FIELDS_MAX);
    jw_init(&w, &text);
    jw_begin_object(&w);
    jw_put_string(&w, STR("error"), f->text);
    if (f->reason.len > 0) {
        jw_put_string(&w, STR("reason"), f->reason);
    }
    if (f->uri.len > 0 && str_is_utf8(f->uri)) {
        jw_put_string(&w, STR("uri"), f->uri);
    }
    jw_members(&w, f->details);
    jw_end_object(&w);
    buf_putc(&text, '\n');
    buf_puts(&fields, STR("Cache-Control: no-cache\r\n"));
    if (f->status == 416 && f->size >= 0) {
        buf_putf(&fields, "Content-Range: bytes */%lld\r\n", (long long)f->size);
    }
    if (f->retry_s > 0) {
        buf_putf(&fields, "Retry-After: %llu\r\n", (unsigned long long)f->retry_s);
    }
    headers.extra = buf_str(&fields);
    headers.scope = f->scope;
    headers.reason = f->text;
    headers.uri = f->uri;
    headers.cause = f->cause;
    if (f->status == 405) {
        headers.allow = f->allow;
    }
    conn_answer(conn, f->status, &headers, STR("application/json"), &text);
    buf_deinit(&fields);
    buf_deinit(&text);
}

void resource_refuse(struct http_conn *conn, int status, const char *text)
{
    struct resource_failure f = {.status = status,
                                 .text = tidings_str(text),
                                 .size = -1,
                                 .allow = page_allows(conn, page_methods(conn))};
    answer_failure(conn, &f);
}

static bool is_write(enum http_method method)
{
    return method == HTTP_PUT || method == HTTP_PATCH || method == HTTP_DELETE;
}

bool resource_check_method(struct http_conn *conn, const struct http_request *req)
{
    bool reads = req->method == HTTP_GET || req->method == HTTP_HEAD || req->method == HTTP_OPTIONS;
    bool writes = is_write(req->method);
    if (reads || (writes && http_worker_of(conn)->config->allow_write)) {
        return true;
    }
    conn->r->after = AFTER_REFUSE; /* the body is not read */
    resource_refuse(conn, 405,
                    writes ? "resources are not written here; see --allow-write"
                           : "use GET or HEAD to read a resource");
    return false;
}

/* ---- what is asked --------------------------------------------------------------------------- */

static void resource_read_range(struct resource_io *p, const struct http_request *req)
{
    struct http_range range;
    unsigned count = 0;
    struct tidings_str value = http_header(req, "range", &count);
    if (count == 1 && req->method == HTTP_GET && http_parse_range(value, &range)) {
        p->options.has_range = true;
        p->options.range = (struct tidings_range){
            .unit = TIDINGS_UNIT_BYTES, .from = range.from, .to = range.to, .last = range.last};
    }
}

/* Returns true if there is a condition with priority over If-None-Match. It needs the current
 * state. */
static bool holds_back(const struct http_exchange *ex)
{
    return ex->conditions.if_match.ptr || ex->conditions.has_unmodified_since;
}

static void resource_read_conditions(struct http_exchange *ex, const struct http_request *req)
{
    struct read_options *o = &ex->plain.options;
    struct tidings_str list = http_header(req, "if-none-match", NULL), etag;
    bool weak = false;
    while (list.ptr && http_next_etag(&list, &etag, &weak) && o->etag_count < READ_ETAGS_MAX) {
        if (str_eq(etag, STR("*")) && list.len == 0) {
            ex->any_held = true;
        } else {
            o->etags[o->etag_count++] = etag; /* compared weakly: RFC 9110 §13.1.2 */
        }
        if (list.len == 0) {
            break;
        }
    }
    o->at_least = http_header(req, "tidings-at-least", NULL);
    if (o->at_least.len > READ_CURSOR_MAX) {
        o->at_least.len = READ_CURSOR_MAX; /* too long for a cursor, like the original */
    }
    ex->if_range = http_header(req, "if-range", NULL);
    ex->held = o->etag_count;
    o->etag_count = holds_back(ex) ? 0 : o->etag_count;
}

/* Reads the header fields of a write. Returns NULL, or an error message with a status. */
static const char *write_fields(struct http_exchange *ex, const struct http_request *req,
                                int *status)
{
    struct resource_io *p = &ex->plain;
    struct tidings_str type = http_header(req, "content-type", NULL);
    struct tidings_str coding = http_header(req, "content-encoding", NULL);
    struct tidings_str match = http_header(req, "if-match", NULL);
    struct tidings_str none = http_header(req, "if-none-match", NULL);
    bool weak = false;
    unsigned count = 0;
    *status = 400;
    if (http_header(req, "content-range", NULL).ptr) {
        return "a part cannot be written; send the whole without Content-Range";
    }
    if (match.ptr && (!http_next_etag(&match, &p->if_match, &weak) || match.len > 0)) {
        return "If-Match must be one quoted etag, or *";
    }
    if (match.ptr && weak) {
        *status = 412;
        return "a weak etag matches nothing; read the resource again";
    }
    if (none.ptr && !str_eq(none, STR("*"))) {
        return "If-None-Match must be * when something is written";
    }
    p->if_absent = none.ptr != NULL;
    p->has_unmodified_since = ex->conditions.has_unmodified_since;
    p->unmodified_since = ex->conditions.unmodified_since;
    p->query = req->query;
    p->traceparent = arena_dup(&p->arena, tidings_str(ex->conn->r->traceparent));
    p->metadata = http_header(req, "tidings-metadata", &count);
    if (count > 1) {
        return "Tidings-Metadata must come once";
    }
    if (req->method == HTTP_DELETE) {
        return NULL;
    }
    *status = 415;
    if (coding.ptr && !str_eq_nocase(coding, STR("identity"))) {
        return "send the content without Content-Encoding";
    }
    if (type.ptr && (!http_is_media_type(type) || http_list_has(type, "multipart/form-data"))) {
        return "Content-Type must name the type of the content, such as text/markdown";
    }
    /* Default types of tools: the content or the name is more reliable. */
    bool unsaid = !type.ptr || http_list_has(type, "application/x-www-form-urlencoded");
    p->mime_type = unsaid ? STR_EMPTY : type;
    p->bytes = tidings_strn(ex->conn->r->in.ptr + ex->conn->r->head_len, ex->conn->r->body_len);
    return NULL;
}

/* ---- what is answered ------------------------------------------------------------------------ */

static void resource_put_time(struct buf *out, int64_t ms)
{
    if (ms > 0) {
        buf_puts(out, STR("Last-Modified: "));
        http_put_date(out, http_last_modified(ms, clock_wall_ms()));
        buf_puts(out, STR("\r\n"));
    }
}

static void put_fields(struct buf *out, const struct resource_io *p, int status)
{
    bool is_private = p->worker->self->is_private;
    http_put_etag(out, "ETag", p->etag);
    buf_puts(out, is_private ? STR("Cache-Control: private, ") : STR("Cache-Control: "));
    buf_puts(out, p->is_final ? STR("max-age=31536000, immutable\r\n") : STR("no-cache\r\n"));
    buf_puts(out, is_private ? STR("Vary: Accept, Authorization\r\n") : STR("Vary: Accept\r\n"));
    if (p->about) {
        resource_put_time(out, p->about->modified_ms);
    }
    if (p->is_stale) {
        buf_puts(out, STR("Tidings-Stale: true\r\n"));
    }
    if (status == 200 || status == 206) {
        buf_puts(out, STR("Accept-Ranges: bytes\r\n"
                          "X-Content-Type-Options: nosniff\r\n"
                          "Content-Security-Policy: sandbox; frame-ancestors 'self'\r\n"));
    }
    if (status == 206) {
        buf_putf(out, "Content-Range: bytes %lld-%lld/", (long long)p->from,
                 (long long)(p->from + (int64_t)p->len - 1));
        if (p->size >= 0) {
            buf_puti(out, p->size);
        } else {
            buf_putc(out, '*');
        }
        buf_puts(out, STR("\r\n"));
    }
}

static void resource_put_type(struct buf *out, const struct resource_io *p)
{
    struct tidings_str type = p->about->mime_type;
    if (!http_is_media_type(type)) {
        type = p->is_text ? STR("text/plain") : STR("application/octet-stream");
    }
    buf_puts(out, type);
    if (p->is_text && str_starts(type, STR("text/")) && str_find(type, ';') < 0) {
        buf_puts(out, STR("; charset=utf-8"));
    }
}

static enum http_condition resource_decide(const struct http_exchange *ex)
{
    const struct resource_io *p = &ex->plain;
    return http_conditions_decide(&ex->conditions, p->etag, p->about ? p->about->modified_ms : 0);
}

static void answer_read(struct http_exchange *ex)
{
    struct resource_io *p = &ex->plain;
    struct buf fields, type;
    struct buf text = {.ptr = p->memory, .len = p->len, .cap = p->len + 1, .max = p->len + 1};
    if (p->content) {
        buf_init(&text, 0);
    }
    bool is_held = p->unchanged || ex->any_held || resource_decide(ex) == HTTP_CONDITION_UNCHANGED;
    int status = is_held ? 304 : p->is_part ? 206 : 200;
    if (status == 304) {
        buf_init(&text, 0);
    } else {
        p->memory = NULL; /* sent without changes */
    }
    buf_init(&fields, FIELDS_MAX);
    buf_init(&type, FIELDS_MAX);
    put_fields(&fields, p, status);
    if (status != 304) {
        resource_put_type(&type, p);
    }
    struct response_headers headers = {.extra = buf_str(&fields), .uri = buf_str(&ex->uri)};
    struct sendq_source *source = status != 304 && p->content
                                      ? payload_source(&text, &p->content, &p->output, p->worker)
                                      : NULL;
    if (source) {
        conn_answer_long(ex->conn, status, &headers, buf_str(&type), source);
    } else if (status != 304 && p->content) {
        resource_refuse(ex->conn, 503, "out of memory");
    } else {
        conn_answer(ex->conn, status, &headers, buf_str(&type), &text);
    }
    buf_deinit(&type);
    buf_deinit(&fields);
    buf_deinit(&text);
}

static void answer_write(struct http_exchange *ex)
{
    struct resource_io *p = &ex->plain;
    struct buf fields;
    struct buf text = {.ptr = p->memory, .len = p->len, .cap = p->len + 1, .max = p->len + 1};
    bool is_said = p->memory && p->len > 0;
    if (is_said) {
        p->memory = NULL; /* sent without changes */
    } else {
        buf_init(&text, 0);
    }
    buf_init(&fields, FIELDS_MAX);
    http_put_etag(&fields, "ETag", p->etag);
    struct response_headers headers = {.extra = buf_str(&fields), .uri = buf_str(&ex->uri)};
    conn_answer(ex->conn,
                p->code == 1 ? 201
                : is_said    ? 200
                             : 204,
                &headers, STR("application/json"), &text);
    buf_deinit(&fields);
    buf_deinit(&text);
}

static int status_of(const struct resource_io *p)
{
    if (p->limit.retry_ms > 0) {
        return refusal_status(&p->limit);
    }
    if (str_eq(p->reason, READ_OUT_OF_RANGE)) {
        return 416;
    }
    if (str_eq(p->reason, READ_NOT_ACCEPTABLE)) {
        return 406;
    }
    switch (p->code) {
    case TIDINGS_E_CONFLICT:
        return p->if_match.len > 0 || p->if_absent || p->has_unmodified_since ? 412 : 409;
    case TIDINGS_E_UNSUPPORTED:
        return 405;
    case TIDINGS_E_CANCELLED:
    case TIDINGS_E_CLOSED:
        return 503;
    default:
        return error_http_status(p->code);
    }
}

/* Returns the methods of this resource, for the rejection of another one. */
static struct tidings_str allow_here(const struct resource_io *p)
{
    const struct tidings_provider *provider = p->hit.provider;
    bool is_written = p->op == RESOURCE_IO_PATCH && provider && provider->ops->write;
    return is_written && !(provider->ops->flags & TIDINGS_PROVIDER_PATCHES) ? allow_whole
                                                                            : allow_read;
}

/* ---- the exchange ---------------------------------------------------------------------------- */

static void http_exchange_free(struct http_exchange *ex)
{
    resource_io_deinit(&ex->plain);
    buf_deinit(&ex->uri);
    buf_deinit(&ex->after);
    buf_deinit(&ex->request);
    mem_free(ex);
}

/* Returns true if the condition of a range does not hold, so that the whole resource is sent. */
static bool wants_whole(struct http_exchange *ex)
{
    struct resource_io *p = &ex->plain;
    struct tidings_str list = ex->if_range, etag;
    bool weak = false;
    if (!list.ptr || !p->options.has_range || p->unchanged || ex->measured) {
        return false;
    }
    bool holds =
        p->code >= 0 && http_next_etag(&list, &etag, &weak) && !weak && str_eq(etag, p->etag);
    return !holds && (p->code >= 0 || str_eq(p->reason, READ_OUT_OF_RANGE));
}

static void http_exchange_done(struct resource_io *p);

static void http_exchange_open_output(struct http_exchange *ex)
{
    const struct channel *channel = &ex->conn->base.channel;
    output_init(&ex->plain.output, channel->worker->limit_counters, channel_taker(channel));
}

/* Reads again: everything, or no bytes, to get only the size. */
static void http_exchange_read_again(struct http_exchange *ex, bool everything)
{
    struct resource_io *p = &ex->plain;
    struct read_options options = p->options;
    options.has_range = !everything;
    options.range = (struct tidings_range){.unit = TIDINGS_UNIT_BYTES};
    resource_io_deinit(p);
    resource_io_init(p, ex->conn->base.channel.worker, http_exchange_done, ex);
    http_exchange_open_output(ex);
    p->principal = ex->conn->base.channel.principal;
    p->as_requested = buf_str(&ex->uri);
    p->after = buf_str(&ex->after);
    p->options = options;
    resource_io_start(p, RESOURCE_IO_READ);
}

static void http_exchange_done(struct resource_io *p)
{
    struct http_exchange *ex = p->user;
    struct http_conn *conn = ex->conn;
    if (!conn) {
        http_exchange_free(ex);
        return;
    }
    bool whole = wants_whole(ex);
    if (whole || (str_eq(p->reason, READ_OUT_OF_RANGE) && p->size < 0 && !ex->measured)) {
        ex->measured = true;
        http_exchange_read_again(ex, whole);
        return;
    }
    conn_set_work(conn, NULL, NULL);
    if (p->code >= 0 && p->op == RESOURCE_IO_READ && holds_back(ex)) {
        p->options.etag_count = ex->held;
        p->unchanged = read_options_holds(&p->options, p->etag, NULL);
        if (resource_decide(ex) == HTTP_CONDITION_FAILED) {
            p->code = tidings_fail(&p->err, TIDINGS_E_CONFLICT,
                                   "If-Match or If-Unmodified-Since does not hold");
            p->if_match = STR("*"); /* the failed condition is the reason */
        }
    }
    if (p->code >= 0 && p->is_part && p->len == 0) {
        p->code = tidings_fail(&p->err, TIDINGS_E_INVALID, "the range starts after the end");
        p->reason = READ_OUT_OF_RANGE;
    }
    if (p->code < 0) {
        bool is_busy = p->code == TIDINGS_E_BUSY;
        struct resource_failure f = {
            .status = p->scope.len > 0 ? 403 : status_of(p),
            .scope = p->scope,
            .cause = p->is_denied ? FAILURE_ACCESS : FAILURE_ORDINARY,
            .text = tidings_str(p->err.text),
            .reason = p->limit.retry_ms > 0                                  ? STR("limit")
                      : is_busy && p->reason.len == 0 && p->details.len == 0 ? STR("unavailable")
                                                                             : p->reason,
            .retry_s =
                is_busy && p->limit.retry_ms == 0 ? BUSY_RETRY_S : refusal_seconds(&p->limit),
            .details = p->details,
            .uri = buf_str(&ex->uri),
            .size = p->size,
            .allow = allow_here(p)};
        answer_failure(conn, &f);
    } else if (p->about || p->unchanged) {
        answer_read(ex);
    } else {
        answer_write(ex);
    }
    http_exchange_free(ex);
    conn_set_events(conn);
}

static void resource_abandon(struct http_conn *conn)
{
    struct http_exchange *ex = conn->r->work;
    conn_set_work(conn, NULL, NULL);
    ex->conn = NULL;
    ex->request = conn->r->in;
    buf_init(&conn->r->in, 0);
    resource_io_cancel(&ex->plain);
}

/* Writes the URI of an alias: the path, with the query except the position in a listing. In writes
 * the query has other parameters. */
static void put_alias(struct buf *out, const struct http_request *req)
{
    struct tidings_str rest = is_write(req->method) ? STR_EMPTY : req->query;
    char before = '?';
    buf_puts(out, req->path);
    while (rest.len > 0) {
        struct tidings_str one = str_cut(rest, '&', &rest, NULL);
        if (!str_starts(one, STR(AFTER "="))) {
            buf_putc(out, before);
            buf_puts(out, one);
            before = '&';
        }
    }
}

/* Gets the requested URI; returns false after answering. */
static bool find_uri(struct http_exchange *ex, const struct http_request *req)
{
    bool is_alias = !str_eq(req->path, STR(RESOURCE_PATH));
    int rc = is_alias ? 1 : http_query_get(req->query, "uri", &ex->uri);
    if (is_alias && http_worker_of(ex->conn)->config->metrics &&
        str_eq(req->path, STR(METRICS_PATH))) {
        buf_puts(&ex->uri, STR(METRICS_URI));
    } else if (is_alias) {
        put_alias(&ex->uri, req);
    }
    int after = http_query_get(req->query, AFTER, &ex->after);
    if (rc == TIDINGS_E_NOMEM || after == TIDINGS_E_NOMEM) {
        resource_refuse(ex->conn, 503, "out of memory");
        return false;
    }
    if (after < 0) {
        resource_refuse(ex->conn, 400, "the parameter '" AFTER "' must come once, percent-encoded");
        return false;
    }
    if (rc == 1 && ex->uri.len > 0 && !ex->uri.failed) {
        return true;
    }
    resource_refuse(ex->conn, 400,
                    rc < 0 ? "the parameter 'uri' must come once, percent-encoded"
                           : "the parameter 'uri' is missing: /resource?uri=file%3A%2F%2F%2Fa.txt");
    return false;
}

void conn_run_resource(struct http_conn *conn, const struct http_request *req)
{
    struct http_exchange *ex = mem_zalloc(sizeof(*ex));
    if (!ex) {
        resource_refuse(conn, 503, "out of memory");
        return;
    }
    struct resource_io *p = &ex->plain;
    const char *wrong = NULL;
    int status = 0;
    bool writes = is_write(req->method);
    ex->conn = conn;
    buf_init(&ex->uri, HTTP_MAX_TARGET);
    buf_init(&ex->after, HTTP_MAX_TARGET);
    buf_init(&ex->request, 0);
    resource_io_init(p, conn->base.channel.worker, http_exchange_done, ex);
    http_exchange_open_output(ex);
    p->principal = conn->base.channel.principal;
    if (!find_uri(ex, req)) {
        http_exchange_free(ex);
        return;
    }
    p->as_requested = buf_str(&ex->uri);
    p->after = buf_str(&ex->after);
    http_conditions_read(&ex->conditions, req, clock_wall_ms());
    if (writes) {
        wrong = write_fields(ex, req, &status);
    } else {
        resource_read_range(p, req);
        resource_read_conditions(ex, req);
        p->options.format_count = http_parse_accept(http_header(req, "accept", NULL),
                                                    p->options.formats, READ_FORMATS_MAX);
    }
    p->account = writes && !wrong ? channel_account(&conn->base.channel) : NULL;
    if (writes && !wrong && !p->account) {
        wrong = "out of memory";
        status = 503;
    }
    if (wrong) {
        resource_refuse(conn, status, wrong);
        http_exchange_free(ex);
        return;
    }
    conn_set_work(conn, ex, resource_abandon);
    resource_io_start(p, !writes                     ? RESOURCE_IO_READ
                         : req->method == HTTP_PUT   ? RESOURCE_IO_WRITE
                         : req->method == HTTP_PATCH ? RESOURCE_IO_PATCH
                                                     : RESOURCE_IO_REMOVE);
}
