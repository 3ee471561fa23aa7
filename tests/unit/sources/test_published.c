/* SPDX-License-Identifier: MIT
 *
 * Published resources: what the store keeps, serves and announces; conditions, limits, reservations
 * and containers; several threads; failing allocations. */
#include "sources/published.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "base/str.h"
#include "base/time.h"
#include "support/fail_alloc.h"
#include "support/provider_host.h"
#include "support/provider_write.h"

#define AT "pub:///"

static uint64_t max_count, max_bytes;

struct fixture {
    struct published *store;
    struct host *host;
};

static int begin(void **state)
{
    static struct fixture f;
    struct tidings_error err = {0, ""};
    max_count = 100;
    max_bytes = 1u << 20;
    f.store = published_create(&max_count, &max_bytes, &err);
    f.host = host_open(&provider_published_ops, AT, "", &err);
    assert_true(f.store && f.host);
    published_bind(host_provider(f.host), f.store);
    *state = &f;
    return 0;
}

static int end(void **state)
{
    struct fixture *f = *state;
    host_close(f->host);
    published_destroy(f->store);
    return 0;
}

static struct publication about(const char *uri, const char *content)
{
    struct publication p = {.content = tidings_str(content)};
    p.about = (struct tidings_resource){0};
    p.about.uri = tidings_str(uri);
    return p;
}

static int put(struct fixture *f, const char *uri, const char *content)
{
    struct publication p = about(uri, content);
    return published_put(f->store, host_provider(f->host), &p, NULL, NULL);
}

static int take_away(struct fixture *f, const char *uri)
{
    return published_remove(
        f->store, host_provider(f->host),
        &(struct publication){.about = {.uri = tidings_str(uri)}, .if_match = STR_EMPTY}, NULL);
}

static void check_read(struct fixture *f, const char *uri, const char *content)
{
    struct host_answer *a = host_read(f->host, uri);
    assert_int_equal(a->code, content ? 0 : TIDINGS_E_NOTFOUND);
    if (content) {
        assert_int_equal(a->count, 1);
        assert_string_equal(a->rows[0].bytes, content);
        assert_string_equal(a->rows[0].uri, uri);
    }
    host_answer_free(a);
}

/* The rows' URIs, or values for rows without a URI, separated by blanks. */
static void check_rows(struct host_answer *a, const char *expected)
{
    char text[1024] = "";
    size_t n = 0;
    assert_int_equal(a->code, 0);
    for (size_t i = 0; i < a->count; i++) {
        const struct host_row *row = &a->rows[i];
        n += (size_t)snprintf(text + n, sizeof(text) - n, "%s%s", i ? " " : "",
                              row->uri[0] ? row->uri : row->name);
    }
    assert_string_equal(text, expected);
    host_answer_free(a);
}

/* ---- stored resources ------------------------------------------------------------------------ */

static void newest_content_is_served_and_described(void **state)
{
    struct fixture *f = *state;
    struct clock_fake now = {.wall_ms = 1700000000000};
    clock_set_fake(&now);
    assert_int_equal(put(f, AT "notes/a.md", "one"), 1);
    assert_int_equal(put(f, AT "notes/a.md", "two"), 0);
    clock_set_fake(NULL);
    check_read(f, AT "notes/a.md", "two");
    struct host_answer *a = host_stat(f->host, AT "notes/a.md");
    assert_int_equal(a->code, 0);
    assert_string_equal(a->rows[0].name, "a.md");
    assert_string_equal(a->rows[0].mime_type, "text/markdown");
    assert_int_equal(a->rows[0].size, 3);
    assert_int_equal(a->rows[0].modified_ms, 1700000000000);
    assert_true(a->rows[0].etag[0] && !a->rows[0].listable);
    host_answer_free(a);
    check_read(f, AT "notes/b.md", NULL);
}

