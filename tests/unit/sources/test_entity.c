/* SPDX-License-Identifier: MIT
 *
 * Entities as resources: the content of each template, every refusal, lists and their pages,
 * completion, announcements, and failing allocations. */
#include "sources/entity.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/str.h"
#include "store/memory_store.h"
#include "support/fail_alloc.h"
#include "support/provider_host.h"

#define T0 INT64_C(1704103200000) /* 2024-01-01T10:00:00.000Z */
#define SCHEMA                                                                                     \
    "{\"type\":\"object\",\"properties\":{\"name\":{\"type\":\"string\"},"                         \
    "\"note\":{\"type\":[\"string\",\"null\"]}},\"required\":[\"name\"]}"

/* ---- writing --------------------------------------------------------------------------------- */

struct wait {
    pthread_mutex_t lock;
    pthread_cond_t cond;
    bool over;
    int code;
};

struct writing {
    struct store_job job;
    struct host *host;
    const char *type, *version; /* a type, when `write` has no id */
    struct entity_write write;
    struct arena arena;
    struct wait wait;
};

static int run_write(struct store_job *job, struct entities *e)
{
    struct writing *w = list_entry(job, struct writing, job);
    if (w->write.id.len == 0) {
        struct json *schema = NULL;
        assert_int_equal(jv_parse(STR(SCHEMA), 16, &schema, NULL), 0);
        struct entity_type_spec spec = {.name = tidings_str(w->type),
                                        .version = tidings_str(w->version),
                                        .description = STR("people"),
                                        .schema = schema};
        int rc = entities_add_type(e, &spec, &job->err);
        jv_unref(schema);
        return rc;
    }
    struct entity_done done;
    struct entity_problem problem;
    struct entity_transaction t = {.writes = &w->write, .count = 1, .now = w->write.valid_from};
    int rc = entities_transact(e, &t, &w->arena, &done, &problem, &job->err);
    if (rc == 0) {
        entity_announce(host_provider(w->host), &done,
                        &(struct entity_cause){.origin = STR("test")});
    }
    return rc;
}

static void write_over(struct store_job *job, int code)
{
    struct writing *w = list_entry(job, struct writing, job);
    pthread_mutex_lock(&w->wait.lock);
    w->wait.over = true;
    w->wait.code = code;
    pthread_cond_signal(&w->wait.cond);
    pthread_mutex_unlock(&w->wait.lock);
}

static int run_nothing(struct store_job *job, struct entities *e)
{
    (void)job;
    (void)e;
    return 0;
}

static int submit(struct writing *w)
{
    w->job.run = w->job.is_write ? run_write : run_nothing;
    w->job.done = write_over;
    list_init(&w->job.message.link);
    pthread_mutex_init(&w->wait.lock, NULL);
    pthread_cond_init(&w->wait.cond, NULL);
    arena_init(&w->arena, 1u << 20);
    commit_thread_submit(entity_commit_thread(host_provider(w->host)), &w->job);
    pthread_mutex_lock(&w->wait.lock);
    while (!w->wait.over) {
        pthread_cond_wait(&w->wait.cond, &w->wait.lock);
    }
    pthread_mutex_unlock(&w->wait.lock);
    arena_deinit(&w->arena);
    return w->wait.code;
}

/* Wait until the commit thread has released the jobs it answered. */
static void await_commit_thread(struct host *h)
{
    struct writing w = {.host = h};
    assert_int_equal(submit(&w), 0);
}

static void add_type(struct host *h, const char *type, const char *version)
{
    struct writing w = {.job.is_write = true, .host = h, .type = type, .version = version};
    assert_int_equal(submit(&w), 0);
}

