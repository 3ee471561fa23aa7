/* SPDX-License-Identifier: MIT
 *
 * skills/list and skills/get (SEP-2640): the skills among the resources of the scheme `skill`.
 *
 * A page of the list is collected in two steps: first the URIs of files called SKILL.md in the
 * order of resources/list (registered resources, then each mount), then entry by entry. A page ends
 * early when it is large or needed much reading, so that no request takes long: the next page
 * continues after the last listed skill. A SKILL.md that is not a valid skill is left out, and the
 * log gives the reason once.
 */
#include "engine/protocol/method_skills.h"

#include <stdlib.h>

#include "base/error.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/str.h"
#include "engine/catalog/catalog.h"
#include "engine/catalog/job.h"
#include "engine/catalog/job_read.h"
#include "engine/protocol/method.h"
#include "engine/protocol/request.h"
#include "engine/worker.h"
#include "formats/json_write.h"
#include "formats/uri.h"
#include "formats/yaml.h"
#include "security/access.h"

/* -------------------------------------------------------------------------------------------------
 * The entry of one skill (formats/uri.h) for the client of a request: its files are found and read
 * on the client's behalf, one after the other, and listed with digest and size. Files that the
 * client may not list and read are left out; a SKILL.md that it may not read is not a skill for
 * this client.
 *
 *     e.request = …; e.uri = …; e.done = …;  // canonical, the URI of a SKILL.md
 *     skill_entry_start(&e);                 // `done` may come before this returns
 *     … in done: look at the outcome, then skill_entry_deinit(&e)
 *
 * A directory counts as a skill when its SKILL.md has valid front matter and it has no more files
 * and bytes than every host accepts. If files cannot be listed (a template, a provider that lists
 * nothing), the entry contains "dynamic".
 */

struct skill_file;

struct skill_entry {
    /* The request: */
    struct request *request;
    struct tidings_str uri; /* must outlive it */
    void (*done)(struct skill_entry *e);
    void *user;
    /* The outcome: */
    int code; /* 0, or the reason for failure: TIDINGS_E_NOTFOUND, _PARSE, _LIMIT, … */
    struct tidings_error err;
    struct buf json;     /* the entry */
    uint64_t bytes_read; /* of files that had to be read for it */
    /* Private: */
    struct catalog *catalog; /* a reference */
    struct skill_file *files;
    size_t count, mount, at;
    uint64_t announced, total; /* bytes, as listed and as read */
    uint64_t burst;            /* read in this turn */
    bool has_listed, is_dynamic, is_stepping, is_ready;
    union {
        struct tidings_list list;
        struct tidings_read read;
    };
    struct read_options options;
    struct buf front; /* of SKILL.md: JSON text */
    struct sha256 hash;
    uint64_t size;
    bool has_content;
    struct tidings_error content_err; /* of its front matter */
};

/* -------------------------------------------------------------------------------------------------
 * Facts of files by their URI.
 */

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

/* The key is not a valid URI, so it cannot hide the cached facts of the file, which may belong to
 * another skill. */
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

/* -------------------------------------------------------------------------------------------------
 * Making the entry of a skill: list, read, write. Each step is a job of a provider or needs none;
 * they follow one another in a loop (skill_entry_run), not in each other's callbacks, so that five
 * hundred files take no more stack than one.
 */

#define ENTRY_MAX (8u << 20) /* bytes of JSON: 512 URIs and a front matter have less */
#define FRONT_MAX (1u << 20)
#define BURST_BYTES (1u << 20) /* hashed in one turn of the worker: some milliseconds */

struct skill_file {
    char *uri, *etag;
    uint64_t size;
    char digest[SKILL_DIGEST_SIZE];
    bool is_gone;
};

static int skill_entry_fail(struct skill_entry *e, int code, const char *why)
{
    e->code = tidings_fail(&e->err, code, "%s", why);
    return e->code;
}

static void skill_entry_deinit(struct skill_entry *e)
{
    for (size_t i = 0; i < e->count; i++) {
        mem_free(e->files[i].uri);
        mem_free(e->files[i].etag);
    }
    mem_free(e->files);
    buf_deinit(&e->json);
    buf_deinit(&e->front);
    catalog_unref(e->catalog);
    e->files = NULL;
    e->count = 0;
    e->catalog = NULL;
}

