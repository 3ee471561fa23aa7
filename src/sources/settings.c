/* SPDX-License-Identifier: MIT
 *
 * Reading a provider's configuration by its table.
 */
#include "sources/settings.h"

#include "base/error.h"
#include "base/mem.h"
#include "base/text.h"

/* -------------------------------------------------------------------------------------------------
 * Sends a read or a watch to the thread of a provider.
 */

static void actor_job_drop(struct thread_message *message)
{
    struct actor_job *e = list_entry(message, struct actor_job, message);
    if (e->read) {
        tidings_read_done(e->read, TIDINGS_E_CLOSED, NULL);
    }
    if (e->watch) {
        tidings_watch_done(e->watch, TIDINGS_E_CLOSED, NULL);
    }
    mem_free(e);
}

bool actor_job_send(struct mailbox *to, const struct actor_job *job, actor_job_fn deliver)
{
    struct actor_job *e = mem_alloc(sizeof(*e));
    if (!e) {
        return false;
    }
    *e = *job;
    list_init(&e->message.link);
    list_init(&e->link);
    e->message.deliver = deliver;
    e->message.drop = actor_job_drop;
    mailbox_send(to, &e->message);
    return true;
}

/* ---------------------------------------------------------------------------------------------- */

static int reject_number(const struct setting *row, struct tidings_error *err)
{
    struct buf range;
    buf_init(&range, 128);
    bool is_size = row->type == SETTING_SIZE;
    int (*put)(struct buf *, uint64_t) = is_size ? units_put_size : units_put_duration;
    put(&range, row->min);
    buf_puts(&range, STR(" to "));
    put(&range, row->max);
    tidings_fail(err, TIDINGS_E_INVALID, "not a %s from %s", is_size ? "size" : "duration",
                 range.ptr ? range.ptr : "");
    buf_deinit(&range);
    return TIDINGS_E_INVALID;
}

static int settings_take_number(const struct setting *row, const struct json *value, void *field,
                                struct tidings_error *err)
{
    uint64_t n = 0;
    bool is_size = row->type == SETTING_SIZE;
    bool ok;
    if (jv_is(value, JV_INT)) {
        ok = jv_int(value) >= 0 && jv_int(value) <= INT64_MAX / 1000;
        n = ok ? (uint64_t)jv_int(value) * (is_size ? 1 : 1000) : 0;
    } else {
        ok =
            is_size ? units_parse_size(jv_str(value), &n) : units_parse_duration(jv_str(value), &n);
    }
    if (!ok || n < row->min || n > row->max) {
        return reject_number(row, err);
    }
    *(uint64_t *)field = n;
    return 0;
}

char *setting_text(const struct json *value, struct tidings_error *err)
{
    struct tidings_str text = jv_str(value);
    if (text.len == 0 || text.len > SETTING_TEXT_MAX || memchr(text.ptr, '\0', text.len)) {
        tidings_fail(err, TIDINGS_E_INVALID, "not a string of 1 to %u bytes without NUL",
                     SETTING_TEXT_MAX);
        return NULL;
    }
    char *copy = str_dup(text);
    if (!copy) {
        tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    }
    return copy;
}

static int take_text(const struct json *value, char **field, struct tidings_error *err)
{
    struct tidings_error local;
    char *copy = setting_text(value, &local);
    if (!copy) {
        return tidings_fail(err, local.code, "%s", local.text);
    }
    mem_free(*field);
    *field = copy;
    return 0;
}

static int settings_take(const struct setting *row, struct json *value, void *into,
                         struct tidings_error *err)
{
    void *field = (char *)into + row->offset;
    switch (row->type) {
    case SETTING_SIZE:
    case SETTING_DURATION:
        return settings_take_number(row, value, field, err);
    case SETTING_TEXT:
        return take_text(value, field, err);
    case SETTING_OTHER:
        break;
    }
    return row->take(into, value, err);
}

static int unknown_key(const struct setting *rows, size_t count, struct tidings_str key,
                       struct tidings_error *err)
{
    struct buf known;
    buf_init(&known, 160);
    for (size_t i = 0; i < count; i++) {
        buf_putf(&known, "%s%s", i > 0 ? ", " : "", rows[i].key);
    }
    tidings_fail(err, TIDINGS_E_INVALID, "unknown key '%.*s' (accepted: %s)", STR_ARG_MAX(key, 32),
                 known.ptr ? known.ptr : "");
    buf_deinit(&known);
    return TIDINGS_E_INVALID;
}

static int settings_take_member(const struct setting *rows, size_t count, struct tidings_str key,
                                struct json *value, void *into, struct tidings_error *err)
{
    for (size_t i = 0; i < count; i++) {
        if (str_eq(key, tidings_str(rows[i].key))) {
            int rc = settings_take(&rows[i], value, into, err);
            return rc < 0 ? error_wrap(err, rc, "%s", rows[i].key) : 0;
        }
    }
    return unknown_key(rows, count, key, err);
}

int settings_read(const struct setting *rows, size_t count, struct tidings_str config, void *into,
                  struct tidings_error *err)
{
    for (size_t i = 0; i < count; i++) {
        if (rows[i].type == SETTING_SIZE || rows[i].type == SETTING_DURATION) {
            *(uint64_t *)(void *)((char *)into + rows[i].offset) = rows[i].fallback;
        }
    }
    if (config.len == 0) {
        return 0;
    }
    struct json *doc = NULL;
    int rc = jv_parse(config, SETTINGS_DEPTH, &doc, err);
    if (rc == 0 && !jv_is(doc, JV_OBJECT)) {
        rc = tidings_fail(err, TIDINGS_E_INVALID, "the configuration must be a JSON object");
    }
    struct tidings_str key;
    struct json *value;
    void *position = NULL;
    while (rc == 0 && (position = jv_next(doc, position, &key, &value))) {
        rc = settings_take_member(rows, count, key, value, into, err);
    }
    jv_unref(doc);
    return rc;
}
