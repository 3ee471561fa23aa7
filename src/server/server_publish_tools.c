/* SPDX-License-Identifier: MIT
 *
 * Publishing by tools: what `PUT` and `DELETE` do over HTTP, for a model. Offered while clients may
 * write (`--allow-write`), below the same prefixes and with the same conditions.
 */
#include <tidings/tool.h>

#include "base/error.h"
#include "base/str.h"
#include "handler/call.h"
#include "server/server_private.h"
#include "uri/uri.h"
#include "wire/http_fields.h"
#include "json/write.h"

#define ANSWER_MAX 65536u

#define URI_PROPERTY "\"uri\":{\"type\":\"string\",\"minLength\":1,\"description\":\"its URI\"}"
#define IF_MATCH                                                                                   \
    "\"ifMatch\":{\"type\":\"string\",\"minLength\":1,"                                            \
    "\"description\":\"only over content with this etag, or * for any\"}"

static const char publish_input[] =
    "{\"type\":\"object\",\"properties\":{" URI_PROPERTY ","
    "\"text\":{\"type\":\"string\",\"description\":\"the content as text\"},"
    "\"blob\":{\"type\":\"string\",\"contentEncoding\":\"base64\","
    "\"description\":\"or as bytes, base64\"},"
    "\"mimeType\":{\"type\":\"string\",\"maxLength\":255},"
    "\"name\":{\"type\":\"string\",\"maxLength\":1024},"
    "\"title\":{\"type\":\"string\",\"maxLength\":1024},"
    "\"description\":{\"type\":\"string\",\"maxLength\":16384}," IF_MATCH ","
    "\"ifAbsent\":{\"type\":\"boolean\",\"description\":\"only where nothing is\"}},"
    "\"required\":[\"uri\"],\"oneOf\":[{\"required\":[\"text\"]},{\"required\":[\"blob\"]}],"
    "\"additionalProperties\":false}";
static const char publish_output[] =
    "{\"type\":\"object\",\"properties\":{\"uri\":{\"type\":\"string\"},"
    "\"etag\":{\"type\":\"string\"},\"created\":{\"type\":\"boolean\"}},"
    "\"required\":[\"uri\",\"etag\",\"created\"]}";
static const char unpublish_input[] =
    "{\"type\":\"object\",\"properties\":{" URI_PROPERTY "," IF_MATCH "},"
    "\"required\":[\"uri\"],\"additionalProperties\":false}";

/* ---- publish --------------------------------------------------------------------------------- */

static int read_content(struct tidings_call *call, struct buf *bytes, struct tidings_str *ret,
                        struct tidings_error *err)
{
    struct tidings_str blob = tidings_call_string(call, "blob");
    *ret = tidings_call_string(call, "text");
    if (!tidings_call_has(call, "blob")) {
        return 0;
    }
    buf_init(bytes, blob.len + 1);
    int rc = base64_decode(bytes, blob);
    *ret = buf_str(bytes);
    return rc < 0 ? tidings_fail(err, TIDINGS_E_INVALID, "'blob' must be base64 with padding") : 0;
}

static int read_publication(struct tidings_call *call, struct publication *p, struct buf *bytes,
                            struct tidings_error *err)
{
    p->about = (struct tidings_resource){0};
    p->about.uri = tidings_call_string(call, "uri");
    p->about.name = tidings_call_string(call, "name");
    p->about.title = tidings_call_string(call, "title");
    p->about.description = tidings_call_string(call, "description");
    p->about.mime_type = tidings_call_string(call, "mimeType");
    p->if_match = tidings_call_string(call, "ifMatch");
    p->if_absent = tidings_call_boolean(call, "ifAbsent", false);
    if (p->about.mime_type.len > 0 && !http_is_media_type(p->about.mime_type)) {
        return tidings_fail(err, TIDINGS_E_INVALID,
                            "'mimeType' must be a media type such as text/markdown");
    }
    return read_content(call, bytes, &p->content, err);
}

