/* SPDX-License-Identifier: MIT
 *
 * Provider instances: one block holds the struct, the prefix and the provider's own state.
 */
#include "engine/catalog/provider.h"

#include <stdalign.h>

#include "base/error.h"
#include "base/loop.h"
#include "base/mem.h"
#include "base/str.h"

/* -------------------------------------------------------------------------------------------------
 * Watch hooks in a sorted array (binary search), and whether a pattern concerns one.
 */

struct watch_hook *watch_hook_create(struct tidings_str text, tidings_watch_fn watch,
                                     tidings_unwatch_fn unwatch, void *user)
{
    struct watch_hook *h = mem_zalloc(sizeof(*h) + text.len);
    if (h) {
        char *at = h->memory;
        ptrdiff_t brace = str_find(text, '{');
        h->text = str_pack(&at, text);
        h->fixed = brace < 0 ? text.len : (size_t)brace;
        h->watch = watch;
        h->unwatch = unwatch;
        h->user = user;
        h->refs = 1;
    }
    return h;
}

struct watch_hook *watch_hook_ref(struct watch_hook *h)
{
    __atomic_add_fetch(&h->refs, 1, __ATOMIC_RELAXED);
    return h;
}

void watch_hook_unref(struct watch_hook *h)
{
    if (h && __atomic_sub_fetch(&h->refs, 1, __ATOMIC_ACQ_REL) == 0) {
        mem_free(h);
    }
}

/* The place of the first that is not before `text`. */
static size_t watch_hook_seek(const struct watch_hooks *hooks, struct tidings_str text)
{
    size_t from = 0, to = hooks->count;
    while (from < to) {
        size_t middle = from + (to - from) / 2;
        if (str_cmp(hooks->at[middle]->text, text) < 0) {
            from = middle + 1;
        } else {
            to = middle;
        }
    }
    return from;
}

struct watch_hook *watch_hooks_find(const struct watch_hooks *hooks, struct tidings_str text)
{
    size_t i = watch_hook_seek(hooks, text);
    return i < hooks->count && str_eq(hooks->at[i]->text, text) ? hooks->at[i] : NULL;
}

int watch_hooks_copy(struct watch_hooks *to, const struct watch_hooks *from, struct watch_hook *add,
                     struct tidings_str without)
{
    *to = (struct watch_hooks){0};
    if (from->count == 0 && !add) {
        return 0;
    }
    to->at = mem_alloc((from->count + 1) * sizeof(struct watch_hook *));
    if (!to->at) {
        return TIDINGS_E_NOMEM;
    }
    size_t place = add ? watch_hook_seek(from, add->text) : from->count;
    for (size_t i = 0; i <= from->count; i++) {
        if (i == place && add) {
            to->at[to->count++] = watch_hook_ref(add);
        }
        if (i < from->count && (without.len == 0 || !str_eq(from->at[i]->text, without))) {
            to->at[to->count++] = watch_hook_ref(from->at[i]);
        }
    }
    return 0;
}

void watch_hooks_deinit(struct watch_hooks *hooks)
{
    for (size_t i = 0; i < hooks->count; i++) {
        watch_hook_unref(hooks->at[i]);
    }
    mem_free(hooks->at);
    *hooks = (struct watch_hooks){0};
}

bool watch_hook_matches(const struct watch_hook *hook, enum pattern_kind kind,
                        struct tidings_str pattern)
{
    if (kind == PATTERN_REGEX) {
        return true; /* too slow to check: the regex would be compiled for each hook */
    }
    if (hook->fixed == hook->text.len) {
        return pattern_matches(kind, pattern, hook->text);
    }
    /* It is hard to prove that two patterns meet, and easy to prove that they cannot. */
    struct tidings_str own = tidings_strn(hook->text.ptr, hook->fixed);
    struct tidings_str other = pattern_prefix(kind, pattern);
    return str_starts(own, other) || str_starts(other, own);
}

/* ---------------------------------------------------------------------------------------------- */

const char *mount_nodes_name(enum mount_nodes nodes)
{
    static const char *const names[] = {"local", "shared", "owned"};
    return names[nodes];
}

void *tidings_provider_state(struct tidings_provider *p)
{
    return p->state;
}

struct tidings_str tidings_provider_prefix(struct tidings_provider *p)
{
    return p->prefix;
}

int tidings_provider_changed(struct tidings_provider *p, const struct tidings_change *change,
                             struct tidings_error *err)
{
    if (!p || !change || change->uri.len == 0) {
        return tidings_fail(err, TIDINGS_E_INVALID, "a change needs the URI of what changed");
    }
    int rc = RESERVED_CHECK(change, err);
    return rc < 0 ? rc : p->host->changed(p->host, p, change, err);
}

