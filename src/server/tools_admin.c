/* SPDX-License-Identifier: MIT
 *
 * The tools that clients publish with: the equivalents of `PUT` and `DELETE` of a resource and
 * `POST /notify` over HTTP, for a model. Writes to a provider's own resources go to publish.c. The
 * tools are offered if clients may write (`--allow-write`), for the same URIs and under the same
 * conditions.
 */
#include "server/tools_admin.h"

#include <stdio.h>

#include <tidings/tool.h>

#include "base/encode.h"
#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "engine/catalog/roots.h"
#include "engine/delivery/delivery.h"
#include "engine/delivery/notify.h"
#include "engine/delivery/subscriber.h"
#include "engine/protocol/call.h"
#include "engine/protocol/channel.h"
#include "engine/protocol/method_listen.h"
#include "engine/protocol/request.h"
#include "formats/http_fields.h"
#include "formats/json_write.h"
#include "formats/uri.h"
#include "security/access.h"
#include "server/registry.h"
#include "server/server_internal.h"
#include "store/change.h"

/* -------------------------------------------------------------------------------------------------
 * Disconnecting clients: each worker gets one message and ends the matching clients on its own
 * thread. A session ends with its streams, a listen gets its result, a message connection is
 * closed; if a client no longer reads, its stream is cut. Standard input stays open, because the
 * server would end with it; only its subscriptions end.
 */

#define PEERS_URI ACCESS_OPERATOR_URI

struct ending_reply {
    struct thread_message message;
    struct ending *ending;
};

struct ending {
    struct tidings_call *call;
    uint64_t peer; /* 0: by principal */
    char principal[PRINCIPAL_MAX];
    uint64_t count; /* atomic: ended */
    size_t left;    /* atomic: workers that have not answered */
    struct ending_reply replies[];
};

/* ---- on a worker ----------------------------------------------------------------------------- */

static void end_one(struct subscriber *subscriber)
{
    struct channel *channel = subscriber_channel(subscriber);
    struct channel_facts facts;
    subscriber_get_facts(subscriber, &facts);
    bool is_stdio = facts.listener && strcmp(facts.listener, "stdio") == 0;
    if (channel && !channel->ops->is_http && !is_stdio) {
        static const struct response_headers none;
        struct sink *sink = channel->ops->stream(channel, &none);
        sink->ops->cut(sink, "ended by end_peer");
        return;
    }
    if (subscriber->sink && facts.stalled_ms > 0) {
        bool is_session = subscriber->ops && subscriber->ops->session_id;
        subscriber->sink->ops->cut(subscriber->sink, "ended by end_peer");
        if (!is_session) {
            return; /* it ended with its stream */
        }
    }
    subscriber_disconnect(subscriber);
}

static bool is_meant(const struct ending *e, const struct subscriber *subscriber)
{
    const struct principal *p = subscriber->principal;
    return e->peer > 0 ? subscriber_id(subscriber) == e->peer
                       : p && p->name.len > 0 && str_eq(p->name, tidings_str(e->principal));
}

static void end_on_worker(struct ending *e, const struct worker *worker)
{
    list_each (it, next, &worker->delivery->subscribers) {
        struct subscriber *subscriber = list_entry(it, struct subscriber, link);
        if (is_meant(e, subscriber)) {
            __atomic_add_fetch(&e->count, 1, __ATOMIC_RELAXED);
            end_one(subscriber);
        }
    }
}

/* ---- messages -------------------------------------------------------------------------------- */

static void end_peer_finish(struct ending *e)
{
    struct tidings_call *call = e->call;
    struct tidings_error err = {0};
    char text[48];
    int n = snprintf(text, sizeof(text), "{\"ended\":%llu}", (unsigned long long)e->count);
    int rc = tidings_call_structured(call, tidings_strn(text, (size_t)n), &err);
    mem_free(e);
    tidings_call_done(call, rc, &err);
}