/* `value` NULL: delete, "": undelete. */
static void put(struct host *h, const char *type, const char *version, const char *id,
                const char *value, int64_t at)
{
    struct json *v = NULL;
    struct writing w = {.job.is_write = true, .host = h};
    if (value && value[0]) {
        assert_int_equal(jv_parse(tidings_str(value), 16, &v, NULL), 0);
    }
    w.write = (struct entity_write){
        .op = !value     ? ENTITY_DELETE
              : value[0] ? ENTITY_UPSERT
                         : ENTITY_UNDELETE,
        .id = tidings_str(id),
        .type = tidings_str(type),
        .type_version = tidings_str(version),
        .value = v,
        .parent = STR("p1"),
        .has_parent = strcmp(id, "child") == 0,
        .changed_by = STR("[{\"userId\":\"ann\"}]"),
        .baseline = TIMELINE_NEVER,
        .valid_from = at,
    };
    int rc = submit(&w);
    if (rc != 0) {
        fail_msg("%s: %s", id, w.job.err.text);
    }
    jv_unref(v);
}

static int begin(void **state)
{
    struct tidings_error err = {0};
    struct host *h = host_open(&provider_entity_ops, ENTITY_URI_PREFIX, "", &err);
    struct commit_thread *commit_thread = NULL;
    if (!h || commit_thread_open(memory_store_create(NULL), &commit_thread, &err) < 0) {
        fail_msg("%s", err.text);
    }
    entity_bind(host_provider(h), commit_thread);
    add_type(h, "User", "1.0");
    add_type(h, "User", "1");
    add_type(h, "Team", "1");
    *state = h;
    return 0;
}

static int end(void **state)
{
    struct commit_thread *commit_thread = entity_commit_thread(host_provider(*state));
    host_close(*state);
    commit_thread_close(commit_thread);
    return 0;
}

/* ---- reading --------------------------------------------------------------------------------- */

static void check_reads(struct host *h, const char *uri, const char *text)
{
    struct host_answer *a = host_read(h, uri);
    if (a->code != 0) {
        fail_msg("%s: %s", uri, a->error);
    }
    assert_int_equal(a->count, 1);
    assert_string_equal(a->rows[0].bytes, text);
    assert_string_equal(a->rows[0].mime_type, "application/json");
    host_answer_free(a);
}

static void check_refused(struct host *h, const char *uri, int code, const char *says)
{
    struct host_answer *a = host_read(h, uri);
    assert_int_equal(a->code, code);
    if (!strstr(a->error, says)) {
        fail_msg("%s: '%s' does not say '%s'", uri, a->error, says);
    }
    host_answer_free(a);
}

#define HEAD(from, to)                                                                             \
    "{\n  \"entityId\": \"u1\",\n  \"validFrom\": \"2024-01-01T10:00:0" from ".000Z\",\n"          \
    "  \"validTo\": \"" to ".000Z\",\n  \"changedBy\": [\n    {\n      \"userId\": \"ann\"\n"      \
    "    }\n  ],\n  \"deleted\": false,\n  \"parentId\": null,\n"                                  \
    "  \"entityTypeName\": \"User\",\n  \"entityTypeVersion\": \"1.0\",\n"
#define FOREVER "9999-01-01T00:00:00"

static void each_template_reads_as_documented(void **state)
{
    struct host *h = *state;
    put(h, "User", "1.0", "u1", "{\"name\":\"Ann\",\"note\":\"x\"}", T0);
    put(h, "User", "1.0", "u1", "{\"name\":\"Bob\",\"note\":\"x\"}", T0 + 1000);
    check_reads(h, "entity:///User@1.0/u1",
                HEAD("1", FOREVER) "  \"value\": {\n    \"name\": \"Bob\",\n    \"note\": \"x\"\n"
                                   "  }\n}");
    check_reads(h, "entity:///User@1.0/u1/patch/2024-01-01T10:00:00Z",
                HEAD("1", FOREVER) "  \"baseline\": \"2024-01-01T10:00:00.000Z\",\n"
                                   "  \"patch\": {\n    \"name\": \"Bob\"\n  }\n}");
    check_reads(h, "entity:///User@1.0/u1/patch/2024-01-01T10:00:01.000Z",
                HEAD("1", FOREVER) "  \"baseline\": \"2024-01-01T10:00:01.000Z\",\n"
                                   "  \"patch\": {}\n}");
    check_reads(h, "entity:///User@1.0/u1/at/2024-01-01T10:00:00.999Z",
                HEAD("0", "2024-01-01T10:00:01") "  \"at\": \"2024-01-01T10:00:00.999Z\",\n"
                                                 "  \"value\": {\n    \"name\": \"Ann\",\n"
                                                 "    \"note\": \"x\"\n  }\n}");
    put(h, "User", "1.0", "u1", "{\"name\":\"Bob\",\"note\":null}", T0 + 2000);
    check_reads(h, "entity:///User@1.0/u1/patch/2024-01-01T10:00:00Z",
                HEAD("2", FOREVER) "  \"baseline\": \"2024-01-01T10:00:00.000Z\",\n"
                                   "  \"full\": true,\n  \"value\": {\n    \"name\": \"Bob\",\n"
                                   "    \"note\": null\n  }\n}");
}

