/* SPDX-License-Identifier: MIT
 *
 * State of delivery that belongs to a whole worker: option rules in force, cursors made from change
 * numbers, and the JSON document of a change that filters judge.
 */
#include "delivery/delivery.h"

#include "access/access.h"
#include "access/principal.h"
#include "delivery/options.h"
#include "store/change.h"
#include "json/json.h"

void delivery_set_rules(struct worker *worker, struct option_rules *rules)
{
    option_rules_unref(worker->delivery->rules);
    worker->delivery->rules = rules;
}

struct log_cursor delivery_cursor(const struct worker *worker, uint64_t seq)
{
    struct log_cursor c = {
        .epoch = worker->epoch, .seq = seq, .has_position = worker->delivery->marks.ring != NULL};
    if (c.has_position) {
        c.position = cursor_marks_find(&worker->delivery->marks, seq);
    }
    return c;
}

struct json *delivery_make_subject(const struct worker *worker, const struct change *change,
                                   bool hides_from)
{
    struct json *subject = NULL;
    struct buf text;
    bool leads = change_names_destination(change, change->kind, hides_from);
    struct tidings_str uri = leads ? change->to_json : change->uri_json;
    buf_init(&text, uri.len + change->metadata_json.len + 64);
    buf_puts(&text, STR("{\"uri\":"));
    buf_puts(&text, uri);
    buf_puts(&text, STR(",\"metadata\":{"));
    /* With rules a filter must not tell what its subscriber is not shown. Never empty. */
    buf_puts(&text, worker->principals->rules ? change_metadata_without_version(change)
                                              : change->metadata_json);
    buf_putf(&text, ",\"change_type\":\"%s\"}}",
             hides_from ? tidings_change_name(change->kind)
                        : change_type_name(change, change->kind));
    if (!text.failed) {
        (void)jv_parse(buf_str(&text), worker->limits->max_depth + 2, &subject, NULL);
    }
    buf_deinit(&text);
    return subject;
}

struct json *delivery_subject(struct worker *worker, const struct change *change)
{
    if (worker->delivery->subject_of != change) {
        change_unref(worker->delivery->subject_of);
        jv_unref(worker->delivery->subject);
        worker->delivery->subject_of = change_ref(change);
        worker->delivery->subject = delivery_make_subject(worker, change, false);
    }
    return worker->delivery->subject;
}
