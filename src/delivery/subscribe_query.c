/* SPDX-License-Identifier: MIT
 *
 * The conditions of a query, `?type=error&level=high`: what the metadata of a change must have.
 * Those that no change can ever satisfy are refused here: a client that waits for what never comes
 * should be told so at once.
 */
#include "base/str.h"
#include "delivery/subscribe_private.h"
#include "dialect/dialect.h"
#include "uri/uri.h"
#include "worker/worker.h"

#define CONDITIONS_MAX 8u

static struct tidings_str subscribe_query_decode(struct subscribe_item *w, struct tidings_str text)
{
    struct buf out;
    buf_init(&out, URI_MAX);
    struct tidings_str copy = {NULL, 0};
    if (uri_decode(&out, text, NULL) == 0) {
        copy = arena_dup(&w->owner->arena, buf_str(&out));
    }
    buf_deinit(&out);
    return copy;
}

/* Attributes the metadata of a change must have: ?type=error&level=high. */
static void read_conditions(struct subscribe_item *w, struct tidings_str query)
{
    w->conditions = arena_alloc(&w->owner->arena, CONDITIONS_MAX * sizeof(*w->conditions));
    if (!w->conditions) {
        subscribe_item_refuse(w, TIDINGS_E_NOMEM, "out of memory");
        return;
    }
    while (query.len > 0 && !w->refused) {
        struct tidings_str value;
        bool has_value = false;
        struct tidings_str pair = str_cut(query, '&', &query, NULL);
        struct tidings_str key = str_cut(pair, '=', &value, &has_value);
        if (!has_value || key.len == 0 || w->condition_count == CONDITIONS_MAX) {
            subscribe_item_refuse(w, TIDINGS_E_INVALID,
                                  "a query is 'key=value' pairs joined by '&', at most %u",
                                  CONDITIONS_MAX);
            return;
        }
        struct subscription_condition *c = &w->conditions[w->condition_count++];
        c->key = subscribe_query_decode(w, key);
        c->value = subscribe_query_decode(w, value);
        if (!c->key.ptr || !c->value.ptr) {
            subscribe_item_refuse(w, TIDINGS_E_INVALID, "the query has a bad percent-encoding");
        }
    }
}

/* Does the server itself say that of changes, whoever announces them? */
static bool is_said_of_all(struct tidings_str key)
{
    static const char *const keys[] = {"change_type", "updated_at", "timestamp",
                                       "size",        "checksum",   "version"};
    bool found = false;
    for (size_t i = 0; !found && i < sizeof(keys) / sizeof(keys[0]); i++) {
        found = str_eq(key, tidings_str(keys[i]));
    }
    return found;
}

/* Is what lies at or below `uri` announced by providers alone whose changes carry no metadata? */
static bool is_bare(const struct catalog *c, struct tidings_str uri)
{
    const struct tidings_provider *own = catalog_mount(c, uri);
    bool is_bare = own && (own->ops->flags & TIDINGS_PROVIDER_BARE_CHANGES);
    for (size_t i = 0; is_bare && i < c->mount_count; i++) {
        const struct tidings_provider *p = c->mounts[i];
        is_bare = !uri_is_within(p->prefix, uri) || (p->ops->flags & TIDINGS_PROVIDER_BARE_CHANGES);
    }
    struct buf below;
    buf_init(&below, URI_MAX * 3);
    buf_puts(&below, uri);
    if (uri.ptr[uri.len - 1] != '/') {
        buf_putc(&below, '/');
    }
    struct entries_position at = entries_after(&c->resources, buf_str(&below));
    const struct catalog_entry *next = is_bare ? entries_next(&c->resources, &at) : NULL;
    is_bare = is_bare && !below.failed && !entries_find(&c->resources, uri) &&
              !(next && str_starts(next->about->uri, buf_str(&below)));
    buf_deinit(&below);
    return is_bare;
}

/* A query that no change can ever satisfy is refused. Not one that a client may be told of by what
 * others say changed (delivery/notify.h). */
static void refuse_impossible(struct subscribe_item *w)
{
    struct subscribe_batch *s = w->owner;
    struct tidings_str type = STR_EMPTY;
    bool is_named = false;
    for (size_t i = 0; i < w->condition_count && !w->refused; i++) {
        const struct subscription_condition *c = &w->conditions[i];
        if (!str_eq(c->key, STR("change_type"))) {
            is_named = is_named || !is_said_of_all(c->key);
            continue;
        }
        bool is_kind = false;
        for (int kind = 0; kind <= TIDINGS_CHANGE_MOVED; kind++) {
            is_kind =
                is_kind ||
                str_eq(c->value, tidings_str(tidings_change_name((enum tidings_change_kind)kind)));
        }
        if (!is_kind || (type.len > 0 && !str_eq(type, c->value))) {
            subscribe_item_refuse(
                w, TIDINGS_E_INVALID,
                "no change can match this: change_type is one of created, updated, "
                "deleted, moved");
        }
        type = c->value;
    }
    if (is_named && !w->refused && !s->worker->self->allow_write &&
        is_bare(s->worker->catalog, w->uri)) {
        subscribe_item_refuse(
            w, TIDINGS_E_INVALID,
            "no change can match this: changes of '%.*s' carry no metadata, which "
            "a query selects by",
            STR_ARG_MAX(w->uri, 256));
    }
}

void subscribe_item_read_conditions(struct subscribe_item *w, struct tidings_str query)
{
    read_conditions(w, query);
    refuse_impossible(w);
}