/* ---- which files ----------------------------------------------------------------------------- */

/* Returns 1 if a skill may have this number of bytes. */
static int skill_entry_bound(struct skill_entry *e, uint64_t bytes)
{
    if (bytes > SKILL_MAX_BYTES) {
        skill_entry_fail(e, TIDINGS_E_LIMIT, "a skill has at most 16 MiB, this one more");
    }
    return bytes <= SKILL_MAX_BYTES;
}

/* Adds a file of the skill. Returns 1 to continue, 0 to stop. */
static int skill_entry_add(struct skill_entry *e, const struct tidings_resource *row)
{
    const struct principal *who = e->request->principal;
    if (row->listable || !access_allows(who, ACCESS_LIST, row->uri) ||
        !access_allows(who, ACCESS_READ, row->uri)) {
        return 1;
    }
    if (e->count == SKILL_MAX_FILES) {
        skill_entry_fail(e, TIDINGS_E_LIMIT, "a skill has at most 512 files, this one more");
        return 0;
    }
    if (!e->files) {
        e->files = mem_zalloc(SKILL_MAX_FILES * sizeof(*e->files));
    }
    char *uri = str_dup(row->uri), *etag = str_dup(row->etag);
    if (!e->files || !uri || !etag) {
        mem_free(uri);
        mem_free(etag);
        skill_entry_fail(e, TIDINGS_E_NOMEM, "out of memory");
        return 0;
    }
    e->files[e->count++] = (struct skill_file){.uri = uri, .etag = etag};
    e->announced += row->has_size && row->size > 0 ? (uint64_t)row->size : 0;
    return skill_entry_bound(e, e->announced);
}

/* Runs on the thread that lists. */
static int skill_entry_on_row(struct tidings_list *list, const struct tidings_resource *row)
{
    struct skill_entry *e = list->base.user;
    struct tidings_str root = skill_root(e->uri);
    if (!str_starts(row->uri, root)) {
        return str_cmp(row->uri, root) < 0; /* the later rows are not in the skill */
    }
    bool is_own = catalog_mount(e->catalog, row->uri) == list->base.provider &&
                  !entries_find(&e->catalog->resources, row->uri);
    return is_own ? skill_entry_add(e, row) : 1;
}

static void skill_entry_add_registered(struct skill_entry *e)
{
    struct tidings_str root = skill_root(e->uri);
    struct entries_position at = entries_after(&e->catalog->resources, root);
    for (struct catalog_entry *row; (row = entries_next(&e->catalog->resources, &at)) != NULL;) {
        if (!str_starts(row->about->uri, root) || skill_entry_add(e, row->about) == 0) {
            break;
        }
    }
}

static void skill_entry_job_done(struct job *job);

/* Asks the next mount that may have files of the skill. Returns false if there is none. */
static bool skill_entry_list_next(struct skill_entry *e)
{
    struct tidings_str root = skill_root(e->uri);
    for (; e->mount < e->catalog->mount_count; e->mount++) {
        struct tidings_provider *p = e->catalog->mounts[e->mount];
        if (!p->ops->list || (!uri_is_within(root, p->prefix) && !uri_is_within(p->prefix, root))) {
            continue;
        }
        memset(&e->list, 0, sizeof(e->list));
        job_init(&e->list.base, e->request->worker, skill_entry_job_done, e, STR_EMPTY);
        e->list.principal = e->request->principal;
        e->list.on_row = skill_entry_on_row;
        e->list.after = uri_is_within(root, p->prefix) ? root : STR_EMPTY;
        e->mount++;
        request_begin_job(e->request, &e->list.base);
        job_list(&e->list, p);
        return true;
    }
    return false;
}

static int skill_entry_compare(const void *a, const void *b)
{
    const struct skill_file *x = a, *y = b;
    return strcmp(x->uri, y->uri);
}

static void skill_entry_listed(struct skill_entry *e)
{
    bool has_main = false;
    e->has_listed = true;
    if (e->count > 1) {
        qsort(e->files, e->count, sizeof(*e->files), skill_entry_compare);
    }
    for (size_t i = 0; i < e->count; i++) {
        has_main = has_main || str_eq(tidings_str(e->files[i].uri), e->uri);
    }
    if (e->code == 0 && !has_main) {
        skill_entry_fail(e, TIDINGS_E_NOTFOUND, "there is no such skill");
    }
}