static void text_reads_as_text_and_bytes_as_a_blob(void **state)
{
    struct fixture *f = *state;
    struct publication p = about(AT "x", "");
    p.content = tidings_strn("\xff\x00\x01", 3);
    assert_int_equal(published_put(f->store, NULL, &p, NULL, NULL), 1);
    struct host_answer *a = host_read(f->host, AT "x");
    assert_false(a->rows[0].is_text);
    assert_int_equal(a->rows[0].length, 3);
    assert_string_equal(a->rows[0].mime_type, "application/octet-stream");
    host_answer_free(a);
    put(f, AT "y", "plain");
    a = host_read(f->host, AT "y");
    assert_true(a->rows[0].is_text);
    assert_string_equal(a->rows[0].mime_type, "text/plain");
    host_answer_free(a);
}

static void content_is_not_sent_if_the_client_has_it(void **state)
{
    struct fixture *f = *state;
    put(f, AT "x", "text");
    struct host_answer *first = host_read(f->host, AT "x");
    struct host_answer *a = host_read_with(f->host, AT "x", NULL, first->rows[0].etag, SIZE_MAX);
    assert_true(a->is_unchanged);
    assert_int_equal(a->count, 0);
    host_answer_free(a);
    put(f, AT "x", "other");
    a = host_read_with(f->host, AT "x", NULL, first->rows[0].etag, SIZE_MAX);
    assert_string_equal(a->rows[0].bytes, "other");
    host_answer_free(a);
    host_answer_free(first);
}

/* ---- announcements --------------------------------------------------------------------------- */

static void changes_are_announced_but_not_repetitions(void **state)
{
    struct fixture *f = *state;
    put(f, AT "a", "1");
    put(f, AT "a", "1");
    put(f, AT "a", "2");
    put(f, AT "a", "2");
    assert_int_equal(take_away(f, AT "a"), 0);
    assert_int_equal(take_away(f, AT "a"), TIDINGS_E_NOTFOUND);
    put(f, AT "a", "2");
    static const enum tidings_change_kind kinds[] = {TIDINGS_CHANGE_CREATED, TIDINGS_CHANGE_UPDATED,
                                                     TIDINGS_CHANGE_DELETED,
                                                     TIDINGS_CHANGE_CREATED};
    struct host_change c, updated;
    for (size_t i = 0; i < 4; i++) {
        host_next(f->host, i, &c);
        assert_int_equal(c.kind, kinds[i]);
        assert_string_equal(c.uri, AT "a");
        updated = i == 1 ? c : updated;
    }
    assert_int_equal(host_untaken(f->host, NULL), 4);
    assert_string_equal(c.etag, updated.etag); /* the same content again */
    assert_true(c.has_size && c.size == 1);
}

static void changed_description_is_announced(void **state)
{
    struct fixture *f = *state;
    struct publication p = about(AT "a", "1");
    char etag[2][PUBLISHED_ETAG_SIZE];
    published_put(f->store, host_provider(f->host), &p, etag[0], NULL);
    p.about.title = STR("A title");
    published_put(f->store, host_provider(f->host), &p, etag[1], NULL);
    assert_string_equal(etag[0], etag[1]); /* of the content */
    p.about.mime_type = STR("text/x-other");
    published_put(f->store, host_provider(f->host), &p, etag[1], NULL);
    assert_string_not_equal(etag[0], etag[1]);
    assert_int_equal(host_untaken(f->host, NULL), 3);
}

/* ---- refusals -------------------------------------------------------------------------------- */

static void failed_condition_changes_nothing(void **state)
{
    struct fixture *f = *state;
    struct tidings_error err = {0, ""};
    struct publication p = about(AT "a", "1");
    char etag[PUBLISHED_ETAG_SIZE];
    p.if_match = STR("*");
    assert_int_equal(published_put(f->store, NULL, &p, etag, &err), TIDINGS_E_CONFLICT);
    assert_non_null(strstr(err.text, "does not exist"));
    p.if_match = STR_EMPTY;
    p.if_absent = true;
    assert_int_equal(published_put(f->store, NULL, &p, etag, &err), 1);
    assert_int_equal(published_put(f->store, NULL, &p, NULL, &err), TIDINGS_E_CONFLICT);
    assert_non_null(strstr(err.text, etag));
    p.if_absent = false;
    p.content = STR("2");
    p.if_match = STR("other");
    assert_int_equal(published_put(f->store, NULL, &p, NULL, &err), TIDINGS_E_CONFLICT);
    check_read(f, AT "a", "1");
    p.if_match = tidings_str(etag);
    assert_int_equal(published_put(f->store, NULL, &p, etag, &err), 0);
    check_read(f, AT "a", "2");
    assert_int_equal(published_remove(f->store, NULL,
                                      &(struct publication){.about = {.uri = STR(AT "a")},
                                                            .if_match = STR("other")},
                                      &err),
                     TIDINGS_E_CONFLICT);
    assert_int_equal(published_remove(f->store, NULL,
                                      &(struct publication){.about = {.uri = STR(AT "a")},
                                                            .if_match = tidings_str(etag)},
                                      &err),
                     0);
    assert_int_equal(put(f, AT "dir/", "x"), TIDINGS_E_INVALID);
}

