/* SPDX-License-Identifier: MIT
 *
 * Watching files: scopes that overlap, appear, disappear and linger. No change is lost when the
 * kernel does not report it or when everything happens at once. */
#include <pthread.h>

#include "base/str.h"
#include "support/file_watch_overflow.h"
#include "support/file_watching.h"

/* ---- scopes ---------------------------------------------------------------------------------- */

static void file_is_watched_without_its_neighbours(void **state)
{
    struct fixture *f = *state;
    make_dir(f, "d");
    put(f, "d/a", "one");
    put(f, "d/b", "one");
    serve(f, QUICK);
    watch(f, MOUNT "d/a");
    put(f, "d/b", "two");
    put(f, "d/c", "new");
    put(f, "d/a", "two!");
    expect(f, UPDATED, MOUNT "d/a");
    assert_int_equal(host_untaken(f->host, NULL), 0);
    remove_file(f, "d/a");
    expect(f, DELETED, MOUNT "d/a");
    put(f, "d/a", "again");
    expect(f, CREATED, MOUNT "d/a");
}

static void missing_scope_is_announced_when_it_appears(void **state)
{
    struct fixture *f = *state;
    serve(f, QUICK);
    watch(f, MOUNT "a/b/c/");
    watch(f, MOUNT "a/b/later.txt");
    make_dir(f, "a");
    put(f, "a/ignored", "x");
    make_dir(f, "a/b");
    put(f, "a/b/ignored", "x");
    put(f, "a/b/later.txt", "x");
    expect(f, CREATED, MOUNT "a/b/later.txt");
    make_dir(f, "a/b/c");
    make_dir(f, "a/b/c/d");
    put(f, "a/b/c/d/x", "x");
    expect(f, CREATED, MOUNT "a/b/c/");
    expect(f, CREATED, MOUNT "a/b/c/d/");
    expect(f, CREATED, MOUNT "a/b/c/d/x");
    assert_int_equal(host_untaken(f->host, MOUNT "a/ignored"), 0);
    assert_int_equal(host_untaken(f->host, MOUNT "a/b/ignored"), 0);
}

static void scope_is_deleted_and_recreated_if_its_ancestor_moves(void **state)
{
    struct fixture *f = *state;
    make_dir(f, "a");
    make_dir(f, "a/b");
    put(f, "a/b/x", "x");
    serve(f, QUICK);
    watch(f, MOUNT "a/b/");
    move(f, "a", "elsewhere");
    expect(f, DELETED, MOUNT "a/b/x");
    expect(f, DELETED, MOUNT "a/b/");
    put(f, "elsewhere/b/y", "y");
    move(f, "elsewhere", "a");
    expect(f, CREATED, MOUNT "a/b/x");
    expect(f, CREATED, MOUNT "a/b/y");
    put(f, "a/b/x", "more");
    expect(f, UPDATED, MOUNT "a/b/x");
    assert_int_equal(host_untaken(f->host, MOUNT "elsewhere/"), 0);
}

static void overlapping_scopes_announce_once_and_end_independently(void **state)
{
    struct fixture *f = *state;
    make_dir(f, "d");
    make_dir(f, "d/e");
    put(f, "d/a", "x");
    put(f, "d/e/b", "x");
    serve(f, ", \"quietMs\": 5, \"lingerMs\": 0");
    watch(f, MOUNT "d/a");
    watch(f, MOUNT "d/");
    watch(f, MOUNT "d/e/");
    put(f, "d/e/b", "more");
    expect(f, UPDATED, MOUNT "d/e/b");
    put(f, "d/a", "more");
    expect(f, UPDATED, MOUNT "d/a");
    assert_int_equal(host_untaken(f->host, NULL), 0); /* each once */
    host_unwatch(f->host, MOUNT "d/");
    watch(f, MOUNT "barrier"); /* letters keep their order: the unwatch was delivered */
    put(f, "d/e/b", "and more");
    expect(f, UPDATED, MOUNT "d/e/b");
    put(f, "d/a", "and more");
    expect(f, UPDATED, MOUNT "d/a");
}

