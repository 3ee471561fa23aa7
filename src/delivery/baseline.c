/* SPDX-License-Identifier: MIT
 *
 * Makes, shares and forgets baselines, and moves the chains of subscriptions along them.
 */
#include "delivery/baseline.h"

#include "base/mem.h"
#include "base/str.h"
#include "catalog/catalog.h"
#include "catalog/provider.h"
#include "worker/worker.h"

/* ---- baselines ------------------------------------------------------------------------------- */

void baselines_init(struct baselines *all, const struct worker *worker)
{
    map_init(&all->by_name);
    all->bytes = 0;
    all->worker = worker;
}

void baselines_deinit(struct baselines *all)
{
    map_deinit(&all->by_name);
}

static struct tidings_str name_of(const struct baseline *b)
{
    return tidings_strn(b->name, b->uri_len + 1 + b->etag_len);
}

static struct baseline *baseline_create(struct baselines *all, struct tidings_str uri,
                                        struct tidings_str etag)
{
    struct baseline *b = mem_zalloc(sizeof(*b) + uri.len + 1 + etag.len);
    if (!b) {
        return NULL;
    }
    char *at = b->name;
    b->all = all;
    b->uri_len = str_pack(&at, uri).len;
    *at++ = '\0';
    b->etag_len = str_pack(&at, etag).len;
    return b;
}

/* Two of the same name may differ in nothing that matters: the first to have content keeps it. */
static void keep_content(struct baseline *b, struct tidings_str content)
{
    if (b->content || content.len == 0 || content.len > BASELINES_MAX_BYTES - b->all->bytes) {
        return;
    }
    b->content = str_dup(content);
    if (b->content) {
        b->content_len = content.len;
        b->all->bytes += content.len;
    }
}

struct baseline *baseline_get(struct baselines *all, struct tidings_str uri,
                              struct tidings_str etag, struct tidings_str content)
{
    struct baseline *made = baseline_create(all, uri, etag);
    struct baseline *b = made ? map_find(&all->by_name, name_of(made)) : NULL;
    if (b) {
        mem_free(made);
    } else if (made && map_put(&all->by_name, name_of(made), made, NULL) == 0) {
        b = made;
    } else {
        mem_free(made);
        return NULL;
    }
    b->refs++;
    keep_content(b, content);
    return b;
}

struct baseline *baseline_ref(struct baseline *b)
{
    if (b) {
        b->refs++;
    }
    return b;
}

void baseline_unref(struct baseline *b)
{
    if (b && --b->refs == 0) {
        map_remove(&b->all->by_name, name_of(b));
        b->all->bytes -= b->content_len;
        mem_free(b->content);
        mem_free(b);
    }
}

/* ---- holding: what chains are at is kept by whoever makes the patches ------------------------ */

/* A reference of a chain's; NULL is fine. */
static struct baseline *baseline_hold(struct baseline *b)
{
    const struct worker *worker = b ? b->all->worker : NULL;
    if (b && b->chains++ == 0 && worker) {
        struct tidings_provider *p = catalog_mount(worker->catalog, baseline_uri(b));
        bool holds = p && p->ops->patch && p->ops->hold;
        b->holder = p;
        b->held = holds ? p->ops->hold(p, baseline_uri(b), baseline_etag(b)) : NULL;
    }
    return baseline_ref(b);
}

static void baseline_release(struct baseline *b)
{
    if (b && --b->chains == 0 && b->held) {
        b->holder->ops->release(b->holder, b->held);
        b->held = NULL;
    }
    baseline_unref(b);
}

/* ---- chains ---------------------------------------------------------------------------------- */

struct chain *chain_create(void)
{
    struct chain *chain = mem_zalloc(sizeof(*chain));
    if (chain) {
        map_init(&chain->many);
    }
    return chain;
}

void chain_destroy(struct chain *chain)
{
    if (!chain) {
        return;
    }
    size_t pos = 0;
    struct baseline *b;
    while ((b = map_next(&chain->many, &pos)) != NULL) {
        baseline_release(b);
    }
    map_deinit(&chain->many);
    baseline_release(chain->one);
    mem_free(chain);
}

static bool is_one(const struct chain *chain, struct tidings_str uri)
{
    return chain->one && str_eq(baseline_uri(chain->one), uri);
}

struct baseline *chain_at(const struct chain *chain, struct tidings_str uri)
{
    return is_one(chain, uri) ? chain->one : map_find(&chain->many, uri);
}

void chain_move(struct chain *chain, struct tidings_str uri, struct baseline *to)
{
    struct baseline *old = NULL;
    if (is_one(chain, uri) || (!chain->one && !map_find(&chain->many, uri))) {
        old = chain->one;
        chain->one = baseline_hold(to);
    } else if (!to || (!map_find(&chain->many, uri) && chain->many.count >= CHAIN_MAX)) {
        old = map_remove(&chain->many, uri);
    } else if (map_put(&chain->many, baseline_uri(to), to, (void **)&old) == 0) {
        (void)baseline_hold(to); /* its text is the key */
    } else {
        old = map_remove(&chain->many, uri);
    }
    baseline_release(old);
}
