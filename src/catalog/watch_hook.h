/* SPDX-License-Identifier: MIT
 *
 * Watch hooks of the application: who is told that somebody begins to need changes of a registered
 * resource or of URIs of a registered template, and that nobody does any more. They are part of the
 * catalog, known by the URI or template text they are for, which may be registered before or after.
 *
 * A scope (what the hub arms, see hub_watch.c) that concerns a hook is
 *   - the URI of a resource or of a template, when it is subscribed to by name;
 *   - the URI of each resource a pattern matches (a regex: that there is);
 *   - the template's text, when a pattern may match URIs of it.
 */
#ifndef CATALOG_WATCH_HOOK_H
#define CATALOG_WATCH_HOOK_H

#include <tidings/server.h>

#include "match/match.h"

/* Immutable and counted. */
struct watch_hook {
    struct tidings_str text;
    size_t fixed; /* length of the text before its first '{' */
    tidings_watch_fn watch;
    tidings_unwatch_fn unwatch;
    void *user;
    unsigned refs;
    char memory[];
};

struct watch_hook *watch_hook_create(struct tidings_str text, tidings_watch_fn watch,
                                     tidings_unwatch_fn unwatch, void *user);
struct watch_hook *watch_hook_ref(struct watch_hook *hook);
void watch_hook_unref(struct watch_hook *hook); /* NULL is fine */

/* Ascending by text. */
struct watch_hooks {
    struct watch_hook **at;
    size_t count;
};

#define WATCH_HOOKS_MAX 100000u

/* All of `from` but that for `without` (empty: all), and `add` (may be NULL). */
int watch_hooks_copy(struct watch_hooks *to, const struct watch_hooks *from, struct watch_hook *add,
                     struct tidings_str without);
void watch_hooks_deinit(struct watch_hooks *hooks);
struct watch_hook *watch_hooks_find(const struct watch_hooks *hooks,
                                    struct tidings_str text); /* NULL: none */

/* May the pattern match the URI, or URIs of the template, that the hook is for? */
bool watch_hook_matches(const struct watch_hook *hook, enum pattern_kind kind,
                        struct tidings_str pattern);

#endif
