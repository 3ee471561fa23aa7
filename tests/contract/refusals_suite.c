/* SPDX-License-Identifier: MIT
 *
 * The cases of contract/refusals_suite.h. A read blocks the commit thread while the test submits a
 * batch, so the jobs of the batch share a commit.
 */
#include "contract/refusals_suite.h"

#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "base/str.h"
#include "base/time.h"
#include "sources/published.h"
#include "store/commit_thread.h"

enum { STEPS = 3 }; /* of a batch */

enum kind {
    NONE,
    TYPE,    /* `name` is its version */
    ENTITY,  /* `name` is its id */
    PUBLISH, /* `name` is its URI */
    REMOVE,
    TASK, /* `name` is its id, `value` its status */
};

struct step {
    enum kind kind;
    const char *name;
    const char *value;
    int expected; /* once the commit succeeds; 1: a publication created the URI */
    enum entity_op op;
    const char *type; /* NULL: that of the setup */
    const char *key;
    bool is_patch, is_new; /* `is_new`: reject it if it exists */
    bool on_baseline;      /* on the version that was current before the batch */
    bool is_matched;       /* reject if the publication differs or is missing */
};

struct refusal {
    const char *what;
    struct step setup, batch[STEPS];
};

static const struct refusal refusals[] = {
    {"an entity that exists",
     {.kind = NONE},
     {{.kind = ENTITY, .name = "exists", .value = "1", .is_new = true},
      {.kind = ENTITY,
       .name = "exists",
       .value = "2",
       .expected = TIDINGS_E_EXISTS,
       .is_new = true}}},
    {"an older baseline",
     {.kind = ENTITY, .name = "conflict", .value = "1"},
     {{.kind = ENTITY, .name = "conflict", .value = "2", .on_baseline = true},
      {.kind = ENTITY,
       .name = "conflict",
       .value = "3",
       .expected = TIDINGS_E_CONFLICT,
       .on_baseline = true}}},
    {"a deleted entity",
     {.kind = ENTITY, .name = "deleted", .value = "1"},
     {{.kind = ENTITY, .name = "deleted", .op = ENTITY_DELETE},
      {.kind = ENTITY, .name = "deleted", .value = "2", .expected = TIDINGS_E_GONE}}},
    {"an entity of another type",
     {.kind = TYPE, .name = "7", .value = "{}", .type = "other"},
     {{.kind = ENTITY, .name = "type", .value = "1"},
      {.kind = ENTITY,
       .name = "type",
       .value = "2",
       .expected = TIDINGS_E_NOTFOUND,
       .type = "other"}}},
    {"a key of another request",
     {.kind = NONE},
     {{.kind = ENTITY, .name = "key", .value = "1", .key = "k"},
      {.kind = ENTITY, .name = "key", .value = "2", .expected = TIDINGS_E_INVALID, .key = "k"}}},
    {"a type that exists",
     {.kind = NONE},
     {{.kind = TYPE, .name = "3", .value = "{}", .type = "again"},
      {.kind = TYPE, .name = "3", .value = "{}", .expected = TIDINGS_E_EXISTS, .type = "again"}}},
    {"a value that a new version of the type excludes",
     {.kind = ENTITY, .name = "schema", .value = "1"},
     {{.kind = TYPE, .name = "8", .value = "{\"type\":\"string\"}"},
      {.kind = ENTITY, .name = "schema", .value = "2", .expected = TIDINGS_E_INVALID}}},
    {"a URI that is published",
     {.kind = NONE},
     {{.kind = PUBLISH, .name = "p:///new", .value = "1", .expected = 1, .is_new = true},
      {.kind = PUBLISH,
       .name = "p:///new",
       .value = "2",
       .expected = TIDINGS_E_CONFLICT,
       .is_new = true}}},
    {"another etag",
     {.kind = PUBLISH, .name = "p:///etag", .value = "1", .expected = 1},
     {{.kind = PUBLISH, .name = "p:///etag", .value = "2"},
      {.kind = PUBLISH,
       .name = "p:///etag",
       .value = "3",
       .expected = TIDINGS_E_CONFLICT,
       .is_matched = true}}},
    {"a URI that is removed",
     {.kind = PUBLISH, .name = "p:///gone", .value = "1", .expected = 1},
     {{.kind = REMOVE, .name = "p:///gone"},
      {.kind = REMOVE, .name = "p:///gone", .expected = TIDINGS_E_NOTFOUND}}},
    {"too many bytes",
     {.kind = NONE},
     {{.kind = PUBLISH, .name = "p:///wide", .value = "?", .expected = 1},
      {.kind = PUBLISH, .name = "p:///broad", .value = "?", .expected = TIDINGS_E_LIMIT}}},
    {"too many publications",
     {.kind = NONE},
     {{.kind = PUBLISH, .name = "p:///last", .value = "1", .expected = 1},
      {.kind = PUBLISH, .name = "p:///many", .value = "1", .expected = TIDINGS_E_LIMIT}}},
    {"a task that ended",
     {.kind = TASK, .name = "task", .value = "working"},
     {{.kind = TASK, .name = "task", .value = "completed"},
      {.kind = TASK, .name = "task", .value = "cancelled", .expected = TIDINGS_E_CONFLICT}}},
};