static void end_peer_reply_done(struct ending_reply *reply)
{
    struct ending *e = reply->ending;
    if (__atomic_sub_fetch(&e->left, 1, __ATOMIC_ACQ_REL) == 0) {
        end_peer_finish(e);
    }
}

static void end_peer_deliver(struct thread_message *message, void *owner)
{
    struct ending_reply *reply = list_entry(message, struct ending_reply, message);
    end_on_worker(reply->ending, owner);
    end_peer_reply_done(reply);
}

static void end_peer_drop(struct thread_message *message)
{
    end_peer_reply_done(list_entry(message, struct ending_reply, message));
}

static void end_peer_log(const struct tidings_call *call, const struct ending *e)
{
    struct tidings_str reason = tidings_call_string(call, "reason");
    const struct principal *by = call->principal;
    const char *asked = !by ? "program" : by->name.len > 0 ? by->name.ptr : "anonymous";
    log_info(LOG_DELIVERY, "ending peers",
             e->peer > 0 ? KV("peer", e->peer) : KV("principal", tidings_str(e->principal)),
             KV("by", asked), KV("reason", reason));
}

/* The peer or principal to disconnect. The schema ensures that exactly one is present. */
static int end_peer_read(const struct tidings_call *call, struct ending *e,
                         struct tidings_error *err)
{
    struct tidings_str peer = tidings_call_string(call, "peer");
    struct tidings_str principal = tidings_call_string(call, "principal");
    if (principal.len > 0) {
        snprintf(e->principal, sizeof(e->principal), "%.*s", STR_ARG(principal));
        return 0;
    }
    return str_to_u64(peer, &e->peer) && e->peer > 0
               ? 0
               : tidings_fail(err, TIDINGS_E_INVALID,
                              "'peer' must be a number, as 'peer' in " PEERS_URI " says it");
}

static void end_peer_call(void *user, struct tidings_call *call)
{
    struct tidings_server *s = user;
    struct tidings_error err = {0};
    size_t count = s->workers.count;
    struct ending *e = mem_zalloc(sizeof(*e) + count * sizeof(e->replies[0]));
    int rc =
        e ? end_peer_read(call, e, &err) : tidings_fail(&err, TIDINGS_E_NOMEM, "out of memory");
    if (rc < 0) {
        mem_free(e);
        tidings_call_done(call, rc, &err);
        return;
    }
    e->call = call;
    e->left = count;
    end_peer_log(call, e);
    for (size_t i = 0; i < count; i++) {
        e->replies[i].ending = e;
        e->replies[i].message.deliver = end_peer_deliver;
        e->replies[i].message.drop = end_peer_drop;
    }
    for (size_t i = 0; i < count; i++) { /* after the last message it may be freed */
        mailbox_send(s->workers.cores[i]->mailbox, &e->replies[i].message);
    }
}

/* ---- the tool -------------------------------------------------------------------------------- */

static const char end_peer_input[] =
    "{\"type\":\"object\",\"properties\":{\"peer\":{\"type\":\"string\",\"pattern\":\"^[0-9]{1,20}$"
    "\",\"description\":\"the peer to end, as tidings://self/peers names it\"},\"principal\":{"
    "\"type\":\"string\",\"minLength\":1,\"maxLength\":255,\"description\":\"end all peers of this "
    "principal\"},\"reason\":{\"type\":\"string\",\"maxLength\":200,\"description\":\"for the log "
    "of the server\"}},\"oneOf\":[{\"required\":[\"peer\"]},{\"required\":[\"principal\"]}],"
    "\"additionalProperties\":false}";
static const char end_peer_output[] =
    "{\"type\":\"object\",\"properties\":{\"ended\":{\"type\":\"integer\",\"minimum\":0,"
    "\"description\":\"how many there were\"}},\"required\":[\"ended\"]}";

