/* SPDX-License-Identifier: MIT
 *
 * The filters of a worker: JSON Schemas compiled once per text, and counted by those who use them.
 */
#include "delivery/filters.h"

#include "access/allowance.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/mem.h"
#include "base/str.h"
#include "delivery/filters_private.h"
#include "json/schema.h"
#include "json/write.h"

void filters_init(struct filters *all)
{
    map_init(&all->by_text);
    all->judged = 0;
    all->past_bytes = 0;
}

void filters_deinit(struct filters *all)
{
    size_t pos = 0;
    struct filter *f;
    while ((f = map_next(&all->by_text, &pos)) != NULL) {
        f->all = NULL;
    }
    map_deinit(&all->by_text);
}

/* The text by which a filter is known. */
static int write_text(struct json *schema, struct buf *text, struct tidings_error *err)
{
    struct jw w;
    buf_init(text, 8 * FILTER_MAX_BYTES); /* the writer takes room for the worst before it quotes */
    jw_init(&w, text);
    jw_value(&w, schema);
    if (text->failed == TIDINGS_E_LIMIT || text->len > FILTER_MAX_BYTES) {
        return tidings_fail(err, TIDINGS_E_LIMIT, "option 'filter' may be at most %u bytes long",
                            FILTER_MAX_BYTES);
    }
    return text->failed ? tidings_fail(err, TIDINGS_E_NOMEM, "out of memory") : 0;
}

/* *ret_cost: in steps, also when it fails. */
static int filters_compile(struct json *schema, struct json_schema **ret, uint64_t *ret_cost,
                           struct tidings_error *err)
{
    const struct schema_options options = {
        .max_depth = FILTER_MAX_DEPTH,
        .max_subschemas = FILTER_MAX_SUBSCHEMAS,
        .max_steps = FILTER_MAX_STEPS,
        .ret_cost = ret_cost,
    };
    int rc = schema_compile(schema, &options, ret, err);
    if (rc < 0) {
        /* A reference that leads nowhere is a mistake in the option, not a missing resource. */
        rc = rc == TIDINGS_E_NOMEM || rc == TIDINGS_E_LIMIT ? rc : TIDINGS_E_INVALID;
        return error_wrap(err, rc, "option 'filter'");
    }
    return 0;
}

/* A word of a schema, as a key or anywhere else: one too many costs a little. */
static bool filters_names(struct tidings_str text, const char *quoted)
{
    return memmem(text.ptr, text.len, quoted, strlen(quoted)) != NULL;
}

static int filters_create(struct filters *all, struct json *schema, struct tidings_str text,
                          uint64_t *ret_cost, struct filter **ret, struct tidings_error *err)
{
    struct filter *f = mem_zalloc(sizeof(*f) + text.len);
    if (!f) {
        return tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    }
    f->all = all;
    f->refs = 1;
    f->len = text.len;
    memcpy(f->text, text.ptr, text.len);
    f->sees_time = filters_names(text, "\"time\"");
    f->looks_back = filters_names(text, "\"previous\"") || filters_names(text, "\"change\"");
    int rc = filters_compile(schema, &f->schema, ret_cost, err);
    if (rc == 0 && map_put(&all->by_text, tidings_strn(f->text, f->len), f, NULL) < 0) {
        rc = tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    }
    if (rc < 0) {
        schema_destroy(f->schema);
        mem_free(f);
        return rc;
    }
    *ret = f;
    return 0;
}

/* One more, at the expense of a client. */
static int create_for(struct filters *all, struct json *schema, struct tidings_str text,
                      struct allowance *client, struct filter **ret, struct tidings_error *err)
{
    uint64_t now = clock_monotonic_ms();
    if (all->by_text.count >= FILTERS_MAX) {
        return tidings_fail(err, TIDINGS_E_LIMIT,
                            "option 'filter': at most %u different filters are allowed, of all "
                            "clients together",
                            FILTERS_MAX);
    }
    if (allowance_left(client, now) == 0) {
        return tidings_fail(err, TIDINGS_E_LIMIT,
                            "option 'filter': the patterns of this client have used up what they "
                            "may cost in a second; try again");
    }
    if (!allowance_take(client, ALLOWANCE_FILTERS)) {
        return tidings_fail(err, TIDINGS_E_LIMIT,
                            "option 'filter': at most %u different filters of one client are "
                            "allowed",
                            ALLOWANCE_MAX_FILTERS);
    }
    uint64_t cost = 0;
    int rc = filters_create(all, schema, text, &cost, ret, err);
    allowance_spend(client, cost, now);
    if (rc == 0) {
        (*ret)->owner = client;
    } else {
        allowance_give_back(client, ALLOWANCE_FILTERS);
    }
    return rc;
}

int filter_acquire(struct filters *all, struct json *schema, struct allowance *client,
                   struct filter **ret, struct tidings_error *err)
{
    struct buf text;
    int rc = write_text(schema, &text, err);
    struct filter *found = rc < 0 ? NULL : map_find(&all->by_text, buf_str(&text));
    if (found) {
        found->refs++;
        *ret = found;
    } else if (rc == 0) {
        rc = create_for(all, schema, buf_str(&text), client, ret, err);
    }
    buf_deinit(&text);
    return rc;
}

int filter_check(struct json *schema, struct tidings_error *err)
{
    struct buf text;
    struct json_schema *compiled = NULL;
    int rc = write_text(schema, &text, err);
    buf_deinit(&text);
    rc = rc == 0 ? filters_compile(schema, &compiled, NULL, err) : rc;
    schema_destroy(compiled);
    return rc;
}

struct tidings_str filter_text(const struct filter *f)
{
    return tidings_strn(f->text, f->len);
}

void filter_release(struct filter *f)
{
    if (f && --f->refs == 0) {
        if (f->all) {
            map_remove(&f->all->by_text, tidings_strn(f->text, f->len));
        }
        allowance_give_back(f->owner, ALLOWANCE_FILTERS);
        schema_destroy(f->schema);
        mem_free(f);
    }
}