enum { REFUSALS = sizeof refusals / sizeof *refusals };
enum { PUBLISHED_MAX = 4, PUBLISHED_BYTES = 8000 }; /* "?" represents 4,000 bytes */

static const struct refusals_store *store;
static struct store *opened;
static struct commit_thread *commit_thread;
static struct published *published;
static struct changelog *changelog;
static uint64_t max_count = PUBLISHED_MAX, max_bytes = PUBLISHED_BYTES;
static int64_t baseline;
static char etag[PUBLISHED_ETAG_SIZE];

/* ---- jobs ------------------------------------------------------------------------------------ */

struct job {
    struct store_job base;
    const struct step *step;
    sem_t ended;
    int code;
};

static void job_done(struct store_job *base, int code)
{
    struct job *j = (struct job *)(void *)base;
    j->code = code;
    sem_post(&j->ended);
}

static void published_done(void *user, int rc, const char *made, const struct tidings_error *err)
{
    struct job *j = user;
    if (err) {
        j->base.err = *err;
    }
    if (rc >= 0 && made[0] != '\0') {
        memcpy(etag, made, strlen(made) + 1);
    }
    j->code = rc;
    sem_post(&j->ended);
}

static const char *type_of(const struct step *s)
{
    return s->type ? s->type : "n";
}

static int run_type(struct store_job *base, struct entities *e)
{
    const struct step *s = ((struct job *)(void *)base)->step;
    struct json *schema = NULL;
    assert_int_equal(jv_parse(tidings_str(s->value), 8, &schema, NULL), 0);
    const struct entity_type_spec spec = {
        .name = tidings_str(type_of(s)), .version = tidings_str(s->name), .schema = schema};
    int rc = entities_add_type(e, &spec, &base->err);
    base->is_fatal = rc < 0 && rc != TIDINGS_E_EXISTS;
    jv_unref(schema);
    return rc;
}

