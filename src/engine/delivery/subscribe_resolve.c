/* SPDX-License-Identifier: MIT
 *
 * Resolving: finds out what a URI means to a subscription, once. Strings that cannot name a
 * resource are decided by their text: "**" means everything; '{' before a '?' makes a template, '['
 * a glob (or a regex, with dialect_rules.has_regex_uris). Otherwise the resource is looked up at
 * the provider; a registered template that could produce a URI with a '*' does not count. If it
 * exists, the URI is literal, and covers its children if it has any; with a '?' it is then a query.
 * If it does not exist: a raw '?' starts a query; '*' makes a glob; a trailing slash covers
 * everything below, existing or not; below a mount it may be absent; anything else is rejected. The
 * option `match` forces a kind.
 *
 * The kind determines the scopes that providers have to watch.
 */
#include "base/mem.h"
#include "base/str.h"
#include "engine/delivery/subscribe.h"
#include "engine/protocol/dialect.h"
#include "engine/worker.h"
#include "formats/pattern.h"
#include "formats/uri.h"
#include "security/access.h"

/* ---------------------------------------------------------------------------------------------- */

static bool out_of_memory(struct subscribe_item *w, const void *p)
{
    if (!p) {
        subscribe_item_refuse(w, TIDINGS_E_NOMEM, "out of memory");
    }
    return !p;
}

/* A rule may restrict the kinds below its prefix. */
static void check_kind(struct subscribe_item *w)
{
    static const enum option_match kinds[] = {
        [PATTERN_LITERAL] = OPTION_MATCH_LITERAL,   [PATTERN_CONTAINER] = OPTION_MATCH_CONTAINER,
        [PATTERN_TEMPLATE] = OPTION_MATCH_TEMPLATE, [PATTERN_GLOB] = OPTION_MATCH_GLOB,
        [PATTERN_GLOB_Q] = OPTION_MATCH_GLOB,       [PATTERN_REGEX] = OPTION_MATCH_REGEX,
    };
    if (w->refused || w->matches & (1u << kinds[w->kind])) {
        return;
    }
    struct buf text;
    buf_init(&text, 256);
    buf_puts(&text, STR("this is a subscription of kind "));
    options_put_matches(&text, 1u << kinds[w->kind]);
    buf_puts(&text, STR("; accepted here are: "));
    options_put_matches(&text, w->matches);
    subscribe_item_refuse(w, TIDINGS_E_INVALID, "%s", text.failed ? "out of memory" : text.ptr);
    buf_deinit(&text);
}

static void subscribe_item_check_reach(struct subscribe_item *w);

static void item_resolved(struct subscribe_batch *s)
{
    if (--s->unresolved > 0) {
        return;
    }
    for (size_t i = 0; i < s->count; i++) {
        struct subscribe_item *w = &s->items[i];
        check_kind(w);
        subscribe_item_check_reach(w);
        subscribe_item_check_baseline(w);
        if (!w->refused && w->kind != PATTERN_LITERAL) {
            subscribe_item_add_hooked(w);
        }
    }
    subscribe_batch_watch(s);
}

enum spelling {
    AS_URI,
    AS_CONTAINER, /* ends in '/' */
    AS_PATTERN,
};

/* Writes the canonical form of `in` to w->uri. Returns false if it rejected the item. */
static bool subscribe_spell(struct subscribe_item *w, struct tidings_str in, enum spelling as)
{
    struct buf text;
    struct tidings_error err;
    buf_init(&text, URI_MAX * 3);
    int rc = catalog_canonical(w->owner->worker->catalog, in, as == AS_PATTERN, &text, &err);
    if (rc < 0) {
        subscribe_item_refuse(w, rc, "%s", err.text);
    } else {
        if (as == AS_CONTAINER && text.ptr[text.len - 1] != '/') {
            buf_putc(&text, '/');
        }
        w->uri = arena_dup(&w->owner->arena, buf_str(&text));
        out_of_memory(w, w->uri.ptr);
    }
    buf_deinit(&text);
    return !w->refused;
}

/* ---- scopes ---------------------------------------------------------------------------------- */

static bool subscribe_item_meets_mount(const struct subscribe_item *w,
                                       const struct tidings_provider *p);