static void full_store_rejects_new_content_and_keeps_the_old(void **state)
{
    struct fixture *f = *state;
    struct tidings_error err = {0, ""};
    max_count = 2;
    assert_int_equal(put(f, AT "a", "1"), 1);
    assert_int_equal(put(f, AT "b", "1"), 1);
    struct publication p = about(AT "c", "1");
    assert_int_equal(published_put(f->store, NULL, &p, NULL, &err), TIDINGS_E_LIMIT);
    assert_non_null(strstr(err.text, "published-max"));
    assert_int_equal(put(f, AT "b", "2"), 0); /* replacing still works */
    take_away(f, AT "a");
    assert_int_equal(put(f, AT "c", "1"), 1);
    static char large[600 * 1024];
    memset(large, 'x', sizeof(large) - 1);
    assert_int_equal(put(f, AT "c", large), 0);
    p = about(AT "b", large);
    assert_int_equal(published_put(f->store, NULL, &p, NULL, &err), TIDINGS_E_LIMIT);
    assert_non_null(strstr(err.text, "published-bytes"));
    check_read(f, AT "b", "2");
    max_bytes = 1000;
    assert_int_equal(published_put(f->store, NULL, &p, NULL, &err), TIDINGS_E_LIMIT);
    max_bytes = 1u << 20;
    take_away(f, AT "c");
    assert_int_equal(put(f, AT "b", large), 0); /* freed bytes no longer count */
}

static void uri_is_either_registered_or_published(void **state)
{
    struct fixture *f = *state;
    struct tidings_error err = {0, ""};
    struct publication p = about(AT "r", "1");
    assert_int_equal(published_reserve(f->store, STR(AT "r"), &err), 0);
    assert_int_equal(published_reserve(f->store, STR(AT "r"), &err), 0);
    assert_int_equal(published_put(f->store, NULL, &p, NULL, &err), TIDINGS_E_EXISTS);
    assert_int_equal(take_away(f, AT "r"), TIDINGS_E_EXISTS);
    check_read(f, AT "r", NULL);
    check_rows(host_list(f->host, "", 10), "");
    published_release(f->store, STR(AT "r"));
    assert_int_equal(put(f, AT "r", "1"), 1);
    assert_int_equal(published_reserve(f->store, STR(AT "r"), &err), TIDINGS_E_EXISTS);
    assert_non_null(strstr(err.text, "is published"));
    published_release(f->store, STR(AT "r")); /* not reserved: no effect */
    check_read(f, AT "r", "1");
}

static void check_write(struct fixture *f, const struct host_write *w, int code)
{
    assert_int_equal(host_write(host_provider(f->host), &provider_published_ops, AT "w", w), code);
}

static void client_writes_use_the_same_conditions(void **state)
{
    struct fixture *f = *state;
    check_write(f, &(struct host_write){.if_match = "*"}, TIDINGS_E_NOTFOUND);
    check_write(f, &(struct host_write){.content = "1", .mime_type = "a/b", .if_absent = true}, 1);
    check_write(f, &(struct host_write){.content = "2", .if_absent = true}, TIDINGS_E_CONFLICT);
    check_write(f, &(struct host_write){.content = "2", .if_match = "x"}, TIDINGS_E_CONFLICT);
    struct host_answer *a = host_stat(f->host, AT "w");
    assert_string_equal(a->rows[0].mime_type, "a/b");
    check_write(f, &(struct host_write){.content = "2", .if_match = a->rows[0].etag}, 0);
    check_read(f, AT "w", "2");
    check_write(f, &(struct host_write){.if_match = a->rows[0].etag}, TIDINGS_E_CONFLICT);
    host_answer_free(a);
    check_write(f, &(struct host_write){0}, 0);
    check_read(f, AT "w", NULL);
    host_await(f->host, TIDINGS_CHANGE_CREATED, AT "w");
    host_await(f->host, TIDINGS_CHANGE_UPDATED, AT "w");
    host_await(f->host, TIDINGS_CHANGE_DELETED, AT "w");
}