static int run_entity(struct store_job *base, struct entities *e)
{
    const struct step *s = ((struct job *)(void *)base)->step;
    char digest[ENTITY_DIGEST_TEXT];
    struct entity_write w = {
        .op = s->op,
        .id = tidings_str(s->name),
        .type = tidings_str(type_of(s)),
        .type_version = s->type ? STR("7") : STR("1"),
        .changed_by = STR("[]"),
        .baseline = s->on_baseline ? baseline : TIMELINE_NEVER,
        .must_be_new = s->is_new,
        .valid_from = TIMELINE_NEVER,
    };
    struct arena arena;
    struct entity_done done;
    struct entity_problem problem;
    arena_init(&arena, 1u << 16);
    int rc = s->value ? jv_parse(tidings_str(s->value), 8, &w.value, &base->err) : 0;
    assert_int_equal(rc, 0);
    assert_int_equal(entity_digest(&w, 1, digest), 0);
    const struct entity_transaction t = {
        .writes = &w,
        .count = 1,
        .now = entities_now(e),
        .owner = STR("o"),
        .key = tidings_str(s->key ? s->key : ""),
        .digest = tidings_str(digest),
    };
    rc = entities_transact(e, &t, &arena, &done, &problem, &base->err);
    base->is_fatal = rc < 0 && problem.reason == ENTITY_MEDIUM;
    jv_unref(w.value);
    arena_deinit(&arena);
    return rc;
}

static int run_task(struct store_job *base, struct entities *e)
{
    const struct step *s = ((struct job *)(void *)base)->step;
    const int64_t now = clock_wall_ms();
    const struct stored_task task = {.id = tidings_str(s->name),
                                     .client = STR("c"),
                                     .status = tidings_str(s->value),
                                     .payload = STR("{}"),
                                     .created_ms = now,
                                     .updated_ms = now,
                                     .ttl_ms = 3600000};
    int rc = entities_store(e)->ops->put_task(entities_store(e), &task, &base->err);
    base->is_fatal = rc < 0 && rc != TIDINGS_E_CONFLICT;
    return rc;
}

static void submit_publication(struct job *j)
{
    static char content[4000];
    const struct step *s = j->step;
    struct publication p = {.if_absent = s->is_new,
                            .if_match = s->is_matched ? tidings_str(etag) : STR_EMPTY};
    p.about = (struct tidings_resource){0};
    p.about.uri = tidings_str(s->name);
    if (s->kind == REMOVE) {
        published_remove_then(published, NULL, &p, published_done, j);
        return;
    }
    memset(content, 'x', sizeof content);
    p.content = s->value[0] == '?' ? tidings_strn(content, sizeof content) : tidings_str(s->value);
    published_put_then(published, NULL, &p, published_done, j);
}

static void job_submit(struct job *j, const struct step *s)
{
    static int (*const runs[])(struct store_job *, struct entities *) = {
        [TYPE] = run_type, [ENTITY] = run_entity, [TASK] = run_task};
    *j = (struct job){.base = {.is_write = true, .done = job_done}, .step = s};
    sem_init(&j->ended, 0, 0);
    list_init(&j->base.message.link);
    if (s->kind == PUBLISH || s->kind == REMOVE) {
        submit_publication(j);
        return;
    }
    j->base.run = runs[s->kind];
    commit_thread_submit(commit_thread, &j->base);
}

static int job_await(struct job *j)
{
    sem_wait(&j->ended);
    sem_destroy(&j->ended);
    return j->code;
}

/* ---- batches --------------------------------------------------------------------------------- */

struct stop {
    struct job job;
    sem_t begun, go;
};

static int run_stop(struct store_job *base, struct entities *e)
{
    struct stop *s = (struct stop *)(void *)base;
    (void)e;
    sem_post(&s->begun);
    sem_wait(&s->go);
    return 0;
}

static void run_batch(const struct step *steps, struct job *jobs, bool fails)
{
    struct stop s = {.job.base = {.run = run_stop, .done = job_done}};
    sem_init(&s.job.ended, 0, 0);
    sem_init(&s.begun, 0, 0);
    sem_init(&s.go, 0, 0);
    list_init(&s.job.base.message.link);
    commit_thread_submit(commit_thread, &s.job.base);
    sem_wait(&s.begun);
    store->break_commits(fails);
    for (size_t i = 0; i < STEPS && steps[i].kind != NONE; i++) {
        job_submit(&jobs[i], &steps[i]);
    }
    sem_post(&s.go);
    (void)job_await(&s.job);
    for (size_t i = 0; i < STEPS && steps[i].kind != NONE; i++) {
        (void)job_await(&jobs[i]);
    }
    store->break_commits(false);
}