/* Another client may request a name before the watch announces it as new. */
static void new_file_is_announced_although_watched_by_name_first(void **state)
{
    struct fixture *f = *state;
    make_dir(f, "d");
    serve(f, ", \"quietMs\": 100, \"lingerMs\": 60000");
    watch(f, MOUNT "d/");
    watch(f, MOUNT "later/");
    put(f, "d/a", "x");
    make_dir(f, "later");
    make_dir(f, "later/e");
    put(f, "later/e/b", "x");
    watch(f, MOUNT "d/a");
    watch(f, MOUNT "later/e/b");
    expect(f, CREATED, MOUNT "d/a");
    expect(f, CREATED, MOUNT "later/");
    expect(f, CREATED, MOUNT "later/e/");
    expect(f, CREATED, MOUNT "later/e/b");
    /* A scan of new directories may find the file before its content, so an update is possible. */
    assert_int_equal(host_untaken(f->host, MOUNT "d/a"), 0);
    assert_int_equal(host_untaken(f->host, MOUNT "later/"), 0);
    assert_int_equal(host_untaken(f->host, MOUNT "later/e/"), 0);
}

static void baseline_scan_announces_nothing(void **state)
{
    struct fixture *f = *state;
    make_dir(f, "d");
    put(f, "d/a", "x");
    put(f, "d/b", "x");
    put(f, "c", "x");
    serve(f, QUICK);
    watch(f, MOUNT "d/a");
    watch(f, MOUNT "d/");
    watch(f, MOUNT);
    assert_int_equal(host_untaken(f->host, NULL), 0);
    expect_no_more(f);
}

static void new_watch_after_lingering_announces_changes(void **state)
{
    struct fixture *f = *state;
    make_dir(f, "d");
    make_dir(f, "d/e");
    put(f, "d/same", "x");
    put(f, "d/changed", "x");
    put(f, "d/e/deleted", "x");
    serve(f, ", \"quietMs\": 1, \"lingerMs\": 0");
    watch(f, MOUNT "d/");
    watch(f, MOUNT "never");
    host_unwatch(f->host, MOUNT "d/");
    host_unwatch(f->host, MOUNT "never");
    /* Until the timer fires, the scope may still announce; a change that is not announced proves
     * that it fired. */
    for (int i = 0; i < 1000; i++) {
        watch(f, MOUNT "probe");
        char name[32], uri[64];
        (void)snprintf(name, sizeof name, "d/p%d", i);
        (void)snprintf(uri, sizeof uri, MOUNT "%s", name);
        put(f, name, "");
        put(f, "probe", "");
        host_await(f->host, i == 0 ? CREATED : UPDATED, MOUNT "probe");
        size_t heard = host_untaken(f->host, uri);
        host_unwatch(f->host, MOUNT "probe");
        if (heard == 0) {
            break;
        }
        assert_true(i < 999);
    }
    host_forget(f->host);
    put(f, "d/changed", "more");
    put(f, "d/new", "x");
    remove_file(f, "d/e/deleted");
    make_dir(f, "d/e/newdir");
    put(f, "never", "now it is");
    watch(f, MOUNT "d/");
    watch(f, MOUNT "never");
    /* Announced before the watch was acknowledged, so no wait is needed; host_await does not wait.
     * */
    expect(f, UPDATED, MOUNT "d/changed");
    expect(f, CREATED, MOUNT "d/new");
    expect(f, DELETED, MOUNT "d/e/deleted");
    expect(f, CREATED, MOUNT "d/e/newdir/");
    expect(f, CREATED, MOUNT "never");
    assert_int_equal(host_untaken(f->host, MOUNT "d/same"), 0);
    put(f, "d/e/newdir/x", "x");
    expect(f, CREATED, MOUNT "d/e/newdir/x");
}

/* ---- at random ------------------------------------------------------------------------------- */

#define MODEL_MAX 4000u

/* The files that exist according to the announcements. */
struct model {
    char *uris[MODEL_MAX];
    size_t count;
    size_t taken; /* changes merged into it */
};

static size_t model_find(const struct model *m, const char *uri)
{
    size_t i = 0;
    while (i < m->count && strcmp(m->uris[i], uri) != 0) {
        i++;
    }
    return i;
}