/* ---- what is in them ------------------------------------------------------------------------- */

static void skill_entry_discard(struct tidings_read *read)
{
    struct skill_entry *e = read->base.user;
    sha256_init(&e->hash);
    buf_clear(&e->front);
    e->size = 0;
    e->has_content = false;
}

/* Reads the front matter of SKILL.md as JSON text; keeps the error if it is invalid. */
static void skill_entry_take_front(struct skill_entry *e, struct tidings_str bytes)
{
    struct json *front = NULL;
    struct jw w;
    int rc = front_matter_parse(bytes, &front, &e->content_err);
    rc = rc < 0 ? rc : skill_check_front_matter(front, e->uri, &e->content_err);
    jw_init(&w, &e->front);
    if (rc == 0) {
        e->content_err.code = 0;
        jw_value(&w, front);
    } else {
        e->content_err.code = rc;
    }
    jv_unref(front);
}

/* Runs on the provider's thread. */
static int skill_entry_element(struct tidings_read *read, const struct read_element *element,
                               struct tidings_error *err)
{
    struct skill_entry *e = read->base.user;
    (void)err;
    if (e->has_content) {
        return 0; /* of several formats, clients receive the first */
    }
    e->has_content = true;
    e->size = element->bytes.len;
    sha256_put(&e->hash, element->bytes.ptr, element->bytes.len);
    if (str_eq(read->base.uri, e->uri)) {
        skill_entry_take_front(e, element->bytes);
    }
    return 0;
}

static const struct read_receiver skill_entry_receiver = {skill_entry_element, skill_entry_discard};

static bool skill_entry_read(struct skill_entry *e, struct tidings_str uri)
{
    struct catalog_hit hit;
    memset(&hit, 0, sizeof(hit));
    if (!catalog_find(e->catalog, uri, &e->request->arena, &hit)) {
        skill_entry_fail(e, TIDINGS_E_NOTFOUND, "resource not found");
        return false;
    }
    size_t max = e->request->worker->limits->max_read_bytes;
    memset(&e->read, 0, sizeof(e->read));
    memset(&e->options, 0, sizeof(e->options));
    e->options.formats[e->options.format_count++] = STR("*/*");
    job_init(&e->read.base, e->request->worker, skill_entry_job_done, e, uri);
    e->read.receiver = &skill_entry_receiver;
    e->read.options = &e->options;
    e->read.principal = e->request->principal;
    e->read.own_only = true;
    e->read.raw = true;
    e->read.max_bytes = max < SKILL_MAX_BYTES ? max : SKILL_MAX_BYTES;
    sha256_init(&e->hash);
    e->size = 0;
    e->has_content = false;
    request_begin_job(e->request, &e->read.base);
    job_read(&e->read, &hit);
    return true;
}

/* Returns true if the next file is cached with its etag. The SKILL.md of another skill inside this
 * one is an ordinary file; if the cache knows it as such, its front matter is still missing. */
static bool skill_entry_recall(struct skill_entry *e, struct skill_file *file)
{
    const struct skill_fact *fact =
        skill_cache_find(e->request->worker, tidings_str(file->uri), tidings_str(file->etag));
    bool is_main = str_eq(tidings_str(file->uri), e->uri);
    if (!fact || (is_main && fact->front.len == 0)) {
        return false;
    }
    file->size = fact->size;
    memcpy(file->digest, fact->digest, sizeof(file->digest));
    buf_puts(&e->front, is_main ? fact->front : STR_EMPTY);
    e->total += file->size;
    skill_entry_bound(e, e->total);
    return true;
}