static void unreadable_entities_give_the_reason(void **state)
{
    struct host *h = *state;
    put(h, "User", "1.0", "u1", "{\"name\":\"Ann\"}", T0);
    check_refused(h, "entity:///User@1.0/u2", TIDINGS_E_NOTFOUND, "no entity 'u2'");
    check_refused(h, "entity:///User@1/u1", TIDINGS_E_NOTFOUND, "stored as 'User@1.0'");
    check_refused(h, "entity:///Team@1/u1", TIDINGS_E_NOTFOUND, "stored as 'User@1.0'");
    check_refused(h, "entity:///User@1.0/u1/patch/2024-01-01T09:00:00Z", TIDINGS_E_INVALID,
                  "begins at 2024-01-01T09:00:00.000Z");
    check_refused(h, "entity:///User@1.0/u2/patch/2024-01-01T09:00:00Z", TIDINGS_E_NOTFOUND,
                  "no entity 'u2'");
    check_refused(h, "entity:///User@1.0/u1/at/2024-01-01T09:00:00Z", TIDINGS_E_NOTFOUND,
                  "has no version at");
    check_refused(h, "entity:///User@1.0/u1/at/now", TIDINGS_E_INVALID, "2024");
    check_refused(h, "entity:///User@1.0/u1?at=2024-01-01T10:00:00Z", TIDINGS_E_INVALID,
                  "/at/{timestamp}");
    put(h, "User", "1.0", "u1", NULL, T0 + 1000);
    check_refused(h, "entity:///User@1.0/u1", TIDINGS_E_GONE, "deleted");
    check_refused(h, "entity:///User@1.0/u1/patch/2024-01-01T10:00:00Z", TIDINGS_E_GONE, "deleted");
    check_refused(h, "entity:///User@1.0/u1/at/2024-01-01T10:00:01Z", TIDINGS_E_GONE, "deleted");
    check_refused(h, "entity:///Nothing@1/", TIDINGS_E_NOTFOUND, "no entity type");
}

static void errors_give_programs_a_reason_and_alternatives(void **state)
{
    struct host *h = *state;
    static const struct {
        const char *uri, *explained;
    } rows[] = {
        {"entity:///User@2/u1", "{\"reason\":\"otherType\",\"entityTypeName\":\"User\","
                                "\"entityTypeVersion\":\"1.0\","
                                "\"current\":\"2024-01-01T10:00:00.000Z\"}"},
        {"entity:///User@1.0/u2", "{\"reason\":\"unknownEntity\"}"},
        {"entity:///User@1.0/u1/at/2001-01-01T00:00:00Z", "{\"reason\":\"unknownVersion\"}"},
        {"entity:///User@1.0/u1/at/noon", "{\"reason\":\"invalidTimestamp\"}"},
        {"entity:///User@1.0/u1/on", "{\"reason\":\"invalidUri\"}"},
        {"entity:///Nothing@1/", "{\"reason\":\"unknownType\"}"},
        {"entity:///User@1.0/gone", "{\"reason\":\"deleted\",\"entityTypeName\":\"User\","
                                    "\"entityTypeVersion\":\"1.0\","
                                    "\"current\":\"2024-01-01T10:00:01.000Z\"}"},
    };
    put(h, "User", "1.0", "u1", "{\"name\":\"Ann\"}", T0);
    put(h, "User", "1.0", "gone", "{\"name\":\"Bob\"}", T0);
    put(h, "User", "1.0", "gone", NULL, T0 + 1000);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct host_answer *a = host_read(h, rows[i].uri);
        assert_true(a->code < 0);
        assert_string_equal(host_explained(), rows[i].explained);
        host_answer_free(a);
        a = host_stat(h, rows[i].uri);
        assert_true(a->code < 0);
        assert_string_equal(host_explained(), rows[i].explained);
        host_answer_free(a);
    }
    struct host_answer *a = host_read(h, "entity:///User@1.0/u1/patch/2001-01-01T00:00:00Z");
    assert_non_null(strstr(host_explained(), "{\"reason\":\"unknownBaseline\""));
    host_answer_free(a);
}

