/* SPDX-License-Identifier: MIT
 *
 * Whether a subscription to a pattern, a query or an absent container can ever fire. It is refused
 * if nothing can match it, or if every match is unsubscribable. It is honoured with a warning if
 * only later registrations of the program can match it. A regex is never refused: it gets a warning
 * if the literal that it begins with excludes everything that is served.
 *
 * Resources that are hidden from the principal count as absent, so neither answer reveals them.
 */
#include "access/access.h"
#include "base/str.h"
#include "delivery/subscribe_private.h"
#include "uri/pattern_literals.h"
#include "uri/uri.h"
#include "worker/worker.h"

/* Registered resources and templates compared for one request; beyond, one more may match. Hidden
 * ones do not count, because the answer would reveal them. */
#define REACH_COMPARED_MAX 4096u

#define ONLY_LATER                                                                                 \
    "nothing that is served now can match it; only what is registered later will be notified"

struct reach {
    struct subscribe_item *item;
    const struct principal *principal;
    struct tidings_str fixed; /* every URI that the item matches begins with this */
    bool meets;               /* something that can be subscribed to */
    bool meets_mute;          /* something that cannot */
    bool has_scheme;          /* something of that scheme is served */
    bool may_grow;            /* … by the program, which may register more */
};

struct tidings_str subscribe_scheme(struct tidings_str uri)
{
    return str_cut(uri, ':', &(struct tidings_str){0}, NULL);
}

bool subscribe_item_meets_mount(const struct subscribe_item *w, const struct tidings_provider *p)
{
    if (p->ops->flags & TIDINGS_PROVIDER_SINGLE) {
        struct tidings_str only = tidings_strn(p->prefix.ptr, p->prefix.len - 1);
        return w->kind == PATTERN_REGEX || pattern_matches(w->kind, w->uri, only);
    }
    struct buf below;
    buf_init(&below, URI_MAX * 3);
    buf_puts(&below, p->prefix);
    buf_puts(&below, STR("{+rest}"));
    bool meets = below.failed || pattern_meets(w->kind, w->uri, buf_str(&below));
    buf_deinit(&below);
    return meets;
}

/* False: everything that begins with `text` is hidden from the principal. */
static bool reach_shows(const struct reach *r, struct tidings_str text)
{
    struct buf any;
    buf_init(&any, URI_MAX * 3);
    buf_puts(&any, text);
    buf_putc(&any, '{');
    bool shows = any.failed || (access_reaches(r->principal, ACCESS_SUBSCRIBE, buf_str(&any)) &&
                                access_reaches(r->principal, ACCESS_READ, buf_str(&any)));
    buf_deinit(&any);
    return shows;
}

static bool has_its_scheme(const struct reach *r, struct tidings_str uri)
{
    return str_eq(subscribe_scheme(uri), subscribe_scheme(r->fixed));
}

/* Some URI begins with both. */
static bool prefixes_meet(struct tidings_str prefix, struct tidings_str other)
{
    return str_starts(prefix, other) || str_starts(other, prefix);
}

/* `uri` begins with `r->fixed`, if the item is a regex. */
static bool meets_resource(const struct reach *r, struct tidings_str uri)
{
    const struct subscribe_item *w = r->item;
    return w->kind == PATTERN_REGEX || pattern_matches(w->kind, w->uri, uri);
}

/* The provider has these resources, and will never have others. */
static void look_at_rows(struct reach *r, const struct tidings_provider *p)
{
    bool is_mute = false;
    struct buf uri;
    buf_init(&uri, URI_MAX * 3);
    struct tidings_str name = p->row(0, &is_mute);
    for (size_t i = 0; !r->meets && name.len > 0; name = p->row(++i, &is_mute)) {
        uri.len = 0;
        buf_puts(&uri, p->prefix);
        buf_puts(&uri, name);
        if (uri.failed ||
            (str_starts(buf_str(&uri), r->fixed) &&
             access_subscribes(r->principal, buf_str(&uri)) && meets_resource(r, buf_str(&uri)))) {
            r->meets = uri.failed || !is_mute;
            r->meets_mute = true;
        }
    }
    buf_deinit(&uri);
}

static bool meets_mount(const struct reach *r, const struct tidings_provider *p)
{
    if (r->item->kind != PATTERN_REGEX) {
        return subscribe_item_meets_mount(r->item, p);
    }
    return p->ops->flags & TIDINGS_PROVIDER_SINGLE
               ? str_starts(tidings_strn(p->prefix.ptr, p->prefix.len - 1), r->fixed)
               : prefixes_meet(p->prefix, r->fixed);
}

