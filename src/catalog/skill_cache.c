/* SPDX-License-Identifier: MIT
 *
 * Facts of files by their URI.
 */
#include "catalog/skill_cache.h"

#include "base/map.h"
#include "base/mem.h"
#include "base/str.h"
#include "worker/worker.h"

struct skill_cache {
    struct map facts;
    size_t bytes;
};

struct skill_cached {
    struct skill_fact fact;
    bool is_known; /* false: there is no more than that it was said */
    bool was_said;
    char texts[];
};

static void skill_cache_clear(struct skill_cache *cache)
{
    size_t at = 0;
    for (struct skill_cached *c; (c = map_next(&cache->facts, &at)) != NULL;) {
        mem_free(c);
    }
    map_deinit(&cache->facts);
    map_init(&cache->facts);
    cache->bytes = 0;
}

void skill_cache_deinit(struct worker *worker)
{
    if (worker->skills) {
        skill_cache_clear(worker->skills);
        map_deinit(&worker->skills->facts);
        mem_free(worker->skills);
        worker->skills = NULL;
    }
}

static struct skill_cached *skill_cache_at(struct worker *worker, struct tidings_str uri,
                                           struct tidings_str etag)
{
    struct skill_cached *c = worker->skills ? map_find(&worker->skills->facts, uri) : NULL;
    return c && str_eq(c->fact.etag, etag) ? c : NULL;
}

const struct skill_fact *skill_cache_find(struct worker *worker, struct tidings_str uri,
                                          struct tidings_str etag)
{
    bool is_strong = etag.len > 0 && !str_starts(etag, STR("W/"));
    struct skill_cached *c = is_strong ? skill_cache_at(worker, uri, etag) : NULL;
    return c && c->is_known ? &c->fact : NULL;
}

/* A place for the facts of `uri`, instead of any there was; NULL: no memory. */
static struct skill_cached *skill_cache_make(struct worker *worker, const struct skill_fact *fact)
{
    struct skill_cache *cache = worker->skills;
    size_t bytes = sizeof(struct skill_cached) + fact->uri.len + fact->etag.len + fact->front.len;
    if (!cache && (cache = mem_zalloc(sizeof(*cache))) != NULL) {
        map_init(&cache->facts);
        worker->skills = cache;
    }
    struct skill_cached *c = cache ? mem_zalloc(bytes) : NULL;
    if (!c) {
        return NULL;
    }
    if (cache->facts.count >= SKILL_CACHE_FILES || cache->bytes + bytes > SKILL_CACHE_BYTES) {
        skill_cache_clear(cache);
    }
    char *at = c->texts;
    c->fact = *fact;
    c->fact.uri = str_pack(&at, fact->uri);
    c->fact.etag = str_pack(&at, fact->etag);
    c->fact.front = str_pack(&at, fact->front);
    void *old = NULL;
    if (map_put(&cache->facts, c->fact.uri, c, &old) < 0) {
        mem_free(c);
        return NULL;
    }
    mem_free(old);
    cache->bytes += bytes;
    return c;
}

void skill_cache_put(struct worker *worker, const struct skill_fact *fact)
{
    struct skill_cached *c = fact->etag.len > 0 ? skill_cache_make(worker, fact) : NULL;
    if (c) {
        c->is_known = true;
    }
}

bool skill_cache_said(struct worker *worker, struct tidings_str uri, struct tidings_str etag)
{
    struct skill_cached *c = skill_cache_at(worker, uri, etag);
    if (!c) {
        const struct skill_fact nothing = {.uri = uri, .etag = etag};
        c = skill_cache_make(worker, &nothing);
    }
    bool was_said = c && c->was_said;
    if (c) {
        c->was_said = true;
    }
    return was_said;
}