/* ---- lists ----------------------------------------------------------------------------------- */

static void check_rows(struct host_answer *a, size_t count, const char *const *uris)
{
    if (a->code != 0) {
        fail_msg("%s", a->error);
    }
    assert_int_equal(a->count, count);
    for (size_t i = 0; i < count; i++) {
        assert_string_equal(a->rows[i].uri, uris[i]);
    }
    host_answer_free(a);
}

static void lists_are_paged_in_uri_order(void **state)
{
    struct host *h = *state;
    put(h, "User", "1.0", "u2", "{\"name\":\"B\"}", T0);
    put(h, "User", "1.0", "u1", "{\"name\":\"A\"}", T0);
    put(h, "Team", "1", "t", "{\"name\":\"T\"}", T0);
    put(h, "Team", "1", "child", "{\"name\":\"C\"}", T0);
    put(h, "Team", "1", "gone", "{\"name\":\"G\"}", T0);
    put(h, "Team", "1", "gone", NULL, T0 + 1);
    static const char *const all[] = {"entity:///Team@1/child", "entity:///Team@1/t",
                                      "entity:///User@1.0/u1", "entity:///User@1.0/u2",
                                      "entity:///types"};
    static const char *const types[] = {"entity:///Team@1/", "entity:///User@1.0/",
                                        "entity:///User@1/", "entity:///types"};
    check_rows(host_list(h, "", 10), 5, all);
    for (size_t i = 1; i < 5; i++) {
        check_rows(host_list(h, all[i - 1], 1), 1, &all[i]);
    }
    check_rows(host_children(h, "entity:///", "", 10), 4, types);
    check_rows(host_children(h, "entity:///", types[1], 10), 2, &types[2]);
    check_rows(host_children(h, "entity:///User@1.0/", "", 10), 2, &all[2]);
    check_rows(host_children(h, "entity:///User@1.0/", all[2], 10), 1, &all[3]);
    check_rows(host_children(h, "entity:///Team@1/?parent=p1", "", 10), 1, all);
    check_rows(host_children(h, "entity:///?parent=p1", "", 10), 1, all);
    check_rows(host_children(h, "entity:///User@1.0/?parent=p1", "", 10), 0, NULL);
    struct host_answer *a = host_children(h, "entity:///User@2/", "", 10);
    assert_int_equal(a->code, TIDINGS_E_NOTFOUND);
    host_answer_free(a);
}

