/* SPDX-License-Identifier: MIT
 *
 * Notifications other than updates: lists that changed, bookmarks, log messages, progress; and the
 * result that ends a listen.
 */
#include "dialect/dialect.h"
#include "dialect/dialect_private.h"
#include "store/change.h"

void dialect_put_list_changed(struct buf *out, unsigned list, struct tidings_str listen_id_json)
{
    if (list == LIST_EVERYTHING) {
        buf_puts(out, STR("{\"jsonrpc\":\"2.0\",\"method\":\"notifications/resources/updated\","
                          "\"params\":{}}"));
        return;
    }
    buf_puts(out, STR("{\"jsonrpc\":\"2.0\",\"method\":\"notifications/"));
    buf_puts(out, list == LIST_TOOLS     ? STR("tools")
                  : list == LIST_PROMPTS ? STR("prompts")
                                         : STR("resources"));
    buf_puts(out, STR("/list_changed\""));
    if (listen_id_json.len > 0) {
        buf_puts(out, STR(",\"params\":{\"_meta\":{\"" META_SUBSCRIPTION "\":"));
        buf_puts(out, listen_id_json);
        buf_puts(out, STR("}}"));
    }
    buf_putc(out, '}');
}

void dialect_put_bookmark(struct buf *out, struct tidings_str cursor,
                          struct tidings_str listen_id_json)
{
    buf_puts(out, STR("{\"jsonrpc\":\"2.0\",\"method\":\"notifications/dev.tidings/bookmark\","
                      "\"params\":{\"_meta\":{\"dev.tidings/cursor\":\""));
    buf_puts(out, cursor); /* nothing in it needs escaping */
    buf_putc(out, '"');
    if (listen_id_json.len > 0) {
        buf_puts(out, STR(",\"" META_SUBSCRIPTION "\":"));
        buf_puts(out, listen_id_json);
    }
    buf_puts(out, STR("}}}"));
}

void dialect_put_listen_result(struct buf *out, struct tidings_str listen_id_json,
                               const struct server_identity *self)
{
    buf_puts(out, STR("{\"jsonrpc\":\"2.0\",\"id\":"));
    buf_puts(out, listen_id_json);
    buf_puts(out,
             STR(",\"result\":{\"resultType\":\"complete\",\"_meta\":{\"" META_SERVER_INFO "\":"));
    buf_puts(out, self->implementation);
    buf_puts(out, STR(",\"" META_SUBSCRIPTION "\":"));
    buf_puts(out, listen_id_json);
    buf_puts(out, STR("}}}"));
}

static void begin_notification(struct jw *w, struct buf *out, struct tidings_str method)
{
    jw_init(w, out);
    jw_begin_object(w);
    jw_put_string(w, STR("jsonrpc"), STR("2.0"));
    jw_put_string(w, STR("method"), method);
    jw_key(w, STR("params"));
    jw_begin_object(w);
}

static void end_notification(struct jw *w)
{
    jw_end_object(w);
    jw_end_object(w);
}

void dialect_put_log_message(struct buf *out, struct tidings_str level, struct tidings_str logger,
                             struct tidings_str text)
{
    struct jw w;
    begin_notification(&w, out, STR("notifications/message"));
    jw_put_string(&w, STR("level"), level);
    jw_put_string(&w, STR("logger"), logger.len > 0 ? logger : STR("tidings"));
    jw_put_string(&w, STR("data"), text);
    end_notification(&w);
}

void dialect_put_progress(struct buf *out, struct tidings_str token_json, double progress,
                          double total, struct tidings_str message)
{
    struct jw w;
    begin_notification(&w, out, STR("notifications/progress"));
    jw_put_raw(&w, STR("progressToken"), token_json);
    jw_key(&w, STR("progress"));
    jw_number(&w, progress);
    if (total > 0) {
        jw_key(&w, STR("total"));
        jw_number(&w, total);
    }
    if (message.len > 0) {
        jw_put_string(&w, STR("message"), message);
    }
    end_notification(&w);
}