int server_end_peer_add(struct tidings_server *s, struct tidings_error *err)
{
    struct tidings_tool about = {
        .name = STR("end_peer"),
        .title = STR("End a client"),
        .description =
            STR("Ends a client of this server: its session, its streams, its connection. "
                "The client can reconnect. Give the peer that tidings://self/peers lists, or a "
                "principal to end all of its peers."),
        .input_schema = tidings_str(end_peer_input),
        .output_schema = tidings_str(end_peer_output),
        .annotations = STR("{\"readOnlyHint\":false,\"destructiveHint\":true,"
                           "\"idempotentHint\":true,\"openWorldHint\":false}"),
    };
    return server_tools_add_for(s, &about, end_peer_call, s, STR(PEERS_URI), err);
}

void server_end_peer_remove(struct tidings_server *s)
{
    (void)tidings_server_remove_tool(s, STR("end_peer"), NULL);
}

/* -------------------------------------------------------------------------------------------------
 * Answers the tool `my_subscriptions`.
 */

#define OWN_CALL_BYTES (8u << 20)

struct own_subscriptions_call {
    struct own_listing listing;
    struct tidings_call *call;
};

static void own_subscriptions_call_done(struct job *job)
{
    struct own_subscriptions_call *c = job->user;
    struct tidings_call *call = c->call;
    struct tidings_error err = job->err;
    struct buf text;
    struct jw w;
    int rc = job->code;
    buf_init(&text, OWN_CALL_BYTES);
    if (rc == 0) {
        jw_init(&w, &text);
        jw_begin_object(&w);
        own_listing_write(&c->listing, &w);
        jw_end_object(&w);
        rc = buf_check(&text, "the page", NULL, &err);
        rc = rc < 0 ? rc : call_take_structured(call, &text, &err);
    }
    buf_deinit(&text);
    own_listing_deinit(&c->listing);
    mem_free(c);
    tidings_call_done(call, rc, &err);
}

void own_subscriptions_call(void *user, struct tidings_call *call)
{
    (void)user;
    struct tidings_error err;
    struct own_subscriptions_call *c = mem_zalloc(sizeof(*c));
    int rc = c ? own_listing_init(&c->listing, own_subscriber(call->request), call->principal,
                                  tidings_call_string(call, "cursor"), &err)
               : tidings_fail(&err, TIDINGS_E_NOMEM, "out of memory");
    if (rc < 0) {
        mem_free(c);
        tidings_call_done(call, rc, &err);
        return;
    }
    c->call = call;
    job_init(&c->listing.base, call->base.worker, own_subscriptions_call_done, c, STR_EMPTY);
    own_listing_start(&c->listing);
}

/* ---------------------------------------------------------------------------------------------- */

#define ANSWER_MAX 65536u

#define URI_PROPERTY                                                                               \
    "\"uri\":{\"type\":\"string\",\"minLength\":1,\"description\":\"its URI, or the path of a "    \
    "file\"}"
#define IF_MATCH                                                                                   \
    "\"ifMatch\":{\"type\":\"string\",\"minLength\":1,"                                            \
    "\"description\":\"only over content with this etag, or * for any\"}"

#define METADATA                                                                                   \
    "\"metadata\":{\"type\":\"object\","                                                           \
    "\"description\":\"said of the change to subscribers; queries like ?type=error select by "     \
    "it\"}"

static const char publish_input[] =
    "{\"type\":\"object\",\"properties\":{" URI_PROPERTY ","
    "\"text\":{\"type\":\"string\",\"description\":\"the content as text\"},"
    "\"blob\":{\"type\":\"string\",\"contentEncoding\":\"base64\","
    "\"description\":\"or as bytes, base64\"},"
    "\"mimeType\":{\"type\":\"string\",\"maxLength\":255},"
    "\"name\":{\"type\":\"string\",\"maxLength\":1024},"
    "\"title\":{\"type\":\"string\",\"maxLength\":1024},"
    "\"description\":{\"type\":\"string\",\"maxLength\":16384},"
    "\"_meta\":{\"type\":\"object\",\"description\":\"free keys, told with it; 8 KiB\"}," METADATA
    "," IF_MATCH ","
    "\"ifAbsent\":{\"type\":\"boolean\",\"description\":\"only where nothing is\"}},"
    "\"required\":[\"uri\"],\"oneOf\":[{\"required\":[\"text\"]},{\"required\":[\"blob\"]}],"
    "\"additionalProperties\":false}";
