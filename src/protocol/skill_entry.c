/* SPDX-License-Identifier: MIT
 *
 * Making the entry of a skill: list, read, write. Each step is a job of a provider or needs none;
 * they follow one another in a loop (skill_entry_run), not in each other's callbacks, so that five
 * hundred files take no more stack than one.
 */
#include "protocol/skill_entry.h"

#include <stdlib.h>

#include "access/access.h"
#include "base/error.h"
#include "base/mem.h"
#include "base/str.h"
#include "catalog/catalog.h"
#include "catalog/skill_cache.h"
#include "uri/uri.h"
#include "json/front_matter.h"
#include "json/write.h"

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

void skill_entry_deinit(struct skill_entry *e)
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

/* 1: that is no more than a skill may have. */
static int skill_entry_bound(struct skill_entry *e, uint64_t bytes)
{
    if (bytes > SKILL_MAX_BYTES) {
        skill_entry_fail(e, TIDINGS_E_LIMIT, "a skill has at most 16 MiB, this one more");
    }
    return bytes <= SKILL_MAX_BYTES;
}

/* One file of the skill. 1: go on, 0: enough. */
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

/* On whichever thread lists. */
static int skill_entry_on_row(struct tidings_list *list, const struct tidings_resource *row)
{
    struct skill_entry *e = list->base.user;
    struct tidings_str root = skill_root(e->uri);
    if (!str_starts(row->uri, root)) {
        return str_cmp(row->uri, root) < 0; /* behind it nothing more comes */
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

/* Ask the next mount that may have files of the skill. False: there is none. */
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
        skill_entry_fail(e, TIDINGS_E_NOTFOUND, "no skill is there");
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

/* The front matter of SKILL.md as JSON text; what is wrong with it is kept. */
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

/* On whichever thread the provider answers from. */
static int skill_entry_element(struct tidings_read *read, const struct read_element *element,
                               struct tidings_error *err)
{
    struct skill_entry *e = read->base.user;
    (void)err;
    if (e->has_content) {
        return 0; /* of several formats the first is what clients are given */
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

/* Is the next file known as it is? The SKILL.md of another skill inside this one is a file like the
 * others; one that was read as such has no front matter there yet. */
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

/* Much was read and hashed in this turn of the worker: the others have theirs first. */
static void skill_entry_pause(struct skill_entry *e)
{
    memset(&e->list, 0, sizeof(e->list));
    job_init(&e->list.base, e->request->worker, skill_entry_paused, e, STR_EMPTY);
    request_begin_job(e->request, &e->list.base);
    job_begin(&e->list.base);
    job_finish_later(&e->list.base, 0, NULL);
}

/* Begin the next step. False: it is over. */
static bool skill_entry_step(struct skill_entry *e)
{
    if (e->request->cancelled && e->code == 0) {
        skill_entry_fail(e, TIDINGS_E_CANCELLED, "nobody waits for it any more");
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
            return; /* skill_entry_job_done goes on */
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

void skill_entry_start(struct skill_entry *e)
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
        skill_entry_fail(e, TIDINGS_E_NOTFOUND, "no skill is there");
        e->done(e);
        return;
    }
    e->is_dynamic = hit.provider ? !hit.provider->ops->list : hit.entry->uri_template != NULL;
    e->has_listed = e->is_dynamic;
    const struct tidings_resource own = {.uri = e->uri};
    if (!e->is_dynamic) {
        skill_entry_add_registered(e);
    } else if (skill_entry_add(e, &own) == 1 && e->count == 0) {
        skill_entry_fail(e, TIDINGS_E_NOTFOUND, "no skill is there"); /* it may not be listed */
    }
    skill_entry_run(e);
}