static void skill_entry_take(struct skill_entry *e, const struct job *job)
{
    struct skill_file *file = &e->files[e->at++];
    unsigned char hash[SHA256_BYTES];
    bool is_main = str_eq(tidings_str(file->uri), e->uri);
    file->is_gone = job->code == TIDINGS_E_NOTFOUND || job->code == TIDINGS_E_GONE;
    if (job->code < 0 && (is_main || !file->is_gone)) {
        e->code = tidings_fail(&e->err, job->code, "%s", job->err.text);
        return;
    }
    if (is_main && e->content_err.code < 0) {
        e->code = e->content_err.code;
        e->err = e->content_err;
        return;
    }
    sha256_end(&e->hash, hash);
    skill_digest_of_hash(hash, file->digest);
    file->size = e->size;
    e->bytes_read += e->size;
    e->burst += e->size;
    e->total += e->size;
    skill_entry_bound(e, e->total);
    if (!file->is_gone && !e->is_dynamic) {
        struct skill_fact fact = {.uri = tidings_str(file->uri),
                                  .etag = tidings_str(file->etag),
                                  .front = is_main ? buf_str(&e->front) : STR_EMPTY,
                                  .size = file->size};
        memcpy(fact.digest, file->digest, sizeof(fact.digest));
        skill_cache_put(e->request->worker, &fact);
    }
}

/* ---- the entry ------------------------------------------------------------------------------- */

static void skill_entry_write(struct skill_entry *e)
{
    struct jw w;
    jw_init(&w, &e->json);
    jw_begin_object(&w);
    jw_put_string(&w, STR("uri"), e->uri);
    jw_put_raw(&w, STR("frontmatter"), buf_str(&e->front));
    jw_key(&w, STR("resources"));
    if (e->is_dynamic) {
        jw_string(&w, STR(SKILL_DYNAMIC));
    } else {
        jw_begin_array(&w);
    }
    for (size_t i = 0; !e->is_dynamic && i < e->count; i++) {
        const struct skill_file *file = &e->files[i];
        if (file->is_gone) {
            continue;
        }
        jw_begin_object(&w);
        jw_put_string(&w, STR("uri"), tidings_str(file->uri));
        jw_put_string(&w, STR("digest"), tidings_str(file->digest));
        jw_put_integer(&w, STR("size"), (int64_t)file->size);
        jw_end_object(&w);
    }
    if (!e->is_dynamic) {
        jw_end_array(&w);
    }
    jw_end_object(&w);
    if (e->json.failed || e->front.failed) {
        skill_entry_fail(e, TIDINGS_E_NOMEM, "out of memory");
    } else if (e->front.len == 0) {
        skill_entry_fail(e, TIDINGS_E_PARSE, "its " SKILL_FILE " has no content");
    }
}

static void skill_entry_run(struct skill_entry *e);

static void skill_entry_paused(struct job *job)
{
    struct skill_entry *e = job->user;
    request_end_job(e->request);
    e->burst = 0;
    e->is_ready = true;
    if (!e->is_stepping) {
        skill_entry_run(e);
    }
}

/* This worker has read and hashed much in this turn: other work comes first. */
static void skill_entry_pause(struct skill_entry *e)
{
    memset(&e->list, 0, sizeof(e->list));
    job_init(&e->list.base, e->request->worker, skill_entry_paused, e, STR_EMPTY);
    request_begin_job(e->request, &e->list.base);
    job_begin(&e->list.base);
    job_finish_later(&e->list.base, 0, NULL);
}

/* Begins the next step. Returns false if the entry is complete. */
static bool skill_entry_step(struct skill_entry *e)
{
    if (e->request->cancelled && e->code == 0) {
        skill_entry_fail(e, TIDINGS_E_CANCELLED, "the request was cancelled");
    }
    if (e->code == 0 && !e->has_listed) {
        if (skill_entry_list_next(e)) {
            return true;
        }
        skill_entry_listed(e);
    }
    while (e->code == 0 && e->at < e->count) {
        struct skill_file *file = &e->files[e->at];
        bool is_known = skill_entry_recall(e, file);
        if (!is_known && e->burst >= BURST_BYTES) {
            skill_entry_pause(e);
            return true;
        }
        if (!is_known) {
            return skill_entry_read(e, tidings_str(file->uri));
        }
        e->at++;
    }
    if (e->code == 0) {
        skill_entry_write(e);
    }
    return false;
}

static void skill_entry_run(struct skill_entry *e)
{
    bool goes_on = true;
    while (goes_on) {
        e->is_ready = false;
        e->is_stepping = true;
        goes_on = skill_entry_step(e);
        e->is_stepping = false;
        if (goes_on && !e->is_ready) {
            return; /* skill_entry_job_done continues */
        }
    }
    e->done(e);
}