/* The scopes for everything below `prefix` (which ends in '/', or is empty for all resources). */
static void scope_below(struct subscribe_item *w, struct tidings_str prefix)
{
    struct subscribe_batch *s = w->owner;
    const struct catalog *c = s->worker->catalog;
    w->scopes = arena_alloc(&s->arena, (c->mount_count + 1) * sizeof(*w->scopes));
    if (out_of_memory(w, w->scopes)) {
        return;
    }
    bool inside = false;
    for (size_t i = 0; i < c->mount_count && prefix.len > 0; i++) {
        inside = inside || (uri_is_within(prefix, c->mounts[i]->prefix) &&
                            subscribe_item_meets_mount(w, c->mounts[i]));
    }
    if (inside) {
        w->scopes[w->scope_count++] = prefix;
    }
    for (size_t i = 0; i < c->mount_count; i++) { /* mounts may be nested */
        struct tidings_str mount = c->mounts[i]->prefix;
        if (str_starts(mount, prefix) && !str_eq(mount, prefix) &&
            subscribe_item_meets_mount(w, c->mounts[i])) {
            w->scopes[w->scope_count++] = mount;
        }
    }
    w->broad = !inside; /* whole mounts, or any registered resources there */
}

/* The same for a copy of the text that ends in '/'. */
static void scope_below_slash(struct subscribe_item *w, struct tidings_str prefix)
{
    struct buf text;
    buf_init(&text, URI_MAX * 3);
    buf_puts(&text, prefix);
    if (prefix.len > 0 && prefix.ptr[prefix.len - 1] != '/') {
        buf_putc(&text, '/');
    }
    struct tidings_str copy = arena_dup(&w->owner->arena, buf_str(&text));
    buf_deinit(&text);
    if (!out_of_memory(w, copy.ptr)) {
        scope_below(w, copy);
    }
}

/* The part of a pattern before its first wildcard, up to and including the last slash in it. */
static struct tidings_str fixed_prefix(struct tidings_str pattern, const char *wild)
{
    size_t end = 0;
    for (size_t i = 0; i < pattern.len && !strchr(wild, pattern.ptr[i]); i++) {
        if (pattern.ptr[i] == '/') {
            end = i + 1;
        }
    }
    return tidings_strn(pattern.ptr, end);
}

static bool has_any(struct tidings_str s, const char *set)
{
    for (size_t i = 0; i < s.len; i++) {
        if (s.ptr[i] != '\0' && strchr(set, s.ptr[i])) {
            return true;
        }
    }
    return false;
}

/* ---- kinds ----------------------------------------------------------------------------------- */

static void resolve_exact(struct subscribe_item *w, enum pattern_kind kind)
{
    struct subscribe_batch *s = w->owner;
    w->kind = kind;
    w->scopes = arena_alloc(&s->arena, sizeof(*w->scopes));
    if (!out_of_memory(w, w->scopes)) {
        w->scopes[0] = w->uri;
        w->scope_count = 1;
    }
}

/* An absent name below a mount can be created later, as a resource or as a container. A literal
 * pattern, or a version of an absent resource, is more likely a mistake. */
static void resolve_awaited(struct subscribe_item *w)
{
    struct subscribe_batch *s = w->owner;
    if (has_any(w->uri, "*?[]{}") || w->options.given & OPTION_BASELINE) {
        subscribe_item_refuse(w, TIDINGS_E_NOTFOUND, "resource not found");
        return;
    }
    w->is_awaited = true;
    if (w->options.match == OPTION_MATCH_LITERAL || str_ends(w->uri, STR("/")) ||
        !(w->matches & 1u << OPTION_MATCH_CONTAINER)) {
        resolve_exact(w, PATTERN_LITERAL);
        return;
    }
    char *below = arena_alloc(&s->arena, w->uri.len + 1);
    w->scopes = arena_alloc(&s->arena, 2 * sizeof(*w->scopes));
    if (!out_of_memory(w, below) && !out_of_memory(w, w->scopes)) {
        memcpy(below, w->uri.ptr, w->uri.len);
        below[w->uri.len] = '/';
        w->kind = PATTERN_CONTAINER;
        w->scopes[0] = w->uri;
        w->scopes[1] = tidings_strn(below, w->uri.len + 1);
        w->scope_count = 2;
    }
}

static void resolve_container(struct subscribe_item *w)
{
    w->is_open = true;
    w->kind = PATTERN_CONTAINER;
    scope_below(w, w->uri);
}