static void template_variables_are_completed(void **state)
{
    struct host *h = *state;
    static const struct {
        const char *name, *value, *context, *first;
        size_t count;
    } rows[] = {
        {"entityType", "", NULL, "Team", 2},       {"entityType", "U", NULL, "User", 1},
        {"entityTypeVersion", "", "User", "1", 2}, {"entityTypeVersion", "1.", "User", "1.0", 1},
        {"entityId", "u", NULL, "u1", 2},          {"baselineTimestamp", "2024", NULL, NULL, 0},
    };
    put(h, "User", "1.0", "u2", "{\"name\":\"B\"}", T0);
    put(h, "User", "1.0", "u1", "{\"name\":\"A\"}", T0);
    put(h, "Team", "1", "v", "{\"name\":\"T\"}", T0);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        host_set_argument("entityType", rows[i].context);
        struct host_answer *a = host_complete(h, "entity:///x", rows[i].name, rows[i].value, 10);
        assert_int_equal(a->code, 0);
        assert_int_equal(a->count, rows[i].count);
        if (rows[i].first) {
            assert_string_equal(a->rows[0].name, rows[i].first);
        }
        host_answer_free(a);
    }
    host_set_argument("entityId", "u1");
    struct host_answer *a = host_complete(h, "entity:///x", "timestamp", "", 10);
    assert_int_equal(a->count, 1);
    assert_string_equal(a->rows[0].name, "2024-01-01T10:00:00.000Z");
    host_answer_free(a);
    host_set_argument(NULL, NULL);
    a = host_complete(h, "entity:///x", "colour", "", 10);
    assert_int_equal(a->code, TIDINGS_E_INVALID);
    host_answer_free(a);
}

static void instants_are_completed_from_their_prefix(void **state)
{
    struct host *h = *state;
    /* Months, days and hours whose first digit has several completions. */
    static const int64_t days[] = {0, 31, 280, 305, 310, 334, 365};
    static const struct {
        const char *value, *first;
        size_t count;
    } rows[] = {
        {"2", "2024-01-01T10:00:00.000Z", 7},
        {"2024-0", "2024-01-01T10:00:00.000Z", 2},
        {"2024-1", "2024-10-07T10:00:00.000Z", 5},
        {"2024-11", "2024-11-01T10:00:00.000Z", 3},
        {"2024-11-3", "2024-11-30T10:00:00.000Z", 1},
        {"2024-12-31T1", "2024-12-31T10:00:00.000Z", 1},
        {"2024-02-3", NULL, 0},
        {"2025", NULL, 0},
        {"2024-11-06T10:00:00.000Z", "2024-11-06T10:00:00.000Z", 1},
        {"2024-11-06T10:00:00.000Z!", NULL, 0},
        {"x", NULL, 0},
    };
    char value[32];
    for (size_t i = 0; i < sizeof(days) / sizeof(days[0]); i++) {
        snprintf(value, sizeof(value), "{\"name\":\"%zu\"}", i);
        put(h, "User", "1.0", "u1", value, T0 + days[i] * 86400000);
    }
    host_set_argument("entityId", "u1");
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct host_answer *a =
            host_complete(h, "entity:///x", "baselineTimestamp", rows[i].value, 10);
        assert_int_equal(a->code, 0);
        assert_int_equal(a->count, rows[i].count);
        if (rows[i].first) {
            assert_string_equal(a->rows[0].name, rows[i].first);
        }
        host_answer_free(a);
    }
    host_set_argument(NULL, NULL);
}

/* ---- announcing ------------------------------------------------------------------------------ */

static void every_effective_write_is_announced(void **state)
{
    struct host *h = *state;
    put(h, "User", "1.0", "u1", "{\"name\":\"A\"}", T0);
    put(h, "User", "1.0", "u1", "{\"name\":\"B\"}", T0 + 1000);
    put(h, "User", "1.0", "u1", "{\"name\":\"B\"}", T0 + 2000);
    put(h, "User", "1.0", "u1", NULL, T0 + 3000);
    put(h, "User", "1.0", "u1", "", T0 + 4000);
    const struct host_change *c = host_await(h, TIDINGS_CHANGE_CREATED, "entity:///User@1.0/u1");
    assert_string_equal(c->etag, "2024-01-01T10:00:00.000Z");
    c = host_await(h, TIDINGS_CHANGE_UPDATED, "entity:///User@1.0/u1");
    assert_string_equal(c->etag, "2024-01-01T10:00:01.000Z");
    (void)host_await(h, TIDINGS_CHANGE_DELETED, "entity:///User@1.0/u1");
    c = host_await(h, TIDINGS_CHANGE_CREATED, "entity:///User@1.0/u1");
    assert_string_equal(c->etag, "2024-01-01T10:00:04.000Z");
    assert_int_equal(host_untaken(h, NULL), 0);
}

