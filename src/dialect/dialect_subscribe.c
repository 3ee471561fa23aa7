/* SPDX-License-Identifier: MIT
 *
 * What a client is told when it has subscribed: the result of resources/subscribe, and the
 * acknowledgement that subscriptions/listen begins with.
 */
#include "base/str.h"
#include "dialect/dialect.h"
#include "store/change.h"
#include "json/write.h"

static void put_cursor_member(struct jw *w, struct tidings_str cursor)
{
    jw_put_string(w, STR("dev.tidings/cursor"), cursor);
}

static void begin_warnings(struct jw *w)
{
    jw_key(w, STR("dev.tidings/warnings"));
    jw_begin_array(w);
}

static void put_warning(struct jw *w, struct tidings_str uri, struct tidings_str warning)
{
    jw_begin_object(w);
    jw_put_string(w, STR("uri"), uri);
    jw_put_string(w, STR("reason"), warning);
    jw_end_object(w);
}

void dialect_put_subscribed(struct jw *w, struct tidings_str cursor, struct tidings_str uri,
                            struct tidings_str warning)
{
    jw_key(w, STR("_meta"));
    jw_begin_object(w);
    put_cursor_member(w, cursor);
    if (warning.len > 0) {
        begin_warnings(w);
        put_warning(w, uri, warning);
        jw_end_array(w);
    }
    jw_end_object(w);
}

static void put_warnings(struct jw *w, const struct dialect_acknowledged *a)
{
    bool any = false;
    for (size_t i = 0; i < a->count; i++) {
        struct dialect_acknowledged_uri row = a->uri(a->user, i);
        if (row.is_refused || row.warning.len == 0) {
            continue;
        }
        if (!any) {
            any = true;
            begin_warnings(w);
        }
        put_warning(w, row.uri, row.warning);
    }
    if (any) {
        jw_end_array(w);
    }
}

static void put_refused(struct jw *w, const struct dialect_acknowledged *a)
{
    bool any = false;
    for (size_t i = 0; i < a->count; i++) {
        struct dialect_acknowledged_uri row = a->uri(a->user, i);
        if (!row.is_refused || row.task_id.len > 0) {
            continue;
        }
        if (!any) {
            any = true;
            jw_key(w, STR("dev.tidings/refused"));
            jw_begin_array(w);
        }
        jw_begin_object(w);
        jw_put_string(w, STR("uri"), row.uri);
        jw_put_string(w, STR("reason"), row.reason);
        if (row.details_json.len > 0) {
            jw_put_raw(w, STR("data"), row.details_json);
        }
        jw_end_object(w);
    }
    if (any) {
        jw_end_array(w);
    }
}

/* Those of one kind, if there are any. */
static void put_honoured_as(struct jw *w, const struct dialect_acknowledged *a, bool are_tasks)
{
    bool any = false;
    for (size_t i = 0; i < a->count; i++) {
        struct dialect_acknowledged_uri row = a->uri(a->user, i);
        if (row.is_refused || (row.task_id.len > 0) != are_tasks) {
            continue;
        }
        if (!any) {
            any = true;
            jw_key(w, are_tasks ? STR("taskIds") : STR("resourceSubscriptions"));
            jw_begin_array(w);
        }
        jw_string(w, are_tasks ? row.task_id : row.uri);
    }
    if (any) {
        jw_end_array(w);
    }
}

static void put_honoured(struct jw *w, const struct dialect_acknowledged *a)
{
    static const struct {
        struct tidings_str name;
        unsigned list;
    } flags[] = {
        {{"toolsListChanged", 16}, LIST_TOOLS},
        {{"promptsListChanged", 18}, LIST_PROMPTS},
        {{"resourcesListChanged", 20}, LIST_RESOURCES},
    };
    jw_begin_object(w);
    for (size_t i = 0; i < LIST_COUNT; i++) {
        if (a->lists & flags[i].list) {
            jw_put_bool(w, flags[i].name, true);
        }
    }
    put_honoured_as(w, a, false);
    put_honoured_as(w, a, true);
    jw_end_object(w);
}

void dialect_put_acknowledged(struct buf *out, const struct dialect_acknowledged *a)
{
    struct jw w;
    jw_init(&w, out);
    jw_begin_object(&w);
    jw_put_string(&w, STR("jsonrpc"), STR("2.0"));
    jw_put_string(&w, STR("method"), STR("notifications/subscriptions/acknowledged"));
    jw_key(&w, STR("params"));
    jw_begin_object(&w);
    jw_key(&w, STR("notifications"));
    put_honoured(&w, a);
    jw_key(&w, STR("_meta"));
    jw_begin_object(&w);
    jw_put_raw(&w, STR("io.modelcontextprotocol/subscriptionId"), a->listen_id_json);
    put_cursor_member(&w, a->cursor);
    put_refused(&w, a);
    put_warnings(&w, a);
    jw_end_object(&w);
    jw_end_object(&w);
    jw_end_object(&w);
}