/* ---- lists ----------------------------------------------------------------------------------- */

static void lists_and_children_are_paged_in_order(void **state)
{
    struct fixture *f = *state;
    static const char *const uris[] = {AT "b",   AT "a/z", AT "a/y/1",  AT "a/y/2",  AT "a.txt",
                                       AT "a-b", AT "a",   AT "c?x=/y", "other:///x"};
    for (size_t i = 0; i < sizeof(uris) / sizeof(uris[0]); i++) {
        put(f, uris[i], "x");
    }
    published_reserve(f->store, STR(AT "a/registered"), NULL);
    check_rows(host_list(f->host, "", 3), AT "a " AT "a-b " AT "a.txt");
    check_rows(host_list(f->host, AT "a.txt", 9),
               AT "a/y/1 " AT "a/y/2 " AT "a/z " AT "b " AT "c?x=/y");
    check_rows(host_children(f->host, AT, "", 9),
               AT "a " AT "a-b " AT "a.txt " AT "a/ " AT "b " AT "c?x=/y");
    check_rows(host_children(f->host, AT, AT "a/", 9), AT "b " AT "c?x=/y");
    check_rows(host_children(f->host, AT "a/", "", 1), AT "a/y/");
    check_rows(host_children(f->host, AT "a/", AT "a/y/", 9), AT "a/z");
    struct host_answer *a = host_children(f->host, AT "b", "", 9);
    assert_int_equal(a->code, TIDINGS_E_NOTFOUND);
    host_answer_free(a);
}

static void check_complete(struct fixture *f, const char *typed, const char *expected)
{
    check_rows(host_complete(f->host, AT "{+path}", "path", typed, 3), expected);
}

static void paths_are_completed_one_container_at_a_time(void **state)
{
    struct fixture *f = *state;
    static const char *const uris[] = {AT "notes/b.md", AT "notes/a.md", AT "news", AT "other/x"};
    for (size_t i = 0; i < sizeof(uris) / sizeof(uris[0]); i++) {
        put(f, uris[i], "x");
    }
    check_complete(f, "", "news notes/ other/");
    check_complete(f, "n", "news notes/");
    check_complete(f, "notes/", "notes/a.md notes/b.md");
    check_complete(f, "notes/b", "notes/b.md");
    check_complete(f, "none/x", "");
    check_rows(host_complete(f->host, AT "{+path}", "other", "", 9), "");
}

static void containers_exist_while_they_have_content(void **state)
{
    struct fixture *f = *state;
    struct host_answer *a = host_stat(f->host, AT); /* the prefix always exists */
    assert_true(a->code == 0 && a->rows[0].listable);
    host_answer_free(a);
    put(f, AT "d/e/x", "1");
    put(f, AT "d/f", "1");
    a = host_stat(f->host, AT "d"); /* in the spelling that people use */
    assert_int_equal(a->code, 0);
    assert_string_equal(a->rows[0].uri, AT "d/");
    assert_string_equal(a->rows[0].name, "d");
    assert_string_equal(a->rows[0].mime_type, "inode/directory");
    host_answer_free(a);
    a = host_read(f->host, AT "d/");
    assert_string_equal(a->rows[0].bytes, "e/\nf\n");
    assert_int_equal(a->count, 2); /* and the child that is not a container */
    assert_string_equal(a->rows[1].uri, AT "d/f");
    assert_string_equal(a->rows[1].bytes, "1");
    host_answer_free(a);
    take_away(f, AT "d/e/x");
    a = host_stat(f->host, AT "d/e/");
    assert_int_equal(a->code, TIDINGS_E_NOTFOUND);
    host_answer_free(a);
}