static const char publish_output[] =
    "{\"type\":\"object\",\"properties\":{\"uri\":{\"type\":\"string\"},"
    "\"etag\":{\"type\":\"string\"},\"created\":{\"type\":\"boolean\"}},"
    "\"required\":[\"uri\",\"etag\",\"created\"]}";
static const char unpublish_input[] =
    "{\"type\":\"object\",\"properties\":{" URI_PROPERTY "," METADATA "," IF_MATCH "},"
    "\"required\":[\"uri\"],\"additionalProperties\":false}";

static const char notify_input[] =
    "{\"type\":\"object\",\"properties\":{\"changes\":{\"type\":\"array\",\"minItems\":1,"
    "\"maxItems\":1000,\"items\":{\"type\":\"object\",\"properties\":{"
    "\"uri\":{\"type\":\"string\",\"minLength\":1,"
    "\"description\":\"URI of the changed resource, or the path of a file; **: any resource may "
    "have changed\"},"
    "\"kind\":{\"enum\":[\"updated\",\"created\",\"deleted\"],\"default\":\"updated\"}," METADATA
    "},"
    "\"required\":[\"uri\"],\"additionalProperties\":false}}},"
    "\"required\":[\"changes\"],\"additionalProperties\":false}";
_Static_assert(NOTIFY_MAX == 1000, "maxItems in notify_input");
static const char notify_output[] =
    "{\"type\":\"object\",\"properties\":{\"results\":{\"type\":\"array\",\"items\":{"
    "\"type\":\"object\",\"properties\":{\"uri\":{\"type\":\"string\"},"
    "\"told\":{\"type\":\"boolean\"},\"error\":{\"type\":\"string\"},"
    "\"reason\":{\"type\":\"string\"}},\"required\":[\"uri\",\"told\"]}},"
    "\"told\":{\"type\":\"integer\"},\"refused\":{\"type\":\"integer\"}},"
    "\"required\":[\"results\",\"told\",\"refused\"]}";

/* ---- publish --------------------------------------------------------------------------------- */

/* Appends the URI of the argument `uri`, which may be a path. */
static int publish_tools_put_uri(struct tidings_call *call, struct buf *out,
                                 struct tidings_error *err)
{
    struct tidings_str given = tidings_call_string(call, "uri");
    int rc = roots_resolve(call->base.worker->catalog, call->principal, given, out, err);
    if (rc == 0) {
        buf_puts(out, given);
    }
    return rc < 0 ? rc : buf_check(out, "the URI", "use a shorter one", err);
}

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

/* The common arguments of both tools. */
static int read_common(struct tidings_call *call, struct tidings_str uri, struct publication *p,
                       struct buf *metadata, struct tidings_error *err)
{
    int rc = change_put_metadata(metadata, jv_get(call->arguments, "metadata"), err);
    *p = (struct publication){
        .about = {.uri = uri},
        .if_match = tidings_call_string(call, "ifMatch"),
        .metadata = buf_str(metadata),
        .traceparent = tidings_call_traceparent(call),
    };
    return rc;
}

