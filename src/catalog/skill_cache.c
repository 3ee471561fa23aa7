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
    size_t bytes;
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

static bool skill_cache_is_strong(struct tidings_str etag)
{
    return etag.len > 0 && !str_starts(etag, STR("W/"));
}

const struct skill_fact *skill_cache_find(struct worker *worker, struct tidings_str uri,
                                          struct tidings_str etag)
{
    struct skill_cached *c = skill_cache_is_strong(etag) ? skill_cache_at(worker, uri, etag) : NULL;
    return c ? &c->fact : NULL;
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
    c->bytes = bytes;
    c->fact = *fact;
    c->fact.uri = str_pack(&at, fact->uri);
    c->fact.etag = str_pack(&at, fact->etag);
    c->fact.front = str_pack(&at, fact->front);
    void *before = NULL;
    if (map_put(&cache->facts, c->fact.uri, c, &before) < 0) {
        mem_free(c);
        return NULL;
    }
    const struct skill_cached *old = before;
    cache->bytes += bytes - (old ? old->bytes : 0);
    mem_free(before);
    return c;
}

void skill_cache_put(struct worker *worker, const struct skill_fact *fact)
{
    if (skill_cache_is_strong(fact->etag)) {
        (void)skill_cache_make(worker, fact);
    }
}

/* Under a name that no URI has, beside what is known of the file: it may be one of another skill.
 */
bool skill_cache_said(struct worker *worker, struct tidings_str uri, struct tidings_str why)
{
    struct buf name;
    buf_init(&name, uri.len + 1);
    buf_putc(&name, ' ');
    buf_puts(&name, uri);
    const struct skill_fact said = {.uri = buf_str(&name), .etag = why};
    struct skill_cached *c = name.failed ? NULL : skill_cache_at(worker, said.uri, why);
    if (!c && !name.failed) {
        c = skill_cache_make(worker, &said);
    }
    buf_deinit(&name);
    bool was_said = c && c->was_said;
    if (c) {
        c->was_said = true;
    }
    return was_said;
}
