/* SPDX-License-Identifier: MIT
 *
 * What a handler is asked and what it gives: arguments out, content blocks in. Runs on whichever
 * thread the handler is; one at a time.
 */
#include "base/str.h"
#include "catalog/payload.h"
#include "catalog/resource.h"
#include "handler/call.h"
#include "uri/uri.h"
#include "worker/worker.h"
#include "json/pointer.h"

#define BLOCK_DEPTH 32u /* nesting of JSON that a handler hands in */

/* ---- arguments ------------------------------------------------------------------------------- */

static struct json *call_argument(const struct tidings_call *h, const char *name)
{
    return name[0] == '/' ? jv_point(h->arguments, tidings_str(name)) : jv_get(h->arguments, name);
}

struct tidings_str tidings_call_name(const struct tidings_call *h)
{
    return h->feature->name;
}

struct tidings_str tidings_call_origin(const struct tidings_call *h)
{
    return h->origin.failed ? STR_EMPTY : buf_str(&h->origin);
}

struct tidings_str tidings_call_traceparent(const struct tidings_call *h)
{
    return tidings_str(h->trace.parent);
}

struct tidings_str tidings_call_tracestate(const struct tidings_call *h)
{
    return tidings_str(h->trace.state);
}

struct tidings_str tidings_call_principal(const struct tidings_call *h)
{
    return h->principal ? h->principal->name : STR_EMPTY;
}

_Static_assert((int)TIDINGS_ACCESS_LIST == (int)ACCESS_LIST &&
                   (int)TIDINGS_ACCESS_READ == (int)ACCESS_READ &&
                   (int)TIDINGS_ACCESS_SUBSCRIBE == (int)ACCESS_SUBSCRIBE &&
                   (int)TIDINGS_ACCESS_WRITE == (int)ACCESS_WRITE,
               "one order");

bool tidings_call_may(const struct tidings_call *h, enum tidings_access what,
                      struct tidings_str uri)
{
    struct buf text;
    buf_init(&text, URI_MAX * 3);
    bool needs_read = what == TIDINGS_ACCESS_SUBSCRIBE || what == TIDINGS_ACCESS_WRITE;
    bool may = uri_canonical(uri, &text, NULL) == 0 &&
               access_allows(h->principal, (enum access_op)what, buf_str(&text)) &&
               (!needs_read || access_allows(h->principal, ACCESS_READ, buf_str(&text)));
    buf_deinit(&text);
    return may;
}

static struct tidings_str as_text(struct buf *out, const struct json *value)
{
    struct jw w;
    buf_clear(out);
    jw_init(&w, out);
    jw_value(&w, value);
    return out->failed ? STR_EMPTY : buf_str(out);
}

struct tidings_str tidings_call_arguments(struct tidings_call *h)
{
    if (!h->arguments) {
        return STR("{}");
    }
    return h->arguments_text.len > 0 ? buf_str(&h->arguments_text)
                                     : as_text(&h->arguments_text, h->arguments);
}

bool tidings_call_has(const struct tidings_call *h, const char *name)
{
    return call_argument(h, name) != NULL;
}

struct tidings_str tidings_call_string(const struct tidings_call *h, const char *name)
{
    return jv_str(call_argument(h, name));
}

double tidings_call_number(const struct tidings_call *h, const char *name, double fallback)
{
    const struct json *v = call_argument(h, name);
    return jv_is(v, JV_INT) || jv_is(v, JV_REAL) ? jv_real(v) : fallback;
}

int64_t tidings_call_integer(const struct tidings_call *h, const char *name, int64_t fallback)
{
    const struct json *v = call_argument(h, name);
    if (jv_is(v, JV_REAL)) { /* 3.0 is an integer to a schema, too */
        double d = jv_real(v);
        bool fits = d >= -9007199254740992.0 && d <= 9007199254740992.0;
        return fits && (double)(int64_t)d == d ? (int64_t)d : fallback;
    }
    return jv_is(v, JV_INT) ? jv_int(v) : fallback;
}

bool tidings_call_boolean(const struct tidings_call *h, const char *name, bool fallback)
{
    const struct json *v = call_argument(h, name);
    return jv_is(v, JV_TRUE) || (fallback && !jv_is(v, JV_FALSE));
}

struct tidings_str tidings_call_json(struct tidings_call *h, const char *name)
{
    const struct json *v = call_argument(h, name);
    return v ? as_text(&h->json_text, v) : STR_EMPTY;
}

/* ---- blocks ---------------------------------------------------------------------------------- */

/* Books what the handler has given. What there is no room for goes at once, and with it the call.
 */
static int call_book(struct tidings_call *h, struct tidings_error *err)
{
    size_t held = h->content.cap + h->structured.cap;
    if (held <= PAYLOAD_LONG || output_book_text(&h->output, held, &h->limit)) {
        return 0;
    }
    char sentence[REFUSAL_SENTENCE];
    buf_deinit(&h->content);
    buf_deinit(&h->structured);
    h->content.failed = h->structured.failed = TIDINGS_E_LIMIT;
    return tidings_fail(err, TIDINGS_E_BUSY, "%s", refusal_sentence(&h->limit, sentence));
}

/* One block, written through h->w between these. `bytes` of content are counted against the limit.
 */
static int call_begin_block(struct tidings_call *h, size_t bytes, struct tidings_error *err)
{
    size_t max = h->base.worker->limits->max_read_bytes;
    if (bytes > max - h->bytes) {
        return tidings_fail(err, TIDINGS_E_LIMIT,
                            "the content exceeds the limit of %zu bytes (--max-read)", max);
    }
    h->bytes += bytes;
    if (h->block_count++ == 0) {
        jw_init(&h->w, &h->content);
        jw_begin_array(&h->w);
    }
    h->kind->begin_block(h);
    jw_begin_object(&h->w);
    return 0;
}