static void new_type_version_changes_the_uri(void **state)
{
    struct host *h = *state;
    put(h, "User", "1.0", "u1", "{\"name\":\"A\"}", T0);
    add_type(h, "User", "2");
    put(h, "User", "2", "u1", "{\"name\":\"A\"}", T0 + 1000);
    const struct host_change *c = host_await(h, TIDINGS_CHANGE_MOVED, "entity:///User@2/u1");
    assert_string_equal(c->from, "entity:///User@1.0/u1");
}

/* ---- descriptions, life ---------------------------------------------------------------------- */

static void etag_exists_only_for_the_current_version(void **state)
{
    struct host *h = *state;
    put(h, "User", "1.0", "u1", "{\"name\":\"A\"}", T0);
    struct host_answer *a = host_stat(h, "entity:///User@1.0/u1");
    assert_int_equal(a->code, 0);
    assert_string_equal(a->rows[0].etag, "2024-01-01T10:00:00.000Z");
    host_answer_free(a);
    a = host_stat(h, "entity:///User@1.0/u1/at/2024-01-01T10:00:00Z");
    assert_int_equal(a->code, 0);
    assert_string_equal(a->rows[0].etag, "");
    assert_string_equal(a->rows[0].uri, "entity:///User@1.0/u1/at/2024-01-01T10:00:00.000Z");
    host_answer_free(a);
    a = host_stat(h, "entity:///");
    assert_int_equal(a->code, 0);
    assert_true(a->rows[0].listable);
    host_answer_free(a);
    a = host_stat(h, "entity:///types");
    assert_int_equal(a->code, 0);
    assert_false(a->rows[0].listable);
    host_answer_free(a);
}

static void mount_is_rejected_at_another_prefix(void **state)
{
    (void)state;
    struct tidings_error err = {0};
    assert_null(host_open(&provider_entity_ops, "x:///", "", &err));
    assert_non_null(strstr(err.text, "entity:///"));
}

static void requests_report_any_failed_allocation(void **state)
{
    struct host *h = *state;
    put(h, "User", "1.0", "u1", "{\"name\":\"A\"}", T0);
    for (long n = 1;; n++) {
        fail_alloc_start(n);
        struct host_answer *a = host_read(h, "entity:///User@1.0/u1");
        await_commit_thread(h); /* the failing allocator supports one thread at a time */
        struct host_answer *b = host_list(h, "", 10);
        await_commit_thread(h);
        struct host_answer *c = host_stat(h, "entity:///User@1.0/");
        await_commit_thread(h);
        bool reached = fail_alloc_stop();
        bool whole = a->code == 0 && b->code == 0 && c->code == 0;
        assert_true(whole ? a->count == 1 && b->count == 2 : reached);
        assert_true(whole || a->code == TIDINGS_E_NOMEM || b->code == TIDINGS_E_NOMEM ||
                    c->code == TIDINGS_E_NOMEM);
        host_answer_free(a);
        host_answer_free(b);
        host_answer_free(c);
        if (!reached) {
            break;
        }
    }
}

int main(void)
{
#define WITH(test) cmocka_unit_test_setup_teardown(test, begin, end)
    const struct CMUnitTest tests[] = {
        WITH(each_template_reads_as_documented),
        WITH(unreadable_entities_give_the_reason),
        WITH(lists_are_paged_in_uri_order),
        WITH(template_variables_are_completed),
        WITH(instants_are_completed_from_their_prefix),
        WITH(every_effective_write_is_announced),
        WITH(new_type_version_changes_the_uri),
        WITH(etag_exists_only_for_the_current_version),
        WITH(errors_give_programs_a_reason_and_alternatives),
        cmocka_unit_test(mount_is_rejected_at_another_prefix),
        WITH(requests_report_any_failed_allocation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