static int read_publication(struct tidings_call *call, struct publication *p, struct buf *bytes,
                            struct tidings_error *err)
{
    p->about.name = tidings_call_string(call, "name");
    p->about.title = tidings_call_string(call, "title");
    p->about.description = tidings_call_string(call, "description");
    p->about.mime_type = tidings_call_string(call, "mimeType");
    p->about.meta = tidings_call_json(call, "_meta");
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
    struct buf json, uri;
    struct jw w;
    buf_init(&uri, URI_MAX * 3);
    int rc = publish_tools_put_uri(call, &uri, err);
    buf_init(&json, ANSWER_MAX);
    jw_init(&w, &json);
    jw_begin_object(&w);
    jw_put_string(&w, STR("uri"), buf_str(&uri));
    jw_put_string(&w, STR("etag"), tidings_str(etag));
    jw_put_bool(&w, STR("created"), created);
    jw_end_object(&w);
    rc = rc < 0 ? rc
                : buf_check(&json, "it was published, but the answer", "use a shorter URI", err);
    rc = rc < 0 ? rc : tidings_call_structured(call, buf_str(&json), err);
    buf_deinit(&json);
    buf_deinit(&uri);
    return rc;
}

static void publish_tools_on_published(void *user, int rc, const char *etag,
                                       const struct tidings_error *why)
{
    struct tidings_error err = *why;
    if (rc >= 0) {
        rc = publish_tools_answer(user, etag, rc == 1, &err);
    }
    tidings_call_done(user, rc, &err);
}

/* Fails if the caller may not write `uri`. */
static int check_access(struct tidings_call *call, struct tidings_str uri,
                        struct tidings_error *err)
{
    struct buf canonical;
    buf_init(&canonical, URI_MAX * 3);
    int rc = uri_canonical(uri, &canonical, err);
    if (rc == 0 && !access_writes(call->principal, buf_str(&canonical))) {
        rc = tidings_fail(err, TIDINGS_E_DENIED, "you may not write '%.*s'", STR_ARG_MAX(uri, 256));
    }
    buf_deinit(&canonical);
    return rc;
}

static bool has_description(const struct tidings_call *call)
{
    return tidings_call_has(call, "name") || tidings_call_has(call, "title") ||
           tidings_call_has(call, "description") || tidings_call_has(call, "_meta");
}

static void on_publish(void *user, struct tidings_call *call)
{
    struct tidings_error err = {0, ""};
    struct publication p = {0};
    struct buf uri, bytes, metadata;
    buf_init(&uri, URI_MAX * 3);
    buf_init(&bytes, 0);
    buf_init(&metadata, 0);
    int rc = publish_tools_put_uri(call, &uri, &err);
    rc = rc == 0 ? check_access(call, buf_str(&uri), &err) : rc;
    rc = rc == 0 ? read_common(call, buf_str(&uri), &p, &metadata, &err) : rc;
    rc = rc == 0 ? read_publication(call, &p, &bytes, &err) : rc;
    p.owner = call->account;
    p.is_operator = access_is_operator(call->principal);
    bool is_written = rc == 0 && server_publish_is_writable(user, call, p.about.uri);
    if (is_written && has_description(call)) {
        rc = tidings_fail(&err, TIDINGS_E_INVALID,
                          "'%.*s' keeps its content only: leave out name, title, description and "
                          "_meta",
                          STR_ARG_MAX(p.about.uri, 128));
    }
    if (rc == 0 && is_written) {
        server_publish_write_then(call, &p, false, publish_tools_on_published);
    } else if (rc == 0) {
        server_publish_put_then(user, &p, publish_tools_on_published, call);
    } else {
        tidings_call_done(call, rc, &err);
    }
    buf_deinit(&bytes);
    buf_deinit(&uri);
    buf_deinit(&metadata);
}

/* ---- unpublish ------------------------------------------------------------------------------- */