static void skill_entry_job_done(struct job *job)
{
    struct skill_entry *e = job->user;
    request_end_job(e->request);
    if (e->has_listed) {
        skill_entry_take(e, job);
    } else if (job->code < 0 && e->code == 0) {
        e->code = tidings_fail(&e->err, job->code, "%s", job->err.text);
    }
    e->is_ready = true;
    if (!e->is_stepping) {
        skill_entry_run(e);
    }
}

static void skill_entry_start(struct skill_entry *e)
{
    struct catalog_hit hit;
    const struct principal *who = e->request->principal;
    memset(&hit, 0, sizeof(hit));
    buf_init(&e->json, ENTRY_MAX);
    buf_init(&e->front, FRONT_MAX);
    e->catalog = catalog_ref(e->request->worker->catalog);
    if (skill_root(e->uri).len == 0 || !str_starts(e->uri, STR(SKILL_SCHEME ":")) ||
        !access_allows(who, ACCESS_READ, e->uri) ||
        !catalog_find(e->catalog, e->uri, &e->request->arena, &hit)) {
        skill_entry_fail(e, TIDINGS_E_NOTFOUND, "there is no such skill");
        e->done(e);
        return;
    }
    e->is_dynamic = hit.provider ? !hit.provider->ops->list : hit.entry->uri_template != NULL;
    e->has_listed = e->is_dynamic;
    const struct tidings_resource own = {.uri = e->uri};
    if (!e->is_dynamic) {
        skill_entry_add_registered(e);
    } else if (skill_entry_add(e, &own) == 1 && e->count == 0) {
        skill_entry_fail(e, TIDINGS_E_NOTFOUND,
                         "there is no such skill"); /* it may not be listed */
    }
    skill_entry_run(e);
}

/* ---------------------------------------------------------------------------------------------- */

#define SKILLS_PER_PAGE 64u
#define SKILLS_PAGE_BYTES (1u << 20) /* of entries … */
#define SKILLS_READ_BYTES (8u << 20) /* … and of files read for them, after which a page ends */

enum skills_source { SKILLS_REGISTERED = 'r', SKILLS_MOUNTED = 'm' };

struct skills_page {
    struct tidings_list list;
    struct skill_entry entry;
    struct request *request;
    struct catalog *catalog; /* a reference */
    size_t mount;
    struct tidings_str after; /* in the arena of the request: the cursor */
    size_t wanted, found, written;
    char *uris[SKILLS_PER_PAGE];
    enum skills_source sources[SKILLS_PER_PAGE];
    bool is_cut; /* there may be more */
    bool is_busy, goes_on;
    uint64_t bytes_read;
    int code;
    struct tidings_error err;
};

static void skills_run(struct skills_page *p);

static void skills_end(struct skills_page *p)
{
    struct request *request = p->request;
    struct tidings_error err = p->err;
    int code = p->code;
    bool is_cut = p->is_cut || p->written < p->found;
    if (code == 0) {
        jw_end_array(&request->w);
    }
    if (code == 0 && is_cut && p->written > 0) {
        page_write_cursor(&request->w, (char)p->sources[p->written - 1],
                          tidings_str(p->uris[p->written - 1]));
    }
    for (size_t i = 0; i < p->found; i++) {
        mem_free(p->uris[i]);
    }
    catalog_unref(p->catalog);
    if (code < 0) {
        request_fail_err(request, &err, STR_EMPTY);
    } else {
        request_end(request, CACHE_NOW);
    }
}

/* ---- finding --------------------------------------------------------------------------------- */

/* Returns 1 to continue, 0 if the page is full. In a mount without an authority the first directory
 * becomes the authority, which cannot have capitals: skill_is_canonical. */
static int skills_found(struct skills_page *p, enum skills_source source, struct tidings_str uri)
{
    const struct principal *who = p->request->principal;
    if (skill_root(uri).len == 0 || str_cmp(uri, p->after) <= 0 || !skill_is_canonical(uri) ||
        !access_allows(who, ACCESS_LIST, uri) || !access_allows(who, ACCESS_READ, uri)) {
        return 1;
    }
    p->is_cut = p->found == p->wanted;
    char *copy = p->is_cut ? NULL : str_dup(uri);
    if (copy) {
        p->sources[p->found] = source;
        p->uris[p->found++] = copy;
    } else if (!p->is_cut) {
        p->code = tidings_fail(&p->err, TIDINGS_E_NOMEM, "out of memory");
    }
    return copy != NULL;
}