static void resolve_pattern(struct subscribe_item *w, enum pattern_kind kind, const char *wild)
{
    if (!subscribe_spell(w, w->as_requested, AS_PATTERN)) {
        return;
    }
    w->is_open = true;
    w->kind = kind;
    scope_below_slash(w, fixed_prefix(w->uri, wild));
}

/* A regular expression written as a URI matches the whole of it. */
static void resolve_regex_uri(struct subscribe_item *w)
{
    struct buf text;
    buf_init(&text, URI_MAX + 16);
    buf_puts(&text, STR("^(?:"));
    buf_puts(&text, w->as_requested);
    buf_puts(&text, STR(")$"));
    w->uri = arena_dup(&w->owner->arena, buf_str(&text));
    buf_deinit(&text);
    if (!out_of_memory(w, w->uri.ptr)) {
        w->kind = PATTERN_REGEX;
        scope_below(w, STR_EMPTY);
    }
}

static void resolve_regex(struct subscribe_item *w)
{
    w->kind = PATTERN_REGEX;
    w->uri = w->as_requested;
    scope_below(w, STR_EMPTY);
}

static void resolve_everything(struct subscribe_item *w)
{
    w->kind = PATTERN_GLOB;
    w->uri = w->as_requested;
    scope_below(w, STR_EMPTY);
}

/* ---- queries --------------------------------------------------------------------------------- */

static struct tidings_str subscribe_scheme(struct tidings_str uri);

/* Returns the provider that can parse this query, if any. */
static struct tidings_provider *query_provider(struct subscribe_item *w)
{
    const struct catalog *c = w->owner->worker->catalog;
    struct catalog_hit hit;
    struct tidings_str scheme = subscribe_scheme(w->uri);
    if (catalog_find(c, w->uri, &w->owner->arena, &hit) && hit.provider) {
        return hit.provider->ops->query ? hit.provider : NULL;
    }
    for (size_t i = 0; i < c->mount_count; i++) {
        struct tidings_provider *p = c->mounts[i];
        if (p->ops->query && str_eq(subscribe_scheme(p->prefix), scheme)) {
            return p;
        }
    }
    return NULL;
}

static void ask_provider(struct subscribe_item *w, struct tidings_provider *p)
{
    struct tidings_error err;
    char glob[URI_MAX];
    size_t len = sizeof(glob);
    int rc = p->ops->query(p, w->uri, glob, &len, &err);
    if (rc < 0) {
        subscribe_item_refuse(w, rc, "%s", err.text);
    } else if (subscribe_spell(w, tidings_strn(glob, len), AS_PATTERN)) {
        w->is_open = true;
        w->kind = PATTERN_GLOB;
        scope_below_slash(w, fixed_prefix(w->uri, "*["));
    }
}

static void resolve_query(struct subscribe_item *w)
{
    struct tidings_provider *p = query_provider(w);
    if (p) {
        ask_provider(w, p);
        return;
    }
    struct tidings_str query;
    w->uri = str_cut(w->uri, '?', &query, NULL);
    subscribe_item_read_conditions(w, query);
    if (!w->refused) {
        w->is_open = true;
        w->kind = PATTERN_CONTAINER;
        scope_below_slash(w, w->uri);
    }
}

/* ---- deciding -------------------------------------------------------------------------------- */

/* The URI names nothing that exists. */
static void resolve_absent(struct subscribe_item *w)
{
    struct tidings_provider *p = w->stat.base.provider;
    bool is_literal = w->options.match == OPTION_MATCH_LITERAL;
    if (str_find(w->uri, '?') >= 0 && !is_literal) {
        resolve_query(w);
    } else if (has_any(w->uri, "*") && !is_literal) {
        resolve_pattern(w, PATTERN_GLOB, "*[");
    } else if (w->uri.ptr[w->uri.len - 1] == '/' && !is_literal) {
        resolve_container(w);
    } else if (p && p->ops->covers && !is_literal) {
        w->covers_provider = p;
        resolve_exact(w, PATTERN_LITERAL);
    } else if (w->stat.base.details) {
        w->refused = true; /* the provider has given details */
    } else if (p && !(p->ops->flags & TIDINGS_PROVIDER_SINGLE)) {
        resolve_awaited(w);
    } else {
        subscribe_item_refuse(w, TIDINGS_E_NOTFOUND, "resource not found");
    }
}

static void subscribe_item_refuse_mute(struct subscribe_item *w)
{
    subscribe_item_refuse(w, TIDINGS_E_INVALID, "this resource cannot be subscribed to");
    job_explain(&w->stat.base, STR("{\"reason\":\"not_subscribable\"}"));
}