static void publish_tools_on_unpublished(void *user, int rc, const char *etag,
                                         const struct tidings_error *why)
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
    struct publication p = {0};
    struct buf uri, metadata;
    buf_init(&uri, URI_MAX * 3);
    buf_init(&metadata, 0);
    int rc = publish_tools_put_uri(call, &uri, &err);
    rc = rc == 0 ? check_access(call, buf_str(&uri), &err) : rc;
    rc = rc == 0 ? read_common(call, buf_str(&uri), &p, &metadata, &err) : rc;
    if (rc == 0 && server_publish_is_writable(user, call, p.about.uri)) {
        server_publish_write_then(call, &p, true, publish_tools_on_unpublished);
    } else if (rc == 0) {
        server_publish_remove_then(user, &p, publish_tools_on_unpublished, call);
    } else {
        tidings_call_done(call, rc, &err);
    }
    buf_deinit(&uri);
    buf_deinit(&metadata);
}

/* ---- notify ---------------------------------------------------------------------------------- */

static void publish_tools_on_notified(void *user, const struct notify_outcome *outcome,
                                      struct buf *answer)
{
    struct tidings_call *call = user;
    struct tidings_error err = {0, ""};
    if (outcome->notified == 0) {
        tidings_call_mark_error(call);
    }
    int rc = buf_check(answer, NOTIFY_ANSWER, "send fewer changes at a time", &err);
    rc = rc < 0 ? rc : call_take_structured(call, answer, &err);
    tidings_call_done(call, rc, &err);
}

static void on_notify(void *user, struct tidings_call *call)
{
    const struct request *request = call->request;
    struct tidings_error err = {0, ""};
    const struct notify n = {
        .worker = call->base.worker,
        .principal = call->principal,
        .account = call->account,
        .quota = request && request->channel ? channel_quota(request->channel) : NULL,
        .origin = tidings_call_origin(call),
        .traceparent = tidings_call_traceparent(call),
        .takes_paths = true,
    };
    (void)user;
    int rc = notify_begin(&n, call->arguments, publish_tools_on_notified, call, &err);
    if (rc < 0) {
        tidings_call_done(call, rc, &err);
    }
}

/* ---- registration ---------------------------------------------------------------------------- */

static const struct {
    const char *name, *title, *description, *input, *output, *annotations;
    tidings_call_fn fn;
} tools[] = {
    {"publish", "Publish a resource", "Creates or replaces a resource and notifies its subscribers",
     publish_input, publish_output, "{\"idempotentHint\":true,\"openWorldHint\":false}",
     on_publish},
    {"unpublish", "Remove a published resource",
     "Removes a published resource and notifies its subscribers", unpublish_input, "",
     "{\"destructiveHint\":true,\"openWorldHint\":false}", on_unpublish},
    {"notify", "Announce changes", "Tells subscribers that resources changed, without new content",
     notify_input, notify_output, "{\"destructiveHint\":false,\"openWorldHint\":false}", on_notify},
};
#define TOOL_COUNT (sizeof(tools) / sizeof(tools[0]))

static void publish_tools_remove(struct tidings_server *s, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        (void)tidings_server_remove_tool(s, tidings_str(tools[i].name), NULL);
    }
}

int server_publish_add_tools(struct tidings_server *s, struct tidings_error *err)
{
    for (size_t i = 0; i < TOOL_COUNT; i++) {
        const struct tidings_tool about = {
            .name = tidings_str(tools[i].name),
            .title = tidings_str(tools[i].title),
            .description = tidings_str(tools[i].description),
            .input_schema = tidings_str(tools[i].input),
            .output_schema = tidings_str(tools[i].output),
            .annotations = tidings_str(tools[i].annotations),
        };
        int rc = tidings_server_add_tool(s, &about, tools[i].fn, &s->publishing, err);
        if (rc < 0) {
            publish_tools_remove(s, i);
            return error_wrap(err, rc, "allow-write");
        }
    }
    s->admin.has_publish_tools = true;
    return 0;
}

void server_publish_remove_tools(struct tidings_server *s)
{
    if (s->admin.has_publish_tools) {
        publish_tools_remove(s, TOOL_COUNT);
        s->admin.has_publish_tools = false;
    }
}