static int publish_tools_answer(struct tidings_call *call, const char *etag, bool created,
                                struct tidings_error *err)
{
    struct buf json;
    struct jw w;
    buf_init(&json, ANSWER_MAX);
    jw_init(&w, &json);
    jw_begin_object(&w);
    jw_put_string(&w, STR("uri"), tidings_call_string(call, "uri"));
    jw_put_string(&w, STR("etag"), tidings_str(etag));
    jw_put_bool(&w, STR("created"), created);
    jw_end_object(&w);
    int rc = json.failed ? tidings_fail(err, json.failed, "the answer does not fit")
                         : tidings_call_structured(call, buf_str(&json), err);
    buf_deinit(&json);
    return rc;
}

static void published(void *user, int rc, const char *etag, const struct tidings_error *why)
{
    struct tidings_error err = *why;
    if (rc >= 0) {
        rc = publish_tools_answer(user, etag, rc == 1, &err);
    }
    tidings_call_done(user, rc, &err);
}

/* May whoever calls write what it names? */
static int check_access(struct tidings_call *call, struct tidings_error *err)
{
    struct tidings_str uri = tidings_call_string(call, "uri");
    struct buf canonical;
    buf_init(&canonical, URI_MAX * 3);
    int rc = uri_canonical(uri, &canonical, err);
    if (rc == 0 && !access_writes(call->principal, buf_str(&canonical))) {
        rc = tidings_fail(err, TIDINGS_E_DENIED, "you may not write '%.*s'",
                          (int)(uri.len < 256 ? uri.len : 256), uri.ptr);
    }
    buf_deinit(&canonical);
    return rc;
}

static void on_publish(void *user, struct tidings_call *call)
{
    struct tidings_error err = {0, ""};
    struct publication p = {0};
    struct buf bytes;
    buf_init(&bytes, 0);
    int rc = check_access(call, &err);
    rc = rc == 0 ? read_publication(call, &p, &bytes, &err) : rc;
    if (rc == 0) {
        server_publish_put_then(user, &p, published, call);
    } else {
        tidings_call_done(call, rc, &err);
    }
    buf_deinit(&bytes);
}

/* ---- unpublish ------------------------------------------------------------------------------- */

static void unpublished(void *user, int rc, const char *etag, const struct tidings_error *why)
{
    struct tidings_error err = *why;
    (void)etag;
    if (rc == 0) {
        rc = tidings_call_text(user, STR("removed"), &err);
    }
    tidings_call_done(user, rc, &err);
}

static void on_unpublish(void *user, struct tidings_call *call)
{
    struct tidings_error err = {0, ""};
    int rc = check_access(call, &err);
    if (rc < 0) {
        tidings_call_done(call, rc, &err);
        return;
    }
    server_publish_remove_then(user, tidings_call_string(call, "uri"),
                               tidings_call_string(call, "ifMatch"), unpublished, call);
}

/* ---- both ------------------------------------------------------------------------------------ */

int server_publish_add_tools(struct tidings_server *s, struct tidings_error *err)
{
    struct tidings_tool publish = {
        .name = STR("publish"),
        .title = STR("Publish a resource"),
        .description = STR("Creates or replaces a resource; subscribers are told when it changed"),
        .input_schema = tidings_str(publish_input),
        .output_schema = tidings_str(publish_output),
        .annotations = STR("{\"idempotentHint\":true,\"openWorldHint\":false}"),
    };
    struct tidings_tool unpublish = {
        .name = STR("unpublish"),
        .title = STR("Remove a published resource"),
        .description = STR("Removes a resource that was published; subscribers are told"),
        .input_schema = tidings_str(unpublish_input),
        .annotations = STR("{\"destructiveHint\":true,\"openWorldHint\":false}"),
    };
    int rc = tidings_server_add_tool(s, &publish, on_publish, s, err);
    if (rc == 0) {
        rc = tidings_server_add_tool(s, &unpublish, on_unpublish, s, err);
        if (rc < 0) {
            (void)tidings_server_remove_tool(s, publish.name, NULL);
        }
    }
    s->has_publish_tools = rc == 0;
    return rc < 0 ? error_wrap(err, rc, "allow-write") : 0;
}

void server_publish_remove_tools(struct tidings_server *s)
{
    if (s->has_publish_tools) {
        (void)tidings_server_remove_tool(s, STR("publish"), NULL);
        (void)tidings_server_remove_tool(s, STR("unpublish"), NULL);
        s->has_publish_tools = false;
    }
}