static void resolve_existing(struct subscribe_item *w)
{
    const struct tidings_resource *about = &w->stat.about;
    if (about->not_subscribable) {
        subscribe_item_refuse_mute(w);
        return;
    }
    const struct subscription_group *group = w->owner->pending.group;
    if (group && !access_subscribes(group->subscriber->principal, about->uri)) {
        subscribe_item_refuse(w, TIDINGS_E_NOTFOUND, "resource not found");
        return;
    }
    if (!str_eq(about->uri, w->uri)) { /* changes use the provider's own spelling */
        w->uri = arena_dup(&w->owner->arena, about->uri);
        if (out_of_memory(w, w->uri.ptr)) {
            return;
        }
    }
    bool slash = w->uri.ptr[w->uri.len - 1] == '/';
    w->is_leaf = !about->listable && !slash;
    w->modified_ms = about->modified_ms;
    bool below = (about->listable || slash) && w->options.match != OPTION_MATCH_LITERAL;
    struct tidings_provider *p = w->stat.base.provider;
    w->covers_provider = p && p->ops->covers ? p : NULL;
    if (below && slash) {
        w->kind = PATTERN_CONTAINER;
        scope_below(w, w->uri);
    } else {
        resolve_exact(w, below ? PATTERN_CONTAINER : PATTERN_LITERAL);
    }
}

static void subscribe_item_resolved(struct subscribe_item *w)
{
    item_resolved(w->owner);
}

static void stat_done(struct job *job)
{
    struct subscribe_item *w = job->user;
    bool is_literal = w->options.match == OPTION_MATCH_LITERAL;
    /* A URI that is invalid for its provider may be a glob. */
    bool is_absent = job->code == TIDINGS_E_NOTFOUND ||
                     (job->code == TIDINGS_E_INVALID && !is_literal && has_any(w->uri, "*"));
    if (job->code >= 0 && w->stat.about.listable && str_find(w->uri, '?') >= 0 && !is_literal) {
        resolve_query(w); /* a resource with children, narrowed by a query */
    } else if (job->code >= 0) {
        resolve_existing(w);
    } else if (job->code == TIDINGS_E_GONE && (w->options.given & OPTION_SINCE) != 0) {
        resolve_exact(w, PATTERN_LITERAL); /* the changes since the cursor include its deletion */
    } else if (!is_absent) {
        w->refused = true;
    } else {
        resolve_absent(w);
    }
    if (!subscribe_item_ask_baseline(w, subscribe_item_resolved)) {
        subscribe_item_resolved(w);
    }
}

/* Raw brackets never occur in a resource's URI, except around the address of its host. */
static bool has_class(struct tidings_str s)
{
    struct tidings_str rest;
    bool more = false;
    str_cut(s, '/', &rest, &more);
    if (more && str_starts(rest, STR("/["))) {
        str_cut(rest, ']', &s, NULL);
    }
    return has_any(s, "[");
}

/* A repeated class is not a glob but a regex: file://logs/app-[0-9]+.log. */
static bool is_regex_uri(const struct subscribe_item *w, struct tidings_str path)
{
    ptrdiff_t end = str_find(path, ']');
    return w->owner->is_legacy && dialect_rules(w->owner->worker->self)->has_regex_uris &&
           end >= 0 && (size_t)end + 1 < path.len && path.ptr[end + 1] == '+';
}