static void model_apply(struct model *m, const struct host_change *c)
{
    size_t i = model_find(m, c->uri);
    bool is_there = i < m->count;
    if (is_there != (c->kind != CREATED)) {
        fail_msg("%s of '%s', which %s", c->kind == CREATED ? "creation" : "change", c->uri,
                 is_there ? "exists" : "does not exist");
    }
    if (c->kind == CREATED) {
        assert_true(m->count < MODEL_MAX);
        m->uris[m->count++] = str_dup(tidings_str(c->uri));
    } else if (c->kind == DELETED) {
        mem_free(m->uris[i]);
        m->uris[i] = m->uris[--m->count];
    }
}

static bool model_agrees(const struct model *m, struct host *h)
{
    struct host_answer *a = host_list(h, "", MODEL_MAX);
    bool agrees = a->code == 0 && a->count == m->count;
    for (size_t i = 0; agrees && i < a->count; i++) {
        agrees = model_find(m, a->rows[i].uri) < m->count;
    }
    host_answer_free(a);
    return agrees;
}

static unsigned next_random(unsigned *seed)
{
    *seed = *seed * 1103515245u + 12345u;
    return *seed >> 16;
}

static void random_path(unsigned *seed, char *out, size_t size)
{
    unsigned depth = 1 + next_random(seed) % 3;
    out[0] = '\0';
    for (unsigned i = 0; i < depth; i++) {
        size_t len = strlen(out);
        (void)snprintf(out + len, size - len, "%s%c", i ? "/" : "",
                       'a' + (int)(next_random(seed) % 3));
    }
}