static int call_end_block(struct tidings_call *h, struct tidings_error *err)
{
    jw_end_object(&h->w);
    h->kind->end_block(h);
    int rc = call_book(h, err);
    return rc < 0 ? rc : buf_check(&h->content, "the content", "give less of it", err);
}

int tidings_call_text(struct tidings_call *h, struct tidings_str text, struct tidings_error *err)
{
    int rc = call_begin_block(h, text.len, err);
    if (rc < 0) {
        return rc;
    }
    jw_put_string(&h->w, STR("type"), STR("text"));
    jw_put_string(&h->w, STR("text"), text);
    return call_end_block(h, err);
}

static int call_put_media(struct tidings_call *h, struct tidings_str type, struct tidings_str bytes,
                          const char *mime_type, struct tidings_error *err)
{
    if (!mime_type || !mime_type[0]) {
        return tidings_fail(err, TIDINGS_E_INVALID, "an image or sound needs a media type");
    }
    int rc = call_begin_block(h, bytes.len, err);
    if (rc < 0) {
        return rc;
    }
    jw_put_string(&h->w, STR("type"), type);
    jw_key(&h->w, STR("data"));
    jw_base64(&h->w, bytes);
    jw_put_string(&h->w, STR("mimeType"), tidings_str(mime_type));
    return call_end_block(h, err);
}

int tidings_call_image(struct tidings_call *h, struct tidings_str bytes, const char *mime_type,
                       struct tidings_error *err)
{
    return call_put_media(h, STR("image"), bytes, mime_type, err);
}

int tidings_call_audio(struct tidings_call *h, struct tidings_str bytes, const char *mime_type,
                       struct tidings_error *err)
{
    return call_put_media(h, STR("audio"), bytes, mime_type, err);
}

int tidings_call_resource(struct tidings_call *h, const struct tidings_resource *about,
                          struct tidings_str content, struct tidings_error *err)
{
    if (!about || about->uri.len == 0 || about->name.len == 0) {
        return tidings_fail(err, TIDINGS_E_INVALID, "a resource needs a URI and a name");
    }
    int rc = resource_check(about, err);
    rc = rc < 0 ? rc : call_begin_block(h, content.len, err);
    if (rc < 0) {
        return rc;
    }
    resource_write_embedded(&h->w, about, content, str_is_utf8(content));
    return call_end_block(h, err);
}

int tidings_call_link(struct tidings_call *h, const struct tidings_resource *about,
                      struct tidings_error *err)
{
    if (!about || about->uri.len == 0 || about->name.len == 0) {
        return tidings_fail(err, TIDINGS_E_INVALID, "a link needs a URI and a name");
    }
    int rc = resource_check(about, err);
    rc = rc < 0 ? rc : call_begin_block(h, 0, err);
    if (rc < 0) {
        return rc;
    }
    resource_write_link(&h->w, about);
    return call_end_block(h, err);
}

/* An object that a handler hands in as text. */
static int read_object(struct tidings_str json, const char *what, struct json **ret,
                       struct tidings_error *err)
{
    struct tidings_error why;
    int rc = jv_parse(json, BLOCK_DEPTH, ret, &why);
    if (rc < 0) {
        return tidings_fail(err, rc, "%s: %s", what, why.text);
    }
    if (!jv_is(*ret, JV_OBJECT)) {
        jv_unref(*ret);
        return tidings_fail(err, TIDINGS_E_INVALID, "%s must be a JSON object", what);
    }
    return 0;
}

int tidings_call_block(struct tidings_call *h, struct tidings_str json, struct tidings_error *err)
{
    struct json *block = NULL;
    int rc = read_object(json, "a block", &block, err);
    if (rc < 0) {
        return rc;
    }
    if (!jv_is(jv_get(block, "type"), JV_STRING)) {
        rc = tidings_fail(err, TIDINGS_E_INVALID, "a block needs a string 'type'");
    }
    rc = rc < 0 ? rc : call_begin_block(h, json.len, err);
    if (rc == 0) {
        resource_write_block(&h->w, block);
        rc = call_end_block(h, err);
    }
    jv_unref(block);
    return rc;
}

static int check_size(const struct tidings_call *h, size_t bytes, struct tidings_error *err)
{
    size_t max = h->base.worker->limits->max_read_bytes;
    return bytes <= max
               ? 0
               : tidings_fail(err, TIDINGS_E_LIMIT,
                              "structured content exceeds the limit of %zu bytes (--max-read)",
                              max);
}

int call_take_structured(struct tidings_call *h, struct buf *json, struct tidings_error *err)
{
    int rc = check_size(h, json->len, err);
    if (rc == 0) {
        buf_deinit(&h->structured);
        h->structured = *json;
        h->is_judged = true;
        buf_init(json, 0);
        rc = call_book(h, err);
    }
    return rc;
}

int tidings_call_structured(struct tidings_call *h, struct tidings_str json,
                            struct tidings_error *err)
{
    struct json *value = NULL;
    int rc = read_object(json, "structured content", &value, err);
    if (rc < 0) {
        return rc;
    }
    rc = check_size(h, json.len, err);
    if (rc == 0) {
        (void)as_text(&h->structured, value);
        rc = call_book(h, err);
        rc = rc < 0 ? rc : buf_check(&h->structured, "structured content", "give less of it", err);
    }
    jv_unref(value);
    return rc;
}

void tidings_call_mark_error(struct tidings_call *h)
{
    h->is_error = true;
}

void tidings_call_set_assistant(struct tidings_call *h, bool is_assistant)
{
    h->is_assistant = is_assistant;
}