/* Resolves a pattern by its text or option. Returns false if the resource must be looked up. */
static bool resolve_by_text(struct subscribe_item *w)
{
    switch (w->options.match) {
    case OPTION_MATCH_REGEX:
        resolve_regex(w);
        return true;
    case OPTION_MATCH_TEMPLATE:
        resolve_pattern(w, PATTERN_TEMPLATE, "{");
        return true;
    case OPTION_MATCH_GLOB:
        resolve_pattern(w, PATTERN_GLOB_Q, "*[?");
        return true;
    case OPTION_MATCH_CONTAINER:
        if (subscribe_spell(w, w->as_requested, AS_CONTAINER)) {
            resolve_container(w);
        }
        return true;
    case OPTION_MATCH_AUTO:
    case OPTION_MATCH_LITERAL:
        break;
    }
    if (w->options.match == OPTION_MATCH_AUTO && str_eq(w->as_requested, STR("**"))) {
        resolve_everything(w);
        return true;
    }
    /* A raw '?' starts a query whatever follows; but "{?q}" is a template. */
    struct tidings_str path = str_cut(w->as_requested, '?', &(struct tidings_str){0}, NULL);
    if (w->options.match == OPTION_MATCH_AUTO && has_class(path) && is_regex_uri(w, path)) {
        resolve_regex_uri(w);
        return true;
    }
    if (w->options.match == OPTION_MATCH_AUTO && has_any(path, "{}")) {
        resolve_pattern(w, PATTERN_TEMPLATE, "{");
        return true;
    }
    if (w->options.match == OPTION_MATCH_AUTO && has_class(path)) {
        resolve_pattern(w, PATTERN_GLOB, "*[");
        return true;
    }
    if (w->options.match == OPTION_MATCH_AUTO && path.len < w->as_requested.len &&
        has_any(w->as_requested, "{}[]")) {
        if (subscribe_spell(w, w->as_requested, AS_PATTERN)) {
            resolve_query(w); /* no resource has such a name */
        }
        return true;
    }
    return !subscribe_spell(w, w->subject.len > 0 ? w->subject : w->as_requested, AS_URI);
}

/* Applies the server's option rules below the URI, up to its first wildcard. */
static bool apply_rules(struct subscribe_item *w)
{
    const struct options *o = &w->options;
    enum option_match match = o->given & OPTION_MATCH ? o->match : OPTION_MATCH_AUTO;
    struct tidings_str fixed = STR_EMPTY;
    struct tidings_error err;
    struct buf text;
    buf_init(&text, URI_MAX * 3);
    const struct catalog *catalog = w->owner->worker->catalog;
    if (match != OPTION_MATCH_REGEX &&
        catalog_canonical(catalog, w->as_requested, true, &text, NULL) == 0) {
        const char *wild = match == OPTION_MATCH_GLOB ? "*[{?" : "*[{";
        fixed = buf_str(&text);
        if (match == OPTION_MATCH_AUTO || match == OPTION_MATCH_LITERAL) {
            subscribe_item_find_subject(w, fixed);
        }
        if (match != OPTION_MATCH_GLOB) {
            fixed = str_cut(fixed, '?', &(struct tidings_str){0}, NULL);
        }
        fixed = has_any(fixed, wild) ? fixed_prefix(fixed, wild) : fixed;
    }
    const struct option_rules *rules = w->owner->rules;
    struct option_limits limits = *w->owner->worker->limits->options;
    limits.rules = rules ? rules->at : limits.rules;
    limits.rule_count = rules ? rules->count : limits.rule_count;
    if (w->owner->is_legacy) { /* legacy subscriptions */
        struct dialect_defaults defaults = dialect_defaults(w->owner->worker->self);
        options_default(&w->options, &limits, &defaults);
    }
    if (!w->refused && options_resolve(&w->options, &limits, fixed, &w->matches, &err)) {
        subscribe_item_refuse(w, err.code, "%s", err.text);
    }
    buf_deinit(&text);
    return !w->refused;
}

/* Returns true if only a template produces the URI. That does not make a pattern the URI of a
 * resource. */
static bool is_only_produced(const struct subscribe_item *w, const struct catalog_hit *hit)
{
    return hit->entry && hit->entry->uri_template && has_any(w->uri, "*") &&
           w->options.match != OPTION_MATCH_LITERAL;
}

static void resolve_item(struct subscribe_item *w)
{
    struct subscribe_batch *s = w->owner;
    const struct principal *principal = s->pending.group->subscriber->principal;
    job_init(&w->stat.base, s->worker, stat_done, w, STR_EMPTY);
    w->stat.base.keeps_details = true;
    if (s->worker->self->no_subscriptions && s->client) { /* the program itself may subscribe */
        subscribe_item_refuse(w, TIDINGS_E_UNSUPPORTED, "this server offers no subscriptions");
        item_resolved(s);
        return;
    }
    subscribe_item_open_since(w, principal);
    if (!apply_rules(w) || resolve_by_text(w)) {
        item_resolved(s);
        return;
    }
    w->stat.base.uri = w->uri;
    struct catalog_hit hit;
    bool may = catalog_may_ask(s->worker->catalog, principal, ACCESS_READ, w->uri) &&
               catalog_may_ask(s->worker->catalog, principal, ACCESS_SUBSCRIBE, w->uri);
    if (may && catalog_find(s->worker->catalog, w->uri, &s->arena, &hit) &&
        !is_only_produced(w, &hit)) {
        w->stat.principal = s->principal;
        job_stat(&w->stat, &hit);
        return;
    }
    bool is_pattern = has_any(w->uri, "?*"); /* covers what the client may see, even if absent */
    if ((!may && !is_pattern) || w->options.match == OPTION_MATCH_LITERAL) {
        subscribe_item_refuse(w, TIDINGS_E_NOTFOUND, "resource not found");
    } else {
        resolve_absent(w);
    }
    item_resolved(s);
}

