/* SPDX-License-Identifier: MIT
 *
 * Watch hooks in a sorted array (binary search), and whether a pattern concerns one.
 */
#include "catalog/watch_hook.h"

#include "base/mem.h"
#include "base/str.h"

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
        return true; /* asking would take too long: it would be compiled for each */
    }
    if (hook->fixed == hook->text.len) {
        return pattern_matches(kind, pattern, hook->text);
    }
    /* Whether two patterns meet is hard to say; whether they cannot is easy. */
    struct tidings_str own = tidings_strn(hook->text.ptr, hook->fixed);
    struct tidings_str other = pattern_prefix(kind, pattern);
    return str_starts(own, other) || str_starts(other, own);
}
