/* SPDX-License-Identifier: MIT
 *
 * JSON-RPC 2.0 envelopes: validation. Every error names the invalid member. Methods, parameters and
 * results are not interpreted.
 */
#include "formats/rpc.h"

#include "base/str.h"

/* -------------------------------------------------------------------------------------------------
 * Newline framing. Invariant between calls: bytes before `start` were consumed, no LF is between
 * `start` and `scanned`, so every byte is searched once. Consumed bytes are removed when the reader
 * is empty, not line by line, so that many short lines in one read cost no moves.
 */

void line_reader_init(struct line_reader *r, size_t max_line)
{
    *r = (struct line_reader){.max = max_line};
    buf_init(&r->in, SIZE_MAX); /* bounded by max_line and one feed; see the header */
}

void line_reader_deinit(struct line_reader *r)
{
    if (r) {
        buf_deinit(&r->in);
    }
}

static void drop_spent(struct line_reader *r)
{
    if (r->start == r->in.len) {
        buf_deinit(&r->in);
        r->scanned = 0;
    } else {
        buf_consume(&r->in, r->start);
        r->scanned -= r->start;
    }
    r->start = 0;
}

int line_reader_feed(struct line_reader *r, const char *bytes, size_t len)
{
    if (r->skipping) {
        const char *lf = len > 0 ? memchr(bytes, '\n', len) : NULL;
        if (!lf) {
            return 0;
        }
        len -= (size_t)(lf + 1 - bytes);
        bytes = lf + 1;
        r->skipping = false;
    }
    if (len == 0) {
        return 0;
    }
    if (r->start > 0) {
        drop_spent(r);
    }
    int rc = buf_put(&r->in, bytes, len);
    if (rc < 0) {
        r->in.failed = 0; /* nothing was added: the caller can try again */
        return TIDINGS_E_NOMEM;
    }
    return 0;
}

/* Without the CR of a CRLF. */
static struct tidings_str trim_cr(struct tidings_str line)
{
    if (line.len > 0 && line.ptr[line.len - 1] == '\r') {
        line.len--;
    }
    return line;
}

static bool is_blank(struct tidings_str line)
{
    return str_trim(line, " \t\r").len == 0;
}

enum line_result line_reader_next(struct line_reader *r, struct tidings_str *line)
{
    while (r->scanned < r->in.len) {
        char *from = r->in.ptr + r->scanned;
        char *lf = memchr(from, '\n', r->in.len - r->scanned);
        if (!lf) {
            r->scanned = r->in.len;
            break;
        }
        char *begin = r->in.ptr + r->start;
        struct tidings_str found = trim_cr(tidings_strn(begin, (size_t)(lf - begin)));
        r->start = r->scanned = (size_t)(lf + 1 - r->in.ptr);
        if (found.len > r->max) {
            return LINE_TOO_LONG;
        }
        if (!is_blank(found)) {
            *line = found;
            return LINE_READY;
        }
    }
    drop_spent(r);
    /* One more byte can be the CR. */
    if (trim_cr(buf_str(&r->in)).len > r->max) {
        buf_deinit(&r->in);
        r->scanned = 0;
        r->skipping = true;
        return LINE_TOO_LONG;
    }
    return LINE_MORE;
}

enum line_result line_reader_finish(struct line_reader *r, struct tidings_str *line)
{
    enum line_result result = line_reader_next(r, line);
    if (result != LINE_MORE) {
        return result;
    }
    struct tidings_str rest = trim_cr(buf_str(&r->in));
    r->start = r->scanned = r->in.len;
    r->skipping = false;
    if (is_blank(rest)) {
        drop_spent(r);
        return LINE_MORE;
    }
    *line = rest;
    return LINE_READY;
}

bool line_reader_is_idle(const struct line_reader *r)
{
    return r->start == r->in.len && !r->skipping;
}

/* ---------------------------------------------------------------------------------------------- */

static int rpc_refuse(struct tidings_error *err, const char *why)
{
    return tidings_fail(err, TIDINGS_E_PARSE, "%s", why);
}

/* NULL, or the error in this id. */
static const char *check_id(const struct json *id)
{
    if (jv_is(id, JV_INT)) {
        return NULL;
    }
    if (!jv_is(id, JV_STRING)) {
        return "'id' must be a string or an integer";
    }
    return jv_str(id).len > RPC_MAX_ID ? "'id' must be at most 1024 bytes long" : NULL;
}
_Static_assert(RPC_MAX_ID == 1024u && RPC_MAX_METHOD == 256u, "the sentences say so");

static int read_call(struct json *value, struct json *id, struct rpc_message *out,
                     struct tidings_error *err)
{
    struct json *method = jv_get(value, "method");
    struct json *params = jv_get(value, "params");
    if (!jv_is(method, JV_STRING) || jv_str(method).len == 0) {
        return rpc_refuse(err, "'method' must be a string that is not empty");
    }
    if (jv_str(method).len > RPC_MAX_METHOD) {
        return rpc_refuse(err, "'method' must be at most 256 bytes long");
    }
    if (params && !jv_is(params, JV_OBJECT)) {
        return rpc_refuse(err, "'params' must be an object");
    }
    out->kind = id ? RPC_REQUEST : RPC_NOTIFICATION;
    out->method = jv_str(method);
    out->params = params;
    return 0;
}

static int read_response(struct json *value, const struct json *id, struct rpc_message *out,
                         struct tidings_error *err)
{
    struct json *error = jv_get(value, "error");
    if (error && jv_get(value, "result")) {
        return rpc_refuse(err, "a response holds 'result' or 'error', not both");
    }
    if (error && !jv_is(error, JV_OBJECT)) {
        return rpc_refuse(err, "'error' must be an object");
    }
    if (!error && !id) {
        return rpc_refuse(err, "'id' is missing");
    }
    out->kind = RPC_RESPONSE;
    return 0;
}

int rpc_read(struct json *value, struct rpc_message *out, struct tidings_error *err)
{
    *out = (struct rpc_message){.method = STR_EMPTY};
    if (!jv_is(value, JV_OBJECT)) {
        return rpc_refuse(err, "a message must be a JSON object");
    }
    bool is_call = jv_get(value, "method") != NULL;
    bool is_error = !is_call && jv_get(value, "error") != NULL;
    struct json *id = jv_get(value, "id");
    if (is_error && jv_is(id, JV_NULL)) {
        id = NULL; /* JSON-RPC 2.0 §5: the peer could not read the id of the request */
    }
    const char *bad_id = id ? check_id(id) : NULL;
    if (!bad_id) {
        out->id = id;
    }
    if (!str_eq(jv_str(jv_get(value, "jsonrpc")), STR("2.0"))) {
        return rpc_refuse(err, "'jsonrpc' must be \"2.0\"");
    }
    if (bad_id) {
        return rpc_refuse(err, bad_id);
    }
    bool is_answer = is_error || jv_get(value, "result") != NULL;
    if (is_call && (is_answer || jv_get(value, "error"))) {
        return rpc_refuse(err, "a message with 'method' must not hold 'result' or 'error'");
    }
    if (is_call) {
        return read_call(value, id, out, err);
    }
    if (is_answer) {
        return read_response(value, id, out, err);
    }
    return rpc_refuse(err, "'method' is missing");
}