static int skills_on_row(struct tidings_list *list, const struct tidings_resource *row)
{
    struct skills_page *p = list->base.user;
    bool is_own = catalog_mount(p->catalog, row->uri) == list->base.provider &&
                  !entries_find(&p->catalog->resources, row->uri);
    return is_own ? skills_found(p, SKILLS_MOUNTED, row->uri) : 1;
}

static void skills_listed(struct job *job)
{
    struct skills_page *p = job->user;
    request_end_job(p->request);
    if (job->code < 0 && p->code == 0) {
        p->code = tidings_fail(&p->err, job->code, "%s", job->err.text);
    }
    p->after = STR_EMPTY;
    p->goes_on = true;
    skills_run(p);
}

/* Asks the next mount of the scheme. Returns false if there is none, or if the page is full. */
static bool skills_list_next(struct skills_page *p)
{
    for (; !p->is_cut && p->mount < p->catalog->mount_count; p->mount++) {
        struct tidings_provider *provider = p->catalog->mounts[p->mount];
        if (!provider->ops->list || !str_starts(provider->prefix, STR(SKILL_SCHEME ":"))) {
            continue;
        }
        memset(&p->list, 0, sizeof(p->list));
        job_init(&p->list.base, p->request->worker, skills_listed, p, STR_EMPTY);
        p->list.principal = p->request->principal;
        p->list.on_row = skills_on_row;
        p->list.after = p->after;
        p->mount++;
        request_begin_job(p->request, &p->list.base);
        job_list(&p->list, provider);
        return true;
    }
    return false;
}

/* The mount that a cursor points into, and where in it. */
static bool skills_find_mount(struct skills_page *p)
{
    for (size_t i = p->catalog->mount_count; i-- > 0;) {
        if (uri_is_within(p->after, p->catalog->mounts[i]->prefix)) {
            p->mount = i;
            return true;
        }
    }
    return false;
}

static void skills_find_registered(struct skills_page *p)
{
    const struct entries *rows = &p->catalog->resources;
    struct tidings_str scheme = STR(SKILL_SCHEME ":");
    struct entries_position at = entries_after(rows, p->after.len > 0 ? p->after : scheme);
    for (struct catalog_entry *e; (e = entries_next(rows, &at)) != NULL;) {
        if (!str_starts(e->about->uri, scheme) ||
            skills_found(p, SKILLS_REGISTERED, e->about->uri) == 0) {
            break;
        }
    }
    p->after = STR_EMPTY;
}

/* ---- telling --------------------------------------------------------------------------------- */

static void skills_warn(struct request *request, const struct skill_entry *e)
{
    bool is_gone = e->code == TIDINGS_E_NOTFOUND || e->code == TIDINGS_E_CANCELLED;
    if (!is_gone && !skill_cache_said(request->worker, e->uri, tidings_str(e->err.text))) {
        log_warn(LOG_PROVIDER, "invalid SKILL.md", KV("uri", e->uri), KV("reason", e->err.text));
    }
}

static void skills_described(struct skill_entry *e)
{
    struct skills_page *p = e->user;
    if (e->code == 0) {
        jw_raw(&p->request->w, buf_str(&e->json));
    } else if (e->code == TIDINGS_E_BUSY || e->code == TIDINGS_E_NOMEM) {
        /* Without the entry, clients would believe that the skill is gone. */
        p->code = tidings_fail(&p->err, e->code, "%s", e->err.text);
    } else {
        skills_warn(p->request, e);
    }
    p->bytes_read += e->bytes_read;
    p->written++;
    skill_entry_deinit(e);
    p->goes_on = true;
    skills_run(p);
}

/* Makes the entry of the next skill. Returns false if the page is over. */
static bool skills_describe_next(struct skills_page *p)
{
    if (p->written == p->found || p->request->cancelled || p->bytes_read >= SKILLS_READ_BYTES ||
        p->request->out.len >= SKILLS_PAGE_BYTES) {
        return false;
    }
    memset(&p->entry, 0, sizeof(p->entry));
    p->entry.request = p->request;
    p->entry.uri = tidings_str(p->uris[p->written]);
    p->entry.done = skills_described;
    p->entry.user = p;
    skill_entry_start(&p->entry);
    return true;
}