static int run_find_baseline(struct store_job *base, struct entities *e)
{
    const struct step *s = ((struct job *)(void *)base)->step;
    struct arena arena;
    struct entity_version v;
    arena_init(&arena, 1u << 16);
    int rc = entities_find(e, tidings_str(s->name), TIMELINE_FOREVER, &arena, &v, &base->err);
    baseline = rc == 1 ? v.from : TIMELINE_NEVER;
    arena_deinit(&arena);
    return rc < 0 ? rc : 0;
}

static void note_baseline(const struct step *s)
{
    struct job j = {.base = {.run = run_find_baseline, .done = job_done}, .step = s};
    sem_init(&j.ended, 0, 0);
    list_init(&j.base.message.link);
    commit_thread_submit(commit_thread, &j.base);
    assert_int_equal(job_await(&j), 0);
}

static void set_up(const struct step *s)
{
    struct job j;
    if (s->kind != NONE) {
        job_submit(&j, s);
        assert_int_equal(job_await(&j), s->expected);
    }
    if (s->kind == ENTITY) {
        note_baseline(s);
    }
}

/* ---- cases ----------------------------------------------------------------------------------- */

static bool may_be(void *user, const struct tidings_resource *about)
{
    (void)user;
    (void)about;
    return true;
}

static int open_all(void **state)
{
    static const struct changelog_limits limits = {.max_entries = 1000, .max_bytes = 1u << 20};
    static const struct step type = {.kind = TYPE, .name = "1", .value = "{\"type\":\"integer\"}"};
    const struct commit_thread_follower follower = {0};
    struct tidings_error err = {0, ""};
    size_t unseen = 0;
    (void)state;
    opened = store->open();
    assert_int_equal(opened->ops->create_changelog(opened, &limits, &changelog, &err), 0);
    assert_int_equal(commit_thread_open(opened, &commit_thread, &err), 0);
    assert_true(!store->follows || commit_thread_on_follow(commit_thread, &follower, &err) == 0);
    published = published_create(&max_count, &max_bytes, &err);
    assert_non_null(published);
    assert_int_equal(published_keep(published, commit_thread, may_be, NULL, &unseen, &err), 0);
    set_up(&type);
    return 0;
}

static int close_all(void **state)
{
    (void)state;
    changelog->ops->destroy(changelog);
    commit_thread_close(commit_thread);
    published_unkeep(published, false);
    published_destroy(published);
    return 0;
}

static void failed_commit_fails_dependent_rejections(void **state)
{
    (void)state;
    for (size_t i = 0; i < REFUSALS; i++) {
        const struct refusal *r = &refusals[i];
        struct job jobs[STEPS];
        set_up(&r->setup);
        run_batch(r->batch, jobs, true);
        for (size_t n = 0; n < STEPS && r->batch[n].kind != NONE; n++) {
            if (jobs[n].code != TIDINGS_E_FULL && jobs[n].code != TIDINGS_E_IO) {
                fail_msg("%s, step %zu: %d (%s), not a failure of the store", r->what, n,
                         jobs[n].code, jobs[n].base.err.text);
            }
        }
        run_batch(r->batch, jobs, false);
        for (size_t n = 0; n < STEPS && r->batch[n].kind != NONE; n++) {
            if (jobs[n].code != r->batch[n].expected) {
                fail_msg("%s, step %zu: %d (%s), not %d", r->what, n, jobs[n].code,
                         jobs[n].base.err.text, r->batch[n].expected);
            }
        }
    }
}

int refusals_suite(const char *name, const struct refusals_store *of)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(failed_commit_fails_dependent_rejections, open_all,
                                        close_all),
    };
    store = of;
    return cmocka_run_group_tests_name(name, tests, NULL, NULL);
}