void subscribe_batch_resolve(struct subscribe_batch *s)
{
    s->unresolved = s->count + 1; /* one for this loop */
    for (size_t i = 0; i < s->count; i++) {
        s->items[i].owner = s;
        if (s->items[i].refused) {
            item_resolved(s);
        } else {
            resolve_item(&s->items[i]);
        }
    }
    item_resolved(s);
}

/* -------------------------------------------------------------------------------------------------
 * Checks whether a subscription to a pattern, a query or an absent container can ever notify. It is
 * rejected if nothing can match it, or if every match is unsubscribable. It is accepted with a
 * warning if only later registrations of the program can match it. A regex is never rejected: it
 * gets a warning if its literal prefix excludes everything that is served.
 *
 * Resources that are hidden from the principal count as absent, so neither answer reveals them.
 */

/* Registered resources and templates compared per request; beyond that, one more is assumed to
 * match. Hidden ones do not count, because the answer would reveal them. */
#define REACH_COMPARED_MAX 4096u

#define ONLY_LATER                                                                                 \
    "nothing that is served now can match it; only what is registered later will be notified"

struct reach {
    struct subscribe_item *item;
    const struct principal *principal;
    struct tidings_str fixed; /* every URI that the item matches starts with this */
    bool meets;               /* a subscribable match exists */
    bool meets_mute;          /* an unsubscribable match exists */
    bool has_scheme;          /* something is served under that scheme */
    bool may_grow;            /* … by the program, which may register more */
};

/* Rejects what cannot be subscribed to. */
static struct tidings_str subscribe_scheme(struct tidings_str uri)
{
    return str_cut(uri, ':', &(struct tidings_str){0}, NULL);
}

/* Returns false if nothing below that mount can match. */
static bool subscribe_item_meets_mount(const struct subscribe_item *w,
                                       const struct tidings_provider *p)
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

/* Returns false if everything that starts with `text` is hidden from the principal. */
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

/* Returns true if some URI starts with both. */
static bool prefixes_meet(struct tidings_str prefix, struct tidings_str other)
{
    return str_starts(prefix, other) || str_starts(other, prefix);
}

/* Returns true if `uri` starts with `r->fixed`, if the item is a regex. */
static bool meets_resource(const struct reach *r, struct tidings_str uri)
{
    const struct subscribe_item *w = r->item;
    return w->kind == PATTERN_REGEX || pattern_matches(w->kind, w->uri, uri);
}

/* The provider has a fixed set of resources. */
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
        if (is_regex && c->mounts[i]->refuses_watches) {
            r->meets_mute = true; /* the provider rejects the other kinds, and gives its reason */
        } else if (c->mounts[i]->row) {
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

/* Checks the entries that start with `begin`. */
static void look_at_entries(struct reach *r, const struct entries *entries,
                            struct tidings_str begin)
{
    struct catalog_entry *e = entries_find(entries, begin); /* the first entry */
    struct entries_position at = entries_after(entries, begin);
    for (e = e ? e : entries_next(entries, &at); !r->meets && e && str_starts(e->about->uri, begin);
         e = entries_next(entries, &at)) {
        if (entry_shows(r, e) && is_met(r, e)) {
            r->meets = !e->about->not_subscribable;
            r->meets_mute = true;
        }
    }
}

static void check_regex(struct subscribe_item *w)
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
        w->warning = r.meets_mute ? STR("all resources that it matches now are not subscribable; "
                                        "only resources registered later cause updates")
                                  : STR(ONLY_LATER);
    }
}

/* Rejects what can never notify, or sets `warning` and `needs_watch`. */
static void subscribe_item_check_reach(struct subscribe_item *w)
{
    if (!w->refused && w->kind == PATTERN_REGEX) {
        check_regex(w);
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