/* Most of these fail, which is expected. */
static void random_step(const struct fixture *f, unsigned *seed)
{
    char path[32], other[32];
    random_path(seed, path, sizeof path);
    random_path(seed, other, sizeof other);
    int fd;
    switch (next_random(seed) % 8) {
    case 0:
    case 1:
        (void)mkdir(at(f, path), 0755);
        break;
    case 2:
    case 3:
        fd = open(at(f, path), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
        if (fd >= 0) {
            (void)!write(fd, "x", 1);
            close(fd);
        }
        break;
    case 4:
        (void)unlink(at(f, path));
        break;
    case 5:
        (void)remove_tree(at(f, path));
        break;
    default:
        (void)rename(at(f, path), at(f, other));
        break;
    }
}

static void run_at_random(struct fixture *f, const char *config)
{
    for (unsigned run = 0; run < 12; run++) {
        unsigned seed = run * 7919 + 1;
        struct model m = {0};
        print_message("seed %u\n", seed);
        serve(f, config);
        watch(f, MOUNT);
        for (int i = 0; i < 150; i++) {
            random_step(f, &seed);
        }
        put(f, "end", "");
        while (!model_agrees(&m, f->host)) {
            struct host_change c;
            size_t more;
            do {
                more = host_next(f->host, m.taken, &c);
                m.taken++;
                model_apply(&m, &c);
            } while (more > 0);
        }
        while (m.count > 0) {
            mem_free(m.uris[--m.count]);
        }
        host_close(f->host);
        f->host = NULL;
        assert_int_equal(remove_tree(f->root), 0);
        assert_int_equal(mkdir(f->root, 0755), 0);
    }
}

static void announced_changes_match_the_existing_files(void **state)
{
    run_at_random(*state, ", \"quietMs\": 3, \"pollMs\": 100");
}

static void announced_changes_match_the_existing_files_if_polled(void **state)
{
    run_at_random(*state, ", \"quietMs\": 3, \"pollMs\": 20, \"maxWatches\": 2");
}

/* ---- the kernel does not report changes ------------------------------------------------------ */

static void overflow_loses_no_change(void **state)
{
    struct fixture *f = *state;
    struct hold h;
    make_dir(f, "d");
    put(f, "d/deleted", "x");
    put(f, "d/changed", "x");
    serve_and_watch(f);
    hold_begin(&h, f);
    put(f, "d/noise", "");
    hold_overflow(&h, f, "d/noise", "d/deleted");
    remove_file(f, "d/deleted");
    put(f, "d/changed", "more");
    make_dir(f, "d/late");
    put(f, "d/late/x", "x");
    hold_end(&h);
    expect(f, CREATED, MOUNT "d/noise");
    expect(f, DELETED, MOUNT "d/deleted");
    expect(f, UPDATED, MOUNT "d/changed");
    expect(f, CREATED, MOUNT "d/late/");
    expect(f, CREATED, MOUNT "d/late/x");
    put(f, "d/late/y", "y");
    expect(f, CREATED, MOUNT "d/late/y");
    expect_no_more(f);
    hold_deinit(&h);
}

static void directories_beyond_the_limit_are_polled(void **state)
{
    struct fixture *f = *state;
    char path[32], uri[64];
    for (int i = 0; i < 8; i++) {
        (void)snprintf(path, sizeof path, "d%d", i);
        make_dir(f, path);
        (void)snprintf(path, sizeof path, "d%d/x", i);
        put(f, path, "x");
    }
    serve(f, ", \"quietMs\": 5, \"pollMs\": 20, \"maxWatches\": 3");
    watch(f, MOUNT);
    for (int i = 0; i < 8; i++) {
        (void)snprintf(path, sizeof path, "d%d/x", i);
        put(f, path, "more");
        (void)snprintf(uri, sizeof uri, MOUNT "d%d/x", i);
        expect(f, UPDATED, uri);
        (void)snprintf(path, sizeof path, "d%d/sub", i);
        make_dir(f, path);
        (void)snprintf(path, sizeof path, "d%d/sub/y", i);
        put(f, path, "y");
        (void)snprintf(uri, sizeof uri, MOUNT "d%d/sub/y", i);
        expect(f, CREATED, uri);
        (void)snprintf(path, sizeof path, "d%d", i);
        assert_int_equal(remove_tree(at(f, path)), 0);
        (void)snprintf(uri, sizeof uri, MOUNT "d%d/", i);
        expect(f, DELETED, uri);
    }
}

static void everything_is_polled_without_kernel_watches(void **state)
{
    struct fixture *f = *state;
    put(f, "a", "x");
    serve(f, ", \"pollMs\": 20, \"maxWatches\": 0");
    watch(f, MOUNT "a");
    watch(f, MOUNT "d/");
    put(f, "a", "more");
    expect(f, UPDATED, MOUNT "a");
    make_dir(f, "d");
    put(f, "d/x", "x");
    expect(f, CREATED, MOUNT "d/x");
    remove_file(f, "a");
    expect(f, DELETED, MOUNT "a");
}

static void watch_closes_cleanly_during_many_changes(void **state)
{
    struct fixture *f = *state;
    serve_and_watch(f);
    for (int i = 0; i < 200; i++) {
        char name[32];
        (void)snprintf(name, sizeof name, "f%d", i);
        put(f, name, "x");
    }
    host_close(f->host);
    f->host = NULL;
}

int main(void)
{
#define WATCH_TEST(name) cmocka_unit_test_setup_teardown(name, fixture_open, fixture_close)
    const struct CMUnitTest tests[] = {
        WATCH_TEST(file_is_watched_without_its_neighbours),
        WATCH_TEST(missing_scope_is_announced_when_it_appears),
        WATCH_TEST(scope_is_deleted_and_recreated_if_its_ancestor_moves),
        WATCH_TEST(overlapping_scopes_announce_once_and_end_independently),
        WATCH_TEST(new_file_is_announced_although_watched_by_name_first),
        WATCH_TEST(baseline_scan_announces_nothing),
        WATCH_TEST(new_watch_after_lingering_announces_changes),
        WATCH_TEST(announced_changes_match_the_existing_files),
        WATCH_TEST(announced_changes_match_the_existing_files_if_polled),
        WATCH_TEST(overflow_loses_no_change),
        WATCH_TEST(directories_beyond_the_limit_are_polled),
        WATCH_TEST(everything_is_polled_without_kernel_watches),
        WATCH_TEST(watch_closes_cleanly_during_many_changes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