/* ---- threads and memory ---------------------------------------------------------------------- */

#define THREADS 4u
#define ROUNDS 300u

static void *push(void *arg)
{
    struct fixture *f = arg;
    for (unsigned i = 0; i < ROUNDS; i++) {
        char text[32], uri[32];
        snprintf(text, sizeof(text), "%u %p", i, (void *)&text);
        snprintf(uri, sizeof(uri), AT "k%u", i % 7);
        put(f, uri, text);
        host_answer_free(host_read(f->host, uri));
        host_answer_free(host_list(f->host, "", 100));
        if (i % 5 == 0) {
            take_away(f, uri);
        }
    }
    return NULL;
}

static void announcements_of_several_threads_follow_the_order_of_changes(void **state)
{
    struct fixture *f = *state;
    pthread_t threads[THREADS];
    for (unsigned i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, push, f), 0);
    }
    for (unsigned i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
    }
    /* Replay: nothing is created twice, nothing is changed while it does not exist, and the last
     * announced etag is that of the served content. */
    const char *etags[7] = {NULL};
    struct host_change c;
    size_t told = 1 + host_next(f->host, 0, &c);
    for (size_t i = 0; i < told; i++) {
        host_next(f->host, i, &c);
        const char **etag = &etags[c.uri[strlen(AT "k")] - '0'];
        assert_true((c.kind == TIDINGS_CHANGE_CREATED) == (*etag == NULL));
        *etag = c.kind == TIDINGS_CHANGE_DELETED ? NULL : c.etag;
    }
    for (unsigned i = 0; i < 7; i++) {
        char uri[32];
        snprintf(uri, sizeof(uri), AT "k%u", i);
        struct host_answer *a = host_stat(f->host, uri);
        assert_int_equal(a->code, etags[i] ? 0 : TIDINGS_E_NOTFOUND);
        if (etags[i]) {
            assert_string_equal(a->rows[0].etag, etags[i]);
        }
        host_answer_free(a);
    }
}

static void publishing_reports_any_failed_allocation(void **state)
{
    (void)state;
    bool reached = true;
    for (long n = 1; reached; n++) {
        struct fixture f = {NULL, NULL};
        struct tidings_error err = {0, ""};
        max_count = 100;
        max_bytes = 1u << 20;
        fail_alloc_start(n);
        f.store = published_create(&max_count, &max_bytes, &err);
        f.host = host_open(&provider_published_ops, AT, "", &err);
        if (f.store) {
            published_bind(host_provider(f.host), f.store);
            int put_code = put(&f, AT "a/b", "1");
            assert_true(put_code == 1 || put_code == TIDINGS_E_NOMEM);
            assert_int_equal(host_untaken(f.host, NULL), put_code == 1);
            (void)published_reserve(f.store, STR(AT "r"), NULL);
            host_answer_free(host_read(f.host, AT "a"));
            host_answer_free(host_children(f.host, AT "a", "", 10));
            host_answer_free(host_stat(f.host, AT "a"));
        }
        reached = fail_alloc_stop();
        host_close(f.host);
        published_destroy(f.store);
        assert_int_equal(fail_alloc_live(), 0);
    }
    fail_alloc_end();
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(newest_content_is_served_and_described),
        TEST(text_reads_as_text_and_bytes_as_a_blob),
        TEST(content_is_not_sent_if_the_client_has_it),
        TEST(changes_are_announced_but_not_repetitions),
        TEST(changed_description_is_announced),
        TEST(failed_condition_changes_nothing),
        TEST(full_store_rejects_new_content_and_keeps_the_old),
        TEST(uri_is_either_registered_or_published),
        TEST(client_writes_use_the_same_conditions),
        TEST(lists_and_children_are_paged_in_order),
        TEST(paths_are_completed_one_container_at_a_time),
        TEST(containers_exist_while_they_have_content),
        TEST(announcements_of_several_threads_follow_the_order_of_changes),
        cmocka_unit_test(publishing_reports_any_failed_allocation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