/* Runs the steps one after the other: a step that ends at once sets goes_on and the loop continues,
 * so that many steps take no more stack. */
static void skills_run(struct skills_page *p)
{
    if (p->is_busy) {
        return;
    }
    while (p->goes_on) {
        p->goes_on = false;
        p->is_busy = true;
        bool is_over = p->code < 0 || (!skills_list_next(p) && !skills_describe_next(p));
        p->is_busy = false;
        if (is_over) {
            skills_end(p);
            return;
        }
    }
}

void method_skills_list(struct request *request)
{
    size_t wanted = page_size(request);
    char source = SKILLS_REGISTERED;
    struct tidings_str after;
    if (wanted == 0 || !page_read_cursor(request, "rm", &source, &after)) {
        return;
    }
    struct skills_page *p = arena_alloc(&request->arena, sizeof(*p));
    if (!p) {
        request_fail(request, TIDINGS_E_NOMEM, STR_EMPTY, "out of memory");
        return;
    }
    memset(p, 0, sizeof(*p));
    p->request = request;
    p->catalog = catalog_ref(request->worker->catalog);
    p->after = after;
    p->wanted = wanted < SKILLS_PER_PAGE ? wanted : SKILLS_PER_PAGE;
    if (source == SKILLS_MOUNTED && !skills_find_mount(p)) {
        p->code = tidings_fail(&p->err, TIDINGS_E_INVALID,
                               "params.cursor points to a removed mount; retry without it");
        skills_end(p);
        return;
    }
    request_begin(request);
    jw_key(&request->w, STR("skills"));
    jw_begin_array(&request->w);
    if (source == SKILLS_REGISTERED) {
        skills_find_registered(p);
    }
    p->goes_on = true;
    skills_run(p);
}

/* ---- one skill ------------------------------------------------------------------------------- */

struct skills_getting {
    struct skill_entry entry;
    struct tidings_str as_requested;
};

static void skills_refuse(struct request *request, struct tidings_str as_requested, const char *why)
{
    request_note_denial(request, TIDINGS_E_NOTFOUND, as_requested);
    request_fail_rpc(request, RPC_INVALID_PARAMS, as_requested, "no skill is served at '%.*s'%s%s",
                     STR_ARG_MAX(as_requested, 200), why[0] ? ": " : "", why);
}

static void skills_got(struct skill_entry *e)
{
    struct skills_getting *g = e->user;
    struct request *request = e->request;
    if (e->code == 0) {
        request_begin(request);
        jw_put_raw(&request->w, STR("skill"), buf_str(&e->json));
        skill_entry_deinit(e);
        request_end(request, CACHE_NOW);
        return;
    }
    struct tidings_error err = e->err;
    skill_entry_deinit(e);
    if (err.code == TIDINGS_E_NOTFOUND) {
        skills_refuse(request, g->as_requested, "");
    } else if (err.code == TIDINGS_E_PARSE || err.code == TIDINGS_E_LIMIT) {
        skills_refuse(request, g->as_requested, err.text);
    } else {
        request_fail_err(request, &err, g->as_requested);
    }
}

void method_skills_get(struct request *request)
{
    struct json *param = jv_get(request->msg.params, "uri");
    struct skills_getting *g = arena_alloc(&request->arena, sizeof(*g));
    if (!jv_is(param, JV_STRING) || !g) {
        request_fail(request, g ? TIDINGS_E_INVALID : TIDINGS_E_NOMEM, STR_EMPTY,
                     g ? "params.uri must be a string" : "out of memory");
        return;
    }
    struct buf canonical;
    struct tidings_error err;
    memset(g, 0, sizeof(*g));
    g->as_requested = jv_str(param);
    buf_init(&canonical, URI_MAX * 3);
    int rc = catalog_canonical(request->worker->catalog, g->as_requested, false, &canonical, &err);
    g->entry.uri = rc < 0 ? STR_EMPTY : arena_dup(&request->arena, buf_str(&canonical));
    buf_deinit(&canonical);
    if (rc < 0 || !g->entry.uri.ptr) {
        skills_refuse(request, g->as_requested, rc < 0 ? err.text : "out of memory");
        return;
    }
    g->entry.request = request;
    g->entry.done = skills_got;
    g->entry.user = g;
    skill_entry_start(&g->entry);
}