void tidings_provider_missed(struct tidings_provider *p)
{
    p->host->missed(p->host, p);
}

/* The bytes of a table by its `abi`: each version of TIDINGS_PROVIDER_ABI adds a row, and the row
 * before it becomes the offset of the first field that it did not have. */
static const size_t table_bytes[] = {0, sizeof(struct tidings_provider_ops)};
_Static_assert(sizeof(table_bytes) / sizeof(table_bytes[0]) == TIDINGS_PROVIDER_ABI + 1,
               "a row for each version");

const struct tidings_provider_ops *provider_table(const struct tidings_provider_ops *ops,
                                                  size_t bytes, struct tidings_provider_ops *room)
{
    if (bytes >= sizeof(*room)) {
        return ops;
    }
    memset(room, 0, sizeof(*room));
    memcpy(room, ops, bytes);
    return room;
}

static void provider_on_timer(struct loop_timer *timer, void *user)
{
    (void)timer;
    struct tidings_provider *p = user;
    p->every(p);
}

int tidings_provider_every(struct tidings_provider *p, uint64_t ms,
                           void (*fn)(struct tidings_provider *provider))
{
    if (ms == 0 || !fn) {
        if (p->timer) {
            loop_timer_stop(p->timer);
        }
        return 0;
    }
    if (!p->timer) {
        p->timer = loop_timer_open(p->host->loop, provider_on_timer, p);
    }
    if (!p->timer) {
        return TIDINGS_E_NOMEM;
    }
    p->every = fn;
    loop_timer_start(p->timer, ms, ms);
    return 0;
}

static int check_ops(const struct tidings_provider_ops *ops, struct tidings_error *err)
{
    if (!ops) {
        return tidings_fail(err, TIDINGS_E_INVALID, "a provider needs a table of operations");
    }
    if (!ops->name || !ops->name[0]) {
        return tidings_fail(err, TIDINGS_E_INVALID, "a provider needs a name: \"file\"");
    }
    if (ops->abi == 0 || ops->abi > TIDINGS_PROVIDER_ABI) {
        return tidings_fail(err, TIDINGS_E_UNSUPPORTED,
                            "provider '%s' was built for interface %u, this library has %u",
                            ops->name, ops->abi, TIDINGS_PROVIDER_ABI);
    }
    return 0;
}

static int check_slots(const struct tidings_provider_ops *ops, struct tidings_error *err)
{
    if (!ops->open || !ops->read || !ops->close) {
        return tidings_fail(err, TIDINGS_E_INVALID, "provider '%s' lacks one of open, read, close",
                            ops->name);
    }
    if (!ops->watch != !ops->unwatch) {
        return tidings_fail(err, TIDINGS_E_INVALID,
                            "provider '%s' must have both watch and unwatch, or neither",
                            ops->name);
    }
    return 0;
}

/* NOLINTNEXTLINE(readability-function-size): six, and `err` */
int provider_create(const struct tidings_provider_ops *ops, const struct provider_host *host,
                    struct tidings_str prefix, struct tidings_str config,
                    struct tidings_provider **ret, struct tidings_error *err)
{
    int rc = check_ops(ops, err);
    if (rc < 0) {
        return rc;
    }
    const size_t align = alignof(max_align_t);
    size_t text = (sizeof(struct tidings_provider) + prefix.len + align) & ~(align - 1);
    struct tidings_provider *p = mem_zalloc(text + ops->size);
    if (!p) {
        return tidings_fail(err, TIDINGS_E_NOMEM, "provider '%s': out of memory", ops->name);
    }
    p->ops = provider_table(ops, table_bytes[ops->abi], &p->older);
    rc = check_slots(p->ops, err);
    if (rc < 0) {
        mem_free(p);
        return rc;
    }
    char *copy = (char *)(p + 1);
    memcpy(copy, prefix.ptr, prefix.len);
    p->host = host;
    p->prefix = tidings_strn(copy, prefix.len);
    if (p->ops->alias) {
        p->aliases[p->alias_count++] = (struct uri_alias){tidings_str(p->ops->alias), p->prefix};
    }
    p->state = (char *)p + text;
    struct tidings_error why = {0, ""};
    rc = ops->open(p, config, &why);
    if (rc < 0) {
        provider_destroy(p);
        tidings_fail(err, rc, "%s", why.text[0] ? why.text : tidings_code_text(rc));
        return error_wrap(err, rc, "%s provider at '%.*s'", ops->name, STR_ARG(prefix));
    }
    *ret = p;
    return 0;
}

void provider_destroy(struct tidings_provider *p)
{
    if (p) {
        p->ops->close(p);
        loop_timer_close(p->timer);
        mem_free(p);
    }
}