static void look_at_mounts(struct reach *r)
{
    const struct catalog *c = r->item->owner->worker->catalog;
    bool is_regex = r->item->kind == PATTERN_REGEX;
    for (size_t i = 0; i < c->mount_count; i++) {
        struct tidings_str prefix = c->mounts[i]->prefix;
        if ((!is_regex && !has_its_scheme(r, prefix)) || !reach_shows(r, prefix)) {
            continue;
        }
        r->has_scheme = true;
        bool is_narrower = str_starts(r->fixed, prefix);
        if (!meets_mount(r, c->mounts[i])) {
            continue;
        }
        if (c->mounts[i]->row) {
            look_at_rows(r, c->mounts[i]);
        } else if (!is_narrower || reach_shows(r, r->fixed)) {
            r->meets = true;
        }
    }
}

static bool entry_shows(const struct reach *r, const struct catalog_entry *e)
{
    return e->uri_template ? reach_shows(r, pattern_prefix(PATTERN_TEMPLATE, e->about->uri))
                           : access_subscribes(r->principal, e->about->uri);
}

static bool is_met(const struct reach *r, const struct catalog_entry *e)
{
    struct subscribe_item *w = r->item;
    if (++w->owner->compared > REACH_COMPARED_MAX) {
        return true;
    }
    if (!e->uri_template) {
        return meets_resource(r, e->about->uri);
    }
    return w->kind == PATTERN_REGEX
               ? prefixes_meet(pattern_prefix(PATTERN_TEMPLATE, e->about->uri), r->fixed)
               : pattern_meets(w->kind, w->uri, e->about->uri);
}

static void look_for_scheme(struct reach *r, const struct entries *entries)
{
    struct tidings_str scheme = subscribe_scheme(r->fixed);
    struct entries_position at = entries_after(entries, scheme);
    struct catalog_entry *e;
    while (!r->may_grow && (e = entries_next(entries, &at)) != NULL &&
           str_starts(e->about->uri, scheme)) {
        r->may_grow = has_its_scheme(r, e->about->uri) && entry_shows(r, e);
    }
    r->has_scheme = r->has_scheme || r->may_grow;
}

/* Those that begin with `begin`. */
static void look_at_entries(struct reach *r, const struct entries *entries,
                            struct tidings_str begin)
{
    struct catalog_entry *e = entries_find(entries, begin); /* comes before those after it */
    struct entries_position at = entries_after(entries, begin);
    for (e = e ? e : entries_next(entries, &at); !r->meets && e && str_starts(e->about->uri, begin);
         e = entries_next(entries, &at)) {
        if (entry_shows(r, e) && is_met(r, e)) {
            r->meets = !e->about->not_subscribable;
            r->meets_mute = true;
        }
    }
}

static void judge_regex(struct subscribe_item *w)
{
    char prefix[2 * REGEX_MAX_BYTES];
    const struct catalog *c = w->owner->worker->catalog;
    struct reach r = {.item = w, .principal = w->owner->principal};
    r.fixed = tidings_strn(prefix, regex_prefix(w->uri, prefix));
    if (r.fixed.len == 0) {
        return;
    }
    look_at_mounts(&r);
    look_at_entries(&r, &c->resources, r.fixed);
    look_at_entries(&r, &c->templates, subscribe_scheme(r.fixed));
    if (!r.meets) {
        w->warning = r.meets_mute ? STR("what it can match now cannot be subscribed to; only what "
                                        "is registered later will be notified")
                                  : STR(ONLY_LATER);
    }
}

void subscribe_item_judge_reach(struct subscribe_item *w)
{
    if (!w->refused && w->kind == PATTERN_REGEX) {
        judge_regex(w);
        return;
    }
    if (w->refused || !w->is_open) {
        return;
    }
    const struct catalog *c = w->owner->worker->catalog;
    struct reach r = {.item = w, .principal = w->owner->principal};
    r.fixed = pattern_prefix(w->kind, w->uri);
    look_for_scheme(&r, &c->resources);
    look_for_scheme(&r, &c->templates);
    look_at_entries(&r, &c->resources, r.fixed);
    look_at_entries(&r, &c->templates, subscribe_scheme(r.fixed));
    w->needs_watch = !r.meets;
    look_at_mounts(&r);
    if (r.meets) {
        return;
    }
    if (!r.has_scheme) {
        subscribe_item_refuse(w, TIDINGS_E_NOTFOUND, "nothing is served under '%.*s:'",
                              STR_ARG_MAX(subscribe_scheme(w->uri), 128));
    } else if (r.meets_mute) {
        subscribe_item_refuse_mute(w);
    } else if (!r.may_grow) {
        subscribe_item_refuse(w, TIDINGS_E_NOTFOUND, "nothing that is served can match '%.*s'",
                              STR_ARG_MAX(w->uri, 128));
    } else {
        w->warning = STR(ONLY_LATER);
    }
}
